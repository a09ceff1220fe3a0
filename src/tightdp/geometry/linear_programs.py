"""The only door of the geometry to a linear-program solver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tightdp.errors import DegenerateBodyError, FloatArray, UndecidedError, fail

_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def maximize(
    c: FloatArray, A: FloatArray, b: FloatArray, *, nonnegative: bool = False
) -> tuple[float, FloatArray]:
    """max c.x subject to A x <= b (and x >= 0 if asked): value and maximiser."""
    from scipy.optimize import linprog

    bounds = (0, None) if nonnegative else (None, None)
    result = linprog(-c, A_ub=A, b_ub=b, bounds=bounds, method="highs", options=_TIGHT)
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
    return float(-result.fun), np.asarray(result.x)


def gauge_of_hull(x: FloatArray, vertices: FloatArray) -> FloatArray:
    """Least l1 norm of weights w with ``w @ vertices = x``: gauge of conv(+-vertices), per row."""
    from scipy.optimize import linprog

    both = np.vstack([vertices, -vertices]).T
    out = np.empty(len(x))
    for i, row in enumerate(x):
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
    tolerance: float = 1e-8,
    rounds: int = 500,
) -> FloatArray:
    """Maximisers of ``c . x`` over ``{gauge <= 1}`` by Kelley's cutting planes.

    The polyhedron of all cuts found so far contains the body, so its optimum bounds the support
    from above; the optimum scaled back to the boundary bounds it from below. Stops when the two
    agree to ``tolerance`` (relative).
    """
    dim = c.shape[1]
    axes = np.eye(dim)
    cuts = np.vstack([normals(axes), normals(-axes)])
    out = np.zeros_like(c)
    for i, row in enumerate(c):
        if not row.any():
            continue
        cuts = np.vstack([cuts, normals(row[None, :]), normals(-row[None, :])])
        best, best_value = np.zeros(dim), 0.0
        for _ in range(rounds):
            upper, x = _bounded_maximum(row, cuts)
            size = gauge(x[None, :])[0]
            if row @ x / size > best_value:
                best, best_value = x / size, float(row @ x / size)
            if upper <= best_value * (1 + tolerance):
                break
            cuts = np.vstack([cuts, normals(x[None, :]), normals(-x[None, :])])
        else:
            fail(
                "The support function did not converge: use a body with a closed form.",
                UndecidedError,
            )
        out[i] = best
    return out


def _bounded_maximum(c: FloatArray, cuts: FloatArray) -> tuple[float, FloatArray]:
    """Maximum over the polyhedron of cuts, kept bounded by a huge box while cuts are few."""
    from scipy.optimize import linprog

    result = linprog(
        -c, A_ub=cuts, b_ub=np.ones(len(cuts)), bounds=(-1e6, 1e6), method="highs", options=_TIGHT
    )
    if result.status != 0:
        fail(
            f"The linear-program solver stopped without an answer ({result.message}).",
            UndecidedError,
        )
    return float(-result.fun), np.asarray(result.x)
