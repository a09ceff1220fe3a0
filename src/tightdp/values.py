"""What one cell is: a number, a text, or missing. The only place where a cell is looked at.

(Whether it is a date is asked in :mod:`tightdp.cell_dates`.)

- A number is a bool, an integer, a float, a decimal or a fraction, or a text that Python's ``int``
  or ``float`` reads, with or without blanks around it; the words ``true`` and ``false``, in any
  case, are 1 and 0. Everything else is no number, and null and NaN are missing.
- A text of more than 65,536 characters is missing: no name, level or number is so long, and a
  reader need not keep more.
- A person is a number or a text; the digits of an integer, as Python writes them, are that integer.
- A key that nobody has listed is a text of up to 256 printable characters, not all blanks; a finite
  number is the text that Python writes for it, a UUID its own. Everything else is no key.

No function here raises on account of a cell, and none runs code of a cell's own class: cells of
classes derived from ``str``, ``int``, ``float`` and ``Decimal`` are read as the plain value
beneath, and objects of all other classes are missing.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

LONGEST_TEXT = 1 << 16
LONGEST_KEY = 256
_MOST_DIGITS = 400
_PLAIN = frozenset(map(id, (bool, int, float, Decimal, Fraction, type(None), uuid.UUID, bytes)))
_BENEATH: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, lambda cell: plain_cell(str.__str__(cell))),
    (int, int.__int__),
    (float, float.__float__),
    (Decimal, Decimal),  # copies the digits, and asks the object nothing
)
_SCALARS = frozenset(id(kind) for kind in np.sctypeDict.values() if np.dtype(kind).kind in "biuf")
_WORDS = {"true": 1.0, "false": 0.0}
_DIGITS = re.compile("0|-?[1-9][0-9]{0,399}")
_MARKS = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}  # blanks of all widths; typed and printed


def plain_cell(cell: Any) -> Any:
    """The cell as an object of a built-in class, None if it is of none; runs no code of a cell.

    >>> class Loud(float):
    ...     def __float__(self):
    ...         raise RuntimeError
    >>> plain_cell(Loud(2.5)), plain_cell(np.float32(0.5)), plain_cell([1])
    (2.5, 0.5, None)
    """
    kind = type(cell)  # unlike isinstance, which asks the object for its class
    if kind is str:
        return cell if len(cell) <= LONGEST_TEXT else None
    if id(kind) in _PLAIN:  # a class may have its own ways to be compared, and to be hashed
        return cell
    if id(kind) in _SCALARS:
        return float(cell) if issubclass(kind, np.floating) else cell.item()
    for base, beneath in _BENEATH:
        if any(base is one for one in type.mro(kind)):
            return beneath(cell)
    return None


def nearest_double(cell: Any) -> float:
    """A cell as a double, NaN if it is missing or no number.

    >>> [nearest_double(cell) for cell in ("2.5", " TRUE ", 10**400, "n/a", None)]
    [2.5, 1.0, inf, nan, nan]
    """
    cell = plain_cell(cell)
    if isinstance(cell, str):
        return _read_double(cell.strip())
    if not _is_number(cell):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def exact_value(cell: Any) -> int | float | None:
    """A cell as the number that categories compare: an int where it is one, None if missing.

    >>> exact_value("9007199254740993"), exact_value(Decimal("0.10")), exact_value("a")
    (9007199254740993, 0.1, None)
    """
    cell = plain_cell(cell)
    if isinstance(cell, str):
        cell = _read_exact(cell.strip())
    if not _is_number(cell):
        return None
    if isinstance(cell, Decimal) and cell.is_finite() and cell.adjusted() > _MOST_DIGITS:
        return nearest_double(cell)  # infinite; an integer of so many digits takes for ever
    try:
        whole = int(cell)
    except (OverflowError, ValueError):  # infinite or NaN
        number = nearest_double(cell)
        return None if math.isnan(number) else number
    return whole if whole == cell else nearest_double(cell)


def _read_double(word: str) -> float:
    try:
        return float(word)  # the nearest double of an integer too
    except ValueError:
        return _WORDS.get(word.lower(), math.nan)


def _read_exact(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return _read_double(word)


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float, Decimal, Fraction))


# --- texts that write numbers in another way ------------------------------------------------------


def unmarked(cell: Any, decimal: str, thousands: str) -> Any:
    """A text with these marks as Python writes it, None if it has digits and is written otherwise.

    >>> unmarked("1.234,5", ",", "."), unmarked("1,234.5", ",", "."), unmarked("true", ",", ".")
    ('1234.5', None, 'true')
    """
    cell = plain_cell(cell)
    if not isinstance(cell, str):
        return cell
    word = cell.strip()
    form, marks = _form(decimal, thousands)
    if form.fullmatch(word):
        return word.translate(marks)
    return None if any(letter.isdigit() for letter in word) else word


@cache
def _form(decimal: str, thousands: str) -> tuple[re.Pattern[str], dict[int, str]]:
    """How a number with these marks is written, and what makes Python's form of it.

    Groups have three digits, inner ones two or three (1,00,000); a fraction is not grouped.
    """
    marks = _MARKS.get(thousands, thousands)
    grouped = f"[0-9]{{1,3}}(?:[{re.escape(marks)}][0-9]{{2,3}})*[{re.escape(marks)}][0-9]{{3}}|"
    point = re.escape(decimal)
    form = (
        rf"[+-]?(?:(?:{grouped if marks else ''}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+)"
        r"(?:[eE][+-]?[0-9]+)?"
    )
    return re.compile(form), {ord(mark): "" for mark in marks} | {ord(decimal): "."}


# --- persons --------------------------------------------------------------------------------------


def person_words(cell: object) -> tuple[int, int]:
    """Two 64-bit words that stand for a person: (0, i) for an integer i, else a digest.

    Missing cells, which are nobody, have the words -1 and -1.

    >>> person_words("7"), person_words(7.0), person_words(None), person_words("07")[0] in (0, -1)
    ((0, 7), (0, 7), (-1, -1), False)
    """
    cell = plain_cell(cell)
    if isinstance(cell, str) and _DIGITS.fullmatch(cell):
        cell = int(cell)
    if isinstance(cell, str):
        text = "s" + cell
    elif isinstance(cell, (uuid.UUID, bytes)):
        text = "o" + str(cell)
    else:
        number = exact_value(cell)
        if number is None:
            return -1, -1
        if isinstance(number, int) and -(2**63) <= number < 2**63:
            return 0, number
        text = "n" + (hex(number) if isinstance(number, int) else number.hex())
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    first = int.from_bytes(digest[:8], "little") >> 2 | 1  # neither 0 nor -1
    return first, int.from_bytes(digest[8:], "little", signed=True)


# --- keys that nobody has listed ------------------------------------------------------------------


def key_text(cell: object) -> str | None:
    """The key of a cell as it would be published, None if it has none.

    What could not be printed, such as bytes that are no UTF-8, is no key.

    >>> [key_text(cell) for cell in ("Ulm", 7, 7.0, "7", 0.5, " ", None, "a\\n", "x" * 300)]
    ['Ulm', '7', '7', '7', '0.5', None, None, None, None]
    """
    cell = plain_cell(cell)
    if isinstance(cell, uuid.UUID):
        return str(cell)
    if not isinstance(cell, str):
        number = exact_value(cell)
        if number is None or (isinstance(number, float) and math.isinf(number)):
            return None
        if isinstance(number, int) and number.bit_length() > 3 * LONGEST_KEY:
            return None  # more digits than a key has characters; Python refuses to write some
        cell = repr(number)
    fits = len(cell) <= LONGEST_KEY and cell.isprintable() and not cell.isspace()
    return cell if fits and cell else None
