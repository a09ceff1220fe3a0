"""Every mechanism and every estimator, small enough to be drawn in a moment.

The laws run over this table. A new mechanism must appear in it: ``test_enrolled.py`` fails as long
as a class that can be built has no line here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.data.class_moments import ClassMoments, GroupMoments
from tightdp.data.histograms import JointHistogram
from tightdp.data.regression_moments import RegressionMoments
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.mechanisms.book_parts import BookParts, GroupPart
from tightdp.mechanisms.class_regression import ClassPerturbation
from tightdp.mechanisms.coordinate_descent import CoordinateDescent
from tightdp.mechanisms.count_regression import CountPerturbation
from tightdp.mechanisms.counts import CellCounts, ClassMechanism, ClassTables
from tightdp.mechanisms.covariances import CovarianceMechanism
from tightdp.mechanisms.data_dependent import DataDependentMechanism
from tightdp.mechanisms.error_look import ErrorLook
from tightdp.mechanisms.exponential import SquaredLossMean
from tightdp.mechanisms.exponential_grids import BoxMechanism, PieceMechanism
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.groups import GroupMeans, GroupSums, GroupVariances
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.key_totals import KeyMeans, KeySums, KeyTotals
from tightdp.mechanisms.kolmogorov import JointKolmogorov, KolmogorovSample
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.means import MeanMechanism, SumMechanism, VarianceMechanism
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.moment_tests import CorrelationTest, MeansAndSquares, MeansTest
from tightdp.mechanisms.person_bounds import RowsPerPerson
from tightdp.mechanisms.population_means import PopulationMeans
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.mechanisms.proportion import ProportionTest
from tightdp.mechanisms.ranks import BoundsFinder
from tightdp.mechanisms.regression_tests import RegressionTest
from tightdp.mechanisms.robust_regression import HuberPerturbation
from tightdp.mechanisms.shares import ShareMechanism
from tightdp.mechanisms.sparse_least_squares import SparseLeastSquares
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.mechanisms.synthetic_rows import SyntheticRows
from tightdp.mechanisms.table_book import Tables
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.mechanisms.table_tests import (
    GoodnessOfFit,
    IndependenceTest,
    KolmogorovTest,
    RankTest,
)
from tightdp.mechanisms.tilted_squares import TiltedSquares
from tightdp.mechanisms.tuning import TunedPerturbation
from tightdp.mechanisms.two_looks import TwoLooks
from tightdp.mechanisms.vector_part import VectorPart
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.nuclear_part import regression_part

Make = Callable[[tdp.Schema], Any]
BOTH = ("replace-one", "add-remove")
REPLACED = ("replace-one",)
ROWS = 24
FIRST_DAY = date(2014, 1, 1)
NUMBERS, LEVELS = ("x", "y"), {"k": ("a", "b", "c"), "t": ("no", "yes")}


def schema(neighbors: str = "replace-one", rows: int = ROWS, **facts: Any) -> tdp.Schema:
    """Two numbers, a category and a label: what every mechanism below reads."""
    columns = {
        "x": tdp.Interval(0, 10),
        "y": tdp.Interval(-1, 1),
        "k": tdp.Category(LEVELS["k"], other="c"),
        "t": tdp.Category(LEVELS["t"], other="no"),
    }
    return tdp.Schema(columns, rows, neighbors=neighbors, **facts)


def plain_rows(rng: np.random.Generator, rows: int = ROWS) -> list[dict[str, Any]]:
    """Rows that break no rule of the schema."""
    return [
        {
            "x": float(rng.uniform(0, 10)),
            "y": float(rng.uniform(-1, 1)),
            "k": str(rng.choice(LEVELS["k"])),
            "t": str(rng.choice(LEVELS["t"])),
        }
        for _ in range(rows)
    ]


def date_of(number: Any) -> date | None:
    """A number of the common rows as a date of :func:`dated`, from its first day to its last."""
    fits = type(number) is float and 0 <= number <= 10
    return FIRST_DAY + timedelta(days=round(number)) if fits else None


def mapping(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The plainest container: a list for every column, and of x as a date."""
    columns = {name: [row[name] for row in rows] for name in ("x", "y", "k", "t")}
    return columns | {"d": [date_of(x) for x in columns["x"]]}


@dataclass(frozen=True)
class Case:
    """One mechanism with one choice of options."""

    name: str
    make: Make
    relations: tuple[str, ...] = BOTH
    quick: bool = True
    """Whether a release takes a few milliseconds: laws that need hundreds leave out the others."""

    def build(self, neighbors: str, **facts: Any) -> Any:
        """The mechanism or estimator for the common schema: a copy of one that is made once."""
        return copy(_made(self, neighbors, tuple(facts.items())))

    def build_anew(self, neighbors: str) -> Any:
        """One that shares nothing with others."""
        return self.make(schema(neighbors))

    def __str__(self) -> str:
        return self.name


@cache
def _made(case: Case, neighbors: str, facts: tuple[tuple[str, Any], ...]) -> Any:
    return case.make(schema(neighbors, **dict(facts)))


# --- functions of a user --------------------------------------------------------------------------


def numbers_of(frame: Any) -> list[int]:
    """Integers of column x, cell by cell, whatever the cell: what a careful utility does."""
    found = []
    for cell in frame["x"]:
        number = cell if type(cell) in (int, float) else 0.0  # no float of 10**400
        found.append(round(100 * min(max(number, 0.0), 10.0)) if number == number else 0)
    return found


def utilities(frame: Any) -> list[int]:
    """How many rows are below each of three cuts: one row moves each by at most one."""
    rows = numbers_of(frame)
    return [sum(row < cut for row in rows) for cut in (250, 500, 750)]


def pieces(frame: Any) -> tuple[list[int], list[int]]:
    """Rows below a grid point, by pieces."""
    low, middle, high = utilities(frame)
    return [-10, 0, 10], [0, low, middle, high]


def box_bounds(frame: Any) -> Callable[[Any, Any], tuple[int, int]]:
    """Minus the distance of a corner from a count, row by row of sensitivity one."""
    many = utilities(frame)[1]

    def on_box(low: Any, high: Any) -> tuple[int, int]:
        ends = [abs(low[0] - many), abs(high[0] - many)]
        near = 0 if low[0] <= many <= high[0] else min(ends)
        return -max(ends), -near

    return on_box


def slope_of_base(low: Any, high: Any) -> tuple[Fraction, Fraction]:
    """Minus the logarithm of a base measure that falls to the right."""
    return Fraction(low[0], 100), Fraction(high[0], 100)


def gradient_norm(frame: Any) -> Callable[[Any, Any], tuple[int, int]]:
    """The gradient of the squared loss of a location, on a box of grid points."""
    rows = [round(row / 1000 * 512) - 256 for row in numbers_of(frame)]
    total, n = sum(rows), len(rows)

    def on_box(low: Any, high: Any) -> tuple[int, int]:
        ends = 2 * (n * low[0] - total), 2 * (n * high[0] - total)
        near = 0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
        return near, max(map(abs, ends))

    return on_box


def huber(rows: Any, theta: Any) -> Any:
    """The gradient of Huber's location, row by row."""
    return np.clip(theta - rows, -1, 1)


def huber_bounds(rows: Any, low: Any, high: Any) -> Any:
    """It grows with theta."""
    return np.clip(low - rows, -1, 1), np.clip(high - rows, -1, 1)


# --- the table ------------------------------------------------------------------------------------


def additive(noise: Any, statistic: Callable[[tdp.Schema], Any], delta: float = 0) -> Make:
    """An additive mechanism of a statistic."""
    return lambda facts: tdp.AdditiveMechanism(
        statistic(facts), noise=noise, epsilon=1, delta=delta
    )


def two_levels(facts: tdp.Schema) -> tdp.Schema:
    """The common schema with two flags."""
    return facts.ruled({**facts.columns, "k": tdp.Category(["a", "b"], other="a")})


def same_bounds(facts: tdp.Schema) -> tdp.Schema:
    """The common schema with two amounts."""
    amount = tdp.Interval(0, 10, missing=0)
    return facts.ruled({**facts.columns, "x": amount, "y": amount})


def dated(facts: tdp.Schema) -> tdp.Schema:
    """The common schema with a date."""
    return facts.ruled({**facts.columns, "d": tdp.Date(FIRST_DAY, FIRST_DAY + timedelta(days=10))})


def of_persons(facts: tdp.Schema, most: int = 1) -> tdp.Schema:
    """The common schema where x names persons, a new one in every row; ``most`` rows of each count.

    Laws of neighbours change a row: if a person had several, that would be two persons' worth.
    """
    columns = {name: rule for name, rule in facts.columns.items() if name != "x"}
    relation: Any = facts.neighbors
    return tdp.Schema(columns, facts.rows, neighbors=relation, person="x", rows_per_person=most)


STATISTICS: dict[str, Callable[[tdp.Schema], Any]] = {
    "sums": lambda facts: tdp.Sums(facts, ["y", "x"]),
    "counts": lambda facts: tdp.Counts(facts, ["t", "k"]),
    "table": lambda facts: tdp.Counts(facts, ["k:t"]),
    "products": lambda facts: tdp.Products(facts, ["k:t", "x", "t"]),
    "squares": lambda facts: tdp.SumsAndSquares(facts, ["x"]),
    "histogram": lambda facts: tdp.Histogram(facts, "x", 4),
    "flags": lambda facts: tdp.Flags(two_levels(facts), ["t", "k"], at_most=1),
    "implied flags": lambda facts: tdp.Flags(two_levels(facts), ["t", "k"], implies=[("k", "t")]),
    "capped sums": lambda facts: tdp.CappedSums(same_bounds(facts), ["y", "x"], at_most=10),
}
LAWS = {
    "laplace": 0.0,
    "staircase": 0.0,
    "tulap": 1e-3,
    "truncated-laplace": 1e-3,
    "gaussian": 1e-3,
    "discrete-gaussian": 1e-3,
    "designed": 1e-3,
}


NO_HULL = {"counts": ("replace-one",), "products": ()}  # where the hull has no exact sampler


def additive_cases() -> Iterator[Case]:
    for name, statistic in STATISTICS.items():
        for noise in ("best", "hull", "l1", "l2", "linf"):
            relations = NO_HULL.get(name, BOTH) if noise == "hull" else BOTH
            yield Case(f"{name}, {noise}", additive(noise, statistic), relations)
    for noise, delta in LAWS.items():
        yield Case(f"sums, {noise}", additive(noise, STATISTICS["sums"], delta))
        yield Case(f"table, {noise}", additive(noise, STATISTICS["table"], delta))
    for name in ("sums", "table", "products"):
        for noise in ("l2", "best"):
            yield Case(f"{name}, {noise} with delta", additive(noise, STATISTICS[name], 1e-3))
    for noise in ("best", "hull"):
        yield Case(
            f"days of the week of a date, {noise}",
            additive(noise, lambda facts: tdp.Histogram(dated(facts), "d", "weekday")),
        )
    yield Case(
        "products, own gaussian",
        lambda facts: tdp.AdditiveMechanism(
            STATISTICS["products"](facts), noise=tdp.RoundedGaussian(sigma2=2500), delta=1e-3
        ),
    )


@cache
def range_design() -> Any:
    """Noise designed for the range of one sum; found once."""
    return tdp.design_data_dependent_noise(
        epsilon=1.0, delta=0.01, sensitivity=10, query_range=(0, 240), resolution=2
    )


def split(facts: tdp.Schema) -> Any:
    """Two sums, each with its own noise."""
    sums = tdp.Sums(facts, ["x", "y"])
    reach = 2.0 if str(facts.neighbors) == "replace-one" else 1.0
    parts = [Part(name, tdp.LpBall(1, 1, reach), Fraction(1, 2)) for name in ("x", "y")]
    return SplitMechanism(sums, parts, epsilon=1)


def nuclear_moments(facts: tdp.Schema) -> Any:
    """The moments of a regression with nuclear noise."""
    moments = RegressionMoments(facts, ["x", "k"], "y", joint=True)
    part = regression_part("moments", moments, 1.5)
    return SplitMechanism(moments, [part], epsilon=1)


_RHO: dict[str, Any] = {"rho": Fraction(1, 8), "delta": Fraction(1, 1000)}
_MEANS: dict[str, Any] = {
    "tables": ["t", ["t", "k"]],
    "means": [(["x", "y"], ["k"])],
    "sums": [("x", [("y", [-1, 0, 1])])],
}


def group_part(facts: tdp.Schema, *, counted: bool, **budget: Any) -> GroupPart:
    """Sums of two columns in the groups of two others."""
    return GroupPart(GroupMoments(facts, ["x", "y"], ["k", "t"], counted=counted), **budget)


def _margins(facts: tdp.Schema) -> dict[str, list[int]]:
    """Counts that somebody states."""
    return {
        name: [facts.rows - len(LEVELS[name]) + 1, *[1] * (len(LEVELS[name]) - 1)]
        for name in ("t", "k")
    }


MECHANISMS: dict[type, list[Case]] = {
    tdp.AdditiveMechanism: list(additive_cases()),
    ClassMechanism: [
        Case(
            f"classes, {noise}",
            lambda facts, noise=noise, delta=delta: ClassMechanism(
                ClassMoments(facts, ["x", "k"], "t"), noise=noise, epsilon=1, delta=delta
            ),
        )
        for noise, delta in {"hull": 0.0, "laplace": 0.0, "gaussian": 1e-3}.items()
    ],
    DataDependentMechanism: [
        Case(
            "data-dependent",
            lambda facts: DataDependentMechanism(tdp.Sums(facts, ["x"]), design=range_design()),
            ("replace-one",),
        )
    ],
    SplitMechanism: [
        Case("split", split),
        Case("nuclear moments", nuclear_moments, ("replace-one",), quick=False),
    ],
    TwoLooks: [
        Case(
            "two looks",
            lambda facts: TwoLooks(facts, ["x", "k"], "y", epsilon=1),
            ("replace-one",),
        )
    ],
    ErrorLook: [
        Case(
            "moments and errors",
            lambda facts: ErrorLook(facts, ["x", "k"], "y", epsilon=1, share=0.25),
            ("replace-one",),
        ),
        Case(
            "moments and errors, through zero",
            lambda facts: ErrorLook(
                facts, ["x"], "y", epsilon=1, share=0.25, fit_intercept=False, alpha=2.0
            ),
            ("replace-one",),
            quick=False,
        ),
    ],
    TiltedSquares: [
        Case(
            "a tilted loss and its residuals",
            lambda facts: TiltedSquares(facts, ["x", "k"], "y", epsilon=1),
            ("replace-one",),
        )
    ],
    CovarianceMechanism: [
        Case(
            f"covariance, {name}",
            lambda facts, options=options: CovarianceMechanism(
                facts, ["y", "x"], epsilon=1, **options
            ),
            quick=False,
        )
        for name, options in {
            "rows of bounded length": {"norm": 1},
            "about the middles": {"norm": 0.75, "assume_centered": True},
            "nuclear": {"noise": "nuclear"},
            "l2": {"norm": 1, "noise": "l2"},
            "of rows that are there": {"norm": 1, "missing": "drop"},
        }.items()
    ]
    + [
        Case(
            "covariance, columns",
            lambda facts: CovarianceMechanism(facts, ["x"], epsilon=1, noise="columns"),
        )
    ],
    SumMechanism: [
        Case("sum", lambda facts: SumMechanism(facts, ["x", "y"], epsilon=1)),
        Case(
            "sum of rows of persons",
            lambda facts: SumMechanism(of_persons(facts, 3), ["y"], epsilon=1),
            ("add-remove",),
        ),
    ],
    MeanMechanism: [
        Case("mean", lambda facts: MeanMechanism(facts, ["x", "y"], epsilon=1)),
        Case("mean of a date", lambda facts: MeanMechanism(dated(facts), ["d", "y"], epsilon=1)),
        Case(
            "mean of persons",
            lambda facts: MeanMechanism(of_persons(facts), ["y"], epsilon=1, per="person"),
            ("add-remove",),
        ),
    ],
    VarianceMechanism: [
        Case(
            "variance",
            lambda facts: VarianceMechanism(facts, ["x"], epsilon=1),
            ("replace-one",),
        )
    ],
    ShareMechanism: [
        Case(
            "share",
            lambda facts: ShareMechanism(facts, "x", low=0.5, epsilon=1),
        ),
        Case(
            "share of levels",
            lambda facts: ShareMechanism(facts, "k", levels=["a", "b"], epsilon=1),
        ),
    ],
    ProportionTest: [
        Case(
            "proportion test",
            lambda facts: ProportionTest(facts, "x", low=0.5, epsilon=1),
            ("replace-one",),
        ),
        Case(
            "proportion test of levels",
            lambda facts: ProportionTest(
                facts, "k", levels=["a", "b"], null=0.3, alternative="less", epsilon=1, delta=0.01
            ),
            ("replace-one",),
        ),
    ],
    GoodnessOfFit: [
        Case(
            "goodness of fit",
            lambda facts: GoodnessOfFit(facts, "x", bins=3, null=[0.5, 0.3, 0.2], epsilon=1),
            REPLACED,
        ),
        Case(
            "goodness of fit, kolmogorov",
            lambda facts: GoodnessOfFit(
                facts, "x", bins=4, statistic="kolmogorov", noise="gaussian", epsilon=1, delta=1e-3
            ),
            REPLACED,
        ),
    ],
    IndependenceTest: [
        Case("independence", lambda facts: IndependenceTest(facts, ["t", "k"], epsilon=1), REPLACED)
    ],
    KolmogorovTest: [
        Case(
            "kolmogorov test",
            lambda facts: KolmogorovTest(facts, "x", "t", bins=3, epsilon=1),
            REPLACED,
        )
    ],
    RankTest: [
        Case(
            "rank test",
            lambda facts: RankTest(facts, "x", "k", bins=3, pattern="trend", epsilon=1),
            REPLACED,
        )
    ],
    MeansTest: [
        Case(
            "test of means",
            lambda facts: MeansTest(facts, "x", "k", pattern="trend", epsilon=1),
            REPLACED,
        ),
        Case(
            "test of two means",
            lambda facts: MeansTest(
                facts, "y", "t", alternative="less", noise="laplace", epsilon=1
            ),
            REPLACED,
        ),
    ],
    MeansAndSquares: [
        Case("means and squares", lambda facts: MeansAndSquares(facts, "x", "k", epsilon=1))
    ],
    CorrelationTest: [
        Case("correlation", lambda facts: CorrelationTest(facts, ["x", "y"], epsilon=1), REPLACED)
    ],
    PopulationMeans: [
        Case("population means", lambda facts: PopulationMeans(facts, ["x"], epsilon=1), REPLACED)
    ],
    RegressionTest: [
        Case(
            "coefficients tested",
            lambda facts: RegressionTest(facts, ["x"], "y", "x", epsilon=1),
            REPLACED,
            quick=False,
        )
    ],
    LeastSquares: [
        Case(
            "least squares, split",
            lambda facts: LeastSquares(facts, ["x"], "y", epsilon=1, noise="split"),
        ),
        Case(
            "least squares, hull",
            lambda facts: LeastSquares(facts, ["x"], "y", epsilon=1, noise="hull"),
            ("replace-one",),
        ),
        Case(
            "least squares in two stages",
            lambda facts: LeastSquares(facts, ["x"], "y", epsilon=1, stages=2),
            ("replace-one",),
        ),
        Case(
            "least squares with an interval share",
            lambda facts: LeastSquares(facts, ["x"], "y", epsilon=1, interval_share=0.25),
            ("replace-one",),
        ),
        Case(
            "least squares by a tilted loss",
            lambda facts: LeastSquares(facts, ["x"], "y", epsilon=1, method="objective"),
            ("replace-one",),
        ),
        Case(
            "least squares of rows that are there",
            lambda facts: LeastSquares(facts, ["x", "k"], "y", epsilon=1, missing="drop"),
        ),
        Case(
            "least squares of a date",
            lambda facts: LeastSquares(dated(facts), ["d"], "y", epsilon=1, noise="split"),
        ),
        Case(
            "least squares of rows of persons",
            lambda facts: LeastSquares(of_persons(facts, 3), ["k"], "y", epsilon=1),
            ("add-remove",),
        ),
        Case(
            "least squares of persons who are there",
            lambda facts: LeastSquares(
                of_persons(facts, 3), ["k"], "y", epsilon=1, missing="drop", per="person"
            ),
            ("add-remove",),
        ),
    ],
    ClassTables: [
        Case("class tables", lambda facts: ClassTables(facts, ["x", "k"], "t", epsilon=1))
    ],
    GroupSums: [
        Case(
            f"sums by group, {noise}",
            lambda facts, noise=noise, delta=delta: GroupSums(
                facts, ["x"], ["t", "k"], noise=noise, epsilon=1, delta=delta
            ),
        )
        for noise, delta in {"best": 0.0, "laplace": 0.0, "gaussian": 1e-3}.items()
    ]
    + [
        Case(
            "sums of rows that are there",
            lambda facts: GroupSums(facts, ["x"], None, epsilon=1, missing="drop"),
        ),
        Case(
            "sums by group of persons",
            lambda facts: GroupSums(
                of_persons(facts, 3), "y", "k", epsilon=1, per="person", groups_per_person=1
            ),
            ("add-remove",),
        ),
    ],
    GroupMeans: [
        Case("means by group", lambda facts: GroupMeans(facts, ["x", "y"], "k", epsilon=1)),
        Case(
            "means by bins",
            lambda facts: GroupMeans(facts, "x", ["k", ("y", [-1, 0, 1])], epsilon=1),
        ),
        *(
            Case(
                f"means of rows that are there, {noise}",
                lambda facts, noise=noise, delta=delta: GroupMeans(
                    facts, ["x", "y"], None, noise=noise, epsilon=1, delta=delta, missing="drop"
                ),
            )
            for noise, delta in {"hull": 0.0, "staircase": 0.0, "gaussian": 1e-3}.items()
        ),
        Case(
            "means by group of rows that are there",
            lambda facts: GroupMeans(facts, "x", "k", epsilon=1, missing="drop"),
        ),
        Case(
            "means by group of persons",
            lambda facts: GroupMeans(of_persons(facts, 3), "y", "k", epsilon=1, per="person"),
            ("add-remove",),
        ),
        Case(
            "means by group of persons who are there",
            lambda facts: GroupMeans(
                of_persons(facts, 3),
                "y",
                "k",
                epsilon=1,
                missing="drop",
                per="person",
                groups_per_person=2,
            ),
            ("add-remove",),
        ),
        Case(
            "means by group of rows of persons",
            lambda facts: GroupMeans(of_persons(facts, 3), "y", "k", epsilon=1, missing="drop"),
            ("add-remove",),
        ),
    ],
    GroupVariances: [
        Case("variances by group", lambda facts: GroupVariances(facts, "y", "t", epsilon=1)),
        Case("variances of all rows", lambda facts: GroupVariances(facts, "y", None, epsilon=1)),
        Case(
            "variances of rows that are there",
            lambda facts: GroupVariances(facts, ["x", "y"], None, epsilon=1, missing="drop"),
        ),
        Case(
            "variances of persons who are there",
            lambda facts: GroupVariances(
                of_persons(facts), "y", None, epsilon=1, missing="drop", per="person"
            ),
            ("add-remove",),
        ),
        Case(
            "variances by group of persons",
            lambda facts: GroupVariances(
                of_persons(facts, 3), "y", "t", epsilon=1, per="person", groups_per_person=1
            ),
            ("add-remove",),
        ),
    ],
    GroupQuantiles: [
        Case(
            f"{len(taus)} quantiles by group, {interval}",
            lambda facts, taus=taus, interval=interval: GroupQuantiles(
                facts, "x", taus, "k", epsilon=1, interval=interval
            ),
        )
        for taus, interval in (([0.25], "none"), ([0.5], "sample"), ([0.25, 0.5], "none"))
    ]
    + [
        Case(
            "quantiles by group of rows that are there",
            lambda facts: GroupQuantiles(facts, "x", [0.5], "k", epsilon=1, missing="drop"),
        ),
        Case(
            "quantiles by group of persons",
            lambda facts: GroupQuantiles(
                of_persons(facts, 3),
                "y",
                [0.5],
                "k",
                epsilon=1,
                missing="drop",
                per="person",
                groups_per_person=2,
            ),
            ("add-remove",),
        ),
    ],
    TableMechanism: [
        Case(
            f"coordinates of tables, {noise}",
            lambda facts, noise=noise, delta=delta: TableMechanism(
                facts, ["t", ["k", ("x", 2)]], noise=noise, epsilon=1, delta=delta
            ),
        )
        for noise, delta in {"cube": 0.0, "split": 0.0, "l2": 0.0, "gaussian": 1e-3}.items()
    ],
    Tables: [
        Case(
            f"tables, {noise}",
            lambda facts, noise=noise, delta=delta: Tables(
                facts, ["t", ["t", "k"], ["k", ("x", 2)]], noise=noise, epsilon=1, delta=delta
            ),
        )
        for noise, delta in {"best": 0.0, "cube": 0.0, "l2": 0.0, "gaussian": 1e-3}.items()
    ]
    + [
        Case("tables and means", lambda facts: Tables(facts, **_MEANS, epsilon=1)),
        Case("tables and means, rho", lambda facts: Tables(facts, **_MEANS, **_RHO)),
        Case("means alone", lambda facts: Tables(facts, means=[("x", ["k"])], epsilon=1)),
        Case(
            "two public tables",
            lambda facts: Tables(facts, ["t", ["t", "k"]], epsilon=1, public=_margins(facts)),
            ("replace-one",),
        ),
    ],
    GroupPart: [
        Case("sums within groups", lambda facts: group_part(facts, counted=True, epsilon=1)),
        Case("sums alone", lambda facts: group_part(facts, counted=False, epsilon=1)),
        Case(
            "sums within groups, rho",
            lambda facts: group_part(
                facts, counted=True, rho=Fraction(1, 8), delta=Fraction(1, 999)
            ),
        ),
    ],
    BookParts: [
        Case("parts of a book", lambda facts: Tables(facts, **_MEANS, epsilon=1).source),
        Case("parts of a book, rho", lambda facts: Tables(facts, **_MEANS, **_RHO).source),
    ],
    PrivateKeys: [
        Case("private keys", lambda facts: PrivateKeys(facts, "k", epsilon=1, delta=1e-3)),
        Case(
            "private keys, gaussian",
            lambda facts: PrivateKeys(facts, "k", epsilon=1, delta=1e-3, noise="gaussian"),
        ),
        Case(
            "private keys, two columns",
            lambda facts: PrivateKeys(facts, ["k", "t"], epsilon=1, delta=1e-3),
        ),
        Case(
            "private keys, the largest",
            lambda facts: PrivateKeys(facts, "k", epsilon=1, delta=1e-3, most=1),
        ),
    ],
    KeyTotals: [
        Case("key totals", lambda facts: KeyTotals(facts, ["x"], "k", epsilon=1, delta=1e-3)),
        Case(
            "key totals, two columns",
            lambda facts: KeyTotals(facts, ["x", "y"], ["k", "t"], epsilon=1, delta=1e-3),
        ),
    ],
    KeySums: [Case("key sums", lambda facts: KeySums(facts, "y", "k", epsilon=1, delta=1e-3))],
    KeyMeans: [Case("key means", lambda facts: KeyMeans(facts, "x", "k", epsilon=1, delta=1e-3))],
    CellCounts: [Case("cells", lambda facts: CellCounts(facts.only(["x", "k"]), 3, epsilon=1))],
    VectorPart: [
        Case(
            "part",
            lambda facts: VectorPart(facts, ["x", "k"], ["x"], "sum", epsilon=1),
            relations=("replace-one",),
        ),
        Case(
            "mean of a part",
            lambda facts: VectorPart(facts, ["x", "y", "k"], ["x", "y"], "mean", epsilon=1),
            relations=("replace-one",),
        ),
        Case(
            "counts of a part",
            lambda facts: VectorPart(facts, ["x", "k"], ["k"], "count", epsilon=1),
            relations=("replace-one",),
        ),
    ],
    Together: [
        Case(
            "together",
            lambda facts: Together(
                [
                    tdp.AdditiveMechanism(tdp.Sums(facts, ["x"]), epsilon=0.5),
                    tdp.KNormMedian(facts, "y", epsilon=0.5),
                ]
            ),
        )
    ],
    BoxMechanism: [
        Case(
            "box",
            lambda facts: BoxMechanism(
                [tdp.Interval(-1, 1)],
                box_bounds,
                sensitivity=1,
                epsilon=1,
                neighbors=facts.neighbors,
                bits=4,
            ),
        )
    ],
    PieceMechanism: [
        Case(
            "pieces",
            lambda facts: PieceMechanism(
                tdp.Interval(0, 1),
                pieces,
                sensitivity=1,
                epsilon=1,
                neighbors=facts.neighbors,
                bits=5,
            ),
        )
    ],
    tdp.ExponentialMechanism: [
        Case(
            f"exponential, flip {flip}",
            lambda facts, flip=flip: tdp.ExponentialMechanism(
                ["low", "middle", "high"],
                utilities,
                sensitivity=1,
                epsilon=1,
                neighbors=facts.neighbors,
                permute_and_flip=flip,
            ),
        )
        for flip in (False, True)
    ],
    SyntheticRows: [
        Case(
            "synthetic rows, chosen",
            lambda facts: SyntheticRows(facts, epsilon=1, bins={"x": 2, "y": 2}, rounds=2),
            quick=False,
        ),
        Case(
            "synthetic rows, in groups and cells",
            lambda facts: SyntheticRows(facts.only(["k", "t"]), epsilon=1),
            quick=False,
        ),
        Case(
            "synthetic rows, stated",
            lambda facts: SyntheticRows(facts.only(["k", "t"]), [["k", "t"]], epsilon=1),
        ),
        Case(
            "synthetic rows, in rho",
            lambda facts: SyntheticRows(
                facts, epsilon=1, delta=1e-3, bins={"x": 2, "y": 2}, rounds=1
            ),
            quick=False,
        ),
    ],
    JointKolmogorov: [
        Case(
            "joint sample",
            lambda facts: JointKolmogorov(JointHistogram(facts, ["x", "y"], 2), 3, epsilon=1),
        )
    ],
    KolmogorovSample: [
        Case("sample", lambda facts: KolmogorovSample(facts, "x", 6, epsilon=1, size=4))
    ],
    tdp.KNormGradient: [
        Case(
            "gradient",
            lambda facts: tdp.KNormGradient(
                tdp.Interval(-1, 1),
                gradient_norm,
                sensitivity=2 * 2 * 256,
                epsilon=1,
                neighbors=facts.neighbors,
                bits=8,
            ),
        ),
        Case(
            "gradient, on a base",
            lambda facts: tdp.KNormGradient(
                tdp.Interval(-1, 1),
                gradient_norm,
                sensitivity=2 * 2 * 256,
                epsilon=1,
                neighbors=facts.neighbors,
                bits=8,
                base_measure=slope_of_base,
            ),
        ),
    ],
    tdp.KNormRowGradient: [
        Case(
            "row gradient",
            lambda facts: tdp.KNormRowGradient(
                facts,
                tdp.Interval(0, 10),
                huber,
                huber_bounds,
                clip=1.0,
                epsilon=1,
                columns=["x"],
                grid=6,
            ),
        )
    ],
    tdp.KNormQuantile: [
        Case(
            f"quantile, {interval}",
            lambda facts, interval=interval: tdp.KNormQuantile(
                facts, "x", 0.25, epsilon=1, interval=interval
            ),
        )
        for interval in ("none", "sample")
    ]
    + [
        Case(
            "quantile, population",
            lambda facts: tdp.KNormQuantile(facts, "x", 0.25, epsilon=1, interval="population"),
            ("replace-one",),
        ),
        Case(
            "quantile of rows of persons",
            lambda facts: tdp.KNormQuantile(of_persons(facts, 3), "y", 0.25, epsilon=1),
            ("add-remove",),
        ),
    ],
    tdp.KNormMedian: [
        Case("median", lambda facts: tdp.KNormMedian(facts, "x", epsilon=1)),
        Case("median of a date", lambda facts: tdp.KNormMedian(dated(facts), "d", epsilon=1)),
        Case(
            "median of persons who are there",
            lambda facts: tdp.KNormMedian(
                of_persons(facts, 3),
                "y",
                epsilon=1,
                interval="sample",
                missing="drop",
                per="person",
            ),
            ("add-remove",),
        ),
    ],
    tdp.KNormQuantiles: [
        Case("quantiles", lambda facts: tdp.KNormQuantiles(facts, "x", [0.25, 0.5], epsilon=1)),
        Case(
            "quantiles of persons",
            lambda facts: tdp.KNormQuantiles(
                of_persons(facts, 3), "y", [0.25, 0.5], epsilon=1, per="person"
            ),
            ("add-remove",),
        ),
    ],
    BoundsFinder: [
        Case(
            "bounds",
            lambda facts: BoundsFinder(
                "x",
                rows=facts.rows,
                neighbors=facts.neighbors,
                epsilon=1,
                smallest=0.01,
                largest=100,
            ),
        )
    ],
    RowsPerPerson: [
        Case(
            "rows per person",
            lambda facts: RowsPerPerson(of_persons(facts), 5, share=0.9, epsilon=1),
            ("add-remove",),
        )
    ],
    tdp.KNormLinearRegression: [
        Case(
            "gradient, linear",
            lambda facts: tdp.KNormLinearRegression(
                facts, epsilon=1, features=["x"], target="y", grid=6
            ),
        )
    ],
    tdp.KNormQuantileRegression: [
        Case(
            "gradient, quantile regression",
            lambda facts: tdp.KNormQuantileRegression(
                facts, epsilon=1, features=["x"], target="y", grid=5
            ),
            quick=False,
        )
    ],
    tdp.KNormGeometricMedian: [
        Case(
            "geometric median",
            lambda facts: tdp.KNormGeometricMedian(facts, epsilon=1, columns=["x", "y"], grid=5),
            quick=False,
        ),
        Case(
            "geometric median, three looks",
            lambda facts: tdp.KNormGeometricMedian(
                facts, epsilon=1, columns=["x", "y"], grid=4, most_points=81
            ),
            quick=False,
        ),
    ],
    tdp.ObjectivePerturbation: [
        Case("objective", lambda facts: tdp.ObjectivePerturbation(facts, ["x"], "t", epsilon=1))
    ],
    CountPerturbation: [
        Case("counts", lambda facts: CountPerturbation(facts, ["y"], "x", epsilon=1)),
        Case(
            "dispersed counts",
            lambda facts: CountPerturbation(
                facts, ["y"], "x", epsilon=1, dispersion=0.5, interval_share=0.25
            ),
        ),
    ],
    HuberPerturbation: [
        Case("huber", lambda facts: HuberPerturbation(facts, ["x", "k"], "y", epsilon=1))
    ],
    ClassPerturbation: [
        Case("classes", lambda facts: ClassPerturbation(facts, ["x"], "k", epsilon=1))
    ],
    TunedPerturbation: [
        Case(
            "tuned",
            lambda facts: TunedPerturbation(
                facts, ["x"], "t", settings=[{"ridge": 0.0}, {"ridge": 1.0}], epsilon=1
            ),
            quick=False,
        )
    ],
    SparseLeastSquares: [
        Case(
            "sparse least squares",
            lambda facts: SparseLeastSquares(dated(facts), ["x", "d"], "y", epsilon=1, keep=1),
            ("replace-one",),
        )
    ],
    CoordinateDescent: [
        Case("descent", lambda facts: CoordinateDescent(facts, ["x"], "t", epsilon=1))
    ],
    SquaredLossMean: [
        Case(
            "squared loss",
            lambda facts: SquaredLossMean(facts, "x", epsilon=1),
            ("replace-one",),
            quick=False,
        )
    ],
}


def _classes(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("tightdp."):
            yield kind
            yield from _classes(kind)


def every(base: type) -> set[type]:
    """All classes of the package derived from a base, wherever they are written."""
    for module in pkgutil.walk_packages(tdp.__path__, "tightdp."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return set(_classes(base))


def mechanisms() -> set[type]:
    """All mechanisms that can be built."""
    return {kind for kind in every(Mechanism) if not inspect.isabstract(kind)}


def estimators() -> set[type]:
    """All estimators that users see."""
    return {kind for kind in every(PrivateEstimator) if getattr(tdp, kind.__name__, None) is kind}


CASES = [case for cases in MECHANISMS.values() for case in cases]
RELATED = [(case, relation) for case in CASES for relation in case.relations]


# --- estimators -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """An estimator, the columns it reads, and its target if it has one."""

    make: Callable[..., Any]
    features: tuple[str, ...]
    target: str | None = None
    relations: tuple[str, ...] = BOTH

    def build(self, neighbors: str, **options: Any) -> Any:
        """The estimator with public facts about its own columns, features first."""
        names = [*self.features, *([self.target] if self.target else [])]
        return self.make(epsilon=1, bounds=schema(neighbors).only(names), **options)

    def fit(self, neighbors: str, frame: Any, **options: Any) -> Any:
        """The estimator, fitted on a container that holds the columns by name."""
        estimator = self.build(neighbors, **options)
        return estimator.fit(frame, self.target) if self.target else estimator.fit(frame)


REPLACE = ("replace-one",)
ESTIMATORS: dict[str, Fit] = {
    "Mean": Fit(tdp.Mean, ("x", "y")),
    "Variance": Fit(tdp.Variance, ("x",), None, REPLACE),
    "Median": Fit(tdp.Median, ("x",)),
    "Quantile": Fit(tdp.Quantile, ("x",)),
    "Quantiles": Fit(tdp.Quantiles, ("x",)),
    "GeometricMedian": Fit(tdp.GeometricMedian, ("x", "y")),
    "Covariance": Fit(partial(tdp.Covariance, norm=1), ("x", "y")),
    "PCA": Fit(partial(tdp.PCA, norm=1), ("x", "y")),
    "Density": Fit(tdp.Density, ("x",)),
    "SyntheticSample": Fit(tdp.SyntheticSample, ("x", "k")),
    "SyntheticTable": Fit(tdp.SyntheticTable, ("k", "t")),
    "LinearRegression": Fit(tdp.LinearRegression, ("x", "k"), "y"),
    "Ridge": Fit(tdp.Ridge, ("x",), "y"),
    "QuantileRegression": Fit(tdp.QuantileRegression, ("x",), "y"),
    "LogisticRegression": Fit(tdp.LogisticRegression, ("x", "k"), "t"),
    "SparseLinearRegression": Fit(tdp.SparseLinearRegression, ("x",), "y", REPLACE),
    "PoissonRegression": Fit(tdp.PoissonRegression, ("y", "k"), "x"),
    "NegativeBinomialRegression": Fit(tdp.NegativeBinomialRegression, ("y",), "x"),
    "HuberRegression": Fit(tdp.HuberRegression, ("x",), "y"),
    "SparseLogisticRegression": Fit(tdp.SparseLogisticRegression, ("x",), "t", REPLACE),
    "GaussianNB": Fit(tdp.GaussianNB, ("x", "y"), "t"),
    "CategoricalNB": Fit(tdp.CategoricalNB, ("k",), "t"),
}
FITS = [(name, relation) for name, fit in ESTIMATORS.items() for relation in fit.relations]

# what the package makes and nobody calls: reports and results, read from files or returned
RESULTS = {
    "AuditReport", "Certificate", "ComposedDesign", "DataDependentDesign", "Design", "Finding",
    "NormRanking", "Plan", "PlanarDesign", "Preview", "RadialBound", "Release", "Report",
    "Structure", "TableBook", "TableCheck", "VectorDesign", "WorstEvent",
}  # fmt: skip
