"""Robust regression by objective perturbation: Huber's loss, its threshold in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

from tightdp.accepted import Number
from tightdp.convex.margin_losses import HuberLoss
from tightdp.convex.penalties import ConvexSet
from tightdp.data.design_matrix import DesignMatrix, target_name
from tightdp.errors import check_flag, check_positive, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.schema import Interval, Schema, check_schema

SHARE = 0.125  # of half the width of the target's bounds: the default threshold


class HuberPerturbation(ObjectivePerturbation):
    r"""Releases the coefficients of a robust regression: squares for small residuals, then lines.

    **Privacy.**
    Statement: as for :class:`~tightdp.ObjectivePerturbation`, under both neighbour relations.
    Needs: [P1] to [P5] there.
    Proof: that of the base, with these constants. With the target scaled to [-1, 1] and the
    threshold t on that scale, :math:`\phi' = \mathrm{clip}(\theta \cdot x - y, -t, t)`, so G = t;
    :math:`\phi'' \in \{0, 1\}`, of rank one. A residual just inside the threshold has both, so
    that ``joint`` accounting is no better than ``split``.
    Numerics: ``idealized-numerics``, as the base; slopes need no exponential.

    The noise is proportional to the threshold, not to the bounds of the target: a robust regression
    costs less than least squares where residuals are small beside the bounds.

    References: Kifer and others (2012); Huber (1964).

    Parameters
    ----------
    schema : Schema
        The target is an Interval.
    features, target : optional
        Names; by default all columns but the last, and the last.
    epsilon : float, Fraction or Decimal
    threshold : float, optional
        The residual, in units of the target, from which on the loss grows like a line; an eighth of
        half the width of the target's bounds by default. A public number: about 1.3 standard
        deviations of the residuals is a usual choice.
    noise, noise_share, ridge, l1, theta_set, fit_intercept
        As for :class:`~tightdp.ObjectivePerturbation`.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-10, 10)}, rows=5000)
    >>> mechanism = HuberPerturbation(schema, epsilon=1.0, threshold=1.0)
    >>> x = np.linspace(-1, 1, 5000)
    >>> y = np.where(np.arange(5000) % 20 == 0, -10.0, 1 + 2 * x)  # one in twenty is spoilt
    >>> mechanism.release({"x": x, "y": y}, rng=1).value.round(0)
    array([1., 2.])
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        epsilon: Number,
        threshold: Number | None = None,
        noise: object = "linf",
        noise_share: Number | str = "auto",
        ridge: float = 0.0,
        l1: float = 0.0,
        theta_set: LpBall | ConvexSet | None = None,
        fit_intercept: bool = True,
    ) -> None:
        name = target_name(check_schema(schema), target)
        if not isinstance(schema[name], Interval):
            fail(f"The target {name!r} must be an Interval for the huber loss.")
        has_intercept = check_flag("fit_intercept", fit_intercept)
        half = float(DesignMatrix(schema, (), name, intercept=has_intercept).half[-1])
        share = SHARE if threshold is None else check_positive("threshold", threshold) / half
        super().__init__(
            schema,
            features,
            target,
            loss=HuberLoss(share),
            epsilon=epsilon,
            noise=noise,
            noise_share=noise_share,
            ridge=ridge,
            l1=l1,
            theta_set=theta_set,
            fit_intercept=fit_intercept,
        )
