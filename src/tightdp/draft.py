"""A draft: what a mechanism has drawn, with the error that is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import FloatArray
from tightdp.printed import Axis, Covers

_MOST_SILENT = 1 << 11  # entries: a matrix that says nothing of more may not fit in memory


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Known:
    """The error of entries that public facts, or a paid interval, tell.

    Attributes
    ----------
    half_width : array
        Simultaneous half-widths at the level that was asked for.
    covariance : array, optional
        Of the noise, in user units; None where only the half-widths are known. A vector is that of
        the variances of entries that are not correlated.
    ends : array, optional
        Rows (low, high) of an interval that was released itself and need not be symmetric.
    covers : {"noise", "sample", "population"}
        What the interval is for: the value without noise, that of the table, or the population's.
    """

    half_width: FloatArray
    covariance: FloatArray | None = None
    ends: FloatArray | None = None
    covers: Covers = "noise"


@dataclass(frozen=True, slots=True)
class Unknown:
    """No error is known of these entries, and why: no number stands in for one."""

    reason: str


Error = Known | Unknown
DEPENDS = Unknown("the error depends on the data")
PART_OF_INTERVAL = Unknown("an end of an interval has no error of its own")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Draft:
    """What a mechanism has drawn: entries on one lattice, and one error for all of them.

    Entries with errors of several kinds are drafts beside each other (:meth:`beside`).

    Attributes
    ----------
    names : tuple of str
    value : array
        In user units.
    integers : tuple of int
    resolution : int
        Lattice points per unit.
    errors : tuple of (number of entries, Known or Unknown)
        In the order of the entries.
    axes : tuple of (name, labels)
        The sides of the table that the entries form; none where they form no table.

    Examples
    --------
    >>> total = Draft.of(("n",), [7.0], (7,), 1, Known(half_width=np.array([3.0])))
    >>> place = Draft.of(("x",), [0.5], (2,), 4, Unknown("it depends on the rows"))
    >>> both = total.beside(place)
    >>> both.names, both.integers, both.resolution, len(both.errors)
    (('n', 'x'), (28, 2), 4, 2)
    """

    names: tuple[str, ...]
    value: FloatArray
    integers: tuple[int, ...]
    resolution: int
    errors: tuple[tuple[int, Error], ...]
    axes: tuple[Axis, ...] = ()
    units: str = ""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        value: ArrayLike,
        integers: Iterable[int],
        resolution: int,
        error: Error,
        axes: tuple[Axis, ...] = (),
        units: str = "",
    ) -> Draft:
        """Entries that share an error."""
        return cls(
            names=names,
            value=np.asarray(value, dtype=np.float64),
            integers=tuple(int(z) for z in integers),
            resolution=resolution,
            errors=((len(names), error),),
            axes=axes,
            units=units,
        )

    def beside(self, *others: Draft) -> Draft:
        """These entries and others, drawn independently, on the lattice that all share."""
        parts = (self, *others)
        common = lcm(*(part.resolution for part in parts))
        return Draft(
            names=tuple(name for part in parts for name in part.names),
            value=np.concatenate([part.value for part in parts]),
            integers=tuple(
                z * (common // part.resolution) for part in parts for z in part.integers
            ),
            resolution=common,
            errors=tuple(error for part in parts for error in part.errors),
            units=next((part.units for part in parts if part.units), ""),
        )

    def covariance(self) -> FloatArray:
        """Of all entries; NaN where it is not known, 0 between independent drafts.

        Where no entries are correlated, or many have no known error, it is the vector of their
        variances.
        """
        told = [e.covariance for _, e in self.errors if isinstance(e, Known)]
        silent = not told or all(known is None for known in told)
        apart = told and all(known is not None and known.ndim == 1 for known in told)
        if apart or (silent and len(self.names) > _MOST_SILENT):
            whole = np.full(len(self.names), np.nan)
            for a, b, error in self._blocks():
                if isinstance(error, Known) and error.covariance is not None:
                    whole[a:b] = error.covariance
            return whole
        whole = np.zeros((len(self.names), len(self.names)))
        for a, b, error in self._blocks():
            known = isinstance(error, Known) and error.covariance is not None
            if known:
                whole[a:b, a:b] = with_zeros(error.covariance)  # type: ignore[union-attr, arg-type]
            else:
                whole[a:b, :] = whole[:, a:b] = np.nan
        return whole

    def half_width(self) -> FloatArray:
        """Of all entries; NaN where it is not known."""
        whole = np.full(len(self.names), np.nan)
        for a, b, error in self._blocks():
            if isinstance(error, Known):
                whole[a:b] = error.half_width
        return whole

    def ends(self) -> FloatArray | None:
        """Rows (low, high), where an interval that is not symmetric was released; else None."""
        if not any(isinstance(e, Known) and e.ends is not None for _, e in self.errors):
            return None
        half = self.half_width()
        whole = np.column_stack([self.value - half, self.value + half])
        for a, b, error in self._blocks():
            if isinstance(error, Known) and error.ends is not None:
                whole[a:b] = error.ends
        return whole

    def covers(self) -> Covers:
        """What the intervals are for; "" where they differ, or where there are none."""
        found: set[Covers] = {error.covers for _, error in self.errors if isinstance(error, Known)}
        return found.pop() if len(found) == 1 else ""

    def unknown(self) -> tuple[str, ...]:
        """The entries of which no error is known."""
        return tuple(
            name
            for a, b, error in self._blocks()
            if isinstance(error, Unknown)
            for name in self.names[a:b]
        )

    def _blocks(self) -> Iterator[tuple[int, int, Error]]:
        start = 0
        for count, error in self.errors:
            yield start, start + count, error
            start += count


def with_zeros(covariance: FloatArray) -> FloatArray:
    """A matrix, also of entries of which the variances alone are given: they are not correlated."""
    return np.diag(covariance) if covariance.ndim == 1 else covariance
