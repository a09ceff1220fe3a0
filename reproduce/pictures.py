"""Pictures of experiments as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tightdp.errors import require


def check_installed() -> None:
    """Refuse to begin long work that would end in a picture without matplotlib."""
    require("matplotlib.pyplot", "plots")


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture, whole or not at all, and close the figure."""
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        figure.savefig(beside, dpi=120)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
        require("matplotlib.pyplot", "plots").close(figure)
