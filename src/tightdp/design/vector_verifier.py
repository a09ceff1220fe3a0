r"""A verifier of noise for two or three entries: no solver, no float, standard library only.

    python -m tightdp.design design.json

The document states a law on cubic cells, symmetric under the symmetries of the cube, by one weight
for each orbit of cells and an atom at zero; a ball of changes; a guarantee and two numbers. This
module proves or refutes, in integers, that

* adding the noise is (epsilon, delta)-private for every change in the ball
  (:class:`~tightdp.VectorDesign` has the proof that what is tested here is enough),
* its expected loss is ``upper``, and **no** private noise has less than ``lower``.

**The lower bound.** Let :math:`\gamma` be any noise that makes a query of m entries (epsilon,
delta)-DP for changes in the ball. Then :math:`E\,c(X) \ge \theta - \delta \sum_m \lambda_m`, for
every choice of numbers :math:`0 \le z_{m,r} \le \mu_{m,r} \lambda_m` and

.. math:: \theta = \min_o\; a_o + \frac1{n_o}\Bigl(\sum_{m,\,r:\,own=o} z_{m,r}
          - e^{\epsilon} \sum_{m,\,r:\,met=o} z_{m,r}\Bigr),

over the orbits o of :math:`n_o` lattice cells. **Proof.** (1) Sum :math:`\gamma` over the cells of
a lattice of width b with offset s and average over s: :math:`p_j = E \prod_a t(X_a/b - j_a)`, t the
tent function. DP for shifts by lattice vectors and unions of cells is convex, so p has
:math:`V_m(p) \le \delta`; and :math:`E\,c(X) \ge \sum a_j p_j`, because the interpolation of the
node values :math:`a_j` by tents is at most c. (2) Averaging p over the symmetries of the cube
keeps both. (3) Add to the sum z times each row ``p_own - exp(epsilon) p_met``, whose total for a
shift is at most :math:`\lambda_m V_m \le \lambda_m \delta`; the coefficient of :math:`p_o` is then
at least :math:`n_o \theta`. Lattice cells outside the cube meet no row and cost at least as much
as the nearest of them. References: Selvi and others (2025) for the problem; the averaging over
offsets is an addition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple

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
    lattice_shifts,
    ordered,
    rounded_radius,
)

FORMATS = {2: "tightdp planar design 1", 3: "tightdp cubic design 1"}
POWERS = {"l1": 1, "l2": 2}  # of the sensitivity in the loss
SCALE = 1 << 48
MOST_CELLS = 1 << 22  # larger ones would only waste time


# --- losses ---------------------------------------------------------------------------------------


def mean_loss(doubled: int, loss: str) -> Fraction:
    """Mean of abs(x) or x**2 over a cell of width 1 whose middle is ``doubled / 2`` from zero.

    >>> mean_loss(0, "l1"), mean_loss(3, "l1"), mean_loss(2, "l2")
    (Fraction(1, 4), Fraction(3, 2), Fraction(13, 12))
    """
    if loss == "l1":
        return Fraction(doubled, 2) if doubled else Fraction(1, 4)
    return Fraction(doubled * doubled, 4) + Fraction(1, 12)


def node_loss(doubled: int, loss: str) -> Fraction:
    """Node value at ``doubled / 2``: abs(x) itself; for x**2 tangents at the middles, x**2 - 1/4.

    >>> node_loss(4, "l1"), node_loss(4, "l2")
    (Fraction(2, 1), Fraction(15, 4))
    """
    if loss == "l1":
        return Fraction(doubled, 2)
    return Fraction(doubled * doubled - 1, 4)


# --- cells ----------------------------------------------------------------------------------------


class OrbitCells:
    """All cells of a cube, numbered by orbits; those of an inner window are tested.

    >>> cells = OrbitCells(2, 1, centred=True)
    >>> cells.middles, cells.sizes
    ([(0, 0), (2, 0), (2, 2)], [1, 4, 4])
    """

    def __init__(self, dim: int, half: int, *, centred: bool, window: int | None = None) -> None:
        side = 2 * half + 1 if centred else 2 * half
        demand(dim >= 1 and half >= 1 and side**dim <= MOST_CELLS, "too many cells")
        self.dim, self.side = dim, side
        self.margin = 0 if window is None else half - window
        self.first = -2 * half if centred else -2 * half + 1  # twice the first middle
        every = product(range(self.first, -self.first + 1, 2), repeat=dim)
        self._all = [ordered(middle) for middle in every]
        self.middles = sorted(set(self._all))
        number = {middle: o for o, middle in enumerate(self.middles)}
        self.orbit = [number[middle] for middle in self._all]
        counts = Counter(self.orbit)
        self.sizes = [counts[o] for o in range(len(self.middles))]

    @cached_property
    def _tested(self) -> list[tuple[int, ...]]:
        """The lines of cells of the window along the last axis, by their other indices."""
        return list(product(range(self.margin, self.side - self.margin), repeat=self.dim - 1))

    def pairs(self, shift: Shift) -> Counter[tuple[int, int]]:
        """The meetings of different orbits: a cell that meets its own never falls short."""
        every = self.meetings(shift).items()
        return Counter({pair: times for pair, times in every if pair[0] != pair[1]})

    def meetings(self, shift: Shift) -> Counter[tuple[int, int]]:
        """How often orbit ``own`` meets orbit ``met`` under a shift; met = -1: no cell."""
        found: Counter[tuple[int, int]] = Counter()
        n, margin = self.side, self.margin
        none = [-1] * n
        for line in self._tested:
            own = self._line(line)[margin : n - margin]
            there = [i - m for i, m in zip(line, shift, strict=False)]
            inside = all(0 <= i < n for i in there)
            far = abs(shift[-1])
            met = [-1] * far + (self._line(there) if inside else none) + [-1] * far
            start = far + margin - shift[-1]
            found.update(zip(own, met[start : start + len(own)], strict=True))
        return found

    def _line(self, at: Sequence[int]) -> list[int]:
        start = 0
        for i in at:
            start = (start + i) * self.side
        return self.orbit[start : start + self.side]


# --- what a document states -----------------------------------------------------------------------


class Multipliers(NamedTuple):
    """The proof of the lower bound, on a lattice with ``resolution`` cells per radius."""

    resolution: int
    half: int
    window: int
    shifts: Sequence[Shift]
    prices: Sequence[int]
    rows: Sequence[Sequence[int]]


class VectorFacts(NamedTuple):
    """A law, what it promises, and the multipliers of its lower bound."""

    dim: int
    epsilon: Fraction
    delta: Fraction
    sensitivity: Fraction
    ball: str
    loss: str
    resolution: int
    half: int
    centred: bool
    weights: Sequence[int]
    atom: int
    points: int
    bound: Multipliers

    @property
    def power(self) -> int:
        """Of the sensitivity in the loss."""
        return POWERS[self.loss]


def facts_of(document: Document) -> VectorFacts:
    """The statement of a document."""
    dims = {name: dim for dim, name in FORMATS.items()}
    demand(document["format"] in dims, "an unknown format")
    taken = ("ball", "loss", "resolution", "half", "centred", "weights", "atom", "points")
    facts = VectorFacts(
        dim=dims[document["format"]],
        epsilon=rational(document["epsilon"]),
        delta=rational(document["delta"]),
        sensitivity=rational(document["sensitivity"]),
        **{name: document[name] for name in taken},
        bound=multipliers_of(document["bound"]),
    )
    return checked(facts)


def multipliers_of(bound: Document) -> Multipliers:
    """The proof of a lower bound, in a document."""
    return Multipliers(
        bound["resolution"],
        bound["half"],
        bound["window"],
        [tuple(shift) for shift in bound["shifts"]],
        bound["multipliers"],
        bound["row_multipliers"],
    )


def checked(facts: VectorFacts) -> VectorFacts:
    """The same facts; refutes what has no meaning, before anything is computed from it."""
    demand(facts.ball in BALLS and facts.loss in POWERS, "an unknown ball or loss")
    demand(0 < facts.epsilon <= 1 << 10 and 0 < facts.delta < 1, "epsilon or delta out of range")
    whole = [facts.resolution, facts.half, facts.points]
    demand(all(type(n) is int and n >= 1 for n in whole), "no cells")
    demand(type(facts.centred) is bool and facts.points % 2 == 0, "no cells")
    demand(facts.half * facts.points < 1 << 61, "draws would not be 64-bit integers")
    natural = all(type(w) is int and w >= 0 for w in [*facts.weights, facts.atom])
    demand(natural and facts.sensitivity > 0, "a weight is not natural")
    return facts


def total_of(facts: VectorFacts, cells: OrbitCells) -> int:
    """The sum of all weights."""
    demand(len(facts.weights) == len(cells.sizes), "the weights do not fit the grid")
    total = sum(n * w for n, w in zip(cells.sizes, facts.weights, strict=True)) + facts.atom
    demand(0 < total < 1 << 62, "the weights are not those of a law that can be drawn")
    return total


def law_cells(facts: VectorFacts) -> OrbitCells:
    """The cells of the law."""
    return OrbitCells(facts.dim, facts.half, centred=facts.centred)


# --- the noise ------------------------------------------------------------------------------------


def upper_bound(facts: VectorFacts) -> Fraction:
    """The expected loss of the noise."""
    cells = law_cells(facts)
    costs = (sum((mean_loss(d, facts.loss) for d in far), Fraction(0)) for far in cells.middles)
    terms = zip(cells.sizes, facts.weights, costs, strict=True)
    spent = sum((n * w * c for n, w, c in terms), Fraction(0)) / total_of(facts, cells)
    return spent * (facts.sensitivity / facts.resolution) ** facts.power


def is_private(facts: VectorFacts, delta: Fraction) -> bool:
    """Whether the shortfall is proved to be at most ``delta`` for all shifts in the ball."""
    cells, factor = law_cells(facts), exp_bounds(facts.epsilon)[0]
    num, den, weights = factor.numerator, factor.denominator, [*facts.weights, 0]
    known: dict[Shift, int] = {(0,) * facts.dim: 0}

    def value(shift: Shift) -> int:
        if shift not in known:
            short = (
                times * max(weights[own] * den - weights[met] * num, 0)
                for (own, met), times in cells.pairs(shift).items()
            )
            known[shift] = sum(short)
        return known[shift]

    most = math.floor(delta * total_of(facts, cells) * den) - facts.atom * den
    radius = rounded_radius(facts.ball, facts.resolution, facts.points, facts.dim)
    shifts = lattice_shifts(facts.ball, radius, facts.dim)
    if most < 0 or any(value(shift) > most for shift in reversed(shifts)):
        return False
    return BoundaryCover(facts.ball, radius, facts.dim).holds(value, most)


# --- the lower bound ------------------------------------------------------------------------------


def lower_bound(facts: VectorFacts) -> Fraction:
    """What the multipliers prove every private noise to lose at least."""
    about = (facts.dim, facts.ball, facts.loss, facts.epsilon, facts.delta)
    return unit_bound(facts.bound, *about) * facts.sensitivity**facts.power


def unit_bound(
    bound: Multipliers, dim: int, ball: str, loss: str, epsilon: Fraction, delta: Fraction
) -> Fraction:
    """The same for a ball of radius 1."""
    whole = all(type(n) is int for n in (bound.resolution, bound.half, bound.window))
    padded = whole and 0 <= bound.window <= bound.half - bound.resolution and bound.resolution >= 1
    demand(padded, "the lower bound needs a cube that pads its window")
    demand(all(type(x) is int and x >= 0 for x in bound.prices), "a price is not natural")
    allowed = set(lattice_shifts(ball, Fraction(bound.resolution), dim))
    demand(len(set(bound.shifts)) == len(bound.shifts), "a shift is counted twice")
    demand(set(bound.shifts) <= allowed, "a shift is not in the ball")
    cells = OrbitCells(dim, bound.half, centred=True, window=bound.window)
    own, met = _tally(bound, cells)
    factor = exp_bounds(epsilon)[1]
    outside = [2 * (bound.half + 1), *[0] * (dim - 1)]
    theta = sum((node_loss(d, loss) for d in outside), Fraction(0))
    for o, (size, far) in enumerate(zip(cells.sizes, cells.middles, strict=True)):
        cost = sum((node_loss(d, loss) for d in far), Fraction(0))
        theta = min(theta, cost + (own[o] - factor * met[o]) / (SCALE * size))
    value = theta - delta * Fraction(sum(bound.prices), SCALE)
    return max(value, Fraction(0)) / bound.resolution ** POWERS[loss]


def _tally(bound: Multipliers, cells: OrbitCells) -> tuple[list[int], list[int]]:
    """Sums of the multipliers by own and by met orbit; those of a shift come in order."""
    own, met = ([0] * (len(cells.sizes) + 1) for _ in range(2))
    for shift, price, given in zip(bound.shifts, bound.prices, bound.rows, strict=True):
        pairs = sorted(cells.pairs(shift).items())
        demand(len(given) == len(pairs), "a multiplier is missing")
        for ((mine, other), times), z in zip(pairs, given, strict=True):
            demand(type(z) is int and 0 <= z <= price * times, "a multiplier is out of its range")
            own[mine] += z
            met[other] += z  # the last place collects what meets no cell
    return own, met


# --- the whole ------------------------------------------------------------------------------------


def verify(document: Document) -> tuple[Fraction, Fraction]:
    """The proved (lower, upper); raises :class:`Refuted` with the reason otherwise.

    ``lower`` may be more than is stated: older files used fewer digits of e**epsilon.
    """
    with damage_refutes():
        facts = facts_of(document)
        upper, lower = upper_bound(facts), lower_bound(facts)
        demand_stated(document, lower, upper, may_be_more=True)
        demand(is_private(facts, facts.delta), "the shortfall is not proved to be <= delta")
    return lower, upper


def rests_on(document: Document) -> str:
    """What a proof takes from the file without a check: nothing."""
    del document
    return ""
