"""How many rows of a person to use: the exact law, the score, and the books."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data import persons as module
from tightdp.data.persons import RowsOfPersons
from tightdp.errors import TightdpError

SCHEMA = tdp.Schema({"y": tdp.Interval(0, 1)}, rows=90, neighbors="add-remove", person="who")
SHARES = (0.95, 0.5, 0.2, Fraction(1, 3))
MOST = 4


def finder(share=0.95, most=MOST, epsilon=1):
    return tdp.RowsPerPerson(SCHEMA, most, share=share, epsilon=epsilon)


def log_law(mechanism, persons):
    return np.log(mechanism.law_on(np.array(persons)).probabilities())


def worst(mechanism, largest=12):
    """The largest log ratio over neighbours: a person more, with any number of rows."""
    found = 0.0
    for persons in itertools.product((0, 1, 5, largest), repeat=MOST):
        law = log_law(mechanism, persons)
        for place in range(MOST):
            more = np.array(persons) + (np.arange(MOST) == place)
            found = max(found, float(abs(log_law(mechanism, more) - law).max()))
    return found


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_a_person_is_told_apart_by_at_most_epsilon(share, epsilon):
    assert worst(finder(share, epsilon=epsilon)) <= epsilon * (1 + 1e-9)


def test_most_of_epsilon_is_used_and_a_rate_that_is_too_large_is_caught():
    assert worst(finder()) > 0.75  # of all numbers of candidates the supremum is 1
    strong = finder()
    strong.rate *= 2  # planted: one score rises and another falls, by one person
    assert worst(strong) > 1.2


@pytest.mark.parametrize("share", SHARES)
def test_scores_are_those_of_brute_force(share, seed):
    rng, mechanism = np.random.default_rng(seed), finder(share)
    for _ in range(20):
        persons = rng.integers(0, 7, MOST)
        rows = np.repeat(np.arange(1, MOST + 1), persons)
        tau = mechanism.share
        scores = [
            max(
                Fraction(0),
                int((rows < t).sum()) - tau * len(rows),
                tau * len(rows) - int((rows <= t).sum()),
            )
            for t in range(1, MOST + 1)
        ]
        assert min(scores) == 0
        weights = np.exp([-float(mechanism.rate * score) for score in scores])
        np.testing.assert_allclose(
            np.exp(log_law(mechanism, persons)), weights / weights.sum(), rtol=1e-9
        )


@pytest.mark.parametrize("share", SHARES)
def test_the_share_is_missed_by_no_more_than_is_said(share):
    mechanism = finder(share, epsilon=0.5)
    for persons in itertools.product((0, 3, 40), repeat=MOST):
        upto = np.cumsum(persons)
        aim = float(mechanism.share) * upto[-1]
        score = np.maximum(np.maximum(upto - persons - aim, aim - upto), 0)
        far = score > mechanism.rank_error(0.9)
        assert np.exp(log_law(mechanism, persons))[far].sum() <= 0.1


def test_rows_are_counted_in_pieces_as_at_once(monkeypatch, seed):
    keys = np.random.default_rng(seed).integers(-1, 9, (5000, 2))
    whole = RowsOfPersons(70)
    whole.add(keys)
    monkeypatch.setattr(module, "_LEAST_BUFFER", 100)
    parts = RowsOfPersons(70)
    for start in range(0, 5000, 37):
        parts.add(keys[start : start + 37])
    found = parts.persons()
    np.testing.assert_array_equal(found, whole.persons())
    _, counts = np.unique(keys[keys[:, 0] != -1], axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.bincount(np.minimum(counts, 70), minlength=71)[1:])


def test_the_number_is_stated_paid_and_booked_for_persons(seed):
    ledger = tdp.Ledger(1, neighbors="add-remove", allow_seeded=True)
    table = {"who": [i % 60 for i in range(180)], "y": [0.5] * 180}
    found = tdp.find_rows_per_person(
        table, 20, schema=SCHEMA, epsilon=0.5, ledger=ledger, key="k", rng=seed
    )
    assert found.value[0] in range(1, 21)
    assert found.guarantee.unit == "person with at most 20 rows used"
    assert ledger.protects == "persons in column 'who'"
    again = tdp.find_rows_per_person(
        table, 20, schema=SCHEMA, epsilon=0.5, ledger=ledger, key="k", rng=seed
    )
    assert again.value.tolist() == found.value.tolist()
    facts = {"neighbors": "add-remove", "person": "who", "rows_per_person": int(found.value[0])}
    tdp.mean(table, schema=tdp.Schema({"y": tdp.Interval(0, 1)}, 90, **facts), epsilon=0.5,
             ledger=ledger, rng=seed)  # fmt: skip
    assert ledger.spent.epsilon == 1


def test_an_empty_table_has_an_answer(seed):
    release = finder().release({"who": [None, None], "y": [1, 1]}, rng=seed)
    assert 1 <= release.value[0] <= MOST
    assert 1 <= finder().release({"who": [], "y": []}, rng=seed).value[0] <= MOST


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tdp.RowsPerPerson(SCHEMA.only(["y"]), 0, epsilon=1), "most"),
        (lambda: tdp.RowsPerPerson(SCHEMA, 2**21, epsilon=1), "most"),
        (lambda: finder(1), "share"),
        (lambda: finder(0), "share"),
        (lambda: finder(1e-9), "share"),
        (lambda: tdp.RowsPerPerson(tdp.Schema(SCHEMA.columns, 9), 5, epsilon=1), "person"),
        (lambda: finder().check({"y": [1.0]}), "no column 'who'"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(TightdpError, match=words):
        make()
