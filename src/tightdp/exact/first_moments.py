r"""First moments of lattice points of the cylinder body, proposed where its points are.

The cylinder body of p features and a target (:class:`~tightdp.MomentBody`), times l, holds d
integers: q = p + 1 first moments :math:`u_j`, p squares and a product for every two of the q. Given
:math:`a = |u|` the others are free of each other, within :func:`product_room` and
:func:`square_room`. So it is enough to draw u, each with a probability in proportion to the number
T(u) of its completions, and to complete it uniformly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.lattice_body import Rows
from tightdp.exact.rejection import WeightTable
from tightdp.exact.undecided_bits import below_exp
from tightdp.randomness import RandomSource, Words

_MOST_CELLS = 64
_PLACES = 50  # bits of the weights of cells: they are exact as doubles
_ERROR = 2.0**-36  # relative, of a product of up to 2**14 ratios of integers below 2**900
_LEAST = 2.0**-900  # products above it have lost nothing at the end of the range of doubles
_SLACK = 2.0**-50  # of a uniform number, of which 64 bits are known and rounded to a double
_FLOATS = 900  # bits of a level beyond which ratios are made of integers alone


def product_room(first: WideIntegers, second: WideIntegers, level: WideIntegers) -> WideIntegers:
    """How far from 0 the product of two columns may be, given their sizes: K3 leaves so much."""
    return np.asarray(np.minimum(2 * level, 4 * level - first - second))


def square_room(size: WideIntegers, level: WideIntegers) -> WideIntegers:
    """How far from 0 the square of a column may be, given its size: K2 leaves so much."""
    over = np.maximum(size - level, 0)
    return np.asarray(2 * (level - over) * (level + over) // np.maximum(level, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """Sizes of first moments that were drawn, one row a level, and how they were drawn.

    Attributes
    ----------
    size : integers, shape (rows, q)
        The a of :class:`FirstMoments`.
    level : integers, shape (rows, 1)
    offset : int
    width : integers, shape (rows, q)
        The number of integers in a column's cell; 0 for those outside of S.
    weight : integers, shape (rows, q)
        That of the cell.
    """

    size: WideIntegers
    level: WideIntegers
    offset: int
    width: WideIntegers
    weight: Rows

    def __len__(self) -> int:
        return len(self.size)

    def row(self, i: int) -> Proposed:
        """One of them alone."""
        at = slice(i, i + 1)
        return Proposed(self.size[at], self.level[at], self.offset, self.width[at], self.weight[at])


class FirstMoments:
    r"""Proposals of u, of which every one is kept with :math:`P(u) = c\,T(u) / \prod_i 4(l+o+i)`.

    With i = 1..d, o an offset, and c free of l and u: what
    :meth:`~tightdp.exact.lattice_body.LatticeBody.propose` asks for.

    **Law.** Write :math:`M = 4l + 1` and let S hold the j with :math:`a_j > l`, where
    :math:`b_j = a_j - l \in 1..l` and :math:`\tau_j = 4 b_j / M < 1`; m = abs(S).

    1. *Completions.* The product of j and k has :math:`n_{jk} = M - 2 (a_j + a_k - 2l)_+` values,
       at most M, and :math:`M (1 - (\tau_j + \tau_k)/2) \le M (1 - \tau_j/2)(1 - \tau_k/2)` if
       both are in S. The square has :math:`s_j \le M - 4 b_j^2/l \le M (1 - \tau_j^2)` if j is in
       S, else M. So :math:`T(u) = \prod n \prod s \le M^{d-q} \prod_{j \in S} f_j(\tau_j)`, with
       :math:`f(\tau) = (1 - \tau/2)^{m-1}`, times :math:`1 - \tau^2` for a feature: a decreasing
       function.
    2. *Proposal.* [0, 1) is cut into C cells; :math:`e_{jc} \ge f_j(c/C)` are rationals. S is
       drawn with probability :math:`\prod_{j \in S} E_j / Z`, :math:`E_j` the mean of
       :math:`e_{jc}` over c; a cell for each j in S by its weight; :math:`b_j` uniform on the
       integers :math:`I_c` of the cell, and a sign; the others uniform on -l..l. So u comes with
       probability :math:`Q(u) = Z^{-1} \prod_S e_{jc} / (2 C |I_c|) \prod_{S^c} 1/(2l+1)`.
    3. *Coin.* It is kept with probability

       .. math:: \prod_{i=1}^d \frac{M}{4(l+o+i)} \prod_{j<k} \frac{n_{jk}}{M}
           \prod_j \frac{s_j}{M} \prod_{j \in S} \frac{4 C |I_c|}{M e_{jc}}
           \prod_{j \notin S} \frac{2 (2l+1)}{M},

       which is :math:`2^q Z^{-1}\, T(u) / Q(u) / \prod 4(l+o+i)`.
    4. *It is at most 1.* By step 1 and :math:`e_{jc} \ge f_j(\tau_j)` what is left to show is
       that :math:`M^{d-q} \prod_S 4 C |I_c| \prod_{S^c} (4l+2) \le \prod_i 4(l+i)`. A cell has
       at most :math:`M/(4C) + 1` integers, so each of the q last factors is at most
       4(l + C) + 1, below the greatest q of the right side because :math:`C \le d - q`; and
       M < 4(l+1).

    The coin is one uniform number, compared with a product of doubles whose error is bounded; what
    that leaves open is compared with the product of the integers, with further bits of the same
    number. Of proposals at high levels 0.77 are kept with 2 features, 0.41 with 12, 0.11 with 30.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> u, rows = FirstMoments(12).propose(np.full(1000, 1 << 20), 0, source(1))
    >>> u.shape[1], bool(350 < len(rows) < 480), bool(abs(u).max() <= 1 << 21)
    (13, True, True)
    """

    def __init__(self, p: int) -> None:
        self.p, self.q = p, p + 1
        self.dim = self.q + p + self.q * p // 2
        self.cells = min(_MOST_CELLS, 1 << ((self.dim - self.q).bit_length() - 1))  # step 4
        self._pairs = np.triu_indices(self.q, 1)
        steps = [[self._steps(m, feature=f) for m in range(self.q + 1)] for f in (False, True)]
        self._weights: NDArray[np.int64] = np.array(steps)  # [target or feature, m, cell]
        self._tables = [[WeightTable(some.tolist()) for some in kind] for kind in self._weights]
        self._classes = WeightTable([self._mass(k, e) for k in range(self.q) for e in (0, 1)])

    def _steps(self, m: int, *, feature: bool) -> list[int]:
        """2**50 f(c/C), rounded up: the weights of the cells where m columns are in S."""
        cells, power = self.cells, max(m - 1, 0)
        bottom = (2 * cells) ** power * (cells * cells if feature else 1)
        tops = [
            (2 * cells - c) ** power * (cells * cells - c * c if feature else 1)
            for c in range(cells)
        ]
        return [-(-(top << _PLACES) // bottom) for top in tops]

    def _mass(self, k: int, e: int) -> int:
        """The weight of k features and e targets in S, in units that all classes share."""
        m = k + e
        target, feature = (int(some[m].sum()) for some in self._weights)
        rest = (self.cells << _PLACES) ** (self.q - m)
        return math.comb(self.p, k) * feature**k * target**e * rest

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        """First moments for some of the levels, the target's last, and which rows."""
        far, cell, weight = self._places(len(levels), rng)
        level = levels[:, None]
        edges = -(-np.stack([cell, cell + 1]) * (4 * level + 1) // (4 * self.cells))
        first = np.maximum(edges[0], 1)
        width = np.where(far, edges[1] - first, 1)  # of a cell; at low levels some are empty
        rows = np.flatnonzero((width > 0).all(axis=1))
        far, weight = far[rows], weight[rows]
        level, first, width = level[rows], first[rows], width[rows]
        drawn = rng.integers_below(np.where(far, 2 * width, 2 * level + 1))
        near = drawn - level
        size = np.where(far, level + first + drawn // 2, np.abs(near))
        made = Proposed(size, level, offset, np.where(far, width, 0), weight)
        kept = self._coins(made, rng)
        u = np.where(far, size * (1 - drawn % 2 * 2), near)
        return u[kept], rows[kept]

    def _places(self, count: int, rng: RandomSource) -> tuple[NDArray[np.bool_], Rows, Rows]:
        """Who is in S, in which cells, and the weights of these."""
        k, e = np.divmod(self._classes.draw(count, rng), 2)
        far = np.column_stack([rng.permutations(count, self.p) < k[:, None], e == 1])
        cell, weight = np.zeros((2, count, self.q), dtype=np.int64)
        for m in np.unique(k + e):
            chosen = far & (k + e == m)[:, None]
            for feature, columns in ((1, slice(0, self.p)), (0, slice(self.p, None))):
                mask = chosen[:, columns]
                drawn = self._tables[feature][m].draw(int(mask.sum()), rng)
                cell[:, columns][mask] = drawn
                weight[:, columns][mask] = self._weights[feature, m][drawn]
        return far, cell, weight

    def _coins(self, made: Proposed, rng: RandomSource) -> Rows:
        """Which rows are kept, by step 3."""
        words = rng.words(len(made))
        chance = self._chances(made)
        u = words.astype(np.float64) * 2.0**-64
        # else a product, or a part of it, may have left the range of doubles
        known = chance > _LEAST
        kept = known & (u + _SLACK < chance * (1 - _ERROR))
        for i in np.flatnonzero(~(kept | known & (u - _SLACK > chance * (1 + _ERROR)))):
            kept[i] = self._settled(made.row(int(i)), words[i : i + 1], rng)
        return np.flatnonzero(kept)

    def _chances(self, made: Proposed) -> FloatArray:
        """The probabilities of step 3 in doubles; NaN where a double may not hold them."""
        level, offset = made.level, made.offset
        if len(made) and int(level.max()).bit_length() + offset.bit_length() > _FLOATS:
            return np.full(len(made), np.nan)
        unit = (4 * level + 1).astype(np.float64)
        with np.errstate(all="ignore"):
            far = 4.0 * self.cells * made.width.astype(np.float64) / (made.weight * 2.0**-_PLACES)
            near = 2.0 * (2 * level + 1).astype(np.float64)
            above = np.prod(np.where(made.width > 0, far, near) / unit, axis=1)
            steps = 4 * (level + offset + 1 + np.arange(self.dim))
            ratios = [
                unit / steps,
                *(n.astype(np.float64) / unit for n in self._completions(made.size, level)),
            ]
            below = [np.prod(some, axis=1) for some in ratios]  # of ratios that are at most 1
            out = math.prod(below, start=above)
            held = np.min([*below, out], axis=0) > _LEAST
        return np.where(held & (out <= 1), out, np.nan)

    def _completions(
        self, size: WideIntegers, level: WideIntegers
    ) -> tuple[WideIntegers, WideIntegers]:
        """How many values every product and every square has, given the first moments."""
        j, k = self._pairs
        products = product_room(size[:, j], size[:, k], level)
        return 2 * products + 1, 2 * square_room(size[:, : self.p], level) + 1

    def _settled(self, made: Proposed, word: Words, rng: RandomSource) -> bool:
        """The coin of one row, by the product of its integers."""
        base = int(made.level[0, 0])
        chance = Fraction(1, math.prod(4 * (base + made.offset + 1 + i) for i in range(self.dim)))
        for count in self._completions(made.size.astype(object), made.level.astype(object)):
            chance *= math.prod(count[0].tolist())
        for cell, own in zip(made.width[0].tolist(), made.weight[0].tolist(), strict=True):
            chance *= (
                Fraction(4 * self.cells * cell << _PLACES, own) if cell else 2 * (2 * base + 1)
            )
        num, den = chance.as_integer_ratio()
        return below_exp(int(word[0]), Fraction(0), rng, num=num, den=den)
