"""New norm balls from old ones: stretched, mapped, multiplied and intersected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    DegenerateBodyError,
    DimensionError,
    FloatArray,
    InfeasibleSamplingError,
    check_array,
    check_filled,
    check_list,
    fail,
)
from tightdp.geometry.linear_programs import CUT_SLACK
from tightdp.geometry.norm_balls import (
    MEASURING_SEED,
    NormBall,
    SecondMoment,
    Volume,
    check_balls,
    check_radius,
)
from tightdp.geometry.units import FLAT, ROUNDING, column_scales, rounding_error
from tightdp.randomness import RandomSource, SeededSource

_PILOT = 20_000
_LEAST_ACCEPTANCE = 1e-5


class Scaled(NormBall):
    """The ball ``{f * x : x in K}`` with a positive factor ``f`` on every axis."""

    def __init__(self, ball: NormBall, factor: ArrayLike) -> None:
        self.ball, self.dim = ball, ball.dim
        self.factor = check_radius(factor, ball.dim, "factor")
        if ball.rank < ball.dim and np.ptp(self.factor) > 0:
            fail("A flat ball can only be scaled by one factor: use `image` with a matrix.")

    @property
    def rank(self) -> int:
        return self.ball.rank

    @property
    def unconditional(self) -> bool:
        return self.ball.unconditional

    @property
    def gauge_slack(self) -> float:
        return self.ball.gauge_slack

    @property
    def support_slack(self) -> float:
        return self.ball.support_slack

    def scaled(self, factor: ArrayLike) -> Scaled:
        return Scaled(self.ball, self.factor * check_radius(factor, self.dim, "factor"))

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        points = self.ball.vertices(most)
        return None if points is None else points * self.factor

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        rows = self.ball.facets(most)
        return None if rows is None else rows / self.factor

    def bounding_box(self) -> FloatArray:
        return self.ball.bounding_box() * self.factor

    def _gauge(self, x: FloatArray) -> FloatArray:
        return self.ball._gauge(x / self.factor)

    def _normals(self, x: FloatArray) -> FloatArray:
        return self.ball._normals(x / self.factor) / self.factor

    def _support_points(self, c: FloatArray) -> FloatArray:
        return self.ball._support_points(c * self.factor) * self.factor

    def _volume(self) -> Volume:
        inner = self.ball.volume_info
        grown = float(np.log(self.factor).sum()) * self.rank / self.dim
        return Volume(inner.log_value + grown, inner.standard_error)

    def _second_moment(self) -> SecondMoment:
        inner, outer = self.ball.second_moment, np.outer(self.factor, self.factor)
        return SecondMoment(inner.value * outer, inner.standard_error * outer)

    def entry_moments(self) -> FloatArray:
        return self.ball.entry_moments() * self.factor**2

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.ball._sample(size, rng) * self.factor

    def __repr__(self) -> str:
        same = np.ptp(self.factor) == 0
        factor = f"{self.factor[0]:g}" if same else "per axis"
        return f"{self.ball!r}.scaled({factor})"


class LinearImage(NormBall):
    """The ball ``A K``. A tall ``A`` gives a ball that lives in the column space of ``A``.

    Examples
    --------
    >>> from tightdp.geometry.norm_balls import LpBall
    >>> turned = LinearImage(LpBall(2, np.inf), [[1, 1], [1, -1]])
    >>> turned.gauge([2.0, 0.0]), round(turned.volume(), 12)
    (1.0, 8.0)
    """

    def __init__(self, ball: NormBall, matrix: ArrayLike) -> None:
        check_balls("ball", ball)
        A = check_array("matrix", matrix, 2, ball.dim)
        if ball.rank < ball.dim:
            fail("`image` of a flat ball is not supported: map the ball it was made from.")
        self.ball, self.matrix, self.dim = ball, A, A.shape[0]
        self._inverse = _left_inverse(A)

    @property
    def rank(self) -> int:
        return self.ball.dim

    @cached_property
    def _width(self) -> FloatArray:
        """Largest size of the terms of each coordinate of ``A x``, x in the ball."""
        return np.abs(self.matrix) @ self.ball.bounding_box()

    @cached_property
    def rounding(self) -> float:
        """What rounding of ``A^-1 x`` can do to the gauge: large for nearly dependent columns."""
        gauges = self.ball._gauge(np.eye(self.ball.dim))
        error = rounding_error((gauges @ np.abs(self._inverse)) * self._width)
        return error if error > ROUNDING else 0.0

    @property
    def gauge_slack(self) -> float:
        return self.ball.gauge_slack + self.rounding

    @property
    def support_slack(self) -> float:
        return self.ball.support_slack

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        points = self.ball.vertices(most)
        return None if points is None else points @ self.matrix.T

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        rows = self.ball.facets(most) if self.rank == self.dim else None
        return None if rows is None else rows @ self._inverse

    def _gauge(self, x: FloatArray) -> FloatArray:
        inner = x @ self._inverse.T
        gauge = self.ball._gauge(inner)
        if self.rank < self.dim:
            # off the span, in any coordinate, by more than rounding at the size of its terms
            off = np.abs(x - inner @ self.matrix.T)
            room = ROUNDING * np.maximum(gauge, 1.0)[:, None] * self._width
            gauge = np.where((off > room).any(axis=1), np.inf, gauge)
        return gauge

    def _normals(self, x: FloatArray) -> FloatArray:
        return self.ball._normals(x @ self._inverse.T) @ self._inverse

    def _support_points(self, c: FloatArray) -> FloatArray:
        return self.ball._support_points(c @ self.matrix) @ self.matrix.T

    def _volume(self) -> Volume:
        # |det A|, or the volume distortion sqrt(det A'A) of a tall matrix
        inner = self.ball.volume_info
        if self.rank == self.dim:
            stretch = float(np.linalg.slogdet(self.matrix)[1])
        else:
            stretch = float(np.log(np.linalg.svd(self.matrix, compute_uv=False)).sum())
        return Volume(inner.log_value + stretch, inner.standard_error)

    def _second_moment(self) -> SecondMoment:
        inner, A = self.ball.second_moment, self.matrix
        error = np.sqrt(A**2 @ inner.standard_error**2 @ (A**2).T)
        return SecondMoment(A @ inner.value @ A.T, error)

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.ball._sample(size, rng) @ self.matrix.T


class _Joined(NormBall):
    """Base: a ball made of several."""

    def __init__(self, balls: Iterable[NormBall]) -> None:
        self.balls = tuple(check_list("balls", balls, "balls"))
        check_filled("balls", self.balls)
        check_balls("balls", *self.balls)

    @property
    def unconditional(self) -> bool:
        return all(ball.unconditional for ball in self.balls)

    @property
    def gauge_slack(self) -> float:
        return max(ball.gauge_slack for ball in self.balls)


class Product(_Joined):
    """The Cartesian product of balls, coordinates concatenated.

    Examples
    --------
    >>> from tightdp.geometry.norm_balls import LpBall
    >>> Product([LpBall(2, 2), LpBall(1, 1, 3.0)]).gauge([0.6, 0.8, 6.0])
    2.0
    """

    def __init__(self, balls: Iterable[NormBall]) -> None:
        super().__init__(balls)
        self.dim = sum(ball.dim for ball in self.balls)
        self._cuts = np.cumsum([ball.dim for ball in self.balls])[:-1]

    @property
    def rank(self) -> int:
        return sum(ball.rank for ball in self.balls)

    @property
    def support_slack(self) -> float:
        return max(ball.support_slack for ball in self.balls)

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        # One sign for the first block, both for the others: one of each pair of whole vertices.
        full = self.balls[0].vertices(most)
        for ball in self.balls[1:]:
            half = ball.vertices(most)
            if full is None or half is None or len(full) * 2 * len(half) > most:
                return None
            block = np.vstack([half, -half])
            full = np.hstack([np.repeat(full, len(block), axis=0), np.tile(block, (len(full), 1))])
        return full

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        rows: list[FloatArray] = []
        offset = 0
        for ball in self.balls:
            block = ball.facets(most)
            if block is None or ball.rank < ball.dim:
                return None
            rows.append(np.zeros((len(block), self.dim)))
            rows[-1][:, offset : offset + ball.dim] = block
            offset += ball.dim
        return np.vstack(rows)

    def bounding_box(self) -> FloatArray:
        return np.concatenate([ball.bounding_box() for ball in self.balls])

    def _blocks(self, x: FloatArray) -> list[FloatArray]:
        return [np.ascontiguousarray(block) for block in np.split(x, self._cuts, axis=1)]

    def _gauge(self, x: FloatArray) -> FloatArray:
        parts = [ball._gauge(b) for ball, b in zip(self.balls, self._blocks(x), strict=True)]
        return np.max(parts, axis=0)

    def _normals(self, x: FloatArray) -> FloatArray:
        blocks = self._blocks(x)
        gauges = np.array([ball._gauge(b) for ball, b in zip(self.balls, blocks, strict=True)])
        longest = gauges.argmax(axis=0)
        return np.hstack(
            [
                np.where((longest == i)[:, None], ball._normals(block), 0.0)
                for i, (ball, block) in enumerate(zip(self.balls, blocks, strict=True))
            ]
        )

    def _support_points(self, c: FloatArray) -> FloatArray:
        blocks = zip(self.balls, self._blocks(c), strict=True)
        return np.hstack([ball._support_points(block) for ball, block in blocks])

    def _volume(self) -> Volume:
        parts = [ball.volume_info for ball in self.balls]
        return Volume(
            sum(part.log_value for part in parts),
            float(np.sqrt(sum(part.standard_error**2 for part in parts))),
        )

    def _second_moment(self) -> SecondMoment:
        value, error = np.zeros((2, self.dim, self.dim))
        offset = 0
        for ball in self.balls:
            block = slice(offset, offset + ball.dim)
            value[block, block] = ball.second_moment.value
            error[block, block] = ball.second_moment.standard_error
            offset += ball.dim
        return SecondMoment(value, error)

    def cube_gauge(self) -> float:
        return max(ball.cube_gauge() for ball in self.balls)

    def entry_moments(self) -> FloatArray:
        return np.concatenate([ball.entry_moments() for ball in self.balls])

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        return np.hstack([ball._sample(size, rng) for ball in self.balls])

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.balls))}])"


class Intersection(_Joined):
    """The intersection of balls of one dimension.

    Polytopes in up to 8 dimensions are intersected exactly. Otherwise samples are drawn by
    rejection from the smallest part, which is exact too, and refused when fewer than one draw in
    100,000 would be accepted; the volume is then an estimate.

    Examples
    --------
    >>> from tightdp.geometry.norm_balls import LpBall
    >>> Intersection([LpBall(2, np.inf), LpBall(2, 1, 1.5)]).gauge([1.0, 1.0])
    1.3333333333333333
    """

    def __init__(self, balls: Iterable[NormBall]) -> None:
        super().__init__(balls)
        dims = {ball.dim for ball in self.balls}
        if len(dims) > 1:
            fail(f"`balls` must have one dimension. Got {sorted(dims)}.", DimensionError)
        if any(ball.rank < ball.dim for ball in self.balls):
            fail("`intersection` with a flat ball is not supported.")
        self.dim = self.balls[0].dim

    @property
    def support_slack(self) -> float:
        return CUT_SLACK if self._polytope is None else self._polytope.support_slack

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        parts = [ball.facets(most) for ball in self.balls]
        found = [part for part in parts if part is not None]
        return np.vstack(found) if len(found) == len(parts) else None

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        return None if self._polytope is None else self._polytope.vertices(most)

    @cached_property
    def _polytope(self) -> NormBall | None:
        from tightdp.geometry.polytopes import QHULL_DIM, Polytope

        rows = self.facets() if self.dim <= QHULL_DIM else None
        return None if rows is None else Polytope.from_facets(rows)

    def _support_points(self, c: FloatArray) -> FloatArray:
        exact = self._polytope
        return super()._support_points(c) if exact is None else exact._support_points(c)

    def _second_moment(self) -> SecondMoment:
        return super()._second_moment() if self._polytope is None else self._polytope.second_moment

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.max([ball._gauge(x) for ball in self.balls], axis=0)

    def _normals(self, x: FloatArray) -> FloatArray:
        longest = np.argmax([ball._gauge(x) for ball in self.balls], axis=0)
        normals = np.array([ball._normals(x) for ball in self.balls])
        return normals[longest, np.arange(len(x))]

    def _smallest(self) -> NormBall:
        return min(self.balls, key=lambda ball: ball.log_volume())

    @cached_property
    def _share(self) -> float:
        draws = self._smallest()._sample(_PILOT, SeededSource(MEASURING_SEED))
        return float(np.mean(self._gauge(draws) <= 1.0))

    def _volume(self) -> Volume:
        if self._polytope is not None:
            return self._polytope.volume_info
        part, share = self._smallest().volume_info, self._share
        _refuse_below(share)
        if share == 1.0:  # the smallest part seems to lie inside the others; s.e. by rule of three
            return Volume(part.log_value, max(part.standard_error, 3.0 / _PILOT))
        error = np.sqrt((1 - share) / (share * _PILOT))
        return Volume(part.log_value + np.log(share), float(np.hypot(part.standard_error, error)))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self._polytope is not None:
            return self._polytope._sample(size, rng)
        smallest, share = self._smallest(), self._share
        _refuse_below(share)
        return rejection(
            size,
            lambda count: smallest._sample(count, rng),
            lambda x: self._gauge(x) <= 1.0,
            share,
            self.dim,
        )


def _left_inverse(A: FloatArray) -> FloatArray:
    """``B`` with ``B A = 1``, computed in units that make all rows and columns of A alike."""
    rows = column_scales(A.T)[:, None]
    columns = column_scales(A / rows)
    unit = A / rows / columns
    left, values, right = np.linalg.svd(unit, full_matrices=False)
    if len(A) < A.shape[1] or not values[-1] > FLAT * values[0]:
        fail(
            "`matrix` must have linearly independent columns: the image would be flat. "
            "Drop the linearly dependent entries.",
            DegenerateBodyError,
        )
    inverse = np.linalg.inv(unit) if len(A) == A.shape[1] else right.T / values @ left.T
    return np.asarray(inverse / columns[:, None] / rows.T)


def rejection(
    size: int,
    propose: Callable[[int], FloatArray],
    accept: Callable[[FloatArray], NDArray[np.bool_]],
    share: float,
    dim: int,
) -> FloatArray:
    """``size`` accepted proposals; ``share`` (expected acceptance) only sets the batch size."""
    found: list[FloatArray] = [np.empty((0, dim))]
    missing = size
    while missing > 0:
        batch = propose(min(int(missing / share * 1.1) + 16, 1 << 20))
        kept = batch[accept(batch)][:missing]
        found.append(kept)
        missing -= len(kept)
    return np.vstack(found)


def _refuse_below(share: float) -> None:
    if share < _LEAST_ACCEPTANCE:
        fail(
            "Fewer than one proposal in 100,000 would be accepted: exact sampling is refused. "
            "Use one of the balls alone, or a body with its own sampler.",
            InfeasibleSamplingError,
        )
