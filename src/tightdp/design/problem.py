"""The question: which noise has the least expected loss under a privacy guarantee?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tightdp.accepted import Number
from tightdp.design.losses import Loss, as_loss
from tightdp.errors import amount_within, exact_fraction, fail, fraction_within, shown
from tightdp.noise.law import check_sensitivity
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon


@tells_arguments
@dataclass(frozen=True)
class NoiseProblem:
    r"""Minimise :math:`E\,c(X)` over all (epsilon, delta)-private additive noise X.

    .. math:: P(X \in A) \le e^{\epsilon} P(X + s \in A) + \delta
              \quad\text{for all } |s| \le \Delta \text{ and all } A .

    All numbers are exact rationals. Side constraints narrow the noise, and lower bounds hold for
    noise within them only.

    Attributes
    ----------
    epsilon, delta, sensitivity : Fraction
    loss : Loss
    integer : bool
        The statistic is an integer, and so is the noise.
    monotone : bool
        The density does not rise away from zero.
    symmetric : bool
        X and -X have the same law.
    support : Fraction or None
        :math:`|X| \le` support.
    second : (Loss, Fraction) or None
        :math:`E\,c_2(X) \le` bound.

    Examples
    --------
    >>> problem = NoiseProblem.of(epsilon=1, delta=0.25, loss="l2")
    >>> problem.delta, problem.folded
    (Fraction(1, 4), True)
    """

    epsilon: Fraction
    delta: Fraction
    sensitivity: Fraction
    loss: Loss
    integer: bool = False
    monotone: bool = False
    symmetric: bool = False
    support: Fraction | None = None
    second: tuple[Loss, Fraction] | None = None

    @classmethod
    def of(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        sensitivity: Number = 1,
        loss: object = "l1",
        integer: bool = False,
        monotone: bool = False,
        symmetric: bool | None = None,
        support: object = None,
        second_loss: tuple[Any, Any] | None = None,
    ) -> NoiseProblem:
        """Checked parameters."""
        budget = check_epsilon(epsilon)
        slack = amount_within("delta", delta, "[0, 1)", "with 1, nothing is protected")
        if 0 < slack < Fraction(1, 10**12):
            fail(f"`delta` must be 0 or at least 1e-12. Got {shown(delta)}. Take 0.")
        if budget > 20:
            fail(f"`epsilon` must be at most 20 here. Got {shown(epsilon)}. Give less of it.")
        moved = check_sensitivity(sensitivity)[1]
        if integer and moved.denominator != 1:
            fail(f"`sensitivity` must be an integer for integers. Got {shown(sensitivity)}.")
        return cls(
            epsilon=budget,
            delta=slack,
            sensitivity=moved,
            loss=as_loss(loss, moved),
            integer=bool(integer),
            monotone=bool(monotone),
            symmetric=bool(symmetric),
            support=_support(support, moved),
            second=_second(second_loss, moved),
        )

    @property
    def folded(self) -> bool:
        """Whether only symmetric noise need be considered."""
        fair = self.loss.symmetric and (self.second is None or self.second[0].symmetric)
        return self.symmetric or fair

    @property
    def plain(self) -> bool:
        """Whether there is no side constraint that a Laplace law may break."""
        return self.support is None and self.second is None

    def unit(self) -> tuple[NoiseProblem, Fraction]:
        """The same problem at sensitivity 1, and the factor between the losses."""
        degree = self.loss.degree
        if degree is None or self.integer or not self.plain or self.sensitivity == 1:
            return self, Fraction(1)
        return replace(self, sensitivity=Fraction(1)), self.sensitivity**degree

    @property
    def key(self) -> str | None:
        """Equal for equal problems; None when a loss is a function, which has no name."""
        second = None if self.second is None else (self.second[0].key, self.second[1])
        if self.loss.key is None or (second is not None and second[0] is None):
            return None
        parts = (self.epsilon, self.delta, self.sensitivity, self.loss.key, self.integer)
        return repr((*parts, self.monotone, self.symmetric, self.support, second))


def degree_near_zero(problem: NoiseProblem) -> float:
    """The power of x by which the loss rises at the size of the core of the noise.

    >>> huber = lambda x: x * x if abs(x) < 1 else 2 * abs(x) - 1
    >>> degree_near_zero(NoiseProblem.of(epsilon=6, delta=0.1, loss=huber))
    2.0
    """
    loss = problem.loss
    if loss.degree is not None:
        return float(loss.degree)
    step = problem.sensitivity * Fraction(math.exp(-float(problem.epsilon) / 2))
    low, mid, zero, *more = map(float, loss.values(step, -2, 3, up=True))
    far, near = low + more[1] - 2 * zero, mid + more[0] - 2 * zero
    if near <= 0 or far <= near:  # flat, or a jump
        return 1.0
    return min(max(round(math.log2(far / near), 2), 0.25), 8.0)


def _support(given: object, sensitivity: Fraction) -> Fraction | None:
    if given is None:
        return None
    bound = fraction_within("support", given, "(0, inf)")
    if bound > 10**6 * sensitivity:
        fail("`support` must be at most 1e6 sensitivities. Leave it out for no bound.")
    return bound


def _second(given: object, sensitivity: Fraction) -> tuple[Loss, Fraction] | None:
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != 2:
        fail("`second_loss` must be a pair (loss, bound).")
    return as_loss(given[0], sensitivity), exact_fraction("second_loss", given[1])
