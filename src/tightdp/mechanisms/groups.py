"""Statistics by group: sums, means and variances within groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy  # scipy.linalg is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.data.class_moments import GroupMoments, in_group
from tightdp.data.histograms import row_groups
from tightdp.data.statistics import columns_of_kind
from tightdp.errors import FloatArray, check_confidence, check_most
from tightdp.mechanisms.additive import lost_to_the_grid
from tightdp.mechanisms.counts import MOST_MATRIX, ClassMechanism
from tightdp.mechanisms.mechanism import Reading
from tightdp.person_means import rows_that_count
from tightdp.preview import Preview, coarse_grid, of_rows
from tightdp.printed import Axis
from tightdp.release import Release
from tightdp.schema import Interval, Schema
from tightdp.shaping.reach import possible_counts

ROWS, PERSONS = "rows", "persons"
MOST_GROUPED = 1 << 20  # entries of a release by groups
EQUAL_GROUPS = (
    "groups of equal size; in a group of a tenth of that size errors are ten times as large"
)
_EDGES = np.arange(-16, 17) / 16  # places at which the reach of a ratio is known


def group_facts(
    schema: Schema, by: object, missing: object, per: object, groups_per_person: object
) -> Schema:
    """The facts about rows, or about persons in groups, of which each may be in several."""
    cells = row_groups(schema, by)
    return rows_that_count(
        schema,
        missing,
        per,
        divided=cells.columns,
        groups=len(cells),
        groups_per_person=groups_per_person,
    )


class GroupReading(Reading):
    """Base: numbers of every group, made of a noisy count and noisy sums of the group.

    **Privacy.** As for :class:`~tightdp.mechanisms.counts.ClassMechanism`: a row is in one group,
    so that groups share the whole of epsilon. What is made of counts and sums costs nothing.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
        Numeric columns.
    by : str, or list of names and of pairs (name, bins), or None
        Categories, and numbers with the edges of their groups or how many there are. All groups
        are released, the empty ones included: what is not in the table must not be told. None for
        one group of all rows, whose number is then a noisy result as those of groups are.
    missing : {"rule", "drop"}, optional
        With "drop" rows with a missing cell in ``columns`` or ``by`` are in no group.
    per : {"row", "person"}, optional
        With "person" a person is one row in every group in which it has rows: their mean.
    groups_per_person : int, optional
        With ``per="person"``: a person counts in at most so many groups, by default in as many as
        there are, or as it has rows that are used. The noise is in proportion to it, so that 1 is
        best where the groups are persons' own, such as their sex; whoever is in more groups counts
        in some of them, chosen by a public rule that does not look at what is summed.
    noise : "best", "hull", family of laws, NoiseLaw or Design
        "best" is the one with the least variance of "hull" and "staircase".
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        For the laws that spend one.
    """

    _squares = False
    later = ("missing", "per", "groups_per_person")

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str] | str,
        by: object,
        *,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
        missing: str | None = None,
        per: str | None = None,
        groups_per_person: int | None = None,
    ) -> None:
        self.schema = schema = group_facts(schema, by, missing, per, groups_per_person)
        wanted = [columns] if isinstance(columns, str) else columns
        numbers = columns_of_kind(schema, wanted, Interval)
        cells = row_groups(schema, by)
        fewer = "take fewer groups, or fewer columns"
        check_most("by", len(cells) * (1 + len(numbers)), MOST_GROUPED, "entries", fewer)
        self.statistic = GroupMoments(schema, numbers, by, squares=self._squares)
        self.moments = ClassMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self._take_price()
        counted = PERSONS if schema.averages else ROWS
        measures = (counted if counted not in numbers else f"number of {counted}", *numbers)
        self.axes: tuple[Axis, ...] = (*cells.axes, ("", measures))
        self.names = tuple(in_group(each, g) for g in self.statistic.groups for each in measures)
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
        return self.moments.group_covariance()

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
            covariance=_covariance(blocks),
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
            rounding=self._rounding_words(),
        )

    def _rounding_words(self) -> str:
        lost = lost_to_the_grid(self.statistic, self.moments.bits)[: len(self._block)]
        return coarse_grid(self.schema, lost, np.sqrt(np.diag(self._block)))

    def _assumes(self) -> str:
        return of_rows(self.schema, EQUAL_GROUPS if self.groups > 1 else "")

    # --- ratios of noisy numbers --------------------------------------------------------------

    def _ratio_reach(self, column: int, confidence: float, each: int) -> FloatArray:
        """The reach of S - m N at m = -1, -15/16, ..., 1: what a mean m leaves of sum and count."""
        forms = np.zeros((len(_EDGES), self.statistic.layout.width))
        forms[:, column], forms[:, 0] = 1.0, -_EDGES
        return self._reach(forms, confidence, each)

    def _ratio_ends(self, sums: FloatArray, rows: FloatArray, reach: FloatArray) -> FloatArray:
        r"""The means m in [-1, 1] with :math:`|S - mN|` within its reach (Fieller, 1954).

        At the true mean :math:`S - mN` is a mixture of noises of known law. Its reach is convex in
        m: quantiles of the forms of a symmetric convex body are a norm (Meyer and Reisner, 1991),
        and symmetric log-concave laws are limits of marginals of such bodies. So between two places
        at which it is known the larger one serves: what it leaves of every such stretch is an
        interval, and the answer spans all of them. It need not be alike at m and -m: the noises of
        a count and of a sum of squares are correlated.
        """
        within = np.maximum(reach[:-1], reach[1:])  # of the stretches from -1 to 1
        counted = np.where(rows > 0, rows, 1.0)[:, None]
        low = np.maximum((sums[:, None] - within) / counted, _EDGES[:-1])
        high = np.minimum((sums[:, None] + within) / counted, _EDGES[1:])
        left = low <= high
        none = np.where(left.any(axis=1), 0.0, np.sign(sums))  # beyond a bound by more than noise
        ends = np.column_stack(
            [np.where(left, low, np.inf).min(axis=1), np.where(left, high, -np.inf).max(axis=1)]
        )
        ends = np.where(none[:, None] != 0, none[:, None], ends)
        # a count of nothing, or less, says nothing of the mean
        return np.where(rows[:, None] > 0, ends, np.array([-1.0, 1.0]))

    def _count_ends(self, rows: FloatArray, confidence: float, each: int) -> FloatArray:
        one = np.eye(1, self.statistic.layout.width)
        half = self._reach(one, confidence, each)
        return possible_counts(rows, half, self.schema.rows, self._clipped(rows))

    def _counted(self, rows: FloatArray) -> FloatArray:
        """What sums are divided by: no less than what noise alone makes of an empty group."""
        return np.maximum(rows, max(1.0, 2 * float(np.sqrt(self._block[0, 0]))))

    def _clipped(self, rows: FloatArray) -> FloatArray:
        return np.clip(rows, 0.0, float(self.schema.rows))


def _covariance(blocks: FloatArray) -> FloatArray:
    """Of all entries, groups being independent; of many the variances alone."""
    if blocks.shape[0] * blocks.shape[1] > MOST_MATRIX:
        return np.asarray(np.diagonal(blocks, axis1=1, axis2=2).ravel())
    return np.asarray(scipy.linalg.block_diag(*blocks))


class GroupSums(GroupReading):
    """Releases sums of numeric columns within groups, and the sizes of the groups.

    **Privacy.** As for :class:`GroupReading`.

    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> GroupSums(Schema(facts, rows=100), "pay", "sex", epsilon=1).names
    ('rows | sex=f', 'pay | sex=f', 'rows | sex=m', 'pay | sex=m')
    """

    summed = "{} |"

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
        ends[:, 0] = possible_counts(value[:, 0], half[0], self.schema.rows)
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

    located = "{} |"

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
        worst = [self._ratio_reach(1 + j, confidence, p + 1).max() for j in range(p)]
        count = self._reach(np.eye(1, self.statistic.layout.width), confidence, p + 1)
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
                self._ratio_reach(k, confidence, each).max() for k in (1 + 2 * j, 2 + 2 * j)
            )
            half.append(float(self._half[j] ** 2 * (2 * mean + square / 2) / rows))
        most = np.append(float(self.schema.rows), self._half**2)
        return np.minimum(std, most), np.minimum(half, most)

    @property
    def _p(self) -> int:
        return len(self._half)
