r"""Noise in the shape of a round ball: entries from tables of integer weights, then one coin a row.

The law is :math:`T(z) = e^{-\eta\lceil|z|\rceil}` on integer vectors. Radii are cut into
**windows**, and every window has a table that follows a normal law whose vectors have such radii:
an entry is a cell c with an integer weight :math:`h_c` out of H, and one of the m integers of the
cell. So the probability of a row is a ratio of integers, known exactly,

.. math:: P(z) = \prod_i \frac{h_{c_i}}{H m} ,

and a row whose radius lies in its window is kept with a probability in proportion to T(z)/P(z). The
last window, beyond all radii that are likely, has weights :math:`2^{-j}`, which reach everywhere.
Half of the rows are kept, whatever the number of entries. Floats choose tables and windows, and
filter the coins with a stated margin; what they leave open is settled by integers. No float
decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import WideIntegers
from tightdp.exact.discrete_draws import collect
from tightdp.exact.lattice_body import ceil_sqrt
from tightdp.exact.rejection import by_weight, halvings
from tightdp.exact.undecided_bits import below_exp
from tightdp.randomness import RandomSource

MOST_ENTRIES = 2048  # tables grow with their number
_WINDOW = 2.2  # relative width of a window, times the root of the dimension
_NEAREST = 0.02  # of all windows but the first, in units of dim / rate
_RARE = 40.0  # the last window is chosen once in exp(40) rows
_WEIGHT = 52  # bits of the weight of a window
_MARGIN = 2.0**-16  # of bounds above the floats they come from
_TABLE, _SPARE = 1 << 32, 14  # all weights of a table together, and bits left to its second part
_CELLS = 1 << 17  # entries drawn at a time
_FARTHEST = 1 << 30  # radii, so that their squares are 64-bit integers
_TINY = np.uint64(1 << 52)
_HALF, _LOW = np.uint64(32), np.uint64((1 << 32) - 1)


class _Table:
    """Cells of m integers each, c = -C .. C - 1, with weights above those of a normal law.

    ``weight[c + C]`` is at least ``scale * exp(-z**2 / (2 sigma**2))`` for every z of the cell.
    """

    def __init__(self, sigma: float, m: int, half: int) -> None:
        nearest = np.abs(np.arange(-half, half, dtype=np.float64))
        nearest[:half] -= m > 1  # a cell below zero of several integers ends next to the one above
        shape = np.exp(-0.5 * (nearest * (m / sigma)) ** 2)
        scale = (_TABLE - len(shape) - 64) / float(shape.sum()) * (1 - 2.0**-30)
        # what exceeds 1 has errors below a part in 2**38; smaller weights are 1 anyway
        self.weight = np.maximum(np.ceil(shape * (scale * (1 + 2.0**-38))), 1).astype(np.int64)
        self.total, self.log_scale = int(self.weight.sum()), math.log(scale)
        self.first, self.logs = -half, np.log(self.weight.astype(np.float64))
        full = self.weight >> _SPARE
        self.direct = np.repeat(np.arange(-half, half, dtype=np.int32), full)
        rest = self.weight - (full << _SPARE)
        self.rest = np.cumsum(rest)

    def cells(self, numbers: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The cell of each number below 2**32, and which numbers stand for none."""
        bucket = (numbers >> np.uint64(_SPARE)).view(np.int64)
        full = len(self.direct)
        beyond = bucket >= full
        out = self.direct.take(np.where(beyond, 0, bucket)).astype(np.int64)
        late = np.flatnonzero(beyond)
        place = numbers.ravel()[late].view(np.int64) - (full << _SPARE)
        out.ravel()[late] = np.searchsorted(self.rest, place, side="right") + self.first
        beyond.ravel()[late] = place >= self.rest[-1]
        return out, beyond


_table = lru_cache(maxsize=32)(_Table)


class RoundLaw:
    r"""Integer vectors z with :math:`P(z) \propto e^{-\eta \lceil k|z| \rceil}`.

    **Exactness.**
    Statement: draws have this law.
    Needs: [N1] ``np.log`` and ``np.exp`` err by less than a part in 2**40; [N2] integers stay below
    2**63.
    Proof: 1. A window W is chosen with probability in proportion to an integer w, and z with
    probability P(z) from its table; z is refused outside of W, and else kept with probability
    :math:`2^b T(z)/(w P(z))`. So z, which lies in one window, comes out in proportion to T(z), if
    this is at most 1. 2. In a table :math:`h_c \ge s\,e^{-z_i^2/2\sigma^2}`, so
    :math:`T(z)/P(z) \le (Hm/s)^d \exp(-\eta k r + r^2/2\sigma^2)`, r = |z|, and the exponent is
    convex in r: it is largest at an end of W. 3. Beyond all tables,
    :math:`P(z) = \prod 2^{-j_i-2}/M` with :math:`j_i \le |z_i|/M` and :math:`|z|_1 \le \sqrt d\,r`:
    :math:`T/P \le (4M)^d \exp(-\eta k r + r \sqrt d \ln 2/M)`, which falls with r. 4. w is a bound
    of these with a margin of 2**-16 for the floats, rounded up. 5. Coins are decided by floats only
    where these keep more than their error away, and else by integers, with the same word.

    Parameters
    ----------
    dim : int
    rate : Fraction
        eta.
    part : int
        k.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> RoundLaw(5, Fraction(1, 100)).draw(3, source(1)).shape
    (3, 5)
    """

    def __init__(self, dim: int, rate: Fraction, part: int = 1, *, rare: float = _RARE) -> None:
        self.dim, self.rate, self.part = dim, rate, part
        self.pace = float(rate) * part  # of the exponent in |z|
        self.step = max(1, math.ceil(2 * math.log(2) * math.sqrt(dim) / self.pace))  # M
        size = self._log_size()
        far = 2 * (dim * math.log(4 * self.step) - size + rare) / self.pace
        self.squares = self._windows(max(far, 1.0))
        ends = np.sqrt(np.array(self.squares, dtype=np.float64))
        found = [self._fitted(*ends[k : k + 2]) for k in range(len(ends) - 1)]
        self.tables = [(sigma, m) for sigma, m, _ in found]
        last = dim * math.log(4 * self.step) - self.pace * float(ends[-1]) / 2
        bounds = np.array([bound for _, _, bound in found] + [last]) + _MARGIN
        self.places = _WEIGHT - math.ceil(float(bounds.max()) / math.log(2))  # b
        logs = np.maximum(bounds + self.places * math.log(2), -50.0)
        self.weights = [math.ceil(weight * (1 + _MARGIN)) for weight in np.exp(logs)]
        self.share = math.exp(size - float(np.logaddexp.reduce(bounds)))

    @property
    def feasible(self) -> bool:
        """Whether squares of all that is likely are 64-bit integers, and tables not too long."""
        longest = math.isqrt(self.squares[-1]) * self.part
        return self.dim <= MOST_ENTRIES and longest < _FARTHEST and self.share > 0.05

    def _log_size(self) -> float:
        """The logarithm of the integral of exp(-pace |z|)."""
        d = self.dim
        surface = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)
        return surface + math.lgamma(d) - d * math.log(self.pace)

    def _windows(self, far: float) -> list[int]:
        """Squares of radii, increasing integers from 0 on."""
        near = _NEAREST * self.dim / self.pace
        steps = math.ceil(math.log(far / near) / math.log1p(_WINDOW / math.sqrt(self.dim)))
        radii = np.geomspace(near, far, max(steps, 1) + 1)
        return sorted({0, *(math.floor(r * r) + 1 for r in radii.tolist())})

    def _fitted(self, low: float, high: float) -> tuple[float, int, float]:
        """The table of a window: sigma, m, and the logarithm of its bound."""
        d, cells = self.dim, 1 << max(6, math.ceil(math.log2(2 * self.dim)))  # in one sigma
        sigma = high / math.sqrt(d) * np.geomspace(0.4, 2.0, 400)
        height = np.maximum(
            -self.pace * low + 0.5 * (low / sigma) ** 2,
            -self.pace * high + 0.5 * (high / sigma) ** 2,
        )
        best = float(sigma[(height + d * np.log(sigma)).argmin()])
        m = max(1, round(best / cells))
        best = float(m * cells) if m >= 64 else max(best, 0.3)  # long cells share a table
        top = max(-self.pace * r + 0.5 * (r / best) ** 2 for r in (low, high))
        # H m / s: by Poisson's formula a sum over all integers is the integral, up to a factor of
        # 1 + 2 exp(-2 pi^2 sigma^2); cells of several integers count the one at zero twice
        whole = math.sqrt(2 * math.pi) * best * (1 + 2.0**-30) + (m if m > 1 or best < 1.3 else 0)
        # weights are rounded up by less than 1 for every cell of the table
        rounded = 1.01 * (2 * self._half(best, m, high) + 64) / _TABLE
        return best, m, top + d * (math.log(whole) + rounded)

    def _half(self, sigma: float, m: int, high: float) -> int:
        """Number of cells on each side of zero: they reach beyond all radii of the window."""
        if m < 64:
            return -(-math.ceil(high) // m) + 1
        # high is below 2.52 sigma sqrt(d), by the choice of sigma
        return math.ceil(2.6 * math.sqrt(self.dim) * round(sigma / m)) + 1

    def table(self, sigma: float, m: int, high: float) -> _Table:
        """Long cells, whose number does not depend on their length, share one."""
        half = self._half(sigma, m, high)
        return _table(sigma, m, half) if m < 64 else _table(64.0 * round(sigma / m), 64, half)

    def draw(self, size: int, rng: RandomSource) -> WideIntegers:
        """So many independent rows: int64, or Python integers where one is long."""
        share, d = 0.8 * self.share, self.dim
        return collect(lambda n: self._propose(n, rng), size, share, width=d, cells=_CELLS)

    def _propose(self, count: int, rng: RandomSource) -> WideIntegers:
        window = by_weight(self.weights, count, rng)
        found, places = [], []
        for k in np.unique(window).tolist():
            rows = np.flatnonzero(window == k)
            z, kept = (
                self._beyond(rows.size, rng)
                if k == len(self.tables)
                else self._in(k, rows.size, rng)
            )
            found.append(z)
            places.append(rows[kept])
        order = np.argsort(np.concatenate(places))  # the caller keeps the first ones
        return np.concatenate(found)[order]

    def _in(self, k: int, count: int, rng: RandomSource) -> tuple[WideIntegers, NDArray[np.intp]]:
        """Rows of a window that are kept, and which of so many they are."""
        (sigma, m), (low, high) = self.tables[k], self.squares[k : k + 2]
        table = self.table(sigma, m, math.sqrt(high))
        cell, place = _entries(table, m, (count, self.dim), rng)
        heights = table.logs.take(cell - table.first).sum(axis=1)
        cell *= m
        cell += place
        far = np.abs(cell).max(axis=1, initial=0)
        near = np.flatnonzero(far <= math.isqrt(high))  # [N2] sums of squares below dim * 2**60
        z, heights = cell[near], heights[near]
        if self.dim * high >= 1 << 62:
            size = np.einsum("ij,ij->i", z.astype(np.float64), z.astype(np.float64))
            short = size < 1.5 * high
            z, heights, near = z[short], heights[short], near[short]
        square = np.einsum("ij,ij->i", z, z)
        inside = np.flatnonzero((square >= low) & (square < high))
        level = ceil_sqrt(self.part * self.part * square[inside])
        words = rng.words(len(inside))
        free = self.dim * math.log(table.total * m) + self.places * math.log(2)
        x = free - math.log(self.weights[k]) - heights[inside] - float(self.rate) * level
        gap = np.log(np.maximum(words, _TINY).astype(np.float64) * 2.0**-64) - x
        keep = gap < 0
        close = (np.abs(gap) <= self.dim * 2.0**-34) | (words < _TINY)
        for i in np.flatnonzero(close).tolist():
            cells = z[inside[i]] // m - table.first
            below = math.prod(table.weight[cells].tolist())
            above = (table.total * m) ** self.dim
            keep[i] = self._coin(int(words[i]), int(level[i]), Fraction(above, below), k, rng)
        rows = inside[keep]
        return z[rows], near[rows]

    def _beyond(self, count: int, rng: RandomSource) -> tuple[WideIntegers, NDArray[np.intp]]:
        """The same for the last window, in Python integers: it is hardly ever asked."""
        out, kept = [], []
        for row in range(count):
            j = [halvings(rng) for _ in range(self.dim)]
            sizes = [each * self.step + rng.below(self.step) for each in j]
            z = [size if rng.below(2) else -1 - size for size in sizes]
            square = sum(each * each for each in z)
            if square < self.squares[-1]:
                continue
            level = math.isqrt(self.part**2 * square - 1) + 1
            above = Fraction((4 * self.step) ** self.dim << sum(j))
            if self._coin(int(rng.words(1)[0]), level, above, len(self.tables), rng):
                out.append(z)
                kept.append(row)
        points = np.array(out, dtype=object).reshape(-1, self.dim)
        long = any(abs(each) >= 1 << 62 for z in out for each in z)
        return points if long else points.astype(np.int64), np.array(kept, dtype=np.intp)

    def _coin(self, word: int, level: int, above: Fraction, k: int, rng: RandomSource) -> bool:
        """Whether a row of probability 1 / above is kept, in integers."""
        share = above * Fraction(2) ** self.places / self.weights[k]
        num, den = share.numerator, share.denominator
        return below_exp(word, self.rate * level, rng, num=num, den=den)


def _entries(
    table: _Table, m: int, shape: tuple[int, int], rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cells by their weights, and uniform places below m in them."""
    words = rng.words(shape[0] * shape[1])
    cell, bad = table.cells(words >> _HALF)
    words &= _LOW
    words *= np.uint64(m)
    bad |= (words & _LOW) < np.uint64((1 << 32) % m)  # Lemire (2019), as in integers_within
    words >>= _HALF
    place = words.view(np.int64)
    while bad.any():
        again = np.flatnonzero(bad)
        fresh = rng.words(again.size)
        cell[again], none = table.cells(fresh >> _HALF)
        product = (fresh & _LOW) * np.uint64(m)
        place[again] = (product >> _HALF).view(np.int64)
        bad[again] = none | ((product & _LOW) < np.uint64((1 << 32) % m))
    return cell.reshape(shape), place.reshape(shape)
