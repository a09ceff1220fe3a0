"""How the mass of cells is spread along one axis: flat, linear between centres, or on levels.

A density over several axes is a mixture: each part has a mass, and a law on every axis. Parts of an
axis are its bins, the nodes of a linear interpolation, or the levels of a category.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.randomness import RandomSource

Places = NDArray[np.int64]


class AxisLaw(ABC):
    """The laws of the parts of one axis."""

    @abstractmethod
    def masses(self, shares: FloatArray, axis: int) -> FloatArray:
        """Masses of the parts from shares of the cells; the sum may have to be mended."""

    @abstractmethod
    def density(self, x: FloatArray) -> FloatArray:
        """The density of every part at every x: shape (n, parts)."""

    @abstractmethod
    def cdf(self, x: FloatArray) -> FloatArray:
        """The distribution function of every part at every x: shape (n, parts)."""

    @abstractmethod
    def draw(self, place: Places, rng: RandomSource) -> NDArray[Any]:
        """A value for each of the parts drawn."""


class Flat(AxisLaw):
    """Constant within every bin.

    >>> Flat(np.array([0.0, 1.0, 3.0])).density(np.array([2.0]))
    array([[0. , 0.5]])
    """

    def __init__(self, edges: FloatArray) -> None:
        self.edges, self.width = edges, np.diff(edges)

    def masses(self, shares: FloatArray, axis: int) -> FloatArray:
        return shares

    def density(self, x: FloatArray) -> FloatArray:
        inside = (x >= self.edges[0]) & (x <= self.edges[-1])
        place = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.width) - 1)
        return (
            np.asarray((place[:, None] == np.arange(len(self.width))) / self.width)
            * (inside[:, None])
        )

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.clip((x[:, None] - self.edges[:-1]) / self.width, 0.0, 1.0)

    def draw(self, place: Places, rng: RandomSource) -> FloatArray:
        x = self.edges[place] + self.width[place] * rng.uniform(len(place))
        return np.asarray(np.clip(x, self.edges[0], self.edges[-1]))


class Linear(AxisLaw):
    r"""Linear between the centres of bins, and on to the bounds.

    The nodes are the centres and the two bounds. The height at a bound continues the line through
    the nearest two centres, kept between 0 and twice the nearest. A node with height v carries the
    tent function of its place, so the density is a mixture of triangles.

    >>> law = Linear(np.array([0.0, 1.0, 2.0]))
    >>> law.masses(np.array([0.25, 0.75]), 0)  # heights 0, 1/4, 3/4, 1
    array([0.    , 0.1875, 0.5625, 0.25  ])
    """

    def __init__(self, edges: FloatArray) -> None:
        self.width = np.diff(edges)
        centres = (edges[:-1] + edges[1:]) / 2
        self.nodes = np.concatenate([edges[:1], centres, edges[-1:]])
        gaps = np.diff(self.nodes)
        self.left, self.right = np.append(0.0, gaps), np.append(gaps, 0.0)
        self.area = (self.left + self.right) / 2

    def masses(self, shares: FloatArray, axis: int) -> FloatArray:
        heights = np.moveaxis(shares, axis, -1) / self.width
        first, last = heights[..., :1], heights[..., -1:]
        low = first + (first - heights[..., 1:2]) * (self.right[0] / self.right[1])
        high = last + (last - heights[..., -2:-1]) * (self.left[-1] / self.left[-2])
        ends = np.clip(low, 0.0, 2 * first), np.clip(high, 0.0, 2 * last)
        whole = np.concatenate([ends[0], heights, ends[1]], axis=-1)
        return np.moveaxis(whole * self.area, -1, axis)

    def _beside(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far x has come on the rising and on the falling side of every tent."""
        rising = np.clip(x[:, None] - (self.nodes - self.left), 0.0, self.left)
        return rising, np.clip(x[:, None] - self.nodes, 0.0, self.right)

    def density(self, x: FloatArray) -> FloatArray:
        inside = (x >= self.nodes[0]) & (x <= self.nodes[-1])
        rising, falling = self._beside(x)
        up = np.divide(rising, self.left, out=np.ones_like(rising), where=self.left > 0)
        down = np.divide(falling, self.right, out=np.zeros_like(falling), where=self.right > 0)
        return np.asarray((up - down) * inside[:, None] / self.area)

    def cdf(self, x: FloatArray) -> FloatArray:
        rising, falling = self._beside(x)
        up = np.divide(rising**2, 2 * self.left, out=np.zeros_like(rising), where=self.left > 0)
        down = np.divide(
            falling**2, 2 * self.right, out=np.zeros_like(falling), where=self.right > 0
        )
        return np.asarray((up + falling - down) / self.area)

    def draw(self, place: Places, rng: RandomSource) -> FloatArray:
        left, right = self.left[place], self.right[place]
        root = np.sqrt(rng.uniform(len(place)))
        rises = rng.uniform(len(place)) * (left + right) < left
        x = self.nodes[place] + np.where(rises, (root - 1) * left, (1 - root) * right)
        return np.asarray(np.clip(x, self.nodes[0], self.nodes[-1]))


class Levels(AxisLaw):
    """The levels of a category; points are their codes.

    >>> Levels(["a", "b"]).density(np.array([1.0]))
    array([[0., 1.]])
    """

    def __init__(self, levels: Sequence[Any]) -> None:
        self.levels = np.empty(len(levels), dtype=object)
        self.levels[:] = list(levels)

    def masses(self, shares: FloatArray, axis: int) -> FloatArray:
        return shares

    def density(self, x: FloatArray) -> FloatArray:
        return np.asarray(x[:, None] == np.arange(len(self.levels)), dtype=np.float64)

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(x[:, None] >= np.arange(len(self.levels)), dtype=np.float64)

    def draw(self, place: Places, rng: RandomSource) -> NDArray[Any]:
        return np.asarray(self.levels[place])
