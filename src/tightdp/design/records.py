"""Reading designs from texts and dictionaries that others wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tightdp.design.verifier import Refuted, read
from tightdp.errors import fail


def read_record(text: str) -> Any:
    """The value in a JSON text that says everything once and holds no float.

    >>> read_record('{"delta": "1/4"}')
    {'delta': '1/4'}
    """
    try:
        return read(text)
    except Refuted as reason:
        fail(f"This record of a design is damaged: {reason}.")
    except ValueError:
        fail("This record of a design is no complete JSON text. Get a fresh copy.")


def check_format(record: object, name: str) -> None:
    """Refuse what is no dictionary of the named format."""
    if not isinstance(record, Mapping) or record.get("format") != name:
        fail(f"This is not a record of the format {name!r}.")


@contextmanager
def complete() -> Iterator[None]:
    """Turn whatever is missing or malformed in a record into one error."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, Refuted):
        fail("This record of a design is not complete.")
