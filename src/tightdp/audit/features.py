"""Numbers computed from releases, by which two inputs might be told apart.

Coordinates and values find noise of a wrong size or shape, the lowest bits find floating-point
noise, and scores combine the coordinates. A feature is a fixed function of one release: whatever is
learned is learned on the first ``half`` releases of either input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.audit.events import Feature
from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import NormBall, lp_norm

FAMILIES = ("coordinates", "values", "low bits", "learned", "gauge")
Releases = NDArray[Any]  # rows as in Sizes, shape (n, m): float64, int64 or Python integers

_LEARNED_COORDINATES = 40
_RIDGE = 1.0
_NORMS = {"l1": 1.0, "l2": 2.0, "linf": np.inf}


def coordinates(releases: Releases) -> Iterator[Feature]:
    """Each coordinate by itself."""
    for name, column in _columns(releases):
        yield Feature("coordinates", name, _ordered(column))


def whole_values(releases: Releases) -> Iterator[Feature]:
    """The release as one value, so that an atom of a vector is an event."""
    rows, m = releases, releases.shape[1]
    if m == 1:
        return  # the coordinate says it already
    if rows.dtype == object:
        packed = np.array([repr(row.tolist()) for row in rows])
    else:
        packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * m)))
    _, place, label = np.unique(packed.ravel(), return_index=True, return_inverse=True)

    def shown(value: Any) -> str:
        return f"({', '.join(str(number) for number in rows[place[value]])})"

    yield Feature("values", "release", label, tails=False, shown=shown)


# --- low bits -----------------------------------------------------------------------------------


def low_bits(releases: Releases, grid: float | None) -> Iterator[Feature]:
    """What the last bits say: exact noise says nothing there that its size does not say."""
    for name, column in _columns(releases):
        if grid is not None:
            steps = np.rint(column.astype(np.float64) / grid)
            off = (steps * grid != column).astype(np.int64)
            yield Feature("low bits", f"{name} off the grid", off, tails=False)
            yield from _integer_bits(f"{name} / grid", steps)
        elif column.dtype.kind == "f":
            exponent, pattern = float_bits(column)
            yield Feature("low bits", f"exponent of the lowest bit of {name}", exponent)
            yield Feature("low bits", f"last 4 bits of {name}", pattern, tails=False)
        else:
            yield from _integer_bits(name, column)


def float_bits(values: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The exponent of the lowest set bit (2000 for zero) and the last 4 bits of the significand.

    >>> exponent, pattern = float_bits(np.array([1.0, 0.75, 0.1, 0.0]))
    >>> exponent, pattern
    (array([   0,   -2,  -55, 2000]), array([ 0,  0, 10,  0]))
    """
    words = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    field = (words >> 52) & 0x7FF
    significand = (words & ((1 << 52) - 1)) | np.where(field > 0, 1 << 52, 0)
    lowest = np.frexp((significand & -significand).astype(np.float64))[1] - 1
    exponent = lowest + np.maximum(field, 1) - 1075
    return np.where(significand == 0, 2000, exponent), significand & 15


def _integer_bits(name: str, column: NDArray[Any]) -> Iterator[Feature]:
    for modulus in (2, 16, 256):
        rest = (column % modulus).astype(np.int64)
        yield Feature("low bits", f"{name} mod {modulus}", rest, tails=False)


# --- scores -------------------------------------------------------------------------------------


def centers_of(releases: Releases, half: int) -> FloatArray:
    """Coordinate-wise medians of the choosing half, one row for each input."""
    chosen = releases[: 2 * half].astype(np.float64)
    return np.median(chosen.reshape(2, half, -1), axis=1)


def learned(releases: Releases, half: int, centers: FloatArray) -> Iterator[Feature]:
    """Which input is nearer, in three norms and by a logistic score."""
    y = releases.astype(np.float64)
    for name, p in _NORMS.items():
        gap = lp_norm(y - centers[0], p) - lp_norm(y - centers[1], p)
        if bool(np.isfinite(gap).all()):
            yield Feature("learned", f"{name} distance from x less that from x_neighbor", gap)
    design = np.nan_to_num(_design(y, half, centers), posinf=1e9, neginf=-1e9)
    weights = logistic_weights(design[: 2 * half], np.repeat([1.0, 0.0], half))
    yield Feature("learned", "logistic score for x", design @ weights)


def gauge_difference(releases: Releases, ball: NormBall, centers: FloatArray) -> Iterator[Feature]:
    """The log ratio of densities of K-norm noise, over epsilon and with its sign changed."""
    y = releases.astype(np.float64)
    gap = np.asarray(ball.gauge(y - centers[0])) - np.asarray(ball.gauge(y - centers[1]))
    if bool(np.isfinite(gap).all()):
        yield Feature("gauge", "gauge from x less that from x_neighbor", gap)


def _design(y: FloatArray, half: int, centers: FloatArray) -> FloatArray:
    """Columns for the logistic score: coordinates, their distances from both centres, and norms."""
    training = y[: 2 * half]
    middle = np.median(training, axis=0)
    spread = np.median(np.abs(training - middle), axis=0)
    spread = np.where(spread > 0, spread, training.std(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    apart = np.abs(centers[0] - centers[1]) / spread
    chosen = np.sort(np.argsort(-apart, kind="stable")[:_LEARNED_COORDINATES])
    z, c = (y - middle) / spread, (centers - middle) / spread
    columns = [np.clip(z[:, chosen], -8, 8)]
    columns += [np.minimum(np.abs(z[:, chosen] - point[chosen]), 8) for point in c]
    gaps = [lp_norm(z - c[0], p) - lp_norm(z - c[1], p) for p in _NORMS.values()]
    return np.column_stack([*columns, *gaps, np.ones(len(y))])


def logistic_weights(design: FloatArray, labels: FloatArray, rounds: int = 25) -> FloatArray:
    """Weights of a ridge-penalised logistic regression, by Newton's method (IRLS).

    >>> x = np.linspace(-2, 2, 201)
    >>> bool(logistic_weights(np.column_stack([x, np.ones(201)]), (x > 0.5) * 1.0)[0] > 1)
    True
    """
    weights = np.zeros(design.shape[1])
    for _ in range(rounds):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (labels - chance) - _RIDGE * weights
        curve = (design * (chance * (1 - chance))[:, None]).T @ design
        step = np.linalg.solve(curve + _RIDGE * np.eye(weights.size), slope)
        weights += step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-6:
            break
    return weights


# --- columns ------------------------------------------------------------------------------------


def _columns(releases: Releases) -> Iterator[tuple[str, NDArray[Any]]]:
    m = releases.shape[1]
    for j in range(m):
        yield ("release" if m == 1 else f"release[{j}]"), releases[:, j]


def _ordered(column: NDArray[Any]) -> NDArray[Any]:
    """The same order, and numbers that sort fast."""
    return column.astype(np.float64) if column.dtype == object else column
