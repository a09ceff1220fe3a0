"""Dates: one reading of a cell for all containers, periods by another calendar, and their faces."""

from __future__ import annotations

import calendar
import json
import random
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightdp as tdp
from tightdp.cell_dates import Clock
from tightdp.data.histograms import Histogram, Periods
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.table import check_frame
from tightdp.date_rule import UNITS, Date
from tightdp.errors import ParameterError
from tightdp.plans import request

FIRST, LAST = date(2013, 12, 20), date(2016, 3, 5)
SOLD = Date(FIRST, LAST)
ZONED = Date(FIRST, LAST, zone="America/New_York")


def test_periods_are_counted_before_they_are_named():
    """Before: the days of all years were named, for a minute, and then refused."""
    for unit in UNITS:
        assert SOLD.count(unit) == len(SOLD.labels(unit))
        with_day = Date(FIRST, LAST, missing=FIRST)
        assert with_day.count(unit) == len(with_day.labels(unit))
    with pytest.raises(ParameterError, match="3652060 groups by day"):
        Periods(Date("0001-01-01", "9999-12-31"), "day")


def schema(rule: Date, rows: int = 100) -> tdp.Schema:
    return tdp.Schema({"sold": rule}, rows, neighbors="add-remove")


def days(frame: Any, rule: Date = SOLD, rows: int = 100) -> list[int]:
    """Whole days since the first, as they are summed: integers of the grid."""
    facts = schema(rule, rows)
    return quantized_matrix(frame, facts, ["sold"])[:, 0].tolist()


def should_be(found: date | None, rule: Date = SOLD) -> int:
    """The same integer, from the calendar of Python."""
    whole = (rule.last - rule.first).days
    place = round(rule.missing) if found is None else (found - rule.first).days
    scaled = Fraction(2 * min(max(place, 0), whole) - whole, whole)
    return int((scaled * 2**16 + Fraction(1, 2)) // 1)


# --- one cell -------------------------------------------------------------------------------------

READ: list[tuple[Any, date | None]] = [
    ("2014-10-13", date(2014, 10, 13)),
    (" 20141013 ", date(2014, 10, 13)),
    ("20141013T000000", date(2014, 10, 13)),
    ("2014-10-13T23:59:60.123+14:00", date(2014, 10, 13)),
    ("2014-10-13 7", None),
    ("2014-10-13T24:00", None),
    ("2014-10-13T12:60", None),
    ("2014-1-3", None),
    ("2014-02-30", None),
    ("2015-02-29", None),
    ("2016-02-29", date(2016, 2, 29)),
    ("13.10.2014", None),
    ("2014-1013", None),
    ("", None),
    (None, None),
    (True, None),
    (20141013, date(2014, 10, 13)),
    (20141013.0, date(2014, 10, 13)),
    (20141013.5, None),
    (-20141013, None),
    (10**400, None),
    (date(2014, 10, 13), date(2014, 10, 13)),
    (datetime(2014, 10, 13, 23, 59, tzinfo=ZoneInfo("Asia/Tokyo")), date(2014, 10, 13)),
    (pd.NaT, None),
    (np.datetime64("NaT"), None),
    (np.datetime64("2014-10"), date(2014, 10, 1)),
    (np.datetime64(2**62, "Y"), None),
    (np.datetime64(-1, "as"), date(1969, 12, 31)),
    ("9999-12-31", date.max),
    ("0001-01-01", date.min),
]


@pytest.mark.parametrize(("cell", "found"), READ, ids=[str(i) for i in range(len(READ))])
def test_a_cell_is_the_date_that_it_says(cell, found):
    assert days({"sold": [cell]}) == [should_be(found)]


FORMATS = (
    ("%d.%m.%Y", "3.10.2014", (2014, 10, 3)),
    ("%d.%m.%Y", "31.4.2014", None),
    ("%m/%d/%y", "10/03/14", (2014, 10, 3)),
    ("%m/%d/%y", "10/03/69", (1969, 10, 3)),
    ("%d%m%Y", "03102014", (2014, 10, 3)),
    ("%d%m%Y", "3102014", (2014, 10, 3)),
    ("%b %d, %Y", "OCT  3, 2014", (2014, 10, 3)),
    ("%A %d %B %Y", "Friday 3 October 2014", (2014, 10, 3)),
    ("%Y", "2014", (2014, 1, 1)),
    ("%Y-%m", "2014-10", (2014, 10, 1)),
    ("%Y %j", "2014 276", (2014, 10, 3)),
    ("%Y %j", "2014 366", None),
    ("%d.%m.%Y %I:%M %p", "3.10.2014 12:05 am", (2014, 10, 3)),
    ("%d.%m.%Y %H:%M", "3.10.2014 24:05", None),
    ("100%% %Y", "100% 2014", (2014, 1, 1)),
    ("(%Y)", "(2014)", (2014, 1, 1)),
)


@pytest.mark.parametrize(("form", "text", "found"), FORMATS)
def test_a_stated_format_reads_what_is_written_so(form, text, found):
    rule = Date("1960-01-01", LAST, format=form)
    assert days({"sold": [text]}, rule) == [should_be(found and date(*found), rule)]
    assert days({"sold": ["2014-10-03"]}, rule) == [should_be(None, rule)]


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m",
        "%d %Y",
        "%Y %Y",
        "%Q %Y",
        "%m %b %Y",
        "%H:%M",
        "%Y %I",
        "%Y %p",
        "%Y %M",
        "",
        7,
        "%",
    ],
)
def test_a_format_that_says_no_date_is_refused(form):
    with pytest.raises(ParameterError, match="`format`"):
        Date(FIRST, LAST, format=form)


def test_bounds_and_zones_are_checked():
    for low, high in (("2014-02-30", LAST), (LAST, FIRST), (7, LAST), (FIRST, "x"), (FIRST, FIRST)):
        with pytest.raises(ParameterError, match=r"`low`|`high`"):
            Date(low, high)
    with pytest.raises(ParameterError, match="`missing`"):
        Date(FIRST, LAST, missing="2020-01-01")
    with pytest.raises(ParameterError, match="`unit`"):
        Date(FIRST, LAST, unit="fortnight")
    with pytest.raises(ParameterError, match="`zone`"):
        Date(FIRST, LAST, zone="Atlantis/Capital")


# --- all containers -------------------------------------------------------------------------------


def times(seed: int, count: int) -> list[datetime | None]:
    """Times to the microsecond within and beyond the bounds, some of them missing."""
    draw = random.Random(seed)
    start, span = datetime(2010, 1, 1), timedelta(days=4000)
    return [None if draw.random() < 0.1 else start + draw.random() * span for _ in range(count)]


def numpy_times(cells: list[datetime | None], unit: str) -> Any:
    return np.array(cells, dtype="M8[us]").astype(f"M8[{unit}]")


def naive_tables(cells: list[datetime | None]) -> dict[str, Any]:
    """The same times in every container, to the second or finer."""
    arrow = {unit: pa.array(cells, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
             for unit in ("s", "ms", "us", "ns")}  # fmt: skip
    relation = duckdb.connect()
    relation.register("t", pa.table({"sold": arrow["us"]}))
    series = pd.Series(cells, dtype="datetime64[ns]")
    return {
        "python": {"sold": cells},
        "text": {"sold": [None if c is None else str(c) for c in cells]},
        "basic text": {"sold": [c if c is None else f"{c:%Y%m%dT%H%M%S}" for c in cells]},
        **{f"numpy {u}": {"sold": numpy_times(cells, u)} for u in ("s", "ms", "us", "ns", "7s")},
        "pandas": pd.DataFrame({"sold": series}),
        "pandas objects": pd.DataFrame({"sold": pd.Series(cells, dtype=object)}),
        "pandas Arrow": pd.DataFrame({"sold": pd.Series(cells, dtype="timestamp[us][pyarrow]")}),
        "category": pd.DataFrame({"sold": series.astype("category")}),
        "polars": pl.DataFrame({"sold": pl.Series(cells, dtype=pl.Datetime("ms"))}),
        "polars lazy": pl.LazyFrame({"sold": pl.Series(cells, dtype=pl.Datetime("us"))}),
        **{f"arrow {unit}": pa.table({"sold": array}) for unit, array in arrow.items()},
        "coded": pa.table({"sold": arrow["us"].dictionary_encode()}),
        "date64": pa.table({"sold": pa.array([c and c.date() for c in cells], pa.date64())}),
        "date32": pa.table({"sold": pa.array([c and c.date() for c in cells], pa.date32())}),
        "polars date": pl.DataFrame({"sold": [c and c.date() for c in cells]}),
        "DuckDB": relation.sql("SELECT * FROM t"),
        "DuckDB date": relation.sql("SELECT CAST(sold AS DATE) AS sold FROM t"),
        "DuckDB seconds": relation.sql("SELECT CAST(sold AS TIMESTAMP_S) AS sold FROM t"),
    }  # fmt: skip


def test_all_containers_give_the_same_integers(seed):
    cells = times(seed, 60)
    truth = [should_be(cell and cell.date()) for cell in cells]
    for name, table in naive_tables(cells).items():
        found = days(table)
        if name == "numpy 7s":  # which knows a time to seven seconds only
            assert sum(a != b for a, b in zip(found, truth, strict=True)) <= 1
        else:
            assert found == truth, name


def zoned_tables(cells: list[datetime | None], zone: str) -> dict[str, Any]:
    """Instants in columns and texts that know their offset."""
    aware = [None if c is None else c.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)) for c in cells]
    relation = duckdb.connect()
    relation.register("t", pa.table({"sold": pa.array(aware, pa.timestamp("us", zone))}))
    return {
        "python": {"sold": aware},
        "text": {"sold": [None if c is None else c.isoformat() for c in aware]},
        "pandas": pd.DataFrame({"sold": pd.Series(aware, dtype=f"datetime64[us, {zone}]")}),
        "pandas objects": pd.DataFrame({"sold": pd.Series(aware, dtype=object)}),
        "polars": pl.DataFrame({"sold": pl.Series(aware, dtype=pl.Datetime("us", zone))}),
        "arrow": pa.table({"sold": pa.array(aware, pa.timestamp("us", zone))}),
        "DuckDB": relation.sql("SELECT * FROM t"),
    }


def test_instants_are_put_on_the_stated_clock_or_are_as_written(seed):
    cells, zone = times(seed, 60), "Australia/Lord_Howe"  # half an hour of summer time
    utc = [None if c is None else c.replace(tzinfo=UTC) for c in cells]
    stated = [c and c.astimezone(ZoneInfo("America/New_York")).date() for c in utc]
    written = [c and c.astimezone(ZoneInfo(zone)).date() for c in utc]
    for name, table in zoned_tables(cells, zone).items():
        assert days(table, ZONED) == [should_be(d, ZONED) for d in stated], name
        if name != "DuckDB":  # whose clock is that of its session
            assert days(table) == [should_be(d) for d in written], name
    assert days({"sold": cells}, ZONED) == [should_be(c and c.date(), ZONED) for c in cells]


def test_a_column_of_pandas_whose_zone_has_no_name_here_holds_instants():
    """Its clock may be an offset, or of a class of somebody's own; pandas has no room at the ends
    of nanoseconds, and no far years on clocks of the machine."""
    late = datetime(2014, 1, 3, 21, tzinfo=timezone(timedelta(hours=-5)))
    ends = np.array([2**63 - 1, 1 - 2**63, 0]).view("M8[ns]")
    far = np.array(["20000-01-01", "-5000-01-01", "1970-01-01"], dtype="M8[s]")
    for clock in (late.tzinfo, Hourly()):
        column = pd.Series([late]).dt.tz_convert(clock)
        for rule, day in ((SOLD, 3), (Date(FIRST, LAST, zone="Europe/Berlin"), 4)):
            assert days({"sold": column}, rule) == [should_be(date(2014, 1, day))]
            assert days({"sold": column.astype(object)}, rule) == days({"sold": column}, rule)
            for ticks, found in ((ends, (LAST, FIRST, FIRST)), (far, (None, None, FIRST))):
                zoned = pd.Series(pd.DatetimeIndex(ticks).tz_localize("UTC").tz_convert(clock))
                assert days({"sold": zoned}, rule) == [*map(should_be, found)]


class Hourly(tzinfo):
    """A clock five hours behind, of which the machine knows no name."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=-5)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "hourly"


def test_old_timestamps_of_parquet_do_not_wrap_round(tmp_path):
    """In nanoseconds 9999-12-31, which many tables have for "never", would be of the year 1816."""
    cells = [datetime(9999, 12, 31), datetime(1, 1, 1), datetime(2014, 2, 3, 23), None]
    table = pa.table({"sold": pa.array(cells, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    assert days(tmp_path / "old.parquet") == days({"sold": cells})
    pq.write_table(table, tmp_path / "new.parquet")
    assert days(tmp_path) == days({"sold": [*cells, *cells]})


def test_datetimes_of_numpy_are_read_in_every_unit():
    for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"):
        ticks = np.array([-1, 0, 1, -(2**63)]).view(f"M8[{unit}]")
        found = Clock(0).of_instants(ticks, None, None)
        np.testing.assert_array_equal(found, Clock(0).numbers(list(ticks)))
        assert found[0] < found[1] == 0 <= found[2]
        ends = np.array([2**63 - 1, 1 - 2**63]).view(f"M8[7{unit}]")
        late, early = Clock(0).of_instants(ends, None, None)
        assert not late < 0 < early  # nothing wraps round
    lowest = pd.Timestamp.min
    assert Clock(0).numbers([lowest, lowest.to_datetime64()]).tolist() == [-106752.0] * 2


def test_clocks_that_change_within_an_hour_are_followed_to_the_second():
    zone, change = ZoneInfo("Europe/Berlin"), 1_396_141_200  # 2014-03-30 01:00 UTC
    instants = np.arange(change - 4000, change + 4000, 37)
    found = Clock(0, zone="Europe/Berlin", hours=True).of_instants(
        instants.view("M8[s]"), None, "UTC"
    )
    walls = [datetime.fromtimestamp(int(t), zone).replace(tzinfo=UTC) for t in instants]
    assert found.tolist() == [wall.timestamp() // 3600 for wall in walls]


def test_offsets_of_strange_clocks_are_left_alone():
    strange = datetime(2014, 1, 1, 23, tzinfo=timezone(timedelta(hours=-11, minutes=-30)))
    assert days({"sold": [strange]}, ZONED) == [should_be(date(2014, 1, 2), ZONED)]


# --- periods --------------------------------------------------------------------------------------


def period(unit: str, day: date) -> str:
    """The name of a period, by the calendar of Python."""
    year, week, _ = day.isocalendar()
    return {
        "day": f"{day}",
        "week": f"{year}-W{week:02d}",
        "month": f"{day:%Y-%m}",
        "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
        "year": f"{day.year}",
        "weekday": calendar.day_name[day.weekday()],
        "hour": "00:00",
    }[unit]


@pytest.mark.parametrize("unit", UNITS)
def test_every_day_counts_in_its_period_and_all_periods_are_there(unit):
    every = [FIRST + timedelta(days=i) for i in range((LAST - FIRST).days + 1)]
    counts = Histogram(schema(SOLD, 1000), "sold", unit)
    found = dict(zip(counts.labels[0], counts.measure({"sold": [*every, None]}), strict=True))
    assert found.pop("no date") == 1
    names = [period(unit, day) for day in every]
    assert {name: n for name, n in found.items() if n} == {n: names.count(n) for n in {*names}}
    ordered = [f"{h:02d}:00" for h in range(24)] if unit == "hour" else [*dict.fromkeys(names)]
    assert [*found] == ([*calendar.day_name] if unit == "weekday" else ordered)


def test_a_stated_missing_date_counts_in_its_period_and_bounds_clamp():
    rule = Date(FIRST, LAST, missing="2014-05-05")
    counts = Histogram(schema(rule), "sold", None)
    found = counts.measure({"sold": ["1900-01-01", "2100-01-01", "2014-02-30", None]})
    assert {n: c for n, c in zip(counts.labels[0], found, strict=True) if c} == {
        "2013-12": 1,
        "2016-03": 1,
        "2014-05": 2,
    }
    hours = Periods(rule, "hour")
    cells = Clock(rule.clock.origin, hours=True).numbers(["1900-01-01T12", "2100-01-01T12", ""])
    assert hours.to_grid(cells, 16, np.empty(3)).tolist() == [0, 23, 0]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("last", [date(2013, 12, 23), LAST])
def test_cells_drawn_for_a_period_lie_in_it(unit, last, seed):
    bins = Periods(Date(FIRST, last), unit)
    many = len(bins.labels)
    places = np.arange(20 * many) % many
    drawn = bins.draw_cells(places, tdp.randomness.source(seed))
    numbers = bins.clock.of_instants(drawn, None, None)
    assert bins.to_grid(numbers, 16, np.empty(20 * many)).tolist() == places.tolist()
    examples = [bins.cell_in(i) for i in range(many)]
    assert bins.to_grid(bins.clock.numbers(examples), 16, np.empty(many)).tolist() == [*range(many)]


# --- the faces ------------------------------------------------------------------------------------


def test_a_column_of_dates_is_refused_where_numbers_are_stated_before_payment():
    frame = pa.table({"sold": pa.array([date(2014, 1, 1)])})
    plain = tdp.Schema({"sold": tdp.Interval(0, 1)}, 1)
    with pytest.raises(ParameterError, match="state it as a Date in the schema"):
        check_frame(frame, plain, ["sold"])
    with pytest.raises(ParameterError, match="time64"):
        check_frame(pa.table({"sold": pa.array([None], pa.time64("us"))}), schema(SOLD), ["sold"])


@pytest.mark.parametrize(
    "rule",
    [
        SOLD,
        ZONED,
        Date("2014-01-01", "2014-12-31", "weekday", missing="2014-02-03", format="%d.%m.%Y"),
    ],
)
def test_a_schema_comes_back_from_its_texts(rule, tmp_path):
    facts = tdp.Schema({"sold": rule, "x": tdp.Interval(0, 1)}, 9)
    assert tdp.Schema.from_dict(json.loads(facts.to_json())) == facts
    assert eval(repr(facts), {**vars(tdp)}) == facts
    text = f"rows = 9\ncolumns.x = {{low = 0, high = 1}}\n[columns.sold]\nlow = {rule.first}\n"
    rest = {key: v for key, v in rule.to_dict().items() if key not in ("low", "high")}
    text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in rest.items())
    (tmp_path / "s.toml").write_text(f"{text}high = {rule.last}\n")
    assert tdp.Schema.from_toml(tmp_path / "s.toml") == facts


def test_another_rule_is_another_request():
    rules = [
        SOLD,
        ZONED,
        Date(FIRST, LAST, "day"),
        Date(FIRST, LAST, format="%d.%m.%Y"),
        Date(FIRST, LAST, missing="2015-01-27"),  # the middle, as a number
        Date(FIRST + timedelta(days=1), LAST + timedelta(days=1)),
        Date(FIRST, LAST + timedelta(days=1)),
        tdp.Interval(0, SOLD.high, step=1),
    ]
    sums = [tdp.Sums(tdp.Schema({"sold": rule}, 9)) for rule in rules]
    made = {tdp.AdditiveMechanism(each, epsilon=1).fingerprint() for each in sums}
    assert len(made) == len(rules)
    assert len({*rules}) == len(rules)


def test_released_numbers_come_back_as_dates():
    cells = [FIRST + timedelta(days=i % 800) for i in range(800)]
    facts = tdp.Schema({"sold": SOLD, "k": tdp.Category(["a", "b"], other="a")}, 800)
    frame = {"sold": cells, "k": ["a", "b"] * 400}
    mean = tdp.mean(frame, "sold", schema=facts, epsilon=1000)
    shown = str(FIRST + timedelta(days=399))
    assert shown in str(mean)
    assert f"[{shown} to {shown}]" in str(mean)
    again = tdp.Release.from_json(mean.to_json())
    assert str(again) == str(mean)
    assert again.dates == {"sold": str(FIRST)}
    median = tdp.median(frame, "sold", by="k", schema=facts, epsilon=1000)
    assert str(median).count("2015-0") == 2
    counts = tdp.count(frame, "sold", schema=facts, epsilon=1000)
    assert not counts.dates
    assert "2014-01" in str(counts)
    total = tdp.sum(frame, "sold", schema=facts, epsilon=1000)
    assert not total.dates


def test_dates_are_features_of_a_regression_with_and_without_intercept():
    rng = np.random.default_rng(5)
    place = rng.integers(0, 801, 4000)
    frame = pd.DataFrame({"sold": np.datetime64(FIRST) + place, "y": 0.001 * place})
    facts = tdp.Schema({"sold": SOLD, "y": tdp.Interval(0, 1)}, 4000)
    for intercept in (True, False):
        made = request("linear_regression", facts, epsilon=100, target="y", fit_intercept=intercept)
        answer = made.release(frame)
        slope = dict(zip(answer.names, answer.value, strict=True))["sold"]
        assert abs(slope - 0.001) < 2e-4


def test_the_check_says_which_format_would_read_the_cells():
    found = schema(SOLD, 3).check({"sold": ["13.10.2014", "2014-02-30", ""]})
    assert (found["sold"].missing, found["sold"].unreadable) == (1, 2)
    assert "with format = '%d.%m.%Y', 1 of its unreadable cells are dates" in str(found)
    numbers = tdp.Schema({"x": tdp.Interval(0, 1)}, 1).check({"x": ["2014-10-13"]})
    assert "1 of its unreadable cells are dates: a Date in the schema" in str(numbers)
