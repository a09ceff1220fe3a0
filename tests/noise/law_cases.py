"""All laws of one number, with distributions written from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tightdp.noise.gaussian_laws import AnalyticGaussian, DiscreteGaussian, Gaussian
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.rounded_gaussian import RoundedGaussian
from tightdp.noise.table_noise import TableNoise

LEVEL = 1e-6  # below it a law is refused
DRAWS = 400_000
WEIGHTS = [1, 3, 9, 20, 40, 60, 61, 39, 20, 8, 4, 1]
WIDE = [w << 60 for w in WEIGHTS]


# --- oracles: distribution functions, written from the definitions --------------------------------


def truncated_laplace_cdf(x, epsilon, delta):
    bound = math.log(1 + (math.exp(epsilon) - 1) / (2 * delta))
    size = stats.truncexpon.cdf(np.abs(x), b=bound, scale=1 / epsilon)
    return 0.5 + np.sign(x) * size / 2


def staircase_cdf(x, epsilon, share):
    """A sum over the steps, one by one."""
    q, y = math.exp(-epsilon), np.abs(np.asarray(x, dtype=float))
    height = (1 - q) / (2 * (share + q * (1 - share)))
    mass = np.minimum(y, share)
    for n in range(1, int(40 / epsilon) + 2):
        mass = mass + q**n * np.clip(y - share - (n - 1), 0, 1)
    return 0.5 + np.sign(x) * height * mass


def tulap_cdf(x, epsilon, delta):
    """Awan and Slavkovic (2018): the definition by its distribution function."""
    b, x = math.exp(-epsilon), np.asarray(x, dtype=float)
    low = -np.abs(x)
    near = np.round(low)
    whole = b ** (-near) / (1 + b) * (b + (low - near + 0.5) * (1 - b))
    whole = np.where(x > 0, 1 - whole, whole)
    q = 2 * delta * b / (1 - b + 2 * delta * b)
    return np.clip((whole - q / 2) / (1 - q), 0, 1)


def table_mass(weights, start, points, dithered, atom):
    """Exact probabilities of a table, as a dictionary of fractions."""
    mass: dict[int, Fraction] = {}
    total = sum(weights) + atom
    for i, w in enumerate(weights):
        for u in range(points):
            for bit in (0, 1) if dithered else (0,):
                z = (start + i) * points + u + bit
                share = Fraction(w, total * points * (2 if dithered else 1))
                mass[z] = mass.get(z, Fraction(0)) + share
    mass[0] = mass.get(0, Fraction(0)) + Fraction(atom, total)
    return mass


def steps_mass(epsilon, width, core, reach):
    def weight(z):
        return math.exp(-epsilon * ((abs(z) + width - core) // width))

    total = math.fsum(weight(z) for z in range(-reach, reach + 1))
    return {z: weight(z) / total for z in range(-reach, reach + 1)}


def gaussian_mass(sigma2, reach=400):
    weights = {z: math.exp(-z * z / (2 * sigma2)) for z in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {z: w / total for z, w in weights.items()}


def rounded_mass(sigma2, reach=400):
    sigma = math.sqrt(sigma2)
    near = {z: stats.norm.sf(abs(z) - 0.5, scale=sigma) for z in range(-reach, reach + 1)}
    return {z: p - stats.norm.sf(abs(z) + 0.5, scale=sigma) for z, p in near.items()}


# --- the table of laws ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A law for sensitivity ``own`` (1 on the line, 10 on the integers) and its oracle."""

    name: str
    make: Callable[[Any], Any]  # from a sensitivity
    own: Any
    oracle: Callable[[Any], Any]  # cdf on the line, dictionary of masses on the integers
    cuts: Callable[[Any], Any] = lambda law: [0.0]  # where the density jumps
    less: float = 0.8  # a scale that is too small by so much must be seen


def steps_cuts(law):
    return np.concatenate([[0], law._steps.core + law._steps.width * np.arange(60)])


def piecewise(scale, atom=0):
    return PiecewiseNoise(
        WEIGHTS, start=-6, cell_width=scale / 4, epsilon=0.5, sensitivity=1.0, atom=atom
    )


def piecewise_cdf(atom):
    def cdf(x):
        total, out = sum(WEIGHTS) + atom, 0.0
        for i, w in enumerate(WEIGHTS):
            out = out + w / total * np.clip(4 * np.asarray(x, dtype=float) - (i - 6), 0, 1)
        return out + atom / total * (np.asarray(x) >= 0)

    return cdf


def table(points, weights=WEIGHTS, dithered=True, atom=30):
    return TableNoise(
        weights,
        start=-6,
        points=points,
        dithered=dithered,
        atom=atom,
        epsilon=0.5,
        sensitivity=10,
    )


CONTINUOUS = [
    Case(
        "laplace",
        lambda s: Laplace(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.laplace.cdf(x, scale=1 / 0.8),
    ),
    Case(
        "truncated laplace",
        lambda s: TruncatedLaplace(epsilon=0.8, delta=0.05, sensitivity=s),
        1.0,
        lambda law: lambda x: truncated_laplace_cdf(x, 0.8, 0.05),
        lambda law: [0.0, law.bound],
    ),
    Case(
        "staircase",
        lambda s: Staircase(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: staircase_cdf(x, 0.8, 1 / (1 + math.exp(0.4))),
        steps_cuts,
    ),
    Case(
        "staircase with a wide core",
        lambda s: Staircase(epsilon=2.5, sensitivity=s, core_share=0.7),
        1.0,
        lambda law: lambda x: staircase_cdf(x, 2.5, 0.7),
        steps_cuts,
    ),
    Case(
        "tulap",
        lambda s: Tulap(epsilon=0.8, sensitivity=s),
        1.0,
        lambda law: lambda x: tulap_cdf(x, 0.8, 0.0),
        steps_cuts,
    ),
    Case(
        "cut tulap",
        lambda s: Tulap(epsilon=0.8, delta=0.03, sensitivity=s),
        1.0,
        lambda law: lambda x: tulap_cdf(x, 0.8, 0.03),
        lambda law: np.append(steps_cuts(law), law.bound),
    ),
    Case(
        "gaussian",
        lambda s: Gaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.norm.cdf(x, scale=math.sqrt(2 * math.log(125)) / 0.8),
        less=0.5,  # the classical formula wastes more than a third of its noise here
    ),
    Case(
        "analytic gaussian",
        lambda s: AnalyticGaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        1.0,
        lambda law: lambda x: stats.norm.cdf(x, scale=law.sigma),
    ),
    Case(
        "piecewise",
        piecewise,
        1.0,
        lambda law: piecewise_cdf(0),
        lambda law: np.arange(-6, 7) / 4,
    ),
    Case(
        "piecewise with an atom",
        lambda s: piecewise(s, atom=30),
        1.0,
        lambda law: piecewise_cdf(30),
        lambda law: np.arange(-6, 7) / 4,
    ),
]
LATTICE = [
    Case(
        "geometric",
        lambda s: Geometric(epsilon=0.8, sensitivity=s),
        10,
        lambda law: {z: float(stats.dlaplace.pmf(z, 0.08)) for z in range(-500, 501)},
    ),
    Case(
        "truncated geometric",
        lambda s: TruncatedGeometric(epsilon=0.8, delta=0.05, sensitivity=s),
        10,
        lambda law: steps_mass(0.08, 1, 1, law.reach),
    ),
    Case(
        "truncated geometric, nearly uniform",
        lambda s: TruncatedGeometric(epsilon=0.125, delta=0.1, sensitivity=s),
        10,
        lambda law: steps_mass(0.0125, 1, 1, law.reach),
    ),
    Case(
        "discrete staircase",
        lambda s: DiscreteStaircase(epsilon=2.0, sensitivity=s),
        10,
        lambda law: steps_mass(2.0, 10, law.core, 250),
    ),
    Case(
        "discrete tulap",
        lambda s: DiscreteTulap(epsilon=0.8, sensitivity=s),
        10,
        lambda law: steps_mass(0.8, 10, 5, 500),
    ),
    Case(
        "cut discrete tulap",
        lambda s: DiscreteTulap(epsilon=0.8, delta=0.03, sensitivity=s),
        10,
        lambda law: steps_mass(0.8, 10, 5, law.reach),
    ),
    Case(
        "cut discrete tulap, nearly uniform",
        lambda s: DiscreteTulap(epsilon=0.25, delta=0.1, sensitivity=s),
        10,
        lambda law: steps_mass(0.25, 10, 5, law.reach),
    ),
    Case(
        "lattice steps",
        lambda s: LatticeSteps(epsilon=1.5, sensitivity=s, width=4, core=3, delta=0.02),
        10,
        lambda law: steps_mass(0.5, 4, 3, law.reach),
    ),
    Case(
        "discrete gaussian",
        lambda s: DiscreteGaussian(epsilon=0.8, delta=0.01, sensitivity=s),
        10,
        lambda law: gaussian_mass(float(law.sigma2)),
    ),
    Case(
        "rounded gaussian",
        lambda s: RoundedGaussian(sigma2=Fraction(11 * s * s, 3), sensitivity=s, delta=0.01),
        10,
        lambda law: rounded_mass(float(law.sigma2)),
    ),
    Case(
        "table",
        table,
        10,
        lambda law: table_mass(WEIGHTS, -6, 10, True, 30),
    ),
    Case(
        "wide table",
        lambda s: table(s, WIDE, dithered=False, atom=0),
        10,
        lambda law: table_mass(WIDE, -6, 10, False, 0),
    ),
]
CASES = CONTINUOUS + LATTICE
LAWS = {case.name: case.make(case.own) for case in CASES}


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def hockey_stick(mass, epsilon, steps):
    """The divergence of a list of masses from itself moved by ``steps``, the worse direction."""

    def one_way(w):
        return np.maximum(w[steps:] - math.exp(epsilon) * w[:-steps], 0).sum() + w[:steps].sum()

    return 0.0 if steps == 0 else max(one_way(mass), one_way(mass[::-1]))
