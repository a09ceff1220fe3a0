"""Every command: text, JSON, exit codes, help, completion."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import tightdp as tdp
from tightdp.cli import main
from tightdp.cli.completion import nodes, script
from tightdp.cli.main import HOMES, parser
from tightdp.cli.output import MEANINGS, Exit, plain
from tightdp.data.sources import looks_like_data
from tightdp.errors import ParameterError
from tightdp.ledger import Ledger
from tightdp.plans.plan import Plan
from tightdp.schema import Schema

# --- from a table of one's own to a release ------------------------------------------------------


def test_a_new_user_gets_from_a_table_to_a_report(here, tightdp):
    for name in ("schema.toml", "plan.toml"):
        (here / name).unlink()
    early = tightdp("plan", "init", "survey.csv")
    assert early.code == 2
    assert "no file 'schema.toml'. First: tightdp schema init survey.csv" in early.err
    assert tightdp("schema", "init", "survey.csv").code == 0
    text = (here / "schema.toml").read_text()
    empty = tightdp("schema", "check")
    assert empty.code == 2
    line = text.splitlines().index("[columns.age]") + 1
    assert f"schema.toml:{line}: Column 'age' is empty" in empty.err
    filled = text.replace("# rows = 1000", "rows = 100")
    for name, facts in {
        "age": "low = 0\nhigh = 100",
        '"pay (EUR)"': "low = 0\nhigh = 10",
        "answer": 'levels = ["no", "yes"]\nother = "no"',
    }.items():
        filled = filled.replace(f"[columns.{name}]\n", f"[columns.{name}]\n{facts}\n")
    (here / "schema.toml").write_text(filled.replace("[columns.age]", "[columns.agee]"))
    misspelt = tightdp("plan", "init", "survey.csv")
    assert "survey.csv has no column 'agee'. Did you mean 'age'?" in misspelt.err
    (here / "schema.toml").write_text(filled)
    checked = tightdp("schema", "check")
    assert checked.code == 0
    assert "tightdp plan init" in checked.err
    assert tightdp("plan", "init", "survey.csv").code == 0
    plan = (here / "plan.toml").read_text()
    model = plan.index("# [[releases]]")
    (here / "plan.toml").write_text(plan[:model] + plan[model:].replace("# ", ""))
    assert "regression" in tightdp("preview", "plan.toml").out
    done = tightdp("release", "plan.toml", "--report", "out.html", "--report", "out.json")
    assert done.code == 0
    assert "intercept" in done.out
    assert "</html>" in (here / "out.html").read_text()
    assert tightdp("ledger", "verify", "survey.ledger", "--receipt", "out.json").code == 0


def test_a_plan_stands_for_its_ledger_in_a_report(here, tightdp):
    assert tightdp("release", "plan.toml").code == 0
    (here / "survey.csv").unlink()  # the table is not needed
    assert tightdp("report", "survey.ledger", "a.md").code == 0
    assert tightdp("report", "plan.toml", "b.md").code == 0
    assert (here / "a.md").read_text() == (here / "b.md").read_text()
    assert tightdp("report", "plan.toml", "plan.toml").code == 2
    (here / "plan.toml").write_text("[budget]\nepsilon = 1\n")
    wrong = tightdp("report", "plan.toml", "c.md")
    assert wrong.code == 2
    assert "names no `ledger`" in wrong.err


def test_every_release_that_a_new_plan_proposes_is_allowed(here, tightdp):
    """Also where the number of rows is private, and so there is no linear regression."""
    (here / "plan.toml").unlink()
    facts = (here / "schema.toml").read_text()
    assert 'neighbors = "add-remove"' not in facts
    (here / "schema.toml").write_text('neighbors = "add-remove"\n' + facts)
    assert tightdp("plan", "init", "survey.csv").code == 0
    plan = (here / "plan.toml").read_text()
    model = plan.index("# [[releases]]")
    (here / "plan.toml").write_text(plan[:model] + plan[model:].replace("# ", ""))
    assert "median of" in tightdp("preview", "plan.toml").out


def test_schema_init_reads_the_header_alone(here, tightdp):
    secret = "age,region\n987654,Atlantis\n"
    (here / "secret.csv").write_text(secret)
    said = tightdp("schema", "init", "secret.csv", "--out", "s.toml")
    assert said.code == 0
    written = (here / "s.toml").read_text()
    assert "987654" not in written + said.out + said.err
    assert "Atlantis" not in written + said.out + said.err
    (here / "s.csv").write_text(secret.splitlines()[0])  # a header is all there is
    assert tightdp("schema", "init", "s.csv", "--out", "t.toml").code == 0
    assert (here / "t.toml").read_text() == written.replace("secret.csv", "s.csv")


def test_schema_init_knows_the_types_of_parquet(here, tightdp):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    duckdb.sql("COPY (SELECT 1.5 AS x, 'a' AS k) TO 'typed.parquet' (FORMAT parquet)")
    tightdp("schema", "init", "typed.parquet", "--out", "typed.toml")
    text = (here / "typed.toml").read_text()
    assert "low" in text.split("[columns.x]")[1].split("[columns.k]")[0]
    assert "low" not in text.split("[columns.k]")[1]


def test_odd_names_of_columns_survive(here, tightdp):
    (here / "odd.csv").write_text('"a ""b""",Größe,"x.y"\n')
    assert tightdp("schema", "init", "odd.csv", "--out", "odd.toml").code == 0
    text = (here / "odd.toml").read_text().replace("# rows =", "rows =").replace("# low", "low")
    (here / "odd.toml").write_text(text.replace("# high", "high"))
    assert list(Schema.from_toml(here / "odd.toml")) == ['a "b"', "Größe", "x.y"]


def test_files_that_are_there_stay(here, tightdp):
    before = (here / "schema.toml").read_text()
    said = tightdp("schema", "init", "survey.csv")
    assert said.code == 2
    assert "--force" in said.err
    assert (here / "schema.toml").read_text() == before
    assert tightdp("schema", "init", "survey.csv", "--force").code == 0


# --- plans ---------------------------------------------------------------------------------------


def test_a_release_is_the_same_the_second_time(tightdp):
    first, second = (tightdp("release", "plan.toml", "--json") for _ in range(2))
    assert [a.pop("state") for a in first.json["answers"]] == ["released now"] * 2
    kept = [{k: v for k, v in a.items() if k != "state"} for a in first.json["answers"]]
    again = [{k: v for k, v in a.items() if k != "state"} for a in second.json["answers"]]
    assert kept == again
    assert second.json["spent"] == first.json["spent"] == {"epsilon": "2/1", "delta": "0/1"}
    text = tightdp("release", "plan.toml").out
    assert text == tightdp("release", "plan.toml").out


def test_a_burned_release_is_reported_and_the_others_are_answered(here, tightdp):
    with Ledger(epsilon=2, path=here / "survey.ledger") as ledger:
        ledger.burn(ledger.spend(1, key="means"))
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.NO
    assert "means: NO ANSWER" in said.out
    assert 'key = "means, again"' in said.out
    assert "answers (released now)" in said.out


def test_preview_says_what_is_paid_for(here, tightdp):
    assert set(tightdp("preview", "plan.toml", "--json").json["states"].values()) == {"new"}
    assert not (here / "survey.ledger").exists()
    tightdp("release", "plan.toml")
    assert "means (stored), answers (stored)" in tightdp("preview", "plan.toml").err


def test_preview_asks_for_an_epsilon(tightdp):
    said = tightdp("preview", "plan.toml", "--error", "means=5", "--error", "answers=10", "--json")
    assert said.code == 0
    needed = said.json["needed"]
    assert set(needed) == {"means", "answers"}
    assert sum(Fraction(part) for part in said.json["split"]["epsilon"].values()) == 2
    assert tightdp("preview", "plan.toml", "--error", "maens=5").code == 2
    assert tightdp("preview", "plan.toml", "--error", "means=x").code == 2
    assert tightdp("preview", "plan.toml", "--error", "means").code == 2


def test_preview_simulates_on_public_rows(here, tightdp):
    shutil.copy(here / "survey.csv", here / "public.csv")
    said = tightdp("preview", "plan.toml", "--sample", "public.csv", "--replicates", "40", "--json")
    plain_one = tightdp("preview", "plan.toml", "--json").json["releases"][1]["std"][0]
    assert said.json["releases"][1]["std"][0] == pytest.approx(plain_one, rel=0.5)
    assert tightdp("preview", "plan.toml", "--sample", "none.csv").code == 2


def test_compare_says_what_other_noise_costs(tightdp):
    said = tightdp("compare", "plan.toml", "--json")
    means, answers = said.json["releases"]
    assert means["chosen"] == "best"
    ratios = {row["noise"]: row["relative"] for row in means["noises"]}
    assert ratios["best"] == 1
    assert ratios["laplace"] > 1.3
    assert answers["name"] == "answers"
    assert "best *" in tightdp("compare", "plan.toml", "--release", "means").out


BAYES = """[[releases]]
name = "classes"
kind = "naive_bayes"
features = ["age"]
target = "answer"
weight = 1
"""


def test_compare_knows_the_noises_of_naive_bayes(here, tightdp, monkeypatch):
    """It took 'best' for the default, which that kind does not have, and ended the command."""
    monkeypatch.setattr("tightdp.mechanisms.counts._REPLICATES", 2)
    plan = (here / "plan.toml").read_text() + BAYES
    (here / "bayes.toml").write_text(plan)
    said = tightdp("compare", "bayes.toml", "--json")
    assert said.code == 0, said.err
    last = said.json["releases"][-1]
    assert last["chosen"] == "hull"
    assert {row["noise"] for row in last["noises"]} >= {"hull", "laplace", "staircase"}


TESTS = """\
[[releases]]
name = "pay by answer"
kind = "means_test"
column = "pay (EUR)"
by = "answer"
weight = 1
[[releases]]
name = "adults"
kind = "proportion_test"
column = "age"
low = 18
weight = 1
[[releases]]
name = "means"
kind = "mean"
weight = 1
"""


def plan_of_tests(here: Path) -> None:
    head = (here / "plan.toml").read_text().partition("[[releases]]")[0]
    (here / "tests.toml").write_text(head.replace("survey.ledger", "tests.ledger") + TESTS)


def test_power_says_what_tests_notice_as_python_does(here, tightdp):
    plan_of_tests(here)
    both = tightdp("power", "tests.toml", "--json").json["tests"]
    assert [found["name"] for found in both] == ["pay by answer", "adults"]  # a mean is no test
    pay = Plan.read("tests.toml")["pay by answer"].request
    assert both[0]["detects"] == tdp.detectable(pay)
    words = ("power", "tests.toml", "--release", "pay by answer", "--effect", "2", "--power", "0.9")
    (one,) = tightdp(*words, "--epsilon", "1/4", "--json").json["tests"]
    assert one["power"] == tdp.power(pay, 2, epsilon=0.25)
    assert one["needed_rows"] == tdp.sample_size(pay, 2, power=0.9, epsilon=0.25)
    (more,) = tightdp(*words, "--rows", "400", "--json").json["tests"]
    assert more["power"] == tdp.power(pay, 2, rows=400) > one["power"]
    said = tightdp(*words).out
    assert "epsilon = 0.666" in said
    assert "rows that notice 2 with 90% power" in said
    assert not (here / "tests.ledger").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("plan.toml", "no test of a hypothesis"),
        ("tests.toml --release means", "'means' is no test"),
        ("tests.toml --effect 1", "choose it with --release"),
        ("tests.toml --rows 9", "needs `--effect`"),
        ("tests.toml --epsilon 1/0", "--epsilon"),
        ("tests.toml --alpha 1", "--alpha"),
        ("tests.toml --power nan", "--power"),
        ("tests.toml --release adults --effect 2", "share"),
        ("tests.toml --release adults --effect 0.6 --rows 0", "--rows"),
    ],
)
def test_questions_about_power_that_have_no_answer(words, complaint, here, tightdp):
    plan_of_tests(here)
    said = tightdp("power", *words.split())
    assert said.code == 2
    assert complaint in said.err


def test_a_release_that_cannot_be_compared_leaves_the_others(tightdp, monkeypatch):
    from tightdp import compare

    honest = compare.compare_noise

    def refuses_counts(request, **options):
        if request.kind.name == "count":
            raise ParameterError("Not this one.")
        return honest(request, **options)

    monkeypatch.setattr(compare, "compare_noise", refuses_counts)
    said = tightdp("compare", "plan.toml", "--json")
    assert said.code == 0
    means, answers = said.json["releases"]
    assert means["chosen"] == "best"
    assert answers == {"name": "answers", "reason": "Not this one."}


def test_audit_of_a_plan_finds_nothing_and_reads_nothing(here, tightdp):
    (here / "survey.csv").write_text("age,pay (EUR),answer\n")  # no row to read
    said = tightdp("audit", "plan.toml", "--releases", "2000")
    assert said.code == 0
    assert said.out.count("no violation found") == 2
    assert not (here / "survey.ledger").exists()


def test_audit_of_a_function_catches_a_broken_one(here, tightdp):
    (here / "mine.py").write_text(
        "from tightdp.exact.discrete_draws import discrete_laplaces\n"
        "from tightdp.randomness import source\n"
        "def good(x, size): return x + discrete_laplaces(1, 1, size, source(1))\n"
        "def broken(x, size): return 2 * x + discrete_laplaces(1, 1, size, source(1))\n"
    )
    words = ["--x", "0", "--x-neighbor", "1", "--epsilon", "1", "--json"]
    assert tightdp("audit", "mine.py:good", *words).code == 0
    said = tightdp("audit", "mine.py:broken", *words)
    assert said.code == Exit.NO
    assert said.json["audits"][0]["verdict"] == "violated"
    assert tightdp("audit", "mine.py:none", *words).code == 2
    assert tightdp("audit", "mine.py:good").code == 2


def test_kinds_are_listed(tightdp):
    assert "linear_regression" in tightdp("kinds").out
    assert tightdp("kinds", "quantile", "--json").json["keys"]["tau"]["needed"] is True
    assert "Did you mean 'median'?" in tightdp("kinds", "medain").err


# --- designs -------------------------------------------------------------------------------------


def test_a_design_is_written_and_verified(here, tightdp):
    words = ["design", "--epsilon", "1", "--delta", "1/4", "--cells", "12", "--out", "noise.json"]
    said = tightdp(*words, "--json")
    assert said.code == 0
    assert said.json["lower"] <= said.json["upper"]
    assert tightdp("verify", "noise.json").out.startswith("noise.json: proved")
    assert tightdp(*words).code == 2  # it is there
    document = json.loads((here / "noise.json").read_text())
    document["upper"] = "1/3"
    (here / "forged.json").write_text(json.dumps(document))
    forged = tightdp("verify", "noise.json", "forged.json", "--json")
    assert forged.code == Exit.NO
    assert [file["proved"] for file in forged.json["files"]] == [True, False]
    assert tightdp("verify", "survey.csv").code in (Exit.NO, Exit.WRONG)  # proves nothing
    assert tightdp("verify", "none.json").code == 2


def test_designs_of_several_numbers_are_written_and_verified(here, tightdp):
    asked = ["design", "--epsilon", "3", "--delta", "0.3", "--ball", "linf", "--resolution", "1"]
    for extra in (["--dim", "3"], ["--together"]):
        done = tightdp(*asked, *extra, "--out", f"{extra[0][2:]}.json")
        assert done.code == 0, done.err
        assert "at least" in done.out
        assert "proved" in tightdp("verify", f"{extra[0][2:]}.json").out
    for wrong in (["--dim", "2", "--integer"], ["--dim", "2", "--together"]):
        assert tightdp(*asked, *wrong).code == 2
    assert tightdp(*asked).code == 2  # a ball for one number


def test_a_design_of_nonsense_is_refused(tightdp):
    assert tightdp("design", "--epsilon", "x").code == 2
    assert tightdp("design", "--epsilon", "1", "--delta", "2").code == 2
    assert "Did you mean" not in tightdp("design").err


# --- papers --------------------------------------------------------------------------------------


def test_figures_are_listed_and_reproduced(here, tightdp):
    pytest.importorskip("matplotlib")
    listed = tightdp("reproduce", "--json").json["figures"]
    assert "knorm-figure-1" in listed
    done = tightdp("reproduce", "knorm-figure-1", "--quick", "--out", "figures", "--json")
    assert done.code == 0
    (result,) = done.json["results"]
    assert result["ok"] is True
    assert (here / "figures" / "knorm-figure-1.png").stat().st_size > 1000
    assert "Did you mean" in tightdp("reproduce", "knorm-figure-l").err


def test_figures_are_found_in_a_clone_and_nowhere_else(here, tmp_path):
    """An installed package has none; a command that is run in a clone has those of the clone."""
    root, installed = Path(__file__).parents[2], tmp_path / "lib" / "python3" / "site-packages"
    shutil.copytree(root / "src" / "tightdp", installed / "tightdp")
    command = [sys.executable, "-P", "-m", "tightdp.cli", "reproduce"]
    paths = {**os.environ, "PYTHONPATH": str(installed)}

    def listed(folder):
        return subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True)

    alone = listed(here)
    assert alone.returncode == 2
    assert alone.stdout == ""
    assert "Clone the repository and run the command there." in alone.stderr
    in_a_clone = listed(root)
    assert in_a_clone.returncode == 0, in_a_clone.stderr
    assert "dro-table-1" in in_a_clone.stdout


# --- ledgers -------------------------------------------------------------------------------------


def test_a_ledger_is_shown_and_verified(here, tightdp):
    tightdp("release", "plan.toml", "--report", "r.json")
    assert "means" in tightdp("ledger", "show", "survey.ledger").out
    shown = tightdp("ledger", "show", "survey.ledger", "--json").json
    assert [row["key"] for row in shown["history"]] == ["means", "answers"]
    assert tightdp("ledger", "verify", "survey.ledger").code == 0
    good = tightdp("ledger", "verify", "survey.ledger", "--receipt", "r.json", "--json")
    assert good.json["receipts"] == 2
    forged = (here / "r.json").read_text().replace('"hash": "', '"hash": "0')
    (here / "f.json").write_text(forged)
    bad = tightdp("ledger", "verify", "survey.ledger", "--receipt", "f.json")
    assert bad.code == Exit.LEDGER
    assert len(bad.err.splitlines()) == 1
    assert tightdp("ledger", "show", "none.ledger").code == 2


def test_all_spends_are_shown_on_request(here, tightdp):
    with Ledger(epsilon=20, path=here / "long.ledger") as ledger:
        for i in range(12):
            ledger.spend(1, key=f"key {i}")
    assert "key 0 " not in tightdp("ledger", "show", "long.ledger").out
    assert "and 2 earlier" in tightdp("ledger", "show", "long.ledger").out
    assert "key 0 " in tightdp("ledger", "show", "long.ledger", "--all").out


# --- the whole -----------------------------------------------------------------------------------


def commands():
    return [" ".join(path) for path, _ in nodes(parser()) if path]


@pytest.mark.parametrize("path", commands())
def test_every_command_has_help_worth_reading(path, capsys):
    with pytest.raises(SystemExit) as done:
        main([*path.split(), "--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: tightdp {path}" in text
    whole = path in ("schema", "plan", "ledger")  # groups of commands
    assert whole or "--json" in text
    assert whole or f"tightdp {path}" in text.split("examples:")[1]


# what takes minutes, would write over the files of this folder, or needs a release that was lost;
# what serves until it is stopped; other programs and shells
LEFT_OUT = ("reproduce all", "tightdp web", " init ", "ledger burn", " | jq ", "completion")


def test_examples_of_help_can_be_pasted(here, tightdp, capsys):
    shutil.copy(here / "survey.csv", here / "public.csv")
    plan_of_tests(here)
    pasted = []
    for path in sorted(commands(), key=lambda path: path.startswith("ledger")):  # it must exist
        with pytest.raises(SystemExit):
            main([*path.split(), "--help"])
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 100
        for line in text.partition("examples:\n")[2].splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["echo"]:
                subprocess.run(line, shell=True, check=True, cwd=here)
            elif words and not any(part in line for part in LEFT_OUT):
                pasted.append(words[1])
                said = tightdp(*words[1:])
                assert said.code == 0, (line, said.err)
    assert {"audit", "compare", "design", "verify", "ledger", "power", "preview"} <= {*pasted}
    assert "release" in pasted


@pytest.mark.parametrize(
    "words",
    [
        "schema init survey.csv --out new.toml",
        "schema check",
        "plan init survey.csv --out new.toml",
        "preview plan.toml",
        "release plan.toml",
        "compare plan.toml",
        "power tests.toml",
        "audit plan.toml --releases 1000 --release answers",
        "kinds",
        "kinds mean",
        "design --epsilon 1 --delta 1/4 --cells 8",
        "verify none.json",
        "ledger show none.ledger",
        "ledger verify none.ledger",
        "ledger burn none.ledger --key a",
        "reproduce",
        "completion bash",
    ],
)
def test_every_command_speaks_json_and_nothing_else(words, here, tightdp):
    plan_of_tests(here)
    said = tightdp(*words.split(), "--json")
    assert isinstance(said.json, dict)
    assert said.err == ""
    assert ("error" in said.json) == ("none" in words)


def test_help_lists_exit_codes(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(meaning in text for meaning in MEANINGS.values())


def test_errors_are_json_where_json_was_asked_for(tightdp):
    said = tightdp("release", "none.toml", "--json")
    assert said.code == said.json["error"]["exit"] == 2
    assert said.err == ""
    assert "Did you mean 'release'?" in tightdp("relaese", "--json").json["error"]["message"]


def test_a_fault_shows_no_words_of_the_engine(tightdp, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("cell 987654")

    monkeypatch.setattr("tightdp.plans.plan.Plan.release", broken)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.FAULT
    assert "987654" not in said.err
    assert len(said.err.splitlines()) == 1
    monkeypatch.setenv("TIGHTDP_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        tightdp("release", "plan.toml")


def test_an_interrupt_is_one_line(tightdp, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tightdp.plans.plan.Plan.release", stop)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.INTERRUPTED
    assert len(said.err.splitlines()) == 1


def test_a_closed_pipe_is_no_error(here):
    command = [sys.executable, "-m", "tightdp.cli", "kinds"]
    done = subprocess.run(
        f"{' '.join(command)} 2>err | true; echo ${{PIPESTATUS[0]}}",
        shell=True, executable=shutil.which("bash"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "0"
    assert "Traceback" not in Path("err").read_text()


def test_a_closed_pipe_does_not_cost_the_report(here):
    """`tightdp release ... --report out.md | head` writes what was paid for."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "tightdp.cli",
        "release",
        "plan.toml",
        "--report",
        "out.md",
    ]
    done = subprocess.run(
        f"{' '.join(command)} 2>err | true; echo ${{PIPESTATUS[0]}}",
        shell=True, executable=shutil.which("bash"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "0"
    assert "The guarantee" in (here / "out.md").read_text()


def test_a_report_that_cannot_be_written_does_not_cost_the_numbers(here, tightdp, monkeypatch):
    def full(self, path):
        raise ParameterError("The disk is full.")

    monkeypatch.setattr("tightdp.report.Report.save", full)
    said = tightdp("release", "plan.toml", "--report", "out.md")
    assert said.code == Exit.PAID
    assert "means (released now)" in said.out
    assert "The disk is full." in said.err


def test_numbers_that_are_not_finite_are_texts_in_json():
    assert plain({"a": [float("inf"), 1.0, None, True]}) == {"a": ["inf", 1.0, None, True]}


# --- completion ----------------------------------------------------------------------------------


def complete(words: list[str], folder: Path) -> list[str]:
    source = folder / "completion.sh"
    source.write_text(script("bash", parser()))
    listed = " ".join(f'"{word}"' for word in words)
    code = (
        f'source "{source}"; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _tightdp; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, check=True, cwd=folder,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_files(tmp_path):
    (tmp_path / "plan.toml").touch()
    assert complete(["tightdp", "re"], tmp_path) == ["release", "report", "reproduce"]
    assert complete(["tightdp", "ledger", "s"], tmp_path) == ["show"]
    assert complete(["tightdp", "release", "--r"], tmp_path) == ["--report"]
    assert complete(["tightdp", "release", "pl"], tmp_path) == ["plan.toml"]
    assert complete(["tightdp", "completion", "z"], tmp_path) == ["zsh"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell, tightdp):
    text = tightdp("completion", shell).out
    for path, _ in nodes(parser()):
        assert not path or path[-1] in text


RECORD = "41,Berlin,1975-03-02,anna@example.org\n37,Bonn,1980-11-30,ben@example.org\n"


@pytest.mark.parametrize(
    "record", ["AAT_ECOLI   0.49  0.29   cp", "anna\t41\tBerlin", "anna:x:1000", "anna : 41"]
)
def test_a_record_that_no_comma_divides_is_no_header(record, tmp_path, monkeypatch, capsys):
    """One cell that holds a record was taken for the name of a column."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(f"{record}\n" * 3)
    assert main(["schema", "init", "t.csv"]) == 2
    said = "".join(capsys.readouterr())
    assert "does not look like a header" in said
    assert record not in said
    assert not Path("schema.toml").exists()
    Path("n.csv").write_text("weight of all: kg\n1\n")
    assert main(["schema", "init", "n.csv"]) == 0


def test_a_file_without_a_header_is_not_copied_into_the_schema(tmp_path, monkeypatch, capsys):
    """The first line of such a file is a person."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(RECORD)
    assert main(["schema", "init", "t.csv"]) == 2
    said = "".join(capsys.readouterr())
    assert "--no-header" in said
    assert "--header" in said
    assert not any(cell in said for cell in RECORD.splitlines()[0].split(","))
    assert not Path("schema.toml").exists()
    assert main(["schema", "init", "t.csv", "--no-header"]) == 0
    text = Path("schema.toml").read_text()
    assert [f"[columns.c{i}]" in text for i in range(1, 6)] == [True] * 4 + [False]
    assert not any(cell in text for cell in RECORD.splitlines()[0].split(","))


def test_what_was_said_of_a_table_is_to_be_said_again_for_the_plan(tmp_path, monkeypatch, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    book = openpyxl.Workbook()
    book.active.title = "2014"
    book.active.append(["age", "town"])
    book.save("t.xlsx")
    Path("t.csv").write_text("age;town\n1;2\n", "latin-1")
    Path("t.txt").write_text("12ab\n")
    for said, again in (
        (["t.xlsx", "--sheet", "2014"], "--sheet"),
        (["t.csv", "--delimiter", ";", "--encoding", "latin-1"], "--delimiter and --encoding"),
        (["t.txt", "--widths", "2,2", "--names", "a,b"], "--names and --widths"),
        (["t.txt", "--widths", "2,2"], "--widths"),
    ):
        assert main(["schema", "init", *said, "--force"]) == 0
        assert f"; and say {again} to `tightdp plan init`, too" in "".join(capsys.readouterr())
    Path("u.csv").write_text("age,town\n1,2\n")
    assert main(["schema", "init", "u.csv", "--force"]) == 0
    assert "plan init" not in "".join(capsys.readouterr())


def test_names_that_are_numbers_can_be_insisted_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("id,2019,2020\n1,2,3\n")
    assert main(["schema", "init", "t.csv"]) == 2
    assert main(["schema", "init", "t.csv", "--header"]) == 0
    assert "[columns.2019]" in Path("schema.toml").read_text()
    Path("twice.csv").write_text("Berlin,Berlin\n")
    assert main(["schema", "init", "twice.csv", "--out", "twice.toml"]) == 2
    assert "Berlin" not in capsys.readouterr().err


NAMES = ("age", "q1", "x.1", "Jahr", "2nd visit", "income (EUR)", "é", "no_of_rooms")
CELLS = (
    *("41", "-1,5", "1.234,5", "$12", "12 %", "1e-5", "", " ", "n/a", "true", "1 234", "inf"),
    *("02/03/1975", "1975-03-02T10:00:00Z", "10:30", "a@b.org"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_does_not_look_like_data(name):
    assert not looks_like_data(name)


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_looks_like_data(cell):
    assert looks_like_data(cell)


def test_every_command_has_its_home():
    """Only what is asked for is built: the words of a command must lead to it."""
    commands = {path[0] for path, _ in nodes(parser()) if path}
    assert commands == set(HOMES)
    for name in HOMES:
        assert name in {path[0] for path, _ in nodes(parser([name])) if path}


def test_one_header_or_none(here, capsys):
    assert main(["schema", "init", "survey.csv", "--header", "--no-header", "--force"]) == 2
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["tab", "\\t", "\t", "blank", " ", ";", "blanks"])
def test_what_divides_cells_is_said_in_words(word, here, tightdp):
    mark = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": ","}.get(word, word)
    (here / "t.txt").write_text(mark.join(["age", "place"]) + "\n")
    found = tightdp("schema", "init", "t.txt", "--delimiter", word, "--out", "t.toml")
    if word == "blanks":
        assert "one of ',', ';', '|', 'tab', 'blank'" in found.err
        assert "Did you mean 'blank'?" in found.err
    else:
        assert found.code == 0
        assert "[columns.place]" in (here / "t.toml").read_text()
