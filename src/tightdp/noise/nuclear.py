r"""Integer noise shaped like the nuclear norm, for sums of products of the columns of a row."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    WideIntegers,
    check_count,
    check_filled,
    check_flag,
    check_instance,
    check_length,
    check_list,
    exact_amount,
    fail,
)
from tightdp.exact.discrete_draws import rate
from tightdp.exact.nuclear_draws import nuclear_integers
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.geometry.nuclear_ball import MOST_SIZE, NuclearBall, entry_moments, rotated
from tightdp.geometry.nuclear_spectrum import (
    draw_replaced,
    draw_spectra,
    replaced_spectrum,
    spectrum,
)
from tightdp.parameters import tells_arguments
from tightdp.privacy import Numerics, check_epsilon
from tightdp.randomness import RandomLike, RandomSource, SeededSource, source

Entry = tuple[int, int, int]
"""Row and column of a matrix, and a factor: the entry of a statistic that sums it."""

_GATE = 2.0**-30  # granted to eigenvalues of moves, which are computed with floats
MOST_REPLACED = 7
"""Largest matrices for which the trace is part of the norm: noise of larger ones gains little."""

_EXACT_SPECTRA = MOST_REPLACED  # rows of matrices whose spectra are simulated without a chain
_CHAINS, _SWEEPS, _TAKEN = 256, 160, 8


@tells_arguments
class NuclearNoise:
    r"""The integers nearest to V, symmetric, with density :math:`\propto e^{-\epsilon\|SVS\|_*/L}`.

    where:

    - :math:`\|\cdot\|_*` is the nuclear norm, S = Diag(weights) that of ``ball``,
    - :math:`L` is ``sensitivity``, in steps of the lattice: neighbours move a matrix of integers by
      D with :math:`\|SDS\|_* \le L`,
    - ``entries`` (i, j, f) say what is released: f times the entry in row i and column j.

    **Privacy.**
    Statement: adding these integers to the integer entries of T(X) is epsilon-DP for the relation
    under which :math:`\|S(T(X) - T(X'))S\|_* \le L`.
    Needs: [P1] that bound; [P2] T(X) has integer entries; [P3] V has its density and is rounded as
    if all of its bits were known (:mod:`~tightdp.exact.nuclear_draws`).
    With ``replaced`` the norm is :math:`\|\cdot\|_* + |tr \cdot|` in all of this.
    Proof: 1. T(X) + V is epsilon-DP: log densities of neighbours differ by at most
    :math:`\epsilon\|S(T - T')S\|_*/L \le \epsilon`, by the triangle inequality [P1], as for
    :class:`~tightdp.KNormNoise`. 2. The integers nearest to f (T(X) + V) are a function of it; as
    f T(X) is an integer [P2], they are f T(X) plus the integers nearest to f V [P3]. 3. To leave
    entries out is a function, too. Numerics: ``exact``.

    Parameters
    ----------
    ball : NuclearBall
        Size and weights; its radius does not matter here.
    epsilon : float, Fraction or Decimal
    sensitivity : int or Fraction
    entries : sequence of (int, int, int)
    binary : sequence of int
        Columns of 0 and 1, whose squares are their products with column 0, a constant, and are not
        among the entries. Other entries that are left out do not move.
    replaced : bool
        Whether the norm is :math:`\|SDS\|_* + |tr\,SDS|`, twice the larger of the traces of the
        positive and of the negative part of SDS. Replaced rows move the sums by D = z z' - w w':
        with :math:`|Sz|^2, |Sw|^2 \le R` it is at most 2 R, and **its ball is the hull of such D**
        where z is any row of that length: a matrix whose parts have traces of at most R is a
        difference of mixtures of R u u' and 0. The nuclear ball of radius 2 R is larger.

    Examples
    --------
    >>> noise = NuclearNoise(NuclearBall(2), 1, 1024, [(0, 0, 1), (0, 1, 1)])
    >>> noise.sample(4, rng=1).shape, noise.covers(np.array([[512, 512], [1024, 512]])).tolist()
    ((4, 2), [False, False])
    >>> noise.covers(np.array([[0, 512]])).tolist()
    [True]
    """

    numerics = Numerics.EXACT

    def __init__(
        self,
        ball: NuclearBall,
        epsilon: Number,
        sensitivity: int | Fraction,
        entries: Sequence[Entry],
        binary: Sequence[int] = (),
        *,
        replaced: bool = False,
    ) -> None:
        self.ball = check_instance("ball", ball, NuclearBall)
        self.epsilon = check_epsilon(epsilon)
        self.sensitivity = exact_amount("sensitivity", sensitivity)
        if not self.sensitivity > 0:
            fail(f"`sensitivity` must be above 0. Got {self.sensitivity}.")
        self.entries = tuple(
            map(self._entry, check_list("entries", entries, "(row, column, factor)"))
        )
        check_filled("entries", self.entries)
        last = self.ball.size - 1
        self.binary = tuple(
            check_count("binary", column, least=0, most=last)
            for column in check_list("binary", binary, "columns")
        )
        self.replaced = check_flag("replaced", replaced)
        # epsilon / L, never above it
        self.rate = Fraction(*rate(self.epsilon, 1)) / self.sensitivity

    def _entry(self, entry: object) -> Entry:
        """Row, column and factor of what is released."""
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            fail("`entries` must be triples: row, column and factor.")
        i, j = (
            check_count("entries", place, least=0, most=self.ball.size - 1) for place in entry[:2]
        )
        return i, j, check_count("entries", entry[2])

    @property
    def dim(self) -> int:
        """Number of entries that are released."""
        return len(self.entries)

    def check_feasible(self) -> None:
        """Refuse matrices for which practically no proposal is kept."""
        if self.ball.size > MOST_SIZE:
            fail(
                f"Noise of the nuclear norm is drawn for matrices of up to {MOST_SIZE} rows. Got "
                f"{self.ball.size}: use fewer columns or another noise.",
                InfeasibleSamplingError,
            )
        if self.replaced and self.ball.size > MOST_REPLACED:
            fail(
                f"`replaced` is for matrices of up to {MOST_REPLACED} rows. Got {self.ball.size}: "
                "leave it out, larger ones gain little.",
                InfeasibleSamplingError,
            )

    def __repr__(self) -> str:
        return f"NuclearNoise({self.ball!r}, epsilon={self.epsilon}, L={self.sensitivity})"

    @property
    def words(self) -> str:
        """The exact law, for people."""
        return (
            f"the integers nearest to V with density exp(-{self.rate} * |SVS|), |.| the nuclear "
            f"norm {'plus the size of the trace ' if self.replaced else ''}of {self.ball.size} x "
            f"{self.ball.size} matrices, S = Diag("
            f"{', '.join(f'{w:g}' for w in self.ball.weights)})"
        )

    def facts(self) -> str:
        """The noise to the last digit, for fingerprints of requests."""
        exact = [str(Fraction(float(w))) for w in self.ball.weights]
        norm = "replaced" if self.replaced else "nuclear"
        return f"NuclearNoise({exact!r}, {self.sensitivity}, {self.entries!r}, {norm})"

    # --- which moves it covers ------------------------------------------------------------------

    def covers(self, moves: WideIntegers, rows: int = 1) -> NDArray[np.bool_]:
        """Whether the norm of so many of each move at once is at most L, in floats: a gate."""
        check_length("moves", moves.shape[1], self.dim, "entries")
        i, j, factor = np.array(self.entries).T
        D = np.zeros((len(moves), self.ball.size, self.ball.size))
        D[:, i, j] = np.asarray(moves / factor, dtype=np.float64)
        D[:, j, i] = D[:, i, j]
        D[:, self.binary, self.binary] = D[:, 0, self.binary]
        D *= np.outer(self.ball.weights, self.ball.weights)
        norm = np.abs(np.linalg.eigvalsh(D)).sum(axis=1)
        if self.replaced:
            norm += np.abs(np.trace(D, axis1=1, axis2=2))
        return np.asarray(rows * norm <= float(self.sensitivity) * (1 + _GATE))

    # --- draws ----------------------------------------------------------------------------------

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> WideIntegers:
        """Integer noise vectors: one, or ``size`` rows, as Python integers."""
        count, bits = 1 if size is None else check_count("size", size, least=0), source(rng)
        weights = [Fraction(float(w)) for w in self.ball.weights]
        places = [
            (i, j, Fraction(f) / (self.rate * weights[i] * weights[j])) for i, j, f in self.entries
        ]
        out: WideIntegers = nuclear_integers(
            self.ball.size, places, count, bits, replaced=self.replaced
        )
        return out[0] if size is None else out

    # --- the law in floats ------------------------------------------------------------------------

    @property
    def scale(self) -> FloatArray:
        """What every entry of V is, beside that of a matrix with density exp(-norm)."""
        i, j, factor = np.array(self.entries).T
        return np.asarray(factor / (self.ball.weights[i] * self.ball.weights[j]) / float(self.rate))

    def covariance(self) -> FloatArray:
        """Covariance of the integers: that of V, and 1/12 for rounding."""
        at, known = self._places(), replaced_spectrum if self.replaced else spectrum
        whole = entry_moments(self.ball.size, known(self.ball.size))
        out = whole[np.ix_(at, at)] * np.outer(self.scale, self.scale)
        return np.asarray(out + np.eye(self.dim) / 12)

    def simulate(self, size: int, rng: RandomSource) -> FloatArray:
        """Noise of about this law, in floats: for simulations, never for releases."""
        drawn = matrices_like(self.ball.size, size, rng, replaced=self.replaced)
        return drawn[:, self._places()] * self.scale

    def _places(self) -> NDArray[np.intp]:
        """Where the entries stand among those of the ball."""
        n = self.ball.size
        place = np.zeros((n, n), dtype=np.intp)
        place[np.triu_indices(n)] = np.arange(n * (n + 1) // 2)
        i, j, _ = np.array(self.entries).T
        return np.asarray(place[np.minimum(i, j), np.maximum(i, j)])


def matrices_like(
    size: int, count: int, rng: RandomSource, *, replaced: bool = False
) -> FloatArray:
    """Entries of matrices with density exp(-norm), in floats: rows as those of ``NuclearBall``.

    Beyond 7 rows their spectra come from a chain that has forgotten its start, each used several
    times with eigenvectors of its own: for simulations only.
    """
    i, j = np.triu_indices(size)
    if size <= _EXACT_SPECTRA:
        draw = draw_replaced if replaced else draw_spectra
        return rotated(draw(size, count, rng), rng)[:, i, j]
    pool = _pool(size)
    spectra = pool[rng.integers(len(pool), count)]
    # the norm has its exact law, Gamma
    norm = rng.exponential((count, len(i))).sum(axis=1) / np.abs(spectra).sum(axis=1)
    return rotated(spectra * norm[:, None], rng)[:, i, j]


@lru_cache(maxsize=16)
def _pool(size: int) -> FloatArray:
    """Spectra from independent Metropolis chains, each entry in turn."""
    rng = SeededSource(MEASURING_SEED)
    x = rng.signs((_CHAINS, size)) * rng.exponential((_CHAINS, size)) * size / 2
    out = []
    for sweep in range(_SWEEPS):
        steps, coins = (2 * rng.uniform((size, _CHAINS)) - 1 for _ in range(2))
        steps *= size / 2 * 8.0 ** rng.uniform((size, _CHAINS)) / 8  # long ones and short ones
        for i in range(size):
            new = x[:, i] + steps[i]
            others = np.delete(x, i, axis=1)
            ratio = np.prod((new[:, None] - others) / (x[:, i, None] - others), axis=1)
            keep = (1 + coins[i]) / 2 < np.abs(ratio) * np.exp(np.abs(x[:, i]) - np.abs(new))
            x[keep, i] = new[keep]
        if sweep >= _SWEEPS // 2 and sweep % (_SWEEPS // 2 // _TAKEN) == 0:
            out.append(x.copy())
    return np.concatenate(out)
