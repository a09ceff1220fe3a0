"""Ends that count rows: the chance of a miss by enumeration, and privacy by exact laws."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import multinomial

import tightdp as tdp
from tightdp.mechanisms.rank_walk import _OUTER, CELLS, COUNTS, POINTS, CountLaw, RankWalk
from tightdp.mechanisms.ranks import Ranks
from tightdp.randomness import source

HALF = Fraction(1, 2)
CONVENTIONS: tuple[Any, ...] = (
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "lower",
    "higher",
)
EDGE, MISS = 2, 0.2  # the grid -2..2, so small that all tables can be gone through
_FAR = 90  # noise beyond which next to nothing lies, at the rates used here


def tables(rows: int) -> Iterator[tuple[int, ...]]:
    """How many rows are on each grid point: all tables."""
    for cuts in itertools.combinations(range(rows + 2 * EDGE), 2 * EDGE):
        ends = [-1, *cuts, rows + 2 * EDGE]
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def ranks_of(counts: tuple[int, ...]) -> Ranks:
    there = np.flatnonzero(counts)
    return Ranks(there - EDGE, np.array(counts)[there], EDGE)


@lru_cache
def kernels(rate: float) -> Any:
    """Sums of 0, 1, 2, ... entries of noise, by repeated convolution."""
    z = np.arange(-_FAR, _FAR + 1)
    one = np.exp(-rate * abs(z)) * math.tanh(rate / 2)
    found = [np.where(z == 0, 1.0, 0.0)]
    for _ in range(CELLS):
        found.append(np.convolve(found[-1], one, mode="same"))
    return found


def passing(
    upto: tuple[int, ...], rows: int, tau: Fraction, limits: Any, rate: float, kept: bool
) -> float:
    """The chance that candidates with so many rows beyond them all pass, one after the other."""
    z, sums, total = np.arange(-_FAR, _FAR + 1), kernels(rate), 0.0
    scale = float(sums[CELLS][_FAR]) if kept else 1.0
    for all_noise in [0] if kept else range(-_FAR, _FAR + 1):
        here = sums[0]
        for count, limit in zip(upto, limits, strict=False):
            most = math.floor(limit + tau * (rows + all_noise) - count)
            here = np.where(z <= most, np.convolve(here, sums[1], mode="same"), 0.0)
        rest = sums[CELLS - len(upto)]
        meets = all_noise - z
        inside = abs(meets) <= _FAR
        total += float(here[inside] @ rest[meets[inside] + _FAR]) / scale
    return total


_passing = lru_cache(maxsize=None)(passing)


def misses(walk: RankWalk, counts: tuple[int, ...], low: int, high: int, limits: Any) -> Any:
    """The chance that the lower end is above ``low``, and that the upper one is below ``high``.

    At worst: for the point and the outer points with which this is most likely.
    """
    law, found = walk._law, [0.0, 0.0]
    for side, most in enumerate(limits):
        offsets = walk.offsets(MISS)[side]
        ranks = ranks_of(counts[:: 1 - 2 * side])
        bound, tau = (low, law.tau) if side == 0 else (-high, 1 - law.tau)
        for point in range(-EDGE, EDGE + 1):
            for outer in range(-EDGE, point + 1):
                away = outer - point
                places = [max(point + away * a // offsets[_OUTER], -EDGE) for a in offsets]
                wrong = [j for j, t in enumerate(places) if t > bound]
                if wrong:
                    upto = tuple(ranks.below_at(t) for t in places[: wrong[0] + 1])
                    given = upto, ranks.rows, tau, most, float(law.rate), law.kept
                    found[side] = max(found[side], _passing(*given))
    return np.array(found)


def of_sample(counts: tuple[int, ...], tau: Fraction) -> tuple[int, int]:
    """Grid points around all numbers that some convention calls the quantile."""
    rows = np.repeat(np.arange(-EDGE, EDGE + 1), counts)
    found = [np.quantile(rows, float(tau), method=kind) for kind in CONVENTIONS]
    return math.floor(min(found)), math.ceil(max(found))


def planted(walk: RankWalk) -> list[Any]:
    """Limits that are off by three ranks, and limits for half as much noise."""
    law = walk._law._replace(rate=2 * walk._law.rate)
    rows = walk._rows if walk._population else None
    cut = [side.limits(rows, MISS / 2) for side in (law, law._replace(tau=1 - law.tau))]
    off = [tuple(x + 3 for x in side) for side in walk.limits(MISS)]
    return [tuple(off), tuple(cut)]


SAMPLE = [
    ("replace-one", None, HALF, 1.5, 9),
    ("replace-one", None, Fraction(4, 5), 3, 9),
    ("replace-one", "drop", HALF, 3, 7),
    ("add-remove", None, Fraction(1, 3), 1.5, 7),
    ("add-remove", None, Fraction(1, 3), 1.5, 3),
]


@pytest.mark.slow_for("high", "dropped", "added")
@pytest.mark.parametrize(
    ("neighbors", "missing", "tau", "epsilon", "rows"),
    SAMPLE,
    ids=["replaced", "high", "dropped", "added", "few"],
)
def test_the_sample_is_missed_no_more_often_than_stated(
    neighbors: str, missing: str | None, tau: Fraction, epsilon: float, rows: int
) -> None:
    """For all tables of so many rows on five points, and whatever points were drawn."""
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=rows, bits=1, neighbors=neighbors)
    walk = tdp.KNormQuantile(
        facts, "x", tau, epsilon=epsilon, interval="sample", missing=missing
    ).walk
    worst = []
    for limits in (walk.limits(MISS), *planted(walk)):
        found = [misses(walk, c, *of_sample(c, tau), limits) for c in tables(rows)]
        worst.append(np.max(found, axis=0).max())
    assert worst[0] <= MISS / 2
    assert worst[0] > MISS / 8  # nothing is given away
    assert min(worst[1:]) > MISS / 2


LAWS = [
    ((0.4, 0.1, 0.1, 0.0, 0.4), HALF),
    ((0.5, 0.0, 0.0, 0.0, 0.5), HALF),
    ((0.5, 0.3, 0.0, 0.1, 0.1), Fraction(4, 5)),
]


@pytest.mark.parametrize(("law", "tau"), LAWS, ids=str)
def test_the_population_is_missed_no_more_often_than_stated(law: Any, tau: Fraction) -> None:
    """Over all samples of nine rows of a law, with the worst points for every sample."""
    rows = 9
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=rows, bits=1)
    walk = tdp.KNormQuantile(facts, "x", tau, epsilon=6, interval="population").walk
    share = np.cumsum(law)  # reaches tau at one point, and exceeds it at another
    low, high = (int(np.argmax(share > float(tau) + x)) - EDGE for x in (-1e-12, 1e-12))
    found = []
    for limits in (walk.limits(MISS), *planted(walk)):
        each = [
            multinomial.pmf(c, rows, law) * misses(walk, c, low, high, limits) for c in tables(rows)
        ]
        found.append(np.sum(each, axis=0).max())
    assert found[0] <= MISS / 2
    assert found[0] > MISS / 8
    assert min(found[1:]) > MISS / 2


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("rate", "tau"), [(Fraction(1), HALF), (Fraction(1, 3), Fraction(9, 10))])
def test_limits_are_quantiles_of_the_noise(kept: bool, rate: Fraction, tau: Fraction) -> None:
    """By convolution: as far as the chance allows, and no farther."""
    sums, z = kernels(float(rate)), np.arange(-_FAR, _FAR + 1)
    step = Fraction(1) if kept else Fraction(1, 8)
    for j, limit in enumerate(CountLaw(tau, rate, kept).limits(None, 0.025), start=1):
        law = np.outer(sums[j], sums[CELLS - j])  # of the cells beyond, and of all others
        if kept:
            law = np.where(z[:, None] + z == 0, law, 0.0) / float(sums[CELLS][_FAR])
        noise = float(1 - tau) * z[:, None] - float(tau) * z - 1e-9
        chances = [float(law[noise <= float(bound + 1)].sum()) for bound in (limit, limit + step)]
        assert chances[0] <= 0.025 < chances[1]


@pytest.mark.parametrize("kept", [True, False])
def test_wide_noise_is_summed_in_steps_on_the_safe_side(kept: bool) -> None:
    """A scale of 2,000 is summed in steps of seven points, and one of 200 point by point."""
    wide, narrow = (CountLaw(HALF, Fraction(1, x), kept).limits(None, 0.025) for x in (2000, 200))
    for far, near in zip(wide, narrow, strict=True):
        assert 10 * near * Fraction(102, 100) <= far <= 10 * near + 20


# --- privacy --------------------------------------------------------------------------------------

RELATIONS = [("replace-one", None, 1), ("replace-one", "drop", 1), ("add-remove", None, 3)]


def neighbours(neighbors: str, missing: str | None, persons: int, rng: Any) -> tuple[Any, Any]:
    """Grid values of two tables that differ by a row, or by the rows of a person."""
    rows = rng.choice([-8, -3, 0, 0, 0, 1, 2, 8], rng.integers(0, 12))
    if neighbors == "add-remove":
        return rows, np.append(rows, rng.integers(-8, 9, persons))
    first, last = (np.append(rows, rng.integers(-8, 9)) for _ in range(2))
    return (rows if missing and rng.random() < 0.5 else first), last


@pytest.mark.parametrize(("neighbors", "missing", "persons"), RELATIONS)
def test_point_and_ends_cost_epsilon(
    neighbors: str,
    missing: str | None,
    persons: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changes of the score of the points, with rows that are not moved, and of the counts."""
    owner: dict[str, Any] = {"person": "id", "rows_per_person": persons} if persons > 1 else {}
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=12, bits=3, neighbors=neighbors, **owner)
    quantile = tdp.KNormQuantile(facts, "x", 0.3, epsilon=9, interval="sample", missing=missing)
    walk, rng = quantile.walk, np.random.default_rng(seed)
    monkeypatch.setattr(walk, "_finer", 0)
    assert POINTS + COUNTS == 1
    assert walk.noise.epsilon == 9 * COUNTS
    losses, levels = [], []
    for _ in range(300):
        pair = neighbours(neighbors, missing, persons, rng)
        both = [Ranks(*np.unique(x, return_counts=True), 8) for x in pair]
        laws = [walk.points(r, 0.05, source(seed)) for r in both]
        for points in np.sort(rng.integers(-8, 9, (20, 3)), axis=1):
            scores = [law.rate * law.score(points) for law in laws]
            losses.append(2 * abs(scores[0] - scores[1]))  # in weight and normaliser
        cuts = np.sort(rng.integers(-8, 9, CELLS - 1)).tolist()
        cells = [np.array(r.between(cuts[: CELLS // 2], cuts[CELLS // 2 :])) for r in both]
        levels.append(int(walk.noise.body.level((cells[1] - cells[0])[None])[0]))
    assert max(losses) <= 9 * POINTS
    assert max(losses) > 9 * POINTS / 2  # the check has power
    assert max(levels) == walk.noise.sensitivity


def test_rows_far_from_all_ranks_do_not_matter(seed: int) -> None:
    """The draw takes a window of the rows: the score is that of all of them, up to the cap."""
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=4000, bits=12)
    walk = tdp.KNormMedian(facts, "x", epsilon=8, interval="sample").walk
    rng = np.random.default_rng(seed)
    rows = rng.integers(-4096, 4097, 4000)
    ranks = Ranks(*np.unique(rows, return_counts=True), 4096)
    law = walk.points(ranks, 0.05, source(seed))
    assert len(law.rows) < 2000
    shares = [float(walk._aim(4000, 0, 0.05)), 2000.0, 4000 - float(walk._aim(4000, 1, 0.05))]
    whole = np.sort((rows << walk._finer) + source(seed).integers(1 << walk._finer, 4000))
    for points in np.sort(rng.integers(-400, 400, (200, 3)), axis=1) << walk._finer:
        counts = np.searchsorted(whole, points, side="right")
        gaps = np.diff([0, *counts, 4000]) - np.diff([0, *shares, 4000])
        score = min(float(np.abs(gaps).sum()), walk.cap)
        assert law.score(points) / law.den == pytest.approx(score, abs=30)  # moved otherwise


def ordered(rows: int, first: int, last: int) -> Counter[tuple[int, ...]]:
    """In how many ways rows on four points have these places, in order."""
    ways = itertools.product(range(4), repeat=rows)
    return Counter(tuple(sorted(way)[first:last]) for way in ways)


def test_a_window_that_cuts_ties_has_the_places_of_all_rows_moved(seed: int) -> None:
    """The second and third of five equal rows, by enumeration; moving these two alone is another
    law, under which a row more could change two."""
    ranks, rng, draws = Ranks(np.array([0]), np.array([5]), EDGE), source(seed), 4000
    found = Counter(tuple(ranks.moved(1, 3, 2, rng).tolist()) for _ in range(draws))

    def off(ways: Counter[tuple[int, ...]]) -> float:
        """In standard errors."""
        shares = {way: count / ways.total() for way, count in ways.items()}
        errors = [
            abs(found[way] / draws - p) / math.sqrt(p * (1 - p) / draws)
            for way, p in shares.items()
        ]
        return max(errors)

    assert off(ordered(5, 1, 3)) < 5
    assert off(ordered(2, 0, 2)) > 10
    whole = Ranks(np.array([-2, 0, 1]), np.array([3, 9, 2]), EDGE).moved(1, 13, 3, rng)
    assert (whole >> 3).tolist() == [-2] * 2 + [0] * 9 + [1]


def test_points_in_one_place_do_not_lead_to_the_bounds(seed: int) -> None:
    """Six values: where the three points are one, and it is not the median, a candidate is left."""
    facts = tdp.Schema({"x": tdp.Interval(0, 1000)}, rows=1001)
    median = tdp.KNormMedian(facts, "x", epsilon=8, interval="sample")
    rows = np.repeat([2.0, 3.0], [501, 500])
    found = [median.conf_int(median.release({"x": rows}, rng=seed + i)) for i in range(100)]
    assert max(high - low for low, high in found) < 40
    assert all(low <= 2 <= high for low, high in found)


def test_cells_hold_every_row_once() -> None:
    ranks = Ranks(np.array([-3, 0, 2, 8]), np.array([2, 5, 1, 4]), 8)
    assert ranks.between([-8, -3, 0], [0, 2]) == [0, 0, 2, 5, 1, 4]
    assert [ranks.below_at(t) for t in (-8, -3, 1, 8)] == [0, 0, 7, 8]
    assert [ranks.upto_at(t) for t in (-8, -3, 1, 8)] == [0, 2, 7, 12]


@pytest.mark.parametrize("value", [-1.0, 0.3, 1.0])
def test_a_constant_column_is_its_own_interval(value: float, seed: int) -> None:
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=400)
    median = tdp.KNormMedian(facts, "x", epsilon=4, interval="population")
    low, high = median.conf_int(median.release({"x": np.full(400, value)}, rng=seed))
    assert low <= value <= high
    assert high - low < 1e-3


def test_what_cannot_be_said_is_not_said(seed: int) -> None:
    """Next to no epsilon, or next to no chance to miss: the bounds."""
    facts = tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=400)
    for epsilon, confidence in ((2.0**-30, 0.95), (1.0, 1 - 1e-9)):
        median = tdp.KNormMedian(facts, "x", epsilon=epsilon, interval="population")
        release = median.release({"x": np.zeros(400)}, confidence=confidence, rng=seed)
        assert median.preview(confidence).half_width[0] <= 1
        assert median.conf_int(release).tolist()[0] <= 0 <= median.conf_int(release).tolist()[1]
