"""Settings chosen under differential privacy: the best of a random number of private fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.convex.margin_losses import margins
from tightdp.draft import Draft, Unknown
from tightdp.errors import (
    FloatArray,
    check_probability,
    check_within,
    fail,
)
from tightdp.exact.lattice_body import BoxBody
from tightdp.exact.rejection import until_accepted
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.objective import Draws, ObjectivePerturbation
from tightdp.noise.lattice import LatticeNoise
from tightdp.preview import Preview
from tightdp.privacy import Numerics, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema

TUNABLE = ("noise", "noise_share", "ridge", "l1", "penalty", "theta_set", "accounting")
_COST = 2  # budgets of a single run that choosing the best one costs
_GRID = 1 << 20  # the stopping probability is a multiple of one over it


class Run(NamedTuple):
    """One private fit: which settings, and all its random integers."""

    candidate: int
    draws: Draws
    on_errors: int


class TunedPerturbation(Mechanism):
    r"""Releases the best of K private logistic fits with random settings, K random and secret.

    Every run picks settings at random, fits by :class:`~tightdp.ObjectivePerturbation`, and counts
    the rows that the fit puts into the wrong class, with exact two-sided geometric noise. The run
    with the fewest noisy errors is published, its settings and noisy errors with it;

    .. math:: P(K = k) = \frac{(1 - \gamma)^k}{k \log(1/\gamma)}, \qquad k = 1, 2, \dots

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] a run (settings, parameters, noisy errors) is e-DP with e = epsilon / 2; [P2] runs
    are independent, and K has the law above; [P3] K stays secret: neither K nor the other runs nor
    the time that a fit took are published.
    Proof:

    1. A run spends a share of e on its fit and the rest on its errors, which one row changes by at
       most 1; settings are picked without looking. So it is e-DP.
    2. Order the possible outputs of a run by errors, ties by settings and parameters. Let q be the
       probability of an output y, and :math:`q_<` that of a worse one; then y is published with
       probability
       :math:`f(q_< + q) - f(q_<) = q\, E f'(q_< + Uq)`, f the generating function of K and U
       uniform on [0, 1]; here :math:`f'(t) \propto 1 / (\gamma + (1 - \gamma)(1 - t))`.
    3. Between neighbours q changes by a factor of at most :math:`e^{e}` [P1], and so does
       :math:`1 - q_< - uq`, the probability of a randomised event about the output; with it the
       denominator. The ratio is at most :math:`e^{2e} = e^{\epsilon}`.

    Numerics: ``idealized-numerics``, as the fits; K and the noise of the errors are exact.
    A geometric K, as in Liu and Talwar (2019), costs 3 e; the logarithmic K of Papernot and Steinke
    (2022) costs 2 e.

    References: Liu and Talwar (2019); Theorem 2 of Papernot and Steinke (2022) with :math:`\eta =
    0`.

    Parameters
    ----------
    schema : Schema
    features, target : optional
        As for :class:`~tightdp.ObjectivePerturbation`; the loss is logistic.
    settings : sequence of dict
        Public candidates: parameters among ``noise``, ``noise_share``, ``ridge``, ``l1``,
        ``penalty``, ``theta_set`` and ``accounting``. A setting may occur more than once.
    epsilon : float, Fraction or Decimal
    score_share : float
        The part of the budget of a run, in (0, 1), that its errors get.
    runs : float
        The mean of K, above 1. More runs find better settings; their number costs no privacy.
    fit_intercept : bool

    Examples
    --------
    >>> from tightdp import Category, Interval
    >>> schema = Schema({"x": Interval(0, 1), "y": Category(["no", "yes"], other="no")}, rows=1000)
    >>> settings = [{"noise_share": 0.9}, {"noise_share": 0.9, "l1": 1000}]
    >>> choice = TunedPerturbation(schema, settings=settings, epsilon=1.0, runs=30)
    >>> table = {"x": np.linspace(0, 1, 1000), "y": ["no"] * 500 + ["yes"] * 500}
    >>> release = choice.release(table, rng=3)
    >>> release.names
    ('intercept', 'x', 'candidate', 'errors')
    >>> choice.chosen(release).penalty
    no penalty
    """

    numerics = Numerics.IDEALIZED

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        settings: object,
        epsilon: Number,
        score_share: Number = 0.2,
        runs: object = 10.0,
        fit_intercept: bool = True,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        part = check_probability("score_share", score_share)
        each = self.epsilon / _COST  # [P1]
        for_errors = each * Fraction(part)
        self.candidates = [
            ObjectivePerturbation(
                schema,
                features,
                target,
                epsilon=each - for_errors,
                fit_intercept=fit_intercept,
                **given,
            )
            for given in _read_settings(settings)
        ]
        first = self.candidates[0]
        self.schema, self.neighbors, self.rows = schema, schema.neighbors, first.rows
        self.stop = _stopping(check_within("runs", runs, "(1, 10000]", "the mean number of fits"))
        self.on_errors = LatticeNoise(BoxBody([1]), for_errors, schema.rows_per_person)
        self.resolution = max(candidate.resolution for candidate in self.candidates)

    @property
    def law(self) -> str:
        """The mechanism in words: all that a fingerprint needs."""
        fits = "; ".join(f"({i}) {c.law}" for i, c in enumerate(self.candidates))
        return (
            f"the fit with the fewest wrong rows, counted with weight exp(-{self.on_errors.rate} * "
            f"|z|), of K fits, P(K = k) proportional to (1 - {self.stop})^k / k, with settings at "
            f"random from: {fits}"
        )

    def chosen(self, release: Release) -> ObjectivePerturbation:
        """The fit that was published, by its settings."""
        return self.candidates[round(release["candidate"])]

    # --- the release --------------------------------------------------------------------------

    def check(self, frame: TableLike) -> None:
        self.rows.check(frame)

    def label(self) -> str:
        return "TunedPerturbation(logistic)"

    def shape_facts(self) -> list[str]:
        return [fact for candidate in self.candidates for fact in candidate.shape_facts()]

    def draw_runs(self, rng: RandomSource) -> list[Run]:
        """All randomness of a release, before data are read [P2]."""
        runs = []
        for _ in range(logarithmic(self.stop, rng)):
            place = rng.below(len(self.candidates))
            fit = self.candidates[place].draw_noise(rng)
            runs.append(Run(place, fit, int(self.on_errors.sample(rng=rng)[0])))
        return runs

    def best(
        self, rows: FloatArray, target: FloatArray, runs: Sequence[Run]
    ) -> tuple[int, int, tuple[int, ...]]:
        """Noisy errors, settings and integers of the best run [step 2]."""
        found = []
        for run in runs:
            candidate = self.candidates[run.candidate]
            integers = candidate.perturbed(rows, target, run.draws)
            odds = margins(rows, candidate.scaled(integers))
            wrong = int(np.count_nonzero((odds > 0) != (target > 0)))
            found.append((wrong + run.on_errors, run.candidate, integers))
        return min(found)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Nothing: which setting is best, and how lucky it was, depends on the rows."""
        return self._silent(confidence, "which of the settings is best depends on the rows")

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        runs = self.draw_runs(rng)
        rows, target = self.rows.read(frame, progress=progress)
        errors, place, integers = self.best(rows, target, runs)
        candidate = self.candidates[place]
        lift = self.resolution // candidate.resolution
        names = (*candidate.names, "candidate", "errors")
        value = np.append(candidate.recover(integers), [place, errors])
        lifted = [*(z * lift for z in integers), place * self.resolution, errors * self.resolution]
        luck = Unknown("the best of several has the luckiest errors, too")
        return Draft.of(names, value, lifted, self.resolution, luck)


def logarithmic(stop: Fraction, rng: RandomSource) -> int:
    """An exact draw of K with P(K = k) proportional to (1 - stop)^k / k, k = 1, 2, ...

    A geometric k with P(k) proportional to (1 - stop)^k is kept with probability 1 / k.

    >>> from tightdp.randomness import source
    >>> logarithmic(Fraction(1, 2), source(1)) >= 1
    True
    """

    def trial() -> int | None:
        k = 1
        while rng.below(stop.denominator) >= stop.numerator:
            k += 1
        return k if rng.below(k) == 0 else None

    return until_accepted(trial)


def _stopping(runs: float) -> Fraction:
    """The stopping probability for which K has about this mean; a public number."""
    low, high = math.log(1.0 / _GRID), math.log1p(-1.0 / _GRID)
    for _ in range(100):
        middle = (low + high) / 2
        mean = math.expm1(-middle) / -middle
        low, high = (middle, high) if mean > runs else (low, middle)
    return Fraction(min(max(round(math.exp(low) * _GRID), 1), _GRID - 1), _GRID)


def _read_settings(settings: object) -> list[Mapping[str, Any]]:
    wanted = f"dicts with parameters among {', '.join(TUNABLE)}"
    if isinstance(settings, (str, Mapping)) or not isinstance(settings, Sequence):
        fail(f"`settings` must be a list of {wanted}. Got {type(settings).__name__}.")
    if not settings:
        fail(f"`settings` must hold at least one candidate: {wanted}.")
    for given in settings:
        if not isinstance(given, Mapping) or any(name not in TUNABLE for name in given):
            fail(f"`settings` must be a list of {wanted}. Got {given!r}.")
    return list(settings)
