"""Bodies of first and second moments: how far regression sums move when one record changes.

``MomentBody`` holds every moment that a linear regression with p features needs, in the order of
``MomentLayout``; ``K2`` and ``K3``, the exact hulls for one parabola and one product, live in
:mod:`~tightdp.geometry.moment_hulls`.
All of these bodies provably contain every sensitivity vector; a body without such a proof will
never be added here.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    UndecidedError,
    check_array,
    check_choice,
    check_count,
    check_length,
    fail,
)
from tightdp.geometry.linear_programs import LP_SLACK, maximize
from tightdp.geometry.moment_hulls import K2, K3, parabola_gauge
from tightdp.geometry.moment_sampling import FREE, CoupledSampler, Indices, SplitSampler
from tightdp.geometry.norm_balls import MEASURING_SEED, NormBall, SecondMoment, Volume
from tightdp.randomness import RandomSource, SeededSource

__all__ = ["K2", "K3", "KINDS", "NUCLEAR_LIMIT", "MomentBody", "MomentLayout", "regression_moments"]

KINDS = ("cylinder", "triples", "triangle", "nuclear")

# The largest p at which the nuclear body is offered. It keeps 0.74, 0.072, 0.0012 of the triangle
# body's draws at p = 5, 8, 10 and 0.0002 at p = 11 (benchmarks/results/moment_bodies.md).
NUCLEAR_LIMIT = 10

_STAGE_SHARE = 0.25
_BLOCK = 1 << 22


class MomentLayout:
    """Where each moment of ``z = (1, x_1..x_p, y)`` sits among the coordinates.

    Node 0 is the constant, nodes 1..p the features, node p+1 the target. ``pair[i, j]`` is the
    coordinate of ``z_i z_j`` (-1 on the diagonal), ``square[j]`` that of ``2 x_{j+1}^2``.
    """

    def __init__(self, p: int) -> None:
        self.p, self.nodes, self.dim = p, p + 2, (p * p + 5 * p + 2) // 2
        features = range(1, p + 1)
        y = p + 1
        self.edges: list[tuple[int, int]] = [(0, j) for j in features]
        self.edges += [*combinations(features, 2), (0, y), *((j, y) for j in features)]
        places = [*range(p), *range(2 * p, self.dim)]
        self.square: Indices = np.arange(p, 2 * p)
        self.pair: Indices = np.full((self.nodes, self.nodes), -1)
        for (i, j), place in zip(self.edges, places, strict=True):
            self.pair[i, j] = self.pair[j, i] = place

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, such as ``x1``, ``2*x1^2``, ``x1*x2``, ``y``, ``x1*y``."""
        label = ["1", *(f"x{j}" for j in range(1, self.p + 1)), "y"]
        out = [f"2*x{j - self.p + 1}^2" for j in range(self.dim)]
        for i, j in self.edges:
            out[self.pair[i, j]] = label[j] if i == 0 else f"{label[i]}*{label[j]}"
        return tuple(out)

    def triangles(self, *, through_constant: bool) -> Indices:
        """Coordinates of the three sides of every triangle of nodes (or of those through 0)."""
        trios = np.array(list(combinations(range(self.nodes), 3)))
        if through_constant:
            trios = trios[trios[:, 0] == 0]
        i, j, k = trios.T
        return np.stack([self.pair[i, j], self.pair[i, k], self.pair[j, k]], axis=1)

    def stars(self, *, through_constant: bool) -> Indices:
        """For every feature the coordinates of its products (or of the one with node 0 only)."""
        rows = self.pair[1:-1]
        return rows[:, :1] if through_constant else rows[rows >= 0].reshape(self.p, -1)

    def matchings(self) -> list[tuple[Indices, Indices]]:
        """All pairs of nodes in rounds of disjoint pairs (round robin), smaller node first."""
        count = self.nodes + self.nodes % 2
        rounds = []
        for turn in range(count - 1):
            ring = [0, *(1 + (turn + i) % (count - 1) for i in range(count - 1))]
            pairs = [sorted((ring[i], ring[-1 - i])) for i in range(count // 2)]
            i, j = np.array([pair for pair in pairs if pair[1] < self.nodes]).T
            rounds.append((i, j))
        return rounds


class MomentBody(NormBall):
    r"""Sensitivity of the moments of a linear regression: p features and a target, all in [-1, 1].

    Coordinates, in the order of :attr:`names`: x_j; 2 x_j^2; x_j x_k for j < k; y; x_j y. In all
    (p^2 + 5p + 2) / 2. Write z = (1, x, y), N = p + 2, :math:`w_{ij}` for the change of
    :math:`z_i z_j` and :math:`s_j` for that of :math:`2 x_j^2`.

    Parameters
    ----------
    p : int
        Number of features.
    kind : {"triangle", "nuclear", "triples", "cylinder"}
        Which body, from large to small:

        - ``"cylinder"``: the copies of K2 and K3 of the papers: :math:`|s_j| \le h_2(|w_{0j}|)` and
          the triangle sums :math:`|w_{ij}| + |w_{ik}| + |w_{jk}| \le 4` through node 0;
        - ``"triples"``: triangle sums for all triples of nodes;
        - ``"triangle"``: also :math:`|s_j| \le h_2(\max_k |w_{jk}|)`;
        - ``"nuclear"``: also :math:`\|M\|_* \le 2N`, M the symmetric matrix of w with diagonal 0.

    Notes
    -----
    Every body contains every sensitivity vector, hence their hull, being convex:

    - *Triangles.* :math:`(z_i z_j, z_i z_k, z_j z_k)` is affine in each of z_i, z_j, z_k, so its
      hull is that of its values at signs, which have product 1: a tetrahedron. Minus itself it is
      the cuboctahedron :math:`|w| \le 2`, sum at most 4.
    - *Parabolas.* With :math:`a = |x_j|, b = |x'_j|` we have :math:`|w_{jk}| \le a + b`. If
      a >= b then :math:`|s_j| = 2(a^2 - b^2)` with a <= 1 and b >= :math:`|w_{jk}| - a`, at most
      :math:`2 - 2(|w_{jk}| - 1)^2` once :math:`|w_{jk}| \ge 1`. h2 is concave and decreasing.
    - *Nuclear norm.* :math:`zz^T + Diag(1 - z^2)` is positive semidefinite with diagonal 1, hence
      of trace norm N. The difference of two such matrices is M, of trace norm at most 2N.

    None of them is the hull itself: see ``benchmarks/results/moment_bodies.md`` for the sizes.

    Examples
    --------
    >>> body = MomentBody(p=1)
    >>> body.names
    ('x1', '2*x1^2', 'y', 'x1*y')
    >>> body.gauge([0.0, 2.0, 2.0, 2.0]), MomentBody(1, kind="cylinder").gauge([0, 2, 2, 2])
    (1.3333333333333333, 1.0)
    """

    def __init__(self, p: int, kind: str = "triangle") -> None:
        self.p = check_count("p", p, most=1000)
        self.kind = check_choice("kind", kind, KINDS)
        self.moments = MomentLayout(self.p)
        self.dim = self.moments.dim
        self._triangles = self.moments.triangles(through_constant=kind == "cylinder")
        self._stars = self.moments.stars(through_constant=kind in ("cylinder", "triples"))

    def __repr__(self) -> str:
        return f"MomentBody(p={self.p}, kind={self.kind!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """What each coordinate is the sum of."""
        return self.moments.names

    def bounding_box(self) -> FloatArray:
        return np.full(self.dim, 2.0)

    @property
    def unconditional(self) -> bool:
        return self.kind != "nuclear"  # the other constraints speak of sizes alone

    @property
    def support_slack(self) -> float:
        return LP_SLACK

    def lies_inside(self, other: NormBall) -> bool:
        # the kinds are nested, each being the one before with more constraints
        return (
            isinstance(other, MomentBody)
            and other.p == self.p
            and KINDS.index(other.kind) <= KINDS.index(self.kind)
        )

    # --- the norm -----------------------------------------------------------------------------

    def _gauge(self, x: FloatArray) -> FloatArray:
        block = max(1, _BLOCK // len(self._triangles))
        parts = [self._constraints(x[i : i + block]) for i in range(0, len(x), block)]
        return np.concatenate([np.zeros(0), *(np.max(part, axis=0) for part in parts)])

    def _constraints(self, x: FloatArray) -> list[FloatArray]:
        """Gauges of the groups of constraints: box, triangles, parabolas, nuclear norm."""
        a = np.abs(x)
        i, j, k = self._triangles.T
        out = [a.max(axis=1) / 2, (a[:, i] + a[:, j] + a[:, k]).max(axis=1) / 4]
        out.append(self._parabolas(a).max(axis=1))
        if self.kind == "nuclear":
            out.append(np.abs(np.linalg.eigvalsh(self._matrix(x))).sum(axis=1) / self._radius)
        return out

    def _parabolas(self, a: FloatArray) -> FloatArray:
        """K2 gauge of every feature's widest product and its square."""
        return parabola_gauge(a[:, self._stars].max(axis=2), a[:, self.moments.square])

    def _matrix(self, x: FloatArray) -> FloatArray:
        """The matrix M of each row: its products, with diagonal 0."""
        return np.hstack([x, np.zeros((len(x), 1))])[:, self.moments.pair]

    @property
    def _radius(self) -> float:
        return 2.0 * self.moments.nodes

    def _normals(self, x: FloatArray) -> FloatArray:
        a, sign = np.abs(x), np.where(x >= 0, 1.0, -1.0)
        binding = np.argmax(self._constraints(x), axis=0)
        out = np.zeros_like(x)
        rows = np.flatnonzero(binding == 0)
        top = a[rows].argmax(axis=1)
        out[rows, top] = 0.5
        rows = np.flatnonzero(binding == 1)
        i, j, k = self._triangles.T
        side = (a[rows][:, i] + a[rows][:, j] + a[rows][:, k]).argmax(axis=1)
        out[rows[:, None], self._triangles[side]] = 0.25
        rows = np.flatnonzero(binding == 2)
        feature = self._parabolas(a[rows]).argmax(axis=1)
        star, square = self._stars[feature], self.moments.square[feature]
        side = star[np.arange(len(rows)), a[rows[:, None], star].argmax(axis=1)]
        slope = K2()._normals(np.column_stack([a[rows, side], a[rows, square]]))
        out[rows, side], out[rows, square] = slope.T
        out *= sign
        rows = np.flatnonzero(binding == 3)
        out[rows] = self._nuclear_normals(x[rows])
        return out

    def _nuclear_normals(self, x: FloatArray) -> FloatArray:
        """Gradient of ||M||_* / 2N: every product appears twice in M."""
        value, vector = np.linalg.eigh(self._matrix(x))
        polar = (vector * np.sign(value)[:, None, :]) @ vector.transpose(0, 2, 1)
        i, j = np.array(self.moments.edges).T
        out = np.zeros_like(x)
        out[:, self.moments.pair[i, j]] = 2.0 * polar[:, i, j] / self._radius
        return out

    # --- support: a linear program with cuts ---------------------------------------------------

    def _support_points(self, c: FloatArray) -> FloatArray:
        return np.array([self._farthest(row) for row in c]).reshape(c.shape)

    def _farthest(self, c: FloatArray, rounds: int = 200) -> FloatArray:
        """A maximiser of c.x by Kelley's cuts: the program's value bounds the support from above,
        its solution scaled into the body from below.

        The constraints speak of |x| = plus + minus; the cuts of the nuclear norm of x itself.
        """
        on_size, on_value = self._polyhedron, np.empty((0, self.dim))
        best, best_value = np.zeros(self.dim), 0.0
        for _ in range(rounds if c.any() else 0):
            A = np.vstack([np.hstack([on_size, on_size]), np.hstack([on_value, -on_value])])
            upper, both = maximize(np.hstack([c, -c]), A, np.ones(len(A)), nonnegative=True)
            x = both[: self.dim] - both[self.dim :]
            scaled = x / self._gauge(x[None])[0]
            if c @ scaled > best_value:
                best, best_value = scaled, float(c @ scaled)
            if upper <= best_value * (1 + LP_SLACK):
                return best
            on_size = np.vstack([on_size, self._tangents(np.abs(x))])
            if self.kind == "nuclear":
                on_value = np.vstack([on_value, self._nuclear_normals(x[None])])
        if c.any():
            fail("The support function did not converge: use kind='triangle'.", UndecidedError)
        return best

    @cached_property
    def _polyhedron(self) -> FloatArray:
        """Rows a with a.|x| <= 1: the box, the triangles and five tangents of each parabola."""
        triangles = np.zeros((len(self._triangles), self.dim))
        np.put_along_axis(triangles, self._triangles, 0.25, axis=1)
        rows = [np.eye(self.dim) / 2, triangles]
        for t in np.linspace(1.0, 2.0, 5):
            # tangent to s = 2 - 2 (w-1)^2 at w = t: s + 4 (t-1) w <= 2 t^2
            for star, square in zip(self._stars, self.moments.square, strict=True):
                cut = np.zeros((len(star), self.dim))
                cut[np.arange(len(star)), star] = 2 * (t - 1) / t**2
                cut[:, square] = 0.5 / t**2
                rows.append(cut)
        return np.vstack(rows)

    def _tangents(self, a: FloatArray) -> FloatArray:
        """Cuts at the parabolas that the point a leaves, one per feature."""
        feature = np.flatnonzero(self._parabolas(a[None])[0] > 1.0)
        star, square = self._stars[feature], self.moments.square[feature]
        side = star[np.arange(len(feature)), a[star].argmax(axis=1)]
        cuts = np.zeros((len(feature), self.dim))
        slopes = K2()._normals(np.column_stack([a[side], a[square]]))
        cuts[np.arange(len(feature)), side], cuts[np.arange(len(feature)), square] = slopes.T
        return cuts

    # --- uniform points ------------------------------------------------------------------------

    @cached_property
    def _sampler(self) -> SplitSampler | CoupledSampler:
        if self.kind == "cylinder":
            return SplitSampler(self.moments)
        return CoupledSampler(self.moments, 1.0, FREE if self.kind == "triples" else 1.0)

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self.kind != "nuclear":
            return self._sampler.sample(size, rng)
        if self.p > NUCLEAR_LIMIT:
            fail(
                f"Exact sampling of the nuclear body at p = {self.p} would practically never end: "
                f"it is offered up to p = {NUCLEAR_LIMIT}. Use kind='triangle'.",
                InfeasibleSamplingError,
            )
        # rejection from the triangle body
        points, batch = np.empty((0, self.dim)), size
        while len(points) < size:
            draws = self._sampler.sample(batch, rng)
            points = np.vstack([points, draws[self._constraints(draws)[3] <= 1.0]])
            batch = min(2 * batch, 4096)
        return points[:size]

    # --- size ----------------------------------------------------------------------------------

    def _volume(self) -> Volume:
        if self.p == 1:
            # Integrals of piecewise polynomials. There is one triangle, so the triples add nothing;
            # nor does the nuclear norm, at most 4 sqrt(2) < 6 at the corners (2, 2, 0) of K3.
            return Volume(math.log(936 / 5 if self.kind in ("cylinder", "triples") else 2464 / 15))
        rng = SeededSource(MEASURING_SEED)
        if self.kind == "cylinder":
            split, q = SplitSampler(self.moments), self.p + 1
            share, error = split.acceptance(200_000, rng)
            log_value = q * math.log(2) + (self.dim - q) * math.log(4) + split.log_envelope
            return Volume(log_value + math.log(share), error / share)
        if self.kind == "nuclear":
            larger = MomentBody(self.p, "triangle")
            return _stage(larger.volume_info, self.contains(larger._sample(self._draws, rng)))
        return self._volume_by_stages(rng)

    @property
    def measuring_draws(self) -> int:
        return self._draws * (10 if self.kind == "cylinder" else 1)

    @property
    def _draws(self) -> int:
        return max(2_000, 400_000 // self.dim)

    def _volume_by_stages(self, rng: RandomSource) -> Volume:
        """From the cylinder body C down to this body K through C & r K, r falling to 1.

        The levels r come from draws of their own, so each share is an unbiased estimate.
        """
        volume, slack = MomentBody(self.p, "cylinder").volume_info, FREE
        sampler: SplitSampler | CoupledSampler = SplitSampler(self.moments)
        while slack > 1.0:
            pilot = self._gauge(sampler.sample(400, rng))
            slack = max(1.0, float(np.quantile(pilot, _STAGE_SHARE)))
            # draws of the cylinder body are cheap: take more
            draws = self._draws * (10 if isinstance(sampler, SplitSampler) else 1)
            volume = _stage(volume, self._gauge(sampler.sample(draws, rng)) <= slack)
            sampler = CoupledSampler(self.moments, slack, FREE if self.kind == "triples" else slack)
        return volume

    def _second_moment(self) -> SecondMoment:
        """Diagonal by symmetry (flip the sign of z_i, or of s_j), equal over the features."""
        squares, draws = self.measuring_points**2, self.measuring_draws
        p, d = self.p, self.dim
        value, error = np.empty(d), np.empty(d)
        for start, stop in ((0, p), (p, 2 * p), (2 * p, d - p - 1), (d - p - 1, d - p), (d - p, d)):
            if start < stop:
                pooled = squares[:, start:stop].mean(axis=1)
                value[start:stop] = pooled.mean()
                error[start:stop] = pooled.std() / math.sqrt(draws)
        return SecondMoment(np.diag(value), np.diag(error))


def regression_moments(X: ArrayLike, y: ArrayLike) -> FloatArray:
    """The moments of every record (row), in the order of :attr:`MomentBody.names`.

    >>> regression_moments([[0.5, 1.0]], [-1.0])
    array([[ 0.5,  1. ,  0.5,  2. ,  0.5, -1. , -0.5, -1. ]])
    """
    features = check_array("X", X, 2)
    target = check_array("y", y, 1)
    check_length("y", len(target), len(features), "entries, one per row of `X`")
    layout = MomentLayout(features.shape[1])
    z = np.column_stack([np.ones(len(features)), features, target])
    out = np.empty((len(features), layout.dim))
    i, j = np.array(layout.edges).T
    out[:, layout.pair[i, j]] = z[:, i] * z[:, j]
    out[:, layout.square] = 2.0 * features**2
    return out


def _stage(larger: Volume, inside: NDArray[np.bool_]) -> Volume:
    """Volume of a subset from the share of the larger body's draws that it holds."""
    share, draws = float(np.mean(inside)), len(inside)
    if share == 0:
        fail("No draw fell inside the body: its volume cannot be estimated.", UndecidedError)
    return Volume(
        larger.log_value + math.log(share),
        math.hypot(larger.standard_error, math.sqrt((1 - share) / (share * draws))),
    )
