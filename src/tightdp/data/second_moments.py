"""Sums of products of all pairs of numeric columns, for rows of bounded length: covariances."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.data.blocks import Block, Grid, gram_of_doubles, product_rounding
from tightdp.data.regression_moments import ROWS, Entry, Group, moment_groups
from tightdp.data.statistics import SCALED, Statistic, columns_of_kind, distinct
from tightdp.errors import FloatArray, check_choice, check_flag, exact_amount, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema

LAYOUTS = ("matrix", "apart", "round", "columns")
MOST_COLUMNS = 40
"""Covariances of more columns have more entries than exact noise is drawn for in a minute."""

# 41^2 = 1681 <= 2 * 29^2: with squares times 29 and products times 41 the l2 norm of the entries is
# at most 29 times the Frobenius norm of the matrix, in which every product stands twice
SQUARE, PAIR = 29, 41
_LOST = 1 - 2.0**-50  # more than five roundings of doubles
_WORD = 62


class SecondMoments(Statistic):
    r"""Sums of :math:`z z^T`, :math:`z = (1, x)`, of numeric columns x scaled to [-1, 1].

    With ``norm`` every row x that is longer, in the Euclidean norm, is shortened to it, on the grid
    and from itself alone: cells g with :math:`q = \sum_j g_j^2 > B = \lfloor norm^2 P^2 \rfloor`, P
    grid points a unit, become the integers below :math:`|g_j| \sqrt{B/q}`, with their signs. **The
    integers that are summed obey** :math:`\sum_j g_j^2 \le B`, whatever the row; to round cells
    first and to shorten then is the only order in which that holds.

    Parameters
    ----------
    schema : Schema
    columns : list of str, optional
        Numeric columns; all of them by default.
    norm : float, Fraction or Decimal, optional
        The largest length of a scaled row; without one the bounds of the columns are all there is.
    sums : bool
        Whether the columns themselves are summed, too.
    layout : {"matrix", "apart", "round", "columns"}
        Parts, order and factors of the entries, for the noise that they get: those of one symmetric
        matrix; of a matrix of products, with sums and the number of rows apart; the same with
        squares times 29 and products times 41, for a round ball; or, for bodies that know columns
        one by one, twice the squares, less the number of rows where that is private.

    Attributes
    ----------
    square : Fraction
        The largest squared length of a row.
    entries : integers, shape (entries, 3)
        Places i and j in z, and a factor.

    Examples
    --------
    >>> schema = Schema({"a": Interval(-1, 1), "b": Interval(-1, 1)}, rows=1, bits=4)
    >>> moments = SecondMoments(schema, norm=1, sums=False)
    >>> moments.names, moments.measure({"a": [1], "b": [-1]})  # (16, -16) becomes (11, -11)
    (('a^2', 'a*b', 'b^2'), [121, -121, 121])
    """

    multi_affine = False

    def __init__(
        self,
        schema: Schema,
        columns: Iterable[str] | None = None,
        *,
        norm: Number | None = None,
        sums: bool = True,
        layout: str = "matrix",
    ) -> None:
        self.schema = check_schema(schema)
        self.columns = tuple(columns_of_kind(schema, columns, Interval))
        if len(self.columns) > MOST_COLUMNS:
            fail(
                f"`columns` must be at most {MOST_COLUMNS}, for exact noise that is drawn in "
                f"seconds. Got {len(self.columns)}: name fewer."
            )
        self.sums = check_flag("sums", sums)
        self.layout = check_choice("layout", layout, LAYOUTS)
        self.counted = not schema.rows_known
        self.added = schema.neighbors is Neighbors.ADD_REMOVE
        self.square, self.shortens = self._length(norm)
        self.groups = self._lay_out()
        self.parts = {name: tuple(e for g in gs for e in g.entries) for name, gs in self.groups}
        entries = [entry for part in self.parts.values() for entry in part]
        self.entries = np.array(entries, dtype=np.int64)
        centred = [self._centred and i == j > 0 for i, j, _ in entries]
        self.centred = np.array(centred, dtype=np.int64)
        self.names = distinct(tuple(self._label(*entry) for entry in entries))

    def _length(self, norm: Number | None) -> tuple[Fraction, bool]:
        """The largest squared length of a row, and whether rows have to be shortened to it."""
        width = Fraction(len(self.columns))
        if norm is None:
            return width, False
        length = exact_amount("norm", norm)
        least = Fraction(1, 1 << max(0, self.schema.bits - 4))
        if not length >= least:
            fail(
                f"`norm` must be at least {float(least):g}, sixteen steps of the grid, for "
                f"columns scaled to [-1, 1]. Got {float(length):g}: state narrower bounds."
            )
        return (length**2, True) if length**2 < width else (width, False)

    # --- layout -------------------------------------------------------------------------------

    @property
    def degree(self) -> int:
        return 2

    @property
    def units(self) -> str:
        return SCALED

    @property
    def _centred(self) -> bool:
        """Whether the number of rows is subtracted from twice the squares."""
        return self.layout == "columns" and self.added

    def _lay_out(self) -> list[tuple[str, tuple[Group, ...]]]:
        x = list(range(1, len(self.columns) + 1))
        count = ((ROWS,),) if self.counted else ()
        first = tuple((0, j, 1) for j in x) if self.sums else ()
        if self.layout == "columns":
            return [("moments", self._by_columns(x, first))]
        own, pair = (SQUARE, PAIR) if self.layout == "round" else (1, 1)
        products = tuple((i, j, own if i == j else pair) for i in x for j in x if i <= j)
        if self.layout == "matrix" and self.sums:
            whole = (*(entry for (entry,) in count), *first, *products)
            return [("moments", (Group(whole, "matrix"),))]
        named = [("products", products, "matrix")]
        named += [("sums", first, "round")] if first else []
        named += [("rows", each, "count") for each in count]
        return [(name, (Group(entries, shape),)) for name, entries, shape in named]

    def _by_columns(self, x: list[int], first: tuple[Entry, ...]) -> tuple[Group, ...]:
        """Bodies of moments where a row is replaced, boxes where it is added or removed."""
        count = (ROWS,) if self.counted else ()
        plain = (*((j, j, 2) for j in x), *((j, k, 1) for j, k in combinations(x, 2)))
        if self.added:
            return (Group((*count, *first, *plain), "box"),)
        counts = (Group(count, "count"),) if count else ()
        if not first:
            return (*counts, Group(plain, "box"))
        if len(x) == 1:
            return (*counts, Group(((0, 1, 1), (1, 1, 2)), "square"))
        last = Group(((x[-1], x[-1], 2),), "box")
        return (*counts, *moment_groups(x[:-1], x[-1], 1), last)

    def _label(self, i: int, j: int, factor: int) -> str:
        if (i, j, factor) == ROWS:
            return "rows" if "rows" not in self.columns else "number of rows"
        label = ("1", *self.columns)
        body = f"{label[i]}^2" if i == j else label[j] if i == 0 else f"{label[i]}*{label[j]}"
        body = body if factor == 1 else f"{factor}*{body}"
        return f"{body}-1" if self._centred and i == j else body

    def where(self, part: str) -> slice:
        """The entries of a part."""
        names = list(self.parts)
        at = names.index(check_choice("part", part, self.parts))
        start = sum(len(self.parts[name]) for name in names[:at])
        return slice(start, start + len(self.parts[part]))

    # --- sums ---------------------------------------------------------------------------------

    def longest(self, grid: Grid) -> int:
        """The largest square of a row, in steps of the grid."""
        return int(self.square * grid.points**2)

    def contributions(self, block: Block, bits: int) -> NDArray[np.int64]:
        grid = self.grid(bits)
        rows = grid.cells(block, self.columns)
        if self.shortens:
            rows = shortened(rows, self.longest(grid))
        gram = gram_of_doubles(rows, grid.cell_bits)
        whole = np.zeros((len(rows) + 1, len(rows) + 1), dtype=gram.dtype)
        whole[1:, 1:] = gram
        whole[0, 1:] = rows.sum(axis=1).astype(np.int64).astype(gram.dtype) * grid.points
        whole[0, 0] = len(block) * grid.points**2
        i, j, factor = self.entries.T
        # sums of blocks may be multiplied by 4 (``rows_that_fit``); by 41 where 6 bits are left
        if factor.max() > 4 and 2 * grid.cell_bits + len(block).bit_length() > _WORD - 6:
            whole, factor = whole.astype(object), factor.astype(object)
        return np.asarray(whole[i, j] * factor - self.centred * whole[0, 0])

    def row_rounding(self, grid: Grid) -> FloatArray:
        """Cells are rounded; to shorten rows moves them no further apart, and rounds down."""
        cell = np.array([0.0, *(grid.rounding(name) for name in self.columns)])
        if self.shortens:
            # up to one step by the floor, half of one because B is rounded down
            cell[1:] = np.sqrt((cell**2).sum()) + 1.5 / grid.points * (1 + 2.0**-20)
        return np.array([k * product_rounding([cell[i], cell[j]]) for i, j, k in self.entries])

    # --- how far a row moves it -----------------------------------------------------------------

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(_ProductImage(self), self.schema.neighbors)

    def sides(self) -> FloatArray:
        """How far a row moves each entry by itself."""
        ends, R = (1.0 if self.added else 2.0), float(self.square)
        single, pair, own = min(1.0, R**0.5), min(1.0, R / 2), min(1.0, R)
        out = []
        for (i, j, factor), centred in zip(self.entries.tolist(), self.centred, strict=True):
            if i == j == 0:
                out.append(1.0)
            elif i == j:
                out.append(1.0 if centred else factor * own)
            else:
                out.append(ends * factor * (single if i == 0 else pair))
        return np.array(out)

    # --- the way back -------------------------------------------------------------------------

    def matrices(self, values: FloatArray) -> FloatArray:
        """Sums of z z', shape (..., p + 1, p + 1), from entries; 0 where nothing was summed."""
        size = len(self.columns) + 1
        out = np.zeros((*values.shape[:-1], size, size))
        i, j, factor = self.entries.T
        rows = values[..., [self.count_place]] if self.counted else float(self.schema.rows)
        scaled = (values + self.centred * rows) / factor
        out[..., i, j] = scaled
        out[..., j, i] = scaled
        if not self.counted:
            out[..., 0, 0] = self.schema.rows
        return out

    @property
    def count_place(self) -> int:
        """Where the number of rows stands among the entries, if rows are counted."""
        return int(np.flatnonzero((self.entries == ROWS).all(axis=1))[0])


def shortened(cells: FloatArray, longest: int) -> FloatArray:
    r"""Rows of integers, stored as doubles in columns, with squares that sum to at most longest.

    Rows that obey stay as they are. Of others :math:`\lfloor |g| s \rfloor` are taken, s below
    :math:`\sqrt{B/q}`: of its quotient, root and product each errs by at most a unit in the last
    place, and s is made smaller by more than all of them. Squares of cells below 2**27 add up to
    less than 2**62 for as many columns as there may be.

    >>> shortened(np.array([[3.0, 30.0], [4.0, -40.0]]), 25)
    array([[ 3.,  2.],
           [ 4., -3.]])
    """
    whole = cells.astype(np.int64)
    squares = (whole * whole).sum(axis=0)
    scale = np.sqrt(longest / np.maximum(squares, 1)) * _LOST
    shorter = np.sign(cells) * np.floor(np.abs(cells) * scale)
    return np.where(squares > longest, shorter, cells)


class _ProductImage(RowImage):
    """What one row adds, for noise by coordinates and searches: a box around it."""

    def __init__(self, moments: SecondMoments) -> None:
        self.moments, self.names = moments, moments.names

    def images(self, rows: FloatArray) -> FloatArray:
        """phi of scaled rows x, shape (k, p)."""
        z = np.column_stack([np.ones(len(rows)), rows])
        i, j, factor = self.moments.entries.T
        return np.asarray(z[:, i] * z[:, j] * factor - self.moments.centred)

    def rows(self, size: int, rng: RandomSource) -> FloatArray:
        """Random public rows, many of them at their bounds."""
        width, R = len(self.moments.columns), float(self.moments.square)
        cells = np.where(
            rng.integers(2, (size, 1)) == 0,
            rng.integers(3, (size, width)) - 1.0,
            2 * rng.uniform((size, width)) - 1,
        )
        long = np.maximum((cells**2).sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(cells * np.minimum(1.0, np.sqrt(R / long)))

    def best(self, c: FloatArray) -> tuple[FloatArray, object]:
        from tightdp.randomness import SeededSource

        rows = self.rows(4096, SeededSource(1))
        images = self.images(rows)
        k = int((images @ c).argmax())
        return images[k], dict(zip(self.moments.columns, rows[k].tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.images(self.rows(size, rng))

    def replace_hull(self) -> Hull:
        box = LpBall(self.dim, np.inf, self.moments.sides())
        return Hull(box, False, "outer: every entry by itself")

    def add_hull(self) -> Hull:
        return self.replace_hull()  # the sides are those of the relation
