"""What a report says of each release, collected from public facts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accounting.conversions import zcdp_epsilon
from tightdp.answer import Answer
from tightdp.compare import Comparison, compare_noise
from tightdp.date_rule import NO_DATE
from tightdp.errors import LedgerError, TightdpError, exact_amount, fail
from tightdp.geometry.norm_balls import NormBall
from tightdp.ledger.amounts import SYMBOLS, Budget
from tightdp.ledger.views import HistoryRow
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.plans.request import Request
from tightdp.printed import bare, percent, short
from tightdp.privacy import text_up
from tightdp.release import Release
from tightdp.schema import Date, Interval, Schema
from tightdp.shaping.ball_noise import BallNoise

_STATED = "The law of the release is stated exactly; it was fixed before any row was read."
_IN_UNITS = ("sum", "capped_sum", "mean", "median", "quantile", "quantiles")
_FEW = 12  # above so many entries other shapes are not compared: a report must not take minutes


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One release: its answer, how it is drawn, and why its noise is the least.

    ``bars`` says whether its entries are counts; None: the table that they form tells. ``schema``
    tells the units of the entries, where they have those of their columns.
    """

    name: str
    about: str
    answer: Answer
    why: str
    bars: bool | None = None
    schema: Schema | None = None
    clamping: str = ""
    comparison: Comparison | None = None
    state: str = ""
    facts: Schema | None = None
    """The public facts, where the request is known."""
    rows: Callable[[], str] | None = None
    """The text of a CSV file of rows that are made from the release, where there are any."""

    @property
    def release(self) -> Release:
        """The release behind the answer."""
        return self.answer.release

    @property
    def note(self) -> str:
        """What the intervals are; nothing of them where there are none."""
        answer = self.answer
        if set(answer.unknown) >= set(answer.names):
            return answer.about[:1].upper() + answer.about[1:]
        return f"{percent(answer.confidence)} intervals, for all entries at once: {answer.about}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        record = {"name": self.name, "about": self.about, "why": self.why}
        if self.comparison is not None:
            record["comparison"] = self.comparison.to_dict()  # type: ignore[assignment]
        return record | self.answer.to_dict()


def of_answer(name: str, answer: Answer) -> Section:
    """A section without the request behind it: only what the release itself says."""
    return Section(name=name, about="", answer=answer, why=_STATED)


class Comparisons(dict[tuple[str, float], Comparison | None]):
    """What was compared for a report, so that a question that comes again is not compared again."""

    def of(self, request: Request, answer: Answer) -> Comparison | None:
        """The shapes of a request, compared; None where that cannot be done."""
        if "noise" not in request.kind.options or len(answer.release.names) > _FEW:
            return None
        text = request.to_json() if request.made is None else None
        if text is None:  # it is told apart by no text
            return _compared(request, answer)
        asked = text, answer.confidence
        if asked not in self:
            self[asked] = _compared(request, answer)
        return self[asked]


def of_request(
    name: str, answer: Answer, request: Request, state: str, known: Comparisons | None
) -> Section:
    """A section with its units taken from public facts, and its shapes compared unless None."""
    comparison = None if known is None else known.of(request, answer)
    bars = request.mechanism.picture == "bars"
    return Section(
        name=name,
        about=request.kind.about,
        answer=answer,
        bars=bars,
        schema=request.schema if bars or request.kind.name in _IN_UNITS else None,
        clamping=_clamping(request),
        why=_why(request, comparison),
        comparison=comparison,
        state=state,
        facts=request.schema,
        rows=rows_of(answer, request) if makes_rows(request.mechanism) else None,
    )


def of_record(row: HistoryRow, record: Mapping[str, Any], known: Comparisons) -> Section:
    """A section from what a ledger has stored, with the request where that was stored too."""
    release, name = Release.from_dict(record), row.key or f"entry {row.entry}"
    _check_paid(release, row)
    request = _asked(record.get("asked"))
    if request is None or request.mechanism.fingerprint(release.confidence) != row.fingerprint:
        return of_answer(
            name, Answer.of(release)
        )  # nothing is claimed that the ledger does not say
    mechanism = request.mechanism
    answer = mechanism.answer(mechanism.with_dates(release))
    return of_request(name, answer, request, "stored earlier", known)


def _check_paid(release: Release, row: HistoryRow) -> None:
    """Refuse a stored release that promises more, or to others, than its entry has paid for."""
    said, paid = release.guarantee, row.asked
    stated = Budget(exact_amount("epsilon", said.epsilon), exact_amount("delta", said.delta))
    enough = paid is None or (paid.fits(stated) and _implied(said.rho, stated, paid.epsilon))
    same = said.neighbors == row.neighbors and (
        said.rows_per_person is None or str(row.protects).startswith("persons")
    )
    marked = said.seeded >= row.seeded and said.approximate >= row.approximate
    receipt, booked = release.receipt, {"entry": row.entry, "cost": row.cost.to_dict()}
    fits = not receipt or (
        all(receipt.get(name) == value for name, value in booked.items())
        and all(isinstance(receipt.get(name), str) for name in ("hash", "ledger"))
    )
    if not (enough and same and marked and fits):
        fail(
            f"Entry {row.entry} of the ledger holds a release with another guarantee or receipt "
            "than the one that it has paid for: there is no report of it.",
            LedgerError,
        )


def _implied(rho: float | None, stated: Budget, epsilon: Fraction) -> bool:
    """Whether a rho is no less than that of noise with this epsilon: Gaussian, or of one draw."""
    if rho is None:
        return True
    known = exact_amount("rho", rho)
    drawn = stated.delta > 0 and epsilon <= zcdp_epsilon(known, stated.delta)
    return drawn or 8 * known >= epsilon**2


def _asked(record: object) -> Request | None:
    """The request that was stored with a release, if it can be read still."""
    if not isinstance(record, str):
        return None
    try:
        return Request.from_json(record)
    except (TightdpError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def makes_rows(mechanism: Mechanism) -> bool:
    """Whether rows are made from the releases of a mechanism."""
    return type(mechanism).made_rows is not Mechanism.made_rows


def rows_of(answer: Answer, request: Request) -> Callable[[], str]:
    """The rows that are made from a release as the text of a CSV file; made when asked for."""

    @cache
    def text() -> str:
        columns = request.mechanism.made_rows(answer.release)
        assert columns is not None
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(_written, columns.values()), strict=True))
        return out.getvalue()

    return text


def _written(column: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """The cells of a column: numbers that are all whole are written as such, 57 and not 57.0.

    >>> _written([57.0, 48.0]), _written([0.5, 2.0]), _written(["a", "b"])
    ([57, 48], [0.5, 2.0], ['a', 'b'])
    """
    cells = np.asarray(column)
    if cells.dtype.kind == "f" and (np.abs(cells) < 2**53).all() and (cells % 1 == 0).all():
        cells = cells.astype(np.int64)
    return cells.tolist()


# --- what happens to cells before anything is computed --------------------------------------------


def _clamping(request: Request) -> str:
    """What became of cells that break the public facts, column by column."""
    said = []
    statistic = getattr(request.mechanism.source, "statistic", None)
    for name in getattr(statistic, "columns", request.columns):
        rule = request.schema.columns.get(name)
        if isinstance(rule, Date):
            own = f" or as {NO_DATE!r}" if rule.own else ""
            said.append(
                f"{name} before {rule.first} counts as {rule.first}, after {rule.last} as "
                f"{rule.last}, and what is no date as {rule.day_text(rule.missing or 0)}{own}"
            )
        elif isinstance(rule, Interval):
            low, high, missing = (bare(float(n)) for n in (rule.low, rule.high, rule.missing or 0))
            unit = f" {rule.unit}" if rule.unit else ""
            said.append(
                f"{name} below {low} counts as {low}, above {high} as {high}{unit}, and a missing "
                f"one as {missing}"
            )
        elif rule is not None:
            said.append(f"a missing or unlisted {name} counts as {str(rule.other)!r}")
    if not said:
        return ""
    return f"Before anything was computed: {'; '.join(said)}. No interval counts what that changed."


# --- why this noise ------------------------------------------------------------------------------


def _compared(request: Request, answer: Answer) -> Comparison | None:
    try:
        return compare_noise(request, confidence=answer.confidence)
    except TightdpError:
        return None  # a report is about a release that exists: what cannot be compared is left out


def _why(request: Request, comparison: Comparison | None) -> str:
    mechanism, source = request.mechanism, request.mechanism.source
    if mechanism.why or not isinstance(source, AdditiveMechanism):
        return (mechanism.why or _STATED) + _second(comparison)
    asked = request.options.get("noise", "best")
    return _why_shape(source, str(asked)) + _second(comparison)


def _why_shape(mechanism: AdditiveMechanism, asked: str) -> str:
    choice = mechanism._choice
    if not isinstance(choice, BallNoise):
        return "Every entry has a law of its own, and the budget is shared by those that can move."
    space = mechanism.statistic.sensitivity_space()
    if _same(choice.ball, space.hull()) and space.exact:
        return (
            "The noise has the shape of the convex hull of all changes that one person can cause. "
            "The hull lies inside every other valid shape: it has the least entropy, and the "
            "least variance along every line, of all noises of this family."
        )
    if _same(choice.ball, space.hull()):
        return (
            "The noise has the shape of a body that is proved to contain all changes that one "
            "person can cause."
        )
    if asked != "best":
        return (
            f"The plan asks for noise of the shape {asked!r}, as large as it must be to contain "
            "all changes that one person can cause."
        )
    return (
        "Among the shapes that contain all changes one person can cause, and can be drawn "
        "exactly, this one has the least variance."
    )


def _same(ball: NormBall, hull: NormBall) -> bool:
    """Whether a ball that contains the hull is the hull: bodies of one volume."""
    if ball is hull:
        return True
    try:
        ours, least = ball.volume_info, hull.volume_info
    except TightdpError:
        return False  # no volume is known in so many dimensions: nothing is claimed
    sharp = not (ours.standard_error or least.standard_error)
    return sharp and abs(ours.log_value - least.log_value) < 1e-9


def _second(comparison: Comparison | None) -> str:
    """How much worse the usual choices are."""
    if comparison is None:
        return ""
    named = {"laplace": "Laplace noise", "l1": "noise in the l1 norm", "l2": "noise in the l2 norm"}
    usual = [name for name in named if name in comparison.previews and name != comparison.chosen]
    if "laplace" in usual and "l1" in usual:
        usual.remove("l1")  # nearly the same
    said = [
        f"{named[name]} has {short(comparison.relative(name))} times the error" for name in usual
    ]
    return f" For the same guarantee, {', '.join(said)}." if said else ""


@dataclass(frozen=True, slots=True)
class Payment:
    """A line of the receipt."""

    name: str
    entry: int
    hash: str
    unit: str
    cost: str
    delta: str
    time: str = ""
    ledger: str = ""


def payment(name: str, release: Release, times: Mapping[int, str]) -> Payment | None:
    """What the ledger says of a release, or None if none was asked."""
    receipt = release.receipt
    if not receipt:
        return None
    entry, cost = int(receipt["entry"]), receipt["cost"]
    unit = next(name for name in SYMBOLS if name in cost)
    return Payment(
        name,
        entry,
        str(receipt["hash"]),
        SYMBOLS[unit],
        text_up(Fraction(cost[unit])),
        text_up(Fraction(cost["delta"])),
        times.get(entry, "").partition("+")[0].replace("T", " "),
        str(receipt["ledger"]),
    )
