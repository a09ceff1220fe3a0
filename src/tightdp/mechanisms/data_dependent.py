"""The mechanism of noise designed for a range: an exact integer plus noise of a law by interval."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Protocol

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.statistics import Statistic
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import Draft, Known
from tightdp.errors import (
    FloatArray,
    check_confidence,
    check_instance,
    check_length,
    fail,
)
from tightdp.mechanisms.additive import lost_to_the_grid
from tightdp.mechanisms.mechanism import Mechanism, warn_of_delta
from tightdp.noise.range_noise import RangeNoise
from tightdp.preview import Preview
from tightdp.randomness import RandomSource

_FINEST = 1 << 20  # lattice points per unit of the scaled statistic


class RangeDesign(Protocol):
    """What the mechanism needs of a design; :class:`~tightdp.DataDependentDesign` has it."""

    @property
    def epsilon(self) -> Fraction: ...
    @property
    def delta(self) -> Fraction: ...
    @property
    def sensitivity(self) -> Fraction: ...
    @property
    def low(self) -> Fraction: ...
    @property
    def resolution(self) -> int: ...

    def noise(self, points: int = 1) -> RangeNoise: ...
    def verify(self) -> bool: ...


class DataDependentMechanism(Mechanism):
    r"""Releases :math:`t(X) + Z_g`: the law of the noise depends on the interval g of :math:`t(X)`.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows.
    Needs: [P1] the design's proof, checked again at construction; [P2] t(X) is the exact integer of
    quantised rows, clamped to the public range; [P3] ``reach`` cells of ``points`` integers hold
    the largest change of t(X).
    Proof: neighbours move t(X), also clamped, by at most its integer sensitivity [P2], which is at
    most ``reach * points`` [P3]; :class:`~tightdp.RangeNoise` is
    (epsilon, delta)-DP for it [P1]. Which interval was met stays inside: the random integers are
    drawn before the data are read, and the stated errors are those of the worst interval.
    Numerics: ``exact``.
    Order of events: as in :class:`~tightdp.AdditiveMechanism`. The ``covariance`` of a release is
    the mean square error in the worst interval: the error in the one that was met is not public.

    Parameters
    ----------
    statistic : Statistic
        With one entry.
    design : DataDependentDesign
        For the sensitivity of the statistic in the units of its releases.

    Examples
    --------
    >>> from tightdp import Interval, Schema, Sums, design_data_dependent_noise
    >>> sums = Sums(Schema({"x": Interval(0, 10)}, rows=20))
    >>> design = design_data_dependent_noise(
    ...     epsilon=1.0, delta=0.01, sensitivity=10, query_range=(0, 200), resolution=2)
    >>> mechanism = DataDependentMechanism(sums, design=design)
    >>> release = mechanism.release({"x": [5.0] * 20}, rng=1)
    >>> 0 < float(release.noise_std[0]) < 25
    True
    """

    def __init__(self, statistic: Statistic, *, design: RangeDesign) -> None:
        check_instance("statistic", statistic, Statistic)
        check_length("statistic", len(statistic), 1, "entry")
        if not hasattr(design, "verify") or not hasattr(design, "low"):
            fail(f"`design` must be a DataDependentDesign. Got {type(design).__name__}.")
        design.verify()  # [P1]
        self.statistic, self.design = statistic, design
        self.neighbors = statistic.schema.neighbors
        self.epsilon, self.delta = design.epsilon, design.delta
        self.bits = statistic.bits_within(_FINEST)
        origin, unit = (float(statistic.recover(np.array([s]))[0]) for s in (0.0, 1.0))
        self._slope = unit - origin
        if not self._slope > 0:
            fail("`statistic` must grow with its scaled values.")
        rows = statistic.schema.rows_per_person
        change = float(statistic.sensitivity_space().sensitivity(p=1)) * rows
        self._check_sensitivity(change * self._slope)
        steps = math.ceil(Fraction(change) * self.resolution)
        self.noise = design.noise(-(-steps // design.resolution))  # [P3]
        start = (design.low - Fraction(origin)) / Fraction(self._slope) * self.resolution
        self.first = math.floor(start)

    def _check_sensitivity(self, change: float) -> None:
        given = float(self.design.sensitivity)
        if abs(given - change) > 1e-9 * change:
            fail(
                "`design` must be made for the sensitivity of the statistic, "
                f"{change:.10g}. Got a design for {given:.10g}."
            )

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self.statistic.resolution(self.bits)

    @property
    def law(self) -> str:
        """The exact law of the noise, in words."""
        digest = hashlib.sha256(repr(self.noise.tables).encode()).hexdigest()[:16]
        return (
            f"{len(self.noise.tables)} tables {digest} of {len(self.noise.tables[0])} cells of "
            f"{self.noise.points} integers from cell {self.noise.start}, for values from "
            f"{self.first} cut at cells {list(self.noise.edges)}, in units of 1/{self.resolution}"
        )

    def _errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Mean square and half-width in the worst interval, in user units.

        The half-width counts the noise, and what rows lose by being rounded to the grid, at worst.
        """
        scale = self._slope / self.resolution
        square = float(self.noise.second_moments().max()) * scale**2
        lost = self._slope * lost_to_the_grid(self.statistic, self.bits)
        return np.array([[square]]), self.noise.half_width(confidence) * scale + lost

    def half_widths(self, confidence: float) -> FloatArray:
        return self._errors(confidence)[1]

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error in the interval of the range where it is largest; costs nothing."""
        level = check_confidence(confidence)
        covariance, half = self._errors(level)
        std, said = np.sqrt(np.diag(covariance)), (self.guarantee(), self.law)
        return Preview(self.statistic.names, std, half, level, *said, "a value where noise is most")

    def at(self, epsilon: Number) -> DataDependentMechanism:
        fail("A designed noise has one epsilon: design another one (design_data_dependent_noise).")

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.statistic.schema, self.statistic.columns)
        check_public_rows(frame, self.statistic.schema)
        warn_of_delta(self.delta, self.statistic.schema)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        drawn = self.noise.prepare(rng)[0]  # before the data are read
        covariance, half = self._errors(confidence)
        exact = self.statistic.measure(frame, bits=self.bits, progress=progress)[0]
        query = self.noise.clamp(int(exact) - self.first)  # [P2]
        noisy = self.first + query + self.noise.noise(query, drawn)
        value = self.statistic.recover(np.array([noisy / self.resolution]))
        error = Known(covariance=covariance, half_width=half)
        return Draft.of(self.statistic.names, value, (noisy,), self.resolution, error)
