"""The tree of exceptions and the checks that raise them.

::

    TightdpError
    ├── ParameterError (also ValueError)     a parameter outside its allowed set
    │   ├── DimensionError                   arrays whose shapes do not fit
    │   └── DegenerateBodyError              flat, unbounded, not absorbing or not symmetric
    ├── DataError                            a table that could not be read to its end
    ├── UndecidedError                       a question that cannot be settled exactly
    ├── InfeasibleSamplingError              exact sampling would practically never end
    ├── UncoveredMoveError                   noise that was not made for the moves of a statistic
    ├── BudgetError                          a request that the ledger's budget does not cover
    ├── LedgerError                          a ledger that cannot be trusted, read or written
    │   ├── PendingError                     the release of a key is still being computed
    │   └── BurnedError                      the budget of a key is spent, its release is lost
    ├── LackingError (also AttributeError)   a method that other estimators have, and why not
    └── MissingDependencyError (also ImportError)

    PublicFactWarning (a UserWarning)        public facts that cannot all be true

Every message names the parameter, the allowed set and the value got, then the remedy. No message
ever contains a value from the data: the checks here see parameters and public facts only.
"""

from __future__ import annotations

import difflib
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Integers = NDArray[np.int64]
WideIntegers = NDArray[Any]  # int64, or Python integers of any size

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MOST_CONFIDENCE = 1 - 1e-9
_LONGEST_WORD = 100
MOST_DIM = 1 << 20  # coordinates of a ball
_MOST_BITS = 14_000  # of an integer that Python writes in digits


class TightdpError(Exception):
    """Root of all errors raised by tightdp."""


class PrivacyWarning(UserWarning):
    """Something beside the release reveals private rows, and no guarantee covers it."""


class ParameterError(TightdpError, ValueError):
    """A parameter lies outside its allowed set."""


class DimensionError(ParameterError):
    """Shapes or lengths that do not fit together."""


class DegenerateBodyError(ParameterError):
    """A set that is not a norm ball: flat, unbounded, not absorbing or not symmetric."""


class DataError(TightdpError):
    """A table could not be read to its end; the engine's words, which quote cells, are withheld."""


class UndecidedError(TightdpError):
    """An exact answer was asked for and none can be proved."""


class InfeasibleSamplingError(TightdpError):
    """Exact sampling was refused because it would practically never end."""


class UncoveredMoveError(TightdpError):
    """Noise is not proved to cover how far one row can move a statistic; nothing was spent."""


class BudgetError(TightdpError):
    """A request does not fit into what is left of a budget; nothing was spent."""


class LedgerError(TightdpError):
    """A ledger cannot be trusted, read or written, so nothing may be released."""


class PendingError(LedgerError):
    """The budget of a key is spent and its release is still being computed elsewhere."""


class BurnedError(LedgerError):
    """The budget of a key is spent and its release was lost before it was stored."""


class LackingError(TightdpError, AttributeError):
    """A method that other estimators have cannot be had here; ``hasattr`` is False."""


class MissingDependencyError(TightdpError, ImportError):
    """An optional dependency is not installed."""


class PublicFactWarning(UserWarning):
    """Stated public facts do not fit the table or each other; it says nothing that is private."""


def fail(message: str, error: type[TightdpError] = ParameterError) -> NoReturn:
    """Raise ``error`` without a chained traceback, which could quote values."""
    raise error(message) from None


def shown(value: object) -> str:
    """A parameter for a message: one short line, whatever it is.

    >>> shown(0.5), shown(-(10**400)), shown("a" * 200) == "a" * 77 + "..."
    ('0.5', 'a very long number', True)
    """
    return _line(value, str)


def quoted(value: object) -> str:
    """The same, with the marks that tell texts from numbers.

    >>> quoted("a"), quoted(1), quoted([1, "b"])
    ("'a'", '1', "[1, 'b']")
    """
    return _line(value, repr)


def _line(value: object, words: Callable[[Any], str]) -> str:
    if isinstance(value, numbers.Rational):
        long = max(int(value.numerator).bit_length(), int(value.denominator).bit_length())
        return words(value) if long <= 400 else "a very long number"
    try:
        return visible(words(value), 80)
    except Exception:  # a class may say anything of itself, or nothing
        return f"a {type(value).__name__}"


def visible(text: str, most: int | None = None) -> str:
    """A text from outside for one line on a terminal: what is not printable is spelt out.

    Line ends, escapes that colour a terminal or move its cursor, marks that turn the direction of
    writing, and halves of surrogate pairs, which no terminal can encode, become ``\\n``, ``\\x1b``
    and so on. A text of more than ``most`` characters is cut.

    >>> visible("a\\x1b[31m\\nb"), visible("abcdefgh", 6)
    ('a\\\\x1b[31m\\\\nb', 'abc...')
    """
    plain = text
    if not text.isprintable():
        plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return plain if most is None or len(plain) <= most else plain[: most - 3] + "..."


def encodes(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_real(name: str, value: object) -> float:
    """A finite real number that is not a bool, as a float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        fail(f"`{name}` must be a real number. Got {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        fail(f"`{name}` must be finite. Got {shown(value)}.")
    if not math.isfinite(number):
        fail(f"`{name}` must be finite. Got {number}.")
    return number


def check_positive(name: str, value: object) -> float:
    """A finite number > 0."""
    return check_within(name, value, "(0, inf)")


def check_probability(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    return check_within(name, value, "(0, 1)")


def check_confidence(value: object) -> float:
    """A level of confidence whose tails, shared among many entries, are not lost to rounding."""
    number = check_probability("confidence", value)
    if number > _MOST_CONFIDENCE:
        fail(f"`confidence` must be at most 1 - 1e-9. Got {number!r}: intervals are never certain.")
    return number


def exact_fraction(name: str, value: object) -> Fraction:
    """The rational number that ``value`` is: int, Fraction, Decimal or float, never a text.

    A float is the dyadic rational that it stores, so nothing is lost: for lengths, grids and
    probabilities. Privacy parameters are read by :func:`exact_amount`.

    >>> exact_fraction("epsilon", 0.75), exact_fraction("epsilon", Decimal("0.1"))
    (Fraction(3, 4), Fraction(1, 10))
    """
    kind = type(value).__name__
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        fail(f"`{name}` must be an int, a float, a Fraction or a Decimal. Got {kind}.")
    if isinstance(value, numbers.Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
        if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MOST_BITS:
            fail(f"`{name}` must be of moderate size. Got {shown(value)}.")
        return exact
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > 1000:
        fail(
            f"`{name}` must be of moderate size. Got {shown(value)}."
        )  # its integers would fill memory
    ratio = getattr(value, "as_integer_ratio", None)
    if ratio is None:
        fail(f"`{name}` must be an int, a float, a Fraction or a Decimal. Got {kind}.")
    try:
        return Fraction(*ratio())
    except (ValueError, OverflowError):
        fail(f"`{name}` must be finite. Got {shown(value)}.")


def exact_amount(name: str, value: object) -> Fraction:
    """The rational number that a privacy parameter means: 0.1 means 1/10.

    A float is read as the shortest decimal that prints it, which is what its writer meant; the
    dyadic number that it stores would make ten spends of 0.1 exceed a budget of 1.

    >>> exact_amount("epsilon", 0.1), exact_amount("epsilon", Fraction(1, 3))
    (Fraction(1, 10), Fraction(1, 3))
    """
    number = exact_fraction(name, value)
    return Fraction(repr(float(value))) if isinstance(value, (float, np.floating)) else number


def check_within(name: str, value: object, allowed: str, remedy: str = "") -> float:
    """A finite number in an interval, which is written as mathematicians write it.

    >>> check_within("share", 0.5, "(0, 1]")
    0.5
    >>> check_within("radius", 2000, "(0, 1024]", "rescale the columns")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: `radius` must lie in (0, 1024]. Got 2000.0: rescale the columns.
    """
    number = check_real(name, value)
    _refuse_outside(name, number, number, allowed, remedy)
    return number


def amount_within(name: str, value: object, allowed: str, remedy: str = "") -> Fraction:
    """The same for a number that :func:`exact_amount` reads.

    >>> amount_within("delta", 0.1, "[0, 1)")
    Fraction(1, 10)
    """
    number = exact_amount(name, value)
    _refuse_outside(name, number, value, allowed, remedy)
    return number


def fraction_within(name: str, value: object, allowed: str, remedy: str = "") -> Fraction:
    """The same for a number that :func:`exact_fraction` reads: as it is stored.

    >>> fraction_within("at", 0.25, "(0, inf)")
    Fraction(1, 4)
    """
    number = exact_fraction(name, value)
    _refuse_outside(name, number, value, allowed, remedy)
    return number


def _refuse_outside(
    name: str, number: float | Fraction, given: object, allowed: str, remedy: str
) -> None:
    low, high, words = _interval(allowed)
    if isinstance(given, float):  # the double next to an end that is no double is that end
        number, low, high = float(number), float(low), float(high)
    above = number > low if allowed[0] == "(" else number >= low
    below = number < high if allowed[-1] == ")" else number <= high
    if not (above and below):
        fail(f"`{name}` must {words}. Got {shown(given)}{_remedy(remedy)}.")


@lru_cache(maxsize=256)
def _interval(allowed: str) -> tuple[float | Fraction, float | Fraction, str]:
    """Both ends of an interval such as "[1e-6, 1)", "(0, 2**20]" or "[0, inf)", and its words."""
    first, last = allowed[1:-1].split(", ")
    low, high = _end(first), _end(last)
    if high == math.inf:
        words = f"be a finite number > {first}" if allowed[0] == "(" else f"be >= {first}"
    elif allowed[0] + allowed[-1] == "()":
        words = f"lie strictly between {first} and {last}"
    else:
        words = f"lie in {allowed}"
    return low, high, words


def _end(text: str) -> float | Fraction:
    if text == "inf":
        return math.inf
    base, power, exponent = text.partition("**")
    return Fraction(base) ** int(exponent) if power else Fraction(text)


def _remedy(remedy: str) -> str:
    return f": {remedy}" if remedy else ""


def check_instance(
    name: str, value: object, kind: Callable[..., T], remedy: str = "", *, words: str = ""
) -> T:
    """A value of a class, which may be an abstract one; ``words`` are for those without a name.

    >>> check_instance("ledger", "a.ledger", Fraction, "open it first")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: `ledger` must be a Fraction. Got str: open it first.
    >>> check_instance("column", "age", str, words="the name of a column")
    'age'
    """
    assert isinstance(kind, type)
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        wanted = words or f"{article} {kind.__name__}"
        fail(f"`{name}` must be {wanted}. Got {type(value).__name__}{_remedy(remedy)}.")
    return cast(T, value)


def check_function(name: str, value: F, of: str = "of the table") -> F:
    """A function; what it is a function of is said, not tried."""
    if not callable(value):
        fail(f"`{name}` must be a function {of}. Got {type(value).__name__}.")
    return value


def check_length(name: str, size: int, wanted: int, what: str = "entries") -> None:
    """As many entries as something else has."""
    if size != wanted:
        fail(f"`{name}` must have {wanted} {what}. Got {size}.", DimensionError)


def check_most(name: str, size: int, most: int, what: str, remedy: str) -> None:
    """No more of something than can be worked with."""
    if size > most:
        fail(f"`{name}` must have at most {most} {what}. Got {size}: {remedy}.")


def check_filled(name: str, items: Sized, what: str = "") -> None:
    """At least one of them."""
    if not len(items):
        tail = f"hold at least one {what}" if what else "not be empty"
        fail(f"`{name}` must {tail}.", DimensionError)


def check_increasing(name: str, numbers: Sequence[Any], least: int = 1) -> None:
    """Numbers each of which is larger than the one before it."""
    if len(numbers) < least or any(a >= b for a, b in pairwise(numbers)):
        fail(f"`{name}` must increase.")


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """An integer in ``least..most``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        fail(f"`{name}` must be an integer. Got {type(value).__name__}.")
    if value < least or (most is not None and value > most):
        upper = "" if most is None else f" and <= {most}"
        fail(f"`{name}` must be an integer >= {least}{upper}. Got {shown(value)}.")
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, (bool, np.bool_)):
        fail(f"`{name}` must be True or False. Got {type(value).__name__}.")
    return bool(value)


def check_choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """One of the allowed words, with a suggestion when it is misspelt."""
    options = list(allowed)
    if isinstance(value, str) and value in options:
        return value
    hint = suggestion(value, options)
    fail(f"`{name}` must be one of {_choices(options)}. Got {quoted(value)}.{hint}")


def suggestion(value: object, options: Sequence[str]) -> str:
    """A question that names the option next to a misspelt one, or nothing."""
    if not isinstance(value, str) or len(value) > _LONGEST_WORD:
        return ""
    near = difflib.get_close_matches(value, options, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _choices(options: Sequence[str], most: int = 60) -> str:
    more = f" and {len(options) - most} more" if len(options) > most else ""
    return ", ".join(map(quoted, options[:most])) + more


def check_list(name: str, value: Any, what: str = "names") -> list[Any]:
    """The items of a list, a tuple or another finite collection that is not a text."""
    plain = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    if not plain or (isinstance(value, np.ndarray) and value.ndim != 1):
        hint = f": write [{quoted(value)}]" if isinstance(value, str) else ""
        fail(f"`{name}` must be a list of {what}. Got {quoted(value)}{hint}.")
    items = list(value)
    if what == "names" and not all(isinstance(item, str) for item in items):
        fail(f"`{name}` must be a list of names. Got {quoted(value)}.")
    return items


def check_array(name: str, value: object, ndim: int, width: int | None = None) -> FloatArray:
    """A finite, non-empty float array with ``ndim`` axes and last axis ``width``."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        fail(f"`{name}` must be an array of real numbers. Got {type(value).__name__}.")
    if array.ndim != ndim:
        fail(f"`{name}` must have {ndim} axes. Got an array with {array.ndim}.", DimensionError)
    if array.size == 0:
        fail(f"`{name}` must not be empty.", DimensionError)
    if width is not None and array.shape[-1] != width:
        fail(
            f"`{name}` must have {width} entries along its last axis. Got {array.shape[-1]}.",
            DimensionError,
        )
    if not np.isfinite(array).all():
        fail(f"`{name}` must hold finite numbers only (no NaN, no infinity).")
    return array


def require(package: str, extra: str) -> Any:
    """Import an optional dependency or say which extra brings it."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        name, how = package.split(".")[0], install_command(extra)
        fail(f"This needs the package '{name}'. Install it with: {how}", MissingDependencyError)


def install_command(extra: str) -> str:
    """How an extra is installed where this package came from: a folder, or an index of packages."""
    from importlib import metadata
    from json import loads
    from urllib.parse import unquote

    with suppress(metadata.PackageNotFoundError, ValueError):
        origin = loads(metadata.distribution("tightdp").read_text("direct_url.json") or "{}")
        if "dir_info" in origin:
            edit = "-e " if origin["dir_info"].get("editable") else ""
            return f'pip install {edit}"{unquote(origin["url"]).removeprefix("file://")}[{extra}]"'
    return f'pip install "tightdp[{extra}]"'


# --- warnings that come between a payment and its release -----------------------------------------

_HELD: ContextVar[list[str] | None] = ContextVar("_HELD", default=None)


@contextmanager
def held_warnings() -> Iterator[None]:
    """Say warnings about public facts when the block is over: one that is turned into an error
    must not come between a payment and the release that it paid for. Within another such block,
    when that one is over.
    """
    if _HELD.get() is not None:
        yield
        return
    texts: list[str] = []
    token = _HELD.set(texts)
    try:
        yield
    finally:
        _HELD.reset(token)
    for text in texts:
        warnings.warn(text, PublicFactWarning, stacklevel=4)


def warn_of_fact(text: str) -> None:
    """Warn of a public fact that a table does not keep; held back while its release is paid for."""
    texts = _HELD.get()
    if texts is None:
        warnings.warn(text, PublicFactWarning, stacklevel=3)
    else:
        texts.append(text)
