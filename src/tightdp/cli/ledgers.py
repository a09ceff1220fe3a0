"""``tightdp ledger``: what was spent, and whether the ledger still says so."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tightdp.cli.arguments import LEDGER, Commands, argument, command, group
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import TightdpError, fail
from tightdp.ledger import Ledger
from tightdp.paths import read_file


def add(commands: Commands) -> None:
    """Add the command."""
    inner = group(commands, "ledger", "look at a ledger, and verify it")
    command(
        inner,
        "show",
        _show,
        "print what was spent, for what, and what is left",
        LEDGER,
        argument("--all", action="store_true", help="every spend, not the latest ten"),
        argument("--key", metavar="KEY", help="the stored release of a key; costs nothing"),
        examples="  tightdp ledger show survey.ledger\n"
        "  tightdp ledger show survey.ledger --json | jq .remaining\n"
        '  tightdp ledger show survey.ledger --key "means"\n',
    )
    command(
        inner,
        "verify",
        _verify,
        "check hashes, sums and caps, and that receipts are in the ledger",
        LEDGER,
        argument(
            "--receipt", metavar="JSON", action="append", default=[], help="a file with receipts"
        ),
        more="Receipts show that no old copy was put in the place of the ledger: give files that\n"
        "hold them, such as what `tightdp release --json` printed or a report wrote.",
        examples="  tightdp ledger verify survey.ledger\n"
        "  tightdp ledger verify survey.ledger --receipt survey.json\n",
    )
    command(
        inner,
        "burn",
        _burn,
        "give up a release that is in progress for ever",
        LEDGER,
        argument("--key", metavar="KEY", help="the key of the release"),
        argument("--entry", metavar="N", type=int, help="or the number of its entry"),
        more="For a release that was being computed on a machine or in a container that is gone:\n"
        "the ledger cannot know, and waits. The charge stays, and the key is never answered: give\n"
        "the release another key in the plan to pay for it once more. Should it still be computed\n"
        "somewhere, it is refused there when it is done.",
        examples='  tightdp ledger burn survey.ledger --key "means"\n'
        "  tightdp ledger burn survey.ledger --entry 7\n",
    )


def _burn(given: argparse.Namespace, speaker: Speaker) -> Exit:
    with Ledger.open(given.ledger) as ledger:
        number = ledger.give_up(given.key, entry=given.entry)
    speaker.say(
        f"{given.ledger}: entry {number} is given up. What was paid stays paid; a new release "
        "needs a new key.",
        {"ledger": given.ledger, "burned": number},
    )
    return Exit.DONE


def _show(given: argparse.Namespace, speaker: Speaker) -> Exit:
    with Ledger.open(given.ledger, read_only=True) as ledger:
        if given.key is not None:
            release = ledger.find(given.key)
            if release is None:
                fail(f"`--key`: the ledger has no spend of key {given.key!r}.")
            speaker.say(json.dumps(release, indent=2), {"key": given.key, "release": release})
            return Exit.DONE
        history = ledger.history()
        record = {
            "ledger": ledger.identity,
            "caps": ledger.caps.to_dict(),
            "neighbors": str(ledger.neighbors),
            "spent": ledger.spent.to_dict(),
            "remaining": ledger.remaining.to_dict(),
            "head": {"entry": ledger.head.counter, "hash": ledger.head.hash},
            "history": [
                {
                    "entry": row.entry,
                    "time": row.time,
                    "label": row.label,
                    "key": row.key,
                    "cost": row.cost.to_dict(),
                    "partition": row.partition,
                    "state": row.state,
                    "seeded": row.seeded,
                    "approximate": row.approximate,
                }
                for row in history
            ],
        }
        text = ledger.table(max(1, len(history))) if given.all else str(ledger)
    speaker.say(text, record)
    return Exit.DONE


def _verify(given: argparse.Namespace, speaker: Speaker) -> Exit:
    receipts = [found for path in given.receipt for found in _receipts(path)]
    with Ledger.open(given.ledger, read_only=True) as ledger:
        head = ledger.verify(*receipts)
    with_these = f", with {len(receipts)} receipts in it" if receipts else ""
    speaker.say(
        f"{given.ledger}: whole{with_these}. {head.counter} entries; the last has hash {head.hash}",
        {
            "ledger": given.ledger,
            "whole": True,
            "receipts": len(receipts),
            "entries": head.counter,
            "hash": head.hash,
        },
    )
    return Exit.DONE


def _receipts(path: str) -> list[dict[str, Any]]:
    try:
        record = json.loads(read_file("--receipt", path))
    except TightdpError:
        raise
    except (ValueError, RecursionError):
        fail(f"{path!r}: this file cannot be read as JSON.")
    found = list(_search(record))
    if not found:
        fail(f"{path!r}: there is no receipt in this file.")
    return found


def _search(value: object) -> Any:
    """Every receipt in a nest of plain values."""
    if isinstance(value, dict):
        if {"ledger", "entry", "hash"} <= set(value):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _search(item)
