"""Keys that nobody listed: the best chances there are, told to nobody what one person has."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.noise.key_noise import GaussianKeyNoise, KeyNoise
from tightdp.randomness import RandomSource, source

BUDGETS = [(1, 1e-6), (0.1, 1e-5), (2, 0.01), (5, 1e-9), (0.5, 0.4), (0.25, 1e-3), (20, 1e-12)]


def schema(neighbors: str = "add-remove", rows: int = 1000, **facts: Any) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(0, 1)}, rows, neighbors=neighbors, **facts)


def exactly(number: float) -> Fraction:
    return Fraction(str(number))


# --- the optimum ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_chances_are_those_of_the_best_choice_of_keys(epsilon, delta):
    """Theorem 1 of Desfontaines and others, in 80 digits."""
    getcontext().prec = 80
    noise, factor, lost = KeyNoise.of(exactly(epsilon), exactly(delta)), Decimal(str(epsilon)), 0
    factor, lost = factor.exp(), Decimal(str(delta))
    best = Decimal(0)
    for count in range(noise.steps + 3):
        found = noise.chance(count)
        got = Decimal(found.numerator) / Decimal(found.denominator)
        assert 0 <= best - got <= Decimal(2) ** -80 * max(best, lost)
        best = min(factor * best + lost, 1 - (1 - best - lost) / factor, Decimal(1))


def test_where_delta_fits_the_noise_is_the_truncated_geometric():
    """Their Section 4: thresholding with symmetric geometric noise cut at k = 5."""
    epsilon, k = 0.7, 5
    q = math.exp(-epsilon)
    share = (1 - q) / (1 + q - 2 * q ** (k + 1))
    noise = KeyNoise.of(exactly(epsilon), exactly(share * q**k * (1 + 1e-13)))
    weights = np.array([share * q ** abs(z) for z in range(-k, k + 1)])
    assert noise.threshold == k
    assert noise.probabilities()[-len(weights) :] == pytest.approx(weights, abs=1e-9)


def test_a_better_choice_does_not_exist():
    """A linear program over all ways to choose: the largest sum of chances, for eight counts."""
    from scipy.optimize import linprog

    epsilon, delta, most = 0.5, 0.02, 8
    factor, rows, bounds = math.exp(epsilon), [], []
    for c in range(most):
        for a, b in ((c, c + 1), (c + 1, c)):
            one = np.zeros(most + 1)
            one[a], one[b] = 1, -factor
            rows += [one, -one]  # p_a <= e p_b + d, and the same of their complements
            bounds += [delta, factor - 1 + delta]
    limits = [(0, 0), *[(0, 1)] * most]
    found = linprog(-np.ones(most + 1), A_ub=np.array(rows), b_ub=bounds, bounds=limits)
    noise = KeyNoise.of(exactly(epsilon), exactly(delta))
    assert -found.fun == pytest.approx(sum(float(noise.chance(c)) for c in range(most + 1)))


# --- privacy, exactly -----------------------------------------------------------------------------


def outcomes(noise: Any, count: int) -> dict[int | None, float]:
    """What one key can show, None if nothing, with its probability."""
    if count == 0:
        return {None: 1.0}
    found: dict[int | None, float] = {None: 0.0}
    for z, p in zip(range(noise.least, noise.threshold + 1), noise.probabilities(), strict=True):
        shown = count + z if count + z > noise.threshold else None
        found[shown] = found.get(shown, 0.0) + p
    return found


def lost(noise: Any, before: tuple[int, ...], after: tuple[int, ...], epsilon: float) -> float:
    """The delta of one table against another: all keys whose counts differ, together."""
    first, second = ([outcomes(noise, c) for c in counts] for counts in (before, after))
    total = 0.0
    for seen in itertools.product(*(set(a) for a in first)):
        p = math.prod(a.get(y, 0.0) for a, y in zip(first, seen, strict=True))
        q = math.prod(b.get(y, 0.0) for b, y in zip(second, seen, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def worst(noise: Any, moves: list[tuple[int, ...]], epsilon: float) -> float:
    """Over all counts up to those at which keys are sure to show."""
    found = 0.0
    for move in moves:
        for start in itertools.product(range(noise.steps + 2), repeat=len(move)):
            end = tuple(c + step for c, step in zip(start, move, strict=True))
            if min(end) >= 0:
                found = max(
                    found, lost(noise, start, end, epsilon), lost(noise, end, start, epsilon)
                )
    return found


@pytest.mark.parametrize(
    ("neighbors", "persons", "moves"),
    [
        ("add-remove", {}, [(1,)]),
        ("replace-one", {}, [(1, -1), (1,)]),
        ("add-remove", {"person": "who", "rows_per_person": 2}, [(1, 1), (1,)]),
    ],
)
def test_every_pair_of_neighbours_is_within_epsilon_and_delta(neighbors, persons, moves):
    epsilon, delta = 2.0, 0.01
    facts = schema(neighbors, **persons)
    mechanism = PrivateKeys(facts, "k", epsilon=epsilon, delta=delta, noise="bounded")
    found = worst(mechanism.noise, moves, epsilon)
    assert found <= delta * (1 + 1e-9)
    assert found > delta / 3  # and the budget is used


class Faulty:
    """The noise of keys with one thing wrong."""

    def __init__(self, noise: KeyNoise, lower: int = 0, sharper: float = 1.0) -> None:
        self.steps, self.least = noise.steps, noise.least
        self.threshold = noise.threshold
        self._hidden = noise.threshold - lower
        weights = noise.probabilities() ** sharper
        self._weights = weights / weights.sum()

    def probabilities(self) -> Any:
        return self._weights

    def shows(self, value: int) -> bool:
        return value > self._hidden


@pytest.mark.parametrize("fault", [{"lower": 1}, {"sharper": 1.25}])
def test_a_lower_threshold_and_less_noise_are_caught(fault, monkeypatch):
    noise = PrivateKeys(schema(), "k", epsilon=1, delta=0.01).noise

    def faulty_outcomes(bad: Any, count: int) -> dict[int | None, float]:
        found: dict[int | None, float] = {None: 0.0 if count else 1.0}
        for z, p in zip(range(bad.least, noise.threshold + 1), bad.probabilities(), strict=True):
            if count:
                shown = count + z if bad.shows(count + z) else None
                found[shown] = found.get(shown, 0.0) + p
        return found

    monkeypatch.setitem(globals(), "outcomes", faulty_outcomes)
    assert worst(Faulty(noise), [(1,)], 1.0) <= 0.01 * (1 + 1e-9)
    assert worst(Faulty(noise, **fault), [(1,)], 1.0) > 0.011


def gaussian_lost(
    before: tuple[int, int], after: tuple[int, int], sigma: float, threshold: float, epsilon: float
) -> float:
    """The delta of two keys under Gaussian noise, from cells of a quarter of a count."""
    edges = np.append(np.arange(threshold, threshold + 12 * sigma, 0.25), np.inf)

    def law(count: int) -> Any:
        if count == 0:
            return np.append(1.0, np.zeros(len(edges) - 1))
        return np.diff(norm.cdf(np.append(-np.inf, edges), count, sigma))

    p, q = (np.outer(law(a), law(b)) for a, b in (before, after))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def gaussian_worst(sigma: float, threshold: float, moves: list[tuple[int, int]]) -> float:
    near = round(threshold)
    places = [0, 1, 2, near - 2, near, near + 3, near + 40]
    found = 0.0
    for move in moves:
        for start in itertools.product(places, repeat=2):
            end = (start[0] + move[0], start[1] + move[1])
            if min(end) >= 0:
                pairs = ((start, end), (end, start))
                found = max(found, *(gaussian_lost(a, b, sigma, threshold, 1.0) for a, b in pairs))
    return found


@pytest.mark.parametrize(
    ("facts", "moves"),
    [
        ({"neighbors": "replace-one"}, [(1, -1), (1, 0)]),
        ({"person": "who", "rows_per_person": 2}, [(1, 1), (1, 0)]),
    ],
)
def test_gaussian_noise_of_keys_is_within_epsilon_and_delta(facts, moves):
    """Also its planted faults: noise cut by a fifth, and a threshold that is lower by a count."""
    noise = PrivateKeys(schema(**facts), "k", epsilon=1, delta=1e-3, noise="gaussian").noise
    sigma, threshold = math.sqrt(noise.mean_square() - 1 / 12), float(noise.threshold)
    assert gaussian_worst(sigma, threshold, moves) <= 1e-3
    assert gaussian_worst(0.8 * sigma, threshold, moves) > 1e-3
    assert gaussian_worst(sigma, threshold - 2 * sigma, moves) > 1e-3


def test_the_noise_that_hides_fewer_keys_is_taken():
    facts = {"person": "who", "neighbors": "add-remove"}
    kinds = {
        keys: type(
            PrivateKeys(schema(rows_per_person=keys, **facts), "k", epsilon=1, delta=1e-6).noise
        )
        for keys in (1, 2, 32)
    }
    assert kinds[1] is KeyNoise
    assert kinds[32] is GaussianKeyNoise
    many = schema(rows_per_person=10**9, **facts)
    assert PrivateKeys(many, "k", epsilon=1, delta=1e-6).half_widths(0.95)[0] < 2e6
    with pytest.raises(ParameterError, match="gaussian"):
        PrivateKeys(many, "k", epsilon=1, delta=1e-6, noise="bounded")


# --- draws ----------------------------------------------------------------------------------------


def test_keys_appear_as_often_as_is_said(seed):
    """Of 20,000 draws of every count; 5 standard errors, and a threshold one lower is 20 off."""
    mechanism, times = PrivateKeys(schema(), "k", epsilon=1, delta=1e-3), 20_000
    rng = source(seed)
    for count in (1, 4, 6, 7, 8, 10, 40):
        names = {f"{i:05}": count for i in range(times)}
        drawn = mechanism.drawn(names, rng)
        chance = mechanism.chance(count)
        spread = 5 * math.sqrt(chance * (1 - chance) / times) + 1e-9
        assert abs(len(drawn.names) / times - chance) <= spread
        assert all(abs(value - count) <= 8 for value in drawn.value)
    off = mechanism.chance(7) - mechanism.chance(6)
    assert off > 20 * math.sqrt(0.25 / times)


class Scripted(RandomSource):
    """Words that were written before."""

    seeded = True

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> Any:
        return np.array(self._words[:count], dtype=np.uint64)


def test_a_draw_beside_an_entry_of_the_table_looks_at_all_bits():
    noise = KeyNoise.of(Fraction(1), Fraction(1, 100))
    many = noise.bits // 64
    for j in range(1, noise.steps):
        for off in (-1, 0, 1):
            whole = noise.table[j] + off
            words = [whole >> (64 * (many - 1 - i)) & ((1 << 64) - 1) for i in range(many)]
            wanted = j + (off >= 0)  # the number of entries, from 0 on, that are not above it
            assert noise.sample(1, Scripted(words)).tolist() == [noise.threshold + 1 - wanted]


def test_gaussian_keys_appear_as_often_as_is_said(seed):
    """Of 4,000 draws of every count, 5 standard errors; and intervals hold for all at once."""
    facts, times = schema(person="who", rows_per_person=8, rows=1000), 4000
    mechanism, rng = PrivateKeys(facts, "k", epsilon=1, delta=1e-3, noise="gaussian"), source(seed)
    half = mechanism.half_widths(0.95)[0]
    for count in (1, 20, 25, 30, 60):
        drawn = mechanism.drawn({f"{i:05}": count for i in range(times)}, rng)
        chance = mechanism.chance(count)
        assert abs(len(drawn.names) / times - chance) <= 5 * math.sqrt(chance / times) + 2 / times
        assert np.sum(np.abs(drawn.value - count) > half) <= 0.001 * times
    release = mechanism.release(
        {"who": np.repeat(np.arange(80), 4), "k": ["a", "b", "c", "d"] * 80}
    )
    assert release.names == ("k=a", "k=b", "k=c", "k=d")
    assert release.ends is None


def test_intervals_hold_for_certain(seed):
    rng = np.random.default_rng(seed)
    mechanism = PrivateKeys(schema(), "k", epsilon=0.3, delta=1e-3)
    for _ in range(50):
        keys = rng.zipf(1.3, 1000) % 50
        release = mechanism.release({"k": keys})
        for name, (low, high) in zip(release.names, release.interval, strict=True):
            assert low <= np.sum(keys == int(name.removeprefix("k="))) <= high


# --- what is counted ------------------------------------------------------------------------------


def test_the_order_of_rows_tells_nothing(seed):
    keys = ["b", "a", "ä", "c", "a", "7", 7, 7.0, None, "a\n", "  ", "x" * 300] * 40
    mechanism = PrivateKeys(schema(rows=480), "k", epsilon=5, delta=1e-3)
    first = mechanism.release({"k": keys}, rng=seed)
    again = mechanism.release({"k": keys[::-1]}, rng=seed)
    assert first.names == again.names == ("k=7", "k=a", "k=b", "k=c", "k=ä")
    assert first.integers == again.integers
    assert first["k=7"] == pytest.approx(120, abs=5)


def test_a_person_counts_once_for_a_key_and_for_few_keys(seed):
    facts = schema(person="who", rows_per_person=2)
    keys = PrivateKeys(facts, "k", epsilon=1, delta=1e-3).keys
    one = {"who": [1] * 100, "k": ["a"] * 99 + ["b"]}
    assert keys.counts(one) == {"a": 1, "b": 1}
    many = {"who": [1] * 6 + [2, 2, None], "k": [*"abcdef", "a", None, "z"]}
    found = keys.counts(many)
    assert sum(found.values()) == 3
    kept = set(keys.counts({"who": [1] * 6, "k": [*"abcdef"]}))
    assert set(found) == kept | {"a"}  # what is kept of a person depends on nobody else
    order = np.random.default_rng(seed).permutation(9)
    mixed = {name: [column[i] for i in order] for name, column in many.items()}
    assert keys.counts(mixed) == found


def test_only_the_largest_are_kept():
    table = {"k": ["a"] * 500 + ["b"] * 300 + ["c"] * 200}
    given = {"by": "k", "keys": "private", "schema": schema(), "epsilon": 1, "delta": 1e-6}
    assert tdp.count(table, **given).names == ("k=a", "k=b", "k=c")
    assert tdp.count(table, most=2, **given).names == ("k=a", "k=b")


def test_a_release_without_any_key_is_a_release():
    release = PrivateKeys(schema(), "k", epsilon=1, delta=1e-6).release({"k": ["a", "b"]})
    assert release.names == ()
    again = tdp.Release.from_json(release.to_json())
    assert str(again) == str(release)
    assert len(release.to_pandas()) == len(release.to_polars()) == 0


def test_reports_of_no_keys_and_of_keys_that_look_like_pages(tmp_path):
    """Whether a report can be written must not depend on the rows; and keys are texts, not code."""
    for number, keys in enumerate((["a", "b"], ["<script>x</script>"] * 60 + ["a|b"] * 60)):
        folder = tmp_path / str(number)
        folder.mkdir()
        planned(folder, ["pay,shop", *(f"1,{key}" for key in keys)])
        plan = tdp.Plan.read(folder / "plan.toml")
        report = tdp.Report.of_plan(plan, plan.release())
        for ending in ("html", "md", "json"):
            report.save(folder / f"r.{ending}")
        assert "<script>x" not in (folder / "r.html").read_text()


def test_ten_thousand_keys_make_no_large_matrix():
    counts = {f"{i:06}": 50 for i in range(10_000)}
    mechanism = PrivateKeys(schema(), "k", epsilon=1, delta=1e-6)
    draft = mechanism.drawn(counts, source(1))
    assert draft.covariance().shape == (10_000,)
    release = mechanism.release({"k": np.repeat(np.arange(100), 60)}, rng=1)
    assert release.noise_std.shape == (100,)
    assert np.array_equal(tdp.Release.from_json(release.to_json()).noise_std, release.noise_std)


def test_a_preview_says_which_keys_appear():
    preview = PrivateKeys(schema(), "k", epsilon=1, delta=1e-6).preview()
    assert preview.chances[0] == (1, 1e-6)
    assert preview.chances[-1] == (28, 1.0)
    assert "appears with probability" in str(preview)
    assert preview.to_dict()["chances"][0] == [1, 1e-6]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"by": "k", "delta": 0}, "above 0"),
        ({"by": ["k", "k"]}, "distinct"),
        ({"by": ["k", ("x", 3)]}, "without bins"),
        ({"by": []}, "columns of the keys"),
        ({}, "columns of the keys"),
        ({"by": "k", "columns": ["x"]}, "left out"),
        ({"by": "k", "noise": "laplace"}, "noise"),
        ({"by": "k", "keys": "secret"}, "keys"),
        ({"by": "k", "most": 0}, "most"),
        ({"by": "", "most": 3}, "name of a column"),
    ],
)
def test_bad_requests_are_refused(given, text):
    ledger = tdp.Ledger(1, delta=1e-3, neighbors="add-remove")
    facts = {"schema": schema(), "epsilon": 1, "delta": 1e-6, "keys": "private", "ledger": ledger}
    with pytest.raises(ParameterError, match=text):
        tdp.count({"k": ["a"]}, **{**facts, **given})
    assert ledger.spent.epsilon == 0


def test_facts_that_allow_no_key_are_refused():
    with pytest.raises(InfeasibleSamplingError, match="epsilon"):
        PrivateKeys(schema(), "k", epsilon=1e-9, delta=1e-9)
    with pytest.raises(ParameterError, match="persons"):
        PrivateKeys(schema(person="k"), "k", epsilon=1, delta=1e-9)
    with pytest.raises(ParameterError, match="no column 'k'"):
        tdp.count({"x": [1]}, by="k", keys="private", schema=schema(), epsilon=1, delta=1e-6)
    with pytest.raises(ParameterError, match="most"):
        tdp.count({"x": [1]}, most=3, schema=schema(), epsilon=1)


def planned(folder, lines: list[str]) -> None:
    """A table of shops and a plan that counts them."""
    (folder / "a.csv").write_text("\n".join(lines))
    (folder / "plan.toml").write_text(
        """
        data.file = "a.csv"
        budget = {epsilon = 1, delta = 1e-5, ledger = "a.ledger"}
        [schema]
        rows = 200
        neighbors = "add-remove"
        columns.pay = {low = 0, high = 9}
        [[releases]]
        name = "shops"
        kind = "count"
        by = "shop"
        keys = "private"
        epsilon = 1
        delta = 1e-6
        """
    )


def test_a_plan_counts_keys(tmp_path):
    planned(tmp_path, ["pay,shop", *["1,Ulm"] * 60, *["2,Bonn"] * 40, "3,rare"])
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    assert "appears with probability" in str(plan.preview())
    assert plan.preview(sample=tmp_path / "a.csv").previews["shops"].chances
    found = plan.release()
    assert found.answers["shops"].names == ("shop=Bonn", "shop=Ulm")
    assert plan.release().answers["shops"].value.tolist() == found.answers["shops"].value.tolist()
