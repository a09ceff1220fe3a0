"""What is paid for is never lost to a failing report, and exit codes say what was spent."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tightdp.cli import main
from tightdp.cli.output import Exit
from tightdp.errors import DataError, InfeasibleSamplingError, LedgerError, ParameterError
from tightdp.ledger import Ledger, files, store
from tightdp.plans.request import Request

from .conftest import PLAN


def spent(folder: Path, name: str = "survey.ledger") -> float:
    path = folder / name
    if not path.exists():
        return 0.0
    with Ledger.open(path) as ledger:
        ledger.verify()
        return float(ledger.spent.epsilon)


# --- reports and the files of the plan ------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ledger.json", "plan.json", "survey.json", "schema.json", "link.json", "hard.json"]
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_report_never_takes_the_place_of_what_the_plan_needs(here, tightdp, name, stored):
    """Before: exit 0, and the ledger was a report."""
    (here / "schema.json").write_text((here / "schema.toml").read_text())
    (here / "plan.json").write_text(
        PLAN.replace("survey.ledger", "ledger.json").replace("schema.toml", "schema.json")
    )
    (here / "survey.json").symlink_to(here / "survey.csv")  # the table by another name
    if stored:
        assert tightdp("release", "plan.json").code == 0
        (here / "link.json").symlink_to(here / "ledger.json")
        os.link(here / "plan.json", here / "hard.json")
    else:
        (here / "link.json").symlink_to(here / "ledger.json")
        os.link(here / "plan.json", here / "hard.json")
    before = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
    said = tightdp("release", "plan.json", "--report", name)
    assert said.code == Exit.WRONG
    assert "name another file" in said.err
    after = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
    assert after == before
    assert spent(here, "ledger.json") == (2.0 if stored else 0.0)


@pytest.mark.parametrize("name", ["plan.toml", "survey.csv", "schema.toml", "survey.ledger"])
def test_other_commands_do_not_write_over_a_ledger(here, tightdp, name):
    tightdp("release", "plan.toml")
    before = (here / "survey.ledger").read_bytes()
    for words in (
        ["schema", "init", "survey.csv", "--out", "survey.ledger", "--force"],
        ["plan", "init", "survey.csv", "--out", "survey.ledger", "--force"],
        ["design", "--epsilon", "1", "--cells", "8", "--out", "survey.ledger", "--force"],
    ):
        assert tightdp(*words).code == Exit.WRONG
    assert (here / "survey.ledger").read_bytes() == before
    assert spent(here) == 2.0


@pytest.mark.parametrize(
    "path", ["a" * 400 + ".md", "a\0.md", "loop.md", "pipe.md", "folder.md", "none/a.md", "a.pdf"]
)
def test_a_report_that_cannot_be_written_is_refused_unpaid(here, tightdp, path):
    (here / "loop.md").symlink_to(here / "loop.md")
    (here / "folder.md").mkdir()
    os.mkfifo(here / "pipe.md")
    said = tightdp("release", "plan.toml", "--report", path)
    assert (said.code, said.out) == (Exit.WRONG, "")
    assert len(said.err.splitlines()) == 1
    assert not (here / "survey.ledger").exists()


# --- after the payment ----------------------------------------------------------------------------


def test_a_report_that_fails_after_payment_says_so(here, tightdp, monkeypatch):
    """Before: exit 2, 'nothing was spent'."""

    def broken(self):
        raise ValueError("a cell: 41.5")

    monkeypatch.setattr("tightdp.report.Report.markdown", broken)
    said = tightdp("release", "plan.toml", "--report", "out.md")
    assert said.code == Exit.PAID
    assert spent(here) == 2.0
    assert "means (released now)" in said.out
    assert "41.5" not in said.err
    assert "run the command again" in said.err
    again = tightdp("release", "plan.toml", "--report", "out.md")  # nothing is spent now
    assert again.code == Exit.FAULT
    assert tightdp("release", "plan.toml", "--report", "out.json").code == 0
    assert spent(here) == 2.0


def test_a_second_release_that_fails_does_not_deny_the_first(here, tightdp, monkeypatch):
    first = Request.release

    def second(self, frame, **options):
        if self.kind.name == "count" and options["ledger"].path is not None:  # no rehearsal
            raise InfeasibleSamplingError("It would never end.")
        return first(self, frame, **options)

    monkeypatch.setattr(Request, "release", second)
    said = tightdp("release", "plan.toml", "--json")
    assert said.code == said.json["error"]["exit"] == Exit.PAID
    assert "It would never end." in said.json["error"]["message"]
    assert spent(here) == 1.0


def test_a_report_that_fails_leaves_one_document(here, tightdp, monkeypatch):
    """Before: two JSON documents, one after the other."""

    def broken(self):
        raise ValueError("a cell: 41.5")

    monkeypatch.setattr("tightdp.report.Report.markdown", broken)
    for code in (Exit.PAID, Exit.FAULT):  # paid now; stored
        said = tightdp("release", "plan.toml", "--report", "out.md", "--json")
        assert said.code == said.json["error"]["exit"] == code


@pytest.mark.parametrize("kind", [LedgerError, DataError])
def test_errors_of_the_ledger_and_the_table_say_what_went(here, tightdp, monkeypatch, kind):
    """Before: exit 4 or 5, and no word of the payment."""

    def fails(point):
        if point == "storing":
            raise kind("The disk is full.")

    monkeypatch.setattr(store, "_checkpoint", fails)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.PAID
    assert "The disk is full. This came after a payment" in said.err
    assert "Paid for and lost: 'means';" in said.err
    assert "'answers'" not in said.err
    assert spent(here) == 1.0


@pytest.fixture
def at_a_terminal():
    """Signals as at a terminal: a job in the background is started without Ctrl-C."""
    as_usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in as_usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_says_what_was_paid_and_lost(here, tightdp, monkeypatch, stop):
    """Before: 'nothing is spent twice' of a lost release, and no word at all of SIGTERM."""
    seen = []

    def stopped(point):
        seen.append(point)
        if point == "storing" and seen.count(point) == 2:
            os.kill(os.getpid(), stop)

    monkeypatch.setattr(store, "_checkpoint", stopped)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.PAID
    assert "Interrupted. This came after a payment" in said.err
    assert "stored in the ledger: 'means'." in said.err
    assert "lost: 'answers';" in said.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert spent(here) == 2.0


def test_an_interruption_before_payment_is_one(here, tightdp, monkeypatch):
    def stopped(point):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_checkpoint", stopped)
    assert tightdp("release", "plan.toml").code == Exit.INTERRUPTED
    assert spent(here) == 0.0


def test_nothing_is_paid_on_a_disk_that_is_nearly_full(here, tightdp, monkeypatch):
    """Before: the payment fitted, the release did not, and its epsilon was lost."""
    with Ledger(2, path=here / "survey.ledger"):
        pass
    monkeypatch.setattr(files, "_ROOM", 1 << 62)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.LEDGER
    assert "make room" in said.err
    assert spent(here) == 0.0


def test_an_error_before_payment_is_as_before(here, tightdp, monkeypatch):
    def wrong(self, frame, **options):
        raise ParameterError("`noise` is wrong.")

    monkeypatch.setattr(Request, "release", wrong)
    assert tightdp("release", "plan.toml").code == Exit.WRONG
    assert spent(here) == 0.0


def test_a_grouped_sum_of_many_entries_has_its_report(here, tightdp):
    """Before: a volume in more than 8 dimensions was asked for, after the payment."""
    levels = ", ".join(f'"l{i}"' for i in range(10))
    schema = (here / "schema.toml").read_text().partition("[columns.answer]")[0]
    (here / "schema.toml").write_text(f"{schema}[columns.answer]\nlevels = [{levels}]\n")
    plan = PLAN.partition("[[releases]]")[0]
    plan += '[[releases]]\nname = "g"\nkind = "products"\nterms = ["age:answer"]\nweight = 1\n'
    (here / "plan.toml").write_text(plan)
    said = tightdp("release", "plan.toml", "--report", "r.html", "--report", "r.md")
    assert said.code == 0
    assert "Among the shapes" in (here / "r.md").read_text()


def test_noise_that_was_asked_for_is_not_praised(here, tightdp):
    plan = PLAN.replace('kind = "count"', 'kind = "count"\nnoise = "l2"')
    (here / "plan.toml").write_text(plan)
    assert tightdp("release", "plan.toml", "--report", "r.md").code == 0
    text = (here / "r.md").read_text()
    assert "asks for noise of the shape 'l2'" in text
    assert "this one has the least variance" not in text.partition("## answers")[2]


# --- terminals ------------------------------------------------------------------------------------


class Old(io.TextIOWrapper):
    """A terminal of another age."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    @property
    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_terminal_that_cannot_encode_a_name_does_not_cost_the_release(here, monkeypatch, words):
    """Before: exit 70, after the payment."""
    (here / "plan.toml").write_text(PLAN.replace('"means"', '"Löhne 工资"'))
    for encoding in ("ascii", "latin-1", "utf-8"):
        out = Old(encoding)
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["release", "plan.toml", *words]) == 0
        if words:
            assert json.loads(out.text)["answers"][0]["name"] == "Löhne 工资"
        else:
            assert ("\\u5de5" in out.text) == (encoding != "utf-8")
    monkeypatch.undo()
    assert spent(here) == 2.0


def test_a_full_disk_behind_the_output_is_said_to_be_paid(here, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", open("/dev/full", "w"))  # noqa: SIM115
    assert main(["release", "plan.toml"]) == Exit.PAID
    assert "No space left" in capsys.readouterr().err
    sys.stdout.close()  # nothing is left that could fail when the program ends
    monkeypatch.undo()
    assert spent(here) == 2.0


@pytest.mark.slow_for("words1")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_full_disk_behind_a_replay_is_no_fault(here, tightdp, words):
    """Before: exit 70, 'a fault of tightdp itself'; and 120 from Python when a run had paid."""
    tightdp("release", "plan.toml")
    run = [sys.executable, "-m", "tightdp.cli", "release", "plan.toml", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == Exit.WRONG
    assert "The output cannot be written: No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_output_at_all_is_no_fault(here, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["release", "plan.toml"]) == 0
    assert main(["release", "none.toml"]) == Exit.WRONG


ESCAPE, TURN = "\x1b[2J\x1b]0;owned\x07", "\u202e"


def test_nothing_that_is_printed_commands_a_terminal(here, tightdp):
    """Levels may hold anything; names of releases, keys and titles are refused."""
    schema = (here / "schema.toml").read_text()
    level = json.dumps(f"yes{ESCAPE}{TURN}\n  forged line")
    (here / "schema.toml").write_text(schema.replace('"yes"', level))
    for words in (["preview"], ["release"], ["compare"]):
        said = tightdp(*words, "plan.toml")
        assert said.code == 0
        for text in (said.out, said.err):
            assert "\x1b" not in text
            assert "\x07" not in text
            assert TURN not in text
            assert "\n  forged" not in text
    assert "\\x1b[2J" in tightdp("schema", "check").out


@pytest.mark.parametrize("what", ["title", "name", "key"])
def test_names_of_a_plan_are_one_line(here, tightdp, what):
    text = json.dumps(f"a{ESCAPE}\nb")
    plan = {
        "title": PLAN.replace('"A survey"', text),
        "name": PLAN.replace('"means"', text),
        "key": PLAN.replace('name = "means"', f'name = "means"\nkey = {text}'),
    }[what]
    (here / "plan.toml").write_text(plan)
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.WRONG
    assert f"`{what}` must be one line" in said.err
    assert "\x1b" not in said.err


def test_the_table_of_a_ledger_commands_nothing(here, tightdp):
    with Ledger(1, path=here / "l.db", neighbors="add-remove") as ledger:
        ledger.declare_partition(f"p{ESCAPE}", [f"c{ESCAPE}", "d"], fixed=False)
        ledger.spend(0.1, key=f"k{ESCAPE}", label=f"l{ESCAPE}", partition=(f"p{ESCAPE}", "d"))
        assert "\x1b" not in str(ledger)
    with Ledger(1, path=here / "m.db") as ledger:
        ledger.spend(0.1, protects=f"persons{ESCAPE}")
        assert "\x1b" not in str(ledger)
    assert "\x1b" not in tightdp("ledger", "show", "l.db").out


@pytest.mark.parametrize("one_pass", [[], ["--one-pass"]])
def test_a_warning_that_is_an_error_says_its_words(here, tightdp, one_pass):
    """Before: a fault of tightdp itself, and not a word of what is to be put right."""
    lines = (here / "survey.csv").read_text().splitlines()
    (here / "survey.csv").write_text("\n".join(lines[:-1]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = tightdp("release", "plan.toml", *one_pass)
    assert said.code == Exit.PAID
    assert "The table has 99 rows and the schema says 100" in said.err
    assert "fault" not in said.err


def test_a_warning_that_is_an_error_before_payment_is_a_wrong_plan(here, tightdp):
    lossy = 'kind = "mean"\nnoise = "gaussian"\ndelta = 0.05'
    plan = PLAN.replace('kind = "mean"', lossy).replace("epsilon = 2", "epsilon = 2\ndelta = 0.1")
    (here / "plan.toml").write_text(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = tightdp("release", "plan.toml")
    assert said.code == Exit.WRONG
    assert "is more than 1 / 100" in said.err
    assert spent(here) == 0
