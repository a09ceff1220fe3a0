"""Intervals of fitted models: one call for all, and one meaning for what each covers."""

from __future__ import annotations

from abc import abstractmethod

from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import TableLike
from tightdp.errors import FloatArray, check_choice, check_confidence, fail
from tightdp.estimators.private_estimator import M, PrivateEstimator
from tightdp.exact.rates import check_epsilon
from tightdp.preview import Preview
from tightdp.printed import Covers


class WithIntervals(PrivateEstimator[M]):
    """Base of estimators that say how far off their numbers can be."""

    def conf_int(
        self, *, confidence: float | None = None, covers: Covers | None = None
    ) -> FloatArray:
        """Rows (low, high), one for every number, which hold all together; costs nothing.

        Parameters
        ----------
        confidence : float, optional
            The level, by default that of the fit. Ends that were drawn for a level have no other.
        covers : {"noise", "sample", "population"}, optional
            What they cover: the number without noise, that of these rows, or that of the population
            of which the rows are an independent sample. By default the widest there is.
        """
        return self._intervals(*self._asked(confidence, covers))

    def _asked(self, confidence: float | None, covers: str | None) -> tuple[float, str]:
        """The level and what is to be covered, checked."""
        check_is_fitted(self, "release_")
        fitted = self.release_.confidence
        level = fitted if confidence is None else check_confidence(confidence)
        if level != fitted and self.mechanism_.draws_level():
            fail(
                f"`confidence` must be that of the fit, {fitted}: the intervals were drawn for it, "
                "and others must be paid for."
            )
        known = self._covered()
        return level, known[-1] if covers is None else check_choice("covers", covers, known)

    def _covered(self) -> tuple[str, ...]:
        """What the intervals of this fit can cover, the widest last."""
        return ("population",)

    @abstractmethod
    def _intervals(self, level: float, covers: str) -> FloatArray:
        """Rows (low, high)."""


class WithCoefficients(WithIntervals[M]):
    """Base of regressions: coefficients, with intervals for those of the population.

    Parameters
    ----------
    fit_intercept : bool
        Without an intercept the plane passes through the zero of the user's units.
    """

    fit_intercept: bool = True

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The noise to expect in the coefficients; looks at names and the number of rows only."""
        check_epsilon(self.epsilon)
        return self._mechanism(self._problem(X, y)).preview()


def missed(level: float) -> float:
    """1 - level, without the rounding of floats below the fifteenth place: 0.05 for 0.95."""
    return round(1 - level, 15)
