"""Quantile regression by the K-norm gradient mechanism, drawn exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, InfeasibleSamplingError, fail
from tightdp.mechanisms.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.mechanisms.gradient_planes import PlaneGradient
from tightdp.mechanisms.gradient_rows import Integers
from tightdp.mechanisms.quantiles import check_tau
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Schema

MOST_COEFFICIENTS = 5  # beyond, cutting boxes until the law is covered practically never ends
_FEW = 4  # so many rows between the planes of a box are followed one by one


class CheckNorm:
    r"""The norm whose unit ball is the hull of what one row can change of the gradient.

    One row has the gradient :math:`x (b - \tau)`, :math:`b \in \{0, 1\}`,
    :math:`\lVert x \rVert_\infty \le 1`; let :math:`M = \max(\tau, 1-\tau)`.

    - Replace-one, no constant among the x: a difference has entries up to 2M, and the hull is the
      cube of that radius.
    - Replace-one with a constant: the first entry of a difference is :math:`t = b - b'`. If t = 0
      the others are up to 2M in size, if t is 1 or -1 they are up to
      :math:`(1-\tau) + \tau = 1`; so the hull is
      :math:`\{|t| \le 1,\ \lVert v\rVert_\infty \le 2M - (2M-1)|t|\}`, with the gauge
      :math:`\max\{|t|, (\lVert v\rVert_\infty + (2M-1)|t|)/(2M)\}`.
    - Add-remove: the cube of radius M.

    Gradients come as integers in units of ``1/(c * resolution)``, c the denominator of tau; norms
    are integers in a unit such that ``sensitivity`` is 1.

    >>> norm = CheckNorm(Fraction(9, 10), dim=2, intercept=True, replace=True, resolution=1)
    >>> norm([10, 0]) / norm.sensitivity, norm([0, 18]) / norm.sensitivity
    (1.0, 1.0)
    """

    def __init__(
        self, tau: Fraction, *, dim: int, intercept: bool, replace: bool, resolution: int
    ) -> None:
        c = tau.denominator
        m = max(tau.numerator, c - tau.numerator)
        self._first = self._rest = self._slant = 1
        if not replace:
            self.sensitivity = m * resolution
        elif not intercept:
            self.sensitivity = 2 * m * resolution
        elif dim == 1:
            self.sensitivity = c * resolution
        else:
            self._first, self._rest, self._slant = 2 * m, c, 2 * m - c
            self.sensitivity = 2 * m * c * resolution
        self._tight = replace and intercept and dim > 1

    def __call__(self, sizes: Sequence[int]) -> int:
        """The norm of a gradient with entries of these sizes; it grows with every one of them."""
        if not self._tight:
            return max(sizes)
        t = sizes[0]
        return max(self._first * t, self._rest * max(sizes[1:]) + self._slant * t)


class Sides(NamedTuple):
    """What is known of the rows on a box of planes."""

    below: tuple[int, ...]  # the sum of x over rows that lie below or on all planes of the box
    open: NDArray[np.int32] | None  # rows that lie between planes of the box; None for all rows


class QuantileLevels(BoxLevels[Sides]):
    r"""Integer norms of the gradient of the check loss, on a lattice of planes.

    The gradient :math:`\sum_i x_i (1[y_i \le x_i^\top\theta] - \tau)` is constant between the
    hyperplanes :math:`y_i = x_i^\top\theta`. For a box of planes most rows lie on one side of all
    of them; the others enclose every entry of the gradient. All comparisons are between integers,
    and a box inherits the settled rows of the box around it.

    Parameters
    ----------
    x : integers, shape (n, d)
        In units of ``2**-bits``.
    y : integers, shape (n,)
    tau : Fraction
    norm : CheckNorm
    edge : int
        Coefficients are ``z * 2**-grid`` with integers z of size at most ``edge``.
    grid : int
    radius : int, optional
        Bound on the sum of the sizes of the z.

    Examples
    --------
    >>> x, y = np.array([[4], [4], [4]]), np.array([0, 1, 4])  # heights 0, 1/4, 1
    >>> norm = CheckNorm(Fraction(1, 2), dim=1, intercept=True, replace=True, resolution=4)
    >>> levels = QuantileLevels(x, y, Fraction(1, 2), norm=norm, edge=4, grid=2)
    >>> [levels.level((z,)) for z in (-1, 0, 1, 4)]  # |2 * (number below) - 3|, in units of 1/4
    [12, 4, 4, 12]
    """

    def __init__(
        self,
        x: Integers,
        y: Integers,
        tau: Fraction,
        *,
        norm: CheckNorm,
        edge: int,
        grid: int,
        radius: int | None = None,
    ) -> None:
        self.low, self.high = (-edge,) * x.shape[1], (edge,) * x.shape[1]
        self.radius = radius
        x, y, counts = _merged(x, y)
        self._x = np.ascontiguousarray(x.T)
        self._mass = self._x * counts
        self._twice = y << (grid + 1)
        self._a, self._c = tau.numerator, tau.denominator
        self._total = [int(s) for s in self._mass.sum(axis=1)]
        self._norm = norm

    def start(self) -> Sides:
        return Sides((0,) * len(self.low), None)

    def stretch(self) -> FloatArray:
        sizes = np.abs(self._mass).sum(axis=1).astype(np.float64)
        return sizes / sizes.max() if sizes.any() else super().stretch()

    def bounds(self, known: Sides, low: Point, high: Point) -> tuple[int, int, Sides]:
        part = known.open
        x, mass, twice = (
            (self._x, self._mass, self._twice)
            if part is None
            else (self._x[:, part], self._mass[:, part], self._twice[part])
        )
        # twice x.z - y lies within `reach` of `middle` on the box
        middle, reach = -twice, np.zeros_like(twice)
        for row, a, b in zip(x, low, high, strict=True):
            middle += row * (a + b)
            if b > a:
                reach += np.abs(row) * (b - a)
        sure = middle >= reach
        rows = np.flatnonzero(~sure & (middle >= -reach))
        found, between = mass[:, sure].sum(axis=1), mass[:, rows]
        below = tuple(s + int(t) for s, t in zip(known.below, found, strict=True))
        if len(rows) <= _FEW:
            least, most = self._enumerate(below, between)
        else:
            least, most = self._enclose(below, between.sum(axis=1), np.abs(between).sum(axis=1))
        left = rows.astype(np.int32) if part is None else part[rows]
        return least, most, Sides(below, left)

    def _enclose(self, below: tuple[int, ...], sums: Integers, spans: Integers) -> tuple[int, int]:
        """Bounds of the norm when the open rows, with these sums, may lie on any side."""
        near, far = [], []
        for s, t, w, total in zip(below, sums, spans, self._total, strict=True):
            low = self._c * (s + (int(t) - int(w)) // 2) - self._a * total
            high = self._c * (s + (int(t) + int(w)) // 2) - self._a * total
            near.append(max(0, low, -high))
            far.append(max(-low, high))
        return self._norm(near), self._norm(far)

    def _enumerate(self, below: tuple[int, ...], between: Integers) -> tuple[int, int]:
        """The least and the largest norm over all choices of sides for few open rows."""
        sums = [[self._c * s - self._a * t for s, t in zip(below, self._total, strict=True)]]
        for row in between.T.tolist():
            sums += [[s + self._c * v for s, v in zip(old, row, strict=True)] for old in sums]
        norms = [self._norm([abs(s) for s in entry]) for entry in sums]
        return min(norms), max(norms)


def _merged(x: Integers, y: Integers) -> tuple[Integers, Integers, Integers]:
    """Distinct rows with their counts: equal rows change sides together."""
    order = np.lexsort((y, *x.T))
    x, y = x[order], y[order]
    fresh = np.ones(len(y), dtype=np.bool_)
    fresh[1:] = (y[1:] != y[:-1]) | (x[1:] != x[:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    return x[starts], y[starts], np.diff(np.append(starts, len(y)))


class KNormQuantileRegression(PlaneGradient):
    r"""Releases a private regression quantile: the plane below which a share tau of rows lies.

    With rows scaled to :math:`[-1, 1]` the density on a public lattice of coefficients is
    proportional to

    .. math:: \exp\Bigl\{-\frac{\epsilon}{2}\,
        \Bigl\lVert \sum_i x_i\,(1[y_i \le x_i^\top\theta] - \tau) \Bigr\rVert_K\Bigr\},

    K the hull of what one row can change of the gradient of the check loss (:class:`CheckNorm`).

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] K contains the changes of the gradient at every lattice point; [P2] a bounded set of
    coefficients; [P3] quantised rows; [P4] an exact draw.
    Proof: 1. A quantised row is a row of the domain [P3], so by [P1] and the triangle inequality
    the norm changes by at most 1 (by r for a person with r rows, and epsilon is divided by it).
    2. On the finite lattice [P2] this is the exponential mechanism for a score of sensitivity 1:
    weights change by at most a factor :math:`e^{\epsilon/2}`, and so does the sum of all weights.
    3. Norms are integers, and the draw settles its coins by enclosures of exponentials
    (:class:`~tightdp.mechanisms.box_sampling.BoxSampler`) [P4].
    Numerics: ``exact``. The running time depends on the data.

    **Erratum.** The paper's sensitivity :math:`2(1-\tau)C_X` is not one for :math:`\tau > 1/2`: at
    tau = 0.9 its law loses 9 epsilon (E20). It is :math:`2\max(\tau, 1-\tau)C_X`; with a constant
    among the x the hull is smaller than that cube, and is used here. The paper's density on all of
    :math:`R^d` has no normaliser (E24).

    Intervals for the coefficients are not released: how far they can be off depends on where the
    rows lie. What is public is :meth:`gradient_radius`; ``half_width`` is what the bounded set
    allows.

    Parameters
    ----------
    schema : Schema
        All columns intervals.
    tau : float or Fraction
        In (0, 1); a float means its shortest decimal.
    epsilon : float, Fraction or Decimal
    features : sequence of str, optional
    target : str, optional
        The last column by default.
    intercept : bool
    radius : float
        Bound on the coefficients of the scaled columns. With shape "l1" and radius 1 these are the
        planes that stay within the bounds of the target for all features within theirs.
    shape : {"l1", "box"}
    grid : int, optional
        Coefficients of scaled columns are multiples of ``2**-grid``.

    Examples
    --------
    >>> from tightdp import Interval
    >>> x = np.linspace(0, 10, 2001)
    >>> schema = Schema({"x": Interval(0, 10), "y": Interval(-10, 10)}, rows=2001)
    >>> mechanism = KNormQuantileRegression(schema, tau=0.9, epsilon=2.0)
    >>> release = mechanism.release({"x": x, "y": x - 5 + np.sin(7 * x)})
    >>> release.names, abs(release["x"] - 1) < 0.3
    (('intercept', 'x'), True)
    """

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: Any,
        tau: Any = 0.5,
        features: Sequence[str] | None = None,
        target: str | None = None,
        intercept: bool = True,
        radius: Any = 1,
        shape: str = "l1",
        grid: int | None = None,
    ) -> None:
        self.tau = check_tau(tau)
        self._set_up(
            schema,
            features,
            target,
            intercept=intercept,
            epsilon=epsilon,
            radius=radius,
            shape=shape,
            grid=grid,
        )
        if self.rows.dim > MOST_COEFFICIENTS:
            fail(
                f"Exact quantile regression takes up to {MOST_COEFFICIENTS} coefficients. "
                f"Got {self.rows.dim}: name fewer `features`.",
                InfeasibleSamplingError,
            )
        self.norm = CheckNorm(  # [P1]
            self.tau,
            dim=self.rows.dim,
            intercept=self.rows.intercept,
            replace=self.neighbors is Neighbors.REPLACE_ONE,
            resolution=self.rows.schema.resolution,
        )

    @property
    def sensitivity(self) -> int:
        return self.norm.sensitivity * self.rows.persons

    @property
    def rate(self) -> Fraction:
        return self.epsilon / (2 * self.sensitivity)

    @property
    def law(self) -> str:
        return (
            f"{self._set()}, with weight exp(-{self.epsilon}/{2 * self.rows.persons} * norm), "
            f"norm of the check-loss gradient at tau = {self.tau} in the hull of its changes"
        )

    def levels(self, x: Integers, y: Integers) -> QuantileLevels:
        """Integer norms for quantised rows; **not private**."""
        return QuantileLevels(
            x, y, self.tau, norm=self.norm, edge=self.edge, grid=self.grid, radius=self._reach
        )

    def _draw(self, frame: Any, rng: RandomSource, progress: bool) -> Point:
        levels = self.levels(*self._read(frame, progress))
        return BoxSampler(levels, self.rate).draw(rng)  # [P4]
