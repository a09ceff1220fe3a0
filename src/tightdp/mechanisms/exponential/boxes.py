"""The exponential mechanism on a box of few dimensions, from certified bounds on the utility."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tightdp.accepted import Number, TableLike
from tightdp.errors import check_count, check_function, exact_fraction, fail
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.listed_points import MOST_POINTS, check_points
from tightdp.mechanisms.exponential.box_grids import (
    check_bits,
    check_box,
    grid_point,
    grid_words,
    on_grid,
)
from tightdp.mechanisms.exponential.utilities import UtilityBudget, called
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Draft
from tightdp.schema import Interval

Bounds = Callable[[Point, Point], tuple[Any, Any]]

_PATIENCE = 1 << 14  # refused proposals before all points are gone through


class UtilityLevels(BoxLevels[None]):
    """Minus a utility on the grid points of a box, from bounds that a caller states."""

    def __init__(self, low: Point, high: Point, on_box: Bounds) -> None:
        self.low, self.high, self._on_box = low, high, on_box

    def start(self) -> None:
        return None

    def bounds(self, known: None, low: Point, high: Point) -> tuple[Fraction, Fraction, None]:
        least, most = (exact_fraction("bounds", value) for value in self._on_box(low, high))
        if least > most:
            fail("`bounds` must give a lower and an upper bound, in this order.")
        return -most, -most if low == high else -least, None


class BoxLaw(BoxSampler[None]):
    r"""The law :math:`P(t) \propto e^{r u(t)}` on the grid points of a box, drawn exactly.

    Nothing is cut ahead: bounds that a caller states may be slow, and only the upper ones tight.
    Where after 2**14 refusals they did not tighten, all points are gone through once.

    Parameters
    ----------
    low, high : tuples of int
    bounds : callable
        From corners ``low, high`` to exact numbers around the utility on the box. On a box of one
        point the upper one *is* the utility.
    rate : Fraction

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> def bounds(low, high):  # u(t) = -|t|
    ...     sizes = sorted([abs(low[0]), abs(high[0])])
    ...     return -sizes[1], 0 if low[0] <= 0 <= high[0] else -sizes[0]
    >>> law = BoxLaw((-1000,), (1000,), bounds, Fraction(1))
    >>> abs(law.draw(source(1))[0]) < 50
    True
    """

    def __init__(self, low: Point, high: Point, bounds: Bounds, rate: Fraction) -> None:
        super().__init__(UtilityLevels(low, high, bounds), rate, ahead=0)

    def draw(self, rng: RandomSource, patience: float | None = None) -> Point:
        """One grid point."""
        return super().draw(rng, _PATIENCE if patience is None else patience)


class BoxMechanism(Mechanism):
    r"""Releases a point of a public grid on a box, for a utility with certified bounds on boxes.

    The density is proportional to :math:`\exp\{\epsilon u_X(t)/(2s)\}` on the grid points. The
    sampler needs no gradient, no convexity and no chain: it partitions the box where refusals
    occur, and is exact. It is meant for up to three dimensions or so.

    **Privacy.** Statement, needs and proof are those of :class:`~tightdp.ExponentialMechanism` on
    the finite set of grid points, and the law is drawn exactly
    (:class:`~tightdp.exact.box_sampling.BoxSampler`). Needs also that bounds are true: they
    are checked at every point that is drawn. Numerics: ``exact``. The running time depends on the
    data, within a public bound: ``bounds`` is called at most 2**16 times, then once for every grid
    point and every one of a few proposals. A grid with more points than ``most_points`` is refused.

    Parameters
    ----------
    intervals : sequence of Interval
        Public bounds of every axis.
    bounds : callable
        From the table to a function of two corners (tuples of grid integers, see :meth:`point`)
        that gives exact numbers around the utility on the box between them; on a box of one point
        the upper one is the utility. Round floats outwards.
    sensitivity, epsilon, neighbors, monotonic, constant_normalizer :
        As for :class:`~tightdp.ExponentialMechanism`.
    bits : int
    most_points : int
        How many grid points there may be, each of which a draw may have to look at.

    Examples
    --------
    >>> def bounds(rows):  # utility: minus the largest distance of a coordinate from the mean
    ...     mean = [sum(column) * 16 // len(rows) for column in zip(*rows)]
    ...     def on_box(low, high):
    ...         far = [max(abs(a - m), abs(b - m)) for a, b, m in zip(low, high, mean)]
    ...         near = [max(0, a - m, m - b) for a, b, m in zip(low, high, mean)]
    ...         return -max(far), -max(near)
    ...     return on_box
    >>> mechanism = BoxMechanism([Interval(-1, 1)] * 2, bounds, sensitivity=1, epsilon=50.0, bits=4)
    >>> release = mechanism.release([(0.5, -0.5), (0.25, -0.25), (0.5, -0.5), (0.25, -0.25)])
    >>> bool((abs(release.value - [0.375, -0.375]) < 0.3).all())
    True
    """

    def __init__(
        self,
        intervals: Sequence[Interval],
        bounds: Callable[[Any], Bounds],
        *,
        sensitivity: Number,
        epsilon: Number,
        neighbors: str | Neighbors = "replace-one",
        bits: int = 10,
        monotonic: bool = False,
        constant_normalizer: bool = False,
        most_points: int = MOST_POINTS,
    ) -> None:
        self.intervals = check_box(intervals)
        self.bounds, self.bits = check_function("bounds", bounds), check_bits(bits)
        check_points(
            "bits", self.bits, len(self.intervals), check_count("most_points", most_points)
        )
        self.budget = UtilityBudget(epsilon, sensitivity, neighbors, monotonic, constant_normalizer)
        self.epsilon, self.neighbors = self.budget.epsilon, self.budget.neighbors

    @property
    def law(self) -> str:
        grid = grid_words(self.intervals, self.bits)
        return f"{grid}, with weight exp({self.budget.rate} * utility)"

    def label(self) -> str:
        return f"{type(self).__name__}({function_name(self.bounds)})"

    def point(self, t: Point) -> tuple[Fraction, ...]:
        """A grid point in user units, exactly."""
        return grid_point(t, self.intervals, self.bits)

    def law_for(self, on_box: Bounds) -> BoxLaw:
        """The law for given bounds; **not private**."""
        edge, dim = 1 << self.bits, len(self.intervals)
        return BoxLaw((-edge,) * dim, (edge,) * dim, on_box, self.budget.rate)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        on_box = called(self.bounds, frame)
        drawn = called(lambda: self.law_for(on_box).draw(rng))
        names = tuple(f"theta[{j}]" for j in range(len(drawn)))
        return on_grid(names, drawn, self.intervals, self.bits)
