r"""A uniform real number of which only as many bits are drawn as a question needs.

The number U lies in [v/2^n, (v+1)/2^n]; the bits that are not yet drawn are independent and fair,
so U is exactly uniform. A question about -ln U is answered from bounds in integers; when they do
not settle it, more bits are drawn and **the same U** is asked again. It is never redrawn: redrawing
would condition the law on being easy.

The questions are: which k has :math:`k \le -\ln U / x < k + 1`, and is :math:`-\ln U \ge x`, for a
rational x > 0. Since :math:`P(-\ln U \ge jx) = P(U \le e^{-jx}) = e^{-jx}`, the first answer is
geometric with ratio :math:`e^{-x}`, the second Bernoulli(:math:`e^{-x}`). For j >= 1 the number
:math:`e^{-jx}` is irrational, so U avoids it with certainty as its bits grow, and every question is
settled with probability 1.
"""

from __future__ import annotations

from functools import lru_cache

from tightdp.randomness import RandomSource

GUARD_BITS = 64
LOG_SLACK = 2  # |minus_log - truth| in units of the last place, proved there


class LazyUniform:
    """A uniform number on (0, 1) of which ``bits`` leading bits are known, as ``value``.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> half = LazyUniform(1 << 62, 63, source(1))
    >>> half.level(1, 10), half.exceeds(1, 2)
    (6, True)
    """

    __slots__ = ("bits", "rng", "value")

    def __init__(self, value: int, bits: int, rng: RandomSource) -> None:
        self.value, self.bits, self.rng = value, bits, rng

    def level(self, num: int, den: int) -> int:
        """floor(-ln U / (num/den)): geometric with ratio exp(-num/den)."""
        while True:
            low, high, shift = self.minus_log_bounds()
            if high is not None:
                unit = num << shift
                least = low * den // unit
                if least == high * den // unit:
                    return least
            self.extend()

    def exceeds(self, num: int, den: int) -> bool:
        """Whether -ln U >= num/den: Bernoulli(exp(-num/den))."""
        while True:
            low, high, shift = self.minus_log_bounds()
            if low * den >= num << shift:
                return True
            if high is not None and high * den < num << shift:
                return False
            self.extend()

    def extend(self) -> None:
        """Draw fresh words for as many bits as are known already, at least."""
        words = -(-self.bits // 64)
        fresh = int.from_bytes(self.rng.words(words).tobytes(), "little")
        self.value, self.bits = self.value << (64 * words) | fresh, self.bits + 64 * words

    def minus_log_bounds(self) -> tuple[int, int | None, int]:
        """``(low, high, shift)``: low <= -ln U * 2**shift <= high, and high None for no bound.

        From U >= v/2^n comes the upper bound; ln(v + 1) <= ln(v) + 1/v gives the lower one without
        a second logarithm.
        """
        shift = self.bits + 16
        if self.value == 0:
            return minus_log(1, self.bits, shift) - LOG_SLACK, None, shift
        middle = minus_log(self.value, self.bits, shift)
        width = (1 << shift) // self.value + 1
        return max(0, middle - LOG_SLACK - width), middle + LOG_SLACK, shift


def minus_log(value: int, bits: int, shift: int) -> int:
    r"""-ln(value / 2**bits) * 2**shift within ``LOG_SLACK``, for 1 <= value <= 2**bits.

    Write value = 2^e (i/64)(1 + d) with i in 64..127 and 0 <= d < 1/64, so that
    -ln(value/2^n) = (n - e) ln 2 - ln(i/64) - 2 artanh(z), z = d/(2 + d) < 2^-7.

    Error: let P = shift + 64 be the internal places. Each of the three logarithms is low by less
    than 4P units (:func:`_double_artanh`), the first is multiplied by n - e <= P, so the sum errs
    by less than 4P^2 + 8P < 2^62 internal units as long as shift < 2^29; that is a quarter of a
    unit of the result, and the last floor loses less than one.

    >>> abs(minus_log(1, 1, 60) / 2**60 - 0.6931471805599453) < 1e-15
    True
    """
    places = shift + GUARD_BITS
    e = value.bit_length() - 1
    i = (value << 6) >> e
    top, bottom = (value << 6) - (i << e), (value << 6) + (i << e)
    total = (bits - e) * _log_of_64ths(128, places) - _log_of_64ths(i, places)
    return (total - _double_artanh(top, bottom, places)) >> GUARD_BITS


@lru_cache(maxsize=1 << 10)
def _log_of_64ths(i: int, places: int) -> int:
    """ln(i/64) * 2**places for i in 64..128, from ln(a) = 2 artanh((a - 1)/(a + 1))."""
    return _double_artanh(i - 64, i + 64, places)


def _double_artanh(top: int, bottom: int, places: int) -> int:
    r"""2 artanh(top/bottom) * 2**places for 0 <= top/bottom <= 1/3, low by less than 4*places.

    Series: artanh(z) = z + z^3/3 + z^5/5 + ... With floors, z is low by less than 1 unit and z^2
    by less than 2; if z^k is low by less than 2, then z^(k+2) is low by less than
    2/9 + 2/3 + 1 < 2. So every z^k/k is low by less than 3, there are at most places/3 + 2 of
    them, and those left out, from a true z^k < 3 on, add up to less than 4.
    """
    z = (top << places) // bottom
    square = z * z >> places
    total, power, k = z, z, 1
    while power:
        power, k = power * square >> places, k + 2
        total += power // k
    return 2 * total
