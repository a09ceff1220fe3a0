"""Public facts about a table, stated by the caller, and the one clamp that makes rows obey them.

A :class:`Schema` says for every column its interval or its levels, what missing and unseen cells
become, the neighbour relation, a public bound on the number of rows, how many rows one person may
have, and the grid. Cells are clamped, scaled to [-1, 1] and rounded to the grid ``2**-bits`` row by
row, before any sum. A rounded row is a row of the same domain, so sensitivity spaces do not change,
and every additive statistic is from then on a vector of integers. This module never reads data to
choose anything: it only applies the rules it was given.
"""

from __future__ import annotations

import json
import math
import numbers
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_count,
    check_instance,
    check_real,
    encodes,
    exact_fraction,
    fail,
)
from tightdp.paths import read_file
from tightdp.privacy import Neighbors
from tightdp.tables import html_table, text_table
from tightdp.values import exact_value, plain_cell

DEFAULT_BITS = 16
MOST_BITS = 26  # of a cell: products of two are split into exact halves
_SUM_BITS = 62
_MOST_LEVELS = 10**6
_MOST_ROWS = 10**15  # counts up to it, and their sums of products, are doubles
_DECIMALS = (".", ",")
_THOUSANDS = ("", ",", ".", "'", "_", " ")
DOORS: dict[str, Callable[..., Any]] = {}  # to rooms above that read tables; they fill it
_OTHER = "other"  # the level of unseen cells where none is stated
OTHER_HELP = (
    "Say where missing and unseen labels go: Category(['no', 'yes'], other='no') in Python, "
    '`other = "no"` below `levels` in TOML'
)
_LARGEST = 1e60  # fourth powers of widths, which errors of variances have, are finite, not zero


@dataclass(frozen=True, slots=True)
class Interval:
    """A numeric column with public bounds.

    Parameters
    ----------
    low, high : float
        Bounds; cells outside are moved to the nearer one, infinite ones included.
    missing : float, optional
        What a missing cell (null, NaN, unparsable) becomes; the middle by default.
    decimal : {".", ","}
        How texts are written: what stands before the fraction.
    thousands : {"", ",", ".", "'", "_", " "}
        What may divide thousands in texts; " " stands for all blanks, and "'" for its curved form
        too. Columns of numbers are not texts, and have no marks.
    step : float, Fraction or Decimal, optional
        The public fact that values are ``low, low + step, ..., high``: ages and ratings have
        ``step=1``. Cells are rounded to the nearest of them, each by itself, and sums and sums of
        products are then exact: nothing is lost to the grid. A float means its shortest decimal;
        thirds are ``Fraction(1, 3)``, and ``step = "1/3"`` in TOML.

    Examples
    --------
    >>> Interval(-2, 5).width, Interval(0, 10).missing
    (7.0, 5.0)
    >>> Interval(0, 9e5, decimal=",", thousands=".").describe()  # 1.234,5 and 1234,5 are numbers
    '[0, 900000], missing -> 450000, written 1.234,5'
    >>> Interval(1, 5, step=1).clamp(np.array([0.0, 2.4, 4.6, np.nan]))
    array([1., 2., 5., 3.])
    """

    low: float
    high: float
    missing: float | None = None
    decimal: str = "."
    thousands: str = ""
    step: float | Fraction | None = None

    def __post_init__(self) -> None:
        low, high = check_real("low", self.low), check_real("high", self.high)
        if not low < high:
            fail(f"`low` must be smaller than `high`. Got [{low}, {high}]: swap or widen them.")
        if not math.isfinite(high - low):
            fail("`high - low` must be finite: state bounds of moderate size.")
        if not (high - low) / 2 > 0:
            fail("`high - low` must be larger than the smallest float: widen the interval.")
        for name, value in (("low", low), ("high", high)):
            object.__setattr__(self, name, value)
        if self.step is not None:
            object.__setattr__(self, "step", _check_step(low, high, self.step))
        missing = self._default() if self.missing is None else check_real("missing", self.missing)
        if not low <= missing <= high:
            fail(f"`missing` must lie in [{low}, {high}]. Got {missing}.")
        if self.step is not None and self._snapped(missing) != missing:
            fail(
                f"`missing` must be {low:g} plus a multiple of `step`. Got {missing}: write "
                f"{self._snapped(missing)!r}."
            )
        check_choice("decimal", self.decimal, _DECIMALS)
        if check_choice("thousands", self.thousands, _THOUSANDS) == self.decimal:
            fail(f"`thousands` must differ from `decimal`. Got {self.decimal!r} for both.")
        object.__setattr__(self, "missing", missing)

    def _default(self) -> float:
        """The middle, or the value that it is rounded to."""
        return self.middle if self.step is None else self._snapped(self.middle)

    def _snapped(self, value: float) -> float:
        return float(self._values(self._places(np.array([value]), np.empty(1)))[0])

    @property
    def width(self) -> float:
        """Length of the interval: the largest change of one cell."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Centre of the interval: the origin of the scaled column."""
        return self.low + self.width / 2

    @property
    def half(self) -> float:
        """Half the width: one unit of the scaled column."""
        return self.width / 2

    @property
    def steps(self) -> int | None:
        """How many steps lead from ``low`` to ``high``; None without a step.

        >>> Interval(0, 1, step=0.1).steps
        10
        """
        if self.step is None:
            return None
        width = decimal_value(self.high) - decimal_value(self.low)
        return int(width / _step_value(self.step))

    def _places(self, cells: FloatArray, out: FloatArray) -> FloatArray:
        """The number of steps from ``low``, rounded half up, as doubles; NaN stays NaN."""
        assert self.steps is not None
        with np.errstate(all="ignore"):
            np.subtract(cells, self.low, out=out)
            out *= self.steps / self.width
            out += 0.5
            np.floor(out, out=out)
        return np.clip(out, 0.0, float(self.steps), out=out)

    def at_least(self, values: FloatArray) -> FloatArray:
        """The first values on the steps that are not below the given ones.

        >>> Interval(1, 5, step=1).at_least(np.array([2.0, 2.1]))
        array([2., 3.])
        """
        assert self.step is not None
        low, step = decimal_value(self.low), _step_value(self.step)
        places = [math.ceil((decimal_value(value) - low) / step) for value in values]
        # a double that stands for a third may lie just above it
        nearer = [
            place - (float(low + (place - 1) * step) >= value)
            for place, value in zip(places, values, strict=True)
        ]
        return np.array([float(low + place * step) for place in nearer])

    def _values(self, places: FloatArray) -> FloatArray:
        """The values at so many steps from ``low``: the nearest doubles."""
        assert self.step is not None
        low, step = decimal_value(self.low), _step_value(self.step)
        distinct, where = np.unique(places, return_inverse=True)
        values = np.array([float(low + int(k) * step) for k in distinct])
        return np.asarray(values[where].reshape(places.shape), dtype=np.float64)

    def clamp(self, cells: FloatArray) -> FloatArray:
        """Cells moved into the interval, missing ones (NaN) to their public value.

        >>> Interval(0, 1, missing=0.25).clamp(np.array([-5.0, 0.5, np.inf, np.nan]))
        array([0.  , 0.5 , 1.  , 0.25])
        """
        assert self.missing is not None  # set in __post_init__
        gone = np.isnan(cells)
        known = np.where(gone, self.missing, cells) if gone.any() else cells
        inside = np.asarray(np.clip(known, self.low, self.high), dtype=np.float64)
        if self.step is None:
            return inside
        return self._values(self._places(inside, np.empty(inside.shape)))

    def quantize(self, cells: FloatArray, bits: int) -> NDArray[np.int64]:
        """Clamped, scaled to [-1, 1] and rounded to multiples of ``2**-bits``: integers.

        >>> Interval(0, 10).quantize(np.array([0.0, 5.0, 10.0]), bits=4)
        array([-16,   0,  16])
        """
        numbers = np.asarray(cells, dtype=np.float64)
        return self.to_grid(numbers, bits, np.empty(numbers.shape)).astype(np.int64)

    def to_grid(self, cells: FloatArray, bits: int, out: FloatArray) -> FloatArray:
        """The same integers as doubles, written to ``out``: few passes, no scratch arrays.

        Every step is monotone, so clamping first gives what clamping to the images of the bounds
        gives last. Powers of two scale without rounding, so scale and grid are one division.
        """
        assert self.missing is not None  # set in __post_init__
        if self.steps is not None:
            places = self._places(cells, out)
            places[np.isnan(places)] = self._places(np.array([self.missing]), np.empty(1))[0]
            return np.floor((2 * places - self.steps) * (2.0**bits / self.steps) + 0.5, out=out)
        unit, grid = self.half / 2.0**bits, 1.0
        if unit * 2.0**bits != self.half:  # an interval so narrow that the unit is subnormal
            unit, grid = self.half, 2.0**bits
        with np.errstate(all="ignore"):
            np.subtract(cells, self.middle, out=out)
            out /= unit
            if grid != 1.0:
                out *= grid
            out += 0.5
            np.floor(out, out=out)
        ends = [self._grid_point(value, bits) for value in (self.low, self.high)]
        np.clip(out, *ends, out=out)
        if out.size and math.isnan(out.min()):
            out[np.isnan(out)] = self._grid_point(self.missing, bits)
        return out

    def _grid_point(self, value: float, bits: int) -> float:
        scaled = min(max((value - self.middle) / self.half, -1.0), 1.0)
        return float(math.floor(scaled * 2.0**bits + 0.5))

    def describe(self) -> str:
        """The rule in words; two rules that differ read differently."""
        assert self.missing is not None  # set in __post_init__
        low, high, missing = map(_exactly, (self.low, self.high, self.missing))
        written = "" if self.plain else f", written 1{self.thousands}234{self.decimal}5"
        steps = "" if self.step is None else f" in steps of {_step_text(self.step)}"
        return f"[{low}, {high}]{steps}, missing -> {missing}{written}"

    @property
    def plain(self) -> bool:
        """Whether texts are written 1234.5, as Python reads them."""
        return (self.decimal, self.thousands) == (".", "")


def decimal_value(number: float) -> Fraction:
    """What a float is short for: its shortest decimal, exactly.

    >>> decimal_value(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(number)))


def _step_value(step: float | Fraction) -> Fraction:
    return step if isinstance(step, Fraction) else decimal_value(step)


def _step_text(step: float | Fraction) -> str:
    return str(step) if isinstance(step, Fraction) else _exactly(step)


def _read_step(given: object) -> float | Fraction:
    """A float that is short for the step, or the fraction that no decimal is."""
    if not isinstance(given, (Fraction, Decimal)):
        return check_real("step", given)
    exact = exact_fraction("step", given)
    if not exact < 1 << 1000:
        fail("`step` must be finite: leave it out.")
    return float(exact) if decimal_value(float(exact)) == exact else exact


def _check_step(low: float, high: float, given: object) -> float | Fraction:
    """A step that leads from one bound to the other in so many moves."""
    step = _read_step(given)
    if not step > 0:
        fail(f"`step` must be positive. Got {_step_text(step)}.")
    value = _step_value(step)
    moves = (decimal_value(high) - decimal_value(low)) / value
    if moves.denominator != 1:
        fail(
            f"`high` must be `low` plus a multiple of `step`. Got [{low:g}, {high:g}] in steps of "
            f"{_step_text(step)}: write high={_next_end(low, value, moves):g}, or leave `step` out."
        )
    if moves > 1 << MOST_BITS:
        fail(f"`step` must divide the interval into at most 2^{MOST_BITS} steps: leave it out.")
    rounded = any(Fraction(end) != decimal_value(end) for end in (low, float(step)))
    if step < math.ulp(max(abs(low), abs(high))) * (4 if rounded else 1):
        fail("`step` must be wider than what doubles tell apart at these bounds: leave it out.")
    return step


def _next_end(low: float, step: Fraction, moves: Fraction) -> float:
    """The next upper bound that so many steps lead to, and that a decimal can write."""
    rest = step.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return float(decimal_value(low) + math.ceil(moves / rest) * rest * step)


def _exactly(number: float) -> str:
    """Six digits where they say it all, else as many as it takes."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


@dataclass(frozen=True, slots=True, init=False)
class Category:
    """A categorical column with public levels.

    A level is its value, however an engine stores it. A text is the level with the same letters.
    What else is a number, or reads as one, is the level of that value: 1, 1.0, True and "1" are one
    level, whether it is written 1 or "1" here. Texts of one value, such as "1" and "01", can be
    two levels; then they are told apart by their letters, and a number is neither of them.

    Parameters
    ----------
    levels : iterable of texts or numbers
        The distinct values that are told apart, at least two.
    other : optional
        The level that missing cells and unseen values count as: one of ``levels``. By default they
        have a level of their own, ``"other"``, which stands last; it is not added if ``levels``
        has it. Counts and histograms have that level like the others. Regressions do not: hardly
        a row may have it, which would ruin all coefficients, so such cells count as the first
        level there; state ``other`` for another. Learners of two classes need a target that says
        where unseen labels go.
    loose : bool
        Whether texts count as a level whatever their case and the blanks around them; by default
        they must be the same to the letter.

    Examples
    --------
    >>> Category(["a", "b"]).levels, Category(["a", "b", "rest"], other="rest").levels
    (('a', 'b', 'other'), ('a', 'b', 'rest'))
    >>> Category(["a", "b"]).indicators, Category(["a", "b", "other"]).indicators
    (('b',), ('b', 'other'))
    >>> Category(["1", "2"]).codes([1, 2.0, "1", True, 3, None])
    array([0, 1, 0, 0, 2, 2])
    >>> Category(["No", "Yes"], loose=True).codes(["yes", " YES ", "no", "y"])
    array([1, 1, 0, 2])
    """

    levels: tuple[Any, ...]
    other: Any
    loose: bool
    stated: bool = field(repr=False)
    """Whether all levels were stated, and `other` was not added to them."""

    def __init__(self, levels: Iterable[Any], other: object = None, *, loose: bool = False) -> None:
        if isinstance(levels, str):
            fail("`levels` must be a list of levels, not one string.")
        if not isinstance(levels, Iterable):
            fail(f"`levels` must be a list of levels. Got {type(levels).__name__}.")
        if not isinstance(loose, bool):
            fail(f"`loose` must be True or False. Got {type(loose).__name__}.")
        values = tuple(_level("levels", value) for value in islice(levels, _MOST_LEVELS + 1))
        if len(values) > _MOST_LEVELS:
            fail(f"`levels` must hold at most {_MOST_LEVELS} levels.")
        if len(values) < 2:
            fail(f"`levels` must hold at least 2 levels. Got {len(values)}.")
        rest = _rest(values, loose) if other is None else _level("other", other)
        stated = other is not None or rest in values
        if not stated:
            values = (*values, rest)
        if rest not in values:
            fail("`other` must be one of `levels`: add it to them.")
        object.__setattr__(self, "levels", values)
        object.__setattr__(self, "other", rest)
        object.__setattr__(self, "loose", loose)
        object.__setattr__(self, "stated", stated)
        self._check_distinct()

    def __repr__(self) -> str:
        """What makes the same category again."""
        other = f", other={self.other!r}" if self.stated else ""
        return f"Category(levels={self.named!r}{other}, loose={self.loose!r})"

    @property
    def named(self) -> tuple[Any, ...]:
        """The levels that were stated."""
        return self.levels if self.stated else self.levels[:-1]

    @property
    def indicators(self) -> tuple[Any, ...]:
        """The levels that have a column of their own in the design of a regression.

        All that were stated but the first, the reference; cells of a level that nobody stated
        count as the reference.
        """
        return self.named[1:]

    def _check_distinct(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            fail("`levels` must be distinct.")
        if len(set(map(self.key, self.levels))) != len(self.levels):
            fail("`levels` must differ in more than case and blanks, or `loose` must be False.")
        texts = {exact_value(level): level for level in self.levels if isinstance(level, str)}
        for level in self.levels:
            alike = None if isinstance(level, str) else texts.get(exact_value(level))
            if alike is not None:
                fail(f"`levels` must be distinct: {level!r} and {alike!r} are one value.")

    def codes(self, cells: Iterable[Any]) -> NDArray[np.int64]:
        """The position of every cell among the levels; unseen and missing cells become `other`.

        >>> Category(["a", "b", "rest"], other="rest").codes(["b", None, "a", "zzz"])
        array([1, 2, 0, 2])
        """
        letters, values = self._letters(), self._values()
        rest = self.levels.index(self.other)
        places = (_place(self.key(plain_cell(cell)), letters, values, rest) for cell in cells)
        return np.fromiter(places, dtype=np.int64)

    def _letters(self) -> dict[str, int]:
        places = enumerate(self.levels)
        return {self.key(level): i for i, level in places if isinstance(level, str)}

    def _values(self) -> dict[int | float, int]:
        """The level of every number that exactly one level stands for."""
        values = [exact_value(level) for level in self.levels]
        known = Counter(value for value in values if value is not None)
        return {v: i for i, v in enumerate(values) if v is not None and known[v] == 1}

    def key(self, cell: object) -> Any:
        """What is compared of a cell: the cell itself, or a text without case and blanks."""
        return cell.strip().casefold() if self.loose and isinstance(cell, str) else cell

    def describe(self) -> str:
        """The rule in words."""
        loose = ", whatever case and blanks" if self.loose else ""
        return f"{', '.join(map(str, self.levels))}{loose}; missing, unseen -> {self.other}"


def _rest(levels: tuple[Any, ...], loose: bool) -> str:
    """The level of unseen cells where none is stated."""
    alike = [v for v in levels if isinstance(v, str) and v.strip().casefold() == _OTHER]
    if not alike or _OTHER in alike:
        return _OTHER
    if not loose:
        fail(
            f"`levels` has {alike[0]!r}, and unseen cells would have the level {_OTHER!r} beside "
            f"it: say other={alike[0]!r}, or where else they go."
        )
    return str(alike[0])


def _place(
    cell: object, letters: Mapping[str, int], values: Mapping[int | float, int], rest: int
) -> int:
    if isinstance(cell, str) and cell in letters:
        return letters[cell]
    value = exact_value(cell)
    return rest if value is None else values.get(value, rest)


def _level(name: str, value: object) -> Any:
    """A level as a cell can equal it: a text or a number."""
    if value is None or (isinstance(value, (float, np.floating)) and value != value):
        fail(f"`{name}` must not contain None or NaN: missing cells count as `other`.")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (Decimal, Fraction)):  # as cells are compared: ints, or nearest doubles
        number = float(value) if isinstance(value, Fraction) or not value.is_snan() else math.nan
        return _level(name, int(value) if math.isfinite(number) and value % 1 == 0 else number)
    if not isinstance(value, (str, numbers.Real)):
        fail(
            f"`{name}` must be texts or numbers, as cells are. Got {type(value).__name__}: write "
            "it as a text."
        )
    if isinstance(value, str) and not encodes(value):
        fail(f"`{name}` must be texts that can be written: one holds half of a surrogate pair.")
    return value


@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """Public facts about a table.

    Parameters
    ----------
    columns : mapping from names to Interval or Category
        Copied, and read-only from then on: facts that were checked stay as they were.
    rows : int
        The public number of rows (replace-one), or a public bound on it (add-remove).
    neighbors : {"replace-one", "add-remove"}
    bits : int, optional
        Numeric cells live on the grid ``2**-bits`` of the scaled column; the default is 16, or
        less where sums of products of ``rows`` rows would need more than 62 bits, or more where
        the steps of a column need it.
    person : str, optional
        The column that identifies a person, if a person can have several rows; needs add-remove
        (a person more or fewer, with all their rows). Numbers of one value are one person, and so
        are texts of the same letters; a text is a number only as Python writes an integer, so that
        1, 1.0 and "1" are one person, and "01", " 1" and "1.0" are three others. **Somebody whose
        rows carry two identifiers is two persons**, and protected as such: with twice the rows,
        at twice the epsilon. Make identifiers one before, by a public rule that looks at one row
        at a time (strip blanks, drop leading zeros).
    rows_per_person : int
        At most so many rows of a person are used, and all sensitivities are multiplied by it.

    Examples
    --------
    >>> schema = Schema({"x": Interval(-2, 5), "k": Category(["a", "b"])}, rows=5000)
    >>> print(schema)
    column  kind      rule
    -------------------------------------------------------
    x       interval  [-2, 5], missing -> 1.5
    k       category  a, b, other; missing, unseen -> other
    <BLANKLINE>
    replace-one neighbours, 5000 rows, grid 2^-16, 1 row per person
    """

    columns: Mapping[str, Interval | Category]
    rows: int
    neighbors: Neighbors
    bits: int
    person: str | None
    rows_per_person: int

    def __init__(
        self,
        columns: Mapping[str, Interval | Category],
        rows: int,
        *,
        neighbors: str | Neighbors = "replace-one",
        bits: int | None = None,
        person: str | None = None,
        rows_per_person: int = 1,
    ) -> None:
        _check_columns(columns)
        count = check_count("rows", rows, most=_MOST_ROWS)
        finest = max(1, (_SUM_BITS - count.bit_length()) // 2)
        chosen = min(DEFAULT_BITS, finest) if bits is None else check_bits(columns, bits)
        chosen = max(chosen, _least_bits(columns))
        _check_person(columns, person, rows_per_person, Neighbors.of(neighbors))
        object.__setattr__(self, "columns", MappingProxyType(dict(columns)))
        object.__setattr__(self, "rows", count)
        object.__setattr__(self, "neighbors", Neighbors.of(neighbors))
        object.__setattr__(self, "bits", chosen)
        object.__setattr__(self, "person", person)
        most = check_count("rows_per_person", rows_per_person, most=_MOST_ROWS)
        object.__setattr__(self, "rows_per_person", most)

    def __repr__(self) -> str:
        """What makes the same schema again."""
        columns = ", ".join(f"{name!r}: {rule!r}" for name, rule in self.columns.items())
        facts = [f"{name}={_plain(value)!r}" for name, value in self._options().items()]
        return f"Schema({{{columns}}}, {self.rows}, {', '.join(facts)})"

    def __hash__(self) -> int:
        columns = frozenset(self.columns.items())  # equal whatever their order, as mappings are
        return hash((columns, self.rows, *self._options().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and the workers of Spark: a read-only mapping cannot be pickled."""
        return partial(Schema, dict(self.columns), self.rows, **self._options()), ()

    def _options(self) -> dict[str, Any]:
        """What is stated beside columns and rows."""
        return {
            "neighbors": self.neighbors,
            "bits": self.bits,
            "person": self.person,
            "rows_per_person": self.rows_per_person,
        }

    def __getitem__(self, name: str) -> Interval | Category:
        if isinstance(name, str) and name in self.columns:
            return self.columns[name]
        return self.columns[check_choice("column", name, self.columns)]  # says what it is not

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    @property
    def resolution(self) -> int:
        """Grid points per unit of a scaled column: ``2**bits``."""
        return 1 << self.bits

    @property
    def protected_rows(self) -> int | None:
        """How many rows of a person are used, where a person is protected; None where a row is."""
        return None if self.person is None else self.rows_per_person

    def select(self, names: Iterable[str]) -> dict[str, Interval | Category]:
        """The named columns, in that order."""
        return {name: self[name] for name in names}

    def with_rows(self, rows: int) -> Schema:
        """The same facts about another number of rows.

        >>> Schema({"x": Interval(0, 1)}, rows=100).with_rows(5).rows
        5
        """
        return Schema(
            self.columns,
            rows,
            neighbors=self.neighbors,
            bits=self.bits,
            person=self.person,
            rows_per_person=self.rows_per_person,
        )

    def only(self, names: Iterable[str]) -> Schema:
        """The same facts for some of the columns, in that order: a model's features and target.

        >>> schema = Schema({"a": Interval(0, 1), "b": Interval(0, 2), "c": Interval(0, 3)}, rows=9)
        >>> list(schema.only(["c", "a"]))
        ['c', 'a']
        """
        if isinstance(names, str):
            fail("`names` must be a list of columns.")
        return self.ruled(self.select(names))

    def ruled(self, columns: Mapping[str, Interval | Category]) -> Schema:
        """The same facts about rows and persons, with these rules for columns."""
        return Schema(columns, self.rows, **self._options())

    def check(self, frame: TableLike, *, progress: bool = False) -> Any:
        """Count cells that are missing, unreadable, clamped or unseen, column by column.

        **Not private**, for the curator's eyes only: a release says nothing of such cells, so that
        a column of texts where numbers were expected is published as the middle of its bounds. It
        prints as a table, and cannot be stored in a report or a ledger.

        >>> from tightdp import Interval, Schema
        >>> schema = Schema({"x": Interval(0, 9)}, rows=3)
        >>> schema.check({"x": ["1,5", "2,5", ""]})["x"].unreadable
        2
        """
        return DOORS["check"](self, frame, progress=progress)

    # --- text and TOML ------------------------------------------------------------------------

    def _lines(self) -> list[tuple[str, str, str]]:
        return [
            ("column", "kind", "rule"),
            *(
                (name, type(column).__name__.lower(), column.describe())
                for name, column in self.columns.items()
            ),
        ]

    def _facts(self) -> str:
        each = "row" if self.rows_per_person == 1 else "rows"
        owner = f" (column {self.person!r})" if self.person else ""
        return (
            f"{self.neighbors} neighbours, {self.rows} rows, grid 2^-{self.bits}, "
            f"{self.rows_per_person} {each} per person{owner}"
        )

    def __str__(self) -> str:
        table = text_table(self._lines(), left=range(3))
        return "\n".join([*table, "", self._facts()])

    def _repr_html_(self) -> str:
        return html_table(self._lines(), self._facts())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the shape of the TOML file."""
        columns: dict[str, Any] = {}
        for name, column in self.columns.items():
            if isinstance(column, Interval):
                columns[name] = {
                    "low": column.low,
                    "high": column.high,
                    "missing": column.missing,
                }
                if not column.plain:
                    columns[name] |= {"decimal": column.decimal, "thousands": column.thousands}
                if column.step is not None:
                    exact = isinstance(column.step, Fraction)
                    columns[name]["step"] = str(column.step) if exact else column.step
            else:
                columns[name] = {"levels": list(column.named)}
                if column.stated:
                    columns[name]["other"] = column.other
                if column.loose:
                    columns[name]["loose"] = True
        record: dict[str, Any] = {
            "rows": self.rows,
            "neighbors": str(self.neighbors),
            "bits": self.bits,
            "rows_per_person": self.rows_per_person,
        }
        if self.person is not None:
            record["person"] = self.person
        return record | {"columns": columns}

    def to_json(self) -> str:
        """All facts in one line of text; equal texts, equal schemas."""
        return json.dumps(self.to_dict(), default=repr)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """The schema of a mapping such as :meth:`to_dict` gives; unknown keys are errors."""
        if not isinstance(record, Mapping):
            fail(f"The schema must be a table of keys. Got {type(record).__name__}.")
        keys = ("rows", "neighbors", "bits", "person", "rows_per_person", "columns")
        for key in record:
            check_choice("key", key, keys)
        for key in ("rows", "columns"):
            if key not in record:
                fail(f"The schema needs the key {key!r}.")
        if not isinstance(record["columns"], Mapping):
            fail("`columns` must be a table of columns.")
        columns = {name: _column(name, facts) for name, facts in record["columns"].items()}
        options = {key: record[key] for key in keys[1:-1] if key in record}
        return cls(columns, record["rows"], **options)

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a TOML file with ``rows``, options, and one table ``[columns.NAME]`` per column.

        A numeric column has ``low`` and ``high`` (and ``missing``, ``decimal``, ``thousands``,
        ``step``), a category has ``levels`` (and ``other``, ``loose``).
        """
        text = read_file("path", path)
        try:
            record = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            fail(f"The schema file is not valid TOML: {error}.")
        except (ValueError, RecursionError):
            fail("The schema file is not valid TOML: numbers too long, or nested too deeply.")
        return cls.from_dict(record)


def check_schema(schema: object) -> Schema:
    """A schema, not a dictionary of columns."""
    return check_instance("schema", schema, Schema)


def numeric_column(
    schema: Schema, name: str, remedy: str = "code its levels as numbers first"
) -> Interval:
    """The public bounds of a numeric column.

    >>> numeric_column(Schema({"k": Category(["a", "b"], other="a")}, rows=9), "k")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: Column 'k' must be an Interval: code its levels as numbers first.
    """
    column = schema[name]
    if not isinstance(column, Interval):
        fail(f"Column {name!r} must be an Interval: {remedy}.")
    return column


def column_of_two_levels(schema: Schema, name: str, why: str = "", more: str = "") -> Category:
    """The levels of a column that says which of two classes a row is in."""
    column = schema[name]
    if not isinstance(column, Category) or len(column.levels) != 2:
        fail(
            f"The target {name!r} must be a Category with exactly two levels{why}. "
            f"{OTHER_HELP}{more}."
        )
    return column


def require_public_rows(schema: Schema, what: str) -> None:
    """What divides by the number of rows, or does not count them, needs to know it."""
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        fail(f"{what} needs neighbors='replace-one': the number of rows must be public.")


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Neighbors) else value


def _column(name: str, facts: object) -> Interval | Category:
    if not isinstance(facts, Mapping):
        fail(f"Column {name!r} must be a table with `low` and `high`, or with `levels`.")
    numeric = ("low", "high", "missing", "decimal", "thousands", "step")
    allowed = ("levels", "other", "loose") if "levels" in facts else numeric
    for key in facts:
        check_choice(f"columns.{name}", key, allowed)
    if "levels" in facts:
        return Category(**facts)
    if not facts:
        fail(
            f"Column {name!r} is empty: it needs `low` and `high` if it is a number, `levels` if "
            "it is a category; or delete it, if no release reads it."
        )
    for key in ("low", "high"):
        if key not in facts:
            fail(f"Column {name!r} needs `{key}`: bounds are public facts, never read off data.")
    if re.fullmatch(r"[0-9]{1,20}/[0-9]{0,20}[1-9][0-9]{0,20}", str(facts.get("step"))):
        return Interval(**{**facts, "step": Fraction(facts["step"])})
    return Interval(**facts)


def _check_columns(columns: object) -> None:
    if not isinstance(columns, Mapping) or not columns:
        fail("`columns` must be a non-empty mapping from names to Interval or Category.")
    for name, column in columns.items():
        if not isinstance(name, str) or not isinstance(column, (Interval, Category)):
            fail(f"Column {name!r} must be an Interval or a Category with a string name.")
        if not name.isprintable():
            fail(f"Column {name!r} must have a name of printable characters: rename it.")
        if isinstance(column, Interval):
            _check_size(name, column)


def _least_bits(columns: Mapping[str, Any]) -> int:
    """The coarsest grid that tells all steps of all columns apart, with room to spare."""
    steps = [column.steps or 1 for column in columns.values() if isinstance(column, Interval)]
    return max([1, *((count - 1).bit_length() for count in steps)])


def check_bits(columns: Mapping[str, Any], bits: object) -> int:
    """A grid that is fine enough for the steps of the columns."""
    given, least = check_count("bits", bits, most=MOST_BITS), _least_bits(columns)
    if given < least:
        fail(f"`bits` must be at least {least}, for the steps of the columns. Got {given}.")
    return given


def _check_size(name: str, column: Interval) -> None:
    """Noise and sums in the units of the column must be numbers that a double holds."""
    if max(abs(column.low), abs(column.high)) > _LARGEST or column.width < 1 / _LARGEST:
        fail(
            f"Column {name!r} must have bounds of at most {_LARGEST:g} in size, at least "
            f"{1 / _LARGEST:g} apart. Got [{column.low}, {column.high}]: use other units."
        )


def _check_person(
    columns: Mapping[str, Any], person: object, rows_per_person: object, neighbors: Neighbors
) -> None:
    if person is not None and (not isinstance(person, str) or person in columns):
        fail("`person` must name a column that is not among `columns`.")
    if person is not None and not (person and person.isprintable()):
        fail("`person` must be the name of a column, of printable characters: rename it.")
    if person is not None and neighbors is Neighbors.REPLACE_ONE:
        fail(
            '`person` needs neighbors="add-remove": another person may have another number of '
            "rows, so the number of rows that are used is not public."
        )
    if person is None and check_count("rows_per_person", rows_per_person, most=_MOST_ROWS) != 1:
        fail(
            "`rows_per_person` above 1 needs `person`, the column that says whose row it is: "
            "a bound that is not enforced protects nobody."
        )
