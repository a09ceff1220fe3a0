"""One line for each kind of release that is a plain statistic: made from the registry."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from tightdp.ledger import Ledger
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.named_arguments import refuse_arguments
from tightdp.options import Amount, Option
from tightdp.randomness import RandomSource
from tightdp.registry import KINDS, Kind, kinds_with
from tightdp.release import Release
from tightdp.schema import Schema

__all__ = [
    "capped_sum",
    "coefficient_test",
    "correlation_test",
    "count",
    "find_rows_per_person",
    "flags",
    "goodness_of_fit",
    "histogram",
    "independence_test",
    "kolmogorov_test",
    "mean",
    "means_test",
    "median",
    "missing_rate",
    "population_mean",
    "proportion_test",
    "quantile",
    "quantiles",
    "rank_test",
    "share",
    "sum",
    "variance",
]

_ROLES = ("columns", "column", "terms", "features", "target")
_RELEASE: dict[str, tuple[Any, Any]] = {  # defaults and types
    "ledger": (None, Ledger | None),
    "key": (None, str | None),
    "confidence": (0.95, float),
    "rng": (None, RandomSource | int | None),
    "progress": (False, bool),
}
_PLACE, _NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def function_of(kind: Kind, notes: str = "") -> Callable[..., Release]:
    """The function that releases a kind: ``function(frame, columns, schema=, epsilon=, ...)``.

    Columns and what a kind cannot do without come by place, everything else by name; ``notes`` is
    what a person who reads ``help`` wants to know beside the options, with an example.

    >>> function_of(KINDS["median"]).__name__
    'median'
    """
    form = _signature(kind)

    def function(*places: object, **named: object) -> Release:
        try:
            given = form.bind(*places, **named).arguments
        except TypeError:
            refuse_arguments(kind.name, form, places, named, kinds_with)
        frame, schema, epsilon = (given.pop(name) for name in ("frame", "schema", "epsilon"))
        how = {name: given.pop(name) for name in _RELEASE if name in given}
        required = {name for name, option in kind.options.items() if option.required}
        stated = {k: value for k, value in given.items() if k in required or value is not None}
        for name, value in stated.items():
            if isinstance(value, str) and kind.options[name].takes in ("columns", "terms"):
                stated[name] = [value]  # one column, by its name
        return _made(kind, schema, stated, epsilon).release(frame, **how)

    function.__name__ = function.__qualname__ = kind.name
    function.__signature__ = form  # type: ignore[attr-defined]
    function.__doc__ = _documentation(kind, notes)
    return function


# --- what was made for an earlier call ------------------------------------------------------------

_REMEMBERED, _MOST_ENTRIES = 32, 64
_mechanisms: OrderedDict[Any, tuple[Schema, Mechanism]] = OrderedDict()
_lock = threading.Lock()


def _made(kind: Kind, schema: Schema, stated: dict[str, Any], epsilon: Any) -> Mechanism:
    """The mechanism of a question, which is a function of public facts: small ones are kept.

    Choosing the noise and proving that it covers every move takes longer than the release. The
    schema must be the very same object, which cannot change: equal ones may have other orders.
    """
    question = (kind.name, id(schema), _plain(stated), _plain(epsilon))
    try:
        with _lock:
            kept = _mechanisms.get(question)
            if kept is not None:  # it holds its schema, so that no other one has this identity
                _mechanisms.move_to_end(question)
                return kept[1]
    except TypeError:  # no key: a function of the caller's, say, or rubbish that is refused below
        return kind.build(schema, stated, epsilon)
    mechanism = kind.build(schema, stated, epsilon)
    if _size(mechanism) <= _MOST_ENTRIES:
        with _lock:
            _mechanisms[question] = schema, mechanism
            while len(_mechanisms) > _REMEMBERED:
                _mechanisms.popitem(last=False)
    return mechanism


def _size(mechanism: Mechanism) -> int:
    """How many entries it has to hold facts about: those that it reads, or releases."""
    read = [one.width for one in mechanism.integer_sums()]
    return max([len(getattr(mechanism, "names", ())), *read])


def _plain(value: Any) -> Any:
    """A value as it is now, with its types: True is not 1, and a list may change later."""
    if isinstance(value, dict):
        return dict, tuple((key, _plain(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_plain(item) for item in value)
    if value is None or isinstance(value, (str, int, float, Fraction, Decimal)):
        return type(value), value
    return type(value), [value]  # has no hash on purpose: whether it is the same is not known


def _signature(kind: Kind) -> inspect.Signature:
    """Columns and what is required by place, everything else by name."""
    places = [(k, o) for k, o in kind.options.items() if o.required or k in _ROLES]
    by_place = dict(sorted(places, key=lambda place: not place[1].required))
    by_name = {k: o for k, o in kind.options.items() if k not in by_place}
    return inspect.Signature(
        [
            inspect.Parameter("frame", _PLACE, annotation=object),
            *(_parameter(name, _PLACE, option) for name, option in by_place.items()),
            inspect.Parameter("schema", _NAMED, annotation=Schema),
            inspect.Parameter("epsilon", _NAMED, annotation=Amount),
            *(_parameter(name, _NAMED, option) for name, option in by_name.items()),
            *(
                inspect.Parameter(name, _NAMED, default=default, annotation=form)
                for name, (default, form) in _RELEASE.items()
            ),
        ],
        return_annotation=Release,
    )


def _parameter(name: str, how: Any, option: Option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.required else option.default
    return inspect.Parameter(name, how, default=default, annotation=option.type_form)


def _documentation(kind: Kind, notes: str) -> str:
    options = "\n".join(
        f"{name} : {_said(option)}\n    {option.about}" for name, option in kind.options.items()
    )
    about = kind.about[:1].upper() + kind.about[1:]
    return f"""{about}, with the least exact noise.

{notes}
Parameters
----------
frame : table
    Anything that holds rows: a frame, a mapping of columns, a query, a file.
{options}
schema : Schema
    The public facts.
epsilon : float, Fraction or Decimal
ledger, key, confidence, rng, progress :
    As for :meth:`AdditiveMechanism.release`.
"""


def _said(option: Option) -> str:
    """The type of an option in words.

    >>> _said(KINDS["mean"].options["columns"]), _said(KINDS["median"].options["interval"])
    ('list of str, optional', "{'none', 'sample', 'population'}, by default 'none'")
    """
    words = f"{{{', '.join(map(repr, option.choices))}}}" if option.choices else ""
    words = words or _type_words(option.type_form)
    if option.required:
        return words
    return (
        f"{words}, optional"
        if option.default is None
        else f"{words}, by default {option.default!r}"
    )


def _type_words(form: Any) -> str:
    if get_origin(form) is UnionType:
        *others, last = (_type_words(part) for part in get_args(form) if part is not NoneType)
        return f"{', '.join(others)} or {last}" if others else last
    inner = get_args(form)
    return f"list of {_type_words(inner[0])}" if inner else str(form.__name__)


sum = function_of(
    KINDS["sum"],
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
mean = function_of(
    KINDS["mean"],
    """Under replace-one the noisy sum is divided by the public number of rows. Under add-remove the
noisy sum is divided by a noisy number of rows of the same release; standard errors are then of
first order, and the intervals are those of Fieller (1954), for the law of the noise. So it is with
``missing="drop"``, which takes the rows where all of the columns are there, and releases their
noisy number beside the means. By default a missing cell counts as a public value, the middle of its
bounds unless the schema states another, and pulls the mean towards it. With ``per="person"`` every
person counts alike, with the mean of its rows: see :class:`~tightdp.person_means.PersonMeans`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=400)
>>> mean({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=10.0)["x"].__round__(1)
1.5
>>> gaps = {"x": [1, None] * 200}
>>> [
...     round(mean(gaps, "x", schema=schema, epsilon=10.0, missing=how)["x"], 1)
...     for how in ("rule", "drop")
... ]
[3.0, 1.0]
""",
)
variance = function_of(
    KINDS["variance"],
    """The divisor is n. Values are moved into the range that a variance can have; standard errors
are of first order, and the intervals hold for the law of the noise, second order included. Where
the number of rows is private (under add-remove, and where rows with missing cells are left out), a
noisy number of rows stands beside the variances.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=400)
>>> variance({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=50.0)["x"].__round__(0)
1.0
""",
)
missing_rate = function_of(
    KINDS["missing_rate"],
    """A cell is missing where the schema finds nothing in it: no number in a numeric column, an
empty cell in a category. The mean over such flags, with the noise and intervals of a mean.

>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=1000)
>>> release = missing_rate({"x": [1, 2, 3, 4, None] * 200}, "x", schema=schema, epsilon=10)
>>> bool(abs(release["x"] - 0.2) < 0.01)
True
""",
)
find_rows_per_person = function_of(
    KINDS["find_rows_per_person"],
    """For ``rows_per_person`` of a schema, where nobody knows how many rows persons have: what is
released with that schema is paid for by itself. See :class:`RowsPerPerson`.

>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 9)}, rows=10**4, neighbors="add-remove", person="id")
>>> table = {"id": [i % 2000 for i in range(6000)], "x": [5] * 6000}
>>> found = find_rows_per_person(table, 50, schema=schema, epsilon=0.5)
>>> int(found["rows_per_person"])
3
""",
)
count = function_of(
    KINDS["count"],
    """Marginals, or a joint table for ``"j:k"``.

>>> import numpy as np
>>> from tightdp import Category, Schema
>>> schema = Schema({"k": Category(["a", "b"], other="a")}, rows=3)
>>> release = count({"k": np.array(["a", "b", "a"])}, ["k"], schema=schema, epsilon=1.0)
>>> release.names, int(release.value.sum())  # the total is public
(('k[a]', 'k[b]'), 3)

Of a column whose keys nobody can list, ``keys="private"`` counts those that are safe to show; see
:class:`PrivateKeys`.

>>> table, schema = {"shop": ["Ulm"] * 90 + ["Bonn"]}, schema.with_rows(91)
>>> count(table, by="shop", keys="private", schema=schema, epsilon=2, delta=1e-6).names
('shop=Ulm',)
""",
)
flags = function_of(
    KINDS["flags"],
    """The fact is enforced, row by row; see :class:`Flags`.

>>> from tightdp import Category, Schema
>>> yes = Category(["no", "yes"], other="no")
>>> schema = Schema({"asthma": yes, "copd": yes, "gout": yes}, rows=200)
>>> rows = {"asthma": ["yes", "no"] * 100, "copd": ["yes"] * 200, "gout": ["no"] * 200}
>>> release = flags(rows, schema=schema, epsilon=10, at_most=2)
>>> release.names, bool(abs(release["copd[yes]"] - 200) < 20)
(('asthma[yes]', 'copd[yes]', 'gout[yes]'), True)
""",
)
capped_sum = function_of(
    KINDS["capped_sum"],
    """The bound is enforced, row by row; see :class:`CappedSums`. Sums are in the units of the
columns.

>>> from tightdp import Interval, Schema
>>> hours = Interval(0, 8, missing=0)
>>> schema = Schema({"work": hours, "school": hours, "care": hours}, rows=100)
>>> rows = {"work": [8] * 100, "school": [0] * 100, "care": [3] * 100}
>>> release = capped_sum(rows, list(rows), 16, schema=schema, epsilon=10)
>>> bool(abs(release["care"] - 300) < 100)
True
""",
)
histogram = function_of(
    KINDS["histogram"],
    """>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=4)
>>> release = histogram({"x": np.arange(4.0)}, "x", schema=schema, epsilon=1.0, bins=2)
>>> release.names
('x[0, 5)', 'x[5, 10]')
""",
)
share = function_of(
    KINDS["share"],
    """>>> from tightdp import Interval, Schema
>>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
>>> release = share({"age": [10, 50] * 500}, "age", schema=schema, epsilon=1, low=18, rng=1)
>>> bool(abs(release["age in [18, 100]"] - 0.5) < 0.02)
True
""",
)
population_mean = function_of(
    KINDS["population_mean"],
    """Noise and sampling are counted together; see :class:`PopulationMeans`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> table = {"x": np.linspace(0, 10, 2001)}
>>> release = population_mean(table, "x", schema=schema, epsilon=1, rng=1)
>>> release.covers, bool(np.ptp(release.interval) < 0.3)
('population', True)
""",
)
proportion_test = function_of(
    KINDS["proportion_test"],
    """The most powerful private test there is; see :class:`ProportionTest`.

>>> from tightdp import Interval, Schema
>>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
>>> table = {"age": [10, 50, 60] * 333 + [70]}
>>> release = proportion_test(table, "age", schema=schema, epsilon=1, low=18, null=0.5, rng=1)
>>> bool(release["p-value"] < 1e-6)
True
""",
)
goodness_of_fit = function_of(
    KINDS["goodness_of_fit"],
    """Its type I error is at most alpha, whatever the rows; see :class:`GoodnessOfFit`.

>>> from tightdp import Category, Schema
>>> schema = Schema({"die": Category(list("123456"), other="6")}, rows=1200)
>>> table = {"die": [*"112233456666"] * 100}
>>> release = goodness_of_fit(table, "die", schema=schema, epsilon=1, rng=1)
>>> bool(release["p-value"] < 0.001)
True
""",
)
independence_test = function_of(
    KINDS["independence_test"],
    """With the noise in the null law and in the weights; see :class:`IndependenceTest`.

>>> from tightdp import Category, Schema
>>> facts = {"sex": Category(["f", "m"], other="f"), "vote": Category([*"ab"], other="b")}
>>> schema = Schema(facts, rows=600)
>>> table = {"sex": [*"fmfmff"] * 100, "vote": [*"abaabb"] * 100}
>>> release = independence_test(table, ["sex", "vote"], schema=schema, epsilon=1, rng=1)
>>> bool(0 < release["p-value"] <= 1)
True
""",
)
kolmogorov_test = function_of(
    KINDS["kolmogorov_test"],
    """As Kolmogorov and Smirnov's for two groups; see :class:`KolmogorovTest`.

>>> from tightdp import Category, Interval, Schema
>>> schema = Schema({"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}, rows=400)
>>> table = {"pay": [20, 80] * 200, "sex": ["f", "m"] * 200}
>>> release = kolmogorov_test(table, "pay", "sex", schema=schema, epsilon=1, bins=8, rng=1)
>>> bool(release["p-value"] < 0.01)
True
""",
)
rank_test = function_of(
    KINDS["rank_test"],
    """As Wilcoxon's, or Kruskal and Wallis', by noisy counts; see :class:`RankTest`.

>>> from tightdp import Category, Interval, Schema
>>> schema = Schema({"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}, rows=400)
>>> table = {"pay": [40, 60] * 200, "sex": ["f", "m"] * 200}
>>> release = rank_test(table, "pay", "sex", schema=schema, epsilon=1, rng=1)
>>> bool(release["p-value"] < 0.01)
True
""",
)
means_test = function_of(
    KINDS["means_test"],
    """Variances may differ from group to group; see :class:`MeansTest`.

>>> from tightdp import Category, Interval, Schema
>>> schema = Schema({"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}, rows=400)
>>> table = {"pay": [30, 45, 50, 65] * 100, "sex": [*"ffmm"] * 100}
>>> release = means_test(table, "pay", "sex", schema=schema, epsilon=1, rng=1)
>>> bool(release["p-value"] < 0.01)
True
""",
)
correlation_test = function_of(
    KINDS["correlation_test"],
    """See :class:`CorrelationTest`.

>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10), "y": Interval(0, 10)}, rows=500)
>>> table = {"x": [2, 4, 6, 8] * 125, "y": [1, 4, 5, 9] * 125}
>>> release = correlation_test(table, ["x", "y"], schema=schema, epsilon=1, rng=1)
>>> bool(release["p-value"] < 0.01)
True
""",
)
coefficient_test = function_of(
    KINDS["coefficient_test"],
    """See :class:`RegressionTest`; :meth:`LinearRegression.test` asks a model that was fitted.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=2001)
>>> x = np.linspace(-1, 1, 2001)
>>> release = coefficient_test(
...     {"x": x, "y": x / 2}, target="y", tested="x", schema=schema, epsilon=4, rng=1
... )
>>> release.names, bool(release["p-value"] < 0.01)
(('x', 'p-value'), True)
""",
)
quantile = function_of(
    KINDS["quantile"],
    """Drawn exactly; see :class:`KNormQuantile`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> release = quantile({"x": np.linspace(0, 10, 2001)}, "x", 0.2, schema=schema, epsilon=10)
>>> 1.8 < release["x[0.2]"] < 2.2
True
""",
)
median = function_of(
    KINDS["median"],
    """Drawn exactly; see :class:`KNormMedian`.

>>> import numpy as np
>>> from tightdp import Interval, Schema
>>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
>>> release = median({"x": np.linspace(0, 10, 2001)}, "x", schema=schema, epsilon=10)
>>> 4.8 < release["x[0.5]"] < 5.2
True
""",
)
quantiles = function_of(
    KINDS["quantiles"],
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
