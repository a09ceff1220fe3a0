"""One pass over the chunks of a table: clamp, quantise, keep few rows of a person, block by block.

The same code runs in this process and inside the workers of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tightdp.data.blocks import Block, Reducer, Totals
from tightdp.data.cells import Cells
from tightdp.data.persons import FewRows
from tightdp.errors import FloatArray, Integers
from tightdp.schema import Schema

Chunk = dict[str, Cells]
Keyed = tuple[Integers, Integers]


@dataclass(frozen=True)
class Scan:
    """What is done to every chunk of rows; public facts only.

    Examples
    --------
    >>> from tightdp.data.cells import NumberCells
    >>> from tightdp.schema import Interval
    >>> scan = Scan(Schema({"x": Interval(0, 1)}, rows=2, bits=3), ("x",), rows=10)
    >>> [block["x"].tolist() for block in scan.blocks([{"x": NumberCells(np.array([0.0, 9]))}])]
    [[-8, 8]]
    """

    schema: Schema
    names: tuple[str, ...]
    rows: int

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns to read: the person's too, if rows are counted by person."""
        person = self.schema.person
        return self.names if person is None else (*self.names, person)

    def blocks(self, chunks: Iterable[Chunk]) -> Iterator[Block]:
        """Quantised blocks of at most ``rows`` rows."""
        if self.schema.person is not None:
            yield from self.few(self.keyed(chunks))
            return
        for chunk in chunks:
            yield Block.of_columns(self.names, self._quantized(chunk))

    def keyed(self, chunks: Iterable[Chunk]) -> Iterator[Keyed]:
        """Person keys, shape (m, 2), and quantised rows, shape (m, d); all rows, none dropped."""
        assert self.schema.person is not None
        for chunk in chunks:
            rows = self._quantized(chunk).astype(np.int64).T
            yield chunk[self.schema.person].keys(), rows

    def few(self, keyed: Iterable[Keyed]) -> Iterator[Block]:
        """Blocks of the rows that are kept of each person."""
        kept = FewRows(self.schema.rows_per_person, len(self.names))
        for keys, rows in keyed:
            kept.add(keys, rows)
        table = kept.rows()
        for start in range(0, len(table), self.rows):
            part = table[start : start + self.rows]
            yield Block.of_columns(self.names, part.T.astype(np.float64, order="C"))

    def _quantized(self, chunk: Chunk) -> FloatArray:
        """Integers as doubles, shape (d, rows): products of them run as linear algebra."""
        rules, bits = self.schema.select(self.names), self.schema.bits
        out = np.empty((len(rules), len(chunk[self.names[0]])))
        for row, (name, rule) in zip(out, rules.items(), strict=True):
            chunk[name].quantize(rule, bits, out=row)
        return out


def sum_blocks(blocks: Iterable[Block], reducer: Reducer, width: int) -> list[int]:
    """The sum over blocks of what the reducer makes of them, and last the number of rows."""
    totals, rows = Totals(width), 0
    for block in blocks:
        totals.add(reducer(block))
        rows += len(block)
    return [*totals.values(), rows]
