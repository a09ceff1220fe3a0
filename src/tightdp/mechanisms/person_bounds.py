"""How many rows of a person to use, where nobody knows how many persons have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.person_rows import check_persons, persons_by_rows
from tightdp.draft import DEPENDS, Draft
from tightdp.errors import Integers, check_confidence, check_count, check_probability, fail
from tightdp.mechanisms.exponential_grids import PieceLaw
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.quantiles import check_tau
from tightdp.preview import Preview
from tightdp.printed import most as printed_most
from tightdp.printed import percent
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource
from tightdp.schema import Schema, check_schema

MOST_ROWS = 1 << 20  # of a person; the candidates are gone through one by one
_WORD = 1 << 62


class RowsPerPerson(Mechanism):
    r"""Releases a number of rows that a share of all persons does not exceed.

    A number t of 1, ..., ``most`` is drawn with weight
    :math:`\exp\{-\frac{\epsilon}{2\Delta}\, s_X(t)\}`, where, with :math:`N^-` persons of fewer
    than t rows, :math:`N` persons of at most t rows, and n persons in all,
    :math:`s_X(t) = \max\{0, N^- - n\tau, n\tau - N\}`: by how many persons t misses the share
    :math:`\tau`. It is the quantile of :class:`~tightdp.KNormQuantile`, of the numbers of rows of
    persons. State it as ``rows_per_person`` of the schema of what is released next, which is paid
    for by itself.

    **Privacy.**
    Statement: a release is epsilon-DP for add-remove neighbours, one person more or fewer with all
    rows of that person, however many they are.
    Needs: [P1] a column that names persons, read cell by cell; [P2] ``most`` and ``share`` are
    public.
    Proof: 1. A person's number of rows depends on that person's rows alone [P1], and numbers above
    ``most`` count as ``most``: a person more adds one to one of the counts of persons with so many
    rows. 2. So :math:`N^- - n\tau` and :math:`N - n\tau` change by :math:`1 - \tau` or
    :math:`-\tau` at every t, and s, a maximum of functions, by at most
    :math:`\Delta = \max(\tau, 1 - \tau)`. 3. The numbers 1, ..., ``most`` are public [P2]: this is
    the exponential mechanism with utility -s, drawn with integers and lazily settled coins
    (:mod:`tightdp.exact.tilted`).
    Numerics: ``exact``.

    **Utility.** Some t has s = 0, so :math:`P(s > x) \le (\text{most} - 1)\,
    e^{-\epsilon x/(2\Delta)}` whatever the rows; :meth:`rank_error` inverts this bound.

    Parameters
    ----------
    schema : Schema
        With the column ``person``; its ``rows_per_person`` plays no part.
    most : int
        The largest number that may be released, up to 2**20.
    share : number strictly between 0 and 1
        Of the persons all of whose rows will be used. Read as the nearest fraction with a
        denominator up to 2**20.
    epsilon : float, Fraction or Decimal

    References
    ----------
    Smith (2011), Privacy-preserving statistical estimation with optimal convergence rates.
    Amin, Kulesza, Munoz Medina and Vassilvitskii (2019), Bounding user contributions.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(0, 1)}, rows=10**4, neighbors="add-remove", person="id")
    >>> finder = RowsPerPerson(schema, 50, epsilon=0.5)
    >>> table = {"id": [i % 2000 for i in range(6000)] + [7] * 500}  # three rows each, one has 503
    >>> finder.release(table).value
    array([3.])
    >>> round(finder.rank_error(0.95), 1)
    26.2
    """

    why = (
        "How many rows persons have is itself private. A number of a public list is drawn with a "
        "weight that falls with the number of persons by which it misses the wanted share, and one "
        "person moves that by one, however many rows the person has."
    )
    names = ("rows_per_person",)

    def __init__(
        self, schema: Schema, most: int, *, share: Number = Fraction(19, 20), epsilon: Number
    ) -> None:
        self.schema = check_schema(schema)
        if schema.person is None:
            fail("`schema` must name the column of persons: `person` says whose row it is.")
        self.most = check_count("most", most, most=MOST_ROWS)
        self.share = check_tau(share, "share")
        self.epsilon, self.neighbors = check_epsilon(epsilon), schema.neighbors
        self.rate = self.epsilon / (2 * max(self.share, 1 - self.share))  # proof, step 2

    def exponential_shares(self) -> Sequence[Fraction]:
        return (Fraction(1),)

    @property
    def law(self) -> str:
        return (
            f"1 to {self.most} with weight exp(-{self.rate} * s), s the number of persons by "
            f"which it misses {self.share} of them"
        )

    def label(self) -> str:
        return f"RowsPerPerson(share = {self.share}, most = {self.most})"

    def unit(self) -> tuple[str | None, int | None]:
        """A person, with as many rows as are counted; those beyond change nothing."""
        return self.schema.person, self.most

    def check(self, frame: TableLike) -> None:
        check_persons(frame, self.schema)

    def rank_error(self, confidence: float = 0.95) -> float:
        """With this probability the number misses the share by at most so many persons."""
        miss = 1 - check_probability("confidence", confidence)
        return math.log(self.most / miss) / float(self.rate) * (1 + 1e-12)

    def preview(self, confidence: float = 0.95) -> Preview:
        """In persons, whatever the rows: see :meth:`rank_error`. In rows nothing is known."""
        off = self.rank_error(check_confidence(confidence))
        reason = (
            "it depends on how many rows persons have; whatever the rows, the share is missed by "
            f"at most {printed_most(off)} persons at {percent(confidence)}"
        )
        return replace(self._silent(confidence, reason), ranks=np.array([off]))

    def law_on(self, persons: Integers) -> PieceLaw:
        """The exact law for the numbers of persons with 1, 2, ... rows; **not private**."""
        upto = np.cumsum(persons)
        top, bottom = self.share.numerator, self.share.denominator
        fits = bottom * max(int(upto[-1]), 1) < _WORD
        kind: Any = np.int64 if fits else object
        upto, below = bottom * upto.astype(kind), bottom * (upto - persons).astype(kind)
        aim = top * (upto[-1] // bottom)
        levels = np.maximum(np.maximum(below - aim, aim - upto), 0)
        return PieceLaw(np.arange(1, self.most + 1), self.most + 1, levels, self.rate / bottom)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        persons = persons_by_rows(frame, self.schema, self.most, progress=progress)
        found = self.law_on(persons).draw(rng)
        return Draft.of(self.names, [float(found)], [found], 1, DEPENDS)
