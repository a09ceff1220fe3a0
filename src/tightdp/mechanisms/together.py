"""Several mechanisms on one table, for one payment."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from tightdp.data.frames import check_read_again
from tightdp.errors import fail
from tightdp.mechanisms.paid import PaidMechanism
from tightdp.privacy import Numerics
from tightdp.randomness import RandomSource
from tightdp.schema import Schema

_WEAKEST = (Numerics.APPROXIMATE, Numerics.IDEALIZED, Numerics.EXACT)


class Together(PaidMechanism):
    r"""Releases what all its parts release, for one payment.

    **Privacy.**
    Statement: a release is :math:`(\sum_i \epsilon_i, \sum_i \delta_i)`-DP under the neighbour
    relation, and for the row or person, that the parts share.
    Needs: [P1] every part is :math:`(\epsilon_i, \delta_i)`-DP; [P2] their draws are independent.
    Proof: basic composition of independent releases about the same rows [P1, P2].
    Numerics: the weakest of the parts.

    Intervals hold together: every part is asked for its own at the level
    :math:`1 - (1 - c)/k`.

    Parameters
    ----------
    parts : sequence of PaidMechanism
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

    def __init__(self, parts: Sequence[PaidMechanism]) -> None:
        self.parts = tuple(parts)
        if not self.parts:
            fail("`parts` must hold at least one mechanism.")
        self.neighbors = self.parts[0].neighbors
        if any(part.neighbors is not self.neighbors for part in self.parts):
            fail("`parts` must have one neighbour relation: epsilons of two do not add.")
        if len({part._protected() for part in self.parts}) > 1:
            fail(
                "`parts` must protect the same: schemas with one `person` column and one "
                "`rows_per_person`, or all without. Epsilons for rows and for persons do not add."
            )
        self.epsilon = sum((part.epsilon for part in self.parts), Fraction(0))
        self.delta = sum((part.delta for part in self.parts), Fraction(0))
        kinds = {part.numerics for part in self.parts}
        self.numerics = next(kind for kind in _WEAKEST if kind in kinds)

    @property
    def law(self) -> str:
        return "; ".join(dict.fromkeys(part.law for part in self.parts))

    def _schema(self) -> Schema | None:
        return self.parts[0]._schema()

    def _label(self) -> str:
        return ", ".join(part._label() for part in self.parts)

    def _facts(self) -> list[str]:
        # every part with its own law: those of all parts name each law once
        return [fact for part in self.parts for fact in (*part._facts(), part.law)]

    def _check(self, frame: Any) -> None:
        for part in self.parts:
            part._check(frame)
            schema = part._schema()
            if schema is not None:
                check_read_again(frame, schema, len(self.parts))

    def _publish(
        self, frame: Any, rng: RandomSource, confidence: float, progress: bool
    ) -> dict[str, Any]:
        each = 1 - (1 - confidence) / len(self.parts)
        drawn = [part._publish(frame, rng, each, progress) for part in self.parts]
        resolution = lcm(*(part["resolution"] for part in drawn))
        sizes = np.cumsum([0, *(len(part["names"]) for part in drawn)])
        covariance = np.zeros((sizes[-1], sizes[-1]))
        for part, a, b in zip(drawn, sizes, sizes[1:], strict=False):
            covariance[a:b, a:b] = part["covariance"]
        return {
            "names": tuple(name for part in drawn for name in part["names"]),
            "value": np.concatenate([part["value"] for part in drawn]),
            "integers": tuple(
                z * (resolution // part["resolution"]) for part in drawn for z in part["integers"]
            ),
            "resolution": resolution,
            "noise": self.law,
            "covariance": covariance,
            "half_width": np.concatenate([part["half_width"] for part in drawn]),
            "unknown": tuple(name for part in drawn for name in part.get("unknown", ())),
        }
