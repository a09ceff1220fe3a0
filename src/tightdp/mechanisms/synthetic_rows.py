"""Rows made from private tables: tables of few columns are released, and a model of all columns."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.accounting.conversions import zcdp_rho
from tightdp.answer import Answer
from tightdp.data.one_pass import IntegerSum
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import Draft, Known, Unknown
from tightdp.errors import (
    FloatArray,
    Integers,
    amount_within,
    check_confidence,
    check_count,
    fail,
)
from tightdp.exact.tilted import TiltedLaw
from tightdp.inference.junction_trees import Scope, model_cells
from tightdp.inference.synthetic_draws import drawn_codes
from tightdp.inference.table_fits import NoisyTable, TableFit, fit_tables
from tightdp.mechanisms.mechanism import Finish, Mechanism, short_label, warn_of_delta
from tightdp.mechanisms.table_offer import BEFORE, TableOffer, Variation
from tightdp.mechanisms.table_schedule import CellNoise, TableShares
from tightdp.preview import Preview, of_rows
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.reach import possible_counts

Rows = dict[str, NDArray[Any]]

MOST_CELLS = 1 << 18
"""Cells of the model, by default: a step of a fit takes some 40 ms."""

_MOST_ROUNDS = 1000
_MOST_COUNT = 1 << 40  # counts are cut there: their sums fit into 64 bits
_MOST_ROWS = 20_000_000  # cells of rows that are drawn at a time
_ROUND_STEPS, _LAST_STEPS, _COPY_STEPS = 80, 600, 200  # of fits: between rounds, for rows, copies
_CHOSEN = Unknown("which table is chosen is drawn")
_ABOUT = (
    "noisy one-way tables; rows are made from them and the other released tables, and written to a "
    "CSV file beside a report"
)


class SyntheticRows(Mechanism):
    r"""Releases tables of few columns, from which rows of all columns are made.

    Every column has public cells: its levels or bins. All one-way tables are released with noise,
    and so are the tables that are stated. With ``tables="auto"`` further tables are chosen in
    rounds: a model of all columns is fitted to what is released so far, an exponential mechanism
    draws the table of two columns that it misses most, and that table is released, too. Everything
    after that is post-processing: the last model, and rows drawn from it, as many as you like.

    A pair is offered at several coarsenesses: its levels may be counted in groups, which are formed
    of the released one-way tables so that each has rows enough
    (:func:`~tightdp.mechanisms.table_offer.grouped_levels`). Where rows are few beside the cells
    a pair in a few groups tells more than all of its cells, most of them noise. A round draws table
    r with probability proportional to
    :math:`\exp\{\eta\, w_r (\lVert t_r(X) - m_r \rVert_1 - b_r)\}`: t are the counts of its groups,
    m those of the model, rounded to integers, w the number of columns, and b what the noise of the
    table would cost (after McKenna, Mullins, Sheldon and Miklau, 2022). All rounds take equal
    parts of the budget, and a one-way table, on average, as much as a round.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, or, where a
    ``delta`` is spent, rho-zCDP for the largest rho that implies (epsilon, delta)-DP.
    Needs: [P1] counts are exact integers of rows in public cells, and a row is in one cell of every
    table; [P2] the noise of a table is private at its share (:class:`CellNoise`); [P3] the choice
    of a round is private at its share; [P4] the shares of all steps, which are public, add up to at
    most the whole; [P5] groups of cells are functions of released numbers, and a cell is in one
    group.
    Proof: 1. A neighbour changes k cells of a table by one each, k = 1 under add-remove, 2 under
    replace-one [P1]. Given what is released before, groups are constants [P5], and the count of a
    group is the sum of its cells: it changes k groups by one each, or, where both cells of a
    replaced row are in one, none. So the noise of [P2] serves for cells and for groups. 2. Given
    what is released before, m and b are constants, too, and :math:`\lVert t_r(X) - m_r \rVert_1`
    changes by at most the l1 length of that move, which is at most k: utilities change
    by amounts in an interval of length :math:`2 k \max w`, which times :math:`\eta` is the epsilon
    of the choice; its log ratios lie in an interval of that length, which is worth
    :math:`\epsilon^2/8` in rho (Cesar and Rogers, 2021) [P3]. Cutting counts of cells at a constant
    moves nothing further apart. 3. Every step is private given all earlier releases, and the
    amounts add up to the whole [P4]: by adaptive composition so is all together, in epsilon
    and in rho (Bun and Steinke, 2016). 4. Cells that a chosen table does not have count no rows,
    whatever the data: their noise is drawn from public facts. Models and rows are functions of what
    is released.
    Numerics: ``exact``: counts, groups, noise and choices are integers; floats fit the models,
    which are made of released numbers.
    Order of events: the noise of stated tables is drawn before a row is read; then rounds choose,
    and draw theirs. The number of rounds, those of steps of fits, of cells and of groups are
    public.

    Parameters
    ----------
    schema : Schema
        Without ``person``, or with one row a person.
    tables : "auto", or list of lists of columns
        What is released beside the one-way tables; "auto" chooses in rounds.
    epsilon, delta : float, Fraction or Decimal
        With ``delta`` the budget is spent in rho where that buys more, as for many tables;
        for few the delta is left unspent.
    columns : sequence of str, optional
        Of which rows are made; by default all.
    bins : mapping, optional
        From names of numeric columns to how many bins they have, or where these begin and end; the
        others have :func:`~tightdp.data.cell_sides.usual_bins`.
    rounds : int, optional
        How many tables are chosen, beside those that are stated, each for the same part of the
        budget; by default none for a list, and for "auto" three for each column, or fewer where
        noise is large beside the rows (:func:`~tightdp.mechanisms.table_schedule.usual_rounds`).
    most_cells : int
        The cells of the model: tables that would need more are not chosen, and refused where they
        are stated.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"a": Category(["x", "y"], other="x"), "b": Category(["u", "v"], other="u")}
    >>> rows = SyntheticRows(Schema(facts, rows=1000), epsilon=2)
    >>> release = rows.release({"a": ["x", "y"] * 500, "b": ["u", "v"] * 500}, rng=1)
    >>> made = rows.rows(rows.fitted(release), 500, rng=1)
    >>> bool(np.mean((made["a"] == "x") == (made["b"] == "u")) > 0.95)
    True
    """

    why = (
        "A record is in one cell of every table, so that tables of few columns need little noise. "
        "Rows are drawn from a model of all columns that fits the released tables; they tell no "
        "more than the tables do."
    )

    def __init__(
        self,
        schema: Schema,
        tables: object = "auto",
        *,
        epsilon: Number,
        delta: Number = 0,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, Any] | None = None,
        rounds: int | None = None,
        most_cells: int = MOST_CELLS,
    ) -> None:
        self.schema, self.neighbors = check_schema(schema), schema.neighbors
        self.epsilon = check_epsilon(epsilon)
        self.delta = amount_within("delta", delta, "[0, 1)")
        if rounds is not None:
            check_count("rounds", rounds, least=0, most=_MOST_ROUNDS)
        choosing = isinstance(tables, str) if rounds is None else rounds > 0
        self.offer = TableOffer(
            schema, tables, columns, bins, choosing=choosing, most_cells=most_cells
        )
        self.sides, self.names = self.offer.sides, self.offer.names
        self.stated, self.spending = self.offer.stated, self._spending(rounds)
        self.offered = self.offer.coarsened(self.spending) if self.spending.rounds else []

    # --- public facts -------------------------------------------------------------------------

    def _spending(self, rounds: int | None) -> TableShares:
        """Who gets what: in epsilon, or with a delta in rho, where that buys more. [P4]

        More rounds, or as many with less noise.
        """
        offer = self.offer
        pure = offer.shares(self.epsilon, False, rounds)
        if not self.delta:
            return pure
        rho = zcdp_rho(self.epsilon, self.delta)
        concentrated = offer.shares(rho, True, rounds)
        if (pure.rounds, -offer.noise(pure)) < (concentrated.rounds, -offer.noise(concentrated)):
            return concentrated
        self.delta = Fraction(0)  # what is not spent is not claimed
        return pure

    @property
    def cost(self) -> Cost:
        if not self.delta:
            return super().cost
        return Cost.concentrated(self.spending.total, delta=self.delta, epsilon=self.epsilon)

    def _lengths(self) -> list[int]:
        """Where the entries of every stated table and every round end."""
        stated = [self.sides.cells_of(table) for table in self.stated]
        return list(
            itertools.accumulate([*stated, *[BEFORE + self.offer.width] * self.spending.rounds])
        )

    @property
    def law(self) -> str:
        laws = dict.fromkeys(noise.words for noise in self.spending.stated)
        parts = [f"counts plus {' or '.join(laws)}"]
        spending = self.spending
        if spending.rounds:
            parts.append(
                f"{spending.rounds} tables, each chosen by weights exp(rate * utility), rate = "
                f"{self.choice_rate}, plus {spending.noise.words}"
            )
        return "; ".join(parts)

    def label(self) -> str:
        return short_label(f"SyntheticRows({', '.join(self.names)})")

    @property
    def choice_rate(self) -> Fraction:
        """Eta: epsilon of a choice over the length of the interval of changes. [P3]"""
        weight = max(len(table.columns) for table in self.offered)
        return self.spending.choice_epsilon / (2 * self.neighbors.rows_apart * weight)

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.names)
        check_public_rows(frame, self.schema)
        warn_of_delta(self.delta, self.schema)

    # --- the release --------------------------------------------------------------------------

    def integer_sums(self) -> Sequence[IntegerSum]:
        return [self.sides.counts(self.offer.counted)]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        cells = self.sides.cells_of
        pairs = zip(self.stated, self.spending.stated, strict=True)
        stated = [_plain(noise.sample(cells(table), rng)) for table, noise in pairs]  # [P2]

        def finish(table: TableLike, progress: bool) -> Draft:
            counts = self._read(table, progress)
            entries = [
                [c + z for c, z in zip(counts[scope].tolist(), noise, strict=True)]
                for scope, noise in zip(self.stated, stated, strict=True)
            ]
            entries += self._rounds(counts, entries, rng)
            return self._draft(list(itertools.chain.from_iterable(entries)), confidence)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)

    def _read(self, frame: TableLike, progress: bool) -> dict[Scope, Integers]:
        """Exact counts of all tables, cut where 64 bits end. **Not private.** [P1]"""
        (wanted,) = self.integer_sums()
        sums = wanted.read(frame, progress=progress)
        whole = np.array([min(count, _MOST_COUNT) for count in sums], dtype=np.int64)
        ends = itertools.accumulate(map(self.sides.cells_of, self.offer.counted))
        return dict(zip(self.offer.counted, np.split(whole, list(ends)[:-1]), strict=True))

    def _rounds(
        self,
        counts: Mapping[Scope, Integers],
        entries: list[list[int]],
        rng: RandomSource,
    ) -> list[list[int]]:
        """For every round the place of the chosen table, and its noisy counts."""
        spending = self.spending
        noisy = [
            self._noisy(*each) for each in zip(self.stated, entries, spending.stated, strict=True)
        ]
        groups = self.offer.groups(self.offered, entries)  # [P5]
        found: list[list[int]] = []
        start: Mapping[Scope, FloatArray] = {}
        for _ in range(spending.rounds):
            fit = self._fit(noisy, _ROUND_STEPS, start)
            start = fit.weights
            able, law = self.choices(counts, fit, [table.columns for table in noisy], groups)
            place = able[law.draw(rng)]
            scope = self.offered[place].columns
            cells = np.zeros(self.offer.width, dtype=np.int64)
            exact = _grouped(counts[scope], groups[place])
            cells[: len(exact)] = exact
            drawn = _plain(spending.noise.sample(self.offer.width, rng))  # [P2]
            released = [c + z for c, z in zip(cells.tolist(), drawn, strict=True)]
            found.append([place, *released])
            noisy.append(self._noisy(scope, released, spending.noise, groups[place]))
        return found

    def choices(
        self,
        counts: Mapping[Scope, Integers],
        fit: TableFit,
        scopes: Sequence[Scope],
        groups: Sequence[Integers | None],
    ) -> tuple[list[int], TiltedLaw]:
        """What a round may choose after these tables, and by which law. **Not private.** [P3]

        Which tables it may choose, their groups, what the model says of them and what their noise
        would cost are known from what is released. Noise is charged half of its size in a cell, and
        no more than the rows that the model expects there: the fit allows no negative counts.
        """
        cliques = [set(clique.columns) for clique in fit.model.tree.cliques]
        round_now = len(scopes) - len(self.stated) + 1
        allowed = self.offer.most_cells * round_now // self.spending.rounds
        half = self.spending.noise.mean_size / 2
        able, levels = [], []
        alike = itertools.groupby(enumerate(self.offered), key=lambda each: each[1].columns)
        for scope, tables in alike:
            inside = any(set(scope) <= clique for clique in cliques)
            if not inside and model_cells(self.sides.sizes, [*scopes, scope]) > allowed:
                continue
            model = np.rint(np.clip(fit.counts(scope), 0, _MOST_COUNT)).astype(np.int64).ravel()
            for place, _ in tables:
                # at most 2^20 cells, 2^13 of a pair, of at most 2^40: sums fit
                expected = _grouped(model, groups[place])
                missed = int(np.abs(_grouped(counts[scope], groups[place]) - expected).sum())
                charge = round(float(np.minimum(half, expected).sum()))
                able.append(place)
                levels.append(-len(scope) * (missed - charge))
        even = np.ones(len(able), dtype=np.int64)
        return able, TiltedLaw(even, np.array(levels, dtype=np.int64), self.choice_rate)

    def _noisy(
        self,
        scope: Scope,
        cells: Sequence[int],
        noise: CellNoise,
        groups: Integers | None = None,
    ) -> NoisyTable:
        """Released counts as a table; what is beyond its cells counts nothing."""
        shape = [self.sides.sizes[j] for j in scope]
        many = math.prod(shape) if groups is None else int(groups.max()) + 1
        values = np.array([float(c) for c in cells[:many]])
        values = values.reshape(shape) if groups is None else values
        return NoisyTable(scope, values, noise.variance, groups)

    def _draft(self, entries: list[int], confidence: float) -> Draft:
        """Released integers with their names and errors."""
        names = [name for table in self.stated for name in self.sides.cell_names(table)]
        drafts, miss = [], self._miss(confidence)
        ends = self._lengths()
        for place, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            part, noise = entries[start:end], self._noise_of(place)
            called = names[start:end]
            if place >= len(self.stated):
                number = place - len(self.stated) + 1
                which = (f"round {number}: table",)
                before, part = part[:BEFORE], part[BEFORE:]
                drafts.append(Draft.of(which, before, before, 1, _CHOSEN))
                called = [f"round {number}: cell {i + 1}" for i in range(len(part))]
            error = Known(
                half_width=np.full(len(part), noise.reach(miss)),
                covariance=np.full(len(part), noise.variance),
            )
            drafts.append(Draft.of(tuple(called), part, part, 1, error))
        return drafts[0].beside(*drafts[1:])

    def _noise_of(self, place: int) -> CellNoise:
        """The noise of a stated table, or of a round."""
        spending = self.spending
        return spending.stated[place] if place < len(self.stated) else spending.noise

    def _miss(self, confidence: float) -> float:
        """The chance that one cell may have to be off further, for all of them at once."""
        cells = self._lengths()[-1] - BEFORE * self.spending.rounds
        return -math.expm1(math.log(confidence) / cells)

    def half_widths(self, confidence: float) -> FloatArray:
        """Of every entry; there is none of which table was chosen."""
        miss, out = self._miss(confidence), []
        for table, noise in zip(self.stated, self.spending.stated, strict=True):
            out.append(np.full(self.sides.cells_of(table), noise.reach(miss)))
        if self.spending.rounds:
            reach = self.spending.noise.reach(miss)
            each = np.append([np.nan] * BEFORE, np.full(self.offer.width, reach))
            out += [each] * self.spending.rounds
        return np.concatenate(out)

    # --- what is read off a release -----------------------------------------------------------

    def noisy_tables(self, release: Release) -> list[NoisyTable]:
        """The released tables, chosen ones included; public facts tell where each lies."""
        ends = self._lengths()
        if len(release.integers) != ends[-1]:
            fail("`release` must come from a mechanism with the same tables and rounds.")
        parts = [release.integers[a:b] for a, b in itertools.pairwise([0, *ends])]
        groups, many = self.offer.groups(self.offered, parts), len(self.stated)
        found = [
            self._noisy(*each)
            for each in zip(self.stated, parts, self.spending.stated, strict=False)
        ]
        for part in parts[many:]:
            place = min(max(part[0], 0), len(self.offered) - 1)
            noise, scope = self.spending.noise, self.offered[place].columns
            found.append(self._noisy(scope, part[BEFORE:], noise, groups[place]))
        return found

    def fitted(self, release: Release) -> TableFit:
        """The model of all columns that fits the released tables; costs nothing."""
        return self._fit(self.noisy_tables(release), _LAST_STEPS)

    def _fit(
        self,
        tables: Sequence[NoisyTable],
        steps: int,
        start: Mapping[Scope, FloatArray] | None = None,
    ) -> TableFit:
        return fit_tables(self.sides.sizes, tables, self._total(tables), steps, start)

    def _total(self, tables: Sequence[NoisyTable]) -> float:
        """The number of rows: public, or the sums of the noisy tables, averaged by precision."""
        if self.neighbors is Neighbors.REPLACE_ONE:
            return float(self.schema.rows)
        precision = np.array([1 / (table.variance * table.counts.size) for table in tables])
        sums = np.array([table.counts.sum() for table in tables])
        return float(np.clip(sums @ precision / precision.sum(), 1.0, self.schema.rows))

    def rows(
        self,
        fit: TableFit,
        size: int | None = None,
        *,
        balanced: bool = True,
        rng: RandomLike = None,
    ) -> Rows:
        """Rows drawn from a model, as columns: as many as you like, at no cost.

        By default as many as the model counts. ``balanced`` rows have tables as near to the model's
        as so many rows can have; others are independent.
        """
        count = max(1, round(fit.total)) if size is None else check_count("size", size)
        if count * len(self.names) > _MOST_ROWS:
            fail(f"`size` must be at most {_MOST_ROWS // len(self.names)}: draw several times.")
        bits = source(rng)
        return self.sides.values(drawn_codes(fit.model, count, bits, balanced=balanced), bits)

    def another(self, release: Release, fit: TableFit, *, rng: RandomLike = None) -> TableFit:
        r"""A model drawn for what is not known of the population, given a release; costs nothing.

        Flat beliefs about the tables of the population put them at the released ones plus an error
        of the size of both their noise and the sampling of the rows: noise is drawn again by its
        own law, as many independent rows as there are from the model of the release, and a model is
        fitted to the released tables plus both deviations. Which tables were chosen is taken as
        given.
        """
        bits, tables = source(rng), self.noisy_tables(release)
        count = max(1, round(fit.total))
        rows = drawn_codes(fit.model, count, bits, balanced=False)
        moved = []
        for place, table in enumerate(tables):
            shape = [self.sides.sizes[j] for j in table.columns]
            cells = np.ravel_multi_index(tuple(rows[:, j] for j in table.columns), shape)
            drawn = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
            away = table.measured(drawn - count * fit.model.joint(table.columns))
            fresh = self._noise_of(place).sample(away.size, bits).astype(np.float64)
            moved.append(replace(table, counts=table.counts + away + fresh.reshape(away.shape)))
        return fit_tables(self.sides.sizes, moved, fit.total, _COPY_STEPS, fit.weights)

    def made_rows(self, release: Release) -> Rows:
        """Rows of a release, always the same ones: as many as its model counts."""
        text = ",".join(map(str, release.integers)).encode()
        seed = int.from_bytes(hashlib.sha256(text).digest(), "big")  # public, as the release is
        return self.rows(self.fitted(release), rng=seed)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The noisy one-way tables, which say how far rows can be trusted column by column."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        cells = sum(self.sides.sizes)
        half = self.half_widths(level)[:cells]
        value = release.value[:cells]
        return Answer(
            names=release.names[:cells],
            value=value,
            interval=possible_counts(value, half, self.schema.rows),
            confidence=level,
            release=release,
            about=_ABOUT,
            covers="noise",
        )

    def variation(self) -> Variation:
        """The total variation that noise costs tables of the rows, from public facts."""
        return self.offer.variation(self.spending)

    def preview(self, confidence: float = 0.95) -> Preview:
        """The noise of the one-way tables, and what noise costs tables of the rows."""
        level = check_confidence(confidence)
        sizes, noises = self.sides.sizes, self.spending.stated
        std = [np.full(m, math.sqrt(n.variance)) for m, n in zip(sizes, noises, strict=False)]
        names = [name for j in range(len(sizes)) for name in self.sides.cell_names((j,))]
        half = self.half_widths(level)[: sum(sizes)]
        assumes = of_rows(self.schema, f"one-way tables. {self.variation()}")
        said = self.guarantee(), self.law, assumes
        return Preview(tuple(names), np.concatenate(std), half, level, *said)


def _grouped(cells: Integers, groups: Integers | None) -> Integers:
    """Counts of groups of cells, in integers."""
    if groups is None:
        return cells
    sums = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.add.at(sums, groups, cells)
    return sums


def _plain(noise: Any) -> list[int]:
    return [int(z) for z in noise]
