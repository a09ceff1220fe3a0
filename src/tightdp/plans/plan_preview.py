"""What a plan foresees, from public facts: the error of every release and what all of them cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tightdp.accounting.caps import Cap
from tightdp.accounting.costs import Cost
from tightdp.ledger import Budget
from tightdp.ledger.amounts import SYMBOLS
from tightdp.preview import Preview
from tightdp.printed import escaped, html_notes, html_table, text_table
from tightdp.privacy import text_down, text_up

LOOK = (
    "Cells that are missing, unreadable, clamped or unseen take public values in silence: look at "
    "them first, for your eyes only, with `tightdp check`."
)


@dataclass(frozen=True, slots=True, eq=False)
class PlanPreview:
    """The error to expect from every release, and what the plan costs. Prints as tables."""

    title: str
    previews: Mapping[str, Preview]
    epsilon: Mapping[str, Fraction]
    caps: Budget
    costs: Mapping[str, Cost] = field(default_factory=dict)
    cap: Cap | None = None
    alone: Mapping[str, Preview] = field(default_factory=dict)
    """What releases that are read off one vector would be, each by itself at its own share."""

    def _paid(self) -> list[tuple[str, ...]]:
        """The releases by their payments: those of one vector have one."""
        one = tuple(name for name in self.previews if name in self.alone)
        return [*([one] if one else []), *((n,) for n in self.previews if n not in self.alone)]

    def together_rows(self) -> list[tuple[str, ...]]:
        """A heading, and the largest error of every release of the vector, both ways."""
        rows: list[tuple[str, ...]] = [("release", "error together", "error one by one")]
        for name, single in self.alone.items():
            found = (float(each.half_width.max()) for each in (self.previews[name], single))
            rows.append((name, *(text_up(half, 4) for half in found)))
        return rows

    def __repr__(self) -> str:
        return f"<PlanPreview {self.title!r}: {', '.join(self.previews)}>"

    def share(self, name: str) -> float:
        """The part of the budget that a release takes, rounded up to a part in a thousand."""
        cost = self.costs[name]
        if self.cap is None:
            part = cost.epsilon / self.caps.epsilon
        else:
            part = self.cap.booked(cost)[0] / self.cap.amount
        return math.ceil(1000 * part) / 1000

    def cost_rows(self) -> list[tuple[str, ...]]:
        """A heading, and what every release costs: epsilon, delta, rho and its share."""
        rows = [("release", "epsilon", "delta", "rho", "share of the budget")]
        for names in self._paid():
            cost = self.costs[names[0]]
            amounts = (text_up(part) for part in (cost.epsilon, cost.delta, cost.rho))
            share = f"{100 * self.share(names[0]):.1f} %"
            rows.append((" + ".join(names), *amounts, share))  # type: ignore[arg-type]
        return rows  # type: ignore[return-value]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "title": self.title,
            "budget": self.caps.to_dict(),
            "releases": [
                {
                    "name": name,
                    "epsilon": str(self.epsilon[name]),
                    "protects": found.guarantee.unit,
                    "rho": str(self.costs[name].rho),
                    "share": self.share(name),
                }
                | found.to_dict()
                | ({"alone": self.alone[name].to_dict()} if name in self.alone else {})
                for name, found in self.previews.items()
            ],
        }

    def __str__(self) -> str:
        parts = [self.title, "=" * len(self.title)]
        for name, found in self.previews.items():
            parts += ["", self._head(name), _short(found)]
        both = ["", *text_table(self.together_rows())] if self.alone else []
        return "\n".join(
            [*parts, *both, "", *text_table(self.cost_rows()), "", self._total(), LOOK]
        )

    def _repr_html_(self) -> str:
        tables = [
            f"<h4>{escaped(self._head(name))}</h4>{found._repr_html_()}"
            for name, found in self.previews.items()
        ]
        both = [html_table(self.together_rows())] if self.alone else []
        costs = html_table(self.cost_rows())
        return "".join([*tables, *both, costs]) + html_notes(self._total(), LOOK)

    def _head(self, name: str) -> str:
        unit = self.previews[name].guarantee.per_person
        return f"{name}: epsilon = {text_up(self.epsilon[name])}{unit}"

    def _total(self) -> str:
        if self.cap is not None:
            return self._total_under(self.cap)
        spent = text_up(sum((self.epsilon[names[0]] for names in self._paid()), Fraction(0)))
        unit = next(iter(self.previews.values())).guarantee.per_person  # one schema, one unit
        return f"all releases: epsilon = {spent} of {self.caps}{unit}"

    def _total_under(self, cap: Cap) -> str:
        """The sum in the unit that the ledger keeps, and what it is worth."""
        booked = [cap.booked(cost) for cost in self.costs.values()]
        spent = sum((amount for amount, _ in booked), Fraction(0))
        of = f"{text_up(spent)} of {text_down(cap.amount)}"
        worth = "" if cap.epsilon is None else f", worth {self.caps}"
        unit = next(iter(self.previews.values())).guarantee.per_person
        return f"all releases: {SYMBOLS[cap.unit]} = {of}{worth}{unit}"


def _short(found: Preview, most: int = 20) -> str:
    """The table of a preview, cut where it is long."""
    head, rule, *rest = str(found).splitlines()
    entries = rest[: len(found.rows()) - 1]
    more = [f"... and {len(entries) - most} more, with --json"] if len(entries) > most else []
    return "\n".join([head, rule, *entries[:most], *more, found.note])
