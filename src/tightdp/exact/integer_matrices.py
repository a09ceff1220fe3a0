"""Square matrices of integers: exact inverses, and the lattice point nearest to a solution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Vector = list[int]
Matrix = list[list[int]]

_ROUNDING = 2.0**-48  # per entry of a product of matrices, with room for all roundings
_CERTAIN = 2.0**-20  # a float inverse that is worse than this is not used


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    """The sum of products.

    >>> dot([1, 2], [3, 4])
    11
    """
    return sum(a * b for a, b in zip(left, right, strict=True))


def adjugate(matrix: Matrix) -> tuple[Matrix, int]:
    """The adjugate and the determinant, made positive together, by fraction-free elimination.

    For a singular matrix the determinant is 0 and the adjugate is not made.
    """
    dim = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(dim))] for i, row in enumerate(matrix)]
    last, sign = 1, 1
    for k in range(dim):
        pivot = next((i for i in range(k, dim) if rows[i][k]), None)
        if pivot is None:
            return [], 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        head = rows[k]
        lead = head[k]
        for i in range(dim):
            if i != k:
                row, factor = rows[i], rows[i][k]
                rows[i] = [(lead * a - factor * b) // last for a, b in zip(row, head, strict=True)]
        last = lead
    # now the left half is last * I, last = sign * det, and the right half last * inverse
    turn = 1 if last > 0 else -1
    return [[turn * v for v in row[dim:]] for row in rows], turn * last


class CubeRounder:
    r"""The lattice point in whose half-open cube :math:`A^{-1} w` lies, exactly.

    A float inverse F guesses z, and integers give the rest :math:`R = w - Az` without rounding.
    With :math:`E = I - FA`, :math:`A^{-1}R = (I - E)^{-1} F R` differs from :math:`FR` by at most
    :math:`\lVert E\rVert_\infty/(1 - \lVert E\rVert_\infty)` times its largest entry. If FR is that
    far inside the cube, z is proved; else the adjugate, made when it is first needed, decides.
    """

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._exact: tuple[Matrix, int] | None = None
        self._floats = np.array(matrix, dtype=np.float64)
        self._margin = 1.0
        try:
            self._inverse = np.linalg.inv(self._floats)
        except np.linalg.LinAlgError:
            self._inverse = np.zeros_like(self._floats)
        if np.isfinite(self._inverse).all():
            off = np.abs(np.eye(len(matrix)) - self._inverse @ self._floats).sum(axis=1).max()
            size = (np.abs(self._inverse) @ np.abs(self._floats)).sum(axis=1).max()
            error = float(off + size * len(matrix) * _ROUNDING)
            self._margin = error / (1 - error) if error < 1 else 1.0

    @property
    def regular(self) -> bool:
        """Whether the matrix has an inverse."""
        return self._margin < _CERTAIN or self._adjugate()[1] > 0

    def nearest(self, w: Vector) -> Vector:
        """The point z with all entries of A^-1 w - z in [-1/2, 1/2)."""
        if self._margin < _CERTAIN:
            with np.errstate(all="ignore"):
                guess = np.rint(self._inverse @ np.array(w, dtype=np.float64))
            if np.isfinite(guess).all():
                z = [int(v) for v in guess]
                rest = [
                    v - sum(a * b for a, b in zip(row, z, strict=True))
                    for row, v in zip(self._matrix, w, strict=True)
                ]
                place = np.abs(self._inverse @ np.array(rest, dtype=np.float64)).max()
                if place < 0.5 - 2 * self._margin:
                    return z
        adjugate, det = self._adjugate()
        return [
            (2 * sum(a * v for a, v in zip(row, w, strict=True)) + det) // (2 * det)
            for row in adjugate
        ]

    def _adjugate(self) -> tuple[Matrix, int]:
        if self._exact is None:
            self._exact = adjugate(self._matrix)
        return self._exact
