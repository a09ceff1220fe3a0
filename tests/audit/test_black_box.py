"""Black-box audits: they catch what is wrong, and accuse nobody else."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import tightdp as tdp
from tightdp.audit import audit
from tightdp.audit.events import Claim, pair_bound, share_bound
from tightdp.audit.features import float_bits
from tightdp.errors import DimensionError, ParameterError
from tightdp.exact.discrete_draws import discrete_laplaces
from tightdp.randomness import source

GRID = 2.0**-20

# The ball and a neighbour at one of its vertices.
CASES = {
    "Laplace": (tdp.LpBall(1, 1), [1.0]),
    "l1 m=5": (tdp.LpBall(5, 1), [1.0, 0.0, 0.0, 0.0, 0.0]),
    "linf m=5": (tdp.LpBall(5, np.inf), [1.0, 1.0, 1.0, 1.0, 1.0]),
    "K3": (tdp.K3(), [2.0, 2.0, 0.0]),
}


def additive(ball, rng, *, factor=1.0, epsilon=1.0):
    """K-norm noise, ``factor`` times as large as it should be, rounded to a public grid."""
    noise = tdp.KNormNoise(ball, epsilon / factor)

    def mechanism(x, size):
        return np.round((x + noise.sample(size, rng=rng)) / GRID) * GRID

    return mechanism


def lattice(rng, epsilon=1.0):
    """Discrete Laplace noise on the grid, exact, for sensitivity 1."""
    num, den = (epsilon * GRID).as_integer_ratio()

    def mechanism(x, size):
        return x + discrete_laplaces(num, den, size, rng) * GRID

    return mechanism


def run(name, rng, *, factor=1.0, known=True, **options):
    ball, vertex = CASES[name]
    inputs = [np.zeros(ball.dim), np.array(vertex)]
    if known:
        options.update(ball=ball, centers=inputs)
    return audit(additive(ball, rng, factor=factor), *inputs, epsilon=1.0, rng=rng, **options)


# --- power --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_noise_30_percent_too_small_is_caught(name, seed):
    rng = source(seed)
    reports = [run(name, rng, factor=0.7) for _ in range(3)]
    assert all(report.violated for report in reports)
    assert all(report.epsilon_lower < 1 / 0.7 for report in reports)  # and not exaggerated


@pytest.mark.parametrize("name", CASES)
def test_noise_10_percent_too_small_is_caught(name, seed):
    report = run(name, source(seed), factor=0.9, releases=50_000)
    assert report.violated
    assert report.epsilon_lower < 1 / 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_power(name, seed):
    """At power 0.995, fewer than 37 of 40 runs have probability below 1e-4."""
    rng = source(seed)
    assert sum(run(name, rng, factor=0.7).violated for _ in range(40)) >= 37
    assert sum(run(name, rng, factor=0.9, releases=50_000).violated for _ in range(40)) >= 37


@pytest.mark.parametrize("name", CASES)
def test_noise_30_percent_too_small_is_caught_blindly(name, seed):
    assert run(name, source(seed), factor=0.7, known=False, releases=20_000).violated


def test_a_mechanism_without_noise_shows_all_that_can_be_shown():
    report = audit(lambda x, size: np.full(size, x), 0.0, 1.0, epsilon=1.0, rng=0)
    assert report.violated
    assert report.epsilon_lower > 6
    assert report.findings[0].epsilon_seen == math.inf


def test_a_leak_in_one_coordinate_of_many(seed):
    rng = source(seed)
    good = additive(tdp.LpBall(30, 1), rng)

    def leaky(x, size):
        out = good(x, size)
        out[:, 17] += 3 * (x[0] - out[:, 17] / 1000 > 0.5)
        return out

    inputs = np.zeros(30), np.eye(30)[0]
    assert not audit(good, *inputs, epsilon=1.0, rng=rng).violated
    report = audit(leaky, *inputs, epsilon=1.0, rng=rng)
    assert report.violated
    assert "release[17]" in " ".join(found.event for found in report.findings)


def test_an_atom_of_a_vector_is_found(seed):
    rng = source(seed)
    noise = additive(tdp.LpBall(2, 1), rng)

    def sometimes_bare(x, size):
        out = noise(x, size)
        bare = rng.uniform(size) < 0.02
        out[bare] = x
        return out

    report = audit(sometimes_bare, [0.0, 0.0], [1.0, 0.0], epsilon=1.0, rng=rng)
    assert report.violated
    assert report.epsilon_lower > 2
    assert "= " in report.event


def test_integers_and_parity(seed):
    rng = source(seed)

    def counts(x, size):
        return x + discrete_laplaces(1, 1, (size, 2), rng)

    def even_noise(x, size):
        return x + 2 * discrete_laplaces(1, 4, size, rng)

    inputs = np.array([5, 9]), np.array([6, 9])
    assert not audit(counts, *inputs, epsilon=1.0, rng=rng).violated
    report = audit(even_noise, 5, 6, epsilon=1.0, rng=rng)
    assert report.epsilon_lower > 5
    assert "mod" in report.event


def test_integers_of_any_size(seed):
    rng = source(seed)

    def wide(x, size):
        return x + discrete_laplaces(1, 2**80, size, rng)

    assert not audit(wide, 0, 2**80, epsilon=1.0, rng=rng).violated
    assert audit(wide, 0, 2**81, epsilon=1.0, rng=rng).violated


def test_delta_is_allowed_for(seed):
    rng = source(seed)

    def sometimes_bare(x, size):
        out = lattice(rng)(x, size)
        out[rng.uniform(size) < 0.05] = x + 100.0
        return out

    assert audit(sometimes_bare, 0.0, 1.0, epsilon=1.0, rng=rng).violated
    assert audit(sometimes_bare, 0.0, 1.0, epsilon=1.0, delta=0.01, rng=rng).violated
    report = audit(sometimes_bare, 0.0, 1.0, epsilon=1.0, delta=0.06, rng=rng)
    assert not report.violated
    assert report.delta == 0.06


def test_both_directions_are_tried(seed):
    rng = source(seed)

    def tail(x, size):
        return x * (rng.uniform(size) < 0.2)

    for inputs, over in (((0.0, 1.0), "x_neighbor"), ((1.0, 0.0), "x")):
        report = audit(tail, *inputs, epsilon=1.0, rng=rng)
        assert report.epsilon_lower > 4  # of the event that only one input gives
        assert report.findings[0].over == over


# --- false alarms -------------------------------------------------------------------------------


def alarms(runs, rng, **options):
    """How often correct mechanisms are accused; every kind equally often."""
    count = 0
    for _ in range(runs):
        count += sum(run(name, rng, **options).violated for name in CASES)
        count += audit(lattice(rng), 0.0, 1.0, epsilon=1.0, grid=GRID, rng=rng, **options).violated
    return count


def test_correct_mechanisms_are_not_accused(seed):
    # 100 runs: a false alarm has probability 1e-4 in all
    assert alarms(20, source(seed), alpha=1e-6, releases=5_000) == 0


def test_alpha_is_kept(seed):
    # 125 runs at alpha = 0.1; more alarms than the quantile have probability 1e-6
    assert alarms(25, source(seed), alpha=0.1, releases=1_000) <= binom.isf(1e-6, 125, 0.1)


@pytest.mark.slow
def test_500_correct_runs(seed):
    # at most 500e-3 false alarms on average; 4 or more have probability below 2e-3
    assert alarms(100, source(seed)) <= 3


@pytest.mark.slow
def test_alpha_is_kept_in_2000_runs(seed):
    assert alarms(400, source(seed), alpha=0.1, releases=1_000) <= binom.isf(1e-6, 2000, 0.1)


def test_the_bounds_cover_at_their_level():
    # exact coverage, by enumeration: P(bound > ln(p/q)) <= alpha
    n, p, q, claim = 30, 0.6, 0.25, Claim(0.0, 0.1)
    truth, missed = math.log(p / q), {"share": 0.0, "pair": 0.0}
    for first in range(n + 1):  # the coins
        second = n - first
        for hits in range(first + 1):
            for others in range(second + 1):
                chance = binom.pmf(first, n, 0.5) * binom.pmf(hits, first, p)
                chance *= binom.pmf(others, second, q)
                if chance < 1e-12:
                    continue
                if share_bound(hits, others, claim) > truth:
                    missed["share"] += chance
                if pair_bound(hits, first, others, second, claim) > truth:
                    missed["pair"] += chance
    assert 0 < missed["share"] <= 0.1
    assert missed["pair"] <= 0.1


# --- low bits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_low_bits_give_floating_point_noise_away(epsilon, seed):
    rng = np.random.default_rng(seed)

    def naive(x, size):
        return x + rng.laplace(0.0, 1 / epsilon, size)

    report = audit(naive, 0.0, 1.0, epsilon=epsilon, rng=seed)
    assert report.violated
    assert report.epsilon_lower > epsilon + 1
    assert report.findings[0].family == "low bits"


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("grid", [GRID, None])
def test_exact_noise_on_the_lattice_passes(epsilon, grid, seed):
    rng = source(seed)
    report = audit(lattice(rng, epsilon), 0.0, 1.0, epsilon=epsilon, grid=grid, alpha=1e-6, rng=rng)
    assert not report.violated
    low = audit(
        lattice(rng, epsilon),
        0.0,
        1.0,
        epsilon=epsilon,
        grid=grid,
        events=["low bits"],
        alpha=1e-6,
        rng=rng,
    )
    assert low.epsilon_lower < 0.05  # the last bits say nothing at all


def test_continuous_vector_noise_is_given_away(seed):
    noise, rng = tdp.KNormNoise(tdp.LpBall(5, np.inf), 1.0), source(seed)
    report = audit(
        lambda x, size: x + noise.sample(size, rng=rng), np.zeros(5), np.ones(5), epsilon=1.0, rng=0
    )
    assert report.violated


def test_leaving_the_grid_is_an_event(seed):
    rng = source(seed)
    exact = lattice(rng)

    def slips(x, size):
        return exact(x, size) + x * GRID / 3

    report = audit(slips, 0.0, 1.0, epsilon=1.0, grid=GRID, rng=rng)
    assert report.epsilon_lower > 6
    assert report.event in ("release off the grid = 0", "release off the grid = 1")


def test_float_bits_against_integer_ratios(seed):
    values = np.concatenate(
        [
            source(seed).normal(200),
            np.ldexp(source(seed).normal(200), -1000),
            [5e-324, 3 * 5e-324, 2.0**-1022, 1.5, -0.375, 1e308, 4503599627370497.0],
        ]
    )
    exponents, patterns = float_bits(values)
    for value, exponent, pattern in zip(values, exponents, patterns, strict=True):
        top, bottom = abs(float(value)).as_integer_ratio()
        lowest = (top & -top).bit_length() - 1 - (bottom.bit_length() - 1)
        assert exponent == lowest
        assert pattern == int(np.float64(value).view(np.uint64)) & 15


# --- how it is called ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_report():
    def once():
        rng = source(3)
        return audit(lattice(rng), 0.0, 1.0, epsilon=1.0, grid=GRID, rng=rng, releases=2_000)

    assert once() == once()
    assert once() != audit(lattice(source(3)), 0.0, 1.0, epsilon=1.0, rng=4, releases=2_000)


def test_one_release_a_call_and_release_objects(seed):
    rng = source(seed)
    calls = []

    def single(x):
        calls.append(x)
        return SimpleNamespace(value=[x + int(discrete_laplaces(1, 1, 1, rng)[0]), 0])

    report = audit(single, 0, 3, epsilon=1.0, releases=1_000, rng=rng)
    assert report.violated
    assert len(calls) == 2_000
    assert report.checked == 1_000


def test_inputs_are_passed_on_as_they_are():
    tables = [{"rows": 1}, "any object"]
    seen = []

    def mechanism(x, *, size):
        seen.append(x)
        return np.zeros(size)

    assert audit(mechanism, *tables, epsilon=1.0).epsilon_lower == 0
    assert all(any(x is table for table in tables) for x in seen)


def test_extreme_numbers_do_not_break_it(seed):
    rng = source(seed)

    def wide(x, size):
        return (x + rng.signs((size, 2)) * 1e308) * rng.uniform((size, 2))

    assert not audit(wide, 0.0, 1.0, epsilon=1.0, rng=rng, releases=2_000).violated
    mixed = audit(lambda x, size: [x] * size, 2**70, 0.5, epsilon=1.0, releases=1_000)
    assert mixed.violated


def test_progress_needs_nothing(monkeypatch, capsys):
    def still(x, size):
        return np.zeros(size)

    audit(still, 0, 1, epsilon=1.0, releases=500, progress=True)
    assert "releases" in capsys.readouterr().err
    audit(still, 0, 1, epsilon=1.0, releases=500)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    audit(still, 0, 1, epsilon=1.0, releases=500, progress=True)
    assert capsys.readouterr().err == ""


# --- refusals -----------------------------------------------------------------------------------


def ragged(x):
    ragged.turn += 1
    return [0.0] * (1 + ragged.turn % 2)


ragged.turn = 0


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"epsilon": math.nan}, ParameterError, "`epsilon` must be finite"),
        ({"epsilon": 0.0}, ParameterError, "`epsilon` must be a finite number > 0"),
        ({"epsilon": True}, ParameterError, "`epsilon`"),
        ({"epsilon": 10.0}, ParameterError, "`releases` must be larger to refute epsilon = 10"),
        ({"releases": 50}, ParameterError, "`releases` must be an integer >= 100"),
        ({"releases": 1e4}, ParameterError, "`releases` must be an integer"),
        ({"delta": 1.0}, ParameterError, r"`delta` must lie in \[0, 1\)"),
        ({"delta": math.nan}, ParameterError, "`delta`"),
        ({"alpha": 0.0}, ParameterError, "`alpha`"),
        ({"grid": -1.0}, ParameterError, "`grid`"),
        ({"ball": "l1"}, ParameterError, "`ball` must be a NormBall"),
        ({"ball": tdp.LpBall(3, 1)}, DimensionError, "`ball` must have dimension 1"),
        ({"centers": [[0.0, 0.0], [1.0, 0.0]]}, DimensionError, r"shape \(2, 1\)"),
        ({"centers": [[math.nan], [1.0]]}, ParameterError, "`centers` must hold finite"),
        ({"events": "low bits"}, ParameterError, "not one string"),
        ({"events": ["lowbits"]}, ParameterError, "Did you mean 'low bits'"),
        ({"events": ["gauge"]}, ParameterError, "at least"),
        ({"rng": "seed"}, ParameterError, "`rng`"),
        ({"mechanism": 3}, ParameterError, "`mechanism` must be callable"),
        ({"mechanism": lambda x, size: np.zeros(3)}, DimensionError, "releases along the first"),
        ({"mechanism": lambda x, size: 0.0}, DimensionError, "releases along the first"),
        ({"mechanism": lambda x, size: np.zeros((size, 2, 2))}, DimensionError, "first axis"),
        ({"mechanism": lambda x, size: np.zeros((size, 0))}, DimensionError, "at least one number"),
        ({"mechanism": lambda x, size: np.zeros((size, 1 + x))}, DimensionError, "one length"),
        ({"mechanism": lambda x, size: np.full(size, np.nan)}, ParameterError, "finite numbers"),
        ({"mechanism": lambda x, size: np.full(size, np.inf)}, ParameterError, "finite numbers"),
        ({"mechanism": lambda x, size: ["a"] * size}, ParameterError, "must return real numbers"),
        ({"mechanism": lambda x, size: np.zeros(size) * 1j}, ParameterError, "real numbers"),
        ({"mechanism": lambda x, size: [2**1001] * size}, ParameterError, r"2\*\*1000"),
        ({"mechanism": lambda x: None}, ParameterError, "must return real numbers"),
        ({"mechanism": lambda x: [[1.0]]}, DimensionError, "in every call"),
        ({"mechanism": lambda x: [[1.0], [1.0, 2.0]]}, DimensionError, "one length"),
        ({"mechanism": ragged}, DimensionError, "in every call"),
    ],
)
def test_bad_questions_are_refused(change, error, match):
    def still(x, size):
        return np.zeros(size)

    arguments = {"mechanism": still, "x": 0, "x_neighbor": 1, "epsilon": 1.0, "releases": 1_000}
    with pytest.raises(error, match=match):
        audit(**{**arguments, **change})


def test_a_refusal_names_no_release():
    with pytest.raises(ParameterError) as refusal:
        audit(lambda x, size: [x] * size, "secret-4711", "secret-4712", epsilon=1.0)
    assert "471" not in str(refusal.value)
