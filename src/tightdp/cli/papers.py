"""``tightdp reproduce``: the figures and tables of the papers, with corrected mathematics."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tightdp.cli.arguments import command
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import check_choice


def add(commands: Any) -> None:
    """Add the command."""
    made = command(
        commands,
        "reproduce",
        _reproduce,
        "reproduce figures and tables of the papers",
        more="Writes pictures and numbers, each beside what the paper says. Without a name it\n"
        "lists what there is. A full run that was stopped is continued by running it again.",
        examples="  tightdp reproduce\n"
        "  tightdp reproduce all --quick\n"
        "  tightdp reproduce knorm-figure-6 --quick --out figures\n",
    )
    made.add_argument("name", metavar="FIGURE", nargs="*", help="names of figures, or `all`")
    made.add_argument("--quick", action="store_true", help="minutes, with a larger error")
    made.add_argument("--out", metavar="FOLDER", default="reproduced", help="by default reproduced")


def _reproduce(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.experiments import reproduce
    from tightdp.experiments.registry import EXPERIMENTS

    for name in given.name:
        check_choice("FIGURE", name, ["all", *EXPERIMENTS])
    if not given.name:
        known = {name: f"{item.title} ({item.source})" for name, item in EXPERIMENTS.items()}
        width = max(map(len, known))
        speaker.say("\n".join(f"{n:{width}}  {t}" for n, t in known.items()), {"figures": known})
        return Exit.DONE
    found = reproduce(given.name, given.quick, Path(given.out), progress=speaker.bars)
    speaker.say("\n\n".join(map(str, found)), {"results": [result.to_dict() for result in found]})
    return Exit.DONE if all(result.ok for result in found) else Exit.NO
