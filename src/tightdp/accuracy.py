"""The error to expect, before anything is spent; and the epsilon that an error asks for.

Everything here uses public facts alone, or a sample that the caller says is public. Errors are
those of the noise: sampling error and the clamp are not included. Where an error depends on the
rows (quantiles, models), rows that fill their bounds evenly are assumed, or simulated from the
sample, and the preview says so. Of a quantile only the error in ranks can be promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.accounting.caps import Cap
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.statistics import Statistic, Sums
from tightdp.errors import (
    FloatArray,
    Integers,
    UndecidedError,
    check_choice,
    check_count,
    check_filled,
    check_length,
    check_positive,
    check_probability,
    exact_amount,
    fail,
)
from tightdp.ledger.amounts import check_any_cap
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.preview import MEAN_AT_BOUND, ORDERED_ROWS, KeysPreview, Preview, of_rows, spread
from tightdp.printed import html_table, text_table
from tightdp.privacy import text_up
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.schema import Category, Interval, Schema

_SEED = 20_260_101  # simulations of public models: repeatable, and no privacy is at stake
_TABLES = 8
_FAINT = Fraction(1000)  # an epsilon whose noise is invisible beside any other
_LEAST, _MOST = 2.0**-20, 1000.0
_CLOSE = 1.0002
_PLACES = 12


@runtime_checkable
class Releasable(Protocol):
    """What can be released on a table at any epsilon: the requests of a plan."""

    schema: Schema

    @property
    def columns(self) -> tuple[str, ...]: ...

    def at(self, epsilon: Number) -> Releasable: ...

    def settled(self) -> Releasable: ...

    def preview(self, confidence: float = 0.95) -> Preview: ...

    def values(self, frame: TableLike, *, rng: RandomLike) -> FloatArray: ...


def preview(
    what: object,
    *,
    confidence: float = 0.95,
    sample: TableLike | None = None,
    replicates: int = 200,
    rng: RandomLike = None,
) -> Preview:
    """The standard error and the simultaneous interval to expect from a release; costs nothing.

    Parameters
    ----------
    what : mechanism, or request of a plan
    confidence : float
    sample : table, optional
        Public rows, for instance synthetic ones or those of an earlier publication. The request is
        then simulated on tables of the declared number of rows drawn from them, and its errors are
        taken against the same request with next to no noise. **Never give private rows here.**
    replicates : int
        Simulated releases; the standard errors are good to about ``70 / sqrt(replicates)`` percent.
    rng : optional
        For the simulation; by default it is the same one every time.

    Examples
    --------
    >>> from tightdp import KNormQuantile
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> preview(KNormQuantile(schema, "age", 0.5, epsilon=1)).std.round(2)  # for evenly spread ages
    array([0.28])
    """
    level = check_probability("confidence", confidence)
    if sample is None:
        return _expected(what, level)
    if not isinstance(what, Releasable):
        fail("`sample` needs a request to simulate: make it with tightdp.plans.request.")
    return simulate(what, sample, level, replicates, source(_SEED if rng is None else rng))


# --- from public facts ---------------------------------------------------------------------------


def _expected(what: object, confidence: float) -> Preview:
    own = getattr(what, "preview", None)
    if own is None:
        fail(f"`what` must be a mechanism or a request. Got {type(what).__name__}.")
    found: Preview = own(confidence)
    return found


# --- by simulation -------------------------------------------------------------------------------


def simulate(
    request: Releasable, sample: TableLike, confidence: float, replicates: int, rng: RandomSource
) -> Preview:
    """Errors of simulated releases on tables of the declared size, drawn from public rows."""
    count = check_count("replicates", replicates, least=20)
    plain = request.preview(confidence)
    if isinstance(plain, KeysPreview):  # whatever the rows
        return plain
    request = request.settled()
    exact, errors = request.at(_FAINT), []
    for i in range(_TABLES):  # several: the rows around a quantile differ from table to table
        table = resampled(sample, request.schema, request.columns, rng)
        truth = exact.values(table, rng=rng)
        found = [request.values(table, rng=rng) for _ in range(i, count, _TABLES)]
        errors += [value - truth for value in found]
    std, half = spread(np.array(errors), confidence)
    rows = of_rows(request.schema, "rows like those of the sample")
    return Preview(plain.names, std, half, confidence, plain.guarantee, plain.noise, rows)


def resampled(
    sample: TableLike, schema: Schema, columns: tuple[str, ...], rng: RandomSource
) -> dict[str, Any]:
    """As many rows as the schema declares, drawn with replacement from the quantised sample.

    Everybody has one row: the noise is that for as many as the schema allows.
    """
    few = Schema(schema.select(columns), rows=schema.rows, bits=schema.bits)
    cells = quantized_matrix(sample, few, columns)
    check_filled("sample", cells, "row")
    rows = cells[rng.integers(len(cells), schema.rows)]
    table = {name: _cells(schema[name], rows[:, j], few) for j, name in enumerate(columns)}
    return table if schema.person is None else table | {schema.person: np.arange(schema.rows)}


def _cells(rule: Interval | Category, integers: Integers, schema: Schema) -> NDArray[Any]:
    if isinstance(rule, Interval):
        return rule.middle + rule.half * integers / schema.resolution
    return np.array(rule.levels, dtype=object)[integers]


# --- the inverse questions -----------------------------------------------------------------------


def epsilon_for(
    what: object,
    *,
    error: object = None,
    ranks: object = None,
    confidence: float = 0.95,
    noise: object = "best",
    assume_rows: bool = False,
) -> float:
    """The least epsilon at which all entries are within ``error`` at once, with this confidence.

    Errors are those of the noise, in the units of the release (see :func:`preview`). How far off a
    quantile is in its own unit depends on the rows: no epsilon promises it, and it is refused.
    Public facts do promise how many ranks it is off: ask with ``ranks``.

    Parameters
    ----------
    what : Statistic, request of a plan, or function of epsilon that gives a mechanism
    error : number, list of numbers, or mapping of names to numbers
        The half-width wanted for every entry, for each of them, or for the named ones.
    ranks : number, list of numbers, or mapping of names to numbers
        Instead of ``error``, for quantiles: so many rows may lie between the release and the
        quantile, whatever the rows.
    confidence : float
    noise : str or NormBall
        The shape, for statistics.
    assume_rows : bool
        Whether the private rows are such as :func:`preview` says it assumes. Errors of models, and
        of means where the number of rows is private, are known for such rows only, and no epsilon
        promises them for others: without this they are refused.

    Returns
    -------
    float
        With four digits; at it the error is met, which is checked.

    Examples
    --------
    >>> from tightdp import Histogram, KNormQuantile
    >>> ages = Histogram(Schema({"age": Interval(0, 100)}, rows=5000), "age", 5)
    >>> epsilon_for(ages, error=20)
    0.3343
    >>> AdditiveMechanism(ages, noise="best", epsilon=0.3343).preview().half_width[0] <= 20
    np.True_
    >>> schema = Schema({"age": Interval(0, 100)}, rows=5000)
    >>> epsilon_for(lambda e: KNormQuantile(schema, "age", 0.5, epsilon=e), ranks=50)  # 1 %
    0.5912
    """
    level = check_probability("confidence", confidence)
    at = _maker(what, noise)
    if (error is None) == (ranks is None):
        fail("Give `error`, in the units of the release, or `ranks`, for quantiles.")

    def meets(epsilon: float) -> bool:
        found = _expected(at(epsilon), level)
        if ranks is not None:
            return bool((_ranks(found) <= _wanted(ranks, found.names)).all())
        check_promised(found, assume_rows=assume_rows)
        return bool((found.half_width <= _wanted(error, found.names)).all())

    low, high = _bracket(meets)
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return _short(high, meets)


def check_promised(found: Preview, *, assume_rows: bool) -> None:
    """Refuse to promise an error that rests on rows that nobody stated.

    The error of a quantile in its own unit is refused in any case: a gap between rows breaks it.
    """
    if found.unknown or not len(found.half_width) or np.isnan(found.half_width).any():
        fail(f"`error` cannot be promised: {found.note}.", UndecidedError)
    if found.assumes.startswith(ORDERED_ROWS):
        remedy = "ask in `ranks`" if found.ranks is not None else "ask for each level by itself"
        fail(
            "`error` of a quantile cannot be promised in its own unit: it is as large as the gap "
            f"between the rows around it, which is private. Instead, {remedy}, or simulate it on "
            "a public sample with `preview`.",
            UndecidedError,
        )
    if found.assumes and found.assumes != MEAN_AT_BOUND and not assume_rows:
        fail(
            f"`error` cannot be promised: it is known only for {found.assumes}. Say with "
            "`assume_rows=True` that this is so, or look at `preview`.",
            UndecidedError,
        )


def _ranks(found: Preview) -> FloatArray:
    if found.ranks is None:
        fail("`ranks` are for quantiles that are released one by one. Give `error` instead.")
    return found.ranks


def _bracket(meets: Callable[[float], bool]) -> tuple[float, float]:
    """Two epsilons, the larger of which meets the wish."""
    high = 1.0
    while not meets(high):
        high *= 4
        if high > _MOST:
            fail(
                f"`error` cannot be met with an epsilon up to {_MOST:g}: allow a larger error.",
                UndecidedError,
            )
    low = high / 4
    while low > _LEAST and meets(low):
        low, high = low / 4, low
    return low, high


def _short(epsilon: float, meets: Callable[[float], bool]) -> float:
    """Four digits, rounded up until the wish is met."""
    unit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 3)
    steps = math.ceil(Fraction(epsilon) / unit)
    while not meets(float(steps * unit)):
        steps += 1
    return float(steps * unit)


def _maker(what: object, noise: object) -> Callable[[float], Any]:
    if isinstance(what, Statistic):
        return lambda epsilon: AdditiveMechanism(what, noise=noise, epsilon=epsilon)
    if hasattr(what, "at"):
        return lambda epsilon: what.at(epsilon)
    if callable(what):
        return lambda epsilon: what(epsilon)
    fail(
        "`what` must be a Statistic, a request of a plan, or a function of epsilon that gives a "
        f"mechanism. Got {type(what).__name__}."
    )


def _wanted(error: object, names: tuple[str, ...]) -> FloatArray:
    """The half-width wanted for every entry; infinite for those that are not named."""
    if isinstance(error, Mapping):
        for name in error:
            check_choice("error", name, names)
        return np.array([check_positive("error", error.get(name, 1e300)) for name in names])
    if isinstance(error, (list, tuple, np.ndarray)):
        check_length("error", len(error), len(names), "numbers")
        return np.array([check_positive("error", item) for item in error])
    return np.full(len(names), check_positive("error", error))


@dataclass(frozen=True, slots=True, eq=False)
class BudgetSplit:
    """Shares of a budget that serve all wishes about alike.

    ``ratio`` is the largest error over the wished one. Errors of whole numbers go in steps, and
    with plenty of budget they vanish, so that some releases do better than that. At most 1 means
    that all wishes are met; ``needed`` is the epsilon that meets them. ``as_one`` is the same ratio
    if all sums are released as one vector, at the whole epsilon, where that is possible: one person
    cannot move all of them at once as far as each.
    """

    epsilon: dict[str, Fraction]
    ratio: float
    needed: float
    as_one: float | None = None

    @property
    def reached(self) -> bool:
        """Whether every release is as accurate as wished."""
        return self.ratio <= 1

    def __str__(self) -> str:
        return "\n".join([*text_table(self._rows()), "", self._verdict()])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self._verdict())

    def _rows(self) -> list[tuple[str, str]]:
        body = [(name, text_up(part)) for name, part in self.epsilon.items()]
        return [("release", "epsilon"), *body]

    def _verdict(self) -> str:
        needed = f"they need {text_up(self.needed, 4)} in all"
        verdict = "all wishes are met" if self.reached else needed
        said = f"errors are at most {text_up(self.ratio, 4)} times those wished: {verdict}"
        if self.as_one is not None and self.as_one < self.ratio:
            said += (
                f"; released as one vector they are at most {text_up(self.as_one, 4)} times those"
            )
        return said


def split_budget(
    releases: Mapping[str, Any],
    *,
    epsilon: Number | None = None,
    errors: Mapping[str, Any],
    ranks: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    assume_rows: bool = False,
    delta: Number = 0,
    rho: Number | None = None,
    accountant: str | None = None,
    slack: Number = 0,
) -> BudgetSplit:
    """Shares of a total budget such that all releases miss their wishes by about one factor.

    Parameters
    ----------
    releases : mapping from names to what :func:`epsilon_for` takes
    epsilon : float, Fraction or Decimal
        The total; the shares add up to it exactly, where epsilons are added.
    errors : mapping from names to wished errors
    ranks : mapping from names to wished errors in ranks, optional
        For quantiles, instead of an error.
    confidence : float
    assume_rows : bool
        As for :func:`epsilon_for`.
    delta, rho, accountant, slack :
        The budget of a :class:`~tightdp.Ledger` that adds something else: the epsilons of all
        releases are then chosen so that their costs together fit it, and are worth more than it.

    Examples
    --------
    >>> from tightdp import Histogram, Sums
    >>> schema = Schema({"age": Interval(0, 100)}, rows=5000)
    >>> wishes = {"total": Sums(schema, ["age"]), "ages": Histogram(schema, "age", 5)}
    >>> split = split_budget(wishes, epsilon=1, errors={"total": 500, "ages": 20})
    >>> {name: round(float(part), 2) for name, part in split.epsilon.items()}, split.reached
    ({'total': 0.63, 'ages': 0.37}, True)
    >>> monthly = dict.fromkeys([f"month {k}" for k in range(40)], wishes["total"])
    >>> year = {"epsilon": 1, "delta": 1e-6, "accountant": "zcdp"}
    >>> split = split_budget(monthly, errors=dict.fromkeys(monthly, 10_000), **year)
    >>> round(split.ratio, 2)  # with epsilons that are added it is 1.2
    0.86
    """
    level = check_probability("confidence", confidence)
    cap = check_any_cap(accountant, epsilon=epsilon, delta=delta, rho=rho, slack=slack)
    wishes = {name: {"error": wish} for name, wish in errors.items()}
    wishes |= {name: {"ranks": wish} for name, wish in (ranks or {}).items()}
    if not releases or set(releases) != set(wishes) or len(wishes) < len(errors) + len(ranks or {}):
        fail("`errors` and `ranks` must hold one wish for every release, and there must be one.")

    known: dict[tuple[int, str], float] = {}  # the same question may be asked many times

    def need(name: str, ratio: float) -> float:
        what, wish = releases[name], {k: _times(v, ratio) for k, v in wishes[name].items()}
        asked = id(what), repr(wish)
        if asked not in known:
            known[asked] = epsilon_for(what, confidence=level, assume_rows=assume_rows, **wish)
        return known[asked]

    def needs(ratio: float) -> dict[str, float]:
        return {name: need(name, ratio) for name in releases}

    def spent(parts: Mapping[str, Any]) -> Fraction:
        return _spent(cap, releases, parts)

    # costs in rho and mu**2 grow with the square of epsilon, while errors fall with epsilon
    power = 1.0 if cap.accountant == "sum" else 0.5
    ratio, parts = 1.0, needs(1.0)
    needed = _worth(cap, spent(parts))
    for _ in range(6):
        off = float(spent(parts) / cap.amount) ** power
        if abs(off - 1) < 1e-3:
            break
        ratio *= off
        try:
            parts = needs(ratio)
        except UndecidedError:  # plenty of budget: below the grid no epsilon is large enough
            break
    weights = [exact_amount("weight", part) for part in parts.values()]
    given = shares(cap.amount, weights) if cap.accountant == "sum" else _within(parts, spent, cap)
    worst = _ratio(releases, given, wishes, level)
    found = dict(zip(parts, given, strict=True))
    return BudgetSplit(found, worst, needed, _as_one(cap, releases, errors, level))


def _spent(cap: Cap, releases: Mapping[str, Any], parts: Mapping[str, Any]) -> Fraction:
    """What the releases cost together, in the unit of the cap."""
    if cap.accountant == "sum":
        return sum((exact_amount("epsilon", part) for part in parts.values()), Fraction(0))
    booked: dict[tuple[int, Any], Fraction] = {}
    total = Fraction(0)
    for name, what in releases.items():
        asked = id(what), parts[name]
        if asked not in booked:
            made = _maker(what, "best")(parts[name])
            booked[asked] = cap.booked(getattr(made, "mechanism", made).cost)[0]
        total += booked[asked]
    return total


def _worth(cap: Cap, amount: Fraction) -> float:
    """The epsilon that a ledger would need for so much, at the delta of this one."""
    if cap.accountant == "sum":
        return float(amount)
    if cap.delta is None:
        return math.nan
    return float(cap.epsilon_at(amount, cap.slack, cap.delta) or 0)


def _within(
    parts: Mapping[str, float], spent: Callable[[Mapping[str, Any]], Fraction], cap: Cap
) -> list[Fraction]:
    """The epsilons, in short decimals, lowered until their costs fit."""
    unit, factor = Fraction(1, 10**_PLACES), Fraction(1)
    while True:
        given = {name: factor * Fraction(part) // unit * unit for name, part in parts.items()}
        over = spent(given) / cap.amount
        if over <= 1:
            return list(given.values())
        factor *= min(1 - Fraction(1, 10**6), 1 - (Fraction(float(over)) - 1) / 2)


def _as_one(
    cap: Cap, releases: Mapping[str, Any], errors: Mapping[str, Any], level: float
) -> float | None:
    """The largest error over the wished one if all are sums and are released as one vector."""
    sums = list(releases.values())
    alike = all(type(each) is Sums and each.schema is sums[0].schema for each in sums)
    if cap.accountant != "sum" or len(sums) < 2 or not alike or set(errors) != set(releases):
        return None
    names = [name for each in sums for name in each.names]
    if len(set(names)) < len(names):
        return None
    found = AdditiveMechanism(Sums(sums[0].schema, names), noise="best", epsilon=cap.amount)
    half = dict(zip(names, found.preview(level).half_width, strict=True))
    wanted = [
        (name, wish)
        for key, each in releases.items()
        for name, wish in zip(each.names, _wanted(errors[key], each.names), strict=True)
    ]
    return max(float(half[name] / wish) for name, wish in wanted)


def _ratio(
    releases: Mapping[str, Any],
    given: list[Fraction],
    wishes: Mapping[str, dict[str, Any]],
    level: float,
) -> float:
    """The largest error over the wished one."""
    worst = 0.0
    seen: dict[tuple[int, Fraction], Preview] = {}
    for (name, what), part in zip(releases.items(), given, strict=True):
        asked = id(what), part
        if asked not in seen:
            seen[asked] = _expected(_maker(what, "best")(part), level)  # type: ignore[arg-type]
        found = seen[asked]
        for kind, wish in wishes[name].items():
            size = _ranks(found) if kind == "ranks" else found.half_width
            worst = max(worst, float(np.max(size / _wanted(wish, found.names))))
    return worst


def _times(error: object, factor: float) -> Any:
    if isinstance(error, Mapping):
        return {name: factor * item for name, item in error.items()}
    if isinstance(error, (list, tuple, np.ndarray)):
        return [factor * item for item in error]
    return factor * check_positive("error", error)


def shares(total: Fraction, weights: list[Fraction]) -> list[Fraction]:
    """A total shared in proportion to weights, in decimals that add up to it (rounded down).

    A ledger reads an epsilon as a short decimal: thirds of 1 must not add up to more than 1.

    >>> shares(Fraction(1), [Fraction(1)] * 3)[0]
    Fraction(333333333333, 1000000000000)
    >>> sum(shares(Fraction(1), [Fraction(1)] * 3))
    Fraction(1, 1)
    """
    unit = Fraction(1, 10**_PLACES)
    whole = total // unit * unit
    parts = [whole * weight / sum(weights) // unit * unit for weight in weights]
    parts[-1] += whole - sum(parts)
    return parts
