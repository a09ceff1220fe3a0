"""The noise of a book of tables: what may be spent, and the least total variance for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tightdp.accepted import Number
from tightdp.data.table_counts import TableColumns, TableCounts
from tightdp.errors import InfeasibleSamplingError, amount_within, fail
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.privacy import check_epsilon
from tightdp.schema import Schema
from tightdp.shaping.book_noise import BookNoise, GaussianBookNoise, feasible
from tightdp.shaping.coordinate_noise import check_share
from tightdp.workloads.planner import plan
from tightdp.workloads.public_tables import PublicTables
from tightdp.workloads.residuals import Workload
from tightdp.workloads.strategies import Strategy, strategies

SAID_AT = Fraction(1, 10**6)
"""The delta at which a budget in rho is told in epsilon, where none is stated."""
NOISES = ("best", "gaussian", "hull", "cube", "tables", "mixed", "split")


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
    shaped = [] if name == "gaussian" else strategies(work, schema.neighbors, book.public)
    if name not in ("best", "gaussian"):
        known = sorted({strategy.name for strategy in shaped})
        shaped = [strategy for strategy in shaped if strategy.name == name]
        if not shaped:
            fail(f"`noise` {name!r} is not for these tables: {', '.join(known)}, or 'best'.")
    gaussian: GaussianBookNoise | None = None
    if budget.delta and name in ("best", "gaussian"):
        gaussian = _gaussian(book, budget)
    for strategy in shaped:
        pure = strategy.total * (book.rows / float(budget.epsilon)) ** 2
        if gaussian is not None and pure >= gaussian.total(work):
            break
        counts = _counts(schema, book.sides, strategy)
        found = feasible(counts, strategy, budget.epsilon, book.public)
        if found is not None:
            return found
    if gaussian is None:
        fail(
            f"`noise` {name!r} cannot be drawn exactly for these tables: use 'best', or a delta.",
            InfeasibleSamplingError,
        )
    return gaussian


def _counts(schema: Schema, sides: TableColumns, strategy: Strategy) -> TableCounts:
    parts = [(kind, [sides.names[j] for j in some]) for kind, some in strategy.parts]
    return measured_counts(schema, sides, parts)


def _gaussian(book: BookWork, budget: Spending) -> GaussianBookNoise:
    found = plan(book.work, book.schema.neighbors, book.public)
    names = book.sides.names
    parts = [("centred", [names[j] for j in some]) for some in found.variances]
    counts = measured_counts(book.schema, book.sides, parts)
    epsilon = budget.epsilon if budget.rho is None else None
    return GaussianBookNoise(counts, found, epsilon, budget.delta, budget.rho, book.public)


def measured_counts(
    schema: Schema, sides: TableColumns, parts: Sequence[tuple[str, Sequence[str]]]
) -> TableCounts:
    """A statistic of these coordinates, over the same sides."""
    bins = {name: rule.stated for name, rule in sides.bins_of.items()}
    return TableCounts(schema, sides.names, parts, bins)
