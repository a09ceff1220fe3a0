"""Losses of one row that depend on the row through a single margin, with the bounds privacy needs.

A loss here is :math:`\\ell(\\theta; x, y) = \\phi(\\theta \\cdot x, y)`. Its Hessian
:math:`\\phi'' x x^T` has rank one, which the proof of objective perturbation uses and the papers do
not say; a loss that is not of this form cannot be written as a :class:`MarginLoss`. Losses of
counts are in :mod:`~tightdp.convex.count_losses`; that of several classes, whose Hessians have a
higher rank, has bounds of its own (:mod:`~tightdp.convex.class_losses`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from tightdp.errors import FloatArray, check_choice, check_positive, fail

LOSSES = ("logistic", "huber", "squared")
ODDS = (1.0, 2.0, 6.0)
"""Lengths of log odds: their standard deviation on even columns is 0.6, 1.2 and 3.5."""
_WITHIN_BOUNDS = (1 / 8, 1 / 4, 1 / 2, 1.0)  # of slopes that lead from a bound of the target to one
USUAL_THRESHOLD = 1.345  # standard deviations of residuals: Huber's loss is then 95 % efficient


class RowLoss(ABC):
    r"""A convex loss of one row, by the bounds that the accounting of a release needs.

    Attributes
    ----------
    name : str
    curvature : float
        The largest eigenvalue of its Hessian in the margins.
    rounding : float
        Floating-point error of its slopes, given exact margins, in units of 2**-53; of 2**-64 if
        the margins are extended doubles, in whose precision slopes must be computed.
    scale : {"interval", "levels", "counts", "classes"}
        What the target is, and how it is read: see :class:`~tightdp.data.design_matrix.ScaledRows`.
    origin : float
        The user's linear predictor where the margin is zero.
    linked : bool
        Whether the margin says something else than the target, such as log odds.
    spread : float
        The standard deviation of slopes, where the model is true, is ``spread`` times the square
        root of the expected curvature.
    lengths : tuple of float
        From the shortest to the longest parameters for which a budget is shared well, scaled.
    """

    name: str
    curvature: float
    rounding: float = 16.0
    scale: str = "interval"
    origin: float = 0.0
    linked: bool = False
    spread: float = 1.0
    lengths: tuple[float, ...] = (2.0,)

    @abstractmethod
    def slope(self, reach: float) -> float:
        """The largest size of a slope over margins of at most ``reach`` (may be infinite)."""

    @abstractmethod
    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        r"""An upper bound on :math:`\sup\ \eta |\phi'| + \log\det(I + c \phi'')`.

        The supremum is over margins of at most ``reach`` and all targets; :math:`\eta` is ``rate``
        and c is ``ratio``. A row with a steep loss may have little curvature, and then the two
        costs do not add up to the sum of their bounds.
        """

    def growth(self, ratio: float) -> float:
        r"""The largest :math:`\log\det(I + c \phi'')`, c the ``ratio``."""
        return math.log1p(self.curvature * ratio)

    @abstractmethod
    def typical(self, margin: FloatArray) -> FloatArray:
        """Curvatures at margins where targets are what is expected there: for public models."""

    def __repr__(self) -> str:
        return f"{self.name} loss"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


class MarginLoss(RowLoss):
    r"""A convex loss :math:`\phi(t, y)` of the margin :math:`t = \theta \cdot x`."""

    @abstractmethod
    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """The loss."""

    @abstractmethod
    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """Its first derivative in the margin."""

    @abstractmethod
    def second(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """Its second derivative in the margin."""

    def both(self, margin: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivative together."""
        return self.first(margin, y), self.second(margin, y)

    def mean(self, margin: FloatArray) -> FloatArray:
        """The target that is expected where the margin is true: for public models alone."""
        return margin

    def typical(self, margin: FloatArray) -> FloatArray:
        return self.second(margin, self.mean(margin))

    def majorant(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """Curvature of a parabola that touches the loss at the margin and is nowhere below it."""
        return np.full_like(margin, self.curvature)

    def nearby(self, bend: float, rows: int, shift: float) -> float:
        """A bound on the summed curvature if every margin moves by at most ``shift``.

        ``bend`` is the computed sum at the margins themselves.
        """
        return self.curvature * rows


class LogisticLoss(MarginLoss):
    r""":math:`\log(1 + e^t) - y t` for labels y in {0, 1}.

    With :math:`s = |\sigma(t) - y|` the slope is s and the curvature is s(1 - s): a row that pulls
    with full force has no curvature left.
    """

    name = "logistic"
    curvature = 0.25
    scale, linked = "levels", True
    lengths = ODDS

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.logaddexp(0.0, margin) - y * margin)

    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return _expit(margin) - y

    def second(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        p = _expit(margin)
        return p * (1.0 - p)

    def both(self, margin: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = _expit(margin)
        return p - y, p * (1.0 - p)

    def mean(self, margin: FloatArray) -> FloatArray:
        return _expit(margin)

    def majorant(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        # tanh(t / 2) / (2 t), the bound of Jaakkola and Jordan
        half = np.maximum(np.abs(margin) / 2.0, 1e-6)
        return np.asarray(np.tanh(half) / (4.0 * half))

    def nearby(self, bend: float, rows: int, shift: float) -> float:
        # the third derivative is at most the second, so curvatures grow by at most exp(shift)
        return math.exp(min(shift, 700.0)) * (bend + 16.0 * rows * 2.0**-53)

    def slope(self, reach: float) -> float:
        return 1.0 / (1.0 + math.exp(-reach))

    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        # h(s) = rate s + log(1 + ratio s (1 - s)) is concave; h'(s) = 0 is the quadratic
        # rate ratio s^2 + ratio (2 - rate) s - (rate + ratio) = 0, whose positive root is
        # written so that nothing cancels.
        half = ratio * (2.0 - rate) / 2.0
        root = math.hypot(half, math.sqrt(rate * ratio) * math.sqrt(rate + ratio))  # no overflow
        top = (rate + ratio) / (half + root) if half > 0 else (root - half) / (rate * ratio)
        s = min(max(top, 0.0), self.slope(reach))
        return rate * s + math.log1p(ratio * s * (1.0 - s))


class HuberLoss(MarginLoss):
    """Squared up to ``threshold``, linear beyond, in units of the scaled target."""

    name = "huber"
    curvature = 1.0
    lengths = _WITHIN_BOUNDS

    def __init__(self, threshold: float = 0.25) -> None:
        self.threshold = check_positive("threshold", threshold)

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        r, c = np.abs(margin - y), self.threshold
        return np.where(r <= c, r * r / 2.0, c * (r - c / 2.0))

    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return np.clip(margin - y, -self.threshold, self.threshold)

    def second(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return (np.abs(margin - y) < self.threshold).astype(np.float64)

    def typical(self, margin: FloatArray) -> FloatArray:
        """Of normal residuals, of which the threshold is as many standard deviations as usual."""
        return np.full_like(margin, math.erf(USUAL_THRESHOLD / math.sqrt(2.0)))

    def majorant(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return self.threshold / np.maximum(np.abs(margin - y), self.threshold)

    def slope(self, reach: float) -> float:
        return min(self.threshold, reach + 1.0)

    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        return rate * self.slope(reach) + math.log1p(ratio)

    def __repr__(self) -> str:
        return f"huber loss with threshold {self.threshold!r}"


class SquaredLoss(MarginLoss):
    """Half the squared residual; its slope is bounded on a bounded set of parameters only."""

    name = "squared"
    curvature = 1.0
    lengths = _WITHIN_BOUNDS

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return (margin - y) ** 2 / 2.0

    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return margin - y

    def second(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        return np.ones_like(margin)

    def slope(self, reach: float) -> float:
        return reach + 1.0  # |t - y|, with the target scaled to [-1, 1]

    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        return rate * self.slope(reach) + math.log1p(ratio)


def read_loss(loss: object) -> MarginLoss:
    """The loss of a name; a loss of one's own must be a :class:`MarginLoss`.

    >>> read_loss("logistic").curvature
    0.25
    """
    if isinstance(loss, MarginLoss):
        return loss
    if not isinstance(loss, str):
        fail(
            f"`loss` must be one of {', '.join(map(repr, LOSSES))} or a MarginLoss, which depends "
            f"on a row through one margin. Got {type(loss).__name__}: the Hessian of another loss "
            "can have a rank above one, and the guarantee would not hold."
        )
    kinds: dict[str, type[MarginLoss]] = {
        "logistic": LogisticLoss,
        "huber": HuberLoss,
        "squared": SquaredLoss,
    }
    return kinds[check_choice("loss", loss, kinds)]()


def _expit(t: FloatArray) -> FloatArray:
    """``1 / (1 + exp(-t))`` without overflow, in the precision of ``t``."""
    small = np.exp(-np.abs(t))
    return np.where(t >= 0, 1.0, small) / (1.0 + small)


def margins(rows: FloatArray, theta: FloatArray) -> FloatArray:
    """``rows @ theta``, the same for a row wherever it stands in the table.

    A product of matrices may round a row by its place; then a row that is added would change what
    others contribute. Sums by column cannot.

    >>> margins(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.5]))
    array([2., 5.])
    """
    total = np.zeros(len(rows))
    for column, weight in zip(rows.T, theta, strict=True):
        total += column * weight
    return total
