"""AIM or MST of a checkout of private-pgm on one table of codes, under its own interpreter.

    python pgm_peer.py FOLDER DATA METHOD EPSILON DELTA SEED OUT [--plain]

``DATA.csv`` holds codes and ``DATA.json`` the number of levels of every column; rows go to
``OUT.csv``, seconds and settings to ``OUT.json``. It runs the version on JAX or the one on numpy
(before commit 84d2f1e), whichever the folder holds, at the settings of its authors: all pairs,
model size 80, 1,000 iterations, double precision.

The version on numpy takes one exponential of every cell for every message and two more for the
marginals. Unless ``--plain`` is given, its mirror descent runs with :class:`Tree`, which takes one:
the same steps, step sizes and stopping on the same model, equal but for rounding.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import types

FOLDER, DATA, METHOD, EPSILON, DELTA, SEED, OUT = sys.argv[1:8]
PLAIN = "--plain" in sys.argv[8:]
sys.path[:0] = [FOLDER + "/src", FOLDER + "/mechanisms", FOLDER]

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402


def stand_in(name, **names):
    """A module that is imported there, and draws or computes nothing here."""
    sys.modules.setdefault(name, types.ModuleType(name)).__dict__.update(names)


stand_in("matplotlib")
stand_in("matplotlib.pyplot")
stand_in("hdmm")
stand_in("autodp", privacy_calibrator=None)
stand_in("hdmm.matrix", Identity=sparse.eye)

import mbi  # noqa: E402


class Sums:
    """Tables of some of the columns of an array, summed over one column after the other.

    Tables that lack the same column share the sum over it, so that few of them need a walk over
    all cells; what is spread over the array from the tables takes the same way back.
    """

    def __init__(self, columns, sides, tables):
        self.columns, self.sides = columns, sides
        self.whole = tuple(columns) in [tuple(sorted(t, key=columns.index)) for t in tables]
        left = [table for table in tables if len(table) < len(columns)]
        self.below = []
        while left:
            lacked = {a: [t for t in left if a not in t] for a in columns}
            over = max(columns, key=lambda a: (len(lacked[a]), sides[a]))
            at = columns.index(over)
            shape = [int(np.prod([sides[a] for a in part])) for part in
                     (columns[:at], [over], columns[at + 1 :])]  # fmt: skip
            rest = columns[:at] + columns[at + 1 :]
            self.below.append((shape, Sums(rest, sides, lacked[over])))
            left = [table for table in left if over in table]

    def down(self, cells, found):
        """Tables of an array, by the set of their columns."""
        if self.whole:
            found[frozenset(self.columns)] = cells
        for (before, over, after), part in self.below:
            if after == 1:
                part.down(cells.reshape(before, over) @ np.ones(over), found)
            else:
                part.down(cells.reshape(before, over, after).sum(axis=1), found)
        return found

    def up(self, tables, onto):
        """What the tables add to an array, added onto it."""
        if frozenset(self.columns) in tables:  # separators are summed, and add nothing
            onto += tables[frozenset(self.columns)].reshape(onto.shape)
        for (before, over, after), part in self.below:
            little = part.up(tables, np.zeros(before * after))
            view = onto.reshape(before, over, after)
            view += little.reshape(before, 1, after)
        return onto


class Tree:
    """Marginals and loss of a junction tree of numpy factors, with one exponential of every cell.

    A clique sends ``log(sum(exp(x)))`` over what its separator lacks to the clique above it. What
    was exponentiated for that, times the marginal of the separator and over its own sum, is the
    marginal of the clique (as in Hugin's propagation): no cell needs a second exponential. Cells
    of a clique lie with the columns of its separator first, so that sums run along the memory.
    """

    def __init__(self, model, groups):
        self.total, self.sides = model.total, model.domain.config
        tree, root = model.junction_tree.tree, model.cliques[0]
        self.order, self.above = [root], {}
        for clique in self.order:  # grows while it is walked
            for other in tree.neighbors(clique):
                if other not in self.above and other != root:
                    self.above[other] = clique
                    self.order.append(other)
        self.tables, self.layout, self.rows, self.sums, self.shared = [], {}, {}, {}, {}
        for clique in self.order:
            shared = [a for a in clique if a in self.above.get(clique, ())]
            rest = sorted(set(clique) - set(shared), key=lambda a: (self.sides[a], a))
            self.layout[clique] = [*shared, *rest]
            self.shared[clique] = frozenset(shared)
            self.rows[clique] = int(np.prod([self.sides[a] for a in shared]))
            found = {}
            for _, answer, noise, table in groups[clique]:
                found.setdefault(frozenset(table), []).append((table, answer, noise))
            for key, several in found.items():
                laid = [self.laid(clique, table, answer) for table, answer, _ in several]
                weights = np.array([1.0 / noise for _, _, noise in several])
                self.tables.append((clique, key, np.array(laid), weights))
        for clique in self.order:
            asked = {self.shared[c] for c, upper in self.above.items() if upper == clique}
            asked |= {key for owner, key, _, _ in self.tables if owner == clique}
            self.sums[clique] = Sums(self.layout[clique], self.sides, sorted(asked, key=sorted))

    def laid(self, clique, columns, values):
        """A table of some columns in the order that a clique has them in, as one row."""
        order = sorted(range(len(columns)), key=lambda k: self.layout[clique].index(columns[k]))
        return values.reshape([self.sides[a] for a in columns]).transpose(order).ravel()

    def laid_out(self, factors):
        """The cells of all factors in the order of this tree."""
        return {c: self.laid(c, c, factors[c].values).copy() for c in self.order}

    def factors(self, cells, domain):
        """Factors of the package from cells in the order of this tree."""
        found = {}
        for clique in self.order:
            layout = self.layout[clique]
            values = cells[clique].reshape([self.sides[a] for a in layout])
            turned = np.ascontiguousarray(values.transpose([layout.index(a) for a in clique]))
            found[clique] = mbi.Factor(domain.project(clique), turned)
        return mbi.CliqueVector(found)

    def message(self, clique, values):
        """Values of the cells of a separator in the shape of the clique above."""
        upper = self.above[clique]
        shape = [self.sides[a] if a in self.shared[clique] else 1 for a in self.layout[upper]]
        columns = [a for a in clique if a in self.shared[clique]]
        return self.laid(upper, columns, values).reshape(shape)

    def separator(self, clique, tables):
        """The marginal of the separator from the tables of the clique above, in own order."""
        upper = [a for a in self.layout[self.above[clique]] if a in self.shared[clique]]
        return self.laid(clique, upper, tables[self.shared[clique]])

    def marginals(self, potentials):
        """The expected counts of every clique, and their tables."""
        sums, powers, tables = {}, {}, {}
        waiting = dict(potentials)
        for clique in reversed(self.order):
            flat = waiting.pop(clique).reshape(self.rows[clique], -1)
            top = flat.max(axis=1, keepdims=True)
            powers[clique] = np.exp(flat - top)
            sums[clique] = powers[clique].sum(axis=1, keepdims=True)
            if clique in self.above:
                upper = self.above[clique]
                full = waiting[upper].reshape([self.sides[a] for a in self.layout[upper]])
                waiting[upper] = full + self.message(clique, np.log(sums[clique]) + top)
        for clique in self.order:
            share = np.array([self.total])
            if clique in self.above:
                share = self.separator(clique, tables[self.above[clique]])
            powers[clique] *= share.reshape(-1, 1) / sums[clique]
            tables[clique] = self.sums[clique].down(powers[clique].ravel(), {})
        return {clique: cells.ravel() for clique, cells in powers.items()}, tables

    def loss(self, tables):
        """Half the squared distance from all answers, its gradient by table, and the tables."""
        value, slopes, seen = 0.0, [], []
        for clique, key, answers, weights in self.tables:
            table = tables[clique][key].ravel()
            apart = weights[:, None] * (table - answers)
            value += 0.5 * float((apart * apart).sum())
            slopes.append(weights @ apart)
            seen.append(table)
        return value, slopes, seen

    def moved(self, potentials, slopes, step):
        """Potentials after a step against the gradient."""
        given = {clique: {} for clique in self.order}
        for slope, (clique, key, _, _) in zip(slopes, self.tables, strict=True):
            given[clique][key] = -step * slope
        return {c: self.sums[c].up(given[c], potentials[c].copy()) for c in self.order}


def mirror_descent(self, measurements, total=None, stepsize=None, callback=None):
    """``FactoredInference.mirror_descent`` with its line search, on :class:`Tree`."""
    if (self.metric, stepsize, callback) != ("L2", None, None):
        raise NotImplementedError("AIM fits in the L2 metric, with a line search")
    self._setup(measurements, total)
    model = self.model
    tree = Tree(model, self.groups)
    theta = tree.laid_out(model.potentials)
    mu, tables = tree.marginals(theta)
    loss, slopes, seen = tree.loss(tables)
    alpha = 1.0 / model.total**2
    for _ in range(self.iters if loss > 0 else 0):
        before, old, steep, point = loss, seen, slopes, theta
        alpha *= 2.0
        for _ in range(25):
            theta = tree.moved(point, steep, alpha)
            mu, tables = tree.marginals(theta)
            loss, slopes, seen = tree.loss(tables)
            fall = sum(float(g @ (a - b)) for g, a, b in zip(steep, old, seen, strict=True))
            if before - loss >= 0.5 * alpha * fall:
                break
            alpha *= 0.5
    model.potentials = tree.factors(theta, model.domain)
    model.marginals = tree.factors(mu, model.domain)
    return loss


def run_aim(rows, start):
    """Rows of AIM, and a line for every table that it chose."""
    from aim import AIM

    class Told(AIM):
        spent = 0.0

        def worst_approximated(self, *given):
            self.spent += given[3] ** 2 / 8 + 0.5 / given[4] ** 2
            chosen = super().worst_approximated(*given)
            times = time.time() - start, time.process_time()
            print("chosen", chosen, self.spent / self.rho, *times, flush=True)
            return chosen

    work = [(pair, 1.0) for pair in itertools.combinations(rows.domain, 2)]
    mechanism = Told(float(EPSILON), float(DELTA), np.random, max_model_size=80, max_iters=1000)
    mechanism.spent = 0.9 * mechanism.rho / 16  # one-way tables
    return mechanism.run(rows, work)[1]


def main():
    on_numpy = hasattr(mbi, "FactoredInference")
    if on_numpy and not PLAIN:
        mbi.FactoredInference.mirror_descent = mirror_descent
    rows = mbi.Dataset.load(DATA + ".csv", DATA + ".json")
    np.random.seed(int(SEED))
    start, busy = time.time(), time.process_time()
    if METHOD == "MST":
        from mst import MST

        made = MST(rows, float(EPSILON), float(DELTA))
    else:
        made = run_aim(rows, start)
    facts = {"seconds": time.time() - start, "processor": time.process_time() - busy}
    facts["version"] = ("numpy" + ("" if PLAIN else ", one exponential")) if on_numpy else "JAX"
    made.df.to_csv(OUT + ".csv", index=False)
    with open(OUT + ".json", "w") as file:
        json.dump(facts, file)
    print("ended", facts, flush=True)


main()
