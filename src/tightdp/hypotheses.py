"""The kinds of tests of hypotheses: what each is called, its mechanism and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tightdp.inference.noisy_binomial import ALTERNATIVES
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.moment_tests import PATTERNS, CorrelationTest, MeansTest
from tightdp.mechanisms.proportion import ProportionTest
from tightdp.mechanisms.table_tests import (
    FITS,
    GoodnessOfFit,
    IndependenceTest,
    KolmogorovTest,
    RankTest,
)
from tightdp.options import SHAPE, Option
from tightdp.schema import Interval


class Hypothesis(NamedTuple):
    """What a registered kind needs to be known of a test."""

    name: str
    about: str
    mechanism: Callable[..., Mechanism]
    options: Mapping[str, Option]


CONDITION = {
    "column": Option("column", "the column of the condition", required=True),
    "levels": Option("labels", "of a category: the levels that count"),
    "low": Option("bound", "of a number or a date: from here on"),
    "high": Option("bound", "of a number or a date: up to here, which does not count"),
}
_SIDE = Option("text", "on which side", choices=ALTERNATIVES, default="two-sided")
_PATTERN = Option(
    "text", "any difference of groups, or a trend in their order", choices=PATTERNS, default="any"
)
_GROUPS = Option("by", "the groups: categories, and numbers with their bins", required=True)
_ORDERED: dict[str, Any] = {
    "column": Option("column", "a number, or a category with levels in order", required=True),
    "by": _GROUPS,
    "bins": Option("bins", "of a number: how many (10), or their edges"),
}

TESTS = (
    Hypothesis(
        "proportion_test",
        "a test and an interval for the share of a population that satisfies a public condition",
        ProportionTest,
        {
            **CONDITION,
            "null": Option("number", "the share that is doubted", default=0.5),
            "alternative": _SIDE,
            "delta": Option("number", "as for other noise, 0 if there is none", default=0),
        },
    ),
    Hypothesis(
        "goodness_of_fit",
        "a test whether levels or bins of a column have stated shares in the population",
        GoodnessOfFit,
        {
            "column": Option("column", "a category, or a number in bins", required=True),
            "null": Option("numbers", "the shares that are doubted, by default even ones"),
            "bins": _ORDERED["bins"],
            "statistic": Option("text", "what is looked at", choices=FITS, default=FITS[0]),
            **SHAPE,
        },
    ),
    Hypothesis(
        "independence_test",
        "a test whether two columns are independent, from their cross table",
        IndependenceTest,
        {
            "by": Option("by", "two columns: categories, and numbers with bins", required=True),
            **SHAPE,
        },
    ),
    Hypothesis(
        "kolmogorov_test",
        "a test whether groups have one distribution, by distribution functions in public bins",
        KolmogorovTest,
        {**_ORDERED, **SHAPE},
    ),
    Hypothesis(
        "rank_test",
        "a test whether a column is larger in some groups, by ranks in public bins",
        RankTest,
        {**_ORDERED, "pattern": _PATTERN, "alternative": _SIDE, **SHAPE},
    ),
    Hypothesis(
        "means_test",
        "a test whether groups have one mean: two samples, analysis of variance, or a trend",
        MeansTest,
        {
            "column": Option("column", "a numeric column", required=True, of=Interval),
            "by": _GROUPS,
            "pattern": _PATTERN,
            "alternative": _SIDE,
            **SHAPE,
        },
    ),
    Hypothesis(
        "correlation_test",
        "a test whether two numeric columns are independent, by their correlation",
        CorrelationTest,
        {
            "columns": Option("columns", "two numeric columns", required=True, of=Interval),
            "alternative": _SIDE,
            **SHAPE,
        },
    ),
)
