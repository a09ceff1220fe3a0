r"""Null laws of noisy tables: shares that are stated, or rows and columns that are independent.

Counts of n independent rows are multinomial; :math:`z = N + w` is released, and
:math:`V = n(\mathrm{diag}(p) - pp^\top) + \mathrm{Cov}(w)` is the covariance of z. What is looked
at are linear forms of :math:`z - np`, whitened by V where their squares are summed: the noise
counts in the weights as well as in the null law (as in the projected statistics of Kifer and
Rogers, 2017). Under independence :math:`p = rc^\top`, and margins of the noisy table itself stand
for r and c. Their errors move p within the span of :math:`a c^\top + r b^\top`; forms
:math:`u v^\top` with u orthogonal to r and v to c do not see them, to first order. So nuisance
margins enter by the weights and the law of the counts, and p-values hardly depend on them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.monte_carlo_tests import (
    NullPoint,
    centred,
    ellipsoid_points,
    orthogonal_to,
    whitened,
)
from tightdp.inference.whole_counts import on_simplex
from tightdp.randomness import SeededSource

CHI_SQUARE, KOLMOGOROV, RANKS, TREND = "chi-square", "kolmogorov", "ranks", "trend"
MARGINS = 10  # points of the confidence set of the margins that are tried, beside its centre


def multinomial_covariance(rows: int, shares: FloatArray) -> FloatArray:
    """n (diag(p) - p p')."""
    return np.asarray(rows * (np.diag(shares) - np.outer(shares, shares)))


def cell_counts(rows: int, shares: FloatArray, bits: SeededSource, size: int) -> FloatArray:
    """Counts of independent rows in cells with these shares, shape (size, cells)."""
    return bits.multinomial(rows, shares, size)


def stated_shares(rows: int, shares: FloatArray, noise: FloatArray, look: str) -> NullPoint:
    """Of all cells the shares are stated: there is no nuisance.

    >>> point = stated_shares(50, np.array([0.5, 0.3, 0.2]), np.eye(3), "chi-square")
    >>> point.forms.shape
    (2, 3)
    """
    if look == KOLMOGOROV:
        forms = _steps(shares)
    else:
        forms = whitened(
            orthogonal_to(np.ones(len(shares))), multinomial_covariance(rows, shares) + noise
        )
    return NullPoint(partial(cell_counts, rows, shares), lambda z: z - rows * shares, forms)


def _steps(shares: FloatArray) -> FloatArray:
    """Rows j <= k, centred: what they sum is the distance of distribution functions at edge k."""
    below = np.tril(np.ones((len(shares), len(shares))))[:-1]
    return np.array([centred(row, shares) for row in below])


def independent(rows: int, r: FloatArray, c: FloatArray, noise: FloatArray, look: str) -> NullPoint:
    """The table with margins r and c whose rows and columns are independent.

    >>> half = np.array([0.5, 0.5])
    >>> independent(50, half, half, np.eye(4), "chi-square").forms.shape
    (1, 4)
    """
    shares = np.outer(r, c).ravel()
    covariance = multinomial_covariance(rows, shares) + noise
    forms = table_forms(r, c, look)
    if look in (CHI_SQUARE, RANKS):
        forms = whitened(forms, covariance)
    else:
        spread = np.sqrt(np.einsum("ij,jk,ik->i", forms, covariance, forms))
        if look == KOLMOGOROV:  # one scale for all edges of a group, so that groups are alike
            spread = np.repeat(spread.reshape(len(r), -1).max(axis=1), len(c) - 1)
        forms = forms / np.where(spread > 0, spread, 1.0)[:, None]
    away = partial(interaction, rows, (len(r), len(c)))
    return NullPoint(partial(cell_counts, rows, shares), away, forms)


def interaction(rows: int, shape: tuple[int, int], entries: FloatArray) -> FloatArray:
    """What tables, flattened along the last axis, differ from the products of their margins.

    >>> interaction(4, (2, 2), np.array([2.0, 1.0, 0.0, 1.0]))
    array([ 0.5, -0.5, -0.5,  0.5])
    """
    table = entries.reshape(*entries.shape[:-1], *shape)
    products = table.sum(axis=-1)[..., :, None] * table.sum(axis=-2)[..., None, :] / rows
    return np.asarray((table - products).reshape(entries.shape))


def table_forms(r: FloatArray, c: FloatArray, look: str) -> FloatArray:
    """What is looked at, by name: forms of a table, flattened, that do not see the margins."""
    ridits = centred(np.cumsum(c) - c / 2, c)[None]
    if look == CHI_SQUARE:
        rows, columns = orthogonal_to(r), orthogonal_to(c)
    elif look == KOLMOGOROV:  # each group against all rows
        rows, columns = np.array([centred(row, r) for row in np.eye(len(r))]), _steps(c)
    elif look == RANKS:
        rows, columns = orthogonal_to(r), ridits
    else:
        rows, columns = centred(np.arange(len(r), dtype=float), r)[None], ridits
    return np.asarray(np.kron(rows, columns), dtype=np.float64)


def margin_points(
    entries: FloatArray, shape: tuple[int, int], rows: int, noise: FloatArray, bits: SeededSource
) -> list[tuple[FloatArray, FloatArray]]:
    """Margins that a released table leaves: the likely ones first, then others of their set."""
    over = np.vstack(
        [
            np.kron(np.eye(shape[0]), np.ones((1, shape[1]))),
            np.kron(np.ones((1, shape[0])), np.eye(shape[1])),
        ]
    )
    cut = shape[0]

    def on(found: FloatArray) -> tuple[FloatArray, FloatArray]:
        return on_simplex(found[:cut], 1.0), on_simplex(found[cut:], 1.0)

    margins = over @ entries / rows
    r, c = on(margins)
    # a share of nothing is still known only to about one row
    p = np.outer(r + 1 / rows, c + 1 / rows).ravel()
    covariance = over @ (multinomial_covariance(rows, p / p.sum()) + noise) @ over.T / rows**2
    freedom = max(1, sum(shape) - 2)
    centre = np.concatenate([r, c])
    return [on(row) for row in ellipsoid_points(centre, covariance, bits, MARGINS, freedom)]


def tilted(r: FloatArray, c: FloatArray, effect: float) -> FloatArray:
    r"""Shares :math:`r_i c_j (1 + w a_i b_j)`, a and b scores in order with mean 0, variance 1.

    So w is Cohen's effect size, the root of the mean squared relative difference, of a drift of the
    columns with the rows.

    >>> tilted(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.2)
    array([[0.3, 0.2],
           [0.2, 0.3]])
    """
    a, b = _standard(r), _standard(c)
    return np.asarray(np.outer(r, c) * (1 + effect * np.outer(a, b)))


def drifted(shares: FloatArray, effect: float) -> FloatArray:
    """Shares that drift by w from those that are stated, along the order of the cells."""
    return np.asarray(shares * (1 + effect * _standard(shares)))


def _standard(weights: FloatArray) -> FloatArray:
    scores = centred(np.arange(len(weights), dtype=float), weights)
    spread = float(weights @ scores**2)
    return scores / np.sqrt(spread) if spread > 0 else scores
