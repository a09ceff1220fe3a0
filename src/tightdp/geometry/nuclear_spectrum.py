r"""Symmetric matrices M with density proportional to :math:`e^{-\|M\|_*}`: sizes, and a mixture.

:math:`\|M\|_*` is the nuclear norm, the sum of the sizes of the eigenvalues. Eigenvectors are Haar,
and the eigenvalues have the density :math:`\prod_{i<j}|l_i - l_j|\,e^{-\sum|l_i|}`, whose integrals
are Pfaffians of rationals (:func:`spectrum`). Draws come from a finite mixture of matrices that
need no chain (:func:`mixture`), with rational weights; some are refused.

**The mixture.** Let k eigenvalues be of one sign and l = N - k of the other, :math:`k \ge l` and a
fair sign for the rest. Then :math:`M = H\,(P \oplus -Q)\,H^T`, H Haar, and P, Q positive definite
of size k and l have the density :math:`\det(P \otimes I + I \otimes Q)\,e^{-tr P - tr Q}`.

1. With :math:`t = tr Q / l`, :math:`\det(P \otimes I + I \otimes Q) \le \det(P + tI)^l`, by the
   inequality of the means for every eigenvalue of P: what is drawn from the right side is kept with
   the ratio of the two.
2. :math:`\det(P + tI)^l = \sum_\kappa t^{kl - |\kappa|}\,|(-l)_\kappa|\,C_\kappa(P) / |\kappa|!`,
   the zonal polynomials of partitions of at most k parts, at most l each: Muirhead (1982),
   Corollary 7.3.5, whose series ends here and has positive terms.
3. :math:`C_\kappa(P)/C_\kappa(I)` is the mean over rotations of
   :math:`\prod_j t_{jj}^{2\kappa_j}`, P = T T' with a triangular T. So, up to the rotation by H, T
   has independent entries: :math:`t_{jj}^2` is Gamma(:math:`\kappa_j + (k + 2 - j)/2`), those below
   are N(0, 1/2) (Bartlett). Its weight is Theorem 7.2.7 of Muirhead, :math:`C_\kappa(I)` his (18)
   of 7.2.1.
4. Q is a Wishart matrix of l + 1 degrees of freedom (T with kappa = 0) whose trace is made Gamma
   with :math:`kl - |\kappa|` more: the factor t to that power.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.randomness import RandomSource, SeededSource

Partition = tuple[int, ...]

_POOL = 6_000  # spectra that simulations draw from
# E of the squares and of the squared trace where the density has the factor exp(-|tr M|), and the
# part of the integral that it leaves: of one row exact, of others from 100,000 spectra and more
_REPLACED = (
    (0.5, 0.5, 0.5),
    (3.894, 1.142, 0.2919),
    (14.00, 1.452, 0.2109),
    (33.42, 1.654, 0.1619),
    (64.60, 1.755, 0.1325),
    (110.3, 1.817, 0.1123),
    (172.6, 1.831, 0.0987),
)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Sizes of the law of M: all exact, rounded once."""

    log_integral: float
    """Logarithm of the integral of the density over the entries on and above the diagonal."""
    squares: float
    """E of the sum of the squares of the eigenvalues."""
    trace: float
    """E of the square of the trace."""


@lru_cache(maxsize=64)
def spectrum(size: int) -> Spectrum:
    r"""Integral and second moments of the law of M, by de Bruijn's Pfaffian.

    For ordered eigenvalues the density is a determinant, and its integral is
    :math:`\sqrt{\det A}`, :math:`A_{ij} = \int\int sgn(y - x) x^i y^j e^{-|x|-|y|}`, bordered by
    :math:`\int x^i e^{-|x|}` where N is odd. With weights :math:`e^{-|x| + \theta x}` or
    :math:`(1 + \theta x^2) e^{-|x|}` its derivatives at 0 are the moments.

    >>> round(spectrum(1).squares, 9), round(math.exp(spectrum(1).log_integral), 9)
    (2.0, 2.0)
    """
    odd = size % 2

    def matrix(*terms: tuple[int, int, int]) -> list[list[Fraction]]:
        """Sum of c A with exponents raised by (r, s), for the terms (c, r, s)."""
        rows = [
            [sum((c * _pair(i + r, j + s) for c, r, s in terms), Fraction(0)) for j in range(size)]
            for i in range(size)
        ]
        if odd:
            # one variable is on its own: its factor is x^r where the weight is (x + y)^r
            power = max(r + s for _, r, s in terms)
            edge = [_single(i + power) for i in range(size)]
            rows = [[*row, Fraction(e)] for row, e in zip(rows, edge, strict=True)]
            rows.append([*(Fraction(-e) for e in edge), Fraction(0)])
        return rows

    plain = matrix((1, 0, 0))
    first = matrix((1, 1, 0), (1, 0, 1))
    second = matrix((1, 2, 0), (2, 1, 1), (1, 0, 2))
    square = matrix((1, 2, 0), (1, 0, 2))
    determinant, [by_first, by_second, by_square] = _solve(plain, [first, second, square])
    twice = sum(
        by_first[i][j] * by_first[j][i] for i in range(len(plain)) for j in range(len(plain))
    )
    trace = (_trace(by_second) - twice) / 2
    # Muirhead (1982), Theorem 3.2.17: from ordered eigenvalues to entries
    log_rotations = size**2 / 2 * math.log(math.pi) - (
        size * (size - 1) / 4 * math.log(math.pi)
        + sum(math.lgamma((size - i) / 2) for i in range(size))
    )
    log_ordered = (math.log(determinant.numerator) - math.log(determinant.denominator)) / 2
    return Spectrum(log_rotations + log_ordered, float(_trace(by_square) / 2), float(trace))


def _single(i: int) -> int:
    """Integral of x^i exp(-|x|)."""
    return 0 if i % 2 else 2 * math.factorial(i)


@lru_cache(maxsize=1 << 12)
def _pair(i: int, j: int) -> Fraction:
    """Integral of sgn(y - x) x^i y^j exp(-|x| - |y|)."""
    if (i + j) % 2 == 0:
        return Fraction(0)
    # of Gammas of i + 1 and j + 1 the first is smaller: i + 1 heads come before j + 1 tails
    terms = (Fraction(math.comb(i + r, r), 1 << (i + 1 + r)) for r in range(j + 1))
    sooner = sum(terms, Fraction(0))
    sign = 1 if i % 2 == 0 else -1
    return 2 * (2 * sooner - 1 + sign) * math.factorial(i) * math.factorial(j)


def _solve(
    A: list[list[Fraction]], right: list[list[list[Fraction]]]
) -> tuple[Fraction, list[list[list[Fraction]]]]:
    """det A, and A^-1 B for every B, by elimination in rationals."""
    size = len(A)
    rows = [[*A[i], *(x for B in right for x in B[i])] for i in range(size)]
    determinant = Fraction(1)
    for i in range(size):
        at = next(j for j in range(i, size) if rows[j][i] != 0)
        if at != i:
            rows[i], rows[at], determinant = rows[at], rows[i], -determinant
        determinant *= rows[i][i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(size):
            if j != i and (factor := rows[j][i]) != 0:
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    cuts = range(size, size * (len(right) + 1), size)
    return determinant, [[row[c : c + size] for row in rows] for c in cuts]


def _trace(matrix: list[list[Fraction]]) -> Fraction:
    return sum((matrix[i][i] for i in range(len(matrix))), Fraction(0))


# --- the mixture ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Parts of the mixture: sizes k, partitions with zeros up to N, and integer weights."""

    size: int
    positive: NDArray[np.int64]
    partitions: NDArray[np.int64]
    weights: tuple[int, ...]


@lru_cache(maxsize=16)
def mixture(size: int) -> Mixture:
    """The mixture of the module, for matrices of one size; weights are exact up to one factor.

    >>> mixture(2).positive.tolist(), mixture(2).weights
    ([1, 1, 2], (1, 1, 1))
    """
    listed: list[tuple[int, Partition]] = []
    weights: list[Fraction] = []
    for k in range(-(-size // 2), size + 1):
        for kappa, weight in _parts(k, size - k):
            listed.append((k, kappa))
            weights.append(weight * (1 if 2 * k == size else 2))
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    shared = math.gcd(*whole)
    padded = [[*kappa, *[0] * (size - len(kappa))] for _, kappa in listed]
    return Mixture(
        size,
        np.array([k for k, _ in listed]),
        np.array(padded, dtype=np.int64),
        tuple(weight // shared for weight in whole),
    )


def _parts(k: int, other: int) -> Iterator[tuple[Partition, Fraction]]:
    """Partitions for k eigenvalues of one sign, with their weights."""
    start = Fraction(1)
    for count in (k, other):
        for n in range(1, count + 1):  # Gamma functions of the two ensembles, by duplication
            start *= Fraction(math.factorial(n - 1), 1 << (n - 1))
    if other == 0:
        yield (0,) * k, start
        return
    # [i][r]: (k - i)_{2r} |(-l - i/2)_r| 2^r / (2r + k - 1 - i)!, times one factorial for all r
    top = 2 * other + k - 1
    table = [
        [
            math.prod(range(k - i, k - i + 2 * r))
            * math.prod(2 * other + i - 2 * t for t in range(r))
            * math.perm(top - i, 2 * (other - r))
            for r in range(other + 1)
        ]
        for i in range(k)
    ]
    degrees, all_pairs = other * (other + 1) // 2, k * other
    by_sum = [
        2 ** (all_pairs - n) * other**n * math.prod(range(degrees, degrees + all_pairs - n))
        for n in range(all_pairs + 1)
    ]
    start /= (2 * other) ** all_pairs * math.prod(math.factorial(top - i) for i in range(k))
    for kappa in _partitions(k, other):
        ends = [2 * part - i for i, part in enumerate(kappa)]
        weight = math.prod(ends[i] - ends[j] for j in range(k) for i in range(j))
        weight *= math.prod(table[i][part] for i, part in enumerate(kappa)) * by_sum[sum(kappa)]
        yield kappa, start * weight


def _partitions(count: int, most: int) -> Iterator[Partition]:
    """Non-increasing sequences of so many integers from 0 to ``most``."""
    if count == 0:
        yield ()
        return
    for first in range(most, -1, -1):
        for rest in _partitions(count - 1, first):
            yield first, *rest


# --- draws in floats ------------------------------------------------------------------------------


def draw_spectra(size: int, count: int, rng: RandomSource) -> FloatArray:
    """Independent spectra of M, in floats, each in random order: shape (count, N)."""
    parts = mixture(size)
    weights = np.array([float(Fraction(w, max(parts.weights))) for w in parts.weights])
    found, many = [np.empty((0, size))], 0
    batch = max(64, min(count, 1 << 14))
    while many < count:
        kept = _kept_spectra(parts, rng.categorical(weights, batch), rng)
        found.append(kept)
        many += len(kept)
    return np.concatenate(found)[:count]


def draw_replaced(size: int, count: int, rng: RandomSource) -> FloatArray:
    r"""Spectra for the density :math:`e^{-\|M\|_* - |tr M|}`, in floats: for simulations only.

    With spectra u of norm 1 and :math:`g = 1 + |\sum u|`, the norm :math:`\|M\|_* + |tr M|` has its
    Gamma law of d = N(N + 1)/2, and u its law for :math:`e^{-\|M\|_*}` with weights :math:`g^{-d}`:
    spectra are drawn again with these from a few thousand.
    """
    u, d = _directions(size), size * (size + 1) // 2
    g = 1 + np.abs(u.sum(axis=1))
    at = rng.categorical(g**-d, count)
    norm = rng.exponential((count, d)).sum(axis=1)
    return np.asarray(u[at] * (norm / g[at])[:, None])


@lru_cache(maxsize=16)
def _directions(size: int) -> FloatArray:
    drawn = draw_spectra(size, _POOL, SeededSource(MEASURING_SEED))
    return np.asarray(drawn / np.abs(drawn).sum(axis=1, keepdims=True))


def replaced_spectrum(size: int) -> Spectrum:
    r"""Sizes for the density :math:`e^{-\|M\|_* - |tr M|}`, up to 7 rows, measured.

    >>> replaced_spectrum(1).squares
    0.5
    """
    squares, trace, kept = _REPLACED[size - 1]
    return Spectrum(spectrum(size).log_integral + math.log(kept), squares, trace)


def _kept_spectra(parts: Mixture, chosen: NDArray[np.int64], rng: RandomSource) -> FloatArray:
    out = np.full((len(chosen), parts.size), np.nan)
    for k in np.unique(parts.positive[chosen]):
        rows = np.flatnonzero(parts.positive[chosen] == k)
        other, kappa = parts.size - int(k), parts.partitions[chosen[rows], : int(k)]
        a = np.linalg.eigvalsh(_wishart(kappa, rng))
        if other == 0:
            out[rows] = a
            continue
        Q = _wishart(np.zeros((len(rows), other), dtype=np.int64), rng)
        more, trace = int(k) * other - kappa.sum(axis=1), np.trace(Q, axis1=1, axis2=2)
        b = np.linalg.eigvalsh(Q) * (1 + _gammas(more[:, None], rng) / trace[:, None])
        t = b.mean(axis=1, keepdims=True)
        ratio = np.log(a[:, :, None] + b[:, None, :]).sum(axis=(1, 2))
        ratio -= other * np.log(a + t).sum(axis=1)
        keep = np.log(rng.uniform(len(rows))) < ratio
        out[rows[keep]] = np.hstack([a, -b])[keep]
    out = out[~np.isnan(out[:, 0])]
    return out * rng.signs(len(out))[:, None]


def _wishart(kappa: NDArray[np.int64], rng: RandomSource) -> FloatArray:
    """T T' for every row of exponents (see the module)."""
    count, k = kappa.shape
    T = np.zeros((count, k, k))
    i, j = np.tril_indices(k, -1)
    T[:, i, j] = rng.normal((count, len(i))) * math.sqrt(0.5)
    place = np.arange(k)
    T[:, place, place] = np.sqrt(_gammas(2 * kappa + (k + 1 - place), rng, halves=True))
    return np.asarray(T @ T.transpose(0, 2, 1))


def _gammas(shapes: NDArray[np.int64], rng: RandomSource, *, halves: bool = False) -> FloatArray:
    """Gamma variables of whole shapes, or of ``shapes`` halves; sums of exponentials."""
    whole = shapes // 2 if halves else shapes
    most = int(whole.max(initial=0))
    each = rng.exponential((*shapes.shape, most)) * (np.arange(most) < whole[..., None])
    total = each.sum(axis=-1)
    if halves:
        total = total + (shapes % 2) * rng.normal(shapes.shape) ** 2 / 2
    return np.asarray(total)
