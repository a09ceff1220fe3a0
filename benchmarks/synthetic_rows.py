"""Rows made from private tables beside AIM and MST: tables, a classifier, and time, in one run.

    python benchmarks/synthetic_rows.py --peer PYTHON --pgm FOLDER [--out FILE] [--sets adult ...]
        [--epsilons 0.5 ...] [--limit SECONDS] [--repeat TIMES] [--quick] [--keep ROWS]
    python benchmarks/synthetic_rows.py --constants [--out FILE]

``FOLDER`` of ``--pgm`` is a checkout of github.com/ryan112358/private-pgm, and ``PYTHON`` an
interpreter that can import its package: JAX 0.4, numpy below 2, pandas below 2.3; or, at 84d2f1e^,
the last commit on numpy factors, networkx in place of JAX. AIM and MST run there as their authors
publish them: all pairs as the workload, model size 80, 1,000 iterations (MST: 10,000), double
precision, for at most ``--limit`` seconds each; a row of the table says how many tables AIM had
chosen when it was stopped. ``pgm_peer.py`` runs them, and says what is faster there and the same.
Their rows are kept in the folder ``ROWS``, if there is one, and those that are there are not made
again: a run that was stopped goes on. Nothing is written without ``--out``.

All spend (epsilon, 1e-9) under add-remove, on the same cells. Distances are total variations
between tables of the fitted rows and of as many synthetic ones, on average over all pairs, and over
all triples, which nobody was asked for. A gradient-boosted classifier is fitted to synthetic rows
and scored (area under the ROC curve) on held-out real ones. Seconds are of the processor, from the
table to the rows.

``--constants`` varies how many tables are chosen around what the public rule says, on abalone,
which was looked at when the rule for rounds was chosen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from aim_loop import aim_loop
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from synthetic_sets import ROW_SETS, Codes, RowSet

import tightdp as tdp
from tightdp.mechanisms.synthetic_rows import MOST_CELLS, SyntheticRows

DELTA = 1e-9
EPSILONS = (0.5, 1.0, 3.0)
SETS = ("contraceptive", "adult", "bank")
DATA = Path(__file__).parents[2] / "shared" / "data" / "uci"
HEAD = "| set | epsilon | method | two-way | three-way | classifier | seconds |"
PEER = Path(__file__).with_name("pgm_peer.py")


def variation(real: Codes, made: Codes, sizes: list[int], order: int) -> float:
    """Total variation of tables of so many columns, on average over all of them."""
    far = []
    for some in itertools.combinations(range(len(sizes)), order):
        shape = [sizes[j] for j in some]
        shares = [
            np.bincount(
                np.ravel_multi_index(tuple(rows[:, j] for j in some), shape),
                minlength=int(np.prod(shape)),
            )
            / len(rows)
            for rows in (real, made)
        ]
        far.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(far))


def score(fitted: Codes, held: Codes, target: int) -> float:
    """The area under the curve, on held-out rows, of a classifier that was fitted to others."""
    others = [j for j in range(fitted.shape[1]) if j != target]
    if len(np.unique(fitted[:, target])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
    model.fit(fitted[:, others], fitted[:, target])
    chances = np.zeros((len(held), int(held[:, target].max()) + 1))
    chances[:, model.classes_] = model.predict_proba(held[:, others])
    if chances.shape[1] == 2:
        return float(roc_auc_score(held[:, target], chances[:, 1]))
    chances = (chances + 1e-9) / (chances + 1e-9).sum(axis=1, keepdims=True)
    return float(roc_auc_score(held[:, target], chances, multi_class="ovr"))


def ours(facts: RowSet, fit: pd.DataFrame, epsilon: float, seed: int, **options: Any) -> Any:
    """Codes of synthetic rows, and seconds from the table to rows."""
    start = time.process_time()
    rows = len(fit)
    model = tdp.SyntheticTable(
        facts.schema(rows), epsilon, bins=facts.bins, random_state=seed, **options
    ).fit(fit)
    made = model.sample(rows, random_state=seed)
    seconds = time.process_time() - start
    return facts.codes(made, rows), seconds


def loop(real: Codes, sizes: list[int], epsilon: float) -> Any:
    """Rows of the loop of AIM on this package's solver, with as many cells and steps."""
    start = time.process_time()
    options = {"most_cells": MOST_CELLS, "steps": 80, "seed": 1}
    made, _ = aim_loop(real, sizes, epsilon, DELTA, **options)
    return made, time.process_time() - start


def peer(given: argparse.Namespace, name: str, codes: Codes, epsilon: float, method: str) -> Any:
    """Codes of what AIM or MST makes of the rows and its seconds, or why there is nothing."""
    facts = ROW_SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "rows"
        kept = Path(given.keep or folder) / f"{method}_{name}_{epsilon:g}".lower()
        kept.parent.mkdir(parents=True, exist_ok=True)
        if not Path(f"{kept}.json").exists():
            pd.DataFrame(codes, columns=list(facts.columns)).to_csv(f"{base}.csv", index=False)
            sides = dict(zip(facts.columns, facts.sizes(), strict=True))
            Path(f"{base}.json").write_text(json.dumps(sides), encoding="utf-8")
            words = [given.pgm, str(base), method, str(epsilon), str(DELTA), "1", str(kept)]
            why = run_peer(given, words, Path(f"{kept}.log"))
            if why:
                return why
        seconds = json.loads(Path(f"{kept}.json").read_text(encoding="utf-8"))["processor"]
        made = pd.read_csv(f"{kept}.csv")[list(facts.columns)].to_numpy(np.int64)
    return made, seconds


def run_peer(given: argparse.Namespace, words: list[str], log: Path) -> str:
    """Run AIM or MST to its end, or say why it did not get there."""
    # sets of names decide the order of some sums there: with one seed rows are the same again
    settings = ["JAX_PLATFORMS=cpu", "JAX_ENABLE_X64=1", "PYTHONHASHSEED=0"]
    command = ["env", *settings, given.peer, "-u", str(PEER), *words]
    with log.open("w") as said:
        try:
            subprocess.run(command, check=True, timeout=given.limit, stdout=said, stderr=said)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as problem:
            lines = log.read_text(encoding="utf-8").splitlines() or [""]
            rounds = sum(line.startswith("chosen") for line in lines)
            ended = isinstance(problem, subprocess.CalledProcessError)
            why = f"failed: {lines[-1][:80]}" if ended else f"stopped at {given.limit:.0f} s"
            return f"{why}, after {rounds} tables" if "AIM" in words else why
    return ""


def measured(given: argparse.Namespace) -> list[str]:
    """A row for every set, epsilon and method."""
    lines = []
    for name in given.sets:
        facts = ROW_SETS[name]
        fit, rest = facts.split(Path(given.data))
        sizes, target = facts.sizes(), list(facts.columns).index(facts.target)
        real, held = facts.codes(fit, len(fit)), facts.codes(rest, len(rest))
        lines.append(
            f"| {name} | - | the rows themselves | 0 | 0 | {score(real, held, target):.3f} | |"
        )
        for epsilon in given.epsilons:
            for method, result in methods(given, name, fit, real, epsilon):
                if isinstance(result, str):
                    lines.append(f"| {name} | {epsilon:g} | {method} | {result} | | | |")
                else:
                    codes, seconds = result
                    two, three = (variation(real, codes, sizes, k) for k in (2, 3))
                    far = f"{two:.4f} | {three:.4f} | {score(codes, held, target):.3f}"
                    lines.append(f"| {name} | {epsilon:g} | {method} | {far} | {seconds:.0f} |")
                print(lines[-1], flush=True)
    return lines


def methods(
    given: argparse.Namespace, name: str, fit: pd.DataFrame, real: Codes, epsilon: float
) -> Iterator[tuple[str, Any]]:
    """What every method makes of the rows of one set, one after the other."""
    facts = ROW_SETS[name]
    for seed in range(1, given.repeat + 1):
        yield f"tightdp, {seed}", ours(facts, fit, epsilon, seed, delta=DELTA)
    if not given.quick:
        yield "AIM's loop, this solver", loop(real, facts.sizes(), epsilon)
    if given.peer:
        for method in ("MST", "AIM"):
            if method == "MST" or name in given.aim:
                yield method, peer(given, name, real, epsilon, method)


def constants(given: argparse.Namespace) -> list[str]:
    """Two-way distances on abalone, for other numbers of rounds than the rule's."""
    facts = ROW_SETS["abalone"]
    fit, _ = facts.split(Path(given.data))
    real, sizes = facts.codes(fit, len(fit)), facts.sizes()
    lines = ["| epsilon | the rule | half as many rounds | twice | four times |", "|---" * 5 + "|"]
    for epsilon in given.epsilons:
        facts_of = {"epsilon": epsilon, "delta": DELTA, "bins": facts.bins}
        rule = SyntheticRows(facts.schema(len(fit)), **facts_of).spending.rounds
        cells = []
        for rounds in (rule, max(1, rule // 2), 2 * rule, 4 * rule):
            seeds = range(1, max(given.repeat, 5) + 1)
            made = [ours(facts, fit, epsilon, s, delta=DELTA, rounds=rounds)[0] for s in seeds]
            far = [variation(real, codes, sizes, 2) for codes in made]
            spread = np.std(far) / np.sqrt(len(far))
            cells.append(f"{rounds}: {np.mean(far):.3f} ({spread:.3f})")
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(ROW_SETS))
    parser.add_argument("--aim", nargs="*", default=list(SETS), choices=list(ROW_SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--data", default=str(DATA))
    parser.add_argument("--peer")
    parser.add_argument("--pgm")
    parser.add_argument("--keep")
    parser.add_argument("--limit", type=float, default=7200.0)
    given = parser.parse_args()
    machine = f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}"
    table = constants(given) if given.constants else [HEAD, "|---" * 7 + "|", *measured(given)]
    text = "\n".join([*table, "", f"Measured on {machine}.", ""])
    print(text)
    if given.out:
        Path(given.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
