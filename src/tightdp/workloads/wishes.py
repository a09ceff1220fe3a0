"""Wishes for the errors of tables: weights at which all miss theirs by about one factor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightdp.errors import FloatArray, check_within, fail, quoted
from tightdp.privacy import Neighbors
from tightdp.workloads.planner import plan
from tightdp.workloads.residuals import Workload

_POSSIBLE = (
    "no budget makes a standard error 0; wish for a small one, such as 0.1 counts, and "
    "epsilon_for says what it costs"
)


def balanced(work: Workload, neighbors: Neighbors, targets: object) -> list[float]:
    """Weights at which the errors of Gaussian noise miss all targets by about one factor.

    >>> balanced(Workload([2, 2], [(0,), (1,)]), Neighbors.REPLACE_ONE, [1, 1])
    [1.0, 1.0]
    """
    wish = check_targets(targets, len(work.tables))
    weights = 1 / (wish**2 * [work.cells(table) for table in work.tables])
    for _ in range(12):
        found = plan(work.reweighted(weights), neighbors).variances
        missed = np.array([work.cell_variance(table, found) for table in work.tables]) / wish**2
        weights = weights * np.clip(missed / missed.max(), 1e-3, 1)
    return list(np.maximum(weights / weights.max(), 1e-9).tolist())


def check_targets(targets: object, count: int) -> FloatArray:
    """A positive number for every table."""
    if not isinstance(targets, (list, tuple, np.ndarray)) or len(targets) != count:
        fail(
            f"`targets` must be a list of {count} standard errors, one for each table. Got "
            f"{quoted(targets)}."
        )
    return np.array([check_within("targets", wish, "[1e-6, 1e12]", _POSSIBLE) for wish in targets])


def of_entries(targets: object, stated: int, items: int, sizes: Sequence[int]) -> FloatArray | None:
    """The wish for every entry of a book: of tables that are stated, of those that come with means
    and have none, and of means and sums; None where nothing is wished.

    >>> of_entries([5, 0.5], 1, 1, [2, 3, 1])
    array([5. , 5. , inf, inf, inf, 0.5])
    """
    if targets is None:
        return None
    wish = check_targets(targets, stated + items)
    free = np.full(len(sizes) - stated - items, np.inf)
    return np.repeat(np.concatenate([wish[:stated], free, wish[stated:]]), sizes)
