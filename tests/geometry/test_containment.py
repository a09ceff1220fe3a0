"""Containment and largest gauges: closed forms against brute force, witnesses, honest bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import DimensionError, UndecidedError
from tightdp.geometry.containment import climb, containment, largest_gauge

PAIRS = {
    "l2 in l1": (tdp.LpBall(3, 2), tdp.LpBall(3, 1)),
    "linf in l3": (tdp.LpBall(3, np.inf, [1, 2, 3]), tdp.LpBall(3, 3, [2, 1, 1])),
    "l4 in l1.5": (tdp.LpBall(3, 4), tdp.LpBall(3, 1.5, [1, 2, 2])),
    "l1 in l2": (tdp.LpBall(3, 1, [1, 2, 3]), tdp.LpBall(3, 2)),
    "K3 in l2": (tdp.K3(), tdp.LpBall(3, 2)),
    "l2 in K3": (tdp.LpBall(3, 2), tdp.K3()),
    "K2 in l1": (tdp.K2(), tdp.LpBall(2, 1)),
    "K2 in cube": (tdp.K2(), tdp.LpBall(2, np.inf)),
    "ellipsoid in l2": (tdp.Ellipsoid([[2.0, 1.0], [1.0, 3.0]]), tdp.LpBall(2, 2)),
    "l2 in ellipsoid": (tdp.LpBall(2, 2), tdp.Ellipsoid([[2.0, 1.0], [1.0, 3.0]])),
    "product in l2": (tdp.LpBall(2, 2).product(tdp.LpBall(1, 1, 2.0)), tdp.LpBall(3, 2)),
    "product in product": (
        tdp.LpBall(2, 2).product(tdp.LpBall(1, 1, 2.0)),
        tdp.LpBall(2, 1).product(tdp.LpBall(1, 1, 3.0)),
    ),
    "scaled in scaled": (tdp.K3().scaled(2.0), tdp.K3().scaled(0.5)),
    "K3 in image": (tdp.K3(), tdp.LpBall(3, 2).image(np.diag([1.0, 2.0, 3.0]))),
    "l2 in intersection": (
        tdp.LpBall(3, 2),
        tdp.LpBall(3, 1).intersection(tdp.LpBall(3, np.inf, 0.3)),
    ),
    "histogram in l2": (tdp.HistogramBall(4), tdp.LpBall(4, 2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_largest_gauge(name: str, seed: int) -> None:
    inner, outer = PAIRS[name]
    reach = largest_gauge(inner, outer)
    assert reach.exact
    assert inner.gauge(reach.point) <= 1 + 1e-7  # the maximiser belongs to the inner body ...
    assert outer.gauge(reach.point) == pytest.approx(reach.lower, rel=1e-7)  # ... and attains it
    draws = inner.sample(20_000, rng=seed)
    draws /= inner.gauge(draws)[:, None]
    found = outer.gauge(draws).max()
    assert found <= reach.upper * (1 + 1e-9)
    assert climb(inner, outer)[0] == pytest.approx(reach.upper, rel=1e-3)


@given(st.floats(1, 12), st.floats(1, 12), st.integers(0, 1000))
def test_lp_in_lp_is_never_beaten(p: float, q: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inner, outer = (
        tdp.LpBall(3, p, rng.uniform(0.5, 2, 3)),
        tdp.LpBall(3, q, rng.uniform(0.5, 2, 3)),
    )
    reach = largest_gauge(inner, outer)
    x = rng.normal(size=(2000, 3))
    assert (outer.gauge(x) / inner.gauge(x)).max() <= reach.upper * (1 + 1e-9)
    assert outer.gauge(reach.point) / inner.gauge(reach.point) == pytest.approx(reach.upper)


def test_unknown_pairs_get_honest_bounds() -> None:
    body = tdp.MomentBody(1, kind="triangle")
    reach = largest_gauge(body, tdp.LpBall(body.dim, 2))
    assert reach.lower <= reach.upper
    assert body.gauge(reach.point) <= 1 + 1e-7
    assert np.linalg.norm(body.sample(2000, rng=0), axis=1).max() <= reach.upper
    assert containment(body, tdp.LpBall(body.dim, 2, reach.upper)).verdict == "inside"
    middle = containment(body, tdp.LpBall(body.dim, 2, (reach.lower + reach.upper) / 2))
    assert middle.verdict == "undecided"
    with pytest.raises(UndecidedError, match="verdict"):
        bool(middle)
    general = largest_gauge(tdp.LpBall(3, 2), tdp.K3().scaled([1, 2, 3]).intersection(tdp.K3()))
    assert general.lower <= general.upper


def test_largest_l1_norm_of_unconditional_bodies() -> None:
    # sum of all entries of the triangle body is a linear program: exact
    assert largest_gauge(tdp.MomentBody(2, kind="triangle"), tdp.LpBall(8, 1)).exact


@pytest.mark.parametrize("kind", ["cylinder", "triples", "triangle", "nuclear"])
def test_the_largest_l1_norm_of_moments_is_that_over_all_signs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without preferred signs one program decides; the facets of a cross-polytope are 2^dim."""
    body, asked = tdp.MomentBody(1, kind=kind), []
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * body.dim)).reshape(body.dim, -1).T
    wanted = body.support(signs).max()
    farthest = tdp.MomentBody._farthest
    monkeypatch.setattr(
        tdp.MomentBody, "_farthest", lambda self, c: asked.append(c) or farthest(self, c)
    )
    reach = largest_gauge(body, tdp.LpBall(body.dim, 1))
    assert reach.lower == pytest.approx(wanted, rel=1e-6)
    assert (len(asked) == 1) == body.unconditional


def test_witness_and_touching() -> None:
    square, diamond = tdp.LpBall(2, np.inf), tdp.LpBall(2, 1)
    outside = containment(square, diamond)
    assert outside.verdict == "outside"
    assert diamond.gauge(outside.witness) > 1
    assert square.contains(outside.witness)
    assert containment(square, diamond.scaled(2.0)).verdict == "inside"  # touching counts
    assert containment(square, diamond.scaled(2.0)).witness is None
    assert not containment(square, diamond.scaled(2.0 - 1e-6))


def test_flat_bodies_hold_nothing_thicker() -> None:
    reach = largest_gauge(tdp.LpBall(3, 1), tdp.HistogramBall(3))
    assert reach.lower == np.inf
    assert containment(tdp.LpBall(3, 1), tdp.HistogramBall(3)).verdict == "outside"
    assert containment(tdp.HistogramBall(3), tdp.LpBall(3, 1, 2.0))


def test_dimension_mismatch() -> None:
    with pytest.raises(DimensionError, match="2 and 3"):
        containment(tdp.LpBall(2, 1), tdp.LpBall(3, 1))
