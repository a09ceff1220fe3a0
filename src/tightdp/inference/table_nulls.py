r"""Null laws of noisy tables: shares that are stated, or rows and columns that are independent.

Counts of n independent rows are multinomial, and :math:`z = N + w` is released. Under independence
the shares are :math:`r_i c_j`, and margins of the noisy table itself stand for r and c: what is
left is :math:`E_{ij} = z_{ij} - z_{i\cdot} z_{\cdot j}/n`. All statistics are made of it, and the
variance :math:`s^2` of the noise is added wherever that of counts stands in a textbook:
"chi-square" is :math:`\sum E_{ij}^2 / (n r_i c_j + s^2)`.
"""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.monte_carlo_tests import ellipsoid_points, one_sided
from tightdp.inference.whole_counts import on_simplex
from tightdp.randomness import SeededSource

CHI_SQUARE, KOLMOGOROV, RANKS, TREND = "chi-square", "kolmogorov", "ranks", "trend"
MARGINS = 10  # points of the confidence set of the margins that are tried, beside its centre


def cell_counts(rows: int, shares: FloatArray, bits: SeededSource, size: int) -> FloatArray:
    """Counts of independent rows in cells with these shares, shape (size, cells)."""
    return bits.multinomial(rows, shares, size)


def multinomial_covariance(rows: int, shares: FloatArray) -> FloatArray:
    """n (diag(p) - p p')."""
    return np.asarray(rows * (np.diag(shares) - np.outer(shares, shares)))


def fit_statistic(
    entries: FloatArray, rows: int, shares: FloatArray, noise: float, look: str
) -> FloatArray:
    """How far noisy counts are from stated shares; ``noise`` is the variance of one.

    >>> shares = np.array([0.5, 0.3, 0.2])
    >>> fit_statistic(np.array([20.0, 20.0, 10.0]), 50, shares, 0.0, "chi-square").round(4)
    np.float64(2.6667)
    """
    away = entries - rows * shares
    if look == KOLMOGOROV:  # the share of the total that is noise is taken off
        away = away - shares * away.sum(axis=-1, keepdims=True)
        return np.asarray(np.abs(np.cumsum(away, axis=-1)).max(axis=-1))
    expected = np.maximum(rows * shares + noise, 1e-9)
    return np.asarray((away**2 / expected).sum(axis=-1))


def table_statistic(
    entries: FloatArray,
    rows: int,
    shape: tuple[int, int],
    noise: float,
    look: str,
    alternative: str = "two-sided",
) -> FloatArray:
    """How far noisy tables, flattened along the last axis, are from the product of margins.

    Rows are groups, and columns have an order, but for "chi-square".

    >>> table = np.array([30.0, 30.0, 40.0, 20.0, 40.0, 40.0])
    >>> table_statistic(table, 200, (2, 3), 0.0, "chi-square").round(4)
    np.float64(3.4286)
    """
    table = entries.reshape(*entries.shape[:-1], *shape)
    left = interaction(table, rows)
    r, c = (np.clip(table.sum(axis=axis) / rows, 0.0, None) for axis in (-1, -2))
    if look == CHI_SQUARE:
        expected = rows * r[..., :, None] * c[..., None, :] + noise
        return np.asarray((left**2 / np.maximum(expected, 1e-9)).sum(axis=(-2, -1)))
    columns = shape[1]
    if look == KOLMOGOROV:  # a group's distribution function from that of all rows, at each edge
        far = np.abs(np.cumsum(left, axis=-1)).max(axis=-1)
        spread = rows * r * np.clip(1 - r, 0.0, None) + noise * columns
        return np.asarray((far / np.sqrt(np.maximum(spread, 1e-9))).max(axis=-1))
    ranks = np.cumsum(c, axis=-1) - c / 2
    ranks = ranks - (c * ranks).sum(axis=-1, keepdims=True) / np.maximum(
        c.sum(axis=-1, keepdims=True), 1e-9
    )
    sums = (left * ranks[..., None, :]).sum(axis=-1)
    ranked, squares = (c * ranks**2).sum(axis=-1), (ranks**2).sum(axis=-1)
    if look == RANKS:
        spread = rows * r * ranked[..., None] + noise * squares[..., None]
        return np.asarray((sums**2 / np.maximum(spread, 1e-9)).sum(axis=-1))
    line = np.arange(shape[0], dtype=float)
    line = line - (r * line).sum(axis=-1, keepdims=True) / np.maximum(
        r.sum(axis=-1, keepdims=True), 1e-9
    )
    spread = rows * (r * line**2).sum(axis=-1) * ranked + noise * (line**2).sum(axis=-1) * squares
    return one_sided((line * sums).sum(axis=-1) / np.sqrt(np.maximum(spread, 1e-9)), alternative)


def interaction(table: FloatArray, rows: int) -> FloatArray:
    """What tables, along the last two axes, differ from the products of their margins.

    >>> interaction(np.array([[2.0, 1.0], [0.0, 1.0]]), 4)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    products = table.sum(axis=-1)[..., :, None] * table.sum(axis=-2)[..., None, :] / rows
    return np.asarray(table - products)


def margin_points(
    entries: FloatArray, shape: tuple[int, int], rows: int, noise: FloatArray, bits: SeededSource
) -> list[FloatArray]:
    """Shares of independent tables with margins that a release leaves: the likely ones first."""
    over = np.vstack(
        [
            np.kron(np.eye(shape[0]), np.ones((1, shape[1]))),
            np.kron(np.ones((1, shape[0])), np.eye(shape[1])),
        ]
    )
    cut = shape[0]

    def on(found: FloatArray) -> tuple[FloatArray, FloatArray]:
        return on_simplex(found[:cut], 1.0), on_simplex(found[cut:], 1.0)

    r, c = on(over @ entries / rows)
    # a share of nothing is still known only to about one row
    p = np.outer(r + 1 / rows, c + 1 / rows).ravel()
    covariance = over @ (multinomial_covariance(rows, p / p.sum()) + noise) @ over.T / rows**2
    centre = np.concatenate([r, c])
    found = ellipsoid_points(centre, covariance, bits, MARGINS, max(1, sum(shape) - 2))
    return [np.outer(*on(row)).ravel() for row in found]


def tilted(r: FloatArray, c: FloatArray, effect: float) -> FloatArray:
    r"""Shares :math:`r_i c_j (1 + w a_i b_j)`, a and b scores in order with mean 0, variance 1.

    So w is Cohen's effect size, the root of the mean squared relative difference, of a drift of the
    columns with the rows.

    >>> tilted(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.2)
    array([[0.3, 0.2],
           [0.2, 0.3]])
    """
    return np.asarray(np.outer(r, c) * (1 + effect * np.outer(_standard(r), _standard(c))))


def drifted(shares: FloatArray, effect: float) -> FloatArray:
    """Shares that drift by w from those that are stated, along the order of the cells."""
    return np.asarray(shares * (1 + effect * _standard(shares)))


def _standard(weights: FloatArray) -> FloatArray:
    scores = np.arange(len(weights), dtype=float)
    scores = scores - float(weights @ scores)
    spread = float(weights @ scores**2)
    return scores / np.sqrt(spread) if spread > 0 else scores
