"""Who computes a release now: enough to tell a dead process from a busy one, no more.

A wrong answer costs a wait or a clearer message, never a release: nothing here guards the budget.
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from pathlib import Path


def this_process() -> str:
    """Machine, process id and start of the process.

    >>> is_alive(this_process())
    True
    """
    return _name(os.getpid())


@lru_cache(maxsize=1)
def _name(pid: int) -> str:
    return f"{platform.node()}/{pid}/{_facts(pid)[1]}"


def is_alive(owner: str) -> bool:
    """Whether the process may still be at work; on other machines the answer is yes."""
    try:
        node, number, start = owner.rsplit("/", 2)
        pid = int(number)
    except ValueError:
        return False
    if node != platform.node() or os.name != "posix" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)  # asks, sends nothing
    except ProcessLookupError:
        return False
    except OSError:
        pass
    state, started = _facts(pid)
    return state not in ("Z", "X") and (not start or not started or start == started)


def _facts(pid: int) -> tuple[str, str]:
    """State and start time (ticks since boot) of a process where the system tells them."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[19]
    except (OSError, IndexError):
        return "", ""
