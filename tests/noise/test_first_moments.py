"""Proposals of the cylinder body: their law by exact enumeration, by draws, and with faults."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.exact import first_moments, lattice_moments
from tightdp.exact.first_moments import FirstMoments, product_room, square_room
from tightdp.exact.lattice_moments import MomentLatticeBody
from tightdp.noise.lattice import restart
from tightdp.randomness import SeededSource

KINDS = ("cylinder", "triples", "triangle")


@pytest.fixture
def _split_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bodies, which can be enumerated, are drawn as large ones are."""
    monkeypatch.setattr(lattice_moments, "_MANY", 0)


def completions(a: tuple[int, ...], level: int) -> int:
    """How many points of the body have these first moments, from the body's definition."""
    *features, _ = a
    out = 1
    for first, second in itertools.combinations(a, 2):
        out *= sum(
            abs(v) <= 2 * level and first + second + abs(v) <= 4 * level
            for v in range(-2 * level, 2 * level + 1)
        )
    for size in features:
        over = max(size - level, 0)
        out *= sum(
            level * abs(s) <= 2 * level**2 - 2 * over**2 for s in range(-2 * level, 2 * level + 1)
        )
    return out


def proposal(law: FirstMoments, a: tuple[int, ...], level: int) -> Fraction:
    """Q(u) of one u with these sizes, from the weights that the object draws by."""
    far = [j for j, size in enumerate(a) if size > level]
    e, k = int(law.q - 1 in far), sum(j < law.q - 1 for j in far)
    classes = {(i, f): law._mass(i, f) for i in range(law.q) for f in (0, 1)}
    out = Fraction(classes[k, e], sum(classes.values()) * math.comb(law.p, k))
    for j, size in enumerate(a):
        if j not in far:
            out /= 2 * level + 1
            continue
        b, unit = size - level, 4 * level + 1
        weights = law._weights[int(j < law.q - 1), k + e].tolist()
        cell = 4 * b * law.cells // unit
        inside = [v for v in range(1, level + 1) if 4 * v * law.cells // unit == cell]
        out *= Fraction(weights[cell], sum(weights) * 2 * len(inside))
    return out


def chance(law: FirstMoments, a: tuple[int, ...], level: int, offset: int) -> Fraction:
    """The coin, from its docstring."""
    unit = 4 * level + 1
    out = Fraction(completions(a, level)) / Fraction(unit) ** (law.dim - law.q)
    for i in range(1, law.dim + 1):
        out *= Fraction(unit, 4 * (level + offset + i))
    m = sum(size > level for size in a)
    for j, size in enumerate(a):
        if size <= level:
            out *= Fraction(4 * level + 2, unit)
            continue
        b = size - level
        cell = 4 * b * law.cells // unit
        inside = [v for v in range(1, level + 1) if 4 * v * law.cells // unit == cell]
        weight = int(law._weights[int(j < law.q - 1), m, cell])
        out *= Fraction(4 * law.cells * len(inside) << 50, unit * weight)
    return out


@pytest.mark.parametrize(
    ("p", "level", "offset"),
    [(1, 0, 0), (1, 1, 0), (1, 5, 3), (1, 9, 0), (2, 1, 0), (2, 4, 7), (3, 2, 0)],
)
def test_every_point_is_proposed_alike(p: int, level: int, offset: int) -> None:
    """Q(u) times the coin is c T(u) / prod 4 (l + o + i), with one c, and no coin is above 1."""
    law = FirstMoments(p)
    weights = [law._mass(k, e) for k in range(law.q) for e in (0, 1)]
    scale = (law.cells << 50) ** law.q
    common = Fraction(2**law.q * scale, sum(weights))  # 2^q / Z
    below = math.prod(4 * (level + offset + i) for i in range(1, law.dim + 1))
    for a in itertools.combinations_with_replacement(range(2 * level + 1), p):
        for target in range(2 * level + 1):
            sizes = (*a, target)
            coin = chance(law, sizes, level, offset)
            assert coin <= 1
            expected = common * Fraction(completions(sizes, level), below)
            assert proposal(law, sizes, level) * coin == expected


@pytest.mark.parametrize("p", [1, 3, 12, 31])
@pytest.mark.parametrize("level", [1, 7, 1 << 20, (1 << 30) - 1, 1 << 70])
def test_coins_are_those_of_the_proof_and_at_most_one(p: int, level: int) -> None:
    """The doubles agree with the product of the integers, far within the error they admit."""
    law, rng = FirstMoments(p), SeededSource(p)
    kind = np.int64 if level < 1 << 30 else object
    levels = np.full(200, level, dtype=kind)
    seen: list[tuple[float, Fraction]] = []

    def coins(made, rng):
        found = law._chances(made)
        for i in range(len(made)):
            exact = Fraction(1)
            base = int(made.level[i, 0])
            for count in law._completions(made.size[i : i + 1], made.level[i : i + 1]):
                exact *= math.prod(int(c) for c in count[0])
            for j in range(law.q):
                exact *= (
                    Fraction(4 * law.cells * int(made.width[i, j]) << 50, int(made.weight[i, j]))
                    if made.width[i, j]
                    else 4 * base + 2
                )
            exact /= math.prod(4 * (base + made.offset + 1 + n) for n in range(law.dim))
            seen.append((float(found[i]), exact))
        return np.arange(len(made))

    law._coins = coins  # type: ignore[method-assign]
    u, _ = law.propose(levels, 2, rng)
    assert (np.abs(u) <= 2 * level).all()
    assert seen or level < law.cells  # where most cells are empty
    for double, exact in seen:
        assert 0 < exact <= 1
        if exact > Fraction(1, 1 << 900):
            assert abs(double / float(exact) - 1) < first_moments._ERROR / 64


@pytest.mark.usefixtures("_split_always")
@pytest.mark.parametrize("kind", KINDS)
def test_points_of_a_level_are_equally_likely(kind: str, seed: int) -> None:
    body, level, n = MomentLatticeBody(1, kind), 2, 3_000_000
    side = np.arange(-2 * level, 2 * level + 1)
    grid = np.stack(np.meshgrid(*[side] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    inside = grid[body.level(grid) <= level]
    z, rows = body.propose(np.full(n, level, dtype=np.int64), 0, SeededSource(seed))
    assert (np.diff(rows) > 0).all()
    counts = Counter(map(tuple, z.tolist()))
    assert set(counts) == set(map(tuple, inside.tolist()))
    observed = np.array([counts[tuple(point)] for point in inside.tolist()])
    assert stats.chisquare(observed).pvalue > 1e-6
    # and their number is that of the law, so that levels keep their weights
    law = FirstMoments(1)
    masses = [law._mass(k, e) for k in range(2) for e in (0, 1)]
    c = Fraction(2**2 * (law.cells << 50) ** 2, sum(masses))
    p = float(c * len(inside) / math.prod(4 * (level + i) for i in range(1, 5)))
    assert abs(len(z) - n * p) < 6 * math.sqrt(n * p * (1 - p))


def law_of_levels(body: MomentLatticeBody, seed: int, n: int = 60_000) -> float:
    """p-value of the levels of restarting draws up to 6, against the numbers of points of l B."""
    eta, top = Fraction(3, 2), 6
    side = np.arange(-2 * top, 2 * top + 1)
    grid = np.stack(np.meshgrid(*[side] * body.dim, indexing="ij"), axis=-1)
    weights = level_counts(body, grid.reshape(-1, body.dim), top) * np.exp(
        -1.5 * np.arange(top + 1)
    )
    observed = level_counts(body, restart(body, eta)(n, SeededSource(seed)), top)
    return float(stats.chisquare(observed, weights / weights.sum() * observed.sum()).pvalue)


def level_counts(body: MomentLatticeBody, z: np.ndarray, top: int) -> np.ndarray:
    levels = body.level(z)
    return np.bincount(levels[levels <= top], minlength=top + 1)


@pytest.mark.usefixtures("_split_always")
@pytest.mark.parametrize("kind", KINDS)
def test_levels_have_their_law(kind: str, seed: int) -> None:
    assert law_of_levels(MomentLatticeBody(1, kind), seed) > 1e-4


class WithoutChoices(FirstMoments):
    """A fault: a class of k features weighs as one set of them."""

    def _mass(self, k: int, e: int) -> int:
        return super()._mass(k, e) // math.comb(self.p, k)


class WithoutWeights(FirstMoments):
    """A fault: the coin forgets the weights of the cells."""

    def _chances(self, made):
        return super()._chances(replace(made, weight=np.maximum(made.weight, 1 << 50)))


class WithoutOffset(FirstMoments):
    """A fault: what the level was drawn by is not divided out."""

    def _chances(self, made):
        after = made.level + made.offset
        steps = (after + 1 + np.arange(self.dim)) / (after + self.dim)
        return super()._chances(made) * steps.prod(axis=1)


def share_by_first_moments(law: FirstMoments, seed: int) -> float:
    """p-value of the number of first moments beyond the level, at a level of 20, two features."""
    level, n = 20, 200_000
    u, _ = law.propose(np.full(n, level, dtype=np.int64), 0, SeededSource(seed))
    side = np.arange(-2 * level, 2 * level + 1)
    a = np.abs(np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3))
    products, squares = law._completions(a, np.full((len(a), 1), level))
    weight = np.bincount(
        (a > level).sum(axis=1), products.prod(axis=1) * squares.prod(axis=1) / 1e9
    )
    observed = np.bincount((np.abs(u) > level).sum(axis=1), minlength=4)
    return float(stats.chisquare(observed, weight / weight.sum() * len(u)).pvalue)


@pytest.mark.usefixtures("_split_always")
def test_faults_are_caught(seed: int) -> None:
    assert share_by_first_moments(FirstMoments(2), seed) > 1e-5
    assert share_by_first_moments(WithoutChoices(2), seed) < 1e-9
    assert share_by_first_moments(WithoutWeights(2), seed) < 1e-9
    body = MomentLatticeBody(1, "cylinder")
    body._first = WithoutOffset(1)
    assert law_of_levels(body, seed) < 1e-9


def test_integers_decide_as_doubles_do(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    body, levels = MomentLatticeBody(5, "cylinder"), np.full(400, 1 << 24, dtype=np.int64)
    quick, rows = body.propose(levels, 0, SeededSource(seed))
    monkeypatch.setattr(first_moments, "_SLACK", 4.0)  # nothing is settled by doubles
    exact, exact_rows = body.propose(levels, 0, SeededSource(seed))
    assert (rows == exact_rows).all()
    assert (quick == exact).all()


@pytest.mark.usefixtures("_split_always")
def test_levels_beyond_64_bits_have_the_same_shape(seed: int) -> None:
    body, n = MomentLatticeBody(2, "triangle"), 4_000
    z, _ = body.propose(np.full(n, 1 << 90, dtype=object), 0, SeededSource(seed))
    ours = (z / (1 << 90)).astype(np.float64) ** 2
    theirs = tdp.MomentBody(2, "triangle").sample(n, rng=SeededSource(seed + 1)) ** 2
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / n)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * error).all()
    assert (body.level(z) <= 1 << 90).all()


@pytest.mark.parametrize(("p", "kind"), [(5, "cylinder"), (12, "cylinder"), (4, "triangle")])
def test_points_of_high_levels_are_those_of_the_continuous_body(
    p: int, kind: str, seed: int
) -> None:
    """Second moments of every entry, beside those of the sampler in floats."""
    body, level, n = MomentLatticeBody(p, kind), 1 << 22, 40_000
    share = body.share
    z, _ = body.propose(np.full(int(n / share), level, dtype=np.int64), 0, SeededSource(seed))
    ours = (z / level) ** 2
    theirs = tdp.MomentBody(p, kind).sample(n, rng=SeededSource(seed + 1)) ** 2
    gap = ours.mean(axis=0) - theirs.mean(axis=0)
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / n)
    assert (np.abs(gap) < 5 * error).all()  # 5 standard errors of up to 103 entries
    assert (body.level(z) <= level).all()


def test_rooms_are_the_body_itself() -> None:
    level = 7
    a = np.arange(2 * level + 1)
    for first, second in itertools.product(a.tolist(), repeat=2):
        room = int(product_room(*(np.array(v) for v in (first, second, level))))
        assert room == min(2 * level, 4 * level - first - second) >= 0
    rooms = square_room(a, np.full(len(a), level))
    for size, room in zip(a.tolist(), rooms.tolist(), strict=True):
        fits = [
            s
            for s in range(2 * level + 1)
            if level * s <= 2 * level**2 - 2 * max(size - level, 0) ** 2
        ]
        assert room == fits[-1]
    assert square_room(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)).tolist() == [0]
