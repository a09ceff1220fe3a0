"""What the commands share: help that shows examples, and the options of every command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from tightdp.accepted import PathLike
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import check_choice, fail
from tightdp.paths import check_target, write_whole

Act = Callable[[argparse.Namespace, Speaker], Exit]
Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # to which a command is added


class Argument(NamedTuple):
    """An argument of a command, as ``add_argument`` takes it."""

    flags: tuple[str, ...]
    options: dict[str, Any]


def argument(*flags: str, **options: object) -> Argument:
    """An argument: its flags, and its options."""
    return Argument(flags, options)


PLAN = argument("plan", metavar="PLAN", help="the plan, a TOML file")
LEDGER = argument("ledger", metavar="FILE", help="the file of the ledger")
TABLE = argument(
    "data",
    metavar="FILE",
    help="a text, Parquet or Excel file, a folder of Parquet, or an address: sqlite:///F?table=T",
)
ONLY = argument("--release", metavar="NAME", action="append", help="only this one")
FORCE = argument("--force", action="store_true", help="write over a file that is there")


class Wide(argparse.RawDescriptionHelpFormatter):
    """Help as it is written, with room for long options."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"max_help_position": 28, "width": 100} | more)

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        lines = [f"  {item.dest:<12}{item.help}\n" for item in action._choices_actions]
        return "".join(lines)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, with a remedy."""

    def error(self, message: str) -> NoReturn:
        fail(f"{message}. See: {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None:
            check_choice(action.metavar or action.dest, value, list(action.choices))  # type: ignore[arg-type]


def command(
    commands: Commands,
    name: str,
    act: Act | None,
    about: str,
    *arguments: Argument,
    more: str = "",
    examples: str = "",
) -> argparse.ArgumentParser:
    """A command with its arguments and its help: a line, an explanation, examples."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description="\n\n".join(filter(None, [f"{about[0].upper()}{about[1:]}.", more])),
        epilog=f"examples:\n{examples}" if examples else "",
        formatter_class=Wide,
        allow_abbrev=False,
    )
    if act is not None:
        made.set_defaults(act=act)
        made.add_argument("--json", action="store_true", help="print one JSON document")
        made.add_argument("--quiet", action="store_true", help="no remarks, no progress bars")
    for each in arguments:
        made.add_argument(*each.flags, **each.options)
    return made


def group(commands: Commands, name: str, about: str) -> Commands:
    """A command that has commands."""
    made = command(commands, name, None, about)

    def show_help(given: argparse.Namespace, speaker: Speaker) -> Exit:
        made.print_help()
        return Exit.WRONG

    made.set_defaults(act=show_help)
    return made.add_subparsers(title="commands", metavar="COMMAND", dest=f"{name}_command")


def write_file(path: PathLike, text: str, *, force: bool) -> Path:
    """Write a file whole or not at all; one that is there stays, unless forced."""
    return write_whole("--out", check_out(path, force=force), text)


def check_out(path: PathLike, *, force: bool) -> Path:
    """A file that may be written: not there yet, or forced; never a ledger."""
    place = check_target("--out", path)
    if place.exists() and not force:
        fail(f"{str(place)!r} is there already: name another file, or say --force.")
    return place
