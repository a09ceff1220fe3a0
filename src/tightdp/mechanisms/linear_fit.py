"""The line that a release of noisy moments leaves, with its intervals: computed from it alone."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import FloatArray, check_choice
from tightdp.inference.coefficient_intervals import (
    Candidates,
    Wanted,
    candidates,
    holding,
    moved,
    quantile_intervals,
    simultaneous_intervals,
)
from tightdp.inference.coefficient_tests import p_value
from tightdp.inference.moment_solver import NoisyMoments, SecondLook
from tightdp.inference.tilted_moments import TiltedLook, TiltedMoments
from tightdp.randomness import SeededSource
from tightdp.shaping.moment_noise import LENGTH

if TYPE_CHECKING:
    from tightdp.inference.uneven_errors import ErrorSizes
    from tightdp.mechanisms.least_squares import LeastSquares

ASSUMPTIONS = ("equal variance",)


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A regression computed from released moments and public facts alone.

    ``products`` holds the mean products of (1, d, y), scaled, as they were released, ``rows`` the
    number of rows, if it is a noisy one, ``look`` what a second look at the rows has shown,
    ``sizes`` what one at the errors has, and ``tilt`` of what the products follow, if they were
    not released themselves.
    """

    mechanism: LeastSquares
    products: FloatArray
    rows: float = 0.0
    look: SecondLook | None = None
    sizes: ErrorSizes | None = None
    tilt: TiltedLook | None = None
    _drawn: dict[str | None, Candidates] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows or float(self.mechanism.schema.rows))

    @property
    def coefficients(self) -> FloatArray:
        """Intercept (0 without one) and slopes in user units."""
        return self._in_user_units(self.solve()[None])[0]

    def intervals(
        self, alpha: float, *, simultaneous: bool = False, assume: str | None = None
    ) -> FloatArray:
        """Rows (low, high) for intercept and slopes; see :meth:`LinearRegression.conf_int`."""
        rule = simultaneous_intervals if simultaneous else quantile_intervals
        found = self.candidates(assume)
        values, room = self._in_user_units(found.values), self._room(found)
        return holding(self.coefficients, rule(values - room, alpha, values + room))

    def tested(
        self, weights: FloatArray, estimate: FloatArray, null: FloatArray, assume: str | None
    ) -> float:
        """The p-value of the equations ``weights @ coefficients = null``, in user units."""
        values, room, draws = self.sums(weights, assume)
        together = assume is not None
        return p_value(values, estimate, null, draws, ellipsoid=together, room=room)

    def sums(
        self, weights: FloatArray, assume: str | None = None
    ) -> tuple[FloatArray, FloatArray, int]:
        """Candidates for ``weights @ coefficients`` in user units, their room, and how many noises
        they have.

        A sum of several has candidates of its own: where errors may have unequal variance it has a
        largest sampling error of its own, and of columns that vary together each alone may have any
        slope, but not their sum.
        """
        if (np.count_nonzero(weights, axis=1) > 1).any():
            design = self.mechanism.design
            found = self._simulated(assume, weights @ design.linear)
            values, room = found.values + weights @ design.offset, found.room
        else:
            found = self.candidates(assume)
            place = np.abs(weights).argmax(axis=1)
            weight = weights[np.arange(len(weights)), place]
            values = self._in_user_units(found.values)[:, place] * weight
            room = self._room(found)[:, place] * np.abs(weight)
        return values, room, len(found.noise_only)

    def _room(self, found: Candidates) -> FloatArray:
        """How far the clamp of a second look can have moved candidates, in user units."""
        room = np.asarray(found.room * self.mechanism.design.units)
        if not self.mechanism.fit_intercept:
            room[:, 0] = 0.0
        return room

    @property
    def clamped(self) -> str:
        """Which targets the second look has moved, in words; nothing where there was none."""
        half = float(self.mechanism.design.half[-1])
        if self.tilt is not None:
            return (
                f"residuals beyond {self.tilt.reach * half:.3g} count as so large, and intervals "
                "count what that can have changed"
            )
        if self.look is None:
            return ""
        reach = self.look.reach * half
        return (
            f"targets farther than {reach:.3g} from a first line were moved to there, and "
            "intervals count what that can have changed"
        )

    def unclipped(self) -> LinearFit:
        """The same as if no residual had been clipped: what the clip costs intervals."""
        assert self.tilt is not None
        return replace(self, tilt=replace(self.tilt, moved=-np.inf), _drawn={})

    def noise_std(self, assume: str | None = None) -> FloatArray:
        """Half the distance of the quantiles of the noise one sigma away.

        Infinite where as much of the noise as lies beyond one of them hides how features vary.
        """
        found = self.candidates(assume)
        bare = self._in_user_units(found.noise_only)
        lost = np.isinf(found.room[:: len(found.room) // len(bare)])
        low = np.quantile(np.where(lost, -np.inf, bare), 0.1587, axis=0, method="lower")
        high = np.quantile(np.where(lost, np.inf, bare), 0.8413, axis=0, method="higher")
        return np.asarray((high - low) / 2)

    def candidates(self, assume: str | None = None) -> Candidates:
        """Scaled coefficients that the released moments are compatible with, simulated once."""
        if assume is not None:
            check_choice("assume", assume, ASSUMPTIONS)
        if assume not in self._drawn:
            self._drawn[assume] = self._simulated(assume)
        return self._drawn[assume]

    def _simulated(self, assume: str | None, combined: FloatArray | None = None) -> Candidates:
        mechanism, rng, noisy = self.mechanism, SeededSource(self._seed()), self._noisy()
        origin, look = mechanism.design.origin, self.tilt or self.look
        shift = None if mechanism.fit_intercept else -origin

        def noise(count: int) -> FloatArray:
            drawn = mechanism.moments.simulate(count, rng=rng)
            first = mechanism.statistic.on_products(drawn, self.products, self.rows)
            if mechanism.tilted is not None and self.tilt is not None:
                return noisy.combined_noise(first, mechanism.tilted.simulate(self.tilt, count, rng))
            if mechanism.looks is None or self.look is None:
                return first
            return noisy.combined_noise(first, mechanism.looks.simulate(self.look, count, rng))

        return candidates(
            noisy.combined(),
            noise,
            self._independent_rows(),
            rng,
            Wanted(
                shift=shift,
                ridge=mechanism.ridge(self.rows),
                origin=origin[:-1],
                equal_variance=assume is not None,
                line=noisy.line(length=LENGTH, ridge=mechanism.ridge(self.rows), shift=shift),
                combined=combined,
                sizes=self.sizes,
                farthest=look.farthest if look is not None else 0.0,
                levels=mechanism.design.levels,
            ),
        )

    def _noisy(self) -> NoisyMoments:
        """The released moments with the law of their noise."""
        mechanism = self.mechanism
        known = (mechanism.statistic, self.products, mechanism.moments.covariance, self.rows)
        if self.tilt is not None:
            return TiltedMoments(*known, tilt=self.tilt)
        return NoisyMoments(*known, self.look)

    def _seed(self) -> int:
        """Of simulations after the release: the same for a release, another one for the next.

        With one seed for all, the same draws would decide how often intervals of one mechanism
        hold, for everybody and again and again.
        """
        first = zlib.crc32(np.ascontiguousarray(self.products).data)
        if self.look is None:
            return first
        return zlib.crc32(np.ascontiguousarray(self.look.products).data, first)

    def _independent_rows(self) -> int:
        """Rows that the sampling error is that of: fewer, where they are counted or a person's."""
        low = self.mechanism.statistic.least_rows(self.rows, self.mechanism.moments.covariance)
        return max(1, int(low / self.mechanism.schema.rows_per_person))

    def _in_user_units(self, scaled: FloatArray) -> FloatArray:
        found = self.mechanism.design.to_user(scaled)
        if not self.mechanism.fit_intercept:
            found[:, 0] = 0.0
        return found

    def solve(self) -> FloatArray:
        """(intercept, slopes) for scaled columns; one row for each of many matrices of products."""
        mechanism = self.mechanism
        if mechanism.post != "shrink":
            return self._published()
        return self._noisy().line(
            length=LENGTH,
            ridge=mechanism.ridge(self.rows),
            shift=None if mechanism.fit_intercept else -mechanism.design.origin,
        )

    def _published(self) -> FloatArray:
        """The pseudo-inverse of Awan and Slavkovic (2021), or their ridge, on the moments as
        they are."""
        mechanism, M = self.mechanism, self.products
        first, origin = (0 if mechanism.fit_intercept else 1), mechanism.design.origin
        if not mechanism.fit_intercept:
            M = moved(M, -origin)
        G, c = M[..., first:-1, first:-1], M[..., first:-1, -1]
        penalty = np.append([0.0] * (1 - first), mechanism.ridge(self.rows))
        if mechanism.post == "published":
            size = len(mechanism.statistic)
            penalty = penalty + 16 * size / (float(mechanism.epsilon) * self.rows)
        found = (np.linalg.pinv(G + np.diag(penalty)) @ c[..., None])[..., 0]
        if not mechanism.fit_intercept:
            level = origin[-1] - found @ origin[:-1]
            found = np.concatenate([level[..., None], found], axis=-1)
        return np.asarray(found)
