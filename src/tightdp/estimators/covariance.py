"""Private covariance matrices and principal components, with the scikit-learn contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, check_count, fail
from tightdp.estimators.coefficient_tables import CoefficientTable, table_title
from tightdp.estimators.inputs import Problem, fitted_cells
from tightdp.estimators.interval_bases import WithIntervals
from tightdp.estimators.location import numeric_columns
from tightdp.estimators.private_estimator import Untargeted
from tightdp.mechanisms.covariances import CovarianceMechanism
from tightdp.printed import Covers, interval_head, short, value_and_interval
from tightdp.release import Release


class Covariance(WithIntervals[CovarianceMechanism], Untargeted[CovarianceMechanism]):
    r"""Means and covariance matrix of the columns, from one noisy matrix of products.

    The noise has the shape of what one row can do to all products at once: for rows of bounded
    length the nuclear norm. At ten columns it has a twelfth of the energy of Laplace noise if rows
    are added or removed, and a seventh if they are replaced. Numbers are exact integers, there is
    no delta, and one payment buys everything.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of
    :class:`~tightdp.mechanisms.covariances.CovarianceMechanism`. Numerics: ``exact``.

    Parameters
    ----------
    norm : float, Fraction or Decimal, optional
        The largest Euclidean length of a row, a public fact, with columns scaled to [-1, 1] by
        their bounds: ``bounds=(-r, r), norm=1`` is the ball of radius r. Longer rows are shortened
        to it. A small norm means little noise, and a bias where many rows are longer.
    assume_centered : bool
        Whether products are taken about the middles of the bounds: less noise, if these are about
        the means.
    noise : {"best", "nuclear", "l2", "columns"}
        The body of the noise; "best" is the one with the least energy, see
        :class:`~tightdp.mechanisms.covariances.CovarianceMechanism`.
    missing : {"rule", "drop"}, optional
        What becomes of missing cells: the public value of the schema by default; with "drop" rows
        with one are left out.
    confidence : float
        The level of the intervals, for all numbers together.

    Attributes
    ----------
    location_ : array
        The means; the middles of the bounds with ``assume_centered``.
    covariance_ : array, shape (p, p)
        With divisor n; positive semi-definite, and of a trace that the rows can have.
    release_ : Release
        The noisy sums of products of scaled columns.

    Examples
    --------
    >>> X = np.random.default_rng(1).normal(0, 0.2, (20_000, 3)) @ np.diag([1, 1, 2])
    >>> model = Covariance(epsilon=2.0, bounds=(-1, 1), norm=1, random_state=1).fit(X)
    >>> np.sqrt(np.diag(model.covariance_)).round(1)
    array([0.2, 0.2, 0.4])
    >>> model.mechanism_.bodies.split(";")[0]
    'moments: ball of the traces of positive and negative parts of 4 x 4 matrices'
    """

    norm: Number | None = None
    assume_centered: bool = False
    noise: str = "best"
    missing: str | None = None
    confidence: float = 0.95

    def _mechanism(self, problem: Problem) -> CovarianceMechanism:
        columns = numeric_columns(problem.schema)
        return CovarianceMechanism(problem.schema, columns, **self._options(CovarianceMechanism))

    def _read(self, mechanism: CovarianceMechanism, release: Release) -> Release:
        self._found = mechanism.fit(release)
        self.location_, self.covariance_ = self._found.in_user_units
        return release

    def conf_int(
        self, *, confidence: float | None = None, covers: Covers | None = None
    ) -> FloatArray:
        """Rows (low, high) for means and covariances of the rows, in the order of the summary.

        They hold all together, are those of rows moved to their bounds and shortened, and cost
        nothing. Sampling error is not in them.

        Parameters
        ----------
        confidence : float, optional
            The level, by default that of the fit.
        covers : {"sample"}, optional
        """
        level, _ = self._asked(confidence, covers)
        return self._found.intervals(self.release_.value, level)

    def _covered(self) -> tuple[str, ...]:
        return ("sample",)

    def summary(self, *, confidence: float | None = None) -> CoefficientTable:
        """A table of means and covariances with their noise and intervals, and the body of it."""
        level, _ = self._asked(confidence, None)
        answer = self.mechanism_.answer(self.release_, level)
        spread = np.sqrt(np.diag(self._found.noise_covariance()))
        body = []
        for name, value, std, ends in zip(
            answer.names, answer.value, spread, answer.interval, strict=True
        ):
            middle, interval = value_and_interval(value, ends)
            body.append((name, middle, short(std), interval))
        return CoefficientTable(
            table_title(self),
            ("", "value", "noise std", interval_head(level, "sample")),
            tuple(body),
            (
                str(self.guarantee_),
                "The intervals hold all at once, for the rows moved to their bounds and shortened.",
                f"Noise: {self.mechanism_.bodies}.",
            ),
        )

    def _centred_rows(self, X: TableLike) -> FloatArray:
        """Rows in user units, clamped as in the fit and not shortened, less the means."""
        check_is_fitted(self, "release_")
        cells = fitted_cells(self, X, self.schema_.select(self.mechanism_.columns))
        half, middle = self.mechanism_.units
        return np.asarray(cells * half + middle - self.location_)


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Covariance):  # type: ignore[misc]
    r"""Principal components of the columns, from one noisy covariance matrix.

    **Privacy.** As for :class:`~tightdp.Covariance`: components, variances and means are functions
    of its release. **Scores are not**: :meth:`transform` computes one row of scores from every row
    that it is given, without noise. Of rows of the fit they are as private as these, for the
    curator's own eyes; no guarantee covers them.

    Parameters
    ----------
    n_components : int, optional
        How many components are kept; as many as there are columns by default.

    Attributes
    ----------
    components_ : array, shape (n_components, p)
        Directions of the largest variances, one a row; the largest entry of each is positive.
    explained_variance_ : array
        Their variances, with divisor n.
    explained_variance_ratio_ : array
        The same as shares of the total variance.
    mean_ : array
    n_components_ : int

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(0, 0.3, (20_000, 1)) * [0.6, 0.8] + rng.normal(0, 0.05, (20_000, 2))
    >>> model = PCA(n_components=1, epsilon=2.0, bounds=(-1, 1), norm=1, random_state=1).fit(X)
    >>> model.components_.round(1)
    array([[0.6, 0.8]])
    >>> model.transform([[0.6, 0.8]]).shape
    (1, 1)
    """

    n_components: int | None = None

    def _mechanism(self, problem: Problem) -> CovarianceMechanism:
        mechanism = super()._mechanism(problem)
        if self.n_components is not None:
            check_count("n_components", self.n_components, most=len(mechanism.columns))
        return mechanism

    def _read(self, mechanism: CovarianceMechanism, release: Release) -> Release:
        out = super()._read(mechanism, release)
        value, vector = np.linalg.eigh(self.covariance_)
        order = np.argsort(value)[::-1][: self.n_components]
        rows, total = vector.T[order], float(np.maximum(value, 0.0).sum())
        largest = np.abs(rows).argmax(axis=1)
        signs = np.sign(rows[np.arange(len(rows)), largest])
        self.components_ = rows * signs[:, None]
        self.explained_variance_ = np.maximum(value[order], 0.0)
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.mean_, self.n_components_ = self.location_, len(rows)
        return out

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def transform(self, X: TableLike) -> FloatArray:
        """Scores of rows, which pass through the clamp of the fit. **Not a release.**"""
        return np.asarray(self._centred_rows(X) @ self.components_.T)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Rows that scores stand for, in the units of the columns."""
        check_is_fitted(self, "release_")
        scores = np.asarray(X, dtype=np.float64)
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            fail(f"`X` must have {self.n_components_} columns of scores.")
        return np.asarray(scores @ self.components_ + self.mean_)
