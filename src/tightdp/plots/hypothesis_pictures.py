"""Pictures of tests: the law of a statistic where nothing is to be found, and power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import DimensionError, check_array, check_instance, check_real, fail
from tightdp.mechanisms.hypothesis_tests import P_VALUE, HypothesisTest
from tightdp.plots.canvas import INK, STYLES, axes_for, finish
from tightdp.printed import short
from tightdp.release import Release
from tightdp.sample_sizes import power

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_null_law(test: HypothesisTest, release: Release, ax: Axes | None = None) -> Axes:
    """Statistics of simulated releases under the null hypothesis, and that of a release.

    Simulated at the likely nuisance parameters; the p-value is the largest over others, too.

    Parameters
    ----------
    test : HypothesisTest
    release : Release
        Of this test.

    Examples
    --------
    >>> from tightdp import Category, GoodnessOfFit, Schema
    >>> schema = Schema({"die": Category(list("123456"), other="6")}, rows=600)
    >>> fair = GoodnessOfFit(schema, "die", epsilon=1)
    >>> plot_null_law(fair, fair.release({"die": [*"123456"] * 100}, rng=1)).get_ylabel()
    'simulated releases'
    """
    check_instance("test", test, HypothesisTest)
    own, found = test.null_law(release)
    ax = axes_for(ax, (6.4, 4.0))
    (bars, _), (line, style) = STYLES[:2]
    ax.hist(found, bins=40, color=bars, alpha=0.6, label="nothing to be found")
    said = f", p = {short(release[P_VALUE])}" if P_VALUE in release.names else ""
    ax.axvline(own, color=line, linestyle=style, linewidth=2, label=f"released{said}")
    return finish(ax, "test statistic", "simulated releases", type(test).__name__)


def plot_test_power(
    tests: Mapping[str, Any], effects: Sequence[float], alpha: float = 0.05, ax: Axes | None = None
) -> Axes:
    """The power of tests against an effect; the same tests at other epsilons, for instance.

    Parameters
    ----------
    tests : mapping of names to tests
    effects : sequence of float
    alpha : float

    Examples
    --------
    >>> from tightdp import Interval, ProportionTest, Schema
    >>> test = ProportionTest(Schema({"age": Interval(0, 99)}, rows=200), "age", low=18, epsilon=1)
    >>> plot_test_power({"epsilon = 1": test}, [0.5, 0.55, 0.6]).get_ylabel()
    'power at level 0.05'
    """
    if not isinstance(tests, Mapping) or not 1 <= len(tests) <= len(STYLES):
        fail(f"`tests` must be one to {len(STYLES)} tests by name.", DimensionError)
    ax = axes_for(ax, (6.4, 4.0))
    places = np.asarray(effects, dtype=np.float64)
    for (name, test), (colour, style) in zip(tests.items(), STYLES, strict=False):
        found = [power(test, float(effect), alpha=alpha) for effect in places]
        ax.plot(places, found, color=colour, linestyle=style, linewidth=2, label=name)
    ax.set_ylim(0.0, 1.02)
    return finish(ax, "effect", f"power at level {alpha:g}", "What a test detects")


def plot_coverage(intervals: Mapping[str, ArrayLike], truth: float, ax: Axes | None = None) -> Axes:
    """Intervals of many simulated tables, one method beside the other, and what they should hold.

    Parameters
    ----------
    intervals : mapping of names to arrays, shape (tables, 2)
    truth : float

    Examples
    --------
    >>> plot_coverage({"short": [[0, 1], [2, 3]], "long": [[0, 3], [1, 4]]}, 1.5).get_xlabel()
    'interval'
    """
    if not isinstance(intervals, Mapping) or not 1 <= len(intervals) <= len(STYLES):
        fail(f"`intervals` must be one to {len(STYLES)} arrays by name.", DimensionError)
    value = check_real("truth", truth)
    ax = axes_for(ax, (6.4, 4.0))
    start = 0
    for (name, given), (colour, style) in zip(intervals.items(), STYLES, strict=False):
        ends = check_array("intervals", given, 2, width=2)
        places = start + np.arange(len(ends))
        held = np.mean((ends[:, 0] <= value) & (value <= ends[:, 1]))
        label = f"{name}: {held:.0%} hold it"
        ax.hlines(places, *ends.T, color=colour, linestyle=style, linewidth=1.5, label=label)
        start += len(ends) + 1
    ax.axvline(value, color=INK, linewidth=1.0)
    ax.set_yticks([])
    return finish(ax, "interval", "simulated tables", "What intervals hold")
