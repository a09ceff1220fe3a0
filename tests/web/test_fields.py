"""What the controls of the page make of options, without a browser: their text, and back."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tightdp.inference.coefficient_tests import equations
from tightdp.web.app import STATIC

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="NO NODE: install it to run the page's code")
STUBS = """
globalThis.window = globalThis;
globalThis.document = {addEventListener() {}};
globalThis.location = {hash: ""};
globalThis.sessionStorage = {getItem() { return null; }};
"""


def said(expression: str) -> object:
    """The value of an expression about ``fields``, the module of the controls."""
    program = f"""{STUBS}
    const fields = await import({json.dumps((STATIC / "fields.js").as_uri())});
    console.log(JSON.stringify({expression}));
    """
    run = [str(NODE), "--input-type=module", "-e", program]
    return json.loads(subprocess.run(run, capture_output=True, check=True, timeout=60).stdout)


def test_equations_of_a_plan_are_shown_as_they_may_be_typed():
    """Weights were shown as "[object Object]", and saved as such when the line was touched."""
    given = [{"age": 1, "pay": -2}, {"pay": -0.5}, "age - pay"]
    shown = said(f"{json.dumps(given)}.map(fields.shownEquation)")
    assert shown == ["1 age - 2 pay", "- 0.5 pay", "age - pay"]
    names = ["intercept", "age", "pay"]
    for part, text in zip(given, shown, strict=True):
        assert (equations(part, names)[0] == equations(text, names)[0]).all()


def test_shares_of_columns_are_read_as_they_are_shown():
    for given in ({"age": "0.2", "pay": "1/2"}, {"a:b": "1"}, "0.3"):
        assert said(f"fields.readShares(fields.shownShares({json.dumps(given)}))") == given
    assert said('fields.shownShares({"age": 0.2})') == "age: 0.2"
    assert said('fields.readShares("age: 0.2, pay")') == {"age": "0.2", "pay": ""}


def test_bins_of_a_column_by_any_name():
    """Of a column called "constructor" a function of JavaScript was shown as its bins."""
    for name in ("constructor", "toString", "__proto__"):
        key = json.dumps(name)
        assert said(f"fields.shownBins(fields.byColumn(undefined)[{key}])") == ""
        stated = f"Object.assign(fields.byColumn({{age: 3}}), {{[{key}]: [1, 2]}})"
        assert said(f"fields.shownBins({stated}[{key}])") == "1, 2"
        assert said(f"({{...{stated}}})") == {"age": 3, name: [1, 2]}
