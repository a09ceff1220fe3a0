r"""Distributions over many columns that are products of small tables, computed clique by clique.

A graphical model over columns with finitely many cells is :math:`p(x) \propto \exp \sum_r
\theta_r(x_r)`, one array of weights for every table r of a few columns. Eliminating the columns one
by one groups the tables into cliques that form a tree; on it all sums over cells are done exactly,
in time proportional to the cells of the cliques. Nothing here is data: it reads noisy tables only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tightdp.errors import FloatArray

Scope = tuple[int, ...]
"""The columns of a table, by their places, increasing."""


@dataclass(frozen=True, slots=True)
class Clique:
    """One clique: the columns it shares with its parent come first, then those it adds."""

    shared: Scope
    own: Scope
    parent: int
    """Its place in the tree; -1 of the root."""

    @property
    def columns(self) -> Scope:
        return self.shared + self.own


class JunctionTree:
    """Cliques that hold all tables, in an order in which parents come first.

    Columns are eliminated greedily, the one whose clique has fewest cells first (ties by place), so
    that the tree is a function of sizes and tables alone.

    Parameters
    ----------
    sizes : sequence of int
        Cells of every column.
    tables : iterable of sequences of int
        The columns of every table.

    Examples
    --------
    >>> tree = JunctionTree([2, 3, 4], [(0, 1), (1, 2)])
    >>> [clique.columns for clique in tree.cliques], tree.cells
    ([(0, 1), (1, 2)], 18)
    """

    def __init__(self, sizes: Sequence[int], tables: Iterable[Sequence[int]]) -> None:
        self.sizes = tuple(sizes)
        self.cliques = _rooted(_maximal(_eliminated(self.sizes, tables)))
        self.cells = sum(self.cells_of(clique.columns) for clique in self.cliques)

    def cells_of(self, columns: Iterable[int]) -> int:
        """How many cells a table of these columns has."""
        return math.prod(self.sizes[j] for j in columns)

    def shape(self, columns: Sequence[int]) -> tuple[int, ...]:
        """The sides of a table."""
        return tuple(self.sizes[j] for j in columns)

    def home(self, table: Iterable[int]) -> int:
        """The clique with fewest cells that holds a table."""
        wanted = set(table)
        holding = [i for i, c in enumerate(self.cliques) if wanted <= set(c.columns)]
        return min(holding, key=lambda i: self.cells_of(self.cliques[i].columns))

    def calibrated(self, weights: Sequence[FloatArray]) -> Calibrated:
        """The distribution with these log weights, an array for every clique."""
        return Calibrated(self, weights)


class Calibrated:
    """A distribution on a junction tree: chances of every clique's cells, given those it shares.

    Leaves to root, each clique is normalised given what it shares with its parent, which is told
    the logarithm of the sums; root to leaves, chances are multiplied. No number leaves the range of
    doubles, whatever the weights: a clique is measured from its largest weight.
    """

    __slots__ = ("conditionals", "marginals", "tree")

    def __init__(self, tree: JunctionTree, weights: Sequence[FloatArray]) -> None:
        self.tree = tree
        totals = [np.array(array, dtype=np.float64) for array in weights]
        for i in range(len(totals) - 1, -1, -1):
            clique = tree.cliques[i]
            shared = tree.cells_of(clique.shared)
            flat = totals[i].reshape(shared, -1)
            top = flat.max(axis=1)
            np.subtract(flat, top[:, None], out=flat)
            np.exp(flat, out=flat)
            sums = flat.sum(axis=1)
            flat /= sums[:, None]
            if clique.parent >= 0:
                told = (top + np.log(sums)).reshape(tree.shape(clique.shared))
                owner = tree.cliques[clique.parent].columns
                totals[clique.parent] += spread(told, clique.shared, owner)
        self.conditionals = totals
        self.marginals: list[FloatArray] = []
        for clique, given in zip(tree.cliques, totals, strict=True):
            if clique.parent < 0 or not clique.shared:
                self.marginals.append(given)
                continue
            owner = tree.cliques[clique.parent].columns
            before = summed(self.marginals[clique.parent], owner, clique.shared)
            self.marginals.append(given * spread(before, clique.shared, clique.columns))

    def marginal(self, table: Scope) -> FloatArray:
        """The chances of the cells of a table that lies in a clique."""
        home = self.tree.home(table)
        return summed(self.marginals[home], self.tree.cliques[home].columns, table)

    def joint(self, table: Scope) -> FloatArray:
        """The chances of the cells of any table, whether it lies in a clique or not.

        Cliques on the way between its columns are multiplied into it from the root on. Of each only
        the columns are kept that the table, or a clique to come, asks for.
        """
        tree = self.tree
        order = _between(tree, table)
        held, array = tree.cliques[order[0]].columns, self.marginals[order[0]]
        for place, i in enumerate(order):
            clique = tree.cliques[i]
            later = set(table).union(*(tree.cliques[j].shared for j in order[place + 1 :]))
            kept = tuple(column for column in held if column in later)
            if place == 0:
                array, held = summed(array, held, kept), kept
                continue
            wanted = clique.shared + tuple(column for column in clique.own if column in later)
            part = summed(self.conditionals[i], clique.columns, wanted)
            whole = held + tuple(column for column in wanted if column not in held)
            array = spread(array, held, whole) * spread(part, wanted, whole)
            held = tuple(column for column in whole if column in later)
            array = summed(array, whole, held)
        return summed(array, held, table)


def _between(tree: JunctionTree, table: Scope) -> list[int]:
    """The cliques on the paths between those that hold the columns of a table, parents first."""
    wanted, cliques = set(table), tree.cliques
    keep = set(range(len(cliques)))
    children: list[set[int]] = [set() for _ in cliques]
    for j, clique in enumerate(cliques[1:], start=1):
        children[clique.parent].add(j)
    for i in range(len(cliques) - 1, 0, -1):  # leaves that add nothing
        clique = cliques[i]
        if not children[i] & keep and wanted.isdisjoint(clique.own):
            keep.discard(i)
    root = 0
    while len(below := children[root] & keep) == 1:  # a root that adds nothing to its only child
        (child,) = below
        if not wanted & set(cliques[root].columns) <= set(cliques[child].shared):
            break
        keep.discard(root)
        root = child
    return sorted(keep)


# --- arrays over columns --------------------------------------------------------------------------


def spread(array: FloatArray, columns: Scope, over: Scope) -> FloatArray:
    """A table as one that is broadcast over the axes of a larger one.

    >>> spread(np.ones((2, 3)), (1, 0), (0, 1, 2)).shape
    (3, 2, 1)
    """
    order = sorted(range(len(columns)), key=lambda axis: over.index(columns[axis]))
    sides = [1] * len(over)
    for axis, column in enumerate(columns):
        sides[over.index(column)] = array.shape[axis]
    return array.transpose(order).reshape(sides)


def summed(array: FloatArray, columns: Scope, onto: Scope) -> FloatArray:
    """The table of some columns of a larger one, in the order asked for.

    >>> summed(np.ones((2, 3, 4)), (0, 1, 2), (2, 0)).shape
    (4, 2)
    """
    away = [axis for axis, column in enumerate(columns) if column not in onto]
    rest = array
    for done, axis in enumerate(away):  # one by one from the first: numpy adds whole blocks
        rest = rest.sum(axis=axis - done)
    left = [column for column in columns if column in onto]
    return rest.transpose([left.index(column) for column in onto])


# --- the tree -------------------------------------------------------------------------------------


def model_cells(sizes: Sequence[int], tables: Iterable[Sequence[int]]) -> int:
    """The cells of all cliques that these tables need.

    >>> model_cells([2, 3, 4], [(0, 1), (1, 2), (0, 2)])
    24
    """
    cliques = _maximal(_eliminated(tuple(sizes), tables))
    return sum(math.prod(sizes[j] for j in clique) for clique in cliques)


def _eliminated(sizes: tuple[int, ...], tables: Iterable[Sequence[int]]) -> list[frozenset[int]]:
    """The cliques that arise when columns are taken away one by one."""
    beside: list[set[int]] = [set() for _ in sizes]
    for table in tables:
        for j in table:
            beside[j] |= set(table)
    for j, others in enumerate(beside):
        others.discard(j)
    logs = [math.log(size) for size in sizes]
    left, found = set(range(len(sizes))), []

    def cost_of(j: int) -> float:
        return round(logs[j] + sum(logs[k] for k in beside[j]), 9)

    cost = {j: cost_of(j) for j in left}
    while left:
        first = min(left, key=lambda j: (cost[j], j))
        around = beside[first]
        found.append(frozenset(around | {first}))
        left.discard(first)
        for j in around:
            beside[j] |= around
            beside[j] -= {j, first}
        for j in around:
            cost[j] = cost_of(j)
    return found


def _maximal(cliques: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Those that lie in no other; a clique can only lie in one that arose earlier."""
    kept: list[frozenset[int]] = []
    for clique in cliques:
        if not any(clique <= other for other in kept):
            kept.append(clique)
    return kept


def _rooted(cliques: list[frozenset[int]]) -> tuple[Clique, ...]:
    """A spanning tree of the largest overlaps, from its root: a junction tree.

    Maximal cliques of an elimination order have one, and every spanning tree whose overlaps add up
    to the most is one.
    """
    root = max(range(len(cliques)), key=lambda i: (len(cliques[i]), -i))
    placed = {root: Clique((), tuple(sorted(cliques[root])), -1)}
    order = [root]
    best = {i: (len(cliques[i] & cliques[root]), root) for i in range(len(cliques)) if i != root}
    while best:
        i = max(best, key=lambda k: (best[k][0], -k))
        _, parent = best.pop(i)
        common = cliques[i] & cliques[parent]
        own = tuple(sorted(cliques[i] - common))
        placed[i] = Clique(tuple(sorted(common)), own, order.index(parent))
        order.append(i)
        for k in best:
            overlap = len(cliques[k] & cliques[i])
            if overlap > best[k][0]:
                best[k] = overlap, i
    return tuple(placed[i] for i in order)
