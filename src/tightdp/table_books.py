"""A book of tables as it is published: every table with its errors, crosswise, all agreeing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, check_flag, check_positive, fail, quoted, shown
from tightdp.preview import Preview
from tightdp.printed import (
    Axis,
    cross_table,
    html_notes,
    html_table,
    in_brackets,
    in_one_cell,
    most,
    notebook,
    percent,
    short,
    text_table,
    whole,
)
from tightdp.release import Release, read_axes, texts, without_nan

Contents = tuple[tuple[Axis, ...], ...]
NUMBERS = ("mean", "sum")
"""Last sides of tables that hold no counts."""
_MOST_SHOWN = 24  # tables that are printed; the others are named


def title(axes: Sequence[Axis]) -> str:
    """What a table is called: its columns, the last of which may be means or sums.

    >>> title([("sex", ("f", "m")), ("age", ("young", "old"))])
    'sex, age'
    """
    return ", ".join(name for name, _ in axes)


def places(contents: Contents) -> list[slice]:
    """Where the cells of each table stand."""
    sizes = [math.prod(len(labels) for _, labels in axes) for axes in contents]
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def too_uncertain(
    release: Release, suppress: float | None, counts: NDArray[np.bool_] | bool
) -> NDArray[np.bool_]:
    """Cells whose noise has a standard deviation of more than a share of their value.

    Parameters
    ----------
    release : Release
    suppress : float or None
        The share; with None no cell is.
    counts : bool, or array of them
        Which values are counts: these are 1 at least, for the rule.
    """
    if suppress is None:
        return np.zeros(len(release.names), dtype=bool)
    size = np.maximum(np.abs(release.value), counts)
    return np.asarray(release.noise_std > suppress * size)


def rule_of(suppress: float | None) -> str:
    """What a dash says, where there may be one.

    >>> rule_of(0.3)
    '-: the noise is more than 0.3 of the value'
    """
    return "" if suppress is None else f"-: the noise is more than {suppress:g} of the value"


def _share(record: Mapping[str, Any]) -> float | None:
    """The rule for cells that are not printed, from a record."""
    share = record["suppress"]
    return None if share is None else check_positive("suppress", share)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BookTable(Release):
    """One table of a book, printed by the rule of the book.

    Attributes
    ----------
    suppress : float or None
        As for :class:`TableBook`.
    together : bool
        Whether its intervals hold for all cells of the book at once.
    """

    suppress: float | None = None
    together: bool = True

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Cells that are not printed: too uncertain for the rule that was stated."""
        return too_uncertain(self, self.suppress, self.axes[-1][0] not in NUMBERS)

    def _more(self) -> dict[str, Any]:
        return {"suppress": self.suppress, "together": self.together}

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        together, found = check_flag("together", record["together"]), Release._read(record)
        if not found["axes"]:
            raise ValueError
        return found | {"suppress": _share(record), "together": together}

    def _note(self) -> str:
        reach = "all cells of all tables at once" if self.together else "each cell for itself"
        rule = f"; {rule_of(self.suppress)}" if self.hidden.any() else ""
        return f"{Release._note(self)}; intervals hold for {reach}{rule}"

    __repr__ = Release.__repr__


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableBook(Release):
    """A release of many tables, whose entries are the cells of all of them.

    Attributes
    ----------
    contents : tuple of tables
        Each a tuple of (name, labels) of its sides.
    alone : array
        Rows (low, high): intervals at level ``confidence`` of each entry for itself; ``interval``
        holds for all entries of all tables at once.
    suppress : float or None
        Cells whose noise has a standard deviation of more than this share of their value are
        printed as a dash.
    given : str
        What the promise takes for known, where a table is public and kept exactly.

    Examples
    --------
    >>> from tightdp import Category, Schema, Tables
    >>> facts = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b"], other="a")}
    >>> book = Tables(Schema(facts, rows=40), 2, epsilon=1).release(
    ...     {"sex": ["f", "m"] * 20, "k": ["a", "a", "b", "b"] * 10}, rng=1)
    >>> [title(axes) for axes in book.contents], book.table("k", "sex").axes[0][0]
    (['sex', 'k', 'sex, k'], 'sex')
    """

    contents: Contents
    alone: FloatArray
    suppress: float | None = None
    given: str = ""

    def _more(self) -> dict[str, Any]:
        contents = [[[name, list(labels)] for name, labels in axes] for axes in self.contents]
        return {
            "contents": contents,
            "alone": without_nan(self.alone),
            "suppress": self.suppress,
            "given": self.given,
        }

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        found = Release._read(record)
        alone = np.array(record["alone"], dtype=np.float64).reshape(-1, 2)
        contents = tuple(map(read_axes, record["contents"]))
        cells = sum(part.stop - part.start for part in places(contents))
        if not all(contents) or not len(alone) == len(found["names"]) == cells:
            raise ValueError
        (given,) = texts([record["given"]])
        more = {"contents": contents, "alone": alone, "suppress": _share(record), "given": given}
        return found | more

    def table(self, *columns: str | Sequence[str], simultaneous: bool = True) -> BookTable:
        """One of the tables.

        Parameters
        ----------
        columns : str
            Its columns, in any order; or one list of them, as it was asked for.
        simultaneous : bool
            Whether intervals hold for all cells of the book at once, or each for itself.
        """
        every = check_flag("simultaneous", simultaneous)
        where = self._where(columns)
        axes, part = self.contents[where], places(self.contents)[where]
        ends = (self.interval if every else self.alone)[part]
        matrix = self.covariance.ndim == 2
        return BookTable(
            names=self.names[part],
            value=self.value[part],
            integers=self.integers,
            resolution=self.resolution,
            guarantee=self.guarantee,
            noise=self.noise,
            covariance=self.covariance[part, part] if matrix else self.covariance[part],
            half_width=np.abs(ends - self.value[part, None]).max(axis=1),
            confidence=self.confidence,
            ends=ends,
            covers=self.covers,
            axes=axes,
            receipt=self.receipt,
            suppress=self.suppress,
            together=every,
        )

    def _where(self, columns: Sequence[str | Sequence[str]]) -> int:
        listed = len(columns) == 1 and isinstance(columns[0], (list, tuple))
        wanted = sorted(map(str, columns[0] if listed else columns))
        for where, axes in enumerate(self.contents):
            if sorted(name for name, _ in axes) == wanted:
                return where
        known = "; ".join(title(axes) for axes in self.contents)
        fail(f"There is no table of {quoted(', '.join(wanted))}: {shown(known)}.")

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Cells that are not printed: too uncertain for the rule that was stated."""
        counts = [axes[-1][0] not in NUMBERS for axes in self.contents]
        sizes = [part.stop - part.start for part in places(self.contents)]
        return too_uncertain(self, self.suppress, np.repeat(counts, sizes))

    def to_pandas(self, *, crosswise: bool = False) -> Any:
        """A frame with a row for every cell of every table: the table, its cell, and its error."""
        if check_flag("crosswise", crosswise):
            self._crossed()  # says that one table is
        frame = self._long().to_pandas()
        frame.index.name = "cell"
        frame.insert(0, "table", self._titles())
        return frame

    def to_polars(self, *, crosswise: bool = False) -> Any:
        """The same frame of polars."""
        if check_flag("crosswise", crosswise):
            self._crossed()
        frame = self._long().to_polars().rename({"entry": "cell"})
        titles = type(frame)({"table": self._titles()})
        return titles.hstack(frame)

    def _long(self) -> Release:
        fields = {name: getattr(self, name) for name in Release.__dataclass_fields__}
        return Release(**fields)

    def _titles(self) -> list[str]:
        each = zip(self.contents, places(self.contents), strict=True)
        return [title(axes) for axes, part in each for _ in range(part.start, part.stop)]

    # --- crosswise ----------------------------------------------------------------------------

    def _said(self, part: slice) -> list[str]:
        entries = range(len(self.names))[part]
        return ["-" if self.hidden[i] else in_one_cell(*self.cells(i)) for i in entries]

    def sheets(self) -> list[tuple[str, tuple[Axis, ...], slice]]:
        each = zip(self.contents, places(self.contents), strict=True)
        return [(title(axes), axes, part) for axes, part in each]

    def _sheets(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        return [
            (name, cross_table(axes, self._said(part)))
            for name, axes, part in self.sheets()[:_MOST_SHOWN]
        ]

    def _notes(self) -> list[str]:
        left = len(self.contents) - _MOST_SHOWN
        rule = f"; {rule_of(self.suppress)}" if self.hidden.any() else ""
        return [
            *([f"{left} tables more: table() and to_pandas() have all"] if left > 0 else []),
            f"{in_brackets(self.confidence, self.covers)}, for all cells of all tables at once; "
            f"{self.guarantee}{rule}",
        ]

    __repr__ = Release.__repr__

    def __str__(self) -> str:
        lines: list[str] = []
        for name, rows in self._sheets():
            lines += [name, *text_table(rows), ""]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        sheets = [html_table(rows, caption=name) for name, rows in self._sheets()]
        return notebook(*sheets, html_notes(*self._notes()))


@dataclass(frozen=True, slots=True, eq=False)
class BookPreview(Preview):
    """The error of every table of a book, before anything is paid.

    Beside what a :class:`~tightdp.preview.Preview` says: ``alone``, the half-widths of cells each
    for itself; ``plan``, what noise was chosen; ``gap``, by which share its total variance may
    exceed the least that Gaussian noise can have, a certified bound, or None; ``targets``, the
    standard errors that were wished for, or None.
    """

    contents: Contents = ()
    alone: FloatArray | None = None
    plan: str = ""
    gap: float | None = None
    given: str = ""
    targets: FloatArray | None = None

    def rows(self) -> list[tuple[str, ...]]:  # type: ignore[override]
        """A heading, and a row for every table: its cells with the largest errors."""
        assert self.alone is not None
        level = percent(self.confidence)
        found: list[tuple[str, ...]] = [
            ("table", "cells", "noise std", f"+- at {level}", "all cells at once")
        ]
        for axes, part in zip(self.contents, places(self.contents), strict=True):
            largest = [float(of[part].max()) for of in (self.std, self.alone, self.half_width)]
            cells = whole(part.stop - part.start)
            found.append((title(axes), cells, short(largest[0]), *map(most, largest[1:])))
        return found

    def _notes(self) -> tuple[str, str]:
        said = str(self.guarantee)
        guarantee, note = f"{said}; noise: {self.plan}", self.note
        if self.gap is not None:
            note += f"; no Gaussian noise in residuals has {self.gap * 100:.3g} % less variance"
        if self.targets is not None:
            missed = float(np.max(self.std / self.targets))
            worst = (
                f"missed by a factor of up to {short(missed)}: `epsilon_for` has what meets them"
            )
            note += f"; targets are {'met' if missed <= 1 else worst}"
        return guarantee, note


@dataclass(frozen=True, slots=True, eq=False)
class BookComparison:
    """What other ways of publishing the same tables would have for variance, at one guarantee.

    Attributes
    ----------
    totals : mapping from ways to numbers
        The variances of all cells, by the weights of their tables, added up.
    chosen : str
        The way of this book.

    Examples
    --------
    >>> found = BookComparison({"cube": 10.0, "Laplace on every cell": 240.0}, "cube")
    >>> found.ratio("Laplace on every cell")
    24.0
    >>> print(found)
    noise                  total variance  ratio
    --------------------------------------------
    cube *                             10      1
    Laplace on every cell             240     24
    <BLANKLINE>
    * is what the release uses
    """

    totals: Mapping[str, float]
    chosen: str

    def ratio(self, name: str) -> float:
        """How many times the variance of this book one way has."""
        return self.totals[name] / self.totals[self.chosen]

    def _rows(self) -> list[tuple[str, str, str]]:
        body = [
            (
                f"{name} *" if name == self.chosen else name,
                short(total, 4),
                short(self.ratio(name), 4),
            )
            for name, total in self.totals.items()
        ]
        return [("noise", "total variance", "ratio"), *body]

    def __str__(self) -> str:
        return "\n".join([*text_table(self._rows()), "", "* is what the release uses"])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), "* is what the release uses")
