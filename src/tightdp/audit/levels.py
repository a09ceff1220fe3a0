r"""Exact audit of lattice noise: :math:`P(z) \propto e^{-\eta\,\mathrm{level}(z)}` on the integers.

The levels are compared as integers, point by point; no probability is computed and nothing is
drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.accepted import Number
from tightdp.audit.audit_report import AuditReport, Finding
from tightdp.errors import DimensionError, WideIntegers, fail, fraction_within
from tightdp.parameters import tells_arguments
from tightdp.progress import progress_bar

_BLOCK = 1 << 16
_MOST_POINTS = 1 << 40
_SHOWN = 10


@tells_arguments
def audit_exact(
    level: Callable[[NDArray[np.int64]], ArrayLike],
    shifts: ArrayLike,
    window: ArrayLike,
    *,
    epsilon: Number,
    rate: Number = 1,
    progress: bool = False,
) -> AuditReport:
    r"""Check the privacy of lattice noise on every point of a window, in integers.

    The mechanism releases t + z with :math:`P(z) \propto e^{-\eta\,\mathrm{level}(z)}`; neighbours
    have integer statistics that differ by a shift u. Its log ratio of probabilities at a release
    is :math:`\eta\,(\mathrm{level}(z - u) - \mathrm{level}(z))`, because the normaliser does not
    depend on t. The claim is :math:`|\mathrm{level}(z) - \mathrm{level}(z - u)| \le L` for every u
    and z, with L the largest integer that is at most :math:`\epsilon/\eta`.

    Parameters
    ----------
    level : callable
        From an int64 array of points, shape (n, m), to n integer levels (int64, or Python integers
        in an object array).
    shifts : array of integers, shape (k, m)
        All differences of the statistics of neighbours, in one of the two orders at least.
    window : int or array of m integers
        The points with ``|z_i| <= window_i`` are checked.
    epsilon : int, float, Fraction or Decimal
        The claim; taken exactly.
    rate : int, float, Fraction or Decimal
        :math:`\eta`; taken exactly. With the default 1, ``epsilon`` is the bound L itself.
    progress : bool
        Show a progress bar, where ``tqdm`` is installed.

    Returns
    -------
    AuditReport
        The findings name, for the shifts that change the level most, the pair of points that shows
        it. ``checked`` counts pairs.

    Notes
    -----
    The verdict is about the window. It extends to all points when the level is subadditive and
    even, since then :math:`|\mathrm{level}(z) - \mathrm{level}(z - u)| \le \mathrm{level}(u)`.

    Examples
    --------
    >>> def diamond(z):
    ...     return np.abs(z).sum(axis=1)
    >>> report = audit_exact(diamond, [[1, 0], [1, -1]], window=20, epsilon=1.0, rate=0.5)
    >>> report.verdict, report.checked
    ('holds', 3362)
    >>> audit_exact(diamond, [[2, -1]], window=20, epsilon=1.0, rate=0.5).event
    'shift (2, -1): level 0 at (0, 0), level 3 at (-2, 1)'
    """
    moves = _integers("shifts", shifts, 2)
    reach = _reach(window, moves.shape[1])
    budget, eta = (
        fraction_within("epsilon", epsilon, "(0, inf)"),
        fraction_within("rate", rate, "(0, inf)"),
    )
    allowed = budget // eta  # rate * change <= epsilon, for an integer change
    worst = _Worst(moves)
    points = prod(2 * int(side) + 1 for side in reach)
    if points > _MOST_POINTS:
        fail(f"`window` must hold at most 2**40 points. Got {points:.3g}.")
    with progress_bar(points, "points", show=progress) as bar:
        for z in _blocks(reach):
            worst.look(level, z)
            bar(len(z))
    return _report(worst, points * len(moves), budget, eta, allowed)


class _Worst:
    """For every shift the largest change of the level so far, and where it is."""

    def __init__(self, moves: WideIntegers) -> None:
        self.moves = moves
        self.change: list[int] = [-1] * len(moves)
        self.at: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)] * len(moves)

    def look(self, level: object, z: WideIntegers) -> None:
        here = _levels(level, z)
        for k, move in enumerate(self.moves):
            there = _levels(level, z - move)
            gap = np.abs(here - there)
            i = int(gap.argmax())
            if int(gap[i]) > self.change[k]:
                self.change[k] = int(gap[i])
                self.at[k] = (tuple(map(int, z[i])), int(here[i]), int(there[i]))

    def order(self) -> list[int]:
        """The shifts, those that change the level most first."""
        return sorted(range(len(self.moves)), key=lambda k: -self.change[k])


def _report(
    worst: _Worst, pairs: int, budget: Fraction, eta: Fraction, allowed: int
) -> AuditReport:
    order = worst.order()
    findings = [_finding(worst, k, eta) for k in order[:_SHOWN]]
    too_large = sum(change > allowed for change in worst.change)
    notes = [
        f"Levels may change by at most {allowed} (epsilon / rate, rounded down); "
        f"the largest change is {worst.change[order[0]]}.",
        f"{too_large} of {len(order)} shifts break the bound."
        if too_large
        else "Decided in integers, on the window only; see `audit_exact` for when it extends.",
    ]
    return AuditReport(
        kind="levels",
        epsilon=float(budget),
        delta=0.0,
        violated=too_large > 0,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=1.0,
        checked=pairs,
        findings=tuple(findings),
        notes=tuple(notes),
    )


def _finding(worst: _Worst, k: int, eta: Fraction) -> Finding:
    z, here, there = worst.at[k]
    move = tuple(map(int, worst.moves[k]))
    other = tuple(a - b for a, b in zip(z, move, strict=True))
    levels = f"level {here} at {_point(z)}, level {there} at {_point(other)}"
    shown = float(eta * worst.change[k])
    return Finding(
        event=f"shift {_point(move)}: {levels}",
        family="shifts",
        over="x" if here <= there else "x_neighbor",
        epsilon_lower=shown,
        epsilon_seen=shown,
    )


def _point(z: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, z))})"


def _blocks(reach: WideIntegers) -> Iterator[NDArray[np.int64]]:
    """The points of the box ``|z_i| <= reach_i``, the points next to 0 in the first block."""
    sides = 2 * reach + 1
    total = prod(map(int, sides))
    for start in range(0, total, _BLOCK):
        index = np.arange(start, min(start + _BLOCK, total))
        # Coordinate k of a point runs 0, 1, -1, 2, -2, ...: small witnesses are found first.
        turn = np.stack(np.unravel_index(index, tuple(map(int, sides))), axis=1)
        yield np.where(turn % 2 == 1, (turn + 1) // 2, -(turn // 2)).astype(np.int64)


def _levels(level: Any, z: WideIntegers) -> WideIntegers:
    """The levels of points, checked to be integers, one a point."""
    values = np.asarray(level(z))
    if values.shape != (len(z),):
        fail(
            f"`level` must give one level for every point. Got shape {values.shape} for {len(z)} "
            "points.",
            DimensionError,
        )
    if values.dtype == object and all(isinstance(value, (int, np.integer)) for value in values):
        return values
    if values.dtype.kind not in "iu":
        fail(f"`level` must give integers. Got dtype {values.dtype}.")
    if values.dtype == np.uint64 or (values.dtype == np.int64 and _large(values)):
        return values.astype(object)  # differences could wrap around
    return values.astype(np.int64)


def _large(values: WideIntegers) -> bool:
    return bool(values.max() >= 1 << 62 or values.min() <= -(1 << 62))


def _integers(name: str, value: ArrayLike, ndim: int) -> WideIntegers:
    array = np.asarray(value)
    if array.ndim != ndim or array.size == 0:
        fail(f"`{name}` must be a non-empty array with {ndim} axes.", DimensionError)
    if array.dtype.kind not in "iu":
        fail(f"`{name}` must hold 64-bit integers. Got dtype {array.dtype}.")
    if bool((array > 1 << 61).any() or (array < -(1 << 61)).any()):
        fail(f"`{name}` must hold integers of size 2**61 at most.")
    return array.astype(np.int64)


def _reach(window: ArrayLike, dim: int) -> WideIntegers:
    sides = np.asarray(window)
    if sides.ndim == 0:
        sides = np.full(dim, sides)
    reach = _integers("window", sides, 1)
    if reach.shape != (dim,):
        fail(f"`window` must be one integer, or {dim}. Got {len(reach)}.", DimensionError)
    if bool((reach < 0).any()):
        fail("`window` must hold integers >= 0.")
    return reach
