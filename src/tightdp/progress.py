"""A progress bar where one is asked for and ``tqdm`` is installed; otherwise nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
    with tqdm(total=total, unit=f" {unit}", unit_scale=True, leave=False) as bar:
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
    with tqdm(total=1, desc=text, bar_format="{desc}", leave=False):
        yield
