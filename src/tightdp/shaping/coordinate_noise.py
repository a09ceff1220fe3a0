r"""Noise for a statistic entry by entry: a one-dimensional law for each, exactly composed.

For one entry this is where (epsilon, delta) and designed noise come in. For several, a person moves
at most t entries (t = 2 of the counts of one category), and the budget is shared by t, not by all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.public_rows import Images
from tightdp.data.statistics import Statistic
from tightdp.design.composed_law import ComposedDesign
from tightdp.design.designs import Design, design_noise
from tightdp.errors import (
    DimensionError,
    FloatArray,
    amount_within,
    check_choice,
    exact_amount,
    fail,
    shown,
)
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    TruncatedGeometric,
)
from tightdp.noise.law import ContinuousLaw, LatticeLaw, NoiseLaw
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.privacy import check_epsilon, text_up
from tightdp.randomness import RandomLike, source
from tightdp.shaping.reach import (
    PUBLIC_SEED,
    how_many,
    is_whole,
    remembered,
    simultaneous,
    smaller,
    upwards,
)
from tightdp.shaping.shared_costs import most_each

_LEAST_DELTA = Fraction(1, 2**1074)
_SLACK = 2.0**-40  # relative rounding of a support function
_LEAST_VARIANCE = 1e-40  # of integers: what huge epsilons leave is noise, but no double
DESIGN_STEPS = 1 << 38  # lattice points per unit that tables of designs can do with
_WORTH = Fraction(1001, 1000)  # a smaller gain in epsilon is not worth another law


def _geometric(epsilon: Number, delta: float, steps: int) -> LatticeLaw:
    return Geometric(epsilon=epsilon, sensitivity=steps)


def _truncated(epsilon: Number, delta: float, steps: int) -> LatticeLaw:
    return TruncatedGeometric(epsilon=epsilon, delta=delta, sensitivity=steps)


def _staircase(epsilon: Number, delta: float, steps: int) -> LatticeLaw:
    return DiscreteStaircase(epsilon=epsilon, sensitivity=steps)


def _tulap(epsilon: Number, delta: float, steps: int) -> LatticeLaw:
    return DiscreteTulap(epsilon=epsilon, delta=delta, sensitivity=steps)


Maker = Callable[[Fraction, float, int], LatticeLaw]

PURE: dict[str, Maker] = {"laplace": _geometric, "staircase": _staircase, "tulap": _tulap}
LOSSY: dict[str, Maker] = {"truncated-laplace": _truncated, "tulap": _tulap}
FAMILIES = (*dict.fromkeys([*PURE, *LOSSY]), "designed")


class CoordinateNoise:
    r"""Independent integer noise on every entry.

    **Privacy.** Entry j moves by at most :math:`m_j` lattice steps between neighbours, and at most
    t entries move [P1]. The law of entry j is :math:`(\epsilon_j, \delta_j)`-DP for :math:`m_j`
    [P2]. Entries that do not move cost nothing, so by basic composition the release is
    :math:`(\sum_{j \in J} \epsilon_j, \sum_{j \in J} \delta_j)`-DP for the t entries J that cost
    most. A named law is made for a budget: every entry gets the same epsilon and delta, by these
    sums or by the exact composition theorem (Kairouz and others, 2017)
    (:mod:`tightdp.shaping.shared_costs`), whichever leaves less noise. Two laws that were designed
    together are proved together (:class:`~tightdp.ComposedDesign`) for two entries that both may
    move, on any grid of whole steps a cell [P3].
    """

    def __init__(
        self, statistic: Statistic, noise: object, epsilon: Number | None, delta: Number
    ) -> None:
        self.statistic = statistic
        rows = statistic.schema.rows_per_person
        self.moved = min(len(statistic), statistic.touched() * rows)  # [P1]
        if isinstance(noise, Design):
            noise = noise.noise
        if isinstance(noise, ComposedDesign):
            self._take_both(noise, epsilon, delta)
        elif isinstance(noise, NoiseLaw):
            self._take(noise, epsilon, delta)
        else:
            self._make(noise, epsilon, delta)
        self.resolution = self.factor * statistic.resolution(self.bits)
        # found when they are asked for; what is found is the same whoever asks first
        self._ends: dict[float, FloatArray] = {}
        self._pilots: dict[int, FloatArray] = {}

    # --- a named family, for a budget ---------------------------------------------------------

    def _make(self, noise: object, epsilon: Number | None, delta: Number) -> None:
        name = check_choice("noise", noise, FAMILIES)
        self.epsilon, self.delta = check_epsilon(epsilon), check_share(delta)
        schema = self.statistic.schema
        self.bits = self._design_bits() if name == "designed" else schema.bits
        makers = LOSSY if self.delta else PURE
        if name != "designed" and name not in makers:
            need = "`delta` > 0" if name in LOSSY else "`delta` = 0"
            fail(f"`noise` {name!r} needs {need}. Got delta = {delta}.")
        steps = self._steps()
        found = [
            self._designed(*share, steps)
            if name == "designed"
            else (1, [makers[name](*share, moved) for moved in steps])  # [P2]
            for share in self._shares()
        ]
        self.factor, self.laws = min(found, key=_mean_error)

    def _shares(self) -> list[tuple[Fraction, float]]:
        """What each entry may spend: by sums, and by the theorem where that is worth a try."""
        plain = self.epsilon / self.moved, self.delta / self.moved
        if not self.delta:
            return [(plain[0], 0.0)]
        more = most_each(self.epsilon, self.delta, self.moved, lossy=True)
        tries = [plain, more] if more[0] > plain[0] * _WORTH else [plain]
        return [(epsilon, float_down(delta)) for epsilon, delta in tries]

    def _designed(
        self, epsilon: Number, delta: float, steps: list[int]
    ) -> tuple[int, list[LatticeLaw]]:
        """The certified least mean error: on the integers for counts, scaled for other entries."""
        if self.statistic.degree == 0:
            given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "integer": True}
            designs = [design_noise(sensitivity=moved, **given) for moved in steps]
            return 1, [design.noise.lattice(1) for design in designs]
        law = design_noise(epsilon=epsilon, delta=delta).noise
        factor = finer_lattice(law, steps)
        return factor, [on_lattice(law, factor * moved) for moved in steps]  # [P2]

    # --- a law of the user, scaled to every entry ---------------------------------------------

    def _take(self, law: NoiseLaw, epsilon: Number | None, delta: Number) -> None:
        self.bits = self._design_bits()
        steps = self._steps()
        self.factor = finer_lattice(law, steps)
        self.laws = [on_lattice(law, self.factor * moved) for moved in steps]
        spent = [law.guarantee() for law in self.laws]
        self.epsilon = self._worst([exact_amount("epsilon", g.epsilon) for g in spent])
        self.delta = self._worst([exact_amount("delta", g.delta) for g in spent])
        if self.delta >= 1:
            fail(
                f"`noise` must be a law with a smaller delta: {self.moved} entries can move at "
                f"once, and their deltas add up to {text_up(self.delta)}."
            )
        what = f"the law on {self.moved} moving entries"
        check_paid(epsilon, delta, (self.epsilon, self.delta), what)

    def _take_both(self, design: ComposedDesign, epsilon: Number | None, delta: Number) -> None:
        """Two laws that are private together, each scaled to its entry."""
        if len(self.statistic) != 2 or design.ball != "linf":
            fail(
                "`statistic` must have two entries for noises that were designed together, and the "
                f"design must let both move (ball='linf'). Got {len(self.statistic)} entries and "
                f"ball={design.ball!r}.",
                DimensionError,
            )
        design.verify()  # [P3]
        self.bits = self._design_bits()
        steps = self._steps()
        pairs = list(zip(design.noises, steps, strict=True))
        self.factor = math.lcm(*(finer_lattice(law, [moved]) for law, moved in pairs))
        self.laws = [on_lattice(law, self.factor * moved) for law, moved in pairs]
        self.epsilon, self.delta = design.epsilon, design.delta
        check_paid(epsilon, delta, (self.epsilon, self.delta), "the design")

    def _worst(self, parts: list[Fraction]) -> Fraction:
        return sum(sorted(parts)[-self.moved :], Fraction(0))

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether no entry moves further than its law allows, and no more entries than paid for."""
        rows = self.statistic.schema.rows_per_person
        most = np.array([law.sensitivity // rows for law in self.laws], dtype=object)
        near = (np.abs(moves) <= most).all(axis=1)
        few = np.minimum(rows * (moves != 0).sum(axis=1), len(self.laws)) <= self.moved
        return np.asarray(near & few, dtype=bool)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        rows = self.statistic.schema.rows_per_person
        moving = 0
        for block in images:
            low, high = block.values.min(axis=0), block.values.max(axis=0)
            reach = high - low if paired else np.maximum(high, -low)
            if any(
                rows * int(r) > self.laws[j].sensitivity
                for j, r in zip(block.entries, reach, strict=True)
            ):
                return False
            # no more entries than two rows have between them, nor than move at all
            each = int((block.values != 0).sum(axis=1).max())
            moving += min(2 * each if paired else each, int((reach != 0).sum()))
        return min(rows * moving, len(self.laws)) <= self.moved

    def covers_by_structure(self) -> bool:
        """The sensitivities are supports of a body around the sensitivity space."""
        return all(
            self.factor * steps <= law.sensitivity
            for steps, law in zip(self._steps(), self.laws, strict=True)
        )

    # --- what both need -----------------------------------------------------------------------

    def _design_bits(self) -> int:
        """A lattice whose cells a design can count."""
        return self.statistic.bits_within(DESIGN_STEPS // self.statistic.schema.rows_per_person)

    def _reaches(self) -> FloatArray:
        """How far one row moves every entry of the scaled statistic."""
        hull = self.statistic.sensitivity_space().hull()
        return np.asarray(hull.support(np.eye(len(self.statistic))))

    def _steps(self) -> list[int]:
        """The same in lattice steps; a difference of integers is an integer, so rounded down."""
        resolution = self.statistic.resolution(self.bits)
        rows = self.statistic.schema.rows_per_person
        whole = [math.floor(Fraction(r * (1 + _SLACK)) * resolution) for r in self._reaches()]
        return [rows * max(1, steps) for steps in whole]

    @property
    def cost(self) -> Cost:
        """The sums of the entries that cost most, unit by unit; or what (epsilon, delta) implies.

        Independent entries that do not move cost nothing, so that the sum over those that do is at
        most that of as many of the costliest.
        """
        each = [law.cost for law in self.laws]
        rho, mu = (
            tuple(self._worst([getattr(cost, name) for cost in each]) for name in names)
            for names in (("rho", "rho_delta"), ("mu_squared", "mu_delta"))
        )
        whole = Cost.of(self.epsilon, self.delta)
        parts = min(rho, (whole.rho, whole.rho_delta)), min(mu, (whole.mu_squared, whole.mu_delta))
        return Cost(
            epsilon=self.epsilon,
            delta=self.delta,
            rho=parts[0][0],
            rho_delta=parts[0][1],
            mu_squared=parts[1][0],
            mu_delta=parts[1][1],
        )

    @property
    def words(self) -> str:
        """The exact law, for people."""
        kinds = list(dict.fromkeys(map(repr, self.laws)))
        each = f"{kinds[0]} on every entry" if len(kinds) == 1 else "; ".join(kinds)
        return f"independent integers, {each}, in units of 1/{self.resolution}"

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Draws: a vector of integers, or ``size`` rows of them."""
        bits = source(rng)  # one for all entries: a seed for each would repeat the noise
        columns = [law.sample(1 if size is None else size, rng=bits) for law in self.laws]
        draws = np.column_stack(columns)
        return draws[0] if size is None else draws

    @property
    def draws(self) -> CoordinateNoise:
        return self

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic; never 0, where doubles underflow."""
        each = [max(law.variance(), _LEAST_VARIANCE) for law in self.laws]
        return np.diag(each) / float(self.resolution) ** 2

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise.

        The image of the box that holds all entries by independence; where an entry of the image
        mixes several, draws from the law of the mixture, if they say less.
        """
        whole = is_whole(linear, self.resolution)
        box = upwards(np.abs(linear) @ self._box(linear, confidence), whole=whole)
        if np.count_nonzero(linear, axis=1).max() == 1:
            return box
        key = (self.words, confidence)
        return remembered(key, linear, lambda: self._mixed(linear, confidence, box, whole))

    def _box(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of the entries that the image needs, at once; 0 for the others."""
        used = np.abs(linear).max(axis=0) > 0
        tail = (1 - confidence ** (1 / max(1, int(used.sum())))) / 2
        if tail not in self._ends:
            self._ends[tail] = farthest_ends(self.laws, tail) / float(self.resolution)
        return np.where(used, self._ends[tail], 0.0)

    def _mixed(
        self, linear: FloatArray, confidence: float, box: FloatArray, whole: bool
    ) -> FloatArray:
        size = how_many(len(self.laws), confidence)
        if size not in self._pilots:
            draws = np.asarray(self.sample(size, rng=PUBLIC_SEED), dtype=np.float64)
            self._pilots[size] = draws / float(self.resolution)
        draws = self._pilots[size]
        spread = np.sqrt(np.diag(linear @ self.covariance() @ linear.T))
        simulated = upwards(simultaneous(draws @ linear.T, spread, confidence), whole=whole)
        return smaller(simulated, box, spread)


def finer_lattice(law: NoiseLaw, steps: list[int]) -> int:
    """How much finer the lattice must be so that the cells of a piecewise law are whole steps."""
    if not isinstance(law, PiecewiseNoise):
        return 1
    cells = law.cells_per_sensitivity()
    return math.lcm(*(cells // math.gcd(moved, cells) for moved in steps))


def on_lattice(law: NoiseLaw, steps: int) -> LatticeLaw:
    """The lattice law whose sensitivity is ``steps``: the unit of a law is its own sensitivity."""
    if isinstance(law, ContinuousLaw):
        return law.lattice(law._exact_sensitivity / steps)
    assert isinstance(law, LatticeLaw)
    if law.sensitivity < steps:
        fail(
            f"`noise` is a law on the integers for sensitivity {law.sensitivity}, and an entry "
            f"moves by {steps} steps of its lattice: make the law for that."
        )
    return law


def family_for(name: str, delta: Fraction) -> tuple[str, bool]:
    """The family that a name stands for at this delta, and whether it spends a delta.

    >>> family_for("designed", Fraction(0)), family_for("laplace", Fraction(1, 10))
    (('staircase', False), ('laplace', False))
    """
    if not delta and name == "designed":
        name = "staircase"  # the optimum of delta = 0
    if not delta and name not in PURE:
        fail(f"`noise` {name!r} needs `delta` > 0. Got delta = 0.")
    return name, bool(delta) and name not in PURE


def farthest_ends(laws: Sequence[LatticeLaw], tail: float) -> FloatArray:
    """How far each law reaches, but for so much probability on either side."""
    ends = [np.abs([law.quantile(tail), law.quantile(1 - tail)]).max() for law in laws]
    return np.array(ends, dtype=np.float64)


def _mean_error(made: tuple[int, list[LatticeLaw]]) -> float:
    factor, laws = made
    return sum(law.expected_loss(1) for law in laws) / factor


def check_share(delta: Number) -> Fraction:
    """An exact delta in [0, 1), not smaller than a double can be: that would buy nothing."""
    lost = amount_within("delta", delta, "[0, 1)")
    if 0 < lost < _LEAST_DELTA:
        fail(f"`delta` must be 0, or at least 2**-1074. Got {shown(delta)}.")
    return lost


def check_paid(
    epsilon: Number | None, delta: Number, spent: tuple[Fraction, Fraction], what: str
) -> None:
    """Refuse a budget that does not cover what a law or design of the user's spends."""
    asked = spent[0] if epsilon is None else check_epsilon(epsilon)
    lost = spent[1] if epsilon is None and not delta else check_share(delta)
    if asked < spent[0] or lost < spent[1]:
        fail(
            f"`epsilon` and `delta` must cover {what}: epsilon = {text_up(spent[0])}, "
            f"delta = {text_up(spent[1])}. Got {epsilon} and {delta}: leave them out, or design "
            "it for less."
        )


def float_down(x: Fraction) -> float:
    """The largest double that means at most x.

    >>> float_down(Fraction(1, 10)), float_down(Fraction(2, 3)) < Fraction(2, 3)
    (0.1, True)
    """
    near = float(x)
    while exact_amount("x", near) > x:
        near = math.nextafter(near, -math.inf)
    return near
