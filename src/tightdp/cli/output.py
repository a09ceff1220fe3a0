"""What a command says: one text or one JSON document on standard output, the rest beside it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TextIO

from tightdp.errors import (
    BudgetError,
    DataError,
    LedgerError,
    ParameterError,
    TightdpError,
    fail,
    visible,
)
from tightdp.paths import said_by_system
from tightdp.plain_values import plain


class Exit(IntEnum):
    """Exit codes: scripts decide by them."""

    DONE = 0
    NO = 1
    WRONG = 2
    BUDGET = 3
    LEDGER = 4
    DATA = 5
    PAID = 6
    FAULT = 70
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done",
    Exit.NO: "the answer is no: not proved, violated, or a release without an answer",
    Exit.WRONG: "a wrong argument, plan or file; nothing was spent",
    Exit.BUDGET: "the budget does not cover the request; nothing was spent",
    Exit.LEDGER: "the ledger cannot be trusted, read or written, or was made for other terms",
    Exit.DATA: "the table could not be read to its end; nothing was spent",
    Exit.PAID: "paid for, then something failed; run it again: what is stored costs nothing more",
    Exit.FAULT: "a fault of tightdp itself; TIGHTDP_TRACEBACK=1 shows where",
    Exit.INTERRUPTED: "interrupted; run it again: what is stored costs nothing more",
}


class PaidError(TightdpError):
    """Something failed after a payment. What was paid for is stored, or lost and said to be."""


class OutputError(TightdpError):
    """Standard output cannot be written: its disk is full, for one."""


def code_of(error: TightdpError) -> Exit:
    """The exit code of an error."""
    for kind, code in (
        (BudgetError, Exit.BUDGET),
        (LedgerError, Exit.LEDGER),
        (DataError, Exit.DATA),
        (PaidError, Exit.PAID),
    ):
        if isinstance(error, kind):
            return code
    return Exit.WRONG


@dataclass(frozen=True, slots=True)
class Speaker:
    """Prints results as text or JSON, and remarks to standard error."""

    json: bool = False
    quiet: bool = False

    @property
    def bars(self) -> bool:
        """Whether progress bars are shown: to people, not to pipes."""
        seen = sys.stderr is not None and sys.stderr.isatty()
        return seen and not (self.json or self.quiet)

    def say(self, text: object, record: object) -> None:
        """The result, in the form that was asked for."""
        if self.json:
            _print_json(plain(record))
        else:
            _print(str(text), sys.stdout)

    def remark(self, text: str) -> None:
        """Something besides the result."""
        if not (self.quiet or self.json):
            _print(text, sys.stderr)

    def complain(self, error: TightdpError | str, code: Exit) -> None:
        """An error, without a traceback; as JSON, where that was asked for."""
        kind = type(error).__name__ if isinstance(error, TightdpError) else code.name.capitalize()
        if self.json:
            with suppress(OutputError, BrokenPipeError):
                _print_json({"error": {"kind": kind, "exit": int(code), "message": str(error)}})
                return
        lines = str(error).splitlines()
        if isinstance(error, ParameterError) and len(lines) > 1:  # of a plan, one each
            lines.insert(0, f"{len(lines)} problems")
            _print("tightdp: " + "\n".join(lines), sys.stderr)
        else:
            _print(f"tightdp: {' '.join(str(error).split())}", sys.stderr)


def _print(text: str, stream: TextIO | None) -> None:
    """Lines of text; nothing in them commands a terminal, and every terminal can show them."""
    if stream is None:  # closed by who started the program
        return
    shown = "\n".join(map(visible, text.split("\n")))
    code = stream.encoding or "utf-8"
    with suppress(OSError) if stream is sys.stderr else _writing():
        print(shown.encode(code, "backslashreplace").decode(code), file=stream, flush=True)


def _print_json(record: object) -> None:
    """JSON with its own escapes for what the stream cannot encode."""
    if sys.stdout is None:
        return
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(record, indent=2, allow_nan=False)
    with _writing():
        print(text, flush=True)


@contextmanager
def _writing() -> Iterator[None]:
    """An output that cannot be written is an error of its own; a reader who left is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"The output cannot be written: {said_by_system(error)}.", OutputError)


def flush() -> None:
    """Let all that was printed reach its reader: a closed pipe or a full disk is found here."""
    if sys.stdout is not None:
        with _writing():
            sys.stdout.flush()


def drop_unwritten() -> None:
    """Forget what could not be printed, or Python tries again at its end and changes the code."""
    try:
        flush()
    except (OutputError, BrokenPipeError):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
