"""The kinds of models: what each is called, its mechanism and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tightdp.errors import fail
from tightdp.mechanisms.class_regression import ClassPerturbation, several_classes
from tightdp.mechanisms.count_regression import CountPerturbation
from tightdp.mechanisms.counts import ClassTables
from tightdp.mechanisms.least_squares import METHODS, POSTS, LeastSquares
from tightdp.mechanisms.linear_fit import ASSUMPTIONS
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.objective import POSTS as OBJECTIVE_POSTS
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.mechanisms.regression_tests import RegressionTest
from tightdp.mechanisms.robust_regression import HuberPerturbation
from tightdp.mechanisms.sparse_least_squares import SparseLeastSquares
from tightdp.options import MISSING_CELLS, PER_WHOM, Option
from tightdp.schema import Category, Interval, Schema
from tightdp.shaping.coordinate_noise import PURE


class ModelKind(NamedTuple):
    """What a registered kind needs to be known of a model of features and a target."""

    name: str
    about: str
    mechanism: Callable[..., Mechanism]
    options: Mapping[str, Option]
    features: type | None = None
    target: type = Interval
    defaults: Mapping[str, float] = {}


_INTERCEPT = Option("flag", "whether there is an intercept")
_LINEAR = {
    "noise": Option("text", "the shape of the noise, by default the best"),
    "fit_intercept": _INTERCEPT,
    "post": Option("text", "how coefficients are made", choices=POSTS),
    "missing": MISSING_CELLS,
    "spread": Option(
        "shares of columns", "for previews: the share of their bounds that features fill"
    ),
    "correlation": Option("number", "for previews: that of the features"),
    "per": PER_WHOM,
    "stages": Option("integer", "2: a first line, and then a look at its residuals"),
    "interval_share": Option(
        "number", "the part of epsilon that buys the size of errors for intervals, say 0.1"
    ),
}
_METHOD = Option(
    "text", "objective: the minimiser of a tilted loss, with less noise", choices=METHODS
)
_PERTURBED = {
    "noise": Option("text", "the shape of the noise", choices=("linf", "l1", "l2")),
    "fit_intercept": _INTERCEPT,
    "ridge": Option("number", "at least so much ridge"),
    "l1": Option("number", "weight of an l1 penalty"),
}
_INTERVALS = {
    "interval_share": Option("number", "the part of epsilon that buys intervals, say 0.25")
}
_POST = Option(
    "text", "restore: what the ridge took, as far as noise lets it", choices=OBJECTIVE_POSTS
)
_COUNTS = {
    **_PERTURBED,
    "largest_mean": Option("number", "the largest mean of a row, by default the largest count"),
    **_INTERVALS,
}


def _logistic(schema: Schema, *, target: str, **given: Any) -> Mechanism:
    """Of two classes, or of more, which have a loss of their own."""
    if not several_classes(schema[target]):
        post = given.pop("post", None) or "restore"
        return ObjectivePerturbation(schema, target=target, post=post, **given)
    for key in ("noise", "l1", "interval_share"):
        if given.get(key):
            only = "where there are more, its shape is the hull of every column"
            rest = only if key == "noise" else "leave it out where there are more"
            fail(f"`{key}` is for two classes: {rest}.")
        given.pop(key, None)
    given.pop("post", None)  # which leaves others as they are
    return ClassPerturbation(schema, target=target, **given)


MODELS = (
    ModelKind(
        "linear_regression",
        "least squares with intervals",
        LeastSquares,
        {**_LINEAR, "method": _METHOD},
    ),
    ModelKind(
        "ridge",
        "ridge regression with intervals",
        LeastSquares,
        {**_LINEAR, "alpha": Option("number", "the penalty")},
        defaults={"alpha": 1.0},
    ),
    ModelKind(
        "coefficient_test",
        "a test about coefficients of a linear regression: one, a contrast, or a nested model",
        RegressionTest,
        {
            "tested": Option(
                "equations", 'coefficients, contrasts such as "a - b", or several', required=True
            ),
            "null": Option("numbers", "what each is doubted to be, by default 0"),
            "assume": Option("text", "of errors: nothing by default", choices=ASSUMPTIONS),
            "noise": _LINEAR["noise"],
        },
    ),
    ModelKind(
        "sparse_regression",
        "least squares on a few columns of many, chosen privately",
        SparseLeastSquares,
        {
            "keep": Option("integer", "how many columns are chosen, 5 by default"),
            "share": Option("number", "the part of epsilon that pays for the choice"),
        },
        features=Interval,
    ),
    ModelKind(
        "logistic_regression",
        "logistic regression for two or more classes",
        _logistic,
        {**_PERTURBED, **_INTERVALS, "post": _POST},
        target=Category,
    ),
    ModelKind(
        "poisson_regression",
        "Poisson regression: the logarithm of the mean of counts is linear",
        CountPerturbation,
        _COUNTS,
    ),
    ModelKind(
        "negative_binomial_regression",
        "the same for counts that vary more, of a stated dispersion",
        CountPerturbation,
        {"dispersion": Option("number", "the variance is mean + dispersion * mean^2"), **_COUNTS},
        defaults={"dispersion": 1.0},
    ),
    ModelKind(
        "huber_regression",
        "robust regression: residuals beyond a threshold pull no more than those at it",
        HuberPerturbation,
        {"threshold": Option("number", "a residual, in units of the target"), **_PERTURBED},
    ),
    ModelKind(
        "quantile_regression",
        "the plane below which a share of the rows lies",
        KNormQuantileRegression,
        {"tau": Option("number", "a share strictly between 0 and 1"), "fit_intercept": _INTERCEPT},
        features=Interval,
    ),
    ModelKind(
        "naive_bayes",
        "naive Bayes: shares of the classes, and of the columns within them",
        ClassTables,
        {
            "noise": Option(
                "text",
                "the shape of the noise, by default the hull",
                choices=("hull", *PURE, "designed"),
            ),
            "alpha": Option("number", "pseudo-counts of the levels"),
        },
        target=Category,
    ),
)
