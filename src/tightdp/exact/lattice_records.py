r"""The body of one record that is added or removed: a count, columns and their squares.

A record contributes :math:`\psi(x) = (1, x_1, T(x_1), ..., x_p, T(x_p))` with x in [-1, 1]^p and
:math:`T(x) = 2x^2 - 1`. Its body is the hull of :math:`\pm\psi`, exactly.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers, check_count
from tightdp.exact.lattice_bodies import TestedBody

_NODES = 96  # of a quadrature of polynomials and their pieces, for stated errors only


class RecordBody(TestedBody):
    r"""K = conv(:math:`\pm\psi`): points :math:`(s, u_1, v_1, ..., u_p, v_p)`, tested in integers.

    **Lemma.** With :math:`a = (l+s)/2`, :math:`b = (l-s)/2`, z lies in l K exactly when
    :math:`|s| \le l`, :math:`|u_j| \le l` and for every j

    .. math:: -l + 2(|u_j|-b)_+^2/a \;\le\; v_j \;\le\; l - 2(|u_j|-a)_+^2/b .

    Proof: (1) Let Q be the hull of the points (x, T(x)); the hull of :math:`\psi` is
    :math:`\{1\} \times Q^p`, because the hull of a product is the product of the hulls. Points of
    conv(P u -P) are a q - b q' with a + b <= 1, so those of l K with first entry s have
    a - b = s, a + b <= l; raising a and b alike adds a multiple of Q - Q, which contains 0, so
    a + b = l without loss. (2) For these a and b the other entries fill
    :math:`(aQ - bQ)^p`. (3) a Q is :math:`2u^2/a - a \le v \le a`, -b Q is
    :math:`-b \le v \le b - 2u^2/b`. Their sum at u reaches up to a + b minus the least
    :math:`2u_2^2/b` with :math:`u = u_1 + u_2`, :math:`|u_1| \le a`: at
    :math:`|u_2| = (|u|-a)_+`; likewise down.

    Multiplied by b and a the inequalities hold between integers. The level is their solution: where
    :math:`w = 2|u| - s` exceeds every one of :math:`|s|, |u|, |v|`, the upper one says
    :math:`l \ge (w^2 - sv)/(2w - s - v)`; the lower one is the upper one of (-s, u, -v).

    Examples
    --------
    >>> body = RecordBody(1)
    >>> body.level(np.array([[16, 8, -8], [16, 16, 16], [0, 16, 16], [0, 32, 0]])).tolist()
    [16, 16, 22, 32]
    """

    def __init__(self, columns: int) -> None:
        self.columns = check_count("columns", columns)
        super().__init__([1] * (2 * self.columns + 1))
        self.safe_entry = 1 << 28

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.columns,)

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return 1 << 28

    def _level(self, z: WideIntegers) -> WideIntegers:
        s = z[:, :1]
        u, v = np.abs(z[:, 1::2]), z[:, 2::2]
        box = np.maximum(np.maximum(np.abs(s), u), np.abs(v))
        out = box
        for side, height in ((s, v), (-s, -v)):
            w = 2 * u - side
            bottom = np.where(w > box, 2 * w - side - height, 1)
            curved = -(-(w * w - side * height) // bottom)
            out = np.maximum(out, np.where(w > box, curved, 0))
        return np.asarray(out.max(axis=1))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        level, s = levels[:, None], z[:, :1]
        u, v = 2 * np.abs(z[:, 1::2]), z[:, 2::2]
        above = np.maximum(u - level - s, 0)
        below = np.maximum(u - level + s, 0)
        fits = (level - s) * (level - v) >= above * above
        fits &= (level + s) * (level + v) >= below * below
        return np.asarray(fits.all(axis=1))

    # --- sizes, in floats ---------------------------------------------------------------------

    @property
    def share(self) -> float:
        """Volume over that of the box: the mean over s of (2/3 + (1 - s^2)/6)^p."""
        return float(self._slices[1].sum())

    @cached_property
    def _slices(self) -> tuple[FloatArray, FloatArray]:
        """Nodes s in [-1, 1] and the volume of K there, as shares of the box."""
        s, weight = _quadrature()
        return s, weight / 2 * (2 / 3 + (1 - s * s) / 6) ** self.columns

    @cached_property
    def second_moment(self) -> FloatArray:
        """E z z' of a uniform point of K, by quadrature; for stated errors."""
        s, weight = self._slices
        weight = weight / weight.sum()
        parts = np.array([_column_moments(float(t)) for t in s])
        u2, v2, v1 = weight @ parts[:, 0], weight @ parts[:, 1], parts[:, 2]
        out = np.diag([weight @ (s * s), *[u2, v2] * self.columns])
        heights = np.arange(2, self.dim, 2)
        out[np.ix_(heights, heights)] = weight @ (v1 * v1)  # independent given s
        out[heights, heights] = v2
        out[0, heights] = out[heights, 0] = weight @ (s * v1)
        return out


@lru_cache(maxsize=1)
def _quadrature() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


@lru_cache(maxsize=128)
def _column_moments(s: float) -> tuple[float, float, float]:
    """E u^2, E v^2 and E v of a uniform (u, v) in the section of K at s, l = 1."""
    a, b = (1 + s) / 2, (1 - s) / 2
    t, weight = _quadrature()
    edges = sorted({0.0, a, b, 1.0})
    u = np.concatenate([(x + y) / 2 + (y - x) / 2 * t for x, y in pairwise(edges)])
    weight = np.concatenate([(y - x) / 2 * weight for x, y in pairwise(edges)])
    top = 1 - 2 * np.maximum(u - a, 0) ** 2 / b
    low = -1 + 2 * np.maximum(u - b, 0) ** 2 / a
    area = weight @ (top - low)
    return (
        float(weight @ (u * u * (top - low)) / area),
        float(weight @ (top**3 - low**3) / 3 / area),
        float(weight @ (top**2 - low**2) / 2 / area),
    )
