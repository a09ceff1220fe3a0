"""Laws entry by entry, exactly composed: against an accountant, and against plain sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design.designs import design_noise
from tightdp.design.privacy_loss import privacy_loss
from tightdp.shaping.coordinate_noise import CoordinateNoise
from tightdp.shaping.shared_costs import composed_delta


def sums(columns):
    facts = {f"x{i}": tdp.Interval(0, 1) for i in range(columns)}
    return tdp.Sums(tdp.Schema(facts, rows=100))


@pytest.mark.parametrize(("columns", "gain"), [(4, 1.1), (8, 1.5)])
@pytest.mark.parametrize("noise", ["designed", "truncated-laplace"])
def test_several_entries_get_more_than_their_share_of_epsilon(noise, columns, gain):
    choice = CoordinateNoise(sums(columns), noise, 2, 0.1)
    each = choice.laws[0].guarantee()
    assert each.epsilon > gain * 2 / columns  # sums would give 2 / columns
    spent = composed_delta(Fraction(each.epsilon), Fraction(each.delta), columns, Fraction(2))
    assert spent <= Fraction(1, 10) + Fraction(1, 10**12)  # the guarantee is rounded up to floats
    assert (choice.epsilon, choice.delta) == (2, Fraction(1, 10))


@pytest.mark.parametrize("columns", [4, 8])
def test_an_accountant_agrees_and_catches_less_noise(columns):
    pytest.importorskip("dp_accounting")
    each, lost = CoordinateNoise(sums(columns), "designed", 2, 0.1)._shares()[-1]

    def spends(epsilon):
        law = design_noise(epsilon=epsilon, delta=lost).noise
        return float(privacy_loss(law).self_compose(columns).get_delta_for_epsilon(2.0))

    assert 0.09 < spends(each) <= 0.1
    assert spends(each / Fraction(4, 5)) > 0.15  # noise cut by a fifth


def test_sums_are_kept_where_they_leave_less_noise():
    choice = CoordinateNoise(sums(2), "designed", 2, 0.1)
    assert len(choice._shares()) == 2
    assert choice.laws[0].guarantee().epsilon == 1.0
    one = CoordinateNoise(sums(1), "designed", 2, 0.1)
    assert one._shares() == [(2, 0.1)]
    pure = CoordinateNoise(sums(8), "laplace", 2, 0)
    assert pure._shares() == [(Fraction(1, 4), 0.0)]


@pytest.mark.parametrize("noise", ["laplace", "staircase"])
def test_a_seed_does_not_give_every_entry_the_same_noise(noise: str, seed: int) -> None:
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=10)
    mechanism = tdp.AdditiveMechanism(tdp.Sums(schema), noise=noise, epsilon=1.0)
    first, second = np.asarray(mechanism.noise.sample(400, rng=seed), dtype=np.float64).T
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(400)
