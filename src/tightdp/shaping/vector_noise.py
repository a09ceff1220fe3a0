r"""Noise designed for two or three entries at once, for a statistic that has as many."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.public_rows import Images
from tightdp.data.statistics import Statistic
from tightdp.design.vector_law import VectorDesign
from tightdp.errors import DimensionError, FloatArray, fail
from tightdp.exact.lattice_bodies import DiamondBody, RoundBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody
from tightdp.noise.lattice import LatticeNoise
from tightdp.shaping.ball_noise import farthest_at_most
from tightdp.shaping.coordinate_noise import DESIGN_STEPS, check_paid
from tightdp.shaping.reach import upwards

_NORMS = {"l1": 1, "l2": 2, "linf": np.inf}
_BODIES: dict[str, Callable[[int], LatticeBody]] = {
    "l1": DiamondBody,
    "l2": RoundBody,
    "linf": lambda dim: BoxBody([1] * dim),
}
_WORDS = {2: "two", 3: "three"}
_LAW = {2: "integer pairs", 3: "integer triples"}
_POINTS = 1 << 12  # least number of lattice points a cell: what is lost to rounding it up is 1/4096
_SLACK = Fraction(1, 1 << 40)  # relative rounding of a sensitivity


class VectorNoise:
    r"""Integers on the cells of a design, scaled from its ball to the statistic.

    **Privacy.** The design is (epsilon, delta)-DP for changes within ``resolution`` cells in the
    norm of its ball, on a grid with any number r of points a cell
    (:class:`~tightdp.VectorDesign`, steps 1 to 4; proved again here [P1]). The statistic is an
    integer vector, so nothing is rounded; its changes are at most
    :math:`S \cdot` lattice resolution steps long, S its sensitivity in that norm, once for every
    row of a person [P2], and r is so large that ``resolution`` cells hold them [P3].
    """

    def __init__(
        self, statistic: Statistic, design: VectorDesign, epsilon: Number | None, delta: Number
    ) -> None:
        if len(statistic) != design.dim:
            fail(
                f"`statistic` must have {_WORDS[design.dim]} entries for noise that was designed "
                f"for as many. Got {len(statistic)}.",
                DimensionError,
            )
        design.verify()  # [P1]
        self.statistic, self.design = statistic, design
        self.epsilon, self.delta = design.epsilon, design.delta
        check_paid(epsilon, delta, (self.epsilon, self.delta), "the design")
        reach = self._reach()
        self.bits = statistic.bits_within(DESIGN_STEPS // statistic.schema.rows_per_person)
        fine = statistic.resolution(self.bits)
        self.factor = max(1, math.ceil(_POINTS * design.resolution / (reach * fine)))
        self.resolution = self.factor * fine
        points = math.ceil(reach * self.resolution / design.resolution)  # [P3]
        self.draws = replace(design, points=points + points % 2)

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon, self.delta)

    # --- which moves it covers ----------------------------------------------------------------

    @property
    def _ring(self) -> LatticeNoise:
        """Lattice noise for the same moves: in the norm of the design, within its cells."""
        body = _BODIES[self.design.ball](self.design.dim)
        return LatticeNoise(body, self.epsilon, self.design.resolution * self.draws.points)

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        return self._ring.covers(moves, self.statistic.schema.rows_per_person)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return farthest_at_most(self._ring, self.statistic.schema.rows_per_person, images, paired)

    def covers_by_structure(self) -> bool:
        """The design holds the sensitivity in its norm, once for every row of a person."""
        cells = self.design.resolution * self.draws.points
        return self._reach() * self.resolution <= cells

    def _reach(self) -> Fraction:
        """The sensitivity of the scaled statistic in the norm of the design, never too small."""
        norm = _NORMS[self.design.ball]
        one = Fraction(float(self.statistic.sensitivity_space().sensitivity(p=norm)))
        return one * (1 + _SLACK) * self.statistic.schema.rows_per_person  # [P2]

    @property
    def words(self) -> str:
        """The exact law, for people."""
        law = self.draws
        facts = repr((law.weights, law.atom, law.half, law.centred)).encode()
        return (
            f"{_LAW[law.dim]} on {' x '.join([str(law.grid.side)] * law.dim)} cells of "
            f"{law.points} steps, "
            f"table {hashlib.sha256(facts).hexdigest()[:16]}, in units of 1/{self.resolution}"
        )

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic: the design is its own mirror image."""
        law = self.draws
        along = law.probabilities().sum(axis=tuple(range(1, law.dim)))
        first, r = self._corners().astype(np.float64), law.points
        second = (first + (r - 1) / 2) ** 2 + (r * r - 1) / 12
        middle = along @ (first + (r - 1) / 2)  # half a step between cells, never more
        variance = float(along @ second - middle**2)
        return np.eye(law.dim) * variance / float(self.resolution) ** 2

    def _corners(self) -> Any:
        """The first lattice point of every cell along an axis."""
        law = self.draws
        off = law.points // 2 if law.centred else 0
        return (np.arange(law.grid.side) - law.half) * law.points - off

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of the image of the square or cube that holds all entries at once."""
        law, first = self.draws, self._corners()
        far = np.maximum(np.abs(first), np.abs(first + law.points - 1))
        edge = np.max(np.meshgrid(*[far] * law.dim, indexing="ij"), axis=0).ravel()
        order = np.argsort(edge, kind="stable")
        inside = law.atom_share + np.cumsum(law.probabilities().ravel()[order])
        place = min(int(np.searchsorted(inside, confidence + 1e-12)), len(order) - 1)
        half = np.abs(linear).sum(axis=1) * float(edge[order][place]) / float(self.resolution)
        return upwards(half)
