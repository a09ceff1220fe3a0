"""Noise for two or three entries by optimisation, certified: how little such a query needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tightdp.accepted import Number
from tightdp.design.programs import InfeasibleError
from tightdp.design.records import check_promise
from tightdp.design.vector_balls import BALLS
from tightdp.design.vector_bound import NO_BOUND, VectorBound
from tightdp.design.vector_grid import VectorGrid
from tightdp.design.vector_law import VectorDesign
from tightdp.design.vector_programs import Noise, Wish, propose_bound, propose_noise
from tightdp.design.vector_refine import is_refined, propose_refined
from tightdp.design.vector_verifier import FORMATS, POWERS
from tightdp.errors import (
    UndecidedError,
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_within,
    exact_fraction,
    fail,
    shown,
)
from tightdp.parameters import tells_arguments

_WEIGHT_BITS = 52
# boundary samples for each unit of an entry, share of delta spared
_ATTEMPTS = {
    2: ((24, 1e-4), (48, 1e-3), (96, 1e-2)),
    3: ((8, 2e-4), (16, 2e-3), (24, 2e-2)),
}
_REFINED = ((8, 3e-3), (16, 1e-2), (32, 3e-2))  # the same on cells that are fine at steps
_MOST_CELLS, _CHEAP = 20_000, {2: 11_000, 3: 5_000}
_ROUND = {2: (5, 10, 13, 15, 17, 20, 25), 3: (3, 6, 7, 9)}  # many lattice points on the sphere


@tells_arguments
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
) -> VectorDesign:
    """Noise in the plane: :func:`design_vector_noise` with ``dim=2``, and the same arguments.

    Examples
    --------
    >>> design = design_planar_noise(epsilon=1.0, delta=0.3, ball="linf", resolution=2)
    >>> 0 < design.lower < design.upper, str(design.guarantee())
    (True, 'epsilon = 1, delta = 0.3, replace-one neighbours, exact')
    """
    return design_vector_noise(
        dim=2,
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        ball=ball,
        loss=loss,
        resolution=resolution,
        support=support,
        lower_resolution=lower_resolution,
        progress=progress,
    )


@tells_arguments
def design_vector_noise(
    *,
    dim: int,
    epsilon: Number,
    delta: Number,
    sensitivity: Number = 1.0,
    ball: str = "l2",
    loss: str = "l1",
    resolution: int = 3,
    support: object = None,
    lower_resolution: int | None = None,
    progress: bool = False,
) -> VectorDesign:
    """Noise for two or three numbers with the least expected loss for (epsilon, delta), certified.

    Parameters
    ----------
    dim : {2, 3}
        Entries of the query.
    epsilon, delta : float, Fraction or Decimal
        delta in (0, 1).
    sensitivity : float
        Radius of the ball of changes of the query.
    ball : {"l2", "l1", "linf"}
    loss : {"l1", "l2"}
        The sum of abs(x), or of x**2, over the entries.
    resolution : int
        Cells per ``sensitivity``. The work grows with the number of cells in the support: at
        epsilon = 2 a resolution of 8 takes seconds for two entries; for three entries 3 takes
        seconds, 4 a minute. In the plane even resolutions from 12 on are found by refinement: the
        cells of half the resolution are cut where that noise has its steps
        (:mod:`tightdp.design.vector_refine`), which pays at large epsilon. Smaller epsilon and
        delta need wider supports and smaller resolutions.
    support : float, optional
        Half-width of the support, in units of ``sensitivity``.
    lower_resolution : int, optional
        Resolution of the lower bound; by default one with many lattice points on the sphere.
    progress : bool
        Print what is being solved.

    Returns
    -------
    VectorDesign

    Examples
    --------
    >>> design = design_vector_noise(dim=3, epsilon=3.0, delta=0.3, ball="linf", resolution=1)
    >>> 0 < design.lower < design.upper, design.sample(rng=1).shape
    (True, (3,))
    """
    if check_count("dim", dim) not in FORMATS:
        fail(f"`dim` must be 2 or 3. Got {shown(dim)}.")
    asked, spare = check_promise(epsilon, delta)
    check_positive("sensitivity", sensitivity)
    width = support_for(asked, spare)
    if support is not None:
        width = check_within("support", support, "[1, 10000]", "1 is the radius of the ball")
    task = VectorTask(
        dim=dim,
        epsilon=asked,
        delta=spare,
        ball=check_choice("ball", ball, BALLS),
        loss=check_choice("loss", loss, tuple(POWERS)),
        cells=check_count("resolution", resolution, most=64),
        width=width,
        widenings=0 if support is not None else 3,
    )
    fine = finer_lattice_for(task) if lower_resolution is None else lower_resolution
    fine = check_count("lower_resolution", fine, most=64)
    if max(task.count(0, task.cells), task.count(1, fine)) > _MOST_CELLS:
        fail(
            f"`resolution` must leave at most {_MOST_CELLS} cells. The support is "
            f"{width:g} times the sensitivity: use a smaller `resolution` or `lower_resolution`."
        )
    say = print if check_flag("progress", progress) else _silent
    noise = _best_noise(task, say)
    say(f"lower bound at resolution {fine}")
    design = replace(
        noise,
        sensitivity=exact_fraction("sensitivity", sensitivity),
        bound=lattice_bound(task, fine, Fraction(noise.half, task.cells)),
    )
    design.verify()
    return design


@dataclass(frozen=True)
class VectorTask:
    """The problem for a ball of radius 1, with ``cells`` cells per radius."""

    dim: int
    epsilon: Fraction
    delta: Fraction
    ball: str
    loss: str
    cells: int
    width: float
    widenings: int

    def count(self, padding: int, cells: int) -> int:
        """Cells of the cube that holds the support and its padding, in radii of ``cells`` cells."""
        return int((2 * math.ceil((self.width + padding) * cells) + 1) ** self.dim)


def _best_noise(task: VectorTask, say: Callable[[str], None]) -> VectorDesign:
    """The better of the two layouts, rounded and proved private; its bound is empty.

    Refined cells nest in one of them alone: those between whole numbers.
    """
    best: VectorDesign | None = None
    refined = is_refined(task.cells, task.dim)
    for centred in (False,) if refined else (True, False):
        for samples, share in _REFINED if refined else _ATTEMPTS[task.dim]:
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


def _noise(task: VectorTask, centred: bool, samples: int, share: float) -> VectorDesign | None:
    """One proposal as integers; the support is widened when nothing private fits into it."""
    for widening in range(task.widenings + 1):
        half = math.ceil(task.width * 1.5**widening * task.cells)
        try:
            noise = _proposal(task, half, centred, samples, share)
        except InfeasibleError:
            continue
        return VectorDesign(
            epsilon=task.epsilon,
            delta=task.delta,
            sensitivity=Fraction(1),
            ball=task.ball,
            loss=task.loss,
            resolution=task.cells,
            half=noise.grid.half,
            centred=centred,
            weights=tuple(int(w * 2.0**_WEIGHT_BITS) for w in noise.weights),
            atom=int(noise.atom * 2.0**_WEIGHT_BITS),
            bound=NO_BOUND,
            dim=task.dim,
        )
    return None


def _proposal(task: VectorTask, half: int, centred: bool, samples: int, share: float) -> Noise:
    """What the programs propose for a support, with a share of delta spared for the proof."""
    odds, delta = math.exp(task.epsilon), float(task.delta) * (1 - share)
    wish = Wish(task.ball, task.loss, odds, delta, samples)
    if is_refined(task.cells, task.dim):
        even = 4 * math.ceil(half / 4)
        return propose_refined(even, task.cells, wish, tolerated=0.7 * share)
    grid = VectorGrid(half, dim=task.dim, centred=centred)
    return propose_noise(grid, task.cells, wish)


def lattice_bound(task: VectorTask, cells: int, reach: Fraction) -> VectorBound:
    """The lower bound of a lattice with ``cells`` cells per radius, as wide as the noise."""
    widest = (_MOST_CELLS ** (1 / task.dim) - 1) / 2 - cells
    window = min(math.ceil(reach * cells), max(math.ceil(task.width * cells), int(widest)))
    proposal = propose_bound(
        VectorGrid(window + cells, dim=task.dim, window=window),
        cells=cells,
        ball=task.ball,
        loss=task.loss,
        factor=math.exp(task.epsilon),
        delta=float(task.delta),
    )
    return VectorBound.rounded(proposal, cells)


def support_for(epsilon: Fraction, delta: Fraction) -> float:
    """1.35 times the half-width of truncated Laplace noise, in halves."""
    rate = float(epsilon)
    reach = math.log1p(math.expm1(rate) / (2 * float(delta))) / rate
    return max(1.0, math.ceil(2.7 * reach) / 2)


def finer_lattice_for(task: VectorTask) -> int:
    """The least radius with many lattice points that is not coarser than the noise, if cheap.

    Otherwise the largest such radius that is, for the bound gains less from it than it costs.
    """
    cheap = [r for r in _ROUND[task.dim] if task.count(1, r) <= _CHEAP[task.dim]]
    return next((r for r in cheap if r >= task.cells), cheap[-1] if cheap else task.cells)


def _silent(message: str) -> None:
    """Say nothing."""
