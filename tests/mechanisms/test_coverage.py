"""The gate: noise is drawn only if it covers, entry by entry, what rows do to the statistic."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.class_moments import ClassMoments
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.public_rows import independent_images
from tightdp.data.regression_moments import RegressionMoments
from tightdp.data.statistics import Products
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import NormBall
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.shaping.class_noise import BodyNoise
from tightdp.shaping.moment_noise import Part

FACTS = {
    "sex": tdp.Category(["f", "m"], other="f"),
    "job": tdp.Category(["a", "b"], other="a"),
    "hiv": tdp.Category(["pos", "neg", "unknown"], other="pos"),
    "age": tdp.Interval(0, 100),
    "pay": tdp.Interval(-1, 1),
}
RELATIONS = ["replace-one", "add-remove"]
ORDERS = list(permutations(["sex:job", "hiv", "sex", "age"]))


def schema(neighbors: str = "replace-one", **options: Any) -> tdp.Schema:
    return tdp.Schema(FACTS, rows=1000, neighbors=neighbors, **options)


def in_the_order_of_the_caller(self: Products) -> list[NormBall]:
    """The fault: factors stand as terms were given, entries as the space names them."""
    spaces = [
        SensitivitySpace.of(self._domain, [":".join(t)], neighbors=self.schema.neighbors)
        for t in self._factors
    ]
    return [Product([space.hull() for space in spaces])]


# --- the noise of "best" stands at its entries ------------------------------------------------


def test_the_noise_of_every_marginal_adds_up_to_nothing(seed: int) -> None:
    """The total is public: so is the sum of every marginal, and nothing else is exact."""
    counts = tdp.Counts(schema(), ["sex:job", "hiv", "sex"])
    mechanism = tdp.AdditiveMechanism(counts, noise="best", epsilon=0.01)
    z = np.asarray(mechanism.noise.sample(40, rng=seed))
    for column in ("sex:job", "hiv", "sex"):
        first = column.split(":", maxsplit=1)[0]
        mine = [j for j, n in enumerate(counts.names) if n.startswith(f"{first}[")]
        mine = [j for j in mine if (":" in counts.names[j]) == (":" in column)]
        assert (z[:, mine].sum(axis=1) == 0).all()
    # what gave one person away: three entries of two marginals
    odd = [counts.names.index(n) for n in ("sex[f]", "sex[m]", "hiv[pos]")]
    assert (z[:, odd].sum(axis=1) != 0).mean() > 0.9


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("terms", ORDERS, ids=",".join)
def test_every_order_of_terms_is_certified(
    terms: tuple[str, ...], neighbors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statistic = Products(schema(neighbors), terms)
    mechanism = tdp.AdditiveMechanism(statistic, noise="best", epsilon=1.0)
    assert mechanism.certified == "exact"
    (ball,) = statistic.outer_balls()
    monkeypatch.setattr("tightdp.shaping.ball_noise.BallNoise._shape", lambda self, noise: ball)
    assert tdp.AdditiveMechanism(statistic, noise="best", epsilon=1.0).certified == "exact"


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(
    "terms",
    [["sex:job", "hiv", "sex"], ["pay", "sex:hiv", "age", "hiv"], ["sex:hiv", "pay", "hiv"]],
)
def test_the_old_order_does_not_pass(
    terms: list[str], neighbors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the product of hulls in the order of the terms."""
    monkeypatch.setattr(Products, "outer_balls", in_the_order_of_the_caller)
    statistic = Products(schema(neighbors), terms)
    (ball,) = statistic.outer_balls()
    monkeypatch.setattr("tightdp.shaping.ball_noise.BallNoise._shape", lambda self, noise: ball)
    with pytest.raises(UncoveredMoveError, match="Nothing was spent"):
        tdp.AdditiveMechanism(statistic, noise="best", epsilon=1.0)


# --- every shape passes the gate, and no other order of its entries ---------------------------


class Shuffled(tdp.Products):
    """The same sums, measured in another order than the sensitivity space names them."""

    order: list[int]

    def contributions(self, block: Any, bits: int) -> Any:
        return super().contributions(block, bits)[self.order]


@pytest.mark.parametrize(
    ("neighbors", "noise"),
    [
        ("replace-one", "hull"),
        ("replace-one", "best"),
        ("replace-one", "laplace"),
        ("replace-one", "staircase"),
        ("add-remove", "hull"),
        ("add-remove", "best"),
    ],
)
def test_measuring_in_another_order_does_not_pass(noise: str, neighbors: str) -> None:
    """Planted: two entries of unlike reach change places between the shape and the data."""
    statistic = Shuffled(schema(neighbors), ["hiv", "age"])
    statistic.order = [0, 1, 2, 3]
    assert tdp.AdditiveMechanism(statistic, noise=noise, epsilon=1.0).certified == "exact"
    statistic.order = [3, 1, 2, 0]
    with pytest.raises(UncoveredMoveError):
        tdp.AdditiveMechanism(statistic, noise=noise, epsilon=1.0)
    # a shape that is the same in every order covers both
    assert tdp.AdditiveMechanism(statistic, noise="l1", epsilon=1.0).certified


def test_a_ball_of_the_users_is_certified_by_the_data_path() -> None:
    sums = tdp.Sums(schema(), ["age", "pay"])
    good = tdp.AdditiveMechanism(sums, noise=tdp.LpBall(2, np.inf, [2.0, 3.0]), epsilon=1.0)
    assert good.certified == "exact"
    with pytest.raises(ParameterError, match="proved to contain"):
        tdp.AdditiveMechanism(sums, noise=tdp.LpBall(2, np.inf, [2.0, 1.9]), epsilon=1.0)


@pytest.mark.parametrize("cut", [0.8, 0.999])
def test_noise_for_smaller_moves_does_not_pass(cut: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a ball that is a little too small, on every kind of lattice."""
    for statistic in (
        tdp.Sums(schema(), ["age", "pay"]),
        SumsAndSquares(schema(), ["age", "pay"]),
        SumsAndRows(schema("add-remove"), ["age"]),
        tdp.Moments(schema(), ["age"], "pay"),
    ):
        ball = statistic.sensitivity_space().hull().scaled(cut)
        monkeypatch.setattr(
            "tightdp.shaping.ball_noise.BallNoise._shape", lambda self, noise, b=ball: b
        )
        with pytest.raises(UncoveredMoveError):
            tdp.AdditiveMechanism(statistic, noise="best", epsilon=1.0)


def test_laws_for_smaller_moves_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from tightdp.shaping.coordinate_noise import CoordinateNoise

    steps = CoordinateNoise._steps
    for statistic in (tdp.Sums(schema(), ["age", "pay"]), SumsAndSquares(schema(), ["pay"])):
        for j in range(2):  # one entry at a time
            with monkeypatch.context() as planted:
                planted.setattr(
                    CoordinateNoise,
                    "_steps",
                    lambda self, j=j: [s - (i == j) for i, s in enumerate(steps(self))],
                )
                with pytest.raises(UncoveredMoveError, match=statistic.names[j][:3].strip("2*")):
                    tdp.AdditiveMechanism(statistic, noise="laplace", epsilon=1.0)


def test_too_few_entries_paid_for_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tdp.Counts, "touched", lambda self: 1)
    with pytest.raises(UncoveredMoveError):
        tdp.AdditiveMechanism(tdp.Counts(schema(), ["hiv"]), noise="laplace", epsilon=1.0)


# --- classes, splits, planes, persons ---------------------------------------------------------


def test_moments_within_classes_pass_in_their_order_only(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = ClassMoments(schema(), ["age", "pay", "job"], "hiv")
    budget: dict[str, Any] = {"epsilon": 1.0}
    for noise, delta in (("hull", 0), ("laplace", 0), ("gaussian", 1e-6), ("tulap", 1e-6)):
        mechanism = ClassMechanism(moments, noise=noise, delta=delta, **budget)
        assert mechanism.certified == "by structure"
    measure = ClassMoments.contributions
    width = moments.layout.width

    def shuffled(self: ClassMoments, block: Any, bits: int) -> Any:
        # the count, which must be as large as the sums, and the first sum change places
        order = np.arange(len(self))
        order[[0, 1]] = order[[1, 0]]
        return measure(self, block, bits)[order]

    assert width == 6
    monkeypatch.setattr(ClassMoments, "contributions", shuffled)
    with pytest.raises(UncoveredMoveError):
        ClassMechanism(moments, noise="hull", **budget)
    monkeypatch.undo()
    level = BodyNoise.__init__

    def smaller(self: BodyNoise, *given: Any) -> None:
        level(self, *given)
        self.noise.sensitivity -= 1

    monkeypatch.setattr(BodyNoise, "__init__", smaller)
    with pytest.raises(UncoveredMoveError):
        ClassMechanism(moments, noise="hull", **budget)


def test_counts_within_classes_are_certified_in_full() -> None:
    moments = ClassMoments(schema(), ["sex", "job"], "hiv")
    for noise, delta in (("hull", 0), ("laplace", 0), ("gaussian", 1e-6)):
        assert ClassMechanism(moments, noise=noise, epsilon=1.0, delta=delta).certified == "exact"


def test_parts_stand_where_their_entries_stand() -> None:
    moments = RegressionMoments(schema(), ["age", "sex"], "pay")
    share = Fraction(1, len(moments.parts))
    given = [Part(name, moments.ball(name), share) for name in moments.parts]
    assert SplitMechanism(moments, given, epsilon=1).certified == "by structure"
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, given[::-1], epsilon=1)


@pytest.mark.parametrize("ball", ["l1", "l2", "linf"])
def test_designs_in_the_plane_cover_their_statistic(ball: str) -> None:
    design = tdp.design_planar_noise(epsilon=1.0, delta=0.2, ball=ball, resolution=1)
    for statistic in (tdp.Sums(schema(), ["age", "pay"]), tdp.Counts(schema(), ["sex"])):
        mechanism = tdp.AdditiveMechanism(statistic, noise=design)
        assert mechanism.certified == "exact"
        noise = mechanism._choice
        far = np.array([[design.resolution * noise.draws.points, 0]])
        assert noise.covers(far).all()
        assert not noise.covers(far + 1).any()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("noise", ["hull", "l1", "l2", "laplace"])
def test_persons_with_several_rows(noise: str, rows: int) -> None:
    by_person = schema("add-remove", person="who", rows_per_person=rows)
    mechanism = tdp.AdditiveMechanism(tdp.Counts(by_person, ["hiv"]), noise=noise, epsilon=1.0)
    assert mechanism.certified == "exact"
    if noise == "laplace":
        assert min(law.sensitivity for law in mechanism.noise.laws) >= rows
    else:
        assert mechanism.noise.sensitivity >= rows * mechanism.noise.body.level([[1, 0, 0]])[0]


def test_images_are_measured_block_by_block() -> None:
    statistic = Products(schema(), ["age", "sex:job", "hiv", "pay:sex"])
    blocks = independent_images(statistic, bits=3)
    assert sorted(int(j) for b in blocks for j in b.entries) == list(range(len(statistic)))
    assert [len(b.values) for b in blocks] == [2, 8, 3]  # as their columns first appear
    assert all(b.complete for b in blocks)
    squares = independent_images(SumsAndSquares(schema(), ["age", "pay"]), bits=3)
    assert not any(b.complete for b in squares)
