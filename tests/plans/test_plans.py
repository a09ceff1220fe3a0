"""Plans that are carried out: every kind, every source of data, once."""

from __future__ import annotations

import os
import shutil
import sys
from fractions import Fraction

import numpy as np
import pytest
from tests.plans.conftest import HEAD, MEAN

from tightdp.errors import ParameterError
from tightdp.ledger import Ledger
from tightdp.mechanisms.exponential import SquaredLossMean
from tightdp.plans import KINDS, Plan, request
from tightdp.schema import Category, Interval, Schema

RELEASES = {
    "sum": 'columns = ["age", "pay"]',
    "mean": "",
    "variance": 'columns = ["age"]',
    "count": 'columns = ["region", "region:answer"]',
    "share": 'column = "age"\nlow = 18',
    "proportion_test": 'column = "age"\nlow = 18\nnull = 0.4',
    "missing_rate": 'columns = ["age", "region"]',
    "covariance": 'columns = ["age", "pay"]',
    "goodness_of_fit": 'column = "region"',
    "independence_test": 'by = ["region", "answer"]',
    "kolmogorov_test": 'column = "age"\nby = "answer"\nbins = 4',
    "rank_test": 'column = "age"\nby = "answer"\nalternative = "greater"',
    "means_test": 'column = "pay"\nby = "region"',
    "correlation_test": 'columns = ["age", "pay"]',
    "population_mean": 'columns = ["age", "pay"]',
    "coefficient_test": (
        'target = "pay"\nfeatures = ["age", "region"]\n'
        'tested = ["age", {age = 1, intercept = -1}]\nnull = [0.5, 0]'
    ),
    "flags": 'columns = ["answer"]\nat_most = 1\nimplies = []',
    "capped_sum": 'columns = ["pay"]\nat_most = 10',
    "histogram": 'column = "age"\nbins = [0, 20, 60, 100]',
    "products": 'terms = ["age:pay", "age:region"]',
    "moments": 'features = ["age"]\ntarget = "pay"',
    "quantile": 'column = "age"\ntau = 0.25',
    "median": 'column = "age"\ninterval = "population"',
    "quantiles": 'column = "age"\ntaus = [0.25, 0.5, "3/4"]',
    "sample": 'column = "age"\nbins = 10\nsize = 50',
    "linear_regression": 'target = "pay"\nfeatures = ["age", "region"]',
    "ridge": 'target = "pay"\nfeatures = ["age"]\nalpha = 2.5',
    "logistic_regression": 'target = "answer"\nfeatures = ["age", "region"]\ninterval_share = 0.2',
    "sparse_regression": 'target = "pay"\nfeatures = ["age"]\nkeep = 1',
    "poisson_regression": 'target = "pay"\nfeatures = ["age"]\ninterval_share = 0.2',
    "negative_binomial_regression": 'target = "pay"\nfeatures = ["age"]\ndispersion = 0.5',
    "huber_regression": 'target = "pay"\nfeatures = ["age", "region"]\nthreshold = 1',
    "naive_bayes": 'target = "answer"\nfeatures = ["age", "region"]',
    "density": 'columns = ["age", "answer"]\nbins = 4',
    "tables": 'tables = ["answer", ["answer", "age"]]\nbins.age = [0, 20, 60, 100]\nsuppress = 0.2',
    "quantile_regression": 'target = "pay"\nfeatures = ["age"]\ntau = 0.5',
    "synthetic_rows": 'columns = ["age", "region", "answer"]\nbins.age = 4\nrounds = 2',
    "find_rows_per_person": "most = 9\nshare = 0.5",
}
PERSONS = HEAD.replace("rows = 200", 'rows = 200\nneighbors = "add-remove"\nperson = "who"')


def body(kind: str) -> str:
    return f'[[releases]]\nname = "{kind}"\nkind = "{kind}"\n{RELEASES[kind]}\nweight = 1\n'


def test_every_kind_is_tried_here():
    assert set(RELEASES) == set(KINDS)


@pytest.mark.parametrize("kind", RELEASES)
def test_a_kind_is_previewed_released_and_answered_again_for_nothing(kind, folder, plan):
    read = Plan.read(plan(body(kind), head=PERSONS if kind.endswith("per_person") else HEAD))
    foreseen = read.preview().previews[kind]
    assert not (folder / "ledger.db").exists()  # a preview costs nothing
    first = read.release()
    again = Plan.read(folder / "plan.toml").release()
    assert first.fresh == {kind}
    assert again.fresh == frozenset()
    assert first.spent == again.spent
    assert first.spent.epsilon == Fraction(4)
    one, two = first.answers[kind], again.answers[kind]
    assert one.to_dict() == two.to_dict()
    assert str(one) == str(two)
    assert one.names == foreseen.names
    assert np.isfinite(one.value).all()
    known = [name not in one.unknown for name in one.names]
    low, high = one.interval[known].T
    assert (low <= high).all()  # and nothing is stated where nothing is known
    assert np.isnan(one.interval[np.invert(known)]).all()
    errs = [name != "p-value" for name in foreseen.names]  # which has no error of its own
    assert (foreseen.std[errs] > 0).all() or foreseen.unknown


def test_many_releases_add_up_to_the_budget_exactly(folder, plan):
    text = "".join(MEAN.replace("means", f"mean {i}") for i in range(7))  # sevenths of 4
    result = Plan.read(plan(text)).release()
    assert result.spent.epsilon == Fraction(4)
    assert len(result.fresh) == 7
    with Ledger.open(folder / "ledger.db") as ledger:
        ledger.verify(*[answer.release.receipt for answer in result.answers.values()])


def test_weights_share_what_fixed_epsilons_leave(plan):
    text = (
        MEAN.replace("weight = 1", "epsilon = 1")
        + body("sum")
        + body("count").replace("weight = 1", "weight = 2")
    )
    spends = Plan.read(plan(text)).preview().epsilon
    assert list(spends.values()) == [1, 1, 2]


def test_a_new_release_is_paid_for_beside_stored_ones(plan):
    old = MEAN.replace("weight = 1", "epsilon = 1")
    first = Plan.read(plan(old)).release()
    both = Plan.read(plan(old + old.replace("means", "more"))).release()
    assert both.fresh == {"more"}
    assert both.answers["means"].to_dict() == first.answers["means"].to_dict()
    assert both.spent.epsilon == 2


# --- sources -------------------------------------------------------------------------------------


def exact(frame_plan):
    """The mean at a large epsilon: the same whatever the table comes from."""
    return Plan.read(frame_plan).release().answers["means"].value[0]


def test_files_folders_and_databases_give_the_same(folder, plan):
    duckdb = pytest.importorskip("duckdb")
    head = HEAD.replace("epsilon = 4", "epsilon = 200")
    values = [exact(plan(head=head))]
    table = (folder / "table.csv").as_posix()
    with duckdb.connect(str(folder / "base.duckdb")) as base:
        base.sql(f"CREATE TABLE t AS SELECT * FROM read_csv('{table}', all_varchar = true)")
        (folder / "parts").mkdir()
        for i in range(2):
            part = (folder / "parts" / f"{i}.parquet").as_posix()
            base.sql(f"COPY (SELECT * FROM t WHERE rowid % 2 = {i}) TO '{part}' (FORMAT parquet)")
    for data in ('folder = "parts"', 'sql = "SELECT * FROM t"\ndatabase = "base.duckdb"'):
        other = head.replace('file = "table.csv"', data).replace("ledger.db", f"{len(values)}.db")
        values.append(exact(plan(head=other)))
    assert np.ptp(values) < 0.1  # noise of 0.005; cells are the same


def test_sql_must_only_read(folder, plan):
    pytest.importorskip("duckdb")
    for query in ("DROP TABLE t", "SELECT 1; SELECT 2", "SELEC 1"):
        head = HEAD.replace('file = "table.csv"', f'sql = "{query}"')
        with pytest.raises(ParameterError, match=r"plan\.toml:2: "):
            Plan.read(plan(head=head))


class TestSpark:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")  # Spark's own
    def test_a_spark_table(self, folder, plan, monkeypatch):
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("Java is not installed")
        sql = pytest.importorskip("pyspark.sql")
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            sql.SparkSession.builder.master("local[1]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        session.read.csv(str(folder / "table.csv"), header=True).createOrReplaceTempView("survey")
        head = HEAD.replace('file = "table.csv"', 'spark = "survey"')
        near = exact(plan(head=HEAD.replace("epsilon = 4", "epsilon = 200")))
        far = head.replace("epsilon = 4", "epsilon = 200").replace("ledger.db", "spark.db")
        assert abs(exact(plan(head=far)) - near) < 0.1
        with pytest.raises(ParameterError, match=r"plan\.toml:2: Spark has no table 'surve'"):
            Plan.read(plan(head=head.replace('"survey"', '"surve"')))


PAIR = Category([0, 1], other=0)


def test_large_tables_are_foreseen_from_small_ones():
    large, small = (
        SquaredLossMean(Schema({"x": Interval(0, 1)}, rows=rows, bits=12), "x", epsilon=1).preview()
        for rows in (10**9, 20_000)
    )
    np.testing.assert_allclose(large.std * 10**9, small.std * 20_000)


def test_errors_of_shares_shrink_with_the_rows_of_the_table():
    largest, large, small = (
        rows
        * request("naive_bayes", Schema({"x": Interval(0, 1), "y": PAIR}, rows=rows),
                  epsilon=1, target="y").preview().std
        for rows in (10**9, 10**7, 20_000)
    )  # fmt: skip
    np.testing.assert_allclose(large, largest, rtol=1e-4)
    # smaller tables are less alike, by the root of their rows, and shares are drawn together
    np.testing.assert_allclose(small, largest, rtol=0.04)


# --- requests ------------------------------------------------------------------------------------


def test_requests_are_checked_like_plans():
    schema = Schema({"x": Interval(0, 1), "k": Category(["a", "b"], other="a")}, rows=10)
    with pytest.raises(ParameterError, match="Did you mean `columns`"):
        request("sum", schema, epsilon=1, colums=["x"])
    with pytest.raises(ParameterError, match="needs `tau`"):
        request("quantile", schema, epsilon=1, column="x")
    with pytest.raises(ParameterError, match="`column`: column 'k' must be a numeric column"):
        request("histogram", schema, epsilon=1, column="k")
    with pytest.raises(ParameterError, match="epsilon"):
        request("sum", schema, epsilon=0)


def test_tables_of_results_escape_names(plan):
    result = Plan.read(plan(MEAN.replace('"means"', '"<b>means"'))).release()
    assert "<b>means" not in result._repr_html_()
    assert "&lt;b&gt;means" in result._repr_html_()


@pytest.mark.parametrize("level", [0, 1, 2, float("nan"), "high"])
def test_a_wrong_confidence_of_a_model_is_refused_before_payment(level, seed):
    """It was paid for, and then refused."""
    schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=20)
    rng = np.random.default_rng(seed)
    table = {"x": rng.uniform(size=20), "y": rng.uniform(size=20)}
    asked = request("linear_regression", schema, epsilon=1, features=["x"], target="y")
    ledger = Ledger(5)
    with pytest.raises(ParameterError, match="confidence"):
        asked.release(table, ledger=ledger, confidence=level)
    assert ledger.spent.epsilon == 0
