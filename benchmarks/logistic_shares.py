"""What the default of private logistic regression loses to the best of its own variants, and why.

    python benchmarks/logistic_shares.py [--part shares|fresh|regret] [--tables 300] [--out FILE]

**Shares.** Errors to the truth of the default and of its variants: ten shares of epsilon for the
noise, with what the ridge took given back (``post="restore"``) and without, and the l1 and l2
balls. ``SETTINGS`` are those of ``logistic_grid.py`` and ten more, with long and with short
parameters. **Fresh** settings are others: other widths, columns, lengths and numbers of rows,
written down before anything was tuned on the first, and not used for tuning. All variants of one
table have the same noise of unit rate. It is continuous, and minimisers are Newton's: what is
exact in a release is too small to be seen here.

**Regret.** The best share depends on how long parameters are, and on the columns, which nobody
knows when a share is chosen. A table of errors, shares by truths, has for every share a worst ratio
to the best share of the same truth; the least of these is what no choice by public facts can beat
there, and that of a mixture of shares, chosen at random, is a linear program. Truths are lengths
from 0.3 to 6 in random directions, of even columns or of four kinds of columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import logistic_grid as grid
import numpy as np
from regression_regret import least

import tightdp as tdp
from tightdp.errors import FloatArray
from tightdp.mechanisms.objective_model import PublicModel
from tightdp.noise.knorm import KNormNoise
from tightdp.randomness import source

SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97)
MORE_SHARES = (*SHARES, 0.99, 1.0)
LENGTHS = (0.3, 1.0, 2.0, 4.0, 6.0)
KINDS = ("even", "two-valued", "narrow .3", "correlated .8")
FACTS = ((2000, 1.0), (5000, 0.25), (5000, 1.0), (20_000, 0.25))


class Setting(NamedTuple):
    """Columns, parameters (the intercept first where there is one), rows and epsilon."""

    columns: str
    effects: str
    theta: tuple[float, ...]
    rows: int
    epsilon: float
    intercept: bool = True


STRONG, LENGTH_3, SMALL = (0, 4, -4, 2), (0, 2, -2, 1), (0, 0.3, -0.3, 0.15)
NAMES = {0.0: "moderate", -3.2: "5 % positive"}
SETTINGS = [
    *(
        Setting(
            s.columns,
            "strong" if s.theta == grid.STRONG else NAMES[s.theta[0]],
            tuple(s.theta),
            s.rows,
            s.epsilon,
        )
        for s in grid.SETTINGS
    ),
    Setting("even", "strong", STRONG, 20_000, 1),
    Setting("even", "strong", STRONG, 5000, 4),
    Setting("even", "strong", STRONG, 50_000, 0.25),
    Setting("even", "strong", STRONG, 2000, 4),
    Setting("even", "length 3", LENGTH_3, 5000, 1),
    Setting("even", "length 3", LENGTH_3, 20_000, 0.25),
    Setting("even", "small", SMALL, 5000, 1),
    Setting("even", "small", SMALL, 50_000, 0.25),
    Setting("skewed", "length 3", LENGTH_3, 20_000, 1),
    Setting("correlated .8", "length 3", LENGTH_3, 20_000, 1),
]
FRESH = [
    Setting("even", "1 column, length 2", (0, 2), 1000, 1),
    Setting("even", "1 column, length 5", (5,), 500, 1, intercept=False),
    Setting("two-valued", "2 columns, length 1.5", (0.5, 1, -1), 5000, 0.5),
    Setting("two-valued", "3 columns, length 3", (0, 2, -2, 1), 2000, 1),
    Setting("narrow .3", "3 columns, length 4.5", (0, 3, -3, 1.5), 10_000, 1),
    Setting("narrow .3", "2 columns, length 1.4", (0, 1, 1), 20_000, 0.5),
    Setting("correlated .8", "6 columns, length 1.9", (0, 1, -1, 0.5, -0.5, 1, 0), 20_000, 1),
    Setting("even", "6 columns, length 3.3", (0, 2, -2, 1, 1, -1, 0), 5000, 2),
    Setting(
        "even",
        "10 columns, length 2.2",
        (0, 1, -1, 0.5, 0.5, -0.5, 0.5, 0, 0, 1, -1),
        20_000,
        1,
    ),
    Setting("even", "10 columns, length 5.7", (0, 3, -3, 2, 2, -2, 1, 0, 0, 1, -1), 50_000, 0.5),
    Setting("skewed", "6 columns, length 1.9", (-0.5, 1, -1, 0.5, 0, 0, 1), 100_000, 0.125),
    Setting("even", "2 columns, length .3", (0, 0.2, -0.2), 5000, 1),
    Setting("even", "2 columns, length .3", (0, 0.2, -0.2), 100_000, 0.25),
    Setting("even", "1 column, length 4.5", (-2, 4), 10_000, 0.25),
    Setting("mixed", "3 columns, length 3.7", (0, 1, -2, 3), 5000, 1),
    Setting("two-valued .1", "3 columns, length 2", (-1, 1, 1, -1), 20_000, 0.5),
    Setting("even", "3 columns, length 3", (2, -2, 1), 2000, 4, intercept=False),
    Setting("correlated .95", "2 columns, length 2.2", (0, 2, -1), 50_000, 1),
    Setting("even", "6 columns, length 5.6", (0, 3, -3, 2, -2, 2, 1), 100_000, 0.125),
    Setting("two-valued", "10 columns, length 1.6", (0.5,) * 10, 10_000, 1, intercept=False),
    Setting("even", "3 columns, length 5", (1, 3, -3, 2.5), 500, 4),
    Setting("skewed", "1 column, length 3.2", (1, -3), 2000, 0.5),
]


def cells(kind: str, rows: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Columns within [-1, 1]."""
    if kind.startswith("two-valued"):
        share = float(kind.split()[1]) if " " in kind else 0.5
        return 2.0 * (rng.random((rows, width)) < share) - 1.0
    if kind.startswith("narrow"):
        return float(kind.split()[1]) * rng.uniform(-1, 1, (rows, width))
    if kind == "mixed":
        kinds = ("even", "two-valued", "narrow .3")
        return np.hstack([cells(kinds[j % 3], rows, 1, rng) for j in range(width)])
    return grid.cells(kind, rows, width, rng)


def expit(margin: FloatArray) -> FloatArray:
    """1 / (1 + exp(-margin))."""
    return np.asarray(0.5 * (1 + np.tanh(margin / 2)))


def minimiser(
    table: tuple[FloatArray, FloatArray], ridge: float, tilt: FloatArray, near: FloatArray
) -> FloatArray:
    """Of the tilted loss, by Newton's steps from a point that is near, halved if need be."""
    (rows, target), theta = table, near
    goal = rows.T @ target

    def look(at: FloatArray) -> tuple[FloatArray, FloatArray]:
        chance = expit(rows @ at)
        return chance, rows.T @ chance - goal + ridge * at + tilt

    chance, gradient = look(theta)
    for _ in range(60):
        hessian = (rows.T * (chance * (1 - chance))) @ rows + ridge * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        for halving in range(30):
            nearer = theta - step / 2.0**halving
            fresh, left = look(nearer)
            if np.linalg.norm(left) < np.linalg.norm(gradient):
                break
        theta, chance, gradient = nearer, fresh, left
        if np.linalg.norm(step) < 1e-7 * (1 + np.linalg.norm(theta)):
            break
    return theta


class Variant(NamedTuple):
    """A mechanism, and the public model that gives back what its ridge took."""

    fit: tdp.ObjectivePerturbation
    model: PublicModel

    @classmethod
    def of(cls, setting: Setting, **options: Any) -> Variant | None:
        """None where nothing is left for the ridge."""
        width = len(setting.theta) - setting.intercept
        facts = {f"x{j}": tdp.Interval(-1, 1) for j in range(width)}
        schema = tdp.Schema({**facts, "y": tdp.Category([0, 1], other=0)}, rows=setting.rows)
        common = {"epsilon": setting.epsilon, "fit_intercept": setting.intercept}
        try:
            fit = tdp.ObjectivePerturbation(schema, **common, **options)
        except tdp.TightdpError:
            return None
        return cls(fit, PublicModel(fit))

    def theta(self, table: tuple[FloatArray, FloatArray], key: int, near: FloatArray) -> FloatArray:
        """The minimiser of a table, before anything is made of it."""
        chosen = self.fit.calibration
        unit = KNormNoise(self.fit.ball, 1.0).sample(1, rng=source(key))[0]
        return minimiser(table, chosen.ridge, unit / chosen.rate, near)


def draw(setting: Setting, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rows, with a constant for the intercept, and labels."""
    x = cells(setting.columns, setting.rows, len(setting.theta) - setting.intercept, rng)
    if setting.intercept:
        x = np.column_stack([np.ones(len(x)), x])
    return x, (rng.random(len(x)) < expit(x @ np.array(setting.theta))).astype(float)


def listed(setting: Setting) -> dict[str, Variant]:
    """The default, what it was before, and all that it is compared with."""
    asked: dict[str, dict[str, Any]] = {
        "default": {"post": "restore"},
        "before": {},
        **{f"{share:g}": {"noise_share": share} for share in SHARES},
        **{noise: {"noise": noise, "post": "restore"} for noise in ("l1", "l2")},
        **{f"{noise} before": {"noise": noise} for noise in ("l1", "l2")},
    }
    made = {name: Variant.of(setting, **options) for name, options in asked.items()}
    return {name: variant for name, variant in made.items() if variant is not None}


def errors(setting: Setting, seed: Sequence[int], tables: int) -> dict[str, float]:
    """Median distances from the truth; "restored" beside the name where the pull is undone."""
    truth, found = np.array(setting.theta), dict[str, list[float]]()
    variants = listed(setting)
    for key in range(tables):
        table = draw(setting, np.random.default_rng([*seed, key]))
        for name, variant in variants.items():
            theta = variant.theta(table, 1000 * key + seed[-1], truth)
            made = {}
            if name not in ("default", "l1", "l2"):
                made[name] = theta
            if "before" not in name:
                made[f"{name} restored"] = variant.model.restore(theta)
            for each, value in made.items():
                found.setdefault(each, []).append(float(np.linalg.norm(value - truth)))
    out = {name: float(np.median(some)) for name, some in found.items()}
    chosen = {name: variants[name].fit.calibration.noise_share for name in ("default", "before")}
    return out | {f"share of the {name}": share for name, share in chosen.items()}


def share_rows(settings: Sequence[Setting], seed: int, tables: int) -> list[str]:
    """The table of all settings, and its summary."""
    lines, ratios = [" | ".join(COLUMNS), "---|" * (len(COLUMNS) - 1) + "---"], []
    for place, setting in enumerate(settings):
        found = errors(setting, [seed, place], tables)
        shares = [found.pop(f"share of the {name}") for name in ("default", "before")]
        best = min(found, key=lambda name: found[name])
        bare = min(value for name, value in found.items() if "restored" not in name)
        default, before = found["default restored"], found["before"]
        ratios.append((default / found[best], before / bare, default / before))
        lines.append(
            f"{setting.columns} | {setting.effects} | {setting.rows:,} | {setting.epsilon:g} | "
            f"{shares[0]:g} | {ratios[-1][0]:.2f} ({best}) | {ratios[-1][1]:.2f} ({shares[1]:g}) | "
            f"{ratios[-1][2]:.2f}"
        )
        print(f"| {lines[-1]} |", flush=True)
    lines = [f"| {line} |" for line in lines]
    for name, column in zip(
        ("default", "before", "default / before"), np.array(ratios).T, strict=True
    ):
        lines.append(
            f"\n{name}: median {np.median(column):.3f}, mean {column.mean():.3f}, above 1.05 in "
            f"{(column > 1.05).sum()} of {len(column)}, worst {column.max():.2f}"
        )
    return lines


# --- regret ---------------------------------------------------------------------------------------


def truth_errors(rows: int, epsilon: float, tables: int) -> tuple[FloatArray, FloatArray]:
    """Median errors without and with the pull given back: (shares, kinds, lengths)."""
    base = Setting("even", "", (0.0,) * 4, rows, epsilon)
    variants = [Variant.of(base, noise_share=share) for share in MORE_SHARES]
    made = [variant for variant in variants if variant is not None]
    out = np.empty((2, len(made), len(KINDS), len(LENGTHS), tables))
    for place, key in np.ndindex(len(KINDS) * len(LENGTHS), tables):
        kind, length = divmod(place, len(LENGTHS))
        rng = np.random.default_rng([79, rows, place, key])
        way = rng.standard_normal(4)
        truth = LENGTHS[length] * way / np.linalg.norm(way)
        table = draw(base._replace(columns=KINDS[kind], theta=tuple(truth)), rng)
        for i, variant in enumerate(made):
            theta = variant.theta(table, key, truth)
            for j, value in enumerate((theta, variant.model.restore(theta))):
                out[j, i, kind, length, key] = np.linalg.norm(value - truth)
    bare, restored = np.median(out, axis=-1)
    return bare, restored


def regret_rows(tables: int) -> list[str]:
    """For every number of rows and epsilon: the least worst ratio, and that of the default."""
    lines = [" | ".join(REGRETS), "---|" * (len(REGRETS) - 1) + "---"]
    for rows, epsilon in FACTS:
        base = Setting("even", "", (0.0,) * 4, rows, epsilon)
        for post, found in zip(
            ("none", "restore"), truth_errors(rows, epsilon, tables), strict=True
        ):
            default = Variant.of(base, post=post)
            assert default is not None
            share = default.fit.calibration.noise_share
            for name, kinds in (("even", slice(0, 1)), ("all four", slice(None))):
                some = found[:, kinds]
                best = some.min(axis=0)
                place, one, mixture = least(some, best)
                near = int(np.abs(np.array(MORE_SHARES[: len(found)]) - share).argmin())
                own = float((some[near] / best).max())
                lines.append(
                    f"{rows:,} | {epsilon:g} | {post} | {name} | {one:.2f} "
                    f"({MORE_SHARES[place]:g}) | {mixture:.2f} | {own:.2f} ({share:g})"
                )
                print(f"| {lines[-1]} |", flush=True)
    return [f"| {line} |" for line in lines]


COLUMNS = (
    *("columns", "effects", "rows", "epsilon", "share"),
    *("over the best of all", "before, over the best of its own", "error / before"),
)
REGRETS = (
    *("rows", "epsilon", "post", "columns"),
    *("least worst ratio (share)", "of mixtures", "default (share)"),
)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("shares", "fresh", "regret"), default="shares")
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part == "regret":
        lines = regret_rows(given.tables)
    else:
        place = ("shares", "fresh").index(given.part)
        lines = share_rows((SETTINGS, FRESH)[place], 77 + place, given.tables)
    print("\n".join(lines[-3:]))
    if given.out:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
