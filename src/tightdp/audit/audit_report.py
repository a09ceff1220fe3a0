"""What an audit found: the claim, the verdict, and the events that speak against the claim.

A report holds events and counts only. It never holds a release, nor the inputs of the mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from tightdp.errors import check_choice, fail
from tightdp.printed import html_notes, html_table, text_table
from tightdp.privacy import text_down, text_up

_INPUTS = ("x", "x_neighbor", "x, x_neighbor", "x_neighbor, x")
KINDS = {
    "samples": "releases per input",
    "levels": "pairs of lattice points",
    "probabilities": "outcomes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One event, and the epsilon it shows.

    Attributes
    ----------
    event : str
        The set of releases, as a text.
    family : str
        The kind of event.
    over : str
        The input under which the event is likelier, to be guessed when it occurs: ``"x"`` or
        ``"x_neighbor"``; or both, in the order of the two parts of the event.
    epsilon_lower : float
        What is shown; for samples, at the confidence of the report.
    epsilon_seen : float
        The estimate without a margin; equal to ``epsilon_lower`` up to rounding in exact audits.
    counts : pair of int, or None
        For samples, how often the event occurred with the likelier input and with the other: the
        right and the wrong guesses.

    Examples
    --------
    >>> Finding(event="release <= 0", family="coordinates", epsilon_lower=0.9, epsilon_seen=1.0)
    Finding(event='release <= 0', family='coordinates', over='x', epsilon_lower=0.9, ...)
    """

    event: str
    family: str
    over: str = "x"
    epsilon_lower: float
    epsilon_seen: float
    counts: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_choice("over", self.over, _INPUTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The outcome of an audit. Prints as a table.

    Attributes
    ----------
    kind : {"samples", "levels", "probabilities"}
        What was audited; all but samples are decided exactly.
    epsilon, delta : float
        The claim.
    violated : bool
        Whether the claim is refuted.
    epsilon_lower : float
        Whatever the claim, the mechanism is not (epsilon', delta)-private for any smaller epsilon'
        (at the stated confidence). The verdict of an exact audit does not depend on the rounding of
        this number.
    confidence : float
        1 for exact audits, else 1 - alpha.
    checked : int
        Releases per input, pairs of lattice points, or outcomes.
    findings : tuple of Finding
        The events that show most, the strongest first.
    delta_needed : float or None
        The least delta at the claimed epsilon, rounded up, where it is known exactly.
    notes : tuple of str
        What the verdict rests on.

    Examples
    --------
    >>> from tightdp.audit import audit_pmf
    >>> report = audit_pmf([3, 1], [1, 3], epsilon=1.0)  # randomised response, ln 3 = 1.0986
    >>> report.verdict, round(report.epsilon_lower, 4), bool(report)
    ('violated', 1.0986, False)
    >>> AuditReport.from_dict(report.to_dict()) == report
    True
    """

    kind: str
    epsilon: float
    delta: float
    violated: bool
    epsilon_lower: float
    confidence: float
    checked: int
    findings: tuple[Finding, ...] = ()
    delta_needed: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)

    def __bool__(self) -> bool:
        """True unless the claim is refuted."""
        return not self.violated

    @property
    def verdict(self) -> str:
        """``"violated"``; ``"holds"`` for an exact audit; ``"no violation found"`` for samples."""
        if self.violated:
            return "violated"
        return "no violation found" if self.kind == "samples" else "holds"

    @property
    def event(self) -> str:
        """The event that shows most, or an empty text."""
        return self.findings[0].event if self.findings else ""

    # --- other forms ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; an infinite number is the text ``"inf"``."""
        record = asdict(self)
        record["findings"] = [
            {**found, "counts": found["counts"] and list(found["counts"])}
            for found in record["findings"]
        ]
        record["notes"] = list(self.notes)
        return _without_infinity({**record, "verdict": self.verdict})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The report that :meth:`to_dict` wrote."""
        missing = {field.name for field in fields(cls)} - set(record)
        if missing:
            fail(f"`record` must be a report by `to_dict`. It has no {min(missing)!r}.")
        findings = tuple(_finding(found) for found in record["findings"])
        numbers = {name: float(record[name]) for name in _NUMBERS}
        least = record["delta_needed"]
        return cls(
            kind=record["kind"],
            violated=bool(record["violated"]),
            checked=int(record["checked"]),
            findings=findings,
            delta_needed=None if least is None else float(least),
            notes=tuple(record["notes"]),
            **numbers,
        )

    def __str__(self) -> str:
        table = text_table(self._rows(), left=(0, 1))
        return "\n".join([self.summary(), "", *table, "", *self.notes])

    def _repr_html_(self) -> str:
        return html_notes(self.summary(), bold=True) + html_table(self._rows(), *self.notes)

    def summary(self) -> str:
        """Verdict, claim and evidence in one sentence."""
        lost = f", delta = {text_up(self.delta)}" if self.delta else ""
        shown = text_down(self.epsilon_lower, 4)
        sure = "" if self.confidence == 1 else f" with confidence {text_down(self.confidence)}"
        return (
            f"{self.verdict}: claimed epsilon = {text_up(self.epsilon)}{lost}, shown epsilon >= "
            f"{shown}{sure} ({self.checked:,} {KINDS[self.kind]})"
        )

    def _rows(self) -> list[list[str]]:
        header = ["family", "event", "likelier for", "epsilon shown", "epsilon seen"]
        body = [
            [
                found.family,
                found.event,
                found.over,
                text_down(found.epsilon_lower, 4),
                f"{found.epsilon_seen:.4g}",
            ]
            for found in self.findings
        ]
        if any(found.counts for found in self.findings):
            header += ["right", "wrong"]
            for line, found in zip(body, self.findings, strict=True):
                line += [f"{count:,}" for count in found.counts or ()]
        return [header, *body]


_NUMBERS = ("epsilon", "delta", "epsilon_lower", "confidence")


def _finding(record: Mapping[str, Any]) -> Finding:
    counts = record["counts"]
    return Finding(
        event=record["event"],
        family=record["family"],
        over=record["over"],
        epsilon_lower=float(record["epsilon_lower"]),
        epsilon_seen=float(record["epsilon_seen"]),
        counts=None if counts is None else (int(counts[0]), int(counts[1])),
    )


def _without_infinity(value: object) -> Any:
    """The same nest of plain values, with ``"inf"`` for infinity, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _without_infinity(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_infinity(item) for item in value]
    return "inf" if value == float("inf") else value
