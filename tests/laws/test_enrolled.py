"""The laws run over everything: what can be built has a line in the table, and every line works."""

from __future__ import annotations

import numpy as np
import pytest
from enrolled import (
    BOTH,
    CASES,
    ESTIMATORS,
    FITS,
    MECHANISMS,
    RELATED,
    estimators,
    mapping,
    mechanisms,
    plain_rows,
)

import tightdp as tdp
from tightdp.errors import TightdpError


def test_every_mechanism_is_enrolled():
    assert mechanisms() == set(MECHANISMS)
    assert all(MECHANISMS.values())


def test_every_estimator_is_enrolled():
    assert {kind.__name__ for kind in estimators()} == set(ESTIMATORS)


def test_names_of_cases_are_unique():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("case", "relation"), RELATED, ids=str)
def test_every_case_pays_and_releases(case, relation, seed):
    ledger = tdp.Ledger(epsilon=100, delta=0.5, neighbors=relation)
    mechanism = case.build(relation)
    release = mechanism.release(mapping(plain_rows(np.random.default_rng(seed))), ledger=ledger)
    assert len(release.names) == len(release.value)
    assert ledger.spent.epsilon == mechanism.epsilon
    assert str(release.guarantee.neighbors) == relation


@pytest.mark.parametrize(("name", "relation"), FITS)
def test_every_estimator_pays_and_fits(name, relation, seed):
    ledger = tdp.Ledger(epsilon=100, delta=0.5, neighbors=relation)
    ESTIMATORS[name].fit(relation, mapping(plain_rows(np.random.default_rng(seed))), ledger=ledger)
    assert ledger.spent.epsilon == 1


@pytest.mark.parametrize("case", [c for c in CASES if len(c.relations) < len(BOTH)], ids=str)
def test_other_relations_are_refused_before_payment(case):
    for relation in set(BOTH) - set(case.relations):
        with pytest.raises(TightdpError):
            case.build(relation)
