"""``tightdp web`` that kills itself at a point of a release; started by the tests as a program.

``killed_page.py POINT PLAN``: after the payment and before the release is stored (``paid``), or
when it is stored and before anybody was told (``stored``).
"""

from __future__ import annotations

import os
import signal
import sys

from tightdp.cli.main import main
from tightdp.mechanisms import mechanism
from tightdp.web import releases


def die(*_: object, **__: object) -> None:
    """As a machine dies: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    point, plan = sys.argv[1:]
    if point == "paid":
        mechanism.Release.published = die  # type: ignore[method-assign]
    elif point == "stored":
        releases.Report.of_plan = die  # type: ignore[method-assign]
    main(["web", plan, "--no-browser"])
