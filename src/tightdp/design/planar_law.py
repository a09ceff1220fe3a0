"""A noise in the plane as integers: its law, its exact draws, and the proof of its privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.design.planar_balls import (
    BALLS,
    BoundaryCover,
    lattice_shifts,
    rounded_radius,
)
from tightdp.design.planar_bound import PlanarBound
from tightdp.design.planar_grid import LOSSES, PlanarGrid, Shift, shortfall
from tightdp.design.records import ProvedDesign, check_format, complete
from tightdp.design.verifier import rational
from tightdp.errors import (
    FloatArray,
    UndecidedError,
    check_array,
    check_choice,
    check_count,
    fail,
)
from tightdp.exact.enclosures import exp_below
from tightdp.exact.rates import check_epsilon
from tightdp.randomness import RandomLike, source

FORMAT = "tightdp planar design 1"
_POINTS = 1 << 20


@dataclass(frozen=True, eq=False)
class PlanarDesign(ProvedDesign):
    r"""Noise in the plane with a proof of its privacy and a proof of how good it is.

    .. math:: X \sim p_0\,\delta_0 + \sum_i p_i\,\mathrm{Uniform}(\text{square cell } i).

    **Privacy.**
    Statement: adding X to a query in the plane, whose changes lie in the ball of radius
    ``sensitivity``, is (epsilon, delta)-DP; so is the exact sampler on the grid of step
    ``grid_step``, for a query rounded to that grid.
    Needs: [P1] changes in the ball; [P2] integers, drawn with the weights stated.
    Proof: (1) Between lattice shifts the shortfall of the cells is bilinear in the shift; so it
    is on a grid with r points a cell, at shifts by multiples of 1/r. (2) The atom meets no atom and
    adds :math:`p_0`, since :math:`(x + y)_+ \le x_+ + y_+`. (3) Over the ball a bilinear function
    is largest at its lattice points or on its boundary, which is covered by boxes with rational
    corners (:mod:`tightdp.design.planar_balls`). (4) All is integer arithmetic, with a rational
    lower bound of :math:`e^\epsilon`. (5) Rounding the query lengthens its changes by less than 2
    steps (l1), sqrt(2) steps (l2) or nothing (linf): the ball of the proof is that much larger.
    Numerics: ``exact``.
    References: Selvi and others (2025), section on multi-dimensional noise. The published
    constraint asks for the shortfall at all outer corners of the boundary; the bilinear one is
    weaker and enough.

    Attributes
    ----------
    epsilon, delta, sensitivity : Fraction
    ball : {"l1", "l2", "linf"}
    loss : {"l1", "l2"}
        E(abs(x1) + abs(x2)), or E(x1**2 + x2**2).
    resolution : int
        Cells per ``sensitivity``.
    weights : tuple of int
        One weight for each orbit of cells under the symmetries of the square.
    atom : int
        Weight of the point zero.
    bound : PlanarBound
        The proof of the lower bound.

    Examples
    --------
    >>> from tightdp import design_planar_noise
    >>> design = design_planar_noise(epsilon=2.0, delta=0.2, resolution=3)
    >>> design.verify(), round(float(design.lower), 2), round(float(design.upper), 2)
    (True, 0.81, 0.87)
    >>> design.sample(2, rng=1).shape
    (2, 2)
    """

    epsilon: Fraction
    delta: Fraction
    sensitivity: Fraction
    ball: str
    loss: str
    resolution: int
    half: int
    centred: bool
    weights: tuple[int, ...]
    atom: int
    bound: PlanarBound = field(repr=False)
    points: int = _POINTS

    # --- what it costs ------------------------------------------------------------------------

    @cached_property
    def upper(self) -> Fraction:
        """The expected loss of this noise."""
        sizes, losses = self.grid.sizes, self.grid.mean_losses(self.loss)
        cells = zip(sizes, self.weights, losses, strict=True)
        total = sum((int(n) * w * c for n, w, c in cells), Fraction(0))
        return total / self.total * self._unit / self.resolution**self._power

    @cached_property
    def lower(self) -> Fraction:
        """What every (epsilon, delta)-DP noise loses at least."""
        facts = {"ball": self.ball, "loss": self.loss}
        return self._unit * self.bound.value(epsilon=self.epsilon, delta=self.delta, **facts)

    @property
    def _power(self) -> int:
        return 1 if self.loss == "l1" else 2

    @property
    def _unit(self) -> Fraction:
        return self.sensitivity**self._power

    # --- the law ------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> PlanarGrid:
        """The cells, in units of the cell width."""
        return PlanarGrid(self.half, centred=self.centred)

    @cached_property
    def total(self) -> int:
        """Sum of all weights."""
        cells = zip(self.grid.sizes, self.weights, strict=True)
        return sum(int(n) * w for n, w in cells) + self.atom

    @property
    def grid_step(self) -> Fraction:
        """Step of the grid on which the sampler draws."""
        return self.cell_width / self.points

    def probabilities(self) -> FloatArray:
        """Probability of every cell, shape (n, n); the atom is not included."""
        weights = np.array([w / self.total for w in self.weights])
        return np.asarray(weights[self.grid.orbit], dtype=np.float64)

    @property
    def atom_share(self) -> float:
        """Probability of no noise at all."""
        return self.atom / self.total

    # --- exact draws --------------------------------------------------------------------------

    def to_grid(self, query: ArrayLike) -> list[tuple[int, int]]:
        """Queries, shape (n, 2), rounded half up to the grid: whole steps."""
        values = check_array("query", np.atleast_2d(np.asarray(query)), 2, 2)
        half = Fraction(1, 2)
        steps = [
            math.floor(Fraction(float(x)) / self.grid_step + half) for row in values for x in row
        ]
        return list(zip(steps[::2], steps[1::2], strict=True))

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> NDArray[np.int64]:
        """Exact draws in grid steps, shape (size, 2); a single pair without ``size``."""
        count, bits = 1 if size is None else check_count("size", size), source(rng)
        n, table = self.grid.side, np.array(self.weights, dtype=np.int64)
        ends = np.cumsum(np.append(table[self.grid.orbit].ravel(), self.atom))
        cell = np.searchsorted(ends, bits.integers(self.total, count), side="right")
        first = np.column_stack([cell // n, cell % n]) - self.half
        corner = first * self.points - (self.points // 2 if self.centred else 0)
        inside = bits.integers(self.points, (count, 2))
        draws = np.where((cell == n * n)[:, None], 0, corner + inside)
        return draws[0] if size is None else draws

    # --- the proof ----------------------------------------------------------------------------

    def verify(self) -> bool:
        """Check privacy and lower bound in integers, without a solver; an error if one fails."""
        check_choice("ball", self.ball, BALLS)
        check_choice("loss", self.loss, LOSSES)
        whole = min(self.resolution, self.half, self.points) >= 1
        whole = whole and self.half * self.points < 1 << 61  # draws are 64-bit integers
        if not whole or len(self.weights) != len(self.grid) or self.sensitivity <= 0:
            fail("The weights do not fit the grid.", UndecidedError)
        if min(*self.weights, self.atom) < 0 or not 0 < self.total < 1 << 62 or self.points % 2:
            fail("The weights are not those of a law that can be drawn.", UndecidedError)
        check_epsilon(self.epsilon)
        if not 0 < self.delta < 1 or not self.is_private(self.delta):
            fail("The shortfall of this noise is not proved to be <= delta.", UndecidedError)
        if self.lower > self.upper:
            fail("The lower bound exceeds the loss of a private noise.", UndecidedError)
        return True

    def is_private(self, delta: Fraction) -> bool:
        """Whether the shortfall is proved to be at most ``delta`` for all shifts in the ball."""
        top, high = exp_below(self.epsilon)
        weights = np.array(self.weights, dtype=object)
        known: dict[Shift, int] = {(0, 0): 0}

        def value(shift: Shift) -> int:
            if shift not in known:
                known[shift] = shortfall(self.grid.rows(shift), weights, top, high)
            return known[shift]

        most = math.floor(delta * self.total * high) - self.atom * high
        radius = rounded_radius(self.ball, self.resolution, self.points)
        if most < 0 or any(value(s) > most for s in lattice_shifts(self.ball, radius)):
            return False
        return BoundaryCover(self.ball, radius).holds(value, most)

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""
        return {
            "format": FORMAT,
            **{name: str(getattr(self, name)) for name in ("epsilon", "delta", "sensitivity")},
            **{name: str(getattr(self, name)) for name in ("upper", "lower")},
            **{name: getattr(self, name) for name in ("ball", "loss", "resolution", "half")},
            **{name: getattr(self, name) for name in ("centred", "atom", "points")},
            "weights": list(self.weights),
            "bound": self.bound.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PlanarDesign:
        """The design in a dictionary; refused when its proofs do not hold."""
        check_format(record, FORMAT)
        with complete():
            facts: dict[str, Any] = {
                **{name: rational(record[name]) for name in ("epsilon", "delta", "sensitivity")},
                **{name: int(record[name]) for name in ("resolution", "half", "atom", "points")},
            }
            design = cls(
                **facts,
                ball=str(record["ball"]),
                loss=str(record["loss"]),
                centred=bool(record["centred"]),
                weights=tuple(map(int, record["weights"])),
                bound=PlanarBound.from_dict(record["bound"]),
            )
        return design._proved(record)
