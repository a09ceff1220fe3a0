"""Least squares from exact noisy moments: coefficients and intervals from one release of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.errors import (
    FloatArray,
    amount_within,
    check_choice,
    check_confidence,
    check_count,
    check_flag,
    check_list,
    check_within,
    fail,
)
from tightdp.inference.expected_errors import Spread
from tightdp.mechanisms.line_preview import PreviewedLine
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.person_means import shared_weights
from tightdp.privacy import check_epsilon
from tightdp.release import Release
from tightdp.schema import Schema, complete_rows
from tightdp.shaping.moment_noise import choose_noise

if TYPE_CHECKING:
    from tightdp.mechanisms.error_look import ErrorLook
    from tightdp.mechanisms.tilted_squares import TiltedSquares
    from tightdp.mechanisms.two_looks import TwoLooks

POSTS = ("shrink", "none", "published")
METHODS = ("moments", "objective")
_COVERED = (
    "intervals are for the population's coefficients, whatever the errors are, and count noise and "
    "sampling error; they have no ends where noise hides how features vary"
)

_LARGEST_RIDGE = 1e15  # beside moments of at most 1: coefficients are lost to rounding


class LeastSquares(PreviewedLine):
    r"""Releases the noisy moments of a regression, and reads coefficients and intervals off them.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for a person with
    at most ``rows_per_person`` rows.
    Needs: the bounds of the schema are public facts.
    Proof: 1. The noisy moments are epsilon-DP by the proof of
    :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`, with two stages by that of
    :class:`~tightdp.mechanisms.two_looks.TwoLooks`, with an interval share by that of
    :class:`~tightdp.mechanisms.error_look.ErrorLook`, and with the method "objective" what is
    released is by that of :class:`~tightdp.mechanisms.tilted_squares.TiltedSquares`.
    2. Coefficients and intervals are functions of them and of public facts.
    Numerics: ``exact``; with the method "objective" ``idealized-numerics``.

    Where the number of rows is private, under add-remove and with ``missing="drop"``, it is one of
    the noisy moments (:class:`~tightdp.data.regression_moments.RegressionMoments`), and what is
    read off divides by it. The rows of one person need not be independent: their sampling error
    is taken to be that of one row for each full person, the most that it can be. Where persons
    weigh alike it is that of one row of every person: a mean of rows of a person varies no more
    than one of them, drawn at random.

    What is made of the moments is post-processing: requests that differ in ``fit_intercept`` or
    ``alpha`` alone share a release, and the second costs nothing; not with an interval share, which
    buys what is needed for the intervals of one of them.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
    epsilon : float, Fraction or Decimal
    noise : {"best", "split", "hull", "l1", "l2", "linf"} or NormBall
    fit_intercept : bool
    post : {"shrink", "none", "published"}
        See :class:`~tightdp.LinearRegression`.
    alpha : float
        Ridge penalty >= 0 on the squared coefficients, in the units of the features.
    missing : {"rule", "drop"}, optional
        With "drop" the regression is that of the rows where all of its columns are there.
    per : {"row", "person"}, optional
        With "person" every person weighs alike: its rows share the weight of one row, and the noise
        does not grow with them (:class:`~tightdp.person_means.PersonWeights`).
    spread : float, or mapping of features to floats, optional
        What is public about how wide columns are: the share of their bounds that they fill, in
        (0, 1]. For the preview of one stage alone, as is ``correlation``; no release depends on
        them.
    correlation : float, optional
        What is public about how numeric features hang together, in [0, 1).
    stages : {1, 2}, optional
        With 2, a part of epsilon buys a first line and the rest a second look, at its residuals
        (:class:`~tightdp.mechanisms.two_looks.TwoLooks`); see :class:`~tightdp.LinearRegression`.
    interval_share : float, Fraction or Decimal
        The part of epsilon that buys how far errors move coefficients
        (:class:`~tightdp.mechanisms.error_look.ErrorLook`): intervals are then shorter where rows
        are many. With ``method="objective"`` the part that buys intervals.
    method : {"moments", "objective"}, optional
        With "objective" the minimiser of a tilted loss instead of moments with the target
        (:class:`~tightdp.mechanisms.tilted_squares.TiltedSquares`).

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-5, 5)}, rows=20_001)
    >>> x = np.linspace(-1, 1, 20_001)
    >>> line = LeastSquares(schema, ["x"], "y", epsilon=2)
    >>> line.answer(line.release({"x": x, "y": 1 + 3 * x}, rng=1)).value.round(1)
    array([1., 3.])
    """

    why = (
        "Noise is added to the sums of squares and products that the fit needs, in the shape, "
        "and with the split of the budget, that moves the coefficients least."
    )
    later = ("spread", "correlation", "per", "stages", "interval_share", "method")

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        epsilon: Number,
        noise: object = "best",
        fit_intercept: bool = True,
        post: str = "shrink",
        alpha: float = 0.0,
        missing: str | None = None,
        spread: Spread | None = None,
        correlation: float | None = None,
        per: str | None = None,
        stages: int | None = None,
        interval_share: Number | None = None,
        method: str | None = None,
    ) -> None:
        alike = per is not None  # most regressions are of rows
        facts = shared_weights(schema, missing, per) if alike else complete_rows(schema, missing)
        self.schema = schema = facts
        self.spread, self.correlation = _check_spread(spread, features), correlation
        if correlation is not None:
            self.correlation = check_within("correlation", correlation, "[0, 1)")
        self.post = check_choice("post", post, POSTS)
        self.fit_intercept = check_flag("fit_intercept", fit_intercept)
        self.alpha = check_within("alpha", alpha, "[0, inf)")
        spent, roles = check_epsilon(epsilon), (schema, check_list("features", features), target)
        self.looks = self._second_look(roles, noise, spent, stages)
        self.tilted = self._tilted_squares(roles, noise, spent, interval_share, method)
        own = None if self.tilted is not None else interval_share
        self.errors = self._error_look(roles, noise, spent, own)
        found = self.looks or self.errors or self.tilted
        if found is None:
            chosen = choose_noise(*roles, noise, spent, square=self.post == "shrink")
            self.statistic, self.bodies = chosen.moments, chosen.words
            self.moments = SplitMechanism(chosen.moments, chosen.parts, epsilon=spent)
        else:
            self.statistic, self.bodies = found.statistic, found.bodies
            self.moments = found.first
        self._take_price()
        self.design = self.statistic.layout
        self.names = self.design.names if self.fit_intercept else self.design.design
        if not (self.ridge() <= _LARGEST_RIDGE).all():
            fail(
                f"`alpha` = {self.alpha:g} is so large beside the bounds of the features that all "
                "coefficients would be 0: take a smaller one."
            )

    def _second_look(
        self, roles: tuple[Schema, Sequence[str], str], noise: object, spent: Any, stages: object
    ) -> TwoLooks | None:
        """The mechanism of two stages, where they were asked for."""
        if stages is None or check_count("stages", stages, most=2) == 1:
            return None
        if self.post != "shrink":
            fail("`post` must be 'shrink' with two stages: use stages=1 for the others.")
        if self.spread is not None or self.correlation is not None:
            fail(
                "`spread` and `correlation` are for the preview of one stage. That of two stages "
                "simulates even rows: leave them out, or preview a plan on a public `sample`."
            )
        from tightdp.mechanisms.two_looks import TwoLooks  # which knows noise in parts

        return TwoLooks(*roles, epsilon=spent, noise=noise)

    def _error_look(
        self, roles: tuple[Schema, Sequence[str], str], noise: object, spent: Any, share: object
    ) -> ErrorLook | None:
        """The mechanism that looks at the errors, too, where a share of epsilon is for that."""
        part = 0 if share is None else amount_within("interval_share", share, "[0, 1)")
        if part == 0:
            return None
        if self.looks is not None:
            fail("Give `stages` or `interval_share`: intervals of two stages need no share.")
        if self.post != "shrink":
            fail("`post` must be 'shrink' with an `interval_share`, which needs a first line.")
        from tightdp.mechanisms.error_look import ErrorLook  # which knows noise in parts

        return ErrorLook(
            *roles,
            epsilon=spent,
            share=part,
            noise=noise,
            fit_intercept=self.fit_intercept,
            alpha=self.alpha,
        )

    def _tilted_squares(
        self,
        roles: tuple[Schema, Sequence[str], str],
        noise: object,
        spent: Any,
        share: Any,
        method: object,
    ) -> TiltedSquares | None:
        """The mechanism that tilts a loss, where it was asked for."""
        if method is None or check_choice("method", method, METHODS) == "moments":
            return None
        left = {
            "noise": noise == "best",
            "post": self.post == "shrink",
            "stages": self.looks is None,
            "alpha": self.alpha == 0,
            "fit_intercept": self.fit_intercept,
            "spread": self.spread is None,
            "correlation": self.correlation is None,
        }
        for name, plain in left.items():
            # a Ridge that leaves it out has one of 1
            remedy = "set alpha=0" if name == "alpha" else "leave it out"
            if not plain:
                fail(f"`{name}` is for method='moments': {remedy} with method='objective'.")
        from tightdp.mechanisms.tilted_squares import SHARE, TiltedSquares  # which knows noise

        return TiltedSquares(*roles, epsilon=spent, share=SHARE if share is None else share)

    def may_look_at_errors(self) -> bool:
        """Whether an ``interval_share`` could be stated, and was not."""
        from tightdp.mechanisms.error_look import MOST_INFLUENCED
        from tightdp.mechanisms.repeated_looks import MOST_KEPT, single_rows

        cells = self.schema.rows * len(self.statistic.columns)
        small = len(self.names) <= MOST_INFLUENCED and cells <= MOST_KEPT
        plain = self.source is self.moments and self.post == "shrink"
        return plain and small and single_rows(self.schema)

    @property
    def source(self) -> SplitMechanism | TwoLooks | ErrorLook | TiltedSquares:
        return self.looks or self.errors or self.tilted or self.moments

    # --- reading it ---------------------------------------------------------------------------

    def fit(self, release: Release) -> LinearFit:
        """The regression that a release of the moments leaves."""
        first = release.value[: len(self.statistic)]
        rows = self.statistic.rows(first, self.moments.covariance)
        products = self.statistic.matrices(first / rows)
        products[0, 0] = 1.0
        look = None if self.looks is None else self.looks.second_look(release)
        sizes = None if self.errors is None else self.errors.sizes(release)
        tilt = None if self.tilted is None else self.tilted.look(release)
        filled = products if tilt is None else tilt.filled(products)
        return LinearFit(self, filled, rows, look, sizes, tilt)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Coefficients, with intervals for those of the population that hold all at once."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        fit, first = self.fit(release), 0 if self.fit_intercept else 1
        value = fit.coefficients[first:]
        interval = fit.intervals(1 - level, simultaneous=True)[first:]
        return Answer(
            names=self.names,
            value=value,
            interval=interval,
            confidence=level,
            release=release,
            about=f"{_COVERED}; {fit.clamped}" if fit.clamped else _COVERED,
            covers="population",
        )

    def ridge(self, rows: float | None = None) -> FloatArray:
        """The penalty on every scaled coefficient, divided by the number of rows."""
        return self.design.ridge(self.alpha, self.schema.rows if rows is None else rows)


def _check_spread(spread: object, features: Sequence[str]) -> Spread | None:
    """Shares in (0, 1] of all features, or of some of them by name."""
    if spread is None:
        return None
    if not isinstance(spread, Mapping):
        return check_within("spread", spread, "(0, 1]")
    for name in spread:
        check_choice("spread", name, features)
    return {name: check_within("spread", share, "(0, 1]") for name, share in spread.items()}
