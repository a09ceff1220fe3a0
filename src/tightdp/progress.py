"""A progress bar where one is asked for and ``tqdm`` is installed; otherwise nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def progress_bar(total: int | None, unit: str, *, show: bool) -> Iterator[Callable[[int], object]]:
    """A function to call with the number of steps done; None: nobody knows how many there are."""
    if show:
        try:
            from tqdm import tqdm
        except ImportError:
            show = False
    if not show:
        yield lambda steps: None
        return
    with tqdm(total=total, unit=f" {unit}", unit_scale=True, leave=False, file=Screen()) as bar:
        yield bar.update


@contextmanager
def standing_line(text: str, *, show: bool) -> Iterator[None]:
    """A line that says what is going on, and nothing about how much of it there is."""
    if show:
        try:
            from tqdm import tqdm
        except ImportError:
            show = False
    if not show:
        yield
        return
    with tqdm(total=1, desc=text, bar_format="{desc}", leave=False, file=Screen()):
        yield


class Screen:
    """Standard error for a bar: what cannot be written is left out, and never stops a release."""

    def write(self, text: str) -> int:
        with suppress(Exception):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(Exception):
            sys.stderr.flush()

    def isatty(self) -> bool:
        return bool(getattr(sys.stderr, "isatty", bool)())
