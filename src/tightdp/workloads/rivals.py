r"""What other ways of publishing many tables would have for variance, for comparisons.

All are totals over all cells, by the weights of the tables, from formulas:

- *Laplace on every cell*: each of T tables gets epsilon/T, and a cell the discrete Laplace law of
  the rate :math:`\epsilon/(2T)`, or :math:`\epsilon/T` if rows are added or removed;
- *one Gaussian per table*: all cells alike, for a squared move of 2 (or 1) in every table;
- *residual planner*: the best variances of residuals if a row is added (Xiao, He, Zhang and Kifer,
  2023); a row that is replaced counts as two rows, which makes the move twice as long, so that
  variances are four times as large.
"""

from __future__ import annotations

import math

import numpy as np

from tightdp.privacy import Neighbors
from tightdp.workloads.planner import plan
from tightdp.workloads.residuals import Workload


def _cells(work: Workload) -> float:
    """Cells of all tables, by their weights."""
    return float(np.dot(work.weights, [work.cells(table) for table in work.tables]))


def laplace_total(work: Workload, neighbors: Neighbors, epsilon: float) -> float:
    """Of Laplace noise on every cell.

    >>> round(laplace_total(Workload([2], [(0,)]), Neighbors.REPLACE_ONE, 1.0), 2)  # 16 - 2/6
    15.67
    """
    moves = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    rate = epsilon / (moves * len(work.tables))
    return _cells(work) / (2 * math.sinh(rate / 2) ** 2)


def gaussian_total(work: Workload, neighbors: Neighbors) -> float:
    """Of one Gaussian on all cells alike, for a squared move of 1 in standard deviations."""
    moves = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    return _cells(work) * moves * len(work.tables)


def planner_total(work: Workload, neighbors: Neighbors) -> float:
    """Of the planner that knows rows that are added, for a squared move of 1."""
    added = plan(work, Neighbors.ADD_REMOVE).total
    return 4 * added if neighbors is Neighbors.REPLACE_ONE else added
