"""Multipliers of the lower bound on data-dependent noise: from a solver's floats to integers.

What they prove, and how, is in :mod:`tightdp.design.range_verifier`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.design.range_programs import RangeProgram, RangeSolution, Triple
from tightdp.design.range_verifier import SCALE
from tightdp.errors import FloatArray

Prices = dict[Triple, tuple[float, FloatArray]]
"""For a triple (g, h, j) its multiplier, and one for each of its rows."""


@dataclass(frozen=True)
class RangeBound:
    """Multipliers, integers over 2**48, of pairs of cells of the range.

    ``pairs`` holds (k, m, times): the same multipliers serve the pairs (k + t, m + t), t below
    ``times``. Losses are counted in ``unit``, the limited one in ``limit_unit``; None stands for
    the cell width, to the power of the loss.
    """

    half: int
    padding: int
    pairs: tuple[tuple[int, int, int], ...]
    multipliers: tuple[int, ...]
    row_multipliers: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]
    unit: Fraction | None = None
    limit_unit: Fraction | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        units = {name: getattr(self, name) for name in ("unit", "limit_unit")}
        return {
            "half": self.half,
            "padding": self.padding,
            "pairs": [[k, m] if n == 1 else [k, m, n] for k, m, n in self.pairs],
            "multipliers": list(self.multipliers),
            "row_multipliers": [list(y) for y in self.row_multipliers],
            "limits": list(self.limits),
            **{name: str(unit) for name, unit in units.items() if unit is not None},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RangeBound:
        """The bound in a dictionary."""
        units = (record.get(name) for name in ("unit", "limit_unit"))
        unit, limit_unit = (None if given is None else Fraction(given) for given in units)
        pairs = ([int(n) for n in pair] for pair in record["pairs"])
        return cls(
            int(record["half"]),
            int(record["padding"]),
            tuple((k, m, more[0] if more else 1) for k, m, *more in pairs),
            tuple(map(int, record["multipliers"])),
            tuple(tuple(map(int, y)) for y in record["row_multipliers"]),
            tuple(map(int, record["limits"])),
            unit,
            limit_unit,
        )


def unfolded(program: RangeProgram, found: RangeSolution) -> Prices:
    """The multipliers of all triples, where the program held one of each mirror pair."""
    out: Prices = {}
    for triple, most, rows in zip(found.triples, found.sums, found.rows, strict=True):
        copies = [(triple, rows)]
        if program.mirrored:
            copies.append((program.mirror(triple), rows[::-1]))
        for which, y in copies:
            held, row = out.get(which, (0.0, np.zeros(len(y))))
            out[which] = held + float(most) / len(copies), row + y / len(copies)
    return out


def limits_of(program: RangeProgram, found: RangeSolution) -> FloatArray:
    """The multiplier of the limited loss of each table."""
    limits = np.zeros(program.tables) if found.limits is None else found.limits
    return (limits + limits[::-1]) / 2 if program.mirrored else limits


def rounded(
    prices: Mapping[tuple[int, int, int], tuple[float, FloatArray]],
) -> dict[tuple[int, int, int], tuple[int, tuple[int, ...]]]:
    """Integers over 2**48 that keep every row below its price; what costs nothing is left out."""
    out = {}
    for which, (most, rows) in prices.items():
        cap = int(most * SCALE)
        if cap:
            out[which] = cap, tuple(min(max(int(y * SCALE), 0), cap) for y in rows)
    return out


def assembled(
    half: int,
    padding: int,
    prices: Mapping[tuple[int, int, int], tuple[float, FloatArray]],
    limits: Sequence[float],
    units: tuple[Fraction, Fraction],
) -> RangeBound:
    """The bound with the multipliers of (k, m, times), rounded so that all conditions hold."""
    kept = rounded(prices)
    return RangeBound(
        half,
        padding,
        tuple(kept),
        tuple(v[0] for v in kept.values()),
        tuple(v[1] for v in kept.values()),
        tuple(int(n * SCALE) for n in limits),
        *units,
    )
