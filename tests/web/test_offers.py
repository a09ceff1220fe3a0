"""What somebody is asked to agree to before a payment."""

from __future__ import annotations

from tightdp.plans import Plan
from tightdp.web.releases import offer

PLAN = """
[data]
file = "table.csv"
[schema]
rows = 4
columns.age = {low = 0, high = 100}
columns.pay = {low = -5, high = 5}
[budget]
epsilon = 3
ledger = "ledger.db"
together = true
[[releases]]
name = "means"
kind = "mean"
columns = ["age", "pay"]
epsilon = 1
[[releases]]
name = "sum"
kind = "sum"
columns = ["age"]
epsilon = 1
[[releases]]
name = "median"
kind = "median"
column = "age"
epsilon = 1
"""


def test_what_is_read_off_one_vector_is_paid_for_once(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "table.csv").write_text("age,pay\n1,2\n3,4\n5,1\n7,0\n")
    plan = Plan.read(tmp_path / "plan.toml")
    assert offer(plan)["amount"] == "epsilon = 3"
    plan.release()
    assert offer(plan)["new"] == []
