"""The error to expect from a release, known before any data are touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import FloatArray
from tightdp.printed import (
    html_table,
    in_short,
    most,
    notebook,
    percent,
    short,
    text_table,
    whole,
)
from tightdp.privacy import Guarantee, Neighbors
from tightdp.schema import Schema, finest_bits

EVEN_ROWS = "rows that fill their bounds evenly; where they crowd together, errors are larger"
ORDERED_ROWS = (
    "rows that fill their bounds evenly: where rows crowd around a quantile its error is smaller, "
    "in a gap between rows it is as large as the gap"
)
MODERATE_EFFECTS = (
    "rows that fill their bounds evenly and moderate effects, log odds of variance 1 over the "
    "rows; where rows crowd together, or effects are stronger, errors are larger"
)
USUAL_RESIDUALS = (
    "rows that fill their bounds evenly, small effects, and normal residuals whose standard "
    "deviation is the threshold over 1.345; where rows crowd together, residuals are larger, or "
    "effects are strong, so that the ridge pulls them towards zero, errors are larger"
)
MODERATE_MEANS = (
    "rows that fill their bounds evenly, means about half the way from 1 to the bound of the "
    "counts in logarithms, and moderate effects, log means of variance 1 over the rows; where rows "
    "crowd together, means are smaller or effects are stronger, errors are larger"
)
MADE_UP_ROWS = (
    "made-up rows, whose cells are drawn evenly from their bounds or levels, each on its own; for "
    "a small class, or rows that crowd together, errors can be many times as large or as small, "
    "which a public `sample` shows"
)
MEAN_AT_BOUND = "a mean at a bound, where errors are largest"
"""What the preview of a variance assumes: the worst case, so that it is a promise."""

_NOISE_ONLY = "noise only: sampling error and clamping are not included"


def of_rows(schema: Schema, assumes: str = "") -> str:
    """What a preview assumes, with the number of rows where that is private."""
    if schema.rows_known:
        return assumes
    if schema.neighbors is Neighbors.REPLACE_ONE:
        full = "no missing cell; where half of the rows are left out errors are twice as large"
        return f"{assumes}; and for {full}" if assumes else full
    which = "persons, as many as the schema allows rows"
    if not schema.persons_alike:
        which = "rows, as many as the schema allows"
    many = (
        f"a table of {whole(schema.rows)} {which}; with a tenth of them "
        "errors are about ten times as large"
    )
    return f"{assumes}; and for {many}" if assumes else many


def coarse_grid(schema: Schema, lost: FloatArray, std: FloatArray) -> str:
    """What to say where rounding cells to the grid may move a result further than noise does.

    >>> from tightdp import Interval
    >>> coarse_grid(Schema({"x": Interval(0, 1e9)}, rows=10**6), np.array([7.6]), np.array([2.8]))
    'rounding to the grid 2^-16 may add 2.71 noise std: state nearer bounds, or `bits` up to 21'
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        times = float(np.nan_to_num(lost / std, nan=0.0).max(initial=0.0))
    if times <= 1:
        return ""
    finest = finest_bits(schema.rows)
    finer = f", or `bits` up to {finest}" if finest > schema.bits else ""
    return (
        f"rounding to the grid 2^-{schema.bits} may add {short(times)} noise std: state nearer "
        f"bounds{finer}"
    )


POWER, ALPHA = 0.8, 0.05
"""Of what previews of tests say that is detected."""


def in_words(effect: str, least: float) -> str:
    """What a test could still detect, in words.

    >>> in_words("correlation", 0.12)
    'with 80% power at level 5% it detects a correlation of 0.12 or more'
    """
    said = f"with {percent(POWER)} power at level {percent(ALPHA)}"
    if np.isnan(least):
        return f"{said} no {effect} is detected"
    return f"{said} it detects a {effect} of {short(least)} or more"


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """The error to expect from a release, known before any data are touched.

    ``std`` and ``half_width`` are in user units and speak of the noise alone: sampling error and
    the clamp are not included. Where the error depends on the rows, ``assumes`` says which rows;
    ``ranks`` then says, for quantiles, how many ranks they can be off, all at once, whatever the
    rows. Where nothing public tells the error, they are NaN, and ``unknown`` says why; a p-value
    has no error of its own, and its ``std`` is NaN. Of a test, ``detects`` says what it can find.
    ``rounding`` says where the grid of the schema is coarse beside the noise, and what to do, and
    ``silence`` why the release will print no intervals, where it will not.

    Examples
    --------
    >>> from tightdp import AdditiveMechanism, Interval, Schema, Sums
    >>> sums = Sums(Schema({"x": Interval(0, 10)}, rows=100))
    >>> AdditiveMechanism(sums, epsilon=1.0).preview().std.round(2)
    array([14.14])
    """

    names: tuple[str, ...]
    std: FloatArray
    half_width: FloatArray
    confidence: float
    guarantee: Guarantee
    noise: str
    assumes: str = ""
    ranks: FloatArray | None = None
    unknown: str = ""
    units: str = ""
    detects: str = ""
    rounding: str = ""
    silence: str = ""

    @classmethod
    def silent(
        cls,
        names: tuple[str, ...],
        confidence: float,
        guarantee: Guarantee,
        noise: str,
        reason: str,
    ) -> Preview:
        """A preview of what nothing public tells the error of."""
        nothing = np.full(len(names), np.nan)
        return cls(names, nothing, nothing, confidence, guarantee, noise, unknown=reason)

    @property
    def note(self) -> str:
        """What the errors count, and for which rows."""
        if self.unknown:
            return f"the error is not known in advance: {self.unknown}"
        note = f"{_NOISE_ONLY}; for {self.assumes}" if self.assumes else _NOISE_ONLY
        note += f"; {self.units}" if self.units else ""
        note += f"; {self.detects}" if self.detects else ""
        note += f"; {self.rounding}" if self.rounding else ""
        note += f"; the release will print no intervals: {self.silence}" if self.silence else ""
        if self.ranks is None:
            return note
        return f"{note}; whatever the rows, at most {most(self.ranks.max())} ranks off"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "names": list(self.names),
            "std": self.std.tolist(),
            "half_width": self.half_width.tolist(),
            "ranks": None if self.ranks is None else self.ranks.tolist(),
            "note": self.note,
            "confidence": self.confidence,
            "noise": self.noise,
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """A heading, and a row of cells for every entry."""
        head = ("entry", "noise std", f"+- at {percent(self.confidence)}")
        each = zip(self.names, self.std, self.half_width, strict=True)
        return [head, *((name, _spread(std), most(half)) for name, std, half in each)]

    def _notes(self) -> tuple[str, str]:
        return str(self.guarantee), self.note

    def __repr__(self) -> str:
        return in_short(self, self.names, self.guarantee)

    def __str__(self) -> str:
        return "\n".join([*text_table(self.rows()), "", *self._notes()])

    def _repr_html_(self) -> str:
        return notebook(html_table(self.rows(), *self._notes()))


@dataclass(frozen=True, slots=True, eq=False)
class KeysPreview(Preview):
    """The chances of keys that nobody has listed, and the noise of the counts that come with them.

    ``chances`` has pairs: how many have a key, and the probability that it appears.
    """

    chances: tuple[tuple[int, float], ...] = ()
    certain: bool = True
    """Whether no count can be further off than the half-width."""

    @property
    def note(self) -> str:
        std, off = _spread(float(self.std[0])), most(self.half_width[0])
        far = f"never off by more than {off}" if self.certain else f"all within {off}"
        sure = "" if self.certain else f" at {percent(self.confidence)}"
        return (
            f"counts of keys that appear: noise std {std}, {far}{sure}; a key that few have "
            "appears by a high draw only"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**Preview.to_dict(self), "chances": [list(pair) for pair in self.chances]}

    def rows(self) -> list[tuple[str, ...]]:  # type: ignore[override]
        head = ("a key that so many have", "appears with probability")
        return [head, *((whole(count), short(chance)) for count, chance in self.chances)]


def _spread(std: float) -> str:
    return short(std)


def spread(errors: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Root mean squares, and half-widths that hold all entries of a share of the rows at once.

    >>> errors = np.array([[1.0], [-1.0], [2.0]])
    >>> [part.round(2).tolist() for part in spread(errors, 0.5)]
    [[1.41], [1.0]]
    """
    std = np.sqrt(np.mean(errors**2, axis=0))
    worst = np.max(np.abs(errors) / np.where(std > 0, std, 1.0), axis=1)
    return std, std * float(np.quantile(worst, confidence))
