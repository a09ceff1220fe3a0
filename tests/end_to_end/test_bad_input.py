"""Bad input of every kind: one clear error of ours, nothing spent, nothing half-written.

Parameters that cannot be used are refused before the ledger is asked; cells that cannot be used
are replaced by the public rule of their column, without a word.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import TightdpError

NAN, INF = math.nan, math.inf
FACTS: dict[str, Any] = {
    "x": tdp.Interval(0, 10),
    "y": tdp.Interval(-1, 1),
    "k": tdp.Category(["a", "b", "c"], other="c"),
}
SCHEMA = tdp.Schema(FACTS, rows=4)
TABLE = {"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0] * 4, "k": ["a", "b", "a", "c"]}


def refused(call: Any, *words: str, ledger: tdp.Ledger | None = None) -> None:
    """An error of our tree, in words that name the argument and the remedy; nothing spent."""
    with pytest.raises(TightdpError) as caught:
        call()
    text = str(caught.value)
    for word in words:
        assert word in text
    assert len(text) > 20
    assert "Traceback" not in text
    if ledger is not None:
        assert ledger.spent.epsilon == 0
        assert ledger.head.counter == 1


# --- privacy parameters ---------------------------------------------------------------------------

BAD_EPSILON = [NAN, INF, -INF, 0, 0.0, -1, -0.0, True, "1", "nan", None, 1j, [1.0], np.nan,
               Decimal("NaN"), Decimal("-1"), 5e-324, 1e-300, Fraction(1, 2**41), 2.0**11, 1e6,
               10**400, np.array([1.0])]  # fmt: skip


@pytest.mark.parametrize("epsilon", BAD_EPSILON, ids=repr)
def test_bad_epsilon(epsilon: Any, tmp_path: Path) -> None:
    with tdp.Ledger(10**6, path=tmp_path / "ledger.db") as ledger:
        calls = [
            lambda: tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["x"]), epsilon=epsilon),
            lambda: tdp.mean(TABLE, ["x"], schema=SCHEMA, epsilon=epsilon, ledger=ledger),
            lambda: tdp.count(TABLE, ["k"], schema=SCHEMA, epsilon=epsilon, ledger=ledger),
        ]
        for call in calls:
            refused(call, "`epsilon`", ledger=ledger)


@given(st.floats())
@example(2.0**-39)
@example(np.nextafter(2.0**-40, 0.0))
@example(1024.0)
@example(5e-324)
def test_every_double_is_refused_or_gives_finite_numbers(epsilon: float) -> None:
    ledger = tdp.Ledger(2**12)
    if not 2.0**-40 <= epsilon <= 2.0**10:
        refused(lambda: tdp.sum(TABLE, ["x"], schema=SCHEMA, epsilon=epsilon), "`epsilon`")
        return
    release = tdp.sum(TABLE, ["x"], schema=SCHEMA, epsilon=epsilon, ledger=ledger)
    assert np.isfinite([*release.value, *release.half_width, *release.covariance.ravel()]).all()
    assert ledger.spent.epsilon == Fraction(repr(epsilon))
    assert release.noise_std > 0


def test_a_large_epsilon_is_noise_all_the_same(seed: int) -> None:
    """At epsilon = 50 on a grid of 2**-16 the law is that of any other epsilon: never no noise."""
    mechanism = tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["x"]), epsilon=50)
    noise = np.asarray(mechanism.noise.sample(20_000, rng=seed), dtype=np.float64).ravel()
    rate = 50 / mechanism.noise.sensitivity
    variance = 1 / (2 * math.sinh(rate / 2) ** 2)  # of the discrete Laplace law of this rate
    error = math.sqrt(5 / 20_000) * variance  # excess kurtosis 3
    assert abs(np.mean(noise**2) - variance) < 5 * error
    assert abs(np.mean(noise == 0) - math.tanh(rate / 2)) < 5 * math.sqrt(rate / 20_000)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, NAN, INF, "0", True, 0.1], ids=repr)
def test_bad_delta(delta: Any) -> None:
    """Noise shaped like a ball spends no delta: one that is given is a mistake."""
    refused(
        lambda: tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["x"]), epsilon=1, delta=delta), "`delta`"
    )


# --- the schema -----------------------------------------------------------------------------------

BAD_FACTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "reversed": (lambda: tdp.Interval(1, 0), ("`low`", "swap")),
    "equal": (lambda: tdp.Interval(1, 1), ("`low`", "widen")),
    "NaN": (lambda: tdp.Interval(NAN, 1), ("`low`", "finite")),
    "infinite": (lambda: tdp.Interval(0, INF), ("`high`", "finite")),
    "overflow": (lambda: tdp.Interval(-1.7e308, 1.7e308), ("`high - low`", "moderate")),
    "text": (lambda: tdp.Interval("0", 1), ("`low`", "real number")),
    "bool": (lambda: tdp.Interval(False, True), ("`low`", "real number")),
    "huge": (lambda: tdp.Schema({"x": tdp.Interval(0, 1e61)}, 3), ("'x'", "other units")),
    "tiny": (lambda: tdp.Schema({"x": tdp.Interval(0, 1e-61)}, 3), ("'x'", "other units")),
    "missing outside": (lambda: tdp.Interval(0, 1, missing=2), ("`missing`",)),
    "missing NaN": (lambda: tdp.Interval(0, 1, missing=NAN), ("`missing`",)),
    "one level": (lambda: tdp.Category(["a"]), ("`levels`", "at least 2")),
    "levels NaN": (lambda: tdp.Category(["a", NAN]), ("`levels`", "`other`")),
    "levels None": (lambda: tdp.Category(["a", None]), ("`levels`", "`other`")),
    "levels twice": (lambda: tdp.Category([1, 1.0]), ("`levels`", "distinct")),
    "levels list": (lambda: tdp.Category([[1], [2]]), ("`levels`", "text")),
    "levels arrays": (lambda: tdp.Category([np.arange(2), "a"]), ("`levels`", "text")),
    "levels number": (lambda: tdp.Category(7), ("`levels`", "list")),
    "levels text": (lambda: tdp.Category("abc"), ("`levels`", "list")),
    "other unknown": (lambda: tdp.Category(["a", "b"], other="z"), ("`other`", "add it")),
    "other array": (lambda: tdp.Category(["a", "b"], other=np.arange(2)), ("`other`", "text")),
    "rows zero": (lambda: tdp.Schema(FACTS, rows=0), ("`rows`", ">= 1")),
    "rows float": (lambda: tdp.Schema(FACTS, rows=4.0), ("`rows`", "integer")),
    "rows huge": (lambda: tdp.Schema(FACTS, rows=10**400), ("`rows`", "<=")),
    "bits": (lambda: tdp.Schema(FACTS, rows=4, bits=27), ("`bits`", "26")),
    "neighbours": (lambda: tdp.Schema(FACTS, rows=4, neighbors="swap"), ("`neighbors`", "one of")),
    "person": (lambda: tdp.Schema(FACTS, rows=4, person="id"), ("`person`", "add-remove")),
    "rows of a person": (lambda: tdp.Schema(FACTS, rows=4, rows_per_person=2), ("`person`",)),
    "endless rows of a person": (
        lambda: tdp.Schema(FACTS, 4, neighbors="add-remove", person="id", rows_per_person=10**23),
        ("`rows_per_person`", "<="),
    ),
    "no columns": (lambda: tdp.Schema({}, rows=4), ("`columns`", "mapping")),
    "name": (lambda: tdp.Schema({"a\0b": tdp.Interval(0, 1)}, 4), ("printable", "rename")),
    "pair": (lambda: tdp.Schema({"x": (0, 1)}, 4), ("'x'", "Interval")),
    "dict": (lambda: tdp.Schema.from_dict(7), ("table of keys",)),
    "no bounds": (
        lambda: tdp.Schema.from_dict({"rows": 4, "columns": {"x": {"low": 0}}}),
        ("'x'", "`high`", "never read off data"),
    ),
}


@pytest.mark.parametrize("what", BAD_FACTS)
def test_bad_facts_are_refused_when_they_are_stated(what: str) -> None:
    call, words = BAD_FACTS[what]
    refused(call, *words)


# --- statistics and requests ----------------------------------------------------------------------

WIDE = tdp.Schema({c: tdp.Interval(0, 1) for c in "abcd"}, rows=4)
BAD_REQUESTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no schema": (lambda o: tdp.sum(TABLE, ["x"], schema={"x": (0, 1)}, **o), ("`schema`",)),
    "a number for a list": (lambda o: tdp.sum(TABLE, 5, schema=SCHEMA, **o), ("`columns`", "list")),
    "misspelt": (lambda o: tdp.sum(TABLE, ["xx"], schema=SCHEMA, **o), ("Did you mean 'x'",)),
    "a category": (lambda o: tdp.sum(TABLE, ["k"], schema=SCHEMA, **o), ("'k'", "Interval")),
    "a number": (lambda o: tdp.count(TABLE, ["x"], schema=SCHEMA, **o), ("'x'", "Category")),
    "twice": (lambda o: tdp.sum(TABLE, ["x", "x"], schema=SCHEMA, **o), ("distinct",)),
    "bins": (lambda o: tdp.histogram(TABLE, "x", bins=1, schema=SCHEMA, **o), ("`bins`", ">= 2")),
    "bins NaN": (
        lambda o: tdp.histogram(TABLE, "x", bins=[0, NAN, 10], schema=SCHEMA, **o),
        ("`bins`", "finite"),
    ),
    "bins too fine": (
        lambda o: tdp.histogram(TABLE, "x", bins=10**8, schema=SCHEMA, **o),
        ("`bins`", "fewer"),
    ),
    "shape": (lambda o: tdp.sum(TABLE, ["x"], schema=SCHEMA, noise="hul", **o), ("Did you mean",)),
    "confidence": (
        lambda o: tdp.sum(TABLE, ["x"], schema=SCHEMA, confidence=1.0, **o),
        ("`confidence`", "between 0 and 1"),
    ),
    "key": (lambda o: tdp.sum(TABLE, ["x"], schema=SCHEMA, key=7, **o), ("`key`", "text")),
    "rng": (lambda o: tdp.sum(TABLE, ["x"], schema=SCHEMA, rng="7", **o), ("`rng`", "seed")),
    "seed": (lambda o: tdp.sum(TABLE, ["x"], schema=SCHEMA, rng=7, **o), ("seed", "not private")),
    "degree": (
        lambda o: tdp.AdditiveMechanism(
            tdp.Products(WIDE, ["a:b:c:d"]), noise="best", epsilon=o["epsilon"]
        ).release({c: [1.0] for c in "abcd"}, ledger=o["ledger"]),
        ("do not fit", "`bits`"),
    ),
    "proportion test under add-remove": (
        lambda o: tdp.proportion_test(
            TABLE,
            "x",
            low=3,
            null=0.5,
            schema=tdp.Schema(FACTS, rows=4, neighbors="add-remove"),
            **o,
        ),
        ("replace-one", "`share`"),
    ),
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
def test_bad_requests_cost_nothing(what: str, tmp_path: Path) -> None:
    call, words = BAD_REQUESTS[what]
    path = tmp_path / "ledger.db"
    with tdp.Ledger(10, path=path) as ledger:
        refused(lambda: call({"epsilon": 1, "ledger": ledger}), *words, ledger=ledger)
        ledger.verify()
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


def test_a_request_beyond_the_budget_costs_nothing() -> None:
    ledger = tdp.Ledger(1)
    refused(
        lambda: tdp.sum(TABLE, ["x"], schema=SCHEMA, epsilon=2, ledger=ledger),
        "Nothing was spent",
        "Ask for less",
        ledger=ledger,
    )


def test_many_entries_and_long_names_fit_a_ledger() -> None:
    """The label of a spend is short, and still differs where the names do."""
    ledger, name = tdp.Ledger(10), "x" * 500
    facts = tdp.Schema({name: tdp.Interval(0, 1), "k": tdp.Category(range(300), other=0)}, rows=4)
    frame = {name: [0.5] * 4, "k": [7] * 4}
    tdp.count(frame, ["k"], schema=facts, epsilon=1, ledger=ledger)
    tdp.sum(frame, [name], schema=facts, epsilon=1, ledger=ledger)
    labels = [row.label for row in ledger.history()]
    assert len(labels) == 2
    assert max(map(len, labels)) < 400
    bins = [tdp.Histogram(SCHEMA, "x", [*range(9), i, 10]) for i in (9, 9.5)]
    assert repr(bins[0]) != repr(bins[1])
    wide = [
        tdp.Counts(tdp.Schema({"k": tdp.Category([*range(300), e], other=0)}, 4))
        for e in (300, 301)
    ]
    assert repr(wide[0]) != repr(wide[1])


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"format": 1}', '{"format": 2}', ""])
def test_a_damaged_release_is_refused(text: str) -> None:
    refused(lambda: tdp.Release.from_json(text), "release")


# --- cells: replaced, never an error, never a NaN -------------------------------------------------


def integers(frame: Any, facts: tdp.Schema = SCHEMA) -> list[int]:
    return tdp.Products(facts, ["x", "k"]).measure(frame)


@pytest.mark.parametrize(
    ("cell", "means"),
    [
        (NAN, 5), (None, 5), ("n/a", 5), ("", 5), (np.datetime64("NaT"), 5), (1j, 5), (b"1", 5),
        (INF, 10), (-INF, 0), (1e308, 10), (-1e308, 0), (5e-324, 0), (-0.0, 0), (10**400, 10),
        ("1e999", 10), (True, 1), ("7.5", 7.5), (Decimal("2.50"), 2.5), (2**64, 10),
        (np.int8(-128), 0), (np.uint64(2**64 - 1), 10), (np.float16(2.5), 2.5),
    ],
    ids=repr,
)  # fmt: skip
def test_a_cell_means_what_its_column_says(cell: Any, means: float) -> None:
    column = np.empty(4, dtype=object)
    column[:] = [1.0, 2.0, 3.0, cell]
    assert integers(TABLE | {"x": column}) == integers(TABLE | {"x": [1.0, 2.0, 3.0, means]})


@pytest.mark.parametrize("cell", [None, "zzz", NAN, 7, b"a", ("a",), [], "A", -1])
def test_an_unseen_level_is_the_declared_one(cell: Any) -> None:
    column = np.empty(4, dtype=object)
    column[:] = ["a", "b", "a", "c"]
    column[3] = cell
    assert integers(TABLE | {"k": column}) == integers(TABLE)


def test_levels_are_compared_as_cells_are() -> None:
    """A level of any numeric class is found by cells of every other that equal it."""
    levels = [Decimal("0.10"), Fraction(1, 2), np.float32(0.25), np.int8(3), Decimal("4.0"), 10**30]
    rule = tdp.Category(["none", *levels], other="none")
    assert rule.levels == ("none", 0.1, 0.5, 0.25, 3, 4, 10**30)
    column = [0.1, "0.5", Decimal("0.25"), 3.0, "4", 10**30, "x"]
    counts = tdp.Counts(tdp.Schema({"k": rule}, rows=7), ["k"]).measure({"k": column})
    assert counts == [1] * 7
    for bad in (Decimal("NaN"), Decimal("sNaN"), np.float64(NAN)):
        refused(lambda bad=bad: tdp.Category(["a", bad]), "`levels`", "NaN")  # type: ignore[misc]


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", "O"]
)
def test_no_dtype_overflows(dtype: str) -> None:
    """Two hundred rows at both ends of every dtype, against the same numbers as Python's."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        ends = [np.iinfo(kind).min, np.iinfo(kind).max]
    else:
        ends = [0, 1] if kind.kind == "b" else [-(2.0**15), 2.0**15]
    facts = tdp.Schema({"x": tdp.Interval(-(2.0**63), 2.0**64)}, rows=400, bits=26)
    column = np.array([ends] * 200, dtype=kind).ravel()
    total = tdp.Sums(facts, ["x"]).measure({"x": column})
    one = tdp.Sums(facts, ["x"]).measure({"x": [float(end) for end in ends]})
    assert total == [200 * part for part in one]


def test_a_masked_cell_is_missing() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0, 4.0], mask=[0, 0, 0, 1])
    assert integers(TABLE | {"x": masked}) == integers(TABLE | {"x": [1.0, 2.0, 3.0, 5.0]})


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_take_the_same_path(rows: int) -> None:
    facts = tdp.Schema(FACTS, rows=4, neighbors="add-remove")
    frame = {name: column[:rows] for name, column in TABLE.items()}
    for call in (tdp.sum, tdp.mean):
        few = call(frame, ["x", "y"], schema=facts, epsilon=1)
        many = call(TABLE, ["x", "y"], schema=facts, epsilon=1)
        assert few.names == many.names
        assert np.isfinite([*few.value, *few.half_width]).all()


def test_constant_columns_are_no_special_case(seed: int) -> None:
    frame = {"x": [10.0] * 4, "y": [1.0] * 4}
    release = tdp.AdditiveMechanism(tdp.Moments(SCHEMA, ["x"], "y"), epsilon=1).release(frame)
    assert np.isfinite(release.value).all()
    assert tdp.variance(frame, ["x"], schema=SCHEMA, epsilon=1).value >= 0


@pytest.mark.parametrize("epsilon", [2.0**-40, 1, 2.0**10])
@pytest.mark.parametrize("half", [1e-60, 1e60])
def test_the_widest_and_the_narrowest_have_finite_errors(half: float, epsilon: float) -> None:
    """The error of a variance has the fourth power of the width."""
    facts = tdp.Schema({"x": tdp.Interval(-half, half)}, rows=3)
    for helper in (tdp.sum, tdp.mean, tdp.variance):
        release = helper({"x": [half, 0, -half]}, ["x"], schema=facts, epsilon=epsilon)
        assert np.isfinite([*release.value, *release.half_width]).all()
        assert np.isfinite(release.noise_std).all()
        assert (release.noise_std > 0).all()


def test_persons_named_by_numbers_beyond_doubles_are_read_without_a_word() -> None:
    """A warning would tell that such a number is in the table."""
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3, neighbors="add-remove", person="id")
    names = np.array([1, 2, 2], dtype=np.longdouble) * np.longdouble("1e4000")
    names = np.append(names, np.longdouble("nan"))
    # infinite on this machine or not: whoever shares a double is one person, nobody is a row less
    assert tdp.Sums(facts).measure({"x": np.ones(4), "id": names})[0] <= 2 << facts.bits
