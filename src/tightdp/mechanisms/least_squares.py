"""Least squares from exact noisy moments: their release, in parts, and what is computed from it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.answer import Answer
from tightdp.data.one_pass import IntegerSum
from tightdp.data.public_rows import Images
from tightdp.data.regression_moments import MOST_MATRIX, variances_of
from tightdp.data.statistics import Statistic
from tightdp.data.table import check_frame, check_public_rows
from tightdp.errors import (
    FloatArray,
    amount_within,
    check_choice,
    check_confidence,
    check_count,
    check_flag,
    check_length,
    check_list,
    check_within,
    fail,
)
from tightdp.inference.coefficient_intervals import (
    Candidates,
    Wanted,
    candidates,
    holding,
    moved,
    quantile_intervals,
    simultaneous_intervals,
)
from tightdp.inference.coefficient_tests import p_value
from tightdp.inference.expected_errors import Spread
from tightdp.inference.moment_solver import NoisyMoments, SecondLook
from tightdp.inference.tilted_moments import TiltedLook, TiltedMoments
from tightdp.mechanisms.line_preview import PreviewedLine
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.person_means import shared_weights
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomLike, RandomSource, SeededSource, source
from tightdp.release import Draft, Known, Release
from tightdp.schema import Schema, complete_rows
from tightdp.shaping.coverage import certify_moves
from tightdp.shaping.moment_noise import LENGTH, Part, choose_noise
from tightdp.shaping.reach import upwards

if TYPE_CHECKING:
    from tightdp.inference.uneven_errors import ErrorSizes
    from tightdp.mechanisms.error_look import ErrorLook
    from tightdp.mechanisms.tilted_squares import TiltedSquares
    from tightdp.mechanisms.two_looks import TwoLooks


POSTS = ("shrink", "none", "published")
METHODS = ("moments", "objective")
ASSUMPTIONS = ("equal variance",)

_LARGEST_RIDGE = 1e15  # beside moments of at most 1: coefficients are lost to rounding


class LeastSquares(PreviewedLine):
    r"""Releases the noisy moments of a regression, and reads coefficients and intervals off them.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for a person with
    at most ``rows_per_person`` rows.
    Needs: the bounds of the schema are public facts.
    Proof: 1. The noisy moments are epsilon-DP by the proof of
    :class:`~tightdp.mechanisms.least_squares.SplitMechanism`, with two stages by that of
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
            about=f"{COVERED}; {fit.clamped}" if fit.clamped else COVERED,
            covers="population",
        )

    def ridge(self, rows: float | None = None) -> FloatArray:
        """The penalty on every scaled coefficient, divided by the number of rows."""
        many = self.schema.rows if rows is None else rows
        return np.asarray(self.alpha / many / self.design.half[:-1] ** 2)


def _check_spread(spread: object, features: Sequence[str]) -> Spread | None:
    """Shares in (0, 1] of all features, or of some of them by name."""
    if spread is None:
        return None
    if not isinstance(spread, Mapping):
        return check_within("spread", spread, "(0, 1]")
    for name in spread:
        check_choice("spread", name, features)
    return {name: check_within("spread", share, "(0, 1]") for name, share in spread.items()}


COVERED = (
    "intervals are for the population's coefficients, whatever the errors are, and count noise and "
    "sampling error; they have no ends where noise hides how features vary"
)


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A regression computed from released moments and public facts alone.

    ``products`` holds the mean products of (1, d, y), scaled, as they were released, ``rows`` the
    number of rows, if it is a noisy one, ``look`` what a second look at the rows has shown,
    ``sizes`` what one at the errors has, and ``tilt`` of what the products follow, if they were
    not released themselves.
    """

    mechanism: LeastSquares
    products: FloatArray
    rows: float = 0.0
    look: SecondLook | None = None
    sizes: ErrorSizes | None = None
    tilt: TiltedLook | None = None
    _drawn: dict[str | None, Candidates] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows or float(self.mechanism.schema.rows))

    @property
    def coefficients(self) -> FloatArray:
        """Intercept (0 without one) and slopes in user units."""
        return self._in_user_units(self.solve()[None])[0]

    def intervals(
        self, alpha: float, *, simultaneous: bool = False, assume: str | None = None
    ) -> FloatArray:
        """Rows (low, high) for intercept and slopes; see :meth:`LinearRegression.conf_int`."""
        rule = simultaneous_intervals if simultaneous else quantile_intervals
        found = self.candidates(assume)
        values, room = self._in_user_units(found.values), self._room(found)
        return holding(self.coefficients, rule(values - room, alpha, values + room))

    def tested(
        self, weights: FloatArray, estimate: FloatArray, null: FloatArray, assume: str | None
    ) -> float:
        """The p-value of the equations ``weights @ coefficients = null``, in user units."""
        values, room, draws = self.sums(weights, assume)
        together = assume is not None
        return p_value(values, estimate, null, draws, ellipsoid=together, room=room)

    def sums(
        self, weights: FloatArray, assume: str | None = None
    ) -> tuple[FloatArray, FloatArray, int]:
        """Candidates for ``weights @ coefficients`` in user units, their room, and how many noises
        they have.

        Where errors have equal variance, sums of candidates are candidates for sums. Where they
        may not, a sum of several coefficients has a largest sampling error of its own; and so it
        has where nothing is known of one of its terms.
        """
        if assume is not None or not (np.count_nonzero(weights, axis=1) > 1).any():
            found = self.candidates(assume)
            values, room = self._in_user_units(found.values), self._room(found)
            untold = np.isinf(room) @ (weights.T != 0)
            if not (untold & (np.count_nonzero(weights, axis=1) > 1)).any():
                finite = np.where(np.isinf(room), 0.0, room) @ np.abs(weights.T)
                return values @ weights.T, np.where(untold, np.inf, finite), len(found.noise_only)
        # of columns that vary together each alone may have any slope, but not their sum
        design = self.mechanism.design
        found = self._simulated(assume, weights @ design.linear)
        return found.values + weights @ design.offset, found.room, len(found.noise_only)

    def _room(self, found: Candidates) -> FloatArray:
        """How far the clamp of a second look can have moved candidates, in user units."""
        room = np.asarray(found.room * self.mechanism.design.units)
        if not self.mechanism.fit_intercept:
            room[:, 0] = 0.0
        return room

    @property
    def clamped(self) -> str:
        """Which targets the second look has moved, in words; nothing where there was none."""
        half = float(self.mechanism.design.half[-1])
        if self.tilt is not None:
            return (
                f"residuals beyond {self.tilt.reach * half:.3g} count as so large, and intervals "
                "count what that can have changed"
            )
        if self.look is None:
            return ""
        reach = self.look.reach * half
        return (
            f"targets farther than {reach:.3g} from a first line were moved to there, and "
            "intervals count what that can have changed"
        )

    def unclipped(self) -> LinearFit:
        """The same as if no residual had been clipped: what the clip costs intervals."""
        assert self.tilt is not None
        return replace(self, tilt=replace(self.tilt, moved=-np.inf), _drawn={})

    def noise_std(self, assume: str | None = None) -> FloatArray:
        """Half the distance of the quantiles of the noise one sigma away."""
        bare = self._in_user_units(self.candidates(assume).noise_only)
        return np.subtract(*np.quantile(bare, [0.8413, 0.1587], axis=0)) / 2

    def candidates(self, assume: str | None = None) -> Candidates:
        """Scaled coefficients that the released moments are compatible with, simulated once."""
        if assume is not None:
            check_choice("assume", assume, ASSUMPTIONS)
        if assume not in self._drawn:
            self._drawn[assume] = self._simulated(assume)
        return self._drawn[assume]

    def _simulated(self, assume: str | None, combined: FloatArray | None = None) -> Candidates:
        mechanism, rng, noisy = self.mechanism, SeededSource(self._seed()), self._noisy()
        origin, look = mechanism.design.origin, self.tilt or self.look

        def noise(count: int) -> FloatArray:
            drawn = mechanism.moments.simulate(count, rng=rng)
            first = mechanism.statistic.on_products(drawn, self.products, self.rows)
            if mechanism.tilted is not None and self.tilt is not None:
                return noisy.combined_noise(first, mechanism.tilted.simulate(self.tilt, count, rng))
            if mechanism.looks is None or self.look is None:
                return first
            return noisy.combined_noise(first, mechanism.looks.simulate(self.look, count, rng))

        return candidates(
            noisy.combined(),
            noise,
            self._independent_rows(),
            rng,
            Wanted(
                shift=None if mechanism.fit_intercept else -origin,
                ridge=mechanism.ridge(self.rows),
                origin=origin[:-1],
                equal_variance=assume is not None,
                combined=combined,
                sizes=self.sizes,
                farthest=look.farthest if look is not None else 0.0,
                levels=mechanism.design.levels,
            ),
        )

    def _noisy(self) -> NoisyMoments:
        """The released moments with the law of their noise."""
        mechanism = self.mechanism
        known = (mechanism.statistic, self.products, mechanism.moments.covariance, self.rows)
        if self.tilt is not None:
            return TiltedMoments(*known, tilt=self.tilt)
        return NoisyMoments(*known, self.look)

    def _seed(self) -> int:
        """Of simulations after the release: the same for a release, another one for the next.

        With one seed for all, the same draws would decide how often intervals of one mechanism
        hold, for everybody and again and again.
        """
        first = zlib.crc32(np.ascontiguousarray(self.products).data)
        if self.look is None:
            return first
        return zlib.crc32(np.ascontiguousarray(self.look.products).data, first)

    def _independent_rows(self) -> int:
        """Rows that the sampling error is that of: fewer, where they are counted or a person's."""
        low = self.mechanism.statistic.least_rows(self.rows, self.mechanism.moments.covariance)
        return max(1, int(low / self.mechanism.schema.rows_per_person))

    def _in_user_units(self, scaled: FloatArray) -> FloatArray:
        found = self.mechanism.design.to_user(scaled)
        if not self.mechanism.fit_intercept:
            found[:, 0] = 0.0
        return found

    def solve(self) -> FloatArray:
        """(intercept, slopes) for scaled columns; one row for each of many matrices of products."""
        mechanism = self.mechanism
        if mechanism.post != "shrink":
            return self._published()
        return self._noisy().line(
            length=LENGTH,
            ridge=mechanism.ridge(self.rows),
            shift=None if mechanism.fit_intercept else -mechanism.design.origin,
        )

    def _published(self) -> FloatArray:
        """The pseudo-inverse of Awan and Slavkovic (2021), or their ridge, on the moments as
        they are."""
        mechanism, M = self.mechanism, self.products
        first, origin = (0 if mechanism.fit_intercept else 1), mechanism.design.origin
        if not mechanism.fit_intercept:
            M = moved(M, -origin)
        G, c = M[..., first:-1, first:-1], M[..., first:-1, -1]
        penalty = np.append([0.0] * (1 - first), mechanism.ridge(self.rows))
        if mechanism.post == "published":
            size = len(mechanism.statistic)
            penalty = penalty + 16 * size / (float(mechanism.epsilon) * self.rows)
        found = (np.linalg.pinv(G + np.diag(penalty)) @ c[..., None])[..., 0]
        if not mechanism.fit_intercept:
            level = origin[-1] - found @ origin[:-1]
            found = np.concatenate([level[..., None], found], axis=-1)
        return np.asarray(found)


class SplitMechanism(Mechanism):
    r"""Releases :math:`t(X) + (z_1, ..., z_k)`: every part of a statistic with its own noise.

    Density of :math:`z_i`: :math:`P(z_i) \propto \exp(-\epsilon_i\,\mathrm{level}_i(z_i)/L_i)` on
    the lattice, :math:`\epsilon_i = s_i \epsilon` with shares :math:`s_i` that sum to at most 1; or
    the integers nearest to nuclear noise (:class:`~tightdp.NuclearNoise`).

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: [P1] the ball of a part contains the changes of its entries by one row;
    [P2] t(X) is the exact integer vector of quantised rows; [P3] the noises are independent and
    have their stated laws; [P4] the shares sum to at most 1, in rational arithmetic.
    Proof: 1. A part plus its noise is :math:`\epsilon_i`-DP, as for
    :class:`~tightdp.AdditiveMechanism` or :class:`~tightdp.NuclearNoise` [P1, P2, P3]; the r rows
    of a person move it by r times what one row does, and :math:`L_i` is that. 2. Independent
    releases about the same rows add up: :math:`\sum_i s_i \epsilon \le \epsilon` [P3, P4].
    Numerics: ``exact``.
    Order of events: parameters are checked, the ledger is charged once, the noise is drawn, and
    only then are rows read.

    A split is itself a K-norm mechanism, whose norm is the weighted sum of the norms of the parts.
    Its ball is larger than the hull, but the noise can be put where it harms least: in a regression
    the noise of the features' own moments is multiplied by the coefficients, which are small.

    Parameters
    ----------
    statistic : Statistic
        Its entries are those of the parts, in order.
    parts : sequence of Part
    epsilon : float, Fraction or Decimal
    """

    def __init__(self, statistic: Statistic, parts: Sequence[Part], *, epsilon: Number) -> None:
        self.statistic, self.parts = statistic, tuple(parts)
        self.epsilon, self.neighbors = check_epsilon(epsilon), statistic.schema.neighbors
        check_length("parts", sum(part.dim for part in self.parts), len(statistic))
        if any(part.share <= 0 for part in self.parts) or sum(p.share for p in self.parts) > 1:
            fail("The shares of the parts must be positive and sum to at most 1.")  # [P4]
        self.bits = statistic.schema.bits
        self.persons = statistic.schema.rows_per_person
        spent = (self.epsilon, self.resolution, self.persons)
        self.noises = [part.noise(*spent) for part in self.parts]
        for noise in self.noises:
            noise.check_feasible()
        self.certified = certify_moves(statistic, self).certified  # [P1]

    @property
    def cost(self) -> Cost:
        """The costs of the parts, of which each is pure, add."""
        parts = Cost.total([Cost.of(self.epsilon * part.share) for part in self.parts])
        return replace(parts, epsilon=self.epsilon)

    # --- which moves it covers ----------------------------------------------------------------

    factor = 1

    def _where(self) -> list[slice]:
        """The entries of every part."""
        edges = list(accumulate((part.dim for part in self.parts), initial=0))
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the level of every part is at most that which its noise was made for."""
        parts = zip(self.noises, self._where(), strict=True)
        rows = self.statistic.schema.rows_per_person
        person = moves if rows == 1 else rows * moves.astype(object)
        return np.all([n.covers(person[:, where]) for n, where in parts], axis=0)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return False  # squares are among the entries: their extreme rows are too many to list

    def covers_by_structure(self) -> bool:
        """The balls of the parts hold the changes of their entries by the proofs that made them."""
        return True

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self.statistic.resolution(self.bits)

    @property
    def law(self) -> str:
        """The exact law of the noise, in words."""
        words = [part.law(noise) for part, noise in zip(self.parts, self.noises, strict=True)]
        return f"integers z by parts, {'; '.join(words)}, in units of 1/{self.resolution}"

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled entries; of many the vector of their variances.

        Where bodies have no preferred signs, as boxes and l_p balls, entries are not correlated.
        """
        spent = self.epsilon / self.persons
        alike = all(part.ball.unconditional for part in self.parts)
        if len(self.statistic) > MOST_MATRIX and alike:
            return np.concatenate([part.variances(spent) for part in self.parts])
        out = np.zeros((len(self.statistic), len(self.statistic)))
        for part, where in zip(self.parts, self._where(), strict=True):
            out[where, where] = part.covariance(spent)
        return out

    def half_widths(self, confidence: float) -> FloatArray:
        """Simultaneous half-widths: all entries of all parts are within them at once."""
        each = 1 - (1 - confidence) / len(self.parts)
        halves = []
        for part, noise in zip(self.parts, self.noises, strict=True):
            halves.append(part.half_widths(noise, self.resolution, each, self.persons))
        return upwards(np.concatenate(halves)) + self.statistic.rounding(self.bits)

    def preview(self, confidence: float = 0.95) -> Preview:
        """The errors of the scaled entries, from the law of the noise; costs nothing."""
        level, std = check_confidence(confidence), np.sqrt(variances_of(self.covariance))
        said = (level, self.guarantee(), self.law)
        return Preview(self.statistic.names, std, self.half_widths(level), *said)

    def simulate(self, size: int, *, rng: RandomLike = None) -> FloatArray:
        """Noise of the same law on the scaled entries, shape (size, entries), for simulations."""
        bits = source(rng)
        drawn = [part.simulate(self.epsilon / self.persons, size, bits) for part in self.parts]
        return np.hstack(drawn)

    # --- the release --------------------------------------------------------------------------

    def label(self) -> str:
        return repr(self.statistic)

    def shape_facts(self) -> list[str]:
        return [part.facts(n) for part, n in zip(self.parts, self.noises, strict=True)]

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.statistic.schema, self.statistic.columns)
        check_public_rows(frame, self.statistic.schema)

    def integer_sums(self) -> Sequence[IntegerSum]:
        return [self.statistic.integer_sum(self.bits)]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        # before the data are read: its timing tells nothing
        noise = [int(z) for part in self.noises for z in part.sample(rng=rng)]  # [P3]
        covariance, half = self.covariance, self.half_widths(confidence)

        def finish(table: TableLike, progress: bool) -> Draft:
            exact = self.statistic.measure(table, bits=self.bits, progress=progress)  # [P2]
            noisy = tuple(int(t) + z for t, z in zip(exact, noise, strict=True))
            value = [z / self.resolution for z in noisy]
            error = Known(covariance=covariance, half_width=half)
            return Draft.of(self.statistic.names, value, noisy, self.resolution, error)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)
