"""The search for a lower bound on radial noise: linear programs, one after the other.

What they find is a proposal; :class:`~tightdp.design.radial_bound.RadialBound` proves it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import scipy  # scipy.sparse is loaded at its first use

from tightdp.accepted import Number
from tightdp.design.programs import solve
from tightdp.design.radial_bound import MOST_DIM, RadialBound, cosine_density
from tightdp.design.records import check_promise
from tightdp.errors import FloatArray, UndecidedError, check_count
from tightdp.noise.l2_curve import l2_scale
from tightdp.parameters import tells_arguments

_KNOTS, _RADII = 40, 1500
_BITS = 40  # of the numbers of a bound
_FIRST_TRUST, _LEAST_TRUST = 0.2, 1e-4
_SPARED = 2e-5  # share of the bound that makes the proof short


@tells_arguments
def bound_radial_noise(
    dim: int, *, epsilon: Number, delta: Number, rounds: int = 80
) -> RadialBound:
    """How far the l2 mechanism is from the best rotation-invariant noise, proved.

    Parameters
    ----------
    dim : int
        Number of entries, 2 to 1024; moves have a length of at most 1.
    epsilon, delta : float, Fraction or Decimal
        delta in [1e-6, 1).
    rounds : int
        Linear programs at most.

    Returns
    -------
    RadialBound

    Examples
    --------
    >>> found = bound_radial_noise(10, epsilon=1, delta=1e-6, rounds=2)
    >>> found.lower < found.upper
    True
    """
    check_count("dim", dim, least=2, most=MOST_DIM)
    asked, lost = check_promise(epsilon, delta)
    search = _RadialSearch(dim, asked, lost)
    for _ in range(check_count("rounds", rounds)):
        if not search.step():
            break
    return search.proved()


class _RadialSearch:
    """The best event so far, its price, and how far the next program may move it."""

    def __init__(self, dim: int, epsilon: Fraction, delta: Fraction) -> None:
        self.dim, self.epsilon, self.delta = dim, epsilon, delta
        scale = l2_scale(dim, float(epsilon), float(delta))
        reach = max(5.0, scale * (dim + 6 * math.sqrt(dim) + 14))
        near = np.geomspace(0.125, 1.0, _KNOTS // 4) * min(4.0, reach / 8)
        far = np.linspace(near[-1], reach, _KNOTS - len(near))[1:]
        self.knots = np.concatenate([[0.0], near, far])
        self.radii = np.concatenate(
            [np.linspace(0.05, near[-1], _RADII // 5), np.linspace(near[-1], 1.2 * reach, _RADII)]
        )
        self.widths = np.full(len(self.knots), min(float(epsilon) * scale, 1 - 1e-9))
        self.price, self.value = self._priced(self.widths)
        self.trust = _FIRST_TRUST

    def step(self) -> bool:
        """Move the event by a linear program; False when it is as good as it gets."""
        room = self.trust * (1 - self.widths)
        gain, slopes = self._linear(self.widths)
        size = len(self.knots)
        # variables: the price, the floor, and moves of the widths, of which room is added
        rows = np.column_stack([-gain, np.ones(len(gain)), -self.price * slopes])
        right = self.radii**2 - self.price * (slopes @ room)
        fit = 1 / np.maximum(1.0, np.abs(rows).max(axis=1))
        box = np.column_stack([np.zeros((size, 2)), np.eye(size)])
        matrix = scipy.sparse.csr_matrix(np.vstack([rows * fit[:, None], box]))
        cost = np.concatenate([[1.0, -1.0], np.zeros(size)])
        try:
            found = solve(cost, matrix, np.concatenate([right * fit, 2 * room]))
        except UndecidedError:
            self.trust /= 3
            return self.trust > _LEAST_TRUST
        moved = np.clip(self.widths + found.x[2:] - room, 0.0, 1 - 1e-9)
        moved = self._increasing(moved)
        price, value = self._priced(moved)
        if value > self.value:
            self.widths, self.price, self.value = moved, price, value
            self.trust = min(1.5 * self.trust, 0.5)
        else:
            self.trust /= 3
        return self.trust > _LEAST_TRUST

    def proved(self) -> RadialBound:
        """The bound with a floor that its own verifier can reach."""
        found = self._bound(self.widths, self.price)
        fine = np.geomspace(1e-3, 2 * self.radii[-1], 200_000)
        floor = float(found.display(fine).min())
        for spared in (_SPARED, 10 * _SPARED, 100 * _SPARED):
            tried = replace(found, floor=_short(floor - spared * abs(floor)))
            try:
                tried.verify()
            except UndecidedError:
                continue
            return tried
        tried.verify()  # says what is wrong
        return tried

    def _increasing(self, widths: FloatArray) -> FloatArray:
        """T(w) = w + b(w) must grow."""
        turns = np.maximum.accumulate(self.knots + widths)
        steps = np.arange(len(turns)) * 1e-9
        return np.clip(turns + steps - self.knots, 0.0, 1 - 1e-9)

    def _bound(self, widths: FloatArray, price: float) -> RadialBound:
        return RadialBound(
            dim=self.dim,
            epsilon=self.epsilon,
            delta=self.delta,
            price=_short(price),
            floor=Fraction(0),
            knots=tuple(map(_short, self.knots)),
            widths=tuple(map(_short, widths)),
        )

    def _priced(self, widths: FloatArray) -> tuple[float, float]:
        """The best price of an event, and the bound that it gives on the grid of radii."""
        gain, square = self._linear(widths)[0], self.radii**2
        fit = 1 / np.maximum(1.0, np.abs(gain))
        rows = np.column_stack([-gain * fit, fit])
        price, floor = solve(np.array([1.0, -1.0]), rows, square * fit).x
        return float(price), float(floor - price)

    def _linear(self, widths: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What the price buys at every radius, and its slopes in the widths at the knots."""
        event = self._bound(widths, float(self.delta))  # a price of 1
        r, m, odds = self.radii, self.dim, math.exp(self.epsilon)
        gain = (event.display(r) - r * r) / float(self.delta)
        b, beta = event._wide(r), event._back(r)
        w = np.maximum(r - beta, 0.0)
        hats = np.eye(len(self.knots))
        here = np.array([np.interp(r, self.knots, hat) for hat in hats]).T
        there = np.array([np.interp(w, self.knots, hat) for hat in hats]).T
        rise = np.interp(w, self.knots, np.gradient(widths, self.knots))
        first = cosine_density(m, (1 - b * b) / (2 * r) - b) * (-1 - b / r)
        second = cosine_density(m, -beta - (1 - beta * beta) / (2 * r)) * (beta / r - 1)
        second = np.where(r >= widths[0], second / np.maximum(1 + rise, 0.1), 0.0)
        slopes = first[:, None] * here - odds * second[:, None] * there
        return gain, np.nan_to_num(slopes, posinf=0.0, neginf=0.0) / float(self.delta)


def _short(x: float) -> Fraction:
    return Fraction(round(x * (1 << _BITS)), 1 << _BITS)
