"""Shares of a budget that serve all wishes alike: how much each of several releases may spend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.accounting.caps import Cap
from tightdp.accuracy import epsilon_for, expected_error, rank_error, release_at, wished
from tightdp.data.statistics import Sums
from tightdp.errors import (
    UndecidedError,
    check_positive,
    check_probability,
    exact_amount,
    fail,
)
from tightdp.ledger.amounts import check_any_cap
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.parameters import tells_arguments
from tightdp.preview import Preview
from tightdp.printed import (
    html_table,
    notebook,
    text_table,
)
from tightdp.privacy import text_up

_PLACES = 12


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
        return notebook(html_table(self._rows(), self._verdict()))

    def _rows(self) -> list[tuple[str, str]]:
        body = [(name, text_up(part)) for name, part in self.epsilon.items()]
        return [("release", "epsilon"), *body]

    def _verdict(self) -> str:
        needed = f"they need {text_up(self.needed, 4)} in all"
        verdict = "all wishes are met" if self.reached else needed
        said = f"errors are at most {text_up(self.ratio, 4)} times those wished: {verdict}"
        if self.as_one is not None and self.as_one < self.ratio:
            said += (
                f"; released as one vector they are at most {text_up(self.as_one, 4)} times those "
                "(`together = true` in [budget] of a plan)"
            )
        return said


@tells_arguments
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
    >>> from tightdp import Histogram, Interval, Schema, Sums
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
            made = release_at(what, "best")(parts[name])
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
        for name, wish in zip(each.names, wished(errors[key], each.names), strict=True)
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
            seen[asked] = expected_error(release_at(what, "best")(part), level)  # type: ignore[arg-type]
        found = seen[asked]
        for kind, wish in wishes[name].items():
            size = rank_error(found) if kind == "ranks" else found.half_width
            worst = max(worst, float(np.max(size / wished(wish, found.names))))
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
