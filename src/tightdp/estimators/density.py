"""A private density: exact noisy counts, made consistent, smoothed, and drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import TableLike
from tightdp.errors import FloatArray, check_count, fail
from tightdp.estimators.cell_laws import AxisLaw, Flat, Levels, Linear
from tightdp.estimators.inputs import Column, Problem, fitted_cells
from tightdp.estimators.private_estimator import PRINTED, Lacking, Untargeted, parameter
from tightdp.mechanisms.counts import CellCounts
from tightdp.randomness import RandomLike, source
from tightdp.release import Release
from tightdp.schema import Category, Interval

_ENTRIES = 1 << 20  # of a table of points by cells, at a time


class Density(Untargeted[CellCounts]):
    r"""The joint density of the columns, from a private histogram with public bins.

    ``fit`` releases the counts of all cells with exact noise, once. Everything else is
    post-processing of that release and costs nothing: counts are made consistent, spread over
    their cells, evaluated, integrated and sampled.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default), by the proof of :class:`~tightdp.AdditiveMechanism` for the hull of a histogram's
    movements. Replace-one: a row leaves one cell and enters another, so the hull is
    :math:`\{\sum u = 0, \lVert u \rVert_1 \le 2\}` and the released counts sum to n. Their
    variance is at most :math:`\frac{4(m-1)(2m-1)}{m(m+1)\epsilon^2}` per cell, less than the
    :math:`8/\epsilon^2` of Laplace noise. Add-remove: independent discrete Laplace noise,
    :math:`2/\epsilon^2`. Bins, bounds and levels must be public facts. Numerics: ``exact``.

    **Erratum.** A histogram of m cells does not need the scale :math:`m/\epsilon` (E33), and under
    replace-one the :math:`\ell_1` ball is not the best shape (E18).

    **Consistency.** Noisy counts can be negative. ``counts_`` is the nearest vector of
    non-negative numbers with the right sum: n under replace-one; under add-remove the sum of the
    noisy counts, within 1 and the public bound. ``release_`` keeps what was released.

    References: Awan and Slavković (2021), Wasserman and Zhou (2010), Scott (1979), Scott (1985).

    Parameters
    ----------
    bins : "auto", int, or one entry per column
        Numbers of equal bins, or edges. "auto" takes the number with the least expected error for
        the public n and epsilon (:mod:`tightdp.data.public_bins`). At most 1024 cells in all.
    smoothing : {"linear", "none"}
        "linear": linear between the centres of cells and on to the bounds, scaled to integrate to
        one. "none": constant in every cell.

    Attributes
    ----------
    release_ : Release
        The noisy counts, with standard errors and intervals.
    counts_ : array
        Consistent counts, one axis per column.
    probabilities_ : array
        The same, as shares.
    edges_ : list
        Edges of every column; None for a category.
    bins_ : tuple of int

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> model = Density(epsilon=1.0, bounds=(0, 1)).fit(rng.beta(2, 5, (5000, 1)))
    >>> model.bins_, float(model.counts_.sum().round(6))
    ((15,), 5000.0)
    >>> bool(abs(model.cdf([[0.264]])[0] - 0.5) < 0.05)
    True
    >>> model.sample(3).shape
    (3, 1)
    """

    bins: str | int | Sequence[Any] = parameter(default="auto", kw_only=False)
    smoothing: str = parameter(default="linear", kw_only=False)

    conf_int = Lacking(
        "a density between the edges of cells is a guess. release_ has intervals for the counts of "
        "the cells."
    )
    summary = Lacking(PRINTED)

    _leading = ("epsilon", "bounds", "bins", "smoothing")

    def _mechanism(self, problem: Problem) -> CellCounts:
        return CellCounts(problem.schema, **self._options(CellCounts))

    def _read(self, mechanism: CellCounts, release: Release) -> Release:
        cells = mechanism.statistic
        self.counts_ = mechanism.consistent(release)
        self.probabilities_ = self.counts_ / self.counts_.sum()
        self.edges_, self.bins_ = list(cells.edges), cells.shape
        self._laws = [
            _axis_law(mechanism.schema[name], edges, self.smoothing)
            for name, edges in zip(cells.columns, cells.edges, strict=True)
        ]
        masses = self.probabilities_
        for axis, law in enumerate(self._laws):
            masses = law.masses(masses, axis)
        self._masses = masses / masses.sum()
        return release

    # --- the density --------------------------------------------------------------------------

    def score_samples(self, X: TableLike) -> FloatArray:
        """Log density at each row; -inf outside the bounds and where all counts near are 0.

        Categories are counted: the density is per unit of the numeric columns and level. Missing
        cells follow the public rule of the schema.
        """
        with np.errstate(divide="ignore"):
            return np.log(self._mixed(X, cumulated=False))

    def score(self, X: TableLike, y: object = None) -> float:
        """The total log density of the rows; computed from private rows it is not private."""
        return float(self.score_samples(X).sum())

    def cdf(self, X: TableLike) -> FloatArray:
        """The probability of a row with no entry above that of ``X``, for numeric columns."""
        check_is_fitted(self, "release_")
        if any(edges is None for edges in self.edges_):
            fail("`cdf` needs numeric columns: levels of a category have no order.")
        return self._mixed(X, cumulated=True)

    def sample(self, n_samples: int = 1, random_state: RandomLike = None) -> NDArray[Any]:
        """Rows drawn from the density: post-processing, as many as you like at no cost.

        With categories the rows are objects, with levels in their columns.
        """
        check_is_fitted(self, "release_")
        count, rng = check_count("n_samples", n_samples), source(random_state)
        parts = rng.categorical(self._masses.ravel(), count)
        places = np.unravel_index(parts, self._masses.shape)
        mixed = any(edges is None for edges in self.edges_)
        rows = np.empty((count, len(places)), dtype=object if mixed else np.float64)
        for j, (law, place) in enumerate(zip(self._laws, places, strict=True)):
            rows[:, j] = law.draw(np.asarray(place, dtype=np.int64), rng)
        return rows

    def _mixed(self, X: TableLike, *, cumulated: bool) -> FloatArray:
        """The mixture of all parts at every row of X."""
        rows, masses = self._points(X), self._masses
        out = np.empty(len(rows))
        step = max(1, _ENTRIES // masses.size)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            table = np.broadcast_to(masses.ravel(), (len(part), masses.size))
            for j, law in enumerate(self._laws):
                values = law.cdf(part[:, j]) if cumulated else law.density(part[:, j])
                rest = table.reshape(len(part), values.shape[1], -1)
                table = np.einsum("na,nab->nb", values, rest)
            out[start : start + step] = table[:, 0]
        return np.clip(out, 0.0, 1.0) if cumulated else out

    def _points(self, X: TableLike) -> FloatArray:
        """Rows in user units, levels as their codes; missing cells replaced, nothing clamped."""
        check_is_fitted(self, "release_")
        wide = {name: _widened(self.schema_[name]) for name in self.schema_}
        out = fitted_cells(self, X, wide)
        for j, column in enumerate(wide.values()):
            if isinstance(column, Interval):
                out[:, j] = column.middle + column.half * out[:, j]
        return out


def _axis_law(column: Column, edges: FloatArray | None, smoothing: str) -> AxisLaw:
    if edges is None:
        assert isinstance(column, Category)
        return Levels(column.levels)
    return Linear(edges) if smoothing == "linear" else Flat(edges)


def _widened(column: Column) -> Column:
    """The same rule for a wider interval, on which points beyond the bounds stay beyond them."""
    if isinstance(column, Category) or column.clock is not None:
        return column
    half = column.half
    return replace(column, low=column.low - half, high=column.high + half)
