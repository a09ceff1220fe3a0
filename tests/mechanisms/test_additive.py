"""The additive mechanism: what is released, what it costs, what it promises."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tightdp as tdp
from tightdp import functions as one_line
from tightdp.data.histograms import Histogram
from tightdp.data.regression_moments import Moments
from tightdp.data.statistics import Counts, Products, Sums
from tightdp.errors import BudgetError, DataError, InfeasibleSamplingError, ParameterError
from tightdp.ledger import Ledger
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.privacy import Numerics
from tightdp.release import Release

# a large delta makes short laws
pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")

FACTS = {
    "x": tdp.Interval(0, 10),
    "y": tdp.Interval(-1, 1),
    "k": tdp.Category(["a", "b", "c"], other="a"),
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


STEPS = tdp.PiecewiseNoise(
    [10, 16, 26, 41, 65, 65, 41, 26, 16, 10],
    start=-5,
    cell_width=2.5,
    atom=5,
    epsilon=1.0,
    sensitivity=5.0,
)
DESIGN = tdp.design_noise(epsilon=1.0, delta=0.1, sensitivity=10.0)
FAILING = pa.table({"k": ["a", "b"]})


def fail_midway() -> Iterator[pa.RecordBatch]:
    yield from FAILING.to_batches()
    raise OSError("the disk is gone")


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
    "laplace": lambda: AdditiveMechanism(Products(schema()), noise="laplace", epsilon=1.0),
    "staircase": lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise="staircase", epsilon=3.0),
    "tulap": lambda: AdditiveMechanism(Counts(schema(), ["k"]), noise="tulap", epsilon=1.0),
    "cut tulap": lambda: AdditiveMechanism(
        Counts(schema(), ["k"]), noise="tulap", epsilon=1.0, delta=0.01
    ),
    "truncated": lambda: AdditiveMechanism(
        Sums(schema(), ["x", "y"]), noise="truncated-laplace", epsilon=1.0, delta=0.01
    ),
    "gaussian": lambda: AdditiveMechanism(
        Histogram(schema(), "x", 4), noise="gaussian", epsilon=1.0, delta=1e-6
    ),
    "designed": lambda: AdditiveMechanism(
        Sums(schema(), ["x", "y"]), noise="designed", epsilon=2.0, delta=0.1
    ),
    "designed counts": lambda: AdditiveMechanism(
        Counts(schema(), ["k"]), noise="designed", epsilon=2.0, delta=0.1
    ),
    "designed without delta": lambda: AdditiveMechanism(
        Sums(schema(), ["x"]), noise="designed", epsilon=2.0
    ),
    "design": lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise=DESIGN),
    "own law": lambda: AdditiveMechanism(Sums(schema(), ["x", "y"]), noise=STEPS),
    "own law, counts": lambda: AdditiveMechanism(Counts(schema(), ["k"]), noise=STEPS),
    "own ball": lambda: AdditiveMechanism(
        Sums(schema(), ["x", "y"]), noise=tdp.LpBall(2, np.inf, [2.0, 3.0]), epsilon=1.0
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_releases_have_the_predicted_error(name: str, seed: int) -> None:
    """Noise around the exact statistic: mean 0, the previewed variance, the stated coverage."""
    mechanism = MECHANISMS[name]()
    frame = table(seed)
    exact = mechanism.exact(frame)
    centre = mechanism.statistic.recover(np.array(exact) / mechanism.resolution)
    preview = mechanism.preview(confidence=0.9)
    noise = mechanism.noise.sample(RELEASES, rng=seed).astype(np.float64) / mechanism.resolution
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
    exact = mechanism.exact(frame)
    noise = mechanism.noise.sample(rng=seed)
    assert release.integers == tuple(int(t) + int(z) for t, z in zip(exact, noise, strict=True))
    again = mechanism.release(frame)
    assert not again.guarantee.seeded
    assert again.integers != release.integers


LAWS = [name for name, make in MECHANISMS.items() if hasattr(make().noise, "laws")]


@pytest.mark.parametrize("name", LAWS)
def test_laws_cover_the_moves_that_rows_can_make(name: str, seed: int) -> None:
    """Every entry moves by at most the sensitivity of its law, and at most ``moved`` entries do."""
    mechanism = MECHANISMS[name]()
    steps = np.array([law.sensitivity for law in mechanism.noise.laws])
    rng = np.random.default_rng(seed)
    base = table(seed)
    reached = np.zeros(len(steps))
    for _ in range(200):
        other = {column: cells.copy() for column, cells in base.items()}
        for column, extremes in {
            "x": [0, 3, 5, 10],
            "y": [-1, 1, 0.5],
            "k": ["a", "b", "c"],
        }.items():
            base[column][0] = rng.choice(extremes)
            other[column][0] = rng.choice(extremes)
        change = np.subtract(mechanism.exact(base), mechanism.exact(other)).astype(np.int64)
        assert (np.abs(change) <= steps).all()
        assert np.count_nonzero(change) <= mechanism.noise.moved
        reached = np.maximum(reached, np.abs(change))
    assert (reached == steps).all()  # and no law covers more than that


@pytest.mark.parametrize("name", LAWS)
def test_the_guarantee_is_the_sum_over_moving_entries(name: str) -> None:
    """Hockey-stick divergence of every law at its share, added up, stays within delta."""
    mechanism = MECHANISMS[name]()
    noise = mechanism.noise
    share = float(noise.epsilon) / noise.moved
    losses = sorted(law.guarantee(epsilon=share).delta for law in noise.laws)
    assert sum(losses[-noise.moved :]) <= float(noise.delta) * (1 + 1e-6) + 1e-12
    # noise cut by a fifth breaks it: the same laws for moves a quarter larger
    worse = [
        law.delta(share, max(law.sensitivity + 1, round(1.25 * law.sensitivity)))
        for law in noise.laws
    ]
    assert sum(sorted(worse)[-noise.moved :]) > float(noise.delta) * (1 + 1e-3) + 1e-9


def test_a_law_pays_for_moving_entries_only() -> None:
    """Of the counts of a category two move at most: the budget is halved, not cut in three."""
    counts = AdditiveMechanism(Counts(schema(), ["k"]), noise="laplace", epsilon=1.0)
    assert counts.noise.moved == 2
    assert [law.epsilon for law in counts.noise.laws] == [0.5, 0.5, 0.5]
    added = AdditiveMechanism(
        Counts(schema(neighbors="add-remove"), ["k"]), noise="laplace", epsilon=1.0
    )
    assert added.noise.moved == 1
    facts = schema(neighbors="add-remove", person="id", rows_per_person=2)
    persons = AdditiveMechanism(Counts(facts, ["k"]), noise="laplace", epsilon=1.0)
    assert persons.noise.moved == 2
    assert [law.sensitivity for law in persons.noise.laws] == [2, 2, 2]


def test_a_law_of_ones_own_is_scaled_and_composed() -> None:
    one = AdditiveMechanism(Sums(schema(), ["x"]), noise=STEPS)
    assert one.guarantee().delta == pytest.approx(STEPS.guarantee().delta, rel=1e-12)
    # 5 units of the law are 10 of x: an error of the law counts twice
    assert one.preview().std[0] == pytest.approx(2 * np.sqrt(STEPS.variance()), rel=1e-4)
    two = AdditiveMechanism(Sums(schema(), ["x", "y"]), noise=STEPS)
    assert two.epsilon == 2
    assert two.delta == 2 * one.delta
    counts = AdditiveMechanism(Counts(schema(), ["k"]), noise=STEPS)
    assert counts.resolution == 2  # cells of half a count
    assert counts.guarantee().delta == pytest.approx(2 * STEPS.guarantee().delta, rel=1e-12)


def test_designed_noise_beats_the_named_laws() -> None:
    """Expected absolute error of one sum: designed, truncated Laplace, Gaussian."""
    errors = {}
    for name in ("designed", "truncated-laplace", "gaussian"):
        mechanism = AdditiveMechanism(Sums(schema(), ["x"]), noise=name, epsilon=2.0, delta=0.1)
        if name == "gaussian":
            law: Any = tdp.RoundedGaussian(sigma2=mechanism.noise.variances[0])
        else:
            law = mechanism.noise.laws[0]
        errors[name] = law.expected_loss(1) / mechanism.resolution
    assert errors["truncated-laplace"] > 1.2 * errors["designed"]
    assert errors["gaussian"] > errors["truncated-laplace"]
    own = AdditiveMechanism(Sums(schema(), ["x"]), noise=DESIGN)
    assert own.guarantee().delta <= 0.1
    loss = own.noise.laws[0].expected_loss(1) / own.resolution * 5.0  # scaled to [-1, 1]
    assert loss == pytest.approx(DESIGN.upper, rel=1e-4)


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
        mechanism.release({"x": np.zeros(3)}, ledger=ledger)  # refused: names are public
    assert ledger.spent.epsilon == 1
    again = mechanism.release({"x": np.zeros(3)}, ledger=ledger, key="counts")
    assert again.integers == first.integers  # known: the table is not even looked at
    with pytest.raises(DataError):
        mechanism.release(
            pa.RecordBatchReader.from_batches(FAILING.schema, fail_midway()), ledger=ledger
        )
    assert ledger.spent.epsilon == 2  # paid, then failed: burned
    with pytest.raises(BudgetError, match="Remaining"):
        mechanism.release(table(seed), ledger=ledger)
    with pytest.raises(ParameterError, match="seed"):
        mechanism.release(table(seed), ledger=Ledger(epsilon=2.0), rng=seed)


def test_a_key_stands_for_one_request_to_the_last_digit(seed: int) -> None:
    """Levels of another type and bins that look alike are other requests."""
    ledger = Ledger(epsilon=10)
    numbers, texts = (
        tdp.Schema({"k": tdp.Category(v, other=v[0])}, rows=3) for v in ([1, 2], ["1", "2"])
    )
    one_line.count({"k": [1, 2, 1]}, ["k"], schema=numbers, epsilon=1, ledger=ledger, key="k")
    with pytest.raises(ParameterError, match="another"):
        one_line.count({"k": [1, 2, 1]}, ["k"], schema=texts, epsilon=1, ledger=ledger, key="k")
    given: dict[str, Any] = {"schema": schema(), "epsilon": 1, "ledger": ledger, "key": "bins"}
    one_line.histogram(table(seed), "x", bins=[0, 5, 10], **given)
    with pytest.raises(ParameterError, match="another"):
        one_line.histogram(table(seed), "x", bins=[0, 5.0000001, 10], **given)


def test_means_stay_within_their_bounds(seed: int) -> None:
    draws = [
        one_line.mean(table(seed), ["x"], schema=schema(), epsilon=0.001, rng=seed + i)["x"]
        for i in range(20)
    ]
    assert 0 <= min(draws) < max(draws) <= 10


def test_one_line_helpers_take_delta(seed: int) -> None:
    release = one_line.sum(
        table(seed), ["x"], schema=schema(), epsilon=1, delta=0.01, noise="designed"
    )
    assert release.guarantee.delta == 0.01


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
    # three times the noise in reals; on integers it is the noise of a third of epsilon
    third = AdditiveMechanism(one.statistic, epsilon=Fraction(1, 3))
    np.testing.assert_allclose(three.preview().std, third.preview().std, rtol=1e-9)


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
        (lambda: AdditiveMechanism(Sums(schema(), ["x"])), "`epsilon` must be given"),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), epsilon=1, delta=0.1), "ball"),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), epsilon=1, delta=-1), "delta"),
        (
            lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise="gaussian", epsilon=1),
            "needs `delta` > 0",
        ),
        (
            lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise="laplace", epsilon=1, delta=0.1),
            "needs `delta` = 0",
        ),
        (
            lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise=STEPS, epsilon=0.5),
            "must cover the law",
        ),
        (
            lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise=tdp.Geometric(epsilon=1)),
            "law on the integers",
        ),
        (lambda: AdditiveMechanism(Sums(schema(), ["x"]), noise=np.arange(2), epsilon=1), "noise"),
        (lambda: MECHANISMS["sums"]().release(table(1), ledger="ledger.db"), "`ledger` must be"),
        (lambda: one_line.mean(table(1), ["x"], schema={}, epsilon=1), "`schema` must be"),
        (lambda: one_line.variance(table(1), ["x"], schema={}, epsilon=1), "`schema` must be"),
        (lambda: MECHANISMS["sums"]().release(table(1, 199)), "199 rows and the schema says 200"),
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
    private = one_line.variance(frame, ["x"], **added)
    assert private["x"] == pytest.approx(frame["x"].var(), abs=0.05)


@pytest.mark.slow_for("add-remove")
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


@pytest.mark.parametrize(("epsilon", "gain"), [(1, 0.99), (3, 0.8), (10, 0.15)])
def test_best_is_a_staircase_where_that_is_less(epsilon: int, gain: float, seed: int) -> None:
    """One sum at epsilon 10: a third of the error of the ball, and that is what is drawn."""
    sums = Sums(schema(), ["x"])
    best = AdditiveMechanism(sums, noise="best", epsilon=epsilon)
    hull = AdditiveMechanism(sums, noise="hull", epsilon=epsilon)
    assert best.preview().std[0] ** 2 < gain * hull.preview().std[0] ** 2
    assert best.preview().half_width[0] < 1.001 * hull.preview().half_width[0]
    assert best.guarantee() == hull.guarantee()
    draws = np.asarray(best.noise.sample(40_000, rng=seed), dtype=np.float64) / best.resolution
    stated = best.preview().std[0] / 5  # half the interval
    squares = draws**2
    error = 5 * squares.std() / np.sqrt(len(draws))
    assert abs(squares.mean() - stated**2) < error


@pytest.mark.parametrize("epsilon", [0.1, 1, 10, 40])
def test_best_has_neither_more_variance_nor_wider_intervals(epsilon: float) -> None:
    """Laws of several entries spread the budget: they are taken where both errors are less."""
    sums = Sums(schema(), ["x", "y"])
    best, hull = (
        AdditiveMechanism(sums, noise=noise, epsilon=epsilon).preview()
        for noise in ("best", "hull")
    )
    assert (best.std <= hull.std * (1 + 1e-9)).all()
    assert (best.half_width <= hull.half_width * (1 + 1e-9)).all()
    if epsilon == 40:
        assert (best.std < 0.1 * hull.std).all()


def test_best_uses_the_product_of_terms_where_the_hull_cannot_be_drawn() -> None:
    """Two marginals under add-remove share their total: a flat hull, without a sampler."""
    facts = tdp.Schema(
        {**FACTS, "j": tdp.Category([1, 2], other=1)}, rows=200, neighbors="add-remove"
    )
    counts = Counts(facts, ["j", "k"])
    with pytest.raises(InfeasibleSamplingError, match="noise='best'"):
        AdditiveMechanism(counts, epsilon=1.0)
    best = AdditiveMechanism(counts, noise="best", epsilon=1.0)
    assert isinstance(best.ball, tdp.Product)
    assert tdp.certify_contains(best.ball, counts.sensitivity_space())
    l1 = AdditiveMechanism(counts, noise="l1", epsilon=1.0)
    assert (best.preview().std < l1.preview().std).all()


@pytest.mark.parametrize("engine", ["numpy", "pandas", "polars", "pyarrow", "parquet"])
def test_a_wrong_number_of_public_rows_costs_nothing(engine: str, tmp_path: Any) -> None:
    """Under replace-one the number of rows is public: said wrongly, it is refused unpaid."""
    cells = np.linspace(0, 1, 5)
    if engine == "parquet":
        pa.parquet.write_table(pa.table({"x": cells}), tmp_path / "x.parquet")
    frame = {
        "numpy": lambda: {"x": cells},
        "pandas": lambda: pytest.importorskip("pandas").DataFrame({"x": cells}),
        "polars": lambda: pytest.importorskip("polars").DataFrame({"x": cells}),
        "pyarrow": lambda: pa.table({"x": cells}),
        "parquet": lambda: tmp_path,
    }[engine]()
    ledger = Ledger(epsilon=1)
    facts = {"x": tdp.Interval(0, 1)}
    with pytest.raises(ParameterError, match="5 rows and the schema says 6"):
        one_line.sum(frame, ["x"], schema=tdp.Schema(facts, rows=6), epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 0
    added = tdp.Schema(facts, rows=6, neighbors="add-remove")  # a bound, and nobody's business
    one_line.sum(frame, ["x"], schema=added, epsilon=1)


def test_an_error_that_depends_on_the_data_is_shown_as_a_dash() -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 60)}, rows=5)
    release = tdp.KNormMedian(schema, "x", epsilon=1).release(
        {"x": [1.0, 2.0, 3.0, 4.0, 5.0]}, rng=1
    )
    back = tdp.Release.from_json(release.to_json())
    assert back.unknown == release.unknown == ("x[0.5]",)
    row = next(line for line in str(back).splitlines() if line.startswith("x[0.5]"))
    assert row.split()[2:] == ["-", "-"]
    assert "<td>-</td>" in back._repr_html_()


# --- facts that cannot all be meant ---------------------------------------------------------------


def test_a_delta_above_one_in_n_is_spoken_of_where_n_is_public() -> None:
    """With delta = 1/n, publishing one row as it is would be allowed."""
    for delta, neighbors, said in (
        (0.0051, "replace-one", True),
        (0.005, "replace-one", False),
        (0.0051, "add-remove", False),
    ):
        counts = Counts(schema(neighbors=neighbors), ["k"])
        mechanism = AdditiveMechanism(counts, noise="gaussian", epsilon=1, delta=delta)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mechanism.release(table(1))
        assert [w.category for w in caught] == [tdp.PublicFactWarning] * said


@pytest.mark.parametrize("noise", ["hull", "laplace"])
def test_a_level_of_confidence_that_rounds_to_one_costs_nothing(noise: str) -> None:
    """Its tails, shared by the entries, are 0: it was found out when the budget was spent."""
    ledger = tdp.Ledger(1)
    mechanism = AdditiveMechanism(Counts(schema(), ["k"]), noise=noise, epsilon=1)
    with pytest.raises(tdp.ParameterError, match="`confidence` must be at most"):
        mechanism.release(table(1), ledger=ledger, confidence=np.nextafter(1, 0))
    assert ledger.spent.epsilon == 0
    sure = mechanism.release(table(1), ledger=ledger, confidence=1 - 1e-9)
    assert np.isfinite(sure.half_width).all()
