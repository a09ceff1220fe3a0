"""``python -m tightdp.cli``: the command, where the script is not on the path."""

from __future__ import annotations

from tightdp.cli.main import run

if __name__ == "__main__":
    run()
