"""Every regression on every odd table: refused before payment, or paid and finite.

Neither whether a fit succeeds nor the words of its refusal may depend on the rows, so tables of one
shape must share their outcome; whatever is paid for must end in finite numbers, in every face.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import TightdpError
from tightdp.mechanisms.linear_fit import LinearFit

FEATURES = 2
BOUNDS = [(-1.0, 3.0), (0.0, 10.0), (-2.0, 2.0)]

Table = tuple[np.ndarray, np.ndarray]


def tables(rows: int) -> dict[str, Table]:
    """Tables on which least squares has no solution, or a strange one; labels are the sign of y."""
    rng = np.random.default_rng(5)
    x = rng.uniform([-1, 0], [3, 10], (rows, FEATURES))
    y = rng.uniform(-2, 2, rows)
    ones = np.ones(rows)
    return {
        "plain": (x, y),
        "middle": (np.outer(ones, [1.0, 5.0]), 0.0 * ones),
        "zero": (0.0 * x, 0.0 * y),
        "corner": (np.outer(ones, [3.0, 10.0]), 2 * ones),
        "one constant column": (np.column_stack([x[:, 0], 5 * ones]), y),
        "one column twice": (np.column_stack([x[:, 0], 2.5 * (x[:, 0] + 1)]), y),
        "on a line": (x, x[:, 0] / 2),
        "outside": (1e300 * x, -1e300 * ones),
        "missing": (np.nan * x, np.nan * y),
        "two rows apart": (np.outer(np.arange(rows) % 2, [3.0, 10.0]), 4.0 * (np.arange(rows) % 2)),
    }


# --- the regressions -----------------------------------------------------------------------------


def named(name: str, **options: Any) -> tuple[str, dict[str, Any]]:
    return name, options


NUMERIC = ("LinearRegression", "Ridge", "QuantileRegression")
LEAST_SQUARES = [
    named(name, fit_intercept=intercept, post=post, noise=noise)
    for name, intercept, post, noise in product(
        ("LinearRegression", "Ridge"),
        (True, False),
        ("shrink", "none", "published"),
        ("best", "split", "hull", "l1", "l2", "linf"),
    )
]
LOGISTIC = [
    named("LogisticRegression", fit_intercept=intercept, **options)
    for intercept, options in product(
        (True, False),
        (
            {"interval_share": 0.25},
            {"noise": "l1"},
            {"noise": "l2", "ridge": 1.0},
            {"l1": 0.5},
            {"theta_set": True},
            {"tune": [{"ridge": 0.0}, {"ridge": 5.0}]},
        ),
    )
]
SPARSE = [
    named("SparseLogisticRegression", fit_intercept=intercept, noise=noise, l1=0.01)
    for intercept, noise in product((True, False), ("best", "staircase"))
]
CLASSES = [named("GaussianNB")]
PLANES = [
    named("QuantileRegression", fit_intercept=intercept, shape=shape)
    for intercept, shape in product((True, False), ("l1", "box"))
]
GRADIENT = [
    named("KNormLinearRegression", fit_intercept=intercept, shape=shape, bits=bits)
    for intercept, shape, bits in product((True, False), ("l1", "box"), (1, 2, 16))
]
LOSSES = [
    named("ObjectivePerturbation", fit_intercept=intercept, loss=loss)
    for intercept, loss in product((True, False), ("huber", "squared"))
]


def outcome(case: tuple[str, dict[str, Any]], epsilon: float, table: Table) -> str:
    """Either the words of a refusal that cost nothing, or "paid" with every number finite."""
    name, options = case
    ledger = tdp.Ledger(epsilon=epsilon, allow_seeded=True)
    numbers: list[Any] = []
    try:
        fitted = MAKERS[name](name, options, epsilon, ledger)(table)
    except TightdpError as error:
        assert ledger.spent.epsilon == 0, "paid, then lost"
        return str(error)
    numbers += fitted
    assert all(np.isfinite(number).all() for number in numbers)
    assert ledger.spent.epsilon > 0
    return "paid"


def _estimator(name: str, options: dict[str, Any], epsilon: float, ledger: Any) -> Callable:
    def run(table: Table) -> list[Any]:
        X, y = table
        given, bounds = dict(options), BOUNDS
        if name not in NUMERIC:
            given["classes"], bounds, y = [0, 1], BOUNDS[:FEATURES], (y > 0).astype(int)
        if given.get("theta_set"):
            given["theta_set"] = tdp.LpBall(FEATURES + given["fit_intercept"], 2, 3.0)
        model = getattr(tdp, name)(
            epsilon=epsilon, bounds=bounds, ledger=ledger, random_state=3, **given
        )
        model.fit(X, y)
        found = [model.predict(X)]
        found += [model.coef_, model.intercept_] if hasattr(model, "coef_") else []
        if hasattr(model, "summary"):
            assert "nan" not in str(model.summary())
        if name in ("LinearRegression", "Ridge"):
            assert not np.isnan(model.conf_int(intercept=True)).any()
        return found

    return run


def _mechanism(name: str, options: dict[str, Any], epsilon: float, ledger: Any) -> Callable:
    def run(table: Table) -> list[Any]:
        X, y = table
        columns = dict(zip(("a", "b", "y"), (tdp.Interval(*pair) for pair in BOUNDS), strict=True))
        given = dict(options)
        schema = tdp.Schema(columns, rows=len(y), bits=given.pop("bits", 20))
        if name == "KNormLinearRegression":
            given["radius"] = 1
        else:
            given["theta_set"] = tdp.LpBall(FEATURES + given["fit_intercept"], 2, 3.0)
        mechanism = getattr(tdp, name)(schema, epsilon=epsilon, **given)
        frame = {"a": X[:, 0], "b": X[:, 1], "y": y}
        return [mechanism.release(frame, ledger=ledger, rng=3).value]

    return run


MAKERS: dict[str, Callable] = dict.fromkeys(
    ("KNormLinearRegression", "ObjectivePerturbation"), _mechanism
) | dict.fromkeys(
    (
        *NUMERIC,
        "LogisticRegression",
        "SparseLogisticRegression",
        "GaussianNB",
    ),
    _estimator,
)


def label(case: tuple[str, dict[str, Any]]) -> str:
    name, options = case
    return f"{name}-" + "-".join(f"{key}={value}" for key, value in options.items())


CASES = LEAST_SQUARES + LOGISTIC + SPARSE + CLASSES + PLANES + GRADIENT + LOSSES
NOISES = ("split", "linf")
QUICK = [
    (name, options)
    for name, options in CASES
    if options.get("post") is None or options["noise"] in NOISES
    if name != "QuantileRegression" or (options["shape"] == "box" and options["fit_intercept"])
]


@pytest.mark.parametrize("case", QUICK, ids=label)
def test_odd_tables_share_one_outcome(case):
    made = tables(3)
    chosen = ["plain", "corner", "missing"]
    found = {key: outcome(case, 1000.0, made[key]) for key in chosen}
    assert set(found.values()) == {"paid"}, found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=label)
def test_odd_tables_share_one_outcome_on_all(case):
    for rows, epsilon in product((1, 2, 200), (0.01, 1.0, 50.0, 1000.0)):
        found = {key: outcome(case, epsilon, table) for key, table in tables(rows).items()}
        assert len(set(found.values())) == 1, found


# --- what was broken -----------------------------------------------------------------------------


@pytest.mark.parametrize("post", ["none", "published"])
def test_a_plane_through_zero_is_found_without_the_square_of_the_target(post, seed):
    """An unknown square of the target made every other moment unknown, after payment."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 3, (20_000, 2))
    y = X @ [0.5, -0.25] + rng.normal(0, 0.1, 20_000)
    model = tdp.LinearRegression(
        epsilon=1000, bounds=[(-1, 3), (-1, 3), (-3, 3)], fit_intercept=False, post=post,
        random_state=seed,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(model.coef_, [0.5, -0.25], atol=0.01)
    low, high = model.conf_int().T
    assert (low < [0.5, -0.25]).all()
    assert (high > [0.5, -0.25]).all()


def test_the_law_sees_a_fit_that_fails_after_payment(monkeypatch):
    def lost(*_: Any) -> None:
        raise tdp.errors.UndecidedError("no solution")

    monkeypatch.setattr(LinearFit, "_published", lost)
    case = named("LinearRegression", fit_intercept=False, post="none", noise="best")
    with pytest.raises(AssertionError, match="paid, then lost"):
        outcome(case, 1.0, tables(12)["plain"])
