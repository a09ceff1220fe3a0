"""Corners of the box of entries, sums and squares as they are, orders and information by name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import DegenerateBodyError, ParameterError
from tightdp.geometry.structure import corner_sensitivity
from tightdp.noise import knorm
from tightdp.randomness import source

S = tdp.SensitivitySpace
UNIT = tdp.Interval(-1, 1)
THREE = dict.fromkeys(("height", "weight", "income"), UNIT)
CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))

# space, negligible, whether a corner is reached
SPACES = {
    "columns of their own (Example 3.4)": (S.of(THREE), True, True),
    "sum and squares on [0, 1] (Example 3.5)": (S.sum_and_squares(tdp.Interval(0, 1)), False, True),
    "age groups (Example 3.6)": (S.histogram(5), False, False),
    "age groups, added": (S.histogram(5, neighbors="add-remove"), False, False),
    "two groups": (S.histogram(2), False, True),
    "sum and squares (Example 3.1)": (S.sum_and_squares(), False, False),
    "sum and squares, added": (S.sum_and_squares(neighbors="add-remove"), True, True),
    "moments": (S.moments(2), False, False),
    "thirty columns": (S.of({f"x{j}": UNIT for j in range(30)}), True, True),
    "all corners": (S.from_points(CORNERS), True, True),
    "no opposite corners": (S.from_points(CORNERS[CORNERS.sum(axis=1) > 0]), False, False),
}


@pytest.mark.parametrize("name", SPACES)
def test_negligible_structure(name: str) -> None:
    """Definition 3.2 and Proposition 3.3 of the preprint, with E19: p < inf, the set closed."""
    space, negligible, reached = SPACES[name]
    found = tdp.structure(space)
    assert found.negligible is negligible
    assert (found.corner is not None) is reached
    assert str(found).startswith("negligible" if negligible else "structure")
    box = tdp.LpBall(space.dim, np.inf, found.entry_sensitivities)
    if negligible:  # Corollary 4.11: the hull is the box
        assert tdp.containment_order(space.hull(), box) == 0
    elif space.dim < 30:
        assert tdp.containment_order(space.hull(), box) == -1
        assert found.missing is not None
        assert float(space.hull().gauge(found.missing)) > 1 + 1e-9
    if not found.equal:  # condition (3) does not hold
        return
    largest = float(space.sensitivity(p=np.inf))
    for p in (1, 2):
        by_corner = corner_sensitivity(space.dim, p, largest)
        exact = space.sensitivity(p=p)
        assert float(exact) <= by_corner * (1 + 1e-12)
        assert (float(exact) >= by_corner * (1 - 1e-12)) is reached


def test_a_corner_that_is_missing_is_named() -> None:
    """Planted: seven of eight corners, under add-remove, where mirror images count."""
    without = S.from_points(CORNERS[[0, 1, 2]], neighbors="add-remove")
    found = tdp.structure(without)
    assert found.negligible is False
    assert found.missing is not None
    assert not any(np.allclose(np.abs(found.missing @ corner), 3) for corner in CORNERS[[0, 1, 2]])
    assert tdp.structure(S.from_points(CORNERS[:4], neighbors="add-remove")).negligible is True


def test_rows_that_reach_a_corner() -> None:
    found = tdp.structure(S.sum_and_squares(tdp.Interval(0, 1)))
    assert found.pair == ({"x": 1.0}, {"x": 0.0})
    assert found.equal
    assert not tdp.structure(S.of({"x": UNIT, "y": tdp.Interval(0, 1)})).equal


def test_sums_and_squares_as_they_are() -> None:
    """Example 3.5 of the preprint: Delta_inf = 1, Delta_1 = 2, area 40/3 / 16."""
    space = S.sum_and_squares(tdp.Interval(0, 1))
    assert space.exact
    assert space.names == ("x", "x^2")
    for p in (1, 2, 3, np.inf):
        assert float(space.sensitivity(p=p)) == pytest.approx(corner_sensitivity(2, p, 1.0))
    assert space.hull().volume() == pytest.approx(5 / 6, rel=1e-12)
    assert float(space.hull().gauge([1, 1])) == pytest.approx(1)
    assert float(space.hull().gauge([1, -1])) > 1.4


@pytest.mark.parametrize("ends", [(0, 1), (-1, 1), (-2, 0.5), (3, 10), (-0.25, 0.0)])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_a_parabola_on_any_interval(ends: tuple[float, float], neighbors: str, seed: int) -> None:
    space = S.sum_and_squares(tdp.Interval(*ends), neighbors=neighbors)
    x = np.concatenate([np.linspace(*ends, 401), [0.0]]).clip(*ends)
    images = np.column_stack([x, x**2])
    moves = (images[:, None] - images).reshape(-1, 2)
    if neighbors == "add-remove":
        moves = images
    gauges = np.asarray(space.hull().gauge(moves))
    assert gauges.max() <= 1 + 1e-12
    if space.exact:
        assert gauges.max() >= 1 - 1e-6
        angles = np.linspace(0, np.pi, 50)
        for c in np.column_stack([np.cos(angles), np.sin(angles)]):
            u, _ = space.extreme_pair(c)
            assert u @ c >= np.abs(moves @ c).max() - 1e-9
            assert float(space.hull().support(c)) == pytest.approx(u @ c, abs=1e-9)
    for p in (1, 2, np.inf):
        sizes = np.linalg.norm(moves, ord=p, axis=1).max()
        assert sizes * (1 - 1e-12) <= float(space.sensitivity(p=p)) <= sizes * (1 + 1e-3)
    drawn = space.sample(200, rng=source(seed))
    assert np.asarray(space.hull().gauge(drawn)).max() <= 1 + 1e-12
    cut = tdp.LpBall(2, np.inf, 0.8 * float(space.sensitivity(p=np.inf)))
    assert tdp.certify_contains(cut, space).violated  # planted: a ball cut by a fifth


def test_orders_by_name() -> None:
    space = S.sum_and_squares()
    balls = {p: tdp.LpBall(2, p, float(space.sensitivity(p=p))) for p in (1, 2, np.inf)}
    hull = space.hull()
    assert all(tdp.containment_order(hull, ball) == -1 for ball in balls.values())
    assert all(tdp.containment_order(ball, hull) == 1 for ball in balls.values())
    pairs = list(itertools.combinations(balls.values(), 2))
    assert all(tdp.containment_order(*pair) is None for pair in pairs)  # Example 3.20
    assert tdp.volume_order(balls[np.inf], balls[2]) == tdp.volume_order(balls[2], balls[1]) == -1
    assert tdp.containment_order(hull, hull) == tdp.volume_order(hull, hull) == 0


def _information(joint: np.ndarray) -> float:
    """Mutual information of two variables from cell probabilities, straight from its definition."""
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    kept = joint > 0
    return float((joint[kept] * np.log(joint[kept] / apart[kept])).sum())


def test_information_about_statistic_and_noise() -> None:
    """I(T; Z) - I(Z; V) = H(T) - H(V): both informations summed over cells, no entropy used."""
    cells, epsilon = 200, 2.0  # T uniform on (0, 1): H(T) = 0
    cell = 1 / cells
    reach = 8 * cells
    v = np.arange(-reach, reach + 1) * cell
    noise = np.exp(-epsilon * np.abs(v))
    noise /= noise.sum()
    about_statistic = np.zeros((cells, cells + 2 * reach))
    about_noise = np.zeros((len(v), cells + 2 * reach))
    for i in range(cells):
        about_statistic[i, i : i + len(v)] = noise / cells
        about_noise[np.arange(len(v)), i + np.arange(len(v))] = noise / cells
    measured = _information(about_statistic) - _information(about_noise)
    stated = tdp.information_difference(0.0, tdp.LpBall(1, 1), epsilon)
    assert stated.exact
    assert measured == pytest.approx(stated.value, abs=2e-3)
    planted = tdp.information_difference(0.0, tdp.LpBall(1, 1, 1.2), epsilon)
    assert abs(measured - planted.value) > 0.1
    assert planted.value < stated.value  # the smaller ball tells more
    assert knorm.entropy(tdp.LpBall(1, 1), epsilon).value == -stated.value


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="interval"):
        S.sum_and_squares((0, 1))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="statistic_entropy"):
        tdp.information_difference(float("nan"), tdp.LpBall(1, 1), 1.0)
    with pytest.raises(ParameterError, match="space"):
        tdp.structure(tdp.LpBall(2, 1))  # type: ignore[arg-type]
    with pytest.raises(DegenerateBodyError, match="drop"):
        tdp.structure(S.from_points([[0.0, 1.0], [1.0, 1.0]]))
