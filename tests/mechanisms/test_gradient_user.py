"""The K-norm gradient mechanism for a loss of one's own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from lattice_fit import chi_square

from tightdp.errors import DataError, ParameterError
from tightdp.exact.box_sampling import BoxSampler
from tightdp.mechanisms.gradient import KNormRowGradient
from tightdp.randomness import source
from tightdp.schema import Interval, Schema

UNIT = Interval(-1, 1)


def gradient(rows, theta):
    """Huber's location in two dimensions, far beyond the clip on purpose."""
    return 3 * np.clip(theta - rows, -0.5, 0.5)


def bounds(rows, low, high):
    return gradient(rows, low), gradient(rows, high)


def mechanism(rows=4, *, neighbors="replace-one", functions=(gradient, bounds), **options):
    schema = Schema({"a": UNIT, "b": UNIT}, rows=rows, bits=4, neighbors=neighbors)
    return KNormRowGradient(
        schema, [UNIT, UNIT], *functions, **{"clip": 1.0, "epsilon": 1, "grid": 3, **options}
    )


def law(mech, rows, rate=None):
    levels = mech.levels(np.rint(np.clip(rows, -1, 1) * 16).astype(np.int64))
    points = levels.points()
    found = np.array([levels.level(z) for z in points], dtype=float)
    logs = -float(mech.rate if rate is None else rate) * (found - found.min())
    return points, logs - math.log(np.exp(logs).sum())


ROWS = np.array([[-1, -0.5], [-0.5, 0.25], [0.6, 0.9], [1, 1]])


@pytest.mark.slow_for("replace-one")
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_clipping_enforces_the_sensitivity(neighbors, seed):
    rng = np.random.default_rng(seed)
    mech = mechanism(neighbors=neighbors)
    loose = mechanism(neighbors=neighbors, clip=3.0)  # gradients up to 1.5 pass, at the old rate
    worst = broken = 0.0
    worst_rest = np.array([[-1, -1], [-1, 0], [-1, 0]])  # 1.24 and 1.28 of all 165 multisets
    for rest in [worst_rest, *rng.choice([-1, 0, 1], (19, 3, 2))]:
        second = [*rest, [1, 1]] if neighbors == "replace-one" else rest
        pair = np.array([*rest, [-1, -1]]), np.array(second)
        first, other = (law(mech, rows)[1] for rows in pair)
        worst = max(worst, float(np.abs(first - other).max()))
        first, other = (law(loose, rows, 3 * mech.rate)[1] for rows in pair)
        broken = max(broken, float(np.abs(first - other).max()))
    assert 0.3 < worst <= 1 + 1e-9
    assert broken > 1  # the audit has power


@pytest.mark.parametrize("wrong", [False, True])
def test_draws_follow_the_enumerated_law(wrong, seed):
    mech = mechanism(epsilon=16)
    points, logs = law(mech, ROWS)
    levels, bits = mech.levels(np.rint(ROWS * 16).astype(np.int64)), source(seed)
    sampler = BoxSampler(levels, mech.rate * (Fraction(5, 4) if wrong else 1))
    p = chi_square(points, logs, lambda i: sampler.draw(bits), 3000)
    assert p < 1e-5 if wrong else p > 1e-5


def test_wrong_bounds_and_shapes_are_noticed_without_words_of_the_data():
    table = {"a": ROWS[:, 0], "b": ROWS[:, 1]}

    def tight(rows, low, high):
        return np.ones((len(rows), 2)), np.ones((len(rows), 2))

    def releases():
        for seed in range(60):  # a draw that meets no wrong bound is none the wiser
            mechanism(functions=(gradient, tight)).release(table, rng=seed)

    with pytest.raises(DataError, match="bounds of the levels do not hold"):
        releases()
    with pytest.raises(DataError, match="a row for every row"):
        mechanism(functions=(lambda rows, theta: theta, lambda r, a, b: (a, b))).release(table)


def test_errors_of_the_functions_are_withheld():
    table = {"a": ROWS[:, 0], "b": ROWS[:, 1]}

    def quoting(rows, *theta):
        raise ValueError(f"bad cell {rows[0]}")

    for functions in (
        (quoting, bounds),
        (gradient, quoting),
        (lambda rows, theta: [["cell", str(rows[0])]], bounds),
        (gradient, lambda rows, low, high: rows),
    ):
        with pytest.raises(DataError) as caught:
            mechanism(functions=functions, grid=1).release(table)
        assert "-0.5" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_the_guarantee_says_that_floats_are_trusted(seed):
    steep = mechanism(epsilon=50, grid=12, most_points=1 << 27)
    release = steep.release({"a": ROWS[:, 0], "b": ROWS[:, 1]}, rng=seed)
    assert str(release.guarantee.numerics) == "idealized-numerics"
    assert release.names == ("theta[0]", "theta[1]")


@pytest.mark.parametrize("epsilon", [1e-6, 1, 1e3])
@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[0.25, -0.5]] * 40, [[math.nan, 9]] * 3])
def test_odd_tables_and_budgets_give_a_release(rows, epsilon, seed):
    cells = np.array(rows)
    release = mechanism(len(rows), epsilon=epsilon, grid=10).release(
        {"a": cells[:, 0], "b": cells[:, 1]}, rng=seed
    )
    assert (np.abs(release.value) <= 1).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"functions": (gradient, None)}, "`bounds` must be a function"),
        ({"functions": (None, bounds)}, "`gradient` must be a function"),
        ({"clip": 0}, "`clip`"),
        ({"clip": math.inf}, "`clip`"),
        ({"epsilon": 0}, "`epsilon`"),
        ({"grid": 0}, "`grid`"),
    ],
)
def test_bad_parameters_are_named(change, words):
    with pytest.raises(ParameterError, match=words):
        mechanism(**change)


def test_an_unbounded_domain_is_refused():
    with pytest.raises(ParameterError, match="`intervals`"):
        KNormRowGradient(Schema({"a": UNIT}, rows=3), [], gradient, bounds, clip=1.0, epsilon=1)
