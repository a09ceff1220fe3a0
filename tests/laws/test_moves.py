"""Law 2, moves: what a neighbour changes lies in the body that the drawn noise was made for.

Random schemas, random terms in random order, every statistic of the package and every noise that
it accepts. Rows go through the reader and the reducer of a release; their exact integer
differences are put, entry by entry, to the integer levels and sensitivities of the noise that is
drawn; and every entry is what its name says.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace
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
    concrete_statistics,
    entry_of,
    images,
    inside,
    released,
    rows,
)

import tightdp as tdp
from tightdp.data import row_facts
from tightdp.data.regression_moments import RegressionMoments
from tightdp.data.row_facts import CappedSums, Flags
from tightdp.data.statistics import Products, Statistic
from tightdp.errors import UncoveredMoveError
from tightdp.geometry.combine import Product
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.shaping.coverage import Coverage
from tightdp.shaping.nuclear_part import NuclearPart

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
        replaced = points[first] - points[second]
        # a row that is left out comes or goes
        return np.concatenate([replaced, points]) if statistic.schema.drops else replaced
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
            assert Fraction(int(entry), unit) == entry_of(statistic, name, row), name


def check_all_names(found: list[Statistic], seed: int) -> None:
    for statistic in found:
        check_names(statistic, seed)


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


@pytest.mark.parametrize("joint", [True, False])
def test_a_nuclear_ball_that_is_too_small_is_caught(joint, seed, monkeypatch) -> None:
    """Planted: a reach without the factor 2 of replaced rows, with an indicator among columns."""
    unguarded(monkeypatch)
    facts = at_random.schema(np.random.default_rng(seed), REPLACE, 1)
    statistic = RegressionMoments(facts, ["a", "k", "b"], "c", joint=joint, square=True)
    mechanism = released(statistic, only=("nuclear",))[0].mechanism
    table = rows(np.random.default_rng(seed), facts, ROWS)
    moves = moves_between(
        statistic, images(statistic, mechanism.bits, table), np.random.default_rng(seed)
    )
    assert inside(mechanism, moves).all()
    parts = [
        replace(part, reach=part.reach / 2) if isinstance(part, NuclearPart) else part
        for part in mechanism.parts
    ]
    short = SplitMechanism(statistic, parts, epsilon=1)
    assert not inside(short, moves).all()


def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the gate, which would not let the faults below be built."""
    for module in ("additive", "split_mechanism"):
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


# --- facts about rows -------------------------------------------------------------------------

YES = tdp.Category(["no", "yes"], other="no")
AMOUNT, SIGNED = tdp.Interval(0, 2, missing=0), tdp.Interval(-2, 2, missing=0)
FACTS = {
    "few flags": lambda facts: Flags(facts(YES, 4), at_most=2),
    "one flag": lambda facts: Flags(facts(YES, 4), at_most=1),
    "implied flags": lambda facts: Flags(facts(YES, 4), implies=[("a", "c"), ("b", "c")]),
    "a chain of flags": lambda facts: Flags(facts(YES, 3), implies=[("a", "b"), ("b", "c")]),
    "amounts": lambda facts: CappedSums(facts(AMOUNT, 3), at_most=4),
    "signed amounts": lambda facts: CappedSums(facts(SIGNED, 3), at_most=4),
}


def stated(name: str, relation: str, person: int = 1) -> Statistic:
    """A statistic with a fact, on a grid of five values for each amount."""

    def facts(rule: Any, width: int) -> tdp.Schema:
        who = {"person": "who", "rows_per_person": person} if person > 1 else {}
        return tdp.Schema(dict.fromkeys("abcd"[:width], rule), 9, neighbors=relation, bits=1, **who)

    return FACTS[name](facts)


def all_rows(statistic: Statistic) -> dict[str, Any]:
    """Every row that there is, those that break the fact included."""
    cells = [
        rule.levels if isinstance(rule, tdp.Category) else np.linspace(rule.low, rule.high, 5)
        for rule in statistic.schema.columns.values()
    ]
    product = itertools.product(*cells)
    return dict(zip(statistic.columns, map(np.array, zip(*product, strict=True)), strict=True))


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("name", FACTS)
def test_all_neighbours_of_rows_with_facts(name: str, relation: str) -> None:
    """Brute force: every move is covered, and the hull of the rows as they count is the ball."""
    statistic = stated(name, relation)
    points = images(statistic, statistic.schema.bits, all_rows(statistic))
    first, second = np.triu_indices(len(points), 1)
    moves = points[first] - points[second] if relation == REPLACE else points
    for given in released(statistic, only=("hull", "best", "l1", "l2", "linf", "laplace")):
        assert inside(given.mechanism, given.mechanism._choice.factor * moves).all(), given.noise
    space, unit = statistic.sensitivity_space(), statistic.resolution(statistic.schema.bits)
    assert space.exact
    c = np.random.default_rng(1).normal(size=(40, len(statistic)))
    farthest = np.abs(moves / unit @ c.T).max(axis=0)
    np.testing.assert_allclose(space.hull().support(c), farthest, rtol=1e-9)
    for p in (1, 2, np.inf):
        reached = np.linalg.norm(moves / unit, p, axis=1).max()
        assert space.sensitivity(p=p) == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("name", FACTS)
def test_persons_with_several_rows_keep_within_facts(name: str) -> None:
    statistic = stated(name, ADD, person=2)
    points = images(statistic, statistic.schema.bits, all_rows(statistic))
    first, second = np.triu_indices(len(points))
    mechanism = tdp.AdditiveMechanism(statistic, noise="best", epsilon=1)
    assert inside(mechanism, points[first] + points[second]).all()


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("name", FACTS)
def test_rows_that_are_not_mapped_are_caught(name, relation, seed, monkeypatch) -> None:
    """Planted: the noise believes the fact, and the reader does not enforce it."""
    monkeypatch.setattr("tightdp.data.row_facts.capped", lambda sizes, most: sizes)
    monkeypatch.setattr(Flags, "obeying", lambda self, block, bits: block.matrix(self.columns).T)
    with pytest.raises(UncoveredMoveError):  # by the gate
        tdp.AdditiveMechanism(stated(name, relation), epsilon=1)
    unguarded(monkeypatch)
    table = all_rows(stated(name, relation))
    found = released(stated(name, relation), only=("hull",))
    points = images(found[0].mechanism.statistic, 1, table)
    first, second = np.triu_indices(len(points), 1)
    moves = points[first] - points[second] if relation == REPLACE else points
    assert not inside(found[0].mechanism, moves).all()  # by brute force
    some = [each for kind in (Flags, CappedSums) for each in statistics(kind, seed, 4)]
    with pytest.raises(AssertionError):  # and by what entries must be
        check_all_names(some, seed)


def test_a_looser_map_than_the_noise_is_caught(monkeypatch) -> None:
    """Planted: one flag, or one amount, more than the noise was made for."""
    enforced = row_facts.capped
    monkeypatch.setattr(
        row_facts, "capped", lambda sizes, most: enforced(sizes, most + sizes.max(initial=0))
    )
    for name in ("few flags", "one flag", "amounts", "signed amounts"):
        with pytest.raises(UncoveredMoveError):
            tdp.AdditiveMechanism(stated(name, ADD), epsilon=1)


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
