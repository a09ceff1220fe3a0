"""Law: what is printed of a quantile holds, on every kind of rows.

Intervals of quantiles and medians, in all their faces, cover what they say they cover; the rank
error of a preview is kept on all rows, and its error in units on the rows that it assumes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import tightdp as tdp
from tightdp.accuracy import preview
from tightdp.plans import request
from tightdp.preview import ORDERED_ROWS

ROWS, LOW, HIGH = 400, 0.0, 100.0
SCHEMA = tdp.Schema({"x": tdp.Interval(LOW, HIGH)}, rows=ROWS)


def even(rng: np.random.Generator) -> Any:
    return rng.uniform(LOW, HIGH, ROWS)


def normal(rng: np.random.Generator) -> Any:
    return np.clip(rng.normal(50, 10, ROWS), LOW, HIGH)


def skewed(rng: np.random.Generator) -> Any:
    return np.minimum(rng.lognormal(1, 1, ROWS), HIGH)


def atoms(rng: np.random.Generator) -> Any:
    return rng.choice([5.0, 20.0, 90.0], ROWS, p=[0.5, 0.3, 0.2])


def gapped(rng: np.random.Generator) -> Any:
    return np.where(
        rng.uniform(size=ROWS) < 0.5, rng.uniform(0, 5, ROWS), rng.uniform(95, 100, ROWS)
    )


def crowded(rng: np.random.Generator) -> Any:
    return np.clip(rng.normal(50, 0.1, ROWS), LOW, HIGH)


KINDS = {f.__name__: f for f in (even, normal, skewed, atoms, gapped, crowded)}
POPULATION = {
    "even": lambda tau: 100 * tau,
    "normal": lambda tau: norm.ppf(tau, 50, 10),
    "skewed": lambda tau: min(float(np.exp(1 + norm.ppf(tau))), 100.0),
    "crowded": lambda tau: norm.ppf(tau, 50, 0.1),
}
LEVEL, TABLES = 0.8, 150
SLACK = 4 * (LEVEL * (1 - LEVEL) / TABLES) ** 0.5  # four standard errors of a share


def of_sample(rows: Any, tau: Fraction) -> tuple[float, float]:
    """All numbers that are a quantile of the rows: between two of them if it falls so."""
    ordered, at = np.sort(rows), tau * len(rows)
    low = float(ordered[max(0, -(-at.numerator // at.denominator) - 1)])
    return low, float(ordered[min(len(rows) - 1, at.numerator // at.denominator)])


def estimator(kind: str, tau: float, covers: str, rows: Any, seed: int, epsilon: float) -> Any:
    given = {"epsilon": epsilon, "bounds": (LOW, HIGH), "interval": covers, "confidence": LEVEL}
    model = (
        tdp.Median(random_state=seed, **given)
        if kind == "median"
        else tdp.Quantile(tau=tau, random_state=seed, **given)
    )
    return model.fit(rows[:, None]).conf_int()[0]


def one_line(kind: str, tau: float, covers: str, rows: Any, seed: int, epsilon: float) -> Any:
    mechanism = tdp.KNormQuantile(SCHEMA, "x", tau, epsilon=epsilon, interval=covers)
    options = {"schema": SCHEMA, "epsilon": epsilon, "interval": covers, "rng": seed}
    table = {"x": rows}
    release = (
        tdp.median(table, "x", confidence=LEVEL, **options)
        if kind == "median"
        else tdp.quantile(table, "x", tau, confidence=LEVEL, **options)
    )
    low, high = mechanism.conf_int(release)
    # what the release itself prints of the quantile is no narrower
    assert release.interval[0, 0] <= low
    assert high <= release.interval[0, 1]
    return low, high


def planned(kind: str, tau: float, covers: str, rows: Any, seed: int, epsilon: float) -> Any:
    more = {} if kind == "median" else {"tau": tau}
    asked = request(kind, SCHEMA, epsilon=epsilon, column="x", interval=covers, **more)
    answer = asked.release({"x": rows}, rng=seed, confidence=LEVEL)
    assert not answer.unknown
    return answer.interval[0]


FACES = {"estimator": estimator, "one line": one_line, "plan": planned}


def coverage(face: str, rows: str, covers: str, seed: int, *, narrowed: float = 0.0) -> float:
    """The share of tables whose interval holds its quantile, at alternating levels."""
    hits = []
    for i in range(TABLES):
        cells = KINDS[rows](np.random.default_rng(seed + i))
        kind, tau = (("median", 0.5), ("quantile", 0.8), ("quantile", 0.15))[i % 3]
        low, high = FACES[face](kind, tau, covers, cells, seed + i, epsilon=4.0)
        middle, half = (low + high) / 2, (high - low) / 2 * (1 - narrowed)
        if covers == "sample":
            first, last = of_sample(cells, Fraction(str(tau)))
        else:
            first = last = POPULATION[rows](tau)
        hits.append(middle - half <= last + 1e-9 and middle + half >= first - 1e-9)
    return float(np.mean(hits))


@pytest.mark.slow_for("normal", "even")
@pytest.mark.parametrize("rows", KINDS)
def test_intervals_cover_the_quantile_of_the_rows(rows: str, seed: int) -> None:
    face = list(FACES)[list(KINDS).index(rows) % len(FACES)]
    assert coverage(face, rows, "sample", seed) >= LEVEL - SLACK


@pytest.mark.slow_for("crowded", "even")
@pytest.mark.parametrize("rows", POPULATION)
def test_intervals_cover_the_quantile_of_the_population(rows: str, seed: int) -> None:
    face = list(FACES)[list(POPULATION).index(rows) % len(FACES)]
    assert coverage(face, rows, "population", seed) >= LEVEL - SLACK


@pytest.mark.slow
@pytest.mark.parametrize("rows", KINDS)
@pytest.mark.parametrize("face", FACES)
def test_all_faces_cover_on_all_rows(face: str, rows: str, seed: int) -> None:
    assert coverage(face, rows, "sample", seed) >= LEVEL - SLACK
    if rows in POPULATION:
        assert coverage(face, rows, "population", seed) >= LEVEL - SLACK


def test_a_planted_narrow_interval_is_caught(seed: int) -> None:
    """Intervals shrunk to a thirtieth, as if the rank error had been forgotten."""
    assert coverage("one line", "even", "sample", seed, narrowed=0.97) < LEVEL - SLACK


# --- previews ------------------------------------------------------------------------------------


def errors(mechanism: Any, rows: Any, seed: int, count: int = 300) -> tuple[Any, Any]:
    """Errors of releases in units and in ranks, against the quantile of the rows."""
    from tightdp.mechanisms.ranks import Ranks
    from tightdp.randomness import source

    ranks = Ranks.of({"x": rows}, mechanism.schema, "x")
    points = mechanism.law_on(ranks).sample(count, source(seed))
    interval = mechanism.domain[0]
    units = interval.half / mechanism.schema.resolution
    target = float(ranks.rows * mechanism.tau)
    upto = np.searchsorted(np.repeat(ranks.values, np.diff(ranks.upto, prepend=0)), points, "right")
    below = np.searchsorted(np.repeat(ranks.values, np.diff(ranks.upto, prepend=0)), points, "left")
    off = np.maximum(np.maximum(below - target, target - upto), 0)
    return (points - ranks.quantile(mechanism.tau)) * units, off


@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_previews_hold_on_the_rows_that_they_assume(tau: float, seed: int) -> None:
    """Even rows err as stated; the standard error of a root mean square of 2,000 is 3 %."""
    mechanism = tdp.KNormQuantile(SCHEMA, "x", tau, epsilon=0.5)
    found = preview(mechanism)
    assert found.assumes == ORDERED_ROWS
    off, _ = errors(mechanism, np.linspace(LOW, HIGH, ROWS), seed, 2000)
    assert np.sqrt(np.mean(off**2)) == pytest.approx(found.std[0], rel=0.12)
    assert np.mean(np.abs(off) <= found.half_width[0]) >= 0.95 - 4 * (0.05 * 0.95 / 2000) ** 0.5
    wrong = 1.3 * off  # planted
    assert np.sqrt(np.mean(wrong**2)) != pytest.approx(found.std[0], rel=0.12)


@pytest.mark.parametrize("rows", KINDS)
def test_the_rank_error_holds_on_all_rows(rows: str, seed: int) -> None:
    mechanism = tdp.KNormQuantile(SCHEMA, "x", 0.5, epsilon=1)
    found = preview(mechanism)
    assert found.ranks is not None
    _, off = errors(mechanism, KINDS[rows](np.random.default_rng(seed)), seed)
    assert np.mean(off <= found.ranks[0]) >= 0.95


def test_what_the_words_say_of_other_rows_is_so(seed: int) -> None:
    """Smaller where rows crowd, as large as the gap where there is one: not the other way round."""
    mechanism = tdp.KNormQuantile(SCHEMA, "x", 0.5, epsilon=1)
    found = preview(mechanism)
    size = {
        kind: np.sqrt(
            np.mean(errors(mechanism, KINDS[kind](np.random.default_rng(seed)), seed)[0] ** 2)
        )
        for kind in ("crowded", "gapped")
    }
    assert size["crowded"] < 0.2 * found.std[0]
    assert size["gapped"] > 5 * found.std[0]
    assert "smaller" in found.note
    assert "gap" in found.note
    assert "ranks off" in found.note
