"""Exact audits of lattice noise: every pair in a window, in integers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tightdp.audit import audit_exact
from tightdp.errors import DimensionError, ParameterError


def ceil_div(a, b):
    return -(-a // b)


def l1(z):
    return np.abs(z).sum(axis=1)


def linf(z):
    return np.abs(z).max(axis=1)


def l2(z):
    return np.array([math.isqrt(max(int(n) - 1, 0)) + (n > 0) for n in (z**2).sum(axis=1)])


def parabola(z):
    """Least l with |z_2| <= 2l - 2 (|z_1| - l)_+^2 / l: gauge b/2, or 2 a^2 / (4a - b)."""
    a, b = np.abs(z).T
    curved = b < 2 * a
    return np.where(curved, ceil_div(2 * a**2, np.where(curved, 4 * a - b, 1)), ceil_div(b, 2))


def cuboctahedron(z):
    return np.maximum(ceil_div(linf(z), 2), ceil_div(l1(z), 4))


def grid(dim, reach):
    return np.array(list(itertools.product(range(-reach, reach + 1), repeat=dim)))


BODIES = {
    "l1 m=1": (l1, 1, 40),
    "l1 m=2": (l1, 2, 20),
    "l1 m=3": (l1, 3, 8),
    "linf m=2": (linf, 2, 20),
    "linf m=3": (linf, 3, 8),
    "l2 m=2": (l2, 2, 20),
    "K2": (parabola, 2, 24),
    "K3": (cuboctahedron, 3, 8),
}


@pytest.mark.parametrize("name", BODIES)
def test_levels_change_by_the_level_of_the_shift_at_most(name):
    level, dim, window = BODIES[name]
    shifts = grid(dim, 3)
    for most in range(1, level(shifts).max() + 1):
        inside = shifts[level(shifts) <= most]
        report = audit_exact(
            level, inside, window, epsilon=Fraction(1, 3), rate=Fraction(1, 3 * most)
        )
        assert report.verdict == "holds"
        assert report.checked == len(inside) * (2 * window + 1) ** dim
        assert report.epsilon_lower == pytest.approx(1 / 3, rel=1e-12)  # the bound is reached
        outside = shifts[level(shifts) == most + 1]
        if len(outside):  # a sensitivity that is too small by one is caught
            report = audit_exact(
                level, np.vstack([inside, outside[:1]]), window, epsilon=most, rate=1
            )
            assert report.verdict == "violated"
            assert report.epsilon_lower == most + 1


def test_half_a_million_pairs_of_every_planar_body():
    shifts = grid(2, 4)
    for level in (l1, linf, parabola):
        inside = shifts[level(shifts) <= 4]
        window = math.isqrt(500_000 // len(inside)) // 2 + 1
        report = audit_exact(level, inside, window, epsilon=4)
        assert report.verdict == "holds"
        assert report.checked >= 500_000


def test_floor_for_ceil_is_caught():
    def floored(z):
        a, b = np.abs(z).T
        curved = b < 2 * a
        return np.where(curved, 2 * a**2 // np.where(curved, 4 * a - b, 1), b // 2)

    shifts = grid(2, 2)
    inside = shifts[floored(shifts) <= 1]
    assert audit_exact(floored, inside, 12, epsilon=1).verdict == "violated"


def test_the_witness_is_a_pair_with_its_levels():
    report = audit_exact(l1, [[1, 0], [0, 3]], 10, epsilon=2, rate=1)
    found = report.findings[0]
    assert found.event == "shift (0, 3): level 0 at (0, 0), level 3 at (0, -3)"
    assert found.over == "x"
    assert report.violated
    assert "1 of 2 shifts" in report.notes[1]
    assert [f.epsilon_lower for f in report.findings] == [3.0, 1.0]


def test_the_bound_is_exact_not_rounded():
    third = Fraction(1, 3)
    assert audit_exact(l1, [[3]], 5, epsilon=1, rate=third).verdict == "holds"
    assert audit_exact(l1, [[3]], 5, epsilon=1, rate=third + Fraction(1, 10**30)).violated
    assert audit_exact(l1, [[3]], 5, epsilon=1 - Fraction(1, 10**30), rate=third).violated
    # 0.1 as a float is a little more than 1/10: ten levels of it are too many
    assert audit_exact(l1, [[10]], 5, epsilon=1.0, rate=0.1).violated


def test_levels_of_any_size():
    def huge(z):
        return np.array([10**30 * abs(int(v)) for v in z[:, 0]], dtype=object)

    assert audit_exact(huge, [[1]], 3, epsilon=1, rate=Fraction(1, 10**30)).verdict == "holds"
    assert audit_exact(huge, [[1]], 3, epsilon=1, rate=Fraction(2, 10**30)).violated
    wrapping = audit_exact(
        lambda z: np.where(z[:, 0] > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
        [[1]],
        3,
        epsilon=1,
    )
    assert wrapping.epsilon_lower == pytest.approx(2.0**64)  # not -1


def test_a_window_per_axis_and_many_blocks():
    report = audit_exact(linf, [[1, 1]], [0, 100_000], epsilon=1)
    assert report.checked == 200_001
    planted = audit_exact(
        lambda z: linf(z) + 5 * (z[:, 1] == -77_777), [[1, 1]], [0, 100_000], epsilon=1
    )
    assert planted.violated
    assert "-77777" in planted.event


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"epsilon": math.nan}, ParameterError, "`epsilon` must be finite"),
        ({"epsilon": 0}, ParameterError, "`epsilon` must be a finite number > 0"),
        ({"rate": 0}, ParameterError, "`rate`"),
        ({"shifts": [1, 2]}, DimensionError, "`shifts`"),
        ({"shifts": [[0.5, 1.0]]}, ParameterError, "`shifts` must hold 64-bit integers"),
        ({"shifts": [[1 << 62, 0]]}, ParameterError, r"2\*\*61"),
        ({"window": -1}, ParameterError, "`window` must hold integers >= 0"),
        ({"window": 1.5}, ParameterError, "`window`"),
        ({"window": [1, 2, 3]}, DimensionError, "`window` must be one integer, or 2"),
        ({"window": 1 << 40}, ParameterError, "at most"),
        ({"level": lambda z: np.sqrt(l1(z))}, ParameterError, "`level` must give integers"),
        ({"level": lambda z: 3}, DimensionError, "one level for every point"),
        ({"level": np.abs}, DimensionError, "one level for every point"),
    ],
)
def test_bad_questions_are_refused(change, error, match):
    arguments = {"level": l1, "shifts": [[1, 0]], "window": 3, "epsilon": 1, **change}
    with pytest.raises(error, match=match):
        audit_exact(**arguments)
