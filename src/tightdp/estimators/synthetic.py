"""A private synthetic sample: rows that stand for the table, for a stated price."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import TableLike
from tightdp.data.histograms import JointHistogram
from tightdp.data.public_bins import SMOOTHINGS
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    check_choice,
    check_count,
    fail,
    shown,
)
from tightdp.estimators.density import Density
from tightdp.estimators.inputs import Problem
from tightdp.estimators.private_estimator import PRINTED, Lacking, Untargeted, parameter
from tightdp.mechanisms.counts import CellCounts
from tightdp.mechanisms.kolmogorov import (
    MOST_WORK,
    JointKolmogorov,
    KolmogorovSample,
    listed_size,
    public_size,
)
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema

METHODS = ("histogram", "kolmogorov")

_MOST_CELLS = 20_000_000  # of a sample: half a gigabyte while it is drawn
_FINEST = 1000  # cells of the grid that is taken unasked


Drawn = CellCounts | KolmogorovSample | JointKolmogorov


class SyntheticSample(Untargeted[Drawn]):
    r"""Rows drawn so that they are distributed like the table's, and private.

    "histogram" draws independent rows from a private :class:`~tightdp.Density`: for any number of
    rows and for several columns, categories included.

    "kolmogorov" draws the whole sample at once by the exponential mechanism with the
    Kolmogorov-Smirnov distance, :math:`P(z) \propto \exp(-\frac{\epsilon n}{2} \sup_t \lvert F_X -
    F_z \rvert)`, exactly: no Markov chain (:class:`~tightdp.KolmogorovSample`). Its points are not
    independent but balanced: their distribution function is closer to the table's than that of as
    many independent draws. For one numeric column, up to a million rows, 10,000 points and 1,000
    cells in seconds, whatever the table.

    **In several dimensions** the distance is a maximum over orthants. In one dimension they form
    a chain, a sample is a path, and paths in a band are counted by a recursion over the chain. In
    two the orthants are only partly ordered, a state of such a recursion would be a whole frontier
    of the grid, and their number grows exponentially. So "kolmogorov" for several columns lists
    all samples and reaches as far as 20,000 of them: 8 points on a 3 x 3 grid. Beyond it is
    refused; use "histogram".

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default), by the proofs of :class:`~tightdp.AdditiveMechanism` and
    :class:`~tightdp.KolmogorovSample`. Bounds, levels, bins and size must be public facts. How
    points lie within their cells is drawn after the release and tells nothing. Numerics:
    ``exact``. The rows stand for nobody, but they are about the people in the table: what they say
    of a group is meant to be true of it.

    **Erratum.** The paper asks for "big enough" samples; k must stay small against
    :math:`\epsilon n`, see E35. The rate :math:`n^{-1/3}` that it proves for this mechanism is an
    upper bound, and so is the slower rate of histograms: both are much faster in practice.

    References: Wasserman and Zhou (2010).

    Parameters
    ----------
    method : {"histogram", "kolmogorov"}
    size : int, optional
        Number of rows. By default the public number of rows for "histogram", and
        about :math:`(\epsilon n)^{1/2}`, at most 10,000, for "kolmogorov", see
        :class:`~tightdp.KolmogorovSample`.
    bins : "auto", int, or one entry per column
        Public cells. "auto": as for :class:`~tightdp.Density`; for "kolmogorov" about as many cells
        as points, at most 1,000, and 3 (from three columns on, 2) on each of several axes.
    smoothing : {"linear", "none"}
        For "histogram".
    most_work : int
        For one column and "kolmogorov": see :class:`~tightdp.KolmogorovSample`.

    Attributes
    ----------
    sample_ : array, shape (size, columns)
        In random order; objects where there are categories.
    release_ : Release
        What was paid for: counts of cells, or the place of the sample in the list.
    density_ : Density
        For "histogram".

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal([2.0, 7.0], 0.5, (2000, 2))
    >>> SyntheticSample(epsilon=1.0, bounds=(0, 10)).fit(X).sample_.shape
    (2000, 2)
    >>> drawn = SyntheticSample(1.0, (0, 10), method="kolmogorov").fit(X[:, :1]).sample_
    >>> drawn.shape, bool(abs(np.median(drawn) - 2) < 1)
    ((45, 1), True)
    """

    method: str = parameter(default="histogram", kw_only=False)
    size: int | None = parameter(default=None, kw_only=False)
    bins: str | int | Sequence[Any] = parameter(default="auto", kw_only=False)
    smoothing: str = "linear"
    most_work: int = MOST_WORK

    conf_int = Lacking(
        "one sample does not tell how far another would be from it. Release the number that is "
        "wanted (tdp.mean, tdp.histogram, LinearRegression), or use SyntheticTable.interval."
    )
    summary = Lacking(PRINTED)

    _leading = ("epsilon", "bounds", "method", "size", "bins")

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The error to expect of what is released, for "histogram" that of the counts of cells."""
        asked = copy.copy(self)  # a fitted model keeps the columns of its fit
        schema = asked._problem(X, y).schema
        self._check(schema)
        drawn = self.method != "histogram"
        return super().preview(X, y) if drawn else self._density(schema).preview(X)

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        self._check(problem.schema)
        if self.method == "histogram":
            return self._from_density(problem, key, rng)
        release = super()._fit(problem, key, rng)
        self.__dict__.pop("density_", None)  # of an earlier fit
        if isinstance(self.mechanism_, KolmogorovSample):
            rows = self.mechanism_.points(release, rng=rng)[:, None]
        else:
            assert isinstance(self.mechanism_, JointKolmogorov)
            counts = np.array(self.mechanism_.candidate(release), dtype=np.int64)
            rows = _within(self.mechanism_.scores.cells, counts, rng)
        self.sample_ = rows[rng.permutations(1, len(rows))[0]]
        return release

    def _mechanism(self, problem: Problem) -> Drawn:
        schema = problem.schema
        for name in schema:
            if not isinstance(schema[name], Interval):
                fail(
                    f"method='kolmogorov' needs numeric columns: {name!r} is a category, whose "
                    "levels have no order. Use method='histogram'."
                )
        return self._line(schema) if len(list(schema)) == 1 else self._grid(schema)

    def _read(self, mechanism: Drawn, release: Release) -> Release:
        return release

    def _check(self, schema: Schema) -> None:
        """Refuse what cannot be drawn, before it is paid for."""
        check_choice("method", self.method, METHODS)
        check_choice("smoothing", self.smoothing, SMOOTHINGS)
        if isinstance(self.bins, str):
            check_choice("bins", self.bins, ["auto"])
        size, columns = self.size, len(list(schema))
        if size is not None:
            check_count("size", size)
        elif self.method == "histogram":
            size = schema.rows  # a bound on the rows may be far above their number
        if size is not None and size * columns > _MOST_CELLS:
            fail(
                f"`size` must be at most {_MOST_CELLS // columns} for {columns} columns. Got "
                f"{shown(size)}: state a smaller `size`; `density_.sample` draws more for nothing."
            )

    def _from_density(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        density = self._density(problem.schema)
        density.release_ = density._fit(problem, key, rng)
        density.n_features_in_ = self.n_features_in_
        self.schema_, self.mechanism_, self.density_ = problem.schema, density.mechanism_, density
        size = problem.schema.rows if self.size is None else self.size
        self.sample_ = density.sample(size, random_state=rng)
        return density.release_

    def _density(self, schema: Schema) -> Density:
        return Density(**self._options(Density) | {"bounds": schema, "random_state": None})

    def _line(self, schema: Schema) -> KolmogorovSample:
        """One column: paths."""
        bins = self.bins
        if isinstance(bins, str):
            # two cells bear the largest sample
            most = public_size(schema, check_epsilon(self.epsilon), 2)
            bins = max(2, min(most if self.size is None else self.size, _FINEST))
        (name,) = schema
        return KolmogorovSample(
            schema, name, bins, epsilon=self.epsilon, size=self.size, most_work=self.most_work
        )

    def _grid(self, schema: Schema) -> JointKolmogorov:
        """Several columns: a list."""
        columns = list(schema)
        bins = (3 if len(columns) == 2 else 2) if isinstance(self.bins, str) else self.bins
        cells = JointHistogram(schema, columns, bins)
        size = self.size
        if size is None:
            most = public_size(schema, check_epsilon(self.epsilon), len(cells))
            size = listed_size(len(cells), most)
        if size == 0:
            fail(
                f"{len(cells)} cells of {len(columns)} columns are too many for "
                "method='kolmogorov': take fewer bins or columns, or method='histogram'.",
                InfeasibleSamplingError,
            )
        return JointKolmogorov(cells, size, epsilon=self.epsilon)

    def cdf(self, X: TableLike) -> FloatArray:
        """The share of the sample's rows with no entry above that of each row of ``X``."""
        check_is_fitted(self, "release_")
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.sample_.shape[1]:
            fail(f"`X` must have {self.sample_.shape[1]} columns.")
        if self.sample_.dtype == object:
            fail("`cdf` needs numeric columns: levels of a category have no order.")
        if points.shape[1] == 1:
            return np.searchsorted(np.sort(self.sample_[:, 0]), points[:, 0], side="right") / len(
                self.sample_
            )
        return np.array([(self.sample_ <= point).all(axis=1).mean() for point in points])


def _within(cells: JointHistogram, counts: NDArray[np.int64], rng: RandomSource) -> FloatArray:
    """Points spread evenly over their cells."""
    places = np.unravel_index(np.repeat(np.arange(len(counts)), counts), cells.shape)
    columns = []
    for edges, place in zip(cells.edges, places, strict=True):
        assert edges is not None
        columns.append(edges[place] + np.diff(edges)[place] * rng.uniform(len(place)))
    return np.column_stack(columns)
