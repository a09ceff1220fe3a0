"""Every mechanism and estimator says what it promises, to whom, and why."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import tightdp
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.mechanisms.mechanism import Mechanism

WORDS = {
    "the statement": r"epsilon-DP|\(epsilon, delta\)-DP|-DP\b",
    "the neighbours": r"neighbour|replace-one|add-remove",
    "the proof": r"[Pp]roof",
    "how far the proof reaches": r"Numerics|numerics",
}
REFERENCE = re.compile(r":class:`")  # what it does not say is said there


def promises() -> dict[str, str]:
    """Docstrings of all classes that are public, or that nothing is derived from."""
    for module in pkgutil.walk_packages(tightdp.__path__, "tightdp."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, str] = {}
    todo: list[type] = [Mechanism, PrivateEstimator]
    while todo:
        kind = todo.pop()
        derived = [c for c in kind.__subclasses__() if c.__module__.startswith("tightdp.")]
        todo += derived
        public = getattr(tightdp, kind.__name__, None) is kind
        if public or not derived:
            found[f"{kind.__module__}.{kind.__name__}"] = inspect.cleandoc(kind.__doc__ or "")
    return found


def silent_about(text: str) -> list[str]:
    """What a docstring does not say about privacy, neither itself nor by reference."""
    _, heading, section = text.partition("**Privacy.**")
    if not heading:
        return ["privacy at all"]
    section = re.split(r"\n(?:Parameters|Examples)\n-", section)[0]
    if REFERENCE.search(section):
        return []
    return [what for what, words in WORDS.items() if not re.search(words, section)]


def test_promises_have_statement_neighbours_and_proof():
    found = promises()
    assert len(found) > 35
    assert {name: silent for name, text in found.items() if (silent := silent_about(text))} == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Noise.", "privacy at all"),
        ("**Privacy.** Trust us: replace-one. Proof: easy. Numerics: exact.", "the statement"),
        ("**Privacy.** It is epsilon-DP. Proof: easy. Numerics: exact.", "the neighbours"),
        ("**Privacy.** It is epsilon-DP under replace-one. Numerics: exact.", "the proof"),
    ],
)
def test_a_planted_silence_is_caught(text, missing):
    assert silent_about(text) == [missing]
