"""A noise for two or three entries as integers: its law, its exact draws, the proof of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.design import vector_verifier
from tightdp.design.exact_numbers import rational
from tightdp.design.records import GridDesign, check_format, complete, undecided, whole_steps
from tightdp.design.vector_bound import VectorBound
from tightdp.design.vector_grid import VectorGrid
from tightdp.design.vector_verifier import FORMATS, VectorFacts
from tightdp.errors import FloatArray, UndecidedError, check_count, fail
from tightdp.randomness import RandomLike, source

_POINTS = 1 << 20


@dataclass(frozen=True, eq=False)
class VectorDesign(GridDesign):
    r"""Noise for two or three numbers with a proof of its privacy and of how good it is.

    .. math:: X \sim p_0\,\delta_0 + \sum_i p_i\,\mathrm{Uniform}(\text{cubic cell } i).

    **Privacy.**
    Statement: adding X to a query of ``dim`` numbers, whose changes lie in the ball of radius
    ``sensitivity``, is (epsilon, delta)-DP; so is the exact sampler on the grid of step
    ``grid_step``, for a query rounded to that grid.
    Needs: [P1] changes in the ball; [P2] integers, drawn with the weights stated.
    Proof: (1) Between lattice shifts the shortfall of the cells is multilinear in the shift; so it
    is on a grid with r points a cell, at shifts by multiples of 1/r. (2) The atom meets no atom and
    adds :math:`p_0`, since :math:`(x + y)_+ \le x_+ + y_+`. (3) Over the ball a multilinear
    function is largest at its lattice points or on its boundary, which is covered by boxes with
    rational corners (:mod:`tightdp.design.vector_balls`). (4) All is integer arithmetic, with a
    rational lower bound of :math:`e^\epsilon`. (5) Rounding the query lengthens its changes by less
    than dim steps (l1), sqrt(dim) steps (l2) or nothing (linf): the ball of the proof is that much
    larger. :meth:`verify` checks this without a solver (:mod:`tightdp.design.vector_verifier`).
    Numerics: ``exact``.
    References: Selvi and others (2025), section on multi-dimensional noise. The published
    constraint asks for the shortfall at all outer corners of the boundary; the multilinear one is
    weaker and enough.

    Attributes
    ----------
    epsilon, delta, sensitivity : Fraction
    ball : {"l1", "l2", "linf"}
    loss : {"l1", "l2"}
        The mean of the sum of abs(x), or of x**2, over the entries.
    resolution : int
        Cells per ``sensitivity``.
    weights : tuple of int
        One weight for each orbit of cells under the symmetries of the square or cube.
    atom : int
        Weight of the point zero.
    bound : VectorBound
        The proof of the lower bound.
    dim : int
        2 or 3.

    Examples
    --------
    >>> from tightdp import design_vector_noise
    >>> design = design_vector_noise(dim=2, epsilon=2.0, delta=0.2, resolution=3)
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
    bound: VectorBound = field(repr=False)
    points: int = _POINTS
    dim: int = 2

    # --- what it costs ------------------------------------------------------------------------

    @cached_property
    def _facts(self) -> VectorFacts:
        """This design, as the verifier reads it."""
        own = {name: getattr(self, name) for name in VectorFacts._fields if name != "bound"}
        with undecided():
            return vector_verifier.checked(VectorFacts(**own, bound=self.bound.facts))

    @cached_property
    def upper(self) -> Fraction:
        """The expected loss of this noise."""
        with undecided():
            return vector_verifier.upper_bound(self._facts)

    @cached_property
    def lower(self) -> Fraction:
        """What every (epsilon, delta)-DP noise loses at least."""
        with undecided():
            return vector_verifier.lower_bound(self._facts)

    # --- the law ------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> VectorGrid:
        """The cells, in units of the cell width."""
        return VectorGrid(self.half, dim=self.dim, centred=self.centred)

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
        """Probability of every cell, an array with ``dim`` axes; the atom is not included."""
        weights = np.array([w / self.total for w in self.weights])
        return np.asarray(weights[self.grid.orbit], dtype=np.float64)

    @property
    def atom_share(self) -> float:
        """Probability of no noise at all."""
        return self.atom / self.total

    # --- exact draws --------------------------------------------------------------------------

    def to_grid(self, query: ArrayLike) -> list[tuple[int, ...]]:
        """Queries, shape (n, dim), rounded half up to the grid: whole steps."""
        return whole_steps("query", query, [self.grid_step] * self.dim)

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> NDArray[np.int64]:
        """Exact draws in grid steps, shape (size, dim); a single vector without ``size``."""
        count, bits = 1 if size is None else check_count("size", size), source(rng)
        grid, table = self.grid, np.array(self.weights, dtype=np.int64)
        ends = np.cumsum(np.append(table[grid.orbit].ravel(), self.atom))  # [P2]
        cell = np.searchsorted(ends, bits.integers(self.total, count), side="right")
        none = cell == grid.orbit.size
        places = np.unravel_index(np.where(none, 0, cell), grid.orbit.shape)
        first = np.column_stack(places) - self.half
        corner = first * self.points - (self.points // 2 if self.centred else 0)
        inside = bits.integers(self.points, (count, self.dim))
        draws = np.where(none[:, None], 0, corner + inside)
        return draws[0] if size is None else draws

    # --- the proof ----------------------------------------------------------------------------

    def verify(self) -> bool:
        """Check privacy and lower bound in integers, without a solver; an error if one fails."""
        if self.lower > self.upper or not self.is_private(self.delta):
            fail("The shortfall of this noise is not proved to be <= delta.", UndecidedError)
        return True

    def is_private(self, delta: Fraction) -> bool:
        """Whether the shortfall is proved to be at most ``delta`` for all shifts in the ball."""
        with undecided():
            return vector_verifier.is_private(self._facts, delta)

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""
        return {
            "format": FORMATS[self.dim],
            **{name: str(getattr(self, name)) for name in ("epsilon", "delta", "sensitivity")},
            **{name: str(getattr(self, name)) for name in ("upper", "lower")},
            **{name: getattr(self, name) for name in ("ball", "loss", "resolution", "half")},
            **{name: getattr(self, name) for name in ("centred", "atom", "points")},
            "weights": list(self.weights),
            "bound": self.bound.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> VectorDesign:
        """The design in a dictionary; refused when its proofs do not hold."""
        check_format(record, *FORMATS.values())
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
                bound=VectorBound.from_dict(record["bound"]),
                dim=next(dim for dim, name in FORMATS.items() if name == record["format"]),
            )
        with undecided():
            vector_verifier.verify(record)
        return design


PlanarDesign = VectorDesign
"""The name of version 0.1.0, when there were two entries only."""
