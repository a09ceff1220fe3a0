"""Seeds for the whole suite: one by default, a sweep on request.

``TIGHTDP_SEED=7`` runs every statistical test with seed 7, ``TIGHTDP_SEED=0-99`` with each of the
seeds 0 to 99. Without the variable the suite is deterministic.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

DEFAULT_SEED = 1729


def requested_seeds(text: str | None) -> list[int]:
    """The seeds named by ``"7"`` or ``"0-99"``; the default one for None or an empty text."""
    if not text:
        return [DEFAULT_SEED]
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


SEEDS = requested_seeds(os.environ.get("TIGHTDP_SEED"))

settings.register_profile("one-seed", deadline=None, derandomize=True)
settings.register_profile("sweep", deadline=None)
settings.load_profile("sweep" if "TIGHTDP_SEED" in os.environ else "one-seed")


@pytest.fixture(scope="session", params=SEEDS, ids=lambda seed: f"seed={seed}")
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of a statistical test."""
    return int(request.param)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go one by one to whoever is free; those in a class ``TestSpark`` to one process.

    One session of Spark is enough. The mark ``xdist_group`` would say the same, but pytest 9.2 has
    taken away the way in which pytest-xdist 3.8 passes it on, without a word.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if "::TestSpark::" in nodeid else nodeid

    return OneSpark(config, log)
