"""Private synthetic rows of many columns: one release of small tables, then rows for nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number
from tightdp.errors import check_choice, check_count, check_flag, check_list, fail, quoted
from tightdp.estimators.inputs import Problem
from tightdp.estimators.private_estimator import PRINTED, Lacking, Untargeted
from tightdp.inference.copies import Combined, combined_interval
from tightdp.mechanisms.synthetic_rows import MOST_CELLS, Rows, SyntheticRows
from tightdp.randomness import RandomLike, source
from tightdp.release import Release

_MOST_COPIES = 1000


class SyntheticTable(Untargeted[SyntheticRows]):
    r"""Rows of all columns, drawn from a model of private tables of few columns.

    ``fit`` releases one-way tables of all columns and tables of pairs of columns, chosen where a
    model misses most, for one payment. ``sample`` draws rows from the model: post-processing, as
    many and as often as you like at no cost. Categories keep their levels; numbers are put into
    public bins and spread evenly over them.

    **Privacy.** ``fit`` is epsilon-DP, or with ``delta`` (epsilon, delta)-DP, under the neighbour
    relation of the schema, by the proof of
    :class:`~tightdp.mechanisms.synthetic_rows.SyntheticRows`. Bounds, levels, bins and tables must
    be public facts. Numerics: ``exact``. The rows stand for nobody, but they are about the people
    in the table: what they say of a group is meant to be true of it.

    **Copies.** ``sample(n, copies=m)`` draws m tables, each from a model of its own that was drawn
    for what the release leaves open: the noise of the tables and the sampling of the rows. Analyse
    each as if it were the data, and combine the m results with :meth:`interval`. One table alone
    hides the noise.

    Parameters
    ----------
    delta : float, Fraction or Decimal
        With a delta the budget is spent in rho where that buys more, as for many tables; for few
        the delta is left unspent.
    tables : "auto", or list of lists of columns
        What is released beside one-way tables; "auto" chooses pairs in rounds, counted by levels
        or by groups of them.
    bins : mapping, optional
        Of numeric columns; by default :math:`2 n^{1/5}` equal ones.
    rounds : int, optional
        How many tables are chosen, beside those that are stated, for equal parts of the budget; by
        default none for a list, and for "auto" three for each column, or fewer where noise is large
        beside the rows.
    most_cells : int
        How large the model may be.

    Attributes
    ----------
    release_ : Release
        The noisy tables: all that is known of the rows. With it and the same parameters the
        mechanism samples again, without data (``mechanism_.fitted``, ``mechanism_.rows``).
    model_ : TableFit
        The fitted distribution; ``model_.counts((0, 3))`` are expected counts of two columns.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp import Category, Interval, Schema
    >>> schema = Schema({"age": Interval(0, 90), "k": Category(["a", "b"], other="a")}, rows=2000)
    >>> table = {"age": np.linspace(0, 90, 2000), "k": ["a"] * 1500 + ["b"] * 500}
    >>> made = SyntheticTable(schema, epsilon=2).fit(table).sample(1000)
    >>> sorted(made), len(made["age"]), bool(200 < sum(made["k"] == "b") < 300)
    (['age', 'k'], 1000, True)
    """

    delta: Number = 0
    tables: str | Sequence[Any] = "auto"
    bins: Mapping[str, Any] | None = None
    rounds: int | None = None
    most_cells: int = MOST_CELLS

    conf_int = Lacking(
        "rows have no one number to bound. `interval` combines an analysis of each of several "
        "copies, which `sample(copies=...)` makes."
    )
    summary = Lacking(PRINTED)

    _leading = ("bounds", "epsilon")

    def _mechanism(self, problem: Problem) -> SyntheticRows:
        return SyntheticRows(problem.schema, **self._options(SyntheticRows))

    def _read(self, mechanism: SyntheticRows, release: Release) -> Release:
        self.model_ = mechanism.fitted(release)
        return release

    @overload
    def sample(
        self,
        n_samples: int | None = None,
        *,
        copies: None = None,
        balanced: bool = True,
        random_state: RandomLike = None,
    ) -> Rows: ...

    @overload
    def sample(
        self,
        n_samples: int | None = None,
        *,
        copies: int,
        balanced: bool = True,
        random_state: RandomLike = None,
    ) -> list[Rows]: ...

    def sample(
        self,
        n_samples: int | None = None,
        *,
        copies: int | None = None,
        balanced: bool = True,
        random_state: RandomLike = None,
    ) -> Rows | list[Rows]:
        """Rows as a mapping from names to arrays, which every data frame takes; costs nothing.

        Parameters
        ----------
        n_samples : int, optional
            By default as many as the model counts.
        copies : int, optional
            So many tables instead of one, whose differences show what the release leaves open.
            Their rows are independent, as combining rules ask.
        balanced : bool
            Of one table: rows whose tables are as near to the model's as so many rows can have;
            else independent rows.
        random_state : None, int or Generator
        """
        check_is_fitted(self, "release_")
        check_flag("balanced", balanced)
        bits, mechanism = source(random_state), self.mechanism_
        if copies is None:
            return mechanism.rows(self.model_, n_samples, balanced=balanced, rng=bits)
        many = check_count("copies", copies, most=_MOST_COPIES)
        models = (mechanism.another(self.release_, self.model_, rng=bits) for _ in range(many))
        return [mechanism.rows(m, n_samples, balanced=False, rng=bits) for m in models]

    def interval(
        self,
        estimates: ArrayLike,
        variances: ArrayLike,
        columns: str | Sequence[str],
        confidence: float = 0.95,
    ) -> Combined:
        """The estimate and interval of a share of the population, from one analysis of each copy.

        The rule of :func:`~tightdp.inference.copies.combined_interval`, where it holds. What the
        copies know of several columns together is what released tables tell: a share that needs
        columns which no released table has together, cell by cell, is refused: of a pair that was
        counted by groups of levels they know no more than the groups. The standard error is at
        least that of one released cell with its noise, as for a count that is not there: copies of
        small counts differ by less, because none is negative.

        Parameters
        ----------
        estimates, variances : arrays, one entry for each copy
            A share of the rows, and its variance by the size of the copy.
        columns : str or list of str
            All columns that the share is about.
        confidence : float
        """
        check_is_fitted(self, "release_")
        names = [columns] if isinstance(columns, str) else check_list("columns", columns)
        for name in names:
            check_choice("columns", name, self.mechanism_.names)
        wanted = {self.mechanism_.names.index(name) for name in names}
        tables = self.mechanism_.noisy_tables(self.release_)
        cells = [table for table in tables if table.groups is None]  # each level by itself
        many = self.mechanism_.sides.cells_of(wanted)  # of which a larger table counts parts
        variances_of = [
            t.variance * t.counts.size / many for t in cells if wanted <= set(t.columns)
        ]
        if not wanted or not variances_of:
            fail(
                f"`columns` {quoted(', '.join(names))} are together in no released table that "
                "counts each of their cells: copies do not say what they have to do with each "
                "other, or only by groups of levels. State the table when fitting, with "
                "tables=[[...]]."
            )
        best = 1 / sum(1 / v for v in variances_of)  # of a cell that several tables tell
        rows = max(self.model_.total, 1.0)
        least = math.sqrt(best + 1) / rows
        return combined_interval(estimates, variances, confidence, least=least)
