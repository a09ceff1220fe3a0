"""The answer to "which noise is the least I can add?": candidate shapes ranked side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tightdp.errors import check_choice, check_filled, check_within, fail
from tightdp.geometry.containment import Containment, GaugeRange, containment
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.orders import volume_order
from tightdp.geometry.sensitivity import Sensitivity, SensitivitySpace, check_space
from tightdp.noise.knorm import Estimate, conditional_variance, covariance, entropy, expected_loss
from tightdp.parameters import tells_arguments
from tightdp.printed import (
    html_notes,
    html_table,
    notebook,
    text_table,
)

LP_NAMES: dict[str, float] = {"l1": 1.0, "l2": 2.0, "linf": np.inf}

CRITERIA = {
    "volume": "volume",
    "entropy": "entropy",
    "variance": "mean variance",
    "l1": "E l1 loss",
    "l2": "E l2 loss",
    "linf": "E linf loss",
}


@dataclass(frozen=True, slots=True, eq=False)
class RankedNorm:
    """One candidate: its ball (scaled to contain the space) and what its noise costs.

    ``sensitivity`` is the factor by which the unit ball was scaled (1 for the hull itself);
    ``variance`` is the mean marginal variance of the entries, ``conditional_variance`` the mean of
    the conditional ones (slab reading) along the axes, None if no axis lies in the span;
    ``inside`` and ``outside`` name the other candidates whose ball contains, or does not contain,
    this one.
    """

    name: str
    ball: NormBall
    sensitivity: Sensitivity
    log_volume: Estimate
    entropy: Estimate
    variance: Estimate
    conditional_variance: float | None
    l1: Estimate
    l2: Estimate
    linf: Estimate
    inside: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    def criterion(self, name: str) -> tuple[float, float]:
        """Sort key of a criterion: flat bodies first where volumes are compared."""
        if name in ("volume", "entropy"):
            return (self.ball.rank, self.entropy.value)
        estimate: Estimate = getattr(self, name)
        return (0, estimate.value)


@dataclass(frozen=True, slots=True, eq=False)
class NormRanking:
    """Ranked candidates, best first, with a recommendation. Prints as a table.

    Examples
    --------
    >>> ranking = rank_norms(SensitivitySpace.histogram(3), epsilon=1.0, by="variance")
    >>> ranking.best.name, round(ranking["hull"].variance.value, 6)
    ('hull', 3.333333)
    """

    rows: tuple[RankedNorm, ...]
    epsilon: float
    by: str
    recommendation: str
    reason: str
    notes: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[RankedNorm]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> RankedNorm:
        names = [row.name for row in self.rows]
        return self.rows[names.index(check_choice("name", name, names))]

    @property
    def best(self) -> RankedNorm:
        """The recommended candidate."""
        return self[self.recommendation]

    def winner(self, criterion: str) -> str:
        """The best candidate by one criterion: volume, entropy, variance, l1, l2 or linf."""
        check_choice("criterion", criterion, CRITERIA)
        return min(self.rows, key=lambda row: row.criterion(criterion)).name

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON and data frames."""
        return {
            "epsilon": self.epsilon,
            "by": self.by,
            "recommendation": self.recommendation,
            "reason": self.reason,
            "notes": list(self.notes),
            "rows": [_record(row) for row in self.rows],
        }

    def __str__(self) -> str:
        rows = self._cells()
        table = text_table(rows, left=(0, len(rows[0]) - 1))
        return "\n".join([*table, "", self._recommended(), *self.notes])

    def _repr_html_(self) -> str:
        best = html_notes(self._recommended(), bold=True)
        return notebook(html_table(self._cells()), best, html_notes(*self.notes))

    def _recommended(self) -> str:
        return f"Recommended: {self.recommendation} ({self.reason})"

    def _cells(self) -> list[list[str]]:
        header = [
            "norm",
            "sensitivity",
            "dim",
            "log volume",
            "entropy",
            "mean variance",
            "cond. variance",
            "E l1",
            "E l2",
            "E linf",
            "lies inside",
        ]
        body = [
            [
                row.name,
                f"{float(row.sensitivity):.5g}{'' if row.sensitivity.exact else ' (bound)'}",
                str(row.ball.rank),
                str(row.log_volume),
                str(row.entropy),
                str(row.variance),
                "-" if row.conditional_variance is None else f"{row.conditional_variance:.5g}",
                str(row.l1),
                str(row.l2),
                str(row.linf),
                ", ".join(row.inside) or "-",
            ]
            for row in self.rows
        ]
        return [header, *body]


def _held(what: object) -> tuple[SensitivitySpace, object]:
    """The space of what somebody holds, and its epsilon: of a statistic or a mechanism too."""
    made = getattr(getattr(what, "statistic", what), "sensitivity_space", None)
    found = made() if callable(made) else what
    check_space(found)
    return cast(SensitivitySpace, found), getattr(what, "epsilon", None)


@tells_arguments
def rank_norms(
    space: SensitivitySpace | object,
    epsilon: float | None = None,
    candidates: Iterable[str | NormBall] | Mapping[str, NormBall] = ("l1", "l2", "linf", "hull"),
    *,
    by: str = "volume",
) -> NormRanking:
    """Rank noise shapes for a statistic by every order of the theory at once.

    Parameters
    ----------
    space : SensitivitySpace, Statistic or mechanism
        The statistic, by its sensitivity space, or what has one.
    epsilon : float, optional
        Privacy parameter; scales every column, never the order. By default that of the mechanism.
    candidates
        Names ("l1", "l2", "linf", "hull") or norm balls, or a mapping from names to norm balls.
        Every candidate but the hull is scaled to the smallest multiple proved to contain the space.
    by : {"volume", "entropy", "variance", "l1", "l2", "linf"}
        The criterion that sorts the table and picks the recommendation. Volume (equivalently
        entropy) does not depend on units; the others do, and can disagree with it.

    Returns
    -------
    NormRanking
        Prints as a table; ``.recommendation``, ``.reason`` and ``.notes`` say what to use and why.

    Examples
    --------
    >>> table = rank_norms(SensitivitySpace.sum_and_squares(), epsilon=1.0)
    >>> [row.name for row in table], table.recommendation
    (['hull', 'linf', 'l2', 'l1'], 'hull')
    >>> table.winner("variance")
    'hull'
    """
    space, stated = _held(space)
    if epsilon is None and stated is None:
        fail("`epsilon` must be stated: only a mechanism knows its own.")
    rate = check_within("epsilon", stated if epsilon is None else epsilon, "[1e-100, 1e100]")
    check_choice("by", by, CRITERIA)
    balls = _calibrated(space, candidates)
    relations = _relations(space, {name: ball for name, (ball, _) in balls.items()})
    rows = []
    for name, (ball, sensitivity) in balls.items():
        inside = tuple(b for (a, b), c in relations.items() if a == name and c.verdict == "inside")
        outside = tuple(
            b for (a, b), c in relations.items() if a == name and c.verdict == "outside"
        )
        rows.append(_row(name, ball, sensitivity, rate, inside, outside))
    # Equal up to rounding counts as equal, and then the hull comes first.
    rows.sort(key=lambda row: (*_sort_key(row, by), row.ball is not space.hull()))
    best = rows[0]
    return NormRanking(tuple(rows), rate, by, best.name, _reason(space, best, by), _notes(rows, by))


# --- pieces -------------------------------------------------------------------------------------


def _calibrated(
    space: SensitivitySpace, candidates: Iterable[str | NormBall] | Mapping[str, NormBall]
) -> dict[str, tuple[NormBall, Sensitivity]]:
    """Each candidate scaled to contain the space, by name."""
    if isinstance(candidates, (str, NormBall)) or not isinstance(candidates, Iterable):
        fail("`candidates` must be a list of names or norm balls, not one string or ball.")
    named: list[tuple[str, str | NormBall]]
    if isinstance(candidates, Mapping):
        named = [(str(name), candidate) for name, candidate in candidates.items()]
    else:
        named = [(c if isinstance(c, str) else repr(c), c) for c in candidates]
    check_filled("candidates", named)
    if len({name for name, _ in named}) < len(named):
        fail("`candidates` must be distinct.")
    out: dict[str, tuple[NormBall, Sensitivity]] = {}
    for name, candidate in named:
        if isinstance(candidate, NormBall):
            sensitivity = space.sensitivity(ball=candidate)
            if not math.isfinite(sensitivity):
                fail(f"The candidate {name!r} is flat and no multiple of it contains the space.")
            out[name] = (candidate.scaled(float(sensitivity)), sensitivity)
        elif check_choice("candidates", candidate, [*LP_NAMES, "hull"]) == "hull":
            out[name] = (space.hull(), Sensitivity(1.0, space.exact))
        else:
            sensitivity = space.sensitivity(p=LP_NAMES[candidate])
            out[name] = (LpBall(space.dim, LP_NAMES[candidate], float(sensitivity)), sensitivity)
    return out


def _relations(
    space: SensitivitySpace, balls: Mapping[str, NormBall]
) -> dict[tuple[str, str], Containment]:
    """Containment of every ordered pair of candidates."""
    out = {}
    for a, ball in balls.items():
        for b, other in balls.items():
            if a == b:
                continue
            if space.exact and ball is space.hull():
                # The hull lies in every convex set around the space: nothing to compute.
                out[a, b] = Containment("inside", GaugeRange(1.0, 1.0, np.zeros(ball.dim)))
            else:
                out[a, b] = containment(ball, other)
    return out


def _row(
    name: str,
    ball: NormBall,
    sensitivity: Sensitivity,
    rate: float,
    inside: tuple[str, ...],
    outside: tuple[str, ...],
) -> RankedNorm:
    moment = covariance(ball, rate)
    variances = np.diag(moment.value)
    error = float(np.sqrt(np.sum(np.diag(moment.standard_error) ** 2)) / ball.dim)
    axes = np.eye(ball.dim)[np.isfinite(ball.gauge(np.eye(ball.dim)))]  # those in the span
    along_axes = [conditional_variance(ball, rate, axis) for axis in axes]
    volume = ball.volume_info
    return RankedNorm(
        name=name,
        ball=ball,
        sensitivity=sensitivity,
        log_volume=Estimate(volume.log_value, volume.standard_error),
        entropy=entropy(ball, rate),
        variance=Estimate(float(variances.mean()), error),
        conditional_variance=float(np.mean(along_axes)) if along_axes else None,
        l1=expected_loss(ball, rate, 1),
        l2=expected_loss(ball, rate, 2),
        linf=expected_loss(ball, rate, np.inf),
        inside=inside,
        outside=outside,
    )


def _sort_key(row: RankedNorm, criterion: str) -> tuple[float, float]:
    """The criterion to nine digits: what differs further down is rounding."""
    rank, value = row.criterion(criterion)
    return (rank, float(f"{value:.9g}"))


def _reason(space: SensitivitySpace, best: RankedNorm, by: str) -> str:
    if best.name == "hull" and by in ("volume", "entropy"):
        if space.exact:
            return "the convex hull of the sensitivity space lies inside every other valid ball"
        return f"smallest volume; {space.how}, so a smaller valid ball may exist"
    if by in ("volume", "entropy"):
        return "smallest volume among the candidates; the hull would be smaller still"
    return f"smallest {CRITERIA[by]} among the candidates"


def _notes(rows: list[RankedNorm], by: str) -> tuple[str, ...]:
    best, notes = rows[0], []
    for criterion, label in CRITERIA.items():
        winner = min(rows, key=lambda row: _sort_key(row, criterion))
        if _sort_key(winner, criterion) < _sort_key(best, criterion):
            notes.append(
                f"Note: {label} prefers {winner.name} to {best.name}. Volume order does not depend "
                "on units, marginal losses do: rank by what you will be judged on."
            )
    ties = [r.name for r in rows[1:] if volume_order(r.ball, best.ball) == 0]
    if by in ("volume", "entropy") and ties:
        notes.append(f"Note: {', '.join(ties)} and {best.name} have the same volume.")
    if any(row.ball.rank < row.ball.dim for row in rows):
        notes.append(
            "Note: some entries are linearly dependent (their total is public); 'dim' is the "
            "number of dimensions in which noise is needed."
        )
    return tuple(notes)


def _record(row: RankedNorm) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": row.name,
        "sensitivity": float(row.sensitivity),
        "sensitivity_exact": row.sensitivity.exact,
        "rank": row.ball.rank,
        "conditional_variance": row.conditional_variance,
        "inside": list(row.inside),
        "outside": list(row.outside),
    }
    for key in ("log_volume", "entropy", "variance", "l1", "l2", "linf"):
        estimate: Estimate = getattr(row, key)
        record[key] = estimate.value
        record[f"{key}_standard_error"] = estimate.standard_error
    return record
