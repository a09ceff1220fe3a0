"""Coordinate descent: sensitivities by brute force, exact losses of steps, broken twins."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms import coordinate_descent
from tightdp.mechanisms.coordinate_descent import CoordinateDescent, _slope, _table, best_step
from tightdp.noise.gaussian_laws import gaussian_delta
from tightdp.randomness import source
from tightdp.shaping.step_noise import GaussianSteps, LawSteps, RangeSteps, step_noise

UNIT = 1 << 20


def mechanism(width=2, *, bits=2, rows=10, **options):
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(width)}
    schema = tdp.Schema({**columns, "y": tdp.Category([0, 1], other=0)}, rows=rows, bits=bits)
    return CoordinateDescent(
        schema, **{"epsilon": 1, "passes": 2, "fit_intercept": False} | options
    )


def slopes(mech, h, coordinate):
    """The slope of every row of the domain, in integers."""
    top = 1 << mech.bits
    rows = np.array(list(itertools.product(range(-top, top + 1), repeat=len(mech.features))))
    if mech.fit_intercept:
        rows = np.hstack([np.full((len(rows), 1), top), rows])
    z = np.vstack([rows, -rows])  # both labels
    return _slope(z @ h, mech.bits) * z[:, coordinate]


@pytest.mark.parametrize("intercept", [False, True])
def test_sensitivities_by_brute_force(intercept, seed, monkeypatch):
    monkeypatch.setattr(coordinate_descent, "_GRAIN", 14)  # as good as no rounding up
    mech, rng = mechanism(2, bits=3, fit_intercept=intercept), np.random.default_rng(seed)
    tight = naive = cut = 0
    for _ in range(60):
        h = (rng.normal(0, 3, mech.width) * UNIT).astype(np.int64)
        coordinate = intercept + int(rng.integers(2))
        found = slopes(mech, h, coordinate)
        moved, stated = int(found.max() - found.min()), mech.sensitivity(h, coordinate)
        assert moved <= stated
        tight += moved >= stated - (1 << (mech.bits + 16 - 14))
        cut += moved > 0.8 * stated
        # slopes at the two ends only: not a bound, the maximum may lie between them
        own, rest = int(h[coordinate]), int(np.abs(h).sum()) - abs(int(h[coordinate]))
        ends = _slope(np.array([rest + own, rest - own]) << mech.bits, mech.bits)
        naive += moved > int(ends.sum()) << mech.bits
    assert tight == 60  # reached by some pair of rows
    assert cut == 60
    assert naive > 0


def test_the_first_slope_moves_by_one():
    mech = mechanism()
    assert mech.sensitivity(np.zeros(2, dtype=np.int64), 0) == 1 << (mech.bits + 16)
    far = np.array([60 << 20, 60 << 20])
    assert mech.sensitivity(far, 0) <= 2 << (mech.bits + 16)


def test_the_table_is_the_logistic_function_and_nondecreasing():
    table = _table()
    assert (np.diff(table) >= 0).all()
    t = np.linspace(-20, 20, 2001)
    exact = 1 / (1 + np.exp(-t))
    assert np.abs(_slope(np.rint(t * 2**36).astype(np.int64), 16) / 2**16 - exact).max() < 2e-4
    np.testing.assert_array_equal(table + table[::-1], np.full(len(table), 1 << 16))


def queries(mech, h, coordinate, rows=2):
    """Sums of slopes of all tables of two rows, by pairs of neighbours: their distances."""
    each = np.unique(slopes(mech, h, coordinate))
    return int(each.max() - each.min())


def test_a_step_of_laplace_noise_loses_its_share_and_a_cut_is_caught():
    mech = mechanism(noise="laplace", epsilon=1, passes=3)
    h = np.zeros(2, dtype=np.int64)
    moved = mech.sensitivity(h, 0)
    law = mech.noise.law(moved)
    rate = Fraction(law.epsilon).limit_denominator(10**6) / law.sensitivity
    loss = queries(mech, h, 0) * rate
    assert loss * mech.steps == 1  # six steps, the whole epsilon, reached at h = 0
    assert loss * mech.steps * Fraction(5, 4) > 1


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(1, 1e-5, 40), (3, 0.1, 5)])
def test_gaussian_steps_add_their_squares(epsilon, delta, steps):
    noise = GaussianSteps(Fraction(epsilon), Fraction(str(delta)), steps, 1 << 17)
    sigma = float(noise.noise.sigma)
    assert gaussian_delta(epsilon, np.sqrt(steps) / sigma) <= delta
    assert gaussian_delta(epsilon, np.sqrt(steps) / (0.8 * sigma)) > delta
    assert noise.factor * (1 << 17) * noise.noise.sigma >= 1 << 48


def test_lossy_steps_by_enumeration():
    """Two adaptive steps of truncated noise: the joint law of both answers, all outcomes."""
    epsilon, delta, moved = 2, 0.2, 4
    made = step_noise(
        "truncated-laplace", Fraction(epsilon), Fraction(1, 5), 2, least=4, most=16, furthest=10
    )
    law = made.law(moved)
    printed = tdp.TruncatedLaplace(epsilon=epsilon, delta=delta).lattice(Fraction(1, moved))

    def joint(one):
        reach = 1 + int(max(abs(one.quantile(1e-12)), one.quantile(1 - 1e-12))) + moved
        z = np.arange(-reach, reach + 1)
        p, q = one.pmf(z), one.pmf(z - moved)
        both = np.multiply.outer(p, p) - np.exp(epsilon) * np.multiply.outer(q, q)
        return np.maximum(both, 0).sum()

    assert joint(law) <= delta
    assert joint(printed) > delta  # (epsilon, delta) for every step, as printed


DESIGN = {
    "epsilon": 1.0,
    "delta": 0.2,
    "sensitivity": 2,
    "query_range": (-4, 4),
    "resolution": 2,
    "partition": (-4, -2, -1, 0, 1, 2, 4),
}


def answer_law(noise, points, query):
    """The law of the answer to an exact query, enumerated."""
    low = noise.low * points
    wide = noise._wide(points)
    place = wide.clamp(query - low)
    table = wide.tables[wide.group(place)]
    first = low + place + wide.start * points
    return {first + i: table[i // points] for i in range(len(table) * points)}


def worst_delta(noise, points, moved, around):
    worst = 0.0
    for query, shift in itertools.product(range(-around, around + 1), [1, moved - 1, moved]):
        p, q = answer_law(noise, points, query), answer_law(noise, points, query + shift)
        for one, other in ((p, q), (q, p)):
            total = sum(one.values())
            excess = sum(max(w - np.e * other.get(z, 0), 0) for z, w in one.items())
            worst = max(worst, excess / total)
    return worst


def test_data_dependent_steps_are_private_beyond_the_range_of_the_design():
    design = tdp.design_data_dependent_noise(**DESIGN)
    noise = RangeSteps(design, 20)
    assert noise.delta <= Fraction(1, 5)
    points = 2  # a sensitivity of 4 steps of the lattice
    assert worst_delta(noise, points, 4, around=14) <= 0.2 + 1e-9
    assert worst_delta(noise, points, 5, around=14) > 0.2  # a fifth less noise for the same change


def test_answers_follow_the_law_of_their_interval(seed):
    design = tdp.design_data_dependent_noise(**DESIGN)
    noise, rng = RangeSteps(design, 20), source(seed)
    for query in (-50, -3, 0, 7):
        law = answer_law(noise, 2, query)
        draws = [noise.prepare(4, rng)(query) for _ in range(4000)]
        assert set(draws) <= set(law)
        values = np.array(list(law))
        weights = np.array([float(w) for w in law.values()]) / sum(law.values())
        seen = np.array([draws.count(v) for v in values])
        common = weights * 4000 >= 8
        o, e = np.append(seen[common], seen[~common].sum()), 4000 * weights
        e = np.append(e[common], e[~common].sum())
        keep = e > 0
        assert stats.chi2.sf(((o - e)[keep] ** 2 / e[keep]).sum(), keep.sum() - 1) > 1e-6


def test_what_is_published_is_the_slope_plus_the_stated_noise(seed):
    """One step, one column."""
    mech = mechanism(1, bits=4, rows=50, noise="laplace", passes=1, epsilon=1, step_size=1.0)
    x = np.linspace(-1, 1, 50)
    frame = {"x0": x, "y": (x > 0).astype(int)}
    z = mech.rows(frame)
    query = int(_slope(np.zeros(50, dtype=np.int64), 4) @ z[0])
    drawn = []
    for i in range(1500):
        h = mech.descend(z, source(seed + i))[0] / UNIT
        drawn.append((-h * 50 * 2**20 - query) / 2**20)
    assert stats.kstest(drawn, stats.laplace(scale=1.0).cdf).pvalue > 1e-6
    size, error = np.abs(drawn).mean(), 1 / np.sqrt(len(drawn))
    assert abs(size - 1) < 5 * error
    assert abs(0.8 * size - 1) > 5 * error  # a fifth less noise would be seen


# --- the descent ---------------------------------------------------------------------------------


def test_the_order_is_public_and_covers_all_coordinates():
    mech = mechanism(4, passes=3)
    order = list(mech.order())
    assert order == list(mechanism(4, passes=3).order())
    assert np.bincount(order).tolist() == [3, 3, 3, 3]
    part = mechanism(4, passes=3, sweep=1)
    assert len(list(part.order())) == part.steps == 12


def test_budgets_are_divided_among_the_steps():
    few, many = (mechanism(noise="laplace", passes=p).noise.variance() for p in (1, 10))
    assert many == pytest.approx(100 * few, rel=1e-3)
    composed = mechanism(noise="laplace", passes=10, delta=1e-3).noise.variance()
    assert composed < 0.9 * many  # delta pays for exact composition
    best = mechanism(passes=40, delta=1e-3).noise
    assert isinstance(best, GaussianSteps)
    assert isinstance(mechanism(passes=40).noise, LawSteps)


def test_a_noise_of_ones_own_must_be_covered():
    law = tdp.TruncatedLaplace(epsilon=0.5, delta=0.001)
    with pytest.raises(ParameterError, match="cover the noise"):
        mechanism(noise=law, epsilon=1, delta=0.01, passes=2)
    assert mechanism(noise=law, epsilon=2, delta=0.01, passes=2).steps == 4
    design = tdp.design_data_dependent_noise(**DESIGN)
    with pytest.raises(ParameterError, match="cover the noise"):
        mechanism(noise=design, epsilon=1, delta=0.3, passes=1)
    assert isinstance(mechanism(noise=design, epsilon=2, delta=0.5, passes=1).noise, RangeSteps)
    short = tdp.design_data_dependent_noise(**DESIGN | {"partition": None})
    with pytest.raises(ParameterError, match="first and last group"):
        mechanism(noise=short, epsilon=2, delta=0.5, passes=1)


def test_more_budget_buys_more_passes_and_longer_steps():
    found = [mechanism(rows=n, passes="auto") for n in (100, 10_000, 1_000_000)]
    passes = [one.passes for one in found]
    assert passes == sorted(passes)
    assert passes[0] < passes[-1]
    sizes = [mechanism(rows=100, epsilon=e, passes=1).step_size for e in (1e-6, 1e-2, 100)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 1e-6
    assert sizes[-1] == 4


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("passes", [1, 4])
def test_the_best_step_has_the_least_error_of_noisy_descents(passes, noise, seed):
    """Descents of quadratics with the curvatures and effects of the public model, simulated."""
    width, draws = 4, 20_000
    rng = np.random.default_rng(seed)
    size, stated = best_step(passes, width, noise)

    def simulated(size):
        errors = []
        for curvature in (0.01, 0.03, 0.08):
            missing = np.full(draws, np.sqrt(4 / width))
            for _ in range(passes):
                slope = curvature * missing + np.sqrt(noise) * rng.normal(size=draws)
                missing = missing - size * slope
            errors.append(missing**2)
        errors = np.mean(errors, axis=0)
        return errors.mean(), errors.std() / np.sqrt(draws)

    mean, error = simulated(size)
    assert abs(mean - stated) < 5 * error
    for other in (size / 2, min(2 * size, 4.0)):
        worse, doubt = simulated(other)
        assert worse + 5 * doubt > mean - 5 * error
    halved = best_step(passes, width, noise / 4)[1]  # a wrong noise would be seen
    assert abs(mean - halved) > 5 * error or stated < 1.02 * halved


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"noise": "cube"}, "noise"),
        ({"noise": "gaussian"}, "delta"),
        ({"l1": -1}, "l1"),
        ({"l2": "much"}, "l2"),
        ({"passes": 0}, "passes"),
        ({"passes": "many"}, "passes"),
        ({"step_size": 8}, "step_size"),
        ({"step_size": "long"}, "step_size"),
        ({"sweep": 3}, "sweep"),
        ({"target": "x0"}, "two levels"),
        ({"features": []}, "feature"),
        ({"features": ["y"]}, "numeric"),
        ({"noise": "designed", "delta": 1e-6, "epsilon": 0.01}, "designed"),
    ],
)
def test_bad_input(options, text):
    with pytest.raises(ParameterError, match=text):
        mechanism(**options)


@pytest.mark.parametrize("sensitivity", [1, 1 << 18, 3 << 17])
def test_laws_on_integers_are_refused_before_anything_is_paid(sensitivity):
    """They cannot be scaled; slopes move by up to 2 units of 2**(bits + 16) = 2**18 steps."""
    law = tdp.Geometric(epsilon=0.01, sensitivity=sensitivity)
    with pytest.raises(ParameterError, match="sensitivity"):
        mechanism(noise=law)
    mechanism(noise=tdp.Geometric(epsilon=0.01, sensitivity=1 << 19))


# --- rows that are there or not ------------------------------------------------------------------


def added(width=2, *, bits=2, rows=10, most=1, **options):
    """The mechanism for add-remove neighbours, or for persons with up to ``most`` rows."""
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(width)}
    person = {"person": "who", "rows_per_person": most} if most > 1 else {}
    schema = tdp.Schema(
        {**columns, "y": tdp.Category([0, 1], other=0)},
        rows=rows,
        bits=bits,
        neighbors="add-remove",
        **person,
    )
    return CoordinateDescent(
        schema, **{"epsilon": 1, "passes": 2, "fit_intercept": False} | options
    )


@pytest.mark.parametrize("most", [1, 3])
def test_a_row_more_moves_a_slope_by_its_own_by_brute_force(most, seed, monkeypatch):
    monkeypatch.setattr(coordinate_descent, "_GRAIN", 14)
    mech, rng = added(bits=3, most=most), np.random.default_rng(seed)
    other = mechanism(bits=3)
    for _ in range(60):
        h = (rng.normal(0, 3, mech.width) * UNIT).astype(np.int64)
        coordinate = int(rng.integers(2))
        moved = most * int(np.abs(slopes(mech, h, coordinate)).max())
        stated = mech.sensitivity(h, coordinate)
        assert moved <= stated <= moved + most * (1 << (mech.bits + 16 - 14))
        assert moved > 0.8 * stated  # a fifth less would be too little
        assert stated <= most * other.sensitivity(h, coordinate) <= 2 * stated


def test_the_whole_budget_is_reached_and_a_cut_is_caught_when_a_row_is_added():
    """At h = 0 the extreme row has a slope of one half, in every step."""
    for most in (1, 2):
        mech = added(noise="laplace", epsilon=1, passes=3, most=most)
        law = mech.noise.law(mech.sensitivity(np.zeros(2, dtype=np.int64), 0))
        assert law.sensitivity == most << (mech.bits + 16 - 1)
        rate = Fraction(law.epsilon).limit_denominator(10**6) / law.sensitivity
        each = np.abs(slopes(mech, np.zeros(2, dtype=np.int64), 0)).max()
        loss = mech.steps * most * int(each) * rate
        assert loss == 1
        assert loss * Fraction(5, 4) > 1


def loss_of_a_step(mech, tables, seed):
    """The largest log ratio of the exact laws of the first released slope of two tables."""
    law = mech.noise.law(mech.sensitivity(np.zeros(mech.width, dtype=np.int64), 0))
    queries = []
    for table in tables:
        z = mech.rows(table)
        queries.append(int(_slope(np.zeros(z.shape[1], dtype=np.int64), mech.bits) @ z[0]))
    points = np.arange(-(1 << 20), 1 << 20, 999)
    first, second = (law.log_pmf(points - query) for query in queries)
    return np.abs(first - second).max()


def test_exact_losses_of_tables_of_different_lengths(seed):
    """One row more, an empty table, a person of three rows; a twin for one row is caught."""
    few = {"x0": np.array([0.5, -1.0]), "y": np.array([1, 0])}
    more = {"x0": np.array([0.5, -1.0, 1.0]), "y": np.array([1, 0, 1])}
    none = {"x0": np.array([]), "y": np.array([], dtype=int)}
    alone = {"x0": np.array([1.0]), "y": np.array([1])}
    one = added(1, noise="laplace", passes=1)
    assert loss_of_a_step(one, (few, more), seed) == pytest.approx(1, rel=1e-6)
    assert loss_of_a_step(one, (none, alone), seed) == pytest.approx(1, rel=1e-6)
    absent = {**few, "who": np.array(["a", "b"])}
    person = {
        "x0": np.array([0.5, -1.0, 1.0, 1.0, 1.0, 1.0]),
        "y": np.array([1, 0, 1, 1, 1, 1]),
        "who": np.array(["a", "b", "c", "c", "c", "c"]),
    }
    three = added(1, noise="laplace", passes=1, most=3)
    assert loss_of_a_step(three, (absent, person), seed) == pytest.approx(1, rel=1e-6)
    three.noise = one.noise
    broken = three.noise.law(one.sensitivity(np.zeros(1, dtype=np.int64), 0))
    three.sensitivity = lambda h, coordinate: broken.sensitivity  # one row of a person only
    assert loss_of_a_step(three, (absent, person), seed) > 2.9


def test_a_private_number_of_rows_enters_nowhere_but_in_the_sum(seed):
    """Half of the rows of the schema: steps of half the size, the same law of the noise."""
    x = np.linspace(-1, 1, 500)
    table = {"x0": x, "y": (x > 0).astype(int)}
    fits = []
    for rows in (500, 1000):
        mech = added(1, bits=8, rows=rows, epsilon=1000, passes=1, step_size=1.0)
        fits.append(mech.release(table, rng=seed).value[0])
    assert fits[0] == pytest.approx(2 * fits[1], rel=0.05)
    assert fits[0] == pytest.approx(0.25, rel=0.05)  # mean of |x| / 2
    guarantee = added(1).guarantee()
    assert guarantee.neighbors is tdp.Neighbors.ADD_REMOVE


def test_data_dependent_steps_take_rows_that_are_there_or_not(seed):
    design = tdp.design_data_dependent_noise(**DESIGN)
    mech = added(1, noise=design, epsilon=2, delta=0.5, passes=1)
    x = np.linspace(-1, 1, 30)  # more rows than the schema says: slopes beyond the range
    release = mech.release({"x0": x, "y": (x > 0).astype(int)}, rng=seed)
    assert np.isfinite(release.value).all()


# --- facts that cannot all be meant --------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "make", "said"),
    [(0.101, mechanism, True), (0.1, mechanism, False), (0.101, added, False)],
)
def test_a_delta_above_one_in_n_is_spoken_of_where_n_is_public(delta, make, said):
    x = np.linspace(-1, 1, 10)
    frame = {"x0": x, "x1": x, "y": (x > 0).astype(int)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(delta=delta).release(frame, rng=1)
    assert [w.category for w in caught] == [tdp.PublicFactWarning] * said
    assert all(w.filename == __file__ for w in caught)
