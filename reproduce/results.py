"""What an experiment found, beside what the papers say."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightdp.errors import fail

Row = dict[str, Any]


KINDS = {
    "exact": "a formula",
    "bound": "certified bounds",
    "print": "the print",
    "reference": "an independent computation or simulation",
    "order": "an order or a yes",
}
WIDEST = 0.25
"""A number that may be off by more than this share of itself says an order, no more."""

_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(?:\((\.?\d[\d.]*)\))?")


@dataclass(frozen=True, slots=True)
class Quote:
    """One number of a paper, or a reference value for it, and ours.

    Attributes
    ----------
    what : str
    ours : float
    expected : float
        The value that a correct experiment must give.
    error : float
        How far ours may be from it: rounding, certified gaps, or four standard errors.
    paper : str
        What is printed, drawn or said in the paper, where there is anything.
    erratum : str
        The entry of the errata page that explains a difference to the paper.
    kind : {"exact", "bound", "print", "reference", "order"}
        Where the expected value comes from.

    Examples
    --------
    >>> quote = Quote("area of the hull", ours=13.3333, expected=40 / 3, error=1e-3, paper="13.33")
    >>> quote.within, Quote("pi", ours=3.2, expected=3.1416, error=1e-3).within
    (True, False)
    >>> quote.meets_print, quote.order_only
    (True, False)
    """

    what: str
    ours: float
    expected: float
    error: float
    paper: str = ""
    erratum: str = ""
    kind: str = "exact"

    @property
    def within(self) -> bool:
        """Whether ours is as near to the expected value as it must be."""
        return bool(abs(self.ours - self.expected) <= self.error)

    @property
    def width(self) -> float:
        """The allowed error as a share of the expected value; 0 where nothing may be off."""
        if self.error == 0 or (self.expected == 0 and self.kind == "exact"):
            return 0.0
        return self.error / abs(self.expected) if self.expected else math.inf

    @property
    def order_only(self) -> bool:
        """Whether being within says no more than an order."""
        return self.kind == "order" or self.width > WIDEST

    @property
    def meets_print(self) -> bool | None:
        """Whether ours agrees with a printed number, to its digits or to four of its standard
        errors; None where the paper prints none."""
        found = _NUMBER.fullmatch(self.paper)
        if found is None:
            return None
        digits = len(found[1].partition(".")[2])
        slack = 4 * float(found[2]) if found[2] else 0.51 * 10.0**-digits
        return abs(self.ours - float(found[1])) <= slack

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "what": self.what,
            "paper": self.paper,
            "kind": self.kind,
            "expected": self.expected,
            "error": self.error,
            "ours": self.ours,
            "within": self.within,
            "order only": self.order_only,
            "erratum": self.erratum,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A finished experiment.

    Attributes
    ----------
    name, title, source : str
        ``source`` says which figure or table of which reference.
    quotes : tuple of Quote
    rows : list of dict
        The numbers behind the picture.
    plot, numbers, report : Path
        Picture (PNG), all numbers (CSV), quotes and settings (JSON).
    seconds : float
        Including cells that were computed, not those that were found.
    rows_from : str
        Which table of others was used, or what was generated in its place; empty where the paper
        needs none.
    """

    name: str
    title: str
    source: str
    quick: bool
    quotes: tuple[Quote, ...]
    rows: list[Row]
    plot: Path
    numbers: Path
    report: Path
    seconds: float
    reused: int
    rows_from: str = ""

    @property
    def ok(self) -> bool:
        """Whether every quoted number is within its stated error."""
        return all(quote.within for quote in self.quotes)

    def __str__(self) -> str:
        good = sum(quote.within for quote in self.quotes)
        head = f"{self.name}: {self.title} ({self.source})"
        lines = [head, f"  {good} of {len(self.quotes)} quoted numbers within their error"]
        lines += [f"  {line}" for line in what_was_compared(self.quotes)]
        lines += [f"  {self.rows_from}"] if self.rows_from else []
        lines += [
            f"  off: {quote.what}: {quote.ours:.6g}, expected {quote.expected:.6g} "
            f"+- {quote.error:.2g}"
            for quote in self.quotes
            if not quote.within
        ]
        return "\n".join([*lines, f"  {self.plot}"])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "quick": self.quick,
            "ok": self.ok,
            "seconds": self.seconds,
            "rows from": self.rows_from,
            "quotes": [quote.to_dict() for quote in self.quotes],
            "plot": str(self.plot),
            "numbers": str(self.numbers),
            "report": str(self.report),
        }


def what_was_compared(quotes: Sequence[Quote]) -> list[str]:
    """How many numbers were compared with what, how many are printed, and how wide the errors are.

    >>> print(*what_was_compared([Quote("area", 13.3333, 40 / 3, 1e-3, "13.33"),
    ...     Quote("loss", 1.2, 1.0, 0.3, "about 1", kind="reference")]), sep="\\n")
    compared with: a formula 1, an independent computation or simulation 1
    the paper prints 1 of them, of which 1 agrees, and describes 1 in words or a picture
    allowed errors up to 0.0075 %; 1 say an order only
    """
    counts = {kind: sum(quote.kind == kind for quote in quotes) for kind in KINDS}
    lines = ["compared with: " + ", ".join(f"{KINDS[k]} {n}" for k, n in counts.items() if n)]
    printed = [quote for quote in quotes if quote.meets_print is not None]
    agree = sum(bool(quote.meets_print) for quote in printed)
    words = sum(bool(quote.paper) for quote in quotes) - len(printed)
    verb = "agrees" if agree == 1 else "agree"
    lines.append(
        f"the paper prints {len(printed)} of them, of which {agree} {verb}, and describes {words} "
        "in words or a picture"
    )
    narrow = [quote.width for quote in quotes if not quote.order_only]
    wide = sum(quote.order_only for quote in quotes)
    text = f"allowed errors up to {100 * max(narrow, default=0.0):.2g} %"
    lines.append(text + (f"; {wide} say an order only" if wide else ""))
    return lines if quotes else []


def quote_table(quotes: Sequence[Quote]) -> str:
    """The quotes as a table in Markdown.

    >>> print(quote_table([Quote("area", 13.3333, 13.33, 0.005, paper="13.33", kind="print")]))
    | number | paper | expected | from | ours | within | erratum |
    |---|---|---|---|---|---|---|
    | area | 13.33 | 13.33 ± 0.005 | print | 13.3333 | yes |  |
    """
    lines = [
        "| number | paper | expected | from | ours | within | erratum |",
        "|---|---|---|---|---|---|---|",
    ]
    for quote in quotes:
        verdict = ("yes, order only" if quote.order_only else "yes") if quote.within else "NO"
        lines.append(
            f"| {quote.what} | {quote.paper} | {quote.expected:.6g} ± {quote.error:.2g} "
            f"| {quote.kind} | {quote.ours:.6g} | {verdict} | {quote.erratum} |"
        )
    return "\n".join(lines)


# --- files ----------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """Readable JSON; numbers that are not finite are a mistake."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Rows with the columns of all of them, in the order of their first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


# --- summaries of replicates ----------------------------------------------------------------------


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error.

    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    count = _several(values)
    mean = math.fsum(values) / count
    square = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(square / (count - 1) / count)


def median_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The median and its standard error, by order statistics one standard error away.

    >>> median_and_error([5.0, 1.0, 2.0, 4.0, 3.0])[0]
    3.0
    """
    count = _several(values)
    ordered = sorted(values)

    def quantile(p: float) -> float:
        at = min(max(p, 0.0), 1.0) * (count - 1)
        low = math.floor(at)
        high = min(low + 1, count - 1)
        return ordered[low] + (at - low) * (ordered[high] - ordered[low])

    step = 0.5 / math.sqrt(count)
    return quantile(0.5), (quantile(0.5 + step) - quantile(0.5 - step)) / 2


def _several(values: Sequence[float]) -> int:
    if len(values) < 2:
        fail("`replicates` must be at least 2 for a standard error.")
    return len(values)


def simulated_quote(
    what: str,
    ours: tuple[float, float],
    expected: tuple[float, float],
    *,
    paper: str = "",
    erratum: str = "",
    kind: str = "reference",
) -> Quote:
    """Two simulations, each with its standard error: four combined ones are allowed."""
    error = 4.0 * math.hypot(ours[1], expected[1])
    return Quote(what, ours[0], expected[0], error, paper, erratum, kind)


def order_quote(what: str, holds: bool, paper: str = "", erratum: str = "") -> Quote:
    """A statement that holds or does not."""
    return Quote(f"{what} (1: yes)", float(holds), 1.0, 0.0, paper, erratum, "order")
