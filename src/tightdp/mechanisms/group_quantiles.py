"""Quantiles of a column in every group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.data.class_moments import GroupMoments
from tightdp.data.histograms import group_cells
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import Draft
from tightdp.errors import check_confidence, check_most, fail
from tightdp.mechanisms.counts import MOST_MATRIX
from tightdp.mechanisms.groups import EQUAL_GROUPS, group_facts
from tightdp.mechanisms.joint_quantiles import KNormQuantiles, check_work
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.quantiles import KNormQuantile
from tightdp.mechanisms.ranks import Ranks
from tightdp.preview import Preview
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema


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
    are in one group makes it no more, and a row that is left out takes fewer.
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
    missing : {"rule", "drop"}, optional
        With "drop" rows with a missing cell in ``column`` or ``by`` are in no group.
    per, groups_per_person :
        As for :class:`~tightdp.mechanisms.groups.GroupReading`: quantiles of the means of persons.

    Examples
    --------
    >>> from tightdp import Category, Interval
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> median = GroupQuantiles(Schema(facts, rows=2000), "pay", [0.5], "sex", epsilon=1)
    >>> table = {"pay": np.repeat(np.linspace(0, 100, 1000), 2), "sex": ["f", "m"] * 1000}
    >>> release = median.release(table, rng=1)
    >>> release.names, bool((abs(release.value - 50) < 10).all())
    (('pay[0.5] | sex=f', 'pay[0.5] | sex=m'), True)
    """

    located = "{}["
    later = ("missing", "per", "groups_per_person")

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
        missing: str | None = None,
        per: str | None = None,
        groups_per_person: int | None = None,
    ) -> None:
        schema = group_facts(schema, by, missing, per, groups_per_person)
        if column in group_cells(schema, by).columns:
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
        self.schema = schema = replace(schema, bits=self.one.bits)  # one grid for all groups
        self.cells = group_cells(schema, by)
        entries = len(self.cells) * len(self.one.names)  # the ends of intervals are drawn, too
        check_most("by", entries, MOST_MATRIX, "entries", "take fewer groups, or fewer levels")
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
            assumes=f"{EQUAL_GROUPS}; {found.assumes}",
            ranks=None if found.ranks is None else np.tile(found.ranks, times),
        )

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The quantiles, and their intervals where they were paid for."""
        self._level(release, confidence)
        if self.one.draws_level():
            about = "the intervals cover the quantiles of the groups, all at once"
            return replace(Answer.of(self.read(release)), about=about)
        return replace(Answer.of(release), about=NO_INTERVAL)
