r"""What a ridge took away from a released minimiser, given back as far as the noise lets it.

Let :math:`\hat\theta` minimise :math:`L(\theta) + \gamma |\theta|^2 / 2 + V \cdot \theta`. On the
parabola with the Hessian H of L, the minimiser with a ridge g instead of :math:`\gamma` and the
same V is known without the rows,

.. math:: (H + g)\, \theta_g = (H + \gamma)\, \hat\theta .

A small g takes out the pull of the ridge, and lets noise through. If parameters are normal about 0
with standard deviation :math:`\tau`, and an entry of the gradient has noise of variance v beside
that of the sample, which is H, then the best g is

.. math:: g = \frac{v + h}{h \tau^2}, \qquad h = \mathrm{tr}\,H / m .

:math:`\tau` is what the length of :math:`\theta_g` says about it, less what noise adds to that
length (empirical Bayes): long parameters get back what they lost, and those that are not told from
noise stay as they were released. An intercept has a g of its own, by its own size and curvature: it
is long where a class is rare, and says nothing about how long slopes are. g is never above
:math:`\gamma`: an H that is wrong can then do little harm where noise is large, and an H that is
too large, as it is where columns fill a small part of their bounds or vary together, gives back too
little and never too much.
"""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray

_ROUNDS = 3
_LEAST_LEFT = 0.01  # of the ridge: where no curvature is left it alone says how far to go
_LEAST_KEPT = 0.05  # of the squared length, whatever the noise adds to it


def restore(
    theta: FloatArray, hessian: FloatArray, *, ridge: float, variance: float, apart: int = 0
) -> FloatArray:
    """Minimisers for the ridge that the noise asks for, at most the one that they had.

    Parameters
    ----------
    theta : array, shape (..., m)
        Minimisers as released, of scaled columns.
    hessian : array, shape (..., m, m)
        What is publicly known of the Hessian there, of all rows.
    ridge, variance : float
        What they had; that of an entry of the noise in the gradient.
    apart : int
        So many of the first parameters, intercepts, are as long as they are whatever others are.

    Examples
    --------
    Long parameters, with little noise, get back what the ridge took; short ones stay.

    >>> hessian = 100 * np.eye(2)
    >>> restore(np.array([4.0, -2.0]), hessian, ridge=10.0, variance=1.0).round(2)
    array([ 4.4, -2.2])
    >>> restore(np.array([0.4, -0.2]), hessian, ridge=10.0, variance=1000.0)
    array([ 0.4, -0.2])
    """
    eye = np.eye(theta.shape[-1])
    blocks = [some for some in (slice(apart), slice(apart, None)) if eye[some].size]
    pulled = ((hessian + ridge * eye) @ theta[..., None])[..., 0]
    noise = variance * eye + hessian
    found, kept = np.asarray(theta), ridge * np.ones(theta.shape)
    for _ in range(_ROUNDS):
        back = np.linalg.inv(hessian + kept[..., None, :] * eye)
        added = ((back @ noise) * back).sum(axis=-1)
        for block in blocks:
            whole = (found[..., block] ** 2).sum(axis=-1)
            own = np.maximum(whole - added[..., block].sum(axis=-1), _LEAST_KEPT * whole)
            left = ridge_left(hessian[..., block, block], own, ridge=ridge, variance=variance)
            kept[..., block] = left[..., None]
        shifted = hessian + kept[..., None, :] * eye
        found = np.asarray(np.linalg.solve(shifted, pulled[..., None])[..., 0], dtype=np.float64)
    return found


def ridge_left(
    hessian: FloatArray, square: FloatArray, *, ridge: float, variance: float
) -> FloatArray:
    """The ridge g for parameters of this squared length: a hundredth to all of what there was."""
    m = hessian.shape[-1]
    h = np.trace(hessian, axis1=-2, axis2=-1) / m
    noise = (variance + h) * m
    asked = noise / np.maximum(h * square, noise / ridge)  # at most the ridge
    return np.asarray(np.maximum(asked, _LEAST_LEFT * ridge))
