r"""Norms of the gradient of the check loss on boxes of planes, as integers, and draws by lines.

Cutting boxes (:mod:`tightdp.exact.box_sampling`) is quick where the law is smooth. Where the
least levels lie on thin sets, as with few distinct rows, it may have to cut down to single points,
of which there are more than anybody can wait for. Lines (:class:`LineLaw`) go through all planes
with work known beforehand: the slopes run through all their lattice points, and along the line of
the first coefficient the levels are constant between at most as many places as there are distinct
rows, a number of steps that public facts bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, Integers
from tightdp.exact.box_sampling import BoxLevels, Point
from tightdp.exact.enclosures import exp_up
from tightdp.exact.rejection import choose, keeps, until_accepted
from tightdp.randomness import RandomSource

_FEW = 4  # so many rows between the planes of a box are followed one by one
_TILE = 64  # rows that are judged together while boxes are large
_LARGE = {1: 16, 2: 16, 3: 8}  # by dimension: boxes are large down to this part of the whole
_FEW_ROWS = 4096  # tiles do not pay for fewer rows

Places = NDArray[Any]
"""Places of rows or tiles: 32-bit integers, or 64 bits where there are so many rows."""
MOST_STEPS = 1 << 30  # lines times rows: minutes, at worst
MOST_LINES = 750_000  # five coefficients in steps of 2**-5
_CHUNK = 1 << 18  # cells of a table of lines by rows


class CheckNorm:
    r"""The norm whose unit ball is the hull of what one row can change of the gradient.

    One row has the gradient :math:`x (b - \tau)`, :math:`b \in \{0, 1\}`,
    :math:`\lVert x \rVert_\infty \le 1`; let :math:`M = \max(\tau, 1-\tau)`.

    - Replace-one, no constant among the x: a difference has entries up to 2M, and the hull is the
      cube of that radius.
    - Replace-one with a constant: the first entry of a difference is :math:`t = b - b'`. If t = 0
      the others are up to 2M in size, if t is 1 or -1 they are up to
      :math:`(1-\tau) + \tau = 1`; so the hull is
      :math:`\{|t| \le 1,\ \lVert v\rVert_\infty \le 2M - (2M-1)|t|\}`, with the gauge
      :math:`\max\{|t|, (\lVert v\rVert_\infty + (2M-1)|t|)/(2M)\}`.
    - Add-remove: the cube of radius M.

    Gradients come as integers in units of ``1/(c * resolution)``, c the denominator of tau; norms
    are integers in a unit such that ``sensitivity`` is 1.

    >>> norm = CheckNorm(Fraction(9, 10), dim=2, intercept=True, replace=True, resolution=1)
    >>> norm([10, 0]) / norm.sensitivity, norm([0, 18]) / norm.sensitivity
    (1.0, 1.0)
    """

    def __init__(
        self, tau: Fraction, *, dim: int, intercept: bool, replace: bool, resolution: int
    ) -> None:
        c = tau.denominator
        m = max(tau.numerator, c - tau.numerator)
        self._first = self._rest = self._slant = 1
        if not replace:
            self.sensitivity = m * resolution
        elif not intercept:
            self.sensitivity = 2 * m * resolution
        elif dim == 1:
            self.sensitivity = c * resolution
        else:
            self._first, self._rest, self._slant = 2 * m, c, 2 * m - c
            self.sensitivity = 2 * m * c * resolution
        self._tight = replace and intercept and dim > 1

    def __call__(self, sizes: Sequence[int]) -> int:
        """The norm of a gradient with entries of these sizes; it grows with every one of them."""
        if not self._tight:
            return max(sizes)
        t = sizes[0]
        return max(self._first * t, self._rest * max(sizes[1:]) + self._slant * t)

    def rounded(self, sizes: FloatArray) -> FloatArray:
        """The same for doubles, entries along the first axis."""
        if not self._tight:
            return np.asarray(sizes.max(axis=0))
        t, rest = sizes[0], sizes[1:].max(axis=0)
        return np.maximum(self._first * t, self._rest * rest + self._slant * t)


class Sides(NamedTuple):
    """What is known of the rows on a box of planes."""

    below: tuple[int, ...]  # the sum of x over rows that lie below or on all planes of the box
    open: Places | None  # rows, or tiles, between planes of the box; None for all
    tiled: bool  # whether `open` speaks of tiles


class QuantileLevels(BoxLevels[Sides]):
    r"""Integer norms of the gradient of the check loss, on a lattice of planes.

    The gradient :math:`\sum_i x_i (1[y_i \le x_i^\top\theta] - \tau)` is constant between the
    hyperplanes :math:`y_i = x_i^\top\theta`. For a box of planes most rows lie on one side of all
    of them; the others enclose every entry of the gradient. All comparisons are between integers,
    and a box inherits the settled rows of the box around it.

    Parameters
    ----------
    x : integers, shape (n, d)
        In units of ``2**-bits``.
    y : integers, shape (n,)
    tau : Fraction
    norm : CheckNorm
    edge : int
        Coefficients are ``z * 2**-grid`` with integers z of size at most ``edge``.
    grid : int
    radius : int, optional
        Bound on the sum of the sizes of the z.

    Examples
    --------
    >>> x, y = np.array([[4], [4], [4]]), np.array([0, 1, 4])  # heights 0, 1/4, 1
    >>> norm = CheckNorm(Fraction(1, 2), dim=1, intercept=True, replace=True, resolution=4)
    >>> levels = QuantileLevels(x, y, Fraction(1, 2), norm=norm, edge=4, grid=2)
    >>> [levels.level((z,)) for z in (-1, 0, 1, 4)]  # |2 * (number below) - 3|, in units of 1/4
    [12, 4, 4, 12]
    """

    def __init__(
        self,
        x: Integers,
        y: Integers,
        tau: Fraction,
        *,
        norm: CheckNorm,
        edge: int,
        grid: int,
        radius: int | None = None,
    ) -> None:
        self.low, self.high = (-edge,) * x.shape[1], (edge,) * x.shape[1]
        self.radius = radius
        x, y, counts = _merged(x, y)
        self._x = np.ascontiguousarray(x.T)
        self._mass = self._x * counts
        self._twice = y << (grid + 1)
        self._a, self._c = tau.numerator, tau.denominator
        self._total = [int(s) for s in self._mass.sum(axis=1)]
        self._norm, parts = norm, _LARGE.get(len(self.low), 1)
        self._small = 2 * edge // parts
        pays = parts > 1 and len(y) > _FEW_ROWS
        self._tiles = _Tiles(self._x, self._mass, self._twice) if pays else None

    # --- along lines of the first coefficient -------------------------------------------------

    @property
    def distinct(self) -> int:
        """Number of distinct rows."""
        return len(self._twice)

    def switches(self, slopes: Integers) -> tuple[Integers, Integers, Integers]:
        """Where rows change sides along lines of the first coefficient, with all others given.

        Returns
        -------
        places : shape (lines, rows)
            The first coefficient at which a row is on another side than far to the left.
        change : shape (d, rows)
            What this adds to the sum of x below the plane.
        start : shape (d, lines)
            That sum far to the left.
        """
        first, turn = self._x[0], np.sign(self._x[0])
        rest = self._twice // 2 - slopes @ self._x[1:]
        size = np.where(turn == 0, 1, np.abs(first))
        rising = -(-rest // size)  # x z >= rest from here on
        falling = (-rest) // size + 1  # x z >= rest up to here
        places = np.where(turn > 0, rising, falling)
        settled = (turn < 0) | ((turn == 0) & (rest <= 0))
        start = self._mass @ settled.T.astype(np.int64)
        return places, self._mass * turn, start

    def norms(self, below: Integers) -> FloatArray:
        """Norms, rounded, of sums of x below the plane, shape (d, ...)."""
        total = np.array(self._total, dtype=np.float64).reshape(-1, *[1] * (below.ndim - 1))
        return self._norm.rounded(np.abs(self._c * below.astype(np.float64) - self._a * total))

    def norm_range(self) -> int:
        """A bound on all levels."""
        spans = np.abs(self._mass).sum(axis=1)
        return self._norm([self._c * int(span) for span in spans])

    # --- boxes --------------------------------------------------------------------------------

    def start(self) -> Sides:
        return Sides((0,) * len(self.low), None, self._tiles is not None)

    def stretch(self) -> FloatArray:
        sizes = np.abs(self._mass).sum(axis=1).astype(np.float64)
        return sizes / sizes.max() if sizes.any() else super().stretch()

    def bounds(self, known: Sides, low: Point, high: Point) -> tuple[int, int, Sides]:
        if not known.tiled:
            return self._by_rows(known, low, high)
        tiles = self._tiles
        assert tiles is not None
        found, left, sums, spans = tiles.judge(known.open, low, high)
        below = tuple(s + int(t) for s, t in zip(known.below, found, strict=True))
        if max(b - a for a, b in zip(low, high, strict=True)) > self._small:
            return *self._enclose(below, sums, spans), Sides(below, left, tiled=True)
        return self._by_rows(Sides(below, tiles.rows(left), tiled=False), low, high)

    def _by_rows(self, known: Sides, low: Point, high: Point) -> tuple[int, int, Sides]:
        part = known.open
        x, mass, twice = (
            (self._x, self._mass, self._twice)
            if part is None
            else (self._x[:, part], self._mass[:, part], self._twice[part])
        )
        # twice x.z - y lies within `reach` of `middle` on the box
        middle, reach = -twice, np.zeros_like(twice)
        for row, a, b in zip(x, low, high, strict=True):
            middle += row * (a + b)
            if b > a:
                reach += np.abs(row) * (b - a)
        sure = middle >= reach
        rows = np.flatnonzero(~sure & (middle >= -reach))
        found, between = mass[:, sure].sum(axis=1), mass[:, rows]
        below = tuple(s + int(t) for s, t in zip(known.below, found, strict=True))
        if len(rows) <= _FEW:
            least, most = self._enumerate(below, between)
        else:
            least, most = self._enclose(below, between.sum(axis=1), np.abs(between).sum(axis=1))
        left = rows.astype(_places(len(self._twice))) if part is None else part[rows]
        return least, most, Sides(below, left, tiled=False)

    def _enclose(self, below: tuple[int, ...], sums: Integers, spans: Integers) -> tuple[int, int]:
        """Bounds of the norm when the open rows, with these sums, may lie on any side."""
        near, far = [], []
        for s, t, w, total in zip(below, sums, spans, self._total, strict=True):
            low = self._c * (s + (int(t) - int(w)) // 2) - self._a * total
            high = self._c * (s + (int(t) + int(w)) // 2) - self._a * total
            near.append(max(0, low, -high))
            far.append(max(-low, high))
        return self._norm(near), self._norm(far)

    def _enumerate(self, below: tuple[int, ...], between: Integers) -> tuple[int, int]:
        """The least and the largest norm over all choices of sides for few open rows."""
        sums = [[self._c * s - self._a * t for s, t in zip(below, self._total, strict=True)]]
        for row in between.T.tolist():
            sums += [[s + self._c * v for s, v in zip(old, row, strict=True)] for old in sums]
        norms = [self._norm([abs(s) for s in entry]) for entry in sums]
        return min(norms), max(norms)


class _Tiles:
    """Neighbouring rows put together: a tile lies on one side if the box around it does.

    Parameters
    ----------
    x, mass : integers, shape (d, n)
    twice : integers, shape (n,)
        Rows in an order that makes tiles small.
    """

    def __init__(self, x: Integers, mass: Integers, twice: Integers) -> None:
        self._count = len(twice)
        starts = np.arange(0, self._count, _TILE)
        self._least = np.minimum.reduceat(x, starts, axis=1)
        self._most = np.maximum.reduceat(x, starts, axis=1)
        self._bottom = np.minimum.reduceat(twice, starts)
        self._top = np.maximum.reduceat(twice, starts)
        self._sums = np.add.reduceat(mass, starts, axis=1)
        self._spans = np.add.reduceat(np.abs(mass), starts, axis=1)

    def judge(
        self, part: Places | None, low: Point, high: Point
    ) -> tuple[Integers, Places, Integers, Integers]:
        """The sum over tiles that lie below, the open tiles, and their sums and spans."""
        chosen = np.arange(len(self._top), dtype=_places(self._count)) if part is None else part
        bottom, top = np.zeros((2, len(chosen)), dtype=np.int64)
        for least, most, a, b in zip(
            self._least[:, chosen], self._most[:, chosen], low, high, strict=True
        ):
            # x z on a box is extreme at a corner
            ends = np.stack([least * a, least * b, most * a, most * b])
            bottom += ends.min(axis=0)
            top += ends.max(axis=0)
        sure = 2 * bottom >= self._top[chosen]
        left = chosen[~sure & (2 * top >= self._bottom[chosen])]
        found = self._sums[:, chosen[sure]].sum(axis=1)
        return found, left, self._sums[:, left].sum(axis=1), self._spans[:, left].sum(axis=1)

    def rows(self, tiles: Places) -> Places:
        """The rows of tiles."""
        within = np.arange(_TILE, dtype=tiles.dtype)
        each = (tiles[:, None] * tiles.dtype.type(_TILE) + within).ravel()
        return np.asarray(each[each < self._count])


def _places(rows: int) -> Any:
    return np.int32 if rows + _TILE < 1 << 31 else np.int64


def _merged(x: Integers, y: Integers) -> tuple[Integers, Integers, Integers]:
    """Distinct rows with their counts (equal rows change sides together), neighbours together."""
    order = _sorted(np.column_stack([x, y]))
    x, y = x[order], y[order]
    fresh = np.ones(len(y), dtype=np.bool_)
    fresh[1:] = (y[1:] != y[:-1]) | (x[1:] != x[:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    x, y, counts = x[starts], y[starts], np.diff(np.append(starts, len(y)))
    if len(y) > _FEW_ROWS:
        order = _tiled(np.column_stack([x, y]))
        x, y, counts = x[order], y[order], counts[order]
    return x, y, counts


def _sorted(cells: Integers) -> NDArray[np.intp]:
    """An order in which equal rows are neighbours; columns share 64-bit keys where they fit."""
    keys: list[Integers] = []
    room = 0
    for column in cells.T:
        least = int(column.min(initial=0))
        bits = (int(column.max(initial=0)) - least).bit_length()
        if bits > room:
            keys.append(np.zeros(len(column), dtype=np.int64))
            room = 62
        if bits:
            keys[-1] = (keys[-1] << bits) + (column - least)
            room -= bits
    return np.lexsort(keys) if keys else np.arange(len(cells))


def _tiled(cells: Integers) -> NDArray[np.intp]:
    """An order in which runs of rows are small boxes: strips of strips, one axis after another."""
    varying = [j for j in range(cells.shape[1]) if len(cells) and np.ptp(cells[:, j])]
    rows = np.arange(len(cells))
    if not varying:
        return rows
    strips = max(1, round((len(cells) / _TILE) ** (1 / len(varying))))

    def cut(part: NDArray[np.intp], axes: list[int]) -> NDArray[np.intp]:
        part = part[np.argsort(cells[part, axes[0]], kind="stable")]
        if len(axes) == 1:
            return part
        return np.concatenate([cut(p, axes[1:]) for p in np.array_split(part, strips)])

    return cut(rows, varying)


def line_count(edge: int, slopes: int, within: bool) -> int:
    """Lattice points of the slopes: of a cube, or ``within`` the sum of sizes ``edge``.

    >>> line_count(2, 2, within=False), line_count(2, 2, within=True), line_count(9, 0, within=True)
    (25, 13, 1)
    """
    if not within:
        return int((2 * edge + 1) ** slopes)
    return sum(2**i * math.comb(slopes, i) * math.comb(edge, i) for i in range(slopes + 1))


class LineLaw:
    r"""The law :math:`P(z) \propto e^{-r k(z)}` on planes, by sums over all lines.

    Floats propose: a line, a piece of it and a uniform point of the piece, each with integer
    weights, so that the probability of the proposal is known exactly. It is kept with probability
    (weight) / (probability) / (a bound of this ratio), a coin settled by enclosures. Were the
    floats exact, the ratio would be the sum of all weights; the bound is that sum, raised by more
    than roundings can amount to. What is kept has the law, whatever the floats, and nearly all is.

    Parameters
    ----------
    levels : QuantileLevels
    rate : Fraction
    """

    def __init__(self, levels: QuantileLevels, rate: Fraction) -> None:
        self.levels, self.rate, self._slope = levels, rate, float(rate)
        self.edge, self._slopes = levels.high[0], len(levels.high) - 1
        found = [self._weigh(part) for part in self._chunks()]
        least = min(low for *_, low in found)
        # an integer that no level is below: levels are integers, and floats nearly exact
        self._reference = max(0, math.floor(least * (1 - 2.0**-40)) - 1)
        self._numbers = np.concatenate([numbers for numbers, *_ in found])
        self._lines = np.concatenate([logs for _, logs, _ in found])
        self._lines += self._slope * self._reference
        top = float(self._lines.max())
        total = top + math.log(float(np.exp(np.maximum(self._lines - top, -700.0)).sum()))
        spread = self._slope * (float(np.max(levels.norm_range())) + 1.0) + 64.0
        self._bound = exp_up(total + 2.0**-10 + spread * 2.0**-40)

    # --- lines --------------------------------------------------------------------------------

    def _chunks(self) -> Iterator[Integers]:
        """Numbers of lines, a few at a time."""
        count = (2 * self.edge + 1) ** self._slopes
        step = max(1, _CHUNK // (self.levels.distinct + 1))
        return (np.arange(at, min(at + step, count)) for at in range(0, count, step))

    def _at(self, numbers: Integers) -> Integers:
        """The slopes of lines, shape (lines, d - 1)."""
        side, out = 2 * self.edge + 1, np.empty((len(numbers), self._slopes), dtype=np.int64)
        for j in range(self._slopes):
            out[:, j] = numbers % side - self.edge
            numbers = numbers // side
        return out

    def _weigh(self, numbers: Integers) -> tuple[Integers, FloatArray, float]:
        """The lines that lie in the set, their log weights, and their least level."""
        slopes = self._at(numbers)
        inside = np.abs(slopes).sum(axis=1) <= (self.levels.radius or np.inf)
        if not inside.any():
            return numbers[:0], np.zeros(0), math.inf
        return numbers[inside], *self._weigh_inside(slopes[inside])

    def _weigh_inside(self, slopes: Integers) -> tuple[FloatArray, float]:
        lengths, norms, _ = self._pieces(slopes)
        with np.errstate(divide="ignore"):
            logs = np.log(lengths) - self._slope * norms
        least = np.where(lengths > 0, norms, np.inf).min()
        top = logs.max(axis=1)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(logs - shift[:, None]).sum(axis=1)) + shift, float(least)

    def _pieces(self, slopes: Integers) -> tuple[FloatArray, FloatArray, Integers]:
        """Lengths, norms and first points of the pieces of lines, shapes (lines, rows + 1)."""
        room = np.full(len(slopes), self.edge)
        if self.levels.radius is not None:
            room = self.levels.radius - np.abs(slopes).sum(axis=1)
        low, high = -room, room + 1
        switches, change, start = self.levels.switches(slopes)
        places = np.clip(switches, low[:, None], high[:, None])
        order = np.argsort(places, axis=1)
        places = np.take_along_axis(places, order, axis=1)
        starts = np.concatenate([low[:, None], places], axis=1)
        lengths = np.diff(starts, axis=1, append=high[:, None])
        sums = np.cumsum(
            np.concatenate([start[:, :, None], change[:, order]], axis=2), axis=2
        )  # (d, lines, rows + 1)
        return lengths.astype(np.float64), self.levels.norms(sums), starts

    # --- draws --------------------------------------------------------------------------------

    def draw(self, rng: RandomSource) -> Point:
        """One lattice point."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> Point | None:
        line, lines, weight = choose(self._lines, rng)
        slopes = self._at(self._numbers[line : line + 1])
        lengths, norms, starts = (part[0] for part in self._pieces(slopes))
        with np.errstate(divide="ignore"):
            logs = np.log(lengths) - self._slope * (norms - self._reference)
        piece, pieces, own = choose(logs, rng)
        length = int(lengths[piece])
        point = (int(starts[piece]) + rng.below(length), *slopes[0].tolist())
        x = self.rate * (self.levels.level(point) - self._reference)
        kept = keeps(x, lines * pieces * length, weight * own, self._bound, rng)
        return point if kept else None
