"""Weighted least squares: exact sums, the box of their moves, and the weighted plane."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.randomness import source

FACTS = {
    "x": tdp.Interval(-2, 6),
    "z": tdp.Interval(0, 1),
    "y": tdp.Interval(-40, 40),
    "w": tdp.Interval(0, 4),
}


def moments(rows: int, neighbors: str = "replace-one", bits: int = 12) -> tdp.WeightedMoments:
    schema = tdp.Schema(FACTS, rows=rows, neighbors=neighbors, bits=bits)
    return tdp.WeightedMoments(schema, ["x", "z"], "y", weight="w")


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = source(seed)
    x, z, w = (low + (high - low) * rng.uniform(rows) for low, high in ((-2, 6), (0, 1), (0.1, 4)))
    errors = rng.normal(rows) * np.sqrt(4 / w)
    return {"x": x, "z": z, "y": np.clip(3 + 2 * x - 5 * z + errors, -40, 40), "w": w}


def weighted_plane(rows: dict[str, np.ndarray]) -> np.ndarray:
    """Weighted least squares in user units, by another route: scaled rows."""
    root = np.sqrt(rows["w"])
    design = np.column_stack([np.ones(len(root)), rows["x"], rows["z"]]) * root[:, None]
    return np.linalg.lstsq(design, rows["y"] * root, rcond=None)[0]


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_the_plane_is_that_of_weighted_least_squares(neighbors: str, seed: int) -> None:
    rows = table(5000, seed)
    statistic = moments(5000, neighbors)
    scale = statistic.resolution(12)
    exact = np.array(statistic.measure(rows), dtype=np.float64) / scale
    expected = weighted_plane(rows)
    assert statistic.coefficients(exact) == pytest.approx(expected, abs=2e-2)
    plain = weighted_plane({**rows, "w": np.ones(5000)})
    assert np.abs(plain - expected).max() > 4e-2  # planted: weights that are left out
    release = tdp.AdditiveMechanism(statistic, epsilon=50).release(rows, rng=seed)
    assert statistic.coefficients(release.value) == pytest.approx(expected, abs=0.5)
    ridge = statistic.coefficients(release.value, penalty=1e9)
    middle = statistic.layout.to_user(np.zeros(3))
    assert ridge == pytest.approx(middle, abs=1e-3)


def test_a_row_without_weight_counts_nothing(seed: int) -> None:
    statistic, rows = moments(50), table(50, seed)
    odd = {name: np.append(cells, 0.0 if name == "w" else 1e9) for name, cells in rows.items()}
    assert statistic.measure(odd) == statistic.measure(rows)


def test_every_end_of_the_box_is_reached_and_none_is_left(seed: int) -> None:
    rng = source(seed)
    for neighbors in ("replace-one", "add-remove"):
        statistic = moments(9, neighbors)
        signs = np.asarray(rng.integers(3, (3000, 4)) - 1.0)
        images = statistic.scaled_rows(np.vstack([signs, 2 * rng.uniform((3000, 4)) - 1]))
        space = statistic.sensitivity_space()
        assert not space.exact
        moves = images
        if neighbors == "replace-one":
            moves = images[:3000] - images[::-1][:3000]
            moves = np.vstack([moves, images[:1500] - images[1500:3000]])
        gauges = np.asarray(space.hull().gauge(moves))
        assert gauges.max() <= 1 + 1e-12
        assert gauges.max() >= 1 - 1e-9


def test_noise_for_a_smaller_box_is_refused() -> None:
    statistic = moments(100)
    assert tdp.AdditiveMechanism(statistic, noise="linf", epsilon=1)
    cut = tdp.LpBall(len(statistic), np.inf, 3.2)  # planted: a fifth less
    with pytest.raises((UncoveredMoveError, ParameterError)):
        tdp.AdditiveMechanism(statistic, noise=cut, epsilon=1)


def test_sums_that_fill_64_bits_are_exact() -> None:
    """Rows at the ends of their bounds, against Python's integers."""
    statistic = moments(4000, bits=18)
    ends = {"x": 6.0, "z": 1.0, "y": 40.0, "w": 4.0}
    found = statistic.measure({name: np.full(4000, cell) for name, cell in ends.items()})
    scale = statistic.resolution(18)
    most = [4 if "2*" in name else 2 for name in statistic.names]
    assert found == [4000 * part * scale for part in most]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"weight": "x"}, "distinct"),
        ({"weight": "v"}, "weight"),
        ({"weight": "s"}, "begin at 0"),
        ({"features": []}, "features"),
        ({"features": 5}, "features"),
        ({"target": "k"}, "target"),
    ],
)
def test_bad_input(change: dict[str, object], text: str) -> None:
    more = {"s": tdp.Interval(1, 2), "k": tdp.Category(["a", "b"], other="a")}
    schema = tdp.Schema({**FACTS, **more}, rows=9)
    options = {"features": ["x"], "target": "y", "weight": "w", **change}
    with pytest.raises(ParameterError, match=text):
        tdp.WeightedMoments(schema, **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="penalty"):
        moments(9).coefficients(np.zeros(9), penalty=-1)
