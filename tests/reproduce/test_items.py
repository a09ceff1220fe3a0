"""The page of items: none of the documents' items is missing, and every name on it exists."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from reproduce.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "items.md"
TESTS = ROOT / "tests"

# What is numbered in the documents, read off them.
ITEMS = {
    "The preprint of [1]": {
        "Definition": "2.1 2.2 2.6 2.7 2.8 3.2",
        "Proposition": "2.3 2.4 2.9 2.10 2.11 3.3 4.1 4.3 4.13",
        "Remark": "2.5 3.7 4.2 4.7 4.10 4.14 4.15 6.1 6.2",
        "Example": "3.1 3.4 3.5 3.6 4.6 8.1",
        "Lemma": "4.4 4.8",
        "Theorem": "4.5 5.1",
        "Corollary": "4.9 4.11 4.12",
        "Algorithm": "1 2 3 4 5 6 7 8",
        "Figure": "1 2 3 4",
    },
    "[1]": {
        "Definition": "2.1 2.2 2.5 2.6 2.7 3.1 3.2 3.3 3.8 3.9 3.10 3.13",
        "Proposition": "2.3 2.8 2.9 3.14 3.21",
        "Remark": "2.4 3.7 5.1",
        "Example": "2.10 3.20 3.22 7.1",
        "Lemma": "3.4 3.5 3.16 3.18 7.2 7.3",
        "Theorem": "3.6 3.11 3.15 3.17 3.19 4.1",
        "Corollary": "3.12",
        "Algorithm": "1 2 3 4 5 6 7 8",
        "Figure": "1 2 3 4 5 6",
        "Table": "1",
    },
    "[3]": {
        "Definition": "2.1",
        "Proposition": "2.2",
        "Theorem": "3.1 3.2",
        "Remark": "3.3 4.1 4.2",
        "Algorithm": "1",
        "Figure": "1 2",
        "Equation": "(1) (2) (3)",
    },
    "The online appendices of [5]": {
        "Example": "1",
        "Figure": "1 2 3 4 5 6",
        "Table": "1 2",
        "Algorithm": "G.1",
        "Proposition": "G.1",
    },
}
# what has no number
NAMED = {
    "Class notes after [4]": [
        "Theorem (exponential mechanism)",
        "Example (a mean, Laplace)",
        "Example (a mean, absolute loss)",
        "Example (a mean, squared loss)",
        "Example (a histogram)",
        "Example (a density by its Kolmogorov-Smirnov distance)",
        "Theorem (rate of the sample)",
        "Theorem (power of tests)",
        "Composition",
    ],
    "The online appendices of [5]": ["Comment on Theorem 2"],
}


def expected() -> dict[str, set[str]]:
    found = {name: set(items) for name, items in NAMED.items()}
    for name, kinds in ITEMS.items():
        numbered = {f"{kind} {n}" for kind, numbers in kinds.items() for n in numbers.split()}
        found[name] = found.get(name, set()) | numbered
    return found


def listed(page: str) -> dict[str, list[list[str]]]:
    """Rows of the tables of items, by the heading above them."""
    out: dict[str, list[list[str]]] = {}
    for part in page.split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        table = [line for line in text.splitlines() if line.startswith("| ")]
        if table and table[0].startswith("| item |"):
            out[heading] = [
                [cell.strip() for cell in line.strip("| ").split(" | ")] for line in table[1:]
            ]
    return out


def complaints(page: str) -> list[str]:
    """What is missing, empty, named twice, or does not exist."""
    tables, out = listed(page), []
    for heading, items in expected().items():
        rows = tables.get(heading, [])
        names = [row[0] for row in rows]
        out += [f"{heading}: {item} is missing" for item in sorted(items - set(names))]
        out += [f"{heading}: {name} is no item" for name in sorted(set(names) - items)]
        out += [f"{heading}: {name} twice" for name in set(names) if names.count(name) > 1]
        for row in rows:
            if len(row) != 4 or not all(row):
                out.append(f"{heading}: {row[0]} has an empty cell")
                continue
            out += [f"{row[0]}: {text}" for text in unknown(*row[1:3])]
    return out


def unknown(where: str, compared: str) -> list[str]:
    """Names in a row that do not exist, and what a row must name and does not."""
    named, checks = (re.findall(r"`([^`]+)`", text) for text in (where, compared))
    out = [] if named else ["nothing in the package is named"]
    out += [f"{name} does not exist" for name in named if not exists(name)]
    out += [] if checks else ["nothing compares it"]
    out += [f"{check} does not exist" for check in checks if not checked_by(check)]
    return out


@cache
def exists(dotted: str) -> bool:
    """Whether a dotted name leads to a module, a class, a function or a method."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ImportError:
            continue
        for name in parts[size:]:
            found = getattr(found, name, None)
        return found is not None
    return False


@cache
def functions_of(file: str) -> frozenset[str]:
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def checked_by(name: str) -> bool:
    """Whether it is a test of a file, or a figure that can be computed."""
    file, _, function = name.partition("::")
    if function:
        return function.startswith("test_") and function in functions_of(file)
    return name.removeprefix("tightdp reproduce ") in EXPERIMENTS


def test_every_item_has_its_row_and_every_name_exists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert complaints(page) == []
    assert sum(len(items) for items in expected().values()) == 135


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("| Lemma 3.16 |", "| Lemma 3.99 |", "Lemma 3.16 is missing"),
        ("`tightdp.containment_order`", "`tightdp.containment_disorder`", "does not exist"),
        ("::test_entropies`", "::test_entropy`", "does not exist"),
        ("test_orders.py::", "test_order.py::", "does not exist"),
        ("reproduce knorm-figure-1`", "reproduce knorm-figure-11`", "does not exist"),
        ("`tightdp.LinearImage`", "linear images", "nothing in the package is named"),
        ("| 2e-3 |", "|  |", "empty"),
    ],
)
def test_a_fault_on_the_page_is_seen(old: str, new: str, said: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert old in page
    assert any(said in text for text in complaints(page.replace(old, new)))


def test_the_page_is_found_from_the_figures() -> None:
    figures = (ROOT / "docs" / "reproduced.md").read_text(encoding="utf-8")
    assert "(items.md)" in figures
    assert "items" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8").split()
