"""Proving a design again from its file, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from tightdp.design import (
    composed_verifier,
    exact_numbers,
    radial_bound,
    range_verifier,
    vector_verifier,
    verifier,
)
from tightdp.design.exact_numbers import Refuted
from tightdp.privacy import text_down, text_up

_VERIFIERS: dict[str, Any] = {
    composed_verifier.FORMAT: composed_verifier,
    range_verifier.FORMAT: range_verifier,
    radial_bound.FORMAT: radial_bound,
    **dict.fromkeys(vector_verifier.FORMATS.values(), vector_verifier),
}


class Proved(NamedTuple):
    """What the numbers of a file prove, and what they rest on."""

    epsilon: Fraction
    delta: Fraction
    lower: Fraction
    upper: Fraction
    note: str = ""

    def __str__(self) -> str:
        spent = f"epsilon {text_up(self.epsilon)}, delta {text_up(self.delta)}"
        bounds = f"[{text_down(self.lower)}, {text_up(self.upper)}]"
        return f"proved. {spent}; least loss in {bounds}" + (
            f"\n  {self.note}" if self.note else ""
        )


def prove(text: str) -> Proved:
    """Prove the design in a JSON text again, without a solver; :class:`Refuted` if it cannot be.

    Examples
    --------
    >>> from tightdp import design_noise, design_planar_noise
    >>> print(prove(design_noise(epsilon=1.0, delta=0.25).certificate.to_json()))
    proved. epsilon 1, delta 0.25; least loss in [0.5..., 0.5...]
    >>> plane = design_planar_noise(epsilon=1.0, delta=0.3, ball="linf", resolution=2)
    >>> prove(plane.to_json()).delta
    Fraction(3, 10)
    """
    try:
        document = exact_numbers.read(text)
    except ValueError:
        raise Refuted("no complete JSON text") from None
    name = str(document.get("format")) if isinstance(document, dict) else ""
    proof = _VERIFIERS.get(name, verifier)
    lower, upper = proof.verify(document)
    epsilon, delta = (exact_numbers.rational(document[name]) for name in ("epsilon", "delta"))
    return Proved(epsilon, delta, lower, upper, proof.rests_on(document))


def main(paths: Sequence[str]) -> int:
    """Prove files; 0 when all are proved."""
    failed = 0
    for path in paths:
        try:
            print(f"{path}: {prove(Path(path).read_text(encoding='utf-8'))}")
        except (OSError, UnicodeDecodeError, Refuted) as reason:
            failed += 1
            print(f"{path}: REFUTED: {reason}")
    return 1 if failed or not paths else 0
