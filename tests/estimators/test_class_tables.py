"""Reading a noisy release of naive Bayes: posterior means against integrals, calibration."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from reliability import excess, limit
from scipy import integrate, stats

import tightdp as tdp
from tightdp.data.class_moments import ClassMoments
from tightdp.inference import class_tables
from tightdp.inference.class_tables import log_joint, read_classes, together, within
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.randomness import source

# --- posterior means -----------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_values_are_pulled_together_as_bayes_says(known, seed, monkeypatch):
    """Means and variances of the posterior against sums over a fine grid of everything unknown."""
    monkeypatch.setattr(class_tables, "_ROUNDS", 0)  # equal chances for all scales
    rng = np.random.default_rng(seed)
    values, noise = rng.normal(size=2), rng.uniform(0.1, 1.0, 2)
    centre, spread = 0.2, 0.5
    t = np.linspace(-9, 9, 721)
    mu = np.array([centre]) if known else np.linspace(-4, 4, 241)
    prior = np.ones(1) if known else stats.norm(centre, np.sqrt(spread)).pdf(mu)
    joint = np.zeros((len(t), len(t)))
    for tau in np.sqrt(spread) * class_tables._SCALES:
        # the deviations are integrated out exactly where they are narrower than the grid
        own = [_normal_product(t, mu, tau**2, y, v) for y, v in zip(values, noise, strict=True)]
        joint += (prior[:, None] * own[0]).T @ own[1]
    joint /= joint.sum()
    found, doubt = together(values[:, None], noise[:, None], centre, spread, known=known)
    for k, marginal in enumerate((joint.sum(axis=1), joint.sum(axis=0))):
        mean = marginal @ t
        assert found[k, 0] == pytest.approx(mean, abs=2e-3)
        assert doubt[k, 0] == pytest.approx(marginal @ (t - mean) ** 2, abs=2e-3)


def _normal_product(t, m, prior, y, noise):
    """Weights of theta near the grid points, a row per m: N(theta; m, prior) N(y; theta, noise)."""
    m = m[:, None]
    weight = prior / (prior + noise)
    mean, error = weight * y + (1 - weight) * m, np.sqrt(weight * noise)
    edges = np.concatenate([[-np.inf], (t[1:] + t[:-1]) / 2, [np.inf]])
    inside = np.diff(stats.norm(mean, error).cdf(edges))
    return inside * stats.norm(m, np.sqrt(prior + noise)).pdf(y)


def test_without_noise_values_stay_and_with_noise_alone_classes_are_alike(seed):
    values = np.random.default_rng(seed).normal(size=(3, 4))
    found, doubt = together(values, np.full((3, 4), 1e-12), 0.0, 1 / 3)
    np.testing.assert_allclose(found, values, atol=1e-6)
    assert doubt.max() < 1e-11
    found, doubt = together(values, np.full((3, 4), 1e12), 0.0, 1 / 3)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)
    assert np.ptp(doubt, axis=0).max() < 1e-9


def test_scales_are_learnt_from_all_columns(seed):
    """Where other columns do not differ between classes, a column needs more evidence."""
    rng = np.random.default_rng(seed)
    noise = np.full((2, 40), 0.1)
    alike = rng.normal(scale=np.sqrt(0.1), size=(2, 40))
    apart = alike + 2 * np.array([[1.0], [-1.0]]) * rng.choice([-1, 1], size=40)
    for table in (alike, apart):
        table[:, 0] = [0.5, -0.5]
    first = [together(table, noise, 0.0, 1 / 3)[0] for table in (alike, apart)]
    assert np.ptp(first[0][:, 0]) < 0.5 * np.ptp(first[1][:, 0])


@pytest.mark.parametrize(
    ("mean", "variance"), [(0.3, 0.01), (-0.4, 0.2), (1.7, 0.05), (0.02, 0.002), (0.5, 40.0)]
)
def test_means_between_bounds_against_integrals(mean, variance):
    law = stats.norm(mean, np.sqrt(variance))
    options = {"limit": 500, "epsabs": 0.0, "epsrel": 1e-10}
    above = integrate.quad(lambda s: s * law.pdf(s), 0, 1, **options)[0]
    expected = above / integrate.quad(law.pdf, 0, 1, **options)[0]
    found = within(np.array([mean]), np.array([variance]), 0.0, 1.0)
    assert found == pytest.approx(expected, rel=1e-7)


def test_far_outside_the_nearer_end_is_left():
    found = within(np.array([-5.0, 7.0]), np.array([1e-4, 1e-4]), 0.0, 1.0)
    assert found.tolist() == [0.0, 1.0]


# --- calibration ---------------------------------------------------------------------------------

TABLES = 60
KINDS = {"numbers": (4, 0, 0), "pairs": (0, 6, 0), "tables": (0, 0, 4), "mixed": (2, 2, 2)}
LEVELS = 4


def random_law(rng, classes, numbers, pairs, tables):
    """Shares, means, spreads and levels: classes that differ by much, by little, or not at all."""
    shares = rng.dirichlet(np.full(classes, np.exp(rng.uniform(0, 3))))
    apart = np.exp(rng.uniform(np.log(0.01), np.log(0.5), numbers))
    means = rng.uniform(-0.6, 0.6, numbers) + apart * rng.normal(size=(classes, numbers))
    wide = np.exp(rng.uniform(np.log(0.03), np.log(0.3), numbers))
    wide = wide * np.exp(rng.uniform(0, 0.5) * rng.normal(size=(classes, numbers)))
    widths = [2] * pairs + [LEVELS] * tables
    levels = [
        rng.dirichlet(20 ** rng.uniform(-0.5, 2) * rng.dirichlet(np.ones(w)) + 0.05, size=classes)
        for w in widths
    ]
    return shares, np.clip(means, -0.95, 0.95), np.minimum(wide, 0.4), levels


def rows_of(rng, law, n):
    shares, means, wide, levels = law
    y = rng.choice(len(shares), size=n, p=shares)
    cells = [np.clip(means[y] + wide[y] * rng.normal(size=(n, means.shape[1])), -1, 1)]
    drawn = [np.cumsum(table, axis=1)[y] < rng.uniform(size=(n, 1)) for table in levels]
    cells += [below.sum(axis=1)[:, None] for below in drawn]
    return np.minimum(np.hstack(cells), LEVELS - 1), y


@functools.cache
def made(kind, epsilon, classes, n):
    """A mechanism and the names of its columns; tables of one size share it."""
    numbers, pairs, tables = KINDS[kind]
    facts = [tdp.Interval(-1, 1)] * numbers + [tdp.Category([0, 1], other=0)] * pairs
    facts += [tdp.Category(range(LEVELS), other=0)] * tables
    names = [f"x{j}" for j in range(len(facts))]
    columns = {**dict(zip(names, facts, strict=True)), "y": tdp.Category(range(classes), other=0)}
    moments = ClassMoments(tdp.Schema(columns, rows=n, bits=12), names, "y")
    return ClassMechanism(moments, epsilon=epsilon), moments, names


def fits(kind, epsilon, seed):
    """For every table: what to read, the exact sums and noise, and fresh rows."""
    for number in range(TABLES):
        rng = np.random.default_rng([seed, number])
        classes, n = (2, 3, 5)[number % 3], (300, 3000)[number % 2]
        law = random_law(rng, classes, *KINDS[kind])
        mechanism, moments, names = made(kind, epsilon, classes, n)
        X, y = rows_of(rng, law, n)
        frame = {**{name: X[:, j] for j, name in enumerate(names)}, "y": y}
        released = mechanism.release(frame, rng=source(TABLES * seed + number))
        yield moments, names, released, rows_of(rng, law, 500)


def differences(kind, epsilon, seed, doubt):
    """Stated less true hits, summed in ten classes of confidence: shape (tables, 10), per row."""
    out = []
    for moments, names, released, (cells, truth) in fits(kind, epsilon, seed):
        table = read_classes(moments, released.value, doubt * released.covariance)
        logs = log_joint(table, moments.layout, names, cells)
        proba = np.exp(logs - logs.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        out.append(excess(proba, truth))
    return np.array(out)


@pytest.mark.slow_for(
    "*-0.001",
    "*-50.0",
    "tables-2.0",
    "mixed-2.0",
    "pairs-0.3",
    "pairs-2.0",
    "mixed-0.03",
    "tables-0.03",
)
@pytest.mark.parametrize("epsilon", [0.001, 0.03, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_can_be_taken_at_their_word(kind, epsilon, seed):
    """Of predictions that are said to be right with probability p, a share of p is.

    Tables, noise and new rows are all drawn anew; columns are independent within classes, as the
    model says.
    """
    found = differences(kind, epsilon, seed, doubt=1.0)
    assert np.abs(found.mean(axis=0)).sum() < limit(found)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_taken_at_its_word_is_too_sure(kind, seed):
    """The broken twin: without doubt about the sums the same reading fails the test above."""
    found = differences(kind, 0.1, seed, doubt=0.0)
    assert found.mean(axis=0).sum() > limit(found)
