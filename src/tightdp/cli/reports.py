"""``tightdp report``: the report of a ledger, made again without the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from tightdp.cli.arguments import LEDGER, Commands, argument, command
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import fail


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
        "table is not needed, and may be gone. A plan stands for the ledger that it names.",
        examples="  tightdp report survey.ledger survey.html\n"
        '  tightdp report survey.ledger survey.html survey.json --title "A survey"\n',
    )


def _report(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.paths import check_path
    from tightdp.report import Report, check_format

    named = check_path("LEDGER", given.ledger)
    ledger = _ledger_of(named) if named.suffix.lower() == ".toml" else named
    for path in given.file:
        check_format(path, (named, ledger))
    found = Report.of_ledger(ledger, title=given.title)
    for path in given.file:
        found.save(path)
    speaker.say(f"written: {', '.join(given.file)}", {"written": list(given.file)})
    return Exit.DONE


def _ledger_of(plan: Path) -> Path:
    """The ledger that a plan names; neither its table nor its schema is looked at."""
    from tightdp.plans.lines import read_text

    text = read_text(plan)
    budget = text.record.get("budget")
    name = budget.get("ledger") if isinstance(budget, dict) else None
    if not isinstance(name, str):
        fail(f"{text.where('budget')}: the plan names no `ledger` whose report could be made.")
    return plan.parent / name
