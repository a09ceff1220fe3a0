r"""Noise for many tables at once in the shape of an l2 ball, in residuals that a plan scales."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.table_counts import TableCounts
from tightdp.errors import FloatArray, InfeasibleSamplingError, fail
from tightdp.exact.lattice_bodies import RoundBody
from tightdp.exact.lattice_body import roomy
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomLike, source
from tightdp.shaping.book_noise import BookNoise
from tightdp.shaping.l2_noise import one_entry_reach, round_reach, rounded, rounded_variance
from tightdp.workloads.planner import NoisePlan
from tightdp.workloads.public_tables import NOTHING, PublicTables
from tightdp.workloads.strategies import squares

MOST_DIRECTIONS = 2048
"""Draws of longer vectors take seconds."""
_LEAST_ROOT = 1025  # the smallest multiple of a contrast: to be odd costs at most two of so many
_FINE = 1 << 12  # how often the price of the lattice, kappa, goes into 1


class L2BookNoise(BookNoise):
    r"""Integers near :math:`V \in R^m` with density :math:`\propto e^{-\epsilon|V|/R}`.

    Contrast k of the residual of A is multiplied by an odd integer :math:`n_k`, integers z with
    :math:`P(z) \propto e^{-\eta\lceil|z|\rceil}`, :math:`\eta = \epsilon/(rR)`, are added, and what
    comes out is divided by :math:`n_k` and rounded.

    **Privacy.**
    Statement: the release is epsilon-DP for neighbours that differ in r rows.
    Needs: [P1] the plan has :math:`\sum_A c_A(D)/s_A \le 1` for every set D of columns in which a
    replaced row may differ, by a certified bound (:mod:`tightdp.workloads.replaced_rows`), or for a
    row that is added; :math:`c_A` is the squared length by which the row moves the residual of A;
    [P2] :math:`n_k^2 g_k s_A \le R^2`, :math:`g_k` the squared length of the contrast, compared in
    fractions; [P3] exact draws (:class:`~tightdp.noise.lattice.LatticeNoise`).
    Proof: 1. Contrasts of a residual are orthogonal and span it: if they move by :math:`d_k`, then
    :math:`\sum_k d_k^2/g_k = c_A(D)`. 2. So :math:`\sum_k n_k^2 d_k^2 \le R^2 \sum_A c_A(D)/s_A
    \le R^2` for one row [P1, P2], and r rows move by at most rR, by the triangle inequality. 3. The
    level :math:`\lceil|z|\rceil` is that of the l2 ball, so that z is epsilon-DP noise for moves of
    level rR [P3]. 4. Dividing by :math:`n_k` and rounding is a function of what was released; the
    contrasts being integers and :math:`n_k` odd, it adds round(z/n) to them.

    Parameters
    ----------
    counts : TableCounts
        Contrasts of all residuals of the plan.
    plan : NoisePlan
    epsilon : Fraction
    public : PublicTables
    """

    delta = Fraction(0)
    name = "l2"

    def __init__(
        self,
        counts: TableCounts,
        plan: NoisePlan,
        epsilon: Fraction,
        public: PublicTables = NOTHING,
    ) -> None:
        super().__init__(counts, public)
        if any(part[0] != "contrasts" for part in counts.parts):
            fail("l2 noise is for contrasts of residuals.")
        self.epsilon, self.plan, self.dim = epsilon, plan, len(counts)
        if self.dim > MOST_DIRECTIONS:
            fail(
                f"`noise` 'l2' is for at most {MOST_DIRECTIONS} contrasts. Got {self.dim}: use "
                "'best', or a delta.",
                InfeasibleSamplingError,
            )
        self.lengths = self._lengths()
        longest = math.sqrt(max(self.lengths))
        price = float(epsilon) / self.rows * (1 + math.sqrt(self.dim)) * _FINE
        self.radius = math.ceil(max(_LEAST_ROOT * longest, price)) + 1
        known = {length: _odd_root(self.radius, length) for length in set(self.lengths)}  # [P2]
        self.roots = tuple(known[length] for length in self.lengths)
        self.lattice = LatticeNoise(RoundBody(self.dim), epsilon, self.radius * self.rows)
        self.lattice.check_feasible()
        self._price = float(self.lattice.rate) * (1 + math.sqrt(self.dim)) * (1 + 2.0**-40)

    def _lengths(self) -> list[Fraction]:
        """g_k s_A of every entry."""
        out: list[Fraction] = []
        for _, columns in self.counts.parts:
            spread = Fraction(self.plan.variances[columns])
            out += [int(g) * spread for g in squares(self.counts.work, columns).ravel()]
        return out

    # --- the law --------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        mark = hashlib.sha256(repr(self.roots).encode()).hexdigest()[:8]
        return (
            f"integers z / n rounded, n by entry ({mark}), z with weight "
            f"exp(-{self.lattice.rate} * ceil(|z|)) in the l2 norm, in units of 1"
        )

    def facts(self) -> list[str]:
        """Multiples and radius to the last digit."""
        return [f"radius {self.radius}", *map(str, self.roots)]

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        z = rounded(self.lattice.sample(1 if size is None else size, rng=source(rng)), self.roots)
        return z[0] if size is None else z

    def part_variance(self, place: int) -> FloatArray:
        return self._shaped(place, lambda root: rounded_variance(self.dim, self._rate, root))

    def smooth_variance(self, place: int) -> FloatArray:
        """Of a part, as it is before it is rounded."""
        each = (self.dim + 1) / self._rate**2
        return self._shaped(place, lambda root: each / root**2)

    def _shaped(self, place: int, variance: Callable[[int], float]) -> FloatArray:
        part, roots = self.counts.parts[place], self.roots[self.counts.where[place]]
        known = {root: variance(root) for root in set(roots)}
        return np.array([known[root] for root in roots]).reshape(self.counts.shape(part))

    @property
    def _rate(self) -> float:
        return float(self.lattice.rate)

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        miss = (1 - confidence) / max(1, len(linear)) * math.exp(-self._price)
        return round_reach(linear, self.roots, self._rate, miss)

    def box(self, confidence: float) -> FloatArray:
        roots = np.array(self.roots, dtype=np.float64)
        reach = self.multiple((1 - confidence) / self.dim) * self._size / roots
        return np.floor(reach + self.rounding())

    @property
    def _size(self) -> float:
        """The standard deviation of an entry of V."""
        return math.sqrt(self.dim + 1) / self._rate

    def multiple(self, miss: float) -> float:
        """Of the standard deviation of a sum of entries of V: it is missed with this chance.

        Integers z have at most :math:`e^\\kappa` times the chance of the cube around them
        (:class:`~tightdp.shaping.l2_noise.L2Noise`, step 2).
        """
        return one_entry_reach(self.dim, miss * math.exp(-self._price)) / math.sqrt(self.dim + 1)

    def rounding(self) -> FloatArray:
        """How far entries are at most from those of V / n, which is rounded twice."""
        return (1 + 1 / np.array(self.roots, dtype=np.float64)) / 2

    # --- which moves it covers ------------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        most = math.isqrt((1 << 61) // self.dim) // (max(self.roots) * self.rows)
        wide = roomy(np.asarray(moves), most) if most else np.asarray(moves).astype(object)
        wide = wide * np.array(self.roots, dtype=wide.dtype) * self.rows
        return np.asarray((wide * wide).sum(axis=1) <= self.lattice.sensitivity**2, dtype=bool)

    def covers_by_structure(self) -> bool:
        """The plan was certified for its residuals, and multiples are within the radius [P2]."""
        whole = {part[1] for part in self.counts.parts} <= set(self.plan.variances)
        most = Fraction(self.lattice.sensitivity, self.rows) ** 2
        return whole and all(
            root * root * length <= most
            for root, length in set(zip(self.roots, self.lengths, strict=True))
        )


def _odd_root(radius: int, length: Fraction) -> int:
    """The largest odd n with n^2 length <= radius^2."""
    root = math.isqrt(math.floor(radius * radius / length))
    return root if root % 2 else root - 1
