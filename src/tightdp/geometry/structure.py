"""Whether one record can move all entries of a statistic to their ends at once.

Where it can, in all combinations of signs, the entries have *negligible structure* (Definition 3.2
of the preprint of Awan and Slavković, 2018): the hull is the box of the entries, and the noise of
the l_infinity norm is the least there is (Corollary 4.11). Everything else is structure, and a
smaller hull.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import DegenerateBodyError, FloatArray, fail
from tightdp.geometry.containment import largest_gauge, verdict
from tightdp.geometry.norm_balls import MEASURING_SEED, LpBall
from tightdp.geometry.sensitivity import SensitivitySpace, check_space
from tightdp.geometry.units import ROUNDING
from tightdp.parameters import tells_arguments
from tightdp.randomness import SeededSource

_ALL_CORNERS = 12  # entries up to which all corners are looked at
_SOME_CORNERS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    r"""What the corners of the box of entries say about a sensitivity space.

    Attributes
    ----------
    entry_sensitivities : array
        The largest change of every entry, the half-widths :math:`\Delta_i` of the box.
    equal : bool
        Whether they are all the same, condition (3) of the preprint; entries can be rescaled.
    negligible : bool or None
        Whether every corner :math:`(\pm\Delta_1, ..., \pm\Delta_m)` is a possible movement; None
        where neither could be proved.
    corner : array or None
        A corner that is reached. By Proposition 3.3 the l_p sensitivity is then
        :math:`m^{1/p} \Delta_\infty` if the entries are ``equal``, and no less.
    pair : tuple or None
        The two public rows that reach it.
    missing : array or None
        A corner that is not reached, with proof.

    Examples
    --------
    >>> print(structure(SensitivitySpace.histogram(3)))
    structure: not all corners of the box are movements; no corner was reached
    """

    entry_sensitivities: FloatArray
    equal: bool
    negligible: bool | None
    corner: FloatArray | None
    pair: tuple[Any, Any] | None
    missing: FloatArray | None

    def __str__(self) -> str:
        if self.negligible:
            return "negligible structure: the hull is the box, and linf noise is the least"
        kind = "structure" if self.negligible is False else "structure not decided"
        reached = "no corner was reached" if self.corner is None else "one is reached"
        return f"{kind}: not all corners of the box are movements; {reached}"


@tells_arguments
def structure(space: SensitivitySpace) -> Structure:
    """Decide whether a statistic has negligible structure (Awan and Slavković, 2018).

    A corner of the box of entries is an extreme point of every convex set between it and the space,
    so it lies in the closure of the space exactly when it lies in the hull.

    Examples
    --------
    >>> from tightdp import Interval
    >>> columns = {"height": Interval(-1, 1), "weight": Interval(-1, 1), "income": Interval(-1, 1)}
    >>> structure(SensitivitySpace.of(columns)).negligible  # each from a column of its own
    True
    >>> found = structure(SensitivitySpace.sum_and_squares(Interval(0, 1)))
    >>> found.negligible, found.corner, found.missing
    (False, array([1., 1.]), array([ 1., -1.]))
    """
    check_space(space)
    half = _entry_sensitivities(space)
    if (half == 0).any():
        fail("The statistic has entries that no record moves: drop them.", DegenerateBodyError)
    corners = _corners(half)
    reached = [space.extreme_pair(np.sign(c)) for c in corners]
    corner, pair = next(
        ((c, pair) for c, (u, pair) in zip(corners, reached, strict=True) if _same(u, c)),
        (None, None),
    )
    gauges = np.asarray(space.hull().gauge(corners))
    outside = np.flatnonzero(gauges > 1 + ROUNDING)
    missing = corners[int(outside[0])] if len(outside) else None
    negligible: bool | None
    if missing is not None:
        negligible = False
    elif all(_same(u, c) for c, (u, _) in zip(corners, reached, strict=True)) and _complete(half):
        negligible = True
    else:  # all corners of the box lie in the hull exactly when the box does
        box = LpBall(space.dim, np.inf, half)
        inside = verdict(largest_gauge(box, space.hull())).verdict
        negligible = {"inside": True if space.exact else None, "outside": False}.get(inside)
    equal = bool(np.ptp(half) <= ROUNDING * half.max())
    return Structure(half, equal, negligible, corner, pair, missing)


def _entry_sensitivities(space: SensitivitySpace) -> FloatArray:
    """What every entry moves by, at most: the support of the hull along the axes."""
    axes = np.eye(space.dim)
    moves = [space.extreme_pair(axis)[0] @ axis for axis in axes]
    return np.asarray(moves)


def _corners(half: FloatArray) -> FloatArray:
    """Corners of the box up to their sign: all for a few entries, else some."""
    m = len(half)
    if _complete(half):
        signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=m - 1)])
    else:
        rng = SeededSource(MEASURING_SEED)
        signs = np.vstack([np.ones(m), rng.signs((_SOME_CORNERS, m))])
    return signs * half


def _complete(half: FloatArray) -> bool:
    return len(half) <= _ALL_CORNERS


def _same(u: FloatArray, corner: FloatArray) -> bool:
    return bool(np.abs(u - corner).max() <= ROUNDING * np.abs(corner).max())


def corner_sensitivity(m: int, p: float, largest: float) -> float:
    r""":math:`m^{1/p} \Delta_\infty`: what papers take for the l_p sensitivity (Proposition 3.3).

    It is right exactly where one corner of the box is reached, and too large otherwise.

    >>> corner_sensitivity(4, 2, 1.0)
    2.0
    """
    return float(largest) * (1.0 if math.isinf(p) else m ** (1 / p))
