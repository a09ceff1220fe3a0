r"""Markov chains that approach :math:`P(z) \propto e^{-r k(z)}`: where no exact one is known.

A chain that stops after finitely many steps does not have this law, so a release drawn this way is
**not** epsilon-DP: how much it loses depends on how far the chain still is from its limit, for
which there is evidence but no proof. It is used on request only, and the guarantee says so
(``approximate-sampler``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.errors import FloatArray, check_choice, check_count, fail
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.listed_points import MOST_POINTS
from tightdp.privacy import Numerics
from tightdp.progress import progress_bar
from tightdp.randomness import RandomSource

SAMPLERS = ("exact", "mcmc")
CHAINS = 4
_PATIENCE = 1 << 15  # refused proposals before all points of a small lattice are gone through
_STEPS = 2000  # of a chain, for every coordinate
_FEWEST = 100
_WANTED, _STRIDE = 0.25, 0.3  # share of accepted steps, and how fast the scale follows


@dataclass(frozen=True, slots=True, eq=False)
class ChainDiagnostics:
    """How well the chains of one release agreed. **Not private**: computed from the rows.

    Attributes
    ----------
    rhat : array
        For every coordinate and, last, the level: the root of the ratio of the pooled variance to
        that within halves of chains. Chains that agree have values near 1; above 1.01 take more
        steps.
    effective_draws : array
        How many independent draws the kept steps of all chains are worth.
    accepted : float
        Share of the proposals that were accepted.
    """

    rhat: FloatArray
    effective_draws: FloatArray
    accepted: float


class LevelChains:
    r"""Metropolis chains on the lattice points of a box or of an l1 ball.

    Starting points are drawn from public facts alone. In the first half of every chain, which is
    dropped, the rate rises from nearly nothing to its value and steps are fitted to an acceptance
    of a quarter; in the second half both are fixed.

    Parameters
    ----------
    levels : BoxLevels
    rate : Fraction > 0
    steps : int
        Of every chain.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> class Distance(BoxLevels[None]):  # k(z) = |z|
    ...     low, high = (-1000,), (1000,)
    ...     def start(self): return None
    ...     def bounds(self, known, low, high):
    ...         return abs(low[0]), abs(low[0]), None  # asked for points only
    >>> point, found = LevelChains(Distance(), Fraction(1), 2000).draw(source(1))
    >>> abs(point[0]) < 20, bool((found.rhat < 1.2).all())
    (True, True)
    """

    def __init__(self, levels: BoxLevels[Any], rate: Fraction, steps: int) -> None:
        self.levels, self.rate, self.steps = levels, float(rate), steps
        widths = [b - a for a, b in zip(levels.low, levels.high, strict=True)]
        self._widest = float(max(1, max(widths)).bit_length())

    def draw(self, rng: RandomSource, *, progress: bool = False) -> tuple[Point, ChainDiagnostics]:
        """The last point of the first chain, and how the chains agreed."""
        kept = np.empty((CHAINS, self.steps, len(self.levels.low) + 1))
        accepted = 0
        with progress_bar(CHAINS * self.steps, "steps", show=progress) as move_bar:
            for chain in kept:
                accepted += self._run(chain, rng)
                move_bar(self.steps)
        last = tuple(int(z) for z in kept[0, -1, :-1])
        settled = kept[:, self.steps // 2 :]
        share = accepted / (CHAINS * self.steps)
        return last, ChainDiagnostics(split_rhat(settled), effective_draws(settled), share)

    def _run(self, chain: FloatArray, rng: RandomSource) -> int:
        """Fill the trace of one chain; the number of accepted moves."""
        point = self._first(rng)
        level, accepted = self.levels.level(point), 0
        coins = np.log(rng.uniform(self.steps)) / self._rates()
        scale = self._widest
        for i, (row, coin) in enumerate(zip(chain, coins, strict=True)):
            moved = self._moved(point, scale, rng)
            new = self.levels.level(moved) if self._allowed(moved) else None
            if taken := new is not None and coin < level - new:
                point, level, accepted = moved, new, accepted + 1
            if 2 * i < self.steps:  # fixed from then on: a chain that adapts has no limit law
                scale = min(max(scale + _STRIDE * (taken - _WANTED), 0.0), self._widest)
            row[:-1], row[-1] = point, level
        return accepted

    def _moved(self, point: Point, scale: float, rng: RandomSource) -> Point:
        """A symmetric proposal: every coordinate, up to half, once or twice the scale."""
        reach = max(1, int(2.0 ** (scale + rng.below(3) - 1)))
        return tuple(z + rng.below(2 * reach + 1) - reach for z in point)

    def _rates(self) -> FloatArray:
        """From a law that is nearly even to the law wanted, in the dropped half."""
        low, high = self.levels.low, self.levels.high
        deep = max(1.0, self.rate * self.levels.bounds(self.levels.start(), low, high)[1])
        done = np.minimum(1.0, 2.0 * np.arange(self.steps) / self.steps)
        return np.asarray(self.rate * deep ** (done - 1.0))

    def _first(self, rng: RandomSource) -> Point:
        """A point spread over the set, whatever the data."""
        low, high, radius = self.levels.low, self.levels.high, self.levels.radius
        if radius is None:
            return tuple(a + rng.below(b - a + 1) for a, b in zip(low, high, strict=True))
        parts = rng.exponential(len(low) + 1)
        sizes = np.floor(parts[:-1] / parts.sum() * radius)
        return tuple(int(s) * (1 - 2 * rng.below(2)) for s in sizes)

    def _allowed(self, point: Point) -> bool:
        inside = all(
            a <= z <= b for a, z, b in zip(self.levels.low, point, self.levels.high, strict=True)
        )
        return inside and self.levels.inside(point)


def split_rhat(traces: FloatArray) -> FloatArray:
    """The split R-hat of Gelman and Rubin for traces of shape (chains, steps, quantities).

    >>> rng = np.random.default_rng(1)
    >>> apart = rng.normal(size=(2, 500, 1)) + np.array([0.0, 3.0])[:, None, None]
    >>> bool(split_rhat(rng.normal(size=(2, 500, 1)))[0] < 1.02 < 1.5 < split_rhat(apart)[0])
    True
    """
    half = traces.shape[1] // 2
    parts = np.concatenate([traces[:, :half], traces[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    still = within <= 0
    ratio = (half - 1) / half + between / np.where(still, 1.0, within)
    # chains that never moved agree only if they are at one place
    stuck = np.where(between > 0, np.inf, 1.0)
    return np.asarray(np.where(still, stuck, np.sqrt(ratio)))


def effective_draws(traces: FloatArray) -> FloatArray:
    """Steps divided by their autocorrelation time, summed over chains (Geyer's positive pairs).

    >>> rng = np.random.default_rng(1)
    >>> bool(effective_draws(rng.normal(size=(2, 500, 1)))[0] > 700)
    True
    """
    _, steps, quantities = traces.shape
    total = np.zeros(quantities)
    size = 1 << (2 * steps - 1).bit_length()
    for chain in traces:
        away = chain - chain.mean(axis=0)
        spectrum = np.abs(np.fft.rfft(away, size, axis=0)) ** 2
        cover = np.fft.irfft(spectrum, size, axis=0)[:steps]
        for j in range(quantities):
            if cover[0, j] <= 0:
                continue  # a chain that never moved is worth nothing
            rho = cover[:, j] / cover[0, j]
            pairs = rho[0 : 2 * (steps // 2) : 2] + rho[1 : 2 * (steps // 2) : 2]
            negative = np.flatnonzero(pairs < 0)
            until = int(negative[0]) if len(negative) else len(pairs)
            total[j] += steps / max(1.0, 2 * float(pairs[:until].sum()) - 1)
    return total


class Sampler:
    """How a mechanism draws from its levels: exactly, or by chains on request.

    ``diagnostics`` are those of the last draw by chains, None before; **not private**.
    """

    def __init__(self, sampler: object, steps: object, dim: int) -> None:
        self.exact = check_choice("sampler", sampler, SAMPLERS) == "exact"
        if self.exact and steps is not None:
            fail("`steps` belong to sampler='mcmc': an exact draw has none.")
        self.steps = _STEPS * dim if steps is None else check_count("steps", steps)
        if self.steps < _FEWEST:
            fail(f"`steps` must be at least {_FEWEST}: the first half of a chain is dropped.")
        self.diagnostics: ChainDiagnostics | None = None

    @property
    def numerics(self) -> Numerics:
        """What a guarantee has to say."""
        return Numerics.EXACT if self.exact else Numerics.APPROXIMATE

    @property
    def words(self) -> str:
        """What a law has to say: nothing if it is drawn exactly."""
        return "" if self.exact else f", approached by a Markov chain of {self.steps} steps"

    def draw(
        self, levels: BoxLevels[Any], rate: Fraction, rng: RandomSource, progress: bool
    ) -> Point:
        """One lattice point.

        An exact draw cuts boxes. On a small lattice it goes through all points once, where many
        proposals were refused: the law is the same, for refusals tell nothing of it.
        """
        if self.exact:
            few = math.prod(b - a + 1 for a, b in zip(levels.low, levels.high, strict=True))
            patience = _PATIENCE if few <= MOST_POINTS else math.inf
            return BoxSampler(levels, rate).draw(rng, patience)
        chains = LevelChains(levels, rate, self.steps)
        point, self.diagnostics = chains.draw(rng, progress=progress)
        return point
