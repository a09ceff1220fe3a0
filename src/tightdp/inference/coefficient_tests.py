r"""Tests about coefficients of a regression: one of them, a contrast, or a nested model.

They ask the law from which intervals come (:mod:`tightdp.inference.coefficient_intervals`): all
coefficients that the released moments are compatible with, noise and sampling error included. A
hypothesis about one number is rejected at level alpha if and only if the interval at level
1 - alpha leaves it out; so tests and intervals never contradict each other.

Errors whose variance varies may lie where a contrast is most sensitive, at :math:`b_1 - b_2` for
example at rows of which one column is high and the other low, and then move it by more than they
could move its terms. So a contrast has candidates of its own, with the largest sampling error that
bounds allow for it. Of several numbers every one is tested, at its share of alpha: no shape of an
ellipsoid holds for all errors. Only where errors are said to have equal variance a hypothesis
:math:`Ab = c` is rejected if c is far out among the candidates for Ab, as far as alpha of them, by
the distance :math:`(v - m)'S^{-1}(v - m)` from their median m; S is the covariance of candidates
that are moved to their central 95 %, for their tails may be long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tightdp.errors import FloatArray, check_array, check_choice, check_filled, check_real, fail

Tested = str | Mapping[str, float] | Sequence[str | Mapping[str, float]]
_CENTRAL = 0.95
_SMALLEST, _LARGEST = 1e-30, 1e30


class CoefficientTest(NamedTuple):
    """A test about coefficients.

    ``hypothesis`` is in words, ``estimate`` has a number for each of its equations, and
    ``p_value`` is at least one over the number of simulated noises.
    """

    hypothesis: str
    estimate: FloatArray
    p_value: float

    def __str__(self) -> str:
        found = ", ".join(f"{value:.4g}" for value in self.estimate)
        return f"{self.hypothesis}: estimate {found}, p = {self.p_value:.3g}"


def equations(tested: object, names: Sequence[str]) -> tuple[FloatArray, list[str]]:
    """Weights of the coefficients, a row for each equation, and the left sides in words.

    >>> equations(["a", {"b": 1, "c": -1}, "2 a + b"], ["a", "b", "c", "d"])[1]
    ['a', 'b - c', '2 a + b']
    """
    single = isinstance(tested, (str, Mapping))
    if not single and not isinstance(tested, Sequence):
        fail("`tested` must be a coefficient, a mapping of coefficients to weights, or a list.")
    parts = [tested] if single else list(tested)  # type: ignore[call-overload]
    check_filled("tested", parts, "coefficient")
    weights, words = np.zeros((len(parts), len(names))), []
    for row, part in zip(weights, parts, strict=True):
        given = _from_text(part, names) if isinstance(part, str) else part
        if not isinstance(given, Mapping) or not given:
            fail("`tested` must name coefficients, or map them to weights.")
        for name, weight in given.items():
            row[list(names).index(check_choice("tested", name, names))] = _weight(weight)
        words.append(_in_words(given))
    if np.linalg.matrix_rank(weights) < len(weights):
        fail("`tested` must be equations of which none follows from the others.")
    return weights, words


def _weight(given: object) -> float:
    """A weight whose square, and that of its inverse, times those of bounds, is a double."""
    weight = check_real("tested", given)
    if weight and not _SMALLEST <= abs(weight) <= _LARGEST:
        fail(
            f"`tested` must have weights of {_SMALLEST:g} to {_LARGEST:g} in size, or 0. Got "
            f"{weight:g}."
        )
    return weight


def _from_text(text: str, names: Sequence[str]) -> dict[str, float]:
    """A name, or names with weights and signs between them.

    >>> _from_text("hours a week - 0.5*age", ["age", "hours a week"])
    {'hours a week': 1.0, 'age': -0.5}
    """
    if text in names:
        return {text: 1.0}
    longest = sorted(map(re.escape, names), key=len, reverse=True)
    # blanks follow a sign, a number or a star: then there is one way to divide a long row of them
    weight = r"\s*(?:([+-])\s*)?(?:(\d+(?:\.\d*)?)\s*)?(?:\*\s*)?"
    term = re.compile(rf"{weight}({'|'.join(longest)})\s*(?=[+-]|$)")
    found: dict[str, float] = {}
    place = 0
    while place < len(text):
        match = term.match(text, place)
        if match is None or (place and not match[1]) or match[3] in found:
            return {text: 1.0}  # no name, which is said where names are checked
        found[match[3]] = float(f"{match[1] or ''}{match[2] or 1}")
        place = match.end()
    return found


def _in_words(weights: Mapping[str, float]) -> str:
    out = ""
    for name, weight in weights.items():
        size = "" if abs(weight) == 1 else f"{abs(weight):g} "
        sign = (" - " if weight < 0 else " + ") if out else ("-" if weight < 0 else "")
        out += f"{sign}{size}{name}"
    return out


def check_null(null: object, count: int) -> FloatArray:
    """The right sides: one number for all equations, or one each."""
    if isinstance(null, (list, tuple)) or (isinstance(null, np.ndarray) and null.ndim > 0):
        null = [check_real("null", each) for each in null]
    found = np.asarray(null if np.ndim(null) else [check_real("null", null)] * count)  # type: ignore[arg-type]
    values = check_array("null", found, 1)
    if len(values) != count:
        fail(f"`null` must be a number, or {count} of them.")
    return values


def p_value(
    values: FloatArray,
    estimate: FloatArray,
    null: FloatArray,
    draws: int,
    *,
    ellipsoid: bool,
    room: FloatArray | float = 0.0,
) -> float:
    """The p-value of a hypothesis among candidates, shape (candidates, equations).

    ``draws`` is the number of independent noises among them. Several equations are judged
    together by an ``ellipsoid``, or else one by one, at their share of the level. Candidates that
    are intervals have a ``room``, half their length, and no ellipsoid.

    >>> candidates = np.linspace(-1, 1, 2001)[:, None]
    >>> ask = lambda c: p_value(candidates, np.zeros(1), np.array([c]), 1000, ellipsoid=False)
    >>> [round(ask(c), 3) for c in (0.0, 0.9, 5)]
    [1.0, 0.101, 0.001]
    """
    least, count = 1 / max(draws, 1), values.shape[1]
    if ellipsoid and count > 1 and not np.any(room):
        return max(least, _far_out(values, null))
    each = [
        _of_one(low, high, float(own), float(point))
        for low, high, own, point in zip(
            (values - room).T, (values + room).T, estimate, null, strict=True
        )
    ]
    return min(1.0, count * max(least, min(each)))


def _of_one(low: FloatArray, high: FloatArray, estimate: float, null: float) -> float:
    """Of one equation. Between the estimate and the middle there is nothing to reject: intervals
    reach to the estimate."""
    middle = float(np.median(low)), float(np.median(high))
    if min(estimate, *middle) <= null <= max(estimate, *middle):
        return 1.0
    # what is not a number may lie on either side
    beyond = min(np.count_nonzero(~(low > null)), np.count_nonzero(~(high < null)))
    return float(2 * beyond / max(len(low) - 1, 1))


def _far_out(values: FloatArray, null: FloatArray) -> float:
    """The share of candidates that are as far from their middle as the hypothesis."""
    middle, inverse = np.median(values, axis=0), _shape(values)
    with np.errstate(invalid="ignore"):
        own = _distances(null[None] - middle, inverse)[0]
        nearer = _distances(values - middle, inverse) < own
    return float(np.mean(~nearer))  # what is not a number is as far as can be


def _shape(values: FloatArray) -> FloatArray:
    """The inverse covariance of candidates that are moved to their central part."""
    tail = (1 - _CENTRAL) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=0, method="nearest")
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.atleast_2d(np.cov(np.clip(values, low, high), rowvar=False))
    if not np.isfinite(spread).all():  # then nothing is far out: after a payment nothing may fail
        return np.zeros_like(spread)
    return np.asarray(np.linalg.pinv(spread, hermitian=True))


def _distances(away: FloatArray, inverse: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.einsum("ri,ij,rj->r", away, inverse, away))


def rejected(
    candidates: FloatArray, estimates: FloatArray, alpha: float, *, ellipsoid: bool
) -> float:
    """The share of estimates around which candidates leave out 0, at level alpha.

    ``candidates`` are about 0, and lie around every estimate in the same way: for power.

    >>> even = np.linspace(-1, 1, 2001)[:, None]
    >>> [rejected(even, even + away, 0.05, ellipsoid=False) for away in (0.5, 5)]
    [0.274..., 1.0]
    """
    count = candidates.shape[1]
    if ellipsoid and count > 1:
        inverse = _shape(candidates)
        bar = float(np.quantile(_distances(candidates, inverse), 1 - alpha))
        return float(np.mean(_distances(estimates, inverse) > bar))
    low, high = np.quantile(candidates, [alpha / count / 2, 1 - alpha / count / 2], axis=0)
    return float(np.mean(((estimates + low > 0) | (estimates + high < 0)).any(axis=1)))
