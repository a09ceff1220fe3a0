"""What a plan has paid for when something fails: said in words, so that nobody pays again."""

from __future__ import annotations

from collections.abc import Mapping

from tightdp.errors import TightdpError
from tightdp.plans.plan import Plan


def paid_since(plan: Plan, before: Mapping[str, str], again: str) -> str:
    """What was paid for since, in words; nothing if nothing was. ``again`` says how to go on."""
    try:
        now = plan.states()
    except TightdpError:
        return (
            "The ledger cannot be read now, so what was paid for is not known; it stays paid. Put "
            f"it right and {again}: what is stored costs nothing more."
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
        f"Put it right and {again}: it gives the stored numbers, and they cost nothing more."
    )
    return " ".join(said)
