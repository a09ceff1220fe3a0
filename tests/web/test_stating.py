"""In a real browser: tables that are no CSV with a header, second thoughts, and the way in."""

from __future__ import annotations

import json
import threading
from copy import deepcopy

import pytest
from tests.web.browser import NEEDS_BROWSER, button, on_disk, opened, to
from tests.web.conftest import COUNT, MEAN, plan

from tightdp.plans.toml_text import to_toml
from tightdp.web import releases

pytestmark = NEEDS_BROWSER

# --- tables that are no CSV with a header ---------------------------------------------------------


@pytest.mark.parametrize("name", ["bare.data", "bare.csv"])
def test_a_file_without_a_header_is_stated_and_its_first_line_never_shown(page, folder, name):
    (folder / name).write_text("alice berlin\nbob paris\n", "latin-1")
    page.reload()
    page.get_by_label("CSV or Parquet file").select_option(name)
    page.wait_for_timeout(200)
    page.reload()  # the question is asked again, and nothing is read in between
    page.get_by_label("The first line").wait_for()
    assert page.get_by_label("The first line").input_value() == ""
    assert "alice" not in page.content() + page.evaluate("sessionStorage['tightdp-plan']")
    page.get_by_label("The first line").select_option("record")
    page.get_by_label("What divides its cells").select_option(" ")
    page.get_by_label("How letters are stored").select_option("latin-1")
    page.get_by_label("Names of the columns").fill("who, town")
    page.get_by_text("2 columns").wait_for()
    kept = page.evaluate("sessionStorage['tightdp-plan']")
    assert '"names":["who","town"]' in kept
    assert '"delimiter":" "' in kept
    assert '"encoding":"latin-1"' in kept
    page.get_by_label("Widths of the columns").fill("6, 8")
    assert '"widths":[6,8]' in page.evaluate("sessionStorage['tightdp-plan']")
    page.get_by_text("2 columns").wait_for()
    page.get_by_label("Widths of the columns").fill("")
    assert "widths" not in page.evaluate("sessionStorage['tightdp-plan']")
    page.get_by_label("Names of the columns").fill("3")
    page.get_by_text("3 columns").wait_for()
    page.get_by_label("Names of the columns").fill("constructor, __proto__")  # names like others
    to(page, "facts")
    for name in ("constructor", "__proto__"):
        kind = page.get_by_label(f"{name}: What is it?")
        assert kind.input_value() == ""
        kind.select_option("number")
        assert f'"{name}":{{}}' in page.evaluate("sessionStorage['tightdp-plan']")
    assert "alice" not in page.content() + page.evaluate("sessionStorage['tightdp-plan']")


def test_dates_are_stated_and_grouped_by_a_unit(page, folder):
    days = [f"2014-{1 + i % 12:02}-15" for i in range(120)]
    (folder / "sales.csv").write_text("sold,shop\n" + "\n".join(f"{d},a" for d in days) + "\n")
    page.reload()
    page.get_by_label("CSV or Parquet file").select_option("sales.csv")
    page.get_by_label("The first line").select_option("names")
    page.get_by_text("2 columns").wait_for()
    to(page, "facts")
    page.get_by_label("Number of rows").fill("120")
    page.get_by_label("sold: What is it?").select_option("date")
    page.get_by_label("First day").fill("0201-01-01")  # while the year is typed
    assert '"sold":{"unit":"month"}' in page.evaluate("sessionStorage['tightdp-plan']")
    page.get_by_label("First day").fill("2014-01-01")
    page.get_by_label("Last day").fill("2014-12-31")
    to(page, "questions")
    to(page, "facts")
    assert page.get_by_label("sold: What is it?").input_value() == "date"
    to(page, "questions")
    page.get_by_label("Kind of question").select_option("count")
    button(page, "Add a question").click()
    card = page.locator("section.question").last
    card.get_by_label("groups of sold").select_option("quarter")
    card.get_by_role("group", name="by").get_by_label("sold", exact=True).check()
    to(page, "errors")
    page.get_by_text("2014-Q3").first.wait_for()
    kept = page.evaluate("sessionStorage['tightdp-plan']")
    assert '"sold":{"unit":"month","low":"2014-01-01","high":"2014-12-31"}' in kept
    assert '"by":[["sold","quarter"]]' in kept


def test_forms_say_what_was_typed(context, address, folder):
    """Levels as the column has them, lists with a bar, and a number whose unit is that of dates."""
    record = deepcopy(plan())
    columns = record["schema"]["columns"]
    columns |= {"wave": {"levels": [1, 2]}, "age": {"low": 0, "high": 100, "unit": "day"}}
    columns["answer"]["levels"] = ["1", "2", "no"]
    (folder / "plan.toml").write_text(to_toml(record))
    page = opened(context, address, "questions")

    def add(kind):
        page.get_by_label("Kind of question").select_option(kind)
        button(page, "Add a question").click()
        return page.locator("section.question").last

    card = add("share")
    card.get_by_label("column (needed)").select_option("wave")
    card.get_by_label("levels").fill("1, 2")
    card = add("tables")
    card.get_by_label("tables (needed)").fill("answer, region")
    card.locator("summary").click()
    card.get_by_label("means").fill("age, pay | region")
    card.get_by_label("public").fill("answer | 5, 6, 7, 8")
    card.get_by_label("rho").fill("0.1")
    to(page, "facts")
    card = page.locator(".column", has=page.get_by_text("age", exact=True))
    card.get_by_label("Lowest").fill("")
    card = page.locator(".column", has=page.get_by_text("wave", exact=True))
    card.get_by_label("Levels").fill("1\n2\n3")
    to(page, "questions")
    to(page, "facts")
    assert page.get_by_label("age: What is it?").input_value() == "number"
    kept = json.loads(page.evaluate("sessionStorage['tightdp-plan']"))["plan"]
    share, book = kept["releases"]
    assert share["levels"] == [1, 2]
    assert book["means"] == [[["age", "pay"], ["region"]]]
    assert book["public"] == [[["answer"], [5, 6, 7, 8]]]
    assert (book["rho"], "weight" in book) == ("0.1", False)
    assert kept["schema"]["columns"]["wave"]["levels"] == [1, 2, 3]


def test_a_query_and_a_folder_of_parquet_files(page, folder):
    duckdb = pytest.importorskip("duckdb")
    (folder / "parts").mkdir()
    place = folder / "parts" / "a.parquet"
    duckdb.sql(f"COPY (SELECT 41 AS age, 'no' AS answer) TO '{place}' (FORMAT parquet)")
    late = []  # the first list of files comes after the second
    page.route("**/api/files", lambda route: route.continue_() if late else late.append(route))
    page.reload()
    page.get_by_label("A folder of Parquet files").check()
    page.get_by_label("Folder", exact=True).wait_for()
    with page.expect_response("**/api/files"):
        late[0].continue_()
    page.wait_for_timeout(200)
    assert page.get_by_label("Folder", exact=True).is_visible()
    page.get_by_label("Folder", exact=True).select_option("parts")
    page.get_by_text("2 columns").wait_for()
    page.get_by_label("A DuckDB query").check()
    page.get_by_label("One SELECT").fill(f"SELECT age + 1 AS next FROM '{place}'")
    button(page, "Read names and types").click()
    page.get_by_text("1 column was found").wait_for()
    assert page.get_by_role("row", name="next number").is_visible()


# --- before the payment ---------------------------------------------------------------------------


def test_a_target_error_gives_epsilon_back(context, address, folder):
    on_disk(folder, COUNT)
    page = opened(context, address, "errors")
    page.wait_for_selector(".preview td")
    page.get_by_label("All entries within").fill("5")
    button(page, "Find epsilon").click()
    page.get_by_text("This needs epsilon").wait_for()
    found = page.get_by_label("epsilon of this question").input_value()
    assert found != "0.5"
    to(page, "release")
    page.get_by_role("button", name=f"spend epsilon = {found}").wait_for()


def test_what_is_found_for_one_question_is_not_set_for_another(context, address, folder):
    """Before: an epsilon that came late was that of the question that was chosen by then."""
    on_disk(folder, MEAN, COUNT)
    page = opened(context, address, "errors")
    page.wait_for_selector(".preview td")
    late = []
    page.route("**/api/needed", lambda route: late.append(route))
    page.get_by_label("All entries within").fill("0.01")
    with page.expect_request("**/api/needed"):
        button(page, "Find epsilon").click()
    page.get_by_label("Question", exact=True).select_option("answers")
    with page.expect_response("**/api/needed"):
        late[0].continue_()
    page.wait_for_timeout(200)
    assert page.get_by_label("epsilon of this question").input_value() == "0.5"
    kept = json.loads(page.evaluate("sessionStorage['tightdp-plan']"))["plan"]["releases"]
    assert [one["epsilon"] for one in kept] == [0.5, 0.5]


def test_a_release_is_stopped_before_it_is_paid_for(context, address, folder, monkeypatch):
    gate, real = threading.Event(), releases.Plan.states

    def slow(self):
        if threading.current_thread().name.endswith("(_run)"):
            gate.wait(10)
        return real(self)

    monkeypatch.setattr(releases.Plan, "states", slow)
    on_disk(folder, MEAN)
    page = opened(context, address, "release")
    page.locator("#release").click()
    button(page, "Yes, spend it").click()
    button(page, "Stop before the next payment").click()
    gate.set()
    page.get_by_text("Stopped. What was not paid for").wait_for()
    assert not (folder / "survey.ledger").exists()


def test_what_is_sent_is_what_was_agreed_to(context, address, folder):
    on_disk(folder, MEAN)
    page = opened(context, address, "release")
    page.locator("#release").wait_for()
    page.get_by_text("Plan", exact=True).click()
    page.get_by_label("File of the plan").fill("elsewhere.toml")
    page.get_by_label("File of the plan").press("Tab")
    page.keyboard.press("Escape")
    page.locator("#release").click()
    with page.expect_request("**/api/release") as sent:
        button(page, "Yes, spend it").click()
    assert sent.value.post_data_json["file"] == "plan.toml"
    page.wait_for_selector(".good-sheet")


# --- the way in -----------------------------------------------------------------------------------


def test_a_plan_that_cannot_be_read_asks_for_no_password(context, address, folder):
    (folder / "plan.toml").write_text("title = ")
    page = context.new_page()
    page.goto(address)
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Password").count() == 0
    on_disk(folder, MEAN)
    page.reload()
    page.wait_for_selector("html[data-ready]")


def test_a_plan_that_was_changed_on_disk_is_opened_again(context, address, folder):
    on_disk(folder, MEAN)
    page = opened(context, address)
    on_disk(folder, MEAN, COUNT)
    page.get_by_text("Plan", exact=True).click()
    page.get_by_label("Title of the plan").fill("mine")
    button(page, "Save the plan").click()
    page.get_by_text("was changed since").wait_for()
    page.get_by_label("Open a plan").select_option("plan.toml")
    to(page, "questions")
    page.wait_for_selector("section.question >> nth=1")
