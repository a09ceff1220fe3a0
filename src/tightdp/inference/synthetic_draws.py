"""Rows that are drawn from a fitted distribution over cells: balanced, or each for itself."""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray, Integers
from tightdp.inference.junction_trees import Calibrated, Scope, summed
from tightdp.randomness import RandomSource

_ENTRIES = 1 << 20  # of a table of rows by cells, at a time


def drawn_codes(model: Calibrated, size: int, rng: RandomSource, *, balanced: bool) -> Integers:
    """The cells of so many rows in all columns, shape (size, columns).

    Columns are drawn one after the other, each given those of its clique that are there. Balanced
    rows share out every conditional table by systematic sampling: among the rows of a group each
    cell has its expected number, rounded up or down at random, so that tables of the rows are
    nearer to the model's than those of independent rows. The order of the rows is random.

    >>> from tightdp.inference.junction_trees import JunctionTree
    >>> from tightdp.randomness import source
    >>> model = JunctionTree([2, 2], [(0, 1)]).calibrated([np.log([[3.0, 1.0], [1.0, 3.0]])])
    >>> codes = drawn_codes(model, 800, source(1), balanced=True)
    >>> np.bincount(2 * codes[:, 0] + codes[:, 1])
    array([300, 100, 100, 300])
    """
    codes = np.zeros((size, len(model.tree.sizes)), dtype=np.int64)
    for clique, given in zip(model.tree.cliques, model.conditionals, strict=True):
        known: Scope = clique.shared
        for column in clique.own:
            table = summed(given, clique.columns, (*known, column))
            chances = table.reshape(-1, table.shape[-1])
            sums = chances.sum(axis=1, keepdims=True)
            # a group that the model gives no chance has no rows: any law serves
            even = np.full(chances.shape, 1 / chances.shape[1])
            law = np.divide(chances, sums, out=even, where=sums > 0)
            sides = table.shape[:-1]
            places = tuple(codes[:, j] for j in known)
            groups = np.ravel_multi_index(places, sides) if known else np.zeros(size, dtype=np.intp)
            shares = _balanced(groups, rng) if balanced else rng.uniform(size)
            codes[:, column] = _picked(law, groups, shares)
            known = (*known, column)
    return codes


def _balanced(groups: Integers, rng: RandomSource) -> FloatArray:
    """For every row a place in (0, 1): those of a group lie evenly, from a random start."""
    size = len(groups)
    if size == 0:
        return np.empty(0)
    order = np.lexsort((rng.uniform(size), groups))
    ordered = groups[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    many = np.diff(np.append(first, size))
    rank = np.arange(size) - np.repeat(first, many)
    start = np.repeat(rng.uniform(len(first)), many)
    out = np.empty(size)
    out[order] = (rank + start) / np.repeat(many, many)
    return out


def _picked(law: FloatArray, groups: Integers, shares: FloatArray) -> Integers:
    """The cell of each row: where its share lies among the cumulated chances of its group."""
    upto = np.cumsum(law, axis=1)[:, :-1]
    out = np.empty(len(groups), dtype=np.int64)
    step = max(1, _ENTRIES // law.shape[1])
    for begin in range(0, len(groups), step):
        part = slice(begin, begin + step)
        out[part] = (shares[part, None] > upto[groups[part]]).sum(axis=1)
    return out
