"""Zonotopes: sums of segments, the images of boxes under linear maps."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import DegenerateBodyError, FloatArray, check_array, fail
from tightdp.geometry.norm_balls import NormBall, SecondMoment, Volume, exact_moment
from tightdp.geometry.units import ROUNDING, frame, rounding_error
from tightdp.randomness import RandomSource

_MOST_SUBSETS = 1 << 17


class Zonotope(NormBall):
    r"""The set :math:`\{\sum_i t_i g_i : |t_i| \le 1\}` of a list of generators :math:`g_i`.

    It is the sensitivity hull of an affine statistic of box-shaped rows with more columns than
    entries, and (one segment added to a box) of sums over intervals that are not symmetric, under
    add-remove.

    Everything is exact: every choice of ``dim`` independent generators spans one tile of a tiling
    (Shephard 1974; McMullen 1975), so the volume is :math:`2^m \sum_B |\det g_B|`, and a uniform
    point is a uniform point of a tile drawn in proportion to its volume. Fixed generic heights
    decide at which end of its segment each generator outside the tile sits.

    Examples
    --------
    >>> hexagon = Zonotope([[1, 0], [0, 1], [1, 1]])
    >>> hexagon.volume(), hexagon.support([1.0, 0.0]), hexagon.gauge([2.0, 0.0])
    (12.0, 2.0, 1.0)
    """

    def __init__(self, generators: ArrayLike) -> None:
        rows = check_array("generators", generators, 2)
        rows = rows[np.abs(rows).max(axis=1) > 0]
        units = frame(rows)
        if units is None:
            fail(
                "`generators` do not span the space: the zonotope is flat. "
                "Drop the linearly dependent entries.",
                DegenerateBodyError,
            )
        self.generators, self.dim, self._units = rows, rows.shape[1], units
        if math.comb(len(rows), self.dim) > _MOST_SUBSETS:
            fail(
                f"A zonotope of {len(rows)} generators in {self.dim} dimensions has too many "
                "tiles. Use a box around it (an outer body)."
            )

    @property
    def gauge_slack(self) -> float:
        return self._rounding if self._rounding > ROUNDING else 0.0

    @cached_property
    def _rounding(self) -> float:
        """What rounding of ``a . x`` can do to the gauge: large for thin, slanted zonotopes."""
        return rounding_error(np.abs(self._facets) * np.abs(self.generators).sum(axis=0))

    @cached_property
    def _tiles(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bases (n, m, m), the offsets of their tiles (n, m), and their volumes / 2^m, the
        volumes in the units of the frame."""
        g, m = self.generators @ self._units, self.dim
        subsets = np.array(list(itertools.combinations(range(len(g)), m)))
        bases = g[subsets]
        volumes = np.abs(np.linalg.det(bases))
        keep = volumes > 1e-14 * volumes.max()  # the others are flat
        subsets, bases, volumes = subsets[keep], bases[keep], volumes[keep]
        # Heights at irrational multiples are generic; g_j = w g_B lies above the plane through the
        # lifted g_B iff height_j > w . height_B, and that decides its end of the segment.
        heights = np.modf(np.arange(1, len(g) + 1) * math.sqrt(2.0) + math.pi)[0]
        weights = np.linalg.solve(
            bases.transpose(0, 2, 1), np.broadcast_to(g.T, (len(bases), *g.T.shape))
        )
        lift = heights - np.einsum("nb,nbj->nj", heights[subsets], weights)
        ends = np.where(lift > 0, 1.0, -1.0)
        np.put_along_axis(ends, subsets, 0.0, axis=1)
        return self.generators[subsets], ends @ self.generators, volumes

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        rows = self._facets
        return rows if len(rows) <= most else None

    @cached_property
    def _facets(self) -> FloatArray:
        if self.dim == 1:
            return 1.0 / np.abs(self.generators).sum(axis=0, keepdims=True)
        g, m = self.generators @ self._units, self.dim
        directions = g / np.linalg.norm(g, axis=1, keepdims=True)
        rows: dict[bytes, FloatArray] = {}
        for subset in itertools.combinations(range(len(g)), m - 1):
            _, values, right = np.linalg.svd(directions[list(subset)])
            if values[-1] > 1e-10 * values[0]:
                normal = right[-1] * np.sign(right[-1][np.abs(right[-1]).argmax()])
                name = np.round(normal, 12) + 0.0
                rows[name.tobytes()] = normal / np.abs(g @ normal).sum()
        return np.array(list(rows.values())) @ self._units.T

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.abs(x @ self._facets.T).max(axis=1)

    def _normals(self, x: FloatArray) -> FloatArray:
        values = x @ self._facets.T
        best = np.abs(values).argmax(axis=1)
        sign = np.where(values[np.arange(len(x)), best] >= 0, 1.0, -1.0)
        return self._facets[best] * sign[:, None]

    def _support_points(self, c: FloatArray) -> FloatArray:
        return np.where(c @ self.generators.T >= 0, 1.0, -1.0) @ self.generators

    def _volume(self) -> Volume:
        unit = -float(np.linalg.slogdet(self._units)[1])
        return Volume(self.dim * math.log(2.0) + float(np.log(self._tiles[2].sum())) + unit)

    def _second_moment(self) -> SecondMoment:
        bases, offsets, volumes = self._tiles
        weights = volumes / volumes.sum()
        inner = np.einsum("n,nbi,nbj->ij", weights, bases, bases) / 3.0
        return exact_moment(inner + np.einsum("n,ni,nj->ij", weights, offsets, offsets))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        bases, offsets, volumes = self._tiles
        tile = rng.categorical(volumes, size)
        inside = 2.0 * rng.uniform((size, self.dim)) - 1.0
        return np.einsum("nb,nbi->ni", inside, bases[tile]) + offsets[tile]
