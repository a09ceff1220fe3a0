"""Private means, variances and geometric medians of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, amount_within, check_choice, fail
from tightdp.estimators.inputs import Problem
from tightdp.estimators.interval_bases import WithIntervals
from tightdp.estimators.private_estimator import PRINTED, Lacking, M, Untargeted
from tightdp.inference.sampling_error import bernstein_reach, chernoff_ends, deviation_reach
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.gradient_median import KNormGeometricMedian
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.means import (
    mean_statistic,
    means_of,
    variance_statistic,
    variances_of,
)
from tightdp.mechanisms.population_means import paid_means, population_ends
from tightdp.printed import Covers
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.release import Release
from tightdp.schema import Interval, Schema


class Location(WithIntervals[M], Untargeted[M]):
    """Base: one number for every column; there is no target.

    Parameters
    ----------
    confidence : float
        The level of the intervals, for all columns together.

    Attributes
    ----------
    location_ : array
    release_ : Release
        With standard errors of the noise and intervals, where they are known.
    """

    confidence: float = 0.95

    summary = Lacking(PRINTED)

    def conf_int(
        self, *, confidence: float | None = None, covers: Covers | None = None
    ) -> FloatArray:
        """Rows (low, high), one for every number, which hold all together; costs nothing.

        Parameters
        ----------
        confidence : float, optional
            The level, by default that of the fit. Ends that were drawn for a level have no other.
        covers : {"noise", "sample", "population"}, optional
            What they cover: the number without noise, that of these rows, or that of the population
            of which the rows are an independent sample. By default the widest there is.
        """
        return self._intervals(*self._asked(confidence, covers))

    @abstractmethod
    def _intervals(self, level: float, covers: str) -> FloatArray:
        """Rows (low, high) at a level that there is, for what can be covered."""


class PaidIntervals(Location[M]):
    """Base: the width of an interval is private, so that intervals are drawn and paid for.

    Parameters
    ----------
    confidence : float
        The level of the intervals, for all columns together; it is fixed when they are paid for.
    """

    interval: str = "none"

    _on_sale: ClassVar[tuple[str, ...]] = ("sample", "population")

    def _read(self, mechanism: M, release: Release) -> Release:
        self._bought = self.interval
        self.location_ = self._locations(release)
        return release

    @abstractmethod
    def _locations(self, release: Release) -> FloatArray:
        """One number for every column."""

    def _asked(self, confidence: float | None, covers: str | None) -> tuple[float, str]:
        level, what = super()._asked(confidence, covers)
        if level != self.release_.confidence:
            fail(
                f"`confidence` must be that of the fit, {self.release_.confidence}: the intervals "
                "were drawn for it, and others must be paid for."
            )
        return level, what

    def _covered(self) -> tuple[str, ...]:
        if self._bought == "none":
            fail(
                "There is no interval: its width is private, so it must be paid for. Fit with "
                f"interval={' or '.join(map(repr, self._on_sale))}."
            )
        return (self._bought,)


# --- made of noisy sums ---------------------------------------------------------------------------


class SumBased(Location[AdditiveMechanism | Together]):
    """Base: means or variances, made of noisy sums."""

    def _read(self, mechanism: AdditiveMechanism | Together, release: Release) -> Release:
        sums = mechanism.parts[0] if isinstance(mechanism, Together) else mechanism
        assert isinstance(sums, AdditiveMechanism)
        self._sums, self._raw = sums, release
        made = self._at(release.confidence)
        self.location_ = made.value
        return made

    @abstractmethod
    def _at(self, level: float) -> Release:
        """The numbers, with half-widths at a level."""

    def _covered(self) -> tuple[str, ...]:
        # the number without noise is that of the rows
        return ("noise", "sample", "population")

    def _intervals(self, level: float, covers: str) -> FloatArray:
        if covers == "population":
            if self.schema_.neighbors is not Neighbors.REPLACE_ONE:
                fail(
                    "`covers` = 'population' needs neighbors='replace-one': the sampling error "
                    "depends on the number of rows, which is private under add-remove. Use "
                    "'sample'."
                )
            found = self._population((1 - level) / 2)
        else:
            found = self._at(level).interval
        low, high = self._range()
        return np.clip(found, low[:, None], high[:, None])

    @abstractmethod
    def _population(self, miss: float) -> FloatArray:
        """Rows (low, high) for the population, where noise and sampling may each miss by so much.

        Sampling errors are bounded by inequalities that hold for every population within the bounds
        and every number of rows; rows outside count at their bounds.
        """

    @abstractmethod
    def _range(self) -> tuple[FloatArray, FloatArray]:
        """What the bounds allow."""


class Mean(SumBased):
    r"""The means of the columns, with exact noise; see :func:`tightdp.mean`.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of :class:`~tightdp.AdditiveMechanism`, and with ``interval_share`` that
    of :class:`~tightdp.Together`. Numerics: ``exact``.

    **Populations.** Without a share, ``conf_int(covers="population")`` bounds the sampling error by
    Hoeffding (1963, Theorem 1), from the released mean alone: short near a bound, wide for columns
    that crowd in the middle of theirs. With ``interval_share=0.1`` a tenth of epsilon buys the sums
    of squares, and the interval is as wide as the spread of the column asks (Maurer and Pontil,
    2009, Theorem 4); means get a ninth more noise. Both hold for every law of the rows, and are
    long; ``conf_int(assume="normal mean")`` is a half to a fifth as long, and holds where means of
    so many rows are nearly normal but for their skewness
    (:mod:`tightdp.inference.mean_intervals`).

    Parameters
    ----------
    interval_share : float
        The part of epsilon that buys intervals for the population; needs replace-one neighbours.

    Examples
    --------
    >>> X = np.linspace(0, 10, 2002).reshape(1001, 2)
    >>> model = Mean(epsilon=5.0, bounds=(0, 10)).fit(X)
    >>> model.location_.round(0)
    array([5., 5.])
    >>> model.conf_int(covers="sample").shape
    (2, 2)
    """

    interval_share: Number = 0.0

    def _mechanism(self, problem: Problem) -> AdditiveMechanism | Together:
        schema, whole = problem.schema, check_epsilon(self.epsilon)
        columns = numeric_columns(schema)
        share = amount_within("interval_share", self.interval_share, "[0, 1)")
        if share:
            return paid_means(schema, columns, whole, share)
        return AdditiveMechanism(mean_statistic(schema, columns), noise="best", epsilon=whole)

    def conf_int(
        self,
        *,
        confidence: float | None = None,
        covers: Covers | None = None,
        assume: str | None = None,
    ) -> FloatArray:
        """Rows (low, high), one for every mean, which hold all together; costs nothing.

        Parameters
        ----------
        confidence : float, optional
            The level, by default that of the fit.
        covers : {"noise", "sample", "population"}, optional
            What they cover: the mean without noise, that of these rows, or that of the population
            of which the rows are an independent sample. By default the population's.
        assume : {"normal mean"}, optional
            Say that means of so many rows are nearly normal but for their skewness, which is
            counted as large as bounds allow; needs an ``interval_share``.
        """
        if assume is None:
            return super().conf_int(confidence=confidence, covers=covers)
        check_choice("assume", assume, ("normal mean",))
        level, what = self._asked(confidence, covers)
        if what != "population":
            fail("`assume` is for covers='population': nothing else needs an assumption.")
        if not isinstance(self.mechanism_, Together):
            fail("`assume` needs a fit with `interval_share`: nothing was released of the spread.")
        return population_ends(self.mechanism_, self._raw, level)

    def _at(self, level: float) -> Release:
        half = self._sums.half_widths(level)
        sums = _entries(self._raw, slice(len(half)), half)
        return means_of(self._sums, replace(sums, confidence=level))

    def _population(self, miss: float) -> FloatArray:
        n, each = self.schema_.rows, miss / len(self.location_)
        bought = isinstance(self.mechanism_, Together)
        half = self._sums.half_widths(1 - (miss / 2 if bought else miss)) / n
        low, high = self._range()
        width = high - low
        # shares of the interval, where the mean of these rows may be
        at = (np.column_stack([self.location_ - half, self.location_ + half]).T - low) / width
        at = np.clip(at, 0.0, 1.0)
        by_mean = each / 4 if bought else each
        ends = np.array(
            [[chernoff_ends(a, n, by_mean)[0], chernoff_ends(b, n, by_mean)[1]] for a, b in at.T]
        )
        if isinstance(self.mechanism_, Together):
            tops = self._largest_variances(self.mechanism_, miss / 2)
            reach = np.array([bernstein_reach(v, n, 3 * each / 4) for v in tops])
            ends[:, 0] = np.maximum(ends[:, 0], at[0] - reach)
            ends[:, 1] = np.minimum(ends[:, 1], at[1] + reach)
        return np.asarray(low[:, None] + width[:, None] * ends)

    def _largest_variances(self, paid: Together, miss: float) -> FloatArray:
        """What the sample variances (divisor n - 1) of columns in [0, 1] may be."""
        n, start, squares = self.schema_.rows, len(self.location_), paid.parts[1]
        assert isinstance(squares, AdditiveMechanism)
        bought = _entries(self._raw, slice(start, None), self._raw.half_width[start:])
        found = variances_of(squares, replace(bought, confidence=1 - miss))
        low, high = self._range()
        return np.asarray(found.interval[:, 1] / (high - low) ** 2 * n / max(n - 1, 1))

    def _range(self) -> tuple[FloatArray, FloatArray]:
        return _ends(self.schema_)


class Variance(SumBased):
    """The variances of the columns (divisor n), with exact noise; see :func:`tightdp.variance`.

    **Privacy.** ``fit`` is epsilon-DP under replace-one by the proof of
    :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

    **Populations.** ``conf_int(covers="population")`` adds to the standard deviation what sampling
    can change of it (Maurer and Pontil, 2009, Theorem 10).

    Attributes
    ----------
    location_ : array
        The variances.

    Examples
    --------
    >>> X = np.linspace(0, 12, 4001)[:, None]
    >>> model = Variance(epsilon=5.0, bounds=(0, 12)).fit(X)
    >>> model.location_.round(0)
    array([12.])
    >>> low, high = model.conf_int(covers="sample")[0]
    >>> bool(low < model.location_[0] < high)
    True
    """

    def _mechanism(self, problem: Problem) -> AdditiveMechanism:
        statistic = variance_statistic(problem.schema, numeric_columns(problem.schema))
        return AdditiveMechanism(statistic, noise="best", epsilon=self.epsilon)

    def _at(self, level: float) -> Release:
        return variances_of(self._sums, replace(self._raw, confidence=level))

    def _population(self, miss: float) -> FloatArray:
        n = self.schema_.rows
        found = self._at(1 - miss).interval * (n / max(n - 1, 1))
        low, high = _ends(self.schema_)
        reach = (high - low) * deviation_reach(n, miss / len(found))
        deviations = np.sqrt(np.maximum(found, 0.0)) + np.column_stack([-reach, reach])
        return np.asarray(np.maximum(deviations, 0.0) ** 2)

    def _range(self) -> tuple[FloatArray, FloatArray]:
        low, high = _ends(self.schema_)
        return np.zeros(len(low)), ((high - low) / 2) ** 2


# --- drawn exactly --------------------------------------------------------------------------------


class GeometricMedian(PaidIntervals[KNormGeometricMedian]):
    """The point with the least sum of distances to the rows, drawn exactly.

    Up to half of the rows can be anywhere without moving it far. Distances are those of columns
    scaled to [-1, 1]; see :class:`~tightdp.KNormGeometricMedian` for the law.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of the mechanism. Numerics: ``exact``.

    **Intervals** together hold the geometric median of the rows. They bound a ball around
    ``location_`` whose radius was released and paid for; they are NaN where it turned out to say
    nothing (few rows, or rows nearly on a line).

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        For up to four columns.
    interval : {"none", "sample"}
        Whether half of epsilon pays for :meth:`conf_int`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal([2.0, 7.0], 0.5, (2000, 2))
    >>> GeometricMedian(epsilon=4.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([2., 7.])
    """

    _on_sale = ("sample",)

    def _mechanism(self, problem: Problem) -> KNormGeometricMedian:
        return KNormGeometricMedian(problem.schema, **self._options(KNormGeometricMedian))

    def _locations(self, release: Release) -> FloatArray:
        return np.asarray(release.value[: len(list(self.schema_))])

    def _intervals(self, level: float, covers: str) -> FloatArray:
        low, high = _ends(self.schema_)
        return np.clip(KNormGeometricMedian.conf_int(self.release_), low[:, None], high[:, None])


def numeric_columns(schema: Schema) -> list[str]:
    """All columns, which must be numbers."""
    for name in schema:
        if not isinstance(schema[name], Interval):
            fail(f"Column {name!r} must be an Interval: levels have no mean and no order.")
    return list(schema)


def _entries(release: Release, some: slice, half_width: FloatArray) -> Release:
    """Some entries of a release, with half-widths of their own."""
    return replace(
        release,
        names=release.names[some],
        value=release.value[some],
        covariance=release.covariance[some, some],
        half_width=half_width,
    )


def _ends(schema: Schema) -> tuple[FloatArray, FloatArray]:
    """The bounds of the columns."""
    columns = [schema[name] for name in schema]
    low, high = np.array([(c.low, c.high) for c in columns if isinstance(c, Interval)]).T
    return low, high
