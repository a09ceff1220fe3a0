"""Exact noise in Python integers: the oracle for :mod:`tightdp.exact.discrete_draws`.

Every function draws uniform integers below a bound and compares integers; there is no float, no
logarithm and no table. It never rounds.

The algorithms are those of [CKS20]: C. Canonne, G. Kamath, T. Steinke, *The Discrete Gaussian for
Differential Privacy*, NeurIPS 2020, Algorithms 1 to 3.
"""

from __future__ import annotations

from math import isqrt

from tightdp.accepted import Number
from tightdp.errors import check_count, exact_fraction, fail, shown
from tightdp.exact.discrete_draws import check_rate
from tightdp.randomness import RandomSource


def bernoulli_exp(num: int, den: int, rng: RandomSource) -> bool:
    r"""True with probability exactly :math:`e^{-x}`, for the rational :math:`x` = num/den >= 0.

    Proof: for :math:`x \le 1` let A_1, A_2, ... be independent with :math:`P(A_k) = x/k` and K the
    first k that fails. Then :math:`P(K > k) = x^k/k!`, so
    :math:`P(K \text{ odd}) = \sum_{k \ge 0} (-x)^k/k! = e^{-x}`. For :math:`x > 1` write
    :math:`x = n + r` and :math:`e^{-x} = (e^{-1})^n e^{-r}`: n + 1 independent trials must succeed.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> bernoulli_exp(0, 1, source()), bernoulli_exp(10**6, 1, source())
    (True, False)
    """
    check_count("num", num, least=0)
    check_count("den", den)
    whole, rest = divmod(num, den)
    for _ in range(whole):
        if not _bernoulli_exp_below_one(1, 1, rng):
            return False
    return _bernoulli_exp_below_one(rest, den, rng)


def _bernoulli_exp_below_one(num: int, den: int, rng: RandomSource) -> bool:
    k = 1
    while rng.below(den * k) < num:
        k += 1
    return k % 2 == 1


def geometric(num: int, den: int, rng: RandomSource) -> int:
    r"""An integer k >= 0 with probability :math:`(1-q)\,q^k`, :math:`q = e^{-s/t}`, s/t = num/den.

    Proof: U uniform on 0..t-1, kept with probability :math:`e^{-U/t}`, and V the number of
    successes in a row of independent Bernoulli(1/e). Then X = U + tV has
    :math:`P(X = x) \propto e^{-x/t}` for every x >= 0, and
    :math:`P(\lfloor X/s \rfloor \ge k) = P(X \ge sk) = e^{-sk/t} = q^k`.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> geometric(1, 10**30, source(1)) > 10**20
    True
    """
    s, t = check_rate(num, den)
    u = rng.below(t)
    while not _bernoulli_exp_below_one(u, t, rng):
        u = rng.below(t)
    v = 0
    while _bernoulli_exp_below_one(1, 1, rng):
        v += 1
    return (u + t * v) // s


def discrete_laplace(num: int, den: int, rng: RandomSource) -> int:
    r"""An integer z with probability proportional to :math:`e^{-|z|\,s/t}`, s/t = num/den.

    Proof: a fair sign and a geometric magnitude give every z != 0 the weight
    :math:`\tfrac12 (1-q) q^{|z|}`; zero would get it twice, so minus zero is refused and both are
    drawn again.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> isinstance(discrete_laplace(2, 3, source()), int)
    True
    """
    while True:
        negative, size = rng.below(2), geometric(num, den, rng)
        if size or not negative:
            return -size if negative else size


def discrete_gaussian(sigma2: Number, rng: RandomSource) -> int:
    r"""An integer z with probability proportional to :math:`e^{-z^2/(2\sigma^2)}`.

    Proof: with t = floor(sigma) + 1 and Y discrete Laplace of rate 1/t, accepting Y with
    probability :math:`e^{-(|Y| - \sigma^2/t)^2/(2\sigma^2)}` leaves
    :math:`P(Y) \propto e^{-|Y|/t - Y^2/(2\sigma^2) + |Y|/t}`; the constant cancels.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from tightdp.randomness import source
    >>> isinstance(discrete_gaussian(Fraction(7, 3), source()), int)
    True
    """
    a, b, t = gaussian_parameters(sigma2)
    while True:
        y = discrete_laplace(1, t, rng)
        if bernoulli_exp(*gaussian_exponent(y, a, b, t), rng):
            return y


def gaussian_parameters(sigma2: Number) -> tuple[int, int, int]:
    """``(a, b, t)`` with sigma**2 = a/b in lowest terms and t = floor(sigma) + 1."""
    variance = exact_fraction("sigma2", sigma2)
    if not variance > 0:
        fail(f"`sigma2` must be a finite number > 0. Got {shown(sigma2)}.")
    a, b = variance.numerator, variance.denominator
    return a, b, isqrt(a // b) + 1


def gaussian_exponent(y: int, a: int, b: int, t: int) -> tuple[int, int]:
    """(|y| - s/t)**2 / (2 s) for the variance s = a/b, as numerator and denominator."""
    return (abs(y) * b * t - a) ** 2, 2 * a * b * t * t
