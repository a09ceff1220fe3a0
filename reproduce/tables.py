"""Where the tables of others are, if they are at hand: the package ships none."""

from __future__ import annotations

import os
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Table:
    """A table of others: where it belongs, where to get it, and what stands in for it.

    Attributes
    ----------
    file : str
        Its place in the :func:`data_folder`.
    what : str
    get : str
        Where it is had, and what to do with it.
    instead : str
        What is generated where it is absent.
    papers : str
        What the paper used, where that is not this.
    """

    file: str
    what: str
    get: str
    instead: str
    papers: str = ""

    @property
    def path(self) -> Path | None:
        """Where it was found, if it was."""
        return find_table(self.file)

    def used(self) -> str:
        """Which rows a run has: the table, or what was generated, and how to get the table."""
        apart = f" ({self.papers})" if self.papers else ""
        if self.path is not None:
            return f"rows: {self.what}, {self.path}{apart}"
        return (
            f"rows: GENERATED, {self.instead}, because {data_folder() / self.file} is absent"
            f"{apart}. To use {self.what}: {self.get}"
        )


SALES = Table(
    "housing/seattle_sales.csv.gz",
    "sales of houses in Seattle, 2010 to 2016",
    "export `seattle_sales` of the R package hpiR (github.com/andykrause/hpiR, GPL-3; from the "
    "King County Assessor) as CSV, and give it to `reproduce.house_sales.build_sales`",
    "sales with effects of size, place and age",
    "the paper's 235,760 sales in the San Francisco Bay area are not public",
)
BANDS = Table(
    "uci/bands.data",
    "Cylinder Bands of the UCI Machine Learning Repository",
    "fetch `bands.data` from archive.ics.uci.edu (data set 32), as it is",
    "539 rows of 19 normal columns, three of which matter",
)
TABLES = (SALES, BANDS)
