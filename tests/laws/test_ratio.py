"""Law 3, ratio: what neighbours make likely differs by no more than the guarantee says.

For every additive mechanism and every noise the log probabilities are those of the exact lattice
law. The largest ratio over the moves of extreme rows is at most epsilon; that the sampler has this
law is tested by an identity that holds for it alone, E P(Z - d)/P(Z) = 1. Noise with a loss of
delta is put to the hockey-stick divergence of its whole table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import random_statistics as at_random
from random_statistics import ADD, DELTA, MAKERS, PURE, RELATIONS, REPLACE, images, released, rows

import tightdp as tdp
from tightdp.data.class_moments import ClassMoments
from tightdp.data.column_moments import SumsAndSquares
from tightdp.data.public_rows import sampled_images, swept_images
from tightdp.data.regression_moments import Moments, RegressionMoments
from tightdp.data.statistics import Products, Statistic
from tightdp.errors import ParameterError
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.shaping.ball_noise import BallNoise
from tightdp.shaping.class_noise import BodyNoise, LawNoise
from tightdp.shaping.coordinate_noise import CoordinateNoise
from tightdp.shaping.gaussian_noise import GaussianNoise

# a large delta makes short laws
pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")

LogLaw = Callable[[Any], Any]
KINDS = sorted(MAKERS, key=lambda kind: kind.__name__)
ROUNDING = 1e-9
DRAWS = 8_000
ERRORS = 5  # standard errors
_CLOSER = 12
COSTLY = (Moments, RegressionMoments)  # bodies whose draws take seconds
SPLITS = ("split triangle", "split cylinder", "split box")


# --- the exact law of the drawn integers ------------------------------------------------------


def log_law(mechanism: Any) -> LogLaw:
    """Log probabilities of integer vectors, up to a constant."""
    if isinstance(mechanism, SplitMechanism):
        where = [mechanism.statistic.where(part.name) for part in mechanism.parts]
        parts = list(zip(mechanism.noises, where, strict=True))
        return lambda z: sum(_of_levels(noise, z[:, w]) for noise, w in parts)
    choice = mechanism._choice
    if isinstance(choice, BallNoise):
        return lambda z: _of_levels(choice.draws, z)
    if isinstance(choice, BodyNoise):
        width, classes = choice.width, range(choice.classes)
        blocks = [slice(c * width, (c + 1) * width) for c in classes]
        return lambda z: sum(_of_levels(choice.noise, z[:, b]) for b in blocks)
    if isinstance(choice, LawNoise):
        laws = [choice.laws[0 if j % choice.width == 0 else 1] for j in range(len(choice.moments))]
    else:
        assert isinstance(choice, CoordinateNoise)
        laws = choice.laws
    return lambda z: sum(law.log_pmf(z[:, j]) for j, law in enumerate(laws))


def _of_levels(noise: Any, z: Any) -> Any:
    return -float(noise.unit) * noise.exponent(z).astype(np.float64)


def drawn(mechanism: Any, count: int, seed: int) -> Any:
    """Draws of the noise that a release adds, as integers."""
    if isinstance(mechanism, SplitMechanism):
        bits = tdp.randomness.source(seed)
        return np.hstack([noise.sample(count, rng=bits) for noise in mechanism.noises])
    choice = mechanism._choice
    if isinstance(choice, BodyNoise):  # one draw is a row for every class
        return choice.noise.sample(count * choice.classes, rng=seed).reshape(count, -1)
    if isinstance(choice, LawNoise):
        source = tdp.randomness.source(seed)
        return np.array([choice.sample(rng=source) for _ in range(min(count, 500))])
    return np.asarray(mechanism.noise.sample(count, rng=seed))


# --- the check --------------------------------------------------------------------------------


def far_moves(mechanism: Any, seed: int) -> Any:
    """Moves of extreme rows and of random ones, with all rows of a person."""
    statistic = mechanism.statistic
    factor = getattr(mechanism, "_choice", mechanism).factor
    table = rows(np.random.default_rng(seed), statistic.schema, 24)
    points = factor * np.concatenate(
        [
            sampled_images(statistic, mechanism.bits),
            swept_images(statistic, mechanism.bits)[:40],
            images(statistic, mechanism.bits, table),
        ]
    )
    if statistic.schema.neighbors is tdp.privacy.Neighbors.REPLACE_ONE:
        pairs = np.array(list(combinations(range(len(points)), 2)))
        moves = points[pairs[:, 0]] - points[pairs[:, 1]]
    else:
        moves = points * statistic.schema.rows_per_person
    return np.unique(moves[(moves != 0).any(axis=1)], axis=0)


def largest_ratio(law: LogLaw, moves: Any, draws: Any) -> float:
    """The largest log P(z) - log P(z - d), in either direction, over moves d and points z.

    z = 0, where K-norm noise loses most, for all moves; draws for those that lose most there.
    """
    zero = np.zeros_like(moves[:1])
    first = law(zero) - law(moves)
    worst = float(first.max())
    for d in moves[np.argsort(-first)[:_CLOSER]]:
        with np.errstate(invalid="ignore"):  # where both are impossible, nothing is lost
            ratio = np.abs(law(draws) - law(draws - d))
        worst = max(worst, float(np.nanmax(ratio)))
    return worst


def is_private(law: LogLaw, moves: Any, draws: Any, epsilon: float) -> bool:
    return largest_ratio(law, moves, draws) <= epsilon * (1 + ROUNDING)


def is_drawn(law: LogLaw, move: Any, draws: Any) -> bool:
    """E P(Z - d)/P(Z) = 1 for draws Z of the law P, to five standard errors."""
    likely = np.exp(law(draws - move) - law(draws))
    error = ERRORS * likely.std() / math.sqrt(len(likely))
    return bool(abs(likely.mean() - 1) <= error + ROUNDING)


def farthest(law: LogLaw, moves: Any) -> Any:
    zero = law(np.zeros((1, moves.shape[1]), dtype=np.int64))
    return moves[int(np.argmax(zero - law(moves)))]


def pure(kind: type[Statistic], seed: int, epsilon: Any = 1) -> list[Any]:
    """Mechanisms of one random statistic of a kind, under all its relations."""
    only = [n for n in (*PURE, *SPLITS) if not (kind in COSTLY and n == "best")]
    found = []
    for relation in RELATIONS.get(kind, (REPLACE, ADD)):
        rng = np.random.default_rng([seed, 3, *kind.__name__.encode()])
        facts = at_random.schema(rng, relation, 2 if relation == ADD else 1, bits=3)
        found += released(MAKERS[kind](rng, facts), epsilon, only=only)
    return [given.mechanism for given in found]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_largest_ratio_is_epsilon(kind: type[Statistic], seed: int) -> None:
    reached = []
    for mechanism in pure(kind, seed):
        law, moves = log_law(mechanism), far_moves(mechanism, seed)
        epsilon, some = float(mechanism.epsilon), drawn(mechanism, 20, seed)
        assert is_private(law, moves, some, epsilon), mechanism.law
        reached.append(largest_ratio(law, moves, some) / epsilon)
        many = drawn(mechanism, 60 if kind in COSTLY else 300, seed)
        assert (many.std(axis=0) > 0).all(), mechanism.law  # every entry
    assert max(reached) > 0.99  # some noise is spent to the last bit: the check has power


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_less_noise_is_caught(kind: type[Statistic], seed: int) -> None:
    """Planted: a fifth less noise on all entries, and none on one of them."""
    caught = 0
    for mechanism in pure(kind, seed, epsilon=Fraction(5, 4)):
        law, moves, draws = (
            log_law(mechanism),
            far_moves(mechanism, seed),
            drawn(mechanism, 20, seed),
        )
        caught += not is_private(law, moves, draws, 1.0)
        j = int(np.flatnonzero(moves[0])[0])

        def removed(z: Any, law: LogLaw = law, j: int = j) -> Any:
            still = z.copy()
            still[:, j] = 0
            try:
                rest = law(still)
            except ParameterError:  # the body is flat: nothing else can balance the entry
                rest = np.zeros(len(z))
            return np.where(z[:, j] == 0, rest, -np.inf)

        draws[:, j] = 0
        assert not is_private(removed, moves, draws, 1.25)
    assert caught >= 1


# --- the sampler ------------------------------------------------------------------------------


def flags_of(facts: tdp.Schema) -> tdp.Schema:
    return facts.ruled(dict.fromkeys("abc", tdp.Category(["no", "yes"], other="no")))


def amounts_of(facts: tdp.Schema) -> tdp.Schema:
    return facts.ruled(dict.fromkeys("ab", tdp.Interval(0, 2, missing=0)))


SMALL = {
    "counts": lambda facts: tdp.Counts(facts, ["j"]),
    "marginals": lambda facts: tdp.Counts(facts, ["j:k", "k"]),
    "sums": lambda facts: tdp.Sums(facts, ["a", "b"]),
    "mixed": lambda facts: Products(facts, ["j", "a"]),
    "squares": lambda facts: SumsAndSquares(facts, ["a"]),
    "flags": lambda facts: tdp.Flags(flags_of(facts), at_most=2),
    "implied": lambda facts: tdp.Flags(flags_of(facts), implies=[("a", "b")]),
    "capped": lambda facts: tdp.CappedSums(amounts_of(facts), at_most=2),
    "classes": lambda facts: ClassMoments(facts, ["j", "a"], "k"),
}


@pytest.mark.slow_for("classes-add-remove")
@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("name", SMALL)
def test_the_sampler_has_the_law(name: str, relation: str, seed: int) -> None:
    """And a fifth less noise than its law says is seen."""
    facts = at_random.schema(np.random.default_rng(seed), relation, bits=3)
    statistic = SMALL[name](facts)
    seen = 0
    for given, short in zip(
        released(statistic, 1, only=PURE),
        released(statistic, Fraction(5, 4), only=PURE),
        strict=True,
    ):
        mechanism, cut = given.mechanism, short.mechanism
        law = log_law(mechanism)
        move = 2 * farthest(law, far_moves(mechanism, seed))  # what more noise would make likely
        assert is_drawn(law, move, drawn(mechanism, DRAWS, seed)), given.noise
        if cut.bits == mechanism.bits and given.noise != "own ball":
            seen += not is_drawn(law, move, drawn(cut, DRAWS, seed))
    assert seen >= 1


# --- with a loss of delta ---------------------------------------------------------------------


def hockey_stick(first: Any, second: Any, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def entry_laws(choice: Any) -> list[Any]:
    """The law of every entry."""
    if not isinstance(choice, GaussianNoise):
        return list(choice.laws)
    if choice.discrete:
        facts = {"epsilon": 1024, "delta": 0.999}  # of no account: only its probabilities are asked
        return [tdp.DiscreteGaussian(sigma2=v, **facts) for v in choice.variances]
    return [tdp.RoundedGaussian(sigma2=v, delta=0.999) for v in choice.variances]


def largest_loss(mechanism: Any, epsilon: float) -> float:
    """The largest divergence over the moves of extreme rows, all entries that move together."""
    laws, worst = entry_laws(mechanism._choice), 0.0
    for move in far_moves(mechanism, 1):
        moving = np.flatnonzero(move)
        before, after = np.ones(1), np.ones(1)
        for j in moving:
            law, d = laws[j], int(move[j])
            reach = int(np.abs([law.quantile(1e-12), law.quantile(1 - 1e-12)]).max()) + abs(d) + 2
            z = np.arange(-reach, reach + 1)
            before = np.multiply.outer(before, law.pmf(z)).ravel()
            after = np.multiply.outer(after, law.pmf(z - d)).ravel()
        both = hockey_stick(before, after, epsilon), hockey_stick(after, before, epsilon)
        worst = max(worst, *both)
    return worst


@pytest.mark.parametrize(
    "noise", ["truncated-laplace", "tulap", "gaussian", "discrete-gaussian", "designed"]
)
@pytest.mark.parametrize(
    ("relation", "column"), [(REPLACE, "j"), (ADD, "j"), (REPLACE, "a"), (ADD, "a")]
)
def test_the_largest_loss_is_delta(noise: str, relation: str, column: str, seed: int) -> None:
    facts = at_random.schema(np.random.default_rng(seed), relation, bits=2)
    statistic = Products(facts, [column])
    lost = 0.05 if noise == "designed" else DELTA

    def made(epsilon: Any) -> Any:
        return tdp.AdditiveMechanism(statistic, noise=noise, epsilon=epsilon, delta=lost)

    assert largest_loss(made(1), 1.0) <= lost * (1 + 1e-6)
    assert largest_loss(made(Fraction(5, 4)), 1.0) > lost  # planted: a fifth less noise


# --- the new noises for vectors, by what they draw --------------------------------------------


def loss_of_draws(draws: Any, move: Any, epsilon: float) -> float:
    """The largest P(z_j >= c) - e^epsilon P(z_j + d_j >= c) over entries j and thresholds c.

    Both ways, and less five standard errors: what draws show beyond doubt.
    """
    worst, count = -math.inf, len(draws)
    for j in np.flatnonzero(move):
        for sign in (1, -1):
            z = np.sort(sign * draws[:, j])
            here = np.arange(count, 0, -1) / count  # P(z >= z_i), for the first of equal ones
            here = here[np.searchsorted(z, z, side="left")]
            for step in (int(move[j]), -int(move[j])):
                there = 1 - np.searchsorted(z, z - step, side="left") / count
                lost = here - math.exp(epsilon) * there
                error = np.sqrt((here + math.exp(2 * epsilon) * there + 1 / count) / count)
                worst = max(worst, float((lost - ERRORS * error).max()))
    return worst


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize(
    "noise",
    ["gaussian", "discrete-gaussian", "l2", tdp.RoundedGaussian(sigma2=9)],
    ids=["gaussian", "discrete", "l2", "rounded"],
)
def test_an_entry_without_noise_is_caught(noise: Any, relation: str, seed: int) -> None:
    """Draws of all entries keep the guarantee; planted: the noise of one entry removed."""
    facts = at_random.schema(np.random.default_rng(seed), relation, bits=2)
    statistic = tdp.Counts(facts, ["j", "k"])
    budget = {"epsilon": 1} if isinstance(noise, str) else {}
    mechanism = tdp.AdditiveMechanism(statistic, noise=noise, delta=DELTA, **budget)
    move = max(far_moves(mechanism, seed), key=np.count_nonzero)
    draws = drawn(mechanism, DRAWS, seed)
    epsilon, delta = float(mechanism.epsilon), float(mechanism.delta)
    assert (draws.std(axis=0) > 0).all()
    assert loss_of_draws(draws, move, epsilon) <= delta
    for j in np.flatnonzero(move):
        without = draws.copy()
        without[:, j] = 0
        assert loss_of_draws(without, move, epsilon) > 0.9
