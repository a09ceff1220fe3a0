"""What an experiment found, beside what the papers say."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightdp.errors import fail

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Quote:
    """One number of a paper, or a reference value for it, and ours.

    Attributes
    ----------
    what : str
    ours : float
    expected : float
        The value that a correct experiment must give: printed, exact, or simulated independently.
    error : float
        How far ours may be from it: rounding, certified gaps, or four standard errors.
    paper : str
        What is printed or drawn in the paper, where that is a number of its own.
    erratum : str
        The entry of the errata page that explains a difference to the paper.

    Examples
    --------
    >>> quote = Quote("area of the hull", ours=13.3333, expected=40 / 3, error=1e-3, paper="13.33")
    >>> quote.within, Quote("pi", ours=3.2, expected=3.1416, error=1e-3).within
    (True, False)
    """

    what: str
    ours: float
    expected: float
    error: float
    paper: str = ""
    erratum: str = ""

    @property
    def within(self) -> bool:
        """Whether ours is as near to the expected value as it must be."""
        return bool(abs(self.ours - self.expected) <= self.error)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "what": self.what,
            "paper": self.paper,
            "expected": self.expected,
            "error": self.error,
            "ours": self.ours,
            "within": self.within,
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

    @property
    def ok(self) -> bool:
        """Whether every quoted number is within its stated error."""
        return all(quote.within for quote in self.quotes)

    def __str__(self) -> str:
        good = sum(quote.within for quote in self.quotes)
        head = f"{self.name}: {self.title} ({self.source})"
        lines = [head, f"  {good} of {len(self.quotes)} quoted numbers within their error"]
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
            "quotes": [quote.to_dict() for quote in self.quotes],
            "plot": str(self.plot),
            "numbers": str(self.numbers),
            "report": str(self.report),
        }


def quote_table(quotes: Sequence[Quote]) -> str:
    """The quotes as a table in Markdown.

    >>> print(quote_table([Quote("area", 13.3333, 13.33, 0.005, paper="13.33")]))
    | number | paper | expected | ours | within | erratum |
    |---|---|---|---|---|---|
    | area | 13.33 | 13.33 ± 0.005 | 13.3333 | yes |  |
    """
    lines = ["| number | paper | expected | ours | within | erratum |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {quote.what} | {quote.paper} | {quote.expected:.6g} ± {quote.error:.2g} "
        f"| {quote.ours:.6g} | {'yes' if quote.within else 'NO'} | {quote.erratum} |"
        for quote in quotes
    ]
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
) -> Quote:
    """Two simulations, each with its standard error: four combined ones are allowed."""
    error = 4.0 * math.hypot(ours[1], expected[1])
    return Quote(what, ours[0], expected[0], error, paper, erratum)
