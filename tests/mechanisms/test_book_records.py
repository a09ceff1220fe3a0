"""Books of tables and their tables as texts: what is read back is what was written."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.release import Release
from tightdp.table_books import BookTable, TableBook

COLUMNS = {
    "sex": tdp.Category(["f", "m"], other="f"),
    "k": tdp.Category(["a", "b", "c"], other="a"),
    "pay": tdp.Interval(0, 100),
    "born": tdp.Date("2000-01-01", "2000-12-31"),
}
ROWS = {
    "sex": ["f", "m"] * 30,
    "k": ["a", "a", "b"] * 20,
    "pay": list(range(60)),
    "born": ["2000-03-01", "2000-09-01"] * 30,
}
BOOKS: dict[str, dict[str, Any]] = {
    "plain": {"tables": 2},
    "suppress": {"tables": [["sex"], ["k", "sex"]], "suppress": 0.3},
    "whole": {"tables": 2, "whole": True},
    "suppress, whole": {"tables": 2, "whole": True, "suppress": 0.1},
    "targets": {"tables": [["sex"], ["k"]], "targets": [2, 5]},
    "weights": {"tables": [["sex"], ["k"]], "weights": [1, 9]},
    "public": {"tables": [["sex", "k"]], "public": {"sex": [30, 30]}},
    "means and sums": {
        "tables": [["sex"]],
        "means": [("pay", "k")],
        "sums": [("pay", "sex")],
        "suppress": 0.5,
    },
    "bins and dates": {"tables": [["k", ("pay", 3)], [("born", "quarter"), "sex"]]},
    "gaussian": {"tables": 2, "epsilon": 1, "delta": 1e-6, "noise": "gaussian"},
    "rho": {"tables": 2, "epsilon": None, "rho": 0.1, "suppress": 2},
}


def made(name: str, neighbors: str) -> TableBook:
    options = {"epsilon": 1} | BOOKS[name]
    schema = tdp.Schema(COLUMNS, 60, neighbors=neighbors)
    found = tdp.Tables(schema, options.pop("tables"), **options).release(ROWS, rng=1)
    assert isinstance(found, TableBook)
    return found


def assert_same(one: Release, other: Release) -> None:
    assert type(one) is type(other)
    for field in type(one).__dataclass_fields__:
        first, second = getattr(one, field), getattr(other, field)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
        else:
            assert first == second, field
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", BOOKS)
def test_a_book_comes_back_from_its_text(name: str, neighbors: str) -> None:
    if (name, neighbors) == ("public", "add-remove"):
        pytest.skip("public counts say how many rows there are")
    book = made(name, neighbors)
    text = book.to_json()
    assert_same(book, Release.from_json(text))
    assert_same(book, TableBook.from_json(text))
    for axes in book.contents:
        for every in (True, False):
            table = book.table(*(side for side, _ in axes), simultaneous=every)
            assert_same(table, Release.from_json(table.to_json()))
            assert_same(table, BookTable.from_json(table.to_json()))


def test_the_text_keeps_what_is_not_printed() -> None:
    book = made("suppress", "replace-one")
    again = Release.from_json(book.to_json())
    assert book.hidden.any()
    np.testing.assert_array_equal(again.hidden, book.hidden)
    assert "each cell for itself" in str(
        Release.from_json(book.table("k", "sex", simultaneous=False).to_json())
    )


def test_texts_of_other_forms_are_refused() -> None:
    book = made("plain", "replace-one")
    with pytest.raises(ParameterError, match="record of a TableBook, not of a BookTable"):
        BookTable.from_json(book.to_json())
    plain = book.to_dict()
    for key in ("form", "contents", "alone", "suppress", "given"):
        del plain[key]
    with pytest.raises(ParameterError, match="record of a Release, not of a TableBook"):
        TableBook.from_dict(plain)
    assert type(Release.from_dict(plain)) is Release
    with pytest.raises(ParameterError, match="newer version"):
        Release.from_dict(book.to_dict() | {"form": "Atlas"})


@pytest.mark.parametrize(
    "change",
    [
        {"contents": []},
        {"contents": [[["sex", ["f", "m"]]]]},
        {"contents": 3},
        {"alone": [[0, 1]]},
        {"alone": "x"},
        {"suppress": "much"},
        {"suppress": -1},
        {"given": None, "alone": None},
        {"given": None},
        {"noise": ["laplace"]},
        {"resolution": 0},
        {"unknown": "sex"},
    ],
)
def test_damaged_books_are_refused(change: dict[str, Any]) -> None:
    record = json.loads(made("plain", "replace-one").to_json()) | change
    with pytest.raises(ParameterError):
        Release.from_dict(record)


@pytest.mark.parametrize("engine", ["pandas", "polars"])
def test_frames_may_be_crossed(engine: str) -> None:
    book = made("suppress", "replace-one")
    table = book.table("k", "sex")
    frame = getattr(table, f"to_{engine}")(crosswise=True)
    expected = np.where(table.hidden, np.nan, table.value).reshape(3, 2)
    if engine == "pandas":
        assert (frame.index.name, frame.columns.name) == ("k", "sex")
        assert (list(frame.index), list(frame.columns)) == (["a", "b", "c"], ["f", "m"])
        found = frame.to_numpy()
    else:
        assert frame.columns == ["k", "sex=f", "sex=m"]
        assert frame["k"].to_list() == ["a", "b", "c"]
        found = frame.drop("k").to_numpy()
    np.testing.assert_array_equal(found, expected)
    for release in (book, book.table("sex")):
        with pytest.raises(ParameterError, match="two columns or more"):
            getattr(release, f"to_{engine}")(crosswise=True)
    with pytest.raises(ParameterError, match="crosswise"):
        getattr(table, f"to_{engine}")(crosswise=1)


def test_a_crossed_frame_of_groups_has_all_sides() -> None:
    schema = tdp.Schema(COLUMNS, 60)
    found = tdp.mean(ROWS, "pay", by=["sex", ("born", "quarter")], schema=schema, epsilon=1)
    frame = found.to_pandas(crosswise=True)
    assert (list(frame.index.names), frame.columns.name) == (["sex", "born"], "measure")
    assert list(frame.columns) == ["rows", "pay"]
    np.testing.assert_array_equal(frame.to_numpy().ravel(), found.value)
    assert found.to_polars(crosswise=True).columns == ["sex", "born", "rows", "pay"]


@pytest.mark.parametrize(
    "change",
    [
        {"axes": []},
        {"axes": [["k", [None, "b", "c"]], ["sex", ["f", "m"]]]},
        {"axes": [["k", ["a", "b", "c"]], ["sex", [[], "m"]]]},
        {"axes": [[None, ["a", "b", "c"]], ["sex", ["f", "m"]]]},
        {"axes": [["k", "abc"], ["sex", ["f", "m"]]]},
    ],
)
def test_damaged_tables_of_a_book_are_refused_when_read_not_when_printed(
    change: dict[str, Any],
) -> None:
    record = json.loads(made("plain", "replace-one").table("k", "sex").to_json())
    with pytest.raises(ParameterError, match="damaged"):
        Release.from_dict(record | change)


def _but_one(contents: list[Any]) -> list[Any]:
    """The contents with a cell less: a table without sides has room for one."""
    (name, labels), *others = contents[0]
    assert not others
    return [[[name, labels[1:]]], *contents[1:]]


def test_a_book_keeps_its_sides_and_its_mark_of_a_seed() -> None:
    record = json.loads(made("plain", "replace-one").to_json())
    assert record["guarantee"]["seeded"] is True
    for hurt in (
        {"contents": [[], *_but_one(record["contents"])]},
        {"contents": [[[0, labels] for _, labels in axes] for axes in record["contents"]]},
        {"guarantee": record["guarantee"] | {"seeded": None}},
    ):
        with pytest.raises(ParameterError, match="damaged"):
            Release.from_dict(record | hurt)
