"""The parser of the command line, and the one place where errors become exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version

from tightdp.cli import audits, completion, ledgers, papers, planning, plans, reports, schemas, web
from tightdp.cli import design_commands as designs
from tightdp.cli.arguments import Act, Parser, Wide
from tightdp.cli.output import MEANINGS, Exit, Speaker, code_of, drop_unwritten, flush
from tightdp.errors import PublicFactWarning, TightdpError, fail

_ABOUT = """\
Statistics under differential privacy, with the noise of least error among those that are proved.

From a table to published numbers, without Python:

  tightdp schema init survey.csv      # reads the header, never a cell; fill in schema.toml
  tightdp plan init survey.csv        # writes plan.toml: what to release, what it may cost
  tightdp check plan.toml             # cells that cannot be used; for your eyes only
  tightdp preview plan.toml           # the errors to expect; costs nothing
  tightdp release plan.toml           # pays, releases, remembers: run it again, same numbers
  tightdp report plan.ledger survey.html   # tables and charts, from what the ledger holds
  tightdp web                         # the same in a browser
"""


HOMES = {  # where every command is made, in the order of the help
    "schema": schemas,
    "plan": schemas,
    "check": plans,
    "preview": plans,
    "power": planning,
    "release": plans,
    "report": reports,
    "web": web,
    "compare": audits,
    "audit": audits,
    "kinds": audits,
    "design": designs,
    "verify": designs,
    "ledger": ledgers,
    "reproduce": papers,
    "completion": completion,
}


def _codes() -> str:
    lines = [f"  {int(code):<4} {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["exit codes:", *lines])


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The whole command line, or what is needed of it for the command that the words begin with."""
    top = Parser(
        prog="tightdp",
        description=_ABOUT,
        epilog=_codes(),
        formatter_class=Wide,
        usage="tightdp COMMAND ...",
    )
    top.add_argument("--version", action="version", version=f"tightdp {version('tightdp')}")
    commands = top.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", prog="tightdp"
    )
    asked = [HOMES[word] for word in words[:1] if word in HOMES]
    for module in asked or dict.fromkeys(HOMES.values()):
        module.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code comes back.

    >>> main(["kinds", "median", "--quiet"]).name
    median: the median of a numeric column
      column    (needed) a numeric column
      interval  also release an interval for the sample or population: none, sample, population
      ...
    'DONE'
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    speaker = Speaker(json="--json" in words, quiet="--quiet" in words)
    try:
        code = _act(words, speaker)
        flush()
        return code
    except TightdpError as error:
        code = code_of(error)
        speaker.complain(error, code)
        return code
    except BrokenPipeError:  # the reader has seen enough
        return Exit.DONE
    except Exception as error:
        if os.environ.get("TIGHTDP_TRACEBACK"):
            raise
        # its words may quote cells of the table, so they are not printed
        name = type(error).__name__
        speaker.complain(f"{name}: {MEANINGS[Exit.FAULT]}. Please report it.", Exit.FAULT)
        return Exit.FAULT
    except KeyboardInterrupt:
        speaker.complain(MEANINGS[Exit.INTERRUPTED], Exit.INTERRUPTED)
        return Exit.INTERRUPTED
    finally:
        drop_unwritten()


def _act(words: list[str], speaker: Speaker) -> Exit:
    whole = parser(words)
    given = whole.parse_args(words)
    act: Act | None = getattr(given, "act", None)
    if act is None:
        whole.print_help()
        return Exit.DONE
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: speaker.remark(f"note: {message}")
        try:
            return act(given, speaker)
        except PublicFactWarning as warning:  # filters of the caller make it an error
            fail(str(warning))


def run() -> None:
    """The program."""
    sys.exit(main())
