"""Noise that depends on where the true value lies, by optimisation, certified."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.design.losses import CallableLoss, Loss, as_loss
from tightdp.design.programs import InfeasibleError
from tightdp.design.range_bound import Prices, RangeBound, assembled, limits_of, unfolded
from tightdp.design.range_law import DataDependentDesign
from tightdp.design.range_programs import RangeProgram, RangeSolution, Triple
from tightdp.design.range_verifier import MOST_RANGE, POWERS
from tightdp.design.records import check_promise
from tightdp.errors import (
    DimensionError,
    FloatArray,
    UndecidedError,
    check_count,
    check_flag,
    check_length,
    check_list,
    check_within,
    exact_fraction,
    fail,
    fraction_within,
    shown,
)
from tightdp.noise.range_noise import needed_shifts
from tightdp.parameters import tells_arguments

_TOTAL = 1 << 52
_AMOUNTS = "(0, 1e100]"  # of losses: doubles hold their sums
_SPARED = (1e-8, 1e-6, 1e-4, 1e-2)  # shares of delta left for rounding, tried in turn
_MOST_SINGLE = 400  # groups, and cells of the range with multipliers of their own
_MARGIN = 3  # reaches of single cells at the ends of a run of equal ones


@dataclass(frozen=True)
class _Limit:
    """A loss whose mean must stay below a bound in every group."""

    loss: Loss
    most: Fraction
    given: bool
    """Whether it is another loss than that of the objective."""


@dataclass(frozen=True)
class _RangeTask:
    """The problem; losses in units of the query."""

    epsilon: Fraction
    delta: Fraction
    loss: Loss
    width: Fraction
    reach: int
    edges: tuple[int, ...]
    weights: tuple[Fraction, ...]
    limit: _Limit | None
    monotone: bool
    ordered: bool
    reflect: bool

    @property
    def units(self) -> tuple[Fraction, Fraction]:
        """What the two losses are counted in, so that programs see numbers of a fair size."""
        limited = self.loss if self.limit is None else self.limit.loss
        return _unit(self.loss, self.width), _unit(limited, self.width)

    def program(
        self, costs: list[Fraction], limited: list[Fraction], shares: Sequence[Fraction]
    ) -> RangeProgram:
        unit, limit_unit = self.units
        most = None if self.limit is None else float(self.limit.most / limit_unit)
        return RangeProgram(
            costs=np.outer([float(w) for w in shares], [float(c / unit) for c in costs]),
            losses=np.array([float(c / limit_unit) for c in limited]),
            factor=math.exp(self.epsilon),
            delta=float(self.delta),
            most=most,
            mirrored=self.reflect,
        )


@tells_arguments
def design_data_dependent_noise(
    *,
    epsilon: Number,
    delta: Number,
    sensitivity: Number,
    query_range: tuple[Any, Any],
    resolution: int = 4,
    loss: object = "l1",
    weights: Sequence[Any] | None = None,
    partition: Sequence[Any] | None = None,
    instance_optimal: object = None,
    monotone: bool = False,
    ordered: bool = False,
    reflect: bool = True,
    support: object = None,
    progress: bool = False,
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
        Values outside are clamped; the upper end is raised to a whole number of cells. Ranges of up
        to 65,536 cells are taken where ``partition`` groups them into at most 400 intervals.
    resolution : int
        Cells per ``sensitivity``: intervals of the range and of the noise.
    loss : {"l1", "l2"}, Loss or function of a float
        As for :func:`~tightdp.design_noise`: also one of :mod:`tightdp.design.losses`.
    weights : sequence, optional
        Public weight of each interval (each group of ``partition``); by default its length.
    partition : sequence, optional
        Increasing edges of groups of intervals that share a noise, from the lower to the upper end
        of the range, in whole cells. By default every interval has its own.
    instance_optimal : float or pair, optional
        The largest mean loss allowed at any true value; a pair (loss, bound) limits another loss.
    monotone : bool
        Whether every density must fall on both sides of zero.
    ordered : bool
        Whether noise of larger values must lean further left: its distribution function is at least
        that of smaller values, everywhere.
    reflect : bool
        Solve half of the problem when it is its own mirror image.
    support : float, optional
        Half-width of the noise, in units of ``sensitivity``.
    progress : bool
        Print what is being solved.

    Returns
    -------
    DataDependentDesign

    Examples
    --------
    >>> design = design_data_dependent_noise(
    ...     epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(-2.0, 2.0), resolution=4)
    >>> round(float(design.upper), 4), design.edges
    (0.8153, (0, 1, 2, 3, 4, 5, 6, 7, 8))
    >>> from tightdp.design import losses
    >>> leaning = design_data_dependent_noise(
    ...     epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(-2.0, 2.0), resolution=2,
    ...     loss=losses.asymmetric(right=2, left=1), instance_optimal=("l2", 4.0), ordered=True)
    >>> leaning.verify(), float(max(leaning.limited_losses)) <= 4
    (True, True)
    """
    asked, spare = check_promise(epsilon, delta)
    change = fraction_within("sensitivity", sensitivity, "(0, inf)")
    cost = as_loss(loss, change)
    reach = check_count("resolution", resolution, most=128)
    width = change / reach
    low, count = _range(query_range, width)
    edges = _edges(partition, low, width, count)
    shares, mirrored = _weights(weights, edges), check_flag("reflect", reflect)
    limit = _limit(instance_optimal, cost, change)
    fair = cost.symmetric and (limit is None or limit.loss.symmetric)
    task = _RangeTask(
        epsilon=asked,
        delta=spare,
        loss=cost,
        width=width,
        reach=reach,
        edges=edges,
        weights=shares,
        limit=limit,
        monotone=check_flag("monotone", monotone),
        ordered=check_flag("ordered", ordered),
        reflect=mirrored and fair and _symmetric(edges, shares),
    )
    wide = _support(asked, spare)
    if support is not None:
        wide = check_within("support", support, "(0, 10000]", "1 is the sensitivity")
    cells = math.ceil(reach * wide)
    say = print if check_flag("progress", progress) else _silent
    return _proved(task, low, cells, say)


def _proved(
    task: _RangeTask, low: Fraction, cells: int, say: Callable[[str], None]
) -> DataDependentDesign:
    """The design on tables of 2 * cells cells, once its proof holds."""
    say(f"lower bound over {len(task.weights)} cells of the range")
    bound = _bound(task, cells)
    described = _descriptions(task, cells, bound.half)
    for spared in _SPARED:
        say(f"{len(task.edges) - 1} tables of {2 * cells} cells")
        design = DataDependentDesign(
            epsilon=task.epsilon,
            delta=task.delta,
            sensitivity=task.width * task.reach,
            low=low,
            loss=task.loss.name,
            resolution=task.reach,
            edges=task.edges,
            weights=task.weights,
            start=-cells,
            tables=_tables(task, cells, spared),
            bound=bound,
            instance_optimal=None if task.limit is None else task.limit.most,
            monotone=task.monotone,
            ordered=task.ordered,
            **described,
        )
        try:
            design.verify()
        except UndecidedError:
            continue
        return design
    fail("No noise on this grid is proved private: use a larger `support`.", UndecidedError)


def _silent(_: str) -> None:
    """Say nothing."""


# --- the losses -----------------------------------------------------------------------------------


def _limit(given: object, loss: Loss, sensitivity: Fraction) -> _Limit | None:
    if given is None:
        return None
    if isinstance(given, (tuple, list)):
        if len(given) != 2:
            fail("`instance_optimal` must be a number or a pair (loss, bound).", DimensionError)
        second, bound = as_loss(given[0], sensitivity), given[1]
        return _Limit(second, fraction_within("instance_optimal", bound, _AMOUNTS), True)
    return _Limit(loss, fraction_within("instance_optimal", given, _AMOUNTS), False)


def _unit(loss: Loss, width: Fraction) -> Fraction:
    """The loss of a cell's width; of a function, that at a power of two of the size of its loss."""
    if loss.degree is not None:
        return width**loss.degree
    size = max(loss.values(width, -1, 2, up=True), key=abs)
    return Fraction(2) ** math.frexp(float(abs(size)) or 1.0)[1]


def _descriptions(task: _RangeTask, cells: int, half: int) -> dict[str, Any]:
    """The losses as the design states them: nothing for l1 and l2, tables for functions."""

    def described(loss: Loss) -> Mapping[str, Any]:
        tables = {}
        if isinstance(loss, CallableLoss):
            tables["cells"] = [str(c) for c in loss.means(task.width, -cells, cells)]
            tables["nodes"] = [str(a) for a in loss.minorant(task.width, half + 1)]
        return loss.described(tables)

    plain = task.loss.name in POWERS and task.loss.degree == POWERS[task.loss.name]
    limit = task.limit
    return {
        "description": None if plain else described(task.loss),
        "instance_loss": described(limit.loss) if limit is not None and limit.given else None,
    }


# --- the public facts -----------------------------------------------------------------------------


def _range(query_range: object, width: Fraction) -> tuple[Fraction, int]:
    """Lower end and number of cells."""
    if not isinstance(query_range, (tuple, list)) or len(query_range) != 2:
        fail("`query_range` must be a pair (low, high).", DimensionError)
    low, high = (exact_fraction("query_range", end) for end in query_range)
    if not low < high:
        fail(f"`query_range` must have low < high. Got {shown(low)} and {shown(high)}.")
    count = math.ceil((high - low) / width)
    if count > MOST_RANGE:
        fail(
            f"`query_range` must hold at most {MOST_RANGE} cells. Got {count}: use a smaller "
            "`resolution`."
        )
    return low, count


def _edges(partition: object, low: Fraction, width: Fraction, count: int) -> tuple[int, ...]:
    if partition is None:
        if count > _MOST_SINGLE:
            fail(
                f"`query_range` must hold at most {_MOST_SINGLE} cells, each with a noise of its "
                f"own. Got {count}: give a `partition` with longer intervals far out, or use a "
                "smaller `resolution`."
            )
        return tuple(range(count + 1))
    given = check_list("partition", partition, "edges")
    edges = [(exact_fraction("partition", e) - low) / width for e in given]
    whole = [round(e) for e in edges]
    if any(abs(e - w) > Fraction(1, 10**9) for e, w in zip(edges, whole, strict=True)):
        fail(f"`partition` must have edges a whole number of cells ({float(width):g}) above `low`.")
    if len(whole) < 2 or any(a >= b for a, b in pairwise(whole)):
        fail("`partition` must be increasing edges.")
    if len(whole) > _MOST_SINGLE + 1:
        fail(f"`partition` must have at most {_MOST_SINGLE} intervals. Got {len(whole) - 1}.")
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
    costs = task.loss.means(task.width, -cells, cells)
    limited = costs if task.limit is None else task.limit.loss.means(task.width, -cells, cells)
    shares = [sum(task.weights[a:b], Fraction(0)) for a, b in pairwise(task.edges)]
    program = task.program(costs, limited, shares)
    program.delta *= 1 - spared
    if program.most is not None:
        program.most *= 1 - spared
    program.monotone, program.ordered = task.monotone, task.ordered
    found = _solved(program, list(needed_shifts(task.edges, task.reach)))
    return _leaning(found.tables) if task.ordered else tuple(map(_whole, found.tables))


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


def _leaning(tables: FloatArray) -> tuple[tuple[int, ...], ...]:
    """Whole tables whose distribution functions rise from each to the next, without a gap.

    The larger of two rising sums rises, so that each sum may be raised to the one before it.
    """
    out: list[tuple[int, ...]] = []
    before = [0] * tables.shape[1]
    for table in tables:
        sums = list(accumulate(_whole(table)))
        before = [max(a, b) for a, b in zip(sums, before, strict=True)]
        out.append(tuple(b - a for a, b in pairwise([0, *before])))
    return tuple(out)


# --- the lower bound ------------------------------------------------------------------------------


def _bound(task: _RangeTask, window: int) -> RangeBound:
    """Multipliers of the lattice problem on the cells of the range.

    Cells deep inside a long group see only their like: there the multipliers of one noise for all
    values serve every pair, given once. The cells that are left have their own.
    """
    near = max(loss.near() for loss in _losses(task))
    half = max(window, math.ceil(near / task.width)) + task.reach
    count = len(task.weights)
    runs = _runs(task.edges, task.reach) if count > _MOST_SINGLE else []
    alone = sorted(set(range(count)) - {k for a, b in runs for k in range(a, b)})
    if len(alone) > _MOST_SINGLE:
        fail(
            f"`partition` must leave at most {_MOST_SINGLE} cells outside of its long intervals. "
            f"Got {len(alone)}: use fewer fine intervals or a smaller `resolution`."
        )
    limits = np.zeros(count)
    nodes, limited = (_nodes(loss, task.width, half) for loss in _losses(task))
    prices: dict[tuple[int, int, int], tuple[float, FloatArray]] = {}
    for a, b in runs:
        single = task.program(nodes, limited, [Fraction(1)])
        single.padding = task.reach
        found = _solved(single, [(0, 0, j) for j in range(-task.reach, task.reach + 1) if j])
        weight = float(task.weights[a])
        limits[a:b] = weight * limits_of(single, found)[0]
        prices |= _repeated(unfolded(single, found), a, b, weight)
    own = task.program(nodes, limited, [task.weights[k] for k in alone])
    own.padding = task.reach
    own.costs += _met_costs(prices, alone, own)
    place = {k: i for i, k in enumerate(alone)}
    near_pairs = [
        (place[k], place[m], m - k)
        for k in alone
        for m in range(k - task.reach, k + task.reach + 1)
        if m != k and m in place
    ]
    if near_pairs:
        found = _solved(own, near_pairs)
        limits[alone] = limits_of(own, found)
        for (g, h, _), price in unfolded(own, found).items():
            prices[alone[g], alone[h], 1] = price
    return assembled(half, task.reach, prices, limits.tolist(), task.units)


def _losses(task: _RangeTask) -> tuple[Loss, Loss]:
    """The loss, and the one that is limited."""
    return task.loss, task.loss if task.limit is None else task.limit.loss


def _nodes(loss: Loss, width: Fraction, half: int) -> list[Fraction]:
    """Values at the nodes -half..half whose interpolant lies below the loss."""
    return loss.minorant(width, half + 1)[1:-1]


def _runs(edges: tuple[int, ...], reach: int) -> list[tuple[int, int]]:
    """The insides of the long groups, which leave single cells at both ends."""
    margin = _MARGIN * reach
    inner = ((a + margin, b - margin) for a, b in pairwise(edges))
    return [(a, b) for a, b in inner if b - a > margin]


def _repeated(
    prices: Prices, first: int, last: int, weight: float
) -> dict[tuple[int, int, int], tuple[float, FloatArray]]:
    """The multipliers of one noise for every pair (k, k + j) with a cell in first..last-1."""
    out = {}
    for (_, _, j), (most, rows) in prices.items():
        k = first - j if j > 0 else first
        out[k, k + j, last - first + abs(j)] = weight * most, weight * rows
    return out


def _met_costs(
    prices: dict[tuple[int, int, int], tuple[float, FloatArray]],
    alone: list[int],
    program: RangeProgram,
) -> FloatArray:
    """What the multipliers of the runs add to the costs of the single cells next to them."""
    extra = np.zeros_like(program.costs)
    place = {k: i for i, k in enumerate(alone)}
    padding = program.padding
    for (k, m, times), (_, rows) in prices.items():
        first = padding - (m - k)
        for t in range(times):
            if k + t in place:
                extra[place[k + t], padding : padding + len(rows)] += rows
            if m + t in place:
                extra[place[m + t], first : first + len(rows)] -= program.factor * rows
    return extra
