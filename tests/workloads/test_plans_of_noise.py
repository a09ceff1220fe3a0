"""Residuals, what a replaced row costs in them, and plans that are as good as they say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tightdp.privacy import Neighbors
from tightdp.workloads import replaced_rows as costs
from tightdp.workloads.planner import exchangeable, plan
from tightdp.workloads.replaced_rows import ReplacedRow, concave_bound
from tightdp.workloads.residuals import (
    Workload,
    along,
    centred,
    contrasts,
    frame_square,
    subsets,
)
from tightdp.workloads.strategies import strategies

REPLACE, ADD = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE


def to_order(sizes: list[int], order: int) -> Workload:
    """All tables of up to so many columns."""
    columns = range(len(sizes))
    return Workload(
        sizes, [t for k in range(1, order + 1) for t in itertools.combinations(columns, k)]
    )


def residual(row: tuple[int, ...], some: tuple[int, ...], sizes: list[int]) -> np.ndarray:
    """What a row adds to a residual, written out."""
    out = np.ones(1)
    for j in some:
        level = np.full(sizes[j], -1 / sizes[j])
        level[row[j]] += 1
        out = np.kron(out, level)
    return out


@pytest.mark.parametrize("sizes", [[2, 2, 2], [2, 3, 4], [3, 3, 2]])
def test_moves_are_those_of_all_pairs_of_rows(sizes):
    work = to_order(sizes, 3)
    parts = [some for some in work.residuals if some]
    cost = ReplacedRow(sizes, parts, range(3))
    rows = list(itertools.product(*map(range, sizes)))
    for first, second in itertools.product(rows, rows):
        differ = np.array([[a != b for a, b in zip(first, second, strict=True)]])
        moved = [
            float(((residual(first, p, sizes) - residual(second, p, sizes)) ** 2).sum())
            for p in parts
        ]
        np.testing.assert_allclose(cost.moves(differ)[0], moved, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_bounds_on_the_worst_row_are_bounds_and_near(order, seed, monkeypatch):
    """Whatever way is taken, no set of columns costs more; and the bound is within 2 %."""
    rng = np.random.default_rng([seed, order])
    for _ in range(5):
        sizes = rng.integers(2, 9, 8).tolist()
        parts = [some for some in to_order(sizes, order).residuals if some]
        rates = rng.exponential(size=len(parts))
        cost = ReplacedRow(sizes, parts, range(8))
        every = np.array(list(itertools.product([False, True], repeat=8)))
        most = float(cost.totals(every, rates).max())
        assert most <= cost.most(rates) <= most * (1 + 1e-7)
        monkeypatch.setattr(costs, "MOST_LISTED", 0)
        for known in (rates, np.array([math.prod(sizes[j] ** 0.5 for j in p) for p in parts])):
            most = float(cost.totals(every, known).max())
            assert most <= cost.most(known) <= most * (1.02 if known is not rates else 1.2)
            assert float(cost.totals(cost.worst(known)[:1], known)[0]) <= most * (1 + 1e-12)
        monkeypatch.undo()


def test_branches_that_are_cut_off_still_bound(seed, monkeypatch):
    monkeypatch.setattr(costs, "MOST_LISTED", 0)
    monkeypatch.setattr(costs, "_NODES", 3)
    rng = np.random.default_rng(seed)
    parts = [some for some in to_order([3] * 7, 3).residuals if some]
    rates = rng.exponential(size=len(parts))
    cost = ReplacedRow([3] * 7, parts, range(7))
    every = np.array(list(itertools.product([False, True], repeat=7)))
    assert cost.totals(every, rates).max() <= cost.most(rates)


def test_the_concave_bound_bounds(seed):
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=9)))
    for _ in range(20):
        pairs = rng.exponential(size=(9, 9))
        pairs = np.triu(pairs, 1) + np.triu(pairs, 1).T
        line = rng.exponential(3, size=9)
        values = every @ line - np.einsum("ij,jk,ik->i", every, pairs, every) / 2
        assert values.max() <= concave_bound(line, pairs) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("sizes", "order"), [([2] * 8, 2), ([2] * 8, 3), ([9, 16, 7, 15, 6, 5, 2, 42], 2)]
)
def test_plans_are_near_their_bound_and_half_of_group_privacy(sizes, order):
    work = to_order(sizes, order)
    found, added = plan(work, REPLACE), plan(work, ADD)
    assert 0 <= found.gap < 0.002
    assert found.total < 0.51 * 4 * added.total  # a row replaced is two rows, costs add in roots
    parts = list(found.variances)
    cost = ReplacedRow(sizes, parts, range(len(sizes)))
    rates = np.array([1 / found.variances[p] for p in parts])
    every = np.array(list(itertools.product([False, True], repeat=len(sizes))))
    assert 0.99 < cost.totals(every, rates).max() <= 1


def test_no_plan_beats_the_bound(seed):
    """Random plans, scaled to cost as much, have larger totals."""
    rng = np.random.default_rng(seed)
    work = to_order([2, 3, 5, 4], 2)
    found = plan(work, REPLACE)
    parts = list(found.variances)
    cost = ReplacedRow(work.sizes, parts, range(4))
    own = np.array([1 / found.variances[p] for p in parts])
    for size in (0.01, 0.1, 1.0):
        rates = own * np.exp(size * rng.normal(size=len(parts)))
        rates /= cost.most(rates)
        other = work.total_variance(dict(zip(parts, 1 / rates, strict=True)))
        assert other >= found.bound


def test_fifty_columns_are_planned_in_seconds(seed):
    sizes = np.sort(np.random.default_rng(seed).integers(2, 60, 50)).tolist()
    found = plan(to_order(sizes, 2), REPLACE)
    assert found.gap < 0.01


def test_a_row_that_is_added_has_a_closed_form():
    work = to_order([2, 3, 4], 2)
    found = plan(work, ADD)
    cost = sum(math.prod(1 - 1 / n for n in work.shape(a)) / s for a, s in found.variances.items())
    assert cost == pytest.approx(1, rel=1e-6)
    assert found.gap < 1e-6
    marginal = [
        work.importance[a] * s**2 / math.prod(1 - 1 / n for n in work.shape(a))
        for a, s in found.variances.items()
    ]
    np.testing.assert_allclose(marginal, marginal[0], rtol=1e-6)  # Kuhn and Tucker


def test_weights_make_columns_differ():
    tables = [(0,), (1,), (2,)]
    assert exchangeable(Workload([2, 2, 2], tables)) == [0, 0, 0]
    assert exchangeable(Workload([2, 2, 2], tables, [1, 1, 2])) == [0, 1, 2]


def test_coordinates_are_orthogonal_and_whole():
    for n in (2, 3, 7):
        rows = contrasts(n)
        gram = rows @ rows.T
        assert (gram == np.diag(np.diag(gram))).all()
        assert (rows.sum(axis=1) == 0).all()
        assert (centred(n).sum(axis=1) == 0).all()
        np.testing.assert_allclose(
            centred(n).T @ centred(n), frame_square(n) * (np.eye(n) - 1 / n), atol=1e-9
        )


def test_variances_of_cells_are_those_of_the_kernels(seed):
    """By matrices of the whole table, for isotropic noise in every residual."""
    work = Workload([2, 3, 4], [(0, 1, 2), (0, 2)])
    rng = np.random.default_rng(seed)
    spread = {some: float(rng.exponential()) for some in work.residuals}
    for table in work.tables:
        whole = np.zeros((work.cells(table),) * 2)
        for some in subsets(table):
            root = np.ones((1, 1))
            for j in table:
                n = work.sizes[j]
                root = np.kron(root, np.eye(n) - 1 / n if j in some else np.full((n, n), n**-1.5))
            whole += spread[some] * root @ root.T
        np.testing.assert_allclose(
            np.diag(whole), np.full(len(whole), work.cell_variance(table, spread)) / 1, rtol=1e-9
        )


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_strategies_are_ordered_and_tell_all_residuals(relation):
    for sizes, order in (([2] * 5, 2), ([2, 3, 4], 2), ([2, 2, 3], 3)):
        work = to_order(sizes, order)
        found = strategies(work, relation)
        totals = [strategy.total for strategy in found]
        assert totals == sorted(totals)
        for strategy in found:
            assert sum(share for _, share in strategy.groups) == 1
            assert sorted(k for ks, _ in strategy.groups for k in ks) == list(
                range(len(strategy.parts))
            )
            for some in work.residuals:
                if some or relation is ADD:
                    assert any(
                        some == columns or (kind == "cells" and set(some) <= set(columns))
                        for kind, columns in strategy.parts
                    )


def test_matrices_along_axes(seed):
    rng = np.random.default_rng(seed)
    array = rng.normal(size=(5, 3, 4))
    maps = [rng.normal(size=(2, 3)), rng.normal(size=(6, 4))]
    np.testing.assert_allclose(
        along(array, maps, 1), np.einsum("aj,bk,ijk->iab", *maps, array), rtol=1e-12
    )
