"""Every kind reads the columns that are meant, and its key means one thing."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp import functions
from tightdp.errors import ParameterError
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.means import MeanMechanism
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.plans import request
from tightdp.registry import KINDS

ROWS = 60
FACTS = tdp.Schema(
    {
        "x": tdp.Interval(0, 1),
        "w": tdp.Interval(0, 1),
        "t": tdp.Category([0, 1], other=0),
        "y": tdp.Interval(0, 1),
    },
    rows=ROWS,
)
MATRIX = np.column_stack(
    [np.linspace(0, 1, ROWS), np.linspace(1, 0, ROWS) ** 2, np.arange(ROWS) % 2, np.full(ROWS, 0.3)]
)
ASKED = {
    "sum": {"columns": ["y", "x"]},
    "mean": {"columns": ["y", "x"]},
    "variance": {"columns": ["w"]},
    "count": {"columns": ["t"]},
    "flags": {"columns": ["t"], "at_most": 1},
    "capped_sum": {"columns": ["y", "w"], "at_most": 1},
    "histogram": {"column": "w", "bins": 3},
    "share": {"column": "y", "high": 0.5},
    "proportion_test": {"column": "y", "high": 0.5},
    "missing_rate": {"columns": ["w", "t"]},
    "goodness_of_fit": {"column": "w", "bins": 3},
    "independence_test": {"by": ["t", ("w", 2)]},
    "kolmogorov_test": {"column": "w", "by": "t", "bins": 3},
    "rank_test": {"column": "w", "by": "t", "bins": 3},
    "means_test": {"column": "w", "by": "t"},
    "correlation_test": {"columns": ["y", "w"]},
    "population_mean": {"columns": ["y", "w"]},
    "coefficient_test": {"features": ["y", "w"], "target": "x", "tested": ["y - w"]},
    "products": {"terms": ["w", "x"]},
    "moments": {"features": ["w", "y"], "target": "x"},
    "quantile": {"column": "w", "tau": 0.25},
    "median": {"column": "y"},
    "quantiles": {"column": "w", "taus": [0.25, 0.5]},
    "sample": {"column": "w", "bins": 4},
    "linear_regression": {"features": ["y", "w"], "target": "x"},
    "ridge": {"features": ["w"], "target": "x"},
    "sparse_regression": {"features": ["y", "w"], "target": "x"},
    "logistic_regression": {"features": ["w", "x"], "target": "t"},
    "poisson_regression": {"features": ["w"], "target": "x"},
    "negative_binomial_regression": {"features": ["w"], "target": "x", "dispersion": 0.5},
    "huber_regression": {"features": ["w"], "target": "x", "threshold": 1},
    "quantile_regression": {"features": ["w"], "target": "x"},
    "naive_bayes": {"features": ["w"], "target": "t"},
    "covariance": {"columns": ["y", "w"], "norm": 1},
    "density": {"columns": ["w", "x"], "bins": 2},
    "synthetic_rows": {"columns": ["w", "x"], "tables": [["w", "x"]], "bins": {"w": 2}},
    "tables": {"tables": ["t", ["t", "w"]], "bins": {"w": 3}},
}


def test_the_page_on_plans_lists_every_kind_in_its_own_words():
    text = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
    section = text.partition("## Kinds\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.M)
    assert sorted(told) == sorted((kind.name, kind.about) for kind in KINDS.values())


def test_every_kind_is_here():
    assert {*ASKED, "find_rows_per_person"} == set(KINDS)  # a matrix has no column of persons


@pytest.mark.parametrize("kind", ASKED)
def test_a_matrix_is_read_in_the_order_of_the_schema(kind, seed):
    """Models read a matrix in the order of their features: another question, in silence."""
    asked = request(kind, FACTS, epsilon=5, **ASKED[kind])
    mapping = {name: MATRIX[:, j] for j, name in enumerate(FACTS)}
    asked.check(MATRIX)
    found = [asked.release(table, rng=seed).value for table in (MATRIX, mapping)]
    np.testing.assert_array_equal(*found)


def test_a_colon_in_a_name_is_part_of_it(seed):
    facts = tdp.Schema(dict.fromkeys(["a", "b", "a:b", "y"], tdp.Interval(0, 1)), rows=ROWS)
    asked = request("linear_regression", facts, epsilon=5, features=["a:b"], target="y")
    assert asked.columns == ("a:b", "y")
    table = dict.fromkeys(facts, MATRIX[:, 0])
    assert asked.release(table, rng=seed).names == ("intercept", "a:b")


def test_columns_in_another_order_are_another_question(seed):
    """Sets were told apart by what they hold, and used in the order in which they hold it."""
    table = {"x": MATRIX[:, 0], "w": MATRIX[:, 1], "t": MATRIX[:, 2].astype(int)}
    ledger = tdp.Ledger(10, allow_seeded=True)

    def fit(features):
        model = ObjectivePerturbation(FACTS, features, "t", epsilon=1, noise_share=0.9)
        return model.release(table, ledger=ledger, key="k", rng=seed)

    first = fit({"x": 0, "w": 0}.keys())
    assert fit(["x", "w"]).value.tolist() == first.value.tolist()
    with pytest.raises(ParameterError, match="another"):
        fit({"w": 0, "x": 0}.keys())


@pytest.mark.parametrize("progress", [np.array([[1, 2], [3, 4]]), "yes", None])
@pytest.mark.parametrize("name", ["sum", "median"])
def test_a_wrong_flag_costs_nothing(name, progress):
    ledger = tdp.Ledger(5)
    column = ["x"] if name == "sum" else "x"
    options = {"schema": FACTS, "epsilon": 1, "ledger": ledger, "progress": progress}
    with pytest.raises(ParameterError, match="progress"):
        getattr(tdp, name)(MATRIX, column, **options)
    assert ledger.spent.epsilon == 0


def test_a_screen_that_cannot_be_written_stops_no_release(monkeypatch):
    class Broken:
        def write(self, text):
            raise OSError("no screen")

    ledger = tdp.Ledger(5)
    monkeypatch.setattr("sys.stderr", Broken())
    options = {"schema": FACTS, "epsilon": 1, "ledger": ledger, "progress": True}
    assert len(tdp.sum(MATRIX, ["x"], **options).value) == 1
    assert ledger.spent.epsilon == 1


def test_a_warning_that_is_an_error_comes_when_the_release_is_stored(tmp_path):
    """A table with another number of rows: the warning came between payment and release."""
    (tmp_path / "few.csv").write_text("x\n0.1\n0.2\n")
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3)
    ledger = tdp.Ledger(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"schema": facts, "epsilon": 1, "ledger": ledger, "key": "k"}
        with pytest.raises(tdp.PublicFactWarning, match="2 rows"):
            tdp.sum(tmp_path / "few.csv", ["x"], **options)
    assert ledger.find("k") is not None
    with pytest.warns(tdp.PublicFactWarning, match="2 rows"):
        tdp.sum(tmp_path / "few.csv", ["x"], schema=facts, epsilon=1, ledger=ledger)


def test_parts_that_only_read_are_refused():
    """A mean beside a median published the sum under the name of the mean."""
    with pytest.raises(ParameterError, match="source"):
        Together([MeanMechanism(FACTS, ["x"], epsilon=1), tdp.KNormMedian(FACTS, "x", epsilon=1)])


def test_what_is_not_stated_is_the_default(seed):
    options = {"schema": FACTS, "epsilon": 1, "rng": seed}
    stated = tdp.histogram(MATRIX, "x", bins=None, noise=None, delta=None, **options)
    assert stated.value.tolist() == tdp.histogram(MATRIX, "x", **options).value.tolist()
    assert tdp.mean(MATRIX, None, **options).names == ("x", "w", "y")


def test_many_columns_have_a_label_that_a_ledger_takes():
    wide = tdp.Schema({f"column {j}": tdp.Interval(0, 1) for j in range(60)}, rows=3)
    ledger = tdp.Ledger(1000)
    parts = [tdp.KNormMedian(wide, name, epsilon=1) for name in wide]
    Together(parts).release({name: [0.1, 0.2, 0.3] for name in wide}, ledger=ledger)
    assert ledger.spent.epsilon == 60


@pytest.mark.parametrize("name", functions.__all__)
def test_help_says_what_every_argument_takes(name):
    function = getattr(functions, name)
    form = inspect.signature(function)
    assert all(each.annotation is not each.empty for each in form.parameters.values())
    for option in KINDS[name].options:
        assert re.search(rf"^{option} : \S", function.__doc__, re.M), option
