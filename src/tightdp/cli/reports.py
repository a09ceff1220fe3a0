"""``tightdp report``: the report of a ledger, made again without the table."""

from __future__ import annotations

import argparse

from tightdp.cli.arguments import LEDGER, Commands, argument, command
from tightdp.cli.output import Exit, Speaker


def add(commands: Commands) -> None:
    """Add the command."""
    command(
        commands,
        "report",
        _report,
        "write the report of a ledger again; reads no table and costs nothing",
        LEDGER,
        argument("file", metavar="FILE", nargs="+", help="where to: .html, .md or .json"),
        argument("--title", metavar="TEXT", help="what the report is called"),
        more="Everything that was stored is in it, with intervals, receipts and what is left. The\n"
        "table is not needed, and may be gone.",
        examples="  tightdp report survey.ledger survey.html\n"
        '  tightdp report survey.ledger survey.html survey.json --title "A survey"\n',
    )


def _report(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.paths import check_path
    from tightdp.report import Report, check_format

    for path in given.file:
        check_format(path, (check_path("LEDGER", given.ledger),))
    found = Report.of_ledger(given.ledger, title=given.title)
    for path in given.file:
        found.save(path)
    speaker.say(f"written: {', '.join(given.file)}", {"written": list(given.file)})
    return Exit.DONE
