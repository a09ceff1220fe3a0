"""What a column may hold: an interval or levels, and the one clamp that makes cells obey it.

A rule says what cells outside of it, missing cells and unseen ones become. It is a public fact, and
never chosen by a look at data; what a cell becomes depends on the cell alone.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.cell_dates import Clock
from tightdp.errors import FloatArray, check_choice, check_real, encodes, exact_fraction, fail
from tightdp.parameters import tells_arguments
from tightdp.printed import all_digits
from tightdp.values import exact_value, plain_cell

MOST_BITS = 26  # of a cell: products of two are split into exact halves
Step = tuple[str, float]
"""One operation of arithmetic on doubles, and its constant; "floor" has none."""
HALF_UP: tuple[Step, ...] = (("+", 0.5), ("floor", 0.0))
_OPERATIONS = {"-": np.subtract, "+": np.add, "*": np.multiply, "/": np.divide}
_MOST_LEVELS = 10**6
_DECIMALS = (".", ",")
_THOUSANDS = ("", ",", ".", "'", "_", " ")
_OTHER = "other"  # the level of unseen cells where none is stated
OTHER_HELP = (
    "Say where missing and unseen labels go: Category(['no', 'yes'], other='no') in Python, "
    '`other = "no"` below `levels` in TOML'
)


@tells_arguments
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
    unit : str
        What the numbers are in, such as "years" or "EUR": reports print it, and nothing else
        depends on it.

    Examples
    --------
    >>> Interval(-2, 5).width, Interval(0, 10).missing
    (7.0, 5.0)
    >>> Interval(0, 9e5, decimal=",", thousands=".").describe()  # 1.234,5 and 1234,5 are numbers
    '[0 to 900,000], missing -> 450,000, written 1.234,5'
    >>> Interval(1, 5, step=1).clamp(np.array([0.0, 2.4, 4.6, np.nan]))
    array([1., 2., 5., 3.])
    """

    low: float
    high: float
    missing: float | None = None
    decimal: str = "."
    thousands: str = ""
    step: float | Fraction | None = None
    unit: str = field(default="", metadata={"printed only": True})

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
        if not (isinstance(self.unit, str) and self.unit.isprintable() and len(self.unit) <= 40):
            fail("`unit` must be a text of at most 40 printable characters, such as 'years'.")
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
        take_steps(self._to_places(), cells, out)
        return np.clip(out, 0.0, float(self.steps), out=out)

    def _to_places(self) -> tuple[Step, ...]:
        assert self.steps is not None
        return (("-", self.low), ("*", self.steps / self.width), *HALF_UP)

    def grid_steps(self, bits: int) -> tuple[Step, ...]:
        """What makes the grid integer of a number within the bounds, operation by operation.

        Engines that do the same operations on the same doubles get the same integers.

        >>> Interval(0, 8).grid_steps(bits=2)
        (('-', 4.0), ('/', 1.0), ('+', 0.5), ('floor', 0.0))
        """
        if self.steps is not None:
            return (*self._to_places(), *self._from_places(bits))
        unit, grid = self.half / 2.0**bits, 1.0
        if unit * 2.0**bits != self.half:  # an interval so narrow that the unit is subnormal
            unit, grid = self.half, 2.0**bits
        finer = () if grid == 1.0 else (("*", grid),)
        return (("-", self.middle), ("/", unit), *finer, *HALF_UP)

    def _from_places(self, bits: int) -> tuple[Step, ...]:
        assert self.steps is not None
        steps = float(self.steps)
        return (("*", 2.0), ("-", steps), ("*", 2.0**bits / steps), *HALF_UP)

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
            return take_steps(self._from_places(bits), places, out)
        take_steps(self.grid_steps(bits), cells, out)
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
        low, high, missing = map(all_digits, (self.low, self.high, self.missing))
        written = "" if self.plain else f", written 1{self.thousands}234{self.decimal}5"
        steps = "" if self.step is None else f" in steps of {_step_text(self.step)}"
        unit = f" {self.unit}" if self.unit else ""
        return f"[{low} to {high}]{unit}{steps}, missing -> {missing}{written}"

    def around_zero(self) -> Interval:
        """The same rule for the shortest interval around zero that holds this one."""
        reach = max(abs(self.low), abs(self.high))
        return replace(self, low=-reach, high=reach)

    def cells(self, numbers: FloatArray) -> NDArray[Any]:
        """Cells that are read as these numbers: for rows that are made up or drawn."""
        return numbers

    @property
    def clock(self) -> Clock | None:
        """How cells are read where numbers stand for dates; None where they are numbers."""
        return None

    @property
    def plain(self) -> bool:
        """Whether texts are written 1234.5, as Python reads them."""
        return (self.decimal, self.thousands) == (".", "")


def take_steps(steps: Iterable[Step], cells: FloatArray, out: FloatArray) -> FloatArray:
    """The steps done to all cells, one after the other, in few passes and no scratch arrays.

    >>> take_steps(HALF_UP, np.array([0.4, 0.5]), np.empty(2))
    array([0., 1.])
    """
    with np.errstate(all="ignore"):
        for name, constant in steps:
            if name == "floor":
                np.floor(cells, out=out)
            else:
                _OPERATIONS[name](cells, constant, out=out)
            cells = out
    return out


def decimal_value(number: float) -> Fraction:
    """What a float is short for: its shortest decimal, exactly.

    >>> decimal_value(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(number)))


def _step_value(step: float | Fraction) -> Fraction:
    return step if isinstance(step, Fraction) else decimal_value(step)


def _step_text(step: float | Fraction) -> str:
    return str(step) if isinstance(step, Fraction) else all_digits(step)


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


@tells_arguments
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
        letters, values = level_tables(self)
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

    def integers(self) -> tuple[int, NDArray[np.int64]] | None:
        """The least integer among the levels, and the places of it and of those that follow.

        The last place is that of all other integers. None where levels are so far apart that the
        list would be mostly empty, or so large that doubles do not tell them apart.

        >>> Category([3, 5, "b"]).integers()
        (3, array([0, 3, 1, 3]))
        """
        return _integer_places(self)

    def key(self, cell: object) -> Any:
        """What is compared of a cell: the cell itself, or a text without case and blanks."""
        return cell.strip().casefold() if self.loose and isinstance(cell, str) else cell

    def describe(self) -> str:
        """The rule in words."""
        loose = ", whatever case and blanks" if self.loose else ""
        return f"{', '.join(map(str, self.levels))}{loose}; missing, unseen -> {self.other}"


@lru_cache(maxsize=16)
def level_tables(rule: Category) -> tuple[dict[str, int], dict[int | float, int]]:
    """The places of texts by their letters, and of numbers by their values; made once."""
    return rule._letters(), rule._values()


@lru_cache(maxsize=16)
def _integer_places(rule: Category) -> tuple[int, NDArray[np.int64]] | None:
    values = level_tables(rule)[1]
    whole = [value for value in values if isinstance(value, int)]
    if not whole or max(map(abs, whole)) > 1 << 53:
        return None
    low, high = min(whole), max(whole)
    if high - low >= 4 * len(rule.levels) + 1024:
        return None
    places = np.full(high - low + 2, rule.levels.index(rule.other), dtype=np.int64)
    for value in whole:
        places[value - low] = values[value]
    places.flags.writeable = False
    return low, places


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
