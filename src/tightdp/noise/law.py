"""What every one-dimensional noise law knows: itself, its losses and its privacy.

A :class:`ContinuousLaw` has a density and is for analysis and simulation; its :meth:`lattice` is
the :class:`LatticeLaw` that is released from, on the integers, drawn with integer arithmetic.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.errors import (
    FloatArray,
    WideIntegers,
    check_count,
    check_positive,
    check_real,
    check_within,
    exact_fraction,
    fail,
    fraction_within,
    shown,
)
from tightdp.noise.steps import Steps
from tightdp.privacy import Guarantee, Neighbors, Numerics, check_epsilon, float_up, text_up
from tightdp.randomness import RandomLike, RandomSource, source

DELTA_FLOOR = 2.0**-256
ROUNDING = 2.0**-40
"""Relative error granted to special functions: computed deltas are raised by this much."""


class NoiseLaw(ABC):
    r"""A law of additive noise X on the line.

    The privacy of adding X to a statistic that moves by s is

    .. math:: \delta(\epsilon, s) = \sup_A\; P(X \in A) - e^{\epsilon} P(X + s \in A)
              = \int \bigl(f(x) - e^{\epsilon} f(x - s)\bigr)_+ dx,

    taken in both directions (:meth:`delta`); :meth:`guarantee` takes the worst s.

    **Lemma (half-lines).** If f is log-concave (a density, or a mass function on the integers)
    the best A is a half-line, and :math:`\delta(\epsilon, s)` does not fall as :math:`|s|` grows.
    Proof: :math:`f(x)/f(x - s)` is monotone in x, so A is a half-line; for a fixed half-line
    :math:`P(X + s \in A)` is monotone in s.
    """

    numerics: Numerics
    epsilon: float
    sensitivity: float
    _delta: float  # of the laws that are made for one
    _made: tuple[Fraction, LatticeLaw] | None = None  # the lattice law drawn from last

    # --- the law ------------------------------------------------------------------------------

    def cdf(self, x: ArrayLike) -> Any:
        """P(X <= x), entry by entry."""
        return plain(self._cdf(np.asarray(x, dtype=np.float64)))

    def quantile(self, p: ArrayLike) -> Any:
        """The least x with P(X <= x) >= p, for p strictly between 0 and 1."""
        levels = np.asarray(p, dtype=np.float64)
        if not bool(((levels > 0) & (levels < 1)).all()):
            fail("`p` must lie strictly between 0 and 1.")
        return plain(self._quantile(levels))

    def mean(self) -> float:
        """E X: 0 for a symmetric law."""
        return 0.0

    def variance(self) -> float:
        """The mean of (X - mean)**2."""
        return self._moment(2) - self.mean() ** 2

    def expected_loss(self, p: int) -> float:
        """The mean of abs(X) for p = 1, of X**2 for p = 2."""
        if check_count("p", p, most=2) == 1:
            return self._moment(1)
        return self._moment(2)

    # --- privacy ------------------------------------------------------------------------------

    def delta(self, epsilon: float, shift: float) -> float:
        """The least delta at this epsilon for a statistic that moves by exactly ``shift``."""
        at = check_within("epsilon", epsilon, "[0, inf)")
        return min(1.0, self._shortfall(at, abs(check_real("shift", shift))))

    def guarantee(
        self,
        sensitivity: float | None = None,
        *,
        epsilon: float | None = None,
        neighbors: str | Neighbors = Neighbors.REPLACE_ONE,
    ) -> Guarantee:
        """What the noise gives to a statistic that moves by at most ``sensitivity``.

        Parameters
        ----------
        sensitivity : float, optional
            The law's own by default.
        epsilon : float, optional
            Where to read off delta; by default the epsilon that suits the law.
        neighbors : str
            The relation under which the sensitivity was taken.
        """
        moved = self.sensitivity if sensitivity is None else self._check_moved(sensitivity)
        if epsilon is None:
            spent, lost = self._natural(moved)
        else:
            spent = check_positive("epsilon", epsilon)
            lost = self._worst_shortfall(spent, moved) * (1 + ROUNDING)
        if lost >= 1:
            fail(
                f"`sensitivity` must be small enough for the noise. At {moved} and epsilon "
                f"{text_up(spent)} the noise protects nothing."
            )
        return Guarantee(
            epsilon=spent,
            delta=lost,
            neighbors=Neighbors.of(neighbors),
            numerics=self.numerics,
        )

    @property
    def cost(self) -> Cost:
        """What the noise costs at its own sensitivity, in every unit of privacy."""
        given = self.guarantee()
        return Cost.of(given.epsilon, given.delta)

    # --- draws --------------------------------------------------------------------------------

    @abstractmethod
    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Independent draws; a single one without ``size``."""

    @abstractmethod
    def lattice(self, grid: Number) -> LatticeLaw:
        """The exact law on the integers z that stand for values ``z * grid``."""

    def sample_lattice(
        self, size: int | None = None, *, grid: Number, rng: RandomLike = None
    ) -> Any:
        """Exact draws: integers z, each for the value ``z * grid``, by integer arithmetic."""
        step, made = exact_fraction("grid", grid), self._made  # one look: threads may ask as well
        if made is None or made[0] != step:
            self._made = made = step, self.lattice(step)
        return made[1].sample(size, rng=rng)

    # --- to be filled in ----------------------------------------------------------------------

    @abstractmethod
    def _cdf(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _quantile(self, p: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _moment(self, p: int) -> float: ...

    @abstractmethod
    def _shortfall(self, epsilon: float, shift: float) -> float: ...

    def _worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        """The largest shortfall of shifts up to the sensitivity: the last, by the Lemma."""
        return self._shortfall(epsilon, sensitivity)

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        """The (epsilon, delta) that suits the law, each rounded up."""
        if sensitivity == self.sensitivity:
            return self.epsilon, self._delta
        return self.epsilon, self._shortfall(self.epsilon, sensitivity)

    def _check_moved(self, sensitivity: Number) -> float:
        return check_sensitivity(sensitivity)[0]

    def _shown(self) -> dict[str, Any]:
        """The parameters to show."""
        delta = {"delta": self._delta} if hasattr(self, "_delta") else {}
        return {"epsilon": self.epsilon, **delta, "sensitivity": self.sensitivity}

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self._shown().items())
        return f"{type(self).__name__}({inner})"


class ContinuousLaw(NoiseLaw):
    """A law on the real line, with a density (and an atom at most)."""

    numerics = Numerics.IDEALIZED
    _exact_sensitivity: Fraction

    def log_density(self, x: ArrayLike) -> Any:
        """Log density, -inf off the support."""
        return plain(self._log_density(np.asarray(x, dtype=np.float64)))

    def density(self, x: ArrayLike) -> Any:
        """Density."""
        return plain(np.exp(self._log_density(np.asarray(x, dtype=np.float64))))

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Independent floats, ``idealized-numerics``: for simulation, not for release."""
        draws = self._sample(check_size(size), source(rng))
        return float(draws[0]) if size is None else draws

    def _sample(self, count: int, bits: RandomSource) -> FloatArray:
        return self._quantile(bits.uniform(count))

    def _steps_of(self, grid: Number) -> int:
        """The sensitivity in units of the grid, rounded up to the private side."""
        return grid_steps(self._exact_sensitivity, grid)

    @abstractmethod
    def _log_density(self, x: FloatArray) -> FloatArray: ...


class SymmetricLaw(ContinuousLaw):
    """A symmetric law with a density, given by its upper tail."""

    def __init__(self, epsilon: Number, sensitivity: Number) -> None:
        self._exact_epsilon = check_epsilon(epsilon)
        self.epsilon = float_up(self._exact_epsilon)
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)

    @abstractmethod
    def _tail(self, y: FloatArray) -> FloatArray:
        """P(X > y) for y >= 0."""

    @abstractmethod
    def _size_of(self, t: FloatArray) -> FloatArray:
        """The y >= 0 with P(|X| > y) = t."""

    def _sample(self, count: int, bits: RandomSource) -> FloatArray:
        return bits.signs(count) * self._size_of(bits.uniform(count))

    def _cdf(self, x: FloatArray) -> FloatArray:
        tail = self._tail(np.abs(x))
        return np.where(x < 0, tail, 1 - tail)

    def _quantile(self, p: FloatArray) -> FloatArray:
        size = self._size_of(np.minimum(2 * np.minimum(p, 1 - p), 1.0))
        return np.where(p < 0.5, -size, size)


class SteppedLaw(SymmetricLaw):
    """A symmetric law in the shape of :class:`~tightdp.noise.steps.Steps`."""

    _steps: Steps

    def _log_density(self, x: FloatArray) -> FloatArray:
        return self._steps.log_density(x)

    def _tail(self, y: FloatArray) -> FloatArray:
        return self._steps.tail(y)

    def _size_of(self, t: FloatArray) -> FloatArray:
        return self._steps.size_of(t)

    def _moment(self, p: int) -> float:
        return self._steps.moment(p)

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return self._steps.shortfall(epsilon, shift)

    def _worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        return self._steps.worst_shortfall(epsilon, sensitivity)


class LatticeLaw(NoiseLaw):
    """A law on the integers whose sampler uses integers only.

    The guarantee is for integer statistics: multiples of the grid, counted in units of it.
    """

    numerics = Numerics.EXACT
    sensitivity: int

    def log_pmf(self, z: ArrayLike) -> Any:
        """Log probability of integers, -inf elsewhere."""
        points = np.asarray(z, dtype=np.float64)
        whole = np.floor(points) == points
        return plain(np.where(whole, self._log_pmf(points), -np.inf))

    def pmf(self, z: ArrayLike) -> Any:
        """Probability of integers, 0 elsewhere."""
        return plain(np.exp(np.asarray(self.log_pmf(z))))

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Independent integers with exactly this law: int64, or Python integers when too large."""
        draws = self._sample(check_size(size), source(rng))
        return int(draws[0]) if size is None else draws

    def lattice(self, grid: Number = 1) -> LatticeLaw:
        """Itself: its grid is the integers, so ``grid`` must be 1."""
        if exact_fraction("grid", grid) != 1:
            fail(f"`grid` must be 1: the law lives on the integers. Got {shown(grid)}.")
        return self

    def sample_lattice(
        self, size: int | None = None, *, grid: Number = 1, rng: RandomLike = None
    ) -> Any:
        """The same as :meth:`sample`."""
        return self.lattice(grid).sample(size, rng=rng)

    @abstractmethod
    def _log_pmf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _sample(self, count: int, bits: RandomSource) -> WideIntegers: ...

    def _near_quantile(self, p: FloatArray) -> FloatArray:
        raise NotImplementedError  # laws with a `_quantile` of their own need no guess

    def _quantile(self, p: FloatArray) -> FloatArray:
        guess = self._near_quantile(p)
        guess = np.where(self._cdf(guess) < p, guess + 1, guess)
        return np.where(self._cdf(guess - 1) >= p, guess - 1, guess)

    def _cdf(self, x: FloatArray) -> FloatArray:
        z = np.floor(x)
        return np.where(z < 0, self._at_least(-z), 1 - self._at_least(z + 1))

    @abstractmethod
    def _at_least(self, k: FloatArray) -> FloatArray:
        """P(Z >= k) for integers k >= 0."""

    def _check_moved(self, sensitivity: Number) -> float:
        return check_count("sensitivity", sensitivity)


# --- checks ---------------------------------------------------------------------------------------


def check_sensitivity(value: object, name: str = "sensitivity") -> tuple[float, Fraction]:
    """A length in [2**-500, 2**500], as a float and exactly."""
    exact = fraction_within(name, value, "(0, inf)")
    if not Fraction(1, 1 << 500) <= exact <= 1 << 500:
        fail(f"`{name}` must lie in [2**-500, 2**500]. Choose another unit.")
    return float(exact), exact


def check_delta(value: object, most: str = "1)", remedy: str = "") -> float:
    """A delta in [2**-256, 1), or up to another bound."""
    return check_within("delta", value, f"[2**-256, {most}", remedy)


def check_shift(shift: float) -> int:
    """By how much an integer statistic moves."""
    return check_count("shift", int(shift) if float(shift).is_integer() else shift, least=0)


def check_size(size: int | None) -> int:
    """How many draws."""
    return 1 if size is None else check_count("size", size, least=0)


def grid_steps(length: Fraction, grid: Number) -> int:
    """How many grid steps cover a length: rounded up."""
    steps = math.ceil(length / fraction_within("grid", grid, "(0, inf)"))
    if steps.bit_length() > 60:
        fail("`grid` must be at least 2**-60 of the sensitivity. Choose a coarser one.")
    return steps


def plain(values: object) -> Any:
    """A float for a single value, else the array."""
    array = np.asarray(values)
    return float(array) if array.ndim == 0 else array
