r"""Tables that are public and kept exactly, and between which tables a promise then holds.

Residuals of public tables are known, and noise lies in all others: in the subspace that keeps the
public tables (Cho and Awan, 2024). Which tables are then neighbours is a choice, and is said:

- with *one* public table, those that agree in it and differ in one row. That row keeps its cell of
  the public table, so that it moves other columns alone;
- with *several*, those that agree in all of them and differ in at most two rows. One row alone
  could not change any public column; two rows that exchange their regions keep all margins. Each of
  both moves the other residuals as any replaced row may, so that noise for twice that move covers
  them (the triangle inequality).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tightdp.errors import FloatArray, check_array, check_choice, fail, quoted
from tightdp.privacy import Neighbors
from tightdp.schema import Schema
from tightdp.workloads.residuals import Columns, subsets

_MOST = 1 << 6  # public tables
_MARKS = {*',;"'}  # of names that are quoted


@dataclass(frozen=True, slots=True)
class PublicTables:
    """The sets of columns whose tables are public, and the residuals that they tell.

    >>> both = PublicTables(((0,), (1, 2)))
    >>> both.holds((1,)), both.holds((0, 1)), both.rows, both.frozen
    (True, False, 2, ())
    """

    tables: tuple[Columns, ...] = ()
    known: Mapping[Columns, FloatArray] = field(default_factory=dict, compare=False)

    def holds(self, residual: Columns) -> bool:
        """Whether a residual is known; that of no columns is the number of rows."""
        return not residual or any(set(residual) <= set(table) for table in self.tables)

    @property
    def frozen(self) -> Columns:
        """Columns that a row which is replaced keeps."""
        return self.tables[0] if len(self.tables) == 1 else ()

    @property
    def rows(self) -> int:
        """In how many rows neighbours differ."""
        return 2 if len(self.tables) > 1 else 1

    def kind(self, column: int) -> tuple[bool, ...]:
        """Which public tables have a column: columns of one kind can be exchanged."""
        return tuple(column in table for table in self.tables)

    def said(self, names: tuple[str, ...]) -> str:
        """Between which tables the promise holds; nothing where that is all neighbours.

        Promises are alike if their words are: names are quoted where they could be several, and in
        an order that does not depend on what else is asked for.

        >>> PublicTables(((0,),)).said(("a, b",))
        'between tables that agree in the public table of "a, b"'
        """
        quoted_names = [json.dumps(n, ensure_ascii=False) if _MARKS & {*n} else n for n in names]
        each = "; ".join(sorted(", ".join(sorted(quoted_names[j] for j in t)) for t in self.tables))
        if len(self.tables) > 1:
            return (
                f"between tables that agree in the public tables of {each} and differ in at most "
                "two rows"
            )
        return f"between tables that agree in the public table of {each}" if each else ""


NOTHING = PublicTables()


def read_public(
    public: object, schema: Schema, names: tuple[str, ...], sizes: tuple[int, ...]
) -> PublicTables:
    """What somebody states to be public; under replace-one the number of rows always is.

    ``public`` maps a column, or a tuple of columns, to counts; or it is a list of pairs of columns
    and counts, as files can say it.
    """
    paired = schema.neighbors is Neighbors.REPLACE_ONE
    if public is None:
        return PublicTables((), {(): np.asarray(float(schema.rows))} if paired else {})
    if not paired:
        fail("`public` needs replace-one neighbours: otherwise the number of rows is private.")
    found: dict[Columns, FloatArray] = {}
    for key, counts in _stated(public):
        columns, table = _one_table(key, counts, schema, names, sizes)
        if columns in found:
            fail(f"`public` must name a table once. Twice: {quoted(key)}.")
        found[columns] = table
    # a table inside another one says nothing more, but it must say the same
    tables = tuple(a for a in found if not any(set(a) < set(b) for b in found))
    return PublicTables(tables, _agreeing(found, names))


def _stated(public: object) -> list[tuple[object, object]]:
    if isinstance(public, Mapping):
        pairs = list(public.items())
    elif isinstance(public, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in public
    ):
        pairs = [(tuple(key) if isinstance(key, list) else key, counts) for key, counts in public]
    else:
        pairs = []
    if not 1 <= len(pairs) <= _MOST:
        fail(
            "`public` must be a mapping with public tables, their columns and their counts, such "
            f'as {{"region": [120, 80]}}, at most {_MOST} of them. Got {quoted(public)}.'
        )
    return pairs


def _one_table(
    key: object, counts: object, schema: Schema, names: tuple[str, ...], sizes: tuple[int, ...]
) -> tuple[Columns, FloatArray]:
    """The columns of a table, in their order, and its counts."""
    given = (key,) if isinstance(key, str) else key
    wanted = [name for name in given if isinstance(name, str)] if isinstance(given, tuple) else []
    if not wanted or wanted != [*dict.fromkeys(wanted)] or tuple(wanted) != given:
        fail(f"`public` must name distinct columns, one or a tuple of them. Got {quoted(key)}.")
    places = [names.index(check_choice("public", name, names)) for name in wanted]
    shape = tuple(sizes[j] for j in places)
    table = check_array("public", counts, len(shape))
    if table.shape != shape or not ((table >= 0) & (table == np.rint(table))).all():
        fail(f"`public` must hold the counts of a table of the shape {shape}.")
    if int(table.sum()) != schema.rows:
        fail(f"`public` must hold counts of all {schema.rows} rows. Got {int(table.sum())}.")
    order = tuple(sorted(places))
    return order, table.transpose([places.index(j) for j in order])


def _agreeing(
    tables: Mapping[Columns, FloatArray], names: tuple[str, ...]
) -> dict[Columns, FloatArray]:
    """All residuals that are told; tables that share columns must agree in them."""
    out: dict[Columns, FloatArray] = {}
    for columns, table in tables.items():
        for some, residual in table_residuals(table, columns).items():
            if some in out and not np.allclose(out[some], residual, rtol=0, atol=0.01 / table.size):
                said = ", ".join(names[j] for j in some)
                fail(f"`public`: two tables that are stated do not agree in the counts of {said}.")
            out[some] = residual
    return out


def table_residuals(table: FloatArray, columns: Columns) -> dict[Columns, FloatArray]:
    """All residuals of a table.

    >>> found = table_residuals(np.array([3.0, 1.0]), (4,))
    >>> found[()], found[(4,)]
    (array(4.), array([ 1., -1.]))
    """
    out: dict[Columns, FloatArray] = {}
    for some in subsets(columns):
        over = tuple(i for i, j in enumerate(columns) if j not in some)
        part = np.asarray(table.sum(axis=over), dtype=np.float64)
        for axis in range(part.ndim):
            part = part - part.mean(axis=axis, keepdims=True)
        out[some] = part
    return out
