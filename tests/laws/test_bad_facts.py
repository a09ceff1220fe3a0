"""Law: rubbish for any parameter of anything public is one error of ours, in time and unpaid.

Everything in ``tightdp.__all__`` and every kind of plan is enrolled by being there. Each parameter
in turn gets values of wrong types, huge, not finite, empty, nested, and texts that no terminal and
no file can take; all others are right. What is called may take such a value for what it is (a flag,
a label, a large number); if it refuses it, then with one :class:`~tightdp.TightdpError`, within
seconds of work, with nothing spent on the ledger that was passed, and with no file left behind.
"""

from __future__ import annotations

import enum
import inspect
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enrolled import RESULTS, mapping, of_persons, plain_rows, schema, utilities

import tightdp as tdp
from tightdp.errors import TightdpError, fail
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.plans.request import request
from tightdp.registry import KINDS

ROWS = mapping(plain_rows(np.random.default_rng(1)))
SCHEMA = schema()
NUMBERS = SCHEMA.only(["x", "y"])
SECONDS = 5.0  # of work, not counting what others do on this machine


class Odd:
    """Its class says nothing of itself but errors."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


def deep(depth: int = 300) -> list[Any]:
    nest: list[Any] = []
    for _ in range(depth):
        nest = [nest]
    return nest


RUBBISH: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "a huge integer": 10**30,
    "an integer too long to print": 10**5000,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "the largest float": 1.7e308,
    "the smallest float": 5e-324,
    "a huge decimal": Decimal("1e999999999"),
    "no decimal": Decimal("sNaN"),
    "a long fraction": Fraction(1, 3**5000),
    "a complex number": 1j,
    "an empty text": "",
    "a text": "rubbish",
    "NUL": "a\0b",
    "an escape": "\x1b[2J",
    "half a pair": "\ud800",
    "bytes": b"\xff",
    "an empty list": [],
    "an empty dict": {},
    "a nested list": [[1, [2]], "a"],
    "a deep list": deep(),
    "a list of nan": [float("nan")] * 3,
    "a dict": {"x": {"x": None}},
    "an empty array": np.array([]),
    "an array of objects": np.array([object(), None], dtype=object),
    "a matrix of infinities": np.full((2, 2), np.inf),
    "an array of shape 1 x 0 x 2": np.zeros((1, 0, 2)),
    "a class": int,
    "a function": len,
    "an object": object(),
    "an odd object": Odd(),
}

SQUARE = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
BALL = tdp.LpBall(2, 1)

VALID: dict[str, Any] = {
    "schema": SCHEMA, "frame": ROWS, "epsilon": 1, "delta": Fraction(1, 10), "column": "x",
    "columns": ["x"], "bins": 3, "features": ["x"], "target": "y", "tau": 0.5, "taus": [0.25, 0.5],
    "levels": ["a", "b"], "low": 0, "high": 1, "rows": 24, "dim": 2, "bound": 1, "sensitivity": 1,
    "loss": "l1", "matrix": np.eye(2), "cells": 3, "balls": [BALL], "ball": BALL,
    "vertices": SQUARE, "generators": np.eye(2), "candidates": ["a", "b", "c"], "error": 0.5,
    "utility": utilities, "alpha": 0.05, "query_range": (0, 2), "path": "none.json",
    "inner": BALL, "outer": tdp.LpBall(2, 1, radius=2.0), "x": 1.0, "x_neighbor": 2.0,
    "mechanism": lambda x, size: np.full(size, x), "errors": {"a": 0.5},
    "space": tdp.SensitivitySpace.histogram(3), "p": 2, "q": [0.5, 0.5],
    "statistic": tdp.Sums(SCHEMA, ["x"]), "request": request("sum", SCHEMA, epsilon=1),
    "what": request("sum", SCHEMA, epsilon=1), "effect": 0.6,
    "test": tdp.ProportionTest(SCHEMA, "x", low=3, epsilon=1),
    "releases": {"a": request("sum", SCHEMA, epsilon=1)},
}  # fmt: skip

WITH: dict[str, dict[str, Any]] = {
    "Cost": {"rho": Fraction(1, 2), "rho_delta": Fraction(0), "mu_delta": Fraction(0)},
    "Ledger": {"epsilon": 1},
    "explain": {"epsilon": 1},
    "guess_bound": {"epsilon": 1},
    "power_bound": {"epsilon": 1},
    "RoundedGaussian": {"sigma2": 900},
    "combined_interval": {"estimates": [1.0, 2.0], "variances": [0.1, 0.1]},
    "Schema": {"columns": {"x": tdp.Interval(0, 1)}},
    "Date": {"low": "2014-01-01", "high": "2014-12-31"},
    "CsvFile": {"path": "t.csv", "names": ["x", "k"]},
    "ExcelFile": {"path": "t.xlsx", "sheet": "1"},
    "JointHistogram": {"columns": ["x", "k"]},
    "count": {"columns": ["k"]},
    "find_rows_per_person": {"schema": of_persons(schema("add-remove")), "most": 5},
    "RowsPerPerson": {"schema": of_persons(schema("add-remove")), "most": 5},
    "Flags": {"columns": ["t"], "implies": []},
    "flags": {"columns": ["t"], "at_most": 1},
    "CappedSums": {"columns": ["x"], "at_most": 10},
    "capped_sum": {"at_most": 10},
    "share": {"low": 3},
    "rank_norms": {"epsilon": 1},
    "proportion_test": {"low": 3},
    "ProportionTest": {"low": 3},
    "means_test": {"by": "k"},
    "MeansTest": {"by": "k"},
    "rank_test": {"by": "k"},
    "RankTest": {"by": "k"},
    "kolmogorov_test": {"by": "k"},
    "KolmogorovTest": {"by": "k"},
    "independence_test": {"by": ["k", "t"]},
    "IndependenceTest": {"by": ["k", "t"]},
    "correlation_test": {"columns": ["x", "y"]},
    "CorrelationTest": {"columns": ["x", "y"]},
    "coefficient_test": {"tested": "x"},
    "RegressionTest": {"tested": "x"},
    "audit": {"releases": 200},
    "audit_pmf": {"p": [0.6, 0.4]},
    "hockey_stick": {"p": [0.6, 0.4]},
    "Category": {"other": "a"},
    "NuclearBall": {"size": 2, "weights": 1.0},
    "NuclearNoise": {"ball": tdp.NuclearBall(2), "entries": [(0, 1, 1)], "binary": ()},
    "KNormQuantiles": {"taus": [0.5]},
    "quantiles": {"taus": [0.5]},
    "design_noise": {"cells": 8},
    "PosetBall": {"dim": 3},
    "ReplacedPosetBall": {"dim": 3},
    "design_composed_noise": {"ball": "linf", "resolution": 1, "lower_resolution": 1},
    "bound_radial_noise": {"rounds": 1},
    "design_planar_noise": {"ball": "linf", "resolution": 2},
    "design_vector_noise": {"ball": "linf", "resolution": 2},
    "VoteBall": {"dim": 3},
    "containment_order": {"other": tdp.LpBall(2, 1, radius=2.0)},
    "volume_order": {"other": tdp.LpBall(2, 1, radius=2.0)},
    "information_difference": {"statistic_entropy": 1.0},
    "WeightedMoments": {
        "schema": tdp.Schema({name: tdp.Interval(0, 1) for name in "xyw"}, rows=24),
        "weight": "w",
    },
    "epsilon_for": {"error": 0.5},
    "AdditiveMechanism": {"epsilon": 1},
    "Gaussian": {"epsilon": Fraction(1, 2)},
    "KNormGeometricMedian": {"schema": NUMBERS},
    "KNormLinearRegression": {"schema": NUMBERS},
    "KNormQuantileRegression": {"schema": NUMBERS},
    "SumsAndRows": {"schema": schema("add-remove")},
    "Tables": {"tables": ["t", ["t", "x"]], "bins": {"x": 2}, "epsilon": 1},
    "worst_event": {"edges": [-1, 0, 1], "weights": [1, 2]},
    "certify_contains": {"ball": tdp.LpBall(3, 1, radius=2.0)},
}
TARGETS = {"CategoricalNB": "k", "GaussianNB": "x", "LogisticRegression": "x"}
TARGETS |= {"SparseLogisticRegression": "x"}  # features of those that tell labels apart
COUNTING = {"PoissonRegression", "NegativeBinomialRegression"}  # of numbers that are not negative

# these need objects that only other tests have reason to make
ELSEWHERE = {
    "DataDependentMechanism",  # a design
    "KNormGradient",  # functions on boxes
    "KNormRowGradient",  # a gradient of a row
    "LatticeNoise",  # a body
    "PiecewiseNoise",  # weights of a design
    "Polytope",  # vertices and facets that belong together; made by its class methods
    "RangeNoise",
    "TableNoise",
    "SensitivitySpace",  # an image of rows
    "audit_exact",  # levels of a body
    "suboptimality",  # a designed noise
    "NoiseProblem",  # a loss, as an object
    "compare_noise",  # seconds for every answer
    "split_budget",
}


def public() -> dict[str, Callable[..., Any]]:
    """What can be called: no errors, no enumerations, no results, nothing abstract."""
    found = {}
    for name in sorted(tdp.__all__):
        what = getattr(tdp, name)
        kind = inspect.isclass(what)
        if kind and (issubclass(what, (BaseException, enum.Enum)) or inspect.isabstract(what)):
            continue
        if callable(what) and name not in RESULTS | ELSEWHERE:
            found[name] = what
    return found


PUBLIC = public()

# functions of the caller and what is given to them: their errors are the caller's
THEIRS = {("audit", "mechanism"), ("audit", "x"), ("audit", "x_neighbor")}
THEIRS |= {("ExponentialMechanism", "utility")}
SCORES = {("ExponentialMechanism", "candidates"): "`utility` must give"}  # their function's answer
FUNCTIONS = {("epsilon_for", "what"), ("design_noise", "loss")}
FUNCTIONS |= {("design_data_dependent_noise", "loss")}  # `len` is one: what it says is its own


def arguments(name: str, what: Callable[..., Any]) -> dict[str, Any]:
    """Right values for what must be given; rubbish takes the place of one at a time."""
    given = {}
    for parameter in inspect.signature(what).parameters.values():
        starred = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if parameter.default is parameter.empty and not starred:
            assert parameter.name in VALID | WITH.get(name, {}), (
                f"a right value of `{parameter.name}` for {name}: add it to VALID or WITH"
            )
            given[parameter.name] = VALID.get(parameter.name)
    return given | WITH.get(name, {})


def use(name: str, what: Callable[..., Any], given: dict[str, Any], ledger: tdp.Ledger) -> None:
    """Call it and, where there is something to pay for, pay."""
    parameters = inspect.signature(what).parameters
    starred = [p for p in parameters.values() if p.kind is p.VAR_POSITIONAL]
    if "frame" in parameters:
        given = {"ledger": ledger} | given
    if inspect.isclass(what) and issubclass(what, PrivateEstimator):
        feature, target = (TARGETS[name], "t") if name in TARGETS else ("x", "y")
        if name in COUNTING:
            feature, target = "y", "x"
        facts = SCHEMA.only([feature, target])
        model = what(**{"bounds": facts, "ledger": ledger} | given)
        model.fit({column: ROWS[column] for column in facts}, target)
        return
    spread = [given.pop(p.name) for p in starred if p.name in given]
    made = what(*(spread[0] if spread else ()), **given)
    if isinstance(made, Mechanism):
        made.release(ROWS, ledger=ledger)


@contextmanager
def hurried(seconds: int = 90) -> Iterator[None]:
    """An end for what does not end; the measure is of work, see :func:`complaint`."""

    def late(*_: Any) -> None:
        raise TimeoutError("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def complaint(call: Callable[[tdp.Ledger], Any], folder: Path) -> str | None:
    """What is wrong with how a call ends; None if nothing is."""
    ledger = tdp.Ledger(100, 0.5)
    start = time.process_time()
    error: BaseException | None = None
    with hurried(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(ledger)
        except Exception as caught:
            error = caught
    took = time.process_time() - start
    if error is not None and not isinstance(error, TightdpError):
        return f"{type(error).__name__}: {str(error)[:100]}"
    if error is not None and not str(error).strip():
        return "an error without a word"
    if error is not None and (len(str(error)) > 6000 or not str(error).isascii()):
        return f"an error that cannot be printed: {str(error)[:100]!a}"
    if error is not None and "\x1b" in str(error):
        return "an error that commands a terminal"
    if error is not None and ledger.spent.epsilon:
        return f"paid, then {type(error).__name__}: {str(error)[:100]}"
    if took > SECONDS:
        return f"{took:.1f} seconds"
    left = list(folder.iterdir())
    for path in left:  # a text may be taken for the name of a file that is made
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if error is not None and left:
        return "a file is left"
    return None


def mutants(given: dict[str, Any], parameters: list[str], few: random.Random | None) -> Any:
    """Every parameter with every kind of rubbish; some of them, if there is little time."""
    for parameter in parameters:
        names = list(RUBBISH) if few is None else few.sample(list(RUBBISH), 5)
        for rubbish in names:
            yield f"{parameter} = {rubbish}", given | {parameter: RUBBISH[rubbish]}


def complaints(name: str, folder: Path, few: random.Random | None) -> list[str]:
    """What is wrong with how one name takes rubbish."""
    what = PUBLIC[name]
    given = arguments(name, what)
    named = [p for p in inspect.signature(what).parameters.values() if p.kind != p.VAR_KEYWORD]
    found = []
    ours = [p.name for p in named if p.name != "ledger" and (name, p.name) not in THEIRS]
    for words, mutant in mutants(given, ours, few):
        parameter, _, rubbish = words.partition(" = ")
        if (name, parameter) in FUNCTIONS and rubbish == "a function":
            continue
        wrong = complaint(lambda ledger, m=mutant: use(name, what, dict(m), ledger), folder)
        excused = SCORES.get((name, parameter))
        if wrong and not (excused and excused in wrong):
            found.append(f"{name}({words}): {wrong}")
    return found


# --- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_works_and_is_enrolled(name, tmp_path, monkeypatch):
    """Otherwise the law would be about calls that fail for another reason."""
    monkeypatch.chdir(tmp_path)
    if name != "load_design":  # needs a file
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use(name, PUBLIC[name], arguments(name, PUBLIC[name]), tdp.Ledger(100, 0.5))


@pytest.mark.parametrize("name", PUBLIC)
def test_rubbish_is_refused_in_one_way(name, tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    assert complaints(name, tmp_path, random.Random(f"{seed} {name}")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_all_rubbish_is_refused_in_one_way(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert complaints(name, tmp_path, None) == []


NEEDED = {"column": "x", "target": "y", "taus": [0.25, 0.5], "tau": 0.5, "terms": ["x:k"]}
NEEDED["most"] = 5
NEEDED["tested"] = "x"
NEEDED["tables"] = ["t", ["t", "k"]]
LABELS = {"logistic_regression", "naive_bayes"}


def plan_complaints(kind: str, folder: Path, few: random.Random | None) -> list[str]:
    options = KINDS[kind].options
    given = {name: NEEDED[name] for name, o in options.items() if o.required and name in NEEDED}
    if "features" in options:
        given["features"] = ["x"]
    if kind in LABELS:
        given["target"] = "t"
    if kind in ("poisson_regression", "negative_binomial_regression"):
        given |= {"features": ["y"], "target": "x"}
    if kind == "flags":
        given["columns"] = ["t"]
    if kind == "capped_sum":
        given |= {"columns": ["x"], "at_most": 10}
    if kind in ("share", "proportion_test"):  # one of its conditions must be stated
        given["low"] = 3
    if "by" in options and options["by"].required:
        given["by"] = ["k", "t"]
    if kind in ("correlation_test", "population_mean"):
        given["columns"] = ["x", "y"]
    facts = of_persons(schema("add-remove")) if kind == "find_rows_per_person" else SCHEMA
    request(kind, facts, epsilon=1, **given)  # right so far
    found = []
    for words, mutant in mutants({"epsilon": 1} | given, ["epsilon", *options], few):

        def ask(ledger: tdp.Ledger, mutant: dict[str, Any] = mutant) -> None:
            request(kind, facts, **mutant).rehearse(ROWS)

        wrong = complaint(ask, folder)
        found += [f"{kind}({words}): {wrong}"] if wrong else []
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_rubbish_in_a_request_is_refused_in_one_way(kind, tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    assert plan_complaints(kind, tmp_path, random.Random(f"{seed} {kind}")) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_rubbish_in_a_request_is_refused_in_one_way(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plan_complaints(kind, tmp_path, None) == []


# --- the law catches ------------------------------------------------------------------------------


def paid_then_refused(ledger: tdp.Ledger) -> None:
    with ledger.charge(tdp.Guarantee(epsilon=1.0)):
        fail("`size` is too large.")


def exhausted() -> None:
    raise MemoryError


def leaves_a_file(ledger: tdp.Ledger) -> None:
    Path("left").write_text("")
    fail("`path` is wrong.")


def works_for_ever(ledger: tdp.Ledger) -> None:
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    fail("`cells` are too many.")


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (lambda ledger: int("a"), "ValueError"),
        (lambda ledger: next(iter([])), "StopIteration"),
        (lambda ledger: exhausted(), "MemoryError"),
        (lambda ledger: fail(""), "without a word"),
        (lambda ledger: fail("`name` = \ud800"), "cannot be printed"),
        (lambda ledger: fail("`name` = \x1b[2J"), "commands a terminal"),
        (paid_then_refused, "paid, then"),
        (leaves_a_file, "a file is left"),
        (works_for_ever, "seconds"),
    ],
)
def test_planted_faults_are_caught(fault, caught, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(globals(), "SECONDS", 0.4)
    assert caught in (complaint(fault, tmp_path) or "")
    assert complaint(lambda ledger: fail("`x` must be 1. Got 2."), tmp_path) is None or list(
        tmp_path.iterdir()
    )
