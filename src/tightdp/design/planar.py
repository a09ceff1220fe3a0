"""Two-dimensional noise by optimisation, certified: how little noise a planar query needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tightdp.accepted import Number
from tightdp.design.planar_balls import BALLS
from tightdp.design.planar_bound import NO_BOUND, PlanarBound
from tightdp.design.planar_grid import LOSSES, PlanarGrid
from tightdp.design.planar_law import PlanarDesign
from tightdp.design.planar_programs import propose_bound, propose_noise
from tightdp.design.programs import InfeasibleError
from tightdp.design.records import check_promise
from tightdp.errors import (
    UndecidedError,
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_within,
    exact_fraction,
    fail,
)

_WEIGHT_BITS = 52
_ATTEMPTS = ((24, 1e-4), (48, 1e-3), (96, 1e-2))  # boundary samples a cell, share of delta spared
_MOST_CELLS, _CHEAP = 20_000, 5_000
_TRIPLES = (5, 10, 13, 15, 17, 20, 25)  # lattices with many points on the circle


def design_planar_noise(
    *,
    epsilon: Number,
    delta: Number,
    sensitivity: Number = 1.0,
    ball: str = "l2",
    loss: str = "l1",
    resolution: int = 8,
    support: object = None,
    lower_resolution: int | None = None,
    progress: bool = False,
) -> PlanarDesign:
    """Noise in the plane with the least expected loss that (epsilon, delta) allows, certified.

    Parameters
    ----------
    epsilon, delta : float, Fraction or Decimal
        delta in (0, 1).
    sensitivity : float
        Radius of the ball of changes of the query.
    ball : {"l2", "l1", "linf"}
    loss : {"l1", "l2"}
        abs(x1) + abs(x2), or x1**2 + x2**2.
    resolution : int
        Cells per ``sensitivity``. The work grows with the number of cells in the support: at
        epsilon = 2 a resolution of 8 takes seconds, 10 a minute or two; smaller epsilon and delta
        need wider supports and smaller resolutions.
    support : float, optional
        Half-width of the support, in units of ``sensitivity``.
    lower_resolution : int, optional
        Resolution of the lower bound; by default one with many lattice points on the circle.
    progress : bool
        Print what is being solved.

    Returns
    -------
    PlanarDesign

    Examples
    --------
    >>> design = design_planar_noise(epsilon=1.0, delta=0.3, ball="linf", resolution=2)
    >>> 0 < design.lower < design.upper, str(design.guarantee())
    (True, 'epsilon = 1, delta = 0.3, replace-one neighbours, exact')
    """
    asked, spare = check_promise(epsilon, delta)
    check_positive("sensitivity", sensitivity)
    width = _support(asked, spare)
    if support is not None:
        width = check_within("support", support, "[1, 10000]", "1 is the radius of the ball")
    task = _PlaneTask(
        epsilon=asked,
        delta=spare,
        ball=check_choice("ball", ball, BALLS),
        loss=check_choice("loss", loss, LOSSES),
        cells=check_count("resolution", resolution, most=64),
        width=width,
        widenings=0 if support is not None else 3,
    )
    fine = _lower_resolution(task) if lower_resolution is None else lower_resolution
    fine = check_count("lower_resolution", fine, most=64)
    if max(_square(width, 0, task.cells), _square(width, 1, fine)) > _MOST_CELLS:
        fail(
            f"`resolution` must leave at most {_MOST_CELLS} cells in the plane. The support is "
            f"{width:g} times the sensitivity: use a smaller `resolution` or `lower_resolution`."
        )
    say = print if check_flag("progress", progress) else _silent
    noise = _best_noise(task, say)
    say(f"lower bound at resolution {fine}")
    design = replace(
        noise,
        sensitivity=exact_fraction("sensitivity", sensitivity),
        bound=_bound(task, fine),
    )
    design.verify()
    return design


@dataclass(frozen=True)
class _PlaneTask:
    """The problem for a ball of radius 1, with ``cells`` cells per radius."""

    epsilon: Fraction
    delta: Fraction
    ball: str
    loss: str
    cells: int
    width: float
    widenings: int


def _best_noise(task: _PlaneTask, say: Callable[[str], None]) -> PlanarDesign:
    """The better of the two layouts, rounded and proved private; its bound is empty."""
    best: PlanarDesign | None = None
    for centred in (True, False):
        for samples, share in _ATTEMPTS:
            say(f"noise at resolution {task.cells}, {'centred' if centred else 'between'} cells")
            found = _noise(task, centred, samples, share)
            if found is not None and found.is_private(task.delta):
                if best is None or found.upper < best.upper:
                    best = found
                break
    if best is None:
        fail(
            "No noise on this grid is proved private: use a larger `resolution` or `support`.",
            UndecidedError,
        )
    return best


def _noise(task: _PlaneTask, centred: bool, samples: int, share: float) -> PlanarDesign | None:
    """One proposal as integers; the support is widened when nothing private fits into it."""
    for widening in range(task.widenings + 1):
        grid = PlanarGrid(math.ceil(task.width * 1.5**widening * task.cells), centred=centred)
        try:
            noise = propose_noise(
                grid,
                cells=task.cells,
                ball=task.ball,
                loss=task.loss,
                factor=math.exp(task.epsilon),
                delta=float(task.delta) * (1 - share),
                samples=samples,
            )
        except InfeasibleError:
            continue
        return PlanarDesign(
            epsilon=task.epsilon,
            delta=task.delta,
            sensitivity=Fraction(1),
            ball=task.ball,
            loss=task.loss,
            resolution=task.cells,
            half=grid.half,
            centred=centred,
            weights=tuple(int(w * 2.0**_WEIGHT_BITS) for w in noise.weights),
            atom=int(noise.atom * 2.0**_WEIGHT_BITS),
            bound=NO_BOUND,
        )
    return None


def _bound(task: _PlaneTask, cells: int) -> PlanarBound:
    """The lower bound of a lattice with ``cells`` cells per radius."""
    window = math.ceil(task.width * cells)
    proposal = propose_bound(
        PlanarGrid(window + cells, window=window),
        cells=cells,
        ball=task.ball,
        loss=task.loss,
        factor=math.exp(task.epsilon),
        delta=float(task.delta),
    )
    return PlanarBound.rounded(proposal, cells)


def _support(epsilon: Fraction, delta: Fraction) -> float:
    """1.35 times the half-width of truncated Laplace noise, in halves."""
    rate = float(epsilon)
    reach = math.log1p(math.expm1(rate) / (2 * float(delta))) / rate
    return max(1.0, math.ceil(2.7 * reach) / 2)


def _lower_resolution(task: _PlaneTask) -> int:
    """The least Pythagorean hypotenuse that is not coarser than the noise, if it is affordable."""
    finer = next((r for r in _TRIPLES if r >= task.cells), task.cells)
    return finer if _square(task.width, 1, finer) <= _CHEAP else task.cells


def _square(width: float, padding: int, cells: int) -> int:
    """Cells of the square that holds a support and its padding, both in radii."""
    return (2 * math.ceil((width + padding) * cells) + 1) ** 2


def _silent(message: str) -> None:
    """Say nothing."""
