"""A ledger for people: its history, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tightdp.errors import visible
from tightdp.ledger.amounts import Budget
from tightdp.privacy import marks, text_up
from tightdp.tables import html_facts, html_table, text_facts, text_table

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
    text = text_facts(lines)
    if not rows:
        return "\n".join(text)
    head, rule, *body = text_table([_HEAD, *(row.cells() for row in rows)], left=_LEFT)
    return "\n".join([*text, "", head, rule, *_earlier(rows, count), *body])


def as_html(lines: Sequence[tuple[str, str]], rows: Sequence[HistoryRow], count: int) -> str:
    """The same for a notebook."""
    facts = html_facts(lines)
    if not rows:
        return facts
    return facts + html_table([_HEAD, *(row.cells() for row in rows)], *_earlier(rows, count))


def _earlier(rows: Sequence[HistoryRow], count: int) -> list[str]:
    return [f"... and {count - len(rows)} earlier"] if count > len(rows) else []
