"""The noises that could be used for one release, side by side, at one guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import TightdpError, check_probability, fail
from tightdp.plans.request import Request
from tightdp.preview import Preview
from tightdp.printed import most, percent
from tightdp.shaping.ball_noise import SHAPES
from tightdp.shaping.coordinate_noise import LOSSY, PURE
from tightdp.tables import html_table, text_table

_LINEAR = ("best", "split", "hull", "l1", "l2", "linf")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Previews of one release with different noises; all promise the same.

    Attributes
    ----------
    previews : mapping from noises to previews
        The one with the least error comes first.
    refused : mapping from noises to reasons
        Those that cannot be drawn exactly, or do not exist for this release.
    chosen : str
        The noise that the request itself uses.
    """

    previews: Mapping[str, Preview]
    refused: Mapping[str, str]
    chosen: str

    def relative(self, name: str) -> float:
        """The root mean square over the entries of the ratio of errors to those of the best."""
        best = next(iter(self.previews.values())).std
        noised = best > 0
        if not noised.any():
            return 1.0
        ratio = self.previews[name].std[noised] / best[noised]
        return float(np.sqrt(np.mean(ratio**2)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "chosen": self.chosen,
            "noises": [
                {
                    "noise": name,
                    "relative": self.relative(name),
                    "names": list(found.names),
                    "std": found.std.tolist(),
                    "half_width": found.half_width.tolist(),
                    "law": found.noise,
                }
                for name, found in self.previews.items()
            ],
            "refused": dict(self.refused),
        }

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A heading, and a row of cells for every noise."""
        level = next(iter(self.previews.values())).confidence
        head = ("noise", "relative error", "mean noise std", f"mean +- at {percent(level)}")
        return [head] + [
            (
                name + (" *" if name == self.chosen else ""),
                f"{self.relative(name):.4f}",
                f"{float(found.std.mean()):.5g}",
                most(float(found.half_width.mean())),
            )
            for name, found in self.previews.items()
        ]

    def __str__(self) -> str:
        lines = text_table(self.rows())
        lines += [f"{name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join([*lines, f"* is what the release uses: {self._note()}"])

    def _repr_html_(self) -> str:
        reasons = [f"{name}: {reason}" for name, reason in self.refused.items()]
        return html_table(self.rows(), *reasons, f"* is what the release uses: {self._note()}")

    def _note(self) -> str:
        return str(self.previews[self.chosen].guarantee)


def compare_noise(
    request: Request, *, noises: Iterable[str] | None = None, confidence: float = 0.95
) -> Comparison:
    """The error that a release would have with each noise that can be used for it.

    Parameters
    ----------
    request : Request
        Of a kind that has a choice of noise: see :func:`tightdp.plans.request`.
    noises : iterable of str, optional
        By default all shapes, and the laws for single entries that the delta allows.
    confidence : float

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> from tightdp.plans import request
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=100)
    >>> sums = request("moments", schema, epsilon=1, features=["x"], target="y")
    >>> found = compare_noise(sums, noises=["hull", "l1", "linf"])
    >>> list(found.previews)[0], round(found.relative("l1"), 2) > 1.1
    ('best', True)
    """
    level = check_probability("confidence", confidence)
    if not isinstance(request, Request):
        fail(f"`request` must be a Request. Got {type(request).__name__}: see tightdp.plans.")
    if "noise" not in request.kind.options:
        fail(f"`request`: kind {request.kind.name!r} has one noise, there is nothing to compare.")
    chosen = str(request.options.get("noise", _default(request)))
    names = dict.fromkeys([chosen, *(_candidates(request) if noises is None else noises)])
    previews: dict[str, Preview] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            previews[name] = request.using(noise=name).preview(level)
        except TightdpError as error:
            if name == chosen:
                raise
            refused[name] = str(error).partition(". ")[0].rstrip(".") + "."
    scale = np.where(previews[chosen].std > 0, previews[chosen].std, 1.0)
    order = sorted(
        previews, key=lambda name: (round(float(np.mean(previews[name].std / scale)), 9), name)
    )
    return Comparison({name: previews[name] for name in order}, refused, chosen)


def _default(request: Request) -> str:
    option = request.kind.options["noise"]
    return option.choices[0] if option.choices else "best"


def _candidates(request: Request) -> tuple[str, ...]:
    """What may stand under `noise` for a kind of release."""
    option = request.kind.options["noise"]
    if option.choices:
        return option.choices
    if "delta" not in request.kind.options:
        return _LINEAR
    return tuple(LOSSY) if request.options.get("delta") else (*SHAPES, *PURE)
