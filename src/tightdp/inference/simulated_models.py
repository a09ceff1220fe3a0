r"""Parametric models of rows that can be simulated: what repro samples and bootstraps need.

A model is any object with

- ``parameters``: a mapping of names to public bounds (low, high); equal ends fix a parameter;
- ``simulate(theta, rows, size, rng)``: ``size`` tables of so many independent rows, where ``theta``
  maps names to values and ``rng`` is a numpy Generator. Either a mapping of columns to arrays of
  shape (size, rows), which are then moved to their bounds and summed as those of the release; or an
  array of shape (size, entries), the entries without noise.

``rng`` starts from the same seed at every theta, so that tables move little where theta does: write
rows as functions of theta and of uniform or normal numbers that do not depend on it.

The models here know their sums without looking at every row again: :meth:`seeded` sorts the random
numbers once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import NDArray

from tightdp.data.column_moments import SumsAndSquares
from tightdp.data.regression_moments import RegressionMoments
from tightdp.data.statistics import Statistic, Sums
from tightdp.errors import DimensionError, FloatArray, check_real, fail
from tightdp.randomness import SeededSource, seeded_generator
from tightdp.schema import Interval

Bounds = tuple[float, float]
Entries = Callable[[FloatArray], FloatArray]  # theta to entries without noise, (size, entries)
_MOST_NUMBERS = 20_000_000
_OFFSET = 64.0  # between the random numbers of two tables in one sorted array: none is so large


@runtime_checkable
class Model(Protocol):
    """What can be simulated at any value of its parameters."""

    @property
    def parameters(self) -> Mapping[str, Bounds]: ...

    def simulate(self, theta: Mapping[str, float], rows: int, size: int, rng: Any) -> Any: ...


def entries_at(model: Model, statistic: Statistic, size: int, seed: int) -> Entries:
    """Entries of ``size`` simulated tables as a function of theta, with the same random numbers."""
    rows = statistic.schema.rows
    seeded = getattr(model, "seeded", None)
    if seeded is not None:
        found: Entries = seeded(statistic, rows, size, SeededSource(seed))
        return found
    names = tuple(model.parameters)

    def entries(theta: FloatArray) -> FloatArray:
        values = dict(zip(names, theta.tolist(), strict=True))
        drawn = model.simulate(values, rows, size, seeded_generator(seed))
        if isinstance(drawn, Mapping):
            return summed_rows(statistic, drawn, (size, rows))
        return _checked(drawn, (size, len(statistic)), "entries")

    return entries


def summed_rows(
    statistic: Statistic, columns: Mapping[str, Any], shape: tuple[int, int]
) -> FloatArray:
    """The scaled entries of many tables, without noise, shape (tables, entries)."""
    scaled = {}
    for name in statistic.columns:
        if name not in columns:
            fail(f"`model` must simulate the column {name!r}, which the release reads.")
        middle, half = scale_of(statistic, name)
        cells = _checked(columns[name], shape, f"cells of {name!r}")
        scaled[name] = np.clip((cells - middle) / half, -1.0, 1.0)
    if isinstance(statistic, Sums):
        return np.stack([scaled[name].sum(axis=1) for name in statistic.columns], axis=1)
    if isinstance(statistic, SumsAndSquares):
        pairs = [(u.sum(axis=1), 2 * (u * u).sum(axis=1)) for u in scaled.values()]
        return np.stack([one for pair in pairs for one in pair], axis=1)
    assert isinstance(statistic, RegressionMoments)  # by `scale_of`, which refuses others
    z = [None, *(scaled[name] for name in statistic.columns)]
    out = np.empty((shape[0], len(statistic)))
    for place, (i, j, factor) in enumerate(statistic.entries.tolist()):
        first, second = z[i], z[j]
        assert second is not None
        sums = second.sum(axis=1) if first is None else np.einsum("ij,ij->i", first, second)
        out[:, place] = factor * sums
    return out


def scale_of(statistic: Statistic, name: str) -> tuple[float, float]:
    """Middle and half-width of the bounds of a column, of statistics that can be summed here."""
    rule = statistic.schema[name]
    known = isinstance(statistic, (Sums, SumsAndSquares, RegressionMoments))
    if not known or not isinstance(rule, Interval):
        fail(
            "Rows can be simulated for sums, means, variances and least squares of numeric "
            "columns. For other releases `simulate` must return entries, not rows."
        )
    return float(rule.middle), float(rule.half)


def check_size(size: int, rows: int) -> None:
    """No more random numbers than memory holds."""
    if size * rows > _MOST_NUMBERS:
        fail(
            f"{size} tables of {rows} rows are too many to be simulated row by row: at most "
            f"{_MOST_NUMBERS // size} rows. Let `simulate` return entries, by their law."
        )


def _checked(values: object, shape: tuple[int, int], what: str) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        fail(f"`simulate` must return finite {what} of shape {shape}.", DimensionError)
    return found


def check_bounds(name: str, bounds: object, low: float, high: float) -> Bounds:
    """Public bounds (low, high) of a parameter, or one number that is known."""
    ends = bounds if isinstance(bounds, (tuple, list)) else (bounds, bounds)
    if len(ends) != 2:
        fail(f"`{name}` must be a number, or bounds (low, high).")
    first, last = (check_real(name, end) for end in ends)
    if not low <= first <= last <= high:
        fail(f"`{name}` must be bounds (low, high) within [{low:g}, {high:g}], low first.")
    return first, last


# --- one column -----------------------------------------------------------------------------------


class _OneColumn:
    """Base: one column with its parameters."""

    increasing = False
    """Whether no entry falls where the parameter grows, for any random numbers."""

    def __init__(self, column: str, **parameters: Bounds) -> None:
        self.column = column
        self.parameters: dict[str, Bounds] = parameters

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={bounds}" for name, bounds in self.parameters.items())
        return f"{type(self).__name__}({self.column!r}, {said})"

    def _scale(self, statistic: Statistic) -> tuple[float, float, bool]:
        """Middle and half-width of the column, and whether squares are summed, too."""
        if statistic.columns != (self.column,):
            fail(
                f"`model` is for {self.column!r} alone, and the release reads "
                f"{', '.join(map(repr, statistic.columns))}: release that column by itself."
            )
        middle, half = scale_of(statistic, self.column)
        return middle, half, isinstance(statistic, SumsAndSquares)


def _stacked(first: FloatArray, second: FloatArray | None) -> FloatArray:
    return first[:, None] if second is None else np.column_stack([first, 2 * second])


class Bernoulli(_OneColumn):
    """Rows that are 1 with a chance ``share``, and 0 else.

    Parameters
    ----------
    column : str
        A numeric column whose bounds hold 0 and 1.
    share : (low, high)
        Public bounds of the chance.

    Examples
    --------
    >>> Bernoulli("smokes").parameters
    {'share': (0.0, 1.0)}
    """

    increasing = True

    def __init__(self, column: str, share: Any = (0.0, 1.0)) -> None:
        super().__init__(column, share=check_bounds("share", share, 0.0, 1.0))

    def simulate(self, theta: Mapping[str, float], rows: int, size: int, rng: Any) -> Any:
        return {self.column: (rng.random((size, rows)) < theta["share"]).astype(float)}

    def seeded(self, statistic: Statistic, rows: int, size: int, bits: SeededSource) -> Entries:
        middle, half, squares = self._scale(statistic)
        ends = np.clip((np.array([0.0, 1.0]) - middle) / half, -1.0, 1.0)
        chances = bits.uniform(size)

        def entries(theta: FloatArray) -> FloatArray:
            ones = scipy.stats.binom.ppf(chances, rows, float(theta[0])).clip(0.0, rows)
            sums = [(rows - ones) * low + ones * high for low, high in (ends, ends**2)]
            return _stacked(sums[0], sums[1] if squares else None)

        return entries


class Poisson(_OneColumn):
    """Rows that count rare events, of which there are ``mean`` on average.

    Parameters
    ----------
    column : str
        A numeric column; counts beyond its bounds are moved there.
    mean : (low, high)
        Public bounds of the mean.

    Examples
    --------
    >>> Poisson("visits", mean=(0, 50)).parameters
    {'mean': (0.0, 50.0)}
    """

    increasing = True

    def __init__(self, column: str, mean: Any) -> None:
        super().__init__(column, mean=check_bounds("mean", mean, 0.0, 1e9))

    def simulate(self, theta: Mapping[str, float], rows: int, size: int, rng: Any) -> Any:
        drawn = scipy.special.pdtrik(rng.random((size, rows)), max(theta["mean"], 1e-300))
        return {self.column: np.ceil(drawn)}

    def seeded(self, statistic: Statistic, rows: int, size: int, bits: SeededSource) -> Entries:
        middle, half, squares = self._scale(statistic)
        low = max(0, int(np.floor(middle - half)))
        counts = np.arange(low, max(low, int(np.ceil(middle + half))) + 1.0)
        cells = np.clip((counts - middle) / half, -1.0, 1.0)
        above = _SortedTables(bits.uniform, size, rows)

        def entries(theta: FloatArray) -> FloatArray:
            # rows above a count k are those whose random number is above P(X <= k)
            more = above.above(scipy.special.pdtr(counts[:-1], float(theta[0])))
            sums = [f[0] * rows + more @ np.diff(f) for f in (cells, cells**2)]
            return _stacked(sums[0], sums[1] if squares else None)

        return entries


class Normal(_OneColumn):
    """Normal rows with mean and standard deviation; rows beyond the bounds are moved there.

    Parameters
    ----------
    column : str
    mean : (low, high), or a number that is known
        Of rows before they are moved to the bounds of the column.
    std : (low, high), or a number that is known
        The same.

    Examples
    --------
    >>> Normal("pay", mean=(0, 100), std=(1, 50)).parameters
    {'mean': (0.0, 100.0), 'std': (1.0, 50.0)}
    """

    def __init__(self, column: str, mean: Any, std: Any) -> None:
        deviation = check_bounds("std", std, 0.0, 1e300)
        if deviation[0] <= 0:
            fail("`std` must have a positive lower bound.")
        super().__init__(column, mean=check_bounds("mean", mean, -1e300, 1e300), std=deviation)
        self.increasing = deviation[0] == deviation[1]

    def simulate(self, theta: Mapping[str, float], rows: int, size: int, rng: Any) -> Any:
        return {self.column: theta["mean"] + theta["std"] * rng.standard_normal((size, rows))}

    def seeded(self, statistic: Statistic, rows: int, size: int, bits: SeededSource) -> Entries:
        middle, half, squares = self._scale(statistic)
        normal = _SortedTables(bits.normal, size, rows, powers=(1, 2) if squares else (1,))
        sums = normal.sums

        def entries(theta: FloatArray) -> FloatArray:
            centre, scale = (float(theta[0]) - middle) / half, float(theta[1]) / half
            first, last = normal.places(np.array([-1 - centre, 1 - centre]) / scale).T
            inside, below, above = last - first, first, rows - last
            z = normal.between(sums[0], first, last)
            total = above - below + centre * inside + scale * z
            if not squares:
                return _stacked(total, None)
            z2 = normal.between(sums[1], first, last)
            square = centre**2 * inside + 2 * centre * scale * z + scale**2 * z2
            return _stacked(total, below + above + square)

        return entries


class _SortedTables:
    """Random numbers of many tables, sorted in each: how many lie below, and their sums."""

    def __init__(
        self,
        draw: Callable[[tuple[int, int]], FloatArray],
        size: int,
        rows: int,
        powers: tuple[int, ...] = (),
    ) -> None:
        check_size(size, rows)
        self.size, self.rows = size, rows
        drawn = np.sort(draw((size, rows)), axis=1)
        # of powers of the first numbers of every table, from none of them to all
        self.sums = [np.cumsum(np.pad(drawn, ((0, 0), (1, 0))) ** k, axis=1) for k in powers]
        self._shift = _OFFSET * np.arange(size)[:, None]
        self._flat = (drawn + self._shift).ravel()
        self._begin = rows * np.arange(size)[:, None]

    def places(self, levels: FloatArray) -> NDArray[np.intp]:
        """How many numbers of every table are below each level, shape (tables, levels)."""
        inner = np.clip(levels, -_OFFSET / 2 + 1, _OFFSET / 2 - 1)
        found = np.searchsorted(self._flat, (inner + self._shift).ravel())
        return np.asarray(found.reshape(self.size, -1) - self._begin)

    def above(self, levels: FloatArray) -> FloatArray:
        """How many numbers of every table are not below each level."""
        return np.asarray(self.rows - self.places(levels), dtype=np.float64)

    def between(
        self, sums: FloatArray, first: NDArray[np.intp], last: NDArray[np.intp]
    ) -> FloatArray:
        """Sums over the numbers of every table from one place to another."""
        each = np.arange(self.size)
        return np.asarray(sums[each, last] - sums[each, first])


# --- two columns ----------------------------------------------------------------------------------


class StraightLine:
    """A straight line: normal features, and a target ``intercept + slope x`` with normal errors.

    Parameters
    ----------
    feature, target : str
    slope, intercept, feature_mean : (low, high), or a number that is known
        Of rows before they are moved to the bounds of their columns.
    feature_std, error_std : (low, high), or a number that is known
        Standard deviations.

    Examples
    --------
    >>> line = StraightLine("x", "y", slope=(-5, 5), intercept=(-5, 5), feature_mean=(-5, 5),
    ...             feature_std=(0.01, 5), error_std=(0.01, 5))
    >>> list(line.parameters)
    ['slope', 'intercept', 'feature_mean', 'feature_std', 'error_std']
    """

    def __init__(
        self,
        feature: str,
        target: str,
        *,
        slope: Any,
        intercept: Any,
        feature_mean: Any,
        feature_std: Any,
        error_std: Any,
    ) -> None:
        self.feature, self.target = feature, target
        far = 1e300
        self.parameters: dict[str, Bounds] = {
            "slope": check_bounds("slope", slope, -far, far),
            "intercept": check_bounds("intercept", intercept, -far, far),
            "feature_mean": check_bounds("feature_mean", feature_mean, -far, far),
            "feature_std": check_bounds("feature_std", feature_std, 0.0, far),
            "error_std": check_bounds("error_std", error_std, 0.0, far),
        }

    def simulate(self, theta: Mapping[str, float], rows: int, size: int, rng: Any) -> Any:
        return self._rows(theta, rng.standard_normal((2, size, rows)))

    def _rows(self, theta: Mapping[str, float], normal: FloatArray) -> dict[str, FloatArray]:
        x = theta["feature_mean"] + theta["feature_std"] * normal[0]
        y = theta["intercept"] + theta["slope"] * x + theta["error_std"] * normal[1]
        return {self.feature: x, self.target: y}

    def seeded(self, statistic: Statistic, rows: int, size: int, bits: SeededSource) -> Entries:
        check_size(size, rows)
        normal, names = bits.normal((2, size, rows)), tuple(self.parameters)

        def entries(theta: FloatArray) -> FloatArray:
            values = dict(zip(names, theta.tolist(), strict=True))
            return summed_rows(statistic, self._rows(values, normal), (size, rows))

        return entries
