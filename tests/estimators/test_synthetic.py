"""Synthetic samples: both methods, their order, their limits, their price."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta, chi2
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.errors import BudgetError, InfeasibleSamplingError, ParameterError
from tightdp.estimators.synthetic import SyntheticSample
from tightdp.mechanisms.kolmogorov import (
    JointKolmogorov,
    KolmogorovScores,
    listed_size,
    public_size,
)
from tightdp.privacy import check_epsilon
from tightdp.randomness import source

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
FEW = "ten columns have too many cells"
PLANE = {"x": tdp.Interval(0, 2), "y": tdp.Interval(0, 2)}


@pytest.mark.slow
@parametrize_with_checks(
    [SyntheticSample(bounds=(-5, 5), bins=2)],
    expected_failed_checks=lambda estimator: {"check_dtype_object": CELLS},
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- two columns: the law by brute force ---------------------------------------------------------


def joint_law(table: np.ndarray, size: int, rate: float) -> dict[tuple[int, ...], float]:
    """P(counts) for 2 x 2 cells by summing over all ordered samples, orthant by orthant."""
    rows, weights = int(table.sum()), Counter()
    corners = list(itertools.product(range(2), repeat=2))
    for sample in itertools.product(corners, repeat=size):
        apart = 0
        for a, b in corners:
            here = sum(x <= a and y <= b for x, y in sample)
            there = sum(int(table[x, y]) for x, y in corners if x <= a and y <= b)
            apart = max(apart, abs(rows * here - size * there))
        counts = tuple(sum(point == corner for point in sample) for corner in corners)
        weights[counts] += math.exp(-rate * apart)
    total = sum(weights.values())
    return {counts: weight / total for counts, weight in weights.items()}


def tables(rows: int) -> list[np.ndarray]:
    return [
        np.array(c).reshape(2, 2)
        for c in itertools.product(range(rows + 1), repeat=4)
        if sum(c) == rows
    ]


def frame_of(table: np.ndarray) -> dict[str, np.ndarray]:
    cells = np.repeat(np.arange(4), table.ravel())
    return {"x": cells // 2 + 0.5, "y": cells % 2 + 0.5}


def mechanism_for(
    rows: int, size: int, relation: str = "replace-one", epsilon: float = 1.0
) -> JointKolmogorov:
    schema = tdp.Schema(PLANE, rows=rows, neighbors=relation)
    return JointKolmogorov(tdp.JointHistogram(schema, ["x", "y"], 2), size, epsilon=epsilon)


def test_the_joint_law_is_the_enumerated_one(seed):
    mechanism, table = mechanism_for(5, 3), np.array([[3, 1], [0, 1]])
    chances = mechanism.probabilities(mechanism.scores(frame_of(table)))
    expected = joint_law(table, 3, float(mechanism.budget.rate))
    assert float(mechanism.budget.rate) == 1 / (2 * 3)
    for counts, chance in zip(mechanism.candidates, chances, strict=True):
        assert chance == pytest.approx(expected[counts], rel=1e-9)
    bits, scores = source(seed), mechanism.scores(frame_of(table))
    seen = Counter(mechanism.candidates[mechanism.choose(scores, rng=bits)] for _ in range(1500))
    stat = sum((seen[c] - 1500 * p) ** 2 / (1500 * p) for c, p in expected.items())
    assert chi2.sf(stat, len(expected) - 1) > 1e-4


def worst_ratio(mechanism: JointKolmogorov, relation: str) -> float:
    laws = {
        table.tobytes(): np.log(mechanism.probabilities(mechanism.scores(frame_of(table))))
        for rows in (3, 4)
        for table in tables(rows)
    }
    worst = 0.0
    for table in tables(4):
        for i, j in itertools.product(range(4), range(4)):
            if table.flat[i] == 0 or (i == j and relation == "replace-one"):
                continue
            other = table.copy()
            other.flat[i] -= 1
            if relation == "replace-one":
                other.flat[j] += 1
            worst = max(worst, np.abs(laws[table.tobytes()] - laws[other.tobytes()]).max())
    return worst


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_every_neighbouring_pair_of_planar_tables_is_private(relation):
    assert worst_ratio(mechanism_for(4, 3, relation), relation) <= 1 + 1e-9
    # the twin that forgets the factor 2 of the normaliser is caught
    assert worst_ratio(mechanism_for(4, 3, relation, epsilon=2.0), relation) > 1.05


def test_all_samples_are_listed_once():
    cells = tdp.JointHistogram(tdp.Schema(PLANE, rows=5), ["x", "y"], 3)
    scores = KolmogorovScores(cells, 4)
    assert len({tuple(row) for row in scores.counts}) == math.comb(12, 4) == len(scores.counts)
    assert sum(scores.multiplicities()) == 9**4
    assert listed_size(9, 3) == 3


def test_several_columns_reach_as_far_as_lists_do(seed):
    X = np.random.default_rng(seed).uniform(0, 2, (400, 2))
    model = SyntheticSample(2.0, (0, 2), "kolmogorov", random_state=seed).fit(X)
    assert model.sample_.shape == (8, 2)
    assert SyntheticSample(2.0, (0, 2), "kolmogorov", 30, 2).fit(X).sample_.shape == (30, 2)
    with pytest.raises(InfeasibleSamplingError, match="orthants form no chain"):
        SyntheticSample(2.0, (0, 2), "kolmogorov", 100, 5).fit(X)
    with pytest.raises(InfeasibleSamplingError, match="method='histogram'"):
        SyntheticSample(1.0, (0, 2), "kolmogorov", bins=200).fit(X)


# --- one column ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "epsilon", "cells", "size"),
    [
        (10**4, 1.0, 100, 100),  # the root
        (10**4, 0.04, 2, 20),
        (1000, 1.0, 100, 28),  # 1000 / (8 ln 100) = 27.1
        (1000, 0.1, 20, 5),
        (10**6, 1.0, 1000, 1000),
        (10**9, 1.0, 1000, 10_000),
        (4, 64.0, 2, 4),
        (5, 0.1, 1000, 1),
    ],
)
def test_the_size_is_the_root_of_what_is_told_or_less(rows, epsilon, cells, size):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
    assert public_size(schema, check_epsilon(epsilon), cells) == size


def test_a_person_with_many_rows_gets_the_size_of_a_smaller_budget():
    facts = {"rows": 10**4, "neighbors": "add-remove", "person": "p"}
    many = tdp.Schema({"x": tdp.Interval(0, 1)}, **facts, rows_per_person=25)
    assert public_size(many, check_epsilon(1), 3) == 20


def test_the_size_knows_epsilon(seed):
    """Few bits are told at a small epsilon; n**(2/3) points would be pulled to the uniform law."""
    rows = np.random.default_rng(seed).beta(2, 5, 1000)
    schema, found, bits = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1000), {}, source(seed)
    for size in (None, 100):
        mechanism = tdp.KolmogorovSample(schema, "x", 32, epsilon=0.1, size=size)
        law = mechanism.law_on(mechanism.statistic.measure({"x": rows}))
        drawn = [law.paths.distance(law.draw(bits)) / 1000 / mechanism.size for _ in range(40)]
        found[size] = np.mean(drawn)
    assert found[None] < 0.7 * found[100]


def distance(model: SyntheticSample) -> float:
    x = np.linspace(0, 1, 501)
    return float(np.abs(model.cdf(x[:, None]) - beta(2, 5).cdf(x)).max())


def test_the_order_of_the_notes(seed):
    """Of samples of one size, the balanced one is closer to the truth than independent draws."""
    near, far = [], []
    for i in range(6):
        X = np.random.default_rng([seed, i]).beta(2, 5, (8000, 1))
        options = {"epsilon": 1.0, "bounds": (0, 1), "random_state": seed + i}
        model = SyntheticSample(method="kolmogorov", bins=100, **options).fit(X)
        near.append(distance(model))
        far.append(distance(SyntheticSample(size=len(model.sample_), **options).fit(X)))
    assert np.mean(near) < 0.75 * np.mean(far)


@pytest.mark.slow
def test_a_million_rows_take_seconds(capsys):
    import time

    X = np.random.default_rng(1).beta(2, 5, (10**6, 1))
    before = time.process_time()
    model = SyntheticSample(1.0, (0, 1), "kolmogorov", 1000, 1000, progress=True).fit(X)
    assert time.process_time() - before < 20
    assert model.sample_.shape == (1000, 1)
    assert distance(model) < 0.01
    assert "bands" in capsys.readouterr().err


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["histogram", "kolmogorov"])
def test_a_sample_is_in_bounds_shuffled_and_paid_once(method, seed):
    X = np.sort(np.random.default_rng(seed).normal(3, 1, (600, 1)), axis=0)
    ledger = tdp.Ledger(epsilon=1)
    model = SyntheticSample(1.0, (0, 5), method, ledger=ledger).fit(X, key="sample")
    assert model.sample_.shape[0] == (600 if method == "histogram" else 24)
    assert model.sample_.min() >= 0
    assert model.sample_.max() <= 5
    assert not (np.diff(model.sample_[:, 0]) >= 0).all()
    again = clone(model).fit(X, key="sample")
    assert again.release_.integers == model.release_.integers
    assert ledger.spent.epsilon == 1
    with pytest.raises(BudgetError):
        clone(model).fit(X)
    assert ledger.spent.epsilon == 1
    assert hasattr(model, "density_") == (method == "histogram")
    assert not hasattr(model.set_params(method="kolmogorov", ledger=None).fit(X), "density_")


@pytest.mark.parametrize("method", ["histogram", "kolmogorov"])
def test_it_is_paid_before_the_data_are_touched(method, monkeypatch):
    ledger, seen = tdp.Ledger(epsilon=1), []
    read = tdp.Statistic.measure

    def watched(self, frame, **options):
        seen.append(ledger.spent.epsilon)
        return read(self, frame, **options)

    monkeypatch.setattr(tdp.Statistic, "measure", watched)
    model = SyntheticSample(0.75, (0, 1), method, size=5, bins=4, ledger=ledger)
    model.fit(np.zeros((10, 1)))
    with pytest.raises(BudgetError):
        model.fit(np.zeros((10, 1)))
    assert seen == [0.75]


def test_categories_come_as_levels(seed):
    rng = np.random.default_rng(seed)
    schema = tdp.Schema(
        {"x": tdp.Interval(0, 1), "k": tdp.Category(["a", "b"], other="a")}, rows=300
    )
    table = {"x": rng.uniform(size=300), "k": rng.choice(["a", "b"], 300, p=[0.9, 0.1])}
    model = SyntheticSample(5.0, schema, random_state=seed).fit(table)
    assert model.sample_.shape == (300, 2)
    assert np.mean(model.sample_[:, 1] == "a") > 0.75
    with pytest.raises(ParameterError, match="no order"):
        model.cdf([[0.5, 0.0]])
    with pytest.raises(ParameterError, match="'k' is a category"):
        SyntheticSample(5.0, schema, "kolmogorov").fit(table)


def test_what_is_refused_costs_nothing():
    ledger = tdp.Ledger(epsilon=1)
    for options in (
        {"method": "kolmogoroff"},
        {"size": 0},
        {"size": 2.5},
        {"bins": "few"},
        {"bins": 1},
        {"bins": 1, "method": "kolmogorov"},
        {"smoothing": "cubic"},
        {"bounds": None},
        {"epsilon": -1},
    ):
        with pytest.raises(ParameterError):
            SyntheticSample(**{"bounds": (0, 1), "ledger": ledger, **options}).fit(np.zeros((9, 1)))
    with pytest.raises(InfeasibleSamplingError, match="smaller sample"):
        SyntheticSample(1.0, (0, 1), "kolmogorov", 10**6, 9000, ledger=ledger).fit(np.zeros((9, 1)))
    assert ledger.spent.epsilon == 0
    model = SyntheticSample(bounds=(0, 1), bins=3).fit(np.zeros((9, 1)))
    with pytest.raises(ParameterError, match="1 columns"):
        model.cdf([0.5])
