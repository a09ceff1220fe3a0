"""At most so many rows of a person, whatever the order of the rows and the engine.

Each person's rows are ranked by a fixed public mixing of (person, quantised row), and those of
lowest rank are kept. What is kept of a person depends on that person's rows alone: replacing all
rows of a person by as many others, or adding or removing them, changes at most ``rows_per_person``
rows of what is summed. Ranks differ from person to person, so that no value is preferred; equal
rows of a person have equal ranks. Rows without a person are left out, for nothing would bound how
many of them one person has. The order of rows is never used. Where persons count alike, the rows
that are kept of a person become one, their mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import Integers

GONE = -(1 << 40)
"""Stands for a missing cell where its row is left out; no grid integer or level is so low."""

_LEAST_BUFFER = 1 << 18


class FewRows:
    """Rows kept so far; memory for about twice ``limit`` rows per person.

    With ``keys`` the first so many cells of a row are a key: of a person's rows of one key that of
    lowest rank counts, and keys are ranked without what else is in a row.

    Examples
    --------
    >>> few = FewRows(limit=1, width=1)
    >>> few.add(np.array([[0, 7], [0, 7], [0, 9], [-1, -1]]), np.array([[4], [5], [6], [8]]))
    >>> len(few.rows())
    2
    """

    def __init__(self, limit: int, width: int, *, keys: int = 0) -> None:
        self._limit, self._keys = limit, keys
        self._parts: list[Integers] = [np.empty((0, width + 2), dtype=np.int64)]
        self._held, self._room = 0, _LEAST_BUFFER

    def add(self, keys: Integers, rows: Integers) -> None:
        """Take in rows, shape (m, width), of the persons with the given keys, shape (m, 2)."""
        known = keys[:, 0] != -1
        self._parts.append(np.concatenate([keys[known], rows[known]], axis=1))
        self._held += len(self._parts[-1])
        if self._held > self._room:
            self._settle()
            self._room = max(_LEAST_BUFFER, 2 * self._held)

    def rows(self) -> Integers:
        """The rows kept, in an order that the order of the input does not change."""
        return self._settle()[:, 2:]

    def rows_by_number(self) -> Iterator[tuple[int, Integers]]:
        """The rows of persons of whom one row is kept, then of those with two, and so on.

        >>> few = FewRows(limit=3, width=1)
        >>> few.add(np.array([[0, 7], [0, 7], [0, 9]]), np.array([[4], [5], [6]]))
        >>> [(number, rows.tolist()) for number, rows in few.rows_by_number()]
        [(1, [[6]]), (2, [[4], [5]])]
        """
        table = self._settle()
        starts = _starts(table[:, :2])
        numbers = np.diff([*starts, len(table)])
        each = np.repeat(numbers, numbers)
        for number in np.unique(numbers):
            rows = table[each == number, 2:]
            yield int(number), rows[np.lexsort(rows.T[::-1])]

    def means(self, groups: Sequence[int] = (), most: int = 1) -> Integers:
        """The mean of the rows that are kept of each person, cell by cell, rounded half up.

        With cells that say which group a row is in, the mean of a person's rows in each group, for
        at most so many groups: those of lowest rank, in which means play no part.

        >>> few = FewRows(limit=3, width=2)
        >>> few.add(np.array([[0, 7], [0, 7], [0, 9]]), np.array([[4, -1], [5, -2], [6, 8]]))
        >>> few.means()
        array([[ 5, -1],
               [ 6,  8]])
        >>> few.means(groups=[0], most=2)  # the first person in two groups
        array([[ 4, -1],
               [ 5, -2],
               [ 6,  8]])
        """
        table = self._settle()
        if groups:
            table = table[np.lexsort(table[:, _key(groups)].T[::-1])]
        starts = _starts(table[:, _key(groups)])
        if not len(starts):
            return table[:, 2:]
        # cells have at most 26 bits, and a person has at most 2**32 rows
        sums = np.add.reduceat(table[:, 2:], starts, axis=0)
        rows = np.diff([*starts, len(table)])[:, None]
        means = (2 * sums + rows) // (2 * rows)
        # all rows of a group have its cells, and so has their mean
        return means[np.sort(_lowest(table[starts][:, _key(groups)], most))] if groups else means

    def _settle(self) -> Integers:
        table = np.concatenate(self._parts)
        if self._keys:
            table = table[_lowest(table, 1, 2 + self._keys)]
        ranked = table[:, : 2 + self._keys] if self._keys else table
        kept = table[_lowest(ranked, self._limit)]
        self._parts, self._held = [kept], len(kept)
        return kept


class RowsOfPersons:
    """How many rows each person has, up to ``most``; memory for about twice the persons.

    Examples
    --------
    >>> counted = RowsOfPersons(most=3)
    >>> counted.add(np.array([[0, 7], [0, 7], [0, 9], [-1, -1]]))
    >>> counted.persons()  # with one row, with two, with three or more
    array([1, 1, 0])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[Integers] = [np.empty((0, 3), dtype=np.int64)]
        self._held, self._room = 0, _LEAST_BUFFER

    def add(self, keys: Integers) -> None:
        """Take in a row of each of the persons with the given keys, shape (m, 2)."""
        known = keys[keys[:, 0] != -1]
        self._parts.append(np.column_stack([known, np.ones(len(known), dtype=np.int64)]))
        self._held += len(known)
        if self._held > self._room:
            self._settle()
            self._room = max(_LEAST_BUFFER, 2 * self._held)

    def persons(self) -> Integers:
        """Persons with 1, 2, ... rows, those with more among the last; shape (most,)."""
        return np.bincount(self._settle()[:, 2], minlength=self._most + 1)[1:]

    def _settle(self) -> Integers:
        table = np.concatenate(self._parts)
        table = table[np.lexsort(table[:, :2].T[::-1])]
        starts = _starts(table[:, :2])
        # at most the rows in memory times ``most``; a number that is cut grows no further
        rows = np.add.reduceat(table[:, 2], starts) if len(starts) else table[:, 2]
        kept = np.column_stack([table[starts, :2], np.minimum(rows, self._most)])
        self._parts, self._held = [kept], len(kept)
        return kept


def side_by_side(tables: Sequence[Integers]) -> Integers:
    """Rows of several choices in one table; where some kept fewer rows, the rest are missing."""
    longest = max(map(len, tables))
    short = [
        np.pad(table, ((0, longest - len(table)), (0, 0)), constant_values=GONE) for table in tables
    ]
    return np.concatenate(short, axis=1)


def _key(groups: Sequence[int]) -> list[int]:
    """Where a row says whose it is, and in which group."""
    return [0, 1, *(2 + place for place in groups)]


def _lowest(table: Integers, limit: int, of: int = 2) -> NDArray[np.intp]:
    """Places of the ``limit`` rows of lowest rank of each person, or of what ``of`` cells tell."""
    order = np.lexsort((_ranks(table), *table[:, :of].T[::-1]))
    starts = _starts(table[order, :of])
    position = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return order[position < limit]


def _starts(keys: Integers) -> NDArray[np.intp]:
    """Where another key begins, of keys that are in order."""
    first = np.ones(len(keys), dtype=bool)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return np.flatnonzero(first)


def _ranks(table: Integers) -> NDArray[np.uint64]:
    """A mixing of all columns into one word (the finalizer of SplitMix64, column by column)."""
    rank = np.zeros(len(table), dtype=np.uint64)
    for column in table.T:
        rank += column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        rank ^= rank >> np.uint64(30)
        rank *= np.uint64(0xBF58476D1CE4E5B9)
        rank ^= rank >> np.uint64(27)
        rank *= np.uint64(0x94D049BB133111EB)
        rank ^= rank >> np.uint64(31)
    return rank
