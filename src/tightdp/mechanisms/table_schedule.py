"""Who gets what of a budget that buys many tables: shares, noise and rounds, from public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.errors import WideIntegers
from tightdp.exact.discrete_draws import discrete_gaussians, discrete_laplaces
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource

_UNITS = 10**6  # shares are so many parts of a budget, rounded down
_ROOT_BITS = 64
_LEAST_VARIANCE = 1e-30  # where doubles underflow, at rates that no longer protect anybody
_CHOOSING = Fraction(1, 10)  # of a round, for its choice
_GROUPS = 9  # of a pair, three by three, that a round must be able to count


@dataclass(frozen=True, slots=True)
class CellNoise:
    r"""Independent integer noise on all cells of a table, of either kind.

    **Privacy.** Statement: for tables of counts of which a neighbour changes one cell by one
    (add-remove) or two (replace-one), noise on all cells is private at ``amount``: epsilon for the
    discrete Laplace law of rate :math:`\epsilon / k`, k the number of cells that move, and rho for
    the discrete Gaussian of variance parameter :math:`k / (2\rho)`.
    Proof: the l1 length of the move is k, its squared l2 length k, too. Log ratios of Laplace noise
    are at most rate times the first. Independent discrete Gaussians are
    :math:`\lVert\Delta\rVert_2^2 / (2\sigma^2)`-zCDP (Canonne, Kamath and Steinke, 2020).
    """

    amount: Fraction
    moved: int
    gaussian: bool

    @property
    def scale(self) -> Fraction:
        """The variance parameter of the Gaussian law, or the rate of the Laplace law."""
        return self.moved / (2 * self.amount) if self.gaussian else self.amount / self.moved

    def sample(self, count: int, rng: RandomSource) -> WideIntegers:
        """So many independent integers."""
        if self.gaussian:
            return discrete_gaussians(self.scale, count, rng)
        return discrete_laplaces(self.scale.numerator, self.scale.denominator, count, rng)

    @property
    def variance(self) -> float:
        """Of one cell; that of the Gaussian law is at most its parameter. Never 0: fits divide."""
        if self.gaussian:
            return max(float(self.scale), _LEAST_VARIANCE)
        rate = float(self.scale)
        return max(2 * math.exp(-rate) / math.expm1(-rate) ** 2, _LEAST_VARIANCE)

    @property
    def mean_size(self) -> float:
        """The expected size of the noise on a cell."""
        if self.gaussian:
            return math.sqrt(2 * float(self.scale) / math.pi)
        rate = float(self.scale)
        return -2 * math.exp(-rate) / math.expm1(-2 * rate)

    def reach(self, miss: float) -> float:
        """A half-width that noise on a cell leaves with at most this probability.

        Of the Laplace law exactly, in integers. A discrete Gaussian has lighter tails than the
        continuous one of its parameter shifted by one.
        """
        if self.gaussian:
            return 1 - math.sqrt(self.scale) * float(scipy.special.ndtri(miss / 2))
        rate = float(self.scale)
        # P(|z| > k) = 2 e^(-rate (k + 1)) / (1 + e^(-rate))
        return max(0.0, math.ceil(math.log(2 / (miss * (1 + math.exp(-rate)))) / rate - 1))

    @property
    def words(self) -> str:
        """The law."""
        if self.gaussian:
            return f"discrete Gaussian, sigma^2 = {_short(self.scale)}"
        return f"discrete Laplace, rate {_short(self.scale)}"


def _short(number: Fraction) -> str:
    exact = str(number)
    return exact if len(exact) <= 24 else f"{float(number):.15g}"


@dataclass(frozen=True, slots=True)
class TableShares:
    """What is spent where: the noise of the tables that are stated, and what rounds take.

    Attributes
    ----------
    stated : tuple of CellNoise
        One for every table that is measured whatever comes out.
    rounds : int
        How many tables are chosen.
    amount : Fraction
        What each of them takes.
    choosing : Fraction
        How much of that is for the choice.
    moved : int
        Cells that a neighbour changes.
    """

    stated: tuple[CellNoise, ...]
    rounds: int
    amount: Fraction
    choosing: Fraction
    moved: int
    gaussian: bool

    @property
    def total(self) -> Fraction:
        """All that is spent."""
        return sum((noise.amount for noise in self.stated), self.rounds * self.amount)

    @property
    def noise(self) -> CellNoise:
        """Of a table that is chosen."""
        return CellNoise(self.amount * (1 - self.choosing), self.moved, self.gaussian)

    @property
    def choice_epsilon(self) -> Fraction:
        r"""The epsilon of the exponential mechanism of a round.

        Its log ratios lie in an interval of that length, which is
        :math:`\epsilon^2/8`-zCDP (Cesar and Rogers, 2021): the root is rounded down.
        """
        amount = self.amount * self.choosing
        return root_down(8 * amount) if self.gaussian else amount


def root_down(number: Fraction) -> Fraction:
    """A rational at most the root of a number, to some 19 digits.

    >>> root_down(Fraction(4)), float(root_down(Fraction(2)))
    (Fraction(2, 1), 1.4142135623730951)
    """
    places = _ROOT_BITS + max(0, number.denominator.bit_length() - number.numerator.bit_length())
    return Fraction(math.isqrt((number.numerator << 2 * places) // number.denominator), 1 << places)


def shared_out(amount: Fraction, sizes: Sequence[int], *, gaussian: bool) -> list[Fraction]:
    r"""Amounts for tables of these sizes, so that the sum of their expected errors is least.

    A table of m cells errs by m times the size of its noise, which is like :math:`\rho^{-1/2}` or
    :math:`1/\epsilon`. By Lagrange's condition amounts are in proportion to :math:`m^{2/3}` or
    :math:`m^{1/2}`.

    >>> shared_out(Fraction(1), [1, 4], gaussian=False)
    [Fraction(111111, 333334), Fraction(111111, 166667)]
    """
    power = 2 / 3 if gaussian else 1 / 2
    # integers: the last bit of a power, which machines do not agree on, decides nothing
    weights = [round(_UNITS * size**power) for size in sizes]
    parts = [max(1, weight * _UNITS // sum(weights)) for weight in weights]
    return [amount * Fraction(part, _UNITS + len(sizes)) for part in parts]


def table_shares(
    amount: Fraction,
    neighbors: Neighbors,
    *,
    gaussian: bool,
    stated: Sequence[int],
    larger: int = 0,
    rounds: int = 0,
) -> TableShares:
    """Shares for stated tables, by their cells, and for rounds that choose others.

    Stated tables have the whole amount where there are no rounds. Else a table takes what a round
    takes; but one-way tables share out what they have together. The ``larger`` tables, of several
    columns, are the last ones.
    """
    moved = neighbors.rows_apart
    if not rounds:
        parts = shared_out(amount, stated, gaussian=gaussian)
        nothing = Fraction(0)
        return TableShares(_noises(parts, moved, gaussian), 0, nothing, nothing, moved, gaussian)
    each, singles = amount / (len(stated) + rounds), stated[: len(stated) - larger]
    parts = shared_out(each * len(singles), singles, gaussian=gaussian)
    noises = _noises([*parts, *[each] * larger], moved, gaussian)
    return TableShares(noises, rounds, each, _CHOOSING, moved, gaussian)


def usual_rounds(
    amount: Fraction,
    neighbors: Neighbors,
    *,
    gaussian: bool,
    stated: int,
    well: float,
    most: int,
) -> int:
    """How many rounds to have beside so many stated tables, by public facts.

    As many as there may be; but so few, at least one, that the noise of a pair in three by three
    groups of levels has no more than the size ``well``.

    >>> facts = {"gaussian": True, "stated": 9, "most": 27}
    >>> [usual_rounds(Fraction(1, 300), Neighbors.ADD_REMOVE, well=w, **facts) for w in (200, 800)]
    [1, 27]
    """
    for rounds in range(most, 1, -1):
        part = amount / (stated + rounds) * (1 - _CHOOSING)
        noise = CellNoise(part, neighbors.rows_apart, gaussian)
        if _GROUPS * noise.mean_size <= well:
            return rounds
    return 1


def _noises(parts: Sequence[Fraction], moved: int, gaussian: bool) -> tuple[CellNoise, ...]:
    return tuple(CellNoise(part, moved, gaussian) for part in parts)
