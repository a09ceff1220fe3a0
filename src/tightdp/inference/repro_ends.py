"""The ends of an interval: the furthest values of one parameter at which a release is likely."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.repro_points import Points, rank

_GRID = {0: 1, 1: 15, 2: 9}  # values of each nuisance parameter, by how many there are
MOST_NUISANCE = max(_GRID)
_FAR = 4.0  # standard errors of nuisance parameters that are tried
_BESIDE = 1.5  # the same, where only the likely ones are
_ROUNDS = 40
_CLOSE = 0.005  # of the width: how well an end is found
_FINE = 1e-7  # of the bounds: how well where one entry grows with one parameter
_OVERVIEW = 128  # points between the bounds that are looked at first


def increasing_ends(points: Points, alpha: float) -> tuple[float, float]:
    """The interval where the only entry grows with the only parameter, for any random numbers.

    Ranks are then monotone, and both ends are found by halving, on the outer side: nothing is left
    out.
    """
    j = int(points.free[0])
    low, high = float(points.low[j]), float(points.high[j])

    def above(value: float, sign: int) -> bool:
        theta = points.low.copy()
        theta[j] = value
        drawn, own = points.tested.at(theta)[:, 0], float(points.released[0])
        return rank(sign * drawn, sign * own) > alpha / 2

    def last(kept: float, lost: float, sign: int) -> float:
        if above(lost, sign):
            return lost
        if not above(kept, sign):
            return kept  # nothing is likely: the end of the bounds that is nearest
        while abs(lost - kept) > _FINE * (high - low):
            middle = (kept + lost) / 2
            kept, lost = (middle, lost) if above(middle, sign) else (kept, middle)
        return lost

    # small values make the release too large, large ones too small
    return last(high, low, 1), last(low, high, -1)


@dataclass(slots=True)
class EndSearch:
    """A search for the ends of one parameter, and what was tried.

    ``thorough`` tries values of the other parameters wherever they are likely, on a grid; else the
    most likely ones, and some beside them. ``best`` is the estimate.
    """

    points: Points
    place: int  # among free parameters
    alpha: float
    thorough: bool
    best: FloatArray
    on_look: Callable[[int], object]
    looks: int = 0
    kept: list[FloatArray] = field(default_factory=list)

    def ends(self, std: float) -> tuple[float, float]:
        """The interval; NaN where no point is kept."""
        j, best = int(self.points.free[self.place]), self.best
        self.keeps(best)
        if self.thorough:
            for theta in overview(self.points, _OVERVIEW):
                self.keeps(theta)
        if not self.kept:
            near = self.likely(best)
            if near is None:
                return float("nan"), float("nan")
        first = min(self.kept, key=lambda theta: theta[j])
        last = max(self.kept, key=lambda theta: theta[j])
        return self._end(first, -std), self._end(last, std)

    def _end(self, kept: FloatArray, step: float) -> float:
        """From a point that is kept outwards, until nothing is; then by halving."""
        j = int(self.points.free[self.place])
        bound = float(self.points.high[j] if step > 0 else self.points.low[j])
        start = float(kept[j])
        lost = bound
        for _ in range(_ROUNDS):
            if kept[j] == bound:
                return bound
            value = float(np.clip(kept[j] + step, *sorted((kept[j], bound))))
            found = self.likely(self.moved(kept, value))
            if found is None:
                lost = value
                break
            kept, step = found, 1.5 * step
        while abs(lost - kept[j]) > _CLOSE * max(abs(lost - start), 1e-300):
            middle = (lost + float(kept[j])) / 2
            if middle in (lost, float(kept[j])):
                break
            found = self.likely(self.moved(kept, middle))
            if found is None:
                lost = middle
            else:
                kept = found
        return lost

    def moved(self, theta: FloatArray, value: float) -> FloatArray:
        """The parameter at a value, and the others as they go with it, to first order."""
        points, j = self.points, int(self.points.free[self.place])
        spread = np.linalg.pinv(points.pilot_at(theta).information(), hermitian=True)
        own = max(float(spread[self.place, self.place]), 1e-300)
        out = theta.copy()
        out[points.free] += (value - theta[j]) * spread[self.place] / own
        out = points.into_bounds(out)
        out[j] = value
        return out

    def likely(self, theta: FloatArray) -> FloatArray | None:
        """A point that is kept and has this value of the parameter, or None."""
        points = self.points
        if len(points.free) == 1:
            return theta if self.keeps(theta) else None
        plain = self.best.copy()
        plain[int(points.free[self.place])] = theta[int(points.free[self.place])]
        centre = points.estimate([theta, plain], held=self.place)
        if self.keeps(centre):
            return centre
        for tried in self._around(centre):
            if self.keeps(tried):
                return tried
        return None

    def _around(self, centre: FloatArray) -> Iterator[FloatArray]:
        """Values of the other parameters near the likely ones, those nearby first."""
        points = self.points
        others = np.delete(points.free, self.place)
        known = points.pilot_at(centre).information()
        for axis in (0, 1):
            known = np.delete(known, self.place, axis)
        values, vectors = np.linalg.eigh(known)
        root = vectors / np.sqrt(np.maximum(values, 1e-300))
        width = points.high[others] - points.low[others]
        size = np.abs(root).max(axis=0)
        root = root * np.minimum(1.0, width[np.abs(root).argmax(axis=0)] / _FAR / size)
        if self.thorough:
            line = np.linspace(-_FAR, _FAR, _GRID[len(others)])
            steps = np.array(list(product(line, repeat=len(others))))
            steps = steps[np.argsort((steps**2).sum(axis=1), kind="stable")]
        else:
            steps = _BESIDE * np.vstack([np.eye(len(others)), -np.eye(len(others))])
        for step in steps:
            if step.any():
                tried = centre.copy()
                tried[others] += root @ step
                yield points.into_bounds(tried)

    def keeps(self, theta: FloatArray) -> bool:
        self.looks += 1
        self.on_look(1)
        found = self.points.keeps(theta, self.place, self.alpha)
        if found:
            self.kept.append(theta)
        return found


def overview(points: Points, count: int) -> Iterator[FloatArray]:
    """Points that lie evenly between the bounds; those of positive parameters on a log scale."""
    free = points.free
    # the generalised golden ratio: a sequence of points that fills a cube evenly (Roberts, 2018)
    ratio = 2.0
    for _ in range(30):
        ratio = (1 + ratio) ** (1 / (len(free) + 1))
    strides = ratio ** -np.arange(1, len(free) + 1)
    low, high = points.low[free], points.high[free]
    logarithmic = points.logarithmic[free]
    for k in range(count):
        share = (0.5 + strides * (k + 1)) % 1
        theta = points.low.copy()
        even = low + share * (high - low)
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = low * (high / np.where(low > 0, low, 1.0)) ** share
        theta[free] = np.where(logarithmic, steep, even)
        yield points.into_bounds(theta)
