"""The solver of noisy moments, the choice of their noise, and the seeds behind its intervals."""

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.inference.moment_solver import solve
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.shaping.moment_noise import choose_noise

LENGTH = 1 / 8


def facts(columns, rows=10_000):
    names = [f"x{i}" for i in range(columns)]
    return names, tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=rows)


def median_errors(C, b, std, seed):
    """Of the solver, of the pseudo-inverse and of nothing, where only g is noisy."""
    rng = np.random.default_rng(seed)
    g = C @ b + std * rng.standard_normal((400, len(b)))
    many = np.broadcast_to(C, (400, *C.shape))
    found = solve(many, np.zeros_like(many), g, np.full_like(g, std**2), length=LENGTH)
    plain = np.linalg.solve(many, g[..., None])[..., 0]
    return [float(np.median(np.linalg.norm(x - b, axis=1))) for x in (found, plain, 0 * g)]


def test_without_noise_it_is_least_squares(seed):
    rng = np.random.default_rng(seed)
    C, b = np.diag([0.3, 0.2, 0.1]), rng.normal(size=3)
    for variance in (0.0, 1e-20):
        found = solve(C, np.zeros((3, 3)), C @ b, np.full(3, variance), length=LENGTH)
        np.testing.assert_allclose(found, b, rtol=1e-5)


def test_a_matrix_of_zeros_gives_zeros():
    for g in (np.zeros(3), np.ones(3)):
        found = solve(np.zeros((3, 3)), np.zeros((3, 3)), g, np.ones(3), length=LENGTH)
        assert (found == 0).all()


@pytest.mark.parametrize("columns", [3, 12])
def test_columns_that_vary_and_act_together(columns, seed):
    """Noise of the directions that hardly vary is left out: 0.6 of the pseudo-inverse, or less."""
    C = (0.1 * np.eye(columns) + 0.9) / 9
    b = np.full(columns, 0.3 / np.sqrt(columns))
    found, plain, nothing = median_errors(C, b, 0.01, seed)
    assert found < 0.6 * plain
    assert found < nothing


@pytest.mark.parametrize("columns", [1, 2, 5, 9])
@pytest.mark.parametrize("length", [0.05, 0.25, 0.6])
def test_it_is_near_the_better_of_keeping_and_dropping(columns, length, seed):
    """Within a factor of two, for noise from a tenth of the effects to five times as much."""
    C, b = np.eye(columns) / 3, np.full(columns, length / np.sqrt(columns))
    for noise in (0.1, 1.0, 5.0):
        std = noise * length / np.sqrt(columns) / 3
        found, plain, nothing = median_errors(C, b, std, seed)
        # effects far below the prior's guess of their size are not taken for none at once
        room = 2.0 if length > 0.1 or noise <= 1 else 2.0 * noise
        assert found < room * min(plain, nothing)


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_steep_slopes_that_stand_out_are_kept(columns, seed):
    """Of narrow columns, whose covariances are a few times their noise: half of the length or less.

    Products with the target stand 30 standard deviations out of their noise, so that what keeps the
    slopes from being known is the noise of C times them. It must not make them look like none.
    """
    rng = np.random.default_rng(seed)
    C, b = np.eye(columns) / 1200, np.full(columns, 8.0)
    std = C[0, 0] / 5
    noise = rng.standard_normal((400, columns, columns)) * std
    noisy = C + (noise + noise.swapaxes(1, 2)) / np.sqrt(2)
    g = C @ b + std * rng.standard_normal((400, columns))
    variance = np.full_like(g, std**2)
    found = solve(noisy, np.full_like(noisy, std**2), g, variance, length=LENGTH)
    assert np.median(np.linalg.norm(found - b, axis=1)) < 0.5 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("columns", "parts"), [(1, {"moments", "square"}), (2, {"target", "features", "square"})]
)
def test_noise_is_chosen_by_its_median_size(columns, parts):
    names, schema = facts(columns)
    chosen = choose_noise(schema, names, "y", "best", Fraction(1), square=True)
    assert {part.name for part in chosen.parts} == parts
    assert chosen.typical_error() < chosen.predicted_error()
    for noise in ("split", "hull"):
        other = choose_noise(schema, names, "y", noise, Fraction(1), square=True)
        assert chosen.typical_error() <= other.typical_error()


def test_parts_have_less_noise_in_the_median():
    """Of the products with the target of two columns: by variances the two are nearly alike."""
    names, schema = facts(2)
    sizes = {}
    for noise in ("split", "hull"):
        mechanism = LeastSquares(schema, names, "y", epsilon=1, noise=noise)
        drawn = mechanism.moments.simulate(4_000, rng=5)
        i, j, _ = mechanism.statistic.entries.T
        products = drawn[:, (j == mechanism.statistic.outcome) & (i > 0) & (i < j)]
        assert products.shape == (4_000, 2)
        sizes[noise] = np.linalg.norm(products, axis=1)
    middle, mean = (
        size(sizes["split"]) / size(sizes["hull"])
        for size in (np.median, lambda drawn: np.sqrt((drawn**2).mean()))
    )
    assert middle < 0.95 * mean  # four standard errors of the ratio are 0.05


def test_every_release_has_its_own_seed():
    names, schema = facts(2, rows=2_000)
    mechanism = LeastSquares(schema, names, "y", epsilon=1)
    rng = np.random.default_rng(1)
    table = {name: rng.uniform(-1, 1, 2_000) for name in [*names, "y"]}
    one, again, other = (mechanism.fit(mechanism.release(table, rng=k)) for k in (1, 1, 2))
    assert one._seed() == again._seed() != other._seed()
    np.testing.assert_array_equal(one.intervals(0.05), again.intervals(0.05))
    assert isinstance(one, LinearFit)
