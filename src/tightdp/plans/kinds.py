"""The kinds of releases that a plan can ask for. To add one is to register it: one call.

A kind knows its keys and makes the work: a mechanism, or a model by the name of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tightdp.answer import Answer
from tightdp.data.frames import check_frame
from tightdp.data.statistics import (
    Counts,
    Histogram,
    Moments,
    Products,
    Statistic,
)
from tightdp.errors import BudgetError, FloatArray, LedgerError, check_choice, fail
from tightdp.ledger import Ledger, Receipt
from tightdp.mechanisms import one_line
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.coordinate_noise import PURE
from tightdp.mechanisms.joint_quantiles import KNormQuantiles
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.mechanisms.quantiles import COVERS, KNormMedian, KNormQuantile
from tightdp.noise.rates import check_epsilon
from tightdp.plans.options import Option, check_keys
from tightdp.plans.works import (
    MechanismWork,
    ModelWork,
    Work,
    foresee_density,
    foresee_linear,
    foresee_logistic,
    read_classes,
    read_density,
    read_linear,
    read_logistic,
    read_planes,
)
from tightdp.preview import Preview
from tightdp.privacy import Guarantee, Neighbors
from tightdp.schema import Category, Interval, Schema

Options = dict[str, Any]
Maker = Callable[[Schema, Options, Fraction], Work]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of release: what it is, its keys, and how its work is made."""

    name: str
    about: str
    options: Mapping[str, Option]
    make: Maker


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Make a kind known to plans, previews and the command line."""
    if kind.name in KINDS:
        fail(f"There is a kind {kind.name!r} already: choose another name.")
    KINDS[kind.name] = kind
    return kind


class _Rehearsal(Ledger):
    """A ledger that covers nothing and notes what it is asked for.

    The table is not looked at where the release is ``known``: it is not read again either.
    """

    known: bool
    asked: dict[str, Any]

    def find(self, key: str) -> dict[str, Any] | None:
        return {} if self.known else None

    def spend(self, epsilon: Any, delta: Any = 0, **terms: Any) -> Receipt:
        self.asked = {"epsilon": epsilon, "delta": delta} | terms
        del self.asked["key"]
        return super().spend(epsilon, delta, **terms)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One release that is asked for: its kind, public facts, epsilon and options.

    Made by :func:`request` or by a plan. It can be previewed, asked again at another epsilon, and
    released on a table.
    """

    kind: Kind
    schema: Schema
    epsilon: Fraction
    options: Options
    _work: list[Work] = field(default_factory=list)
    _asked: dict[float, dict[str, Any]] = field(default_factory=dict)

    @property
    def work(self) -> Work:
        """The mechanism or model behind it, made when first needed."""
        if not self._work:
            self._work.append(self.kind.make(self.schema, dict(self.options), self.epsilon))
        return self._work[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return _columns(self.kind, self.options, self.schema)

    def at(self, epsilon: Any) -> Request:
        """The same request at another epsilon."""
        return Request(self.kind, self.schema, check_epsilon(epsilon), self.options)

    def using(self, **options: Any) -> Request:
        """The same request with other options."""
        checked = {n: self.kind.options[n].check(n, v, self.schema) for n, v in options.items()}
        return Request(self.kind, self.schema, self.epsilon, self.options | checked)

    def guarantee(self) -> Guarantee:
        """What the release will promise."""
        return self.work.guarantee()

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect, from public facts alone."""
        return self.work.preview(confidence)

    def check(self, frame: Any) -> None:
        """Raise if the table lacks a column or has one that cannot be read; reads no row."""
        check_frame(frame, self.schema, self.columns)

    def rehearse(self, frame: Any) -> None:
        """Go as far as the payment, and be refused: what is wrong is found and no row is read.

        The ledger of a rehearsal covers half of what is asked for, so nothing can be paid with it.
        """
        self._rehearse(frame, 0.95, known=False)

    def asked(self, frame: Any, confidence: float) -> dict[str, Any]:
        """What a ledger is asked for: the amounts and options of a spend, without its key."""
        if confidence not in self._asked:
            self._asked[confidence] = self._rehearse(frame, confidence, known=True)
        return self._asked[confidence]

    def _rehearse(self, frame: Any, confidence: float, *, known: bool) -> dict[str, Any]:
        with _Rehearsal(self.epsilon / 2, neighbors=self.schema.neighbors) as ledger:
            ledger.known = known
            try:
                self.release(frame, ledger=ledger, key="rehearsal", confidence=confidence)
            except BudgetError:
                return ledger.asked
        fail(f"Kind {self.kind.name!r} released without a payment: do not use it.", LedgerError)

    def release(self, frame: Any, **options: Any) -> Answer:
        """Pay, read, release; ``ledger``, ``key``, ``confidence``, ``rng`` and ``progress``."""
        return self.work.answer(frame, **options)

    def values(self, frame: Any, *, rng: Any) -> FloatArray:
        """The values of a release, for simulations on public rows."""
        return self.work.answer(frame, rng=rng).value


def request(kind: str, schema: Schema, *, epsilon: Any, **options: Any) -> Request:
    """A request of a kind that plans know, checked.

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> ages = request("histogram", schema, epsilon=1, column="age", bins=4)
    >>> ages.preview().std.round(2)
    array([2.01, 2.01, 2.01, 2.01])
    >>> ages.release({"age": [k % 100 for k in range(1000)]}, rng=1).names[0]
    'age[0, 25)'
    """
    found = KINDS[check_choice("kind", kind, KINDS)]
    for _, message in check_keys(list(options), list(found.options), f"kind {kind!r}"):
        fail(message)
    for name, option in found.options.items():
        if option.required and name not in options:
            fail(f"kind {kind!r} needs `{name}`: {option.about}.")
    checked = {n: found.options[n].check(n, v, schema) for n, v in options.items()}
    made = Request(found, schema, check_epsilon(epsilon), checked)
    _ = made.work  # a mechanism checks its parameters when it is made
    return made


def _columns(kind: Kind, options: Options, schema: Schema) -> tuple[str, ...]:
    names: list[str] = []
    for key, option in kind.options.items():
        if key == "features" and key not in options:
            names += [name for name in schema if name != options.get("target")]
        elif key in options and option.takes == "column":
            names.append(options[key])
        elif key in options and option.takes in ("columns", "terms"):
            names += [part for term in options[key] for part in term.split(":")]
        elif option.takes in ("columns", "terms"):
            names += [n for n in schema if option.of is None or isinstance(schema[n], option.of)]
    return tuple(dict.fromkeys(names))


# --- additive statistics -------------------------------------------------------------------------

_SHAPE = {
    "noise": Option("text", "the shape or law of the noise, by default the best"),
    "delta": Option("number", "for the laws that spend a delta"),
}
_COLUMN = Option("column", "a numeric column", required=True, of=Interval)
_COLUMNS = Option("columns", "numeric columns, by default all", of=Interval)


def _additive(statistic: Statistic, options: Options, epsilon: Fraction) -> AdditiveMechanism:
    return AdditiveMechanism(
        statistic,
        noise=options.get("noise", "best"),
        epsilon=epsilon,
        delta=options.get("delta", 0),
    )


def _plain(build: Callable[[Schema, Options], Statistic], about: str = "") -> Maker:
    def make(schema: Schema, options: Options, epsilon: Fraction) -> Work:
        mechanism = _additive(build(schema, options), options, epsilon)
        return MechanismWork(mechanism, about=about)

    return make


_SCALED = (
    "intervals cover the value without noise; numeric columns are scaled so that their bounds are "
    "-1 and 1"
)


def _sum(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    return _one_line(
        one_line.sum, one_line.mean_statistic, one_line.foresee_sums, schema, options, epsilon
    )


def _mean(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    return _one_line(
        one_line.mean, one_line.mean_statistic, one_line.foresee_means, schema, options, epsilon
    )


def _variance(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        fail("`kind` = 'variance' needs replace-one neighbours: the number of rows must be public.")
    return _one_line(
        one_line.variance,
        one_line.variance_statistic,
        one_line.foresee_variances,
        schema,
        options,
        epsilon,
    )


def _one_line(
    call: Callable[..., Any],
    build: Callable[[Schema, tuple[str, ...]], Statistic],
    foresee: Callable[[AdditiveMechanism, Preview], Preview],
    schema: Schema,
    options: Options,
    epsilon: Fraction,
) -> Work:
    columns = _columns(KINDS[call.__name__], options, schema)
    mechanism = _additive(build(schema, columns), options, epsilon)
    shape = {"noise": options.get("noise", "best"), "delta": options.get("delta", 0)}

    def release(frame: Any, **given: Any) -> Any:
        return call(frame, columns, schema=schema, epsilon=epsilon, **shape, **given)

    return MechanismWork(mechanism, release, lambda found: foresee(mechanism, found))


register(
    Kind(
        "sum",
        "sums of numeric columns",
        {"columns": _COLUMNS, **_SHAPE},
        _sum,
    )
)
register(Kind("mean", "means of numeric columns", {"columns": _COLUMNS, **_SHAPE}, _mean))
register(
    Kind("variance", "variances of numeric columns", {"columns": _COLUMNS, **_SHAPE}, _variance)
)
register(
    Kind(
        "count",
        "counts of the levels of categories",
        {
            "columns": Option("terms", 'categories, or "j:k" for a joint table', of=Category),
            **_SHAPE,
        },
        _plain(lambda s, o: Counts(s, o.get("columns"))),
    )
)
register(
    Kind(
        "histogram",
        "counts of a numeric column in public bins",
        {"column": _COLUMN, "bins": Option("bins", "how many (10), or their edges"), **_SHAPE},
        _plain(lambda s, o: Histogram(s, o["column"], o.get("bins", 10))),
    )
)
register(
    Kind(
        "products",
        "sums of products of columns, as in a model formula",
        {"terms": Option("terms", 'such as "x", "x:y", "x:k"', required=True), **_SHAPE},
        _plain(lambda s, o: Products(s, o["terms"]), _SCALED),
    )
)
register(
    Kind(
        "moments",
        "first and second moments of features and a target",
        {
            "features": Option("columns", "numeric columns", required=True, of=Interval),
            "target": Option("column", "a numeric column", required=True, of=Interval),
            **_SHAPE,
        },
        _plain(lambda s, o: Moments(s, o["features"], o["target"]), _SCALED),
    )
)

# --- order statistics ----------------------------------------------------------------------------


def _quantiles(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    mechanism = KNormQuantiles(schema, options["column"], options["taus"], epsilon=epsilon)
    return MechanismWork(mechanism)


def _sample(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    mechanism = KolmogorovSample(
        schema,
        options["column"],
        options.get("bins", 100),
        epsilon=epsilon,
        size=options.get("size"),
    )
    return MechanismWork(mechanism)


_INTERVAL = Option("text", "also release an interval for the sample or population", choices=COVERS)
register(
    Kind(
        "quantile",
        "a quantile of a numeric column",
        {
            "column": _COLUMN,
            "tau": Option("number", "a share strictly between 0 and 1", required=True),
            "interval": _INTERVAL,
        },
        lambda s, o, e: MechanismWork(
            KNormQuantile(s, o["column"], o["tau"], epsilon=e, interval=o.get("interval", "none"))
        ),
    )
)
register(
    Kind(
        "median",
        "the median of a numeric column",
        {"column": _COLUMN, "interval": _INTERVAL},
        lambda s, o, e: MechanismWork(
            KNormMedian(s, o["column"], epsilon=e, interval=o.get("interval", "none"))
        ),
    )
)
register(
    Kind(
        "quantiles",
        "several quantiles of a numeric column for one payment",
        {"column": _COLUMN, "taus": Option("numbers", "increasing shares", required=True)},
        _quantiles,
    )
)
register(
    Kind(
        "sample",
        "a synthetic sample of a numeric column, as counts of cells",
        {
            "column": _COLUMN,
            "bins": Option("bins", "the cells: how many (100), or their edges"),
            "size": Option("integer", "how many points"),
        },
        _sample,
    )
)

# --- models --------------------------------------------------------------------------------------


def model_kind(
    name: str,
    about: str,
    home: str,
    options: Mapping[str, Option] | None = None,
    *,
    features: type | None = Interval,
    target: type | None = Interval,
    reads: Any = None,
    foresees: Any = None,
) -> Kind:
    """A kind that fits the estimator ``home`` = "module:Class" of features and a target.

    ``features`` and ``target`` are the kinds of columns they must be (None: any).
    """
    keys = {
        "features": Option("columns", "by default all columns but the target", of=features),
        "target": Option("column", "the column to explain", required=True, of=target),
        **(options or {}),
    }

    def make(schema: Schema, given: Options, epsilon: Fraction) -> Work:
        columns = _columns(KINDS[name], given, schema)
        goal = given["target"]
        ordered = [column for column in columns if column != goal]
        if not ordered:
            fail("`features` must name a column besides the target.")
        for column in ordered:
            if features is not None:
                Option("column", "", of=features).check("features", column, schema)
        facts = schema.only([*ordered, goal])
        rest = {key: _number(given[key]) for key in given if key not in ("features", "target")}
        work = ModelWork(home, facts, goal, epsilon, rest, reads, foresees)
        work.model()._check_parameters()
        return work

    return Kind(name, about, keys, make)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


_INTERCEPT = Option("flag", "whether there is an intercept")
_LINEAR = {
    "noise": Option("text", "the shape of the noise, by default the best"),
    "fit_intercept": _INTERCEPT,
    "post": Option("text", "how coefficients are made", choices=("shrink", "none", "published")),
}
_RIDGE = _LINEAR | {"alpha": Option("number", "the penalty")}
_LOGISTIC = {
    "noise": Option("text", "the shape of the noise", choices=("linf", "l1", "l2")),
    "fit_intercept": _INTERCEPT,
    "ridge": Option("number", "at least so much ridge"),
    "l1": Option("number", "weight of an l1 penalty"),
    "interval_share": Option("number", "the part of epsilon that buys intervals, say 0.25"),
}
_BAYES = {
    "noise": Option(
        "text", "the shape of the noise, by default the hull", choices=("hull", *PURE, "designed")
    ),
    "alpha": Option("number", "pseudo-counts of the levels"),
}
_TAU = {"tau": Option("number", "a share strictly between 0 and 1"), "fit_intercept": _INTERCEPT}
_HOME = "tightdp.estimators"

register(
    model_kind(
        "linear_regression",
        "least squares with intervals",
        f"{_HOME}.linear:LinearRegression",
        _LINEAR,
        features=None,
        reads=read_linear,
        foresees=foresee_linear,
    )
)
register(
    model_kind(
        "ridge",
        "ridge regression with intervals",
        f"{_HOME}.linear:Ridge",
        _RIDGE,
        features=None,
        reads=read_linear,
        foresees=foresee_linear,
    )
)
register(
    model_kind(
        "logistic_regression",
        "logistic regression for two classes",
        f"{_HOME}.logistic:LogisticRegression",
        _LOGISTIC,
        features=None,
        target=Category,
        reads=read_logistic,
        foresees=foresee_logistic,
    )
)
register(
    model_kind(
        "quantile_regression",
        "the plane below which a share of the rows lies",
        f"{_HOME}.quantile:QuantileRegression",
        _TAU,
        reads=read_planes,
    )
)
register(
    model_kind(
        "naive_bayes",
        "naive Bayes: shares of the classes, and of the columns within them",
        f"{_HOME}.naive_bayes:GaussianNB",
        _BAYES,
        features=None,
        target=Category,
        reads=read_classes,
    )
)


def _density(schema: Schema, options: Options, epsilon: Fraction) -> Work:
    columns = options.get("columns", list(schema))
    given = {key: options[key] for key in options if key != "columns"}
    work = ModelWork(
        f"{_HOME}.density:Density",
        schema.only(columns),
        None,
        epsilon,
        given,
        read_density,
        foresee_density,
    )
    work.model()._check_parameters()
    _ = foresee_density(work, 0.95)  # the cells are checked
    return work


register(
    Kind(
        "density",
        "counts of the cells of several columns, made consistent",
        {
            "columns": Option("columns", "by default all"),
            "bins": Option(
                "bins", "of the numeric columns: how many each (by a rule), or the edges of one"
            ),
        },
        _density,
    )
)
