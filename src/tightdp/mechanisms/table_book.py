"""A book of tables: many sets of columns over one schema, for one payment and in one pass."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.table_counts import (
    MOST_TABLE_CELLS,
    cell_names,
    distinct_quickly,
    read_book,
)
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_confidence,
    check_flag,
    check_most,
    check_within,
    fail,
)
from tightdp.inference.table_estimates import MOST_SQUARE
from tightdp.inference.whole_counts import whole_counts
from tightdp.mechanisms.book_parts import BookParts, GroupPart
from tightdp.mechanisms.book_reading import (
    BookWidths,
    CountReading,
    GroupNumbers,
    Numbers,
    Widths,
    in_order_asked,
)
from tightdp.mechanisms.book_shares import (
    GroupTable,
    best_share,
    count_weights,
    made_parts,
    merged,
    read_group_tables,
    wished_weights,
)
from tightdp.mechanisms.mechanism import Mechanism, Reading, Started
from tightdp.mechanisms.table_mechanism import TableMechanism, check_weights
from tightdp.mechanisms.table_noise_choice import (
    NOISES,
    BookWork,
    gaussian_unit,
    pure_totals,
    spending,
)
from tightdp.preview import of_rows
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.reach import possible_counts
from tightdp.table_books import BookComparison, BookPreview, TableBook, places, rule_of
from tightdp.workloads.planner import plan
from tightdp.workloads.public_tables import read_public
from tightdp.workloads.residuals import Columns, Workload
from tightdp.workloads.rivals import gaussian_total, laplace_total, planner_total
from tightdp.workloads.wishes import balanced, of_entries

GROUPS_OF_ONE_SIZE = "groups of equal size; in smaller groups errors are larger in proportion"


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
        Each a name or a list of names of columns, numbers with their bins, as pairs (name, bins) or
        in ``bins``. A number k stands for all tables of up to k categories and numbers in ``bins``.
    means, sums : list of pairs, optional
        Columns of numbers and the groups in which they are averaged or summed, such as
        ``("pay", ["region"])`` or ``(["pay", "hours"], ["region", ("age", 3)])``. The counts of the
        groups come with them, as a table of the book.
    bins : mapping, optional
        Of the numeric columns that divide rows: how many bins, or their edges, by name.
    weights : list of numbers, optional
        What the variance of a cell of each table counts, then of each pair of ``means`` and of
        ``sums``, of their sums over columns scaled to [-1, 1]; 1 by default.
    targets : list of numbers, optional
        Instead of weights, in the same order: the standard error that is wished for the cells of
        each table, for means in groups of equal size, and for sums. Noise is balanced so that all
        miss their wish by about one factor; ``epsilon_for`` says what meets it.
    noise : str
        "best", or one of "gaussian", "hull", "cube", "tables", "mixed", "split", "l2".
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

    located = "mean {} |"

    picture = "bars"

    def __init__(
        self,
        schema: Schema,
        tables: object = (),
        *,
        means: object = None,
        sums: object = None,
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
        self.schema = check_schema(schema)
        items = read_group_tables(schema, mean=means, sum=sums)
        found = read_book(schema, tables, bins, [item.groups for item in items])
        self.sides, self.asked = found.sides, found.asked
        self._check_names(items)
        stated = found.stated
        if targets is not None:
            if weights is not None:
                fail("Give `weights` or `targets`, not both.")
            work = Workload(self.sides.sizes, self.asked)
            if items:
                weights = wished_weights(schema, work, items, found.groups, stated, targets)
            else:
                weights = balanced(work, schema.neighbors, targets)
        given = check_weights(weights, stated + len(items)) or [1.0] * (stated + len(items))
        self.item_weights = given[stated:]
        beside = count_weights(schema, items, found.groups, self.item_weights)
        each = [*given[:stated], *[0.0] * (len(self.asked) - stated)]
        each = [
            w + beside.get(tuple(sorted(t)), 0.0) for w, t in zip(each, self.asked, strict=True)
        ]
        self.work = Workload(self.sides.sizes, self.asked, [max(w, 1e-9) for w in each])
        self.public = read_public(public, schema, self.sides.names, self.sides.sizes)
        self.budget = spending(epsilon, delta, rho)
        if not items:
            self.book: TableMechanism | None = TableMechanism(
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
            self.parts: list[GroupPart] = []
            self._source: Mechanism = self.book
        else:
            self._make_parts(items, found.groups, check_choice("noise", noise, NOISES), public)
        self._take_price()
        self.in_rho = rho is not None
        asked = BookWork(self.schema, self.sides, self.work, self.public)
        self.counts = CountReading(asked, self.asked, self.book, self.parts)
        self.numbers = [self._numbers(*pair) for pair in zip(items, found.groups, strict=True)]
        tables_of = [tuple(self.sides.axes[j] for j in table) for table in self.asked]
        self.contents: tuple[tuple[Axis, ...], ...] = (
            *tables_of,
            *(numbers.axes for numbers in self.numbers),
        )
        names = [*map(cell_names, tables_of), *(numbers.names for numbers in self.numbers)]
        self.names = distinct_quickly(tuple(itertools.chain.from_iterable(names)))
        self._wished = of_entries(targets, stated, len(items), list(map(len, names)))

    why = (
        "Tables are put together from coordinates that each are measured once, with noise shaped "
        "like what one row can change in all of them."
    )

    # --- parts --------------------------------------------------------------------------------

    def _check_names(self, items: Sequence[GroupTable]) -> None:
        """Means and sums are sides of tables by these names, and every table has its own name."""
        kinds = {item.kind for item in items}
        clash = [name for name in self.sides.names if name in kinds]
        if clash:
            fail(f"`tables`: rename the column {clash[0]!r}: it would be taken for what is asked.")
        seen = [(item.kind, frozenset(map(str, item.groups))) for item in items]
        twice = [key for key in seen if seen.count(key) > 1]
        if twice:
            fail(
                f"`{twice[0][0]}s` must name groups once: ask for all columns of the same groups "
                "in one pair."
            )
        for item in items:
            both = set(item.numbers) & {
                name for name in map(str, item.groups) if name in self.sides.names
            }
            if both:
                fail(f"`{item.kind}s`: {sorted(both)[0]!r} must not divide the rows, too.")

    def _make_parts(
        self, items: Sequence[GroupTable], groups: Sequence[Columns], noise: str, public: object
    ) -> None:
        if noise == "gaussian" and not self.budget.delta:
            fail("`noise` 'gaussian' needs `delta` > 0, or a budget in `rho`. Got delta = 0.")
        book = BookWork(self.schema, self.sides, self.work, self.public)
        sums = merged(items, groups, self.item_weights)
        entries = sum(self.work.cells(part.columns) * (1 + len(part.numbers)) for part in sums)
        check_most("means", entries, MOST_TABLE_CELLS, "entries", "take fewer groups or columns")
        share = best_share(book, sums, noise, self.budget)
        options = {"noise": noise, "public": public}
        self.book, self.parts = made_parts(book, sums, share, self.budget, self.asked, options)
        every = [*([] if self.book is None else [self.book]), *self.parts]
        times = 1 if self.book is None else self.public.rows
        self._source = BookParts(every, times)

    def _numbers(self, item: GroupTable, groups: Columns) -> GroupNumbers:
        place = next(
            k
            for k, part in enumerate(self.parts)
            if [self.sides.names.index(n) for n in part.moments.cells.columns] == sorted(groups)
        )
        axes = tuple(self.sides.axes[j] for j in groups)
        (order,) = in_order_asked(Workload(self.sides.sizes, [groups]), [groups])
        return GroupNumbers(
            item, axes, self.parts[place], self.counts.starts[place], order, self.schema
        )

    @property
    def source(self) -> Mechanism:
        return self._source

    @property
    def strategy(self) -> str:
        """What noise was chosen, in a word or two."""
        words = [] if self.book is None else [self.book.strategy]
        if self.parts:
            words.append("counts and sums of groups" if self.counts.counted else "sums of groups")
        return " + ".join(words)

    def start(self, frame: TableLike, **options: Any) -> Started:
        self._widths(check_confidence(options.get("confidence", 0.95)))  # before it is paid for
        return super().start(frame, **options)

    def at(self, epsilon: Number) -> Self:
        """The same tables for another epsilon, also where the budget was in rho."""
        if self.in_rho and self._given["noise"] == "gaussian" and not self._given["delta"]:
            fail(
                "`rho` has no epsilon without a `delta`, which Gaussian noise spends: make the "
                "book with `delta` beside `rho`, or ask for its error with `preview`."
            )
        return self.rebuilt(epsilon=epsilon, rho=None)

    @property
    def gap(self) -> float | None:
        """By which share the total variance may exceed the least of Gaussian noise; None if pure.

        A certified bound, see :mod:`tightdp.workloads.planner`; of the counts.
        """
        return None if self.book is None or self.book.plan is None else self.book.plan.gap

    # --- errors -------------------------------------------------------------------------------

    def _widths(self, confidence: float) -> BookWidths:
        """At once: counts and the sums of each part have equal shares of the chance to miss.

        Alone: a count beside a sum has half of that chance, and so has the sum.
        """
        each = 1 - (1 - confidence) / (1 + len(self.parts)) if self.parts else confidence
        together, alone = self.counts.widths(each), self.counts.widths(confidence).alone
        halved = self.counts.widths(1 - (1 - confidence) / 2).alone if self.parts else alone
        sums = [
            Widths(
                numbers.sum_widths(1 - each).together,
                numbers.sum_widths((1 - confidence) / 2).alone,
            )
            for numbers in self.numbers
        ]
        first = together.together
        return BookWidths(Widths(first, np.minimum(alone, first)), Widths(first, halved), sums)

    def _rows_of(self, numbers: GroupNumbers, flat: FloatArray) -> FloatArray:
        """The cells of the groups of some numbers, among the cells of all tables."""
        sides = {name for name, _ in numbers.axes[:-1]}
        for place, part in enumerate(places(self.contents[: len(self.asked)])):
            axes = self.contents[place]
            if {name for name, _ in axes} == sides:
                shape = [len(labels) for _, labels in axes]
                order = [[name for name, _ in axes].index(name) for name, _ in numbers.axes[:-1]]
                cells = flat[part].reshape(*shape, *flat.shape[1:])
                rest = range(len(shape), cells.ndim)
                return cells.transpose(*order, *rest).reshape(-1, *flat.shape[1:])
        raise AssertionError("the counts of groups are asked for with their numbers")

    def variances(self) -> FloatArray:
        """Of all entries; of means as foreseen."""
        return self._foreseen(0.95).variance

    def half_widths(self, confidence: float) -> FloatArray:
        return self._foreseen(confidence).together

    def _foreseen(self, confidence: float) -> Numbers:
        wide, spread = self._widths(confidence), self.counts.variances()
        found = [Numbers(np.zeros_like(spread), spread, *wide.counts)]
        for numbers, widths in zip(self.numbers, wide.sums, strict=True):
            own = Widths(*(self._rows_of(numbers, of) for of in wide.beside))
            found.append(numbers.foreseen(self._rows_of(numbers, spread), own, widths))
        return Numbers(*map(np.concatenate, zip(*found, strict=True)))

    def preview(self, confidence: float = 0.95) -> BookPreview:
        """The error of every table, from public facts alone; costs nothing."""
        level = check_confidence(confidence)
        found = self._foreseen(level)
        means = any(numbers.kind == "mean" for numbers in self.numbers)
        return BookPreview(
            self.names,
            np.sqrt(found.variance),
            found.together,
            level,
            self.guarantee(),
            self.law,
            of_rows(self.schema, GROUPS_OF_ONE_SIZE) if means else "",
            contents=self.contents,
            alone=found.alone,
            plan=self.strategy,
            gap=self.gap,
            given=self.given,
            targets=self._wished,
        )

    def compare(self) -> BookComparison:
        """The total variance of this book, and what other ways would have for the same promise.

        Those are Laplace noise on every cell, the other choices of ``noise``, and, with a delta or
        a budget in rho, one Gaussian on all tables alike and the residual planner that counts a
        replaced row as two rows. With means or sums: Laplace noise on every cell and sum, and a
        release for each. Variances of sums are those of columns scaled to [-1, 1].
        """
        work, relation, budget = self.work, self.schema.neighbors, self.budget
        rows = float(self.schema.rows_per_person * self.public.rows)
        weights = np.concatenate(
            [np.full(work.cells(t), w) for t, w in zip(work.tables, work.weights, strict=True)]
        )
        own = float(weights @ self.counts.variances())
        epsilon = float(budget.epsilon) / rows
        if self.parts:
            return self._compared_sums(own, epsilon)
        found = {self.strategy: own}
        for name, total in pure_totals(BookWork(self.schema, self.sides, work, self.public)):
            found.setdefault(name, total / epsilon**2)
        found["Laplace on every cell"] = laplace_total(work, relation, epsilon)
        if budget.delta:
            unit = gaussian_unit(budget) * rows**2
            found.setdefault("gaussian", plan(work, relation, self.public).total * unit)
            found["one Gaussian for all tables"] = gaussian_total(work, relation) * unit
            found["residual planner"] = planner_total(work, relation) * unit
        return BookComparison(_ordered(found), self.strategy)

    def _compared_sums(self, own: float, epsilon: float) -> BookComparison:
        """With the sums, each of which would be a Laplace release of its own for rivals."""
        ends = 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
        entries = 0.0
        for numbers, weight in zip(self.numbers, self.item_weights, strict=True):
            many = weight * numbers.groups
            own += many * float(numbers.part.variances[numbers.places].sum())
            entries += many * len(numbers.places)
        asked = len(self.asked) + sum(len(numbers.places) for numbers in self.numbers)
        rate = epsilon / (ends * asked)
        cells = float(np.dot(self.work.weights, [self.work.cells(t) for t in self.work.tables]))
        found = {
            self.strategy: own,
            "Laplace on every cell and sum": (cells + entries) * 2 / rate**2,
        }
        return BookComparison(_ordered(found), self.strategy)

    # --- what is published --------------------------------------------------------------------

    def read(self, release: Release) -> Release:
        """The tables of a release of coordinates."""
        read = isinstance(release, TableBook)  # cells may be what was measured, by the same names
        if read or release.names != self._drawn_names:
            return release
        wide, rows = self._widths(release.confidence), self.schema.rows
        value, spread = self.counts.tables(release.value), self.counts.variances()
        shown = self._rounded(value) if self.whole else value
        ends = [possible_counts(value, half, rows, shown) for half in wide.counts]
        inside = np.clip(value, 0.0, float(rows))  # what divides sums is cut, too
        beside = [possible_counts(value, half, rows, inside) for half in wide.beside]
        found = [Numbers(shown, spread, *ends)]
        for numbers, widths in zip(self.numbers, wide.sums, strict=True):
            count, error, *own = (self._rows_of(numbers, of) for of in (value, spread, *beside))
            found.append(numbers.read(release.value, count, error, own, widths))
        whole = Numbers(*map(np.concatenate, zip(*found, strict=True)))
        return TableBook(
            **{
                **_fields(release),
                "names": self.names,
                "value": whole.value,
                "covariance": self._covariance(whole.variance),
                "half_width": np.abs(whole.together - whole.value[:, None]).max(axis=1),
                "ends": whole.together,
                "contents": self.contents,
                "alone": whole.alone,
                "suppress": self.suppress,
                "given": self.given,
                "units": "",  # those of the columns: means and sums are unscaled here
            }
        )

    @property
    def _drawn_names(self) -> tuple[str, ...]:
        source = self._source
        return source.names if isinstance(source, BookParts) else self.book.statistic.names  # type: ignore[union-attr]

    def _covariance(self, variance: FloatArray) -> FloatArray:
        """A matrix where one table is asked for, and small; variances of many cells."""
        tables = self.work.tables
        if len(self.contents) == 1 and len(self.names) <= MOST_SQUARE:
            order = self.counts.order[0]
            return self.counts.reader.covariance(tables[0])[np.ix_(order, order)]
        return variance

    def _rounded(self, value: FloatArray) -> FloatArray:
        """Non-negative integers, table by table; all have one total."""
        parts = [value[part] for part in places(self.contents[: len(self.asked)])]
        total = self.schema.rows
        if self.schema.neighbors is Neighbors.ADD_REMOVE:
            total = int(np.clip(round(float(np.mean([p.sum() for p in parts]))), 0, total))
        return np.concatenate([whole_counts(part, total) for part in parts])

    def _at(self, release: Release, confidence: float) -> Release:
        """The same release at another level, from the integers that left the mechanism."""
        if not isinstance(release, TableBook):
            return self.at_level(release, confidence)
        drawn = np.array([z / release.resolution for z in release.integers])
        raw = {**_fields(release), "names": self._drawn_names, "value": drawn, "ends": None}
        raw |= {
            "covariance": np.zeros(len(drawn)),
            "half_width": self.source.half_widths(confidence),
        }
        return self.read(Release(**{**raw, "confidence": confidence}))

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The cells of all tables; their intervals can be asked for at any level."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        if level != release.confidence:
            release = self._at(release, level)
        found = self.read(release)
        answer = Answer.of(found)
        if not isinstance(found, TableBook) or not found.hidden.any():
            return answer
        return replace(
            answer,
            value=np.where(found.hidden, np.nan, answer.value),
            interval=np.where(found.hidden[:, None], np.nan, answer.interval),
            about=f"{answer.about}; {rule_of(self.suppress)}",
        )


def _fields(release: Release) -> dict[str, Any]:
    return {name: getattr(release, name) for name in Release.__dataclass_fields__}


def _ordered(totals: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(totals.items(), key=lambda pair: pair[1]))
