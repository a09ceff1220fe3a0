r"""A verifier of noise that depends on the interval of the true value: no solver, no float.

    python -m tightdp.design design.json

Like :mod:`tightdp.design.verifier`, whose losses it reads, it needs the standard library alone. The
document states tables of integer weights, one for each group of cells of the query's range, a
guarantee and two numbers, and this module proves or refutes, in rational arithmetic, that

* a query that moves by at most ``sensitivity`` is released (epsilon, delta)-privately
  (:class:`~tightdp.RangeNoise` has the proof that the shifts tested here are enough),
* the tables have the side properties that are stated: a largest mean of a loss in every group,
  densities that fall on both sides of zero, noise that leans further left for larger values,
* ``upper`` is their weighted mean loss, and **no** private noise has less than ``lower``.

**The lower bound.** Cut the range into K cells of width b; :math:`w_k` is the public weight of cell
k, uniform inside. Let the noise be any family of laws, one for each value of the query, that is
(epsilon, delta)-DP. Then, for every choice of :math:`0 \le y_{km,i} \le \lambda_{km}` and
:math:`\nu_k \ge 0`, its weighted mean loss is at least
:math:`\sum_k (\theta_k - \nu_k o) - \delta \sum_{km} \lambda_{km}` with

.. math:: \theta_k = \min_x\; w_k a_x + \nu_k a'_x + \sum_m y_{km,x}
          - e^\epsilon \sum_m y_{mk,\,x + k - m},

o the largest mean of the limited loss c' at any value (no :math:`\nu` without it). **Proof.**
(1) Average over the values q of cell k and over the offset s of a lattice of width b:
:math:`p_k(x) = E\,t(X_q/b - x)`, t the tent function. The value :math:`q + (m-k)b` runs through
cell m, and the two outputs see the same lattice, moved by m - k cells; DP for unions of its
cells is convex, so :math:`\sum_i (p_k(i) - e^\epsilon p_m(i - (m - k)))_+ \le \delta`. (2) Node
values :math:`a_x` whose interpolation is at most c give :math:`\sum a_x p_k(x) \le E c`, averaged,
and so for c'. (3) Weak duality, as the sum of y times the rows is at most :math:`\lambda \delta`
for each pair. Nodes outside the table meet no row and cost at least as much as the first of them
on their side, since a loss does not fall outward there.
The published bound D' takes the least loss in each cell instead of (2): it is lower.

In a long run of cells with one weight the same multipliers may serve every pair (k + t, m + t): the
document then gives them once, with the number of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from tightdp.design.exact_numbers import (
    Document,
    damage_refutes,
    demand,
    demand_stated,
    exp_bounds,
    rational,
)
from tightdp.design.loss_values import grows_from, mean, value
from tightdp.design.verifier import below

FORMAT = "tightdp data-dependent design 1"
SCALE = 1 << 48
MOST_RANGE, MOST_NODES = 1 << 16, 1 << 26  # nodes of all cells: more would only waste memory
POWERS = {"l1": 1, "l2": 2}


class Facts(NamedTuple):
    """What a document states, read and checked for its form."""

    epsilon: Fraction
    delta: Fraction
    width: Fraction
    reach: int
    edges: list[int]
    weights: list[Fraction]
    start: int
    tables: list[list[int]]
    loss: Document
    limited: Document
    most: Fraction | None

    @property
    def shares(self) -> list[Fraction]:
        """The weight of each group."""
        return [sum(self.weights[a:b], Fraction(0)) for a, b in pairwise(self.edges)]


def facts_of(document: Document) -> Facts:
    """The statement of a document; refutes what has no meaning."""
    sensitivity, reach = rational(document["sensitivity"]), document["resolution"]
    demand(type(reach) is int and reach >= 1 and sensitivity > 0, "the sensitivity must be > 0")
    rational(document["low"])  # where the range begins is stated, whatever it is
    most = document.get("instance_optimal")
    loss = stated_loss(document)
    limited = document.get("instance_loss")
    facts = Facts(
        epsilon=rational(document["epsilon"]),
        delta=rational(document["delta"]),
        width=sensitivity / reach,
        reach=reach,
        edges=list(document["edges"]),
        weights=[rational(w) for w in document["weights"]],
        start=document["start"],
        tables=[list(table) for table in document["tables"]],
        loss=loss,
        limited=loss if limited is None else limited,
        most=None if most is None else rational(most),
    )
    _check_form(facts)
    return facts


def stated_loss(document: Document) -> Document:
    """The description of the loss; l1 and l2 need none."""
    given = document.get("description")
    if given is not None:
        return dict(given)
    demand(document["loss"] in POWERS, "an unknown loss")
    side = ["0"] * POWERS[document["loss"]] + ["1"]
    return {"kind": "sides", "right": side, "left": side}


def _check_form(facts: Facts) -> None:
    demand(0 < facts.epsilon <= 1 << 10, "epsilon is out of range")
    demand(0 < facts.delta < 1, "delta must lie in (0, 1)")
    whole = all(type(e) is int for e in [*facts.edges, facts.start])
    rising = whole and all(a < b for a, b in pairwise(facts.edges))
    demand(rising and facts.edges[0] == 0 and facts.edges[-1] <= MOST_RANGE, "edges do not rise")
    demand(len(facts.tables) == len(facts.edges) - 1 >= 1, "one table for each group is needed")
    demand(len({len(t) for t in facts.tables}) == 1 <= len(facts.tables[0]), "uneven tables")
    natural = all(type(w) is int and w >= 0 for table in facts.tables for w in table)
    demand(natural, "a weight is not natural")
    demand(len({sum(t) for t in facts.tables}) == 1 <= sum(facts.tables[0]), "uneven totals")
    demand(len(facts.weights) == facts.edges[-1], "one weight for each cell of the range is needed")
    demand(min(facts.weights) >= 0 and sum(facts.weights) == 1, "the weights must sum to 1")
    for loss in (facts.loss, facts.limited):
        if loss["kind"] != "table":
            grows_from(loss)


# --- the noise ------------------------------------------------------------------------------------


def check_privacy(facts: Facts) -> None:
    """Refute unless every shift of every pair of groups loses at most delta."""
    factor = exp_bounds(facts.epsilon)[0]
    num, den = factor.numerator, factor.denominator
    allowed = facts.delta * sum(facts.tables[0]) * den
    for g, h, j in _shifts(facts.edges, facts.reach):
        own, met = facts.tables[g], facts.tables[h]
        size = len(own)
        lost = sum(
            max(w * den - (met[i - j] * num if 0 <= i - j < size else 0), 0)
            for i, w in enumerate(own)
        )
        demand(lost <= allowed, f"groups {g} and {h} lose more than delta at a shift by {j} cells")


def _shifts(edges: Sequence[int], reach: int) -> Iterator[tuple[int, int, int]]:
    """All (g, h, j) with values of group h that lie j cells, or j cells and a part, above g."""
    groups = list(pairwise(edges))
    for g, (low_g, high_g) in enumerate(groups):
        for h, (low_h, high_h) in enumerate(groups):
            first, last = max(low_h - high_g, -reach), min(high_h - low_g, reach)
            if first < last:
                yield from ((g, h, j) for j in range(first, last + 1) if g != h or j)


def mean_losses(facts: Facts, loss: Document) -> list[Fraction]:
    """The expected loss of the noise of each group."""
    first, size = facts.start, len(facts.tables[0])
    if loss["kind"] == "table":
        costs = [rational(c) for c in loss["cells"]]
    else:
        cells = ((i * facts.width, (i + 1) * facts.width) for i in range(first, first + size))
        costs = [mean(loss, low, high) for low, high in cells]
    demand(len(costs) == size, "costs and weights do not match")
    total = sum(facts.tables[0])
    return [
        sum((w * c for w, c in zip(table, costs, strict=True)), Fraction(0)) / total
        for table in facts.tables
    ]


def upper_bound(facts: Facts) -> Fraction:
    """The weighted mean of the expected losses."""
    pairs = zip(facts.shares, mean_losses(facts, facts.loss), strict=True)
    return sum((w * c for w, c in pairs), Fraction(0))


def check_shape(document: Document, facts: Facts) -> None:
    """Refute unless the tables have the side properties that the document states."""
    flags = [document["monotone"], document.get("ordered", False)]
    demand(all(type(flag) is bool for flag in flags), "a flag is neither true nor false")
    if facts.most is not None:
        worst = max(mean_losses(facts, facts.limited))
        demand(worst <= facts.most, "the noise of a group loses more than was allowed")
    if document["monotone"]:
        demand(facts.start <= 0 <= facts.start + len(facts.tables[0]), "away from zero")
        for table in facts.tables:
            left, right = table[: -facts.start], table[-facts.start :]
            falls = left == sorted(left) and right == sorted(right, reverse=True)
            demand(falls, "a table is not monotone on both sides of zero")
    if document.get("ordered", False):
        sums = [list(accumulate(table)) for table in facts.tables]
        for low, high in pairwise(sums):
            leans = all(a <= b for a, b in zip(low, high, strict=True))
            demand(leans, "the noise of larger values does not lean left")


# --- the lower bound ------------------------------------------------------------------------------


def node_values(loss: Document, width: Fraction, half: int) -> list[Fraction]:
    """Values at the nodes -half-1..half+1 whose interpolant, constant beyond, lies below c."""
    count = range(-half - 1, half + 2)
    if loss["kind"] == "table":
        demand(len(loss["nodes"]) == len(count), "nodes do not match")
        return [rational(a) for a in loss["nodes"]]
    demand((half + 1) * width >= grows_from(loss), "the loss may fall beyond the last node")
    return below(loss, width, count)


def least_value(loss: Document) -> Fraction:
    """A number that c never falls below."""
    kind = loss["kind"]
    if kind in ("sides", "root", "threshold"):
        return value(loss, Fraction(0))
    return min(rational(a) for a in loss["values" if kind == "broken" else "nodes"])


def lower_bound(document: Document, facts: Facts) -> Fraction:
    """What the multipliers of the document prove every private noise to lose at least."""
    bound, count = document["bound"], len(facts.weights)
    half, padding, limits = bound["half"], bound["padding"], bound["limits"]
    demand(type(half) is int and half >= 0, "no nodes")
    demand((2 * half + 3) * count <= MOST_NODES, "too many nodes")
    demand(type(padding) is int and facts.reach <= padding <= half, "too little padding")
    demand(len(limits) == count, "one limit for each cell of the range is needed")
    demand(all(type(n) is int and n >= 0 for n in limits), "a negative multiplier")
    demand(facts.most is not None or not any(limits), "a limit that was not asked for")
    unit = rational(bound["unit"]) if "unit" in bound else facts.width ** POWERS[document["loss"]]
    limit_unit = rational(bound.get("limit_unit", 1)) if "unit" in bound else unit
    demand(unit > 0 and limit_unit > 0, "a unit is not positive")
    own, met, prices = _tally(bound, count, facts.reach, half)
    costs = [a / unit for a in node_values(facts.loss, facts.width, half)]
    limited = costs
    if any(limits):
        limited = [a / limit_unit for a in node_values(facts.limited, facts.width, half)]
    factor = exp_bounds(facts.epsilon)[1]
    gains = {
        key: [(y - factor * z) / SCALE for y, z in zip(*key, strict=True)]
        for key in set(zip(own, met, strict=True))
    }
    total = -facts.delta * Fraction(prices, SCALE)
    known: dict[Any, Fraction] = {}  # cells of a long run share their minimum
    for k, weight in enumerate(facts.weights):
        key = weight, limits[k], own[k], met[k]
        if key not in known:
            price = Fraction(limits[k], SCALE)
            each = [weight * a + price * b for a, b in zip(costs, limited, strict=True)]
            inner = zip(each[1:-1], gains[own[k], met[k]], strict=True)
            known[key] = min(each[0], each[-1], *(a + gain for a, gain in inner))
            if facts.most is not None:
                known[key] -= price * facts.most / limit_unit
        total += known[key]
    return max(total * unit, least_value(facts.loss))


_Row = tuple[int, ...]
_Tally = tuple[list[_Row], list[_Row], int]


def _tally(bound: Document, count: int, reach: int, half: int) -> _Tally:
    """Sums of the multipliers by own and by met node, for each cell, and the sum of the prices."""
    nodes, padding = 2 * half + 1, bound["padding"]
    size, seen, prices = nodes - 2 * padding, set(), 0
    own, met = ([[0] * nodes for _ in range(count)] for _ in range(2))
    for pair, price, rows in zip(
        bound["pairs"], bound["multipliers"], bound["row_multipliers"], strict=True
    ):
        k, m, times = [*pair, 1] if len(pair) == 2 else pair
        whole = all(type(n) is int for n in (k, m, times))
        inside = whole and times >= 1 and min(k, m) >= 0 and max(k, m) + times <= count
        demand(inside and 0 < abs(k - m) <= reach, "a pair of values that are no neighbours")
        demand(type(price) is int and price >= 0 and len(rows) == size, "a price is not natural")
        natural = all(type(y) is int and 0 <= y <= price for y in rows)
        demand(natural, "a multiplier is out of its range")
        prices += price * times
        first = padding - (m - k)
        for t in range(times):
            demand((k + t, m + t) not in seen, "a pair of values is counted twice")
            seen.add((k + t, m + t))
            mine, other = own[k + t], met[m + t]
            for i, y in enumerate(rows):
                if y:
                    mine[padding + i] += y
                    other[first + i] += y
    return [tuple(row) for row in own], [tuple(row) for row in met], prices


# --- the whole ------------------------------------------------------------------------------------


def verify(document: Document) -> tuple[Fraction, Fraction]:
    """The proved (lower, upper); raises :class:`Refuted` with the reason otherwise."""
    with damage_refutes():
        demand(document["format"] == FORMAT, "an unknown format")
        facts = facts_of(document)
        check_privacy(facts)
        check_shape(document, facts)
        upper, lower = upper_bound(facts), lower_bound(document, facts)
        demand_stated(document, lower, upper)
    return lower, upper


def rests_on(document: Document) -> str:
    """What a proof takes from the file without a check, in words; empty when that is nothing."""
    losses = (document.get("description"), document.get("instance_loss"))
    if any(loss is not None and loss["kind"] == "table" for loss in losses):
        return "The loss was a function: its tables in the file are taken as they are."
    return ""
