"""Reports: complete, self-contained, escaped, and the same numbers in every form."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import tightdp as tdp
from tightdp import plots
from tightdp.errors import ParameterError
from tightdp.plans import Plan
from tightdp.plots import canvas
from tightdp.report import Report, page, pictures

PLAN = """
title = "Ages <b>& answers"
[data]
file = "table.csv"
[schema]
rows = 300
columns.age = {low = 0, high = 100}
columns.pay = {low = -5, high = 5}
columns."a<i>" = {levels = ["no|", "<script>yes"], other = "no|"}
[budget]
epsilon = 3
ledger = "ledger.db"
[[releases]]
name = "means <u>"
kind = "mean"
columns = ["age", "pay"]
weight = 1
[[releases]]
name = "answers"
kind = "count"
columns = ["a<i>"]
weight = 1
[[releases]]
name = "ages"
kind = "histogram"
column = "age"
bins = 40
weight = 1
[[releases]]
name = "median"
kind = "median"
column = "age"
weight = 1
[[releases]]
name = "line"
kind = "linear_regression"
target = "pay"
features = ["age"]
weight = 1
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    rows = [f"{i / 3},{i % 7 - 3},{'no|' if i % 4 else '<script>yes'}" for i in range(300)]
    (folder / "table.csv").write_text("age,pay,a<i>\n" + "\n".join(rows) + "\n")
    (folder / "plan.toml").write_text(PLAN)
    plan = Plan.read(folder / "plan.toml")
    return Report.of_plan(plan, plan.release())


class Page(HTMLParser):
    """Tags that are opened and closed, and everything that could load something."""

    VOID = ("meta", "br", "img", "input", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.loads, self.words = [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.loads += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_and_loads_nothing(report):
    text = report.html()
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert not {"script", "link", "iframe", "img", "object"} & page.tags
    assert not re.findall(r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text)


def test_names_from_outside_cannot_become_markup(report):
    for text in (report.html(), report._repr_html_()):
        assert "<script>" not in text
        assert "means <u>" not in text
        assert "&lt;script&gt;yes" in text
    assert "| a\\<i\\>\\[no\\|\\] |" in report.markdown()


def test_levels_cannot_become_links():
    level = "[call](https://evil.example) ![x](y) <https://e> www.e.org `c` \x1b[2J"
    schema = tdp.Schema({"k": tdp.Category(["a", level])}, rows=3)
    release = tdp.count({"k": ["a", "a", level]}, ["k"], schema=schema, epsilon=1)
    text = Report.of(release, title=level).markdown()
    for link in ("](", "https://", "www.e", "<h", "`c", "![", "\x1b"):
        assert not re.search(rf"(?<!\\){re.escape(link)}", text), link
    assert r"\[call\](https\://evil.example)" in text


def test_every_picture_is_valid_and_has_a_text(report):
    pictures = re.findall(r"<svg.*?</svg>", report.html(), flags=re.S)
    assert len(pictures) >= 6
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("aria-label")
        width, height = map(float, root.get("viewBox").split()[2:])
        for item in root.iter():
            assert "nan" not in " ".join(item.attrib.values())
            for name, most in (("x", width), ("cx", width), ("y", height + 1), ("cy", height)):
                assert 0 <= float(item.get(name, 0)) <= most, (item.tag, item.attrib)


def test_all_that_is_promised_is_said(report):
    words = " ".join(Page(report.html()).words)
    for said in (
        "The guarantee",
        "What somebody can learn about you",
        "Why this noise",
        "convex hull",
        "What was public",
        "Receipt",
        "How to cite",
        "epsilon = 3",
        "e^3 = 20.1 times",
        "tightdp ledger verify ledger.db",
    ):
        assert said in words, said
        assert said in report.markdown() or said in ("Why this noise", "convex hull")
    for section in report.sections:
        for value in section.answer.rows()[1:]:
            assert value[1] in words
            assert value[1] in report.markdown()


def test_no_heading_is_said_twice(report):
    assert report.markdown().count("| column | kind | rule |") == 1
    assert report.html().count("<th>column</th>") == 1


def test_the_numbers_are_the_same_in_json(report, tmp_path):
    report.save(tmp_path / "r.json")
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["guarantee"]["epsilon"] == 3
    for section, part in zip(report.sections, record["releases"], strict=True):
        np.testing.assert_array_equal(section.answer.value, part["value"])
        stored = tdp.Release.from_dict(part["release"])
        assert stored.integers == section.release.integers
    assert record["releases"][3]["low"] == [None]  # no interval was paid for
    assert [p.entry for p in report.payments] == [2, 4, 6, 8, 10]


def test_seeded_noise_is_shouted():
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3)
    release = tdp.sum({"x": [0.1, 0.2, 0.9]}, ["x"], schema=schema, epsilon=1, rng=1)
    report = Report.of(release)
    assert "Not private" in report.html()
    assert "Not private" in report.markdown()
    assert "No ledger was charged" in report.html()


def test_a_fitted_estimator_has_a_report(seed):
    x = np.linspace(-1, 1, 500)
    model = tdp.LinearRegression(bounds=[(-1, 1), (-3, 3)], random_state=seed).fit(x[:, None], x)
    report = Report.of(model, title="A line")
    assert "-1, 1]" in report.html()
    assert report.sections[0].answer.names == ("intercept", "x0")
    np.testing.assert_array_equal(report.sections[0].answer.value[1:], model.coef_)


@pytest.mark.parametrize("release", [tdp.sum, tdp.count])
@pytest.mark.parametrize("length", [3, 31, 90])
def test_no_name_in_a_picture_reaches_beyond_its_edge(release, length, seed):
    names = ["P" * length, "Q" * length]
    facts = {tdp.sum: tdp.Interval(0, 1), tdp.count: tdp.Category([0, 1], other=0)}[release]
    schema = tdp.Schema(dict.fromkeys(names, facts), rows=2)
    table = {name: [0.0, 1.0] for name in names}
    page = Report.of(release(table, names[:1], schema=schema, epsilon=1, rng=seed)).html()
    ends = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="end"[^>]*>(P[^<]*)<', page)
    assert ends
    for x, text in ends:
        assert float(x) - 8.2 * len(text) > 0  # as wide as a bold letter of 13 pixels is on average
        assert len(text) >= min(length, 31)


def test_delta_is_in_words_and_symbols():
    schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=3)
    mechanism = tdp.AdditiveMechanism(tdp.Counts(schema), noise="gaussian", epsilon=1, delta=1e-6)
    report = Report.of(mechanism.release({"k": ["a", "b", "a"]}))
    assert "1e-06" in report.guarantee_words()
    assert "<mn>1e-06</mn>" in report.html()
    assert "1e-06" in report.citation()


def test_a_report_is_written_whole_or_refused(report, tmp_path):
    for name in ("r.html", "r.md", "r.json"):
        assert report.save(tmp_path / name).read_text()
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(ParameterError, match=r"\.html"):
        report.save(tmp_path / "r.pdf")
    with pytest.raises(ParameterError, match="folder"):
        report.save(tmp_path / "none" / "r.html")
    with pytest.raises(ParameterError, match="what"):
        Report.of(3)


def test_a_page_is_the_same_every_time(report):
    assert report.html() == report.html()


def test_a_report_needs_no_library_to_draw():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import tightdp as tdp\n"
        "schema = tdp.Schema({'k': tdp.Category(['a', 'b'], other='a')}, rows=4)\n"
        "counts = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1)\n"
        "page = tdp.Report.of(counts.release({'k': ['a', 'b', 'a', 'a']}, rng=1)).html()\n"
        "sys.exit(page.count('<svg') != 2)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reports_and_plots_share_their_colours():
    assert canvas.ACCENT in page.STYLE
    assert canvas.COOL in page.STYLE
    assert canvas.ACCENT in pictures.ACCENT
    assert plots.plot_power(1.0).lines[0].get_color() == canvas.ACCENT
