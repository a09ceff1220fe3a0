"""A release: the published numbers, what they promise, and how far off they can be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from math import prod
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tightdp.draft import Draft, with_zeros
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_confidence,
    check_flag,
    encodes,
    fail,
    require,
)
from tightdp.printed import (
    Axis,
    Covers,
    cross_labels,
    date_and_interval,
    entry_table,
    html_table,
    in_brackets,
    in_short,
    interval_head,
    long_labels,
    notebook,
    short,
    text_table,
    value_and_interval,
)
from tightdp.privacy import Guarantee, Neighbors, Numerics

ONLY = "; private "  # before that between which a promise holds, in a law that is not for all
_FORMAT = 1
_SMALL_MATRIX, _LARGEST_MATRIX = 64, 1 << 13  # between them zeros are left out
_NUMBERS = ("value", "noise_std", "low", "high")
_COVERS: dict[str, Covers] = {word: word for word in get_args(Covers)}
_FORMS: dict[str, type[Release]] = {}
"""Releases that hold more than entries, such as books of tables, by the names of their classes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """Private values with their names, guarantee, noise law and standard errors.

    Everything here is public: it was computed from the noisy integers and public facts alone.

    Attributes
    ----------
    names : tuple of str
    value : array
        The released values in user units.
    integers : tuple of int
        What left the mechanism: exact integers on the lattice ``1 / resolution``.
    resolution : int
    guarantee : Guarantee
    noise : str
        The exact law of the noise, in words.
    covariance : array
        Covariance of the noise in user units (sampling error and clipping not included); NaN where
        it is not known. Of many entries, such as keys or the cells of many tables, the vector of
        their variances alone.
    half_width : array
        Simultaneous half-widths at level ``confidence``: all entries are within them at once; NaN
        where none is known.
    confidence : float
    unknown : tuple of str
        Entries whose error depends on the data, so that nothing public is known of it: their
        covariance and half-widths are NaN (null in JSON), and tables show a dash.
    ends : array, optional
        Rows (low, high) of intervals that are not symmetric: of quantiles, which release them, of
        ratios and of variances. ``half_width`` is then the longer side.
    covers : {"noise", "sample", "population", ""}
        What the intervals are for: the value without noise, that of the table, the population's;
        "" where entries differ, or have none.
    axes : tuple of (name, labels)
        The sides of the table that the entries form, which are then in the order of
        ``numpy.ravel``; a last side without a name holds several numbers of each group.
    units : str
        What must be said about the units; nothing where they are those of the columns.
    dates : dict
        Entries whose values are days since a date, with that date: they are printed as dates.
    receipt : dict
        What the ledger says of the payment; empty without a ledger.

    Examples
    --------
    >>> release = Release(
    ...     names=("n",), value=np.array([7.0]), integers=(7,), resolution=1,
    ...     guarantee=Guarantee(epsilon=1.0), noise="discrete Laplace",
    ...     covariance=np.array([[2.0]]), half_width=np.array([3.0]), confidence=0.95,
    ... )
    >>> release["n"], release.noise_std.round(3)
    (7.0, array([1.414]))
    """

    names: tuple[str, ...]
    value: FloatArray
    integers: tuple[int, ...]
    resolution: int
    guarantee: Guarantee
    noise: str
    covariance: FloatArray
    half_width: FloatArray
    confidence: float
    unknown: tuple[str, ...] = ()
    ends: FloatArray | None = None
    covers: Covers = "noise"
    axes: tuple[Axis, ...] = ()
    units: str = ""
    dates: Mapping[str, str] = field(default_factory=dict)
    receipt: Mapping[str, Any] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        _FORMS[cls.__name__] = cls  # a class with slots is made twice: the second one is used

    def __post_init__(self) -> None:
        """No number stands in for one that is not known, whoever made the record."""
        hidden = set(self.unknown)
        silent = np.array([name in hidden for name in self.names], dtype=np.bool_)
        vague = silent | np.isnan(self._variances)
        if vague.any():
            shared = vague if self.covariance.ndim == 1 else vague[:, None] | vague[None, :]
            object.__setattr__(self, "covariance", np.where(shared, np.nan, self.covariance))
            object.__setattr__(self, "half_width", np.where(silent, np.nan, self.half_width))

    @property
    def noise_std(self) -> FloatArray:
        """Standard deviation of the noise on every entry; NaN where it is not known."""
        return np.sqrt(self._variances)

    @property
    def _variances(self) -> FloatArray:
        return self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)

    @property
    def interval(self) -> FloatArray:
        """Rows (low, high): simultaneous intervals for what ``covers`` says, or NaN."""
        if self.ends is not None:
            return self.ends
        return np.column_stack([self.value - self.half_width, self.value + self.half_width])

    def __getitem__(self, name: str) -> float:
        return float(self.value[self.names.index(check_choice("name", name, self.names))])

    @classmethod
    def published(
        cls,
        draft: Draft,
        *,
        guarantee: Guarantee,
        noise: str,
        confidence: float,
        receipt: Mapping[str, Any] | None = None,
    ) -> Release:
        """What was drawn, with what it promises."""
        return cls(
            names=draft.names,
            value=draft.value,
            integers=draft.integers,
            resolution=draft.resolution,
            guarantee=guarantee,
            noise=noise,
            covariance=draft.covariance(),
            half_width=draft.half_width(),
            confidence=confidence,
            unknown=draft.unknown(),
            ends=draft.ends(),
            covers=draft.covers(),
            axes=draft.axes,
            units=draft.units,
            receipt={} if receipt is None else receipt,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the same release back."""
        return {
            "format": _FORMAT,
            "names": list(self.names),
            "value": without_nan(self.value),
            "integers": [str(z) for z in self.integers],  # JSON numbers lose big integers
            "resolution": self.resolution,
            "guarantee": {
                name: _plain(value)
                for name, value in asdict(self.guarantee).items()
                if (name, value) not in (("rho", None), ("given", ""))  # as records were before
            },
            "noise": self.noise,
            **_covariance_record(self.covariance),
            "half_width": without_nan(self.half_width),
            "confidence": self.confidence,
            "unknown": list(self.unknown),
            **({} if self.ends is None else {"ends": without_nan(self.ends)}),
            "covers": self.covers,
            **({"axes": [[name, list(labels)] for name, labels in self.axes]} if self.axes else {}),
            **({"units": self.units} if self.units else {}),
            **({"dates": dict(self.dates)} if self.dates else {}),
            "receipt": dict(self.receipt),
            **({"form": type(self).__name__} | self._more() if type(self) is not Release else {}),
        }

    def _more(self) -> dict[str, Any]:
        """Plain values of what only this class holds."""
        return {}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Release:
        """The release that a dictionary describes: a book of tables comes back as one."""
        if not isinstance(record, Mapping) or record.get("format") != _FORMAT:
            fail(f"This is not a release of format {_FORMAT}: read it with a newer version.")
        form = _FORMS.get(str(record["form"])) if "form" in record else Release
        if form is None:
            fail("This is a release of a form that is not known: read it with a newer version.")
        if not issubclass(form, cls):
            fail(f"This is the record of a {form.__name__}, not of a {cls.__name__}.")
        try:
            found = form(**form._read(record))
            found._check_shapes()
            return found
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            fail("This release is damaged: an entry is missing or of another kind. Restore it.")

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a release."""
        guarantee = dict(record["guarantee"])
        guarantee["neighbors"] = Neighbors.of(guarantee["neighbors"])
        guarantee["numerics"] = Numerics(guarantee["numerics"])
        check_flag("seeded", guarantee.get("seeded", False))
        resolution = int(record["resolution"])
        if resolution < 1:
            raise ValueError
        return {
            "names": texts(record["names"]),
            "value": np.array(record["value"], dtype=np.float64),
            "integers": tuple(int(z) for z in record["integers"]),
            "resolution": resolution,
            "guarantee": Guarantee(**guarantee),
            "noise": texts([record["noise"]])[0],
            "covariance": _read_covariance(record),
            "half_width": np.array(record["half_width"], dtype=np.float64),
            "confidence": check_confidence(record["confidence"]),
            "unknown": texts(record["unknown"]),
            "ends": np.array(record["ends"], dtype=np.float64).reshape(-1, 2)
            if "ends" in record
            else None,
            "covers": _COVERS[record.get("covers", "noise")],
            "axes": read_axes(record.get("axes", ())),
            "units": texts([record.get("units", "")])[0],
            "dates": _read_dates(record.get("dates", {})),
            "receipt": dict(record["receipt"]),
        }

    def _check_shapes(self) -> None:
        """Raise if the arrays are not for these entries, or the sides not for so many."""
        one = (len(self.names),)
        fits = (
            self.value.shape == self.half_width.shape == one
            and self.covariance.shape in (one, 2 * one)
            and not (self._variances < 0).any()
            and (self.ends is None or self.ends.shape == (*one, 2))
            and (not self.axes or prod(len(labels) for _, labels in self.axes) == one[0])
        )
        if not fits:
            raise ValueError

    def to_json(self) -> str:
        """The release as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release in a JSON text."""
        try:
            record = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            fail("`text` must be the JSON text of a release, as `to_json` writes it.")
        return cls.from_dict(record)

    def to_pandas(self, *, crosswise: bool = False) -> Any:
        """A frame with a row for every entry: its groups or its name, value, error and interval.

        With ``crosswise`` the values alone as they are printed, the last side of a table across.

        >>> from tightdp import Category, Schema, count
        >>> schema = Schema({"sex": Category(["f", "m"], other="f")}, rows=7)
        >>> counts = count({"sex": [*"fffmmmm"]}, ["sex"], schema=schema, epsilon=50)
        >>> counts.to_pandas()["value"].to_dict()
        {'f': 3.0, 'm': 4.0}
        """
        pandas = require("pandas", "pandas")
        if check_flag("crosswise", crosswise):
            lines, across, labels = self._crossed()
            sides = pandas.MultiIndex.from_arrays(list(lines.values()), names=list(lines))
            index = sides if len(lines) > 1 else sides.get_level_values(0)
            columns = pandas.Index(labels, name=across)
            return pandas.DataFrame(self._across(labels), index=index, columns=columns)
        frame = pandas.DataFrame(self._columns())
        return frame.set_index([name for name in frame if name not in _NUMBERS])

    def to_polars(self, *, crosswise: bool = False) -> Any:
        """The same frame of polars, whose groups are columns."""
        polars = require("polars", "polars")
        if check_flag("crosswise", crosswise):
            lines, across, labels = self._crossed()
            heads = [f"{across}={label}" if self.axes[-1][0] else label for label in labels]
            return polars.DataFrame(lines | dict(zip(heads, self._across(labels).T, strict=True)))
        return polars.DataFrame(self._columns())

    def _crossed(self) -> tuple[dict[str, list[str]], str, list[str]]:
        if len(self.axes) < 2:
            fail("`crosswise` is for tables of two columns or more; a book has them: table(...).")
        return cross_labels(self.axes)

    def _across(self, labels: list[str]) -> FloatArray:
        """The values that are printed, line by line; NaN for a dash."""
        return np.where(self.hidden, np.nan, self.value).reshape(-1, len(labels))

    def _columns(self) -> dict[str, Any]:
        """Columns of the entries: where they stand in their table, or their names."""
        sides = long_labels(self.axes) if self.axes else {"entry": list(self.names)}
        clash = [name for name in sides if name in _NUMBERS]
        sides = {f"{name} " if name in clash else name: cells for name, cells in sides.items()}
        low, high = self.interval.T
        numbers = dict(zip(_NUMBERS, (self.value, self.noise_std, low, high), strict=True))
        return {**sides, **numbers}

    def sheets(self) -> list[tuple[str, tuple[Axis, ...], slice]]:
        """The tables that the entries form: what each is called, its sides, and its entries."""
        return [("", self.axes, slice(None))]

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Entries that are not printed, by a rule that was stated: none, by default."""
        return np.zeros(len(self.names), dtype=bool)

    def law(self) -> str:
        """The exact law of the noise, for experts."""
        return self.noise

    def _rows(self) -> list[tuple[str, ...]]:
        heads = ("value", "noise std", interval_head(self.confidence, self.covers))
        hidden = self.hidden
        cells = [
            ("-", "-", "-") if hidden[i] else (value, self._error(i), interval)
            for i in range(len(self.names))
            for value, interval in (self.cells(i),)
        ]
        return entry_table(self.axes, self.names, heads, cells)

    def _error(self, entry: int) -> str:
        said = short(self.noise_std[entry])
        return f"{said} days" if self.names[entry] in self.dates and said != "-" else said

    def cells(self, entry: int, interval: FloatArray | None = None) -> tuple[str, str]:
        """A value and its interval in print, or another interval; dates where they are dates."""
        value = float(self.value[entry])
        ends: Sequence[float] = (self.interval[entry] if interval is None else interval).tolist()
        first = self.dates.get(self.names[entry])
        if first is not None:
            return date_and_interval(value, ends, date.fromisoformat(first))
        return value_and_interval(value, ends)

    def _note(self) -> str:
        crossed = len(self.axes) > 1  # where errors have no column, and there is no dash
        why = "errors depend on the data" if crossed else "-: this error depends on the data"
        dash = f"; {why}" if np.isnan(self.noise_std).any() else ""
        inside = crossed and not np.isnan(self.interval).all()
        cells = f"{in_brackets(self.confidence, self.covers)}.\n" if inside else ""
        units = f"; {self.units}" if self.units else ""
        return f"{cells}{self.guarantee}{units}{dash}"

    def __repr__(self) -> str:
        return in_short(self, self.names, self.guarantee)

    def __str__(self) -> str:
        return "\n".join([*text_table(self._rows()), "", self._note()])

    def _repr_html_(self) -> str:
        return notebook(html_table(self._rows(), self._note()))


def texts(given: Any) -> tuple[str, ...]:
    """Texts of a record, which are printed, sorted and written to files as such."""
    found = tuple(given)
    if isinstance(given, str) or not all(isinstance(text, str) for text in found):
        raise TypeError
    if not all(map(encodes, found)):
        raise ValueError
    return found


def read_axes(sides: Any) -> tuple[Axis, ...]:
    """The sides of a table, from a record."""
    return tuple((texts([name])[0], texts(labels)) for name, labels in sides)


def _read_dates(days: Any) -> dict[str, str]:
    """The days that entries stand for, from a record."""
    return {name: str(date.fromisoformat(days[name])) for name in texts(days)}


def _without_zeros(covariance: FloatArray) -> FloatArray:
    """The diagonal where there is nothing beside it: many cells make a large matrix."""
    if covariance.ndim == 1:
        return covariance
    diagonal = np.diag(covariance)
    silent = np.isnan(diagonal)  # what they share with others is not known either
    beside = np.where(silent[:, None] | silent[None, :], 0.0, covariance)
    plain = np.count_nonzero(beside) == np.count_nonzero(np.diag(beside))
    return diagonal if plain else np.where(np.diag(silent), np.nan, beside)


def _covariance_record(covariance: FloatArray) -> dict[str, Any]:
    """Variances, or the matrix; of one with little beside its diagonal, as of groups, what is there
    (place, place, covariance): all would grow with the square of the entries."""
    if covariance.ndim == 1:
        return {"covariance": without_nan(covariance), "variances": True}
    found = _without_zeros(covariance)
    if found.ndim == 1 or not _SMALL_MATRIX <= len(found) <= _LARGEST_MATRIX:
        return {"covariance": without_nan(found)}
    rows, columns = np.nonzero(np.triu(np.nan_to_num(found), 1))
    if 8 * len(rows) > found.size or not np.array_equal(found, found.T, equal_nan=True):
        return {"covariance": without_nan(found)}
    beside = zip(rows.tolist(), columns.tolist(), found[rows, columns].tolist(), strict=True)
    return {"covariance": without_nan(np.diag(found)), "beside": [*map(list, beside)]}


def _read_covariance(record: Mapping[str, Any]) -> FloatArray:
    """The same back; what is damaged raises."""
    told = np.array(record["covariance"], dtype=np.float64)
    if record.get("variances"):
        return told
    if "beside" not in record:
        return with_zeros(told)
    rows, columns, values = np.array(record["beside"], dtype=np.float64).reshape(-1, 3).T
    known = range(len(record["names"]))
    if told.shape != (len(known),) or len(known) > _LARGEST_MATRIX:
        raise ValueError
    if not all(place in known for place in (*rows.tolist(), *columns.tolist())):
        raise ValueError
    whole, places = np.diag(told), (rows.astype(np.int64), columns.astype(np.int64))
    whole[places] = whole[places[::-1]] = values
    return whole


def without_nan(numbers: FloatArray) -> list[Any]:
    """Plain numbers; JSON has no NaN, and None is what is not known."""
    plain = numbers.astype(object)
    plain[np.isnan(numbers)] = None
    return list(plain.tolist())


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, (Neighbors, Numerics)) else value
