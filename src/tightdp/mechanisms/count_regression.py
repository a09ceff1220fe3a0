"""Regression of counts by objective perturbation: Poisson and negative binomial."""

from __future__ import annotations

from collections.abc import Sequence

from tightdp.accepted import Number
from tightdp.convex.count_losses import CountLoss
from tightdp.convex.penalties import ConvexSet
from tightdp.data.design_matrix import target_name
from tightdp.errors import check_flag
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.schema import Schema, check_schema


class CountPerturbation(ObjectivePerturbation):
    r"""Releases coefficients of the logarithm of the mean of counts.

    The loss is the negative log-likelihood of Poisson counts, or of negative binomial counts with
    variance :math:`\mu + \alpha\mu^2`, divided by the largest count Y and continued by its tangent
    from a public mean M on, see :class:`~tightdp.convex.count_losses.CountLoss`.

    **Privacy.**
    Statement: as for :class:`~tightdp.ObjectivePerturbation`, under both neighbour relations.
    Needs: [P1] to [P5] there, and that counts are cut at the public Y.
    Proof: that of the base, with these constants.

    1. *[P1]* With :math:`v = y / Y \in [0, 1]` and :math:`w = \min(\mu, M) / Y`, :math:`M \le Y`,
       :math:`\phi' = (w - v)/(1 + aw)`, :math:`a = \alpha Y`. It grows with w and falls with v, so
       it lies between -1 (w = 0, v = 1) and :math:`w/(1 + aw) \le 1`: G = 1.
    2. *[P1]* :math:`\phi'' = w(1 + av)/(1 + aw)^2 \ge 0` below M and 0 beyond: the loss is convex,
       its slope is Lipschitz, and step 1 of the base needs no more. The largest is at v = 1 and
       :math:`w = \min(M/Y, 1/a)`. Hessians have rank one.
    3. *Step 4 of the base.* The supremum of :math:`\eta |\phi'| + \log(1 + c \phi'')` is bounded on
       each of 1,024 cells of w: for v >= w both terms grow with v; for v <= w the sum is concave in
       v, with its top in closed form; within a cell each factor takes its largest value.
    4. *[P4]* Slopes are computed to 24 units in the last place from exact margins: an exponential,
       a product, a difference, a quotient.

    Numerics: ``idealized-numerics``, as the base.

    References: Awan and Slavković (2021), extended objective perturbation; the tangent is that of
    Huber-type losses.

    Parameters
    ----------
    schema : Schema
        The target is an Interval [low, Y] with low >= 0 and Y >= 1; larger counts are cut at Y.
    features, target : optional
        Names; by default all columns but the last, and the last.
    epsilon : float, Fraction or Decimal
    dispersion : float
        The alpha of the negative binomial law, a public fact; 0 is the Poisson law.
    largest_mean : float, optional
        M, the largest mean that a row can have; Y by default. A smaller one lowers the ridge that
        the guarantee needs.
    noise, noise_share, ridge, l1, theta_set, fit_intercept
        As for :class:`~tightdp.ObjectivePerturbation`. The ridge pulls means towards sqrt(Y), or
        towards 1 if there is no intercept.
    interval_share : float
        The part of the budget that buys the information matrix. Intervals need it, and hold if
        log means are linear and variances are those of the law.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "visits": Interval(0, 30)}, rows=5000)
    >>> mechanism = CountPerturbation(schema, epsilon=1.0)
    >>> x = np.linspace(-1, 1, 5000)
    >>> mechanism.release({"x": x, "visits": np.rint(np.exp(1 + x))}, rng=1).value.round(0)
    array([1., 1.])
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        epsilon: Number,
        dispersion: Number = 0.0,
        largest_mean: Number | None = None,
        noise: object = "linf",
        noise_share: Number | str = "auto",
        ridge: float = 0.0,
        l1: float = 0.0,
        theta_set: LpBall | ConvexSet | None = None,
        fit_intercept: bool = True,
        interval_share: Number = 0.0,
    ) -> None:
        column = check_schema(schema)[target_name(schema, target)]
        has_intercept = check_flag("fit_intercept", fit_intercept)
        super().__init__(
            schema,
            features,
            target,
            loss=CountLoss.of(column, dispersion, largest_mean, intercept=has_intercept),
            epsilon=epsilon,
            noise=noise,
            noise_share=noise_share,
            ridge=ridge,
            l1=l1,
            theta_set=theta_set,
            fit_intercept=fit_intercept,
            interval_share=interval_share,
        )
