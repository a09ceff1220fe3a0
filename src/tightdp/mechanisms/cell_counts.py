"""Counts of the cells of several columns, made consistent with each other and with public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.data.joint_histograms import JointHistogram
from tightdp.data.public_bins import MOST_CELLS, SMOOTHINGS, public_bins
from tightdp.errors import FloatArray, check_choice, check_confidence, check_list, fail
from tightdp.exact.rates import check_epsilon
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.reading import Reading
from tightdp.preview import Preview
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Category, Interval, Schema


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

    @property
    def picture(self) -> str:
        return "bars"

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
        value, most = self.consistent(release).ravel(), float(self.schema.rows)
        ends = np.clip([release.value - half, release.value + half], 0.0, most)
        # a consistent count may lie beyond them: they hold it, too
        low, high = np.minimum(ends[0], value), np.maximum(ends[1], value)
        return Answer(
            names=release.names,
            value=value,
            interval=np.column_stack([low, high]),
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
    if len(cells) > MOST_CELLS:
        fail(f"`bins` must make at most {MOST_CELLS} cells. Got {len(cells)}: take fewer bins.")
    return cells


def consistent(values: FloatArray, schema: Schema) -> FloatArray:
    """Non-negative counts with the right sum, nearest to noisy ones; public facts only."""
    total = float(schema.rows)
    if schema.neighbors is Neighbors.ADD_REMOVE:
        total = float(np.clip(values.sum(), 1.0, total))
    return on_simplex(values, total)


def on_simplex(values: FloatArray, total: float) -> FloatArray:
    r"""The nearest point of :math:`\{x \ge 0, \sum x = t\}`: a common amount off, cut at zero.

    The amount solves :math:`\sum \max(v_i - a, 0) = t`; by the conditions of Kuhn and Tucker that
    is the projection.

    >>> on_simplex(np.array([5.0, -1.0, 2.0]), 6.0)
    array([4.5, 0. , 1.5])
    """
    ordered = np.sort(values)[::-1]
    above = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    amount = above[np.flatnonzero(ordered > above)[-1]]
    out = np.maximum(values - amount, 0.0)
    return np.asarray(out * (total / out.sum()))
