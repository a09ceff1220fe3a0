r"""The grid on which the cells of a statistic are integers, and what is lost by rounding to it.

Columns are scaled to [-1, 1]. Without a public step a cell is rounded to a multiple of
:math:`2^{-b}`, so that it moves by at most :math:`\delta = 2^{-b-1}`. With M public steps it is one
of -1, -1 + 2/M, ..., 1, all of them multiples of 1/M. The grid is a common multiple of what the
columns need, and what has a step is not moved at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tightdp.data.blocks import MOST_SUM_BITS, Block
from tightdp.errors import FloatArray
from tightdp.schema import MOST_BITS, Interval, Schema

_FLOATS = 1 + 2.0**-20  # scaling is done in doubles: a cell beside the middle of two grid points


@dataclass(frozen=True, slots=True)
class Grid:
    """So many points per unit, and the columns whose steps lie on them.

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100, step=1), "x": Interval(0, 1)}, rows=9, bits=7)
    >>> Grid.of(schema, ["age"], bits=7, degree=2)
    Grid(points=100, bits=7, fine=7, steps={'age': 100})
    """

    points: int
    bits: int
    fine: int
    steps: Mapping[str, int]

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[str], bits: int, degree: int) -> Grid:
        """The grid of some columns for products of ``degree`` cells."""
        rules = {name: schema[name] for name in columns}
        numeric = {name: rule for name, rule in rules.items() if isinstance(rule, Interval)}
        steps = {name: rule.steps for name, rule in numeric.items() if rule.steps is not None}
        plain = [1 << bits] if len(steps) < len(numeric) or not steps else []
        points = math.lcm(*steps.values(), *plain)
        # beyond it products would not be exact: steps are then rounded as other values are
        room = min(MOST_BITS, MOST_SUM_BITS // max(1, degree))
        if (points - 1).bit_length() > room:
            points, steps = 1 << bits, {}
        return cls(points, bits, schema.bits, steps)

    @property
    def cell_bits(self) -> int:
        """A b with all cells of at most ``2**b`` in size."""
        return (self.points - 1).bit_length()

    def cells(self, block: Block, names: Sequence[str]) -> FloatArray:
        """Columns as integers on the grid, shape (d, rows), stored as doubles."""
        if not self.steps:
            return block.doubles(names, self.fine - self.bits)
        return np.vstack([np.zeros((0, len(block))), *(self._cells(block, name) for name in names)])

    def _cells(self, block: Block, name: str) -> FloatArray:
        steps = self.steps.get(name)
        if steps is None:
            return block.doubles([name], self.fine - self.bits) * float(self.points >> self.bits)
        # the nearest place of a step: the schema's grid has at least as many points as steps
        raw = block.doubles([name]) + 2.0**self.fine
        places = np.floor(raw * (steps * 0.5 ** (self.fine + 1)) + 0.5)
        return (2 * places - steps) * float(self.points // steps)

    def rounding(self, name: str) -> float:
        """How far a scaled cell of a column can be from the integer that stands for it."""
        if name in self.steps:
            return 0.0
        again = 0.5 ** (self.bits + 1) if self.bits < self.fine else 0.0
        return (0.5 ** (self.fine + 1) + again) * _FLOATS


def product_rounding(errors: Sequence[float]) -> float:
    r"""How far a product of numbers in [-1, 1] moves if they do: :math:`\prod(1+\delta_i)-1`."""
    return math.prod(1 + error for error in errors) - 1
