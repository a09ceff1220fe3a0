"""The additive mechanism: an exact integer statistic plus exact noise, by name, shape or law."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
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
from tightdp.draft import Draft, Known
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    ParameterError,
    UndecidedError,
    check_choice,
    check_confidence,
    check_instance,
    check_most,
    fail,
    quoted,
)
from tightdp.geometry.norm_balls import NormBall
from tightdp.mechanisms.mechanism import Finish, Mechanism, warn_of_delta
from tightdp.noise.law import NoiseLaw
from tightdp.noise.rounded_gaussian import RoundedGaussian
from tightdp.preview import Preview, coarse_grid
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.shaping.ball_noise import SHAPES, BallNoise
from tightdp.shaping.cell_noise import CELL_NOISES, FEW_CELLS, SymmetricNoise
from tightdp.shaping.coordinate_noise import (
    FAMILIES,
    LOSSY,
    PURE,
    CoordinateNoise,
    check_share,
)
from tightdp.shaping.coverage import Covering, certify_moves
from tightdp.shaping.gaussian_noise import (
    GAUSSIANS,
    GaussianNoise,
    gaussian_noise,
    given_gaussian,
)
from tightdp.shaping.l2_noise import L2Noise
from tightdp.shaping.reach import possible_counts
from tightdp.shaping.stated_errors import Wished, Wishes
from tightdp.shaping.vector_noise import VectorNoise

_FLOATS = 2.0**-49  # relative rounding of a sum of a few doubles
_LARGEST_ROW = 4.0  # no row adds more to an entry of a scaled statistic
_EXPLAINED = (BallNoise, GaussianNoise)  # whose words leave something out

NAMES = tuple(dict.fromkeys([*SHAPES, *FAMILIES, *GAUSSIANS]))
SPENDING = ("best", "l2", *LOSSY, "designed", *GAUSSIANS)
"""Names that can make use of a delta."""
SPARING = (*SHAPES, *PURE)
"""Names that need none."""

WISHED = ("best", "l2", *GAUSSIANS)
"""Names whose noise can serve stated errors."""

_WORTH = 0.99
_FEW = 2  # entries that a row moves, up to which laws for single entries may be the best
_EQUAL = 1 - 1e-6  # a delta must buy more than that


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
    person with at most ``rows_per_person`` rows; delta is 0 for balls. Gaussian noise is rho-zCDP,
    and rounded Gaussian noise :math:`\mu`-Gaussian DP (``cost``).
    Needs: [P1] the ball contains the sensitivity space, or the laws cover the moves of their
    entries, or the length of all moves (certified at construction,
    :mod:`tightdp.shaping.coverage`); [P2] t(X) is the exact integer vector of quantised rows; [P3]
    the noise has its stated law.
    Proof: a quantised row is a row of the domain, so neighbours move t(X) / resolution within the
    sensitivity space, r times as far for r rows of a person [P2]. A ball: their integer difference
    has level at most L, and :class:`~tightdp.LatticeNoise` is epsilon-DP for it [P1, P3]. Laws: at
    most t entries move, each law is private for the move of its entry, and the t costliest are
    composed: by sums, or exactly for laws made for a budget. A design in the plane: its ball,
    scaled, holds the sensitivity space. Gaussians: the square of every move, weighed by the inverse
    variances, is at most :math:`\mu^2` (:class:`~tightdp.shaping.gaussian_noise.GaussianNoise`).
    Numerics: ``exact``.
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
        A shape for the whole vector ("hull", "best", "l1", "l2", "linf" or a ball), Gaussian noise
        for the whole vector ("gaussian", "discrete-gaussian" or a
        :class:`~tightdp.RoundedGaussian` of a variance of your own), or a law for every entry
        ("laplace", "staircase", "tulap", "truncated-laplace", "designed", a law or a design).
        "hull" is the convex hull of the sensitivity space; "best" the noise with the least
        predicted variance: a feasible shape or the staircase, and with a delta the l2 mechanism,
        Gaussian noise and laws for entries as well. A ball of your own must contain the space,
        which is proved or refused. "l2" with a delta is the l2 mechanism
        (:mod:`~tightdp.noise.l2_curve`). Gaussian noise is scaled to the longest move of the
        vector, with weights for the entries that make the total variance least. A named law shares
        the budget among the entries that one person can move; "designed" is the certified least
        mean error for it (:func:`~tightdp.design_noise`). A law or design of your own is scaled
        from its sensitivity to that of every entry; a :class:`~tightdp.VectorDesign` to that of a
        statistic with as many entries, a :class:`~tightdp.ComposedDesign` to two entries, each with
        its own law.
    epsilon : float, Fraction or Decimal
        A float means its shortest decimal. With a law of your own it may be left out.
    delta : float, Fraction or Decimal
        For "truncated-laplace", "tulap", "designed", "l2", Gaussian noise and "best", which spends
        it only where that is worth it; other balls spend none.
    rho : float, Fraction or Decimal, optional
        For "gaussian" and "discrete-gaussian" instead of epsilon, which is then read off at delta,
        or at 1e-6.
    weights : list, or mapping of names to numbers, optional
        What the squared error of every entry counts, in the units of the release, for "best",
        "gaussian", "discrete-gaussian" and "l2" with a delta: their ellipsoid is the best one for
        the weighted sum. By default the scaled entries count alike.
    targets : list, or mapping of names to numbers, optional
        Instead: the standard error that is wished for every entry, in the units of the release;
        all entries then miss, or exceed, their wishes by about one factor.

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
    >>> from tightdp import RoundedGaussian
    >>> yearly = AdditiveMechanism(Counts(schema), noise=RoundedGaussian(sigma2=900))
    >>> yearly.cost.mu_squared, yearly.cost.rho
    (Fraction(1, 450), Fraction(1, 900))
    """

    later = ("rho", "weights", "targets")

    def __init__(
        self,
        statistic: Statistic,
        *,
        noise: object = "hull",
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        weights: Wished | None = None,
        targets: Wished | None = None,
    ) -> None:
        check_instance("statistic", statistic, Statistic)
        if not statistic.one_cell:
            fewer = "take fewer bins, categories or levels"
            check_most("statistic", len(statistic), MOST_ENTRIES, "entries", fewer)
        stated = weights is not None or targets is not None
        wishes = Wishes.of(statistic, weights, targets) if stated else None
        self._adopt(statistic, choose_noise(statistic, noise, epsilon, delta, rho, wishes))

    def _adopt(self, statistic: Statistic, choice: PreparedNoise) -> None:
        self.statistic, self.neighbors = statistic, statistic.schema.neighbors
        self.certified = self._certify(statistic, choice)  # [P1]
        self._choice = choice
        self.epsilon, self.delta = choice.epsilon, choice.delta
        self.bits, self.noise = choice.bits, choice.draws
        self.in_rho = isinstance(choice, GaussianNoise) and choice.in_rho
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
        if isinstance(self._choice, (BallNoise, SymmetricNoise)):
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
        return [self._choice.factor * t for t in np.asarray(sums).tolist()]

    def _errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Covariance and simultaneous half-widths of the noise in user units, found once."""
        if confidence not in self._known_errors:
            self._known_errors[confidence] = self._find_errors(confidence)
        covariance, half = self._known_errors[confidence]
        return covariance.copy(), half.copy()

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        if isinstance(self._choice, SymmetricNoise):  # counts are in their own units
            return self._choice.covariance(), self._choice.widths(confidence)
        if type(self.statistic).recover is Statistic.recover:  # in the units of the noise
            whole = np.eye(len(self.statistic))
            return self._choice.covariance(), self.reach(whole, confidence)
        linear, _ = self.statistic.recovery()
        covariance = linear @ self._choice.covariance() @ linear.T
        return covariance, self.entry_reach(range(len(linear)), confidence)

    def entry_reach(self, entries: Sequence[int], confidence: float) -> FloatArray:
        """Half-widths of some entries in user units, for all of these at once."""
        linear, origin = self.statistic.recovery()
        some = list(entries)
        return self.reach(linear[some], confidence) + _FLOATS * np.abs(origin[some])

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
        variance = covariance if covariance.ndim == 1 else np.diag(covariance)
        return Preview(
            self.statistic.names,
            np.sqrt(variance),
            half,
            level,
            self.guarantee(),
            self.law,
            units=self.statistic.units,
            rounding=self.rounding_words(),
        )

    def rounding_words(self, linear: FloatArray | None = None) -> str:
        """Where the grid is coarse beside the noise, in words, for linear images of the entries."""
        if not self.statistic.degree:
            return ""
        lost, noise = lost_to_the_grid(self.statistic, self.bits), self._choice.covariance()
        if linear is not None:
            lost, noise = np.abs(linear) @ lost, linear @ noise @ linear.T
        variance = noise if noise.ndim == 1 else np.diag(noise)
        return coarse_grid(self.statistic.schema, lost, np.sqrt(variance))

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The entries of a release; their intervals can be asked for at any level."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        found = Answer.of(self.at_level(release, level))
        units = self.statistic.units
        return replace(found, about=f"{found.about}; {units}") if units else found

    def _ends(self, value: FloatArray, half: FloatArray) -> FloatArray | None:
        """Intervals that are cut to what can be: those of counts."""
        statistic = self.statistic
        return (
            possible_counts(value, half, statistic.schema.rows) if statistic.counts_rows else None
        )

    def at_level(self, release: Release, confidence: float) -> Release:
        found = super().at_level(release, confidence)
        return replace(found, ends=self._ends(found.value, found.half_width))

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def shape_facts(self) -> list[str]:
        return self._choice.facts() if isinstance(self._choice, _EXPLAINED) else []

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
            drawn = np.asarray(noise).tolist()  # Python integers
            return self.draft([t + z for t, z in zip(exact, drawn, strict=True)], confidence)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)

    def draft(self, noisy: Sequence[int], confidence: float) -> Draft:
        """Noisy integers in user units, with their errors."""
        covariance, half = self._errors(confidence)
        points = self.resolution
        value = self.statistic.recover(np.array([z / points for z in noisy]))
        error = Known(covariance=covariance, half_width=half, ends=self._ends(value, half))
        names, axes = self.statistic.names, self.statistic.axes
        units = self.statistic.units
        return Draft.of(names, value, noisy, self.resolution, error, axes, units)


# --- the noise ------------------------------------------------------------------------------------


def choose_noise(
    statistic: Statistic,
    noise: object,
    epsilon: Number | None,
    delta: Number,
    rho: Number | None = None,
    wishes: Wishes | None = None,
) -> PreparedNoise:
    """A ball or a Gaussian for the whole vector, or laws for every entry or all at once."""
    if wishes is not None and not (isinstance(noise, str) and noise in WISHED):
        fail(
            f"`weights` and `targets` are for noise of the names {quoted(WISHED)}: leave them out. "
            "Other noise has a shape of its own."
        )
    plain = not check_share(delta) and rho is None and wishes is None
    if statistic.one_cell and len(statistic) > FEW_CELLS and plain and _is_one(noise, CELL_NOISES):
        return SymmetricNoise(statistic, str(noise), epsilon)
    if len(statistic) > MOST_ENTRIES:
        fail(
            f"`noise` must be one of {quoted(CELL_NOISES)}, with no `delta`, `rho`, `weights` or "
            f"`targets`, for more than {MOST_ENTRIES} cells. Got {len(statistic)} cells: leave "
            "these out, or take fewer bins or levels."
        )
    if isinstance(noise, str) and noise in GAUSSIANS:
        return gaussian_noise(statistic, noise, epsilon, delta, rho, wishes)
    if rho is not None:
        fail(f"`rho` is a budget for noise of the names {quoted(GAUSSIANS)}: leave it out.")
    if isinstance(noise, RoundedGaussian):
        return given_gaussian(statistic, noise, epsilon, delta)
    if isinstance(noise, VectorDesign):
        return VectorNoise(statistic, noise, epsilon, delta)
    if isinstance(noise, (NoiseLaw, Design, ComposedDesign)) or (
        isinstance(noise, str) and noise in FAMILIES
    ):
        return CoordinateNoise(statistic, noise, epsilon, delta)
    if not isinstance(noise, NormBall):
        check_choice("noise", noise, NAMES)
    if epsilon is None:
        fail("`epsilon` must be given: it is how much privacy the release spends.")
    lost = check_share(delta)
    if isinstance(noise, str) and noise == "l2" and lost:
        return L2Noise(statistic, epsilon, delta, wishes)
    if isinstance(noise, str) and noise == "best":
        return _best(statistic, epsilon, lost, wishes)
    if wishes is not None:
        fail("`weights` and `targets` are for noise='l2' with a `delta`. Got delta = 0.")
    if lost:
        fail(
            "`delta` must be 0 for noise shaped like this ball, which spends none. Leave it out, "
            f"or choose one of {', '.join(map(repr, SPENDING))}."
        )
    return BallNoise(statistic, noise, epsilon)


def _is_one(noise: object, names: Sequence[str]) -> bool:
    return isinstance(noise, str) and noise in names


def _best(
    statistic: Statistic, epsilon: Number, delta: Fraction, wishes: Wishes | None
) -> PreparedNoise:
    """The noise with the least predicted variance; shapes of delta = 0 always take part."""
    ball = BallNoise(statistic, "best", epsilon)
    best = _least(ball, _laws(statistic, ball.epsilon))
    if not delta:
        return best
    wanted = Wishes() if wishes is None else wishes
    least = wanted.total(best.covariance())
    for noise in _spending(statistic, ball.epsilon, delta, wanted):
        found = wanted.total(noise.covariance())
        if found < _EQUAL * least:
            best, least = noise, found
    return best


def _spending(
    statistic: Statistic, epsilon: Fraction, delta: Fraction, wishes: Wishes | None
) -> list[PreparedNoise]:
    """What a delta may buy."""
    found: list[PreparedNoise] = [
        gaussian_noise(statistic, name, epsilon, delta, None, wishes) for name in GAUSSIANS
    ]
    with suppress(InfeasibleSamplingError, UndecidedError):  # too long, or delta gains nothing
        found.append(L2Noise(statistic, epsilon, delta, wishes))
    for name in LOSSY if _shares(statistic) <= _FEW else ():
        with suppress(ParameterError):  # a share beyond what the law takes
            found.append(CoordinateNoise(statistic, name, epsilon, delta))
    return found


def _shares(statistic: Statistic) -> int:
    """How many entries one person moves, at most."""
    return min(len(statistic), statistic.touched() * statistic.schema.rows_per_person)


def _laws(statistic: Statistic, epsilon: Fraction) -> list[CoordinateNoise]:
    """Laws for every entry that may have less noise than a ball, and cost no delta.

    Independent geometric noise is that of the l1 ball. What can be less is a staircase, and it is
    from an epsilon of about 1 for each entry that a row moves; one entry is always worth a try.
    """
    shares = _shares(statistic)
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
