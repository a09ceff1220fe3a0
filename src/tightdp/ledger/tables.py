"""A ledger for people: its history, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from tightdp.errors import visible
from tightdp.ledger.amounts import Budget
from tightdp.privacy import marks, text_up

_HEAD = ("entry", "time", "label", "key", "epsilon", "delta", "part", "release")
_LEFT = {1, 2, 3, 6, 7}
_WIDEST = 40


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One spend: when, what for, what it cost, and whether its release is ``stored``, ``burned``
    or ``pending``."""

    entry: int
    time: str
    label: str
    key: str | None
    cost: Budget
    partition: tuple[str, str] | None
    seeded: bool
    state: str
    approximate: bool = False

    def cells(self) -> tuple[str, ...]:
        """What the table shows."""
        return (
            str(self.entry),
            self.time,
            visible(self.label, _WIDEST),
            visible(self.key or "", _WIDEST),
            text_up(self.cost.epsilon),
            text_up(self.cost.delta),
            visible("/".join(self.partition), _WIDEST) if self.partition else "",
            ", ".join([self.state, *marks(self.seeded, self.approximate)]),
        )


def summary(terms: str, spent: Budget, left: Budget) -> list[tuple[str, str]]:
    """The lines above the table."""
    return [("ledger", terms), ("spent", spent.text(20)), ("remaining", left.text(20, left=True))]


def as_text(lines: Sequence[tuple[str, str]], rows: Sequence[HistoryRow], count: int) -> str:
    """The summary and the latest of ``count`` spends."""
    text = [f"{name:<10} {visible(value)}" for name, value in lines]
    if not rows:
        return "\n".join(text)
    table = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(_HEAD))]
    drawn = [
        "  ".join(
            cell.ljust(width) if i in _LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
    more = [f"... and {count - len(rows)} earlier"] if count > len(rows) else []
    return "\n".join([*text, "", drawn[0], "-" * max(map(len, drawn)), *more, *drawn[1:]])


def as_html(lines: Sequence[tuple[str, str]], rows: Sequence[HistoryRow], count: int) -> str:
    """The same for a notebook."""
    facts = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in lines
    )
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells()) + "</tr>"
        for row in rows
    )
    more = f"<p>... and {count - len(rows)} earlier</p>" if count > len(rows) else ""
    table = f"<table><tr>{head}</tr>{body}</table>{more}" if rows else ""
    return f"<table>{facts}</table>{table}"
