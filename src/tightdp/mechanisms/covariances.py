"""Means and covariances of numeric columns, from one noisy matrix of products."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.errors import FloatArray, check_confidence, check_flag
from tightdp.inference.coefficient_intervals import holding
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.preview import Preview, of_rows
from tightdp.privacy import check_epsilon
from tightdp.release import Release
from tightdp.schema import Interval, Schema, complete_rows
from tightdp.shaping.second_moment_noise import choose_noise

ABOUT = (
    "intervals cover the means and covariances of the table, its rows moved to their bounds and "
    "shortened, whatever the noise; covariances have the divisor n"
)
_EVEN = 1 / 3  # the variance of columns that fill [-1, 1] evenly


class CovarianceMechanism(Reading):
    r"""Releases noisy sums of products, and reads means and a covariance matrix off them.

    With :math:`z = (1, x)`, x the columns scaled to [-1, 1] by their bounds, rows longer than
    ``norm`` shortened to it, :math:`\sum z z^T` is released with integer noise: for matrices of up
    to 32 rows in the shape of the nuclear norm, which for rows of bounded length that are added or
    removed is the hull of what they can do to the products. :attr:`bodies` says which body was
    taken and what it costs.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for a person with
    at most ``rows_per_person`` rows.
    Needs: bounds and ``norm`` are public facts.
    Proof: 1. The noisy sums are epsilon-DP by the proof of
    :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`: the integers of a row obey its
    bounds and ``norm`` exactly (:class:`~tightdp.data.second_moments.SecondMoments`), and the
    bodies hold what such rows do (:mod:`~tightdp.shaping.second_moment_noise`). 2. Means,
    covariances, their projection and intervals are functions of the sums and of public facts.
    Numerics: ``exact``.

    The covariance S / n - m m' of the noisy sums may have negative eigenvalues, or a trace that no
    rows have: the nearest matrix without either is what is read (in the Frobenius norm, for scaled
    columns), which is nearer to the truth, too. Requests that differ in nothing but what is read
    share a release.

    Parameters
    ----------
    schema : Schema
    columns : list of str, optional
        Numeric columns, at most 40; all of them by default.
    epsilon : float, Fraction or Decimal
    norm : float, Fraction or Decimal, optional
        The largest Euclidean length of a row whose columns are scaled to [-1, 1]: with bounds of
        (-r, r) for all columns, ``norm=1`` is the ball of radius r. Longer rows are shortened.
    assume_centered : bool
        Whether products are taken about the middles of the bounds, as if these were the means;
        then no means are released.
    noise : {"best", "nuclear", "l2", "columns"}
        The body: "nuclear" for up to 32 columns, the constant included; "l2" the Frobenius norm;
        "columns" bodies of columns one by one, for columns in their bounds; "best" the one with the
        least noise energy.
    missing : {"rule", "drop"}, optional
        With "drop" the covariance is that of the rows where all of its columns are there.

    Examples
    --------
    >>> schema = Schema({"a": Interval(-1, 1), "b": Interval(-1, 1)}, rows=4000)
    >>> rows = np.random.default_rng(1).normal(0, 0.2, (4000, 2))
    >>> found = CovarianceMechanism(schema, norm=1, epsilon=4)
    >>> answer = found.answer(found.release({"a": rows[:, 0], "b": rows[:, 1]}, rng=1))
    >>> answer.names
    ('mean(a)', 'mean(b)', 'cov(a, a)', 'cov(a, b)', 'cov(b, b)')
    >>> bool(abs(answer.value[2] - 0.04) < 0.02)
    True
    """

    why = (
        "Noise is added to the sums of squares and products, in the shape of what one row can do "
        "to all of them at once."
    )

    def __init__(
        self,
        schema: Schema,
        columns: Iterable[str] | None = None,
        *,
        epsilon: Number,
        norm: Number | None = None,
        assume_centered: bool = False,
        noise: str = "best",
        missing: str | None = None,
    ) -> None:
        self.schema = schema = complete_rows(schema, missing)
        self.assume_centered = check_flag("assume_centered", assume_centered)
        spent = check_epsilon(epsilon)
        chosen = choose_noise(schema, columns, norm, noise, sums=not self.assume_centered)
        self.statistic, self.bodies = chosen.moments, chosen.words
        self.moments = SplitMechanism(chosen.moments, chosen.parts, epsilon=spent)
        self._take_price()
        self.columns = chosen.moments.columns
        i, j = self._upper
        means = [] if self.assume_centered else [f"mean({name})" for name in self.columns]
        pairs = [f"cov({self.columns[a]}, {self.columns[b]})" for a, b in zip(i, j, strict=True)]
        self.names = (*means, *pairs)

    @property
    def source(self) -> SplitMechanism:
        return self.moments

    @property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.triu_indices(len(self.columns))

    @property
    def units(self) -> tuple[FloatArray, FloatArray]:
        """Half-widths and middles of the bounds."""
        rules = [self.schema[name] for name in self.columns]
        pairs = [(rule.half, rule.middle) for rule in rules if isinstance(rule, Interval)]
        return np.array([half for half, _ in pairs]), np.array([middle for _, middle in pairs])

    # --- reading it ---------------------------------------------------------------------------

    def fit(self, release: Release) -> CovarianceFit:
        """Mean and covariance that a release of the sums leaves."""
        return CovarianceFit.of(self, release.value)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Means and covariances, with intervals for those of the table that hold all at once."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        fit = self.fit(release)
        return Answer(
            names=self.names,
            value=self._listed(fit.location, fit.covariance),
            interval=fit.intervals(release.value, level),
            confidence=level,
            release=release,
            about=ABOUT,
            covers="sample",
        )

    def _listed(self, location: FloatArray, covariance: FloatArray) -> FloatArray:
        """Means and covariances in the order of the names, in the units of the columns."""
        half, middle = self.units
        i, j = self._upper
        means = np.empty(0) if self.assume_centered else location * half + middle
        return np.concatenate([means, (covariance * np.outer(half, half))[i, j]])

    def preview(self, confidence: float = 0.95) -> Preview:
        """Noise on means and covariances, for rows that fill their bounds evenly."""
        level, n = check_confidence(confidence), self.schema.rows
        width = len(self.columns)
        each = min(_EVEN, float(self.statistic.square) / width / 2)
        sums = np.diag([1.0, *[each] * width]) * n
        i, j, factor = self.statistic.entries.T
        value = sums[i, j] * factor - self.statistic.centred * n
        fit = CovarianceFit.of(self, value)
        std = np.sqrt(np.diag(fit.noise_covariance()))
        ends = fit.intervals(value, level)
        half = np.abs(ends - self._listed(fit.location, fit.covariance)[:, None]).max(axis=1)
        said = f"rows that fill their bounds evenly, not correlated; noise: {self.bodies}"
        assumes = of_rows(self.schema, said)
        return Preview(self.names, std, half, level, self.guarantee(), self.bodies, assumes)


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceFit:
    """Mean and covariance of scaled columns, computed from released sums and public facts alone.

    ``raw`` is the matrix S / n - m m' as it was released, ``covariance`` the nearest one that rows
    can have; ``rows`` is their number, if it is a noisy one.
    """

    mechanism: CovarianceMechanism
    rows: float
    products: FloatArray
    location: FloatArray
    raw: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, mechanism: CovarianceMechanism, value: FloatArray) -> CovarianceFit:
        """What the entries of a release say."""
        moments = mechanism.statistic
        sums = moments.matrices(np.asarray(value, dtype=np.float64))
        rows = float(sums[0, 0])
        if moments.counted:  # no less than what noise makes of an empty table
            place = moments.count_place
            rows = max(rows, 2 * float(np.sqrt(mechanism.moments.covariance[place, place])), 1.0)
        products, R = sums[1:, 1:] / rows, float(moments.square)
        mean = np.clip(sums[0, 1:] / rows, -1.0, 1.0)
        mean *= min(1.0, np.sqrt(R / max(float(mean @ mean), 1e-300)))
        raw = products - np.outer(mean, mean)
        return cls(mechanism, rows, products, mean, raw, nearest_covariance(raw, R))

    @property
    def in_user_units(self) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance in the units of the columns."""
        half, middle = self.mechanism.units
        return self.location * half + middle, self.covariance * np.outer(half, half)

    def noise_covariance(self) -> FloatArray:
        """Of the noise on means and covariances, to first order, in the units of the columns."""
        mechanism = self.mechanism
        moments, width = mechanism.statistic, len(mechanism.columns)
        half, _ = mechanism.units
        m, n = self.location, self.rows
        base = moments.matrices(np.zeros(len(moments)))
        unit = moments.matrices(np.eye(len(moments))) - base  # what one of every entry does
        rows, sums, products = unit[:, 0, 0], unit[:, 0, 1:], unit[:, 1:, 1:]
        mean = (sums - rows[:, None] * m) / n
        moved = products - rows[:, None, None] * self.products
        moved = moved / n - mean[:, :, None] * m - m[:, None] * mean[:, None, :]
        i, j = np.triu_indices(width)
        slopes = (moved * np.outer(half, half))[:, i, j]
        if not mechanism.assume_centered:
            slopes = np.hstack([mean * half, slopes])
        return np.asarray(slopes.T @ mechanism.moments.covariance @ slopes)

    def intervals(self, value: FloatArray, confidence: float) -> FloatArray:
        """Rows (low, high) that hold all at once, by interval arithmetic on the noisy sums.

        All noise is within its half-widths at once, with the stated confidence; what the means and
        covariances then can be is computed from the ends, and reaches to what is printed.
        """
        mechanism = self.mechanism
        moments, half = mechanism.statistic, mechanism.moments.half_widths(confidence)
        # entries of the matrix grow with every number that they are made of
        low, high = (moments.matrices(value + side * half) for side in (-1, 1))
        rows = np.array([max(low[0, 0], 1.0), max(high[0, 0], 1.0)])
        low, high = _quotient(low[1:, :], high[1:, :], rows)
        first = np.clip([low[:, 0], high[:, 0]], -1.0, 1.0)
        second = np.clip([low[:, 1:], high[:, 1:]], -1.0, 1.0)
        ends = second if mechanism.assume_centered else second - _products(*first)[::-1]
        own = np.diag_indices(len(mechanism.columns))
        for side in ends:
            side[own] = np.clip(side[own], 0.0, 1.0)
        found = np.column_stack(
            [mechanism._listed(*side) for side in zip(first, ends, strict=True)]
        )
        return holding(mechanism._listed(self.location, self.covariance), found)


def _quotient(low: FloatArray, high: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends of numbers between low and high over a number of rows."""
    each = np.array([low / rows[0], low / rows[1], high / rows[0], high / rows[1]])
    return each.min(axis=0), each.max(axis=0)


def _products(low: FloatArray, high: FloatArray) -> FloatArray:
    """Ends of all products of two of the numbers; of squares, which are not negative."""
    each = np.array([np.outer(a, b) for a in (low, high) for b in (low, high)])
    out = np.array([each.min(axis=0), each.max(axis=0)])
    own = np.arange(len(low))
    across = (low < 0) & (high > 0)
    out[0, own, own] = np.where(across, 0.0, np.minimum(low**2, high**2))
    return out


def nearest_covariance(raw: FloatArray, most: float) -> FloatArray:
    """The nearest matrix without negative eigenvalues and of a trace of at most ``most``.

    Nearest in the Frobenius norm: its eigenvectors are those of ``raw``, its eigenvalues the
    nearest point of a simplex.

    >>> nearest_covariance(np.array([[1.0, 2.0], [2.0, 1.0]]), 2.0).round(9)
    array([[1., 1.],
           [1., 1.]])
    """
    value, vector = np.linalg.eigh((raw + raw.T) / 2)
    kept = np.maximum(value, 0.0)
    if kept.sum() > most:
        falling = np.sort(value)[::-1]
        excess = (np.cumsum(falling) - most) / np.arange(1, len(falling) + 1)
        kept = np.maximum(value - excess[np.flatnonzero(falling >= excess)[-1]], 0.0)
    return np.asarray((vector * kept) @ vector.T)
