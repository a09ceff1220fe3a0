"""The best of a random number of private fits: the law of the number, the price, the choice."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from laws import fit

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.tuning import TunedPerturbation, logarithmic
from tightdp.randomness import source

SETTINGS = [{"noise_share": 0.9}, {"noise_share": 0.9, "l1": 1e6}]


def schema(rows, **options):
    facts = {"x": tdp.Interval(-1, 1), "y": tdp.Category([0, 1], other=0)}
    return tdp.Schema(facts, rows=rows, **options)


def table(rows):
    x = np.linspace(-1, 1, rows)
    return {"x": x, "y": (x > 0) * 1}


# --- the number of runs --------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [Fraction(1, 2), Fraction(3, 20)])
def test_the_number_of_runs_has_its_law(stop, seed):
    draws = np.array([logarithmic(stop, rng) for rng in [source(seed)] for _ in range(8_000)])
    k = np.arange(1, 40)
    law = (1 - float(stop)) ** k / k / -math.log(stop)
    counts = np.bincount(draws, minlength=41)
    seen = np.append(counts[1:40], counts[40:].sum())
    assert fit(seen, np.append(law, 1 - law.sum())) > 1e-4
    # a planted fault: the geometric law, which costs more
    wrong = float(stop) * (1 - float(stop)) ** (k - 1)
    assert fit(seen, np.append(wrong, 1 - wrong.sum())) < 1e-6


@pytest.mark.parametrize("runs", [1.5, 10.0, 300.0])
def test_the_mean_number_of_runs(runs):
    stop = float(TunedPerturbation(schema(50), settings=SETTINGS, epsilon=1.0, runs=runs).stop)
    assert (1 / stop - 1) / -math.log(stop) == pytest.approx(runs, rel=1e-3)


# --- the price -----------------------------------------------------------------------------------


def neighbours(first, second, e):
    """Whether two laws on three outputs are within a factor e on every event."""
    sums = [np.array([*p, p[0] + p[1], p[0] + p[2], p[1] + p[2]]) for p in (first, second)]
    return (sums[0] <= e * sums[1] * (1 + 1e-9)).all() and (
        sums[1] <= e * sums[0] * (1 + 1e-9)
    ).all()


def largest_loss(generating, epsilon):
    """The largest log ratio of published laws over neighbours on (worse, one output, better)."""
    worst, e = 0.0, math.exp(epsilon)
    for better, q in itertools.product(np.geomspace(1e-5, 0.9, 40), np.geomspace(1e-6, 0.5, 20)):
        if better + q >= 1:
            continue
        here = np.array([1 - better - q, q, better])
        for rise in (e, 1 / e):
            there = np.array([1 - better * rise - q / e, q / e, better * rise])
            if there[0] > 0 and neighbours(here, there, e):
                laws = [generating(p[0] + p[1]) - generating(p[0]) for p in (here, there)]
                worst = max(worst, abs(math.log(laws[0] / laws[1])))
    return worst


@pytest.mark.parametrize("stop", [0.5, 0.05, 0.001])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_choosing_costs_two_budgets_and_no_less(stop, epsilon):
    def chosen(t):
        return math.log1p(-(1 - stop) * t) / math.log(stop)

    def geometric(t):
        return stop * t / (1 - (1 - stop) * t)

    def fixed(t):
        return t**20

    loss = largest_loss(chosen, epsilon)
    assert loss <= 2 * epsilon * (1 + 1e-6)
    if stop <= 0.001:
        assert loss > 1.9 * epsilon  # the bound is nearly met
        assert largest_loss(geometric, epsilon) > 2.5 * epsilon  # broken twins are caught
    assert largest_loss(fixed, epsilon) > 3 * epsilon


def test_a_run_spends_half_of_epsilon_to_the_last_digit():
    choice = TunedPerturbation(schema(100), settings=SETTINGS, epsilon=1.0, score_share=0.25)
    for candidate in choice.candidates:
        assert candidate.epsilon + choice.on_errors.rate == Fraction(1, 2)
    persons = schema(100, person="who", rows_per_person=3, neighbors="add-remove")
    shared = TunedPerturbation(persons, settings=SETTINGS, epsilon=1.0, score_share=0.25)
    assert shared.on_errors.rate == choice.on_errors.rate / 3


# --- the choice ----------------------------------------------------------------------------------


def test_the_best_setting_is_found_and_paid_for_once(seed):
    ledger = tdp.Ledger(epsilon=1.0)
    choice = TunedPerturbation(schema(2000), settings=SETTINGS, epsilon=1.0, runs=20)
    first = choice.release(table(2000), ledger=ledger, key="tuned")
    assert ledger.spent.epsilon == 1
    assert choice.release(table(2000), ledger=ledger, key="tuned").integers == first.integers
    assert first.guarantee.numerics == "idealized-numerics"
    np.testing.assert_allclose(
        np.array(first.integers) / first.resolution, [*first.value], rtol=1e-12
    )
    # no run tries the good setting with probability f(1/2), f the generating function of K
    stop, count = float(choice.stop), 60
    missed = math.log1p(-(1 - stop) / 2) / math.log(stop)
    draws = [choice.release(table(2000), rng=1000 * seed + i) for i in range(count)]
    share = np.mean([release["candidate"] == 1 for release in draws])
    assert abs(share - missed) < 5 * math.sqrt(missed * (1 - missed) / count)


def test_every_run_is_drawn_before_rows_are_read(seed):
    choice = TunedPerturbation(schema(300), settings=SETTINGS, epsilon=2.0, runs=5)
    runs = choice.draw_runs(source(seed))
    rows, target = choice.rows.read(table(300))
    errors, place, integers = choice.best(rows, target, runs)
    each = [choice.best(rows, target, [run]) for run in runs]
    assert (errors, place, integers) == min(each)
    kept = next(run for run, one in zip(runs, each, strict=True) if one[2] == integers)
    predicted = rows @ choice.candidates[place].scaled(integers) > 0
    assert errors - kept.on_errors == np.count_nonzero(predicted != (target > 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": []}, "settings"),
        ({"settings": {"ridge": 1.0}}, "settings"),
        ({"settings": [{"epsilon": 2.0}]}, "settings"),
        ({"settings": [{"ridge": -1.0}]}, "ridge"),
        ({"score_share": 0.0}, "score_share"),
        ({"score_share": 1.0}, "score_share"),
        ({"runs": 1.0}, "runs"),
        ({"runs": 1e9}, "runs"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ParameterError, match=message):
        TunedPerturbation(schema(100), **{"settings": SETTINGS, "epsilon": 1.0, **options})
