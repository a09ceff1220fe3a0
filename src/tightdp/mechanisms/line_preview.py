"""The errors of the coefficients of a regression before any release, for stated columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray, check_confidence, fail
from tightdp.inference.expected_errors import Spread, coefficient_covariance
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.simulated_previews import simulated_preview
from tightdp.preview import Preview, of_rows
from tightdp.release import Release
from tightdp.schema import Schema
from tightdp.shaping.moment_noise import LENGTH

if TYPE_CHECKING:
    from tightdp.mechanisms.error_look import ErrorLook
    from tightdp.mechanisms.split_mechanism import SplitMechanism
    from tightdp.mechanisms.tilted_squares import TiltedSquares
    from tightdp.mechanisms.two_looks import TwoLooks

PREVIEWED_ROWS = "features that fill their bounds evenly, not correlated"
_SLOPES = f"slopes of length {LENGTH**0.5:.2g} between columns scaled to [-1, 1], more if steeper"

_NARROW = 1 / 5  # of their bounds, which features of real tables often fill
_CORRELATED = 0.8


class PreviewedLine(Reading):
    """Base: a regression that says the noise to expect on its coefficients, from public facts.

    Subclasses set what was stated of the columns, the moments and what draws them, and read
    coefficients off a release (``fit``).
    """

    schema: Schema
    names: tuple[str, ...]
    spread: Spread | None
    correlation: float | None
    fit_intercept: bool
    statistic: RegressionMoments
    design: DesignMatrix
    bodies: str
    moments: SplitMechanism
    looks: TwoLooks | None
    errors: ErrorLook | None
    tilted: TiltedSquares | None

    def preview(self, confidence: float = 0.95) -> Preview:
        """Noise on the coefficients, for features that fill their bounds evenly, not correlated.

        It says how much more there is where they fill a fifth of their bounds, and where they are
        correlated, too; or it is for what was stated of them. Slopes multiply the noise of the
        features' own moments and of a private number of rows: the note says for which slopes it
        is. Of two stages releases are simulated, on rows whose target fills its bounds evenly, too.
        """
        if self.looks is not None:  # what the second look costs depends on the residuals
            return simulated_preview(self, self.schema, check_confidence(confidence), _named)
        if self.tilted is not None:
            return self._tilted_preview(check_confidence(confidence), self.tilted)
        level, stated = check_confidence(confidence), self._stated()
        std = self.expected_std(spread=stated[0], correlation=stated[1])
        std = std if self.fit_intercept else std[1:]
        # a coefficient sums many noisy moments: nearly normal; Bonferroni makes it simultaneous
        half = float(scipy.special.ndtri(1 - (1 - level) / (2 * len(std)))) * std
        said = f"{self._assumed(std)}; {_SLOPES}; shrinkage not counted; noise: {self.bodies}"
        assumes = of_rows(self.schema, said)
        first = self.moments.epsilon / self.epsilon
        shares = {part.name: part.share * first for part in self.moments.parts}
        shares |= {} if self.errors is None else {"intervals": self.errors.share}
        told = ", ".join(f"{name} {float(share):.0%}" for name, share in shares.items())
        noise = f"shares of epsilon: {told}"
        return Preview(self.names, std, half, level, self.guarantee(), noise, assumes)

    def _tilted_preview(self, level: float, tilted: TiltedSquares) -> Preview:
        variance, half = tilted.expected(level)
        noise = f"shares of epsilon: minimiser {float(1 - tilted.share):.0%}, intervals " + (
            f"{float(tilted.share):.0%}"
        )
        assumes = of_rows(
            self.schema,
            f"{PREVIEWED_ROWS}, and residuals of less than a quarter of "
            "the width of the target's bounds",
        )
        return Preview(self.names, np.sqrt(variance), half, level, self.guarantee(), noise, assumes)

    def _stated(self) -> tuple[Spread, float]:
        """The spread and the correlation that were stated, or even columns."""
        return (1.0 if self.spread is None else self.spread), self.correlation or 0.0

    def _assumed(self, std: FloatArray) -> str:
        """For which rows the preview is, and how much noise there is for others."""
        if self.spread is not None or self.correlation is not None:
            spread, correlation = self._stated()
            each = spread if isinstance(spread, Mapping) else {"numeric features": spread}
            fill = ", ".join(f"{name} {share:.0%}" for name, share in each.items())
            return f"features that fill as much of their bounds as stated ({fill}), correlated " + (
                f"{correlation:g}"
            )
        narrow, both = (
            float((found[-len(std) :] / np.maximum(std, np.finfo(float).tiny)).max())
            for found in (
                self.expected_std(spread=_NARROW),
                self.expected_std(spread=_NARROW, correlation=_CORRELATED),
            )
        )
        more = f"if numeric ones fill a fifth of them, up to {narrow:.3g} times as much"
        also = f", and {both:.3g} times if also correlated {_CORRELATED:g}" if both > narrow else ""
        return f"{PREVIEWED_ROWS}; {more}{also}"

    def expected_std(self, *, spread: Spread = 1.0, correlation: float = 0.0) -> FloatArray:
        """Standard deviations to expect of the noise on intercept and slopes, in user units."""
        return np.sqrt(np.diag(self.expected_covariance(spread=spread, correlation=correlation)))

    def expected_covariance(self, *, spread: Spread = 1.0, correlation: float = 0.0) -> FloatArray:
        """The covariance to expect of the noise on intercept and slopes, in user units.

        For numeric features that fill the middle of their bounds evenly, a share ``spread`` of it,
        and have one correlation. Not of two stages, whose noise depends on the residuals:
        :meth:`preview` simulates it.
        """
        if self.looks is not None or self.tilted is not None:
            fail("This is for one look at the moments: `preview` says what to expect here.")
        moments = self.statistic
        scaled = coefficient_covariance(
            moments,
            self.moments.covariance / self.schema.rows**2,
            length=LENGTH,
            shift=None if self.fit_intercept else -self.design.origin,
            spread=spread,
            correlation=correlation,
        )
        units = self.design.linear.copy()
        if not self.fit_intercept:
            units[0] = 0.0
        return np.asarray(units @ scaled @ units.T)


def _named(line: Any, release: Release) -> tuple[tuple[str, ...], FloatArray]:
    """Coefficients and their names, without intervals."""
    return line.names, line.fit(release).coefficients[0 if line.fit_intercept else 1 :]
