"""What users type: documented names, no abbreviations, no Greek, a light import."""

from __future__ import annotations

import ast
import enum
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tightdp

ROOT = Path(__file__).parents[2]
PUBLIC = [name for name in getattr(tightdp, "__all__", []) if not name.startswith("__")]
HEAVY = ["scipy.stats", "sklearn", "pandas", "matplotlib"]


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every identifier the code introduces, and the keywords it passes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno


def bad_names(code: str) -> list[str]:
    return [
        f"{line}: {name}"
        for name, line in bound_names(ast.parse(code))
        if "eps" in name.lower().split("_") or not name.isascii()
    ]


@pytest.mark.parametrize("folder", ["src", "reproduce", "examples", "benchmarks", "docs"])
def test_epsilon_is_spelt_out_and_nothing_is_greek(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert bad_names(path.read_text()) == [], path


@pytest.mark.parametrize(
    "code",
    ["eps = 1", "def f(eps): ...", "f(max_eps=1)", "self.eps = 1", "ε = 1", "def Δ(): ..."],
)
def test_a_planted_name_is_caught(code):
    assert bad_names(code)


def lost_imports(code: str) -> list[str]:
    """What a script takes from the package that is not there, or no longer."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tightdp":
            for item in node.names:
                try:
                    exec(f"from {node.module} import {item.name}")
                except ImportError:
                    found.append(f"{node.module}.{item.name}")
    return found


@pytest.mark.parametrize("folder", ["benchmarks", "examples"])
def test_scripts_that_no_test_runs_import_what_is_there(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert lost_imports(path.read_text()) == [], path


def test_a_lost_import_is_caught():
    assert lost_imports("from tightdp.shaping.class_noise import GaussianNoise")
    assert lost_imports("def f():\n    from tightdp.released import Release")


def test_machine_precision_may_be_read():
    assert bad_names("tolerance = np.finfo(float).eps") == []


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_docstring_with_an_example(name):
    thing = getattr(tightdp, name)
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return
    assert inspect.getdoc(thing), f"{name} has no docstring"
    words_only = inspect.isclass(thing) and (
        issubclass(thing, (Exception, enum.Enum)) or inspect.isabstract(thing)
    )
    assert words_only or ">>>" in (thing.__doc__ or ""), f"{name} has no `>>>` example"


def test_estimators_take_the_same_parameters_in_the_same_order():
    """Epsilon, bounds, delta first, progress, ledger, random_state last, where there are any."""
    first, last = ["epsilon", "bounds", "delta"], ["progress", "ledger", "random_state"]
    seen = 0
    for name in PUBLIC:
        thing = getattr(tightdp, name)
        if not (inspect.isclass(thing) and hasattr(thing, "get_params")):
            continue
        given = [p for p in inspect.signature(thing).parameters if p != "alpha" or name != "Ridge"]
        if name == "SyntheticTable":  # of a whole table: its public facts come before the price
            given[:2] = given[1::-1]
        wanted = [p for p in first if p in given], [p for p in last if p in given]
        assert (given[: len(wanted[0])], given[-len(wanted[1]) :]) == wanted, name
        assert {"epsilon", "bounds", "ledger", "random_state"} <= {*given}, name
        told = re.findall(
            r"^(\w[\w, ]*)(?: : .*)?$", thing.__doc__.partition("Parameters\n---")[2], re.M
        )
        assert {*given} <= {word for names in told for word in names.split(", ")}, name
        seen += 1
    assert seen > 12


def test_public_names_are_listed_once_and_exist():
    assert len(PUBLIC) == len(set(PUBLIC))
    assert [name for name in PUBLIC if not hasattr(tightdp, name)] == []


def test_import_is_light():
    code = f"import sys, json, tightdp; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_no_file_and_no_class_has_the_name_of_another():
    files: dict[str, list[Path]] = {}
    classes: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "src" / "tightdp").rglob("*.py")):
        if not path.stem.startswith("__"):
            files.setdefault(path.stem, []).append(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path)
    assert {name: homes for name, homes in files.items() if len(homes) > 1} == {}
    assert {name: homes for name, homes in classes.items() if len(homes) > 1} == {}


def untyped_arguments(code: str) -> tuple[int, int]:
    """How many arguments are annotated as ``Any`` and no more, and how many there are."""
    bare = found = 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            one = node.args
            given = [*one.posonlyargs, *one.args, *one.kwonlyargs, one.vararg, one.kwarg]
            told = [arg for arg in given if arg is not None and arg.arg not in ("self", "cls")]
            found += len(told)
            bare += sum(ast.unparse(arg.annotation or ast.Name("Any")) == "Any" for arg in told)
    return bare, found


def test_arguments_have_types():
    """Any switches the checker off; what may be anything and is checked is an ``object``."""
    assert untyped_arguments("def f(self, a: Any, b, *c: Any, d: list[Any]): ...") == (3, 4)
    counts = [untyped_arguments(p.read_text()) for p in (ROOT / "src").rglob("*.py")]
    bare, found = map(sum, zip(*counts, strict=True))
    assert found > 3000
    assert bare < 0.03 * found


def numbered_references(code: str) -> list[str]:
    """Lines of docstrings that send the reader of ``help()`` to a numbered list elsewhere."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = []
    for node in ast.walk(ast.parse(code)):
        text = (ast.get_docstring(node) or "") if isinstance(node, documented) else ""
        prose = [line for line in text.splitlines() if not line.lstrip().startswith(">>>")]
        cited = re.compile(r"(References:|Erratum:|[a-z]( of| in|,)?) \(?\[\d{1,2}(, \d{1,2})*\]")
        ranges = re.compile(
            r"\b(range|in|of|as|on|to|over|from|between) \[0, 1\]|(in|on) \[1, 2\]|of \[0, 9"
        )
        found += [line for line in prose if cited.search(line) and not ranges.search(line)]
    return found


def test_references_name_authors_and_year():
    package = Path(tightdp.__file__).parent
    found = {path.name: numbered_references(path.read_text()) for path in package.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert numbered_references('"""Algorithm 2 of [5]."""') != []
    assert numbered_references('"""References: [18], Theorem 2."""') != []
