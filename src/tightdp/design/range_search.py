"""Noise that depends on where the true value lies, by optimisation, certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.design.planar_grid import LOSSES, mean_loss, node_loss
from tightdp.design.programs import InfeasibleError
from tightdp.design.range_bound import RangeBound
from tightdp.design.range_law import DataDependentDesign
from tightdp.design.range_programs import RangeProgram, RangeSolution, Triple
from tightdp.design.records import check_promise
from tightdp.errors import (
    DimensionError,
    FloatArray,
    UndecidedError,
    check_choice,
    check_count,
    check_flag,
    check_length,
    check_list,
    check_positive,
    exact_fraction,
    fail,
    fraction_within,
    shown,
)
from tightdp.noise.range_noise import needed_shifts

_TOTAL = 1 << 52
_SPARED = (1e-8, 1e-6, 1e-4, 1e-2)  # shares of delta left for rounding, tried in turn
_MOST_CELLS = 400


@dataclass(frozen=True)
class _RangeTask:
    """The problem in units of one cell."""

    epsilon: Fraction
    delta: Fraction
    loss: str
    reach: int
    edges: tuple[int, ...]
    weights: tuple[Fraction, ...]
    most: Fraction | None
    monotone: bool
    reflect: bool

    def program(self, costs: list[Fraction], shares: list[Fraction], spared: float) -> RangeProgram:
        losses = np.array([float(c) for c in costs])
        return RangeProgram(
            costs=np.outer([float(w) for w in shares], losses),
            losses=losses,
            factor=math.exp(self.epsilon),
            delta=float(self.delta) * (1 - spared),
            most=None if self.most is None else float(self.most) * (1 - spared),
            mirrored=self.reflect,
        )


def design_data_dependent_noise(
    *,
    epsilon: Number,
    delta: Number,
    sensitivity: Number,
    query_range: tuple[Any, Any],
    resolution: int = 4,
    loss: str = "l1",
    weights: Sequence[Any] | None = None,
    partition: Sequence[Any] | None = None,
    instance_optimal: object = None,
    monotone: bool = False,
    reflect: bool = True,
    support: object = None,
) -> DataDependentDesign:
    """A noise for each interval of a query's range, with the least weighted mean loss, certified.

    Everything here is public: choose range, weights and partition without looking at the data.

    Parameters
    ----------
    epsilon, delta : float, Fraction or Decimal
        delta in (0, 1).
    sensitivity : float
        How far neighbours move the query.
    query_range : pair of floats
        Values outside are clamped; the upper end is raised to a whole number of cells.
    resolution : int
        Cells per ``sensitivity``: intervals of the range and of the noise.
    loss : {"l1", "l2"}
    weights : sequence, optional
        Public weight of each interval (each group of ``partition``); by default its length.
    partition : sequence, optional
        Increasing edges of groups of intervals that share a noise, from the lower to the upper end
        of the range, in whole cells. By default every interval has its own.
    instance_optimal : float, optional
        The largest mean loss allowed at any true value.
    monotone : bool
        Whether every density must fall on both sides of zero.
    reflect : bool
        Solve half of the problem when it is its own mirror image.
    support : float, optional
        Half-width of the noise, in units of ``sensitivity``.

    Returns
    -------
    DataDependentDesign

    Examples
    --------
    >>> design = design_data_dependent_noise(
    ...     epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(-2.0, 2.0), resolution=4)
    >>> round(float(design.upper), 4), design.edges
    (0.8153, (0, 1, 2, 3, 4, 5, 6, 7, 8))
    """
    name = check_choice("loss", loss, LOSSES)
    asked, spare = check_promise(epsilon, delta)
    change = fraction_within("sensitivity", sensitivity, "(0, inf)")
    reach = check_count("resolution", resolution, most=128)
    low, count = _range(query_range, change / reach)
    edges = _edges(partition, low, change / reach, count)
    shares, mirrored = _weights(weights, edges), check_flag("reflect", reflect)
    unit = (change / reach) ** (1 if name == "l1" else 2)
    most = None
    if instance_optimal is not None:
        most = fraction_within("instance_optimal", instance_optimal, "(0, inf)")
    task = _RangeTask(
        epsilon=asked,
        delta=spare,
        loss=name,
        reach=reach,
        edges=edges,
        weights=shares,
        most=None if most is None else most / unit,
        monotone=bool(monotone),
        reflect=mirrored and _symmetric(edges, shares),
    )
    half = reach * (
        _support(asked, spare) if support is None else check_positive("support", support)
    )
    cells = math.ceil(half)
    bound = _bound(task, cells)
    for spared in _SPARED:
        design = DataDependentDesign(
            epsilon=asked,
            delta=spare,
            sensitivity=change,
            low=low,
            loss=name,
            resolution=reach,
            edges=edges,
            weights=shares,
            start=-cells,
            tables=_tables(task, cells, spared),
            bound=bound,
            instance_optimal=most,
            monotone=bool(monotone),
        )
        try:
            design.verify()
        except UndecidedError:
            continue
        return design
    fail("No noise on this grid is proved private: use a larger `support`.", UndecidedError)


# --- the public facts -----------------------------------------------------------------------------


def _range(query_range: object, width: Fraction) -> tuple[Fraction, int]:
    """Lower end and number of cells."""
    if not isinstance(query_range, (tuple, list)) or len(query_range) != 2:
        fail("`query_range` must be a pair (low, high).", DimensionError)
    low, high = (exact_fraction("query_range", end) for end in query_range)
    if not low < high:
        fail(f"`query_range` must have low < high. Got {shown(low)} and {shown(high)}.")
    count = math.ceil((high - low) / width)
    if count > _MOST_CELLS:
        fail(
            f"`query_range` must hold at most {_MOST_CELLS} cells. Got {count}: use a smaller "
            "`resolution`."
        )
    return low, count


def _edges(partition: object, low: Fraction, width: Fraction, count: int) -> tuple[int, ...]:
    if partition is None:
        return tuple(range(count + 1))
    given = check_list("partition", partition, "edges")
    edges = [(exact_fraction("partition", e) - low) / width for e in given]
    whole = [round(e) for e in edges]
    if any(abs(e - w) > Fraction(1, 10**9) for e, w in zip(edges, whole, strict=True)):
        fail(f"`partition` must have edges a whole number of cells ({float(width):g}) above `low`.")
    if len(whole) < 2 or any(a >= b for a, b in pairwise(whole)):
        fail("`partition` must be increasing edges.")
    if whole[0] != 0 or whole[-1] != count:
        fail(f"`partition` must run from {float(low):g} to {float(low + count * width):g}.")
    return tuple(whole)


def _weights(weights: object, edges: tuple[int, ...]) -> tuple[Fraction, ...]:
    """A weight for each cell of the range; inside a group they are equal."""
    sizes = [b - a for a, b in pairwise(edges)]
    given = [Fraction(size) for size in sizes]
    if weights is not None:
        given = [exact_fraction("weights", w) for w in check_list("weights", weights, "numbers")]
    check_length("weights", len(given), len(sizes))
    if min(given) < 0 or sum(given) == 0:
        fail("`weights` must be >= 0, not all 0.")
    total = sum(given)
    return tuple(
        w / total / size for w, size in zip(given, sizes, strict=True) for _ in range(size)
    )


def _symmetric(edges: tuple[int, ...], weights: tuple[Fraction, ...]) -> bool:
    mirrored = tuple(edges[-1] - e for e in reversed(edges))
    return mirrored == edges and weights[::-1] == weights


def _support(epsilon: Fraction, delta: Fraction) -> float:
    """1.35 times the half-width of truncated Laplace noise, in units of the sensitivity."""
    rate = float(epsilon)
    return max(1.0, 1.35 * math.log1p(math.expm1(rate) / (2 * float(delta))) / rate)


# --- proposals ------------------------------------------------------------------------------------


def _tables(task: _RangeTask, cells: int, spared: float) -> tuple[tuple[int, ...], ...]:
    """The tables of the optimum on 2 * cells cells, as integers of total 2**52."""
    costs = [mean_loss(abs(2 * i + 1), task.loss) for i in range(-cells, cells)]
    shares = [sum(task.weights[a:b], Fraction(0)) for a, b in pairwise(task.edges)]
    program = task.program(costs, shares, spared)
    program.monotone = task.monotone
    found = _solved(program, list(needed_shifts(task.edges, task.reach)))
    return tuple(_whole(table) for table in found.tables)


def _solved(program: RangeProgram, triples: list[Triple]) -> RangeSolution:
    try:
        return program.solve(triples)
    except InfeasibleError:
        fail(
            "No noise on this grid has the properties asked for: use a larger `support`, a larger "
            "`instance_optimal` or a larger `resolution`.",
            InfeasibleError,
        )


def _whole(table: FloatArray) -> tuple[int, ...]:
    """Rounded down, the missing mass returned to the two cells at zero."""
    out = [int(p * _TOTAL) for p in table / max(1.0, float(table.sum()))]
    missing, middle = _TOTAL - sum(out), len(out) // 2
    heavy = middle if out[middle] > out[middle - 1] else middle - 1
    out[heavy] += missing
    return tuple(out)


def _bound(task: _RangeTask, window: int) -> RangeBound:
    """Multipliers of the lattice problem on the single cells of the range."""
    half = window + task.reach
    costs = [node_loss(2 * abs(x), task.loss) for x in range(-half, half + 1)]
    program = task.program(costs, list(task.weights), 0.0)
    program.padding = task.reach
    count = len(task.weights)
    pairs = [
        (k, m, m - k) for k in range(count) for m in range(count) if 0 < abs(m - k) <= task.reach
    ]
    if not pairs:
        return RangeBound(half, task.reach, (), (), (), (0,) * count)
    return RangeBound.rounded(program, _solved(program, pairs))
