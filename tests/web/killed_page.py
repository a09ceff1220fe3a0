"""``tightdp web`` that kills itself at a point of a release; started by the tests as a program.

``killed_page.py POINT PLAN``: after the payment and before the release is stored (``paid``), or
when it is stored and before anybody was told (``stored``). With ``slow`` it takes its time between
payment and release, and is stopped by others.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from tightdp.cli.main import main
from tightdp.mechanisms import mechanism
from tightdp.release import Release
from tightdp.web import releases


def die(*_: object, **__: object) -> None:
    """As a machine dies: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


def late(*given: Any, **named: Any) -> Release:
    time.sleep(1.5)
    return PUBLISHED(*given, **named)


PUBLISHED = Release.published

if __name__ == "__main__":
    point, plan = sys.argv[1:]
    if point == "paid":
        mechanism.Release.published = die  # type: ignore[method-assign]
    elif point == "slow":
        mechanism.Release.published = late  # type: ignore[method-assign]
    elif point == "stored":
        releases.Report.of_plan = die  # type: ignore[method-assign]
    main(["web", plan, "--no-browser"])
