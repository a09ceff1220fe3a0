"""How close any default can come to the better of two estimates, whatever the coefficient is.

    python benchmarks/regression_regret.py

One coefficient is seen through normal noise of standard deviation 1: x ~ N(theta, 1). The variants
of a regression keep x as it is, or a fixed part c of it (a ridge penalty), or nothing. Which of
them has the least median error depends on theta, which nobody knows. A rule, randomised or not, is
within a factor r of the better one everywhere if |rule(x) - theta| <= r m(theta) with probability
1/2 or more for all theta, m the median error of the better one. Whether there is such a rule is a
linear program in the chances of rule(x) on a grid; its answer is exact up to the grid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog
from scipy.sparse import csr_matrix, eye, hstack, kron
from scipy.stats import norm

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


def main() -> None:
    for part in (0.0, 0.1, 0.25, 0.5, 0.8):
        print(f"keep all, or {part:g} of it: {least_ratio(part):.2f} at best", flush=True)


if __name__ == "__main__":
    main()
