"""Private regression of counts: Poisson and negative binomial."""

from __future__ import annotations

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, check_within
from tightdp.estimators.inputs import Column, Problem
from tightdp.estimators.perturbed import PerturbedRegression
from tightdp.mechanisms.count_regression import CountPerturbation
from tightdp.schema import Interval

_FAR = 700.0  # beyond, exponentials overflow


class PoissonRegression(PerturbedRegression[CountPerturbation]):
    r"""Poisson regression under pure epsilon-differential privacy: log means are linear.

    The coefficients minimise the Poisson loss plus a ridge plus a random linear term, see
    :class:`~tightdp.mechanisms.count_regression.CountPerturbation`.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under the neighbour relation of the schema, replace-one where
    only bounds are given.
    Needs: ``bounds``, ``largest_count`` and ``largest_mean`` are public facts.
    Proof: 1. :attr:`release_` is epsilon-DP by the proof of the mechanism. 2. Coefficients,
    predictions and intervals are functions of it and of public facts.
    Numerics: ``idealized-numerics``: the error of the solver is bounded and paid for, the accuracy
    of the machine's exponential is taken on trust.

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds of the features, and then of the counts unless ``largest_count`` is stated.
    largest_count : float, optional
        Larger counts are cut at it. The noise is proportional to it: a bound that few rows exceed
        costs some bias and saves much noise.
    largest_mean : float, optional
        The largest mean that a row can have, ``largest_count`` by default; beyond it the loss goes
        on like its tangent.
    interval_share : float
        The part of epsilon, in [0, 1), that buys the information matrix for :meth:`conf_int`. The
        intervals hold if log means are linear and variances those of the law; counts that vary
        more than twice as much as Poisson counts are not covered.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> x = 2 * source(1).uniform((20_000, 2)) - 1
    >>> y = source(2).uniform((20_000, 60)).__lt__(np.exp(x[:, :1] + 0.5) / 60).sum(axis=1)
    >>> model = PoissonRegression(epsilon=1.0, bounds=(-1, 1), largest_count=10, random_state=1)
    >>> model.fit(x, y).coef_.round(0) + 0
    array([1., 0.])
    >>> bool(abs(model.predict([[0.0, 0.0]])[0] - np.exp(0.5)) < 0.3)
    True
    """

    largest_count: Number | None = None
    largest_mean: Number | None = None
    interval_share: Number = 0.0

    def _mechanism(self, problem: Problem) -> CountPerturbation:
        return self._model(CountPerturbation, problem)

    def _target_column(self, y: object) -> Column | None:
        if self.largest_count is None:
            return None
        most = check_within("largest_count", self.largest_count, "[1, 1e15]")
        return Interval(0, most, missing=0)

    def predict(self, X: TableLike) -> FloatArray:
        """Means of the counts of rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(np.exp(np.minimum(self._plane(X), _FAR)))


class NegativeBinomialRegression(PoissonRegression):
    r"""Negative binomial regression: counts with variance :math:`\mu + \alpha\mu^2`.

    Rows with large means count for less than in a Poisson regression, as their counts vary more.

    **Privacy.** As for :class:`~tightdp.PoissonRegression`; the dispersion is a public fact, stated
    and never estimated here.

    Parameters
    ----------
    dispersion : float
        :math:`\alpha`, at least 0; 0 is the Poisson law.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 20_000)
    >>> y = np.random.default_rng(1).negative_binomial(2, 2 / (2 + np.exp(1 + x)))
    >>> model = NegativeBinomialRegression(
    ...     epsilon=1.0, bounds=(-1, 1), dispersion=0.5, largest_count=20, random_state=1)
    >>> model.fit(x[:, None], y).coef_.round(0)
    array([1.])
    """

    dispersion: Number = 1.0
