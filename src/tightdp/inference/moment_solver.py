r"""From noisy second moments to coefficients, with the known law of the noise and nothing else.

Scaled to [-1, 1] and divided by n, the moments of features and target are C (covariances of the
features) and g (with the target), both seen through noise of known variance. The coefficients
solve C b = g. Three things go wrong when one simply solves: noise makes C indefinite or nearly
singular, the noise of C is multiplied by b, and a noisy g is longer than the true one. So what the
released moments themselves say decides how far each of them is trusted (empirical Bayes):

1. means of the numeric features are shrunk towards the middle of their bounds by the positive-part
   James-Stein factor: 1 where they stand out of the noise, 0 where they cannot be told from it. The
   noise of a mean reaches g multiplied by the mean of the target, which may lie anywhere;
2. correlations between features are shrunk towards their common value, and that towards 0, each
   by the factor that the noise asks for; negative eigenvalues of C become 0;
3. b is the posterior mean for :math:`g \mid b \sim N(Cb, R)`, R the variance of the noise of
   g plus that of C times b. Along the singular vectors of C, in units of the noise of g, b is
   normal about 0 with one width :math:`\tau` for all, with widths in proportion to the singular
   values (where columns that vary together act together), or with a width for each, and the
   likelihood of g weighs the three. A width says how large b is, and so what the noise of C adds:
   R is :math:`1 + \kappa \tau^2` times the noise of g, :math:`\kappa` on average over the entries
   (of one slope, with a width of its own, the share of one). Two rounds then go half of the way
   each to the posterior mean with R at b itself, entry by entry, where a few slopes are large.
   Whole rounds from 0 would go in circles: small slopes have little noise and stand out of it,
   large ones have much and do not.
   Beforehand a width has the tail of Student's law with two degrees of freedom (Gelman, 2006), and
   a density that vanishes at 0, so that moderate effects are not taken for none (Chung and others,
   2013): fast where there are few directions, which say little about a width, and hardly where
   there are many. Directions in which C is small compared with the noise stay near 0.

As epsilon grows R tends to 0 and b to the least-squares estimate. All functions take one matrix of
moments or many, along leading axes.

*Two looks.* The first look is at all moments of features and target. Its line l is public, so that
a second look can be at the residuals :math:`r = y - l_0 - l \cdot d` alone: at few sums, of numbers
that are small. With C the covariances of the features, g those with the target and h those with
the residuals, :math:`C b = g` and :math:`C (b - l) = h`. The second equation has little noise of
its own, and the noise of C is multiplied by b - l, which is small, instead of b. Both together,

.. math:: C b = (1 - w)\,g + w\,(h + C l),

in which the noise of C is multiplied by b - w l, with the weight w that makes the noise least.
That is small beside b, so R is the one at b itself, found in a few rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray
from tightdp.inference.error_scales import affine_influences

_ROUNDS, _HALF_ROUNDS = 4, 2
_WIDTHS = np.geomspace(1e-6, 1e4, 51)  # values of tau^2
_LEAST = 1e-12  # a standard deviation of the noise below which nothing is shrunk
_TINY = 1e-300
_FEW, _MOST_POWER, _TAIL = 4, 3.0, 2.0  # directions, and exponents: see step 3


@dataclass(frozen=True, slots=True, eq=False)
class Centred:
    """Covariances of features C and with the target g, and the variances of their noise."""

    C: FloatArray
    g: FloatArray
    C_noise: FloatArray
    g_noise: FloatArray
    mean: FloatArray
    mean_noise: FloatArray
    target_mean: FloatArray

    def noisy(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The noise of C, g, and the noise of g."""
        return self.C_noise, self.g, self.g_noise


def centred(M: FloatArray, noise: FloatArray, numeric: NDArray[np.bool_]) -> Centred:
    """Step 1, from second moments of z = (1, d, y) and the variances of their noise.

    ``M`` has shape (..., q + 2, q + 2), ``noise`` (q + 2, q + 2); ``numeric`` marks the columns
    of d that are no indicators.
    """
    m, v = np.clip(M[..., 0, 1:-1], -1, 1), noise[0, 1:-1]
    y, y_noise = np.clip(M[..., 0, -1], -1, 1), float(noise[0, -1])
    factor = np.ones_like(m)
    factor[..., numeric] = _kept(
        v[numeric].sum(), (m[..., numeric] ** 2).sum(axis=-1, keepdims=True)
    )
    m, v = factor * m, factor * v
    square = m**2
    # E m^2 exceeds the square of the mean by v
    C = M[..., 1:-1, 1:-1] - _outer(m, m) + v[..., None] * np.eye(m.shape[-1])
    C_noise = noise[1:-1, 1:-1] + _outer(square, v) + _outer(v, square)
    g_noise = noise[1:-1, -1] + square * y_noise + v * y[..., None] ** 2
    g = M[..., 1:-1, -1] - m * y[..., None]
    return Centred(C, g, C_noise, g_noise, m, v, y)


def through(
    parts: Centred, C: FloatArray, y_noise: float, shift: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """C, the noise in it, g and its noise about a public point instead of the means.

    ``shift`` is minus that point, for the features and then the target: a line without intercept
    passes it.
    """
    m, y, v = parts.mean + shift[:-1], parts.target_mean[..., None] + shift[-1], parts.mean_noise
    return (
        C + _outer(m, m),
        parts.C_noise + _outer(m**2, v) + _outer(v, m**2),
        parts.g + m * y,
        parts.g_noise + m**2 * y_noise + y**2 * v,
    )


def shrunk(parts: Centred, free: NDArray[np.bool_]) -> FloatArray:
    """Step 2: a positive semidefinite C.

    ``free`` marks the pairs of features that are shrunk; exclusive indicators are not.
    """
    C = parts.C.copy()
    own = np.arange(C.shape[-1])
    C[..., own, own] = np.clip(C[..., own, own], 0.0, 1.0)
    i, j = np.nonzero(np.triu(free, 1))
    if len(i):
        noise = parts.C_noise
        # a variance that drowns in noise is no unit to measure with
        spread = np.sqrt(np.maximum(C[..., own, own], np.sqrt(noise[..., own, own])) + _TINY)
        unit = spread[..., i] * spread[..., j]
        correlation, v = C[..., i, j] / unit, noise[..., i, j] / unit**2 + _TINY
        found = np.clip(_towards_common(correlation, v), -1, 1) * unit
        C[..., i, j] = C[..., j, i] = found
    value, vector = np.linalg.eigh(C)
    return np.asarray((vector * np.maximum(value, 0.0)[..., None, :]) @ np.swapaxes(vector, -1, -2))


def _towards_common(values: FloatArray, noise: FloatArray) -> FloatArray:
    """Noisy values shrunk towards their weighted mean, and that towards 0, along the last axis."""
    weight = 1 / noise
    total = weight.sum(axis=-1, keepdims=True)
    common = (weight * values).sum(axis=-1, keepdims=True) / total
    common = common * _kept(1 / total, common**2)
    apart = values - common
    freedom = max(values.shape[-1] - 1, 1)
    return common + _kept(freedom, (apart**2 * weight).sum(axis=-1, keepdims=True)) * apart


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a[..., :, None] * b[..., None, :])


def _kept(noise: FloatArray | float, square: FloatArray) -> FloatArray:
    """The positive-part James-Stein factor: the share of a square that is not noise."""
    return np.maximum(1 - noise / np.maximum(square, _TINY), 0.0)


def solve(
    C: FloatArray,
    C_noise: FloatArray,
    g: FloatArray,
    g_noise: FloatArray,
    *,
    length: float,
    about: FloatArray | None = None,
) -> FloatArray:
    """Step 3: the posterior mean of b, whose squared length is about ``length`` beforehand.

    The noise of C is multiplied by b, or by b less ``about`` where that is known to be small.
    """
    if float(g_noise.max(initial=0.0)) < _LEAST**2:
        return np.asarray((np.linalg.pinv(C) @ g[..., None])[..., 0])

    def there(slopes: FloatArray) -> FloatArray:
        """The posterior mean with the noise that C adds where it is multiplied by these."""
        root = np.sqrt(g_noise + (C_noise @ (slopes**2)[..., None])[..., 0])
        return _posterior_mean(C / root[..., None], g / root, length, np.zeros(g.shape[:-1]))

    if about is None:
        root = np.sqrt(g_noise)
        added = (C_noise.sum(axis=-1) / np.maximum(g_noise, _TINY)).mean(axis=-1)
        b = _posterior_mean(C / root[..., None], g / root, length, added)
        for _ in range(_HALF_ROUNDS):
            b = (b + there(b)) / 2
        return b
    b = np.zeros_like(g)
    for _ in range(_ROUNDS):
        b = there(b - about)
    return b


def _posterior_mean(A: FloatArray, h: FloatArray, length: float, added: FloatArray) -> FloatArray:
    """The mean of b over b and widths, where b is normal along the singular vectors of A.

    For h ~ N(A b, v I), where v is 1 plus ``added`` times the squared width.
    """
    U, size, W = np.linalg.svd(A)
    along = (np.swapaxes(U, -1, -2) @ h[..., None])[..., 0]
    many = h.shape[-1]
    scale, power = np.sqrt(_WIDTHS * many / length), min(1 + _FEW / many, _MOST_POWER)
    # on logarithmic steps: a density tau^(power - 1) / (1 + tau^(power + 2))
    prior = scale**power / (1 + scale ** (power + _TAIL))
    prior = np.log(prior / prior.sum())[:, None]
    noise, same = 1 + (added[..., None] * _WIDTHS)[..., None], np.ones_like(size)
    whole = np.maximum((size**2).mean(axis=-1, keepdims=True), _TINY)
    models = []
    for share in (same, size**2 / whole):
        log, kept = _by_width(size, along, share, noise)
        models.append(_average(log.sum(axis=-1, keepdims=True) + prior, kept))
    log, kept = _by_width(size, along, same, 1 + (noise - 1) / many)  # a width for each
    models.append(_average(log + prior, kept))
    evidence = np.stack([log.sum(axis=-1) for log, _ in models])
    evidence[-1] += np.log(_FEW / many)  # of many widths some are large by chance
    weight = np.exp(evidence - evidence.max(axis=0))
    weight /= weight.sum(axis=0)
    found = sum(w[..., None] * factor for w, (_, factor) in zip(weight, models, strict=True))
    return np.asarray((np.swapaxes(W, -1, -2) @ (found * along)[..., None])[..., 0])


def _by_width(
    size: FloatArray, along: FloatArray, share: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log-likelihoods of every direction, and by what to multiply, for every squared width.

    ``share`` is the squared width of a direction over that of all, ``noise`` the variance of
    ``along`` but for b.
    """
    width = _WIDTHS[:, None] * share[..., None, :]
    spread = noise + width * size[..., None, :] ** 2
    each = -(np.log(spread) + along[..., None, :] ** 2 / spread) / 2
    return each, width * size[..., None, :] / spread


def _average(log_weight: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the sum of weights, and the weighted mean of values, along the widths."""
    top = log_weight.max(axis=-2)
    weight = np.exp(log_weight - top[..., None, :])
    total = weight.sum(axis=-2)
    return top + np.log(total), (weight * values).sum(axis=-2) / total


# --- the line that one look at the rows leaves, or two --------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SecondLook:
    """Mean products of (1, d) with the residuals of a line, and the variances of their noise.

    ``line`` holds intercept and slopes, ``reach`` is how far residuals count, and ``moved`` by how
    much on average that has moved them, with noise; all for scaled columns.
    """

    line: FloatArray
    reach: float
    products: FloatArray
    variances: FloatArray
    moved: float = 0.0

    @property
    def farthest(self) -> float:
        """The most that a residual can have been moved."""
        return max(1 + float(np.abs(self.line).sum()) - self.reach, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoments:
    """Mean products of z = (1, d, y), scaled, with the covariance of the noise on their sums."""

    moments: RegressionMoments
    products: FloatArray
    covariance: FloatArray
    rows: float
    look: SecondLook | None = None

    def variances(self) -> FloatArray:
        """Of the noise on the products, squares of indicators included."""
        found = self.moments.product_variances(self.covariance, self.products, self.rows)
        np.fill_diagonal(found[1:-1, 1:-1], self._own(found))
        return found

    def _own(self, noise: FloatArray) -> FloatArray:
        """On the diagonal: of squares, and of the sums that stand for indicators' squares."""
        own = np.diag(noise)[1:-1].copy()
        known = {int(i) for i, j, _ in self.moments.entries if i == j}
        for place in range(1, self.moments.outcome):
            if place not in known:
                own[place - 1] = noise[0, place]
        return own

    def _centred(self, noise: FloatArray, products: FloatArray) -> Centred:
        numeric = np.zeros(len(self.moments.design), dtype=bool)
        squares = [i - 1 for i, j, _ in self.moments.entries if 0 < i == j < self.moments.outcome]
        numeric[squares] = True
        return centred(products, noise, numeric)

    def line(
        self, *, length: float, ridge: FloatArray | None = None, shift: FloatArray | None = None
    ) -> FloatArray:
        """(intercept, slopes), shrunk by what the moments say about their noise.

        ``shift`` is minus a public point that the line passes; None for an intercept. ``ridge`` is
        a penalty on every slope.
        """
        noise = self.variances()
        parts = self._centred(noise, self.products)
        C, C_noise, g, g_noise = shrunk(parts, self.moments.paired()), *parts.noisy()
        if shift is not None:
            C, C_noise, g, g_noise = through(parts, C, float(noise[0, -1]), shift)
        level, about = parts.target_mean, None
        if self.look is not None:
            h, h_noise, residual_level = self._residuals(noise, C, shift)
            w, first = self.weight(), self.look.line
            about = w * first[1:]
            g = (1 - w) * g + w * (h + C @ first[1:])
            g_noise = (1 - w) ** 2 * g_noise + w**2 * h_noise
            foreseen = residual_level + first[0] + parts.mean @ first[1:]
            level = (1 - w) * level + w * foreseen
        slopes = solve(
            C if ridge is None else C + np.diag(ridge),
            C_noise,
            g,
            g_noise,
            length=length,
            about=about,
        )
        if shift is not None:
            level = -shift[-1] + slopes @ shift[:-1]
        else:
            level = level - (parts.mean * slopes).sum(axis=-1)
        return np.concatenate([np.asarray(level)[..., None], slopes], axis=-1)

    def influences(
        self, weights: FloatArray, *, ridge: FloatArray, shift: FloatArray | None
    ) -> FloatArray:
        """Of a row on weighted sums of (intercept, slopes), as affine functions of d.

        Shape (sums, q + 1), the constant first. Directions in which C is not told from its noise
        count as if it were as large as that. ``ridge`` and ``shift`` as for :meth:`line`.
        """
        noise = self.variances()
        parts = self._centred(noise, self.products)
        C, middle, mean = shrunk(parts, self.moments.paired()), -parts.mean, parts.mean
        if shift is not None:
            C, *_ = through(parts, C, float(noise[0, -1]), shift)
            middle, mean = shift[:-1], 0 * parts.mean
        value, vector = np.linalg.eigh(C + np.diag(ridge))
        floor = float(np.sqrt(parts.C_noise.max())) + _LEAST
        inverse = (vector / np.maximum(value, floor)) @ vector.T
        return affine_influences(weights, mean, inverse, middle)

    def _residuals(
        self, noise: FloatArray, C: FloatArray, shift: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Covariances of features and residuals, the variances of their noise, the mean residual.

        About a public point, what the first line lacks there counts as a residual.
        """
        assert self.look is not None
        products, own, line = self.products.copy(), noise.copy(), self.look.line
        products[:-1, -1] = products[-1, :-1] = self.look.products
        own[:-1, -1] = own[-1, :-1] = self.look.variances
        parts = self._centred(own, products)
        if shift is None:
            return parts.g, parts.g_noise, parts.target_mean
        lacking = line[0] - shift[:-1] @ line[1:] + shift[-1]
        moved = np.append(shift[:-1], lacking)
        _, _, h, h_noise = through(parts, C, float(own[0, -1]), moved)
        return h, h_noise, parts.target_mean

    def weight(self) -> float:
        """Of the second look; the less noise it has beside the first, the closer to 1."""
        if self.look is None:
            return 0.0
        v, line = self.variances(), self.look.line
        first = float((v[:-1, -1] + v[:-1, :-1] @ line**2).sum())
        return first / max(first + float(self.look.variances.sum()), _TINY)

    def combined(self) -> FloatArray:
        """The products, with what both looks say of those with the target.

        Their corner, 1, gets what is added where the second look has moved targets; see
        :func:`~tightdp.inference.coefficient_intervals.candidates`.
        """
        if self.look is None:
            return self.products
        out = self.products.copy()
        both = self._joined(out[None], self.look.products[None])[0]
        out[:-1, -1] = out[-1, :-1] = both
        out[0, 0] += self.weight() * self.look.moved
        return out

    def combined_noise(self, noise: FloatArray, second: FloatArray) -> FloatArray:
        """The noise in :meth:`combined`, from draws of that of both looks."""
        out = noise.copy()
        both = self._joined(out, second[:, :-1])
        out[:, :-1, -1] = out[:, -1, :-1] = both
        out[:, 0, 0] += self.weight() * second[:, -1]
        return out

    def _joined(self, products: FloatArray, residuals: FloatArray) -> FloatArray:
        assert self.look is not None
        w = self.weight()
        foreseen = residuals + products[:, :-1, :-1] @ self.look.line
        return np.asarray((1 - w) * products[:, :-1, -1] + w * foreseen)

    def residual_square(self, line: FloatArray) -> tuple[float, float]:
        """The mean square of the residuals of a line, and the variance of the noise in it."""
        sides = np.append(-line, 1.0)
        own = np.square(sides)
        # an entry off the diagonal counts twice
        variance = 2 * float(own @ self.variances() @ own)
        return float(sides @ self.products @ sides), variance
