"""A first line, and then its residuals: what is released, what it costs, what it covers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.one_pass import blocks
from tightdp.data.residual_sums import STEEPEST, ResidualSums
from tightdp.errors import TightdpError, UncoveredMoveError
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.mechanisms.two_looks import TwoLooks

NAMES = ["a", "b", "c"]
SLOPES = np.array([0.3, -0.2, 0.1])


def facts(rows: int, **options) -> tdp.Schema:
    return tdp.Schema(dict.fromkeys([*NAMES, "y"], tdp.Interval(-1, 1)), rows, **options)


def table(rows: int, seed: int, error=None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 3))
    errors = rng.normal(0, 0.1, rows) if error is None else error(rng, X)
    y = np.clip(0.1 + X @ SLOPES + errors, -1, 1)
    return dict(zip(NAMES, X.T, strict=True)) | {"y": y}


def design(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.column_stack([np.ones(len(rows["y"])), *(rows[name] for name in NAMES)])


def skewed(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Errors that are skewed, the more the larger a is."""
    return 0.12 * (rng.exponential(1, len(X)) - 1) * (1 + X[:, 0])


def test_both_looks_together_cost_epsilon():
    for epsilon in (Fraction(1, 7), Fraction(3)):
        looks = TwoLooks(facts(900), NAMES, "y", epsilon=epsilon)
        assert looks.first.epsilon + looks.watch.epsilon + looks.second.epsilon == epsilon
        assert looks.cost.epsilon == epsilon
        line = LeastSquares(facts(900), NAMES, "y", epsilon=epsilon, stages=2)
        assert (line.epsilon, line.cost) == (epsilon, looks.cost)


def test_without_noise_it_is_least_squares():
    """Where bounds allow no residual beyond the reach, whatever it is."""
    rows = table(3_000, 1)
    exact = np.linalg.lstsq(design(rows), rows["y"], rcond=None)[0]
    for intercept in (True, False):
        line = LeastSquares(
            facts(3_000), NAMES, "y", epsilon=1000, stages=2, fit_intercept=intercept
        )
        expected = exact
        if not intercept:
            X = design(rows)[:, 1:]
            expected = np.append(0, np.linalg.lstsq(X, rows["y"], rcond=None)[0])
        found = line.fit(line.release(rows, rng=1)).coefficients
        assert found == pytest.approx(expected, abs=2e-3)


def test_the_second_look_is_the_least_squares_of_clamped_targets(monkeypatch):
    """With a reach that cuts many residuals off, and no noise to speak of."""
    rows, schema = table(3_000, 2, skewed), facts(3_000)
    always_clamped(monkeypatch, 0.1)
    line = LeastSquares(schema, NAMES, "y", epsilon=1000, stages=2)
    fit = line.fit(line.release(rows, rng=1))
    middle = design(rows) @ fit.look.line
    clamped = np.clip(rows["y"], middle - fit.look.reach, middle + fit.look.reach)
    assert (clamped != rows["y"]).mean() > 0.2
    h = design(rows).T @ (clamped - middle) / 3_000
    assert fit.look.products == pytest.approx(h, abs=1e-3)
    assert fit.look.moved == pytest.approx(np.abs(rows["y"] - clamped).mean(), abs=1e-3)


@pytest.mark.parametrize("top", [1, 5])
def test_residuals_lie_between_the_steps_of_columns(top):
    """On the grid of the steps, of 1 or 10 points, lines and residuals would be rounded to it."""
    rng, count = np.random.default_rng(9), 3_000
    rows = {"a": rng.integers(0, 2, count), "b": rng.integers(0, 1 + min(top, 2), count)}
    rows["y"] = rng.binomial(top, 0.3 + 0.1 * rows["a"] + 0.05 * rows["b"])
    columns = {name: tdp.Interval(0, int(cells.max()), step=1) for name, cells in rows.items()}
    line = LeastSquares(tdp.Schema(columns, count), ["a", "b"], "y", epsilon=1000, stages=2)
    release = line.release(rows, rng=1)
    X = np.column_stack([2 * cells / cells.max() - 1 for cells in rows.values()])
    look, Z = line.fit(release).look, np.column_stack([np.ones(count), X[:, :2]])
    assert look.products == pytest.approx(Z.T @ (X[:, 2] - Z @ look.line) / count, abs=1e-3)
    assert release.value[line.statistic.names.index("y")] / count == pytest.approx(
        X[:, 2].mean(), abs=1e-3
    )


def test_many_columns_err_less(seed):
    rng, names, count = np.random.default_rng(seed), [f"x{i}" for i in range(7)], 20_000
    X = rng.uniform(-1, 1, (count, 7))
    y = X @ np.linspace(-0.15, 0.15, 7) + rng.normal(0, 0.1, count)
    rows, errors = dict(zip(names, X.T, strict=True)) | {"y": y}, {}
    schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), count)
    exact = np.linalg.lstsq(np.column_stack([np.ones(count), X]), y, rcond=None)[0]
    for stages in (1, 2):
        line = LeastSquares(schema, names, "y", epsilon=1, stages=stages)
        found = [line.fit(line.release(rows, rng=seed + k)).coefficients for k in range(60)]
        errors[stages] = np.median(np.linalg.norm(np.array(found) - exact, axis=1))
    assert errors[2] < 0.85 * errors[1]  # about 0.6; the medians of 60 are good to 10 %


def always_clamped(monkeypatch, reach: float) -> None:
    """The look between the two is not heeded."""
    monkeypatch.setattr(TwoLooks, "_reach", lambda *_: reach)
    monkeypatch.setattr(TwoLooks, "settle", lambda looks, integers, _: looks.aim(integers))


def covered(count: int, seed: int) -> float:
    """How often intervals hold the population's line of least squares, with skewed errors."""
    rows, big = 4_000, table(400_000, seed + 10_000, skewed)
    truth = np.linalg.lstsq(design(big), big["y"], rcond=None)[0]
    line, inside = LeastSquares(facts(rows), NAMES, "y", epsilon=1, stages=2), []
    for k in range(count):
        fit = line.fit(line.release(table(rows, seed + k, skewed), rng=seed + k))
        low, high = fit.intervals(0.05).T
        inside.append((low <= truth) & (truth <= high))
    return float(np.mean(inside))


def test_intervals_hold_least_squares_whatever_is_clamped(seed, monkeypatch):
    """A reach that cuts off a fifth of skewed errors; without their room intervals would miss."""
    always_clamped(monkeypatch, 0.1)
    count = 40
    error = np.sqrt(0.05 * 0.95 / count)  # coefficients of one table are not independent
    assert covered(count, seed) > 0.95 - 3 * error
    monkeypatch.setattr(LinearFit, "_room", lambda fit, found: np.zeros_like(found.room))
    assert covered(count, seed) < 0.95 - 3 * error  # the planted fault


def test_tests_agree_with_intervals(monkeypatch):
    always_clamped(monkeypatch, 0.1)
    line = LeastSquares(facts(4_000), NAMES, "y", epsilon=1, stages=2)
    fit = line.fit(line.release(table(4_000, 3, skewed), rng=3))
    low, high = fit.intervals(0.05)[1]
    weights, estimate = np.eye(4)[1:2], fit.coefficients[1:2]
    for null, kept in ((low - 0.01, False), (low + 0.01, True), (high + 0.01, False)):
        assert (fit.tested(weights, estimate, np.array([null]), None) > 0.05) is kept
    both = fit.tested(np.eye(4)[1:3], fit.coefficients[1:3], np.array([9.0, 9.0]), "equal variance")
    assert both < 0.01


def test_many_skewed_errors_are_not_clamped(monkeypatch):
    """They would be moved by more than the noise that a reach saves; normal errors are not."""
    monkeypatch.setattr(TwoLooks, "_reach", lambda *_: 0.35)
    looks, found = TwoLooks(facts(50_000), NAMES, "y", epsilon=1), {}
    for error in (skewed, None):
        found[error] = looks.second_look(looks.release(table(50_000, 1, error), rng=1))
    assert found[skewed].reach == pytest.approx(1 + np.abs(found[skewed].line).sum())
    assert found[skewed].moved == 0
    assert found[None].reach == pytest.approx(0.35, abs=1e-4)


def test_a_residual_that_is_not_clamped_is_refused(monkeypatch):
    """Planted: without the clamp a row moves the sums farther than the noise was made for."""
    monkeypatch.setattr("tightdp.data.residual_sums.np.clip", lambda values, *_, out: values)
    schema = facts(50, bits=4)
    far = ResidualSums(schema, NAMES, "y").along([0, 0, 0, 0], 1)
    part = TwoLooks.second_part(ResidualSums(schema, NAMES, "y"))
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(far, [part], epsilon=1)


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**62, 2**200])
def test_every_first_look_gives_a_line_that_can_be_read(size, seed):
    """Whatever the noise: nothing fails after the payment."""
    looks, rng = TwoLooks(facts(50), NAMES, "y", epsilon=1), np.random.default_rng(seed)
    points, names = looks.residuals.points, len(looks.statistic)
    for _ in range(20):
        integers = [int(z) * size for z in rng.integers(-3, 4, names)]
        for line, reach in (looks.aim(integers), looks.settle(integers, integers[0])):
            assert max(map(abs, line)) <= STEEPEST * points
            assert 1 <= reach <= points + sum(map(abs, line))
            looks.residuals.along(line, reach)


def test_line_and_reach_are_read_back_exactly():
    looks = TwoLooks(facts(500), NAMES, "y", epsilon=1)
    release = looks.release(table(500, 4), rng=4)
    known, size = len(looks.statistic), looks.statistic.outcome
    integers = [round(v * looks.first.resolution) for v in release.value[:known]]
    moved = round(release.value[known] * looks.first.resolution)
    line, reach = looks.settle(integers, moved)
    look, points = looks.second_look(release), looks.residuals.points
    assert [round(b * points) for b in look.line] == line
    assert look.reach == reach / points
    assert release.names[known + 1] == "line: intercept"
    assert release.names[known + 1 + size] == "reach"


def test_the_sums_of_residuals_do_not_depend_on_blocks():
    rows, schema = table(1_000, 5), facts(1_000)
    sums = ResidualSums(schema, NAMES, "y").along([100, 20_000, -13_000, 7_001], 30_000)
    whole = sums.measure(rows)
    (block,) = blocks(rows, schema, sums.columns)
    cells = block.matrix(sums.columns).T.astype(np.float64)
    pieces = [
        sums.contributions(type(block).of_columns(sums.columns, cells[:, i : i + 7]), schema.bits)
        for i in range(0, 1_000, 7)
    ]
    assert list(np.sum(pieces, axis=0)) == whole


def test_a_ledger_gives_the_same_release_back():
    ledger, rows = tdp.Ledger(epsilon=2), table(400, 6)
    models = [
        tdp.LinearRegression(epsilon=1, bounds=facts(400), ledger=ledger, stages=2)
        for _ in range(2)
    ]
    first, again = (model.fit(rows, "y", key="line") for model in models)
    assert ledger.spent.epsilon == 1
    assert (first.coef_ == again.coef_).all()
    assert "\nTargets farther than" in str(first.summary())
    assert first.test("a").p_value <= 1


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (facts(50, neighbors="add-remove"), {}),
        (facts(50), {"missing": "drop"}),
        (facts(50), {"post": "none"}),
        (facts(50), {"spread": 0.1}),  # the preview would be that of even columns
        (facts(50), {"correlation": 0.9}),
        (facts(50), {"stages": 3}),
        (facts(50), {"stages": True}),
    ],
)
def test_what_has_no_second_stage_is_refused(schema, options):
    with pytest.raises(TightdpError):
        LeastSquares(schema, NAMES, "y", **({"epsilon": 1, "stages": 2} | options))


def test_residuals_that_do_not_fit_64_bits_are_refused():
    wide = tdp.Schema({f"x{i}": tdp.Interval(-1, 1) for i in range(300)}, rows=9, bits=26)
    with pytest.raises(TightdpError, match="64-bit"):
        ResidualSums(wide, list(wide)[1:], "x0")
    with pytest.raises(TightdpError, match="at most 4"):
        ResidualSums(facts(9), NAMES, "y").along([STEEPEST * 2**16 + 1, 0, 0, 0], 1)


def test_a_preview_is_for_made_up_rows():
    line = LeastSquares(facts(5_000), NAMES, "y", epsilon=1, stages=2)
    found = line.preview()
    assert found.names == line.names
    assert "simulated" in found.noise
    assert (found.std > 0).all()


def test_what_can_be_read_once_is_read_once():
    """A reader, and a relation over one, whose rows are gone after the first look at them."""
    pyarrow, duckdb = pytest.importorskip("pyarrow"), pytest.importorskip("duckdb")
    line, rows = LeastSquares(facts(400), NAMES, "y", epsilon=1, stages=2), table(400, 7)
    expected = line.release(rows, rng=1).value
    reader = pyarrow.table(rows).to_reader()
    assert (line.release(reader, rng=1).value == expected).all()
    with duckdb.connect() as base:
        base.register("stream", pyarrow.table(rows).to_reader())
        found = line.release(base.sql("select * from stream"), rng=1)
    assert (found.value == expected).all()


def test_a_file_that_changes_between_the_looks_is_read_once(tmp_path, monkeypatch):
    """Planted: the file has other rows as soon as the first look has its line."""
    rows, other, path = table(400, 8), table(399, 9), tmp_path / "rows.csv"

    def write(cells: dict[str, np.ndarray]) -> None:
        np.savetxt(
            path, np.column_stack([*cells.values()]), "%r", ",", header=",".join(cells), comments=""
        )

    write(rows)
    line = LeastSquares(facts(400), NAMES, "y", epsilon=1, stages=2)
    expected, aim = line.release(path, rng=1).value, TwoLooks.aim

    def changing(looks, integers):
        write(other)
        return aim(looks, integers)

    monkeypatch.setattr(TwoLooks, "aim", changing)
    assert (line.release(path, rng=1).value == expected).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1)])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_and_much_noise_say_nothing(rows, epsilon, seed):
    """Warnings after the payment would depend on the noise; far larger noise is drawn, too."""
    columns = dict.fromkeys(["a", "b", "y"], tdp.Interval(-1, 1))
    schema = tdp.Schema({**columns, "k": tdp.Category([*"uvw"], other="u")}, rows)
    looks, rng = (
        TwoLooks(schema, ["a", "b", "k"], "y", epsilon=epsilon),
        np.random.default_rng(seed),
    )
    for noise in looks.first.simulate(100, rng=seed):
        size = 10.0 ** rng.integers(-3, 250, len(noise)) if rng.integers(2) else 1.0
        integers = [int(z) * looks.first.resolution for z in noise * size]
        looks.residuals.along(*looks.settle(integers, integers[-1]))


def test_rows_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(TightdpError, match="memory"):
        LeastSquares(facts(10**9), NAMES, "y", epsilon=1, stages=2)


def test_errors_of_two_stages_have_no_formula():
    with pytest.raises(TightdpError, match="preview"):
        LeastSquares(facts(50), NAMES, "y", epsilon=1, stages=2).expected_std()


def test_one_category_alone():
    schema = tdp.Schema({"k": tdp.Category([*"abc"], other="a"), "y": tdp.Interval(0, 1)}, rows=50)
    assert TwoLooks(schema, ["k"], "y", epsilon=1).share == Fraction(1, 2)
