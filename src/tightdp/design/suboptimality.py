"""How much better a noise could be, at the guarantee it gives."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number
from tightdp.design.designs import Design, design_noise
from tightdp.design.losses import Loss, as_loss
from tightdp.errors import fail
from tightdp.noise.law import LatticeLaw, NoiseLaw
from tightdp.parameters import tells_arguments
from tightdp.privacy import text_down, text_up

_TAIL = 1e-12
_PIECES = 4000


@dataclass(frozen=True)
class Suboptimality:
    """The expected loss of a noise beside the certified optimum.

    Attributes
    ----------
    value : float
        Expected loss of the noise.
    design : Design
        The certified optimum at the same guarantee.
    at_least, at_most : float
        The noise is worse than the best possible by a relative excess in this interval.
    """

    law: str
    value: float
    design: Design

    @property
    def at_least(self) -> float:
        """By how much at least the designed noise is better (value/upper - 1, or 0)."""
        return max(self.value / self.design.upper - 1, 0.0)

    @property
    def at_most(self) -> float:
        """By how much at most any noise could be better (value/lower - 1)."""
        return max(self.value / self.design.lower - 1, 0.0)

    def __str__(self) -> str:
        problem = self.design.problem
        spent = f"epsilon {text_up(problem.epsilon)}, delta {text_up(problem.delta)}"
        return (
            f"{self.law}: expected loss ({problem.loss.name}) {self.value:.6g} at {spent}. "
            f"The best possible lies in [{text_down(self.design.lower)}, "
            f"{text_up(self.design.upper)}]: "
            f"this noise is {self.at_least:.1%} to {self.at_most:.1%} worse."
        )


@tells_arguments
def suboptimality(
    noise: NoiseLaw,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    loss: object = "l1",
    gap: float = 0.01,
) -> Suboptimality:
    """Say how far a noise is from the best noise with the same guarantee.

    Parameters
    ----------
    noise : NoiseLaw
        Laplace, Gaussian, staircase, a designed noise ...; laws on the integers are compared with
        the best noise on the integers.
    epsilon, delta : float, optional
        The guarantee to compare at; by default the one that suits the law. The noise must give it.
    loss : {"l1", "l2"}, Loss or function
    gap : float
        Certified gap of the optimum.

    Examples
    --------
    >>> from tightdp import TruncatedLaplace
    >>> report = suboptimality(TruncatedLaplace(epsilon=2.0, delta=0.1))
    >>> 0.2 < report.at_least <= report.at_most < 0.26
    True
    """
    if not isinstance(noise, NoiseLaw):
        fail(f"`noise` must be a noise law of the package. Got {type(noise).__name__}.")
    own = noise.guarantee() if epsilon is None else noise.guarantee(epsilon=float(epsilon))
    budget = own.epsilon if epsilon is None else epsilon
    slack = own.delta if delta is None else delta
    if own.delta > float(slack) * (1 + 1e-9):  # computed deltas are rounded up a little
        fail(
            f"`delta` must be at least what the noise loses at this epsilon, {text_up(own.delta)}. "
            f"Got {text_down(slack)}."
        )
    integer = isinstance(noise, LatticeLaw)
    best = design_noise(
        epsilon=budget,
        delta=slack,
        sensitivity=noise.sensitivity,
        loss=loss,
        gap=gap,
        integer=integer,
    )
    chosen = as_loss(loss, Fraction(noise.sensitivity))
    return Suboptimality(repr(noise), _expected(noise, chosen), best)


def _expected(noise: NoiseLaw, loss: Loss) -> float:
    """E c: the law's own moments where it has them, else a sum over fine pieces."""
    shape = loss.description
    if shape["kind"] == "sides" and loss.symmetric and loss.degree in (1, 2):
        return float(Fraction(shape["right"][-1])) * noise.expected_loss(loss.degree)
    ends = [float(noise.quantile(p)) for p in (_TAIL, 1 - _TAIL)]
    if isinstance(noise, LatticeLaw):
        z = range(round(ends[0]), round(ends[1]) + 1)
        costs = loss.values(Fraction(1), z.start, z.stop, up=True)
        return float(np.dot(np.array([float(c) for c in costs]), noise.pmf(np.array(z))))
    width = Fraction(max(map(abs, ends)) / _PIECES)
    costs = loss.means(width, -_PIECES, _PIECES)
    edges = float(width) * np.arange(-_PIECES, _PIECES + 1)
    atom = float(getattr(noise, "atom_share", 0.0))
    shares = np.diff(np.asarray(noise.cdf(edges)))
    shares[_PIECES - 1] -= atom  # the atom at zero falls into the piece that ends there
    at_zero = float(loss.values(Fraction(1), 0, 1, up=True)[0])
    return float(np.dot(np.array([float(c) for c in costs]), shares)) + atom * at_zero
