"""Noise for a sequence of one-dimensional queries whose sensitivity is known before each of them.

A budget for all queries buys a law for each; the law is kept in units of the sensitivity and is
put on the lattice of the query at hand.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from tightdp.design.designs import Design
from tightdp.design.range_law import DataDependentDesign
from tightdp.errors import check_choice, exact_amount, fail
from tightdp.noise.gaussian_vectors import GaussianVector
from tightdp.noise.law import LatticeLaw, NoiseLaw
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.range_noise import RangeNoise
from tightdp.randomness import RandomSource
from tightdp.shaping.class_noise import designed_law
from tightdp.shaping.coordinate_noise import (
    FAMILIES,
    LOSSY,
    PURE,
    family_for,
    float_down,
    on_lattice,
)
from tightdp.shaping.shared_costs import check_composed, most_each

NOISES = ("best", *FAMILIES, "gaussian")
Answer = Callable[[int], int]
"""From an exact query to the released integer; its randomness has been drawn."""


class StepNoise(ABC):
    """Noise for ``steps`` queries, (epsilon, delta)-DP together.

    Attributes
    ----------
    factor : int
        Lattice points of the noise for each of the query.
    """

    factor: int = 1

    @property
    def rho(self) -> Fraction | None:
        """What all queries cost together in rho, where that is known; None by default."""
        return None

    @property
    @abstractmethod
    def words(self) -> str:
        """The law in units of the sensitivity, for people."""

    @abstractmethod
    def variance(self) -> float:
        """The largest mean square of one noise, in squared sensitivities."""

    @abstractmethod
    def prepare(self, moved: int, rng: RandomSource) -> Answer:
        """Draw the noise of a query that moves by at most ``moved`` steps of the finer lattice."""


class LawSteps(StepNoise):
    r"""The same one-dimensional law for every query.

    **Privacy.** The law is :math:`(\epsilon_0, \delta_0)`-DP for the sensitivity of its query,
    which is public when the query is chosen; k of them are composed exactly
    (:mod:`~tightdp.shaping.shared_costs`), each chosen after seeing the answers before it.
    """

    def __init__(
        self,
        make: Callable[[int], LatticeLaw],
        words: str,
        factor: int = 1,
        unit: int = 1 << 20,
    ) -> None:
        self._make, self._words, self.factor, self._unit = make, words, factor, unit
        self._laws: dict[int, LatticeLaw] = {}

    def law(self, moved: int) -> LatticeLaw:
        """The noise for a query that moves by at most ``moved`` steps."""
        if moved not in self._laws:
            self._laws[moved] = self._make(moved)
        return self._laws[moved]

    @property
    def words(self) -> str:
        return self._words

    def variance(self) -> float:
        steps = self.factor * self._unit
        return float(self.law(steps).variance()) / float(steps) ** 2

    def prepare(self, moved: int, rng: RandomSource) -> Answer:
        z = int(self.law(moved).sample(1, rng=rng)[0])
        return lambda query: query + z


class GaussianSteps(StepNoise):
    r"""Gaussian noise in proportion to the sensitivity of every query.

    **Privacy.** In units of its own sensitivity every query moves by 1 at most, k of them together
    by :math:`\sqrt k`: :class:`~tightdp.noise.gaussian_vectors.GaussianVector`.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction, steps: int, least: int) -> None:
        self.noise = GaussianVector(
            epsilon=epsilon, delta=delta, square=Fraction(steps), entries=steps
        )
        self.factor = max(1, -(-self.noise.resolution // least))

    @property
    def rho(self) -> Fraction:
        return self.noise.cost.rho

    @property
    def words(self) -> str:
        return f"discrete Gaussian with sigma = {self.noise.sigma} sensitivities"

    def variance(self) -> float:
        return float(self.noise.sigma) ** 2

    def prepare(self, moved: int, rng: RandomSource) -> Answer:
        z = self.noise.sample(1, moved, rng=rng)[0]
        return lambda query: query + z


class RangeSteps(StepNoise):
    r"""Noise that depends on where in a public partition of its range the query lies.

    The range of the design, in units of its sensitivity, is that of the query in units of its own;
    the first and the last interval are made as long as the query needs.

    **Privacy.** :class:`~tightdp.RangeNoise`, whose delta is computed anew for the longer outer
    intervals [P1]; k queries are composed as in :class:`LawSteps`.
    """

    def __init__(self, design: DataDependentDesign, furthest: int) -> None:
        design.verify()
        self.design = design
        # in cells; a query is at most so many sensitivities from 0
        cells, low = design.resolution, design.low / design.sensitivity
        self.more = cells * furthest
        self.low = math.floor(low * cells) - self.more
        self._noises: dict[int, RangeNoise] = {}
        self.delta = self._wide(1).exact_delta()  # [P1]
        if self.delta > design.delta:
            fail(
                "`noise` must be a design whose first and last group of intervals are at least one "
                "sensitivity long: they are made longer here, to hold every possible slope."
            )

    def _wide(self, points: int) -> RangeNoise:
        given = self.design.noise(points)
        inner = [edge + self.more for edge in given.edges[1:-1]]
        return RangeNoise(
            given.tables,
            start=given.start,
            edges=[0, *inner, given.edges[-1] + 2 * self.more],
            reach=given.reach,
            points=points,
            epsilon=given.epsilon,
        )

    @property
    def words(self) -> str:
        tables = hashlib.sha256(repr(self.design.tables).encode()).hexdigest()[:16]
        return (
            f"{len(self.design.tables)} tables {tables} from cell {self.design.start}, cut at "
            f"cells {list(self.design.edges)} from {self.design.low}, "
            f"{self.design.resolution} cells for each sensitivity of {self.design.sensitivity}"
        )

    def variance(self) -> float:
        return (
            float(self._wide(1 << 20).second_moments().max())
            / float(self.design.resolution << 20) ** 2
        )

    def law(self, moved: int) -> RangeNoise:
        """The noise for a query that moves by at most ``moved`` steps, in integers from 0."""
        points = -(-moved // self.design.resolution)
        if points not in self._noises:
            self._noises[points] = self._wide(points)
        return self._noises[points]

    def prepare(self, moved: int, rng: RandomSource) -> Answer:
        noise = self.law(moved)
        drawn, first = noise.prepare(rng)[0], self.low * noise.points

        def answer(query: int) -> int:
            place = noise.clamp(query - first)
            return first + place + noise.noise(place, drawn)

        return answer


def step_noise(
    noise: object,
    epsilon: Fraction,
    delta: Fraction,
    steps: int,
    *,
    least: int,
    most: int,
    furthest: int,
) -> StepNoise:
    """The noise of each of ``steps`` queries that cost (epsilon, delta) together.

    Parameters
    ----------
    noise : name, NoiseLaw, Design or DataDependentDesign
        A family, for which the budget is divided; "best" is the one of "laplace",
        "truncated-laplace" and "gaussian" with the least variance; or a law of your own, which
        the budget must cover.
    least, most : int
        The smallest and the largest sensitivity of a query, in steps of its lattice.
    furthest : int
        How many sensitivities a query can be away from 0.
    """
    if isinstance(noise, (NoiseLaw, Design, DataDependentDesign)):
        return _own(noise, epsilon, delta, steps, most, furthest)
    name = check_choice("noise", noise, NOISES)
    if name == "best":
        names = ("laplace", "truncated-laplace", "gaussian") if delta else ("laplace",)
        made = [_family(n, epsilon, delta, steps, least) for n in names]
        return min(made, key=lambda one: one.variance())
    return _family(name, epsilon, delta, steps, least)


def _family(name: str, epsilon: Fraction, delta: Fraction, steps: int, least: int) -> StepNoise:
    name, lossy = family_for(name, delta)
    if name == "gaussian":
        return GaussianSteps(epsilon, delta, steps, least)
    each, lost = most_each(epsilon, delta, steps, lossy=lossy)
    spare = float_down(lost)
    if name == "designed":
        return _scaled(designed_law(each, spare, False))
    maker = (LOSSY if lossy else PURE)[name]
    words = f"{name} with epsilon = {each}, delta = {spare!r} for each sensitivity"
    return LawSteps(partial(maker, each, spare), words)


def _scaled(law: NoiseLaw, **options: int) -> LawSteps:
    """A law in units of its own sensitivity, on lattices that its cells fit."""
    factor = law.cells_per_sensitivity() if isinstance(law, PiecewiseNoise) else 1
    return LawSteps(partial(on_lattice, law), repr(law), factor, **options)


def _own(
    noise: NoiseLaw | Design | DataDependentDesign,
    epsilon: Fraction,
    delta: Fraction,
    steps: int,
    most: int,
    furthest: int,
) -> StepNoise:
    """A law of the user, if (epsilon, delta) covers its composition."""
    made: StepNoise
    if isinstance(noise, DataDependentDesign):
        made = RangeSteps(noise, furthest)
        each, lost = noise.epsilon, made.delta
    else:
        law = noise.noise if isinstance(noise, Design) else noise
        made = _scaled(law)
        if isinstance(law, LatticeLaw):  # it cannot be scaled
            on_lattice(law, most)  # refused now, not in the middle of the steps
            made = _scaled(law, unit=most)
        given = law.guarantee()
        each, lost = (exact_amount("noise", x) for x in (given.epsilon, given.delta))
    check_composed((each, lost), steps, (epsilon, delta), "the noise in {} steps")
    return made
