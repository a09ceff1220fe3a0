"""The objective in decimal arithmetic, whose digits grow with the rows that are there.

Doubles and extended doubles have a fixed number of digits: with enough rows their rounding exceeds
any tolerance. Here every number is a :class:`decimal.Decimal`, and every operation, ``exp`` and
``sqrt`` included, is rounded correctly to so many digits that the error of a whole sum over rows is
far below what a double can show, however many rows there are. It takes about 50 microseconds a row
and pass, and is the last resort of the search for a minimiser.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.convex.class_losses import SoftmaxLoss
from tightdp.convex.count_losses import CountLoss
from tightdp.convex.margin_losses import (
    HuberLoss,
    LogisticLoss,
    MarginLoss,
    RowLoss,
    SquaredLoss,
)
from tightdp.convex.penalties import Lasso, NoPenalty, Penalty, Within
from tightdp.errors import FloatArray

Decimals = NDArray[Any]  # of Decimal objects

_DIGITS = 40  # beside those of the number of rows, twice: n sums of up to n roundings
_LOSSES = (LogisticLoss, HuberLoss, SquaredLoss, CountLoss, SoftmaxLoss)
_PENALTIES = (NoPenalty, Lasso, Within)
_ONE: Any = Decimal(1)
_FAR = 10_000  # start * exp of it is above every cap: starts are above 1e-4000


class Slopes(NamedTuple):
    """First derivatives of the losses in decimals; second ones, which steer the search, not."""

    first: Decimals
    second: FloatArray


def has_decimals(loss: RowLoss, penalty: Penalty) -> bool:
    """Whether the objective is known to any precision: a function of one's own is not.

    >>> has_decimals(LogisticLoss(), Lasso(2.0))
    True
    """
    return type(loss) in _LOSSES and type(penalty) in _PENALTIES


def context(rows: int) -> Context:
    """The arithmetic for so many rows: errors do not trap, as none can occur.

    >>> context(10**6).prec
    54
    """
    return Context(prec=_DIGITS + 2 * len(str(rows)), traps=[])


def unit(rows: int) -> float:
    """The relative error of one operation in that arithmetic."""
    return float(0.5 * 10.0 ** (1 - context(rows).prec))


def decimals(values: Any) -> Decimals:
    """The same numbers as decimals; extended doubles are cut into two doubles.

    >>> decimals(np.array([0.5, -2.0]))
    array([Decimal('0.5'), Decimal('-2')], dtype=object)
    """
    given = np.asarray(values)
    if given.dtype == object:
        return given
    high = given.astype(np.float64)
    exact = np.frompyfunc(Decimal, 1, 1)
    rest = (given - high).astype(np.float64)
    return np.asarray(exact(high) + exact(rest) if rest.any() else exact(high), dtype=object)


def slopes(loss: MarginLoss, margin: Decimals, y: Decimals) -> Slopes:
    """Derivatives of a loss that :func:`has_decimals`, at margins in decimals."""
    if isinstance(loss, LogisticLoss):
        small = np.exp(-np.abs(margin))  # calls Decimal.exp, which is rounded correctly
        p = np.where(margin >= 0, _ONE, small) / (_ONE + small)
        return Slopes(p - y, (p * (_ONE - p)).astype(np.float64))
    if isinstance(loss, CountLoss):
        return _count_slopes(loss, margin, y)
    gap = margin - y
    if isinstance(loss, HuberLoss):
        threshold: Any = Decimal(loss.threshold)
        inside = (np.abs(gap) < threshold).astype(np.float64)
        return Slopes(np.clip(gap, -threshold, threshold), inside)
    return Slopes(gap, np.ones(len(gap)))


def _count_slopes(loss: CountLoss, margin: Decimals, y: Decimals) -> Slopes:
    """As :meth:`CountLoss.first`: exponents are cut where the cap is reached in any case."""
    start, cap, a, far = _exact(loss.start), _exact(loss.cap), _exact(loss.dispersion), _exact(_FAR)
    w: Any = np.minimum(np.exp(np.minimum(margin, far)) * start, cap)
    below = (w < cap).astype(np.float64)
    second = (w * (_ONE + a * y) / (_ONE + a * w) ** 2).astype(np.float64)
    return Slopes((w - y) / (_ONE + a * w), below * second)


def _exact(number: float) -> Any:
    return Decimal(number)


def class_slopes(margin: Decimals, y: FloatArray) -> Decimals:
    """Slopes of the loss of several classes, at margins (n, K) in decimals."""
    weight = np.exp(margin - margin.max(axis=1)[:, None])
    found: Any = weight / weight.sum(axis=1)[:, None]
    found[np.arange(len(found)), y.astype(np.int64)] -= _ONE
    return np.asarray(found, dtype=object)


def prox(penalty: Penalty, p: Decimals, c: Decimal) -> tuple[Decimals, FloatArray]:
    """The proximal map of a penalty that :func:`has_decimals`, and its derivative."""
    if isinstance(penalty, Lasso):
        cut: Any = c * Decimal(penalty.weight)
        return p - np.clip(p, -cut, cut), _diagonal(np.abs(p) > cut)
    if isinstance(penalty, Within):
        return _projected(penalty, p)
    return p, np.eye(len(p))


def _projected(within: Within, p: Decimals) -> tuple[Decimals, FloatArray]:
    """The nearest point of a ball, as in :meth:`Within.prox`."""
    radius = decimals(within.ball.radius)
    if within.ball.p == np.inf:
        return np.clip(p, -radius, radius), _diagonal(np.abs(p) < radius)
    r, eye = radius[0], np.eye(len(p))
    if within.ball.p == 2.0:
        length: Any = p @ p
        length = length.sqrt()
        if length <= r:
            return p, eye
        towards = (p / length).astype(np.float64)
        return p * (r / length), float(r / length) * (eye - np.outer(towards, towards))
    sizes = np.sort(np.abs(p))[::-1]
    if sizes.sum() <= r:
        return p, eye
    cuts = (np.cumsum(sizes) - r) / decimals(np.arange(1.0, len(p) + 1.0))
    cut = cuts[np.flatnonzero(sizes > cuts)[-1]]
    sign = np.where(np.abs(p) > cut, np.where(p > 0, 1.0, -1.0), 0.0)
    slope = np.diag(np.abs(sign)) - np.outer(sign, sign) / (sign @ sign)
    return p - np.clip(p, -cut, cut), slope


def _diagonal(free: Any) -> FloatArray:
    return np.diag(np.asarray(free, dtype=np.float64))
