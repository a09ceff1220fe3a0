"""Keys that nobody has listed, with how many have them: what is safe to show, and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import Answer
from tightdp.data.key_counts import KeyColumn
from tightdp.data.table import check_public_rows
from tightdp.draft import Draft, Known
from tightdp.errors import (
    FloatArray,
    Integers,
    check_choice,
    check_confidence,
    check_count,
    check_most,
    fail,
)
from tightdp.mechanisms.mechanism import Mechanism, warn_of_delta
from tightdp.noise.key_noise import GaussianKeyNoise, KeyNoise
from tightdp.preview import KeysPreview
from tightdp.privacy import Neighbors, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.coordinate_noise import check_share
from tightdp.shaping.shared_costs import most_each

NOISES = ("best", "bounded", "gaussian")
MOST_BOUNDED = 1 << 10  # changes of a person that are composed: Gaussian noise is better by then
MOST_KEYS = 1 << 62  # that may be asked for: more than any table has
_MARKS = (0.01, 0.25, 0.5, 0.75, 0.99)


class PrivateKeys(Mechanism):
    r"""Releases the keys of a column, or of several together, and their noisy counts, each if its
    noisy count is large.

    Nobody lists the keys: those that the table has are looked at, and a key that too few have does
    not appear. With one key a person, under add-remove neighbours, a key appears with the largest
    probability that any (epsilon, delta)-DP release can give it, for every count
    (:class:`~tightdp.noise.key_noise.KeyNoise`).

    **Privacy.**
    Statement: a release is (epsilon, delta)-DP under the neighbour relation of the schema, for one
    person with at most ``rows_per_person`` keys.
    Needs: [P1] a row's key depends on its own cells alone, and a person counts once for each of at
    most m keys, which depend on that person's rows alone; [P2] noises of keys are independent and
    (epsilon', delta')-DP for a change of their count by one, also to and from 0, or (epsilon,
    delta)-DP for all changes together; [P3] what appears is in the order of the keys, and nothing
    else depends on the rows.
    Proof: (1) to add or remove a person changes at most m counts by one [P1]; to replace a row
    takes one from a count and adds one to another: t = m or 2 changes. (2) A key with count 0 never
    appears, so the release is as if every possible text had been looked at, and keys whose count
    stays are drawn alike in both tables [P2, P3]. (3) t independent (epsilon', delta')-DP releases
    are (epsilon, delta)-DP together by the composition theorem, evaluated in integers
    (:mod:`~tightdp.shaping.shared_costs`). (4) To keep the largest of the noisy counts is
    post-processing.
    Numerics: ``exact``.

    Where noise is bounded, the interval of a count that appears holds it with certainty, at every
    level. A key that few have appears only by a high draw: its noisy count is then too large. From
    some keys a person on Gaussian noise hides fewer
    (:class:`~tightdp.noise.key_noise.GaussianKeyNoise`); its intervals hold at their level for as
    many keys as the stated rows can have.

    Parameters
    ----------
    schema : Schema
        Says whose rows they are, and which neighbours; it need not know the column.
    column : str or list of str
        Of texts or numbers; see :func:`~tightdp.values.key_text` for what is a key. Several columns
        make one key of all their cells.
    epsilon : float, Fraction or Decimal
    delta : float, Fraction or Decimal
        Above 0: without it no key could ever appear.
    noise : {"best", "bounded", "gaussian"}
        "best" is the one of the others under which a key that fewer have appears in half of the
        cases.
    most : int, optional
        Only so many keys, those with the largest noisy counts; this costs nothing.

    References
    ----------
    Desfontaines, Voss, Gipson and Mandayam (2022), Differentially private partition selection.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"age": Interval(0, 99)}, rows=2001, neighbors="add-remove")
    >>> keys = PrivateKeys(schema, "city", epsilon=1, delta=1e-6)
    >>> table = {"city": ["Ulm"] * 1500 + ["Bonn"] * 500 + ["one of a kind"]}
    >>> release = keys.release(table)
    >>> set(release.names) == {"city=Bonn", "city=Ulm"}, bool(abs(release["city=Ulm"] - 1500) < 15)
    (True, True)
    """

    why = (
        "Nobody listed the keys, so a key in the release is itself a fact about those who have it. "
        "Noise is added to the count of every key, and a key appears if the noisy count is above "
        "a threshold that the count of one person does not pass, but with probability delta."
    )
    picture = "bars"

    def __init__(
        self,
        schema: Schema,
        column: str | Sequence[str],
        *,
        epsilon: Number,
        delta: Number,
        noise: str = "best",
        most: int | None = None,
    ) -> None:
        self.schema, self.neighbors = check_schema(schema), check_schema(schema).neighbors
        self.epsilon, self.delta = check_epsilon(epsilon), check_share(delta)
        if not self.delta:
            fail("`delta` must be above 0: without it no key that nobody listed could appear.")
        self.keys = KeyColumn(schema, column)
        self.columns = self.keys.columns
        self.most = None if most is None else check_count("most", most, most=MOST_KEYS)
        ends = 2 if self.neighbors is Neighbors.REPLACE_ONE else 1
        self.changes = ends * schema.rows_per_person
        self.noise = self._choose(check_choice("noise", noise, NOISES))

    def _choose(self, name: str) -> KeyNoise | GaussianKeyNoise:
        """What is asked for, or what hides fewer keys; where it has less noise, if they tie."""
        found: list[KeyNoise | GaussianKeyNoise] = []
        if name == "bounded":
            check_most("rows_per_person", self.changes, MOST_BOUNDED, "changes", "use 'gaussian'")
        if name == "bounded" or (name == "best" and self.changes <= MOST_BOUNDED):
            each = most_each(self.epsilon, self.delta, self.changes, lossy=True)
            found.append(KeyNoise.of(*each))
        if name == "gaussian" or (name == "best" and self.changes > 1):  # one key: it is the best
            other = GaussianKeyNoise.of(self.epsilon, self.delta, self.changes)
            found += [] if other is None else [other]
        if not found:
            fail("`noise` 'gaussian' needs a `delta` far below 1 and `epsilon`: use 'bounded'.")
        return min(found, key=lambda noise: (least_count(noise, 0.5), noise.mean_square()))

    @property
    def names(self) -> tuple[str, ...]:
        """What a preview speaks of: the keys themselves are private."""
        return (", ".join(f"{name}=..." for name in self.columns),)

    @property
    def law(self) -> str:
        return self.noise.words

    def label(self) -> str:
        return f"PrivateKeys({', '.join(map(repr, self.columns))})"

    def public_facts(self) -> Schema:
        return self.schema

    def chance(self, count: int) -> float:
        """The probability that a key which so many have appears.

        >>> from tightdp import Interval
        >>> schema = Schema({"x": Interval(0, 1)}, rows=9, neighbors="add-remove")
        >>> keys = PrivateKeys(schema, "city", epsilon=1, delta=1e-6)
        >>> keys.chance(1), round(keys.chance(14), 2), keys.chance(40)
        (1e-06, 0.7, 1.0)
        """
        return float(self.noise.chance(check_count("count", count, least=0)))

    def preview(self, confidence: float = 0.95) -> KeysPreview:
        """How many must have a key for it to appear, and the noise of its count."""
        level, noise = check_confidence(confidence), self.noise
        counts = [1, *(least_count(noise, mark) for mark in _MARKS), noise.steps]
        return KeysPreview(
            self.names,
            np.array([np.sqrt(noise.mean_square())]),
            self.half_widths(level),
            level,
            self.guarantee(),
            self.law,
            certain=noise.ends(np.zeros(0)) is not None,
            chances=tuple((c, float(noise.chance(c))) for c in dict.fromkeys(counts)),
        )

    def half_widths(self, confidence: float) -> FloatArray:
        keys = self.schema.rows * self.schema.rows_per_person  # there are no more
        return np.array([self.noise.half_width(confidence, keys)])

    def check(self, frame: TableLike) -> None:
        self.keys.check(frame)
        check_public_rows(frame, self.schema)
        warn_of_delta(self.delta, self.schema)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.drawn(self.keys.counts(frame, progress=progress), rng, confidence)

    def drawn(
        self, counts: Mapping[str, int], rng: RandomSource, confidence: float = 0.95
    ) -> Draft:
        """A release for exact counts, which are in the order of their keys."""
        shown, noisy = self.shown(list(counts.values()), rng)
        texts = list(counts)
        return self._draft([texts[i] for i in shown], noisy, confidence)

    def shown(self, counts: Sequence[int], rng: RandomSource) -> tuple[Integers, Integers]:
        """Which keys appear, by their places, and their noisy counts."""
        exact = np.array(counts, dtype=np.int64)  # at most as many as rows
        noisy, shows = self.noise.noisy(exact, rng)  # [P2]
        places = np.flatnonzero(shows)
        if self.most is not None and len(places) > self.most:
            largest = np.argsort(-noisy[places], kind="stable")[: self.most]
            places = np.sort(places[largest])
        return places, noisy[places]

    def axis(self, keys: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """The side of a table that has these keys."""
        return ", ".join(self.columns), tuple(key_label(self.keys.parts(key)) for key in keys)

    def key_names(self, keys: Sequence[str]) -> list[str]:
        """What the keys are called, no two alike."""
        return [key_label(self.keys.parts(key), self.columns) for key in keys]

    def _draft(self, keys: list[str], noisy: Integers, confidence: float) -> Draft:
        """Keys in their order [P3], with noisy counts and their intervals."""
        value = noisy.astype(np.float64)
        error = Known(
            half_width=np.broadcast_to(self.half_widths(confidence), value.shape).copy(),
            covariance=np.full(len(value), self.noise.mean_square()),
            ends=self.noise.ends(value),
        )
        axes = (self.axis(keys),) if keys else ()
        return Draft.of(tuple(self.key_names(keys)), value, noisy, 1, error, axes)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The keys that appeared; their intervals are known at every level."""
        level = release.confidence if confidence is None else check_confidence(confidence)
        found = Answer.of(self.at_level(release, level))
        certain = "for certain" if release.ends is not None else "of all keys at once"
        about = f"intervals hold the counts {certain}; keys that few have do not appear"
        return replace(found, about=about)


def least_count(noise: KeyNoise | GaussianKeyNoise, chance: float) -> int:
    """How many must have a key for it to appear with such a probability, by halving."""
    low, high = 0, noise.steps
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if noise.chance(middle) >= chance else (middle + 1, high)
    return low


def key_label(parts: Sequence[str], columns: Sequence[str] = ()) -> str:
    """A key as it is printed; parts of several are quoted where a comma could be one of theirs.

    >>> key_label(["a, b"]), key_label(["Ulm", "a, b"], ["city", "shop"])
    ('a, b', 'city=Ulm, shop="a, b"')
    """
    if len(parts) > 1:
        parts = [
            json.dumps(part, ensure_ascii=False) if "," in part or part.startswith('"') else part
            for part in parts
        ]
    if columns:
        parts = [f"{name}={part}" for name, part in zip(columns, parts, strict=True)]
    return ", ".join(parts)
