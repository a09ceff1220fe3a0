"""Files whose cells have stated widths: each line is cut by itself, into what CSV files hold."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import pytest

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.data.fixed_widths import cut_lines
from tightdp.data.one_pass import quantized_matrix
from tightdp.errors import ParameterError
from tightdp.plans import Plan

NAMES, WIDTHS = ["age", "region", "note"], [3, 6, 4]
SCHEMA = tdp.Schema(
    {"age": tdp.Interval(0, 100), "region": tdp.Category(["north", "süd"])},
    rows=6,
    neighbors="add-remove",
)
CELLS = [
    ("41", "north", "abcd"),
    (" 7 ", "süd", '"'),
    ("", "süd", ","),
    ("x", "", ""),
    ("100", "ab\rcd", "a"),
]


def integers(file: tdp.CsvFile) -> list[list[int]]:
    return quantized_matrix(file, SCHEMA, ["age", "region"]).tolist()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["t.txt", "t.tsv.gz"])
def test_the_integers_are_those_of_the_same_table_in_csv(encoding, end, name, tmp_path):
    widths = list(zip(WIDTHS, range(3), strict=True))
    lines = ["".join(row[j].ljust(width) for width, j in widths) for row in CELLS]
    lines += ["12", "", "99 north ....and what is beyond the last cell"]  # short, blank, long
    raw = end.join(lines).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        short = [("12", "", ""), ("99", "north", "....")]
        csv.writer(file).writerows([[c.strip() for c in row] for row in [*CELLS, *short]])
    fixed = tdp.CsvFile(tmp_path / name, NAMES, encoding=encoding, widths=WIDTHS)
    assert integers(fixed) == integers(tdp.CsvFile(tmp_path / "t.csv", NAMES))


def test_lines_are_cut_the_same_whatever_pieces_they_come_in(monkeypatch):
    """Of any line, odd bytes and ends of lines included, as a plain cut of the whole line."""
    draw = random.Random(1)
    for size in (1, 2, 3, 7, 100):
        monkeypatch.setattr("tightdp.data.fixed_widths._PIECE", size)
        lines = ["".join(draw.choices('a \r",\udcff', k=draw.randrange(12))) for _ in range(60)]
        found = [cells for cells, _ in cut_lines(_Text("\n".join(lines) + "\nx"), [2, 3, 1])]
        assert found == [_plain_cut(line.removesuffix("\r")) for line in lines] + [["x", "", ""]]


class _Text:
    """Pieces of a text as a file gives them, up to a line feed or so many letters."""

    def __init__(self, text: str) -> None:
        self._text = text

    def readline(self, size: int, /) -> str:
        end = self._text.find("\n") + 1 or len(self._text)
        piece, self._text = self._text[: min(end, size)], self._text[min(end, size) :]
        return piece


def _plain_cut(line: str) -> list[str]:
    return [line[a:b].strip(" ") for a, b in ((0, 2), (2, 5), (5, 6))] if line else []


@pytest.mark.parametrize(
    ("names", "options", "word"),
    [
        (NAMES, {"widths": "363"}, "widths"),
        (NAMES, {"widths": [3, 6, 0]}, "widths"),
        (NAMES, {"widths": [3, 6, True]}, "widths"),
        (NAMES, {"widths": [3, 6, 4.0]}, "widths"),
        (NAMES, {"widths": []}, "widths"),
        (NAMES, {"widths": [3, 6]}, "one entry for every column"),
        (None, {"widths": [3, 6, 4]}, "one entry for every column"),
        (NAMES, {"widths": [3, 6, 1 << 20]}, "add up to at most"),
        (NAMES, {"widths": WIDTHS, "delimiter": ","}, "delimiter"),
    ],
)
def test_wrong_widths_are_refused(names, options, word):
    with pytest.raises(ParameterError, match=word):
        tdp.CsvFile("t.txt", names, **options)


def test_from_a_file_of_fixed_widths_to_a_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.data").write_text("41north a@b.\n37south c@d.\n")
    for odd in ("3,x", "3,,4", "-3"):
        assert main(["schema", "init", "t.data", f"--widths={odd}"]) == 2
    assert main(["schema", "init", "t.data", "--widths", "2,5"]) == 0
    assert "[columns.c2]" in Path("schema.toml").read_text()
    Path("schema.toml").write_text(
        'rows = 2\n[columns.age]\nlow = 0\nhigh = 100\n[columns.at]\nlevels = ["north", "south"]\n'
    )
    facts = ["--names", "age,at", "--widths", "2, 5"]
    assert main(["plan", "init", "t.data", *facts, "--delimiter", ";"]) == 2
    assert main(["plan", "init", "t.data", *facts]) == 0
    assert "widths = [2, 5]" in Path("plan.toml").read_text()
    assert main(["check", "plan.toml"]) == 0
    assert "2 rows; the schema says 2." in capsys.readouterr().out
    plan = Plan.read("plan.toml")
    assert plan.check()["age"].unreadable == plan.check()["at"].unseen == 0
    assert set(plan.release().answers) == {"means", "counts of at"}
    text = Path("plan.toml").read_text()
    for wrong in ('"2,5"', "[2]", "[2, 0]", "[[2], 5]"):
        Path("plan.toml").write_text(text.replace("[2, 5]", wrong))
        with pytest.raises(ParameterError, match="widths"):
            Plan.read("plan.toml")
