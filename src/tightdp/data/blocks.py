"""Blocks of quantised rows, and sums over them that are exact.

A :class:`Block` never holds raw cells, and nothing here rounds: products run at the speed of
floating-point linear algebra only where every partial sum is an integer that a double holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import DimensionError, FloatArray, Integers, check_count, fail

Reducer = Callable[["Block"], NDArray[Any]]

_EXACT = 53  # integers up to 2**53 are doubles
_WORD = 62
MOST_SUM_BITS = _WORD - 2  # of a product: sums of blocks are multiplied by up to 4
_HALF = 13  # cells of at most 26 bits are split into a high and a low half
_HIGH = 31  # products of at most 62 bits are split into a high and a low half
_GRAM_ROWS = 16_384  # rows multiplied at a time, in the cache


class Block:
    """Some rows of a table, quantised: grid integers of intervals, level codes of categories.

    Parameters
    ----------
    cells : mapping from names to integers
        The columns, all of one length.

    Examples
    --------
    >>> block = Block({"x": np.array([-16, 16]), "k": np.array([0, 1])})
    >>> len(block), block["x"].tolist(), block.matrix(["k", "x"]).tolist()
    (2, [-16, 16], [[0, -16], [1, 16]])
    """

    __slots__ = ("_doubles", "_integers", "_place", "names")

    def __init__(self, cells: Mapping[str, Integers]) -> None:
        whole = np.array(list(cells.values()), dtype=np.int64)
        self._hold(tuple(cells), whole.astype(np.float64))

    @classmethod
    def of_columns(cls, names: Sequence[str], columns: FloatArray) -> Block:
        """The block of an array of shape (d, rows) that holds integers as doubles, uncopied."""
        block = cls.__new__(cls)
        block._hold(tuple(names), columns)
        return block

    def _hold(self, names: tuple[str, ...], columns: FloatArray) -> None:
        self.names, self._doubles = names, columns
        self._integers: Integers | None = None
        self._place = {name: j for j, name in enumerate(names)}

    def __getitem__(self, name: str) -> Integers:
        return self._whole()[self._place[name]]

    def __len__(self) -> int:
        return self._doubles.shape[1]

    def matrix(self, names: Sequence[str] | None = None) -> Integers:
        """The named columns side by side, shape (rows, d), stored column by column."""
        if names is None or tuple(names) == self.names:
            return self._whole().T
        return self._whole()[[self._place[name] for name in names]].T

    def doubles(self, names: Sequence[str], shift: int = 0) -> FloatArray:
        """The named columns as doubles, shape (d, rows), on a grid ``2**shift`` times as coarse.

        Not to be changed: it may be the block itself.
        """
        same = tuple(names) == self.names
        cells = self._doubles if same else self._doubles[[self._place[name] for name in names]]
        if shift == 0:
            return cells
        coarse = cells * 0.5**shift  # exact, and so is the half: rounded half up
        coarse += 0.5
        return np.floor(coarse, out=coarse)

    def _whole(self) -> Integers:
        if self._integers is None:
            self._integers = self._doubles.astype(np.int64)
        return self._integers

    def __repr__(self) -> str:  # neither cells nor their number
        return f"Block({', '.join(self.names)})"


def exact_gram(matrix: ArrayLike, bits: int) -> NDArray[Any]:
    """``matrix.T @ matrix`` without rounding, for integers of at most ``2**bits`` in size.

    With r rows every partial sum is at most ``r * 2**(2 * bits)``, so floating-point products are
    exact while ``2 * bits + log2(r) <= 53``. Beyond that ``matrix = 2**13 * high + low``, and the
    three products of the halves are exact.

    Parameters
    ----------
    matrix : integers, shape (rows, d)
    bits : int
        At most 26.

    Returns
    -------
    array, shape (d, d)
        int64, or Python integers where ``rows * 2**(2 * bits)`` needs more.

    Examples
    --------
    >>> exact_gram([[3, 1], [-2, 4]], bits=2)
    array([[13, -5],
           [-5, 17]])
    """
    check_count("bits", bits, most=26)
    cells = np.asarray(matrix)
    if cells.ndim != 2 or cells.dtype.kind not in "iu":
        fail("`matrix` must be a two-dimensional array of integers.", DimensionError)
    return gram_of_doubles(cells.T, bits)


def gram_of_doubles(columns: NDArray[Any], bits: int) -> NDArray[Any]:
    """``columns @ columns.T`` for integers, shape (d, rows), that may be stored as doubles.

    >>> gram_of_doubles(np.array([[3.0, -2.0], [1.0, 4.0]]), bits=2)
    array([[13, -5],
           [-5, 17]])
    """
    width, rows = columns.shape
    fits = 2 * bits + rows.bit_length() <= _WORD
    total = np.zeros((width, width), dtype=np.int64 if fits else object)
    for start in range(0, rows, _GRAM_ROWS):
        part = columns[:, start : start + _GRAM_ROWS].astype(np.float64, copy=False)
        total += _gram(part, bits, np.int64 if fits else object)
    return total


def _gram(cells: FloatArray, bits: int, kind: type) -> NDArray[Any]:
    def product(left: FloatArray, right: FloatArray) -> NDArray[Any]:
        return (left @ right.T).astype(np.int64).astype(kind)

    if 2 * bits + (cells.shape[1] - 1).bit_length() <= _EXACT:
        return product(cells, cells)
    high = np.floor(cells * 0.5**_HALF)
    low = cells - high * 2.0**_HALF
    mixed = product(high, low)
    squares = product(high, high) * (1 << 2 * _HALF) + product(low, low)
    return squares + (mixed + mixed.T) * (1 << _HALF)


def grouped_sums(
    cells: FloatArray, codes: Integers | None, count: int, bits: int
) -> NDArray[np.int64]:
    """Sums of products of cells, shape (factors, rows), within each of ``count`` groups of rows.

    Without codes all rows are one group. Sums must fit 62 bits, see :func:`rows_that_fit`.

    >>> grouped_sums(np.array([[3.0, -2, 4], [1, 2, 2]]), np.array([0, 1, 1]), 2, bits=2)
    array([3, 4])
    """
    factors, rows = cells.shape
    if factors == 0:
        return np.array([rows]) if codes is None else np.bincount(codes, minlength=count)
    if factors * bits + rows.bit_length() <= _EXACT:
        return _add_up(np.prod(cells, axis=0), codes, count)
    whole = np.prod(cells.astype(np.int64), axis=0)  # too many bits for a double: two halves
    high, low = whole >> _HIGH, whole & ((1 << _HIGH) - 1)
    return (_add_up(high, codes, count) << _HIGH) + _add_up(low, codes, count)


def _add_up(values: NDArray[Any], codes: Integers | None, count: int) -> Integers:
    if codes is None:
        return values.sum(keepdims=True).astype(np.int64)
    return np.bincount(codes, weights=values, minlength=count).astype(np.int64)


class Totals:
    """Running sums of integer vectors that cannot overflow.

    int64 entries are added as ``2**32 * high + low``, which holds for 2**31 vectors; Python
    integers are added as they are.

    Examples
    --------
    >>> totals = Totals(2)
    >>> for _ in range(3):
    ...     totals.add(np.array([2**62, -1]))
    >>> totals.values() == [3 * 2**62, -3]
    True
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._high = np.zeros(width, dtype=np.int64)
        self._low = np.zeros(width, dtype=np.int64)
        self._large: list[int] | None = None

    def add(self, vector: object) -> None:
        """Add one vector; the shape and the type are checked, never the entries."""
        entries = np.asarray(vector)
        if entries.shape != (self._width,) or entries.dtype.kind not in "iuO":
            fail(
                f"A reducer must return {self._width} integers. "
                f"Got shape {entries.shape} of {entries.dtype}.",
                DimensionError,
            )
        if entries.dtype.kind == "O" or entries.dtype == np.uint64:
            before = self._large or [0] * self._width
            self._large = [a + int(b) for a, b in zip(before, entries, strict=True)]
            return
        wide = entries.astype(np.int64)
        self._high += wide >> 32
        self._low += wide & 0xFFFFFFFF

    def values(self) -> list[int]:
        """The sums."""
        if self._fits():  # long vectors of counts, at once
            sums: list[int] = ((self._high << 32) + self._low).tolist()
            return sums
        return [
            (high << 32) + low + large
            for high, low, large in zip(
                self._high.tolist(),
                self._low.tolist(),
                self._large or [0] * self._width,
                strict=True,
            )
        ]

    def _fits(self) -> bool:
        """Whether all sums are int64 entries that int64 holds."""
        high = int(max(self._high.max(initial=0), -self._high.min(initial=0)))
        return self._large is None and high < 1 << 30 and int(self._low.max(initial=0)) < 1 << 62


def rows_that_fit(bits: int, degree: int, most: int) -> int:
    """Rows of a block whose sums of products of ``degree`` cells, times 4, are at most 2**62.

    >>> rows_that_fit(16, 2, 65536), rows_that_fit(26, 2, 65536)
    (65536, 256)
    """
    room = MOST_SUM_BITS - degree * bits
    if room < 0:
        fail(
            f"Products of {degree} cells of {bits} bits do not fit 64 bits: "
            f"state a schema with `bits` at most {MOST_SUM_BITS // degree}."
        )
    return min(most, 1 << room)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra on one thread, if ``threadpoolctl`` is installed: blocks are small."""
    pools = _thread_pools()
    with nullcontext() if pools is None else pools.limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> Any:
    """The thread pools of the process, found once: the search takes longer than a small sum."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
