"""Books of tables in plans: budgets in rho, and tables that are public."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp

HEAD = """
[data]
file = "people.csv"
[schema]
rows = 60
columns.region = {{levels = ["n", "s", "w"], other = "n"}}
columns.sex = {{levels = ["f", "m"], other = "f"}}
columns.pay = {{low = 0, high = 100}}
[budget]
{budget}
ledger = "ledger.db"
"""


def read(folder, releases, budget="epsilon = 9\ndelta = 1e-5"):
    rows = [f"{'nsw'[i % 3]},{'fm'[i % 2]},{i}" for i in range(60)]
    (folder / "people.csv").write_text("\n".join(["region,sex,pay", *rows]) + "\n")
    (folder / "plan.toml").write_text(HEAD.format(budget=budget) + releases)
    return tdp.Plan.read(folder / "plan.toml")


BOOK = '[[releases]]\nkind = "tables"\nname = "book"\ntables = [["region"], ["region", "sex"]]\n'


@pytest.mark.parametrize(
    ("budget", "noise"),
    [("rho = 1", "gaussian"), ("epsilon = 9\ndelta = 1e-5", "gaussian"), ("rho = 1", "best")],
)
def test_a_book_spends_rho(tmp_path, budget, noise):
    plan = read(tmp_path, f'{BOOK}rho = 0.25\nnoise = "{noise}"\n', budget)
    assert plan["book"].request.mechanism.cost.rho <= 0.25
    assert "rho" in str(plan.preview())
    first, again = plan.release(), plan.release()
    assert first.fresh == {"book"}
    assert not again.fresh
    np.testing.assert_array_equal(first.answers["book"].value, again.answers["book"].value)
    if "rho" in budget:
        assert first.spent.rho <= Fraction(1, 4)


def test_rho_shares_a_plan_with_weights(tmp_path):
    mean = '[[releases]]\nkind = "mean"\ncolumns = ["pay"]\nweight = 1\n'
    plan = read(tmp_path, f"{BOOK}rho = 0.25\n{mean}", "rho = 1")
    assert len(plan.release().answers) == 2


@pytest.mark.parametrize("stated", ["rho = 0.2\nepsilon = 1", "rho = -1", 'rho = "x"', ""])
def test_a_release_states_one_budget(tmp_path, stated):
    with pytest.raises(tdp.ParameterError, match=r"one of them|rho"):
        read(tmp_path, f"{BOOK}{stated}\n")


def test_public_tables_are_kept_in_a_ledger_of_their_own(tmp_path):
    public = 'public = [["region", [20, 20, 20]], ["sex", [30, 30]]]\n'
    plan = read(tmp_path, f"{BOOK}epsilon = 1\n{public}")
    answer = plan.release().answers["book"]
    np.testing.assert_allclose(answer.value[:3], 20)
    count = '[[releases]]\nkind = "count"\ncolumns = ["sex"]\nepsilon = 1\n'
    with pytest.raises(tdp.ParameterError, match="a plan and a ledger of its own"):
        read(tmp_path, f"{BOOK}epsilon = 1\n{public}{count}")
    with pytest.raises(tdp.ParameterError, match="Epsilons for the two do not add"):
        read(tmp_path, count).release()


@pytest.mark.parametrize("public", ['"region"', '[["planet", [60]]]', '[["region", 3]]', "[[1]]"])
def test_bad_public_tables_are_told_with_their_line(tmp_path, public):
    with pytest.raises(tdp.ParameterError, match=r"plan.toml:.*`public`"):
        read(tmp_path, f"{BOOK}epsilon = 1\npublic = {public}\n")


def test_means_and_sums_of_a_plan(tmp_path):
    numbers = 'means = [["pay", ["region"]]]\nsums = [[["pay"], ["sex", ["pay2", [0, 50, 100]]]]]\n'
    with pytest.raises(tdp.ParameterError, match=r"plan.toml:.*pay2"):
        read(tmp_path, f"{BOOK}epsilon = 1\n{numbers}")
    plan = read(tmp_path, f'{BOOK}epsilon = 1\nmeans = [["pay", ["region"]], [["pay"], "sex"]]\n')
    assert "region, mean" in str(plan.preview())
    answer = plan.release(one_pass=True).answers["book"]
    assert "mean pay | region[n]" in answer.names
    assert "mean pay | sex[f]" in answer.names
    assert not plan.release().fresh


@pytest.mark.parametrize("means", ['"pay"', '[["pay"]]', '[["sex", ["region"]]]', '[["pay", 3]]'])
def test_bad_means_are_told_with_their_line(tmp_path, means):
    with pytest.raises(tdp.ParameterError, match=r"plan.toml:"):
        read(tmp_path, f"{BOOK}epsilon = 1\nmeans = {means}\n")
