"""Additive mechanisms: an exact integer statistic plus exact noise, of one law or one by range."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.answer import Answer
from tightdp.data.one_pass import IntegerSum
from tightdp.data.statistics import MOST_ENTRIES, Statistic
from tightdp.data.table import check_frame, check_public_rows
from tightdp.design.composed_law import ComposedDesign
from tightdp.design.designs import Design
from tightdp.design.vector_law import VectorDesign
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_confidence,
    check_instance,
    check_length,
    check_most,
    fail,
)
from tightdp.geometry.norm_balls import NormBall
from tightdp.mechanisms.mechanism import Finish, Mechanism, warn_of_delta
from tightdp.noise.law import NoiseLaw
from tightdp.noise.range_noise import RangeNoise
from tightdp.preview import Preview
from tightdp.randomness import RandomSource
from tightdp.release import Draft, Known, Release
from tightdp.shaping.ball_noise import SHAPES, BallNoise
from tightdp.shaping.coordinate_noise import FAMILIES, CoordinateNoise, check_share
from tightdp.shaping.coverage import Covering, certify_moves
from tightdp.shaping.vector_noise import VectorNoise

_WORTH = 0.99
_FLOATS = 2.0**-49  # relative rounding of a sum of a few doubles
_LARGEST_ROW = 4.0  # no row adds more to an entry of a scaled statistic
_FINEST = 1 << 20  # lattice points per unit of the scaled statistic


class PreparedNoise(Covering, Protocol):
    """Noise made for one statistic: its law, its price and its lattice."""

    epsilon: Fraction
    delta: Fraction
    bits: int
    factor: int
    """How much finer the lattice of the noise is than that of the statistic."""

    @property
    def cost(self) -> Cost: ...
    @property
    def resolution(self) -> int: ...
    @property
    def draws(self) -> Any: ...
    @property
    def words(self) -> str: ...

    def covariance(self) -> FloatArray: ...
    def reach(self, linear: FloatArray, confidence: float) -> FloatArray: ...


def lost_to_the_grid(statistic: Statistic, bits: int) -> FloatArray:
    """How far rounding, of cells to the grid and of doubles, moves the scaled entries at worst."""
    if statistic.degree == 0:
        return np.zeros(len(statistic))  # counts are integers, and so are doubles that hold them
    return statistic.rounding(bits) + _FLOATS * statistic.schema.rows * _LARGEST_ROW


class AdditiveMechanism(Mechanism):
    r"""Releases :math:`t(X) + z`: an integer statistic plus the least exact noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows; delta is 0 for balls.
    Needs: [P1] the ball contains the sensitivity space, or the laws cover the moves of their
    entries (certified at construction, :mod:`tightdp.shaping.coverage`); [P2] t(X) is the exact
    integer vector of quantised rows; [P3] the noise has its stated law.
    Proof: a quantised row is a row of the domain, so neighbours move t(X) / resolution within the
    sensitivity space, r times as far for r rows of a person [P2]. A ball: their integer difference
    has level at most L, and :class:`~tightdp.LatticeNoise` is epsilon-DP for it [P1, P3]. Laws: at
    most t entries move, each law is private for the move of its entry, and the t costliest are
    composed: by sums, or exactly for laws made for a budget. A design in the plane: its ball,
    scaled, holds the sensitivity space. Numerics: ``exact``.
    Order of events: parameters, column names and types are checked, the ledger is charged, the
    noise is drawn, and only then are rows read; what fails later stays paid for.

    Attributes
    ----------
    certified : str
        How the cover of all moves was proved at construction: "exact", by integers on all extreme
        rows, or "by structure", by geometry and integers on a choice of rows.

    Parameters
    ----------
    statistic : Statistic
    noise : str, NormBall, law or Design
        A shape for the whole vector ("hull", "best", "l1", "l2", "linf" or a ball), or a law for
        every entry ("laplace", "staircase", "tulap", "truncated-laplace", "gaussian", "designed",
        a law or a design). "hull" is the convex hull of the sensitivity space; "best" the feasible
        shape, or the staircase, with the least predicted variance; a ball of your own must contain
        the space, which is proved or refused. A named law shares the budget among the entries that
        one person can move; "designed" is the certified least mean error for it
        (:func:`~tightdp.design_noise`). A law or design of your own is scaled from its sensitivity
        to that of every entry; a :class:`~tightdp.VectorDesign` to that of a statistic with as many
        entries, a :class:`~tightdp.ComposedDesign` to two entries, each with its own law.
    epsilon : float, Fraction or Decimal
        A float means its shortest decimal. With a law of your own it may be left out.
    delta : float, Fraction or Decimal
        For "truncated-laplace", "tulap", "gaussian" and "designed"; balls spend none.

    Examples
    --------
    >>> from tightdp import Category, Counts, Schema
    >>> schema = Schema({"k": Category(["a", "b", "c"], other="a")}, rows=1000)
    >>> mechanism = AdditiveMechanism(Counts(schema), epsilon=1.0)
    >>> mechanism.preview().std.round(3)
    array([1.778, 1.778, 1.778])
    >>> lossy = AdditiveMechanism(Counts(schema), noise="gaussian", epsilon=1.0, delta=1e-6)
    >>> print(lossy.guarantee())
    epsilon = 1, delta = 1e-06, replace-one neighbours, exact
    """

    def __init__(
        self,
        statistic: Statistic,
        *,
        noise: object = "hull",
        epsilon: Number | None = None,
        delta: Number = 0,
    ) -> None:
        check_instance("statistic", statistic, Statistic)
        fewer = "take fewer bins, categories or levels"
        check_most("statistic", len(statistic), MOST_ENTRIES, "entries", fewer)
        self._adopt(statistic, _choose(statistic, noise, epsilon, delta))

    def _adopt(self, statistic: Statistic, choice: PreparedNoise) -> None:
        self.statistic, self.neighbors = statistic, statistic.schema.neighbors
        self.certified = self._certify(statistic, choice)  # [P1]
        self._choice = choice
        self.epsilon, self.delta = choice.epsilon, choice.delta
        self.bits, self.noise = choice.bits, choice.draws
        self._known_errors: dict[float, tuple[FloatArray, FloatArray]] = {}

    def _certify(self, statistic: Statistic, choice: PreparedNoise) -> str:
        """Let pass only noise that covers the moves; how far that is proved."""
        return certify_moves(statistic, choice).certified

    @property
    def cost(self) -> Cost:
        """What a release costs, by what its noise knows of itself."""
        return self._choice.cost

    @property
    def picture(self) -> str:
        return "rows" if self.statistic.degree else "bars"

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def ball(self) -> NormBall:
        """The ball that shapes the noise."""
        if isinstance(self._choice, BallNoise):
            return self._choice.ball
        fail("This mechanism draws its noise entry by entry: there is no ball.")

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self._choice.resolution

    @property
    def law(self) -> str:
        """The exact law of the noise, in words."""
        return self._choice.words

    def exact(self, frame: TableLike, *, progress: bool = False) -> list[int]:
        """The statistic on the lattice of the noise. **Not private.**"""
        sums = self.statistic.measure(frame, bits=self.bits, progress=progress)
        return [self._choice.factor * int(t) for t in sums]

    def _errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Covariance and simultaneous half-widths of the noise in user units, found once."""
        if confidence not in self._known_errors:
            self._known_errors[confidence] = self._find_errors(confidence)
        covariance, half = self._known_errors[confidence]
        return covariance.copy(), half.copy()

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        if type(self.statistic).recover is Statistic.recover:  # in the units of the noise
            whole = np.eye(len(self.statistic))
            return self._choice.covariance(), self.reach(whole, confidence)
        zero, recover = np.zeros(len(self.statistic)), self.statistic.recover
        origin = recover(zero)
        linear = np.column_stack([recover(e) - origin for e in np.eye(len(zero))])
        covariance = linear @ self._choice.covariance() @ linear.T
        return covariance, self.reach(linear, confidence) + _FLOATS * np.abs(origin)

    def half_widths(self, confidence: float) -> FloatArray:
        return self._errors(confidence)[1]

    def scaled_covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled entries."""
        return self._choice.covariance()

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of linear images of the scaled entries, for all of them at once.

        They count the noise, and what rows lose by being rounded to the grid, at worst.
        """
        lost = lost_to_the_grid(self.statistic, self.bits)
        return self._choice.reach(linear, confidence) + np.abs(linear) @ lost

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect, from public facts alone; costs nothing."""
        level = check_confidence(confidence)
        covariance, half = self._errors(level)
        return Preview(
            self.statistic.names,
            np.sqrt(np.diag(covariance)),
            half,
            level,
            self.guarantee(),
            self.law,
        )

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The entries of a release; their intervals can be asked for at any level."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        found = Answer.of(self.at_level(release, level))
        units = self.statistic.units
        return replace(found, about=f"{found.about}; {units}") if units else found

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def shape_facts(self) -> list[str]:
        return self._choice.facts() if isinstance(self._choice, BallNoise) else []

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.statistic.schema, self.statistic.columns)
        check_public_rows(frame, self.statistic.schema)
        warn_of_delta(self.delta, self.statistic.schema)

    def integer_sums(self) -> Sequence[IntegerSum]:
        return [self.statistic.integer_sum(self.bits)]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        noise = self.noise.sample(rng=rng)  # before the data are read: its timing tells nothing
        self._errors(confidence)  # found before data are read, too

        def finish(table: TableLike, progress: bool) -> Draft:
            exact = self.exact(table, progress=progress)
            return self.draft([t + int(z) for t, z in zip(exact, noise, strict=True)], confidence)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)

    def draft(self, noisy: Sequence[int], confidence: float) -> Draft:
        """Noisy integers in user units, with their errors."""
        covariance, half = self._errors(confidence)
        value = self.statistic.recover(np.array([z / self.resolution for z in noisy]))
        error = Known(covariance=covariance, half_width=half)
        names, axes = self.statistic.names, self.statistic.axes
        return Draft.of(names, value, noisy, self.resolution, error, axes)


def _choose(
    statistic: Statistic, noise: object, epsilon: Number | None, delta: Number
) -> PreparedNoise:
    """A ball for the whole vector, a law for every entry, or a law for all at once."""
    if isinstance(noise, VectorDesign):
        return VectorNoise(statistic, noise, epsilon, delta)
    if isinstance(noise, (NoiseLaw, Design, ComposedDesign)) or (
        isinstance(noise, str) and noise in FAMILIES
    ):
        return CoordinateNoise(statistic, noise, epsilon, delta)
    if not isinstance(noise, NormBall):
        check_choice("noise", noise, (*SHAPES, *FAMILIES))
    if epsilon is None:
        fail("`epsilon` must be given: it is how much privacy the release spends.")
    if check_share(delta):
        fail(
            "`delta` must be 0 for noise shaped like a ball, which spends none. Leave it out, or "
            "choose noise='designed', 'truncated-laplace', 'tulap' or 'gaussian'."
        )
    ball = BallNoise(statistic, noise, epsilon)
    if isinstance(noise, str) and noise == "best":
        return _least(ball, _laws(statistic, ball.epsilon))
    return ball


def _laws(statistic: Statistic, epsilon: Fraction) -> list[CoordinateNoise]:
    """Laws for every entry that may have less noise than a ball, and cost no delta.

    Independent geometric noise is that of the l1 ball. What can be less is a staircase, and it is
    from an epsilon of about 1 for each entry that a row moves; one entry is always worth a try.
    """
    shares = min(len(statistic), statistic.touched() * statistic.schema.rows_per_person)
    if shares > 1 and epsilon < shares:
        return []
    return [CoordinateNoise(statistic, "staircase", epsilon, 0)]


def _least(ball: BallNoise, laws: list[CoordinateNoise]) -> PreparedNoise:
    """The noise with the least predicted variance; laws must gain a percent to be taken.

    Of several entries some may be far out where each alone seldom is: their law must not have the
    wider intervals, either.
    """
    for law in laws:
        if np.trace(law.covariance()) < _WORTH * np.trace(ball.covariance()):
            whole = np.eye(len(law.laws))
            widths = [np.mean(noise.reach(whole, 0.95)) for noise in (law, ball)]
            if len(law.laws) == 1 or widths[0] <= widths[1]:
                return law
    return ball


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
