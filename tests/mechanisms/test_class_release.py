"""Releases of moments within classes: exact losses, broken twins, errors, money."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.blocks import Block
from tightdp.data.class_moments import ClassMoments
from tightdp.errors import ParameterError
from tightdp.mechanisms.counts import NOISES, ClassMechanism
from tightdp.noise.gaussian_laws import gaussian_delta
from tightdp.shaping.class_noise import best_count_share
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise

COLUMNS = {
    "x": tdp.Interval(0, 1),
    "k": tdp.Category(["a", "b"], other="a"),
    "j": tdp.Category([1, 2, 3], other=1),
    "y": tdp.Category([0, 1], other=0),
}


def moments(features="xkj", neighbors="replace-one", rows=40, bits=2, **options):
    columns = {name: COLUMNS[name] for name in [*features, "y"]}
    schema = tdp.Schema(columns, rows=rows, neighbors=neighbors, bits=bits, **options)
    return ClassMoments(schema, list(features), "y")


def changes(statistic, bits):
    """All changes of the statistic by one row of a small domain, deduplicated."""
    sides = []
    for name in statistic.columns:
        column, top = statistic.schema[name], statistic.schema.resolution
        numeric = isinstance(column, tdp.Interval)
        sides.append([-top, 0, 1, top] if numeric else range(len(column.levels)))
    images = np.array(
        [
            statistic.contributions(
                Block({n: np.array([v]) for n, v in zip(statistic.columns, row, strict=True)}), bits
            )
            for row in itertools.product(*sides)
        ]
    )
    if str(statistic.schema.neighbors) == "add-remove":
        return images
    return np.unique((images[:, None] - images[None]).reshape(-1, images.shape[1]), axis=0)


def body_loss(mechanism, sensitivity=None):
    """The largest log ratio over all changes: exponents are levels, the normaliser is common."""
    noise = mechanism.noise
    shifts = changes(mechanism.statistic, mechanism.bits)
    levels = noise.body.level(shifts.reshape(-1, noise.body.dim)).reshape(len(shifts), -1)
    rate = noise.noise.rate if sensitivity is None else noise.epsilon / sensitivity
    return int(levels.sum(axis=1).max()) * rate


@pytest.mark.parametrize("features", ["x", "k", "j", "xkj"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), 3])
def test_body_noise_loses_epsilon_and_a_fifth_less_noise_is_caught(features, neighbors, epsilon):
    mechanism = ClassMechanism(moments(features, neighbors), epsilon=epsilon)
    assert body_loss(mechanism) == epsilon  # reached: nothing is wasted on this domain
    ends = 2 if neighbors == "replace-one" else 1
    honest = ends * mechanism.resolution
    assert body_loss(mechanism, Fraction(4, 5) * honest) == epsilon * Fraction(5, 4)


@pytest.mark.parametrize("features", ["x", "kj"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_laplace_noise_loses_epsilon_and_a_fifth_less_noise_is_caught(features, neighbors):
    mechanism = ClassMechanism(moments(features, neighbors), noise="laplace", epsilon=1)
    count, other = (Fraction(law.epsilon) / law.sensitivity for law in mechanism.noise.laws)
    shifts = np.abs(changes(mechanism.statistic, mechanism.bits))
    width = mechanism.statistic.layout.width
    counts = shifts[:, ::width].sum(axis=1)
    others = shifts.sum(axis=1) - counts
    losses = [int(a) * count + int(b) * other for a, b in zip(counts, others, strict=True)]
    assert float(max(losses)) == pytest.approx(1.0, abs=1e-12)
    assert max(losses) * Fraction(5, 4) > 1


def exact_delta(laws, shift, width, epsilon):
    """The hockey-stick divergence of the joint law of all entries, outcome by outcome."""
    p, q = np.ones(1), np.ones(1)
    for i, moved in enumerate(shift):
        law = laws[0] if i % width == 0 else laws[1]
        reach = 1 + int(np.ceil(max(abs(law.quantile(1e-9)), law.quantile(1 - 1e-9))))
        z = np.arange(-reach - abs(moved), reach + abs(moved) + 1)
        p = np.multiply.outer(p, law.pmf(z)).ravel()
        q = np.multiply.outer(q, law.pmf(z - moved)).ravel()
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("noise", ["truncated-laplace", "designed", "laplace"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_laws_with_delta_by_enumeration(noise, neighbors):
    """Two classes and a category of two levels: four entries, all outcomes."""
    epsilon, delta = 6, 0.3
    mechanism = ClassMechanism(
        moments("k", neighbors), noise=noise, epsilon=epsilon, delta=delta, count_share=0.5
    )
    shifts = changes(mechanism.statistic, mechanism.bits)
    assert max(exact_delta(mechanism.noise.laws, s, 2, epsilon) for s in shifts) <= delta
    # the printed accounting spends the whole of (epsilon, delta) on every statistic
    whole = tdp.design_noise(epsilon=epsilon, delta=delta, sensitivity=1, integer=True)
    printed = [whole.noise.lattice(1)] * 2
    assert max(exact_delta(printed, s, 2, epsilon) for s in shifts) > delta


def test_gaussian_noise_covers_the_longest_change():
    for neighbors, features in itertools.product(["replace-one", "add-remove"], ["x", "kj", "xkj"]):
        statistic = moments(features, neighbors)
        noise = GaussianClassNoise(statistic, Fraction(1), Fraction(1, 1000))
        bits = statistic.schema.bits
        longest = np.linalg.norm(changes(statistic, bits), axis=1).max() / statistic.resolution(
            bits
        )
        sigma = float(noise.variance**0.5)
        assert gaussian_delta(1.0, longest / sigma) <= 1e-3
        if features != "x" or neighbors == "add-remove":  # K2 is longest between grid points
            assert gaussian_delta(1.0, longest / (0.8 * sigma)) > 1e-3


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("features", ["xkj", "kj"])
def test_releases_have_the_predicted_errors(noise, features, seed):
    delta = 0 if noise in ("best", "hull", "laplace", "staircase") else 1e-3
    statistic = moments(features, bits=16)
    mechanism = ClassMechanism(statistic, noise=noise, epsilon=1.0, delta=delta)
    preview = mechanism.preview(0.9)
    draws = np.array([mechanism.noise.sample(rng=seed + i) for i in range(400)], dtype=float)
    draws /= mechanism.resolution
    assert preview.std == pytest.approx(np.sqrt((draws**2).mean(axis=0)), rel=0.35)
    spread = np.sqrt((draws**2).sum(axis=1).mean())
    assert spread == pytest.approx(np.sqrt((preview.std**2).sum()), rel=0.08)
    assert (np.abs(draws) <= preview.half_width).all(axis=1).mean() > 0.9 - 5 * 0.015
    assert mechanism.guarantee().delta == delta


def test_persons_with_several_rows_get_the_noise_of_all_of_them():
    """Group privacy: r rows scale pure noise by r exactly."""
    for noise in ("hull", "laplace"):
        one, three = (
            ClassMechanism(
                moments("x", "add-remove", bits=16, person="id", rows_per_person=r),
                noise=noise,
                epsilon=1,
            )
            for r in (1, 3)
        )
        assert three.preview().std == pytest.approx(3 * one.preview().std, rel=1e-3)


def test_a_law_of_ones_own_must_be_covered():
    law = tdp.TruncatedLaplace(epsilon=0.25, delta=0.01)
    statistic = moments("x")
    with pytest.raises(ParameterError, match="cover the law"):
        ClassMechanism(statistic, noise=law, epsilon=1, delta=0.05)
    mechanism = ClassMechanism(statistic, noise=law, epsilon=1.5, delta=0.08)
    assert float(mechanism.epsilon) == 1.5
    design = tdp.design_noise(epsilon=0.25, delta=0.01)
    designed = ClassMechanism(statistic, noise=design, epsilon=1.5, delta=0.08)
    assert designed.preview().std[1] <= mechanism.preview().std[1]


def test_shares_are_optimal_for_the_stated_error():
    """The closed form against a search over shares of the same public objective."""
    others = 8
    best = float(best_count_share(others, Fraction(1), Fraction(0), False))
    q = np.linspace(0.01, 0.99, 981)
    error = others * (others / (1 - q)) ** 2 + (1 + others / 3) / q**2
    assert abs(q[error.argmin()] - best) < 0.01


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "noise": "cube"}, "noise"),
        ({"epsilon": 1, "delta": 0.1}, "delta"),
        ({"epsilon": 1, "noise": "gaussian"}, "delta"),
        ({"epsilon": 1, "noise": "truncated-laplace"}, "delta"),
        ({"epsilon": 1, "noise": "laplace", "count_share": 1}, "count_share"),
        ({"epsilon": 1, "noise": "laplace", "count_share": "half"}, "count_share"),
    ],
)
def test_bad_input(options, text):
    with pytest.raises(ParameterError, match=text):
        ClassMechanism(moments(), **options)


def test_a_key_of_one_target_does_not_answer_for_another():
    columns = {
        "x": tdp.Interval(0, 1),
        "u": tdp.Category([0, 1], other=0),
        "v": tdp.Category([0, 1], other=0),
    }
    schema = tdp.Schema(columns, rows=4)
    frame = {"x": np.ones(4), "u": np.zeros(4), "v": np.ones(4)}
    ledger = tdp.Ledger(epsilon=2.0)
    ClassMechanism(ClassMoments(schema, ["x"], "u"), epsilon=1).release(
        frame, ledger=ledger, key="k"
    )
    with pytest.raises(ParameterError, match="another fingerprint"):
        ClassMechanism(ClassMoments(schema, ["x"], "v"), epsilon=1).release(
            frame, ledger=ledger, key="k"
        )


@pytest.mark.parametrize("others", [1, 63, 300, 5000])
def test_counts_always_get_a_share(others):
    share = best_count_share(others, Fraction(1), Fraction(0), False)
    weight = (1 + others / 3) ** (1 / 3)
    assert 0 < share < 1
    assert float(share) == pytest.approx(weight / (weight + others), rel=0.05)


def test_wide_tables_take_laws():
    columns = {f"x{j}": tdp.Interval(0, 1) for j in range(600)}
    schema = tdp.Schema({**columns, "y": tdp.Category([0, 1], other=0)}, rows=10)
    mechanism = ClassMechanism(ClassMoments(schema, list(columns), "y"), noise="laplace", epsilon=1)
    assert np.isfinite(mechanism.preview().std).all()
