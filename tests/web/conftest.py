"""A folder with a table and a plan, and a page over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tightdp.web import server
from tightdp.web.app import make_app
from tightdp.web.guard import Keys, allowed_hosts
from tightdp.web.workspace import Workspace

HOST = "127.0.0.1:8000"
TOKEN = "0123456789abcdef"
CANARY = 7319  # a cell that must be nowhere

SCHEMA: dict[str, Any] = {
    "rows": 400,
    "columns": {
        "age": {"low": 0, "high": 100},
        "pay": {"low": 0, "high": 10000},
        "answer": {"levels": ["no", "yes"], "other": "no"},
        "region": {"levels": ["north", "south"], "other": "north"},
    },
}


def plan(*releases: dict[str, Any], epsilon: Any = 2, ledger: str = "survey.ledger") -> Any:
    """A plan as the page holds it."""
    return {
        "title": "A survey",
        "data": {"file": "survey.csv"},
        "schema": SCHEMA,
        "budget": {"epsilon": epsilon, "ledger": ledger, "confidence": 0.95},
        "releases": [dict(one) for one in releases],
    }


MEAN = {"name": "means", "kind": "mean", "columns": ["age", "pay"], "epsilon": 0.5}
COUNT = {"name": "answers", "kind": "count", "columns": ["answer:region"], "epsilon": 0.5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        f"{i % 100},{CANARY if i == 7 else 20 * i},{'yes' if i % 3 else 'no'},"
        f"{'north' if i % 2 else 'south'}"
        for i in range(400)
    ]
    home = tmp_path / "home"
    home.mkdir()
    (home / "survey.csv").write_text("age,pay,answer,region\n" + "\n".join(rows) + "\n")
    (tmp_path / "secret.csv").write_text("age\n41\n")
    return home


@pytest.fixture
def client(folder: Path) -> Any:
    """A browser that has the token."""
    app = make_app(Workspace([folder]), Keys(TOKEN), allowed_hosts("127.0.0.1", 8000))
    with TestClient(app, base_url=f"http://{HOST}", headers={"x-tightdp": TOKEN}) as browser:
        yield browser


Ask = Callable[..., Any]


@pytest.fixture
def ask(client: Any) -> Ask:
    """A question of the page; what is wrong is an error, unless a status is expected."""

    def post(act: str, status: int = 200, /, **body: Any) -> Any:
        body.setdefault("file", "plan.toml")
        found = client.post(f"/api/{act}", json=body)
        assert found.status_code == status, found.text
        return found.json()

    return post


@pytest.fixture
def release(ask: Ask) -> Ask:
    """Agrees to what is offered, releases, and waits."""

    def run(record: Any, **more: Any) -> Any:
        agreed = ask("offer", plan=record)["new"]
        job = ask("release", plan=record, agreed=agreed, **more)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if job["state"] not in ("checking", "running"):
                return job
            time.sleep(0.01)  # asking all the time would take the processor from the release
            job = ask("job", id=job["id"])
        raise AssertionError(job)

    return run


# --- a real browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    from tests.web import browser

    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=browser.QUIET)
        yield made
        made.close()


@pytest.fixture
def address(folder):
    """The page on a port of this machine, in a thread."""
    bound = server.listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = make_app(Workspace([folder]), Keys(TOKEN), allowed_hosts("127.0.0.1", port))
    made = server.make_server(app)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [bound]})
    thread.start()
    while not made.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}/#token={TOKEN}"
    made.should_exit = True
    thread.join(10)
    bound.close()


@pytest.fixture
def context(chromium, address):
    """A fresh browser; whatever it complains about, or loads from elsewhere, is an error."""
    made = chromium.new_context(viewport={"width": 1024, "height": 900}, accept_downloads=True)
    made.set_default_timeout(15_000)
    wrong: list[str] = []

    def watch(page):
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)

    made.on("page", watch)
    origin = address.split("#")[0]
    made.on(
        "request",
        lambda asked: None if asked.url.startswith((origin, "blob:")) else wrong.append(asked.url),
    )
    yield made
    made.close()
    assert [said for said in wrong if "422" not in said] == []


@pytest.fixture
def page(context, address):
    from tests.web import browser

    return browser.opened(context, address)
