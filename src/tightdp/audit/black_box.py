"""Black-box audit: run a mechanism on two neighbouring inputs and try to tell them apart.

A violation that is found is proved, at the stated confidence. That none is found proves nothing:
the events tried may be the wrong ones, the inputs not the worst, the releases too few.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.accepted import Number
from tightdp.audit import features
from tightdp.audit.audit_report import AuditReport
from tightdp.audit.events import (
    FIRST_SHARE,
    Claim,
    Feature,
    Sizes,
    best_events,
    count_events,
    pair_bound,
)
from tightdp.errors import (
    DimensionError,
    FloatArray,
    check_array,
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_list,
    check_positive,
    check_probability,
    check_within,
    fail,
)
from tightdp.geometry.norm_balls import NormBall
from tightdp.parameters import tells_arguments
from tightdp.privacy import text_up
from tightdp.progress import progress_bar
from tightdp.randomness import RandomLike, RandomSource, source

_BLOCK = 10_000
_LEAST_RELEASES = 100
_MOST_RELEASES = 10**9  # each is kept
_LARGEST = 1 << 1000


@tells_arguments
def audit(
    mechanism: Callable[..., Any],
    x: object,
    x_neighbor: object,
    *,
    epsilon: float,
    delta: float = 0.0,
    releases: int = 10_000,
    alpha: float = 1e-3,
    ball: NormBall | None = None,
    centers: ArrayLike | None = None,
    grid: float | None = None,
    events: Sequence[str] = features.FAMILIES,
    rng: RandomLike = None,
    progress: bool = False,
) -> AuditReport:
    r"""Try to refute a claim of (epsilon, delta)-privacy from releases alone.

    The first half of the releases chooses, in each family, the event that tells the two inputs
    apart best, in one direction, the other or both; the second half counts these events, and
    bounds of Clopper and Pearson turn the counts into lower bounds of epsilon. The event that
    looked best is tested at 3/4 of alpha, the best of the other families share the rest
    (Bonferroni), so that a correct mechanism is accused with probability alpha at most.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(x, size=n)`` that returns n independent releases along the first axis, if it has
        a parameter named ``size``; else ``mechanism(x)`` that returns one. A release is a number or
        a vector, or an object that has it as ``value``; categories should be coded as integers.
    x, x_neighbor : object
        Two neighbouring inputs, passed on as they are.
    epsilon, delta : float
        The claim.
    releases : int
        Releases per input; in the counting half a fair coin chooses the input of each, so on
        average. As a rule, 10,000 catch noise that is 30 % too small at epsilon = 1, and 50,000
        noise that is 10 % too small.
    alpha : float
        Probability of accusing a correct mechanism, at most.
    ball : NormBall, optional
        The ball of K-norm noise, in the units of a release: the difference of gauges is then tried
        as well, which is the sharpest score there is for such noise.
    centers : array of shape (2, m), optional
        What is released without the noise, for ``x`` and for ``x_neighbor``; by default the medians
        of the choosing half.
    grid : float, optional
        The grid that releases are claimed to lie on: leaving it, and the residues of the multiples,
        are then events. Without it the lowest bits of floats, or the residues of integers, are.
    events : sequence of str
        The families to try: "coordinates", "values", "low bits", "learned", "gauge".
    rng : None, int, Generator or RandomSource
        For the coins alone; the mechanism has its own randomness.
    progress : bool
        Show a progress bar, where ``tqdm`` is installed.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> from tightdp.exact.discrete_draws import discrete_laplaces
    >>> from tightdp.randomness import source
    >>> rng = source(1)
    >>> def count(x, size):
    ...     return x + discrete_laplaces(1, 1, size, rng)
    >>> audit(count, 0, 1, epsilon=1.0).verdict
    'no violation found'
    >>> report = audit(count, 0, 2, epsilon=1.0)  # these inputs are two steps apart
    >>> report.verdict, report.epsilon_lower > 1.6
    ('violated', True)
    """
    budget, claim = check_positive("epsilon", epsilon), _check_claim(delta, alpha)
    check_flag("progress", progress)
    families, step = _check_events(events), None if grid is None else check_positive("grid", grid)
    half = check_count("releases", releases, least=_LEAST_RELEASES, most=_MOST_RELEASES) // 2
    reach = _check_reach(budget, claim, half)
    if ball is not None:
        check_instance("ball", ball, NormBall)
    sizes = _toss(half, source(rng))
    with progress_bar(4 * half, "releases", show=progress) as bar:
        drawn = _arranged(
            _draw(mechanism, x, half + sizes.first, bar),
            _draw(mechanism, x_neighbor, half + sizes.second, bar),
            half,
        )
    _check_shapes(drawn, ball, centers)
    tried = _features(drawn, half, families, ball=ball, centers=centers, grid=step)
    with np.errstate(over="ignore", invalid="ignore"):  # scores that overflow are left out
        chosen = best_events(tried, half, claim)
    findings = count_events(chosen, sizes, claim)
    shown = findings[0].epsilon_lower
    return AuditReport(
        kind="samples",
        epsilon=budget,
        delta=claim.delta,
        violated=shown > budget,
        epsilon_lower=shown,
        confidence=1.0 - claim.alpha,
        checked=2 * half,
        findings=findings,
        notes=_notes(half, len(findings), claim.alpha, reach),
    )


def _notes(half: int, tested: int, alpha: float, reach: float) -> tuple[str, ...]:
    others = f", {tested - 1} more at {1 - FIRST_SHARE:g} of it together" if tested > 1 else ""
    share = f"{FIRST_SHARE:g} of alpha" if tested > 1 else "alpha"
    return (
        f"Events were chosen on {half:,} releases per input and counted on {half:,} others.",
        f"The event that looked best is tested at {share} = {alpha:g}{others} (Bonferroni).",
        f"So many releases can show epsilon = {reach:.1f} or so at most.",
    )


def _features(
    drawn: features.Releases,
    half: int,
    families: Sequence[str],
    *,
    ball: NormBall | None,
    centers: ArrayLike | None,
    grid: float | None,
) -> Iterator[Feature]:
    if "coordinates" in families:
        yield from features.coordinates(drawn)
    if "values" in families:
        yield from features.whole_values(drawn)
    if "low bits" in families:
        yield from features.low_bits(drawn, grid)
    middle: FloatArray = (
        features.centers_of(drawn, half)
        if centers is None
        else check_array("centers", centers, 2, drawn.shape[1])
    )
    if "learned" in families:
        yield from features.learned(drawn, half, middle)
    if "gauge" in families and ball is not None:
        yield from features.gauge_difference(drawn, ball, middle)


# --- drawing ------------------------------------------------------------------------------------


def _draw(
    mechanism: Callable[..., Any], given: object, count: int, bar: Callable[[int], object]
) -> NDArray[Any]:
    """``count`` releases of one input, shape (count, m)."""
    parts = []
    batched = _takes_size(mechanism)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        if batched:
            part = _numbers(mechanism(given, size=size))
            if part.ndim not in (1, 2) or len(part) != size:
                fail(
                    f"`mechanism` must return {size} releases along the first axis when asked for "
                    f"them, each a number or a vector. Got an array of shape {part.shape}.",
                    DimensionError,
                )
        else:
            singles = [_numbers(mechanism(given)) for _ in range(size)]
            if any(single.ndim > 1 or single.shape != singles[0].shape for single in singles):
                fail(
                    "`mechanism` must return one number, or one vector of fixed length, in every "
                    "call. To draw many at once, give it a parameter named `size`.",
                    DimensionError,
                )
            part = np.stack(singles)
        parts.append(part.reshape(size, -1))
        bar(size)
    if any(part.shape[1] != parts[0].shape[1] for part in parts):
        fail("`mechanism` must return vectors of one length.", DimensionError)
    return np.concatenate(parts)


def _takes_size(mechanism: object) -> bool:
    if not callable(mechanism):
        fail(f"`mechanism` must be callable. Got {type(mechanism).__name__}.")
    try:
        return "size" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False  # a builtin without a signature


def _numbers(release: object) -> NDArray[Any]:
    """A release, or many, as int64, float64 or Python integers; refused if not finite numbers."""
    try:
        array = np.asarray(getattr(release, "value", release))
    except ValueError:
        fail("`mechanism` must return vectors of one length.", DimensionError)
    if array.size == 0:
        fail("`mechanism` must return at least one number.", DimensionError)
    if array.dtype == object and all(isinstance(v, (int, np.integer)) for v in array.ravel()):
        if max(map(abs, array.ravel())) >= _LARGEST:
            fail("`mechanism` must return integers of size less than 2**1000.")
        return array
    if array.dtype.kind == "f":
        if not bool(np.isfinite(array).all()):
            fail(
                "`mechanism` must return finite numbers. Got NaN or infinity, which may reveal the "
                "input by itself."
            )
        return array.astype(np.float64)
    if array.dtype.kind in "iub":
        return array.astype(object if array.dtype == np.uint64 else np.int64)
    fail(f"`mechanism` must return real numbers. Got dtype {array.dtype}.")


def _toss(half: int, rng: RandomSource) -> Sizes:
    """A fair coin for the input of each of the 2 * half releases that are counted."""
    words = rng.words(-(-2 * half // 64))
    first = int(np.unpackbits(words.view(np.uint8), count=2 * half).sum())
    return Sizes(half, first, 2 * half - first)


def _arranged(first: NDArray[Any], second: NDArray[Any], half: int) -> features.Releases:
    """All releases, with the rows in the order of :class:`Sizes`."""
    if first.shape[1] != second.shape[1]:
        fail(
            f"`mechanism` must return vectors of one length. Got {first.shape[1]} numbers for `x` "
            f"and {second.shape[1]} for `x_neighbor`.",
            DimensionError,
        )
    if {"f", "O"} == {first.dtype.kind, second.dtype.kind}:
        first, second = first.astype(np.float64), second.astype(np.float64)
    return np.concatenate([first[:half], second[:half], first[half:], second[half:]])


# --- checks -------------------------------------------------------------------------------------


def _check_claim(delta: Number, alpha: Number) -> Claim:
    return Claim(check_within("delta", delta, "[0, 1)"), check_probability("alpha", alpha))


def _check_events(events: object) -> tuple[str, ...]:
    if isinstance(events, str):
        fail("`events` must be a sequence of names, not one string.")
    names = check_list("events", events)
    chosen = tuple(check_choice("events", name, features.FAMILIES) for name in names)
    if not set(chosen) - {"values", "gauge"}:
        fail("`events` must name 'coordinates', 'low bits' or 'learned' at least.")
    return chosen


def _check_reach(epsilon: float, claim: Claim, half: int) -> float:
    """What inputs that are told apart for certain would show; more than the claim, or refused."""
    first = claim._replace(alpha=FIRST_SHARE * claim.alpha)
    reach = pair_bound(half, half, 0, half, first)
    if reach <= epsilon:
        # q_high is about ln(2/alpha)/n for an event that never occurs
        needed = 2.5 * math.log(3 / claim.alpha) * math.exp(min(epsilon, 700.0)) / (1 - claim.delta)
        fail(
            f"`releases` must be larger to refute epsilon = {text_up(epsilon)} at alpha = "
            f"{claim.alpha:g}, even for a mechanism without noise. Got {2 * half}; try "
            f"{needed:.1g}."
        )
    return reach


def _check_shapes(drawn: features.Releases, ball: NormBall | None, centers: Any) -> None:
    m = drawn.shape[1]
    if ball is not None and ball.dim != m:
        fail(f"`ball` must have dimension {m}, as the releases. Got {ball.dim}.", DimensionError)
    if centers is not None and check_array("centers", centers, 2).shape != (2, m):
        fail(
            f"`centers` must have shape (2, {m}), as the releases. Got {np.shape(centers)}.",
            DimensionError,
        )
