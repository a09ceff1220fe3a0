"""A quantile with an interval: points near three ranks, and counts of rows around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from tightdp.errors import FloatArray, InfeasibleSamplingError, fail
from tightdp.exact.joint_law import JointLaw
from tightdp.exact.lattice_bodies import DiamondBody
from tightdp.exact.lattice_body import LatticeBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.mechanisms.ranks import BinomialSteps, Ranks, finer_bits, score_cap
from tightdp.noise.lattice import LatticeNoise
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource, source
from tightdp.schema import Schema

POINTS, COUNTS = Fraction(2, 5), Fraction(3, 5)  # shares of epsilon
_STEPS = (70, 32, 14, 3)  # ranks of candidates beyond the sampling error, times epsilon
_FARTHER = (4,)  # times the distance of the outer point
_NEARER = 16  # part of the distance of the outer point
_FAR = 64  # part of the range of the column that the outermost candidate is away, at least
_OUTER = len(_FARTHER)  # the place of the outer point
_CANDIDATES = _OUTER + len(_STEPS) + 2
CELLS = 2 * _CANDIDATES + 1
_MOST_ROWS = 1 << 23  # that a draw of the points works with
_FINE = 256  # points in a scale of the noise, at least, at which its law is summed
_REACH = 90  # scales of the noise beyond which less than _LEAST lies
_LEAST = 1e-20
_PER_RANK = 8  # steps of a rank in which limits are sought where the number of rows is private
_MODELS, _SEED = 8000, 20_260_102  # even rows, simulated for previews


class RankWalk:
    r"""Releases a point M near a quantile q, and two ends around q.

    1. *Points.* L, M and U are drawn jointly near the ranks :math:`n\tau - a`, :math:`n\tau` and
    :math:`n\tau + a`, as by :class:`~tightdp.KNormQuantiles`. 2. *Candidates* for the lower end lie
    on the line through M and L at public fractions :math:`a_i/a` of their distance, rounded
    outwards: beyond L (a public distance from M at least), at L, between L and M, and at M. For
    the upper end likewise. 3. *Counts.* The candidates cut the line into cells
    :math:`(-\infty, \ell_0), [\ell_0, \ell_1), \dots,
    [M, M], \dots, (u_1, u_0], (u_0, \infty)`, whose rows are counted with noise. 4. *Walk.* From
    outside inwards, the lower end is the last candidate before the first one below which too many
    rows were counted; the public bound, if that is the outermost one. The upper end likewise.

    **Coverage.** The lower end lies above q only if the *first* candidate t above q passes. Which
    one that is depends on the rows, L, M and U, and the noise of counts is independent of these.
    With A and S the noisy numbers of rows below t and of all rows, t passes if
    :math:`T = A - \tau S \le c_j`, j the place of t. All :math:`N(q)` rows at or below q lie below
    t, so :math:`T \ge N(q) - n\tau + W_j`, :math:`W_j` the noise in it. The chance of a miss is at
    most :math:`E \max_j P\{W_j \le c_j - (N(q) - n\tau)\}`: that of one candidate, whatever the
    rows and however fine the grid. For the quantile of the rows, by any usual convention,
    :math:`N(q) \ge n\tau - 1`; for that of the population N(q) is stochastically at least
    binomial(n, tau). The :math:`c_j` are the largest numbers for which this is at most half of the
    chance to miss. The other half is for the upper end, with :math:`1 - \tau` and all turned round.

    **Privacy.**
    Statement: point and ends are epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] rows on a public grid; :math:`a`, :math:`a_i` and :math:`c_j` from public facts.
    Proof: 1. [P2] The points have the law of :class:`~tightdp.KNormQuantiles`, with weight
    :math:`e^{-r s}`, s the sum over the four gaps of the distance of the rows in them from their
    wanted numbers. These sum to n, and each is public or grows by 0 to 1 for every further row, by
    1 in all. So a row replaced, or added, changes s by at most 2, a person by 2k; r is two fifths
    of epsilon over 4k. Rows are moved within their grid cells, and s counts up to a cap, as there.
    2. [P3] Given the candidates, a row replaced goes from one cell to another, and a person adds k
    rows. Noise of the law :math:`e^{-r\lvert z\rvert_1}`, r = three fifths of epsilon over 2 or k,
    covers this. Where the number of rows is public the noise sums to 0, as do the moves. 3. The
    walk reads nothing else; the epsilons add.
    Numerics: ``exact``.

    **Choice of numbers.** Shares of epsilon and :math:`a_i` were chosen for short intervals of even
    and skewed rows, from next to no sampling error to one far larger than the noise. With s the
    standard deviation of the binomial number (0 for the quantile of the rows) and z the normal
    quantile, :math:`a = zs + 70k/\epsilon`; candidates are at 4 times a, at a, at
    :math:`zs + (32, 14, 3)k/\epsilon` ranks, and at a sixteenth of a, for an outer point that fell
    far from all rows. Where rows are so few that a is beyond the middle between :math:`-c_0` and
    :math:`n\tau`, all are nearer. The outermost is at least 1/64 of the range of the column away:
    with ties all three points may be one.

    Parameters
    ----------
    schema : Schema
        Rows, grid, neighbours, and rows of a person.
    tau, epsilon : Fraction
    population : bool
        Whether the quantile of the population is meant, or that of the rows.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> walk = RankWalk(schema, Fraction(1, 2), Fraction(1), population=True)
    >>> walk.offsets(0.05)[0]  # ranks; the sampling error reaches 30
    (404, 101, 63, 45, 34, 6, 0)
    >>> [int(limit) for limit in walk.limits(0.05)[0]]
    [-34, -35, -36, -37, -37, -38, -38]
    """

    def __init__(self, schema: Schema, tau: Fraction, epsilon: Fraction, population: bool) -> None:
        replaced = schema.neighbors is Neighbors.REPLACE_ONE
        self._persons = 1 if replaced else schema.rows_per_person
        self._rows, self._tau, self._epsilon = schema.rows, tau, epsilon
        self._population = population
        self.rate = POINTS * epsilon / (4 * self._persons)
        self._finer, self._edge = finer_bits(schema), schema.resolution
        self._far = 2 * self._edge // _FAR
        self.cap = score_cap((2 * self._edge + 1) << self._finer, 3, self.rate)
        if min(self._rows, self.cap) > _MOST_ROWS:
            fail(
                f"`interval` takes too long for {self._rows} rows at this `epsilon`: its draw "
                f"works with {min(self._rows, self.cap)} of them. Leave it out, or spend more.",
                InfeasibleSamplingError,
            )
        kept = schema.rows_known  # no noise on the number of rows
        body: LatticeBody = HistogramBody(CELLS) if kept else DiamondBody(CELLS)
        moved = 1 if kept else 2 if replaced else self._persons  # levels of a body
        self.noise = LatticeNoise(body, COUNTS * epsilon, moved)  # [P3]
        self._law = CountLaw(tau, self.noise.rate / 2 if kept else self.noise.rate, kept)

    @property
    def law(self) -> str:
        """What is drawn, in words."""
        total = ", which sums to 0" if self._law.kept else ""
        return (
            f"three ordered grid points with weight exp(-{self.rate} * s), s the sum over gaps of "
            f"the distance of the rows in them from their number, at most {self.cap}; rows in "
            f"{CELLS} cells with noise z of weight exp(-{self._law.rate} * |z|){total}"
        )

    def draw(self, ranks: Ranks, miss: float, rng: RandomSource) -> tuple[int, int, int]:
        """The point and both ends, for rows that were read."""
        limits, offsets, edge = self.limits(miss), self.offsets(miss), ranks.edge
        below, point, above = (int(t) for t in self.points(ranks, miss, rng).draw(rng))
        below, point, above = (t >> self._finer for t in (below, point, above))
        low = [max(point + (below - point) * a // offsets[0][_OUTER], -edge) for a in offsets[0]]
        high = [min(point - (point - above) * a // offsets[1][_OUTER], edge) for a in offsets[1]]
        low[0] = max(min(low[0], point - self._far), -edge)
        high[0] = min(max(high[0], point + self._far), edge)
        counts, noise = ranks.between(low, high[::-1]), self.noise.sample(1, rng=rng)[0]
        noisy = [int(c) + int(z) for c, z in zip(counts, noise, strict=True)]  # [P3]
        first = _passed(noisy, self._tau, limits[0])
        last = _passed(noisy[::-1], 1 - self._tau, limits[1])
        return point, [-edge, *low][first], [edge, *high][last]

    def points(self, ranks: Ranks, miss: float, rng: RandomSource) -> JointLaw:
        """The law of L, M and U, given how rows are moved in their cells; **not private**. [P2]

        Rows farther than half of the cap from all three ranks do not matter: a point among them
        leads the score to the cap.
        """
        rows, edge = ranks.rows, ranks.edge
        aims = [self._aim(rows, 0, miss), rows * self._tau, rows - self._aim(rows, 1, miss)]
        first = max(0, math.floor(aims[0]) - self.cap // 2 - 2)
        last = min(rows, math.ceil(aims[2]) + self.cap // 2 + 2)
        moved = ranks.moved(first, last, self._finer, rng)
        shares = [(aim - first) / max(1, len(moved)) for aim in aims]
        ends = -edge << self._finer, (edge + 1) << self._finer
        return JointLaw(moved, *ends, shares, self.rate, self.cap)

    def _aim(self, rows: int, side: int, miss: float) -> Fraction:
        """How many of the rows shall lie beyond an outer point; not private.

        It grows with the rows, by less than their share beyond the quantile does. [P2]
        """
        share = rows * (1 - self._tau if side else self._tau)
        middle = [(share + limit) / 2 for limit in self.limits(miss)[side][:1]]
        return min(share, max([Fraction(0), share - self.offsets(miss)[side][_OUTER], *middle]))

    # --- from public facts ------------------------------------------------------------------------

    def offsets(self, miss: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """How many ranks from the point candidates of either end shall be, the outermost first."""
        found, spread = [], self._spread(miss)
        for tau, limits in zip((self._tau, 1 - self._tau), self.limits(miss), strict=True):
            farthest = (self._rows * tau - sum(limits[:1])) / 2 - spread
            unit = max(Fraction(0), min(self._persons / self._epsilon, farthest / _STEPS[0]))
            near = [spread + math.ceil(x * unit) + 1 for x in _STEPS]
            nearest = min(near[0] // _NEARER, near[-1])
            found.append((*(x * near[0] for x in _FARTHER), *near, nearest, 0))
        return found[0], found[1]

    def _spread(self, miss: float) -> int:
        """How far the sampling error reaches, in ranks."""
        if not self._population:
            return 0
        from scipy.special import ndtri  # slow to import, and rarely needed

        tau = float(self._tau)
        return math.floor(-ndtri(miss / 2) * math.sqrt(self._rows * tau * (1 - tau)))

    def rank_error(self, miss: float) -> float:
        """The point is at most so many ranks off, but for this chance, whatever the rows.

        If it is x off, the score is 2x at least; some points have a score of at most 4.
        """
        edge = ((2 * self._edge + 1) << self._finer) + 2
        triples = 3 * math.log(edge) - math.log(6)
        return ((triples - math.log(miss)) / float(self.rate) + 4) / 2 * (1 + 1e-12)

    def limits(self, miss: float) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """The largest T with which candidates pass, of either end."""
        rows = self._rows if self._population else None
        turned = self._law._replace(tau=1 - self._law.tau)
        return self._law.limits(rows, miss / 2), turned.limits(rows, miss / 2)

    def foreseen(self, miss: float, level: float) -> tuple[float, float]:
        """Standard error of the point, and how far the farther end is from the quantile at this
        level: shares of even rows.

        The errors of the ranks of three points are a walk with Laplace steps that returns to zero.
        """
        bits, rows, tau = source(_SEED), float(self._rows), float(self._tau)
        steps = bits.exponential((_MODELS, 3)) - bits.exponential((_MODELS, 3))
        walks = np.cumsum(steps, axis=1)
        walks = walks[bits.uniform(_MODELS) < np.exp(-np.abs(walks[:, -1]))] / float(self.rate)
        models = len(walks)
        aims = [self._aim(self._rows, side, miss) for side in (0, 1)]
        points = np.array([float(aims[0]), rows * tau, rows - float(aims[1])]) + walks
        points = np.maximum.accumulate(np.clip(points, 0.0, rows), axis=1)
        noise, reached = self.noise.sample(models, rng=bits).astype(np.float64), []
        for side, share in enumerate((tau, 1 - tau)):
            beyond = rows - points[:, ::-1] if side else points
            offsets = np.array(self.offsets(miss)[side], dtype=np.float64)
            away = np.outer(beyond[:, 1] - beyond[:, 0], offsets / offsets[_OUTER])
            away[:, 0] = np.maximum(away[:, 0], rows / _FAR)
            places = np.maximum(beyond[:, 1:2] - away, 0.0)
            cells = noise[:, :: 1 - 2 * side]
            looked = places + np.cumsum(cells, axis=1)[:, :_CANDIDATES]
            looked -= share * (rows + cells.sum(axis=1))[:, None]
            most = [float(x) for x in self.limits(miss)[side]] or [-math.inf] * _CANDIDATES
            passed = np.logical_and.accumulate(looked <= most, axis=1).sum(axis=1)
            ends = np.column_stack([np.zeros(models), places])[np.arange(models), passed]
            reached.append(rows * share - ends)
        off = (points[:, 1] - rows * tau) / rows
        farther = np.max(reached, axis=0) / rows
        return float(np.sqrt(np.mean(off**2))), float(np.quantile(farther, level))


def _passed(noisy: Sequence[int], tau: Fraction, limits: Sequence[Fraction]) -> int:
    """How many candidates pass, from outside inwards."""
    share, upto = tau * sum(noisy), 0
    for passed, limit in enumerate(limits):
        upto += noisy[passed]
        if upto - share > limit:
            return passed
    return len(limits)


class CountLaw(NamedTuple):
    r"""The law of the noise of :math:`A - \tau S`, A the rows of some outer cells and S of all.

    The noise of a cell has the law :math:`\propto e^{-r\lvert z\rvert}`, independently, given that
    all sum to 0 if the total is ``kept``.
    """

    tau: Fraction
    rate: Fraction
    kept: bool

    def limits(self, rows: int | None, miss: float) -> tuple[Fraction, ...]:
        """The largest numbers that are exceeded but for this chance, for every candidate at once.

        Of a binomial number out of so many rows less its mean, plus noise; or of -1 plus noise.
        """
        return _limits(self, rows, miss)

    def sums(self) -> list[_CountNoise]:
        """For 1, 2, ... outer cells."""
        kind = _Kept if self.kept else _Free
        return [kind(cells, self) for cells in range(1, _CANDIDATES + 1)]


class _CountNoise(Protocol):
    """Noise of :math:`A - \tau S` for so many outer cells."""

    step: Fraction
    """Limits are multiples of this."""
    far: int
    """So far out there is no noise, as good as."""

    def chance(self, limit: Fraction, less: FloatArray) -> FloatArray:
        """At least the chance that the noise is at most ``limit - less``."""
        ...


class _Points:
    r"""The sum of j independent integers with the law :math:`\propto e^{-r\lvert z\rvert}`.

    With :math:`\rho = e^{-r}` a sum :math:`z \ge 0` has, by the residue at :math:`\rho` of their
    generating function, the weight :math:`f_j(z) = \rho^z \sum_{i<j} \binom{z+j-1}{j-1-i}
    \binom{j-1+i}{i} (\rho^2/(1-\rho^2))^i`: no term is negative. From z to z + 1 it changes by a
    factor of at most :math:`e^r`, as every term of the sum does. So where the weights are summed in
    steps of s points, the chances are off by a factor of at most :math:`e^{2rs}`.
    """

    def __init__(self, rate: Fraction) -> None:
        self.rate = float(rate)
        self.step = max(1, math.floor(1 / (_FINE * self.rate)))
        edge = math.ceil(_REACH / self.rate / self.step) + _REACH
        self.z = np.arange(-edge, edge + 1, dtype=np.float64) * self.step

    def log_weights(self, terms: int) -> FloatArray:
        """log f_j at every point."""
        z = np.abs(self.z)
        odds = math.exp(-2 * self.rate) / -math.expm1(-2 * self.rate)
        total = np.zeros_like(z)
        for i in range(terms):
            ways = np.full_like(z, math.comb(terms - 1 + i, i) * odds**i)
            for t in range(terms - 1 - i):
                ways *= (z + terms - 1 - t) / (t + 1)
            total += ways
        return np.asarray(np.log(total) - self.rate * z)

    def upto(self, logs: FloatArray, laws: int) -> FloatArray:
        """The chance of each point and all below it, at least; of a product of so many laws."""
        weights = np.exp(logs - logs.max())
        slack = math.exp(2 * laws * self.rate * self.step) if self.step > 1 else 1 + 1e-9
        return np.asarray(np.cumsum(weights) / weights.sum() * slack + _LEAST)

    def at(self, upto: FloatArray, x: FloatArray) -> FloatArray:
        """Sums up to x, with the whole step in which it lies."""
        place = np.floor(x / self.step).astype(np.int64) + len(self.z) // 2
        return np.where(place < 0, _LEAST, upto[np.clip(place, 0, len(upto) - 1)])


class _Kept:
    """All noise sums to 0: what A has, the other cells have with the other sign."""

    step = Fraction(1)

    def __init__(self, cells: int, law: CountLaw) -> None:
        self._points = points = _Points(law.rate)
        logs = points.log_weights(cells) + points.log_weights(CELLS - cells)
        self._upto, self.far = points.upto(logs, 2), int(points.z[-1])

    def chance(self, limit: Fraction, less: FloatArray) -> FloatArray:
        return self._points.at(self._upto, float(limit) - less)


class _Free:
    r"""A has the noise P, the others Q: :math:`A - \tau S` has :math:`(1 - \tau)P - \tau Q`."""

    step = Fraction(1, _PER_RANK)

    def __init__(self, cells: int, law: CountLaw) -> None:
        self._points, self._tau = _Points(law.rate), float(law.tau)
        mine, others = (self._points.log_weights(j) for j in (cells, CELLS - cells))
        self._mine = np.diff(self._points.upto(mine, 1), prepend=0.0)
        self._others, self.far = self._points.upto(others, 1), int(self._points.z[-1])

    def chance(self, limit: Fraction, less: FloatArray) -> FloatArray:
        """P at the lower end of its step, and Q at most as large as it is needed, turned."""
        found = [self._below(float(limit) - x) for x in less]
        return np.array(found)

    def _below(self, x: float) -> float:
        need = (x - (1 - self._tau) * self._points.z) / self._tau  # -Q is at most this
        need += 1e-9 * (1 + np.abs(need))
        return float(self._mine @ np.minimum(self._points.at(self._others, need), 1.0))


@lru_cache(maxsize=256)
def _limits(law: CountLaw, rows: int | None, miss: float) -> tuple[Fraction, ...]:
    less, chances, mean = np.array([-1.0]), np.ones(1), Fraction(0)
    if rows is not None:
        number = BinomialSteps.of(rows, law.tau)
        less, chances, mean = number.steps, number.chances, rows * law.tau
    sums, each = law.sums(), miss
    while each > 100 * _LEAST:
        found = [_largest(noise, less, chances, each) for noise in sums]
        worst = np.max([n.chance(x, less) for n, x in zip(sums, found, strict=True)], axis=0)
        if chances @ np.minimum(worst, 1.0) <= miss:
            return tuple(x - mean for x in found)
        each *= 0.98
    return ()  # no candidate passes


def _largest(noise: _CountNoise, less: FloatArray, chances: FloatArray, miss: float) -> Fraction:
    """The largest multiple of the step with a chance of at most ``miss``."""

    def fits(steps: int) -> bool:
        return bool(chances @ np.minimum(noise.chance(steps * noise.step, less), 1.0) <= miss)

    low = math.floor((less.min() - noise.far) / noise.step) - 1
    high = math.ceil((less.max() + noise.far) / noise.step) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * noise.step
