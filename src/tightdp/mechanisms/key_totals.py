"""Sums and means of numbers for keys that nobody has listed, with the keys, for one payment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.key_counts import KeyColumn
from tightdp.data.statistics import Sums, columns_of_kind
from tightdp.data.table import check_public_rows
from tightdp.draft import Draft, Known
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    amount_within,
    check_confidence,
    check_most,
)
from tightdp.mechanisms.additive import AdditiveMechanism, lost_to_the_grid
from tightdp.mechanisms.mechanism import Mechanism, Reading, short_label, warn_of_delta
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.preview import KeysPreview
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema, check_schema

ROWS = "rows"
_MOST_NUMBERS = 16
_SHARES = tuple(Fraction(k, 8) for k in range(1, 8))  # of epsilon that counts may have
_MOST_MATRIX = 512  # entries of which a covariance matrix is told


class KeyTotals(Mechanism):
    r"""Releases keys, their noisy counts and noisy sums of numbers, each if its count is large.

    Keys and counts are those of :class:`~tightdp.mechanisms.private_keys.PrivateKeys` at a share
    of epsilon and the whole of delta. The rest of epsilon buys the sums of the keys that appear.

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` keys.
    Needs: [P1] keys and counts are :math:`(\epsilon_1, \delta)`-DP; [P2] a person, or row, changes
    the sums of t keys, each by scaled numbers in :math:`[-1, 1]^p`, where a key whose row is
    replaced by another of that key counts twice; [P3] the noise of the sums of a key is
    :math:`\epsilon_2 / t`-DP for such a change, and independent of all else; [P4]
    :math:`\epsilon_1 + \epsilon_2 = \epsilon`.
    Proof: (1) Let every possible key have its sums, 0 where it is not in the table, plus noise.
    That family is :math:`\epsilon_2`-DP: densities of different keys multiply, and t of them
    change, each by a factor of at most :math:`e^{\epsilon_2/t}`, that of a replaced row by two such
    factors [P2, P3]. (2) With keys and counts, drawn independently, it is
    :math:`(\epsilon_1 + \epsilon_2, \delta)`-DP [P1, P4]. (3) To tell only the sums of keys that
    appear, which keys and counts tell, is post-processing, and their noise alone need be drawn.
    Numerics: ``exact``.

    Intervals of sums and means put together what the noise of the count leaves (for certain, where
    that noise is bounded) and the law of the noise of the sums, for all keys that appear at once:
    which appear is independent of the noise of sums.

    Parameters
    ----------
    schema : Schema
        Knows the numbers; it need not know the columns of the key.
    columns : sequence of str
        Numeric columns.
    by : str or list of str
        The columns of the key, as for :class:`~tightdp.mechanisms.private_keys.PrivateKeys`.
    epsilon, delta : float, Fraction or Decimal
    noise : {"best", "bounded", "gaussian"}
        Of the counts.
    most : int, optional
        Only so many keys, those with the largest noisy counts.
    count_share : float, Fraction or Decimal, optional
        The part of epsilon that keys and counts get. By default the eighth with which the mean of
        numbers at a bound has the least error; a larger part shows more keys.

    Examples
    --------
    >>> schema = Schema({"pay": Interval(0, 90)}, rows=2000, neighbors="add-remove")
    >>> totals = KeyTotals(schema, ["pay"], "city", epsilon=1, delta=1e-6)
    >>> totals.count_share
    Fraction(1, 2)
    """

    why = (
        "Nobody listed the keys: noise is added to the count of every key, and one appears if its "
        "noisy count is above a threshold. Sums of the keys that appear have noise of their own, "
        "shaped like what one row can change."
    )

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str] | str,
        by: str | Sequence[str],
        *,
        epsilon: Number,
        delta: Number,
        noise: str = "best",
        most: int | None = None,
        count_share: Number | None = None,
    ) -> None:
        self.schema, self.neighbors = check_schema(schema), check_schema(schema).neighbors
        self.epsilon = check_epsilon(epsilon)
        wanted = [columns] if isinstance(columns, str) else columns
        self.numbers = tuple(columns_of_kind(schema, wanted, Interval))
        check_most("columns", len(self.numbers), _MOST_NUMBERS, "numbers", "ask for fewer")
        plain = Schema(schema.select(self.numbers), schema.rows, neighbors=Neighbors.ADD_REMOVE)
        self._plain = Sums(plain, self.numbers)
        self._given = {"delta": delta, "noise": noise, "most": most}
        self._by = by
        shares = _SHARES
        if count_share is not None:
            shares = (amount_within("count_share", count_share, "(0, 1)"),)
        self.count_share, self.counted, self.sums = self._split(shares)  # [P4]
        self.delta = self.counted.delta
        self.keys = KeyColumn(schema, by, self._plain)
        rules = [schema[name] for name in self.numbers]
        self.half = np.array([rule.half for rule in rules if isinstance(rule, Interval)])
        self.middle = np.array([rule.middle for rule in rules if isinstance(rule, Interval)])
        first = ROWS
        while first in self.numbers:
            first = f"number of {first}"
        self.measures = (first, *self.numbers)

    def _split(self, shares: Sequence[Fraction]) -> tuple[Fraction, PrivateKeys, AdditiveMechanism]:
        """The share with which the mean of numbers at a bound errs least, and both parts."""
        found: list[tuple[float, Fraction, PrivateKeys, AdditiveMechanism]] = []
        for share in shares:
            try:
                counted = PrivateKeys(
                    self.schema, self._by, epsilon=share * self.epsilon, **self._given
                )
                each = (1 - share) * self.epsilon / counted.changes  # [P3]
                sums = AdditiveMechanism(self._plain, noise="best", epsilon=each)
            except InfeasibleSamplingError:
                if share == shares[-1] and not found:
                    raise
                continue
            error = counted.noise.mean_square() + float(sums.scaled_covariance()[0, 0])
            found.append((error, share, counted, sums))
        return min(found, key=lambda each: each[:2])[1:]

    @property
    def names(self) -> tuple[str, ...]:
        """What a preview speaks of: the keys themselves are private."""
        return tuple(f"{measure} | {self.counted.names[0]}" for measure in self.measures)

    @property
    def law(self) -> str:
        return f"{self.counted.law}; sums of keys that appear plus {self.sums.law}"

    def label(self) -> str:
        columns = ", ".join([*self.numbers, *self.counted.columns])
        return short_label(f"KeyTotals({columns})")

    def public_facts(self) -> Schema:
        return self.schema

    def check(self, frame: TableLike) -> None:
        self.keys.check(frame)
        check_public_rows(frame, self.schema)
        warn_of_delta(self.delta, self.schema)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.drawn(self.keys.totals(frame, progress=progress), rng, confidence)

    def drawn(
        self, totals: dict[str, tuple[int, ...]], rng: RandomSource, confidence: float = 0.95
    ) -> Draft:
        """A release for exact counts and sums on the grid, in the order of their keys."""
        texts, exact = list(totals), list(totals.values())
        places, noisy = self.counted.shown([each[0] for each in exact], rng)  # [P1]
        noise = self.sums.noise.sample(len(places), rng=rng) if len(places) else []  # [P3]
        unit = self.sums.resolution
        factor = unit // self._plain.resolution(self._plain.schema.bits)
        entries: list[int] = []
        for i, count, draws in zip(places, noisy, noise, strict=True):
            sums = zip(exact[i][1:], draws, strict=True)
            entries += [int(count) * unit, *(factor * t + int(z) for t, z in sums)]
        names = [
            f"{measure} | {key}"
            for key in self.counted.key_names([texts[i] for i in places])
            for measure in self.measures
        ]
        value = np.array([z / unit for z in entries])
        half = self._half_widths(len(places), confidence)
        error = Known(half_width=half, covariance=self._variances(len(places)))
        return Draft.of(tuple(names), value, entries, unit, error)

    def _variances(self, keys: int) -> FloatArray:
        """Of scaled entries, uncorrelated: every sign of every noise is equally likely."""
        each = [self.counted.noise.mean_square(), *np.diag(self.sums.scaled_covariance())]
        return np.tile(np.array(each), keys)

    def _half_widths(self, keys: int, confidence: float) -> FloatArray:
        """Of the noise of scaled entries, for all keys at once."""
        count, sums = self.reaches(keys, confidence)
        return np.tile(np.append(count, sums), keys)

    def reaches(self, keys: int, confidence: float) -> tuple[float, FloatArray]:
        """How far counts, and scaled sums but for their rounding, of so many keys can be off."""
        certain = self.counted.noise.ends(np.zeros(0)) is not None
        level = confidence if certain else (1 + confidence) / 2
        whole = np.eye(len(self.numbers))
        sums = self.sums.reach(whole, level ** (1 / max(keys, 1)))
        sums -= lost_to_the_grid(self._plain, self.sums.bits)  # a key has fewer rows than the table
        return float(self.counted.half_widths(level)[0]), sums

    def half_widths(self, confidence: float) -> FloatArray:
        return self._half_widths(1, confidence)

    def at_level(self, release: Release, confidence: float) -> Release:
        if release.confidence == confidence:
            return release
        half = self._half_widths(len(release.value) // len(self.measures), confidence)
        return replace(release, half_width=half, confidence=confidence)

    def rounding(self) -> FloatArray:
        """What the grid costs the scaled sums, for every row of a key."""
        return lost_to_the_grid(self._plain, self.sums.bits) / self.schema.rows

    def preview(self, confidence: float = 0.95) -> KeysPreview:
        """Which keys appear, and the noise of counts and scaled sums."""
        found, level = self.counted.preview(confidence), check_confidence(confidence)
        return replace(
            found,
            names=self.names,
            std=np.sqrt(self._variances(1)),
            half_width=self._half_widths(1, level),
            guarantee=self.guarantee(),
            noise=self.law,
        )


class KeyReading(Reading):
    """Base: numbers of every key that appeared, made of its noisy count and its noisy sums.

    **Privacy.** As for :class:`KeyTotals`; what is made of counts and sums costs nothing.
    """

    picture = "rows"
    why = KeyTotals.why

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str] | str,
        by: str | Sequence[str],
        *,
        epsilon: Number,
        delta: Number,
        noise: str = "best",
        most: int | None = None,
        count_share: Number | None = None,
    ) -> None:
        self.totals = KeyTotals(
            schema,
            columns,
            by,
            epsilon=epsilon,
            delta=delta,
            noise=noise,
            most=most,
            count_share=count_share,
        )
        self.schema = schema
        self._take_price()

    @property
    def source(self) -> KeyTotals:
        return self.totals

    @property
    def names(self) -> tuple[str, ...]:
        return self.totals.names

    def read(self, release: Release) -> Release:
        """What is published: a number of rows and one for each column, for every key."""
        width = len(self.totals.measures)
        if not release.names:
            return release  # nothing appeared
        noisy = np.array([z / release.resolution for z in release.integers]).reshape(-1, width)
        count, sums = self.totals.reaches(len(noisy), release.confidence)
        rows = np.maximum(noisy[:, 0], 1.0)
        known = self.totals.counted.noise.ends(noisy[:, 0])
        if known is None:
            known = np.column_stack([noisy[:, 0] - count, noisy[:, 0] + count])
        counts = np.maximum(known, 1.0)  # a key that nobody has does not appear
        far = sums + counts[:, 1:] * self.totals.rounding()
        ends = np.stack([noisy[:, 1:] - far, noisy[:, 1:] + far], axis=2)
        value, made = self._made(noisy[:, 1:], rows, ends, counts)
        whole = np.concatenate([counts[:, None, :], made], axis=1)
        values = np.column_stack([rows, value])
        half = np.abs(whole - values[:, :, None]).max(axis=2)
        few = values.size <= _MOST_MATRIX
        columns = self.totals.counted.columns
        before = f"{self.totals.measures[0]} | " + (f"{columns[0]}=" if len(columns) == 1 else "")
        keys = [name.removeprefix(before) for name in release.names[::width]]
        axis = (", ".join(columns), tuple(keys))
        return replace(
            release,
            value=values.ravel(),
            covariance=self._covariance(values, rows) if few else np.full(values.size, np.nan),
            half_width=half.ravel(),
            ends=whole.reshape(-1, 2),
            axes=(axis, ("", self.totals.measures)),
        )

    def _covariance(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        slopes = self._slopes(values[:, 1:], rows)
        width = len(self.totals.measures)
        noise, whole = np.diag(self.totals._variances(1)), np.zeros((values.size, values.size))
        for k, slope in enumerate(slopes):
            place = slice(k * width, (k + 1) * width)
            whole[place, place] = slope @ noise @ slope.T
        return whole

    @abstractmethod
    def _made(
        self, sums: FloatArray, rows: FloatArray, ends: FloatArray, counts: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Values and their ends, from scaled sums, noisy counts, and the ends of both."""

    @abstractmethod
    def _slopes(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        """How noise moves the count and the values of every key, to first order."""

    def _level_slopes(self, of_count: FloatArray, of_sums: FloatArray) -> FloatArray:
        keys, p = of_count.shape
        slopes = np.zeros((keys, p + 1, p + 1))
        slopes[:, 0, 0] = 1.0
        slopes[:, 1:, 0] = of_count
        slopes[:, np.arange(1, p + 1), np.arange(1, p + 1)] = of_sums
        return slopes

    def preview(self, confidence: float = 0.95) -> KeysPreview:
        return self.totals.preview(confidence)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The keys that appeared; their intervals hold at once."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        found = Answer.of(self.read(self.totals.at_level(release, level)))
        about = "intervals hold for all keys that appeared at once; keys that few have do not"
        return replace(found, about=about)


class KeySums(KeyReading):
    """Releases sums of numeric columns for keys that nobody has listed; see :func:`tightdp.sum`.

    **Privacy.** As for :class:`KeyTotals`.

    >>> schema = Schema({"pay": Interval(0, 90)}, rows=2000, neighbors="add-remove")
    >>> sums = KeySums(schema, "pay", "city", epsilon=2, delta=1e-6)
    >>> table = {"city": ["Ulm"] * 1500 + ["Bonn"] * 499 + ["x"], "pay": [30.0] * 2000}
    >>> release = sums.release(table)
    >>> release.names[1::2], bool(abs(release["pay | city=Ulm"] - 45_000) < 3000)
    (('pay | city=Bonn', 'pay | city=Ulm'), True)
    """

    summed = "{} |"

    def _made(
        self, sums: FloatArray, rows: FloatArray, ends: FloatArray, counts: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        half, middle = self.totals.half, self.totals.middle
        shift = [counts[:, k, None] * middle for k in (0, 1)]
        low = half * ends[:, :, 0] + np.minimum(*shift)
        high = half * ends[:, :, 1] + np.maximum(*shift)
        return half * sums + rows[:, None] * middle, np.stack([low, high], axis=2)

    def _slopes(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        shape = (len(rows), len(self.totals.half))
        return self._level_slopes(
            np.broadcast_to(self.totals.middle, shape), np.broadcast_to(self.totals.half, shape)
        )


class KeyMeans(KeyReading):
    """Releases means of numeric columns for keys that nobody has listed; see :func:`tightdp.mean`.

    **Privacy.** As for :class:`KeyTotals`.

    >>> schema = Schema({"pay": Interval(0, 90)}, rows=2000, neighbors="add-remove")
    >>> means = KeyMeans(schema, "pay", "city", epsilon=2, delta=1e-6)
    >>> table = {"city": ["Ulm"] * 1500 + ["Bonn"] * 499 + ["x"], "pay": [30.0] * 2000}
    >>> release = means.release(table)
    >>> bool(abs(release["pay | city=Ulm"] - 30) < 2)
    True
    """

    located = "{} |"

    def _made(
        self, sums: FloatArray, rows: FloatArray, ends: FloatArray, counts: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        low, high = ends[:, :, 0], ends[:, :, 1]
        fewest, most = counts[:, :1], counts[:, 1:]
        edges = [low / np.where(low > 0, most, fewest), high / np.where(high > 0, fewest, most)]
        scaled = np.clip(sums / rows[:, None], -1.0, 1.0)
        found = np.stack([np.clip(edge, -1.0, 1.0) for edge in edges], axis=2)
        half, middle = self.totals.half, self.totals.middle
        return half * scaled + middle, half[:, None] * found + middle[:, None]

    def _slopes(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        scaled = (values - self.totals.middle) / self.totals.half
        each = self.totals.half / rows[:, None]
        return self._level_slopes(-each * scaled, each)
