"""Costs: every mechanism's rho is at least the Renyi divergence of its law, and they add."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.accounting import Cost
from tightdp.accounting.conversions import gaussian_dp_epsilon, zcdp_epsilon
from tightdp.mechanisms.joint_release import Together
from tightdp.noise.gaussian_vectors import GaussianVector

ORDERS = 1 + np.exp(np.linspace(-6, 5, 60))


def largest_rho(p: np.ndarray, q: np.ndarray) -> float:
    """The largest ratio of a Renyi divergence to its order, over both directions."""
    found = 0.0
    for one, other in ((p, q), (q, p)):
        for a in ORDERS:
            logs = a * np.log(one) + (1 - a) * np.log(other)
            top = logs.max()
            total = top + np.log(np.exp(logs - top).sum())
            found = max(found, total / (a - 1) / a)
    return found


def test_pure_privacy_costs_what_randomised_response_does():
    for epsilon in (0.1, 1.0, 3.0, 8.0):
        kept = np.exp(epsilon) / (1 + np.exp(epsilon))
        rho = largest_rho(np.array([kept, 1 - kept]), np.array([1 - kept, kept]))
        assert rho <= float(Cost.of(epsilon).rho)
        assert rho >= 0.45 * float(Cost.of(epsilon).rho)


@pytest.mark.parametrize("monotonic", [False, True])
def test_exponential_mechanisms_cost_an_eighth(monotonic, seed):
    """Utilities at the ends of what neighbours can do come close to epsilon^2/8."""
    rng = np.random.default_rng(seed)
    epsilon, closest = 1.0, 0.0
    neighbors = "add-remove" if monotonic else "replace-one"
    mechanism = tdp.ExponentialMechanism(
        list(range(6)),
        lambda rows: rows,
        sensitivity=1,
        epsilon=epsilon,
        neighbors=neighbors,
        monotonic=monotonic,
    )
    assert mechanism.cost.rho == Fraction(1, 8)
    for trial in range(60):
        base = rng.normal(0, 2, 6) if trial else np.zeros(6)
        move = rng.choice([0.0 if monotonic else -1.0, 1.0], 6) if trial else np.repeat([1.0, 0], 3)
        if not trial and not monotonic:
            move = 2 * move - 1
        p, q = (mechanism.probabilities(u) for u in (base, base + move))
        closest = max(closest, largest_rho(p, q))
    assert 0.9 / 8 < closest <= 1 / 8


def test_what_is_not_of_bounded_range_costs_a_half():
    given = {"sensitivity": 1, "epsilon": 1.0}
    flip = tdp.ExponentialMechanism([0, 1], len, permute_and_flip=True, **given)
    constant = tdp.ExponentialMechanism([0, 1], len, constant_normalizer=True, **given)
    assert flip.cost.rho == constant.cost.rho == Fraction(1, 2)
    # with a constant normaliser log ratios may lie anywhere in [-epsilon, epsilon]
    a, b = (constant.probabilities(u) for u in ([1.0, 0.0], [0.0, 1.0]))
    assert largest_rho(a, b) > 1 / 8


def test_quantiles_pay_for_each_of_their_draws():
    """Of an interval: points, an exponential mechanism, and counts, with ratios of two signs."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100)
    one = tdp.KNormMedian(schema, "x", epsilon=1)
    three = tdp.KNormMedian(schema, "x", epsilon=1, interval="sample")
    assert one.cost.rho == Fraction(1, 8)
    assert three.cost.rho == Fraction(2, 5) ** 2 / 8 + Fraction(3, 5) ** 2 / 2
    assert three.cost.epsilon == 1


def test_a_discrete_gaussian_has_its_exact_rho():
    law = tdp.DiscreteGaussian(epsilon=1, delta=1e-6, sensitivity=3)
    z = np.arange(-400, 401)
    p, q = (np.exp(-((z - shift) ** 2) / (2 * float(law.sigma2))) for shift in (0, 3))
    rho = largest_rho(p / p.sum(), q / q.sum())
    assert rho == pytest.approx(float(law.cost.rho), rel=1e-6)
    assert law.cost.rho == Fraction(9) / (2 * law.sigma2)
    assert law.cost.rho_delta == 0
    assert law.cost.mu_delta == law.cost.delta  # zCDP says nothing of mu

    noise = GaussianVector(epsilon=1, delta=1e-6, square=Fraction(2), entries=4)
    assert noise.cost.rho >= Fraction(2) / (2 * noise.sigma**2)
    assert noise.cost.rho <= Fraction(2) / (2 * noise.sigma**2) * (1 + Fraction(1, 10**8))


def test_entries_of_a_vector_add_in_rho():
    schema = tdp.Schema({name: tdp.Interval(0, 1) for name in "abcd"}, rows=100)
    gaussian = tdp.AdditiveMechanism(tdp.Sums(schema), noise="gaussian", epsilon=1, delta=1e-6)
    moved = (2 * gaussian.resolution) ** 2  # of every entry, squared
    assert gaussian.cost.rho == sum(moved / (2 * each) for each in gaussian.noise.variances)
    assert gaussian.cost.rho < Cost.of(1).rho
    laplace = tdp.AdditiveMechanism(tdp.Sums(schema), noise="laplace", epsilon=1)
    assert float(laplace.cost.rho) == pytest.approx(4 * (1 / 4) ** 2 / 2)
    hull = tdp.AdditiveMechanism(tdp.Sums(schema), epsilon=1)
    assert hull.cost == Cost.of(1)


def test_costs_of_parts_and_readings_are_those_of_what_draws():
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 9)}, rows=1001)
    parts = [tdp.KNormMedian(schema, name, epsilon=2) for name in schema]
    both = Together(parts)
    assert both.cost == parts[0].cost + parts[1].cost
    assert both.cost.rho == Fraction(1)  # and not 2**2 / 2, of its whole epsilon
    assert both.cost.epsilon == both.epsilon


def test_promises_in_rho_are_stated_at_a_delta():
    cost = Cost.concentrated(Fraction(1, 200), delta=1e-6)
    assert cost.epsilon == zcdp_epsilon(Fraction(1, 200), Fraction(1, 10**6))
    exact = Cost.gaussian(Fraction(1, 100), delta=1e-6)
    assert exact.epsilon == gaussian_dp_epsilon(Fraction(1, 100), Fraction(1, 10**6))
    assert exact.rho == cost.rho
    assert exact.epsilon < cost.epsilon

    class InRho(tdp.KNormMedian):
        in_rho = True

    schema = tdp.Schema({"a": tdp.Interval(0, 1)}, rows=11)
    said = InRho(schema, "a", epsilon=2).guarantee()
    assert said.rho == 0.5
    assert said.amount == "rho = 0.5 (epsilon = 2)"
    release = InRho(schema, "a", epsilon=2).release({"a": np.zeros(11)})
    assert tdp.Release.from_dict(release.to_dict()).guarantee == said
    plain = tdp.KNormMedian(schema, "a", epsilon=2).release({"a": np.zeros(11)})
    assert "rho" not in plain.to_dict()["guarantee"]


@pytest.mark.parametrize("part", ["epsilon", "delta", "rho", "rho_delta", "mu_squared", "mu_delta"])
@pytest.mark.parametrize("bad", [-1, Fraction(-1, 10**9), float("nan"), float("inf"), "1", True])
def test_no_cost_gives_anything_back(part, bad):
    """A negative amount would refill a ledger."""
    whole = {name: Fraction(1) for name in ("epsilon", "rho", "mu_squared")}
    whole |= {name: Fraction(0) for name in ("delta", "rho_delta", "mu_delta")}
    with pytest.raises(tdp.ParameterError, match=part):
        Cost(**{**whole, part: bad})
    assert Cost(**{**whole, part: 0.25}) == Cost(**{**whole, part: Fraction(1, 4)})


def test_bad_amounts_are_refused():
    for bad in ({"epsilon": -1}, {"epsilon": float("nan")}, {"epsilon": 1, "delta": 1}):
        with pytest.raises(tdp.ParameterError):
            Cost.of(**bad)
    with pytest.raises(tdp.ParameterError, match="rho"):
        Cost.concentrated(0, delta=1e-6)
    with pytest.raises(tdp.ParameterError, match="delta"):
        Cost.gaussian(1, delta=0)
    for made, name in ((Cost.gaussian, "mu_squared"), (Cost.concentrated, "rho")):
        with pytest.raises(tdp.ParameterError, match=f"`{name}` must lie in .*more noise"):
            made(10**400, delta=1e-6)
        assert made(Fraction(1, 2**900), delta=1e-300).epsilon >= 0
