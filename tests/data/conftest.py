"""Every engine for the tests that ask for one. The helpers of this folder are importable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with ``to_engine`` runs on all of them."""
    if "to_engine" in metafunc.fixturenames:
        from engine_tables import ENGINES  # by those who use it: it needs all engines

        metafunc.parametrize("to_engine", ENGINES, indirect=True)


@pytest.fixture
def to_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function from an Arrow table to the same table on an engine."""
    from engine_tables import ENGINES

    build = ENGINES[request.param]

    def make(table: Any) -> Any:
        return build(table, tmp_path)

    make.kind = request.param  # type: ignore[attr-defined]
    return make
