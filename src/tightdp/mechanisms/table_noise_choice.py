"""The noise of a book of tables: what may be spent, and the least total variance for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from tightdp.accepted import Number
from tightdp.data.table_counts import TableColumns, TableCounts
from tightdp.errors import InfeasibleSamplingError, amount_within, fail
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.schema import Schema
from tightdp.shaping.book_l2_noise import MOST_DIRECTIONS, L2BookNoise
from tightdp.shaping.book_noise import BookNoise, GaussianBookNoise, feasible
from tightdp.shaping.coordinate_noise import check_share
from tightdp.workloads.planner import NoisePlan, plan
from tightdp.workloads.public_tables import PublicTables
from tightdp.workloads.residuals import Workload
from tightdp.workloads.strategies import Strategy, strategies

SAID_AT = Fraction(1, 10**6)
"""The delta at which a budget in rho is told in epsilon, where none is stated."""
NOISES = ("best", "gaussian", "hull", "cube", "tables", "mixed", "split", "l2")


class Spending(NamedTuple):
    """What may be spent: the epsilon of pure noise, delta, and rho where that is what counts."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None


def spending(epsilon: Number | None, delta: Number, rho: Number | None) -> Spending:
    """What somebody states as the budget."""
    lost = check_share(delta)
    if rho is None:
        if epsilon is None:
            fail("`epsilon` must be given, or `rho`: how much privacy the release spends.")
        return Spending(check_epsilon(epsilon), lost, None)
    if epsilon is not None:
        fail("Give `epsilon` or `rho`, not both: rho says what epsilon is at `delta`.")
    spent = amount_within("rho", rho, "[1e-12, 1e5]")
    # pure noise of epsilon is epsilon^2/2 in rho; rounded down to 32 bits
    root = Fraction(math.isqrt(int(2 * spent * (1 << 64))), 1 << 32)
    return Spending(check_epsilon(root), lost or SAID_AT, spent)


def gaussian_unit(budget: Spending) -> float:
    """The variance of Gaussian noise for a move of 1."""
    if budget.rho is not None:
        return float(1 / (2 * budget.rho))
    return AnalyticGaussian(epsilon=budget.epsilon, delta=budget.delta).sigma ** 2


class BookWork(NamedTuple):
    """A workload over columns with public levels and bins, and what of it is public."""

    schema: Schema
    sides: TableColumns
    work: Workload
    public: PublicTables

    @property
    def rows(self) -> int:
        """Rows in which neighbours differ."""
        return self.schema.rows_per_person * self.public.rows


def choose_table_noise(book: BookWork, name: str, budget: Spending) -> BookNoise:
    """The noise with the least total variance among those that can be drawn."""
    schema, work = book.schema, book.work
    if name == "gaussian" and not budget.delta:
        fail("`noise` 'gaussian' needs `delta` > 0, or a budget in `rho`. Got delta = 0.")
    planned = name in ("gaussian", "l2")
    shaped = [] if planned else strategies(work, schema.neighbors, book.public)
    if name != "best" and not planned:
        known = sorted({strategy.name for strategy in shaped})
        shaped = [strategy for strategy in shaped if strategy.name == name]
        if not shaped:
            fail(f"`noise` {name!r} is not for these tables: {', '.join(known)}, or 'best'.")
    scale = (book.rows / float(budget.epsilon)) ** 2
    offers: list[tuple[float, Callable[[], BookNoise | None]]] = []
    if budget.delta and name in ("best", "gaussian"):
        gaussian = _gaussian(book, budget)
        offers.append((gaussian.total(work), lambda: gaussian))
    for strategy in shaped:
        counts = partial(_counts, schema, book.sides, strategy)
        drawn = partial(_shaped, counts, strategy, budget.epsilon, book.public)
        offers.append((strategy.total * scale, drawn))
    if name == "l2" or (name == "best" and l2_total(book) is not None):
        offers.append(((l2_total(book) or 0.0) * scale, lambda: _l2(book, budget)))
    for _, make in sorted(offers, key=lambda offer: offer[0]):
        found = make()
        if found is not None:
            return found
    fail(
        f"`noise` {name!r} cannot be drawn exactly for these tables: use 'best', or a delta.",
        InfeasibleSamplingError,
    )


def l2_total(book: BookWork) -> float | None:
    """The weighted total variance of l2 noise at epsilon = 1; None where it cannot be drawn.

    The law with density like exp(-|v|) in m dimensions has the variance m + 1 in each.
    """
    work, relation = book.work, book.schema.neighbors
    paired = relation is Neighbors.REPLACE_ONE
    asked = [some for some in work.residuals if not (paired and book.public.holds(some))]
    dim = sum(work.directions(some) for some in asked)
    if dim > MOST_DIRECTIONS:
        return None
    return plan(work, relation, book.public).total * (dim + 1)


def pure_totals(book: BookWork) -> list[tuple[str, float]]:
    """The weighted total variance of every noise without a delta, at epsilon = 1."""
    shaped = strategies(book.work, book.schema.neighbors, book.public)
    ball = l2_total(book)
    found = [(strategy.name, strategy.total) for strategy in shaped]
    return found if ball is None else [*found, ("l2", ball)]


def _shaped(
    counts: Callable[[], TableCounts], strategy: Strategy, epsilon: Fraction, public: PublicTables
) -> BookNoise | None:
    return feasible(counts(), strategy, epsilon, public)


def _l2(book: BookWork, budget: Spending) -> L2BookNoise:
    found = plan(book.work, book.schema.neighbors, book.public)
    counts = _planned_counts(book, "contrasts", found)
    return L2BookNoise(counts, found, budget.epsilon, book.public)


def _counts(schema: Schema, sides: TableColumns, strategy: Strategy) -> TableCounts:
    parts = [(kind, [sides.names[j] for j in some]) for kind, some in strategy.parts]
    return measured_counts(schema, sides, parts)


def _gaussian(book: BookWork, budget: Spending) -> GaussianBookNoise:
    found = plan(book.work, book.schema.neighbors, book.public)
    counts = _planned_counts(book, "centred", found)
    epsilon = budget.epsilon if budget.rho is None else None
    return GaussianBookNoise(counts, found, epsilon, budget.delta, budget.rho, book.public)


def _planned_counts(book: BookWork, kind: str, found: NoisePlan) -> TableCounts:
    names = book.sides.names
    parts = [(kind, [names[j] for j in some]) for some in found.variances]
    return measured_counts(book.schema, book.sides, parts)


def measured_counts(
    schema: Schema, sides: TableColumns, parts: Sequence[tuple[str, Sequence[str]]]
) -> TableCounts:
    """A statistic of these coordinates, over the same sides."""
    bins = {name: rule.stated for name, rule in sides.bins_of.items()}
    return TableCounts(schema, sides.names, parts, bins)
