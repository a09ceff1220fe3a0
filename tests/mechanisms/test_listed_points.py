"""Going through all points: the law, the number of calls, and what is refused before payment."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from lattice_fit import chi_square

import tightdp as tdp
from tightdp.exact.listed_points import ListedLaw, check_points
from tightdp.mechanisms.exponential_grids import BoxLaw, BoxMechanism
from tightdp.mechanisms.gradient import KNormRowGradient
from tightdp.randomness import source

UNIT = tdp.Interval(-1, 1)


@pytest.mark.parametrize("far", [0, 10**6, 10**30, 10**400])
@pytest.mark.parametrize("factor", [1, Fraction(5, 4)])
def test_draws_follow_the_law_however_far_its_best_point_is(
    far: int, factor: Any, seed: int
) -> None:
    def exponent(z: Any) -> Fraction | None:
        x, y = z
        return None if x == y == 1 else Fraction(abs(x) + 2 * abs(y), 3) + far

    points = [(x, y) for x in range(-3, 5) for y in range(-2, 3) if not x == y == 1]
    logs = np.array([-float(exponent(z) - far) for z in points])  # type: ignore[operator]
    logs -= math.log(np.exp(logs).sum())
    law = ListedLaw(
        (-3, -2), (4, 2), lambda z: None if exponent(z) is None else factor * exponent(z)
    )
    rng = source(seed)
    fit = chi_square(points, logs, lambda i: law.draw(rng), 6000)
    assert fit > 1e-5 if factor == 1 else fit < 1e-5


def loose(calls: list[int]) -> Callable[[Any, Any], tuple[int, int]]:
    """Bounds that say nothing until a box is one point: the best of a thousand levels is rare."""

    def on_box(low: Any, high: Any) -> tuple[int, int]:
        calls.append(1)
        if low == high:
            return (0, 0) if low[0] % 499 == 0 else (-1000, -1000)
        return -1000, 0

    return on_box


def test_bounds_that_never_tighten_cost_no_more_calls_than_said(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr("tightdp.mechanisms.exponential_grids._PATIENCE", 1 << 8)
    law = BoxLaw((-2000, 0), (2000, 3), loose(calls), Fraction(1))
    drawn = {law.draw(source(seed + i))[0] for i in range(8)}
    assert all(x % 499 == 0 for x in drawn)
    assert len(drawn) > 1
    assert len(calls) <= 8 * 4 * (1 << 8) + 4001 * 4 + 100


@pytest.mark.parametrize("far", [10**3, 10**20])
def test_bounds_however_loose_do_not_keep_a_draw_from_ending(far: int, seed: int) -> None:
    """Exponents counted from such a bound were so large that doubles of them said nothing."""

    def on_box(low: Any, high: Any) -> tuple[int, int]:
        return (-abs(low[0]), -abs(low[0])) if low == high else (-far, far)

    law = BoxLaw((-2000,), (2000,), on_box, Fraction(1))
    assert all(abs(law.draw(source(seed + i), 1 << 6)[0]) < 40 for i in range(8))


def test_row_gradients_whose_bounds_say_nothing_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tightdp.mechanisms.gradient._PATIENCE", 4)
    monkeypatch.setattr("tightdp.exact.box_sampling._MOST_CELLS", 4)
    facts = tdp.Schema({"x": UNIT}, rows=50)
    mechanism = KNormRowGradient(
        facts,
        UNIT,
        lambda rows, theta: np.clip(theta - rows, -1, 1),
        lambda rows, low, high: (np.full_like(rows, -1.0), np.full_like(rows, 1.0)),
        clip=1.0,
        epsilon=100,
        grid=8,
    )
    value = mechanism.release({"x": np.linspace(0.4, 0.6, 50)}, rng=seed).value
    assert abs(value[0] - 0.5) < 0.1


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda **o: BoxMechanism([UNIT] * 3, len, sensitivity=1, epsilon=1, **o), "bits"),
        (lambda **o: tdp.KNormGradient([UNIT] * 3, len, sensitivity=1, epsilon=1, **o), "bits"),
        (
            lambda **o: KNormRowGradient(
                tdp.Schema({"x": UNIT}, rows=3), [UNIT] * 2, len, len, clip=1, epsilon=1, **o
            ),
            "grid",
        ),
    ],
)
def test_more_points_than_are_accepted_are_refused_when_stated(build: Any, name: str) -> None:
    with pytest.raises(tdp.InfeasibleSamplingError, match=f"`{name}` = 16 makes .* `most_points`"):
        build(**{name: 16})
    assert build(**{name: 16, "most_points": 1 << 60})  # stated by who accepts the work
    with pytest.raises(tdp.ParameterError, match="most_points"):
        build(**{name: 4, "most_points": 0})


def test_the_remedy_is_accepted() -> None:
    with pytest.raises(tdp.InfeasibleSamplingError, match="take `bits` = 6 or less"):
        check_points("bits", 10, 3, 1 << 23)
    check_points("bits", 6, 3, 1 << 23)
    with pytest.raises(tdp.InfeasibleSamplingError, match="ends, fewer axes"):
        check_points("bits", 1, 30, 1 << 23)
