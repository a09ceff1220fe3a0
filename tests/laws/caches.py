"""The caches of the package, emptied: the next draw is the first."""

from __future__ import annotations

import importlib
import pkgutil

from tightdp.shaping import reach


def forget() -> None:
    """Empty the caches of the package, so that the next draw is the first; designs are kept."""
    for name in ("noise", "geometry", "data", "mechanisms"):
        room = importlib.import_module(f"tightdp.{name}")
        for found in pkgutil.walk_packages(room.__path__, f"tightdp.{name}."):
            for what, value in vars(importlib.import_module(found.name)).items():
                if hasattr(value, "cache_clear") and what != "designed_law":
                    value.cache_clear()
    reach._FOUND.clear()
