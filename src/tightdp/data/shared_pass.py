"""One reading of the rows for several integer sums that are announced before it.

What is kept between the reading and the last of the sums is **not private**: it lives in a
:class:`SharedTable`, for the time of one ``with`` block, and is not stored, copied or sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tightdp.data.blocks import Reducer, rows_that_fit
from tightdp.data.scan import Scan
from tightdp.data.table import UNREAD, Table
from tightdp.errors import DataError, check_count, fail
from tightdp.schema import Schema

BLOCK_CELLS = 1 << 20  # blocks of wide tables are shorter


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSum:
    """A sum over all rows of what a reducer makes of blocks of them; see ``frames.integer_sums``.

    Attributes
    ----------
    schema : Schema
        The rules by which rows are read.
    columns : tuple of str
    reducer : callable
        Block to ``width`` integers, additive over rows.
    width : int
    degree : int
        How many cells the reducer multiplies at most.
    cell_bits : int, optional
        The size of the integers that it multiplies, if not that of the schema's grid.
    """

    schema: Schema
    columns: tuple[str, ...]
    reducer: Reducer
    width: int
    degree: int = 2
    cell_bits: int | None = None

    def scan(self, names: tuple[str, ...], most: int) -> Scan:
        """What is done to the rows, in blocks of at most ``most`` rows in which no sum wraps."""
        check_count("width", self.width)
        check_count("degree", self.degree, least=0)
        rows = max(1, min(most, BLOCK_CELLS // len(names)))
        bits = self.schema.bits if self.cell_bits is None else self.cell_bits
        return Scan(self.schema, names, rows_that_fit(bits, self.degree, rows))


Counted = tuple[list[int], int]  # the sums, and the number of rows
Read = Callable[[Table, Sequence[IntegerSum], bool], list[Counted]]


class SharedTable(Table):
    """A table whose rows are read once for all sums that were announced. **Not private.**

    The first sum that is asked for reads the rows for all; what the reading of rows could not give
    is not tried again. What is not announced is read on its own. The sums are forgotten at the end
    of the ``with`` block. Several threads may ask.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp.data.frames import integer_sums, share_pass
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(-1, 1)}, rows=2, bits=4)
    >>> count, add = (lambda block: np.array([len(block)])), (lambda block: block.matrix().sum(0))
    >>> sums = [IntegerSum(schema, ("x",), reducer, width=1) for reducer in (count, add)]
    >>> with share_pass({"x": [0.5, 1]}, schema, sums) as table:
    ...     [integer_sums(table, schema, ["x"], reducer, width=1) for reducer in (add, count)]
    [[24], [2]]
    """

    __slots__ = ("_asked", "_found", "_lock", "_read", "_sums")

    def __init__(self, table: Table, sums: Sequence[IntegerSum], read: Read) -> None:
        self.frame, self._engine, self._places = table.frame, table._engine, table._places
        self._sums, self._read = tuple(sums), read
        self._found: list[Counted] | None = None
        self._asked = False
        self._lock = threading.Lock()

    def take(self, reducer: Reducer, progress: bool) -> Counted | None:
        """The sums of an announced reducer; None of another."""
        place = next((j for j, one in enumerate(self._sums) if one.reducer == reducer), None)
        if place is None:
            return None
        with self._lock:
            if not self._asked:
                self._asked = True
                self._found = self._read(self, self._sums, progress)
            if self._found is None:
                fail(UNREAD, DataError)
            sums, rows = self._found[place]
            return list(sums), rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._asked, self._found = True, None
