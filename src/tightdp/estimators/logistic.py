"""Private logistic regression for two classes, by objective perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, UndecidedError, check_probability, check_real, fail
from tightdp.estimators.coefficient_tables import (
    CoefficientTable,
    bare_table,
    coefficient_table,
    reference_notes,
)
from tightdp.estimators.inputs import Column, Problem
from tightdp.estimators.labels import check_classes, label_array, target_classes
from tightdp.estimators.two_classes import TwoClassLogit, two_labels
from tightdp.exact.rates import check_epsilon
from tightdp.ledger import Ledger
from tightdp.mechanisms.logistic_intervals import Cloud
from tightdp.mechanisms.objective import DEPENDENT, SHARE_HELP, ObjectivePerturbation
from tightdp.mechanisms.tuning import TunedPerturbation
from tightdp.preview import Preview
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomLike, RandomSource
from tightdp.release import Release
from tightdp.schema import Category

_NOT_COUNTED = (
    "`covariates` say how the columns lie, not how many rows there are, and under add-remove "
    "neighbours that is private: fit with `interval_share`, or state neighbors='replace-one'."
)
_COVERS = "the population's coefficients, if the log odds are linear"
_LIKE = "the public rows are of the same population"


class LogisticRegression(TwoClassLogit):
    r"""Logistic regression for two classes under pure epsilon-differential privacy.

    The coefficients minimise the logistic loss plus a ridge plus a random linear term, see
    :class:`~tightdp.ObjectivePerturbation`: cube-shaped noise, which is the optimal shape for
    two or more columns, and joint accounting of what a row pulls and how it curves.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under the neighbour relation of the schema, replace-one where
    only bounds are given.
    Needs: ``bounds`` and the two labels are public facts. The labels are stated with ``classes`` or
    in a schema; with ``classes="observed"`` it is you who says that those in ``y`` are public.
    Proof: 1. :attr:`release_` is epsilon-DP by the proof of the mechanism. 2. Coefficients,
    predictions and intervals are functions of it and of public facts. Scores computed from private
    rows are not covered.
    Numerics: ``idealized-numerics``: the error of the solver is bounded and paid for, the accuracy
    of the machine's exponential is taken on trust.

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
    theta_set : LpBall or ConvexSet, optional
        Keep the intercept and the scaled coefficients in a ball, or in any convex set.
    fit_intercept : bool
    classes : sequence of two labels, or "observed"
        The public labels, the second being the positive one. They may be left out where a schema
        has them. "observed" takes those that occur in ``y`` to be public, which lets errors depend
        on them. Missing and unseen labels count as the first one.
    tune : sequence of dict, optional
        Public candidates for ``noise``, ``noise_share``, ``ridge``, ``l1`` and ``theta_set``; the
        best of a secret number of private fits with candidates at random is released, see
        :class:`~tightdp.mechanisms.tuning.TunedPerturbation`. It costs half of epsilon: without it
        the defaults come from public facts. Keep the time of such a fit to yourself.
    interval_share : float
        The part of epsilon, in [0, 1), that buys the information matrix for :meth:`conf_int`.
    ledger : Ledger, optional
    random_state : None, int, Generator or RandomState
        None is a fresh cryptographic source; anything else is for tests: **not private**.

    Attributes
    ----------
    coef_ : array, shape (1, coefficients)
        One for every name in ``coef_names_``, in user units.
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

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: object = None,
        noise: object = "linf",
        noise_share: Number | str = "auto",
        ridge: float = 0.0,
        l1: float = 0.0,
        theta_set: object = None,
        fit_intercept: bool = True,
        classes: object = None,
        tune: object = None,
        interval_share: Number = 0.0,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
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
        self.tune = tune
        self.interval_share = interval_share
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_classes(self.classes, two_labels)
        check_real("ridge", self.ridge)
        check_real("l1", self.l1)
        share = check_real("interval_share", self.interval_share)
        if not 0 <= share < 1:
            fail(f"`interval_share` must lie in [0, 1). Got {share:g}.")
        if self.tune is not None and share > 0:
            fail("Give `tune` or `interval_share`: a choice made with the data has no intervals.")

    def _target_column(self, y: object) -> Column | None:
        return target_classes(self.classes, self.bounds, y, two_labels)

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        mechanism = self._mechanism(problem)
        release = mechanism.release(problem.frame, ledger=self.ledger, key=key, rng=rng)
        label = problem.schema[problem.target]
        assert isinstance(label, Category)
        self.mechanism_: ObjectivePerturbation = (
            mechanism.chosen(release) if isinstance(mechanism, TunedPerturbation) else mechanism
        )
        self.classes_ = label_array(label.levels)
        self._take_plane(release.value, self.mechanism_.rows.design)
        return release

    def _mechanism(self, problem: Problem) -> ObjectivePerturbation | TunedPerturbation:
        roles = (problem.schema, problem.features, problem.target)
        own = {
            "noise": self.noise,
            "noise_share": self.noise_share,
            "ridge": self.ridge,
            "l1": self.l1,
            "theta_set": self.theta_set,
        }
        if self.tune is None:
            return ObjectivePerturbation(
                *roles,
                epsilon=self.epsilon,
                fit_intercept=self.fit_intercept,
                interval_share=self.interval_share,
                **own,
            )
        return TunedPerturbation(
            *roles,
            settings=[{**own, **given} for given in _settings(self.tune)],
            epsilon=self.epsilon,
            fit_intercept=self.fit_intercept,
        )

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The noise to expect if rows were uniform; looks at names and the number of rows only."""
        check_epsilon(self.epsilon)
        self._check_parameters()
        mechanism = self._mechanism(self._problem(X, y))
        if isinstance(mechanism, TunedPerturbation):
            fail("A preview is for one setting: leave `tune` out.")
        return mechanism.preview()

    # --- intervals ----------------------------------------------------------------------------

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        simultaneous: bool = False,
        intercept: bool = False,
        covariates: object = None,
    ) -> FloatArray:
        """Intervals for the coefficients of the population, rows (low, high).

        Sampling error, the noise of the mechanism and of the information matrix, the pull of the
        ridge and the bend of the log odds are all in, see
        :class:`~tightdp.mechanisms.logistic_intervals.Cloud` for the method and what it assumes.
        They are centred at the estimate with the pull taken out, and cost nothing more. Where they
        are not known to hold there are none: an :class:`~tightdp.errors.UndecidedError` says so.

        Parameters
        ----------
        alpha : float
            1 minus the level.
        simultaneous : bool
            Whether all rows hold at once at that level.
        intercept : bool
            Whether the first row is the intercept.
        covariates : table of public rows, optional
            Instead of a paid information matrix: public rows of the same population as the private
            ones. Intervals hold as far as that is true. For replace-one neighbours: how much the
            data say depends on the number of rows, which must be public.
        """
        check_probability("alpha", alpha)
        found = self._cloud(covariates).intervals(alpha, simultaneous=simultaneous)
        if not self.fit_intercept:
            found = np.insert(found, 0, 0.0, axis=0)  # which is known
        return found if intercept else found[1:]

    def summary(self, alpha: float = 0.05, *, covariates: object = None) -> CoefficientTable:
        """A table of coefficients, noise and intervals, as text and HTML.

        Where there are no intervals it has the coefficients, and says why.
        """
        check_is_fitted(self, "release_")
        check_probability("alpha", alpha)
        first, names = 0 if self.fit_intercept else 1, self.mechanism_.names
        values = self.release_.value[: len(names)]
        bounds, lacking = self.known_intervals(alpha, covariates=covariates)
        title, rows = type(self).__name__, self.schema_.rows
        notes = reference_notes(self.schema_)
        if bounds is None:
            return self._titled(
                bare_table(title, names, values, self.guarantee_, lacking, rows=rows, notes=notes)
            )
        found = coefficient_table(
            title,
            names,
            values,
            self._cloud(covariates).noise_std,
            bounds[first:],
            1 - alpha,
            self.guarantee_,
            rows=rows,
            about=_COVERS if covariates is None else f"{_COVERS}, if {_LIKE}",
            notes=notes,
        )
        return self._titled(found)

    def _titled(self, table: CoefficientTable) -> CoefficientTable:
        """Under add-remove the number of rows is private, and the schema has its ceiling."""
        if self.schema_.neighbors is Neighbors.REPLACE_ONE:
            return table
        return replace(table, title=f"{type(self).__name__}, at most {self.schema_.rows} rows")

    def known_intervals(
        self, alpha: float, *, simultaneous: bool = False, covariates: object = None
    ) -> tuple[FloatArray | None, str]:
        """The intervals of :meth:`conf_int`, the intercept first, or None and the reason."""
        if (lacking := self._no_intervals(covariates)) is not None:
            return None, lacking
        try:
            found = self.conf_int(
                alpha, simultaneous=simultaneous, intercept=True, covariates=covariates
            )
        except UndecidedError as reason:
            return None, str(reason)
        return found, ""

    def _no_intervals(self, covariates: object) -> str | None:
        """Why this fit has no intervals from what it paid for or from public rows, or None."""
        if self.tune is not None:
            return (
                "Intervals are for settings that were not chosen with the data: leave out `tune`."
            )
        if self.l1 > 0 or self.theta_set is not None:
            return "Intervals are for the plain model: fit without `l1` and without `theta_set`."
        if self.schema_.rows_per_person > 1:
            return DEPENDENT
        if covariates is not None:
            return None if self.schema_.neighbors is Neighbors.REPLACE_ONE else _NOT_COUNTED
        return SHARE_HELP if self.mechanism_.information is None else None

    def _cloud(self, covariates: Any) -> Cloud:
        check_is_fitted(self, "release_")
        lacking = self._no_intervals(covariates)
        if lacking is not None:
            fail(lacking)
        if covariates is None:
            return Cloud.paid(self.mechanism_, self.release_)
        if isinstance(covariates, str):
            fail(
                "`covariates` must be a table of public rows. That columns fill their bounds "
                "evenly and are not correlated is no basis for intervals: buy them with "
                "`interval_share`."
            )
        return Cloud.assumed(self.mechanism_, self.release_, self._scaled_rows(covariates))


def _settings(tune: object) -> list[dict[str, Any]]:
    """The candidates, checked."""
    known = ("noise", "noise_share", "ridge", "l1", "theta_set")
    if isinstance(tune, (str, Mapping)) or not isinstance(tune, Sequence) or not tune:
        fail(f"`tune` must be a list of dicts with parameters among {', '.join(known)}.")
    for given in tune:
        if not isinstance(given, Mapping) or any(name not in known for name in given):
            fail(f"`tune` must hold dicts with parameters among {', '.join(known)}. Got {given!r}.")
    return [dict(given) for given in tune]
