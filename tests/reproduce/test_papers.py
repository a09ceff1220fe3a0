"""The papers reproduced: every experiment in small, kept cells, bad names, pictures that read."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from reproduce import (
    Quote,
    experiment_names,
    gradient,
    logistic,
    quote_table,
    regression,
    reproduce,
)
from reproduce.density import mean_distance
from reproduce.gradient import absolute_losses, median_line, truncated_normal
from reproduce.house_sales import build_sales, read_sales, scaled_sales
from reproduce.noise_tables import DELTAS, EPSILONS, geng_bound, optimum
from reproduce.planar_rivals import coupled_noise, planar_rivals
from reproduce.published_bounds import paper_bounds
from reproduce.published_recipes import (
    LOWER_RECIPES,
    UPPER_RECIPES,
    Recipe,
    recipe_counts,
    recipe_table,
    recipes,
)
from reproduce.query_ranges import bands, descent_queries
from reproduce.registry import EXPERIMENTS
from reproduce.regression import least_squares, moment_balls, pseudo_solutions
from reproduce.results import (
    KINDS,
    mean_and_error,
    median_and_error,
    order_quote,
    what_was_compared,
)
from reproduce.runner import CellStore
from reproduce.tables import TABLES
from tightdp.design.vector import design_planar_noise
from tightdp.errors import ParameterError
from tightdp.geometry.moment_bodies import regression_moments
from tightdp.geometry.norm_balls import LpBall
from tightdp.noise.line_laws import TruncatedLaplace
from tightdp.randomness import source

ROOT = Path(__file__).parents[2]
PAIRS = [[0.5, 0.1], [1.0, 0.2], [1.0, 0.005], [5.0, 0.75]]
TINY = {
    "knorm-figure-1": {},
    "knorm-figure-2": {"pairs": 10, "batch": 10},
    "knorm-figure-3": {"epsilons": [1 / 4], "replicates": 40, "batch": 20},
    "knorm-figure-4": {"replicates": {"10000": 15}, "epsilons": [0.5, 2.0], "batch": 3},
    "knorm-figure-5": {"epsilons": [1.0, 16.0], "draws": 3, "batch": 3},
    "knorm-figure-6": {},
    "knorm-table-1": {"draws": 20_000},
    "kng-figure-1": {"replicates": {"10000": 12}, "batch": 3},
    "kng-figure-2": {"replicates": {"10": 12, "100": 4}, "batch": 6},
    "notes-density": {"replicates": {"100": 5, "1000": 5}, "draws": 60},
    "dro-table-1": {"pairs": PAIRS, "grid": 40},
    "dro-table-2": {"pairs": PAIRS, "grid": 40},
    "dro-figure-1": {"gap": 0.01},
    "dro-figure-2": {"gap": 0.01},
    "dro-figure-3": {"gap": 0.01},
    "dro-figure-4": {"simulations": 2, "batch": 1, "small": [1, 2], "width": 1.0},
    "dro-figure-5": {"units": [1, 2], "cells": [2, 4]},
    "dro-figure-6": {"resolutions": {"2.0": [2, 4]}, "rivals": 2},
}


@pytest.fixture(autouse=True)
def no_tables(monkeypatch, tmp_path):
    """Tests are the same with and without the tables of house sales and cylinders."""
    monkeypatch.setenv("TIGHTDP_DATA", str(tmp_path / "nothing"))


def small(name, folder, **more):
    (result,) = reproduce([name], True, folder, **more, settings={name: TINY[name]})
    return result


def test_all_figures_and_tables_are_there():
    assert set(experiment_names()) == set(TINY)
    for experiment in EXPERIMENTS.values():
        assert set(experiment.quick) == set(experiment.full)
        assert experiment.title
        assert experiment.source


@pytest.mark.slow_for(
    "knorm-figure-[345]",
    "kng-figure-2",
    "dro-table-1",
    "dro-figure-[1456]",
    "notes-density",
)
@pytest.mark.parametrize("name", TINY)
def test_an_experiment_in_small(name, tmp_path):
    result = small(name, tmp_path)
    assert result.ok, str(result)
    assert result.quotes or name == "knorm-figure-5"  # whose numbers need the table of sales
    assert result.plot.read_bytes()[:4] == b"\x89PNG"
    with result.numbers.open() as lines:
        assert len(list(csv.DictReader(lines))) == len(result.rows)
    report = json.loads(result.report.read_text())
    assert report["ok"] is True
    assert len(report["quotes"]) == len(result.quotes)
    assert quote_table(result.quotes).count("\n") == len(result.quotes) + 1
    readable(EXPERIMENTS[name].draw(result.rows))
    again = small(name, tmp_path)
    assert again.reused == report["cells"]
    assert [q.ours for q in again.quotes] == [q.ours for q in result.quotes]


def readable(figure):
    """Every axis has its labels, and no text is cut by the edge of the picture."""
    figure.canvas.draw()
    frame = figure.bbox
    for ax in figure.axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        legend = ax.get_legend()
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += legend.get_texts() if legend else []
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
            texts += [label for at, label in ticks if low <= at <= high]
        for text in texts:
            box = text.get_window_extent()
            assert text.get_text() == "" or (
                box.x0 >= -1 and box.y0 >= -1 and box.x1 <= frame.x1 + 1 and box.y1 <= frame.y1 + 1
            ), text.get_text()


def test_cut_text_is_seen():
    from matplotlib import pyplot

    figure, ax = pyplot.subplots()
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    readable(figure)
    ax.text(0.9, 0.5, "far too long a text for this place", transform=ax.transAxes)
    with pytest.raises(AssertionError, match="far too long"):
        readable(figure)


def rates_of_the_lines(monkeypatch) -> dict[str, float]:
    """Twice the rate of each exponential mechanism of the figure, times what one row changes: what
    it spends. Drawn lines are replaced by their rates, which come back by the name of the series.
    """
    ends = np.array([-1.0, 1.0])
    a = np.linspace(-1, 1, 9)
    inside = np.abs(a)[:, None] + np.abs(a) <= 1
    rows = [absolute_losses(np.array([x]), np.array([y]), a, a)[inside] for x in ends for y in ends]
    moved = max(float(np.abs(one - other).max()) for one in rows for other in rows)
    with monkeypatch.context() as patch:
        patch.setattr(
            gradient, "exponential_line", lambda x, y, rate, plain, rng: np.array([rate, 0.0])
        )
        patch.setattr(gradient, "MEDIAN_TRUTH", np.zeros(2))
        patch.setattr(gradient, "MEDIAN_CLIP", 1.0)
        found = gradient.MedianFigure().compute({"rows": 10, "replicates": 1}, source(1))
    series = ("exponential", "exponential printed")
    return {name: 2 * moved * found[f"clip/{name}"][0] for name in series}


def test_the_exponential_lines_spend_what_their_names_say(monkeypatch):
    """The corrected one epsilon, the printed one half of it (E28a); exchanged, this is seen."""
    right = {"exponential": 1.0, "exponential printed": 0.5}
    assert rates_of_the_lines(monkeypatch) == pytest.approx(right)
    assert gradient.exponential_rate(3.0, 2.0) == 1.0
    rates = gradient.line_rates

    def exchanged(epsilon, bound):
        return dict(
            zip(rates(epsilon, bound), reversed(rates(epsilon, bound).values()), strict=True)
        )

    monkeypatch.setattr(gradient, "line_rates", exchanged)
    assert rates_of_the_lines(monkeypatch) != pytest.approx(right)


def reference_rows(name):
    """Rows as a quick run would have them if it met every reference value to the digit."""
    experiment, out = EXPERIMENTS[name], []
    if name.startswith("kng"):
        full, quick = (mode["replicates"] for mode in (experiment.full, experiment.quick))
        for (treatment, series), known in experiment.reference.items():
            for rows, (value, error) in known.items():
                if str(rows) in quick:
                    more = (full[str(rows)] / quick[str(rows)]) ** 0.5
                    row = {"treatment": treatment, "series": series, "rows": rows}
                    out.append({**row, "value": value, "error": error * more})
    elif name == "knorm-figure-3":
        more = (experiment.full["replicates"] / experiment.quick["replicates"]) ** 0.5
        for series, known in logistic.REFERENCE[10_000].items():
            for epsilon, (value, error) in zip(logistic.EPSILONS, known, strict=True):
                at = None if series == "estimate" else epsilon
                row = {"rows": 10_000, "series": series, "epsilon": at}
                out.append({**row, "value": value, "error": error * more})
    else:
        for (rows, treatment, series), known in regression.REFERENCE.items():
            more = (experiment.full["replicates"][str(rows)]) ** 0.5
            more /= experiment.quick["replicates"][str(rows)] ** 0.5
            for epsilon, (value, error) in zip(regression.EPSILONS, known, strict=True):
                row = {"rows": rows, "treatment": treatment, "series": series, "epsilon": epsilon}
                out.append({**row, "value": value, "error": error * more, "replicates": 100})
    return out


EXCHANGED = {
    "knorm-figure-3": [("l1", "l2"), ("l2", "linf"), ("linf", "linf*")],
    "knorm-figure-4": [("l1", "l1 exact"), ("l1 exact", "linf")],
    "kng-figure-1": [
        ("gradient", "printed"),
        ("objective", "printed"),
        ("gradient", "exponential"),
    ],
    "kng-figure-2": [("exponential", "exponential printed"), ("gradient", "exponential")],
}


@pytest.mark.parametrize(
    ("name", "pair"), [(name, pair) for name, pairs in EXCHANGED.items() for pair in pairs]
)
def test_a_quick_run_tells_two_series_apart(name, pair):
    """Planted: the constants of two curves exchanged. A quick run must call it off, with errors as
    large as its number of replicates makes them."""
    rows = reference_rows(name)
    right = EXPERIMENTS[name].quotes(rows)
    assert right
    assert all(quote.within for quote in right)
    other = dict([pair, pair[::-1]])
    wrong = [{**row, "series": other.get(row["series"], row["series"])} for row in rows]
    off = [quote for quote in EXPERIMENTS[name].quotes(wrong) if not quote.within]
    assert any(not quote.order_only for quote in off)


# --- faults are seen ------------------------------------------------------------------------------


def test_half_the_budget_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(gradient, "_EPSILON", 0.5)
    off = [q.what for q in small("kng-figure-1", tmp_path).quotes if not q.within]
    assert any("gradient" in what and "10,000" in what for what in off)


def test_a_wrong_optimum_is_seen(tmp_path, monkeypatch):
    from reproduce import noise_tables

    monkeypatch.setattr(
        noise_tables, "optimum", lambda cell: tuple(1.02 * b for b in optimum(cell))
    )
    result = small("dro-table-1", tmp_path)
    assert not result.ok
    assert "off: least E X^2" in str(result)


def test_a_quote_says_what_it_was_compared_with():
    wide = Quote("a", 1.2, 1.0, 0.3, kind="reference")
    assert wide.within
    assert wide.order_only  # more than a quarter of the number
    assert not Quote("a", 1.2, 1.0, 0.25).order_only
    assert order_quote("a", True).order_only
    assert not order_quote("a", False).within
    printed = {"13.33": True, "13.34": False, "13": True, "13.2(0.05)": True, "13.0(0.05)": False}
    for text, agrees in printed.items():
        assert Quote("a", 13.3333, 13.3, 1, text).meets_print is agrees
    for words in ("about .7", "", "0.960, read off", "n^(-1/3)", "more than 80 %"):
        assert Quote("a", 1, 1, 1, words).meets_print is None
    lines = what_was_compared([wide, Quote("b", 13.3333, 40 / 3, 1e-3, "13.33")])
    assert lines[1].startswith("the paper prints 1 of them, of which 1 agrees")
    assert what_was_compared([]) == []


def test_every_experiment_says_where_its_numbers_come_from():
    assert set(KINDS) == {"exact", "bound", "print", "reference", "order"}
    for name in EXCHANGED:
        kinds = {quote.kind for quote in EXPERIMENTS[name].quotes(reference_rows(name))}
        assert kinds <= {"reference", "exact"}


def test_a_quote_is_within_its_error_or_not():
    assert Quote("a", 1.0, 1.1, 0.11).within
    assert not Quote("a", 1.0, 1.1, 0.09).within
    assert not Quote("a", float("nan"), 1.0, 1.0).within


# --- a run that was stopped -----------------------------------------------------------------------


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    experiment, name = EXPERIMENTS["kng-figure-1"], "kng-figure-1"
    whole = small(name, tmp_path / "whole")
    compute, done = type(experiment).compute, []

    def stopping(self, cell, rng):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(cell)
        return compute(self, cell, rng)

    monkeypatch.setattr(type(experiment), "compute", stopping)
    with pytest.raises(KeyboardInterrupt):
        small(name, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / f"{name}.json").exists()
    monkeypatch.setattr(type(experiment), "compute", compute)
    resumed = small(name, tmp_path / "stopped")
    assert resumed.reused == 3
    assert resumed.rows == whole.rows


@pytest.mark.slow
def test_a_killed_process_leaves_whole_cells(tmp_path):
    code = (
        "from reproduce import reproduce\n"
        f"reproduce(['dro-table-1'], True, {str(tmp_path)!r}, settings={{'dro-table-1': "
        f"{{'pairs': {[[e, d] for e in EPSILONS for d in DELTAS]!r}}}}})"
    )
    cells = tmp_path / "cells" / "dro-table-1"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env={**os.environ}) as process:
        end = time.monotonic() + 120
        while time.monotonic() < end and len(list(cells.glob("*.json"))) < 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    left = list(cells.glob("*.json"))
    assert left
    for path in left:
        assert set(json.loads(path.read_text())) == {"cell", "outcome"}
    first = [[e, d] for e in EPSILONS[:1] for d in DELTAS[:2]]
    (result,) = reproduce(
        ["dro-table-1"], True, tmp_path, settings={"dro-table-1": {"pairs": first}}
    )
    assert result.reused >= 2


def test_damaged_and_foreign_cells_are_computed_again(tmp_path):
    store, cell, calls = CellStore(tmp_path / "x"), {"a": 1}, []

    def compute(cell, rng):
        calls.append(cell)
        return {"value": float(rng.uniform(1)[0])}

    first = store.outcome(cell, compute)
    assert store.outcome(cell, compute) == first
    (path,) = (tmp_path / "x").glob("*.json")
    other = json.dumps({"cell": {"a": 2}, "outcome": {"value": 7.0}})
    for text in ("", "{", "[]", "null", other, '{"cell": 1}'):
        path.write_text(text)
        assert store.outcome(cell, compute) == first  # the seed comes from the cell
    assert len(calls) == 7
    assert store.outcome({"a": 2}, compute) != first


def test_other_settings_share_equal_cells_only(tmp_path):
    first = small("dro-figure-5", tmp_path)
    other = {"dro-figure-5": {"units": [1, 2, 3], "cells": [2, 4]}}
    (second,) = reproduce(["dro-figure-5"], True, tmp_path, settings=other)
    assert second.reused == json.loads(first.report.read_text())["cells"] or second.reused > 0
    assert len(second.rows) > len(first.rows)


def test_a_bar_is_shown_where_asked_for(tmp_path, capfd):
    small("dro-figure-5", tmp_path, progress=True)
    assert "dro-figure-5" in capfd.readouterr().err


# --- bad parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        (["knorm-figure-33"], None, "Did you mean 'knorm-figure-3'"),
        (["dro-figure-1", "alll"], None, "Did you mean 'all'"),
        ([], None, "at least one"),
        ([3], None, "must be one of"),
        (["dro-figure-5"], {"dro-figure-5": {"unit": [1]}}, "Did you mean 'units'"),
        (["dro-figure-5"], {"dro-figure-55": {}}, "Did you mean 'dro-figure-5'"),
    ],
)
def test_bad_names_are_named_before_anything_is_done(names, settings, words, tmp_path):
    with pytest.raises(ParameterError, match=words):
        reproduce(names, True, tmp_path / "new", settings=settings)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="`folder`"):
        reproduce(["dro-figure-5"], True, tmp_path / "file")


def test_one_replicate_has_no_error():
    for summary in (mean_and_error, median_and_error):
        with pytest.raises(ParameterError, match="at least 2"):
            summary([1.0])


def test_a_name_given_twice_is_run_once(tmp_path):
    found = reproduce(["knorm-figure-6", "knorm-figure-6"], True, tmp_path)
    assert [result.name for result in found] == ["knorm-figure-6"]


# --- pieces ---------------------------------------------------------------------------------------


def test_pseudo_solutions_without_noise_are_least_squares(seed):
    rng = source(seed)
    x = 2 * rng.uniform((500, 3)) - 1
    y = np.clip(0.2 + x @ [0.3, -0.2, 0.1] + 0.1 * rng.normal(500), -1, 1)
    exact = regression_moments(x, y).sum(axis=0)
    assert pseudo_solutions(exact[None], 500, 3)[0] == pytest.approx(least_squares(x, y)[0])


def test_all_balls_hold_all_changes(seed):
    rng = source(seed)
    rows = 2 * rng.uniform((2, 4000, 6)) - 1
    rows[:, :1000] = np.sign(rows[:, :1000])
    one, other = (regression_moments(r[:, :5], r[:, 5]) for r in rows)
    for ball in moment_balls(5).values():
        assert np.asarray(ball.gauge(one - other)).max() <= 1 + 1e-12


def test_absolute_losses_and_their_least(seed):
    rng = source(seed)
    x, y = 2 * rng.uniform(40) - 1, rng.normal(40)
    a, b = np.linspace(-1, 1, 5), np.linspace(-2, 2, 7)
    direct = [[np.abs(y - i - j * x).sum() / 2 for j in b] for i in a]
    assert absolute_losses(x, y, a, b) == pytest.approx(np.array(direct))
    best = median_line(x, y)
    near = best + 0.05 * rng.normal((500, 2))
    least = np.abs(y - best[0] - best[1] * x).sum()
    others = np.abs(y - near[:, :1] - near[:, 1:] * x).sum(axis=1)
    assert least <= others.min() + 1e-4


@pytest.mark.parametrize("precision", [0.5, 200.0])
def test_the_truncated_normal_has_its_law(precision, seed):
    from scipy import stats

    rng, ball = source(seed), LpBall(1, 1, 1.0)
    draws = [
        truncated_normal(np.array([0.4]), np.array([[precision]]), ball, rng)[0]
        for _ in range(2000)
    ]
    sd = precision**-0.5
    law = stats.truncnorm((-1 - 0.4) / sd, (1 - 0.4) / sd, loc=0.4, scale=sd)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-4
    wrong = stats.truncnorm(-1.4 / sd / 0.8, 0.6 / sd / 0.8, loc=0.4, scale=0.8 * sd)
    assert precision < 1 or stats.kstest(draws, wrong.cdf).pvalue < 1e-4


def test_one_term_more_than_is_proved_is_no_lower_bound():
    lower, upper = optimum({"epsilon": 0.1, "delta": 0.1, "gap": 0.01, "seconds": 60.0})
    assert geng_bound(0.1, 0.1) <= lower
    assert geng_bound(0.1, 0.1, more=1) > upper
    for epsilon in (0.1, 1.0, 5.0):
        for delta in (0.01, 0.2, 0.5):
            cell = {"epsilon": epsilon, "delta": delta, "gap": 0.05, "seconds": 60.0}
            assert geng_bound(epsilon, delta) <= optimum(cell)[1]


def test_a_sample_that_is_too_large_forgets_the_rows():
    assert mean_distance(100, 0.8, 1.0, 100_000) == pytest.approx(0.3, abs=1e-3)
    assert mean_distance(100, 0.8, 1.0, 20) < 0.02


# --- published programs and rivals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "cells", "units", "value"),
    [
        (3, 0.3, 5, 3, 0.184878),
        (3, 0.3, 10, 3, 0.175109),
        (3, 0.3, 25, 2, 0.167614),
        (1, 0.2, 20, 2, 0.558819),
        (2, 0.1, 20, 2, 0.363832),
    ],
)
def test_the_paper_program(epsilon, delta, cells, units, value):
    upper, lower = paper_bounds(epsilon=epsilon, delta=delta, cells=cells, units=units)
    assert upper == pytest.approx(value, abs=2e-6)
    assert lower <= upper - 0.5 / cells + 1e-9


# --- the 200 printed cells ------------------------------------------------------------------------

QUICK_RECIPES = [  # table, epsilon, delta: grids of up to 40 cells on each side of zero
    ("dro-table-1", 0.2, 0.05),
    ("dro-table-1", 0.05, 0.1),
    ("dro-table-1", 2.0, 0.05),
    ("dro-table-1", 5.0, 0.1),
    ("dro-table-1", 5.0, 0.01),
    ("dro-table-1", 1.0, 0.5),
    ("dro-table-2", 0.5, 0.05),
    ("dro-table-2", 0.01, 0.2),
    ("dro-table-2", 0.2, 0.25),
]


def recipe_quote(name, epsilon, delta, text=None):
    table = EXPERIMENTS[name]
    cell = {
        "epsilon": epsilon,
        "delta": delta,
        "recipe": text or recipes(table.recipes)[epsilon, delta],
    }
    row = {**cell, **table.compute(cell, source(1))}
    return next(q for q in table.quotes([row]) if q.what.startswith("recipe"))


@pytest.mark.parametrize(("name", "epsilon", "delta"), QUICK_RECIPES)
def test_recipes_give_the_printed_digits(name, epsilon, delta):
    assert recipe_quote(name, epsilon, delta).within


def test_another_recipe_does_not_give_the_printed_digits():
    for text in ("5", "9", "11", "a10", "u10"):  # planted: a grid, a loss or a part that is wrong
        assert not recipe_quote("dro-table-1", 0.5, 0.1, text).within
    assert recipe_quote("dro-table-1", 0.5, 0.1).within


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dro-table-1", "dro-table-2"])
def test_all_recipes_give_the_printed_digits(name):
    table = EXPERIMENTS[name]
    cells = table._recipe_cells({**table.full, "grid": 200})
    assert len(cells) > 50
    off = [c for c in cells if not recipe_quote(name, c["epsilon"], c["delta"]).within]
    assert off == []


def test_every_printed_cell_has_its_verdict_in_the_docs():
    page = (ROOT / "docs" / "reproduced.md").read_text(encoding="utf-8")
    for table in (UPPER_RECIPES, LOWER_RECIPES):
        assert recipe_table(table) in page
        digits, finer, none = recipe_counts(table)
        assert digits + finer + none == 100
        assert all(Recipe.read(text) or text == "-" for text in recipes(table).values())
    (upper, _, _), (lower, _, _) = recipe_counts(UPPER_RECIPES), recipe_counts(LOWER_RECIPES)
    assert f"{upper} of Table 1 and {lower} of Table 2 are met" in page


def test_the_design_beats_its_rivals():
    design = design_planar_noise(epsilon=2.0, delta=0.2, resolution=4)
    rivals = planar_rivals(epsilon=2.0, delta=0.2, resolution=4)
    assert float(design.upper) < rivals.gaussian < rivals.coupled < rivals.composed
    assert rivals.gaussian == pytest.approx(0.960, abs=1e-3)
    axis = rivals.coupling
    pair = coupled_noise(Fraction(2), *axis, 4)
    assert pair.is_private(Fraction(1, 5))
    assert float(pair.upper) == rivals.coupled
    greedy = coupled_noise(Fraction(2), Fraction(2), Fraction(1, 5), 4)
    assert not greedy.is_private(Fraction(1, 5))  # the whole budget along both axes


def test_coupled_noise_is_the_product_of_its_axes():
    pair = coupled_noise(Fraction(2), Fraction(1), Fraction(1, 10), 2)
    cells = pair.probabilities()
    axis = cells.sum(axis=0)
    assert np.abs(cells - np.outer(axis, axis)).max() < 1e-12


# --- tables of others -----------------------------------------------------------------------------


def test_sales_are_read_cleaned_and_scaled(tmp_path):
    path = tmp_path / "sales.csv.gz"
    head = "sale_price,sale_date,lot_sf,tot_sf,latitude,longitude,age,beds,district\n"
    lines = [
        "300000,2012-05-01,5000,1500,47.6,-122.3,50,3,0\n",
        "500000,2015-05-01,4000,2500,47.7,-122.4,10,4,5\n",
        "2000000,2015-05-01,4000,2500,47.7,-122.4,10,4,5\n",  # too dear
        "500000,2015-05-01,4000,3500,47.7,-122.4,10,4,5\n",  # too large
    ]
    with gzip.open(path, "wt") as out:
        out.write(head + "".join(lines))
    columns = read_sales(path)
    assert len(columns["age"]) == 2
    for bounds in ("public", "quantiles"):
        x, y = scaled_sales(columns, bounds)
        assert x.shape == (2, 12)
        assert max(np.abs(x).max(), np.abs(y).max()) <= 1
    assert x[0, 7:].tolist() == [1, -1, -1, -1, -1]
    assert x[1, 7:].tolist() == [-1] * 5


def test_a_run_says_which_rows_it_had(tmp_path, monkeypatch):
    for table in TABLES:
        assert "GENERATED" in table.used()
        assert table.get in table.used()
        (tmp_path / table.file).parent.mkdir(exist_ok=True)
        (tmp_path / table.file).write_bytes(b"")
    monkeypatch.setenv("TIGHTDP_DATA", str(tmp_path))
    for table in TABLES:
        assert "GENERATED" not in table.used()
        assert str(tmp_path / table.file) in table.used()
    page = (ROOT / "docs" / "reproduced.md").read_text(encoding="utf-8")
    assert all(table.file in page for table in TABLES)
    readers = {name for name, item in EXPERIMENTS.items() if item.table}
    assert readers == {"knorm-figure-5", "dro-figure-4"}


def test_the_table_of_sales_is_built_from_its_source(tmp_path):
    """Six bands of areas from south to north, about even; no identifiers; rounded places."""
    lines = [
        "pinx,sale_id,sale_price,sale_date,use_type,area,lot_sf,wfnt,bldg_grade,tot_sf,beds,"
        "baths,age,eff_age,longitude,latitude"
    ]
    for k in range(120):
        area = k % 12
        lines.append(
            f"id{k},s{k},{200000 + k},2012-05-01,sfr,{area},5000,0,7,1500,3,1,50,50,"
            f"-122.3123456,{47.5 + 0.02 * ((7 * area) % 12):.7f}"
        )
    (tmp_path / "export.csv").write_text("\n".join(lines) + "\n")
    build_sales(tmp_path / "export.csv", tmp_path / "sales.csv.gz")
    with gzip.open(tmp_path / "sales.csv.gz", "rt") as text:
        sales = list(csv.DictReader(text))
    assert "pinx" not in sales[0]
    assert sales[0]["longitude"] == "-122.31235"
    south = sorted(sales, key=lambda sale: float(sale["latitude"]))
    bands_of = [int(sale["district"]) for sale in south]
    assert bands_of == sorted(bands_of)
    assert [bands_of.count(band) for band in range(6)] == [10, 20, 20, 20, 20, 30]
    columns = read_sales(tmp_path / "sales.csv.gz")
    assert len(columns["age"]) == 120


def test_bands_are_read_and_queries_stay_within_the_number_of_rows(tmp_path, seed):
    rng = source(seed)
    path = tmp_path / "bands.data"
    record = ["a"] * 20
    lines = []
    for i in range(60):
        numbers = [f"{v:.2f}" for v in rng.uniform(19)]
        numbers[i % 19] = "?"
        lines.append(",".join([*record, *numbers, "band" if i % 3 else "noband"]))
    path.write_text("\n".join([*lines, "a,broken,line"]))
    x, y = bands(path)
    assert x.shape == (60, 20)
    assert np.abs(x).max() <= 1
    assert set(y) == {-1.0, 1.0}
    noise = TruncatedLaplace(epsilon=1.0, delta=0.1, sensitivity=2.0)
    queries = descent_queries(x, y, noise, rng)
    assert len(queries) == 100 * 5
    assert np.abs(queries).max() < 60
