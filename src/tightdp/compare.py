"""The noises that could be used for one release, side by side, at one guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.statistics import Statistic
from tightdp.errors import TightdpError, check_instance, check_probability, fail
from tightdp.mechanisms.additive import SPARING, SPENDING, AdditiveMechanism
from tightdp.parameters import tells_arguments
from tightdp.plans.request import Request
from tightdp.preview import Preview
from tightdp.printed import (
    html_table,
    most,
    notebook,
    percent,
    short,
    text_table,
)

_FEW, _MOST = 3, 12  # entries of a group that are all named; groups that are shown
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

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """A heading, and for every noise a row of cells for each group of entries.

        Entries may have units of their own, so that no mean is taken over them: those that share a
        row have the same errors under every noise.
        """
        level = next(iter(self.previews.values())).confidence
        found = [("noise", "relative error", "entries", "noise std", f"+- at {percent(level)}")]
        for name, preview in self.previews.items():
            said = name + (" *" if name == self.chosen else ""), f"{self.relative(name):.2f}"
            for label, entry in self._groups()[:_MOST]:
                half = most(float(preview.half_width[entry]))
                found.append((*said, label, short(float(preview.std[entry])), half))
                said = "", ""
        return found

    def _groups(self) -> list[tuple[str, int]]:
        """Entries with the same errors, in words, and the first of each group."""
        errors = np.array([[p.std, p.half_width] for p in self.previews.values()])
        groups: dict[bytes, list[int]] = {}
        for entry, column in enumerate(np.moveaxis(errors, -1, 0)):
            alike = np.array([f"{number:.9g}" for number in column.ravel()])
            groups.setdefault(alike.tobytes(), []).append(entry)
        names = next(iter(self.previews.values())).names
        return [(_label([names[i] for i in group]), group[0]) for group in groups.values()]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.previews)}; {self.chosen} is used>"

    def __str__(self) -> str:
        return "\n".join([*text_table(self.rows(), left=(0, 2)), *self._notes()])

    def _repr_html_(self) -> str:
        return notebook(html_table(self.rows(), *self._notes()))

    def _notes(self) -> list[str]:
        left = len(self._groups()) - _MOST
        more = [f"{left} groups of entries more: to_dict() and --json have all"] * (left > 0)
        refused = [f"{name}: {reason}" for name, reason in self.refused.items()]
        uses = f"* is what the release uses: {self.previews[self.chosen].guarantee}"
        return [*more, *refused, uses]


def _label(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} and {len(names) - 1} more"


@tells_arguments
def compare_noise(
    request: Request | Statistic | AdditiveMechanism,
    *,
    epsilon: Number | None = None,
    noises: Iterable[str] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """The error that a release would have with each noise that can be used for it.

    Parameters
    ----------
    request : Request, Statistic or AdditiveMechanism
        A request of a kind that has a choice of noise: see :func:`tightdp.plans.request`.
    epsilon : float, Fraction or Decimal, optional
        Of a statistic, which has none of its own.
    noises : iterable of str, optional
        By default all shapes, Gaussians and laws that epsilon and delta allow; those of delta = 0
        are shown beside those that spend it.
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
    >>> from tightdp import Sums
    >>> list(compare_noise(Sums(schema), epsilon=1, noises=["l1"]).previews)
    ['best', 'l1']
    """
    level = check_probability("confidence", confidence)
    chosen, candidates, made = _choices(request, epsilon)
    names = dict.fromkeys([chosen, *(candidates if noises is None else noises)])
    previews: dict[str, Preview] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            previews[name] = made(name).preview(level)
        except TightdpError as error:
            if name == chosen:
                raise
            refused[name] = str(error).partition(". ")[0].rstrip(".") + "."
    scale = np.where(previews[chosen].std > 0, previews[chosen].std, 1.0)
    order = sorted(
        previews, key=lambda name: (round(float(np.mean(previews[name].std / scale)), 9), name)
    )
    return Comparison({name: previews[name] for name in order}, refused, chosen)


def _choices(
    what: object, epsilon: Number | None
) -> tuple[str, tuple[str, ...], Callable[[str], Request | AdditiveMechanism]]:
    """The noise in use, those that could be, and what is released with one of them."""
    if isinstance(what, Statistic):
        if epsilon is None:
            fail("`epsilon` must be given: a statistic has none of its own.")
        what = AdditiveMechanism(what, noise="best", epsilon=epsilon)
    elif epsilon is not None:
        fail("`epsilon` is for a statistic: a request and a mechanism have their own.")
    if isinstance(what, AdditiveMechanism):
        chosen = str(what._given["noise"])
        names = (*SPENDING, *SPARING) if _may_spend(what) else SPARING
        return chosen, names, lambda name: _rebuilt(what, name)
    asked = check_instance(
        "request", what, Request, "give a statistic, an AdditiveMechanism or tightdp.plans.request"
    )
    if "noise" not in asked.kind.options:
        fail(f"`request`: kind {asked.kind.name!r} has one noise, there is nothing to compare.")
    chosen = str(asked.options.get("noise", _default(asked)))
    said = asked.options.get("noise", asked.kind.options["noise"].default)
    own = said if asked.made is None else None  # what is asked for has been made already
    return chosen, _candidates(asked), lambda name: asked if name == own else _with(asked, name)


def _may_spend(mechanism: AdditiveMechanism) -> bool:
    """Whether there is a delta; "best" may have been given one that it did not spend."""
    return bool(mechanism.delta or mechanism._given["delta"])


def _rebuilt(mechanism: AdditiveMechanism, name: str) -> AdditiveMechanism:
    """The mechanism with another noise; one that has no use for a delta spends none."""
    spare = _may_spend(mechanism) and name in SPARING and name not in SPENDING
    return mechanism.rebuilt(noise=name, delta=0) if spare else mechanism.rebuilt(noise=name)


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
    return (*SPENDING, *SPARING) if request.options.get("delta") else SPARING


def _with(request: Request, name: str) -> Request:
    """The request with another noise; one that has no use for a delta spends none."""
    if request.options.get("delta") and name in SPARING and name not in SPENDING:
        return request.using(noise=name, delta=0)
    return request.using(noise=name)
