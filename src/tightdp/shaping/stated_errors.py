r"""Which errors of a vector count: squared errors by their weights, or standard errors wished for.

Both are said in the units of the release, those of its columns. Without a wish, squared errors of
the scaled entries count alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, check_length, check_within, fail
from tightdp.shaping.l2_moves import best_weights, rounded_weights

_RANGE = "[1e-12, 1e12]"

Wished = Sequence[float] | Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Wishes:
    r"""What noise is chosen for, on the scaled entries of a statistic.

    ``weights``: the least :math:`\sum_j w_j \mathrm{Var}_j`. ``targets``: the least
    :math:`\max_j \mathrm{Var}_j/t_j^2`, so that all entries miss their wishes by one factor.
    Neither is about privacy: whatever they are, the noise covers every move.

    Examples
    --------
    >>> import tightdp as tdp
    >>> schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 100)}, rows=1000)
    >>> budget = {"epsilon": 1, "delta": 1e-6}
    >>> for wish in ({}, {"targets": {"a": 10, "b": 10}}, {"weights": [1, 0.01]}):
    ...     made = tdp.AdditiveMechanism(tdp.Sums(schema), noise="gaussian", **wish, **budget)
    ...     print(made.preview().std.round(1))
    [  6. 597.5]
    [422.5 422.5]
    [ 14. 443.1]
    """

    weights: FloatArray | None = None
    targets: FloatArray | None = None

    @classmethod
    def of(cls, statistic: Statistic, weights: object = None, targets: object = None) -> Wishes:
        """What a caller states, one number for every entry, in the units of the release."""
        if weights is not None and targets is not None:
            fail("`weights` or `targets` must be left out: errors count in one way.")
        if weights is None and targets is None:
            return cls()
        units = np.array([float(unit) for unit in entry_units(statistic)])
        if weights is not None:
            return cls(weights=_numbers("weights", weights, statistic) * units**2)
        return cls(targets=_numbers("targets", targets, statistic) / units)

    def total(self, covariance: FloatArray) -> float:
        """What is to be least: of two noises the one with the smaller number is the better one."""
        variances = np.diag(covariance)
        if self.targets is not None:
            return float(np.max(variances / self.targets**2))
        return float(variances.sum() if self.weights is None else self.weights @ variances)

    def lattice_weights(self, statistic: Statistic, bits: int) -> tuple[int, ...]:
        r"""Integers in proportion to the inverse variances of round noise that serves the wishes.

        Targets: variances in proportion to :math:`t_j^2`. Noise that meets :math:`\lambda t_j` in
        every entry has no less of any variance than :math:`\lambda^2 t_j^2` if :math:`\lambda` is
        the least, for round noise covers the moves the better the larger its variances are.
        """
        if self.targets is not None:
            return rounded_weights(self.targets**2)
        return best_weights(statistic, bits, self.weights)


def entry_units(statistic: Statistic) -> list[Fraction]:
    """How much of an entry of the release one unit of the scaled entry is."""
    if type(statistic).recover is Statistic.recover:
        return [Fraction(1)] * len(statistic)
    zero = np.zeros(len(statistic))
    origin, units = statistic.recover(zero), []
    for j in range(len(zero)):
        step = zero.copy()
        step[j] = 1.0
        units.append(abs(Fraction(float(statistic.recover(step)[j] - origin[j]))))
    return [unit if unit else Fraction(1) for unit in units]


def _numbers(name: str, given: object, statistic: Statistic) -> FloatArray:
    if isinstance(given, Mapping):
        if set(given) != set(statistic.names):
            fail(f"`{name}` must name every entry once: {', '.join(statistic.names)}.")
        given = [given[entry] for entry in statistic.names]
    if not isinstance(given, (list, tuple, np.ndarray)):
        fail(f"`{name}` must be a list with a number for every entry, or numbers by their names.")
    check_length(name, len(given), len(statistic), "numbers")
    return np.array([check_within(name, number, _RANGE) for number in given])
