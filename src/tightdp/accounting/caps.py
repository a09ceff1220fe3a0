r"""Caps on what may be spent, and why they hold when the next question depends on the last answer.

An analyst sees every answer before choosing the next release and its cost. A cap is two numbers,
fixed before the first release: a spend after which a running sum would be above its number is
refused. Three kinds of sums are kept, each with a delta beside it (:class:`~tightdp.Cost`): epsilon
and delta (``"sum"``), rho and rho_delta (``"zcdp"``), mu**2 and mu_delta (``"gaussian"``).

**Statement.** Let the sums stay at or below (c, d), whatever the analyst does. Then all releases
together are, by kind, (c, d)-DP; c-zCDP outside of an event of chance d, and
:math:`(\epsilon, \delta_c(\epsilon) + d)`-DP for every epsilon, with :math:`\delta_c` the delta of
c-zCDP or of :math:`\sqrt c`-Gaussian DP (:mod:`tightdp.accounting.conversions`). A cap that is
stated as (epsilon, delta) with a ``slack`` d becomes the largest c with
:math:`\delta_c(\epsilon) + d \le \delta`.

**Proof.** Fix neighbouring tables; P and Q are the laws of the transcript, the sequence of answers.
The i-th release and its cost are functions of the answers before it, h.

1. *Failures.* Given h the i-th answer has laws :math:`(1-\delta_i)P_i + \delta_i P_i''` and
   :math:`(1-\delta_i)Q_i + \delta_i Q_i''`, where :math:`\delta_i` and the promise about
   :math:`(P_i, Q_i)` are functions of h. Draw the coin of the failure apart. The chance that any
   release fails is at most the mean of :math:`\sum_i \delta_i \le d`. On transcripts t without a
   failure the laws are :math:`W(t)P'(t)` and :math:`W(t)Q'(t)`, with the same
   :math:`W = \prod(1-\delta_i) \le 1`, and P', Q' those of an analyst who meets no failures. So
   :math:`P(A) - e^\epsilon Q(A) \le d + \sum_{t \in A} W(t)(P'(t) - e^\epsilon Q'(t)) \le d + H`
   with :math:`H = \sum_t (P'(t) - e^\epsilon Q'(t))_+`. It is left to bound H.
2. *sum*: :math:`P'(t)/Q'(t) = \prod_i P_i/Q_i \le e^{\sum \epsilon_i} \le e^{c}`, and H = 0 at
   :math:`\epsilon = c` (Rogers and others, 2016).
3. *zcdp*: for an order :math:`\alpha` let :math:`M_n = \prod_{i \le n} (P_i/Q_i)^\alpha
   e^{-\alpha(\alpha-1)\rho_i}`. Given h its next factor has a mean of at most 1 under Q', for
   :math:`E_{Q_i}(P_i/Q_i)^\alpha \le e^{\alpha(\alpha-1)\rho_i}`: a supermartingale. As
   :math:`\sum \rho_i \le c` on every path, :math:`E_{Q'}(P'/Q')^\alpha \le e^{\alpha(\alpha-1)c}`:
   P' and Q' are c-zCDP (Whitehouse and others, 2023), and H is at most ``zcdp_delta``.
4. *gaussian*: a pair that is :math:`\mu_i`-Gaussian is an image of N(0, 1) against
   N(:math:`\mu_i`, 1) (Blackwell; Dong and others, 2022, Theorem 2.10), hence of a Brownian motion
   that is watched for a time :math:`\mu_i^2`, without a drift or with drift 1. Let it run on from
   release to release: the transcript is an image of the motion until the time c, for each time is
   known from the answers before, and they add up to at most c. All that tells the drifts apart in
   it is where it ends: N(0, c) against N(c, c). So P' and Q' are :math:`\sqrt c`-Gaussian (Smith
   and Thakurta, 2022), and H is at most ``gaussian_dp_delta``.

**Why the slack is fixed beforehand.** Were c allowed to shrink as delta is spent on failures, so
that :math:`\delta_c(\epsilon) + d = \delta` at every moment, an analyst could go on with Gaussian
noise where the loss is high already, and buy failures where it is low: both would count in full,
and together cost up to twice the delta.

**Odometer.** Under P' and for any :math:`\lambda > 0`, :math:`e^{\lambda L_n - \lambda(\lambda+1)
R_n}` is a supermartingale, L the privacy loss and R the sum of rho so far. By Ville's inequality,
outside of an event of chance :math:`\beta`, :math:`L_n \le (1+\lambda)R_n + \ln(1/\beta)/\lambda`
at all times n at once: what is spent may be read off at any moment, also one that answers chose.
The slack is part of delta from the first release on, whether it is used or not: a bound with all of
delta as :math:`\beta` until somebody buys a failure would fail with a chance of up to
:math:`\delta + d`, for an analyst who buys it where the bound still held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tightdp.accepted import Number
from tightdp.accounting.conversions import (
    gaussian_dp_epsilon,
    gaussian_dp_mu_squared,
    pure_mu_squared,
    root_down,
    zcdp_epsilon,
    zcdp_rho,
)
from tightdp.accounting.costs import Cost
from tightdp.accounting.normal_bounds import log_bounds
from tightdp.errors import amount_within, check_choice, fail

UNITS = {"sum": "epsilon", "zcdp": "rho", "gaussian": "mu_squared"}
_FOR_PLANS = ("pld", "prv", "fourier")
_STEPS = 12  # rates of an odometer, each half of the one before in what it is best for
_BITS = 96


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that may be spent, as it was stated and in the unit in which it is kept.

    Parameters
    ----------
    accountant : {"sum", "zcdp", "gaussian"}
    amount : Fraction
        Of epsilon, rho or mu**2.
    slack : Fraction
        Of the delta of releases beside it.
    epsilon, delta : Fraction, optional
        What the whole is worth; None where a rho was stated.

    Examples
    --------
    >>> cap = Cap.stated("gaussian", epsilon=3, delta=1e-6)
    >>> cap.unit, int(cap.amount / Cost.gaussian(Fraction(1, 900), delta=1e-6).mu_squared)
    ('mu_squared', 377)
    """

    accountant: str
    amount: Fraction
    slack: Fraction
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    @classmethod
    def stated(
        cls,
        accountant: str,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        slack: Number = 0,
    ) -> Cap:
        """The cap that a caller states: an epsilon with its delta, or a rho."""
        if accountant in _FOR_PLANS:
            fail(
                f"`accountant` must be one of {', '.join(UNITS)}. Got {accountant!r}, which is for "
                "a list of releases that was fixed beforehand: where the next question depends on "
                "the last answer it is no cap. `ledger.tight_epsilon` is for reports of such lists."
            )
        check_choice("accountant", accountant, UNITS)
        spare = amount_within("slack", slack, "[0, 1)")
        if rho is not None:
            return cls._in_rho(accountant, epsilon, delta, rho, spare)
        if epsilon is None:
            fail("`epsilon` must be given, or `rho`: it is the most that may be spent.")
        most = amount_within("epsilon", epsilon, "(0, 2**20]", "it is the most that may be spent")
        whole = amount_within("delta", delta, "[0, 1)")
        if accountant == "sum":
            if spare:
                fail("`slack` must be 0 for accountant='sum', whose delta is all slack.")
            return cls(accountant, most, whole, most, whole)
        if not spare < whole:
            fail(
                f"`delta` must be above `slack` for accountant={accountant!r}. Got delta = "
                f"{delta}: what is left of it pays for turning {UNITS[accountant]} into epsilon."
            )
        convert = zcdp_rho if accountant == "zcdp" else gaussian_dp_mu_squared
        amount = convert(most, whole - spare)
        if not amount:
            fail("`epsilon` and `delta` are too small to buy anything: give more of them.")
        return cls(accountant, amount, spare, most, whole)

    @classmethod
    def _in_rho(
        cls, accountant: str, epsilon: Number | None, delta: Number, rho: Number, slack: Fraction
    ) -> Cap:
        if epsilon is not None or delta or accountant != "zcdp":
            fail(
                "`rho` must be stated alone, with accountant='zcdp': a cap is in one unit. "
                "`slack` is the delta that releases beside it may spend."
            )
        most = amount_within("rho", rho, "(0, 2**20]", "it is the most that may be spent")
        return cls("zcdp", most, slack)

    @property
    def unit(self) -> str:
        """The unit of the amount: "epsilon", "rho" or "mu_squared"."""
        return UNITS[self.accountant]

    def booked(self, cost: Cost) -> tuple[Fraction, Fraction]:
        """What a cost is in the unit of the cap, and the delta beside it."""
        if self.accountant == "sum":
            return cost.epsilon, cost.delta
        if self.accountant == "zcdp":
            return cost.rho, cost.rho_delta
        return cost.mu_squared, cost.mu_delta

    # --- what amounts are worth -----------------------------------------------------------------

    def epsilon_at(self, amount: Fraction, slack: Fraction, delta: Fraction) -> Fraction | None:
        """An epsilon that so much implies at a delta, if it was fixed beforehand; None: no one."""
        if amount == 0 and slack <= delta:
            return Fraction(0)
        if self.accountant == "sum":
            return amount if slack <= delta else None
        if not slack < delta:
            return None
        convert = zcdp_epsilon if self.accountant == "zcdp" else gaussian_dp_epsilon
        return convert(amount, delta - slack)

    def odometer(self, amount: Fraction, slack: Fraction, delta: Fraction) -> Fraction | None:
        """An epsilon of which it holds at all times at once that no more is lost, but for delta.

        None where delta does not cover those that may have one of their own. The rates are those
        that are best at the cap, its half, its quarter ...; each pays for its share of delta.
        """
        if self.accountant == "sum":  # surely, as long as none could fail
            return amount if not slack or self.slack <= delta else None
        beside = self.slack
        if not beside < delta:
            return None
        rho, most = (x / 2 if self.accountant == "gaussian" else x for x in (amount, self.amount))
        far = log_bounds(_STEPS / (delta - beside), _BITS)[1]
        rates = (_near_root(far * 2**k / most) for k in range(_STEPS))
        return min((1 + rate) * rho + far / rate for rate in rates)

    def room(self, amount: Fraction, slack: Fraction) -> dict[str, Fraction]:
        """What one more release may cost, in every unit: what is left, as each would be booked.

        epsilon of pure noise, rho and mu**2 of exactly Gaussian noise; and the delta beside them.
        """
        left, beside = self.amount - amount, self.slack - slack
        if self.accountant == "sum":
            rho, square = Fraction(0), Fraction(0)
            if left > 0 and beside > 0:
                rho, square = zcdp_rho(left, beside), gaussian_dp_mu_squared(left, beside)
            return {"epsilon": left, "delta": beside, "rho": rho, "mu_squared": square}
        rho = left if self.accountant == "zcdp" else left / 2
        pure = _pure_within(left, self.accountant) if left > 0 else Fraction(0)
        return {"epsilon": pure, "delta": beside, "rho": rho, "mu_squared": 2 * rho}


def _pure_within(left: Fraction, accountant: str) -> Fraction:
    """The largest epsilon of pure noise that costs at most so much, rounded down."""
    if accountant == "zcdp":  # rho = min(epsilon^2/2, epsilon)
        return left if left >= 2 else root_down(2 * left, _BITS)
    return _largest(lambda epsilon: pure_mu_squared(epsilon) <= left)


def _largest(fits: Callable[[Fraction], bool]) -> Fraction:
    """The largest multiple of 2**-40 that fits, by halving; all smaller ones do."""
    low, high = 0, 1
    grid = 1 << 40
    while fits(Fraction(high, grid)):
        low, high = high, 4 * high
    while high - low > max(1, low >> 30):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(Fraction(middle, grid)) else (low, middle)
    return Fraction(low, grid)


def _near_root(x: Fraction) -> Fraction:
    """Some number close to the root: any rate is valid, and this one is the same everywhere."""
    return Fraction(math.isqrt(math.ceil(x * (1 << 32))) or 1, 1 << 16)
