"""What a design proves, as a document of integers and rationals that stands on its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tightdp.design import exact_numbers, verifier
from tightdp.design.losses import Loss
from tightdp.design.problem import NoiseProblem
from tightdp.errors import ParameterError, UndecidedError, fail
from tightdp.noise.lattice_laws import DiscreteStaircase
from tightdp.noise.line_laws import Staircase, TruncatedLaplace
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.table_noise import TableNoise
from tightdp.privacy import float_up, text_down, text_up

DesignedNoise = PiecewiseNoise | TableNoise | Staircase | DiscreteStaircase | TruncatedLaplace


class Certificate:
    r"""A proof that a noise is private and how far it can be from the best.

    **Privacy.**
    Statement: the noise of the document is (epsilon, delta)-DP for a statistic that moves by at
    most the sensitivity, has the expected loss ``upper``, and no such noise has less than
    ``lower``.
    Needs: what :class:`~tightdp.noise.piecewise.PiecewiseNoise` needs; a loss given as a function
    rests on its author's promise.
    Proof: :meth:`verify` checks the inequalities listed in :mod:`tightdp.design.verifier` in
    rational arithmetic, from the document alone; the solver that found the numbers is not trusted.
    References: Selvi and others (2025), Theorem 1; the lattice lower bound and the atom are
    additions.

    Examples
    --------
    >>> import tightdp
    >>> certificate = tightdp.design_noise(epsilon=1.0, delta=0.25).certificate
    >>> certificate.verify()
    True
    >>> damaged = Certificate({**certificate.document, "lower": "1/2"})
    >>> damaged.verify()
    False
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = dict(document)

    @classmethod
    def seal(cls, document: Mapping[str, Any]) -> Certificate:
        """A certificate with its checksum."""
        return cls({**document, "sha256": verifier.digest(document)})

    # --- what it says -------------------------------------------------------------------------

    @property
    def upper(self) -> Fraction:
        """The expected loss of the noise."""
        return Fraction(self.document["upper"])

    @property
    def lower(self) -> Fraction:
        """What no noise can beat."""
        return Fraction(self.document["lower"])

    @property
    def gap(self) -> float:
        """(upper - lower) / lower, rounded up; infinite when the lower bound is not positive."""
        return relative_gap(self.lower, self.upper)

    def verify(self) -> bool:
        """Whether the document proves what it states; no solver and no float takes part."""
        return self.reason() is None

    def reason(self) -> str | None:
        """Why the document is refuted; None when it is proved."""
        try:
            verifier.verify(self.document)
        except exact_numbers.Refuted as refuted:
            return str(refuted)
        return None

    # --- other forms --------------------------------------------------------------------------

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.document, sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate in a text; refuses a text that does not prove what it states."""
        try:
            document = exact_numbers.read(text)
        except exact_numbers.Refuted as refuted:
            fail(f"The certificate is refuted: {refuted}.", UndecidedError)
        except ValueError:
            fail("The certificate is no complete JSON text. Get a fresh copy.", ParameterError)
        if not isinstance(document, dict):
            fail("The certificate must be a JSON object.", ParameterError)
        certificate = cls(document)
        reason = certificate.reason()
        if reason is not None:
            fail(f"The certificate is refuted: {reason}.", UndecidedError)
        return certificate

    def rescaled(self, sensitivity: Fraction, factor: Fraction) -> Certificate:
        """The same proof in another unit of length, for a loss that scales by ``factor``."""
        proof = dict(self.document["proof"])
        proof["unit"] = str(Fraction(proof["unit"]) * factor)
        parts = {name: part for name, part in self.document.items() if name != "sha256"}
        return Certificate.seal(
            {
                **parts,
                "sensitivity": str(sensitivity),
                "proof": proof,
                "upper": str(self.upper * factor),
                "lower": str(self.lower * factor),
            }
        )

    def problem(self) -> NoiseProblem:
        """The question that was answered."""
        doc, sides = self.document, self.document["constraints"]
        second = sides["second_loss"]
        return NoiseProblem(
            epsilon=Fraction(doc["epsilon"]),
            delta=Fraction(doc["delta"]),
            sensitivity=Fraction(doc["sensitivity"]),
            loss=_loss(doc["loss"]),
            integer=doc["integer"],
            monotone=sides["monotone"],
            symmetric=sides["symmetric"],
            support=None if sides["support"] is None else Fraction(sides["support"]),
            second=None if second is None else (_loss(second["loss"]), Fraction(second["bound"])),
        )

    def noise(self) -> DesignedNoise:
        """The law, ready to draw from."""
        doc, noise = self.document, self.document["noise"]
        epsilon, sensitivity = Fraction(doc["epsilon"]), Fraction(doc["sensitivity"])
        if doc["kind"] == "staircase":
            if doc["integer"]:
                steps = int(sensitivity)
                return DiscreteStaircase(epsilon=epsilon, sensitivity=steps, core=noise["core"])
            share = float(Fraction(noise["core_share"]))
            return Staircase(epsilon=epsilon, sensitivity=sensitivity, core_share=share)
        if doc["kind"] == "truncated-laplace":
            delta = _not_above(Fraction(doc["delta"]))
            return TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
        if doc["integer"]:
            return TableNoise(
                noise["weights"],
                start=noise["start"],
                epsilon=epsilon,
                sensitivity=int(sensitivity),
            )
        return PiecewiseNoise(
            noise["weights"],
            start=noise["start"],
            cell_width=sensitivity / noise["cells"],
            epsilon=epsilon,
            sensitivity=sensitivity,
            atom=noise["atom"],
        )

    def __repr__(self) -> str:
        return f"Certificate(lower={text_down(self.lower)}, upper={text_up(self.upper)})"


def relative_gap(lower: Fraction, upper: Fraction) -> float:
    """(upper - lower) / lower, rounded up; 0 when the loss vanishes, which nothing can beat."""
    if upper <= max(lower, Fraction(0)):
        return 0.0
    return float_up((upper - lower) / lower) if lower > 0 else math.inf


def _not_above(delta: Fraction) -> float:
    """The nearest float, or the one before it where that stands for more (0.1 means 1/10)."""
    near = float(delta)
    return near if Fraction(repr(near)) <= delta else math.nextafter(near, 0.0)


def _loss(description: dict[str, Any]) -> Loss:
    name = str(description.get("name", description["kind"]))
    return Loss(name, description)
