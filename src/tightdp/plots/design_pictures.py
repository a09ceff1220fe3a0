"""Pictures of designed noise: densities beside benchmarks, bounds against the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.design.designs import Design
from tightdp.design.problem import NoiseProblem
from tightdp.design.suboptimality import suboptimality
from tightdp.errors import DimensionError, fail
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.noise.law import ContinuousLaw
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.plots.canvas import ACCENT, COOL, INK, OTHERS, SPACE, axes_for, finish
from tightdp.privacy import text_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 1201


def plot_design(
    design: Design, ax: Axes | None = None, *, rivals: Mapping[str, ContinuousLaw] | None = None
) -> Axes:
    """The density of a designed noise beside laws with the same guarantee.

    An atom at zero is drawn as a needle, labelled with its probability.

    Parameters
    ----------
    design : Design
        For a real query; designs for integer queries have no density.
    rivals : mapping of names to laws, optional
        By default truncated Laplace and the analytic Gaussian, or Laplace and staircase without
        delta.

    Examples
    --------
    >>> from tightdp import design_noise
    >>> plot_design(design_noise(epsilon=1.0, delta=0.2)).get_xlabel()
    'noise'
    """
    law = design.noise
    if not isinstance(law, ContinuousLaw):
        fail("`design` must be for a real query: noise on the integers has no density.")
    given = _rivals(design) if rivals is None else dict(rivals)
    ax = axes_for(ax, (7.6, 4.8))
    reach = max(float(law.quantile(0.999)), -float(law.quantile(0.001)), law.sensitivity)
    x = np.linspace(-1.25 * reach, 1.25 * reach, _POINTS)
    ax.fill_between(x, np.asarray(law.density(x)), step="mid", color=SPACE, alpha=0.45)
    label = f"designed, E = {text_up(design.upper, 4)}"
    ax.step(x, np.asarray(law.density(x)), where="mid", color=ACCENT, label=label)
    for (name, other), (colour, style) in zip(given.items(), OTHERS, strict=False):
        value = suboptimality_value(other, design)
        ax.plot(
            x, other.density(x), color=colour, linestyle=style, label=f"{name}, E = {value:.4g}"
        )
    if isinstance(law, PiecewiseNoise) and law.atom:
        top = ax.get_ylim()[1]
        ax.plot([0, 0], [0, top], color=ACCENT, linewidth=2.4)
        ax.annotate(
            f"P(0) = {law.atom_share:.3f}", (0, top), xytext=(6, -12), textcoords="offset points"
        )
    ax.set_ylim(bottom=0.0)
    return finish(ax, "noise", "density", f"{_asked(design.problem)}, gap {design.gap:.2%}")


def _asked(problem: NoiseProblem) -> str:
    spent = f"epsilon = {text_up(problem.epsilon)}, delta = {text_up(problem.delta)}"
    return f"{spent}, loss {problem.loss.name}"


def suboptimality_value(law: ContinuousLaw, design: Design) -> float:
    """The expected loss of a law, under the loss of a design.

    >>> from tightdp import design_noise
    >>> design = design_noise(epsilon=1.0, delta=0.2)
    >>> round(suboptimality_value(Laplace(epsilon=1.0), design), 3)
    1.0
    """
    problem = design.problem
    return suboptimality(
        law, epsilon=problem.epsilon, delta=max(float(problem.delta), 0.0), loss=problem.loss
    ).value


def _rivals(design: Design) -> dict[str, ContinuousLaw]:
    problem = design.problem
    given: dict[str, Any] = {"epsilon": problem.epsilon, "sensitivity": problem.sensitivity}
    if not problem.delta:
        return {"Laplace": Laplace(**given), "staircase": Staircase(**given)}
    lossy = given | {"delta": float(problem.delta)}
    out: dict[str, ContinuousLaw] = {}
    if problem.delta <= 0.5:
        out["truncated Laplace"] = TruncatedLaplace(**lossy)
    return out | {"analytic Gaussian": AnalyticGaussian(**lossy)}


def plot_design_bounds(designs: Mapping[int, Design], ax: Axes | None = None) -> Axes:
    """Certified bounds against the number of cells: where the optimum must lie.

    Parameters
    ----------
    designs : mapping
        From the number of cells of the noise to a design of one problem.

    Examples
    --------
    >>> from tightdp import design_noise
    >>> found = {k: design_noise(epsilon=1.0, delta=0.2, cells=k) for k in (12, 24)}
    >>> plot_design_bounds(found).get_ylabel()
    'expected loss'
    """
    if len(designs) < 2:
        fail("`designs` must hold at least two designs.", DimensionError)
    cells = sorted(designs)
    upper = np.array([designs[k].upper for k in cells])
    lower = np.array([designs[k].lower for k in cells])
    ax = axes_for(ax, (7.2, 4.6))
    ax.fill_between(cells, lower, upper, color=SPACE, alpha=0.35)
    ax.plot(cells, upper, "o-", color=ACCENT, label="designed noise (upper bound)")
    ax.plot(cells, lower, "s--", color=COOL, label="no noise is better (lower bound)")
    ax.set_xscale("log", base=2)
    ax.set_xticks(cells, [str(k) for k in cells])
    title = _asked(designs[cells[0]].problem)
    return finish(ax, "cells of the noise", "expected loss", title)


def plot_suboptimality(
    epsilons: Sequence[float], ax: Axes | None = None, *, delta: float = 0.1, loss: str = "l1"
) -> Axes:
    """How much worse than the certified optimum the usual laws are, over a range of epsilon.

    Examples
    --------
    >>> plot_suboptimality([1.0, 2.0], delta=0.1).get_xlabel()
    'epsilon'
    """
    if len(epsilons) < 2 or not 0 < delta <= 0.5:
        fail("`epsilons` must be at least two numbers, and `delta` lie in (0, 0.5].")
    kinds: dict[str, Any] = {"truncated Laplace": TruncatedLaplace, "Gaussian": AnalyticGaussian}
    ax = axes_for(ax, (7.2, 4.6))
    for (name, kind), (colour, style) in zip(kinds.items(), OTHERS, strict=False):
        excess = [
            suboptimality(
                kind(epsilon=epsilon, delta=delta), epsilon=epsilon, delta=delta, loss=loss
            ).at_least
            for epsilon in epsilons
        ]
        ax.plot(epsilons, 100 * np.array(excess), "o", linestyle=style, color=colour, label=name)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xscale("log")
    y = "worse than the optimum, at least (%)"
    return finish(ax, "epsilon", y, f"delta = {text_up(delta)}, loss {loss}")
