"""Law of bookings: a ledger books what is promised, to those to whom it is promised, or refuses.

For every mechanism that is enrolled: exactly its epsilon and delta; a mechanism whose sampler only
approaches its law needs a permission, and is marked; one that protects persons does not count by
the largest cell of a partition of rows, in which a person may have several cells.
"""

from __future__ import annotations

import numpy as np
import pytest
from enrolled import BOTH, CASES, RELATED, Case, mapping, plain_rows, schema

import tightdp as tdp
from tightdp.errors import ParameterError, TightdpError
from tightdp.ledger.composition import Partition
from tightdp.ledger.entries import Terms
from tightdp.privacy import Numerics

MARK = "APPROXIMATE: epsilon is not proved"
CHAINS = [
    Case(
        "median by a chain",
        lambda facts: tdp.KNormGeometricMedian(
            facts, epsilon=1, columns=["x", "y"], sampler="mcmc", steps=100
        ),
    ),
    Case(
        "quantile regression by a chain",
        lambda facts: tdp.KNormQuantileRegression(
            facts, epsilon=1, features=["x"], target="y", sampler="mcmc", steps=100
        ),
    ),
]
ROUGH = [(case, relation) for case in CHAINS for relation in BOTH]


def table(seed):
    return mapping(plain_rows(np.random.default_rng(seed)))


def booked_unproved(case, relation, seed) -> bool:
    """Whether a ledger that allows none books a release that is not proved."""
    ledger = tdp.Ledger(9, 0.5, neighbors=relation)
    try:
        case.build(relation).release(table(seed), ledger=ledger)
    except ParameterError:
        assert ledger.spent.epsilon == 0
        return False
    return True


@pytest.mark.parametrize(("case", "relation"), RELATED + ROUGH, ids=str)
def test_what_is_booked_is_what_is_promised(case, relation, seed):
    mechanism = case.build(relation)
    approximate = mechanism.numerics is Numerics.APPROXIMATE
    assert approximate == (case in CHAINS)
    ledger = tdp.Ledger(9, 0.5, neighbors=relation, allow_approximate=approximate)
    release = mechanism.release(table(seed), ledger=ledger)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (mechanism.epsilon, mechanism.delta)
    assert release.guarantee.epsilon >= mechanism.epsilon
    assert release.guarantee.delta >= mechanism.delta
    assert (MARK in str(release)) == (MARK in str(ledger)) == approximate


@pytest.mark.parametrize(("case", "relation"), RELATED, ids=str)
def test_what_is_booked_in_rho_is_what_the_mechanism_knows(case, relation, seed):
    """Never more than its epsilon and delta imply, and in the unit of the ledger."""
    mechanism = case.build(relation)
    cost, implied = mechanism.cost, tdp.Cost.of(mechanism.epsilon, mechanism.delta)
    assert (cost.epsilon, cost.delta) == (mechanism.epsilon, mechanism.delta)
    assert (cost.rho, cost.rho_delta) <= (implied.rho, implied.rho_delta)
    assert (cost.mu_squared, cost.mu_delta) <= (implied.mu_squared, implied.mu_delta)
    assert cost.rho > 0
    ledger = tdp.Ledger(rho=99, slack=0.5, neighbors=relation)
    mechanism.release(table(seed), ledger=ledger)
    assert (ledger.spent.rho, ledger.spent.delta) == (cost.rho, cost.rho_delta)


@pytest.mark.parametrize(("case", "relation"), ROUGH, ids=str)
def test_what_is_not_proved_needs_a_permission(case, relation, seed):
    assert not booked_unproved(case, relation, seed)


def test_a_ledger_that_asks_nobody_is_caught(seed, monkeypatch):
    monkeypatch.setattr(Terms, "check_allowed", lambda *_: None)
    assert booked_unproved(CHAINS[0], "replace-one", seed)


# --- persons in partitions ------------------------------------------------------------------------


def persons():
    """The mechanisms that can be built for persons with several rows."""
    for case in CASES:
        try:
            mechanism = case.make(schema("add-remove", person="id", rows_per_person=2))
        except TightdpError:
            continue  # such persons are refused when it is built
        if mechanism.guarantee().rows_per_person:
            yield case, mechanism


def cells_counted_once(mechanism) -> bool:
    """Whether two cells of rows count by their maximum for somebody who may be in both."""
    ledger = tdp.Ledger(9, 0.5, neighbors="add-remove")
    ledger.declare_partition("region", ["north", "south"], fixed=False)
    for cell in ("north", "south"):
        try:
            with ledger.charge(
                mechanism.guarantee(), protects="persons in column 'id'", partition=("region", cell)
            ) as charge:
                charge.store({})
        except ParameterError:
            assert ledger.spent.epsilon == 0
            return False
    return ledger.spent.epsilon < 2 * mechanism.epsilon


def test_persons_pay_in_every_cell():
    found = list(persons())
    assert len(found) > 20
    assert [case.name for case, mechanism in found if cells_counted_once(mechanism)] == []


def test_a_partition_that_forgets_persons_is_caught(monkeypatch):
    monkeypatch.setattr(Partition, "check_use", lambda *_: None)
    monkeypatch.setattr(Partition, "unit", "persons in column 'id'")
    _, mechanism = next(persons())
    assert cells_counted_once(mechanism)
