"""Counts and sums by group inside DuckDB, polars and Spark: only integers of groups come back.

Every engine repeats the operations of :mod:`~tightdp.data.group_queries` on doubles, one by one, in
its own words. That is done for columns of integers, floats and booleans, whose cells all engines
turn into the same doubles; other columns are read in blocks, and which of the two it is follows
from the schema and from names and types alone. No expression here can fail on a cell: comparisons
come before arithmetic, which sees numbers between public bounds only, and casts see integers.

Where engines differ, and what is done about it (measured; ``tests/laws/test_inside_engines.py``):

- NaN is larger than all numbers in DuckDB and Spark, and is asked for by name; null is ELSE.
- polars divides by a constant by multiplying with its reciprocal, which rounds twice: the divisor
  is made a column, unless it is a power of two.
- Sums of 64-bit integers wrap in polars, raise in Spark and are slow in DuckDB. Limbs of integers
  are summed as doubles (:data:`~tightdp.data.group_queries.LIMB`), exactly and in any order.
- polars counts the rows of a group in 32 bits: ones are summed instead.
- A decimal literal is a decimal in SQL: constants have an exponent, which makes them doubles.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tightdp.data.columns import Engine
from tightdp.data.engines import DuckTable, PolarsTable
from tightdp.data.group_queries import LIMB, CellRule, GroupQuery, KeyRule
from tightdp.data.spark import SparkTable
from tightdp.errors import Integers, require
from tightdp.schema import Schema

_WHOLE = frozenset(
    (
        *("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"),
        *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "Boolean"),  # of polars
        *("byte", "short", "long", "boolean"),  # of Spark
    )
)
_SMALL = frozenset({"Int8", "Int16", "Int32", "UInt8", "UInt16", "Boolean"})  # in 32 bits
_NUMBERS = _WHOLE | {"ubigint", "UInt64", "float", "double", "Float32", "Float64"}
_MOST_SPARK_SUMS = 40  # limbs: beyond it Spark's generated code is slower than blocks
_KEY, _ROWS = "k", "n"

Found = tuple[Integers, Integers, list[Integers]]  # codes, rows and limbs of the groups found
Answer = Callable[[], tuple[list[int], int] | None]


def answer_inside(engine: Engine, schema: Schema, query: GroupQuery | None) -> Answer | None:
    """What makes the engine answer a query; None if its rows are better read in blocks.

    The answer has the entries of the statistic and the number of rows; it is None if there are so
    many rows that sums may have been rounded.
    """
    kind = _DIALECTS.get(type(engine))
    if kind is None or query is None or not kind.worth(query):
        return None
    if schema.person is not None or schema.drops:  # which rows count, a scan decides
        return None
    read = query.rules(schema)
    if read is None:
        return None
    (keys, cells), types = read, engine.kinds()  # type: ignore[attr-defined]
    whole = [name for name, key in zip(query.keys, keys, strict=True) if key.edges is None]
    numbers = [name for name in (*query.keys, *query.cells) if name not in whole]
    fit = all(types[name] in _WHOLE for name in whole)
    if not fit or not all(types[name] in _NUMBERS for name in numbers) or not kind.fits(keys):
        return None
    dialect = kind(engine, types)
    return lambda: query.entries(keys, *dialect.ask(query, keys, cells))


class Dialect(ABC):
    """How an engine is asked."""

    def __init__(self, engine: Any, types: Mapping[str, str]) -> None:
        self.engine, self.types = engine, types

    @classmethod
    def worth(cls, query: GroupQuery) -> bool:
        """Whether the engine is quicker than blocks: by groups it is, without them blocks are."""
        return bool(query.keys)

    @classmethod
    def fits(cls, keys: Sequence[KeyRule]) -> bool:
        """Whether all keys can be said."""
        return True

    @abstractmethod
    def ask(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> Found:
        """What the engine found."""


# --- SQL ------------------------------------------------------------------------------------------


class _Sql(Dialect):
    """Expressions that DuckDB and Spark both read."""

    mark: str
    ending = ""  # of a literal of a double

    def _name(self, name: str) -> str:
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def _number(self, name: str) -> str:
        quoted = self._name(name)
        return quoted if self.types[name] == "double" else f"CAST({quoted} AS DOUBLE)"

    def _double(self, constant: float) -> str:
        """A literal that is this double: an exponent makes it one, and 17 digits tell it."""
        text = f"{constant:.17e}{self.ending}"
        return text if constant >= 0 else f"({text})"

    def _tree(self, x: str, edges: Sequence[float], start: int) -> str:
        """How many of some edges are at most x, by halves."""
        if not edges:
            return str(start)
        half = len(edges) // 2
        below = self._tree(x, edges[:half], start)
        above = self._tree(x, edges[half + 1 :], start + half + 1)
        return f"(CASE WHEN {x} >= {self._double(edges[half])} THEN {above} ELSE {below} END)"

    def key(self, names: Sequence[str], keys: Sequence[KeyRule]) -> str:
        """The code of a row among those of all columns that divide them."""
        whole = "0"
        for name, key in zip(names, keys, strict=True):
            code = self._code(name, key)
            whole = code if whole == "0" else f"({whole}) * {key.codes} + {code}"
        return f"CAST({whole} AS INTEGER)"

    def _code(self, name: str, key: KeyRule) -> str:
        if key.edges is not None:
            x = self._number(name)
            return (
                f"(CASE WHEN {x} IS NULL OR isnan({x}) THEN {key.missing} "
                f"ELSE {self._tree(x, key.edges, 0)} END)"
            )
        quoted = f"CAST({self._name(name)} AS BIGINT)"  # small ones would wrap
        near = f"{quoted} BETWEEN {key.low} AND {key.high}"
        return f"(CASE WHEN {near} THEN {quoted} - ({key.low}) ELSE {key.codes - 1} END)"

    def cell(self, name: str, rule: CellRule) -> str:
        """The integer of a cell, as a double."""
        x = self._number(name)
        made = x
        for step, constant in rule.steps:
            made = (
                f"floor({made})" if step == "floor" else f"({made} {step} {self._double(constant)})"
            )
        low, high = self._double(rule.low), self._double(rule.high)
        return (
            f"CASE WHEN {x} BETWEEN {low} AND {high} THEN CAST({made} AS DOUBLE) "
            f"WHEN isnan({x}) THEN {self._double(rule.missing)} WHEN {x} > {high} THEN "
            f"{self._double(rule.above)} WHEN {x} < {low} THEN {self._double(rule.below)} "
            f"ELSE {self._double(rule.missing)} END"
        )

    def sums(self, query: GroupQuery) -> list[str]:
        """The sums of all limbs, of the columns c0, c1, ... of integers as doubles."""
        place = {name: f"c{j}" for j, name in enumerate(query.cells)}
        found = []
        for names, count in zip(query.products, query.limbs(), strict=True):
            product = " * ".join(place[name] for name in names)
            halves = [self._double(0.5 ** (LIMB * j)) for j in range(1, count)]
            highs = [product, *(f"floor({product} * {half})" for half in halves)]
            for high, above in zip(highs, [*highs[1:], ""], strict=True):
                limb = f"{high} - {above} * {self._double(2.0**LIMB)}" if above else high
                found.append(f"sum({limb})")
        return found

    def projected(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> list[str]:
        named = [f"{self.cell(name, cells[name])} AS c{j}" for j, name in enumerate(query.cells)]
        return [f"{self.key(query.keys, keys)} AS {_KEY}", *named]

    def asked(self, query: GroupQuery) -> list[str]:
        limbs = [f"{limb} AS s{j}" for j, limb in enumerate(self.sums(query))]
        return [f"count(*) AS {_ROWS}", *limbs]


class _Duck(_Sql):
    mark = '"'

    def ask(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> Found:
        rows = self.engine.relation.project(", ".join(self.projected(query, keys, cells)))
        found = rows.aggregate(", ".join([_KEY, *self.asked(query)]), _KEY).fetchnumpy()
        limbs = [found[f"s{j}"] for j in range(sum(query.limbs()))]
        return _integers(found[_KEY]), _integers(found[_ROWS]), [*map(_integers, limbs)]


class _Spark(_Sql):
    mark, ending = "`", "D"

    @classmethod
    def worth(cls, query: GroupQuery) -> bool:
        """Rows need not move to Python, unless there are too many sums."""
        return sum(query.limbs()) <= _MOST_SPARK_SUMS

    def ask(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> Found:
        found = self.frame(query, keys, cells).collect()
        table = np.array([tuple(line) for line in found], dtype=np.float64)
        columns = _integers(table.reshape(-1, 2 + sum(query.limbs()))).T
        return columns[0], columns[1], [*columns[2:]]

    def frame(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> Any:
        """The groups: rows are added up where they are, and sums of groups alone are moved."""
        expr = require("pyspark.sql.functions", "spark").expr
        rows = self.engine.frame.selectExpr(*self.projected(query, keys, cells))
        return rows.groupBy(_KEY).agg(*map(expr, self.asked(query)))


def _integers(column: Any) -> Integers:
    return np.asarray(np.ma.filled(column, 0), dtype=np.int64)


# --- polars ---------------------------------------------------------------------------------------


class _Polars(Dialect):
    @classmethod
    def fits(cls, keys: Sequence[KeyRule]) -> bool:
        """Bins are found more quickly in blocks."""
        return all(key.edges is None for key in keys)

    def ask(
        self, query: GroupQuery, keys: Sequence[KeyRule], cells: Mapping[str, CellRule]
    ) -> Found:
        pl = require("polars", "polars")
        place = {name: f"c{j}" for j, name in enumerate(query.cells)}
        inside = [self._inside(pl, name, cells[name]).alias(place[name]) for name in place]
        key = self._key(pl, query.keys, keys).alias(_KEY)
        rows = self.engine.frame.lazy().select(key, pl.lit(1, pl.Int64).alias(_ROWS), *inside)
        # a step of its own, in which what lies inside is not found again for every use
        rows = rows.with_columns(_stepped(pl.col(place[name]), cells[name]) for name in place)
        sums = [limb.alias(f"s{j}") for j, limb in enumerate(self._sums(pl, query))]
        asked = rows.group_by(_KEY).agg(pl.col(_ROWS).sum(), *sums)
        found = asked.collect(engine="streaming")
        limbs = [_integers(found[f"s{j}"].to_numpy()) for j in range(len(sums))]
        return _integers(found[_KEY].to_numpy()), _integers(found[_ROWS].to_numpy()), limbs

    def _key(self, pl: Any, names: Sequence[str], keys: Sequence[KeyRule]) -> Any:
        whole: Any = None
        for name, key in zip(names, keys, strict=True):
            cell = self._whole(pl, name, key)
            near = cell if key.low == 0 else cell - key.low
            code = pl.when(cell.is_between(key.low, key.high)).then(near).otherwise(key.codes - 1)
            whole = code if whole is None else whole.cast(pl.Int64) * key.codes + code
        return whole.cast(pl.Int32)

    def _whole(self, pl: Any, name: str, key: KeyRule) -> Any:
        """The cell of a key in 32 bits if all of its type, and the codes, fit into them: of those
        inside the differences from the lowest do, and of others they are not used."""
        small = self.types[name] in _SMALL and key.low >= -(2**31) and key.high < 2**31
        return pl.selectors.by_name(name).cast(pl.Int32 if small else pl.Int64)

    def _inside(self, pl: Any, name: str, rule: CellRule) -> Any:
        """The cell within its bounds; that is several times as quick as `clip`."""
        cell = pl.selectors.by_name(name).cast(pl.Float64).fill_nan(rule.fill).fill_null(rule.fill)
        above = pl.max_horizontal(cell, pl.lit(rule.low))
        return pl.min_horizontal(above, pl.lit(rule.high))

    def _sums(self, pl: Any, query: GroupQuery) -> list[Any]:
        place = {name: pl.col(f"c{j}") for j, name in enumerate(query.cells)}
        found = []
        for names, count in zip(query.products, query.limbs(), strict=True):
            product = math.prod((place[name] for name in names), start=1)
            highs = [product, *((product * 0.5 ** (LIMB * j)).floor() for j in range(1, count))]
            for j, high in enumerate(highs):
                limb = high - highs[j + 1] * 2.0**LIMB if j < count - 1 else high
                found.append(limb.sum())
        return found


def _stepped(inside: Any, rule: CellRule) -> Any:
    """What the steps make of a cell within its bounds."""
    made = inside
    for step, constant in rule.steps:
        if step == "floor":
            made = made.floor()
        elif step == "/" and math.frexp(constant)[0] != 0.5:
            made = made / (inside * 0.0 + constant)
        else:
            made = _ARITHMETIC[step](made, constant)
    return made


_ARITHMETIC: dict[str, Callable[[Any, float], Any]] = {
    "-": lambda cell, constant: cell - constant,
    "+": lambda cell, constant: cell + constant,
    "*": lambda cell, constant: cell * constant,
    "/": lambda cell, constant: cell / constant,
}
_DIALECTS: dict[type[Engine], type[Dialect]] = {
    DuckTable: _Duck,
    PolarsTable: _Polars,
    SparkTable: _Spark,
}
