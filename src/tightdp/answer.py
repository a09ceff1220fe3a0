"""What a request answers: the numbers that a person asked for, with intervals and their release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import FloatArray
from tightdp.printed import (
    Axis,
    Covers,
    bare,
    entry_table,
    html_notes,
    html_table,
    in_brackets,
    in_short,
    interval_head,
    notebook,
    text_table,
    value_and_interval,
    whole,
)
from tightdp.release import Release

NO_INTERVAL = "no interval was paid for, and the error depends on the data"
_SILENT = "the error depends on the data, and no interval is known"
_ABOUT: dict[Covers, str] = {
    "noise": "intervals cover the value without noise",
    "sample": "intervals cover the value of the table",
    "population": "intervals cover the value of the population",
    "": "some intervals cover the value without noise, others what was asked for",
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Answer:
    """Named values with simultaneous intervals, computed from a release and public facts.

    For sums, counts and quantiles these are the entries of the release; for models they are the
    coefficients. ``covers`` says what the intervals are for, and ``about`` the same in more words;
    the entries ``unknown`` have none.
    """

    names: tuple[str, ...]
    value: FloatArray
    interval: FloatArray
    confidence: float
    release: Release
    about: str
    unknown: tuple[str, ...] = ()
    covers: Covers = ""
    axes: tuple[Axis, ...] = ()
    """The sides of the table that the entries form, if they do."""

    @classmethod
    def of(cls, release: Release) -> Answer:
        """The entries of the release themselves."""
        return cls(
            names=release.names,
            value=release.value,
            interval=release.interval,
            confidence=release.confidence,
            release=release,
            about=_SILENT if len(release.unknown) == len(release.names) else _ABOUT[release.covers],
            unknown=release.unknown,
            covers=release.covers,
            axes=release.axes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the release included."""
        return {
            "names": list(self.names),
            "value": self.value.tolist(),
            "low": self._ends(0),
            "high": self._ends(1),
            "confidence": self.confidence,
            "covers": self.covers,
            "about": self.about,
            "release": self.release.to_dict(),
        }

    def _ends(self, side: int) -> list[float | None]:
        ends = zip(self.names, np.asarray(self.interval)[:, side].tolist(), strict=True)
        return [None if name in self.unknown else end for name, end in ends]

    def tables(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """The tables of the answer, each with what it is called: several of a book, else one."""
        if self.names != self.release.names or self.axes != self.release.axes:
            return [("", self._table(self.axes, range(len(self.names))))]
        entries = range(len(self.names))
        return [(name, self._table(axes, entries[at])) for name, axes, at in self.release.sheets()]

    def rows(self) -> list[tuple[str, ...]]:
        """A heading and one row of cells for every value; a cross table where they form one."""
        return self._table(self.axes, range(len(self.names)))

    def _table(self, axes: tuple[Axis, ...], entries: range) -> list[tuple[str, ...]]:
        covers = "" if set(self.unknown) >= set(self.names) else self.covers
        heads = ("value", interval_head(self.confidence, covers))
        names = [self.names[i] for i in entries]
        return entry_table(axes, names, heads, [self.cells(i) for i in entries])

    def cells(self, entry: int) -> tuple[str, str]:
        """A value and its interval in print; a dash where there is none, or it is not printed."""
        value, own = float(self.value[entry]), self.names == self.release.names
        if self.release.hidden[entry] if own else False:
            return "-", "-"
        if own and self.names[entry] in self.release.dates:
            return self.release.cells(entry, np.asarray(self.interval)[entry])
        if self.names[entry] in self.unknown:
            return bare(value), "-"
        return value_and_interval(value, np.asarray(self.interval)[entry])

    def _note(self) -> str:
        crossed = any(len(axes) > 1 for _, axes, _ in self.release.sheets()) or len(self.axes) > 1
        inside = crossed and not set(self.unknown) >= set(self.names)
        cells = f"{in_brackets(self.confidence, self.covers)}.\n" if inside else ""
        units = f"; {self.release.units}" if self.release.units else ""
        return f"{cells}{self.release.guarantee}{units}; {self.about}"

    def text(self, most: int | None = None) -> str:
        """The tables, cut after ``most`` rows."""
        lines: list[str] = []
        for name, rows in self.tables():
            head, rule, *body = text_table(rows)
            if most is not None and len(body) > most:
                left = whole(len(body) - most)
                body = [*body[:most], f"... and {left} more, in reports and with --json"]
            lines += [*([name] if name else []), head, rule, *body, ""]
        return "\n".join([*lines, self._note()])

    def __repr__(self) -> str:
        return in_short(self, self.names, self.release.guarantee)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        tables = [html_table(rows, caption=name) for name, rows in self.tables()]
        return notebook(*tables, html_notes(self._note()))
