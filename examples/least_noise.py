"""The least noise for (sum of x, 2 * sum of x**2), x in [-1, 1], one record replaced.

Compares the noise of the valid l_p balls at epsilon = 1: the same guarantee, different shapes.
"""

from __future__ import annotations

import math

import numpy as np

from tightdp.geometry.norm_balls import LpBall

EPSILON = 1.0

# Exact sensitivities of the statistic: the largest movement in each norm.
BALLS = {
    "l1": LpBall(dim=2, p=1, radius=25 / 8),
    "l2": LpBall(dim=2, p=2, radius=math.sqrt(71 + 8 * math.sqrt(2)) / 4),
    "linf": LpBall(dim=2, p=np.inf, radius=2.0),
}


def main() -> None:
    print(f"Noise for (sum x, 2 sum x^2) at epsilon = {EPSILON:g}, replace-one neighbours\n")
    print(f"{'ball':>6} {'volume':>9} {'entropy':>9} {'std 1':>7} {'std 2':>7}")
    for name, ball in BALLS.items():
        m = ball.dim
        # H = m - m log(epsilon) + log m! + log vol K;  Cov = (m+1)(m+2)/epsilon^2 E[u u^T]
        entropy = m - m * math.log(EPSILON) + math.lgamma(m + 1) + ball.log_volume()
        covariance = (m + 1) * (m + 2) / EPSILON**2 * ball.second_moment.value
        first, second = np.sqrt(np.diag(covariance))
        print(f"{name:>6} {ball.volume():9.4f} {entropy:9.4f} {first:7.3f} {second:7.3f}")


if __name__ == "__main__":
    main()
