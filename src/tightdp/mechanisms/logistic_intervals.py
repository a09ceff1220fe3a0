"""Intervals of log odds and log means: what is paid for them, and where they fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tightdp.convex.margin_losses import MarginLoss, margins
from tightdp.data.blocks import one_blas_thread
from tightdp.errors import FloatArray, UndecidedError, check_choice, fail
from tightdp.exact.lattice_body import BoxBody
from tightdp.geometry.norm_balls import LpBall
from tightdp.inference.cholesky_factors import cholesky_factors
from tightdp.inference.coefficient_intervals import (
    holding,
    quantile_intervals,
    simultaneous_intervals,
)
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomSource, source
from tightdp.release import Release

if TYPE_CHECKING:
    from tightdp.mechanisms.objective import ObjectivePerturbation

_BLOCK_ROWS = 2048  # sums of so many entries of 2**25 are below 2**53
_MOST_BITS = 24
NOT_KNOWN = (
    "Intervals are not known to hold here: beside its noise, the released information does not "
    "say how the log odds curve. More rows, a larger epsilon, a larger `interval_share`, fewer or "
    "less correlated columns, or bounds that the columns fill would help."
)

ASSUMPTIONS = ("stated model",)

_SEED = 20_21
_MOST_DRAWS, _FEWEST_DRAWS = 2000, 400  # wide matrices take longer
_WORK = 4_000_000  # entries of all their matrices, about
_TOGETHER = 500_000  # entries of matrices that are in memory together
_PUBLIC_ROWS = 4096  # so many are enough
_LEAST = 1e-9
_NEAR = 2.0  # how far rows that matter are moved, in root mean squares
_ROOM = 1.5  # of the score's spread: log odds are seldom quite linear
_LARGEST_MOVE = 0.998  # of 1 - exp(-R): beyond it the curvature is lost


class NoisyInformation:
    r"""Releases :math:`\sum_i \phi''(\theta \cdot x_i) x_i x_i^T` plus integer noise.

    **Privacy.**
    Statement: epsilon-DP for fixed :math:`\theta`; together with the release of :math:`\theta`, the
    two budgets add up.
    Proof: with a curvature of at most c and rows in the cube, entries of one row lie in [-c, c], on
    the diagonal in [0, c], which is doubled; each entry is clipped there and rounded to a grid that
    has these ends. So a row that is replaced moves every integer by at most L = 2 c times the
    resolution (half of it, undoubled, if rows are added or removed), and
    :class:`~tightdp.LatticeNoise` for the cube of that level is epsilon-DP. The float error of an
    entry is part of the function of the row, which no other row enters and its place does not
    either: the integers are exact, and so is the guarantee.

    Parameters
    ----------
    width : int
        Number of parameters m.
    epsilon : Fraction
    loss : MarginLoss
    rows : int
        A public bound on the number of rows.
    replace_one : bool
    rows_per_person : int
    """

    def __init__(
        self,
        width: int,
        epsilon: Fraction,
        loss: MarginLoss,
        *,
        rows: int,
        replace_one: bool = True,
        rows_per_person: int = 1,
    ) -> None:
        self.width, self.loss = width, loss
        self.upper = np.triu_indices(width)
        self.doubled = replace_one
        # sums of n entries of at most 2**(bits + 1) fit 62 bits
        self.bits = max(2, min(_MOST_BITS, 60 - rows.bit_length()))
        self.factor = np.where(self.upper[0] == self.upper[1], 1.0 + self.doubled, 1.0)
        largest = math.ceil(loss.curvature * (1 << self.bits))
        self._ends = np.where(self.factor > 1, 2 * largest, largest)
        self._low = np.where(self.upper[0] == self.upper[1], 0, -largest)
        reach = largest * (2 if replace_one else 1) * rows_per_person
        self.noise = LatticeNoise(BoxBody([1] * len(self.factor)), epsilon, reach)

    @property
    def resolution(self) -> int:
        """Grid points per unit."""
        return 1 << self.bits

    def draw(self, rng: RandomSource) -> NDArray[Any]:
        """The noise of one release."""
        return self.noise.sample(rng=rng)

    def measure(self, rows: FloatArray, target: FloatArray, theta: FloatArray) -> list[int]:
        """The exact integers, upper triangle row by row. **Not private.**"""
        total = [0] * len(self.factor)
        low, high = self._low[:, None], self._ends[:, None]
        for start in range(0, len(rows), _BLOCK_ROWS):
            x, y = rows[start : start + _BLOCK_ROWS], target[start : start + _BLOCK_ROWS]
            weight, columns = self.loss.second(margins(x, theta), y), x.T.copy()
            place = 0
            for j in range(self.width):  # the entries (j, j), (j, j + 1), ...
                row = slice(place, place + self.width - j)
                entry = (weight * columns[j]) * columns[j:]
                entry *= self.factor[row, None] * self.resolution
                cells = np.clip(np.rint(entry, out=entry), low[row], high[row], out=entry)
                sums = cells.sum(axis=1)  # of integers, below 2**53: exact
                total[row] = [t + int(z) for t, z in zip(total[row], sums, strict=True)]
                place = row.stop
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, by place."""
        return tuple(f"information[{j},{k}]" for j, k in zip(*self.upper, strict=True))

    def recover(self, integers: Sequence[int]) -> FloatArray:
        """The entries of the upper triangle, for the scaled parameters."""
        return np.array([z / self.resolution for z in integers]) / self.factor

    def matrices(self, entries: FloatArray) -> FloatArray:
        """Symmetric matrices with these entries in their upper triangles, one or many."""
        out = np.zeros((*entries.shape[:-1], self.width, self.width))
        left, right = self.upper
        out[..., left, right] = out[..., right, left] = entries
        return out

    def errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Variances and simultaneous half-widths of the noise on the entries, not correlated."""
        many, rate = len(self.factor), float(self.noise.rate)
        unit = 1.0 / (self.factor * self.resolution)
        # of a cube of side 2 the second moment is 1/3; a matrix for thousands of entries is large
        variance = (many + 1) * (many + 2) / (3 * rate**2) * unit**2
        radius = knorm.concentration_radius(LpBall(many, np.inf), rate, confidence)
        return variance, radius * unit


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    r"""Where the true parameters can lie, for every draw of what is not known.

    Let L be the sum of the losses, :math:`\gamma` the ridge, V the noise. The released
    :math:`\theta` has :math:`\nabla L(\theta) + \gamma\theta + V = 0`, the true one
    :math:`\nabla L(\theta_0) = S`, the score of the sample. So their difference d solves

    .. math:: \bar H d = a, \qquad a = \gamma\theta + V + S,

    where :math:`\bar H` is the mean Hessian between them. What was released is the Hessian H at
    :math:`\theta`, plus noise of a known law. A row whose log odds move by t changes its curvature
    by a factor between :math:`e^{-|t|}` and :math:`e^{|t|}`; if rows move by R at most,
    :math:`H \int_0^1 e^{-Rs} ds \le \bar H \le H \int_0^1 e^{Rs} ds`, so that with c and r the
    middle and half the distance of the inverses of the two integrals

    .. math:: |w \cdot d - c\, w \cdot H^{-1} a| \le r\, (w \cdot H^{-1} w)^{1/2}
        (a \cdot H^{-1} a)^{1/2} \quad \text{for all } w.

    V, the noise of H, and :math:`S \sim N(0, 9H/4)` are simulated: H is the covariance of S where
    log odds are linear, and half as much spread again is room for rows where they are not, which
    ``assume="stated model"`` does without. (Losses
    of counts are divided by the largest one, Y, so that theirs is H / Y.) R is
    twice the root mean square of :math:`x \cdot d` over the rows, weighted by curvature: at most
    :math:`2 (d \cdot H d)^{1/2} / (\max_j H_{jj})^{1/2}`, since rows lie in the cube. A draw in
    which H is not positive, or d so long that R has no bound, allows everything.

    The curvature of counts changes no faster, below the largest mean: :math:`\phi^{(3)} =
    \phi^{(2)} (1 - aw)/(1 + aw)`.

    Assumes: labels are independent and Bernoulli with these log odds (counts, of the stated law
    with these log means, which are below the largest one), cells lie within their
    bounds, no penalty but the ridge and no parameter set that binds. That few rows are moved by
    more than twice the root mean square is not proved; the coverage page says what was measured.

    Attributes
    ----------
    low, high : arrays, shape (draws, parameters)
        Bounds on the true parameters, in user units; infinite where a draw allows everything.
    noise_only : array, shape (draws, parameters)
        The part of the noise, to first order.
    value : array, shape (parameters,)
        The coefficients that are printed beside them.
    """

    low: FloatArray
    high: FloatArray
    noise_only: FloatArray
    value: FloatArray

    @classmethod
    def paid(
        cls, mechanism: ObjectivePerturbation, release: Release, assume: str | None = None
    ) -> Self:
        """With the information matrix of the release."""
        info, bits = mechanism.information, source(_SEED)
        assert info is not None
        seen = release.value[len(mechanism.names) :]
        # of rate 1, and scaled here: steps of a fine grid are too small for a budget of its own
        cube, unit = knorm.KNormNoise(LpBall(len(seen), np.inf), 1.0), float(info.noise.rate)

        def information(count: int) -> FloatArray:
            noise = cube.sample(count, rng=bits) / (unit * info.factor * info.resolution)
            return info.matrices(seen - noise)

        return cls._simulate(mechanism, release, information, bits, assume)

    @classmethod
    def assumed(
        cls,
        mechanism: ObjectivePerturbation,
        release: Release,
        cells: FloatArray,
        assume: str | None = None,
    ) -> Self:
        """With public rows (scaled to [-1, 1]) of the same population as the private ones."""
        few = cells[:: 1 + len(cells) // _PUBLIC_ROWS]
        bits, rows = source(_SEED), mechanism.rows.design.rows(few)
        curvature = mechanism.loss.typical(rows @ _scaled(mechanism, release))
        matrix = (rows.T * curvature) @ rows
        if np.linalg.eigvalsh(matrix)[0] <= _LEAST * np.trace(matrix):
            fail("`covariates` must be public rows that span all columns: give more of them.")

        def information(count: int) -> FloatArray:
            # the rows themselves are a sample: other samples of as many rows say how good it is
            weight = bits.exponential((count, len(rows)))
            weight *= mechanism.schema.rows / weight.sum(axis=1, keepdims=True) * curvature
            return np.array([(rows.T * one) @ rows for one in weight])

        return cls._simulate(mechanism, release, information, bits, assume)

    @classmethod
    def _simulate(
        cls,
        mechanism: ObjectivePerturbation,
        release: Release,
        information: Callable[[int], FloatArray],
        bits: RandomSource,
        assume: str | None,
    ) -> Self:
        if assume is not None:
            check_choice("assume", assume, ASSUMPTIONS)
        room = _ROOM if assume is None else 1.0
        width = len(mechanism.names)
        many = int(np.clip(_WORK / width**2, _FEWEST_DRAWS, _MOST_DRAWS))
        few = max(_TOGETHER // width**2, 1)
        counts = [min(few, many - start) for start in range(0, many, few)]
        parts = [_moves(mechanism, release, information(count), bits, room) for count in counts]
        low, high, noise_only = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(low, high, noise_only, mechanism.coefficients(release))

    def intervals(self, alpha: float, *, simultaneous: bool = False) -> FloatArray:
        """Rows (low, high) for every parameter; refused where they are not known to hold."""
        rule = simultaneous_intervals if simultaneous else quantile_intervals
        found = rule(self.low, alpha, self.high)
        if not np.isfinite(found).all():
            fail(NOT_KNOWN, UndecidedError)
        return holding(self.value, found)

    @property
    def noise_std(self) -> FloatArray:
        """The spread of the noise: half the distance of the quantiles one sigma away."""
        return np.subtract(*np.quantile(self.noise_only, [0.8413, 0.1587], axis=0)) / 2


@one_blas_thread()  # thousands of small matrices: threads would wait for each other
def _moves(
    mechanism: ObjectivePerturbation,
    release: Release,
    information: FloatArray,
    bits: RandomSource,
    room: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bounds on the true parameters, and the part of the noise, for draws of the information."""
    theta, linear = _scaled(mechanism, release), mechanism.rows.design.linear
    count = len(information)
    noise = knorm.KNormNoise(mechanism.ball, mechanism.calibration.rate).sample(count, rng=bits)
    last = knorm.KNormNoise(LpBall(len(theta), np.inf), 1.0).sample(count, rng=bits)
    last = last @ linear.T / (float(mechanism.output.rate) * mechanism.resolution)
    score = room * mechanism.loss.spread * bits.normal((count, len(theta)))
    _, back, positive = cholesky_factors(information)
    lost = np.full((count - len(back), len(linear)), np.inf)  # draws that allow everything
    noise, last, score, information = (one[positive] for one in (noise, last, score, information))
    to_user = linear @ back.transpose(0, 2, 1)  # back is a root of the inverse of H
    pushed = (back @ noise[:, :, None])[:, :, 0]
    pulled = back @ (mechanism.calibration.ridge * theta)
    whole = pushed + pulled + score
    size = np.linalg.norm(whole, axis=1)
    rows = np.diagonal(information, axis1=1, axis2=2).max(axis=1)  # sum of curvatures, at least
    move = _NEAR * size / np.sqrt(np.maximum(rows, _LEAST))
    middle, either = _bend(move)
    centre = (to_user @ (middle[:, None] * whole)[:, :, None])[:, :, 0] + last
    reach = (either * size)[:, None] * np.sqrt((to_user**2).sum(axis=2))
    reach[move >= _LARGEST_MOVE] = np.inf
    found = release.value[: len(theta)] + centre
    low, high = np.vstack([found - reach, -lost]), np.vstack([found + reach, lost])
    return low, high, (to_user @ pushed[:, :, None])[:, :, 0] + last


def _bend(move: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""The numbers c and r of the class, for :math:`1 - e^{-R}`.

    If :math:`d \cdot H d = D^2`, then :math:`D (1 - e^{-R}) / R` is at most the length of a. So
    where R is a multiple of D, :math:`1 - e^{-R}` is at most the same multiple of that length.
    """
    R = -np.log1p(-np.clip(move, 1e-12, _LARGEST_MOVE))
    least, most = R / np.expm1(R), R / -np.expm1(-R)
    return (most + least) / 2, (most - least) / 2


def ridge_path(
    mechanism: ObjectivePerturbation, release: Release, ridges: Sequence[float]
) -> FloatArray:
    r"""Parameters for other ridges from one release, in user units, shape (ridges, parameters).

    The released :math:`\theta` has :math:`\nabla L(\theta) = -\gamma\theta - V`, and V is zero on
    average. With H the released information, the minimiser for a ridge g of the parabola with this
    gradient and this Hessian solves :math:`(H + g) \theta_g = (H + \gamma) \theta`. It costs
    nothing: exact minimisers for two ridges and one V would tell a difference of gradients of the
    data without noise, and with a V each their budgets would add up.
    """
    info, theta = mechanism.information, _scaled(mechanism, release)
    assert info is not None
    hessian = info.matrices(release.value[len(theta) :])
    if np.linalg.eigvalsh(hessian)[0] <= 0:
        fail(NOT_KNOWN, UndecidedError)
    eye = np.eye(len(theta))
    pulled = (hessian + mechanism.calibration.ridge * eye) @ theta
    found = [np.linalg.solve(hessian + ridge * eye, pulled) for ridge in ridges]
    return mechanism.rows.design.to_user(np.array(found))


def _scaled(mechanism: ObjectivePerturbation, release: Release) -> FloatArray:
    """The released parameters of the scaled columns."""
    return mechanism.rows.design.from_user(release.value[: len(mechanism.names)])
