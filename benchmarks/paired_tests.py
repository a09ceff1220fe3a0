"""Paired comparisons of two methods over the same splits: effects, standard errors, p-values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

MEASURES = ("error", "log loss", "changed")
UNITS = (100.0, 1000.0, 100.0)  # per cent, thousandths of a nat, per cent


def line(cells: list[Any]) -> str:
    """A row of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def head(titles: list[str]) -> list[str]:
    """The head of a table."""
    return [line(titles), "|---" * len(titles) + "|"]


def holm(p: Any) -> Any:
    """Holm's correction: p-values that are small only if the family of tests allows it.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(raised, 1.0)
    return out


def effect(difference: Any) -> tuple[float, float, float]:
    """Mean, standard error and the one-sided p-value of "below zero", over splits."""
    spread = float(np.std(difference, ddof=1)) / len(difference) ** 0.5
    if spread == 0:
        return float(np.mean(difference)), 0.0, 1.0
    p = stats.ttest_1samp(difference, 0.0, alternative="less").pvalue
    return float(np.mean(difference)), spread, float(p)


def comparison(found: dict[str, dict[str, Any]], ours: str, theirs: str) -> list[str]:
    """Differences by data set, Holm-corrected, and the pooled test, for every measure.

    ``found`` has for each data set and method an array of shape (splits, measures).
    """
    apart = {name: (one[ours] - one[theirs]) * UNITS for name, one in found.items()}
    by_measure = []
    for k in range(len(MEASURES)):
        each = [effect(difference[:, k]) for difference in apart.values()]
        corrected = holm([p for _, _, p in each])
        cells = [_cells(*one[:2], p) for one, p in zip(each, corrected, strict=True)]
        pooled = np.mean([difference[:, k] for difference in apart.values()], axis=0)
        by_measure.append([*cells, _cells(*effect(pooled))])
    titles = [text for measure in MEASURES for text in (measure, "p")]
    rows = [
        line([name, *(cell for measure in by_measure for cell in measure[i])])
        for i, name in enumerate([*apart, "**all, pooled**"])
    ]
    return [*head([f"{ours} - {theirs}", *titles]), *rows]


def _cells(mean: float, spread: float, p: float) -> tuple[str, str]:
    return f"{mean:+.4f} ({spread:.4f})", f"{p:.1e}" if p < 1 else "1"
