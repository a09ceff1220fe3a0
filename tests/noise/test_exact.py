"""Exact noise: both paths have the stated law, agree word for word, and planted faults are seen."""

from __future__ import annotations

import math
from fractions import Fraction

import integer_draws as exact
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tightdp.errors import ParameterError
from tightdp.exact import discrete_draws as words
from tightdp.exact.enclosures import LOG_SLACK, minus_log
from tightdp.exact.undecided_bits import log_level
from tightdp.randomness import RandomSource, SeededSource, source

# Common factors are where rational arithmetic has gone wrong elsewhere.
RATES = [(2, 3), (4, 5), (9, 10), (7, 9), (1, 2), (3, 2), (5, 1), (1, 1 << 20)]
VARIANCES = [Fraction(2, 3), Fraction(9, 10), Fraction(7, 2), Fraction(100), Fraction(10**9, 7)]
LEVEL = 1e-6  # below it a law is refused
FAST, SLOW = 400_000, 20_000  # draws of the two paths
IDS = [f"{num}/{den}" for num, den in RATES]


# --- laws as upper tails P(Z >= k) ---------------------------------------------------------------


def geometric_tail(x):
    return lambda k: math.exp(-x * max(k, 0))


def laplace_tail(x):
    def tail(k):
        return math.exp(-x * k) / (1 + math.exp(-x)) if k > 0 else 1 - tail(1 - k)

    return tail


def gaussian_tail(sigma2):
    """From the enumerated law for small sigma; for large, Poisson summation leaves an integral."""
    if sigma2 > 1000:
        sigma = math.sqrt(sigma2)
        return lambda k: 0.5 * math.erfc((k - 0.5) / (sigma * math.sqrt(2)))
    reach = math.ceil(40 * math.sqrt(sigma2)) + 2
    weights = [math.exp(-(z * z) / (2 * float(sigma2))) for z in range(-reach, reach + 1)]
    total = math.fsum(weights)
    return lambda k: math.fsum(weights[min(max(k + reach, 0), len(weights)) :]) / total


def cells(tail, draws, most=40):
    """Integer edges of up to ``most`` cells that each expect at least 10 of ``draws``."""
    edges, step = [], max(1 / most, 10 / draws)
    level = 1 - step
    while level > step:
        low, high = -(1 << 70), 1 << 70
        while high - low > 1:  # the least k with tail(k) <= level
            middle = (low + high) // 2
            low, high = (low, middle) if tail(middle) <= level else (middle, high)
        if tail(high) < 10 / draws:
            break
        edges.append(high)
        level = tail(high) - step
    return edges


def p_value(draws, tail):
    """Chi-square of integers against the law with this tail."""
    draws = np.asarray(draws)
    edges = cells(tail, draws.size)
    at_least = [draws.size, *(int((draws >= edge).sum()) for edge in edges), 0]
    expected = [1.0, *(tail(edge) for edge in edges), 0.0]
    return chisquare(-np.diff(at_least), -np.diff(expected) * draws.size).pvalue


# --- the laws ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num", "den"), RATES, ids=IDS)
def test_bernoulli_has_its_law(num, den, seed):
    rng, p = SeededSource(seed), math.exp(-num / den)
    hits = sum(exact.bernoulli_exp(num, den, rng) for _ in range(SLOW))
    assert abs(hits - SLOW * p) <= 5 * math.sqrt(SLOW * p * (1 - p)) + 1


@pytest.mark.slow_for("9/10", "4/5", "3/2", "2/3")
@pytest.mark.parametrize(("num", "den"), RATES, ids=IDS)
def test_geometric_has_its_law(num, den, seed):
    rng, tail = SeededSource(seed), geometric_tail(num / den)
    assert p_value([exact.geometric(num, den, rng) for _ in range(SLOW)], tail) > LEVEL
    assert p_value(words.geometrics(num, den, FAST, rng), tail) > LEVEL


@pytest.mark.slow_for("9/10", "4/5", "3/2", "2/3", "7/9")
@pytest.mark.parametrize(("num", "den"), RATES, ids=IDS)
def test_discrete_laplace_has_its_law(num, den, seed):
    rng, tail = SeededSource(seed), laplace_tail(num / den)
    assert p_value([exact.discrete_laplace(num, den, rng) for _ in range(SLOW)], tail) > LEVEL
    assert p_value(words.discrete_laplaces(num, den, FAST, rng), tail) > LEVEL


@pytest.mark.slow_for("100")
@pytest.mark.parametrize("sigma2", VARIANCES, ids=str)
def test_discrete_gaussian_has_its_law(sigma2, seed):
    rng, tail = SeededSource(seed), gaussian_tail(sigma2)
    assert p_value([exact.discrete_gaussian(sigma2, rng) for _ in range(SLOW // 4)], tail) > LEVEL
    assert p_value(words.discrete_gaussians(sigma2, FAST, rng), tail) > LEVEL


@pytest.mark.parametrize("terms", [1, 4])
def test_sums_of_geometrics_are_negative_binomial(terms, seed):
    q = math.exp(-2 / 3)
    pmf = [math.comb(k + terms - 1, k) * (1 - q) ** terms * q**k for k in range(200)]
    draws = words.geometric_sums(terms, 2, 3, FAST, SeededSource(seed))
    assert p_value(draws, lambda k: math.fsum(pmf[max(k, 0) :])) > LEVEL


def test_laws_hold_with_the_secure_source():
    draws = words.discrete_laplaces(2, 3, FAST, source())
    assert p_value(draws, laplace_tail(2 / 3)) > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("num", "den"), RATES, ids=IDS)
def test_laws_hold_in_six_million_draws(num, den):
    rng, x = source(), num / den
    assert p_value(words.geometrics(num, den, 6_000_000, rng), geometric_tail(x)) > LEVEL
    assert p_value(words.discrete_laplaces(num, den, 6_000_000, rng), laplace_tail(x)) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("sigma2", VARIANCES, ids=str)
def test_gaussian_law_holds_in_six_million_draws(sigma2):
    draws = words.discrete_gaussians(sigma2, 6_000_000, source())
    assert p_value(draws, gaussian_tail(sigma2)) > LEVEL


def test_a_large_rate_keeps_its_law(seed):
    """At rate 8 one draw in 3000 is not zero: rare, and never absent."""
    draws = words.discrete_laplaces(8, 1, FAST, SeededSource(seed))
    assert p_value(draws, laplace_tail(8.0)) > LEVEL
    assert (draws != 0).any()


# --- planted faults ------------------------------------------------------------------------------


def zero_twice(num, den, rng):
    sizes, odd = words.geometrics(num, den, FAST, rng), rng.integers(2, FAST)
    return np.where(odd == 1, -sizes, sizes)


def nine_tenths(num, den, rng):
    return words.discrete_laplaces(10 * num, 9 * den, FAST, rng)


def rounded_float(num, den, rng):
    return np.rint(rng.exponential(FAST) * rng.signs(FAST) * den / num).astype(np.int64)


def cut_float(num, den, rng):
    return np.trunc(rng.exponential(FAST) * rng.signs(FAST) * den / num).astype(np.int64)


def ceiling_for_floor(num, den, rng):
    return np.ceil(rng.exponential(FAST) * rng.signs(FAST) * den / num).astype(np.int64)


@pytest.mark.parametrize(("num", "den"), RATES[:7], ids=IDS[:7])
@pytest.mark.parametrize(
    "mutant", [zero_twice, nine_tenths, rounded_float, cut_float, ceiling_for_floor]
)
def test_a_faulty_laplace_is_refused(mutant, num, den, seed):
    assert p_value(mutant(num, den, SeededSource(seed)), laplace_tail(num / den)) < LEVEL


@pytest.mark.parametrize(("num", "den"), RATES, ids=IDS)
def test_a_faulty_geometric_is_refused(num, den, seed):
    rng, tail = SeededSource(seed), geometric_tail(num / den)
    assert p_value(words.geometrics(10 * num, 9 * den, FAST, rng), tail) < LEVEL
    if den < 100:
        assert p_value(words.geometrics(num, den, FAST, rng) + 1, tail) < LEVEL


@pytest.mark.parametrize("sigma2", VARIANCES, ids=str)
def test_a_faulty_gaussian_is_refused(sigma2, seed):
    draws = words.discrete_gaussians(sigma2 * Fraction(81, 100), FAST, SeededSource(seed))
    assert p_value(draws, gaussian_tail(sigma2)) < LEVEL


def test_redrawing_undecided_draws_is_refused(seed):
    """With eight bits of U, dropping the draws that they do not settle bends the law."""
    rng = SeededSource(seed)
    head = np.floor(rng.uniform(FAST) * 256)
    low, high = (np.floor(-np.log((head + add) / 256) * 3 / 2) for add in (1, 1e-9))
    assert p_value(low[low == high], geometric_tail(2 / 3)) < LEVEL


# --- filters and integers agree ------------------------------------------------------------------


class Planned(RandomSource):
    """Gives the planned words first, then those of a seed; counts what was asked later."""

    seeded = True

    def __init__(self, planned, seed=0):
        self.planned, self.rest, self.later = np.asarray(planned, np.uint64), SeededSource(seed), 0

    def words(self, count):
        if self.planned.size:
            head, self.planned = self.planned[:count], self.planned[count:]
            assert head.size == count
            return head.copy()
        self.later += count
        return self.rest.words(count)


FINE_RATES = [*RATES, (3, 1 << 31), (1, 1 << 40), (5, 1 << 47), (1, 1 << 55), (1, 1 << 60)]


@pytest.mark.parametrize(("num", "den"), FINE_RATES, ids=str)
def test_filtered_draws_equal_integer_draws(num, den, seed):
    for draw in (words.geometrics, words.discrete_laplaces):
        fast = draw(num, den, 3000, SeededSource(seed))
        slow = draw(num, den, 3000, SeededSource(seed), filtered=False)
        assert fast.dtype == slow.dtype
        assert (fast == slow).all()


@pytest.mark.parametrize(("num", "den"), [(2, 3), (1, 1 << 20), (1, 1 << 38)], ids=str)
def test_a_filter_that_decides_nothing_changes_nothing(num, den, seed, monkeypatch):
    first = words.geometrics(num, den, 3000, SeededSource(seed))
    monkeypatch.setattr(words, "_LOG_ERROR", 1e9)
    second = words.geometrics(num, den, 3000, SeededSource(seed))
    monkeypatch.setattr(words, "_WIDE_UNIT", words._WIDE(1e9))
    third = words.geometrics(num, den, 3000, SeededSource(seed))
    assert (first == second).all()
    assert (first == third).all()


def threshold(num, den, k, bits=64):
    """floor(2**bits * exp(-k num/den)), from bounds on the logarithm."""
    low, high = 1, 1 << bits
    goal = (k * num << 200) // den
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if minus_log(middle, bits, 200) > goal else (low, middle)
    # -ln falls, so `low` is the last value whose logarithm is above the goal
    return low


@pytest.mark.parametrize(("num", "den"), [(2, 3), (7, 9), (1, 1 << 16), (1, 1 << 30)], ids=str)
def test_words_next_to_a_threshold_are_not_guessed(num, den):
    """The hardest words: within 2**20 of a boundary between two levels."""
    steps = [0, 1, 2, 3, 50, 1000, 1 << 11, 1 << 15, 1 << 20]
    hard = [
        threshold(num, den, k) + sign * step
        for k in (1, 2, 3, 7, 11)
        for step in steps
        for sign in (-1, 1)
    ]
    rng = Planned(hard)
    fast = words.geometrics(num, den, len(hard), rng)
    slow = words.geometrics(num, den, len(hard), Planned(hard), filtered=False)
    assert (fast == slow).all()
    decided = [abs(step) > 2 for k in range(5) for step in steps for sign in (-1, 1)]
    truth = [k - (sign > 0) for k in (1, 2, 3, 7, 11) for step in steps for sign in (-1, 1)]
    assert (fast[decided] == np.array(truth)[decided]).all()
    assert rng.later > 0  # and some of them needed more bits


def test_an_undecided_word_is_finished_with_the_right_odds(seed):
    """The word that holds exp(-1): below it level 1, above it level 0, in proportion."""
    cut = threshold(1, 1, 1, bits=126)
    word, share = (cut >> 63) << 1, (cut & ((1 << 63) - 1)) / 2**63
    n = 4000
    draws = words.geometrics(1, 1, n, Planned([word] * n, seed))
    assert abs(draws.sum() - n * share) < 5 * math.sqrt(n * share * (1 - share))


def test_the_smallest_words_run_on():
    draws = words.geometrics(1, 1, 4, Planned([0, 1, 2, 3], 5))
    assert (draws[:2] >= 43).all()
    assert set(draws[2:].tolist()) <= {42, 43}


@pytest.mark.parametrize("sigma2", [*VARIANCES, 0.1, Fraction(1 << 80), Fraction(1, 10**9)])
def test_gaussian_filter_equals_integers(sigma2, seed):
    fast = words.discrete_gaussians(sigma2, 500, SeededSource(seed))
    slow = words.discrete_gaussians(sigma2, 500, SeededSource(seed), filtered=False)
    assert (fast == slow).all()


def test_the_logarithm_of_this_machine_is_as_good_as_assumed(seed):
    """[N1]: eight units in the last place, in both precisions, judged by integers."""
    w = SeededSource(seed).words(4000)
    w[:1000] |= np.uint64((1 << 64) - (1 << 40))  # next to one, where the logarithm is small
    w[1000:2000] >>= np.uint64(17)
    w = np.maximum(w >> np.uint64(11), np.uint64(1))  # exact as a double
    for kind in (np.float64, words._WIDE):
        y = -np.log(w.astype(kind) * kind(2) ** -53)
        for value, got in zip(w.tolist(), y, strict=True):
            truth = Fraction(minus_log(value, 53, 200), 1 << 200)
            error = abs(Fraction(*got.as_integer_ratio()) - truth)
            assert error <= 8 * Fraction(*np.spacing(got).as_integer_ratio())


@given(st.integers(1, 200), st.data())
def test_integer_logarithm_keeps_its_bound(bits, data):
    value, shift = data.draw(st.integers(1, 1 << bits)), bits + 16
    finer = minus_log(value, bits, shift + 100)
    assert abs((minus_log(value, bits, shift) << 100) - finer) <= LOG_SLACK << 100
    if value > 1:
        assert math.isclose(finer / 2 ** (shift + 100), -math.log(value / 2**bits), abs_tol=1e-12)


# --- levels without end --------------------------------------------------------------------------


def test_levels_beyond_64_bits_are_python_integers(seed):
    n = 2000
    draws = words.geometrics(1, 1 << 80, n, SeededSource(seed))
    assert draws.dtype == object
    assert abs(sum(draws.tolist()) / 2**80 / n - 1) < 5 / math.sqrt(n)
    assert len({z & 255 for z in draws.tolist()}) > 200  # the low bits are random, not padding
    signed = words.discrete_laplaces(1, 1 << 80, (10, 20), SeededSource(seed))
    assert signed.shape == (10, 20)
    assert {type(z) for z in signed.ravel().tolist()} == {int}


def test_one_large_level_turns_the_array(seed):
    """At rate 2**-60 a level passes 2**62 now and then; the others keep their values."""
    draws = words.geometrics(1, 1 << 60, 400, SeededSource(seed))
    again = words.geometrics(1, 1 << 60, 400, SeededSource(seed), filtered=False)
    assert draws.dtype == object
    assert (draws == again).all()
    assert p_value(draws, geometric_tail(2.0**-60)) > LEVEL
    assert (
        p_value(
            words.geometric_sums(1, 1, 1 << 60, 400, SeededSource(seed)), geometric_tail(2.0**-60)
        )
        > LEVEL
    )


def test_sums_do_not_overflow():
    total = words.geometric_sums(40, 1, 1 << 56, 50, SeededSource(1))
    assert total.dtype == object
    assert min(total.tolist()) > 0


def test_the_order_and_shape_of_draws():
    assert words.geometrics(1, 2, (), SeededSource(1)).shape == ()
    assert words.geometrics(1, 2, (0, 3), SeededSource(1)).shape == (0, 3)
    assert words.discrete_gaussians(5, (2, 3), SeededSource(1)).shape == (2, 3)
    assert log_level(1 << 62, 63, 1, 1, SeededSource(1)) == 0


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: exact.bernoulli_exp(-1, 2, rng),
        lambda rng: exact.bernoulli_exp(1, 0, rng),
        lambda rng: exact.geometric(0, 1, rng),
        lambda rng: exact.geometric(0.5, 1, rng),
        lambda rng: exact.discrete_gaussian(0, rng),
        lambda rng: exact.discrete_gaussian(math.inf, rng),
        lambda rng: words.geometrics(0, 1, 3, rng),
        lambda rng: words.geometrics(1, -1, 3, rng),
        lambda rng: words.geometrics(1, 1, -3, rng),
        lambda rng: words.discrete_laplaces(1, 0, 3, rng),
        lambda rng: words.discrete_gaussians(-1, 3, rng),
        lambda rng: words.geometric_sums(0, 1, 2, 3, rng),
    ],
)
def test_parameters_out_of_range_are_refused(call):
    with pytest.raises(ParameterError):
        call(source(1))
