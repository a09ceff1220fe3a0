"""Private logistic regression for two classes, by objective perturbation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tightdp.errors import FloatArray, check_count, check_probability, check_real, fail
from tightdp.estimators.base import PrivateEstimator
from tightdp.estimators.inputs import Column, Problem
from tightdp.estimators.logistic_intervals import Intervals
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Category, Interval, Schema

_SHARE_HELP = (
    "Intervals need the information matrix, which is a release of its own: fit with "
    "`interval_share`, the part of epsilon that buys it (for instance 0.3), or give "
    "`covariates`, public rows that look like the private ones."
)


class LogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    r"""Logistic regression for two classes under pure epsilon-differential privacy.

    The coefficients minimise the logistic loss plus a ridge plus a random linear term, see
    :class:`~tightdp.ObjectivePerturbation`: cube-shaped noise, which is the optimal shape for
    two or more columns, and joint accounting of what a row pulls and how it curves.

    **Privacy.** What the fit publishes is :attr:`release_`, epsilon-DP for one replaced row (or
    what the schema says). The number of rows and the two labels are **public facts**: state them
    with ``classes`` or in a schema; where they are not stated, the labels found in ``y`` are taken
    to be public, and a label that only one person could have is not. Predictions are functions of
    the release; scores computed from private rows are not covered.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
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
    theta_set : LpBall, optional
        Keep the scaled coefficients (then the intercept) in a ball.
    fit_intercept : bool
    classes : sequence of two labels, optional
        The public labels, the second being the positive one.
    interval_share : float
        The part of epsilon, in [0, 1), that buys the information matrix for :meth:`conf_int`.
    ledger : Ledger, optional
    random_state : None, int, Generator or RandomState
        None is a fresh cryptographic source; anything else is for tests: **not private**.

    Attributes
    ----------
    coef_ : array, shape (1, features)
    intercept_ : array, shape (1,)
    classes_ : array, shape (2,)
    release_ : Release
        What was published, with its guarantee and its payment.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> x = 2 * source(1).uniform((5000, 2)) - 1
    >>> y = (source(2).uniform(5000) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(int)
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], random_state=1)
    >>> model.fit(x, y).coef_.round(0) + 0
    array([[3., 0.]])
    >>> model.score(x, y) > 0.7
    True
    """

    coef_: FloatArray
    intercept_: FloatArray
    classes_: Any

    def __init__(
        self,
        epsilon: Any = 1.0,
        *,
        bounds: Any = None,
        noise: Any = "linf",
        noise_share: Any = "auto",
        ridge: float = 0.0,
        l1: float = 0.0,
        theta_set: Any = None,
        fit_intercept: bool = True,
        classes: Any = None,
        interval_share: Any = 0.0,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.noise = noise
        self.noise_share = noise_share
        self.ridge = ridge
        self.l1 = l1
        self.theta_set = theta_set
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.interval_share = interval_share
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if self.classes is not None:
            _two_labels(self.classes)
        check_real("ridge", self.ridge)
        check_real("l1", self.l1)
        check_real("interval_share", self.interval_share)

    def _target_column(self, y: Any) -> Column | None:
        if self.classes is not None:
            return _two_labels(self.classes)
        if isinstance(self.bounds, Schema):
            levels = [c for c in self.bounds.columns.values() if isinstance(c, Category)]
            if levels:
                return None
        if y is None:
            return None  # the base says that y is needed
        if isinstance(y, str):
            fail(
                "`classes` must state the two public labels, or the schema must hold the target as "
                "a Category: a table is not searched for its labels."
            )
        check_classification_targets(y)
        return _two_labels(np.unique(np.asarray(y)).tolist())

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        mechanism = ObjectivePerturbation(
            problem.schema,
            problem.features,
            problem.target,
            epsilon=self.epsilon,
            norm=self.noise,
            noise_share=self.noise_share,
            ridge=self.ridge,
            l1=self.l1,
            theta_set=self.theta_set,
            fit_intercept=self.fit_intercept,
            information_share=self.interval_share,
        )
        release = mechanism.release(problem.frame, ledger=self.ledger, key=key, rng=rng)
        label = problem.schema[problem.target]
        assert isinstance(label, Category)
        self.mechanism_ = mechanism
        self.classes_ = np.array(label.levels)
        width = len(problem.features)
        self.coef_ = release.value[None, :width].copy()
        self.intercept_ = (
            release.value[width : width + 1].copy() if self.fit_intercept else np.zeros(1)
        )
        return release

    # --- predictions --------------------------------------------------------------------------

    def decision_function(self, X: Any) -> FloatArray:
        """Log odds of the second class; cells are clamped to the bounds, as in the fit."""
        cells = self._scaled_rows(X)
        columns = [c for c in list(self.schema_.columns.values())[:-1] if isinstance(c, Interval)]
        half, middle = (
            np.array([getattr(c, name) for c in columns]) for name in ("half", "middle")
        )
        return np.asarray((cells * half + middle) @ self.coef_[0] + self.intercept_[0])

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the two classes, shape (n, 2)."""
        odds = self.decision_function(X)
        return np.column_stack([_expit(-odds), _expit(odds)])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the probabilities, without underflow."""
        odds = self.decision_function(X)
        return -np.column_stack([np.logaddexp(0.0, odds), np.logaddexp(0.0, -odds)])

    def predict(self, X: Any) -> Any:
        """The likelier class of every row."""
        check_is_fitted(self, "release_")
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    # --- intervals ----------------------------------------------------------------------------

    def conf_int(
        self, alpha: float = 0.05, *, covariates: Any = None, draws: int = 4000
    ) -> FloatArray:
        """Intervals for the coefficients and the intercept, in the order of the release.

        They cover the parameters of the model that made the data: sampling error, the noise of the
        mechanism and the pull of its ridge are all in. See
        :class:`~tightdp.estimators.logistic_intervals.Intervals` for the method and what it
        assumes. Costs no budget beyond that of the fit.

        Parameters
        ----------
        alpha : float
            One minus the coverage of each interval.
        covariates : array of public rows, or "uniform", optional
            Instead of a paid information matrix: public rows that look like the private ones, or
            the assumption that columns are independent and uniform within their bounds.
        draws : int
            Size of the simulation; its seed is fixed.

        Returns
        -------
        array, shape (coefficients, 2)
        """
        level = check_probability("alpha", alpha)
        return self._intervals(covariates, draws).limits(level)

    def standard_errors(self, *, covariates: Any = None, draws: int = 4000) -> FloatArray:
        """Standard errors of the debiased coefficients, as for :meth:`conf_int`."""
        return self._intervals(covariates, draws).standard_errors()

    def _intervals(self, covariates: Any, draws: int) -> Intervals:
        check_is_fitted(self, "release_")
        check_count("draws", draws, least=100, most=10**6)
        if covariates is None:
            if self.mechanism_.information is None:
                fail(_SHARE_HELP)
            return Intervals.paid(self.mechanism_, self.release_, draws)
        if isinstance(covariates, str):
            if covariates != "uniform":
                fail(f"`covariates` must be public rows or 'uniform'. Got {covariates!r}.")
            return Intervals.assumed(self.mechanism_, self.release_, draws, None)
        return Intervals.assumed(
            self.mechanism_, self.release_, draws, self._scaled_rows(covariates)
        )

    def summary(self, alpha: float = 0.05, *, covariates: Any = None) -> str:
        """A table of the coefficients with standard errors and intervals."""
        level = check_probability("alpha", alpha)
        found = self._intervals(covariates, 4000)
        limits, errors = found.limits(level), found.standard_errors()
        names = self.mechanism_.names
        width = max(9, *map(len, names))
        head = (
            f"{'':{width}}  {'estimate':>12}  {'std error':>12}  {f'{1 - level:.0%} interval':>27}"
        )
        lines = [head, "-" * len(head)]
        lines += [
            f"{name:{width}}  {value:12.5g}  {error:12.5g}  [{low:12.5g}, {high:12.5g}]"
            for name, value, error, (low, high) in zip(
                names, found.centre, errors, limits, strict=True
            )
        ]
        return "\n".join([*lines, "", f"{self.release_.guarantee}; {found.basis}"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _two_labels(labels: Any) -> Category:
    """The public labels as a category, or the reason why there cannot be more than two."""
    try:
        levels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    except TypeError:
        fail("`classes` must be a sequence of two labels.")
    if len(levels) < 2:
        fail(
            f"Two classes are needed, got {len(levels)} class: if the second one exists but is "
            "not in this table, state both with `classes`."
        )
    if len(levels) > 2:
        fail(
            f"Only binary classification is supported. Got {len(levels)} classes: a softmax loss "
            "has Hessians of higher rank and would need a larger ridge and its own proof. Fit one "
            "class against the rest, and share epsilon among the fits."
        )
    return Category(levels)


def _expit(t: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0.0, -t))
