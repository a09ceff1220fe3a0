r"""Noise for the counts of many cells, by symmetry: nothing here grows faster than their number.

All cells are alike: a row is in one of them. What one cell says of its law, all say, so there are
no matrices and no vertices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.public_rows import Images
from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, WideIntegers, check_choice
from tightdp.exact.lattice_bodies import DiamondBody
from tightdp.exact.lattice_body import LatticeBody, geometric_variance
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.geometry.counting_balls import HistogramBall
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.noise.lattice import LatticeNoise
from tightdp.privacy import Neighbors, check_epsilon

FEW_CELLS = 512
"""Up to so many cells have a covariance matrix."""

CELL_NOISES = ("best", "hull", "l1", "laplace")
"""Noise that any number of cells can have."""

_LEAST_VARIANCE = 1e-40  # who weighs by it must not divide by zero
_FLOATS = 1 + 1e-9


class SymmetricNoise:
    r"""Lattice noise for counts of cells, in the shape of the hull of all moves, or of an l1 ball.

    **Privacy.**
    Statement: the release is epsilon-DP.
    Needs: [P1] every row counts 1 in one cell and 0 in all others, certified by
    :func:`~tightdp.shaping.coverage.certify_moves`; [P2] the noise of
    :class:`~tightdp.LatticeNoise` is epsilon-DP for moves of a level up to L.
    Proof: a person with r rows moves the counts by a sum of r vectors :math:`\pm e_i` (added or
    removed) or :math:`e_i - e_j` (replaced) [P1]. In levels of the l1 ball each is 1 or 2 long, and
    in those of the histogram body, half the l1 norm on vectors of sum 0, each :math:`e_i - e_j` is
    1 long; levels of these two are norms, so that r of them are at most r times as long: that is L
    [P2].

    Variances are in closed form. Half-widths hold at once for all cells: by independence under
    add-remove; under replace-one by the union bound and

    .. math:: P(z_1 = j \mid \textstyle\sum z = 0) = P(z_1 = j)\,
              \frac{P(z_2 + \dots + z_m = -j)}{P(\sum z = 0)} \le \rho\, P(z_1 = j) ,

    where z on the right has independent entries with weights :math:`e^{-\eta|z_i|/2}`, whose sums
    are most often 0, and :math:`\rho = P(z_2 + \dots + z_m = 0)/P(\sum z = 0)`.
    """

    delta, factor, resolution = Fraction(0), 1, 1

    def __init__(self, statistic: Statistic, noise: str, epsilon: Number | None) -> None:
        check_choice("noise", noise, CELL_NOISES)
        self.statistic, self.epsilon = statistic, check_epsilon(epsilon)
        self.bits, self.cells = statistic.schema.bits, len(statistic)
        replaced = statistic.schema.neighbors is Neighbors.REPLACE_ONE
        self.flat = replaced and noise in CELL_NOISES[:2]
        body: LatticeBody = (HistogramBody if self.flat else DiamondBody)(self.cells)
        each = 2 if replaced and not self.flat else 1
        self.draws = LatticeNoise(body, self.epsilon, each * statistic.schema.rows_per_person)
        self.draws.check_feasible()
        self.ball: NormBall = HistogramBall(self.cells)
        if not self.flat:
            self.ball = LpBall(self.cells, 1, float(each))
        self.words = (
            f"integers z with weight exp(-{self.draws.rate} * level(z)), levels of {body!r}, "
            "in units of 1/1"
        )

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon)

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: WideIntegers) -> NDArray[np.bool_]:
        """Whether the level of r moves at once, r rows of a person, is at most L."""
        return self.draws.covers(moves, self.statistic.schema.rows_per_person)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return False  # there are too many to list

    def covers_by_structure(self) -> bool:
        """Whether every move of a row is e_i or e_i - e_j, by the statistic [P1]."""
        return self.statistic.one_cell

    # --- errors -------------------------------------------------------------------------------

    def covariance(self) -> FloatArray:
        """Variances of the cells, all equal; cells of a flat body share -1/(cells - 1) of it."""
        rate, body = float(self.draws.rate), self.draws.body
        one = body.variance(rate) if isinstance(body, HistogramBody) else geometric_variance(rate)
        return np.full(self.cells, max(one, _LEAST_VARIANCE))

    def widths(self, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all cells."""
        rate = float(self.draws.rate) / (2 if self.flat else 1)
        if self.flat:
            miss = (1 - confidence) / (self.cells * _excess(self.cells, rate) * _FLOATS)
        else:
            miss = -math.expm1(math.log(confidence) / self.cells) / _FLOATS
        # 2 q^(h+1) / (1 + q) <= miss
        half = math.ceil((math.log(2 / miss) - math.log1p(math.exp(-rate))) / rate - 1)
        return np.full(self.cells, float(max(0, half)))

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of linear images: those of the box around all cells."""
        return np.asarray(np.abs(linear) @ self.widths(confidence)) * _FLOATS


def _excess(cells: int, rate: float) -> float:
    r""":math:`\rho` of the class above, for entries with weights :math:`r^{|z|}, r = e^{-rate}`.

    Chances of sums to be 0 are Legendre polynomials: with :math:`\lambda = (1+r)/(1-r)` and
    :math:`x = (\lambda + 1/\lambda)/2`, that of m entries is :math:`\lambda^{-m} P_{m-1}(x)`. So
    :math:`\rho = \lambda P_{m-2}(x)/P_{m-1}(x)`, by
    :math:`n P_n = (2n-1)x P_{n-1} - (n-1)P_{n-2}`.

    >>> r = math.exp(-0.5)
    >>> math.isclose(_excess(2, 0.5), (1 + r) ** 2 / (1 + r * r))
    True
    """
    lam = 1 / math.tanh(rate / 2)
    x = (lam + 1 / lam) / 2
    grown = x / lam  # P_n / (lambda P_(n-1)), n = 1
    for n in range(2, cells):
        grown = ((2 * n - 1) * x / lam - (n - 1) / (lam * lam * grown)) / n
    return 1 / grown
