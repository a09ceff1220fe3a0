"""How many persons have each key that nobody has listed, and sums of their numbers, in one pass.

A key is read off its cells alone (:func:`~tightdp.values.key_text`), on every engine; rows with a
cell that is no key are left out. Where persons are named, each counts once for a key, with one of
its rows, and for at most ``rows_per_person`` keys; rows and keys are chosen among the person's own
by a fixed public mixing (:mod:`~tightdp.data.persons`). Keys, counts and sums are **not private**.
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
from tightdp.data.blocks import Scan
from tightdp.data.columns import Chunk, Engine
from tightdp.data.library_columns import batch_cells, pyarrow
from tightdp.data.one_pass import BLOCK_ROWS, warn_of_rows
from tightdp.data.persons import FewRows
from tightdp.data.spark import FAILED_KEY, SparkTable, to_lines
from tightdp.data.statistics import Sums
from tightdp.data.table import Table, guard
from tightdp.errors import DataError, Integers, check_instance, check_list, fail
from tightdp.progress import standing_line
from tightdp.schema import Schema
from tightdp.values import key_text, person_words

_ANY = Category(["any", "other"])  # stands for a column without public levels where one is named
_BETWEEN = "\x1f"  # parts of a key: no key has a character that is not printable
_MOST_PARTS = 16

Totals = list[Counter[str]]
"""The count of every key, and its sums, one counter for each."""


class KeyColumn:
    """A column of keys, or several that make one key, and the facts by which they are read.

    Parameters
    ----------
    schema : Schema
        Says whose rows they are; it need not know the columns.
    column : str or list of str
    sums : Sums, optional
        Of the numbers that are summed for every key, in a schema without persons.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"age": Interval(0, 99)}, rows=4)
    >>> keys = KeyColumn(schema, "city")
    >>> keys.counts({"city": ["Ulm", "Bonn", "Ulm", None]})
    {'Bonn': 1, 'Ulm': 2}
    >>> pairs = KeyColumn(schema, ["city", "day"])
    >>> found = pairs.counts({"city": ["Ulm", "Ulm", None], "day": [3, 3.0, 3]})
    >>> {pairs.parts(key): count for key, count in found.items()}
    {('Ulm', '3'): 2}
    """

    def __init__(
        self, schema: Schema, column: str | Sequence[str], sums: Sums | None = None
    ) -> None:
        names = [column] if isinstance(column, str) else check_list("column", column)
        if not 0 < len(names) <= _MOST_PARTS or len(set(names)) < len(names):
            fail(f"`column` must name a column, or up to {_MOST_PARTS} distinct ones.")
        for name in names:
            _check_name(name, schema)
        self.columns, self.person, self.limit = tuple(names), schema.person, schema.rows_per_person
        new = {name: _ANY for name in names if name not in schema.columns}
        self.schema = schema.ruled({**schema.columns, **new}) if new else schema
        self.sums = sums
        self.numbers = () if sums is None else tuple(sums.columns)
        if sums is not None:  # a block of cells is summed in 64 bits
            assert sums.grid(sums.schema.bits).cell_bits + BLOCK_ROWS.bit_length() < 63

    @staticmethod
    def parts(key: str) -> tuple[str, ...]:
        """The texts of the columns of a key."""
        return tuple(key.split(_BETWEEN))

    def check(self, frame: TableLike) -> None:
        """Raise if a column is not there or cannot be read; reads no row."""
        Table.open(frame, self.schema).columns(self.schema, [*self._read_names])

    def counts(self, frame: TableLike, *, progress: bool = False) -> dict[str, int]:
        """The number of persons, or of rows, of every key that is there, in order of the keys."""
        return {key: found[0] for key, found in self.totals(frame, progress=progress).items()}

    def totals(self, frame: TableLike, *, progress: bool = False) -> dict[str, tuple[int, ...]]:
        """The number and the sums, on the grid, of every key that is there, in their order."""
        table = Table.open(frame, self.schema)
        engine, _ = table.columns(self.schema, [*self._read_names])
        with standing_line("reading the table", show=progress):
            found, rows = guard(lambda: self._counted(engine))
        if self.person is None:
            warn_of_rows(rows, engine, self.schema)
        keys = sorted(found[0])  # whatever the order of the rows
        return {key: tuple(each[key] for each in found) for key in keys}

    def _counted(self, engine: Engine) -> tuple[Totals, int]:
        if isinstance(engine, SparkTable):
            cells = "".join(f", cell{j} bigint" for j in range(len(self.numbers)))
            form = "" if self.person is None else f"first bigint, second bigint, key string{cells}"
            lines = engine.payloads(self.wanted, KeyTask(self), form)
            return self._added(map(_unpacked, lines))
        return self.of_chunks(engine.chunks(self.wanted, BLOCK_ROWS))

    @property
    def _read_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.columns, *self.numbers]))

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns to read."""
        return self._read_names if self.person is None else (*self._read_names, self.person)

    def of_chunks(self, chunks: Iterable[Chunk]) -> tuple[Totals, int]:
        """The totals of some rows, and how many rows they are; a person's rows are all there."""
        if self.person is not None:
            return self.of_pairs(self.pairs(chunks)), 0
        total, rows = self._nothing(), 0
        for chunk in chunks:
            texts = self._texts(chunk)
            rows += len(texts)
            total[0].update(texts)
            if self.numbers:
                kept, cells = [text is not None for text in texts], self._cells(chunk)
                _add_sums(total, [text for text in texts if text is not None], cells[kept])
        total[0].pop(None, None)  # type: ignore[call-overload]
        return total, rows

    def _texts(self, chunk: Chunk) -> list[Any]:
        """The key of every row, None where there is none."""
        parts = [map(key_text, chunk[name].values()) for name in self.columns]
        if len(parts) == 1:
            return [*parts[0]]
        rows = zip(*parts, strict=True)
        return [None if None in row else _BETWEEN.join(row) for row in rows]

    def _cells(self, chunk: Chunk) -> Integers:
        """The numbers of every row on the grid of their sums."""
        if self.sums is None:
            return np.empty((len(chunk[self.columns[0]]), 0), dtype=np.int64)
        facts = self.sums.schema
        (block,) = Scan.of([(facts, self.numbers)], BLOCK_ROWS).blocks([chunk])
        return self.sums.grid(facts.bits).cells(block, self.numbers).T.astype(np.int64)

    def _nothing(self) -> Totals:
        return [Counter() for _ in range(1 + len(self.numbers))]

    def _added(self, parts: Iterable[tuple[Totals, int]]) -> tuple[Totals, int]:
        total, rows = self._nothing(), 0
        for part, many in parts:
            for whole, found in zip(total, part, strict=True):
                whole.update(found)
            rows += many
        return total, rows

    def pairs(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Integers, list[str], Integers]]:
        """Words of persons, their keys and numbers; rows without person or key are left out."""
        assert self.person is not None
        for chunk in chunks:
            who, texts = chunk[self.person].keys(), self._texts(chunk)
            kept = [i for i, text in enumerate(texts) if text is not None and who[i, 0] != -1]
            yield who[kept], [texts[i] for i in kept], self._cells(chunk)[kept]

    def of_pairs(self, pairs: Iterable[tuple[Integers, Sequence[str], Integers]]) -> Totals:
        """Persons with each key; two words stand for a key as they do for a person."""
        few = FewRows(self.limit, 2 + len(self.numbers), keys=2)
        words: dict[str, tuple[int, int]] = {}
        for who, texts, cells in pairs:
            for text in texts:
                if text not in words:
                    words[text] = person_words(text)
            keys = np.array([words[text] for text in texts], dtype=np.int64).reshape(-1, 2)
            few.add(who, np.concatenate([keys, cells], axis=1))
        texts_of, kept, total = (
            {key: text for text, key in words.items()},
            few.rows(),
            self._nothing(),
        )
        for start in range(0, len(kept), BLOCK_ROWS):
            part = kept[start : start + BLOCK_ROWS]
            texts = [texts_of[key] for key in map(tuple, part[:, :2].tolist())]
            total[0].update(texts)
            _add_sums(total, texts, part[:, 2:])
        return total

    def __repr__(self) -> str:
        return f"KeyColumn({', '.join(map(repr, self.columns))})"


def _check_name(name: object, schema: Schema) -> None:
    check_instance("column", name, str, words="the name of a column")
    if name == schema.person:
        fail(f"`column` must not be {name!r}, which names the persons.")
    if not (name and str(name).isprintable()):
        fail("`column` must be the name of a column, of printable characters: rename it.")


def _add_sums(total: Totals, texts: Sequence[str], cells: Integers) -> None:
    """Add the numbers of rows to the sums of their keys; so many rows fit 64 bits."""
    if not cells.shape[1]:
        return
    place = {text: j for j, text in enumerate(dict.fromkeys(texts))}
    sums = np.zeros((len(place), cells.shape[1]), dtype=np.int64)
    np.add.at(sums, [place[text] for text in texts], cells)
    for whole, column in zip(total[1:], sums.T.tolist(), strict=True):
        whole.update(dict(zip(place, column, strict=True)))


# --- on Spark -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyTask:
    """What a worker of Spark does with its part of the rows: only keys and counts leave it."""

    keys: KeyColumn

    def on_rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to counts."""
        return to_lines(lambda: iter([_packed(*self.keys.of_chunks(self._chunks(batches)))]))

    def to_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to persons, their keys and numbers."""
        try:
            for who, texts, cells in self.keys.pairs(self._chunks(batches)):
                yield _keyed(who, texts, cells)
        except Exception:  # Spark would log the words of the exception
            cells = np.zeros((1, len(self.keys.numbers)), dtype=np.int64)
            yield _keyed(np.full((1, 2), FAILED_KEY), [""], cells)

    def on_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Persons and their keys to counts, where all rows of a person are in one place."""
        return to_lines(lambda: iter([_packed(self.keys.of_pairs(_read(batches)), 0)]))

    def _chunks(self, batches: Iterable[Any]) -> Iterator[Chunk]:
        wanted = self.keys.wanted
        named = (batch.rename_columns(list(wanted)) for batch in batches)
        return batch_cells(named, wanted, BLOCK_ROWS)


def _keyed(who: Integers, texts: Sequence[str], cells: Integers) -> Any:
    columns = {"first": who[:, 0], "second": who[:, 1], "key": pyarrow().array(texts, "string")}
    numbers = {f"cell{j}": column for j, column in enumerate(cells.T)}
    return pyarrow().record_batch(columns | numbers)


def _read(batches: Iterable[Any]) -> Iterator[tuple[Integers, list[str], Integers]]:
    for batch in batches:
        first, second, texts, *numbers = batch.columns
        columns = [part.to_numpy(zero_copy_only=False) for part in (first, second, *numbers)]
        table = np.stack(columns, axis=1).astype(np.int64)
        if (table[:, 0] == FAILED_KEY).any():
            fail("A worker failed.", DataError)
        yield table[:, :2], texts.to_pylist(), table[:, 2:]


def _packed(totals: Totals, rows: int) -> bytes:
    return json.dumps([totals, rows]).encode()


def _unpacked(payload: bytes) -> tuple[Totals, int]:
    totals, rows = json.loads(payload)
    return [Counter(each) for each in totals], rows
