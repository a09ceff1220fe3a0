"""Runs experiments by name; finished cells are kept and used again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reproduce.experiment import Cell, Experiment, Finding, Outcome, Settings
from reproduce.pictures import check_installed, save_figure
from reproduce.registry import EXPERIMENTS
from reproduce.results import Result, as_csv, as_json
from tightdp.errors import check_choice, fail
from tightdp.paths import write_whole
from tightdp.progress import progress_bar
from tightdp.randomness import source


def reproduce(
    names: Sequence[str],
    quick: bool = True,
    folder: str | Path = "reproduced",
    progress: bool = False,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Result]:
    """Compute figures and tables of the papers anew, with their errata applied.

    Every finished cell is written to ``folder/cells`` at once and whole; a run that was stopped
    goes on where it was, and a run with the same settings and the same version of the package
    computes nothing twice. All draws are seeded by the cells: a result does not depend on the
    order, or on what else is run.

    Parameters
    ----------
    names : sequence of str
        Of experiments (:func:`experiment_names`), or ``"all"``.
    quick : bool
        Minutes in total, with fewer replicates and coarser grids; otherwise as in the papers.
    folder : path
        For pictures, tables and cells.
    progress : bool
        Show a bar for each experiment, where ``tqdm`` is installed.
    settings : mapping, optional
        Settings by experiment that replace those of the mode.

    Returns
    -------
    list of Result

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (result,) = reproduce(["knorm-figure-1"], folder=folder)
    ...     result.ok, result.plot.exists()
    (True, True)
    """
    chosen = _chosen(names)
    changes = _changes(settings or {})
    check_installed()
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"`folder` must be a folder that can be written. Got {folder}: {error.strerror}.")
    return [
        _run(EXPERIMENTS[name], quick, target, progress, changes.get(name, {})) for name in chosen
    ]


def experiment_names() -> tuple[str, ...]:
    """The names that :func:`reproduce` knows.

    >>> "dro-table-1" in experiment_names()
    True
    """
    return tuple(EXPERIMENTS)


def _chosen(names: Any) -> list[str]:
    asked = [names] if isinstance(names, str) else list(names)
    if not asked:
        fail("`names` must name at least one experiment, or be 'all'.")
    for name in asked:
        check_choice("names", name, ["all", *EXPERIMENTS])
    return list(EXPERIMENTS) if "all" in asked else list(dict.fromkeys(asked))


def _changes(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    for name, given in settings.items():
        check_choice("settings", name, EXPERIMENTS)
        for key in given:
            check_choice(f"settings[{name!r}]", key, EXPERIMENTS[name].quick)
    return dict(settings)


# --- one experiment -------------------------------------------------------------------------------


def _run(
    experiment: Experiment, quick: bool, folder: Path, progress: bool, changes: Mapping[str, Any]
) -> Result:
    settings: Settings = {**(experiment.quick if quick else experiment.full), **changes}
    started = time.monotonic()
    cells = experiment.cells(settings)
    store = CellStore(folder / "cells" / experiment.name)
    findings: list[Finding] = []
    with progress_bar(len(cells), f"cells of {experiment.name}", show=progress) as done:
        for cell in cells:
            findings.append((cell, store.outcome(cell, experiment.compute)))
            done(1)
    rows = experiment.rows(findings)
    result = Result(
        name=experiment.name,
        title=experiment.title,
        source=experiment.source,
        quick=quick,
        quotes=tuple(experiment.quotes(rows)),
        rows=rows,
        plot=folder / f"{experiment.name}.png",
        numbers=folder / f"{experiment.name}.csv",
        report=folder / f"{experiment.name}.json",
        seconds=time.monotonic() - started,
        reused=store.reused,
        rows_from=experiment.table.used() if experiment.table else "",
    )
    save_figure(experiment.draw(rows), result.plot)
    write_whole("out", result.numbers, as_csv(rows))
    report = {**result.to_dict(), "settings": dict(settings), "cells": len(cells)}
    write_whole("out", result.report, as_json(report))
    return result


class CellStore:
    """Outcomes of cells as JSON files of one folder, named by a digest of the cell.

    A file that cannot be read, or that holds another cell, is computed anew.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.reused = folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    def outcome(self, cell: Cell, compute: Callable[[Cell, Any], Outcome]) -> Outcome:
        """The stored outcome, or a new one, which is stored."""
        whole = {**cell, "experiment": self.folder.name, "version": version("tightdp")}
        digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).digest()
        path = self.folder / f"{digest.hex()[:32]}.json"
        found = _read(path, whole)
        if found is not None:
            self.reused += 1
            return found
        outcome = compute(cell, source(int.from_bytes(digest[:8], "big")))
        write_whole("out", path, as_json({"cell": whole, "outcome": outcome}))
        return outcome


def _read(path: Path, cell: Cell) -> Outcome | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["cell"] != json.loads(json.dumps(cell)):
            return None
        outcome: Outcome = stored["outcome"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return outcome if isinstance(outcome, dict) else None
