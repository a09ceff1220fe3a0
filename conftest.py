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
    """Doctests that are collected first make folders anew, without the modules in them."""
    for name, module in list(sys.modules.items()):
        folder, _, leaf = name.rpartition(".")
        if folder.split(".")[0] == "tightdp" and folder in sys.modules:
            setattr(sys.modules[folder], leaf, module)
