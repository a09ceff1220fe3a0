"""The privacy of designed noise, audited: worst events, tables, draws, accountants."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design.designs import design_noise
from tightdp.design.privacy_loss import privacy_loss
from tightdp.design.worst_event import worst_event
from tightdp.errors import DimensionError, ParameterError

COMB = [1, 0, 1, 0, 1, 0, 1]


def brute_force(weights, cells, epsilon):
    """Shortfalls of all whole shifts up to the sensitivity, both ways."""
    p = np.array(weights) / sum(weights)
    out = {}
    for shift in range(-cells, cells + 1):
        padded = np.zeros(len(p) + 2 * cells)
        padded[cells : cells + len(p)] = p
        moved = np.roll(padded, shift)
        out[shift] = float(np.maximum(padded - math.exp(epsilon) * moved, 0).sum())
    return out


def test_the_comb_loses_everything():
    """A29: at even shifts the comb covers itself, at odd ones nothing (E40 saw only the last)."""
    found = worst_event([Fraction(i, 2) for i in range(8)], COMB, epsilon=1, sensitivity=1)
    assert found.shortfall == 1
    assert abs(found.shift) == Fraction(1, 2)
    assert len(found.intervals) == 4
    by_shift = brute_force(COMB, 2, 1)
    literal = by_shift[2]  # the broken twin: only the last shift is compared
    assert literal < 0.3 < by_shift[1] == 1.0


def test_the_oracle_agrees_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        weights = [int(w) for w in rng.integers(0, 50, size=rng.integers(3, 9))]
        if sum(weights) == 0:
            continue
        epsilon = float(rng.uniform(0.1, 2))
        found = worst_event(range(len(weights) + 1), weights, epsilon=epsilon, sensitivity=2)
        assert float(found.shortfall) == pytest.approx(
            max(brute_force(weights, 2, epsilon).values()), abs=1e-12
        )


def test_the_oracle_on_uneven_cells_agrees_with_fine_shifts():
    edges, weights = [-3, -1, 0, 2, 3], [2, 5, 6, 1]
    found = worst_event(edges, weights, epsilon=1, sensitivity=Fraction(3, 2))
    fine = np.repeat(np.array(weights) / np.array([2, 1, 2, 1]), 20 * np.array([2, 1, 2, 1]))
    most = max(brute_force(fine, 30, 1).values())
    assert float(found.shortfall) == pytest.approx(most, abs=1e-9)
    with_atom = worst_event(edges, weights, epsilon=1, sensitivity=Fraction(3, 2), atom=14)
    assert with_atom.shortfall == found.shortfall / 2 + Fraction(1, 2)
    with pytest.raises(DimensionError):
        worst_event([0, 1], [1, 2], epsilon=1)
    with pytest.raises(ParameterError):
        worst_event([0, 1], [-1], epsilon=1)
    with pytest.raises(ParameterError, match="not all be 0"):
        worst_event([0, 1], [0], epsilon=1)


DESIGNS = [
    {"epsilon": 1, "delta": 0.2},
    {"epsilon": 3, "delta": 0.3},
    {"epsilon": 0.5, "delta": 0.05, "loss": "l2"},
    {"epsilon": 1, "delta": 0.1, "integer": True, "sensitivity": 2},
]


@pytest.mark.parametrize("given", DESIGNS, ids=str)
def test_the_audit_holds_and_catches_less_noise(given):
    """Exact tables of the law and of the moved law; moved 20 % further the claim must fall."""
    design = design_noise(**given)
    noise = design.noise
    if isinstance(noise, tdp.TableNoise):
        cells, weights, atom = noise.sensitivity, list(noise.weights), 0
    else:
        cells = noise.cells_per_sensitivity()
        weights, atom = list(noise.weights), noise.atom

    def verdict(shift):
        # the atom of either law meets no atom of the other
        here = [*weights, *([0] * shift), atom, 0]
        there = [*([0] * shift), *weights, 0, atom]
        report = tdp.audit_pmf(here, there, epsilon=given["epsilon"], delta=given["delta"])
        return report.verdict

    assert all(verdict(shift) == "holds" for shift in {1, cells // 2 or 1, cells})
    assert verdict(math.ceil(1.2 * cells)) == "violated"
    assert noise.exact_delta() <= Fraction(given["delta"])


@pytest.mark.parametrize("given", DESIGNS, ids=str)
def test_draws_alone_do_not_refute_the_claim_unless_noise_is_cut(given, seed):
    """Black box: releases of two neighbours, then of two that lie a quarter further apart."""
    noise = design_noise(**given).noise
    moved, law = noise.sensitivity, noise
    if not isinstance(noise, tdp.TableNoise):
        moved = 20 * noise.cells_per_sensitivity()
        law = noise.lattice(noise._exact_sensitivity / moved)
    rng = np.random.default_rng(seed)

    def verdict(shift):
        return tdp.audit(
            lambda x, size: x + law.sample(size, rng=rng),
            0,
            shift,
            epsilon=given["epsilon"],
            delta=given["delta"],
            releases=40_000,
            rng=seed,
        ).verdict

    assert verdict(moved) == "no violation found"
    assert verdict(math.ceil(1.25 * moved)) == "violated"


def test_draws_follow_the_law(seed):
    """Chi-square of exact draws on a grid of half cells; a scale wrong by 10 % is caught."""
    from scipy.stats import chi2

    design = design_noise(epsilon=1, delta=0.5)
    noise = design.noise
    assert noise.atom > 0
    law = noise.lattice(noise._exact_width / 2)
    draws = law.sample(40_000, rng=seed)
    low, high = int(draws.min()), int(draws.max())
    z = np.arange(low - 1, high + 2)

    def statistic(values):
        got = np.array([(values == v).sum() for v in z], dtype=float)
        want = len(values) * law.pmf(z)
        keep = want >= 5
        rest, spare = got[~keep].sum(), want[~keep].sum()
        terms = (got[keep] - want[keep]) ** 2 / want[keep]
        return terms.sum() + (rest - spare) ** 2 / max(spare, 1), int(keep.sum())

    value, free = statistic(draws)
    limit = chi2.ppf(1 - 1e-6, free)
    assert value < limit
    assert statistic(np.rint(1.1 * draws).astype(int))[0] > limit
    assert np.abs(noise.sample(20_000, rng=seed)).mean() == pytest.approx(
        design.upper, abs=5 * math.sqrt(noise.variance() / 20_000)
    )


def test_an_accountant_gets_a_dominating_distribution():
    pytest.importorskip("dp_accounting")
    design = design_noise(epsilon=1, delta=0.1)
    loss = design.privacy_loss()
    for epsilon in (0.25, 0.5, 1.0, 1.5):
        exact = max(design.noise.delta(epsilon, shift / 8) for shift in range(1, 9))
        got = float(loss.get_delta_for_epsilon(epsilon))
        assert exact - 1e-9 <= got <= exact + 2e-3
    twice = loss.self_compose(2)
    delta = float(twice.get_delta_for_epsilon(2.0))
    assert 0.1 < delta <= 0.19 + 1e-6  # never beyond basic composition
    counts = privacy_loss(design_noise(epsilon=1, delta=0.1, integer=True))
    assert float(counts.get_delta_for_epsilon(1.0)) == pytest.approx(0.1, abs=1e-4)
    with pytest.raises(ParameterError, match="`noise`"):
        privacy_loss(tdp.Laplace(epsilon=1.0))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 0.1), (1, 1e-6), (3, 0.3), (0.1, 0.01)], ids=str
)
def test_what_an_accountant_gets_is_never_too_small(epsilon, delta):
    """Beside exact rationals for one release, and an exact product for two."""
    pytest.importorskip("dp_accounting")
    noise = design_noise(epsilon=epsilon, delta=delta).noise
    loss = privacy_loss(noise, discretization=1e-2)
    for part in (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(3, 2)):
        at = Fraction(epsilon) * part
        exact = noise.exact_delta(epsilon=at)
        got = float(loss.get_delta_for_epsilon(float(at)))
        assert got >= float(exact) * (1 - 1e-12)
        assert got <= float(exact) + 2e-2
    p = np.array([float(Fraction(w, noise.total)) for w in noise.weights])
    k = noise.cells_per_sensitivity()
    still = np.concatenate([p, np.zeros(k), [noise.atom_share, 0]])
    moved = np.concatenate([np.zeros(k), p, [0, noise.atom_share]])
    both = np.multiply.outer(still, still) - math.exp(epsilon) * np.multiply.outer(moved, moved)
    twice = float(loss.self_compose(2).get_delta_for_epsilon(epsilon))
    assert float(np.maximum(both, 0).sum()) <= twice * (1 + 1e-9)


def test_the_truncated_laplace_of_the_comparison():
    """A31 by its expected losses and by the delta of its last piece, down to epsilon = 1e-9."""
    for epsilon, delta in ((1.0, 0.2), (0.1, 0.01), (1e-9, 0.1)):
        law = tdp.TruncatedLaplace(epsilon=epsilon, delta=delta)
        a = math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon
        assert law.bound == pytest.approx(a, rel=1e-9)
        assert law.delta(epsilon, 1.0) == pytest.approx(delta, rel=1e-7)
        p = np.array([0.01, 0.3, 0.5, 0.9])
        assert np.allclose(law.cdf(law.quantile(p)), p, atol=1e-9)
    broken = tdp.TruncatedLaplace(epsilon=1.0, delta=0.2, sensitivity=0.8)
    assert broken.delta(1.0, 1.0) > 0.21  # 20 % less noise is caught
