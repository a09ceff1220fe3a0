"""What an installation gets: tested versions, lowest versions that are tried, and pinned ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEED = re.compile(r"([A-Za-z0-9-]+)>=([0-9.]+)")


def pins(name: str) -> dict[str, str]:
    """The versions in a file of constraints, by names in small letters."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return dict(line.lower().split("==") for line in lines if line)


def needs(extras: list[str]) -> dict[str, str]:
    """Lower bounds of what the package needs, with these extras and those inside them."""
    found: dict[str, str] = {}
    todo = [*PROJECT["dependencies"]]
    for extra in extras:
        todo += PROJECT["optional-dependencies"][extra]
    while todo:
        need = todo.pop()
        if inner := re.fullmatch(r"tightdp\[([a-z,]+)\]", need):
            for extra in inner[1].split(","):
                todo += PROJECT["optional-dependencies"][extra]
        else:
            name, least = NEED.fullmatch(need).groups()
            found[name.lower()] = least
    return found


def same(one: str, other: str) -> bool:
    parts = [[int(n) for n in text.split(".")] for text in (one, other)]
    most = max(map(len, parts))
    return parts[0] + [0] * (most - len(parts[0])) == parts[1] + [0] * (most - len(parts[1]))


def test_the_lowest_versions_are_the_ones_that_are_tried():
    tried = pins("constraints-lowest.txt")
    stated = needs(["all"])
    assert set(stated) <= set(tried)
    for name, least in {**needs(["dev"]), **stated}.items():
        assert name not in tried or same(tried[name], least), name


def test_every_need_is_pinned():
    kept = pins("constraints.txt")
    assert set(needs(["dev"])) <= set(kept)
    for name, least in needs(["dev"]).items():
        assert [int(n) for n in kept[name].split(".")] >= [int(n) for n in least.split(".")], name


def test_the_tests_run_on_the_pinned_versions():
    """Where the environment was made by `make`; one of the lowest versions has others."""
    kept, lowest = pins("constraints.txt"), pins("constraints-lowest.txt")
    for name in ("numpy", "scipy", "pandas", "pyarrow"):
        try:
            here = version(name)
        except PackageNotFoundError:
            continue
        assert here in (kept[name], lowest[name]), name


def test_versions_of_python_are_stated():
    stated = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert stated == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={stated[0]}"
    assert PROJECT["authors"]


@pytest.mark.slow
def test_the_lowest_versions_work():
    """Makes an environment of its own, from the network, and runs a few tests in it."""
    made = subprocess.run(
        ["make", "lowest", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]


CLOCK = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


def test_the_package_is_there_soon_after_numpy(tmp_path):
    """Processor time of an import from bytecode, which everybody has after the first one.

    Six times that of numpy, which is a part of it: half a second where numpy takes a twelfth. Both
    are measured in turns, for machines change their speed.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(tmp_path)

    def clock(name: str) -> float:
        run = [sys.executable, "-c", CLOCK.format(name)]
        return float(subprocess.check_output(run, env=kept, text=True))

    ours, numpys = zip(*((clock("tightdp"), clock("numpy")) for _ in range(7)), strict=True)
    assert min(ours[1:]) < 6 * min(numpys[1:])
