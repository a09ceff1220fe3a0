r"""Staircase-shaped laws in closed form: the numbers behind the staircase and the Tulap law.

The shape is :math:`f(x) \propto e^{-\rho\,\ell(x)}` for :math:`|x| \le` cut, with level
:math:`\ell(x) = 0` for :math:`|x| <` core and then one more for every width w:
:math:`\ell(x) = 1 + \lfloor (|x| - \text{core})/w \rfloor`. A law on the integers is the case where
each z stands for the cell (z - 1/2, z + 1/2): shifts by integers move cells onto cells, so
shortfalls agree. Floats only; exactness is proved elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tightdp.errors import FloatArray, fail

Values = FloatArray | float

_DIRECT = 1 << 20  # levels that are summed one by one
_MOST_WIDTHS = 1000


@dataclass(frozen=True)
class Steps:
    """The shape; ``lattice`` says that only integers carry mass (width, core + 1/2 integers)."""

    rate: float
    width: float
    core: float
    cut: float = math.inf
    lattice: bool = False

    @property
    def q(self) -> float:
        """Ratio of neighbouring levels."""
        return math.exp(-self.rate)

    @property
    def gap(self) -> float:
        """1 - q."""
        return -math.expm1(-self.rate)

    @property
    def height(self) -> float:
        """Density at level 0."""
        return 0.5 / float(self.mass_beyond(0.0))

    def level(self, y: Values) -> FloatArray:
        """Level at distance y >= 0 from the centre."""
        return np.asarray(np.maximum(np.floor((y - self.core) / self.width) + 1, 0.0))

    def log_density(self, x: FloatArray) -> FloatArray:
        y = np.abs(x)
        inside = math.log(self.height) - self.rate * self.level(y)
        return np.where(y <= self.cut, inside, -np.inf)

    def _geometric(self, first: Values, last: Values) -> FloatArray:
        """q**first + ... + q**last, 0 when last < first; ``last`` may be infinite."""
        count = np.maximum(last - first + 1, 0.0)
        return np.asarray(np.exp(-self.rate * first) * np.expm1(-self.rate * count) / -self.gap)

    def mass_beyond(self, y: Values) -> FloatArray:
        """The integral of exp(-rate * level) from y >= 0 to the cut."""
        y = np.minimum(y, self.cut)
        here = self.level(y)
        if math.isinf(self.cut):
            rest = self._geometric(here + 1, math.inf)
            return (self.core + here * self.width - y) * np.exp(-self.rate * here) + (
                self.width * rest
            )
        last = self.level(self.cut)
        one = (self.cut - y) * np.exp(-self.rate * here)
        many = (
            (self.core + here * self.width - y) * np.exp(-self.rate * here)
            + self.width * self._geometric(here + 1, last - 1)
            + (self.cut - self.core - (last - 1) * self.width) * np.exp(-self.rate * last)
        )
        return np.where(here >= last, one, many)

    def tail(self, y: Values) -> FloatArray:
        """P(X > y) for y >= 0."""
        return self.height * self.mass_beyond(y)

    def size_of(self, t: Values) -> FloatArray:
        """The y with P(|X| > y) = t."""
        total = float(self.mass_beyond(0.0))
        want = t * total
        if math.isinf(self.cut):
            rest, last = 0.0, math.inf
        else:
            last = float(self.level(self.cut))
            part = (self.cut - self.core - (last - 1) * self.width) / self.width
            rest = -math.exp(-self.rate * last) * (1 - part * self.gap)
        # The mass beyond the start of level n is (q**n + rest) width / (1 - q).
        power = np.maximum(want * self.gap / self.width - rest, np.finfo(np.float64).tiny)
        n = np.clip(np.floor(-np.log(power) / self.rate), 1.0, max(last, 1.0))
        start = self.core + (n - 1) * self.width
        beyond = np.asarray(self.mass_beyond(start))
        steep = np.exp(self.rate * np.minimum(n, 700 / self.rate))
        room = self.width * np.clip((beyond - want) / self.width * steep, 0, 1)
        outer = np.minimum(start + room, self.cut)
        return np.where(total - want < self.core, np.maximum(total - want, 0.0), outer)

    # --- moments ------------------------------------------------------------------------------

    def moment(self, p: int) -> float:
        """E |X|**p for p = 1, 2."""
        w = self.width
        if not self.lattice and w != 1:  # in units of the width, or cubes overflow
            return w**p * Steps(self.rate, 1.0, self.core / w, self.cut / w).moment(p)
        space = 1.0 if self.lattice else 0.0
        start, stop = self.core + space / 2, self.cut + space / 2
        if stop <= start:
            return 2 * self.height * float(_run(p, 0.0, stop, space))
        half = float(_run(p, 0.0, start, space))
        if math.isinf(stop):
            return 2 * self.height * (half + self._all_levels(p, start, space))
        full = math.floor((stop - start) / self.width)
        end = start + full * self.width
        if full <= _DIRECT:
            n = np.arange(float(full))
            runs = _run(p, start + n * self.width, self.width, space)
            half += float(np.sum(np.exp(-self.rate * (n + 1)) * runs))
        elif self.rate * full > 50:  # what is cut off is below exp(-50)
            half += self._all_levels(p, start, space)
        else:
            return self._smooth_moment(p)
        half += math.exp(-self.rate * (full + 1)) * float(_run(p, end, stop - end, space))
        return 2 * self.height * half

    def _smooth_moment(self, p: int) -> float:
        """Over a million steps of a rate below 5e-5: a cut Laplace law, to one part in 10**9."""
        a = self.rate * self.cut / self.width
        from scipy.special import gammainc

        whole = math.factorial(p) * float(gammainc(p + 1, a))
        return (self.width / self.rate) ** p * whole / -math.expm1(-a)

    def _all_levels(self, p: int, start: float, space: float) -> float:
        """Sum over n >= 1 of q**n times the p-th moment of [start + (n-1) w, start + n w)."""
        w, q, gap = self.width, self.q, self.gap
        s0, s1, s2 = q / gap, (q / gap) ** 2, q * q * (1 + q) / gap**3
        first = float(_run(p, start, w, space)) * s0
        if p == 1:
            return first + w * w * s1
        return first + w * w * (2 * start + w - space) * s1 + w**3 * s2

    # --- privacy ------------------------------------------------------------------------------

    def shortfall(self, epsilon: float, shift: float) -> float:
        r"""The hockey-stick divergence of the law from itself moved by ``shift`` >= 0.

        Only x <= shift/2 counts, since elsewhere f(x) <= f(x - shift). Left of -core both levels
        repeat with period w: with shift = aw + b the level of the moved law is ahead by a on the
        first w - b of each period and by a + 1 on the rest. Beyond shift - cut the moved law has
        no mass. Between -core and shift/2 the pieces are listed.
        """
        if shift <= 0:
            return 0.0
        if self.lattice and self.width == 1 and self.core == 0.5:
            return self._half_line(epsilon, shift)
        if shift > _MOST_WIDTHS * self.width:
            fail(f"`shift` must be at most {_MOST_WIDTHS} times the width of a step.")
        edge = min(max(self.cut - shift, self.core), self.cut)
        uncovered = float(self.mass_beyond(edge)) if math.isfinite(edge) else 0.0
        ahead, over = divmod(shift, self.width)
        near, far = self._excess(epsilon, ahead), self._excess(epsilon, ahead + 1)
        lead = self.width - over
        periods = math.floor((edge - self.core) / self.width) if math.isfinite(edge) else math.inf
        covered = float(self._geometric(1.0, periods)) * (lead * near + over * far)
        if math.isfinite(edge):
            left = edge - self.core - periods * self.width
            pieces = min(left, lead) * near + max(left - lead, 0.0) * far
            covered += math.exp(-self.rate * (periods + 1)) * pieces
        return self.height * (uncovered + covered + self._centre(epsilon, shift))

    def _excess(self, epsilon: float, ahead: float) -> float:
        return max(0.0, -math.expm1(min(epsilon - self.rate * ahead, 1.0)))

    def _centre(self, epsilon: float, shift: float) -> float:
        count = np.arange(math.ceil(shift / self.width) + 2)
        own, high = self.core + count * self.width, shift / 2
        points = np.concatenate([own, shift - own, [self.cut, shift - self.cut, high, -self.core]])
        points = np.unique(points[(points >= -self.core) & (points <= high)])
        x, length = (points[1:] + points[:-1]) / 2, np.diff(points)
        here, there = self.level(np.abs(x)), self.level(np.abs(x - shift))
        excess = np.maximum(-np.expm1(np.minimum(epsilon - self.rate * (there - here), 1.0)), 0.0)
        excess = np.where(np.abs(x - shift) > self.cut, 1.0, excess)
        inside = np.abs(x) <= self.cut
        return float(np.sum(np.exp(-self.rate * here) * excess * length * inside))

    def _half_line(self, epsilon: float, shift: float) -> float:
        """The discrete Laplace law is log-concave: the best event is {Z >= c - shift}."""
        reach = self.cut - 0.5
        c = reach + 1
        if epsilon < self.rate * shift:
            c = min(c, math.floor((shift + epsilon / self.rate) / 2) + 1)
        if math.isinf(c):
            return 0.0
        k = c - shift
        first = self.tail(k - 0.5) if k > 0 else 1 - self.tail(0.5 - k)
        second = math.exp(min(epsilon, 700.0)) * self.tail(c - 0.5) if c <= reach else 0
        return max(0.0, float(first - second))

    def worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        """The largest shortfall of shifts up to ``sensitivity``.

        Between shifts at which edges of the two laws meet the shortfall is affine in the shift, so
        the meeting shifts and the last one are enough.
        """
        if self.lattice and self.width == 1 and self.core == 0.5:
            return self.shortfall(epsilon, sensitivity)
        if sensitivity > _MOST_WIDTHS * self.width:
            fail(f"`sensitivity` must be at most {_MOST_WIDTHS} times the width of a step.")
        bases = [0.0, 2 * self.core, -2 * self.core]
        if math.isfinite(self.cut):
            edges = (self.cut - self.core, self.cut + self.core, 2 * self.cut)
            bases += [sign * edge for edge in edges for sign in (-1, 1)]
        count = math.ceil(sensitivity / self.width) + 1
        steps = self.width * np.arange(count + 1)
        meet = {float(s) for base in bases for s in base % self.width + steps}
        shifts = sorted(s for s in meet if 0 < s < sensitivity)
        return max(self.shortfall(epsilon, s) for s in [*shifts, sensitivity])


def _run(p: int, start: float | FloatArray, length: float, space: float) -> FloatArray:
    """Sum (space 1) or integral (space 0) of x**p over [start, start + length)."""
    spread = length * (length - space)
    if p == 1:
        return np.asarray(length * start + spread / 2)
    return np.asarray(length * start**2 + start * spread + spread * (2 * length - space) / 6)
