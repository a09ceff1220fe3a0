"""Commands that read a plan: preview, release, compare, audit; and the kinds of releases."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tightdp.cli.arguments import Commands, command
from tightdp.cli.audits import audit_function, audit_plan
from tightdp.cli.output import MEANINGS, Exit, PaidError, Speaker
from tightdp.errors import TightdpError, check_choice, fail
from tightdp.paths import check_file
from tightdp.plans.plan import Plan
from tightdp.privacy import text_down, text_up
from tightdp.tables import text_facts

_MOST = 24  # entries of a release on the screen; --json and --report have all
_WHOLE = (
    "The plan is checked whole first; what is wrong is said with its line, and nothing is spent."
)

_STATES = {
    "stored": "paid for already, free from now on",
    "burned": "paid for and lost, no answer without another key and a new payment",
    "pending": "paid for, in progress elsewhere or lost there",
}


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_check(commands)
    _add_preview(commands)
    _add_release(commands)
    _add_compare(commands)
    _add_audit(commands)
    kinds = command(
        commands,
        "kinds",
        _kinds,
        "list the kinds of releases that a plan can ask for",
        examples="  tightdp kinds\n  tightdp kinds linear_regression\n",
    )
    kinds.add_argument("kind", metavar="KIND", nargs="?", help="one kind, with all its keys")


def _add_check(commands: Commands) -> None:
    made = command(
        commands,
        "check",
        _check,
        "count cells that the schema cannot take as they are: for your eyes only",
        more="Reads the private table once. What it prints is NOT PRIVATE, is stored nowhere,\n"
        "and must not be published: how many cells of each column are missing, unreadable (texts\n"
        "that are no number as the schema writes them), clamped to a bound, or no level. Releases\n"
        "say nothing of such cells.",
        examples="  tightdp check plan.toml\n",
    )
    made.add_argument("plan", metavar="PLAN", help="the plan, a TOML file")


def _add_preview(commands: Commands) -> None:
    made = command(
        commands,
        "preview",
        _preview,
        "print the errors to expect from a plan; costs nothing",
        more="Errors are those of the noise, from public facts alone: no row is read. Sampling\n"
        f"error and clamping are not included.\n\n{_WHOLE}",
        examples="  tightdp preview plan.toml\n"
        '  tightdp preview plan.toml --error "means=0.5"       # which epsilon gives that error?\n'
        "  tightdp preview plan.toml --sample public.csv       # simulate on public rows\n",
    )
    made.add_argument("plan", metavar="PLAN", help="the plan, a TOML file")
    made.add_argument(
        "--error",
        metavar="NAME=SIZE",
        action="append",
        default=[],
        help="the epsilon for which all entries of a release are within SIZE (of a quantile: so "
        "many ranks, as in 30ranks); may be repeated",
    )
    made.add_argument(
        "--assume-rows",
        action="store_true",
        help="with --error: the rows are such as the preview says it assumes",
    )
    made.add_argument(
        "--sample", metavar="FILE", help="simulate on tables drawn from these PUBLIC rows"
    )
    made.add_argument(
        "--replicates", metavar="N", type=int, default=100, help="simulations; by default 100"
    )


def _add_release(commands: Commands) -> None:
    made = command(
        commands,
        "release",
        _release,
        "pay for the releases of a plan, and print them",
        more="What the ledger holds already is printed again and costs nothing: running a plan\n"
        "twice spends once and prints the same numbers, also if the first run was killed. A\n"
        "release that was killed between its payment and its storage is lost, and said to be:\n"
        f"give it another key in the plan to pay for it once more.\n\n{_WHOLE}",
        examples="  tightdp release plan.toml\n"
        "  tightdp release plan.toml --report survey.html --report survey.json\n"
        "  tightdp release plan.toml --json | jq '.answers[0].value'\n",
    )
    made.add_argument("plan", metavar="PLAN", help="the plan, a TOML file")
    made.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="also write a report: .html (one file, no network), .md or .json; may be repeated",
    )
    made.add_argument(
        "--one-pass",
        action="store_true",
        help="read the table once for all sums, counts, means, histograms and least squares; they "
        "are all paid for before, and a run that is killed while it reads loses them all",
    )


def _add_compare(commands: Commands) -> None:
    made = command(
        commands,
        "compare",
        _compare,
        "print the errors that other shapes of noise would have",
        more="For every release of a plan that has a choice of noise; all promise the same.",
        examples='  tightdp compare plan.toml\n  tightdp compare plan.toml --release "means"\n',
    )
    made.add_argument("plan", metavar="PLAN", help="the plan, a TOML file")
    made.add_argument("--release", metavar="NAME", action="append", help="only this one")


def _add_audit(commands: Commands) -> None:
    made = command(
        commands,
        "audit",
        _audit,
        "try to refute the guarantee of a mechanism, from its releases",
        more="Of a plan: its releases on made-up tables that differ in one row. The private table\n"
        "is not read and nothing is spent. Or of a function of your own, FILE.py:NAME, that takes\n"
        "an input (and `size`, if it can) and returns numbers.",
        examples='  tightdp audit plan.toml --release "means"\n'
        "  echo 'import numpy as np' > mine.py\n"
        "  echo 'def noisy(x, size): return x + np.random.laplace(0, 1, size)' >> mine.py\n"
        "  tightdp audit mine.py:noisy --x 10 --x-neighbor 11 --epsilon 1\n",
    )
    made.add_argument("what", metavar="PLAN|FILE.py:NAME", help="a plan, or a function")
    made.add_argument("--release", metavar="NAME", action="append", help="only this one")
    made.add_argument(
        "--releases", metavar="N", type=int, default=10_000, help="per input; by default 10000"
    )
    made.add_argument("--x", metavar="JSON", help="an input of the function")
    made.add_argument("--x-neighbor", metavar="JSON", help="a neighbouring one")
    made.add_argument("--epsilon", metavar="E", type=float, help="what the function claims")
    made.add_argument("--delta", metavar="D", type=float, default=0.0, help="by default 0")


# --- preview -------------------------------------------------------------------------------------


def _read(path: str) -> Any:
    from tightdp.plans import Plan

    return Plan.read(path)


def _check(given: argparse.Namespace, speaker: Speaker) -> Exit:
    if speaker.json:
        fail("`--json`: what a check says is for eyes, not for files. Leave it out.")
    plan = _read(given.plan)
    speaker.say(plan.check(progress=speaker.bars), None)
    return Exit.DONE


def _preview(given: argparse.Namespace, speaker: Speaker) -> Exit:
    plan = _read(given.plan)
    if given.error:
        return _needed(plan, given.error, given.assume_rows, speaker)
    if given.sample is not None:
        check_file("--sample", given.sample)
    with _watched(speaker, len(plan.releases)) as watch:
        found = plan.preview(sample=given.sample, replicates=given.replicates, watch=watch)
    states = plan.states()
    speaker.say(found, found.to_dict() | {"states": states})
    for state, words in _STATES.items():
        names = [f"{name} ({state})" for name, found in states.items() if found == state]
        if names:
            speaker.remark(f"{words}: {', '.join(names)}")
    for reason in plan.refusals().values():
        speaker.remark(f"will be refused: {reason}")
    return Exit.DONE


def _needed(plan: Plan, wishes: list[str], assume_rows: bool, speaker: Speaker) -> Exit:
    """The epsilon that every wished error asks for, and shares of the budget that serve all."""
    from tightdp.accuracy import epsilon_for, split_budget

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
            epsilon=plan.caps.epsilon,
            errors={name: size for name, (unit, size) in asked.items() if unit == "error"},
            ranks={name: size for name, (unit, size) in asked.items() if unit == "ranks"},
            **common,
        )
        lines += [
            "",
            f"The budget of {text_down(plan.caps.epsilon)}, shared to serve all:",
            str(split),
        ]
        record["split"] = {
            "epsilon": split.epsilon, "ratio": split.ratio, "needed": split.needed,
        }  # fmt: skip
    speaker.say("\n".join(lines), record)
    return Exit.DONE


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

    for path in given.report:
        check_format(path)
    plan = _read(given.plan)
    for path in given.report:
        check_format(path, plan.files)
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
        speaker.remark(f"written: {path}")
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
        paid = _paid(plan, before)
        if os.environ.get("TIGHTDP_TRACEBACK") or not paid:
            raise
        # words of others may quote cells of the table
        what = f"{type(error).__name__}: {MEANINGS[Exit.FAULT]}."
        if isinstance(error, KeyboardInterrupt):
            what = "Interrupted."
        elif isinstance(error, TightdpError):
            what = str(error)
        fail(f"{what} {paid}", PaidError)


def _paid(plan: Plan, before: dict[str, str]) -> str:
    """What was paid for since, in words; nothing if nothing was."""
    try:
        now = plan.states()
    except TightdpError:
        return (
            "The ledger cannot be read now, so what was paid for is not known; it stays paid. Put "
            "it right and run the command again: what is stored costs nothing more."
        )
    new = [name for name, state in now.items() if before[name] == "new" != state]
    if not new:
        return ""
    kept = [repr(name) for name in new if now[name] == "stored"]
    lost = [repr(name) for name in new if now[name] != "stored"]
    said = ["This came after a payment: the budget is spent."]
    if kept:
        said.append(f"Paid for and stored in the ledger: {', '.join(kept)}.")
    if lost:
        said.append(
            f"Paid for and lost: {', '.join(lost)}; to pay once more, give another key in the plan."
        )
    said.append(
        "Put it right and run the command again: it gives the stored numbers, and they cost "
        "nothing more."
    )
    return " ".join(said)


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


# --- compare, audit, kinds -----------------------------------------------------------------------


def _chosen(plan: Plan, names: list[str] | None) -> list[Any]:
    return [plan[name] for name in names] if names else list(plan.releases)


def _compare(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.compare import compare_noise

    plan = _read(given.plan)
    texts, records = [], []
    for planned in _chosen(plan, given.release):
        if "noise" not in planned.request.kind.options:
            reason = f"kind {planned.request.kind.name!r} has one noise, nothing to compare"
            texts.append(f"{planned.name}: {reason}")
            records.append({"name": planned.name, "reason": reason})
            continue
        try:
            found = compare_noise(planned.request, confidence=plan.confidence)
        except TightdpError as error:  # the other releases are compared all the same
            texts.append(f"{planned.name}: {error}")
            records.append({"name": planned.name, "reason": str(error)})
            continue
        texts.append(f"{planned.name}: epsilon = {text_up(planned.request.epsilon)}\n{found}")
        records.append({"name": planned.name} | found.to_dict())
    speaker.say("\n\n".join(texts), {"releases": records})
    return Exit.DONE


def _audit(given: argparse.Namespace, speaker: Speaker) -> Exit:
    if ".py:" in given.what:
        if given.x is None or given.x_neighbor is None or given.epsilon is None:
            fail("To audit a function, give --x, --x-neighbor and --epsilon.")
        reports = {
            given.what: audit_function(
                given.what,
                given.x,
                given.x_neighbor,
                epsilon=given.epsilon,
                delta=given.delta,
                releases=given.releases,
                progress=speaker.bars,
            )
        }
    else:
        chosen = _chosen(_read(given.what), given.release)
        reports = {
            planned.name: audit_plan(planned.request, given.releases, speaker.bars)
            for planned in chosen
        }
    speaker.say(
        "\n\n".join(f"{name}: {report}" for name, report in reports.items()),
        {"audits": [{"name": name} | report.to_dict() for name, report in reports.items()]},
    )
    return Exit.DONE if all(reports.values()) else Exit.NO


def _kinds(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.plans import KINDS

    if given.kind is None:
        known = {name: kind.about for name, kind in KINDS.items()}
        speaker.remark("Keys of a kind: tightdp kinds KIND")
        speaker.say("\n".join(text_facts(known.items())), {"kinds": known})
        return Exit.DONE
    kind = KINDS[check_choice("kind", given.kind, KINDS)]
    facts = []
    for name, option in kind.options.items():
        need = "(needed) " if option.required else ""
        choices = f": {', '.join(option.choices)}" if option.choices else ""
        facts.append((name, f"{need}{option.about}{choices}"))
    facts += [
        ("name", "what it is called, by default the kind and its place in the plan"),
        ("key", "under which the ledger keeps it, by default the name"),
        ("epsilon", "what it costs, or"),
        ("weight", "its share of what is left"),
    ]
    lines = [f"{kind.name}: {kind.about}", *(f"  {line}" for line in text_facts(facts))]
    record = {
        "kind": kind.name,
        "about": kind.about,
        "keys": {
            name: {
                "takes": option.takes,
                "about": option.about,
                "needed": option.required,
                "choices": list(option.choices),
            }
            for name, option in kind.options.items()
        },
    }
    speaker.say("\n".join(lines), record)
    return Exit.DONE
