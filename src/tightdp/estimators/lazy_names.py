"""Names that are imported when first used, so that ``import tightdp`` stays light."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tightdp.errors import MissingDependencyError, require


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module ``__getattr__`` that finds each name in its home module, once.

    >>> lazy("tightdp", {"LpBall": "tightdp.geometry.norm_balls"})("LpBall").__name__
    'LpBall'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name].startswith("tightdp.estimators"):
            require("sklearn", "learn")
        found = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)  # from now on it is simply there
        return found

    return find


def attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The same for a public module: what an optional dependency lacks is an attribute it lacks.

    So ``hasattr(tightdp, "LinearRegression")`` is False without scikit-learn, not an error; the
    message of the AttributeError says what to install.
    """
    find = lazy(package, homes)

    def attribute(name: str) -> Any:
        try:
            return find(name)
        except MissingDependencyError as error:
            raise AttributeError(f"module {package!r} has no {name!r} here: {error}") from None

    return attribute
