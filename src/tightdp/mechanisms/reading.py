"""A mechanism that pays for and draws what another one does, and reads more off its releases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from tightdp.accepted import TableLike
from tightdp.data.shared_pass import IntegerSum
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.randomness import RandomSource
from tightdp.release import Draft, Release


class Reading(Mechanism):
    """Base: the release is that of ``source``; previews and answers are the subclass's own.

    **Privacy.** As for the source: what is read off a release, and public facts, costs nothing.

    The request that a ledger remembers is the source's: readings that differ only in what they make
    of a release share it, and the second one is free.
    """

    @property
    @abstractmethod
    def source(self) -> Mechanism:
        """What is paid for and draws."""

    def _take_price(self) -> None:
        """Promise what the source promises; to be called when it is made."""
        source = self.source
        self.epsilon, self.delta = source.epsilon, source.delta
        self.neighbors, self.numerics = source.neighbors, source.numerics

    @property
    def law(self) -> str:
        return self.source.law

    def label(self) -> str:
        return self.source.label()

    def fingerprint(self, confidence: float = 0.95) -> str:
        return self.source.fingerprint(confidence)

    def at_level(self, release: Release, confidence: float) -> Release:
        return self.source.at_level(release, confidence)

    def check(self, frame: TableLike) -> None:
        self.source.check(frame)

    def integer_sums(self) -> Sequence[IntegerSum]:
        return self.source.integer_sums()

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        return self.source.prepare(rng, confidence)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.source.draw(frame, rng, confidence, progress)
