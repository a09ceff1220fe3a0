"""The error to expect, before anything is spent; and the epsilon that an error asks for.

Everything here uses public facts alone, or a sample that the caller says is public. Errors are
those of the noise: sampling error and the clamp are not included. Where an error depends on the
rows (quantiles, models), rows that fill their bounds evenly are assumed, or simulated from the
sample, and the preview says so. Of a quantile only the error in ranks can be promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.statistics import Statistic
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
    fail,
)
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.simulated_previews import FAINT
from tightdp.parameters import tells_arguments
from tightdp.preview import (
    MEAN_AT_BOUND,
    ORDERED_ROWS,
    KeysPreview,
    Preview,
    of_rows,
    spread,
)
from tightdp.printed import short
from tightdp.privacy import EPSILON_CEILING
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.schema import Category, Interval, Schema

_SEED = 20_260_101  # simulations of public models: repeatable, and no privacy is at stake
_TABLES = 8
_LEAST, _MOST = 2.0**-20, float(EPSILON_CEILING)
_CLOSE = 1.0002
_ONE_WAY = (
    "Give `error`, in the units of the release, or `ranks`, for quantiles; neither for a book of "
    "tables that has `targets`."
)


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
        return expected_error(what, level)
    if not isinstance(what, Releasable):
        fail("`sample` needs a request to simulate: make it with tightdp.plans.request.")
    return simulate(what, sample, level, replicates, source(_SEED if rng is None else rng))


# --- from public facts ---------------------------------------------------------------------------


def expected_error(what: object, confidence: float) -> Preview:
    """What a mechanism or a request says of itself."""
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
    exact, errors = request.at(FAINT), []
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
        numbers = rule.middle + rule.half * integers / schema.resolution
        return rule.cells(numbers if rule.clock is None else np.rint(numbers))
    return np.array(rule.levels, dtype=object)[integers]


# --- the inverse questions -----------------------------------------------------------------------


@tells_arguments
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
    Public facts do promise how many ranks it is off: ask with ``ranks``. Of a book of tables with
    ``targets`` say neither: standard errors are to meet those. What no epsilon meets is an error
    that says what can be had instead.

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
    0.3328
    >>> AdditiveMechanism(ages, noise="best", epsilon=0.3328).preview().half_width[0] <= 20
    np.True_
    >>> schema = Schema({"age": Interval(0, 100)}, rows=5000)
    >>> epsilon_for(lambda e: KNormQuantile(schema, "age", 0.5, epsilon=e), ranks=50)  # 1 %
    0.6467
    """
    level = check_probability("confidence", confidence)
    at = release_at(what, noise)
    if error is not None and ranks is not None:
        fail(_ONE_WAY)

    def looked(epsilon: float) -> Looked:
        found = expected_error(at(epsilon), level)
        if ranks is not None:
            return Looked("ranks", found, rank_error(found), wished(ranks, found.names))
        wish = stated_targets(found) if error is None else wished(error, found.names)
        check_promised(found, assume_rows=assume_rows)
        if error is None:
            return Looked("targets", found, found.std, wish)
        return Looked("error", found, found.half_width, wish)

    low, high = _bracket(looked)
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if looked(middle).met else (middle, high)
    return _short(high, lambda epsilon: looked(epsilon).met)


class Looked(NamedTuple):
    """The errors at some epsilon, beside what is wished by a parameter of this name."""

    asked: str
    found: Preview
    errors: FloatArray
    wishes: FloatArray

    @property
    def met(self) -> bool:
        """Whether all entries have their wish."""
        return bool((self.errors <= self.wishes).all())

    def close_to(self, best: Looked) -> bool:
        """Whether no wish is missed by one percent more than there."""
        return bool((self.errors <= np.maximum(1.01 * best.errors, self.wishes)).all())

    def worst(self) -> str:
        """The wish that is missed by the largest factor."""
        k = int(np.argmax(self.errors / self.wishes))
        size = {"targets": "standard error", "ranks": "error in ranks"}.get(self.asked, "error")
        return (
            f"the {size} of {self.found.names[k]!r} is {short(self.errors[k])}, where "
            f"{short(self.wishes[k])} is wished"
        )


def stated_targets(found: Preview) -> FloatArray:
    """The standard errors that a book of tables was made for."""
    wish = getattr(found, "targets", None)
    if wish is None:
        fail(_ONE_WAY)
    return np.asarray(wish)


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


def rank_error(found: Preview) -> FloatArray:
    if found.ranks is None:
        fail("`ranks` are for quantiles that are released one by one. Give `error` instead.")
    return found.ranks


def _bracket(looked: Callable[[float], Looked]) -> tuple[float, float]:
    """Two epsilons, the larger of which meets the wish."""
    high = 1.0
    while not looked(high).met:
        if high >= _MOST:
            fail(_possible(looked), UndecidedError)
        high = min(4 * high, _MOST)
    low = high / 4
    while low > _LEAST and looked(low).met:
        low, high = low / 4, low
    return low, high


def _possible(looked: Callable[[float], Looked]) -> str:
    """What can be had where a wish cannot: the least error, and the epsilon from which on it is."""
    best = looked(_MOST)
    low, high = _LEAST, _MOST
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if looked(middle).close_to(best) else (middle, high)
    more = f"; from epsilon = {high:.3g} on it is hardly less" if high < _MOST / 1.1 else ""
    return (
        f"`{best.asked}` cannot be met by any epsilon: at {_MOST:g}, the largest there is, "
        f"{best.worst()}{more}. Wish for that or more, or ask for less in one release."
    )


def _short(epsilon: float, meets: Callable[[float], bool]) -> float:
    """Four digits, rounded up until the wish is met."""
    unit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 3)
    steps = math.ceil(Fraction(epsilon) / unit)
    while not meets(float(steps * unit)):
        steps += 1
    return float(steps * unit)


def release_at(what: object, noise: object) -> Callable[[float], Any]:
    """From an epsilon to what is released: of a statistic, a request, or a function."""
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


def wished(error: object, names: tuple[str, ...]) -> FloatArray:
    """The half-width wanted for every entry; infinite for those that are not named."""
    if isinstance(error, Mapping):
        for name in error:
            check_choice("error", name, names)
        return np.array([check_positive("error", error.get(name, 1e300)) for name in names])
    if isinstance(error, (list, tuple, np.ndarray)):
        check_length("error", len(error), len(names), "numbers")
        return np.array([check_positive("error", item) for item in error])
    return np.full(len(names), check_positive("error", error))
