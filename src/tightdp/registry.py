"""The kinds of releases: name, mechanism and typed options. To add a capability is to register it.

From an entry come the kind of a plan with its checks, previews, answers, comparisons and reports,
the one-line functions with their documentation, and the list that ``tightdp kinds`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tightdp.data.columns import MissingFlag
from tightdp.data.histograms import Histogram, group_cells, group_items, group_names
from tightdp.data.regression_moments import Moments
from tightdp.data.row_facts import CappedSums, Flags
from tightdp.data.statistics import Counts, Products, Statistic
from tightdp.errors import check_choice, check_list, fail, quoted
from tightdp.hypotheses import CONDITION, TESTS
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.counts import CellCounts
from tightdp.mechanisms.covariances import CovarianceMechanism
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.groups import GroupMeans, GroupSums, GroupVariances
from tightdp.mechanisms.joint_quantiles import KNormQuantiles
from tightdp.mechanisms.key_totals import KeyMeans, KeySums
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.mechanisms.means import MeanMechanism, SumMechanism, VarianceMechanism
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.person_bounds import RowsPerPerson
from tightdp.mechanisms.population_means import INTERVAL_SHARE, PopulationMeans
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.mechanisms.quantiles import COVERS, KNormMedian, KNormQuantile
from tightdp.mechanisms.shares import ShareMechanism
from tightdp.mechanisms.synthetic_rows import SyntheticRows
from tightdp.mechanisms.table_book import Tables
from tightdp.mechanisms.table_noise_choice import NOISES as TABLE_NOISES
from tightdp.model_kinds import MODELS, ModelKind
from tightdp.options import GROUPS, MISSING_CELLS, PER_WHOM, SHAPE, By, Edges, Option, table_names
from tightdp.person_means import PER
from tightdp.schema import (
    MISSING,
    Category,
    Date,
    Interval,
    Schema,
    check_schema,
)
from tightdp.shaping.second_moment_noise import NOISES as COVARIANCE_NOISES

Options = Mapping[str, Any]
Build = Callable[[Schema, Options, Fraction], Mechanism]


# --- kinds ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of release: what it is, its keys, and the mechanism that they make."""

    name: str
    about: str
    options: Mapping[str, Option]
    build: Build

    def columns(self, given: Options, schema: Schema) -> tuple[str, ...]:
        """The columns that a release reads."""
        names: list[str] = []
        for key, option in self.options.items():
            if key in given and option.takes == "by":
                # a column of keys that nobody listed is none of the schema
                divided = group_names(given[key])
                names += [name for name in divided if name in schema.columns or not option.choices]
            elif option.takes == "tables":
                names += table_names(given.get(key), schema, given.get("bins") or {})
            elif key in given and option.takes == "group tables":
                for columns, groups in given[key]:
                    names += [columns] if isinstance(columns, str) else columns
                    names += group_names(groups)
            elif key in given and option.takes == "column":
                names.append(given[key])
            elif key in given and option.takes in ("columns", "terms"):
                names += [part for term in given[key] for part in option.parts(term)]
            elif key == "features":
                names += [name for name in schema if name != given.get("target")]
            elif option.takes in ("columns", "terms"):
                groups = group_names(given.get("by"))
                names += [n for n in schema if option.fits(schema[n]) and n not in groups]
        return tuple(dict.fromkeys(names))


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Make a kind known to plans, previews, comparisons, reports and the command line."""
    if kind.name in KINDS:
        fail(f"There is a kind {kind.name!r} already: choose another name.")
    KINDS[kind.name] = kind
    return kind


def kinds_with(option: str) -> list[str]:
    """The kinds that have an option of that name.

    >>> kinds_with("keys")
    ['sum', 'mean', 'count']
    """
    return [name for name, kind in KINDS.items() if option in kind.options]


def _register(
    name: str, about: str, mechanism: Callable[..., Mechanism], **options: Option
) -> None:
    """A kind whose options are the parameters of its mechanism."""

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        return mechanism(schema, epsilon=epsilon, **given)

    register(Kind(name, about, options, build))


# --- additive statistics -------------------------------------------------------------------------

_COLUMN = Option("column", "a numeric column", required=True, of=Interval)


_BY = Option("by", "release it for every group: categories, dates, and numbers with their bins")
_BINS = 10  # of a histogram, where nobody says


_PERSONS = {
    "per": PER_WHOM,
    "groups_per_person": Option(
        "integer", "with per='person': a person counts in at most so many groups"
    ),
}


_KEYS = ("public", "private")
_KEYED_BY = Option("by", _BY.about, choices=_KEYS)
_KEY_OPTIONS = {
    "keys": Option(
        "text", "'private': of columns without public levels", choices=_KEYS, default="public"
    ),
    "most": Option("integer", "of private keys: only so many, the largest"),
}


def _private(given: Options, able: bool = True) -> dict[str, Any]:
    """What is asked of keys that nobody listed; nothing where levels are public."""
    if able and check_choice("keys", given.get("keys", _KEYS[0]), _KEYS) == "private":
        noise, delta = given.get("noise", "best"), given.get("delta", 0)
        return {"noise": noise, "delta": delta, "most": given.get("most")}
    for name in ("most", "count_share"):
        if given.get(name) is not None:
            fail(f"`{name}` is for keys='private': of public levels all are released.")
    return {}


def _key_columns(by: object) -> list[str]:
    items = group_items(by)
    if not items or not all(isinstance(item, str) for item in items):
        fail("`by` must name the columns of the keys, without bins, for keys='private'.")
    return [str(item) for item in items]


def _register_columns(
    name: str,
    mechanism: Callable[..., Mechanism],
    grouped: Callable[..., Mechanism],
    keyed: Callable[..., Mechanism] | None = None,
    *,
    counts: bool = True,
) -> None:
    """Of numeric columns, by default of all; of all rows, of every group, or of private keys.

    ``counts`` says that the mechanism of all rows counts them where their number is private; if it
    does not, all rows are then one group.
    """

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        check_schema(schema)
        columns, by = given.get("columns"), given.get("by")
        private = _private(given, keyed is not None)
        if columns is None:
            groups = group_names(by)
            columns = [c for c in KINDS[name].columns({}, schema) if c not in groups]
        left_out, weighed = _left_out(given), _weighed(given)
        of_groups = {key: given[key] for key in ("groups_per_person",) if key in given}
        if private:
            assert keyed is not None
            if weighed:
                fail("`per` must be 'row' with keys='private': rows of a person have many keys.")
            if of_groups:
                fail("`groups_per_person` must be left out with keys='private': state fewer rows.")
            if left_out:
                fail("`missing` must be 'rule' with keys='private': count such rows as a key.")
            own = {key: given[key] for key in ("count_share",) if key in given}
            return keyed(schema, columns, _key_columns(by), epsilon=epsilon, **private, **own)
        if by is None and not left_out and not of_groups and (counts or schema.rows_known):
            return mechanism(schema, columns, epsilon=epsilon, **_shape(given), **weighed)
        stated = {**_shape(given), **left_out, **weighed, **of_groups}
        return grouped(schema, columns, by, epsilon=epsilon, **stated)

    columns = Option("columns", "numeric columns, by default all", of=Interval)
    options = {"columns": columns, "by": _BY, "missing": MISSING_CELLS, **_PERSONS, **SHAPE}
    if keyed is not None:
        share = Option("number", "of private keys: the part of epsilon for keys and counts")
        options |= {"by": _KEYED_BY, **_KEY_OPTIONS, "count_share": share}
    register(Kind(name, f"{name}s of numeric columns", options, build))


def _register_statistic(
    name: str, about: str, statistic: Callable[..., Statistic], **options: Option
) -> None:
    """Of a statistic whose parameters are the options."""
    stated = {key: option.default for key, option in options.items() if option.default is not None}

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        own = stated | {key: given[key] for key in options if key in given}
        return AdditiveMechanism(statistic(schema, **own), epsilon=epsilon, **_shape(given))

    register(Kind(name, about, {**options, **SHAPE}, build))


def _counts(
    schema: Schema, columns: Sequence[str] | None = None, by: By | None = None
) -> Statistic:
    """Of categories, or of groups; of one category within every group."""
    if by is None:
        listed = [columns] if isinstance(columns, str) else columns
        terms = listed if isinstance(listed, (list, tuple)) else []
        parts = [part for term in terms for part in str(term).split(":")]
        if any(_is_date(schema, part) for part in parts):
            if len(terms) > 1:
                fail("`columns`: count a date by itself, or within the groups of `by`.")
            return group_cells(schema, parts)
        return Counts(schema, columns)
    if columns is not None and len(columns) != 1:
        fail("`columns` must name one category to count within groups: ask for each by itself.")
    return group_cells(schema, [*group_items(by), *([] if columns is None else columns)])


def _histogram(
    schema: Schema, column: str, bins: Edges | None = None, by: By | None = None
) -> Statistic:
    """Of a numeric column, or of the column within every group."""
    if bins is None and not _is_date(schema, column):
        bins = _BINS
    if by is None:
        return Histogram(schema, column, bins)
    return group_cells(schema, [*group_items(by), (column, bins)])


def _is_date(schema: Schema, name: object) -> bool:
    return isinstance(name, str) and isinstance(check_schema(schema).columns.get(name), Date)


def _left_out(given: Options) -> dict[str, str]:
    """What is asked of rows with missing cells; nothing where the schema's rule holds."""
    asked = check_choice("missing", given.get("missing", MISSING[0]), MISSING)
    return {} if asked == MISSING[0] else {"missing": asked}


def _weighed(given: Options) -> dict[str, str]:
    """What is asked of persons with several rows; nothing where rows count alike."""
    asked = check_choice("per", given.get("per", PER[0]), PER)
    return {} if asked == PER[0] else {"per": asked}


def _shape(given: Options) -> dict[str, Any]:
    return {key: given.get(key, option.default) for key, option in SHAPE.items()}


_register_columns("sum", SumMechanism, GroupSums, KeySums)
_register_columns("mean", MeanMechanism, GroupMeans, KeyMeans)
_register_columns("variance", VarianceMechanism, GroupVariances, counts=False)


_register(
    "population_mean",
    "means of numeric columns, with intervals for the means of the population",
    PopulationMeans,
    columns=Option("columns", "numeric columns", required=True, of=Interval),
    interval_share=Option(
        "number", "the part of epsilon that buys the intervals", default=INTERVAL_SHARE
    ),
)


def _missing_rates(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
    """Means of flags that are 1 where a cell is missing."""
    columns, by = given.get("columns"), given.get("by")
    stated = [columns] if isinstance(columns, str) else columns
    every = KINDS["missing_rate"].columns({}, check_schema(schema))
    groups = group_names(by)
    if stated is None:
        names = [name for name in every if name not in groups]
    else:
        names = check_list("columns", stated)
    both = [name for name in names if name in groups]
    if both:
        fail(f"`columns` and `by` must be distinct. Both have {quoted(both[0])}.")
    flagged = {name: MissingFlag(of=schema[name]) for name in names}
    facts = schema.ruled({**schema.columns, **flagged})
    if by is None:
        return MeanMechanism(facts, list(flagged), epsilon=epsilon, **_shape(given))
    return GroupMeans(facts, list(flagged), by, epsilon=epsilon, **_shape(given))


register(
    Kind(
        "missing_rate",
        "shares of rows in which cells are missing",
        {"columns": Option("columns", "by default all"), "by": _BY, **SHAPE},
        _missing_rates,
    )
)


def _count(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
    """Of public levels and groups; of keys that nobody listed, where they are private."""
    private = _private(given)
    if private:
        if "columns" in given:
            fail("`columns` must be left out with keys='private': `by` says whose keys count.")
        return PrivateKeys(schema, _key_columns(given.get("by")), epsilon=epsilon, **private)
    own = {key: given[key] for key in ("columns", "by") if key in given}
    return AdditiveMechanism(_counts(schema, **own), epsilon=epsilon, **_shape(given))


register(
    Kind(
        "count",
        "counts of the levels of categories, of groups, or of keys that nobody listed",
        {
            "columns": Option("terms", 'categories, or "j:k" for a joint table', of=GROUPS),
            "by": _KEYED_BY,
            **_KEY_OPTIONS,
            **SHAPE,
        },
        _count,
    )
)
_register_statistic(
    "flags",
    "counts of flags, of which a row has few, or some imply others",
    Flags,
    columns=Option("columns", "categories of two levels, by default all", of=Category),
    at_most=Option("integer", "the largest number of flags of a row"),
    implies=Option("pairs", "pairs of columns: whoever has the first has the second"),
)
_register_statistic(
    "capped_sum",
    "sums of numeric columns whose total in a row is bounded",
    CappedSums,
    columns=Option("columns", "numeric columns with the same bounds", required=True, of=Interval),
    at_most=Option("number", "the largest total of a row", required=True),
)
_register_statistic(
    "histogram",
    "counts of a numeric column in public bins, or of dates in periods",
    _histogram,
    column=_COLUMN,
    bins=Option("bins", f"how many ({_BINS}), or their edges; of dates a unit, by default theirs"),
    by=_BY,
)
_register_statistic(
    "products",
    "sums of products of columns, as in a model formula",
    Products,
    terms=Option("terms", 'such as "x", "x:y", "x:k"', required=True),
)
_register_statistic(
    "moments",
    "first and second moments of features and a target",
    Moments,
    features=Option("columns", "numeric columns", required=True, of=Interval),
    target=Option("column", "a numeric column", required=True, of=Interval),
)
_register(
    "share",
    "the share of rows that satisfy a public condition",
    ShareMechanism,
    **CONDITION,
    **SHAPE,
)

for _test in TESTS:
    _register(_test.name, _test.about, _test.mechanism, **_test.options)

# --- order statistics ----------------------------------------------------------------------------

_INTERVAL = Option(
    "text", "also release an interval for the sample or population", choices=COVERS, default="none"
)


def _register_quantiles(
    name: str, about: str, mechanism: Callable[..., Mechanism], **options: Option
) -> None:
    """Quantiles of a column, of all rows or of every group."""

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        stated = {k: v for k, v in given.items() if k not in ("missing", "per")}
        stated |= _left_out(given) | _weighed(given)
        by = stated.pop("by", None)
        if by is None:
            if "groups_per_person" in stated:
                fail("`groups_per_person` is for groups: state `by`, or leave it out.")
            return mechanism(schema, epsilon=epsilon, **stated)
        taus = stated.pop("taus") if "taus" in stated else [stated.pop("tau", Fraction(1, 2))]
        return GroupQuantiles(schema, stated.pop("column"), taus, by, epsilon=epsilon, **stated)

    shared = {"by": _BY, "missing": MISSING_CELLS, **_PERSONS}
    register(Kind(name, about, {"column": _COLUMN, **options, **shared}, build))


_register_quantiles(
    "quantile",
    "a quantile of a numeric column",
    KNormQuantile,
    tau=Option("number", "a share strictly between 0 and 1", required=True),
    interval=_INTERVAL,
)
_register_quantiles("median", "the median of a numeric column", KNormMedian, interval=_INTERVAL)
_register_quantiles(
    "quantiles",
    "several quantiles of a numeric column for one payment",
    KNormQuantiles,
    taus=Option("numbers", "increasing shares", required=True),
)
_register(
    "find_rows_per_person",
    "a number of rows that most persons do not exceed",
    RowsPerPerson,
    most=Option("integer", "the largest number that may be released", required=True),
    share=Option("number", "of the persons all of whose rows it holds", default=Fraction(19, 20)),
)
_register(
    "sample",
    "a synthetic sample of a numeric column, as counts of cells",
    KolmogorovSample,
    column=_COLUMN,
    bins=Option("bins", "the cells: how many (100), or their edges"),
    size=Option("integer", "how many points"),
)

# --- models --------------------------------------------------------------------------------------


def _register_model(model: ModelKind) -> None:
    """A model of features and a target; its options are parameters of the mechanism."""
    name, about, mechanism, options, features, target, defaults = model

    def build(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
        check_schema(schema)
        goal = Option("column", "", of=target).check("target", given["target"], schema)
        if "features" in given:
            named = Option("columns", "", of=features).check("features", given["features"], schema)
            given = {**given, "features": named}
        columns = [column for column in KINDS[name].columns(given, schema) if column != goal]
        if not columns:
            fail("`features` must name a column besides the target.")
        for column in columns:
            Option("column", "", of=features).check("features", column, schema)
        stated = {key: _plain(given[key]) for key in options if key in given}
        # the whole schema: columns of a matrix are told by their order in it
        roles = {"features": columns, "target": goal}
        return mechanism(schema, **roles, epsilon=epsilon, **{**defaults, **stated})

    roles = {
        "features": Option("columns", "by default all columns but the target", of=features),
        "target": Option("column", "the column to explain", required=True, of=target),
    }
    register(Kind(name, about, {**roles, **options}, build))


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Fraction) else value


for _model in MODELS:
    _register_model(_model)

_register(
    "covariance",
    "means and the covariance matrix of numeric columns",
    CovarianceMechanism,
    columns=Option("columns", "numeric columns, by default all", of=Interval),
    norm=Option("number", "the largest Euclidean length of a row, its columns scaled to [-1, 1]"),
    assume_centered=Option("flag", "whether the middles of the bounds stand for the means"),
    noise=Option("text", "the body of the noise, by default the best", choices=COVARIANCE_NOISES),
    missing=MISSING_CELLS,
)
_register(
    "density",
    "counts of the cells of several columns, made consistent",
    CellCounts,
    columns=Option("columns", "by default all"),
    bins=Option("bins", "of the numeric columns: how many each (by a rule), or the edges of one"),
)


def _tables(schema: Schema, given: Options, epsilon: Fraction) -> Mechanism:
    """For an epsilon, or for a budget in rho where the release states one."""
    return Tables(schema, **(dict(given) if "rho" in given else {"epsilon": epsilon, **given}))


register(
    Kind(
        "tables",
        "many tables of counts that agree with each other, and means and sums of groups",
        {
            "tables": Option(
                "tables", "lists of columns, or up to how many at once", required=True
            ),
            "means": Option("group tables", "pairs of numeric columns and groups", of=Interval),
            "sums": Option("group tables", "pairs of numeric columns and groups", of=Interval),
            "bins": Option("bins of columns", "of numbers: how many each, or the edges"),
            "weights": Option("numbers", "what the variance of a cell of each table counts"),
            "targets": Option("numbers", "or the standard error that is wished for each table"),
            "noise": Option(
                "text", "the noise, by default the best", choices=TABLE_NOISES, default="best"
            ),
            "delta": Option(
                "number", "for Gaussian noise, taken where it has less variance", default=0
            ),
            "rho": Option("number", "instead of an epsilon: a budget of zero-concentrated DP"),
            "public": Option(
                "counts of columns", "tables that are public and kept exactly, with their counts"
            ),
            "whole": Option("flag", "round to integers that are not negative, table by table"),
            "suppress": Option("number", "do not print cells whose relative error is larger"),
        },
        _tables,
    )
)
_register(
    "synthetic_rows",
    "tables of few columns, and rows of all columns that are made from them",
    SyntheticRows,
    columns=Option("columns", "by default all"),
    tables=Option("lists", "lists of columns; by default pairs are chosen in rounds"),
    delta=SHAPE["delta"],
    bins=Option("bins of columns", "of numeric columns: how many, or where they begin and end"),
    rounds=Option("integer", "how many tables are chosen, by default as released tables ask for"),
    most_cells=Option("integer", "how large the model may be"),
)
