"""The record of a deployment against the schema of the public registry; the checklist of a report.

FIELDS restates, as facts, what github.com/opendp/deployments-registry-data asks of a record
(schemas/deployments-schema.yaml at 3e9c812a924c, July 2026): names, types, allowed values, what is
required. Nothing else is allowed there.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.report import checklist, deployment

TEXT: dict[str, Any] = {"type": str}
NAMES = {"type": list, "least": 1}


def one_of(*values: object) -> dict[str, Any]:
    return {"type": type(values[0]), "values": values}


def fields(required: tuple[str, ...] = (), **inner: Any) -> dict[str, Any]:
    return {"type": dict, "required": required, "fields": inner}


FIELDS = fields(
    ("url_slug", "status", "tier", "deployment"),
    url_slug=TEXT,
    status=one_of(
        "Converted",
        "Draft",
        "Pending",
        "Changes Required",
        "Approved",
        "Approved (Update Requested)",
        "Approved (Pending)",
    ),
    tier=one_of(1, 2, 3),
    deployment=fields(
        ("basic",),
        basic=fields(
            (
                "name",
                "data_curators",
                "description",
                "intended_use",
                "data_product_type",
                "data_product_region",
                "publication_date",
            ),
            name=TEXT,
            data_curators=NAMES,
            intended_use=TEXT,
            data_product_type=one_of(
                "Summary statistics",
                "Machine learning model",
                "Dataset",
                "Synthetic data",
                "Interactive API",
                "SQL queries",
            ),
            data_product_region=TEXT,
            description=TEXT,
            publication_date={"type": str, "date": True},
            data_product_sector=one_of(
                "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
            ),
        ),
        dp_variant=fields(
            variant_name=one_of(
                "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"
            ),
            data_domain=TEXT,
            unprotected_quantities=TEXT,
        ),
        privacy_loss=fields(
            privacy_unit=TEXT,
            privacy_unit_details=TEXT,
            privacy_parameters=fields(
                epsilon={"type": (int, float)},
                delta={"type": (int, float, str)},
                rho={"type": (int, float)},
            ),
            privacy_parameters_details={"type": object},
        ),
        deployment_model=fields(
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            model_name_details=TEXT,
            actors=TEXT,
            release_type=one_of("One release", "Many releases"),
            release_type_details=TEXT,
            data_source_type=one_of("Static", "Dynamic"),
            data_source_type_details={"type": object},
            access_type=one_of("Interactive", "Non-interactive"),
            access_type_details=TEXT,
        ),
        accounting=fields(post_processing=TEXT, composition=TEXT),
        implementation=fields(
            preprocessing_and_hyperparameter_tuning=TEXT, mechanisms=TEXT, justification=TEXT
        ),
        administrative=fields(
            ("registry_authors",), sources=TEXT, notes=TEXT, registry_authors=NAMES
        ),
    ),
)


def faults(value: Any, rule: dict[str, Any], where: str = "record") -> list[str]:
    """What is wrong with a record."""
    if not isinstance(value, rule["type"]):
        return [f"{where} is not a {rule['type']}"]
    found = []
    if "values" in rule and value not in rule["values"]:
        found.append(f"{where} is not one of {rule['values']}")
    if len(value) < rule.get("least", 0) if isinstance(value, list) else False:
        found.append(f"{where} is empty")
    if rule.get("date"):
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            found.append(f"{where} is no date")
    if "fields" in rule:
        found += [f"{where}.{name} is missing" for name in rule["required"] if name not in value]
        for name, each in value.items():
            if name not in rule["fields"]:
                found.append(f"{where}.{name} is not known")
            else:
                found += faults(each, rule["fields"][name], f"{where}.{name}")
    return found


@pytest.fixture
def reports():
    """One of each kind: pure, with delta, in rho, for persons, by a plan's ledger."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=50)
    table = {"x": np.linspace(0, 1, 50)}

    class InRho(tdp.KNormMedian):
        in_rho = True

    persons = tdp.Schema(
        {"x": tdp.Interval(0, 1)}, 50, neighbors="add-remove", person="id", rows_per_person=2
    )
    made = {
        "Pure DP": tdp.AdditiveMechanism(tdp.Sums(schema), epsilon=1),
        "Approximate DP": tdp.AdditiveMechanism(
            tdp.Sums(schema), noise="gaussian", epsilon=1, delta=1e-6
        ),
        "Zero-concentrated DP": InRho(schema, "x", epsilon=0.5),
        "persons": tdp.AdditiveMechanism(tdp.Sums(persons), epsilon=1),
    }
    found = {}
    for name, mechanism in made.items():
        with tdp.Ledger(rho=5, slack=1e-3, neighbors=mechanism.neighbors) as ledger:
            release = mechanism.release(table | {"id": np.arange(50)}, ledger=ledger)
        found[name] = tdp.Report.of(release, title=f"{name}: 'quotes' \"and\" more")
    return found


def test_records_are_what_the_registry_asks_for(reports):
    for name, report in reports.items():
        record = deployment.record(report)
        assert faults(record, FIELDS) == []
        said = record["deployment"]["dp_variant"]["variant_name"]
        assert said == ("Pure DP" if name == "persons" else name)
    loss = [deployment.record(report)["deployment"]["privacy_loss"] for report in reports.values()]
    assert loss[0]["privacy_parameters"] == {"epsilon": 1.0}
    assert loss[1]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert loss[2]["privacy_parameters"] == {"rho": 0.03125}
    assert loss[3]["privacy_unit"] == "person"


def test_the_yaml_reads_back_as_the_record(reports):
    yaml = pytest.importorskip("yaml")
    for report in reports.values():
        text, record = report.to_registry(), deployment.record(report)
        again = yaml.safe_load(text)
        assert faults(again, FIELDS) == []
        assert again["deployment"]["privacy_loss"] == record["deployment"]["privacy_loss"]
        assert again["deployment"]["basic"] == record["deployment"]["basic"]


def test_what_people_must_fill_in_is_listed(reports):
    text = reports["Pure DP"].to_registry()
    head = [line for line in text.splitlines() if line.startswith("#")]
    for field in ("data_curators", "intended_use", "data_product_region", "registry_authors"):
        assert any(field in line for line in head), field
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    listed = list(deployment.to_fill(deployment.record(reports["Pure DP"])))
    assert body.count(deployment.FILL) == len(listed) - 1  # and the day, which is not in words


@pytest.mark.parametrize(
    "title",
    ["a: b\n- c", "\u2028 tab\there", "'''", "#", "", "\x85\x7f", "  - x", "é: ü", "{[*&!|"],
)
def test_odd_titles_cannot_break_the_yaml(title):
    yaml = pytest.importorskip("yaml")
    schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=4)
    counts = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1)
    report = tdp.Report.of(counts.release({"k": ["a", "b", "a", "a"]}), title=title)
    assert faults(yaml.safe_load(report.to_registry()), FIELDS) == []


def test_the_schema_of_the_test_notices_faults(reports):
    record = deployment.record(reports["Pure DP"])
    record["deployment"]["basic"]["surprise"] = "x"
    record["deployment"]["basic"]["publication_date"] = "1/1/2026"
    record["tier"] = 0
    del record["status"]
    assert len(faults(record, FIELDS)) == 4


def test_a_seeded_release_is_not_registered():
    schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=4)
    release = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1).release(
        {"k": ["a", "b", "a", "a"]}, rng=1
    )
    with pytest.raises(tdp.ParameterError, match="not private"):
        tdp.Report.of(release).to_registry()


def test_the_checklist_is_in_every_form_and_says_what_is_left_to_people(reports):
    report = reports["Zero-concentrated DP"]
    items = checklist.checklist(report)
    topics = {item.topic for item in items}
    assert {"Parameters", "Unit of privacy", "Composition", "Trust model", "Security"} <= topics
    assert sum(item.by_hand for item in items) >= 4
    assert all(checklist.BY_HAND in item.answer for item in items if item.by_hand)
    assert all(item.question in report.markdown().replace("\\", "") for item in items)
    assert all(item.question in report.html() for item in items)
    assert [each["question"] for each in report.to_dict()["checklist"]] == [
        item.question for item in items
    ]
    assert "rho = 0.03125" in report.markdown()
