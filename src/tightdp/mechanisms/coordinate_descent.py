"""Sparse logistic regression by proximal coordinate descent on exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import (
    Integers,
    check_choice,
    check_count,
    check_flag,
    check_within,
    fail,
)
from tightdp.mechanisms.mechanism import Mechanism, warn_of_delta
from tightdp.privacy import check_epsilon
from tightdp.progress import progress_bar
from tightdp.randomness import RandomSource, source
from tightdp.schema import (
    Schema,
    column_of_two_levels,
    numeric_column,
)
from tightdp.shaping.coordinate_noise import check_share
from tightdp.shaping.step_noise import StepNoise, step_noise

_GRID = 20  # coefficients of scaled columns are multiples of 2**-20
_LARGEST = 64 << _GRID  # and at most 64 in size
_BITS = 16  # of a cell, at most
_SLOPE = 16  # bits of the logistic function
_FINE = 10  # margins are rounded to 2**-10 and cut at +-16, before the logistic function
_CUT = 16 << _FINE
_CHUNK = 1 << 20  # rows whose slopes are added up in 64-bit integers
_MOST_WIDTH = 1 << 18  # coordinates: margins are at most width * 64 * 2**(20 + 16) < 2**62 in size
_GRAIN = 6  # sensitivities are rounded up to multiples of 2**-6: few laws serve all steps
_ORDER_SEED = 2304_12681  # of the public order of coordinates
_PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SIZES = np.exp2(2 - np.arange(80) / 2)  # at most 4, the inverse of the largest curvature
_CURVATURES = np.array([[0.01], [0.03], [0.08]])
_EFFECTS = 4.0  # the sum of squared coefficients
_NEAR = 1.05  # fewer passes are worth so much of the error


class CoordinateDescent(Mechanism):
    r"""Minimises the logistic loss with an l1 and a squared penalty, one noisy slope at a time.

    With columns scaled to [-1, 1], labels :math:`y = \pm1` and coefficients h, one step picks a
    coordinate l, releases its slope, and takes a proximal step:

    .. math:: q = \sum_i -y_i\, \sigma(-y_i h^\top x_i)\, x_{il} + Z, \qquad
       h_l \leftarrow \frac{S(h_l - s\,q/n,\ s\lambda)}{1 + s\mu},
       \quad S(t, c) = \mathrm{sign}(t)(|t| - c)_+ .

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows, all steps together.
    Needs: [P1] bounds, labels, n (the ``rows`` of the schema), the number of steps and their order
    are public; [P2] with :math:`r = \sum_{j \ne l} |h_j|`, adding or removing a row moves the sum
    by at most :math:`\sigma(r + |h_l|)`, replacing one by at most
    :math:`\sigma(r + |h_l|) + \max_{0 \le z \le 1} z\,\sigma(r - |h_l| z)`; [P3] the noise of
    a step is private for that sensitivity, and all of it together is (epsilon, delta)-DP
    (:mod:`~tightdp.shaping.step_noise`).
    Proof: 1. h is a function of public facts and of answers before: the query and its sensitivity
    are known before it is asked [P1]. 2. The slope of a row is :math:`z\,\sigma(v)`, z = -y x_l in
    [-1, 1] and v at most :math:`r + z h_l`; so slopes lie between
    :math:`-\max_z z\sigma(r - z h_l)` and :math:`\max_z z\sigma(r + z h_l)`, z in [0, 1], of
    which the one with the sign of :math:`h_l` is reached at z = 1 and is the larger one. A row more
    or fewer moves the sum by its slope, another row by the difference of two, and k rows of a
    person k times as far. The integer table that stands for :math:`\sigma` is nondecreasing, so
    this holds on the lattice, where the other maximum is taken over all cells [P2]. 3. Adaptive
    composition [P3]. A private number of rows enters nowhere else: the sum is divided by the public
    n, so a table of half as many rows takes steps of half the size.
    Numerics: ``exact``. Margins, the table, slopes and noise are integers; floats serve the
    proximal step only, which sees released numbers.
    Order of events: parameters, names and types are checked, the ledger is charged for all steps at
    once, and only then are rows read.
    Erratum: Selvi and others (2025) spends its (epsilon, delta) on every step anew, scales columns
    by the data, and uses the sensitivity 2 throughout, which is right but twice too much at h = 0.
    References: Selvi and others (2025), Section 6.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
        Numeric columns.
    target : str
        A category with two levels; the second one is y = 1.
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
    noise : name, NoiseLaw, Design or DataDependentDesign
        "best", "laplace", "staircase", "tulap", "truncated-laplace", "gaussian" or "designed", for
        which the budget is divided among the steps; or a noise of your own for every step, in units
        of its sensitivity. A data-dependent one brings its public partition of the range.
    l1, l2 : float
        :math:`\lambda` and :math:`\mu`, for the mean loss and scaled coefficients; under
        add-remove neighbours the mean is the sum divided by the ``rows`` of the schema.
    passes : int or "auto"
        Steps for each coordinate.
    step_size : float or "auto"
        s in (0, 8); 4 is the inverse of the largest curvature. Both "auto" come from public facts,
        see :func:`best_passes` and :func:`best_step`.
    sweep : int, optional
        Coordinates between two fresh public permutations; all of them by default.
    average : bool
        Whether a sweep ends at the mean of its iterates, as in Selvi and others (2025), or at the
        last of them.
    fit_intercept : bool
        An intercept is one more coordinate, the first, without penalty. Without it the plane goes
        through the user's zero.

    Examples
    --------
    >>> from tightdp import Category, Interval
    >>> schema = Schema({"a": Interval(-1, 1), "y": Category([0, 1], other=0)}, rows=4000)
    >>> mechanism = CoordinateDescent(schema, epsilon=1.0, fit_intercept=False, passes=8)
    >>> x = np.linspace(-1, 1, 4000)
    >>> release = mechanism.release({"a": x, "y": (x > 0).astype(int)}, rng=1)
    >>> bool(release["a"] > 3)
    True
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        epsilon: Number,
        delta: Number = 0,
        noise: object = "best",
        l1: float = 0.0,
        l2: float = 0.0,
        passes: object = "auto",
        step_size: Number | str = "auto",
        sweep: int | None = None,
        average: bool = False,
        fit_intercept: bool = True,
    ) -> None:
        self.schema, self.neighbors = schema, schema.neighbors
        self.epsilon, self.delta = check_epsilon(epsilon), check_share(delta)
        *names, last = list(schema)
        self.target = last if target is None else target
        self.features = tuple(names if features is None else features)
        self._check_facts()
        self.l1, self.l2 = check_within("l1", l1, "[0, inf)"), check_within("l2", l2, "[0, inf)")
        self.fit_intercept = check_flag("fit_intercept", fit_intercept)
        self.average = check_flag("average", average)
        self.design = DesignMatrix(schema, self.features, self.target, intercept=self.fit_intercept)
        self.width = check_count("number of features", len(self.design.names), most=_MOST_WIDTH)
        self.sweep = self.width if sweep is None else check_count("sweep", sweep, most=self.width)
        self.bits = min(schema.bits, _BITS)
        self.passes = self._passes(passes)
        self.noise = self._noise(noise, self.steps)
        self.step_size = self._step_size(step_size)

    def _check_facts(self) -> None:
        if not self.features:
            fail("There is no feature: the schema names the target only.")
        for name in self.features:
            numeric_column(self.schema, name)
        column_of_two_levels(self.schema, self.target)

    def _passes(self, passes: object) -> int:
        if not isinstance(passes, str):
            return check_count("passes", passes, most=10_000)
        check_choice("passes", passes, ["auto"])
        return best_passes(
            self.width,
            lambda p: self._moved**2 * _variance(self.epsilon, self.delta, p * self.width),
        )

    def _step_size(self, size: object) -> float:
        if isinstance(size, str):
            check_choice("step_size", size, ["auto"])
            return best_step(self.passes, self.width, self._moved**2 * self.noise.variance())[0]
        return check_within("step_size", size, "(0, 8)", "longer steps overshoot")

    @property
    def _moved(self) -> float:
        """About how far neighbours move a mean slope on the way."""
        return math.sqrt(0.5) * self._slopes * self.schema.rows_per_person / self.schema.rows

    @property
    def cost(self) -> Cost:
        """What all steps cost together, by what their noise knows of itself."""
        if self.noise.rho is None:
            return super().cost
        return Cost.concentrated(self.noise.rho, delta=self.delta, epsilon=self.epsilon)

    def _noise(self, noise: object, steps: int) -> StepNoise:
        # sigma(r + |h|) lies between 1/2 and 1, and so does the slope of a row
        least = self.schema.rows_per_person << (self.bits + _SLOPE - 1)
        return step_noise(
            noise,
            self.epsilon,
            self.delta,
            steps,
            least=least,
            most=2 * self._slopes * least,
            furthest=self.schema.rows,
        )

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def _slopes(self) -> int:
        """How many rows differ where one does: it is replaced by another, or there or not."""
        return self.neighbors.rows_apart

    @property
    def steps(self) -> int:
        """How many slopes are released."""
        return self.passes * self.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    @property
    def law(self) -> str:
        """How the coefficients are drawn, in words."""
        return (
            f"{self.steps} steps of proximal coordinate descent of size {self.step_size!r}, "
            f"l1 {self.l1!r}, l2 {self.l2!r}, sweeps of {self.sweep}, average {self.average}, "
            f"intercept {self.fit_intercept}, order {_ORDER_SEED}, {self.bits} bits; "
            f"{self.noise.words}"
        )

    def order(self) -> Iterator[int]:
        """The public order of coordinates: sweeps of public random permutations."""
        bits, made = source(_ORDER_SEED), 0
        while made < self.steps:
            for coordinate in bits.permutations(1, self.width)[0][: self.sweep].tolist():
                if made < self.steps:
                    made += 1
                    yield coordinate

    def sensitivity(self, h: Integers, coordinate: int) -> int:
        """How far one person moves the slope at h, on the lattice of slopes [P2]."""
        own = abs(int(h[coordinate]))
        rest = int(np.abs(h).sum()) - own
        z = np.arange((1 << self.bits) + 1)
        moved = int((_slope((rest + own) * z[-1:], self.bits) * z[-1])[0])
        if self._slopes == 2:
            moved += int((_slope(rest * z[-1] - own * z, self.bits) * z).max())
        grain = 1 << (self.bits + _SLOPE - _GRAIN)
        return -(-moved // grain) * grain * self.schema.rows_per_person

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return f"CoordinateDescent({', '.join(self.features)}; {self.target})"

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)
        warn_of_delta(self.delta, self.schema)

    def rows(self, frame: TableLike, *, progress: bool = False) -> Integers:
        """-y times the scaled row (the intercept's 1 first), shape (width, n). **Not private.**"""
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        rows = self.design.rows(cells[:, :-1] / self.schema.resolution)
        rows *= 1 << self.bits
        rows = np.floor(rows + 0.5, out=rows)  # half up, as all coarser grids
        return np.ascontiguousarray((rows * (1 - 2 * cells[:, -1:])).T, dtype=np.int64)

    def descend(self, z: Integers, rng: RandomSource, *, progress: bool = False) -> Integers:
        """Coefficients in units of 2**-20 from the rows of :meth:`rows`."""
        h = np.zeros(self.width, dtype=np.int64)
        margin = np.zeros(z.shape[1], dtype=np.int64)  # -y h.x
        total, inside = np.zeros(self.width), 0
        with progress_bar(self.steps, "steps", show=progress) as done:
            for step, coordinate in enumerate(self.order(), start=1):
                moved = self.noise.factor * self.sensitivity(h, coordinate)
                answer = self.noise.prepare(moved, rng)  # before the query is known [P3]
                query = _total_slope(margin, z[coordinate], self.bits)
                noisy = answer(self.noise.factor * query)
                before = int(h[coordinate])
                h[coordinate] = self._updated(before, noisy, coordinate)
                margin += z[coordinate] * (int(h[coordinate]) - before)
                total, inside = total + h, inside + 1
                if self.average and (step % self.sweep == 0 or step == self.steps):
                    mean = np.rint(total / inside).astype(np.int64)
                    margin += (mean - h) @ z
                    h = mean
                if step % self.sweep == 0:
                    total, inside = np.zeros(self.width), 0
                done(1)
        return h

    def _updated(self, value: int, noisy: int, coordinate: int) -> int:
        """The proximal step of one coefficient, from released numbers only."""
        unit = self.noise.factor << (self.bits + _SLOPE)
        step, h = self.step_size, value / (1 << _GRID)
        moved = h - step * float(Fraction(noisy, unit * self.schema.rows))
        if coordinate > 0 or not self.fit_intercept:
            moved = math.copysign(max(abs(moved) - step * self.l1, 0.0), moved)
            moved /= 1 + step * self.l2
        return max(-_LARGEST, min(_LARGEST, round(moved * (1 << _GRID))))

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        z = self.rows(frame, progress=progress)
        h = self.descend(z, rng, progress=progress)
        value = self.design.to_user(h / (1 << _GRID))
        return Draft.of(self.design.names, value, h, 1 << _GRID, DEPENDS)


@lru_cache(maxsize=1024)
def _variance(epsilon: Fraction, delta: Fraction, steps: int) -> float:
    """The least variance of the noise of a step, in squared sensitivities."""
    facts = {"least": 1 << 32, "most": 1 << 34, "furthest": 1}
    return step_noise("best", epsilon, delta, steps, **facts).variance()


@lru_cache(maxsize=1)
def _table() -> Integers:
    """round(2**16 / (1 + exp(-t))) for t = -16, ..., 16 in steps of 2**-10; nondecreasing."""
    t = np.arange(-_CUT, _CUT + 1) / (1 << _FINE)
    table = np.rint((1 << _SLOPE) / (1 + np.exp(-t))).astype(np.int64)
    return np.maximum.accumulate(table)


def _slope(margins: Integers, bits: int) -> Integers:
    """The logistic function of margins in units of 2**-(bits + 20), in units of 2**-16."""
    shift = bits + _GRID - _FINE
    index = (margins + (1 << (shift - 1))) >> shift
    return _table()[np.clip(index, -_CUT, _CUT) + _CUT]


def _total_slope(margins: Integers, z: Integers, bits: int) -> int:
    """The sum of slopes times cells, exactly for any number of rows.

    A term is at most 2**(16 + 16) in size, so that the terms of a chunk add up to 2**52.
    """
    chunks = range(0, len(margins), _CHUNK)
    parts = ((margins[i : i + _CHUNK], z[i : i + _CHUNK]) for i in chunks)
    return sum(int(_slope(margin, bits) @ cells) for margin, cells in parts)


# --- how many passes, and how long steps --------------------------------------------------------


def best_step(passes: int, width: int, noise: float) -> tuple[float, float]:
    r"""The size of a step with the least error in a public model, and the error of a coefficient.

    Along a column the mean loss has curvature c; a step of size s leaves the part :math:`1 - sc` of
    the way. After p passes an effect h is missed by :math:`(1-sc)^{2p} h^2`, and noise of variance
    v in every slope has added :math:`(s/n)^2 v\,(1-(1-sc)^{2p})/(1-(1-sc)^2)`; ``noise`` is
    :math:`v / n^2`, the variance of a mean slope. Long steps follow the slopes, short ones average
    their noise: with one pass the best step is a posterior mean, and where there is only noise it
    is 0, so that odds are even. Curvatures are those of columns that fill their bounds well and
    less well, with effects that are small and large; squared coefficients sum to 4, however many
    there are, as the log odds of things that can be learnt are a few units. Public facts alone
    enter.

    >>> [round(best_step(1, 5, noise)[0], 3) for noise in (0.0, 0.01, 1.0, 1e9)]
    [4.0, 2.828, 0.031, 0.0]
    """
    left = 1 - _SIZES * _CURVATURES
    missed = left ** (2 * passes)
    errors = _EFFECTS / width * missed + _SIZES**2 * noise * (1 - missed) / (1 - left**2)
    mean = errors.mean(axis=0)
    best = int(mean.argmin())
    return float(_SIZES[best]), float(mean[best])


def best_passes(width: int, noise: Callable[[int], float]) -> int:
    """The fewest passes with nearly the least error; ``noise`` tells the variance for a number.

    More passes share the budget among more steps: the noise of a step grows with their number.

    >>> [best_passes(10, lambda passes: passes**2 / rows**2) for rows in (10, 1000, 10**6)]
    [1, 16, 64]
    """
    errors: dict[int, float] = {}
    for passes in _PASSES:
        errors[passes] = best_step(passes, width, noise(passes))[1]
        if errors[passes] > 2 * min(errors.values()):  # further passes are worse still
            break
    least = min(errors.values())
    return next(passes for passes, error in errors.items() if error <= _NEAR * least)
