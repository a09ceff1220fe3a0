"""Tables, schemas and exact density ratios for the tests of objective perturbation."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from tightdp import Category, Interval, Schema

BETA = np.array([0.0, -1.0, -0.5, -0.25, 0.0, 0.75, 1.5])


def binary_schema(width, rows, low=-1.0, high=1.0, **options):
    columns = {f"x{j}": Interval(low, high) for j in range(width)}
    return Schema({**columns, "y": Category([0, 1], other=0)}, rows=rows, **options)


def algorithm_three(rows, rng):
    """The data of the papers' simulation, on the grid of a schema."""
    x = np.round((2.0 * rng.uniform((rows, 7)) - 1.0) * 2**16) / 2**16
    y = (rng.uniform(rows) < 1.0 / (1.0 + np.exp(-x @ BETA))).astype(float)
    return x, y


def log_density(theta, x, y, *, rate, ridge, ball, loss):
    """Log density of the minimiser at every row of ``theta``, by change of variables."""
    margin = theta @ x.T
    pull = loss.first(margin, y) @ x + ridge * theta
    curve = loss.second(margin, y)
    hessian = np.einsum("tn,nj,nk->tjk", curve, x, x) + ridge * np.eye(x.shape[1])
    return -rate * np.asarray(ball.gauge(-pull)) + np.linalg.slogdet(hessian)[1]


@functools.cache
def _outcomes(width, span):
    axis = np.linspace(-span, span, {1: 48_001, 2: 241}[width])
    return np.array(list(itertools.product(axis, repeat=width)))


def largest_ratio(x, y, other, label, mechanism, *, rate=1.0, ridge=1.0, span=12.0):
    """The largest log ratio when the first row becomes ``other``, over a grid of outcomes."""
    theta = _outcomes(x.shape[1], span)
    facts = {
        "rate": mechanism.calibration.rate * rate,
        "ridge": mechanism.calibration.ridge * ridge,
        "ball": mechanism.ball,
        "loss": mechanism.loss,
    }
    moved, labels = x.copy(), y.copy()
    moved[0], labels[0] = other, label
    gap = log_density(theta, x, y, **facts) - log_density(theta, moved, labels, **facts)
    return float(np.abs(gap).max())
