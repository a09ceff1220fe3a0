"""Noise for the counts of keys that nobody has listed: a key shows only if it is safe to show."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import NDArray

from tightdp.errors import FloatArray, InfeasibleSamplingError, Integers, fail
from tightdp.exact.enclosures import exp_below
from tightdp.noise.gaussian_vectors import GaussianVector
from tightdp.noise.table_noise import cell_shortfalls
from tightdp.privacy import text_down
from tightdp.randomness import RandomSource

MOST_STEPS = 1 << 18
_GUARD = 128  # bits beyond those of delta
_SLACK = 1 << 24  # units that all roundings together cannot reach
_SHARES = tuple(Fraction(n, 16) for n in (1, 2, 4, 8, 12))
_RAREST = Fraction(1, 1 << 64)


class KeyNoise:
    r"""Bounded integer noise and the threshold that hides keys whose noisy count is not above it.

    A key with c rows shows with the probability :math:`\pi(c)`, :math:`\pi(0) = 0`,

    .. math:: \pi(c+1) = \min\{e^{\epsilon}\pi(c) + \delta,\;
        1 - e^{-\epsilon}(1 - \pi(c) - \delta),\; 1\},

    the largest that any (epsilon, delta)-DP choice of keys can have when a row is added or removed
    (Desfontaines, Voss, Gipson and Mandayam, 2022, Theorem 1). The noise that does it has the steps
    :math:`d_j = \pi(j) - \pi(j-1)`, j = 1..N, as its law: :math:`Z = t + 1 - j` with probability
    :math:`d_j`, and a key shows if :math:`c + Z > t`, that is if :math:`j \le c`. So the noisy
    count comes with the key for nothing.

    **Privacy.**
    Statement: showing the key and :math:`c + Z` where that exceeds t, and nothing else, is
    (epsilon, delta)-DP for a change of c by one, also from and to c = 0, where nothing shows.
    Needs: [P1] :math:`d_1 \le \delta`; [P2] the shortfalls of Z moved by one, in both directions,
    are at most delta; [P3] Z has this law.
    Proof: (1) between c = 0 and c = 1 what tells them apart is that the key shows, with probability
    :math:`P(Z > t - 1) = d_1` [P1]. (2) Between c >= 1 and c + 1 the noisy counts are
    (epsilon, delta)-close [P2, P3], and hiding those up to t is post-processing. That P2 can be
    met: the steps grow by the factor :math:`e^{\epsilon}` from :math:`d_1 = \delta`, then fall by
    it; the last two, with :math:`q = 1 - \pi(N-1) \le \delta`, are
    :math:`(e^{\epsilon} - 1)q + \delta` and q, so that what is uncovered at that end is
    :math:`\delta - q + q = \delta`, and at the other end :math:`d_1 = \delta`.
    Numerics: ``exact``. Probabilities are integers over a power of two, found with a rational below
    :math:`e^{\epsilon}` and rounded down, so that they are below the optimum by less than one part
    in 2**80; P1 and P2 are checked in integers when the table is made.

    Examples
    --------
    >>> noise = KeyNoise.of(Fraction(1), Fraction(1, 10**6))
    >>> noise.threshold, noise.steps, [round(float(noise.chance(c)), 4) for c in (1, 10, 14, 20)]
    (13, 28, [0.0, 0.0128, 0.6999, 0.9993])
    """

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon, self.delta = epsilon, delta
        bits = _GUARD + (delta.denominator // delta.numerator).bit_length()
        self.bits = -(-bits // 64) * 64
        self.table = _table(epsilon, delta, self.bits)
        one = 1 << self.bits
        mean = Fraction(sum(one - p for p in self.table[:-1]), one)  # of j
        self.threshold = (mean + Fraction(1, 2)).__floor__() - 1
        self._check()
        inner = [p >> (self.bits - 64) for p in self.table[1:-1]]
        self._words = np.array(inner, dtype=np.uint64)

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction) -> KeyNoise:
        """The noise for a budget, made once."""
        return _made(epsilon, delta)

    def _check(self) -> None:
        weights = [b - a for a, b in zip(self.table, self.table[1:], strict=False)]
        lost = cell_shortfalls(weights[::-1], 1, self.epsilon)[0]
        if Fraction(weights[0], 1 << self.bits) > self.delta or lost > self.delta:  # [P1, P2]
            fail("`delta` and `epsilon` make no table of keys: state others.")

    @property
    def steps(self) -> int:
        """N: a key with as many rows always shows."""
        return len(self.table) - 1

    @property
    def least(self) -> int:
        """The least value of the noise; the largest is the threshold."""
        return self.threshold + 1 - self.steps

    def chance(self, count: int) -> Fraction:
        """The probability with which a key that so many have shows."""
        return Fraction(self.table[min(max(count, 0), self.steps)], 1 << self.bits)

    def probabilities(self) -> FloatArray:
        """Of the values ``least``, ..., ``threshold``."""
        one = 1 << self.bits
        pairs = zip(self.table, self.table[1:], strict=False)
        return np.array([(b - a) / one for a, b in pairs])[::-1]

    @property
    def words(self) -> str:
        """The law, for people."""
        return (
            f"count + z where that is above {self.threshold}, integers z in [{self.least}, "
            f"{self.threshold}] whose weights are the steps of the best chances of keys for "
            f"epsilon = {text_down(self.epsilon)}, delta = {text_down(self.delta)}"
        )

    def ends(self, noisy: FloatArray) -> FloatArray | None:
        """Where the counts are for certain."""
        return np.column_stack([noisy - self.threshold, noisy - self.least])

    def half_width(self, confidence: float, keys: int) -> float:
        """How far any count can be off."""
        return float(max(self.threshold, -self.least))

    def mean_square(self) -> float:
        """Of the noise, whatever is hidden."""
        values = np.arange(self.least, self.threshold + 1, dtype=np.float64)
        return float(self.probabilities() @ values**2)

    def noisy(self, counts: Integers, rng: RandomSource) -> tuple[Integers, NDArray[np.bool_]]:
        """Counts with their noise, and which of them show."""
        found = counts + self.sample(len(counts), rng)
        return found, found > self.threshold

    def sample(self, size: int, rng: RandomSource) -> Integers:
        """Independent draws of the noise. [P3]

        A uniform number of as many bits as the table has lies below j of its entries. Its first
        word decides, unless it is that of an entry.
        """
        words = rng.words(size * (self.bits // 64)).reshape(size, self.bits // 64)
        below = np.searchsorted(self._words, words[:, 0], side="right")
        at = np.searchsorted(self._words, words[:, 0], side="left")
        for i in np.flatnonzero(below != at):
            whole = int.from_bytes(words[i][::-1].astype("<u8").tobytes(), "little")
            below[i] = bisect.bisect_right(self.table, whole, 1, self.steps) - 1
        return np.asarray(self.threshold - below, dtype=np.int64)


class GaussianKeyNoise:
    r"""Gaussian noise and a threshold, for persons with so many keys that it hides fewer of them.

    **Privacy.**
    Statement: showing the keys of counts with :math:`c + Z > t`, and :math:`c + Z`, is
    (epsilon, delta)-DP if at most m counts change, each by one, also from and to 0, where nothing
    shows.
    Needs: [P1] a count of 1 shows with probability at most :math:`p = q/m`; [P2] the noise of up to
    m counts is :math:`(\epsilon - 2q, \delta - q)`-DP for their changes, of l2 size
    :math:`\sqrt m`.
    Proof: let s keys be only in the one table and v only in the other. Some of the s show with
    probability at most q; else what is seen are the other keys, and the v are hidden in the other
    table with probability 1 - q at least [P1]. So with P and P' the laws of the other keys an event
    has probability at most :math:`q + P'(E)`, against :math:`(1 - q) P(E)` at least, and
    :math:`P'(E) \le e^{\epsilon - 2q} P(E) + \delta - q \le e^{\epsilon}(1 - q)P(E) + \delta - q`
    [P2], for :math:`\ln(1 - q) \ge -2q`, q up to 1/2.
    Numerics: ``exact`` sampler; sigma and t come from floats with margins on the private side.

    Examples
    --------
    >>> noise = GaussianKeyNoise.of(Fraction(1), Fraction(1, 10**6), 32)
    >>> round(noise.threshold), round(noise.mean_square() ** 0.5)
    (138, 25)
    """

    def __init__(self, epsilon: Fraction, delta: Fraction, changes: int, share: Fraction) -> None:
        self.changes, lost = changes, share * delta
        self.vector = GaussianVector(  # [P2]
            epsilon=epsilon - 2 * lost,
            delta=delta - lost,
            square=Fraction(changes),
            entries=changes,
        )
        self.resolution, sigma = self.vector.resolution, float(self.vector.sigma)
        rare = float(lost) / changes * (1 - 1e-9) - 2.0**-90  # a discrete one is so near
        far = -float(scipy.special.ndtri(rare)) * (1 + 1e-9)
        self._edge = math.ceil((1 + Fraction(sigma * far)) * self.resolution) + 1  # [P1]

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, changes: int) -> GaussianKeyNoise | None:
        """With the best of some shares of delta for keys that appear; None if there is too little.

        None, too, where epsilon is smaller than what the keys that appear take of it.
        """
        return _gaussian(epsilon, delta, changes)

    @property
    def threshold(self) -> float:
        """t."""
        return self._edge / self.resolution

    @property
    def steps(self) -> int:
        """A key with as many rows shows but for one case in a thousand million."""
        return math.ceil(self.threshold + 6 * float(self.vector.sigma))

    def chance(self, count: int) -> float:
        """The probability with which a key that so many have shows."""
        away = (self.threshold - count) / float(self.vector.sigma)
        return float(scipy.special.ndtr(-away)) if count > 0 else 0.0

    @property
    def words(self) -> str:
        """The law, for people."""
        return (
            f"count + z where that is above {self.threshold:.6g}, rounded; z discrete Gaussian "
            f"with sigma = {float(self.vector.sigma):.6g}, in units of 1/{self.resolution}"
        )

    def ends(self, noisy: FloatArray) -> FloatArray | None:
        """There are none that hold for certain."""
        return None

    def half_width(self, confidence: float, keys: int) -> float:
        """For so many keys at once; rounding counts, too."""
        tail = -math.expm1(math.log(confidence) / keys) / 2
        far = -float(self.vector.sigma) * float(scipy.special.ndtri(tail))
        return far + 1 / self.resolution + 0.5

    def mean_square(self) -> float:
        """Of the noise and of rounding."""
        return float(self.vector.sigma) ** 2 + 1 / 12

    def noisy(self, counts: Integers, rng: RandomSource) -> tuple[Integers, NDArray[np.bool_]]:
        """Counts with their noise, rounded, and which of them show."""
        half, unit = self.resolution // 2, self.resolution
        draws = self.vector.sample(len(counts), unit, rng=rng)
        whole = [int(c) * unit + z for c, z in zip(counts, draws, strict=True)]
        rounded = np.array([(w + half) // unit for w in whole], dtype=np.int64)
        return rounded, np.array([w > self._edge for w in whole], dtype=np.bool_)


@lru_cache(maxsize=64)
def _gaussian(epsilon: Fraction, delta: Fraction, changes: int) -> GaussianKeyNoise | None:
    found = [
        GaussianKeyNoise(epsilon, delta, changes, share)
        for share in _SHARES
        if 4 * share * delta <= epsilon
        and 4 * share * delta <= 1
        and share * delta / changes > _RAREST
    ]
    return min(found, key=lambda noise: noise.threshold, default=None)


@lru_cache(maxsize=64)
def _made(epsilon: Fraction, delta: Fraction) -> KeyNoise:
    return KeyNoise(epsilon, delta)


def _table(epsilon: Fraction, delta: Fraction, bits: int) -> list[int]:
    """The probabilities of 0, 1, ... rows in units of ``2**-bits``, up to the first that is 1."""
    one = 1 << bits
    least = delta.numerator * one // delta.denominator - _SLACK
    top, high = exp_below(epsilon)  # top / high <= exp(epsilon)
    table = [0]
    while table[-1] < one:
        if len(table) > MOST_STEPS:
            fail(
                f"`epsilon` must be larger, or `delta`: no key that fewer than {MOST_STEPS} have "
                "would be sure to show.",
                InfeasibleSamplingError,
            )
        here = table[-1]
        rest = max(one - here - least, 0)
        table.append(min(here * top // high + least, one - -(-rest * high // top), one))
    return table
