"""Private robust regression with Huber's loss."""

from __future__ import annotations

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray
from tightdp.estimators.inputs import Problem
from tightdp.estimators.perturbed import PerturbedRegression
from tightdp.mechanisms.robust_regression import HuberPerturbation


class HuberRegression(PerturbedRegression[HuberPerturbation]):
    r"""Robust regression under pure epsilon-differential privacy: outliers pull like others.

    The coefficients minimise Huber's loss plus a ridge plus a random linear term, see
    :class:`~tightdp.mechanisms.robust_regression.HuberPerturbation`. The noise is proportional to
    the threshold, not to the bounds of the target.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under the neighbour relation of the schema, replace-one where
    only bounds are given.
    Needs: ``bounds`` and ``threshold`` are public facts.
    Proof: 1. :attr:`release_` is epsilon-DP by the proof of the mechanism. 2. Coefficients and
    predictions are functions of it and of public facts.
    Numerics: ``idealized-numerics``.

    Parameters
    ----------
    threshold : float, optional
        The residual, in units of the target, from which on the loss grows like a line; an eighth of
        half the width of the target's bounds by default.

    Notes
    -----
    There are no intervals: how many residuals lie within the threshold is private, and how their
    number changes between the estimate and the truth has no bound that holds for all tables.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 5000)
    >>> y = np.where(np.arange(5000) % 20 == 0, -10.0, 1 + 2 * x)  # one in twenty is spoilt
    >>> model = HuberRegression(
    ...     epsilon=1.0, bounds=[(-1, 1), (-10, 10)], threshold=1.0, random_state=1)
    >>> model.fit(x[:, None], y).coef_.round(0)
    array([2.])
    """

    threshold: Number | None = None

    def _mechanism(self, problem: Problem) -> HuberPerturbation:
        return self._model(HuberPerturbation, problem)

    def predict(self, X: TableLike) -> FloatArray:
        """Predictions for rows, which pass through the same clamp as in ``fit``."""
        return self._plane(X)
