"""Law: preparing a release and reading the rows later draws what one step draws, in one reading."""

from __future__ import annotations

import numpy as np
import pytest
from enrolled import RELATED, mapping, plain_rows, schema

from tightdp import AdditiveMechanism, Counts
from tightdp.data.one_pass import share_pass
from tightdp.data.table import Table
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
