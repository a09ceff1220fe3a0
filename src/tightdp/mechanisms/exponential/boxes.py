"""The exponential mechanism on a box of few dimensions, from certified bounds on the utility."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from tightdp.accepted import Number, TableLike
from tightdp.errors import check_count, exact_fraction, fail
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.listed_points import MOST_POINTS, ListedLaw, check_points
from tightdp.exact.tilted import below_exp
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

Point = tuple[int, ...]
Bounds = Callable[[Point, Point], tuple[Any, Any]]

_PATIENCE = 1 << 14  # refused proposals before all points are gone through


class _Node:
    """A box of grid points ``low <= t <= high`` with an upper bound of the utility on it."""

    __slots__ = ("bound", "children", "high", "low", "points", "top", "weight")

    def __init__(self, low: Point, high: Point, top: Fraction) -> None:
        self.low, self.high, self.top = low, high, top
        self.points = prod(b - a + 1 for a, b in zip(low, high, strict=True))
        self.children: tuple[_Node, _Node] | None = None
        self.bound = self.weight = 0

    def halves(self) -> tuple[tuple[Point, Point], tuple[Point, Point]]:
        """The box cut across its longest side."""
        sides = [b - a for a, b in zip(self.low, self.high, strict=True)]
        i = sides.index(max(sides))
        middle = (self.low[i] + self.high[i]) // 2
        left = (*self.high[:i], middle, *self.high[i + 1 :])
        right = (*self.low[:i], middle + 1, *self.low[i + 1 :])
        return (self.low, left), (right, self.high)


class BoxLaw:
    r"""The law :math:`P(t) \propto e^{r u(t)}` on the grid points of a box, drawn exactly.

    The box is partitioned; a cell B is proposed with integer weight
    :math:`|B|\,T_B`, :math:`T_B \ge 2^P e^{r(\bar u_B - \bar u)}`, a uniform point t in it is kept
    with probability :math:`2^P e^{r(u(t) - \bar u)}/T_B`. A cell whose point is refused is halved.

    Proof: whatever the partition, a kept point has exactly the law, and each trial's partition
    depends on earlier refusals only; so the first kept point has the law. Refusals become rare as
    cells shrink, for bounds that tighten with the box. Where after 2**14 refusals they did not, all
    points are gone through once (:class:`~tightdp.exact.listed_points.ListedLaw`), which has the
    same law, for refusals tell nothing of it.

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
        self._bounds, self._rate = bounds, rate
        self.root = _Node(low, high, self._top(low, high))
        self._places = self.root.points.bit_length() + 20
        self._leaves, self._next = 1, 16
        self._reference = self.root.top
        self._list: ListedLaw | None = None
        self._rebuild()

    def _top(self, low: Point, high: Point) -> Fraction:
        least, most = self._bounds(low, high)
        lower, upper = exact_fraction("bounds", least), exact_fraction("bounds", most)
        if lower > upper:
            fail("`bounds` must give a lower and an upper bound, in this order.")
        return upper

    def _weigh(self, node: _Node) -> None:
        x = self._rate * (self._reference - node.top)
        node.bound = max(1, exp_minus_bounds(x, self._places)[1])
        node.weight = node.points * node.bound

    def _rebuild(self) -> None:
        """Measure utilities from the highest bound that is left."""
        order, leaves = [self.root], []
        for node in order:
            if node.children is None:
                leaves.append(node)
            else:
                order.extend(node.children)
        self._reference = max(leaf.top for leaf in leaves)
        for node in reversed(order):
            if node.children is None:
                self._weigh(node)
            else:
                node.weight = node.children[0].weight + node.children[1].weight

    def draw(self, rng: RandomSource) -> Point:
        """One grid point."""
        for _ in range(_PATIENCE):
            value, node, path = rng.below(self.root.weight), self.root, []
            while node.children is not None:
                path.append(node)
                left, right = node.children
                node, value = (left, value) if value < left.weight else (right, value - left.weight)
            point = tuple(
                a + rng.below(b - a + 1) for a, b in zip(node.low, node.high, strict=True)
            )
            utility = self._top(point, point)
            if utility > node.top:
                fail("`bounds` broke their promise: a point lies above the bound of its box.")
            x = self._rate * (self._reference - utility)
            word = int(rng.words(1)[0])
            if below_exp(word, x, rng, num=1 << self._places, den=node.bound):
                return point
            self._split(node, path)
        if self._list is None:
            top = self.root.top  # exponents from the highest utility there can be
            self._list = ListedLaw(
                self.root.low, self.root.high, lambda z: self._rate * (top - self._point(z))
            )
        return self._list.draw(rng)

    def _point(self, point: Point) -> Fraction:
        utility = self._top(point, point)
        if utility > self.root.top:
            fail("`bounds` broke their promise: a point lies above the bound of its box.")
        return utility

    def _split(self, node: _Node, path: list[_Node]) -> None:
        if node.points == 1:
            return
        first, second = (_Node(*half, top=self._inside(node, *half)) for half in node.halves())
        node.children = (first, second)
        self._leaves += 1
        if self._leaves >= self._next:
            self._next *= 2
            self._rebuild()
            return
        for child in node.children:
            self._weigh(child)
        for part in [node, *reversed(path)]:
            assert part.children is not None
            part.weight = part.children[0].weight + part.children[1].weight

    def _inside(self, node: _Node, low: Point, high: Point) -> Fraction:
        """A bound for half of a box: never above that of the box."""
        return min(node.top, self._top(low, high))


class BoxMechanism(Mechanism):
    r"""Releases a point of a public grid on a box, for a utility with certified bounds on boxes.

    The density is proportional to :math:`\exp\{\epsilon u_X(t)/(2s)\}` on the grid points. The
    sampler needs no gradient, no convexity and no chain: it partitions the box where refusals
    occur, and is exact. It is meant for up to three dimensions or so.

    **Privacy.** Statement, needs and proof are those of :class:`~tightdp.ExponentialMechanism` on
    the finite set of grid points, and the law is drawn exactly
    (:class:`~tightdp.mechanisms.exponential.boxes.BoxLaw`). Needs also that bounds are true: they
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
        if not callable(bounds):
            fail("`bounds` must be a function of the table.")
        self.bounds, self.bits = bounds, check_bits(bits)
        check_points(
            "bits", self.bits, len(self.intervals), check_count("most_points", most_points)
        )
        self.budget = UtilityBudget(
            epsilon,
            sensitivity,
            neighbors,
            monotonic=monotonic,
            constant_normalizer=constant_normalizer,
        )
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
        edge = 1 << self.bits
        dim = len(self.intervals)
        return BoxLaw((-edge,) * dim, (edge,) * dim, on_box, self.budget.rate)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        on_box = called(self.bounds, frame)
        drawn = called(lambda: self.law_for(on_box).draw(rng))
        names = tuple(f"theta[{j}]" for j in range(len(drawn)))
        return on_grid(names, drawn, self.intervals, self.bits)
