"""Composed Gaussians on integers, audited by the exact law of their privacy loss.

The loss of discrete Gaussian noise of variance v on a move d is (d^2 + 2 d z)/(2 v) at z: rational.
So the law of the loss of many entries, of one vector or of many releases, with different variances,
lives on a lattice of rationals, and is found by products of polynomials with integer coefficients,
rounded up. What is stated must never be below the divergence at these laws. The loss of rounded
noise is rounded up to a fine lattice first, which only adds to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import mpmath
import numpy as np
import pytest

import tightdp as tdp
from tightdp.accounting import Cost
from tightdp.accounting.conversions import gaussian_dp_delta, gaussian_dp_epsilon, zcdp_epsilon
from tightdp.ledger import Ledger
from tightdp.shaping.gaussian_noise import GaussianNoise, gaussian_noise

BITS = 96
ONE = 1 << BITS  # a chance of 1; chances are integers, rounded up
FAR = 10  # standard deviations: less than 1e-22 lies beyond, and is added whole
BEYOND = Fraction(1, 10**22)
FINE = Fraction(1, 1 << 9)  # to which losses of rounded noise are rounded up
LOW, HIGH = -4, 14  # losses below and above are raised: to the end, and to infinity


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(70):
        yield


class Loss(NamedTuple):
    """Chances of the losses (first + i) * step."""

    chances: list[int]
    first: int
    step: Fraction
    lost: int
    """The chance that is counted whole."""


def chances(variance: Fraction, *, rounded: bool) -> list[int]:
    """Of -n, ..., n under Gaussian integers of this variance, rounded up."""
    sigma = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
    reach = int(FAR * sigma) + 2
    if rounded:
        ends = [
            mpmath.erfc((z - mpmath.mpf(1) / 2) / sigma / mpmath.sqrt(2)) / 2
            for z in range(reach + 2)
        ]
        half = [ends[z] - ends[z + 1] for z in range(reach + 1)]
    else:
        half = [mpmath.exp(-mpmath.mpf(z * z) / (2 * sigma**2)) for z in range(reach + 1)]
        # sums beyond the window make chances smaller: left out
        whole = half[0] + 2 * mpmath.fsum(half[1:])
        half = [weight / whole for weight in half]
    up = [int(mpmath.floor(chance * ONE)) + 2 for chance in half]
    return up[:0:-1] + up


def discrete_loss(variance: Fraction, move: int, step: Fraction) -> Loss:
    """Of a move, on a lattice that holds it."""
    found = chances(variance, rounded=False)
    reach = len(found) // 2
    each, rest = divmod(Fraction(abs(move)) / variance / step, 1)
    start, other = divmod(Fraction(move * move) / (2 * variance) / step, 1)
    assert not rest
    assert not other
    spread = [0] * (2 * reach * int(each) + 1)
    spread[:: int(each)] = found
    return Loss(spread, int(start) - reach * int(each), step, math.ceil(ONE * BEYOND))


def rounded_loss(variance: Fraction, move: int, step: Fraction) -> Loss:
    """Of a move of rounded noise: log P(z)/P(z - d), rounded up to the lattice."""
    found = chances(variance, rounded=True)
    reach, moved = len(found) // 2, abs(move)
    at: dict[int, int] = {}
    left = 0  # where the other law has no chance that is listed
    for z in range(-reach, reach + 1):
        there = z + moved
        if not -reach <= there <= reach:
            left += found[z + reach]
            continue
        ratio = mpmath.log(mpmath.mpf(found[z + reach]) / found[there + reach])
        place = int(mpmath.ceil(ratio / (mpmath.mpf(step.numerator) / step.denominator)))
        at[place] = at.get(place, 0) + found[z + reach]
    assert left < 100 * ONE * BEYOND
    spread = [at.get(place, 0) for place in range(min(at), max(at) + 1)]
    return Loss(spread, min(at), step, math.ceil(ONE * BEYOND))


def product(first: list[int], second: list[int]) -> list[int]:
    """The law of a sum: one product of two long integers, then rounded up."""
    width = 2 * ONE.bit_length() + min(len(first), len(second)).bit_length() + 8
    size = width // 8 + 1

    def packed(law: list[int]) -> int:
        return int.from_bytes(b"".join(chance.to_bytes(size, "little") for chance in law), "little")

    whole = packed(first) * packed(second)
    count = len(first) + len(second) - 1
    data = whole.to_bytes(count * size, "little")
    terms = (int.from_bytes(data[i * size : (i + 1) * size], "little") for i in range(count))
    return [-(-term // ONE) for term in terms]


def together(parts: Sequence[Loss]) -> Loss:
    """The loss of all; equal ones are squared."""
    kinds = {id(part): part for part in parts}
    out: Loss | None = None
    for name, part in kinds.items():
        count, power = sum(id(other) == name for other in parts), part
        while count:
            if count & 1:
                out = power if out is None else both(out, power)
            count >>= 1
            power = both(power, power) if count else power
    assert out is not None
    return out


def both(one: Loss, other: Loss) -> Loss:
    assert one.step == other.step
    law, first = product(one.chances, other.chances), one.first + other.first
    more = max(0, math.floor(LOW / one.step) - first)
    if more:
        law = [sum(law[: more + 1]), *law[more + 1 :]]
    most = max(1, math.ceil(HIGH / one.step) - first - more)
    lost = one.lost + other.lost + sum(law[most:])
    return Loss(law[:most], first + more, one.step, lost)


def divergence(loss: Loss, epsilon: Fraction) -> Fraction:
    """The delta at epsilon, from above: E (1 - e^(epsilon - L))_+ and all that lies far out."""
    start = max(0, math.floor(epsilon / loss.step) + 1 - loss.first)

    def below(power: Fraction) -> int:
        return int(mpmath.floor(mpmath.exp(mpmath.mpf(power.numerator) / power.denominator) * ONE))

    rest, fall, total = below(epsilon - (loss.first + start) * loss.step), below(-loss.step), 0
    for chance in loss.chances[start:]:
        total += chance * (ONE - rest)
        rest = rest * fall >> BITS
    return Fraction(total, ONE * ONE) + Fraction(loss.lost, ONE)


def vector_loss(noise: GaussianNoise, move: Sequence[int], *, cut: Fraction = Fraction(1)) -> Loss:
    """Of a move of a vector; ``cut`` plants smaller variances than the stated ones."""
    moving = [(v * cut, int(d)) for v, d in zip(noise.variances, move, strict=True) if d]
    if noise.discrete:
        numbers = [Fraction(d * d) / (2 * v) for v, d in moving]
        numbers += [Fraction(d) / v for v, d in moving]
        shared = math.lcm(*(number.denominator for number in numbers))
        whole = [int(number * shared) for number in numbers]
        step = Fraction(math.gcd(*whole), shared)
        known = {(v, abs(d)): discrete_loss(v, d, step) for v, d in moving}
    else:
        known = {(v, abs(d)): rounded_loss(v, d, FINE) for v, d in moving}
    return together([known[v, abs(d)] for v, d in moving])


def short(noise: GaussianNoise, places: int = 4) -> GaussianNoise:
    """The same noise with variances of few bits, not smaller: losses meet on a short lattice."""
    scale = noise.variances[0] * noise.moves.weights[0]
    more = Fraction(math.ceil(scale * (1 << places)), 1 << places)
    terms = {"epsilon": noise.epsilon, "delta": noise.delta}
    return GaussianNoise(noise.moves, more, discrete=noise.discrete, **terms)


def counts(columns: int) -> tdp.Counts:
    levels = tdp.Category(["a", "b"], other="a")
    facts = {f"k{j}": levels for j in range(columns)}
    return tdp.Counts(tdp.Schema(facts, rows=1000), list(facts))


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
@pytest.mark.parametrize("columns", [1, 3, 6])
def test_vectors_of_counts_keep_their_delta(name, columns):
    """Two to twelve entries move at once; planted: a fifth less variance."""
    epsilon, delta = Fraction(2), Fraction(1, 100)
    noise = short(gaussian_noise(counts(columns), name, epsilon, delta))
    move = [1, -1] * columns
    lost = divergence(vector_loss(noise, move), epsilon)
    assert Fraction(7, 10) * delta < lost <= delta
    assert divergence(vector_loss(noise, move, cut=Fraction(4, 5)), epsilon) > delta * 6 / 5


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
def test_entries_of_different_variances_keep_their_delta(name):
    epsilon, delta = Fraction(2), Fraction(1, 100)
    statistic = counts(3)
    wished = {"targets": [1, 1, 1, 1, 2, 2]}
    made = tdp.AdditiveMechanism(statistic, noise=name, epsilon=epsilon, delta=delta, **wished)
    noise, ratios = made._choice, (1, 1, 1, 1, 4, 4)
    assert isinstance(noise, GaussianNoise)
    assert [v / noise.variances[0] for v in noise.variances] == list(ratios)
    twin = short(noise)
    move = [1, -1] * 3
    lost = divergence(vector_loss(twin, move), epsilon)
    assert lost <= delta
    if name == "gaussian":  # discrete ones of different variances are stated by looser curves
        assert lost > Fraction(7, 10) * delta
    fifth = divergence(vector_loss(twin, move, cut=delta_cut(name)), epsilon)
    assert fifth > delta


def delta_cut(name: str) -> Fraction:
    """A cut of the variances that must be seen: a fifth, and a half where a curve is loose."""
    return Fraction(4, 5) if name == "gaussian" else Fraction(1, 2)


@pytest.mark.parametrize("variances", [(100,), (60, 120)], ids=str)
def test_a_year_of_counts_keeps_the_cap(variances):
    """All counts that a ledger takes, composed exactly: of one noise, and of two in turn."""
    epsilon, delta = Fraction(3), Fraction(1, 10**6)
    costs = [Cost.concentrated(Fraction(1, 2 * v), delta=delta) for v in variances]
    taken: list[int] = []
    with Ledger(epsilon=epsilon, delta=delta, accountant="zcdp") as ledger:
        while ledger.how_many(costs[len(taken) % len(costs)]):
            ledger.spend(costs[len(taken) % len(costs)])
            taken.append(variances[len(taken) % len(costs)])
        worth = zcdp_epsilon(ledger.spent.rho, delta)
    assert len(taken) > 25
    assert worth <= epsilon
    losses = {v: discrete_loss(Fraction(v), 1, Fraction(1, 2 * max(variances))) for v in variances}
    whole = together([losses[v] for v in taken])
    assert divergence(whole, worth) <= delta < divergence(whole, worth - Fraction(1, 2))
    more = together([losses[v] for v in taken + taken[: len(taken) // 2]])
    assert divergence(more, epsilon) > delta  # planted: half as many again


def test_rounded_gaussians_keep_what_they_add_up_to():
    """Six releases of different variances, each exactly Gaussian private: so are all together."""
    variances = [Fraction(v) for v in (2, 3, 3, 5, 8, 8)]
    square = sum((1 / v for v in variances), Fraction(0))

    def whole(cut: Fraction) -> Loss:
        known = {v: rounded_loss(v * cut, 1, FINE) for v in variances}
        return together([known[v] for v in variances])

    stated, fifth = whole(Fraction(1)), whole(Fraction(4, 5))
    for epsilon in (Fraction(1, 2), Fraction(2), Fraction(4)):
        said = gaussian_dp_delta(epsilon, square)
        assert divergence(stated, epsilon) <= said < divergence(fifth, epsilon)
    spent = gaussian_dp_epsilon(square, Fraction(1, 10**6))
    assert divergence(stated, spent) <= Fraction(1, 10**6)


def test_the_law_of_a_sum_is_that_of_a_direct_one():
    """The long products against numbers in doubles; an error of one place would show."""
    loss = discrete_loss(Fraction(100), 1, Fraction(1, 200))
    three = together([loss, loss, loss])
    plain = np.array([chance / ONE for chance in loss.chances])
    direct = np.convolve(np.convolve(plain, plain), plain)
    found = [chance / ONE for chance in three.chances]
    np.testing.assert_allclose(found, direct, rtol=1e-9, atol=1e-25)
    assert three.first == 3 * loss.first
    assert abs(sum(loss.chances) / ONE - 1) < 1e-20
