r"""How little rotation-invariant noise can do with: a lower bound and a verifier without a solver.

Noise Z in :math:`R^m` whose law depends on :math:`|Z|` alone is added to a query that moves by up
to 1 in the l2 norm. If that is (epsilon, delta)-DP, then

.. math:: E|Z|^2 \ge \nu - \lambda\delta, \qquad
          r^2 + \lambda\,\Phi(r) - \lambda e^{\epsilon}\,\Psi(r) \ge \nu \text{ for all } r > 0,

for every price :math:`\lambda \ge 0` and every event A, with :math:`\Phi(r) = P(rU \in A)`,
:math:`\Psi(r) = P(rU + e \in A)`, U a uniform direction and e a unit vector.

**Proof.** :math:`P(Z \in A) - e^\epsilon P(Z + e \in A) \le \delta` is one of the conditions of
privacy. So :math:`E|Z|^2 \ge E|Z|^2 + \lambda\{P(Z \in A) - e^\epsilon P(Z + e \in A) - \delta\}`,
and given :math:`|Z| = r` the mean of the right side is that of the display, less
:math:`\lambda\delta`. This is the dual of a linear program over all radial laws.

The events here are :math:`A = \{|z - e| \ge T(|z|)\}`, :math:`T(w) = w + b(w)` increasing and b
piecewise linear with values in [0, 1], constant after its last knot. With F the distribution
function of :math:`C = U_1`:

.. math:: \Phi(r) = F\Bigl(\frac{1 - b^2}{2r} - b\Bigr), \quad b = b(r); \qquad
          \Psi(r) = F\Bigl(-\beta - \frac{1 - \beta^2}{2r}\Bigr), \quad \beta = b(w),\ T(w) = r,

and :math:`\Psi(r) = 0` for r < T(0): for :math:`|rU - e|^2 = r^2 - 2rC + 1 \ge (r + b)^2` is the
first, and :math:`r \ge T(|rU + e|)`, that is :math:`|rU + e| \le w = r - \beta`, the second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.design.exact_numbers import Refuted, rational
from tightdp.design.records import check_format, complete, read_record
from tightdp.errors import FloatArray, TightdpError, UndecidedError, fail
from tightdp.noise.l2_curve import l2_scale
from tightdp.noise.law import ROUNDING

FORMAT = "tightdp radial bound 1"
_ASIDE = 1e-13  # what the argument of F may err by
_MOST_CELLS, _ROUNDS = 1 << 20, 60
MOST_DIM, _MOST_EPSILON = 1 << 10, 1 << 9  # beyond, powers of e are no doubles


def cosine_below(dim: int, c: FloatArray) -> FloatArray:
    """P(C <= c) for the first entry of a uniform direction in ``dim`` >= 2 dimensions.

    >>> cosine_below(3, np.array([-2.0, -0.5, 0.0, 1.0])).round(9).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    inside = np.clip(c, -1.0, 1.0)
    tail = 0.5 * scipy.special.betainc((dim - 1) / 2, 0.5, (1 - inside) * (1 + inside))
    return np.asarray(np.where(inside >= 0, 1 - tail, tail))


def cosine_density(dim: int, c: FloatArray) -> FloatArray:
    """The density of C, 0 outside of [-1, 1]."""
    inside = np.maximum((1 - c) * (1 + c), 0.0)
    whole = float(scipy.special.beta(0.5, (dim - 1) / 2))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(np.abs(c) <= 1, inside ** ((dim - 3) / 2) / whole, 0.0))


@dataclass(frozen=True)
class RadialBound:
    r"""A lower bound on :math:`E|Z|^2` of all radial (epsilon, delta)-DP noise.

    Moves have a length of at most 1; both numbers grow with the square of the length.

    **Proof.** See :mod:`tightdp.design.radial_bound`; :meth:`verify` checks it from the numbers
    below alone. The half-line of radii is cut into cells, and on each the display is bounded from
    below by its ends, or by its middle and the range of its slope; cells are halved until the bound
    is ``floor`` or more. Special functions are granted :math:`2^{-40}`.

    Attributes
    ----------
    dim : int
    epsilon, delta : Fraction
    price : Fraction
        :math:`\lambda\delta`.
    floor : Fraction
        :math:`\nu`.
    knots, widths : tuple of Fraction
        Where b is known, from 0 on, and what it is there.

    Examples
    --------
    >>> from tightdp import bound_radial_noise
    >>> found = bound_radial_noise(10, epsilon=1, delta=1e-3, rounds=3)
    >>> found.verify(), 0 < found.lower < found.upper
    (True, True)
    """

    dim: int
    epsilon: Fraction
    delta: Fraction
    price: Fraction
    floor: Fraction
    knots: tuple[Fraction, ...]
    widths: tuple[Fraction, ...]

    @property
    def lower(self) -> Fraction:
        """What every radial noise has at least, of the mean of its squared length."""
        return self.floor - self.price

    @cached_property
    def upper(self) -> Fraction:
        """That of the l2 mechanism, which is radial: m (m + 1) s^2."""
        less = 1 - 2.0**-52  # never more than is stated
        scale = l2_scale(self.dim, float(self.epsilon) * less, float(self.delta) * less)
        return self.dim * (self.dim + 1) * Fraction(scale) ** 2

    @property
    def gap(self) -> float:
        """(upper - lower) / lower: how far the l2 mechanism is from the best, at most."""
        return float(self.upper / self.lower) - 1

    # --- the proof ------------------------------------------------------------------------------

    def verify(self) -> bool:
        """Prove the lower bound again, without a solver; an error if it does not hold."""
        self._check_form()
        try:
            if self._holds():
                return True
        except ArithmeticError:  # numbers beyond doubles
            pass
        fail("The lower bound on radial noise is not proved by its numbers.", UndecidedError)

    def _holds(self) -> bool:
        """Whether the display is proved to be ``floor`` or more at all radii."""
        floor = math.nextafter(float(self.floor), math.inf)
        cells = self._cells
        for _ in range(_ROUNDS):
            with np.errstate(all="ignore"):  # what is not finite proves nothing
                held = self._bounds(*cells) >= floor
            if held.all():
                return True
            left, right = (side[~held] for side in cells)
            middle = (left + right) / 2
            cells = np.concatenate([left, middle]), np.concatenate([middle, right])
            if len(cells[0]) > _MOST_CELLS or (self.display(middle) < floor).any():
                break
        return False

    def _check_form(self) -> None:
        """The event is one of those that the proof is about."""
        knots, widths = self.knots, self.widths
        steps = [b - a for a, b in pairwise(knots)]
        rises = [b - a for a, b in pairwise(widths)]
        if not (
            2 <= self.dim <= MOST_DIM
            and 0 < self.epsilon <= _MOST_EPSILON
            and 0 < self.delta < 1
            and self.price >= 0
            and len(knots) == len(widths) >= 2
            and knots[0] == 0
            and all(step > 0 for step in steps)
            and all(0 <= width <= 1 for width in widths)
            and all(step + rise > 0 for step, rise in zip(steps, rises, strict=True))
        ):
            fail(
                "The event of a lower bound on radial noise is not increasing, or its facts are "
                "out of range.",
                UndecidedError,
            )

    @property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        """Cells between the bends of b and of its inverse, up to where r^2 alone is enough."""
        knots, turns = self._bends
        price = float(self.price / self.delta) * math.exp(self.epsilon) * (1 + ROUNDING)
        far = cosine_below(self.dim, np.array([-float(self.widths[-1]) + _ASIDE]))[0]
        far_enough = math.sqrt(max(0.0, float(self.floor)) + price * float(far) * (1 + ROUNDING))
        end = max(far_enough * (1 + 1e-9), float(turns[-1]) * (1 + 1e-9))  # b is constant beyond
        edges = np.unique(np.concatenate([knots, turns, [end]]))
        return edges[:-1], edges[1:]

    @cached_property
    def _bends(self) -> tuple[FloatArray, FloatArray]:
        knots = np.array([float(knot) for knot in self.knots])
        return knots, knots + np.array([float(width) for width in self.widths])

    def _wide(self, r: FloatArray) -> FloatArray:
        return np.interp(r, self._bends[0], [float(width) for width in self.widths])

    def _back(self, r: FloatArray) -> FloatArray:
        """beta: how far T reaches beyond w at T(w) = r."""
        knots, turns = self._bends
        return np.where(r > turns[-1], turns[-1] - knots[-1], r - np.interp(r, turns, knots))

    def display(self, r: FloatArray) -> FloatArray:
        """r^2 + lambda Phi - lambda e^epsilon Psi at radii r > 0, in floats."""
        b, beta = self._wide(r), self._back(r)
        first = cosine_below(self.dim, (1 - b * b) / (2 * r) - b)
        second = cosine_below(self.dim, -beta - (1 - beta * beta) / (2 * r))
        second = np.where(r < self._bends[1][0], 0.0, second)
        price = float(self.price / self.delta)
        return np.asarray(r * r + price * (first - math.exp(self.epsilon) * second))

    def _bounds(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Lower bounds on the display over cells in which b and beta are linear."""
        begins = self._bends[1][0]
        active = right > begins * (1 + 1e-15)  # elsewhere Psi is 0
        lost, kept = self._ends(left, right, self._wide), self._ends(left, right, self._back)
        by_ends = left**2 + self._weighed(lost[0], np.where(active, kept[1], -2.0))
        middle, half = (left + right) / 2, (right - left) / 2
        at = self._ends(middle, middle, self._wide), self._ends(middle, middle, self._back)
        value = middle**2 + self._weighed(at[0][0], np.where(active, at[1][1], -2.0))
        low, high = self._slopes(left, right, lost, kept, active)
        by_slope = value - half * np.maximum(np.abs(low), np.abs(high))
        straddled = (left < begins) & (right > begins)  # a jump of the slope: ends alone
        by_slope = np.where(straddled | ~np.isfinite(by_slope), -np.inf, by_slope)
        return np.maximum(by_ends, by_slope) * (1 - 2.0**-46)

    def _weighed(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """lambda (F(first) - e^epsilon F(second)), rounded down."""
        price = float(self.price / self.delta)
        low = cosine_below(self.dim, first - _ASIDE) * (1 - ROUNDING)
        high = cosine_below(self.dim, second + _ASIDE) * (1 + ROUNDING)
        high = np.where(second < -1.5, 0.0, high)
        return np.asarray(price * (low - math.exp(self.epsilon) * (1 + ROUNDING) * high))

    def _ends(self, left: FloatArray, right: FloatArray, wide: Any) -> tuple[Any, ...]:
        """The range of the argument of F on cells, and that of b or beta."""
        ends = wide(left), wide(right)
        low, high = np.minimum(*ends), np.maximum(*ends)
        safe = np.maximum(left, 1e-300)
        if wide == self._wide:
            least, most = (1 - high**2) / (2 * right) - high, (1 - low**2) / (2 * safe) - low
        else:
            least, most = -high - (1 - high**2) / (2 * safe), -low - (1 - low**2) / (2 * right)
            # the argument falls in beta where beta <= r, which holds as w >= 0
        return least, most, low, high

    def _slopes(
        self, left: FloatArray, right: FloatArray, lost: Any, kept: Any, active: Any
    ) -> tuple[FloatArray, FloatArray]:
        """The range of the derivative of the display on cells."""
        width, safe = right - left, np.maximum(left, 1e-300)
        rise = (self._wide(right) - self._wide(left)) / width
        back = (self._back(right) - self._back(left)) / width
        # d/dr {(1 - b^2)/(2r) - b} = -(1 - b^2)/(2r^2) - b b'/r - b'
        first = _sum(
            _neg(_over(1 - lost[3] ** 2, 1 - lost[2] ** 2, 2 * safe**2, 2 * right**2)),
            _neg(_times(_over(lost[2], lost[3], safe, right), rise)),
            (-rise, -rise),
        )
        # d/dr {-beta - (1 - beta^2)/(2r)} = -beta' + (1 - beta^2)/(2r^2) + beta beta'/r
        second = _sum(
            (-back, -back),
            _over(1 - kept[3] ** 2, 1 - kept[2] ** 2, 2 * safe**2, 2 * right**2),
            _times(_over(kept[2], kept[3], safe, right), back),
        )
        price, odds = float(self.price / self.delta), math.exp(self.epsilon)
        gain = _product(self._densities(*lost[:2]), first)
        loss = _product(self._densities(*kept[:2]), second)
        least, most = (np.where(active, side * odds, 0.0) for side in loss)
        spare = 1e-9 * (price * sum(np.abs(side) for side in (*gain, least, most)) + right)
        low = 2 * left + price * (gain[0] - most) - spare
        return low, 2 * right + price * (gain[1] - least) + spare

    def _densities(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The range of the density of C on ranges of c, infinite ends included."""
        ends = [cosine_density(self.dim, side) for side in (low - _ASIDE, high + _ASIDE)]
        inside = [(low - _ASIDE <= c) & (high + _ASIDE >= c) for c in (-1.0, 0.0, 1.0)]
        for at, c in zip(inside, (-1.0, 0.0, 1.0), strict=True):
            value = float(cosine_density(self.dim, np.array([c]))[0])
            ends.append(np.where(at, value, ends[0]))
        outside = (low < -1) | (high > 1)
        return np.where(outside, 0.0, np.minimum.reduce(ends)), np.maximum.reduce(ends)

    # --- as a record ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values, exact; :meth:`from_dict` gives the bound back, and proves it again."""
        return {
            "format": FORMAT,
            "dim": self.dim,
            **{name: str(getattr(self, name)) for name in ("epsilon", "delta", "price", "floor")},
            "knots": [str(knot) for knot in self.knots],
            "widths": [str(width) for width in self.widths],
            "lower": str(self.lower),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The bound in a dictionary; refused when it is not proved by its numbers."""
        check_format(record, FORMAT)
        with complete():
            dim = record["dim"]
            if type(dim) is not int or dim < 2:
                raise Refuted("dim")
            names = ("epsilon", "delta", "price", "floor")
            found = cls(
                dim=dim,
                **{name: rational(record[name]) for name in names},
                knots=tuple(rational(knot) for knot in record["knots"]),
                widths=tuple(rational(width) for width in record["widths"]),
            )
            if str(found.lower) != record["lower"]:
                raise Refuted("lower")
        found.verify()
        return found

    def to_json(self) -> str:
        """The bound as JSON text, which proves it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The bound in a JSON text; refused when it is not proved by its numbers."""
        return cls.from_dict(read_record(text))


def verify(document: Any) -> tuple[Fraction, Fraction]:
    """Both ends of the range of the best radial noise that a record proves."""
    try:
        found = RadialBound.from_dict(document)
    except TightdpError as reason:
        raise Refuted(str(reason)) from None
    return found.lower, found.upper


def rests_on(document: Any) -> str:
    """What the proof believes beside arithmetic."""
    return "all radial noise for l2 moves of length 1; special functions are granted 2**-40"


Range = tuple[FloatArray, FloatArray]


def _sum(*parts: Range) -> Range:
    return sum(p[0] for p in parts), sum(p[1] for p in parts)  # type: ignore[return-value]


def _neg(part: Range) -> Range:
    return -part[1], -part[0]


def _over(low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray) -> Range:
    """A range of numbers >= 0 over one of positive numbers."""
    return low / most, high / least


def _times(part: Range, factor: FloatArray) -> Range:
    ends = part[0] * factor, part[1] * factor
    return np.minimum(*ends), np.maximum(*ends)


def _product(part: Range, other: Range) -> Range:
    with np.errstate(invalid="ignore"):
        ends = [a * b for a in part for b in other]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)
