"""At the ends of what public facts allow nothing wraps around, and nothing fails after payment.

Every mechanism is built for the coarsest and the finest grid and for the fewest and the most rows,
every law and body for the smallest and the largest sensitivities and budgets. What is refused is
refused at once; what is built releases tables at the ends of their bounds, with more rows than were
stated where the number is private, while all 64-bit integers are watched (``watched.py``).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from caches import forget
from draws import BODIES, LAWS
from enrolled import MECHANISMS, Case, every, mapping, mechanisms
from watched import WatchedArray, watched

import tightdp as tdp
from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import TightdpError
from tightdp.exact.band_paths import BandPaths
from tightdp.exact.lattice_bodies import PolytopeBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody, TestedBody
from tightdp.mechanisms import median_radius
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.median_radius import MedianRadius
from tightdp.noise.gaussian_laws import DiscreteGaussian
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.law import NoiseLaw
from tightdp.noise.range_noise import RangeNoise
from tightdp.randomness import source

pytestmark = pytest.mark.filterwarnings("ignore::tightdp.errors.PublicFactWarning")

MOST_ROWS = 10**15
SENSITIVITIES = (1, 3, 1 << 31, 3037000500, (1 << 32) + 1, (1 << 53) + 1, (1 << 60) - 1, 1 << 60)
EPSILONS = (Fraction(1, 1 << 40), Fraction(1), Fraction(1 << 10))
CORNERS = [
    {"x": 10.0, "y": 1.0, "k": "c", "t": "yes"},
    {"x": 0.0, "y": -1.0, "k": "a", "t": "no"},
    {"x": 10.0, "y": -1.0, "k": "b", "t": "no"},
]


@pytest.fixture(autouse=True)
def first_draws() -> Iterator[None]:
    """No table of an earlier test, and none of a watched array for the next."""
    every(Mechanism)
    forget()
    yield
    forget()


def wraps(make: Any, use: Any) -> set[str]:
    """Lines at which an integer wrapped around while something was built and used.

    Only a refusal at construction is let pass.
    """
    with watched() as found:
        try:
            made = make()
        except TightdpError:
            return set()
        use(made)
    return set(found)


# --- mechanisms -----------------------------------------------------------------------------------

FINEST = Case(
    "geometric median, finest grid",
    lambda facts: tdp.KNormGeometricMedian(
        facts, columns=["x", "y"], epsilon=1, interval="sample", grid=24, most_points=1 << 60
    ),
)
QUICK = {str(cases[0]) for cases in MECHANISMS.values()} - {"tuned"}  # objectives, many times
CASES = [
    pytest.param(case, id=str(case), marks=[] if str(case) in QUICK else [pytest.mark.slow])
    for case in [*(case for cases in MECHANISMS.values() for case in cases), FINEST]
]


def corner_rows(rows: int) -> dict[str, list[Any]]:
    """Rows at three corners of the schema, most of them at the first."""
    return mapping([CORNERS[0]] * (rows - 8) + CORNERS[1:] * 4)


def facts_of(relation: str) -> list[tuple[dict[str, Any], int]]:
    """Facts of a schema, and how many rows there really are."""
    grids = [{"bits": bits} for bits in (1, 26)]
    stated = [(1, 60), (MOST_ROWS, 60)] if relation == "add-remove" else [(60, 60)]
    return [({"rows": rows} | grid, real) for grid in grids for rows, real in stated]


def test_every_mechanism_is_taken_to_its_ends():
    assert mechanisms() == set(MECHANISMS)


@pytest.mark.parametrize("case", CASES)
def test_mechanisms_at_the_ends_of_their_facts(case):
    for relation in case.relations:
        for facts, real in facts_of(relation):
            rows = corner_rows(real)
            found = wraps(
                lambda facts=facts, relation=relation: case.build(relation, **facts),
                lambda mechanism, rows=rows: mechanism.release(rows, rng=1),
            )
            assert not found, (relation, facts)


def test_radii_of_the_longest_gaps(seed):
    """More rows than one would state, as far away as the finest grid allows."""
    assert not radius_wraps(seed)


def radius_wraps(seed: int) -> set[str]:
    def draw(law: MedianRadius) -> None:
        gaps = np.full((1, 5000), 1 << 26).view(WatchedArray)
        law.draw(gaps, Fraction(5000), 0.0, 0.05, source(seed))

    facts = {"replaced": False, "persons": 1, "dim": 1, "bits": 26}
    return wraps(lambda: MedianRadius(Fraction(1), **facts), draw)


# --- laws and bodies ------------------------------------------------------------------------------


def law_of(kind: type, epsilon: Fraction, sensitivity: int) -> Any:
    """The law, if it and what it is on the integers can be built."""
    law = LAWS[kind](epsilon, sensitivity)
    law.lattice(1)
    return law


def use_law(law: Any) -> None:
    for moved in (None, 1, law.sensitivity):
        try:
            law.guarantee(moved)
        except TightdpError:  # the noise protects nothing there
            continue
    law.delta(1.0, int(law.sensitivity))
    law.quantile([1e-9, 0.5, 1 - 1e-9])
    law.variance()
    law.sample(20, rng=1)
    law.sample_lattice(20, grid=1, rng=1)


def test_every_law_and_body_is_taken_to_its_ends():
    def built(base: type) -> set[type]:
        return {kind for kind in every(base) if not inspect.isabstract(kind)}

    assert built(NoiseLaw) == set(LAWS)
    assert built(LatticeBody) == set(BODIES)


@pytest.mark.parametrize("kind", LAWS, ids=lambda kind: kind.__name__)
def test_laws_at_the_ends_of_their_facts(kind):
    for epsilon in EPSILONS:
        for sensitivity in SENSITIVITIES:
            found = wraps(lambda e=epsilon, s=sensitivity: law_of(kind, e, s), use_law)
            assert not found, (epsilon, sensitivity)


def gaussian_wraps() -> list[set[str]]:
    return [
        wraps(
            lambda s=sensitivity, v=sigma2: DiscreteGaussian(
                epsilon=1.0, delta=0.5, sensitivity=s, sigma2=v
            ),
            use_law,
        )
        for sensitivity in SENSITIVITIES
        for sigma2 in (1, 900, 511**2, 1 << 124)
    ]


def test_gaussians_of_a_given_variance():
    assert not any(gaussian_wraps())


LONG: dict[str, Any] = {
    "box of long sides": lambda: BoxBody([1 << 59] * 12),
    "long sides behind short ones": lambda: ProductBody(
        [BoxBody([1] * 30), BoxBody([(1 << 58) - 1, 1], 1 << 20)]
    ),
    "long polytope": lambda: PolytopeBody(
        np.array([[1 << 20, 1]]), np.array([1 << 59]), [1 << 39, 1 << 58], 1 << 16
    ),
} | {kind.__name__: make for kind, make in BODIES.items()}


def feasible(noise: LatticeNoise) -> LatticeNoise:
    noise.check_feasible()
    return noise


def use_noise(noise: Any) -> None:
    safe = min(noise.body.safe_level - 1, 1 << 62)
    for level in (0, safe) if safe >= 0 else ():  # in a product, behind a thousand entries
        noise.body.propose(np.full(3, level).view(WatchedArray), 1000, source(1))
    z = noise.sample(6, rng=1)
    noise.body.level(z)
    noise.covariance()
    far = np.array([[1 << 61] + [-(1 << 61)] * (noise.dim > 1) + [0] * (noise.dim - 2)])
    noise.body.level(far)
    noise.exponent(far)


@pytest.mark.parametrize("name", LONG)
def test_bodies_at_the_ends_of_their_facts(name):
    for epsilon in EPSILONS:
        for sensitivity in (1, (1 << 31) + 1, 1 << 48):
            for staircase in (None, Fraction(1, 2)):
                found = wraps(
                    lambda e=epsilon, s=sensitivity, g=staircase: feasible(
                        LatticeNoise(LONG[name](), e, s, staircase=g)
                    ),
                    use_noise,
                )
                assert not found, (epsilon, sensitivity, staircase)


def test_the_longest_ranges_have_their_variance():
    noise = RangeNoise([[1, 1]], start=-(1 << 40), edges=[0, 1], reach=1, points=1 << 60, epsilon=1)
    assert noise.second_moments()[0] == pytest.approx(2.0**200, rel=1e-9)


def test_paths_around_more_rows_than_there_are():
    upto = np.array([1 << 58, (1 << 60) + 1, 1 << 61])
    with watched() as found:
        paths = BandPaths(upto, size=64)
        band = paths.band(paths.least)
        far = paths.distance(np.array([64, 0, 0]))
    assert not found
    assert far == 64 * ((1 << 61) - (1 << 58))
    assert math.isfinite(band.log_total)


def test_moments_on_the_finest_grid_are_exact():
    columns = {"x": tdp.Interval(-1, 1), "k": tdp.Category(["a", "b"]), "y": tdp.Interval(-1, 1)}
    schema = tdp.Schema(columns, rows=5000, bits=26)
    moments = RegressionMoments(schema, ["x", "k"], "y", joint=True)
    rows = {"x": [1.0] * 5000, "k": ["b"] * 5000, "y": [1.0] * 5000}
    one = {name: column[:1] for name, column in rows.items()}
    single = tdp.Schema(columns, rows=1, bits=26)
    each = RegressionMoments(single, ["x", "k"], "y", joint=True).measure(one, bits=26)
    assert moments.measure(rows, bits=26) == [5000 * entry for entry in each]


# --- planted faults -------------------------------------------------------------------------------


def test_squares_that_are_added_up_in_words_are_caught(monkeypatch, seed):
    def old_gram(matrix: Any, bits: int) -> Any:
        total: Any = 0
        for start in range(0, len(matrix), 4096):
            part = matrix[start : start + 4096]
            total = total + (part.T @ part).astype(object)
        return total

    monkeypatch.setattr(median_radius, "exact_gram", old_gram)
    assert radius_wraps(seed)


def test_a_squared_shift_is_caught(monkeypatch):
    right = DiscreteGaussian._upper

    def upper(epsilon: float, shift: Any, sigma2: float) -> float:
        from tightdp.noise import gaussian_laws

        u = gaussian_laws.np.arange(-5, 6)
        shift * (2 * u + shift)  # as it was: integers, where the shift is one
        return right(epsilon, shift, sigma2)

    monkeypatch.setattr(DiscreteGaussian, "_upper", staticmethod(upper))
    assert any(gaussian_wraps())


def test_long_sides_are_caught(monkeypatch):
    """A proposal without a look at the offset."""

    def propose(self: Any, levels: Any, offset: int, rng: Any) -> Any:
        steps = levels[:, None] + (offset + 1 + np.arange(self.dim))
        steps * self._widths
        return right(self, levels, offset, rng)

    right = TestedBody.propose
    monkeypatch.setattr(TestedBody, "propose", propose)
    with pytest.raises(AssertionError):
        test_bodies_at_the_ends_of_their_facts("box of long sides")
