"""Columns of dates: numbers of days where numbers are asked for, periods where groups are.

Like every rule a :class:`Date` is a public fact, and what a cell becomes depends on the cell alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.cell_dates import EPOCH, ISO, Clock, check_format, find_zone, read_day
from tightdp.column_rules import Interval
from tightdp.errors import FloatArray, Integers, check_choice, check_instance, fail
from tightdp.parameters import tells_arguments
from tightdp.printed import day_text

UNITS = ("day", "week", "month", "quarter", "year", "weekday", "hour")
NO_DATE = "no date"
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONDAY = 3  # days from the first Monday before 1970-01-01 to that Thursday


@tells_arguments
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Date(Interval):
    """A column of dates, or of times whose dates count, with public bounds.

    As a number (means, quantiles, regressions) a date is the whole number of days since ``low``;
    what is released comes back as a date where it is printed. As a group (``by=``, tables,
    histograms) it is its period: every period from ``low`` to ``high`` is a group, those without a
    row too.

    Parameters
    ----------
    low, high : date or text
        Dates outside are moved to the nearer one.
    unit : {"day", "week", "month", "quarter", "year", "weekday", "hour"}
        The periods. Weeks begin on Monday, as in ISO 8601; weekdays are the same in every week, and
        hours (of the day) on every day, a date without a time being midnight. Another unit can be
        asked for where groups are: ``by=[("sold", "quarter")]``.
    missing : date or text, optional
        What missing cells, texts that are no date, and dates that do not exist count as. By default
        they are the middle of the bounds as numbers, and a group of their own, "no date".
    format : str
        How texts are written: "iso" (2014-10-13 and 20141013, with or without a time), or
        directives such as "%d.%m.%Y" and "%b %d, %Y", with English names. Never guessed.
    zone : str
        Whose clock counts, such as "Europe/Berlin". Without one, a date is the one that is written,
        whatever offset stands behind it, and the one on the clock of the column's own zone; with
        one, instants are put on its clock, and times without an offset are on it already.

    Examples
    --------
    >>> sold = Date("2014-01-01", "2014-12-31", unit="quarter")
    >>> sold.describe()
    '[2014-01-01 to 2014-12-31] by quarter, missing -> 2014-07-02 or no date'
    >>> sold.clock.numbers(["2014-01-01", "2014-04-01 12:30", "2014-02-30"])
    array([ 0., 90., nan])
    >>> sold.labels("quarter")
    ('2014-Q1', '2014-Q2', '2014-Q3', '2014-Q4', 'no date')
    >>> sold.day_text(90.4)
    '2014-04-01'
    """

    first: date = field(default=date.min)
    last: date = field(default=date.max)
    period: str = field(default="month")
    format: str = field(default=ISO)
    zone: str = field(default="")
    own: bool = field(default=True)
    """Whether cells that are no dates are a group of their own."""

    def __init__(
        self,
        low: Any,
        high: Any,
        unit: str = "month",
        *,
        missing: Any = None,
        format: str = ISO,
        zone: str = "",
    ) -> None:
        first, last = read_day("low", low), read_day("high", high)
        if not first < last:
            fail(f"`low` must be before `high`. Got {first} and {last}: swap or widen them.")
        stated = None if missing is None else read_day("missing", missing)
        if stated is not None and not first <= stated <= last:
            fail(f"`missing` must lie between {first} and {last}. Got {stated}.")
        if check_instance("zone", zone, str, words="a text"):
            find_zone(zone)
        days = None if stated is None else float((stated - first).days)
        Interval.__init__(
            self, 0.0, float((last - first).days), days, step=1.0, unit=f"days since {first}"
        )
        for name, value in (
            ("first", first),
            ("last", last),
            ("period", check_choice("unit", unit, UNITS)),
            ("format", check_format(format)),
            ("zone", zone),
            ("own", stated is None),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """What makes the same rule again."""
        facts = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"Date({facts})"

    def to_dict(self) -> dict[str, Any]:
        """What is stated, in the words of a schema file."""
        record: dict[str, Any] = {
            "low": str(self.first),
            "high": str(self.last),
            "unit": self.period,
        }
        if not self.own:
            record["missing"] = self.day_text(self.missing or 0.0)
        if self.format != ISO:
            record["format"] = self.format
        if self.zone:
            record["zone"] = self.zone
        return record

    def describe(self) -> str:
        """The rule in words; two rules that differ read differently."""
        own = f" or {NO_DATE}" if self.own else ""
        written = "" if self.format == ISO else f", written {self.format}"
        zone = f", on the clock of {self.zone}" if self.zone else ""
        return (
            f"[{self.first} to {self.last}] by {self.period}, missing -> "
            f"{self.day_text(self.missing or 0.0)}{own}{written}{zone}"
        )

    @property
    def clock(self) -> Clock:
        return Clock(self.first.toordinal() - EPOCH, self.format, self.zone)

    # --- from numbers back to dates ---------------------------------------------------------------

    def day_text(self, number: float) -> str:
        """The date of so many days since ``low``; the day that a part of one lies in."""
        return day_text(self.first, number)

    def cells(self, numbers: FloatArray) -> NDArray[Any]:
        days = np.floor(np.asarray(numbers, dtype=np.float64)).astype(np.int64)
        return (days + self.clock.origin).astype("M8[D]")

    def days(self, name: str, value: object) -> float:
        """A number of days since ``low`` that may be stated as a date."""
        if isinstance(value, (str, date, np.datetime64)):
            return float((read_day(name, value) - self.first).days)
        return value  # type: ignore[return-value]

    def around_zero(self) -> Interval:
        wider = copy.copy(self)
        object.__setattr__(wider, "low", -self.high)  # zero is still the day of `low`
        return wider

    # --- periods ----------------------------------------------------------------------------------

    def labels(self, unit: str) -> tuple[str, ...]:
        """What the periods are called, those without a row too; last, if it is one, "no date"."""
        own = (NO_DATE,) if self.own else ()
        return (*(_name(unit, key) for key in self._keys(unit)), *own)

    def count(self, unit: str) -> int:
        """How many periods there are; they need not be named for it."""
        return len(self._keys(unit)) + self.own

    def codes(self, numbers: FloatArray, unit: str) -> FloatArray:
        """The place of every number of days (of hours, if that is the unit) among the periods."""
        gone = np.isnan(numbers)
        known = np.where(gone, 0.0, numbers)
        if unit == "hour":
            beyond = (known < 0) | (known >= 24 * (self.high + 1))
            ends = np.where(known < 0, 0, 23)  # of the first and the last day
            codes = np.where(beyond, ends, known % 24)
        else:
            inside = np.clip(known, 0, self.high).astype(np.int64) + self.clock.origin
            codes = np.searchsorted(self._keys(unit), _key(unit, inside)).astype(np.float64)
        if gone.any():
            codes[gone] = self._no_date(unit)
        return codes

    def _no_date(self, unit: str) -> float:
        if self.own:
            return float(len(self._keys(unit)))
        days = np.array([self.missing], dtype=np.float64)
        return float(self.codes(days * 24 if unit == "hour" else days, unit)[0])

    def starts(self, unit: str) -> list[str | None]:
        """For every period a cell that lies in it."""
        keys = self._keys(unit)
        own: list[str | None] = [None] if self.own else []
        if unit == "hour":
            return [*(f"{self.first}T{key:02d}:00" for key in keys), *own]
        days = np.arange(self.first.toordinal(), self.last.toordinal() + 1) - EPOCH
        _, places = np.unique(_key(unit, days), return_index=True)
        return [*(self.day_text(float(place)) for place in places), *own]

    def spread(self, places: Integers, unit: str, shares: FloatArray) -> NDArray[Any]:
        """Dates in these periods, each at a share of its own; NaT where there is none."""
        days = np.arange(self.first.toordinal(), self.last.toordinal() + 1) - EPOCH
        if unit == "hour":
            chosen = days[(shares * len(days)).astype(np.int64)].astype("M8[D]").astype("M8[h]")
            found = chosen + np.where(places < 24, places, 0).astype("m8[h]")
        else:
            order = np.argsort(_key(unit, days), kind="stable")
            counts = np.unique(_key(unit, days), return_counts=True)[1]
            inside = np.minimum(places, len(counts) - 1)
            first = np.concatenate([[0], np.cumsum(counts)[:-1]])[inside]
            found = days[order[first + (shares * counts[inside]).astype(np.int64)]].astype("M8[D]")
        if self.own:
            found = found.copy()
            found[places == len(self._keys(unit))] = np.datetime64("NaT")
        return np.asarray(found)

    def _keys(self, unit: str) -> Integers:
        """The periods from ``low`` to ``high``, in order."""
        check_choice("unit", unit, UNITS)
        if unit == "hour":
            return np.arange(24)
        ends = np.array([self.first.toordinal(), self.last.toordinal()]) - EPOCH
        if unit == "weekday":  # of bounds within a week only some
            return np.unique(_key(unit, np.arange(ends[0], min(ends[0] + 6, ends[1]) + 1)))
        low, high = _key(unit, ends)
        return np.arange(low, high + 1)


def _key(unit: str, days: Integers) -> Integers:
    """The period of days since 1970-01-01: consecutive integers, in the order of time."""
    if unit == "weekday":
        return np.asarray((days + _MONDAY) % 7)
    if unit == "week":
        return np.asarray((days + _MONDAY) // 7)
    if unit == "day":
        return days
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    return np.asarray(months // {"month": 1, "quarter": 3, "year": 12}[unit])


def _name(unit: str, key: int) -> str:
    """What a period is called, as ISO 8601 writes it where it does."""
    if unit == "weekday":
        return _WEEKDAYS[key]
    if unit == "hour":
        return f"{key:02d}:00"
    if unit == "day":
        return str(date.fromordinal(int(key) + EPOCH))
    if unit == "week":  # a week belongs to the year of its Thursday
        year, number, _ = date.fromordinal(7 * int(key) + EPOCH).isocalendar()
        return f"{year:04d}-W{number:02d}"
    months = int(key) * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = 1970 + months // 12, months % 12 + 1
    ends = {"month": f"-{month:02d}", "quarter": f"-Q{(month + 2) // 3}", "year": ""}
    return f"{year:04d}{ends[unit]}"
