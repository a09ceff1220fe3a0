"""The exponential mechanism on an interval, for utilities that are constant between cuts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.errors import DataError, FloatArray, WideIntegers, fail
from tightdp.exact.tilted import TiltedLaw
from tightdp.mechanisms.exponential.box_grids import check_bits, check_interval, grid_words, on_grid
from tightdp.mechanisms.exponential.utilities import UtilityBudget, called, integer_levels
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Draft
from tightdp.schema import Interval


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


class PieceMechanism(Mechanism):
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
        if not callable(utility):
            fail("`utility` must be a function of the table.")
        self.utility, self.bits = utility, check_bits(bits)
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
        grid = grid_words([self.interval], self.bits)
        return f"{grid}, with weight exp({self.budget.rate} * utility)"

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
