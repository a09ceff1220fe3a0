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
    cross_table,
    html_table,
    interval_head,
    text_table,
    value_and_interval,
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

    def rows(self) -> list[tuple[str, ...]]:
        """A heading and one row of cells for every value; a cross table where they form one."""
        if len(self.axes) > 1:  # one side alone is a list
            cells = [self.cells(i) for i in range(len(self.names))]
            said = [value if ends == "-" else f"{value} {ends}" for value, ends in cells]
            return cross_table(self.axes, said)
        covers = "" if set(self.unknown) >= set(self.names) else self.covers
        head = ("entry", "value", interval_head(self.confidence, covers))
        return [head, *((name, *self.cells(i)) for i, name in enumerate(self.names))]

    def cells(self, entry: int) -> tuple[str, str]:
        """A value and its interval in print; a dash where there is none."""
        value = float(self.value[entry])
        if self.names[entry] in self.unknown:
            return bare(value), "-"
        return value_and_interval(value, np.asarray(self.interval)[entry])

    def text(self, most: int | None = None) -> str:
        """The table, cut after ``most`` entries."""
        head, rule, *body = text_table(self.rows())
        if most is not None and len(body) > most:
            body = [*body[:most], f"... and {len(body) - most} more, in reports and with --json"]
        return "\n".join([head, rule, *body, "", f"{self.release.guarantee}; {self.about}"])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html_table(self.rows(), f"{self.release.guarantee}; {self.about}")
