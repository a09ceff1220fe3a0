"""The loss of several classes, whose Hessian has a rank above one, with its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tightdp.convex.margin_losses import ODDS, RowLoss
from tightdp.errors import FloatArray, check_count

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_SECTIONS = 48  # the bracket shrinks to 1e-10


class SoftmaxLoss(RowLoss):
    r"""Minus the log-probability of a class: :math:`\log \sum_k e^{t_k} - t_y`, one margin a class.

    With p the probabilities, the slopes are :math:`p - e_y`, which sum to zero: half their l1 norm
    is :math:`s = 1 - p_y`. The Hessian in the margins is :math:`W = \mathrm{diag}(p) - p p^T`, of
    rank K - 1 and with eigenvalues of at most 1/2.

    **The determinant.** Let :math:`\kappa = K - 1`. For every c >= 0

    .. math:: \det(I + cW) = \prod_k (1 + c p_k) \sum_k \frac{p_k}{1 + c p_k},

    whose logarithm is concave in p: W is concave in p in the order of matrices, and log det grows
    with the matrix and is concave. So given :math:`p_y = 1 - s` it is largest where the other
    classes are equally likely, which leaves

    .. math:: h(s) = (\kappa - 1) \log(1 + cs/\kappa)
        + \log\bigl(1 + cs(1 - s)(1 + 1/\kappa)\bigr),

    again concave in s. For two classes it is :math:`\log(1 + 2 c s (1 - s))`.

    Parameters
    ----------
    classes : int
        K, at least 2.

    Examples
    --------
    >>> loss = SoftmaxLoss(3)
    >>> loss.first(np.zeros((1, 3)), np.array([1.0])).round(3)
    array([[ 0.333, -0.667,  0.333]])
    >>> round(loss.growth(6.0), 4) == round(math.log(3.0**3 / 3.0), 4)  # even classes: (1 + c/3)^2
    True
    """

    name = "softmax"
    curvature = 0.5
    scale, linked = "classes", True
    lengths = ODDS

    def __init__(self, classes: int) -> None:
        self.classes = check_count("classes", classes, least=2)
        self.rounding = 20.0 + self.classes  # an exponential, a sum of K of them, a quotient

    def probabilities(self, margin: FloatArray) -> FloatArray:
        """Shape (n, K), in the precision of the margins."""
        weight = np.exp(margin - margin.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """Slopes, shape (n, K), for margins (n, K) and classes 0, 1, ... (n,)."""
        out: Any = self.probabilities(margin)
        out[np.arange(len(out)), y.astype(np.int64)] -= 1.0
        return np.asarray(out)

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """The loss of every row."""
        top = margin.max(axis=1)
        rest = np.log(np.exp(margin - top[:, None]).sum(axis=1))
        return np.asarray(top + rest - margin[np.arange(len(y)), y.astype(np.int64)])

    def typical(self, margin: FloatArray) -> FloatArray:
        return np.full(len(margin), 1.0 / self.classes)  # all classes equally likely

    def slope(self, reach: float) -> float:
        """Half the largest l1 norm of the slopes, 1 - p_y."""
        return 1.0 / (1.0 + math.exp(-min(2.0 * reach, 700.0)) / (self.classes - 1))

    def growth(self, ratio: float) -> float:
        return concave_top(lambda s: self._determinant(s, ratio), 0.0, 1.0)

    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        return concave_top(lambda s: rate * s + self._determinant(s, ratio), 0.0, self.slope(reach))

    def _determinant(self, s: float, ratio: float) -> float:
        """The h of the class."""
        others = self.classes - 1
        rest = ratio * s * (1.0 - s) * (1.0 + 1.0 / others)
        # logarithms of numbers next to 1, of which small budgets see every digit
        return (others - 1) * math.log1p(ratio * (s / others)) + math.log1p(rest)

    def __repr__(self) -> str:
        return f"softmax loss of {self.classes} classes"


def concave_top(h: Callable[[float], float], low: float, high: float) -> float:
    """An upper bound on the largest value of a concave function, and hardly above it.

    Sections shrink a bracket [a, b] around the top, with a point m between that is no lower than
    both ends. By concavity h lies below the chord from an end to m, continued beyond m.

    >>> round(concave_top(lambda t: t * (1 - t), 0.0, 1.0), 12)
    0.25
    """
    a, b = low, high
    left, right = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_left, at_right = h(left), h(right)
    for _ in range(_SECTIONS):
        if at_left >= at_right:
            b, right, at_right = right, left, at_left
            left = b - _GOLDEN * (b - a)
            at_left = h(left)
        else:
            a, left, at_left = left, right, at_right
            right = a + _GOLDEN * (b - a)
            at_right = h(right)
    m, at_m = (left, at_left) if at_left >= at_right else (right, at_right)
    best = max(at_m, h(a), h(b))
    up = max(at_m - h(a), 0.0) * (b - m) / (m - a)
    down = max(at_m - h(b), 0.0) * (m - a) / (b - m)
    return (best + max(up, down)) * (1.0 + 1e-14)
