"""Bad plans: one clear message with line and key, nothing spent, no ledger made."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plans.conftest import HEAD, MEAN

from tightdp.cli import main
from tightdp.errors import BudgetError, LedgerError, ParameterError
from tightdp.ledger import Ledger
from tightdp.plans import Plan, request
from tightdp.schema import Interval, Schema


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def swapped(old: str, new: str) -> str:
    text = HEAD + MEAN
    assert text.count(old) == 1
    return text.replace(old, new)


# the change to a good plan, the text whose line must be named, what the message must say
BAD = {
    "unknown column": (
        ('columns = ["age"]', 'columns = ["agee"]'),
        'columns = ["agee"]',
        ["`columns`", "'agee'", "Did you mean 'age'?"],
    ),
    "category for a number": (
        ('columns = ["age"]', 'columns = ["region"]'),
        'columns = ["region"]',
        ["`columns`", "'region'", "numeric"],
    ),
    "text for a number": (
        ("rows = 200", 'rows = "200"'),
        'rows = "200"',
        ["`rows`", "integer", "str"],
    ),
    "number for a list": (
        ('columns = ["age"]', "columns = 7"),
        "columns = 7",
        ["`columns`", "list"],
    ),
    "over budget": (
        ("weight = 1", "epsilon = 5"),
        "epsilon = 4",
        ["`epsilon`", "over budget", "5 of 4"],
    ),
    "no bounds": (
        ("[schema.columns.pay]\nlow = 0\nhigh = 10\n", "[schema.columns.pay]\nlow = 0\n"),
        "[schema.columns.pay]",
        ["'pay'", "`high`"],
    ),
    "bounds the wrong way round": (
        ("low = 0\nhigh = 100", "low = 100\nhigh = 0"),
        "low = 100",
        ["`low`", "smaller"],
    ),
    "misspelt key": (
        ("weight = 1", "wieght = 1"),
        "wieght = 1",
        ["`wieght`", "Did you mean `weight`?"],
    ),
    "misspelt key of the data": (
        ('file = "table.csv"', 'flie = "table.csv"'),
        'flie = "table.csv"',
        ["`flie`", "Did you mean `file`?"],
    ),
    "misspelt section": (
        ("[budget]", "[budgte]"),
        "[budgte]",
        ["`budgte`", "Did you mean `budget`?"],
    ),
    "misspelt kind": (
        ('kind = "mean"', 'kind = "maen"'),
        'kind = "maen"',
        ["`kind`", "Did you mean 'mean'?"],
    ),
    "no such file": (
        ('file = "table.csv"', 'file = "tabel.csv"'),
        'file = "tabel.csv"',
        ["`file`", "tabel.csv"],
    ),
    "no such format": (
        ('file = "table.csv"', 'file = "plan.toml"'),
        'file = "plan.toml"',
        [".csv"],
    ),
    "negative epsilon": (
        ("weight = 1", "epsilon = -1"),
        "epsilon = -1",
        ["`epsilon`", "> 0"],
    ),
    "neither epsilon nor weight": (
        ("weight = 1", ""),
        "[[releases]]",
        ["`epsilon`", "`weight`"],
    ),
    "unknown noise": (
        ("weight = 1", 'weight = 1\nnoise = "lapalce"'),
        'noise = "lapalce"',
        ["`noise`", "Did you mean 'laplace'?"],
    ),
    "delta over budget": (
        ("weight = 1", 'weight = 1\nnoise = "gaussian"\ndelta = 1e-6'),
        "[budget]",
        ["`delta`", "over budget"],
    ),
    "a word for bins": (
        ('kind = "mean"\ncolumns = ["age"]', 'kind = "histogram"\ncolumn = "age"\nbins = "ten"'),
        'bins = "ten"',
        ["`bins`", "number of bins", "edges"],
    ),
    "a share beyond 1": (
        ('kind = "mean"\ncolumns = ["age"]',
         'kind = "logistic_regression"\ntarget = "answer"\ninterval_share = 2'),
        "interval_share = 2",
        ["`interval_share`", "[0, 1)"],
    ),
    "two sources": (
        ('file = "table.csv"', 'file = "table.csv"\nfolder = "tables"'),
        "[data]",
        ["one of", "It has `file` and `folder`"],
    ),
    "not TOML": (
        ("rows = 200", "rows = = 200"),
        "rows = = 200",
        ["not valid TOML"],
    ),
    "a column that the table lacks": (
        ("[schema.columns.pay]", "[schema.columns.age]x".replace("age]x", "wage]")),
        'columns = ["wage"]',
        ["no column 'wage'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_plan_is_refused_with_line_and_key(name, folder):
    (old, new), where, words = BAD[name]
    text = swapped(old, new)
    if "wage" in new:
        text = text.replace('columns = ["age"]', 'columns = ["wage"]')
    path = folder / "plan.toml"
    path.write_text(text)
    with pytest.raises(BudgetError if "over budget" in name else ParameterError) as caught:
        Plan.read(path)
    (message,) = str(caught.value).splitlines()[:1]
    assert message.startswith(f"{path}:{line_of(text, where)}: "), message
    assert all(word in message for word in words), message
    assert not (folder / "ledger.db").exists()


@pytest.mark.parametrize("name", BAD)
def test_the_command_says_it_in_lines_without_a_traceback(name, folder, capsys):
    (old, new), _, _ = BAD[name]
    path = folder / "plan.toml"
    path.write_text(
        swapped(old, new).replace('["age"]', '["wage"]' if "wage" in new else '["age"]')
    )
    for command in ("preview", "release"):
        assert main([command, str(path)]) == (3 if "over budget" in name else 2)
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tightdp: ")
        assert "Traceback" not in err
        assert re.search(rf"{path}:\d+: ", err)
    assert not (folder / "ledger.db").exists()


def test_an_unreadable_plan_is_one_line(folder, capsys):
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("none.toml", "binary.toml", "."):
        assert main(["release", str(folder / name)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_types_that_cannot_be_read_and_broken_files_are_found_unpaid(folder, plan, capsys):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    typed = (folder / "typed.parquet").as_posix()
    duckdb.sql(f"COPY (SELECT [1, 2] AS age, 1 AS pay) TO '{typed}' (FORMAT parquet)")
    (folder / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for name, where, said in (
        ("typed", "columns = [", "Column 'age' has the type"),
        ("broken", "file = ", "cannot be read"),
    ):
        head = HEAD.replace("table.csv", f"{name}.parquet")
        twice = MEAN + (MEAN.replace("means", "again") if name == "broken" else "")
        path = plan(twice, head)
        assert main(["release", str(path)]) == 2
        err = capsys.readouterr().err
        assert f"{path}:{line_of(head + MEAN, where)}: " in err
        assert said in err
        assert len(err.splitlines()) == 1
    assert not (folder / "ledger.db").exists()


def test_what_a_model_cannot_do_is_found_before_other_releases_are_paid_for(folder, plan, capsys):
    head = HEAD.replace("rows = 200", 'rows = 300\nneighbors = "add-remove"')
    model = (
        '[[releases]]\nkind = "proportion_test"\ncolumn = "age"\nlow = 30\nnull = 0.5\nweight = 1\n'
    )
    path = plan(MEAN + model, head)
    assert main(["release", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{path}:{line_of(head + MEAN + model, model)}: " in err
    assert "replace-one" in err
    assert not (folder / "ledger.db").exists()


def test_a_wrong_number_of_rows_is_found_unpaid_where_the_file_tells_it(folder, plan, capsys):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    typed = (folder / "few.parquet").as_posix()
    duckdb.sql(f"COPY (SELECT range AS age FROM range(150)) TO '{typed}' (FORMAT parquet)")
    assert main(["release", str(plan(head=HEAD.replace("table.csv", "few.parquet")))]) == 2
    assert "150 rows and the schema says 200" in capsys.readouterr().err
    assert not (folder / "ledger.db").exists()


def test_a_rehearsal_catches_a_kind_that_does_not_pay():
    schema = Schema({"x": Interval(0, 1)}, rows=3)

    asked = request("sum", schema, epsilon=1)
    asked.rehearse({"x": [0.1, 0.2, 0.3]})
    free = replace(asked.kind, build=lambda *_: Free())
    with pytest.raises(LedgerError, match="without a payment"):
        replace(asked, kind=free, _made=[]).rehearse({"x": [0.1]})


class Free:
    """A mechanism that forgets to pay."""

    def start(self, frame, **options):
        return nullcontext(self)

    def finish(self, table=None, *, progress=False):
        return None

    def answer(self, release):
        return release


def test_every_problem_has_its_line(plan):
    text = (HEAD + MEAN).replace("low = 0\nhigh = 100", "low = 0").replace("weight", "wieght")
    path = plan("", text)
    with pytest.raises(ParameterError) as caught:
        Plan.read(path)
    lines = [int(line.split(":")[1]) for line in str(caught.value).splitlines()]
    assert line_of(text, "[schema.columns.age]") in lines
    assert line_of(text, "wieght") in lines


def test_other_faults_come_before_the_budget(plan, capsys):
    asked = MEAN.replace("weight = 1", "epsilon = 5")
    assert main(["release", str(plan(asked))]) == 3
    assert main(["release", str(plan(asked.replace('["age"]', '["agee"]') + "bin = 3\n"))]) == 2
    assert main(["preview", "--json", str(plan(asked))]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["kind"] == "BudgetError"
    assert said["error"]["exit"] == 3


def test_a_schema_file_has_lines_of_its_own(folder, plan):
    facts = "rows = 200\n[columns.age]\nlow = 0\n"
    (folder / "facts.toml").write_text(facts)
    head = re.sub(
        r"\[schema\].*?\[budget\]", '[schema]\nfile = "facts.toml"\n[budget]', HEAD, flags=re.S
    )
    with pytest.raises(ParameterError, match=r"facts\.toml:2: .*`high`"):
        Plan.read(plan(head=head))
    (folder / "facts.toml").write_text("rows = 200\nbit = 3\n[columns.age]\nlow = 0\nhigh = 1\n")
    with pytest.raises(ParameterError, match=r"facts\.toml:2: `bit`.*Did you mean `bits`"):
        Plan.read(plan(head=head))


# --- the ledger ----------------------------------------------------------------------------------


def spent(folder: Path) -> list[str]:
    with Ledger.open(folder / "ledger.db") as ledger:
        return [str(row.key) for row in ledger.history()]


def test_a_budget_that_was_spent_elsewhere_is_refused_before_anything_is_paid(folder, plan, capsys):
    with Ledger(epsilon=4, path=folder / "ledger.db") as ledger:
        ledger.spend(3, key="elsewhere")
    both = MEAN.replace("weight = 1", "epsilon = 1") + MEAN.replace("means", "again").replace(
        "weight = 1", "epsilon = 1"
    )
    assert main(["release", str(plan(both))]) == 3
    assert "over budget" in capsys.readouterr().err
    assert spent(folder) == ["elsewhere"]


def test_other_terms_than_the_ledger_has_are_refused(folder, plan, capsys):
    Ledger(epsilon=3, path=folder / "ledger.db").close()
    path = plan()
    assert main(["release", str(path)]) == 4
    assert f"{path}:{line_of(HEAD, 'ledger =')}: " in capsys.readouterr().err
    assert spent(folder) == []


def test_a_file_that_is_no_ledger_is_refused(folder, plan, capsys):
    (folder / "ledger.db").write_text("something else")
    assert main(["release", str(plan())]) == 4
    assert "ledger" in capsys.readouterr().err
    assert (folder / "ledger.db").read_text() == "something else"


def test_a_changed_request_under_a_known_key_spends_nothing(folder, plan, capsys):
    first = MEAN.replace("weight = 1", "epsilon = 1")
    assert main(["release", str(plan(first))]) == 0
    changed = first.replace("means", "new") + first.replace('"age"', '"pay"')
    path = plan(changed)
    assert main(["release", str(path)]) == 2
    said = capsys.readouterr().err
    line = (HEAD + changed).splitlines().index('name = "means"')
    assert f"{path}:{line}: `key`" in said
    assert "'means'" in said
    assert spent(folder) == ["means"]
