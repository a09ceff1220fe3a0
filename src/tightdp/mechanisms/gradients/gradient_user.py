"""The K-norm gradient mechanism for a loss of one's own, its sensitivity enforced by clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.frames import check_frame, check_public_rows, quantized_matrix
from tightdp.errors import DataError, FloatArray, Integers, check_count, check_positive, fail
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.rates import check_epsilon
from tightdp.mechanisms.exponential.box_grids import check_box, grid_words, on_grid
from tightdp.mechanisms.exponential.utilities import called
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors, Numerics
from tightdp.randomness import RandomSource
from tightdp.release import Draft
from tightdp.schema import Interval, Schema

Gradient = Callable[[FloatArray, FloatArray], Any]
Enclosure = Callable[[FloatArray, FloatArray, FloatArray], tuple[Any, Any]]

PLACES = 20
_UNIT = 1 << PLACES


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


class KNormRowGradient(Mechanism):
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
    :class:`~tightdp.KNormGradient`. The running time depends on the data.

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
    grid : int
        The lattice has ``2**(grid + 1) + 1`` points along every axis.

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
        grid: int = 16,
    ) -> None:
        if not isinstance(schema, Schema):
            fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
        for name, given in (("gradient", gradient), ("bounds", bounds)):
            if not callable(given):
                fail(f"`{name}` must be a function: without bounds no exact draw is possible.")
        self.schema, self.neighbors = schema, schema.neighbors
        self.epsilon, self.clip = check_epsilon(epsilon), check_positive("clip", clip)
        self.domain = check_box(domain)  # [P3]
        self.grid = check_count("grid", grid, most=40)
        self.columns = tuple(schema if columns is None else columns)
        self._scales = [self._scale(name) for name in self.columns]
        self.gradient, self.bounds = gradient, bounds

    def _scale(self, name: str) -> Interval:
        column = self.schema[name]
        if not isinstance(column, Interval):
            fail(f"Column {name!r} must be an Interval: code its levels as numbers first.")
        return column

    @property
    def sensitivity(self) -> int:
        """The largest change of a level between neighbours."""
        moves = 2 if self.neighbors is Neighbors.REPLACE_ONE else 1
        return moves * _UNIT * self.schema.rows_per_person

    @property
    def rate(self) -> Fraction:
        """The rate r of the weights exp(-r * level)."""
        return self.epsilon / (2 * self.sensitivity)

    @property
    def law(self) -> str:
        return (
            f"{grid_words(self.domain, self.grid)}, with weight "
            f"exp(-{self.rate * _UNIT} * norm), norm of the gradient clipped at {self.clip!r}"
        )

    def label(self) -> str:
        return f"KNormRowGradient({function_name(self.gradient)})"

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)

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
        drawn = BoxSampler(levels, self.rate).draw(rng)
        names = tuple(f"theta[{j}]" for j in range(len(drawn)))
        return on_grid(names, drawn, self.domain, self.grid)
