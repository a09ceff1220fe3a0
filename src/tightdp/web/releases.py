"""A release as a job that may be asked for any number of times, and is paid for once.

A request carries the whole plan, and with it the key of every release, and says what its sender
agreed to pay for. The job is named by the plan: asking again, by a second click, another tab or
after a reload, gives the job that is there. When the server is gone, so is the job; what it paid
for is in the ledger, under its key, and the next job gives it back.
"""

from __future__ import annotations

import csv
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tightdp.errors import PublicFactWarning, TightdpError, fail
from tightdp.ledger.amounts import nothing
from tightdp.plans.lines import Text
from tightdp.plans.payments import paid_since
from tightdp.plans.plan import Plan, PlanResult
from tightdp.plans.plan_text import check
from tightdp.plans.toml_text import to_toml
from tightdp.privacy import text_up
from tightdp.report import Report
from tightdp.report.page import sheet
from tightdp.report.report import json_text, rows_file
from tightdp.web.shown import amount_words, booked

_KEPT = 50  # jobs that are remembered
_AGAIN = "press Release again"


class _CancelledError(Exception):
    """Somebody asked to stop before the next payment."""


@dataclass(eq=False)
class Job:
    """One run of a plan: ``checking``, ``running``, then ``done``, ``cancelled`` or ``failed``."""

    name: str
    title: str
    state: str = "checking"
    message: str = ""
    base: str = ""
    progress: tuple[str, int, int] = ("", 0, 0)
    report: Report | None = None
    result: PlanResult | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    sheets: list[dict[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """What the page shows: public, all of it."""
        release, number, count = self.progress
        record: dict[str, Any] = {
            "id": self.name,
            "title": self.title,
            "state": self.state,
            "message": self.message,
            "base": self.base,
            "progress": {"release": release, "number": number, "count": count},
        }
        if self.result is not None and self.report is not None:
            record |= {
                "sheets": self.sheets,
                "lost": dict(self.result.lost),
                "fresh": sorted(self.result.fresh),
                "spent": str(self.result.spent),
                "remaining": self.result.remaining.text(left=True),
                "guarantee": self.report.guarantee_words(),
                "rows": [part.name for part in self.report.sections if part.rows is not None],
            }
        return record

    def file(self, form: str, release: str = "") -> tuple[str, str, str]:
        """A download: its name, its type and its text."""
        if self.report is None:
            fail("There is nothing to download: this release has no answer.")
        report, stem = self.report, "release"
        if form == "html":
            return f"{stem}.html", "text/html", report.html()
        if form == "json":
            return f"{stem}.json", "application/json", json_text(report)
        if form == "csv":
            return f"{stem}.csv", "text/csv", values_csv(report)
        if form == "registry":
            return f"{stem}.yaml", "text/plain", report.to_registry()
        for part in report.sections:
            if form == "rows" and part.name == release and part.rows is not None:
                return rows_file(f"{stem}.csv", release).name, "text/csv", part.rows()
        fail("There is no such download.")


def values_csv(report: Report) -> str:
    """All released numbers with their intervals, one a line; no interval where none is known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["release", "entry", "value", "low", "high", "confidence", "covers"])
    for part in report.sections:
        found = part.answer.to_dict()
        for row in zip(found["names"], found["value"], found["low"], found["high"], strict=True):
            writer.writerow([_inert(part.name), _inert(row[0]), *row[1:], found["confidence"],
                             found["covers"]])  # fmt: skip
    return out.getvalue()


def _inert(text: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def offer(plan: Plan) -> dict[str, Any]:
    """What will be spent if the plan is released now, for somebody to agree to."""
    states, refusals = plan.states(), plan.refusals()
    rows = []
    for planned in plan.releases:
        cost = planned.request.mechanism.cost
        rows.append(
            {
                "name": planned.name,
                "about": planned.request.kind.about,
                "epsilon": text_up(cost.epsilon),
                "delta": text_up(cost.delta),
                "state": states[planned.name],
                "refusal": refusals.get(planned.name, ""),
            }
        )
    new = [part for part in plan.releases if states[part.name] == "new"]
    unit = "epsilon" if plan.cap is None else plan.cap.unit
    paid = {part.key: booked(part, plan.cap) for part in new}.values()  # one vector: once
    return {
        "releases": rows,
        "new": [part.name for part in new],
        "amount": amount_words(sum(paid, nothing(unit))),
        "protects": plan.releases[0].request.guarantee().unit,
        "ledger": plan.ledger.name,
    }


class Jobs:
    """The jobs of a server, by the plans that they release."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Job:
        with self._lock:
            job = self._jobs.get(name)
        if job is None:
            fail("There is no such release here. Press Release: what is stored costs nothing.")
        return job

    def latest(self) -> list[Job]:
        """All jobs, the latest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def start(self, text: Text, agreed: Sequence[str], save: Callable[[], str]) -> Job:
        """The job of a plan: the one that is running, or a new one.

        ``agreed`` names the releases that may be paid for; ``save`` writes the plan down.
        """
        record = to_toml(text.record)
        name = hashlib.sha256(f"{text.name}\n{record}".encode()).hexdigest()[:32]
        with self._lock:
            job = self._jobs.get(name)
            if job is not None and not job.ended.is_set():
                return job
            job = Job(name, str(text.record.get("title", "")))
            self._jobs[name] = job
            self._jobs.move_to_end(name)
            while len(self._jobs) > _KEPT:
                self._jobs.popitem(last=False)
        # no daemon: what is paid for is finished before the program ends
        work = threading.Thread(target=_run, args=(job, text, frozenset(agreed), save))
        work.start()
        return job

    def stop(self) -> None:
        """Let no job pay for anything more: the server is being stopped."""
        for job in self.latest():
            job.cancelled.set()


def _run(job: Job, text: Text, agreed: frozenset[str], save: Callable[[], str]) -> None:
    """Check, pay, release, report; whatever happens is said in public words."""
    plan, before = None, {}
    try:
        plan = Plan.of(check(text))
        before = plan.states()
        unasked = [name for name, state in before.items() if state == "new" and name not in agreed]
        if unasked:
            fail(f"Nobody has agreed yet to pay for {unasked[0]!r}: look at the costs again.")
        job.base = save()
        _stop_if_cancelled(job)
        job.state = "running"
        job.result = plan.release(watch=lambda *turn: _turn(job, *turn))
        if job.result.answers:
            job.report = Report.of_plan(plan, job.result)
            job.sheets = [{"name": s.name, "html": sheet(s)} for s in job.report.sections]
            job.state = "done"
        else:
            job.state, job.message = "failed", "\n".join(job.result.lost.values())
    except _CancelledError:
        job.state, job.message = "cancelled", _after(plan, before)
    except (TightdpError, PublicFactWarning) as error:
        job.state, job.message = "failed", f"{error} {_after(plan, before)}".strip()
    except BaseException as error:  # words of others may quote cells
        said = f"{type(error).__name__}: a fault of tightdp itself."
        job.state, job.message = "failed", f"{said} {_after(plan, before)}".strip()
    finally:
        job.ended.set()


def _turn(job: Job, name: str, number: int, count: int) -> None:
    _stop_if_cancelled(job)
    job.progress = (name, number, count)


def _stop_if_cancelled(job: Job) -> None:
    if job.cancelled.is_set():
        raise _CancelledError


def _after(plan: Plan | None, before: dict[str, str]) -> str:
    """What was paid for until something went wrong; nothing if nothing was."""
    return "" if plan is None else paid_since(plan, before, _AGAIN)
