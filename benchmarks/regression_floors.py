r"""Floors under linear regressions: what it costs to lose to no peer, and what has no ends.

    python benchmarks/regression_floors.py [--draws 300] [--part peers | ends]

**Short slopes.** Whoever says next to 0 has next to no error where slopes are next to 0, and one
gradient step does. So a default that is to have no more error than any peer, whatever the slopes
are, must shrink short slopes as much, and then it shrinks longer ones, too. How much that costs is
bounded from below.

A rule is given more than any release says: the covariances of the features, exactly, and their
products with the target with the noise that the default's release has. Columns are independent, of
one width, and the noise is taken to be normal, so that what a rule sees is b + s z, with b the p
slopes and z standard normal. Directions are even, so that of all rules those are as good as any
that multiply what they see by a number that depends on its length r alone (averaging a rule over
rotations does not raise its largest error). For a prior w on lengths the least mean of
(error / allowed)^2 is that of the posterior mean, which is an integral over r; for any prior that
is a lower bound on the largest ratio to what is allowed, and the priors tried are moved to where
the rule does worst. Errors are root mean squares, over all directions for what is bounded, and over
tables and draws for the default and its peers.

**No ends.** Let the moments of the features be G, and e a direction. In a world in which they are
G' with G' e = 0 lines may be as steep along e as they like, and an interval of level 1 - alpha has
no upper end there with a chance of 1 - alpha at least. The least distance of G' from G, in standard
deviations of the noise of what is released of them, is d with :math:`d^2 = \min_e (Ge)' S(e)^{-1}
(Ge)`, S(e) the covariance of the noise times e. A test of G' against G at level alpha, the noise
taken to be normal, accepts G' with a chance of at least Phi(z - d) if G is true, z the quantile of
the normal law at 1 - alpha (Neyman and Pearson, 1933). So often must any interval that holds
1 - alpha in both worlds have no upper end, whatever it is made of.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from regression_grid import DESIGNS, FRESH, LATEST, Design, mechanism, noisy, peers, slopes_of
from scipy.optimize import minimize
from scipy.special import ive
from scipy.stats import norm

from tightdp.mechanisms.linear_fit import LinearFit

Array = NDArray[np.float64]

LENGTHS = np.array([0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5])
CHOSEN = tuple(
    (f"{columns} columns, small signal", epsilon)
    for columns in (3, 5, 7, 8)
    for epsilon in (1 / 16, 1 / 4)
)
SLACK = 1.05
ROUNDS, CELLS = 4_000, 2_000


def root_mean_square(found: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean(np.sum((found - truth) ** 2, axis=1))))


def errors(design: Design, epsilon: float, draws: int) -> tuple[Array, Array]:
    """Of the default and of the best peer, for every length."""
    found = mechanism(design, epsilon)
    own, other = [], []
    for length in LENGTHS:
        each = replace(design, length=float(length))
        rng = np.random.default_rng(3)
        tables = np.array([each.draw(each.rows, rng) for _ in range(2)])
        exact = np.tile(tables, (draws // 2, 1, 1))
        plain = slopes_of(exact)
        fits = LinearFit(found, noisy(found, exact, seed=11)).solve()[:, 1:]
        own.append(root_mean_square(fits, plain))
        rivals = peers(exact, each, epsilon, seed=13).values()
        other.append(min(root_mean_square(rival, plain) for rival in rivals))
    return np.array(own), np.array(other)


def noise_of_slopes(design: Design, epsilon: float) -> float:
    """s: of the products with the target, over the variance of a column."""
    found = mechanism(design, epsilon)
    drawn = found.moments.simulate(4_000, rng=1) / design.rows
    products = found.statistic.noise_matrices(drawn)[:, 1:-1, -1]
    cells = design.cells(20_000, np.random.default_rng(5))[:, 1:-1]
    return float(products.std() / cells.var(axis=0).mean())


class Shrinkers:
    """Rules that multiply what is seen by a number that depends on its length alone."""

    def __init__(self, columns: int, s: float) -> None:
        self.r = np.linspace(1e-3 * s, 5 * s * np.sqrt(columns) + 2 * LENGTHS.max(), CELLS)
        order, scaled = columns / 2 - 1, self.r * LENGTHS[:, None] / s**2
        density = (columns - 1) * np.log(self.r) - (self.r - LENGTHS[:, None]) ** 2 / (2 * s**2)
        density += np.log(ive(order, scaled)) - order * np.log(scaled)
        self.density = np.exp(density - density.max(axis=1, keepdims=True))
        self.density /= self.density.sum(axis=1, keepdims=True)
        along = ive(order + 1, scaled) / ive(order, scaled)  # mean cosine between seen and b
        self.product = self.r * LENGTHS[:, None] * along

    def least_worst(self, allowed: Array) -> float:
        """A lower bound on the largest ratio of any rule's error to what is allowed."""
        weight, best = np.full(len(LENGTHS), 1 / len(LENGTHS)), 0.0
        for turn in range(ROUNDS):
            own = (weight / allowed**2)[:, None] * self.density
            kept = (own * self.product).sum(axis=0) / np.maximum(own.sum(axis=0), 1e-300)
            kept = np.clip(kept / self.r**2, 0, 1)
            square = kept**2 * self.r**2 - 2 * kept * self.product + LENGTHS[:, None] ** 2
            ratio = (self.density * square).sum(axis=1) / allowed**2
            best = max(best, float(weight @ ratio))
            weight = weight * np.exp((ratio - ratio.max()) / 2 / np.sqrt(1 + turn / 50))
            weight /= weight.sum()
        return float(np.sqrt(best))

    def price(self, own: Array, other: Array, from_length: float) -> float:
        """The least r: no error above SLACK times a peer's, nor, from a length on, r times our own.

        To within 0.01; 1 where it costs nothing.
        """
        low, high = 1.0, 4.0
        while high - low > 0.01:
            middle = (low + high) / 2
            ours = np.where(from_length <= LENGTHS, middle * own, np.inf)
            fits = self.least_worst(np.minimum(SLACK * other, ours)) <= 1
            low, high = (low, middle) if fits else (middle, high)
        return low


def without_an_end(design: Design, epsilon: float, alpha: float = 0.05) -> tuple[float, float]:
    """The least distance d, and how often an interval must have no upper end."""
    rng = np.random.default_rng(1)
    G = np.mean([design.draw(design.rows, rng) for _ in range(20)], axis=0)[:-1, :-1]
    found = mechanism(design, epsilon)
    drawn = found.moments.simulate(3_000, rng=3) / design.rows
    noise = found.statistic.noise_matrices(drawn)[:, :-1, :-1]

    def square(direction: Array) -> float:
        e = direction / np.linalg.norm(direction)
        apart = noise @ e
        S = apart.T @ apart / len(apart) + 1e-12 * np.eye(len(e))
        return float((G @ e) @ np.linalg.solve(S, G @ e))

    starts = [*np.linalg.eigh(G)[1].T[:3], *rng.standard_normal((3, len(G)))]
    least = min(minimize(square, start, method="BFGS").fun for start in starts)
    distance = float(np.sqrt(least))
    return distance, float(norm.cdf(norm.ppf(1 - alpha) - distance))


def peer_rows(draws: int) -> None:
    print(
        "| setting | epsilon | default over best peer, slopes of length "
        + " | ".join(f"{length:g}" for length in LENGTHS)
        + " | least worst ratio to the best peer of any rule"
        + " | price, from .1 on | from .05 on |"
    )
    print("|---" * (len(LENGTHS) + 5) + "|")
    for name, epsilon in CHOSEN:
        design = {**DESIGNS, **FRESH, **LATEST}[name]
        own, other = errors(design, epsilon, draws)
        rules = Shrinkers(design.columns, noise_of_slopes(design, epsilon))
        cells = [name, f"{epsilon:g}", *(f"{ratio:.2f}" for ratio in own / other)]
        cells += [f"{rules.least_worst(other):.2f}"]
        cells += [f"{rules.price(own, other, start):.2f}" for start in (0.1, 0.05)]
        print("| " + " | ".join(cells) + " |", flush=True)


def end_rows() -> None:
    print("| setting | epsilon | distance | no upper end, at least |\n|---|---|---|---|")
    for name, design in DESIGNS.items():
        for epsilon in design.epsilons:
            distance, share = without_an_end(design, epsilon)
            print(f"| {name} | {epsilon:g} | {distance:.2f} | {share:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--part", choices=("peers", "ends"))
    asked = parser.parse_args()
    if asked.part != "ends":
        peer_rows(asked.draws)
    if asked.part != "peers":
        end_rows()


if __name__ == "__main__":
    main()
