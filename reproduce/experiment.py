"""What every experiment is: cells to compute, numbers to quote, a picture to draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from reproduce.results import Quote, Row
from reproduce.tables import Table
from tightdp.randomness import RandomSource

Settings = Mapping[str, Any]
Cell = dict[str, Any]
Outcome = dict[str, Any]
Finding = tuple[Cell, Outcome]


class Experiment(ABC):
    """A figure or table of a paper.

    A *cell* is a piece of work that is stored when it is done: a dictionary of plain values that
    says all there is to say about it, so that equal cells have equal outcomes. Its seed is made
    from its content.

    Attributes
    ----------
    name : str
        What is typed.
    title, source : str
    quick, full : mapping
        Settings of the two modes, with the same keys.
    """

    name: str
    title: str
    source: str
    quick: ClassVar[Settings]
    full: ClassVar[Settings]
    table: ClassVar[Table | None] = None
    """The table of others that it reads, if it is at hand."""

    @abstractmethod
    def cells(self, settings: Settings) -> list[Cell]:
        """The work of a mode."""

    @abstractmethod
    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        """The outcome of a cell, in plain values."""

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        """The numbers of the picture; by default those of the cells."""
        return [{**cell, **outcome} for cell, outcome in findings]

    @abstractmethod
    def quotes(self, rows: list[Row]) -> list[Quote]:
        """The numbers to compare with the paper: those for which there are rows."""

    @abstractmethod
    def draw(self, rows: list[Row]) -> Any:
        """The picture, as a matplotlib figure."""


def batches(replicates: int, size: int) -> list[int]:
    """Sizes of the cells that share the replicates: few enough to lose when a run is stopped.

    >>> batches(25, 10)
    [10, 10, 5]
    """
    whole, rest = divmod(replicates, size)
    return [size] * whole + ([rest] if rest else [])


def pooled(findings: Sequence[Finding], keys: Sequence[str]) -> dict[tuple[Any, ...], list[float]]:
    """Lists of replicates, joined over batches: ``outcome[series]`` by (cell keys..., series)."""
    out: dict[tuple[Any, ...], list[float]] = {}
    for cell, outcome in findings:
        for series, values in outcome.items():
            out.setdefault((*(cell[key] for key in keys), series), []).extend(values)
    return out
