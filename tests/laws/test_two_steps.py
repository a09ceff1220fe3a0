"""Law: preparing a release and reading the rows later draws what one step draws, in one reading."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from enrolled import RELATED, mapping, plain_rows, schema

import tightdp as tdp
from tightdp import AdditiveMechanism, Counts
from tightdp.data.one_pass import share_pass
from tightdp.data.table import Table
from tightdp.errors import PublicFactWarning
from tightdp.mechanisms.mechanism import Started
from tightdp.randomness import source

QUICK = [pair for pair in RELATED if pair[0].quick]


@pytest.mark.parametrize(("case", "relation"), QUICK, ids=str)
def test_two_steps_draw_what_one_does(case, relation, seed):
    mechanism = case.build(relation)
    rows = mapping(plain_rows(np.random.default_rng(seed)))
    facts = mechanism.public_facts()
    table = rows if facts is None else Table.open(rows, facts)
    whole = mechanism.draw(rows, source(seed), 0.9, False)
    finish = mechanism.prepare(source(seed), 0.9)
    sums = mechanism.integer_sums()
    if not sums:
        assert finish(table, False).integers == whole.integers
        return
    with share_pass(table, facts, sums) as shared:
        assert finish(shared, False).integers == whole.integers
        assert shared._asked  # all that is read is what was announced


def test_another_way_of_drawing_is_not_passed_over():
    class Other(AdditiveMechanism):
        def draw(self, frame, rng, confidence, progress):
            return "drawn"

    other = Other(Counts(schema(), ["k"]), epsilon=1)
    assert other.integer_sums() == ()
    assert other.prepare(source(1), 0.9)(None, False) == "drawn"


def _started(rows: int) -> tuple[Started, tdp.Ledger]:
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=4)
    ledger = tdp.Ledger(epsilon=1)
    sums = AdditiveMechanism(tdp.Sums(facts), epsilon=1)
    return sums.start(pl.LazyFrame({"x": [0.5] * rows}), ledger=ledger, key="k"), ledger


def test_a_warning_that_is_an_error_waits_until_the_release_is_stored():
    started, ledger = _started(rows=3)
    with started, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PublicFactWarning, match="3 rows"):
            started.finish()
    assert ledger.find("k")["integers"] == [str(z) for z in started.finish().integers]


def test_two_threads_finish_one_release():
    started, ledger = _started(rows=4)
    with started, ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(started.finish) for _ in range(8)]]
    assert len({release.integers for release in found}) == 1
    assert ledger.spent.epsilon == 1


def test_of_two_threads_one_draws():
    """Planted: the other thread comes while the first one reads."""
    started, _ = _started(rows=4)
    publish, read = started._publish, threading.Event()

    def slowly(table, progress):
        read.set()
        time.sleep(0.05)
        return publish(table, progress)

    started._publish = slowly
    with started, ThreadPoolExecutor(2) as pool:
        first = pool.submit(started.finish)
        assert read.wait(5)
        second = pool.submit(started.finish)
        assert first.result().integers == second.result().integers
