"""Exact uniform points of the regression-moment bodies; never a Markov chain cut short.

Two samplers, both exact in real arithmetic and vectorised over draws: :class:`SplitSampler` for the
cylinder body at any number of features, :class:`CoupledSampler` (coupling from the past) for the
tighter bodies. Both work on absolute values, since the bodies are invariant under sign flips, and
hand back rows in the layout of a :class:`~tightdp.geometry.moment_bodies.MomentLayout`. Neither
looks at data, so run times reveal nothing.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, InfeasibleSamplingError, fail
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.randomness import RandomSource, SeededSource

if TYPE_CHECKING:
    from tightdp.geometry.moment_bodies import MomentLayout

Indices = NDArray[np.int64]

# Slack at which a constraint of the tight body is implied by the cylinder: a triangle sum is at
# most 6 = 1.5 * 4, and h2(2 / 1.5) * 1.5 > 2.
FREE = 1.5

_CELLS = 1024
_RECORDS = 3
_BATCH = 256
_PILOT_CHAINS = 64
_PILOT_SWEEPS = 1500
_PILOT_SHARE = 1 / 8


def square_room(a: FloatArray) -> FloatArray:
    """``h2(a) = 2 - 2 (a - 1)_+^2``: how far 2x^2 moves when x (or x times |z| <= 1) moves by a."""
    return 2.0 - 2.0 * np.maximum(a - 1.0, 0.0) ** 2


def linear_room(s: FloatArray) -> FloatArray:
    """``1 + sqrt(1 - s/2)``, the inverse of :func:`square_room` on [1, 2]."""
    return 1.0 + np.sqrt(np.maximum(1.0 - 0.5 * s, 0.0))


class SplitSampler:
    r"""Exact draws from the cylinder body by splitting the first moments at 1.

    Write ``a = |u|`` for the q = p + 1 first moments. Given them, squares are uniform on
    :math:`\pm h_2(a_j)` and products on :math:`\pm\min(2, 4 - a_j - a_k)`, independently, so ``a``
    has density :math:`\prod_x (1 - (a_j-1)_+^2) \prod_{j<k} \min(1, 2 - (a_j + a_k)/2)` on
    [0, 2]^q. Let S = {a_j > 1}, m = |S|, t = a - 1 on S, r = 1 - a off S. Pairs off S have factor
    1, so given t the r are independent with density
    :math:`\varphi(r) = \prod_{i \in S} (1 - (t_i - r)_+ / 2)` and (S, t) has density

    .. math:: G(t)^{q-m} \prod_{x \in S} (1 - t_i^2) \prod_{i<j \in S} (1 - (t_i + t_j)/2),
        \qquad G(t) = \int_0^1 \varphi(r)\,dr.

    Hoelder's :math:`G(t) \le \prod_i B_m(t_i)^{1/m}`,
    :math:`B_m(t) = 1 - t + \frac{2}{m+1}(1 - (1 - t/2)^{m+1})`, and
    :math:`1 - (s+t)/2 \le (1 - s/2)(1 - t/2)` bound it by a product of decreasing functions, each
    below a step function through its left values: propose from that, accept with the ratio.
    """

    def __init__(self, moments: MomentLayout) -> None:
        self.moments, p = moments, moments.p
        self.q = p + 1
        m = np.arange(self.q + 1)
        t = np.arange(_CELLS) / _CELLS
        order = np.maximum(m, 1)[:, None]
        mean = 1.0 - t + 2.0 / (order + 1) * (1.0 - (1.0 - t / 2) ** (order + 1))
        target = mean ** ((self.q - order) / order) * (1.0 - t / 2) ** (order - 1)
        # steps[kind, m, cell]: envelope of the target (kind 0) and of a feature (kind 1)
        self._steps = np.stack([target, target * (1.0 - t**2)])
        mass = np.log(self._steps.mean(axis=2))
        self._classes = np.array([(k, e) for k in range(p + 1) for e in (0, 1)])
        k, e = self._classes.T
        choose = np.array([math.log(math.comb(p, i)) for i in range(p + 1)])
        log_weights = choose[k] + k * mass[1, k + e] + e * mass[0, k + e]
        self._weights = np.exp(log_weights - log_weights.max())
        self.log_envelope = float(log_weights.max() + np.log(self._weights.sum()))

    def acceptance(self, draws: int, rng: RandomSource) -> tuple[float, float]:
        """Share of proposals kept, estimated from ``draws`` of them, and its standard error."""
        kept = np.empty(draws)
        for rows, t, has_target in self._proposals(draws, rng):
            kept[rows] = np.exp(self._log_ratio(*t, has_target))
        return float(kept.mean()), float(kept.std() / math.sqrt(draws))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        """``size`` uniform points of the cylinder body."""
        done, parts = 0, [np.empty((0, self.q))]
        while done < size:
            parts.append(self._accepted(min(size - done + (size - done) // 4 + 8, 1 << 14), rng))
            done += len(parts[-1])
        return self._complete(np.concatenate(parts)[:size], rng)

    def _accepted(self, count: int, rng: RandomSource) -> FloatArray:
        """First moments, in absolute value, of those of ``count`` proposals that are kept."""
        a = np.empty((count, self.q))
        keep = np.zeros(count, dtype=bool)
        for rows, (t, envelope), has_target in self._proposals(count, rng):
            ratio = self._log_ratio(t, envelope, has_target)
            kept = np.log(rng.uniform(len(rows))) < ratio
            keep[rows] = kept
            a[rows[kept]] = self._place(t[kept], has_target, rng)
        return a[keep]

    def _proposals(
        self, count: int, rng: RandomSource
    ) -> list[tuple[Indices, tuple[FloatArray, FloatArray], bool]]:
        """``count`` draws of (S, t) from the envelope, grouped by (m, is the target in S?)."""
        label = rng.categorical(self._weights, count)
        groups = []
        for index in np.unique(label):
            k, e = (int(v) for v in self._classes[index])
            rows = np.flatnonzero(label == index)
            t, log_steps = np.empty((len(rows), k + e)), np.zeros(len(rows))
            for kind, columns in ((0, slice(0, e)), (1, slice(e, k + e))):
                steps, width = self._steps[kind, k + e], t[:, columns].shape[1]
                cell = rng.categorical(steps, len(rows) * width).reshape(len(rows), width)
                t[:, columns] = (cell + rng.uniform(cell.shape)) / _CELLS
                log_steps += np.log(steps[cell]).sum(axis=1)
            groups.append((rows, (t, log_steps), bool(e)))
        return groups

    def _log_ratio(self, t: FloatArray, log_steps: FloatArray, has_target: bool) -> FloatArray:
        """Log of density over envelope: the log probability of keeping a proposal."""
        m = t.shape[1]
        out: FloatArray = -log_steps + np.log1p(-(t[:, int(has_target) :] ** 2)).sum(axis=1)
        for i in range(m):
            out += np.log(1.0 - (t[:, i, None] + t[:, i + 1 :]) / 2).sum(axis=1)
        if 0 < m < self.q:
            out += (self.q - m) * np.log(_mean_factor(t))
        return out

    def _place(self, t: FloatArray, has_target: bool, rng: RandomSource) -> FloatArray:
        """First moments from t: the rest drawn given t, features in random order, target last."""
        n, m = t.shape
        r = rng.uniform((n, self.q - m))
        open_ = np.ones(r.shape, dtype=bool)
        while m and open_.any():
            row, column = np.nonzero(open_)
            fresh = rng.uniform(len(row))
            r[row, column] = fresh
            phi = np.prod(1.0 - np.maximum(t[row] - fresh[:, None], 0.0) / 2, axis=1)
            open_[row, column] = rng.uniform(len(row)) >= phi
        a = np.hstack([1.0 + t, 1.0 - r])
        target, features = (a[:, 0], a[:, 1:]) if has_target else (a[:, -1], a[:, :-1])
        shuffle = rng.permutations(n, self.q - 1)
        return np.column_stack([np.take_along_axis(features, shuffle, axis=1), target])

    def _complete(self, a: FloatArray, rng: RandomSource) -> FloatArray:
        """Signs for the first moments; squares and products uniform given them."""
        layout = self.moments
        out = 2.0 * rng.uniform((len(a), layout.dim)) - 1.0
        j, k = np.array(list(combinations(range(self.q), 2))).T
        out[:, layout.square] *= square_room(a[:, :-1])
        out[:, layout.pair[j + 1, k + 1]] *= np.minimum(2.0, 4.0 - a[:, j] - a[:, k])
        out[:, layout.pair[0, 1:]] = a * rng.signs(a.shape)
        return out


def _mean_factor(t: FloatArray) -> FloatArray:
    """``G(t)``, row by row: between sorted t a polynomial, so Gauss-Legendre is exact."""
    n, m = t.shape
    node, weight = np.polynomial.legendre.leggauss(m // 2 + 1)
    top = np.sort(t, axis=1)
    out = np.empty(n)
    block = max(1, (1 << 20) // (m * m * len(node)))
    for start in range(0, n, block):
        end = top[start : start + block]
        width = np.diff(end, axis=1, prepend=0.0)
        r = end[:, :, None] + width[:, :, None] * (node - 1.0) / 2
        phi = np.ones_like(r)
        for i in range(m):
            phi *= 1.0 - np.maximum(end[:, i, None, None] - r, 0.0) / 2
        out[start : start + block] = 1.0 - end[:, -1] + ((phi @ weight) * width).sum(axis=1) / 2
    return out


class CoupledSampler:
    r"""Exact draws from the tight bodies by read-once coupling from the past (Wilson, 2000).

    The body, in absolute values: :math:`w_{ij} \le 2`, triangle sums at most 4 through node 0 and
    at most :math:`4\lambda` elsewhere, :math:`s_j \le h_2(w_{j0})` and
    :math:`s_j \le \mu h_2(w_{jk}/\mu)`; :math:`\lambda, \mu` are ``triangle_slack`` and
    ``parabola_slack`` (1 is tight, 1.5 implied by the rest). Every full conditional is uniform on
    [0, b], b decreasing in the other coordinates.

    *Update.* Let :math:`R_1 = 2U_1, R_{k+1} = R_k U_{k+1}`; f(b) is the first of R_1..R_3 that is
    at most b, or b V when there is none. Given that R_{k-1} exceeds b and R_k does not, R_k is
    uniform on [0, b]; given that all exceed b, b V is: so f(b) is uniform on [0, b]. f increases
    in b, since b V < b < R_3. (With all records f would also be a maximal coupling: f(b) = f(b')
    with probability b/b'.) As b decreases in the state, lower <= state <= upper is kept by
    f(b(upper)) <= f(b(state)) <= f(b(lower)). The sides in a matching of the nodes share no
    triangle and no parabola, so they move together.

    *Blocks.* Time is cut into blocks of T sweeps. A block coalesces when its bounds, started at 0
    and 2, have met: then its end does not depend on its start. The state just before a coalescing
    block is the end of a chain that has run since the infinite past, hence exactly uniform, and
    independent of the state before the next one. Any T chosen beforehand is exact; each chain
    yields a fixed number of draws, so that quick draws are not preferred.
    """

    def __init__(
        self, moments: MomentLayout, triangle_slack: float = 1.0, parabola_slack: float = 1.0
    ) -> None:
        self.moments = moments
        self.triangle_slack, self.parabola_slack = triangle_slack, parabola_slack
        self._rounds = [
            (i, j, np.where(i == 0, 4.0, 4.0 * triangle_slack)[:, None, None])
            for i, j in self.moments.matchings()
        ]

    @cached_property
    def sweeps(self) -> int:
        """Block length T: the cheapest per draw in a pilot run of its own, with a fixed seed."""
        rng = SeededSource(MEASURING_SEED)
        state = self._bounds(_PILOT_CHAINS)
        met: list[float] = []
        while len(met) < _PILOT_SWEEPS and (not met or met[-1] < 0.9):
            self.sweep(state, rng)
            met.append(float(_coalesced(state).mean()))
        if met[-1] < _PILOT_SHARE:
            fail(
                f"Exact sampling of this body at p = {self.moments.p} would practically never end. "
                "Use kind='cylinder', which is fast at any p, or fewer features.",
                InfeasibleSamplingError,
            )
        # a smaller share than this is too noisy to choose by
        cost = [(n + 1) / share if share >= _PILOT_SHARE else np.inf for n, share in enumerate(met)]
        return int(np.argmin(cost)) + 1

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        """``size`` uniform points, signs included."""
        chains = max(1, min(size, _BATCH))
        quota = -(-size // chains)
        out = np.empty((chains, quota, self.moments.dim))
        drawn = np.full(chains, -1)
        alive = np.arange(chains)
        now = np.zeros((self.moments.dim, chains))
        while size and alive.size:
            end, met = self._block(now, rng)
            ready = met & (drawn[alive] >= 0)
            out[alive[ready], drawn[alive[ready]]] = now[:, ready].T
            drawn[alive[met]] += 1
            active = drawn[alive] < quota
            alive, now = alive[active], end[:, active]
        points = out.reshape(-1, self.moments.dim)[:size]
        return points * rng.signs(points.shape)

    def _block(self, now: FloatArray, rng: RandomSource) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Run one block: where the states end, and whether the bounds met."""
        layout = self.moments
        i, j = np.array(layout.edges).T
        w, s = self._bounds(now.shape[1], 3)
        w[i, j, 1] = w[j, i, 1] = now[layout.pair[i, j]]
        s[1:-1, 1] = now[layout.square]
        for _ in range(self.sweeps):
            self.sweep((w, s), rng)
        end = np.empty_like(now)
        end[layout.pair[i, j]] = w[i, j, 1]
        end[layout.square] = s[1:-1, 1]
        return end, _coalesced((w, s))

    def _bounds(self, chains: int, tracks: int = 2) -> tuple[FloatArray, FloatArray]:
        """Sides w[i, j, track, chain] and squares s[j, track, chain]; tracks run from low to high.

        The diagonal of w is -2, which makes the triangles with a repeated node void; the squares
        of the constant and of the target do not exist and stay 0, which bounds nothing.
        """
        w = np.zeros((self.moments.nodes, self.moments.nodes, tracks, chains))
        s = np.zeros((self.moments.nodes, tracks, chains))
        w[:, :, -1] = s[1:-1, -1] = 2.0
        w[np.arange(self.moments.nodes), np.arange(self.moments.nodes)] = -2.0
        return w, s

    def sweep(self, state: tuple[FloatArray, FloatArray], rng: RandomSource) -> None:
        """Update every coordinate of every track once, in place, with common randomness."""
        (w, s), mu = state, self.parabola_slack
        nearest, others = w[1:-1, 0], w[1:-1, 1:].max(axis=1)
        s[1:-1] = _settle(np.minimum(square_room(nearest), mu * square_room(others / mu)), rng)
        near, far = linear_room(s), mu * linear_room(s / mu)
        for i, j, cap in self._rounds:
            first, second = w[i], w[j]
            first += second
            bound = np.minimum(4.0 - first[:, 0], cap - first[:, 1:].max(axis=1))
            # the parabola through node 0 is tight; the others have slack mu
            bound = np.minimum(bound, np.where((i == 0)[:, None, None], near[j], far[j]))
            np.minimum(bound, far[i], out=bound)
            np.minimum(bound, 2.0, out=bound)
            w[i, j] = w[j, i] = _settle(bound, rng)


def _settle(bound: FloatArray, rng: RandomSource) -> FloatArray:
    """f(b) on every track (axis 1). The lower track takes the upper's bound and vice versa."""
    b = bound[:, ::-1]
    u = rng.uniform((_RECORDS + 1, len(b), 1, b.shape[2]))
    records = 2.0 * np.cumprod(u[:-1], axis=0)
    out = b * u[-1]
    for record in records[::-1]:
        out = np.where(record <= b, record, out)
    return out


def _coalesced(state: tuple[FloatArray, FloatArray]) -> NDArray[np.bool_]:
    """Chains whose lowest and highest tracks agree in every coordinate."""
    w, s = state
    return (w[:, :, 0] == w[:, :, -1]).all(axis=(0, 1)) & (s[:, 0] == s[:, -1]).all(axis=0)
