"""Units in which a body is about as wide as it is long, and what rounding does to it.

Entries of a statistic may have very different units: a body may be 1e9 wide along one axis and 1e-6
along another, and still be nothing but a box. Every tolerance of the geometry is therefore applied
in a frame of the body's own. What remains thin there is thin in every choice of units.
"""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray

# Relative error that plain floating-point arithmetic is granted. Where a computation can be off by
# more, the answer is rounded outwards, to the private side.
ROUNDING = 1e-12

# What is thinner than this, relative to its width and in its own units, cannot be told from
# rounding: a body is refused there, never flattened.
FLAT = 1e-12

_SLANT = 1e-3  # axes suffice as a frame unless directions differ by more than this


def column_scales(rows: FloatArray) -> FloatArray:
    """Powers of two of the size of the largest entry of each column (1 for columns of zeros)."""
    top = np.abs(rows).max(axis=0)
    scales: FloatArray = np.ldexp(1.0, np.frexp(np.where(top > 0, top, 1.0))[1] - 1)
    return scales


def frame(rows: FloatArray) -> FloatArray | None:
    """A matrix M for which ``rows @ M`` is of about one size in every direction; None if flat.

    Powers of two along the axes, which are exact, unless the rows are slanted.
    """
    if rows.size == 0:
        return None
    unit = column_scales(rows)
    # the triangle has the same values and directions, and is quick to find for many rows
    _, values, right = np.linalg.svd(np.linalg.qr(rows / unit, mode="r"), full_matrices=False)
    if len(values) < rows.shape[1] or not values[-1] > FLAT * values[0]:
        return None
    if values[-1] > _SLANT * values[0]:
        along_axes: FloatArray = np.diag(1.0 / unit)
        return along_axes
    slanted: FloatArray = right.T * (values[0] / values) / unit[:, None]
    return slanted


def rounding_error(terms: FloatArray) -> float:
    """What rounding can do to inner products whose terms have these absolute values (last axis).

    The products are of size 1, so this is relative. It is near 1e-15 unless large terms cancel.
    """
    return float(4 * terms.shape[-1] * np.finfo(np.float64).eps * terms.sum(axis=-1).max())
