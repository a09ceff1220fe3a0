"""Some entries of a vector that is released as one: sums, means or counts under their own names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Self

import numpy as np

from tightdp.accepted import Number
from tightdp.data.statistics import Products, columns_of_kind
from tightdp.errors import FloatArray, check_choice, check_confidence, fail
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.mechanism import Reading
from tightdp.preview import Preview
from tightdp.release import Release
from tightdp.schema import Interval, Schema, check_schema, require_public_rows

MEASURES = ("sum", "mean", "count")


class VectorPart(Reading):
    r"""Reads the terms ``part`` off one noisy vector of all ``terms``, which is paid for once.

    One row cannot move all entries at once as far as each of them by itself: with epsilon for the
    whole vector, noise in the shape of its moves is smaller than that of releases that share
    epsilon. Parts of one vector have one source, one key and one payment.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, which draws the vector.

    Parameters
    ----------
    schema : Schema
        With a public number of rows.
    terms : list of str
        All terms of the vector, as for :class:`~tightdp.data.statistics.Products`.
    part : list of str
        The terms that are read off.
    measure : {"sum", "mean", "count"}
        What is made of their sums.
    epsilon : float, Fraction or Decimal
        Of the whole vector.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> schema = Schema({"x": Interval(0, 10), "k": Category(["a", "b"], other="a")}, rows=400)
    >>> mean = VectorPart(schema, ["x", "k"], ["x"], "mean", epsilon=1)
    >>> count = VectorPart(schema, ["x", "k"], ["k"], "count", epsilon=1)
    >>> mean.names, count.names, mean.fingerprint() == count.fingerprint()
    (('x',), ('k[a]', 'k[b]'), True)
    """

    def __init__(
        self,
        schema: Schema,
        terms: Sequence[str],
        part: Sequence[str],
        measure: str,
        *,
        epsilon: Number,
    ) -> None:
        require_public_rows(check_schema(schema), "a vector of sums, means and counts")
        self.terms, self.part = list(terms), list(part)
        self.schema, self.measure = schema, check_choice("measure", measure, MEASURES)
        self._whole = AdditiveMechanism(Products(schema, terms), noise="best", epsilon=epsilon)
        missing = [term for term in part if term not in terms]
        if missing or not part:
            fail(f"`part` must hold terms of the vector. Got {', '.join(part) or 'none'}.")
        if measure == "mean":
            columns_of_kind(schema, part, Interval, "part")
        self.names = Products(schema, part).names
        self._take_price()
        every = list(self._whole.statistic.names)
        self._at = [every.index(name) for name in self.names]
        self._share = Fraction(1, schema.rows) if measure == "mean" else Fraction(1)

    @property
    def source(self) -> AdditiveMechanism:
        return self._whole

    def at(self, epsilon: Number) -> Self:
        return self.rebuilt(epsilon=epsilon)

    @property
    def picture(self) -> str:
        return {"sum": "rows", "mean": "range", "count": "bars"}[self.measure]

    def half_widths(self, confidence: float) -> FloatArray:
        """For the entries that are read, all at once."""
        return self._whole.entry_reach(self._at, confidence) * float(self._share)

    def read(self, release: Release) -> Release:
        """The entries of this part, in the units of what it is asked for."""
        share = float(self._share)
        value = release.value[self._at] * share
        if self.measure == "mean":  # a mean lies within its bounds: nothing is lost by moving it
            rules = [rule for n in self.names if isinstance(rule := self.schema[n], Interval)]
            value = np.clip(value, [r.low for r in rules], [r.high for r in rules])
        return replace(
            release,
            names=self.names,
            value=value,
            covariance=release.covariance[np.ix_(self._at, self._at)] * share**2,
            half_width=self.half_widths(release.confidence),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        level = check_confidence(confidence)
        std = self._whole.preview(level).std[self._at] * float(self._share)
        half = self.half_widths(level)
        return Preview(self.names, std, half, level, self.guarantee(), self.law)
