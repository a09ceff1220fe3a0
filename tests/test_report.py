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
from tightdp.answer import Answer
from tightdp.compare import compare_noise
from tightdp.errors import ParameterError, TightdpError
from tightdp.plans import Plan, request
from tightdp.plots import canvas
from tightdp.report import Report, page, pictures, sections

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
    assert "| a\\<i\\> | value |" in report.markdown()
    assert "| no\\| |" in report.markdown()


def test_levels_cannot_become_links():
    level = "[call](https://evil.example) ![x](y) <https://e> www.e.org `c` \x1b[2J"
    schema = tdp.Schema({"k": tdp.Category(["a", level])}, rows=3)
    release = tdp.count({"k": ["a", "a", level]}, ["k"], schema=schema, epsilon=1)
    text = Report.of(release, title=level).markdown()
    for link in ("](", "https://", "www.e", "<h", "`c", "![", "\x1b"):
        assert not re.search(rf"(?<!\\){re.escape(link)}", text), link
    assert r"\[call\](https\://evil.example)" in text


def test_every_picture_is_valid_and_has_a_text(report):
    text = report.html()
    drawn = re.findall(r"<svg.*?</svg>", text, flags=re.S)
    assert len(drawn) >= 20
    assert len(re.findall(r'role="img" aria-label="[^"]+"', text)) >= 6
    for picture in drawn:
        root = ElementTree.fromstring(picture)
        assert root.get("aria-hidden") == "true" or root.get("aria-label")
        assert root.get("viewBox") is None  # nothing is shrunk, text least of all
        assert float(root.get("font-size")) >= 11
        height = float(root.get("height"))
        for item in root.iter():
            assert "nan" not in " ".join(item.attrib.values())
            assert float(item.get("font-size", 11)) >= 11
            for name in ("x", "x1", "x2"):
                if item.get(name, "").endswith("%"):
                    assert -1 <= float(item.get(name)[:-1]) <= 100, (item.tag, item.attrib)
            for name in ("y", "y1", "y2"):
                assert -1 <= float(item.get(name, 0)) <= height + 1, (item.tag, item.attrib)


def test_columns_are_as_high_as_their_bins_are_dense():
    schema = tdp.Schema({"x": tdp.Interval(0, 100, unit="years")}, rows=4000)
    rows = {"x": np.repeat([5.0, 15.0, 60.0], [1000, 2000, 1000])}
    release = tdp.histogram(rows, "x", schema=schema, epsilon=50, bins=[0, 10, 20, 100])
    drawn = pictures.draw(Answer.of(release), schema)
    boxes = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%" y="[\d.]+" height="([\d.]+)"', drawn)
    lefts, widths, heights = np.array(boxes, dtype=float).T
    np.testing.assert_allclose(lefts, [0, 10, 20])
    np.testing.assert_allclose(widths, [9.6, 9.6, 76.8])
    np.testing.assert_allclose(heights / heights[1], [0.5, 1, 1000 / 80 / 200], atol=0.01)
    assert "rows per unit of x (years): areas are counts" in drawn
    equal = tdp.histogram(rows, "x", schema=schema, epsilon=50, bins=4)
    assert ">rows<" in pictures.draw(Answer.of(equal), schema)


def test_intervals_are_seen_at_their_own_scale(report):
    """A mean of 50 with an interval of a hundredth of that fills its own axis."""
    schema = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=4000)
    release = tdp.mean({"x": np.full(4000, 50.0)}, ["x"], schema=schema, epsilon=1)
    ((left, right),) = re.findall(
        r'<rect x="([\d.]+)%" width="([\d.]+)%"', pictures.draw(Answer.of(release))
    )
    assert float(right) > 35
    assert float(left) < 50


def test_experts_find_the_law_and_others_are_spared(report):
    text = report.html()
    for section in report.sections:
        law = section.release.law()
        assert law not in str(section.release)
        assert law not in str(section.answer)
    folded = re.findall(r"<details><summary>For experts</summary>(.*?)</details>", text, flags=re.S)
    assert len(folded) == len(report.sections)
    assert all("The exact law of the noise" in part for part in folded)
    outside = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    assert "with weight" not in outside
    assert "Law:" in report.markdown().partition("## For experts")[2]


def test_units_are_said_below_printed_tables():
    rules = {"pay": tdp.Interval(0, 9, unit="EUR"), "age": tdp.Interval(0, 99, unit="years"),
             "day": tdp.Date("2014-01-01", "2014-01-31"), "n": tdp.Interval(0, 1),
             "sex": tdp.Category(["f", "m"], other="f")}  # fmt: skip
    schema = tdp.Schema(rules, rows=4)
    table = {"pay": [1, 2, 3, 4], "age": [5] * 4, "day": ["2014-01-02"] * 4, "n": [0] * 4,
             "sex": ["f", "m"] * 2}  # fmt: skip
    ask = {"schema": schema, "epsilon": 1}
    for found in (
        tdp.mean(table, ["pay", "age", "day", "n"], by="sex", **ask),
        tdp.sum(table, ["pay", "age", "n"], by="sex", **ask),
        tdp.sum(table, ["pay", "age"], **ask),
    ):
        for words in (str(found), found._repr_html_(), str(Answer.of(found))):
            assert "; pay in EUR, age in years" in words
    assert "; age in years" in str(tdp.median(table, "age", **ask))
    assert "in days since 2014-01-01" in str(tdp.sum(table, ["day"], **ask))
    assert " in " not in str(tdp.mean(table, ["n", "day"], **ask)).partition("epsilon")[2]
    assert "EUR" not in str(tdp.variance(table, ["pay"], **ask))  # it would be squared


def test_periods_of_dates_have_no_unit():
    """Before: the quarters of a table were headed "sold (days since 2014-01-01)"."""
    schema = tdp.Schema({"sold": tdp.Date("2014-01-01", "2014-12-31", unit="quarter")}, rows=9)
    answer = Answer.of(tdp.count({"sold": ["2014-05-01"] * 9}, ["sold"], schema=schema, epsilon=1))
    for part in (pictures.draw(answer, schema), page.tables(answer, schema)):
        assert "2014-Q2" in part
        assert "days since" not in part


def test_units_and_clamping_are_named(report):
    text = " ".join(Page(report.html()).words)
    assert "age below 0 counts as 0, above 100 as 100, and a missing one as 50" in text
    assert "a missing or unlisted a<i> counts as 'no|'" in text
    schema = tdp.Schema({"age": tdp.Interval(0, 100, unit="<i>years")}, rows=9)
    plain = tdp.Schema({"age": tdp.Interval(0, 100)}, rows=9)
    answer = Answer.of(tdp.mean({"age": [5] * 9}, ["age"], schema=schema, epsilon=1))
    for part in (pictures.draw(answer, schema), page.tables(answer, schema)):
        assert "age (&lt;i&gt;years)" in part
    asked = [tdp.AdditiveMechanism(tdp.Sums(s), epsilon=1).fingerprint() for s in (schema, plain)]
    assert asked[0] == asked[1]  # a unit is printed, and changes no request
    assert tdp.Schema.from_dict(schema.to_dict()) == schema
    with pytest.raises(ParameterError, match="unit"):
        tdp.Interval(0, 1, unit="a\nb")


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
    assert report.html().count('<th scope="col">column</th>') == 1


def test_an_interval_without_ends_is_json(tmp_path):
    facts = tdp.Schema({"x": tdp.Interval(-1, 1), "y": tdp.Interval(-1, 1)}, rows=200)
    rows = {"x": np.linspace(-0.01, 0.01, 200), "y": np.linspace(-1, 1, 200)}
    test = tdp.RegressionTest(facts, ["x"], "y", "x", epsilon=1)
    report = Report.of(test.release(rows, rng=1))
    report.save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (part,) = json.loads(text, parse_constant=pytest.fail)["releases"]
    assert (part["low"], part["high"]) == (["-inf", None], ["inf", None])
    assert np.isinf(tdp.Release.from_dict(part["release"]).interval[0]).all()


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
    assert "[-1 to 1]" in report.html()
    assert report.sections[0].answer.names == ("intercept", "x0")
    np.testing.assert_array_equal(report.sections[0].answer.value[1:], model.coef_)


@pytest.mark.parametrize("length", [3, 31, 90])
def test_names_are_whole_in_pictures(length, seed):
    """Names are text of the page, which breaks where there is no room."""
    name = "P" * length
    schema = tdp.Schema({name: tdp.Interval(0, 1)}, rows=2)
    found = tdp.sum({name: [0.0, 1.0]}, [name], schema=schema, epsilon=1, rng=seed)
    assert f'<span class="tdp-name">{name}</span>' in Report.of(found).html()


def test_a_report_is_made_again_from_the_ledger_alone(tmp_path):
    rows = [f"{i / 3},{i % 7 - 3},{'no|' if i % 4 else '<script>yes'}" for i in range(300)]
    (tmp_path / "table.csv").write_text("age,pay,a<i>\n" + "\n".join(rows) + "\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = Plan.read(tmp_path / "plan.toml")
    first = Report.of_plan(plan, plan.release())
    (tmp_path / "table.csv").unlink()
    (tmp_path / "plan.toml").unlink()
    again = Report.of_ledger(tmp_path / "ledger.db", title=first.title)
    assert again.html() == first.html()
    assert again.markdown() == first.markdown()
    assert again.to_dict() == first.to_dict()
    with pytest.raises(ParameterError, match="report"):
        again.save(tmp_path / "ledger.db")
    with tdp.Ledger(epsilon=1, path=tmp_path / "empty.db"), pytest.raises(TightdpError):
        Report.of_ledger(tmp_path / "empty.db")


def test_a_request_that_the_ledger_does_not_confirm_is_not_believed(tmp_path):
    """Planted: a stored request with another epsilon than was paid for."""
    schema = tdp.Schema({"x": tdp.Interval(0, 10, unit="m")}, rows=4)
    asked = request("mean", schema, epsilon=1, columns=["x"])
    for name, record in (("right", asked.to_json()), ("wrong", asked.at(2).to_json())):
        path = tmp_path / f"{name}.db"
        with tdp.Ledger(epsilon=1, path=path) as ledger:
            asked.mechanism.start({"x": [1] * 4}, ledger=ledger, asked=record).finish()
        (section,) = Report.of_ledger(path).sections
        assert (section.facts is not None) == (name == "right")


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
        "sys.exit(page.count('<svg') != 4)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reports_and_plots_share_their_colours():
    assert canvas.ACCENT in page.STYLE
    assert canvas.COOL in page.STYLE
    assert canvas.ACCENT in pictures.ACCENT
    assert plots.plot_power(1.0).lines[0].get_color() == canvas.ACCENT


def test_a_question_that_comes_again_is_compared_once(tmp_path, monkeypatch):
    """A thousand releases took 44 s to report, nearly all of it for the same comparisons."""
    asked: list[object] = []

    def counted(request, **options):
        asked.append(request)
        return compare_noise(request, **options)

    monkeypatch.setattr(sections, "compare_noise", counted)
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4\n")
    epsilons = {"a": 1, "b": 1, "c": 2, "d": 1}
    parts = [
        f'[[releases]]\nname = "{name}"\nkind = "sum"\nepsilon = {epsilon}\n'
        f'columns = ["{"y" if name == "d" else "x"}"]\n'
        for name, epsilon in epsilons.items()
    ]
    (tmp_path / "plan.toml").write_text(
        '[data]\nfile = "t.csv"\n[schema]\nrows = 2\ncolumns.x = {low = 0, high = 9}\n'
        'columns.y = {low = 0, high = 5}\n[budget]\nepsilon = 5\nledger = "l.db"\n' + "".join(parts)
    )
    plan = Plan.read(tmp_path / "plan.toml")
    found = {part.name: part for part in Report.of_plan(plan, plan.release()).sections}
    assert len(asked) == 3  # c has another epsilon, d another column
    for name, part in found.items():
        alone = compare_noise(plan[name].request.using(), confidence=plan.confidence)
        assert part.comparison is not None
        assert part.comparison.to_dict() == alone.to_dict()
    asked.clear()
    Report.of_ledger(tmp_path / "l.db")
    assert len(asked) == 3
