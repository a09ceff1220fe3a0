"""Gaussian noise for vectors: the exact length, the best weights, the law, and what it promises."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.accounting.conversions import gaussian_dp_delta
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.noise.discrete_curves import near_delta, summed_delta
from tightdp.noise.gaussian_laws import gaussian_delta
from tightdp.shaping.gaussian_noise import GaussianNoise, gaussian_noise
from tightdp.shaping.l2_moves import L2Moves, best_weights

LEVEL = 1e-6
REPLACE, ADD = "replace-one", "add-remove"


def facts(relation: str = REPLACE, bits: int = 16, **more: Any) -> tdp.Schema:
    columns = {
        **{f"x{i}": tdp.Interval(0, 1) for i in range(50)},
        "k": tdp.Category(list("abc"), other="a"),
        "t": tdp.Category(["no", "yes"], other="no"),
    }
    return tdp.Schema(columns, 100, neighbors=relation, bits=bits, **more)


def sums(count: int, **more: Any) -> tdp.Sums:
    return tdp.Sums(facts(**more), [f"x{i}" for i in range(count)])


def made(statistic: Any, noise: Any = "gaussian", **budget: Any) -> Any:
    given = budget or {"epsilon": 1, "delta": 1e-6}
    return tdp.AdditiveMechanism(statistic, noise=noise, **given)


# --- the length of a move -------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("terms", [["k", "t"], ["k:t", "x0"], ["x0:k", "k", "x1"], ["x0", "x1"]])
def test_the_square_is_that_of_brute_force(relation, terms, seed):
    """Every row of a coarse grid, every pair of them; and a random weight for every entry."""
    statistic = tdp.Products(facts(relation, bits=1), terms)
    ends = [statistic.extreme_cells(name) for name in statistic.columns]
    rows = np.array(list(itertools.product(*ends)), dtype=float)
    measure = tdp.data.statistics.Block.of_columns
    images = np.array(
        [statistic.contributions(measure(statistic.columns, row[:, None]), 1) for row in rows]
    )
    weights = np.random.default_rng(seed).integers(1, 9, len(statistic))
    for chosen in (weights, np.ones_like(weights)):
        pairs = (images[:, None] - images[None]).reshape(-1, len(chosen))
        moves = images if relation == ADD else pairs
        found = L2Moves.of(statistic, 1, [int(w) for w in chosen]).square
        assert found == int(((moves**2) @ chosen).max())


def test_fifty_sums_cost_what_the_analytic_gaussian_of_their_length_does():
    """And not 19 times as much, as with a budget for every entry."""
    noise = made(sums(50))._choice
    sigma = tdp.AnalyticGaussian(epsilon=1, delta=1e-6, sensitivity=2 * math.sqrt(50)).sigma
    assert np.trace(noise.covariance()) / 50 == pytest.approx(sigma**2, rel=1e-6)
    assert noise.cost.mu_squared == noise.mu2 == 2 * noise.rho
    assert gaussian_dp_delta(Fraction(1), noise.mu2) <= Fraction(1, 10**6)
    assert gaussian_dp_delta(Fraction(1), noise.mu2 * Fraction(101, 100)) > Fraction(1, 10**6)


def test_persons_with_rows_move_it_further():
    one = made(tdp.Counts(facts(ADD), ["k"]))._choice
    many = made(tdp.Counts(facts(ADD, person="who", rows_per_person=3), ["k"]))._choice
    assert many.moves.square == 9 * one.moves.square


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [["x0", "k"], ["k:t", "x0", "t"], ["k", "t"]])
def test_no_other_weights_are_better(terms, seed):
    """Against a thousand random ellipsoids around the moves; and better than a ball."""
    statistic = tdp.Products(facts(bits=1), terms)
    best = best_weights(statistic, 1)

    def total(weights: Any) -> float:
        found = L2Moves.of(statistic, 1, weights).square
        return sum(float(Fraction(found, w)) for w in weights)

    rng = np.random.default_rng(seed)
    near = np.array(best, dtype=float)
    others = [rng.lognormal(0, 0.3, len(best)) * near for _ in range(200)]
    assert min(total([int(w * 1e4) + 1 for w in other]) for other in others) > total(best) * 0.999
    assert total(best) < 0.995 * total([1] * len(best))


def test_weights_of_an_ellipsoid_that_does_not_hold_the_moves_are_refused(monkeypatch):
    """Planted: one entry with four times its weight, and the length of before."""
    statistic = tdp.Products(facts(), ["x0", "k"])
    moves = L2Moves.of(statistic, 16, best_weights(statistic, 16))
    wrong = L2Moves(statistic, 16, (4 * moves.weights[0], *moves.weights[1:]), moves.square)
    short = L2Moves(statistic, 16, moves.weights, moves.square * 81 // 100)
    spent = {"epsilon": Fraction(1), "delta": Fraction(1, 9)}
    for fault in (wrong, short):
        noise = GaussianNoise(fault, Fraction(1), discrete=False, **spent)
        monkeypatch.setattr("tightdp.mechanisms.additive.gaussian_noise", lambda *_, n=noise: n)
        with pytest.raises(UncoveredMoveError):
            made(statistic)


# --- the law --------------------------------------------------------------------------------------


def masses(noise: GaussianNoise, j: int, reach: int) -> np.ndarray:
    """The law of an entry on -reach..reach, written from its definition."""
    z, variance = np.arange(-reach, reach + 1), float(noise.variances[j])
    if noise.discrete:
        weights = np.exp(-(z**2) / (2 * variance))
        return weights / weights.sum()
    far, sigma = np.abs(z), math.sqrt(variance)  # tails, which keep their digits
    return np.asarray(stats.norm.sf((far - 0.5) / sigma) - stats.norm.sf((far + 0.5) / sigma))


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
def test_draws_have_the_law_entry_by_entry_and_are_independent(name, seed):
    """Chi-square of 60,000 draws at 1e-6: a sigma that is wrong by 5 % is always seen."""
    noise = gaussian_noise(tdp.Counts(facts(), ["k", "t"]), name, 1, 1e-3)
    draws = np.asarray(noise.sample(60_000, rng=seed))

    def p_value(sample: np.ndarray, j: int) -> float:
        law = masses(noise, j, 60)
        kept = np.abs(np.arange(-60, 61)) <= 3.5 * float(noise.variances[j]) ** 0.5
        seen = np.bincount(np.clip(sample, -60, 60) + 60, minlength=121)
        expected = np.append(law[kept], law[~kept].sum()) * len(sample)
        return float(stats.chisquare(np.append(seen[kept], seen[~kept].sum()), expected).pvalue)

    for j in range(draws.shape[1]):
        assert p_value(draws[:, j], j) > LEVEL
        assert p_value(np.rint(draws[:, j] * 0.95).astype(int), j) < LEVEL
    off = np.corrcoef(draws.T) - np.eye(draws.shape[1])
    assert np.abs(off).max() < 5.5 / math.sqrt(len(draws))


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
@pytest.mark.parametrize("terms", [["k"], ["k", "t"]])
def test_covariance_and_intervals(name, terms, seed):
    noise = gaussian_noise(tdp.Counts(facts(), terms), name, 1, 1e-3)
    draws = np.asarray(noise.sample(40_000, rng=seed))
    spread = np.sqrt(np.diag(noise.covariance()))
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=5 / math.sqrt(2 * len(draws)))
    mixed = np.vstack([np.ones(len(spread)), np.arange(len(spread)) - 1.0])
    for linear in (np.eye(len(spread)), mixed):
        half = noise.reach(linear, 0.9)
        inside = (np.abs(draws @ linear.T) <= half + 1e-9).all(axis=1).mean()
        assert inside > 0.9 - 5 * 0.3 / math.sqrt(len(draws))
        fewer = (np.abs(draws @ linear.T) <= 0.75 * half).all(axis=1).mean()
        assert fewer < 0.9  # planted: a quarter too short


# --- what is promised -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
@pytest.mark.parametrize(("terms", "moved"), [(["k"], 2), (["k", "t"], 4)])
def test_composed_losses_are_at_most_delta(name, terms, moved):
    """The divergence of all entries that move, over all points within 5.5 sigmas; a planted cut."""
    delta = 1e-3
    noise = gaussian_noise(tdp.Counts(facts(), terms), name, 1, delta)

    def lost(scale: float) -> float:
        """The divergence with all standard deviations times ``scale``."""
        cut = GaussianNoise(
            noise.moves,
            noise.moves.weights[0] * noise.variances[0] * Fraction(scale) ** 2,
            discrete=noise.discrete,
            epsilon=noise.epsilon,
            delta=noise.delta,
        )
        entries = [j for j, name in enumerate(cut.statistic.names)]
        first = [j for j in entries if cut.statistic.names[j].startswith("k")][:2]
        second = [j for j in entries if cut.statistic.names[j].startswith("t")][:2]
        p, q = np.ones(1), np.ones(1)
        for j in (first + second)[:moved]:
            law = masses(cut, j, math.ceil(5.5 * float(cut.variances[j]) ** 0.5))
            p = np.multiply.outer(p, law[1:]).ravel()
            q = np.multiply.outer(q, law[:-1]).ravel()
        return float(np.maximum(p - math.e * q, 0).sum())

    assert lost(1.0) <= delta
    assert lost(1.0) > 0.9 * delta  # it is tight
    assert lost(0.8) > 1.5 * delta  # planted: a fifth less noise


def test_curves_of_the_discrete_gaussian_agree():
    for variance, moved in ((9.0, [1, 1]), (30.0, [1] * 5), (50.0, [2, 1])):
        ratio = math.sqrt(sum(d * d for d in moved) / variance)
        summed = summed_delta(1.0, moved, variance)
        assert summed == pytest.approx(gaussian_delta(1.0, ratio), rel=0.08)
        assert summed <= near_delta(1.0, ratio, [variance] * len(moved))
    assert summed_delta(1.0, [1] * 400, 1e6) is None


def test_own_variances_are_those_of_the_release(seed):
    """In the units of the columns, one for all or one for each; and what they promise."""
    wide = tdp.Schema({"x": tdp.Interval(0, 10), "y": tdp.Interval(0, 4)}, 50)
    both = tdp.Sums(wide)
    same = made(both, tdp.RoundedGaussian(sigma2=900), delta=1e-5)
    np.testing.assert_allclose(same.preview().std, 30, rtol=1e-4)
    assert float(same.cost.mu_squared) == pytest.approx((100 + 16) / 900, rel=1e-9)
    assert same.delta == Fraction(1, 10**5)
    own = made(both, tdp.RoundedGaussian(sigma2=[400, Fraction(1, 4)]), epsilon=40)
    np.testing.assert_allclose(own.preview().std, [20, 0.5], rtol=1e-4)
    assert float(own.cost.mu_squared) == pytest.approx(100 / 400 + 16 * 4, rel=1e-9)
    assert own.epsilon == 40
    assert gaussian_dp_delta(Fraction(40), own.cost.mu_squared) <= own.delta
    release = same.release({"x": [1.0] * 50, "y": [2.0] * 50}, rng=seed)
    assert np.abs(release.value - [50, 100]).max() < 30 * 6
    assert str(same.guarantee()).startswith("rho = 0.064")


def test_rho_is_the_budget_where_it_is_given():
    for name in ("gaussian", "discrete-gaussian"):
        mechanism = made(tdp.Counts(facts(), ["k"]), name, rho=Fraction(1, 20))
        assert mechanism.cost.rho <= Fraction(1, 20)
        assert mechanism.cost.rho > Fraction(1, 20) * (1 - Fraction(1, 10**9))
        assert mechanism.delta == Fraction(1, 10**6)
        assert "rho = 0.05" in str(mechanism.guarantee())
        other = made(tdp.Counts(facts(), ["k"]), name, rho=Fraction(1, 30))
        assert other.fingerprint() != mechanism.fingerprint()


@pytest.mark.parametrize(
    ("noise", "budget", "text"),
    [
        ("gaussian", {"epsilon": 1}, "`delta` > 0, or `rho`"),
        ("gaussian", {"epsilon": 1, "rho": 1}, "`epsilon` must be left out"),
        ("gaussian", {"rho": 0}, "`rho` must"),
        ("gaussian", {"rho": math.nan}, "`rho` must"),
        ("laplace", {"epsilon": 1, "rho": 1}, "`rho` is a budget for"),
        (tdp.RoundedGaussian(sigma2=1), {"epsilon": 1, "delta": 1e-6}, "must cover the noise"),
        (tdp.RoundedGaussian(sigma2=[1, 2, 3]), {"delta": 1e-6}, "`sigma2` must have 2 entries"),
    ],
    ids=str,
)
def test_budgets_that_do_not_fit_are_refused(noise, budget, text):
    with pytest.raises(ParameterError, match=text):
        made(sums(2), noise, **budget)


@pytest.mark.parametrize("sigma2", [0, -1, math.nan, math.inf, True, "9", None, [], 10.0**-100])
def test_bad_variances_are_refused(sigma2):
    with pytest.raises(ParameterError, match="`sigma2`"):
        tdp.RoundedGaussian(sigma2=sigma2)


# --- the sampler of rounded Gaussians -------------------------------------------------------------


@pytest.mark.parametrize(
    "sigma2", [Fraction(1, 10**12), Fraction(1, 7), 1, Fraction(22, 7), 10**9, 10**40]
)
def test_the_filter_changes_no_draw(sigma2):
    from tightdp.exact.discrete_draws import rounded_gaussians
    from tightdp.randomness import SeededSource

    fast = rounded_gaussians(sigma2, 300, SeededSource(3))
    slow = rounded_gaussians(sigma2, 300, SeededSource(3), filtered=False)
    assert fast.tolist() == slow.tolist()
    assert float(np.abs(fast.astype(float)).max()) < 7 * math.sqrt(sigma2) + 1


def test_a_book_of_tables_tells_the_least_rho_as_the_least_epsilon():
    levels = {"a": tdp.Category(["x", "y"], other="x"), "b": tdp.Category(["u", "v"], other="u")}
    schema = tdp.Schema(levels, rows=1000)
    book = tdp.Tables(schema, [["a"], ["a", "b"]], rho=1e-12)
    assert book.guarantee().rho == 1e-12
    assert book.preview().guarantee.epsilon > 0


# --- stated errors, in the units of the columns ---------------------------------------------------


def wide_sums():
    columns = {"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 100), "c": tdp.Interval(-5, 5)}
    return tdp.Sums(tdp.Schema(columns, rows=1000))


@pytest.mark.parametrize("noise", ["gaussian", "discrete-gaussian", "l2", "best"])
def test_entries_miss_their_targets_by_one_factor(noise):
    wished = {"c": 30.0, "a": 3.0, "b": 100.0}
    found = made(wide_sums(), noise, epsilon=1, delta=1e-6, targets=wished)
    ratios = found.preview().std / [wished[name] for name in found.statistic.names]
    assert ratios.max() / ratios.min() < 1.01
    plain = made(wide_sums(), noise, epsilon=1, delta=1e-6)
    was = plain.preview().std / [wished[name] for name in plain.statistic.names]
    assert ratios.max() < was.max()
    assert found.fingerprint() != plain.fingerprint()
    assert found.guarantee() == plain.guarantee() or noise == "best"


@pytest.mark.parametrize("noise", ["gaussian", "l2"])
def test_no_other_ellipsoid_has_a_smaller_weighted_error(noise, seed):
    weights = [1.0, 0.04, 9.0]
    found = made(wide_sums(), noise, epsilon=1, delta=1e-6, weights=weights)
    least = weights @ found.preview().std ** 2
    rng = np.random.default_rng(seed)
    for _ in range(12):  # any other proportions of the errors
        other = found.preview().std * np.exp(rng.normal(0, 0.4, 3))
        twin = made(wide_sums(), noise, epsilon=1, delta=1e-6, targets=list(other))
        assert weights @ twin.preview().std ** 2 > 0.99 * least


def test_wishes_that_no_noise_serves_are_refused():
    budget = {"epsilon": 1, "delta": 1e-6}
    for wish, words in (
        ({"weights": [1, 1, 1], "targets": [1, 1, 1]}, "one way"),
        ({"weights": [1, 1]}, "`weights` must have 3"),
        ({"targets": {"a": 1, "b": 2}}, "every entry once: a, b, c"),
        ({"targets": [1, 0, 1]}, "`targets` must lie in"),
        ({"weights": "much"}, "`weights` must be a list"),
    ):
        with pytest.raises(ParameterError, match=words):
            made(wide_sums(), "gaussian", **wish, **budget)
    with pytest.raises(ParameterError, match="`weights` and `targets` are for noise of the names"):
        made(wide_sums(), "hull", epsilon=1, targets=[1, 1, 1])
    with pytest.raises(ParameterError, match="with a `delta`"):
        made(wide_sums(), "l2", epsilon=1, targets=[1, 1, 1])
