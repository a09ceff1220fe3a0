"""Every law of one number: density, distribution, moments, delta and guarantee agree; bad input."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from law_cases import CASES, CONTINUOUS, LATTICE, LAWS, each, hockey_stick, piecewise
from scipy.integrate import quad

from tightdp.errors import ParameterError
from tightdp.noise import law as law_module
from tightdp.noise.gaussian_laws import AnalyticGaussian, DiscreteGaussian, Gaussian, NormalLaw
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.noise.table_noise import TableNoise
from tightdp.privacy import Numerics


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


@pytest.mark.parametrize("sigma2", [Fraction(1, 1000), 1, 900, 511**2, 513**2, 1 << 80])
def test_a_discrete_gaussian_never_covers_a_move_far_beyond_its_sigma(sigma2):
    """Moves up to 2**60, whose squares leave 64 bits: the larger the move, the larger delta."""
    law = DiscreteGaussian(epsilon=1.0, delta=0.5, sensitivity=1, sigma2=sigma2 + 10**6)
    law.sigma2, law._variance = Fraction(sigma2), float(sigma2)
    moves = [1 << k for k in range(61)] + [3037000500, (1 << 32) + 1, 2**60 - 1]
    lost = [law.delta(1.0, move) for move in sorted(moves)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(lost))
    far = [
        d for m, d in zip(sorted(moves), lost, strict=True) if m > 100 * sigma2 ** Fraction(1, 2)
    ]
    assert all(d > 1 - 1e-9 for d in far)
    for move in (1 << 31, 1 << 32, (1 << 60) - 1):
        if move * move > 10_000 * sigma2:
            with pytest.raises(ParameterError, match="`sigma2` must be larger"):
                DiscreteGaussian(epsilon=1.0, delta=1e-12, sensitivity=move, sigma2=sigma2)
            with pytest.raises(ParameterError, match="`sensitivity` must be small enough"):
                law.guarantee(sensitivity=move)
