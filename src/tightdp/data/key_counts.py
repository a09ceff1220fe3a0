"""How many persons have each key of a column whose keys nobody has listed, in one pass.

A key is read off its cell alone (:func:`~tightdp.values.key_text`), on every engine; cells that are
no key are left out. Where persons are named, each counts once for a key, and for at most
``rows_per_person`` of them, which are chosen among the person's own keys by a fixed public mixing
(:mod:`~tightdp.data.persons`). Keys and counts are **not private**.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.column_rules import Category
from tightdp.data.columns import Chunk, Engine
from tightdp.data.library_columns import batch_cells, pyarrow
from tightdp.data.one_pass import BLOCK_ROWS, warn_of_rows
from tightdp.data.persons import FewRows
from tightdp.data.spark import FAILED_KEY, SparkTable, to_lines
from tightdp.data.table import Table, guard
from tightdp.errors import DataError, Integers, check_instance, fail
from tightdp.progress import standing_line
from tightdp.schema import Schema
from tightdp.values import key_text, person_words

_ANY = Category(["any", "other"])  # stands for a column without public levels where one is named


class KeyColumn:
    """A column of keys and the facts by which it is read.

    Parameters
    ----------
    schema : Schema
        Says whose rows they are; it need not know the column.
    column : str

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"age": Interval(0, 99)}, rows=4)
    >>> keys = KeyColumn(schema, "city")
    >>> keys.counts({"city": ["Ulm", "Bonn", "Ulm", None]})
    {'Bonn': 1, 'Ulm': 2}
    """

    def __init__(self, schema: Schema, column: str) -> None:
        check_instance("column", column, str, words="the name of a column")
        if column == schema.person:
            fail(f"`column` must not be {column!r}, which names the persons.")
        if not (column and column.isprintable()):
            fail("`column` must be the name of a column, of printable characters: rename it.")
        self.column, self.person, self.limit = column, schema.person, schema.rows_per_person
        known = column in schema.columns
        self.schema = schema if known else schema.ruled({**schema.columns, column: _ANY})

    def check(self, frame: TableLike) -> None:
        """Raise if the column is not there or cannot be read; reads no row."""
        Table.open(frame, self.schema).columns(self.schema, [self.column])

    def counts(self, frame: TableLike, *, progress: bool = False) -> dict[str, int]:
        """The number of persons, or of rows, of every key that is there, in order of the keys."""
        table = Table.open(frame, self.schema)
        engine, _ = table.columns(self.schema, [self.column])
        with standing_line("reading the table", show=progress):
            found, rows = guard(lambda: self._counted(engine))
        if self.person is None:
            warn_of_rows(rows, engine, self.schema)
        return {key: found[key] for key in sorted(found)}  # whatever the order of the rows

    def _counted(self, engine: Engine) -> tuple[Counter[str], int]:
        if isinstance(engine, SparkTable):
            form = "" if self.person is None else "first bigint, second bigint, key string"
            lines = engine.payloads(self.wanted, KeyTask(self), form)
            return _added(map(_unpacked, lines))
        return self.of_chunks(engine.chunks(self.wanted, BLOCK_ROWS))

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns to read."""
        return (self.column,) if self.person is None else (self.column, self.person)

    def of_chunks(self, chunks: Iterable[Chunk]) -> tuple[Counter[str], int]:
        """The counts of some rows, and how many rows they are; a person's rows are all there."""
        if self.person is not None:
            return self.of_pairs(self.pairs(chunks)), 0
        found: Counter[str | None] = Counter()
        for chunk in chunks:
            found.update(map(key_text, chunk[self.column].values()))
        rows = found.total()
        found.pop(None, None)
        return found, rows  # type: ignore[return-value]

    def pairs(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Integers, list[str]]]:
        """The words of persons and their keys; rows that lack one of them are left out."""
        assert self.person is not None
        for chunk in chunks:
            who = chunk[self.person].keys()
            texts = [*map(key_text, chunk[self.column].values())]
            kept = [i for i, text in enumerate(texts) if text is not None and who[i, 0] != -1]
            yield who[kept], [texts[i] for i in kept]  # type: ignore[misc]

    def of_pairs(self, pairs: Iterable[tuple[Integers, Sequence[str]]]) -> Counter[str]:
        """Persons with each key; two words stand for a key as they do for a person."""
        few = FewRows(self.limit, 2, distinct=True)
        words: dict[str, tuple[int, int]] = {}
        for who, texts in pairs:
            for text in texts:
                if text not in words:
                    words[text] = person_words(text)
            keys = np.array([words[text] for text in texts], dtype=np.int64).reshape(-1, 2)
            few.add(who, keys)
        distinct, counts = np.unique(few.rows(), axis=0, return_counts=True)
        found = dict(zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True))
        return Counter({text: found[key] for text, key in words.items() if key in found})

    def __repr__(self) -> str:
        return f"KeyColumn({self.column!r})"


def _added(parts: Iterable[tuple[Counter[str], int]]) -> tuple[Counter[str], int]:
    total: Counter[str] = Counter()
    rows = 0
    for part, many in parts:
        total.update(part)
        rows += many
    return total, rows


# --- on Spark -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyTask:
    """What a worker of Spark does with its part of the rows: only keys and counts leave it."""

    keys: KeyColumn

    def on_rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to counts."""
        return to_lines(lambda: iter([_packed(*self.keys.of_chunks(self._chunks(batches)))]))

    def to_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to persons and their keys."""
        try:
            for who, texts in self.keys.pairs(self._chunks(batches)):
                yield _keyed(who, texts)
        except Exception:  # Spark would log the words of the exception
            yield _keyed(np.full((1, 2), FAILED_KEY), [""])

    def on_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Persons and their keys to counts, where all rows of a person are in one place."""
        return to_lines(lambda: iter([_packed(self.keys.of_pairs(_read(batches)), 0)]))

    def _chunks(self, batches: Iterable[Any]) -> Iterator[Chunk]:
        wanted = self.keys.wanted
        named = (batch.rename_columns(list(wanted)) for batch in batches)
        return batch_cells(named, wanted, BLOCK_ROWS)


def _keyed(who: Integers, texts: Sequence[str]) -> Any:
    columns = {"first": who[:, 0], "second": who[:, 1], "key": pyarrow().array(texts, "string")}
    return pyarrow().record_batch(columns)


def _read(batches: Iterable[Any]) -> Iterator[tuple[Integers, list[str]]]:
    for batch in batches:
        first, second, texts = batch.columns
        who = np.column_stack([part.to_numpy(zero_copy_only=False) for part in (first, second)])
        if (who[:, 0] == FAILED_KEY).any():
            fail("A worker failed.", DataError)
        yield who, texts.to_pylist()


def _packed(counts: Counter[str], rows: int) -> bytes:
    return json.dumps([dict(counts), rows]).encode()


def _unpacked(payload: bytes) -> tuple[Counter[str], int]:
    counts, rows = json.loads(payload)
    return Counter(counts), rows
