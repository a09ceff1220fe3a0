"""A plan written as TOML: what a form has gathered becomes the file that everything else reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from tightdp.errors import fail

_ORDER = ("title", "data", "schema", "budget", "releases")


def to_toml(record: Mapping[str, Any]) -> str:
    """The text of a plan; reading it gives the same record, without what is None.

    >>> print(to_toml({"title": "A", "schema": {"rows": 2, "columns": {"x y": {"low": 0}}}}))
    title = "A"
    <BLANKLINE>
    [schema]
    rows = 2
    [schema.columns]
    "x y" = {low = 0}
    <BLANKLINE>
    """
    keys = [key for key in _ORDER if key in record] + [key for key in record if key not in _ORDER]
    plain = [key for key in keys if not _heads(record[key])]
    parts = [_pairs({key: record[key] for key in plain})]
    for key in keys:
        value = record[key]
        if isinstance(value, Mapping):
            parts.append(_section(key, value))
        elif _heads(value):
            parts += [f"[[{toml_key(key)}]]\n{_pairs(item)}" for item in value]
    return "\n".join(part for part in parts if part)


def _heads(value: object) -> bool:
    """Whether a value gets headings of its own: a table, or a list of tables."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _section(name: str, section: Mapping[str, Any]) -> str:
    inner = {key: value for key, value in section.items() if isinstance(value, Mapping)}
    text = f"[{toml_key(name)}]\n" + _pairs({k: section[k] for k in section if k not in inner})
    for key, value in inner.items():
        text += f"[{toml_key(name)}.{toml_key(key)}]\n{_pairs(value)}"
    return text


def _pairs(table: Mapping[str, Any]) -> str:
    return "".join(
        f"{toml_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None
    )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, date):
        return str(value)
    if isinstance(value, Mapping):
        items = (f"{toml_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    fail(f"A plan holds texts, finite numbers, true and false. Got {type(value).__name__}.")


def toml_key(name: str) -> str:
    """A key, in quotes where it must be.

    >>> toml_key("age"), toml_key("pay (EUR)")
    ('age', '"pay (EUR)"')
    """
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else quoted(name)


def quoted(text: str) -> str:
    """A text in quotes: every JSON text is a TOML text, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
