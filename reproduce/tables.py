"""Where the tables of others are, if they are at hand: the package ships none."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder ``TIGHTDP_DATA``, or that of the data beside the project, there or not."""
    return Path(os.environ.get("TIGHTDP_DATA", "../shared/data"))


def find_table(name: str) -> Path | None:
    """A file of the :func:`data_folder`, or nothing.

    >>> find_table("no/such/table.csv") is None
    True
    """
    path = data_folder() / name
    return path if path.is_file() else None
