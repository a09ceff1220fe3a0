"""Bands of paths: skeletons, windows and floors against full sums; what they may leave out."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from path_laws import law, misfit, path_weight

from tightdp.exact import band_paths
from tightdp.exact.band_levels import BandLevels
from tightdp.exact.band_paths import Band, BandPaths, Row
from tightdp.exact.enclosures import exp_up
from tightdp.exact.rejection import integer_weights
from tightdp.exact.taut_strings import skeleton, taut_string
from tightdp.randomness import source


def atoms(rows: int, cells: int, seed: int) -> dict[str, np.ndarray]:
    """Tables that are hard for bands, and an even one."""
    rng, out = np.random.default_rng(seed), {}
    places = {
        "one": [cells // 3],
        "first": [0],
        "ends": [0, cells - 1],
        "many": list(range(1, cells, max(1, cells // 7))),
    }
    for name, where in places.items():
        out[name] = np.zeros(cells, dtype=np.int64)
        out[name][where] = rows // len(where)
        out[name][where[0]] += rows - out[name].sum()
    out["half"] = out["one"] // 2 + rng.multinomial(rows - int(out["one"].sum()) // 2, even(cells))
    out["rough"] = rng.multinomial(rows, rng.dirichlet(np.full(cells, 0.2)))
    out["even"] = rng.multinomial(rows, even(cells))
    return out


def even(cells: int) -> np.ndarray:
    return np.full(cells, 1 / cells)


def edges(paths: BandPaths, distance: int) -> tuple[np.ndarray, np.ndarray]:
    low = np.maximum(np.ceil((paths.centre - distance) / paths.rows), 0).astype(np.int64)
    high = np.minimum((paths.centre + distance) // paths.rows, paths.size)
    low[0] = high[0] = 0
    low[-1] = high[-1] = paths.size
    return low, high


def full_sum(paths: BandPaths, distance: int) -> float:
    """Log weight of a band by adding up every step from every state at every grid point."""
    low, high = edges(paths, distance)
    logs, total = np.zeros(1), 0.0
    for j in range(1, paths.cells + 1):
        steps = np.arange(low[j], high[j] + 1)[:, None] - np.arange(low[j - 1], high[j - 1] + 1)
        terms = logs - paths.log_factorials[np.maximum(steps, 0)]
        terms = np.where(steps < 0, -np.inf, terms)
        logs = np.logaddexp.reduce(terms, axis=1)
        total += logs.max()
        logs -= logs.max()
    return float(total + logs[0])


def levels_to_try(paths: BandPaths) -> list[int]:
    return [paths.least + int(paths.rows * units) for units in (0, 0.4, 1, 3, 10, paths.size / 3)]


@pytest.mark.parametrize("shape", [(500, 60, 30), (3000, 900, 9)])
def test_bands_weigh_what_full_sums_weigh(shape, seed) -> None:
    """Never less, but for rounding: that is the bound. Hardly more: that is the speed."""
    rows, size, cells = shape
    for table in atoms(rows, cells, seed).values():
        paths = BandPaths(np.cumsum(table), size)
        for distance in levels_to_try(paths):
            excess = paths.band(distance).log_total - full_sum(paths, distance)
            assert -1e-9 < excess < 0.5


class Short(BandPaths):
    """Windows of a few steps: much is left out, and bounded."""

    tail = 1.0

    def _window(self, mean, least, most, tail):
        return super()._window(mean, least, most, self.tail)


class Forgetful(Short):
    """A twin that drops what its windows leave out."""

    def _window(self, mean, least, most, tail):
        return super()._window(mean, least, most, tail)[0], 0.0


def test_what_windows_leave_out_is_bounded(seed) -> None:
    """However short they are; a twin that forgets the rest is caught by the same sums."""
    caught = 0
    for table in atoms(300, 20, seed).values():
        short, twin = Short(np.cumsum(table), 80), Forgetful(np.cumsum(table), 80)
        for distance in levels_to_try(short):
            exact = full_sum(short, distance)
            assert short.band(distance).log_total > exact - 1e-9
            caught += twin.band(distance).log_total < exact - 1e-2
    assert caught > 10


@pytest.mark.parametrize("tail", [2.0, 6.0, 20.0])
def test_what_floors_leave_out_is_bounded(tail, seed, monkeypatch) -> None:
    """However high they are."""
    trim(monkeypatch, tail)
    for table in atoms(300, 20, seed).values():
        paths = BandPaths(np.cumsum(table), 80)
        for distance in levels_to_try(paths):
            assert paths.band(distance).log_total > full_sum(paths, distance) - 1e-9


def trim(monkeypatch, tail: float) -> None:
    """Only the heaviest states are kept, in bands of any width."""
    monkeypatch.setattr(band_paths, "_TAILS", (tail,))
    monkeypatch.setattr(band_paths, "_NARROW", 0)


def test_sums_that_underflow_are_bounded(seed, monkeypatch) -> None:
    """As if all doubles below 1e-3 were lost."""
    monkeypatch.setattr(band_paths, "_TAILS", (20.0,))
    monkeypatch.setattr(band_paths, "_TINY", 1e-3 * math.exp(-20.0))
    for narrow in (0, 256):
        monkeypatch.setattr(band_paths, "_NARROW", narrow)
        for table in atoms(300, 20, seed).values():
            paths = BandPaths(np.cumsum(table), 80)
            for distance in levels_to_try(paths):
                assert paths.band(distance).log_total > full_sum(paths, distance) - 1e-9


ATOMS = [
    ((0, 5, 0, 0), 3, Fraction(1, 6)),
    ((0, 0, 6, 0, 0), 4, Fraction(1, 8)),
    ((3, 0, 0, 0, 3), 4, Fraction(1, 30)),
    ((6, 0, 0, 0), 4, Fraction(1, 12)),
    ((0, 2, 0, 2, 0), 3, Fraction(1, 9)),
    ((500, 0, 0, 0, 500), 4, Fraction(1, 300)),  # long blocks of levels with the same paths
    ((1000, 0, 0), 5, Fraction(1, 800)),
    ((400, 300, 0, 0, 300), 3, Fraction(1, 900)),
]


def draws(
    table: tuple[int, ...], size: int, rate: Fraction, seed: int, kind: type = BandPaths
) -> Counter[tuple[int, ...]]:
    levels, bits = BandLevels(kind(np.cumsum(table), size), rate), source(seed)
    return Counter(tuple(map(int, levels.draw(bits))) for _ in range(1500))


@pytest.mark.slow_for("table[013467]-*")
@pytest.mark.parametrize(("table", "size", "rate"), ATOMS)
def test_draws_near_atoms_follow_the_enumerated_law(table, size, rate, seed) -> None:
    assert misfit(draws(table, size, rate, seed), law(table, size, rate)) > 1e-5


SPREAD = ((1, 2, 0, 0, 1), 4, Fraction(1, 10))


@pytest.mark.slow_for("case1")
@pytest.mark.parametrize("case", [ATOMS[0], SPREAD])
def test_the_law_does_not_depend_on_the_windows(case, seed) -> None:
    assert misfit(draws(*case, seed, Short), law(*case)) > 1e-5


@pytest.mark.slow_for("case0")
@pytest.mark.parametrize("case", [ATOMS[0], SPREAD])
def test_the_law_does_not_depend_on_the_floors(case, seed, monkeypatch) -> None:
    trim(monkeypatch, 3.0)
    assert misfit(draws(*case, seed), law(*case)) > 1e-5


def test_the_law_does_not_depend_on_the_skeleton(seed, monkeypatch) -> None:
    """All inner points left out: proposals leave their bands, and are rejected."""
    monkeypatch.setattr(band_paths, "skeleton", lambda low, *_: np.array([0, len(low) - 1]))
    table, size, rate = (1, 2, 0, 3, 1), 3, Fraction(1, 14)
    assert misfit(draws(table, size, rate, seed), law(table, size, rate)) > 1e-5


def test_a_bound_that_is_too_small_stops_a_draw(seed) -> None:
    paths, bits = Forgetful(np.cumsum([9, 0, 1, 5, 5]), 20), source(seed)
    levels = BandLevels(paths, Fraction(1, 40))
    with pytest.raises(AssertionError, match="computed wrongly"):
        [levels.draw(bits) for _ in range(50)]


def test_proposals_of_wide_bands_are_bounded(seed) -> None:
    """Bodies, floors and merged cells, at exact ratios."""
    bits = source(seed)
    for table in atoms(3000, 40, seed).values():
        paths = BandPaths(np.cumsum(table), 900)
        for distance in levels_to_try(paths)[2:]:
            band = paths.band(distance)
            for _ in range(3):
                counts, above, below = paths.propose(band, bits)
                assert counts.sum() == 900
                ratio = Fraction(above, below) / exp_up(band.log_total)
                assert Fraction(1, 2) < ratio <= 1 + Fraction(1, 1 << 20)


def largest_ratio(paths: BandPaths, band: Band) -> float:
    """Log of the largest ratio of weight to proposal, over every path that can be proposed."""
    lows, highs = (
        [*(getattr(row, end) for row in band.rows[1:]), paths.size] for end in ("low", "high")
    )
    found = np.zeros(1)
    for row, cells, low, high in zip(band.rows, np.diff(band.points), lows, highs, strict=True):
        following = np.full(high - low + 1, -np.inf)
        for state in range(low, high + 1):
            logs = row.logs(min(row.high, state))
            steps = state - row.low - np.arange(len(logs))
            kernel = steps * math.log(cells) - paths.log_factorials[steps]
            weights = integer_weights(logs + kernel)
            ratios = found[: len(logs)] + kernel - np.log(weights)
            following[state - low] = math.log(int(weights.sum())) + ratios.max()
        found = following
    return float(found[0])


@pytest.mark.parametrize(("tail", "narrow"), [(45.0, 256), (20.0, 0), (4.0, 0)])
def test_no_path_has_a_larger_ratio(tail, narrow, seed, monkeypatch) -> None:
    """Not those that are drawn only, but all, by a recursion; rounding is far below the slack."""
    monkeypatch.setattr(band_paths, "_TAILS", (tail,))
    monkeypatch.setattr(band_paths, "_NARROW", narrow)
    for table in atoms(700, 12, seed).values():
        paths = BandPaths(np.cumsum(table), 90)
        for distance in levels_to_try(paths):
            band = paths.band(distance)
            assert largest_ratio(paths, band) < band.log_total + 1e-9


def test_a_floor_far_above_the_body_is_bounded() -> None:
    """What is left out may outweigh all that is summed: rows stay finite and at least the sums."""
    paths = BandPaths(np.array([500, 1000]), 1000)
    for heavy in (1.0, 1e20, 1e200):
        row = Row(0, 1000, 400, np.full(9, 1.0), heavy, 0.0)
        following, scale, rest = paths._step(row, 0, 1000, 5.0, 0.0, 45.0)
        assert 0 < rest <= 1 + 1e-9
        assert following.floor * math.exp(scale - 5.0) >= heavy
        assert np.isfinite(following.body).all()
        assert following.body.min() > following.floor


@pytest.mark.parametrize("x", [0.5, -0.5, 1e3, -1e5, 3e7, -3e7, 7.1e7])
def test_exponentials_are_rounded_up_however_large(x) -> None:
    """Against sixty digits: the remainder by ln 2 is not rounded."""
    power = math.floor(x / math.log(2))
    found = exp_up(x, -power)
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(x) - power * Decimal(2).ln()).exp()
        ratio = Decimal(found.numerator) / Decimal(found.denominator) / exact
        assert 1 < ratio < 1 + Decimal("2e-9")


def test_the_ratio_is_that_of_weight_and_chance(seed) -> None:
    """Cells merged or not, a path is proposed with the chance that its ratio says."""
    paths, bits = BandPaths(np.array([2, 2, 2, 2, 4]), 3), source(seed)
    band = paths.band(12)  # all paths
    assert len(band.points) < 6
    seen: Counter[tuple[int, ...]] = Counter()
    ratios = {}
    for _ in range(4000):
        counts, above, below = paths.propose(band, bits)
        seen[tuple(map(int, counts))] += 1
        ratios[tuple(map(int, counts))] = Fraction(above, below)
    chances = {c: float(path_weight(c) / ratio) for c, ratio in ratios.items()}
    assert abs(sum(chances.values()) - 1) < 1e-2  # all paths but a few rare ones were seen
    assert misfit(seen, chances) > 1e-5


def test_distances_that_paths_can_have(seed) -> None:
    rng = np.random.default_rng(seed)
    table = rng.multinomial(11, even(4))
    paths = BandPaths(np.cumsum(table), 7)
    states = np.arange(-8, 20)[:, None]
    can = np.unique(np.abs(paths.rows * states - paths.centre))
    for distance in range(60):
        assert paths.next_distance(distance) == can[can > distance].min()
        assert paths.last_distance(distance) == can[can <= distance].max()


def test_a_taut_string_bends_only_around_edges(seed) -> None:
    """Up at the upper edge, down at the lower: that makes it the shortest."""
    for table in atoms(700, 50, seed).values():
        paths = BandPaths(np.cumsum(table), 90)
        for distance in levels_to_try(paths):
            low, high = edges(paths, distance)
            knots, heights = taut_string(low, high)
            string = np.interp(np.arange(51), knots, heights)
            assert (string >= low - 1e-9).all()
            assert (string <= high + 1e-9).all()
            bend = np.diff(string, 2)
            assert np.allclose(string[1:-1][bend > 1e-9], high[1:-1][bend > 1e-9])
            assert np.allclose(string[1:-1][bend < -1e-9], low[1:-1][bend < -1e-9])
            points = skeleton(low, high, knots, heights)
            assert points[0] == 0
            assert points[-1] == 50
            assert (np.diff(points) > 0).all()


@pytest.mark.slow_for("epsilon[12]")
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
def test_atoms_of_larger_tables_simply_finish(epsilon, seed) -> None:
    rows, size, cells = 100_000, 2000, 300
    bits = source(seed)
    for table in atoms(rows, cells, seed).values():
        levels = BandLevels(BandPaths(np.cumsum(table), size), epsilon / (2 * size))
        assert levels.draw(bits).sum() == size


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
def test_atoms_of_the_largest_tables_simply_finish(epsilon, seed) -> None:
    rows, size, cells = 10**6, 10**4, 1000
    bits = source(seed)
    for table in atoms(rows, cells, seed).values():
        levels = BandLevels(BandPaths(np.cumsum(table), size), epsilon / (2 * size))
        counts = levels.draw(bits)
        assert counts.sum() == size
        assert math.isfinite(levels.paths.distance(counts))
