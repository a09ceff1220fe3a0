r"""Events: chosen on one half of the releases, counted on the other.

An event is a relation between a number computed from a release (a :class:`Feature`) and a fixed
value. Choosing looks at the first half only, so that on the second half the event is a fixed one,
and what its counts bound holds at the stated confidence however it was chosen.

**Bounds.** Let p and q be the probabilities of the event with the input for which it is likelier
and with the other one. (epsilon, delta)-privacy says :math:`p \le e^\epsilon q + \delta`. In the
counting half a fair coin decides the input of every release. Two bounds of Clopper and Pearson
[CP34] are used, and which of them is decided by the choosing half.

*share*, for delta = 0: guess the input from the release, say x in an event A and x_neighbor in
another event B, or in one of them only, and do not guess elsewhere. By the fair coin the odds of a
guess to be right are :math:`(P(A) + Q(B))/(Q(A) + P(B)) \le e^\epsilon`, since
:math:`P(A) \le e^\epsilon Q(A)` and :math:`Q(B) \le e^\epsilon P(B)`. The guesses are independent,
so that of N guesses Binomial(N, pi) are right, and with probability 1 - alpha
:math:`\epsilon \ge \ln(\pi/(1-\pi)) \ge \ln(\pi_{low}/(1-\pi_{low}))`.

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

from tightdp.audit.audit_report import Finding
from tightdp.errors import FloatArray

Counts = NDArray[np.int64]

FIRST_SHARE = 0.75
"""Share of alpha for the event that looked best; the others divide the rest equally."""

_THRESHOLDS = 400
_REPEATS = 8
_VALUES = 1000
_PAIRED = 100
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
    """The releases whose feature stands in a relation to a value, and the input to guess there.

    With ``beyond``, the other input is guessed where the feature is larger than that.
    """

    feature: Feature
    relation: str
    value: Any
    over: int  # the input guessed: 0 for x, 1 for x_neighbor
    method: str  # "share" or "pair"
    promise: float  # what the choosing half suggests can be shown
    beyond: Any = None

    def counts(self, sizes: Sizes) -> tuple[int, int]:
        """Right and wrong guesses among the counting rows."""
        values = self.feature.values[2 * sizes.half :]
        hit = _HOLDS[self.relation](values, self.value)
        right, wrong = _by_input(hit, sizes.first, self.over)
        if self.beyond is not None:
            more = _by_input(values > self.beyond, sizes.first, 1 - self.over)
            right, wrong = right + more[0], wrong + more[1]
        return right, wrong

    def __str__(self) -> str:
        name, shown = self.feature.name, self.feature.shown
        text = f"{name} {self.relation} {shown(self.value)}"
        return text if self.beyond is None else f"{text} or > {shown(self.beyond)}"


def _by_input(hit: NDArray[np.bool_], first: int, over: int) -> tuple[int, int]:
    """How often an event occurs with the input ``over``, and with the other."""
    counts = int(hit[:first].sum()), int(hit[first:].sum())
    return counts[over], counts[1 - over]


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
    if feature.tails and claim.delta == 0:
        return max(best, _best_guess(feature, rows, pooled, claim), key=lambda e: e.promise)
    return best


def _best_guess(feature: Feature, rows: NDArray[Any], pooled: NDArray[Any], claim: Claim) -> Event:
    """The best pair of tails, one for either input."""
    half = rows.shape[1]
    places = np.linspace(0, pooled.size - 1, min(pooled.size, _PAIRED)).astype(np.intp)
    values = np.unique(pooled[places])
    below = np.stack([np.searchsorted(row, values, side="right") for row in rows])
    ordered = np.arange(values.size)[:, None] <= np.arange(values.size)
    best = Event(feature, "<=", values[-1], 0, "share", -math.inf)
    for over in (0, 1):
        right = below[over][:, None] + half - below[1 - over]
        wrong = below[1 - over][:, None] + half - below[over]
        shown = np.where(ordered, _share_approximate(right, wrong, half, claim), -math.inf)
        i, j = np.unravel_index(int(shown.argmax()), shown.shape)
        if shown[i, j] > best.promise:
            best = Event(feature, "<=", values[i], over, "share", float(shown[i, j]), values[j])
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


def _wilson(p: FloatArray, n: float, alpha: float) -> tuple[FloatArray, FloatArray]:
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
        right, wrong = event.counts(sizes)
        tested = claim._replace(alpha=share)
        if event.method == "share":
            shown, seen = share_bound(right, wrong, tested), _log_ratio(right, wrong)
        else:
            n, k = (sizes.first, sizes.second)[:: 1 - 2 * event.over]
            shown = pair_bound(right, n, wrong, k, tested)
            seen = _log_ratio(right / n - claim.delta, wrong / k)
        sides = ("x", "x_neighbor") if event.over == 0 else ("x_neighbor", "x")
        findings.append(
            Finding(
                event=str(event),
                family=event.feature.family,
                over=sides[0] if event.beyond is None else ", ".join(sides),
                epsilon_lower=shown,
                epsilon_seen=seen,
                counts=(right, wrong),
            )
        )
    return tuple(sorted(findings, key=lambda found: -found.epsilon_lower))


def share_bound(right: int, wrong: int, claim: Claim) -> float:
    """The bound *share*: at most the log odds of a right guess, except with probability alpha.

    >>> round(share_bound(500, 0, Claim(delta=0.0, alpha=1e-3)), 3)
    4.275
    """
    from scipy.special import betaincinv

    low = float(betaincinv(right, wrong + 1, claim.alpha)) if right else 0.0
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
