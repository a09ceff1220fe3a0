"""A checklist after NIST SP 800-226: what the program answers, and what people must."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tightdp.privacy import Neighbors
from tightdp.report import words

if TYPE_CHECKING:
    from tightdp.report.report import Report

SOURCE = (
    "J. Near, D. Darais, N. Lefkovitz and G. Howarth, Guidelines for Evaluating Differential "
    "Privacy Guarantees, NIST SP 800-226 (2025)"
)
BY_HAND = "To be answered by whoever publishes: "


class Item(NamedTuple):
    """One question, its answer, and whether people must give it."""

    topic: str
    question: str
    answer: str
    by_hand: bool = False


def checklist(report: Report) -> list[Item]:
    """The questions of the guidelines, from the guarantee down to how data were collected."""
    total = report.total
    return [
        Item("Parameters", "How large are the privacy parameters?", f"{total.amount}."),
        Item("Parameters", "What do they mean to a person?", report.meaning_words()),
        Item("Unit of privacy", "Who or what is protected?", _unit(report)),
        Item("Unit of privacy", "What counts as neighbouring?", _neighbours(report)),
        Item("Composition", "Do the parameters cover all releases of these data?", _scope(report)),
        Item("Mechanisms", "Which mechanisms are used, and are they proved?", _laws(report)),
        Item("Mechanisms", "Does the implementation match the proof?", _numerics(report)),
        Item("Utility", "How large is the error?", _error(report)),
        Item("Bias", "What biases are introduced?", _bias(report)),
        Item(
            "Bias",
            "Are the data themselves biased, and whom does the noise harm most?",
            BY_HAND + "small groups have the same noise as large ones, and relatively more of it.",
            True,
        ),
        Item(
            "Trust model",
            "Who sees the data before noise is added?",
            "The central model: the curator reads the table, and only noisy numbers leave. "
            + BY_HAND
            + "who the curator is, and why people can trust it.",
            True,
        ),
        Item(
            "Side channels",
            "Can time, errors or logs reveal data?",
            "Errors and logs name public facts only, and failures after a payment do not depend on "
            "rows. Where a mechanism's running time depends on the data its documentation says so: "
            "answer at fixed times where an observer can time single releases.",
        ),
        Item(
            "Security",
            "Who has access to the table and to the ledger?",
            BY_HAND + "access control, storage and deletion of the data.",
            True,
        ),
        Item(
            "Data collection",
            "What is exposed before the release: to whom, and with whose consent?",
            BY_HAND
            + "differential privacy protects the release, not the collection; was more collected, "
            "or kept longer, than the release needs?",
            True,
        ),
    ]


def rows(report: Report) -> list[tuple[str, str, str]]:
    """The checklist as a table, with a heading."""
    found = checklist(report)
    return [
        ("topic", "question", "answer"),
        *((each.topic, each.question, each.answer) for each in found),
    ]


def _unit(report: Report) -> str:
    total = report.total
    if total.rows_per_person is None:
        return "One row: a person only if nobody has more than one."
    return f"A {total.unit}, however many rows there are."


def _neighbours(report: Report) -> str:
    public = report.total.neighbors is Neighbors.REPLACE_ONE
    said = "The number of rows is public." if public else "The number of rows is private."
    only = f" The guarantee holds {report.given} and no others." if report.given else ""
    return f"{report.total.neighbors}: {words.NEIGHBOURS[report.total.neighbors]}. {said}{only}"


def _scope(report: Report) -> str:
    if not report.payments:
        return (
            "This report covers its own releases only: no ledger was charged. "
            + BY_HAND
            + "what else was or will be released of the same data."
        )
    return (
        f"{report.balance or 'A ledger was charged.'} A ledger adds up what is released through "
        "it, about one table."
    )


def _laws(report: Report) -> str:
    laws = dict.fromkeys(section.release.noise for section in report.sections)
    return f"{'; '.join(laws)}. Every mechanism of tightdp carries its proof in its documentation."


def _numerics(report: Report) -> str:
    return words.NUMERICS[report.total.numerics]


def _error(report: Report) -> str:
    known = [part for part in report.sections if set(part.answer.unknown) < set(part.answer.names)]
    if not known:
        return "The report prints no intervals: the error depends on the data."
    return "Intervals are printed with the numbers; they say what they cover."


def _bias(report: Report) -> str:
    clamp = "" if report.schema is None else " Cells are moved into public bounds before anything."
    return f"Additive noise has mean 0.{clamp} What is read off noisy numbers may be biased."
