"""Sums on Spark, made where the data are: only integers that are already summed come back.

The same scan and reducers run inside ``mapInArrow``; schema and reducer are pickled. A failure
inside a worker comes back as a word instead of an exception, for Spark would log the exception with
whatever it quotes. Workers need this package: set ``PYSPARK_PYTHON`` to the interpreter that has it
before the session is made.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.data.blocks import (
    Block,
    Keyed,
    Reduced,
    Reducer,
    Scan,
    one_blas_thread,
    sum_reduced,
)
from tightdp.data.columns import Chunk, DateType, Engine
from tightdp.data.library_columns import batch_cells, pyarrow
from tightdp.errors import DataError, fail

_WHOLE = frozenset({"byte", "short", "integer", "long"})
_REST = frozenset({"boolean", "float", "double", "decimal", "string", "varchar", "char", "void"})
_DATES = frozenset({"date", "timestamp", "timestamp_ntz"})
_FORM = "word string, payload binary"
_DONE, _FAILED = "done", "failed"
_PARTITIONS = 200  # as many as Spark makes by itself
FAILED_KEY = -2  # the key of no person, see columns.Cells.keys


class SparkTable(Engine):
    """A Spark frame; its rows stay where they are."""

    adds_up = True

    caseless = True

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._types = {field.name: field.dataType.typeName() for field in frame.schema.fields}

    def kinds(self) -> dict[str, str]:
        """The names of the types of all columns."""
        return dict(self._types)

    def names(self) -> list[Any]:
        return list(self.frame.columns)

    def unreadable(self, name: str) -> str | None:
        kind = str(self._types[name])
        if kind in _DATES:
            return DateType(kind)
        return None if kind in _WHOLE | _REST else kind

    def check_ready(self, names: Any) -> None:
        check_workers(self.frame.sparkSession)

    def chunks(self, names: object, rows: int) -> Iterator[Chunk]:
        raise NotImplementedError  # raw cells never leave the workers

    def sums(self, scan: Scan, reducer: Reducer, width: int) -> list[int]:
        """Sums as :func:`sum_reduced` gives them; every partition sends one line of integers."""
        totals = [0] * (width + 1)
        for line in self._run(scan, SumUp(reducer, width)).collect():
            totals = [a + int(b) for a, b in zip(totals, _payload(line).split(), strict=True)]
        return totals

    def blocks(self, scan: Scan) -> Iterator[Block]:
        """Quantised rows, brought here partition by partition."""
        for line in self._run(scan, pack).toLocalIterator():
            columns = np.frombuffer(_payload(line), dtype=np.int64).reshape(len(scan.names), -1)
            yield Block.of_columns(scan.names, columns.astype(np.float64))

    def payloads(self, names: Sequence[str], task: Any, keyed: str = "") -> Iterator[bytes]:
        """What a task of its own makes of every part of the rows; with rows of the form ``keyed``,
        whose first two columns are the words of a person, of all rows of its persons."""
        for line in self._lines(names, task, keyed).toLocalIterator():
            yield _payload(line)

    def _run(self, scan: Scan, finish: Finish) -> Any:
        form = ", ".join(f"{name} bigint" for name in _keyed_names(scan))
        keyed = "" if scan.schema.person is None else form
        return self._lines(scan.wanted, Task(scan, finish), keyed)

    def _lines(self, wanted: Sequence[str], task: Any, keyed: str) -> Any:
        pyarrow()
        # plain names on the way to the workers: mapInArrow stumbles over dots and backticks
        quoted = ["`" + name.replace("`", "``") + "`" for name in wanted]
        frame = self.frame.selectExpr(*(f"{name} AS c{j}" for j, name in enumerate(quoted)))
        if not keyed:
            return frame.mapInArrow(task.on_rows, _FORM)
        count = partitions(self.frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        # Given the number of partitions, the optimiser leaves them alone: a person stays in one.
        persons = frame.mapInArrow(task.to_keyed, keyed).repartition(count, "first", "second")
        return persons.mapInArrow(task.on_keyed, _FORM)


_ready: weakref.WeakSet[Any] = weakref.WeakSet()  # sessions whose workers have the package


def check_workers(session: Any) -> None:
    """Raise if the workers of a session cannot import this package; asked once, with no data.

    Whoever pays must know that a release is possible: a job of one row that every worker would
    refuse is refused before.
    """
    if session in _ready:
        return
    pyarrow()
    try:
        session.range(1).mapInArrow(_import_here, "id long").collect()
    except Exception:
        fail(
            "The workers of Spark cannot import tightdp: install it there, and let PYSPARK_PYTHON "
            "name the interpreter that has it."
        )
    _ready.add(session)


def _import_here(batches: Any) -> Any:
    """Runs in the workers: to find this function is to import the package."""
    yield from batches


Finish = Callable[[Iterator[Block]], Iterator[bytes]]


@dataclass(frozen=True)
class SumUp:
    """Blocks to one line of integers."""

    reducer: Reducer
    width: int

    def __call__(self, blocks: Iterator[Block]) -> Iterator[bytes]:
        parts = (Reduced(block, self.reducer) for block in blocks)
        yield " ".join(map(str, sum_reduced(parts, self.width))).encode()


def pack(blocks: Iterator[Block]) -> Iterator[bytes]:
    """Blocks to the bytes of their integers."""
    for block in blocks:
        yield block.matrix().T.tobytes()


@dataclass(frozen=True)
class Task:
    """What a worker does with its part of the rows."""

    scan: Scan
    finish: Finish

    def on_rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to lines."""
        return self._lines(lambda: self.scan.blocks(self._chunks(batches)))

    def on_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Keys and quantised rows to lines, where all rows of a person are in one place."""
        return self._lines(lambda: self.scan.few(_read_keyed(batches)))

    def to_keyed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows of the table to keys and quantised rows; rows without a person are left out."""
        names = _keyed_names(self.scan)
        try:
            for keys, rows in self.scan.keyed(self._chunks(batches)):
                known = keys[:, 0] != -1
                yield _batch(names, np.concatenate([keys, rows], axis=1)[known])
        except Exception:
            yield _batch(names, np.full((1, len(names)), FAILED_KEY))

    def _chunks(self, batches: Iterable[Any]) -> Iterator[Chunk]:
        wanted = self.scan.wanted
        named = (batch.rename_columns(list(wanted)) for batch in batches)
        return batch_cells(named, wanted, self.scan.rows)

    def _lines(self, blocks: Callable[[], Iterator[Block]]) -> Iterator[Any]:
        return to_lines(lambda: self.finish(blocks()))


def to_lines(payloads: Callable[[], Iterator[bytes]]) -> Iterator[Any]:
    """Payloads on their way from a worker; of a failure a word."""
    pa = pyarrow()
    try:
        with one_blas_thread():
            for payload in payloads():
                yield pa.record_batch({"word": [_DONE], "payload": [payload]})
    except Exception:  # Spark would log the words of the exception
        yield pa.record_batch({"word": [_FAILED], "payload": [b""]})


def partitions(setting: str | None) -> int:
    """The number of partitions in a setting of Spark, which may leave it open.

    >>> partitions("8"), partitions("auto")
    (8, 200)
    """
    return int(setting) if setting is not None and setting.isdecimal() else _PARTITIONS


def _keyed_names(scan: Scan) -> list[str]:
    return ["first", "second", *(f"cell{j}" for j in range(len(scan.columns)))]


def _batch(names: list[str], table: Any) -> Any:
    return pyarrow().record_batch({name: table[:, j] for j, name in enumerate(names)})


def _read_keyed(batches: Iterable[Any]) -> Iterator[Keyed]:
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        if (columns[0] == FAILED_KEY).any():
            fail("A worker failed.", DataError)
        table = np.stack(columns, axis=1)
        yield table[:, :2], table[:, 2:]


def _payload(line: Any) -> bytes:
    if line.word != _DONE:
        fail("A worker of Spark could not read its part of the table.", DataError)
    return bytes(line.payload)
