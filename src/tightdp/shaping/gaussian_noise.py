r"""Gaussian noise for a vector of integers, paid for once: by the length of its longest move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.accounting.conversions import (
    gaussian_dp_delta,
    gaussian_dp_mu_squared,
    root_up,
    zcdp_delta,
    zcdp_rho,
)
from tightdp.data.public_rows import independent_images
from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, amount_within, check_length, exact_amount, fail
from tightdp.exact.discrete_draws import discrete_gaussians, rounded_gaussians
from tightdp.noise.discrete_curves import near_delta, summed_delta
from tightdp.noise.rounded_gaussian import (
    READ_AT,
    RoundedGaussian,
    read_epsilon,
    rounded_moment,
    short_up,
)
from tightdp.privacy import check_epsilon, float_up, text_up
from tightdp.randomness import RandomLike, source
from tightdp.shaping.coordinate_noise import check_share, float_down
from tightdp.shaping.l2_moves import L2Moves, RoundNoise, is_paired
from tightdp.shaping.reach import (
    PUBLIC_SEED,
    how_many,
    is_whole,
    remembered,
    simultaneous,
    upwards,
)
from tightdp.shaping.stated_errors import Wishes, entry_units

GAUSSIANS = ("gaussian", "discrete-gaussian")
_WEIGHT_BITS = 64  # of the weights of variances that differ: what is rounded up is 2**-64 of them
_ENUMERATED = 512.0  # below this sigma tails of the discrete Gaussian are summed
_WINDOW = 45.0
_MOST_PATTERNS = 16  # of moves that are summed one by one
_MOST_ROWS = 64  # of a block whose moves are
_LEAST_VARIANCE = 1e-40  # what little noise leaves is noise, but no double
_STEPS = 28  # of a search for a variance, whose first bracket is a factor of two


class GaussianNoise(RoundNoise):
    r"""Independent integers around 0, Gaussian with variances :math:`\sigma_j^2`, on every entry.

    **Privacy.** Neighbours move the integer statistic by d with
    :math:`\sum_j d_j^2/\sigma_j^2 \le \mu^2` [P1], a rational computed from the largest weighted
    square of the moves of a person (:class:`~tightdp.shaping.l2_moves.L2Moves`). Rounded normal
    variables: the release is a function of the Gaussian mechanism, hence exactly
    :math:`\mu`-Gaussian DP, :math:`\mu^2/2`-zCDP, and :math:`(\epsilon, \delta)`-DP where its curve
    says so (:class:`~tightdp.RoundedGaussian`) [P2]. Discrete Gaussians: :math:`\mu^2/2`-zCDP, and
    :math:`(\epsilon, \delta)`-DP by the least of the curves of
    :mod:`~tightdp.noise.discrete_curves` [P3].

    Attributes
    ----------
    rho, mu2 : Fraction
        Exact; ``mu2`` bounds Gaussian DP for rounded noise only, ``rho`` holds for both.
    in_rho : bool
        Whether the promise is made in rho, and epsilon was read off at delta.
    variances : tuple of Fraction
        In steps of the lattice, before rounding.
    """

    def __init__(
        self,
        moves: L2Moves,
        scale: Fraction,
        *,
        discrete: bool,
        epsilon: Fraction,
        delta: Fraction,
        read: bool = False,
    ) -> None:
        self.statistic, self.bits = moves.statistic, moves.bits
        self.moves, self.discrete = moves, discrete
        self.epsilon, self.delta = epsilon, delta
        self.variances = tuple(scale / weight for weight in moves.weights)
        self.mu2 = moves.square / scale  # [P1]
        self.rho = self.mu2 / 2
        self.in_rho = read
        self.resolution = self.statistic.resolution(self.bits)
        self._kinds = list(dict.fromkeys(self.variances))

    @property
    def cost(self) -> Cost:
        """Rho is exact, and for rounded noise mu is; epsilon and delta are those of the release."""
        if self.discrete:
            return Cost.concentrated(self.rho, delta=self.delta, epsilon=self.epsilon)
        return Cost.gaussian(self.mu2, delta=self.delta, epsilon=self.epsilon)

    # --- the law --------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """The law, for people; :meth:`facts` has it to the last digit."""
        kind = "discrete Gaussians" if self.discrete else "Gaussians rounded to integers"
        sizes = [float(variance) ** 0.5 for variance in self._kinds]
        spread = f"sigma {sizes[0]:.6g}"
        if len(sizes) > 1:
            spread = f"sigma from {min(sizes):.6g} to {max(sizes):.6g}"
        mu = text_up(self.mu2)
        return (
            f"independent {kind}, {spread}, squared l2 move {mu}, in units of 1/{self.resolution}"
        )

    def facts(self) -> list[str]:
        """All variances, which words leave out."""
        return [f"{self.words}: {', '.join(map(str, self.variances))}"]

    @property
    def draws(self) -> GaussianNoise:
        return self

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Draws: a vector of integers, or ``size`` rows of them."""
        bits, count = source(rng), 1 if size is None else size
        draw = discrete_gaussians if self.discrete else rounded_gaussians
        if len(self._kinds) == 1:
            draws = draw(self._kinds[0], (count, len(self.variances)), bits)
        else:
            draws = np.column_stack([draw(each, count, bits) for each in self.variances])
        return draws[0] if size is None else draws

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic."""
        known = {each: self._variance_of(each) for each in self._kinds}
        each = [known[variance] for variance in self.variances]
        return np.diag(each) / float(self.resolution) ** 2

    def _variance_of(self, variance: Fraction) -> float:
        if not self.discrete:
            return max(rounded_moment(float(variance), 2), _LEAST_VARIANCE)
        if variance > _ENUMERATED:
            return float(variance)  # up to exp(-2 pi^2 sigma^2)
        z, p = _mass(float(variance))
        return max(2 * float((z * z * p).sum()), _LEAST_VARIANCE)

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise.

        One entry each: by independence, from the tails of the integers. Mixed ones: normal
        variables are independent or nearer to each other than that (Šidák, 1967), and rounding
        moves each by half a step; discrete ones by draws.
        """
        whole = is_whole(linear, self.resolution)
        rows = len(linear)
        miss = 1 - confidence ** (1 / max(1, rows))
        if np.count_nonzero(linear, axis=1).max() == 1:
            ends = {each: self._end(each, miss) for each in self._kinds}
            far = np.array([ends[each] for each in self.variances]) / self.resolution
            return upwards(np.abs(linear) @ far, whole=whole)
        if self.discrete:
            key = (self.words, confidence)
            return remembered(key, linear, lambda: self._drawn(linear, confidence, whole))
        spread = np.sqrt(linear**2 @ np.array([float(v) for v in self.variances]))
        half = -float(scipy.special.ndtri(miss / 2)) * spread + np.abs(linear).sum(axis=1) / 2
        return upwards(half / self.resolution, whole=whole)

    def _end(self, variance: Fraction, miss: float) -> float:
        """The least integer h with P(abs(Z) > h) <= miss, or one more."""
        sigma = math.sqrt(variance)
        normal = -sigma * float(scipy.special.ndtri(miss / 2))
        if not self.discrete:
            return math.ceil(normal * (1 + 2.0**-40) - 0.5)
        if sigma > _ENUMERATED:
            return math.ceil(normal * (1 + 2.0**-40)) + 1
        tails = np.cumsum(_mass(float(variance))[1][::-1])[::-1]  # P(Z >= 1), P(Z >= 2), ...
        return float(np.searchsorted(-2 * tails * (1 + 1e-12), -miss))

    def _drawn(self, linear: FloatArray, confidence: float, whole: bool) -> FloatArray:
        size = how_many(len(self.variances), confidence)
        draws = np.asarray(self.sample(size, rng=PUBLIC_SEED), dtype=np.float64) / self.resolution
        spread = np.sqrt(np.diag(linear @ self.covariance() @ linear.T))
        return upwards(simultaneous(draws @ linear.T, spread, confidence), whole=whole)


def _mass(variance: float) -> tuple[FloatArray, FloatArray]:
    """z = 1, 2, ... and their probabilities under the discrete Gaussian."""
    z = np.arange(1, math.ceil(_WINDOW * math.sqrt(variance)) + 2, dtype=np.float64)
    weights = np.exp(-z * z / (2 * variance))
    return z, weights / (2 * weights.sum() + 1)


# --- made for a budget ----------------------------------------------------------------------------


def gaussian_noise(
    statistic: Statistic,
    name: str,
    epsilon: Number | None,
    delta: Number,
    rho: Number | None = None,
    wishes: Wishes | None = None,
) -> GaussianNoise:
    """The named Gaussian noise with the least variance that (epsilon, delta), or rho, allows."""
    bits, discrete = statistic.schema.bits, name == "discrete-gaussian"
    wanted = Wishes() if wishes is None else wishes
    best, ones = wanted.lattice_weights(statistic, bits), (1,) * len(statistic)
    made = [_made(L2Moves.of(statistic, bits, best), name, epsilon, delta, rho)]
    if discrete and rho is None and best != ones:  # equal ones have the sharper curve
        made.append(_made(L2Moves.of(statistic, bits, ones), name, epsilon, delta, rho))
    return min(made, key=lambda noise: wanted.total(noise.covariance()))


def _made(
    moves: L2Moves, name: str, epsilon: Number | None, delta: Number, rho: Number | None
) -> GaussianNoise:
    discrete = name == "discrete-gaussian"
    if rho is not None:
        if epsilon is not None:
            fail("`epsilon` must be left out where `rho` is given: it is read off at `delta`.")
        scale = _short(moves.square / (2 * amount_within("rho", rho, "(0, inf)")))
        return _read(moves, scale, discrete, None, delta)
    asked, lost = check_epsilon(epsilon), check_share(delta)
    if not lost:
        fail(f"`noise` {name!r} needs `delta` > 0, or `rho`. Got delta = {delta}.")
    scale = _short(moves.square / gaussian_dp_mu_squared(asked, lost))  # [P2]
    if discrete:
        enough = _short(moves.square / (2 * zcdp_rho(asked, lost)))  # [P3]
        curve = _Curve(moves)
        scale = _least_scale(lambda s: curve.at_least_known(asked, s) <= lost, scale / 2, enough)
    return GaussianNoise(moves, scale, discrete=discrete, epsilon=asked, delta=lost)


def given_gaussian(
    statistic: Statistic, law: RoundedGaussian, epsilon: Number | None, delta: Number
) -> GaussianNoise:
    """Rounded Gaussian noise of stated variances, in the units of the release."""
    bits, entries = statistic.schema.bits, len(statistic)
    given = law.variances
    if len(given) > 1:
        check_length("sigma2", len(given), entries)
    units = entry_units(statistic)
    fine = statistic.resolution(bits)
    variances = [
        variance * fine * fine / unit**2
        for variance, unit in zip(itertools.cycle(given), units, strict=False)
    ]
    if len(set(variances)) == 1:
        weights, scale = (1,) * entries, variances[0]
    else:  # weights rounded up: variances are less than stated by 2**-64, and paid for as they are
        scale = max(variances) * (1 << _WEIGHT_BITS)
        weights = tuple(math.ceil(scale / variance) for variance in variances)
    moves = L2Moves.of(statistic, bits, weights)
    return _read(moves, scale, False, epsilon, delta)


def _read(
    moves: L2Moves, scale: Fraction, discrete: bool, epsilon: Number | None, delta: Number
) -> GaussianNoise:
    """Noise of a given variance, with the epsilon at a delta, or the delta at an epsilon."""
    stated = check_share(delta)
    lost = stated if stated else exact_amount("delta", READ_AT)
    mu2, curve = moves.square / scale, _Curve(moves)
    if epsilon is None:
        spent = read_epsilon(mu2, lost)
        if discrete:
            spent = _least_epsilon(lambda at: curve.delta(at, scale) <= lost, spent)
        return GaussianNoise(moves, scale, discrete=discrete, epsilon=spent, delta=lost, read=True)
    spent = check_epsilon(epsilon)
    found = curve.delta(spent, scale) if discrete else gaussian_dp_delta(spent, mu2)
    if found >= 1 or (stated and found > stated):
        fail(
            f"`epsilon` and `delta` must cover the noise: at epsilon = {text_up(spent)} its delta "
            f"is {text_up(min(Fraction(1), found))}. Leave one of them out, or take more noise."
        )
    lost = stated if stated else exact_amount("delta", float_up(found))
    return GaussianNoise(moves, scale, discrete=discrete, epsilon=spent, delta=lost)


def _least_epsilon(fits: Callable[[Fraction], bool], start: Fraction) -> Fraction:
    """An epsilon that fits, the least one up to a part in 2**20, as a short decimal."""
    high = float(start)
    while not fits(exact_amount("epsilon", high)):
        high *= 1.25
    low = high / 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fine = fits(exact_amount("epsilon", middle))
        low, high = (low, middle) if fine else (middle, high)
    return short_up(exact_amount("epsilon", high))


def _least_scale(fits: Callable[[Fraction], bool], low: Fraction, enough: Fraction) -> Fraction:
    """A short rational that fits, the least one up to a part in 2**26, or what is enough."""
    if not fits(enough):
        return enough  # which another curve allows
    high = enough
    for _ in range(_STEPS):
        middle = _short((low + high) / 2)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _short(scale: Fraction) -> Fraction:
    """The next larger multiple of a power of two, of some 48 bits."""
    places = 48 - (scale.numerator.bit_length() - scale.denominator.bit_length())
    if places <= 0:
        return Fraction(math.ceil(scale / (1 << -places)) << -places)
    return Fraction(math.ceil(scale * (1 << places)), 1 << places)


# --- discrete Gaussians at (epsilon, delta) -------------------------------------------------------


class _Curve:
    """The delta of discrete Gaussians: the least of the curves that are proved."""

    def __init__(self, moves: L2Moves) -> None:
        self._moves, self._patterns = moves, _patterns(moves)

    def delta(self, epsilon: Fraction, scale: Fraction) -> Fraction:
        concentrated = zcdp_delta(epsilon, self._moves.square / scale / 2)
        return min(concentrated, self.at_least_known(epsilon, scale))

    def at_least_known(self, epsilon: Fraction, scale: Fraction) -> Fraction:
        """Without the curve of rho."""
        at, moves = float_down(epsilon), self._moves
        mu = float(root_up(moves.square / scale, 64)) * (1 + 2.0**-50)
        variances = [float(scale / weight) for weight in moves.weights]
        least = min(1.0, near_delta(at, mu, variances))
        if self._patterns is not None:
            found = [summed_delta(at, moved, variances[0]) for moved in self._patterns]
            known = [delta for delta in found if delta is not None]
            if len(known) == len(found):
                least = min(least, max(known))
        return Fraction(least)


def _patterns(moves: L2Moves) -> list[tuple[int, ...]] | None:
    """Sizes of the entries that move, for moves between which all others lie; None if too many.

    A smaller move of one entry is told apart by less (the Lemma of half-lines, for every epsilon,
    and hence for products): only moves that no other exceeds in every entry need a look. Entries
    of one sigma may change places.
    """
    statistic = moves.statistic
    if statistic.schema.rows_per_person > 1 or len(set(moves.weights)) > 1 or statistic.degree:
        return None
    parts: list[list[tuple[int, ...]]] = []
    for block in independent_images(statistic, moves.bits):
        if not block.complete or len(block.values) > _MOST_ROWS:
            return None
        points = block.values
        if is_paired(statistic):
            first, second = np.triu_indices(len(points), 1)
            points = points[first] - points[second]
        sizes = np.unique(-np.sort(-np.abs(points), axis=1), axis=0)
        largest = [
            row
            for i, row in enumerate(sizes)
            if not any((row <= other).all() for j, other in enumerate(sizes) if j != i)
        ]
        if len(largest) > _MOST_PATTERNS:
            return None
        parts.append([tuple(int(d) for d in row if d) for row in largest])
    if math.prod(map(len, parts)) > _MOST_PATTERNS:
        return None
    whole = {tuple(sorted(itertools.chain(*choice))) for choice in itertools.product(*parts)}
    return sorted(moved for moved in whole if moved) or None
