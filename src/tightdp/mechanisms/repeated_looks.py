"""Moments of a regression, and then sums about what they leave: looks at the same rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.accounting import Cost
from tightdp.data.one_pass import IntegerSum, KeptRows
from tightdp.data.residual_sums import STEEPEST, ResidualSums
from tightdp.data.statistics import Statistic
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import FloatArray, fail
from tightdp.inference.moment_solver import NoisyMoments
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.preview import Preview
from tightdp.privacy import EPSILON_FLOOR
from tightdp.randomness import RandomSource
from tightdp.schema import Schema, check_schema
from tightdp.shaping.moment_noise import LENGTH, choose_noise

LARGEST = 10**30
"""A mean product, whose size is at most 1 without noise."""
MOST_KEPT = 1 << 27
"""Cells of rows that are kept in memory between the looks: a gigabyte."""


class RepeatedLooks(Mechanism):
    """Base: a first look at the moments, and more at what public facts and noisy sums make of them.

    Subclasses set the first look and the ``second``, say which others there are (``looks``), and
    what follows from noisy integers (:meth:`_looked`).

    Order of events: parameters are checked, the ledger is charged once, all noises are drawn, and
    only then are rows read, once; they are kept for the later looks, which always take place.
    """

    names: tuple[str, ...]
    first: SplitMechanism
    second: SplitMechanism

    def _look_first(
        self,
        roles: tuple[Schema, Sequence[str], str],
        noise: object,
        epsilon: Fraction,
        asked: str,
    ) -> None:
        """The first look, at the moments; ``asked`` is the parameter that asked for another."""
        schema, features, _ = roles
        self.schema, self.neighbors = check_schema(schema), schema.neighbors
        check_rows(schema, 1 + len(features), asked)
        chosen = choose_noise(*roles, noise, epsilon, square=True)
        self.bodies, self.statistic = chosen.words, chosen.moments
        self.first = SplitMechanism(chosen.moments, chosen.parts, epsilon=epsilon)  # [P1]

    @property
    def looks(self) -> tuple[SplitMechanism, ...]:
        """All of them, in order."""
        return self.first, self.second

    @property
    def points(self) -> int:
        """Of the grid on which public coefficients lie, per unit of a scaled column."""
        assert isinstance(self.second.statistic, ResidualSums)
        return self.second.statistic.points

    @abstractmethod
    def _looked(self, kept: KeptRows, noisy: list[int], others: list[Any]) -> tuple[list[int], int]:
        """All integers of the release, and their resolution.

        From the noisy moments, and the noise of every later look, which is added to its sums.
        """

    @property
    def cost(self) -> Cost:
        """Those of all looks, each of which is pure, add."""
        return Cost.total([look.cost for look in self.looks])

    def shape_facts(self) -> list[str]:
        return [fact for look in self.looks for fact in look.shape_facts()]

    def numbers_released(self) -> int:
        return len(self.names)

    def check(self, frame: TableLike) -> None:
        self.first.check(frame)

    def preview(self, confidence: float = 0.95) -> Preview:
        """None of the sums; :class:`~tightdp.mechanisms.least_squares.LeastSquares` has one."""
        return self._silent(confidence, DEPENDS.reason)

    # --- from the first look to the next ------------------------------------------------------

    def noisy_moments(self, values: FloatArray) -> NoisyMoments:
        """The first look, as mean products."""
        moments, covariance = self.statistic, self.first.covariance
        rows = float(self.schema.rows)
        products = moments.matrices(values / rows)
        return NoisyMoments(moments, products, covariance, rows)

    def _from_integers(self, integers: Sequence[int]) -> NoisyMoments:
        """The same from integers, which may be so large that they would overflow doubles."""
        size = self.first.resolution
        top = LARGEST * size * self.schema.rows
        return self.noisy_moments(np.array([max(-top, min(z, top)) / size for z in integers]))

    def _line(
        self,
        found: NoisyMoments,
        ridge: FloatArray | None = None,
        shift: FloatArray | None = None,
    ) -> list[int]:
        """Intercept and slopes on the grid."""
        line = found.line(length=LENGTH, ridge=ridge, shift=shift)
        scaled = np.clip(line, -STEEPEST, STEEPEST)
        return [round(float(b) * self.points) for b in np.nan_to_num(scaled)]

    # --- the release --------------------------------------------------------------------------

    def _sums(self, statistic: Statistic) -> IntegerSum:
        return statistic.integer_sum(self.first.bits)

    def _with_noise(self, kept: KeptRows, statistic: Statistic, noise: Sequence[int]) -> list[int]:
        exact = kept.sum(self._sums(statistic))
        return [int(t) + z for t, z in zip(exact, noise, strict=True)]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        first, *others = self._noises(rng)  # before the data are read: its timing tells nothing

        def finish(table: TableLike, progress: bool) -> Draft:
            # one reading: no source can fail, or be another, between the looks
            sums = [self._sums(look.statistic) for look in self.looks]
            kept = KeptRows(table, sums, progress=progress)
            noisy = self._with_noise(kept, self.statistic, first)
            integers, size = self._looked(kept, noisy, others)
            return Draft.of(self.names, [z / size for z in integers], integers, size, DEPENDS)

        return finish

    def _noises(self, rng: RandomSource) -> list[Any]:
        """The noise of every look."""
        return [
            [int(z) for part in look.noises for z in part.sample(rng=rng)] for look in self.looks
        ]

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)


def single_rows(schema: Schema) -> bool:
    """Whether rows are of a public number, one of each person: later looks are made for these."""
    return schema.rows_known and schema.rows_per_person == 1 and not schema.persons_alike


def check_shared(*spent: Fraction) -> None:
    """Refuse a share of which some look gets next to nothing."""
    if min(spent) < EPSILON_FLOOR:
        fail(
            "`interval_share` must leave every look 2**-40 of epsilon at least: take one closer to "
            "1/2, or a larger `epsilon`."
        )


def check_rows(schema: Schema, columns: int, asked: str) -> None:
    """Refuse rows that no later look is made for, or too many of them to be kept."""
    if not single_rows(schema):
        fail(
            f"`{asked}` needs a public number of rows, and one row of every person: leave it out, "
            "or state replace-one neighbours and rows_per_person=1, without missing='drop'."
        )
    if schema.rows * columns > MOST_KEPT:
        fail(
            f"`{asked}` keeps the rows in memory, {MOST_KEPT:,} cells at most: leave it out; of so "
            "many rows noise is small beside the sampling error."
        )
