"""Private sparse logistic regression for two classes, by proximal coordinate descent."""

from __future__ import annotations

from tightdp.accepted import Number
from tightdp.design.designs import Design
from tightdp.design.range_law import DataDependentDesign
from tightdp.estimators.classifiers import TwoClassLogit
from tightdp.estimators.inputs import Problem
from tightdp.estimators.private_estimator import NO_TESTS, PRINTED, Lacking
from tightdp.mechanisms.coordinate_descent import CoordinateDescent
from tightdp.noise.law import NoiseLaw
from tightdp.release import Release


class SparseLogisticRegression(TwoClassLogit[CoordinateDescent]):
    r"""Logistic regression with an l1 (or elastic net) penalty under differential privacy.

    One coordinate after the other takes a proximal step along its noisy slope, see
    :class:`~tightdp.mechanisms.coordinate_descent.CoordinateDescent`. The noise of a step may be
    any one-dimensional law, designed and data-dependent ones included; the steps share one budget.
    For few columns :class:`~tightdp.LogisticRegression`, which perturbs once, is more accurate.

    **Privacy.**
    Statement: ``fit`` is (epsilon, delta)-DP under the neighbour relation of the schema
    (replace-one by default), all steps together.
    Needs: ``bounds``, the two labels and the number of rows are public facts; under add-remove
    neighbours the ``rows`` of the schema stand for that number. The labels are stated with
    ``classes`` or in a schema; with ``classes="observed"`` it is you who says that those in ``y``
    are public.
    Proof: 1. :attr:`release_` is (epsilon, delta)-DP by the proof of the mechanism. 2. Predictions
    are functions of it and of public facts.
    Numerics: ``exact``.

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds of the features. Cells outside are moved to the nearer bound.
    delta : float, Fraction or Decimal
    noise : name, NoiseLaw, Design or DataDependentDesign
        "best", "laplace", "staircase", "tulap", "truncated-laplace", "gaussian" or "designed": the
        budget is divided among the steps, exactly. Or a noise of your own for every step, in units
        of its sensitivity, which epsilon and delta must cover.
    l1 : float
        Weight of the l1 norm of the coefficients of columns scaled to [-1, 1], beside the mean
        loss (under add-remove neighbours the sum divided by the ``rows`` of the schema).
    l2 : float
        Weight of half their squared length.
    passes : int or "auto"
        Steps for each coordinate; "auto" comes from the numbers of rows and columns and the budget.
    step_size : float or "auto"
        In (0, 8); 4 is the inverse of the largest curvature. "auto" shortens the steps where noise
        is large, so that it is not taken for effects: probabilities stay honest at any epsilon.
    sweep : int, optional
        Coordinates between two public permutations.
    average : bool
        Whether a sweep ends at the mean of its iterates, as in Selvi and others (2025).

    Attributes
    ----------
    n_iter_ : int
        Passes.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp.randomness import source
    >>> x = 2 * source(1).uniform((20_000, 5)) - 1
    >>> y = (source(2).uniform(20_000) < 1 / (1 + np.exp(-4 * x[:, 0]))).astype(int)
    >>> model = SparseLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, bounds=(-1, 1), l1=0.02, classes=[0, 1], random_state=1)
    >>> model.fit(x, y).coef_.round(0) + 0
    array([[3., 0., 0., 0., 0.]])
    """

    delta: Number = 0
    noise: str | NoiseLaw | Design | DataDependentDesign = "best"
    l1: float = 0.0
    l2: float = 0.0
    passes: int | str = "auto"
    step_size: float | str = "auto"
    sweep: int | None = None
    average: bool = False

    conf_int = Lacking(
        "the penalty pulls coefficients to 0 by an amount that the rows decide, and nothing was "
        "released of it. LogisticRegression(interval_share=...) has intervals."
    )
    summary = Lacking(f"there are no intervals to print. {PRINTED}")
    test = Lacking(NO_TESTS)

    def _mechanism(self, problem: Problem) -> CoordinateDescent:
        return self._model(CoordinateDescent, problem)

    def _read(self, mechanism: CoordinateDescent, release: Release) -> Release:
        self.n_iter_ = mechanism.passes
        self._take_planes(release.value, mechanism.design)
        return release
