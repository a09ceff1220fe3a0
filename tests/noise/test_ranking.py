"""The ranked table: the hull is never worse, disagreement is shown, the table can be read."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import DimensionError, ParameterError

S = tdp.SensitivitySpace
UNIT = tdp.Interval(-1, 1)
SPACES = {
    "example": S.sum_and_squares(),
    "histogram, replace-one": S.histogram(6),
    "histogram, add-remove": S.histogram(6, neighbors="add-remove"),
    "numeric and category": S.of(
        {"a": UNIT, "b": UNIT, "c": UNIT, "k": tdp.Category(["w", "x", "y", "z"], other="w")}
    ),
    "regression moments": S.moments(5),
}


@cache
def ranked(name: str):  # type: ignore[no-untyped-def]
    """The table of a space, which takes seconds."""
    return tdp.rank_norms(SPACES[name], 1.0)


@pytest.fixture(scope="module", params=SPACES, ids=list(SPACES))
def ranking(request: pytest.FixtureRequest) -> tdp.NormRanking:
    return ranked(request.param)


@pytest.mark.slow_for("regression moments")
def test_the_hull_is_never_worse(ranking: tdp.NormRanking) -> None:
    hull = ranking["hull"]
    assert ranking.recommendation == "hull"
    assert ranking.rows[0] is hull
    assert ranking.winner("entropy") == "hull" == ranking.winner("volume")
    for row in ranking:
        if row is not hull:
            # no candidate lies strictly inside the hull, none has less volume or entropy
            assert "hull" not in row.inside or row.name in hull.inside
            assert row.ball.rank >= hull.ball.rank
            if row.ball.rank == hull.ball.rank:
                assert row.log_volume.value >= hull.log_volume.value - 1e-9
                assert row.entropy.value >= hull.entropy.value - 1e-9


def test_exact_hulls_lie_inside_everything() -> None:
    for name in ("example", "histogram, replace-one", "numeric and category"):
        assert set(ranked(name)["hull"].inside) == {"l1", "l2", "linf"}


def test_every_candidate_contains_the_space(ranking: tdp.NormRanking) -> None:
    space = next(s for s in SPACES.values() if s.hull() is ranking["hull"].ball)
    for row in ranking:
        assert (row.ball.gauge(space.sample(2_000, rng=1)) <= 1 + 1e-9).all()
        assert tdp.certify_contains(row.ball.scaled(1 + 1e-9), space)


def test_histogram_variances_per_cell() -> None:
    """Replace-one: Laplace 8, hull 4(m-1)(2m-1)/(m(m+1)); add-remove: both 2."""
    spaces = {2: S.histogram(2), 3: S.histogram(3), 4: S.histogram(4)}
    tables = {m: tdp.rank_norms(space, 1.0) for m, space in spaces.items()}
    tables[6] = ranked("histogram, replace-one")
    for m, value in ((2, 2.0), (3, 10 / 3), (4, 4.2), (6, 110 / 21)):
        table = tables[m]
        assert table["l1"].variance.value == pytest.approx(8.0)
        assert table["hull"].variance.value == pytest.approx(value)
    added = ranked("histogram, add-remove")
    assert added["l1"].variance.value == added["hull"].variance.value == pytest.approx(2.0)
    assert "same volume" in str(added)


def test_disagreement_is_shown() -> None:
    """Volume prefers linf to l2 in Example 2.10, marginal variance prefers l2 to linf."""
    table = tdp.rank_norms(SPACES["example"], 1.0, candidates=("l1", "l2", "linf"))
    assert table.recommendation == "linf"
    assert table.winner("variance") == "l2"
    assert any("mean variance prefers l2" in note for note in table.notes)
    assert tdp.rank_norms(SPACES["example"], 1.0, ("l2", "linf"), by="variance").best.name == "l2"
    assert "the hull would be smaller" in table.reason


def test_the_cautionary_example_by_name() -> None:
    space = S.of({"x": tdp.Interval(0, 100), "y": tdp.Interval(0, 1)})
    balls = {"K": space.hull(), "H": tdp.LpBall(2, 1, [110, 11])}
    table = tdp.rank_norms(space, 1.0, balls)
    assert table.recommendation == "K"
    assert [table.winner(c) for c in ("variance", "l1", "l2", "linf")] == ["H"] * 4
    assert table["K"].inside == ("H",)
    assert table["H"].outside == ("K",)


def test_epsilon_scales_and_never_reorders() -> None:
    first, second = (tdp.rank_norms(SPACES["example"], e) for e in (1.0, 0.1))
    assert [row.name for row in first] == [row.name for row in second]
    for a, b in zip(first, second, strict=True):
        assert b.variance.value == pytest.approx(100 * a.variance.value)
        assert b.l2.value == pytest.approx(10 * a.l2.value)


def test_a_user_ball_is_scaled_to_contain_the_space() -> None:
    table = tdp.rank_norms(SPACES["example"], 1.0, [tdp.LpBall(2, 4), "hull"])
    row = table["LpBall(dim=2, p=4, radius=1)"]
    assert row.sensitivity == pytest.approx(SPACES["example"].sensitivity(p=4))
    assert not tdp.certify_contains(row.ball.scaled(0.99), SPACES["example"])


def test_table_text_html_and_dict(ranking: tdp.NormRanking) -> None:
    text = str(ranking)
    assert text.splitlines()[0].split()[:3] == ["norm", "sensitivity", "dim"]
    assert "Recommended: hull" in text
    assert ranking._repr_html_().count("<tr>") == 5
    record = json.loads(json.dumps(ranking.to_dict()))
    assert {row["name"] for row in record["rows"]} == {"l1", "l2", "linf", "hull"}
    assert record["recommendation"] == "hull"
    assert ranking.best is ranking["hull"]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tdp.rank_norms(SPACES["example"], -1.0), ParameterError, "epsilon"),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0, "l1"), ParameterError, "one string"),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0, []), DimensionError, "empty"),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0, ["l3"]), ParameterError, "'l3'"),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0, ["l1", "l1"]), ParameterError, "distinct"),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0, by="size"), ParameterError, "by"),
        (
            lambda: tdp.rank_norms(SPACES["example"], 1.0, [tdp.LpBall(3, 1)]),
            DimensionError,
            "dimension 2",
        ),
        (
            lambda: tdp.rank_norms(
                S.histogram(3, neighbors="add-remove"), 1.0, [tdp.HistogramBall(3)]
            ),
            ParameterError,
            "flat",
        ),
        (lambda: tdp.rank_norms(SPACES["example"], 1.0)["l9"], ParameterError, "'l9'"),
    ],
)
def test_bad_input(call, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        call()


def test_sensitivities_of_the_table_are_exact_where_known() -> None:
    table = ranked("regression moments")
    assert [float(table[n].sensitivity) for n in ("l1", "linf")] == [32.0, 2.0]
    assert table["l2"].sensitivity == pytest.approx(np.sqrt(48))
    assert all(table[n].sensitivity.exact for n in ("l1", "l2", "linf"))
    assert not table["hull"].sensitivity.exact
    assert "may exist" in table.reason
