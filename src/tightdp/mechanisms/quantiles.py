"""A quantile of one column, drawn exactly; an interval if asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import PART_OF_INTERVAL, Draft, Known
from tightdp.errors import (
    FloatArray,
    amount_within,
    check_choice,
    check_confidence,
    check_probability,
    fail,
)
from tightdp.mechanisms.exponential_grids import PieceLaw, on_grid
from tightdp.mechanisms.gradient import KNormGradient
from tightdp.mechanisms.rank_walk import COUNTS, POINTS, RankWalk
from tightdp.mechanisms.ranks import (
    Ranks,
    grid_for_ranks,
    rank_reach,
    rank_sensitivity,
)
from tightdp.person_means import rows_that_count
from tightdp.preview import ORDERED_ROWS, Preview, of_rows
from tightdp.printed import Covers
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema, numeric_column

UNORDERED = "categories have no order"
COVERS = ("none", "sample", "population")
_FINEST = 1 << 20
_POINTS = 20_001  # of a law that a preview integrates


class ColumnGradient(KNormGradient):
    """Base: ranks of the rows of one numeric column, on a grid that is fine enough for them."""

    schema: Schema
    column: str
    picture = "range"

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the quantiles."""

    def _take_column(
        self, schema: Schema, column: str, epsilon: Number, missing: str | None, per: str | None
    ) -> Schema:
        """The facts on which the column is read."""
        facts = rows_that_count(schema, missing, per)
        numeric_column(facts, column, UNORDERED)
        self.schema = grid_for_ranks(facts, column, check_epsilon(epsilon))
        self.column = column
        return self.schema

    def _set_up_column(self, sensitivity: Fraction, epsilon: Number) -> None:
        schema, interval = self.schema, numeric_column(self.schema, self.column, UNORDERED)
        self._set_up(interval, sensitivity, epsilon, schema.neighbors, schema.bits)

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, [self.column])
        check_public_rows(frame, self.schema)


class KNormQuantile(ColumnGradient):
    r"""Releases a point of the column's grid with weight
    :math:`\exp\{-\frac{\epsilon}{2\Delta}\, s_X(t)\}`, s the least size of a subgradient.

    With :math:`N^-` rows below t and :math:`N` at or below t, the subgradients of the check loss
    at t are :math:`[N^- - n\tau,\; N - n\tau]`, so
    :math:`s_X(t) = \max\{0, N^- - n\tau, n\tau - N\}`. Between rows this is
    :math:`n \lvert \tau - F(t) \rvert`, the law of Smith's PrivateQuantile (2011). At a value
    shared by many rows it is smaller: a column with heavy ties keeps its quantile, and with all
    rows equal the release is that value with all but exponentially small probability.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for one person
    with at most ``rows_per_person`` = k rows.
    Needs: the schema's clamp, and a grid that depends on public facts alone.
    Proof: 1. Replacing a row changes :math:`N^-(t)` and :math:`N(t)` by at most 1 each, not n;
    adding one changes :math:`N^- - n\tau` and :math:`N - n\tau` by :math:`1 - \tau` or
    :math:`-\tau`. A maximum of functions changes by at most the largest change: s has sensitivity
    :math:`\Delta = 1` (replace-one) or :math:`k\max(\tau, 1 - \tau)` (add-remove). Where rows
    may be left out, a row that is replaced may also come or go, which changes s by no more than 1:
    n is the number of rows that are left, and private. 2. On the grid
    this is the exponential mechanism with utility -s. 3. Pieces between rows are drawn with
    integers and lazily settled coins (:mod:`tightdp.exact.tilted`), then a uniform point.
    Numerics: ``exact``. With ``interval`` point and ends are drawn and counted by
    :class:`~tightdp.mechanisms.rank_walk.RankWalk`, with its own proof, for the same epsilon.

    **Erratum.** The paper's (3) has :math:`\epsilon n/(4(1-\tau))`, which spends
    :math:`\epsilon/(2(1-\tau))`: five times epsilon at :math:`\tau = 0.9` (E21). It names no
    domain (E24).

    **Utility.** With G grid points, :math:`P(s > x) \le (G - 1)\, e^{-\epsilon x/(2\Delta)}`
    whatever the rows: some point has s = 0. :meth:`rank_error` inverts this bound.

    **Timing.** Reading and drawing take a time that depends on the rows (how many proposals are
    refused, how many distinct values there are). Where an observer can time single releases, answer
    at fixed times.

    Parameters
    ----------
    schema : Schema
    column : str
        A numeric column.
    tau : number strictly between 0 and 1
        Read as the nearest fraction with a denominator up to 2**20.
    epsilon : float, Fraction or Decimal
    interval : {"none", "sample", "population"}
        Also release an interval that covers, with the probability ``confidence`` of the release,
        the quantile of these rows, or of the population that they are an independent sample of
        (replace-one only), whatever the rows. Its ends are found by counting rows, and paid from
        the same epsilon.
    missing : {"rule", "drop"}, optional
        With "drop" the quantile is that of the rows where the column is there.
    per : {"row", "person"}, optional
        With "person" the quantile is that of persons, of whom each is one row, the mean of its
        rows: k is 1, however many those are (:class:`~tightdp.person_means.PersonMeans`).

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1001)
    >>> mechanism = KNormQuantile(schema, "age", 0.9, epsilon=5.0)
    >>> release = mechanism.release({"age": np.linspace(0, 100, 1001)})
    >>> release.names, 84 < release["age[0.9]"] < 96
    (('age[0.9]',), True)
    >>> round(mechanism.rank_error(0.95), 1)
    6.7
    """

    located = "{}["
    later = ("missing", "per")

    why = (
        "A point of a public grid is drawn with a weight that falls with its distance in "
        "ranks from the wanted one. No noise is added to values, so the error does not grow "
        "with the range of the column."
    )

    def __init__(
        self,
        schema: Schema,
        column: str,
        tau: Number = Fraction(1, 2),
        *,
        epsilon: Number,
        interval: str = "none",
        missing: str | None = None,
        per: str | None = None,
    ) -> None:
        schema, self.tau = self._take_column(schema, column, epsilon, missing, per), check_tau(tau)
        self.covers = check_choice("interval", interval, COVERS)
        if self.covers == "population" and not schema.rows_known:
            fail(
                "`interval` = 'population' needs neighbors='replace-one' and all rows: the "
                "sampling error depends on the number of rows, which is private under add-remove "
                "and with missing='drop'. Use 'sample'."
            )
        largest = rank_sensitivity(schema, max(self.tau, 1 - self.tau))
        self._set_up_column(largest, epsilon)
        if self.covers != "none":
            self.walk = RankWalk(schema, self.tau, self.epsilon, self.covers == "population")

    @property
    def names(self) -> tuple[str, ...]:
        name = share_name(self.column, self.tau)
        return (name,) if self.covers == "none" else (name, f"{name} low", f"{name} high")

    @property
    def law(self) -> str:
        if self.covers != "none":
            return self.walk.law
        return (
            f"grid points with weight exp(-{self.budget.rate} * s), s the distance of their rank "
            f"from {self.tau} of the rows"
        )

    def label(self) -> str:
        facts = f"{self.column!r}, tau = {self.tau}, interval = {self.covers}"
        return f"{type(self).__name__}({facts})"

    def exponential_shares(self) -> Sequence[Fraction]:
        if self.covers == "none":
            return [Fraction(1)]
        return [POINTS, 2 * COUNTS]  # log ratios of counts have either sign

    # --- facts known in advance ---------------------------------------------------------------

    def rank_error(self, confidence: float = 0.95) -> float:
        """With this probability the released point is at most so many ranks off, whatever the rows.

        A point is at most x ranks off when at most ``n tau + x`` rows lie below it and at least
        ``n tau - x`` at or below it. Public: it depends on the grid and epsilon only.
        """
        miss = 1 - check_probability("confidence", confidence)
        if self.covers != "none":
            return self.walk.rank_error(miss)
        return rank_reach(self.schema.resolution, miss, self.budget.rate)

    # --- the law ------------------------------------------------------------------------------

    def law_on(self, ranks: Ranks) -> PieceLaw:
        """The exact law of the released grid point, without an interval; **not private**."""
        return ranks.law(ranks.rows * self.tau, self.budget.rate)

    def draws_level(self) -> bool:
        return self.covers != "none"

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.drawn(
            Ranks.of(frame, self.schema, self.column, progress=progress), rng, confidence
        )

    def drawn(self, ranks: Ranks, rng: RandomSource, confidence: float) -> Draft:
        """A release for rows that were read."""
        if self.covers == "none":
            point = self.law_on(ranks).draw(rng)
            return on_grid(self.names, [point], self.domain, self.bits)
        point, low, high = self.walk.draw(ranks, 1 - confidence, rng)
        middle = on_grid(self.names[:1], [point], self.domain, self.bits)
        ends = on_grid(self.names[1:], (low, high), self.domain * 2, self.bits, PART_OF_INTERVAL)
        covers: Covers = "sample" if self.covers == "sample" else "population"
        return _bracketed(middle, ends, self.domain[0], covers)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Rows that fill their bounds evenly: ranks are places. In ranks, whatever the rows.

        With an interval the half-width is how far its ends reach; ranks are those of the point
        alone, which the ends may exceed.
        """
        level, rows = check_confidence(confidence), self.schema.rows
        each = 1 - (1 - level) / len(self.names)
        if self.covers == "none":
            std, half = _around(float(self.tau), rows * float(self.budget.rate), each)
        else:
            std, half = self.walk.foreseen(1 - level, each)
        ranks = self.rank_error(each)
        width = self.domain[0].width
        return Preview(
            self.names[:1],
            np.array([std * width]),
            np.array([half * width]),
            level,
            self.guarantee(),
            self.law,
            of_rows(self.schema, ORDERED_ROWS),
            np.array([min(ranks, float(rows))]),
        )

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The quantile, and the interval where one was paid for."""
        self._level(release, confidence)
        if self.covers == "none":
            return replace(Answer.of(release), about=f"{NO_INTERVAL}; `interval` buys one")
        return Answer(
            names=release.names[:1],
            value=release.value[:1],
            interval=np.array([self.conf_int(release)]),
            confidence=release.confidence,
            release=release,
            about=f"the interval covers the quantile of the {self.covers}",
            covers=release.covers,
        )

    @staticmethod
    def conf_int(release: Release) -> FloatArray:
        """The private interval (low, high) of a quantile released with ``interval``.

        >>> schema = Schema({"age": Interval(0, 100)}, rows=1001)
        >>> median = KNormMedian(schema, "age", epsilon=5.0, interval="sample")
        >>> release = median.release({"age": np.linspace(0, 100, 1001)}, confidence=1 - 1e-7)
        >>> low, high = median.conf_int(release)
        >>> bool(low < 50 < high), bool(high - low < 15)
        (True, True)
        """
        if len(release.names) != 3 or not release.names[1].endswith(" low"):
            fail("`release` must be a quantile released with `interval`: ask for it when paying.")
        return np.array([release.value[1], release.value[2]])


class KNormMedian(KNormQuantile):
    """Releases the median of a column: :class:`KNormQuantile` at one half.

    **Privacy.** As for :class:`KNormQuantile`.

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1001)
    >>> table = {"age": np.linspace(0, 100, 1001)}
    >>> release = KNormMedian(schema, "age", epsilon=5.0).release(table)
    >>> 45 < release["age[0.5]"] < 55
    True
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        *,
        epsilon: Number,
        interval: str = "none",
        missing: str | None = None,
        per: str | None = None,
    ) -> None:
        super().__init__(
            schema,
            column,
            Fraction(1, 2),
            epsilon=epsilon,
            interval=interval,
            missing=missing,
            per=per,
        )


# --- shared by the order statistics ---------------------------------------------------------------


def check_tau(tau: Number, name: str = "tau") -> Fraction:
    """A share strictly between 0 and 1, as a fraction with a denominator up to 2**20."""
    given = amount_within(name, tau, "(0, 1)", "extremes have no private answer")
    near = given.limit_denominator(_FINEST)
    if not 0 < near < 1:
        fail(f"`{name}` must lie at least 2**-20 inside (0, 1). Got {tau}.")
    return near


def share_name(column: str, tau: Fraction) -> str:
    """The name of a quantile: a short decimal where that is exact, else a fraction.

    >>> share_name("x", Fraction(9, 10)), share_name("x", Fraction(1, 3))
    ('x[0.9]', 'x[1/3]')
    """
    short = f"{float(tau):g}"
    return f"{column}[{short if Fraction(short) == tau else tau}]"


def _around(aim: float, rate: float, confidence: float) -> tuple[float, float]:
    """Standard error and half-width of a point of [0, 1] with weight exp(-rate |t - aim|)."""
    near = np.linspace(-1.0, 1.0, _POINTS) * min(1.0, 60.0 / rate) + aim
    points = near[(near >= 0.0) & (near <= 1.0)]
    error = np.abs(points - aim)
    weight = np.exp(-rate * error)
    weight /= weight.sum()
    order = np.argsort(error)
    place = int(np.searchsorted(np.cumsum(weight[order]), confidence))
    return float(np.sqrt(weight @ error**2)), float(error[order][min(place, len(order) - 1)])


def _bracketed(middle: Draft, ends: Draft, interval: Interval, covers: Covers) -> Draft:
    """Ends moved outwards by a grid step, for the rounding of rows, and around the middle."""
    step, value = interval.half / middle.resolution, float(middle.value[0])
    low = max(interval.low, min(ends.value[0] - step, value))
    high = min(interval.high, max(ends.value[1] + step, value))
    reach = np.array([max(high - value, value - low)])
    error = Known(half_width=reach, ends=np.array([[low, high]]), covers=covers)
    known = replace(middle, errors=((1, error),))
    return known.beside(replace(ends, value=np.array([low, high])))
