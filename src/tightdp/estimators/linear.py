"""Private linear regression from exact noisy moments, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_probability,
    check_real,
    fail,
)
from tightdp.estimators.base import PrivateEstimator, replace_one
from tightdp.estimators.coefficient_tables import (
    CoefficientTable,
    coefficient_table,
    reference_notes,
)
from tightdp.estimators.expected_errors import coefficient_covariance, user_units
from tightdp.estimators.inputs import Problem
from tightdp.estimators.moment_noise import LENGTH, NOISES, moment_mechanism
from tightdp.estimators.moment_solver import centred, shrunk, solve, through
from tightdp.geometry.norm_balls import NormBall
from tightdp.inference.moment_intervals import Candidates, candidates, moved
from tightdp.inference.regions import quantile_intervals, simultaneous_intervals
from tightdp.mechanisms.split import SplitMechanism
from tightdp.noise.rates import check_epsilon
from tightdp.privacy import Guarantee
from tightdp.randomness import RandomSource, SeededSource
from tightdp.release import Release
from tightdp.schema import Interval

POSTS = ("shrink", "none", "published")
ASSUMPTIONS = ("equal variance",)

ROWS = "features that fill their bounds evenly, not correlated: others have more noise"

_INTERVAL_SEED = 20_190_605


@dataclass(frozen=True, slots=True, eq=False)
class CoefficientPreview:
    """The privacy noise to expect in the coefficients, from public facts alone.

    For features that fill their bounds evenly and are not correlated, levels that are equally
    likely, and a target that they explain in part: more variance in the features makes it smaller,
    less variance or correlation larger. Shrinkage is not counted.
    """

    names: tuple[str, ...]
    std: FloatArray
    intercept_std: float
    guarantee: Guarantee
    shares: dict[str, float]
    noise: str

    def __str__(self) -> str:
        width = max(11, *map(len, self.names))
        lines = [f"{'coefficient':{width}}  {'noise std':>12}"]
        lines.append("-" * len(lines[0]))
        lines += [f"{n:{width}}  {s:12.4g}" for n, s in zip(self.names, self.std, strict=True)]
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        notes = [str(self.guarantee), f"shares of epsilon: {shares}", f"for {ROWS}"]
        return "\n".join([*lines, "", *notes])


class LinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    r"""Least squares under differential privacy, with intervals that count all the noise.

    One pass sums the products of a constant, the features and the target, exactly; exact integer
    noise makes the sums private (:class:`~tightdp.mechanisms.split.SplitMechanism` has the
    density); everything else is computed from the noisy sums and the known law of the noise.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under replace-one; the number of rows is public.
    Needs: ``bounds`` are public facts, not read off the data.
    Proof: 1. The noisy moments are epsilon-DP by the proof of the mechanism. 2. Coefficients,
    intervals and summaries are functions of them and of public facts.
    Numerics: ``exact``.
    Erratum: [1] calls its body for these moments optimal; it strictly contains the hull (see the
    errata page), and smaller bodies are used here.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
        Public bounds: one pair for all columns, pairs for the features and then the target, or a
        Schema (which may hold categories; their first level is the reference).
    noise : {"best", "split", "hull", "l1", "l2", "linf"} or NormBall
        "split" gives the moments with the target, those of the features and the square of the
        target shares of epsilon of their own, chosen from public facts; "hull" is one body for
        all; the l_p balls are those of the papers; "best" is the one with the least predicted error
        of the coefficients.
    fit_intercept : bool
    post : {"shrink", "none", "published"}
        How coefficients are made from noisy moments: by empirical-Bayes shrinkage
        (:mod:`~tightdp.estimators.moment_solver`), by the pseudo-inverse (equation 5 of [1]), or
        by the ridge penalty 16 d / epsilon of [1].
    ledger : Ledger, optional
        Charged once for every fit.
    random_state : None or a seed
        None is a fresh cryptographic source per fit; anything else marks the release as seeded.

    Attributes
    ----------
    coef_ : array
        One coefficient for every name in ``coef_names_``, in user units.
    intercept_ : float
    release_ : Release
        The noisy moments, scaled to [-1, 1].
    guarantee_ : Guarantee

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

    _law: SplitMechanism
    _candidates: dict[str | None, Candidates]

    def __init__(
        self,
        epsilon: Any = 1.0,
        bounds: Any = None,
        noise: Any = "best",
        fit_intercept: bool = True,
        post: str = "shrink",
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.post = post
        self.ledger = ledger
        self.random_state = random_state

    # --- fitting ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if not isinstance(self.noise, NormBall):
            check_choice("noise", self.noise, NOISES)
        check_choice("post", self.post, POSTS)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            fail(f"`fit_intercept` must be True or False. Got {self.fit_intercept!r}.")

    def _mechanism(self, problem: Problem) -> SplitMechanism:
        replace_one(problem)
        return moment_mechanism(problem, self.noise, self.epsilon, square=self.post == "shrink")

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        mechanism = self._mechanism(problem)
        release = mechanism.release(problem.frame, ledger=self.ledger, key=key, rng=rng)
        self._estimate(mechanism, release)
        return release

    def _estimate(self, mechanism: SplitMechanism, release: Release) -> None:
        """Coefficients from the release and public facts."""
        moments = mechanism.statistic
        assert isinstance(moments, RegressionMoments)
        self._law, self._candidates = mechanism, {}
        rows = moments.schema.rows
        self._moments = moments.matrices(release.value / rows)
        scaled = self._solve(moments, np.diag(mechanism.covariance) / rows**2)
        self._scale(moments)
        values = self._in_user_units(scaled[None])[0]
        self.coef_names_ = moments.design
        self.intercept_, self.coef_ = float(values[0]), values[1:]

    def _solve(self, moments: RegressionMoments, variance: FloatArray) -> FloatArray:
        """(intercept, slopes) for scaled columns."""
        M = self._moments
        if self.post != "shrink":
            return self._published(M, moments)
        noise = np.zeros_like(M)
        i, j, factor = moments.entries.T
        noise[i, j] = noise[j, i] = variance / factor**2
        np.fill_diagonal(noise[1:-1, 1:-1], _own_noise(noise, moments))
        parts = centred(M, noise)
        C, left = shrunk(parts, moments.paired())
        g, g_noise = parts.g, parts.g_noise
        shift = _shift(moments)
        if not self.fit_intercept:
            C, left, g, g_noise = through(parts, C, left, noise, shift)
        slopes = solve(C + np.diag(self._ridge(moments)), left, g, g_noise)
        if not self.fit_intercept:
            return np.append(shift[:-1] @ slopes - shift[-1], slopes)
        return np.append(parts.target_mean - parts.mean @ slopes, slopes)

    def _published(self, M: FloatArray, moments: RegressionMoments) -> FloatArray:
        """The pseudo-inverse of [1], or its ridge penalty, on the noisy moments as they are."""
        first, shift = (0 if self.fit_intercept else 1), _shift(moments)
        if not self.fit_intercept:
            M = moved(M, shift)
        G, c = M[first:-1, first:-1], M[first:-1, -1]
        penalty = np.append([0.0] * (1 - first), self._ridge(moments))
        if self.post == "published":
            epsilon = float(check_epsilon(self.epsilon))
            penalty = penalty + 16 * len(moments) / (epsilon * moments.schema.rows)
        found = np.linalg.pinv(G + np.diag(penalty)) @ c
        if not self.fit_intercept:
            found = np.append(shift[:-1] @ found - shift[-1], found)
        return np.asarray(found)

    def _ridge(self, moments: RegressionMoments) -> FloatArray:
        return np.zeros(len(moments.design))

    # --- units --------------------------------------------------------------------------------

    def _scale(self, moments: RegressionMoments) -> None:
        """Half-widths and middles of the columns of the design and of the target."""
        half, middle = _units(moments)
        self._half, self._middle = half, middle

    def _in_user_units(self, scaled: FloatArray) -> FloatArray:
        """(intercept, slopes) of scaled columns, rows of an array, in the units of the user."""
        half, middle = self._half, self._middle
        slopes = scaled[:, 1:] * (half[-1] / half[:-1])
        level = half[-1] * scaled[:, 0] + middle[-1] - slopes @ middle[:-1]
        return np.column_stack([level if self.fit_intercept else np.zeros(len(level)), slopes])

    # --- using the model ----------------------------------------------------------------------

    def predict(self, X: Any) -> FloatArray:
        """Predictions for rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(self._design_rows(X) @ self.coef_ + self.intercept_)

    def preview(self, X: Any, y: Any = None) -> CoefficientPreview:
        """The noise to expect in the coefficients; looks at names and the number of rows only."""
        self._check_parameters()
        mechanism = self._mechanism(self._problem(X, y))
        moments = mechanism.statistic
        assert isinstance(moments, RegressionMoments)
        scaled = coefficient_covariance(
            moments,
            _noise_matrices(moments, np.eye(len(moments)) / moments.schema.rows),
            mechanism.covariance,
            length=LENGTH,
            shift=None if self.fit_intercept else _shift(moments),
        )
        units = user_units(*_units(moments), intercept=bool(self.fit_intercept))
        std = np.sqrt(np.diag(units @ scaled @ units.T))
        return CoefficientPreview(
            moments.design,
            std[1:],
            float(std[0]),
            mechanism.guarantee(),
            {part.name: float(part.share) for part in mechanism.parts},
            mechanism.law,
        )

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        simultaneous: bool = False,
        intercept: bool = False,
        assume: str | None = None,
    ) -> FloatArray:
        """Intervals for the coefficients of the population, rows (low, high).

        Privacy noise and sampling error count together, see
        :mod:`~tightdp.inference.moment_intervals`. They are centred where the noise is, not at the
        shrunk ``coef_``, and cost nothing. The population is that of rows moved to their bounds.
        They need at least five rows of every kind that matters: a level that two rows have, and
        errors that two rows carry, are not covered.

        Parameters
        ----------
        alpha : float
            1 minus the level.
        simultaneous : bool
            Whether all rows hold at once at that level.
        intercept : bool
            Whether the first row is the intercept.
        assume : {"equal variance"}, optional
            Say that errors have the same variance at all rows, for the narrower intervals of the
            textbooks. Nothing that is released can check it; by default the sampling error is the
            largest that the bounds allow.
        """
        check_is_fitted(self, "release_")
        check_probability("alpha", alpha)
        values = self._drawn(assume).values
        rule = simultaneous_intervals if simultaneous else quantile_intervals
        bounds = rule(self._in_user_units(values), alpha)
        return bounds if intercept else bounds[1:]

    def _drawn(self, assume: str | None = None) -> Candidates:
        if assume is not None:
            check_choice("assume", assume, ASSUMPTIONS)
        if assume not in self._candidates:
            moments = self._law.statistic
            assert isinstance(moments, RegressionMoments)
            rows = moments.schema.rows
            # simulation after the release: a fixed seed makes it repeatable and costs no privacy
            rng = SeededSource(_INTERVAL_SEED)
            shift = _shift(moments)
            self._candidates[assume] = candidates(
                self._moments,
                lambda count: _noise_matrices(moments, self._law.simulate(count, rng=rng) / rows),
                rows,
                rng,
                shift=None if self.fit_intercept else shift,
                ridge=self._ridge(moments),
                origin=-shift[:-1],
                equal_variance=assume is not None,
            )
        return self._candidates[assume]

    def summary(self, alpha: float = 0.05, *, assume: str | None = None) -> CoefficientTable:
        """A table of coefficients, noise and intervals, as text and HTML; see :meth:`conf_int`."""
        bounds = self.conf_int(alpha, intercept=True, assume=assume)
        bare = self._in_user_units(self._drawn(assume).noise_only)
        spread = np.subtract(*np.quantile(bare, [0.8413, 0.1587], axis=0)) / 2
        whatever = "whatever the errors are" if assume is None else f"if errors have {assume}"
        return coefficient_table(
            type(self).__name__,
            ("intercept", *self.coef_names_),
            np.append(self.intercept_, self.coef_),
            spread,
            bounds,
            1 - alpha,
            self.guarantee_,
            rows=self.schema_.rows,
            first=0 if self.fit_intercept else 1,
            covers=f"the population's coefficients, {whatever}",
            notes=reference_notes(self.schema_),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may drown a small table
        return tags


class Ridge(LinearRegression):
    r"""Ridge regression under differential privacy.

    Minimises :math:`\|y - Xb\|^2 + \alpha \|b\|^2` (the intercept is free) on the noisy moments;
    with ``post="shrink"`` the penalty comes on top of the shrinkage that the noise asks for.
    Parameters and attributes are those of :class:`~tightdp.LinearRegression`; intervals are for the
    penalised coefficients of the population.

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

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: Any = 1.0,
        bounds: Any = None,
        noise: Any = "best",
        fit_intercept: bool = True,
        post: str = "shrink",
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(epsilon, bounds, noise, fit_intercept, post, ledger, random_state)
        self.alpha = alpha

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_real("alpha", self.alpha) < 0:
            fail(f"`alpha` must be a number >= 0. Got {self.alpha}.")

    def _ridge(self, moments: RegressionMoments) -> FloatArray:
        half, _ = _units(moments)
        return np.asarray(self.alpha / moments.schema.rows / half[:-1] ** 2)


# --- places and units ----------------------------------------------------------------------------


def _own_noise(noise: FloatArray, moments: RegressionMoments) -> FloatArray:
    """Variances on the diagonal: of squares, and of the sums that stand for indicators' squares."""
    own = np.diag(noise)[1:-1].copy()
    known = {int(i) for i, j, _ in moments.entries if i == j}
    for place in range(1, moments.outcome):
        if place not in known:
            own[place - 1] = noise[0, place]
    return own


def _units(moments: RegressionMoments) -> tuple[FloatArray, FloatArray]:
    """Half-widths and middles of the columns of the design, then of the target."""
    half, middle = [], []
    for name in moments.columns:
        column = moments.schema[name]
        if isinstance(column, Interval):
            half.append(column.half)
            middle.append(column.middle)
        else:
            half += [1.0] * len(column.indicators)
            middle += [0.0] * len(column.indicators)
    return np.array(half), np.array(middle)


def _shift(moments: RegressionMoments) -> FloatArray:
    """Minus the origin of the user's units, in scaled units: features, then the target."""
    half, middle = _units(moments)
    return np.asarray(middle / half)


def _noise_matrices(moments: RegressionMoments, noise: FloatArray) -> FloatArray:
    """Draws of noise in the places of the moments, nothing elsewhere."""
    full = moments.matrices(noise)
    full[..., 0, 0] = 0.0
    full[np.isnan(full)] = 0.0
    return full
