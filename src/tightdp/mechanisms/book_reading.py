"""What is read off the noisy numbers of a book: counts that agree, and means and sums of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tightdp.data.table_counts import TableCounts, cell_names
from tightdp.errors import FloatArray
from tightdp.inference.table_estimates import TableReader
from tightdp.mechanisms.book_parts import GroupPart
from tightdp.mechanisms.book_shares import GroupTable
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.mechanisms.table_noise_choice import BookWork, measured_counts
from tightdp.noise.gaussian_tails import sure_multiple
from tightdp.printed import Axis
from tightdp.randomness import source
from tightdp.schema import Interval, Schema
from tightdp.shaping.book_l2_noise import L2BookNoise
from tightdp.shaping.book_noise import GaussianBookNoise
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise
from tightdp.shaping.reach import PUBLIC_SEED, how_many, one_by_one, simultaneous
from tightdp.workloads.residuals import Columns, Workload


class Widths(NamedTuple):
    """Half-widths of all entries at once, and of each for itself."""

    together: FloatArray
    alone: FloatArray


class BookWidths(NamedTuple):
    """Of a book: of its counts, of counts beside a sum, and of the scaled sums of each item."""

    counts: Widths
    beside: Widths
    sums: list[Widths]


class CountReading:
    """Tables of counts from all parts that tell them, with their errors.

    Parameters
    ----------
    book : BookWork
    asked : sequence of sets of columns
        The tables, in the order in which their columns are printed.
    coordinates : TableMechanism or None
    parts : sequence of GroupPart
        Those that count the rows of their groups tell tables, too.
    """

    def __init__(
        self,
        book: BookWork,
        asked: Sequence[Columns],
        coordinates: TableMechanism | None,
        parts: Sequence[GroupPart],
    ) -> None:
        self.coordinates, self.work = coordinates, book.work
        self.order = in_order_asked(book.work, asked)
        self.counted = [part for part in parts if part.counted]
        own = coordinates.statistic if coordinates is not None else None
        self.measured = 0 if own is None else len(own)
        self.starts = np.cumsum([self.measured, *(len(part.statistic) for part in parts)]).tolist()
        self._parts = list(parts)
        names, kinds = book.sides.names, []
        spreads: list[FloatArray] = []
        if coordinates is not None:
            assert isinstance(own, TableCounts)
            kinds += [(kind, [own.columns[j] for j in some]) for kind, some in own.parts]
            noise = coordinates.book_noise
            spreads += [noise.part_variance(k) for k in range(len(own.parts))]
        for part in self.counted:
            kinds.append(("cells", list(part.moments.cells.columns)))
            spreads.append(np.asarray(part.variances[0]))
        self.silent = not kinds  # all is public
        if self.silent:
            kinds, spreads = [("cells", [names[0]])], [np.asarray(1.0)]
        self.counts = measured_counts(book.schema, book.sides, kinds)
        self.reader = TableReader(self.counts, book.work, spreads, book.public.known)
        self._found: dict[float, Widths] = {}

    def _vectors(self, values: FloatArray) -> FloatArray:
        """Of released entries those that tell counts."""
        if self.silent:
            return np.zeros((len(values), len(self.counts)))
        told = [values[:, : self.measured]]
        for start, part in zip(self.starts, self._parts, strict=False):
            if part.counted:
                width = part.moments.layout.width
                told.append(values[:, start : start + len(part.statistic) : width])
        return np.concatenate(told, axis=1)

    def _flat(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Tables side by side, each in the order in which its columns were asked for."""
        each = zip(arrays, self.order, strict=True)
        return np.concatenate([array.ravel()[order] for array, order in each])

    def tables(self, value: FloatArray) -> FloatArray:
        """The cells of all tables, side by side, from what was released."""
        return self._flat(self.reader.tables(self._vectors(value[None, :])))

    def variances(self) -> FloatArray:
        """Of all cells."""
        return self._flat([self.reader.variances(table) for table in self.work.tables])

    def widths(self, confidence: float) -> Widths:
        """Found once for a level."""
        if confidence not in self._found:
            normal = all(isinstance(part.drawn, GaussianClassNoise) for part in self.counted)
            if self.coordinates is not None:
                normal &= isinstance(self.coordinates.book_noise, GaussianBookNoise)
            noise = None if self.coordinates is None else self.coordinates.book_noise
            if isinstance(noise, L2BookNoise) and not self.counted:
                self._found[confidence] = self._round(noise, confidence)
                return self.widths(confidence)
            find = self._normal if normal else self._simulated
            self._found[confidence] = find(confidence)
        together, alone = self._found[confidence]
        return Widths(together.copy(), alone.copy())

    def _normal(self, confidence: float) -> Widths:
        """By proof (:mod:`tightdp.noise.gaussian_tails`); at once, by the sum of the chances."""
        variance, miss = self.variances(), 1 - confidence
        coarsest = [part.drawn.coarsest for part in self.counted]  # type: ignore[union-attr]
        ratio = 1.0
        if self.coordinates is not None:
            noise = self.coordinates.book_noise
            assert isinstance(noise, GaussianBookNoise)
            coarsest.append(noise.coarsest)
            ratio = noise.below_parameter
        if not coarsest:
            return Widths(np.zeros_like(variance), np.zeros_like(variance))
        size = np.sqrt(variance * ratio)
        each = [
            size * sure_multiple(min(coarsest), len(self.counts), rarely)
            for rarely in (miss / len(variance), miss)
        ]
        return Widths(*each)

    def _round(self, noise: L2BookNoise, confidence: float) -> Widths:
        """By proof: a cell is a sum of entries of one round law, and of what rounding adds.

        Where noise is less than a count, the box of all entries is narrower, which may be 0.
        """
        smooth = [noise.smooth_variance(k) for k in range(len(self.counts.parts))]
        reader = TableReader(self.counts, self.work, smooth, self.reader.known)

        def moved(sizes: FloatArray) -> FloatArray:
            return self._flat([reader.moved(table, sizes) for table in self.work.tables])

        size = np.sqrt(self._flat([reader.variances(table) for table in self.work.tables]))
        slack, boxed = moved(noise.rounding()), moved(noise.box(confidence))
        miss = 1 - confidence
        each = [size * noise.multiple(rarely) + slack for rarely in (miss / len(size), miss)]
        return Widths(*(np.minimum(half, boxed) for half in each))

    def _simulated(self, confidence: float) -> Widths:
        """From public draws of the law itself: order statistics that are too small in one case in
        a million."""
        bits = source(PUBLIC_SEED)
        size = how_many(len(self.counts) + sum(map(len, self.order)), confidence)
        drawn = []
        if self.coordinates is not None:
            noise = np.asarray(self.coordinates.book_noise.sample(size, rng=bits), dtype=np.float64)
            drawn.append(noise / self.coordinates.resolution)
        drawn += [part.drawn_counts(size, bits) for part in self.counted]
        errors = self.reader.tables(np.concatenate(drawn, axis=1), errors=True)
        each = zip(errors, self.order, strict=True)
        found = np.concatenate([table[:, order] for table, order in each], axis=1)
        together = simultaneous(found, np.sqrt(self.variances()), confidence)
        return Widths(together, np.minimum(one_by_one(found, confidence), together))


def in_order_asked(work: Workload, asked: Sequence[Columns]) -> list[np.ndarray]:
    """For each table where its cells, in the order asked for, stand in that of the workload."""
    out = []
    for table, wanted in zip(work.tables, asked, strict=True):
        places = np.arange(work.cells(table)).reshape(work.shape(table))
        out.append(places.transpose([table.index(j) for j in wanted]).ravel())
    return out


class Numbers(NamedTuple):
    """Entries with their variances, and their intervals: all at once, and each for itself."""

    value: FloatArray
    variance: FloatArray
    together: FloatArray
    alone: FloatArray


class GroupNumbers:
    r"""Means or sums of some columns in the groups of one table.

    **Intervals.** Those of counts and of sums hold all at once. A mean is S/N for an S and an N in
    them, so it lies between the least and the largest such ratio, which is the set of Fieller
    (1954) for the box of both. Where a group may be empty that is the whole range of the column.
    For itself, a mean is within the ratios of intervals of which each is missed half as often.

    Parameters
    ----------
    item : GroupTable
    axes : tuple of (name, labels)
        The sides of the groups, as asked for.
    part : GroupPart
        What measures the sums.
    start : int
        Where its entries begin in a release.
    order : array
        Where the cells, as asked for, stand in the order of the part.
    schema : Schema
    """

    def __init__(
        self,
        item: GroupTable,
        axes: tuple[Axis, ...],
        part: GroupPart,
        start: int,
        order: np.ndarray,
        schema: Schema,
    ) -> None:
        self.kind, self.part, self.start, self.order = item.kind, part, start, order
        self.axes: tuple[Axis, ...] = (*axes, (item.kind, item.numbers))
        self.names = [
            f"{item.kind} {n} | {cell}" for cell in cell_names(axes) for n in item.numbers
        ]
        rules = [schema[name] for name in item.numbers]
        self.half = np.array([rule.half for rule in rules if isinstance(rule, Interval)])
        self.middle = np.array([rule.middle for rule in rules if isinstance(rule, Interval)])
        layout = part.moments.layout
        self.places = np.array([layout.place(name).start for name in item.numbers])
        self.rows = schema.rows

    @property
    def groups(self) -> int:
        """How many there are."""
        return len(self.order)

    def _sums(self, value: FloatArray) -> FloatArray:
        """Scaled sums, shape (groups, columns), in the order asked for."""
        entries = value[self.start : self.start + len(self.part.statistic)]
        return np.asarray(entries.reshape(self.groups, -1)[self.order][:, self.places])

    def _reach(self, miss: float) -> FloatArray:
        counted = self.part.moments.layout.counted
        return self.part.sum_reach(miss)[self.places - counted]

    def sum_widths(self, miss: float) -> Widths:
        """Of scaled sums: missed anywhere in the part with at most this chance, and each alone."""
        numbers = len(self.part.moments.layout.numbers)
        each = (1 - (1 - miss) ** (1 / self.groups)) / numbers
        return Widths(self._reach(each), self._reach(miss))

    def read(
        self, value: FloatArray, rows: FloatArray, spread: FloatArray, ends: Sequence[FloatArray],
        widths: Widths,
    ) -> Numbers:  # fmt: skip
        """From released entries and the counts of the groups, with their variances and intervals.

        ``ends`` are intervals of the counts, at once and alone, and ``widths`` those of sums.
        """
        sums, variance = self._sums(value), self.part.variances[self.places]
        read = self._means if self.kind == "mean" else self._totals
        return read(sums, rows, variance, spread, ends, widths)

    def _means(
        self, sums: FloatArray, rows: FloatArray, variance: FloatArray, spread: FloatArray,
        ends: Sequence[FloatArray], widths: Widths,
    ) -> Numbers:  # fmt: skip
        # no less than what noise alone makes of an empty group
        counted = np.maximum(rows, np.maximum(1.0, 2 * np.sqrt(spread)))[:, None]
        scaled = np.clip(sums / counted, -1.0, 1.0)
        found = []
        for interval, half in zip(ends, widths, strict=True):
            low, high = ratio_ends(sums, half, interval)
            low, high = np.minimum(low, scaled), np.maximum(high, scaled)
            user = [self.middle + self.half * end for end in (low, high)]
            found.append(np.stack(user, axis=-1).reshape(-1, 2))
        errors = self.half**2 * (variance + scaled**2 * spread[:, None]) / counted**2
        value = self.middle + self.half * scaled
        return Numbers(value.ravel(), errors.ravel(), *found)

    def _totals(
        self, sums: FloatArray, rows: FloatArray, variance: FloatArray, spread: FloatArray,
        ends: Sequence[FloatArray], widths: Widths,
    ) -> Numbers:  # fmt: skip
        value = self.middle * rows[:, None] + self.half * sums
        found = []
        for interval, half in zip(ends, widths, strict=True):
            sides = self.middle * interval[:, :, None]  # (groups, ends, columns)
            low = sides.min(axis=1) + self.half * (sums - half)
            high = sides.max(axis=1) + self.half * (sums + half)
            # counts are cut there, not here: what is shown is in its interval, as a count is
            low, high = np.minimum(low, value), np.maximum(high, value)
            found.append(np.stack([low, high], axis=-1).reshape(-1, 2))
        errors = self.middle**2 * spread[:, None] + self.half**2 * variance
        return Numbers(value.ravel(), errors.ravel(), *found)

    def foreseen(self, spread: FloatArray, counts: Widths, widths: Widths) -> Numbers:
        """Standard errors and half-widths; of means for groups of one size, at a bound."""
        variance = self.part.variances[self.places]
        if self.kind == "mean":
            size, weight = max(self.rows / self.groups, 1.0), np.ones_like(self.half)
            most = 2 * self.half
        else:
            size, weight = 1.0, self.middle / self.half
            most = np.full_like(self.half, np.inf)
        std = self.half * np.sqrt(variance + weight**2 * spread[:, None]) / size
        each = [
            self.half * (half + np.abs(weight) * count[:, None]) / size
            for half, count in zip(widths, counts, strict=True)
        ]
        std, *each = (np.minimum(part, most).ravel() for part in (std, *each))
        return Numbers(np.zeros_like(std), std**2, *each)


def ratio_ends(
    sums: FloatArray, half: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The least and the largest S/N in [-1, 1] with S within its width and N in its interval.

    N is a whole number, and where it may be 0 nothing is said.

    >>> ratio_ends(np.array([[10.0]]), np.array([2.0]), np.array([[15.5, 20.0]]))
    (array([[0.4]]), array([[0.75]]))
    >>> ratio_ends(np.array([[1.0]]), np.array([2.0]), np.array([[0.0, 3.0]]))
    (array([[-1.]]), array([[1.]]))
    """
    least, most = np.ceil(rows[:, :1] - 1e-9), np.maximum(rows[:, 1:], 1.0)
    empty = least < 1
    few = np.maximum(least, 1.0)
    bottom, top = sums - half, sums + half
    low = np.where(bottom > 0, bottom / most, bottom / few)
    high = np.where(top > 0, top / few, top / most)
    low, high = np.where(empty, -1.0, low), np.where(empty, 1.0, high)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)
