"""Designs at the corners: huge and tiny epsilon, tiny delta, no time."""

from __future__ import annotations

import copy
import math
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design import exact_numbers, losses, verifier
from tightdp.design.bounds import lower_bound
from tightdp.design.certificate import Certificate
from tightdp.design.closed_forms import noise_at_once
from tightdp.design.designs import _solved, design_noise
from tightdp.design.known_bounds import bound_at_once, core_bound, core_cells
from tightdp.design.problem import NoiseProblem, degree_near_zero
from tightdp.errors import TightdpError, UndecidedError

TINY = 2**-40


def staircase_loss(epsilon):
    return 0.5 / math.sinh(epsilon / 2)


def laplace_loss(epsilon, delta):
    """E abs(X) of truncated Laplace noise."""
    odds = math.expm1(epsilon) / (2 * delta)
    return (1 - math.log1p(odds) / odds) / epsilon


# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "known"),
    [
        (10, 1e-6, staircase_loss(10)),
        (0.001, 1e-6, laplace_loss(0.001, 1e-6)),
        (10, 0.1, 0.9 * staircase_loss(10)),
        (5, 0.75, 0.25 * staircase_loss(5)),
        (1e-6, 1e-12, laplace_loss(1e-6, 1e-12)),
        (TINY, 1e-12, laplace_loss(TINY, 1e-12)),
        (0.001, 0, 1000),
        (10, 0, staircase_loss(10)),
    ],
)
def test_corners_are_certified_to_a_percent(epsilon, delta, known):
    design = design_noise(epsilon=epsilon, delta=delta)
    assert design.reached
    assert design.gap <= 0.01
    assert design.lower <= known * (1 + 1e-9)
    assert design.upper <= known * (1 + 2e-3)
    assert design.certificate.verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "loss"),
    [(20, 1e-6, "l1"), (14, 0.1, "l1"), (10, 1e-6, "l2"), (0.001, 1e-6, "l2"), (7, 0.3, "l1")],
)
def test_further_corners(epsilon, delta, loss):
    design = design_noise(epsilon=epsilon, delta=delta, loss=loss)
    assert design.reached
    assert design.certificate.verify()


@pytest.mark.parametrize("delta", [0.01, 1e-4, 1e-9])
def test_the_certified_interval_holds_what_a_finer_program_finds(delta):
    """The corner bounds at an epsilon where the ordinary programs work too."""
    problem = NoiseProblem.of(epsilon=0.1, delta=delta)
    fine = lower_bound(problem, cells=2, window=600, tolerance=1e-6, deadline=None).value
    least = noise_at_once(problem).value
    for group in (2, 3, 7, 20):
        window = math.ceil(600 / group)
        given = {"cells": 1, "window": window, "tolerance": 1e-6, "deadline": None}
        coarse = lower_bound(problem, group=group, **given).value
        assert coarse < fine * (1 + 1e-6)
        assert coarse > fine * (1 - (group * 0.1) ** 2)
    assert fine < least < 1.01 * fine


def test_the_core_bound_is_what_its_formula_says():
    for epsilon in (4, 7, 10):
        problem = NoiseProblem.of(epsilon=epsilon, delta=0.2)
        found = core_bound(problem, core_cells(problem)).value
        least = 0.8 * staircase_loss(epsilon)
        assert least * (1 - math.exp(-epsilon / 2)) < found < least


def huber(x):
    return x * x / 2 if abs(x) < 1 else abs(x) - 0.5


@pytest.mark.parametrize(
    ("loss", "most"),
    [
        (huber, 0.01),
        (losses.threshold(1), 0.01),
        (losses.power(0.5), 0.01),
        (losses.piecewise_linear([-1, 0, 1], [1, 0, 1], (-2, 2)), 0.01),
    ],
    ids=["huber", "threshold", "root", "broken line"],
)
def test_losses_without_moments_have_noise_at_tiny_epsilon(loss, most):
    """The law is listed cell by cell, because no formula has its loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # on a busy machine the gap is larger
        design = design_noise(epsilon=0.002, delta=1e-5, loss=loss, time_limit=60)
    assert design.gap <= most
    assert design.certificate.verify()


@pytest.mark.parametrize(
    ("loss", "degree"), [(huber, 2.0), (abs, 1.0), (losses.power(1.5), 1.5), ("l2", 2.0)]
)
def test_the_power_of_a_loss_near_zero(loss, degree):
    problem = NoiseProblem.of(epsilon=10, delta=1e-6, loss=loss)
    assert degree_near_zero(problem) == pytest.approx(degree, abs=0.01)


def test_a_function_at_large_epsilon_has_the_core_of_its_power():
    """Huber's loss is half the square where the noise lies: so are both bounds, all but."""
    law, bound = (at(NoiseProblem.of(epsilon=10, delta=1e-6, loss=huber)) for at in AT_ONCE)
    square = [at(NoiseProblem.of(epsilon=10, delta=1e-6, loss="l2")) for at in AT_ONCE]
    assert float(law.value) == pytest.approx(float(square[0].value) / 2, rel=0.01)
    assert float(bound.value) > 0.9 * float(square[1].value) / 2


AT_ONCE = (noise_at_once, bound_at_once)


# --- a time limit ---------------------------------------------------------------------------------

CORNERS = [
    {"epsilon": 20, "delta": 1e-12},
    {"epsilon": 14, "delta": 0.1, "loss": "l2"},
    {"epsilon": 10, "delta": 1e-6, "gap": 1e-5},
    {"epsilon": 0.001, "delta": 1e-6, "gap": 1e-7},
    {"epsilon": 0.001, "delta": 1e-6, "integer": True},
    {"epsilon": TINY, "delta": 1e-12, "gap": 1e-7, "loss": "l2"},
    {"epsilon": TINY, "delta": 0.3, "gap": 1e-7},
    {"epsilon": 3, "delta": 0.3, "gap": 1e-7, "loss": losses.asymmetric()},
    {"epsilon": 1, "delta": 0.2, "gap": 1e-7, "loss": losses.power(0.5)},
    {"epsilon": 1, "delta": 0.2, "gap": 1e-7, "monotone": True, "support": 3},
    {"epsilon": 1, "delta": 0.2, "gap": 1e-7, "second_loss": ("l2", 1)},
    {"epsilon": 1, "delta": 0.2, "cells": 3000},
    {"epsilon": 12, "delta": 0, "gap": 1e-7},
    {"epsilon": 10, "delta": 1e-6, "gap": 1e-7, "loss": losses.pinball(0.9)},
    {"epsilon": 10, "delta": 1e-6, "gap": 1e-7, "loss": losses.threshold(1)},
    {"epsilon": 10, "delta": 1e-6, "gap": 1e-7, "loss": abs},
    {"epsilon": TINY, "delta": 1e-12, "integer": True},
    {"epsilon": 6, "delta": 0.1, "integer": True, "sensitivity": 400},
]


@pytest.mark.parametrize("given", CORNERS, ids=str)
def test_a_time_limit_is_kept(given):
    """Processor time, so that a busy machine does not count against the limit."""
    limit, begun = 0.5, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        design = design_noise(**given, time_limit=limit)
    assert time.process_time() - begun < 1.1 * limit + 1.5
    assert design.certificate.verify()
    assert 0 < design.upper < math.inf
    assert design.reached == (design.gap <= given.get("gap", 1e-6 if "integer" in given else 0.01))


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.001, "delta": 1e-6, "loss": huber},
        {"epsilon": 1, "delta": 0.1, "sensitivity": 2**40, "integer": True},
    ],
    ids=["function", "wide integers"],
)
def test_what_takes_too_many_cells_is_refused_in_time(given):
    begun = time.process_time()
    with pytest.raises(UndecidedError, match="cells"):
        design_noise(**given, time_limit=0.5)
    assert time.process_time() - begun < 2


def test_what_no_known_noise_meets_ends_in_an_error_in_time():
    begun = time.process_time()
    with pytest.raises(TightdpError):
        design_noise(epsilon=TINY, delta=1e-12, loss=losses.threshold(1e9), time_limit=0.5)
    assert time.process_time() - begun < 2


# --- noise and bounds at once ---------------------------------------------------------------------


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2, 0.8])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3, 9])
def test_noise_at_once_is_private_and_above_the_bound_at_once(epsilon, delta, integer):
    problem = NoiseProblem.of(epsilon=epsilon, delta=delta, integer=integer)
    law, bound = noise_at_once(problem), bound_at_once(problem)
    assert 0 <= bound.value <= law.value
    assert law.value <= (1 + 1e-9) * (1 - (0 if integer else delta)) * Fraction(
        1.5 / epsilon if epsilon < 1 else 1
    ) or law.value <= Fraction(laplace_loss(epsilon, delta))


@pytest.mark.parametrize("loss", ["l1", "l2", losses.asymmetric(), losses.power(5)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-5, 1e-9), (1e-4, 0.5), (1e-9, 1e-6)])
def test_the_loss_of_truncated_laplace_noise(epsilon, delta, loss):
    from scipy.integrate import quad

    from tightdp.design.closed_forms import _laplace

    problem = NoiseProblem.of(epsilon=epsilon, delta=delta, loss=loss)
    (found,) = _laplace(problem)
    top = math.log1p(math.expm1(epsilon) / (2 * delta))
    sides = [problem.loss.description[name] for name in ("right", "left")]
    whole = 0.0
    for side in sides:
        for power, rate in enumerate(side):
            area = quad(lambda u, p=power: u**p * math.exp(-u), 0, top, epsrel=1e-11)[0]
            whole += float(Fraction(rate)) * epsilon**-power * area / 2 / -math.expm1(-top)
    assert float(found.value) == pytest.approx(whole, rel=1e-8)


def test_a_wide_design_is_used_like_any_other():
    design = design_noise(epsilon=0.0005, delta=1e-7, sensitivity=4)
    assert isinstance(design.noise, tdp.TruncatedLaplace)
    assert design.noise.expected_loss(1) == pytest.approx(design.upper, rel=1e-9)
    spent = design.noise.lattice(Fraction(1, 2)).guarantee()
    assert (spent.epsilon, spent.delta <= 1e-7) == (0.0005, True)
    again = Certificate.from_json(design.certificate.to_json())
    assert again.upper == design.certificate.upper
    schema = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=1000)
    mechanism = tdp.AdditiveMechanism(tdp.Sums(schema), noise=design)
    release = mechanism.release({"x": np.linspace(0, 10, 1000)}, rng=1)
    assert release.guarantee.delta <= 1e-7


def test_delta_is_never_rounded_up():
    from tightdp.design.certificate import _not_above

    assert _not_above(Fraction(1, 10)) == 0.1
    for n in range(3, 300):
        assert Fraction(repr(_not_above(Fraction(1, n)))) <= Fraction(1, n)


# --- forged proofs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    _solved.clear()
    document = design_noise(epsilon=0.0005, delta=1e-7).certificate.document
    assert document["proof"]["group"] > 1
    assert document["kind"] == "truncated-laplace"
    return document


def _set(*path, to):
    def edit(document):
        *way, last = path
        for name in way:
            document = document[name]
        document[last] = to(document[last]) if callable(to) else to

    edit.__name__ = f"{path[-1]}"
    return edit


FORGED = [
    _set("proof", "group", to=lambda n: n + 1),
    _set("proof", "group", to=lambda n: n - 1),
    _set("proof", "group", to=True),
    _set("proof", "group", to=0),
    _set("proof", "group", to=-2),
    _set("proof", "group", to="2"),
    _set("proof", "group", to=1 << 60),
    _set("proof", "cells", to=2),
    _set("noise", "log", to=lambda t: str(Fraction(t) + Fraction(1, 10**9))),
    _set("noise", "log", to="-1"),
    _set("noise", "log", to="100000"),
    _set("delta", to="2/3"),
    _set("delta", to="1/20000000"),
    _set("delta", to="0"),
    _set("epsilon", to="1/4000"),
    _set("integer", to=True),
    _set("kind", to="cells"),
    _set("kind", to="staircase"),
    _set("constraints", "support", to="10"),
    _set("proof", "steps", to={"right": [], "left": []}),
]


@pytest.mark.parametrize("edit", FORGED)
def test_a_forged_wide_proof_is_refuted(wide, edit):
    forged = copy.deepcopy(wide)
    edit(forged)
    body = {name: part for name, part in forged.items() if name != "sha256"}
    assert Certificate.seal(body).reason() is not None


def test_an_older_proof_says_nothing_of_groups():
    document = copy.deepcopy(design_noise(epsilon=1, delta=0.25).certificate.document)
    del document["proof"]["group"], document["sha256"]
    assert Certificate.seal(document).verify()


def test_the_guarantee_of_a_group_is_that_of_its_moves():
    for n, epsilon, delta in [(2, 1, "1/10"), (7, "1/3", "1/1000"), (1000, "1/5000", "1/10")]:
        rate, small = Fraction(epsilon), Fraction(delta)
        document = {"epsilon": str(rate), "delta": delta, "proof": {"group": n}}
        factor, lost = verifier.group_privacy(document)
        steps = [math.exp(j * rate) for j in range(n)]
        assert float(factor) == pytest.approx(math.exp(n * rate), rel=1e-12)
        assert factor >= exact_numbers.exp_bounds(n * rate)[0]
        assert float(lost) == pytest.approx(float(small) * sum(steps), rel=1e-12)
        assert lost >= small * sum(exact_numbers.exp_bounds(j * rate)[0] for j in range(n))
