"""Tables of levels: enclosures hold, nothing is cut off, and candidates are exactly uniform."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tightdp.errors import InfeasibleSamplingError
from tightdp.exact.discrete_draws import discrete_laplaces, geometrics
from tightdp.exact.lattice_bodies import CountBody, DiamondBody, PolytopeBody, RoundBody, SumBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import MomentLatticeBody, SquareBody
from tightdp.exact.level_tables import LevelTable
from tightdp.noise import lattice
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomSource, SeededSource

# --- every draw of a body, followed to its end ----------------------------------------------------


class EveryDraw(RandomSource):
    """Walks through all outcomes of the draws that a sampler asks for, with their probability."""

    seeded = True

    def __init__(self):
        self.path, self.place, self.chance = [], 0, Fraction(1)

    def restart(self):
        self.place, self.chance = 0, Fraction(1)

    def advance(self):
        del self.path[self.place :]
        while self.path:
            self.path[-1][0] += 1
            if self.path[-1][0] < self.path[-1][1]:
                return True
            self.path.pop()
        return False

    def below(self, bound):
        bound = int(bound)
        if bound == 1:
            return 0
        if self.place == len(self.path):
            self.path.append([0, bound])
        self.place, self.chance = self.place + 1, self.chance / bound
        return self.path[self.place - 1][0]

    def words(self, count):
        raise AssertionError("bodies draw integers only")

    def integers(self, bound, shape):
        count = int(np.prod(shape))
        return np.array([self.below(bound) for _ in range(count)], np.int64).reshape(shape)

    def integers_below(self, bounds):
        flat = [self.below(bound) for bound in np.ravel(bounds)]
        return np.array(flat, dtype=np.asarray(bounds).dtype).reshape(np.shape(bounds))

    def signs(self, shape):
        return 1.0 - 2.0 * self.integers(2, shape)

    def permutations(self, size, length):
        orders = list(itertools.permutations(range(length)))
        picked = [orders[self.below(len(orders))] for _ in range(size)]
        return np.array(picked, np.int64).reshape(size, length)


def law_of(draw):
    """Probabilities of the points that a draw of one row gives."""
    tree, law = EveryDraw(), {}
    while True:
        tree.restart()
        z, rows = draw(tree)
        if len(rows):
            point = tuple(map(int, z[0]))
            law[point] = law.get(point, 0) + tree.chance
        if not tree.advance():
            return law


def points(body, top):
    if isinstance(body, ProductBody):
        blocks = [points(part, top) for part in body.bodies]
        return {sum(choice, ()) for choice in itertools.product(*blocks)}
    side = range(-2 * top - 1, 2 * top + 2)
    z = np.array(list(itertools.product(side, repeat=body.dim)))
    if isinstance(body, HistogramBody):
        z = z[z.sum(axis=1) == 0]
    return set(map(tuple, z[body.level(z) <= top].tolist()))


SMALL: list[tuple[LatticeBody, int]] = [
    (BoxBody([1, 2]), 3),
    (BoxBody([3, 5], 4), 4),
    (BoxBody([1, 3], 7), 8),
    (DiamondBody(2), 3),
    (RoundBody(2), 4),
    (SquareBody(), 3),
    (SumBody(3, 2), 2),
    (CountBody(3, 2), 2),
    (PolytopeBody(np.array([[2, 1], [1, 3]]), np.array([3, 4]), [9, 8], 5), 3),
    (HistogramBody(2), 4),
    (HistogramBody(3), 1),
    (HistogramBody(3), 2),
    (MomentLatticeBody(1, "cylinder"), 1),
    (MomentLatticeBody(1, "triples"), 1),
    (MomentLatticeBody(1, "triangle"), 1),
    (ProductBody([HistogramBody(2), BoxBody([3], 2)]), 3),
    (ProductBody([BoxBody([1]), HistogramBody(3)]), 1),
]


@pytest.mark.slow_for(
    "HistogramBody(dim=3)-2", "ProductBody(dim=4)-1", "*'triangle')-1", "*'cylinder')-1"
)
@pytest.mark.parametrize(("body", "top"), SMALL, ids=repr)
def test_proposals_have_their_probability_exactly(body, top):
    """Each point of l B with probability c / ((l+o+1)...(l+o+r)), one c for all l and o."""
    constants = set()
    for level, offset in itertools.product(range(top + 1), (0, 2)):
        law = law_of(lambda rng, at=level, o=offset: body.propose(np.array([at]), o, rng))
        assert set(law) == points(body, level)
        (chance,) = set(law.values())
        constants.add(chance * math.prod(level + offset + i for i in range(1, body.rank + 1)))
    assert len(constants) == 1


@pytest.mark.slow_for("HistogramBody(dim=4)-1")
@pytest.mark.parametrize(("body", "top"), [*SMALL, (HistogramBody(4), 1)], ids=repr)
def test_candidates_are_uniform_exactly(body, top):
    for level in range(top + 1):
        law = law_of(lambda rng, at=level: body.scatter(np.array([at]), rng))
        assert set(law) == points(body, level)
        assert set(law.values()) == {Fraction(1, body.cells(level))}
        most = math.prod(level + i for i in range(1, body.rank + 1))
        assert body.cells(level) <= body.factor * most


@pytest.mark.parametrize("m", range(2, 9))
def test_histogram_weights(m):
    """Counts by gainers sum up to the coordination sequence of the lattice A_(m-1)."""
    body, n = HistogramBody(m), m - 1
    for size in range(1, 30):
        shell = sum(
            math.comb(n, k) ** 2 * math.comb(size - k + n - 1, n - 1)
            for k in range(min(n, size) + 1)
        )
        assert sum(body._gainer_weights(size)) == shell == body._sizes(size)[-1]
        for k in range(1, m):  # what thinning keeps of a size and a number of gainers
            tops = [size - k + i + (i >= k) for i in range(1, m - 1)]
            kept = math.prod(Fraction(max(t, 0), size + i) for i, t in enumerate(tops, 1))
            drawn = Fraction(math.comb(size + m - 2, m - 2) * body._weights[k - 1])
            if size >= k:
                assert drawn * kept == body._gainer_weights(size)[k - 1]


# --- the tables -----------------------------------------------------------------------------------

TABLES = [
    (BoxBody([1] * 10), Fraction(1)),
    (BoxBody([3, 5], 2), Fraction(7, 3)),
    (HistogramBody(12), Fraction(1, 2)),
    (SquareBody(), Fraction(50)),
    (BoxBody([1, 1, 1]), Fraction(1000)),
]


@pytest.mark.parametrize(("body", "eta"), TABLES, ids=str)
@pytest.mark.parametrize("bits", [128, 192])
def test_edges_enclose_the_distribution_function(body, eta, bits):
    low, high = LevelTable(eta, body.cells, body.rank, body.factor).edges(bits)
    with localcontext() as context:
        context.prec = 150
        q = (-Decimal(eta.numerator) / Decimal(eta.denominator)).exp()
        weights = [Decimal(body.cells(j)) * q**j for j in range(2 * len(low) + 10)]
        total, so_far = sum(weights), Decimal(0)
        slack = Decimal(10) ** -120 * 2**bits
        for weight, lower, upper in zip(weights, low, high, strict=False):
            so_far += weight
            assert lower - slack <= so_far / total * 2**bits <= upper + slack
            assert upper - lower <= 4
    assert 0 < (1 << bits) - low[-1] <= 4  # nothing is cut off, and little is left open


class Planned(RandomSource):
    """One planned word a draw, then those of a seed."""

    seeded = True

    def __init__(self, planned, seed):
        self.planned, self.rest = np.asarray(planned, np.uint64), SeededSource(seed)

    def words(self, count):
        if self.planned.size:
            head, self.planned = self.planned[:count], self.planned[count:]
            return head.copy()
        return self.rest.words(count)


def test_an_open_word_is_finished_with_the_right_odds(seed):
    """The word that holds the edge between two levels: both come out, in proportion."""
    body = BoxBody([1, 1])
    table = LevelTable(Fraction(1), body.cells, body.rank, body.factor)
    for j in (0, 1, 5):
        edge = table.edges(256)[0][j] >> 64  # 192 bits of P(level <= j)
        word, share = edge >> 128, (edge & ((1 << 128) - 1)) / 2**128
        drawn = table.draw(4000, Planned([word] * 4000, seed))
        assert set(drawn.tolist()) <= {j, j + 1}
        lower = int((drawn == j).sum())
        assert abs(lower - 4000 * share) <= 5 * math.sqrt(4000 * share * (1 - share)) + 1
    last = table.draw(50, Planned([(1 << 64) - 1] * 50, seed))  # beyond every edge of 64 bits
    assert (last >= 40).all()
    assert len(set(last.tolist())) > 1


# --- noise of coarse rates ------------------------------------------------------------------------

COARSE = [
    (BoxBody([1] * 50), 1),
    (BoxBody([1] * 10), 50),
    (RoundBody(16), 5),
    (RoundBody(64), 1000),
    (HistogramBody(100), 1),
    (HistogramBody(20), 5),
    (MomentLatticeBody(2, "triangle"), 5),
    (ProductBody([BoxBody([1] * 5), HistogramBody(5)]), 50),
    (HistogramBody(500), 1),
    (SumBody(200, 90), Fraction(1, 1 << 20)),
    (HistogramBody(1000), Fraction(1, 1 << 20)),
]


@pytest.mark.parametrize(("body", "rate"), COARSE, ids=str)
def test_noise_ends_at_every_rate(body, rate):
    """Counts have sensitivity 1: the rate is epsilon itself, and draws must not take for ever."""
    noise = LatticeNoise(body, rate, 1)
    noise.check_feasible()
    assert noise.sample(3).shape == (3, body.dim)


@pytest.mark.parametrize(
    ("body", "rate"),
    [(HistogramBody(30), 1), (BoxBody([1] * 20), 1), (DiamondBody(12), 2)],
    ids=str,
)
def test_levels_of_coarse_noise(body, rate, seed):
    """Levels against exact counts, in dimensions far beyond enumeration of points."""
    z = LatticeNoise(body, rate, 1).sample(40_000, rng=seed)
    seen = np.bincount(body.level(z))
    sizes = [body.cells(0), *(body.cells(j) - body.cells(j - 1) for j in range(1, len(seen)))]
    mass = np.array([math.exp(math.log(size) - rate * j) for j, size in enumerate(sizes)])
    mass *= seen.sum() / mass.sum()
    common = mass >= 10
    o, e = seen[common], mass[common]
    assert stats.chi2.sf(np.sum((o - e) ** 2 / e), common.sum() - 1) > 1e-6
    wrong = np.array([float(m) for m in mass]) * np.exp(-0.1 * rate * np.arange(len(mass)))
    wrong *= seen.sum() / wrong.sum()
    w = wrong[common]
    assert np.sum((o - w) ** 2 / w) > 200  # noise x 0.9 would be seen


def test_halving_at_coarse_rates(seed):
    """l2 noise by halves with refined levels: |z|^2 = 0, 1 and 2 in 12 dimensions."""
    d, rate, n = 12, 3, 40_000
    z = lattice.halves(d, Fraction(rate))(n, SeededSource(seed))
    square = (z * z).sum(axis=1)
    # level 0: the origin; 1: the 2d unit vectors; 2: |z|^2 = 2, 3, 4
    zero, one = int((square == 0).sum()), int((square == 1).sum())
    two = int((square == 2).sum())
    pairs = ((one, 2 * d * math.exp(-rate)), (two, 2 * d * (d - 1) * math.exp(-2 * rate)))
    for count, weight in pairs:
        share = weight / (1 + weight)
        both = zero + count
        assert both > 100
        assert abs(count - both * share) <= 5 * math.sqrt(both * share * (1 - share))


def test_hopeless_rates_are_refused_at_once():
    for noise in (
        LatticeNoise(BoxBody([1, 2] * 2500), 1, 1),
        LatticeNoise(RoundBody(40), 50, 8, staircase=0.5),
        LatticeNoise(MomentLatticeBody(30, "triangle"), 1, 1 << 20),
    ):
        with pytest.raises(InfeasibleSamplingError):
            noise.check_feasible()
        with pytest.raises(InfeasibleSamplingError):
            noise.sample()


def test_what_was_measured_for_a_body_serves_its_equals(monkeypatch):
    calls = []
    plain = MomentLatticeBody.propose

    def counted(self, *args):
        calls.append(self)
        return plain(self, *args)

    monkeypatch.setattr(MomentLatticeBody, "propose", counted)
    shares = {MomentLatticeBody(3, "triples").share for _ in range(3)}
    assert len(shares) == 1
    assert len(calls) <= 1
    assert MomentLatticeBody(3, "triples") == MomentLatticeBody(3, "triples")
    assert BoxBody([1, 1]) != BoxBody([1, 2])
    assert BoxBody([1, 1]) != RoundBody(2)
    assert len({SumBody(3, 2), SumBody(3, 2), SumBody(3, 1), CountBody(3, 2)}) == 3


BALLS = [SumBody(5, 2), SumBody(3, 4, 2), SumBody(4, 9), CountBody(6, 3), RoundBody(5)]


@pytest.mark.parametrize("body", BALLS, ids=repr)
def test_shares_are_volumes(body):
    measured = len(body.propose(np.full(200_000, 1 << 20), 0, SeededSource(1))[1]) / 200_000
    assert abs(body.share - measured) <= 5 * math.sqrt(measured / 200_000)
    if isinstance(body, (SumBody, CountBody)):
        z = SeededSource(2)
        n, k = 200_000, body.bound
        x = discrete_laplaces(1, k << 20, (n, body.dim), z)
        kept = geometrics(1, k << 20, n, z) >= k * body.level(x) - np.abs(x).sum(axis=1)
        assert abs(body.diamond_share - kept.mean()) <= 5 * math.sqrt(kept.mean() / n) + 1e-4
