"""How a budget is shared between the noise and the ridge of objective perturbation.

Numbers here come from public facts alone: the number of rows and columns, the budget, the loss and
the norm. The share that ``"auto"`` picks comes from a simulation of a public model with a fixed
seed; no data are involved, so it costs nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from tightdp.convex.margin_losses import LogisticLoss, MarginLoss, RowLoss
from tightdp.convex.ridge_pull import restore
from tightdp.errors import FloatArray, check_choice, fail
from tightdp.geometry.norm_balls import NormBall
from tightdp.noise.on_lattice import lattice_body
from tightdp.randomness import source

ACCOUNTING = ("joint", "split")
SINGLE_COLUMN = 1.0517  # two logistic gradients of one column differ by at most 1.05164
_STEEPEST = 1e100  # a gradient: its square, and sums of it, are doubles, too
_SAFE = 1e-12  # relative margin of all float results, on the private side
LEAST_RATE, _MOST_RATE = 2.0**-40, 1024.0  # what lattice noise takes
_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99, 1.0)
_KINDS = ("even", "correlated")  # columns
_REFERENCE_SEED = 1801_09236
_REFERENCE_ROWS, _REFERENCE_DRAWS = 400, 24
SIMULATED_WIDTH = 24
"""More parameters are not simulated one by one."""


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What the accounting knows: everything but the rate and the ridge.

    Attributes
    ----------
    loss : RowLoss
    width : int
        Number of parameters m.
    squared_length : int
        The largest squared length of a row: m for the cube, less with exclusive indicators.
    reach : float
        The largest margin over the parameter set, infinite for an unbounded one.
    replace_one : bool
        Whether a neighbour replaces a row (two gradients change) or adds one.
    rows_per_person : int
    accounting : {"joint", "split"}
    rounding : float
        Gauge lost to the grid of the noise.
    """

    loss: RowLoss
    width: int
    reach: float = math.inf
    replace_one: bool = True
    rows_per_person: int = 1
    accounting: str = "joint"
    rounding: float = 0.0
    squared_length: int | None = None

    def __post_init__(self) -> None:
        check_choice("accounting", self.accounting, ACCOUNTING)
        if not self.loss.slope(self.reach) <= _STEEPEST:
            fail(
                f"The {self.loss!r} has unbounded gradients on an unbounded parameter set: state "
                "`theta_set`, for instance LpBall(dim, p=2, radius=...)."
            )

    @property
    def single(self) -> bool:
        """Whether the sharper bound for one column of a logistic regression holds."""
        return self.width == 1 and self.replace_one and isinstance(self.loss, LogisticLoss)

    @property
    def difference(self) -> float:
        """The largest gauge of a change of the gradient, for the noise ball that holds all rows."""
        slope = self.loss.slope(self.reach)
        if self.single:
            return min(2.0 * slope, SINGLE_COLUMN)
        return 2.0 * slope if self.replace_one else slope

    def privacy_loss(self, rate: float, ridge: float) -> float:
        """An upper bound on the log ratio of densities, for any two neighbours."""
        ratio = (self.squared_length or self.width) / ridge
        split = rate * self.difference + self.loss.growth(ratio)
        joint = math.inf
        if self.accounting == "joint":
            other = self.loss.slope(self.reach) if self.replace_one else 0.0
            joint = rate * other + self.loss.steepest(rate, ratio, self.reach)
        return self.rows_per_person * (min(split, joint) + rate * self.rounding)

    def rate(self, epsilon: float, share: float) -> float:
        """The rate of the noise that spends this share of the budget, or less at huge budgets."""
        most = self.rows_per_person * (self.difference + self.rounding)
        return min(share * epsilon / most * (1.0 - _SAFE), _MOST_RATE)

    def ridge(self, epsilon: float, rate: float) -> float | None:
        """The least ridge, from the private side, or None if no ridge is large enough."""
        low, high = 1e-300, 1.0
        while self.privacy_loss(rate, high) > epsilon:
            low, high = high, 4.0 * high
            if high * min(rate, epsilon) > 1e9 * self.width:  # a rate may be 0: it is refused later
                return None
        while high > low * (1.0 + _SAFE) and high > 1e-290:
            middle = math.sqrt(low) * math.sqrt(high)
            if self.privacy_loss(rate, middle) <= epsilon * (1.0 - _SAFE):
                high = middle
            else:
                low = middle
        return high


@dataclass(frozen=True, slots=True)
class Calibration:
    """Rate and ridge of an objective perturbation.

    Attributes
    ----------
    noise_share : float
        The papers' q.
    rate : float
        The noise has density proportional to ``exp(-rate * gauge)``.
    ridge : float
        The strong convexity that the proof needs of everything but the losses.
    """

    noise_share: float
    rate: float
    ridge: float


def calibrate(facts: PublicFacts, epsilon: float, share: float) -> Calibration:
    """Rate and ridge for a share of the budget.

    >>> facts = PublicFacts(LogisticLoss(), 7, accounting="split")
    >>> round(calibrate(facts, 1.0, 0.5).ridge / (7 / 4), 4)
    1.5415
    >>> joint = PublicFacts(LogisticLoss(), 7)
    >>> round(calibrate(joint, 1.0, 0.5).ridge / (7 / 4), 4)
    1.173
    """
    rate = facts.rate(epsilon, share)
    ridge = facts.ridge(epsilon, rate)
    if ridge is None:
        fail(
            f"`noise_share` must lie strictly between 0 and 1 for the {facts.loss!r} with this "
            f"accounting: nothing is left for the ridge. Got {share}."
        )
    return Calibration(share, rate, ridge)


# --- the public simulation ---------------------------------------------------------------------


def best_share(
    facts: PublicFacts,
    ball: NormBall,
    epsilon: float,
    rows: int,
    *,
    ridge: float = 0.0,
    restored: bool = False,
) -> float:
    """The share whose mean error in public reference models is nearest to the least.

    Rows are uniform on the cube, parameters in random directions. No public fact tells how long
    they are: long ones want little ridge, short ones little noise. So the share is the one with the
    least worst ratio to the best share for each of the lengths of the loss. The simulation is
    seeded, so that the same public facts always give the same share. ``ridge`` is one that is there
    in any case. Beyond 24 columns, and for several classes, the error is that of the linear
    approximation.

    With ``restored``, errors are those of :func:`~tightdp.convex.ridge_pull.restore`, which takes
    columns to be even: since they need not be, models are of even columns and of columns
    that are correlated by .8, and the sampling error counts.
    """
    shape = f"{ball!r} {lattice_body(ball)[0].facts()}"
    return _best_share(facts, shape, _Held(ball), epsilon, rows, ridge, restored)


class _Held:
    """A ball that a cache does not compare: its text is already in the key."""

    def __init__(self, ball: NormBall) -> None:
        self.ball = ball

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)


@functools.lru_cache(maxsize=256)
def _best_share(
    facts: PublicFacts,
    shape: str,
    held: _Held,
    epsilon: float,
    rows: int,
    least: float,
    restored: bool,
) -> float:
    small = facts.width <= SIMULATED_WIDTH and isinstance(facts.loss, MarginLoss)
    tried = {}
    for share in _SHARES:
        rate = facts.rate(epsilon, share)
        ridge = facts.ridge(epsilon, rate)
        if ridge is not None:
            tried[share] = rate, max(ridge, least)
    worst = np.ones(len(tried))
    kinds = _KINDS if restored else _KINDS[:1]
    for length, kind in itertools.product(facts.loss.lengths, kinds):
        model = _Reference.draw(facts.loss, facts.width, rows, held.ball, length, kind)
        find = model.error if small else model.linear_error
        if restored:
            find = model.error_restored
        errors = np.array([find(*each) for each in tried.values()])
        if np.isfinite(errors).any():
            worst = np.maximum(worst, errors / errors.min())
    return list(tried)[int(np.argmin(worst))]


@dataclass(frozen=True, slots=True)
class _Reference:
    """Public rows, parameters and noise of unit rate, and the population's curvature."""

    parameters: FloatArray  # (draws, m)
    noise: FloatArray  # (draws, m)
    rows: FloatArray  # (reference rows, m)
    weight: float
    loss: RowLoss
    length: float
    even: FloatArray  # rows that a public model takes them to be
    sampled: FloatArray  # (draws, reference rows), standard normal

    @classmethod
    def draw(
        cls,
        loss: RowLoss,
        width: int,
        rows: int,
        ball: NormBall,
        length: float,
        kind: str = _KINDS[0],
    ) -> _Reference:
        bits = source(_REFERENCE_SEED)
        count = max(_REFERENCE_ROWS, 4 * width)
        x = 2.0 * bits.uniform((count, width)) - 1.0
        direction = bits.normal((_REFERENCE_DRAWS, width))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        noise = bits.gamma(width + 1, _REFERENCE_DRAWS)[:, None] * ball.sample(
            _REFERENCE_DRAWS, rng=bits
        )
        shared, sampled = 2.0 * bits.uniform((count, 1)) - 1.0, bits.normal((len(noise), count))
        cells = (x + 2.0 * shared) / 3.0 if kind == "correlated" else x
        return cls(length * direction, noise, cells, rows / count, loss, length, x, sampled)

    def error(self, rate: float, ridge: float) -> float:
        """Mean distance between the parameters and the minimisers of the perturbed population."""
        try:
            moved = self._minimisers(self.noise / rate, ridge) - self.parameters
        except np.linalg.LinAlgError:  # hardly any ridge: the minimiser has run away
            return math.inf
        return float(np.linalg.norm(moved, axis=1).mean())

    @np.errstate(over="ignore", invalid="ignore")
    def error_restored(self, rate: float, ridge: float) -> float:
        """The same where the pull of the ridge is given back, and rows are a sample."""
        assert isinstance(self.loss, MarginLoss)
        spread = np.sqrt(self.weight * self.loss.typical(self.parameters @ self.rows.T))
        noise = self.noise / rate
        try:
            theta = self._minimisers(noise + (self.sampled * spread) @ self.rows, ridge)
            hessians = self.weight * (self.loss.typical(theta @ self.even.T)[:, None] * self.even.T)
            variance = float((noise**2).mean())
            found = restore(theta, hessians @ self.even, ridge=ridge, variance=variance)
        except np.linalg.LinAlgError:
            return math.inf
        error = float(np.linalg.norm(found - self.parameters, axis=1).mean())
        return error if math.isfinite(error) else math.inf

    def linear_error(self, rate: float, ridge: float) -> float:
        """The same for a constant curvature: a bias towards zero, and noise, both shrunk."""
        margin = self.rows @ self.parameters.T
        bend = float(self.loss.typical(margin).mean()) / 3.0
        curvature = self.weight * len(self.rows) * bend + ridge
        noise = float((self.noise**2).sum(axis=1).mean()) / rate**2
        return math.sqrt((ridge * self.length) ** 2 + noise) / curvature

    @np.errstate(over="ignore")
    def _minimisers(self, noise: FloatArray, ridge: float) -> FloatArray:
        """Of the population, perturbed: Newton's steps of all draws at once."""
        assert isinstance(self.loss, MarginLoss)
        truth, rows, loss = self.parameters, self.rows, self.loss
        expected = loss.mean(truth @ rows.T)
        theta, gradient = truth.copy(), noise + ridge * truth
        enough = 1e-6 * (1.0 + np.linalg.norm(noise, axis=1))
        draws = np.arange(len(truth))  # those that still move
        for _ in range(60):
            curvature = loss.second(theta[draws] @ rows.T, expected[draws])
            hessian = self.weight * (curvature[:, None] * rows.T) @ rows
            hessian += ridge * np.eye(truth.shape[1])
            steps = np.linalg.solve(hessian, gradient[draws][..., None])[..., 0]
            sizes = np.linalg.norm(gradient[draws], axis=1)
            open_ = sizes > enough[draws]
            draws, steps, sizes = draws[open_], steps[open_], sizes[open_]
            left = np.arange(len(draws))  # those whose step is still too long
            for halving in range(40):
                at = draws[left]
                trial = theta[at] - steps[left] / 2.0**halving
                pull = loss.first(trial @ rows.T, expected[at])
                fresh = self.weight * (pull @ rows) + ridge * trial + noise[at]
                shorter = np.linalg.norm(fresh, axis=1) < sizes[left]
                theta[at[shorter]], gradient[at[shorter]] = trial[shorter], fresh[shorter]
                left = left[~shorter]
                if not left.size:
                    break
            draws = np.delete(draws, left)  # there only rounding is left: it grows with the rows
            if not draws.size:
                break
        return theta
