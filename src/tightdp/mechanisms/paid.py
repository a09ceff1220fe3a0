"""Pay first, then draw, then publish: what mechanisms with a law that depends on data share."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

from tightdp.errors import check_probability, fail
from tightdp.noise.enclosures import float_up
from tightdp.privacy import Guarantee, Neighbors, Numerics
from tightdp.randomness import RandomSource, source
from tightdp.release import Release


class PaidMechanism(ABC):
    """A mechanism that draws its release from a law given by the data.

    Subclasses set ``epsilon`` and ``neighbors`` and say what they release (:attr:`law`), which
    public facts define the request (``_facts``) and how a release is drawn (``_publish``).

    Order of events: parameters are checked at construction, the ledger is charged, the data are
    read, the release is drawn and stored. What fails later stays paid for.
    """

    epsilon: Fraction
    neighbors: Neighbors

    @property
    @abstractmethod
    def law(self) -> str:
        """The exact law of a release, in words."""

    @abstractmethod
    def _facts(self) -> list[str]:
        """Public facts beside the law: equal ones mean the same request. The first is a label."""

    @abstractmethod
    def _publish(
        self, frame: Any, rng: RandomSource, confidence: float, progress: bool
    ) -> dict[str, Any]:
        """Read, draw, and give what a Release needs beside guarantee, confidence and receipt."""

    def guarantee(self, *, seeded: bool = False) -> Guarantee:
        """What a release promises."""
        return Guarantee(
            epsilon=float_up(self.epsilon),  # never less than what is spent
            neighbors=self.neighbors,
            numerics=Numerics.EXACT,
            seeded=seeded,
        )

    def release(
        self,
        frame: Any,
        *,
        ledger: Any = None,
        key: str | None = None,
        confidence: float = 0.95,
        rng: Any = None,
        progress: bool = False,
    ) -> Release:
        """Pay, read the data once, draw, and publish.

        With a ``key`` that the ledger already holds, the stored release comes back and nothing is
        spent; without a key every call is a new release and a new spend.
        """
        level, bits = check_probability("confidence", confidence), source(rng)
        guarantee = self.guarantee(seeded=bits.seeded)
        common: dict[str, Any] = {"guarantee": guarantee, "confidence": level}
        if ledger is None:
            if key is not None:
                fail("`key` needs a `ledger` that remembers it.")
            return Release(**self._publish(frame, bits, level, progress), **common)
        facts = [*self._facts(), self.law, str(level)]
        digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
        with ledger.charge(guarantee, key=key, label=facts[0], fingerprint=digest) as charge:
            if charge.stored is not None:
                return Release.from_dict(charge.stored)
            drawn = self._publish(frame, bits, level, progress)
            release = Release(**drawn, **common, receipt=charge.receipt())
            charge.store(release.to_dict())
        return release
