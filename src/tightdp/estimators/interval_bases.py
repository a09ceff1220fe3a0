"""Intervals of fitted models: one call for all, and one meaning for what each covers."""

from __future__ import annotations

from abc import abstractmethod

from sklearn.utils.validation import check_is_fitted

from tightdp.errors import FloatArray, check_choice, check_confidence
from tightdp.estimators.private_estimator import M, PrivateEstimator
from tightdp.printed import Covers


class WithIntervals(PrivateEstimator[M]):
    """Base of estimators that say how far off their numbers can be."""

    @abstractmethod
    def conf_int(
        self, *, confidence: float | None = None, covers: Covers | None = None
    ) -> FloatArray:
        """Rows (low, high), at the level of the fit and for the widest there is, unless said."""

    def _asked(self, confidence: float | None, covers: str | None) -> tuple[float, str]:
        """The level and what is to be covered, checked."""
        check_is_fitted(self, "release_")
        level = self.release_.confidence if confidence is None else check_confidence(confidence)
        known = self._covered()
        return level, known[-1] if covers is None else check_choice("covers", covers, known)

    def _covered(self) -> tuple[str, ...]:
        """What the intervals of this fit can cover, the widest last."""
        return ("population",)


class WithCoefficients(WithIntervals[M]):
    """Base of regressions: coefficients, with intervals for those of the population.

    Parameters
    ----------
    fit_intercept : bool
        Without an intercept the plane passes through the zero of the user's units.
    """

    fit_intercept: bool = True


def missed(level: float) -> float:
    """1 - level, without the rounding of floats below the fifteenth place: 0.05 for 0.95."""
    return round(1 - level, 15)
