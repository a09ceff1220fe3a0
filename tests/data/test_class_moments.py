"""Moments within classes: exact integers, and changes that the lemma bounds, by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.blocks import Block
from tightdp.data.class_moments import ClassMoments, RecordLayout
from tightdp.errors import ParameterError
from tightdp.shaping.class_noise import record_body

COLUMNS = {
    "x": tdp.Interval(-2, 6),
    "k": tdp.Category(["a", "b"], other="a"),
    "j": tdp.Category([1, 2, 3], other=1),
    "y": tdp.Category(["no", "yes", "perhaps"], other="no"),
}
FEATURES = ["x", "k", "j"]


def moments(neighbors: str = "replace-one", features=FEATURES, bits: int = 3) -> ClassMoments:
    columns = {name: COLUMNS[name] for name in [*features, "y"]}
    return ClassMoments(tdp.Schema(columns, rows=60, neighbors=neighbors, bits=bits), features, "y")


def one_row_images(statistic: ClassMoments, bits: int) -> np.ndarray:
    """The contribution of every row of the domain, one by one."""
    sides = []
    for name in statistic.columns:
        column = statistic.schema[name]
        numeric = isinstance(column, tdp.Interval)
        top = statistic.schema.resolution
        sides.append(range(-top, top + 1) if numeric else range(len(column.levels)))
    rows = itertools.product(*sides)
    names = statistic.columns
    return np.array(
        [
            statistic.contributions(
                Block({n: np.array([v]) for n, v in zip(names, row, strict=True)}), bits
            )
            for row in rows
        ]
    )


def test_sums_are_those_of_a_plain_loop(seed):
    statistic, rng = moments(), np.random.default_rng(seed)
    table = {
        "x": rng.uniform(-3, 7, 60),
        "k": rng.choice(["a", "b"], 60),
        "j": rng.choice([1, 2, 3], 60),
        "y": rng.choice(["no", "yes"], 60),  # a public class that nobody is in
    }
    found = np.array(statistic.measure(table, bits=3)) / 64
    cells = np.floor(np.clip((table["x"] - 2) / 4, -1, 1) * 8 + 0.5) / 8
    expected = []
    for label in ["no", "yes", "perhaps"]:
        mine = table["y"] == label
        x = cells[mine]
        expected += [mine.sum(), x.sum(), (2 * x**2 - 1).sum()]
        expected.append((table["k"][mine] == "a").sum() - (table["k"][mine] == "b").sum())
        expected += [(table["j"][mine] == level).sum() for level in (1, 2, 3)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(statistic.names) == len(expected)


@pytest.mark.parametrize("features", [["x"], ["k"], ["j"], ["x", "k", "j"]], ids="-".join)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_the_lemma_by_brute_force(features, neighbors):
    """Levels of all classes together, for every pair of rows of a small domain."""
    statistic = moments(neighbors, features, bits=2)
    images = one_row_images(statistic, 2)
    body, classes = record_body(statistic), len(statistic.classes)
    unit = statistic.resolution(2)

    def total(changes: np.ndarray) -> np.ndarray:
        return body.level(changes.reshape(-1, body.dim)).reshape(-1, classes).sum(axis=1)

    assert (total(images) == unit).all()
    if neighbors == "replace-one":
        worst = max(int(total(images - image).max()) for image in images)
        assert worst == 2 * unit  # reached, so a smaller constant would not be private


@pytest.mark.parametrize("features", [["x"], ["j"], ["x", "k", "j"]], ids="-".join)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_touched_entries_and_the_sensitivity_space(features, neighbors):
    statistic = moments(neighbors, features, bits=2)
    images = one_row_images(statistic, 2) / statistic.resolution(2)
    changes = images
    if neighbors == "replace-one":
        changes = (images[:, None] - images[None]).reshape(-1, len(statistic))
    assert int((changes != 0).sum(axis=1).max()) == statistic.touched()
    hull = statistic.sensitivity_space().hull()
    assert hull.contains(changes).all()
    assert np.abs(changes).max(axis=0).tolist() == hull.bounding_box().tolist()


def test_layouts_cover_all_entries():
    layout = RecordLayout.of(moments().schema, FEATURES, power=2)
    places = [layout.place(name) for name in FEATURES]
    covered = sorted(i for place in places for i in range(*place.indices(layout.width)))
    assert covered == list(range(1, layout.width))
    with pytest.raises(ParameterError, match="zzz"):
        layout.place("zzz")


@pytest.mark.parametrize(
    ("features", "target", "text"),
    [([], "y", "distinct"), (["x", "x"], "y", "distinct"), (["x", "y"], "y", "distinct")],
)
def test_bad_columns(features, target, text):
    with pytest.raises(ParameterError, match=text):
        ClassMoments(moments().schema, features, target)


def test_the_target_must_be_a_category():
    with pytest.raises(ParameterError, match="Category"):
        ClassMoments(moments().schema, ["k"], "x")


def test_facts_tell_targets_apart():
    """Names hold the classes; two targets with the same classes are two requests."""
    columns = {
        "x": tdp.Interval(0, 1),
        "u": tdp.Category([0, 1], other=0),
        "v": tdp.Category([0, 1], other=0),
    }
    schema = tdp.Schema(columns, rows=4)
    first, second = (ClassMoments(schema, ["x"], target) for target in "uv")
    assert first.names == second.names
    assert first.parameters != second.parameters
