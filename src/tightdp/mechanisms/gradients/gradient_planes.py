"""What K-norm gradient mechanisms for regression share: a lattice of planes, paid for and named."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.errors import (
    FloatArray,
    Integers,
    check_choice,
    check_probability,
    exact_amount,
    fail,
    shown,
)
from tightdp.exact.box_sampling import Point
from tightdp.exact.rates import check_epsilon
from tightdp.mechanisms.gradients.gradient_rows import RegressionRows, theta_grid
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.randomness import RandomSource
from tightdp.release import DEPENDS, Draft, Release
from tightdp.schema import Schema

SHAPES = ("l1", "box")


class PlaneGradient(Mechanism):
    """Base: coefficients of scaled columns on the lattice ``2**-grid`` of a bounded set.

    Attributes
    ----------
    rows : RegressionRows
    radius : Fraction
    shape : {"l1", "box"}
    grid : int
    edge : int
        The largest lattice coordinate.
    """

    rows: RegressionRows

    def _set_up(
        self,
        schema: object,
        features: Sequence[str] | None,
        target: str | None,
        *,
        intercept: bool,
        epsilon: Number,
        radius: Number,
        shape: str,
        grid: int | None,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.rows = RegressionRows(schema, features, target, intercept=intercept)
        self.neighbors = self.rows.schema.neighbors
        self.shape = check_choice("shape", shape, SHAPES)
        self.radius = check_radius(radius)
        self.grid = theta_grid(
            grid,
            rows=self.rows.schema.rows,
            epsilon=self.epsilon,
            radius=self.radius,
            dim=self.rows.dim,
            bits=self._cell_bits(),
            most=self._finest(),
        )
        self.edge = math.floor(self.radius * (1 << self.grid))
        if self.edge < 1:
            fail(f"`radius` must be at least one step of the grid, 2**-{self.grid}.")

    def _finest(self) -> int:
        """The finest grid on which a draw can promise to end; any by default."""
        return 62

    def _cell_bits(self) -> int:
        """Bits of the cells that are multiplied with coefficients in 64-bit integers."""
        return self.rows.schema.bits

    # --- the law ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """The rate r of the weights exp(-r * level)."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """The largest change of a level between neighbours."""

    @abstractmethod
    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        """Read the rows and draw a lattice point."""

    @property
    def _reach(self) -> int | None:
        return self.edge if self.shape == "l1" else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released coefficients."""
        return self.rows.names

    def _set(self) -> str:
        norm = "sum of absolute values" if self.shape == "l1" else "absolute values"
        return f"multiples of 2^-{self.grid} with {norm} at most {self.radius}"

    def public_facts(self) -> Schema:
        return self.rows.schema

    def label(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"

    def coefficients(self, point: Sequence[int]) -> FloatArray:
        """A lattice point as coefficients in user units."""
        return self.rows.design.to_user(np.array([z / (1 << self.grid) for z in point]))

    def gradient_radius(self, confidence: float = 0.95) -> float:
        r"""How far the gradient at the release can be from the smallest one, in sensitivities.

        With at least this probability the norm of the gradient at the released point exceeds the
        smallest norm on the lattice by at most this many :math:`\Delta`: of N points those above
        :math:`k_{\min} + t` have together at most :math:`N e^{-rt}` times the weight of the best
        one. Public: it depends on N, epsilon and the confidence alone.
        """
        level = check_probability("confidence", confidence)
        points = self.rows.dim * math.log(2 * self.edge + 1)
        bound = (points - math.log1p(-level)) / float(self.rate) / float(self.sensitivity)
        return bound * (1 + 1e-12)

    # --- the release --------------------------------------------------------------------------

    def check(self, frame: TableLike) -> None:
        self.rows.check(frame)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        drawn = self._draw(frame, rng, progress)
        return Draft.of(self.names, self.coefficients(drawn), drawn, 1 << self.grid, DEPENDS)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The coefficients: no interval comes with them."""
        self._level(release, confidence)
        return replace(Answer.of(release), about=NO_INTERVAL)

    def _read(self, frame: TableLike, progress: bool) -> tuple[Integers, Integers]:
        return self.rows.read(frame, progress=progress)


def check_radius(radius: Number) -> Fraction:
    """A public bound on coefficients of scaled columns."""
    if radius is None:
        fail(
            "`radius` must be given: without a bound on the coefficients the density of the "
            "K-norm gradient mechanism has no normaliser."
        )
    number = exact_amount("radius", radius)
    if not 0 < number <= 1024:
        fail(f"`radius` must lie in (0, 1024]. Got {shown(radius)}: rescale the columns.")
    return number
