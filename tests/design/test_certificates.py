"""Certificates: what the verifier proves, and everything it must refuse."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp.design import exact_numbers, losses, proofs, verifier
from tightdp.design.certificate import Certificate
from tightdp.design.designs import design_noise
from tightdp.errors import ParameterError, TightdpError


@pytest.fixture(scope="module")
def document():
    return design_noise(epsilon=1, delta=0.25).certificate.document


def sealed(changed):
    """A forger recomputes the checksum, so the proof itself must catch the change."""
    return Certificate.seal({k: v for k, v in changed.items() if k != "sha256"})


def change(document, edit):
    changed = copy.deepcopy(document)
    edit(changed)
    return changed


def one_weight(d):
    d["noise"]["weights"][3] += 1


def moved_weight(d):
    w = d["noise"]["weights"]
    middle = len(w) // 2
    w[middle] -= 1
    w[0] += 1


def rising_total(d):
    d["noise"]["weights"][0] += 1
    d["noise"]["total"] += 1


def narrower(d):
    d["noise"]["cells"] -= 1


def swapped(d):
    d["upper"], d["lower"] = d["lower"], d["upper"]


def better_upper(d):
    d["upper"] = str(Fraction(d["upper"]) * Fraction(999999, 1000000))


def better_lower(d):
    d["lower"] = str(Fraction(d["lower"]) + Fraction(1, 10**9))


def exp_low_above(d):
    d["exp_low"] = d["exp_high"]


def exp_high_below(d):
    d["exp_high"] = d["exp_low"]


def a_price(d):
    d["proof"]["shifts"][0]["price"] -= 1 << 50


def a_multiplier(d):
    entry = d["proof"]["shifts"][0]
    entry["multipliers"][len(entry["multipliers"]) // 2] += entry["price"]


def twice_a_shift(d):
    d["proof"]["shifts"].append(d["proof"]["shifts"][0])


def too_far_a_shift(d):
    d["proof"]["shifts"][0]["shift"] = d["proof"]["cells"] + 1


def smaller_delta(d):
    d["delta"] = "1/5"


def smaller_epsilon(d):
    d["epsilon"] = "9/10"


def wider_sensitivity(d):
    d["sensitivity"] = "2"


def steeper_loss(d):
    d["loss"]["right"] = ["0", "2"]


def falling_loss(d):
    d["loss"]["right"] = d["loss"]["left"] = ["0", "-1"]


def unknown_loss(d):
    d["loss"] = {"kind": "secret"}


def monotone_claim(d):
    d["constraints"]["monotone"] = True
    d["noise"]["weights"].reverse()
    d["noise"]["weights"][0], d["noise"]["weights"][5] = 5, 0


def no_proof(d):
    d["proof"]["shifts"] = []


def negative(d):
    d["noise"]["weights"][0] -= 10**18
    d["noise"]["weights"][-1] += 10**18


def floats(d):
    d["noise"]["weights"][0] = float(d["noise"]["weights"][0])


def missing(d):
    del d["proof"]["unit"]


def only_an_atom(d):
    d["noise"].update(weights=[], atom=1, total=1)
    d["upper"] = "0"
    d["proof"]["shifts"] = []
    d["lower"] = "0"


def a_negative_price(d):
    d["proof"]["shifts"] = [{"shift": 1, "price": -(1 << 60), "start": 0, "multipliers": []}]
    d["lower"] = str(Fraction(d["proof"]["unit"]) / 4)


def float_cells(d):
    d["proof"]["cells"] = float(d["proof"]["cells"])


def unmirrored_edges(d):
    d["proof"]["edges"] = True


def a_float_total(d):
    """Sums divided by a float are floats, and a float is not what the file proves."""
    d["noise"]["total"] = float(d["noise"]["total"])
    spent = verifier._expected(d, d["loss"])
    d["upper"] = str(Fraction(spent))


def a_float_delta(d):
    d["delta"] = 0.25


def an_endless_delta(d):
    d["delta"] = math.inf


def no_number(d):
    d["lower"] = math.nan


def an_exponent(d):
    d["epsilon"] = "1e999999999"


def true_as_epsilon(d):
    d["epsilon"] = True


def a_word_for_a_flag(d):
    d["constraints"]["monotone"] = "false"


def a_number_for_a_flag(d):
    d["integer"] = 0


def endless_bits(d):
    d["proof"]["bits"] = 10**15


def endless_nodes(d):
    d["proof"]["reach"] = 10**15


def an_endless_root(d):
    d["loss"] = {"kind": "root", "top": 10**15, "bottom": 7, "factor": "1"}


def a_smaller_unit_of_prices(d):
    """Gains in one unit and their price in another."""
    d["proof"]["unit"] = "0"


def a_negative_unit(d):
    d["proof"]["unit"] = "-1"


def mass_outside(d):
    d["proof"]["shifts"][0]["start"] -= 10**6


def scaled_cells(d):
    """The same weights on cells half as wide cost half as much, and protect half the move."""
    d["sensitivity"] = "1/2"
    d["upper"] = str(Fraction(d["upper"]) / 2)


def free_cells(d):
    """A noise that reaches k cells as if they were one sensitivity wide each."""
    d["noise"]["cells"] = 1


def skewed_start(d):
    d["noise"]["start"] += 1


def another_kind(d):
    d["kind"] = "staircase"
    d["noise"] = {"core_share": "1/2"}


EDITS = [
    a_float_total,
    a_float_delta,
    an_endless_delta,
    no_number,
    an_exponent,
    true_as_epsilon,
    a_word_for_a_flag,
    a_number_for_a_flag,
    endless_bits,
    endless_nodes,
    an_endless_root,
    a_smaller_unit_of_prices,
    a_negative_unit,
    mass_outside,
    scaled_cells,
    free_cells,
    skewed_start,
    another_kind,
    only_an_atom,
    a_negative_price,
    float_cells,
    unmirrored_edges,
    one_weight,
    moved_weight,
    rising_total,
    narrower,
    swapped,
    better_upper,
    better_lower,
    exp_low_above,
    exp_high_below,
    a_price,
    a_multiplier,
    twice_a_shift,
    too_far_a_shift,
    smaller_delta,
    smaller_epsilon,
    wider_sensitivity,
    steeper_loss,
    falling_loss,
    unknown_loss,
    monotone_claim,
    no_proof,
    negative,
    floats,
    missing,
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_changed_document_is_refuted_even_with_a_fresh_checksum(document, edit):
    forged = sealed(change(document, edit))
    assert forged.reason() is not None, edit.__name__
    assert not forged.verify()


def test_every_single_number_is_under_the_checksum(document):
    for edit in EDITS:
        assert Certificate(change(document, edit)).reason() is not None
    quiet = change(document, lambda d: d["proof"]["shifts"][0].update(start=0))
    assert "checksum" in Certificate(quiet).reason()


def test_the_json_alone_is_enough(document, tmp_path):
    text = json.dumps(document)
    assert Certificate.from_json(text).verify()
    path = tmp_path / "design.json"
    path.write_text(text)
    source = Path(verifier.__file__)
    # -S -I: the file runs without this package and without site-packages
    run = [sys.executable, "-I", "-S", str(source), str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "proved" in done.stdout
    module = [sys.executable, "-W", "error", "-m", "tightdp.design", str(path)]
    assert subprocess.run(module, capture_output=True, check=False).returncode == 0
    path.write_text(text[:-20])
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "REFUTED" in done.stdout
    with pytest.raises(TightdpError, match="complete JSON"):
        Certificate.from_json(text[:-20])
    with pytest.raises(TightdpError, match="refuted"):
        Certificate.from_json(json.dumps(change(document, one_weight)))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"epsilon": "1", "epsilon": "5"}', "twice"),
        ('{"delta": 0.5}', "a float"),
        ('{"delta": 1e-3}', "a float"),
        ('{"delta": NaN}', "a float"),
        ('{"delta": -Infinity}', "a float"),
        ("[" * 100_000, "nested"),
        ("[1]", "object"),
        ("{}", "damaged"),
    ],
    ids=["twice", "float", "exponent", "nan", "infinity", "deep", "list", "empty"],
)
def test_texts_that_are_no_certificate(text, match, tmp_path, capsys):
    with pytest.raises(TightdpError, match=match):
        Certificate.from_json(text)
    for kind in (tdp.PlanarDesign, tdp.DataDependentDesign):
        with pytest.raises(ParameterError, match="record"):
            kind.from_json(text)
    path = tmp_path / "design.json"
    path.write_text(text)
    for check in (verifier.main, proofs.main):
        assert check([str(path)]) == 1
        assert "REFUTED" in capsys.readouterr().out


def test_every_kind_of_design_is_proved_from_its_file(document, tmp_path, capsys):
    plane = tdp.design_planar_noise(epsilon=1.0, delta=0.3, ball="linf", resolution=2)
    ranged = tdp.design_data_dependent_noise(
        epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(0.0, 4.0), resolution=2
    )
    texts = [json.dumps(document), plane.to_json(), ranged.to_json()]
    forged = [text.replace('"upper": "', '"upper": "9') for text in texts]
    for i, text in enumerate(texts + forged):
        (tmp_path / f"{i}.json").write_text(text)
    assert proofs.main([str(tmp_path / f"{i}.json") for i in range(3)]) == 0
    assert capsys.readouterr().out.count("proved") == 3
    for i in range(3, 6):
        assert proofs.main([str(tmp_path / f"{i}.json")]) == 1
    assert capsys.readouterr().out.count("REFUTED") == 3
    assert proofs.main([str(tmp_path / "nowhere")]) == 1
    assert proofs.main([]) == 1
    assert proofs.prove(texts[1]).upper == plane.upper


def test_a_file_of_a_function_says_so(tmp_path, capsys):
    design = design_noise(epsilon=1, delta=0.25, loss=lambda x: x * x)
    design.save(tmp_path / "design.json")
    for check in (verifier.main, proofs.main):
        assert check([str(tmp_path / "design.json")]) == 0
        assert "tables in the file are taken as they are" in capsys.readouterr().out


def test_the_exponential_is_enclosed():
    for power in (1, 2, 3, 5, 7, 10):  # against integers alone: e**(p/100) to the hundredth power
        low, high = exact_numbers.exp_bounds(Fraction(power, 100))
        whole_low, whole_high = exact_numbers.exp_bounds(Fraction(power))
        assert low**100 <= whole_high
        assert high**100 >= whole_low
    e_low = sum(Fraction(1, math.factorial(j)) for j in range(60))
    low, high = exact_numbers.exp_bounds(Fraction(1))
    assert low <= e_low <= e_low + Fraction(2, math.factorial(60)) <= high + Fraction(1, 1 << 190)
    for x in (Fraction(1, 200), Fraction(1), Fraction(5), Fraction(20), Fraction(0.1)):
        low, high = exact_numbers.exp_bounds(x)
        assert low <= high <= low * (1 + Fraction(1, 1 << 150))
        assert float(low) == pytest.approx(math.exp(x), rel=1e-14)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_any_multipliers_give_a_bound_below_every_private_noise(loss, seed):
    """Weak duality: random multipliers never prove more than a known private noise costs."""
    design = design_noise(epsilon=1, delta=0.25, loss=loss)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        forged = copy.deepcopy(design.certificate.document)
        for entry in forged["proof"]["shifts"]:
            entry["price"] = int(entry["price"] * rng.uniform(0.5, 2))
            entry["multipliers"] = [
                min(int(y * rng.uniform(0.5, 1.5)), entry["price"]) for y in entry["multipliers"]
            ]
        bound = verifier.check_bound(forged, Fraction(forged["exp_high"]))
        assert bound <= design.certificate.upper


def test_side_constraints_have_their_own_certificates():
    for given in (
        {"monotone": True},
        {"support": 3},
        {"second_loss": ("l2", Fraction("0.83"))},
        {"monotone": True, "loss": losses.asymmetric()},
        {"symmetric": True, "loss": losses.asymmetric()},
        {"integer": True, "monotone": True, "sensitivity": 2},
        {"integer": True, "support": 4},
    ):
        certificate = design_noise(epsilon=1, delta=0.1, **given).certificate
        assert certificate.reason() is None, given
        again = Certificate.from_json(certificate.to_json())
        assert again.problem().monotone == bool(given.get("monotone", False))


def test_a_bound_for_narrower_noise_is_not_one_for_all():
    certificate = design_noise(epsilon=1, delta=0.1, support=Fraction(9, 4)).certificate
    forged = copy.deepcopy(certificate.document)
    forged["constraints"]["support"] = None
    assert sealed(forged).reason() is not None
    monotone = design_noise(epsilon=3, delta=0.3, monotone=True).certificate.document
    forged = copy.deepcopy(monotone)
    forged["constraints"]["monotone"] = False
    assert sealed(forged).reason() is not None
    skewed = design_noise(epsilon=1, delta=0.2, loss=losses.asymmetric(), symmetric=True)
    forged = copy.deepcopy(skewed.certificate.document)
    forged["constraints"]["symmetric"] = False
    assert "mirrored" in sealed(forged).reason()


def test_noise_away_from_zero_is_not_monotone():
    document = copy.deepcopy(design_noise(epsilon=3, delta=0.3, monotone=True).certificate.document)
    noise = document["noise"]
    middle = -noise["start"]
    weights = noise["weights"][middle:]
    noise.update(weights=weights, start=1, total=sum(weights) + noise["atom"])
    with pytest.raises(exact_numbers.Refuted, match="away from zero"):
        verifier._check_shape(document)


def test_losses_in_rationals():
    """Means lie between the extremes, minorants below the loss, at random points."""
    third = Fraction(1, 3)
    shapes = [
        losses.power(1),
        losses.power(2),
        losses.power(5),
        losses.power(1.5),
        losses.power(2.5),
        losses.power(0.5),
        losses.asymmetric(),
        losses.pinball(0.2),
        losses.threshold(1),
        losses.threshold(Fraction(6, 5)),
        losses.piecewise_linear([-1, Fraction(1, 2), 2], [1, 0, 3], (-2, 1)),
        losses.from_callable(lambda x: math.cosh(x)),
        losses.from_callable(lambda x: min(abs(x), 1 + abs(x) / 9), lipschitz=1),
    ]
    for loss in shapes:
        nodes = [float(a) for a in loss.minorant(third, 9)]
        grid = np.linspace(-3, 3, 1801)
        below = np.interp(grid, np.arange(-9, 10) / 3, nodes)
        exact = [Fraction(i - 900, 300) for i in range(1801)]
        true = np.array([float(loss.values(x, 1, 2, up=True)[0]) for x in exact])
        assert (below <= true + 1e-9).all(), loss.name
        means = [float(c) for c in loss.means(third, -9, 9)]
        for i, got in enumerate(means):
            inside = true[i * 100 : i * 100 + 101]
            simple = (inside[:-1] + inside[1:]).mean() / 2
            assert got == pytest.approx(simple, abs=0.02 * max(1, simple)), loss.name
            assert inside.min() - 1e-9 <= got <= inside.max() + 0.05, loss.name


def test_the_repaired_law_is_private_and_hardly_worse():
    from tightdp.design.problem import NoiseProblem
    from tightdp.design.rounding import exponential, lost, mixed, repaired, rounded

    problem = NoiseProblem.of(epsilon=1, delta=Fraction(1, 5))
    size = {"cells": 4, "start": -12, "bits": 61, "monotone": False}
    at = np.abs(np.arange(-12, 12) + 0.5)
    spare = rounded(np.exp(-at / 4), 0.0, **size)
    factor = exponential(Fraction(1))[0]
    sharp = rounded(np.exp(-2.5 * at / 4), 0.15, **size)
    assert lost(sharp, factor) > problem.delta > lost(spare, factor)
    law = repaired(problem, sharp, spare, ([], Fraction(0)))
    assert problem.delta * Fraction(17, 20) < lost(law, factor) <= problem.delta
    assert sum(law.weights) + law.atom == law.total == 1 << 61
    assert law.weights == law.weights[::-1]
    assert repaired(problem, sharp, sharp, ([], Fraction(0))) is None
    half = mixed(sharp, spare, Fraction(1, 2))
    assert half.total == sharp.total


def test_public_names():
    assert tdp.Certificate is Certificate
