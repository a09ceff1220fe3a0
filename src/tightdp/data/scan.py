"""One pass over the chunks of a table: clamp, quantise, keep few rows of a person, block by block.

The same code runs in this process and inside the workers of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tightdp.data.blocks import Block, Reducer, Totals
from tightdp.data.cells import Cells
from tightdp.data.persons import FewRows
from tightdp.errors import DimensionError, FloatArray, Integers, fail
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
        yield from self.cut(kept.rows())

    def cut(self, table: Integers) -> Iterator[Block]:
        """Blocks of quantised rows, shape (n, d)."""
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


@dataclass(frozen=True)
class SharedScan(Scan):
    """Several scans of the same rows at once; a column that is read by one rule is read once.

    Its blocks are :class:`SharedBlock`: one block of every scan, the same that it makes alone. The
    scans agree on the grid and on persons.

    Examples
    --------
    >>> from tightdp.data.cells import NumberCells
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=2, bits=3)
    >>> shared = SharedScan.of([Scan(schema, ("x",), 10), Scan(schema, ("y", "x"), 10)])
    >>> shared.wanted
    ('x', 'y')
    >>> chunk = {"x": NumberCells(np.array([0.0])), "y": NumberCells(np.array([1.0]))}
    >>> [[part.matrix().tolist() for part in block.parts] for block in shared.blocks([chunk])]
    [[[[-8]], [[8, -8]]]]
    """

    parts: tuple[Scan, ...] = ()
    places: tuple[tuple[int, ...], ...] = ()
    """Where the columns of every scan stand among the ``names``, which are those of all."""
    rules: tuple[tuple[str, int], ...] = ()
    """The column of every name, and the scan by whose rule it is read."""

    @classmethod
    def of(cls, scans: Sequence[Scan]) -> SharedScan:
        """One scan for all of them."""
        first = scans[0].schema
        seen: dict[tuple[str, int], int] = {}  # rules live as long as the scans
        rules: list[tuple[str, int]] = []
        places = []
        for i, scan in enumerate(scans):
            here = [(name, id(rule)) for name, rule in scan.schema.select(scan.names).items()]
            rules += [(key[0], i) for key in here if key not in seen]
            seen |= {key: len(seen) + j for j, key in enumerate(k for k in here if k not in seen)}
            places.append(tuple(seen[key] for key in here))
        names = tuple(f"{name} {i}" for name, i in rules)
        rows = min(scan.rows for scan in scans)
        return cls(first, names, rows, tuple(scans), tuple(places), tuple(rules))

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for scan in self.parts for name in scan.wanted))

    def blocks(self, chunks: Iterable[Chunk]) -> Iterator[SharedBlock]:
        if self.schema.person is not None:
            yield from self.few(self.keyed(chunks))
            return
        for chunk in chunks:
            cells = self._quantized(chunk)
            yield SharedBlock([self._own(cells, j) for j in range(len(self.parts))])

    def few(self, keyed: Iterable[Keyed]) -> Iterator[SharedBlock]:
        """Of each person as many rows for every scan, each scan choosing among its own columns."""
        kept = [FewRows(scan.schema.rows_per_person, len(scan.names)) for scan in self.parts]
        for keys, rows in keyed:
            for few, places in zip(kept, self.places, strict=True):
                few.add(keys, rows[:, list(places)])
        each = [scan.cut(few.rows()) for scan, few in zip(self._short(), kept, strict=True)]
        yield from map(SharedBlock, zip(*each, strict=True))

    def _short(self) -> list[Scan]:
        """The scans, with blocks of one length."""
        return [replace(scan, rows=self.rows) for scan in self.parts]

    def _own(self, cells: FloatArray, j: int) -> Block:
        return Block.of_columns(self.parts[j].names, cells[list(self.places[j])])

    def _quantized(self, chunk: Chunk) -> FloatArray:
        out = np.empty((len(self.rules), len(chunk[self.rules[0][0]])))
        for row, (name, i) in zip(out, self.rules, strict=True):
            chunk[name].quantize(self.parts[i].schema[name], self.schema.bits, out=row)
        return out


class SharedBlock(Block):
    """The same number of rows as several scans see them."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Block]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return len(self.parts[0])

    def __repr__(self) -> str:
        return f"SharedBlock({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True)
class SharedReducer:
    """What several reducers make of the blocks of a shared scan, one after the other."""

    reducers: tuple[Reducer, ...]
    widths: tuple[int, ...]

    def __call__(self, block: Block) -> Integers:
        assert isinstance(block, SharedBlock)
        found = [np.asarray(f(part)) for f, part in zip(self.reducers, block.parts, strict=True)]
        for entries, width in zip(found, self.widths, strict=True):
            if entries.shape != (width,) or entries.dtype.kind not in "iuO":
                fail(f"A reducer must return {width} integers.", DimensionError)
        if any(
            entries.dtype == np.uint64 for entries in found
        ):  # with others they would be doubles
            found = [entries.astype(object) for entries in found]
        return np.concatenate(found)


def sum_blocks(blocks: Iterable[Block], reducer: Reducer, width: int) -> list[int]:
    """The sum over blocks of what the reducer makes of them, and last the number of rows."""
    totals, rows = Totals(width), 0
    for block in blocks:
        totals.add(reducer(block))
        rows += len(block)
    return [*totals.values(), rows]
