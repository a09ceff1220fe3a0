"""Imports point down, and every outside door has one keeper."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tightdp"

# A room may use the rooms on earlier lines and its own modules, nothing else.
FLOORS = [
    ["errors", "accepted"],
    ["named_arguments", "paths", "plain_values", "printed", "progress", "values"],
    ["cell_dates", "parameters"],
    ["randomness", "privacy", "column_rules"],
    ["date_rule"],
    ["schema", "draft"],
    ["release"],
    ["answer", "preview", "person_means"],
    ["table_books"],
    ["geometry", "workloads"],
    ["exact"],
    ["accounting"],
    ["ledger", "meaning", "noise", "data"],
    ["design"],
    ["inference", "convex", "shaping"],
    ["mechanisms"],
    ["options"],
    ["hypotheses", "model_kinds"],
    ["registry"],
    ["functions"],
    ["estimators"],
    ["accuracy", "audit", "sample_sizes"],
    ["budget_split"],
    ["plans"],
    ["compare"],
    ["plots"],
    ["report"],
    ["web"],
    ["cli"],
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}

# What comes from outside, and the modules that may let it in.
DOORS = {
    "random bits": (("random", "secrets", "os.urandom", "numpy.random"), ("randomness",)),
    "linear programs": (
        ("scipy.optimize.linprog", "scipy.optimize.milp", "highspy"),
        ("geometry.linear_programs", "design.programs"),
    ),
    "plots": (("matplotlib", "mpl_toolkits"), ("plots", "reproduce.pictures")),
    "data frames": (
        ("narwhals", "pandas", "polars", "pyarrow", "duckdb", "pyspark"),
        # they enter by data, and releases leave as frames
        (
            "data.engines",
            "data.engine_groups",
            "data.csv_pieces",
            "data.library_columns",
            "data.spark",
            "data.sources",
            "release",
        ),
    ),
    "scikit-learn": (("sklearn",), ("estimators",)),
    "figures of the papers": (("reproduce",), ("cli.papers",)),
}


class Use(NamedTuple):
    """A dotted name that a module imports or reaches through an import."""

    name: str
    line: int


def uses(tree: ast.Module, package: str) -> Iterator[Use]:
    """Every outside name a module uses: imports, attribute chains, names given to ``require``."""
    alias: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                top = item.name.split(".")[0]
                alias[item.asname or top] = item.name if item.asname else top
                yield Use(item.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            home = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, [home, node.module]))
            for item in node.names:
                alias[item.asname or item.name] = f"{base}.{item.name}"
                yield Use(f"{base}.{item.name}", node.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = ast.unparse(node)
            top, _, rest = chain.partition(".")
            if top in alias and rest.replace(".", "").isidentifier():
                yield Use(f"{alias[top]}.{rest}", node.lineno)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
            "require",
            "import_module",
            "__import__",
        ):
            for given in node.args[:1]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield Use(given.value, node.lineno)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def complaints(source: Path) -> list[str]:
    """What is wrong with the imports of a source tree, one line each."""
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts == ("__init__",):
            continue
        module, room = ".".join(parts), parts[0]
        if room not in FLOOR:
            found.append(f"{module}: `{room}` has no floor; give it one in FLOORS")
            continue
        package = ".".join(["tightdp", *parts[:-1]])
        for name, line in uses(ast.parse(path.read_text()), package):
            if within(name, ("tightdp",)):
                target = name.removeprefix("tightdp").strip(".").split(".")[0]
                if target != room and FLOOR.get(target, len(FLOORS)) >= FLOOR[room]:
                    found.append(f"{module}:{line} imports upward: {name}")
            found += closed_doors(module, name, line)
    return found


def closed_doors(module: str, name: str, line: int) -> list[str]:
    """The doors that a use passes without being their keeper."""
    return [
        f"{module}:{line} uses {name}; {what} enter by {keepers[0]}"
        for what, (names, keepers) in DOORS.items()
        if within(name, names) and not within(module, keepers)
    ]


def test_imports_point_down_and_doors_have_one_keeper():
    assert complaints(SOURCE) == []


def complaints_outside(folder: Path) -> list[str]:
    """What stands on top of the package uses the doors of the package, not its own."""
    return [
        complaint
        for path in sorted(folder.rglob("*.py"))
        for name, line in uses(ast.parse(path.read_text()), folder.name)
        if not within(name, ("reproduce",))
        for complaint in closed_doors(f"{folder.name}.{path.stem}", name, line)
    ]


def test_the_reproductions_use_the_doors_of_the_package(tmp_path):
    assert (ROOT / "reproduce" / "registry.py").exists()
    assert complaints_outside(ROOT / "reproduce") == []
    (tmp_path / "planted.py").write_text("import matplotlib")
    assert complaints_outside(tmp_path)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("geometry/planted.py", "from tightdp.noise.knorm import KNormNoise"),
        ("geometry/planted.py", "def f():\n    import tightdp.mechanisms.additive"),
        ("geometry/planted.py", "from ..noise import knorm"),
        ("privacy.py", "from tightdp.schema import Interval"),
        ("noise/planted.py", "import tightdp"),
        ("noise/planted.py", "from tightdp import LpBall"),
        ("cellar/planted.py", "import math"),
        ("noise/planted.py", "import secrets"),
        ("noise/planted.py", "from os import urandom"),
        ("noise/planted.py", "import numpy as np\nnp.random.default_rng(0)"),
        ("noise/planted.py", "import numpy as np\ndef f(rng: np.random.Generator): ..."),
        ("geometry/polytopes.py", "from scipy.optimize import linprog"),
        ("geometry/polytopes.py", "import scipy.optimize as so\nso.linprog([1])"),
        ("geometry/polytopes.py", "import scipy.optimize\nscipy.optimize.linprog([1])"),
        ("compare.py", "from tightdp.errors import require\nrequire('matplotlib.pyplot', 'plots')"),
        ("audit/planted.py", "import matplotlib"),
        ("audit/planted.py", "from tightdp.plots import plot_audit"),
        ("geometry/planted.py", "import pandas"),
        ("noise/planted.py", "from sklearn.base import BaseEstimator"),
        ("report/planted.py", "from reproduce.registry import EXPERIMENTS"),
        ("cli/plans.py", "import importlib\nimportlib.import_module('reproduce')"),
    ],
)
def test_a_planted_fault_is_caught(tmp_path, path, code):
    planted = tmp_path / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(code)
    assert complaints(tmp_path)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("noise/knorm.py", "from tightdp.geometry.norm_balls import NormBall"),
        ("geometry/combine.py", "from .norm_balls import NormBall"),
        ("geometry/linear_programs.py", "from scipy.optimize import linprog"),
        ("randomness.py", "import os\nimport numpy as np\nos.urandom(8)\nnp.random.default_rng(0)"),
        (
            "plots/canvas.py",
            "from tightdp.errors import require\nrequire('matplotlib.pyplot', 'p')",
        ),
        ("plots/audit.py", "from tightdp.audit.audit_report import AuditReport"),
        ("cli/papers.py", "import importlib\nimportlib.import_module('reproduce')"),
        ("noise/line_laws.py", "import numpy as np\nrandom = np.zeros(3)\nrandom.sum()"),
    ],
)
def test_an_honest_import_passes(tmp_path, path, code):
    planted = tmp_path / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(code)
    assert complaints(tmp_path) == []


def test_init_files_only_re_export():
    allowed = (ast.Import, ast.ImportFrom)
    for path in SOURCE.rglob("__init__.py"):
        for node in ast.parse(path.read_text()).body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            dunder = isinstance(node, (ast.Assign, ast.AnnAssign)) and all(
                ast.unparse(target).startswith("__")
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            )
            assert docstring or dunder or isinstance(node, allowed), f"{path}:{node.lineno}"
