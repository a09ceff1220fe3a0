"""Two noises that are private together, as integers: their laws, draws, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.design import composed_verifier
from tightdp.design.composed_verifier import FORMAT, ComposedFacts, ReleaseLaw
from tightdp.design.exact_numbers import rational
from tightdp.design.records import ProvedDesign, check_format, complete, undecided, whole_steps
from tightdp.design.vector_bound import VectorBound
from tightdp.design.vector_verifier import POWERS
from tightdp.errors import UndecidedError, check_count, fail
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.randomness import RandomLike, source

_POINTS = 1 << 20


@dataclass(frozen=True, eq=False)
class ComposedDesign(ProvedDesign):
    r"""Two independent noises, which may differ, for two releases that are paid for together.

    **Privacy.**
    Statement: releasing two queries, fixed in advance, each with its own noise, is (epsilon,
    delta)-DP together, if the queries move by at most ``sensitivities`` (``ball="linf"``: both may
    move fully; otherwise their moves in units of these lie together in the disc or diamond of
    radius 1); so is the exact sampler, for queries rounded to its grids.
    Needs: [P1] such moves; [P2] independent integers, drawn with the weights stated.
    Proof: (1) The pair is a noise in the plane with masses :math:`p_i q_j`. With the second move
    fixed, its shortfall is affine in the first between whole cells, and the other way round: it is
    bilinear, on a grid with r points a cell, too. (2) An atom meets no atom under a move; what it
    adds is at most its mass, :math:`a + b(1-a)` for both, counted under every move. (3) In a box
    (``linf``) a bilinear function is largest at whole moves; in a disc or diamond at those or on
    the boundary, which is covered as for :class:`~tightdp.VectorDesign`. (4) All is integer
    arithmetic (:mod:`tightdp.design.composed_verifier`), with a rational lower bound of
    :math:`e^\epsilon`. (5) Rounding a query half up to its grid lengthens no move in the box; the
    disc and the diamond of the proof are as much larger.
    If the second query is chosen after the first release was seen, delta is :attr:`adaptive_delta`.
    Numerics: ``exact``.

    How good it is: ``upper`` is the loss, ``lower`` what no pair of noises has less than, not even
    dependent ones. The best *independent* pair is a problem that is not convex: the design is a
    point from which no small step leads down (a local optimum, as far as the solver sees), the best
    of several. What lies between ``lower`` and ``upper`` is the price of independence and what is
    not known.

    Attributes
    ----------
    epsilon, delta : Fraction
    ball : {"linf", "l2", "l1"}
    loss : {"l1", "l2"}
    sensitivities, importance : tuple of two Fractions
        Importance multiplies the loss of each release in ``upper`` and ``lower``.
    laws : tuple of two ReleaseLaw
    bound, single
        The proof of the lower bound.

    Examples
    --------
    >>> from tightdp import design_composed_noise
    >>> pair = design_composed_noise(epsilon=2.0, delta=0.2, resolution=1)
    >>> pair.verify(), pair.lower < pair.upper < 1.4
    (True, True)
    """

    epsilon: Fraction
    delta: Fraction
    ball: str
    loss: str
    sensitivities: tuple[Fraction, ...]
    importance: tuple[Fraction, ...]
    laws: tuple[ReleaseLaw, ...] = field(repr=False)
    bound: VectorBound = field(repr=False)
    single: Mapping[str, Any] | None = field(default=None, repr=False)
    points: int = _POINTS

    # --- what it costs ------------------------------------------------------------------------

    @cached_property
    def _facts(self) -> ComposedFacts:
        """This design, as the verifier reads it."""
        own = {name: getattr(self, name) for name in ComposedFacts._fields if name != "bound"}
        with undecided():
            return composed_verifier.checked(ComposedFacts(**own, bound=self.bound.facts))

    @cached_property
    def upper(self) -> Fraction:
        """The sum of the expected losses, each times its importance."""
        return composed_verifier.upper_bound(self._facts)

    @cached_property
    def lower(self) -> Fraction:
        """What every pair of noises with this guarantee loses at least."""
        with undecided():
            return composed_verifier.lower_bound(self._facts)

    @cached_property
    def losses(self) -> tuple[Fraction, ...]:
        """The expected loss of each noise."""
        power = POWERS[self.loss]
        pairs = zip(self.laws, self.sensitivities, strict=True)
        return tuple(law.loss(self.loss) * s**power for law, s in pairs)

    @cached_property
    def adaptive_delta(self) -> Fraction:
        """What delta is, at most, if the second query is chosen after the first release is seen."""
        if self.ball != "linf":
            fail("Queries that move together in a disc or a diamond are fixed in advance.")
        return composed_verifier.adaptive_delta(self._facts)

    # --- the laws -----------------------------------------------------------------------------

    @cached_property
    def noises(self) -> tuple[PiecewiseNoise, ...]:
        """Both laws on the line; cells around zero appear as two halves."""
        return tuple(
            self._noise(law, s) for law, s in zip(self.laws, self.sensitivities, strict=True)
        )

    def _noise(self, law: ReleaseLaw, sensitivity: Fraction) -> PiecewiseNoise:
        each = [law.weights[o] for o in law.orbits.orbit]
        halves = 2 if law.centred else 1
        return PiecewiseNoise(
            [w for w in each for _ in range(halves)],
            start=-halves * law.half - (halves - 1),
            cell_width=sensitivity / (law.cells * halves),
            atom=halves * law.atom,
            epsilon=self.epsilon,
            sensitivity=sensitivity,
        )

    @property
    def grid_steps(self) -> tuple[Fraction, ...]:
        """Steps of the two grids on which the sampler draws."""
        pairs = zip(self.sensitivities, self.laws, strict=True)
        return tuple(s / (law.cells * self.points) for s, law in pairs)

    def to_grid(self, queries: ArrayLike) -> list[tuple[int, ...]]:
        """Pairs of queries, shape (n, 2), rounded half up to the grids: whole steps."""
        return whole_steps("queries", queries, self.grid_steps)

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> NDArray[np.int64]:
        """Exact draws in steps of both grids, shape (size, 2); a single pair without ``size``."""
        count, bits = 1 if size is None else check_count("size", size), source(rng)
        columns = []
        for law in self.laws:
            table = np.array(law.weights, dtype=np.int64)[law.orbits.orbit]
            ends = np.cumsum(np.append(table, law.atom))  # [P2]
            cell = np.searchsorted(ends, bits.integers(law.total, count), side="right")
            corner = (cell - law.half) * self.points - (self.points // 2 if law.centred else 0)
            inside = bits.integers(self.points, count)
            columns.append(np.where(cell == len(table), 0, corner + inside))
        draws = np.column_stack(columns)
        return draws[0] if size is None else draws

    # --- the proof ----------------------------------------------------------------------------

    def verify(self) -> bool:
        """Check privacy and lower bound in integers, without a solver; an error if one fails."""
        if self.lower > self.upper or not self.is_private(self.delta):
            fail("The shortfall of these noises is not proved to be <= delta.", UndecidedError)
        return True

    def is_private(self, delta: Fraction) -> bool:
        """Whether both releases together are proved to lose at most ``delta``."""
        return composed_verifier.is_private(self._facts, delta)

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""
        return {
            "format": FORMAT,
            **{name: str(getattr(self, name)) for name in ("epsilon", "delta", "upper", "lower")},
            **{name: getattr(self, name) for name in ("ball", "loss", "points")},
            "sensitivities": list(map(str, self.sensitivities)),
            "importance": list(map(str, self.importance)),
            "laws": [{**law._asdict(), "weights": list(law.weights)} for law in self.laws],
            "bound": self.bound.to_dict(),
            "single": self.single,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ComposedDesign:
        """The design in a dictionary; refused when its proofs do not hold."""
        check_format(record, FORMAT)
        with complete():
            names = ("cells", "half", "centred", "weights", "atom")
            design = cls(
                epsilon=rational(record["epsilon"]),
                delta=rational(record["delta"]),
                ball=str(record["ball"]),
                loss=str(record["loss"]),
                sensitivities=tuple(map(rational, record["sensitivities"])),
                importance=tuple(map(rational, record["importance"])),
                laws=tuple(ReleaseLaw(*(law[name] for name in names)) for law in record["laws"]),
                bound=VectorBound.from_dict(record["bound"]),
                single=record["single"],
                points=int(record["points"]),
            )
        with undecided():
            composed_verifier.verify(record)
        return design
