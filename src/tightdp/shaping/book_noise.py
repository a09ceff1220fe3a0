r"""Noise for many tables at once: shaped like what a row moves, or Gaussian in residuals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accounting import Cost
from tightdp.data.public_rows import Images
from tightdp.data.table_counts import Measured, TableCounts
from tightdp.errors import FloatArray, InfeasibleSamplingError, ParameterError, fail
from tightdp.exact.discrete_draws import discrete_gaussians
from tightdp.exact.farthest import farthest_level
from tightdp.exact.lattice_bodies import DiamondBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody, geometric_variance, roomy
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.noise.gaussian_tails import sure_multiple
from tightdp.noise.gaussian_vectors import GaussianVector
from tightdp.noise.lattice import SILENT, LatticeNoise, refuse
from tightdp.privacy import EPSILON_FLOOR, Neighbors
from tightdp.randomness import RandomLike, source
from tightdp.shaping.reach import level_reach
from tightdp.workloads.planner import NoisePlan
from tightdp.workloads.public_tables import NOTHING, PublicTables
from tightdp.workloads.residuals import Workload, frame_square
from tightdp.workloads.strategies import Strategy, reaches, told

_MOST_SUMMING = 128  # cells of a table whose noise adds up to zero
_MOST_SUMMED = 600  # dimensions up to which variances are summed over the lattice
_ROUNDED = 1 + 2.0**-40  # what sums of some thousand doubles lose, many times over
_WORD = 1 << 62
_COARSE = 16.0  # a variance from which on a discrete Gaussian is a rounded normal law
_LEAST_VARIANCE = 1e-40  # of integers: what huge budgets leave is noise, but no double


class BookNoise(ABC):
    """Integer noise for the entries of a :class:`~tightdp.data.table_counts.TableCounts`."""

    epsilon: Fraction
    delta: Fraction
    factor: int = 1
    name: str
    """As in ``noise=``."""

    def __init__(self, counts: TableCounts, public: PublicTables) -> None:
        self.counts, self.public = counts, public
        self.rows = counts.schema.rows_per_person * public.rows
        self.paired = counts.schema.neighbors is Neighbors.REPLACE_ONE
        self.bits = counts.schema.bits

    @property
    def resolution(self) -> int:
        """Lattice points per count."""
        return self.factor

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon, self.delta)

    @property
    def draws(self) -> BookNoise:
        return self

    @property
    @abstractmethod
    def words(self) -> str:
        """The exact law, for people."""

    @abstractmethod
    def facts(self) -> list[str]:
        """What the law is made of, to the last digit."""

    @abstractmethod
    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """A draw for all entries, in the order of the statistic, or ``size`` rows of them."""

    @abstractmethod
    def part_variance(self, place: int) -> FloatArray:
        """Of a part: one number where its noise is isotropic, or that of each contrast."""

    def flat(self, place: int) -> bool:
        """Whether the noise of a part adds up to zero."""
        return False

    def covariance(self) -> FloatArray:
        """Variances of all entries in counts; entries of different tables are uncorrelated."""
        out = np.empty(len(self.counts))
        for place, (part, where) in enumerate(
            zip(self.counts.parts, self.counts.where, strict=True)
        ):
            variance = self.part_variance(place)
            if self.flat(place):  # isotropic around a sum of zero
                variance = variance * (1 - 1 / (where.stop - where.start))
            out[where] = np.broadcast_to(variance, self.counts.shape(part)).ravel()
        return out

    @abstractmethod
    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of linear images, all at once."""

    @abstractmethod
    def box(self, confidence: float) -> FloatArray:
        """Half-widths of all entries at once."""

    @abstractmethod
    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each move of one row, in steps of the noise's lattice, is covered."""

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        """Whether all moves between combinations of the images are proved to be covered."""
        if len(images) > 1:
            return False
        whole = np.zeros((len(images[0].values), len(self.counts)), dtype=np.int64)
        whole[:, images[0].entries] = np.asarray(images[0].values // self.factor, dtype=np.int64)
        if not paired:
            return bool(self.covers(whole * self.factor).all())
        return all(
            bool(self.covers((whole[i:] - whole[i]) * self.factor).all()) for i in range(len(whole))
        )

    @abstractmethod
    def covers_by_structure(self) -> bool:
        """Whether the shape is proved to hold all moves."""


class ShapedNoise(BookNoise):
    r"""In every group of parts :math:`P(z) \propto \exp(-\epsilon_g\,\mathrm{level}(z)/L)`.

    **Privacy.** The body of a group is the product of those of its parts: of the cells of a table
    the hull of what one row changes there, of contrasts the box of what each can move. A row moves
    every part within its body [P1], so that the level of the move is at most L, r times as much for
    r rows (of a person, or in which neighbours differ that agree in public tables), and the group
    is :math:`\epsilon_g`-DP; groups are independent, and their epsilons add up to epsilon [P2].
    """

    delta = Fraction(0)

    def __init__(
        self,
        counts: TableCounts,
        strategy: Strategy,
        epsilon: Fraction,
        public: PublicTables = NOTHING,
    ) -> None:
        super().__init__(counts, public)
        self.epsilon, self.strategy, self.name = epsilon, strategy, strategy.name
        self.noises: list[LatticeNoise] = []
        self.entries: list[NDArray[np.intp]] = []
        every = np.arange(len(counts))
        for places, share in strategy.groups:
            bodies, level = self._bodies([counts.parts[k] for k in places])
            body = bodies[0] if len(bodies) == 1 else ProductBody(bodies)
            self.noises.append(LatticeNoise(body, epsilon * share, level * self.rows))  # [P2]
            self.noises[-1].check_feasible()
            self.entries.append(np.concatenate([every[counts.where[k]] for k in places]))
        self._variances: dict[int, FloatArray] = {}
        for (places, _), noise in zip(strategy.groups, self.noises, strict=True):
            self._variances |= self._known(places, noise)

    def _bodies(self, parts: Sequence[Measured]) -> tuple[list[LatticeBody], int]:
        """Bodies whose levels of one row's move are at most the number given back."""
        boxes = [self._sides(part) for part in parts if part[0] == "contrasts"]
        cells = any(part[0] == "cells" for part in parts)
        # a box of sides 2 w / L has integer sides: then no draw is lost
        level = 1 if cells or not boxes else int(np.gcd.reduce(2 * np.concatenate(boxes)))
        bodies: list[LatticeBody] = []
        for part in parts:
            if part[0] == "contrasts":
                bodies.append(BoxBody(self._sides(part).tolist(), level))
            elif self._summing(part):
                bodies.append(HistogramBody(self.counts.length(part)))
            else:
                bodies.append(DiamondBody(self.counts.length(part)))
                level = 2 if self.paired else 1
        if level == 2 and len(parts) > 1 and cells:
            refuse(ProductBody(bodies))
        return bodies, level

    def _summing(self, part: Measured) -> bool:
        """Whether the noise of a table adds up to zero; with many cells that gains nothing."""
        return part[0] == "cells" and self.paired and self.counts.length(part) <= _MOST_SUMMING

    def flat(self, place: int) -> bool:
        return self._summing(self.counts.parts[place])

    def _sides(self, part: Measured) -> NDArray[np.int64]:
        """How far a row moves each contrast [P1]."""
        relation = self.counts.schema.neighbors
        frozen = self.public.frozen
        return reaches(self.counts.work, part[1], relation, frozen).astype(np.int64).ravel()

    def _known(self, places: Sequence[int], noise: LatticeNoise) -> dict[int, FloatArray]:
        """Variances of parts: of the integers where they can be summed, else of the continuum.

        Where nothing but zero is drawn they are a little too large, and never 0.
        """
        found = None
        if noise.dim <= _MOST_SUMMED:
            found = noise.body.covariance(min(float(noise.rate), SILENT))
        out: dict[int, FloatArray] = {}
        own: Any
        start = 0
        m, rate = noise.body.rank, float(noise.epsilon) / self.rows
        for place in places:
            part = self.counts.parts[place]
            length = self.counts.length(part)
            if found is not None:
                own = np.diag(found)[start : start + length]
                if part[0] == "cells":
                    own = own[0] * (length / (length - 1) if self._summing(part) else 1.0)
            elif isinstance(noise.body, DiamondBody):
                own = geometric_variance(float(noise.rate))
            else:
                own = (m + 1) * (m + 2) / rate**2 * self._moment(part)
            shape = self.counts.shape(part) if part[0] == "contrasts" else ()
            out[place] = np.asarray(own, dtype=np.float64).reshape(shape)
            start += length
        return out

    def _moment(self, part: Measured) -> FloatArray:
        kind, columns = part
        work, relation = self.counts.work, self.counts.schema.neighbors
        if kind == "contrasts":
            return reaches(work, columns, relation, self.public.frozen) ** 2 / 3
        cells = dict(told(work, ("cells", columns), relation))
        return np.asarray(cells[columns])

    def part_variance(self, place: int) -> FloatArray:
        return self._variances[place]

    @property
    def words(self) -> str:
        each = "; ".join(
            f"weight exp(-{noise.rate} * level(z)), levels of {noise.body!r}"
            for noise in self.noises
        )
        return f"integers z, independent from group to group, with {each}, in units of 1"

    def facts(self) -> list[str]:
        """The bodies to the last digit."""
        return [noise.body.facts() for noise in self.noises]

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        bits = source(rng)  # one for all groups: a seed must not give them the same noise
        count = 1 if size is None else size
        drawn = [noise.sample(count, rng=bits) for noise in self.noises]
        out = np.empty((count, len(self.counts)), dtype=np.result_type(*drawn))
        for entries, part in zip(self.entries, drawn, strict=True):
            out[:, entries] = part
        return out[0] if size is None else out

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        return np.asarray(np.abs(linear) @ self.box(confidence))

    def box(self, confidence: float) -> FloatArray:
        out = np.empty(len(self.counts))
        each = 1 - (1 - confidence) / len(self.noises)
        for entries, noise in zip(self.entries, self.noises, strict=True):
            level = level_reach(noise.body, noise.rate, each)
            out[entries] = np.concatenate([_farthest(body, level) for body in noise.body.blocks])
        return out

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        wide = roomy(moves, _WORD // (2 * self.rows)) * self.rows
        fits = np.ones(len(moves), dtype=bool)
        for entries, noise in zip(self.entries, self.noises, strict=True):
            for i in range(len(moves)):
                try:
                    level = noise.body.level(wide[i : i + 1, entries])[0]
                except ParameterError:  # it leaves the span of a flat body
                    fits[i] = False
                else:
                    fits[i] &= bool(level <= noise.sensitivity)
        return fits

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        for entries, noise in zip(self.entries, self.noises, strict=True):
            blocks = []
            place = np.full(len(self.counts), -1)
            place[entries] = np.arange(len(entries))
            for block in images:
                mine = place[block.entries] >= 0
                if mine.any():
                    wide = roomy(block.values[:, mine], _WORD // (4 * self.rows)) * self.rows
                    blocks.append((place[block.entries][mine], wide))
            level = farthest_level(noise.body, blocks, paired=paired)
            if level is None or level > noise.sensitivity:
                return False
        return True

    def covers_by_structure(self) -> bool:
        """A row is in one cell of every table, and contrasts stay between their ends."""
        for (places, _), noise in zip(self.strategy.groups, self.noises, strict=True):
            for place, body in zip(places, noise.body.blocks, strict=True):
                part, most = self.counts.parts[place], noise.sensitivity // self.rows
                if isinstance(body, BoxBody):
                    sides = self._sides(part).astype(object)
                    if part[0] != "contrasts" or (sides * body.den > body.half * most).any():
                        return False
                else:
                    kind = HistogramBody if self._summing(part) else DiamondBody
                    least = 2 if self.paired and kind is DiamondBody else 1
                    whole = part[0] == "cells" and body.dim == self.counts.length(part)
                    if not (whole and isinstance(body, kind) and most >= least):
                        return False
        return True


def _farthest(body: LatticeBody, level: int) -> FloatArray:
    """How far entries are from 0 in the body of a level."""
    if isinstance(body, BoxBody):
        return np.floor(body.half.astype(np.float64) * level / body.den)
    return np.full(body.dim, float(level))


class GaussianBookNoise(BookNoise):
    r"""Independent discrete Gaussians, of one variance for each residual.

    **Privacy.** Centred entries of the residual of A are :math:`g_A` times as long, squared, as the
    residual itself [P1]. The plan has :math:`\sum_A c_A(D)/s_A \le 1` for every set D of columns
    in which a replaced row may differ, by a certified bound
    (:mod:`tightdp.workloads.replaced_rows`), or for a row that is added [P2]. So the entries,
    divided by the roots of :math:`s_A g_A`, move by at most 1 in l2 norm, r for r rows of a person.
    For a budget in rho, integers of the variance parameters :math:`r^2 s_A g_A/(2\rho)` are
    rho-zero-concentrated DP (Canonne and others, 2020, Theorem 14) [P3]. For (epsilon, delta),
    noise of :math:`\sigma` times these roots is (epsilon, delta)-DP:
    :class:`~tightdp.noise.gaussian_vectors.GaussianVector`, whose proof holds for entries of
    different sigma, all of them at least as fine on the lattice as it asks [P4].
    """

    name = "gaussian"

    def __init__(
        self,
        counts: TableCounts,
        plan: NoisePlan,
        epsilon: Fraction | None,
        delta: Fraction,
        rho: Fraction | None = None,
        public: PublicTables = NOTHING,
    ) -> None:
        super().__init__(counts, public)
        if any(part[0] != "centred" for part in counts.parts):
            fail("Gaussian noise is for centred residuals.")
        self.delta, self.plan = delta, plan
        self.lengths = [self._length(part) for part in counts.parts]  # r^2 s_A g_A
        if rho is not None:
            self.variances = [length / (2 * rho) for length in self.lengths]  # [P3]
            self._cost = Cost.concentrated(rho, delta=delta)
        else:
            assert epsilon is not None
            unit = GaussianVector(
                epsilon=epsilon, delta=delta, square=Fraction(1), entries=len(counts)
            )
            self.variances = [unit.sigma**2 * length for length in self.lengths]
            least = Fraction(math.sqrt(min(self.variances))) * Fraction(999, 1000)
            fine = unit.sigma * unit.resolution / least
            self.factor = 1 << max(0, math.ceil(math.log2(fine)))  # [P4]
            self._cost = unit.cost
        # an epsilon below the floor is told as the floor: so little rho implies none at its delta
        told = max(EPSILON_FLOOR, self._cost.epsilon)
        self.epsilon = told if epsilon is None else epsilon

    @property
    def cost(self) -> Cost:
        return self._cost

    def _square(self, part: Measured) -> int:
        """g_A [P1]."""
        return math.prod(frame_square(n) for n in self.counts.work.shape(part[1]))

    def _length(self, part: Measured) -> Fraction:
        return Fraction(self.plan.variances[part[1]]) * self._square(part) * self.rows**2

    @property
    def words(self) -> str:
        shown = ", ".join(f"{float(v):.6g}" for v in self.variances[:8])
        more = ", ..." if len(self.variances) > 8 else ""
        return (
            "independent discrete Gaussian integers, with variances "
            f"{shown}{more} for the entries of each residual, in units of 1/{self.factor}"
        )

    def facts(self) -> list[str]:
        """The variances to the last digit."""
        return [str(variance) for variance in self.variances]

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        bits = source(rng)
        count = 1 if size is None else size
        out = np.empty((count, len(self.counts)), dtype=object)
        for variance, where in zip(self.variances, self.counts.where, strict=True):
            shape = (count, where.stop - where.start)
            out[:, where] = discrete_gaussians(variance * self.factor**2, shape, bits)
        return out[0] if size is None else out

    def part_variance(self, place: int) -> FloatArray:
        steps = discrete_variance(self.variances[place] * self.factor**2)
        return np.asarray(steps / float(self.factor) ** 2)

    def total(self, work: Workload) -> float:
        """The weighted total variance of the tables of a workload."""
        ratio = float(self.variances[0] / self.lengths[0]) * self.rows**2
        return work.total_variance({a: s * ratio for a, s in self.plan.variances.items()})

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        each = (1 - confidence) / max(1, len(linear))
        return self.normal_reach(linear**2 @ self.covariance(), each)

    def box(self, confidence: float) -> FloatArray:
        return self.normal_reach(self.covariance(), (1 - confidence) / len(self.counts))

    @property
    def coarsest(self) -> float:
        """The least variance parameter, in squared steps of the lattice."""
        return float(min(self.variances) * self.factor**2)

    @property
    def below_parameter(self) -> float:
        """By how much variance parameters may exceed variances; most for the coarsest entry."""
        least = Fraction(self.coarsest)
        return float(least) / discrete_variance(least)

    def normal_reach(self, variance: FloatArray, miss: float) -> FloatArray:
        """Half-widths of sums of entries, each missed with at most this chance, by proof."""
        multiple = sure_multiple(self.coarsest, len(self.counts), miss)
        return np.asarray(np.sqrt(variance * self.below_parameter) * multiple * _ROUNDED)

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        # entries of a move stay below 2^21 lattice steps of one count, so that squares add in int64
        total = np.zeros(len(moves))
        for length, where in zip(self.lengths, self.counts.where, strict=True):
            part = np.asarray(moves[:, where] // self.factor, dtype=np.int64)
            total += (part * part).sum(axis=1) * float(self.rows**2 / length)
        return np.asarray(total <= _ROUNDED, dtype=bool)

    def covers_by_structure(self) -> bool:
        """The plan was certified for its residuals, which are those that are measured [P2]."""
        return all(part[1] in self.plan.variances for part in self.counts.parts)


def discrete_variance(parameter: Fraction) -> float:
    """The variance of a discrete Gaussian, which is below its parameter where that is small.

    >>> discrete_variance(Fraction(100)), round(discrete_variance(Fraction(1, 10)), 4)
    (100.0, 0.0133)
    """
    size = float(parameter)
    if size > _COARSE:
        return size
    z = np.arange(-64.0, 65.0)
    weight = np.exp(-z * z / (2 * max(size, 1e-300)))
    return max(float(weight @ (z * z) / weight.sum()), _LEAST_VARIANCE)


def feasible(
    counts: TableCounts, strategy: Strategy, epsilon: Fraction, public: PublicTables
) -> ShapedNoise | None:
    """The noise of a strategy; None where it cannot be drawn."""
    try:
        return ShapedNoise(counts, strategy, epsilon, public)
    except InfeasibleSamplingError:
        return None
