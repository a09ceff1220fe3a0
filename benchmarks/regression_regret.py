"""How close any default can come to the best of several estimates, whatever the coefficients are.

    python benchmarks/regression_regret.py

**Shrinkage.** One coefficient is seen through normal noise of standard deviation 1: x ~ N(theta,
1). The variants of a regression keep x as it is, or a fixed part c of it (a ridge penalty), or
nothing. Which of them has the least median error depends on theta, which nobody knows. A rule,
randomised or not, is within a factor r of the better one everywhere if |rule(x) - theta| <= r
m(theta) with probability 1/2 or more for all theta, m the median error of the better one. Whether
there is such a rule is a linear program in the chances of rule(x) on a grid; its answer is exact up
to the grid.

**Noise.** The squared error that is predicted for a noise i is E_i^2(t) = T_i + f F_i + l S_i: what
reaches the coefficients of the noise of the products with the target, of all moments of the
features, and of their sums alone (``MomentNoise.typical_error``). The truth t = (f, l), half the
squared length of the slopes and the squared distance of the target's mean from the middle of its
bounds, is not known when noise is chosen. Number of rows and epsilon, which are, multiply all
errors alike. How many times the error of the best noise must a choice have that does not depend on
t? Ratios of two E^2, and of a mixture's E^2 to one of them, are quotients of affine functions of t:
along a line they rise or fall throughout, so that the largest ratio to the best noise over a
rectangle of truths is that at one of its corners. For one noise it is the largest of four numbers
then, and for a mixture (noise i with chance w_i) a linear program with four rows, without a grid of
truths. Noises are listed one by one: all bodies of which the library draws noise of these moments,
at all shares of epsilon (in thousandths) and all weights of the target (in 64ths).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog
from scipy.sparse import csr_matrix, eye, hstack, kron
from scipy.stats import norm

import tightdp as tdp
from tightdp.data.regression_moments import MOMENT_KINDS, RegressionMoments, measured
from tightdp.errors import InfeasibleSamplingError
from tightdp.geometry.norm_balls import NormBall
from tightdp.geometry.nuclear_ball import MOST_SIZE
from tightdp.noise.nuclear import MOST_REPLACED
from tightdp.noise.on_lattice import lattice_body
from tightdp.noise.ranking import LP_NAMES
from tightdp.shaping import moment_noise
from tightdp.shaping.moment_noise import MomentNoise, Part
from tightdp.shaping.nuclear_part import regression_part

Array = NDArray[np.float64]

SEEN = np.linspace(0, 7.5, 76)  # rules are odd functions: the other half mirrors this one
RULES = np.linspace(-6, 6, 161)
TRUTHS = np.append(0.02, np.linspace(0.1, 4, 27))


def median_error(part: float, truth: float) -> float:
    """Of ``part`` times x: |part z - (1 - part) truth| for a standard normal z."""
    if part == 0:
        return truth
    bias = (1 - part) * truth

    def below(size: float) -> float:
        return float(norm.cdf((size + bias) / part) - norm.cdf((-size + bias) / part)) - 0.5

    return float(brentq(below, 0, 20 + truth))


def chances() -> tuple[Array, Array]:
    """Of the cells of x and of their mirror images, for every truth."""
    edges = np.concatenate([[0.0], (SEEN[1:] + SEEN[:-1]) / 2, [np.inf]])
    right = np.diff(norm.cdf(edges[None, :] - TRUTHS[:, None]), axis=1)
    left = -np.diff(norm.cdf(-edges[None, :] - TRUTHS[:, None]), axis=1)
    return right, left


def best_chance(allowed: Array) -> float:
    """The largest chance, for the worst truth, to be within ``allowed`` of it."""
    right, left = chances()
    near = np.abs(RULES[None, :] - TRUTHS[:, None]) <= allowed[:, None]
    mirrored = np.abs(-RULES[None, :] - TRUTHS[:, None]) <= allowed[:, None]
    hit = right[:, :, None] * near[:, None, :] + left[:, :, None] * mirrored[:, None, :]
    A = hit.reshape(len(TRUTHS), -1)
    bound = hstack([csr_matrix(-A), np.ones((len(TRUTHS), 1))]).tocsr()
    whole = kron(eye(len(SEEN)), np.ones((1, len(RULES))))
    whole = hstack([whole, csr_matrix((len(SEEN), 1))]).tocsr()
    goal = np.append(np.zeros(A.shape[1]), -1.0)
    found = linprog(
        goal,
        A_ub=bound,
        b_ub=np.zeros(len(TRUTHS)),
        A_eq=whole,
        b_eq=np.ones(len(SEEN)),
        bounds=(0, 1),
        method="highs-ipm",
    )
    return float(-found.fun)


def least_ratio(part: float) -> float:
    """The least r for which there is a rule, to within 0.01."""
    better = np.array([min(median_error(c, t) for c in (1.0, part)) for t in TRUTHS])
    low, high = 1.0, 2.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if best_chance(middle * better) >= 0.5 else (middle, high)
    return high


def moments_of(features: int, *, joint: bool) -> RegressionMoments:
    names = [f"x{i}" for i in range(features)]
    schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=ROWS)
    return RegressionMoments(schema, names, "y", joint=joint)


def effects(noise: MomentNoise) -> Array:
    """T, F and S of a noise at epsilon = 1, by the median size of the noise of every part."""
    typical = [(part.dim + 2 / 3) ** 2 / (part.dim + 1) / (part.dim + 2) for part in noise.parts]
    each = [part.variances(Fraction(1)) for part in noise.parts]
    i, j, factor = noise.moments.entries.T
    found = np.concatenate([v * size for v, size in zip(each, typical, strict=True)]) / factor**2
    y = noise.moments.outcome
    out = [found[at].mean() for at in ((j == y) & (i < y), j < y, (j < y) & (i == 0))]
    guessed = float(np.dot(out, (1.0, moment_noise._FELT, moment_noise._LEVEL)))
    assert np.isclose(guessed, noise.typical_error()), "the library predicts something else"
    return np.array(out)


def drawable(moments: RegressionMoments, part: str) -> Iterator[tuple[str, NormBall]]:
    """The moment bodies of a part that exact noise can be drawn from, measured."""
    for kind in MOMENT_KINDS:
        ball = moments.ball(part, kind)
        try:
            lattice_body(ball)[0].check_feasible()
        except InfeasibleSamplingError:
            continue
        yield f"{kind} body", measured(ball)


def splits(features: int) -> Iterator[tuple[str, Array]]:
    """Target and features apart, these in every body, at all shares of what the square leaves."""
    moments = moments_of(features, joint=False)
    found = drawable(moments, "features")
    bodies = {name: Part("features", ball, WHOLE) for name, ball in found}
    if moments.outcome <= MOST_SIZE:
        bodies["nuclear ball"] = nuclear = regression_part("features", moments, None)
        if moments.outcome <= MOST_REPLACED:
            bodies["smaller nuclear ball"] = replace(nuclear, replaced=True)
    target = Part("target", moments.ball("target"), WHOLE)
    square = Part("square", moments.ball("square"), WHOLE)
    for name, body in bodies.items():
        parts = {"target": target, "features": body, "square": square}
        T, F, S = effects(MomentNoise(moments, tuple(parts[part] for part in moments.parts)))
        for share in np.arange(1, 1000) / 1000:
            own, rest = float(REST) * share, float(REST) * (1 - share)
            yield f"{name}, {share:.3f}", np.array([T / own**2, F / rest**2, S / rest**2])


def nuclear_balls(features: int) -> Iterator[tuple[str, Array]]:
    """One ball for everything, with every weight w of the target: see ``moment_noise._nuclear``."""
    moments, rest = moments_of(features, joint=True), 1 + features
    for replaced in (False, True):
        if moments.outcome + 1 > (MOST_REPLACED if replaced else MOST_SIZE):
            continue
        part = replace(regression_part("moments", moments, 1.0), replaced=replaced)
        T, F, S = effects(MomentNoise(moments, (part,)))
        for weight in np.arange(16, 64 * 16) / 64:
            grown = ((rest + weight**2) / (rest + 1)) ** 2
            words = "smaller nuclear ball for all" if replaced else "nuclear ball for all"
            yield f"{words}, {weight:.2f}", grown * np.array([T / weight**2, F, S])


def one_body(features: int) -> Iterator[tuple[str, Array]]:
    """One moment body for all moments but the target's square."""
    moments = moments_of(features, joint=True)
    square = Part("square", moments.ball("square"), 1 - REST)
    for name, ball in drawable(moments, "moments"):
        whole = MomentNoise(moments, (Part("moments", ball, REST), square))
        yield f"{name} for all", effects(whole)


def named(features: int, noise: str) -> Array:
    """The noise that the library takes by this name."""
    names = [f"x{i}" for i in range(features)]
    schema = moments_of(features, joint=True).schema
    return effects(moment_noise.choose_noise(schema, names, "y", noise, WHOLE, square=True))


def least(errors: Array, best: Array) -> tuple[int, float, float]:
    """Which choice has the least worst ratio to ``best``, that ratio, and that of a mixture.

    Choices are rows of the errors, truths their other sides.
    """
    ratio = (errors / best).reshape(len(errors), -1)
    found = linprog(
        np.append(np.zeros(len(ratio)), 1.0),
        A_ub=np.column_stack([ratio.T, -np.ones(ratio.shape[1])]),
        b_ub=np.zeros(ratio.shape[1]),
        A_eq=np.append(np.ones(len(ratio)), 0.0)[None],
        b_eq=[1.0],
    )
    worst = ratio.max(axis=1)
    place = int(worst.argmin())
    return place, float(worst[place]), float(found.fun)


def family_of(features: int, variants: dict[str, Array]) -> dict[str, Array]:
    """All noises on the moments of so many features, the named ones among them."""
    return dict([*splits(features), *nuclear_balls(features), *one_body(features)]) | variants


def noise_row(features: int, felt: tuple[float, float], level: tuple[float, float]) -> str:
    """A row of the table whose columns are ``COLUMNS``, for truths in a rectangle."""
    corners = np.array([(1.0, *t) for t in product(felt, level)])
    usual = np.array([(1.0, *t) for t in product(np.geomspace(*felt, 41), USUAL * level[1])])
    variants = {name: named(features, name) for name in ("best", "split", "hull", *LP_NAMES)}
    family = family_of(features, variants)
    names, listed = list(family), np.array(list(family.values()))
    compared = np.array([variants[name] for name in VARIANTS])
    cells = [str(features)]
    for among in (listed, compared):
        best = (among @ corners.T).min(axis=0)
        place, one, mixture = least(listed @ corners.T, best)  # of squares
        cells += [f"{np.sqrt(one):.2f} ({names[place]})", f"{np.sqrt(mixture):.2f}"]
        own = [variants[name] @ corners.T / best for name in ("best", "split", "hull")]
        cells += [f"{np.sqrt(ratio.max()):.2f}" for ratio in own]
    at_usual = listed @ usual.T
    mean = np.exp(np.log(at_usual / at_usual.min(axis=0)).mean(axis=1) / 2)
    cells += [f"{mean[names.index('best')]:.3f}", f"{mean.min():.3f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    for part in (0.0, 0.1, 0.25, 0.5, 0.8):
        print(f"keep all, or {part:g} of it: {least_ratio(part):.2f} at best", flush=True)
    for felt, level in RANGES:
        print("\nf from {:g} to {:g}, squared level from {:g} to {:g}\n".format(*felt, *level))
        print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
        for features in FEATURES:
            print(noise_row(features, felt, level), flush=True)


ROWS = 10_000  # they decide, with epsilon = 1, the share of the target's square alone
WHOLE, REST = Fraction(1), Fraction(97, 100)
FEATURES = (*range(1, 11), 12, 15, 20, 30)
VARIANTS = ("split", "hull", "linf")  # those of regression_grid.py
COLUMNS = (
    "features",
    *("over the best of all: the least of any noise", "of mixtures", "default", "split", "hull"),
    *("over the best named: the least of any noise", "of mixtures", "default", "split", "hull"),
    *("on average over the best of all: default", "least of any noise"),
)
USUAL = np.array([0, 0, 9 / 49, 25 / 49, 1])  # squared levels on average
RANGES = (
    ((0.0004, 0.18), (0.0, 0.49)),  # the settings of regression_grid.py
    ((1 / 128, 1 / 8), (0.0, 1 / 4)),
)

if __name__ == "__main__":
    main()
