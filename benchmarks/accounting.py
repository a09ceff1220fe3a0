"""How much fits into one budget by accountant, time per spend on a growing ledger, conversions.

    python benchmarks/accounting.py [--out FILE]

Counts are spent one by one until the ledger refuses. Beside it, where they are installed: OpenDP's
privacy filter on the same noise, in the same run, and the exact Gaussian of dp-accounting. Nothing
is written without ``--out``.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tightdp.accounting import Cost
from tightdp.accounting.conversions import gaussian_dp_delta, zcdp_epsilon
from tightdp.errors import BudgetError
from tightdp.ledger import Ledger

BUDGET: dict[str, Any] = {"epsilon": 3, "delta": 1e-6}
DEVIATIONS = (10, 30, 100)
ACCOUNTANTS = ("sum", "zcdp", "gaussian")
LENGTHS = (0, 1_000, 3_000, 10_000)
EACH = 200
PATIENCE = 60.0  # seconds for a peer


def cost_of(std: int, accountant: str) -> Cost:
    """A count that moves by 1, with the integer noise that the accountant books best."""
    if accountant == "sum":
        epsilon = 2 * math.asinh(1 / (math.sqrt(2) * std)) * (1 + 1e-12)
        return Cost.of(Fraction(epsilon).limit_denominator(10**12))
    if accountant == "zcdp":
        return Cost.concentrated(Fraction(1, 2 * std**2), delta=1e-6)
    return Cost.gaussian(1 / (Fraction(std**2) - Fraction(1, 12)), delta=1e-6)


def spent_until_refused(std: int, accountant: str) -> int:
    """How many counts a ledger takes, one after the other."""
    cost, taken = cost_of(std, accountant), 0
    with Ledger(**BUDGET, accountant=accountant) as ledger:
        while True:
            try:
                ledger.spend(cost)
            except BudgetError:
                ledger.verify()
                return taken
            taken += 1


def milliseconds(act: Callable[[], Any], count: int = EACH) -> float:
    """The median of so many calls."""
    taken = []
    for _ in range(count):
        before = time.perf_counter()
        act()
        taken.append(1e3 * (time.perf_counter() - before))
    return statistics.median(taken)


def growing(accountant: str, path: Path | None) -> list[str]:
    """Milliseconds of a spend after so many spends; costs differ from spend to spend."""
    found, done = [], 0
    with Ledger(epsilon=2**19, delta=0.5, accountant=accountant, path=path) as ledger:
        costs = [
            Cost.gaussian(Fraction(1, 900 + k), delta=1e-6, epsilon=Fraction(1, 5))
            for k in range(50)
        ]
        if accountant == "sum":
            costs = [Cost.of(Fraction(1, 1000 + k)) for k in range(50)]

        def spend() -> None:
            nonlocal done
            ledger.spend(costs[done % len(costs)])
            done += 1

        for length in LENGTHS:
            while done < length:
                spend()
            found.append(f"{milliseconds(spend):.2f}")
    return found


def opendp_filter() -> list[str]:
    """The same for OpenDP's filter under zCDP; its answers are drawn with the charge."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return ["not installed"] * len(LENGTHS)
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    noise = dp.m.make_gaussian(*space, scale=30.0)
    measure = dp.zero_concentrated_divergence()
    odometer = dp.c.make_fully_adaptive_composition(*space, output_measure=measure)
    asked = dp.c.make_privacy_filter(odometer, d_in=1, d_out=1e6)(0)
    found, done, start = [], 0, time.perf_counter()

    def ask() -> None:
        nonlocal done
        asked(noise)
        done += 1

    for length in LENGTHS:
        while done < length and time.perf_counter() - start < PATIENCE:
            ask()
        over = done < length
        found.append(f"stopped after {done}" if over else f"{milliseconds(ask, 20):.2f}")
    return found


def conversions(count: int = 500) -> list[str]:
    """The largest distance from a peer's conversions, and how often ours promised more."""
    try:
        from dp_accounting.pld import privacy_loss_mechanism as mechanisms
        from dp_accounting.rdp import rdp_privacy_accountant as renyi
    except ImportError:
        return ["dp-accounting is not installed"]
    rng = np.random.default_rng(7)
    orders = 1 + np.exp(np.linspace(-8, 9, 2000))
    gaps, wrong, ours_time, theirs_time = [], 0, 0.0, 0.0
    for _ in range(count):
        epsilon, delta, amount = 10 ** rng.uniform([-2, -12, -4], [1, -1, 1])
        before = time.perf_counter()
        ours = float(gaussian_dp_delta(Fraction(epsilon), Fraction(amount)))
        ours_time += time.perf_counter() - before
        before = time.perf_counter()
        exact = mechanisms.GaussianPrivacyLoss(1 / math.sqrt(amount))
        theirs = exact.get_delta_for_epsilon(epsilon)
        theirs_time += time.perf_counter() - before
        wrong += ours < theirs * (1 - 1e-9) - 1e-15
        if theirs > 1e-12:
            gaps.append(ours / theirs - 1)
    rho_gaps = []
    for _ in range(count):
        delta, rho = 10 ** rng.uniform([-12, -4], [-1, 1])
        ours = float(zcdp_epsilon(Fraction(rho), Fraction(delta)))
        theirs, _ = renyi.compute_epsilon(orders, orders * rho, delta)
        wrong += ours > theirs * (1 + 1e-9) + 1e-12  # theirs is the same formula on a grid
        rho_gaps.append(theirs - ours)
    return [
        f"- mu to delta, {count} cases: relative difference from dp-accounting at most "
        f"{max(map(abs, gaps)):.1e}; {1e3 * ours_time / count:.2f} ms exact and proved, "
        f"{1e3 * theirs_time / count:.2f} ms in floats",
        f"- rho to epsilon, {count} cases: below the same formula on 2,000 orders by at most "
        f"{max(rho_gaps):.1e}, never above it",
        f"- on the wrong side: {wrong} of {2 * count}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [
        "# Budgets for many releases",
        "",
        f"Python {platform.python_version()}. Counts that move by 1, integer noise, spent one by "
        "one until the ledger refuses; budget (3, 1e-6).",
        "",
        "| standard deviation | " + " | ".join(ACCOUNTANTS) + " |",
        "|---:|" + "---:|" * len(ACCOUNTANTS),
    ]
    for std in DEVIATIONS:
        taken = [str(spent_until_refused(std, accountant)) for accountant in ACCOUNTANTS]
        lines.append(f"| {std} | {' | '.join(taken)} |")
    lines += [
        "",
        "Milliseconds of one spend (median) after so many spends of fifty different costs:",
        "",
        "| | " + " | ".join(f"{length:,}" for length in LENGTHS) + " |",
        "|---|" + "---:|" * len(LENGTHS),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for accountant in ACCOUNTANTS:
            for where, path in (("memory", None), ("file", Path(folder) / f"{accountant}.db")):
                lines.append(f"| {accountant}, {where} | {' | '.join(growing(accountant, path))} |")
    lines.append(f"| OpenDP's filter, in memory | {' | '.join(opendp_filter())} |")
    lines += ["", "Conversions:", "", *conversions(), ""]
    text = "\n".join(lines)
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
