"""Reports: they say what was found, and survive JSON."""

from __future__ import annotations

import json
import math

import matplotlib
import numpy as np
import pytest

from tightdp import plots
from tightdp.audit import AuditReport, Finding, audit, audit_exact, audit_pmf
from tightdp.errors import DimensionError, ParameterError
from tightdp.exact.discrete_draws import discrete_laplaces
from tightdp.randomness import source

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def sampled(distance):
    rng = source(1)
    return audit(
        lambda x, size: x + discrete_laplaces(1, 1, size, rng),
        0,
        distance,
        epsilon=1.0,
        rng=rng,
        releases=4_000,
    )


REPORTS = {
    "samples": lambda: sampled(1),
    "samples, violated": lambda: sampled(3),
    "without noise": lambda: audit(lambda x, size: [x] * size, 0, 1, epsilon=1.0, delta=1e-3),
    "levels": lambda: audit_exact(lambda z: np.abs(z[:, 0]), [[1], [2]], 9, epsilon=1, rate=0.5),
    "probabilities": lambda: audit_pmf([3, 1], [1, 3], epsilon=1.0),
    "infinite": lambda: audit_pmf({"<a & b>": 1, "c": 9}, {"c": 1}, epsilon=1, delta=0.01),
}


@pytest.fixture(params=REPORTS)
def report(request):
    return REPORTS[request.param]()


def test_a_report_survives_json(report):
    text = json.dumps(report.to_dict(), allow_nan=False)
    again = AuditReport.from_dict(json.loads(text))
    assert again == report
    assert json.loads(text)["verdict"] == report.verdict
    assert str(again) == str(report)


def test_a_report_prints_as_a_table(report):
    text = str(report)
    assert text.startswith(report.verdict)
    assert f"epsilon = {report.epsilon:g}" in text
    assert all(found.event in text for found in report.findings)
    assert all(note in text for note in report.notes)
    assert report.event == report.findings[0].event
    assert max(found.epsilon_lower for found in report.findings) == report.epsilon_lower


def test_html_is_escaped(report):
    page = report._repr_html_()
    assert page.count("<tr>") == page.count("</tr>") == 1 + len(report.findings)
    assert "<a &" not in page
    assert report.verdict in page


def test_verdicts():
    assert bool(REPORTS["levels"]()) is True
    assert REPORTS["levels"]().verdict == "holds"
    assert REPORTS["probabilities"]().verdict == "violated"
    assert bool(REPORTS["probabilities"]()) is False
    assert REPORTS["samples"]().verdict == "no violation found"
    assert REPORTS["samples, violated"]().verdict == "violated"
    assert REPORTS["infinite"]().epsilon_lower == math.inf
    assert "Bonferroni" in str(REPORTS["samples"]())


def test_a_broken_record_is_refused():
    record = REPORTS["probabilities"]().to_dict()
    with pytest.raises(ParameterError, match="`record`"):
        AuditReport.from_dict({key: record[key] for key in record if key != "epsilon"})
    with pytest.raises(ParameterError, match="`kind`"):
        AuditReport.from_dict({**record, "kind": "guess"})
    with pytest.raises(ParameterError, match="`over`"):
        Finding(event="", family="", over="y", epsilon_lower=0.0, epsilon_seen=0.0)


# --- pictures -----------------------------------------------------------------------------------


def test_a_report_is_drawn(report, tmp_path):
    ax = plots.plot_audit(report)
    assert ax.get_title().startswith(report.verdict)
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(legend) == len(set(legend)) == 3
    ax.figure.savefig(tmp_path / "audit.png")
    page, ink = ax.figure.get_size_inches(), ax.figure.get_tightbbox()
    assert (ink.min > -0.01).all()
    assert (ink.max < page + 0.01).all()
    plt.close("all")


def test_the_bars_are_what_is_shown():
    report = REPORTS["samples, violated"]()
    _, given = plt.subplots()
    ax = plots.plot_audit(report, ax=given)
    assert ax is given
    widths = [bars[0].get_width() for bars in ax.containers]
    assert widths == [found.epsilon_lower for found in report.findings]
    plt.close("all")


def test_an_empty_report_cannot_be_drawn():
    record = {**REPORTS["probabilities"]().to_dict(), "findings": []}
    empty = AuditReport.from_dict(record)
    assert empty.event == ""
    with pytest.raises(DimensionError, match="`report` must hold at least one finding"):
        plots.plot_audit(empty)
    assert plt.get_fignums() == []
