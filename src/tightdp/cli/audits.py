"""Audits from the command line: of the releases of a plan, and of functions in a file."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tightdp.audit import AuditReport, audit
from tightdp.data.made_up import made_up_table
from tightdp.errors import fail
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.paths import check_file
from tightdp.plans.request import Request
from tightdp.privacy import Neighbors
from tightdp.randomness import source
from tightdp.schema import Category, Schema

_MOST_ROWS = 100_000
_SEED = 20_260_103  # of made-up tables: no privacy is at stake


def neighbours(schema: Schema) -> tuple[dict[str, Any], dict[str, Any]]:
    """Made-up tables that differ in one row, from one end of all bounds to the other."""
    table = made_up_table(schema, source(_SEED))
    first = _with_row(table, schema, -1)
    if schema.neighbors is Neighbors.ADD_REMOVE:
        return first, {name: cells[1:] for name, cells in first.items()}
    return first, _with_row(table, schema, 0)


def _with_row(table: dict[str, Any], schema: Schema, end: int) -> dict[str, Any]:
    """The table with its first row at the last (-1) or the first (0) end of every column."""
    changed = {name: np.array(cells) for name, cells in table.items()}
    for name, rule in schema.columns.items():
        ends = rule.levels if isinstance(rule, Category) else (rule.low, rule.high)
        changed[name][0] = ends[end]
    return changed


def audit_plan(request: Request, releases: int, progress: bool) -> AuditReport:
    """Audit a request on made-up neighbours; the private table is not read."""
    schema, mechanism = _few_columns(request), request.mechanism.source
    if isinstance(mechanism, AdditiveMechanism):  # the other rows do not matter
        schema = schema.with_rows(min(schema.rows, 1000))
    elif schema.rows > _MOST_ROWS:
        fail(
            f"`rows` must be at most {_MOST_ROWS} to audit kind {request.kind.name!r}, which reads "
            "so many made-up rows every time: audit a copy of the plan with fewer."
        )
    x, x_neighbor = neighbours(schema)
    guarantee = request.guarantee()
    options: dict[str, Any] = {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "releases": releases,
        "progress": progress,
    }
    if isinstance(mechanism, AdditiveMechanism):  # it draws integers around the exact sums
        centers = mechanism.exact(x), mechanism.exact(x_neighbor)
        return audit(_sums(mechanism), *centers, **options)
    bits = source(None)
    return audit(lambda table: request.values(table, rng=bits), x, x_neighbor, **options)


def _sums(mechanism: AdditiveMechanism) -> Callable[..., Any]:
    def release(exact: list[int], size: int) -> Any:
        draws = np.asarray(mechanism.noise.sample(size)).reshape(size, -1)
        return draws.astype(object) + np.array(exact, dtype=object)

    return release


def _few_columns(request: Request) -> Schema:
    schema = request.schema
    if schema.person is not None:
        fail("`person`: plans in which a person has several rows cannot be audited yet.")
    return Schema(
        schema.select(request.columns), schema.rows, neighbors=schema.neighbors, bits=schema.bits
    )


def audit_function(what: str, x: str, x_neighbor: str, **options: Any) -> AuditReport:
    """Audit the function NAME of FILE.py on two inputs in JSON."""
    path, _, name = what.rpartition(":")
    return audit(_function(path, name), _value("x", x), _value("x-neighbor", x_neighbor), **options)


def _function(path: str, name: str) -> Callable[..., Any]:
    check_file("FILE.py", path)
    spec = importlib.util.spec_from_file_location("audited", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the file does, one line is said of it
        fail(f"{path} cannot be run: {type(error).__name__}: {error}.")
    found = getattr(module, name, None)
    if not callable(found):
        fail(f"{path} has no function {name!r}.")
    made: Callable[..., Any] = found
    return made


def _value(name: str, text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        fail(f"`--{name}` must be JSON: a number, or a list such as [1, 2]. Got {text!r}.")
    return np.array(found) if isinstance(found, list) else found
