"""The only door of the geometry to a linear-program solver.

The solver has absolute tolerances and drops coefficients below 1e-9, so every program is brought to
unit size first, variable by variable (by powers of two, which are exact): bodies may be 1e9 wide
along one axis and 1e-6 along another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tightdp.errors import DegenerateBodyError, FloatArray, UndecidedError, fail
from tightdp.geometry.units import column_scales

_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

LP_SLACK = 5e-10  # relative error of an optimal value under these tolerances
CUT_SLACK = 1e-8  # relative error at which cutting planes stop: the solver may stall below


def maximize(
    c: FloatArray,
    A: FloatArray,
    b: FloatArray,
    *,
    nonnegative: bool = False,
    box: FloatArray | None = None,
) -> tuple[float, FloatArray]:
    """max c.x subject to A x <= b (and x >= 0, or |x| <= box, if asked): value and maximiser."""
    from scipy.optimize import linprog

    unit = column_scales(A)
    bounds: Any = (0, None) if nonnegative else (None, None)
    if box is not None:
        bounds = np.column_stack([-box, box]) * unit[:, None]
    goal = c / unit
    weight = float(np.abs(goal).max()) or 1.0
    result = linprog(
        -goal / weight, A_ub=A / unit, b_ub=b, bounds=bounds, method="highs", options=_TIGHT
    )
    if result.status == 3:
        fail(
            "The body is unbounded: add inequalities that bound every direction.",
            DegenerateBodyError,
        )
    if result.status != 0:
        fail(
            f"The linear-program solver stopped without an answer ({result.message}).",
            UndecidedError,
        )
    return float(-result.fun) * weight, np.asarray(result.x) / unit


def gauge_of_hull(x: FloatArray, vertices: FloatArray) -> FloatArray:
    """Least l1 norm of weights w with ``w @ vertices = x``: gauge of conv(+-vertices), per row."""
    from scipy.optimize import linprog

    unit = column_scales(vertices)
    both = np.vstack([vertices, -vertices]).T / unit[:, None]
    out = np.empty(len(x))
    for i, row in enumerate(x / unit):
        scale = np.abs(row).max()
        if scale == 0:
            out[i] = 0.0
            continue
        result = linprog(
            np.ones(both.shape[1]), A_eq=both, b_eq=row / scale, method="highs", options=_TIGHT
        )
        out[i] = scale * result.fun if result.status == 0 else np.inf
    return out


def support_by_cuts(
    c: FloatArray,
    gauge: Callable[[FloatArray], FloatArray],
    normals: Callable[[FloatArray], FloatArray],
    *,
    tolerance: float = CUT_SLACK,
    rounds: int = 500,
) -> FloatArray:
    """Maximisers of ``c . x`` over ``{gauge <= 1}`` by Kelley's cutting planes.

    The polyhedron of all cuts found so far contains the body, so its optimum bounds the support
    from above; the optimum scaled back to the boundary bounds it from below. Stops when the two
    agree to ``tolerance`` (relative).
    """
    dim = c.shape[1]
    axes = np.eye(dim)
    reach = 1.0 / gauge(axes)  # along each axis: the unit of length in which bounds are set
    cuts = np.vstack([normals(axes), normals(-axes)])
    out = np.zeros_like(c)
    for i, row in enumerate(c):
        if not row.any():
            continue
        cuts = np.vstack([cuts, normals(row[None, :]), normals(-row[None, :])])
        best, best_value = np.zeros(dim), 0.0
        box = 1e6 * reach  # keeps the polyhedron bounded while cuts are few
        for _ in range(rounds):
            upper, x = maximize(row, cuts, np.ones(len(cuts)), box=box)
            size = gauge(x[None, :])[0]
            if row @ x / size > best_value:
                best, best_value = x / size, float(row @ x / size)
            boxed = bool((np.abs(x) >= 0.999 * box).any())  # then ``upper`` is no bound
            if upper <= best_value * (1 + tolerance) and not boxed:
                break
            if boxed and size <= 1:  # the box cuts into the body
                box = 1e3 * box
                continue
            cuts = np.vstack([cuts, normals(x[None, :]), normals(-x[None, :])])
        else:
            fail(
                "The support function did not converge: use a body with a closed form.",
                UndecidedError,
            )
        out[i] = best
    return out
