"""Designed noise: certified intervals against known optima, every loss, every side constraint."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design import losses, programs
from tightdp.design.bounds import lower_bound, upper_bound
from tightdp.design.cutting_planes import CutProgram, partition_bound
from tightdp.design.designs import _solved, design_noise
from tightdp.design.exact_numbers import exp_bounds
from tightdp.design.problem import NoiseProblem
from tightdp.design.programs import Lattice, ShiftProgram
from tightdp.design.search import support_units
from tightdp.design.verifier import shortfall
from tightdp.errors import ParameterError

# Certified optima (sensitivity 1; middles of intervals narrower than 1 %).
DELTAS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75)
L1 = {
    0.005: (37.89, 21.53, 11.57, 4.839, 2.465, 1.237, 0.9909, 0.8246, 0.4992, 0.2496),
    0.1: (7.672, 6.508, 5.093, 3.163, 1.960, 1.114, 0.9174, 0.7721, 0.4837, 0.2419),
    0.5: (1.847, 1.761, 1.623, 1.356, 1.083, 0.7828, 0.6835, 0.6078, 0.4151, 0.2075),
    1: (0.9282, 0.9061, 0.8693, 0.7866, 0.6900, 0.5579, 0.5107, 0.4692, 0.3319, 0.1660),
    2: (0.4187, 0.4143, 0.4070, 0.3882, 0.3630, 0.3198, 0.2998, 0.2799, 0.1999, 0.09998),
    5: (0.08206, 0.08165, 0.08083, 0.07835, 0.07422, 0.06597, 0.06184, 0.05772, 0.04123, 0.02062),
}
L2 = {
    0.005: (1981, 629.9, 180.1, 31.50, 8.115, 2.053, 1.313, 0.9153, 0.3116, 0.1357),
    0.1: (96.67, 66.23, 38.71, 14.19, 5.299, 1.697, 1.140, 0.8157, 0.2974, 0.1326),
    0.5: (6.315, 5.536, 4.520, 2.957, 1.807, 0.9154, 0.6916, 0.5480, 0.2510, 0.1205),
    1: (1.705, 1.585, 1.412, 1.100, 0.8163, 0.5121, 0.4305, 0.3700, 0.2094, 0.1017),
    2: (0.4016, 0.3877, 0.3681, 0.3243, 0.2742, 0.2186, 0.1962, 0.1764, 0.1146, 0.0565),
    5: (0.02933, 0.02909, 0.02875, 0.02775, 0.02610, 0.02298, 0.02150, 0.02005, 0.01430, 0.007151),
}
TABLES = {"l1": L1, "l2": L2}


def brackets(design: tdp.Design, known: float, slack: float = 0.006) -> None:
    """The certified interval holds a value that is itself known to half a per cent."""
    assert design.lower <= design.upper
    assert design.lower <= known * (1 + slack)
    assert design.upper >= known * (1 - slack)
    assert design.gap <= 0.01
    assert design.reached
    assert design.certificate.reason() is None


@pytest.mark.parametrize(
    ("loss", "epsilon", "delta"),
    [
        ("l1", 0.005, 0.01),
        ("l1", 0.1, 0.2),
        ("l1", 0.5, 0.5),
        ("l1", 1, 0.1),
        ("l1", 2, 0.75),
        ("l2", 0.1, 0.005),
        ("l2", 0.5, 0.3),
        ("l2", 1, 0.2),
        ("l2", 2, 0.05),
    ],
)
def test_the_certified_interval_holds_the_known_optimum(loss, epsilon, delta):
    known = TABLES[loss][epsilon][DELTAS.index(delta)]
    brackets(design_noise(epsilon=epsilon, delta=delta, loss=loss), known)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize("epsilon", [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5])
def test_every_cell_of_the_tables(loss, epsilon):
    """All 100 cells, each certified to 1 % and proved in exact arithmetic."""
    for j, delta in enumerate(DELTAS):
        design = design_noise(epsilon=epsilon, delta=delta, loss=loss)
        if epsilon in TABLES[loss]:
            brackets(design, TABLES[loss][epsilon][j])
        assert design.reached
        assert design.gap <= 0.01
        assert design.certificate.reason() is None
        assert design.noise.exact_delta() <= Fraction(str(delta))


def test_monotone_noise_beats_the_published_bound_and_general_noise_beats_monotone():
    monotone = design_noise(epsilon=3, delta=0.3, monotone=True)
    general = design_noise(epsilon=3, delta=0.3)
    brackets(monotone, 0.16425, 0.002)
    brackets(general, 0.1628, 0.003)
    assert monotone.upper < 0.1830  # E42: the sentence that no monotone law goes below is false
    weights = monotone.noise.weights
    middle = -monotone.noise.start
    assert list(weights[middle:]) == sorted(weights[middle:], reverse=True)


def test_other_anchors():
    brackets(design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric()), 0.778, 0.002)
    brackets(design_noise(epsilon=1, delta=0.4, sensitivity=10), 3.9845, 0.003)
    brackets(design_noise(epsilon=1, delta=0.4, sensitivity=10, loss="l2"), 28.13, 0.003)
    skewed = design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric())
    assert -0.3 < skewed.noise.mean() < -0.15  # to the cheap side


def test_scaling_with_the_sensitivity_is_exact():
    one = design_noise(epsilon=1, delta=0.25, loss="l2")
    many = design_noise(epsilon=1, delta=0.25, loss="l2", sensitivity=12)
    assert many.certificate.upper == 144 * one.certificate.upper
    assert many.certificate.lower == 144 * one.certificate.lower
    assert many.certificate.verify()
    assert many.noise.weights == one.noise.weights
    assert many.noise.expected_loss(2) == pytest.approx(many.upper, rel=1e-9)


# --- the program against published numbers (A30) ------------------------------------------------


def solved(*, epsilon, delta, cells, units, rows=None, upper=None):
    n = cells * units
    lattice = Lattice(-n, n, (-n, n), -1, cells)
    cost = (np.abs(np.arange(-n, n)) + np.abs(np.arange(-n, n) + 1)) / 2 / cells
    program = ShiftProgram(
        lattice,
        factor=math.exp(epsilon),
        delta=delta,
        cost=cost,
        folded=True,
        rows=rows,
        upper=upper,
    )
    return program, program.solve(tolerance=1e-8)


@pytest.mark.parametrize(("cells", "value"), [(5, 0.192678), (10, 0.179393), (25, 0.170903)])
def test_the_monotone_program(cells, value):
    n = 2 * cells
    rows = np.zeros((n - 1, 2 * n))
    for j in range(n - 1):
        rows[j, n + j + 1], rows[j, n + j] = 1, -1
    program, answer = solved(
        epsilon=3, delta=0.3, cells=cells, units=2, rows=rows, upper=np.zeros(n - 1)
    )
    assert answer.value == pytest.approx(value, abs=2e-6)
    worst = max(program.shortfall(answer.masses, m) for m in range(1, cells + 1))
    assert worst <= 0.3 + 1e-7


def test_a_program_that_forgets_shifts_is_caught():
    program, answer = solved(epsilon=3, delta=0.3, cells=10, units=3)
    broken = program._solve({10: True}, None)  # only the largest shift
    assert broken.value < answer.value - 1e-3
    assert max(program.shortfall(broken.masses, m) for m in range(1, 11)) > 0.35


# --- losses and side constraints ----------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        losses.power(3),
        losses.power(1.5),
        losses.power(Fraction(1, 2)),
        losses.pinball(0.3),
        losses.piecewise_linear([-1, 1], [0, 0], (-1, 1)),
        losses.from_callable(lambda x: x * x + abs(x), symmetric=True),
        losses.from_callable(lambda x: abs(x), lipschitz=1, symmetric=True),
    ],
    ids=lambda loss: loss.name,
)
def test_every_loss_is_certified(loss):
    design = design_noise(epsilon=1, delta=0.1, loss=loss)
    assert design.gap <= 0.01
    assert design.certificate.reason() is None
    assert design.noise.guarantee().delta <= 0.1


def test_a_function_agrees_with_the_loss_it_computes():
    given = design_noise(epsilon=1, delta=0.1, loss=lambda x: x * x)
    known = design_noise(epsilon=1, delta=0.1, loss="l2")
    assert given.lower <= known.upper
    assert known.lower <= given.upper
    assert given.gap <= 0.01


@pytest.mark.parametrize("at", [1, Fraction(3, 2), 2])
def test_a_threshold_is_met_by_counting_cells(at):
    design = design_noise(epsilon=1, delta=0.1, loss=losses.threshold(at))
    far = 1 - design.noise.cdf(float(at)) + design.noise.cdf(-float(at))
    assert design.upper == pytest.approx(far, abs=1e-9)
    assert design.gap <= 0.01
    assert design.certificate.verify()
    laplace = tdp.TruncatedLaplace(epsilon=1.0, delta=0.1)
    assert design.upper <= 2 * laplace.cdf(-float(at)) * (1 + 1e-5)
    narrow = design_noise(epsilon=1, delta=0.1, loss=losses.threshold(at), support=3)
    assert narrow.certificate.verify()


def test_support_symmetry_and_second_loss_are_kept():
    narrow = design_noise(epsilon=1, delta=0.1, support=Fraction(5, 2))
    assert narrow.noise._edges[0] >= -2.5
    assert narrow.certificate.verify()
    assert narrow.lower >= design_noise(epsilon=1, delta=0.1).lower * 0.999
    free = design_noise(epsilon=1, delta=0.1)
    calm = design_noise(epsilon=1, delta=0.1, second_loss=("l2", Fraction("0.82")))
    assert calm.noise.expected_loss(2) <= 0.82 < free.noise.expected_loss(2)
    assert calm.certificate.verify()
    even = design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric(), symmetric=True)
    assert even.noise.weights == even.noise.weights[::-1]
    # for symmetric noise the loss is 3/2 abs(x)
    brackets(even, 1.5 * 0.5579)


def test_a_skewed_loss_gets_the_support_it_needs():
    """The best noise leans far to the cheap side: the first support is too narrow."""
    for given in ({}, {"monotone": True}):
        design = design_noise(epsilon=0.4, delta=1e-6, loss=losses.pinball(0.1), **given)
        assert design.gap <= 0.01
        assert design.certificate.verify()


@pytest.mark.parametrize("sensitivity", [Fraction(1), Fraction(7, 2)])
def test_the_support_holds_a_truncated_laplace_law(sensitivity):
    """The support rule: the least number of sensitivities that is surely feasible, and one more."""
    for epsilon in (0.1, 0.5, 1.0, 3.0, 8.0):
        for delta in (1e-9, 1e-3, 0.05, 0.3, 0.49):
            problem = NoiseProblem(Fraction(epsilon), Fraction(delta), sensitivity, losses.power(1))
            units = support_units(problem)
            bound = math.log(1 + (math.exp(epsilon) - 1) / (2 * delta)) / epsilon
            assert math.ceil(bound) + 1 == pytest.approx(units, abs=1e-9)
            law = tdp.TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=float(sensitivity))
            assert law.bound <= units * sensitivity
        pure = NoiseProblem(Fraction(epsilon), Fraction(0), sensitivity, losses.power(1))
        assert support_units(pure) == math.ceil(16 / epsilon) + 1  # beyond it lies exp(-16)


def test_monotone_noise_for_a_skewed_loss():
    general = design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric())
    monotone = design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric(), monotone=True)
    assert monotone.certificate.verify()
    assert monotone.lower >= general.lower * 0.99
    assert monotone.gap <= 0.01


# --- delta = 0, small delta, integers -----------------------------------------------------------


def test_delta_zero_is_the_staircase():
    for epsilon in (0.5, 1, 3):
        design = design_noise(epsilon=epsilon, delta=0)
        best = math.exp(epsilon / 2) / math.expm1(epsilon)
        assert design.upper == pytest.approx(best, rel=1e-9)
        assert design.gap <= 0.01
        assert design.certificate.verify()
        assert isinstance(design.noise, tdp.Staircase)
        assert design.noise.expected_loss(1) == pytest.approx(design.upper, rel=1e-9)
    square = design_noise(epsilon=1, delta=0, loss="l2")
    q = math.exp(-1)
    best = (2 ** (-2 / 3) * q ** (2 / 3) * (1 + q) ** (2 / 3) + q) / (1 - q) ** 2
    assert square.upper == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (1, 1e-9), (0.1, 1e-9), (3, 1e-6)])
def test_small_deltas(epsilon, delta):
    design = design_noise(epsilon=epsilon, delta=delta)
    staircase = math.exp(epsilon / 2) / math.expm1(epsilon)
    assert design.gap <= 0.01
    assert design.certificate.verify()
    assert design.lower <= staircase <= design.upper * 1.01
    assert design.noise.exact_delta() <= Fraction(delta)


def test_integers_are_solved_without_a_grid():
    pure = design_noise(epsilon=1, delta=0, integer=True)
    q = math.exp(-1)
    assert pure.upper == pytest.approx(2 * q / (1 - q * q), rel=1e-9)  # two-sided geometric
    assert pure.gap <= 1e-6
    wide = design_noise(epsilon=1, delta=0, integer=True, sensitivity=8)
    assert wide.noise.expected_loss(1) == pytest.approx(wide.upper, rel=1e-9)
    for delta, moved, loss in ((0.1, 1, "l1"), (0.01, 3, "l2"), (1e-9, 1, "l1")):
        design = design_noise(epsilon=1, delta=delta, integer=True, sensitivity=moved, loss=loss)
        assert design.gap <= 1e-6
        assert design.certificate.verify()
        assert design.noise.exact_delta() <= Fraction(delta)
        p = 1 if loss == "l1" else 2
        assert design.noise.expected_loss(p) == pytest.approx(design.upper, rel=1e-9)


class Recorded(ShiftProgram):
    """The extended program, which keeps the value that the solver claims."""

    claimed: list[float]

    def solve(self, **given):
        answer = super().solve(**given)
        Recorded.claimed.append(answer.value)
        return answer


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "cells", "units"),
    [(1, 0.2, 20, 3), (3, 0.3, 20, 2), (5, 0.75, 20, 2), (0.1, 0.01, 2, 40), (1, 1e-6, 4, 16)],
)
def test_certification_costs_less_than_a_millionth(loss, epsilon, delta, cells, units):
    """What is proved in integers beside what the solver claims in floats, on the same grid."""
    problem = NoiseProblem.of(epsilon=epsilon, delta=delta, loss=loss)
    Recorded.claimed = []
    common = {"cells": cells, "tolerance": 1e-9, "deadline": None, "solver": Recorded}
    upper = upper_bound(problem, reach=units * cells, centred=False, **common)
    lower = lower_bound(problem, window=units * cells, **common)
    assert float(upper.value) == pytest.approx(Recorded.claimed[0], rel=1e-6)
    assert float(lower.value) == pytest.approx(Recorded.claimed[1], rel=1e-6)


def test_the_bounds_on_one_grid():
    problem = NoiseProblem.of(epsilon=1, delta=0.2)
    proved = upper_bound(problem, cells=20, reach=60, centred=False, tolerance=1e-9, deadline=None)
    assert float(proved.value) == pytest.approx(0.558819, abs=2e-6)
    fine = lower_bound(problem, cells=20, window=60, tolerance=1e-9, deadline=None)
    assert float(fine.value) == pytest.approx(0.55849, abs=1e-5)


# --- the other formulation ----------------------------------------------------------------------


def test_cutting_planes_agree_with_the_extended_program():
    ours = design_noise(epsilon=3, delta=0.3, cells=30, gap=0.2)
    theirs = design_noise(epsilon=3, delta=0.3, cells=30, gap=0.2, method="cutting-planes")
    assert theirs.certificate.verify()
    assert theirs.upper == pytest.approx(ours.upper, rel=1e-3)
    assert theirs.lower == pytest.approx(ours.lower, rel=1e-3)


def test_a_partition_lies_between_its_grid_and_its_coarsening():
    problem = NoiseProblem.of(epsilon=2, delta=0.2)
    fine = partition_bound(problem, list(range(-20, 21)), cells=10, solver=ShiftProgram)
    mixed = partition_bound(
        problem, [-20, -15, -10, *range(-5, 6), 10, 15, 20], cells=10, solver=CutProgram
    )
    assert fine.value <= mixed.value <= 2 * fine.value
    with pytest.raises(ParameterError, match="`edges`"):
        partition_bound(problem, [0, 0], cells=10)
    with pytest.raises(ParameterError, match="mirror"):
        partition_bound(problem, [-2, 1, 2], cells=10)


def test_a_partition_is_a_design_like_any_other():
    edges = [-2, -1.5, -1, *(i / 10 for i in range(-5, 6)), 1, 1.5, 2]
    grid = design_noise(epsilon=2, delta=0.2, cells=40)
    for method in ("extended", "cutting-planes"):
        design = design_noise(epsilon=2, delta=0.2, partition=edges, method=method)
        assert design.certificate.verify()
        assert grid.lower <= design.upper
        assert not design.reached
        weights = np.array(design.noise.weights, dtype=float)
        for block in (weights[:5], weights[5:10], weights[30:35]):  # even up to the rounding
            assert np.ptp(block) <= 1e-6 * sum(weights)
    triple = design_noise(epsilon=2, delta=0.2, partition=edges, sensitivity=3)
    assert triple.upper == pytest.approx(3 * design.upper, rel=1e-9)
    assert triple.certificate.verify()


# --- the house around it ------------------------------------------------------------------------


def test_save_load_cache_and_show(tmp_path):
    design = design_noise(epsilon=1, delta=0.25, cache=tmp_path / "kept")
    design.save(tmp_path / "noise.json")
    again = tdp.load_design(tmp_path / "noise.json")
    assert again.noise.weights == design.noise.weights
    assert (again.upper, again.lower) == (design.upper, design.lower)
    assert "guarantee" in str(design)
    assert "<table>" in design._repr_html_()
    files = list((tmp_path / "kept").iterdir())
    assert len(files) == 1
    _solved.clear()
    kept = design_noise(epsilon=1, delta=0.25, cache=tmp_path / "kept")
    assert kept.certificate.document == design.certificate.document
    text = files[0].read_text()
    files[0].write_text(text[: len(text) // 2])
    _solved.clear()
    with pytest.raises(ParameterError, match="complete JSON"):
        design_noise(epsilon=1, delta=0.25, cache=tmp_path / "kept")


def test_a_kept_file_must_answer_the_question(tmp_path):
    """A proof for a larger epsilon is a true proof: taken from the cache it would be a leak."""
    weak = design_noise(epsilon=2, delta=0.5)
    design_noise(epsilon=0.1, delta=0.05, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    honest = file.read_text()
    others = [
        weak,
        design_noise(epsilon=0.1, delta=0.05, sensitivity=2),
        design_noise(epsilon=0.1, delta=0.05, monotone=True),
        design_noise(epsilon=0.1, delta=0.05, loss="l2"),
    ]
    for other in others:
        file.write_text(other.certificate.to_json())
        _solved.clear()
        with pytest.raises(ParameterError, match="another question"):
            design_noise(epsilon=0.1, delta=0.05, cache=tmp_path)
    file.write_text(honest.replace('"epsilon": "1/10"', '"epsilon": "1/20"'))
    with pytest.raises(ParameterError, match="cannot be trusted"):
        design_noise(epsilon=0.1, delta=0.05, cache=tmp_path)
    file.write_text(honest)
    assert design_noise(epsilon=0.1, delta=0.05, cache=tmp_path).problem.epsilon == Fraction(1, 10)


def test_one_kept_cell_serves_every_sensitivity(tmp_path):
    one = design_noise(epsilon=1, delta=0.25, loss="l2", cache=tmp_path)
    _solved.clear()
    many = design_noise(epsilon=1, delta=0.25, loss="l2", sensitivity=7, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert many.certificate.upper == 49 * one.certificate.upper
    assert many.certificate.verify()


def test_functions_are_never_mistaken_for_each_other(tmp_path):
    """Python gives the place of a function that is gone to the next one."""
    uppers = [
        design_noise(epsilon=1, delta=0.25, loss=function, cache=tmp_path).upper
        for function in (lambda x: x * x, abs, lambda x: 3 * abs(x))
    ]
    squares = design_noise(epsilon=1, delta=0.25, loss=lambda x: x * x, cache=tmp_path).upper
    assert squares == uppers[0] != uppers[1]
    assert uppers[2] == pytest.approx(3 * uppers[1], rel=1e-2)
    bound = (lambda x: x * x, Fraction(1))
    design_noise(epsilon=1, delta=0.25, second_loss=bound, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_caller_changes_stays_with_the_caller():
    mine = design_noise(epsilon=1, delta=0.25)
    mine.certificate.document["noise"]["weights"][0] += 1 << 50
    again = design_noise(epsilon=1, delta=0.25)
    assert again.certificate.verify()
    again.certificate.document["epsilon"] = "9"
    assert design_noise(epsilon=1, delta=0.25).certificate.verify()


def test_a_cache_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="`cache`"):
        design_noise(epsilon=1, delta=0.25, cache=tmp_path / "file")


def test_a_gap_out_of_reach_is_said():
    with pytest.warns(RuntimeWarning, match="not reached"):
        design = design_noise(epsilon=5, delta=0.7, gap=1e-6, time_limit=0.2)
    assert not design.reached
    assert design.certificate.verify()


@pytest.mark.parametrize("cells", [None, 200])
def test_cutting_planes_out_of_time_still_prove_something(cells):
    with pytest.warns(RuntimeWarning, match="not reached"):
        design = design_noise(
            epsilon=1, delta=0.1, cells=cells, method="cutting-planes", time_limit=0.2
        )
    assert not design.reached
    assert design.certificate.verify()
    assert 0 <= design.lower <= 0.694 <= design.upper < 1


def test_cells_and_time_are_kept():
    design = design_noise(epsilon=1, delta=0.1, cells=100)
    assert len(design.noise.weights) <= 202  # centred cells are stored as halves
    assert design.gap < 0.005
    with pytest.warns(RuntimeWarning, match="not reached"):
        late = design_noise(epsilon=1, delta=0.1, cells=4000, time_limit=1.0)
    assert not late.reached
    assert late.certificate.verify()
    assert late.seconds < 30


def test_suboptimality_of_known_noise():
    report = tdp.suboptimality(tdp.TruncatedLaplace(epsilon=1.0, delta=0.1))
    assert report.at_least <= 0.068 <= report.at_most  # 1.068 times the optimum
    assert "worse" in str(report)
    laplace = tdp.suboptimality(tdp.Laplace(epsilon=1.0))
    assert laplace.at_least == pytest.approx(1 / 0.959517 - 1, abs=1e-4)
    best = tdp.suboptimality(design_noise(epsilon=1, delta=0.1).noise, epsilon=1, delta=0.1)
    assert best.at_least <= 1e-9
    assert best.at_most <= 0.01
    gauss = tdp.suboptimality(tdp.AnalyticGaussian(epsilon=1.0, delta=0.01), loss=losses.power(3))
    assert gauss.at_least > 0.05
    counts = tdp.suboptimality(tdp.Geometric(epsilon=1.0))
    assert counts.at_most <= 1e-5
    with pytest.raises(ParameterError, match="`delta` must be at least"):
        tdp.suboptimality(tdp.Laplace(epsilon=1.0), epsilon=0.5, delta=0.01)
    with pytest.raises(ParameterError, match="`noise`"):
        tdp.suboptimality(3, epsilon=1, delta=0.1)


BAD = [
    ({"epsilon": 0}, "`epsilon`"),
    ({"epsilon": -1}, "`epsilon`"),
    ({"epsilon": math.nan}, "`epsilon`"),
    ({"epsilon": 30}, "`epsilon`"),
    ({"delta": 1}, "`delta`"),
    ({"delta": -0.1}, "`delta`"),
    ({"delta": 1e-15}, "`delta`"),
    ({"delta": "0.1"}, "`delta`"),
    ({"sensitivity": 0}, "`sensitivity`"),
    ({"sensitivity": math.inf}, "`sensitivity`"),
    ({"sensitivity": 1.5, "integer": True}, "`sensitivity` must be an integer"),
    ({"loss": "l3"}, "`loss` must be one of"),
    ({"loss": 3}, "`loss`"),
    ({"loss": lambda x: -x * x}, "`loss` must not fall"),
    ({"loss": lambda x: math.exp(-x * x)}, "`loss` must not fall"),
    ({"loss": lambda x: 1.0}, "`loss` must grow"),
    ({"loss": lambda x: math.nan}, "`loss` must give finite"),
    ({"loss": lambda x: 10**400 * int(abs(x))}, "`loss` must give finite"),
    ({"loss": lambda x: math.sqrt(abs(x))}, "`loss` must be convex"),
    ({"loss": losses.from_callable(lambda x: 3 * abs(x), lipschitz=1)}, "Lipschitz"),
    (
        {
            "loss": losses.from_callable(
                lambda x: abs(x) + max(0.0, 0.5 - abs(x - 1.1)), lipschitz=2, symmetric=True
            )
        },
        "said to be symmetric",
    ),
    ({"gap": 0}, "`gap`"),
    ({"gap": 2}, "`gap`"),
    ({"cells": 1}, "`cells`"),
    ({"cells": 2}, "`cells` must be larger"),
    ({"method": "simplex"}, "`method`"),
    ({"time_limit": 0}, "`time_limit`"),
    ({"support": 0}, "`support`"),
    ({"support": 1}, "`support`"),  # no noise of this guarantee is so narrow
    ({"second_loss": ("l2", Fraction("0.3"))}, "`second_loss`"),
    ({"second_loss": "l2"}, "`second_loss`"),
    ({"support": 1, "monotone": True}, "meets `support`\\. Give"),
    ({"support": 1, "second_loss": ("l2", 5)}, "meets `support`\\. Give"),
    ({"support": 5, "second_loss": ("l2", Fraction("0.1"))}, "meets `second_loss`\\. Give"),
    ({"support": 1, "second_loss": ("l2", Fraction("0.1"))}, "meets `support` and `second_loss`"),
    (
        {"support": Fraction("1.55"), "second_loss": ("l2", Fraction("0.513")), "loss": "l1"},
        "meets `support` and `second_loss` together",
    ),
    ({"partition": [0, 1]}, "`partition` must be increasing"),
    ({"partition": [-1, 1, 0]}, "`partition` must be increasing"),
    ({"partition": [-2, 0, 0.5, 2]}, "`partition` must be its own mirror"),
    ({"partition": [-2, -0.123457, 0.123457, 2]}, "`partition` must lie on a grid"),
    ({"partition": [-2, 0, 2], "cells": 20}, "`partition` excludes"),
    ({"partition": [-1, 0, 1]}, "`partition` must be wider"),
    ({"delta": 0, "support": 5}, "`delta` must be > 0"),
    ({"delta": 0, "loss": losses.pinball(0.3)}, "`delta` must be > 0"),
]


# numbered, since the text of a function holds its address, which changes from run to run
@pytest.mark.parametrize(
    ("given", "match"), BAD, ids=[f"{i}-{'-'.join(given)}" for i, (given, _) in enumerate(BAD)]
)
def test_bad_input_is_named(given, match):
    with pytest.raises(ParameterError, match=match):
        design_noise(**{"epsilon": 1, "delta": 0.2, **given})


@pytest.mark.parametrize("bound", [10**400, -1, math.inf])
def test_a_lipschitz_bound_is_a_moderate_number(bound):
    with pytest.raises(ParameterError, match="`lipschitz`"):
        losses.from_callable(abs, lipschitz=bound)


def test_bad_losses_are_named():
    for make, match in (
        (lambda: losses.power(0), "`p`"),
        (lambda: losses.power(0.1), "`p`"),
        (lambda: losses.asymmetric(right=0), "grow"),
        (lambda: losses.pinball(1), "`quantile`"),
        (lambda: losses.threshold(0), "`at`"),
        (lambda: losses.piecewise_linear([0], [0], (1, 1)), "grow"),
        (lambda: losses.piecewise_linear([1, 0], [0, 0], (-1, 1)), "`knots`"),
        (lambda: tdp.load_design("/nowhere/design.json"), "`path`"),
    ):
        with pytest.raises(ParameterError, match=match):
            make()


@pytest.mark.parametrize(("reach", "claimed"), [(20, 0.10276), (40, 0.18829)])
def test_the_lower_bound_of_uneven_partitions_is_false(reach, claimed):
    """Corollary 1 of [5] at epsilon 5, delta 0.05, sensitivity and cell width 1, as printed."""
    at = np.arange(-reach, reach)
    owner = np.searchsorted([-reach, -1, 0, 1, reach], at, side="right") - 1
    owner = np.minimum(owner, 3 - owner)
    nearest = np.where((at == -1) | (at == 0), 0.0, 1.0)  # infimum of abs(x) over coarse cells
    program = ShiftProgram(
        Lattice(-reach, reach, (-reach, reach), -1, 1),
        factor=math.exp(5),
        delta=0.05,
        cost=nearest,
        folded=True,
        groups=owner,
    )
    bound = program.solve(tolerance=1e-9).value
    assert bound == pytest.approx(claimed, abs=1e-5)
    private = design_noise(epsilon=5, delta=0.05, gap=0.1)
    assert private.certificate.verify()
    assert private.upper < 0.082 < bound  # a noise that the "bound" forbids


# --- shifts that leave the program ----------------------------------------------------------------


def _program(cells: int = 12) -> programs.ShiftProgram:
    at = np.arange(-3 * cells, 3 * cells)
    lattice = programs.Lattice(
        first=-3 * cells, last=3 * cells, window=(-3 * cells, 3 * cells), mirror=-1, shifts=cells
    )
    cost = np.abs(at + 0.5) / cells
    facts = {"factor": math.exp(1.0), "delta": 0.2, "cost": cost, "folded": True}
    return programs.ShiftProgram(lattice, atom_cost=0.0, **facts)


def test_the_optimum_is_the_same_without_slack_shifts(monkeypatch):
    values, sizes = [], []
    for share in (math.inf, programs._IDLE, 0.0):
        monkeypatch.setattr(programs, "_IDLE", share)
        found = _program().solve(tolerance=1e-9)
        values.append(found.value)
        sizes.append(len(found.prices))
        assert found.excess <= 1e-9  # over all shifts, not only those in the program
    assert values == pytest.approx([values[0]] * 3, rel=1e-7)
    assert sizes[1] <= sizes[0]


def test_a_dropped_shift_that_is_never_looked_at_again_is_caught(monkeypatch):
    """Planted fault: the program believes that only the longest move matters."""
    honest = programs.ShiftProgram.shortfall
    monkeypatch.setattr(
        programs.ShiftProgram,
        "shortfall",
        lambda self, masses, m: honest(self, masses, m) * (m == 12),
    )
    monkeypatch.setattr(programs, "_FIRST", 1)
    weights = [int(mass * 2**40) for mass in _program().solve(tolerance=1e-9).masses]
    factor = exp_bounds(Fraction(1))[0]
    lost = max(shortfall(weights, m, factor) / sum(weights) for m in range(1, 13))
    assert lost > Fraction(1, 5)
    assert shortfall(weights, 12, factor) / sum(weights) <= Fraction(1, 5) * (
        1 + Fraction(1, 10**6)
    )
