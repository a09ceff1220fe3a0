"""Law: no text that a file cannot take gets into a release, so that every export can write it.

Half of a surrogate pair is such a text. Public facts that hold one are refused where they are
stated, and records where they are read; what is released is then written by every export.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tightdp as tdp

HALF = "x\udcff"
X, K = tdp.Interval(0, 1), tdp.Category(["a", "b"])
FACTS = tdp.Schema({"x": X, "k": K, "d": tdp.Date("2024-01-01", "2024-12-31")}, rows=4)
ROWS = {"x": [0.1, 0.2, 0.3, 0.4], "k": list("abab"), "d": ["2024-02-03"] * 4}
KEYS = tdp.Schema({"x": X}, rows=3000, neighbors="add-remove")
MANY = {"k": ["a"] * 1000 + [HALF] * 2000, "x": [0.5] * 3000}

STATED: dict[str, Callable[[str], object]] = {
    "a column": lambda text: tdp.Schema({text: X}, rows=4),
    "a level": lambda text: tdp.Category(["a", text]),
    "what stands for others": lambda text: tdp.Category(["a", "b"], missing=text),
    "a person": lambda text: tdp.Schema({"x": X}, rows=4, person=text),
    "a column of keys": lambda text: tdp.PrivateKeys(KEYS, text, epsilon=1, delta=1e-6),
    "a column without bounds": lambda text: tdp.find_bounds({text: [1]}, text, epsilon=1, rows=1),
    "a feature": lambda text: tdp.LinearRegression(epsilon=1, bounds=(0, 1)).fit({text: [1]}, [1]),
    "a class": lambda text: tdp.GaussianNB(epsilon=1, bounds=(0, 1), classes=["a", text]).fit(
        [[0.1], [0.2]], ["a", "a"]
    ),
    "a key of the ledger": lambda text: tdp.Ledger(1).spend(0.1, key=text),
    "a label of the ledger": lambda text: tdp.Ledger(1).spend(0.1, label=text),
}


@pytest.mark.parametrize("where", STATED)
def test_a_text_that_no_file_can_take_is_refused_where_it_is_stated(where: str) -> None:
    with pytest.raises(tdp.ParameterError):
        STATED[where](HALF)


RELEASED: dict[str, Callable[[], tdp.Release]] = {
    "mean": lambda: tdp.mean(ROWS, "x", by="k", schema=FACTS, epsilon=1),
    "date": lambda: tdp.median(ROWS, "d", schema=FACTS, epsilon=1),
    "book": lambda: tdp.Tables(FACTS, [["k"]], means=[("x", ["k"])], epsilon=1).release(ROWS),
    "keys": lambda: tdp.count(MANY, by="k", keys="private", schema=KEYS, epsilon=1, delta=1e-6),
}


@cache
def released(name: str) -> tdp.Release:
    return RELEASED[name]()


def write_all(release: tdp.Release, folder: Path) -> None:
    """Everything that a person can make of a release, as bytes in a file."""
    for number, text in enumerate([str(release), repr(release), release._repr_html_()]):
        (folder / f"{number}.txt").write_bytes(text.encode())
    (folder / "json").write_bytes(release.to_json().encode())
    release.to_pandas().to_csv(folder / "pandas.csv")
    release.to_polars().write_csv(folder / "polars.csv")
    report = tdp.Report.of(release)
    for name in ("report.html", "report.md"):
        report.save(folder / name)


@pytest.mark.parametrize("name", RELEASED)
def test_every_export_writes_every_release(name: str, tmp_path: Path) -> None:
    write_all(released(name), tmp_path)


def places(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a record has texts."""
    inside = (
        record.items()
        if isinstance(record, dict)
        else enumerate(record)
        if isinstance(record, list)
        else ()
    )
    for key, value in inside:
        if isinstance(value, str):
            yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("name", RELEASED)
def test_records_with_such_a_text_are_refused_or_written(name: str, tmp_path: Path) -> None:
    """Wherever the text stands in the record."""
    text = released(name).to_json()
    refused = 0
    for *path, last in places(json.loads(text)):
        record = json.loads(text)
        inner = record
        for key in path:
            inner = inner[key]
        inner[last] = HALF
        try:
            found = tdp.Release.from_json(json.dumps(record))
        except tdp.ParameterError:
            refused += 1
        else:
            write_all(found, tmp_path)
    assert refused >= len(released(name).names)


def test_a_release_with_such_a_name_is_noticed(tmp_path: Path) -> None:
    """The planted fault."""
    plain = tdp.mean(ROWS, "x", schema=FACTS, epsilon=1)
    with pytest.raises(UnicodeEncodeError):
        write_all(replace(plain, names=(HALF,)), tmp_path)
