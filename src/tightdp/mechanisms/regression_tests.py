"""Tests about coefficients of a linear regression, as a release of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use

from tightdp.accepted import Number
from tightdp.data.statistics import columns_of_kind, distinct
from tightdp.errors import FloatArray, check_array, check_choice, check_confidence, check_real, fail
from tightdp.inference.coefficient_intervals import (
    holding,
    missed_share,
    simultaneous_intervals,
)
from tightdp.inference.coefficient_tests import Tested, check_null, equations, p_value, rejected
from tightdp.inference.expected_errors import even_moments
from tightdp.mechanisms.hypothesis_tests import P_VALUE, PlannedReading, check_sample
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import ASSUMPTIONS, LinearFit
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.preview import Preview
from tightdp.release import Release
from tightdp.schema import Interval, Schema

_EXPLAINED = 0.9  # of the variance of the target, at most, where power is asked for


class RegressionTest(PlannedReading):
    r"""Tests about coefficients of the population: one, a contrast, or a nested model.

    Released are the noisy moments of the regression
    (:class:`~tightdp.mechanisms.least_squares.LeastSquares`), and read off them the tested
    coefficients, their intervals and one p-value. About one number the test rejects at level
    alpha if and only if the interval at level 1 - alpha leaves the null out
    (:mod:`~tightdp.inference.coefficient_tests`). The type I error is measured, not proved. All
    tests of the same regression share its release: with a ledger and one key the second is free.

    **Privacy.** As for :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`, whose noisy
    moments are all that is released.

    Parameters
    ----------
    schema : Schema
    features : list of str
    target : str
    tested : str, mapping of names to weights, or list of these
        A coefficient (``"intercept"`` is one); a contrast such as ``"a - b"``, ``"2 a + b"`` or
        ``{"a": 1, "b": -1}``; or several equations that are to hold at once: ``["a", "b"]``
        compares the model with the nested one without a and b.
    null : float, or one for each equation
        What the coefficients, or contrasts, are doubted to be.
    assume : {"equal variance"}, optional
        As for :meth:`~tightdp.LinearRegression.conf_int`.
    noise, epsilon :
        As for :class:`~tightdp.LinearRegression`.

    Examples
    --------
    >>> from tightdp import Interval
    >>> columns = {name: Interval(-1, 1) for name in "abcy"}
    >>> schema = Schema(columns, rows=2001)
    >>> line = np.linspace(-1, 1, 2001)
    >>> table = {"a": line, "b": np.cos(9 * line), "c": np.sin(7 * line), "y": line / 2}
    >>> test = RegressionTest(schema, [*"abc"], "y", "a - b", epsilon=4)
    >>> release = test.release(table, rng=1)
    >>> release.names, bool(release["p-value"] < 0.05)
    (('a - b', 'p-value'), True)
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        tested: Tested,
        *,
        null: Number | Sequence[Number] = 0,
        assume: str | None = None,
        noise: object = "best",
        epsilon: Number,
    ) -> None:
        self.schema = check_sample(schema, "coefficient_test")
        if assume is not None:
            check_choice("assume", assume, ASSUMPTIONS)
        self.assume = assume
        columns_of_kind(schema, [target], Interval, "target")
        self.squares = LeastSquares(schema, features, target, noise=noise, epsilon=epsilon)
        self.statistic = self.squares.statistic
        self.weights, words = equations(tested, self.squares.design.names)
        self.null = check_null(null, len(self.weights))
        self.names = distinct((*words, P_VALUE))
        self.effect = f"difference of {' and '.join(words)} from the null"
        self._take_price()

    @property
    def source(self) -> Mechanism:
        return self.squares.source

    def read(self, release: Release) -> Release:
        """The tested coefficients with intervals that hold all at once, and the p-value."""
        if release.names == self.names:
            return release  # read already
        fit = self.squares.fit(release)
        value = self.weights @ fit.coefficients
        found, room, draws = fit.sums(self.weights, self.assume)
        alpha = missed_share(release.confidence)
        ends = holding(value, simultaneous_intervals(found - room, alpha, found + room))
        size, ellipsoid = len(self.names), self.assume is not None
        p = p_value(found, value, self.null, draws, ellipsoid=ellipsoid, room=room)
        return replace(
            release,
            names=self.names,
            value=np.append(value, p),
            units="",
            covariance=np.full((size, size), np.nan),
            half_width=np.append(np.abs(ends - value[:, None]).max(axis=1), np.nan),
            ends=np.vstack([ends, [np.nan, np.nan]]),
            unknown=(P_VALUE,),
            covers="population",
        )

    # --- before any release -------------------------------------------------------------------

    @property
    def largest(self) -> float:  # type: ignore[override]
        """An effect that explains most of the variance of an even target."""
        explained = self._explained(self._slopes(np.ones(len(self.weights))))
        if explained == 0:  # the intercept alone
            return float(2 * self.squares.design.half[-1])
        return float(np.sqrt(_EXPLAINED / 3 / explained))

    def _slopes(self, effect: FloatArray) -> FloatArray:
        """The shortest scaled slopes that make the equations differ so much from no effect."""
        on_scaled = (self.weights @ self.squares.design.linear)[:, 1:]
        return np.asarray(np.linalg.pinv(on_scaled) @ effect)

    def _explained(self, slopes: FloatArray) -> float:
        M = even_moments(self.statistic, slopes)
        return float(M[1:-1, -1] @ slopes)

    def _power(self, effect: Any, alpha: float, rows: int, stock: None) -> float:
        """Of rows whose features and target fill their bounds evenly, not correlated.

        An effect is a difference from the null, the same for all equations, or one for each.
        """
        count = len(self.weights)
        single = np.full(count, check_real("effect", effect)) if np.ndim(effect) == 0 else None
        away = check_array("effect", effect, 1) if single is None else single
        if len(away) != count:
            fail(f"`effect` must be a number, or {count} of them.")
        with np.errstate(over="ignore", invalid="ignore"):  # what is no number is refused
            M = even_moments(self.statistic, self._slopes(away))
            explained = self._explained(self._slopes(away))
        if not explained <= 1 / 3:
            fail("`effect` must leave the target within its bounds: state a smaller one.")
        if not self.statistic.square:
            M[-1, -1] = np.nan
        fit = LinearFit(self.squares, M, float(rows))
        kept = _centred(fit.sums(self.weights, self.assume)[0])
        moves = _centred(fit.sums(self.weights, ASSUMPTIONS[0])[0])
        return rejected(kept, away + moves, alpha, ellipsoid=self.assume is not None)

    def _preview(self, confidence: float) -> Preview:
        level = check_confidence(confidence)
        found = self.squares.preview(level)
        std = np.sqrt(np.diag(self.weights @ self.squares.expected_covariance() @ self.weights.T))
        half = float(scipy.special.ndtri(1 - (1 - level) / (2 * len(std)))) * std
        return replace(found, names=self.names[:-1], std=std, half_width=half)


def _centred(values: FloatArray) -> FloatArray:
    return np.asarray(values - np.median(values, axis=0))
