"""The command that says what the tests of a plan would notice, before anything is paid."""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from typing import Any

from tightdp.cli.arguments import ONLY, PLAN, Commands, argument, command
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import check_count, check_within, fail
from tightdp.options import amount
from tightdp.plans.plan import Plan
from tightdp.plans.request import Planned
from tightdp.preview import ALPHA, POWER
from tightdp.printed import percent, short, text_facts
from tightdp.privacy import check_epsilon, text_up
from tightdp.sample_sizes import PlannedTest, detectable, power, sample_size

_POWER = (
    argument(
        "--effect",
        metavar="SIZE",
        type=float,
        nargs="+",
        help="what there is to notice, of one test: a number, or one for each group or cell",
    ),
    argument("--power", metavar="P", type=float, default=POWER, help=f"by default {POWER:g}"),
    argument("--alpha", metavar="A", type=float, default=ALPHA, help=f"by default {ALPHA:g}"),
    argument("--epsilon", metavar="E", help="another epsilon than that of the plan"),
    argument("--rows", metavar="N", type=int, help="with --effect: another number of rows"),
)


def add(commands: Commands) -> None:
    """Add the command."""
    command(
        commands,
        "power",
        _power,
        "say what the tests of a plan would notice, and how many rows they need; costs nothing",
        PLAN,
        ONLY,
        *_POWER,
        more="The least effect that is noticed with such a power at level alpha; with --effect,\n"
        "the chance that this one is noticed, and the number of rows from which it is with the\n"
        "power that is asked for. Rows are simulated from public facts: no row is read. What an\n"
        "effect is: of a share its other value; of tables Cohen's w, or all shares; of means the\n"
        "difference of the last and the first, or all means; of columns their correlation; of\n"
        "coefficients their difference from the null.",
        examples="  tightdp power tests.toml\n"
        '  tightdp power tests.toml --release "pay by answer" --effect 2\n'
        '  tightdp power tests.toml --release "pay by answer" --effect 2 --epsilon 0.3\n',
    )


def _power(given: argparse.Namespace, speaker: Speaker) -> Exit:
    _check(given)
    asked = None if given.epsilon is None else check_epsilon(amount("--epsilon", given.epsilon))
    tests = _tests(Plan.read(given.plan), given.release)
    if given.effect and len(tests) > 1:
        names = ", ".join(repr(test.name) for test in tests)
        fail(f"`--effect` is of one test: choose it with --release. There are {names}.")
    told = [_told(test, asked, given) for test in tests]
    texts = [f"{record['name']}: {text}" for text, record in told]
    speaker.say("\n\n".join(texts), {"tests": [record for _, record in told]})
    return Exit.DONE


def _check(given: argparse.Namespace) -> None:
    """What can be wrong whatever the plan."""
    check_within("--power", given.power, "(0, 1)")
    check_within("--alpha", given.alpha, "(0, 1)")
    if given.rows is not None:
        if not given.effect:
            fail("`--rows` needs `--effect`: what is noticed with so many rows?")
        check_count("--rows", given.rows)


def _tests(plan: Plan, names: list[str] | None) -> list[Planned]:
    """The tests of a plan, or those that are named."""
    for name in names or []:
        if not isinstance(plan[name].request.mechanism, PlannedTest):
            fail(f"`--release`: {name!r} is no test of a hypothesis.")
    chosen = [plan[name] for name in names] if names else plan.releases
    tests = [one for one in chosen if isinstance(one.request.mechanism, PlannedTest)]
    if not tests:
        fail("The plan has no test of a hypothesis: `tightdp kinds` lists them.")
    return tests


def _told(
    planned: Planned, epsilon: Fraction | None, given: argparse.Namespace
) -> tuple[str, dict[str, Any]]:
    """In words, and as a record."""
    request = planned.request if epsilon is None else planned.request.at(epsilon)
    test: Any = request.mechanism
    rows, sure = given.rows or test.schema.rows, f"with {percent(given.power)} power"
    record = {"name": planned.name, "epsilon": request.epsilon, "alpha": given.alpha, "rows": rows}
    if given.effect:
        effect = given.effect[0] if len(given.effect) == 1 else given.effect
        chance = power(test, effect, rows=given.rows, alpha=given.alpha)
        needed = sample_size(test, effect, power=given.power, alpha=given.alpha)
        said = ", ".join(map(short, given.effect))
        facts = [
            (f"{said} is noticed by {rows:,} rows with power", short(chance)),
            (f"rows that notice {said} {sure}", f"{needed:,}"),
        ]
        record |= {"effect": effect, "power": chance, "needed_rows": needed}
    else:
        least = detectable(test, power=given.power, alpha=given.alpha)
        found = "none" if math.isnan(least) else f"{short(least)} or more"
        facts = [(f"{test.effect} that {rows:,} rows notice {sure}", found)]
        record |= {"power": given.power, "of": test.effect, "detects": least}
    head = f"epsilon = {text_up(request.epsilon)}, level {percent(given.alpha)}"
    return "\n".join([head, *text_facts(facts)]), record
