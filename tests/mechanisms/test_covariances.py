"""Covariances: every neighbour lies in the body of the noise, and what is read off it is right."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data import second_moments
from tightdp.data.blocks import Block
from tightdp.data.second_moments import LAYOUTS, SecondMoments, shortened
from tightdp.errors import InfeasibleSamplingError, ParameterError, UncoveredMoveError
from tightdp.mechanisms.covariances import CovarianceMechanism, nearest_covariance
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.noise.nuclear import NuclearNoise
from tightdp.shaping.second_moment_noise import body_of

ADD, REPLACE = "add-remove", "replace-one"


def facts(width, relation=REPLACE, rows=500, **more):
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(width)}
    return tdp.Schema(columns, rows, neighbors=relation, **more)


def all_rows(width, bits):
    top = 1 << bits
    return np.array(list(itertools.product(range(-top, top + 1), repeat=width)))


def images(moments, cells):
    bits = moments.schema.bits
    return np.array(
        [
            moments.contributions(Block.of_columns(moments.columns, row[:, None] * 1.0), bits)
            for row in cells
        ]
    )


# --- every neighbour ----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("width", "bits", "norm"), [(2, 2, 1), (2, 2, None), (3, 1, 1.25)])
def test_all_moves_of_all_rows_are_in_the_body(layout, sums, relation, width, bits, norm):
    """Brute force over all integer rows, by norms that are written out here."""
    moments = SecondMoments(facts(width, relation, bits=bits), norm=norm, sums=sums, layout=layout)
    mechanism = SplitMechanism(moments, body_of(moments).parts, epsilon=1)
    points = images(moments, all_rows(width, bits))
    first, second = np.triu_indices(len(points), 1)
    moves = points if relation == ADD else points[first] - points[second]
    for part, noise in zip(mechanism.parts, mechanism.noises, strict=True):
        own = moves[:, moments.where(part.name)]
        if isinstance(noise, NuclearNoise):
            i, j, _ = np.array(noise.entries).T
            D = np.zeros((len(own), noise.ball.size, noise.ball.size))
            D[:, i, j] = D[:, j, i] = own * (noise.ball.weights[i] * noise.ball.weights[j])
            value = np.linalg.eigvalsh(D)
            norms = np.abs(value).sum(axis=1)
            if relation == REPLACE:
                norms = 2 * np.maximum(np.maximum(value, 0).sum(1), -np.minimum(value, 0).sum(1))
            most = norms.max() / float(noise.sensitivity)
        elif layout in ("round", "apart"):
            most = np.sqrt((own.astype(float) ** 2).sum(axis=1)).max() / float(noise.sensitivity)
        else:
            most = noise.body.level(own).max() / noise.sensitivity
        assert most <= 1 + 1e-12
        assert most > 0.7  # and the body is not larger than it must be on so coarse a grid


@pytest.mark.parametrize("bits", [1, 4, 16, 26])
@pytest.mark.parametrize("norm", [Fraction(1, 2), 1, Fraction(10, 7)])
def test_shortened_rows_obey_in_integers(bits, norm, seed):
    rng, top = np.random.default_rng(seed), 1 << bits
    cells = rng.integers(-top, top + 1, (5, 400))
    cells[:, :50] = top * rng.choice([-1, 1], (5, 50))
    longest = int(norm**2 * top**2)
    found = shortened(cells.astype(float), longest)
    squares = [sum(int(g) ** 2 for g in row) for row in found.T]
    assert max(squares) <= longest
    for before, after, square in zip(cells.T, found.T, squares, strict=True):
        length = sum(int(g) ** 2 for g in before)
        if length <= longest:
            assert before.tolist() == after.tolist()
        else:  # in the same direction, and hardly shorter than it may be
            assert np.abs(after - before * float(Fraction(longest, length)) ** 0.5).max() <= 1.01
            assert square**0.5 >= longest**0.5 - 5**0.5 - 1


def test_a_row_is_shortened_from_itself_alone(seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(-64, 65, (3, 50)).astype(float)
    whole = shortened(cells, 64**2)
    alone = [shortened(cells[:, [i]], 64**2)[:, 0] for i in range(50)]
    assert np.array_equal(whole.T, alone)


def test_sums_are_exact_at_the_ends_of_facts(seed):
    """The finest grid, and factors that 64 bits would not hold over many rows."""
    rng = np.random.default_rng(seed)
    moments = SecondMoments(facts(3, ADD, bits=26), norm=1.5, layout="round")
    X = rng.choice([-1.0, 1.0, 0.3], (3000, 3))
    found = moments.measure({f"x{j}": X[:, j] for j in range(3)})
    cells = shortened(np.rint(X.T * 2**26), moments.longest(moments.grid(26)))
    whole = np.vstack([np.full((1, 3000), 2**26), cells]).astype(np.int64).astype(object)
    gram = whole @ whole.T
    assert found == [int(gram[i, j]) * int(f) for i, j, f in moments.entries]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_a_row_that_is_not_shortened_is_caught(layout, relation, monkeypatch):
    moments = SecondMoments(facts(3, relation), norm=1, layout=layout)
    parts = body_of(moments).parts
    SplitMechanism(moments, parts, epsilon=1)
    monkeypatch.setattr(second_moments, "shortened", lambda cells, longest: cells)
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, parts, epsilon=1)


def test_a_factor_that_is_not_the_root_of_two_is_caught(monkeypatch):
    """Products that count twice in the norm of the entries, and once in the bound."""
    monkeypatch.setattr(second_moments, "PAIR", 2 * second_moments.SQUARE)
    moments = SecondMoments(facts(3, ADD), norm=1, sums=False, layout="round")
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, body_of(moments).parts, epsilon=1)


def test_half_of_the_reach_of_replaced_rows_is_caught():
    moments = SecondMoments(facts(3, REPLACE), norm=1, sums=False)
    (part,) = body_of(moments).parts
    short = type(part)(part.name, part.ball, part.share, part.reach / 2, part.entries)
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, [short], epsilon=1)


def test_persons_with_several_rows_pay_for_all_of_them():
    one = CovarianceMechanism(facts(3, ADD), norm=1, epsilon=1)
    many = facts(3, ADD, person="who", rows_per_person=4)
    four = CovarianceMechanism(many, norm=1, epsilon=1)
    assert four.moments.noises[0].sensitivity == 4 * one.moments.noises[0].sensitivity
    assert np.allclose(four.moments.covariance, 16 * one.moments.covariance)


# --- what is read off ---------------------------------------------------------------------------


def correlated(rng, n, width):
    X = rng.normal(0, 0.25, (n, width)) + 0.1
    X[:, 0] += 0.5 * X[:, -1]
    return X


def shortened_table(X, norm):
    X = np.clip(X, -1, 1)
    return X * np.minimum(1, norm / np.maximum(np.linalg.norm(X, axis=1), 1e-9))[:, None]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("options", [{}, {"assume_centered": True}, {"noise": "l2"}])
def test_with_next_to_no_noise_it_is_the_covariance(relation, options, seed):
    X = correlated(np.random.default_rng(seed), 500, 3)
    mechanism = CovarianceMechanism(facts(3, relation), norm=1, epsilon=1000, **options)
    table = {f"x{j}": X[:, j] for j in range(3)}
    found = mechanism.fit(mechanism.release(table, rng=seed))
    short = shortened_table(X, 1)
    mean = 0 * short.mean(axis=0) if "assume_centered" in options else short.mean(axis=0)
    exact = (short - mean).T @ (short - mean) / 500
    location, covariance = found.in_user_units
    assert location == pytest.approx(mean, abs=3e-3)
    assert covariance == pytest.approx(exact, abs=3e-3)


def test_units_are_those_of_the_columns(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(20, 60, 400), rng.uniform(-3, -1, 400)])
    schema = tdp.Schema({"a": tdp.Interval(0, 100), "b": tdp.Interval(-4, 0)}, rows=400)
    mechanism = CovarianceMechanism(schema, epsilon=1000)
    answer = mechanism.answer(mechanism.release({"a": X[:, 0], "b": X[:, 1]}, rng=1))
    exact = np.cov(X.T, bias=True)
    assert answer.names == ("mean(a)", "mean(b)", "cov(a, a)", "cov(a, b)", "cov(b, b)")
    wanted = [*X.mean(axis=0), exact[0, 0], exact[0, 1], exact[1, 1]]
    assert answer.value == pytest.approx(wanted, abs=0.5)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_rows_with_missing_cells_are_left_out(relation, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (300, 2))
    there = rng.random(300) < 0.8
    table = {"x0": X[:, 0], "x1": np.where(there, X[:, 1], np.nan)}
    schema = facts(2, relation, rows=300)
    mechanism = CovarianceMechanism(schema, norm=1, epsilon=1000, missing="drop")
    found = mechanism.fit(mechanism.release(table, rng=seed))
    assert found.rows == pytest.approx(there.sum(), abs=1)
    assert found.covariance == pytest.approx(np.cov(X[there].T, bias=True), abs=0.01)


def test_the_nearest_covariance(seed):
    """Positive, of a trace that can be, and no other such matrix is nearer."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        raw = rng.normal(size=(4, 4))
        raw = raw + raw.T
        found = nearest_covariance(raw, 1.5)
        assert np.linalg.eigvalsh(found).min() >= -1e-12
        assert np.trace(found) <= 1.5 + 1e-12
        for _ in range(20):
            T = rng.normal(size=(4, 4))
            other = T @ T.T * rng.uniform(0, 1.5) / np.trace(T @ T.T)
            # the condition of a projection onto a convex set
            assert np.sum((raw - found) * (other - found)) <= 1e-9
    far = nearest_covariance(np.diag([1e17, 1e3, -1e17]), 1.0)  # no double is 1 below 1e17
    assert far == pytest.approx(np.zeros((3, 3)), abs=1.0)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_intervals_cover_all_at_once(relation, seed):
    """20 releases at 80 %: fewer than 8 that hold have a chance below 1e-4."""
    rng = np.random.default_rng(seed)
    X = correlated(rng, 400, 2)
    table = {f"x{j}": X[:, j] for j in range(2)}
    schema = facts(2, relation, rows=400)
    mechanism = CovarianceMechanism(schema, norm=1, epsilon=0.5)
    short = shortened_table(X, 1)
    exact = np.cov(short.T, bias=True)
    truth = np.array([*short.mean(axis=0), exact[0, 0], exact[0, 1], exact[1, 1]])
    held = 0
    for i in range(20):
        answer = mechanism.answer(mechanism.release(table, rng=seed + i, confidence=0.8))
        low, high = answer.interval.T
        assert ((low <= answer.value) & (answer.value <= high)).all()
        held += bool(((low <= truth + 1e-4) & (truth - 1e-4 <= high)).all())
    assert held >= 8


def test_the_body_and_its_cost_are_said():
    narrow = CovarianceMechanism(facts(5, ADD), norm=1, epsilon=1, assume_centered=True)
    assert "nuclear ball of 5 x 5 matrices" in narrow.bodies
    assert "the hull of what rows do" in narrow.bodies
    assert narrow.bodies in narrow.preview().note
    assert "nuclear norm" in narrow.law
    wide = CovarianceMechanism(facts(33, ADD), norm=1, epsilon=1)
    assert "l2 ball" in wide.bodies
    assert "not drawn for more than 32 columns" in wide.bodies
    cost = float(wide.bodies.split("; ")[-1].split(" ")[0])
    assert 18 < cost < 28  # the Frobenius ball has so much more energy than the hull
    most = CovarianceMechanism(facts(31, ADD), norm=1, epsilon=1)
    assert "nuclear ball of 32 x 32 matrices" in most.bodies
    assert float(most.bodies.split("; ")[-1].split(" ")[0]) < 1.5


def test_best_is_no_worse_than_any_other():
    for width, norm in ((1, None), (3, 1)):
        for relation in (ADD, REPLACE):
            schema = facts(width, relation)
            best = CovarianceMechanism(schema, norm=norm, epsilon=1)
            for noise in ("nuclear", "l2", "columns"):
                if noise == "columns" and norm is not None:
                    continue  # far larger for rows that are shortened, and slow to measure
                other = CovarianceMechanism(schema, norm=norm, epsilon=1, noise=noise)
                own, its = (m.preview().std[-1] for m in (best, other))
                assert own <= 1.3 * its, (width, relation, noise)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": 0}, "`norm`"),
        ({"norm": -1}, "`norm`"),
        ({"norm": float("nan")}, "`norm`"),
        ({"norm": 1e-9}, "`norm`"),
        ({"norm": "1"}, "`norm`"),
        ({"noise": "hull"}, "`noise`"),
        ({"assume_centered": 1}, "`assume_centered`"),
        ({"missing": "no"}, "`missing`"),
        ({"columns": ["x0", "x0"]}, "`columns`"),
        ({"columns": []}, "`columns`"),
        ({"epsilon": 0}, "`epsilon`"),
    ],
)
def test_bad_facts_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        CovarianceMechanism(facts(3), **({"epsilon": 1} | options))


def test_too_many_columns_are_refused_before_payment():
    with pytest.raises(ParameterError, match="at most 40"):
        CovarianceMechanism(facts(41), norm=1, epsilon=1)
    with pytest.raises(InfeasibleSamplingError, match="32 rows"):
        CovarianceMechanism(facts(33), norm=1, epsilon=1, noise="nuclear")


def test_a_plan_releases_a_covariance():
    from tightdp.plans import request

    asked = request("covariance", facts(2), epsilon=1, columns=["x0", "x1"], norm=1)
    X = np.random.default_rng(1).uniform(-0.5, 0.5, (500, 2))
    assert len(asked.values({"x0": X[:, 0], "x1": X[:, 1]}, rng=1)) == 5
