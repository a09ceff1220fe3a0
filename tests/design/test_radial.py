"""Lower bounds on radial noise: the proof, its verifier, and what it says of the l2 mechanism."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design.exact_numbers import Refuted
from tightdp.design.proofs import prove
from tightdp.design.radial_bound import cosine_below
from tightdp.errors import ParameterError, TightdpError, UndecidedError

KEPT = Path(__file__).parent / "radial_10.json"


@pytest.fixture(scope="module")
def kept() -> tdp.RadialBound:
    """Ten entries at (1, 1e-6): found once, in half a minute; proved here, in milliseconds."""
    return tdp.RadialBound.from_json(KEPT.read_text(encoding="utf-8"))


def test_the_l2_mechanism_is_within_a_percent_of_the_best_radial_noise(kept):
    assert (kept.dim, kept.epsilon, kept.delta) == (10, 1, Fraction(1, 10**6))
    assert kept.verify()
    assert 0 < kept.gap < 0.01
    sigma = tdp.AnalyticGaussian(epsilon=1, delta=1e-6).sigma
    assert kept.upper < 0.53 * 10 * sigma**2


def test_no_radial_noise_is_below_the_bound(kept):
    """Gaussian noise, pure K-norm noise and noise of a fixed length, where they are private."""
    sigma = tdp.AnalyticGaussian(epsilon=1, delta=1e-6).sigma
    assert kept.lower < min(10 * sigma**2, 10 * 11 * 1.0)
    # the mean of the display over the law of |Z| is what the proof is about
    rng = np.random.default_rng(1)
    for radii in (sigma * np.sqrt(rng.chisquare(10, 400_000)), rng.gamma(10, size=400_000)):
        mean = float(np.mean(kept.display(radii)))
        assert float(kept.floor) <= mean <= float(np.mean(radii**2) + kept.price) * 1.02


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_the_display_is_that_of_its_event(dim, seed):
    """Phi and Psi by a million random directions, six standard errors."""
    bound = tdp.RadialBound(
        dim=dim,
        epsilon=Fraction(1, 2),
        delta=Fraction(1, 2),
        price=Fraction(1),
        floor=Fraction(0),
        knots=(Fraction(0), Fraction(1), Fraction(3)),
        widths=(Fraction(1, 2), Fraction(7, 10), Fraction(1, 5)),
    )
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(200_000, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    e = np.eye(dim)[0]

    def inside(z):
        w = np.linalg.norm(z, axis=1)
        wide = np.interp(w, [0, 1, 3], [0.5, 0.7, 0.2])
        return float((np.linalg.norm(z - e, axis=1) >= w + wide).mean())

    for r in (0.2, 0.45, 0.8, 1.6, 2.5, 4.0):
        expected = r * r + 2 * (inside(r * u) - math.exp(0.5) * inside(r * u + e))
        assert bound.display(np.array([r]))[0] == pytest.approx(
            expected, abs=6 * 4 / math.sqrt(2e5)
        )


def test_cells_are_bounded_from_below(kept, seed):
    """No sample of a cell is below its bound, for cells of all sizes."""
    rng = np.random.default_rng(seed)
    edges = np.sort(np.concatenate(kept._cells))
    for share in (1.0, 0.1, 1e-3):
        place = rng.integers(1, len(edges) - 1, 300)
        left = edges[place] * (1 + 1e-12)
        right = np.minimum(left + share * (edges[place + 1] - left), edges[place + 1])
        left, right = left[right > left], right[right > left]
        with np.errstate(all="ignore"):
            least = kept._bounds(left, right)
        inner = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, 41)
        assert (kept.display(inner).min(axis=1) >= least - 1e-9 * np.abs(least)).all()


def test_planted_faults_are_refused(kept):
    least = float(kept.display(np.geomspace(1e-3, 100, 400_000)).min())
    faults = {
        "a floor that is too high": {"floor": Fraction(least * 1.0001)},
        "a tenth more price": {"price": kept.price * Fraction(11, 10)},
        "less delta": {"delta": kept.delta / 2},
        "more epsilon": {"epsilon": kept.epsilon * Fraction(21, 20)},
        "another dimension": {"dim": 9},
        "wider": {"widths": tuple(min(Fraction(1), w * Fraction(51, 50)) for w in kept.widths)},
        "not increasing": {"widths": (Fraction(1), Fraction(0), *kept.widths[2:])},
        "outside": {"widths": (Fraction(2), *kept.widths[1:])},
    }
    for name, fault in faults.items():
        with pytest.raises(UndecidedError, match=r"not proved|not increasing"):
            assert not replace(kept, **fault).verify(), name


def test_records_prove_themselves(kept):
    again = tdp.RadialBound.from_json(kept.to_json())
    assert again == kept
    proved = prove(kept.to_json())
    assert (proved.lower, proved.upper) == (kept.lower, kept.upper)
    record = json.loads(kept.to_json())
    for change in (
        {"lower": str(kept.lower + 1)},
        {"floor": str(kept.floor * 2), "lower": str(kept.floor * 2 - kept.price)},
        {"knots": record["knots"][:-1]},
        {"dim": True},
        {"dim": 1},
        {"widths": None},
        {"format": "another"},
    ):
        with pytest.raises(TightdpError):
            tdp.RadialBound.from_dict({**record, **change})
    with pytest.raises(Refuted):
        prove(json.dumps({**record, "lower": str(kept.lower + 1)}))


def test_a_search_finds_what_it_proves():
    found = tdp.bound_radial_noise(20, epsilon=1, delta=1e-3, rounds=10)
    assert found.verify()
    assert 0 < found.lower < found.upper
    assert found.gap < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("dim", [5, 10, 20, 50])
def test_gaps_in_full(dim):
    assert 0 < tdp.bound_radial_noise(dim, epsilon=1, delta=1e-6).gap < 0.01


def test_bad_parameters_are_refused():
    for dim in (1, 0, True, 2.5, 5000):
        with pytest.raises(ParameterError, match="`dim`"):
            tdp.bound_radial_noise(dim, epsilon=1, delta=1e-6)
    with pytest.raises(ParameterError, match="`delta`"):
        tdp.bound_radial_noise(3, epsilon=1, delta=0)


def test_cosines():
    rng = np.random.default_rng(1)
    u = rng.normal(size=(200_000, 5))
    first = u[:, 0] / np.linalg.norm(u, axis=1)
    for c in (-0.9, -0.3, 0.0, 0.6):
        assert cosine_below(5, np.array([c]))[0] == pytest.approx((first <= c).mean(), abs=0.006)
