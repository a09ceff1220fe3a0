r"""A verifier of two noises that are private together: no solver, no float, standard library only.

    python -m tightdp.design design.json

The document states two laws, each on cells of its own width and with an atom at zero, for two
queries that move by at most their sensitivities; a guarantee for both releases together; and two
numbers. This module proves or refutes, in integers, that

* releasing both queries, each with its own independent noise, is (epsilon, delta)-private
  (:class:`~tightdp.ComposedDesign` has the proof that what is tested here is enough),
* ``upper`` is the sum of their expected losses, each times its importance,
* **no** pair of noises, not even dependent ones, has less than ``lower``.

**The shortfall.** With masses p and q of the cells and atoms a and b, moves by m and n cells lose

.. math:: V(m, n) = a + b(1 - a) + \sum_{i,j} (p_i q_j - e^\epsilon p_{i-m} q_{j-n})_+ .

Between whole moves V is bilinear. If both queries may move fully (``linf``), all whole moves are
tested; if their moves lie together in a disc or a diamond, its lattice points, and its boundary as
in :mod:`tightdp.design.vector_balls`.

**The lower bound.** A pair of noises is a noise in the plane, so that the bound of
:mod:`tightdp.design.vector_verifier` holds for the sum of both losses in units of their
sensitivities. Let u and v be the importance of these units, u the smaller: then
:math:`u L_1 + v L_2 \ge u (L_1 + L_2) + (v - u) L_2`, and :math:`L_2` is at least the least loss of
one release with the whole budget, which is proved by a certificate of
:mod:`tightdp.design.verifier`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

from tightdp.design import verifier
from tightdp.design.exact_numbers import (
    Document,
    damage_refutes,
    demand,
    demand_stated,
    exp_bounds,
    rational,
)
from tightdp.design.vector_balls import (
    BALLS,
    BoundaryCover,
    Shift,
    gauge_within,
    rounded_radius,
)
from tightdp.design.vector_verifier import (
    POWERS,
    Multipliers,
    OrbitCells,
    mean_loss,
    multipliers_of,
    unit_bound,
)

FORMAT = "tightdp composed design 1"
MOST_SIDE = 1 << 12  # cells on each side of zero: more would only waste time


class ReleaseLaw(NamedTuple):
    """A symmetric law: cells per sensitivity, cells on each side, one weight for each distance."""

    cells: int
    half: int
    centred: bool
    weights: Sequence[int]
    atom: int

    @property
    def orbits(self) -> OrbitCells:
        """Its cells; those at the same distance from zero are one orbit."""
        return OrbitCells(1, self.half, centred=self.centred)

    @property
    def total(self) -> int:
        """The sum of all weights."""
        sizes = self.orbits.sizes
        return sum(n * w for n, w in zip(sizes, self.weights, strict=True)) + self.atom

    def loss(self, loss: str) -> Fraction:
        """The expected loss, for sensitivity 1."""
        orbits = self.orbits
        terms = zip(orbits.sizes, self.weights, orbits.middles, strict=True)
        spent = sum((n * w * mean_loss(far[0], loss) for n, w, far in terms), Fraction(0))
        return spent / self.total / self.cells ** POWERS[loss]


class ComposedFacts(NamedTuple):
    """Two laws, what they promise together, and the proof of the lower bound."""

    epsilon: Fraction
    delta: Fraction
    ball: str
    loss: str
    sensitivities: Sequence[Fraction]
    importance: Sequence[Fraction]
    laws: Sequence[ReleaseLaw]
    points: int
    bound: Multipliers
    single: Document | None

    @property
    def units(self) -> list[Fraction]:
        """What one unit of each loss counts, for sensitivity 1."""
        pairs = zip(self.importance, self.sensitivities, strict=True)
        return [w * s ** POWERS[self.loss] for w, s in pairs]


def facts_of(document: Document) -> ComposedFacts:
    """The statement of a document; refutes what has no meaning."""
    demand(document["format"] == FORMAT, "an unknown format")
    names = ("cells", "half", "centred", "weights", "atom")
    return checked(
        ComposedFacts(
            epsilon=rational(document["epsilon"]),
            delta=rational(document["delta"]),
            ball=document["ball"],
            loss=document["loss"],
            sensitivities=[rational(s) for s in document["sensitivities"]],
            importance=[rational(w) for w in document["importance"]],
            laws=[ReleaseLaw(*(law[name] for name in names)) for law in document["laws"]],
            points=document["points"],
            bound=multipliers_of(document["bound"]),
            single=document["single"],
        )
    )


def checked(facts: ComposedFacts) -> ComposedFacts:
    """The same facts; refutes what has no meaning, before anything is computed from it."""
    demand(facts.ball in BALLS and facts.loss in POWERS, "an unknown ball or loss")
    demand(0 < facts.epsilon <= 1 << 10 and 0 < facts.delta < 1, "epsilon or delta out of range")
    pairs = (facts.laws, facts.sensitivities, facts.importance)
    demand(all(len(pair) == 2 for pair in pairs), "two releases are needed")
    demand(min(*facts.sensitivities, *facts.importance) > 0, "a fact is not positive")
    demand(type(facts.points) is int and facts.points >= 2 and facts.points % 2 == 0, "no grid")
    for law in facts.laws:
        whole = all(type(n) is int and n >= 1 for n in (law.cells, law.half))
        demand(whole and type(law.centred) is bool, "no cells")
        demand(max(law.cells, law.half) <= MOST_SIDE, "too many cells")
        demand(law.half * facts.points < 1 << 61, "draws would not be 64-bit integers")
        natural = all(type(w) is int and w >= 0 for w in [*law.weights, law.atom])
        demand(natural and len(law.weights) == len(law.orbits.sizes), "the weights do not fit")
        demand(0 < law.total < 1 << 62, "the weights are not those of a law that can be drawn")
    same = facts.laws[0].cells == facts.laws[1].cells
    demand(facts.ball == "linf" or same, "moves in a disc or a diamond need cells of one width")
    return facts


# --- the noise ------------------------------------------------------------------------------------


class Shortfalls:
    """What moves by whole cells lose, times the totals of both laws and a common denominator."""

    def __init__(self, laws: Sequence[ReleaseLaw], epsilon: Fraction) -> None:
        factor = exp_bounds(epsilon)[0]
        self.laws, self.num, self.den = laws, factor.numerator, factor.denominator
        a, b = (law.atom for law in laws)
        totals = [law.total for law in laws]
        self.scale = totals[0] * totals[1] * self.den
        self.atoms = (a * totals[1] + b * (totals[0] - a)) * self.den
        self._met = cache(self._meetings)

    def _meetings(self, which: int, move: int) -> list[tuple[int, int, int]]:
        """Weights that meet under a move of one law, and how often."""
        law = self.laws[which]
        weights = [*law.weights, 0]  # the last is met outside
        every = law.orbits.meetings((move,)).items()
        return [(weights[own], weights[met], times) for (own, met), times in every if weights[own]]

    def cells(self, move: Shift) -> int:
        """The part of the cells."""
        return sum(times * self.inner(x, y, move[1]) for x, y, times in self._met(0, move[0]))

    def inner(self, x: int, y: int, move: int) -> int:
        """What cells of weights x and y of the first law lose under a move of the second."""
        x, y = x * self.den, y * self.num
        return sum(times * max(x * v - y * w, 0) for v, w, times in self._met(1, move))


def is_private(facts: ComposedFacts, delta: Fraction) -> bool:
    """Whether both releases together are proved to lose at most ``delta``."""
    short = Shortfalls(facts.laws, facts.epsilon)
    most = math.floor(delta * short.scale) - short.atoms
    value = cache(short.cells)
    first, second = (law.cells for law in facts.laws)
    radius = rounded_radius(facts.ball, first, facts.points)
    moves = product(range(first + 1, -1, -1), range(second + 1, -1, -1))
    if facts.ball == "linf":
        inside = [(m, n) for m, n in moves if m <= first and n <= second]
    else:
        inside = [move for move in moves if gauge_within(facts.ball, move, radius)]
    if most < 0 or any(value(move) > most for move in inside):
        return False
    return BoundaryCover(facts.ball, radius, symmetric=False).holds(value, most)


def adaptive_delta(facts: ComposedFacts) -> Fraction:
    r"""The delta if the second query is chosen after the first release has been seen, at most.

    Then the second move may depend on the first output: the largest over m of
    :math:`\sum_i \max_n \sum_j (p_i q_j - e^\epsilon p_{i-m} q_{j-n})_+`, with the atoms.
    """
    short = Shortfalls(facts.laws, facts.epsilon)
    first, second = (law.cells for law in facts.laws)
    worst = max(
        sum(
            times * max(short.inner(x, y, n) for n in range(second + 1))
            for x, y, times in short._met(0, m)
        )
        for m in range(first + 1)
    )
    return Fraction(worst + short.atoms, short.scale)


def upper_bound(facts: ComposedFacts) -> Fraction:
    """The sum of the expected losses, each times its importance."""
    parts = zip(facts.units, facts.laws, strict=True)
    return sum((unit * law.loss(facts.loss) for unit, law in parts), Fraction(0))


# --- the lower bound ------------------------------------------------------------------------------


def lower_bound(facts: ComposedFacts) -> Fraction:
    """What every pair of noises that is private together loses at least."""
    low, high = sorted(facts.units)
    plane = unit_bound(facts.bound, 2, facts.ball, facts.loss, facts.epsilon, facts.delta)
    if facts.single is None:
        return low * plane
    return low * plane + (high - low) * _single(facts.single, facts)


def _single(document: Document, facts: ComposedFacts) -> Fraction:
    """The least loss of one release with the whole budget, from its certificate."""
    lower, _ = verifier.verify(document)
    side = [Fraction(0)] * POWERS[facts.loss] + [Fraction(1)]
    loss = document["loss"]
    same = loss["kind"] == "sides" and all(
        [rational(c) for c in loss[name]] == side for name in ("right", "left")
    )
    promise = rational(document["epsilon"]), rational(document["delta"])
    same = same and promise == (facts.epsilon, facts.delta)
    free = not any(document["constraints"].values()) and not document["integer"]
    demand(same and rational(document["sensitivity"]) == 1 and free, "a bound of something else")
    return lower


# --- the whole ------------------------------------------------------------------------------------


def verify(document: Document) -> tuple[Fraction, Fraction]:
    """The proved (lower, upper); raises :class:`Refuted` with the reason otherwise."""
    with damage_refutes():
        facts = facts_of(document)
        upper, lower = upper_bound(facts), lower_bound(facts)
        demand_stated(document, lower, upper)
        demand(is_private(facts, facts.delta), "the shortfall is not proved to be <= delta")
    return lower, upper


def rests_on(document: Document) -> str:
    """What the bounds mean, in words."""
    del document
    return "The lower bound holds for all noises; which pair of independent ones is best is open."
