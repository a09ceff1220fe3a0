"""A plan as a Python program that asks for the same releases, under the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tightdp.data.row_tables import absolute_address
from tightdp.mechanisms.vector_part import VectorPart
from tightdp.plans.plan import Plan
from tightdp.plans.plan_text import TEXT_FACTS
from tightdp.plans.request import Planned

_HEAD = '''\
"""{title}: the releases of a plan. Running it again costs nothing: the ledger keeps them."""

from fractions import Fraction

import tightdp as tdp
from tightdp import Category, Date, Interval, Neighbors, Schema
from tightdp.plans import request
'''


def to_python(plan: Plan) -> str:
    """A program with the same public facts, requests, keys and budget; paths are whole.

    What the ledger holds under a key is given back to the program as it is to the plan: the
    fingerprints of the requests are equal.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> text = '''
    ... [data]
    ... file = "a.csv"
    ... [schema]
    ... rows = 2
    ... columns.x = {low = 0, high = 1}
    ... [budget]
    ... epsilon = 1
    ... ledger = "a.ledger"
    ... [[releases]]
    ... kind = "sum"
    ... epsilon = 0.5
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("x\\n0\\n1\\n")
    ...     _ = Path(folder, "plan.toml").write_text(text)
    ...     program = to_python(Plan.read(f"{folder}/plan.toml"))
    >>> "request('sum', schema, epsilon=Fraction(1, 2))" in program
    True
    """
    title = plan.title.replace("\\", " ").replace('"', "'")
    stated = ", ".join(f"{key}={_value(value)}" for key, value in plan.caps_stated().items())
    ledger = f"{stated}, path={str(plan.ledger.absolute())!r}"
    neighbors = repr(str(plan.schema.neighbors))
    imports, table = _table(plan)
    if any(planned.alone for planned in plan.releases):
        imports = f"from tightdp.mechanisms.vector_part import VectorPart\n{imports}"
    lines = [
        _HEAD.format(title=title) + imports,
        f"schema = {plan.schema!r}",
        f"table = {table}",
        f"with tdp.Ledger({ledger}, neighbors={neighbors}) as ledger:",
        "    answers = {",
        *(f"        {_asked(planned, plan.confidence)}," for planned in plan.releases),
        "    }",
        "for name, answer in answers.items():",
        '    print(f"{name}\\n{answer}\\n")',
    ]
    return "\n".join(lines) + "\n"


def _asked(planned: Planned, confidence: float) -> str:
    request = planned.request
    options = "".join(f", {key}={_value(value)}" for key, value in request.options.items())
    made = f"request({request.kind.name!r}, schema, epsilon={request.epsilon!r}{options})"
    terms = f"ledger=ledger, key={planned.key!r}, confidence={confidence!r}"
    part = request.mechanism
    if isinstance(part, VectorPart):  # read off a vector that is paid for once
        facts = f"{part.terms!r}, {part.part!r}, {part.measure!r}, epsilon={request.epsilon!r}"
        read = f"lambda part: part.answer(part.release(table, {terms}))"
        return f"{planned.name!r}: ({read})(VectorPart(schema, {facts}))"
    return f"{planned.name!r}: {made}.release(table, {terms})"


def _value(value: Any) -> str:
    """A value as Python writes it; numbers of a plan are exact."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_value, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    if isinstance(value, Fraction) and value.denominator == 1:
        return repr(int(value))
    return repr(value)


def _table(plan: Plan) -> tuple[str, str]:
    """What must be imported to name the table, and the table."""
    data, folder = plan.source, plan.files[0].parent  # the plan itself is the first of its files

    def place(key: str) -> str:
        return repr(str((folder / data[key]).absolute()))

    if "sheet" in data:
        names = f", {data['names']!r}" if "names" in data else ""
        return "\n", f"tdp.ExcelFile({place('file')}, {data['sheet']!r}{names})"
    if "address" in data:
        return "\n", repr(absolute_address(data["address"], folder))
    if stated := [f"{key}={data[key]!r}" for key in TEXT_FACTS if key in data]:
        return "\n", f"tdp.CsvFile({place('file')}, {', '.join(stated)})"
    if "sql" in data:
        base = place("database") if "database" in data else None
        files = place("files") if "files" in data else None
        files = repr(str(folder.absolute())) if base is None and files is None else files
        importing = "from tightdp.data.sources import from_sql\n\n"
        return importing, f"from_sql({data['sql']!r}, {base}, {files})"
    if "spark" in data:
        importing = "from tightdp.data.sources import from_spark\n\n"
        return importing, f"from_spark({data['spark']!r})"
    return "\n", place("file" if "file" in data else "folder")
