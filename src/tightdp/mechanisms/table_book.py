"""A book of tables: many sets of columns over one schema, for one payment and in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.table_counts import cell_names, distinct_quickly, read_tables
from tightdp.errors import FloatArray, check_confidence, check_flag, check_within, fail
from tightdp.inference.table_estimates import MOST_SQUARE
from tightdp.inference.whole_counts import whole_counts
from tightdp.mechanisms.mechanism import Reading, Started
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.mechanisms.table_noise_choice import gaussian_unit
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.book_noise import GaussianBookNoise
from tightdp.shaping.reach import PUBLIC_SEED, how_many, one_by_one, simultaneous
from tightdp.table_books import BookComparison, BookPreview, TableBook
from tightdp.workloads.planner import plan
from tightdp.workloads.residuals import Columns, Workload
from tightdp.workloads.rivals import gaussian_total, laplace_total, planner_total
from tightdp.workloads.strategies import strategies
from tightdp.workloads.wishes import balanced


class Tables(Reading):
    r"""Releases a book of tables: counts for many sets of columns, for one payment.

    What is measured is coordinates of which every table is a sum, so that tables agree with each
    other and, where the number of rows is public, with that. Which coordinates, and the noise of
    each, are chosen by computed variance, from public facts alone: the hull where one table holds
    all others; noise shaped like the moves in contrasts (for columns of two levels the Walsh cube)
    or in cells; a share of epsilon for each table; with a delta also Gaussian noise in residuals,
    whose variances are optimised for the exact cost of replacing a row.

    **Privacy.** As for :class:`TableMechanism`, of which it is a release. Tables, their rounding
    and what is not printed are computed from it.

    Parameters
    ----------
    schema : Schema
    tables : list of tables, or int
        Each a name or a list of names of columns; a number k stands for all tables of up to k
        columns. Numbers come with their bins, as pairs (name, bins) or in ``bins``.
    bins : mapping, optional
        Of the numeric columns: how many bins, or their edges, by name.
    weights : list of numbers, optional
        What the variance of a cell of each table counts; 1 by default.
    targets : list of numbers, optional
        Instead of weights: the standard error that is wished for the cells of each table. Noise is
        balanced so that all tables miss their wish by about one factor; ``epsilon_for`` says what
        meets it.
    noise : str
        "best", or one of "gaussian", "hull", "cube", "tables", "mixed", "split".
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        For Gaussian noise, which is taken where it has less variance.
    rho : float, Fraction or Decimal, optional
        Instead of epsilon, a budget of zero-concentrated DP: Gaussian noise is then made of whole
        numbers. What epsilon it implies is said at ``delta``, 1e-6 by default.
    public : mapping, optional
        Tables that are public and kept exactly, their columns and their counts, such as
        ``{"region": [120, 80]}``, or a list of pairs of both; replace-one neighbours. The promise
        is then about tables that agree in them. With one public table, everything about a row is
        protected but the cell of this table that it is in; with several, also which rows are in
        which cells, between tables that differ in at most two rows. A ledger that books such a
        release books no others beside.
    whole : bool
        Whether counts are rounded to non-negative integers, table by table.
    suppress : float, optional
        Cells whose noise has a standard deviation of more than this share of their value are
        printed as a dash; their numbers stay in the release.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b"], other="a")}
    >>> book = Tables(Schema(facts, rows=40), [["sex"], ["sex", "k"]], epsilon=1)
    >>> release = book.release({"sex": ["f", "m"] * 20, "k": ["a", "a", "b", "b"] * 10}, rng=1)
    >>> release.table("sex").names, float(release.table("sex").value.sum().round(6))
    (('sex[f]', 'sex[m]'), 40.0)
    """

    picture = "bars"

    def __init__(
        self,
        schema: Schema,
        tables: object,
        *,
        bins: Mapping[str, Any] | None = None,
        weights: object = None,
        targets: object = None,
        noise: str = "best",
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        public: object = None,
        whole: bool = False,
        suppress: Number | None = None,
    ) -> None:
        self.whole = check_flag("whole", whole)
        self.suppress = None if suppress is None else check_within("suppress", suppress, "(0, inf)")
        if targets is not None:
            if weights is not None:
                fail("Give `weights` or `targets`, not both.")
            sides, asked = read_tables(check_schema(schema), tables, bins)
            weights = balanced(Workload(sides.sizes, asked), schema.neighbors, targets)
        self.book = TableMechanism(
            schema,
            tables,
            bins=bins,
            weights=weights,
            noise=noise,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            public=public,
        )
        self.schema = schema
        self._take_price()
        sides = self.book.sides
        self.contents: tuple[tuple[Axis, ...], ...] = tuple(
            tuple(sides.axes[j] for j in table) for table in self.book.asked
        )
        self.names = distinct_quickly(
            tuple(itertools.chain.from_iterable(cell_names(axes) for axes in self.contents))
        )
        self._reader = self.book.reader()
        self._order = _as_asked(self.book.work, self.book.asked)
        self._known: dict[float, tuple[FloatArray, FloatArray]] = {}

    why = (
        "Tables are put together from coordinates that each are measured once, with noise shaped "
        "like what one row can change in all of them."
    )

    @property
    def source(self) -> TableMechanism:
        return self.book

    def start(self, frame: TableLike, **options: Any) -> Started:
        self._errors(check_confidence(options.get("confidence", 0.95)))  # before it is paid for
        return super().start(frame, **options)

    def at(self, epsilon: Number) -> Self:
        """The same tables for another epsilon, also where the budget was in rho."""
        return self.rebuilt(epsilon=epsilon, rho=None)

    @property
    def gap(self) -> float | None:
        """By which share the total variance may exceed the least of Gaussian noise; None if pure.

        A certified bound, see :mod:`tightdp.workloads.planner`.
        """
        return None if self.book.plan is None else self.book.plan.gap

    # --- errors -------------------------------------------------------------------------------

    def _flat(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Tables side by side, each in the order in which its columns were asked for."""
        each = zip(arrays, self._order, strict=True)
        return np.concatenate([array.ravel()[order] for array, order in each])

    def variances(self) -> FloatArray:
        """Of all cells."""
        return self._flat([self._reader.variances(table) for table in self.book.work.tables])

    def half_widths(self, confidence: float) -> FloatArray:
        return self._errors(confidence)[0]

    def _errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Half-widths of all cells at once, and of each alone; found once."""
        if confidence not in self._known:
            gaussian = isinstance(self.book.book_noise, GaussianBookNoise)
            find = self._normal if gaussian else self._simulated_widths
            self._known[confidence] = find(confidence)
        together, alone = self._known[confidence]
        return together.copy(), alone.copy()

    def _normal(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        variance, miss = self.variances(), 1 - confidence
        noise = self.book.book_noise
        assert isinstance(noise, GaussianBookNoise)
        step = 1 / self.book.resolution  # no cell is a larger multiple of an entry than half
        together = noise.normal_reach(variance, miss / len(variance), step)
        return together, noise.normal_reach(variance, miss, step)

    def _simulated_widths(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """From public draws of the law itself: order statistics that are too small in one case in
        a million."""
        noise = self.book.book_noise
        size = how_many(len(self.names) + len(noise.counts), confidence)
        draws = np.asarray(noise.sample(size, rng=PUBLIC_SEED), dtype=np.float64)
        errors = self._reader.tables(draws, errors=True)
        each = zip(errors, self._order, strict=True)
        found = np.concatenate([table[:, order] for table, order in each], axis=1)
        spread = np.sqrt(self.variances())
        together = simultaneous(found, spread, confidence)
        return together, np.minimum(one_by_one(found, confidence), together)

    def preview(self, confidence: float = 0.95) -> BookPreview:
        """The error of every table, from public facts alone; costs nothing."""
        level = check_confidence(confidence)
        together, alone = self._errors(level)
        return BookPreview(
            self.names,
            np.sqrt(self.variances()),
            together,
            level,
            self.guarantee(),
            self.law,
            contents=self.contents,
            alone=alone,
            plan=self.book.strategy,
            gap=self.gap,
            given=self.book.given,
        )

    def compare(self) -> BookComparison:
        """The total variance of this book, and what other ways would have for the same promise.

        Those are Laplace noise on every cell, the other choices of ``noise``, and, with a delta or
        a budget in rho, one Gaussian on all tables alike and the residual planner that counts a
        replaced row as two rows.
        """
        work, relation = self.book.work, self.schema.neighbors
        rows, budget = float(self.book.book_noise.rows), self.book.budget
        weights = np.concatenate(
            [np.full(work.cells(t), w) for t, w in zip(work.tables, work.weights, strict=True)]
        )
        own = float(weights @ self.variances())
        found = {self.book.strategy: own}
        pure = (rows / float(budget.epsilon)) ** 2
        for strategy in strategies(work, relation, self.book.public):
            found.setdefault(strategy.name, strategy.total * pure)
        epsilon = float(budget.epsilon) / rows
        found["Laplace on every cell"] = laplace_total(work, relation, epsilon)
        if budget.delta:
            unit = gaussian_unit(budget) * rows**2
            found.setdefault("gaussian", plan(work, relation, self.book.public).total * unit)
            found["one Gaussian for all tables"] = gaussian_total(work, relation) * unit
            found["residual planner"] = planner_total(work, relation) * unit
        ordered = dict(sorted(found.items(), key=lambda pair: pair[1]))
        return BookComparison(ordered, self.book.strategy)

    # --- what is published --------------------------------------------------------------------

    def read(self, release: Release) -> Release:
        """The tables of a release of coordinates."""
        read = isinstance(release, TableBook)  # cells may be what was measured, by the same names
        if read or release.names != self.book.statistic.names:
            return release
        value = self._flat(self._reader.tables(release.value[None, :]))
        together, alone = self._errors(release.confidence)
        ends = None
        if self.whole:
            ends = np.column_stack([value - together, value + together])
            value = self._rounded(value)
        return TableBook(
            **{
                **_fields(release),
                "names": self.names,
                "value": value,
                "covariance": self._covariance(),
                "half_width": together,
                "ends": ends,
                "contents": self.contents,
                "alone": alone,
                "suppress": self.suppress,
                "given": self.book.given,
            }
        )

    def _covariance(self) -> FloatArray:
        """A matrix where one table is asked for, and small; variances of many cells."""
        tables = self.book.work.tables
        if len(tables) == 1 and len(self.names) <= MOST_SQUARE:
            order = self._order[0]
            return self._reader.covariance(tables[0])[np.ix_(order, order)]
        return self.variances()

    def _rounded(self, value: FloatArray) -> FloatArray:
        """Non-negative integers, table by table; all have one total."""
        cuts = np.cumsum([math.prod(len(labels) for _, labels in axes) for axes in self.contents])
        parts = np.split(value, cuts[:-1])
        total = self.schema.rows
        if self.schema.neighbors is Neighbors.ADD_REMOVE:
            total = int(np.clip(round(float(np.mean([p.sum() for p in parts]))), 0, total))
        return np.concatenate([whole_counts(part, total) for part in parts])

    def _at(self, release: Release, confidence: float) -> Release:
        """The same release at another level: intervals stay around what was not rounded."""
        if not isinstance(release, TableBook):
            return self.at_level(release, confidence)
        together, alone = self._errors(confidence)
        ends = None
        if release.ends is not None:
            middle = release.ends.mean(axis=1)
            ends = np.column_stack([middle - together, middle + together])
        return replace(release, half_width=together, alone=alone, ends=ends, confidence=confidence)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The cells of all tables; their intervals can be asked for at any level."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        if level != release.confidence:
            release = self._at(release, level)
        found = self.read(release)
        answer = Answer.of(found)
        if not isinstance(found, TableBook) or not found.hidden.any():
            return answer
        rule = f"-: the noise is more than {self.suppress:g} of the count"
        return replace(
            answer,
            value=np.where(found.hidden, np.nan, answer.value),
            interval=np.where(found.hidden[:, None], np.nan, answer.interval),
            about=f"{answer.about}; {rule}",
        )


def _fields(release: Release) -> dict[str, Any]:
    return {name: getattr(release, name) for name in Release.__dataclass_fields__}


def _as_asked(work: Workload, asked: Sequence[Columns]) -> list[np.ndarray]:
    """For each table where its cells, in the order asked for, stand in that of the workload."""
    out = []
    for table, wanted in zip(work.tables, asked, strict=True):
        places = np.arange(work.cells(table)).reshape(work.shape(table))
        out.append(places.transpose([table.index(j) for j in wanted]).ravel())
    return out
