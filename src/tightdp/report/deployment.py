"""The record of a deployment for the public registry, as YAML, with what people must fill in.

Fields and allowed values are those of the Differential Privacy Deployments Registry
(github.com/opendp/deployments-registry-data, schema of July 2026).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tightdp.errors import fail, visible
from tightdp.privacy import Neighbors, text_up
from tightdp.report import words

if TYPE_CHECKING:
    from tightdp.report.report import Report

FILL = "FILL IN: "
_UNKNOWN_DATE = "1900-01-01"
_OPTIONAL = (
    "deployment.basic.data_product_sector (Technology, Healthcare, Education, Government, Energy "
    "or Finance)",
    "deployment.deployment_model.release_type (One release or Many releases)",
    "deployment.deployment_model.data_source_type (Static or Dynamic)",
    "deployment.administrative.sources, notes",
)


def record(report: Report) -> dict[str, Any]:
    """The record as plain values; what the program cannot know begins with ``FILL IN``."""
    if report.total.seeded:
        fail("A seeded release is not private: there is nothing to register. Release without it.")
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", report.title.lower()).strip("-") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(report),
            "dp_variant": _variant(report),
            "privacy_loss": _loss(report),
            "deployment_model": _model(),
            "accounting": _accounting(report),
            "implementation": _implementation(report),
            "administrative": {"registry_authors": [FILL + "who filled in this record"]},
        },
    }


def to_fill(found: Any, where: str = "") -> Iterator[str]:
    """The fields that people must fill in, with the reason.

    >>> list(to_fill({"a": {"b": FILL + "why"}, "c": 1}))
    ['a.b: why']
    """
    if isinstance(found, dict):
        for name, value in found.items():
            yield from to_fill(value, f"{where}.{name}" if where else name)
    elif isinstance(found, list):
        for value in found:
            yield from to_fill(value, where)
    elif isinstance(found, str) and FILL in found:
        yield f"{where}: {found.split(FILL)[1]}"
    elif found == _UNKNOWN_DATE:
        yield f"{where}: the day of publication"


def yaml(found: dict[str, Any]) -> str:
    """The record as YAML; its first lines list what people must fill in."""
    head = ["# To be filled in by hand:"]
    head += [f"# - {line}" for line in to_fill(found)]
    head += ["# Left out, and welcome:", *(f"# - {line}" for line in _OPTIONAL)]
    return "\n".join([*head, *_lines(found, 0)]) + "\n"


def _lines(value: dict[str, Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, each in value.items():
        if isinstance(each, dict):
            yield f"{pad}{name}:"
            yield from _lines(each, depth + 1)
        elif isinstance(each, list):
            yield f"{pad}{name}:"
            yield from (f"{pad}  - {json.dumps(visible(item))}" for item in each)
        elif isinstance(each, str) and "\n" in each:
            yield f"{pad}{name}: |"
            yield from (f"{pad}  {visible(line).strip()}" for line in each.splitlines())
        elif isinstance(each, float):
            yield f"{pad}{name}: {_number(each)}"
        else:  # JSON of one line is YAML
            yield f"{pad}{name}: {json.dumps(visible(each) if isinstance(each, str) else each)}"


def _number(value: float) -> str:
    """A float as YAML 1.1 reads it: with a point before an exponent.

    >>> _number(1e-6), _number(0.5)
    ('1.0e-06', '0.5')
    """
    text = repr(value)
    return text if "e" not in text or "." in text else text.replace("e", ".0e")


# --- what the program knows -----------------------------------------------------------------------


def _basic(report: Report) -> dict[str, Any]:
    dates = sorted(paid.time[:10] for paid in report.payments if paid.time)
    about = [f"{part.name}: {part.about}" if part.about else part.name for part in report.sections]
    return {
        "name": report.title,
        "data_curators": [FILL + "who publishes the data product"],
        "intended_use": FILL + "what the numbers are for",
        "data_product_type": "Summary statistics",
        "data_product_region": FILL + "the region that the data describe",
        "description": "; ".join(about) + ".",
        "publication_date": dates[0] if dates else _UNKNOWN_DATE,
    }


def _variant(report: Report) -> dict[str, str]:
    total = report.total
    name = "Approximate DP" if total.delta else "Pure DP"
    if total.rho is not None:
        name = "Zero-concentrated DP"
    if total.approximate:
        name = "Custom"
    domain = "Tables of the released columns."
    if report.schema is not None:
        facts = report.schema.columns.items()
        columns = ", ".join(f"{column} ({rule!r})" for column, rule in facts)
        domain = f"All tables with these columns, after cells were moved into bounds: {columns}."
    known = "Bounds and levels of columns, which were stated in advance and not read off the data."
    if total.neighbors is Neighbors.REPLACE_ONE:
        known = f"The number of rows. {known}"
    if report.given:
        known += f" The guarantee holds {report.given} and no others."
    return {"variant_name": name, "data_domain": domain, "unprotected_quantities": known}


def _loss(report: Report) -> dict[str, Any]:
    total = report.total
    parameters: dict[str, float] = {"epsilon": total.epsilon}
    if total.rho is not None:
        parameters = {"rho": total.rho}
    elif total.delta:
        parameters["delta"] = total.delta
    details = report.guarantee_words()
    if total.approximate:
        details += " The law is only approached by a Markov chain: epsilon is not proved."
    return {
        "privacy_unit": "row" if total.rows_per_person is None else "person",
        "privacy_unit_details": (
            f"Adjacent are {words.NEIGHBOURS[total.neighbors]}. Protected is a {total.unit}"
            + (f", {report.given} and no others." if report.given else ".")
        ),
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"{total.amount}. {details}",
    }


def _model() -> dict[str, str]:
    return {
        "model_name": "Central",
        "model_name_details": "The curator reads the table; only noisy numbers leave.",
        "actors": FILL + "curator, data subjects, users and adversaries, and why they are trusted",
        "access_type": "Non-interactive",
    }


def _accounting(report: Report) -> dict[str, str]:
    post = [f"{part.name}: {part.note}" for part in report.sections if part.note]
    kept = "Nothing was charged to a ledger."
    if report.payments:
        unit = report.payments[0].unit
        kept = f"A ledger adds up {unit} and delta of all releases, exactly. {report.balance}"
    return {
        "post_processing": "\n".join(post) or "None.",
        "composition": f"Sequential, also when questions depend on answers. {kept}".strip(),
    }


def _implementation(report: Report) -> dict[str, str]:
    laws = [f"- {part.name}: {part.release.noise}" for part in report.sections]
    how = [
        f"- Library: tightdp {report.version}. {words.NUMERICS[report.total.numerics]}",
        "- Floating point: no released digit depends on a rounded number where numerics are exact.",
        f"- Security of the data: {FILL}access control, storage and deletion",
    ]
    why = [f"- {part.name}: {part.why}" for part in report.sections if part.why]
    return {
        "preprocessing_and_hyperparameter_tuning": (
            "Cells are moved into public bounds, row by row. Parameters come from public facts; "
            f"{FILL}whether anybody looked at the data before choosing them"
        ),
        "mechanisms": "\n".join([*laws, *how]),
        "justification": "\n".join(why)
        + f"\n- epsilon = {text_up(report.total.epsilon)}: {FILL}why this much",
    }
