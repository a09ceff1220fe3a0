r"""What an epsilon means to a person: how well anybody can tell two neighbouring tables apart.

Whatever an adversary does with a release, deciding whether a person's record is u or v (or, under
add-remove, whether it is there at all) is a test. Differential privacy bounds the power of every
test, and only that: it is the whole content of the definition.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import (
    FloatArray,
    TightdpError,
    check_array,
    check_positive,
    check_probability,
    check_within,
    fail,
)
from tightdp.privacy import Neighbors, text_up

_SAID = {
    Neighbors.REPLACE_ONE: "whether your record says one thing or another",
    Neighbors.ADD_REMOVE: "whether you are in the data at all",
}


@overload
def power_bound(alpha: float, epsilon: float, delta: float = 0.0) -> float: ...
@overload
def power_bound(alpha: FloatArray, epsilon: float, delta: float = 0.0) -> FloatArray: ...


def power_bound(alpha: Any, epsilon: float, delta: float = 0.0) -> Any:
    r"""The largest power of any test at level alpha between two neighbouring tables:

    .. math:: \min\left\{1,\; e^{\epsilon} \alpha + \delta,\;
              1 - e^{-\epsilon} (1 - \delta - \alpha)\right\}.

    It is exact: no test has more power against any (epsilon, delta)-DP release, and against some
    release a test has just this much.

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
    epsilon : float
    delta : float

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(power_bound(0.05, 1.0), 4)  # a blind guess has 0.05
    0.1359
    >>> round(power_bound(0.5, 1.0), 4)  # alpha * exp(epsilon) would be 1.36
    0.8161
    """
    epsilon, delta = _budget(epsilon, delta)
    try:
        levels = check_array("alpha", alpha, ndim=np.ndim(alpha))
    except ValueError as error:  # a list of lists of several lengths has no number of axes
        fail(str(error) if isinstance(error, TightdpError) else "`alpha` must be an array.")
    if not ((levels >= 0) & (levels <= 1)).all():
        fail("`alpha` must lie in [0, 1]: it is a probability.")
    # for large epsilon the first bound is infinite where alpha > 0, and delta where alpha = 0
    with np.errstate(over="ignore"):
        first = np.where(levels > 0, np.exp(epsilon) * np.where(levels > 0, levels, 1.0), 0.0)
    second = np.minimum(math.exp(-epsilon) * (levels + delta) - math.expm1(-epsilon), 1.0)
    power = np.minimum(first + delta, second)
    return power if np.ndim(alpha) else float(power)


def power_curve(epsilon: float, delta: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """The corners of the curve of :func:`power_bound`, levels and powers: it is straight between.

    >>> [part.round(3).tolist() for part in power_curve(math.log(3))]
    [[0.0, 0.25, 1.0], [0.0, 0.75, 1.0]]
    """
    knee = (1.0 - delta) * guess_bound(epsilon) * math.exp(-epsilon)  # where its two pieces meet
    levels = np.unique([0.0, knee, 1.0 - delta, 1.0])
    return levels, power_bound(levels, epsilon, delta)


def guess_bound(epsilon: float, delta: float = 0.0) -> float:
    r"""The largest probability of a right guess between two neighbouring tables, equally likely.

    .. math:: \frac{e^{\epsilon} + \delta}{1 + e^{\epsilon}},

    the largest value of :math:`(1 - \alpha + \beta)/2` on the curve of :func:`power_bound`, where
    its two pieces meet. Exact, in the same sense.

    >>> guess_bound(math.log(3)), round(guess_bound(1e-9), 6)  # three in four; a coin
    (0.75, 0.5)
    """
    epsilon, delta = _budget(epsilon, delta)
    small = math.exp(-epsilon)
    return (1.0 + delta * small) / (1.0 + small)


def explain(
    epsilon: float,
    delta: float = 0.0,
    *,
    alpha: float = 0.05,
    neighbors: str | Neighbors = Neighbors.REPLACE_ONE,
) -> str:
    """What a guarantee promises one person, in plain words.

    The numbers are :func:`guess_bound` and :func:`power_bound`, rounded upwards.

    Parameters
    ----------
    epsilon : float
    delta : float
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
    """
    check_probability("alpha", alpha)
    relation = Neighbors.of(neighbors)
    guess, power = guess_bound(epsilon, delta), power_bound(float(alpha), epsilon, delta)
    text = (
        "Somebody who knows everything about everybody else, and sees only this release, tries to "
        f"tell {_SAID[relation]}. A coin would be right 50 % of the time; the release allows at "
        f"most {_percent(guess)}. If they accept a false alarm in {_percent(alpha)} of the cases "
        f"where it is not so, they notice at most {_percent(power)} of the cases where it is. It "
        "does not matter what else they know or how much they compute."
    )
    if delta:
        text += (
            f" This counts delta = {text_up(delta)}: with at most that chance the release may give "
            "you away altogether."
        )
    if guess >= 0.9:
        text += " This is weak protection: a release with a smaller epsilon would promise more."
    return text


def _budget(epsilon: Number, delta: Number) -> tuple[float, float]:
    slack = check_within("delta", delta, "[0, 1)")
    return check_positive("epsilon", epsilon), slack


def _percent(share: float) -> str:
    """A share in percent, rounded upwards so that a bound stays one; 100 % only if it is 1."""
    for places in range(1, 17):
        up = math.ceil(round(share * 100 * 10**places, 6)) / 10**places
        if up < 100 or share >= 1:
            return f"{up:g} %"
    return "100 %"
