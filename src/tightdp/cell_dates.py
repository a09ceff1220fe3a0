"""What date one cell is: texts, numbers, dates of Python and numpy, and instants on a stated clock.

- A text is a date if it is written as ISO 8601 says (``2014-10-13``, ``20141013``, with or without
  a time and an offset behind it), or as a stated format says and in no other way. A number is its
  digits: 20141013, 20141013.0 and "20141013" are one date.
- A date is one of the years 1 to 9999 that the calendar has: 30 February is missing.
- Whose clock: without a stated zone a date is the one that is written, whatever offset stands
  behind it. With a zone, instants (cells with an offset, columns with a zone) are put on its clock,
  and cells that have no offset are taken to be on it already.

As in :mod:`tightdp.values`, a cell is read from itself alone, nothing raises on account of one, and
no code of a cell's own class runs.
"""

from __future__ import annotations

import math
import re
import sys
import zoneinfo
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, Integers, check_instance, fail, quoted
from tightdp.values import exact_value, plain_cell

ISO = "iso"
EPOCH = date(1970, 1, 1).toordinal()
_DAY, _HOUR = 86_400, 3_600
_FIRST, _LAST = (date.min.toordinal() - EPOCH) * _DAY, (date.max.toordinal() - EPOCH + 1) * _DAY - 1
_MOST_DIGITS = 100  # as many as a format has letters
_OFFSET = r"(?P<z>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MONTHS = "january february march april may june july august september october november december"
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday"
_ISO_FORM = re.compile(
    r"(?P<Y>[0-9]{4})(?P<dash>-?)(?P<m>[0-9]{2})(?P=dash)(?P<d>[0-9]{2})"
    r"(?:[Tt ](?P<H>[0-9]{2})(?:(?P<colon>:?)(?P<M>[0-9]{2})(?:(?P=colon)(?P<S>[0-9]{2})"
    rf"(?:[.,][0-9]+)?)?)? ?{_OFFSET}?)?"
)


@dataclass(frozen=True, slots=True)
class Clock:
    """How cells become whole days, or hours, since midnight of a public day.

    Attributes
    ----------
    origin : int
        The day 0, in days since 1970-01-01.
    format : str
        How texts are written: "iso", or directives such as ``%d.%m.%Y``.
    zone : str
        Whose clock counts for instants; "" where that is the clock they are written by.
    hours : bool
        Whether hours are counted, instead of days.

    Examples
    --------
    >>> Clock(16071).numbers(["2014-01-03", "20140101T2359", 20140102.0, "2014-02-30", None])
    array([ 2.,  0.,  1., nan, nan])
    >>> Clock(16071, "%d.%m.%Y").numbers(["3.1.2014", "2014-01-03"])
    array([ 2., nan])
    >>> late = ["2014-01-03T23:30:00Z"]
    >>> Clock(16071).numbers(late), Clock(16071, zone="Europe/Berlin").numbers(late)
    (array([2.]), array([3.]))
    """

    origin: int
    format: str = ISO
    zone: str = ""
    hours: bool = False

    def numbers(self, cells: Iterable[Any]) -> FloatArray:
        """Whole days, or hours, since the origin; NaN where a cell is no date."""
        found = [_wall_second(cell, self.format, self.zone) for cell in cells]
        gone = np.array([second is None for second in found], dtype=bool)
        return self._counted(np.array([s or 0 for s in found], dtype=np.int64), gone)

    def of_instants(
        self, ticks: NDArray[Any], missing: NDArray[np.bool_] | None, zone: str | tzinfo | None
    ) -> FloatArray:
        """The same of numpy's datetimes; with a zone they are instants, without one wall clocks."""
        seconds, gone = _seconds(ticks)
        if missing is not None:
            gone = gone | missing
        if zone is not None:
            seconds = wall_seconds(np.where(gone, 0, seconds), self.zone or zone)
            gone = gone | (seconds < _FIRST) | (seconds > _LAST)
        return self._counted(seconds, gone)

    def _counted(self, seconds: Integers, gone: NDArray[np.bool_]) -> FloatArray:
        # seconds of the years 1 to 9999 have 39 bits
        unit = _HOUR if self.hours else _DAY
        counted = (seconds // unit - self.origin * (_DAY // unit)).astype(np.float64)
        counted[gone] = np.nan
        return counted


def read_day(name: str, value: object) -> date:
    """A date that is stated: of Python, or a text such as "2014-01-31".

    >>> read_day("low", "2014-01-31"), read_day("low", datetime(2014, 1, 31, 12))
    (datetime.date(2014, 1, 31), datetime.date(2014, 1, 31))
    """
    second = _wall_second(value, ISO, "") if isinstance(value, (str, date, np.datetime64)) else None
    if second is None:
        fail(f'`{name}` must be a date, such as "2014-01-31". Got {quoted(value)}.')
    return date.fromordinal(second // _DAY + EPOCH)


# --- one cell ------------------------------------------------------------------------------------


def _wall_second(cell: Any, form: str, zone: str) -> int | None:
    """Seconds since 1970 on the clock that counts, None if the cell is no date."""
    kind = type(cell)
    if kind is not str:
        if kind is np.datetime64:
            seconds, gone = _seconds(np.array([cell]))
            return None if gone[0] else int(seconds[0])
        if any(base is date for base in type.mro(kind)):
            return _of_python(cell, zone)
    text = plain_cell(cell)
    if not isinstance(text, str):
        text = _digits(text)
    if text is None:
        return None
    written, read = text.strip(), _reader(form)
    found = read(written)
    if found is None:
        digits = _digits(written)
        found = None if digits is None else read(digits)
    if found is None:
        return None
    second, offset = found
    return second if offset is None else _on_clock(second, offset, zone)


def _digits(cell: Any) -> str | None:
    """The digits of a number that is whole and not negative."""
    number = exact_value(cell)
    whole = isinstance(number, int) and 0 <= number < 10**_MOST_DIGITS
    return str(number) if whole else None


def _of_python(cell: Any, zone: str) -> int | None:
    """A date, or a datetime, by what its base class stores: nothing is asked of its own class."""
    if cell is getattr(sys.modules.get("pandas"), "NaT", ()):  # which is a date of the year 1
        return None
    second = (date.toordinal(cell) - EPOCH) * _DAY
    if not any(base is datetime for base in type.mro(type(cell))):
        return second
    hour, minute, rest, fold, clock = (
        getattr(datetime, part).__get__(cell)
        for part in ("hour", "minute", "second", "fold", "tzinfo")
    )
    stamp: Any = getattr(sys.modules.get("pandas"), "Timestamp", None)
    if any(base is stamp for base in type.mro(type(cell))):
        instant, gone = _seconds(np.array([stamp.to_datetime64(cell)]))
        if gone[0] or not date.min.year <= stamp.year.__get__(cell) <= date.max.year:
            return None  # of a year that is none of Python's, its base class stores another
        if zone and clock is not None:  # an instant, whatever class its clock is of
            return _on_clock(int(instant[0]), 0, zone)
    second += hour * _HOUR + minute * 60 + rest
    if clock is None or not zone:
        return second
    offset: timedelta | None
    if type(clock) is timezone:
        offset = clock.utcoffset(None)
    elif type(clock) is zoneinfo.ZoneInfo:
        day = date.fromordinal(second // _DAY + EPOCH)
        wall = datetime(day.year, day.month, day.day, hour, minute, rest, fold=fold)
        offset = clock.utcoffset(wall)
    else:
        return None  # a class of somebody's own, which would have to be asked
    return None if offset is None else _on_clock(second, round(offset.total_seconds()), zone)


def _on_clock(second: int, offset: int, zone: str) -> int | None:
    """What the stated clock shows when another, so many seconds ahead of UTC, shows this."""
    if not zone:
        return second
    wall = int(wall_seconds(np.array([second - offset]), zone)[0])
    return wall if _FIRST <= wall <= _LAST else None


# --- texts ---------------------------------------------------------------------------------------

Reader = Callable[[str], "tuple[int, int | None] | None"]


@cache
def _reader(form: str) -> Reader:
    """From a text to seconds and to its offset from UTC, if it has one; None if it is no date."""
    pattern = _ISO_FORM if form == ISO else _pattern(form)

    def read(text: str) -> tuple[int, int | None] | None:
        found = pattern.fullmatch(text)
        if found is None:
            return None
        parts = {name: part for name, part in found.groupdict().items() if part}
        day, second = _day(parts), _second_of_day(parts)
        if day is None or second is None:
            return None
        return day * _DAY + second, _offset(parts["z"]) if "z" in parts else None

    return read


def _day(parts: dict[str, str]) -> int | None:
    year = int(parts["Y"]) if "Y" in parts else int(parts["y"])
    if "Y" not in parts:  # as POSIX has it: 69 to 99 are of the last century
        year += 1900 if year >= 69 else 2000
    month = int(parts.get("m", 1))
    if "b" in parts:
        month = [name[:3] for name in _MONTHS.split()].index(parts["b"].lower()[:3]) + 1
    try:
        first = date(year, month, int(parts.get("d", 1))).toordinal() - EPOCH
        within = int(parts.get("j", 1))
        last = date(year, 12, 31).toordinal() - EPOCH
    except ValueError:  # no such day
        return None
    return first + within - 1 if within >= 1 and first + within - 1 <= last else None


def _second_of_day(parts: dict[str, str]) -> int | None:
    hour, minute, second = (int(parts.get(name, 0)) for name in "HMS")
    if "I" in parts:
        hour = int(parts["I"])
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (parts["p"].lower() == "pm")
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * _HOUR + minute * 60 + min(second, 59)  # 60 is a leap second


def _offset(text: str) -> int:
    if text in "Zz":
        return 0
    size = int(text[1:3]) * _HOUR + int(text[3:].lstrip(":") or 0) * 60
    return -size if text[0] == "-" else size


_DIRECTIVES = {
    "Y": "[0-9]{4}",
    "f": "[0-9]{1,9}",
    "j": "[0-9]{1,3}",
    "b": f"(?i:{'|'.join(f'{m}|{m[:3]}' for m in _MONTHS.split())})",
    "a": f"(?i:{'|'.join(f'{d}|{d[:3]}' for d in _WEEKDAYS.split())})",
    "p": "(?i:am|pm)",
} | dict.fromkeys("ymdHIMS", "[0-9]{1,2}")


def check_format(form: object) -> str:
    """A format that says the year, and the month if it says the day; "iso" is one.

    >>> check_format("%d.%m.%Y")
    '%d.%m.%Y'
    """
    text = check_instance("format", form, str, words="a text")
    if text == ISO:
        return ISO
    if not text.isprintable() or len(text) > 100:
        fail("`format` must be at most 100 printable characters, such as '%d.%m.%Y'.")
    _pattern(text)
    return text


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """What is written as the format says; two digits where no mark divides them from others."""
    out, seen, before = "", [], False
    for mark, rest in re.findall(r"%(.)|([^%]+|%$)", form.replace("%%", "%\0")):
        if rest or mark == "\0":
            out += "%" if mark else re.sub(r"(\\ )+", "[ ]+", re.escape(rest))
            before = False
            continue
        name = {"B": "b", "A": "a"}.get(mark, mark)
        if name == "z":
            out += _OFFSET
        elif name not in _DIRECTIVES:
            fail(
                f"`format` has the directive %{mark}, which is none of %Y %y %m %d %j %b %B %a %A "
                "%H %I %p %M %S %f %z %%."
            )
        else:
            digits = _DIRECTIVES[name]
            fixed = before and digits == "[0-9]{1,2}"
            out += f"(?P<{name}>{'[0-9]{2}' if fixed else digits})"
        seen.append(name)
        before = True
    _check_directives(seen)
    return re.compile(out, re.ASCII)  # else a long s, which no month has, would be an s


def _check_directives(seen: list[str]) -> None:
    month = [name for name in seen if name in "mb"]
    needs = (
        (len(set(seen)) == len(seen), "each directive once"),
        (sum(name in "Yy" for name in seen) == 1, "the year, %Y or %y"),
        (len(month) <= 1 and not ("j" in seen and (month or "d" in seen)), "one month or %j"),
        (bool(month) or "d" not in seen, "the month of its day"),
        ("H" not in seen or "I" not in seen, "%H or %I"),
        (("I" in seen) == ("p" in seen), "%I together with %p"),
        (bool({"H", "I"} & set(seen)) or not {"M", "S", "f"} & set(seen), "the hour of its time"),
    )
    for holds, what in needs:
        if not holds:
            fail(f"`format` must have {what}, as '%d.%m.%Y' and '%Y-%m-%d %H:%M' do.")


# --- many instants at once -----------------------------------------------------------------------


def _seconds(ticks: NDArray[Any]) -> tuple[Integers, NDArray[np.bool_]]:
    """Whole seconds of numpy's datetimes of any unit, rounded down, and which are no dates here.

    By integers: numpy's own way wraps round at the ends of what a unit holds.
    """
    unit, count = np.datetime_data(ticks.dtype)
    gone, whole = np.isnat(ticks), ticks.astype(np.int64)
    if unit in _MONTHS_OF:
        months = [12 * (year - 1970) for year in (date.min.year, date.max.year + 1)]
        gone = gone | ~_between(whole, Fraction(_MONTHS_OF[unit] * count), *months)
        near = np.where(gone, 0, whole).view(ticks.dtype)  # of which the calendar is numpy's
        return near.astype("M8[s]").astype(np.int64), gone
    size = _SECONDS_OF.get(unit, Fraction(0)) * count  # of no unit: they are NaT, all of them
    gone = gone | ~_between(whole, size or Fraction(1), _FIRST, _LAST + 1)
    near = np.where(gone, 0, whole)
    if size.numerator > 1 < size.denominator:  # such as 7 ms, whose products are long
        near = near.astype(object)
    return (near * size.numerator // size.denominator).astype(np.int64), gone


_MONTHS_OF = {"Y": 12, "M": 1}
_SECONDS_OF = {
    **{"W": Fraction(7 * _DAY), "D": Fraction(_DAY), "h": Fraction(_HOUR), "m": Fraction(60)},
    **{f"{part}s": Fraction(1, 1000**k) for k, part in enumerate(["", *"munpfa"])},
}


def _between(whole: Integers, size: Fraction, low: int, high: int) -> NDArray[np.bool_]:
    """Which integers, times the size, are at least one bound and below the other."""
    first, last = math.ceil(low / size), math.ceil(high / size) - 1
    return np.asarray((whole >= max(first, -(2**63))) & (whole <= min(last, 2**63 - 1)))


def wall_seconds(instants: Integers, zone: str | tzinfo) -> Integers:
    """What a clock of the zone shows at these instants, in seconds since its 1970-01-01.

    >>> (wall_seconds(np.array([0, 1_400_000_000]), "Europe/Berlin") - [0, 1_400_000_000]).tolist()
    [3600, 7200]
    """
    hours, places = np.unique(instants // _HOUR, return_inverse=True)
    clock = find_zone(zone) if isinstance(zone, str) else zone
    ends = [[_ahead(clock, int(h) * _HOUR + s) for s in (0, _HOUR - 1)] for h in hours]
    offsets = np.array(ends, dtype=np.int64).reshape(-1, 2)[places.reshape(-1)]
    out = instants + offsets[:, 0]
    for place in np.flatnonzero(offsets[:, 0] != offsets[:, 1]):  # clocks changed in this hour
        out[place] = instants[place] + _ahead(clock, int(instants[place]))
    return np.asarray(out, dtype=np.int64)


def _ahead(clock: tzinfo, instant: int) -> int:
    """How many seconds the clock is ahead of UTC; at the ends of the calendar as a week inside."""
    week = 7 * _DAY
    inside = min(max(instant, _FIRST + week), _LAST - week)
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=inside)
    offset = utc.astimezone(clock).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


@cache
def find_zone(name: str) -> tzinfo:
    """The clock of a name such as "Europe/Berlin", or of an offset such as "+02:00".

    >>> find_zone("+02:00").utcoffset(None)
    datetime.timedelta(seconds=7200)
    """
    if re.fullmatch(r"[+-][0-9]{2}:?[0-9]{2}", name):
        size = _offset(name)
        if abs(size) < _DAY:
            return timezone(timedelta(seconds=size))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        fail(
            f"`zone` must be a time zone that this machine knows, such as 'Europe/Berlin' or "
            f"'+02:00'. Got {quoted(name)}."
        )


def known_zone(name: str) -> bool:
    """Whether a column's type names a clock that this machine knows."""
    try:
        find_zone(name)
    except Exception:
        return False
    return True
