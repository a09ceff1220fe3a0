"""The routes of the page: small questions about a plan, each answered in JSON."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Asked
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tightdp.answer import Answer
from tightdp.errors import BudgetError, LedgerError, TightdpError, fail
from tightdp.ledger import Ledger
from tightdp.plans.plan import Plan
from tightdp.plans.plan_text import PlanText, check
from tightdp.plans.python_text import to_python
from tightdp.plans.request import Request
from tightdp.plans.toml_text import to_toml
from tightdp.release import Release
from tightdp.report.look import STYLE
from tightdp.report.page import scroll, sheet
from tightdp.report.sections import of_answer
from tightdp.web import shown
from tightdp.web.demo import write_demo
from tightdp.web.guard import App, Guard, Keys
from tightdp.web.releases import Jobs, offer
from tightdp.web.workspace import Workspace

STATIC = Path(__file__).parent / "static"
_REMEMBERED = 8  # plans that were read and are looked at again while a slider moves

Body = dict[str, Any]
Act = Callable[[Body], Any]


class Page:
    """What the routes answer. One for every server."""

    def __init__(self, space: Workspace) -> None:
        self.space, self.jobs = space, Jobs()
        self._read: dict[str, PlanText] = {}

    # --- plans --------------------------------------------------------------------------------

    def start(self, body: Body) -> Body:
        """All that the page needs to begin."""
        space, file = self.space, self.space.plan
        there = space.place(file, "plan").exists()
        known = space.opened(file) if there else {"file": file, "plan": None, "base": None}
        return known | {
            "version": version("tightdp"),
            "folders": [str(folder) for folder in space.folders],
            "kinds": shown.kinds(),
            "jobs": [job.to_dict() for job in self.jobs.latest()[:1]],
        }

    def files(self, body: Body) -> Body:
        return self.space.files(_file(body))

    def open(self, body: Body) -> Body:
        return self.space.opened(_file(body))

    def save(self, body: Body) -> Body:
        return {"base": self.space.save(body.get("plan"), _file(body), body.get("base"))}

    def demo(self, body: Body) -> Body:
        return write_demo(self.space)

    def header(self, body: Body) -> Body:
        columns = self.space.header(body.get("data"), _file(body), body.get("stated"))
        return {"columns": [column._asdict() for column in columns] or None}

    def check(self, body: Body) -> Body:
        return shown.checked(self.space, body.get("plan"), _file(body))

    def curator(self, body: Body) -> Body:
        """What the schema makes of the cells: not private, shown once, stored nowhere."""
        found = self._found(body)
        if found.schema is None or found.frame is None:
            fail(found.noted[0][1] if found.noted else "Choose a table first.")
        return {"html": scroll(found.schema.check(found.frame)._repr_html_(), " tdp-left")}

    def export(self, body: Body) -> Body:
        """The plan as the file that the command line reads, or as a Python program."""
        text = self.space.text_of(body.get("plan"), _file(body))
        if body.get("form") != "python":
            return {"name": Path(text.name).name, "text": to_toml(text.record)}
        return {"name": f"{Path(text.name).stem}.py", "text": to_python(Plan.of(check(text)))}

    def _found(self, body: Body) -> PlanText:
        return self.space.read(body.get("plan"), _file(body))

    # --- errors before payment ----------------------------------------------------------------

    def preview(self, body: Body) -> Body:
        found, request = self._request(body)
        return shown.preview(found, request)

    def picture(self, body: Body) -> Body:
        found, request = self._request(body)
        return shown.picture(found, str(body.get("name")), request)

    def compare(self, body: Body) -> Body:
        found, request = self._request(body)
        return shown.compared(found, request)

    def needed(self, body: Body) -> Body:
        found, request = self._request(body)
        unit, assume = str(body.get("unit", "error")), body.get("assume") is True
        return {"epsilon": shown.needed(found, request, body.get("error"), unit, assume)}

    def _request(self, body: Body) -> tuple[PlanText, Request]:
        """A release by itself, at an epsilon: neither the others nor the budget hide its error."""
        alone = shown.alone(body.get("plan"), body.get("name"))
        asked = json.dumps([alone, _file(body)], sort_keys=True)
        found = self._read.get(asked)
        if found is None:
            found = self.space.read(alone, _file(body))
            self._read = {**dict(list(self._read.items())[1 - _REMEMBERED :]), asked: found}
        return found, shown.asked(found, body.get("epsilon"))

    # --- releases -----------------------------------------------------------------------------

    def offer(self, body: Body) -> Body:
        return offer(Plan.of(self._found(body)))

    def release(self, body: Body) -> Body:
        agreed = body.get("agreed")
        if not isinstance(agreed, list) or not all(isinstance(name, str) for name in agreed):
            fail("`agreed` must list the releases that may be paid for.")
        record, file, base = body.get("plan"), _file(body), body.get("base")
        text = self.space.text_of(record, file)
        job = self.jobs.start(text, agreed, lambda: self.space.save(record, file, base))
        return job.to_dict()

    def job(self, body: Body) -> Body:
        return self.jobs[str(body.get("id"))].to_dict()

    def cancel(self, body: Body) -> Body:
        job = self.jobs[str(body.get("id"))]
        job.cancelled.set()
        return job.to_dict()

    def download(self, body: Body) -> Body:
        job = self.jobs[str(body.get("id"))]
        name, kind, text = job.file(str(body.get("form")), str(body.get("release", "")))
        return {"name": name, "type": kind, "text": text}

    # --- ledger -------------------------------------------------------------------------------

    def ledger(self, body: Body) -> Body:
        return shown.ledger_view(self._found(body))

    def verify(self, body: Body) -> Body:
        return {"words": shown.verified(self._found(body))}

    def stored(self, body: Body) -> Body:
        """A release as the ledger keeps it; the table is not needed, and nothing is paid."""
        found, key = self._found(body), str(body.get("key"))
        if found.ledger is None or not found.ledger.exists():
            fail("There is no ledger yet.")
        with Ledger.open(found.ledger, read_only=True) as ledger:
            record = ledger.find(key)
        if record is None:
            fail("The ledger has no release of this key.")
        return {"html": sheet(of_answer(key, Answer.of(Release.from_dict(record))))}


_ACTS = (
    "start", "files", "open", "save", "demo", "header", "check", "curator", "export", "preview",
    "picture", "compare", "needed", "offer", "release", "job", "cancel", "download", "ledger",
    "verify", "stored",
)  # fmt: skip


def _file(body: Body) -> str:
    file = body.get("file")
    return file if isinstance(file, str) and file else fail("`file` must name the plan.")


def make_app(space: Workspace, keys: Keys, hosts: frozenset[str] | None) -> App:
    """The page with its guard, for a server."""
    page = Page(space)

    async def index(asked: Asked) -> Response:
        return FileResponse(STATIC / "index.html")

    async def style(asked: Asked) -> Response:
        return Response(STYLE, media_type="text/css")

    async def login(asked: Asked) -> Response:
        body = await _body(asked)
        given = body.get("password") if isinstance(body, dict) else None
        token = await run_in_threadpool(keys.exchange, str(given or "")) if keys.asks else None
        if token is None:
            return _said(401, "The password is wrong, or was tried too often: wait half a minute.")
        return JSONResponse({"token": token})

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        yield
        page.jobs.stop()

    routes = [
        Route("/", index),
        Route("/static/report.css", style),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/api/login", login, methods=["POST"]),
        *(Route(f"/api/{name}", _route(getattr(page, name)), methods=["POST"]) for name in _ACTS),
    ]
    return Guard(Starlette(routes=routes, lifespan=life), keys, hosts)


def _route(act: Act) -> Callable[[Asked], Any]:
    """An act as a route: what is wrong is said with its kind, and a fault without its words."""

    async def route(asked: Asked) -> Response:
        body = await _body(asked)
        if not isinstance(body, dict):
            return _said(400, "A request is one JSON document, a table of keys.")
        try:
            return JSONResponse(shown.plain(await run_in_threadpool(act, body)))
        except TightdpError as error:
            kind = next(
                (k.__name__ for k in (BudgetError, LedgerError) if isinstance(error, k)), ""
            )
            return _said(422, str(error), kind)
        except Exception as error:  # its words may quote cells of the table
            if os.environ.get("TIGHTDP_TRACEBACK"):
                traceback.print_exc()
            return _said(
                500, f"{type(error).__name__}: a fault of tightdp itself. Please report it."
            )

    return route


async def _body(asked: Asked) -> Any:
    try:
        text = (await asked.body()).decode()
        found = json.loads(text or "{}", parse_constant=lambda name: fail(name))
        json.dumps(found, ensure_ascii=False).encode()  # half characters are none
        return found
    except (ValueError, RecursionError, TightdpError):
        return None


def _said(status: int, message: str, kind: str = "") -> Response:
    return JSONResponse({"error": message, "kind": kind}, status_code=status)
