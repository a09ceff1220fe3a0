"""Linear regression by the K-norm gradient mechanism, drawn exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.blocks import Block
from tightdp.data.frames import integer_sums
from tightdp.data.grids import Grid
from tightdp.data.statistics import sums_and_gram
from tightdp.errors import InfeasibleSamplingError, Integers, fail
from tightdp.exact.box_sampling import Point
from tightdp.exact.integer_matrices import Matrix, Vector
from tightdp.mechanisms.gradients.gradient_planes import PlaneGradient
from tightdp.mechanisms.gradients.linear_norms import (
    MOST_COEFFICIENTS,
    LinearNormSampler,
    work_is_bounded,
)
from tightdp.preview import Preview
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Schema


class GramSums:
    """Row count, sums and sums of products of a block, as a function that can go to workers."""

    def __init__(self, columns: Sequence[str], bits: int) -> None:
        self.columns, self.bits = tuple(columns), bits

    def __call__(self, block: Block) -> Integers:
        grid = Grid(1 << self.bits, self.bits, self.bits, {})  # that of the schema
        sums, gram = sums_and_gram(block, self.columns, grid)
        return np.concatenate([[len(block)], sums, gram.ravel()]).astype(np.int64)


class KNormLinearRegression(PlaneGradient):
    r"""Releases private coefficients of a linear regression.

    With rows scaled to :math:`[-1, 1]` the density on a public lattice of coefficients with
    :math:`\lVert\theta\rVert_1 \le B` is proportional to

    .. math:: \exp\left(-\frac{\epsilon}{4(1 + B)}\,
        \lVert \sum_i x_i\,(y_i - x_i^\top\theta) \rVert_\infty\right).

    Two exact proposals take turns: noise of the gradient mapped back to coefficients, which serves
    many rows in any dimension, and uniform points of the lattice, which serve few. Where the best
    plane lies far outside the set, or rows leave it open, nested parallelepipeds around the best
    plane take over. After one pass over the data the time does not depend on the number of rows.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] quantised rows; [P2] a bounded set of coefficients; [P3] an exact draw.
    Proof: 1. On the set, :math:`|y - x^\top\theta| \le 1 + B` (with shape "box" of d coefficients,
    1 + dB) and :math:`\lVert x\rVert_\infty \le 1` [P1, P2], so the norm changes by at most
    2(1 + B) when a row is replaced, by 1 + B when it is added or removed; r times as much for a
    person with r rows. 2. The exponential mechanism on a finite set divides epsilon by twice that:
    the sum of all weights depends on the data, too. 3. Norms are integers on the lattice, and the
    draw has exactly this law (:mod:`tightdp.mechanisms.gradients.linear_norms`) [P3].
    Numerics: ``exact``. The running time depends on the data, within a proved bound that public
    facts decide: for up to four coefficients and the default grid a draw takes fewer than 110,000
    proposals on average, whatever the rows (:func:`~tightdp.mechanisms.gradients.linear_shells.
    most_proposals` has the proof; tables that were tried took up to a thousand). A ``grid`` so
    coarse that the law changes much from one point to the next, and yet too fine to go through all
    points, is refused here. Under add-remove the bound is for up to as many rows as are stated.
    With more coefficients a draw need not end where the best plane lies outside the set, which only
    the rows know: such a release is refused before it is paid for. Its law can still be studied
    (:meth:`sampler`).

    **Erratum.** The paper's constant is 8(1 + B): the gradient of the squared loss is twice the sum
    above, the printed density drops the 2 and spends epsilon/2 (E22). Its responses are divided by
    their largest size, which is not private (E26); here a public interval bounds them. Its draws
    come from a finite Markov chain, which is not epsilon-DP (E29).

    Intervals for the coefficients are not released; see :meth:`gradient_radius`. For intervals use
    noisy moments.

    Parameters
    ----------
    schema : Schema
        All columns intervals.
    epsilon : float, Fraction or Decimal
    features : sequence of str, optional
    target : str, optional
        The last column by default.
    fit_intercept : bool
    radius : float
        B, a bound on coefficients of scaled columns.
    shape : {"l1", "box"}
        Whether B bounds the sum of their sizes, or each.
    grid : int, optional
        Coefficients of scaled columns are multiples of ``2**-grid``.

    Examples
    --------
    >>> from tightdp import Interval
    >>> x = np.linspace(0, 10, 5001)
    >>> schema = Schema({"x": Interval(0, 10), "y": Interval(-10, 10)}, rows=5001)
    >>> mechanism = KNormLinearRegression(schema, epsilon=2.0)
    >>> release = mechanism.release({"x": x, "y": x - 5 + np.sin(7 * x)})
    >>> release.names, abs(release["x"] - 1) < 0.2
    (('intercept', 'x'), True)
    """

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: Number,
        features: Sequence[str] | None = None,
        target: str | None = None,
        fit_intercept: bool = True,
        radius: Number = 1,
        shape: str = "l1",
        grid: int | None = None,
    ) -> None:
        self._set_up(
            schema,
            features,
            target,
            intercept=fit_intercept,
            epsilon=epsilon,
            radius=radius,
            shape=shape,
            grid=grid,
        )
        if self.rows.dim <= MOST_COEFFICIENTS:
            self._check_work()

    def _cell_bits(self) -> int:
        return 0  # sums of products are Python's integers: cells meet no coefficient in 64 bits

    def _check_work(self) -> None:
        """Refuse a grid on which no draw is sure to end in time: neither fine nor small."""
        schema, dim = self.rows.schema, self.rows.dim
        # entries of the sums of products are at most `rows`, in units of 4**-bits
        steep = self.rate * dim * schema.rows * (1 << (2 * schema.bits)) / 2
        if not work_is_bounded(dim, self.edge, steep, self.rate):
            fail(
                f"`grid` = {self.grid} is too coarse for {schema.rows} rows and epsilon = "
                f"{float(self.epsilon):g}, and too fine to go through all its points: whether a "
                "draw ends would depend on the rows. Leave `grid` out, or take a finer one.",
                InfeasibleSamplingError,
            )

    @property
    def sensitivity(self) -> int:
        # levels are in units of 2**-(2 bits + grid); |x.theta| <= edge (or d edge) in units of
        # 2**-grid, so (1 + B) 2**grid is an integer  # [P2]
        reach = self.edge * (1 if self.shape == "l1" else self.rows.dim)
        moves = 2 if self.neighbors is Neighbors.REPLACE_ONE else 1
        one = moves * ((1 << self.grid) + reach) << (2 * self.rows.schema.bits)
        return one * self.rows.persons

    @property
    def rate(self) -> Fraction:
        return self.epsilon / (2 * self.sensitivity)

    @property
    def law(self) -> str:
        step = 1 << (2 * self.rows.schema.bits + self.grid)
        return (
            f"{self._set()}, with weight exp(-{self.rate * step} * norm), norm the largest entry "
            "of the sum of x (y - x theta)"
        )

    def normal_equations(
        self, frame: TableLike, *, progress: bool = False
    ) -> tuple[Matrix, Vector]:
        """The integers S and T of the levels max abs(T - S z), in one pass; **not private**."""
        rows, width = self.rows, len(self.rows.columns)
        sums = integer_sums(
            frame,
            rows.schema,
            rows.columns,
            GramSums(rows.columns, rows.schema.bits),
            width=1 + width + width * width,
            progress=progress,
        )
        one, d = rows.schema.resolution, width - 1
        first = sums[1 : 1 + width]
        gram = [sums[1 + width * (i + 1) : 1 + width * (i + 2)] for i in range(width)]
        matrix, target = [row[:d] for row in gram[:d]], [row[d] for row in gram[:d]]
        if rows.intercept:
            tops = [one * s for s in first[:d]]
            matrix = [
                [one * one * sums[0], *tops],
                *([t, *row] for t, row in zip(tops, matrix, strict=True)),
            ]
            target = [one * first[d], *target]
        return matrix, [t << self.grid for t in target]

    def sampler(self, matrix: Matrix, target: Vector) -> LinearNormSampler:
        """The law for given normal equations; **not private**."""
        return LinearNormSampler(
            matrix, target, edge=self.edge, l1=self.shape == "l1", rate=self.rate
        )

    def check(self, frame: TableLike) -> None:
        self._check_coefficients()
        super().check(frame)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Releases on made-up rows, simulated; refused where a release would be."""
        self._check_coefficients()
        return super().preview(confidence)

    def _check_coefficients(self) -> None:
        if self.rows.dim > MOST_COEFFICIENTS:
            fail(
                f"Releases by the gradient mechanism take up to {MOST_COEFFICIENTS} coefficients: "
                f"with more, whether a draw ends depends on the rows. Got {self.rows.dim}: name "
                "fewer `features`, or use LinearRegression, whose noisy moments always end.",
                InfeasibleSamplingError,
            )

    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        return self.sampler(*self.normal_equations(frame, progress=progress)).draw(rng)  # [P3]
