"""Private linear regression from exact noisy moments, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, fail
from tightdp.estimators.coefficient_tables import (
    CoefficientTable,
    coefficient_table,
    reference_notes,
    table_title,
)
from tightdp.estimators.inputs import Problem
from tightdp.estimators.interval_bases import WithCoefficients, missed
from tightdp.estimators.private_estimator import parameter
from tightdp.geometry.norm_balls import NormBall
from tightdp.inference.coefficient_tests import CoefficientTest, Tested, check_null, equations
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.printed import Covers
from tightdp.release import Release

_ENDLESS = (
    "an interval has no ends where noise hides how features vary: leave out a column that fills "
    "little of its bounds or hardly differs from another; more rows or a larger epsilon help, too"
)
_MUCH_LONGER = 1.6  # times: from there on a share of epsilon for the size of errors is worth a try


class LinearRegression(RegressorMixin, WithCoefficients[LeastSquares]):  # type: ignore[misc]
    r"""Least squares under differential privacy, with intervals that count all the noise.

    One pass sums the products of a constant, the features and the target, exactly; exact integer
    noise makes the sums private
    (:class:`~tightdp.mechanisms.split_mechanism.SplitMechanism` has the density); everything else
    is computed from the noisy sums and the known law of the noise.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under replace-one, where the number of rows is public; with a
    Schema as ``bounds`` under its neighbour relation, for a person with as many rows as it says.
    Needs: ``bounds`` are public facts, not read off the data.
    Proof: 1. The noisy moments are epsilon-DP by the proof of the mechanism. 2. Coefficients,
    intervals and summaries are functions of them and of public facts.
    Numerics: ``exact``; with ``method="objective"`` ``idealized-numerics``.
    Erratum: Awan and Slavković (2021) calls its body for these moments optimal; it strictly
    contains the hull (see the errata page), and smaller bodies are used here.

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds: one pair for all columns, pairs for the features and then the target, or a
        Schema (which may hold categories; their first level is the reference).
    noise : {"best", "split", "hull", "l1", "l2", "linf"} or NormBall
        "split" gives the moments with the target, those of the features and the square of the
        target shares of epsilon of their own, chosen from public facts; "hull" is one body for
        all; the l_p balls are those of the papers; "best" is the one with the least predicted error
        of the coefficients.
    post : {"shrink", "none", "published"}
        How coefficients are made from noisy moments: by empirical-Bayes shrinkage
        (:mod:`~tightdp.inference.moment_solver`), by the pseudo-inverse (equation 5 of Awan and
        Slavković, 2021), or by the ridge penalty 16 d / epsilon of Awan and Slavković (2021).
    missing : {"rule", "drop"}, optional
        What becomes of missing cells: the public value of the schema by default, the middle of the
        bounds unless it states another, which biases the coefficients; with "drop" rows with one
        are left out, and their noisy number is one of the moments.
    per : {"row", "person"}, optional
        With "person", for a Schema that says whose row it is, every person weighs alike, and the
        noise does not grow with the rows that a person may have.
    stages : {1, 2}, optional
        With 2, a part of epsilon buys a first line, and the rest a second look at the rows: at
        their residuals, which are smaller than the target and need less noise
        (:class:`~tightdp.mechanisms.two_looks.TwoLooks`). Coefficients of eight features and more
        then err by 0.6 as much, in the median of a grid of settings, of five to seven by 0.86.
        Residuals are clamped, and intervals count what that can have changed: they hold least
        squares whatever the errors are, but are longer where features are correlated. For a public
        number of rows, one of each person; the rows are kept in memory between the looks.
    interval_share : float, optional
        The part of epsilon that buys how far errors move every coefficient, with a second look at
        the rows, say 0.1: the sandwich of White (1980) under privacy
        (:class:`~tightdp.mechanisms.error_look.ErrorLook`). Intervals hold whatever the errors are,
        and need not count the most that bounds allow. Where rows are so many that the sampling
        error counts they are much shorter, and where noise is all that counts a little longer. For
        up to 64 coefficients, and as for ``stages`` a public number of rows, kept in memory.
        With ``method="objective"`` the part of epsilon that buys intervals, half of it by default.
    method : {"moments", "objective"}, optional
        What the coefficients are made of: "moments", by default, or "objective", the minimiser of a
        randomly tilted loss (:class:`~tightdp.mechanisms.tilted_squares.TiltedSquares`). It is the
        tilt of one row's gradient that costs, not all second moments: coefficients then err by 0.65
        as much in the median of a grid of settings, and intervals are about as long; they are
        longer where features are nearly collinear, or residuals large. Those beyond a quarter of
        the width of the target's bounds count as so large, which intervals for least squares take
        into account. As for ``stages`` rows are of a public number, one of each person, and are
        kept in memory.

    Attributes
    ----------
    coef_ : array
        One coefficient for every name in ``coef_names_``, in user units.
    intercept_ : float
    release_ : Release
        The noisy moments, scaled to [-1, 1].
    moments_ : array
        The mean products of (1, features, target) that were released, scaled, as a matrix.

    Notes
    -----
    Cells outside the bounds are moved to them, in ``predict`` as in ``fit``: bounds that cut off
    many rows bias the coefficients, and :meth:`conf_int` does not know
    (:func:`~tightdp.inference.without_clipping` mends that of a normal target). ``score`` on
    private rows is not private.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 20_001)
    >>> y = 1 + 3 * x + np.random.default_rng(1).normal(0, 0.5, 20_001)
    >>> model = LinearRegression(epsilon=2.0, bounds=[(-1, 1), (-5, 5)], random_state=7)
    >>> model.fit(x[:, None], y).coef_.round(1)
    array([3.])
    >>> print(model.guarantee_)
    epsilon = 2, replace-one neighbours, exact, SEEDED: not private
    >>> low, high = model.conf_int()[0]
    >>> bool(low < 3 < high)
    True
    """

    noise: str | NormBall = parameter(default="best", kw_only=False)
    post: str = "shrink"
    missing: str | None = None
    per: str | None = None
    stages: int | None = None
    interval_share: Number | None = None
    method: str | None = None

    _leading: ClassVar[tuple[str, ...]] = ("epsilon", "bounds", "noise")

    def _mechanism(self, problem: Problem) -> LeastSquares:
        return self._model(LeastSquares, problem)

    def _read(self, mechanism: LeastSquares, release: Release) -> Release:
        self._linear = mechanism.fit(release)
        self.moments_ = self._linear.products
        values = self._linear.coefficients
        self.coef_names_ = mechanism.design.design
        self.intercept_, self.coef_ = float(values[0]), values[1:]
        return release

    def predict(self, X: TableLike) -> FloatArray:
        """Predictions for rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(self._design_rows(X) @ self.coef_ + self.intercept_)

    def conf_int(
        self,
        *,
        confidence: float | None = None,
        covers: Covers | None = None,
        simultaneous: bool = False,
        intercept: bool = False,
        assume: str | None = None,
    ) -> FloatArray:
        """Intervals for the coefficients of the population, rows (low, high).

        Privacy noise and sampling error count together, see
        :mod:`~tightdp.inference.coefficient_intervals`. They are centred where the noise is, not at
        the shrunk ``coef_``, reach to it where it would lie outside, and cost nothing. The
        population is that of rows moved to their bounds. They need rows enough of every kind that
        matters: a level that two rows have, and errors that two rows carry, are not covered, and
        errors that fewer than some twenty rows carry may be missed in up to a tenth of tables.
        Where noise hides how features vary, as those do that fill a small part of their bounds,
        the slope may be anything, and its interval has no ends; nor have those of columns of which
        the hidden one may be a small copy.

        Parameters
        ----------
        confidence : float, optional
            The level, 0.95 by default.
        covers : {"population"}, optional
        simultaneous : bool
            Whether all rows hold at once at that level.
        intercept : bool
            Whether the first row is the intercept.
        assume : {"equal variance"}, optional
            Say that errors have the same variance at all rows, for the narrower intervals of the
            textbooks. Nothing that is released can check it; by default the sampling error is the
            largest that the bounds allow, or, with an ``interval_share``, that was released.
        """
        level, _ = self._asked(confidence, covers)
        bounds = self._linear.intervals(missed(level), simultaneous=simultaneous, assume=assume)
        return bounds if intercept else bounds[1:]

    def test(
        self, tested: Tested, null: float | Sequence[float] = 0.0, *, assume: str | None = None
    ) -> CoefficientTest:
        """A test about coefficients of the population, from the release alone; costs nothing.

        About one number it rejects at level alpha if and only if :meth:`conf_int` at level
        1 - alpha leaves the null out (:mod:`~tightdp.inference.coefficient_tests`).

        Parameters
        ----------
        tested : str, mapping of names to weights, or list of these
            A coefficient (``"intercept"`` is one); a contrast such as ``{"a": 1, "b": -1}``; or
            several equations that are to hold at once: ``["a", "b"]`` compares the model with the
            nested one without a and b.
        null : float, or one for each equation
        assume : {"equal variance"}, optional
            As for :meth:`conf_int`.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(1)
        >>> X = rng.uniform(-1, 1, (20_000, 2))
        >>> y = 1 + X[:, 0] + rng.normal(0, 0.5, 20_000)
        >>> model = LinearRegression(epsilon=8, bounds=[(-1, 1), (-1, 1), (-4, 4)], random_state=1)
        >>> found = model.fit(X, y).test({"x0": 1, "x1": -1})
        >>> found.hypothesis, bool(found.p_value < 0.01)
        ('x0 - x1 = 0', True)
        """
        check_is_fitted(self, "release_")
        names = (self.mechanism_.design.names[0], *self.coef_names_)
        weights, words = equations(tested, names)
        if not self.fit_intercept and weights[:, 0].any():
            fail("`tested` must not name the intercept of a model without one.")
        wanted = check_null(null, len(weights))
        estimate = weights @ np.append(self.intercept_, self.coef_)
        found = self._linear.tested(weights, estimate, wanted, assume)
        said = " and ".join(f"{left} = {c:g}" for left, c in zip(words, wanted, strict=True))
        return CoefficientTest(said, estimate, found)

    def summary(
        self, *, confidence: float | None = None, assume: str | None = None
    ) -> CoefficientTable:
        """A table of coefficients, noise and intervals, as text and HTML; see :meth:`conf_int`."""
        level, _ = self._asked(confidence, None)
        bounds = self.conf_int(confidence=level, intercept=True, assume=assume)
        first, values = 0 if self.fit_intercept else 1, np.append(self.intercept_, self.coef_)
        whatever = "whatever the errors are" if assume is None else f"if errors have {assume}"
        clamped = self._linear.clamped
        said = [clamped, _ENDLESS if np.isinf(bounds).any() else ""]
        said = [f"{words[0].upper()}{words[1:]}." for words in said if words]
        said += self._remedy(bounds, level) if assume is None else []
        said += self._cost_of_clip(bounds, level, assume) if self._linear.tilt else []
        return coefficient_table(
            table_title(self),
            self.mechanism_.names,
            values[first:],
            self._linear.noise_std(assume)[first:],
            bounds[first:],
            level,
            self.guarantee_,
            about=f"the population's coefficients, {whatever}",
            notes=(*said, *reference_notes(self.schema_), f"Noise: {self.mechanism_.bodies}."),
        )

    def _remedy(self, bounds: FloatArray, level: float) -> list[str]:
        """What would shorten intervals of which the bound on the sampling error makes the most."""
        if not self.mechanism_.may_look_at_errors():
            return []
        even = self._linear.intervals(missed(level), assume="equal variance")
        said = "errors had equal variance, for want of their size: `interval_share=0.1` buys it."
        return _much_longer(bounds, even, said)

    def _cost_of_clip(self, bounds: FloatArray, level: float, assume: str | None) -> list[str]:
        """Where the clip of residuals makes the most of intervals, and what has none."""
        without = self._linear.unclipped().intervals(missed(level), assume=assume)
        said = "no residual were so large: those of method='moments' may be shorter."
        return _much_longer(bounds, without, said)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may drown a small table
        return tags


def _much_longer(bounds: FloatArray, others: FloatArray, words: str) -> list[str]:
    """A sentence where intervals are much longer than others would be; the intercept aside."""
    lengths = [float(np.median(np.ptp(each, axis=1)[1:])) for each in (bounds, others)]
    times = lengths[0] / max(lengths[1], np.finfo(float).tiny)
    much = _MUCH_LONGER < times < np.inf
    return [f"They are {times:.1f} times as long as if {words}"] if much else []


class Ridge(LinearRegression):
    r"""Ridge regression under differential privacy.

    Minimises :math:`\|y - Xb\|^2 + \alpha \|b\|^2` (the intercept is free) on the noisy moments;
    with ``post="shrink"`` the penalty comes on top of the shrinkage that the noise asks for.
    Intervals are for the penalised coefficients of the population.

    **Privacy.** As for :class:`~tightdp.LinearRegression`: the same moments are released, and the
    public penalty is post-processing.

    Parameters
    ----------
    alpha : float
        Penalty >= 0 in the units of the features, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 20_001)
    >>> model = Ridge(alpha=6667.0, epsilon=2.0, bounds=[(-1, 1), (-5, 5)], random_state=7)
    >>> model.fit(x[:, None], 3 * x).coef_.round(1)
    array([1.5])
    """

    alpha: float = parameter(default=1.0, kw_only=False)

    _leading = ("alpha", "epsilon", "bounds", "noise")
