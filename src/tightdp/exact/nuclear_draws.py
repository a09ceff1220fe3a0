r"""Integers near a symmetric matrix with density :math:`e^{-\|M\|_*}`, exactly.

A draw is a function of independent uniform reals U, of which 63 bits are drawn at first and more of
**the same** U as long as a question is open (:mod:`~tightdp.exact.undecided_bits`):

- :math:`-\ln U` is exponential; :math:`y = -\ln U` with a fair sign is normal if
  :math:`-\ln U' \ge (y - 1)^2/2`, else both are drawn anew;
- from these the triangular factors of P and Q (:mod:`~tightdp.geometry.nuclear_spectrum`), kept
  if :math:`U'' \le \det(P \otimes I + I \otimes Q)/\det(P + tI)^l`;
- where replaced rows are protected, kept before that if :math:`-\ln U''' \ge |tr P - tr Q|`, which
  makes the density :math:`e^{-\|M\|_* - |tr M|}`;
- of more than 12 rows of a matrix practically no proposal is kept: there the eigenvalues are drawn
  one after the other (:mod:`~tightdp.exact.ordered_eigenvalues`), in more time each;
- then Haar: reflections that take an axis to the direction of a normal vector, in dimension
  2, 3, ..., N (Diaconis and Shahshahani 1987, the subgroup algorithm; the sign that is Haar on O(1)
  changes nothing, because the law of P and Q is the same for every sign of their last axis, and a
  diagonal matrix is the same for every sign of an axis);
- then every entry is multiplied by a rational and rounded.

**Exactness.** Statement: what is returned is the stated function of the very U, so the law is the
stated one, with no float in it.
Needs: [N1] ``np.log`` errs by at most 8 units in the last place (as in
:mod:`~tightdp.exact.discrete_draws`); [N2] + - * / and square roots of doubles round to nearest,
and sums of products are sums of products, in any order.
Proof: the two questions that are asked of many proposals at once are answered by doubles with a
bound on their error, and only where the bound leaves no doubt; for eigenvalues the bound is found
afterwards, from residuals (:func:`_enclosed`), and holds whatever routine found them. What is left
open, and all that is done after a proposal is kept, is fixed-point arithmetic with proved errors
(:mod:`~tightdp.exact.fixed_point`), done again with more bits of all U of the draw until it is
settled. Ties have probability 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, fail
from tightdp.exact.fixed_point import Fixed, UnsettledError, joined, pivots
from tightdp.exact.nuclear_proposals import Layout, Proposals, thinned
from tightdp.exact.ordered_eigenvalues import Eigenvalues
from tightdp.exact.rejection import WeightTable
from tightdp.exact.undecided_normals import SPARE, Uniforms, normals
from tightdp.geometry.nuclear_spectrum import Mixture, mixture
from tightdp.randomness import RandomSource, Words

Mask = NDArray[np.bool_]
Answer = TypeVar("Answer")
Place = tuple[int, int, Fraction]
"""Row and column of an entry, and a positive factor."""

_UNIT = 2.0**-52
_BATCH = 2048
_DEPTH = 2  # words of every number with which rounding is tried first: one hardly ever does
_MOST_PROPOSED = 12  # rows: at 13 both ways take about a tenth of a second
_MASS = 2.0**-40  # rounding of products of a few hundred factors


# --- which proposals are kept, in doubles ---------------------------------------------------------


def kept(proposals: Proposals, rng: RandomSource) -> tuple[NDArray[np.intp], list[Proposals]]:
    """Places of the proposals that are kept, and these, with all bits that were drawn of them."""
    count = len(proposals.kappa)
    if proposals.layout.other == 0 or count == 0:
        return np.arange(count), [proposals.row(i) for i in range(count)]
    yes, open_ones = _filter(proposals)
    places, out = [], []
    for i in np.flatnonzero(yes | open_ones):
        row = proposals.row(int(i))
        if open_ones[i]:
            keep, row = settled(row, rng, _accepts)
            if not keep:
                continue
        places.append(int(i))
        out.append(row)
    return np.array(places, dtype=np.intp), out


def _filter(proposals: Proposals) -> tuple[Mask, Mask]:
    r"""Whether each proposal is certainly kept, and whether that is open.

    Diagonals settle most. Let :math:`f(a) = \sum_j \ln(a + b_j) - l \ln(a + t)`, concave in a as
    t is the mean of the b_j; the logarithm of the ratio is :math:`\sum_i f(a_i)`, at most
    :math:`\sum_i f(p_{ii})`, because eigenvalues majorise the diagonal (Schur), and f is at most
    what it is with the diagonal of Q instead of the b_j. Eigenvalues are found for the others.
    Bounds are infinite where doubles tell nothing, and then it is open.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return _filtered(proposals)


def _filtered(proposals: Proposals) -> tuple[Mask, Mask]:
    factors = _Factors.of(proposals)
    coin = (proposals.coin.words[0] >> np.uint64(1)).astype(np.float64) * 2.0**-63
    coin_off = coin * _MASS + 2.0**-62
    yes = np.zeros(len(coin), dtype=np.bool_)
    open_ones = ~(coin - coin_off > factors.ratio_of_diagonals() * (1 + _MASS))
    rows = np.flatnonzero(open_ones)
    if len(rows):
        low, high = factors.rows(rows).ratios()
        yes[rows] = coin[rows] + coin_off[rows] < low * (1 - _MASS)
        open_ones[rows] = ~(yes[rows] | (coin[rows] - coin_off[rows] > high * (1 + _MASS)))
    return yes, open_ones


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """Triangular factors of P and of Q before it is stretched, bounds on their errors (Frobenius),
    and what is added to the trace of Q."""

    P: FloatArray
    p_off: FloatArray
    Q: FloatArray
    q_off: FloatArray
    more: FloatArray
    more_off: FloatArray

    @classmethod
    def of(cls, proposals: Proposals) -> _Factors:
        layout, count = proposals.layout, len(proposals.kappa)
        k, other = layout.k, layout.other
        y, y_off = proposals.exponentials.minus_log()
        x, x_off = proposals.normals.minus_log()
        slots = layout.slots(proposals.kappa) + (k + 1 + other) * np.arange(count)[:, None]

        def added(part: FloatArray) -> FloatArray:
            total = np.bincount(slots.ravel(), part.ravel(), count * (k + 1 + other))
            return np.asarray(total, dtype=np.float64).reshape(count, -1)

        sums, off = added(y), added(y_off)
        first, second = layout.below
        extra = np.array(layout.squared, dtype=np.intp)
        square, square_off = x[:, first + second :], x_off[:, first + second :]
        sums[:, extra] += square**2 / 2
        off[:, extra] += square_off * (square + square_off)
        off += (y.shape[1] + 4) * _UNIT * sums
        below = proposals.normals.signs * x * 0.5**0.5
        at = slice(first, first + second)
        return cls(
            *_triangle(sums[:, :k], off[:, :k], below[:, :first], x_off[:, :first]),
            *_triangle(sums[:, k + 1 :], off[:, k + 1 :], below[:, at], x_off[:, at]),
            sums[:, k],
            off[:, k],
        )

    def rows(self, at: NDArray[np.intp]) -> _Factors:
        """Some of them."""
        own, other = (self.P[at], self.p_off[at]), (self.Q[at], self.q_off[at])
        return _Factors(*own, *other, self.more[at], self.more_off[at])

    def _stretched(self) -> tuple[FloatArray, ...]:
        """tr Q, its final size over it, their mean t, and bounds on the errors of the three."""
        other = self.Q.shape[-1]
        size = _frobenius(self.Q)
        trace = size * size  # of T T'
        trace_off = self.q_off * (2 * size + self.q_off) + 2.0**-38 * trace
        known = trace > 2 * trace_off  # else anything can be
        stretch = 1 + np.divide(self.more, trace, out=np.zeros_like(trace), where=known)
        stretch_off = np.full_like(trace, np.inf)
        lost = self.more_off + stretch * trace_off
        np.divide(lost, trace - trace_off, out=stretch_off, where=known)
        stretch_off += 4 * _UNIT * stretch
        t = (trace + self.more) / other
        return trace, trace_off, stretch, stretch_off, t, (trace_off + self.more_off) / other

    def ratio_of_diagonals(self) -> FloatArray:
        """What the ratio of the determinants is at most, by the diagonals of P and Q."""
        _, _, stretch, stretch_off, t, t_off = self._stretched()
        p, q = (self.P**2).sum(axis=2), (self.Q**2).sum(axis=2)
        p_off, q_off = _squared_off(self.P, self.p_off), _squared_off(self.Q, self.q_off)
        q_high = (q + q_off[:, None]) * (stretch + stretch_off)[:, None]
        p_low, t_low = np.maximum(p - p_off[:, None], 0), np.maximum(t - 2 * t_off, 1e-300)
        out, shift = np.ones(len(t)), (p + p_off[:, None], t_low)
        for i in range(p.shape[1]):
            bottom = p_low[:, i] + shift[1]
            for j in range(q.shape[1]):
                out *= (shift[0][:, i] + q_high[:, j]) / bottom
        return out

    def ratios(self) -> tuple[FloatArray, FloatArray]:
        """Bounds on the ratio of the determinants, by eigenvalues."""
        _, _, stretch, stretch_off, t, t_off = self._stretched()
        P, Q = (T @ T.transpose(0, 2, 1) for T in (self.P, self.Q))
        size, q_off = _frobenius(Q), _squared_off(self.Q, self.q_off)
        q_off = q_off * (stretch + stretch_off) + (stretch_off + 4 * _UNIT * stretch) * size
        a, a_off = _enclosed(P, _squared_off(self.P, self.p_off))
        b, b_off = _enclosed(Q * stretch[:, None, None], q_off)
        a_low, b_low = np.maximum(a - a_off[:, None], 0), np.maximum(b - b_off[:, None], 0)
        a_high, b_high = a + a_off[:, None], b + b_off[:, None]
        t_low, t_high = np.maximum(t - 2 * t_off, 1e-300), t + 2 * t_off
        low, high = np.ones(len(t)), np.ones(len(t))
        for i in range(a.shape[1]):
            for j in range(b.shape[1]):
                high *= (a_high[:, i] + b_high[:, j]) / (a_low[:, i] + t_low)
                low *= (a_low[:, i] + b_low[:, j]) / (a_high[:, i] + t_high)
        return low, high


def _triangle(
    sums: FloatArray, off: FloatArray, below: FloatArray, below_off: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """T with the roots of the sums on its diagonal, and a bound on its error."""
    count, k = sums.shape
    T = np.zeros((count, k, k))
    i, j = np.tril_indices(k, -1)
    place = np.arange(k)
    T[:, i, j] = below
    T[:, place, place] = root = np.sqrt(sums)
    # |sqrt(s) - sqrt(s')| <= |s - s'| / sqrt(s); entries below are multiplied by sqrt(1/2)
    lost = (off / root).sum(axis=1) + below_off.sum(axis=1)
    return T, lost + 8 * k * _UNIT * _frobenius(T)


def _squared_off(T: FloatArray, off: FloatArray) -> FloatArray:
    """A bound on the error of T T', in the Frobenius norm."""
    size = _frobenius(T)
    return np.asarray(off * (2 * size + off) + 2 * T.shape[-1] * _UNIT * size**2)


def _enclosed(A: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Sorted eigenvalues of matrices within ``off`` of A, and how far each can be away.

    Let X and d be what a routine returned, :math:`\epsilon \ge |X^T X - I|` below 1/2. The nearest
    orthogonal W is within epsilon of X, and :math:`|A - W d W^T| = |AW - Wd| \le |AX - Xd| +
    \epsilon(|A| + \max|d|)`: by Weyl's inequality no eigenvalue is further than that from its d.
    """
    n = A.shape[-1]
    d, X = np.linalg.eigh(A)
    rounding = (n + 4) * _UNIT
    size, width, top = _frobenius(A), _frobenius(X), np.abs(d).max(axis=1)
    residual = _frobenius(A @ X - X * d[:, None, :]) + rounding * width * (size + top)
    skew = _frobenius(X.transpose(0, 2, 1) @ X - np.eye(n)) + rounding * (width**2 + n)
    far = (residual + skew * (size + top)) * (1 + 2.0**-20) + off * (1 + 2.0**-20)
    return np.sort(d, axis=1), np.where(skew < 0.5, far, np.inf)


def _frobenius(A: FloatArray) -> FloatArray:
    return np.sqrt((A * A).sum(axis=(1, 2))) * (1 + 2.0**-40)


# --- one proposal, to any precision ---------------------------------------------------------------


def settled(
    row: Proposals, rng: RandomSource, ask: Callable[[Proposals, int], Answer]
) -> tuple[Answer, Proposals]:
    """The answer to a question about one proposal, and it with the bits that it took."""
    depth = row.depth
    while True:
        row = row.longer(rng, depth)
        try:
            return ask(row, 64 * depth + SPARE), row
        except UnsettledError:
            depth += 1


def _accepts(row: Proposals, places: int) -> bool:
    """Whether the coin is at most the ratio of the determinants."""
    P, Q, t = fixed_factors(row, places)
    k, other = row.layout.k, row.layout.other
    both = _kronecker_sum(P, Q)
    shifted = _kronecker_sum(P, Fixed.of(np.eye(other, dtype=object) * 0, places))
    diagonal = np.arange(k * other)
    shifted.middle[diagonal, diagonal] += int(t.middle)
    shifted = Fixed(shifted.middle, shifted.error + t.error, places)
    values, bits = row.coin.integers()
    up = places - bits
    left = Fixed(np.array(values[0] << up, dtype=object), 1 << up, places)
    right = Fixed.of(1, places)
    for one, two in zip(pivots(both), pivots(shifted), strict=True):
        right = right * one * two.reciprocal()
    gap = right - left
    if abs(int(gap.middle)) <= gap.error:
        raise UnsettledError
    return int(gap.middle) > 0


def _kronecker_sum(P: Fixed, Q: Fixed) -> Fixed:
    """P x I + I x Q."""
    k, other = len(P.middle), len(Q.middle)
    out = np.zeros((k, other, k, other), dtype=object)
    for j in range(other):
        out[:, j, :, j] += P.middle
    for i in range(k):
        out[i, :, i, :] += Q.middle
    return Fixed(out.reshape(k * other, k * other), P.error + Q.error, P.places)


def fixed_factors(row: Proposals, places: int) -> tuple[Fixed, Fixed, Fixed]:
    """P, Q and t of one proposal, in fixed point."""
    layout = row.layout
    k, other = layout.k, layout.other
    y = row.exponentials[0].exponentials(places)
    x = row.normals[0].exponentials(places)
    slots, (first, second) = layout.slots(row.kappa)[0], layout.below
    sums = [y[slots == slot].sum() for slot in range(k + 1 + other)]
    for place, slot in enumerate(layout.squared):
        square = x[first + second + place] * x[first + second + place]
        sums[slot] = sums[slot] + square * Fixed(np.array(1 << places - 1, dtype=object), 0, places)
    half = Fixed(np.array(1 << places - 1, dtype=object), 0, places).root()
    below = x * half
    below = Fixed(below.middle * row.normals[0].signs, below.error, places)
    P = _fixed_square(sums[:k], below[:first], places)
    Q = _fixed_square(sums[k + 1 :], below[first : first + second], places)
    if other == 0:
        return P, Q, Fixed.of(0, places)
    trace = Fixed(np.array(int(np.trace(Q.middle)), dtype=object), Q.error * other, places)
    whole = trace + sums[k]
    share = Fixed.of(other, places).reciprocal()
    return P, Q * (whole * trace.reciprocal()), whole * share


def _fixed_square(sums: list[Fixed], below: Fixed, places: int) -> Fixed:
    k = len(sums)
    if k == 0:
        return Fixed(np.zeros((0, 0), dtype=object), 0, places)
    roots = joined(sums, places).root()
    T = np.zeros((k, k), dtype=object)
    T[np.tril_indices(k, -1)] = below.middle
    T[np.arange(k), np.arange(k)] = roots.middle
    factor = Fixed(T, max(below.error, roots.error), places)
    return factor @ factor.transposed


# --- the matrix, and its rounding -----------------------------------------------------------------


def nuclear_integers(
    size: int,
    places: Sequence[Place],
    count: int,
    rng: RandomSource,
    *,
    replaced: bool = False,
) -> Any:
    """Integers near multiples of entries of M: shape (count, places), Python integers.

    A place (i, j, c) stands for the integer nearest to c M_ij. With ``replaced`` the density of M
    has the factor exp(-|tr M|), too.

    >>> from tightdp.randomness import source
    >>> nuclear_integers(2, [(0, 0, Fraction(9)), (0, 1, Fraction(9))], 3, source(1)).shape
    (3, 2)
    """
    drawn: Iterable[UnrotatedMatrix]
    if size <= _MOST_PROPOSED:
        drawn = (_Signed(row, rng.words(1)) for row in _proposed(size, count, rng, replaced))
    elif replaced:
        fail("Noise of larger matrices does not know the trace.")
    else:
        drawn = (Eigenvalues(Uniforms.draw((size,), rng)) for _ in range(count))
    out = np.empty((count, len(places)), dtype=object)
    for row, one in enumerate(drawn):
        out[row] = _rounded(one, size, places, rng)
    return out


class UnrotatedMatrix(Protocol):
    """A matrix before it is rotated, of which more bits can be drawn."""

    @property
    def depth(self) -> int: ...

    def longer(self, rng: RandomSource, depth: int) -> UnrotatedMatrix: ...

    def matrix(self, places: int) -> Fixed: ...


@dataclass(frozen=True, slots=True)
class _Signed:
    """A proposal that was kept: P and -Q, or -P and Q."""

    row: Proposals
    word: Words

    @property
    def depth(self) -> int:
        return self.row.depth

    def longer(self, rng: RandomSource, depth: int) -> _Signed:
        return _Signed(self.row.longer(rng, depth), self.word)

    def matrix(self, places: int) -> Fixed:
        P, Q, _ = fixed_factors(self.row, places)
        k, size = self.row.layout.k, self.row.layout.k + self.row.layout.other
        sign = 1 - 2 * int(self.word[0] & np.uint64(1))
        start = np.zeros((size, size), dtype=object)
        start[:k, :k], start[k:, k:] = sign * P.middle, -sign * Q.middle
        return Fixed(start, max(P.error, Q.error), places)


def _proposed(size: int, count: int, rng: RandomSource, replaced: bool) -> list[Proposals]:
    """So many proposals that are kept."""
    parts, batch = mixture(size), max(8, count)
    found: list[Proposals] = []
    while len(found) < count:
        batch = min(_BATCH, 2 * batch)
        found += _batch(parts, batch, rng, replaced)
    return found[:count]


@lru_cache(maxsize=16)
def _table(size: int) -> WeightTable:
    return WeightTable(mixture(size).weights)


def _batch(parts: Mixture, count: int, rng: RandomSource, replaced: bool) -> list[Proposals]:
    """Those of so many proposals that are kept, in the order in which they were drawn."""
    chosen = _table(parts.size).draw(count, rng)
    places: list[NDArray[np.intp]] = []
    rows: list[Proposals] = []
    for k in np.unique(parts.positive[chosen]):
        of_size = np.flatnonzero(parts.positive[chosen] == k)
        layout = Layout(int(k), parts.size - int(k))
        proposals = Proposals.draw(layout, parts.partitions[chosen[of_size], : int(k)], rng)
        if replaced:
            thin, proposals = thinned(proposals, rng)
            of_size = of_size[thin]
        at, keep = kept(proposals, rng)
        places.append(of_size[at])
        rows += keep
    order = np.argsort(np.concatenate(places))
    return [rows[i] for i in order]


def _rounded(
    drawn: UnrotatedMatrix, size: int, places: Sequence[Place], rng: RandomSource
) -> list[int]:
    """The integers nearest to multiples of entries of one matrix, rotated."""
    axes = normals((size + 2) * (size - 1) // 2, rng)
    depth = max(_DEPTH, drawn.depth, len(axes.words))
    while True:
        drawn, axes = drawn.longer(rng, depth), axes.longer(rng, depth)
        try:
            return _nearest(rotated(drawn.matrix(64 * depth + SPARE), axes), places)
        except UnsettledError:
            depth += 1


def rotated(M: Fixed, axes: Uniforms) -> Fixed:
    """H M H', H the product of reflections in dimension 2, 3, ..., N.

    Reflections keep the Frobenius norm of what M is off by, and each adds what it may itself be off
    by, as if M were exact: no entry is off by more than the sum of these norms.
    """
    plain = axes.exponentials(M.places)
    x = Fixed(plain.middle * axes.signs, plain.error, M.places)
    size, used = len(M.middle), 0
    lost = size * M.error
    for d in range(2, size + 1):
        M = _reflected(Fixed(M.middle, 0, M.places), x[used : used + d], size - d)
        lost += size * M.error
        used += d
    return Fixed(M.middle, lost, M.places)


def _reflected(M: Fixed, x: Fixed, first: int) -> Fixed:
    """F M F, F = I - 2 v v' / v'v with v = x + sgn(x_1) |x| e_1 on the axes from ``first`` on."""
    length = (x * x).sum().root()
    v = np.zeros(len(M.middle), dtype=object)
    v[first:] = x.middle
    v[first] += int(length.middle) * (1 if x.middle[0] >= 0 else -1)
    along = Fixed(v, x.error + length.error, M.places)
    # the zeros above the first axis are exact; counting them as uncertain costs a bit or two
    twice = (along * along).sum().reciprocal()
    weight = twice + twice
    y = (M @ along) * weight
    c = (along * y).sum() * weight
    outer = along[:, None] @ y[None, :]
    return M - outer - outer.transposed + (along[:, None] @ along[None, :]) * c


def _nearest(M: Fixed, places: Sequence[Place]) -> list[int]:
    """floor(c M_ij + 1/2) where the bounds agree on it."""
    out = []
    for i, j, factor in places:
        num, den = 2 * factor.numerator, factor.denominator << M.places
        middle = int(M.middle[i, j])
        low, high = (((middle + e) * num + den) // (2 * den) for e in (-M.error, M.error))
        if low != high:
            raise UnsettledError
        out.append(low)
    return out
