"""Law of silence: neighbours succeed or fail together, and nobody can hear which of them it was.

Whatever reads a table is run on two neighbouring tables with odd cells, in every container. What
anybody sees but for the noisy numbers must be the same: whether there is a release, the type and
text of an error, what was spent, warnings, what is printed, every step of a progress bar, and names
and shapes of the result. Nothing is raised after payment, and bad parameters spend nothing.

Mechanisms, estimators, one-line functions and kinds of plans are found, not listed: what has no
line in the tables fails a test here or in ``test_enrolled.py``.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from containers import CONTAINERS, KINDS, Kinds, Row
from enrolled import (
    BOTH,
    CASES,
    ESTIMATORS,
    ROWS,
    date_of,
    mapping,
    of_persons,
    plain_rows,
    schema,
)

import tightdp as tdp
from tightdp.data import columns, one_pass
from tightdp.errors import DimensionError, TightdpError
from tightdp.hypotheses import TESTS as HYPOTHESES
from tightdp.plans import KINDS as PLAN_KINDS
from tightdp.plans import Answer, request
from tightdp.progress import progress_bar

COLUMNS = ("x", "y", "k", "t")
QUICK_PAIRS, LONG_PAIRS = 1, 12  # twice as many releases of every reader
SLOW = ("GeometricMedian", "QuantileRegression", "SyntheticSample", "SparseLogisticRegression")
DRAWN_NAMES = ("private keys", "key totals", "key sums", "key means")  # which keys appear
READ_BY_USERS = ("box", "pieces", "gradient", "exponential")  # functions of a user, of lists only


# --- tables that cannot be read -------------------------------------------------------------------


def ragged(frame: Any) -> Any:
    """A mapping whose columns differ in length, however many rows there are."""
    return frame | {"x": [*frame["x"], 1.0]}


FAULTS: dict[str, Callable[[Any], Any]] = {
    "ragged": ragged,
    "no column": lambda frame: {f"{name}_": column for name, column in frame.items()},
    "nested": lambda frame: {name: [[cell] for cell in column] for name, column in frame.items()},
    "dates": lambda frame: frame | {"x": np.array(["2020-01-01"] * len(frame["x"]), dtype="M8[D]")},
    "two axes": lambda frame: frame | {"x": np.zeros((len(frame["x"]), 2))},
    "a list": lambda frame: frame["x"],
    "nothing": lambda frame: None,
}


# --- what reads tables ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Something that pays, reads a table and answers."""

    name: str
    relation: str
    run: Callable[..., Any] = field(repr=False)
    quick: bool = True
    lists: bool = False
    """Whether the table must be lists of cells: for functions of a user, and for X and y."""
    faults: tuple[str, ...] = tuple(FAULTS)
    """What can be wrong with a table as a whole."""
    draws_names: bool = False
    """Whether names are drawn, as the keys that appear are: they are numbers of the release."""

    def __str__(self) -> str:
        return f"{self.name}-{self.relation}"


def _mechanism(case: Any, relation: str) -> Reader:
    build = cache(lambda: case.build(relation))
    foreign = case.name.split(",")[0] in READ_BY_USERS and case.name != "gradient, linear"
    return Reader(
        f"mechanism {case.name}",
        relation,
        lambda frame, **options: build().release(frame, **options),
        case.quick,
        lists=foreign,
        faults=() if foreign else tuple(FAULTS),  # what such a function says is not ours
        draws_names=case.name.split(",")[0] in DRAWN_NAMES,
    )


def _estimator(name: str, relation: str) -> Reader:
    fit = ESTIMATORS[name]

    def run(frame: Any, *, ledger: Any, rng: Any = None, key: Any = None, **options: Any) -> Any:
        options = {k: v for k, v in options.items() if k in inspect.signature(fit.make).parameters}
        model = fit.build(relation, ledger=ledger, random_state=rng, **options)
        return model.fit(frame, *([fit.target] if fit.target else []), key=key)

    return Reader(f"estimator {name}", relation, run, quick=name not in SLOW)


def _x_and_y(name: str, relation: str) -> Reader:
    """The same as scikit-learn calls it; the lengths of X and y may differ."""
    fit = ESTIMATORS[name]

    def run_on_arrays(frame: Any, *, ledger: Any, rng: Any = None, **options: Any) -> Any:
        whole = min(len(frame[name]) for name in COLUMNS)
        cells = np.empty((whole, len(fit.features)), dtype=object)
        for j, column in enumerate(fit.features):
            for i in range(whole):
                cells[i, j] = frame[column][i]
        more = len(frame["x"]) - whole  # a ragged table is one label too many
        target = [*frame[fit.target], *["no"] * more] if fit.target else None
        model = fit.build(relation, ledger=ledger, random_state=rng)
        return model.fit(cells, target) if fit.target else model.fit(cells)

    return Reader(
        f"estimator {name} of X and y",
        relation,
        run_on_arrays,
        name not in SLOW,
        lists=True,
        faults=("ragged",) if fit.target else (),
    )


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "count": (["k"],),
    "flags": (["t"],),
    "capped_sum": (["x"], 10),
    "histogram": ("x",),
    "mean": (["x", "y"],),
    "median": ("x",),
    "quantile": ("x", 0.25),
    "quantiles": ("x", [0.25, 0.5]),
    "share": ("k",),
    "proportion_test": ("k",),
    "missing_rate": (["x", "k"],),
    "goodness_of_fit": ("k",),
    "independence_test": (["k", "t"],),
    "kolmogorov_test": ("k", "t"),
    "rank_test": ("k", "t"),
    "means_test": ("x", "t"),
    "correlation_test": (["x", "y"],),
    "population_mean": (["x"],),
    "coefficient_test": ("y", "x"),
    "sum": (["x"],),
    "variance": (["x"],),
    "find_bounds": ("x",),
    "find_rows_per_person": (5,),
}


def functions() -> set[str]:
    """Public functions whose first parameter is a table."""
    found = {name: getattr(tdp, name) for name in tdp.__all__ if hasattr(tdp, name)}
    return {
        name
        for name, thing in found.items()
        if inspect.isfunction(thing)
        and next(iter(inspect.signature(thing).parameters), "") == "frame"
    }


def _function(name: str, relation: str) -> Reader:
    facts: dict[str, Any] = {"schema": schema(relation)}
    if name == "find_bounds":
        facts = {"rows": ROWS, "neighbors": relation}
    if name in NEED_PERSONS:
        facts["schema"] = of_persons(schema(relation))
    if name in ("share", "proportion_test"):
        facts["levels"] = ["a"]
    return Reader(
        f"function {name}",
        relation,
        lambda frame, **options: getattr(tdp, name)(
            frame, *FUNCTIONS[name], epsilon=1, **facts, **options
        ),
    )


REQUESTS: dict[str, dict[str, Any]] = {
    "sum": {"columns": ["x"]},
    "mean": {"columns": ["x", "y"]},
    "variance": {"columns": ["x"]},
    "count": {"columns": ["k", "t"]},
    "flags": {"columns": ["t"], "at_most": 1},
    "capped_sum": {"columns": ["x"], "at_most": 10},
    "histogram": {"column": "x", "bins": 4},
    "share": {"column": "x", "low": 3},
    "proportion_test": {"column": "x", "low": 3},
    "missing_rate": {"columns": ["x", "k"]},
    "goodness_of_fit": {"column": "x", "bins": 3, "null": [0.2, 0.3, 0.5]},
    "independence_test": {"by": ["k", ("x", 2)]},
    "kolmogorov_test": {"column": "x", "by": "t", "bins": 3},
    "rank_test": {"column": "x", "by": "t", "bins": 3, "alternative": "less"},
    "means_test": {"column": "x", "by": "k", "pattern": "trend"},
    "correlation_test": {"columns": ["x", "y"], "alternative": "greater"},
    "population_mean": {"columns": ["x"]},
    "coefficient_test": {"features": ["x"], "target": "y", "tested": "x"},
    "products": {"terms": ["x", "k:t"]},
    "moments": {"features": ["x"], "target": "y"},
    "quantile": {"column": "x", "tau": 0.25},
    "median": {"column": "x", "interval": "sample"},
    "quantiles": {"column": "x", "taus": [0.25, 0.5]},
    "sample": {"column": "x", "bins": 5, "size": 4},
    "linear_regression": {"features": ["x"], "target": "y"},
    "ridge": {"features": ["x"], "target": "y"},
    "sparse_regression": {"features": ["x"], "target": "y"},
    "logistic_regression": {"features": ["x"], "target": "t"},
    "poisson_regression": {"features": ["y"], "target": "x", "interval_share": 0.25},
    "negative_binomial_regression": {"features": ["y"], "target": "x", "dispersion": 0.5},
    "huber_regression": {"features": ["x"], "target": "y"},
    "quantile_regression": {"features": ["x"], "target": "y"},
    "naive_bayes": {"features": ["x", "k"], "target": "t"},
    "covariance": {"columns": ["x", "y"], "norm": 1},
    "density": {"columns": ["x"], "bins": 5},
    "synthetic_rows": {"columns": ["k", "t"], "rounds": 1},
    "tables": {"tables": ["t", ["k", "t"]]},
    "find_rows_per_person": {"most": 5, "share": 0.9},
}


def _kind(name: str, relation: str) -> Reader:
    facts = of_persons(schema(relation)) if name in NEED_PERSONS else schema(relation)
    build = cache(lambda: request(name, facts, epsilon=1, **REQUESTS[name]))
    return Reader(
        f"kind {name}",
        relation,
        lambda frame, **options: build().release(frame, **options),
        quick=name != "quantile_regression",
    )


# kinds whose number of rows must be public
NEED_ROWS = (
    *(test.name for test in HYPOTHESES),
    "coefficient_test",
    "population_mean",
    "sparse_regression",
)
NEED_PERSONS = ("find_rows_per_person",)  # who come and go


def readers() -> Iterator[Reader]:
    for case in CASES:
        for relation in case.relations:
            yield _mechanism(case, relation)
    for name, fit in ESTIMATORS.items():
        for relation in fit.relations:
            yield _estimator(name, relation)
            yield _x_and_y(name, relation)
    for relation in BOTH:
        refused = NEED_ROWS if relation == "add-remove" else NEED_PERSONS
        yield from (_function(name, relation) for name in FUNCTIONS if name not in refused)
        yield from (_kind(name, relation) for name in REQUESTS if name not in refused)


READERS = list(readers())


def test_every_function_and_kind_is_enrolled():
    assert functions() == set(FUNCTIONS)
    assert set(PLAN_KINDS) == set(REQUESTS)


@pytest.mark.parametrize("name", NEED_ROWS)
def test_what_needs_public_rows_is_refused_without_them(name, seed):
    with pytest.raises(TightdpError, match="replace-one"):
        _kind(name, "add-remove").run({"x": [1.0], "y": [0.0]}, ledger=None, rng=seed)


# --- what can be seen of a call -------------------------------------------------------------------


class Seen(NamedTuple):
    """Everything that a call shows, but for the noisy numbers."""

    outcome: tuple[Any, ...]
    spent: tuple[Any, ...]
    warned: tuple[str, ...]
    printed: str
    bars: tuple[Any, ...]


class Bar:
    """Stands for ``tqdm``: notes all that a bar could show."""

    seen: list[Any] = []  # noqa: RUF012

    def __init__(self, *_: Any, total: Any = None, **options: Any) -> None:
        self.n = 0
        Bar.seen.append(("bar", total, sorted((k, v) for k, v in options.items() if k != "file")))

    def update(self, steps: int = 1) -> None:
        self.n += steps
        Bar.seen.append(steps)

    def refresh(self) -> None: ...

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *said, **more: Bar.seen.append((name, said, more))


@contextlib.contextmanager
def watched() -> Iterator[tuple[io.StringIO, list[Any], list[Any]]]:
    """Standard output and error, warnings, and steps of bars."""
    printed, before = io.StringIO(), sys.modules.get("tqdm")
    sys.modules["tqdm"] = types.SimpleNamespace(tqdm=Bar)  # type: ignore[assignment]
    Bar.seen = []
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield printed, caught, Bar.seen
    finally:
        if before is None:
            del sys.modules["tqdm"]
        else:
            sys.modules["tqdm"] = before


def shape(result: Any, *, names: bool = True) -> tuple[Any, ...]:
    """Names and shapes of an answer, and words; no number."""
    if not names:
        return result.noise, str(result.guarantee), bool(np.isfinite(result.value).all())
    if isinstance(result, Answer):
        return (*shape(result.release), result.names, result.about, sorted(result.unknown))
    release = getattr(result, "release_", result)
    fitted = (
        sorted(name for name in vars(result) if name.endswith("_")) if release is not result else []
    )
    return (
        release.names, release.noise, str(release.guarantee), len(release.value),
        bool(np.isfinite(release.value).all()), sorted(release.unknown), fitted,
    )  # fmt: skip


def observe(reader: Reader, frame: Any, seed: int, **options: Any) -> Seen:
    """One call, with a ledger of its own."""
    ledger = tdp.Ledger(
        100, 0.5, neighbors=reader.relation, allow_seeded=True, allow_approximate=True
    )
    given = {"ledger": ledger, "rng": seed, "progress": True} | options
    with watched() as (printed, caught, bars):
        try:
            outcome: tuple[Any, ...] = (
                "released",
                *shape(reader.run(frame, **given), names=not reader.draws_names),
            )
        except TightdpError as error:
            quiet = error.__cause__ is None and error.__context__ is None
            outcome = (type(error).__name__, str(error), quiet)
        except Exception as error:  # of a foreign type: the law fails, with the type alone
            outcome = ("foreign", type(error).__name__, False)
    history = [(row.cost, row.label, row.state) for row in ledger.history()]
    said = tuple(f"{w.category.__name__}: {w.message}" for w in caught)
    return Seen(outcome, tuple(history), said, printed.getvalue(), tuple(map(repr, bars)))


def complaints(first: Seen, second: Seen) -> list[str]:
    """What breaks the law, in words."""
    found = [
        f"{part} of neighbours differ: {a!r} and {b!r}"
        for part, a, b in zip(Seen._fields, first, second, strict=True)
        if a != b
    ]
    for seen in (first, second):
        kind = seen.outcome[0]
        if kind != "released" and seen.spent:
            found.append(f"{kind} was raised after payment: {seen.outcome[1]}")
        if kind == "foreign" or (kind != "released" and not seen.outcome[2]):
            found.append(f"an error that may quote cells: {seen.outcome[1]}")
    return found


# --- tables, and their neighbours -----------------------------------------------------------------


FITTING = {"real": float, "text": str, "coded": str, "date": date}


def random_row(rng: np.random.Generator, kinds: Kinds) -> Row:
    """A row of odd cells, or of one that is odd, or of none."""
    row = plain_rows(rng, 1)[0]
    row["d"] = date_of(row["x"])
    share = rng.choice([0.0, 0.3, 1.0])
    out: Row = {}
    for name, kind in kinds.items():
        odd = KINDS[kind].cells
        fits = type(row[name]) is FITTING.get(kind)
        out[name] = row[name] if fits and rng.random() >= share else odd[rng.integers(len(odd))]
    return out


def random_kinds(
    rng: np.random.Generator, holds: frozenset[str], *, dated: bool = False
) -> dict[str, str]:
    """A type for every column: what fits it, or any other; of matrices none is too many."""
    usual = {"x": "real", "y": "real", "k": "text", "t": "text"} | ({"d": "date"} if dated else {})
    kinds = sorted(holds)
    return {
        name: kind if kind in holds and rng.random() < 0.5 else kinds[rng.integers(len(kinds))]
        for name, kind in usual.items()
    }


class Pair(NamedTuple):
    """Two neighbouring tables in one kind of container."""

    container: str
    kinds: dict[str, str]
    fault: str
    frames: tuple[Any, Any]

    def __repr__(self) -> str:
        return f"{self.container} {self.kinds} {self.fault}"


def random_pair(reader: Reader, rng: np.random.Generator, folder: Path) -> Pair:
    """Neighbours under the relation of the reader; one in eight cannot be read at all."""
    fault = str(rng.choice(reader.faults)) if reader.faults and rng.random() < 1 / 8 else ""
    names = ["lists"] if reader.lists or fault else sorted(CONTAINERS)
    name = str(rng.choice(names))
    kinds = random_kinds(rng, CONTAINERS[name].holds, dated="of a date" in reader.name)
    whole = ROWS if reader.relation == "replace-one" else int(rng.integers(1, ROWS + 1))
    rows = [random_row(rng, kinds) for _ in range(whole)]
    place = int(rng.integers(whole))
    other = rows[:place] + rows[place + 1 :]
    if reader.relation == "replace-one":
        other.insert(place, random_row(rng, kinds))
    built = []
    for i, table in enumerate((rows, other)):
        home = folder / str(i)  # the same name in messages
        home.mkdir(parents=True, exist_ok=True)
        frame = CONTAINERS[name].build(table, kinds, home)
        built.append(FAULTS[fault](frame) if fault else frame)
    return Pair(name, kinds, fault, (built[0], built[1]))


def broken(reader: Reader, pairs: int, seed: int, folder: Path) -> list[str]:
    """What breaks the law on random neighbours."""
    found = []
    rng = np.random.default_rng([seed, *map(ord, str(reader))])
    for i in range(pairs):
        pair = random_pair(reader, rng, folder / str(i))
        draws = int(rng.integers(1, 2**31))
        first, second = (observe(reader, frame, draws) for frame in pair.frames)
        found += [f"{pair!r}: {said}" for said in complaints(first, second)]
    return found


@pytest.fixture
def few_rows(monkeypatch):
    """Blocks of one row, so that what moves with blocks moves with rows."""
    monkeypatch.setattr(one_pass, "BLOCK_ROWS", 1)


@pytest.mark.parametrize("reader", [r for r in READERS if r.quick], ids=str)
def test_neighbours_are_silent(reader, seed, tmp_path, few_rows):
    assert broken(reader, QUICK_PAIRS, seed, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=str)
def test_neighbours_are_silent_at_length(reader, seed, tmp_path, few_rows):
    assert broken(reader, LONG_PAIRS, seed + 1, tmp_path) == []


# --- parameters that are wrong --------------------------------------------------------------------

BAD: dict[str, dict[str, Any]] = {
    "confidence 0": {"confidence": 0},
    "confidence 1": {"confidence": 1},
    "confidence nan": {"confidence": math.nan},
    "confidence a text": {"confidence": "high"},
    "an empty key": {"key": ""},
    "a key that is a number": {"key": 5},
    "a long key": {"key": "k" * 2000},
    "a key without a ledger": {"key": "k", "ledger": None},
    "no ledger": {"ledger": object()},
    "a seed that is a text": {"rng": "seed"},
}


def check_wrong_parameters(reader: Reader, wrong: list[str], seed: int) -> None:
    rows = plain_rows(np.random.default_rng(seed))
    table = mapping(rows)
    for what in wrong:
        if reader.name.startswith("estimator") and what.startswith("confidence"):
            continue  # estimators are asked for intervals afterwards
        seen = observe(reader, table, seed, **BAD[what])
        assert seen.outcome[0] in ("ParameterError", "LedgerError"), (what, seen.outcome)
        assert seen.spent == (), what


WITH_TABLES = [reader for reader in READERS if reader.quick and not reader.lists]


@pytest.mark.parametrize("reader", WITH_TABLES, ids=str)
def test_wrong_parameters_spend_nothing(reader, seed):
    rng = np.random.default_rng([seed, *map(ord, str(reader))])
    check_wrong_parameters(reader, list(rng.choice(sorted(BAD), 2, replace=False)), seed)


@pytest.mark.slow
@pytest.mark.parametrize("reader", WITH_TABLES, ids=str)
def test_any_wrong_parameter_spends_nothing(reader, seed):
    check_wrong_parameters(reader, list(BAD), seed)
    table = mapping(plain_rows(np.random.default_rng(seed)))
    small = tdp.Ledger(0.01, 0.5, neighbors=reader.relation, allow_seeded=True)
    assert observe(reader, table, seed, ledger=small).outcome[0] == "BudgetError"
    assert not small.history()
    if reader.relation == "replace-one":
        strict = tdp.Ledger(100, 0.5, neighbors="add-remove", allow_seeded=True)
        assert observe(reader, table, seed, ledger=strict).outcome[0] == "ParameterError"
        assert not strict.history()


# --- planted faults -------------------------------------------------------------------------------


def reader_named(name: str) -> Reader:
    return next(reader for reader in READERS if str(reader) == name)


def caught(name: str, seed: int, folder: Path, pairs: int = 300) -> list[str]:
    """The first complaints about a reader, if there are any among so many pairs."""
    reader = reader_named(name)
    for start in range(0, pairs, 10):
        if found := broken(reader, 10, seed + start, folder / str(start)):
            return found
    return []


def test_text_that_is_no_utf_8_and_raises_is_heard(seed, tmp_path, monkeypatch):
    read = columns.CodedCells.__init__

    def strict(self: Any, values: Any, *more: Any) -> None:
        for value in values:
            if type(value) is str:
                value.encode()  # a lone surrogate raises
        read(self, values, *more)

    monkeypatch.setattr(columns.CodedCells, "__init__", strict)
    found = caught("mechanism counts, l1-replace-one", seed, tmp_path)
    assert any("raised after payment" in said for said in found)


def test_a_singular_gram_matrix_that_raises_is_heard(seed, tmp_path, monkeypatch):
    read = tdp.KNormLinearRegression.normal_equations

    def solved(self: Any, frame: Any, **options: Any) -> Any:
        gram, target = read(self, frame, **options)
        np.linalg.inv(np.array(gram, dtype=float))
        return gram, target

    monkeypatch.setattr(tdp.KNormLinearRegression, "normal_equations", solved)
    found = caught("mechanism gradient, linear-add-remove", seed, tmp_path)
    assert any("quote" in said for said in found)


def test_a_bar_that_moves_with_private_rows_is_heard(seed, tmp_path, monkeypatch, few_rows):
    def moving(parts: Any, scan: Any, progress: bool) -> Any:
        with progress_bar(None, "rows", show=progress) as advance:
            for part in parts:
                yield part
                advance(len(part))

    monkeypatch.setattr(one_pass, "_watched", moving)
    found = caught("mechanism sums, best-add-remove", seed, tmp_path)
    assert any(": bars of neighbours differ" in said for said in found)


def test_a_private_length_in_a_text_is_heard(seed, tmp_path, monkeypatch):
    read = columns.ColumnTable.__init__

    def counting(self: Any, columns: Any) -> None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise DimensionError(f"The columns have {lengths} cells.")
        read(self, columns)

    monkeypatch.setattr(columns.ColumnTable, "__init__", counting)
    found = caught("mechanism sums, best-add-remove", seed, tmp_path)
    assert any(": outcome of neighbours differ" in said for said in found)


def test_a_warning_about_a_cell_is_heard(seed, tmp_path, monkeypatch):
    clamp = tdp.Interval.to_grid

    def telling(self: Any, numbers: Any, *more: Any) -> Any:
        if np.isnan(numbers).any():
            warnings.warn("some cells are missing", stacklevel=2)
        return clamp(self, numbers, *more)

    monkeypatch.setattr(tdp.Interval, "to_grid", telling)
    found = caught("mechanism sums, best-replace-one", seed, tmp_path)
    assert any(": warned of neighbours differ" in said for said in found)
