"""CSV files whose first line is a record: names are stated, and it is a record like others."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.errors import ParameterError
from tightdp.plans import Plan

SCHEMA = tdp.Schema(
    {"c1": tdp.Interval(0, 100), "c2": tdp.Category(["north", "south"], other="south")}, rows=4
)
LINES = ["41;north", "37;south", "12;west", "99"]


def written(folder: Path, lines: list[str], name: str = "t.csv") -> Path:
    path = folder / name
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_the_first_line_is_a_record(name, tmp_path):
    file = tdp.CsvFile(written(tmp_path, LINES, name), ["c1", "c2"], delimiter=";")
    mapping = {"c1": [41, 37, 12, 99], "c2": ["north", "south", "west", None]}
    for statistic in (tdp.Sums(SCHEMA, ["c1"]), tdp.Counts(SCHEMA, ["c2"])):
        assert statistic.measure(file) == statistic.measure(mapping)
    assert SCHEMA.check(file).rows == 4


def test_no_record_says_how_the_others_are_read(tmp_path):
    """Neither the first line nor any other decides on names, their number, or what divides them."""
    rest = LINES[1:]
    for first in ("41;north", '"a,b";x;y;z', "1,2,3", "", ";;;;", "41"):
        file = tdp.CsvFile(written(tmp_path, [first, *rest]), ["c1", "c2"], delimiter=";")
        alone = tdp.CsvFile(written(tmp_path, [first], "one.csv"), ["c1", "c2"], delimiter=";")
        others = tdp.CsvFile(written(tmp_path, rest, "rest.csv"), ["c1", "c2"], delimiter=";")
        facts = tdp.Schema(SCHEMA.columns, rows=4, neighbors="add-remove")
        counts = tdp.Products(facts, ["c1", "c2"])
        assert counts.measure(file) == [
            a + b for a, b in zip(counts.measure(alone), counts.measure(others), strict=True)
        ]


@pytest.mark.parametrize(
    ("names", "options", "word"),
    [
        ("c1", {}, "names"),
        ([], {}, "names"),
        (["a", "a"], {}, "names"),
        ([1, 2], {}, "names"),
        (["a"], {"delimiter": ":"}, "delimiter"),
    ],
)
def test_wrong_facts_are_refused(names, options, word):
    with pytest.raises(ParameterError, match=f"`{word}`"):
        tdp.CsvFile("t.csv", names, **options)
    with pytest.raises(ParameterError, match="csv"):
        tdp.CsvFile("t.parquet", ["a"])


def test_from_a_file_without_a_header_to_a_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ["41,north,a@b.org", "37,south,c@d.org"])
    assert main(["schema", "init", "t.csv", "--no-header"]) == 0
    Path("schema.toml").write_text(
        'rows = 2\n[columns.c1]\nlow = 0\nhigh = 100\n[columns.c2]\nlevels = ["north", "south"]\n'
    )
    assert main(["plan", "init", "t.csv"]) == 2  # its first line is no header
    assert main(["plan", "init", "t.csv", "--no-header"]) == 0
    text = Path("plan.toml").read_text()
    assert 'names = ["c1", "c2", "c3"]' in text
    assert not any(cell in text for cell in ("41", "a@b.org"))
    assert main(["check", "plan.toml"]) == 0
    assert "2 rows; the schema says 2." in capsys.readouterr().out
    plan = Plan.read("plan.toml")
    assert plan.check()["c1"].unreadable == 0
    assert set(plan.release().answers) == {"means", "counts of c2"}


def test_a_plan_says_where_names_belong(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[data]\nfolder = "."\nnames = ["a"]\n')
    with pytest.raises(ParameterError, match="`names` goes with a `file` of text"):
        Plan.read(path)
    path.write_text('[data]\nsql = "SELECT 1"\nencoding = "latin-1"\n')
    with pytest.raises(ParameterError, match="`encoding` goes with a `file` of text"):
        Plan.read(path)


def test_no_record_decides_whether_a_plan_is_read(tmp_path):
    """The first record was read as if it were a header, and some records refused the plan."""
    head = '[data]\nfile = "t.csv"\nnames = ["age", "note"]\n'
    rest = "[schema]\nrows = 3\ncolumns.age = {low = 0, high = 100}\n"
    path = tmp_path / "plan.toml"
    path.write_text(f'{head}{rest}[budget]\nepsilon = 1\nledger = "l.db"\n{RELEASE}')
    for first in ("41,none", "41,a\rb", "41," + "x" * 1_100_000, "", '"'):
        (tmp_path / "t.csv").write_text(f"{first}\n5,none\n", newline="")
        assert Plan.read(path).schema.rows == 3
    (tmp_path / "t.csv").unlink()
    with pytest.raises(ParameterError, match="there is no file"):
        Plan.read(path)


def test_a_file_that_cannot_be_read_is_refused_before_payment(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_text("41,none\n")  # not compressed
    release = tdp.AdditiveMechanism(
        tdp.Sums(tdp.Schema({"age": tdp.Interval(0, 100)}, rows=1)), epsilon=1
    ).release
    ledger = tdp.Ledger(epsilon=1)
    with pytest.raises(ParameterError, match="cannot be read"):
        release(tdp.CsvFile(path, ["age", "note"]), ledger=ledger)
    assert ledger.spent.epsilon == 0


RELEASE = '[[releases]]\nname = "s"\nkind = "sum"\ncolumns = ["age"]\nepsilon = 1\n'


@pytest.mark.parametrize(("word", "mark"), [(";", ";"), ("tab", "\t"), ("|", "|"), (None, ",")])
def test_what_divides_cells_is_stated_and_never_read_off_a_record(
    word, mark, tmp_path, monkeypatch, capsys
):
    """It was guessed from the first record for the schema, and forgotten in the plan."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, [mark.join(["41", '"a,b;c"']), mark.join(["37", "d"])])
    more = ["--no-header"] if word is None else ["--no-header", "--delimiter", word]
    assert main(["schema", "init", "t.csv", *more]) == 0
    assert Path("schema.toml").read_text().count("[columns.") == 2
    Path("schema.toml").write_text("rows = 2\n[columns.c1]\nlow = 0\nhigh = 100\n")
    assert main(["plan", "init", "t.csv", *more]) == 0
    assert Plan.read("plan.toml").check()["c1"].unreadable == 0
    assert main(["schema", "init", "t.csv", "--delimiter", ";", "--force"]) == 2
    assert main(["schema", "init", "t.csv", "--no-header", "--delimiter", "x", "--force"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize("path", [None, 5, b"t.csv", "", "a\0.csv"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ParameterError, match="`path`"):
        tdp.CsvFile(path, ["a"])


@pytest.mark.parametrize("names", [5, b"ab", {}])
def test_what_is_no_list_of_names_is_refused(names):
    with pytest.raises(ParameterError, match="`names`"):
        tdp.CsvFile("t.csv", names)


def test_no_error_quotes_a_record_that_was_taken_for_a_header(tmp_path):
    """The hint at a near name quoted the first record of a file without a header."""
    written(tmp_path, ["41,diagnosis: flu,Income", "5,none,1"])
    for name, quoted in (("diagnosis", False), ("income", True)):
        facts = tdp.Schema({name: tdp.Interval(0, 1)}, rows=2)
        with pytest.raises(ParameterError, match="has no column") as caught:
            tdp.Sums(facts).measure(tmp_path / "t.csv")
        assert ("Did you mean 'Income'" in str(caught.value)) == quoted
        assert "flu" not in str(caught.value)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".data", ".dat", ".test", ".train"])
@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz"])
def test_text_files_of_all_endings_packed_or_not(ending, packed, tmp_path):
    path = tmp_path / f"t{ending}{packed}"
    mark = "\t" if ending == ".tsv" else ","
    text = "\n".join(mark.join(row) for row in (["c1", "c2"], ["41", "north"], ["37", "x"])) + "\n"
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}
    path.write_bytes(packers[packed](text.encode()))
    facts = tdp.Schema(SCHEMA.columns, rows=2)
    counts = tdp.Products(facts, ["c1", "c2"])
    assert counts.measure(path) == counts.measure({"c1": [41, 37], "c2": ["north", "south"]})


def test_the_last_ending_says_what_divides_cells():
    """A name with .tsv in its middle was divided by tabs."""
    assert tdp.CsvFile("t.tsv.csv").delimiter is None
    assert tdp.CsvFile("t.tsv.csv", ["a"]).delimiter == ","
    assert tdp.CsvFile("T.TSV.gz").delimiter == "\t"


@pytest.mark.parametrize("name", ["t.dat", "t.txt", "t.data.gz", "t.test"])
def test_without_a_header_a_file_whose_name_tells_no_marks_wants_them_stated(
    name, tmp_path, monkeypatch, capsys
):
    """Cells divided by blanks were all read as missing, without a word, and paid for."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ["41 north", "37 south"], name)
    with pytest.raises(ParameterError, match="`delimiter` must be stated"):
        tdp.CsvFile(name, ["age", "region"])
    Path("plan.toml").write_text(
        f'[data]\nfile = "{name}"\nnames = ["age", "region"]\n[schema]\nrows = 2\n'
        f'columns.age = {{low = 0, high = 100}}\n[budget]\nepsilon = 1\nledger = "l.db"\n{RELEASE}'
    )
    assert main(["release", "plan.toml"]) == 2
    assert "`delimiter` must be stated" in capsys.readouterr().err
    assert not Path("l.db").exists()
    for more in (["--no-header"], ["--names", "age,region"]):
        assert main(["schema", "init", name, *more]) == 2
        assert "`--delimiter` must be stated" in capsys.readouterr().err
        assert main(["schema", "init", name, *more, "--delimiter", "blank", "--force"]) == 0
    tdp.CsvFile(name, ["age", "region"], widths=[3, 5])  # nothing divides the cells


def test_a_check_says_that_other_marks_divide_the_lines(tmp_path):
    path = written(tmp_path, ["41 north", "37 south", "12"], "t.dat")
    stated = [tdp.CsvFile(path, ["c1", "c2"], delimiter=mark) for mark in (",", " ")]
    assert [SCHEMA.check(file).undivided for file in stated] == [True, False]
    assert "State `delimiter`" in str(SCHEMA.check(stated[0]))
    assert "State `delimiter`" not in str(SCHEMA.check(stated[1]))


def test_blanks_divide_cells_as_one_does(tmp_path):
    lines = ["  41  north", "37 south  ", '12   "west end"', "", "99"]
    file = tdp.CsvFile(written(tmp_path, lines, "t.data"), ["c1", "c2"], delimiter=" ")
    mapping = {"c1": [41, 37, 12, 99], "c2": ["north", "south", "west end", None]}
    for statistic in (tdp.Sums(SCHEMA, ["c1"]), tdp.Counts(SCHEMA, ["c2"])):
        assert statistic.measure(file) == statistic.measure(mapping)


def test_letters_are_stored_as_stated(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("prix;où\n1;été\n2;\x81\n".encode("latin-1"))
    schema = tdp.Schema({"où": tdp.Category(["été", "hiver"]), "prix": tdp.Interval(0, 2)}, rows=2)
    counts = tdp.Counts(schema, ["où"])
    file = tdp.CsvFile(path, encoding="latin-1")
    assert counts.measure(file) == [1, 0, 1]
    assert counts.measure(tdp.CsvFile(path, encoding="cp1252")) == [1, 0, 1]
    with pytest.raises(ParameterError, match="no column"):
        counts.measure(path)


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "utf-7", "cp037", "x", 5, None, "hex"])
def test_encodings_in_which_one_byte_may_change_others_are_refused(encoding):
    with pytest.raises(ParameterError, match="`encoding`"):
        tdp.CsvFile("t.csv", encoding=encoding)


def test_a_stated_mark_divides_a_header_and_never_lets_a_record_pass_for_one(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ["income, yearly|age", "41|3"])
    assert main(["schema", "init", "t.csv", "--delimiter", "|"]) == 0
    assert "income, yearly" in Path("schema.toml").read_text()
    for mark in (";", "tab", "blank"):
        written(tmp_path, ["flu|41|x", "none|3|y"])
        assert main(["schema", "init", "t.csv", "--delimiter", mark, "--force"]) == 2
    assert "flu" not in capsys.readouterr().err + Path("schema.toml").read_text()


def test_a_plan_for_a_file_as_it_lies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.data").write_bytes("41   café\n37   thé\n".encode("latin-1"))
    more = ["--no-header", "--delimiter", "blank", "--encoding", "latin-1"]
    assert main(["schema", "init", "t.data", *more]) == 0
    Path("schema.toml").write_text('rows = 2\n[columns.c2]\nlevels = ["café", "thé"]\n')
    assert main(["plan", "init", "t.data", *more]) == 0
    assert Plan.read("plan.toml").check()["c2"].unseen == 0
    capsys.readouterr()
