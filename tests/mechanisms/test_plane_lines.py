"""Planes by lines: the same law as by boxes, and an end that public facts foresee."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from laws import fit

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError
from tightdp.exact.quantile_levels import CheckNorm, LineLaw, QuantileLevels, line_count
from tightdp.randomness import source

CASES = {
    "intercept": (2, True, 6, Fraction(1, 2)),
    "no intercept": (2, False, 6, Fraction(9, 10)),
    "two features": (3, True, 4, Fraction(3, 10)),
    "a box": (3, False, None, Fraction(1, 2)),
    "one number": (1, True, 6, Fraction(1, 5)),
    "four features": (5, True, 2, Fraction(1, 2)),
}


def levels(case: str, seed: int) -> QuantileLevels:
    """Levels of seven rows, two of them equal, on a small lattice."""
    dim, intercept, radius, tau = CASES[case]
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-4, 5, (7, dim)), rng.integers(-4, 5, 7)
    if intercept:
        x[:, 0] = 4
    x[3], y[3] = x[2], y[2]
    norm = CheckNorm(tau, dim=dim, intercept=intercept, replace=True, resolution=4)
    edge = 3 if radius is None else radius
    return QuantileLevels(x, y, tau, norm=norm, edge=edge, grid=2, radius=radius)


@pytest.mark.parametrize("case", CASES)
def test_draws_by_lines_follow_the_law(case: str, seed: int) -> None:
    found = levels(case, seed)
    rate = Fraction(3, 2) / found._norm.sensitivity
    points, law, bits = found.points(), LineLaw(found, rate), source(seed)
    costs = np.array([found.level(point) for point in points])
    p = np.exp(-float(rate) * (costs - costs.min()))
    place = {point: i for i, point in enumerate(points)}
    counts = np.bincount([place[law.draw(bits)] for _ in range(1500)], minlength=len(points))
    assert fit(counts, p / p.sum()) > 1e-4
    if len(points) > 20:
        assert fit(counts, p**0.5 / (p**0.5).sum()) < 1e-4  # planted: half of the rate


def test_lines_are_counted() -> None:
    for edge, slopes in ((3, 1), (2, 2), (4, 3)):
        grid = np.indices((2 * edge + 1,) * slopes).reshape(slopes, -1) - edge
        inside = int((np.abs(grid).sum(axis=0) <= edge).sum())
        assert line_count(edge, slopes, within=True) == inside
        assert line_count(edge, slopes, within=False) == grid.shape[1]


def test_five_coefficients_have_a_grid_of_use_and_six_have_none() -> None:
    """The evidence of the page: lines of the finest grids, in steps of 2**-5."""
    assert line_count(32, 4, within=True) == 746_241
    assert line_count(32, 5, within=True) == 9_737_793
    facts = {f"x{j}": tdp.Interval(-1, 1) for j in range(6)}
    five = list(facts)[:5]

    def mechanism(rows: int, names: list[str], **more: Any) -> tdp.KNormQuantileRegression:
        schema = tdp.Schema({name: facts[name] for name in names}, rows=rows)
        return tdp.KNormQuantileRegression(schema, epsilon=1, **more)

    assert mechanism(1438, five).grid == 5
    with pytest.raises(InfeasibleSamplingError, match="no grid"):
        mechanism(1439, five)
    with pytest.raises(InfeasibleSamplingError, match="no grid"):
        mechanism(100, five, shape="box")
    with pytest.raises(InfeasibleSamplingError, match="up to 5 coefficients"):
        mechanism(10, list(facts))


def few_rows(kind: str, rows: int) -> Any:
    """Tables on which cutting boxes did not end within a minute."""
    atoms = {
        "on a line": [[-1, -0.7, 0], [0, 0, 0], [1, 0.7, 0]],
        "two": [[0.5, 0.5], [-1, -0.5]],
        "three": [[0.5, -1, 0.5], [-0.5, 1, 1], [1, 0.5, -1]],
    }[kind]
    counts = [rows // 4, rows // 2, rows // 4] if len(atoms) == 3 else [rows // 2, rows // 2]
    cells = np.repeat(np.array(atoms), counts, axis=0)
    return {f"x{j}": cells[:, j] for j in range(cells.shape[1])}


@pytest.mark.parametrize("kind", ["two", "on a line", "three"])
def test_few_distinct_rows_end(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = few_rows(kind, 40)
    facts = tdp.Schema({name: tdp.Interval(-1, 1) for name in table}, rows=40)
    grid = 10 if kind == "two" else 5
    mechanism = tdp.KNormQuantileRegression(facts, epsilon=10, tau=0.1, grid=grid)
    release = mechanism.release(table, rng=seed)
    assert np.isfinite(release.value).all()
    monkeypatch.setattr("tightdp.mechanisms.quantile_regression._FEW_STEPS", 0)
    monkeypatch.setattr("tightdp.mechanisms.quantile_regression._PATIENCE", 3)
    again = mechanism.release(table, rng=seed)  # by boxes, which give up, and then by lines
    assert np.isfinite(again.value).all()


def test_grids_are_as_fine_as_an_end_allows() -> None:
    names = {f"x{j}": tdp.Interval(-1, 1) for j in range(4)}

    def grid(rows: int, columns: int, **options: Any) -> int:
        facts = tdp.Schema(dict(list(names.items())[:columns]), rows=rows)
        return tdp.KNormQuantileRegression(facts, epsilon=1, **options).grid

    assert [grid(1000, 2), grid(10_000, 2), grid(100_000, 2)] == [16, 15, 12]
    assert [grid(1000, 3), grid(1000, 4)] == [9, 6]
    with pytest.raises(tdp.errors.ParameterError, match="grid"):
        grid(1000, 3, grid=12)
    with pytest.raises(InfeasibleSamplingError, match="fewer `features`"):
        grid(10**6, 4)
