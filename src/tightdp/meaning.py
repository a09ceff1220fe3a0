r"""What a guarantee means to a person: how well anybody can tell two neighbouring tables apart.

Whatever an adversary does with a release, deciding whether a person's record is u or v (or, under
add-remove, whether it is there at all) is a test. Differential privacy bounds the power of every
test, and only that: it is the whole content of the definition.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, overload

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting.conversions import gaussian_dp_epsilon, zcdp_epsilon
from tightdp.errors import (
    FloatArray,
    TightdpError,
    amount_within,
    check_array,
    check_positive,
    check_probability,
    check_within,
    fail,
    fraction_within,
)
from tightdp.parameters import tells_arguments
from tightdp.privacy import Neighbors, stated_guarantee, text_up

_ORDERS = 1 + np.exp(np.linspace(-6.0, 8.0, 60))  # of Rényi divergences
_CLOSE = 1e-9
_SAID = {
    Neighbors.REPLACE_ONE: "whether your record says one thing or another",
    Neighbors.ADD_REMOVE: "whether you are in the data at all",
}


@overload
def power_bound(
    alpha: float,
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
) -> float: ...
@overload
def power_bound(
    alpha: FloatArray,
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
) -> FloatArray: ...


@tells_arguments
def power_bound(
    alpha: Any,
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
) -> Any:
    r"""The largest power of any test at level alpha between two neighbouring tables:

    .. math:: \min\left\{1,\; e^{\epsilon} \alpha + \delta,\;
              1 - e^{-\epsilon} (1 - \delta - \alpha)\right\}.

    It is exact: no test has more power against any (epsilon, delta)-DP release, and against some
    release a test has just this much. The same is asked of a guarantee in rho or mu:

    *mu*: :math:`\Phi(\Phi^{-1}(\alpha) + \mu)`, by definition of Gaussian DP.

    *rho*: the largest :math:`\beta` such that a coin with chance :math:`\alpha` and one with chance
    :math:`\beta` are rho-zCDP: a test turns the release into such coins, which are no farther apart
    in any Rényi divergence, and are themselves a release that attains the bound. It is computed
    for some orders, rounded up.

    **Proof.** 1. A test rejects with probability :math:`\alpha` under one table, :math:`\beta`
    under the other. The definition for the event "rejects" says
    :math:`\beta \le e^{\epsilon} \alpha + \delta`; for "does not reject", tables exchanged,
    :math:`1 - \alpha \le e^{\epsilon} (1 - \beta) + \delta`, which is the second bound. Randomised
    tests are post-processing. 2. Both are attained at once by the release that tells the truth
    openly with probability :math:`\delta`, and otherwise is right with odds :math:`e^{\epsilon}`.
    3. Rows beside the person's may be random, if they are independent of that row: averaging over
    them keeps both inequalities.

    **Erratum.** Awan and Slavković (Proposition 2.3, 2.4 in the preprint) and the notes on
    Wasserman and Zhou print :math:`\alpha e^{\epsilon}`. That is one of two directions: beyond
    :math:`\alpha = 1/(1 + e^{\epsilon})` it is too large, and above
    :math:`\alpha = e^{-\epsilon}` it says nothing. They allow any measure on tables; with rows
    that depend on the person's row the bound is false, for :math:`X_1 = \dots = X_n` the exponent
    becomes :math:`n \epsilon`. Wasserman and Zhou assume independent rows.

    References: Wasserman and Zhou (2010) Theorem 2.4, Kairouz and others (2017), Dong and others
    (2022).

    Parameters
    ----------
    alpha : float or array
        Levels of the test in [0, 1].
    epsilon, delta : float
        One guarantee: an epsilon and a delta, or a rho, or a mu.
    rho, mu : float, optional

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(power_bound(0.05, 1.0), 4)  # a blind guess has 0.05
    0.1359
    >>> round(power_bound(0.5, 1.0), 4)  # alpha * exp(epsilon) would be 1.36
    0.8161
    >>> round(power_bound(0.05, mu=0.5), 4), round(power_bound(0.05, rho=0.125), 4)
    (0.1261, 0.1482)
    """
    check_one(epsilon, rho, mu)
    try:
        levels = check_array("alpha", alpha, ndim=np.ndim(alpha))
    except ValueError as error:  # a list of lists of several lengths has no number of axes
        fail(str(error) if isinstance(error, TightdpError) else "`alpha` must be an array.")
    if not ((levels >= 0) & (levels <= 1)).all():
        fail("`alpha` must lie in [0, 1]: it is a probability.")
    if mu is not None:
        shifted = scipy.special.ndtri(levels) + check_positive("mu", mu)
        power = np.asarray(scipy.special.ndtr(shifted))
        return power if np.ndim(alpha) else float(power)
    if rho is not None:
        power = np.vectorize(_coin, otypes=[float])(levels, check_positive("rho", rho))
        return power if np.ndim(alpha) else float(power)
    epsilon, delta = _budget(epsilon, delta)
    # for large epsilon the first bound is infinite where alpha > 0, and delta where alpha = 0
    with np.errstate(over="ignore"):
        first = np.where(levels > 0, np.exp(epsilon) * np.where(levels > 0, levels, 1.0), 0.0)
    second = np.minimum(math.exp(-epsilon) * (levels + delta) - math.expm1(-epsilon), 1.0)
    power = np.minimum(first + delta, second)
    return power if np.ndim(alpha) else float(power)


def _coin(alpha: float, rho: float) -> float:
    """The largest chance of a coin that is rho-zCDP beside one with chance alpha, rounded up."""
    if alpha in (0.0, 1.0):
        return alpha
    low, high = alpha, 1.0
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if _coins_close(alpha, middle, rho) else (low, middle)
    return high


def _coins_close(alpha: float, beta: float, rho: float) -> bool:
    """Whether no Rényi divergence of the coins, of the orders looked at, is above its bound."""
    for p, q in ((alpha, beta), (beta, alpha)):
        tails = np.log([p, 1 - p]), np.log([q, 1 - q])
        terms = _ORDERS[:, None] * tails[0] + (1 - _ORDERS[:, None]) * tails[1]
        divergence = np.logaddexp(terms[:, 0], terms[:, 1]) / (_ORDERS - 1)
        if (divergence > rho * _ORDERS * (1 + 1e-12)).any():
            return False
    return True


def power_curve(
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Levels and powers of :func:`power_bound`: its corners, straight between, or many points.

    >>> [part.round(3).tolist() for part in power_curve(math.log(3))]
    [[0.0, 0.25, 1.0], [0.0, 0.75, 1.0]]
    """
    check_one(epsilon, rho, mu)
    if epsilon is None:
        levels = np.concatenate([[0.0], np.logspace(-6, -1, 40), np.linspace(0.12, 1.0, 45)])
        return levels, power_bound(levels, rho=rho, mu=mu)
    knee = (1.0 - delta) * guess_bound(epsilon) * math.exp(-epsilon)  # where its two pieces meet
    levels = np.unique([0.0, knee, 1.0 - delta, 1.0])
    return levels, power_bound(levels, epsilon, delta)


@tells_arguments
def guess_bound(
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
) -> float:
    r"""The largest probability of a right guess between two neighbouring tables, equally likely.

    .. math:: \frac{e^{\epsilon} + \delta}{1 + e^{\epsilon}},

    the largest value of :math:`(1 - \alpha + \beta)/2` on the curve of :func:`power_bound`, where
    its two pieces meet. Exact, in the same sense. For mu it is :math:`\Phi(\mu/2)`. For rho it is
    the chance p of a coin that is rho-zCDP beside one with 1 - p: the set of pairs of coins that
    are is convex and does not change if both are turned, so the best pair is such a one.

    >>> guess_bound(math.log(3)), round(guess_bound(1e-9), 6)  # three in four; a coin
    (0.75, 0.5)
    >>> round(guess_bound(mu=1.0), 4), round(guess_bound(rho=0.5), 4)
    (0.6915, 0.7396)
    """
    check_one(epsilon, rho, mu)
    if mu is not None:
        return float(scipy.special.ndtr(check_positive("mu", mu) / 2))
    if rho is not None:
        low, high, most = 0.5, 1.0, check_positive("rho", rho)
        while high - low > _CLOSE:
            middle = (low + high) / 2
            low, high = (middle, high) if _coins_close(1 - middle, middle, most) else (low, middle)
        return high
    epsilon, delta = _budget(epsilon, delta)
    small = math.exp(-epsilon)
    return (1.0 + delta * small) / (1.0 + small)


@tells_arguments
def explain(
    epsilon: float | object | None = None,
    delta: float = 0.0,
    *,
    rho: float | None = None,
    mu: float | None = None,
    alpha: float = 0.05,
    neighbors: str | Neighbors = Neighbors.REPLACE_ONE,
) -> str:
    """What a guarantee promises one person, in plain words.

    The numbers are :func:`guess_bound` and :func:`power_bound`, rounded upwards.

    Parameters
    ----------
    epsilon, delta : float
        Or, in the place of epsilon, what states its guarantee: a Guarantee, a Release, a mechanism.
    rho, mu : float, optional
        A guarantee in rho or mu instead; ``delta`` then says at which the epsilon that it implies
        is told, a millionth by default.
    alpha : float
        How often the observer accepts a false alarm, strictly between 0 and 1.
    neighbors : str
        The relation of the guarantee.

    Examples
    --------
    >>> print(explain(0.5))
    Somebody who knows everything about everybody else, and sees only this release, tries to tell \
whether your record says one thing or another. A coin would be right 50 % of the time; the \
release allows at most 62.3 %. If they accept a false alarm in 5 % of the cases where it is not \
so, they notice at most 8.3 % of the cases where it is. It does not matter what else they know \
or how much they compute.
    >>> print(explain(rho=0.02))
    Somebody who ... at most 55 %. ... This is rho = 0.02, which implies epsilon = 0.899936 at \
delta = 1e-06, and another epsilon at every other delta.
    """
    check_probability("alpha", alpha)
    stated = stated_guarantee(epsilon)
    if stated is not None:
        epsilon, delta, neighbors = stated.epsilon, stated.delta, stated.neighbors
        if stated.rho is not None:
            epsilon, rho = None, stated.rho
    relation = Neighbors.of(neighbors)
    said = {"epsilon": epsilon, "rho": rho, "mu": mu}
    if epsilon is not None:
        said["delta"] = delta
    guess, power = guess_bound(**said), power_bound(float(alpha), **said)  # type: ignore[arg-type, call-overload]
    text = (
        "Somebody who knows everything about everybody else, and sees only this release, tries to "
        f"tell {_SAID[relation]}. A coin would be right 50 % of the time; the release allows at "
        f"most {_percent(guess)}. If they accept a false alarm in {_percent(alpha)} of the cases "
        f"where it is not so, they notice at most {_percent(power)} of the cases where it is. It "
        "does not matter what else they know or how much they compute."
    )
    if epsilon is None:
        text += " " + _implied(rho, mu, delta)
    elif delta:
        text += (
            f" This counts delta = {text_up(delta)}: with at most that chance the release may give "
            "you away altogether."
        )
    if guess >= 0.9:
        text += " This is weak protection: a release with a smaller epsilon would promise more."
    return text


def _implied(rho: float | None, mu: float | None, delta: float) -> str:
    """The epsilon that a rho or a mu implies at a delta."""
    lost = amount_within("delta", delta, "[0, 1)") or Fraction(1, 10**6)
    if rho is not None:
        epsilon = zcdp_epsilon(fraction_within("rho", rho, "(0, inf)"), lost)
        what = f"rho = {text_up(rho)}"
    else:
        epsilon = gaussian_dp_epsilon(fraction_within("mu", mu, "(0, inf)") ** 2, lost)
        what = f"mu = {text_up(mu or 0.0)}"
    return (
        f"This is {what}, which implies epsilon = {text_up(epsilon)} at delta = {text_up(lost)}, "
        "and another epsilon at every other delta."
    )


def check_one(epsilon: object, rho: object, mu: object) -> None:
    """Refuse none and more than one of the three ways to state a guarantee."""
    if sum(given is not None for given in (epsilon, rho, mu)) != 1:
        fail("`epsilon`, `rho` or `mu` must be given, one of them: a guarantee is in one unit.")


def _budget(epsilon: Number | None, delta: Number) -> tuple[float, float]:
    slack = check_within("delta", delta, "[0, 1)")
    return check_positive("epsilon", epsilon), slack


def _percent(share: float) -> str:
    """A share in percent, rounded upwards so that a bound stays one; 100 % only if it is 1."""
    for places in range(1, 17):
        up = math.ceil(round(share * 100 * 10**places, 6)) / 10**places
        if up < 100 or share >= 1:
            return f"{up:g} %"
    return "100 %"
