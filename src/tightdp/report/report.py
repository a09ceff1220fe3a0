"""The report of a release: what was published, how sure it is, what it reveals, what was paid."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from tightdp.answer import Answer
from tightdp.errors import check_choice, fail, visible
from tightdp.ledger import Ledger
from tightdp.meaning import explain, guess_bound
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.paths import check_path, check_target, write_whole
from tightdp.plain_values import plain
from tightdp.plans.plan import Plan, PlanResult
from tightdp.privacy import Guarantee
from tightdp.release import Release
from tightdp.report import checklist, deployment, notes, page, words
from tightdp.report.sections import (
    Comparisons,
    Payment,
    Section,
    of_answer,
    of_record,
    of_request,
    payment,
)
from tightdp.schema import Schema

FORMATS = (".html", ".md", ".json")


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A report of one release, or of all releases of a plan.

    Made by :meth:`of` or :meth:`of_plan`; everything in it is public. :meth:`save` writes it as
    one HTML file that loads nothing, as Markdown or as JSON.

    Examples
    --------
    >>> import tempfile
    >>> import tightdp as tdp
    >>> schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=4)
    >>> counts = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1)
    >>> report = Report.of(counts.release({"k": ["a", "b", "a", "a"]}, rng=1), title="Four rows")
    >>> report.markdown().splitlines()[0], "<script" in report.html()
    ('# Four rows', False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.save(f"{folder}/four.html").suffix
    '.html'
    """

    title: str
    sections: tuple[Section, ...]
    total: Guarantee
    schema: Schema | None = None
    payments: tuple[Payment, ...] = ()
    balance: str = ""
    ledger: str = "LEDGER"
    lost: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[Path, ...] = ()

    # --- making -------------------------------------------------------------------------------

    @classmethod
    def of(cls, what: object, *, title: str = "A private release") -> Self:
        """The report of a Release, of an Answer, or of a fitted estimator."""
        given = _read(what) if hasattr(what, "release_") else what
        if isinstance(given, Release):
            given = Answer.of(given)
        if not isinstance(given, Answer):
            fail(
                "`what` must be a Release, an Answer or a fitted estimator. Got "
                f"{type(what).__name__}; for a plan see Report.of_plan."
            )
        paid = payment(title, given.release, {})
        return cls(
            title=title,
            sections=(of_answer(title, given),),
            total=words.together([given.release.guarantee]),
            schema=getattr(what, "schema_", None),
            payments=() if paid is None else (paid,),
        )

    @classmethod
    def of_plan(cls, plan: Plan, result: PlanResult) -> Self:
        """The report of a plan that was released."""
        if not result.answers:
            reasons = "; ".join(f"{name}: {why}" for name, why in result.lost.items())
            fail(f"There is nothing to report: no release has an answer. {reasons}")
        with Ledger.open(plan.ledger) as ledger:
            times = {row.entry: row.time for row in ledger.history()}
        compared = Comparisons()
        sections = tuple(
            of_request(name, answer, plan[name].request, result.state(name), compared)
            for name, answer in result.answers.items()
        )
        paid = [payment(part.name, part.release, times) for part in sections]
        left = result.remaining.text(left=True)
        return cls(
            title=plan.title,
            sections=sections,
            total=words.together(words.payments([part.release for part in sections])),
            schema=plan.schema,
            payments=tuple(part for part in paid if part is not None),
            balance=f"Spent on this ledger so far: {result.spent}; left: {left}.",
            ledger=plan.ledger.name,
            lost=dict(result.lost),
            keep=plan.files,
        )

    @classmethod
    def of_ledger(cls, path: str | Path, *, title: str | None = None) -> Self:
        """The report of all that a ledger holds, made again without the table and without a plan.

        The ledger is verified first. Releases that a plan, or a :class:`~tightdp.plans.Request`,
        has paid for are read as they were then; of others the entries are shown.

        Examples
        --------
        >>> import tempfile
        >>> import tightdp as tdp
        >>> schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tdp.Ledger(epsilon=1, path=f"{folder}/a.ledger") as ledger:
        ...         _ = tdp.count({"k": ["a"] * 4}, ["k"], schema=schema, epsilon=1, ledger=ledger)
        ...     Report.of_ledger(f"{folder}/a.ledger").sections[0].name
        'entry 2'
        """
        place = check_path("path", path)
        with Ledger.open(place, read_only=True) as ledger:
            ledger.verify()
            history = ledger.history()
            kept = [(row, ledger.stored(row.entry)) for row in history]
            spent, left = ledger.spent, ledger.remaining.text(left=True)
        compared = Comparisons()
        sections = [of_record(row, record, compared) for row, record in kept if record is not None]
        if not sections:
            fail(f"There is nothing to report: {place} holds no release.")
        times = {row.entry: row.time for row in history}
        paid = [payment(part.name, part.release, times) for part in sections]
        facts = {part.facts.to_json(): part.facts for part in sections if part.facts is not None}
        return cls(
            title=f"Releases of {place.name}" if title is None else title,
            sections=tuple(sections),
            total=words.together([part.release.guarantee for part in sections]),  # an entry each
            schema=next(iter(facts.values())) if len(facts) == 1 else None,
            payments=tuple(part for part in paid if part is not None),
            balance=f"Spent on this ledger so far: {spent}; left: {left}.",
            ledger=place.name,
            lost={
                row.key or f"entry {row.entry}": "It was paid for and never stored."
                for row, record in kept
                if record is None
            },
            keep=(place,),
        )

    # --- sentences ----------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The version of the package."""
        return version("tightdp")

    @property
    def given(self) -> str:
        """Between which tables alone the guarantee holds; nothing where for all neighbours."""
        return words.given([part.release for part in self.sections])

    def guarantee_words(self) -> str:
        """The guarantee of all releases together, in words."""
        return words.guarantee_words(self.total, len(self.sections), self.given)

    def meaning_words(self) -> str:
        """What the guarantee means to one person."""
        total = self.total
        if total.rho is not None:
            return explain(rho=total.rho, delta=total.delta, neighbors=total.neighbors)
        return explain(total.epsilon, total.delta, neighbors=total.neighbors)

    def receipt_rows(self) -> list[tuple[str, ...]]:
        """A heading, and a row of cells for every payment."""
        paid = self.payments
        head = ("release", "entry", paid[0].unit if paid else "epsilon", "delta", "time", "hash")
        return [head, *((p.name, str(p.entry), p.cost, p.delta, p.time, p.hash) for p in paid)]

    def check_command(self) -> str:
        """How the receipts are checked."""
        return f"tightdp ledger verify {shlex.quote(visible(self.ledger))} --receipt REPORT.json"

    def citation(self) -> str:
        """What to print with the numbers."""
        return words.cite(self.version, self.total, self.given)

    def checklist_rows(self) -> list[tuple[str, ...]]:
        """A heading, and what the guidelines of NIST SP 800-226 ask, with answers."""
        return list(checklist.rows(self))

    # --- forms --------------------------------------------------------------------------------

    def to_registry(self) -> str:
        """The record for the Differential Privacy Deployments Registry, as YAML.

        What the program knows is filled in: unit, neighbours, parameters, mechanisms, accounting.
        The first lines list what people must fill in by hand.

        Examples
        --------
        >>> import tightdp as tdp
        >>> schema = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=4)
        >>> counts = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1)
        >>> report = Report.of(counts.release({"k": ["a", "b", "a", "a"]}), title="Four rows")
        >>> print(report.to_registry())
        # To be filled in by hand:
        # - deployment.basic.data_curators: who publishes the data product
        ...
        url_slug: "four-rows"
        status: "Draft"
        tier: 3
        ...
        """
        return deployment.yaml(deployment.record(self))

    def html(self) -> str:
        """One HTML file, with pictures, that loads nothing from outside."""
        return page.page(self)

    def markdown(self) -> str:
        """The same in Markdown, without pictures."""
        return notes.markdown(self)

    def to_dict(self) -> dict[str, Any]:
        """The same in plain values; releases and receipts are whole."""
        total = self.total
        return {
            "title": self.title,
            "version": self.version,
            "guarantee": {
                "epsilon": total.epsilon,
                "delta": total.delta,
                "neighbors": str(total.neighbors),
                "protects": total.unit,
                "rows_per_person": total.rows_per_person,
                "numerics": str(total.numerics),
                "seeded": total.seeded,
                "approximate": total.approximate,
                **({"given": self.given} if self.given else {}),
                "words": self.guarantee_words(),
            },
            "meaning": {
                "right_guesses": guess_bound(total.epsilon, total.delta)
                if total.rho is None
                else guess_bound(rho=total.rho),
                "words": self.meaning_words(),
            },
            "checklist": [
                {"topic": item.topic, "question": item.question, "answer": item.answer}
                for item in checklist.checklist(self)
            ],
            "schema": None if self.schema is None else self.schema.to_dict(),
            "releases": [section.to_dict() for section in self.sections],
            "lost": dict(self.lost),
            "cite": self.citation(),
        }

    def save(self, path: str | Path) -> Path:
        """Write the report; the ending .html, .md or .json says how.

        It is written whole or not at all, and never over the table, the ledger or the plan. Rows
        that are made from a release are written first, to a CSV file beside it (:func:`rows_file`).
        """
        made = {part.name: part.rows for part in self.sections if part.rows is not None}
        ending = check_format(path, self.keep, made)
        for name, rows in made.items():
            write_whole("report", rows_file(path, name), rows())
        if ending == ".html":
            text = self.html()
        elif ending == ".md":
            text = self.markdown()
        else:
            text = json_text(self)
        return write_whole("report", path, text)

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: {len(self.sections)} releases, {self.total}>"

    def _repr_html_(self) -> str:
        return page.fragment(self)


def check_format(path: str | Path, keep: Iterable[Path] = (), beside: Iterable[str] = ()) -> str:
    """The ending of the name of a report, which says how it is written.

    Refused are places that cannot be written, files to ``keep``, and ledgers; ``beside`` are the
    releases whose rows are written beside the report.

    >>> check_format("survey.html")
    '.html'
    """
    kept = tuple(keep)
    ending = check_choice("report", check_path("report", path).suffix.lower(), FORMATS)
    files = [rows_file(path, name) for name in beside]
    if len(set(files)) < len(files):
        fail("`report`: the rows of two releases have one file name: give them other names.")
    for place in (path, *files):
        check_target("report", place, kept)
    return ending


def rows_file(path: str | Path, name: str) -> Path:
    """Where the rows of a release are written that a report is about.

    >>> rows_file("survey.html", "all rows, 2024").name
    'survey-all-rows-2024.csv'
    """
    letters = re.sub(r"[^\w]+", "-", name).strip("-")[:80]
    place = check_path("report", path)
    return place.with_name(f"{place.stem}-{letters or 'rows'}.csv")


def _read(model: Any) -> Answer:
    """What a person wants to know of a fitted estimator, with intervals where there are any."""
    mechanism, release = getattr(model, "mechanism_", None), model.release_
    return mechanism.answer(release) if isinstance(mechanism, Mechanism) else Answer.of(release)


def json_text(report: Report) -> str:
    """A report as JSON, which has no infinite numbers: an end that is none is a text."""
    return json.dumps(plain(report.to_dict()), indent=2, ensure_ascii=False)
