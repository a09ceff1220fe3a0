"""The map of the house says what is there: rooms, files, and the walks through them."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.house.test_architecture import FLOORS

import tightdp as tdp

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tightdp"
LONGEST_WALK = 18  # of an additive release
MOST_OF_A_FIT = 36
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def sentence(room: str) -> str:
    """The first sentence of the documentation of a room."""
    home = SOURCE / room / "__init__.py" if (SOURCE / room).is_dir() else SOURCE / f"{room}.py"
    said = ast.get_docstring(ast.parse(home.read_text()))
    assert said, home
    return " ".join(said.partition("\n\n")[0].split())


def rooms() -> list[str]:
    there = [room for floor in FLOORS for room in floor]
    return [r for r in there if (SOURCE / r).is_dir() or (SOURCE / f"{r}.py").exists()]


def test_every_room_is_on_the_map_in_its_order():
    lines = [f"| `{room}` | {sentence(room)} |" for room in rooms()]
    assert re.findall(r"^\| `.*$", PAGE, re.M)[: len(lines)] == lines


def test_every_file_that_the_map_names_is_there():
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE)
    assert named
    for name in named:
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name


def steps(title: str) -> list[str]:
    """The modules of a walk, in the order of the page."""
    walk = PAGE.partition(f"**`{title}")[2].partition("\n\n")[0]
    return re.findall(r"`((?:\w+\.)*\w+)`", walk.partition("`**")[2])


def walked(call) -> list[str]:
    """The modules in the order in which a call first enters them."""
    found: dict[str, None] = {}

    def follow(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)):
            found[name.removeprefix(f"{SOURCE}/").removesuffix(".py").replace("/", ".")] = None

    call()  # what is found once is found now
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(found)


def reasons(walk: str) -> set[str]:
    """The modules that the table of the map puts on a walk, each with its reason."""
    place = ("release", "fit", "plan").index(walk)
    rows = re.findall(r"^\| `([\w.]+)` \|([x ]*)\|([x ]*)\|([x ]*)\| \S.* \|$", PAGE, re.M)
    return {module for module, *marks in rows if marks[place].strip()}


def add() -> None:
    sums = tdp.Sums(tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3), ["x"])
    tdp.AdditiveMechanism(sums, epsilon=1).release({"x": [0.1, 0.2, 0.3]})


MECHANISM = tdp.AdditiveMechanism(
    tdp.Sums(tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3), ["x"]), epsilon=1
)


def test_a_release_is_a_short_walk():
    """Whoever wants to know what a release does reads so many modules, and not one more."""
    through = walked(lambda: MECHANISM.release({"x": [0.1, 0.2, 0.3]}))
    assert len(through) <= LONGEST_WALK, through
    assert set(through) == reasons("release")
    reader = [module for module in through if module.startswith("data.")]
    assert len(reader) <= 5, reader


def fit() -> None:
    x = np.linspace(-1, 1, 50)
    tdp.LinearRegression(epsilon=1, bounds=[(-1, 1)] * 2).fit(x[:, None], x)


@pytest.mark.parametrize(("title", "call"), [("AdditiveMechanism", add), ("LinearRegression", fit)])
def test_a_walk_goes_where_the_map_says(title, call):
    named, through = steps(title), walked(call)
    assert len(named) >= 5
    assert [step for step in named if step not in through] == []


def test_a_fit_is_a_short_walk():
    """Of the estimators only what is theirs: parameters, tables, the fit, the regression."""
    through = walked(fit)
    assert len(through) <= MOST_OF_A_FIT, through
    assert set(through) == reasons("fit")
    assert len([module for module in through if module.startswith("estimators.")]) <= 4, through
    assert len([module for module in through if module.startswith("inference.")]) <= 1, through


MOST_MODULES = 68  # of a plan with a mean and a regression: less is better, more is a longer walk


def test_a_plan_goes_where_the_map_says(tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n0.1,0.3\n0.2,0.4\n")
    (tmp_path / "plan.toml").write_text(
        '[data]\nfile = "table.csv"\n[schema]\nrows = 2\ncolumns.x = {low = 0, high = 1}\n'
        'columns.y = {low = 0, high = 1}\n[budget]\nepsilon = 99\nledger = "a.ledger"\n'
        '[[releases]]\nkind = "mean"\ncolumns = ["x"]\nepsilon = 1\n'
        '[[releases]]\nkind = "linear_regression"\ntarget = "y"\nepsilon = 1\n'
    )
    through = walked(lambda: tdp.Plan.read(tmp_path / "plan.toml").release())
    named = steps("tightdp release plan.toml")
    assert len(named) >= 5
    assert [step for step in named if step not in through] == []
    through = walked(lambda: _released_anew(tmp_path))
    assert len(through) <= MOST_MODULES
    assert set(through) == reasons("plan")


def _released_anew(folder) -> None:
    (folder / "a.ledger").unlink(missing_ok=True)
    tdp.Plan.read(folder / "plan.toml").release()
