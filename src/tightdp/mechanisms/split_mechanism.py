"""Noise in parts: every part of a statistic gets its own, and its share of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.data.one_pass import IntegerSum
from tightdp.data.public_rows import Images
from tightdp.data.regression_moments import MOST_MATRIX, variances_of
from tightdp.data.statistics import Statistic
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import Draft, Known
from tightdp.errors import (
    FloatArray,
    check_confidence,
    check_length,
    fail,
)
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.shaping.coverage import certify_moves
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.reach import upwards

if TYPE_CHECKING:
    pass


class SplitMechanism(Mechanism):
    r"""Releases :math:`t(X) + (z_1, ..., z_k)`: every part of a statistic with its own noise.

    Density of :math:`z_i`: :math:`P(z_i) \propto \exp(-\epsilon_i\,\mathrm{level}_i(z_i)/L_i)` on
    the lattice, :math:`\epsilon_i = s_i \epsilon` with shares :math:`s_i` that sum to at most 1; or
    the integers nearest to nuclear noise (:class:`~tightdp.NuclearNoise`).

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] the ball of a part contains the changes of its entries by one row;
    [P2] t(X) is the exact integer vector of quantised rows; [P3] the noises are independent and
    have their stated laws; [P4] the shares sum to at most 1, in rational arithmetic.
    Proof: 1. A part plus its noise is :math:`\epsilon_i`-DP, as for
    :class:`~tightdp.AdditiveMechanism` or :class:`~tightdp.NuclearNoise` [P1, P2, P3]; the r rows
    of a person move it by r times what one row does, and :math:`L_i` is that. 2. Independent
    releases about the same rows add up: :math:`\sum_i s_i \epsilon \le \epsilon` [P3, P4].
    Numerics: ``exact``.
    Order of events: parameters are checked, the ledger is charged once, the noise is drawn, and
    only then are rows read.

    A split is itself a K-norm mechanism, whose norm is the weighted sum of the norms of the parts.
    Its ball is larger than the hull, but the noise can be put where it harms least: in a regression
    the noise of the features' own moments is multiplied by the coefficients, which are small.

    Parameters
    ----------
    statistic : Statistic
        Its entries are those of the parts, in order.
    parts : sequence of Part
    epsilon : float, Fraction or Decimal
    """

    def __init__(self, statistic: Statistic, parts: Sequence[Part], *, epsilon: Number) -> None:
        self.statistic, self.parts = statistic, tuple(parts)
        self.epsilon, self.neighbors = check_epsilon(epsilon), statistic.schema.neighbors
        check_length("parts", sum(part.dim for part in self.parts), len(statistic))
        if any(part.share <= 0 for part in self.parts) or sum(p.share for p in self.parts) > 1:
            fail("The shares of the parts must be positive and sum to at most 1.")  # [P4]
        self.bits = statistic.schema.bits
        self.persons = statistic.schema.rows_per_person
        spent = (self.epsilon, self.resolution, self.persons)
        self.noises = [part.noise(*spent) for part in self.parts]
        for noise in self.noises:
            noise.check_feasible()
        self.certified = certify_moves(statistic, self).certified  # [P1]

    @property
    def cost(self) -> Cost:
        """The costs of the parts, of which each is pure, add."""
        parts = Cost.total([Cost.of(self.epsilon * part.share) for part in self.parts])
        return replace(parts, epsilon=self.epsilon)

    # --- which moves it covers ----------------------------------------------------------------

    factor = 1

    def _where(self) -> list[slice]:
        """The entries of every part."""
        edges = list(accumulate((part.dim for part in self.parts), initial=0))
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the level of every part is at most that which its noise was made for."""
        parts = zip(self.noises, self._where(), strict=True)
        rows = self.statistic.schema.rows_per_person
        person = moves if rows == 1 else rows * moves.astype(object)
        return np.all([n.covers(person[:, where]) for n, where in parts], axis=0)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return False  # squares are among the entries: their extreme rows are too many to list

    def covers_by_structure(self) -> bool:
        """The balls of the parts hold the changes of their entries by the proofs that made them."""
        return True

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self.statistic.resolution(self.bits)

    @property
    def law(self) -> str:
        """The exact law of the noise, in words."""
        words = [part.law(noise) for part, noise in zip(self.parts, self.noises, strict=True)]
        return f"integers z by parts, {'; '.join(words)}, in units of 1/{self.resolution}"

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled entries; of many the vector of their variances.

        Where bodies have no preferred signs, as boxes and l_p balls, entries are not correlated.
        """
        spent = self.epsilon / self.persons
        alike = all(part.ball.unconditional for part in self.parts)
        if len(self.statistic) > MOST_MATRIX and alike:
            return np.concatenate([part.variances(spent) for part in self.parts])
        out = np.zeros((len(self.statistic), len(self.statistic)))
        for part, where in zip(self.parts, self._where(), strict=True):
            out[where, where] = part.covariance(spent)
        return out

    def half_widths(self, confidence: float) -> FloatArray:
        """Simultaneous half-widths: all entries of all parts are within them at once."""
        each = 1 - (1 - confidence) / len(self.parts)
        halves = []
        for part, noise in zip(self.parts, self.noises, strict=True):
            halves.append(part.half_widths(noise, self.resolution, each, self.persons))
        return upwards(np.concatenate(halves)) + self.statistic.rounding(self.bits)

    def preview(self, confidence: float = 0.95) -> Preview:
        """The errors of the scaled entries, from the law of the noise; costs nothing."""
        level, std = check_confidence(confidence), np.sqrt(variances_of(self.covariance))
        said = (level, self.guarantee(), self.law)
        return Preview(self.statistic.names, std, self.half_widths(level), *said)

    def simulate(self, size: int, *, rng: RandomLike = None) -> FloatArray:
        """Noise of the same law on the scaled entries, shape (size, entries), for simulations."""
        bits = source(rng)
        drawn = [part.simulate(self.epsilon / self.persons, size, bits) for part in self.parts]
        return np.hstack(drawn)

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def shape_facts(self) -> list[str]:
        return [part.facts(n) for part, n in zip(self.parts, self.noises, strict=True)]

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.statistic.schema, self.statistic.columns)
        check_public_rows(frame, self.statistic.schema)

    def integer_sums(self) -> Sequence[IntegerSum]:
        return [self.statistic.integer_sum(self.bits)]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        # before the data are read: its timing tells nothing
        noise = [int(z) for part in self.noises for z in part.sample(rng=rng)]  # [P3]
        covariance, half = self.covariance, self.half_widths(confidence)

        def finish(table: TableLike, progress: bool) -> Draft:
            exact = self.statistic.measure(table, bits=self.bits, progress=progress)  # [P2]
            noisy = tuple(int(t) + z for t, z in zip(exact, noise, strict=True))
            value = [z / self.resolution for z in noisy]
            error = Known(covariance=covariance, half_width=half)
            return Draft.of(self.statistic.names, value, noisy, self.resolution, error)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)
