"""Real numbers between integers: arrays in fixed point whose distance from the truth is proved.

Every operation is done on Python integers and adds what it may be off by; nothing is ever said
that the bound does not prove.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class UnsettledError(ArithmeticError):
    """The bounds are too wide for the operation: more bits are needed."""


class Fixed:
    r"""Reals x of which :math:`|2^{places} x - middle| \le error`, entry by entry.

    Examples
    --------
    >>> third = Fixed(np.array([1 << 40], dtype=object), 0, 40) * Fixed.of([3], 40).reciprocal()
    >>> abs(third.middle[0] * 3 - (1 << 40)) <= 3 * third.error, third.error < 8
    (True, True)
    """

    __slots__ = ("error", "middle", "places")

    def __init__(self, middle: Any, error: int, places: int) -> None:
        # numbers that stand alone are arrays, too: numpy would make them plain integers
        self.middle: NDArray[Any] = np.asarray(middle, dtype=object)
        self.error, self.places = error, places

    @classmethod
    def of(cls, integers: Any, places: int) -> Fixed:
        """Integers themselves."""
        return cls(np.array(integers, dtype=object) << places, 0, places)

    @classmethod
    def between(cls, low: list[int], high: list[int], shift: int, places: int) -> Fixed:
        """Reals x with low <= x * 2**shift <= high, ``shift`` at most ``places``."""
        up = places - shift
        middle = [(a + b) << up >> 1 for a, b in zip(low, high, strict=True)]
        widest = max((b - a for a, b in zip(low, high, strict=True)), default=0)
        return cls(np.array(middle, dtype=object), (widest << up >> 1) + 2, places)

    def _like(self, middle: Any, error: int) -> Fixed:
        return Fixed(middle, error, self.places)

    def _largest(self) -> int:
        return int(np.abs(self.middle.ravel()).max(initial=0))

    def rounded(self, places: int) -> Fixed:
        """The same reals with another number of places."""
        less = self.places - places
        if less <= 0:
            return Fixed(self.middle << -less, self.error << -less, places)
        return Fixed(self.middle >> less, (self.error >> less) + 2, places)

    def __getitem__(self, at: Any) -> Fixed:
        return self._like(self.middle[at], self.error)

    @property
    def transposed(self) -> Fixed:
        return self._like(self.middle.T, self.error)

    def __add__(self, other: Fixed) -> Fixed:
        return self._like(self.middle + other.middle, self.error + other.error)

    def __sub__(self, other: Fixed) -> Fixed:
        return self._like(self.middle - other.middle, self.error + other.error)

    def __mul__(self, other: Fixed) -> Fixed:
        return self._like(self.middle * other.middle >> self.places, self.spread(other, 1))

    def __matmul__(self, other: Fixed) -> Fixed:
        inner = self.middle.shape[-1]
        return self._like(self.middle @ other.middle >> self.places, self.spread(other, inner))

    def spread(self, other: Fixed, terms: int) -> int:
        """|xy - x'y'| <= |x'| e + |y'| d + d e for each of the terms, and a shift loses one."""
        each = self._largest() * other.error + other._largest() * self.error
        return (terms * (each + self.error * other.error) >> self.places) + 2

    def sum(self) -> Fixed:
        """Of all entries."""
        return self._like(int(self.middle.sum()), self.error * max(1, self.middle.size))

    def reciprocal(self) -> Fixed:
        """1 / x for positive x."""
        least = min(int(x) for x in self.middle.flat) - self.error
        if least <= 0:
            raise UnsettledError
        one = 1 << 2 * self.places
        # |1/x - 1/x'| <= |x - x'| / (x x'), both at least `least`
        return self._like(one // self.middle, (self.error << 2 * self.places) // least**2 + 2)

    def root(self) -> Fixed:
        """Square roots of positive x."""
        least = min(int(x) for x in self.middle.flat) - self.error
        if least <= 0:
            raise UnsettledError
        flat = [math.isqrt(int(x) << self.places) for x in self.middle.flat]
        # |sqrt(x) - sqrt(x')| <= |x - x'| / (sqrt(x) + sqrt(x'))
        lost = (self.error << self.places) // (2 * math.isqrt(least << self.places)) + 2
        return self._like(np.array(flat, dtype=object).reshape(self.middle.shape), lost)


def joined(parts: list[Fixed], places: int) -> Fixed:
    """Several arrays of one dimension, end to end."""
    middle = [int(x) for part in parts for x in part.middle.flat]
    return Fixed(
        np.array(middle, dtype=object), max((part.error for part in parts), default=0), places
    )


def pivots(A: Fixed) -> list[Fixed]:
    """Pivots of the elimination of a positive definite matrix: their product is its determinant."""
    found = []
    while len(A.middle):
        first, rest = A[0, 0], A[1:, 0]
        found.append(first)
        if len(rest.middle):
            side = rest * first.reciprocal()
            A = A[1:, 1:] - (side[:, None] @ rest[None, :])
        else:
            break
    if any(int(d.middle) <= d.error for d in found):
        raise UnsettledError
    return found
