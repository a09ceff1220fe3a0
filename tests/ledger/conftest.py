"""Where the ledgers of the tests are kept."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    """Where the ledger is kept."""
    return None if request.param == "memory" else tmp_path / "ledger.db"
