"""``tightdp design`` and ``tightdp verify``: noise by optimisation, and the proof of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tightdp.cli.arguments import FORCE, Commands, argument, check_out, command, write_file
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import fail
from tightdp.paths import read_file
from tightdp.privacy import text_down, text_up

if TYPE_CHECKING:
    from tightdp.design.composed_law import ComposedDesign
    from tightdp.design.vector_law import VectorDesign

_PROMISE = ("epsilon", "delta")


def add(commands: Commands) -> None:
    """Add the two commands."""
    command(
        commands,
        "design",
        _design,
        "find the noise with the least expected loss, and prove it",
        argument("--epsilon", metavar="E", required=True, help="such as 1, 0.5 or 1/3"),
        argument("--delta", metavar="D", default="0", help="by default 0"),
        argument("--sensitivity", metavar="S", default="1", help="by default 1"),
        argument("--loss", choices=("l1", "l2"), default="l1", help="l1 or l2"),
        argument("--gap", metavar="G", type=float, help="by default 0.01"),
        argument("--cells", metavar="N", type=int, help="a fixed number of cells"),
        argument("--integer", action="store_true", help="for integer statistics: counts"),
        argument("--monotone", action="store_true", help="a density that never rises"),
        argument("--support", metavar="A", help="only noise within [-A, A]"),
        argument("--time-limit", metavar="SECONDS", type=float, help="then what is proved"),
        argument("--dim", choices=("1", "2", "3"), default="1", help="entries of the query"),
        argument("--together", action="store_true", help="two releases, each with its own noise"),
        argument("--ball", choices=("l1", "l2", "linf"), help="what several entries move in"),
        argument("--resolution", metavar="K", type=int, help="cells a sensitivity, for several"),
        argument("--out", metavar="FILE", help="write noise and proof, as JSON"),
        FORCE,
        more="The result has an upper bound (the loss of the noise) and a lower bound (what no\n"
        "noise can beat), both proved in exact arithmetic; `tightdp verify` checks the file.\n"
        "--dim 2 or 3 designs one noise for several entries, --together two independent noises\n"
        "that are private together; both take --ball and --resolution, and not --gap, --cells,\n"
        "--integer, --monotone or --time-limit.",
        examples="  tightdp design --epsilon 1 --delta 0.2\n"
        "  tightdp design --epsilon 1/2 --delta 1e-6 --integer --loss l2 --out noise.json\n"
        "  tightdp design --epsilon 2 --delta 0.2 --together --resolution 2 --out both.json\n"
        "  tightdp verify noise.json\n",
    )
    command(
        commands,
        "verify",
        _verify,
        "check the proofs of designed noise, without a solver",
        argument("file", metavar="FILE", nargs="+", help="what `tightdp design --out` wrote"),
        more="Everything in the file is proved again in rational arithmetic.",
        examples="  tightdp design --epsilon 1 --delta 0.2 --out least.json\n"
        "  tightdp verify least.json\n",
    )


def _design(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.design.designs import design_noise
    from tightdp.options import amount

    if given.out:
        check_out(given.out, force=given.force)
    if given.together or given.dim != "1":
        return _several(given, speaker)
    for name in ("ball", "resolution"):
        if getattr(given, name) is not None:
            fail(f"`--{name}` needs `--dim` 2 or 3, or `--together`.")
    found = design_noise(
        epsilon=amount("epsilon", given.epsilon),
        delta=amount("delta", given.delta),
        sensitivity=amount("sensitivity", given.sensitivity),
        loss=given.loss,
        gap=0.01 if given.gap is None else given.gap,
        cells=given.cells,
        support=None if given.support is None else amount("support", given.support),
        monotone=given.monotone,
        integer=given.integer,
        time_limit=given.time_limit,
        progress=speaker.bars,
    )
    if given.out:
        write_file(given.out, found.certificate.to_json(), force=given.force)
        speaker.remark(f"written: {given.out}")
    speaker.say(
        found,
        {
            "upper": found.upper,
            "lower": found.lower,
            "gap": found.gap,
            "reached": found.reached,
            "seconds": found.seconds,
            "noise": repr(found.noise),
            "file": given.out,
        },
    )
    return Exit.DONE


def _several(given: argparse.Namespace, speaker: Speaker) -> Exit:
    """One noise for two or three entries, or two noises for two releases."""
    from tightdp.design.composed import design_composed_noise
    from tightdp.design.vector import design_vector_noise
    from tightdp.options import amount

    for name in ("gap", "cells", "integer", "monotone", "time_limit"):
        if getattr(given, name) not in (None, False):
            fail(f"`--{name.replace('_', '-')}` is for one number: leave it out here.")
    if given.together and given.dim != "1":
        fail("`--together` is for two releases of one number each: leave out `--dim`.")
    sensitivity = amount("sensitivity", given.sensitivity)
    asked: dict[str, Any] = {name: amount(name, getattr(given, name)) for name in _PROMISE}
    asked |= {"loss": given.loss, "progress": speaker.bars}
    options = {name: getattr(given, name) for name in ("ball", "resolution")}
    asked |= {name: value for name, value in options.items() if value is not None}
    if given.support is not None:
        asked["support"] = amount("support", given.support)
    found: ComposedDesign | VectorDesign
    if given.together:
        both = (sensitivity, sensitivity)
        found = design_composed_noise(**asked, sensitivities=both)
    else:
        found = design_vector_noise(**asked, dim=int(given.dim), sensitivity=sensitivity)
    if given.out:
        write_file(given.out, found.to_json(), force=given.force)
        speaker.remark(f"written: {given.out}")
    what = "two noises together" if given.together else f"one noise for {given.dim} entries"
    speaker.say(
        f"guarantee  epsilon {text_up(found.epsilon)}, delta {text_up(found.delta)}, {what}, "
        f"{found.ball} ball\nexpected   {text_up(found.upper)}\n"
        f"at least   {text_down(found.lower)} for any noise",
        {
            "upper": float(found.upper),
            "lower": float(found.lower),
            "gap": found.gap,
            "ball": found.ball,
            "file": given.out,
        },
    )
    return Exit.DONE


def _verify(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.design.exact_numbers import Refuted
    from tightdp.design.proofs import prove

    lines, records = [], []
    for path in given.file:
        text = read_file("FILE", path)
        try:
            found = prove(text)
        except Refuted as reason:
            lines.append(f"{path}: REFUTED: {reason}")
            records.append({"file": path, "proved": False, "reason": str(reason)})
            continue
        lines.append(
            f"{path}: proved. epsilon {found.epsilon}, delta {found.delta}: the noise loses on "
            f"average {text_up(found.upper)}, no noise loses less than {text_down(found.lower)}"
        )
        lines += [f"  {found.note}"] if found.note else []
        records.append(
            {
                "file": path,
                "proved": True,
                "lower": float(found.lower),
                "upper": float(found.upper),
                "epsilon": str(found.epsilon),
                "delta": str(found.delta),
            }
        )
    speaker.say("\n".join(lines), {"files": records})
    return Exit.DONE if all(record["proved"] for record in records) else Exit.NO
