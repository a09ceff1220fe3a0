"""The mechanism behind books of tables: integer coordinates of many tables plus integer noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from tightdp.accepted import Number
from tightdp.data.statistics import Statistic
from tightdp.data.table_counts import TableCounts, read_tables
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_within,
    fail,
    quoted,
)
from tightdp.inference.table_estimates import TableReader
from tightdp.mechanisms.additive import AdditiveMechanism, PreparedNoise
from tightdp.mechanisms.mechanism import short_label
from tightdp.mechanisms.table_noise_choice import (
    NOISES,
    BookWork,
    choose_table_noise,
    spending,
)
from tightdp.release import ONLY
from tightdp.schema import Schema, check_schema
from tightdp.shaping.book_noise import BookNoise, GaussianBookNoise
from tightdp.shaping.coverage import BY_STRUCTURE, EXACT
from tightdp.workloads.planner import NoisePlan
from tightdp.workloads.public_tables import read_public
from tightdp.workloads.residuals import Workload

_MOST_CERTIFIED = 64  # cells of a public table in which rows are moved by the gate


class TableMechanism(AdditiveMechanism):
    r"""Releases :math:`t(X) + z`: integer coordinates of many tables plus integer noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP, or rho-zero-concentrated DP where the budget is in
    rho, under the neighbour relation of the schema, for one person with at most ``rows_per_person``
    rows; delta is 0 but for Gaussian noise.
    Needs: [P1] t(X) is the exact integer vector of
    :class:`~tightdp.data.table_counts.TableCounts`, in which levels and bins are public; [P2] the
    noise covers what one row moves: :class:`~tightdp.shaping.book_noise.ShapedNoise`,
    :class:`~tightdp.shaping.book_noise.GaussianBookNoise` and
    :class:`~tightdp.shaping.book_l2_noise.L2BookNoise` prove it, and the gate certifies it at
    construction (:mod:`tightdp.shaping.coverage`); [P3] draws are exact.
    Proof: which coordinates are measured, and with how much noise, is chosen from public facts
    alone; then as for :class:`~tightdp.AdditiveMechanism`, the noise being private for all moves
    [P1, P2, P3]. With a public table the promise is about tables that agree in it: then rows can be
    matched within its cells, and tables that differ in one row differ by a row that keeps its cell
    [P4]. Such a row differs in other columns only, and these moves are covered. What the public
    table says about anybody is not protected (Cho and Awan, 2024). With several public tables it is
    about tables that agree in all of them and differ in at most two rows: both rows together move
    the coordinates by the sum of two moves, for which the noise is made [P5]; known residuals are
    not measured, so that no coordinate tells more than others do.
    Numerics: ``exact``.
    Order of events: as in :class:`~tightdp.AdditiveMechanism`.

    Parameters
    ----------
    schema, tables, bins, weights, noise, epsilon, delta, rho, public :
        As for :class:`Tables`.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b"], other="a")}
    >>> TableMechanism(Schema(facts, rows=9), 2, epsilon=1).statistic.names
    ('sex[f]:k[a]', 'sex[f]:k[b]', 'sex[m]:k[a]', 'sex[m]:k[b]')
    """

    def __init__(
        self,
        schema: Schema,
        tables: object,
        *,
        bins: Mapping[str, Any] | None = None,
        weights: object = None,
        noise: str = "best",
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        public: object = None,
    ) -> None:
        self.schema = check_schema(schema)
        self.budget = budget = spending(epsilon, delta, rho)
        self.sides, self.asked = read_tables(schema, tables, bins)
        self.work = Workload(self.sides.sizes, self.asked, check_weights(weights, len(self.asked)))
        self.public = read_public(public, self.schema, self.sides.names, self.sides.sizes)
        if all(self.public.holds(table) for table in self.asked):
            fail("`public` holds all that is asked for in `tables`: there is nothing to release.")
        self.plan: NoisePlan | None = None
        name = check_choice("noise", noise, NOISES)
        asked = BookWork(self.schema, self.sides, self.work, self.public)
        choice = choose_table_noise(asked, name, budget)
        if isinstance(choice, GaussianBookNoise):
            self.plan = choice.plan
        self.strategy = choice.name
        self._adopt(choice.counts, choice)
        self.in_rho = rho is not None  # whatever the noise says of itself

    def at(self, epsilon: Number) -> Self:
        """The same tables for another epsilon, also where the budget was in rho."""
        return self.rebuilt(epsilon=epsilon, rho=None)

    def _certify(self, statistic: Statistic, choice: PreparedNoise) -> str:
        """With a public table, for rows that keep their cell: in all cells, or in some [P4]."""
        frozen = self.public.frozen
        if not frozen:
            return super()._certify(statistic, choice)
        shape = [self.sides.sizes[j] for j in frozen]
        cells = list(itertools.islice(np.ndindex(*shape), _MOST_CERTIFIED))
        names = [self.sides.names[j] for j in frozen]
        found = {
            super(TableMechanism, self)._certify(
                statistic.rebuilt(frozen=dict(zip(names, map(int, cell), strict=True))), choice
            )
            for cell in cells
        }
        whole = len(cells) == math.prod(shape) and found == {EXACT}
        return EXACT if whole else BY_STRUCTURE

    @property
    def given(self) -> str:
        """What the promise takes for known, where tables are public."""
        return self.public.said(self.sides.names)

    @property
    def law(self) -> str:
        return f"{super().law}{ONLY}{self.given}" if self.given else super().law

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        choice = self.book_noise
        return choice.covariance(), choice.box(confidence)

    @property
    def book_noise(self) -> BookNoise:
        """The noise, part by part."""
        assert isinstance(self._choice, BookNoise)
        return self._choice

    def label(self) -> str:
        names = self.sides.names
        return short_label(
            "tables of " + "; ".join(", ".join(names[j] for j in table) for table in self.asked)
        )

    def shape_facts(self) -> list[str]:
        return self.book_noise.facts()

    def reader(self) -> TableReader:
        """From measured vectors to tables."""
        counts = self.statistic
        assert isinstance(counts, TableCounts)
        choice = self.book_noise
        spreads = [choice.part_variance(k) for k in range(len(counts.parts))]
        return TableReader(counts, self.work, spreads, self.public.known)


def check_weights(weights: object, count: int) -> list[float] | None:
    """A positive number for every table; None is 1 for each."""
    if weights is None:
        return None
    if not isinstance(weights, (list, tuple, np.ndarray)) or len(weights) != count:
        fail(
            f"`weights` must be a list of {count} numbers, one for each table. Got "
            f"{quoted(weights)}."
        )
    return [check_within("weights", weight, "[1e-9, 1e9]") for weight in weights]
