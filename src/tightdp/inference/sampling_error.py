r"""How far a population can be from a sample of it, whatever the population within its bounds is.

All functions speak of n independent numbers in [0, 1] and hold for every law of them, for every n;
``risk`` is the probability that a statement fails. They adapt to the sample: where numbers crowd
together, or lie near a bound, intervals are short. No data are touched: what enters was released.
"""

from __future__ import annotations

import math


def chernoff_ends(mean: float, n: int, risk: float) -> tuple[float, float]:
    r"""Bounds on an expectation p from a mean of n numbers in [0, 1].

    :math:`P(\bar x \ge p + t) \le e^{-n\,\mathrm{kl}(p+t, p)}`, and the same below (Hoeffding,
    1963, Theorem 1, equation 2.1), so that all p with :math:`n\,\mathrm{kl}(\bar x, p) \le
    \log(2/\mathrm{risk})` are an interval. Never wider than Hoeffding's, far shorter near a bound.

    >>> [round(end, 4) for end in chernoff_ends(0.02, 1000, 0.05)]
    [0.0102, 0.0345]
    """
    most = math.log(2 / risk) / n
    return _furthest(mean, 0.0, most), _furthest(mean, 1.0, most)


def _furthest(mean: float, end: float, most: float) -> float:
    """The p between a mean and an end of [0, 1] with kl(mean, p) = most, rounded outwards."""
    if _divergence(mean, end) <= most:
        return end
    near, far = mean, end
    for _ in range(80):
        middle = (near + far) / 2
        near, far = (middle, far) if _divergence(mean, middle) <= most else (near, middle)
    return far


def _divergence(a: float, p: float) -> float:
    """kl(a, p) = a log(a/p) + (1-a) log((1-a)/(1-p))."""
    parts = ((a, p), (1 - a, 1 - p))
    if any(x > 0 and y <= 0 for x, y in parts):
        return math.inf
    return sum(x * math.log(x / y) for x, y in parts if x > 0)


def bernstein_reach(variance: float, n: int, risk: float) -> float:
    r"""How far an expectation can be from the mean of n numbers with this sample variance.

    :math:`\sqrt{2 s^2 \log(4/\mathrm{risk})/n} + 7\log(4/\mathrm{risk})/\{3(n-1)\}`, :math:`s^2`
    with divisor n - 1 (Maurer and Pontil, 2009, Theorem 4, on both sides).

    >>> round(bernstein_reach(0.0, 1001, 0.05), 5), round(bernstein_reach(0.25, 10**6, 0.05), 5)
    (0.01022, 0.00149)
    """
    if n < 2:
        return 1.0
    t = math.log(4 / risk)
    return math.sqrt(2 * variance * t / n) + 7 * t / (3 * (n - 1))


def deviation_reach(n: int, risk: float) -> float:
    r"""How far the standard deviation of a population can be from that of n numbers (divisor n-1).

    :math:`\sqrt{2 \log(2/\mathrm{risk})/(n-1)}` (Maurer and Pontil, 2009, Theorem 10, on both
    sides): the variance is then known in proportion to the standard deviation.

    >>> round(deviation_reach(10_001, 0.05), 5)
    0.02716
    """
    return math.sqrt(2 * math.log(2 / risk) / (n - 1)) if n > 1 else 1.0
