"""``tightdp reproduce``: the figures and tables of the papers, with corrected mathematics.

What computes them is the folder ``reproduce`` of the repository, which is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from tightdp.cli.arguments import Commands, argument, command
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import MissingDependencyError, check_choice, fail
from tightdp.printed import text_facts


def add(commands: Commands) -> None:
    """Add the command."""
    command(
        commands,
        "reproduce",
        _reproduce,
        "reproduce figures and tables of the papers",
        argument("name", metavar="FIGURE", nargs="*", help="names of figures, or `all`"),
        argument("--quick", action="store_true", help="minutes, with a larger error"),
        argument("--out", metavar="FOLDER", default="reproduced", help="by default reproduced"),
        more="Writes pictures and numbers, each beside what the paper says. Without a name it\n"
        "lists what there is. A full run that was stopped is continued by running it again.\n"
        "Needs the folder `reproduce` of a clone of the repository.",
        examples="  tightdp reproduce\n"
        "  tightdp reproduce all --quick\n"
        "  tightdp reproduce knorm-figure-6 --quick --out figures\n",
    )


def _reproduce(given: argparse.Namespace, speaker: Speaker) -> Exit:
    papers = _papers()
    experiments = papers.EXPERIMENTS
    for name in given.name:
        check_choice("FIGURE", name, ["all", *experiments])
    if not given.name:
        known = {name: f"{item.title} ({item.source})" for name, item in experiments.items()}
        speaker.say("\n".join(text_facts(known.items())), {"figures": known})
        return Exit.DONE
    found = papers.reproduce(given.name, given.quick, Path(given.out), progress=speaker.bars)
    speaker.say("\n\n".join(map(str, found)), {"results": [result.to_dict() for result in found]})
    return Exit.DONE if all(result.ok for result in found) else Exit.NO


def _papers() -> Any:
    """The package ``reproduce`` of a clone: of the one that is installed, or of that in which the
    command is run."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        inside = (root / "reproduce" / "registry.py", root / "src" / "tightdp" / "cli")
        if all(path.exists() for path in inside):
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module("reproduce")
    fail(
        "`tightdp reproduce` needs the folder `reproduce` of the repository, which is not part of "
        "the installed package. Clone the repository and run the command there.",
        MissingDependencyError,
    )
