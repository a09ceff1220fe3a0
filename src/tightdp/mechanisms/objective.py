"""Objective perturbation with any norm, and a minimiser whose error is paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.convex.decimals import has_decimals
from tightdp.convex.margin_losses import LogisticLoss, MarginLoss, RowLoss, read_loss
from tightdp.convex.minimiser import minimise
from tightdp.convex.objective_calibration import (
    LEAST_RATE,
    SIMULATED_WIDTH,
    Calibration,
    PublicFacts,
    best_share,
    calibrate,
)
from tightdp.convex.objectives import Objective, RowObjective
from tightdp.convex.penalties import ConvexSet, Penalty, read_penalty
from tightdp.data.design_matrix import ScaledRows
from tightdp.draft import Draft, Known, Unknown
from tightdp.errors import (
    DimensionError,
    FloatArray,
    UndecidedError,
    check_choice,
    check_confidence,
    check_most,
    check_probability,
    check_within,
    fail,
)
from tightdp.exact.lattice_body import BoxBody
from tightdp.geometry.containment import largest_gauge
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.mechanisms.logistic_intervals import Cloud, NoisyInformation
from tightdp.mechanisms.mechanism import Mechanism, short_label
from tightdp.mechanisms.objective_model import PublicModel
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_body
from tightdp.noise.ranking import LP_NAMES
from tightdp.preview import (
    EVEN_ROWS,
    MODERATE_EFFECTS,
    MODERATE_MEANS,
    USUAL_RESIDUALS,
    Preview,
    of_rows,
)
from tightdp.privacy import Neighbors, Numerics, check_epsilon, text_up
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema

MOST_TIMES = 4  # rows used with functions of one's own, in units of those that the schema states
POSTS = ("restore", "none")  # what is made of the released minimiser
_MOST_PARAMETERS = 1 << 11  # of a model: every step of the search solves as many equations
NUMERICS_SHARE = Fraction(1, 128)  # of the budget, for everything that is not exact
_LEAST_EPSILON = Fraction(1, 1 << 33)
_LEVEL_BITS, _FINEST_BITS = 44, 40
_TOLERANCE = 2.0**-49  # of the gradient, relative to its size and for each column
_WIDE = 2.0**-62  # two roundings of extended precision
_COARSE_SLOPE = 0.25  # smaller ones are rounded as margins are, and known no better
_RIDGE_BELOW_NOISE = 64.0
_ROWS_LIKE = {
    "interval": EVEN_ROWS,
    "levels": MODERATE_EFFECTS,
    "classes": MODERATE_EFFECTS,
    "counts": MODERATE_MEANS,
    "huber": USUAL_RESIDUALS,
}  # what previews are for, by the name of a loss or its scale

_MOVED = Unknown("how far noise moves the minimiser depends on the rows")
DEPENDENT = (
    "Rows of a person are not independent, and their sampling error is not known: intervals need "
    "`rows_per_person` = 1."
)
SHARE_HELP = (
    "Intervals need the information matrix, which is a release of its own: fit with "
    "`interval_share`, the part of epsilon that buys it (for instance 0.25), or give "
    "`covariates`, public rows of the same population."
)
_ASSUMED = {
    "levels": "if the log odds are linear",
    "counts": "if log means are linear and variances those of the law",
}
_RESTORED = "what the ridge took from the minimiser is given back, as far as noise lets it"
_RIDGES = "[0, 1e100]"  # beyond, steps of the minimiser are lost to rounding


class Draws(NamedTuple):
    """The random integers of one release, drawn before data are read."""

    noise: NDArray[Any]
    output: NDArray[Any]
    information: Sequence[int] | NDArray[Any]


class ObjectivePerturbation(Mechanism):
    r"""Releases the minimiser of a randomly tilted sum of convex losses.

    .. math::

        \hat\theta = \mathrm{argmin}_{\theta \in \Theta} \sum_{i=1}^n \phi(\theta \cdot x_i, y_i)
            + r(\theta) + \tfrac{\gamma}{2} |\theta|^2 + V \cdot \theta, \qquad
        f(v) \propto \exp(-\eta \|v\|_K)

    where:

    - :math:`x_i \in [-1, 1]^m` is a row, scaled by public bounds (a constant column for the
      intercept comes first; a category has exclusive indicators),
    - :math:`K` is the noise ball, scaled so that it contains all rows: the cube, times an l1 ball
      for the indicators of each category,
    - :math:`\eta` and :math:`\gamma` are ``calibration.rate`` and ``calibration.ridge``,
    - :math:`r` is a convex penalty, :math:`\Theta` a convex set.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema; under add-remove
    for tables of any number of rows, whatever number is stated.
    Needs: [P1] losses of one margin, :math:`|\phi'| \le G` and :math:`\phi''` bounded on the
    margins of :math:`\Theta`; [P2] :math:`\|x\|_K \le 1` and :math:`|x|^2 \le m` for all rows (of
    the indicators of a category at most one is 1, so it counts as one column in m here);
    [P3] the strong convexity of everything but the losses is at least :math:`\gamma`; [P4] a point
    within a public distance :math:`\tau` of the minimiser, and output noise that pays for it. The
    search for it cannot go in circles and has found the point in tens of thousands of hostile
    tables; were it to stop short, the budget would stay spent and the error would tell so much.
    [P5] Under add-remove, a distance :math:`\tau` that holds for any number of rows. With losses
    and penalties of this package sums are made with as many digits as the rows that are there ask
    for [step 7]. A loss, penalty or set of one's own is known to the digits of a double only: then
    the first rows are used, four times as many as stated at most, and the calibration is that of a
    replaced row [step 8].
    Proof:

    1. *One coordinate for all penalties.* Put :math:`p = \hat\theta + \nu` with :math:`\nu` the
       subgradient of r (and the normal of :math:`\Theta`) that makes the optimality condition hold.
       Then :math:`\hat\theta = \mathrm{prox}_r(p)`, and
       :math:`V = -(\nabla L(\hat\theta) + \gamma \hat\theta + p - \hat\theta)` is a Lipschitz
       bijection between p and V. So p has density :math:`f(V(p)) |\det V'(p)|`, and
       :math:`\hat\theta` is a function of p.
    2. *The noise.* A neighbour moves V(p) by :math:`\phi'_1 x_1 - \phi'_2 x_2`, whose gauge is at
       most :math:`s + G`, :math:`s = |\phi'_1|` [P1, P2] (s alone if a row is added or removed).
    3. *The determinant.* :math:`V' = -(H P + I - P)` where P is the derivative of prox: symmetric,
       :math:`0 \le P \le I`, for almost all p. If a row adds :math:`w x x^T` to H = C + w x x^T,
       the determinant grows by the factor :math:`1 + w\, x^T (C + P^{-1} - I)^{-1} x \le
       1 + w m / \gamma` [P2, P3] (by continuity for singular P); the other row only shrinks the
       ratio. The update has rank one [P1].
    4. *Together.* The log ratio is at most :math:`\sup \eta (s + G) + \log(1 + w m / \gamma)`. For
       the logistic loss w = s(1 - s): a row that pulls with full force has no curvature. ``joint``
       accounting takes the supremum of the sum, ``split`` (the papers) the sum of the suprema.
    5. *The grid.* V is Z + U with exact lattice noise Z and U uniform on a cell; points whose
       difference has gauge t have log densities that differ by at most :math:`\eta (t + \rho)`,
       :math:`\rho` the gauge of a cell, which the calibration counts.
    6. *The numerics* [P4]. The code minimises for Z instead of Z + U, and to a certified residual
       that includes a bound on floating-point error: the result lies within
       :math:`\tau = (|U| + \text{residual}) / \gamma` of :math:`\hat\theta`. It is rounded to a
       grid and gets exact noise k with :math:`k(z) \le e^{a} k(z')` for points as far apart as
       :math:`\tau`; so the law of the output is within :math:`e^{\pm a}` of
       :math:`k * \mathrm{law}(\hat\theta)`, to which steps 1-4 apply: 2a more in all, 1/128 of
       epsilon.
    7. *Any number of rows* [P5]. :math:`\tau`, the grid and k come from the stated number N and are
       fixed before data are read; steps 1-4 do not know the true n. Left to show: a residual of
       :math:`\gamma\tau - |U|` can be certified however far n is above N. With d digits operations
       err by a factor of :math:`1 \pm u`, :math:`u = 10^{1-d}/2`, ``exp`` and ``sqrt`` included,
       and the residual by at most
       :math:`\sqrt m\, n u\, ((m + 2) c |\theta|_1 + 16 + (n + 2) G)`, c the largest curvature,
       plus some u of the pull of the ridge and of the prox. By
       :math:`\gamma |\theta|^2 / 2 \le n \phi(0) + |V| |\theta|` this is at most :math:`n^2 u`
       times a number that the rows do not enter; with d = 40 + twice the digits of n, at most
       :math:`10^{-39}` times that number, where the tolerance is above :math:`2^{-48}`. The
       certificate relies on none of this: it counts the error that it has.
    8. *Functions of one's own* [P5]. Let f(D) be the first 4N rows of D, and D' be D without one
       row. Then f(D') is f(D), or f(D) without that row, or f(D) with another one in its place (the
       next row moves up). Steps 1-6 hold for each: :math:`s + G` covers s in step 2, and in step 3
       one row comes and one goes. A person with k rows makes k such steps.

    Numerics: ``idealized-numerics``. The noise is exact and the error of the solver is paid for;
    what remains on trust is that the machine's ``exp`` is good to 16 units in the last place.
    Errata to Awan and Slavković (2021): Algorithm 2 prints a negative ridge, over
    :math:`\exp(\epsilon (q - 1)) - 1` instead of :math:`\exp(\epsilon (1 - q)) - 1`; its proof
    needs Hessians of rank one and the exact minimiser, which no solver returns; for m >= 2 and
    unbounded parameters the cube is the hull of the logistic sensitivity space, so that "linf" is
    optimal rather than nearly so; for m = 1 the bound is 1.0517, not 2.

    References: Algorithm 2 and Theorem 4.1 of Awan and Slavković (2021); Kifer and others (2012).

    Parameters
    ----------
    schema : Schema
        Features are intervals or categories (their first level is the reference); the target is a
        category of two levels (``logistic``) or an interval.
    features, target : optional
        Names; by default all columns but the last, and the last.
    loss : {"logistic", "huber", "squared"} or MarginLoss
    epsilon : float, Fraction or Decimal
        In [2**-33, 2**10].
    noise : {"linf", "l1", "l2"} or NormBall
        The shape of the noise; a ball is scaled to fit. With categories "linf" is the hull of the
        rows, smaller than the cube.
    noise_share : float or "auto"
        The papers' q: the part of the budget that the noise spends, in (0, 1]. "auto" comes from a
        public simulation (see :func:`~tightdp.convex.objective_calibration.best_share`).
    ridge : float
        At least so much; the guarantee may need more.
    l1 : float
        Weight of an l1 penalty: with the ridge, the elastic net.
    penalty : Penalty, optional
        A convex penalty instead, such as :class:`~tightdp.convex.penalties.Smooth`.
    theta_set : LpBall or ConvexSet, optional
        Parameters of the scaled columns are kept in it: a ball (p = 1, 2 or inf), or any bounded
        convex set by its projection (:class:`~tightdp.convex.penalties.ConvexSet`). A small
        set lowers the noise.
    fit_intercept : bool
    accounting : {"joint", "split"}
        How the two costs of a row are counted, see step 4.
    interval_share : float
        The part of the budget, below 1, that buys the information matrix at the released point
        (logistic loss only): the entries ``information[j,k]`` of the release, upper triangle, for
        the scaled columns. Intervals need it.
    post : {"none", "restore"}
        What :meth:`coefficients` make of the released minimiser, for nothing more. "restore" gives
        back what the ridge took from long parameters, as far as noise lets it and columns that fill
        their bounds evenly would: see :mod:`~tightdp.convex.ridge_pull`. It is for the logistic
        loss, up to 24 parameters, without ``ridge``, ``l1``, ``penalty`` and ``theta_set``, and
        leaves others as they are. A ``noise_share`` of "auto" knows of it.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Category(["no", "yes"], other="no")}, rows=1000)
    >>> mechanism = ObjectivePerturbation(schema, epsilon=1.0, noise_share=0.9)
    >>> mechanism.names, round(mechanism.calibration.rate, 3)
    (('intercept', 'x'), 0.446)
    >>> table = {"x": np.linspace(0, 1, 1000), "y": ["no", "yes"] * 500}
    >>> mechanism.release(table, rng=1).value.shape
    (2,)
    """

    numerics = Numerics.IDEALIZED

    why = (
        "The objective is tilted by a random linear term shaped like the set of gradients "
        "that one person can cause: for bounded features that is a cube, and its noise is "
        "less than that of a sphere."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        loss: object = "logistic",
        epsilon: Number,
        noise: object = "linf",
        noise_share: Number | str = "auto",
        ridge: float = 0.0,
        l1: float = 0.0,
        penalty: Penalty | None = None,
        theta_set: LpBall | ConvexSet | None = None,
        fit_intercept: bool = True,
        accounting: str = "joint",
        interval_share: Number = 0.0,
        post: str = "none",
    ) -> None:
        self.loss = self._read_loss(loss)  # [P1]
        self.post = check_choice("post", post, POSTS)
        self.epsilon = check_epsilon(epsilon)
        self.rows = ScaledRows(
            schema,
            features,
            target,
            loss=f"{self.loss.name} loss",
            intercept=fit_intercept,
            scale=self.loss.scale,
            origin=self.loss.origin,
        )
        self._budgets(interval_share, schema.rows_per_person)
        self.schema, self.neighbors, self.names = schema, schema.neighbors, self._named()
        remedy = "choose fewer features, or levels"
        check_most("features", len(self.names), _MOST_PARAMETERS, "parameters", remedy)
        self.penalty = read_penalty(l1, penalty, theta_set, len(self.names))
        self._plain_penalty = l1 == 0 and penalty is None and theta_set is None
        self.ball = self._read_ball(noise)
        self._all_rows = has_decimals(self.loss, self.penalty)
        self.facts = PublicFacts(
            self.loss,
            len(self.names),
            reach=_reach(theta_set),
            replace_one=self._replaces(),  # [P5]
            rows_per_person=schema.rows_per_person,
            accounting=accounting,
            squared_length=self.rows.squared_length,  # [P2]
        )
        least = self._asked_ridge = check_within("ridge", ridge, _RIDGES)
        self._calibrate(noise_share, least)
        self.information = self._information()

    # --- what several classes do in another way -----------------------------------------------

    def _read_loss(self, loss: object) -> RowLoss:
        return read_loss(loss)

    def _named(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.rows.names

    def _read_ball(self, noise: Any) -> NormBall:
        """The ball that is just large enough to hold all rows [P2]."""
        return _read_ball(noise, self.rows)

    def _cell(self) -> tuple[float, float]:
        """The largest gauge of a difference of grid cells, and half their diagonal [step 5]."""
        width = len(self.names)
        reach = largest_gauge(LpBall(width, np.inf), self.ball).upper
        return reach * (1.0 + self.ball.gauge_slack), math.sqrt(width) / 2.0

    def _objective(self, rows: FloatArray, target: FloatArray, tilt: FloatArray) -> RowObjective:
        assert isinstance(self.loss, MarginLoss)
        ridge = self.calibration.ridge  # [P3]
        return Objective(rows, target, self.loss, ridge, tilt, self.penalty)

    @property
    def order(self) -> NDArray[np.intp]:
        """Which entry of the noise tilts which parameter."""
        return np.arange(len(self.names))

    @property
    def linear(self) -> FloatArray:
        """From parameters of the scaled columns to those in user units, but for an offset."""
        return self.rows.design.linear

    def stiffness(self, rows: FloatArray, margin: FloatArray) -> FloatArray:
        """The sum of the Hessians of public rows, where margins are true."""
        return np.asarray((rows.T * self.loss.typical(margin)) @ rows)

    def recover(self, integers: Sequence[int]) -> FloatArray:
        """Parameters in user units."""
        return self.rows.design.to_user(self.scaled(integers))

    @property
    def restores(self) -> bool:
        """Whether :meth:`coefficients` undo the pull of the ridge: measured for plain log odds.

        How much a ridge pulls depends on the number of rows. Where that is not public, more of them
        than are stated would make it look like much more than it was.
        """
        plain = self._plain_penalty and self._asked_ridge == 0
        few, public = len(self.names) <= SIMULATED_WIDTH, self.schema.rows_known
        meant = plain and few and public and isinstance(self.loss, LogisticLoss)
        return self.post == "restore" and meant

    def coefficients(self, release: Release) -> FloatArray:
        """What is made of the released parameters, in user units; with ``post="none"``, they.

        >>> from tightdp import Category, Interval, Schema
        >>> schema = Schema({"x": Interval(-1, 1), "y": Category([0, 1], other=0)}, rows=5000)
        >>> given = {"epsilon": 0.25, "noise_share": 0.97, "post": "restore"}
        >>> mechanism = ObjectivePerturbation(schema, **given)
        >>> x = np.linspace(-1, 1, 5000)
        >>> release = mechanism.release({"x": x, "y": (x > 0).astype(int)}, rng=1)
        >>> bool(mechanism.coefficients(release)[1] > release["x"] > 5)
        True
        """
        value = release.value[: len(self.names)]
        if not self.restores:
            return value.copy()
        design = self.rows.design
        return design.to_user(PublicModel(self).restore(design.from_user(value)))

    # --- budgets ------------------------------------------------------------------------------

    def _budgets(self, share: Number, rows_per_person: int) -> None:
        part = check_within("interval_share", share, "[0, 1)")
        if part > 0 and rows_per_person > 1:
            fail(f"`interval_share` would buy nothing. {DEPENDENT}")
        if part > 0 and self.loss.scale not in _ASSUMED:
            fail("`interval_share` needs a loss of two classes or of counts.")
        self._for_information = check_epsilon(self.epsilon * Fraction(part)) if part > 0 else None
        self._for_estimate = self.epsilon - (self._for_information or 0)
        if self._for_estimate < _LEAST_EPSILON:
            fail(
                "`epsilon` must leave at least 2**-33 for the estimate. Got "
                f"{float(self._for_estimate)}."
            )

    def _replaces(self) -> bool:
        """Whether a neighbour may put another row in the place of one, among those used [P5]."""
        return self.schema.neighbors is Neighbors.REPLACE_ONE or not self._all_rows

    def _information(self) -> NoisyInformation | None:
        if self._for_information is None:
            return None
        assert isinstance(self.loss, MarginLoss)
        return NoisyInformation(
            len(self.names),
            self._for_information,
            self.loss,
            rows=self.schema.rows,
            replace_one=self.schema.neighbors is Neighbors.REPLACE_ONE,  # it sums over all rows
            rows_per_person=self.schema.rows_per_person,
        )

    # --- public calibration -------------------------------------------------------------------

    def _calibrate(self, noise_share: Number | str, least: float) -> None:
        main = float(self._for_estimate * (1 - NUMERICS_SHARE)) * (1.0 - 1e-15)
        width, spread = len(self.names), self.facts.difference / (0.3 * main)
        reach = (width + 1) * spread * self.schema.rows_per_person * self.ball.bounding_box().max()
        bits = min(_FINEST_BITS, max(0, math.floor(_LEVEL_BITS - math.log2(reach))))
        self.noise_resolution = 1 << bits
        body, radius = lattice_body(self.ball, self.noise_resolution)
        level = math.ceil(radius * self.noise_resolution)
        # two grid points next to points v, v' differ by v - v' and less than 1 in every coordinate,
        # a vector of the gauge of a cell, and the level is rounded up [step 5]
        rounding = float(max(1.0, self._cell()[0])) / self.noise_resolution + 1.0 / level
        self.facts = replace(self.facts, rounding=rounding)
        share = self._share(noise_share, main, least + self.penalty.strength)
        found = calibrate(self.facts, main, share)
        if found.rate < LEAST_RATE:
            fail(
                f"`epsilon` = {text_up(self.epsilon)} is too small for gradients that one person "
                f"moves by up to {self.facts.difference * self.schema.rows_per_person:g}: state a "
                "smaller `theta_set`, or fewer rows per person."
            )
        # where the guarantee needs next to no ridge, keep one that the noise makes invisible:
        # without it the minimiser, and with it the solver, would have no hold in flat directions
        floor = (width + 1) / (_RIDGE_BELOW_NOISE * found.rate)
        needed = max(max(found.ridge, floor) - self.penalty.strength, least, 0.0)
        self.calibration = Calibration(share, found.rate, needed)
        self.noise = LatticeNoise(body, Fraction(found.rate), level)
        self.noise.check_feasible()
        self._output(max(found.ridge, needed + self.penalty.strength))

    def _share(self, noise_share: Number | str, epsilon: float, least: float) -> float:
        if isinstance(noise_share, str):
            check_choice("noise_share", noise_share, ("auto",))
            rows, restored = self.schema.rows, self.restores
            return best_share(self.facts, self.ball, epsilon, rows, ridge=least, restored=restored)
        return check_within("noise_share", noise_share, "(0, 1]", "or leave it at 'auto'")

    def _output(self, convexity: float) -> None:
        """Tolerance of the solver, and the exact noise that pays for it [step 6]."""
        width = len(self.names)
        typical = (width + 1) / self.calibration.rate * float(self.ball.bounding_box().max())
        slope = max(self.loss.slope(self.facts.reach), _COARSE_SLOPE)
        root = math.sqrt(width)
        pull = root * (self.schema.rows * slope + typical)
        self.tolerance = _TOLERANCE * (width + 8) * pull
        bend = width * (2.0 * self.loss.curvature * self.schema.rows + self.calibration.ridge)
        if not self.penalty.smooth:  # a proximal map is rounded, at points as far as they can be
            far = math.sqrt(MOST_TIMES * self.schema.rows * slope / convexity)
            far = min(far + 4.0 * typical / convexity, self.penalty.reach)
            self.tolerance += _WIDE * (width + 8) * far * MOST_TIMES * bend
        if isinstance(self.penalty, ConvexSet):  # no finer than its projection
            reach = self.facts.reach
            pull = pull + self.calibration.ridge * reach
            self.tolerance += 8.0 * self.penalty.accuracy * (2.0 * reach * bend + pull)
        self.distance = (self.tolerance + self._cell()[1] / self.noise_resolution) / convexity
        self.resolution = 1 << max(0, math.ceil(math.log2(4.0 / self.distance)))
        steps = math.floor(self.distance * self.resolution * (1.0 + 1e-9) + 1.0)
        self.output = LatticeNoise(
            BoxBody([1] * width), self._for_estimate * NUMERICS_SHARE, 2 * steps
        )

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def law(self) -> str:
        """The mechanism in words: all that a fingerprint needs."""
        return (
            f"minimiser of the {self.loss!r} with ridge {self.calibration.ridge!r} and "
            f"{self.penalty!r}, tilted by integers z with weight exp(-{self.noise.rate} * "
            f"level(z)), levels of {self.noise.body!r}, in units of 1/{self.noise_resolution}; "
            f"integers with weight exp(-{self.output.rate} * max|z|) added to the result in units "
            f"of 1/{self.resolution}"
            + ("" if self.information is None else f"; information: {self.information.noise!r}")
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect if rows were uniform within their bounds; costs nothing.

        For losses of log odds and log means effects are moderate, of variance 1 over the rows:
        they say how much the loss bends, and how far the ridge pulls.
        """
        level = check_probability("confidence", confidence)
        variance, half = PublicModel(self).errors(level)
        like = _ROWS_LIKE.get(self.loss.name, _ROWS_LIKE[self.loss.scale])
        rows = of_rows(self.schema, like)
        found = Preview(
            self.names, np.sqrt(variance), half, level, self.guarantee(), self.law, rows
        )
        return replace(found, silence=_as_clause(self._lacking() or ""))

    @property
    def unasked_ridge(self) -> float:
        """The ridge that privacy needs and nobody asked for, which pulls effects towards zero."""
        return max(self.calibration.ridge - self._asked_ridge, 0.0) if self.loss.linked else 0.0

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The coefficients, with intervals for those of the population where they were paid for."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        interval, lacking = self.known_intervals(release, 1 - level, simultaneous=True)
        width = len(self.names)
        if interval is None:
            about = f"no intervals: {_as_clause(lacking)}"
        else:
            about = (
                f"intervals are for the population's coefficients, {self.assumed}, and count noise "
                "and sampling error"
            )
        if self.restores:
            about += f"; {_RESTORED}"
        return Answer(
            names=self.names,
            value=self.coefficients(release),
            interval=np.full((width, 2), np.nan) if interval is None else interval,
            confidence=level,
            release=release,
            about=about,
            unknown=self.names if interval is None else (),
            covers="population",
        )

    def known_intervals(
        self, release: Release, alpha: float, *, simultaneous: bool = False
    ) -> tuple[FloatArray | None, str]:
        """Rows (low, high) from a paid information matrix; or None, and why there are none."""
        lacking = self._lacking()
        if lacking is not None:
            return None, lacking
        try:
            return Cloud.paid(self, release).intervals(alpha, simultaneous=simultaneous), ""
        except UndecidedError as reason:
            return None, str(reason)

    def _lacking(self) -> str | None:
        """Why no release of this mechanism has intervals; None if one may have."""
        lacking = self.no_intervals()
        return SHARE_HELP if lacking is None and self.information is None else lacking

    @property
    def assumed(self) -> str:
        """What intervals assume, in words."""
        return _ASSUMED[self.loss.scale]

    def no_intervals(self) -> str | None:
        """Why this model has no intervals, whatever is paid for; None if it has."""
        if self.loss.scale not in _ASSUMED:
            return (
                f"There are none for the {self.loss.name} loss: how much it bends between the "
                "estimate and the truth has no bound that is known."
            )
        if self._plain_penalty is False:
            return "Intervals are for the plain model: fit without `l1` and without `theta_set`."
        if self.schema.rows_per_person > 1:
            return DEPENDENT
        return None

    # --- the release --------------------------------------------------------------------------

    def check(self, frame: TableLike) -> None:
        self.rows.check(frame)

    def label(self) -> str:
        return short_label(f"{type(self).__name__}({self.loss.name}; {', '.join(self.names)})")

    def shape_facts(self) -> list[str]:
        return [self.noise.body.facts()]

    def half_widths(self, confidence: float) -> FloatArray:
        """None of the parameters; of the information matrix, where it is released."""
        parameters = np.full(len(self.names), np.nan)
        if self.information is None:
            return parameters
        return np.append(parameters, self.information.errors(confidence)[1])

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        draws = self.draw_noise(rng)
        rows, target = self.rows.read(frame, progress=progress)
        integers = self.perturbed(rows, target, draws)
        value = self.recover(integers)
        parameters = Draft.of(self.names, value, integers, self.resolution, _MOVED)
        if self.information is None:
            return parameters
        return parameters.beside(
            self._curvature(self.information, (rows, target), integers, draws, confidence)
        )

    def draw_noise(self, rng: RandomSource) -> Draws:
        """All randomness of a release; drawn before data are read, its timing tells nothing."""
        last = () if self.information is None else self.information.draw(rng)
        return Draws(self.noise.sample(rng=rng), self.output.sample(rng=rng), last)

    def perturbed(self, rows: FloatArray, target: FloatArray, draws: Draws) -> tuple[int, ...]:
        """The released integers, in units of 1 / resolution of the scaled parameters."""
        if not self._all_rows:  # [P5]
            most = MOST_TIMES * self.schema.rows
            rows, target = rows[:most], target[:most]
        tilt = np.array([int(z) / self.noise_resolution for z in draws.noise])[self.order]
        found = minimise(self._objective(rows, target, tilt), self.tolerance)  # [P4]
        return tuple(
            round(Fraction(*t.as_integer_ratio()) * self.resolution) + int(z)
            for t, z in zip(found.theta, draws.output, strict=True)
        )

    def scaled(self, integers: Sequence[int]) -> FloatArray:
        """Parameters of the scaled columns."""
        return np.array([z / self.resolution for z in integers])

    def _curvature(
        self,
        info: NoisyInformation,
        table: tuple[FloatArray, FloatArray],
        integers: Sequence[int],
        draws: Draws,
        confidence: float,
    ) -> Draft:
        """The entries of the information matrix at the released parameters."""
        exact = info.measure(*table, self.scaled(integers))
        noisy = [t + int(z) for t, z in zip(exact, draws.information, strict=True)]
        covariance, half = info.errors(confidence)
        error = Known(covariance=covariance, half_width=half)
        return Draft.of(info.names, info.recover(noisy), noisy, info.resolution, error)


# --- reading parameters --------------------------------------------------------------------------


def _as_clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _read_ball(noise: Any, rows: ScaledRows) -> NormBall:
    """The ball that is just large enough to hold all rows [P2]."""
    width = len(rows.names)
    if not isinstance(noise, NormBall) and check_choice("noise", noise, LP_NAMES) == "linf":
        return rows.ball()
    ball: NormBall = noise if isinstance(noise, NormBall) else LpBall(width, LP_NAMES[noise])
    if ball.dim != width or ball.rank != width:
        fail(f"`noise` must be a ball of dimension and rank {width}.", DimensionError)
    cube = LpBall(width, np.inf)
    reach = largest_gauge(cube, ball).upper * (1.0 + ball.gauge_slack)
    return ball if reach <= 1.0 else ball.scaled(reach * (1.0 + 1e-12))


def _reach(theta_set: LpBall | ConvexSet | None) -> float:
    """The largest margin: the largest l1 norm of the set, since rows lie in the cube."""
    if theta_set is None:
        return math.inf
    if isinstance(theta_set, ConvexSet):
        return theta_set.reach * (1.0 + 1e-12)
    corner = theta_set.support(np.ones(theta_set.dim))
    return float(corner) * (1.0 + 1e-12)
