r"""A distribution over many columns from noisy tables of a few: least squares, by mirror descent.

Of all distributions p whose tables fit the noisy ones best, :math:`\min_p \sum_r \frac{1}{2 v_r}
\lVert n\,\mu_r(p) - y_r \rVert^2` with the known variances v, one is a graphical model over the
same tables [McKenna, Sheldon and Miklau, 2019]. It is approached by mirror descent: a step
subtracts a multiple of the gradient in the tables from the log weights, so that every iterate is a
graphical model, non-negative, and of greatest entropy among those with its tables. Steps look ahead
along the last one (Nesterov's momentum); where that leads up, they start again from the best
weights found, with a smaller step.

The number of steps is bounded, and depends on what is released alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tightdp.errors import FloatArray, Integers
from tightdp.inference.junction_trees import Calibrated, JunctionTree, Scope, spread, summed

_LARGEST = 1e15  # counts beyond are no counts of rows: floats of squares stay finite
_NOTHING, _STILL = 1e-7, 8  # so many steps that gain hardly anything are the last ones
_FIRST, _GROWN, _SHRUNK = 8.0, 1.05, 0.7  # of the step, against the one that is always safe


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """Noisy counts of the cells of some columns, and the variance of the noise on each cell.

    Or of groups of cells: then ``groups`` says of every cell of the columns, in the order of
    ``numpy.ravel``, in which it is, and ``counts`` has an entry for every group.
    """

    columns: Scope
    counts: FloatArray
    variance: float
    groups: Integers | None = None

    def measured(self, cells: FloatArray) -> FloatArray:
        """Counts of all cells as what the table counts."""
        if self.groups is None:
            return cells
        sums = np.bincount(self.groups, cells.ravel(), self.counts.size)
        return np.asarray(sums, dtype=np.float64)

    def folded(self, slope: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """A slope in what the table counts, as one in all cells: that of its group for each."""
        return slope if self.groups is None else slope[self.groups].reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class TableFit:
    """A fitted distribution: the log weights of its largest tables, and the model they make."""

    total: float
    weights: Mapping[Scope, FloatArray]
    model: Calibrated
    loss: float

    def counts(self, table: Scope) -> FloatArray:
        """Expected counts of the cells of a table."""
        return self.total * self.model.joint(table)


def merged(tables: Sequence[NoisyTable]) -> list[NoisyTable]:
    """One table for every set of columns and groups: the same ones are averaged by precision.

    >>> twice = [NoisyTable((0,), np.array([2.0, 4.0]), 1.0), NoisyTable((0,), np.zeros(2), 3.0)]
    >>> (once,) = merged(twice)
    >>> once.counts, once.variance
    (array([1.5, 3. ]), 0.75)
    """
    found: dict[tuple[Scope, bytes], NoisyTable] = {}
    for table in tables:
        key = table.columns, b"" if table.groups is None else table.groups.tobytes()
        values = np.clip(np.asarray(table.counts, dtype=np.float64), -_LARGEST, _LARGEST)
        if (before := found.get(key)) is None:
            found[key] = replace(table, counts=values)
            continue
        precision = 1 / before.variance + 1 / table.variance
        sums = before.counts / before.variance + values / table.variance
        found[key] = replace(table, counts=sums / precision, variance=1 / precision)
    return list(found.values())


def fit_tables(
    sizes: Sequence[int],
    tables: Sequence[NoisyTable],
    total: float,
    steps: int,
    start: Mapping[Scope, FloatArray] | None = None,
) -> TableFit:
    """The distribution whose tables are nearest to the noisy ones, after so many steps at most.

    Parameters
    ----------
    sizes : sequence of int
        Cells of every column.
    tables : sequence of NoisyTable
    total : float
        The number of rows, public or estimated.
    steps : int
        Each takes time in proportion to the cells of the model.
    start : mapping, optional
        Log weights of an earlier fit; their tables must lie in these.

    Examples
    --------
    >>> tables = [NoisyTable((0, 1), np.array([[30.0, -2.0], [10.0, 62.0]]), 4.0)]
    >>> fit_tables([2, 2], tables, total=100.0, steps=200).counts((0, 1)).round(1)
    array([[29.3,  0. ],
           [ 9.3, 61.3]])
    """
    problem = _Problem(sizes, merged(tables), total)
    best = here = problem.at(problem.placed({} if start is None else start))
    last, pace, run, still = best.weights, _FIRST * problem.safe_step, 0, 0
    for _ in range(steps):
        if still == _STILL:
            break
        down = {host: array - pace * here.slope[host] for host, array in here.weights.items()}
        run += 1
        ahead = run / (run + 3)
        there = problem.at({host: a + ahead * (a - last[host]) for host, a in down.items()})
        if there.loss <= here.loss:
            still = still + 1 if here.loss - there.loss <= _NOTHING * (1 + here.loss) else 0
            last, here, pace = down, there, pace * _GROWN
            best = min(best, here, key=lambda point: point.loss)
        else:
            last, here, pace, run = best.weights, best, pace * _SHRUNK, 0
    return TableFit(total, best.weights, best.model, best.loss)


class _Point(NamedTuple):
    """Log weights of the largest tables, their model, its loss, and the slope of the loss."""

    weights: dict[Scope, FloatArray]
    model: Calibrated
    loss: float
    slope: dict[Scope, FloatArray]


class _Problem:
    """The loss and its slope in the log weights of the largest tables."""

    def __init__(self, sizes: Sequence[int], tables: Sequence[NoisyTable], total: float) -> None:
        self.tables, self.total = tables, total
        self.tree = JunctionTree(sizes, [table.columns for table in tables])
        scopes = [table.columns for table in tables]
        alone = [(j,) for j in range(len(sizes)) if not any(j in scope for scope in scopes)]
        self.hosts = _largest([*scopes, *alone])
        self.homes = {host: self.tree.home(host) for host in self.hosts}
        self.inside = [_holder(table.columns, self.hosts) for table in tables]
        self.safe_step = 1 / (total**2 * sum(1 / table.variance for table in tables))

    def placed(self, start: Mapping[Scope, FloatArray]) -> dict[Scope, FloatArray]:
        """Log weights of other tables as those of the largest ones; even where there are none."""
        weights = {host: np.zeros(self.tree.shape(host)) for host in self.hosts}
        for scope, array in start.items():
            host = _holder(scope, self.hosts)
            weights[host] = weights[host] + spread(array, scope, host)
        return weights

    def at(self, weights: dict[Scope, FloatArray]) -> _Point:
        """The model of these weights, its loss, and the slope of the loss in every table."""
        tree = self.tree
        cliques = [np.zeros(tree.shape(clique.columns)) for clique in tree.cliques]
        for host, array in weights.items():
            home = self.homes[host]
            cliques[home] += spread(array, host, tree.cliques[home].columns)
        model = tree.calibrated(cliques)
        shares = {
            host: summed(model.marginals[home], tree.cliques[home].columns, host)
            for host, home in self.homes.items()
        }
        slope = {host: np.zeros(array.shape) for host, array in shares.items()}
        loss = 0.0
        for table, host in zip(self.tables, self.inside, strict=True):
            cells = summed(shares[host], host, table.columns)
            away = self.total * table.measured(cells) - table.counts
            loss += float((away * away).sum()) / (2 * table.variance)
            steep = table.folded(away * (self.total / table.variance), cells.shape)
            slope[host] += spread(steep, table.columns, host)
        return _Point(weights, model, loss, slope)


def _largest(scopes: Sequence[Scope]) -> list[Scope]:
    """Those that lie in no other."""
    sets = {scope: set(scope) for scope in scopes}
    return [s for s in sets if not any(sets[s] < other for other in sets.values())]


def _holder(scope: Scope, hosts: Sequence[Scope]) -> Scope:
    """The first of the largest tables that holds one."""
    wanted = set(scope)
    return next(host for host in hosts if wanted <= set(host))
