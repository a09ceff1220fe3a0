"""Tables that can be read once: which ones were read here, and which are open but not read yet.

Nobody can ask an Arrow reader whether it has rows left, except by reading; and whether a table is
empty is private under add-remove neighbours, so no answer may decide about a payment. What can be
known without a look at the data is which readers this process has read itself. A reader that
somebody else has read is an empty table here.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from tightdp.accepted import TableLike
from tightdp.errors import fail

_LOCK = threading.RLock()  # a reader that is set free while it is held may be asked about again
_read: set[int] = set()  # identities of readers that were read here, as long as they live
_open: dict[int, Any] = {}  # the reader of an object that gives a stream, not read yet


def unread(reader: object) -> Any:
    """The reader, if it was not read here; else an error, before anything is paid for."""
    if id(reader) in _read:
        fail(
            "This reader was read before, and can be read only once: nothing is left in it. Make a "
            "new one, or pass a table (`reader.read_all()` before the first use)."
        )
    return reader


def reading(reader: object) -> Any:
    """The same reader, marked as read from now on."""
    with _LOCK:  # of two threads with one reader the second is told so
        unread(reader)
        _read.add(id(reader))
    weakref.finalize(reader, _read.discard, id(reader))
    return reader


def opened(frame: TableLike, opener: Callable[[Any], Any]) -> Any:
    """The reader of an object that gives a stream: one and the same until it is read.

    Some objects give a stream once. The check before the payment and the reading after it must not
    both ask for one.
    """
    with _LOCK:
        reader = _open.get(id(frame))
        if reader is None or id(reader) in _read:
            reader = opener(frame)
            if _remembered(frame):
                _open[id(frame)] = reader
        return reader


def _remembered(frame: TableLike) -> bool:
    """Whether the object can be told from one that is later made at the same place."""
    if id(frame) in _open:
        return True
    try:
        weakref.finalize(frame, _open.pop, id(frame), None)
    except TypeError:  # it has no room for it: a stream is asked for whenever one is needed
        return False
    return True
