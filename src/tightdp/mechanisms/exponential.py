"""The exponential mechanism on a finite set of candidates, and on the range of a mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.data.blocks import Block
from tightdp.data.one_pass import integer_sums
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import (
    DataError,
    DimensionError,
    WideIntegers,
    check_filled,
    check_flag,
    check_function,
    check_instance,
    check_length,
    check_list,
    exact_fraction,
    fail,
)
from tightdp.exact.tilted import TiltedLaw, permute_and_flip
from tightdp.mechanisms.exponential_grids import (
    BoxMechanism,
    PieceLaw,
    PieceMechanism,
    UtilityBudget,
    called,
    integer_levels,
    on_grid,
)
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.quantiles import UNORDERED
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release
from tightdp.schema import Interval, Schema, check_schema, numeric_column, require_public_rows

_FINEST = 20


class ExponentialMechanism(Mechanism):
    r"""Releases one of finitely many candidates, the better ones more often.

    Candidate i is released with probability proportional to
    :math:`\mu_i \exp\{\epsilon u_i(X) / (2 s)\}` (McSherry and Talwar, 2007), with utilities u
    (higher is better) whose sensitivity is s, and a public base measure :math:`\mu`. With
    ``permute_and_flip`` (McKenna and Sheldon, 2020) the candidates are tried in random order and
    the first one whose coin :math:`\exp\{\epsilon (u_i - \max u)/(2s)\}` says yes is released:
    never a larger expected loss of utility at the same epsilon, and up to half of it.

    **Privacy.**
    Statement: a release is epsilon-DP under the stated neighbour relation.
    Needs: [P1] neighbours change no utility by more than ``sensitivity``; [P2] the claims
    ``monotonic`` (a row more never lowers a utility, or never raises one) and
    ``constant_normalizer`` (the sum of weights is the same for all data), where made.
    Proof: 1. Let utilities change by amounts in [a, b]. Numerators change by at most
    :math:`e^{rb}`, the normaliser by at least :math:`e^{ra}`: the log ratio is at most
    :math:`r(b - a)`. 2. In general :math:`b - a \le 2s` and :math:`r = \epsilon/(2s)`; for
    monotonic utilities under add-remove :math:`b - a \le s`, for a constant normaliser the second
    change is absent: :math:`r = \epsilon/s` [P1, P2]. 3. Permute-and-flip: with coins
    :math:`p_j = e^{r(u_j - \max u)}` the chance of i is
    :math:`p_i \int_0^1 \prod_{j \ne i} (1 - p_j v)\,dv` (given the coins the choice is uniform
    among the yeses, and :math:`1/(1+N) = \int_0^1 (1-v)^N dv`). It depends on differences of
    utilities only and falls as another utility grows (if that one is the best, all coins shrink by
    1/c, and :math:`\frac{p_i}{c} \int_0^1 (1-v) \prod (1 - p_j v/c)\,dv =
    p_i \int_0^{1/c} (1-cv) \prod (1 - p_j v)\,dv` falls in c). So the worst neighbour changes
    :math:`u_i` by b and all others by a, as if :math:`u_i` alone grew by b - a. While i is not the
    best, this multiplies its chance by the growth of :math:`p_i`; beyond, the others' coins shrink
    by 1/c, and :math:`\int_0^1 \prod(1 - p_j v/c)\,dv = c \int_0^{1/c} \prod(1 - p_j v)\,dv \le
    c \int_0^1 \prod(1 - p_j v)\,dv`: together at most :math:`e^{r(b-a)}`.
    4. The draw has exactly this law: integers and lazily settled coins
    (:mod:`tightdp.exact.tilted`).
    Numerics: ``exact``. The running time depends on the utilities.

    Parameters
    ----------
    candidates : sequence
        What can be released, in a public order.
    utility : callable
        From the table to one exact number per candidate: integers, Fractions, or floats that are
        taken as they are. Its errors are withheld.
    sensitivity : number
        Bound on the change of any utility between neighbours.
    epsilon : float, Fraction or Decimal
    neighbors : {"replace-one", "add-remove"}
    base_measure : sequence of numbers > 0, optional
        Public weights; not with ``permute_and_flip``.
    monotonic, constant_normalizer : bool
        Claims that save the factor 2; the first needs add-remove.
    permute_and_flip : bool

    Examples
    --------
    >>> votes = ExponentialMechanism(
    ...     ["red", "green", "blue"], lambda rows: [rows.count(c) for c in ("r", "g", "b")],
    ...     sensitivity=1, epsilon=1.0, neighbors="add-remove", monotonic=True)
    >>> release = votes.release(list("rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrg"))
    >>> votes.candidate(release)
    'red'
    >>> votes.probabilities([40, 38, 0]).round(3)
    array([0.881, 0.119, 0.   ])
    """

    def __init__(
        self,
        candidates: Sequence[Any],
        utility: Callable[[Any], Any],
        *,
        sensitivity: Number,
        epsilon: Number,
        neighbors: str | Neighbors = "replace-one",
        base_measure: Sequence[Any] | None = None,
        monotonic: bool = False,
        constant_normalizer: bool = False,
        permute_and_flip: bool = False,
    ) -> None:
        self.candidates = check_list("candidates", candidates, "candidates")
        check_filled("candidates", self.candidates, "candidate")
        self.utility = check_function("utility", utility)
        flip = check_flag("permute_and_flip", permute_and_flip)
        if flip and (base_measure is not None or constant_normalizer):
            fail("`permute_and_flip` knows no `base_measure` and no `constant_normalizer`.")
        self.budget = UtilityBudget(epsilon, sensitivity, neighbors, monotonic, constant_normalizer)
        self.epsilon, self.neighbors = self.budget.epsilon, self.budget.neighbors
        self.permute_and_flip = flip
        self.weights = _measure(base_measure, len(self.candidates))

    def exponential_shares(self) -> Sequence[Fraction]:
        return () if self.permute_and_flip else self.budget.shares

    # --- other domains ------------------------------------------------------------------------

    @staticmethod
    def on_interval(
        interval: Interval, utility: Callable[[Any], Any], **options: Any
    ) -> PieceMechanism:
        """The mechanism on an interval, for utilities that are constant between cuts.

        See :class:`~tightdp.mechanisms.exponential_grids.PieceMechanism` for the options.
        """
        return PieceMechanism(interval, utility, **options)

    @staticmethod
    def on_box(
        intervals: Sequence[Interval], bounds: Callable[[Any], Any], **options: Any
    ) -> BoxMechanism:
        """The mechanism on a box of few dimensions, for utilities with certified bounds.

        See :class:`~tightdp.mechanisms.exponential_grids.BoxMechanism` for the options.
        """
        return BoxMechanism(intervals, bounds, **options)

    # --- the law ------------------------------------------------------------------------------

    @property
    def law(self) -> str:
        how = "permute-and-flip with coins" if self.permute_and_flip else "weights"
        return f"{how} exp({self.budget.rate} * utility) on {len(self.candidates)} candidates"

    def label(self) -> str:
        return f"ExponentialMechanism({function_name(self.utility)})"

    def choose(self, utilities: object, *, rng: RandomLike = None) -> int:
        """The place of a candidate drawn for given utilities; spends no budget by itself."""
        bits = source(rng)
        levels, rate = self._levels(utilities)
        if self.permute_and_flip:
            return permute_and_flip(levels, rate, bits)
        return TiltedLaw(self._base(), levels, rate).draw(bits)

    def probabilities(self, utilities: object) -> Any:
        """The law for given utilities as doubles, for tests and plots; **not private**."""
        levels, rate = self._levels(utilities)
        if not self.permute_and_flip:
            return TiltedLaw(self._base(), levels, rate).probabilities()
        coins = np.exp(-float(rate) * (levels - levels.min()).astype(np.float64))
        return _first_yes(coins)

    def candidate(self, release: Release) -> Any:
        """The candidate that a release names."""
        return self.candidates[release.integers[0]]

    def _base(self) -> WideIntegers:
        if self.weights is None:
            return np.ones(len(self.candidates), dtype=np.int64)
        return self.weights

    def _levels(self, utilities: Any) -> tuple[WideIntegers, Fraction]:
        levels, q = integer_levels(utilities)
        if len(levels) != len(self.candidates):
            fail("The utilities must be one number per candidate.", DimensionError)
        return levels, self.budget.rate / q

    names = ("candidate",)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        utilities = called(self.utility, frame)
        try:
            place = self.choose(utilities, rng=rng)
        except ValueError:  # wrong length, NaN: said without what was got
            place = -1
        if place < 0:
            fail("`utility` must give one finite exact number per candidate.", DataError)
        return Draft.of(("candidate",), [place], (place,), 1, DEPENDS)


def _measure(base_measure: object, count: int) -> WideIntegers | None:
    """Integers in the proportions of the base measure."""
    if base_measure is None:
        return None
    numbers = check_list("base_measure", base_measure, "numbers")
    given = [exact_fraction("base_measure", value) for value in numbers]
    check_length("base_measure", len(given), count, "numbers")
    if any(value <= 0 for value in given):
        fail("`base_measure` must hold numbers > 0: leave out what must not be released.")
    common = lcm(*(value.denominator for value in given))
    weights = [int(value * common) for value in given]
    fits = max(weights) < 1 << 62
    return np.array(weights, dtype=np.int64 if fits else object)


def _first_yes(coins: Any) -> Any:
    """p_i times the integral over v in [0, 1] of the product of 1 - p_j v, j != i, for every i."""
    nodes, weights = np.polynomial.legendre.leggauss(64)  # exact up to 128 candidates
    logs = np.log1p(-np.multiply.outer((nodes + 1) / 2, coins))
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    return coins * (weights / 2 @ others)


class _Sum:
    """The sum of a column; picklable."""

    def __init__(self, column: str) -> None:
        self.column = column

    def __call__(self, block: Block) -> NDArray[np.int64]:
        return np.array([block[self.column].sum()])


class SquaredLossMean(Mechanism):
    r"""Releases a grid point l with weight :math:`\exp\{-\frac{n\epsilon}{2}(l - \bar x)^2\}`.

    Here the data range is taken as [0, 1]: the law is normal with mean :math:`\bar x` and variance
    :math:`1/(n\epsilon)`, cut to the range of the data. It is kept for comparison: the additive
    mechanism has less error as soon as :math:`n\epsilon > 2`.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one.
    Needs: the output range is exactly the data range; n is public.
    Proof: let neighbours have means :math:`\mu` and :math:`\mu - h'`,
    :math:`0 < h' \le h = 1/n`, and :math:`Z(\mu) = \sum_l \exp\{-\frac{n\epsilon}{2}(l-\mu)^2\}`.
    1. The log ratio at l is
    :math:`n\epsilon h'(\mu - l) - n\epsilon h'^2/2 + \log Z(\mu) - \log Z(\mu - h')`, largest at
    l = 0. 2. :math:`(\log Z)'' = (n\epsilon)^2 \mathrm{Var}(l) - n\epsilon \ge -n\epsilon`, so it
    does not fall in :math:`\mu`: take :math:`\mu = 1`. 3. There its derivative in h' is
    :math:`n\epsilon\,E(l) \ge 0`: take h' = h. 4. With u = 1 - l,
    :math:`Z(1-h) = e^{-\epsilon/(2n)} \sum_l e^{-n\epsilon u^2/2} e^{\epsilon u} \ge
    e^{-\epsilon/(2n)} Z(1)`: the loss is at most
    :math:`\epsilon - \epsilon/(2n) + \epsilon/(2n) = \epsilon`, on every grid. 5. The other
    direction is the mirror image.
    Numerics: ``exact``.

    **Erratum.** The class notes give this law on the whole line with :math:`\Delta_u \le 1/n`;
    there it is not private (E31). On any wider range the proof fails, and so does privacy.

    Parameters
    ----------
    schema : Schema
        With replace-one neighbours.
    column : str
    epsilon : float, Fraction or Decimal
    output : Interval, optional
        Refused if it is not the range of the column.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 1)}, rows=1000)
    >>> release = SquaredLossMean(schema, "x", epsilon=4.0).release({"x": np.full(1000, 0.25)})
    >>> 0.1 < release["x"] < 0.4
    True
    """

    def __init__(
        self, schema: Schema, column: str, *, epsilon: Number, output: Interval | None = None
    ) -> None:
        self.schema, self.column = check_schema(schema), column
        self.interval = numeric_column(schema, column, UNORDERED)
        if output is not None and check_instance("output", output, Interval) != self.interval:
            fail("`output` must be the range of the column: on any other range this law leaks.")
        require_public_rows(schema, "The squared loss")
        if schema.bits > _FINEST:
            fail(f"`bits` of the schema must be at most {_FINEST}: its points are listed.")
        self.epsilon, self.neighbors = check_epsilon(epsilon), schema.neighbors

    @property
    def law(self) -> str:
        return f"normal, variance 1/({self.schema.rows} * {self.epsilon}), cut to the data range"

    def label(self) -> str:
        return f"SquaredLossMean({self.column!r})"

    def law_on(self, total: int) -> PieceLaw:
        """The exact law for a sum of grid integers; **not private**.

        On the grid t = -edge..edge, l - mean = (n t - total) / (2 edge n).
        """
        n, edge = self.schema.rows, self.schema.resolution
        points = np.arange(-edge, edge + 1)
        fits = (2 * edge * n) ** 2 < 1 << 62
        away = n * (points if fits else points.astype(object)) - total
        return PieceLaw(points, edge + 1, away * away, self.epsilon / (8 * edge**2 * n))

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, [self.column])
        check_public_rows(frame, self.schema)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        (total,) = integer_sums(
            frame, self.schema, [self.column], _Sum(self.column), width=1, progress=progress
        )
        most = self.schema.rows * self.schema.resolution  # however many rows there really are
        point = self.law_on(min(max(total, -most), most)).draw(rng)
        return on_grid((self.column,), [point], [self.interval], self.schema.bits)
