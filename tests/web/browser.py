"""A real browser over the page, and the steps that all tests with one take."""

from __future__ import annotations

import shutil

import pytest
from tests.web.conftest import plan

from tightdp.plans.toml_text import to_toml

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium to test the page in one"
)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--no-first-run", "--disable-dev-shm-usage"]  # fmt: skip


def opened(context, address, step="data"):
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    return to(page, step)


def to(page, step):
    page.locator(f"nav a[data-step={step}]").click()
    page.wait_for_function("s => location.hash === '#' + s", arg=step)
    return page


def on_disk(folder, *questions, epsilon=2):
    (folder / "plan.toml").write_text(to_toml(plan(*questions, epsilon=epsilon)))


def button(page, name):
    return page.get_by_role("button", name=name)
