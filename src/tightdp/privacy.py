"""What a guarantee says: the neighbour relation, epsilon, delta and how far the proof reaches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tightdp.errors import check_choice, check_positive, check_real, fail


class Neighbors(StrEnum):
    """Which tables count as neighbours.

    ``replace-one``: one row is replaced by another, the number of rows is public.
    ``add-remove``: one row is added or removed, the number of rows is private.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def of(cls, value: str | Neighbors) -> Neighbors:
        """The relation named by ``value``, or a clear error."""
        return cls(check_choice("neighbors", value, [item.value for item in cls]))


class Numerics(StrEnum):
    """How far the proof reaches into the implementation.

    ``exact``: integers from the statistic to the released value. ``idealized-numerics``: the proof
    is about real numbers, the code computes with floats. ``approximate-sampler``: the law is only
    approached (Markov chains).
    """

    EXACT = "exact"
    IDEALIZED = "idealized-numerics"
    APPROXIMATE = "approximate-sampler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy under a neighbour relation.

    >>> print(Guarantee(epsilon=1.0, numerics=Numerics.EXACT))
    epsilon = 1, replace-one neighbours, exact
    """

    epsilon: float
    delta: float = 0.0
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    numerics: Numerics = Numerics.IDEALIZED
    seeded: bool = False

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 0 <= check_real("delta", self.delta) < 1:
            fail(f"`delta` must lie in [0, 1). Got {self.delta}.")
        Neighbors.of(self.neighbors)

    def __str__(self) -> str:
        parts = [f"epsilon = {self.epsilon:g}"]
        if self.delta:
            parts.append(f"delta = {self.delta:g}")
        parts += [f"{self.neighbors} neighbours", str(self.numerics)]
        if self.seeded:
            parts.append("SEEDED: not private")
        return ", ".join(parts)
