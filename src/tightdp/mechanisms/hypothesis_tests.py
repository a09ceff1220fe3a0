"""What tests of hypotheses share: a p-value from a release, power, and what is detected."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tightdp.errors import FloatArray, check_count, check_instance, check_within, fail
from tightdp.inference.monte_carlo_tests import (
    NUISANCE_RISK,
    Draws,
    p_value,
    power_at,
    release_source,
)
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.simulated_previews import PREVIEW_SEED
from tightdp.preview import ALPHA, POWER, Preview, in_words
from tightdp.randomness import SeededSource
from tightdp.release import Release
from tightdp.schema import Schema, check_schema, require_public_rows

P_VALUE = "p-value"
MOST_TESTED = 400
"""Entries of a release that is tested: a p-value takes a second then."""

_SIMULATED = 2_000
_MOST_ROWS = 1 << 34


def check_sample(schema: Schema, what: str) -> Schema:
    """Public facts for a test: n independent rows, n public."""
    require_public_rows(check_schema(schema), f"`{what}`")
    if schema.protected_rows not in (None, 1):
        fail(f"`{what}` needs one row of every person: rows must be independent.")
    if schema.rows > _MOST_ROWS:
        fail(f"`rows` must be at most {_MOST_ROWS} for `{what}`.")
    return schema


class PlannedReading(Reading):
    """Base: a test that says, before any release, what it would notice."""

    schema: Schema
    alternative: str = "two-sided"
    effect: str = "effect"
    """What an effect is, in words, for previews."""
    largest: float = 1.0
    """The largest effect that there can be."""

    @abstractmethod
    def _power(self, effect: Any, alpha: float, rows: int, stock: Any) -> float:
        """The chance that a test at level alpha notices an effect."""

    def _stock(self) -> Any:
        """What is drawn once for many questions about power."""
        return None

    @abstractmethod
    def _preview(self, confidence: float) -> Preview:
        """The errors of the entries beside the p-value."""

    def power(self, effect: Any, alpha: float = 0.05, rows: int | None = None) -> float:
        """The chance that a test at level alpha notices an effect, by simulation.

        Nuisance parameters count as known here, which is a little optimistic.
        """
        level = check_within("alpha", alpha, "(0, 1)")
        count = self.schema.rows if rows is None else check_count("rows", rows, most=_MOST_ROWS)
        return self._power(effect, level, count, self._stock())

    def rows_for(self, effect: Any, power: float = 0.8, alpha: float = 0.05) -> int:
        """The number of rows with which a test has such a power, to three digits."""
        level = check_within("alpha", alpha, "(0, 1)")
        wanted, stock = check_within("power", power, "(0, 1)"), self._stock()
        high = 2
        while self._power(effect, level, high, stock) < wanted:
            high *= 2
            if high > _MOST_ROWS:
                fail("`power` is out of reach: state a larger effect, epsilon or alpha.")
        low = high // 2
        while high - low > max(1, high // 512):
            middle = (low + high) // 2
            enough = self._power(effect, level, middle, stock) >= wanted
            low, high = (low, middle) if enough else (middle, high)
        return high

    def detects(self, power: float = 0.8, alpha: float = 0.05) -> float:
        """The least effect that a test at level alpha notices with such a power; NaN if none."""
        level, stock = check_within("alpha", alpha, "(0, 1)"), self._stock()
        wanted, rows = check_within("power", power, "(0, 1)"), self.schema.rows
        sign = -1.0 if self.alternative == "less" else 1.0
        if self._power(sign * self.largest, level, rows, stock) < wanted:
            return float("nan")
        low, high = 0.0, self.largest
        while high - low > 0.01 * high:
            middle = (low + high) / 2 if high < 64 * low or low == 0 else (low * high) ** 0.5
            enough = self._power(sign * middle, level, rows, stock) >= wanted
            low, high = (low, middle) if enough else (middle, high)
        return high

    def preview(self, confidence: float = 0.95) -> Preview:
        """The errors of the entries, and the least effect that is detected."""
        found = self._preview(confidence)
        return replace(
            found,
            names=(*found.names, P_VALUE),
            std=np.append(found.std, np.nan),
            half_width=np.append(found.half_width, 1.0),
            detects=in_words(self.effect, self.detects(POWER, ALPHA)),
        )


class HypothesisTest(PlannedReading):
    """Base: a test that reads its p-value off the release of another mechanism.

    **Privacy.** As for the source: the p-value is a function of the released integers and of public
    facts, with random numbers that the integers seed
    (:mod:`tightdp.inference.monte_carlo_tests`). No second look at the data is taken.
    """

    @abstractmethod
    def test_statistic(self, entries: FloatArray, rows: int) -> FloatArray:
        """What is large where the hypothesis does not hold, of entries along the last axis."""

    @abstractmethod
    def null_points(self, entries: FloatArray, bits: SeededSource) -> Sequence[Draws]:
        """The simple hypotheses of which all must be rejected, as draws; the likely one first."""

    @abstractmethod
    def facing(self, effect: Any, rows: int) -> tuple[Draws, Draws]:
        """How entries are drawn without an effect, and with one."""

    # --- the release --------------------------------------------------------------------------

    def noise_draws(self, bits: SeededSource, size: int) -> FloatArray:
        """Noise as it is released, in scaled entries, shape (size, entries)."""
        found = np.asarray(self.source.noise.sample(size, rng=bits))  # type: ignore[attr-defined]
        return found.astype(np.float64).reshape(size, -1) / float(self._resolution)

    @property
    def _resolution(self) -> int:
        found: int = self.source.resolution  # type: ignore[attr-defined]
        return found

    @property
    def noise_covariance(self) -> FloatArray:
        """Of the noise of the scaled entries, a matrix."""
        found: FloatArray = self.source.scaled_covariance()  # type: ignore[attr-defined]
        return np.diag(found) if found.ndim == 1 else found

    def p_value(self, release: Release) -> float:
        """The p-value of a release of the source: the same for everybody who reads it."""
        check_instance("release", release, Release)
        resolution = self._resolution
        entries = np.array([z / resolution for z in release.integers])
        return p_value(
            release.integers,
            entries,
            lambda bits: self.null_points(entries, bits),
            self.noise_draws,
            partial(self.test_statistic, rows=self.schema.rows),
        )

    def null_law(self, release: Release, size: int = 999) -> tuple[float, FloatArray]:
        """The statistic of a release, and simulated ones where nothing is to be found.

        At the likely nuisance parameters alone: for pictures.
        """
        check_instance("release", release, Release)
        count, bits = check_count("size", size), release_source(release.integers)
        entries = np.array([z / self._resolution for z in release.integers])
        draw, noise = self.null_points(entries, bits)[0], self.noise_draws(bits, count)
        rows = self.schema.rows
        found = self.test_statistic(draw(bits, count) + noise, rows)
        return float(self.test_statistic(entries, rows)), found

    def read(self, release: Release) -> Release:
        """What the source publishes, and the p-value as the last entry."""
        if release.names and release.names[-1] == P_VALUE:
            return release  # read already
        return with_p_value(self._published(release), self.p_value(release))

    def _published(self, release: Release) -> Release:
        """The entries beside the p-value: those of the release, by default."""
        return release

    # --- before any release -------------------------------------------------------------------

    def _stock(self) -> FloatArray:
        return self.noise_draws(SeededSource(PREVIEW_SEED), _SIMULATED)

    def _power(self, effect: Any, alpha: float, rows: int, stock: FloatArray) -> float:
        statistic = partial(self.test_statistic, rows=rows)
        level = max(alpha - NUISANCE_RISK, alpha / 2)
        return power_at(*self.facing(effect, rows), stock, statistic, level)

    def _preview(self, confidence: float) -> Preview:
        return self.source.preview(confidence)


def check_side(alternative: str, line: bool) -> None:
    """A side needs an order."""
    if alternative != "two-sided" and not line:
        fail("`alternative` must be 'two-sided' for more than two groups without a trend.")


def with_p_value(release: Release, value: float) -> Release:
    """A release with one entry more, which has no error of its own."""
    size = len(release.names)
    spread = release.covariance
    covariance = np.full((size + 1, size + 1), np.nan)
    covariance[:size, :size] = np.diag(spread) if spread.ndim == 1 else spread
    ends = None
    if release.ends is not None:
        ends = np.vstack([release.ends, [np.nan, np.nan]])
    return replace(
        release,
        names=(*release.names, P_VALUE),
        value=np.append(release.value, value),
        covariance=covariance,
        half_width=np.append(release.half_width, np.nan),
        ends=ends,
        unknown=(*release.unknown, P_VALUE),
        axes=(),
    )
