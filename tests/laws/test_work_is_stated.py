"""Law: no draw without a bound on its work that is known, and refused, before payment.

The table "Draws that end" of CONTRIBUTING.md has a row for every mechanism that can be built. Its
second column says one of two things, and each is held to it here:

- ``fixed``: what is drawn does not look at the rows, or as often for all tables of one size;
- ``refused``: the amount of work may depend on the rows, up to a public bound, and here is a
  request beyond the bound, which the constructor refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from enrolled import box_bounds, gradient_norm, huber, huber_bounds, mechanisms, schema

import tightdp as tdp
from tightdp.data.histograms import JointHistogram
from tightdp.mechanisms.exponential_grids import BoxMechanism
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.kolmogorov import JointKolmogorov, KolmogorovSample

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"

FACTS = schema("replace-one")
MANY = tdp.Schema({c: tdp.Interval(-1, 1) for c in "abcy"}, rows=10**6)
BEYOND: dict[type, Callable[[], Any]] = {
    BoxMechanism: lambda: BoxMechanism(
        [tdp.Interval(-1, 1)] * 3, box_bounds, sensitivity=1, epsilon=1, bits=10
    ),
    tdp.KNormGradient: lambda: tdp.KNormGradient(
        [tdp.Interval(-1, 1)] * 3, gradient_norm, sensitivity=1, epsilon=1, bits=10
    ),
    tdp.KNormRowGradient: lambda: tdp.KNormRowGradient(
        FACTS, [tdp.Interval(0, 1)] * 2, huber, huber_bounds, clip=1.0, epsilon=1, grid=16
    ),
    JointKolmogorov: lambda: JointKolmogorov(JointHistogram(FACTS, ["x", "y"], 9), 9, epsilon=1),
    KolmogorovSample: lambda: KolmogorovSample(FACTS, "x", 10_000, epsilon=1, size=200_000),
    tdp.KNormQuantile: lambda: tdp.KNormQuantile(
        MANY.with_rows(10**9), "a", 0.3, epsilon=1e-6, interval="sample"
    ),
    tdp.KNormMedian: lambda: tdp.KNormMedian(
        MANY.with_rows(10**9), "a", epsilon=1e-6, interval="population"
    ),
    tdp.KNormQuantiles: lambda: tdp.KNormQuantiles(
        MANY, "a", [Fraction(i, 1000) for i in range(1, 1000)], epsilon=1
    ),
    GroupQuantiles: lambda: GroupQuantiles(
        MANY, "a", [Fraction(i, 1000) for i in range(1, 1000)], [("b", 2)], epsilon=1
    ),
    tdp.KNormLinearRegression: lambda: tdp.KNormLinearRegression(MANY, epsilon=100, grid=12),
    tdp.KNormQuantileRegression: lambda: tdp.KNormQuantileRegression(MANY, epsilon=1),
    tdp.KNormGeometricMedian: lambda: tdp.KNormGeometricMedian(MANY, epsilon=1, most_points=1000),
}


def table() -> str:
    return CONTRIBUTING.read_text(encoding="utf-8").split("## Draws that end")[1].split("\n## ")[0]


def stated() -> dict[str, str]:
    """From names of mechanisms to what the table says of their work."""
    found: dict[str, str] = {}
    for line in table().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `"):
            assert len(cells) == 4, line
            assert all(cells), line
            for name in re.findall(r"`(\w+)`", cells[0]):
                assert name not in found, f"{name} has two rows"
                found[name] = cells[1]
    return found


def test_every_mechanism_states_its_work() -> None:
    assert set(stated()) == {kind.__name__ for kind in mechanisms()}
    assert set(stated().values()) == {"fixed", "refused"}


def test_the_table_names_files_that_are_there() -> None:
    home = Path(tdp.__file__).parent
    named = re.findall(r"`([\w/]+/\w+\.py)`", table())
    assert len(named) > 10
    assert [path for path in named if not (home / path).exists()] == [
        path for path in named if path.startswith("tests/")
    ]


def test_every_bound_has_a_request_beyond_it() -> None:
    bounded = {name for name, word in stated().items() if word == "refused"}
    assert bounded == {kind.__name__ for kind in BEYOND}


@pytest.mark.parametrize("kind", BEYOND, ids=lambda kind: kind.__name__)
def test_what_is_beyond_a_bound_is_refused_when_it_is_stated(kind: type) -> None:
    """Before a table is seen, so that previews, rehearsals and releases all stop there."""
    with pytest.raises(tdp.InfeasibleSamplingError, match=r"`\w+`") as refusal:
        BEYOND[kind]()
    assert re.search(r"take|name|release|fewer|smaller|leave", str(refusal.value), re.IGNORECASE)
