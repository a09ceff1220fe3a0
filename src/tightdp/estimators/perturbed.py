"""What regressions by objective perturbation share: coefficients, and paid intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.convex.penalties import ConvexSet
from tightdp.errors import FloatArray, UndecidedError, check_within, fail
from tightdp.estimators.coefficient_tables import (
    CoefficientTable,
    bare_table,
    coefficient_table,
    reference_notes,
    table_title,
)
from tightdp.estimators.interval_bases import WithCoefficients, missed
from tightdp.estimators.private_estimator import Lacking, M
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.mechanisms.logistic_intervals import Cloud, ridge_path
from tightdp.mechanisms.objective import SHARE_HELP, ObjectivePerturbation
from tightdp.printed import Covers
from tightdp.privacy import Neighbors
from tightdp.release import Release

P = TypeVar("P", bound=ObjectivePerturbation)

_NOT_COUNTED = (
    "`covariates` say how the columns lie, not how many rows there are, and under add-remove "
    "neighbours that is private: fit with `interval_share`, or state neighbors='replace-one'."
)
_LIKE = "the public rows are of the same population"


class InformedIntervals(WithCoefficients[M]):
    """Base of regressions whose intervals need an information matrix, paid for or public."""

    test = Lacking(
        "a value that conf_int(confidence=1 - alpha) leaves out is rejected at the level alpha. "
        "LinearRegression has tests of several coefficients at once."
    )

    @property
    def _fitted(self) -> ObjectivePerturbation:
        assert isinstance(self.mechanism_, ObjectivePerturbation)
        return self.mechanism_

    def conf_int(
        self,
        *,
        confidence: float | None = None,
        covers: Covers | None = None,
        simultaneous: bool = False,
        intercept: bool = False,
        covariates: TableLike | None = None,
        assume: str | None = None,
    ) -> FloatArray:
        """Intervals for the coefficients of the population, rows (low, high).

        Sampling error, the noise of the mechanism and of the information matrix, the pull of the
        ridge and the bend of the log odds or log means are all in, see
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
        assume : {"stated model"}, optional
            Say that log odds (of counts, log means) are linear in the columns, as the model has it:
            the sampling error is then that of the textbooks. By default there is room for half as
            much again, since nothing that is released can check it.
        """
        level, _ = self._asked(confidence, covers)
        cloud = self._cloud(covariates, assume)
        found = cloud.intervals(missed(level), simultaneous=simultaneous)
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
        title, values = table_title(self), self._fitted.coefficients(self.release_)
        bounds, lacking = self.known_intervals(confidence=level, covariates=covariates)
        notes = reference_notes(self.schema_)
        if bounds is None:
            return bare_table(title, names, values, self.guarantee_, lacking, notes=notes)
        about = f"the population's coefficients, {self._fitted.assumed}"
        return coefficient_table(
            title,
            names,
            values,
            self._cloud(covariates).noise_std,
            bounds[first:],
            level,
            self.guarantee_,
            about=about if covariates is None else f"{about}, if {_LIKE}",
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

    def ridge_path(self, ridges: Sequence[float]) -> FloatArray:
        """Coefficients for other ridges, the intercept first: one row each, for nothing more.

        They are those of a parabola around the estimate, made of the paid information matrix
        (``interval_share``), see :func:`~tightdp.mechanisms.logistic_intervals.ridge_path`: good
        where log odds or log means bend little between the two. A ridge of 0 takes out the pull of
        the one that the guarantee needed.

        Parameters
        ----------
        ridges : sequence of float
            At least 0, on the coefficients of columns scaled to [-1, 1].
        """
        check_is_fitted(self, "release_")
        if (lacking := self._no_intervals(None)) is not None:
            fail(lacking)
        if not isinstance(ridges, (list, tuple)) or not ridges:
            fail("`ridges` must be a list of numbers, and hold at least one.")
        asked = [check_within("ridges", ridge, "[0, 1e100]") for ridge in ridges]
        found = ridge_path(self._fitted, self.release_, asked)
        return found if self.fit_intercept else np.insert(found, 0, 0.0, axis=1)

    def _no_intervals(self, covariates: TableLike | None) -> str | None:
        """Why this fit has no intervals from what it paid for or from public rows, or None."""
        lacking = self._fitted.no_intervals()
        if lacking is not None:
            return lacking
        if covariates is not None:
            return None if self.schema_.neighbors is Neighbors.REPLACE_ONE else _NOT_COUNTED
        return SHARE_HELP if self._fitted.information is None else None

    def _cloud(self, covariates: TableLike | None, assume: str | None = None) -> Cloud:
        check_is_fitted(self, "release_")
        lacking = self._no_intervals(covariates)
        if lacking is not None:
            fail(lacking)
        if covariates is None:
            return Cloud.paid(self._fitted, self.release_, assume)
        if isinstance(covariates, str):
            fail(
                "`covariates` must be a table of public rows. That columns fill their bounds "
                "evenly and are not correlated is no basis for intervals: buy them with "
                "`interval_share`."
            )
        cells = self._scaled_rows(covariates)
        return Cloud.assumed(self._fitted, self.release_, cells, assume)


class PerturbedRegression(RegressorMixin, InformedIntervals[P]):  # type: ignore[misc]
    """Base of regressions of numbers by objective perturbation.

    Parameters
    ----------
    noise : {"linf", "l1", "l2"} or NormBall
    noise_share : float or "auto"
        The part of the budget that the noise spends, in (0, 1]; "auto" comes from a public
        simulation that knows the numbers of rows and columns only.
    ridge : float
        At least so much ridge on the coefficients of columns scaled to [-1, 1].
    l1 : float
        Weight of an l1 penalty on the scaled coefficients.
    theta_set : LpBall or ConvexSet, optional
        Keep the intercept and the scaled coefficients in a ball, or in any convex set.

    Attributes
    ----------
    coef_ : array
        One coefficient for every name in ``coef_names_``, in user units.
    coef_names_ : tuple of str
    intercept_ : float
    """

    noise: str | NormBall = "linf"
    noise_share: Number | str = "auto"
    ridge: float = 0.0
    l1: float = 0.0
    theta_set: LpBall | ConvexSet | None = None

    def _read(self, mechanism: P, release: Release) -> Release:
        design = mechanism.rows.design
        first, last = int(design.intercept), len(design.names)
        self.coef_names_ = design.design
        self.coef_ = release.value[first:last].copy()
        self.intercept_ = float(release.value[0]) if first else 0.0
        return release

    def _plane(self, X: TableLike) -> FloatArray:
        """The linear predictor of rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(self._design_rows(X) @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may drown a small table
        return tags
