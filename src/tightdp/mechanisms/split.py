"""One statistic in parts, each with exact noise and a share of epsilon of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.data.frames import check_frame, check_public_rows
from tightdp.data.public_rows import Images
from tightdp.data.shared_pass import IntegerSum
from tightdp.data.statistics import Statistic
from tightdp.errors import DimensionError, FloatArray, check_confidence, fail
from tightdp.exact.rates import check_epsilon
from tightdp.geometry import orders
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.preview import Preview
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Draft, Known
from tightdp.shaping.ball_noise import levels_at_most
from tightdp.shaping.gate import certify_moves
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.reach import lattice_radius, upwards

_SMALL = Fraction(1, 256)


class SplitMechanism(Mechanism):
    r"""Releases :math:`t(X) + (z_1, ..., z_k)`: every part of a statistic with its own noise.

    Density of :math:`z_i`: :math:`P(z_i) \propto \exp(-\epsilon_i\,\mathrm{level}_i(z_i)/L_i)` on
    the lattice, :math:`\epsilon_i = s_i \epsilon` with shares :math:`s_i` that sum to at most 1.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] the ball of a part contains the changes of its entries when one row is replaced;
    [P2] t(X) is the exact integer vector of quantised rows; [P3] the noises are independent and
    have their stated laws; [P4] the shares sum to at most 1, in rational arithmetic.
    Proof: 1. a part plus its noise is :math:`\epsilon_i`-DP, as for
    :class:`~tightdp.AdditiveMechanism` [P1, P2, P3]. 2. Independent releases about the same rows
    add up: :math:`\sum_i s_i \epsilon \le \epsilon` [P3, P4].
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
        if sum(part.ball.dim for part in self.parts) != len(statistic):
            fail("`parts` must cover the entries of the statistic.", DimensionError)
        if any(part.share <= 0 for part in self.parts) or sum(p.share for p in self.parts) > 1:
            fail("The shares of the parts must be positive and sum to at most 1.")  # [P4]
        if statistic.schema.rows_per_person > 1:
            fail("A split release protects persons with one row: use rows_per_person=1.")
        self.bits = statistic.schema.bits
        self.noises = [self._lattice(part) for part in self.parts]
        for noise in self.noises:
            noise.check_feasible()
        self.certified = certify_moves(statistic, self).certified  # [P1]

    def _lattice(self, part: Part) -> LatticeNoise:
        return lattice_noise(part.ball, self.epsilon * part.share, resolution=self.resolution)

    # --- which moves it covers ----------------------------------------------------------------

    factor = 1

    def _where(self) -> list[slice]:
        """The entries of every part."""
        edges = list(accumulate((part.ball.dim for part in self.parts), initial=0))
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the level of every part is at most that which its noise was made for."""
        parts = zip(self.noises, self._where(), strict=True)
        return np.all([levels_at_most(n, 1, moves[:, where]) for n, where in parts], axis=0)

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
        words = [
            f"{part.name}: weight exp(-{noise.rate} * level(z)), levels of {noise.body!r}"
            for part, noise in zip(self.parts, self.noises, strict=True)
        ]
        return f"integers z by parts, {'; '.join(words)}, in units of 1/{self.resolution}"

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled entries."""
        out = np.zeros((len(self.statistic), len(self.statistic)))
        for part, where in zip(self.parts, self._where(), strict=True):
            rate = float(self.epsilon * part.share)
            out[where, where] = orders.covariance(part.ball, rate).value
        return out

    def half_widths(self, confidence: float) -> FloatArray:
        """Simultaneous half-widths: all entries of all parts are within them at once."""
        each = 1 - (1 - confidence) / len(self.parts)
        halves = []
        for part, noise in zip(self.parts, self.noises, strict=True):
            radius = lattice_radius(part.ball, noise, self.resolution, each)
            halves.append(radius * part.ball.bounding_box())
        return upwards(np.concatenate(halves)) + self.statistic.rounding(self.bits)

    def preview(self, confidence: float = 0.95) -> Preview:
        """The errors of the scaled entries, from the law of the noise; costs nothing."""
        level, std = check_confidence(confidence), np.sqrt(np.diag(self.covariance))
        said = (level, self.guarantee(), self.law)
        return Preview(self.statistic.names, std, self.half_widths(level), *said)

    def simulate(self, size: int, *, rng: RandomLike = None) -> FloatArray:
        """Noise of the same law on the scaled entries, shape (size, entries), for simulations.

        The lattice of the release is so fine beside the noise that the same law on a coarser one,
        of short integers, serves; at very small epsilon that of a larger epsilon, stretched.
        """
        bits = source(rng)
        parts = []
        for part in self.parts:
            rate, stretch = self.epsilon * part.share, 1
            while rate * stretch < _SMALL:
                stretch *= 2
            body, radius = lattice_body(part.ball)
            quick = min(self.resolution, default_resolution(body.rank, rate * stretch, radius))
            noise = lattice_noise(part.ball, rate * stretch, resolution=quick)
            drawn = noise.sample(size, rng=bits).astype(np.float64)
            parts.append(drawn * stretch / quick)
        return np.hstack(parts)

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def shape_facts(self) -> list[str]:
        return [noise.body.facts() for noise in self.noises]

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
