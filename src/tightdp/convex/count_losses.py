"""Losses of counts: Poisson and negative binomial, with slopes bounded by public facts."""

from __future__ import annotations

import math

import numpy as np

from tightdp.convex.margin_losses import MarginLoss
from tightdp.errors import FloatArray, check_within, fail
from tightdp.schema import Interval

_CELLS = 1024  # of the bound on a supremum; each is worth a thousandth of a rate, at most
_FAR = 700.0  # beyond, exponentials overflow; the cap is reached long before
_MOST_DISPERSION = "[0, 1e6]"


class CountLoss(MarginLoss):
    r"""The negative log-likelihood of counts with log means :math:`t`, over their largest value Y.

    With v = y / Y the share of the bound that a count is, :math:`w = \min(e^t m_0, M) / Y` that of
    its mean, and :math:`a = \alpha Y`,

    .. math:: \phi' = \frac{w - v}{1 + a w}, \qquad
        \phi'' = \frac{w (1 + a v)}{(1 + a w)^2}\ \text{ where } e^t m_0 < M,\ \text{else } 0.

    where :math:`\alpha` is the dispersion: the variance is :math:`\mu + \alpha\mu^2`, and 0 is the
    Poisson law; :math:`m_0` is the mean where the margin is zero, the point to which a ridge pulls.

    The exponential has no bounded slope. From the public mean M on the loss is continued by its
    tangent: it stays convex and continuously differentiable, and a row whose mean is above M pulls
    as if it were M. No mean of counts up to Y is above Y, so M = Y biases no model that is right.

    Then :math:`-1 \le \phi' \le w / (1 + aw) \le 1` and :math:`\phi''` is at most its value at
    :math:`w = \min(M / Y, 1 / a)`, v = 1.

    Parameters
    ----------
    start : float
        :math:`m_0 / Y`.
    cap : float
        :math:`M / Y`, in (0, 1].
    dispersion : float
        :math:`\alpha Y`.
    most : float
        Y, by which slopes and curvatures are divided.

    Examples
    --------
    >>> loss = CountLoss(start=0.1, most=20.0)
    >>> loss.first(np.array([0.0, 9.0]), np.array([0.5, 0.5])).round(3)
    array([-0.4,  0.5])
    >>> bent = CountLoss(start=0.1, most=20.0, dispersion=4.0)
    >>> round(loss.curvature, 12), round(bent.curvature, 12)
    (1.0, 0.3125)
    """

    scale, linked = "counts", True
    lengths = (0.5, 1.0, 2.0)  # of log means
    rounding = 24.0

    def __init__(
        self, start: float, cap: float = 1.0, dispersion: float = 0.0, *, most: float = 1.0
    ) -> None:
        self.start, self.cap, self.dispersion, self.most = start, cap, dispersion, most
        self.name = "negative binomial" if dispersion > 0 else "Poisson"
        self.origin, self.spread = math.log(start * most), most**-0.5
        peak = min(cap, 1.0 / dispersion) if dispersion > 0 else cap
        self.curvature = float(self._bend(np.array(peak), np.ones(1))[0]) * (1.0 + 1e-15)

    @classmethod
    def of(
        cls,
        column: object,
        dispersion: object = 0.0,
        largest_mean: object = None,
        *,
        intercept: bool = True,
    ) -> CountLoss:
        """The loss of counts in a public interval [low, high] with low >= 0 and high >= 1.

        With an intercept a margin of zero is the mean :math:`m_0 = \\sqrt{high}`, half the way from
        1 to the bound in logarithms, or less where means are known to be; without one it is 1.

        >>> CountLoss.of(Interval(0, 25))
        Poisson loss with start 0.2, cap 1.0, dispersion 0.0, most 25.0
        """
        if not isinstance(column, Interval) or column.low < 0 or column.high < 1:
            fail(
                "The target must be a column of counts: an Interval that starts at 0 or above and "
                "ends at 1 or above, such as Interval(0, 20)."
            )
        most = float(column.high)
        spread = check_within("dispersion", dispersion, _MOST_DISPERSION)
        top = most
        if largest_mean is not None:
            top = check_within("largest_mean", largest_mean, f"[1e-6, {most!r}]")
        start = min(math.sqrt(most), top / 2.0) if intercept else 1.0
        return cls(start / most, top / most, spread * most, most=most)

    def _share(self, margin: FloatArray) -> FloatArray:
        """The mean w, cut at its cap, in the precision of the margin."""
        return np.minimum(np.exp(np.minimum(margin, _FAR)) * self.start, self.cap)

    def _bend(self, w: FloatArray, v: FloatArray) -> FloatArray:
        return w * (1.0 + self.dispersion * v) / (1.0 + self.dispersion * w) ** 2

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        w = self._share(margin)
        beyond = np.maximum(margin - math.log(self.cap / self.start), 0.0)
        a = self.dispersion
        inner = np.log1p(a * w) / a if a > 0 else w  # (v + 1/a) log(1 + a w) - v t, and its limit
        fall = y * np.log1p(a * w) - y * (margin - beyond)
        return np.asarray(inner + fall + self.first(margin, y) * beyond)

    def first(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        w = self._share(margin)
        return np.asarray((w - y) / (1.0 + self.dispersion * w))

    def second(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        w = self._share(margin)
        return np.where(w < self.cap, self._bend(w, y), 0.0)

    def both(self, margin: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        w = self._share(margin)
        first = np.asarray((w - y) / (1.0 + self.dispersion * w))
        return first, np.where(w < self.cap, self._bend(w, y), 0.0)

    def mean(self, margin: FloatArray) -> FloatArray:
        return self._share(margin)

    def slope(self, reach: float) -> float:
        low, high = self._ends(reach)
        down, up = ((abs(w - v) / (1.0 + self.dispersion * w)) for w, v in ((low, 1), (high, 0)))
        return max(down, up)

    def _ends(self, reach: float) -> tuple[float, float]:
        """The least and the largest w over margins of at most ``reach``."""
        if not math.isfinite(reach):
            return 0.0, self.cap
        low = self.start * math.exp(-min(reach, _FAR)) * (1.0 - 1e-12)
        high = self.start * math.exp(min(reach, _FAR)) * (1.0 + 1e-12)
        return min(low, self.cap), min(high, self.cap)

    @np.errstate(over="ignore")  # of a next to nothing: the top is then at an end
    def steepest(self, rate: float, ratio: float, reach: float) -> float:
        # Two cases for every w. A count above its mean: both terms grow with v, so v = 1. One
        # below: rate (w - v) / (1 + aw) + log(1 + c q (1 + av)), q = w / (1 + aw)^2, is concave in
        # v, with its top in closed form. Over a cell of w the slope is largest at one end, and q at
        # an end or at 1 / a: so the bound holds for all w, and exceeds the supremum by at most what
        # a slope changes within a cell.
        a, (low, high) = self.dispersion, self._ends(reach)
        # even in log(1 + aw): where a is large, slopes fall fast near zero
        ends = np.linspace(low, high, _CELLS + 1)
        if a > 0:
            ends = np.expm1(np.linspace(math.log1p(a * low), math.log1p(a * high), _CELLS + 1)) / a
            ends[0], ends[-1] = low, high
        left, right = ends[:-1], ends[1:]
        peak = np.clip(1.0 / a, left, right) if a > 0 else right
        q = ratio * peak / (1.0 + a * peak) ** 2
        above = rate * (1.0 - left) / (1.0 + a * left) + np.log1p(q * (1.0 + a))
        v = np.zeros_like(q)
        if a > 0:
            top = (a * (1.0 + a * right) / rate - 1.0 / np.maximum(q, 1e-300) - 1.0) / a
            v = np.clip(top, 0.0, right)
        below = rate * (right - v) / (1.0 + a * right) + np.log1p(q * (1.0 + a * v))
        return float(max(above.max(), below.max())) * (1.0 + 1e-14)

    def __repr__(self) -> str:
        return (
            f"{self.name} loss with start {self.start!r}, cap {self.cap!r}, dispersion "
            f"{self.dispersion!r}, most {self.most!r}"
        )
