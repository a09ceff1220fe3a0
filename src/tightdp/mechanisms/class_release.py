"""The mechanism behind naive Bayes: moments within classes plus exact noise, in one release."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tightdp.data.class_moments import ClassMoments
from tightdp.design.designs import Design
from tightdp.errors import check_choice, exact_amount, fail
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.class_noise import BodyNoise, ClassNoise, GaussianClassNoise, LawNoise
from tightdp.mechanisms.coordinate_noise import FAMILIES, check_share
from tightdp.noise.law import NoiseLaw
from tightdp.noise.rates import check_epsilon

NOISES = ("hull", *FAMILIES)


class ClassMechanism(AdditiveMechanism):
    r"""Releases :math:`t(X) + z`: counts, sums and squares within classes plus integer noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows; delta is 0 for ``noise="hull"``.
    Needs: [P1] t(X) is the exact integer vector of quantised rows of
    :class:`~tightdp.data.class_moments.ClassMoments`; [P2] classes, levels and bounds are public;
    [P3] the noise is private for the changes of t(X):
    :class:`~tightdp.mechanisms.class_noise.BodyNoise`,
    :class:`~tightdp.mechanisms.class_noise.LawNoise` and
    :class:`~tightdp.mechanisms.class_noise.GaussianClassNoise` prove it.
    Proof: a quantised row is a row of the domain, so neighbours move t(X) as the Lemma of
    ClassMoments says [P1, P2], and the noise was made for such moves [P3].
    Numerics: ``exact``.
    Order of events: as in :class:`~tightdp.AdditiveMechanism`.

    Parameters
    ----------
    moments : ClassMoments
    noise : "hull", family of laws, NoiseLaw or Design
        The shape of one record; or one of "laplace", "staircase", "tulap", "truncated-laplace",
        "gaussian" and "designed", for which the budget is shared among the entries that a record
        moves; or a law or design of your own for every entry, whose unit is its sensitivity.
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        For laws. Those that spend none themselves spend it on composition.
    count_share : float or "auto"
        The part of the budget for the counts of classes, in (0, 1), for families other than
        "gaussian". "auto" is :func:`~tightdp.mechanisms.class_noise.best_count_share`.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = Schema({"x": Interval(0, 1), "y": Category([0, 1], other=0)}, rows=100)
    >>> moments = ClassMoments(facts, ["x"], "y")
    >>> ClassMechanism(moments, epsilon=1.0).preview().std[:3].round(1)
    array([5. , 4.3, 4.9])
    >>> ClassMechanism(moments, noise="laplace", epsilon=1.0).preview().std[:3].round(1)
    array([7.6, 9. , 9. ])
    """

    def __init__(
        self,
        moments: ClassMoments,
        *,
        noise: Any = "hull",
        epsilon: Any,
        delta: Any = 0,
        count_share: Any = "auto",
    ) -> None:
        budget = check_epsilon(epsilon), check_share(delta)
        share = check_count_share(count_share)
        choice: ClassNoise
        if isinstance(noise, (NoiseLaw, Design)):
            choice = LawNoise(moments, noise, *budget, share)
        elif check_choice("noise", noise, NOISES) == "hull":
            if budget[1]:
                fail(
                    "`delta` must be 0 for noise='hull', which spends none. Leave it out, or "
                    "choose noise='designed', 'truncated-laplace', 'tulap' or 'gaussian'."
                )
            choice = BodyNoise(moments, budget[0])
        elif noise == "gaussian":
            choice = GaussianClassNoise(moments, *budget)
        else:
            choice = LawNoise(moments, noise, *budget, share)
        self._adopt(moments, choice)


def check_count_share(share: Any) -> Fraction | None:
    """A share in (0, 1), exactly, or None for "auto"."""
    if isinstance(share, str):
        check_choice("count_share", share, ["auto"])
        return None
    exact = exact_amount("count_share", share)
    if not 0 < exact < 1:
        fail(f"`count_share` must lie strictly between 0 and 1, or be 'auto'. Got {share}.")
    return exact
