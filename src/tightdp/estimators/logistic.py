"""Private logistic regression for two or more classes, by objective perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tightdp.accepted import Number, TableLike
from tightdp.convex.penalties import ConvexSet
from tightdp.errors import check_choice, fail, quoted
from tightdp.estimators.classifiers import LinearLogit
from tightdp.estimators.inputs import Problem
from tightdp.estimators.perturbed import InformedIntervals
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.mechanisms.class_regression import ClassPerturbation, several_classes
from tightdp.mechanisms.objective import POSTS, ObjectivePerturbation
from tightdp.mechanisms.tuning import TunedPerturbation
from tightdp.preview import Preview
from tightdp.release import Release

_TUNED = ("noise", "noise_share", "ridge", "l1", "theta_set")


Perturbation = ObjectivePerturbation | TunedPerturbation


class LogisticRegression(LinearLogit[Perturbation], InformedIntervals[Perturbation]):
    r"""Logistic regression for two or more classes under pure epsilon-differential privacy.

    The coefficients minimise the logistic loss plus a ridge plus a random linear term, see
    :class:`~tightdp.ObjectivePerturbation`: cube-shaped noise, which is the optimal shape for
    two or more columns, and joint accounting of what a row pulls and how it curves. For more than
    two classes every class has its coefficients, which together are zero, see
    :class:`~tightdp.mechanisms.class_regression.ClassPerturbation`; then ``noise`` is the hull of
    every column, and ``l1``, ``theta_set``, ``tune`` and intervals are for two classes alone.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under the neighbour relation of the schema, replace-one where
    only bounds are given.
    Needs: ``bounds`` and the labels are public facts. The labels are stated with ``classes`` or
    in a schema; with ``classes="observed"`` it is you who says that those in ``y`` are public.
    Proof: 1. :attr:`release_` is epsilon-DP by the proof of the mechanism. 2. Coefficients,
    predictions and intervals are functions of it and of public facts. Scores computed from private
    rows are not covered.
    Numerics: ``idealized-numerics``: the error of the solver is bounded and paid for, the accuracy
    of the machine's exponential is taken on trust.

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds of the features. Cells outside are moved to the nearer bound.
    noise : {"linf", "l1", "l2"} or NormBall
    noise_share : float or "auto"
        The part of the budget that the noise spends, in (0, 1]; "auto" comes from a public
        simulation that knows the numbers of rows and columns only.
    ridge : float
        At least so much ridge on the coefficients of columns scaled to [-1, 1] (1 / C elsewhere);
        the guarantee itself needs about ``columns / epsilon``, intercept included.
    l1 : float
        Weight of an l1 penalty on the scaled coefficients.
    theta_set : LpBall or ConvexSet, optional
        Keep the intercept and the scaled coefficients in a ball, or in any convex set.
    tune : sequence of dict, optional
        Public candidates for ``noise``, ``noise_share``, ``ridge``, ``l1`` and ``theta_set``; the
        best of a secret number of private fits with candidates at random is released, see
        :class:`~tightdp.mechanisms.tuning.TunedPerturbation`. It costs half of epsilon: without it
        the defaults come from public facts. Keep the time of such a fit to yourself.
    interval_share : float
        The part of epsilon, in [0, 1), that buys the information matrix for :meth:`conf_int`.
    post : {"restore", "none"}
        What is made of the released minimiser, for nothing more. "restore" gives long coefficients
        back what the ridge took from them, as far as noise lets it; "none" takes the minimiser as
        it is. For two classes, up to 24 parameters, without ``ridge``, ``l1``, ``theta_set`` and
        ``tune``; others are as released.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp.randomness import source
    >>> x = 2 * source(1).uniform((5000, 2)) - 1
    >>> y = (source(2).uniform(5000) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(int)
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], random_state=1)
    >>> model.fit(x, y).coef_.round(0) + 0
    array([[3., 0.]])
    >>> model.score(x, y) > 0.7
    True
    """

    noise: str | NormBall = "linf"
    noise_share: Number | str = "auto"
    ridge: float = 0.0
    l1: float = 0.0
    theta_set: LpBall | ConvexSet | None = None
    tune: Sequence[Mapping[str, Any]] | None = None
    interval_share: Number = 0.0
    post: str = "restore"

    def _mechanism(self, problem: Problem) -> Perturbation:
        check_choice("post", self.post, POSTS)
        if several_classes(problem.schema[problem.target]):
            return self._of_classes(problem)
        if self.tune is None:
            return self._model(ObjectivePerturbation, problem)
        if self.interval_share != 0:
            fail("Give `tune` or `interval_share`: a choice made with the data has no intervals.")
        own = {name: getattr(self, name) for name in _TUNED}
        return TunedPerturbation(
            problem.schema,
            problem.features,
            problem.target,
            settings=[{**own, **given} for given in _settings(self.tune)],
            **self._options(TunedPerturbation),
        )

    def _of_classes(self, problem: Problem) -> Perturbation:
        plain = {"noise": "linf", "l1": 0.0, "theta_set": None, "tune": None, "interval_share": 0}
        for name, value in plain.items():
            given = getattr(self, name)
            if given is not value and (isinstance(given, NormBall) or given != value):
                fail(f"`{name}` is for two classes: leave it out where there are more.")
        return self._model(ClassPerturbation, problem)

    def _read(self, mechanism: Perturbation, release: Release) -> Release:
        if isinstance(mechanism, TunedPerturbation):
            self.mechanism_ = mechanism.chosen(release)
            value = release.value
        else:
            value = mechanism.coefficients(release)
        self._take_planes(value, mechanism.rows.design)
        return release

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The noise to expect if rows were uniform; looks at names and the number of rows only."""
        if self.tune is not None:
            fail("A preview is for one setting: leave `tune` out.")
        return super().preview(X, y)

    def _no_intervals(self, covariates: TableLike | None) -> str | None:
        if self.tune is not None:
            return (
                "Intervals are for settings that were not chosen with the data: leave out `tune`."
            )
        return super()._no_intervals(covariates)


def _settings(tune: object) -> list[dict[str, Any]]:
    """The candidates, checked."""
    known = ", ".join(_TUNED)
    if isinstance(tune, (str, Mapping)) or not isinstance(tune, Sequence) or not tune:
        fail(f"`tune` must be a list of dicts with parameters among {known}.")
    for given in tune:
        if not isinstance(given, Mapping) or any(name not in _TUNED for name in given):
            fail(f"`tune` must hold dicts with parameters among {known}. Got {quoted(given)}.")
    return [dict(given) for given in tune]
