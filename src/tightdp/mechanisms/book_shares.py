r"""Which parts a book with means or sums consists of, and what each of them may spend.

Counts can be measured with the sums of their groups, whose noise then has one entry more in a
group, or in the coordinates of all tables. Both are computed: a part whose weighted total variance
is :math:`T_i` at the whole budget has :math:`T_i/s_i^2` with the share :math:`s_i` of epsilon,
:math:`T_i/s_i` with that of rho, and the total is least at :math:`s_i \propto T_i^{1/3}`, or
:math:`T_i^{1/2}`. The variance of a scaled sum (columns lie in [-1, 1]) counts its weight; with the
mean m its error is that of :math:`S - mN`, so that counts of the groups count
:math:`m^2 = 1/3` of that weight for each column: the mean square of a mean that may be anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tightdp.data.class_moments import GroupMoments
from tightdp.data.statistics import columns_of_kind
from tightdp.data.table_counts import TableColumns
from tightdp.errors import fail, quoted
from tightdp.mechanisms.book_parts import GroupPart
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.mechanisms.table_noise_choice import BookWork, Spending, gaussian_unit, pure_totals
from tightdp.privacy import Neighbors
from tightdp.schema import Interval, Schema
from tightdp.workloads.planner import plan
from tightdp.workloads.residuals import Columns, Workload
from tightdp.workloads.wishes import check_targets

_MOST_WEIGHT = 1e9
_PAIRS = 'a list of pairs of columns and groups, such as [("pay", ["region"])]'


class GroupTable(NamedTuple):
    """Means or sums of some columns that somebody asks for, and the groups, as they are asked."""

    kind: str
    numbers: tuple[str, ...]
    groups: Sequence[object]


def read_group_tables(schema: Schema, **asked: object) -> list[GroupTable]:
    """What is asked for as ``mean`` and as ``sum``: pairs of columns and of what divides the rows.

    >>> facts = Schema({"pay": Interval(0, 9), "hours": Interval(0, 60)}, rows=9)
    >>> read_group_tables(facts, mean=[(["pay", "hours"], "sex")])[0]
    GroupTable(kind='mean', numbers=('pay', 'hours'), groups=['sex'])
    """
    out = []
    for kind, pairs in asked.items():
        name = f"{kind}s"
        if pairs is not None and not isinstance(pairs, (list, tuple)):
            fail(f"`{name}` must be {_PAIRS}. Got {quoted(pairs)}.")
        for pair in pairs or ():
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                fail(f"`{name}` must be {_PAIRS}. Got {quoted(pair)}.")
            columns, groups = pair
            wanted = [columns] if isinstance(columns, str) else columns
            if not isinstance(wanted, (list, tuple)):
                fail(f"`{name}` must be {_PAIRS}. Got {quoted(pair)}.")
            by = [groups] if isinstance(groups, str) else groups
            if not isinstance(by, (list, tuple)) or not by:
                fail(f"`{name}` must say which columns divide the rows. Got {quoted(groups)}.")
            numbers = tuple(columns_of_kind(schema, wanted, Interval, name))
            out.append(GroupTable(kind, numbers, list(by)))
    return out


class SumsOfGroups(NamedTuple):
    """The sums that are measured in the groups of one table, and their weights."""

    columns: Columns
    numbers: tuple[str, ...]
    weight: float


class Share(NamedTuple):
    """A way to measure it all: with counts in the parts of groups or not, and by which shares."""

    counted: bool
    total: float
    shares: tuple[Fraction, ...]
    left: tuple[int, ...]
    """Places of the tables that are left to the coordinates."""


def merged(
    items: Sequence[GroupTable], groups: Sequence[Columns], weights: Sequence[float]
) -> list[SumsOfGroups]:
    """One part for each set of groups, whatever is asked for in it."""
    found: dict[Columns, tuple[dict[str, None], float]] = {}
    for item, some, weight in zip(items, groups, weights, strict=True):
        names, before = found.get(tuple(sorted(some)), ({}, 0.0))
        more = before + weight * len(item.numbers)
        found[tuple(sorted(some))] = names | dict.fromkeys(item.numbers), more
    return [SumsOfGroups(some, tuple(names), w) for some, (names, w) in found.items()]


def count_weights(
    schema: Schema,
    items: Sequence[GroupTable],
    groups: Sequence[Columns],
    weights: Sequence[float],
) -> dict[Columns, float]:
    """What counts of groups weigh because means and sums are made with them."""
    out: dict[Columns, float] = {}
    for item, some, weight in zip(items, groups, weights, strict=True):
        rules = [schema[name] for name in item.numbers]
        pairs = [(rule.middle, rule.half) for rule in rules if isinstance(rule, Interval)]
        each = [1 / 3 if item.kind == "mean" else (middle / half) ** 2 for middle, half in pairs]
        key = tuple(sorted(some))
        out[key] = min(out.get(key, 0.0) + weight * sum(each), _MOST_WEIGHT)
    return out


def wished_weights(
    schema: Schema,
    work: Workload,
    items: Sequence[GroupTable],
    groups: Sequence[Columns],
    stated: int,
    targets: object,
) -> list[float]:
    """Weights for wished standard errors: of cells, of means in groups of one size, and of sums."""
    wish = check_targets(targets, stated + len(items))
    cells = [*map(work.cells, work.tables[:stated])]
    for place, (item, some) in enumerate(zip(items, groups, strict=True), stated):
        size = work.cells(some)
        cells.append(size * len(item.numbers))
        rules = [schema[name] for name in item.numbers]
        half = max(rule.half for rule in rules if isinstance(rule, Interval))
        wish[place] *= (schema.rows / size if item.kind == "mean" else 1.0) / half
    weights = 1 / (wish**2 * np.array(cells))
    return list(np.maximum(weights / weights.max(), 1e-9).tolist())


def entry_variance(schema: Schema, numbers: int, counted: bool, budget: Spending) -> float:
    """Of every scaled entry of a group at the whole budget, for one row a person."""
    ends = 2 if schema.neighbors is Neighbors.REPLACE_ONE else 1
    k = numbers + counted
    if budget.rho is None:
        return (k + 1) * (k + 2) / 3 * ends**2 / float(budget.epsilon) ** 2
    square = max(2 * k, 4 * numbers) if ends == 2 else k
    return square / (2 * float(budget.rho))


def best_share(book: BookWork, sums: Sequence[SumsOfGroups], noise: str, budget: Spending) -> Share:
    """The way with the least predicted total."""
    only_apart = noise not in ("best", "gaussian") or bool(book.public.tables)
    ways = [_shared(book, sums, counted, budget) for counted in (False, True)]
    return ways[0] if only_apart else min(ways, key=lambda way: way.total)


def _shared(book: BookWork, sums: Sequence[SumsOfGroups], counted: bool, budget: Spending) -> Share:
    work, totals = book.work, []
    told: set[int] = set()
    for part in sums:
        variance = entry_variance(book.schema, len(part.numbers), counted, budget)
        weight = part.weight
        for place, table in enumerate(work.tables if counted else ()):
            if set(table) <= set(part.columns) and place not in told:
                told.add(place)
                weight += float(work.weights[place])  # a sum of cells, in fewer cells
        totals.append(weight * variance * work.cells(part.columns))
    left = tuple(place for place in range(len(work.tables)) if place not in told)
    if left and not all(book.public.holds(work.tables[place]) for place in left):
        totals.insert(0, _counts_total(book, left, budget))
    power = 3 if budget.rho is None else 2
    roots = np.power(np.maximum(totals, 1e-300), 1 / power)
    steps = np.maximum(np.floor(roots / roots.sum() * (1 << 20)), 1.0)
    shares = [Fraction(int(step), int(steps.sum())) for step in steps]
    return Share(counted, float(roots.sum()) ** power, tuple(shares), left)


def _counts_total(book: BookWork, left: Sequence[int], budget: Spending) -> float:
    """The least total of the coordinates of some tables at the whole budget."""
    work = Workload(
        book.work.sizes,
        [book.work.tables[k] for k in left],
        [float(book.work.weights[k]) for k in left],
    )
    least = min(total for _, total in pure_totals(book._replace(work=work)))
    pure = least / float(budget.epsilon) ** 2
    if not budget.delta:
        return pure
    whole = plan(work, book.schema.neighbors, book.public).total
    return min(pure, whole * gaussian_unit(budget))


def made_parts(
    book: BookWork,
    sums: Sequence[SumsOfGroups],
    share: Share,
    budget: Spending,
    asked: Sequence[Columns],
    options: Mapping[str, object],
) -> tuple[TableMechanism | None, list[GroupPart]]:
    """The mechanisms: for coordinates of tables, where any are left, and for sums."""
    shares = list(share.shares)
    first: TableMechanism | None = None
    if len(shares) > len(sums):
        own = shares.pop(0)
        spent = (
            {"epsilon": budget.epsilon * own, "delta": budget.delta}
            if budget.rho is None
            else {"rho": budget.rho * own, "delta": budget.delta}
        )
        first = TableMechanism(
            book.schema,
            [side_items(book.sides, asked[k]) for k in share.left],
            weights=[float(book.work.weights[k]) for k in share.left],
            **spent,  # type: ignore[arg-type]
            **options,  # type: ignore[arg-type]
        )
    times = 1 if first is None else book.public.rows  # sums alone are private for all neighbours
    parts = []
    for part, own in zip(sums, shares, strict=True):
        moments = GroupMoments(
            book.schema,
            part.numbers,
            side_items(book.sides, part.columns),
            counted=share.counted,
        )
        if budget.rho is None:
            parts.append(GroupPart(moments, epsilon=budget.epsilon * own / times))
        else:
            rho = budget.rho * own / times**2
            parts.append(GroupPart(moments, rho=rho, delta=budget.delta))
    return first, parts


def side_items(sides: TableColumns, columns: Columns) -> list[object]:
    """Sides of a table as ``by`` takes them."""
    return [
        (sides.names[j], sides.bins_of[sides.names[j]].stated)
        if sides.names[j] in sides.bins_of
        else sides.names[j]
        for j in columns
    ]
