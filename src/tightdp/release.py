"""A release: the published numbers, what they promise, and how far off they can be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tightdp.errors import FloatArray, check_choice, fail
from tightdp.printed import percent, value_and_interval
from tightdp.privacy import Guarantee, Neighbors, Numerics
from tightdp.tables import html_table, text_table

_FORMAT = 1


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
        it is not known.
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
    receipt: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """No number stands in for one that is not known, whoever made the record."""
        silent = np.array([name in self.unknown for name in self.names], dtype=np.bool_)
        vague = silent | np.isnan(np.diag(self.covariance))
        if vague.any():
            shared = vague[:, None] | vague[None, :]
            object.__setattr__(self, "covariance", np.where(shared, np.nan, self.covariance))
            object.__setattr__(self, "half_width", np.where(silent, np.nan, self.half_width))

    @property
    def noise_std(self) -> FloatArray:
        """Standard deviation of the noise on every entry; NaN where it is not known."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def interval(self) -> FloatArray:
        """Rows (low, high): simultaneous intervals for the statistic without noise, or NaN."""
        if self.ends is not None:
            return self.ends
        return np.column_stack([self.value - self.half_width, self.value + self.half_width])

    def __getitem__(self, name: str) -> float:
        return float(self.value[self.names.index(check_choice("name", name, self.names))])

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the same release back."""
        return {
            "format": _FORMAT,
            "names": list(self.names),
            "value": self.value.tolist(),
            "integers": [str(z) for z in self.integers],  # JSON numbers lose big integers
            "resolution": self.resolution,
            "guarantee": {k: _plain(v) for k, v in asdict(self.guarantee).items()},
            "noise": self.noise,
            "covariance": _without_nan(_without_zeros(self.covariance)),
            "half_width": _without_nan(self.half_width),
            "confidence": self.confidence,
            "unknown": list(self.unknown),
            **({} if self.ends is None else {"ends": [_without_nan(row) for row in self.ends]}),
            "receipt": dict(self.receipt),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Release:
        """The release that a dictionary describes."""
        if not isinstance(record, Mapping) or record.get("format") != _FORMAT:
            fail(f"This is not a release of format {_FORMAT}: read it with a newer version.")
        try:
            return cls._read(record)
        except (KeyError, TypeError, ValueError, AttributeError):
            fail("This release is damaged: an entry is missing or of another kind. Restore it.")

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> Release:
        guarantee = dict(record["guarantee"])
        guarantee["neighbors"] = Neighbors.of(guarantee["neighbors"])
        guarantee["numerics"] = Numerics(guarantee["numerics"])
        return cls(
            names=tuple(record["names"]),
            value=np.array(record["value"], dtype=np.float64),
            integers=tuple(int(z) for z in record["integers"]),
            resolution=int(record["resolution"]),
            guarantee=Guarantee(**guarantee),
            noise=record["noise"],
            covariance=_with_zeros(np.array(record["covariance"], dtype=np.float64)),
            half_width=np.array(record["half_width"], dtype=np.float64),
            confidence=float(record["confidence"]),
            unknown=tuple(record["unknown"]),
            ends=np.array(record["ends"], dtype=np.float64) if "ends" in record else None,
            receipt=dict(record["receipt"]),
        )

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

    # --- tables -------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [("entry", "value", "noise std", f"{percent(self.confidence)} interval")]
        for name, value, std, ends in zip(
            self.names, self.value, self.noise_std, self.interval, strict=True
        ):
            middle, said = value_and_interval(value, ends)
            rows.append((name, middle, "-" if np.isnan(std) else f"{std:.3g}", said))
        return rows

    def _note(self) -> str:
        dash = "; -: this error depends on the data" if np.isnan(self.noise_std).any() else ""
        return f"{self.guarantee}; {self.noise}{dash}"

    def __str__(self) -> str:
        return "\n".join([*text_table(self._rows()), "", self._note()])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self._note())


def _without_zeros(covariance: FloatArray) -> FloatArray:
    """The diagonal where there is nothing beside it: many cells make a large matrix."""
    diagonal = np.diag(covariance)
    silent = np.isnan(diagonal)  # what they share with others is not known either
    beside = np.where(silent[:, None] | silent[None, :], 0.0, covariance)
    plain = np.count_nonzero(beside) == np.count_nonzero(np.diag(beside))
    return diagonal if plain else np.where(np.diag(silent), np.nan, beside)


def _with_zeros(covariance: FloatArray) -> FloatArray:
    return np.diag(covariance) if covariance.ndim == 1 else covariance


def _without_nan(numbers: FloatArray) -> list[Any]:
    """Plain numbers; JSON has no NaN, and None is what is not known."""
    plain = numbers.astype(object)
    plain[np.isnan(numbers)] = None
    return list(plain.tolist())


def unknown_errors(names: tuple[str, ...]) -> dict[str, Any]:
    """What a record says of entries whose errors depend on the data: nothing.

    >>> unknown_errors(("x",))["half_width"]
    array([nan])
    """
    count = len(names)
    return {
        "unknown": names,
        "covariance": np.full((count, count), np.nan),
        "half_width": np.full(count, np.nan),
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, (Neighbors, Numerics)) else value
