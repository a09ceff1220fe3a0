"""Law: what an engine adds up itself are the integers of the one reader.

Counts and sums by group are asked of DuckDB, polars and Spark in their own words where the types of
the columns allow it. For every kind of column and every odd cell, as a number, as a group and in a
bin, the answer is that of the blocks, to the last integer; and whether an engine is asked follows
from types alone. Planted faults are the ways in which engines really differ.
"""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import pytest
from containers import CONTAINERS, KINDS, Rows, in_spark

import tightdp as tdp
from tightdp.data import engine_groups, group_queries, one_pass
from tightdp.data.class_moments import GroupMoments
from tightdp.data.engine_groups import answer_inside
from tightdp.data.histograms import Histogram
from tightdp.data.statistics import Statistic
from tightdp.mechanisms.groups import GroupSums
from tightdp.schema import complete_rows

ENGINES = ("DuckDB", "polars", "polars lazy")
NUMBERS = ("integer", "unsigned", "real", "single", "boolean")
GROUPS = ("integer", "boolean")
RULES = (
    tdp.Interval(0, 9),
    tdp.Interval(-1e19, 1e19, missing=7),
    tdp.Interval(-2.5, 4.8, missing=-2.5),
    tdp.Interval(0, 3, step=0.1),
    tdp.Interval(0.1, 0.1 + 1e-9),
    tdp.Interval(-1e-60, 3e-60),
    tdp.Interval(1e16, 1e16 + 1000),
)
LEVELS = ([0, 1, 2], ["1", "7", "x"], [True, -1, 0.5])


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tdp.PublicFactWarning)
        yield


def facts(rule: tdp.Interval, levels: Any, **more: Any) -> tdp.Schema:
    columns = {"x": rule, "y": tdp.Interval(0, 1), "k": tdp.Category(levels)}
    return tdp.Schema(columns, rows=40, neighbors="add-remove", **more)


def statistics(schema: tdp.Schema) -> list[Statistic]:
    return [
        GroupMoments(schema, ["x", "y"], "k"),
        GroupMoments(schema, ["x"], "k", squares=True),
        GroupMoments(schema, ["y"], ["k", ("x", 5)]),
        Histogram(schema, "x", 3),
        tdp.Products(schema, ["k", "x:k"]),
        tdp.Counts(schema, ["k"]),
        tdp.Products(schema, ["x", "y", "x:y"]),
    ]


def inside(frame: Any, statistic: Statistic, bits: int) -> list[int] | None:
    """What the engine adds up itself; None where it is not asked."""
    wanted = statistic.integer_sum(bits)
    engine = one_pass.Table.open(frame, wanted.schema).engine(wanted.schema)
    answer = answer_inside(engine, wanted.schema, wanted.query)
    found = None if answer is None else answer()
    return None if found is None else found[0]


def differences(frame: Any, rows: Rows, found: list[Statistic], bits: int) -> tuple[int, list[Any]]:
    """How many statistics the engine was asked for, and those that it added up otherwise."""
    asked, wrong = 0, []
    lists = {name: [row[name] for row in rows] for name in ("x", "y", "k")}
    for statistic in found:
        got = inside(frame, statistic, bits)
        if got is not None:
            asked += 1
            wrong += [] if got == statistic.measure(lists, bits=bits) else [statistic]
    return asked, wrong


def odd_rows(
    x: str, k: str, rule: tdp.Interval, seed: int, bits: int, ties: int = 40
) -> list[dict[str, Any]]:
    """Every odd cell of the kinds, and numbers beside the middle of two grid points."""
    draw = random.Random(seed)
    cells = list(KINDS[x].cells)
    if x in ("real", "single"):
        cells += [near_a_tie(rule, draw, bits) for _ in range(ties)] if x == "real" else []
        cells += [rule.low, rule.high, math.nextafter(rule.high, math.inf)] if x == "real" else []
    return [
        {"x": cell, "y": draw.random(), "k": draw.choice(KINDS[k].cells)}
        for cell in cells
        for _ in "ab"
    ]


def near_a_tie(rule: tdp.Interval, draw: random.Random, bits: int) -> float:
    value = rule.middle + (draw.randrange(-(2**bits), 2**bits) + 0.5) * rule.half / 2**bits
    for _ in range(draw.randrange(3)):
        value = math.nextafter(value, draw.choice([-math.inf, math.inf]))
    return value


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("x", NUMBERS)
def test_an_engine_adds_up_the_integers_of_the_one_reader(name, x, seed):
    asked = 0
    for j, rule in enumerate(RULES):
        k = GROUPS[j % len(GROUPS)]
        schema = facts(rule, LEVELS[j % len(LEVELS)])
        rows = odd_rows(x, k, rule, seed + j, schema.bits)
        frame = CONTAINERS[name].build(rows, {"x": x, "y": "real", "k": k})
        bits = (schema.bits, max(schema.bits - 5, 7))[j % 2]
        many, wrong = differences(frame, rows, statistics(schema), bits)
        assert wrong == []
        asked += many
    assert asked >= 3 * len(RULES)


@pytest.mark.parametrize("bits", [3, 17, 26])
def test_limbs_are_put_together_on_every_grid(bits, seed):
    schema = facts(RULES[2], LEVELS[0], bits=bits)
    rows = odd_rows("real", "integer", RULES[2], seed, bits)
    frame = CONTAINERS["DuckDB"].build(rows, {"x": "real", "y": "real", "k": "integer"})
    asked, wrong = differences(frame, rows, statistics(schema), bits)
    assert wrong == []
    assert asked >= 4


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {*NUMBERS, "coded_integer"}))
def test_other_columns_are_read_in_blocks(name, kind, tmp_path):
    """Whether an engine is asked follows from types: those of texts and decimals are not."""
    if kind not in CONTAINERS[name].holds:
        return
    schema = facts(tdp.Interval(0, 9), [0, 1])
    rows = [{"x": cell, "y": 0.5, "k": 1} for cell in KINDS[kind].cells]
    frame = CONTAINERS[name].build(rows, {"x": kind, "y": "real", "k": "integer"}, tmp_path)
    assert inside(frame, GroupMoments(schema, ["x"], "k"), schema.bits) is None
    assert inside(frame, GroupMoments(schema, ["y"], "k"), schema.bits) is not None
    turned = CONTAINERS[name].build(
        [{"x": 1.0, "y": 0.5, "k": cell} for cell in KINDS[kind].cells],
        {"x": "real", "y": "real", "k": kind},
        tmp_path,
    )
    assert inside(turned, GroupMoments(schema, ["x"], "k"), schema.bits) is None
    if kind not in ("date", "instant", "time"):  # of which a category is not read at all
        assert GroupMoments(schema, ["x"], "k").measure(turned)  # in blocks


def test_levels_far_apart_texts_and_persons_are_left_to_blocks():
    frame = CONTAINERS["polars"].build([{"x": 1.0, "y": 0.5, "k": 1, "p": 3}])
    far = facts(tdp.Interval(0, 9), [1, 10**9])
    assert inside(frame, GroupMoments(far, ["x"], "k"), far.bits) is None
    words = facts(tdp.Interval(0, 9), ["a", "b"])
    assert inside(frame, GroupMoments(words, ["x"], "k"), words.bits) is None
    columns = {"x": tdp.Interval(0, 9), "k": tdp.Category([0, 1])}
    persons = tdp.Schema(columns, rows=9, neighbors="add-remove", person="p", rows_per_person=2)
    assert inside(frame, GroupMoments(persons, ["x"], "k"), persons.bits) is None


@pytest.mark.parametrize("name", ENGINES)
def test_rows_that_are_left_out_are_left_out_by_a_scan(name):
    """An engine would count the rows with missing cells, too."""
    rows = [{"x": None if i % 4 == 0 else i / 40, "y": 0.5, "k": i % 3} for i in range(40)]
    schema = complete_rows(facts(tdp.Interval(0, 1), [0, 1, 2]), "drop")
    statistic, frame = GroupMoments(schema, ["x"], "k"), CONTAINERS[name].build(rows)
    assert inside(frame, statistic, schema.bits) is None
    counts = statistic.measure(frame)[::2]
    assert sum(counts) == 30 * statistic.resolution(schema.bits)


def test_a_release_asks_the_engine_and_shows_a_line_that_stands_still(monkeypatch, capsys):
    """The integers of a release are those of blocks, whatever the engine; nothing moves."""
    rows = [{"x": i / 40, "y": 0.0, "k": i % 3} for i in range(40)]
    schema = tdp.Schema({"x": tdp.Interval(0, 1), "k": tdp.Category([0, 1, 2])}, rows=40)
    mechanism = GroupSums(schema, "x", "k", epsilon=1)
    lists = {name: [row[name] for row in rows] for name in ("x", "k")}
    truth = mechanism.release(lists, rng=3).integers
    asked = []
    monkeypatch.setattr(
        one_pass, "answer_inside", lambda *a: asked.append(answer_inside(*a)) or asked[-1]
    )
    for name in ENGINES:
        frame = CONTAINERS[name].build(rows)
        assert mechanism.release(frame, rng=3, progress=True).integers == truth
    assert len(asked) == len(ENGINES)
    assert None not in asked
    assert "%" not in capsys.readouterr().err


def test_so_many_rows_that_doubles_round_are_read_in_blocks(monkeypatch):
    rows = [{"x": i / 40, "y": 0.0, "k": i % 3} for i in range(40)]
    schema = facts(tdp.Interval(0, 1), [0, 1, 2])
    statistic, frame = GroupMoments(schema, ["x"], "k"), CONTAINERS["polars"].build(rows)
    truth = statistic.measure(frame)
    monkeypatch.setattr(group_queries, "MOST_ROWS", 40)
    assert inside(frame, statistic, schema.bits) is None
    assert statistic.measure(frame) == truth


def test_who_counts_rows_otherwise_is_not_asked_about_by_the_query_of_the_parent():
    class Half(GroupMoments):
        def contributions(self, block: Any, bits: int) -> Any:
            return super().contributions(block, bits) // 2

    schema = facts(tdp.Interval(0, 9), [0, 1])
    assert Half(schema, ["x"], "k").integer_sum(schema.bits).query is None
    assert GroupMoments(schema, ["x"], "k").integer_sum(schema.bits).query is not None


# --- planted faults -------------------------------------------------------------------------------


def faults(name: str, monkeypatch: Any, seed: int) -> list[Any]:
    schema = facts(RULES[2], LEVELS[0])
    rows = odd_rows("real", "integer", RULES[2], seed, schema.bits, ties=1000)
    frame = CONTAINERS[name].build(rows, {"x": "real", "y": "real", "k": "integer"})
    return differences(frame, rows, statistics(schema)[:2], schema.bits)[1]


def test_a_division_that_rounds_twice_is_noticed(monkeypatch, seed):
    """polars multiplies with the reciprocal of a constant."""
    assert faults("polars", monkeypatch, seed) == []
    monkeypatch.setattr(engine_groups.math, "frexp", lambda constant: (0.5, 0))
    assert faults("polars", monkeypatch, seed) != []


def test_a_missing_cell_taken_for_a_large_one_is_noticed(monkeypatch, seed):
    cell = engine_groups._Duck.cell

    def old(self: Any, name: str, rule: Any) -> str:
        return cell(self, name, rule).replace("isnan", "NOT isnan")

    assert faults("DuckDB", monkeypatch, seed) == []
    monkeypatch.setattr(engine_groups._Duck, "cell", old)
    assert faults("DuckDB", monkeypatch, seed) != []


def test_limbs_in_another_order_are_noticed(monkeypatch, seed):
    sums = engine_groups._Polars._sums
    monkeypatch.setattr(engine_groups._Polars, "_sums", lambda *a: sums(*a)[::-1])
    assert faults("polars", monkeypatch, seed) != []


# --- Spark ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The same on a real session."""

    def test_spark_adds_up_the_integers_of_the_one_reader(self, spark, seed, tmp_path):
        rule, container = RULES[2], in_spark(spark)
        schema = facts(rule, LEVELS[0])
        rows = odd_rows("real", "integer", rule, seed, schema.bits)
        kinds = {"x": "real", "y": "real", "k": "integer"}
        frame = container.build(rows, kinds, tmp_path)
        asked, wrong = differences(frame, rows, statistics(schema), schema.bits)
        assert asked == len(statistics(schema))
        assert wrong == []

    def test_nothing_but_sums_of_groups_is_moved(self, spark, seed, tmp_path):
        """One exchange, after the sums of every part."""
        schema = facts(RULES[2], LEVELS[0])
        rows = odd_rows("real", "integer", RULES[2], seed, schema.bits)
        frame = in_spark(spark).build(rows, {"x": "real", "y": "real", "k": "integer"}, tmp_path)
        wanted = GroupMoments(schema, ["x"], "k").integer_sum(schema.bits)
        engine = one_pass.Table.open(frame, wanted.schema).engine(wanted.schema)
        keys, cells = wanted.query.rules(wanted.schema)
        groups = engine_groups._Spark(engine, engine.kinds()).frame(wanted.query, keys, cells)
        plan = groups._jdf.queryExecution().executedPlan().toString()
        assert plan.count("Exchange") == 1
        assert plan.index("HashAggregate") < plan.index("Exchange") < plan.rindex("HashAggregate")
        assert "partial_sum" in plan[plan.index("Exchange") :]
