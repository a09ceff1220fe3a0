"""The mechanism behind naive Bayes: moments within classes plus exact noise, in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.data.class_moments import ClassMoments
from tightdp.design.designs import Design
from tightdp.errors import (
    FloatArray,
    check_choice,
    check_confidence,
    check_real,
    exact_amount,
    fail,
)
from tightdp.exact.rates import check_epsilon
from tightdp.inference.class_tables import ClassTable, read_classes
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.reading import Reading
from tightdp.noise.law import NoiseLaw
from tightdp.release import Release
from tightdp.schema import Category, Interval, Schema
from tightdp.shaping.class_noise import BodyNoise, ClassNoise, GaussianClassNoise, LawNoise
from tightdp.shaping.coordinate_noise import FAMILIES, check_share

NOISES = ("hull", *FAMILIES)


class ClassMechanism(AdditiveMechanism):
    r"""Releases :math:`t(X) + z`: counts, sums and squares within classes plus integer noise.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` rows; delta is 0 for ``noise="hull"``.
    Needs: [P1] t(X) is the exact integer vector of quantised rows of
    :class:`~tightdp.data.class_moments.ClassMoments`; [P2] classes, levels and bounds are public;
    [P3] the noise is private for the changes of t(X):
    :class:`~tightdp.shaping.class_noise.BodyNoise`,
    :class:`~tightdp.shaping.class_noise.LawNoise` and
    :class:`~tightdp.shaping.class_noise.GaussianClassNoise` prove it.
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
        "gaussian". "auto" is :func:`~tightdp.shaping.class_noise.best_count_share`.

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
        noise: object = "hull",
        epsilon: Number,
        delta: Number = 0,
        count_share: Number | str = "auto",
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


def check_count_share(share: Number | str) -> Fraction | None:
    """A share in (0, 1), exactly, or None for "auto"."""
    if isinstance(share, str):
        check_choice("count_share", share, ["auto"])
        return None
    exact = exact_amount("count_share", share)
    if not 0 < exact < 1:
        fail(f"`count_share` must lie strictly between 0 and 1, or be 'auto'. Got {share}.")
    return exact


class ClassTables(Reading):
    """Releases moments within classes, and reads shares, means and tables of levels off them.

    **Privacy.** As for :class:`ClassMechanism`, whose release it is.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
        A category: the classes.
    noise, epsilon, delta, count_share :
        As for :class:`ClassMechanism`.
    alpha : float
        Pseudo-rows: see :func:`~tightdp.inference.class_tables.read_classes`.
    var_smoothing : float
        The least variance within a class, of columns scaled to [-1, 1].

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = Schema({"x": Interval(0, 1), "y": Category(["n", "p"], other="n")}, rows=100)
    >>> tables = ClassTables(facts, ["x"], "y", epsilon=1.0)
    >>> table = {"x": [0.5] * 100, "y": ["n", "p"] * 50}
    >>> tables.answer(tables.release(table, rng=1)).names[:3]
    ('P(y=n)', 'P(y=p)', 'mean of x | y=n')
    """

    why = (
        "A record is in one class, and moves the counts and sums of that class only, so more "
        "classes cost nothing more. By default the noise of a class has the shape of what one "
        "record can change there."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        noise: object = "hull",
        epsilon: Number,
        delta: Number = 0,
        count_share: Number | str = "auto",
        alpha: Number = 1.0,
        var_smoothing: Number = 1e-3,
    ) -> None:
        self.schema, self.target = schema, target
        self.alpha = _at_least("alpha", alpha, 1e-10)
        self.var_smoothing = _at_least("var_smoothing", var_smoothing, 1e-12)
        self.statistic = ClassMoments(schema, features, target)
        options: dict[str, Any] = {
            "noise": noise,
            "epsilon": epsilon,
            "delta": delta,
            "count_share": count_share,
        }
        self.moments = ClassMechanism(self.statistic, **options)
        self._take_price()

    @property
    def source(self) -> ClassMechanism:
        return self.moments

    def tables(self, release: Release) -> ClassTable:
        """What a release says about the classes, in scaled units."""
        return read_classes(
            self.statistic,
            release.value,
            release.covariance,
            alpha=self.alpha,
            smoothing=self.var_smoothing,
        )

    def in_user_units(self, table: ClassTable) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the numeric columns within classes."""
        numbers = [self.schema[name] for name in self.statistic.layout.numbers]
        intervals = [column for column in numbers if isinstance(column, Interval)]
        half = np.array([column.half for column in intervals])
        middle = np.array([column.middle for column in intervals])
        return middle + half * table.means, half**2 * table.variances

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """Shares of the classes, and what is known of the columns within each."""
        table, target = self.tables(release), self.target
        means, variances = self.in_user_units(table)
        names = [f"P({target}={label})" for label in self.statistic.classes]
        values = list(table.prior)
        for i, label in enumerate(self.statistic.classes):
            given = f"| {target}={label}"
            for j, column in enumerate(self.statistic.layout.numbers):
                names += [f"mean of {column} {given}", f"std of {column} {given}"]
                values += [means[i, j], math.sqrt(variances[i, j])]
            for name, shares in table.levels.items():
                category = self.schema[name]
                assert isinstance(category, Category)
                names += [f"P({name}={level} {given})" for level in category.levels]
                values += list(shares[i])
        return Answer(
            names=tuple(names),
            value=np.array(values, dtype=np.float64),
            interval=np.full((len(values), 2), np.nan),
            confidence=release.confidence if confidence is None else check_confidence(confidence),
            release=release,
            about="computed from noisy counts and sums; intervals are not known",
            unknown=tuple(names),
        )


def _at_least(name: str, value: object, least: float) -> float:
    number = check_real(name, value)
    if not number >= least:
        fail(f"`{name}` must be at least {least:g}. Got {value}.")
    return number
