"""Intervals for a private logistic regression: sampling error, noise and ridge together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tightdp.errors import FloatArray, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.noise.knorm import KNormNoise
from tightdp.randomness import source
from tightdp.release import Release

_SEED = 20_21
_UNIFORM_ROWS = 4096
_DRAWS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    r"""The law of the true parameters around a release, by simulation from what is public.

    At the released :math:`\theta` the perturbed gradient vanishes, so to first order

    .. math:: \theta_0 = \theta + O + H^{-1} (\gamma \theta + V + S), \qquad S \sim N(0, H)

    where H is the information matrix, V the noise and O what pays for the solver's error, whose
    laws are known, :math:`\gamma` the ridge and S the score of the sample. The term of the ridge
    corrects its pull. O, V and S are simulated, and the interval is the range between two quantiles
    of :math:`\theta_0`. A noisy H is made positive: eigenvalues below one standard deviation of its
    noise are raised to it.

    Assumes: the model is right (labels are Bernoulli with these log odds, cells within their
    bounds), rows are independent, and n epsilon is large enough for the first-order expansion. No
    penalty but the ridge, and no parameter set that binds. The measured coverage is in the
    benchmark ``logistic``.

    Attributes
    ----------
    values : array, shape (draws, parameters)
        Simulated true parameters, in user units.
    noise_only : array, shape (draws, parameters)
        The part of the noise in them.
    """

    values: FloatArray
    noise_only: FloatArray

    @classmethod
    def paid(cls, mechanism: ObjectivePerturbation, release: Release) -> Self:
        """With the information matrix of the release."""
        info = mechanism.information
        assert info is not None
        width = len(mechanism.names)
        noisy = info.matrix(release.value[width:])
        least = float(np.sqrt(info.errors(0.95)[0].diagonal().max()))
        values, vectors = np.linalg.eigh(noisy)
        matrix = (vectors * np.maximum(values, least)) @ vectors.T
        return cls._simulate(mechanism, release, matrix)

    @classmethod
    def assumed(
        cls,
        mechanism: ObjectivePerturbation,
        release: Release,
        cells: FloatArray | None,
    ) -> Self:
        """With public rows (scaled to [-1, 1]), or uniform ones, in place of the private ones."""
        if cells is None:
            rows = mechanism.rows.uniform(_UNIFORM_ROWS, source(_SEED))
        else:
            rows = mechanism.rows.scaled(cells)
        theta = _scaled(mechanism, release)
        weight = mechanism.loss.second(rows @ theta, np.zeros(len(rows)))
        matrix = (rows.T * weight) @ rows * (mechanism.schema.rows / len(rows))
        if np.linalg.eigvalsh(matrix)[0] <= 1e-9 * np.trace(matrix):
            fail("`covariates` must be public rows that span all columns: give more of them.")
        return cls._simulate(mechanism, release, matrix)

    @classmethod
    def _simulate(
        cls, mechanism: ObjectivePerturbation, release: Release, information: FloatArray
    ) -> Self:
        theta, bits = _scaled(mechanism, release), source(_SEED)
        rate, ridge = mechanism.calibration.rate, mechanism.calibration.ridge
        values, vectors = np.linalg.eigh(information)
        noise = KNormNoise(mechanism.ball, rate).sample(_DRAWS, rng=bits)
        score = bits.normal((_DRAWS, len(theta))) * np.sqrt(values)
        last = KNormNoise(LpBall(len(theta), np.inf), 1.0).sample(_DRAWS, rng=bits)
        last /= float(mechanism.output.rate) * mechanism.resolution
        bare = ((noise @ vectors) / values) @ vectors.T + last
        centre = theta + vectors @ (vectors.T @ (ridge * theta) / values)
        linear = mechanism.rows.linear
        return cls((centre + bare + (score / values) @ vectors.T) @ linear.T, bare @ linear.T)


def _scaled(mechanism: ObjectivePerturbation, release: Release) -> FloatArray:
    """The released parameters of the scaled columns."""
    width = len(mechanism.names)
    value = release.value[:width] - mechanism.rows.offset
    return np.asarray(np.linalg.solve(mechanism.rows.linear, value), dtype=np.float64)
