"""Test errors of private naive Bayes and sparse logistic regression, and the time of a fit.

    python benchmarks/learners.py [--out FILE] [--splits 100] [--draws 50] [--data FOLDER]

The data sets are those of the experiments of [5] that lie in ``FOLDER``; those that do not are left
out, and so are the tables without any. Bounds, levels and classes are public facts written in
``uci.py``, from the descriptions of the data sets: nothing is scaled by the data. Every split
trains on 80 % of the rows. Nothing is written without ``--out``.

The analysis, fixed before these runs were looked at:

* Question: with the same (epsilon, delta) for every statistic, does designed noise (least power)
  have a smaller test error than truncated Laplace noise? For coordinate descent, does designed
  noise that depends on the data, against both? [5] says yes, at (1, 0.1).
* Measures, each a mean over the noises of a split: ``error``, the share of wrong test rows
  (primary); ``log loss``, minus the mean log probability of the true class (secondary);
  ``changed``, the share of test rows whose class is not the one predicted without noise
  (secondary). Noise can lower the first two, as a penalty does; it cannot lower the third.
* Noises: compared methods get the same uniforms, each noise being its quantile there, in pairs u
  and 1 - u (``coupled_noise.py``): 50 in every split for naive Bayes and 40 for coordinate
  descent, 8 where more than 10,000 rows train. Methods that are not compared have a tenth as many,
  2 at least.
* Tests: by data set the paired one-sided t-test of [5] over 100 splits, Holm-corrected over the
  data sets of the table; and one pooled test, the same t-test on the mean over data sets of the
  differences of a split. A claim of [5] holds here if the pooled p of the primary measure at
  (1, 0.1) is below 0.05; each learner has its own. All this speaks of these data sets, for splits
  and noises to come, not of others.
* Budgets: (1, 0.1) for every statistic as in [5]; (5, 1e-4), where truncated Laplace noise is far
  from optimal; (1, 1e-5) for everything together, where an entry gets so little that designed noise
  is truncated Laplace noise, and nothing is tested.
* The data-dependent noise: half a sensitivity fine from -10 to 10 and two outer intervals, as in
  [5], on cells of a quarter; an interval weighs what N(0, n/10) gives it, a public guess of a sum
  of n slopes; at no true value may its power exceed the best without data by more than a hundredth.
  At (5, 1e-4) such a design is no better than one without data (power 0.030): it has no column.
"""

from __future__ import annotations

import argparse
import copy
import math
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from coupled_noise import CoupledSteps, NoNoise, class_noise, uniforms
from paired_tests import comparison, head, line
from scipy import special, stats
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.naive_bayes import GaussianNB as PlainGaussian
from uci import DATA_SETS, between

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduce` is not installed

import tightdp as tdp
from reproduce.tables import data_folder
from tightdp.data.class_moments import ClassMoments
from tightdp.data.one_pass import blocks
from tightdp.inference.class_tables import log_joint, read_classes
from tightdp.mechanisms.coordinate_descent import CoordinateDescent
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.randomness import source
from tightdp.shaping.shared_costs import composed_delta, group_cost

DATA = data_folder() / "uci"
TEST_ROWS = 2000  # of a large data set, in every split
MANY_ROWS = 10_000  # where noise hardly matters and descents take long: fewer draws
Each = tuple[float, float]  # epsilon and delta of every statistic, or of every step
STATED: Each = (1.0, 0.1)  # in [5]
WEAK: Each = (5.0, 1e-4)  # where the best noise is far from truncated Laplace noise
REAL = {"epsilon": 1.0, "delta": 1e-5}  # of everything together
NEARLY_ONE = 1 - Fraction(1, 10**40)  # what (1, 0.1) on everything leaves of delta
PASSES = 3  # of coordinate descent with (1, 0.1) in every step
STEP_SIZE = 4.0  # the same for all methods: they differ by their noise alone
TRUNCATED, DESIGNED, RANGE = "truncated Laplace", "designed", "data-dependent"
COMPARED = (TRUNCATED, DESIGNED, RANGE)
PAIRS = ((DESIGNED, TRUNCATED), (RANGE, TRUNCATED), (RANGE, DESIGNED))
Found = dict[str, list[Any]]


# --- splits, columns and measures -----------------------------------------------------------------


def split(rows: int, number: int) -> tuple[Any, Any]:
    """Training and test rows of a split; a large test set is thinned."""
    order = np.random.default_rng(number).permutation(rows)
    cut = round(0.8 * rows)
    return order[:cut], order[cut:][:TEST_ROWS]


def one_of_many(frame: pd.DataFrame, schema: tdp.Schema) -> tuple[pd.DataFrame, tdp.Schema]:
    """Levels of categories as columns of 0 and 1, all but the first; numbers as they are."""
    out, facts = {}, {}
    *names, target = list(schema)
    for name in names:
        column = schema[name]
        if isinstance(column, tdp.Interval):
            out[name], facts[name] = pd.to_numeric(frame[name], errors="coerce"), column
            continue
        for level in column.levels[1:]:
            label = f"{name}={level}"
            same = frame[name].astype(str) == str(level)
            out[label], facts[label] = same.astype(float), between(0, 1)
    facts[target], out[target] = schema[target], frame[target]
    return pd.DataFrame(out), tdp.Schema(facts, rows=schema.rows, bits=8)


def scaled(frame: pd.DataFrame, schema: tdp.Schema, names: list[str]) -> Any:
    """Rows as the estimators see them."""
    facts = tdp.Schema(schema.select(names), rows=len(frame), bits=24)
    cells = np.concatenate([block.matrix(names) for block in blocks(frame, facts, names)])
    scale = [1.0 if hasattr(facts[name], "levels") else 2.0**facts.bits for name in names]
    return cells / np.array(scale)


def measured(joint: Any, truth: Any, plain: Any) -> list[float]:
    """Error, log loss and changed predictions, from log probabilities up to a constant a row."""
    guess = joint.argmax(axis=1)
    own = joint[np.arange(len(truth)), truth]
    loss = special.logsumexp(joint, axis=1) - own
    return [float(np.mean(guess != truth)), float(loss.mean()), float(np.mean(guess != plain))]


def count_of(method: str, draws: int, each: Each | None) -> int:
    """How many draws a method gets in a split: methods that are compared get all."""
    return draws if each and method in COMPARED else 2 * max(1, draws // 20)


# --- noises --------------------------------------------------------------------------------------


@lru_cache
def laws(each: Each) -> dict[str, Any]:
    """The rivals of [5] for one statistic of sensitivity 1."""
    given = {"epsilon": each[0], "delta": each[1]}
    rivals = {
        "Laplace": tdp.Laplace(epsilon=each[0]),
        "analytic Gaussian": tdp.AnalyticGaussian(**given),
        TRUNCATED: tdp.TruncatedLaplace(**given),
        DESIGNED: tdp.design_noise(**given, loss="l2"),  # the noise power, as in [5]
    }
    if each == WEAK:
        del rivals["analytic Gaussian"]  # narrower than a count: it has no place on integers
    return rivals


def range_design(each: Each, rows: int) -> tdp.DataDependentDesign:
    """Noise that depends on the slope: see the analysis in the docstring of the module."""
    inner = [i / 2 for i in range(-20, 21)]
    share = np.diff(stats.norm.cdf([-np.inf, *inner, np.inf], scale=math.sqrt(rows / 10)))
    power = float(laws(each)[DESIGNED].upper)
    return tdp.design_data_dependent_noise(
        epsilon=each[0],
        delta=each[1],
        sensitivity=1,
        query_range=(-11, 11),
        resolution=4,
        partition=[-11, *inner, 11],
        weights=[round(max(p, q), 6) for p, q in zip(share, share[::-1], strict=True)],
        instance_optimal=round(1.01 * power, 6),
        loss="l2",
    )


def total(entries: int, ends: int) -> tuple[float, float]:
    """What (1, 0.1) on every entry costs in total: the sum of epsilons, and the delta there."""
    entry = group_cost(Fraction(1), Fraction(1, 10), ends)
    epsilon = entries * entry[0]
    return float(epsilon), float(composed_delta(*entry, entries, epsilon))


# --- naive Bayes ---------------------------------------------------------------------------------


def class_mechanisms(moments: ClassMoments, each: Each | None) -> dict[str, ClassMechanism]:
    """A mechanism for every method: a budget for each statistic, or (1, 1e-5) for all."""
    if each is None:
        made = {
            "Laplace": ClassMechanism(moments, noise="laplace", **REAL),
            "analytic Gaussian": ClassMechanism(moments, noise="gaussian", **REAL),
            TRUNCATED: ClassMechanism(moments, noise="truncated-laplace", **REAL),
        }
        return {**made, "body": ClassMechanism(moments, epsilon=REAL["epsilon"])}
    epsilon = 2 * moments.layout.touched * each[0]
    found = {
        name: ClassMechanism(moments, noise=law, epsilon=epsilon, delta=NEARLY_ONE)
        for name, law in laws(each).items()
    }
    return {**found, "body": ClassMechanism(moments, epsilon=epsilon)}


def naive_bayes(
    name: str, frame: pd.DataFrame, *, each: Each | None, splits: int, draws: int
) -> Found:
    """Measures by method, shape (splits, measures), means over the noises of a split."""
    facts, rows = DATA_SETS[name], len(frame)
    schema = facts.schema(round(0.8 * rows), "label")
    names = list(schema)[:-1]
    moments = ClassMoments(schema, names, "label")
    mechanisms = class_mechanisms(moments, each)
    found: Found = {method: [] for method in ["none", *mechanisms]}
    for number in range(splits):
        train, test = split(rows, number)
        cells = scaled(frame.iloc[test], schema, names)
        truth = pd.Index(moments.classes).get_indexer(frame["label"].iloc[test])

        def joint(values: Any, covariance: Any, cells: Any = cells) -> Any:
            table = read_classes(moments, values, covariance)
            return log_joint(table, moments.layout, names, cells)

        sums = np.array(moments.measure(frame.iloc[train]), dtype=np.float64)
        sums /= moments.resolution(schema.bits)
        quiet = joint(sums, np.zeros((len(sums), len(sums))))
        plain = quiet.argmax(axis=1)
        found["none"].append(measured(quiet, truth, plain))
        u = uniforms(draws, len(sums), [1, number])
        for method, mechanism in mechanisms.items():
            exact = np.array(mechanism.exact(frame.iloc[train]), dtype=np.float64)
            noise = class_noise(mechanism, u[: count_of(method, draws, each)], number)
            covariance = mechanism._choice.covariance()
            values = exact / mechanism.resolution + noise
            each_draw = [measured(joint(v, covariance), truth, plain) for v in values]
            found[method].append(np.mean(each_draw, axis=0))
    return {method: np.array(measures) for method, measures in found.items()}


# --- sparse logistic regression ------------------------------------------------------------------


def descents(schema: tdp.Schema, each: Each | None) -> dict[str, CoordinateDescent]:
    """A mechanism for every method: a budget for each step, or (1, 1e-5) for all."""
    if each is None:
        names = {"Laplace": "laplace", "analytic Gaussian": "gaussian"}
        names[TRUNCATED] = "truncated-laplace"
        return {
            name: CoordinateDescent(schema, noise=noise, **REAL) for name, noise in names.items()
        }
    spent = PASSES * len(schema.columns) * each[0]
    noises = dict(laws(each))
    if each == STATED:
        noises[RANGE] = range_design(each, schema.rows)
    given = {"epsilon": spent, "delta": NEARLY_ONE, "passes": PASSES, "step_size": STEP_SIZE}
    return {name: CoordinateDescent(schema, noise=law, **given) for name, law in noises.items()}


def sparse(name: str, frame: pd.DataFrame, *, each: Each | None, splits: int, draws: int) -> Found:
    """Measures by method, shape (splits, measures), means over the noises of a split."""
    rows = len(frame)
    wide, schema = one_of_many(frame, DATA_SETS[name].schema(round(0.8 * rows), "two"))
    names = list(schema)[:-1]
    mechanisms = descents(schema, each)
    some = next(iter(mechanisms.values()))
    draws = draws if schema.rows <= MANY_ROWS else max(2, draws // 5)
    found: Found = {method: [] for method in ["scikit-learn", "none", *mechanisms]}
    for number in range(splits):
        train, test = split(rows, number)
        cells = scaled(wide.iloc[test], schema, names)
        truth = (wide["two"].iloc[test] == "yes").to_numpy().astype(np.int64)
        z = some.rows(wide.iloc[train])

        def joint(mechanism: CoordinateDescent, noise: Any, cells: Any = cells, z: Any = z) -> Any:
            quick = copy.copy(mechanism)
            quick.noise = noise
            h = quick.descend(z, source(0)) / 2**20  # the source is not used
            margin = cells @ h[:-1] + h[-1]
            return np.column_stack([np.zeros(len(margin)), margin])

        learner = PlainLogistic(C=1e4, max_iter=2000)
        learner.fit(scaled(wide.iloc[train], schema, names), wide["two"].iloc[train] == "yes")
        known = np.column_stack([np.zeros(len(cells)), learner.decision_function(cells)])
        quiet = joint(some, NoNoise())
        plain = quiet.argmax(axis=1)
        found["scikit-learn"].append(measured(known, truth, plain))
        found["none"].append(measured(quiet, truth, plain))
        u = uniforms(draws, some.steps, [2, number])
        for method, mechanism in mechanisms.items():
            noise = CoupledSteps(mechanism.noise, u[: count_of(method, draws, each)])
            each_draw = [measured(joint(mechanism, noise), truth, plain) for _ in noise.descents()]
            found[method].append(np.mean(each_draw, axis=0))
    return {method: np.array(measures) for method, measures in found.items()}


# --- tables --------------------------------------------------------------------------------------


def error_tables(
    frames: dict[str, pd.DataFrame], learner: Callable[..., Found], *, jobs: int, **options: Any
) -> list[str]:
    """Mean test errors in per cent, and the comparisons of designed noise."""
    costly = sorted(frames, key=lambda name: -frames[name].size)  # these begin first
    with ProcessPoolExecutor(jobs) as pool:
        one = partial(learner, **options)
        waiting = {name: pool.submit(one, name, frames[name]) for name in costly}
        found = {name: waiting[name].result() for name in frames}
    methods = list(next(iter(found.values())))
    out = head(["data set", "n", *methods])
    for name, by_method in found.items():
        cells = [f"{100 * by_method[method][:, 0].mean():.2f}" for method in methods]
        out.append(line([name, len(frames[name]), *cells]))
    for ours, theirs in PAIRS:
        if ours in methods and theirs in methods:
            out += ["", *comparison(found, ours, theirs)]
    print("\n".join(out), flush=True)
    return out


def speed() -> list[str]:
    """Seconds of a fit on a million rows, the best of three."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 10**6)
    X = rng.normal(size=(10**6, 20)) + y[:, None]
    models: dict[str, Any] = {
        "scikit-learn": PlainGaussian(),
        "tightdp": tdp.GaussianNB(bounds=(-5, 8), classes=[0, 1, 2]),
    }
    best = dict.fromkeys(models, math.inf)
    for _ in range(3):
        for name, model in models.items():
            begun = time.perf_counter()
            model.fit(X, y)
            best[name] = min(best[name], time.perf_counter() - begun)
    rows = head(["GaussianNB, 1,000,000 x 20", "seconds"])
    rows += [line([name, f"{seconds:.2f}"]) for name, seconds in best.items()]
    return [*rows, line(["ratio", f"{best['tightdp'] / best['scikit-learn']:.2f}"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="*", default=list(DATA_SETS))
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    options = parser.parse_args()
    text = [
        "# Naive Bayes and sparse logistic regression",
        "",
        f"tightdp {tdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}. "
        "Written by `benchmarks/learners.py`, whose docstring has the analysis: what is measured "
        "and tested was fixed before these runs.",
        "",
        *speed(),
    ]
    read = {name: DATA_SETS[name].read(options.data) for name in options.only}
    frames = {name: frame for name, frame in read.items() if frame is not None}
    if frames:
        size = {"splits": options.splits, "draws": options.draws, "jobs": options.jobs}
        made = (TABLES[name](frames, **size) for name in options.tables)
        for part in chain([explained(options.splits, options.draws)], made):
            text += ["", *part]
            if options.out:  # after every table: they take a while
                options.out.write_text("\n".join(text) + "\n")
    print("\n".join(text))


def explained(splits: int, draws: int) -> list[str]:
    """What the columns are."""
    ratios = [
        float(laws(each)[DESIGNED].upper) / laws(each)[TRUNCATED].variance()
        for each in (STATED, WEAK)
    ]
    return [
        f"Mean test errors in per cent over {splits} random splits (80 % of the rows train, at "
        f"most {TEST_ROWS} test). Compared methods have {draws} noises in every split with naive "
        f"Bayes and {4 * draws // 5} with coordinate descent ({4 * draws // 25} on the two large "
        "data sets), from the same uniforms; others have a tenth. `none` is the same estimator "
        "without noise.",
        "",
        "Below each table are paired differences, with standard errors over splits in brackets: "
        "negative is better for the first method. `error` and `changed` (the share of test rows "
        "whose class the noise has changed) are in per cent, `log loss` in thousandths of a nat. "
        "p: one-sided, Holm-corrected over the data sets; the last row is the pooled test. The "
        "default of `var_smoothing` was once chosen with an eye on the errors of `none` on ten of "
        "these data sets, which may flatter all methods of naive Bayes alike.",
        "",
        f"Designed noise has {ratios[0]:.2f} of the power of truncated Laplace noise at (1, 0.1), "
        f"and {ratios[1]:.2f} at (5, 1e-4).",
    ]


def narrow(frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """On wide tables (5, 1e-4) for everything is more than the package agrees to release."""
    return {name: frame for name, frame in frames.items() if frame.shape[1] <= 40}


def nb_stated(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    some = total(10, 2)
    return [
        "## Naive Bayes, (1, 0.1) for every statistic",
        "",
        "This is the noise of [5]: every count and moment has a law of its own for (1, 0.1). It is "
        f"far from (1, 0.1) in total: ten entries cost ({some[0]:g}, {some[1]:.3f}). `body` has "
        "the sum of the epsilons and delta = 0.",
        "",
        *error_tables(frames, naive_bayes, each=STATED, **size),
    ]


def nb_weak(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    return [
        "## Naive Bayes, (5, 1e-4) for every statistic",
        "",
        *error_tables(narrow(frames), naive_bayes, each=WEAK, **size),
    ]


def nb_total(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    return [
        "## Naive Bayes, (1, 1e-5) for everything together",
        "",
        "`body` spends epsilon = 1 and no delta.",
        "",
        *error_tables(frames, naive_bayes, each=None, **size),
    ]


def descent_stated(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    return [
        f"## Sparse logistic regression, (1, 0.1) for every step, {PASSES} passes",
        "",
        *error_tables(frames, sparse, each=STATED, **fewer(size)),
    ]


def descent_weak(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    return [
        f"## Sparse logistic regression, (5, 1e-4) for every step, {PASSES} passes",
        "",
        *error_tables(narrow(frames), sparse, each=WEAK, **fewer(size)),
    ]


def descent_total(frames: dict[str, pd.DataFrame], **size: int) -> list[str]:
    return [
        "## Sparse logistic regression, (1, 1e-5) for all steps together",
        "",
        "Passes and sizes of steps are those that the package chooses; `none` has those of Laplace "
        "noise.",
        "",
        *error_tables(frames, sparse, each=None, **fewer(size)),
    ]


def fewer(size: dict[str, int]) -> dict[str, int]:
    """Coordinate descent takes longer: fewer draws."""
    return size | {"draws": 4 * size["draws"] // 5}


TABLES = {
    "nb-stated": nb_stated,
    "nb-weak": nb_weak,
    "nb-total": nb_total,
    "descent-stated": descent_stated,
    "descent-weak": descent_weak,
    "descent-total": descent_total,
}


if __name__ == "__main__":
    main()
