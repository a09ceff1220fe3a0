"""Tests on noisy tables: goodness of fit, independence, distributions and ranks of groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.histograms import JointHistogram, group_cells, group_items
from tightdp.errors import FloatArray, check_array, check_choice, check_most, check_real, fail
from tightdp.inference.monte_carlo_tests import Draws
from tightdp.inference.noisy_binomial import ALTERNATIVES
from tightdp.inference.table_nulls import (
    CHI_SQUARE,
    KOLMOGOROV,
    RANKS,
    TREND,
    cell_counts,
    drifted,
    fit_statistic,
    margin_points,
    table_statistic,
    tilted,
)
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.hypothesis_tests import (
    MOST_TESTED,
    HypothesisTest,
    check_sample,
    check_side,
)
from tightdp.randomness import SeededSource
from tightdp.schema import Interval, Schema, check_schema

FITS = (CHI_SQUARE, KOLMOGOROV)
PATTERNS = ("any", "trend")
_COHEN = "drift of the shares along the order of the cells (Cohen's w)"


class TableTest(HypothesisTest):
    """Base: a test that reads noisy counts in the cells of a public table."""

    effect = _COHEN
    look: str

    def _count(
        self, cells: JointHistogram, what: str, noise: object, epsilon: Number, delta: Number
    ) -> None:
        self.schema = check_sample(cells.schema, what)
        check_most("bins", len(cells), MOST_TESTED, "cells", "take fewer bins or levels")
        self.statistic = cells
        self.counts = AdditiveMechanism(cells, noise=noise, epsilon=epsilon, delta=delta)
        self._take_price()
        self.names = cells.names

    @property
    def source(self) -> AdditiveMechanism:
        return self.counts

    @property
    def noise_variance(self) -> float:
        """Of one count: all have the same."""
        return float(np.diag(self.noise_covariance).mean())


class GoodnessOfFit(TableTest):
    r"""Tests whether a population has stated shares, from noisy counts of n of its members.

    Released are counts in public cells. The statistic is
    :math:`\sum_j (z_j - np_j)^2 / (np_j + s^2)`, s^2 the variance of the noise ("chi-square"), or
    the largest distance of the two distribution functions at the edges of the
    cells ("kolmogorov"). Its null law is simulated, multinomial counts plus noise from the sampler
    of the release: there are no nuisance parameters, and the type I error is at most alpha for
    every n, every epsilon and all shares.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, whose noisy counts are all that is
    released.

    Parameters
    ----------
    schema : Schema
    column : str
    null : list of shares, optional
        One for each level or bin, with sum 1; by default even ones.
    bins : int or sequence of float, for a numeric column
    statistic : {"chi-square", "kolmogorov"}
        The second is for cells that have an order.
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    References
    ----------
    Gaboardi, Lim, Rogers and Vadhan (2016), Differentially private chi-squared hypothesis testing,
    Algorithm 1; Kifer and Rogers (2017), A new class of private chi-square tests.

    Examples
    --------
    >>> from tightdp import Category
    >>> schema = Schema({"die": Category(list("123456"), other="6")}, rows=1200)
    >>> fair = GoodnessOfFit(schema, "die", epsilon=1)
    >>> release = fair.release({"die": [*"112233456666"] * 100}, rng=1)
    >>> release.names[-1], bool(release["p-value"] < 0.001)
    ('p-value', True)
    >>> fair.power(0.12) > 0.8
    True
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        *,
        null: Sequence[Number] | None = None,
        bins: object = None,
        statistic: str = CHI_SQUARE,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        self.look = check_choice("statistic", statistic, FITS)
        cells = group_cells(schema, [_divided(schema, column, bins)])
        self.null = _shares("null", null, len(cells))
        self._count(cells, "goodness_of_fit", noise, epsilon, delta)

    def test_statistic(self, entries: FloatArray, rows: int) -> FloatArray:
        return fit_statistic(entries, rows, self.null, self.noise_variance, self.look)

    def null_points(self, entries: FloatArray, bits: SeededSource) -> Sequence[Draws]:
        return [partial(cell_counts, self.schema.rows, self.null)]

    @property
    def largest(self) -> float:  # type: ignore[override]
        return _largest(lambda effect: drifted(self.null, effect))

    def facing(self, effect: Any, rows: int) -> tuple[Draws, Draws]:
        """An effect is a list of shares, or Cohen's w of a drift along the cells."""
        if np.ndim(effect) == 0:
            shares = _possible(drifted(self.null, check_real("effect", effect)))
        else:
            shares = _shares("effect", effect, len(self.null))
        return partial(cell_counts, rows, self.null), partial(cell_counts, rows, shares)


class IndependenceTest(TableTest):
    r"""Tests whether two columns of a population are independent, from a noisy cross table.

    The statistic is that of Pearson, with the variance of the noise added to expected counts:
    :math:`\sum_{ij} (z_{ij} - z_{i\cdot}z_{\cdot j}/n)^2 / (nr_ic_j + s^2)`. Its null law is
    simulated with the noise of the release, at margins of a confidence set, of which the worst
    counts (Berger and Boos, 1994). The type I error is at most alpha up to the points of that set
    that are not tried; `benchmarks/results/tests_of_hypotheses.md` has it on sparse tables.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, whose noisy counts are all that is
    released.

    Parameters
    ----------
    schema : Schema
    by : list of two: names of categories, or pairs (number, bins)
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    References
    ----------
    Gaboardi, Lim, Rogers and Vadhan (2016); Kifer and Rogers (2017); Berger and Boos (1994), P
    values maximized over a confidence set for the nuisance parameter.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"sex": Category(["f", "m"], other="f"), "vote": Category([*"abc"], other="c")}
    >>> test = IndependenceTest(Schema(facts, rows=600), ["sex", "vote"], epsilon=1)
    >>> table = {"sex": ["f", "m"] * 300, "vote": [*"aababc"] * 100}
    >>> release = test.release(table, rng=1)
    >>> bool(0 < release["p-value"] <= 1)
    True
    """

    look = CHI_SQUARE

    def __init__(
        self,
        schema: Schema,
        by: Any,
        *,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        cells = group_cells(schema, by)
        if len(cells.shape) != 2:
            fail("`by` must be a list of two columns: numbers come with their bins.")
        self.shape = _both_sides(cells.shape[0], cells.shape[1])
        self._count(cells, "independence_test", noise, epsilon, delta)

    def _compare(
        self,
        schema: Schema,
        column: str,
        by: Any,
        bins: object,
        what: str,
        **paid: Any,
    ) -> None:
        """The table of a test that asks if a column has one distribution in all groups."""
        inner = _divided(schema, column, bins)
        cells = group_cells(schema, [*group_items(by), inner])
        self.shape = _both_sides(len(cells) // cells.shape[-1], cells.shape[-1])
        self._count(cells, what, **paid)

    shape: tuple[int, int]

    def test_statistic(self, entries: FloatArray, rows: int) -> FloatArray:
        how = self.noise_variance, self.look, self.alternative
        return table_statistic(entries, rows, self.shape, *how)

    def null_points(self, entries: FloatArray, bits: SeededSource) -> Sequence[Draws]:
        rows = self.schema.rows
        found = margin_points(entries, self.shape, rows, self.noise_covariance, bits)
        return [partial(cell_counts, rows, shares) for shares in found]

    def _even(self) -> tuple[FloatArray, FloatArray]:
        r, c = (np.full(size, 1 / size) for size in self.shape)
        return r, c

    @property
    def largest(self) -> float:  # type: ignore[override]
        return _largest(lambda effect: tilted(*self._even(), effect))

    def facing(self, effect: Any, rows: int) -> tuple[Draws, Draws]:
        """An effect is a table of shares, or Cohen's w of a drift in an even table."""
        if np.ndim(effect) == 0:
            shares = _possible(tilted(*self._even(), check_real("effect", effect)))
        else:
            flat = _shares("effect", np.ravel(np.asarray(effect, dtype=object)), len(self.names))
            shares = flat.reshape(self.shape)
        null = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        return partial(cell_counts, rows, null.ravel()), partial(cell_counts, rows, shares.ravel())


class KolmogorovTest(IndependenceTest):
    """Tests whether groups have one distribution, by distances of distribution functions.

    The column is divided into public bins, and groups times bins are counted with noise. Looked at
    is the largest distance of the distribution function of a group from that of all rows at an
    edge, in standard errors of the group's largest. With two groups that is the test of Kolmogorov
    and Smirnov. Of one sample and a stated law: :class:`GoodnessOfFit`.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`. Type I error: as for
    :class:`IndependenceTest`, whose null hypothesis this is.

    Parameters
    ----------
    schema : Schema
    column : str
        A number, or a category whose levels are in order.
    by : str, or list of names and of pairs (name, bins)
        The groups.
    bins : int or sequence of float, for a number
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> test = KolmogorovTest(Schema(facts, rows=400), "pay", "sex", bins=8, epsilon=1)
    >>> release = test.release({"pay": [20, 80] * 200, "sex": ["f", "m"] * 200}, rng=1)
    >>> bool(release["p-value"] < 0.01)
    True
    """

    look = KOLMOGOROV

    def __init__(
        self,
        schema: Schema,
        column: str,
        by: Any,
        *,
        bins: object = None,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        paid = {"noise": noise, "epsilon": epsilon, "delta": delta}
        self._compare(schema, column, by, bins, "kolmogorov_test", **paid)


class RankTest(IndependenceTest):
    """Tests whether a column tends to be larger in some groups, by ranks within public bins.

    Wilcoxon's test (two groups), that of Kruskal and Wallis (more), or of a trend over groups in
    their order: rows of one bin share their middle rank, which noisy counts tell. No rank of a
    single row is looked at: in a table of groups times bins a row moves one or two counts by one.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`. Type I error: as for
    :class:`IndependenceTest`, whose null hypothesis this is.

    Parameters
    ----------
    schema : Schema
    column : str
        A number, or a category whose levels are in order.
    by : str, or list of names and of pairs (name, bins)
        The groups.
    bins : int or sequence of float, for a number
    pattern : {"any", "trend"}
        Any difference of groups, or one that grows with their order.
    alternative : {"two-sided", "greater", "less"}
        "greater": larger in later groups; for two groups, or a trend.
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> test = RankTest(Schema(facts, rows=400), "pay", "sex", alternative="greater", epsilon=1)
    >>> release = test.release({"pay": [40, 60] * 200, "sex": ["f", "m"] * 200}, rng=1)
    >>> bool(release["p-value"] < 0.01)
    True
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        by: Any,
        *,
        bins: object = None,
        pattern: str = PATTERNS[0],
        alternative: str = ALTERNATIVES[0],
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        trend = check_choice("pattern", pattern, PATTERNS) == "trend"
        self.alternative = check_choice("alternative", alternative, ALTERNATIVES)
        paid = {"noise": noise, "epsilon": epsilon, "delta": delta}
        self._compare(schema, column, by, bins, "rank_test", **paid)
        line = trend or self.shape[0] == 2  # two groups in their order are a trend
        check_side(self.alternative, line)
        self.look = TREND if line else RANKS


def _divided(schema: Schema, column: str, bins: object) -> Any:
    """The cells of a column: its levels, or ten bins where none are stated."""
    if isinstance(check_schema(schema)[check_choice("column", column, schema.columns)], Interval):
        return column, 10 if bins is None else bins
    return column if bins is None else (column, bins)


def _both_sides(rows: int, columns: int) -> tuple[int, int]:
    if min(rows, columns) < 2:
        fail("`by` must make at least two groups, and the column at least two cells.")
    return rows, columns


def _shares(name: str, given: object, cells: int) -> FloatArray:
    """Shares of the cells, of sum 1; even ones where none are stated."""
    if given is None:
        return np.full(cells, 1 / cells)
    if isinstance(given, (list, tuple, np.ndarray)):
        given = [check_real(name, share) for share in given]
    shares = check_array(name, given, 1)
    if len(shares) != cells or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
        fail(f"`{name}` must be {cells} shares that are not negative and sum to 1.")
    return np.asarray(shares / shares.sum())


def _possible(shares: FloatArray) -> FloatArray:
    if (shares < -1e-9).any():
        fail("`effect` must be so small that no share is negative.")
    clipped = np.clip(shares, 0.0, None)
    return np.asarray(clipped / clipped.sum())


def _largest(shares: Any) -> float:
    """The largest w for which a drift leaves no share negative, on both sides."""
    base, unit = shares(0.0), shares(1.0) - shares(0.0)
    fall = np.abs(unit).ravel() > 0
    return float(np.min(base.ravel()[fall] / np.abs(unit).ravel()[fall], initial=1.0))
