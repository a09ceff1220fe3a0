"""How the rows of one column lie on a public grid, laws of ranks alone, and bounds from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.column_rules import MOST_BITS
from tightdp.data.blocks import Block
from tightdp.data.one_pass import integer_sums, quantized_matrix
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import FloatArray, check_instance, check_within, fail
from tightdp.mechanisms.exponential_grids import PieceLaw
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import tells_arguments
from tightdp.preview import Preview
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import DEFAULT_BITS, Interval, Schema

_DENSE = 1 << 20  # grids up to this size are counted point by point if there are many rows
_MANY = 1 << 18  # fewer rows are cheaper to fetch than to count by blocks
_FETCHED = 1 << 23  # rows that are fetched to be sorted, whatever the grid
_CROWDED = 64  # grid steps in what a rank spans, were the rows spread evenly
_TOSSED = 1 << 24  # coins at once
_WORD = 1 << 62
_STEPS = 4000  # in which a binomial number is counted, at most
_SIZES = "[1e-60, 1e60]"  # as for the bounds of a column


class _Occupancy:
    """Rows on every grid point; picklable, for engines that count where the data are."""

    def __init__(self, column: str, edge: int) -> None:
        self.column, self.edge = column, edge

    def __call__(self, block: Block) -> NDArray[np.int64]:
        return np.bincount(block[self.column] + self.edge, minlength=2 * self.edge + 1)


class Ranks:
    """The distinct grid values of a column and how many rows lie at or below each of them.

    This is the ordered data itself: **not private**.

    Parameters
    ----------
    values : integers, increasing, shape (d,)
    counts : integers >= 1, shape (d,)
    edge : int
        The grid is -edge .. edge.

    Examples
    --------
    >>> ranks = Ranks(np.array([-3, 5]), np.array([2, 1]), edge=8)
    >>> ranks.rows, ranks.quantile(Fraction(1, 2))
    (3, -3)
    """

    def __init__(self, values: NDArray[np.int64], counts: NDArray[np.int64], edge: int) -> None:
        # both ends of the grid are always there, if need be with no row
        low = bool(not len(values) or values[0] > -edge)
        high = bool(not len(values) or values[-1] < edge)
        self.edge = edge
        self.values = np.concatenate([[-edge] * low, values, [edge] * high]).astype(np.int64)
        counted = np.concatenate([[0] * low, counts, [0] * high]).astype(np.int64)
        self.upto = np.cumsum(counted)
        self.below = self.upto - counted

    @classmethod
    def of(cls, frame: TableLike, schema: Schema, column: str, *, progress: bool = False) -> Ranks:
        """Read one column of a table, in one pass."""
        edge = schema.resolution
        dense = 2 * edge < min(_DENSE, 8 * schema.rows)
        if dense and schema.rows > _MANY:  # count where the rows are
            counts = integer_sums(
                frame,
                schema,
                [column],
                _Occupancy(column, edge),
                width=2 * edge + 1,
                degree=0,
                progress=progress,
            )
            return cls._counted(np.array(counts, dtype=np.int64), edge)
        cells = quantized_matrix(frame, schema, [column], progress=progress)[:, 0]
        if dense:
            return cls._counted(np.bincount(cells + edge, minlength=2 * edge + 1), edge)
        return cls(*np.unique(cells, return_counts=True), edge)

    @classmethod
    def _counted(cls, counts: NDArray[np.int64], edge: int) -> Ranks:
        """From the number of rows on every grid point."""
        places = np.flatnonzero(counts)
        return cls(places - edge, counts[places], edge)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.upto[-1])

    def quantile(self, tau: Fraction) -> int:
        """The least grid value with at least a share tau of the rows at or below; not private."""
        need = -(-tau.numerator * self.rows // tau.denominator)
        return int(self.values[np.searchsorted(self.upto, need)])

    def below_at(self, point: int) -> int:
        """Rows below a grid point; not private."""
        return int(self.below[np.searchsorted(self.values, point)])

    def upto_at(self, point: int) -> int:
        """Rows at or below a grid point; not private."""
        return int(self.upto[np.searchsorted(self.values, point, side="right") - 1])

    def moved(self, first: int, last: int, bits: int, rng: RandomSource) -> NDArray[np.int64]:
        """The places of the rows first + 1, ..., last, in order, after every row of the table was
        moved at random within its cell, of ``2**bits`` points; not private."""
        counts = np.clip(self.upto, first, last) - np.clip(self.below, first, last)
        cut = (counts > 0) & (counts < self.upto - self.below)  # at most two cells
        starts = np.repeat(self.values[~cut], counts[~cut]) << bits
        found = [starts + rng.integers(1 << bits, len(starts))]
        for cell in np.flatnonzero(cut):
            start, below = int(self.values[cell]) << bits, int(self.below[cell])
            rows = int(self.upto[cell]) - below
            found += _ordered(start, bits, rows, first - below, last - below, rng)
        return np.sort(np.concatenate(found))

    def between(self, low: Sequence[int], high: Sequence[int]) -> list[int]:
        """Rows in the cells that increasing grid points cut: those in ``low`` belong to the cell
        above them, those in ``high`` to the cell below; not private."""
        upto = [*map(self.below_at, low), *map(self.upto_at, high), self.rows]
        return [after - before for before, after in pairwise([0, *upto])]

    def law(self, target: Fraction, rate: Fraction) -> PieceLaw:
        r"""The law on the grid with weight :math:`e^{-r s(t)}`, s the distance of t from a rank.

        With :math:`N^-(t)` rows below t and :math:`N(t)` rows at or below t,
        :math:`s(t) = \max\{0, N^-(t) - \text{target}, \text{target} - N(t)\}`: the least size of
        a subgradient. The two ends of the grid stand for everything beyond them: at the lower end
        the first difference is dropped, at the upper end the second. So some point has the score
        0, whatever the target and the rows.
        """
        num, den = target.numerator, target.denominator
        kind: Any = np.int64 if den * max(self.rows, 1) + abs(num) < _WORD else object
        below, upto = den * self.below.astype(kind), den * self.upto.astype(kind)
        # pieces: the gap below every value (maybe empty), the value itself, ..., an empty gap
        starts = np.empty(2 * len(self.values) + 1, dtype=np.int64)
        starts[0], starts[1::2], starts[2::2] = -self.edge, self.values, self.values + 1
        levels = np.zeros(len(starts), dtype=kind)
        levels[0:-1:2] = abs(below - num)
        levels[1::2] = np.maximum(np.maximum(below - num, num - upto), 0)
        levels[1] = max(0, num - upto[0])
        levels[-2] = max(0, below[-1] - num)
        return PieceLaw(starts, self.edge + 1, levels, rate / den)


def _ordered(
    start: int, bits: int, rows: int, first: int, last: int, rng: RandomSource
) -> list[NDArray[np.int64]]:
    """The rows first + 1, ..., last of so many, each at one of ``2**bits`` points from ``start``.

    A coin of every row says in which half of the points it lies; whole halves need no order.
    """
    first, last = max(first, 0), min(last, rows)
    if first >= last:
        return []
    if last - first == rows:
        return [start + rng.integers(1 << bits, rows)]
    if not bits:
        return [np.full(last - first, start, dtype=np.int64)]
    lower, half = _heads(rows, rng), 1 << (bits - 1)
    near = _ordered(start, bits - 1, lower, first, last, rng)
    far = _ordered(start + half, bits - 1, rows - lower, first - lower, last - lower, rng)
    return near + far


def _heads(coins: int, rng: RandomSource) -> int:
    """How many of so many fair coins fall one way."""
    found = 0
    for tossed in range(0, coins, _TOSSED):
        here = min(_TOSSED, coins - tossed)
        words = rng.words(-(-here // 64))
        found += int(np.unpackbits(words.view(np.uint8), count=here).sum(dtype=np.int64))
    return found


def rank_sensitivity(schema: Schema, added: Fraction) -> Fraction:
    """Change of a rank gradient: 1 for a row replaced, ``added`` for every row of a person."""
    if schema.neighbors is Neighbors.REPLACE_ONE:
        return Fraction(1)
    return schema.rows_per_person * added


def rank_reach(edge: int, miss: float, rate: Fraction) -> float:
    """x with (G - 1) exp(-rate x) <= miss, rounded up, for the grid -edge..edge."""
    return math.log(2 * edge / miss) / float(rate) * (1 + 1e-12)


@dataclass(frozen=True)
class BinomialSteps:
    """A binomial number in steps from 0 on, each with the chance that it lies there or in the gap
    above: the number is rounded down."""

    steps: FloatArray
    chances: FloatArray

    @classmethod
    def of(cls, rows: int, tau: Fraction) -> Self:
        from scipy.stats import binom  # slow to import, and rarely needed

        mean, spread = rows * float(tau), math.sqrt(rows * float(tau * (1 - tau)))
        reach = 12 * spread + 50
        ends = max(0, math.floor(mean - reach)), min(rows, math.ceil(mean + reach))
        steps = np.unique(np.append(np.linspace(*ends, _STEPS).astype(np.int64), 0))
        upto = np.append(binom.cdf(steps - 1, rows, float(tau)), 1.0)
        beyond = np.append(binom.sf(steps - 1, rows, float(tau)), 0.0)
        upper = steps > mean  # differences of small numbers, on either side
        chances = np.where(upper, beyond[:-1] - beyond[1:], upto[1:] - upto[:-1])
        return cls(steps.astype(np.float64), chances)


def score_cap(points: int, levels: int, rate: Fraction) -> int:
    """A score that is as good as never reached by chance, from public facts alone.

    With so many grid points tuples of that score have together less than 2**-64 of the weight of
    one that is a few ranks off.

    >>> score_cap(1 << 40, 99, Fraction(1, 4))
    10121
    """
    tuples = math.fsum(math.log((points + i) / (i + 1)) for i in range(levels))
    return math.ceil((tuples + 64 * math.log(2)) / float(rate)) + 4 * (levels + 1)


def finer_bits(schema: Schema) -> int:
    """Bits within a grid cell: so many that rows of one cell are seldom tied again."""
    return min(60 - schema.bits, schema.rows.bit_length() + 4)


def grid_for_ranks(schema: Schema, column: str, epsilon: Fraction) -> Schema:
    """The facts with a grid so fine that rounding is small beside the error of ranks.

    A few ranks in ``rows * epsilon`` are lost to privacy. Where rows crowd on a thirtieth of the
    column these are few steps of the default grid, so that the step would be most of the error.
    Further bits cost ranks (see :func:`rank_reach`): a grid that the caller made finer stays as it
    is, and so does that of a column with steps, between which rows lie only if they are means of
    persons. Of many rows all points
    of the grid are counted where the rows are, which limits how many there can be.

    >>> schema = Schema({"x": Interval(0, 1)}, rows=1_000_000)
    >>> grid_for_ranks(schema, "x", Fraction(1, 10)).bits, grid_for_ranks(schema, "x", 1).bits
    (23, 26)
    >>> grid_for_ranks(schema.with_rows(1000), "x", Fraction(1)).bits
    16
    """
    stepped = getattr(schema[column], "steps", None) is not None and not schema.averages
    if schema.bits != DEFAULT_BITS or stepped:
        return schema
    finest = MOST_BITS if schema.rows <= _FETCHED else _DENSE.bit_length() - 3  # 2 edge < _DENSE
    wanted = math.ceil(_CROWDED * schema.rows * epsilon).bit_length()
    return replace(schema, bits=min(max(wanted, schema.bits), finest))


class Magnitudes(Interval):
    """A rule that puts cells into signed dyadic bins instead of on an even grid.

    Bin 0 holds the numbers below ``2**least`` in size, bin i > 0 those in
    ``[2**(least+i-1), 2**(least+i))``, bin -i their mirror images; the outermost bins hold
    everything beyond, infinities included. Missing cells are zeros.

    >>> rule = Magnitudes(0)
    >>> rule.to_grid(np.array([0.3, 1.0, 7.9, -8.0, np.inf, np.nan]), 3, np.empty(6)).tolist()
    [0.0, 1.0, 3.0, -4.0, 8.0, 0.0]
    >>> rule.edges(3, 4)
    (4.0, 16.0)
    """

    __slots__ = ("least",)
    least: int

    def __init__(self, least: int) -> None:
        super().__init__(-1.0, 1.0, 0.0)
        object.__setattr__(self, "least", least)

    def __reduce__(self) -> Any:
        return Magnitudes, (self.least,)

    def to_grid(self, cells: FloatArray, bits: int, out: FloatArray) -> FloatArray:
        numbers = np.where(np.isnan(cells), 0.0, cells)
        _, exponents = np.frexp(numbers)
        bins = np.clip(exponents.astype(np.float64) - self.least, 0.0, 2.0**bits)
        bins[numbers == 0] = 0.0  # whose exponent is 0
        bins[np.isinf(numbers)] = 2.0**bits
        out[...] = np.copysign(bins, numbers) + 0.0
        return out

    def edges(self, low: int, high: int) -> tuple[float, float]:
        """The lower edge of one bin and the upper edge of another."""
        return -self._top(-low), self._top(high)

    def _top(self, i: int) -> float:
        """Upper edge of bin i."""
        if i >= 0:
            return math.ldexp(1.0, self.least + i)
        return -math.ldexp(1.0, self.least - i - 1)

    def describe(self) -> str:
        """The rule in words."""
        return f"signed powers of two from 2^{self.least}, missing -> 0"


class BoundsFinder(Mechanism):
    r"""Releases a dyadic interval that holds all but a few rows of a column.

    Rows are put into signed dyadic bins (:class:`Magnitudes`). Two bins are released, each with
    weight :math:`\exp\{-\frac{\epsilon}{4\Delta} s(t)\}`, s the distance of their ranks from
    :math:`x + 1` and :math:`n - x - 1`; x is the public rank error at the confidence asked for. So,
    with that probability, at most 2x + 1 rows are cut off at either side, and neither end lies
    beyond the bin of the outermost row.

    **Privacy.**
    Statement: a release is epsilon-DP under the stated neighbour relation.
    Needs: a public range of magnitudes.
    Proof: binning is row by row. Replacing a row changes counts of bins at or below t by at most 1;
    adding one changes N(t) by at most 1 and n - N(t) by at most 1: sensitivity 1, times the rows
    of a person. Each end is the exponential mechanism of :class:`~tightdp.KNormQuantile` with half
    of epsilon; epsilons add.
    Numerics: ``exact``.
    """

    def __init__(
        self,
        column: str,
        *,
        rows: int,
        neighbors: str | Neighbors,
        epsilon: Number,
        smallest: object,
        largest: object,
        person: str | None = None,
        rows_per_person: int = 1,
    ) -> None:
        check_instance("column", column, str, words="the name of a column")
        low = check_within("smallest", smallest, _SIZES)
        high = check_within("largest", largest, _SIZES)
        if not low < high:
            fail(f"`smallest` must be smaller than `largest`. Got {low} and {high}.")
        self.rule = Magnitudes(math.frexp(low)[1] - 1)
        span = math.frexp(high)[1] - self.rule.least
        bits = max(1, (span - 1).bit_length())
        self.schema = Schema(
            {column: self.rule},
            rows,
            neighbors=neighbors,
            bits=bits,
            person=person,
            rows_per_person=rows_per_person,
        )
        self.column = column
        self.epsilon, self.neighbors = check_epsilon(epsilon), Neighbors.of(neighbors)
        self.rate = self.epsilon / (4 * rank_sensitivity(self.schema, Fraction(1)))

    def exponential_shares(self) -> Sequence[Fraction]:
        return (Fraction(1, 2), Fraction(1, 2))

    @property
    def law(self) -> str:
        return f"signed dyadic bins with weight exp(-{self.rate} * s), s the distance of their rank"

    def label(self) -> str:
        return f"find_bounds({self.column!r})"

    def _reach(self, confidence: float) -> int:
        """At most twice so many rows, and one, lie beyond either bound, with this probability."""
        return math.ceil(rank_reach(self.schema.resolution, (1 - confidence) / 2, self.rate))

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, [self.column])
        check_public_rows(frame, self.schema)

    names = ("low", "high")

    def preview(self, confidence: float = 0.95) -> Preview:
        """Nothing: bounds are powers of two, and how many rows they cut off is in the law."""
        return self._silent(confidence, "bounds are powers of two, chosen by the rows")

    def draws_level(self) -> bool:
        return True  # the ranks that are aimed at

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        ranks = Ranks.of(frame, self.schema, self.column, progress=progress)
        aim = self._reach(confidence) + 1
        ends = [
            ranks.law(Fraction(target), self.rate).draw(rng) for target in (aim, ranks.rows - aim)
        ]
        return Draft.of(("low", "high"), self.rule.edges(min(ends), max(ends)), ends, 1, DEPENDS)


@tells_arguments
def find_bounds(
    frame: TableLike,
    column: str,
    *,
    epsilon: Number,
    rows: int,
    neighbors: str | Neighbors = "replace-one",
    person: str | None = None,
    rows_per_person: int = 1,
    smallest: float = 2.0**-20,
    largest: float = 2.0**40,
    **options: Any,
) -> Release:
    """Pay for bounds of a column when only its order of magnitude is public.

    The bounds are powers of two (or zero crossings of them); with probability ``confidence`` they
    cut off no more than a public number of rows at either side, a few dozen at epsilon = 1. Give
    them to an :class:`Interval` and go on.

    Parameters
    ----------
    frame : table
    column : str
    epsilon : float, Fraction or Decimal
        Paid for the bounds, whatever is released later.
    rows : int
        The public number of rows (replace-one), or a bound on it (add-remove).
    neighbors : {"replace-one", "add-remove"}
    person, rows_per_person :
        As for :class:`Schema`, where a person can have several rows.
    smallest, largest : float
        Public: numbers smaller than the first count as zero, numbers larger than the second as so
        large. Both are rounded to powers of two.
    options :
        ``ledger``, ``key``, ``confidence``, ``rng``, ``progress``.

    Examples
    --------
    >>> table = {"x": np.linspace(3, 900, 5000)}
    >>> release = find_bounds(table, "x", epsilon=1.0, rows=5000, confidence=1 - 1e-7)
    >>> release.names, float(release["high"])
    (('low', 'high'), 1024.0)
    >>> Interval(*release.value).width <= 1024.5
    True
    """
    finder = BoundsFinder(
        column,
        rows=rows,
        neighbors=neighbors,
        epsilon=epsilon,
        smallest=smallest,
        largest=largest,
        person=person,
        rows_per_person=rows_per_person,
    )
    return finder.release(frame, **options)
