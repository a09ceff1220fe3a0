"""Commands that need no private row: compare and audit the releases of a plan; list the kinds."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tightdp.audit import AuditReport, audit
from tightdp.cli.arguments import ONLY, PLAN, Commands, argument, command
from tightdp.cli.output import Exit, Speaker
from tightdp.data.made_up import made_up_table
from tightdp.errors import TightdpError, check_choice, fail
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.paths import check_file
from tightdp.plans.plan import Plan
from tightdp.plans.request import Planned, Request
from tightdp.printed import text_facts
from tightdp.privacy import Neighbors, text_up
from tightdp.randomness import source
from tightdp.registry import KINDS
from tightdp.schema import Category, Interval, Schema

_MOST_ROWS = 100_000
_SEED = 20_260_103  # of made-up tables: no privacy is at stake


def add(commands: Commands) -> None:
    """Add the commands."""
    command(
        commands,
        "compare",
        _compare,
        "print the errors that other shapes of noise would have",
        PLAN,
        ONLY,
        more="For every release of a plan that has a choice of noise; all promise the same.",
        examples='  tightdp compare plan.toml\n  tightdp compare plan.toml --release "means"\n',
    )
    command(
        commands,
        "audit",
        _audit,
        "try to refute the guarantee of a mechanism, from its releases",
        argument("what", metavar="PLAN|FILE.py:NAME", help="a plan, or a function"),
        ONLY,
        argument(
            "--releases", metavar="N", type=int, default=10_000, help="per input; by default 10000"
        ),
        argument("--x", metavar="JSON", help="an input of the function"),
        argument("--x-neighbor", metavar="JSON", help="a neighbouring one"),
        argument("--epsilon", metavar="E", type=float, help="what the function claims"),
        argument("--delta", metavar="D", type=float, default=0.0, help="by default 0"),
        more="Of a plan: its releases on made-up tables that differ in one row. The private table\n"
        "is not read and nothing is spent. Or of a function of your own, FILE.py:NAME, that takes\n"
        "an input (and `size`, if it can) and returns numbers.",
        examples='  tightdp audit plan.toml --release "means"\n'
        "  echo 'import numpy as np' > mine.py\n"
        "  echo 'def noisy(x, size): return x + np.random.laplace(0, 1, size)' >> mine.py\n"
        "  tightdp audit mine.py:noisy --x 10 --x-neighbor 11 --epsilon 1\n",
    )
    command(
        commands,
        "kinds",
        _kinds,
        "list the kinds of releases that a plan can ask for",
        argument("kind", metavar="KIND", nargs="?", help="one kind, with all its keys"),
        examples="  tightdp kinds\n  tightdp kinds linear_regression\n",
    )


# --- commands ------------------------------------------------------------------------------------


def _chosen(plan: Plan, names: list[str] | None) -> list[Planned]:
    return [plan[name] for name in names] if names else list(plan.releases)


def _compare(given: argparse.Namespace, speaker: Speaker) -> Exit:
    plan = Plan.read(given.plan)
    compared = [_compared(one, plan.confidence) for one in _chosen(plan, given.release)]
    records = [{"name": name} | record for name, _, record in compared]
    texts = [f"{name}: {text}" for name, text, _ in compared]
    speaker.say("\n\n".join(texts), {"releases": records})
    return Exit.DONE


def _compared(planned: Planned, confidence: float) -> tuple[str, str, dict[str, Any]]:
    """The name of a release, and its noises or why they cannot be compared."""
    from tightdp.compare import compare_noise

    request = planned.request
    try:
        if "noise" not in request.kind.options:
            fail(f"kind {request.kind.name!r} has one noise, nothing to compare")
        found = compare_noise(request, confidence=confidence)
    except TightdpError as error:  # the other releases are compared all the same
        return planned.name, str(error), {"reason": str(error)}
    return planned.name, f"epsilon = {text_up(request.epsilon)}\n{found}", found.to_dict()


def _audit(given: argparse.Namespace, speaker: Speaker) -> Exit:
    if ".py:" in given.what:
        if given.x is None or given.x_neighbor is None or given.epsilon is None:
            fail("To audit a function, give --x, --x-neighbor and --epsilon.")
        reports = {given.what: _audit_function(given, speaker.bars)}
    else:
        chosen = _chosen(Plan.read(given.what), given.release)
        reports = {
            planned.name: audit_plan(planned.request, given.releases, speaker.bars)
            for planned in chosen
        }
    speaker.say(
        "\n\n".join(f"{name}: {report}" for name, report in reports.items()),
        {"audits": [{"name": name} | report.to_dict() for name, report in reports.items()]},
    )
    return Exit.DONE if all(reports.values()) else Exit.NO


def _kinds(given: argparse.Namespace, speaker: Speaker) -> Exit:
    if given.kind is None:
        known = {name: kind.about for name, kind in KINDS.items()}
        speaker.remark("Keys of a kind: tightdp kinds KIND")
        speaker.say("\n".join(text_facts(known.items())), {"kinds": known})
        return Exit.DONE
    kind = KINDS[check_choice("kind", given.kind, KINDS)]
    facts, keys = [], {}
    for name, option in kind.options.items():
        need = "(needed) " if option.required else ""
        choices = f": {', '.join(option.choices)}" if option.choices else ""
        facts.append((name, f"{need}{option.about}{choices}"))
        keys[name] = {
            "takes": option.takes,
            "about": option.about,
            "needed": option.required,
            "choices": list(option.choices),
        }
    facts += [
        ("name", "what it is called, by default the kind and its place in the plan"),
        ("key", "under which the ledger keeps it, by default the name"),
        ("epsilon", "what it costs, or"),
        ("weight", "its share of what is left"),
    ]
    lines = [f"{kind.name}: {kind.about}", *(f"  {line}" for line in text_facts(facts))]
    speaker.say("\n".join(lines), {"kind": kind.name, "about": kind.about, "keys": keys})
    return Exit.DONE


# --- audits --------------------------------------------------------------------------------------


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
        bounds = (rule.low, rule.high) if isinstance(rule, Interval) else ()
        ends = rule.levels if isinstance(rule, Category) else rule.cells(np.array(bounds))
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
    if not request.columns:
        fail(
            "`keys` = 'private' is not audited on made-up rows: its law is proved when it is made."
        )
    return Schema(
        schema.select(request.columns), schema.rows, neighbors=schema.neighbors, bits=schema.bits
    )


def _audit_function(given: argparse.Namespace, progress: bool) -> AuditReport:
    """Audit the function NAME of FILE.py on two inputs in JSON."""
    path, _, name = given.what.rpartition(":")
    return audit(
        _function(path, name),
        _value("x", given.x),
        _value("x-neighbor", given.x_neighbor),
        epsilon=given.epsilon,
        delta=given.delta,
        releases=given.releases,
        progress=progress,
    )


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
