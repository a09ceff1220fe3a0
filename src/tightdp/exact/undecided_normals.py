r"""Arrays of exponential and normal variables of which more bits can be drawn at any time.

:math:`-\ln U` of a uniform real U is exponential; :math:`y = -\ln U` with a fair sign is normal if
:math:`-\ln U' \ge (y - 1)^2/2`, else both are drawn anew (the density of y, :math:`e^{-y}`, times
:math:`e^{-(y-1)^2/2}` is that of the size of a normal variable, up to a factor). What doubles leave
open is asked again with more bits of the same numbers (:mod:`~tightdp.exact.undecided_bits`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.exact.fixed_point import Fixed, UnsettledError
from tightdp.exact.undecided_bits import minus_log_bounds
from tightdp.randomness import RandomSource, Words

SPARE = 64  # places beyond the bits that are known, for fixed-point arithmetic


class Uniforms:
    """Uniform reals in (0, 1) of which some bits are known, and a fair sign for each.

    ``words`` has shape (depth, ...): the first 63 bits and the sign are in the first word, 64 more
    bits in each of the others.
    """

    __slots__ = ("words",)

    def __init__(self, words: Words) -> None:
        self.words = words

    @classmethod
    def draw(cls, shape: tuple[int, ...], rng: RandomSource) -> Uniforms:
        return cls(rng.words(int(np.prod(shape))).reshape(1, *shape))

    def __getitem__(self, at: Any) -> Uniforms:
        return Uniforms(self.words[(slice(None), *(at if isinstance(at, tuple) else (at,)))])

    def longer(self, rng: RandomSource, depth: int | None = None) -> Uniforms:
        """The same numbers with more bits known: one word more, or up to ``depth`` words."""
        have, shape = len(self.words), self.words.shape[1:]
        more = (have + 1 if depth is None else depth) - have
        fresh = rng.words(more * int(np.prod(shape))).reshape(more, *shape)
        return Uniforms(np.concatenate([self.words, fresh]))

    @property
    def signs(self) -> NDArray[np.int64]:
        return 1 - 2 * (self.words[0] & np.uint64(1)).astype(np.int64)

    def integers(self) -> tuple[list[int], int]:
        """Their leading bits as integers, and how many bits these are."""
        flat = self.words.reshape(len(self.words), -1)
        values = [int(w) >> 1 for w in flat[0]]
        for row in flat[1:]:
            values = [v << 64 | int(w) for v, w in zip(values, row, strict=True)]
        return values, 64 * len(self.words) - 1

    def minus_log(self) -> tuple[FloatArray, FloatArray]:
        """-ln U in doubles, and a bound on the distance: none where all bits known are 0."""
        known = self.words[0] >> np.uint64(1)
        lead = known.astype(np.float64) + 0.5
        y = -np.log(lead * 2.0**-63)
        # U is within 1/2 of the lead (relative 1 / lead), whose conversion and logarithm round
        return y, np.where(known == 0, np.inf, 2.0**-48 * (1 + y) + 1 / lead)

    def exponentials(self, places: int) -> Fixed:
        """-ln U in fixed point."""
        values, bits = self.integers()
        ends = [minus_log_bounds(value, bits) for value in values]
        highs = [high for _, high, _ in ends if high is not None]
        if len(highs) < len(ends):
            raise UnsettledError  # all bits are 0
        shift = bits + 16
        return Fixed.between([low for low, _, _ in ends], highs, shift, places)


def normals(count: int, rng: RandomSource) -> Uniforms:
    """Uniforms whose signed -ln U are independent standard normals."""
    found: Uniforms | None = None
    while found is None or found.words.shape[1] < count:
        missing = count - (0 if found is None else found.words.shape[1])
        tried = Uniforms.draw((2, missing + missing // 2 + 8), rng)
        kept = _kept_normals(tried, rng)
        found = kept if found is None else _side_by_side(found, kept, rng)
    return found[:count]


def _kept_normals(tried: Uniforms, rng: RandomSource) -> Uniforms:
    """Those y of pairs (y, y') of exponentials with y' >= (y - 1)^2 / 2."""
    while True:
        (y, other), (e, f) = tried.minus_log()
        gap = other - (y - 1) ** 2 / 2
        # |(y - 1)^2 - (y' - 1)^2| <= e (2 |y - 1| + e), and a few roundings
        doubt = f + e * (np.abs(y - 1) + e) + 2.0**-48 * (1 + y**2 + other)
        keep = gap > 0
        for i in np.flatnonzero(np.abs(gap) <= doubt):
            answer = _settle_normal(tried[:, i])
            if answer is None:
                tried = tried.longer(rng)
                break
            keep[i] = answer
        else:
            return tried[0, keep]


def _settle_normal(pair: Uniforms) -> bool | None:
    places = 64 * len(pair.words) + SPARE
    try:
        y = pair.exponentials(places)
    except UnsettledError:
        return None
    shifted = y[0] - Fixed.of(1, places)
    gap = y[1] + y[1] - shifted * shifted
    middle = int(gap.middle)
    return middle > 0 if abs(middle) > gap.error else None


def _side_by_side(first: Uniforms, second: Uniforms, rng: RandomSource) -> Uniforms:
    depth = max(len(first.words), len(second.words))
    return Uniforms(
        np.concatenate([first.longer(rng, depth).words, second.longer(rng, depth).words], axis=1)
    )
