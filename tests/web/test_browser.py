"""The page in a real browser: five tasks from end to end, and every way to ask twice."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.web.browser import NEEDS_BROWSER, button, on_disk, opened, to
from tests.web.conftest import CANARY, COUNT, MEAN, TOKEN

from tightdp.ledger import Ledger
from tightdp.plans import Plan
from tightdp.web import releases

pytestmark = NEEDS_BROWSER
PROGRAM = Path(__file__).with_name("killed_page.py")
WAITS = {"errors": ".drawn .tdp-chart", "release": ".good-sheet", "ledger": "#content table"}
STEPS = ("data", "facts", "questions", "errors", "release", "ledger")


def add(page, kind):
    page.get_by_label("Kind of question").select_option(kind)
    button(page, "Add a question").click()
    return page.locator("section.question").last


def release(page):
    """See the costs, agree, wait for the numbers."""
    to(page, "release")
    page.locator("#release").click()
    button(page, "Yes, spend it").click()
    page.wait_for_selector(".good-sheet")


def spent(folder, name="survey.ledger"):
    with Ledger.open(folder / name, read_only=True) as ledger:
        ledger.verify()
        return float(ledger.spent.epsilon), [row.key for row in ledger.history()]


def numbers(page):
    """The published cells, without the words around them."""
    return page.locator("#results .tdp-scroll").all_inner_texts()


# --- five tasks ----------------------------------------------------------------------------------


def test_a_two_way_table_from_a_file_by_hand(page, folder):
    page.get_by_label("CSV or Parquet file").select_option("survey.csv")
    assert "answer" not in page.content()  # not even names, before it is said that these are names
    page.get_by_label("The first line").select_option("names")
    page.get_by_text("4 columns were found").wait_for()
    button(page, "Next: Public facts").click()
    page.get_by_label("Number of rows").fill("400")
    for name, levels in (("answer", "no\nyes"), ("region", "north\nsouth")):
        page.get_by_label(f"{name}: What is it?").select_option("category")
        card = page.locator(".column", has=page.get_by_text(name, exact=True))
        assert card.get_by_label("Levels").input_value() == ""  # nothing is read off the data
        card.get_by_label("Levels").fill(levels)
        card.get_by_label("Level of empty").fill(levels.split("\n")[0])
    to(page, "questions")
    add(page, "count").get_by_label("columns", exact=False).first.fill("answer:region")
    to(page, "errors")
    page.wait_for_selector(".preview td")
    page.get_by_label("epsilon of this question").fill("0.5")
    page.get_by_label("epsilon of this question").press("Tab")
    page.wait_for_selector("html[data-previewed$=' 0.5']")
    release(page)
    assert "answer=" in "".join(numbers(page)) or "region=" in "".join(numbers(page))
    assert spent(folder, "plan.ledger") == (0.5, ["Counts"])
    with page.expect_download() as file:
        button(page, "Report (HTML)").click()
    assert Path(file.value.path()).read_text().startswith("<!doctype html>")


def test_a_mean_by_group(context, address, folder):
    on_disk(folder)
    page = opened(context, address)
    page.get_by_text("4 columns were found").wait_for()
    to(page, "questions")
    card = add(page, "mean")
    card.get_by_role("group", name="columns").get_by_label("pay").check()
    card.get_by_role("group", name="by").get_by_label("region", exact=True).check()
    to(page, "errors")
    page.wait_for_selector(".preview td")
    page.locator("#epsilon-slider").press("ArrowRight")
    release(page)
    assert "north" in "".join(numbers(page))
    assert spent(folder)[1] == ["Means"]


def test_a_regression_with_intervals(context, address, folder):
    on_disk(folder)
    page = opened(context, address, "questions")
    card = add(page, "linear_regression")
    card.get_by_role("group", name="features").get_by_label("age").check()
    card.get_by_label("target").select_option("pay")
    release(page)
    said = "".join(numbers(page))
    assert "intercept" in said
    assert "95" in said
    assert re.search(r"\d to |\[", said)


def test_a_synthetic_table(context, address, folder):
    on_disk(folder)
    page = opened(context, address, "questions")
    card = add(page, "synthetic_rows")
    card.get_by_role("group", name="columns").get_by_label("answer").check()
    card.get_by_role("group", name="columns").get_by_label("region").check()
    card.get_by_label("tables").fill("answer, region")
    release(page)
    with page.expect_download() as file:
        button(page, "Rows of Synthetic table").click()
    made = Path(file.value.path()).read_text().splitlines()
    assert made[0] == "answer,region"
    assert len(made) > 300


def test_a_second_release_is_refused_at_the_cap(context, address, folder):
    on_disk(folder, MEAN, epsilon=1)
    page = opened(context, address)
    release(page)
    to(page, "questions")
    add(page, "count").get_by_label("columns", exact=False).first.fill("answer")
    release(page)
    page.get_by_text("Paid for now: Counts").wait_for()
    to(page, "questions")
    add(page, "mean").get_by_label("Name", exact=True).fill("again")
    to(page, "release")
    page.get_by_text("over budget").first.wait_for()
    assert page.locator("#release").count() == 0
    assert spent(folder) == (1.0, ["means", "Counts"])


# --- asking twice --------------------------------------------------------------------------------


def test_double_clicks_pay_once(context, address, folder):
    on_disk(folder, MEAN)
    page = opened(context, address, "release")
    page.locator("#release").press("Enter")
    page.keyboard.press("Enter")  # that of an impatient finger, and no yes
    page.wait_for_timeout(200)
    assert not (folder / "survey.ledger").exists()
    button(page, "Yes, spend it").dblclick()
    page.wait_for_selector(".good-sheet")
    button(page, "Show the stored release").dblclick()
    page.get_by_text("nothing was spent now").wait_for()
    assert spent(folder) == (0.5, ["means"])


def test_reloading_in_the_middle_pays_once_and_shows_the_numbers(
    context, address, folder, monkeypatch
):
    gate, real = threading.Event(), releases.Report.of_plan

    def slow(*given):
        gate.wait(10)
        return real(*given)

    monkeypatch.setattr(releases.Report, "of_plan", slow)
    on_disk(folder, MEAN)
    page = opened(context, address, "release")
    page.locator("#release").click()
    button(page, "Yes, spend it").click()
    page.get_by_text("Releasing 1 of 1").wait_for()
    page.reload()
    page.get_by_text("Releasing 1 of 1").wait_for()
    gate.set()
    page.wait_for_selector(".good-sheet")
    first = numbers(page)
    page.go_back()  # to the step before; and forward again
    page.go_forward()
    page.wait_for_selector(".good-sheet")
    assert numbers(page) == first
    assert spent(folder) == (0.5, ["means"])


def test_two_tabs_pay_once(context, address, folder):
    on_disk(folder, MEAN, COUNT)
    tabs = [opened(context, address, "release") for _ in range(2)]
    for tab in tabs:
        tab.locator("#release").click()
    for tab in tabs:
        button(tab, "Yes, spend it").click()
    for tab in tabs:
        tab.wait_for_selector(".good-sheet")
    assert numbers(tabs[0]) == numbers(tabs[1])
    assert spent(folder) == (1.0, ["means", "answers"])


def test_the_back_button_goes_back_a_step(page):
    for step in ("facts", "questions"):
        to(page, step)
    page.go_back()
    assert page.get_by_role("heading", name="Public facts").is_visible()
    assert page.url.endswith("#facts")
    assert TOKEN not in page.url


def started(point, folder):
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), point, str(folder / "plan.toml")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    with program.stdout as said:
        return program, said.readline().strip()


@pytest.mark.parametrize("point", ["stored", "paid"])
def test_a_server_that_is_killed_after_the_payment_is_paid_once(chromium, folder, point):
    on_disk(folder, MEAN)
    context = chromium.new_context()
    context.set_default_timeout(15_000)
    program, address = started(point, folder)
    with program, context:
        page = opened(context, address, "release")
        page.locator("#release").click()
        button(page, "Yes, spend it").click()
        page.get_by_text("The server does not answer").first.wait_for()
        assert program.wait(10) == -9
        assert spent(folder) == (0.5, ["means"])
        again, address = started("never", folder)
        try:
            page = opened(context, address, "release")
            page.locator("#release").click()
            if point == "stored":
                page.get_by_text("nothing was spent now").wait_for()
                answer = Plan.read(folder / "plan.toml").release().answers["means"]
                shown = "".join(numbers(page))
                assert all(answer.cells(i)[0] in shown for i in range(2))
            else:
                page.get_by_text("is burned").first.wait_for()
            assert spent(folder) == (0.5, ["means"])
        finally:
            again.kill()
            again.wait()


# --- looks ---------------------------------------------------------------------------------------


@pytest.fixture
def released(context, address, folder):
    on_disk(folder, MEAN, COUNT)
    page = opened(context, address)
    release(page)
    return page


def settle(page, step):
    to(page, step)
    page.wait_for_load_state("networkidle")
    if step in WAITS:
        page.wait_for_selector(WAITS[step])


def test_nothing_serious_for_readers_with_other_means(released):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []
    for step, colours in itertools.product(STEPS, ("light", "dark")):
        settle(released, step)
        released.emulate_media(color_scheme=colours)
        found += [
            (step, wrong["id"], [node["html"][:120] for node in wrong["nodes"]])
            for wrong in axe.run(released).response["violations"]
            if wrong["impact"] in ("serious", "critical")
        ]
    assert found == []


def test_every_width_holds_the_page(released):
    """With TIGHTDP_SHOTS=folder, pictures of all steps are written there."""
    shots = os.environ.get("TIGHTDP_SHOTS")
    for step, width in itertools.product(STEPS, (400, 1024, 1600)):
        released.set_viewport_size({"width": width, "height": 900})
        if width == 400:
            settle(released, step)
        wide = released.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (step, wide)
        for colours in ("light", "dark") if shots else ():
            released.emulate_media(color_scheme=colours)
            place = Path(shots, f"{step}-{width}-{colours}.png")
            released.screenshot(path=place, full_page=True)


def test_the_keyboard_is_enough(context, address):
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "radio":
            break
    page.keyboard.press("ArrowDown")
    assert page.get_by_label("A folder of Parquet files").is_checked()


def test_storage_holds_no_cell_and_names_with_html_are_text(context, address, folder):
    evil = "<img src=x onerror=alert(1)>"
    rows = (folder / "survey.csv").read_text().replace("age,", f"{evil},", 1)
    (folder / f"{evil}.csv").write_text(rows)
    on_disk(folder, MEAN)
    page = opened(context, address)
    page.get_by_label("CSV or Parquet file").select_option(f"{evil}.csv")
    page.get_by_label("The first line").select_option("names")
    page.get_by_text("4 columns were found").wait_for()
    to(page, "facts")
    button(page, "Look at the cells").click()
    page.wait_for_selector(".not-private, .problem[role=alert]")
    assert page.locator("img").count() == 0
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert str(CANARY) not in kept
    assert "NOT PRIVATE" not in kept
    assert context.cookies() == []
