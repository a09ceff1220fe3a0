"""For tests and doctests alike: pictures are closed when a test ends, modules know their parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Figures of one test must not pile up in the next."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def pytest_collection_finish() -> None:
    """Doctests that are collected first make folders anew, without the modules in them.

    A name that a folder has is left alone: ``tightdp.cli.main`` is a function there.
    """
    for name, module in list(sys.modules.items()):
        folder, _, leaf = name.rpartition(".")
        home = sys.modules.get(folder)
        if folder.split(".")[0] == "tightdp" and home is not None and leaf not in vars(home):
            setattr(home, leaf, module)
