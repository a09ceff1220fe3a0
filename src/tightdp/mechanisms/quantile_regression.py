"""Quantile regression by the K-norm gradient mechanism, on a lattice of planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tightdp.accepted import Number, TableLike
from tightdp.draft import DEPENDS
from tightdp.errors import (
    InfeasibleSamplingError,
    Integers,
    check_choice,
    check_confidence,
    check_count,
    fail,
)
from tightdp.exact.box_sampling import BoxSampler, Point
from tightdp.exact.quantile_levels import (
    MOST_LINES,
    MOST_STEPS,
    CheckNorm,
    LineLaw,
    QuantileLevels,
    line_count,
)
from tightdp.inference.quantile_errors import PlaneLaw
from tightdp.mechanisms.chains import SAMPLERS, Sampler
from tightdp.mechanisms.gradient_regression import PlaneGradient
from tightdp.mechanisms.quantiles import check_tau
from tightdp.mechanisms.simulated_previews import PREVIEW_SEED, preview_of_errors
from tightdp.preview import Preview
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource, source
from tightdp.schema import Schema

MOST_EXACT = 5  # beyond, no lattice of use is small enough to be gone through
_COARSEST = 5  # of grids that are of use
_FEW_STEPS = 1 << 21  # so many are quicker than boxes
_KEPT_LINES = 1 << 24  # weights of more would take gigabytes
_PATIENCE = 1 << 11  # refused proposals, at least, before all lines are gone through
_WORTH = 1 << 15  # steps along lines that take as long as a proposal


class KNormQuantileRegression(PlaneGradient):
    r"""Releases a private regression quantile: the plane below which a share tau of rows lies.

    With rows scaled to :math:`[-1, 1]` the density on a public lattice of coefficients is
    proportional to

    .. math:: \exp\left(-\frac{\epsilon}{2}\,
        \lVert \sum_i x_i\,(1[y_i \le x_i^\top\theta] - \tau) \rVert_K\right),

    K the hull of what one row can change of the gradient of the check loss
    (:class:`~tightdp.exact.quantile_levels.CheckNorm`).

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] K contains the changes of the gradient at every lattice point; [P2] a bounded set of
    coefficients; [P3] quantised rows; [P4] an exact draw.
    Proof: 1. A quantised row is a row of the domain [P3], so by [P1] and the triangle inequality
    the norm changes by at most 1 (by r for a person with r rows, and epsilon is divided by it).
    2. On the finite lattice [P2] this is the exponential mechanism for a score of sensitivity 1:
    weights change by at most a factor :math:`e^{\epsilon/2}`, and so does the sum of all weights.
    3. Norms are integers, and the draw settles its coins by enclosures of exponentials
    (:class:`~tightdp.exact.box_sampling.BoxSampler`,
    :class:`~tightdp.exact.quantile_levels.LineLaw`) [P4].
    Numerics: ``exact``. The running time depends on the data, within a public bound: boxes are cut
    for about as long as it takes to go through all lines of the lattice, which is done where that
    is not enough: at most 750,000 of them, or in proportion to ``most_steps``, and that many lines
    times rows (2**30 take minutes). The grid is as fine as that allows. Under add-remove, where
    more rows may come than were stated, the bound grows in proportion to them. With
    ``sampler="mcmc"``, for more coefficients than four, [P4] is missing: a finite chain only
    approaches the law, the release is not epsilon-DP, and its guarantee says
    ``approximate-sampler``.

    **Erratum.** The paper's sensitivity :math:`2(1-\tau)C_X` is not one for :math:`\tau > 1/2`: at
    tau = 0.9 its law loses 9 epsilon (E20). It is :math:`2\max(\tau, 1-\tau)C_X`; with a constant
    among the x the hull is smaller than that cube, and is used here. The paper's density on all of
    :math:`R^d` has no normaliser (E24).

    Intervals for the coefficients are not released: how far they can be off depends on where the
    rows lie. What is public is :meth:`gradient_radius`.

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
    fit_intercept : bool
    radius : float
        Bound on the coefficients of the scaled columns. With shape "l1" and radius 1 these are the
        planes that stay within the bounds of the target for all features within theirs.
    shape : {"l1", "box"}
    grid : int, optional
        Coefficients of scaled columns are multiples of ``2**-grid``.
    sampler : {"exact", "mcmc"}
        Chains start independently of the data; how they agreed is in ``draws.diagnostics``, which
        are **not private**.
    steps : int, optional
        Of every chain.
    most_steps : int, optional
        Lines times rows that a draw may have to go through, 2**30 by default: minutes at worst.
        From 100,000 rows and two coefficients on, or 1,000 and three, the grid that this allows is
        coarser than the noise, and with some five times as many rows, or fifty, coarser than the
        error of the estimate without privacy. More work makes it finer. Ordinary tables, whose
        residuals are spread out, take as long as before, seconds; the worst ones take an hour or
        two for every 2**35.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp import Interval
    >>> x = np.linspace(0, 10, 2001)
    >>> schema = Schema({"x": Interval(0, 10), "y": Interval(-10, 10)}, rows=2001)
    >>> mechanism = KNormQuantileRegression(schema, tau=0.9, epsilon=2.0)
    >>> release = mechanism.release({"x": x, "y": x - 5 + np.sin(7 * x)})
    >>> release.names, abs(release["x"] - 1) < 0.3
    (('intercept', 'x'), True)
    """

    why = (
        "The coefficients are drawn with a weight that falls with the norm of the gradient of "
        "the check loss, the norm whose ball is the hull of its changes."
    )
    later = ("most_steps",)

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: Number,
        tau: Number = 0.5,
        features: Sequence[str] | None = None,
        target: str | None = None,
        fit_intercept: bool = True,
        radius: Number = 1,
        shape: str = "l1",
        grid: int | None = None,
        sampler: str = "exact",
        steps: int | None = None,
        most_steps: int | None = None,
    ) -> None:
        self.tau = check_tau(tau)
        self._exact = check_choice("sampler", sampler, SAMPLERS) != "mcmc"
        if most_steps is not None and not self._exact:
            fail("`most_steps` belong to sampler='exact': a chain goes through no lines.")
        given = MOST_STEPS if most_steps is None else most_steps
        self.most_steps = check_count("most_steps", given, most=1 << 60)
        super().__init__(
            schema,
            epsilon=epsilon,
            features=features,
            target=target,
            fit_intercept=fit_intercept,
            radius=radius,
            shape=shape,
            grid=grid,
        )
        self.draws = Sampler(sampler, steps, self.rows.dim)
        self.numerics = self.draws.numerics
        if self.draws.exact and self.rows.dim > MOST_EXACT:
            fail(
                f"Exact quantile regression takes up to {MOST_EXACT} coefficients. "
                f"Got {self.rows.dim}: name fewer `features`, or accept sampler='mcmc', which "
                "only approaches the law and is not epsilon-DP after finitely many steps.",
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
    def law(self) -> str:
        return (
            f"{self._set()}, with weight exp(-{self.epsilon}/{2 * self.rows.persons} * norm), "
            f"norm of the check-loss gradient at tau = {self.tau} in the hull of its changes"
            f"{self.draws.words}"
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """Simulated on made-up rows, in doubles; public facts tell nothing else."""
        level, facts = check_confidence(confidence), self._facts_of_law()
        errors = facts.errors(source(PREVIEW_SEED)) @ self.rows.design.linear.T
        found = preview_of_errors(self, self.names, errors, level)
        return replace(found, silence=DEPENDS.reason)

    def _facts_of_law(self) -> PlaneLaw:
        radius, step = float(self.radius), 2.0**-self.grid
        size = float(self.epsilon)
        return PlaneLaw(self.rows, self.tau, self.norm, size, radius, self.shape == "l1", step)

    def levels(self, x: Integers, y: Integers) -> QuantileLevels:
        """Integer norms for quantised rows; **not private**."""
        return QuantileLevels(
            x, y, self.tau, norm=self.norm, edge=self.edge, grid=self.grid, radius=self._reach
        )

    def _finest(self) -> int:
        """The finest grid whose lines can all be gone through, from public facts.

        Cutting boxes does not end in time where the least levels lie on thin sets.
        """
        if not self._exact or self.rows.dim > MOST_EXACT:  # which is refused in a moment
            return super()._finest()
        slopes, rows = self.rows.dim - 1, self.rows.schema.rows
        most_lines = min(MOST_LINES * self.most_steps // MOST_STEPS, _KEPT_LINES)
        for grid in range(40, _COARSEST - 1, -1):
            edge = math.floor(self.radius * (1 << grid))
            lines = line_count(edge, slopes, within=self.shape == "l1")
            if lines <= most_lines and lines * rows <= self.most_steps:
                return grid
        fail(
            f"Exact quantile regression of {rows} rows on {slopes + 1} coefficients has no grid "
            "that is fine enough and whose draws are sure to end: name fewer `features`, take a "
            "smaller `radius`, or state with `most_steps` how much work you accept.",
            InfeasibleSamplingError,
        )

    def _draw(self, frame: TableLike, rng: RandomSource, progress: bool) -> Point:
        levels = self.levels(*self._read(frame, progress))
        if not self.draws.exact:
            return self.draws.draw(levels, self.rate, rng, progress)
        lines = line_count(self.edge, self.rows.dim - 1, within=self.shape == "l1")
        steps, found = lines * levels.distinct, None
        if steps > _FEW_STEPS:
            # as long as all lines would take: many rows on a line need more boxes than few do
            found = BoxSampler(levels, self.rate).attempt(rng, max(_PATIENCE, steps // _WORTH))
        return LineLaw(levels, self.rate).draw(rng) if found is None else found  # [P4]
