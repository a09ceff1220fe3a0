r"""The body of replacing a record where records may be left out: a count beside its sums.

A record that counts adds :math:`\psi(x) = (1, \phi(x))`; one that is left out adds nothing. Under
replace-one a record may become another one, come, or go.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.lattice_body import BoxBody, TestedBody
from tightdp.exact.lattice_moments import RecordBody

_NODES = 64  # of a quadrature of polynomials, for stated errors only


class OptionalRecordBody(TestedBody):
    r"""Points z, s their first entry, with :math:`\|z\|_K + |s| \le 2l`, K the hull of a record.

    K is the hull of :math:`\pm\psi`: the box for :math:`\psi = (1, x)`, a :class:`RecordBody` with
    squares. **The body is the hull of all moves of a record that may be left out**: of
    :math:`\psi(x) - \psi(x')` and :math:`\pm\psi(x)`.

    Proof: (1) Let P be the hull of 0 and all :math:`\psi(x)`. Records that may be left out add
    points of P, so the hull of their moves is P - P. (2) Points of P are a q with 0 <= a <= 1 and q
    in the hull of :math:`\psi`, whose first entry is 1. So those of P - P are a q - b q' with a and
    b in [0, 1], and s = a - b. (3) The norm of z in K is the least a + b with z = a q - b q'. Then
    :math:`2\max(a, b) = a + b + |s| = \|z\|_K + |s|`, which is at most 2 exactly where both are at
    most 1; the least a + b has the least maximum, because s is given. (4) Multiplied by l.

    For z of integers :math:`\|z\|_K \le 2l - |s|` holds exactly if the level of z in K is at most
    :math:`2l - |s|`, so the level here is half the sum of that level and :math:`|s|`, rounded up.

    Parameters
    ----------
    record : BoxBody or RecordBody
        K: the half-widths of all entries are 1, the first entry is the count.

    Examples
    --------
    >>> body = OptionalRecordBody(BoxBody([1, 1]))
    >>> body.level(np.array([[16, 16], [0, 32], [16, -16], [16, 17], [0, 33]])).tolist()
    [16, 16, 16, 17, 17]
    """

    def __init__(self, record: BoxBody | RecordBody) -> None:
        self.record = record
        super().__init__([1, *[2] * (record.dim - 1)])
        self.key = (record,)
        self.safe_level = min(self.safe_level, record.safe_level // 2)
        self.safe_entry = record.safe_entry // 2

    def __repr__(self) -> str:
        return f"OptionalRecordBody({self.record!r})"

    def _level(self, z: WideIntegers) -> WideIntegers:
        return np.asarray(-(-(self.record.level(z) + np.abs(z[:, 0])) // 2))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        within = 2 * levels - np.abs(z[:, 0])
        fits = (np.abs(z) <= within[:, None]).all(axis=1)
        return np.asarray(fits & self.record.inside(z, within))

    # --- sizes, in floats ---------------------------------------------------------------------

    @property
    def share(self) -> float:
        """Volume over that of the box."""
        return float(self._slices[2].sum())

    @cached_property
    def _slices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Nodes s in [0, 1], the level 2 - s of K there, and volumes as shares of the box."""
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        s, others = (nodes + 1) / 2, self.dim - 1
        wide = 2 - s
        inner = np.ones_like(s)
        if isinstance(self.record, RecordBody):
            inner = self.record.section_share(s / wide)
        return s, wide, weights / 2 * (wide / 2) ** others * inner

    @cached_property
    def second_moment(self) -> FloatArray:
        """E z z' of a uniform point of the body, by quadrature; for stated errors."""
        s, wide, weight = self._slices
        weight = weight / weight.sum()
        if isinstance(self.record, BoxBody):
            return np.diag([weight @ (s * s), *[weight @ (wide * wide) / 3] * (self.dim - 1)])
        # the section at s is that of K at s / w, w times as large: its first entry is s
        found = [
            w * w * self.record.section_moment(float(s / w)) for s, w in zip(s, wide, strict=True)
        ]
        return np.asarray(np.tensordot(weight, np.array(found), axes=1))
