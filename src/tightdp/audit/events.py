r"""Events: chosen on one half of the releases, counted on the other.

An event is a relation between a number computed from a release (a :class:`Feature`) and a fixed
value. Choosing looks at the first half only, so that on the second half the event is a fixed one,
and what its counts bound holds at the stated confidence however it was chosen.

**Bounds.** Let p and q be the probabilities of the event with the input for which it is likelier
and with the other one. (epsilon, delta)-privacy says :math:`p \le e^\epsilon q + \delta`. In the
counting half a fair coin decides the input of every release. Two bounds of Clopper and Pearson
[CP34] are used, and which of them is decided by the choosing half.

*share*, for delta = 0: a release in the event came from the first input with probability
:math:`\pi = p/(p+q)`, independently of the others, so given that the event occurred N times the
count K of the first input is Binomial(N, pi). With probability 1 - alpha,
:math:`\epsilon \ge \ln(p/q) = \ln(\pi/(1-\pi)) \ge \ln(\pi_{low}/(1-\pi_{low}))`.

*pair*: given the coins, the counts are binomial with p and with q. With probability 1 - alpha both
bounds, each at alpha/2, hold, and :math:`\epsilon \ge \ln((p_{low} - \delta)/q_{high})`.

[CP34]: C. Clopper, E. Pearson, *The use of confidence or fiducial limits illustrated in the case of
the binomial*, Biometrika 26, 1934.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.audit.report import Finding
from tightdp.errors import FloatArray

Counts = NDArray[np.int64]

FIRST_SHARE = 0.75
"""Share of alpha for the event that looked best; the others divide the rest equally."""

_THRESHOLDS = 400
_REPEATS = 8
_VALUES = 1000
_CAUTION = 4
_HOLDS = {"<=": np.less_equal, ">": np.greater, "=": np.equal, "!=": np.not_equal}


class Sizes(NamedTuple):
    """How the rows lie: ``half`` choosing rows of x, as many of x_neighbor, then the counting rows.

    Of the counting rows, ``first`` belong to x and the ``second`` rest to x_neighbor.
    """

    half: int
    first: int
    second: int


class Claim(NamedTuple):
    """What is tested: delta, and the probability of a wrong accusation."""

    delta: float
    alpha: float


class Feature(NamedTuple):
    """A number for every release.

    ``tails`` says whether thresholds make sense; single values always do. ``shown`` writes a value.
    """

    family: str
    name: str
    values: NDArray[Any]
    tails: bool = True
    shown: Callable[[Any], str] = str


class Event(NamedTuple):
    """The releases whose feature stands in a relation to a value."""

    feature: Feature
    relation: str
    value: Any
    over: int  # 0 when likelier with x, 1 when likelier with x_neighbor
    method: str  # "share" or "pair"
    promise: float  # what the choosing half suggests can be shown

    def counts(self, sizes: Sizes) -> tuple[int, int]:
        """How often it occurs with either input among the counting rows."""
        start, middle = 2 * sizes.half, 2 * sizes.half + sizes.first
        hit = _HOLDS[self.relation](self.feature.values[start:], self.value)
        return int(hit[: middle - start].sum()), int(hit[middle - start :].sum())

    def __str__(self) -> str:
        return f"{self.feature.name} {self.relation} {self.feature.shown(self.value)}"


# --- choosing -----------------------------------------------------------------------------------


def best_events(features: Iterable[Feature], half: int, claim: Claim) -> list[Event]:
    """The most promising event of every family, the best of all first."""
    best: dict[str, Event] = {}
    for feature in features:
        event = _best_event(feature, half, claim)
        rival = best.get(feature.family)
        if rival is None or event.promise > rival.promise:
            best[feature.family] = event
    ranked = sorted(best.values(), key=lambda event: -event.promise)
    return [event for event in ranked if event.promise > -math.inf] or ranked[:1]


def _best_event(feature: Feature, half: int, claim: Claim) -> Event:
    """The relation and the value with the largest lower bound on the choosing half."""
    rows = np.sort(feature.values[: 2 * half].reshape(2, half), axis=1)
    pooled = np.sort(rows, axis=None)
    best = Event(feature, "<=", pooled[-1], 0, "pair", -math.inf)
    for relation, values, counts in _candidates(rows, pooled, tails=feature.tails):
        for over in (0, 1):
            hits, others = counts[over], counts[1 - over]
            for method, bound in _APPROXIMATE.items():
                shown = bound(hits, others, half, claim)
                i = int(shown.argmax())
                if shown[i] > best.promise:
                    best = Event(feature, relation, values[i], over, method, float(shown[i]))
    return best


def _candidates(
    rows: NDArray[Any], pooled: NDArray[Any], *, tails: bool
) -> list[tuple[str, NDArray[Any], Counts]]:
    """Relations with the values to try and the counts of both inputs, shape (2, values)."""
    half = rows.shape[1]
    out: list[tuple[str, NDArray[Any], Counts]] = []
    if tails:
        values = np.unique(pooled[_positions(pooled.size)])
        below = np.stack([np.searchsorted(row, values, side="right") for row in rows])
        out += [("<=", values, below), (">", values, half - below)]
    values = _repeated(pooled)
    if values.size:
        ends = [np.searchsorted(row, values, side="right") for row in rows]
        starts = [np.searchsorted(row, values, side="left") for row in rows]
        equal = np.stack(ends) - np.stack(starts)
        out += [("=", values, equal), ("!=", values, half - equal)]
    return out


def _positions(size: int) -> NDArray[np.intp]:
    """Ranks at which thresholds are tried: evenly spread, and closer together at both ends."""
    even = np.linspace(0, size - 1, min(size, _THRESHOLDS))
    ends = np.geomspace(1, size, 40) - 1
    return np.unique(np.concatenate([even, ends, size - 1 - ends]).astype(np.intp))


def _repeated(pooled: NDArray[Any]) -> NDArray[Any]:
    """The values that occur often enough to be events of their own."""
    values, times = np.unique(pooled, return_counts=True)
    often = np.flatnonzero(times >= _REPEATS)
    if often.size > _VALUES:
        often = often[np.argsort(-times[often], kind="stable")[:_VALUES]]
    return values[np.sort(often)]


def _share_approximate(hits: Counts, others: Counts, n: int, claim: Claim) -> FloatArray:
    if claim.delta > 0:
        return np.full(hits.shape, -math.inf)
    total = np.maximum(hits + others, 1)
    low, _ = _wilson(hits / total, total, claim.alpha)
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log1p(-low)


def _pair_approximate(hits: Counts, others: Counts, n: int, claim: Claim) -> FloatArray:
    low, _ = _wilson(hits / n, n, claim.alpha / 2)
    _, high = _wilson(others / n, n, claim.alpha / 2)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - claim.delta, 0.0)) - np.log(high)


_APPROXIMATE = {"share": _share_approximate, "pair": _pair_approximate}


def _wilson(p: FloatArray, n: Any, alpha: float) -> tuple[FloatArray, FloatArray]:
    """The interval of Wilson, close to that of Clopper and Pearson, and quick to compute.

    It is made wider by ``_CAUTION`` standard errors: the best of many events looks better than it
    is, the more so the rarer it is.
    """
    from scipy.special import ndtri

    z = _CAUTION - float(ndtri(alpha))
    middle = p + z * z / (2 * n)
    width = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * width) / (1 + z * z / n) for sign in (-1, 1))
    return np.maximum(low, 0.0), high


# --- counting -----------------------------------------------------------------------------------


def count_events(events: Sequence[Event], sizes: Sizes, claim: Claim) -> tuple[Finding, ...]:
    """Count the events on the other half; together the bounds fail with probability alpha at most.

    Bonferroni with weights that were fixed before: the first event gets ``FIRST_SHARE`` of alpha.
    """
    rest = len(events) - 1
    first = FIRST_SHARE if rest else 1.0
    findings = []
    for i, event in enumerate(events):
        share = claim.alpha * (first if i == 0 else (1 - first) / rest)
        counts, trials = event.counts(sizes), (sizes.first, sizes.second)
        (hits, n), (others, k) = ((counts[j], trials[j]) for j in (event.over, 1 - event.over))
        bound = share_bound if event.method == "share" else pair_bound
        findings.append(
            Finding(
                event=str(event),
                family=event.feature.family,
                over=("x", "x_neighbor")[event.over],
                epsilon_lower=bound(hits, n, others, k, claim._replace(alpha=share)),
                epsilon_seen=_log_ratio(hits / n - claim.delta, others / k),
                counts=counts,
            )
        )
    return tuple(sorted(findings, key=lambda found: -found.epsilon_lower))


def share_bound(hits: int, n: int, others: int, k: int, claim: Claim) -> float:
    """The bound *share*: at most ln(p/q), except with probability alpha.

    >>> round(share_bound(500, 1000, 0, 1000, Claim(delta=0.0, alpha=1e-3)), 3)
    4.275
    """
    from scipy.special import betaincinv

    low = float(betaincinv(hits, others + 1, claim.alpha)) if hits else 0.0
    return _log_ratio(low, 1 - low)


def pair_bound(hits: int, n: int, others: int, k: int, claim: Claim) -> float:
    """The bound *pair*: at most ln((p - delta)/q), except with probability alpha.

    >>> round(pair_bound(500, 1000, 0, 1000, Claim(delta=0.0, alpha=1e-3)), 3)
    4.079
    """
    from scipy.special import betainccinv, betaincinv

    p = float(betaincinv(hits, n - hits + 1, claim.alpha / 2)) if hits else 0.0
    q = float(betainccinv(others + 1, k - others, claim.alpha / 2)) if others < k else 1.0
    return _log_ratio(p - claim.delta, q)


def _log_ratio(p: float, q: float) -> float:
    """ln(p/q), no less than 0, which every mechanism satisfies."""
    if p <= q:
        return 0.0
    return math.log(p) - math.log(q) if q > 0 else math.inf
