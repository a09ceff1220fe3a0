"""Several mechanisms for one payment: epsilons, names, grids and levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.joint_release import Together
from tightdp.privacy import Numerics
from tightdp.randomness import source

UNIT = tdp.Interval(0, 1)
TABLE = {"a": np.linspace(0, 1, 50), "b": np.linspace(0, 1, 50) ** 2}


def schema(**options):
    return tdp.Schema({"a": UNIT, "b": UNIT}, rows=50, **options)


def test_epsilons_add_and_are_paid_once():
    ledger = tdp.Ledger(epsilon=1)
    both = Together(
        [
            tdp.KNormMedian(schema(), "a", epsilon=Fraction(1, 3)),
            tdp.KNormQuantiles(schema(), "b", [0.25, 0.75], epsilon=Fraction(2, 3)),
        ]
    )
    release = both.release(TABLE, ledger=ledger, key="k")
    assert both.epsilon == 1
    assert ledger.spent.epsilon == 1
    assert release.names == ("a[0.5]", "b[0.25]", "b[0.75]")
    assert release.covariance.shape == (3, 3)
    assert both.release(TABLE, ledger=ledger, key="k").integers == release.integers


def test_grids_may_differ_and_integers_stay_exact(seed):
    parts = [tdp.KNormMedian(schema(bits=b), name, epsilon=1) for b, name in ((4, "a"), (9, "b"))]
    release = Together(parts).release(TABLE, rng=seed)
    assert release.resolution == 512
    places = 0.5 + 0.5 * np.array(release.integers) / release.resolution
    assert release.value == pytest.approx(places)


def test_the_weakest_numerics_and_the_level_of_all(seed):
    exact = tdp.KNormMedian(schema(), "a", epsilon=1, interval="sample")
    chain = tdp.KNormGeometricMedian(schema(), epsilon=1, sampler="mcmc", steps=200)
    assert Together([exact, chain]).numerics is Numerics.APPROXIMATE
    asked = []
    exact.draw = lambda frame, rng, level, bar: asked.append(level) or chain_like()

    def chain_like():
        return chain.draw(TABLE, source(seed), 0.9, False)

    Together([exact, exact]).release(TABLE, confidence=0.9)
    assert asked == pytest.approx([0.95, 0.95])


def test_a_solver_is_never_called_exact():
    facts = tdp.Schema({"a": UNIT, "y": tdp.Category([0, 1], other=0)}, rows=50)
    fit = tdp.ObjectivePerturbation(facts, epsilon=1, noise_share=0.5)
    both = Together([fit, tdp.KNormMedian(schema(), "a", epsilon=1)])
    assert fit.guarantee().numerics is Numerics.IDEALIZED
    assert both.guarantee().numerics is Numerics.IDEALIZED


def test_who_gets_which_epsilon_is_part_of_the_request():
    columns = tdp.Schema(dict.fromkeys("abcd", UNIT), rows=50)
    table = dict.fromkeys("abcd", TABLE["a"])

    def four(*epsilons):
        named = zip("abcd", epsilons, strict=True)
        return Together([tdp.KNormMedian(columns, name, epsilon=e) for name, e in named])

    ledger = tdp.Ledger(epsilon=20)
    first = four(1, 2, 1, 2).release(table, ledger=ledger, key="k")
    assert four(1, 2, 1, 2).release(table, ledger=ledger, key="k").integers == first.integers
    with pytest.raises(ParameterError, match="another fingerprint"):
        four(1, 2, 2, 1).release(table, ledger=ledger, key="k")  # the same laws and the same sum


def test_bad_parts_are_refused():
    with pytest.raises(ParameterError, match="at least one"):
        Together([])
    other = schema(neighbors="add-remove")
    with pytest.raises(ParameterError, match="one neighbour relation"):
        Together([tdp.KNormMedian(s, "a", epsilon=1) for s in (schema(), other)])
    others = [
        schema(neighbors="add-remove", person=who, rows_per_person=most)
        for who, most in (("id", 3), ("id", 2), ("house", 3))
    ]
    for given in [*others[1:], other]:
        with pytest.raises(ParameterError, match="`person` column and one `rows_per_person`"):
            Together([tdp.KNormMedian(s, "a", epsilon=1) for s in (others[0], given)])
    same = Together([tdp.KNormMedian(others[0], name, epsilon=1) for name in ("a", "b")])
    assert same.guarantee().rows_per_person == 3
    ledger = tdp.Ledger(epsilon=9)
    both = Together([tdp.KNormMedian(schema(), name, epsilon=1) for name in ("a", "b")])
    with pytest.raises(ParameterError, match="'b'"):
        both.release({"a": TABLE["a"]}, ledger=ledger)
    assert ledger.spent.epsilon == 0


def test_a_function_of_the_caller_gets_the_callers_table():
    votes = tdp.ExponentialMechanism(
        ["low", "high"],
        lambda rows: [int((rows["b"] < 0.5).sum()), int((rows["b"] >= 0.5).sum())],
        sensitivity=1,
        epsilon=1,
    )
    median = tdp.KNormMedian(schema(), "a", epsilon=1)
    for parts in ([median, votes], [votes, median]):
        assert len(Together(parts).release(TABLE, rng=1).names) == 2
