"""The only door of the designs to a linear-program solver.

A solver's answer is a proposal: nothing that leaves this module is believed before the certificates
have checked it in integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import FloatArray, UndecidedError, fail

TOLERANCE = 1e-10  # the least that the solver takes
_TIGHT = {
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}


class InfeasibleError(UndecidedError):
    """No point meets all constraints of a linear program."""


class OutOfTimeError(UndecidedError):
    """The time limit came before the optimum."""


@dataclass(frozen=True)
class Solution:
    r"""An optimal point of ``min cost.x, matrix x <= upper, equal x = equal_to, x >= lower``.

    The multipliers :math:`y \ge 0` of the rows and z of the equations satisfy, up to the solver's
    tolerance and for lower = 0, :math:`c + A^T y - E^T z \ge 0` and value :math:`= z.f - y.b`.
    """

    x: FloatArray
    value: float
    row_duals: FloatArray
    equal_duals: FloatArray


def solve(
    cost: FloatArray,
    matrix: Any,
    upper: FloatArray,
    *,
    equal: Any = None,
    equal_to: FloatArray | None = None,
    lower: Any = 0.0,
    interior: bool = False,
    seconds: float | None = None,
) -> Solution:
    """Solve a linear program with sparse or dense rows.

    Parameters
    ----------
    cost : array, shape (n,)
    matrix, upper : array or sparse matrix, shape (rows, n), and array, shape (rows,)
        ``matrix @ x <= upper``.
    equal, equal_to
        ``equal @ x = equal_to``.
    lower : float or array
        Least value of each variable; -inf for free ones.
    interior : bool
        Interior point with crossover instead of the simplex method: for large programs.
    seconds : float, optional
        Time limit; :class:`OutOfTimeError` when it comes first.

    Examples
    --------
    >>> found = solve(np.array([1.0, 2.0]), np.array([[-1.0, -1.0]]), np.array([-1.0]))
    >>> found.value, found.x.tolist(), found.row_duals.tolist()
    (1.0, [1.0, 0.0], [1.0])
    """
    from scipy.optimize import linprog

    least = np.broadcast_to(np.asarray(lower, dtype=np.float64), (len(cost),))
    bounds = np.column_stack([least, np.full(len(cost), np.inf)])
    options: dict[str, Any] = dict(_TIGHT)
    if seconds is not None:
        options["time_limit"] = max(seconds, 0.01)
    found = linprog(
        cost,
        A_ub=matrix,
        b_ub=upper,
        A_eq=equal,
        b_eq=equal_to,
        bounds=bounds,
        method="highs-ipm" if interior else "highs",
        options=options,
    )
    if found.status == 2:
        fail("No point meets all constraints of the program.", InfeasibleError)
    if found.status == 1 and seconds is not None:
        fail(f"The program was not solved within {seconds:g} seconds.", OutOfTimeError)
    if found.status != 0 or not math.isfinite(found.fun):
        fail(f"The solver stopped without an answer ({found.message}).", UndecidedError)
    return Solution(
        x=np.asarray(found.x, dtype=np.float64),
        value=float(found.fun),
        row_duals=np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0),
        equal_duals=np.asarray(found.eqlin.marginals, dtype=np.float64),
    )
