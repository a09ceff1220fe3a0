"""Commands that read a plan and its table: check, preview and release."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tightdp.cli.arguments import PLAN, Commands, argument, command
from tightdp.cli.output import MEANINGS, Exit, PaidError, Speaker
from tightdp.errors import PublicFactWarning, TightdpError, check_choice, fail
from tightdp.paths import check_file
from tightdp.plans.payments import paid_since
from tightdp.plans.plan import Plan
from tightdp.printed import text_facts
from tightdp.privacy import text_down, text_up

_MOST = 24  # entries of a release on the screen; --json and --report have all
_WHOLE = (
    "The plan is checked whole first; what is wrong is said with its line, and nothing is spent."
)

_STATES = {
    "stored": "paid for already, free from now on",
    "burned": "paid for and lost, no answer without another key and a new payment",
    "pending": "paid for, in progress elsewhere or lost there",
}

_PREVIEW = (
    argument(
        "--error",
        metavar="NAME=SIZE",
        action="append",
        default=[],
        help="the epsilon for which all entries of a release are within SIZE (of a quantile: so "
        "many ranks, as in 30ranks); may be repeated",
    ),
    argument(
        "--assume-rows",
        action="store_true",
        help="with --error: the rows are such as the preview says it assumes",
    ),
    argument("--sample", metavar="FILE", help="simulate on tables drawn from these PUBLIC rows"),
    argument(
        "--replicates", metavar="N", type=int, default=100, help="simulations; by default 100"
    ),
)
_RELEASE = (
    argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="also write a report: .html (one file, no network), .md or .json; may be repeated",
    ),
    argument(
        "--one-pass",
        action="store_true",
        help="read the table once for all sums, counts, means, histograms and least squares; they "
        "are all paid for before, and a run that is killed while it pays or reads loses them",
    ),
)


def add(commands: Commands) -> None:
    """Add the commands."""
    command(
        commands,
        "check",
        _check,
        "count cells that the schema cannot take as they are: for your eyes only",
        PLAN,
        more="Reads the private table once. What it prints is NOT PRIVATE, is stored nowhere,\n"
        "and must not be published: how many cells of each column are missing, unreadable (texts\n"
        "that are no number as the schema writes them), clamped to a bound, or no level. Releases\n"
        "say nothing of such cells.",
        examples="  tightdp check plan.toml\n",
    )
    command(
        commands,
        "preview",
        _preview,
        "print the errors to expect from a plan; costs nothing",
        PLAN,
        *_PREVIEW,
        more="Errors are those of the noise, from public facts alone: no row is read. Sampling\n"
        f"error and clamping are not included.\n\n{_WHOLE}",
        examples="  tightdp preview plan.toml\n"
        '  tightdp preview plan.toml --error "means=0.5"       # which epsilon gives that error?\n'
        "  tightdp preview plan.toml --sample public.csv       # simulate on public rows\n",
    )
    command(
        commands,
        "release",
        _release,
        "pay for the releases of a plan, and print them",
        PLAN,
        *_RELEASE,
        more="What the ledger holds already is printed again and costs nothing: running a plan\n"
        "twice spends once and prints the same numbers, also if the first run was killed. A\n"
        "release that was killed between its payment and its storage is lost, and said to be:\n"
        f"give it another key in the plan to pay for it once more.\n\n{_WHOLE}",
        examples="  tightdp release plan.toml\n"
        "  tightdp release plan.toml --report survey.html --report survey.json\n"
        "  tightdp release plan.toml --json | jq '.answers[0].value'\n",
    )


# --- preview -------------------------------------------------------------------------------------


def _check(given: argparse.Namespace, speaker: Speaker) -> Exit:
    if speaker.json:
        fail("`--json`: what a check says is for eyes, not for files. Leave it out.")
    plan = Plan.read(given.plan)
    speaker.say(plan.check(progress=speaker.bars), None)
    return Exit.DONE


def _preview(given: argparse.Namespace, speaker: Speaker) -> Exit:
    plan = Plan.read(given.plan)
    needed, answers = _needed(plan, given.error, given.assume_rows) if given.error else ("", {})
    if given.sample is not None:
        check_file("--sample", given.sample)
    with _watched(speaker, len(plan.releases)) as watch:
        found = plan.preview(sample=given.sample, replicates=given.replicates, watch=watch)
    states = plan.states()
    text = f"{found}\n\n{needed}" if needed else str(found)
    speaker.say(text, found.to_dict() | {"states": states} | answers)
    for state, words in _STATES.items():
        names = [f"{name} ({state})" for name, found in states.items() if found == state]
        if names:
            speaker.remark(f"{words}: {', '.join(names)}")
    for reason in plan.refusals().values():
        speaker.remark(f"will be refused: {reason}")
    return Exit.DONE


def _needed(plan: Plan, wishes: list[str], assume_rows: bool) -> tuple[str, dict[str, Any]]:
    """The epsilon that every wished error asks for, and shares of the budget that serve all."""
    from tightdp.accuracy import epsilon_for
    from tightdp.budget_split import split_budget

    asked = {name: (unit, size) for name, unit, size in (_wish(plan, wish) for wish in wishes)}
    common: dict[str, Any] = {"confidence": plan.confidence, "assume_rows": assume_rows}
    needed = {
        name: epsilon_for(plan[name].request, **common | {unit: size})
        for name, (unit, size) in asked.items()
    }
    record: dict[str, Any] = {"needed": needed}
    lines = text_facts((name, f"epsilon = {text_up(value)}") for name, value in needed.items())
    if len(needed) == len(plan.releases) > 1:
        split = split_budget(
            {name: plan[name].request for name in needed},
            **plan.caps_stated(),
            errors={name: size for name, (unit, size) in asked.items() if unit == "error"},
            ranks={name: size for name, (unit, size) in asked.items() if unit == "ranks"},
            **common,
        )
        lines += [
            "",
            f"The budget of {text_down(plan.caps.amount)}, shared to serve all:",
            str(split),
        ]
        record["split"] = {
            "epsilon": split.epsilon, "ratio": split.ratio, "needed": split.needed,
        }  # fmt: skip
    return "\n".join(["The epsilon that each wished error asks for:", *lines]), record


def _wish(plan: Plan, text: str) -> tuple[str, str, float]:
    """The release, whether its error is in its own unit or in ranks, and the error."""
    name, _, size = text.rpartition("=")
    unit = "ranks" if size.endswith("ranks") else "error"
    if not name:
        fail(f"`--error` must be NAME=SIZE, with the name of a release. Got {text!r}.")
    try:
        return plan[name.strip()].name, unit, float(size.removesuffix("ranks"))
    except ValueError:
        check_choice("--error", name.strip(), [planned.name for planned in plan.releases])
        fail(f"`--error` must end with a number, or a number of ranks (30ranks). Got {text!r}.")


@contextmanager
def _watched(speaker: Speaker, count: int) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar that moves with every release, for people who wait."""
    if not speaker.bars:
        yield None
        return
    from tightdp.progress import progress_bar

    with progress_bar(count, "releases", show=True) as step:

        def watch(name: str, number: int, total: int) -> None:
            step(1 if number > 1 else 0)

        yield watch


# --- release -------------------------------------------------------------------------------------


def _release(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.report import Report, check_format
    from tightdp.report.report import rows_file
    from tightdp.report.sections import makes_rows

    for path in given.report:
        check_format(path)
    plan = Plan.read(given.plan)
    rows = [part.name for part in plan.releases if makes_rows(part.request.mechanism)]
    for path in given.report:
        check_format(path, plan.files, rows)
    with _after_payment(plan), _terminable():
        with _watched(speaker, len(plan.releases)) as watch:
            found = plan.release(one_pass=given.one_pass, progress=speaker.bars, watch=watch)
        try:  # reports first: a reader who has seen enough, such as `head`, ends the printing
            if given.report:
                report = Report.of_plan(plan, found)
                for path in given.report:
                    report.save(path)
        except BaseException:
            if not speaker.json:  # there the error is the one document
                speaker.say(found.text(_MOST), None)
            raise
        speaker.say(found.text(_MOST), found.to_dict())
    for path in given.report:
        made = [rows_file(path, name) for name in rows if name in found.answers]
        speaker.remark(f"written: {', '.join(map(str, [path, *made]))}")
    for name in found.lost:
        speaker.remark(f"tightdp: {name!r} has no answer: see above.")
    return Exit.NO if found.lost else Exit.DONE


@contextmanager
def _after_payment(plan: Plan) -> Iterator[None]:
    """Says of whatever comes after a payment what was spent, what was lost, and what to do."""
    before = plan.states()
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has seen enough
    except (Exception, KeyboardInterrupt) as error:
        paid = paid_since(plan, before, "run the command again")
        if os.environ.get("TIGHTDP_TRACEBACK") or not paid:
            raise
        # words of others may quote cells of the table
        what = f"{type(error).__name__}: {MEANINGS[Exit.FAULT]}."
        if isinstance(error, KeyboardInterrupt):
            what = "Interrupted."
        elif isinstance(error, (TightdpError, PublicFactWarning)):
            what = str(error)
        fail(f"{what} {paid}", PaidError)


@contextmanager
def _terminable() -> Iterator[None]:
    """A request to terminate interrupts as Ctrl-C does, so that what was paid for is said."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
