r"""Second moments of a regression, from the minimiser of a tilted loss and what was seen about it.

Let :math:`\theta^*` be the minimiser of Huber's loss over the rows :math:`z = (1, d)`, with a ridge
:math:`\gamma` and a random tilt V. That its gradient vanishes is an equation without remainder:

.. math:: \textstyle\sum_i z_i\,\mathrm{clip}(y_i - \theta^* \cdot z_i)
    = \gamma \theta^* + V,

so that, with F the mean of :math:`z z^T` and :math:`e_i` what the clip takes away,

.. math:: \overline{z y} = F\theta^* + (\gamma\theta^* + V)/n + \overline{z e}.

So products with the target are known from :math:`\theta^*` and F, up to noise of a known law, and
up to the last term, which moves a coefficient by no more than the mean of :math:`|e|` times the
largest influence of a row (:mod:`~tightdp.inference.error_scales`). Intervals for *least
squares* follow: neither the ridge nor the clip biases them.

The coefficients are :math:`\theta + (\gamma/n) F^{-1} \theta`, which undoes the pull of the ridge
where F can be told from its noise. Their own noise is :math:`F^{-1} V / n`; along its principal
directions they are shrunk by what they say about their size
(:func:`~tightdp.inference.moment_solver.solve`), about the mean row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.moment_solver import NoisyMoments, solve

_TOLD = 0.25  # of the root of the number of columns, times the noise of an entry of F
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class TiltedLook:
    """What was released, as means, for scaled columns.

    Attributes
    ----------
    theta : array, shape (q + 1,)
        The minimiser: intercept and slopes.
    features : array, shape (q + 1, q + 1)
        F, with noise.
    ridge, variance : float
        Of the loss, divided by n; of an entry of V / n.
    line : array, shape (q + 1,)
        The minimiser on a coarser grid, about which residuals were looked at.
    square : float
        The mean square of these residuals, with noise.
    reach : float
        From where on residuals are clipped.
    moved : float
        What the clip takes away of them on average, with noise.
    farthest : float
        The most that it can take away of one.
    """

    theta: FloatArray
    features: FloatArray
    ridge: float
    variance: float
    line: FloatArray
    square: float
    reach: float
    moved: float
    farthest: float

    def filled(self, products: FloatArray) -> FloatArray:
        """Mean products of (1, d, y), from those of (1, d)."""
        return self._with_target(
            products, self.features, self.ridge * self.theta, np.array(self.square)
        )

    def noise(self, features: FloatArray, own: FloatArray) -> FloatArray:
        """Noise in the products, from draws of that in F and in everything else.

        ``features`` has shape (draws, q + 2, q + 2); ``own``, of shape (draws, q + 3), is the noise
        in the residuals' products, in their square and in how far they were moved.
        """
        out = self._with_target(features, features[:, :-1, :-1], own[:, :-2], own[:, -2])
        out[:, 0, 0] += own[:, -1]
        return out

    def _with_target(
        self, products: FloatArray, F: FloatArray, residual: FloatArray, square: FloatArray
    ) -> FloatArray:
        r""":math:`\overline{zy} = F\theta + \overline{zr}`, and, with :math:`s = y - l \cdot z`,
        :math:`\overline{y^2} = \overline{s^2} + 2 l \cdot \overline{zy} - l \cdot F l`; it is
        linear in what has noise."""
        out, line = np.array(products), self.line
        target = F @ self.theta + residual
        out[..., :-1, -1] = out[..., -1, :-1] = target
        out[..., -1, -1] = square + 2 * target @ line - F @ line @ line
        return out


@dataclass(frozen=True, slots=True, eq=False)
class TiltedMoments(NoisyMoments):
    """Mean products of (1, d, y): those of (1, d) as released, and the others as they follow."""

    tilt: TiltedLook | None = None

    def line(
        self, *, length: float, ridge: FloatArray | None = None, shift: FloatArray | None = None
    ) -> FloatArray:
        """(intercept, slopes): the minimiser without the pull of the ridge, shrunk."""
        assert self.tilt is not None
        F, noise = self.tilt.features, self.variances()[:-1, :-1]
        value, vector = np.linalg.eigh(F)
        floor = _TOLD * float(np.sqrt(noise.mean() * len(F))) + _LEAST
        inverse = (vector / np.maximum(value, floor)) @ vector.T
        level, *slopes = self.tilt.theta + self.tilt.ridge * inverse @ self.tilt.theta
        spread, along = np.linalg.eigh(self.tilt.variance * (inverse @ inverse)[1:, 1:])
        same, none = np.eye(len(spread)), np.zeros((len(spread), len(spread)))
        found = along @ solve(same, none, along.T @ slopes, spread, length=length)
        return np.append(level + (slopes - found) @ F[0, 1:], found)

    def combined(self) -> FloatArray:
        assert self.tilt is not None
        out = np.array(self.products)
        out[0, 0] += self.tilt.moved
        return out

    def combined_noise(self, noise: FloatArray, second: FloatArray) -> FloatArray:
        assert self.tilt is not None
        return self.tilt.noise(noise, second)
