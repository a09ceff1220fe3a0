"""Private naive Bayes: one exact release of counts and moments, and predictions from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.design.designs import Design
from tightdp.errors import FloatArray, check_count, fail
from tightdp.estimators.classifiers import Classifier
from tightdp.estimators.inputs import Bounds, Problem
from tightdp.estimators.private_estimator import PRINTED, Lacking
from tightdp.inference.class_tables import log_joint
from tightdp.mechanisms.counts import ClassTables
from tightdp.noise.law import NoiseLaw
from tightdp.release import Release
from tightdp.schema import Category, Interval


class NaiveBayes(Classifier[ClassTables]):
    """Base: numeric columns are Gaussian within a class, categories have tables.

    Parameters
    ----------
    delta : float, Fraction or Decimal
        For laws; "hull" spends none.
    noise : "hull", "laplace", "staircase", "tulap", "truncated-laplace", "gaussian", "designed"
        The shape of one record, or a law for every entry, the budget shared by the entries that one
        record moves; "designed" is the certified optimum for its share. A law or a design of your
        own is used on every entry, and epsilon and delta must cover all of them.
    count_share : float or "auto"
        For families of laws: the part of the budget that the class counts get.

    Attributes
    ----------
    class_prior_, class_count_ : array
    level_prob_ : dict
        Tables of the categories, shape (classes, levels).
    """

    delta: Number = 0
    noise: str | NoiseLaw | Design = "hull"
    count_share: Number | str = "auto"
    alpha: float = 1.0

    conf_int = Lacking(
        "predictions are ratios of many noisy numbers. release_ has intervals for the counts, sums "
        "and squares of the classes."
    )
    summary = Lacking(PRINTED)

    def _mechanism(self, problem: Problem) -> ClassTables:
        return self._model(ClassTables, problem)

    def _read(self, mechanism: ClassTables, release: Release) -> Release:
        self._table = table = mechanism.tables(release)
        self.class_count_, self.class_prior_ = table.counts, table.prior
        self.theta_, self.var_ = mechanism.in_user_units(table)
        self.level_prob_ = table.levels
        return release

    # --- predictions --------------------------------------------------------------------------

    def predict_joint_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of prior times likelihood in scaled units, shape (n, classes)."""
        cells = self._scaled_rows(X)
        return log_joint(
            self._table, self.mechanism_.statistic.layout, list(self.schema_)[:-1], cells
        )

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of the probabilities of the classes."""
        joint = self.predict_joint_log_proba(X)
        joint -= joint.max(axis=1, keepdims=True)
        return np.asarray(joint - np.log(np.exp(joint).sum(axis=1, keepdims=True)))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """The likeliest class of every row."""
        check_is_fitted(self, "release_")
        return np.asarray(self.classes_[self.predict_joint_log_proba(X).argmax(axis=1)])


class GaussianNB(NaiveBayes):
    r"""Naive Bayes with Gaussian columns (and categories) under differential privacy.

    One release holds the counts of the classes and, within each, sums of the columns, of their
    squares, and counts of levels. A record belongs to one class, so noise is drawn for each class
    in the shape of one record: the hull of (1, x, 2x^2 - 1) and its mirror image, exactly.

    What is published is read as what it is, noisy values of a known law: classes are pulled
    together by as much as noise could have driven them apart, and doubt widens the laws of new rows
    (:mod:`tightdp.inference.class_tables`). So probabilities can be taken at their word at any
    epsilon; with nothing but noise they are equal.

    **Privacy.**
    Statement: what ``fit`` publishes is :attr:`release_`, (epsilon, delta)-DP under the neighbour
    relation of the schema (replace-one by default), delta = 0 for ``noise="hull"``.
    Needs: public bounds, levels and classes. The classes are stated with ``classes`` or in a
    schema; with ``classes="observed"`` it is you who says that the labels in ``y`` are public.
    Proof: :class:`~tightdp.mechanisms.counts.ClassMechanism`; everything else here, floors
    and predictions included, is a function of the release and of public facts.
    Erratum: Selvi and others (2025)'s experiment spends its budget on every statistic anew, and
    reads class counts and ranges off the data (E43); here all of it is one (epsilon, delta).

    Parameters
    ----------
    bounds : pair, list of pairs (or categories), or Schema
        Public bounds of the features. Cells outside are moved to the nearer bound.
    alpha : float
        Pseudo-counts of every level of a category, and the number of rows of the variance that all
        classes have in common that are added to those of each class: a column that is constant in
        a class of few rows does not decide alone.
    var_smoothing : float
        Least variance of a column scaled to [-1, 1]: by default that of a standard deviation of
        1.6 % of the range, so that columns that hardly vary within a class do not decide alone.

    Attributes
    ----------
    theta_, var_ : array, shape (classes, numeric columns)
        Means and variances within classes, noise allowed for; without noise those of the rows.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> y = source(1).integers(2, 4000)
    >>> X = source(2).normal((4000, 2)) + 2 * y[:, None]
    >>> model = GaussianNB(epsilon=1.0, bounds=(-4, 6), classes=[0, 1], random_state=1).fit(X, y)
    >>> model.theta_.round(0) + 0
    array([[0., 0.],
           [2., 2.]])
    >>> model.score(X, y) > 0.9
    True
    """

    var_smoothing: float = 1e-3


class CategoricalNB(NaiveBayes):
    r"""Naive Bayes for categories under differential privacy.

    One release holds the counts of the classes and of the levels within them. Two levels enter as
    their difference, so that a record moves every entry by one and its hull is a cube; more levels
    lie in an l1 ball.

    **Privacy.** As for :class:`GaussianNB`: levels and classes are public facts, one release, one
    (epsilon, delta). Levels without a single row get noise like any other.

    Parameters
    ----------
    bounds : Category, int, list of them, or Schema
        The public levels of the features; an integer k stands for the levels 0..k-1. Other cells
        count as the first level (or the ``other`` one of the category).
    alpha : float
        Pseudo-counts of every level.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> y = source(1).integers(2, 3000)
    >>> X = (y[:, None] + (source(2).uniform((3000, 3)) < 0.3)) % 2
    >>> model = CategoricalNB(epsilon=1.0, bounds=2, classes=[0, 1], random_state=1).fit(X, y)
    >>> model.score(X, y) > 0.75
    True
    """

    def _mechanism(self, problem: Problem) -> ClassTables:
        for name in problem.features:
            if isinstance(problem.schema[name], Interval):
                fail(
                    f"Column {name!r} must have public levels: give `bounds` as a Category, a "
                    "number of levels, a list of them, or a Schema. GaussianNB takes numbers."
                )
        return super()._mechanism(problem)

    def _public_bounds(self) -> Bounds:
        if isinstance(self.bounds, list):  # a tuple is a pair, which the columns refuse
            return [_levels(given) for given in self.bounds]
        return _levels(self.bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.classifier_tags.poor_score = True  # on numbers, which are not its business
        return tags


def _levels(given: Any) -> Any:
    """An integer k as the category 0..k-1; anything else as it is."""
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return Category(range(check_count("bounds", given, least=2)), other=0)
    return given
