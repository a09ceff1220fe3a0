"""A public model of rows, for previews of objective perturbation and for what is made of it.

No data, and a fixed seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tightdp.convex.ridge_pull import restore, ridge_left
from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import LpBall
from tightdp.noise import knorm
from tightdp.randomness import source

if TYPE_CHECKING:
    from tightdp.mechanisms.objective import ObjectivePerturbation

_SEED, _ROWS = 20_260_103, 1 << 13
_LEAST_SPREAD = 1e-12  # columns that do not vary have no effects


class PublicModel:
    """Uniform rows, and effects of one size and any signs whose margins have variance 1."""

    def __init__(self, mechanism: ObjectivePerturbation) -> None:
        self.mechanism = mechanism
        bits, design = source(_SEED), mechanism.rows.design
        cells = [
            bits.integers(levels + 1, _ROWS) if levels else 2.0 * bits.uniform(_ROWS) - 1.0
            for levels in design.groups
        ]
        rows = design.rows(np.array(cells, dtype=np.float64).reshape(-1, _ROWS).T)
        effect = np.ones(rows.shape[1])
        effect[: design.intercept] = 0.0
        effect /= np.sqrt(max((rows**2 @ effect).mean(), _LEAST_SPREAD))
        # log means bend more where they are large, so that effects of one sign move the intercept;
        # curvatures of other losses are those of either sign, and rows may differ in it
        one_sign = mechanism.loss.scale == "counts"
        signs = 2.0 * bits.integers(2, rows.shape[1:] if one_sign else rows.shape) - 1.0
        self.rows, self.margin = rows, (signs * rows) @ effect
        self.effect = np.tile(effect, len(mechanism.names) // len(effect))

    def restore(self, theta: FloatArray) -> FloatArray:
        """Released parameters of scaled columns with what the ridge took from them, if that is
        told from noise: columns are taken to be even."""
        ridge = self.mechanism.calibration.ridge
        hessian = self._hessian(self.rows @ theta)
        return restore(theta, hessian, ridge=ridge, variance=self._variance(), apart=self._apart)

    @property
    def _apart(self) -> int:
        """Intercepts, which come first."""
        return int(self.mechanism.rows.design.intercept)

    def _hessian(self, margin: FloatArray) -> FloatArray:
        """Of all rows, as many as are stated."""
        hessian = self.mechanism.stiffness(self.rows, margin)
        return np.asarray(self.mechanism.schema.rows / len(self.rows) * hessian)

    def _variance(self) -> float:
        """Of an entry of the noise."""
        noise = knorm.covariance(self.mechanism.ball, self.mechanism.calibration.rate).value
        return float(np.diag(noise).mean())

    def _kept(self) -> FloatArray:
        """The ridge that is left of that of the guarantee where effects are moderate."""
        mechanism, slopes = self.mechanism, slice(self._apart, None)
        kept = np.full(len(self.effect), mechanism.calibration.ridge)
        if mechanism.restores and self.effect[slopes].size:
            kept[slopes] = ridge_left(
                self._hessian(self.margin)[slopes, slopes],
                np.asarray((self.effect**2).sum()),
                ridge=mechanism.calibration.ridge,
                variance=self._variance(),
            )
        return kept

    def errors(
        self, confidence: float, *, pulled_back: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Variances and simultaneous half-widths of the released parameters, in user units.

        With ``pulled_back``, of least squares that are made of them without the pull of the ridge.
        """
        mechanism, width = self.mechanism, len(self.effect)
        kept = self._kept()
        ridge = (0.0 if pulled_back else kept + mechanism.penalty.strength) * np.eye(width)
        hessian = mechanism.stiffness(self.rows, self.margin)
        if pulled_back:  # of least squares: no residual is clipped
            hessian = self.rows.T @ self.rows
        stiffness = mechanism.schema.rows / len(self.rows) * hessian + ridge
        last, order = mechanism.linear, mechanism.order
        move = np.zeros((width, width))
        move[:, order] = last @ np.linalg.inv(stiffness)  # of the entries of the noise
        noise = knorm.covariance(mechanism.ball, mechanism.calibration.rate).value
        box, rate = LpBall(width, np.inf), float(mechanism.output.rate)
        extra = knorm.covariance(box, rate).value
        covariance = move @ noise @ move.T + last @ extra @ last.T / mechanism.resolution**2
        pulls = np.minimum(kept, 0.0 if pulled_back else mechanism.unasked_ridge)
        pull = np.sqrt(move[:, order] ** 2 @ (pulls * self.effect) ** 2)
        miss = 1 - confidence  # next to all of it for the noise that shrinks with the rows
        radius = knorm.concentration_radius(
            mechanism.ball, mechanism.calibration.rate, 1 - 0.999 * miss
        )
        half = radius * np.asarray(mechanism.ball.support(move)) + pull
        far = knorm.concentration_radius(box, rate, 1 - miss / 1000) / mechanism.resolution
        return np.diag(covariance) + pull**2, half + far * np.asarray(box.support(last))
