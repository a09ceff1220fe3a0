"""Counts of cells that agree with each other and with public facts, and moments within classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.data.class_moments import ClassMoments, GroupMoments
from tightdp.data.histograms import JointHistogram
from tightdp.data.made_up import made_up_block
from tightdp.data.public_bins import MOST_CELLS, SMOOTHINGS, public_bins
from tightdp.design.designs import Design
from tightdp.errors import (
    FloatArray,
    amount_within,
    check_choice,
    check_confidence,
    check_list,
    check_most,
    check_within,
    fail,
)
from tightdp.inference.class_tables import ClassTable, read_classes
from tightdp.inference.whole_counts import on_simplex
from tightdp.mechanisms.additive import AdditiveMechanism, lost_to_the_grid
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.simulated_previews import FAINT, PREVIEW_SEED, preview_of_errors
from tightdp.noise.law import NoiseLaw
from tightdp.preview import Preview
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource, source
from tightdp.release import Release
from tightdp.schema import Category, Interval, Schema
from tightdp.shaping.class_noise import BodyNoise, ClassNoise, LawNoise
from tightdp.shaping.coordinate_noise import FAMILIES, check_share
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise
from tightdp.shaping.reach import possible_counts

MOST_MATRIX = 1 << 13  # entries whose covariance is a matrix; of more it is their variances
NOISES = ("best", "hull", *FAMILIES, "gaussian")
_WORTH = 0.99
_TABLES, _REPLICATES = 64, 16  # of previews: made-up tables, and releases on each, at most
_FEW_ROWS = 4_096  # of a made-up table


class CellCounts(Reading):
    """Releases the counts of the cells of all columns, and reads consistent counts off them.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, of which it is a release. Counts that
    are not negative and have the right sum are computed from it.

    Parameters
    ----------
    schema : Schema
    bins : int, list of edges, or "auto"
        Of the numeric columns; "auto" chooses from public facts, see
        :func:`~tightdp.data.public_bins.public_bins`.
    columns : sequence of str, optional
        By default all columns of the schema.
    epsilon : float, Fraction or Decimal
    smoothing : {"none", "linear"}
        For which density the number of bins is chosen.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 1)}, rows=100)
    >>> cells = CellCounts(schema, 4, epsilon=1)
    >>> found = cells.answer(cells.release({"x": np.linspace(0, 1, 100)}, rng=1))
    >>> float(found.value.sum().round(6)), bool((found.value >= 0).all())
    (100.0, True)
    """

    statistic: JointHistogram

    why = (
        "A record is in one cell, and can only enter one, leave one, or go from one to "
        "another. The noise of all counts has the shape of the hull of these moves, so it "
        "does not grow with the number of cells as a share of the budget for each would."
    )

    picture = "bars"

    def __init__(
        self,
        schema: Schema,
        bins: object = "auto",
        *,
        columns: Sequence[str] | None = None,
        epsilon: Number,
        smoothing: str = SMOOTHINGS[0],
    ) -> None:
        spent = check_epsilon(epsilon)
        check_choice("smoothing", smoothing, SMOOTHINGS)
        names = list(schema) if columns is None else check_list("columns", columns)
        self._automatic = isinstance(bins, str)
        self.schema, self.statistic = schema, public_cells(schema, names, bins, spent, smoothing)
        self.counts = AdditiveMechanism(self.statistic, noise="hull", epsilon=spent)
        self._take_price()
        self.names = self.statistic.names

    @property
    def source(self) -> AdditiveMechanism:
        return self.counts

    def settled_options(self) -> dict[str, Any]:
        inner = [edges for edges in self.statistic.edges if edges is not None]
        return {"bins": len(inner[0]) - 1} if self._automatic and inner else {}

    def preview(self, confidence: float = 0.95) -> Preview:
        """The noise of the counts, before they are made consistent."""
        return self.counts.preview(confidence)

    def consistent(self, release: Release) -> FloatArray:
        """Counts that are not negative and have the right sum, nearest to the noisy ones."""
        return consistent(release.value, self.schema).reshape(self.statistic.shape)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Consistent counts; the intervals are those of the noise."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        half = self.counts.preview(level).half_width
        value = self.consistent(release).ravel()
        return Answer(
            names=release.names,
            value=value,
            interval=possible_counts(release.value, half, self.schema.rows, value),
            confidence=level,
            release=release,
            about="counts are made consistent; intervals cover those without noise",
            covers="noise",
        )


def public_cells(
    schema: Schema, columns: Sequence[str], bins: object, epsilon: Number, smoothing: str
) -> JointHistogram:
    """The cells of some columns, their number chosen from public facts where asked for."""
    if isinstance(bins, str):
        check_choice("bins", bins, ["auto"])
        rules = [schema[name] for name in columns]
        numeric = [rule for rule in rules if isinstance(rule, Interval)]
        levels = math.prod(len(rule.levels) for rule in rules if isinstance(rule, Category))
        bins = 2  # nobody asks where all are categories
        if numeric:
            bins = public_bins(
                schema.rows,
                epsilon,
                len(numeric),
                smoothing=smoothing,
                neighbors=schema.neighbors,
                levels=levels,
                rows_per_person=schema.rows_per_person,
            )
    cells = JointHistogram(schema, columns, bins)
    check_most("bins", len(cells), MOST_CELLS, "cells", "take fewer bins")
    return cells


def consistent(values: FloatArray, schema: Schema) -> FloatArray:
    """Non-negative counts with the right sum, nearest to noisy ones; public facts only."""
    total = float(schema.rows)
    if schema.neighbors is Neighbors.ADD_REMOVE:
        total = float(np.clip(values.sum(), 1.0, total))
    return on_simplex(values, total)


class ClassMechanism(AdditiveMechanism):
    r"""Releases :math:`t(X) + z`: counts, sums and squares within classes plus integer noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows; delta is 0 for ``noise="hull"``.
    Needs: [P1] t(X) is the exact integer vector of quantised rows of
    :class:`~tightdp.data.class_moments.GroupMoments`; [P2] groups, levels and bounds are public;
    [P3] the noise is private for the changes of t(X):
    :class:`~tightdp.shaping.class_noise.BodyNoise`,
    :class:`~tightdp.shaping.class_noise.LawNoise` and
    :class:`~tightdp.shaping.gaussian_class_noise.GaussianClassNoise` prove it.
    Proof: a quantised row is a row of the domain, so neighbours move t(X) as the Lemma of
    GroupMoments says [P1, P2], and the noise was made for such moves [P3].
    Numerics: ``exact``.
    Order of events: as in :class:`~tightdp.AdditiveMechanism`.

    Parameters
    ----------
    moments : GroupMoments
        Also :class:`~tightdp.data.class_moments.ClassMoments`, whose groups are classes.
    noise : "best", "hull", family of laws, NoiseLaw or Design
        The shape of one record ("best": or the staircase, if it has less variance); or one of
        "laplace", "staircase", "tulap", "truncated-laplace",
        "gaussian" and "designed", for which the budget is shared among the entries that a record
        moves; or a law or design of your own for every entry, whose unit is its sensitivity.
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        For laws. Those that spend none themselves spend it on composition.
    count_share : float or "auto"
        The part of the budget for the counts of classes, in (0, 1), for families other than
        "gaussian". "auto" is :func:`~tightdp.shaping.class_noise.best_count_share`.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = Schema({"x": Interval(0, 1), "y": Category([0, 1], other=0)}, rows=100)
    >>> moments = ClassMoments(facts, ["x"], "y")
    >>> ClassMechanism(moments, epsilon=1.0).preview().std[:3].round(1)
    array([5. , 4.3, 4.9])
    >>> ClassMechanism(moments, noise="laplace", epsilon=1.0).preview().std[:3].round(1)
    array([7.6, 9. , 9. ])
    """

    def __init__(
        self,
        moments: GroupMoments,
        *,
        noise: object = "hull",
        epsilon: Number,
        delta: Number = 0,
        count_share: Number | str = "auto",
    ) -> None:
        budget = check_epsilon(epsilon), check_share(delta)
        share = check_count_share(count_share)
        choice: ClassNoise
        if isinstance(noise, (NoiseLaw, Design)):
            choice = LawNoise(moments, noise, *budget, share)
        elif check_choice("noise", noise, NOISES) in ("best", "hull"):
            if budget[1]:
                fail(
                    f"`delta` must be 0 for noise={noise!r}, which spends none. Leave it out, or "
                    "choose noise='designed', 'truncated-laplace', 'tulap' or 'gaussian'."
                )
            choice = BodyNoise(moments, budget[0])
            if noise == "best":
                choice = _less(choice, LawNoise(moments, "staircase", *budget, share))
        elif noise == "gaussian":
            choice = GaussianClassNoise(moments, *budget)
        else:
            choice = LawNoise(moments, noise, *budget, share)
        self._adopt(moments, choice)
        self._of_group = choice

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Of many entries the variances alone: classes are independent, and all alike."""
        noise = self._of_group
        few = len(self.statistic) <= MOST_MATRIX
        half = noise.entry_reach(confidence) + lost_to_the_grid(self.statistic, self.bits)
        return noise.covariance() if few else noise.variances(), half

    def group_covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled entries of one group."""
        return self._of_group.block()

    def form_reach(self, forms: FloatArray, miss: float) -> FloatArray:
        """Half-widths of linear forms of the scaled entries of one group, one by one."""
        return self._of_group.form_reach(forms, miss)


def _less(hull: ClassNoise, laws: ClassNoise) -> ClassNoise:
    """The noise with the least variance; laws must gain a percent to be taken."""
    variances = [float(np.trace(noise.block())) for noise in (hull, laws)]
    return laws if variances[1] < _WORTH * variances[0] else hull


def check_count_share(share: Number | str) -> Fraction | None:
    """A share in (0, 1), exactly, or None for "auto"."""
    if isinstance(share, str):
        check_choice("count_share", share, ["auto"])
        return None
    return amount_within("count_share", share, "(0, 1)", "or leave it at 'auto'")


class ClassTables(Reading):
    """Releases moments within classes, and reads shares, means and tables of levels off them.

    **Privacy.** As for :class:`ClassMechanism`, whose release it is.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
        A category: the classes.
    noise, epsilon, delta, count_share :
        As for :class:`ClassMechanism`.
    alpha : float
        Pseudo-rows: see :func:`~tightdp.inference.class_tables.read_classes`.
    var_smoothing : float
        The least variance within a class, of columns scaled to [-1, 1].

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = Schema({"x": Interval(0, 1), "y": Category(["n", "p"], other="n")}, rows=100)
    >>> tables = ClassTables(facts, ["x"], "y", epsilon=1.0)
    >>> table = {"x": [0.5] * 100, "y": ["n", "p"] * 50}
    >>> tables.answer(tables.release(table, rng=1)).names[:3]
    ('P(y=n)', 'P(y=p)', 'mean of x | y=n')
    """

    why = (
        "A record is in one class, and moves the counts and sums of that class only, so more "
        "classes cost nothing more. By default the noise of a class has the shape of what one "
        "record can change there."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        noise: object = "hull",
        epsilon: Number,
        delta: Number = 0,
        count_share: Number | str = "auto",
        alpha: Number = 1.0,
        var_smoothing: Number = 1e-3,
    ) -> None:
        self.schema, self.target = schema, target
        self.alpha = check_within("alpha", alpha, "[1e-10, inf)")
        self.var_smoothing = check_within("var_smoothing", var_smoothing, "[1e-12, inf)")
        self.statistic = ClassMoments(schema, features, target)
        options: dict[str, Any] = {
            "noise": noise,
            "epsilon": epsilon,
            "delta": delta,
            "count_share": count_share,
        }
        self.moments = ClassMechanism(self.statistic, **options)
        self._take_price()

    @property
    def source(self) -> ClassMechanism:
        return self.moments

    def tables(self, release: Release) -> ClassTable:
        """What a release says about the classes, in scaled units."""
        return self._tables(release.value, release.covariance)

    def _tables(self, values: FloatArray, covariance: FloatArray) -> ClassTable:
        """The same for the values of several releases, one along the last axis."""
        smoothing = self.var_smoothing
        return read_classes(
            self.statistic, values, covariance, alpha=self.alpha, smoothing=smoothing
        )

    def in_user_units(self, table: ClassTable) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the numeric columns within classes."""
        numbers = [self.schema[name] for name in self.statistic.layout.numbers]
        intervals = [column for column in numbers if isinstance(column, Interval)]
        half = np.array([column.half for column in intervals])
        middle = np.array([column.middle for column in intervals])
        return middle + half * table.means, half**2 * table.variances

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Shares of the classes, and what is known of the columns within each."""
        names, values = self._entries(), self._values(self.tables(release))
        return Answer(
            names=names,
            value=values,
            interval=np.full((len(values), 2), np.nan),
            confidence=release.confidence if confidence is None else check_confidence(confidence),
            release=release,
            about="computed from noisy counts and sums; intervals are not known",
            unknown=names,
        )

    def _entries(self) -> tuple[str, ...]:
        """What is read off a release, in the order of :meth:`_values`."""
        names = [f"P({self.target}={label})" for label in self.statistic.classes]
        for label in self.statistic.classes:
            given = f"| {self.target}={label}"
            for column in self.statistic.layout.numbers:
                names += [f"mean of {column} {given}", f"std of {column} {given}"]
            for name in (*self.statistic.layout.pairs, *dict(self.statistic.layout.tables)):
                category = self.schema[name]
                assert isinstance(category, Category)
                names += [f"P({name}={level} {given})" for level in category.levels]
        return tuple(names)

    def _values(self, table: ClassTable) -> FloatArray:
        """The entries of an answer along the last axis."""
        means, variances = self.in_user_units(table)
        columns = np.stack([means, np.sqrt(variances)], axis=-1)
        within = columns.reshape(*columns.shape[:-2], -1)
        classes = np.concatenate([within, *table.levels.values()], axis=-1)
        return np.concatenate([table.prior, classes.reshape(*classes.shape[:-2], -1)], axis=-1)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Simulated on the sums of made-up rows: what is read off them with noise and without."""
        level, bits, mechanism = check_confidence(confidence), source(PREVIEW_SEED), self.moments
        exact, each = self._made_up_sums(bits), self._replicates()
        noise = np.asarray(mechanism.noise.sample(_TABLES * each, rng=bits), dtype=float)
        noise = noise.reshape(each, *exact.shape) / float(mechanism.resolution)
        truth = self._values(self._tables(exact, self.at(FAINT).moments.scaled_covariance()))
        doubt = mechanism.scaled_covariance()
        errors = [self._values(self._tables(exact + drawn, doubt)) - truth for drawn in noise]
        return preview_of_errors(self, self._entries(), np.concatenate(errors), level)

    def _replicates(self) -> int:
        """Releases on each made-up table: fewer where a draw takes long."""
        if not isinstance(self.moments.noise, BodyNoise):
            return _REPLICATES
        columns = len(self.statistic.layout.numbers)  # two of them more take twice as long
        return max(1, _REPLICATES >> max(0, (columns - 4) // 2))

    def _made_up_sums(self, rng: RandomSource) -> FloatArray:
        """The scaled statistic of several tables of made-up rows."""
        moments, bits, rows = self.statistic, self.moments.bits, self.schema.rows
        few = min(rows, _FEW_ROWS, moments.integer_sum(bits).block_rows())
        blocks = (made_up_block(moments.reading, moments.columns, few, rng) for _ in range(_TABLES))
        sums = np.array([moments.contributions(block, bits) for block in blocks])
        sums = sums / float(moments.resolution(bits))
        # of more rows: sums grow in proportion, their differences like the root
        centre, times = sums.mean(axis=0), rows / few
        return np.asarray(times * centre + math.sqrt(times) * (sums - centre))
