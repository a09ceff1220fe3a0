"""Sensitivity spaces: all the ways one record can move a statistic.

``SensitivitySpace`` is built from public facts (column bounds, levels, which products are summed)
and answers exactly: its convex hull (the shape of the least noise, Theorem 3.19 of Awan and
Slavković, 2021), its sensitivity in any norm, and whether a given ball contains it. Where only an
outer body or an upper bound is known, the answer says so. There is no way to build a space from
sampled differences: their hull would be too small, and the noise not private.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import (
    MOST_DIM,
    DimensionError,
    FloatArray,
    check_array,
    check_count,
    check_instance,
    check_length,
    fail,
)
from tightdp.geometry.containment import largest_gauge
from tightdp.geometry.norm_balls import (
    MEASURING_SEED,
    LpBall,
    NormBall,
    check_balls,
    check_exponent,
)
from tightdp.geometry.row_images import (
    FiniteImage,
    Hull,
    MomentImage,
    OneHotImage,
    ParabolaImage,
    RowImage,
    SquareImage,
)
from tightdp.geometry.row_terms import affine_image, image_of_terms
from tightdp.geometry.units import ROUNDING
from tightdp.parameters import tells_arguments
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomLike, RandomSource, SeededSource, source
from tightdp.schema import Category, Interval

_MOST_CORNERS = 2000  # pairs of more are too many to look at


class Sensitivity(float):
    """A sensitivity: a float that knows whether it is exact or a proved upper bound.

    >>> Sensitivity(2.0, exact=True)
    2.0 (exact)
    """

    exact: bool

    def __new__(cls, value: float, exact: bool) -> Sensitivity:
        number = super().__new__(cls, value)
        number.exact = exact
        return number

    def __repr__(self) -> str:
        return f"{float(self)!r} ({'exact' if self.exact else 'upper bound'})"


@dataclass(frozen=True, slots=True, eq=False)
class CoverCertificate:
    """Whether a ball contains a sensitivity space, with the proof's route or a violating pair.

    ``holds`` is True only if containment is proved. If it is violated, ``pair`` holds two public
    rows (the second is None under add-remove) whose difference ``difference`` lies outside.

    ``bound`` is the proved bound on the gauge of a difference: K-norm noise of this ball at epsilon
    is ``max(1, bound) * epsilon``-DP. ``holds`` grants it 1e-12 above 1 for the rounding of its own
    computation, no more; multiply the ball by ``bound`` to spend exactly epsilon.
    """

    holds: bool
    violated: bool
    bound: float
    pair: tuple[Any, Any] | None
    difference: FloatArray | None

    def __bool__(self) -> bool:
        return self.holds


@tells_arguments
class SensitivitySpace:
    r"""The set :math:`S_T = \{T(X) - T(X')\}` over neighbours, for :math:`T = \sum_i \phi(row_i)`.

    Build one with :meth:`of` (sums, counts, and products of columns), :meth:`histogram`,
    :meth:`moments` (linear regression), :meth:`sum_and_squares`, :meth:`affine` or
    :meth:`from_points` (finite domains).

    Examples
    --------
    >>> space = SensitivitySpace.sum_and_squares()
    >>> space.sensitivity(p=1), space.hull().volume()  # doctest: +ELLIPSIS
    (3.125 (exact), 13.33333333333...)
    """

    def __init__(self, image: RowImage, neighbors: str | Neighbors = "replace-one") -> None:
        self._image = image
        self.neighbors = Neighbors.of(neighbors)

    # --- constructors -----------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        domain: Mapping[str, Interval | Category],
        terms: Iterable[str] | None = None,
        *,
        neighbors: str | Neighbors = "replace-one",
    ) -> SensitivitySpace:
        """Sums of products of columns over a public domain.

        ``terms`` are written as in a model formula: ``"x"`` is the sum of a numeric column, ``"k"``
        the counts of all levels of a category, ``"x:y"`` the sum of products, ``"x:k"`` the sums of
        x within each level. The default is every column alone. A column may appear only once in a
        term, so the map is multi-affine and the vertices of the domain suffice (exact); squares
        belong to :meth:`moments` and :meth:`sum_and_squares`. Terms that share no column form
        independent blocks; ``names`` gives the order of the entries.

        >>> SensitivitySpace.of({"x": Interval(-1, 1), "k": Category(["a", "b"], other="a")}).names
        ('x', 'k[a]', 'k[b]')
        """
        if isinstance(terms, str):
            fail("`terms` must be a list of terms, not one string.")
        with np.errstate(over="ignore"):  # the image refuses what overflows
            return cls(image_of_terms(domain, terms), neighbors)

    @classmethod
    def affine(
        cls,
        matrix: ArrayLike,
        intervals: Sequence[Interval],
        *,
        offset: ArrayLike | None = None,
        neighbors: str | Neighbors = "replace-one",
    ) -> SensitivitySpace:
        """``phi(x) = A x + b`` on a box of intervals."""
        if not isinstance(intervals, Sequence) or not all(
            isinstance(interval, Interval) for interval in intervals
        ):
            fail("`intervals` must be a list of Interval, one for each column of `matrix`.")
        return cls(affine_image(matrix, intervals, offset), neighbors)

    @classmethod
    def histogram(
        cls, cells: int, *, neighbors: str | Neighbors = "replace-one"
    ) -> SensitivitySpace:
        """Counts of the cells of a public partition; every row falls into exactly one."""
        return cls(
            OneHotImage("cell", range(check_count("cells", cells, least=2, most=MOST_DIM))),
            neighbors,
        )

    @classmethod
    def sum_and_squares(
        cls, interval: Interval | None = None, *, neighbors: str | Neighbors = "replace-one"
    ) -> SensitivitySpace:
        """``(sum x, 2 sum x^2)`` of a column in [-1, 1], or ``(sum x, sum x^2)`` on an interval.

        Example 2.10 of Awan and Slavković (2021); with ``Interval(0, 1)`` Example 3.5 of their
        preprint, where some corner of the box is reached, and not all (:func:`structure`).

        >>> space = SensitivitySpace.sum_and_squares(Interval(0, 1))
        >>> space.sensitivity(p=1), space.sensitivity(p=np.inf)
        (2.0 (exact), 1.0 (exact))
        """
        if interval is None:
            return cls(SquareImage(), neighbors)
        check_instance("interval", interval, Interval)
        return cls(ParabolaImage(interval.low, interval.high), neighbors)

    @classmethod
    def moments(
        cls,
        features: int,
        *,
        kind: str | None = None,
        neighbors: str | Neighbors = "replace-one",
    ) -> SensitivitySpace:
        """First and second moments of ``features`` columns and a target, all in [-1, 1].

        The hull has no closed form; ``kind`` names the outer body to use (see
        :class:`~tightdp.MomentBody`), by default the smallest that is sampled fast: "triangle" for
        up to 12 features, "cylinder" beyond. ``kind="hull"`` is the hull itself, for at most 3.
        """
        return cls(MomentImage(check_count("features", features), kind), neighbors)

    @classmethod
    def from_points(
        cls,
        points: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        neighbors: str | Neighbors = "replace-one",
    ) -> SensitivitySpace:
        """A finite domain: one row of ``points`` for each value that phi can take.

        The list must be complete: it is a public statement about every possible record.
        """
        array = check_array("points", points, 2)
        labels = (
            tuple(names) if names is not None else tuple(f"t{j}" for j in range(array.shape[1]))
        )
        check_length("names", len(labels), array.shape[1])
        return cls(FiniteImage(array, [{"point": i} for i in range(len(array))], labels), neighbors)

    # --- facts ------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries of the statistic."""
        return self._image.names

    @property
    def dim(self) -> int:
        """Number of entries of the statistic."""
        return self._image.dim

    @cached_property
    def _hull(self) -> Hull:
        if self.neighbors is Neighbors.REPLACE_ONE:
            return self._image.replace_hull()
        return self._image.add_hull()

    def hull(self) -> NormBall:
        """The convex hull, or the smallest known body around it (see :attr:`exact`)."""
        return self._hull.ball

    @property
    def exact(self) -> bool:
        """True if :meth:`hull` is the convex hull, False if it is an outer body."""
        return self._hull.exact

    @property
    def how(self) -> str:
        """Why the hull is what it is, in a few words."""
        return self._hull.reason

    # --- sensitivities ----------------------------------------------------------------------

    def sensitivity(self, *, p: float | None = None, ball: NormBall | None = None) -> Sensitivity:
        """The largest norm of a difference: in l_p, or in the norm of ``ball``.

        Exact where it can be computed, otherwise a proved upper bound; ``.exact`` says which.

        >>> SensitivitySpace.moments(5).sensitivity(p=1)
        32.0 (exact)
        """
        if (p is None) == (ball is None):
            fail("Give exactly one of `p` and `ball`.")
        if p is not None:
            ball = LpBall(self.dim, check_exponent(p))
        assert ball is not None
        return self._proved(ball)

    def _proved(self, ball: NormBall) -> Sensitivity:
        check_balls("ball", ball)
        if ball.dim != self.dim:
            fail(f"`ball` must have dimension {self.dim}. Got {ball.dim}.", DimensionError)
        known = self._known(ball)
        if known is not None:
            return Sensitivity(*known)
        reach = largest_gauge(self.hull(), ball, enough=None)
        return Sensitivity(reach.upper, self.exact and reach.exact)

    def _known(self, ball: NormBall) -> tuple[float, bool] | None:
        """Closed-form l_p sensitivities of the row image (one radius)."""
        if not (isinstance(ball, LpBall) and np.ptp(ball.radius) == 0):
            return None
        radius, whole = float(ball.radius[0]), self._of_integers(ball.p)
        if whole is not None:
            return whole / radius, True
        replaced = self.neighbors is Neighbors.REPLACE_ONE
        norm = self._image.lp_sensitivity if replaced else self._image.lp_norm_of_row
        found = norm(ball.p)
        return None if found is None else (found[0] / radius, found[1])

    def _of_integers(self, p: float) -> float | None:
        """The l_1 or l_infinity sensitivity of counts: a whole number, without any rounding.

        A norm is largest at a vertex of the hull: a corner, or a difference of two.
        """
        corners = self._image.corners() if p in (1, np.inf) else None
        if corners is None or len(corners) > _MOST_CORNERS or (corners != np.rint(corners)).any():
            return None
        if not np.abs(corners).sum(axis=1).max() < 2.0**50:
            return None
        replaced = self.neighbors is Neighbors.REPLACE_ONE
        if p == np.inf:
            far = np.ptp(corners, axis=0) if replaced else np.abs(corners)
            return float(far.max())
        sizes = np.abs(corners).sum(axis=1)
        return _farthest_pair(corners, sizes) if replaced else float(sizes.max())

    # --- points of the space ----------------------------------------------------------------

    def extreme_pair(self, c: ArrayLike) -> tuple[FloatArray, tuple[Any, Any]]:
        """A difference far out in direction ``c``, with the two public rows that make it."""
        direction = check_array("c", c, 1, self.dim)
        high, row = self._image.best(direction)
        low, other = self._image.best(-direction)
        if self.neighbors is Neighbors.REPLACE_ONE:
            return high - low, (row, other)
        if -direction @ low > direction @ high:
            return -low, (None, other)
        return high, (row, None)

    def sample(self, size: int, *, rng: RandomLike = None) -> FloatArray:
        """Differences of random public rows, for plots and searches. Never take their hull."""
        count, bits = check_count("size", size), source(rng)
        if self.neighbors is Neighbors.REPLACE_ONE:
            return self._image.sample(count, bits) - self._image.sample(count, bits)
        return self._image.sample(count, bits) * bits.signs((count, 1))

    def search(self, ball: NormBall, *, rng: RandomSource | None = None) -> tuple[float, Any]:
        """The largest gauge found by climbing: a lower bound on the sensitivity, with its pair."""
        bits = rng or SeededSource(MEASURING_SEED)
        starts = np.vstack([np.ones(self.dim), np.eye(self.dim)[:16], bits.normal((8, self.dim))])
        best: tuple[float, Any] = (-1.0, None)
        for c in starts:
            value, pair = -1.0, None
            for _ in range(50):
                u, rows = self.extreme_pair(c)
                reached = float(ball.gauge(u))
                if reached <= value * (1 + 1e-12):
                    break
                value, pair = reached, (u, rows)
                if not np.isfinite(reached):
                    break
                c = ball.normal(u)
            if value > best[0]:
                best = (value, pair)
        return best

    def __repr__(self) -> str:
        kind = "exact hull" if self.exact else self.how
        return f"SensitivitySpace(dim={self.dim}, neighbors='{self.neighbors}', {kind})"


@tells_arguments
def certify_contains(ball: NormBall, space: SensitivitySpace) -> CoverCertificate:
    """Prove that ``ball`` contains ``space``, or return a violating pair of rows.

    K-norm noise with ``ball`` at epsilon is epsilon-DP for the statistic exactly when this holds.
    When neither can be shown, ``holds`` and ``violated`` are both False and ``bound`` is the best
    proved upper bound on the gauge.

    Examples
    --------
    >>> space = SensitivitySpace.histogram(3, neighbors="add-remove")
    >>> bool(certify_contains(LpBall(3, 1), space))
    True
    >>> certify_contains(LpBall(3, 1, 0.5), space).pair
    ({'cell': 0}, None)
    """
    check_space(space)
    bound = space._proved(ball)
    if bound <= 1 + ROUNDING:
        return CoverCertificate(True, False, float(bound), None, None)
    reached, found = space.search(ball)
    if reached > 1 + ROUNDING and found is not None:
        return CoverCertificate(False, True, float(bound), found[1], found[0])
    return CoverCertificate(False, False, float(bound), None, None)


def check_space(space: object) -> None:
    """Refuse anything that is not a sensitivity space."""
    check_instance("space", space, SensitivitySpace)


def _farthest_pair(corners: FloatArray, sizes: FloatArray) -> float:
    """The largest l_1 distance of two corners of whole numbers; of cells of a table at once.

    No distance exceeds the sum of the two sizes, so that the largest corners come first and the
    rest need no look once a pair is as far apart as any of them could be.

    >>> corners = np.array([[1.0, 0], [0, 1], [2, 0]])
    >>> _farthest_pair(corners, np.abs(corners).sum(axis=1))
    3.0
    """
    order = np.argsort(-sizes, kind="stable")
    ordered, bounds, best = corners[order], sizes[order], 0.0
    for i in range(len(ordered) - 1):
        if bounds[i] + bounds[i + 1] <= best:
            break
        best = max(best, float(np.abs(ordered[i + 1 :] - ordered[i]).sum(axis=1).max()))
    return best
