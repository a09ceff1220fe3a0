"""How many persons have one row, two rows, and so on, in one pass over the column that names them.

A person is read off the cell that names it alone, as everywhere; rows without a person are left
out. The numbers of persons are **not private**.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.columns import Chunk, Engine
from tightdp.data.library_columns import batch_cells, pyarrow
from tightdp.data.one_pass import BLOCK_ROWS
from tightdp.data.persons import RowsOfPersons
from tightdp.data.spark import FAILED_KEY, SparkTable, to_lines
from tightdp.data.table import Table, guard
from tightdp.errors import DataError, Integers, fail
from tightdp.progress import standing_line
from tightdp.schema import Schema

_FORM = "first bigint, second bigint"


def check_persons(frame: TableLike, schema: Schema) -> None:
    """Raise if the column that names persons is not there or cannot be read; reads no row."""
    Table.open(frame, schema).persons(schema)


def persons_by_rows(
    frame: TableLike, schema: Schema, most: int, *, progress: bool = False
) -> Integers:
    """Persons with 1, 2, ..., ``most`` rows, those with more among the last; shape (most,).

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 1)}, rows=9, neighbors="add-remove", person="id")
    >>> persons_by_rows({"id": ["a", "b", "a", None, "a"]}, schema, 2)
    array([1, 1])
    """
    engine, person = Table.open(frame, schema).persons(schema)
    with standing_line("reading the table", show=progress):
        return guard(lambda: _counted(engine, person, most))


def _counted(engine: Engine, person: str, most: int) -> Integers:
    if isinstance(engine, SparkTable):
        lines = engine.payloads([person], PersonTask(person, most), _FORM)
        return sum((_unpacked(line) for line in lines), np.zeros(most, dtype=np.int64))
    return _of_keys(_keys(engine.chunks((person,), BLOCK_ROWS), person), most)


def _keys(chunks: Iterable[Chunk], person: str) -> Iterator[Integers]:
    return (chunk[person].keys() for chunk in chunks)


def _of_keys(keys: Iterable[Integers], most: int) -> Integers:
    counted = RowsOfPersons(most)
    for part in keys:
        counted.add(part)
    return counted.persons()


# --- on Spark -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PersonTask:
    """What a worker of Spark does with its part of the rows: only numbers of persons leave it."""

    person: str
    most: int

    def to_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to the words of their persons."""
        try:
            named = (batch.rename_columns([self.person]) for batch in batches)
            for keys in _keys(batch_cells(named, [self.person], BLOCK_ROWS), self.person):
                yield _keyed(keys[keys[:, 0] != -1])
        except Exception:  # Spark would log the words of the exception
            yield _keyed(np.full((1, 2), FAILED_KEY))

    def on_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Words of persons to numbers, where all rows of a person are in one place."""
        return to_lines(lambda: iter([_packed(_of_keys(_read(batches), self.most))]))


def _keyed(keys: Integers) -> Any:
    return pyarrow().record_batch({"first": keys[:, 0], "second": keys[:, 1]})


def _read(batches: Iterable[Any]) -> Iterator[Integers]:
    for batch in batches:
        columns = [part.to_numpy(zero_copy_only=False) for part in batch.columns]
        keys = np.stack(columns, axis=1).astype(np.int64)
        if (keys[:, 0] == FAILED_KEY).any():
            fail("A worker failed.", DataError)
        yield keys


def _packed(counts: Integers) -> bytes:
    return json.dumps(counts.tolist()).encode()


def _unpacked(payload: bytes) -> Integers:
    return np.array(json.loads(payload), dtype=np.int64)
