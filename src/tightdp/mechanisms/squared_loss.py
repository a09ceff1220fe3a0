"""A mean by the exponential mechanism with squared loss: a normal law cut to the data range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.data.blocks import Block
from tightdp.data.one_pass import integer_sums
from tightdp.data.table import check_frame, check_public_rows
from tightdp.errors import fail
from tightdp.exact.rates import check_epsilon
from tightdp.mechanisms.exponential.box_grids import on_grid
from tightdp.mechanisms.exponential.pieces import PieceLaw
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.quantiles import UNORDERED
from tightdp.randomness import RandomSource
from tightdp.release import Draft
from tightdp.schema import Interval, Schema, check_schema, numeric_column, require_public_rows

_FINEST = 20


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
        if output is not None and output != self.interval:
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
