"""The choice of columns and the fit on them: exact scores, their sensitivity, and one budget."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms import sparse_least_squares
from tightdp.mechanisms.sparse_least_squares import SparseLeastSquares
from tightdp.randomness import source


def schema(rows: int, width: int, **facts) -> tdp.Schema:
    names = [*(f"x{i}" for i in range(width)), "y"]
    return tdp.Schema({name: tdp.Interval(-1, 1) for name in names}, rows, **facts)


def sparse(rows: int, width: int, *, bits: int = 16, **options) -> SparseLeastSquares:
    facts = schema(rows, width, bits=bits)
    return SparseLeastSquares(facts, [f"x{i}" for i in range(width)], "y", **options)


def gram(mechanism: SparseLeastSquares, cells: np.ndarray) -> np.ndarray:
    table = dict(zip(mechanism.columns, np.asarray(cells, dtype=float).T, strict=True))
    (asked,) = mechanism.integer_sums()
    return mechanism._matrix(asked.read(table))


def test_scores_are_the_covariances_of_the_rows(seed):
    mechanism = sparse(50, 3, epsilon=1, keep=1)
    grid = 1 << mechanism.bits
    cells = np.random.default_rng(seed).integers(-grid, grid + 1, (50, 4))
    found = mechanism.scores(gram(mechanism, cells / grid))
    *columns, y = cells.T
    own = [abs(50 * int(x @ y) - int(x.sum()) * int(y.sum())) for x in columns]
    assert found.tolist() == own


def largest_move(rows: int) -> tuple[int, int]:
    """The largest move of a score over all small tables and neighbours, and what is claimed."""
    mechanism, grid = sparse(rows, 1, epsilon=1, keep=1), 1 << 16
    corners = list(product([-1, 0, 1], repeat=2))
    worst = 0
    for others in product(corners, repeat=rows - 1):
        scores = [
            int(mechanism.scores(gram_of(mechanism, np.array([*others, row]) * grid))[0])
            for row in corners
        ]
        worst = max(worst, max(scores) - min(scores))
    return worst, mechanism.sensitivity


def gram_of(mechanism: SparseLeastSquares, cells: np.ndarray) -> np.ndarray:
    whole = np.column_stack([np.full(len(cells), 1 << mechanism.bits), cells]).astype(object)
    return whole.T @ whole


@pytest.mark.parametrize("rows", [2, 3])
def test_the_sensitivity_holds_for_all_small_tables(rows):
    worst, claimed = largest_move(rows)
    assert worst <= claimed
    signed = 4 * (rows - 1) << 32  # of the score without its size, at corners of opposite signs
    assert claimed == signed


def test_signed_scores_reach_the_sensitivity():
    """A bound that no table reaches would be too large: rows at one corner, and one that moves."""
    rows, grid = 5, 1 << 16
    others = [(1, 1)] * (rows - 1)

    def signed(last: tuple[int, int]) -> int:
        x, y = np.array([*others, last]).T * grid
        return int(rows * (x @ y) - x.sum() * y.sum())

    assert signed((-1, -1)) - signed((1, 1)) == sparse(rows, 1, epsilon=1, keep=1).sensitivity


def test_the_choice_has_the_law_of_permute_and_flip(seed):
    """Chances of the first column, by draws, against the exact integral."""
    mechanism = sparse(100, 3, epsilon=2, keep=1)
    unit = mechanism.sensitivity
    scores = np.array([3 * unit, 2 * unit, 0], dtype=object)
    flip = tdp.ExponentialMechanism(
        ["a", "b", "c"], len, sensitivity=1, epsilon=Fraction(1), permute_and_flip=True
    )
    wanted = flip.probabilities([3, 2, 0])
    rng, draws = source(seed), 3000
    found = np.bincount([mechanism.choose(scores, rng)[0] for _ in range(draws)], minlength=3)
    assert np.abs(found / draws - wanted).max() < 4.5 * np.sqrt(0.25 / draws)


def test_a_choice_with_the_whole_budget_every_time_is_noticed(monkeypatch, seed):
    """The fault: ``keep`` choices, each of which spends the share of all."""
    mechanism = sparse(100, 4, epsilon=2, keep=3)
    monkeypatch.setattr(
        SparseLeastSquares, "rate", property(lambda s: s.share * s.epsilon / (2 * s.sensitivity))
    )
    assert mechanism.keep * mechanism.rate * 2 * mechanism.sensitivity != Fraction(1)
    monkeypatch.undo()
    spent = mechanism.keep * mechanism.rate * 2 * mechanism.sensitivity
    assert spent + mechanism.fitted.epsilon == mechanism.epsilon == 2


def test_a_file_of_other_rows_than_stated_has_its_own_sensitivity(tmp_path, monkeypatch):
    """Rows of a file are counted while they are read: a wrong number must not cost privacy."""
    mechanism, rates, moved = sparse(10, 2, epsilon=1, keep=1), [], []

    def watched(levels: np.ndarray, rate: Fraction, rng: object) -> int:
        rates.append(rate)
        moved.append(-levels)
        return 0

    monkeypatch.setattr(sparse_least_squares, "permute_and_flip", watched)
    for last in ("1,0,1", "-1,0,-1"):
        path = tmp_path / "rows.csv"
        path.write_text("x0,x1,y\n" + "1,0,1\n" * 2000 + last + "\n")
        with pytest.warns(tdp.PublicFactWarning, match="2001 rows"):
            mechanism.release(path, rng=1)
    most = int(np.abs(moved[0] - moved[1]).max())
    assert rates[0] == rates[1]
    assert 0 < 2 * rates[0] * most <= mechanism.share * mechanism.epsilon


def test_wide_tables(seed):
    """200 columns, of which four matter: they are found, and fitted."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (20_000, 200))
    slopes = np.zeros(200)
    slopes[[5, 50, 120, 199]] = [0.3, -0.3, 0.25, -0.25]
    y = X @ slopes + rng.normal(0, 0.1, 20_000)
    model = tdp.SparseLinearRegression(8.0, (-1, 1), keep=4, random_state=seed).fit(X, y)
    assert model.chosen_ == ("x5", "x50", "x120", "x199")
    assert np.linalg.norm(model.coef_ - slopes) < 0.1
    assert model.predict(X[:5]).shape == (5,)
    assert (model.coef_ != 0).sum() == 4


@pytest.mark.parametrize(
    "options",
    [{"keep": 0}, {"keep": 4}, {"share": 0}, {"share": 1}, {"share": float("nan")}, {"keep": 1.5}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ParameterError):
        sparse(100, 3, epsilon=1, **options)


def test_private_numbers_of_rows_are_refused():
    facts = schema(100, 2, neighbors="add-remove")
    with pytest.raises(ParameterError, match="replace-one"):
        SparseLeastSquares(facts, ["x0", "x1"], "y", epsilon=1)


def test_too_many_columns_are_refused(monkeypatch):
    monkeypatch.setattr(sparse_least_squares, "_MOST", 2)
    with pytest.raises(ParameterError, match="number of features"):
        sparse(100, 3, epsilon=1)
