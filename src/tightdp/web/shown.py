"""What the page shows of a plan before anything is paid: problems, errors, pictures, the budget.

All of it is computed from public facts and the ledger; no row is read here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import Any

from tightdp.accounting.caps import Cap
from tightdp.accuracy import epsilon_for
from tightdp.accuracy import preview as preview_of
from tightdp.compare import compare_noise
from tightdp.data.histograms import group_names
from tightdp.data.made_up import made_up_table
from tightdp.errors import LedgerError, TightdpError, check_choice, fail
from tightdp.ledger import Budget, Ledger
from tightdp.ledger.amounts import SYMBOLS, Remaining, nothing
from tightdp.ledger.views import history_cells
from tightdp.meaning import explain
from tightdp.options import GROUPS, Option, amount
from tightdp.plans.plan import Plan
from tightdp.plans.plan_text import PlanText, default_name
from tightdp.plans.request import Planned, Request
from tightdp.printed import html_table
from tightdp.privacy import check_epsilon, text_down, text_up
from tightdp.randomness import source
from tightdp.registry import KINDS
from tightdp.report import page, pictures
from tightdp.report.sections import of_request
from tightdp.schema import Category, Interval
from tightdp.web.workspace import Workspace

_SHOWN = 20  # entries of a preview: a table of thousands would only be slow
_COMPARED = 500  # entries whose noises are compared: each noise takes as long as a preview
_MADE_UP, _SEED = 20_000, 7  # rows of a picture, and the seed of all made-up ones
_COLUMNS: dict[Any, str] = {Interval: "number", Category: "category", GROUPS: "groups", None: ""}


def kinds() -> list[dict[str, Any]]:
    """All registered kinds, with what their forms ask for."""
    return [
        {
            "name": kind.name,
            "about": kind.about,
            "options": [_option(name, option) for name, option in kind.options.items()],
        }
        for kind in KINDS.values()
    ]


def _option(name: str, option: Option) -> dict[str, Any]:
    default = option.default
    return {
        "name": name,
        "takes": option.takes,
        "about": option.about,
        "required": option.required,
        "of": _COLUMNS.get(option.of, ""),
        "choices": list(option.choices),
        "default": default if isinstance(default, (int, str, bool)) else None,
    }


def checked(space: Workspace, record: object, file: str) -> dict[str, Any]:
    """What is wrong with a plan, by key; what each release costs; and the budget."""
    found = space.read(record, file)
    states, refusals = {}, {}
    if not found.problems:
        try:
            plan = Plan.of(found)
            states, refusals = plan.states(), plan.refusals()
        except TightdpError:
            pass  # noted
    return {
        "problems": [{"place": list(place), "message": said} for place, said in found.noted],
        "releases": [
            {
                "name": planned.name,
                "key": planned.key,
                "epsilon": float(planned.request.epsilon),
                "exact": str(planned.request.epsilon),
                "state": states.get(planned.name, ""),
                "refusal": refusals.get(planned.name, ""),
            }
            for planned in found.releases
        ],
        "budget": budget(found),
    }


def budget(found: PlanText) -> dict[str, Any] | None:
    """The bar: what was spent on the ledger, what is asked for, what is left."""
    if found.caps is None or found.schema is None:
        return None
    unit = "epsilon" if found.cap is None else found.cap.unit
    spent, known, words = nothing(unit), set(), ""
    if found.ledger is not None and found.ledger.exists():
        try:
            with Ledger.open(found.ledger, read_only=True) as ledger:
                spent, known = ledger.spent, {row.key for row in ledger.history()}
        except LedgerError as error:
            words = str(error)
    asked = nothing(unit)
    for planned in {each.key: each for each in found.releases}.values():  # one key, one payment
        if planned.key not in known:
            asked = asked + booked(planned, found.cap)
    most = found.caps.epsilon if found.cap is None else found.cap.amount
    return {
        "unit": SYMBOLS[unit],
        "cap": float(most),
        "spent": float(spent.amount),
        "asked": float(asked.amount),
        "left": float(most - spent.amount - asked.amount),
        "words": words,
    }


def booked(planned: Planned, cap: Cap | None) -> Budget:
    """What a release costs, in the unit that the ledger adds up."""
    cost = planned.request.mechanism.cost
    if cap is not None:
        return Budget(*cap.booked(cost), unit=cap.unit)
    return Budget(cost.epsilon, cost.delta)


def amount_words(spent: Budget) -> str:
    """An amount for somebody who agrees to it, rounded up."""
    delta = f", delta = {text_up(spent.delta)}" if spent.delta else ""
    return f"{SYMBOLS[spent.unit]} = {text_up(spent.amount)}{delta}"


# --- one release ---------------------------------------------------------------------------------


def alone(record: object, name: object) -> dict[str, Any]:
    """The plan with one release, and a budget that is just enough for it; without a table."""
    plan = record if isinstance(record, Mapping) else {}
    listed = plan.get("releases")
    releases = {
        str(one.get("name", default_name(one, i))): one
        for i, one in enumerate(listed if isinstance(listed, list) else [])
        if isinstance(one, Mapping)
    }
    if not releases:
        fail("The plan has no release yet.")
    one = releases[check_choice("release", name, list(releases))]
    kept = {key: value for key, value in one.items() if key not in ("weight", "epsilon", "rho")}
    stated = plan.get("budget")
    level = stated.get("confidence", 0.95) if isinstance(stated, Mapping) else 0.95
    return {
        "schema": plan.get("schema"),
        "budget": {"epsilon": 1, "ledger": "none", "confidence": level},
        "releases": [{**kept, "epsilon": 1}],
    }


def asked(found: PlanText, epsilon: object) -> Request:
    """The release of such a plan, at an epsilon."""
    if not found.releases:
        fail(next(said for place, said in found.noted if place[:1] != ("data",) and place))
    return found.releases[0].request.at(check_epsilon(amount("epsilon", epsilon)))


def preview(found: PlanText, request: Request) -> dict[str, Any]:
    """The error to expect, in figures and words."""
    made = preview_of(request, confidence=found.confidence)
    rows = list(made.rows())
    cost = request.mechanism.cost
    rho = made.guarantee.rho
    told: dict[str, Any] = {"rho": rho} if rho is not None else {"epsilon": made.guarantee.epsilon}
    return {
        "rows": [list(row) for row in rows[: _SHOWN + 1]],
        "more": max(0, len(rows) - 1 - _SHOWN),
        "half_width": [None if math.isnan(h) else h for h in made.half_width[:_SHOWN].tolist()],
        "note": made.note,
        "in_ranks": made.ranks is not None,
        "assumes": bool(made.assumes),
        "noise": made.noise,
        "epsilon": float(request.epsilon),
        "cost": [text_up(part) for part in (cost.epsilon, cost.delta)],
        "meaning": explain(**told, delta=made.guarantee.delta, neighbors=made.guarantee.neighbors),
        "power": pictures.power(made.guarantee),
    }


def picture(found: PlanText, name: str, request: Request) -> dict[str, Any]:
    """What the release may look like: drawn on made-up rows, which say nothing of the table."""
    schema, bits = request.schema, source(_SEED)
    if any(name not in schema.columns for name in group_names(request.options.get("by"))):
        fail("Keys that nobody listed cannot be made up, so there is nothing to draw.")
    few = schema.with_rows(min(schema.rows, _MADE_UP))
    smaller = Request(request.kind, few, request.epsilon, request.options)
    answer = smaller.release(made_up_table(few, bits), rng=bits, confidence=found.confidence)
    section = of_request(name, answer, smaller, "", None)
    return {"svg": page.picture(section), "rows": few.rows, "note": section.note}


def compared(found: PlanText, request: Request) -> dict[str, Any]:
    """The error of other noises at the same guarantee; nothing where there is one noise."""
    if "noise" not in request.kind.options:
        return {"svg": "", "refused": {}}
    count = len(preview_of(request, confidence=found.confidence).names)
    if count > _COMPARED:
        fail(f"Noises are compared here for at most {_COMPARED} entries, and this has {count}.")
    made = compare_noise(request, confidence=found.confidence)
    return {"svg": pictures.comparison(made), "refused": dict(made.refused)}


def needed(found: PlanText, request: Request, error: object, unit: str, assume: bool) -> str:
    """The epsilon for which all entries are within an error, as a decimal."""
    size = float(amount("error", error))
    wish = {check_choice("unit", unit, ("error", "ranks")): size}
    epsilon = epsilon_for(request, confidence=found.confidence, assume_rows=assume, **wish)
    return text_up(Fraction(repr(float(epsilon))))


# --- the ledger ----------------------------------------------------------------------------------


def ledger_view(found: PlanText) -> dict[str, Any]:
    """History, what is left in all units, and whether the ledger is whole."""
    if found.ledger is None or not found.ledger.exists():
        return {"exists": False}
    with Ledger.open(found.ledger, read_only=True) as ledger:
        left, history = ledger.remaining, ledger.history()
        return {
            "exists": True,
            "identity": ledger.identity,
            "accountant": ledger.accountant,
            "caps": str(ledger.caps),
            "spent": str(ledger.spent),
            "remaining": left.text(left=True),
            "units": _units(left),
            "table": page.scroll(html_table(history_cells(history)), " tdp-left")
            if history
            else "",
            "stored": [row.key for row in history if row.key and row.state == "stored"],
        }


def _units(left: Remaining) -> list[list[str]]:
    """What one more release may cost, in every unit of privacy; all are rounded down."""
    return [
        ["epsilon, of pure noise", text_down(left.epsilon)],
        ["rho, of Gaussian noise", text_down(left.rho)],
        ["mu squared, of Gaussian noise", text_down(left.mu_squared)],
    ]


def verified(found: PlanText) -> str:
    """Hashes, sums and caps, checked from the first entry on."""
    if found.ledger is None or not found.ledger.exists():
        fail("There is no ledger yet.")
    with Ledger.open(found.ledger, read_only=True) as ledger:
        head = ledger.verify()
    return f"{head.counter} entries, whole; the last has the hash {head.hash}"


def plain(value: object) -> Any:
    """Values for JSON: numbers that are not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, date):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
