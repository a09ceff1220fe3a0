"""Regression by the K-norm gradient mechanism on a lattice of planes: the base, and linear."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.blocks import Block, Grid
from tightdp.data.design_matrix import RegressionRows
from tightdp.data.one_pass import integer_sums
from tightdp.data.statistics import sums_and_gram
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    Integers,
    amount_within,
    check_choice,
    check_count,
    check_probability,
    fail,
)
from tightdp.exact.box_sampling import Point
from tightdp.exact.integer_matrices import Matrix, Vector
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.noise.linear_norms import (
    MOST_COEFFICIENTS,
    LinearNormSampler,
    work_is_bounded,
)
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon, text_up
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema

SHAPES = ("l1", "box")
_SPARE_BITS = 6  # lattice steps per unit of n * epsilon: the grid is finer than the noise
_WORD = 62


class PlaneGradient(Mechanism):
    """Base: coefficients of scaled columns on the lattice ``2**-grid`` of a bounded set.

    Attributes
    ----------
    rows : RegressionRows
    radius : Fraction
    shape : {"l1", "box"}
    grid : int
    edge : int
        The largest lattice coordinate.
    """

    rows: RegressionRows

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
        self.epsilon = check_epsilon(epsilon)
        self.rows = RegressionRows(schema, features, target, intercept=fit_intercept)
        self.neighbors = self.rows.schema.neighbors
        self.shape = check_choice("shape", shape, SHAPES)
        self.radius = check_radius(radius)
        self.grid = theta_grid(
            grid,
            rows=self.rows.schema.rows,
            epsilon=self.epsilon,
            radius=self.radius,
            dim=self.rows.dim,
            bits=self._cell_bits(),
            most=self._finest(),
        )
        self.edge = math.floor(self.radius * (1 << self.grid))
        if self.edge < 1:
            fail(f"`radius` must be at least one step of the grid, 2**-{self.grid}.")
        self._check_work()

    def _finest(self) -> int:
        """The finest grid on which a draw can promise to end; any by default."""
        return 62

    def _check_work(self) -> None:
        """Refuse a grid on which no draw is sure to end in time; none by default."""

    def _cell_bits(self) -> int:
        """Bits of the cells that are multiplied with coefficients in 64-bit integers."""
        return self.rows.schema.bits

    # --- the law ------------------------------------------------------------------------------

    @property
    def rate(self) -> Fraction:
        """The rate r of the weights exp(-r * level)."""
        return self.epsilon / (2 * self.sensitivity)

    def exponential_shares(self) -> Sequence[Fraction]:
        return (Fraction(1),)

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """The largest change of a level between neighbours."""

    @abstractmethod
    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        """Read the rows and draw a lattice point."""

    @property
    def _reach(self) -> int | None:
        return self.edge if self.shape == "l1" else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released coefficients."""
        return self.rows.names

    def _set(self) -> str:
        norm = "sum of absolute values" if self.shape == "l1" else "absolute values"
        return f"multiples of 2^-{self.grid} with {norm} at most {self.radius}"

    def public_facts(self) -> Schema:
        return self.rows.schema

    def label(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"

    def coefficients(self, point: Sequence[int]) -> FloatArray:
        """A lattice point as coefficients in user units."""
        return self.rows.design.to_user(np.array([z / (1 << self.grid) for z in point]))

    def gradient_radius(self, confidence: float = 0.95) -> float:
        r"""How far the gradient at the release can be from the smallest one, in sensitivities.

        With at least this probability the norm of the gradient at the released point exceeds the
        smallest norm on the lattice by at most this many :math:`\Delta`: of N points those above
        :math:`k_{\min} + t` have together at most :math:`N e^{-rt}` times the weight of the best
        one. Public: it depends on N, epsilon and the confidence alone.
        """
        level = check_probability("confidence", confidence)
        points = self.rows.dim * math.log(2 * self.edge + 1)
        bound = (points - math.log1p(-level)) / float(self.rate) / float(self.sensitivity)
        return bound * (1 + 1e-12)

    # --- the release --------------------------------------------------------------------------

    def check(self, frame: TableLike) -> None:
        self.rows.check(frame)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        drawn = self._draw(frame, rng, progress)
        return Draft.of(self.names, self.coefficients(drawn), drawn, 1 << self.grid, DEPENDS)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The coefficients: no interval comes with them."""
        self._level(release, confidence)
        return Answer.of(release)

    def _read(self, frame: TableLike, progress: bool) -> tuple[Integers, Integers]:
        return self.rows.read(frame, progress=progress)


def theta_grid(
    grid: int | None,
    *,
    rows: int,
    epsilon: Fraction,
    radius: Fraction,
    dim: int,
    bits: int,
    most: int = _WORD,
) -> int:
    """The number k such that coefficients live on multiples of ``2**-k``.

    The default makes one step change the gradient by less than the noise: about
    ``log2(64 * rows * epsilon)``, from public facts. Products of cells and coefficients must fit
    64 bits; a draw may ask for ``most``.

    >>> theta_grid(
    ...     None, rows=10_000, epsilon=Fraction(1), radius=Fraction(1), dim=2, bits=16)
    20
    """
    room = math.ceil(4 * dim * max(radius, Fraction(1))).bit_length() + bits
    if _WORD - room < 1:
        fail("`radius` is too large: no grid of coefficients fits 64-bit integers.")
    finest = min(_WORD - room, most)
    if grid is not None:
        return check_count("grid", grid, most=finest)
    wanted = math.ceil(rows * max(epsilon, Fraction(1))).bit_length() + _SPARE_BITS
    return min(max(wanted, 10), 40, finest)


def check_radius(radius: Number) -> Fraction:
    """A public bound on coefficients of scaled columns."""
    if radius is None:
        fail(
            "`radius` must be given: without a bound on the coefficients the density of the "
            "K-norm gradient mechanism has no normaliser."
        )
    return amount_within("radius", radius, "(0, 1024]", "rescale the columns")


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
    draw has exactly this law (:mod:`tightdp.noise.linear_norms`) [P3].
    Numerics: ``exact``. The running time depends on the data, within a proved bound that public
    facts decide: for up to four coefficients and the default grid a draw takes fewer than 110,000
    proposals on average, whatever the rows (:func:`~tightdp.exact.linear_shells.
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

    def _cell_bits(self) -> int:
        return 0  # sums of products are Python's integers: cells meet no coefficient in 64 bits

    def _check_work(self) -> None:
        """Refuse a grid on which no draw is sure to end in time: neither fine nor small."""
        schema, dim = self.rows.schema, self.rows.dim
        if dim > MOST_COEFFICIENTS:
            return  # such a release is refused before it is paid for
        # entries of the sums of products are at most `rows`, in units of 4**-bits
        steep = self.rate * dim * schema.rows * (1 << (2 * schema.bits)) / 2
        if not work_is_bounded(dim, self.edge, steep, self.rate):
            fail(
                f"`grid` = {self.grid} is too coarse for {schema.rows} rows and epsilon = "
                f"{text_up(self.epsilon)}, and too fine to go through all its points: whether a "
                "draw ends would depend on the rows. Leave `grid` out, or take a finer one.",
                InfeasibleSamplingError,
            )

    @property
    def sensitivity(self) -> int:
        # levels are in units of 2**-(2 bits + grid); |x.theta| <= edge (or d edge) in units of
        # 2**-grid, so (1 + B) 2**grid is an integer  # [P2]
        reach = self.edge * (1 if self.shape == "l1" else self.rows.dim)
        one = self.rows.moves * ((1 << self.grid) + reach) << (2 * self.rows.schema.bits)
        return one * self.rows.persons

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
        return replace(super().preview(confidence), silence=DEPENDS.reason)

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
