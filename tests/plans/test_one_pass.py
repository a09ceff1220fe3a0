"""A plan opens its table once, may read it once for all sums, and pays before it reads."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tightdp import registry
from tightdp.data import csv_files, engines
from tightdp.errors import BudgetError, DataError, LedgerError, ParameterError, TightdpError
from tightdp.ledger import Ledger
from tightdp.noise.lattice import LatticeNoise
from tightdp.plans import Plan
from tightdp.randomness import SeededSource

from .conftest import HEAD

FOUR = """\
[[releases]]
name = "means"
kind = "mean"
columns = ["age", "pay"]
weight = 1
[[releases]]
name = "regions"
kind = "count"
columns = ["region"]
weight = 1
[[releases]]
name = "middle"
kind = "median"
column = "age"
weight = 1
[[releases]]
name = "ages"
kind = "histogram"
column = "age"
bins = 5
weight = 1
[[releases]]
name = "line"
kind = "linear_regression"
features = ["age"]
target = "pay"
weight = 1
"""
SHARING = ["means", "regions", "ages", "line"]
ONLY_SUMS = FOUR.replace(
    FOUR[FOUR.index('[[releases]]\nname = "middle"') : FOUR.index('[[releases]]\nname = "ages"')],
    "",
)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens: the file is opened, its rows are read, noise is drawn, a key is paid for."""
    seen: list[str] = []
    opener, records, spend, draw = (
        csv_files._open, engines.read_parts, Ledger.spend, LatticeNoise.sample,
    )  # fmt: skip

    def opened(path: Path) -> Any:
        seen.append("opened")
        return opener(path)

    def read(*given: Any) -> Any:
        seen.append("rows")
        yield from records(*given)

    def paid(self: Ledger, *given: Any, **named: Any) -> Any:
        receipt = spend(self, *given, **named)
        seen.append(f"paid {named['key']}")
        return receipt

    def drawn(self: LatticeNoise, *given: Any, **named: Any) -> Any:
        if not given:  # one draw, of a release; intervals of regressions simulate many
            seen.append("noise")
        return draw(self, *given, **named)

    monkeypatch.setattr(csv_files, "_open", opened)
    monkeypatch.setattr(engines, "read_parts", read)
    monkeypatch.setattr(Ledger, "spend", paid)
    monkeypatch.setattr(LatticeNoise, "sample", drawn)
    return seen


def test_one_opening_and_one_reading_for_all_sums(plan, events):
    found = Plan.read(plan(ONLY_SUMS))
    assert events == ["opened"]  # the header, for all checks
    result = found.release(one_pass=True)
    assert sorted(result.fresh) == sorted(SHARING)
    assert events.count("opened") == 2
    assert events.count("rows") == 1
    last = events.index("rows")
    assert [e for e in events[:last] if e.startswith("paid")] == [f"paid {n}" for n in SHARING]
    assert "noise" not in events[last:]  # all of it is drawn before a row is read
    assert not result.lost


def test_room_is_asked_for_all_that_is_paid_for_at_once(plan, monkeypatch):
    """Each asked for its own, which was there; what is stored last would have been lost."""
    again = (
        '[[releases]]\nname = "again"\nkind = "histogram"\ncolumn = "age"\nweight = 1\nbins = 5\n'
    )
    wide = (ONLY_SUMS + again).replace("bins = 5", "bins = 4000")
    found = Plan.read(plan(wide))
    room = (1 << 20) + 5000 * 512  # for one histogram, not for both
    disk = SimpleNamespace(f_blocks=1, f_bavail=room, f_frsize=1)
    Ledger(**found.caps_stated(), path=found.ledger).close()
    monkeypatch.setattr(os, "statvfs", lambda place: disk)
    with pytest.raises(LedgerError, match="less than 5 MiB"):
        found.release(one_pass=True)
    assert set(found.states().values()) == {"new"}
    assert len(found.release().answers) == 5


def test_without_it_each_release_reads_once_and_is_stored_before_the_next_is_paid(plan, events):
    found = Plan.read(plan(ONLY_SUMS))
    found.release()
    assert events.count("opened") == 1 + len(SHARING)
    order = [e for e in events if e == "rows" or e.startswith("paid")]
    assert order == [e for name in SHARING for e in (f"paid {name}", "rows")]


def test_others_are_read_on_their_own(plan, events):
    turns = []
    found = Plan.read(plan(FOUR))
    result = found.release(one_pass=True, watch=lambda name, i, n: turns.append((name, i, n)))
    assert events.count("rows") == 2
    assert list(result.answers) == ["means", "regions", "middle", "ages", "line"]
    assert turns == [(n, i, 5) for i, n in enumerate([*SHARING, "middle"], start=1)]


def test_stored_releases_are_not_read_again(plan, events):
    path = plan(FOUR)
    first = Plan.read(path).release(one_pass=True)
    events.clear()
    second = Plan.read(path).release(one_pass=True)
    assert events.count("opened") == 1
    assert "rows" not in events
    assert not second.fresh
    for name, answer in first.answers.items():
        assert (answer.value == second.answers[name].value).all()


def test_the_integers_are_those_of_single_releases(plan, folder, monkeypatch):
    """The same bits for the noise, in the same order: the same numbers, to the last digit."""
    monkeypatch.setattr("tightdp.mechanisms.mechanism.source", lambda rng: Unmarked(7))
    both = []
    for name, shared in (("a", True), ("b", False)):
        head = HEAD.replace("ledger.db", f"{name}.db")
        both.append(Plan.read(plan(ONLY_SUMS, head, f"{name}.toml")).release(one_pass=shared))
    for name in SHARING:
        one, other = (result.answers[name] for result in both)
        assert one.release.integers == other.release.integers
        assert (one.value == other.value).all()


class Unmarked(SeededSource):
    """A seeded source that does not say so, for a ledger refuses seeds."""

    seeded = False


def test_who_is_refused_does_not_take_the_others_along(plan, folder, monkeypatch):
    found = Plan.read(plan(ONLY_SUMS))
    spend = Ledger.spend

    def refuses(self: Ledger, *given: Any, **named: Any) -> Any:
        if named["key"] == "ages" and self.path is not None:
            raise BudgetError("Another run was quicker.")
        return spend(self, *given, **named)

    monkeypatch.setattr(Ledger, "spend", refuses)
    with pytest.raises(BudgetError, match="quicker"):
        found.release(one_pass=True)
    assert found.states() == dict.fromkeys(SHARING[:2], "stored") | dict.fromkeys(
        SHARING[2:], "new"
    )


def test_a_release_that_fails_does_not_take_the_others_along(plan, monkeypatch):
    from tightdp.mechanisms.split_mechanism import SplitMechanism

    found = Plan.read(plan(ONLY_SUMS))
    prepare = SplitMechanism.prepare

    def broken(self: Any, *given: Any) -> Any:
        prepare(self, *given)

        def finish(table: Any, progress: bool) -> Any:
            raise DataError("It broke.")

        return finish

    monkeypatch.setattr(SplitMechanism, "prepare", broken)
    with pytest.raises(DataError, match="It broke"):
        found.release(one_pass=True)
    assert found.states() == dict.fromkeys(SHARING[:3], "stored") | {"line": "burned"}


def test_a_table_that_cannot_be_read_stays_paid_for(plan, monkeypatch):
    found, reads = Plan.read(plan(ONLY_SUMS)), []

    def breaks(*given: Any) -> Any:
        reads.append(1)
        raise OSError("the cell 41.5")
        yield

    monkeypatch.setattr(engines, "read_parts", breaks)
    with pytest.raises(DataError, match="withheld") as caught:
        found.release(one_pass=True)
    assert "41.5" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert reads == [1]
    assert set(found.states().values()) == {"burned"}
    assert sorted(found.release(one_pass=True).lost) == sorted(SHARING)


def test_nothing_that_was_read_is_left(plan, monkeypatch):
    from tightdp.plans import plan as module

    tables, share = [], module.share_pass
    monkeypatch.setattr(
        module, "share_pass", lambda *given: tables.append(share(*given)) or tables[-1]
    )
    Plan.read(plan(ONLY_SUMS)).release(one_pass=True)
    assert [table._found for table in tables] == [None]


@pytest.mark.parametrize("one_pass", [False, True])
def test_every_mechanism_is_built_once(plan, monkeypatch, one_pass):
    built: list[str] = []

    def counting(kind: registry.Kind) -> registry.Kind:
        def build(*given: Any) -> Any:
            built.append(kind.name)
            return kind.build(*given)

        return replace(kind, build=build)

    for name, kind in list(registry.KINDS.items()):
        monkeypatch.setitem(registry.KINDS, name, counting(kind))
    found = Plan.read(plan(FOUR))  # checked and rehearsed
    found.preview()
    found.states()
    found.release(one_pass=one_pass)
    found.release(one_pass=one_pass)
    assert sorted(built) == ["count", "histogram", "linear_regression", "mean", "median"]


def test_who_watches_and_stumbles_does_not_lose_what_is_paid_for(plan):
    found = Plan.read(plan(ONLY_SUMS))

    def watch(name: str, number: int, count: int) -> None:
        if number == 3:
            raise OSError("The terminal is gone.")

    with pytest.raises(OSError, match="gone"):
        found.release(one_pass=True, watch=watch)
    states = dict.fromkeys(SHARING[:2], "stored") | dict.fromkeys(SHARING[2:], "new")
    assert found.states() == states


@pytest.mark.parametrize("bad", [{"one_pass": "no"}, {"one_pass": True, "progress": "yes"}])
def test_flags_are_checked_before_payment(plan, bad):
    found = Plan.read(plan(ONLY_SUMS))
    with pytest.raises(ParameterError, match="must be True or False"):
        found.release(**bad)
    assert set(found.states().values()) == {"new"}


def _gone(path: Path) -> None:
    path.unlink()


def _another(path: Path) -> None:
    path.unlink()
    pq.write_table(pa.table({"z": [1.0]}), path)
    if path.suffix == ".csv":
        path.write_text("a,b\n1,2\n")


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("change", [_gone, _another])
@pytest.mark.parametrize("file", ["table.csv", "table.parquet"])
def test_a_file_that_changed_since_the_plan_was_read_costs_nothing(
    plan, folder, one_pass, change, file
):
    if file == "table.parquet":
        cells = {"age": [1.0] * 200, "pay": [2.0] * 200, "region": ["north"] * 200}
        pq.write_table(pa.table(cells), folder / file)
    head = HEAD.replace("table.csv", file)
    found = Plan.read(plan(ONLY_SUMS, head))
    change(folder / file)
    with pytest.raises(TightdpError, match=r"has changed|no column|no file"):
        found.release(one_pass=one_pass)
    assert set(found.states().values()) == {"new"}


def test_columns_may_move_in_a_file_after_the_plan_was_read(plan, folder):
    """They are found by their names in the file that is there."""
    found = Plan.read(plan(ONLY_SUMS))
    path = folder / "table.csv"
    names, *rows = path.read_text().splitlines()
    turned = [",".join(reversed(line.split(","))) for line in [names, *rows] if '"' not in line]
    path.write_text("\n".join([*turned, *["no,north,5,50"] * (201 - len(turned))]) + "\n")
    result = found.release(one_pass=True)
    assert sorted(result.fresh) == sorted(SHARING)
    assert not result.lost


def test_two_runs_do_not_wait_for_each_other(plan, monkeypatch):
    """Another run has paid for one release, and stores it when it finds one of this run."""
    path = plan(ONLY_SUMS)
    found, other, paid = Plan.read(path), Plan.read(path), threading.Event()
    seen: list[str] = []

    def run() -> None:
        with other._open() as ledger, other._start(other["ages"], ledger) as begun:
            paid.set()
            until = time.monotonic() + 20  # less than a ledger waits for a release that is pending
            while other.states()["means"] != "stored" and time.monotonic() < until:
                time.sleep(0.01)
            seen.append(other.states()["means"])
            begun.finish()

    thread, groups = threading.Thread(target=run), Plan._groups

    def late(self: Plan, *given: Any) -> Any:  # when this run has looked at what is known
        thread.start()
        assert paid.wait(60)
        return groups(self, *given)

    monkeypatch.setattr(Plan, "_groups", late)
    result = found.release(one_pass=True)
    thread.join()
    assert seen == ["stored"]
    assert not result.lost
    assert list(result.answers) == SHARING
    assert result.spent.epsilon == 4
