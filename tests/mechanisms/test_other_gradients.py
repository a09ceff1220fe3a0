"""Other gradients in one dimension: regressions, squared and absolute loss for a mean."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from laws import fit
from quantile_laws import HALF, TENTH, schema

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.exponential import SquaredLossMean
from tightdp.randomness import source

# --- other gradients in one dimension ------------------------------------------------------------


def test_linear_regression_on_one_feature(seed: int) -> None:
    """A20 in one dimension: the constant is 4(1+B), not 8(1+B) (E22)."""
    x, y = [1, Fraction(-1, 2), Fraction(1, 4)], [Fraction(1, 2), Fraction(-1, 5), Fraction(1, 10)]
    square = sum(a * a for a in x)
    cross = sum(a * b for a, b in zip(x, y, strict=True))
    edge = 1 << 10

    def norm_of_gradient(rows: Any) -> Any:
        def on_box(low: Any, high: Any) -> tuple[Fraction, Fraction]:
            ends = [2 * (square * Fraction(t[0], edge) - cross) for t in (low, high)]
            near = 0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
            return Fraction(near), max(map(abs, ends))

        return on_box

    mechanism = tdp.KNormGradient(
        tdp.Interval(-1, 1), norm_of_gradient, sensitivity=8, epsilon=1, bits=10
    )
    theta = np.arange(-edge, edge + 1) / edge
    weights = np.exp(-np.abs(2 * (float(square) * theta - float(cross))) / 16)
    p = weights / weights.sum()
    mean = float(p @ theta)
    assert mean == pytest.approx(0.0354380584, abs=1e-4)
    assert float(p @ theta**2) - mean**2 == pytest.approx(0.3242752895, abs=1e-3)
    assert float(p[theta < 0].sum()) == pytest.approx(0.4704817472, abs=1e-3)
    law = mechanism.law_for(norm_of_gradient(None))
    bits = source(seed)
    points = np.array([law.draw(bits)[0] for _ in range(3000)])
    cells = np.minimum((points + edge) // 128, 15)
    expected = np.bincount(np.minimum(np.arange(2 * edge + 1) // 128, 15), p)
    assert fit(np.bincount(cells, minlength=16), expected) > 1e-4


def quantile_regression_loss(tau: Fraction, printed: bool) -> float:
    """The pair of E20 on Theta = [-1, 1], the law as a step function of theta."""
    t = 1 - 1e-6
    pair = [[(0.9, 0.9 * t), (-0.9, -0.9 * t), last] for last in ((1, 1), (-1, 1))]
    delta = 2 * (1 - float(tau) if printed else max(float(tau), 1 - float(tau)))
    cuts = np.array([-1, t, 1])
    logs = []
    for rows in pair:
        middles = (cuts[1:] + cuts[:-1]) / 2
        norms = [
            abs(sum(x * (float(y <= x * theta) - float(tau)) for x, y in rows)) for theta in middles
        ]
        score = -np.array(norms) / (2 * delta)
        logs.append(score - np.log(np.diff(cuts) @ np.exp(score)))
    return float(np.abs(logs[0] - logs[1]).max())


@pytest.mark.parametrize(("tau", "broken"), [(HALF, 1.0), (Fraction(3, 4), 3.0), (9 * TENTH, 9.0)])
def test_quantile_regression_sensitivity(tau: Fraction, broken: float) -> None:
    """A17: 1.0000 epsilon with 2 max(tau, 1 - tau), 3 and 9 times it as printed."""
    assert quantile_regression_loss(tau, printed=False) == pytest.approx(1.0, abs=1e-4)
    assert quantile_regression_loss(tau, printed=False) <= 1 + 1e-9
    assert quantile_regression_loss(tau, printed=True) == pytest.approx(broken, abs=1e-3)


def test_sensitivity_may_depend_on_theta(seed: int) -> None:
    def norm_of_gradient(rows: Any) -> Any:
        return lambda low, high: (2, 2)

    def steps(low: Any, high: Any) -> tuple[int, int]:
        values = [1 if t < 0 else 4 for t in range(low[0], high[0] + 1)]
        return min(values), max(values)

    mechanism = tdp.KNormGradient(
        tdp.Interval(-1, 1), norm_of_gradient, sensitivity=steps, epsilon=2, bits=2
    )
    weights = np.exp([-2.0] * 4 + [-0.5] * 5)
    law, bits = mechanism.law_for(norm_of_gradient(None)), source(seed)
    counts = np.bincount([law.draw(bits)[0] + 4 for _ in range(3000)], minlength=9)
    assert fit(counts, weights / weights.sum()) > 1e-4


# --- a base measure on a wide box: Remark 4.2 -----------------------------------------------------

WIDE, STEPS = 8, 1 << 5
RATE_OF_BASE = Fraction(1, 2)
POINTS = [Fraction(t * WIDE, STEPS) for t in range(-STEPS, STEPS + 1)]


def gradient_of_a_line(rows: Any) -> Any:
    """The norm of the sum of x (y - x theta) for rows (x, y) in [-1, 1], on boxes."""
    square, cross = sum(x * x for x, _ in rows), sum(x * y for x, y in rows)

    def on_box(low: Any, high: Any) -> tuple[Fraction, Fraction]:
        ends = [square * Fraction(t[0] * WIDE, STEPS) - cross for t in (low, high)]
        near = Fraction(0) if min(ends) <= 0 <= max(ends) else min(map(abs, ends))
        return near, max(map(abs, ends))

    return on_box


def grows(low: Any, high: Any) -> tuple[Fraction, Fraction]:
    """2 (1 + abs(theta)): abs(y - x theta) is at most 1 + abs(theta) for any theta."""
    sizes = sorted(2 * (1 + Fraction(abs(t[0]) * WIDE, STEPS)) for t in (low, high))
    return Fraction(2) if low[0] <= 0 <= high[0] else sizes[0], sizes[1]


def laplace_base(low: Any, high: Any) -> tuple[Fraction, Fraction]:
    sizes = sorted(RATE_OF_BASE * Fraction(abs(t[0]) * WIDE, STEPS) for t in (low, high))
    return Fraction(0) if low[0] <= 0 <= high[0] else sizes[0], sizes[1]


def line_mechanism(sensitivity: Any = grows, base: Any = laplace_base) -> Any:
    return tdp.KNormGradient(
        tdp.Interval(-WIDE, WIDE),
        gradient_of_a_line,
        sensitivity=sensitivity,
        epsilon=2,
        bits=5,
        base_measure=base,
    )


def line_logs(rows: Any, growing: bool = True) -> Any:
    """Logarithms of the probabilities of all grid points, straight from the density."""
    norms = np.array([abs(float(sum(x * (y - x * t) for x, y in rows))) for t in POINTS])
    size = np.abs(np.array(POINTS, dtype=float))
    scores = -2 * norms / (2 * 2 * (1 + size if growing else 2.0)) - float(RATE_OF_BASE) * size
    return scores - np.log(np.exp(scores).sum())


def test_a_base_measure_multiplies_the_weights(seed: int) -> None:
    rows = [(1, 1), (Fraction(1, 2), 0), (-1, Fraction(-3, 4)), (1, Fraction(1, 2))]
    law, bits = line_mechanism().law_for(gradient_of_a_line(rows)), source(seed)
    counts = np.bincount([law.draw(bits)[0] + STEPS for _ in range(3000)], minlength=2 * STEPS + 1)
    assert fit(counts, np.exp(line_logs(rows))) > 1e-4
    flat = line_logs(rows) + float(RATE_OF_BASE) * np.abs(np.array(POINTS, dtype=float))
    without = np.exp(flat) / np.exp(flat).sum()
    assert fit(counts, without) < 1e-6  # planted: a base measure that is left out
    assert "base measure" in line_mechanism().law


def test_a_sensitivity_that_grows_keeps_the_promise_on_a_wide_box() -> None:
    """The bound on theta is not needed (Remark 4.2); a constant for theta in [-1, 1] breaks it."""
    ends = [(x, y) for x in (-1, 0, 1) for y in (-1, 1)]
    worst = {True: 0.0, False: 0.0}
    for others in ([], [(1, 1)] * 3, [(1, -1)] * 6, [(1, 1), (1, -1)] * 2):
        for growing in worst:
            logs = [line_logs([*others, row], growing) for row in ends]
            apart = max(float(np.abs(a - b).max()) for a in logs for b in logs)
            worst[growing] = max(worst[growing], apart)
    assert 0.4 < worst[True] <= 2
    assert worst[False] > 2  # planted: Delta = 4, as if abs(theta) <= 1


@pytest.mark.parametrize(
    ("base", "text"),
    [
        (3, "base_measure"),
        (lambda low, high: 1, "two numbers"),
        (lambda low, high: (2, 1), "in this order"),
        (lambda low, high: (0, float("inf")), "base_measure"),
    ],
)
def test_a_bad_base_measure_is_refused_before_payment(base: Any, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        line_mechanism(base=base)


# --- squared and absolute loss for a mean --------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_truncated_normal_loss(n: int, epsilon: float) -> None:
    """A26: below epsilon on the data range; the reference values at n = 100."""
    facts = schema(rows=n, bits=12)
    mechanism = SquaredLossMean(facts, "x", epsilon=epsilon)
    edge = facts.resolution
    most = 0.0
    for total in {n, 1, n // 2 + 1}:  # sums of n rows, one of which moves from one end to the other
        both = [mechanism.law_on((2 * s - n) * edge).probabilities() for s in (total, total - 1)]
        most = max(most, float(np.abs(np.log(both[0]) - np.log(both[1])).max()))
    assert most <= epsilon
    if n == 100:
        reference = {0.1: 0.07472, 1.0: 0.91836, 4.0: 3.83286}[epsilon]
        assert most == pytest.approx(reference, abs=2e-4 * max(1, epsilon))


def test_truncated_normal_needs_the_data_range() -> None:
    """On [-1, 2] the same law has the loss 1.995 at epsilon 1: another range is refused."""
    facts = schema(rows=100)
    with pytest.raises(ParameterError, match="range"):
        SquaredLossMean(facts, "x", epsilon=1, output=tdp.Interval(-1, 2))
    with pytest.raises(ParameterError, match="replace-one"):
        SquaredLossMean(schema(rows=9, neighbors="add-remove"), "x", epsilon=1)
    line = np.linspace(-1, 2, 30_001)
    logs = [-50 * (line - mean) ** 2 for mean in (1.0, 0.99)]
    laws = [log - np.log(np.exp(log).sum()) for log in logs]
    assert np.abs(laws[0] - laws[1]).max() == pytest.approx(1.995, abs=0.01)


@pytest.mark.parametrize(
    ("rows", "epsilon", "centre", "error"),
    [
        (1, 1, 0.5, 0.08058915),
        (10, 1, 0.5, 0.05921195),
        (100, 1, 0.5, 0.009999851),
        (1000, 1, 0.5, 0.001),
        (100, 0.5, 0.3, 0.01818510),
        (100, 0.25, 0.3, 0.03153958),
    ],
)
def test_truncated_normal_error(rows: int, epsilon: float, centre: float, error: float) -> None:
    """Mean squared errors of the reference (2i)."""
    facts = schema(rows=rows, bits=12)
    edge = facts.resolution
    law = SquaredLossMean(facts, "x", epsilon=epsilon).law_on(round((2 * centre - 1) * edge * rows))
    points = np.arange(2 * edge + 1) / (2 * edge)
    found = float(law.probabilities() @ (points - centre) ** 2)
    assert found == pytest.approx(error, rel=1e-3)


def test_absolute_loss_has_four_times_the_variance() -> None:
    """E32: exp(-n epsilon |mean - l| / 2) against Laplace; 8/(n epsilon)^2 = .0032 at 100, 1/2."""
    mechanism = tdp.ExponentialMechanism.on_interval(
        tdp.Interval(-4, 4), len, sensitivity=Fraction(1, 100), epsilon=0.5, bits=12
    )
    points = np.arange(-(1 << 12), (1 << 12) + 1) * 4 / (1 << 12)
    utilities = [-abs(Fraction(float(t))) for t in points]
    cuts = np.arange(-(1 << 12) + 1, (1 << 12) + 1)
    p = mechanism.law_for(cuts, utilities).probabilities()
    assert float(p @ points**2) == pytest.approx(0.0032, rel=1e-3)


def test_squared_loss_releases(seed: int) -> None:
    release = SquaredLossMean(schema(rows=10**6), "x", epsilon=1.0).release(
        {"x": np.full(10**6, 0.25)}, rng=seed
    )
    assert abs(release["x"] - 0.25) < 0.01
