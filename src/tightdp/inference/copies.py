"""One interval from the analyses of several synthetic tables."""

from __future__ import annotations

import math
from typing import NamedTuple

import scipy  # scipy.stats is loaded at its first use: importing it is slow
from numpy.typing import ArrayLike

from tightdp.errors import DimensionError, check_array, check_confidence, check_real, fail
from tightdp.parameters import tells_arguments


class Combined(NamedTuple):
    """An estimate, its standard error and its interval, for the population."""

    estimate: float
    std: float
    low: float
    high: float


@tells_arguments
def combined_interval(
    estimates: ArrayLike, variances: ArrayLike, confidence: float = 0.95, *, least: float = 0.0
) -> Combined:
    r"""The estimate and interval of m analyses, one of each synthetic copy.

    With the mean q of the estimates, their variance b and the mean v of the variances that the
    analyses state, the variance of q is :math:`T = (1 + 1/m)\,b - v`: b counts what the release
    leaves open and the sampling of the synthetic rows, and v the latter, which is not an error
    about the population (Raghunathan, Reiter and Rubin, 2003). Where T comes out smaller than
    :math:`b / m`, which happens with few copies, it is replaced by that. The interval is that of
    Student's t with :math:`(m - 1)(1 - \frac{m v}{(m + 1) b})^2` degrees of freedom, at least one.

    Parameters
    ----------
    estimates, variances : arrays of one length, at least 2
        Of one number, as each analysis states it for its own rows.
    confidence : float
    least : float
        A standard error that the result has at least. Copies of a small count differ by too little,
        because none of them is negative: :meth:`tightdp.SyntheticTable.interval` knows what to
        state, and refuses numbers that no released table tells.

    Examples
    --------
    >>> found = combined_interval([1.0, 1.4, 0.9, 1.3], [0.01, 0.01, 0.01, 0.01])
    >>> round(found.estimate, 3), found.low < 1.15 < found.high
    (1.15, True)
    """
    values = check_array("estimates", estimates, 1)
    stated = check_array("variances", variances, 1)
    level, many = check_confidence(confidence), len(values)
    if many < 2 or len(stated) != many:
        fail("`estimates` and `variances` must be of one length, of at least 2.", DimensionError)
    if not (stated >= 0).all():
        fail("`variances` must not be negative.")
    floor = check_real("least", least)
    if floor < 0:
        fail("`least` must not be negative.")
    middle, between, within = float(values.mean()), float(values.var(ddof=1)), float(stated.mean())
    variance = max((1 + 1 / many) * between - within, between / many)
    ratio = 1 - many * within / ((many + 1) * between) if between > 0 else 1.0
    freedom = max(1.0, (many - 1) * ratio**2)
    reach = float(scipy.stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(variance)
    reach = max(reach, float(scipy.special.ndtri((1 + level) / 2)) * floor)
    return Combined(middle, max(math.sqrt(variance), floor), middle - reach, middle + reach)
