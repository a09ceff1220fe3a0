"""Law 2, moves: what a neighbour changes lies in the body that the drawn noise was made for.

Random schemas, random terms in random order, every statistic of the package and every noise that
it accepts. Rows go through the reader and the reducer of a release; their exact integer
differences are put, entry by entry, to the integer levels and sensitivities of the noise that is
drawn; and every entry is what its name says.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import random_statistics as at_random
from random_statistics import (
    ADD,
    MAKERS,
    QUICK,
    RELATIONS,
    REPLACE,
    by_name,
    concrete_statistics,
    images,
    inside,
    released,
    rows,
)

import tightdp as tdp
from tightdp.data.statistics import Products, Statistic
from tightdp.geometry.combine import Product
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.shaping.coverage import Coverage

# a large delta makes short laws
pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")

KINDS = sorted(MAKERS, key=lambda kind: kind.__name__)
ROWS = 64


def test_every_statistic_is_enrolled() -> None:
    assert concrete_statistics() == set(MAKERS)


def statistics(kind: type[Statistic], seed: int, count: int) -> list[Statistic]:
    """Random statistics of a kind, under all relations that it knows, persons included."""
    found = []
    for i in range(count):
        rng = np.random.default_rng([seed, i, *kind.__name__.encode()])
        for relation in RELATIONS.get(kind, (REPLACE, ADD)):
            persons = 1 + i % 3 if relation == ADD else 1
            facts = at_random.schema(rng, relation, persons)
            found.append(MAKERS[kind](rng, facts))
    return found


def moves_between(statistic: Statistic, points: Any, rng: np.random.Generator) -> Any:
    """All differences of rows, or what a person with as many rows as are used adds."""
    if statistic.schema.neighbors is tdp.privacy.Neighbors.REPLACE_ONE:
        first, second = np.triu_indices(len(points), 1)
        return points[first] - points[second]
    person = statistic.schema.rows_per_person
    if person == 1:
        return points
    chosen = rng.integers(len(points), size=(20 * len(points), person))
    return points[chosen].sum(axis=1)


def check_moves(
    statistic: Statistic, seed: int, only: Collection[str] | None = None
) -> tuple[int, set[str]]:
    """How many moves were looked at, and which noises; fails on one that is not covered."""
    rng = np.random.default_rng(seed)
    table = rows(rng, statistic.schema, ROWS)
    count, noises = 0, set()
    for given in released(statistic, only=only):
        mechanism = given.mechanism
        factor = getattr(mechanism, "_choice", mechanism).factor
        points = factor * images(statistic, mechanism.bits, table)
        moves = moves_between(statistic, points, rng)
        fits = inside(mechanism, moves)
        worst = moves[int(np.argmin(fits))]
        assert fits.all(), (
            f"{statistic!r} with {given.noise}: {dict(zip(statistic.names, worst, strict=True))} "
            f"is not covered"
        )
        count += len(moves)
        noises.add(given.noise)
    return count, noises


def check_names(statistic: Statistic, seed: int) -> None:
    """Every entry of every row is what its name says, in exact fractions."""
    table = rows(np.random.default_rng(seed), statistic.schema, 12)
    bits = statistic.schema.bits
    points, unit = images(statistic, bits, table), statistic.resolution(bits)
    for i, image in enumerate(points):
        row = {name: cells[i] for name, cells in table.items()}
        for name, entry in zip(statistic.names, image, strict=True):
            assert Fraction(int(entry), unit) == by_name(name, row, statistic.schema), name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_moves_lie_in_the_body_of_the_noise(kind: type[Statistic], seed: int) -> None:
    counted, noises = 0, set()
    for i, statistic in enumerate(statistics(kind, seed, 2)):
        check_names(statistic, seed)
        # composing laws with delta takes a second: one statistic stands for all here
        count, accepted = check_moves(statistic, seed, QUICK if i else None)
        counted, noises = counted + count, noises | accepted
    assert counted > 10 * ROWS
    assert len(noises) >= 4


@pytest.mark.slow
def test_a_million_moves(seed: int) -> None:
    counted = 0
    for kind in KINDS:
        for statistic in statistics(kind, seed + 1, 12):
            check_names(statistic, seed)
            counted += check_moves(statistic, seed)[0]
    assert counted >= 1_000_000


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_a_release_adds_noise_to_these_integers(relation: str, seed: int) -> None:
    """The whole path, with its tables and its persons: neighbours differ by what was looked at."""
    rng = np.random.default_rng(seed)
    persons = 2 if relation == ADD else 1
    facts = at_random.schema(rng, relation, persons)
    statistic = Products(facts, ["j:k", "a", "l", "a:j"])
    mechanism = tdp.AdditiveMechanism(statistic, noise="best", epsilon=1)
    table = rows(rng, facts, 50)
    who = np.arange(50) // 3
    whole = mechanism.exact(table | {"who": who})
    for person in range(10):
        if relation == REPLACE:
            other = {name: cells.copy() for name, cells in table.items()}
            for name, fresh in rows(rng, facts, 1).items():
                other[name][person] = fresh[0]
        else:
            other = {name: cells[who != person] for name, cells in table.items()}
            other["who"] = who[who != person]
        move = np.array(whole) - np.array(mechanism.exact(other))
        assert inside(mechanism, move[None, :]).all()


# --- planted faults ---------------------------------------------------------------------------


def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the gate, which would not let the faults below be built."""
    for module in ("additive", "least_squares"):
        monkeypatch.setattr(
            f"tightdp.mechanisms.{module}.certify_moves", lambda *_: Coverage("not at all", 0)
        )


def caught(found: list[Statistic], seed: int, *only: str) -> bool:
    try:
        for statistic in found:
            check_moves(statistic, seed, only)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("terms", [["j:k", "l", "j"], ["a", "j:k", "b", "k"]], ids=",".join)
def test_factors_in_the_order_of_the_terms_are_caught(terms, relation, seed, monkeypatch) -> None:
    """Planted: the noise of one marginal on the entries of another."""

    def outer_balls(self: Products) -> list[Any]:
        spaces = [
            SensitivitySpace.of(self._domain, [":".join(t)], neighbors=self.schema.neighbors)
            for t in self._factors
        ]
        return [Product([space.hull() for space in spaces])]

    facts = [at_random.schema(np.random.default_rng([seed, i]), relation) for i in range(6)]
    assert not caught([Products(given, terms) for given in facts], seed, "best")
    unguarded(monkeypatch)
    monkeypatch.setattr(Products, "outer_balls", outer_balls)
    assert caught([Products(given, terms) for given in facts], seed, "best")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_tenth_of_a_move_too_little_is_caught(kind, seed, monkeypatch) -> None:
    """Planted: rows that add a ninth more than the mathematics of the statistic says."""
    unguarded(monkeypatch)
    for concrete in {kind, *(base for base in kind.__mro__ if "contributions" in vars(base))}:
        if "contributions" in vars(concrete) and concrete is not Statistic:
            measure = concrete.contributions
            monkeypatch.setattr(
                concrete,
                "contributions",
                lambda self, block, bits, measure=measure: -(-10 * measure(self, block, bits) // 9),
            )
    assert caught(statistics(kind, seed, 2), seed, "linf", "staircase", "split box")


def test_two_entries_that_change_places_are_caught(seed, monkeypatch) -> None:
    """Planted: measured in another order than the shape was built in."""
    unguarded(monkeypatch)
    measure = Products.contributions

    def swapped(self: Products, block: Any, bits: int) -> Any:
        out = measure(self, block, bits)
        out[[0, -1]] = out[[-1, 0]]
        return out

    monkeypatch.setattr(Products, "contributions", swapped)
    assert caught(statistics(Products, seed, 4), seed, "hull", "best", "laplace")


def test_fewer_entries_than_move_are_caught(seed, monkeypatch) -> None:
    """Planted: laws that share the budget among too few."""
    unguarded(monkeypatch)
    monkeypatch.setattr(Products, "touched", lambda self: 1)
    assert caught(statistics(tdp.Counts, seed, 2), seed, "laplace")
