"""Synthetic samples close to the table in the Kolmogorov-Smirnov distance, drawn exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.histograms import Histogram, JointHistogram
from tightdp.data.table import check_frame
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    Integers,
    check_confidence,
    check_count,
    fail,
)
from tightdp.exact.band_levels import BandLevels, most_steps
from tightdp.exact.band_paths import BandPaths, any_sample
from tightdp.mechanisms.exponential import ExponentialMechanism
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.preview import Preview, of_rows, spread
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.progress import standing_line
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release
from tightdp.schema import Interval, Schema

_WORK = 1 << 40  # terms of sums that the public facts may ask for: a minute or two
_LARGEST = 10_000  # sample that is taken unasked
_MOST = 1 << 18  # points whose factorials are multiplied in a fraction of a second
_SAMPLED_ROWS = "rows that fill their bounds evenly; on others errors are smaller or larger"
_SEED = 20_260_101  # of simulated samples for previews
_LONGEST = 1 << 62  # sizes beyond are no sizes
_CELLS = 10_000  # a release holds a matrix of so many rows
MOST_SAMPLES = 20_000
MOST_WORK = 1 << 43  # steps that no table tried has come near
_WORD = 1 << 62


class KolmogorovSample(Mechanism):
    r"""Releases a sample of k grid cells with probability

    .. math:: P(z_1, \dots, z_k) \propto \exp\left(-\frac{\epsilon\, n}{2r}\,
              \sup_t\, \lvert F_X(t) - F_z(t) \rvert\right),

    :math:`F_X, F_z` the distribution functions of the table's n rows and of the sample on a public
    grid of cells, r the rows of a person. The sample is published as the counts of its cells.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] the cells are public; [P2] exact draws.
    Proof: 1. With cumulative counts :math:`M_j` of the table and :math:`S_j` of the sample,
    :math:`n \sup \lvert F_X - F_z \rvert = \max_j \lvert n S_j - k M_j \rvert / k`. Replacing a
    row changes :math:`k M_j` by at most k; adding one changes :math:`n S_j - k M_j` by
    :math:`S_j` or :math:`S_j - k`, at most k as well. So the score has sensitivity 1 (r for r
    rows). 2. This is the exponential mechanism with that score; the factor 2 pays for its
    normaliser. 3. Counts stand for :math:`k!/\prod c_j!` samples, and paths of cumulative counts
    are drawn with that weight, exactly (:mod:`tightdp.exact.band_levels`) [P2].
    Numerics: ``exact``. The running time depends on the data, within a public bound: 4,000 refused
    proposals, then at most 30 on average, after as many steps as ``most_work`` allows. Where an
    observer can time single releases, answer at fixed times.

    **Erratum.** The paper asks for k "big enough". The uniform law of z wins when k grows beyond
    o(n): with two cells, n = 100 and epsilon = 1 the mean distance is .037 at k = 22 and .300 at
    k = 100,000 (E35). It also says that it is not clear how such samples can be drawn.

    **Size.** For every table, with probability :math:`1 - \beta` at least,

    .. math:: \sup \lvert F_X - F_z \rvert \le
              \frac{1}{2k} + \frac{2r}{\epsilon n} \left(k \ln m + \ln \frac{1}{\beta}\right)

    on m cells: rounding :math:`k F_X` gives a sample within :math:`1/(2k)`, and of all
    :math:`m^k` samples those beyond d weigh :math:`m^k e^{-\epsilon n d/(2r)}` at most. So many
    points are as wrong as few, and :math:`k = (\epsilon n / r)^{1/2}` balances the terms but for
    the logarithm. That is the default: the error is of the order of the sampling error
    :math:`n^{-1/2}` of the table itself, whatever the table.

    **Atoms.** The second term is real where T cells hold most rows. At a distance d each of them
    may lose 2kd points, and a point that strays has about m places to go: a weight of
    :math:`2 T k d \ln m` or more against :math:`\epsilon n d / (2r)`. Atoms hold while
    :math:`k < \epsilon n / (4 T r \ln m)`; beyond, points spread between them and d comes near
    :math:`1/(2T)`. The default stays below :math:`\epsilon n / (8 r \ln m)`, which holds one atom,
    or one at each end, however few the rows are; with more rows the root falls behind and holds
    more and more of them.

    **Smooth columns.** Where rows spread over their cells, few samples are near the table: a share
    of about :math:`e^{-c/(k d^2)}` is within a distance d, so that d is of order
    :math:`(\epsilon n k)^{-1/3}`, and :math:`1/(2k)` at least. A column that is publicly known to
    be smooth bears a ``size`` of :math:`(\epsilon n / r)^{2/3}`. At a million rows and epsilon = 1
    its mean distance from the table is .0006, and .0010 at the default; with ten atoms it is .044,
    and 0 at the default.

    References: Wasserman and Zhou (2010).

    Parameters
    ----------
    schema : Schema
    column : str
        A numeric column.
    bins : int or increasing edges
        The public grid of cells, as for :class:`~tightdp.Histogram`.
    size : int, optional
        k; by default :math:`(\epsilon n / r)^{1/2}` for the public number of rows n, at most
        :math:`\epsilon n / (8 r \ln m)` for m cells, n and 10,000, rounded up.
        At most 262,144, and less on many cells: 47,000 on 1,000 and 11,000 on 10,000, which are
        the most. Public facts decide before anything is paid, the same for all tables.
    epsilon : float, Fraction or Decimal
    most_work : int
        Steps that a draw may take, for tables on which the usual way refuses 4,000 proposals. All
        tables tried took a fraction of a percent of them; a larger sample asks for more.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 1)}, rows=1000)
    >>> mechanism = KolmogorovSample(schema, "x", bins=20, epsilon=2.0)
    >>> release = mechanism.release({"x": np.linspace(0, 1, 1000) ** 2})
    >>> int(release.value.sum()), mechanism.size
    (45, 45)
    >>> points = mechanism.points(release, rng=1)
    >>> points.shape, bool(points.max() <= 1)
    ((45,), True)
    """

    why = (
        "The sample is drawn with a weight that falls with the largest distance between its "
        "distribution function and that of the table: no cell is noised on its own."
    )

    picture = "bars"

    def __init__(
        self,
        schema: Schema,
        column: str,
        bins: int | ArrayLike = 100,
        *,
        epsilon: Number,
        size: int | None = None,
        most_work: int = MOST_WORK,
    ) -> None:
        self.statistic = Histogram(schema, column, bins)
        if self.statistic.edges is None:
            fail("`bins` must be a number, or edges: periods of dates have no width of their own.")
        self.schema, self.neighbors = schema, schema.neighbors
        self.epsilon = check_epsilon(epsilon)
        if size is None:
            size = public_size(schema, self.epsilon, len(self.statistic))
            while size > 1 and self._steps(size) > MOST_WORK:
                size = max(1, size * 7 // 8)
        self.size = check_count("size", size, most=_LONGEST)
        self.rate = self.epsilon / (2 * self.size * schema.rows_per_person)
        self._check_work()
        steps = self._steps(self.size)
        if steps > check_count("most_work", most_work, most=_LONGEST):
            fail(
                f"`size` = {self.size} on `bins` = {len(self.statistic)} may take {steps:.1e} "
                f"steps, for tables that nobody has met, and at most {most_work} are accepted: "
                "take a smaller sample, or state with `most_work` how many you accept.",
                InfeasibleSamplingError,
            )

    def _steps(self, size: int) -> float:
        """The most work of a draw, whatever the table."""
        rate = self.epsilon / (2 * size * self.schema.rows_per_person)
        known = self.neighbors is Neighbors.REPLACE_ONE
        return most_steps(size, len(self.statistic), rate, self.schema.rows, known=known)

    def exponential_shares(self) -> Sequence[Fraction]:
        return (Fraction(1),)

    def _check_work(self) -> None:
        """Refuse, from public facts, what takes too long or rounds too much, whatever the table.

        The number of rows does not enter: under add-remove it is a bound, and tables with few rows
        have wide bands. What passes has m k <= 2**29 and m k**2 <= 2**44, as the rounding of bands
        asks (:mod:`tightdp.exact.band_paths`).
        """
        cells, root = len(self.statistic), math.sqrt(self.size)
        # rows of a band: their states and steps, some ten standard deviations on both sides; those
        # of the steps add up to 20 (k m)^(1/2) at most. Bands: the levels that a sample can have
        states = min(20 * root, self.size + 1)
        steps = 20 * root * math.sqrt(cells) + 30 * cells
        bands = math.log(cells) * root
        work = bands * states * steps
        # distances, up to size times rows, are 64-bit integers
        whole = self.size * self.schema.rows
        if work > _WORK or self.size > _MOST or cells > _CELLS or whole >= 1 << 62:
            fail(
                f"`size` = {self.size} and `bins` = {cells} are too many for {self.schema.rows} "
                "rows: take a smaller sample or fewer bins.",
                InfeasibleSamplingError,
            )

    @property
    def law(self) -> str:
        return (
            f"counts c of {self.size} points with weight exp(-{self.rate} * D) / prod(c!), D the "
            "largest difference of n times their and k times the rows' cumulative counts"
        )

    def label(self) -> str:
        return f"KolmogorovSample({self.statistic!r})"

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.statistic.columns)

    def law_on(self, counts: ArrayLike, *, progress: bool = False) -> BandLevels | None:
        """The exact law for a table with these counts; None without rows. **Not private.**"""
        with standing_line("counting samples", show=progress):  # how many bands, rows decide
            upto = np.cumsum(np.asarray(counts, dtype=np.int64))
            return BandLevels(BandPaths(upto, self.size), self.rate) if upto[-1] else None

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        law = self.law_on(self.statistic.measure(frame, progress=progress), progress=progress)
        # without rows all samples are equally far from the table
        counts = any_sample(len(self.statistic), self.size, rng) if law is None else law.draw(rng)
        return Draft.of(self.statistic.names, counts, counts, 1, DEPENDS)

    def settled_options(self) -> dict[str, Any]:
        return {"size": self.size}

    def preview(self, confidence: float = 0.95) -> Preview:
        """Even rows: the counts of simulated samples against those of the table."""
        level = check_confidence(confidence)
        cells, bits = len(self.statistic), source(_SEED)
        counts = np.full(cells, self.schema.rows // cells)
        counts[: self.schema.rows - int(counts.sum())] += 1
        law = self.law_on(counts)
        assert law is not None  # a schema has rows
        share = counts * (self.size / self.schema.rows)
        errors = np.array([law.draw(bits) for _ in range(100)]) - share
        std, half = spread(errors, level)
        assumes = of_rows(self.schema, _SAMPLED_ROWS)
        names = self.statistic.names
        return Preview(names, std, half, level, self.guarantee(), self.law, assumes)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Counts of the points of the sample."""
        self._level(release, confidence)
        return replace(Answer.of(release), about="counts of the points of the sample")

    def points(self, release: Release, *, rng: RandomLike = None) -> FloatArray:
        """The sample in user units: a cell with c points has one in each c-th. Costs nothing."""
        counts: NDArray[np.int64] = np.array(release.integers, dtype=np.int64)
        if len(counts) != len(self.statistic) or counts.sum() != self.size:
            fail("`release` must come from a mechanism with the same cells and size.")
        edges = self.statistic.edges
        assert edges is not None
        low, width = np.repeat(edges[:-1], counts), np.repeat(np.diff(edges), counts)
        rank = np.arange(self.size) - np.repeat(np.cumsum(counts) - counts, counts)
        place = (rank + source(rng).uniform(self.size)) / np.repeat(counts, counts)
        interval = self.schema[self.statistic.columns[0]]
        assert isinstance(interval, Interval)
        return np.clip(low + width * place, interval.low, interval.high)


def public_size(schema: Schema, epsilon: Fraction, cells: int) -> int:
    """The size of a sample from public facts: the root of epsilon times the rows, or less.

    >>> public_size(Schema({"x": Interval(0, 1)}, rows=10_000), Fraction(1), cells=100)
    100
    """
    told = float(epsilon) * schema.rows / schema.rows_per_person
    size = min(math.sqrt(told), told / (8 * math.log(cells)))
    return min(max(1, math.ceil(round(size, 9))), schema.rows, _LARGEST)


class KolmogorovScores:
    r"""Scores of all samples of k points on a small grid, as counts of its cells.

    The score of a sample is :math:`-\max_t \lvert n S(t) - k M(t) \rvert` with the numbers of
    sample points and rows in the orthants :math:`\{x \le t\}`.

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=6)
    >>> scores = KolmogorovScores(JointHistogram(schema, ["x", "y"], 2), size=3)
    >>> len(scores.counts)  # 3 points in 4 cells
    20
    """

    def __init__(self, cells: JointHistogram, size: int) -> None:
        self.cells, self.size = cells, check_count("size", size)
        if any(edges is None for edges in cells.edges):
            fail("A Kolmogorov-Smirnov distance needs numeric columns: levels have no order.")
        many = math.comb(size + len(cells) - 1, size)
        if many > MOST_SAMPLES:
            fail(
                f"`size` = {size} points in {len(cells)} cells of {len(cells.columns)} columns can "
                f"lie in {many} ways, and at most {MOST_SAMPLES} can be listed. In several "
                "dimensions orthants form no chain, so no recursion replaces the list: take fewer "
                "points or bins, one column, or method='histogram'.",
                InfeasibleSamplingError,
            )
        self.counts = _compositions(size, len(cells))
        self._below = self._orthants(self.counts)

    def _orthants(self, counts: Integers) -> Integers:
        """Points in every orthant of the grid, for rows of counts."""
        table = counts.reshape(-1, *self.cells.shape)
        for axis in range(1, table.ndim):
            table = np.cumsum(table, axis=axis)
        return table.reshape(len(counts), -1)

    def __call__(self, frame: TableLike) -> Integers:
        table = np.array([self.cells.measure(frame)], dtype=np.int64)
        rows = int(table.sum())
        kind: Any = np.int64 if rows * self.size < _WORD else object  # however many rows there are
        inside, rowwise = self._below.astype(kind), self._orthants(table).astype(kind)
        return -np.abs(rows * inside - self.size * rowwise).max(axis=1)

    def multiplicities(self) -> list[int]:
        """Of how many ordered samples each vector of counts stands."""
        whole = math.factorial(self.size)
        return [whole // math.prod(math.factorial(int(c)) for c in row) for row in self.counts]


class JointKolmogorov(ExponentialMechanism):
    r"""The law of :class:`~tightdp.KolmogorovSample` for several columns, by listing all samples.

    **Privacy.** Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: public cells. Proof: replacing a row changes :math:`k M(t)` by at most k for every
    orthant; adding one changes :math:`n S(t) - k M(t)` by :math:`S(t)` or :math:`S(t) - k`, at most
    k too. So the score has sensitivity k, times the rows of a person, and
    :class:`~tightdp.ExponentialMechanism` draws exactly.

    Parameters
    ----------
    cells : JointHistogram
        Of numeric columns.
    size : int
        k; at most 20,000 vectors of counts can be listed.
    epsilon : float, Fraction or Decimal

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=6)
    >>> mechanism = JointKolmogorov(JointHistogram(schema, ["x", "y"], 2), 3, epsilon=1.0)
    >>> release = mechanism.release({"x": np.zeros(6), "y": np.ones(6)})
    >>> sum(mechanism.candidate(release))
    3
    """

    def __init__(self, cells: JointHistogram, size: int, *, epsilon: Number) -> None:
        self.scores = KolmogorovScores(cells, size)
        super().__init__(
            [tuple(map(int, row)) for row in self.scores.counts],
            self.scores,
            sensitivity=self.scores.size * cells.schema.rows_per_person,
            epsilon=epsilon,
            neighbors=cells.schema.neighbors,
            base_measure=self.scores.multiplicities(),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """Nothing: what is released is the place of a sample in a list, which has no error."""
        return self._silent(confidence, "the place of a sample in a list has none")

    def public_facts(self) -> Schema:
        return self.scores.cells.schema

    def label(self) -> str:
        return f"JointKolmogorov({self.scores.cells!r})"

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.scores.cells.schema, self.scores.cells.columns)


def listed_size(cells: int, most: int) -> int:
    """The largest sample up to a size that can be listed; 0 if not even one point can.

    >>> listed_size(9, 100)
    8
    """
    size = 0
    while size < most and math.comb(size + cells, size + 1) <= MOST_SAMPLES:
        size += 1
    return size


def _compositions(total: int, parts: int) -> Integers:
    """All vectors of non-negative integers with a sum, one per row."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    places = np.array(list(bars), dtype=np.int64).reshape(-1, parts - 1)
    ends = np.full((len(places), 1), total + parts - 1)
    return np.diff(np.hstack([np.full_like(ends, -1), places, ends]), axis=1) - 1
