"""What one release costs, in all units of privacy at once: exact rationals that add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Self

from tightdp.accepted import Number
from tightdp.accounting.conversions import (
    gaussian_dp_epsilon,
    pure_mu_squared,
    zcdp_epsilon,
)
from tightdp.errors import amount_within, fraction_within
from tightdp.parameters import tells_arguments
from tightdp.privacy import text_up

_NO_NOISE = "far above 1 nothing is protected: state more noise"


class _Implied:
    """The mu**2 of a cost: as given, or what its epsilon implies, found when it is asked for."""

    def __get__(self, cost: Cost | None, owner: type[Cost]) -> Fraction | None:
        if cost is None:
            return None  # the default of the field
        given: Fraction | None = cost.__dict__["mu_squared"]
        return pure_mu_squared(cost.epsilon) if given is None else given

    def __set__(self, cost: Cost, given: Fraction | None) -> None:
        cost.__dict__["mu_squared"] = given


@tells_arguments
@dataclass(frozen=True, kw_only=True)
class Cost:
    r"""The cost of a release in every unit in which budgets are kept.

    It says three things about the laws P and Q of a release on neighbouring tables, each by itself:

    1. P and Q are (epsilon, delta)-indistinguishable.
    2. Outside of an event of chance ``rho_delta`` they are rho-zCDP.
    3. Outside of an event of chance ``mu_delta`` they are mu-Gaussian DP; :math:`\mu^2` is kept,
       which is rational for Gaussian noise of a rational variance.

    *Outside of an event*: :math:`P = (1-\delta)P' + \delta P''` and
    :math:`Q = (1-\delta)Q' + \delta Q''`, and the promise is about P' and Q' (delta-approximate
    zCDP, Bun and Steinke, 2016, Section 8).

    All six numbers add, also when each release is chosen after seeing those before it, as long as a
    cap that was fixed before the first is kept (Rogers and others, 2016; Whitehouse and others,
    2023; Smith and Thakurta, 2022).

    Parameters
    ----------
    epsilon, delta : Fraction
    rho, rho_delta : Fraction
    mu_delta, mu_squared : Fraction
        The last may be left out: it is then what epsilon implies.

    Examples
    --------
    >>> laplace = Cost.of(1)
    >>> laplace.rho, laplace.delta
    (Fraction(1, 2), Fraction(0, 1))
    >>> noise = Cost.gaussian(Fraction(1, 900), delta=1e-6)  # a count, standard deviation 30
    >>> noise.rho, noise.mu_squared, round(float(noise.epsilon), 4)
    (Fraction(1, 1800), Fraction(1, 900), 0.1227)
    >>> print(noise + laplace)
    epsilon = 1.12266, delta = 1e-06; rho = 0.500556; mu^2 = 1.51903
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction
    mu_delta: Fraction
    mu_squared: Fraction = _Implied()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for part in fields(self):
            given = self.__dict__[part.name]
            if given is not None:
                object.__setattr__(self, part.name, fraction_within(part.name, given, "[0, inf)"))

    # --- what is promised, and what follows from it ---------------------------------------------

    @classmethod
    def of(cls, epsilon: Number, delta: Number = 0, *, ranges: Sequence[Fraction] = ()) -> Self:
        r"""The cost of an (epsilon, delta)-DP release.

        **Proof.** 1. Pairs that are (epsilon, delta)-indistinguishable are images of randomised
        response that tells the truth openly with chance delta and is epsilon-DP otherwise (Kairouz
        and others, 2017): outside of an event of chance delta the release is epsilon-DP. 2. What is
        epsilon-DP is :math:`\epsilon^2/2`-zCDP (Bun and Steinke, 2016, Proposition 3.3), and
        epsilon-zCDP, since :math:`D_\alpha \le D_\infty \le \epsilon \le \epsilon\alpha`. 3. It is
        mu-Gaussian DP, :math:`\mu = 2\Phi^{-1}(e^\epsilon/(1+e^\epsilon))`
        (:func:`~tightdp.accounting.conversions.pure_mu_squared`).

        *Bounded range.* ``ranges`` are given where a release is a sequence of draws, each of whose
        log ratios :math:`L = \ln(P/Q)` lies, for given neighbours and earlier draws, in an interval
        of length :math:`\eta_i` (Durfee and Rogers, 2019): every exponential mechanism with weights
        :math:`e^{r u}` whose utilities change by amounts in [a, b], with :math:`\eta = r(b - a)`,
        for L is :math:`r(u - u')` less the log ratio of the normalisers, the same for all outcomes.
        Then rho is :math:`\sum_i \eta_i^2/8`. 4. For one draw let
        :math:`K(\alpha) = \ln E_Q e^{\alpha L}`. K(0) = K(1) = 0, and K'' is the variance of L
        under a tilted law, at most :math:`\eta^2/4`. The error of interpolation at 0 and 1 is
        :math:`K(\alpha) = \tfrac12 K''(\xi)\,\alpha(\alpha-1) \le \eta^2\alpha(\alpha-1)/8`, and
        :math:`D_\alpha = K(\alpha)/(\alpha-1)`. 5. zCDP adds over draws, and public coins before a
        draw change nothing.

        Parameters
        ----------
        epsilon, delta : int, float, Fraction or Decimal
        ranges : sequence of Fraction
            Lengths of the ranges of the log ratios; nothing where they are not known.

        Examples
        --------
        >>> Cost.of(1, ranges=[Fraction(1)]).rho, Cost.of(4).rho
        (Fraction(1, 8), Fraction(4, 1))
        """
        spent = amount_within("epsilon", epsilon, "[0, inf)")
        lost = amount_within("delta", delta, "[0, 1)")
        rho = min(spent * spent / 2, spent)
        if ranges:
            rho = min(rho, sum((width * width for width in ranges), Fraction(0)) / 8)
        return cls(
            epsilon=spent,
            delta=lost,
            rho=rho,
            rho_delta=lost,
            mu_delta=lost,
        )

    @classmethod
    def concentrated(cls, rho: Number, *, delta: Number, epsilon: Number | None = None) -> Self:
        r"""The cost of a rho-zCDP release, such as discrete Gaussian noise.

        Discrete Gaussians of variance parameter :math:`s` on integers with a squared l2 move D are
        rho-zCDP with :math:`\rho = D/(2s)` (Canonne and others, 2020, Theorem 4). The epsilon at
        the stated ``delta`` is the tight conversion's, unless a smaller one is known. In a Gaussian
        budget it counts as the (epsilon, delta) that it implies: zCDP says nothing of mu.

        Examples
        --------
        >>> cost = Cost.concentrated(Fraction(1, 200), delta=1e-6)
        >>> round(float(cost.epsilon), 3), cost.rho_delta, cost.mu_delta
        (0.43, Fraction(0, 1), Fraction(1, 1000000))
        """
        spent = fraction_within("rho", rho, "(0, 2**40]", _NO_NOISE)
        lost = amount_within("delta", delta, "(0, 1)")
        implied = _stated(epsilon) if epsilon is not None else zcdp_epsilon(spent, lost)
        return cls(
            epsilon=implied,
            delta=lost,
            rho=spent,
            rho_delta=Fraction(0),
            mu_delta=lost,
        )

    @classmethod
    def gaussian(cls, mu_squared: Number, *, delta: Number, epsilon: Number | None = None) -> Self:
        r"""The cost of a release that is exactly mu-Gaussian DP: rounded Gaussian noise.

        Real Gaussians of variance s on a vector with squared l2 move D, and whatever is made of the
        noisy vector, such as rounding to integers: :math:`\mu^2 = D/s` and :math:`\rho = \mu^2/2`
        (Dong and others, 2022, Theorem 2.7; Bun and Steinke, 2016, Proposition 1.6). The epsilon at
        the stated ``delta`` is exact, unless one is given.

        Examples
        --------
        >>> round(float(Cost.gaussian(Fraction(1, 100), delta=1e-6).epsilon), 4)
        0.3969
        """
        square = fraction_within("mu_squared", mu_squared, "[2**-1000, 2**40]", _NO_NOISE)
        lost = amount_within("delta", delta, "(0, 1)")
        implied = _stated(epsilon) if epsilon is not None else gaussian_dp_epsilon(square, lost)
        nothing = Fraction(0)
        return cls(
            epsilon=implied,
            delta=lost,
            rho=square / 2,
            rho_delta=nothing,
            mu_squared=square,
            mu_delta=nothing,
        )

    # --- sums -----------------------------------------------------------------------------------

    @classmethod
    def total(cls, costs: Sequence[Cost]) -> Self:
        """The sum of some costs; of none, nothing."""
        return cls(
            **{
                part.name: sum((getattr(cost, part.name) for cost in costs), Fraction(0))
                for part in fields(cls)
            }
        )

    def __add__(self, other: Cost) -> Self:
        return self.total([self, other])

    def __str__(self) -> str:
        lost = f", delta = {text_up(self.delta)}" if self.delta else ""
        rho, mu = (
            f"{text_up(amount)}{f' (delta = {text_up(fails)})' if fails else ''}"
            for amount, fails in (
                (self.rho, self.rho_delta),
                (self.mu_squared, self.mu_delta),
            )
        )
        return f"epsilon = {text_up(self.epsilon)}{lost}; rho = {rho}; mu^2 = {mu}"


def _stated(epsilon: Number) -> Fraction:
    return amount_within("epsilon", epsilon, "[0, inf)")
