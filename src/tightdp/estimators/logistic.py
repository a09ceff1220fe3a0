"""Private logistic regression for two classes, by objective perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.convex.penalties import ConvexSet
from tightdp.errors import FloatArray, UndecidedError, fail, quoted
from tightdp.estimators.classifiers import TwoClassLogit
from tightdp.estimators.coefficient_tables import (
    CoefficientTable,
    bare_table,
    coefficient_table,
    reference_notes,
    table_title,
)
from tightdp.estimators.inputs import Problem
from tightdp.estimators.interval_bases import WithCoefficients, missed
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.mechanisms.logistic_intervals import Cloud
from tightdp.mechanisms.objective import DEPENDENT, SHARE_HELP, ObjectivePerturbation
from tightdp.mechanisms.tuning import TunedPerturbation
from tightdp.preview import Preview
from tightdp.printed import Covers
from tightdp.privacy import Neighbors
from tightdp.release import Release

_NOT_COUNTED = (
    "`covariates` say how the columns lie, not how many rows there are, and under add-remove "
    "neighbours that is private: fit with `interval_share`, or state neighbors='replace-one'."
)
_COVERS = "the population's coefficients, if the log odds are linear"
_LIKE = "the public rows are of the same population"
_TUNED = ("noise", "noise_share", "ridge", "l1", "theta_set")


Perturbation = ObjectivePerturbation | TunedPerturbation


class LogisticRegression(TwoClassLogit[Perturbation], WithCoefficients[Perturbation]):
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

    noise: str | NormBall = "linf"
    noise_share: Number | str = "auto"
    ridge: float = 0.0
    l1: float = 0.0
    theta_set: LpBall | ConvexSet | None = None
    tune: Sequence[Mapping[str, Any]] | None = None
    interval_share: Number = 0.0

    def _mechanism(self, problem: Problem) -> Perturbation:
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

    def _read(self, mechanism: Perturbation, release: Release) -> Release:
        if isinstance(mechanism, TunedPerturbation):
            self.mechanism_ = mechanism.chosen(release)
        self._take_plane(release.value, mechanism.rows.design)
        return release

    @property
    def _fitted(self) -> ObjectivePerturbation:
        assert isinstance(self.mechanism_, ObjectivePerturbation)  # of several, the chosen one
        return self.mechanism_

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The noise to expect if rows were uniform; looks at names and the number of rows only."""
        if self.tune is not None:
            fail("A preview is for one setting: leave `tune` out.")
        return super().preview(X, y)

    # --- intervals ----------------------------------------------------------------------------

    def conf_int(
        self,
        *,
        confidence: float | None = None,
        covers: Covers | None = None,
        simultaneous: bool = False,
        intercept: bool = False,
        covariates: TableLike | None = None,
    ) -> FloatArray:
        """Intervals for the coefficients of the population, rows (low, high).

        Sampling error, the noise of the mechanism and of the information matrix, the pull of the
        ridge and the bend of the log odds are all in, see
        :class:`~tightdp.mechanisms.logistic_intervals.Cloud` for the method and what it assumes.
        They are centred at the estimate with the pull taken out, and cost nothing more. Where they
        are not known to hold there are none: an :class:`~tightdp.errors.UndecidedError` says so.

        Parameters
        ----------
        confidence : float, optional
            The level, 0.95 by default.
        covers : {"population"}, optional
        simultaneous : bool
            Whether all rows hold at once at that level.
        intercept : bool
            Whether the first row is the intercept.
        covariates : table of public rows, optional
            Instead of a paid information matrix: public rows of the same population as the private
            ones. Intervals hold as far as that is true. For replace-one neighbours: how much the
            data say depends on the number of rows, which must be public.
        """
        level, _ = self._asked(confidence, covers)
        found = self._cloud(covariates).intervals(missed(level), simultaneous=simultaneous)
        if not self.fit_intercept:
            found = np.insert(found, 0, 0.0, axis=0)  # which is known
        return found if intercept else found[1:]

    def summary(
        self, *, confidence: float | None = None, covariates: TableLike | None = None
    ) -> CoefficientTable:
        """A table of coefficients, noise and intervals, as text and HTML.

        Where there are no intervals it has the coefficients, and says why.
        """
        level, _ = self._asked(confidence, None)
        first, names = 0 if self.fit_intercept else 1, self._fitted.names
        title, values = table_title(self), self.release_.value[: len(names)]
        bounds, lacking = self.known_intervals(confidence=level, covariates=covariates)
        notes = reference_notes(self.schema_)
        if bounds is None:
            return bare_table(title, names, values, self.guarantee_, lacking, notes=notes)
        return coefficient_table(
            title,
            names,
            values,
            self._cloud(covariates).noise_std,
            bounds[first:],
            level,
            self.guarantee_,
            about=_COVERS if covariates is None else f"{_COVERS}, if {_LIKE}",
            notes=notes,
        )

    def known_intervals(
        self,
        *,
        confidence: float | None = None,
        simultaneous: bool = False,
        covariates: TableLike | None = None,
    ) -> tuple[FloatArray | None, str]:
        """The intervals of :meth:`conf_int`, the intercept first, or None and the reason."""
        if (lacking := self._no_intervals(covariates)) is not None:
            return None, lacking
        try:
            found = self.conf_int(
                confidence=confidence,
                simultaneous=simultaneous,
                intercept=True,
                covariates=covariates,
            )
        except UndecidedError as reason:
            return None, str(reason)
        return found, ""

    def _no_intervals(self, covariates: TableLike | None) -> str | None:
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
        return SHARE_HELP if self._fitted.information is None else None

    def _cloud(self, covariates: TableLike | None) -> Cloud:
        check_is_fitted(self, "release_")
        lacking = self._no_intervals(covariates)
        if lacking is not None:
            fail(lacking)
        if covariates is None:
            return Cloud.paid(self._fitted, self.release_)
        if isinstance(covariates, str):
            fail(
                "`covariates` must be a table of public rows. That columns fill their bounds "
                "evenly and are not correlated is no basis for intervals: buy them with "
                "`interval_share`."
            )
        return Cloud.assumed(self._fitted, self.release_, self._scaled_rows(covariates))


def _settings(tune: object) -> list[dict[str, Any]]:
    """The candidates, checked."""
    known = ", ".join(_TUNED)
    if isinstance(tune, (str, Mapping)) or not isinstance(tune, Sequence) or not tune:
        fail(f"`tune` must be a list of dicts with parameters among {known}.")
    for given in tune:
        if not isinstance(given, Mapping) or any(name not in _TUNED for name in given):
            fail(f"`tune` must hold dicts with parameters among {known}. Got {quoted(given)}.")
    return [dict(given) for given in tune]
