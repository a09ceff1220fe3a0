"""Plots: they draw, say what they draw, and draw the right numbers."""

from __future__ import annotations

import runpy
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import tightdp as tdp
from tightdp import plots
from tightdp.errors import DegenerateBodyError, DimensionError, MissingDependencyError
from tightdp.privacy import text_up

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parents[1]
SPACE = tdp.SensitivitySpace.sum_and_squares()
RECTANGLE = tdp.LpBall(2, np.inf, [100.0, 1.0])
DIAMOND = tdp.LpBall(2, 1, [110.0, 11.0])
BALLS = {
    "l1": tdp.LpBall(2, 1, 3.0),
    "l2": tdp.LpBall(2, 2, 0.1),
    "linf": tdp.LpBall(2, np.inf),
    "l3": tdp.LpBall(2, 3, [1.0, 50.0]),
    "rectangle": RECTANGLE,
    "diamond": DIAMOND,
    "ellipse": tdp.Ellipsoid([[4.0, 1.0], [1.0, 1.0]]),
    "hull": SPACE.hull(),
    "polygon": tdp.Polytope.from_vertices([[2, 1], [-2, -1], [0, 1], [0, -1]]),
    "cut": tdp.LpBall(2, 1, 1.5).intersection(tdp.LpBall(2, np.inf)),
    "rotated": tdp.LpBall(2, np.inf).image([[1.0, 2.0], [0.0, 1.0]]),
}


@pytest.fixture(autouse=True)
def _no_figures_left():
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    return next(found for found in ax.lines if found.get_label() == label)


# --- every plot ---------------------------------------------------------------------------------


def ranking(space=SPACE, **options):
    return tdp.rank_norms(space, 1.0, **options)


FACTS = tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b", "c"], other="a")}, rows=3))
COUNTS = tdp.AdditiveMechanism(FACTS, epsilon=1.0)
LAPLACE = tdp.AdditiveMechanism(FACTS, noise="laplace", epsilon=1.0).preview()
ONE = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=5)
TWO = tdp.Schema({"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}, rows=5)
FIVE = {"x": [0.1, 0.2, 0.4, 0.7, 0.9]}

BOOK = tdp.Tables(
    tdp.Schema({n: tdp.Category(["a", "b", "c"], other="a") for n in ("k", "t")}, rows=3),
    2,
    epsilon=1,
).release({"k": ["a", "b", "c"], "t": ["a", "a", "b"]}, rng=1)
FAIR = tdp.GoodnessOfFit(
    tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=100), "k", epsilon=1
)

DRAW = {
    "space": lambda: plots.plot_sensitivity_space(SPACE),
    "space, add-remove": lambda: plots.plot_sensitivity_space(
        tdp.SensitivitySpace.sum_and_squares(neighbors="add-remove")
    ),
    "box": lambda: plots.plot_sensitivity_space(
        tdp.SensitivitySpace.of({"x": tdp.Interval(0, 1), "y": tdp.Interval(-1, 3)})
    ),
    "cells": lambda: plots.plot_sensitivity_space(tdp.SensitivitySpace.histogram(2)),
    "products": lambda: plots.plot_sensitivity_space(
        tdp.SensitivitySpace.of({"x": tdp.Interval(0, 1), "y": tdp.Interval(-1, 1)}, ["x", "x:y"])
    ),
    "example": plots.plot_example_sensitivity,
    "noise": lambda: plots.plot_noise_density(tdp.KNormNoise(SPACE.hull(), 1.0)),
    "wide noise": lambda: plots.plot_noise_density(tdp.KNormNoise(tdp.LpBall(2, 2, [3, 1]), 1.0)),
    "thin noise": lambda: plots.plot_noise_density(tdp.KNormNoise(RECTANGLE, 0.1)),
    "ranking": lambda: plots.plot_ranking(ranking()),
    "flat ranking": lambda: plots.plot_ranking(ranking(tdp.SensitivitySpace.histogram(4))),
    "caution": plots.plot_cautionary_example,
    "design": lambda: plots.plot_design(tdp.design_noise(epsilon=3.0, delta=0.3)),
    "pure design": lambda: plots.plot_design(tdp.design_noise(epsilon=1.0, delta=0)),
    "design bounds": lambda: plots.plot_design_bounds(
        {k: tdp.design_noise(epsilon=1.0, delta=0.2, cells=k) for k in (24, 48)}
    ),
    "suboptimality": lambda: plots.plot_suboptimality([1.0, 2.0]),
    "density": lambda: plots.plot_density(
        tdp.Density(bounds=(0, 1), random_state=1).fit(np.linspace(0, 1, 300)[:, None]),
        truth=np.ones_like,
    ),
    "null law": lambda: plots.plot_null_law(FAIR, FAIR.release({"k": ["a", "b"] * 50}, rng=1)),
    "power of a test": lambda: plots.plot_test_power({"one": FAIR, "two": FAIR}, [0.0, 0.2]),
    "table": lambda: plots.plot_table(BOOK.table("k", "t")),
    "table with one side": lambda: plots.plot_table(BOOK.table("k")),
    "rates": lambda: plots.plot_rates({"a": {10: 1.0, 100: 0.1}, "b": {10: 1.0, 100: 0.4}}),
    "quantile law": lambda: plots.plot_quantile_law(
        [tdp.KNormQuantile(ONE, "x", tau, epsilon=1) for tau in (0.1, 0.5)], FIVE
    ),
    "plane law": lambda: plots.plot_plane_law(
        tdp.KNormQuantileRegression(TWO, epsilon=4, grid=6), FIVE | {"y": [0.1, 0.3, 0.4, 0.8, 0.9]}
    ),
    "median rates": plots.plot_median_rates,
    "power": plots.plot_power,
    "power, delta": lambda: plots.plot_power(1.0, 0.1),
    "release": lambda: plots.plot_release(COUNTS.release({"k": ["a", "b", "a"]}, rng=1)),
    "previews": lambda: plots.plot_previews({"hull": COUNTS.preview(), "laplace": LAPLACE}),
}


@pytest.mark.slow_for(
    "pure design", "flat ranking", "wide noise", "thin noise", "median rates", "plane law"
)
@pytest.mark.parametrize("name", DRAW)
def test_a_plot_is_labelled_whole_and_saved(name, tmp_path):
    drawn = np.atleast_1d(DRAW[name]())
    figure = drawn[0].figure
    for ax in drawn:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_title()
        assert len(labels(ax)) == len(set(labels(ax))) >= 2
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    # Nothing is clipped: all that is drawn lies on the page, to within a pixel.
    page, ink = figure.get_size_inches(), figure.get_tightbbox()
    assert (ink.min > -0.01).all()
    assert (ink.max < page + 0.01).all()
    small = [t for ax in drawn for t in [*ax.texts, *ax.get_legend().get_texts()]]
    assert all(text.get_fontsize() >= 9 for text in small)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.plot_sensitivity_space(SPACE, ax=ax),
        lambda ax: plots.plot_noise_density(tdp.KNormNoise(SPACE.hull(), 1.0), ax=ax),
        lambda ax: plots.plot_ranking(ranking(), ax=ax),
        lambda ax: plots.plot_release(COUNTS.release({"k": ["a", "b", "b"]}, rng=1), ax=ax),
        lambda ax: plots.plot_previews({"hull": COUNTS.preview()}, ax=ax),
        lambda ax: plots.plot_design(tdp.design_noise(epsilon=1.0, delta=0), ax=ax),
    ],
)
def test_given_axes_are_used_and_returned(draw):
    _, ax = plt.subplots()
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("draw", [plots.plot_example_sensitivity, plots.plot_cautionary_example])
def test_given_panels_are_used_and_counted(draw):
    _, axes = plt.subplots(1, 2, sharex=True, sharey=True)
    assert list(draw(axes)) == list(axes)
    axes[0].figure.draw_without_rendering()
    with pytest.raises(DimensionError, match="`axes` must be 2 axes"):
        draw(axes[:1])


# --- outlines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BALLS)
def test_an_outline_is_the_unit_sphere_once_around(name):
    ball = BALLS[name]
    edge = plots.outline(ball)
    np.testing.assert_allclose(ball.gauge(edge), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(edge[0], edge[-1])
    scaled = edge / ball.bounding_box()
    turn = np.diff(np.unwrap(np.arctan2(scaled[:, 1], scaled[:, 0])))
    assert (turn > 0).all()
    assert turn.sum() == pytest.approx(2 * np.pi)
    # Its area is the volume: corners are not cut (chords of 720 cost less than 1e-4).
    x, y = edge.T
    area = 0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    assert area == pytest.approx(ball.volume(), rel=1e-4)


@pytest.mark.parametrize("name", [n for n, ball in BALLS.items() if ball.vertices() is not None])
def test_an_outline_goes_through_every_vertex(name):
    corners = BALLS[name].vertices()
    edge = plots.outline(BALLS[name], points=5)
    for corner in np.vstack([corners, -corners]):
        assert np.abs(edge - corner).max(axis=1).min() < 1e-9 * np.abs(corners).max()


def test_a_flat_ball_is_a_segment():
    edge = plots.outline(tdp.SensitivitySpace.histogram(2).hull())
    np.testing.assert_allclose(edge, [[1, -1], [-1, 1], [1, -1]], atol=1e-12)


# --- sensitivity spaces -------------------------------------------------------------------------


def test_the_space_is_drawn_exactly_inside_its_balls():
    ax = plots.plot_sensitivity_space(SPACE)
    (region,) = ax.collections
    points = region.get_paths()[0].vertices
    np.testing.assert_array_less(
        np.abs(points[:, 1]), 2 - 2 * (1 - np.abs(points[:, 0])) ** 2 + 1e-9
    )
    assert region.get_label() == "S, exact"
    names = [r"$\ell_1$, sensitivity 3.125", r"$\ell_2$, sensitivity 2.268"]
    names += [r"$\ell_\infty$, sensitivity 2", "hull of S"]
    assert labels(ax) == ["S, exact", *names]
    hull = line(ax, "hull of S").get_xydata()
    np.testing.assert_allclose(SPACE.hull().gauge(hull), 1.0, rtol=1e-9)
    for name, p, radius in zip(names, (1, 2, np.inf), (3.125, 2.268172564243415, 2), strict=False):
        edge = line(ax, name).get_xydata()
        np.testing.assert_allclose(tdp.LpBall(2, p, radius).gauge(edge), 1.0, rtol=1e-9)
        assert tdp.LpBall(2, p, radius).contains(points, tolerance=1e-9).all()


def test_samples_are_called_samples_and_stay_points():
    space = tdp.SensitivitySpace.of({"x": tdp.Interval(0, 1), "y": tdp.Interval(-1, 3)})
    ax = plots.plot_sensitivity_space(space)
    cloud = line(ax, "samples of S (random movements)")
    assert cloud.get_linestyle() == "None"
    assert space.hull().contains(cloud.get_xydata(), tolerance=1e-9).all()


def test_extreme_rows_of_a_finite_domain():
    space = tdp.SensitivitySpace.from_points([[0, 0], [1, 0], [0, 2]])
    ax = plots.plot_sensitivity_space(space)
    moves = {tuple(row) for row in line(ax, "movements by extreme rows").get_xydata() + 0.0}
    assert moves == {(0, 0), (1, 0), (-1, 0), (0, 2), (0, -2), (1, -2), (-1, 2)}


def test_a_ball_that_is_not_valid_is_labelled():
    balls = {"small": tdp.LpBall(2, 2, 1.0), "large": tdp.LpBall(2, 2, 3.0)}
    ax = plots.plot_sensitivity_space(SPACE, balls)
    assert labels(ax)[1:] == ["small (does not contain S)", "large"]


def test_figure_1_has_exact_and_entrywise_sensitivities():
    exact, rough = plots.plot_example_sensitivity()
    radii = {
        exact: (25 / 8, np.sqrt(71 + 8 * np.sqrt(2)) / 4, 2.0),
        rough: (4.0, np.sqrt(8), 2.0),
    }
    for ax, expected in radii.items():
        for drawn, p, radius in zip(ax.lines, (1, 2, np.inf), expected, strict=False):
            np.testing.assert_allclose(
                tdp.LpBall(2, p, radius).gauge(drawn.get_xydata()), 1.0, rtol=1e-9
            )
    assert r"$\ell_1$, sensitivity 25/8" in labels(exact)
    assert r"$\ell_1$, sensitivity 4" in labels(rough)
    exact.figure.draw_without_rendering()
    np.testing.assert_allclose(exact.get_xlim(), rough.get_xlim(), rtol=1e-6)


# --- noise --------------------------------------------------------------------------------------


def test_concentration_sets_have_their_probability(seed):
    noise = tdp.KNormNoise(SPACE.hull(), epsilon=0.5)
    ax = plots.plot_noise_density(noise, levels=(0.9, 0.5))
    assert labels(ax) == ["50 %: t = 3.36", "90 %: t = 7.78"]
    draws = noise.ball.gauge(noise.sample(20_000, rng=seed))
    for level, drawn in zip((0.5, 0.9), ax.lines, strict=True):
        radius = noise.ball.gauge(drawn.get_xydata())
        np.testing.assert_allclose(radius, noise.concentration_radius(level), rtol=1e-9)
        error = np.sqrt(level * (1 - level) / 20_000)
        assert abs(np.mean(draws <= radius[0]) - level) < 5 * error  # 5 standard errors
        assert abs(np.mean(draws <= 0.9 * radius[0]) - level) > 5 * error  # 10 % off is seen


def test_the_image_is_the_density():
    noise = tdp.KNormNoise(DIAMOND, epsilon=1.0)
    ax = plots.plot_noise_density(noise)
    grid = ax.collections[0].get_array()
    assert grid.max() == pytest.approx(1 / (2 * 2420))  # epsilon^m / (m! vol K) at 0


# --- rankings -----------------------------------------------------------------------------------


def test_bars_are_relative_to_the_best():
    table = ranking()
    ax = plots.plot_ranking(table, criteria=("volume", "variance", "linf"))
    bars = {group.get_label(): group[0].get_width() for group in ax.containers[::3]}
    assert bars["hull"] == 1.0
    assert bars[r"$\ell_1$"] == pytest.approx(np.sqrt(19.53125 / (40 / 3)))
    variances = [group[0].get_width() for group in ax.containers[1::3]]
    expected = [row.variance.value / table["hull"].variance.value for row in table]
    assert variances == pytest.approx(expected)
    assert [text.get_text() for text in ax.texts].count("1.00") == 3


def test_disagreement_is_in_the_title():
    table = ranking(candidates=("l1", "l2", "linf"))
    title = plots.plot_ranking(table, criteria=("volume", "variance", "l1")).get_title()
    assert title == r"volume prefers $\ell_\infty$; variance, $\ell_1$ loss prefer $\ell_2$"
    assert plots.plot_ranking(ranking()).get_title() == "Every criterion prefers hull"


def test_estimates_have_error_bars_and_flat_bodies_no_volume_bar():
    ax = plots.plot_ranking(ranking(tdp.SensitivitySpace.histogram(4)), criteria=("volume", "l2"))
    assert "2 standard errors" in ax.get_xlabel()
    assert len(ax.collections) == 4  # error bars of the four simulated losses
    assert [text.get_text() for text in ax.texts].count("more dimensions") == 3


def test_large_ratios_are_drawn_on_a_log_scale():
    balls = {"small": tdp.LpBall(2, np.inf), "large": tdp.LpBall(2, 2, [1.0, 1.0])}
    space = tdp.SensitivitySpace.affine(
        np.diag([1.0, 100.0]), [tdp.Interval(-0.5, 0.5), tdp.Interval(-0.5, 0.5)]
    )
    ax = plots.plot_ranking(tdp.rank_norms(space, 1.0, {"hull": space.hull(), **balls}))
    assert ax.get_xscale() == "linear"
    wide = tdp.SensitivitySpace.affine(
        np.diag([1.0, 1e4]), [tdp.Interval(-0.5, 0.5), tdp.Interval(-0.5, 0.5)]
    )
    ax = plots.plot_ranking(tdp.rank_norms(wide, 1.0, {"hull": wide.hull(), **balls}))
    assert ax.get_xscale() == "log"
    ax.figure.draw_without_rendering()


# --- the cautionary example ---------------------------------------------------------------------


def test_the_cautionary_table_is_exact():
    left, right = plots.plot_cautionary_example()
    texts = [text.get_text() for text in right.texts]
    assert texts == [
        *("40000", "4", "150.005", "150.031", "151.5", "400"),
        *("24200", "242", "111", "112.377", "121", "2420"),
    ]
    outer, inner = (patch.get_xy() for patch in left.patches)
    np.testing.assert_allclose(DIAMOND.gauge(outer), 1.0, rtol=1e-9)
    np.testing.assert_allclose(RECTANGLE.gauge(inner), 1.0, rtol=1e-9)
    assert DIAMOND.contains(inner, tolerance=1e-9).all()


# --- refusals and surroundings ------------------------------------------------------------------


def test_only_the_plane_can_be_drawn():
    with pytest.raises(DimensionError, match="`space` must have dimension 2"):
        plots.plot_sensitivity_space(tdp.SensitivitySpace.histogram(3))
    with pytest.raises(DimensionError, match="`noise` must have dimension 2"):
        plots.plot_noise_density(tdp.KNormNoise(tdp.LpBall(3, 1), 1.0))
    with pytest.raises(DimensionError, match="`ball` must have dimension 2"):
        plots.outline(tdp.LpBall(1, 1))
    with pytest.raises(DimensionError, match="wrong"):
        plots.plot_sensitivity_space(SPACE, {"wrong": tdp.LpBall(3, 1)})
    with pytest.raises(DegenerateBodyError, match="flat"):
        plots.plot_noise_density(tdp.KNormNoise(tdp.SensitivitySpace.histogram(2).hull(), 1.0))
    assert plt.get_fignums() == []  # a refusal leaves no empty figure behind


@pytest.mark.parametrize("levels", [(), (0.5, 1.0), (0.0,)])
def test_levels_are_probabilities(levels):
    with pytest.raises(tdp.ParameterError, match="`levels`"):
        plots.plot_noise_density(tdp.KNormNoise(SPACE.hull(), 1.0), levels=levels)


@pytest.mark.parametrize("criteria", [(), ("volume", "beauty")])
def test_criteria_are_known(criteria):
    with pytest.raises(tdp.ParameterError, match="`criteria`"):
        plots.plot_ranking(ranking(), criteria=criteria)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"\[plots\]"):
        plots.plot_example_sensitivity()


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, tightdp.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_example_prints_tables_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "least_noise.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("Recommended: hull") == 4
    pictures = sorted((tmp_path / "output").glob("*.png"))
    assert len(pictures) == 7
    assert all(f"{Path('output') / path.name}" in printed for path in pictures)


def test_the_first_release_shows_the_whole_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "first_release.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for said in ("missing, unseen -> west", "not included", "the same answer", "Difference:"):
        assert said in printed
    assert "Remaining: epsilon = 0.2" in printed.replace("\n", " ")
    assert len(list((tmp_path / "output").glob("release_*.png"))) == 3
    with tdp.Ledger.open(tmp_path / "output" / "ledger.db") as ledger:
        assert ledger.spent.epsilon == Fraction(4, 5)


def test_releases_are_drawn_with_their_intervals():
    release = COUNTS.release({"k": ["a", "b", "a"]}, rng=2)
    ax = plots.plot_release(release, entries=["k[b]"])
    assert [bar.get_width() for bar in ax.patches] == [release["k[b]"]]
    with pytest.raises(tdp.ParameterError, match="Did you mean"):
        plots.plot_release(release, entries=["k[bb]"])
    with pytest.raises(DimensionError, match="entries"):
        plots.plot_release(release, entries=[])
    two = tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=3))
    other = tdp.AdditiveMechanism(two, epsilon=1.0).preview()
    with pytest.raises(DimensionError, match="one statistic"):
        plots.plot_previews({"hull": COUNTS.preview(), "other": other})
    with pytest.raises(DimensionError, match="at least one"):
        plots.plot_previews({})


def test_designs_are_drawn_with_their_certified_losses():
    design = tdp.design_noise(epsilon=3.0, delta=0.3)
    ax = plots.plot_design(design)
    assert f"designed, E = {text_up(design.upper, 4)}" in labels(ax)
    assert any("P(0) = 0.2" in text.get_text() for text in ax.texts)  # the atom is shown
    whole = tdp.design_noise(epsilon=1.0, delta=0.1, integer=True)
    with pytest.raises(tdp.ParameterError, match="real query"):
        plots.plot_design(whole)
    with pytest.raises(DimensionError, match="two designs"):
        plots.plot_design_bounds({8: design})
    with pytest.raises(tdp.ParameterError, match="epsilons"):
        plots.plot_suboptimality([1.0])


# --- densities and rates ------------------------------------------------------------------------


def test_a_density_is_drawn_as_it_is():
    model = tdp.Density(bounds=(0, 2), bins=4, random_state=1).fit(np.linspace(0, 2, 300)[:, None])
    ax = plots.plot_density(model)
    x, y = line(ax, "density").get_data()
    np.testing.assert_allclose(y, np.exp(model.score_samples(x[:, None])))
    assert np.trapezoid(y, x) == pytest.approx(1, abs=1e-4)
    with pytest.raises(DimensionError, match="one numeric column"):
        plots.plot_density(tdp.Density(bounds=(0, 1)).fit(np.zeros((9, 2))))


def test_rates_name_their_powers():
    ax = plots.plot_rates({"x": {n: n**-0.5 for n in (100, 1000, 10_000)}})
    assert labels(ax) == ["x, $n^{-0.50}$"]
    for bad in ({}, {"x": {100: 1.0}}):
        with pytest.raises(DimensionError, match="errors"):
            plots.plot_rates(bad)


def test_the_gradient_mechanism_is_faster_than_sampling_and_the_loss_is_not():
    """Theorem 3.2 of [3]: errors of order 1/n, against one over the root of n."""
    ax = plots.plot_median_rates()
    slopes = {
        drawn.get_label(): np.polyfit(*np.log(drawn.get_xydata()[-5:].T), 1)[0]
        for drawn in ax.lines
    }
    assert slopes["K-norm gradient mechanism"] == pytest.approx(-1, abs=0.02)
    assert slopes["exponential mechanism, absolute loss"] == pytest.approx(-0.5, abs=0.02)


def test_the_law_of_a_quantile_is_a_density():
    ax = plots.plot_quantile_law(tdp.KNormQuantile(ONE, "x", 0.5, epsilon=1), FIVE)
    heights, edges, _ = ax.patches[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(1, abs=1e-3)  # next to no tail is left out
    np.testing.assert_allclose(edges[1:-1], FIVE["x"], atol=1e-4)
    with pytest.raises(DimensionError, match="mechanisms"):
        plots.plot_quantile_law([], FIVE)
    wide = tdp.Schema(dict.fromkeys("abc", tdp.Interval(0, 1)), rows=5)
    with pytest.raises(DimensionError, match="dimension 2"):
        plots.plot_plane_law(tdp.KNormQuantileRegression(wide, epsilon=1), None)
