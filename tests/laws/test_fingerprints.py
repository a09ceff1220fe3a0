"""Law of keys: a stored answer comes back only for the same question.

Every parameter of every enrolled mechanism, and every public fact inside one, is changed on its
own: the fingerprint must change with it. Parameters are found by the signatures of constructors,
so that one that is added is asked for here, and changes the fingerprint without being named.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from enrolled import MECHANISMS, mapping, plain_rows, schema

import tightdp as tdp
from tightdp import parameters
from tightdp.convex.margin_losses import HuberLoss
from tightdp.convex.objective_calibration import ACCOUNTING
from tightdp.convex.penalties import ConvexSet, Smooth
from tightdp.errors import ParameterError, TightdpError
from tightdp.mechanisms.chains import SAMPLERS
from tightdp.mechanisms.gradient_regression import SHAPES
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.ranks import BoundsFinder
from tightdp.parameters import Recorded, function_code, parameter_text


def second_function(*_: Any) -> Any:
    """Another function of the data; it is never run."""


@cache
def second_design() -> Any:
    return tdp.design_data_dependent_noise(
        epsilon=1, delta=0.01, sensitivity=10, query_range=(0, 240), resolution=1
    )


def inside(point: Any) -> Any:
    return np.clip(point, -1, 1)


def second_base(low: Any, high: Any) -> tuple[int, int]:
    return 0, 1 if low == high else 2


# What else a parameter of this name can be; the first that the constructor takes is used.
OTHERS: dict[str, list[Any]] = {
    "epsilon": [Fraction(3, 2)],
    "delta": [1e-3, 2e-3, 0],
    "noise": [
        "l1",
        "split",
        "laplace",
        "gaussian",
        "bounded",
        tdp.Laplace(epsilon=Fraction(1, 9), sensitivity=1),
        "l2",
    ],
    "count_share": [Fraction(1, 3)],
    "dispersion": [Fraction(1, 3)],
    "largest_mean": [4],
    "threshold": [Fraction(1, 3)],
    "design": [second_design],
    "column": ["y"],
    "columns": [["x"], ["y"], ["x", "y"], ["x", "z"]],
    "by": ["t", "k", "s", ["t", "s"]],
    "features": [["z"], ["x", "z"]],
    "target": ["z", "s"],
    "taus": [[0.25, 0.75]],
    "tau": [Fraction(1, 3)],
    "size": [3, 2],
    "bins": [5, [0, 1, 2, 10], {"x": 3}, {"x": 2}],
    "rounds": [3],
    "most_cells": [1 << 10],
    "most": [4],
    "share": [0.5, 0.25],
    "most_points": [1 << 24],
    "most_steps": [1 << 33],
    "most_work": [1 << 44],
    "interval": ["sample", "none", tdp.Interval(0, 2)],
    "intervals": [[tdp.Interval(-2, 1)]],
    "domain": [tdp.Interval(-1, 2)],
    "output": [tdp.Interval(0, 10)],  # the column's own, and no other
    "candidates": [["low", "middle", "top"]],
    "base_measure": [[1, 2, 3], second_base],
    "utility": [second_function],
    "bounds": [second_function],
    "norm": [second_function, "l2", 1.25],
    "gradient": [second_function],
    "sensitivity": [3],
    "neighbors": ["add-remove", "replace-one"],
    "monotonic": [True],
    "bits": [6],
    "clip": [2.0],
    "grid": [7, 4],
    "shape": list(SHAPES),
    "radius": [2],
    "sampler": list(SAMPLERS),
    "steps": [5_000],
    "rows": [30],
    "smallest": [0.02],
    "largest": [200],
    "person": ["id"],
    "rows_per_person": [2],
    "loss": [HuberLoss(0.5), "huber"],
    "noise_share": [Fraction(1, 3), 0.8],
    "ridge": [2.0],
    "l1": [0.5],
    "l2": [0.5],
    "penalty": [Smooth(inside, strength=0.0)],
    "theta_set": [tdp.LpBall(2, 2, 3.0), ConvexSet(inside, reach=2.0)],
    "accounting": list(ACCOUNTING),
    "interval_share": [0.25],
    "method": ["objective"],
    "tested": ["intercept"],
    "assume": ["equal variance"],
    "spread": [0.5],
    "correlation": [0.5],
    "levels": [["a"]],
    "low": [0.25],
    "high": [0.75],
    "post": ["none", "restore"],
    "null": [0.4, [0.2, 0.3, 0.5]],
    "missing": ["drop"],
    "per": ["person", "row"],
    "stages": [2],
    "groups_per_person": [1],
    "alternative": ["greater"],
    "statistic": ["kolmogorov", "chi-square"],
    "pattern": ["any", "trend"],
    "alpha": [0.5],
    "var_smoothing": [0.1],
    "smoothing": ["none"],
    "keep": [2],
    "passes": [2],
    "step_size": [0.5],
    "sweep": [1],
    "settings": [[{"ridge": 0.0}, {"ridge": 2.0}]],
    "score_share": [0.3],
    "runs": [5.0],
    "tables": [["t"], ["s"]],
    "weights": [[1, 2], [1, 2, 3], [1, 2, 3, 4], [2]],
    "targets": [[1, 2], [1, 2, 3], [1, 2, 3, 4], [2]],
    "suppress": [0.5],
    "means": [[("y", ["t"])]],
    "sums": [[("y", ["k"])]],
    "times": [2],
    "rho": [0.05],
    "terms": [["x", "y", "k"], ["k", "x"], ["x", "k", "x:k"]],
    "part": [["k"]],
    "measure": ["mean", "count"],
    "public": [{"t": [20, 4]}],
    "frozen": [{"t": 0}, {"k": 0}],
}


def wide(neighbors: str) -> tdp.Schema:
    """The common schema with a further column of each kind, for other choices of columns."""
    more = {"z": tdp.Interval(0, 1), "s": tdp.Category(["no", "yes"], other="no")}
    return rebuilt(schema(neighbors), columns={**schema(neighbors).columns, **more})


def schemas(facts: tdp.Schema) -> Iterator[tdp.Schema]:
    """A schema with one fact changed; all facts, by the fields of its class."""
    options = {
        "rows": facts.rows + 1,
        "neighbors": "add-remove" if str(facts.neighbors) == "replace-one" else "replace-one",
        "bits": facts.bits - 1,
    }
    if facts.person is not None:  # who needs add-remove
        options |= {"neighbors": "add-remove", "rows_per_person": 2, "person": "who"}
    for name, value in options.items():
        yield rebuilt(facts, **{name: value})
    rules = {
        "x": [
            tdp.Interval(0.001, 10), tdp.Interval(0, 10.001), tdp.Interval(0, 10, missing=1),
            tdp.Interval(0, 10, decimal=","), tdp.Interval(0, 10, thousands=","),
        ],
        "t": [
            tdp.Category(["no", "Yes"], other="no"), tdp.Category(["no", "yes"], other="yes"),
            tdp.Category(["no", "yes"], other="no", loose=True),
        ],
    }  # fmt: skip
    for name in rules.keys() - {facts.person}:
        for rule in rules[name]:
            yield rebuilt(facts, columns={**facts.columns, name: rule})


def rebuilt(facts: tdp.Schema, **changes: Any) -> tdp.Schema:
    names = list(inspect.signature(tdp.Schema).parameters)
    return tdp.Schema(**{name: getattr(facts, name) for name in names} | changes)


# --- constructors, and what they were given -------------------------------------------------------


@pytest.fixture
def asked(monkeypatch) -> dict[str, dict[str, Any]]:
    """What was given to the constructor of an object, by the text of its parameters."""
    found: dict[str, dict[str, Any]] = {}
    call = parameters._call

    def note(name: str, values: list[tuple[str, Any]]) -> str:
        text = call(name, values)
        found[text] = dict(values)
        return text

    monkeypatch.setattr(parameters, "_call", note)
    return found


def variants(asked: Any, name: str, value: Any) -> Iterator[Any]:
    """Other values of one parameter: of schemas, statistics and parts, all they are made of."""
    if isinstance(value, tdp.Schema):
        yield from schemas(value)
    elif isinstance(value, Recorded):
        yield from changed(asked, value)
    elif name == "parts":
        first, *rest = value
        yield [*rest, first]
        if isinstance(first, Recorded):
            yield from ([other, *rest] for other in changed(asked, first))
        else:
            yield [replace(first, share=first.share / 2), *rest]
            yield [replace(first, ball=tdp.LpBall(1, 1, 3.0)), *rest]
            yield [replace(first, name="another"), *rest]
    elif isinstance(value, bool):
        yield not value
    else:
        for other in OTHERS[name]:
            yield other() if name == "design" else other


def changed(asked: Any, what: Any) -> Iterator[Any]:
    """The same object with one parameter changed, for all parameters."""
    given = dict(asked[what.parameters])
    names = list(inspect.signature(type(what)).parameters)
    unsaid = set(getattr(what, "later", ())) & set(names) - set(given)
    given |= dict.fromkeys(unsaid)  # None where nothing is said of them
    assert sorted(given) == sorted(names)
    for name, value in given.items():
        own = parameter_text(value)
        others = [other for other in variants(asked, name, value) if parameter_text(other) != own]
        made = [attempt(type(what), given, {name: other}) for other in others]
        assert any(each is not None for each in made), f"{type(what).__name__}: no other {name}"
        yield from (each for each in made if each is not None)


THREE_ROWS = rebuilt(wide("add-remove"), person="who", rows_per_person=3)

# what some parameters need beside them
TOGETHER: list[dict[str, Any]] = [
    {"epsilon": None},
    {"weights": None},
    {"sampler": SAMPLERS[1]},
    {"neighbors": "add-remove"},
    {"neighbors": "add-remove", "person": "id"},
    {"noise": "best"},
    {"noise": "gaussian"},
    {"noise": "gaussian", "epsilon": None},
    {"noise": "gaussian", "delta": 1e-6},
    {"target": "y"},
    {"column": "k", "low": None},
    {"schema": rebuilt(wide("add-remove"), person="who")},
    {"schema": rebuilt(wide("add-remove"), person="who"), "by": None},
    {"schema": THREE_ROWS, "by": "t", "per": "person"},
    {"schema": THREE_ROWS, "by": ["s"], "per": "person"},
]


def attempt(kind: type, given: dict[str, Any], change: dict[str, Any]) -> Any:
    """The object, or None where its parameters do not go together."""
    for more in ({}, *TOGETHER):
        if set(more) <= set(given):
            try:
                return kind(**given | more | change)
            except TightdpError:
                continue
    return None


@pytest.mark.slow_for("CorrelationTest")
@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_part_of_the_question(kind, asked):
    case = MECHANISMS[kind][0]
    mechanism = case.make(wide(case.relations[0]))
    others = list(changed(asked, mechanism))
    if isinstance(mechanism, Reading):  # what is made of a release is not part of the question
        paid = mechanism.source.parameters
        others = [other for other in others if other.source.parameters != paid]
        assert len(others) >= len(asked[paid])
    marks = [other.fingerprint() for other in others]
    assert case.make(wide(case.relations[0])).fingerprint() == mechanism.fingerprint()
    assert mechanism.fingerprint() not in marks
    assert len(set(marks)) == len(marks)
    assert isinstance(mechanism, Reading) or len(marks) >= len(asked[mechanism.parameters])


def test_a_stored_answer_is_not_one_to_another_question(seed):
    """Bounds of other magnitudes were answered with those of the first request."""
    table = mapping(plain_rows(np.random.default_rng(seed)))
    ledger = tdp.Ledger(5)
    facts = {"rows": 24, "epsilon": 1, "ledger": ledger, "key": "bounds of x"}
    first = tdp.find_bounds(table, "x", smallest=0.01, largest=100, **facts)
    again = tdp.find_bounds(table, "x", smallest=0.01, largest=100, **facts)
    assert again.value.tolist() == first.value.tolist()
    with pytest.raises(ParameterError, match="another fingerprint"):
        tdp.find_bounds(table, "x", smallest=1, largest=10_000, **facts)
    assert ledger.spent.epsilon == 1


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{kind.__name__}-{place}")
        for kind, cases in MECHANISMS.items()
        for place, case in enumerate(cases)
        if case.relations
    ],
)
def test_a_stored_answer_is_given_at_any_confidence(case, seed):
    """The numbers stay, and half-widths are those of the level, unless the level was drawn for."""
    mechanism = case.make(schema(case.relations[0]))
    table = mapping(plain_rows(np.random.default_rng(seed)))
    ledger = tdp.Ledger(10**6, 0.5, allow_seeded=True, allow_approximate=True,
                        neighbors=case.relations[0])  # fmt: skip
    given = {"ledger": ledger, "key": "once", "rng": seed}
    first = mechanism.release(table, confidence=0.9, **given)
    spent = ledger.spent.epsilon
    if mechanism.source.draws_level():
        with pytest.raises(ParameterError, match="confidence of an interval"):
            mechanism.release(table, confidence=0.99, **given)
        return
    again = mechanism.release(table, confidence=0.99, **given)
    fresh = mechanism.release(table, confidence=0.99, rng=seed)
    assert ledger.spent.epsilon == spent
    assert (again.confidence, again.integers) == (0.99, first.integers)
    assert again.value.tolist() == first.value.tolist()
    assert fresh.value.tolist() == first.value.tolist()  # the same bits, whatever the level
    np.testing.assert_array_equal(again.half_width, fresh.half_width)
    np.testing.assert_array_equal(again.interval, fresh.interval)
    known = ~np.isnan(again.half_width)
    assert (again.half_width >= first.half_width)[known].all()
    assert again.receipt == first.receipt


def test_a_hand_written_list_is_caught(asked, monkeypatch):
    """Planted: the fingerprint of what somebody thought of, as it was."""

    def listed(self: Any, confidence: float = 0.95) -> str:
        return "\n".join([f"find_bounds({self.column!r})", self.schema.to_json(), self.law])

    monkeypatch.setattr(BoundsFinder, "fingerprint", listed)
    with pytest.raises(AssertionError):
        test_every_parameter_is_part_of_the_question(BoundsFinder, asked)


def test_a_fingerprint_that_changes_is_one_of_another_version():
    """If this one is another by now, raise ``FINGERPRINTS``, and then write it here.

    Else a ledger of an earlier version would tell its owner to choose another key, and to pay again
    for what is stored.
    """
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=5)
    asked = tdp.AdditiveMechanism(tdp.Sums(facts), noise="laplace", epsilon=1)
    assert (
        asked.fingerprint() == "3:384f9ee2953ac302ca46a89d49573199c45d2917434cec326bfb521ff83a8c50"
    )


# --- texts ----------------------------------------------------------------------------------------


def test_texts_do_not_depend_on_how_a_parameter_is_written():
    assert parameter_text(0.1) == parameter_text(Fraction(1, 10)) == parameter_text(np.float64(0.1))
    assert parameter_text(["x"]) == parameter_text(("x",)) == parameter_text(np.array(["x"]))
    assert parameter_text(tdp.Neighbors.ADD_REMOVE) == parameter_text("add-remove")
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=5)
    names = tdp.Sums(schema, (name for name in ["x"]))  # can be read once
    assert names.parameters == tdp.Sums(schema, ["x"]).parameters
    assert names.names == ("x",)


def test_texts_tell_objects_apart():
    balls = [
        tdp.LpBall(2, 1, 1.0),
        tdp.LpBall(2, 1, 1.0000001),
        tdp.Polytope.from_vertices([[1, 0], [0, 1], [-1, 0], [0, -1]]),
        tdp.Polytope.from_vertices([[1, 0], [0, 1.0000001], [-1, 0], [0, -1.0000001]]),
    ]
    many = [np.zeros(2000), np.ones(2000), list(range(5)), {"a": 1}, {"a": 2}, {1}, {2}]
    functions = [abs, len, partial(abs), partial(len), lambda x: x, lambda x: x + 1, HuberLoss(0.5)]
    texts = [parameter_text(value) for value in (*balls, *many, *functions)]
    assert len(set(texts)) == len(texts)
    assert not any(" at 0x" in text for text in texts)
    text = parameter_text(balls[2])
    balls[2].vertices()  # remembered from now on
    assert parameter_text(balls[2]) == text
    assert function_code(partial(second_function)) != function_code(partial(inside))


# --- what a caller hands over ---------------------------------------------------------------------


def score(rows, column="x", *, cut=1):
    return [len(rows[column]), cut]


def by_default(rows, column="y"):
    return [len(rows[column]), 1]


def choice(utility):
    return tdp.ExponentialMechanism(["a", "b"], utility, sensitivity=1, epsilon=1).fingerprint()


def test_constants_that_a_function_is_given_are_part_of_the_question():
    asked = [
        score,
        by_default,
        partial(score, column="x"),
        partial(score, column="y"),
        partial(score, column="y", cut=2),
        lambda rows, column="x": score(rows, column),
        lambda rows, column="y": score(rows, column),
    ]
    assert len({choice(utility) for utility in asked}) == len(asked)
    assert choice(partial(score, cut=3)) == choice(partial(score, cut=3))


def test_what_may_be_private_is_not_looked_at():
    rows = {"x": [1, 2, 3]}
    assert choice(partial(score, rows)) == choice(partial(score, {"x": [4]}))


def test_a_design_is_its_certificate_however_long_it_took(tmp_path):
    sums = tdp.Sums(schema(), ["x"])
    design = tdp.design_noise(epsilon=1, delta=0.1, cells=40)
    again = type(design)(design.certificate, reached=design.reached, seconds=design.seconds + 1)
    design.save(tmp_path / "design.json")
    loaded = tdp.load_design(tmp_path / "design.json")
    other = tdp.design_noise(epsilon=1, delta=0.2, cells=40)
    prints = [
        tdp.AdditiveMechanism(sums, noise=noise).fingerprint()
        for noise in (design, again, loaded, other)
    ]
    assert prints[0] == prints[1] == prints[2] != prints[3]
