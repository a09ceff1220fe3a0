"""Pictures of what is released and promised: values, errors, coefficients, audits and power."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.accounting.conversions import gaussian_dp_epsilon, zcdp_epsilon
from tightdp.audit.audit_report import KINDS, AuditReport
from tightdp.errors import (
    DimensionError,
    FloatArray,
    check_array,
    check_choice,
    check_filled,
    exact_fraction,
    fail,
)
from tightdp.meaning import power_curve
from tightdp.plots.canvas import (
    ACCENT,
    COOL,
    INK,
    SPACE,
    STYLES,
    axes_for,
    finish,
    name_rows,
    shortened,
    styles_for,
    write_value,
)
from tightdp.preview import Preview
from tightdp.printed import percent
from tightdp.privacy import text_down, text_up
from tightdp.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 44


def plot_release(
    release: Release, ax: Axes | None = None, *, entries: Sequence[str] | None = None
) -> Axes:
    """Released values as bars with their simultaneous intervals.

    Entries share one axis, so choose ``entries`` of one unit: the cells of a histogram, the means
    of comparable columns. The intervals are for the statistic without noise; entries whose error
    depends on the data have none.

    Examples
    --------
    >>> from tightdp import Guarantee
    >>> release = Release(
    ...     names=("a", "b"), value=np.array([7.0, 9.0]), integers=(7, 9), resolution=1,
    ...     guarantee=Guarantee(epsilon=1.0), noise="discrete Laplace",
    ...     covariance=2 * np.eye(2), half_width=np.array([4.0, 4.0]), confidence=0.95,
    ... )
    >>> plot_release(release).get_xlabel()
    'released value, 95% intervals for all entries at once'
    """
    names = release.names if entries is None else tuple(entries)
    rows = [release.names.index(check_choice("entries", name, release.names)) for name in names]
    check_filled("entries", rows, "entry")
    ax = axes_for(ax, (7.6, 2.1 + 0.42 * len(rows)))
    places = np.arange(len(rows))
    value = np.where(release.hidden, np.nan, release.value)[rows]  # as in print
    ax.barh(places, value, 0.62, color=SPACE, alpha=0.8, label="released")
    ax.errorbar(
        value,
        places,
        xerr=np.nan_to_num(np.abs(release.interval[rows] - value[:, None])).T,
        fmt="o",
        color=INK,
        markersize=4,
        capsize=4,
        linewidth=1.4,
        label="interval for the value without noise",
    )
    name_rows(ax, names)
    ax.axvline(0.0, color=INK, linewidth=0.6)
    ax.spines["left"].set_visible(False)
    level = f"{percent(release.confidence)} intervals for all entries at once"
    return finish(ax, f"released value, {level}", "entry", str(release.guarantee))


def plot_previews(previews: Mapping[str, Preview], ax: Axes | None = None) -> Axes:
    """The error to expect from several noises on one statistic, relative to the least.

    Examples
    --------
    >>> from tightdp import AdditiveMechanism, Category, Counts, Schema
    >>> counts = Counts(Schema({"k": Category(["a", "b", "c"], other="a")}, rows=100))
    >>> names = ["hull", "l1"]
    >>> made = {n: AdditiveMechanism(counts, noise=n, epsilon=1.0).preview() for n in names}
    >>> plot_previews(made).get_xlabel()
    'noise std, relative to the least'
    """
    check_filled("previews", previews, "preview")
    first, *others = previews.values()
    if any(other.names != first.names for other in others):
        fail("`previews` must be of one statistic: their entries differ.", DimensionError)
    errors = np.array([preview.std for preview in previews.values()])
    least = errors.min(axis=0)
    ax = axes_for(ax, (7.6, 2.0 + 0.24 * len(errors) * len(first.names)))
    height, places = 0.8 / len(errors), np.arange(len(first.names))
    for i, (name, preview) in enumerate(previews.items()):
        shift = (i - (len(errors) - 1) / 2) * height
        colour, _ = styles_for(list(previews))[name]
        ax.barh(places + shift, preview.std / least, 0.9 * height, color=colour, label=name)
    ax.axvline(1.0, color=INK, linewidth=0.8, linestyle="--")
    name_rows(ax, first.names)
    x = "noise std, relative to the least"
    return finish(ax, x, "entry", str(first.guarantee), len(errors))


def plot_coefficients(
    model: Any,
    other: ArrayLike | None = None,
    *,
    label: str = "not private",
    confidence: float | None = None,
    simultaneous: bool = False,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The coefficients of a fitted regression with their intervals.

    Parameters
    ----------
    model : LinearRegression, Ridge or LogisticRegression, fitted
        A logistic regression with ``interval_share``: intervals need the information matrix.
    other : array, optional
        Coefficients to draw beside them, in the same order; drawing those of private rows
        publishes them.
    label : str
        What the others are.
    confidence, simultaneous :
        See :meth:`~tightdp.LinearRegression.conf_int`.
    names : sequence of str, optional
        Which coefficients, by default all.

    Examples
    --------
    >>> import tightdp as tdp
    >>> x = np.linspace(-1, 1, 2_001)
    >>> model = tdp.LinearRegression(bounds=[(-1, 1), (-3, 3)], random_state=1)
    >>> plot_coefficients(model.fit(x[:, None], 2 * x), [2.0]).get_title()
    'epsilon = 1, replace-one neighbours, exact, SEEDED: not private'
    """
    known = list(model.coef_names_)
    chosen = known if names is None else list(names)
    places = [known.index(check_choice("names", name, known)) for name in chosen]
    bounds = model.conf_int(confidence=confidence, simultaneous=simultaneous)[places]
    level = model.release_.confidence if confidence is None else confidence
    ax = axes_for(ax, (7.2, 1.6 + 0.42 * len(places)))
    rows = np.arange(len(places), dtype=float)
    lift = 0.12 if other is not None else 0.0
    kind = "intervals, all at once" if simultaneous else "intervals"
    ax.hlines(
        rows - lift, bounds[:, 0], bounds[:, 1], color=ACCENT, lw=2.4, alpha=0.75,
        label=f"{percent(level)} {kind}",
    )  # fmt: skip
    values = np.ravel(model.coef_)[places]
    ax.plot(values, rows - lift, "o", color=ACCENT, mec="white", ms=8, label="private")
    if other is not None:
        others = check_array("other", other, 1, len(known))[places]
        ax.plot(others, rows + lift, "D", color=COOL, mec="white", ms=7, label=label)
    ax.axvline(0.0, color=INK, linewidth=0.8, alpha=0.6, zorder=0)
    name_rows(ax, chosen)
    return finish(ax, "coefficient", "", str(model.guarantee_), 3)


def plot_density(
    model: Any, ax: Axes | None = None, *, truth: Callable[[FloatArray], FloatArray] | None = None
) -> Axes:
    """A private density of one numeric column, over the consistent counts that it smooths.

    Parameters
    ----------
    model : Density
        Fitted to one numeric column.
    truth : callable, optional
        Another density to draw, of public origin; rows of the table are never drawn.

    Examples
    --------
    >>> from tightdp import Density
    >>> model = Density(bounds=(0, 1)).fit(np.linspace(0, 1, 500)[:, None] ** 2)
    >>> plot_density(model).get_ylabel()
    'density'
    """
    edges = getattr(model, "edges_", None)
    if edges is None or len(edges) != 1 or edges[0] is None:
        fail("`model` must be a Density, fitted to one numeric column.", DimensionError)
    (bins,), (name,) = edges, model.schema_
    ax = axes_for(ax, (7.2, 4.6))
    heights = model.probabilities_ / np.diff(bins)
    ax.stairs(heights, bins, fill=True, color=SPACE, alpha=0.45, label="counts, made consistent")
    x = np.linspace(bins[0], bins[-1], 1001)
    drawn = np.exp(model.score_samples(x[:, None]))
    ax.plot(x, drawn, color=ACCENT, linewidth=2, label="density")
    if truth is not None:
        ax.plot(x, truth(x), color=INK, linewidth=1.2, linestyle="--", label="truth")
    ax.set_ylim(bottom=0.0)
    return finish(ax, name, "density", str(model.guarantee_), 3)


def plot_audit(report: AuditReport, ax: Axes | None = None) -> Axes:
    """The events of an audit as bars: the epsilon each shows, and the claim as a line.

    Circles are the estimates without a margin; where the other input never gave the event, there is
    no finite one and an arrow stands at the end. The title is the verdict.

    Examples
    --------
    >>> from tightdp.audit import audit_pmf
    >>> plot_audit(audit_pmf([3, 1], [1, 3], epsilon=1.0)).get_title()
    'violated: epsilon = 1 claimed, at least 1.098 shown'
    """
    check_filled("report", report.findings, "finding")
    shown = [found.epsilon_lower for found in report.findings]
    seen = [found.epsilon_seen for found in report.findings]
    top = 1.25 * max([report.epsilon, *(v for v in [*shown, *seen] if math.isfinite(v))])
    ax = axes_for(ax, (8.4, 1.9 + 0.5 * len(shown)))
    for i, (bar, dot) in enumerate(zip(shown, seen, strict=True)):
        colour = ACCENT if report.violated and bar >= report.epsilon else COOL
        ax.barh(i, min(bar, top), 0.6, color=colour, alpha=0.75, label="_" if i else "shown")
        ax.plot(
            min(dot, 0.985 * top), i, ">" if math.isinf(dot) else "o", color="white", mec=INK, ms=7
        )
        write_value(ax, min(max(bar, dot), top) + 0.012 * top, i, text_down(bar, 3), bold=i == 0)
    ax.plot([], [], "o", color="white", mec=INK, label="estimate")
    ax.axvline(report.epsilon, color=INK, linestyle="--", linewidth=1.6, label="claimed")
    ax.set_xlim(0.0, 1.12 * top)
    name_rows(ax, [_two_lines(found.event) for found in report.findings])
    given = [f"at delta = {text_up(report.delta)}"] if report.delta else []
    given += [f"confidence {text_down(report.confidence)}"] if report.confidence < 1 else []
    x = " ".join(["epsilon", *(f"({text})" for text in given)])
    y = f"event\n({report.checked:,} {KINDS[report.kind]})"
    least = text_down(report.epsilon_lower, 4)
    claim = f"epsilon = {text_up(report.epsilon)} claimed, at least {least} shown"
    return finish(ax, x, y, f"{report.verdict}: {claim}", 3)


def _two_lines(event: str) -> str:
    """An event in two lines at most."""
    if len(event) <= _LONGEST:
        return event
    cut = event.rfind(" ", 0, _LONGEST)
    cut = cut if cut > 0 else _LONGEST
    return f"{event[:cut]}\n{shortened(event[cut:].strip(), _LONGEST)}"


def plot_power(
    epsilons: float | Sequence[float] | None = None,
    delta: float = 0.0,
    ax: Axes | None = None,
    *,
    rhos: float | Sequence[float] = (),
    mus: float | Sequence[float] = (),
) -> Axes:
    """The largest power of any test of a person's record against its level, for each guarantee.

    Guarantees are epsilons with one delta, rhos and mus, side by side. The diagonal is a blind
    guess; the corner above is no privacy.

    Examples
    --------
    >>> plot_power(1.0).get_ylabel()
    'power of the best test'
    >>> [line.get_label() for line in plot_power(1.0, rhos=0.1, mus=0.5).get_lines()][:3]
    ['epsilon = 1', 'rho = 0.1', 'mu = 0.5']
    """
    if epsilons is None:
        epsilons = () if np.size(rhos) or np.size(mus) else (0.1, 0.5, 1.0, 3.0)
    stated = _stated(epsilon=epsilons, rho=rhos, mu=mus)
    curves = [
        (label, power_curve(**given, **({"delta": delta} if "epsilon" in given else {})))
        for label, given in stated
    ]
    ax = axes_for(ax, (5.6, 5.6))
    for (label, curve), (colour, style) in zip(curves, STYLES, strict=False):
        ax.plot(*curve, color=colour, linestyle=style, linewidth=2, label=label)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, label="a blind guess")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    return finish(
        ax,
        "level: chance of a false alarm",
        "power of the best test",
        "What anybody can learn about one person",
        legend_title=f"delta = {text_up(delta)}" if delta else None,
    )


def plot_conversions(
    ax: Axes | None = None,
    *,
    rhos: float | Sequence[float] = (),
    mus: float | Sequence[float] = (),
) -> Axes:
    """The epsilon that a rho or a mu implies at every delta: one guarantee has many of them.

    Examples
    --------
    >>> [line.get_label() for line in plot_conversions(rhos=0.1, mus=0.447).get_lines()]
    ['rho = 0.1', 'mu = 0.447']
    """
    stated = _stated(rho=rhos, mu=mus)
    deltas = [Fraction(10) ** -k for k in range(1, 16)]
    ax = axes_for(ax, (6.4, 4.4))
    for (label, given), (colour, style) in zip(stated, STYLES, strict=False):
        if "rho" in given:
            rho = exact_fraction("rhos", given["rho"])
            implied = [zcdp_epsilon(rho, delta) for delta in deltas]
        else:
            square = exact_fraction("mus", given["mu"]) ** 2
            implied = [gaussian_dp_epsilon(square, delta) for delta in deltas]
        points = [float(delta) for delta in deltas], [float(epsilon) for epsilon in implied]
        ax.plot(*points, color=colour, linestyle=style, linewidth=2, label=label)
    ax.set_xscale("log")
    return finish(ax, "delta", "epsilon", "One guarantee, read at every delta")


def _stated(**units: float | Sequence[float]) -> list[tuple[str, dict[str, float]]]:
    """Guarantees in several units, each with its label."""
    found = [
        (f"{unit} = {text_up(value)}", {unit: value})
        for unit, values in units.items()
        for value in map(float, np.atleast_1d(values))
    ]
    if not 1 <= len(found) <= len(STYLES):
        names = " and ".join(f"`{unit}s`" for unit in units)
        fail(f"{names} must be one to {len(STYLES)} numbers, together.", DimensionError)
    return found
