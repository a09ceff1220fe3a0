r"""Noise for statistics within classes: the shape of one record, or a law for every entry."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import NDArray

from tightdp.accounting import Cost
from tightdp.data.class_moments import GroupMoments
from tightdp.data.public_rows import Images
from tightdp.design.designs import Design, design_noise
from tightdp.errors import FloatArray, exact_amount, fail
from tightdp.exact.lattice_bodies import DiamondBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_moments import RecordBody
from tightdp.exact.lattice_optional import OptionalRecordBody
from tightdp.exact.rejection import LEAST_SHARE
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.law import NoiseLaw
from tightdp.privacy import Neighbors, text_down
from tightdp.randomness import RandomLike, source
from tightdp.shaping.coordinate_noise import (
    DESIGN_STEPS,
    LOSSY,
    PURE,
    family_for,
    farthest_ends,
    finer_lattice,
    float_down,
    on_lattice,
)
from tightdp.shaping.reach import (
    box_sizes,
    gamma_reach,
    level_reach,
    remembered,
    simultaneous,
    upper_shares,
    upwards,
)
from tightdp.shaping.shared_costs import (
    check_composed,
    group_budget,
    group_cost,
    most_each,
)

LEAST_DESIGNED = Fraction(1, 50)
_DRAWS = 4_000
_SURFACE = 40_000
_RAREST = 2.0**-50  # a chance that doubles still tell apart from nothing
_COARSE = 1 << 8  # lattice points per unit from which on the continuous law tells the errors


class ClassNoise(ABC):
    """Integer noise for the entries of a :class:`~tightdp.data.class_moments.GroupMoments`.

    ``ends`` is 2 if a row is replaced (it leaves a class and enters one) and 1 if it is added or
    removed; a person has ``rows`` rows.
    """

    bits: int
    factor = 1

    def __init__(self, moments: GroupMoments, epsilon: Fraction, delta: Fraction) -> None:
        self.moments, self.epsilon, self.delta = moments, epsilon, delta
        schema = moments.schema
        self.rows = schema.rows_per_person
        self.ends = 2 if schema.neighbors is Neighbors.REPLACE_ONE else 1
        self.classes, self.width = len(moments.groups), moments.layout.width

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self.factor * self.moments.resolution(self.bits)

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon, self.delta)

    @property
    def draws(self) -> ClassNoise:
        return self

    @property
    @abstractmethod
    def words(self) -> str:
        """The exact law, for people."""

    @abstractmethod
    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """A draw for all entries, in the order of the statistic, or ``size`` rows of them."""

    @abstractmethod
    def block(self) -> FloatArray:
        """Covariance of the noise on the scaled entries of one class."""

    def covariance(self) -> FloatArray:
        """Covariance of the noise on all scaled entries; classes are independent."""
        return np.asarray(np.kron(np.eye(self.classes), self.block()), dtype=np.float64)

    def variances(self) -> FloatArray:
        """The diagonal of the covariance, where there are too many entries for a matrix."""
        return np.tile(np.diag(self.block()), self.classes)

    @abstractmethod
    def _box(self, confidence: float) -> FloatArray:
        """Half-widths that hold for all entries at once."""

    def entry_reach(self, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all scaled entries."""
        return self._box(confidence)

    # --- which moves it covers ----------------------------------------------------------------

    @abstractmethod
    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each move of one row, in steps of the noise's lattice, is covered."""

    @abstractmethod
    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        """Whether all moves between combinations of the images are proved to be covered."""

    def covers_by_structure(self) -> bool:
        """The lemma of GroupMoments, and the proof of each noise."""
        return True

    def _by_class(self, moves: NDArray[Any]) -> NDArray[Any]:
        """Moves, shape (count, classes, width)."""
        return moves.reshape(len(moves), self.classes, self.width)

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise."""
        return np.asarray(np.abs(linear) @ self._box(confidence))

    def form_reach(self, forms: FloatArray, miss: float) -> FloatArray:
        """Half-widths of linear forms of one group, each exceeded with at most the chance ``miss``.

        ``forms`` has a row for each and a column for every entry of a group. All groups have the
        same law, and are independent.
        """
        entries = self._box((1 - miss) ** self.classes)[: self.width]  # of which each group has one
        return np.asarray(np.abs(forms) @ entries)


class BodyNoise(ClassNoise):
    r"""In every class :math:`P(z) \propto \exp(-\epsilon\,\mathrm{level}(z)/L)`, independently.

    **Privacy.** The levels are those of the body of one record, of which the contribution of a row
    has level at most R, the resolution [P1]. A row moves the levels of all classes together by at
    most R times the ends (Lemma of :class:`~tightdp.data.class_moments.GroupMoments`, levels being
    subadditive [P2]), r rows by r times as much: L. The log probability changes by at most epsilon.

    For numbers and categories of two levels the body is the hull of one record,
    :class:`~tightdp.exact.lattice_moments.RecordBody` times an interval for each contrast (a
    contrast is +-1 whatever the count is, so its section is an interval at every count); other
    categories lie in the l1 ball of their indicators. From about 45 numeric columns on the sampler
    of the hull would reject too often, and its box is used.

    Where all rows are one group, and may be left out of it, the body under replace-one is that of
    all moves of one row, :class:`~tightdp.exact.lattice_optional.OptionalRecordBody`: a move then
    has level at most R, r rows r times as much.
    """

    def __init__(self, moments: GroupMoments, epsilon: Fraction) -> None:
        super().__init__(moments, epsilon, Fraction(0))
        self.body = self._record = record_body(moments)
        self._times = self.ends  # levels R that one move takes
        if self.ends == 2 and self.classes == 1 and moments.schema.drops:
            whole = optional_body(self._record)
            self.body, self._times = (self.body, 2) if whole is None else (whole, 1)
        self.bits = moments.schema.bits
        level = self._times * self.rows * self.resolution  # [P1]
        self.noise = LatticeNoise(self.body, epsilon, level)
        self.noise.check_feasible()

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(self.rows * self._levels(moves) <= self.noise.sensitivity, dtype=bool)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        # two records move the levels by no more than each does alone, both together [P2]
        most = self.noise.sensitivity // (self._times * self.rows)
        if self._times < self.ends:  # every record that counts, counts as one: step (3) there
            return all(
                bool((self._record.level(block.values) <= most).all())
                and bool((block.values[:, 0] == self.resolution).all())
                for block in images
            )
        return all(bool((self._levels(block.values) <= most).all()) for block in images)

    def _levels(self, moves: NDArray[Any]) -> NDArray[Any]:
        """The levels of all classes together."""
        blocks = self._by_class(moves)
        moved = blocks.any(axis=2)  # the level of nothing is 0, and most classes do not move
        out = np.zeros(len(moves), dtype=object)
        np.add.at(out, np.nonzero(moved)[0], self.body.level(blocks[moved]).astype(object))
        return out

    @property
    def words(self) -> str:
        return (
            f"integers z, independent from {self.moments.noun} to {self.moments.noun}, with weight "
            f"exp(-{self.noise.rate} * level(z)), levels of {self.body!r}, in units of "
            f"1/{self.resolution}"
        )

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        drawn = self.noise.sample(self.classes * (1 if size is None else size), rng=rng)
        return drawn.ravel() if size is None else drawn.reshape(size, -1)

    @property
    def _rate(self) -> float:
        return float(self.epsilon) / (self._times * self.rows)

    @property
    def _sides(self) -> FloatArray:
        """Half-widths of the body."""
        return np.array([1.0, *[self.ends / self._times] * (self.width - 1)])

    def block(self) -> FloatArray:
        """E r^2 of a Gamma(rank + 1) radius times the second moments of the body."""
        if self.resolution < _COARSE:
            return np.diag((self._drawn**2).mean(axis=0))
        rank = self.body.rank
        return (rank + 1) * (rank + 2) / self._rate**2 * _second_moment(self.body)

    def _box(self, confidence: float) -> FloatArray:
        each = confidence ** (1 / self.classes)
        if self.resolution < _COARSE:
            spread = np.sqrt((self._drawn**2).mean(axis=0))
            half = simultaneous(self._drawn, spread, each)
        else:
            radius = float(scipy.special.gammaincinv(self.body.rank + 1, each)) / self._rate
            half = radius * self._sides + 1 / self.resolution
        return np.tile(half, self.classes)

    def form_reach(self, forms: FloatArray, miss: float) -> FloatArray:
        unit = np.eye(self.width, dtype=np.int64) << 20
        spread = float(np.sum(self.body.level(unit))) / 2**20 / self.resolution
        excess = self._rate * (2 * spread + 1 / self.resolution)  # as of lattice_excess
        rarely = miss * math.exp(-excess)
        if self.resolution >= _COARSE:
            return self._fine_reach(forms, rarely)
        levels = level_reach(self.body, self.noise.rate, 1 - miss) / self.resolution
        whole = upwards(np.abs(forms) @ self._sides * levels)
        # so coarse that the continuum tells nothing, or the least of two that hold
        return whole if rarely < _RAREST else np.minimum(whole, self._fine_reach(forms, rarely))

    def _fine_reach(self, forms: FloatArray, rarely: float) -> FloatArray:
        """What the continuous law exceeds so rarely, and a lattice cell more."""
        key = (self.words, self.epsilon, rarely)
        found = remembered(
            key,
            forms,
            lambda: gamma_reach(self._sizes(forms), self.body.rank, self._rate, rarely),
        )
        return upwards(found + np.abs(forms).sum(axis=1) / self.resolution)

    def _sizes(self, forms: FloatArray) -> FloatArray:
        """What each form is on the surface of the body, at evenly spaced shares, rounded up."""
        if isinstance(self.body, BoxBody) and (np.count_nonzero(forms, axis=1) <= 2).all():
            return box_sizes(forms, self.body.rank)
        directions = self._surface @ forms.T
        return upper_shares(np.abs(directions), np.abs(forms) @ self._sides)

    @cached_property
    def _surface(self) -> FloatArray:
        """Public points of the surface of the body, as noise meets it."""
        draws = LatticeNoise(self.body, 1, 1 << 11).sample(_SURFACE, rng=MEASURING_SEED)
        levels = np.maximum(self.body.level(draws), 1)
        return np.asarray(draws / levels[:, None].astype(np.float64), dtype=np.float64)

    @cached_property
    def _drawn(self) -> FloatArray:
        """On a coarse lattice the law is not that of the continuous noise: public draws tell."""
        draws = self.noise.sample(_DRAWS, rng=MEASURING_SEED)
        return np.asarray(draws, dtype=np.float64) / self.resolution


def record_body(moments: GroupMoments) -> LatticeBody:
    """The body of what one record adds to its class."""
    layout = moments.layout
    bodies: list[LatticeBody] = []
    count = len(layout.numbers)
    sides = layout.counted + len(layout.pairs)
    if count and layout.power == 1:
        sides += count  # the hull of +-(1, x) is the box
    elif count:
        record = RecordBody(count)
        if record.share >= 10 * LEAST_SHARE:
            bodies, sides = [record], sides - 1
        else:
            sides += 2 * count
    if sides:
        bodies.append(BoxBody([1] * sides))
    bodies += [DiamondBody(size) for _, size in layout.tables]
    return bodies[0] if len(bodies) == 1 else ProductBody(bodies)


def optional_body(record: LatticeBody) -> OptionalRecordBody | None:
    """The body of replacing a record that may be left out, where it can be drawn from."""
    if not isinstance(record, (BoxBody, RecordBody)):
        return None
    found = OptionalRecordBody(record)
    return found if found.share >= 10 * LEAST_SHARE else None


def _second_moment(body: LatticeBody) -> FloatArray:
    if isinstance(body, ProductBody):
        return np.asarray(scipy.linalg.block_diag(*map(_second_moment, body.bodies)))
    if isinstance(body, (RecordBody, OptionalRecordBody)):
        return body.second_moment
    if isinstance(body, DiamondBody):
        return np.eye(body.dim) * 2 / ((body.dim + 1) * (body.dim + 2))
    return np.eye(body.dim) / 3


class LawNoise(ClassNoise):
    r"""Independent integers of one law for the counts of classes and one for all other entries.

    **Privacy.** Let a record touch t entries of its class, each by at most R, the resolution. Take
    one of these t, be it a moment or the level of a category, in all classes together: one row that
    is added or removed moves it by one step of R, a replaced row by two, in one class or in two
    [P1]. A law that is private for R thus makes it (epsilon_j, delta_j)-DP by
    :func:`~tightdp.shaping.shared_costs.group_cost`. The t of them are composed exactly
    ([39], :mod:`~tightdp.shaping.shared_costs`) for other entries, and these with the counts by
    sums, the counts getting the share q of epsilon and delta [P2]. r rows of a person are r steps
    of group privacy.

    A law of the user is used on all entries, and (epsilon, delta) must cover it on all of them.

    Laws made for R instead of the 2 R by which an entry can move have half the noise.
    """

    def __init__(
        self,
        moments: GroupMoments,
        law: Any,
        epsilon: Fraction,
        delta: Fraction,
        share: Fraction | None = None,
    ) -> None:
        super().__init__(moments, epsilon, delta)
        self.one_row = group_budget(epsilon, delta, self.rows)
        if isinstance(law, (NoiseLaw, Design)):
            self._take(law.noise if isinstance(law, Design) else law)
        else:
            self._make(law, share)

    # --- a named family, for a budget ---------------------------------------------------------

    def _make(self, family: str, share: Fraction | None) -> None:
        family, lossy = family_for(family, self.delta)
        others = self.moments.layout.touched - 1
        self.share = best_count_share(others, *self.one_row, lossy) if share is None else share
        spends = []
        for part, times in ((self.share, 1), (1 - self.share, others)):
            epsilon, delta = (part * whole for whole in self.one_row)
            entry = most_each(epsilon, delta, times, lossy=lossy)  # [P2]
            spends.append(group_budget(*entry, self.ends))  # [P1]
        fine = self.moments.schema.bits
        self.bits = self.moments.bits_within(DESIGN_STEPS) if family == "designed" else fine
        steps = self.moments.resolution(self.bits)
        if family == "designed":
            integer = self.moments.degree == 0
            self._use([designed_law(e, float_down(d), integer) for e, d in spends], steps)
        else:
            maker = (LOSSY if lossy else PURE)[family]
            self._use([maker(e, float_down(d), steps) for e, d in spends], steps)

    def _use(self, laws: Sequence[NoiseLaw], steps: int) -> None:
        """The laws on a lattice on which a record moves an entry by so many steps at most."""
        self.factor = math.lcm(*(finer_lattice(law, [steps]) for law in laws))
        self.laws = [on_lattice(law, self.factor * steps) for law in laws]

    # --- a law of the user --------------------------------------------------------------------

    def _take(self, law: NoiseLaw) -> None:
        self.bits = self.moments.bits_within(DESIGN_STEPS)
        self._use([law, law], self.moments.resolution(self.bits))
        given = self.laws[0].guarantee()
        each, lost = (exact_amount("law", x) for x in (given.epsilon, given.delta))
        entry = group_cost(each, lost, self.ends)
        what = "the law on the {} entries that a record moves"
        check_composed(entry, self.moments.layout.touched, self.one_row, what, self.rows)

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        return self._within(moves, self.ends)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        # two records move an entry by no more than each does alone, both together
        return all(bool(self._within(block.values, 1).all()) for block in images)

    def _within(self, moves: NDArray[Any], ends: int) -> NDArray[np.bool_]:
        """Whether each of the t entries of a record moves by as many steps of its law, in all."""
        layout = self.moments.layout
        size = np.abs(self._by_class(moves)).sum(axis=1)
        starts = [*range(layout.tables_from), *(layout.place(n).start for n, _ in layout.tables)]
        steps = np.add.reduceat(size, starts, axis=1)
        count, other = (ends * law.sensitivity for law in self.laws)
        return np.asarray((steps[:, 0] <= count) & (steps[:, 1:] <= other).all(axis=1), dtype=bool)

    @property
    def words(self) -> str:
        count, other = self.laws
        return (
            f"independent integers, {count!r} on the counts of {self.moments.nouns} and "
            f"{other!r} on other entries, in units of 1/{self.resolution}"
        )

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        many = self.classes * (1 if size is None else size)
        count, other = self.laws
        bits = source(rng)  # one for both: a seed must not give them the same noise
        counts = count.sample(many, rng=bits)
        others = other.sample(many * (self.width - 1), rng=bits).reshape(many, -1)
        drawn = np.column_stack([counts, others])
        return drawn.ravel() if size is None else drawn.reshape(size, -1)

    def _spread(self, of: FloatArray) -> FloatArray:
        """A number for counts and one for the others, put where they belong."""
        block = np.array([of[0], *[of[1]] * (self.width - 1)])
        return np.tile(block, self.classes) / float(self.resolution)

    def block(self) -> FloatArray:
        sizes = self._spread(np.sqrt([law.variance() for law in self.laws]))
        return np.diag(sizes[: self.width] ** 2)

    def _box(self, confidence: float) -> FloatArray:
        tail = (1 - confidence ** (1 / len(self.moments))) / 2
        return self._spread(farthest_ends(self.laws, tail))


@lru_cache(maxsize=64)
def best_count_share(others: int, epsilon: Fraction, delta: Fraction, lossy: bool) -> Fraction:
    r"""The share of the budget for counts with the least error of means within classes.

    A mean is S/n; with noise of variances :math:`v_S` and :math:`v_n` its error is about
    :math:`(v_S + m^2 v_n)/n^2`, and :math:`m^2 = 1/3` for a mean that may be anywhere. Over k other
    entries and the prior this is :math:`k v_S + w v_n`, :math:`w = 1 + k/3`. Variances fall
    with the square of epsilon, of which an entry gets :math:`G(1-q)/k`, where G >= 1 is what exact
    composition gains over sums, and the count gets q: so :math:`q/(1-q) = (wG^2)^{1/3}/k`. Public
    facts alone enter.

    >>> best_count_share(2, Fraction(1), Fraction(0), False)
    Fraction(16, 43)
    >>> best_count_share(40, Fraction(1), Fraction(1, 10**5), True)
    Fraction(3, 38)
    """
    gain = others * float(most_each(epsilon, delta, others, lossy=lossy)[0] / epsilon)
    weight = ((1 + others / 3) * gain**2) ** (1 / 3)
    # at least 1 / (1 + others), so that it is never rounded to nothing
    return Fraction(weight / (weight + others)).limit_denominator(max(64, 1 + others))


@lru_cache(maxsize=64)
def designed_law(epsilon: Fraction, delta: float, integer: bool) -> NoiseLaw:
    """The certified least mean error; designs are public and are not made twice."""
    if epsilon < LEAST_DESIGNED:
        fail(
            f"`noise` 'designed' leaves epsilon = {text_down(epsilon, 3)} for one law, and designs "
            f"below {float(LEAST_DESIGNED):g} take minutes and gain less than a part in 10,000 on "
            "noise='truncated-laplace': use that, or spend more."
        )
    if integer:
        design = design_noise(epsilon=epsilon, delta=delta, sensitivity=1, integer=True)
        return design.noise.lattice(1)
    return design_noise(epsilon=epsilon, delta=delta).noise
