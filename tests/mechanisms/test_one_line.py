"""Sums in one line: in the units of the columns, also where the number of rows is private."""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp import functions
from tightdp.data.column_moments import SumsAndRows
from tightdp.errors import ParameterError
from tightdp.functions import function_of
from tightdp.plans import request
from tightdp.randomness import source
from tightdp.registry import KINDS

FACTS = {"x": tdp.Interval(0, 10), "y": tdp.Interval(-8, -6)}


@pytest.mark.slow_for(
    "replace-one-l2", "replace-one-laplace", "add-remove-laplace", "add-remove-best"
)
@pytest.mark.parametrize("noise", ["best", "laplace", "l2"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_sums_are_in_the_units_of_their_columns(neighbors: str, noise: str, seed: int) -> None:
    facts = tdp.Schema(FACTS, rows=500, neighbors=neighbors)
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(c.low, c.high, 500) for name, c in facts.columns.items()}
    exact = np.array([table[name].sum() for name in facts])
    options: dict[str, Any] = {"schema": facts, "epsilon": 1, "noise": noise, "confidence": 0.9}
    bits, draws = source(seed), 400
    found = [tdp.sum(table, ["x", "y"], **options, rng=bits) for _ in range(draws)]
    errors = np.array([release.value for release in found]) - exact
    assert found[0].names == ("x", "y")
    stated = found[0].noise_std
    # a mean of draws is normal; squares of K-norm noise have kurtosis below 12
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 5 * stated / np.sqrt(draws))
    ratio = (errors**2).mean(axis=0) / stated**2
    np.testing.assert_array_less(np.abs(ratio - 1), 5 * np.sqrt(11 / draws))
    covered = (np.abs(errors) <= found[0].half_width).all(axis=1).mean()
    assert covered >= 0.9 - 5 * np.sqrt(0.09 / draws)
    asked = request("sum", facts, epsilon=1, noise=noise).preview(0.9)
    assert asked.names == ("x", "y")
    np.testing.assert_allclose(asked.std, stated, rtol=1e-9)
    np.testing.assert_allclose(asked.half_width, found[0].half_width, rtol=1e-9)


def test_a_sum_that_stays_scaled_is_caught(seed: int) -> None:
    """What was released before: far outside its own interval."""
    facts = tdp.Schema(FACTS, rows=500, neighbors="add-remove")
    table = {"x": np.full(500, 9.0), "y": np.full(500, -7.0)}
    scaled = tdp.AdditiveMechanism(tdp.Sums(facts), epsilon=1).release(table, rng=seed)
    sums = tdp.sum(table, ["x", "y"], schema=facts, epsilon=1, rng=seed)
    assert not (np.abs(scaled.value - [4500, -3500]) <= scaled.half_width).all()
    assert (np.abs(sums.value - [4500, -3500]) <= 5 * sums.half_width).all()


# --- the law of the combination -------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["best", "laplace"])
def test_sums_and_means_are_not_wider_than_their_noise(noise: str, seed: int) -> None:
    """Half-widths of sum and rows were added up: 1.2 to 1.9 times too wide under add-remove."""
    facts = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=5000, neighbors="add-remove")
    table = {"x": np.random.default_rng(seed).uniform(0, 10, 5000)}
    options: dict[str, Any] = {"schema": facts, "epsilon": 1, "noise": noise, "rng": seed}
    draws = tdp.AdditiveMechanism(SumsAndRows(facts), noise=noise, epsilon=1).noise
    z = np.asarray(draws.sample(20_000, rng=seed), dtype=np.float64) / 2.0**facts.bits
    total = tdp.sum(table, ["x"], **options)
    # 5 z_x + 5 z_rows: the true quantile of its size, and an order statistic above it
    needed = np.quantile(np.abs(5 * z.sum(axis=1)), 0.95)
    assert needed <= total.half_width[0] <= 1.12 * needed
    mean = tdp.mean(table, ["x"], **options)
    middle = (mean.value[0] - 5) / 5
    needed = np.quantile(np.abs(5 * (z[:, 0] - middle * z[:, 1])), 0.95) / 5000
    assert 0.97 * needed <= mean.half_width[0] <= 1.15 * needed


def near_a_bound(name: str, seed: int) -> tdp.Release:
    """A mean, or a variance, so near to the end of its range that half of an interval is idle."""
    if name == "mean":
        facts = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=60, neighbors="add-remove")
        return tdp.mean({"x": np.full(60, 9.9)}, ["x"], schema=facts, epsilon=1, rng=seed)
    facts = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=60)
    return tdp.variance({"x": np.full(60, 5.0)}, ["x"], schema=facts, epsilon=1, rng=seed)


@pytest.mark.parametrize(("name", "low", "high"), [("mean", 0, 10), ("variance", 0, 25)])
def test_printed_intervals_are_the_ends_that_were_computed(
    name: str, low: float, high: float, seed: int
) -> None:
    """Both have ends of their own; the longer side on both sides went beyond what can be."""
    for draw in range(20):
        release = near_a_bound(name, seed + draw)
        ((left, right),) = release.interval
        (value,), (half,) = release.value, release.half_width
        assert low - 1e-9 <= left <= value <= right <= high + 1e-9
        assert half == pytest.approx(max(value - left, right - value))
        assert right - left < 2 * half
        np.testing.assert_array_equal(tdp.Release.from_json(release.to_json()).ends, release.ends)


def test_previews_of_means_say_for_how_many_rows() -> None:
    """The bound on the rows stood for their number: errors were up to 24 times too small."""
    facts = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=24_000, neighbors="add-remove")
    foreseen = request("mean", facts, epsilon=1).preview()
    assert "24,000 rows, as many as the schema allows" in foreseen.note
    assert "ten times as large" in str(foreseen)
    all_rows = {"x": np.full(24_000, 10.0)}  # a mean at a bound, which errs most
    found = tdp.mean(all_rows, ["x"], schema=facts, epsilon=1)
    assert foreseen.std[0] == pytest.approx(found.noise_std[0], rel=0.01)
    tenth = {"x": np.full(2400, 10.0)}
    found = tdp.mean(tenth, ["x"], schema=facts, epsilon=1)
    assert 10 * foreseen.std[0] == pytest.approx(found.noise_std[0], rel=0.05)


def test_two_entries_drawn_from_a_seed_have_noises_of_their_own(seed: int) -> None:
    """A seed was given to the law of every entry: all of them got the same noise."""
    facts = tdp.Schema(FACTS, rows=500)
    noise = tdp.AdditiveMechanism(tdp.Sums(facts), noise="laplace", epsilon=1).noise
    assert abs(np.corrcoef(noise.sample(2000, rng=seed).T)[0, 1]) < 0.15


# --- what is kept of earlier calls ----------------------------------------------------------------


def test_a_question_that_was_asked_before_is_not_made_again():
    made = []

    def build(*given: Any) -> Any:
        made.append(given)
        return KINDS["mean"].build(*given)

    mean = function_of(replace(KINDS["mean"], build=build))
    frame = {"x": [0.0, 1.0], "y": [1.0, 0.0]}
    columns = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    facts = tdp.Schema(columns, rows=2)
    asked = ["x"]
    for _ in range(3):
        assert mean(frame, asked, schema=facts, epsilon=1).names == ("x",)
    assert len(made) == 1
    asked.append("y")  # a list that was changed is another question
    assert mean(frame, asked, schema=facts, epsilon=1).names == ("x", "y")
    for epsilon in (1.0, Fraction(1), 2):  # other types may be other amounts
        mean(frame, asked, schema=facts, epsilon=epsilon)
    assert len(made) == 5
    turned = tdp.Schema(dict(reversed(columns.items())), rows=2)  # equal, in another order
    assert turned == facts
    assert mean(frame, schema=facts, epsilon=1).names == ("x", "y")
    assert mean(frame, schema=turned, epsilon=1).names == ("y", "x")
    with pytest.raises(ParameterError, match="epsilon"):
        mean(frame, asked, schema=facts, epsilon=True)


def test_few_mechanisms_are_kept_and_none_that_is_large():
    functions._mechanisms.clear()
    for rows in range(2, 100):
        tdp.mean({"x": [0.0] * rows}, "x", schema=schema_of(rows), epsilon=1)
    assert len(functions._mechanisms) == functions._REMEMBERED
    functions._mechanisms.clear()
    tdp.histogram({"x": [0.0] * 9}, "x", bins=65, schema=schema_of(9), epsilon=1)
    assert not functions._mechanisms


def schema_of(rows: int) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)


# --- arguments that a function does not have ------------------------------------------------------

ONE_LINE = sorted(functions.__all__)


@pytest.mark.parametrize("name", ONE_LINE)
def test_arguments_that_a_function_lacks_are_named_with_those_it_has(name: str) -> None:
    """Options of all kinds, and words nobody has: refused before the table is looked at."""
    function, kind, facts = getattr(tdp, name), KINDS[name], tdp.Schema(FACTS, rows=500)
    known = list(inspect.signature(function).parameters)
    every = {option for other in KINDS.values() for option in other.options}
    for option in sorted(every - set(kind.options)):
        with pytest.raises(ParameterError) as raised:
            function(None, schema=facts, epsilon=1, **{option: 1})
        words = str(raised.value)
        assert words.startswith(f"`{option}` is no argument of {name}(). It takes: frame, ")
        assert all(word in words for word in known)
        first = next(other for other in KINDS if option in KINDS[other].options)
        assert f"`{option}` belongs to {first}" in words
    for places, named, words in [
        ((None,), {"schema": facts, "epsilom": 1}, r"Did you mean `epsilon`\?"),
        ((None,), {"n\nn": 1}, rf"`n\\nn` is no argument of {name}\(\)"),
        ((), {}, rf"{name}\(\) needs `frame`.*Write {name}\(frame, "),
        (tuple(range(9)), {}, "by place, everything else by its name. Got 9"),
        ((1,), {"frame": 2, "schema": facts, "epsilon": 1}, "`frame` of .* must be given once"),
    ]:
        with pytest.raises(ParameterError, match=words):
            function(*places, **named)


def test_requests_name_the_kinds_that_have_an_option() -> None:
    with pytest.raises(ParameterError, match="`keys` belongs to sum, mean, count"):
        request("median", tdp.Schema(FACTS, rows=500), epsilon=1, column="x", keys="private")
