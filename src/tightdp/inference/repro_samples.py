r"""Intervals for the parameters of any model of the rows, from a release alone: repro samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.answer import Answer
from tightdp.data.statistics import Statistic
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_confidence,
    check_count,
    check_flag,
    check_instance,
    check_list,
    fail,
)
from tightdp.inference.monte_carlo_tests import release_source
from tightdp.inference.repro_ends import MOST_NUISANCE, EndSearch, increasing_ends, overview
from tightdp.inference.repro_points import JOINT, Points, Simulated
from tightdp.inference.simulated_models import Model, check_bounds, entries_at
from tightdp.progress import progress_bar
from tightdp.randomness import SeededSource
from tightdp.release import Release
from tightdp.schema import require_public_rows

METHODS = ("best", "repro", "bootstrap")
PROVED, TRIED, NEARLY = "proved", "tried", "approximate"
_WORDS = {
    PROVED: "coverage is proved for this model, at every n and epsilon",
    TRIED: (
        "coverage is proved for this model up to values of the other parameters between those that "
        "were tried"
    ),
    NEARLY: "coverage is approximate: the other parameters are taken near their likely values",
}
_MOST_SEEDS, _FEWEST_SEEDS = 499, 199
_PROVED_SEEDS = 999  # where one point is looked at after the other, and nothing is searched for
_MOST_ASKED = 19_999
_ROWS_TOGETHER = 4_000_000  # simulated rows in memory
_PILOT = 200
_STARTS = 64


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReproAnswer(Answer):
    """Parameters of a model with their intervals, each at its own level.

    ``method`` says how far coverage goes: "proved", "tried" or "approximate"; ``looks`` how many
    points were tested.
    """

    method: str
    looks: int


def repro(
    release: Release,
    model: Model,
    mechanism: Any,
    *,
    of: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    method: str = "best",
    seeds: int | None = None,
    progress: bool = False,
) -> ReproAnswer:
    r"""Intervals for parameters of a model that can be simulated; costs nothing.

    Releases are simulated at values of the parameters, with the noise of the mechanism, rows that
    are moved to their bounds included; an interval holds the values at which the release is not
    unusual (:mod:`tightdp.inference.repro_points`). No data are touched. Random numbers belong to
    the release, so everybody who has it finds the same intervals.

    How far coverage goes is said by ``method`` of the answer:

    - "proved": one parameter, and one entry that grows with it (``model.increasing``): the interval
      holds the true value with the stated chance at least, for every n, epsilon and truth;
    - "tried": the same is proved at every single point. The search for the ends tries the other
      parameters on a grid around their likely values, and points between all bounds; it is not
      exhaustive. An end is the first value where nothing was kept, on the outer side;
    - "approximate": the other parameters near their likely values alone, for each value of the one
      that is asked for: a parametric bootstrap from an indirect estimate, which knows the bias of
      rows that were moved (Wang and others, 2025). For models with more than three parameters.

    All that is promised is about the model: rows that are not of it are another matter.

    Parameters
    ----------
    release : Release
    model : Model
        Such as :class:`~tightdp.inference.Normal`, or any object with ``parameters`` and
        ``simulate`` (:mod:`tightdp.inference.simulated_models`).
    mechanism : Mechanism
        That made the release: it knows the law of the noise.
    of : str or list of str, optional
        The parameters that are asked for; all by default.
    confidence : float
        Of each interval on its own.
    method : {"best", "repro", "bootstrap"}
        "best" is "repro" for at most three unknown parameters and "bootstrap" for more.
    seeds : int, optional
        How many releases are simulated at each point: 499 (999 where coverage is proved), or fewer
        for many rows, 199 at least, and more for high confidence: at 95 % fewer than 199 could
        reject nothing. Intervals from 999 are about 2 % shorter than those from 199.
    progress : bool
        Whether to show a bar.

    Examples
    --------
    >>> from tightdp import AdditiveMechanism, Interval, Schema, Sums
    >>> from tightdp.inference import Poisson
    >>> schema = Schema({"visits": Interval(0, 20)}, rows=500)
    >>> total = AdditiveMechanism(Sums(schema), epsilon=1)
    >>> release = total.release({"visits": np.random.default_rng(1).poisson(4, 500)}, rng=1)
    >>> found = repro(release, Poisson("visits", mean=(0, 50)), total)
    >>> found.method, bool(3.5 < found.interval[0, 0] < found.interval[0, 1] < 4.5)
    ('proved', True)
    """
    level = check_confidence(confidence)
    source = _source_of(release, mechanism)
    bounds = _bounds_of(model)
    free = [name for name, (low, high) in bounds.items() if low < high]
    names = free if of is None else check_list("of", [of] if isinstance(of, str) else of)
    for name in names:
        if check_choice("of", name, list(bounds)) not in free:
            fail(f"`of` names {name!r}, which the model takes as known.")
    check_choice("method", method, METHODS)
    check_flag("progress", progress)
    proved = len(free) == 1 and len(source.statistic) == 1 and getattr(model, "increasing", False)
    thorough = method == "repro" or (method == "best" and len(free) - 1 <= MOST_NUISANCE)
    if thorough and len(free) - 1 > MOST_NUISANCE:
        fail(
            f"`method` must be 'bootstrap' for more than {1 + MOST_NUISANCE} unknown "
            f"parameters. Got {len(free)}: or state some of them."
        )
    size = _how_many(seeds, source.statistic.schema.rows, 1 - level, proved)
    points = _points(release, model, source, bounds, size)
    if proved:
        return _increasing(release, points, free[0], level)
    with progress_bar(None, "points", show=progress) as bar:
        return _searched(release, points, free, names, level, thorough, bar)


def _how_many(seeds: int | None, rows: int, alpha: float, proved: bool) -> int:
    """How many releases are simulated: so many at least that the smallest p-value can reject."""
    least = math.ceil(1 / (alpha / 2 if proved else JOINT * alpha) - 1e-6) - 1
    if seeds is not None:
        return check_count("seeds", seeds, least=least, most=_MOST_ASKED)
    if least > _MOST_ASKED:
        fail(f"`confidence` is too large for simulations: {_MOST_ASKED} would not tell.")
    most = _PROVED_SEEDS if proved else _MOST_SEEDS
    return max(least, int(np.clip(_ROWS_TOGETHER // rows, _FEWEST_SEEDS, most)))


def _source_of(release: object, mechanism: object) -> Any:
    """What drew the release: it has a statistic of public facts, and noise that is added to it."""
    made = check_instance("release", release, Release)
    found = getattr(mechanism, "mechanism", mechanism)  # of a request of a plan
    found = getattr(found, "source", None)
    statistic = getattr(found, "statistic", None)
    draws = hasattr(found, "simulate") or hasattr(getattr(found, "noise", None), "sample")
    if not (isinstance(statistic, Statistic) and draws):
        fail(
            "`mechanism` must be the one that made the release, and add noise to sums of rows: of "
            "sums, means, variances, counts, tables or least squares."
        )
    assert found is not None
    same = len(made.integers) == len(statistic) and made.resolution == found.resolution
    if not same:
        fail("`release` must come from `mechanism`: it has other entries, or another grid.")
    schema = statistic.schema
    require_public_rows(schema, "`repro`")
    if schema.protected_rows not in (None, 1):
        fail("`repro` needs one row of every person: rows must be independent.")
    return found


def _bounds_of(model: object) -> dict[str, tuple[float, float]]:
    if not isinstance(model, Model) or not isinstance(model.parameters, Mapping):
        fail("`model` must have `parameters`, a mapping of names to bounds, and `simulate`.")
    found = {
        str(name): check_bounds(str(name), bounds, -1e300, 1e300)
        for name, bounds in model.parameters.items()
    }
    if not any(low < high for low, high in found.values()):
        fail("`model` must have a parameter that is not known: bounds that differ.")
    return found


def _noise(source: Any, bits: SeededSource, size: int) -> FloatArray:
    """Noise as it was released, on the scaled entries, shape (size, entries)."""
    if hasattr(source, "simulate"):
        return np.asarray(source.simulate(size, rng=bits), dtype=np.float64)
    drawn = np.asarray(source.noise.sample(size, rng=bits)).astype(np.float64)
    return drawn.reshape(size, -1) / float(source.resolution)


def _points(
    release: Release, model: Model, source: Any, bounds: dict[str, Any], size: int
) -> Points:
    bits = release_source(release.integers)
    statistic, ends = source.statistic, np.array(list(bounds.values()), dtype=np.float64)
    seeds = [int(word) for word in bits.words(2)]
    tested, pilot = (
        Simulated(entries_at(model, statistic, many, seed), _noise(source, bits, many))
        for many, seed in zip((size, _PILOT), seeds, strict=True)
    )
    released = np.array([z / release.resolution for z in release.integers])
    return Points(released, tested, pilot, ends[:, 0], ends[:, 1])


def _increasing(release: Release, points: Points, name: str, level: float) -> ReproAnswer:
    low, high = increasing_ends(points, 1 - level)
    middle = np.mean(increasing_ends(points, 1.0))
    value = float(np.clip(middle, low, high))
    return _answer(release, [name], [value], [(low, high)], level, PROVED, 0)


def _searched(
    release: Release,
    points: Points,
    free: list[str],
    names: list[str],
    level: float,
    thorough: bool,
    bar: Any,
) -> ReproAnswer:
    best = points.estimate(list(overview(points, _STARTS)))
    spread = np.linalg.pinv(points.pilot_at(best).information(), hermitian=True)
    width = (points.high - points.low)[points.free]
    std = np.clip(np.sqrt(np.maximum(np.diag(spread), 0.0)), 1e-6 * width, width)
    intervals, looks = [], 0
    for name in names:
        place = free.index(name)
        search = EndSearch(points, place, 1 - level, thorough, best, bar)
        intervals.append(search.ends(float(std[place])))
        looks += search.looks
    values = [float(best[points.free[free.index(name)]]) for name in names]
    proved = TRIED if thorough else NEARLY
    return _answer(release, names, values, intervals, level, proved, looks)


def _answer(
    release: Release,
    names: list[str],
    values: list[float],
    intervals: list[tuple[float, float]],
    level: float,
    method: str,
    looks: int,
) -> ReproAnswer:
    ends = np.array(intervals, dtype=np.float64)
    silent = tuple(name for name, end in zip(names, ends, strict=True) if np.isnan(end).any())
    said = f"each interval on its own; {_WORDS[method]}"
    if silent:
        tried = f"no value of {', '.join(silent)} that was tried explains the release"
        said = f"{said}; {tried}: doubt model and bounds"
    return ReproAnswer(
        names=tuple(names),
        value=np.array(values),
        interval=ends,
        confidence=level,
        release=release,
        about=said,
        unknown=silent,
        covers="population",
        method=method,
        looks=looks,
    )
