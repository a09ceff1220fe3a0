r"""Naive Bayes' reading of a noisy release: what is known of the classes, and how well.

**Model.** A value of the classes c (a share, a mean, a variance, a probability of a level) is
:math:`\theta_c = \mu + \tau z_c`: something the classes have in common, and a deviation of unknown
scale. The release says :math:`\theta_c` plus noise of a known variance. Posterior means under this
model pull the classes together by as much as the noise could have driven them apart, however small
or large the true differences are; at no noise they are the released values, and at nothing but
noise all classes are alike and only equal odds remain. So probabilities mean what they say at any
epsilon: for tables of the model, what is said with probability p happens with frequency p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import NDArray

from tightdp.data.class_moments import ClassMoments, RecordLayout
from tightdp.errors import FloatArray
from tightdp.privacy import Neighbors

Doubtful = tuple[FloatArray, FloatArray]  # values, and the variances of their errors

_SCALES = np.exp2(np.arange(-18, 3) / 2)  # of deviations, in units of what the prior expects
_ROUNDS = 50  # of learning how often each scale occurs
_LEAST = 1e-12  # an exactly empty table has equal shares
_MEAN = 0.0, 1 / 3  # centre and variance of a mean anywhere in [-1, 1]
_VARIANCE = 1 / 3, 4 / 45  # of the square of a standard deviation anywhere in [0, 1]


@dataclass(frozen=True, slots=True, eq=False)
class ClassTable:
    """What the release says about the classes; scaled units, public facts and noisy sums only.

    Attributes
    ----------
    counts : array, shape (classes,)
        At least 1.
    prior : array, shape (classes,)
    means, variances : array, shape (classes, numbers)
    spreads : array, shape (classes, numbers)
        Variances of a new row around the means, the doubt about the means included.
    levels : dict
        Probabilities of the levels of each category, shape (classes, levels), none of them 0.
    """

    counts: FloatArray
    prior: FloatArray
    means: FloatArray
    variances: FloatArray
    spreads: FloatArray
    levels: dict[str, FloatArray]


def read_classes(
    moments: ClassMoments,
    values: FloatArray,
    covariance: FloatArray,
    *,
    alpha: float = 1.0,
    smoothing: float = 1e-3,
) -> ClassTable:
    """Posterior means of shares, means, variances and levels: finite and modest at any noise.

    The number of rows is public under replace-one, else the noisy total. Sizes of classes are that
    number times their shares, at least 1, and their doubt counts as noise of the sums that are
    divided by them. ``alpha`` rows of the variance that the classes have in common are added to
    those of each class, as are ``alpha`` rows to every level; ``smoothing`` is the least variance.
    Several releases of one law, the values of each along the last axis, are read at once.
    """
    layout, classes = moments.layout, len(moments.classes)
    values = values.reshape(*values.shape[:-1], classes, -1)
    noise = np.diag(covariance).reshape(classes, -1)
    total = np.full((*values.shape[:-2], 1, 1), float(moments.schema.rows))
    if moments.schema.neighbors is not Neighbors.REPLACE_ONE:
        total = np.clip(values[..., :1].sum(axis=-2, keepdims=True), 1.0, total)
    centre, spread = 1 / classes, _any_share(classes)
    shares, doubt = together(
        values[..., :1] / total, noise[:, :1] / total**2, centre, spread, known=True
    )
    prior = _to_one(within(shares, doubt, 0.0, 1.0)[..., 0])
    counts = np.maximum(total[..., 0] * prior, 1.0)
    size = counts[..., None]
    unsure = np.minimum(doubt * total**2, noise[:, :1])

    def per_row(at: Sequence[int]) -> Doubtful:
        """Means from sums, and their variances by the noise of sums and sizes."""
        sums = values[..., at]
        common = np.clip(sums.sum(axis=-2, keepdims=True) / total, -1.0, 1.0)
        return sums / size, (noise[:, at] + common**2 * unsure) / size**2

    many = len(layout.numbers)
    sums = [*range(1, 2 * many, 2), *range(2 * many + 1, layout.tables_from)]  # and contrasts
    found, doubt = together(*per_row(sums), *_MEAN)
    means, of_mean = np.clip(found[..., :many], -1.0, 1.0), doubt[..., :many]
    variances = _variances(per_row(range(2, 2 * many + 1, 2)), (means, of_mean))
    shared = alpha * prior[..., None, :] @ variances
    variances = (shared + size * variances) / (alpha + size)
    variances = np.clip(variances, smoothing, 1.0)
    spreads = variances * (1 + 1 / size) + of_mean

    levels = _pairs(layout, within(found[..., many:], doubt[..., many:], -1.0, 1.0))
    levels |= _tables(layout, per_row(range(layout.tables_from, layout.width)))
    for name, shares in levels.items():
        levels[name] = (shares * size + alpha) / (size + alpha * shares.shape[-1])
    return ClassTable(counts, prior, means, variances, spreads, levels)


def _variances(squares: Doubtful, means: Doubtful) -> FloatArray:
    """Variances from means of 2x^2 - 1 and x; the doubt about a mean is no spread of rows."""
    q, of_square = squares
    m, of_mean = means
    apart, noise = (1 + q) / 2 - m**2 - of_mean, of_square / 4 + 4 * m**2 * of_mean + 2 * of_mean**2
    return within(*together(apart, noise, *_VARIANCE), 0.0, 1.0)


def _pairs(layout: RecordLayout, contrasts: FloatArray) -> dict[str, FloatArray]:
    """Probabilities of two levels from their differences."""
    both = np.stack([1 + contrasts, 1 - contrasts], axis=-1) / 2
    return {name: both[..., k, :] for k, name in enumerate(layout.pairs)}


def _tables(layout: RecordLayout, shares: Doubtful) -> dict[str, FloatArray]:
    """Probabilities of the levels of larger categories, which deviate on one scale each."""
    widths = np.array([width for _, width in layout.tables], dtype=np.int64)
    spread = np.repeat([_any_share(int(width)) for width in widths], widths)
    groups = np.repeat(np.arange(len(widths)), widths)
    centre = np.repeat(1 / widths, widths)
    means, doubt = together(*shares, centre, spread, groups=groups)
    found = within(means, doubt, 0.0, 1.0)
    names = [name for name, _ in layout.tables]
    return {name: _to_one(found[..., groups == k]) for k, name in enumerate(names)}


def log_joint(
    table: ClassTable, layout: RecordLayout, names: Sequence[str], cells: FloatArray
) -> FloatArray:
    """log(prior times likelihood) of scaled rows, shape (n, classes), up to a common constant."""
    out = np.tile(np.log(table.prior), (len(cells), 1))
    for name, column in zip(names, cells.T, strict=True):
        if name in table.levels:
            out += np.log(table.levels[name])[:, column.astype(np.int64)].T
            continue
        k = layout.numbers.index(name)
        mean, spread = table.means[:, k], table.spreads[:, k]
        out -= (column[:, None] - mean) ** 2 / (2 * spread) + np.log(spread) / 2
    return out


def together(
    values: FloatArray,
    noise: FloatArray,
    centre: float | FloatArray,
    spread: float | FloatArray,
    *,
    groups: NDArray[np.int64] | None = None,
    known: bool = False,
) -> Doubtful:
    r"""Posterior means and variances of noisy values, shape (..., classes, columns).

    Each column has a common value :math:`\mu \sim N(centre, spread)` (or the centre itself, when
    ``known``) and deviations of a scale :math:`\tau` from a grid, one for each group of columns.
    Given :math:`\tau` everything is normal: weights :math:`w_c = 1/(\tau^2 + v_c)`, a weighted
    mean for :math:`\mu`, and :math:`B_c = \tau^2 w_c` of a class's own value. How often a scale
    occurs is learnt from all groups, starting from equal chances that count as one group.

    >>> values, noise = np.array([[0.8], [0.0]]), np.ones((2, 1))
    >>> for error in (1e-9, 0.1, 1e9):
    ...     print(together(values, error * noise, 0.0, 1 / 3)[0].ravel().round(2))
    [0.8 0. ]
    [0.46 0.24]
    [0. 0.]
    """
    values, noise = values[..., None, :, :], np.maximum(noise, 1e-18)[..., None, :, :]
    squared = _SCALES[:, None, None] ** 2 * spread
    weight = 1 / (squared + noise)
    sure = 0.0 if known else 1 / spread
    precision = weight.sum(axis=-2, keepdims=True) + sure
    mu = ((weight * values).sum(axis=-2, keepdims=True) + centre * sure) / precision
    if known:
        mu = np.broadcast_to(centre, mu.shape)
    doubt = 0.0 if known else 1 / precision
    fit = np.log(weight).sum(axis=-2) - (weight * (values - mu) ** 2).sum(axis=-2)
    if not known:
        fit -= (np.log(precision) + sure * (mu - centre) ** 2)[..., 0, :]
    chance = _chances(fit / 2, groups)[..., None, :]
    own = squared * weight
    means = own * values + (1 - own) * mu
    mean = (chance * means).sum(axis=-3)
    variance = own * noise + (1 - own) ** 2 * doubt + (means - mean[..., None, :, :]) ** 2
    return mean, (chance * variance).sum(axis=-3)


def _chances(fit: FloatArray, groups: NDArray[np.int64] | None) -> FloatArray:
    """Posterior chances of the scales for each column: log likelihoods, shape (..., scales, -1)."""
    scales, columns = fit.shape[-2:]
    groups = np.arange(columns) if groups is None else groups
    members = groups[:, None] == np.arange(groups.max(initial=-1) + 1)
    logs = fit @ members
    likelihood = np.exp(logs - logs.max(axis=-2, keepdims=True, initial=-np.inf))
    often = np.full((scales, 1), 1 / scales)
    for _ in range(_ROUNDS):
        found = often * likelihood
        found /= found.sum(axis=-2, keepdims=True)
        often = (1 / scales + found.sum(axis=-1, keepdims=True)) / (1 + found.shape[-1])
    found = often * likelihood
    return np.asarray((found / found.sum(axis=-2, keepdims=True))[..., groups])


def within(mean: FloatArray, variance: FloatArray, low: float, high: float) -> FloatArray:
    """The mean of N(mean, variance) given that it lies between low and high.

    >>> within(np.array([-1.0, 0.0, 0.3]), np.array([1.0, 1.0, 1e-9]), 0.0, 1.0).round(3)
    array([0.383, 0.46 , 0.3  ])
    """
    error = np.sqrt(np.maximum(variance, 1e-18))
    a, b = (low - mean) / error, (high - mean) / error
    turned = a > 0  # left tails keep their digits
    a, b = np.where(turned, -b, a), np.where(turned, -a, b)
    mass = scipy.special.ndtr(b) - scipy.special.ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (np.exp(-(a**2) / 2) - np.exp(-(b**2) / 2)) / (np.sqrt(2 * np.pi) * mass)
    far = b < -30  # nothing of the law is there: the nearer end
    inside = mean + np.where(turned, -1, 1) * error * np.where(far, 0.0, shift)
    return np.asarray(np.clip(inside, low, high))


def _any_share(width: int) -> float:
    """The variance of a share when all ways to share among ``width`` are equally likely."""
    return (width - 1) / (width**2 * (width + 1))


def _to_one(shares: FloatArray) -> FloatArray:
    """Shares that sum to 1 along the last axis, none of them empty."""
    shares = shares + _LEAST
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))
