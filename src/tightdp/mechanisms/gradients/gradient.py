"""The K-norm gradient mechanism: points where the gradient of a loss is small, more often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tightdp.accepted import Number, TableLike
from tightdp.errors import exact_fraction, fail
from tightdp.exact.box_sampling import BoxSampler, Point
from tightdp.mechanisms.exponential.box_grids import (
    check_bits,
    check_box,
    grid_point,
    grid_words,
    on_grid,
)
from tightdp.mechanisms.exponential.boxes import Bounds, utility_law
from tightdp.mechanisms.exponential.utilities import UtilityBudget, called
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.parameters import function_name
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Draft
from tightdp.schema import Interval


class KNormGradient(Mechanism):
    r"""Releases a parameter with density
    :math:`\propto \exp\{-\epsilon \lVert \nabla\ell_X(\theta) \rVert_K / (2\Delta(\theta))\}` [3].

    The density is with respect to the uniform law on a public grid of a bounded box. This class
    draws from certified bounds of the gradient's norm on boxes (few dimensions); subclasses with a
    special structure override ``_draw`` (:class:`~tightdp.KNormQuantile`).

    **Privacy.**
    Statement: a release is epsilon-DP under the stated neighbour relation.
    Needs: [P1] :math:`\lVert \nabla\ell_X(\theta) - \nabla\ell_{X'}(\theta) \rVert_K
    \le \Delta(\theta)` for neighbours and every grid point; [P2] a bounded domain; [P3] true
    bounds.
    Proof: 1. By the triangle inequality :math:`\lVert\nabla\ell_X\rVert_K/\Delta(\theta)` changes
    by at most 1 [P1]. 2. On finitely many grid points [P2] this is the exponential mechanism with
    that utility, negated, of sensitivity 1. 3. The draw is exact
    (:class:`~tightdp.exact.box_sampling.BoxSampler`) [P3].
    Numerics: ``exact``. The running time depends on the data.

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

    def __init__(
        self,
        domain: Interval | Sequence[Interval],
        norm: Callable[[Any], Bounds],
        *,
        sensitivity: Number | Bounds,
        epsilon: Number,
        neighbors: str | Neighbors = "replace-one",
        bits: int = 10,
    ) -> None:
        if not callable(norm):
            fail("`norm` must be a function of the table.")
        self.norm = norm
        self._set_up(domain, sensitivity, epsilon, neighbors, bits)

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

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released coordinates."""
        return tuple(f"theta[{j}]" for j in range(len(self.domain)))

    @property
    def law(self) -> str:
        grid = grid_words(self.domain, self.bits)
        return f"{grid}, with weight exp(-{self.budget.rate} * norm of the gradient)"

    def label(self) -> str:
        return f"KNormGradient({function_name(self.norm)})"

    def point(self, t: Point) -> tuple[Fraction, ...]:
        """A grid point in user units, exactly."""
        return grid_point(t, self.domain, self.bits)

    def law_for(self, norm: Bounds) -> BoxSampler[None]:
        """The law for given bounds on the norm of the gradient; **not private**."""

        def utility(low: Point, high: Point) -> tuple[Fraction, Fraction]:
            least, most = (exact_fraction("norm", bound) for bound in norm(low, high))
            if not callable(self.sensitivity):
                return -most, -least
            small, large = (exact_fraction("sensitivity", s) for s in self.sensitivity(low, high))
            return -most / small, -least / large

        return utility_law(1 << self.bits, len(self.domain), utility, self.budget.rate)

    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        norm = called(self.norm, frame)
        return called(lambda: self.law_for(norm).draw(rng))

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        drawn = self._draw(frame, rng, progress)
        return on_grid(self.names, drawn, self.domain, self.bits)
