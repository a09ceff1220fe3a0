"""Several mechanisms as one: what all of them release, for one payment."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.data.table import check_read_again
from tightdp.draft import Draft
from tightdp.errors import (
    check_confidence,
    check_filled,
    fail,
)
from tightdp.mechanisms.mechanism import Mechanism, short_label
from tightdp.preview import Preview
from tightdp.privacy import Numerics, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.schema import Schema

_WEAKEST = (Numerics.APPROXIMATE, Numerics.IDEALIZED, Numerics.EXACT)


class Together(Mechanism):
    r"""Releases what all its parts release, for one payment.

    **Privacy.**
    Statement: a release is :math:`(\sum_i \epsilon_i, \sum_i \delta_i)`-DP under the neighbour
    relation, and for the row or person, that the parts share; costs in rho and mu add as well
    (:class:`~tightdp.Cost`).
    Needs: [P1] every part is :math:`(\epsilon_i, \delta_i)`-DP; [P2] their draws are independent.
    Proof: basic composition of independent releases about the same rows [P1, P2].
    Numerics: the weakest of the parts.

    Intervals hold together: every part is asked for its own at the level
    :math:`1 - (1 - c)/k`.

    Parameters
    ----------
    parts : sequence of Mechanism
        Under one neighbour relation, and with one ``person`` and ``rows_per_person``.

    Examples
    --------
    >>> from tightdp import Interval, KNormMedian, Schema
    >>> schema = Schema({"a": Interval(0, 1), "b": Interval(0, 9)}, rows=1001)
    >>> both = Together([KNormMedian(schema, name, epsilon=2) for name in schema])
    >>> table = {"a": np.linspace(0, 1, 1001), "b": np.linspace(0, 9, 1001)}
    >>> both.release(table).names, both.guarantee().epsilon
    (('a[0.5]', 'b[0.5]'), 4.0)
    """

    def __init__(self, parts: Sequence[Mechanism]) -> None:
        self.parts = tuple(parts)
        check_filled("parts", self.parts, "mechanism")
        if any(part.source is not part for part in self.parts):
            fail("`parts` must be drawn themselves: give the `source` of one that only reads.")
        self.neighbors = self.parts[0].neighbors
        if any(part.neighbors is not self.neighbors for part in self.parts):
            fail("`parts` must have one neighbour relation: epsilons of two do not add.")
        for part in self.parts:
            if part.given:
                fail(
                    "`parts` must promise to all neighbours, and the promise of "
                    f"{part.label()} is only {part.given}: release it by itself."
                )
        if len({part.unit() for part in self.parts}) > 1:
            fail(
                "`parts` must protect the same: schemas with one `person` column and one "
                "`rows_per_person`, or all without. Epsilons for rows and for persons do not add."
            )
        self.epsilon = sum((part.epsilon for part in self.parts), Fraction(0))
        self.delta = sum((part.delta for part in self.parts), Fraction(0))
        self._cost = Cost.total([part.cost for part in self.parts])
        kinds = {part.numerics for part in self.parts}
        self.numerics = next(kind for kind in _WEAKEST if kind in kinds)

    @property
    def law(self) -> str:
        return "; ".join(dict.fromkeys(part.law for part in self.parts))

    @property
    def cost(self) -> Cost:
        return self._cost

    def public_facts(self) -> Schema | None:
        return self.parts[0].public_facts()

    def label(self) -> str:
        return short_label(", ".join(part.label() for part in self.parts))

    def shape_facts(self) -> list[str]:
        # every part with its own law: those of all parts name each law once
        return [fact for part in self.parts for fact in (*part.shape_facts(), part.law)]

    def check(self, frame: TableLike) -> None:
        for part in self.parts:
            part.check(part._opened(frame))
            schema = part.public_facts()
            if schema is not None:
                check_read_again(frame, schema, len(self.parts))

    def preview(self, confidence: float = 0.95) -> Preview:
        """The previews of the parts, side by side, at the level that makes all hold at once."""
        level = check_confidence(confidence)
        found = [part.preview(1 - (1 - level) / len(self.parts)) for part in self.parts]
        return Preview(
            tuple(name for each in found for name in each.names),
            np.concatenate([each.std for each in found]),
            np.concatenate([each.half_width for each in found]),
            level,
            self.guarantee(),
            self.law,
            "; ".join(dict.fromkeys(each.assumes for each in found if each.assumes)),
        )

    def draws_level(self) -> bool:
        return True  # a release does not say where one part ends: half-widths stay as stored

    def at(self, epsilon: Number) -> Together:
        """The same parts, whose shares of epsilon stay."""
        factor = check_epsilon(epsilon) / self.epsilon
        return Together([part.at(part.epsilon * factor) for part in self.parts])

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        each = 1 - (1 - confidence) / len(self.parts)
        first, *others = (
            part.draw(part._opened(frame), rng, each, progress) for part in self.parts
        )
        return first.beside(*others)
