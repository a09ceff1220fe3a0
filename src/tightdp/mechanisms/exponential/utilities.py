"""Utilities as exact integers: what a score function gave, put on one common denominator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import lcm
from typing import Any, TypeVar

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import (
    DataError,
    WideIntegers,
    check_flag,
    exact_fraction,
    fail,
    fraction_within,
)
from tightdp.exact.rates import check_epsilon
from tightdp.privacy import Neighbors

T = TypeVar("T")
_WORD = 1 << 62


def integer_levels(utilities: Iterable[Any]) -> tuple[WideIntegers, int]:
    """Integers k and a denominator q with ``utility = -k / q``: low levels are good.

    Integers, Fractions, Decimals and floats are taken exactly.

    >>> levels, denominator = integer_levels([0.5, Fraction(-1, 3), 2])
    >>> levels.tolist(), denominator
    ([-3, 2, -12], 6)
    """
    if isinstance(utilities, np.ndarray) and utilities.dtype.kind in "iu":
        return (-utilities.astype(object) if _large(utilities) else -utilities.astype(np.int64)), 1
    given = [exact_fraction("utility", value) for value in utilities]
    q = lcm(*(value.denominator for value in given)) if given else 1
    levels = [-(value.numerator * (q // value.denominator)) for value in given]
    fits = all(abs(level) < _WORD for level in levels)
    return np.array(levels, dtype=np.int64 if fits else object), q


def _large(values: Any) -> bool:
    return bool((values >= _WORD).any() or (values <= -_WORD).any()) if values.size else False


def called(function: Callable[..., T], *arguments: object) -> T:
    """The value of a user's function of the data; its errors are withheld, they may quote cells."""
    try:
        return function(*arguments)
    except Exception:
        pass  # raised anew outside the handler: not even its context may quote cells
    raise DataError(
        "The function of the data failed. What it said is withheld, because it may quote cells: "
        "try it on public rows."
    )


class UtilityBudget:
    """Epsilon, sensitivity and the claim about scores, made into a rate.

    The loss of the exponential mechanism with weights :math:`e^{r u}` is at most r times the range
    of the change of the utilities over all candidates, plus nothing: if
    :math:`a \\le u_X(i) - u_{X'}(i) \\le b` for all i, then :math:`Z_X \\ge e^{ra} Z_{X'}` and the
    log ratio is at most :math:`r b - r a`. In general [a, b] lies in [-s, s] for the sensitivity s:
    :math:`r = \\epsilon / (2s)`. If the utility is monotonic, [a, b] lies in [0, s] or [-s, 0] and
    :math:`r = \\epsilon / s`; if the normaliser Z is the same for all data, the log ratio is at
    most r b and :math:`r = \\epsilon / s` too.

    >>> UtilityBudget(1, 2, "add-remove", monotonic=True).rate
    Fraction(1, 2)
    """

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number,
        neighbors: str | Neighbors,
        *,
        monotonic: bool = False,
        constant_normalizer: bool = False,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.neighbors = Neighbors.of(neighbors)
        self.sensitivity = fraction_within("sensitivity", sensitivity, "(0, inf)")
        check_flag("monotonic", monotonic)
        check_flag("constant_normalizer", constant_normalizer)
        if monotonic and self.neighbors is Neighbors.REPLACE_ONE:
            fail(
                "`monotonic` needs neighbors='add-remove': replacing a row takes one away and adds "
                "one, so that utilities can rise and fall at once."
            )
        self.factor = 1 if monotonic or constant_normalizer else 2
        self.rate = self.epsilon / (self.factor * self.sensitivity)
