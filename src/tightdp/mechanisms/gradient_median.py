"""The geometric median by the K-norm gradient mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.one_pass import quantized_matrix
from tightdp.draft import DEPENDS, PART_OF_INTERVAL, Draft, Error, Known, Unknown
from tightdp.errors import (
    DimensionError,
    FloatArray,
    Integers,
    check_choice,
    check_count,
    check_list,
    fail,
)
from tightdp.exact.box_sampling import BoxLevels, Point
from tightdp.exact.nested_lattices import LatticeLook, default_points, plan_looks
from tightdp.mechanisms.chains import Sampler
from tightdp.mechanisms.gradient import RowSumGradient
from tightdp.mechanisms.median_radius import MedianRadius
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema, check_schema

PLACES = 26  # directions are truncated to multiples of 2**-PLACES, finer than any grid
MOST_COLUMNS = 4  # on five, ordinary tables take minutes and unlucky ones do not end in time
RADIUS = "radius"
_MOST_BY_CHAIN = 64
_UNIT = 1 << PLACES
_SQUARES = 53  # squared distances are integers that doubles hold
_CLOSE = 2.0**-24  # quotients closer to an integer than this are settled by integers
_CURVATURE = 0.5774  # half of the largest second derivative of a/|a|, times |a|**2: 1/sqrt(3)


class DirectionLevels(BoxLevels[None]):
    r"""Integer norms of the sum of directions from the rows to a point.

    The direction from a row x to t is :math:`(t - x)/\lVert t - x\rVert_2`, truncated towards zero
    to multiples of :math:`2^{-26}` in every entry. A row at t has all vectors of length up to 1 as
    its subgradients. The level is the least length of a subgradient: the Euclidean norm of the sum
    of these integer vectors over the other rows, rounded down, less the number of rows at t in the
    same unit, and 0 if that is negative.

    Bounds on a box with centre c and half-diagonal h: the sum of directions differs from its linear
    approximation at c by at most :math:`h^2/(\sqrt3 (D-h)^2)` for a row at distance D > 2h (along
    a line the second derivative of a direction is at most :math:`2/(\sqrt3 D^2)`), by at most 2 for
    a nearer row, and truncation adds less than :math:`\sqrt d\,2^{-26}` a row. These are
    computed with floats and widened by more than their rounding; a box of one point has its exact
    integer level. A box without a value that w > n/2 rows share has levels of at least 2w - n:
    that value's direction has length 1 wherever one stands, and no other row can undo more than 1.
    Equal rows are one value with a count.

    Parameters
    ----------
    rows : integers, shape (n, d)
        In units of ``2**-bits``.
    bits, grid : int
        Points are ``z * 2**-grid`` with integers z in the cube of size ``2**grid``.
    within : pair of corners, optional
        A part of that cube.
    """

    def __init__(
        self, rows: Integers, *, bits: int, grid: int, within: tuple[Point, Point] | None = None
    ) -> None:
        dim = rows.shape[1]
        whole = (-(1 << grid),) * dim, (1 << grid,) * dim
        self.low, self.high = whole if within is None else within
        fine = max(bits, grid)
        self._step = 1 << (fine - grid)
        self._rows = np.ascontiguousarray((rows << (fine - bits)).T)
        self._atoms, self._counts = np.unique(self._rows, axis=1, return_counts=True)
        self._floats, self._total = self._atoms.astype(np.float64), len(rows)
        self._heaviest = int(np.argmax(self._counts)) if len(rows) else None

    def start(self) -> None:
        return None

    def bounds(self, known: None, low: Point, high: Point) -> tuple[int, int, None]:
        if low == high:
            level = self._exact(low)
            return level, level, None
        least, most = self._enclose(low, high)
        return least, most, None

    # --- one point ----------------------------------------------------------------------------

    def gaps(self, point: Point) -> Integers:
        """The point minus every row, in units of the finer of both grids, shape (d, n)."""
        return np.asarray(self._place(point) - self._rows)

    def _place(self, point: Point) -> Integers:
        return np.array([[self._step * z] for z in point])

    def _exact(self, point: Point) -> int:
        gaps = self._place(point) - self._atoms
        squares = (gaps * gaps).sum(axis=0)
        with np.errstate(invalid="ignore"):
            # sqrt and / are rounded correctly: off by less than 2**(PLACES - 51)
            ratio = np.abs(gaps) * float(_UNIT) / np.sqrt(squares.astype(np.float64))
        ratio[:, squares == 0] = 0.0
        whole = np.floor(ratio)
        near = np.abs(ratio - np.rint(ratio)) < _CLOSE
        along = (gaps == 0) | (gaps * gaps == squares)  # 0 and 1 are exact in floats
        for j, i in np.argwhere(near & ~along).tolist():
            whole[j, i] = _truncated(abs(int(gaps[j, i])), int(squares[i]))
        # below 2**62 for up to 2**36 rows, in Python's integers beyond
        kind = np.int64 if self._total < 1 << (62 - PLACES) else object
        sums = (np.sign(gaps) * whole.astype(np.int64).astype(kind) * self._counts).sum(axis=1)
        here = int(self._counts[squares == 0].sum()) * _UNIT
        return max(0, math.isqrt(sum(int(s) ** 2 for s in sums)) - here)

    # --- boxes --------------------------------------------------------------------------------

    def _enclose(self, low: Point, high: Point) -> tuple[int, int]:
        dim, count = len(low), self._total
        centre = np.array([[self._step * (a + b) / 2] for a, b in zip(low, high, strict=True)])
        half = np.array([self._step * (b - a) / 2 for a, b in zip(low, high, strict=True)])
        reach = float(np.sqrt((half**2).sum())) * (1 + 1e-12)
        gaps = centre - self._floats
        distance = np.sqrt((gaps**2).sum(axis=0))
        far = distance > 2 * reach * (1 + 1e-9)
        safe = np.where(far, distance, 1.0)
        units = gaps / np.where(distance > 0, distance, 1.0)
        inverse = self._counts * far / safe
        slope = np.diag(np.full(dim, inverse.sum())) - (units * inverse) @ units.T
        bent = self._counts * far * (reach / (safe - reach * far)) ** 2
        rest = float(bent.sum()) * _CURVATURE * (1 + 1e-9)
        rest += 2.0 * float(self._counts[~far].sum()) + count * (math.sqrt(dim) / _UNIT)
        # a float sum of n terms, in any order, is off by less than (n + 20) 2**-53 of their sizes:
        # here one for every entry of `middle`, and twice that for every entry of `slope`
        rest += count * dim * (count + 32) * 2.0**-50
        middle = (units * self._counts).sum(axis=1)
        swing = np.abs(slope) @ half * (1 + 1e-9)
        near = np.maximum(np.abs(middle) - swing, 0.0)
        top = np.abs(middle) + swing
        least = (math.sqrt(float((near**2).sum())) * (1 - 1e-12) - rest) * _UNIT
        most = (math.sqrt(float((top**2).sum())) * (1 + 1e-12) + rest) * _UNIT
        return max(self._held(low, high), math.floor(least) - 1), math.ceil(most) + 1

    def _held(self, low: Point, high: Point) -> int:
        """What the heaviest value keeps up outside of it: its rows less all others, whatever t."""
        if self._heaviest is None:
            return 0
        atom, weight = self._atoms[:, self._heaviest], int(self._counts[self._heaviest])
        ends = zip(atom.tolist(), low, high, strict=True)
        if all(self._step * a <= x <= self._step * b for x, a, b in ends):
            return 0
        # a truncated direction is shorter than 1 by less than one step for every column
        return max(0, (2 * weight - self._total) * _UNIT - weight * len(low) - 1)


def _truncated(gap: int, square: int) -> int:
    """floor(2**PLACES * gap / sqrt(square)), exactly."""
    return math.isqrt((gap * gap << 2 * PLACES) // square)


class KNormGeometricMedian(RowSumGradient):
    r"""Releases a private geometric median: the point with the least sum of distances to the rows.

    With columns scaled to :math:`[-1, 1]` the density on a public lattice of that cube is
    proportional to

    .. math:: \exp\left(-\frac{\epsilon}{4}\,
        \lVert \sum_i \frac{t - x_i}{\lVert t - x_i\rVert_2} \rVert_2\right),

    where rows are rounded to the lattice, every direction is truncated towards zero to multiples of
    :math:`2^{-26}`, and the norm is rounded down to such a multiple. At a point that w rows share
    the norm is less by w (not below 0): the least length of a subgradient, so a value that more
    than half of the rows share is the median, as it should be. Distances are those of the scaled
    columns: give all columns intervals of one width for distances in their own unit.

    **Looks.** A lattice that is fine beside the noise of many rows has more points than a draw can
    go through, and on some tables (all rows near a line) no shortcut is proved. So where a lattice
    of ``most_points`` is too coarse, a point of it is drawn for a small part of epsilon, then one
    of a finer lattice in a cube of some steps around it, and so on (``looks``). The law above is
    that of the last look, with its part of epsilon, on its cube.
    Rows with two centres far apart are decided between by the first look, with a tenth of epsilon:
    it tells them apart where their numbers differ by some :math:`400/\epsilon`.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] quantised rows; [P2] a bounded set; [P3] an exact draw; [P4] public looks.
    Proof: 1. A row is rounded by itself. One elsewhere has a truncated direction, no longer than 1,
    and a row at t all vectors up to that length: the least length of a sum of one vector for each
    row moves by at most 1 when a row is added or removed, by 2 when it is replaced, r times as much
    for a person with r rows; rounding down to multiples of :math:`2^{-26}` keeps differences that
    are at most a multiple of it [P1]. 2. On a finite lattice the exponential mechanism divides
    epsilon by twice that [P2]. 3. Norms are integers and the draw has exactly this law
    (:class:`~tightdp.exact.box_sampling.BoxSampler`) [P3]. 4. How many looks there are, their
    lattices and their epsilons are public, and the cube of a look is a function of the answer
    before; epsilons of adaptive releases add [P4]. 5. With ``interval`` the median and its radius
    have half of epsilon each.
    Numerics: ``exact``. The running time depends on the data, within a public bound: in every look
    at most 2**13 boxes, then 2**15 refused proposals with two boxes each, then every point of the
    lattice three times at most; each box, proposal and point takes one pass over the distinct rows.
    With ``sampler="mcmc"`` and more columns [P3] is missing: a finite chain only approaches the
    law, the release is not epsilon-DP, and its guarantee says
    ``approximate-sampler``.

    **Erratum.** The paper's density on all of :math:`R^d` has no normaliser: far away the norm
    tends to n (E24). The median lies within the hull of the rows, so the cube loses nothing.

    Parameters
    ----------
    schema : Schema
    epsilon : float, Fraction or Decimal
    columns : sequence of str, optional
        All columns by default; intervals.
    grid : int, optional
        Points of the scaled cube are multiples of ``2**-grid``, at most 24. By default as fine as
        makes sense beside the noise, or as the looks reach that epsilon can pay for.
    most_points : int, optional
        How many points the lattice of one look may have: a draw may have to go through them all. By
        default 2**23, and no more than make 2**37 together with the rows, but 2**17 at least.
        Whoever accepts more has fewer looks; with 2**60 there is one, all of epsilon is spent on
        it, and no useful bound on its time is known (ordinary tables take seconds).
    sampler : {"exact", "mcmc"}
        Chains start independently of the data; how they agreed is in ``draws.diagnostics``, which
        are **not private**.
    steps : int, optional
        Of every chain.
    interval : {"none", "sample"}
        Also release a radius that holds, with the probability ``confidence`` of the release, the
        geometric median of the (clamped, quantised) rows, for half of epsilon (``MedianRadius`` has
        the proof). It is in units of the scaled columns. One of the whole diagonal says nothing,
        and no interval is then published: there are too few rows, or they do not hold the median
        from all sides. For two columns or more; that of one column is its median
        (:class:`~tightdp.KNormMedian`).

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"a": Interval(0, 10), "b": Interval(0, 10)}, rows=500)
    >>> table = {"a": np.repeat([2.0, 3.0], 250), "b": np.linspace(4, 6, 500)}
    >>> release = KNormGeometricMedian(schema, epsilon=4.0).release(table)
    >>> bool((abs(release.value - [2.5, 5.0]) < 0.7).all())
    True
    """

    row_reach = _UNIT

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: Number,
        columns: Sequence[str] | None = None,
        grid: int | None = None,
        sampler: str = "exact",
        steps: int | None = None,
        interval: str = "none",
        most_points: int | None = None,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        known = [name for name in check_schema(schema) if name != schema.person]
        named = known if columns is None else check_list("columns", columns)
        self._intervals = self._read_from(schema, named, "a median of levels is not defined")
        self.draws = Sampler(sampler, steps, max(1, len(self.columns)))
        self.numerics = self.draws.numerics
        most = MOST_COLUMNS if self.draws.exact else _MOST_BY_CHAIN
        if not 1 <= len(self.columns) <= most:
            fail(f"`columns` must name 1 to {most} columns.", DimensionError)
        finest = (_SQUARES - 2 - len(self.columns).bit_length()) // 2
        if schema.bits > finest:
            fail(f"`bits` of the schema must be at most {finest} for so many columns.")
        self.covers = check_choice("interval", interval, ("none", "sample"))
        self.parts = 1 if self.covers == "none" else 2  # the point, and its radius
        self.looks = self._plan(grid, finest, most_points)  # [P4]
        self.grid = self.looks[-1].grid
        if self.covers == "sample" and len(self.columns) == 1:
            fail(
                "`interval` = 'sample' needs two columns or more: the sum of distances along a "
                "line has no curvature to hold the median by. The geometric median of one column "
                "is its median: release that, with its interval (KNormMedian)."
            )
        self._fine = max(schema.bits, self.grid)
        self._radius_law = None if self.covers == "none" else self._median_radius()

    def _plan(self, grid: int | None, finest: int, most: int | None) -> tuple[LatticeLook, ...]:
        """The lattices, from public facts: one for chains, which go through no list."""
        if grid is not None:
            check_count("grid", grid, most=finest)
        epsilon, rows = self.epsilon / self.parts, self.schema.rows
        if not self.draws.exact:
            if most is not None:
                fail("`most_points` belong to sampler='exact': a chain lists none.")
            wanted = math.ceil(rows * max(self.epsilon, Fraction(1))).bit_length() + 6
            return (
                LatticeLook(min(max(wanted, 10), finest) if grid is None else grid, None, epsilon),
            )
        return plan_looks(
            len(self.columns),
            Fraction(rows, self.schema.rows_per_person),
            epsilon,
            grid=grid,
            finest=finest,
            most=default_points(rows)
            if most is None
            else check_count("most_points", most, most=1 << 100),
        )

    @property
    def rate(self) -> Fraction:
        """The rate r of the weights exp(-r * level) of the last look."""
        return self._rate(self.looks[-1])

    def exponential_shares(self) -> Sequence[Fraction]:
        if self.parts > 1:
            return ()
        return tuple(look.epsilon / self.epsilon for look in self.looks)

    def _rate(self, look: LatticeLook) -> Fraction:
        return look.epsilon / (2 * self.sensitivity)  # [P2]

    def _median_radius(self) -> MedianRadius:
        return MedianRadius(
            self.epsilon / 2,
            replaced=self.neighbors is Neighbors.REPLACE_ONE,
            persons=self.schema.rows_per_person,
            dim=len(self.columns),
            bits=self._fine + 1,  # both the point and the rows are at most 2**fine in size
        )

    @property
    def law(self) -> str:
        where = "the scaled cube"
        for before, look in pairwise(self.looks):
            where += (
                f" (first those of 2^-{before.grid}, at the rate {self._rate(before) * _UNIT}, and "
                f"then within {look.half} steps)"
            )
        return (
            f"multiples of 2^-{self.grid} in {where}, with weight "
            f"exp(-{self.rate * _UNIT} * norm), norm of the sum of truncated directions"
            f"{self.draws.words}"
        )

    def label(self) -> str:
        return f"KNormGeometricMedian({', '.join(self.columns)})"

    def levels(self, rows: Integers, look: int = 0, answer: Point | None = None) -> DirectionLevels:
        """Integer norms for quantised rows on the lattice of a look; **not private**.

        All looks but the first need the answer of the one before.
        """
        grid, bits = self.looks[look].grid, self.schema.bits
        within = self.looks[look].cube(
            rows.shape[1], self.looks[look - 1] if look else None, answer
        )
        if grid < bits:  # rounded to the lattice, row by row: shared values lie on it
            rows, bits = (rows + (1 << (bits - grid - 1))) >> (bits - grid), grid
        return DirectionLevels(rows, bits=bits, grid=grid, within=within)

    def point(self, z: Sequence[int]) -> FloatArray:
        """A lattice point in user units."""
        scaled = [v / (1 << self.grid) for v in z]
        pairs = zip(self._intervals, scaled, strict=True)
        return np.array([interval.middle + interval.half * s for interval, s in pairs])

    def draws_level(self) -> bool:
        return self._radius_law is not None  # the radius

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        rows = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        drawn: Point | None = None
        for i, look in enumerate(self.looks):
            levels = self.levels(rows, i, drawn)
            drawn = self.draws.draw(levels, self._rate(look), rng, progress)  # [P3]
        assert drawn is not None  # there is a look
        value, resolution = self.point(drawn), 1 << self.grid
        if self._radius_law is None:
            return Draft.of(self.columns, value, drawn, resolution, DEPENDS)
        exact = DirectionLevels(rows, bits=self.schema.bits, grid=self.grid)  # rows as they are
        radius = self._radius(self._radius_law, exact, drawn, 1 - confidence, rng)
        size = Draft.of((RADIUS,), [radius / resolution], (radius,), resolution, PART_OF_INTERVAL)
        error = self._within(value, radius)
        return Draft.of(self.columns, value, drawn, resolution, error).beside(size)

    def _within(self, value: FloatArray, radius: int) -> Error:
        """Half-widths from the radius; none if it is all of the cube, which says nothing."""
        if radius >= self._diagonal():
            return Unknown("the released radius holds all points: there are too few rows")
        half = np.array([interval.half for interval in self._intervals])
        middle = np.array([interval.middle for interval in self._intervals])
        size = radius / (1 << self.grid)
        reach = np.minimum(size * half, np.abs(value - middle) + half)
        return Known(half_width=reach, covers="sample")

    def _diagonal(self) -> int:
        """The diagonal of the cube, in lattice steps."""
        return math.ceil(2 * math.sqrt(len(self.columns)) * (1 << self.grid))

    def _radius(
        self,
        law: MedianRadius,
        levels: DirectionLevels,
        point: Point,
        miss: float,
        rng: RandomSource,
    ) -> int:
        """A radius around the released point in lattice steps, at most the cube's diagonal."""
        dim = len(point)
        level = Fraction(levels.level(point), _UNIT)
        slack = (self.schema.rows * math.sqrt(dim) + 1) / _UNIT  # truncation of directions
        found = law.draw(levels.gaps(point), level, slack, miss, rng)
        steps = found / (1 << (self._fine - self.grid))
        return math.ceil(min(steps, self._diagonal()))

    @staticmethod
    def conf_int(release: Release) -> FloatArray:
        """Rows (low, high) for every column, from a median released with ``interval``.

        NaN if the radius says nothing: there are too few rows, or they lie nearly on a line.
        """
        if release.names[-1] != RADIUS:
            fail("`release` must be a median released with `interval`: ask for it when paying.")
        return np.asarray(release.interval[:-1])
