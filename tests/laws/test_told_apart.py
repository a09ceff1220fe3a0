"""Law of the ratio, for whatever is enrolled: releases about neighbours cannot be told apart.

Exact ratios are computed where a law is known in full (``test_ratio.py``, and the tests of each
mechanism). Here every mechanism is a black box that is run from the table to the released numbers,
on a pair of tables that differ by the most extreme row there is. A few hundred releases see an
entry without noise, a wrong order of entries, or an outcome that only one of the tables can have;
thousands, in the long run, see noise that is too small by a factor. A correct package fails
somewhere with probability at most ``FAMILY`` (Bonferroni over all cases).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from enrolled import LEVELS, MECHANISMS, RELATED, ROWS, Case, mapping, plain_rows

import tightdp as tdp
from tightdp.audit import audit
from tightdp.mechanisms.hypothesis_tests import HypothesisTest
from tightdp.mechanisms.key_totals import KeyReading, KeyTotals
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.randomness import source

FAMILY = 1e-6
QUICK, LONG = 240, 4_000
LOW = {"x": 0.0, "y": -1.0, "k": "a", "t": "no"}
HIGH = {"x": 10.0, "y": 1.0, "k": "b", "t": "yes"}


def neighbours(relation: str, seed: int) -> tuple[Any, Any]:
    """Tables that differ by an extreme row, in the middle of ordinary ones."""
    rest = plain_rows(np.random.default_rng(seed), ROWS - 1)
    first = [*rest, HIGH]
    return mapping(first), mapping(rest if relation == "add-remove" else [*rest, LOW])


def told_apart(release: Callable[[Any], Any], pair: Any, n: int, seed: int) -> bool:
    """Whether the audit proves that epsilon = 1, delta = 1e-3 does not hold."""
    report = audit(
        lambda table: np.asarray(release(table), dtype=float),
        *pair,
        epsilon=1.0,
        delta=1e-3,
        releases=n,
        alpha=FAMILY / len(RELATED),
        rng=seed,
    )
    return report.violated


def released(case: Case, relation: str, seed: int) -> Callable[[Any], Any]:
    """One release after the other, all from one mechanism."""
    mechanism, rng = case.build(relation), source(seed)
    if isinstance(mechanism, (PrivateKeys, KeyTotals, KeyReading)):
        return lambda table: _of_all_keys(mechanism, mechanism.release(table, rng=rng))
    if isinstance(
        mechanism, HypothesisTest
    ):  # p-values, which take long, are made of what is drawn
        return lambda table: mechanism.draw(table, rng, 0.95, False).integers
    return lambda table: mechanism.release(table, rng=rng).value


def _of_all_keys(mechanism: Any, release: tdp.Release) -> list[float]:
    """What the release tells of every key; one that does not appear is a fact, too."""
    found = dict(zip(release.names, release.value, strict=True))
    sides = [LEVELS[name] for name in _key_columns(mechanism)]
    keys = [
        ", ".join(
            f"{name}={level}" for name, level in zip(_key_columns(mechanism), key, strict=True)
        )
        for key in itertools.product(*sides)
    ]
    names = [
        name.replace(mechanism.names[0].split(" | ")[-1], key)
        for key in keys
        for name in mechanism.names
    ]
    return [found.get(name, -99.0) for name in names]


def _key_columns(mechanism: Any) -> tuple[str, ...]:
    counted = mechanism if isinstance(mechanism, PrivateKeys) else mechanism.source.counted
    return tuple(counted.columns)


# other shapes of additive noise have exact ratios; they and other options wait for the long run
FIRST = [
    (case, relation)
    for cases in MECHANISMS.values()
    for case in cases
    if case.quick and ("best" in case.name or case is next(c for c in cases if c.quick))
    for relation in case.relations
]
# one relation of each case, the first and the last in turns; the other waits for the long run
TURNS = {name: -(i % 2) for i, name in enumerate(dict.fromkeys(case.name for case, _ in FIRST))}


@pytest.mark.slow_for(
    "table, best-*",
    "products, best-*",
    "squares, best-*",
)
@pytest.mark.parametrize(
    ("case", "relation"),
    [
        pytest.param(case, relation, marks=[] if now else pytest.mark.slow)
        for case, relation in FIRST
        for now in [relation == case.relations[TURNS[case.name]]]
    ],
    ids=str,
)
def test_neighbours_are_not_told_apart(case, relation, seed):
    pair = neighbours(relation, seed)
    assert not told_apart(released(case, relation, seed), pair, QUICK, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "relation"), RELATED, ids=str)
def test_neighbours_are_not_told_apart_at_length(case, relation, seed):
    pair = neighbours(relation, seed)
    assert not told_apart(released(case, relation, seed), pair, LONG, seed)


class Silenced:
    """Noise whose entry ``place`` is always zero."""

    def __init__(self, noise: Any, place: int) -> None:
        self._noise, self._place = noise, place

    def sample(self, **options: Any) -> Any:
        drawn = np.array(self._noise.sample(**options))
        drawn[self._place] = 0
        return drawn


@pytest.mark.parametrize(
    ("case", "relation"),
    [pair for pair in RELATED if pair[0].name in ("sums, best", "counts, best", "histogram, hull")],
    ids=str,
)
def test_an_entry_without_noise_is_told_apart(case, relation, seed):
    mechanism, rng = case.build(relation), source(seed)
    pair = neighbours(relation, seed)
    moved = np.subtract(mechanism.exact(pair[0]), mechanism.exact(pair[1]))
    mechanism.noise = Silenced(mechanism.noise, int(np.flatnonzero(moved)[0]))
    assert told_apart(lambda table: mechanism.release(table, rng=rng).value, pair, QUICK, seed)
