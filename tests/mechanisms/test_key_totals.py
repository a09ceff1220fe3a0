"""Sums and means for keys that nobody listed, and keys of several columns."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.key_totals import KeyMeans, KeySums, KeyTotals
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.randomness import source


def schema(neighbors: str = "add-remove", rows: int = 1000, **facts: Any) -> tdp.Schema:
    columns = {"x": tdp.Interval(0, 10), "y": tdp.Interval(-1, 3)}
    return tdp.Schema(columns, rows, neighbors=neighbors, **facts)


# --- privacy, exactly -----------------------------------------------------------------------------

STATES = [(c, s) for c in range(9) for s in (-c, 0, c) if c or not s]  # counts, and scaled sums


def outcomes(totals: KeyTotals, state: tuple[int, int], rate: float) -> dict[Any, float]:
    """What one key can tell: nothing, or a noisy count and a noisy sum on whole numbers."""
    count, total = state
    if not count:
        return {None: 1.0}
    noise, found = totals.counted.noise, {None: 0.0}
    reach = np.arange(-60, 61)
    law = np.exp(-rate * np.abs(reach))
    law /= law.sum()
    for z, p in zip(range(noise.least, noise.threshold + 1), noise.probabilities(), strict=True):
        if count + z <= noise.threshold:
            found[None] += p
        else:
            found |= {(count + z, total + int(e)): p * q for e, q in zip(reach, law, strict=True)}
    return found


def lost(first: list[dict[Any, float]], second: list[dict[Any, float]], epsilon: float) -> float:
    total = 0.0
    for seen in itertools.product(*first):
        p = math.prod(a[y] for a, y in zip(first, seen, strict=True))
        q = math.prod(b.get(y, 0.0) for b, y in zip(second, seen, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def worst(totals: KeyTotals, rate: float, replace: bool) -> float:
    """The largest delta over neighbours: one key gains a row, or a row of a key is replaced."""
    laws = {state: outcomes(totals, state, rate) for state in STATES}
    found = 0.0
    for (c, s), (d, t) in itertools.permutations(STATES, 2):
        one = abs(c - d) == 1 and abs(s - t) <= 1
        other = replace and c == d and abs(s - t) <= 2
        if one or other:
            found = max(found, lost([laws[c, s]], [laws[d, t]], 2.0))
    return found


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_keys_counts_and_sums_together_are_within_epsilon_and_delta(neighbors):
    """With the rate of the noise in units of what one row moves; and far higher ones are caught."""
    given = {"epsilon": 2, "delta": 0.02, "noise": "bounded"}
    totals = KeyTotals(schema(neighbors), ["x"], "k", **given)
    rate = float((1 - totals.count_share) * totals.epsilon / totals.counted.changes)
    assert float(totals.sums.epsilon) == pytest.approx(rate)
    assert float(totals.counted.epsilon) == pytest.approx(float(2 * totals.count_share))
    replace = neighbors == "replace-one"
    assert worst(totals, rate, replace) <= 0.02 * (1 + 1e-9)
    assert worst(totals, (6 if replace else 3) * rate, replace) > 0.021


def test_two_keys_of_a_replaced_row_share_epsilon():
    """A row that leaves one key for another: both keys together."""
    given = {"epsilon": 2, "delta": 0.05, "noise": "bounded", "count_share": 0.5}
    totals = KeyTotals(schema("replace-one"), ["x"], "k", **given)
    reach = np.arange(-12, 13)
    pairs = [((3, 3), (2, 2)), ((0, 0), (1, 1)), ((5, -5), (4, -4))]

    def thin(state: tuple[int, int], rate: float) -> dict[Any, float]:
        whole = outcomes(totals, state, rate)
        return {k: p for k, p in whole.items() if k is None or abs(k[1] - state[1]) <= reach[-1]}

    def found(rate: float) -> float:
        deltas = []
        for (a, b), (c, d) in itertools.product(pairs, repeat=2):
            before, after = [thin(a, rate), thin(d, rate)], [thin(b, rate), thin(c, rate)]
            deltas.append(lost(before, after, 2.0))
        return max(deltas)

    rate = float(totals.sums.epsilon)
    assert found(rate) <= 0.05
    assert found(6 * rate) > 0.06


# --- draws ----------------------------------------------------------------------------------------


def zipf(rng: np.random.Generator, rows: int = 600) -> dict[str, Any]:
    keys = rng.zipf(1.5, rows) % 40
    x = np.clip(rng.normal(keys % 7, 1.5), 0, 10)
    return {"k": keys, "x": x, "y": np.where(rng.random(rows) < 0.1, 3.0, -1.0)}


@pytest.mark.parametrize("kind", [KeySums, KeyMeans])
@pytest.mark.parametrize("noise", ["bounded", "gaussian"])
def test_intervals_hold_for_all_keys_at_once(kind, noise, seed):
    """Of 120 tables with skewed numbers and keys that few have: 95 % less three errors."""
    rng, held, told = np.random.default_rng(seed), 0, 0
    made = kind(schema(), ["x", "y"], "k", epsilon=2, delta=1e-3, noise=noise)
    for _ in range(120):
        table = zipf(rng)
        release = made.release(table)
        right = True
        for name, (low, high) in zip(release.names, release.interval, strict=True):
            measure, key = name.split(" | k=")
            mine = table["k"] == int(key)
            true = float(mine.sum())
            if measure != "rows":
                true = (
                    table[measure][mine].sum() if kind is KeySums else table[measure][mine].mean()
                )
            right &= bool(low <= true <= high)
            told += 1
        held += right
    assert held >= 120 * 0.95 - 3 * math.sqrt(120 * 0.05 * 0.95)
    assert told > 1000


def test_noise_of_sums_is_what_is_said(seed):
    """The spread of 4,000 keys, within 5 standard errors."""
    totals, rng = KeyTotals(schema(), ["x", "y"], "k", epsilon=1, delta=1e-3), source(seed)
    names = {f"{i:05}": (500, 1000, -500) for i in range(4000)}
    draft = totals.drawn(names, rng)
    noisy = draft.value.reshape(4000, 3)
    off = noisy - [500, 1000 / 65536, -500 / 65536]
    said = draft.covariance()[:3]
    assert np.mean(off**2, axis=0) == pytest.approx(said, rel=5 * math.sqrt(5 / 4000))
    assert np.abs(off).max(axis=0) == pytest.approx(draft.half_width()[:3], rel=0.8)


def test_the_split_is_the_one_with_the_least_error():
    facts = schema()
    errors = {}
    for k in range(1, 8):
        totals = KeyTotals(facts, ["x"], "k", epsilon=1, delta=1e-6, count_share=k / 8)
        errors[k] = totals._variances(1).sum()
    usual = KeyTotals(facts, ["x"], "k", epsilon=1, delta=1e-6)
    assert usual.count_share * 8 == min(errors, key=errors.__getitem__)


# --- what is read ---------------------------------------------------------------------------------


def test_a_person_counts_once_for_a_key_with_one_row(seed):
    facts = schema(person="who", rows_per_person=2)
    totals = KeyTotals(facts, ["x"], "k", epsilon=1, delta=1e-3)
    table = {"who": [1] * 5 + [2, None], "k": [*"aabbc", "a", "a"], "x": [0, 10, 0, 10, 5, 10, 10]}
    found = totals.keys.totals(table)
    assert sum(count for count, _ in found.values()) == 3
    alone = totals.keys.totals({name: cells[:5] for name, cells in table.items()})
    assert set(alone) == set(PrivateKeys(facts, "k", epsilon=1, delta=1e-3).keys.counts(table)) - (
        set("a") - set(alone)
    )
    assert all(count == 1 and abs(total) <= 65536 for count, total in alone.values())
    order = np.random.default_rng(seed).permutation(7)
    mixed = {name: [cells[i] for i in order] for name, cells in table.items()}
    assert totals.keys.totals(mixed) == found


def test_keys_of_several_columns_are_told_apart():
    """Texts with commas and quotes make no two keys look alike, and no cell moves to another."""
    odd = [("x, b=y", "z"), ("x", "y, b=z"), ('"x', "y"), ("x", '"y'), ("a", "b"), ("ab", "")]
    table = {"a": [a for a, _ in odd] * 50, "b": [b for _, b in odd] * 50, "x": [1.0] * 300}
    given = {"by": ["a", "b"], "keys": "private", "schema": schema(), "epsilon": 8, "delta": 1e-3}
    for release in (tdp.count(table, **given), tdp.mean(table, "x", **given)):
        names = release.names if len(release.axes) == 1 else release.names[::2]
        assert len(set(names)) == 5  # an empty cell is no key
        assert len(release.to_pandas()) == len(release.names)
        assert tdp.Release.from_json(release.to_json()).names == release.names


def test_rows_without_one_of_the_cells_are_left_out():
    keys = PrivateKeys(schema(), ["a", "b"], epsilon=1, delta=1e-3).keys
    table = {"a": ["u", None, "u", "u"], "b": [1, 1, 1.0, float("nan")]}
    assert {keys.parts(key): count for key, count in keys.counts(table).items()} == {("u", "1"): 2}


def test_sums_and_means_are_one_payment():
    ledger = tdp.Ledger(1, delta=1e-3, neighbors="add-remove")
    table = {"k": ["a"] * 300 + ["b"] * 200, "x": [2.0] * 300 + [7.0] * 200}
    given = {"by": "k", "keys": "private", "schema": schema(), "epsilon": 1, "delta": 1e-3}
    sums = tdp.sum(table, "x", ledger=ledger, key="shops", **given)
    means = tdp.mean(table, "x", ledger=ledger, key="shops", **given)
    assert ledger.spent.epsilon == 1
    assert sums.integers == means.integers
    assert means["x | k=a"] == pytest.approx(2, abs=1)
    assert sums["x | k=a"] == pytest.approx(600, abs=300)


def test_a_release_of_nothing_is_a_release():
    means = KeyMeans(schema(), "x", "k", epsilon=1, delta=1e-6)
    release = means.release({"k": ["a", "b"], "x": [1, 2]})
    assert release.names == ()
    assert means.answer(release, 0.9).names == ()
    assert tdp.Release.from_json(release.to_json()).names == ()


def test_many_keys_make_no_large_matrix():
    means = KeyMeans(schema(), "x", "k", epsilon=4, delta=1e-3)
    release = means.release({"k": np.repeat(np.arange(900), 60), "x": np.ones(54_000)})
    assert release.covariance.shape == (1800,)
    assert not np.isnan(release.interval).any()


def test_only_the_largest_and_other_levels():
    table = {"k": ["a"] * 500 + ["b"] * 300 + ["c"] * 200, "x": [2.0] * 1000}
    means = KeyMeans(schema(), "x", "k", epsilon=2, delta=1e-6, most=2)
    release = means.release(table)
    assert release.names[::2] == ("rows | k=a", "rows | k=b")
    wide, narrow = (means.answer(release, level).interval[1] for level in (0.99, 0.5))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_preview_says_which_keys_appear():
    preview = KeyMeans(schema(), "x", "k", epsilon=1, delta=1e-6).preview()
    assert preview.chances[0] == (1, 1e-6)
    assert len(preview.std) == 2
    assert "appears with probability" in str(preview)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"by": "k", "delta": 0}, "above 0"),
        ({"by": "k", "columns": ["k"]}, "columns"),
        ({"by": "k", "columns": ["z"]}, "columns"),
        ({"by": "k", "columns": []}, "columns"),
        ({}, "columns of the keys"),
        ({"by": ["k", "k"]}, "distinct"),
        ({"by": "nobody"}, "no column"),
        ({"by": "k", "noise": "laplace"}, "noise"),
        ({"by": "k", "most": 0}, "most"),
        ({"by": "k", "count_share": 1}, "count_share"),
        ({"by": "k", "count_share": float("nan")}, "count_share"),
        ({"by": "x", "keys": "public", "count_share": 0.5}, "count_share"),
    ],
)
def test_bad_requests_are_refused(given, text):
    ledger = tdp.Ledger(1, delta=1e-3, neighbors="add-remove")
    facts = {"schema": schema(), "epsilon": 1, "delta": 1e-6, "keys": "private", "ledger": ledger}
    with pytest.raises(ParameterError, match=text):
        tdp.mean({"k": ["a"], "x": [1.0], "y": [0.0]}, **{**facts, **given})
    assert ledger.spent.epsilon == 0


def test_a_plan_has_means_of_keys(tmp_path):
    lines = ["pay,shop,day", *["1,Ulm,3"] * 60, *["2,Bonn,4"] * 40, "3,rare,1"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "plan.toml").write_text(
        """
        data.file = "a.csv"
        budget = {epsilon = 2, delta = 1e-5, ledger = "a.ledger"}
        [schema]
        rows = 200
        neighbors = "add-remove"
        columns.pay = {low = 0, high = 9}
        [[releases]]
        name = "shops"
        kind = "mean"
        columns = ["pay"]
        by = ["shop", "day"]
        keys = "private"
        epsilon = 2
        delta = 1e-6
        """
    )
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    assert "appears with probability" in str(plan.preview())
    found = plan.release()
    assert found.answers["shops"].names[1::2] == (
        "pay | shop=Bonn, day=4",
        "pay | shop=Ulm, day=3",
    )
    report = tdp.Report.of_plan(plan, found)
    for ending in ("html", "md", "json"):
        report.save(tmp_path / f"r.{ending}")
    assert plan.release().answers["shops"].value.tolist() == found.answers["shops"].value.tolist()


def test_the_number_of_rows_has_a_name_of_its_own():
    numbers = {"rows": tdp.Interval(0, 1), "number of rows": tdp.Interval(0, 1)}
    facts = tdp.Schema(numbers, 100, neighbors="add-remove")
    totals = KeyTotals(facts, [*numbers], "city", epsilon=1, delta=1e-6)
    assert len({*totals.measures}) == 3
