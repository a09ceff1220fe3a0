"""Statistics by group: sums, means and variances within groups, and quantiles of every group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # scipy.linalg is loaded at its first use: importing it is slow

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.data.class_moments import GroupMoments
from tightdp.data.histograms import group_cells
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.statistics import columns_of_kind
from tightdp.data.table import check_frame, check_public_rows
from tightdp.errors import FloatArray, check_confidence, check_most, fail
from tightdp.mechanisms.additive import lost_to_the_grid
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.mechanisms.joint_quantiles import KNormQuantiles, check_work
from tightdp.mechanisms.mechanism import Mechanism, Reading
from tightdp.mechanisms.quantiles import KNormQuantile
from tightdp.mechanisms.ranks import Ranks
from tightdp.preview import Preview, of_rows
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Draft, Release
from tightdp.schema import Interval, Schema, check_schema

ROWS = "rows"
MOST_GROUPED = 1 << 13  # entries: of a release by groups, whose covariance is a matrix
_EQUAL = "groups of equal size; in a group of a tenth of that size errors are ten times as large"
_STEPS = 16  # places at which the reach of a ratio is known


class GroupReading(Reading):
    """Base: numbers of every group, made of a noisy count and noisy sums of the group.

    **Privacy.** As for :class:`~tightdp.mechanisms.counts.ClassMechanism`: a row is in one group,
    so that groups share the whole of epsilon. What is made of counts and sums costs nothing.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
        Numeric columns.
    by : str, or list of names and of pairs (name, bins)
        Categories, and numbers with the edges of their groups or how many there are. All groups
        are released, the empty ones included: what is not in the table must not be told.
    noise : "best", "hull", family of laws, NoiseLaw or Design
        "best" is the one with the least variance of "hull" and "staircase".
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        For the laws that spend one.
    """

    _squares = False

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str] | str,
        by: object,
        *,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        self.schema = check_schema(schema)
        wanted = [columns] if isinstance(columns, str) else columns
        numbers = columns_of_kind(schema, wanted, Interval)
        cells = group_cells(schema, by)
        fewer = "take fewer groups, or fewer columns"
        check_most("by", len(cells) * (1 + len(numbers)), MOST_GROUPED, "entries", fewer)
        self.statistic = GroupMoments(schema, numbers, by, squares=self._squares)
        self.moments = ClassMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self._take_price()
        measures = (ROWS if ROWS not in numbers else "number of rows", *numbers)
        self.axes: tuple[Axis, ...] = (*cells.axes, ("", measures))
        self.names = tuple(f"{each} | {g}" for g in self.statistic.groups for each in measures)
        rules = [schema[name] for name in numbers]
        self._half = np.array([rule.half for rule in rules if isinstance(rule, Interval)])
        self._middle = np.array([rule.middle for rule in rules if isinstance(rule, Interval)])

    picture = "rows"
    why = (
        "A row is in one group, and moves the count and the sums of that group only, so more "
        "groups cost nothing more. The noise of a group has the shape of what one row can change "
        "there."
    )

    @property
    def source(self) -> ClassMechanism:
        return self.moments

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.statistic.groups)

    # --- what the noise of one group does -----------------------------------------------------

    @property
    def _block(self) -> FloatArray:
        """Covariance of the scaled entries of one group."""
        width = self.statistic.layout.width
        return self.moments.scaled_covariance()[:width, :width]

    def _reach(self, forms: FloatArray, confidence: float, each: int) -> FloatArray:
        """Half-widths of forms of one group, so that ``each`` of them hold in all groups at once.

        Groups are independent; within one the chances to miss add.
        """
        miss = (1 - confidence ** (1 / self.groups)) / each
        lost = lost_to_the_grid(self.statistic, self.moments.bits)[: forms.shape[1]]
        return self.moments.form_reach(forms, miss) + np.abs(forms) @ lost

    def _scaled(self, release: Release) -> FloatArray:
        """The noisy entries, shape (groups, entries of a group)."""
        return release.value.reshape(self.groups, -1)

    def read(self, release: Release) -> Release:
        """What is published: a number of rows and one for each column, for every group."""
        if release.axes:
            return release  # read already
        value, blocks, ends = self._made(self._scaled(release), release.confidence)
        half = np.abs(ends - value[:, :, None]).max(axis=2)
        return replace(
            release,
            names=self.names,
            value=value.ravel(),
            units="",
            covariance=np.asarray(scipy.linalg.block_diag(*blocks)),
            half_width=half.ravel(),
            ends=ends.reshape(-1, 2),
            axes=self.axes,
        )

    @abstractmethod
    def _made(
        self, noisy: FloatArray, confidence: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of every group the values, their covariance, and the ends of their intervals."""

    @abstractmethod
    def _foreseen(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Standard errors and half-widths of one group."""

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error of every group, which is the same in groups of one size; costs nothing."""
        level = check_confidence(confidence)
        std, half = self._foreseen(level)
        return Preview(
            self.names,
            np.tile(std, self.groups),
            np.tile(half, self.groups),
            level,
            self.guarantee(),
            self.law,
            self._assumes(),
        )

    def _assumes(self) -> str:
        return of_rows(self.schema, _EQUAL)

    # --- ratios of noisy numbers --------------------------------------------------------------

    def _ratio_reach(self, column: int, confidence: float, each: int) -> FloatArray:
        """The reach of S - m N at m = 0, 1/16, ..., 1: what a mean m leaves of sum and count."""
        forms = np.zeros((_STEPS + 1, self.statistic.layout.width))
        forms[:, column], forms[:, 0] = 1.0, -np.arange(_STEPS + 1) / _STEPS
        return np.maximum.accumulate(self._reach(forms, confidence, each))

    def _ratio_ends(self, sums: FloatArray, rows: FloatArray, reach: FloatArray) -> FloatArray:
        r"""The means m in [-1, 1] with :math:`|S - mN|` within its reach (Fieller, 1954).

        At the true mean :math:`S - mN` is a mixture of noises of known law. Its reach grows with
        the size of m, so that of the largest m that is left serves all.
        """
        low, high = np.full(len(sums), -1.0), np.ones(len(sums))
        counted = np.where(rows > 0, rows, 1.0)
        for _ in range(4):
            place = np.ceil(np.maximum(-low, high) * _STEPS - 1e-9).astype(np.int64)
            within = reach[np.clip(place, 0, _STEPS)]
            # a count of nothing, or less, says nothing of the mean
            low = np.where(rows > 0, np.clip((sums - within) / counted, low, high), low)
            high = np.where(rows > 0, np.clip((sums + within) / counted, low, high), high)
        return np.column_stack([low, high])

    def _count_ends(self, rows: FloatArray, confidence: float, each: int) -> FloatArray:
        one = np.eye(1, self.statistic.layout.width)
        half = self._reach(one, confidence, each)[0]
        return np.column_stack([self._clipped(rows - half), self._clipped(rows + half)])

    def _counted(self, rows: FloatArray) -> FloatArray:
        """What sums are divided by: no less than what noise alone makes of an empty group."""
        return np.maximum(rows, max(1.0, 2 * float(np.sqrt(self._block[0, 0]))))

    def _clipped(self, rows: FloatArray) -> FloatArray:
        return np.clip(rows, 0.0, float(self.schema.rows))


class GroupSums(GroupReading):
    """Releases sums of numeric columns within groups, and the sizes of the groups.

    **Privacy.** As for :class:`GroupReading`.

    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> GroupSums(Schema(facts, rows=100), "pay", "sex", epsilon=1).names
    ('rows | sex=f', 'pay | sex=f', 'rows | sex=m', 'pay | sex=m')
    """

    @property
    def _linear(self) -> FloatArray:
        """From scaled entries of a group to its number of rows and its sums."""
        return np.vstack(
            [np.eye(1, len(self._half) + 1), np.column_stack([self._middle, np.diag(self._half)])]
        )

    def _made(
        self, noisy: FloatArray, confidence: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        linear = self._linear
        value = noisy @ linear.T
        half = self._reach(linear, confidence, len(linear))
        block = linear @ self._block @ linear.T
        ends = value[:, :, None] + np.multiply.outer(half, [-1.0, 1.0])
        return value, np.broadcast_to(block, (self.groups, *block.shape)), ends

    def _foreseen(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        linear = self._linear
        block = linear @ self._block @ linear.T
        return np.sqrt(np.diag(block)), self._reach(linear, confidence, len(linear))

    def _assumes(self) -> str:
        return ""  # the noise of a sum is the same for all rows


class GroupMeans(GroupReading):
    """Releases means of numeric columns within groups, and the sizes of the groups.

    Intervals are those of Fieller for the law of the noise, for all groups at once: they span the
    whole range where a group may be empty.

    **Privacy.** As for :class:`GroupReading`.

    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> means = GroupMeans(Schema(facts, rows=2000), "pay", "sex", epsilon=1)
    >>> release = means.release({"pay": [30.0, 40.0] * 1000, "sex": ["f", "m"] * 1000}, rng=1)
    >>> bool(abs(release["pay | sex=f"] - 30) < 2)
    True
    """

    def _made(
        self, noisy: FloatArray, confidence: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows, p = noisy[:, 0], len(self._half)
        counted = self._counted(rows)
        scaled = np.clip(noisy[:, 1:] / counted[:, None], -1.0, 1.0)
        ends = np.empty((self.groups, p + 1, 2))
        ends[:, 0] = self._count_ends(rows, confidence, p + 1)
        for j in range(p):
            reach = self._ratio_reach(1 + j, confidence, p + 1)
            found = self._ratio_ends(noisy[:, 1 + j], rows, reach)
            found[:, 0] = np.minimum(found[:, 0], scaled[:, j])
            found[:, 1] = np.maximum(found[:, 1], scaled[:, j])
            ends[:, 1 + j] = self._half[j] * found + self._middle[j]
        value = np.column_stack([self._clipped(rows), self._half * scaled + self._middle])
        slope = self._slope(scaled, counted)
        return value, slope @ self._block @ slope.transpose(0, 2, 1), ends

    def _slope(self, scaled: FloatArray, rows: FloatArray) -> FloatArray:
        """How noise moves a number of rows and the means, to first order; one for every group."""
        p = len(self._half)
        slope = np.zeros((len(rows), p + 1, p + 1))
        slope[:, 0, 0] = 1.0
        slope[:, 1:, 0] = -self._half * scaled / rows[:, None]
        slope[:, np.arange(1, p + 1), np.arange(1, p + 1)] = self._half / rows[:, None]
        return slope

    def _foreseen(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        p, rows = len(self._half), max(self.schema.rows / self.groups, 1.0)
        slope = self._slope(np.ones((1, p)), np.array([rows]))[0]  # a mean at a bound errs most
        std = np.sqrt(np.diag(slope @ self._block @ slope.T))
        worst = [self._ratio_reach(1 + j, confidence, p + 1)[-1] for j in range(p)]
        count = self._reach(np.eye(1, p + 1), confidence, p + 1)
        half = np.append(count, self._half * np.array(worst) / rows)
        most = np.append(float(self.schema.rows), 2 * self._half)
        return np.minimum(std, most), np.minimum(half, most)


class GroupVariances(GroupReading):
    """Releases variances of numeric columns within groups, and the sizes of the groups.

    The divisor is the number of rows of the group. Intervals put together what is left of the mean
    and of the mean square, for all groups at once.

    **Privacy.** As for :class:`GroupReading`.

    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> spread = GroupVariances(Schema(facts, rows=4000), "pay", "sex", epsilon=2)
    >>> release = spread.release({"pay": [0, 0, 100, 100] * 1000, "sex": ["f", "m"] * 2000}, rng=1)
    >>> bool(abs(release["pay | sex=f"] - 2500) < 250)
    True
    """

    _squares = True

    def _made(
        self, noisy: FloatArray, confidence: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows, p = noisy[:, 0], len(self._half)
        counted = self._counted(rows)
        first = np.clip(noisy[:, 1::2] / counted[:, None], -1.0, 1.0)
        double = np.clip(noisy[:, 2::2] / counted[:, None], -1.0, 1.0)  # of 2 x^2 - 1
        scaled = np.clip((double + 1) / 2 - first**2, 0.0, 1.0)
        ends, each = np.empty((self.groups, p + 1, 2)), 2 * p + 1
        ends[:, 0] = self._count_ends(rows, confidence, each)
        for j in range(p):
            mean, square = (
                self._ratio_ends(noisy[:, k], rows, self._ratio_reach(k, confidence, each))
                for k in (1 + 2 * j, 2 + 2 * j)
            )
            far, near = np.abs(mean).max(axis=1), np.abs(mean).min(axis=1)
            near = np.where(mean[:, 0] * mean[:, 1] <= 0, 0.0, near)
            low = np.clip((square[:, 0] + 1) / 2 - far**2, 0.0, scaled[:, j])
            high = np.clip((square[:, 1] + 1) / 2 - near**2, scaled[:, j], 1.0)
            ends[:, 1 + j] = self._half[j] ** 2 * np.column_stack([low, high])
        value = np.column_stack([self._clipped(rows), self._half**2 * scaled])
        slope = self._slope(first, double, counted)
        return value, slope @ self._block @ slope.transpose(0, 2, 1), ends

    def _slope(self, first: FloatArray, double: FloatArray, rows: FloatArray) -> FloatArray:
        """How noise moves a number of rows and the variances, to first order."""
        p = len(self._half)
        slope = np.zeros((len(rows), p + 1, 2 * p + 1))
        slope[:, 0, 0] = 1.0
        units = self._half**2 / rows[:, None]
        slope[:, 1:, 0] = units * (2 * first**2 - double / 2)
        at = np.arange(p)
        slope[:, 1 + at, 1 + 2 * at] = -2 * units * first
        slope[:, 1 + at, 2 + 2 * at] = units / 2
        return slope

    def _foreseen(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        p, rows, each = len(self._half), max(self.schema.rows / self.groups, 1.0), 2 * self._p + 1
        one = np.ones((1, p))
        slope = self._slope(one, one, np.array([rows]))[0]  # values at a bound err most
        std = np.sqrt(np.diag(slope @ self._block @ slope.T))
        half = [float(self._reach(np.eye(1, each), confidence, each)[0])]
        for j in range(p):
            mean, square = (
                self._ratio_reach(k, confidence, each)[-1] for k in (1 + 2 * j, 2 + 2 * j)
            )
            half.append(float(self._half[j] ** 2 * (2 * mean + square / 2) / rows))
        most = np.append(float(self.schema.rows), self._half**2)
        return np.minimum(std, most), np.minimum(half, most)

    @property
    def _p(self) -> int:
        return len(self._half)


# --- what is not a sum ----------------------------------------------------------------------------


class GroupQuantiles(Mechanism):
    r"""Releases quantiles of a column in every group.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for one person
    with at most ``rows_per_person`` rows.
    Needs: [P1] groups are public cells, and a row is in one; [P2] in every group the release of
    :class:`~tightdp.KNormQuantile` or :class:`~tightdp.KNormQuantiles` for add-remove neighbours is
    drawn, independently.
    Proof: let :math:`\epsilon'` be what it costs to add or remove one row of a group, in the
    exponent of the weights of all points together. Add-remove: the rows of a person change the
    scores of their groups by at most :math:`\Delta` for each row, so the log probabilities of all
    groups together by at most :math:`\epsilon` [P1, P2]. Replace-one: the old row leaves its group,
    and the new one enters its own: two such steps, each of which costs half of epsilon; that both
    are in one group makes it no more.
    Numerics: ``exact``.

    Parameters
    ----------
    schema : Schema
    column : str
    taus : numbers strictly between 0 and 1
        One, or increasing ones that are drawn jointly.
    by : str, or list of names and of pairs (name, bins)
    epsilon : float, Fraction or Decimal
    interval : {"none", "sample"}
        Also release an interval for the quantile of the rows of each group, all at once: one
        quantile only.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> median = GroupQuantiles(Schema(facts, rows=2000), "pay", [0.5], "sex", epsilon=1)
    >>> table = {"pay": np.repeat(np.linspace(0, 100, 1000), 2), "sex": ["f", "m"] * 1000}
    >>> release = median.release(table, rng=1)
    >>> release.names, bool((abs(release.value - 50) < 10).all())
    (('pay[0.5] | sex=f', 'pay[0.5] | sex=m'), True)
    """

    why = (
        "In every group points of a public grid are drawn with a weight that falls with their "
        "distance in ranks from the wanted ones. A row is in one group, so that more groups cost "
        "nothing more."
    )

    def __init__(
        self,
        schema: Schema,
        column: str,
        taus: Sequence[Any],
        by: object,
        *,
        epsilon: Number,
        interval: str = "none",
    ) -> None:
        self.schema, self.cells = check_schema(schema), group_cells(schema, by)
        if column in self.cells.columns:
            fail("`by` and `column` must be distinct.")
        shares: list[Any] = list(taus) if isinstance(taus, (list, tuple)) else [taus]
        if interval != "none" and len(shares) > 1:
            fail("`interval` is for one quantile: ask for each by itself, or leave it out.")
        if interval == "population":
            fail(
                "`interval` = 'population' needs the sizes of groups, which are private: 'sample'."
            )
        ends = 2 if schema.neighbors is Neighbors.REPLACE_ONE else 1
        one = replace(schema, neighbors=Neighbors.ADD_REMOVE)
        self.one: KNormQuantile | KNormQuantiles
        if len(shares) == 1:
            self.one = KNormQuantile(one, column, shares[0], epsilon=epsilon, interval=interval)
        else:
            self.one = KNormQuantiles(one, column, shares, epsilon=epsilon)
        self.epsilon, self.neighbors = self.one.epsilon, schema.neighbors
        self.one = self.one.at(self.epsilon / Fraction(ends))
        entries = len(self.cells) * len(self.one.names)  # the ends of intervals are drawn, too
        check_most("by", entries, MOST_GROUPED, "entries", "take fewer groups, or fewer levels")
        if isinstance(self.one, KNormQuantiles):  # every group is drawn by itself
            check_work(schema.rows, len(shares), self.one.cap * len(self.cells))
        self.column = column
        self.groups = tuple(GroupMoments(schema, [], by).groups)
        self.drawn_names = tuple(f"{name} | {g}" for g in self.groups for name in self.one.names)
        measures = self.one.names[:: self._drawn_each]
        self.names = self.drawn_names[:: self._drawn_each]
        self.axes: tuple[Axis, ...] = self.cells.axes
        if len(measures) > 1:
            self.axes = (*self.cells.axes, ("", measures))

    @property
    def _drawn_each(self) -> int:
        """How many points are drawn for a quantile: itself, and the ends of its interval."""
        return 3 if self.one.draws_level() else 1

    @property
    def law(self) -> str:
        return f"in every group, independently: {self.one.law}"

    def label(self) -> str:
        return f"{self.one.label()} by {', '.join(self.cells.columns)}"

    def draws_level(self) -> bool:
        return self.one.draws_level()

    def public_facts(self) -> Schema:
        return self.schema

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, [self.column, *self.cells.columns])
        check_public_rows(frame, self.schema)

    def _each(self, confidence: float) -> float:
        return float(confidence ** (1 / len(self.groups)))

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        columns = [self.column, *self.cells.columns]
        rows = quantized_matrix(frame, self.cells.reading, columns, progress=progress)
        place = np.ravel_multi_index(tuple(rows[:, 1:].T), self.cells.shape)
        order = np.argsort(place, kind="stable")
        cuts = np.searchsorted(place[order], np.arange(1, len(self.groups)))
        edge, each = self.schema.resolution, self._each(confidence)
        drafts = [
            self.one.drawn(Ranks(*np.unique(cells, return_counts=True), edge), rng, each)
            for cells in np.split(rows[order, 0], cuts)
        ]
        return replace(drafts[0].beside(*drafts[1:]), names=self.drawn_names)

    def read(self, release: Release) -> Release:
        """The quantiles; the ends of intervals, which were drawn too, are those of their own."""
        if release.axes:
            return release  # read already
        kept = np.arange(0, len(release.names), self._drawn_each)
        return replace(
            release,
            names=self.names,
            value=release.value[kept],
            covariance=release.covariance[np.ix_(kept, kept)],
            half_width=release.half_width[kept],
            ends=None if release.ends is None else release.ends[kept],
            unknown=tuple(name for name in release.unknown if name in self.names),
            axes=self.axes,
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """For groups of equal size whose rows fill their bounds evenly; in ranks, for any."""
        level = check_confidence(confidence)
        few = self.one.schema.with_rows(max(1, self.schema.rows // len(self.groups)))
        found = self.one.rebuilt(schema=few).preview(self._each(level))
        times = len(self.groups)
        return replace(
            found,
            names=tuple(f"{name} | {g}" for g in self.groups for name in found.names),
            std=np.tile(found.std, times),
            half_width=np.tile(found.half_width, times),
            confidence=level,
            guarantee=self.guarantee(),
            noise=self.law,
            assumes=f"{_EQUAL}; {found.assumes}",
            ranks=None if found.ranks is None else np.tile(found.ranks, times),
        )

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The quantiles, and their intervals where they were paid for."""
        self._level(release, confidence)
        if self.one.draws_level():
            about = "the intervals cover the quantiles of the groups, all at once"
            return replace(Answer.of(self.read(release)), about=about)
        return replace(Answer.of(release), about=NO_INTERVAL)
