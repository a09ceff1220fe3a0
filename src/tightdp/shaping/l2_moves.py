r"""How far one row moves a statistic in a weighted l2 norm: exact integers, for round noise.

Noise whose law depends on :math:`\sum_j z_j^2/s_j` alone, Gaussian or in the shape of an ellipsoid,
pays for one number, :math:`\max_d \sum_j d_j^2/s_j` over the moves d of one row. Here the weights
:math:`W_j \propto 1/s_j` are integers, and so is the largest square, :class:`L2Moves`. Which
weights are worth it is found by floats (:func:`best_weights`); what they cost is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.public_rows import Images, independent_images
from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.farthest import largest_square, weighted_squares
from tightdp.geometry.norm_balls import LpBall
from tightdp.privacy import Neighbors

_SLACK = Fraction(1, 1 << 40)  # relative rounding of a sensitivity or a support
_FEW = 64  # entries up to which the gauge is tried beside a bound by sides
_ROUNDS = 400  # of the search for weights
_CLOSE = 1e-5
_MOST_PATTERNS = 1 << 12  # moves of a block that the search looks at
_MOST_RATIO = 1 << 12  # of the roots of two weights
_WORTH = 0.999  # smaller gains are not worth weights
ROOT_BITS = 8  # of the smallest root of a weight, where they differ


@dataclass(frozen=True, slots=True, eq=False)
class L2Moves:
    r"""Moves d of a statistic, in lattice steps, with :math:`\sum_j W_j d_j^2 \le` ``square``.

    **Privacy.** ``square`` is for a person with all rows [P1]: by the triangle inequality r rows
    move the statistic r times as far, and the square grows by :math:`r^2`. Where all extreme rows
    of every block of entries can be listed, squares are measured on the integers of these rows
    and add up over blocks, as blocks have columns of their own; else they are those of a proved
    bound on the sensitivity space, in floats, raised by more than these round.
    """

    statistic: Statistic
    bits: int
    weights: tuple[int, ...]
    square: int

    @classmethod
    def of(cls, statistic: Statistic, bits: int, weights: Sequence[int] | None = None) -> L2Moves:
        """The exact square of the longest move, or the least bound on it that is proved."""
        chosen = tuple(weights) if weights is not None else (1,) * len(statistic)
        found = _measured(statistic, bits, chosen)
        if found is None:
            found = _by_structure(statistic, bits, chosen)
        rows = statistic.schema.rows_per_person
        return cls(statistic, bits, chosen, max(1, found) * rows * rows)  # [P1]

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each move of one row is within the square, with all rows of a person."""
        rows = self.statistic.schema.rows_per_person
        return weighted_squares(moves, self.weights) * rows * rows <= self.square

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        rows = self.statistic.schema.rows_per_person
        blocks = [(block.entries, block.values) for block in images]
        return largest_square(self.weights, blocks, paired=paired) * rows * rows <= self.square

    def covers_by_structure(self) -> bool:
        rows = self.statistic.schema.rows_per_person
        return _by_structure(self.statistic, self.bits, self.weights) * rows * rows <= self.square


class RoundNoise:
    """Noise that was made for the moves of an :class:`L2Moves`, and covers what these cover."""

    moves: L2Moves
    factor = 1

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        return self.moves.covers(moves)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return self.moves.covers_all(images, paired)

    def covers_by_structure(self) -> bool:
        return self.moves.covers_by_structure()


def is_paired(statistic: Statistic) -> bool:
    """Whether moves are differences of two rows."""
    return statistic.schema.neighbors is Neighbors.REPLACE_ONE


def _measured(statistic: Statistic, bits: int, weights: tuple[int, ...]) -> int | None:
    """On the integers of all extreme rows; None where these are not all listed."""
    blocks = independent_images(statistic, bits)
    if not all(block.complete for block in blocks):
        return None
    points = [(block.entries, block.values) for block in blocks]
    return largest_square(weights, points, paired=is_paired(statistic))


def _by_structure(statistic: Statistic, bits: int, weights: tuple[int, ...]) -> int:
    """By the sensitivity space: its gauge in the ellipsoid, or as many of its sides as move."""
    space, fine = statistic.sensitivity_space(), statistic.resolution(bits)
    heaviest, moved = max(weights), statistic.touched()
    sides = np.asarray(space.hull().support(np.eye(len(weights))), dtype=np.float64)
    squares = [w * Fraction(float(r)) ** 2 for w, r in zip(weights, sides, strict=True)]
    least = sum(sorted(squares)[-moved:], Fraction(0))
    if moved == len(weights) or len(weights) <= _FEW:
        radius = np.sqrt(heaviest / np.array(weights, dtype=np.float64))
        gauge = Fraction(float(space.sensitivity(ball=LpBall(len(weights), 2, radius))))
        least = min(least, gauge**2 * heaviest)
    # a difference of integers has an integer square
    return math.floor(least * (1 + _SLACK) ** 2 * fine * fine)


# --- weights --------------------------------------------------------------------------------------


def best_weights(
    statistic: Statistic, bits: int, counts: FloatArray | None = None
) -> tuple[int, ...]:
    r"""Squares of integers: weights of an ellipsoid around the moves with the least total variance.

    The variance of entry j of the scaled statistic is in proportion to :math:`s_j`; the least
    :math:`\sum_j s_j` with :math:`\sum_j d_j^2/s_j \le 1` for all moves d is a convex program. Its
    dual asks for a law of moves with the largest :math:`\sum_j (E d_j^2)^{1/2}`, and then
    :math:`s_j \propto (E d_j^2)^{1/2}`. It is approached by multiplying the chance of a move by
    how much it costs. All ones where that gains less than a thousandth, or where the rows are not
    listed. Where variances count differently, :math:`\sum_j c_j s_j`, this is the same program for
    :math:`c_j s_j` and the squares :math:`c_j d_j^2`.

    >>> from tightdp.data.statistics import Products
    >>> from tightdp.schema import Category, Interval, Schema
    >>> columns = {"x": Interval(0, 1), "k": Category(["a", "b"], other="a")}
    >>> best_weights(Products(Schema(columns, rows=9)), 16)  # x moves by 2, the others by 1
    (65536, 131044, 131044)
    """
    ones = (1,) * len(statistic)
    blocks = independent_images(statistic, bits)
    if len(statistic) == 1 or not all(block.complete for block in blocks):
        return ones
    count = np.ones(len(ones)) if counts is None else counts / counts.max()
    patterns = [
        (block.entries, _patterns(block.values, is_paired(statistic)) * count[block.entries])
        for block in blocks
    ]
    sizes = _search(patterns, len(statistic))
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        return ones
    plain = count.sum() * _cost(patterns, count)
    if sizes.sum() * _cost(patterns, sizes) > _WORTH * plain:
        return ones
    return rounded_weights(sizes / count)


def rounded_weights(sizes: FloatArray) -> tuple[int, ...]:
    """Squares of integers in proportion to the inverse sizes, of which none is too far off."""
    ratio = np.minimum(np.sqrt(sizes.max() / sizes), _MOST_RATIO)
    roots = np.rint(ratio * (1 << ROOT_BITS)).astype(np.int64)
    return tuple(int(root) ** 2 for root in roots)


def _patterns(values: WideIntegers, paired: bool) -> FloatArray:
    """Squares of the moves of a block, entry by entry, of the size 1; at most so many of them."""
    points = np.unique(values.astype(np.float64), axis=0)
    if paired:
        first, second = np.triu_indices(len(points), 1)
        step = max(1, -(-len(first) // _MOST_PATTERNS))
        points = points[first[::step]] - points[second[::step]]
    squares = np.unique(points**2, axis=0)
    return np.asarray(squares[squares.any(axis=1)])


Patterns = Sequence[tuple[NDArray[np.intp], FloatArray]]


def _cost(patterns: Patterns, sizes: FloatArray) -> float:
    return sum(float((moves / sizes[e]).sum(axis=1).max(initial=0.0)) for e, moves in patterns)


def _search(patterns: Patterns, dim: int) -> FloatArray:
    chances = [np.full(len(moves), 1 / max(1, len(moves))) for _, moves in patterns]
    means = np.zeros(dim)
    for _ in range(_ROUNDS):
        for (entries, moves), chance in zip(patterns, chances, strict=True):
            means[entries] = chance @ moves
        sizes = np.sqrt(np.maximum(means, means.max() / _MOST_RATIO**4))
        if sizes.sum() >= (1 - _CLOSE) * _cost(patterns, sizes):  # both bounds meet
            break
        for (entries, moves), chance in zip(patterns, chances, strict=True):
            chance *= (moves / sizes[entries]).sum(axis=1)
            chance /= chance.sum()
    return np.asarray(sizes)
