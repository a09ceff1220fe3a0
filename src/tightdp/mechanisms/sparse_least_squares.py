"""Least squares on a few columns of many: they are chosen privately, then fitted, on one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.blocks import Block, Grid, gram_of_doubles
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.one_pass import IntegerSum
from tightdp.data.statistics import distinct
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import (
    FloatArray,
    Integers,
    WideIntegers,
    check_count,
    check_list,
    exact_fraction,
    fail,
)
from tightdp.exact.tilted import permute_and_flip
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema, numeric_column, require_public_rows

_BITS = 16  # of a cell, at most
_KEPT = 5  # columns, unless stated
_GRID = 20  # coefficients of scaled columns are multiples of 2**-20
_MOST = 1000  # features: all of their products are summed in one pass


class SparseLeastSquares(Mechanism):
    r"""Chooses ``keep`` of many columns by their covariances with the target, then fits on them.

    With n rows on the integer grid :math:`[-B, B]`, column j has the score
    :math:`|n \sum x_j y - \sum x_j \sum y|`. The best column is chosen by permute-and-flip, taken
    out, and so on, ``keep`` times; the least-squares fit on the chosen columns is that of
    :class:`~tightdp.mechanisms.least_squares.LeastSquares`. Coefficients of all others are 0.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one.
    Needs: [P1] bounds, the number n of rows, ``keep`` and ``share`` are public; [P2] replacing a
    row changes every score by at most :math:`4 B^2 (n - 1)`; [P3] permute-and-flip with the rate
    :math:`\epsilon'/(2s)`, s the sensitivity of the scores, is :math:`\epsilon'`-DP
    (:class:`~tightdp.ExponentialMechanism`); [P4] the noisy moments of any ``keep`` columns are
    private at what is left (:class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`): their
    body is that of numeric columns scaled to [-1, 1], whichever they are.
    Proof: 1. Let the other n - 1 rows have the means :math:`m_x, m_y`. The signed score is
    :math:`(n-1)(x - m_x)(y - m_y)` plus what does not depend on the row (x, y). On the square the
    product is extreme at corners; with :math:`a = B - m_x`, :math:`a' = B + m_x` and b, b' likewise
    its largest value is ab or a'b' and its least -ab' or -a'b, and the difference, such as
    :math:`ab + ab' = 2Ba`, is at most :math:`4B^2`. So [P2]. Here n is the number of rows that are
    read, the same for neighbours: of a file it may not be the stated one. If it is larger, the rate
    falls with it. 2. ``keep`` choices, each with the
    part :math:`1/\mathrm{keep}` of ``share`` of epsilon and from what earlier choices leave, and
    the moments with the rest, compose adaptively to epsilon [P1, P3, P4]. 3. Coefficients are
    functions of these.
    Numerics: ``exact``. Scores, coins and moments are integers; floats see released numbers only.
    Order of events: parameters are checked, the ledger is charged, the noise of the moments is
    drawn, and only then are rows read, once.

    Parameters
    ----------
    schema : Schema
        With replace-one neighbours.
    features : sequence of str
        Numeric columns.
    target : str
        A numeric column.
    epsilon : float, Fraction or Decimal
    keep : int, optional
        How many columns are chosen: five, or all where there are fewer, by default.
    share : float, Fraction or Decimal
        The part of epsilon that pays for the choice, strictly between 0 and 1.

    Examples
    --------
    >>> names = [f"x{i}" for i in range(30)]
    >>> schema = Schema({name: Interval(-1, 1) for name in [*names, "y"]}, rows=50_000)
    >>> cells = np.random.default_rng(1).uniform(-1, 1, (50_000, 30))
    >>> table = dict(zip(names, cells.T)) | {"y": 0.5 * cells[:, 3] - 0.4 * cells[:, 7]}
    >>> sparse = SparseLeastSquares(schema, names, "y", epsilon=4, keep=2)
    >>> release = sparse.release(table, rng=1)
    >>> {name: round(release[name], 1) for name in names if release[name] != 0}
    {'x3': 0.5, 'x7': -0.4}
    """

    why = (
        "Columns are chosen by a draw that prefers large covariances with the target; what is left "
        "of the budget buys the sums of squares and products of the chosen ones alone."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        epsilon: Number,
        keep: int | None = None,
        share: Number = 0.5,
    ) -> None:
        self.schema, self.epsilon = check_schema(schema), check_epsilon(epsilon)
        self.neighbors = schema.neighbors
        require_public_rows(schema, "A sparse regression", "Choose columns by public knowledge.")
        self.features = distinct(tuple(check_list("features", features)))
        self.target = target
        if not self.features or target in self.features:
            fail("`features` and `target` must be distinct columns, at least one feature.")
        for name in self.columns:
            numeric_column(schema, name)
        many = check_count("number of features", len(self.features), most=_MOST)
        self.keep = min(_KEPT, many) if keep is None else check_count("keep", keep, most=many)
        self.share = exact_fraction("share", share)
        if not 0 < self.share < 1:
            fail(f"`share` must be strictly between 0 and 1. Got {float(self.share):g}.")
        self.layout = DesignMatrix(schema, self.features, target)
        self.bits = min(schema.bits, _BITS)
        self.fitted = LeastSquares(
            self._scaled(), self._chosen_names, "y", epsilon=(1 - self.share) * self.epsilon
        )
        self._pass = _Gram(self.columns, self.bits, schema.bits)

    @property
    def _chosen_names(self) -> list[str]:
        return [f"x{place}" for place in range(self.keep)]

    def _scaled(self) -> Schema:
        """The facts about any chosen columns, scaled, and the target."""
        facts = dict.fromkeys([*self._chosen_names, "y"], Interval(-1, 1))
        return Schema(facts, self.schema.rows, bits=self.bits)

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """The intercept, then the features."""
        return self.layout.names

    @property
    def sensitivity(self) -> int:
        """How far a replaced row moves a score, on the lattice [P2]; 1 row cannot move one."""
        return self._moves(self.schema.rows)

    def _moves(self, rows: int) -> int:
        return 4 * max(rows - 1, 1) << 2 * self.bits

    @property
    def rate(self) -> Fraction:
        """Of one choice, for scores on the lattice [P3]."""
        return self.share * self.epsilon / self.keep / (2 * self.sensitivity)

    @property
    def law(self) -> str:
        return (
            f"{self.keep} of {len(self.features)} columns one after the other, by permute-and-flip "
            f"with coins exp({self.rate} * score); of these, {self.fitted.law}"
        )

    def shape_facts(self) -> list[str]:
        return self.fitted.moments.shape_facts()

    def label(self) -> str:
        return f"SparseLeastSquares({', '.join(self.features)}; {self.target})"

    # --- the release --------------------------------------------------------------------------

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)

    def integer_sums(self) -> Sequence[IntegerSum]:
        size = len(self.columns) + 1
        width = size * (size + 1) // 2
        return [IntegerSum(self.schema, self.columns, self._pass, width, cell_bits=self.bits)]

    def scores(self, gram: WideIntegers) -> WideIntegers:
        """Sizes of covariances on the lattice, times the number of rows. **Not private.**"""
        points = 1 << self.bits
        sums, target = gram[0, 1:-1] // points, int(gram[0, -1]) // points
        return np.abs(self._rows_read(gram) * gram[1:-1, -1] - sums * target)

    def _rows_read(self, gram: WideIntegers) -> int:
        """The number of rows that are there, which a file tells while it is read."""
        return int(gram[0, 0]) >> 2 * self.bits

    def choose(self, scores: WideIntegers, rng: RandomSource, rows: int = 1) -> list[int]:
        """Places of the chosen features, in their order; spends no budget by itself.

        ``rows`` is how many were read: with more than the stated ones, a row moves scores further.
        """
        further = Fraction(self._moves(max(rows, self.schema.rows)), self.sensitivity)
        left, rate = list(range(len(scores))), self.rate / further
        chosen = [left.pop(permute_and_flip(-scores[left], rate, rng)) for _ in range(self.keep)]
        return sorted(chosen)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Releases on made-up rows, simulated."""
        return replace(super().preview(confidence), silence=DEPENDS.reason)

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        paid, moments = self.fitted.moments, self.fitted.statistic
        noise = [int(z) for part in paid.noises for z in part.sample(rng=rng)]

        def finish(table: TableLike, progress: bool) -> Draft:
            (asked,) = self.integer_sums()
            gram = self._matrix(asked.read(table, progress=progress))
            chosen = self.choose(self.scores(gram), rng, self._rows_read(gram))
            at = [0, *(place + 1 for place in chosen), len(gram) - 1]
            i, j, factor = moments.entries.T
            exact = gram[np.ix_(at, at)][i, j] * factor
            noisy = [(int(t) + z) / paid.resolution for t, z in zip(exact, noise, strict=True)]
            products = moments.matrices(np.array(noisy) / self.schema.rows)
            return self._drawn(chosen, LinearFit(self.fitted, products).solve())

        return finish

    def _matrix(self, entries: Sequence[int]) -> WideIntegers:
        """Products of (1, features, target), symmetric, of Python integers."""
        size = len(self.columns) + 1
        gram = np.zeros((size, size), dtype=object)
        i, j = np.triu_indices(size)
        gram[i, j] = gram[j, i] = entries
        return gram

    def _drawn(self, chosen: list[int], scaled: FloatArray) -> Draft:
        """The coefficients of all features on a grid, from released numbers."""
        unit = 1 << _GRID
        integers = [round(float(scaled[0]) * unit)] + [0] * len(self.features)
        for place, slope in zip(chosen, scaled[1:], strict=True):
            # a chosen column is told from the others, whatever its coefficient is
            integers[place + 1] = round(float(slope) * unit) or 1
        value = self.layout.to_user(np.array([integers]) / unit)[0]
        return Draft.of(self.names, value, tuple(integers), unit, DEPENDS)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)


@dataclass(frozen=True, slots=True)
class _Gram:
    """Sums of products of (1, columns) on one grid, the upper triangle; picklable."""

    columns: tuple[str, ...]
    bits: int
    fine: int

    def __call__(self, block: Block) -> Integers:
        grid = Grid(1 << self.bits, self.bits, self.fine, {})
        constant = np.full((1, len(block)), float(grid.points))
        rows = np.vstack([constant, grid.cells(block, self.columns)])
        return gram_of_doubles(rows, self.bits)[np.triu_indices(len(rows))]
