"""The kinds of releases: name, mechanism and typed options. To add a capability is to register it.

From an entry come the kind of a plan with its checks, previews, answers, comparisons and reports,
the list that ``tightdp kinds`` prints, and the API page by task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tightdp.data.statistics import (
    Counts,
    Histogram,
    Moments,
    Products,
    Statistic,
    check_schema,
)
from tightdp.errors import fail
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.cell_counts import CellCounts
from tightdp.mechanisms.class_release import ClassTables
from tightdp.mechanisms.gradients.gradient_quantile import KNormQuantileRegression
from tightdp.mechanisms.joint_quantiles import KNormQuantiles
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.mechanisms.least_squares import POSTS, LeastSquares
from tightdp.mechanisms.means import MeanMechanism, SumMechanism, VarianceMechanism
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.mechanisms.quantiles import COVERS, KNormMedian, KNormQuantile
from tightdp.mechanisms.share import ShareMechanism
from tightdp.options import Option
from tightdp.schema import Category, Interval, Schema
from tightdp.shaping.coordinate_noise import PURE

Options = Mapping[str, Any]
Build = Callable[[Schema, Options, Fraction], Mechanism]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of release: what it is, its keys, and the mechanism that they make.

    ``notes`` is what a person who reads ``help`` wants to know beside that, with an example.
    """

    name: str
    about: str
    options: Mapping[str, Option]
    build: Build
    notes: str = ""

    def columns(self, given: Options, schema: Schema) -> tuple[str, ...]:
        """The columns that a release reads."""
        names: list[str] = []
        for key, option in self.options.items():
            if key == "features" and key not in given:
                names += [name for name in schema if name != given.get("target")]
            elif key in given and option.takes == "column":
                names.append(given[key])
            elif key in given and option.takes == "columns":
                names += given[key]
            elif key in given and option.takes == "terms":
                names += [part for term in given[key] for part in term.split(":")]
            elif option.takes in ("columns", "terms"):
                allowed = (
                    n for n in schema if option.of is None or isinstance(schema[n], option.of)
                )
                names += allowed
        return tuple(dict.fromkeys(names))


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Make a kind known to plans, previews, comparisons, reports and the command line."""
    if kind.name in KINDS:
        fail(f"There is a kind {kind.name!r} already: choose another name.")
    KINDS[kind.name] = kind
    return kind


def _register(
    name: str, about: str, build: Build, options: Mapping[str, Option], notes: str = ""
) -> None:
    register(Kind(name, about, options, build, notes))


# --- additive statistics -------------------------------------------------------------------------

_SHAPE = {
    "noise": Option("text", "the shape or law of the noise, by default the best", default="best"),
    "delta": Option("number", "for the laws that spend a delta", default=0),
}
_COLUMN = Option("column", "a numeric column", required=True, of=Interval)
_COLUMNS = Option("columns", "numeric columns, by default all", of=Interval)


def _shape(given: Options) -> dict[str, Any]:
    return {"noise": given.get("noise", "best"), "delta": given.get("delta", 0)}


def _of_columns(name: str, mechanism: Callable[..., Mechanism]) -> Build:
    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        columns = given.get("columns")
        if columns is None:
            columns = KINDS[name].columns({}, check_schema(schema))
        return mechanism(schema, columns, epsilon=epsilon, **_shape(given))

    return build


def _of_statistic(statistic: Callable[[Schema, Options], Statistic]) -> Build:
    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        return AdditiveMechanism(statistic(schema, given), epsilon=epsilon, **_shape(given))

    return build


_register(
    "sum",
    "sums of numeric columns",
    _of_columns("sum", SumMechanism),
    {
        "columns": _COLUMNS,
        **_SHAPE,
    },
    """Sums are in the units of the columns. Under add-remove, where a sum of scaled cells says
little without the number of rows, a noisy number of rows of the same release puts them there.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=4)
>>> release = sum({"x": np.array([1.0, 2.0, 3.0, 99.0])}, ["x"], schema=schema, epsilon=1.0)
>>> release.names, release.guarantee.epsilon
(('x',), 1.0)
""",
)
_register(
    "mean",
    "means of numeric columns",
    _of_columns("mean", MeanMechanism),
    {
        "columns": _COLUMNS,
        **_SHAPE,
    },
    """Under replace-one the noisy sum is divided by the public number of rows. Under add-remove the
noisy sum is divided by a noisy number of rows of the same release; standard errors are then of
first order, and the intervals are those of Fieller (1954), for the law of the noise.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=400)
>>> mean({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=10.0)["x"].__round__(1)
1.5
""",
)
_register(
    "variance",
    "variances of numeric columns",
    _of_columns("variance", VarianceMechanism),
    {
        "columns": _COLUMNS,
        **_SHAPE,
    },
    """The divisor is n, and replace-one neighbours are needed. Values are moved into the range that
a variance can have; standard errors are of first order, and the intervals hold for the law of the
noise, second order included.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=400)
>>> variance({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=50.0)["x"].__round__(0)
1.0
""",
)
_register(
    "count",
    "counts of the levels of categories",
    _of_statistic(lambda schema, given: Counts(schema, given.get("columns"))),
    {
        "columns": Option("terms", 'categories, or "j:k" for a joint table', of=Category),
        **_SHAPE,
    },
    """Marginals, or a joint table for ``"j:k"``.

>>> import numpy as np
>>> from tightdp import Category, Schema
>>> schema = Schema({"k": Category(["a", "b"], other="a")}, rows=3)
>>> release = count({"k": np.array(["a", "b", "a"])}, ["k"], schema=schema, epsilon=1.0)
>>> release.names, int(release.value.sum())  # the total is public
(('k[a]', 'k[b]'), 3)
""",
)
_register(
    "histogram",
    "counts of a numeric column in public bins",
    _of_statistic(lambda schema, given: Histogram(schema, given["column"], given.get("bins", 10))),
    {
        "column": _COLUMN,
        "bins": Option("bins", "how many (10), or their edges", default=10),
        **_SHAPE,
    },
    """>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=4)
>>> release = histogram({"x": np.arange(4.0)}, "x", schema=schema, epsilon=1.0, bins=2)
>>> release.names
('x[0, 5)', 'x[5, 10]')
""",
)
_register(
    "products",
    "sums of products of columns, as in a model formula",
    _of_statistic(lambda schema, given: Products(schema, given["terms"])),
    {
        "terms": Option("terms", 'such as "x", "x:y", "x:k"', required=True),
        **_SHAPE,
    },
)
_register(
    "moments",
    "first and second moments of features and a target",
    _of_statistic(lambda schema, given: Moments(schema, given["features"], given["target"])),
    {
        "features": Option("columns", "numeric columns", required=True, of=Interval),
        "target": Option("column", "a numeric column", required=True, of=Interval),
        **_SHAPE,
    },
)

_register(
    "share",
    "the share of rows that satisfy a public condition",
    lambda schema, given, epsilon: ShareMechanism(schema, epsilon=epsilon, **given),
    {
        "column": Option("column", "the column of the condition", required=True),
        "levels": Option("labels", "of a category: the levels that count"),
        "low": Option("number", "of a number: from here on"),
        "high": Option("number", "of a number: up to here, which does not count"),
        **_SHAPE,
    },
    """>>> from tightdp import Interval, Schema
>>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
>>> release = share({"age": [10, 50] * 500}, "age", schema=schema, epsilon=1, low=18, rng=1)
>>> bool(abs(release["age in [18, 100]"] - 0.5) < 0.02)
True
""",
)

# --- order statistics ----------------------------------------------------------------------------

_INTERVAL = Option(
    "text", "also release an interval for the sample or population", choices=COVERS, default="none"
)


def _interval(given: Options) -> str:
    return str(given.get("interval", "none"))


_register(
    "quantile",
    "a quantile of a numeric column",
    lambda schema, given, epsilon: KNormQuantile(
        schema, given["column"], given["tau"], epsilon=epsilon, interval=_interval(given)
    ),
    {
        "column": _COLUMN,
        "tau": Option("number", "a share strictly between 0 and 1", required=True),
        "interval": _INTERVAL,
    },
    """Drawn exactly; see :class:`KNormQuantile`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> release = quantile({"x": np.linspace(0, 10, 2001)}, "x", 0.2, schema=schema, epsilon=10)
>>> 1.8 < release["x[0.2]"] < 2.2
True
""",
)
_register(
    "median",
    "the median of a numeric column",
    lambda schema, given, epsilon: KNormMedian(
        schema, given["column"], epsilon=epsilon, interval=_interval(given)
    ),
    {
        "column": _COLUMN,
        "interval": _INTERVAL,
    },
    """Drawn exactly; see :class:`KNormMedian`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> release = median({"x": np.linspace(0, 10, 2001)}, "x", schema=schema, epsilon=10)
>>> 4.8 < release["x[0.5]"] < 5.2
True
""",
)
_register(
    "quantiles",
    "several quantiles of a numeric column for one payment",
    lambda schema, given, epsilon: KNormQuantiles(
        schema, given["column"], given["taus"], epsilon=epsilon
    ),
    {
        "column": _COLUMN,
        "taus": Option("numbers", "increasing shares", required=True),
    },
    """See :class:`KNormQuantiles`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> table = {"x": np.linspace(0, 10, 2001)}
>>> release = quantiles(table, "x", [0.25, 0.5, 0.75], schema=schema, epsilon=10)
>>> bool((abs(release.value - [2.5, 5, 7.5]) < 0.3).all())
True
""",
)
_register(
    "sample",
    "a synthetic sample of a numeric column, as counts of cells",
    lambda schema, given, epsilon: KolmogorovSample(
        schema, given["column"], given.get("bins", 100), epsilon=epsilon, size=given.get("size")
    ),
    {
        "column": _COLUMN,
        "bins": Option("bins", "the cells: how many (100), or their edges"),
        "size": Option("integer", "how many points"),
    },
)

# --- models --------------------------------------------------------------------------------------

_INTERCEPT = Option("flag", "whether there is an intercept")
_LINEAR = {
    "noise": Option("text", "the shape of the noise, by default the best"),
    "fit_intercept": _INTERCEPT,
    "post": Option("text", "how coefficients are made", choices=POSTS),
}


def _register_model(
    name: str,
    about: str,
    mechanism: Callable[..., Mechanism],
    options: Mapping[str, Option],
    *,
    features: type | None = None,
    target: type = Interval,
    **defaults: object,
) -> None:
    """A model of features and a target; its options are parameters of the mechanism."""

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        goal = given["target"]
        columns = [column for column in KINDS[name].columns(given, schema) if column != goal]
        if not columns:
            fail("`features` must name a column besides the target.")
        for column in columns:
            Option("column", "", of=features).check("features", column, schema)
        stated = {key: _plain(given[key]) for key in options if key in given}
        # the whole schema: columns of a matrix are told by their order in it
        roles = {"features": columns, "target": goal}
        return mechanism(schema, **roles, epsilon=epsilon, **(defaults | stated))

    roles = {
        "features": Option("columns", "by default all columns but the target", of=features),
        "target": Option("column", "the column to explain", required=True, of=target),
    }
    register(Kind(name, about, {**roles, **options}, build))


def _plain(value: object) -> Any:
    return float(value) if isinstance(value, Fraction) else value


_register_model("linear_regression", "least squares with intervals", LeastSquares, _LINEAR)
_register_model(
    "ridge",
    "ridge regression with intervals",
    LeastSquares,
    {**_LINEAR, "alpha": Option("number", "the penalty")},
    alpha=1.0,
)
_register_model(
    "logistic_regression",
    "logistic regression for two classes",
    ObjectivePerturbation,
    {
        "noise": Option("text", "the shape of the noise", choices=("linf", "l1", "l2")),
        "fit_intercept": _INTERCEPT,
        "ridge": Option("number", "at least so much ridge"),
        "l1": Option("number", "weight of an l1 penalty"),
        "interval_share": Option("number", "the part of epsilon that buys intervals, say 0.25"),
    },
    target=Category,
)
_register_model(
    "quantile_regression",
    "the plane below which a share of the rows lies",
    KNormQuantileRegression,
    {"tau": Option("number", "a share strictly between 0 and 1"), "fit_intercept": _INTERCEPT},
    features=Interval,
)
_register_model(
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
)
_register(
    "density",
    "counts of the cells of several columns, made consistent",
    lambda schema, given, epsilon: CellCounts(
        schema, given.get("bins", "auto"), columns=given.get("columns"), epsilon=epsilon
    ),
    {
        "columns": Option("columns", "by default all"),
        "bins": Option(
            "bins", "of the numeric columns: how many each (by a rule), or the edges of one"
        ),
    },
)
