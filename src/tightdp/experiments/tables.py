"""Where the tables of others are, if they are at hand: the package ships none."""

from __future__ import annotations

import os
from pathlib import Path


def find_table(name: str) -> Path | None:
    """A file of the folder ``TIGHTDP_DATA``, or of the data beside the project, or nothing.

    >>> find_table("no/such/table.csv") is None
    True
    """
    path = Path(os.environ.get("TIGHTDP_DATA", "../shared/data")) / name
    return path if path.is_file() else None
