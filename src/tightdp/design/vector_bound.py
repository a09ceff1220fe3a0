"""The multipliers of a lower bound on the loss of every noise, as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.design.vector_balls import Shift
from tightdp.design.vector_verifier import SCALE, Multipliers

if TYPE_CHECKING:
    from tightdp.design.vector_programs import Bound


@dataclass(frozen=True)
class VectorBound:
    """Multipliers, as integers over 2**48, of a lattice with ``resolution`` cells per radius.

    What they prove, and how: :mod:`tightdp.design.vector_verifier`.
    """

    resolution: int
    half: int
    window: int
    shifts: tuple[Shift, ...]
    multipliers: tuple[int, ...]
    row_multipliers: tuple[tuple[int, ...], ...]

    @classmethod
    def rounded(cls, proposal: Bound, resolution: int) -> VectorBound:
        """The proposal of the solver, rounded so that all conditions hold."""
        most = [round(x * SCALE) for x in np.maximum(proposal.multipliers, 0.0)]
        rows = [
            tuple(
                min(int(x * SCALE), lam * int(t))
                for x, t in zip(np.maximum(z, 0.0), proposal.grid.rows(shift).times, strict=True)
            )
            for z, lam, shift in zip(proposal.row_multipliers, most, proposal.shifts, strict=True)
        ]
        grid = proposal.grid
        return cls(
            resolution, grid.half, grid.window, tuple(proposal.shifts), tuple(most), tuple(rows)
        )

    @property
    def facts(self) -> Multipliers:
        """As the verifier reads them."""
        return Multipliers(
            self.resolution,
            self.half,
            self.window,
            self.shifts,
            self.multipliers,
            self.row_multipliers,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "resolution": self.resolution,
            "half": self.half,
            "window": self.window,
            "shifts": [list(shift) for shift in self.shifts],
            "multipliers": list(self.multipliers),
            "row_multipliers": [list(z) for z in self.row_multipliers],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> VectorBound:
        """The bound in a dictionary."""
        return cls(
            int(record["resolution"]),
            int(record["half"]),
            int(record["window"]),
            tuple(tuple(map(int, shift)) for shift in record["shifts"]),
            tuple(map(int, record["multipliers"])),
            tuple(tuple(map(int, z)) for z in record["row_multipliers"]),
        )


NO_BOUND = VectorBound(1, 1, 0, (), (), ())
"""Proves that losses are at least 0."""
