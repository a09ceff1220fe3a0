r"""Ordered eigenvalues of symmetric matrices with density :math:`e^{-\|M\|_*}`, to any precision.

:math:`x_1 < \dots < x_N` have the density :math:`\prod_{i<j}(x_j - x_i)\,e^{-\sum|x_i|}`, up to a
factor. They are a function of N uniform reals: :math:`x_m` solves

.. math:: P(x_m > x \mid x_1, \dots, x_{m-1}) = U_m,

one after the other. No proposal is refused, and the work grows with a power of N.

**The chance is a ratio of Pfaffians.** Given the first m - 1, the n = N - m + 1 others have the
density :math:`\prod (x_j - x_i) \prod w(x_i)`, :math:`w(u) = e^{-|u|}\prod_{r<m}(u - x_r)`, on
ordered points above :math:`x_{m-1}`. Its integral over those above x is, by de Bruijn (1955),

.. math:: G(x) = Pf\Big[\int\!\!\int_{x<u<v} (q_i(u) q_j(v) - q_j(u) q_i(v))\,
   e^{-|u|-|v|}\,du\,dv\Big]_{i,j<n},\quad q_i(u) = \frac{u^i}{i!} \prod_{r<m}(u - x_r)

with a border of :math:`\int_x^\infty q_i e^{-|u|}` where n is odd, and the chance is
:math:`G(x)/G(x_{m-1})`. Integrals of monomials are sums of :math:`e^{-|x|} x^r/r!` with binomial
weights (:meth:`Tails._monomials`). All leading minors are such integrals of fewer points, hence
positive: elimination needs no other order of the rows.

**Exactness.** Statement: what :func:`enclosed` returns contains the function of U that is stated
above. Needs: integers alone; there is no float in it but where a root is guessed. Proof:

1. Every G is enclosed, in fixed point with proved errors, for points that are dyadic rationals and
   have no error (:mod:`~tightdp.exact.fixed_point`).
2. The density is a product of functions of two coordinates, :math:`(x_j - x_i)_+` and
   :math:`e^{-|x_i|}`, which are totally positive of order 2:
   :math:`(b' - a')(b - a) - (b' - a)(b - a') = (b' - b)(a' - a) \ge 0` for a <= a', b <= b'. So it
   and its marginals are MTP2 (Karlin and Rinott 1980, section 3), and the law of
   :math:`x_m` given the ones before **grows with each of them** in the order of likelihood ratios:
   the chance above does not fall when :math:`x_1, \dots, x_{m-1}` rise.
3. If :math:`x_1, \dots, x_{m-1}` all rise by c, :math:`x_m` rises **by at most c**: in terms of
   u - c the law is the old one with the factor :math:`e^{|u - c| - |u|}` for each point, which does
   not rise in u, so that it is smaller in the same order.
4. A chain of dyadic points z is made. Given those before it, :math:`z_m` has a chance of at least
   :math:`U_m` to be exceeded, :math:`z_m + h` one of at most :math:`U_m`. By induction
   :math:`z_m \le x_m \le z_m + m h`: with 2. for the left side; with 3. and c = (m - 1) h,
   then 2., for the right one. No error is carried from one eigenvalue to the next but this.
5. What cannot be shown with the bits at hand is done again with more of the same U.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.fixed_point import Fixed, UnsettledError
from tightdp.exact.undecided_normals import Uniforms
from tightdp.randomness import RandomSource

_SECANTS = 64  # steps of a search for a root without many halves among them: few need ten


class Tails:
    """Integrals over ordered eigenvalues above a point, given those below it.

    Where they need not be ``proved``, their errors are not followed: for guesses.
    """

    def __init__(self, size: int, places: int, *, proved: bool = True) -> None:
        self.size, self.places, self.proved = size, places, proved
        order = np.arange(size)
        self._sum = order[:, None] + order
        self._binomials = np.array(
            [[math.comb(p + q, p) for q in range(size)] for p in range(size)], dtype=object
        )
        self._parity = np.array([1 - 2 * (p % 2) for p in range(size)], dtype=object)
        # (i + a)! / i! at [a, i]
        self._rising = np.array(
            [[math.perm(i + a, a) for i in range(size)] for a in range(size)], dtype=object
        )
        self._from_zero, _, self._slack = self._monomials(0)

    # --- integrals of monomials -------------------------------------------------------------------

    def _monomials(self, y: int) -> tuple[NDArray[Any], NDArray[Any], int]:
        r"""For y >= 0: double and single integrals from y on, and a bound on their errors.

        :math:`D_{pq} = \int\int_{y<u<v} \frac{u^p}{p!}\frac{v^q}{q!} e^{-u-v}` and
        :math:`E_p = \int_y^\infty \frac{u^p}{p!} e^{-u} = e^{-y} \sum_{j \le p} y^j/j!`, so that
        :math:`D_{pq} = \sum_{j \le q} {p + j \choose p} J_{p+j}` with
        :math:`J_r = \int_y^\infty \frac{u^r}{r!} e^{-2u} = (J_{r-1} + e^{-2y} y^r/r!)/2`.

        Error, in units of the last of ``fine`` places: exponentials err by at most w, each
        :math:`e^{-y} y^r/r!` by :math:`(w + 2) e^y`, because floors add 2 and
        :math:`\sum_j y^{r-j} j!/r! \le e^y`; halving and adding leave at most that and 2; the
        binomials of a row add up to less than :math:`2^{2N}`, the sums of E to N. ``spare`` has the
        bits of :math:`e^y` and of :math:`2^{2N}`: of these units no more than w + 6 are left.
        """
        size, places = self.size, self.places
        spare = 3 * ((y >> places) + 1) // 2 + 1 + 2 * size
        fine = places + spare
        low, high = exp_minus_bounds(Fraction(y, 1 << places), fine)
        single, terms, total = [], low, 0
        for r in range(size):
            terms = (terms * y >> places) // r if r else terms
            total += terms
            single.append(total >> spare)
        halves, terms, total = [], low * low >> fine, 0
        for r in range(2 * size - 1):
            terms = (terms * y >> places) // r if r else terms
            total = (total + terms) >> 1
            halves.append(total)
        double = np.cumsum(self._binomials * np.array(halves, dtype=object)[self._sum], axis=1)
        slack = 2 * (high - low) + 7
        return double >> spare, np.array(single, dtype=object), slack

    def _integrals(self, x: int | None) -> tuple[Fixed, Fixed]:
        r"""The skew matrix of double integrals above x, and the single ones; None is no bound.

        Below 0 the part from x to 0 is added: :math:`\int_x^0 \frac{u^p}{p!} e^u =
        (-1)^p (1 - E_p(|x|))`, and in the double integral v runs over that part or above 0.
        """
        if x is None:
            double, single, slack = 0 * self._from_zero, 0 * self._parity, 0
        else:
            double, single, slack = self._monomials(abs(x))
        if x is None or x < 0:
            one, parity = 1 << self.places, self._parity
            part = parity * (one - single)
            within = parity[:, None] * parity * (self._from_zero - double)
            double = self._from_zero + part[:, None] * (1 + parity) - within
            single, slack = one + part, 4 * slack + 2 * self._slack
        skew = Fixed(double - double.T, 2 * slack, self.places)
        return skew, Fixed(single, slack, self.places)

    # --- integrals given points -------------------------------------------------------------------

    def given(self, known: list[int]) -> Fixed:
        """Coefficients of q_0, q_1, ...: those of q_i in u^(i + a) / (i + a)! at [a, i]."""
        m, n = len(known), self.size - len(known)
        spare = 64 + 8 * m
        # of the product of u - x_r, and what floors may have lost of them
        coefficients, lost = [1 << self.places + spare], 0
        for x in known:
            up, own = [0, *coefficients], [*coefficients, 0]
            coefficients = [a - (x * b >> self.places) for a, b in zip(up, own, strict=True)]
            lost = lost * (2 + (abs(x) >> self.places)) + 1
        rising = self._rising[: m + 1, :n]
        bands = np.array(coefficients, dtype=object)[:, None] * rising >> spare
        return Fixed(bands, (lost * int(rising.max()) >> spare) + 2, self.places)

    def above(self, x: int | None, given: Fixed) -> Fixed:
        """G(x): the integral over all points above x, given those of which ``given`` is made."""
        skew, single = self._integrals(x)
        A = _combined(given, _combined(given, skew).transposed).transposed
        n = len(A.middle)
        if n % 2:
            border = _combined(given, single[:, None])[:, 0]
            whole = np.zeros((n + 1, n + 1), dtype=object)
            whole[:n, :n] = A.middle
            whole[:n, n], whole[n, :n] = border.middle, -border.middle
            A = Fixed(whole, max(A.error, border.error), self.places)
        return pfaffian(A, proved=self.proved)


def _combined(bands: Fixed, rows: Fixed) -> Fixed:
    """Sums over a of what stands at [a, i] times row i + a: only these coefficients are not 0."""
    count, n = bands.middle.shape
    terms = (bands.middle[a][:, None] * rows.middle[a : a + n] for a in range(count))
    total = reduce(np.add, terms)
    return Fixed(total >> rows.places, bands.spread(rows, count), rows.places)


def pfaffian(A: Fixed, *, proved: bool = True) -> Fixed:
    """Of a skew matrix whose leading Pfaffians are positive, by elimination of two rows at a time.

    Unless it is to be ``proved``, what was lost so far is forgotten.

    >>> A = Fixed.of([[0, 1, 2, 3], [-1, 0, 4, 5], [-2, -4, 0, 6], [-3, -5, -6, 0]], 64)
    >>> round(int(pfaffian(A).middle) / 2**64, 9)  # 1 * 6 - 2 * 5 + 3 * 4
    8.0
    """
    found = Fixed.of(1, A.places)
    while len(A.middle):
        A = A if proved else Fixed(A.middle, 0, A.places)
        pivot = A[0, 1]
        if int(pivot.middle) <= pivot.error:
            raise UnsettledError
        found = found * pivot
        if len(A.middle) == 2:
            break
        first, second = A[0, 2:], A[1, 2:]
        outer = (first * pivot.reciprocal())[:, None] @ second[None, :]
        A = A[2:, 2:] - outer + outer.transposed
    if int(found.middle) <= found.error:
        raise UnsettledError
    return found


@lru_cache(maxsize=32)
def _tails(size: int, places: int, proved: bool) -> Tails:
    return Tails(size, -(-places // 32) * 32, proved=proved)


# --- the chain ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eigenvalues:
    """Eigenvalues in order, as the uniform numbers that they are a function of."""

    numbers: Uniforms

    @property
    def depth(self) -> int:
        """Words known of each number."""
        return len(self.numbers.words)

    def longer(self, rng: RandomSource, depth: int) -> Eigenvalues:
        """The same eigenvalues, with more bits known."""
        return Eigenvalues(self.numbers.longer(rng, depth))

    def matrix(self, places: int) -> Fixed:
        """The diagonal matrix of the eigenvalues."""
        values = enclosed(self.numbers).rounded(places)
        return Fixed(np.diag(values.middle), values.error, places)


def enclosed(uniforms: Uniforms) -> Fixed:
    """The eigenvalues that the uniform numbers stand for, as many as there are of these.

    >>> words = np.array([[1 << 63, 1 << 63], [0, 0]], dtype=np.uint64)  # 1/2, and 1/2
    >>> x = enclosed(Uniforms(words))
    >>> [round(int(v) / 2**x.places, 6) for v in x.middle]
    [-1.045306, 0.870341]
    """
    values, bits = uniforms.integers()
    size = len(values)
    # and the bits that fixed point loses, measured; where they are too few, nothing is returned
    tails = _tails(size, bits + size * size // 4 + 4 * size + 32, True)
    rough = _tails(size, bits + size * size // 16 + 3 * size + 16, False)
    # half of the bits are for points of small density, where U tells less about them
    step = 1 << tails.places - bits // 2 - 16
    chain: list[int] = []
    for value in values:
        given = tails.given(chain)
        whole = tails.above(chain[-1] if chain else None, given)
        point = _guess(rough, tails.places, chain, Fraction(value, 1 << bits), step) - step // 2
        ends = tails.above(point, given), tails.above(point + step, given)
        sure = not chain or point > chain[-1]
        sure = sure and _least(ends[0]) << bits >= (value + 1) * _most(whole)  # [4], left
        sure = sure and _most(ends[1]) << bits <= value * _least(whole)  # [4], right
        if not sure:
            raise UnsettledError
        chain.append(point)
    middle = [point + size * step // 2 for point in chain]
    return Fixed(middle, size * step // 2 + 1, tails.places)


def _least(x: Fixed) -> int:
    return int(x.middle) - x.error


def _most(x: Fixed) -> int:
    return int(x.middle) + x.error


def _guess(tails: Tails, places: int, chain: list[int], u: Fraction, fine: int) -> int:
    """About where the chance to be exceeded is u, of the point after a chain, to ``places``."""
    less = places - tails.places
    known = [z >> less for z in chain]
    given = tails.given(known)
    whole = tails.above(known[-1] if known else None, given)
    return _Guess(tails, given, whole, u).root(known, fine >> less) << less


class _Guess:
    """Where G is a part u of the whole, about: others have to confirm it.

    Secants of the square root of ln(whole / G), nearly a line where points repel each other, then
    of G itself, within bounds; by halves where these do not help.
    """

    def __init__(self, tails: Tails, given: Fixed, whole: Fixed, u: Fraction) -> None:
        self._tails, self._given = tails, given
        self._places, self._size = tails.places, tails.size
        self._all = int(whole.middle)
        self._wanted = self._all * u.numerator // u.denominator
        if self._wanted <= 0:
            raise UnsettledError  # all bits of u are 0
        self._target = self._level(self._wanted)

    def _level(self, G: int) -> float:
        if self._all.bit_length() > G.bit_length() + 64:
            return math.sqrt(math.log(self._all) - math.log(G))
        return math.sqrt(max(0.0, math.log1p((self._all - G) / G)))

    def root(self, chain: list[int], fine: int) -> int:
        """Above the last point of a chain; points lie closer to each other around 0."""
        unit = 1 << self._places
        if chain:
            low, last = chain[-1], (chain[-1], self._all)
            gap = self._target * (1.7 + 0.15 * (abs(low) / unit))
            x = low + (int(gap * 2.0**40) << self._places - 40)
        else:
            low, last, x = None, None, -2 * self._size * unit
        high = None
        # every other step halves at last: as many as there are places reach any point
        for step in range(_SECANTS + 2 * self._places + 64):
            halved = step % 32 == 31 or (step >= _SECANTS and step % 2 == 1)
            try:
                G = int(self._tails.above(x, self._given).middle)
            except UnsettledError:  # so far out that too few bits are left of G
                high, last, new = x, None, None
            else:
                low, high = (x, high) if self._wanted < G else (low, x)
                new = None if last is None or halved else self._secant(last, (x, G))
                # logarithms, of doubles, may say that nothing is left to move where much is
                if new is not None and last is not None and self._close(G):
                    # what is left after a step of a secant is the product of the last two, times
                    # how G bends: like a square where points are close
                    bend = min(unit, new - chain[-1]) if chain else unit
                    if abs(new - x) * abs(x - last[0]) << 8 <= fine * bend:
                        return new
                last = (x, G)
            if (
                new is None
                or (low is not None and new <= low)
                or (high is not None and new >= high)
            ):
                new = self._between(low, high)
            x = new
        return x

    def _secant(self, one: tuple[int, int], two: tuple[int, int]) -> int | None:
        (a, A), (b, B) = one, two
        if self._close(B):
            return None if A == B else self._near(b + (self._wanted - B) * (b - a) // (B - A))
        rise = self._level(B) - self._level(A)
        if rise == 0:
            return None
        ratio = (self._target - self._level(B)) / rise
        if not abs(ratio) < 2.0**60:
            return None
        return self._near(b + (int(ratio * 2.0**60) * (b - a) >> 60))

    def _close(self, G: int) -> bool:
        """Whether G is nearly straight from here on."""
        return abs(G - self._wanted) << 10 < min(self._wanted, self._all - self._wanted)

    def _near(self, x: int) -> int | None:
        """Where a point may be: chances below 2**-places are none."""
        return x if abs(x) >> self._places < self._places + 8 * self._size else None

    def _between(self, low: int | None, high: int | None) -> int:
        """In the middle; where there is no bound yet, twice as far out."""
        unit = 1 << self._places
        if low is None:
            return int(high or 0) - max(unit, abs(int(high or 0)))
        return low + 2 * max(unit, abs(low)) if high is None else (low + high) >> 1
