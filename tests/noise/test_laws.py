"""Every noise law: density, moments, privacy and samplers, against oracles written down here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from tightdp.errors import ParameterError
from tightdp.noise import law as law_module
from tightdp.noise import steps as steps_module
from tightdp.noise.enclosures import coins, exp_minus_bounds, float_up
from tightdp.noise.gaussian_laws import (
    AnalyticGaussian,
    DiscreteGaussian,
    Gaussian,
    NormalLaw,
    gaussian_delta,
)
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.laws import Laplace, Staircase, TruncatedLaplace
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.steps import Steps
from tightdp.noise.table_noise import TableNoise
from tightdp.noise.tulap import Tulap
from tightdp.privacy import Numerics
from tightdp.randomness import SeededSource

LEVEL = 1e-6  # below it a law is refused
DRAWS = 400_000
WEIGHTS = [1, 3, 9, 20, 40, 60, 61, 39, 20, 8, 4, 1]
WIDE = [w << 60 for w in WEIGHTS]


# --- oracles: distribution functions, written from the definitions --------------------------------


def truncated_laplace_cdf(x, epsilon, delta):
    bound = math.log(1 + (math.exp(epsilon) - 1) / (2 * delta))
    size = stats.truncexpon.cdf(np.abs(x), b=bound, scale=1 / epsilon)
    return 0.5 + np.sign(x) * size / 2


def staircase_cdf(x, epsilon, share):
    """A sum over the steps, one by one."""
    q, y = math.exp(-epsilon), np.abs(np.asarray(x, dtype=float))
    height = (1 - q) / (2 * (share + q * (1 - share)))
    mass = np.minimum(y, share)
    for n in range(1, int(40 / epsilon) + 2):
        mass = mass + q**n * np.clip(y - share - (n - 1), 0, 1)
    return 0.5 + np.sign(x) * height * mass


def tulap_cdf(x, epsilon, delta):
    """Awan and Slavkovic (2018): the definition by its distribution function."""
    b, x = math.exp(-epsilon), np.asarray(x, dtype=float)
    low = -np.abs(x)
    near = np.round(low)
    whole = b ** (-near) / (1 + b) * (b + (low - near + 0.5) * (1 - b))
    whole = np.where(x > 0, 1 - whole, whole)
    q = 2 * delta * b / (1 - b + 2 * delta * b)
    return np.clip((whole - q / 2) / (1 - q), 0, 1)


def table_mass(weights, start, points, dithered, atom):
    """Exact probabilities of a table, as a dictionary of fractions."""
    mass: dict[int, Fraction] = {}
    total = sum(weights) + atom
    for i, w in enumerate(weights):
        for u in range(points):
            for bit in (0, 1) if dithered else (0,):
                z = (start + i) * points + u + bit
                share = Fraction(w, total * points * (2 if dithered else 1))
                mass[z] = mass.get(z, Fraction(0)) + share
    mass[0] = mass.get(0, Fraction(0)) + Fraction(atom, total)
    return mass


def steps_mass(epsilon, width, core, reach):
    def weight(z):
        return math.exp(-epsilon * ((abs(z) + width - core) // width))

    total = math.fsum(weight(z) for z in range(-reach, reach + 1))
    return {z: weight(z) / total for z in range(-reach, reach + 1)}


def gaussian_mass(sigma2, reach=400):
    weights = {z: math.exp(-z * z / (2 * sigma2)) for z in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {z: w / total for z, w in weights.items()}


# --- the table of laws ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A law for sensitivity ``own`` (1 on the line, 10 on the integers) and its oracle."""

    name: str
    make: Callable[[Any], Any]  # from a sensitivity
    own: Any
    oracle: Callable[[Any], Any]  # cdf on the line, dictionary of masses on the integers
    cuts: Callable[[Any], Any] = lambda law: [0.0]  # where the density jumps
    less: float = 0.8  # a scale that is too small by so much must be seen


def steps_cuts(law):
    return np.concatenate([[0], law._steps.core + law._steps.width * np.arange(60)])


def piecewise(scale, atom=0):
    return PiecewiseNoise(
        WEIGHTS, start=-6, cell_width=scale / 4, epsilon=0.5, sensitivity=1.0, atom=atom
    )


def piecewise_cdf(atom):
    def cdf(x):
        total, out = sum(WEIGHTS) + atom, 0.0
        for i, w in enumerate(WEIGHTS):
            out = out + w / total * np.clip(4 * np.asarray(x, dtype=float) - (i - 6), 0, 1)
        return out + atom / total * (np.asarray(x) >= 0)

    return cdf


def table(points, weights=WEIGHTS, dithered=True, atom=30):
    return TableNoise(
        weights,
        start=-6,
        points=points,
        dithered=dithered,
        atom=atom,
        epsilon=0.5,
        sensitivity=10,
    )


CONTINUOUS = [
    Case(
        "laplace",
        lambda s: Laplace(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.laplace.cdf(x, scale=1 / 0.8),
    ),
    Case(
        "truncated laplace",
        lambda s: TruncatedLaplace(epsilon=0.8, delta=0.05, sensitivity=s),
        1.0,
        lambda law: lambda x: truncated_laplace_cdf(x, 0.8, 0.05),
        lambda law: [0.0, law.bound],
    ),
    Case(
        "staircase",
        lambda s: Staircase(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: staircase_cdf(x, 0.8, 1 / (1 + math.exp(0.4))),
        steps_cuts,
    ),
    Case(
        "staircase with a wide core",
        lambda s: Staircase(epsilon=2.5, sensitivity=s, core_share=0.7),
        1.0,
        lambda law: lambda x: staircase_cdf(x, 2.5, 0.7),
        steps_cuts,
    ),
    Case(
        "tulap",
        lambda s: Tulap(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: tulap_cdf(x, 0.8, 0.0),
        steps_cuts,
    ),
    Case(
        "cut tulap",
        lambda s: Tulap(epsilon=0.8, delta=0.03, sensitivity=s),
        1.0,
        lambda law: lambda x: tulap_cdf(x, 0.8, 0.03),
        lambda law: np.append(steps_cuts(law), law.bound),
    ),
    Case(
        "gaussian",
        lambda s: Gaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.norm.cdf(x, scale=math.sqrt(2 * math.log(125)) / 0.8),
        less=0.5,  # the classical formula wastes more than a third of its noise here
    ),
    Case(
        "analytic gaussian",
        lambda s: AnalyticGaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.norm.cdf(x, scale=law.sigma),
    ),
    Case(
        "piecewise",
        piecewise,
        1.0,
        lambda law: piecewise_cdf(0),
        lambda law: np.arange(-6, 7) / 4,
    ),
    Case(
        "piecewise with an atom",
        lambda s: piecewise(s, atom=30),
        1.0,
        lambda law: piecewise_cdf(30),
        lambda law: np.arange(-6, 7) / 4,
    ),
]
LATTICE = [
    Case(
        "geometric",
        lambda s: Geometric(epsilon=0.8, sensitivity=s),
        10,
        lambda law: {z: float(stats.dlaplace.pmf(z, 0.08)) for z in range(-500, 501)},
    ),
    Case(
        "truncated geometric",
        lambda s: TruncatedGeometric(epsilon=0.8, delta=0.05, sensitivity=s),
        10,
        lambda law: steps_mass(0.08, 1, 1, law.reach),
    ),
    Case(
        "truncated geometric, nearly uniform",
        lambda s: TruncatedGeometric(epsilon=0.125, delta=0.1, sensitivity=s),
        10,
        lambda law: steps_mass(0.0125, 1, 1, law.reach),
    ),
    Case(
        "discrete staircase",
        lambda s: DiscreteStaircase(epsilon=2.0, sensitivity=s),
        10,
        lambda law: steps_mass(2.0, 10, law.core, 250),
    ),
    Case(
        "discrete tulap",
        lambda s: DiscreteTulap(epsilon=0.8, sensitivity=s),
        10,
        lambda law: steps_mass(0.8, 10, 5, 500),
    ),
    Case(
        "cut discrete tulap",
        lambda s: DiscreteTulap(epsilon=0.8, delta=0.03, sensitivity=s),
        10,
        lambda law: steps_mass(0.8, 10, 5, law.reach),
    ),
    Case(
        "cut discrete tulap, nearly uniform",
        lambda s: DiscreteTulap(epsilon=0.25, delta=0.1, sensitivity=s),
        10,
        lambda law: steps_mass(0.25, 10, 5, law.reach),
    ),
    Case(
        "lattice steps",
        lambda s: LatticeSteps(epsilon=1.5, sensitivity=s, width=4, core=3, delta=0.02),
        10,
        lambda law: steps_mass(0.5, 4, 3, law.reach),
    ),
    Case(
        "discrete gaussian",
        lambda s: DiscreteGaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        10,
        lambda law: gaussian_mass(float(law.sigma2)),
    ),
    Case(
        "table",
        table,
        10,
        lambda law: table_mass(WEIGHTS, -6, 10, True, 30),
    ),
    Case(
        "wide table",
        lambda s: table(s, WIDE, dithered=False, atom=0),
        10,
        lambda law: table_mass(WIDE, -6, 10, False, 0),
    ),
]
CASES = CONTINUOUS + LATTICE
LAWS = {case.name: case.make(case.own) for case in CASES}


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def test_every_law_is_in_the_table():
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    concrete = {c for c in below(law_module.NoiseLaw) if not inspect.isabstract(c)}
    assert concrete == {type(law) for law in LAWS.values()}
    assert NormalLaw not in concrete
    for cls in concrete:
        for word in ("**Privacy.**", "Statement:", "Needs:", "Proof:", "Numerics:", "References:"):
            assert word in cls.__doc__ or cls is LatticeSteps, (cls, word)
        assert ">>>" in cls.__doc__


# --- the laws as functions ------------------------------------------------------------------------


def integrate(law, cuts, power):
    """Quadrature of |x|**power times the density, piece by piece."""
    cuts = np.unique(
        np.concatenate([-np.asarray(cuts, dtype=float), np.asarray(cuts, dtype=float)])
    )
    far = 60 * max(1.0, math.sqrt(law.variance()))
    edges = np.concatenate([[-far], cuts[np.abs(cuts) < far], [far]])
    total = 0.0
    for a, b in pairwise(edges):
        middle = 2.0 if b == far else -2.0 if a == -far else (a + b) / 2
        for low, high in ((a, middle), (middle, b)) if a < middle < b else ((a, b),):
            total += quad(lambda x: abs(x) ** power * law.density(x), low, high, limit=200)[0]
    return total


@each(CONTINUOUS)
def test_density_cdf_and_moments_agree(case):
    law, oracle = LAWS[case.name], case.oracle(LAWS[case.name])
    x = np.linspace(-7, 7, 1401) + 1e-4
    assert np.allclose(law.cdf(x), oracle(x), atol=1e-12)
    step = 1e-6
    slope = (oracle(x + step) - oracle(x - step)) / (2 * step)
    assert np.allclose(law.density(x), slope, atol=1e-8)
    assert np.allclose(law.log_density(x)[slope > 1e-6], np.log(slope[slope > 1e-6]), atol=1e-2)
    atom = getattr(law, "atom_share", 0.0)
    cuts = case.cuts(law)
    assert math.isclose(integrate(law, cuts, 0) + atom, 1, abs_tol=1e-8)
    assert math.isclose(integrate(law, cuts, 1), law.expected_loss(1), rel_tol=1e-7)
    assert math.isclose(integrate(law, cuts, 2), law.expected_loss(2), rel_tol=1e-7)
    assert math.isclose(law.variance(), law.expected_loss(2) - law.mean() ** 2, rel_tol=1e-12)


@each(CONTINUOUS)
def test_cdf_and_quantile_are_inverse(case):
    law = LAWS[case.name]
    p = np.concatenate([np.linspace(1e-3, 0.999, 997), [1e-9, 1 - 1e-9, 0.5]])
    x = law.quantile(p)
    assert (law.cdf(x) >= p - 1e-12).all()
    assert (law.cdf(x - 1e-9) <= p + 1e-8).all()
    if not getattr(law, "atom", 0):
        assert np.allclose(law.cdf(x), p, atol=1e-12)
    assert isinstance(law.quantile(0.3), float)
    assert isinstance(law.cdf(0.3), float)
    with pytest.raises(ParameterError, match="`p` must lie"):
        law.quantile(1.0)


@each(LATTICE)
def test_masses_cdf_quantile_and_moments_agree(case):
    law, mass = LAWS[case.name], case.oracle(LAWS[case.name])
    z = np.array(sorted(mass), dtype=float)
    p = np.array([float(mass[int(k)]) for k in z])
    assert math.isclose(p.sum(), 1, abs_tol=1e-12)
    assert np.allclose(law.pmf(z), p, rtol=1e-9, atol=1e-17)
    assert law.pmf(0.5) == 0
    total = np.cumsum(p)
    assert np.allclose(law.cdf(z), total, atol=1e-12)
    assert np.allclose(law.cdf(z + 0.5), total, atol=1e-12)
    levels = np.concatenate(
        [np.linspace(1e-4, 0.9999, 777), total[(total > 1e-9) & (total < 0.99)]]
    )
    x = law.quantile(levels)
    assert (law.cdf(x) >= levels - 1e-13).all()
    assert (law.cdf(x - 1) < levels + 1e-13).all()
    assert math.isclose(law.mean(), float(np.sum(p * z)), abs_tol=1e-9)
    assert math.isclose(law.expected_loss(1), float(np.sum(p * np.abs(z))), rel_tol=1e-9)
    assert math.isclose(law.expected_loss(2), float(np.sum(p * z * z)), rel_tol=1e-9)


# --- privacy --------------------------------------------------------------------------------------


def lumps(law, cdf, own):
    """Masses of fine cells that divide the sensitivity (1/400 of it on the line)."""
    if law.numerics is Numerics.EXACT:
        mass = cdf
        return np.array([float(mass.get(z, 0)) for z in range(min(mass), max(mass) + 1)]), 1
    reach = 40 * own
    edges = np.arange(-reach * 400, reach * 400 + 1) / (400 * own)
    return np.diff(cdf(edges)), 400


def hockey_stick(mass, epsilon, steps):
    """The divergence of a list of masses from itself moved by ``steps``, the worse direction."""

    def one_way(w):
        return np.maximum(w[steps:] - math.exp(epsilon) * w[:-steps], 0).sum() + w[:steps].sum()

    return 0.0 if steps == 0 else max(one_way(mass), one_way(mass[::-1]))


@each(CASES)
@pytest.mark.parametrize("part", [0.0, 0.4, 1.0, 1.7])
def test_delta_is_the_hockey_stick_divergence(case, part):
    """Cells of 1/400 lose the cells that straddle an edge: a few times the density over 400.

    An atom meets the density of its cell, so it loses one cell more; on the integers nothing is
    lost, and where delta is an upper bound (the Gaussian) it is one within 1e-9.
    """
    law = LAWS[case.name]
    mass, fine = lumps(law, case.oracle(law), int(case.own))
    epsilon = part * law.epsilon
    for steps in (1, 3, 7, 10, 13, 27):
        shift = steps if fine == 1 else steps / 10
        cells = steps if fine == 1 else steps * fine // 10
        brute, got = hockey_stick(mass, epsilon, cells), law.delta(epsilon, shift)
        assert brute <= got + 1e-9
        assert got - brute <= (1e-9 if fine == 1 else 4e-3 if getattr(law, "atom", 0) else 6e-4)
        assert law.delta(epsilon, -shift) == got
    assert law.delta(epsilon, 0) == 0


@each(CASES)
def test_the_guarantee_holds_and_is_lost_with_less_noise(case):
    law = LAWS[case.name]
    promise = law.guarantee()
    mass, fine = lumps(law, case.oracle(law), int(case.own))
    whole = int(case.own) * fine
    shifts = range(1, whole + 1, 1 if fine == 1 else 13)
    worst = max(hockey_stick(mass, promise.epsilon, s) for s in [*shifts, whole])
    assert worst <= promise.delta + 1e-10
    less = case.make(case.less if fine == 400 else 8)
    assert less.variance() < 0.75 * law.variance()
    if fine > 1:
        cut, _ = lumps(less, less.cdf, int(case.own))
    else:
        cut = np.asarray(less.pmf(np.arange(-700, 701)))
    lost = max(hockey_stick(cut, promise.epsilon, s) for s in [*shifts, whole])
    assert lost > promise.delta * 1.02 + 1e-6
    with pytest.raises(ParameterError, match=r"protects nothing|at most"):
        law.guarantee(10**6, epsilon=1e-9)


@each(CASES)
def test_guarantees_at_other_sensitivities_hold(case):
    law = LAWS[case.name]
    mass, fine = lumps(law, case.oracle(law), int(case.own))
    unit = fine if fine > 1 else 1
    for moved in (5, 13, 20):  # tenths of the own sensitivity
        cells = moved * unit // 10 if fine > 1 else moved
        sensitivity = moved / 10 if fine > 1 else moved
        for epsilon in (None, 0.3):
            promise = law.guarantee(sensitivity, epsilon=epsilon)
            shifts = np.unique(np.linspace(1, cells, 60).astype(int))
            worst = max(hockey_stick(mass, promise.epsilon, int(s)) for s in shifts)
            assert worst <= promise.delta + 1e-10
            assert promise.numerics is law.numerics


def test_guarantee_carries_the_neighbours():
    assert Laplace(epsilon=1).guarantee(neighbors="add-remove").neighbors == "add-remove"
    assert Geometric(epsilon=Fraction(1, 3)).guarantee().epsilon >= Fraction(1, 3)
    assert Laplace(epsilon=1.0).guarantee(2.0).epsilon == 2.0
    assert Staircase(epsilon=1.0).guarantee(1.5).epsilon == 2.0


# --- exact privacy on the integers ----------------------------------------------------------------


def decimal_shortfall(law, epsilon, shift, reach):
    """The hockey-stick divergence to 50 digits, from the definition of the law."""
    eta = Decimal(law._eta.numerator) / Decimal(law._eta.denominator)

    def weight(z):
        if abs(z) > reach:
            return Decimal(0)
        return (-eta * ((abs(z) + law.width - law.core) // law.width)).exp()

    masses = {z: weight(z) for z in range(-reach - shift, reach + shift + 1)}
    factor, total = (Decimal(epsilon)).exp(), sum(masses.values())
    excess = (masses[z] - factor * masses.get(z - shift, Decimal(0)) for z in masses)
    return sum(max(x, Decimal(0)) for x in excess) / total


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(1.0, 1e-6, 1), (0.1, 1e-3, 3), (3.0, 0.5, 2), (0.5, 2.0**-40, 7), (8.0, 0.3, 5)],
)
@pytest.mark.parametrize("cls", [TruncatedGeometric, DiscreteTulap])
def test_the_bound_of_a_cut_law_is_the_least_that_is_private(cls, epsilon, delta, sensitivity):
    law = cls(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    with localcontext() as context:
        context.prec = 50
        slack = Decimal("1e-45")
        for shift in range(1, sensitivity + 1):
            lost = decimal_shortfall(law, epsilon, shift, law.reach)
            assert lost <= Decimal(delta) + slack
        low, high = law.uncovered(sensitivity)
        assert abs(Decimal(low.numerator) / Decimal(low.denominator) - lost) < slack
        assert low <= high <= low + Fraction(1, 1 << 300)
        if law.reach > law.core - 1:
            assert decimal_shortfall(law, epsilon, sensitivity, law.reach - 1) > Decimal(delta)


@pytest.mark.parametrize(("width", "core"), [(1, 1), (10, 1), (10, 4), (10, 10), (4, 3), (3, 2)])
def test_levels_of_integers_differ_by_the_steps_at_most(width, core):
    """[P1] of the lattice laws in integers, over a window that holds every residue."""
    for sensitivity in (1, 4, 10):
        most = -(-sensitivity // width)
        level = [(abs(z) + width - core) // width for z in range(-60, 61)]
        gaps = [
            level[z - s] - level[z]
            for s in range(-sensitivity, sensitivity + 1)
            for z in range(20, 100)
        ]
        assert max(gaps) == most


@pytest.mark.parametrize("sensitivity", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0, 12.0])
def test_the_core_of_the_discrete_staircase_is_the_best(epsilon, sensitivity):
    best = DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity).expected_loss(1)
    others = [
        DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity, core=r).expected_loss(1)
        for r in range(1, sensitivity + 1)
    ]
    assert best == min(others)
    assert best <= Geometric(epsilon=epsilon, sensitivity=sensitivity).expected_loss(1) * (
        1 + 1e-12
    )


@pytest.mark.parametrize("sigma", [0.6, 3.0, 63.0, 511.0, 513.0, 3000.0])
@pytest.mark.parametrize(("epsilon", "ratio"), [(1.0, 0.3), (0.1, 0.05), (4.0, 1.0)])
def test_the_bound_of_the_discrete_gaussian_is_above_the_sum_and_near(sigma, epsilon, ratio):
    """The closed bound for large sigma against the sum it bounds."""
    shift = max(1, round(ratio * sigma))
    z = np.arange(-60 * math.ceil(sigma), 60 * math.ceil(sigma) + 1)
    mass = np.exp(-(z**2) / (2 * sigma**2))
    truth = hockey_stick(mass / mass.sum(), epsilon, shift)
    bound = DiscreteGaussian._upper(epsilon, shift, sigma**2)
    assert truth <= bound * (1 + 1e-13)
    assert bound <= truth * (1 + 120 / sigma**2 + 1e-9) + 1e-300


@pytest.mark.parametrize("sigma", [60.0, 511.0, 513.0])
def test_large_discrete_gaussians_are_described_well(sigma):
    """Written out below sigma = 512, by Euler and Maclaurin above."""
    law = DiscreteGaussian(epsilon=1.0, delta=0.9, sensitivity=1, sigma2=sigma**2)
    mass = gaussian_mass(float(law.sigma2), 30_000)
    z = np.array(sorted(mass), dtype=float)
    p = np.array([mass[int(k)] for k in z])
    assert np.allclose(law.cdf(z), np.cumsum(p), rtol=1e-10, atol=1e-13)
    assert np.allclose(law.pmf(z), p, rtol=1e-10, atol=1e-300)
    assert math.isclose(law.expected_loss(1), np.sum(p * np.abs(z)), rel_tol=1e-11)
    assert math.isclose(law.expected_loss(2), np.sum(p * z * z), rel_tol=1e-11)
    assert law.concentrated(3) == Fraction(9) / (2 * law.sigma2)


def test_an_unsafe_variance_is_refused():
    with pytest.raises(ParameterError, match="`sigma2` must be larger"):
        DiscreteGaussian(epsilon=1.0, delta=1e-5, sigma2=9)
    assert DiscreteGaussian(epsilon=1.0, delta=1e-5, sigma2=25).sigma2 == 25


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1, 2, 5])
@pytest.mark.parametrize("dithered", [False, True])
@pytest.mark.parametrize("atom", [0, 7])
def test_the_delta_of_a_table_bounds_every_shift(points, dithered, atom):
    weights = [2, 0, 5, 9, 9, 4, 1]
    law = TableNoise(
        weights, start=-4, points=points, dithered=dithered, atom=atom, epsilon=0.7, sensitivity=6
    )
    mass = table_mass(weights, -4, points, dithered, atom)
    with localcontext() as context:
        context.prec = 40
        factor = Fraction(Decimal(str(law.epsilon)).exp())
    worst = Fraction(0)
    for shift in range(-6, 7):
        moved = {z + shift: p for z, p in mass.items()}
        worst = max(
            worst,
            sum(max(p - factor * moved.get(z, Fraction(0)), Fraction(0)) for z, p in mass.items()),
        )
    assert worst <= law.exact_delta() + Fraction(1, 10**30)
    if points == 1 and not dithered:
        assert float(worst) == pytest.approx(float(law.exact_delta()), abs=1e-15)


def test_a_smaller_weight_in_the_tail_is_seen():
    """The planted fault of a designed noise: one weight moved outward by a unit."""
    good = TableNoise([1, 2, 4, 2, 1], start=-2, epsilon=0.75)
    bad = TableNoise([2, 2, 3, 2, 1], start=-2, epsilon=0.75)
    assert good.exact_delta() < bad.exact_delta()


def test_the_monotone_law_of_the_errata():
    """E42: delta * atom + (1 - delta) * staircase has E|X| = .164375 at (3, 0.3)."""
    best = Staircase(epsilon=3.0)
    assert math.isclose(0.7 * best.expected_loss(1), 0.164375, abs_tol=1e-6)
    per, scale = 250, 10**15
    edges = np.arange(-4 * per, 4 * per + 1) / per
    weights = [round(scale * m) for m in np.diff(best.cdf(edges))]
    noise = PiecewiseNoise(
        weights,
        start=-4 * per,
        cell_width=Fraction(1, per),
        epsilon=3.0,
        atom=sum(weights) * 3 // 7,
    )
    assert math.isclose(noise.expected_loss(1), 0.164979, abs_tol=7e-4)
    assert 0.3 - 1e-9 <= noise._shortfall(3.0, 1.0) <= 0.3001


def test_a_table_of_two_thousand_cells_is_verified_in_seconds():
    law = Laplace(epsilon=1.0)
    weights = [int(w * 2.0**62) for w in np.diff(law.cdf(np.arange(-1000, 1001) / 100))]
    noise = PiecewiseNoise(weights, start=-1000, cell_width=Fraction(1, 100), epsilon=1.0)
    assert 0 < noise.exact_delta() < Fraction(1, 10**3)


# --- samplers -------------------------------------------------------------------------------------


def cells_of(mass, draws, most=40):
    """Edges of up to ``most`` runs of integers that expect at least 20 of the draws each."""
    step, run, edges = max(1 / most, 20 / draws), 0.0, []
    for z in sorted(mass):
        if run >= step:
            edges.append(z)
            run = 0.0
        run += float(mass[z])
    if run * draws < 20:
        edges = edges[:-1]
    return edges


def p_value(draws, mass):
    """Chi-square of integers against exact masses, by runs and by the points next to zero."""
    edges = sorted({*cells_of(mass, draws.size), *(z for z in (-1, 0, 1, 2))})
    keys = np.array(sorted(mass))
    p = np.array([float(mass[int(k)]) for k in keys])
    expected = np.array(
        [p[np.searchsorted(edges, keys, side="right") == i].sum() for i in range(len(edges) + 1)]
    )
    seen = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    keep = expected * draws.size >= 5
    assert seen[~keep].sum() <= 50
    seen, expected = seen[keep], expected[keep]
    return stats.chisquare(seen, expected / expected.sum() * seen.sum()).pvalue


@each(LATTICE)
def test_the_exact_sampler_has_its_law_and_a_wrong_scale_is_seen(case, seed):
    law, mass = LAWS[case.name], case.oracle(LAWS[case.name])
    count = DRAWS if "wide" not in case.name else DRAWS // 10
    draws = law.sample(count, rng=SeededSource(seed))
    assert draws.dtype == np.int64
    assert draws.min() >= min(mass)
    assert draws.max() <= max(mass)
    assert p_value(draws, mass) > LEVEL
    wrong = case.make(9).sample(count, rng=SeededSource(seed))
    assert p_value(wrong, mass) < LEVEL


@each(CONTINUOUS)
def test_the_lattice_of_a_law_is_exact_and_near_it(case, seed):
    law = LAWS[case.name]
    grid = Fraction(1, 4 * 25)
    exact = law.lattice(grid)
    assert exact.numerics is Numerics.EXACT
    assert exact.sensitivity == 100
    own, promise = law.guarantee(), exact.guarantee()
    assert promise.epsilon <= own.epsilon
    assert promise.delta <= own.delta
    assert math.isclose(exact.variance(), law.variance() * 1e4, rel_tol=0.03)
    draws = law.sample_lattice(DRAWS, grid=grid, rng=SeededSource(seed))
    reach = int(np.abs(draws).max())
    mass = {z: exact.pmf(z) for z in range(-reach, reach + 1)}
    mass[-reach] += exact.cdf(-reach - 1)
    mass[reach] += 1 - exact.cdf(reach)
    assert p_value(draws, mass) > LEVEL
    assert isinstance(law.sample_lattice(grid=grid), int)
    assert isinstance(exact.sample_lattice(), int)


@pytest.mark.parametrize(
    ("sensitivity", "grid", "steps"),
    [
        (1.0, 0.25, 4),
        (1.0, 0.3, 4),
        (1, Fraction(1, 3), 3),
        (0.3, 0.1, 3),
        (0.7, 0.1, 7),
        (1, 5, 1),
    ],
)
def test_grid_steps_are_rounded_to_the_private_side(sensitivity, grid, steps):
    """0.3 / 0.1 is a little below 3 in doubles, 0.7 / 0.1 too: never fewer steps than meant."""
    for law in (
        Laplace(epsilon=1.0, sensitivity=sensitivity),
        Staircase(epsilon=1.0, sensitivity=sensitivity),
        AnalyticGaussian(epsilon=1.0, delta=0.1, sensitivity=sensitivity),
    ):
        exact = law.lattice(grid)
        assert exact.sensitivity == steps
        assert exact.guarantee().epsilon <= 1.0


@each(CONTINUOUS)
def test_the_continuous_sampler_has_its_law(case, seed):
    law, oracle = LAWS[case.name], case.oracle(LAWS[case.name])
    draws = law.sample(100_000, rng=SeededSource(seed))
    if getattr(law, "atom", 0):
        zeros = int((draws == 0).sum())
        share = law.atom_share
        assert abs(zeros - 1e5 * share) < 5 * math.sqrt(1e5 * share * (1 - share))
        return
    assert stats.kstest(draws, oracle).pvalue > LEVEL
    assert stats.kstest(draws * 0.9, oracle).pvalue < LEVEL
    assert isinstance(law.sample(rng=1), float)


def test_a_fresh_source_never_repeats():
    law = TruncatedGeometric(epsilon=2.0**-20, delta=1e-6, sensitivity=1 << 20)
    assert len(set(law.sample(50).tolist())) > 45


@pytest.mark.parametrize("epsilon", [2.0**-40, 1e-9, 30.0, 1024.0])
@pytest.mark.parametrize("sensitivity", [1, 1 << 16, 1 << 50])
def test_extreme_parameters_still_draw(epsilon, sensitivity):
    for law in (
        Geometric(epsilon=epsilon, sensitivity=sensitivity),
        TruncatedGeometric(epsilon=epsilon, delta=2.0**-60, sensitivity=sensitivity),
        TruncatedGeometric(epsilon=epsilon, delta=0.5, sensitivity=sensitivity),
        DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity),
        DiscreteTulap(epsilon=epsilon, delta=1e-9, sensitivity=sensitivity),
        DiscreteGaussian(epsilon=epsilon, delta=1e-9, sensitivity=sensitivity),
    ):
        draws = law.sample(50, rng=1)
        assert draws.shape == (50,)
        if getattr(law, "reach", None) is not None:
            assert max(abs(int(z)) for z in draws) <= law.reach
        spread = math.sqrt(law.variance())
        assert np.isfinite(spread)
        assert max(abs(int(z)) for z in draws) <= 40 * spread + 1
        promise = law.guarantee()
        assert promise.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [2.0**-40, 1e-9, 30.0, 1024.0])
@pytest.mark.parametrize("delta", [2.0**-256, 1e-9, 0.5])
def test_extreme_parameters_on_the_line(epsilon, delta):
    for law in (
        Laplace(epsilon=epsilon, sensitivity=1e100),
        TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=1e100),
        Staircase(epsilon=epsilon, sensitivity=1e100),
        Tulap(epsilon=epsilon, delta=delta, sensitivity=1e100),
        AnalyticGaussian(epsilon=epsilon, delta=delta, sensitivity=1e100),
    ):
        assert 0 < law.density(0.0) < math.inf
        spread = [law.expected_loss(1), law.variance(), law.sample(100, rng=1)]
        assert all(np.isfinite(value).all() for value in spread)
        assert epsilon > 1000 or spread[0] ** 2 <= spread[1] * (1 + 1e-6)
        p = np.array([1e-12, 0.01, 0.3, 0.6, 0.999])
        if epsilon < 1000 or not isinstance(law, (Staircase, Tulap)):
            assert np.allclose(law.cdf(law.quantile(p)), p, rtol=1e-4, atol=1e-13)
        if epsilon < 1000 or not isinstance(law, (Staircase, Tulap)):
            # 10**14 steps away from zero a double resolves a few hundredths of a step
            slack = 0.03 if epsilon * delta < 1e-80 else 1e-6
            assert law.delta(epsilon, 1e100) <= law.guarantee().delta * (1 + slack)


# --- reference numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "bound", "height", "first", "second"),
    [
        (1, 0.2, 1, 1.66689603, 0.61639534, 0.61196213, 0.57710549),
        (0.1, 1e-6, 2, 217.40427866, 0.02500048, 19.99586570, 798.93581244),
        (5, 0.4, 1, 1.04435901, 2.51356731, 0.19433234, 0.07181387),
    ],
)
def test_truncated_laplace_numbers(epsilon, delta, sensitivity, bound, height, first, second):
    law = TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    got = [law.bound, law.density(0.0), law.expected_loss(1), law.expected_loss(2)]
    assert got == pytest.approx([bound, height, first, second], abs=6e-9, rel=1e-7)
    uncovered = quad(law.density, law.bound - sensitivity, law.bound)[0]
    assert uncovered == pytest.approx(delta, rel=1e-7)
    assert law.delta(epsilon, sensitivity) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("delta", [1e-6, 0.1, 0.5])
def test_truncated_laplace_at_small_epsilon(epsilon, delta):
    law = TruncatedLaplace(epsilon=epsilon, delta=delta)
    with localcontext() as context:
        context.prec = 60
        exact = (1 + (Decimal(epsilon).exp() - 1) / (2 * Decimal(delta))).ln() / Decimal(epsilon)
        assert law.bound == pytest.approx(float(exact), rel=1e-13)
    assert law.delta(epsilon, 1.0) == pytest.approx(delta, rel=1e-9)
    p = np.linspace(1e-6, 1 - 1e-6, 1001)
    assert np.allclose(law.cdf(law.quantile(p)), p, atol=1e-12)
    if epsilon * law.bound < 1e-6:  # nearly uniform on the bound
        assert law.expected_loss(1) == pytest.approx(law.bound / 2, rel=1e-6)
        assert law.expected_loss(2) == pytest.approx(law.bound**2 / 3, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "value"), [(0.5, 1.97932), (1, 0.95952), (2, 0.42546), (5, 0.08264)]
)
def test_staircase_numbers(epsilon, value):
    law = Staircase(epsilon=epsilon)
    assert law.expected_loss(1) == pytest.approx(value, abs=6e-6)
    closed = math.exp(epsilon / 2) / (math.exp(epsilon) - 1)
    assert law.expected_loss(1) == pytest.approx(closed, rel=1e-12)
    assert Laplace(epsilon=epsilon).expected_loss(1) == pytest.approx(1 / epsilon)
    for share in (0.9, 1.1):
        other = Staircase(epsilon=epsilon, core_share=share * law.core_share)
        assert other.expected_loss(1) > law.expected_loss(1)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
def test_analytic_gaussian_is_tight(epsilon, delta):
    law = AnalyticGaussian(epsilon=epsilon, delta=delta, sensitivity=3.0)

    def oracle(sigma):
        r = 3.0 / sigma
        first = stats.norm.cdf(r / 2 - epsilon / r)
        return first - math.exp(epsilon) * stats.norm.cdf(-r / 2 - epsilon / r)

    assert oracle(law.sigma) <= delta * (1 + 1e-9) + 1e-15
    assert oracle(law.sigma * 0.999) > delta * (1 - 1e-9)
    if epsilon < 1 and delta < 0.5:
        assert law.sigma < Gaussian(epsilon=epsilon, delta=delta, sensitivity=3.0).sigma


def test_gaussian_delta_has_no_jump_between_its_two_forms():
    for ratio in (0.1, 1.0, 3.0):
        middle = ratio * ratio / 2  # the first argument vanishes
        below, above = (
            gaussian_delta(middle * 0.9999999, ratio),
            gaussian_delta(middle * 1.0000001, ratio),
        )
        assert above == pytest.approx(below, rel=1e-5)


def test_tulap_is_canonical():
    """At its own epsilon and shift both kinds of loss are used up: F(x - 1) = b F(x) + ..."""
    law, whole = Tulap(epsilon=1.0, delta=0.05), Tulap(epsilon=1.0)
    assert law.delta(1.0, 1.0) == pytest.approx(0.05, rel=1e-12)
    x = np.linspace(-3, 0.5, 101)
    assert np.allclose(whole.cdf(x - 1), math.exp(-1) * whole.cdf(x))
    assert whole.variance() == pytest.approx(2 * math.exp(-1) / (1 - math.exp(-1)) ** 2 + 1 / 12)
    assert law.variance() < whole.variance()


# --- enclosures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(1 << 60, 7), 50])
@pytest.mark.parametrize("bits", [8, 64, 400])
def test_exponentials_are_enclosed(x, bits):
    x = Fraction(x)
    low, high = exp_minus_bounds(x, bits)
    assert 0 <= low <= high <= low + 2
    with localcontext() as context:
        context.prec = 200
        value = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
        assert low <= value * 2**bits <= high


def test_floats_are_rounded_up():
    assert Fraction(float_up(Fraction(1, 3))) > Fraction(1, 3)
    assert float_up(Fraction(3, 8)) == 0.375


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1), Fraction(0), Fraction(1, 1 << 63)])
def test_coins_are_fair_to_their_odds(share, seed):
    def bounds(bits):
        scaled = share * 2**bits
        return math.floor(scaled), math.ceil(scaled)

    hits, n = int(coins(bounds, 100_000, SeededSource(seed)).sum()), 100_000
    assert abs(hits - n * share) <= 5 * math.sqrt(n * share * (1 - share)) + 1


def test_an_open_coin_draws_more_bits(seed):
    """Eight bits never settle a coin whose bounds are one word apart: the rest decides."""

    def bounds(bits):
        return (0, 1 << bits) if bits == 64 else ((1 << bits) // 4, (1 << bits) // 4)

    hits = int(coins(bounds, 4000, SeededSource(seed)).sum())
    assert abs(hits - 1000) < 5 * math.sqrt(750)


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 2e-5, 1e-3])
@pytest.mark.parametrize("lattice", [False, True])
def test_moments_over_many_levels_agree_with_the_sum(rate, lattice, monkeypatch):
    """Beyond a million levels a formula takes over from the sum."""
    law = Steps(rate, 7.0, 3.5, 7.0 * (1 << 20) - 10.5, lattice=lattice)
    summed = [law.moment(1), law.moment(2)]
    monkeypatch.setattr(steps_module, "_DIRECT", 1000)
    assert [law.moment(1), law.moment(2)] == pytest.approx(summed, rel=1e-8)


# --- bad input ------------------------------------------------------------------------------------

BAD_EPSILON = [math.nan, math.inf, -math.inf, 0, 0.0, -1.0, True, "1", None, 5e-324, 1e6, 1j]
BAD_DELTA = [math.nan, math.inf, -0.1, 1.0, 1.5, True, "0.1", None, 5e-324]
BAD_SENSITIVITY = [0, -1, math.nan, math.inf, True, "1", None]
ANY = {
    "Laplace": Laplace,
    "TruncatedLaplace": TruncatedLaplace,
    "Staircase": Staircase,
    "Gaussian": Gaussian,
    "AnalyticGaussian": AnalyticGaussian,
    "Tulap": Tulap,
    "Geometric": Geometric,
    "TruncatedGeometric": TruncatedGeometric,
    "DiscreteStaircase": DiscreteStaircase,
    "DiscreteTulap": DiscreteTulap,
    "DiscreteGaussian": DiscreteGaussian,
}


def arguments(cls, **changes):
    given = {"epsilon": 0.5, "sensitivity": 1}
    if "delta" in inspect.signature(cls).parameters:
        given["delta"] = 0.1
    return {**given, **changes}


@pytest.mark.parametrize("cls", ANY.values(), ids=ANY.keys())
@pytest.mark.parametrize(
    ("name", "values"),
    [("epsilon", BAD_EPSILON), ("delta", BAD_DELTA), ("sensitivity", BAD_SENSITIVITY)],
)
def test_bad_parameters_are_refused_with_their_name(cls, name, values):
    if name not in arguments(cls):
        return
    cls(**arguments(cls))
    for value in values:
        with pytest.raises(ParameterError, match=f"`{name}` must"):
            cls(**arguments(cls, **{name: value}))


def test_delta_zero_and_above_one_half():
    for cls in (TruncatedLaplace, TruncatedGeometric, Gaussian, AnalyticGaussian, DiscreteGaussian):
        with pytest.raises(ParameterError, match="`delta` must lie"):
            cls(**arguments(cls, delta=0))
    for cls in (TruncatedLaplace, TruncatedGeometric):
        cls(**arguments(cls, delta=0.5))
        with pytest.raises(ParameterError, match="`delta` must lie"):
            cls(**arguments(cls, delta=0.51))
    assert Tulap(**arguments(Tulap, delta=0)).bound == math.inf


def test_other_bad_input():
    with pytest.raises(ParameterError, match="classical"):
        Gaussian(epsilon=1.0, delta=0.1)
    with pytest.raises(ParameterError, match="`core_share`"):
        Staircase(epsilon=1.0, core_share=1.0)
    with pytest.raises(ParameterError, match="`sensitivity` must be an integer"):
        Geometric(epsilon=1.0, sensitivity=1.5)
    for grid in (0, -1, math.nan, "1", True):
        with pytest.raises(ParameterError, match="`grid` must"):
            Laplace(epsilon=1.0).sample_lattice(3, grid=grid)
    with pytest.raises(ParameterError, match="`grid` must be at least"):
        Laplace(epsilon=1.0).lattice(1e-30)
    with pytest.raises(ParameterError, match="`grid` must divide"):
        piecewise(1.0).lattice(0.1)
    with pytest.raises(ParameterError, match="`grid` must be 1"):
        Geometric(epsilon=1.0).lattice(0.5)
    law = Laplace(epsilon=1.0)
    for bad in (-1, math.nan, "1"):
        with pytest.raises(ParameterError, match="`epsilon`"):
            law.delta(bad, 1.0)
        with pytest.raises(ParameterError, match="`epsilon`"):
            law.guarantee(epsilon=bad)
    with pytest.raises(ParameterError, match="`p` must be"):
        law.expected_loss(3)
    with pytest.raises(ParameterError, match="`shift` must be an integer"):
        LAWS["geometric"].delta(0.5, 1.5)
    with pytest.raises(ParameterError, match="`size` must be"):
        law.sample(-1)
    for weights in ([], [0, 0], [1, -1], [0.5, 0.5]):
        with pytest.raises(ParameterError, match="`weights` must"):
            TableNoise(weights, start=0, epsilon=1.0)


def test_laws_say_who_they_are():
    assert repr(Laplace(epsilon=1)) == "Laplace(epsilon=1.0, sensitivity=1.0)"
    assert "delta=0.1" in repr(TruncatedLaplace(epsilon=1, delta=0.1))
