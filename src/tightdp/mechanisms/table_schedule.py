"""Who gets what of a budget that buys many tables: shares, noise and rounds, from public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.discrete_draws import discrete_gaussians, discrete_laplaces
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource

_UNITS = 10**6  # shares are so many parts of a budget, rounded down
_ROOT_BITS = 64
_LEAST_VARIANCE = 1e-30  # where doubles underflow, at rates that no longer protect anybody
_FIRST = tuple(Fraction(i, 20) for i in range(2, 13))  # parts that one-way tables may have
_WELL = 0.02  # total variation from which on noise is small enough for a stated table
MOST_ROUNDS = 3  # for each stated table: what a release may take of time
_CHOOSING, _CHOOSING_RHO = Fraction(1, 5), Fraction(1, 10)  # of a round, for its choice
_STRENGTHS = 12  # of dependence, between the noise of one-way tables and the largest there is
_FINE = 16  # parts that the cheapest round takes of what is left for rounds
_FIRST_ROUND = 4  # no more than such a part of it is spent before anything is known of pairs
_STEP = 4.0  # what a round may take more or less than the one before


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
    """What is spent where: the noise of the tables that are stated, and what rounds may take.

    What is left for rounds is divided into equal parts. A round takes some of them, as many as are
    left at most, so that all rounds together never take more than there are.

    Attributes
    ----------
    stated : tuple of CellNoise
        One for every table that is measured whatever comes out.
    unit : Fraction
        The amount of a part.
    choosing : Fraction
        How much of what a round takes is for its choice.
    parts : int
        None where there are no rounds.
    usual, least : int
        The parts that a round takes at most, but for the last one, and at least; where both are
        the same, rounds do not depend on what is released.
    moved : int
        Cells that a neighbour changes.
    """

    stated: tuple[CellNoise, ...]
    unit: Fraction
    choosing: Fraction
    parts: int
    usual: int
    least: int
    moved: int
    gaussian: bool

    @property
    def total(self) -> Fraction:
        """All that may be spent."""
        return sum((noise.amount for noise in self.stated), self.parts * self.unit)

    @property
    def rounds(self) -> int:
        """How many rounds there are at most."""
        return self.parts // self.least if self.parts else 0

    @property
    def usual_rounds(self) -> int:
        """How many there are where all take what is usual."""
        return self.parts // self.usual if self.parts else 0

    def noise(self, parts: int) -> CellNoise:
        """Of the table that a round chooses which takes so many parts."""
        return CellNoise(parts * self.unit * (1 - self.choosing), self.moved, self.gaussian)

    def choice_epsilon(self, parts: int) -> Fraction:
        r"""The epsilon of the exponential mechanism of a round.

        Its log ratios lie in an interval of that length, which is
        :math:`\epsilon^2/8`-zCDP (Cesar and Rogers, 2021): the root is rounded down.
        """
        amount = parts * self.unit * self.choosing
        return root_down(8 * amount) if self.gaussian else amount

    def first(self) -> int:
        """Parts that the first round takes."""
        return self.taken(self.parts, max(self.least, min(self.usual, self.parts // _FIRST_ROUND)))

    def taken(self, left: int, wanted: int) -> int:
        """Parts that a round takes: all that is left where that is not enough for two."""
        return wanted if left >= 2 * wanted else left

    def following(self, parts: int, missed: float, size: float) -> int:
        r"""How many parts the next round wants, by what the last one found.

        Let the tables that rounds are for be off by S in l1 norm, M of them. R rounds of k parts
        each out of B, R = B/k, measure R of them with noise of the size N: what is missed in all,
        :math:`(M - R) S + R N`, is least where :math:`N = 2S/3` for Gaussian noise, whose size is
        like :math:`k^{-1/2}`, and where :math:`N = S/2` for Laplace noise, like :math:`k^{-1}`. So
        where a table was far off, the next ones may be noisier, and there are more rounds; where it
        was not, rounds take what is usual.

        Parameters
        ----------
        parts : int
            What the last round took.
        missed, size : float
            How far its noisy table is from the model before, in l1 norm, and how far noise alone
            would be expected to put it: about :math:`\sqrt{S^2 + N^2}` and N.
        """
        factor = _STEP
        if missed > size:
            share = size / missed  # of N / S = share / sqrt(1 - share^2)
            power, best = (2, 1.5) if self.gaussian else (1, 2.0)
            factor = (best * share / math.sqrt(1 - share**2)) ** power
        wanted = round(parts * min(max(factor, 1 / _STEP), _STEP))
        return max(self.least, min(self.usual, wanted))


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
    weights = np.array(sizes, dtype=np.float64) ** (2 / 3 if gaussian else 1 / 2)
    shares: FloatArray = weights / weights.sum()
    return [amount * Fraction(max(1, math.floor(s * _UNITS)), _UNITS + len(sizes)) for s in shares]


def table_shares(
    amount: Fraction,
    neighbors: Neighbors,
    *,
    gaussian: bool,
    stated: Sequence[int],
    offered: Sequence[int] = (),
    rows: int = 1,
    rounds: int | None = None,
    most: int = 1 << 17,
) -> TableShares:
    """Shares for stated tables and for rounds that choose among offered ones, by their cells.

    Stated tables have the whole amount where nothing is offered. Else they have the least part with
    which noise costs them a fiftieth of total variation, from a tenth to six tenths. A round takes
    no more than it would if there were as many as is least regretted
    (:func:`rounds_of_least_regret`), and less where the rounds before it found much
    (:meth:`TableShares.following`); there are at most three for each stated table and one for each
    that is offered, and no more than ``most``. ``rounds`` of a stated number take equal parts.
    """
    moved = neighbors.rows_apart
    if not offered:
        parts = shared_out(amount, stated, gaussian=gaussian)
        nothing = Fraction(0)
        return TableShares(
            _noises(parts, moved, gaussian), nothing, nothing, 0, 0, 0, moved, gaussian
        )
    for first in _FIRST:
        noises = _noises(shared_out(amount * first, stated, gaussian=gaussian), moved, gaussian)
        pairs = zip(stated, noises, strict=True)
        if np.mean([cells * noise.mean_size for cells, noise in pairs]) / (2 * rows) <= _WELL:
            break
    left, choosing = amount * (1 - first), _CHOOSING_RHO if gaussian else _CHOOSING
    if rounds is not None:
        return TableShares(noises, left / rounds, choosing, rounds, 1, 1, moved, gaussian)
    most = min(most, len(offered), MOST_ROUNDS * len(stated))
    whole = left * (1 - choosing)
    sizes = [CellNoise(whole / count, moved, gaussian).mean_size for count in range(1, most + 1)]
    noise = float(np.mean(offered)) * np.array(sizes) / (2 * rows)
    pairs = zip(stated, noises, strict=True)
    floor = float(np.mean([cells * noise.mean_size for cells, noise in pairs])) / rows
    usual = most * _FINE // rounds_of_least_regret(noise, floor, len(offered))
    unit = left / (most * _FINE)
    return TableShares(noises, unit, choosing, most * _FINE, usual, _FINE, moved, gaussian)


def rounds_of_least_regret(noise: FloatArray, floor: float, pairs: int) -> int:
    r"""How many rounds to have when nothing is known of how the columns depend on each other.

    Too few rounds miss pairs, too many make all noisy. How many are best depends on how many pairs
    are dependent and how strongly, which is private. So the number is taken whose error, in total
    variation summed over pairs, is the least multiple of that of the best number in the worst case.
    The cases: m pairs that have nothing to do with each other, m = 1, 2, 4, ..., or all pairs of c
    columns, which R <= c - 1 rounds make R (R + 1) / 2 of known; a pair that is not known is off by
    a strength from that of one-way noise to 1/2, one that is known by the noise of a round, less
    where rounds are left to measure again; and all pairs by the noise of one-way tables.

    Parameters
    ----------
    noise : array
        Of a chosen table in total variation, for 1, 2, ... rounds.
    floor : float
        What the noise of one-way tables costs a pair.
    pairs : int

    Examples
    --------
    >>> weak, strong = 0.05 * np.arange(1, 31), 0.001 * np.arange(1, 31)
    >>> [rounds_of_least_regret(noise, 0.05, 45) for noise in (weak, strong)]
    [3, 29]
    """
    rounds = np.arange(1, len(noise) + 1)
    size = np.minimum(noise, 1.0)
    columns = math.ceil((1 + math.sqrt(1 + 8 * pairs)) / 2)
    scattered = [1 << k for k in range(pairs.bit_length())]
    cases = [(m, m, np.minimum(rounds, m)) for m in scattered]
    cases += [
        (c * (c - 1) // 2, c - 1, np.minimum(rounds * (rounds + 1), c * (c - 1)) // 2)
        for c in range(2, columns + 1)
    ]
    worst = np.zeros(len(noise))
    for strength in np.geomspace(min(floor, 0.5), 0.5, _STRENGTHS):
        for dependent, needed, known in cases:
            again = size * np.sqrt(np.minimum(1.0, needed / rounds))
            error = pairs * floor + (dependent - known) * strength + known * again
            best = min(float(error.min()), pairs * floor + dependent * strength)
            worst = np.maximum(worst, error / best)
    return 1 + int(np.argmin(worst))


def _noises(parts: Sequence[Fraction], moved: int, gaussian: bool) -> tuple[CellNoise, ...]:
    return tuple(CellNoise(part, moved, gaussian) for part in parts)
