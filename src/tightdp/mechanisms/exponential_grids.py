"""The exponential mechanism on public grids: of an interval, for pieces; of a box, from bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.draft import DEPENDS, Draft, Error
from tightdp.errors import (
    DataError,
    FloatArray,
    WideIntegers,
    check_count,
    check_flag,
    check_function,
    exact_fraction,
    fail,
    fraction_within,
)
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.listed_points import MOST_POINTS, check_points
from tightdp.exact.tilted import TiltedLaw
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.schema import Interval

T = TypeVar("T")
_WORD = 1 << 62
Bounds = Callable[[Point, Point], tuple[Any, Any]]

_PATIENCE = 1 << 14  # refused proposals before all points are gone through


def integer_levels(utilities: Iterable[Any]) -> tuple[WideIntegers, int]:
    """Integers k and a denominator q with ``utility = -k / q``: low levels are good.

    Integers, Fractions, Decimals and floats are taken exactly.

    >>> from fractions import Fraction
    >>> levels, denominator = integer_levels([0.5, Fraction(-1, 3), 2])
    >>> levels.tolist(), denominator
    ([-3, 2, -12], 6)
    """
    if isinstance(utilities, np.ndarray) and utilities.dtype.kind in "iu":
        return (-utilities.astype(object) if _large(utilities) else -utilities.astype(np.int64)), 1
    given = [exact_fraction("utility", value) for value in utilities]
    q = lcm(*(value.denominator for value in given)) if given else 1
    levels = [-(value.numerator * (q // value.denominator)) for value in given]
    fits = all(abs(level) < _WORD for level in levels)
    return np.array(levels, dtype=np.int64 if fits else object), q


def _large(values: Any) -> bool:
    return bool((values >= _WORD).any() or (values <= -_WORD).any()) if values.size else False


def called(function: Callable[..., T], *arguments: object) -> T:
    """The value of a user's function of the data; its errors are withheld, they may quote cells."""
    try:
        return function(*arguments)
    except Exception:
        pass  # raised anew outside the handler: not even its context may quote cells
    raise DataError(
        "The function of the data failed. What it said is withheld, because it may quote cells: "
        "try it on public rows."
    )


class UtilityBudget:
    """Epsilon, sensitivity and the claim about scores, made into a rate.

    The loss of the exponential mechanism with weights :math:`e^{r u}` is at most r times the range
    of the change of the utilities over all candidates, plus nothing: if
    :math:`a \\le u_X(i) - u_{X'}(i) \\le b` for all i, then :math:`Z_X \\ge e^{ra} Z_{X'}` and the
    log ratio is at most :math:`r b - r a`. In general [a, b] lies in [-s, s] for the sensitivity s:
    :math:`r = \\epsilon / (2s)`. If the utility is monotonic, [a, b] lies in [0, s] or [-s, 0] and
    :math:`r = \\epsilon / s`; if the normaliser Z is the same for all data, the log ratio is at
    most r b and :math:`r = \\epsilon / s` too.

    >>> UtilityBudget(1, 2, "add-remove", monotonic=True).rate
    Fraction(1, 2)
    """

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number,
        neighbors: str | Neighbors,
        monotonic: bool = False,
        constant_normalizer: bool = False,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.neighbors = Neighbors.of(neighbors)
        self.sensitivity = fraction_within("sensitivity", sensitivity, "(0, inf)")
        check_flag("monotonic", monotonic)
        check_flag("constant_normalizer", constant_normalizer)
        if monotonic and self.neighbors is Neighbors.REPLACE_ONE:
            fail(
                "`monotonic` needs neighbors='add-remove': replacing a row takes one away and adds "
                "one, so that utilities can rise and fall at once."
            )
        self.factor = 1 if monotonic or constant_normalizer else 2
        self.rate = self.epsilon / (self.factor * self.sensitivity)
        # of a constant normaliser the change may be anywhere in [-s, s]: twice epsilon
        self.shares = () if constant_normalizer else (Fraction(1),)


def check_bits(bits: object) -> int:
    """Bits of a public grid on an interval."""
    return check_count("bits", bits, most=26)


def check_interval(interval: object) -> Interval:
    """A public bounded interval: without one the law has no normaliser (E24)."""
    if not isinstance(interval, Interval):
        fail(
            "`interval` must be an Interval with public bounds: gradients and counts are bounded, "
            f"so on an unbounded domain the law does not exist. Got {type(interval).__name__}."
        )
    return interval


def check_box(intervals: object) -> tuple[Interval, ...]:
    """Public bounded intervals, one for every axis."""
    if isinstance(intervals, Interval):
        return (intervals,)
    if not isinstance(intervals, (list, tuple)) or not intervals:
        fail(
            "`intervals` must be a non-empty list of Intervals with public bounds: on an unbounded "
            "set the law does not exist."
        )
    return tuple(check_interval(interval) for interval in intervals)


def grid_words(intervals: Sequence[Interval], bits: int) -> str:
    """A grid in words.

    >>> grid_words([Interval(0, 1), Interval(-2, 2)], bits=10)
    'grid points of [0, 1] x [-2, 2] in steps of 2^-10 of the halves'
    """
    box = " x ".join(f"[{axis.low:g}, {axis.high:g}]" for axis in intervals)
    return f"grid points of {box} in steps of 2^-{bits} of the halves"


def grid_point(
    point: Sequence[int], intervals: Sequence[Interval], bits: int
) -> tuple[Fraction, ...]:
    """``middle + half * t / 2**bits`` on every axis, exactly.

    >>> grid_point([0, -4], [Interval(0, 1), Interval(-2, 2)], bits=2)
    (Fraction(1, 2), Fraction(-2, 1))
    """
    return tuple(
        Fraction(axis.middle) + Fraction(axis.half) * Fraction(int(t), 1 << bits)
        for axis, t in zip(intervals, point, strict=True)
    )


def on_grid(
    names: tuple[str, ...],
    point: Sequence[int],
    intervals: Sequence[Interval],
    bits: int,
    error: Error = DEPENDS,
) -> Draft:
    """A drawn grid point in user units."""
    low, high = (np.array([getattr(axis, name) for axis in intervals]) for name in ("low", "high"))
    value = np.array([float(x) for x in grid_point(point, intervals, bits)])
    value = np.clip(value, low, high)  # halves are rounded
    return Draft.of(names, value, point, 1 << bits, error)


class UtilityOnGrid(Mechanism):
    """A grid point with weight exp(rate * utility), within public intervals."""

    budget: UtilityBudget
    intervals: Sequence[Interval]
    bits: int

    def exponential_shares(self) -> Sequence[Fraction]:
        return self.budget.shares

    @property
    def law(self) -> str:
        grid = grid_words(self.intervals, self.bits)
        return f"{grid}, with weight exp({self.budget.rate} * utility)"


class PieceLaw:
    r"""A law on consecutive integers with weight :math:`e^{-r k_j}` on every integer of piece j.

    Parameters
    ----------
    starts : integers, shape (m,), increasing
        The first integer of every piece.
    end : int
        The integer behind the last piece.
    levels : integers k, shape (m,)
    rate : Fraction r > 0

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> law = PieceLaw(np.array([0, 10]), 20, np.array([0, 3]), Fraction(1))
    >>> law.probabilities().round(3)
    array([0.953, 0.047])
    >>> 0 <= law.draw(source(1)) < 20
    True
    """

    def __init__(
        self, starts: WideIntegers, end: int, levels: WideIntegers, rate: Fraction
    ) -> None:
        self.starts, self.end = starts, end
        self.lengths = np.diff(starts, append=end)
        self.tilted = TiltedLaw(self.lengths, levels, rate)

    def draw(self, rng: RandomSource) -> int:
        """One integer."""
        j = self.tilted.draw(rng)
        return int(self.starts[j]) + rng.below(int(self.lengths[j]))

    def sample(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent integers, shape (size,)."""
        found = self.tilted.sample(size, rng)
        return np.asarray(self.starts[found] + rng.integers_below(self.lengths[found]))

    def probabilities(self) -> FloatArray:
        """Chances of the pieces, as doubles, for tests and plots."""
        return self.tilted.probabilities()


class PieceMechanism(UtilityOnGrid):
    r"""Releases a point of a public grid on an interval, for a utility with finitely many pieces.

    The density is proportional to :math:`\exp\{\epsilon u_X(t)/(2s)\}` on the points t of the grid
    ``interval.middle + interval.half * t / 2**bits``, t = -2**bits .. 2**bits. A piece is drawn
    with its length times its weight, then a uniform point in it.

    **Privacy.** Statement, needs and proof are those of :class:`~tightdp.ExponentialMechanism` on
    the finite set of grid points. Numerics: ``exact``.

    Parameters
    ----------
    interval : Interval
        Public; a bounded domain is needed, for on the line the law would not be a law.
    utility : callable
        From the table to ``(cuts, values)``: increasing grid integers, and one exact number more
        than cuts. Grid point t has the value of piece number ``#{cuts <= t}``.
    sensitivity, epsilon, neighbors, monotonic, constant_normalizer :
        As for :class:`~tightdp.ExponentialMechanism`.
    bits : int

    Examples
    --------
    >>> def near_cluster(rows):  # utility: how many rows lie within 4 grid steps below t
    ...     cuts = np.unique([*rows, *(rows + 4)])
    ...     return cuts, [0, *(np.sum((rows <= c) & (c < rows + 4)) for c in cuts)]
    >>> mechanism = PieceMechanism(
    ...     Interval(0, 1), near_cluster, sensitivity=1, epsilon=200.0, bits=6)
    >>> release = mechanism.release(np.array([-10, -9, -8, 30]))
    >>> release.integers[0] in (-8, -7)
    True
    """

    def __init__(
        self,
        interval: Interval,
        utility: Callable[[Any], Any],
        *,
        sensitivity: Number,
        epsilon: Number,
        neighbors: str | Neighbors = "replace-one",
        bits: int = 16,
        monotonic: bool = False,
        constant_normalizer: bool = False,
    ) -> None:
        self.interval = check_interval(interval)
        self.intervals = [self.interval]
        self.utility, self.bits = check_function("utility", utility), check_bits(bits)
        self.budget = UtilityBudget(epsilon, sensitivity, neighbors, monotonic, constant_normalizer)
        self.epsilon, self.neighbors = self.budget.epsilon, self.budget.neighbors

    def label(self) -> str:
        return f"ExponentialMechanism.on_interval({function_name(self.utility)})"

    def law_for(self, cuts: object, values: Any) -> PieceLaw:
        """The law of the grid point for given pieces; **not private**."""
        edge = 1 << self.bits
        places = np.asarray(cuts)
        levels, q = integer_levels(values)
        wrong = places.ndim != 1 or (places.size and places.dtype.kind not in "iu")
        if wrong or len(levels) != len(places) + 1 or bool((np.diff(places) < 0).any()):
            fail("`utility` must give increasing integer cuts and one value more than cuts.")
        inner = np.clip(places.astype(np.int64), -edge, edge + 1)
        starts = np.concatenate([[-edge], inner])
        return PieceLaw(starts, edge + 1, levels, self.budget.rate / q)

    names = ("point",)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        given = called(self.utility, frame)
        try:
            cuts, values = given
            point = self.law_for(cuts, values).draw(rng)
        except (TypeError, ValueError):
            point = None
        if point is None:
            fail("`utility` must give increasing integer cuts and their values.", DataError)
        return on_grid(("point",), [point], [self.interval], self.bits)


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


class BoxMechanism(UtilityOnGrid):
    r"""Releases a point of a public grid on a box, for a utility with certified bounds on boxes.

    The density is proportional to :math:`\exp\{\epsilon u_X(t)/(2s)\}` on the grid points. The
    sampler needs no gradient, no convexity and no chain: it partitions the box where refusals
    occur, and is exact. It is meant for up to three dimensions or so.

    **Privacy.** Statement, needs and proof are those of :class:`~tightdp.ExponentialMechanism` on
    the finite set of grid points, and the law is drawn exactly
    (:class:`~tightdp.exact.box_sampling.BoxSampler`). Needs also that bounds are true: they
    are checked at every point that is drawn. Numerics: ``exact``. The running time depends on the
    data, within a public bound: ``bounds`` is called at most 2**16 times, then once for every grid
    point (three times where bounds lie beyond 2**44 noises) and every one of a few proposals. A
    grid with more points than ``most_points`` is refused.

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
