"""A book of tables: many sets of columns over one schema, for one payment and in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.statistics import Statistic
from tightdp.data.table_counts import (
    TableColumns,
    TableCounts,
    cell_names,
    distinct_quickly,
    read_tables,
)
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    amount_within,
    check_array,
    check_choice,
    check_confidence,
    check_flag,
    check_within,
    fail,
    quoted,
)
from tightdp.exact.rates import check_epsilon
from tightdp.inference.table_estimates import MOST_SQUARE, TableReader, public_residuals
from tightdp.inference.whole_counts import whole_counts
from tightdp.mechanisms.additive import AdditiveMechanism, PreparedNoise
from tightdp.mechanisms.mechanism import Reading, Started, short_label
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.preview import Preview
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.release import Draft, Known, Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.book_noise import (
    BookNoise,
    GaussianBookNoise,
    ShapedNoise,
    feasible,
)
from tightdp.shaping.coordinate_noise import check_share
from tightdp.shaping.coverage import BY_STRUCTURE, EXACT
from tightdp.shaping.reach import PUBLIC_SEED, how_many, one_by_one, simultaneous
from tightdp.table_books import BookComparison, BookPreview, TableBook
from tightdp.workloads.planner import NoisePlan, plan
from tightdp.workloads.residuals import Columns, Workload
from tightdp.workloads.rivals import gaussian_total, laplace_total, planner_total
from tightdp.workloads.strategies import Strategy, strategies

_MOST_CERTIFIED = 64  # cells of a public table in which rows are moved by the gate
_SAID_AT = Fraction(1, 10**6)  # the delta at which a budget in rho is told in epsilon
NOISES = ("best", "gaussian", "hull", "cube", "tables", "mixed", "split")


class TableMechanism(AdditiveMechanism):
    r"""Releases :math:`t(X) + z`: integer coordinates of many tables plus integer noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP, or rho-zero-concentrated DP where the budget is in
    rho, under the neighbour relation of the schema, for one person with at most ``rows_per_person``
    rows; delta is 0 but for Gaussian noise.
    Needs: [P1] t(X) is the exact integer vector of
    :class:`~tightdp.data.table_counts.TableCounts`, in which levels and bins are public; [P2] the
    noise covers what one row moves: :class:`~tightdp.shaping.book_noise.ShapedNoise` and
    :class:`~tightdp.shaping.book_noise.GaussianBookNoise` prove it, and the gate certifies it at
    construction (:mod:`tightdp.shaping.coverage`); [P3] draws are exact.
    Proof: which coordinates are measured, and with how much noise, is chosen from public facts
    alone; then as for :class:`~tightdp.AdditiveMechanism`, the noise being private for all moves
    [P1, P2, P3]. With a public table the promise is about tables that agree in it: then rows can be
    matched within its cells, and tables that differ in one row differ by a row that keeps its cell
    [P4]. Such a row differs in other columns only, and these moves are covered. What the public
    table says about anybody is not protected (Cho and Awan, 2024).
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
        self.budget = budget = _budget(epsilon, delta, rho)
        self.sides, self.asked = read_tables(schema, tables, bins)
        self.work = Workload(self.sides.sizes, self.asked, check_weights(weights, len(self.asked)))
        self.public, self.known = _public_table(public, self.schema, self.sides)
        if all(set(table) <= set(self.public) for table in self.asked):
            fail("`public` holds all that is asked for in `tables`: there is nothing to release.")
        self.plan: NoisePlan | None = None
        name = check_choice("noise", noise, NOISES)
        choice = _chosen(self, name, budget)
        if isinstance(choice, GaussianBookNoise):
            self.plan = choice.plan
        self.strategy = choice.strategy.name if isinstance(choice, ShapedNoise) else "gaussian"
        self._adopt(choice.counts, choice)
        self.in_rho = rho is not None  # whatever the noise says of itself

    def at(self, epsilon: Number) -> Self:
        """The same tables for another epsilon, also where the budget was in rho."""
        return self.rebuilt(epsilon=epsilon, rho=None)

    def _certify(self, statistic: Statistic, choice: PreparedNoise) -> str:
        """With a public table, for rows that keep their cell: in all cells, or in some [P4]."""
        if not self.public:
            return super()._certify(statistic, choice)
        shape = [self.sides.sizes[j] for j in self.public]
        cells = list(itertools.islice(np.ndindex(*shape), _MOST_CERTIFIED))
        names = [self.sides.names[j] for j in self.public]
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
        """What the promise takes for known, where a table is public."""
        names = ", ".join(self.sides.names[j] for j in self.public)
        return f"between tables that agree in the public table of {names}" if self.public else ""

    @property
    def law(self) -> str:
        return f"{super().law}; private {self.given}" if self.public else super().law

    def check_booked(self, ledger: object) -> None:
        """Refuse to book what promises less than a ledger says."""
        if self.public and ledger is not None:
            fail(
                "`ledger` books promises to all neighbours, and with a `public` table the promise "
                f"is only {self.given}: release it without a ledger."
            )

    def start(self, frame: TableLike, **options: Any) -> Started:
        self.check_booked(options.get("ledger"))
        return super().start(frame, **options)

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        choice = self.book_noise
        return choice.covariance(), choice.box(confidence)

    @property
    def book_noise(self) -> BookNoise:
        """The noise, part by part."""
        assert isinstance(self._choice, BookNoise)
        return self._choice

    def preview(self, confidence: float = 0.95) -> Preview:
        """Of the measured coordinates; :class:`Tables` previews the tables."""
        level = check_confidence(confidence)
        variance, half = self._errors(level)
        return Preview(
            self.statistic.names, np.sqrt(variance), half, level, self.guarantee(), self.law
        )

    def label(self) -> str:
        names = self.sides.names
        return short_label(
            "tables of " + "; ".join(", ".join(names[j] for j in table) for table in self.asked)
        )

    def shape_facts(self) -> list[str]:
        choice = self._choice
        assert isinstance(choice, (ShapedNoise, GaussianBookNoise))
        return choice.facts()

    def reader(self) -> TableReader:
        """From measured vectors to tables."""
        counts = self.statistic
        assert isinstance(counts, TableCounts)
        choice = self.book_noise
        spreads = [choice.part_variance(k) for k in range(len(counts.parts))]
        return TableReader(counts, self.work, spreads, self.known)

    def draft(self, noisy: Sequence[int], confidence: float) -> Draft:
        """Noisy coordinates, with their errors."""
        variance, half = self._errors(confidence)
        value = np.array([z / self.resolution for z in noisy])
        error = Known(covariance=variance, half_width=half)
        return Draft.of(self.statistic.names, value, noisy, self.resolution, error)


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


class Spending(NamedTuple):
    """What may be spent: the epsilon of pure noise, delta, and rho where that is what counts."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None


def _budget(epsilon: Number | None, delta: Number, rho: Number | None) -> Spending:
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
    return Spending(check_epsilon(root), lost or _SAID_AT, spent)


def _chosen(book: TableMechanism, name: str, budget: Spending) -> BookNoise:
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
        if gaussian is not None:
            rows = float(schema.rows_per_person)
            if strategy.total * (rows / float(budget.epsilon)) ** 2 >= gaussian.total(work):
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
    return _measured(schema, sides, parts)


def _gaussian(book: TableMechanism, budget: Spending) -> GaussianBookNoise:
    found = plan(book.work, book.schema.neighbors, book.public)
    names = book.sides.names
    parts = [("centred", [names[j] for j in some]) for some in found.variances]
    counts = _measured(book.schema, book.sides, parts)
    epsilon = budget.epsilon if budget.rho is None else None
    return GaussianBookNoise(counts, found, epsilon, budget.delta, budget.rho)


def _public_table(
    public: object, schema: Schema, sides: TableColumns
) -> tuple[Columns, dict[Columns, FloatArray]]:
    """The columns of the public table, and all residuals that are known."""
    paired = schema.neighbors is Neighbors.REPLACE_ONE
    if public is None:
        return (), {(): np.asarray(float(schema.rows))} if paired else {}
    if not paired:
        fail("`public` needs replace-one neighbours: otherwise the number of rows is private.")
    if not isinstance(public, Mapping) or len(public) != 1:
        fail(
            "`public` must be a mapping with one table, the columns and their counts, such as "
            f'{{("region", "sex"): [[...], [...]]}}. Got {quoted(public)}.'
        )
    ((key, counts),) = public.items()
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, tuple) or not names or len(set(names)) < len(names):
        fail(f"`public` must name distinct columns, one or a tuple of them. Got {quoted(key)}.")
    places = [sides.names.index(check_choice("public", name, sides.names)) for name in names]
    shape = tuple(sides.sizes[j] for j in places)
    table = check_array("public", counts, len(shape))
    if table.shape != shape or not ((table >= 0) & (table == np.rint(table))).all():
        fail(f"`public` must hold the counts of a table of the shape {shape}.")
    if int(table.sum()) != schema.rows:
        fail(f"`public` must hold counts of all {schema.rows} rows. Got {int(table.sum())}.")
    order = tuple(sorted(places))
    table = table.transpose([places.index(j) for j in order])
    return order, public_residuals(table, order)


def gaussian_unit(budget: Spending) -> float:
    """The variance of Gaussian noise for a move of 1."""
    if budget.rho is not None:
        return float(1 / (2 * budget.rho))
    return AnalyticGaussian(epsilon=budget.epsilon, delta=budget.delta).sigma ** 2


def _measured(
    schema: Schema, sides: TableColumns, parts: Sequence[tuple[str, Sequence[str]]]
) -> TableCounts:
    bins = {name: rule.edges.tolist() for name, rule in sides.bins_of.items()}
    return TableCounts(schema, sides.names, parts, bins)


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
        One table that is public and kept exactly, its columns and its counts, such as
        ``{"region": [120, 80]}``; replace-one neighbours. The promise is then about tables that
        agree in it: everything about a row is protected but the cell of this table that it is in.
        Such a release is for no ledger.
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
            weights = balanced(schema, tables, bins, targets)
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
        self.book.check_booked(options.get("ledger"))
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
        rows, budget = float(self.schema.rows_per_person), self.book.budget
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


def balanced(
    schema: Schema, tables: object, bins: Mapping[str, Any] | None, targets: object
) -> list[float]:
    """Weights at which the errors of Gaussian noise miss all targets by about one factor."""
    sides, asked = read_tables(check_schema(schema), tables, bins)
    wish = check_targets(targets, len(asked))
    work = Workload(sides.sizes, asked)
    weights = 1 / (wish**2 * [work.cells(table) for table in work.tables])
    for _ in range(12):
        found = plan(work.reweighted(weights), schema.neighbors).variances
        missed = np.array([work.cell_variance(table, found) for table in work.tables]) / wish**2
        weights = weights * np.clip(missed / missed.max(), 1e-3, 1)
    return list(np.maximum(weights / weights.max(), 1e-9).tolist())


def check_targets(targets: object, count: int) -> FloatArray:
    """A positive number for every table."""
    if not isinstance(targets, (list, tuple, np.ndarray)) or len(targets) != count:
        fail(
            f"`targets` must be a list of {count} standard errors, one for each table. Got "
            f"{quoted(targets)}."
        )
    return np.array([check_within("targets", wish, "[1e-6, 1e12]") for wish in targets])
