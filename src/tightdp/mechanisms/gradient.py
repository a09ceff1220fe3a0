"""The K-norm gradient mechanism: points where the gradient of a loss is small, more often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.table import check_frame, check_public_rows
from tightdp.draft import Draft
from tightdp.errors import (
    DataError,
    FloatArray,
    Integers,
    check_count,
    check_function,
    check_positive,
    exact_fraction,
    fail,
)
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.listed_points import MOST_POINTS, check_points, finest_bits
from tightdp.mechanisms.exponential_grids import (
    Bounds,
    BoxLaw,
    UtilityBudget,
    called,
    check_bits,
    check_box,
    grid_point,
    grid_words,
    on_grid,
)
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors, Numerics, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema, numeric_column

Gradient = Callable[[FloatArray, FloatArray], Any]
Enclosure = Callable[[FloatArray, FloatArray, FloatArray], tuple[Any, Any]]

PLACES = 20
_UNIT = 1 << PLACES
_PATIENCE = 1 << 14  # refused proposals before all points are gone through


class KNormGradient(Mechanism):
    r"""Releases a parameter with density
    :math:`\propto \exp\{-\epsilon \lVert \nabla\ell_X(\theta) \rVert_K / (2\Delta(\theta))\}`
    (Reimherr and Awan, 2019).

    The density is with respect to the uniform law on a public grid of a bounded box, or to a base
    measure on it (Remark 4.2 of Reimherr and Awan, 2019), which keeps the mass where answers are
    plausible when the box must be wide and :math:`\Delta(\theta)` grows with it. This class draws
    from certified bounds of the gradient's norm on boxes (few dimensions); subclasses with a
    special structure override ``_draw`` (:class:`~tightdp.KNormQuantile`).

    **Privacy.**
    Statement: a release is epsilon-DP under the stated neighbour relation.
    Needs: [P1] :math:`\lVert \nabla\ell_X(\theta) - \nabla\ell_{X'}(\theta) \rVert_K
    \le \Delta(\theta)` for neighbours and every grid point; [P2] a bounded domain; [P3] true
    bounds.
    Proof: 1. By the triangle inequality :math:`\lVert\nabla\ell_X\rVert_K/\Delta(\theta)` changes
    by at most 1 [P1]. 2. On finitely many grid points [P2] this is the exponential mechanism with
    that utility, negated, of sensitivity 1; a base measure multiplies the weights of all tables by
    the same numbers, which are in the sum of all weights, too. 3. The draw is exact
    (:class:`~tightdp.exact.box_sampling.BoxSampler`) [P3].
    Numerics: ``exact``. The running time depends on the data, within a public bound: the function
    of boxes is called at most 2**16 times, then once for every grid point (three times where norms
    lie beyond 2**44 noises) and every one of a few proposals. A grid with more points than
    ``most_points`` is refused.

    **Erratum.** The paper states the median, quantile and quantile-regression laws on all of
    :math:`R^d`. Their gradients are bounded, so the density tends to a constant and has no
    normaliser (E24): a domain without bounds is refused here.

    Parameters
    ----------
    domain : Interval, or sequence of Interval
        Public bounds of every coordinate of theta.
    norm : callable
        From the table to a function of two corners of a box (tuples of grid integers, see
        :meth:`point`) that gives exact numbers around the norm of the gradient on the box; on a
        box of one point the lower one is the norm.
    sensitivity : number, or callable
        :math:`\Delta`, or a function of two corners that gives bounds of :math:`\Delta(\theta)`
        on the box.
    epsilon : float, Fraction or Decimal
    neighbors : {"replace-one", "add-remove"}
    bits : int
        The grid has ``2**(bits + 1) + 1`` points along every axis.
    most_points : int
        How many grid points there may be, each of which a draw may have to look at.
    base_measure : callable, optional
        A public function of two corners that gives exact numbers around *minus the logarithm* of
        the density of the base measure on the box, up to a constant; on a box of one point the
        lower one is it. By default 0: the uniform law.

    Examples
    --------
    >>> def norm(rows):  # squared loss of a location: gradient 2 * sum(theta - x), in grid units
    ...     total, n = sum(rows), len(rows)
    ...     def on_box(low, high):
    ...         ends = 2 * (n * low[0] - total), 2 * (n * high[0] - total)
    ...         near = 0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
    ...         return near, max(map(abs, ends))
    ...     return on_box
    >>> mechanism = KNormGradient(
    ...     Interval(-1, 1), norm, sensitivity=2 * 2 * 256, epsilon=20.0, bits=8)
    >>> release = mechanism.release([100, 120, 110, 130] * 50)
    >>> abs(release.integers[0] - 115) < 10
    True
    """

    bits: int
    base_measure: Bounds | None = None

    def __init__(
        self,
        domain: Interval | Sequence[Interval],
        norm: Callable[[Any], Bounds],
        *,
        sensitivity: Number | Bounds,
        epsilon: Number,
        neighbors: str | Neighbors = "replace-one",
        bits: int = 10,
        most_points: int = MOST_POINTS,
        base_measure: Bounds | None = None,
    ) -> None:
        self.norm = check_function("norm", norm)
        self._set_up(domain, sensitivity, epsilon, neighbors, bits)
        self.base_measure = _checked_base(base_measure, len(self.domain), self.bits)
        check_points("bits", self.bits, len(self.domain), check_count("most_points", most_points))

    def _set_up(
        self,
        domain: object,
        sensitivity: Number | Bounds,
        epsilon: Number,
        neighbors: str | Neighbors,
        bits: int,
    ) -> None:
        """What every K-norm gradient mechanism has: a bounded domain and a rate."""
        self.domain = check_box(domain)  # [P2]
        self.sensitivity = sensitivity
        self.bits = check_bits(bits)
        constant = 1 if callable(sensitivity) else sensitivity
        self.budget = UtilityBudget(epsilon, constant, neighbors)
        self.epsilon, self.neighbors = self.budget.epsilon, self.budget.neighbors

    def exponential_shares(self) -> Sequence[Fraction]:
        return self.budget.shares

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released coordinates."""
        return tuple(f"theta[{j}]" for j in range(len(self.domain)))

    @property
    def law(self) -> str:
        grid = grid_words(self.domain, self.bits)
        base = "" if self.base_measure is None else " times the base measure"
        return f"{grid}, with weight exp(-{self.budget.rate} * norm of the gradient){base}"

    def label(self) -> str:
        return f"KNormGradient({function_name(self.norm)})"

    def point(self, t: Point) -> tuple[Fraction, ...]:
        """A grid point in user units, exactly."""
        return grid_point(t, self.domain, self.bits)

    def law_for(self, norm: Bounds) -> BoxLaw:
        """The law for given bounds on the norm of the gradient; **not private**."""
        edge, dim = 1 << self.bits, len(self.domain)

        def utility(low: Point, high: Point) -> tuple[Fraction, Fraction]:
            least, most = (exact_fraction("norm", bound) for bound in norm(low, high))
            if callable(self.sensitivity):
                ends = self.sensitivity(low, high)
                small, large = (exact_fraction("sensitivity", end) for end in ends)
                least, most = least / large, most / small
            if self.base_measure is None:
                return -most, -least
            near, far = (exact_fraction("base_measure", b) for b in self.base_measure(low, high))
            # exp(-rate * norm - b): what is public is divided by the rate, and paid for by nobody
            return -most - far / self.budget.rate, -least - near / self.budget.rate

        return BoxLaw((-edge,) * dim, (edge,) * dim, utility, self.budget.rate)

    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        norm = called(self.norm, frame)
        return called(lambda: self.law_for(norm).draw(rng))

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        drawn = self._draw(frame, rng, progress)
        return on_grid(self.names, drawn, self.domain, self.bits)


def _checked_base(base: Bounds | None, dim: int, bits: int) -> Bounds | None:
    """A base measure that gives numbers in order on the whole box, found out before payment."""
    if base is None:
        return None
    edge = 1 << bits
    given = check_function("base_measure", base, "of two corners")((-edge,) * dim, (edge,) * dim)
    if not isinstance(given, tuple) or len(given) != 2:
        fail("`base_measure` must give two numbers, a lower and an upper bound.")
    low, high = (exact_fraction("base_measure", value) for value in given)
    if low > high:
        fail("`base_measure` must give a lower and an upper bound, in this order.")
    return base


class RowLevels(BoxLevels[None]):
    """Largest entries of sums of clipped, truncated gradients of rows.

    Clipping and truncation are monotone, so they keep the bounds of every row's gradient.
    """

    def __init__(
        self,
        rows: FloatArray,
        gradient: Gradient,
        enclosure: Enclosure,
        *,
        clip: float,
        domain: Sequence[Interval],
        grid: int,
    ) -> None:
        self._rows, self._gradient, self._enclosure = rows, gradient, enclosure
        self._clip, self._grid = clip, grid
        self._middle = np.array([axis.middle for axis in domain])
        self._half = np.array([axis.half for axis in domain])
        self.low, self.high = (-(1 << grid),) * len(domain), (1 << grid,) * len(domain)

    def theta(self, point: Point) -> FloatArray:
        """A lattice point in user units."""
        return np.asarray(self._middle + self._half * np.array(point) / (1 << self._grid))

    def start(self) -> None:
        return None

    def bounds(self, known: None, low: Point, high: Point) -> tuple[int, int, None]:
        if low == high:
            sums = self._sums(called(self._gradient, self._rows, self.theta(low)))
            level = max(abs(s) for s in sums)
            return level, level, None
        both = called(self._enclosure, self._rows, self.theta(low), self.theta(high))
        if not isinstance(both, tuple) or len(both) != 2:
            fail("`bounds` must give two arrays, lower and upper bounds.", DataError)
        least, most = both
        near, far = 0, 0
        for a, b in zip(self._sums(least), self._sums(most), strict=True):
            near, far = max(near, a, -b), max(far, -a, b)
        return near, far, None

    def _sums(self, given: object) -> list[int]:
        """Sums of entries that are clipped, and truncated to 2**-20 of the clip; NaN is 0."""
        values = called(lambda: np.asarray(given, dtype=np.float64))
        if values.shape != (len(self._rows), len(self.low)):
            fail("The gradient and its bounds must be arrays with a row for every row.", DataError)
        inside = np.clip(np.nan_to_num(values, nan=0.0), -self._clip, self._clip)
        scaled = np.clip(inside / self._clip, -1.0, 1.0) * _UNIT
        parts: Integers = np.trunc(scaled).astype(np.int64)
        return [int(s) for s in parts.sum(axis=0)]


class RowSumGradient(Mechanism):
    """Base: norms of sums over rows to which each adds a vector no longer than ``row_reach``."""

    schema: Schema
    columns: tuple[str, ...]
    row_reach: int
    parts = 1
    """Among how many releases epsilon is shared evenly."""

    def _read_from(self, schema: Schema, columns: Sequence[str], remedy: str) -> list[Interval]:
        """Take a schema and some of its columns, and give back their bounds."""
        self.schema, self.columns = check_schema(schema), tuple(columns)
        self.neighbors = schema.neighbors
        return [numeric_column(schema, name, remedy) for name in self.columns]

    @property
    def sensitivity(self) -> int:
        """The largest change of a level between neighbours."""
        return self.neighbors.rows_apart * self.row_reach * self.schema.rows_per_person

    @property
    def rate(self) -> Fraction:
        """The rate r of the weights exp(-r * level)."""
        return self.epsilon / (2 * self.parts * self.sensitivity)

    def exponential_shares(self) -> Sequence[Fraction]:
        return (Fraction(1),) if self.parts == 1 else ()  # other parts may be other noise

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)


class KNormRowGradient(RowSumGradient):
    r"""Releases a parameter that makes the summed gradient of a loss of your own small.

    For a loss :math:`\sum_i \ell(x_i, \theta)` whose rows have gradients
    :math:`g(x, \theta) \in R^d`, the density on a public lattice of a bounded box is proportional
    to

    .. math:: \exp\left(-\frac{\epsilon}{4C}\,
        \lVert \sum_i [g(x_i, \theta)]_C \rVert_\infty\right),

    where :math:`[g]_C` clips every entry to :math:`[-C, C]` and truncates it to
    :math:`2^{-20} C`. The sensitivity 2C needs no proof about the loss: clipping enforces it.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] ``gradient`` gives the entry of a row from that row and theta alone; [P2] ``bounds``
    holds; it is checked at every proposal. [P3] A bounded domain.
    Proof: 1. Clipped entries differ by at most 2C, so the norm of the sum moves by at most 2C when
    a row is replaced, and by C when one is added or removed [P1]. 2. The exponential mechanism on
    the finite lattice [P3] divides epsilon by twice that. 3. The draw has this law
    (:class:`~tightdp.exact.box_sampling.BoxSampler`) [P2].
    Numerics: ``idealized-numerics``, because a function that computes many rows at once with floats
    may round a row differently in another company. For exact numbers see
    :class:`~tightdp.KNormGradient`. The running time depends on the data, within a public bound:
    gradients are asked for at most 2**17 times, then once for every lattice point and every one of
    a few proposals. A lattice with more points than ``most_points`` is refused.

    Parameters
    ----------
    schema : Schema
    domain : Interval, or sequence of Interval
        Public bounds of every coordinate of theta.
    gradient : callable
        ``gradient(rows, theta)``: rows in user units, shape (n, columns), theta of shape (d,), to
        the gradient of every row, shape (n, d).
    bounds : callable
        ``bounds(rows, low, high)``: lower and upper bounds of every entry of every gradient for all
        theta between two corners; two arrays of shape (n, d).
    clip : float
        C > 0, public.
    epsilon : float, Fraction or Decimal
    columns : sequence of str, optional
        All columns by default; intervals.
    grid : int, optional
        The lattice has ``2**(grid + 1) + 1`` points along every axis. By default 16, or as many as
        ``most_points`` allow: 10 on two axes, 6 on three.
    most_points : int
        How many lattice points there may be, each of which a draw may have to look at.

    Examples
    --------
    >>> def gradient(rows, theta):  # Huber's location: residuals, clipped at 1
    ...     return np.clip(theta - rows, -1, 1)
    >>> def bounds(rows, low, high):
    ...     return np.clip(low - rows, -1, 1), np.clip(high - rows, -1, 1)
    >>> schema = Schema({"x": Interval(0, 50)}, rows=1000)
    >>> mechanism = KNormRowGradient(
    ...     schema, Interval(0, 50), gradient, bounds, clip=1.0, epsilon=5.0)
    >>> release = mechanism.release({"x": np.linspace(20, 22, 1000)})
    >>> abs(release["theta[0]"] - 21) < 0.2
    True
    """

    numerics = Numerics.IDEALIZED
    row_reach = _UNIT

    def __init__(
        self,
        schema: Schema,
        domain: Interval | Sequence[Interval],
        gradient: Gradient,
        bounds: Enclosure,
        *,
        clip: float,
        epsilon: Number,
        columns: Sequence[str] | None = None,
        grid: int | None = None,
        most_points: int = MOST_POINTS,
    ) -> None:
        self.epsilon, self.clip = check_epsilon(epsilon), check_positive("clip", clip)
        self.domain = check_box(domain)  # [P3]
        most, axes = check_count("most_points", most_points), len(self.domain)
        wanted = max(1, finest_bits(axes, most, upto=16)) if grid is None else grid
        self.grid = check_count("grid", wanted, most=40)
        check_points("grid", self.grid, axes, most)
        known = check_schema(schema) if columns is None else columns
        self._scales = self._read_from(schema, tuple(known), "code its levels as numbers")
        self.gradient = check_function("gradient", gradient, "of rows and parameters")
        self.bounds = check_function(
            "bounds", bounds, "of rows and boxes: no draw is exact without"
        )

    @property
    def law(self) -> str:
        return (
            f"{grid_words(self.domain, self.grid)}, with weight "
            f"exp(-{self.rate * _UNIT} * norm), norm of the gradient clipped at {self.clip!r}"
        )

    def label(self) -> str:
        return f"KNormRowGradient({function_name(self.gradient)})"

    def levels(self, cells: Integers) -> RowLevels:
        """Integer norms for quantised rows; **not private**."""
        half = np.array([scale.half for scale in self._scales])
        middle = np.array([scale.middle for scale in self._scales])
        rows = middle + half * cells / self.schema.resolution
        return RowLevels(
            rows, self.gradient, self.bounds, clip=self.clip, domain=self.domain, grid=self.grid
        )

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        levels = self.levels(cells)
        drawn = BoxSampler(levels, self.rate).draw(rng, _PATIENCE)
        names = tuple(f"theta[{j}]" for j in range(len(drawn)))
        return on_grid(names, drawn, self.domain, self.grid)
