"""Statistics of random schemas, their rows, and the mechanisms that release them.

Every concrete statistic of the package has a maker in ``MAKERS``; ``test_moves.py`` fails as long
as one has not. Bounds are dyadic and cells are multiples of an eighth of their interval, so that
what an entry sums can be computed from its *name* in exact fractions, without the package.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

import numpy as np

import tightdp as tdp
import tightdp.data
from tightdp.data.class_moments import ClassMoments, GroupMoments
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.error_squares import ErrorSquares
from tightdp.data.histograms import Histogram, JointHistogram
from tightdp.data.line_errors import LineErrors
from tightdp.data.one_pass import blocks
from tightdp.data.regression_moments import (
    MOMENT_KINDS,
    FeatureMoments,
    Moments,
    RegressionMoments,
)
from tightdp.data.residual_sums import STEEPEST, MovedSum, ResidualSums
from tightdp.data.row_facts import CappedSums, Flags
from tightdp.data.second_moments import LAYOUTS, SecondMoments
from tightdp.data.statistics import Counts, Products, Statistic, Sums
from tightdp.data.table_counts import TableCounts
from tightdp.data.weighted_moments import WeightedMoments
from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.mechanisms.proportion import FineRows
from tightdp.mechanisms.shares import RowsInAndOut, RowsWhere
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.noise.nuclear import NuclearNoise
from tightdp.schema import complete_rows
from tightdp.shaping.ball_noise import SHAPES, BallNoise
from tightdp.shaping.class_noise import BodyNoise, ClassNoise, LawNoise
from tightdp.shaping.coordinate_noise import CoordinateNoise
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise
from tightdp.shaping.gaussian_noise import GaussianNoise
from tightdp.shaping.l2_noise import L2Noise
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.nuclear_part import regression_part
from tightdp.shaping.second_moment_noise import body_of
from tightdp.shaping.vector_noise import VectorNoise

Generator = np.random.Generator
PARTS = 8  # cells are multiples of 1/8 of half an interval
LEVELS = ("u", "v", "w", "z")
REPLACE, ADD = "replace-one", "add-remove"


# --- schemas ----------------------------------------------------------------------------------


def schema(rng: Generator, neighbors: str, rows_per_person: int = 1, bits: int = 5) -> tdp.Schema:
    """Up to three numbers or dates and three categories in a random order."""
    columns: dict[str, Any] = {}
    for name in rng.permutation(["a", "b", "c", "j", "k", "l"]).tolist():
        if name in "abc" and not rng.integers(3):
            first = date(2014, 1, 1) + timedelta(days=int(rng.integers(365)))
            last = first + timedelta(days=2 ** (bits - 1) * int(rng.integers(1, 3)))  # whole steps
            unit = str(rng.choice(["day", "week", "weekday", "month"]))
            columns[name] = tdp.Date(first, last, unit)
        elif name in "abc":
            low = int(rng.integers(-3, 4))
            columns[name] = tdp.Interval(low, low + 2 ** int(rng.integers(0, 4)))
        else:
            levels = LEVELS[: int(rng.integers(2, 5))]
            columns[name] = tdp.Category(list(levels), other=levels[0])
    facts: dict[str, Any] = {"neighbors": neighbors, "bits": bits}
    if rows_per_person > 1:
        facts |= {"person": "who", "rows_per_person": rows_per_person}
    return tdp.Schema(columns, 50, **facts)


def some(rng: Generator, names: list[str], least: int = 1) -> list[str]:
    """A random choice in a random order."""
    return rng.permutation(names)[: int(rng.integers(least, len(names) + 1))].tolist()


# --- statistics -------------------------------------------------------------------------------


def terms(rng: Generator, kinds: tuple[str, ...]) -> list[str]:
    return rng.permutation(kinds)[: int(rng.integers(2, 5))].tolist()


MIXED = ("a", "b", "j", "k", "a:j", "k:b", "j:k", "a:b", "l", "j:a:k", "c:l", "l:j")
MARGINS = ("j", "k", "l", "j:k", "l:j", "k:l")

Maker = Callable[[Generator, tdp.Schema], Statistic]


def _bins(rng: Generator, facts: tdp.Schema, name: str) -> Any:
    """Three equal bins, or edges on the multiples of an eighth."""
    interval = facts[name]
    if isinstance(interval, tdp.Date) and rng.integers(2):
        return str(rng.choice(["week", "weekday", "day"]))
    if rng.integers(2):
        return 4
    inner = np.sort(rng.choice(np.arange(1, 2 * PARTS), 2, replace=False)) / (2 * PARTS)
    return [interval.low, *(interval.low + inner * 2 * interval.half), interval.high]


def _joint(rng: Generator, facts: tdp.Schema) -> JointHistogram:
    names = some(rng, ["a", "b", "j", "k"], 2)[:2]
    return JointHistogram(
        facts, names, [_bins(rng, facts, n) if n in "ab" else None for n in names]
    )


def _where(rng: Generator, facts: tdp.Schema, kind: type[RowsWhere] = RowsWhere) -> RowsWhere:
    if rng.integers(2):
        levels = facts["k"].levels
        return kind(facts, "k", levels=list(levels[: 1 + rng.integers(len(levels) - 1)]))
    interval = facts["a"]
    low, high = np.sort(rng.choice(np.arange(1, 2 * PARTS), 2, replace=False)) / (2 * PARTS)
    return kind(
        facts,
        "a",
        low=interval.low + low * 2 * interval.half,
        high=interval.low + high * 2 * interval.half if rng.integers(2) else None,
    )


def _class_moments(rng: Generator, facts: tdp.Schema) -> ClassMoments:
    return ClassMoments(facts, some(rng, ["a", "b", "j", "k"]), "l")


def _group_moments(rng: Generator, facts: tdp.Schema) -> GroupMoments:
    """In groups or of all rows, which may be left out for missing cells."""
    facts = complete_rows(facts, ("rule", "drop")[rng.integers(2)])
    if rng.integers(2):
        numbers = some(rng, ["a", "c", "j"] if rng.integers(2) else ["a", "c"])
        return GroupMoments(facts, numbers, None, squares=bool(rng.integers(2)))
    by = some(rng, ["l", "b"])
    pairs = [(name, _bins(rng, facts, name)) if name == "b" else name for name in by]
    return GroupMoments(facts, some(rng, ["a", "c", "j"]), pairs, squares=bool(rng.integers(2)))


def _regression(rng: Generator, facts: tdp.Schema) -> RegressionMoments:
    facts = complete_rows(facts, ("rule", "drop")[rng.integers(2)])
    joint, square = (bool(rng.integers(2)) for _ in range(2))
    features = some(rng, ["a", "b", "j", "k"])[:3]
    return RegressionMoments(facts, features, "c", joint=joint and facts.rows_known, square=square)


AnyResiduals = TypeVar("AnyResiduals", bound=ResidualSums)


def _residuals(rng: Generator, facts: tdp.Schema) -> ResidualSums:
    """Of any slopes, steep or not; rows of the middle lie beyond the reach on both sides."""
    features = some(rng, ["a", "b", "j", "k"])[:3]
    return _along(rng, ResidualSums(facts, features, "c"))


def _moved(rng: Generator, facts: tdp.Schema) -> MovedSum:
    return _along(rng, MovedSum(facts, some(rng, ["a", "b", "j", "k"])[:3], "c"))


def _line_errors(rng: Generator, facts: tdp.Schema) -> LineErrors:
    return _along(rng, LineErrors(facts, some(rng, ["a", "b", "j", "k"])[:3], "c"))


def _along(rng: Generator, plain: AnyResiduals) -> AnyResiduals:
    steep = plain.steepest * plain.points
    slopes = rng.integers(-steep, steep + 1, plain.outcome - 1) // (1 << int(rng.integers(6)))
    half = plain.points // 2
    level, reach = rng.integers(-half, half + 1), rng.integers(1, half + 1)
    return plain.rebuilt(line=[int(level), *map(int, slopes)], reach=int(reach))


def _squares(rng: Generator, facts: tdp.Schema) -> ErrorSquares:
    """Of any line, and of influences whose sizes sum to 1 at most, or exactly."""
    plain = ErrorSquares(facts, some(rng, ["a", "b", "j", "k"])[:3], "c")
    steep, size, many = STEEPEST * plain.points, plain.outcome, int(rng.integers(1, 4))
    line = rng.integers(-steep, steep + 1, size) // (1 << int(rng.integers(6)))
    cuts = np.sort(rng.integers(0, plain.points + 1, (many, size)), axis=1)
    found = np.diff(cuts, axis=1, prepend=0) * rng.choice([-1, 1], (many, size))
    return plain.with_influences([int(z) for z in line], found.tolist())


def _weighted(rng: Generator, facts: tdp.Schema) -> WeightedMoments:
    weights = tdp.Interval(0, 2.0 ** int(rng.integers(-1, 3)))
    return WeightedMoments(
        facts.ruled({**facts.columns, "w": weights}), some(rng, ["a", "b"]), "c", weight="w"
    )


def _flags(rng: Generator, facts: tdp.Schema) -> Flags:
    """Two to five flags, of which a row has few, or some imply others, or nothing is known."""
    names = [f"f{i}" for i in rng.permutation(int(rng.integers(2, 6)))]
    flags = facts.ruled(dict.fromkeys(names, tdp.Category(LEVELS[:2], other=LEVELS[0])))
    columns = rng.permutation(names).tolist()
    which = rng.integers(5)
    if which <= 1:
        return Flags(flags, columns, at_most=int(rng.integers(1, len(names))))
    if which == 2:
        return Flags(flags, columns)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if rng.integers(2)]
    return Flags(flags, columns, implies=[*pairs, (names[0], names[1])])


def _capped_sums(rng: Generator, facts: tdp.Schema) -> CappedSums:
    """One to four amounts with one bound, signed or not, and a total of some of them."""
    high = 2.0 ** int(rng.integers(-1, 3))
    rule = tdp.Interval(-high if rng.integers(2) else 0, high, missing=0)
    names = [f"x{i}" for i in range(int(rng.integers(1, 5)))]
    amounts = facts.ruled(dict.fromkeys(names, rule))
    most = high * int(rng.integers(1, len(names) + 1))
    return CappedSums(amounts, rng.permutation(names).tolist(), at_most=most)


def _table_counts(rng: Generator, facts: tdp.Schema) -> TableCounts:
    """Some tables of up to two columns, each in coordinates of one kind."""
    names = some(rng, ["a", "j", "k", "l"], 2)[:3]
    tables = [[n] for n in names] + [names[:2], names[-2:]]
    kinds = rng.choice(["cells", "contrasts", "centred"], len(tables)).tolist()
    parts = list(
        {str(sorted(t)): (kind, t) for kind, t in zip(kinds, tables, strict=True)}.values()
    )
    order = [parts[i] for i in rng.permutation(len(parts))]
    bins = {"a": _bins(rng, facts, "a")} if "a" in names else {}
    return TableCounts(facts, names, order, bins)


def _second_moments(rng: Generator, facts: tdp.Schema) -> SecondMoments:
    """Of rows of any length, or of rows that are shortened; some may be left out."""
    facts = complete_rows(facts, ("rule", "drop")[rng.integers(2)])
    norm = (None, 1, Fraction(3, 4), 1.3)[rng.integers(4)]
    layout, sums = str(rng.choice(LAYOUTS)), bool(rng.integers(2))
    names = some(rng, ["a", "b", "c"])
    return SecondMoments(facts, names, norm=norm, sums=sums, layout=layout)


MAKERS: dict[type[Statistic], Maker] = {
    Sums: lambda rng, facts: Sums(facts, some(rng, ["a", "b", "c"])),
    Counts: lambda rng, facts: Counts(facts, terms(rng, MARGINS)[:3]),
    Products: lambda rng, facts: Products(facts, terms(rng, MIXED)[:3]),
    SumsAndRows: lambda rng, facts: SumsAndRows(facts, some(rng, ["a", "b", "c"])),
    SumsAndSquares: lambda rng, facts: SumsAndSquares(facts, some(rng, ["a", "b", "c"])),
    Flags: _flags,
    CappedSums: _capped_sums,
    Histogram: lambda rng, facts: Histogram(facts, "a", _bins(rng, facts, "a")),
    JointHistogram: _joint,
    RowsWhere: _where,
    RowsInAndOut: lambda rng, facts: _where(rng, facts, RowsInAndOut),
    FineRows: lambda rng, facts: _where(rng, facts, FineRows),
    Moments: lambda rng, facts: Moments(facts, some(rng, ["a", "b"]), "c"),
    ClassMoments: _class_moments,
    GroupMoments: _group_moments,
    RegressionMoments: _regression,
    TableCounts: _table_counts,
    ResidualSums: _residuals,
    MovedSum: _moved,
    ErrorSquares: _squares,
    LineErrors: _line_errors,
    FeatureMoments: lambda rng, facts: FeatureMoments(
        facts, some(rng, ["a", "b", "j", "k"])[:3], "c"
    ),
    WeightedMoments: _weighted,
    SecondMoments: _second_moments,
}
RELATIONS: dict[type[Statistic], tuple[str, ...]] = {
    SumsAndRows: (ADD,),
    RowsInAndOut: (ADD,),
}


def concrete_statistics() -> set[type[Statistic]]:
    """Every statistic of the package that can be built."""
    for module in pkgutil.walk_packages(tightdp.data.__path__, "tightdp.data."):
        importlib.import_module(module.name)

    def below(base: type) -> Iterator[type]:
        for kind in base.__subclasses__():
            yield kind
            yield from below(kind)

    kinds = {kind for kind in below(Statistic) if kind.__module__.startswith("tightdp.")}
    return {kind for kind in kinds if not inspect.isabstract(kind)}


# --- rows and what they add -------------------------------------------------------------------


def rows(rng: Generator, facts: tdp.Schema, count: int) -> dict[str, Any]:
    """Random rows, half of their numbers at an end of the bounds."""
    table: dict[str, Any] = {}
    for name, column in facts.columns.items():
        if isinstance(column, tdp.Interval):
            parts = rng.integers(-PARTS, PARTS + 1, count)
            ends = rng.choice([-PARTS, PARTS], count)
            place = np.where(rng.integers(2, size=count), ends, parts) / PARTS
            table[name] = column.cells(column.middle + column.half * place)
            if isinstance(column, tdp.Date):
                table[name][rng.integers(8, size=count) == 0] = np.datetime64("NaT")
        else:
            table[name] = rng.choice(np.array(column.levels), count)
    return table


def images(statistic: Statistic, bits: int, table: dict[str, Any]) -> Any:
    """What every row adds: read and quantised at once, summed row by row by the reducer."""
    (block,) = blocks(table, _rowwise(statistic.reading), statistic.columns)
    columns = block.matrix(statistic.columns).T.astype(np.float64)
    single = type(block).of_columns
    return np.array(
        [
            statistic.contributions(single(statistic.columns, columns[:, i : i + 1]), bits)
            for i in range(columns.shape[1])
        ]
    )


def _rowwise(facts: tdp.Schema) -> tdp.Schema:
    """The same columns without persons: all rows are kept, in their order."""
    plain = tdp.Schema({"a": tdp.Interval(0, 1)}, facts.rows, bits=facts.bits)
    return plain.ruled(facts.columns)


# --- rows that obey what is known of them, written out flag by flag and amount by amount -------


def obeying(statistic: Statistic, row: dict[str, Any]) -> dict[str, Any]:
    """The row as it counts: what the facts of the statistic say that it becomes."""
    if isinstance(statistic, CappedSums):
        left, out = Fraction(statistic._given["at_most"]), {}
        for name in statistic.columns:
            cell = Fraction(float(row[name]))
            size = min(abs(cell), left)
            out[name], left = (size if cell > 0 else -size), left - size
        return out
    if not isinstance(statistic, Flags):
        return row
    out = dict(row)
    if statistic._given["at_most"] is not None:
        had = [name for name in statistic.columns if row[name] == LEVELS[1]]
        for name in had[statistic._given["at_most"] :]:
            out[name] = LEVELS[0]
    for _ in statistic.columns:  # as many times as the longest chain of implications has links
        for first, second in statistic._given["implies"]:
            if out[first] == LEVELS[1]:
                out[second] = LEVELS[1]
    return out


def shortened_row(statistic: SecondMoments, row: dict[str, Any]) -> dict[str, Fraction]:
    """Scaled cells, on the grid, of a row that is no longer than it may be: in whole numbers."""
    unit = statistic.schema.resolution
    cells = {name: _factor(name, row, statistic.schema) * unit for name in statistic.columns}
    square, most = sum(g**2 for g in cells.values()), int(statistic.square * unit**2)
    if square > most:  # the largest whole number whose square is below g^2 B / q
        squares = {name: math.ceil(g**2 * most / square) for name, g in cells.items()}
        sizes = {name: math.isqrt(max(0, each - 1)) for name, each in squares.items()}
        cells = {name: sizes[name] * (1 if g > 0 else -1) for name, g in cells.items()}
    return {name: Fraction(g) / unit for name, g in cells.items()}


def second_moment(statistic: SecondMoments, name: str, row: dict[str, Any]) -> Fraction:
    """What the name of an entry says of the row, shortened."""
    if name == "rows":
        return Fraction(1)
    cells, whole = shortened_row(statistic, row), name.endswith("-1")
    value = Fraction(1)
    for part in name.removesuffix("-1").split("*"):
        base, _, power = part.partition("^")
        value *= int(base) if base.isdigit() else cells[base] ** int(power or 1)
    return value - whole


def entry_of(statistic: Statistic, name: str, row: dict[str, Any]) -> Fraction:
    """What a row adds to an entry: by its name, from the row as it counts."""
    if isinstance(statistic, SecondMoments):
        return second_moment(statistic, name, row)
    if isinstance(statistic, ErrorSquares):
        return square_entry(statistic, name, row)
    if isinstance(statistic, ResidualSums):
        return residual_entry(statistic, name, row)
    counted = obeying(statistic, row)
    if isinstance(statistic, CappedSums):
        return counted[name] / Fraction(statistic.schema[name].high)
    if isinstance(statistic, TableCounts):
        factors = re.split(r":(?![^\[{]*[\])}])", name)
        return math.prod((_level_factor(statistic, f, counted) for f in factors), start=Fraction(1))
    return by_name(name, counted, statistic.schema)


def residual_entry(statistic: ResidualSums, name: str, row: dict[str, Any]) -> Fraction:
    """The residual of the line, clamped and rounded to the grid, times what the name says."""
    points, facts = statistic.points, statistic.schema
    residual = by_name(statistic.target, row, facts) - affine(statistic, statistic.line, row)
    if name == "squared error":
        size = math.ceil(abs(residual) * points / statistic.farthest * points)
        return 2 * Fraction(size, points) ** 2 - 1
    if name == "moved":
        reach, far = (Fraction(z, points) for z in (statistic.reach, statistic.farthest))
        steps = max(abs(residual) - reach, 0) * 2 * points / (far - reach) if far > reach else 0
        return Fraction(math.floor(steps + Fraction(1, 2)), points) - 1
    scaled = math.floor(residual * points**2 / statistic.reach + Fraction(1, 2))
    found = Fraction(max(-points, min(points, scaled)), points)
    times = name.removesuffix("residual").removesuffix("*")
    return found * (by_name(times, row, facts) if times else 1)


def square_entry(statistic: ErrorSquares, name: str, row: dict[str, Any]) -> Fraction:
    """The square of influence times residual, each over its largest size and rounded upwards."""
    points = statistic.points
    away = by_name(statistic.target, row, statistic.schema) - affine(statistic, statistic.line, row)
    influence = statistic.influences[int(name.removeprefix("square ")) - 1].tolist()
    size = math.ceil(abs(away) * points / statistic.farthest * points)
    moved = math.ceil(abs(affine(statistic, influence, row)) * points) * size
    return 2 * Fraction(math.ceil(Fraction(moved, points)), points) ** 2 - 1


def affine(statistic: ResidualSums, factors: Sequence[int], row: dict[str, Any]) -> Fraction:
    """The constant, and the columns of the design times their factors, in units of 1 / points."""
    constant, *slopes = (Fraction(z, statistic.points) for z in factors)
    cells = [by_name(column, row, statistic.schema) for column in statistic.design]
    return constant + sum(b * d for b, d in zip(slopes, cells, strict=True))


def _level_factor(statistic: TableCounts, factor: str, row: dict[str, Any]) -> Fraction:
    """A level of a column, one that is centred, or a comparison with the levels before it."""
    column, mark, rest = re.match(r"(\w+)([\[{])(.*)$", factor).groups()
    if mark == "[":
        return _factor(factor, row, statistic.schema)
    labels = dict(statistic.sides.axes)[column]
    own = [
        _factor(column + (x if x[0] == "[" else f"[{x}]"), row, statistic.schema) for x in labels
    ]
    at, which = own.index(1), rest[:-1]
    if len(labels) == 2:
        assert which == "-".join(labels)
        return Fraction(1 - 2 * at)
    if not which.startswith("<"):
        return Fraction(len(labels) * (labels[at] == which) - 1)
    k = labels.index(which[1:])
    return Fraction(1 if at < k else -k if at == k else 0)


# --- what an entry must be, from its name alone -----------------------------------------------


def by_name(name: str, row: dict[str, Any], facts: tdp.Schema) -> Fraction:
    """The contribution of a row to the entry of this name, scaled to [-1, 1]."""
    if name.startswith("not "):
        return 1 - by_name(name.removeprefix("not "), row, facts)
    entry, _, label = name.partition("|")
    share = Fraction(1)
    if label.startswith(" "):  # groups: "l=v, b=[0, 3)"
        entry = entry.strip()
        for column, cell in re.findall(r"(\w+)=(\[[^\])]*[\])]|[^,]*)", label):
            share *= _factor(column + (cell if cell.startswith("[") else f"[{cell}]"), row, facts)
    elif label:
        share = Fraction(row["l"] == label)
    if entry in ("count", "rows"):
        return share
    if " in {" in entry:  # one of several levels
        column, _, levels = entry.partition(" in {")
        return Fraction(str(row[column]) in levels[:-1].split(", "))
    entry = entry.replace(" in [", "[")  # a bin
    if "]-" in entry:  # a contrast of two levels
        first, second = entry.split("]-")
        return share * (_factor(first + "]", row, facts) - _factor(second, row, facts))
    if entry.endswith("^2-1"):
        return share * (2 * _factor(entry[2:-4], row, facts) ** 2 - 1)
    weight = re.search(r"\(1\+(\w+)\)", entry)
    if weight is not None:
        share *= 1 + _factor(weight[1], row, facts)
        entry = entry.replace(weight[0], "1")
    value = share
    for part in re.split(r"[:*](?![^\[]*[\])])", entry):
        base, _, power = part.partition("^")
        value *= int(base) if base.isdigit() else _factor(base, row, facts) ** int(power or 1)
    return value


def _factor(part: str, row: dict[str, Any], facts: tdp.Schema) -> Fraction:
    """A scaled number, the indicator of a level, or that of a bin."""
    column, _, rest = part.partition("[")
    facts_of = facts[column]
    if isinstance(facts_of, tdp.Category):
        return Fraction(str(row[column]) == rest[:-1])
    if isinstance(facts_of, tdp.Date):
        return _date_factor(facts_of, row[column], rest)
    if not rest:
        return (Fraction(float(row[column])) - Fraction(facts_of.middle)) / Fraction(facts_of.half)
    low, high = (Fraction(float(edge)) for edge in rest[:-1].split(", "))
    cell = Fraction(float(row[column]))
    return Fraction(low <= cell < high or (rest[-1] == "]" and cell == high))


def _date_factor(facts: tdp.Date, cell: Any, rest: str) -> Fraction:
    """The same of a date, by the calendar of Python."""
    there = not np.isnat(cell)
    day = cell.item() if there else facts.first + (facts.last - facts.first) / 2
    if not rest:
        days, whole = (day - facts.first).days, (facts.last - facts.first).days
        return Fraction(2 * days - whole, whole)
    label = rest[:-1]
    if ", " in label:
        low, high = map(date.fromisoformat, label.split(", "))
        return Fraction(low <= day < high or (rest[-1] == "]" and day == high))
    year, week, _ = day.isocalendar()
    names = (f"{day:%A}", f"{day}", f"{day:%Y-%m}", f"{year}-W{week:02d}")
    return Fraction(label in names if there else label == "no date")


# --- mechanisms -------------------------------------------------------------------------------


@cache
def own_law() -> Any:
    """A stepped law of the user's."""
    steps = [10, 16, 26, 41, 65, 65, 41, 26, 16, 10]
    return tdp.PiecewiseNoise(steps, start=-5, cell_width=2.5, atom=5, epsilon=1.0, sensitivity=5.0)


@cache
def plane(ball: str) -> Any:
    return tdp.design_planar_noise(epsilon=1.0, delta=0.3, resolution=1, ball=ball)


PURE = (*SHAPES, "laplace", "staircase", "tulap", "own ball")
LOSSY = ("truncated-laplace", "tulap", "gaussian", "discrete-gaussian", "l2")
DELTA = 1e-3
QUICK = (*PURE, "own parts", "split triangle", "split cylinder", "split box", "own law", "plane l2")


@dataclass(frozen=True)
class Released:
    """A mechanism and the name of its noise."""

    noise: str
    mechanism: Any


def released(
    statistic: Statistic, epsilon: Any = 1, *, only: Collection[str] | None = None
) -> list[Released]:
    """The statistic with every noise that it accepts; what cannot be drawn is refused aloud."""
    found = []
    for noise, make in _makers(statistic, epsilon).items():
        if only is not None and noise not in only:
            continue
        try:
            found.append(Released(noise, make()))
        except (InfeasibleSamplingError, ParameterError):
            continue
    return found


def _makers(statistic: Statistic, epsilon: Any) -> dict[str, Callable[[], Any]]:
    if isinstance(statistic, GroupMoments):
        return _class_makers(statistic, epsilon)
    makers: dict[str, Callable[[], Any]] = {}
    if isinstance(statistic, SecondMoments):
        makers["own parts"] = lambda: SplitMechanism(
            statistic, body_of(statistic).parts, epsilon=epsilon
        )
    if isinstance(statistic, RegressionMoments):  # which is released in parts
        for kind in MOMENT_KINDS:
            makers[f"split {kind}"] = lambda kind=kind: _split(statistic, kind, epsilon)
        makers["nuclear"] = lambda: _nuclear(statistic, epsilon)
    for noise in PURE if not makers else ("laplace", "staircase", "tulap"):
        makers[noise] = lambda noise=noise: tdp.AdditiveMechanism(
            statistic, noise=_given(statistic, noise), epsilon=epsilon
        )
    for noise in LOSSY:
        makers[f"{noise}, delta"] = lambda noise=noise: tdp.AdditiveMechanism(
            statistic, noise=noise, epsilon=epsilon, delta=DELTA
        )
    makers["own law"] = lambda: tdp.AdditiveMechanism(statistic, noise=own_law())
    if len(statistic) == 2:
        for ball in ("l1", "l2", "linf"):
            makers[f"plane {ball}"] = lambda ball=ball: tdp.AdditiveMechanism(
                statistic, noise=plane(ball)
            )
    return makers


def _given(statistic: Statistic, noise: str) -> Any:
    if noise != "own ball":
        return noise
    size = float(statistic.sensitivity_space().sensitivity(p=1))
    return LpBall(len(statistic), 1, 1.25 * size)


def _split(statistic: RegressionMoments, kind: str, epsilon: Any) -> SplitMechanism:
    share = Fraction(1, len(statistic.parts))
    parts = [Part(name, statistic.ball(name, kind), share) for name in statistic.parts]
    return SplitMechanism(statistic, parts, epsilon=epsilon)


def _nuclear(statistic: RegressionMoments, epsilon: Any) -> SplitMechanism:
    """One nuclear ball for everything, or for the features beside the parts of the others."""
    if "moments" in statistic.parts:
        own = regression_part("moments", statistic, 1.5)
        return SplitMechanism(statistic, [own], epsilon=epsilon)
    share = Fraction(1, len(statistic.parts))
    parts = {name: Part(name, statistic.ball(name, "box"), share) for name in statistic.parts}
    parts["features"] = regression_part("features", statistic, None, share)
    return SplitMechanism(statistic, list(parts.values()), epsilon=epsilon)


def _class_makers(statistic: GroupMoments, epsilon: Any) -> dict[str, Callable[[], Any]]:
    makers: dict[str, Callable[[], Any]] = {}
    for noise in ("hull", "laplace", "staircase", "tulap"):
        makers[noise] = lambda noise=noise: ClassMechanism(statistic, noise=noise, epsilon=epsilon)
    for noise in LOSSY:
        makers[f"{noise}, delta"] = lambda noise=noise: ClassMechanism(
            statistic, noise=noise, epsilon=epsilon, delta=DELTA
        )
    return makers


# --- the body that the drawn noise was made for -----------------------------------------------


def inside(mechanism: Any, moves: Any) -> Any:
    """Whether each move lies within what the drawn noise was made for, in integers."""
    if isinstance(mechanism, SplitMechanism):
        # parts stand one after the other; one nuclear ball may hold what has several names
        ends = np.cumsum([part.dim for part in mechanism.parts])
        assert ends[-1] == len(mechanism.statistic)
        where = [slice(b - part.dim, b) for part, b in zip(mechanism.parts, ends, strict=True)]
        fits = [_levels(n, moves[:, w]) for n, w in zip(mechanism.noises, where, strict=True)]
        return np.all(fits, axis=0)
    choice = mechanism._choice
    if isinstance(choice, BallNoise):
        return _levels(mechanism.noise, moves)
    if isinstance(choice, CoordinateNoise):
        most = np.array([law.sensitivity for law in choice.laws])
        return (np.abs(moves) <= most).all(axis=1) & ((moves != 0).sum(axis=1) <= choice.moved)
    if isinstance(choice, L2Noise):  # by the rate that is drawn with: 1 / (eta |n d|) is the scale
        length = np.linalg.norm(moves.astype(np.float64) * np.array(choice.roots), axis=1)
        return length**2 <= choice.moves.square * (1 + 1e-12)
    if isinstance(choice, GaussianNoise):  # by the variances that are drawn with
        precision = [1 / variance for variance in choice.variances]
        squares = np.array([[Fraction(int(d) ** 2) for d in move] for move in moves]) @ precision
        return squares <= choice.mu2
    if isinstance(choice, VectorNoise):
        power = {"l1": 1, "l2": 2, "linf": np.inf}[choice.design.ball]
        length = np.linalg.norm(moves.astype(np.float64), power, axis=1)
        return length <= choice.design.resolution * choice.draws.points * (1 + 1e-12)
    return _in_classes(choice, moves)


def _in_classes(choice: ClassNoise, moves: Any) -> Any:
    """Written out from the layout of names: everything of a class is between its bars."""
    blocks = moves.reshape(len(moves), choice.classes, choice.width)
    if isinstance(choice, BodyNoise):
        levels = sum(choice.body.level(blocks[:, c]) for c in range(choice.classes))
        return levels <= choice.noise.sensitivity
    if isinstance(choice, GaussianClassNoise):
        square = (moves.astype(np.float64) ** 2).sum(axis=1)
        return square <= float(choice.sensitivity * choice.resolution) ** 2
    assert isinstance(choice, LawNoise)
    names = [name.partition("|")[0] for name in choice.moments.names[: choice.width]]
    groups = [name.partition("[")[0] if "]-" not in name else name for name in names]
    fits = np.ones(len(moves), dtype=bool)
    for group in dict.fromkeys(groups):
        law = choice.laws[0 if group.strip() in ("count", "rows") else 1]
        mine = [j for j, g in enumerate(groups) if g == group]
        steps = np.abs(blocks[:, :, mine]).sum(axis=(1, 2))
        fits &= steps <= choice.ends * choice.rows * law.sensitivity
    return fits


def _norms(noise: NuclearNoise, moves: Any) -> Any:
    """The norm of a matrix of moves, from its eigenvalues, one move at a time."""
    fits = []
    for move in moves:
        D = np.zeros((noise.ball.size, noise.ball.size))
        for (i, j, factor), entry in zip(noise.entries, move, strict=True):
            D[i, j] = D[j, i] = entry / factor
        for i in range(
            1, len(D)
        ):  # columns without a square are indicators: that is they themselves
            if all((i, i) != (a, b) for a, b, _ in noise.entries):
                D[i, i] = D[0, i]
        D = D * noise.ball.weights * noise.ball.weights[:, None]
        own = np.linalg.eigvalsh(D)
        norm = np.abs(own).sum()
        if noise.replaced:
            norm = 2 * max(own[own > 0].sum(), -own[own < 0].sum())
        fits.append(norm <= float(noise.sensitivity) * (1 + 1e-12))
    return np.array(fits)


def _levels(noise: Any, moves: Any) -> Any:
    if isinstance(noise, NuclearNoise):
        return _norms(noise, moves)
    try:
        return noise.body.level(moves) <= noise.sensitivity
    except ParameterError:  # a move that leaves the span of a flat body
        return np.zeros(len(moves), dtype=bool)
