"""The additive mechanism: what is released, what it costs, what it promises."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.statistics import Counts, Histogram, Moments, Products, Sums
from tightdp.errors import BudgetError, InfeasibleSamplingError, ParameterError
from tightdp.ledger import Ledger
from tightdp.mechanisms import one_line
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.privacy import Numerics
from tightdp.release import Release

FACTS = {
    "x": tdp.Interval(0, 10),
    "y": tdp.Interval(-1, 1),
    "k": tdp.Category(["a", "b", "c"]),
}
RELEASES = 4_000


def schema(**options: Any) -> tdp.Schema:
    return tdp.Schema(FACTS, rows=200, **options)


def table(seed: int, rows: int = 200) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(0, 10, rows),
        "y": rng.uniform(-1, 1, rows),
        "k": rng.choice(np.array(["a", "b", "c"]), rows),
    }


MECHANISMS = {
    "sums": lambda: AdditiveMechanism(Sums(schema(), ["x", "y"]), epsilon=1.0),
    "counts": lambda: AdditiveMechanism(Counts(schema(), ["k"]), epsilon=0.5),
    "added counts": lambda: AdditiveMechanism(
        Counts(schema(neighbors="add-remove"), ["k"]), epsilon=0.5
    ),
    "mixed": lambda: AdditiveMechanism(Products(schema()), epsilon=1.0),
    "histogram": lambda: AdditiveMechanism(Histogram(schema(), "x", 4), epsilon=1.0),
    "moments": lambda: AdditiveMechanism(Moments(schema(), ["x"], "y"), epsilon=2.0),
    "linf": lambda: AdditiveMechanism(Products(schema()), noise="linf", epsilon=1.0),
    "l1": lambda: AdditiveMechanism(Products(schema()), noise="l1", epsilon=1.0),
    "l2": lambda: AdditiveMechanism(Sums(schema(), ["x", "y"]), noise="l2", epsilon=1.0),
    "own ball": lambda: AdditiveMechanism(
        Sums(schema(), ["x", "y"]), noise=tdp.LpBall(2, np.inf, [2.0, 3.0]), epsilon=1.0
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_releases_have_the_predicted_error(name: str, seed: int) -> None:
    """Noise around the exact statistic: mean 0, the previewed variance, the stated coverage."""
    mechanism = MECHANISMS[name]()
    frame = table(seed)
    exact = mechanism.statistic.measure(frame, bits=mechanism.bits)
    centre = mechanism.statistic.recover(np.array(exact) / mechanism.resolution)
    preview = mechanism.preview(confidence=0.9)
    noise = mechanism.noise.sample(RELEASES, rng=seed) / mechanism.resolution
    errors = np.array([mechanism.statistic.recover(row) for row in noise])
    errors -= mechanism.statistic.recover(np.zeros(len(centre)))
    scale = preview.std
    assert (np.abs(errors.mean(axis=0)) <= 5 * scale / np.sqrt(RELEASES)).all()
    squares = errors**2
    slack = 5 * squares.std(axis=0) / np.sqrt(RELEASES)
    assert (np.abs(squares.mean(axis=0) - scale**2) <= slack + 0.01 * scale**2).all()
    covered = (np.abs(errors) <= preview.half_width + 1e-9).all(axis=1).mean()
    assert covered >= 0.9 - 5 * 0.3 / np.sqrt(RELEASES)
    one = mechanism.release(frame, rng=seed)
    assert one.guarantee.numerics is Numerics.EXACT
    assert one.guarantee.seeded
    assert (np.abs(one.value - centre) <= 60 * scale + 1e-9).all()
    np.testing.assert_allclose(one.noise_std, preview.std)


def test_release_is_statistic_plus_noise_in_integers(seed: int) -> None:
    mechanism = MECHANISMS["mixed"]()
    frame = table(seed)
    release = mechanism.release(frame, rng=seed)
    exact = mechanism.statistic.measure(frame, bits=mechanism.bits)
    noise = mechanism.noise.sample(rng=seed)
    assert release.integers == tuple(int(t) + int(z) for t, z in zip(exact, noise, strict=True))
    again = mechanism.release(frame)
    assert not again.guarantee.seeded
    assert again.integers != release.integers


def test_public_totals_are_kept(seed: int) -> None:
    release = MECHANISMS["counts"]().release(table(seed))
    assert sum(release.integers) == 200


def test_unknown_and_missing_cells_follow_the_schema(seed: int) -> None:
    frame = table(seed)
    frame["x"][:3] = [np.nan, np.inf, -np.inf]
    frame["k"] = np.array([None, "zzz", *frame["k"][2:]], dtype=object)
    mechanism = AdditiveMechanism(Products(schema()), epsilon=1.0)
    clean = table(seed)
    clean["x"][:3] = [5.0, 10.0, 0.0]
    clean["k"][:2] = "a"
    assert mechanism.statistic.measure(frame) == mechanism.statistic.measure(clean)


def test_round_trip_and_tables(seed: int) -> None:
    release = MECHANISMS["mixed"]().release(table(seed), rng=seed)
    again = Release.from_json(release.to_json())
    assert again.integers == release.integers
    assert again.guarantee == release.guarantee
    np.testing.assert_array_equal(again.value, release.value)
    np.testing.assert_array_equal(again.interval, release.interval)
    assert str(again) == str(release)
    assert "not private" in str(release)
    assert release._repr_html_().count("<tr>") == 6
    assert release["x"] == release.value[0]
    with pytest.raises(ParameterError, match="Did you mean"):
        release["k[aa]"]
    with pytest.raises(ParameterError, match="format"):
        Release.from_dict({})


def test_ledger_pays_first_and_remembers_keys(seed: int) -> None:
    ledger = Ledger(epsilon=2.0)
    mechanism = AdditiveMechanism(Counts(schema(), ["k"]), epsilon=1.0)
    first = mechanism.release(table(seed), ledger=ledger, key="counts")
    again = mechanism.release(table(seed), ledger=ledger, key="counts")
    assert again.integers == first.integers
    assert ledger.spent.epsilon == 1
    assert first.receipt
    with pytest.raises(ParameterError, match="'k'"):
        mechanism.release({"x": np.zeros(3)}, ledger=ledger)  # paid, then failed: burned
    assert ledger.spent.epsilon == 2
    with pytest.raises(BudgetError, match="Remaining"):
        mechanism.release(table(seed), ledger=ledger)
    with pytest.raises(ParameterError, match="seed"):
        mechanism.release(table(seed), ledger=Ledger(epsilon=2.0), rng=seed)


def test_a_third_is_never_undercharged() -> None:
    mechanism = AdditiveMechanism(Counts(schema(), ["k"]), epsilon=Fraction(1, 3))
    assert Fraction(mechanism.guarantee().epsilon) >= Fraction(1, 3)


def test_preview_needs_no_data_and_prints() -> None:
    text = str(MECHANISMS["mixed"]().preview())
    assert "noise std" in text
    assert "not included" in text
    assert "k[a]" in text


def test_several_rows_per_person_scale_the_noise() -> None:
    one = AdditiveMechanism(Counts(schema(neighbors="add-remove"), ["k"]), epsilon=1.0)
    facts = schema(neighbors="add-remove", person="id", rows_per_person=3)
    three = AdditiveMechanism(Counts(facts, ["k"]), epsilon=1.0)
    assert three.noise.sensitivity == 3 * one.noise.sensitivity
    np.testing.assert_allclose(three.preview().std, 3 * one.preview().std, rtol=1e-9)


def test_persons_with_several_rows_need_add_remove() -> None:
    """Replacing a person can change how many rows are used: totals would not be public."""
    with pytest.raises(ParameterError, match="add-remove"):
        schema(person="id", rows_per_person=3)
    with pytest.raises(ParameterError, match="protects nobody"):
        schema(neighbors="add-remove", rows_per_person=3)


def test_best_takes_the_least_variance_that_can_be_drawn() -> None:
    best = AdditiveMechanism(Counts(schema(), ["k"]), noise="best", epsilon=1.0)
    assert isinstance(best.ball, tdp.HistogramBall)
    wide = tdp.Schema({f"x{i}": tdp.Interval(-1, 1) for i in range(11)}, rows=10)
    moments = Moments(wide, [f"x{i}" for i in range(10)], "x10")
    chosen = AdditiveMechanism(moments, noise="best", epsilon=1.0)
    assert chosen.noise.body.share > 0
    with pytest.raises(InfeasibleSamplingError):
        AdditiveMechanism(moments, noise="hull", epsilon=1.0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: AdditiveMechanism("sums", epsilon=1.0), "statistic"),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), epsilon=0), "epsilon"),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), epsilon="1"), "epsilon"),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise="hul", epsilon=1), "Did you mean"),
        (
            lambda: AdditiveMechanism(
                Sums(schema(), ["x"]), noise=tdp.LpBall(1, 1, 1.9), epsilon=1.0
            ),
            "contain the sensitivity space",
        ),
        (lambda: MECHANISMS["sums"]().release(table(1), key="k"), "ledger"),
        (lambda: MECHANISMS["sums"]().release(table(1), confidence=1.0), "confidence"),
        (lambda: MECHANISMS["sums"]().preview(confidence=0), "confidence"),
        (lambda: MECHANISMS["sums"]().release({"x": np.zeros(3)}), "'y'"),
    ],
)
def test_bad_input(call, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=text):
        call()


# --- one line ------------------------------------------------------------------------------------


def test_one_line_helpers(seed: int) -> None:
    frame, facts = table(seed), schema()
    options: dict[str, Any] = {"schema": facts, "epsilon": 500.0}
    assert one_line.sum(frame, ["x"], **options)["x"] == pytest.approx(frame["x"].sum(), abs=1)
    assert one_line.mean(frame, ["x"], **options)["x"] == pytest.approx(frame["x"].mean(), abs=0.01)
    variance = one_line.variance(frame, ["x", "y"], **options)
    assert variance["x"] == pytest.approx(frame["x"].var(), abs=0.02)
    assert variance["y"] == pytest.approx(frame["y"].var(), abs=0.02)
    assert one_line.count(frame, ["k"], **options)["k[b]"] == np.sum(frame["k"] == "b")
    cells = one_line.histogram(frame, "x", bins=5, **options)
    np.testing.assert_array_equal(cells.value, np.histogram(frame["x"], 5, (0, 10))[0])
    added = {"schema": schema(neighbors="add-remove"), "epsilon": 500.0}
    assert one_line.mean(frame, ["x"], **added)["x"] == pytest.approx(frame["x"].mean(), abs=0.05)
    with pytest.raises(ParameterError, match="replace-one"):
        one_line.variance(frame, ["x"], **added)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_means_and_variances_cover(neighbors: str, seed: int) -> None:
    """Simultaneous intervals of nonlinear statistics hold at least as often as they say."""
    frame, facts = table(seed), schema(neighbors=neighbors)
    hits = []
    for i in range(300):
        release = one_line.mean(
            frame, ["x", "y"], schema=facts, epsilon=0.5, rng=seed + i, confidence=0.8
        )
        truth = np.array([frame["x"].mean(), frame["y"].mean()])
        hits.append((np.abs(release.value - truth) <= release.half_width + 1e-4).all())
        if neighbors == "replace-one":
            spread = one_line.variance(
                frame, ["x"], schema=facts, epsilon=0.5, rng=seed + i, confidence=0.8
            )
            hits.append(abs(spread["x"] - frame["x"].var()) <= spread.half_width[0] + 1e-3)
    assert np.mean(hits) >= 0.8 - 5 * 0.4 / np.sqrt(len(hits))
