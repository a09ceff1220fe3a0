"""The noises of several mechanisms from the same uniforms: common random numbers for benchmarks.

A noise is the quantile function of its law at a uniform, so two mechanisms that are given the same
uniforms differ by their laws and not by luck. Each noise keeps its own law up to the rounding of
floats, which is fine in a benchmark and would not be in a release. Half of the draws use the
uniforms 1 - u of the other half: what is odd in the noise cancels.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import stats

from tightdp.mechanisms.counts import ClassMechanism
from tightdp.noise.range_noise import RangeNoise
from tightdp.randomness import source
from tightdp.shaping.class_noise import BodyNoise
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise
from tightdp.shaping.step_noise import GaussianSteps, RangeSteps, StepNoise

_BITS = 52


def uniforms(draws: int, entries: int, seed: list[int]) -> Any:
    """Uniforms strictly inside (0, 1), shape (draws, entries); odd rows mirror the even ones."""
    whole = np.random.default_rng(seed).integers(0, 1 << _BITS, ((draws + 1) // 2, entries))
    u = (whole + 0.5) / (1 << _BITS)
    return np.stack([u, 1 - u], axis=1).reshape(-1, entries)[:draws]


def class_noise(mechanism: ClassMechanism, u: Any, seed: int) -> Any:
    """Noise on the scaled entries of naive Bayes, shape of ``u``; a body has draws of its own."""
    choice: Any = mechanism.noise
    if isinstance(choice, BodyNoise):
        drawn = choice.noise.sample(len(u) * choice.classes, rng=source(seed))
        return drawn.reshape(len(u), -1).astype(np.float64) / mechanism.resolution
    if isinstance(choice, GaussianClassNoise):
        return stats.norm.ppf(u) * float(choice.noise.sigma)
    each = u.reshape(len(u), choice.classes, -1)
    count, other = choice.laws
    found = [count.quantile(each[:, :, :1]), other.quantile(each[:, :, 1:])]
    return np.concatenate(found, axis=2).reshape(u.shape) / mechanism.resolution


class CoupledSteps(StepNoise):
    """The noise of the steps of a mechanism at given uniforms, one row of them for each descent."""

    def __init__(self, noise: StepNoise, u: Any) -> None:
        self.factor, self._noise, self._drawn = noise.factor, noise, iter([()])
        if isinstance(noise, RangeSteps):
            self._rows = u.tolist()
        elif isinstance(noise, GaussianSteps):
            self._rows = (stats.norm.ppf(u) * float(noise.noise.sigma)).tolist()
        else:
            unit = noise.factor << 20
            self._rows = (np.asarray(noise.law(unit).quantile(u)) / unit).tolist()  # type: ignore[attr-defined]

    def descents(self) -> Iterator[int]:
        """For every row of uniforms: get ready for a descent."""
        for number, row in enumerate(self._rows):
            self._drawn = iter(row)
            yield number

    @property
    def words(self) -> str:
        return f"{self._noise.words}, coupled"

    def variance(self) -> float:
        return self._noise.variance()

    def prepare(self, moved: int, rng: Any) -> Any:
        drawn = next(self._drawn)
        if isinstance(self._noise, RangeSteps):
            return self._in_range(self._noise.law(moved), drawn)
        noise = round(drawn * moved)
        return lambda query: query + noise

    def _in_range(self, law: RangeNoise, u: float) -> Any:
        first = self._noise.low * law.points  # type: ignore[attr-defined]

        def answer(query: int) -> int:
            place = law.clamp(query - first)
            ends = [0, *accumulate(law.tables[law.group(place)])]
            cell = bisect_right(ends, u * law.total) - 1
            inside = (u * law.total - ends[cell]) / (ends[cell + 1] - ends[cell])
            return first + place + math.floor((law.start + cell + inside) * law.points)

        return answer


class NoNoise(StepNoise):
    """The same steps without noise: not private."""

    @property
    def words(self) -> str:
        return "none"

    def variance(self) -> float:
        return 0.0

    def prepare(self, moved: int, rng: Any) -> Any:
        return lambda query: query
