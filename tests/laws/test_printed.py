"""Every face prints intervals that hold the exact ones and the value, at no more than their level.

What is printed is read back as a person would: numbers from text. Values and half-widths range
over 1e-12 to 1e15, so that intervals are far narrower, and far wider, than their values.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tightdp as tdp
from tightdp import printed
from tightdp.answer import Answer
from tightdp.compare import Comparison
from tightdp.estimators.coefficient_tables import CoefficientTable, coefficient_table
from tightdp.plots import plot_release
from tightdp.preview import Preview
from tightdp.privacy import Guarantee
from tightdp.release import Release
from tightdp.report import Report, pictures
from tightdp.report.sections import of_answer

NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?"
INTERVAL = re.compile(rf"\[({NUMBER}) to ({NUMBER})\]")
LEVEL = re.compile(r"(\d+(?:\.\d+)?)%")
ONE = Guarantee(epsilon=1.0)

sizes = st.floats(-12, 15).map(lambda power: 10.0**power)
values = st.tuples(st.sampled_from([-1.0, 1.0]), sizes).map(lambda pair: pair[0] * pair[1])
widths = st.one_of(sizes, st.just(0.0))


def made(value: float, half: float, confidence: float = 0.95) -> Release:
    return Release(
        names=("x",),
        value=np.array([value]),
        integers=(0,),
        resolution=1,
        guarantee=ONE,
        noise="discrete Laplace",
        covariance=np.array([[half**2 / 4]]),
        half_width=np.array([half]),
        confidence=confidence,
    )


def coefficients(found: Release) -> CoefficientTable:
    return coefficient_table(
        "A fit", found.names, found.value, found.noise_std, found.interval, found.confidence, ONE,
        about="the population's",
    )  # fmt: skip


def unmarked(text: str) -> str:
    """A printed number as Python reads it; its commas divide thousands, and nothing else."""
    whole = re.match(r"-?[\d,]*", text)[0].lstrip("-")
    assert re.fullmatch(r"\d{1,3}(,\d{3})*", whole), text
    return text.replace(",", "")


def text_of(page: str) -> str:
    """The text of a page, its elements apart."""
    return html.unescape(re.sub(r"<[^>]*>", "  ", page))


def of_rows(text: str) -> list[tuple[str, str, str]]:
    """The value and the ends in every row of a table that has them."""
    rows = [line for line in text.splitlines() if re.match(r"[| ]*x ", line)]
    return [(re.findall(NUMBER, row.lstrip("| x"))[0], *INTERVAL.findall(row)[-1]) for row in rows]


def of_elements(text: str) -> list[tuple[str, str, str]]:
    """The same where cells are elements: the number before, or two before, an interval."""
    cells = [cell.strip() for cell in re.split(r"\s{2,}", text)]
    found = []
    for at, cell in enumerate(cells):
        if (ends := INTERVAL.fullmatch(cell)) is not None:
            back = next(i for i in range(at - 1, -1, -1) if cells[i] == "x")
            numbers = [c for c in cells[back + 1 : at] if re.fullmatch(NUMBER, c)]
            found.append((numbers, *ends.groups()))
    return [(row[0][0], row[1], row[2]) for row in found]


def of_picture(found: Release) -> list[tuple[str, str, str]]:
    """The marks of a track are its axis; then come the value and the interval, as elements."""
    picture = pictures.draw(Answer.of(found))
    ((low, high),) = INTERVAL.findall(text_of(picture))
    (value,) = re.findall(rf"<b>({NUMBER})<", picture)
    return [(value, low, high)]


def of_bars(found: Release) -> list[tuple[str, str, str]]:
    picture = pictures.draw(Answer.of(found), bars=True)
    ((low, high),) = INTERVAL.findall(text_of(picture))
    (value,) = re.findall(rf"<b>({NUMBER})<", picture)
    return [(value, low, high)]


FACES: dict[str, Callable[[Release], list[tuple[str, str, str]]]] = {
    "release": lambda found: of_rows(str(found)),
    "release, notebook": lambda found: of_elements(text_of(found._repr_html_())),
    "answer": lambda found: of_rows(Answer.of(found).text()),
    "answer, notebook": lambda found: of_elements(text_of(Answer.of(found)._repr_html_())),
    "coefficients": lambda found: of_rows(str(coefficients(found))),
    "coefficients, notebook": lambda found: of_elements(text_of(coefficients(found)._repr_html_())),
    "report": lambda found: of_rows(Report.of(found).markdown().replace("\\", "")),
    "report, picture": of_picture,
    "report, bars": of_bars,
}


def holds(found: Release, said: list[tuple[str, str, str]]) -> bool:
    """Whether what is printed holds what is known, and is hardly wider; floats are read back.

    An end is a number with two digits of the half-width: it moves by a tenth of it at most.
    """
    ((low, high),) = found.interval
    room = max((Fraction(high) - Fraction(low)) / 19, Fraction(np.spacing(max(-low, high))))
    for value, least, most in (map(unmarked, numbers) for numbers in said):
        wide = Fraction(least) >= Fraction(low) - room and Fraction(most) <= Fraction(high) + room
        ends = float(least) <= low <= high <= float(most)
        middle = Fraction(least) <= Fraction(value) <= Fraction(most)
        if not (ends and middle and (wide or low == high)):
            return False
    return bool(said)


@pytest.mark.parametrize("face", FACES)
@settings(max_examples=60, deadline=None)
@given(value=values, half=widths)
@example(value=1332412.4, half=3.69)
@example(value=1986.99755, half=0.0013)
@example(value=4.1, half=0.1)
@example(value=-1e15, half=1e-12)
def test_printed_intervals_hold_the_exact_ones(face, value, half):
    found = made(value, half)
    assert holds(found, FACES[face](found)), FACES[face](found)


@pytest.mark.parametrize("digits", [3, 4, 5, 6])
@pytest.mark.parametrize("face", FACES)
def test_digits_of_the_value_are_caught(face, digits, monkeypatch):
    """Planted: so many digits of every number, whatever its interval is."""

    def estimate(*numbers: float) -> tuple[str, ...]:
        return tuple(f"{number:.{digits}g}" for number in numbers)

    def cells(value: float, ends: Sequence[float]) -> tuple[str, str]:
        middle, low, high = estimate(value, *ends)
        return middle, f"[{low} to {high}]"

    for face_of in (Release._rows, Answer.cells, coefficient_table):
        monkeypatch.setitem(face_of.__globals__, "value_and_interval", cells)
    found = made(1332412.4, 3.69)
    assert not holds(found, FACES[face](found))


def test_a_whole_page_says_the_same_in_tables_and_pictures():
    found = made(1332412.4, 3.69)
    assert set(INTERVAL.findall(text_of(Report.of(found).html()))) == {
        ("1,332,408.7", "1,332,416.1")
    }


def test_values_without_an_interval_keep_their_whole_digits():
    answer = replace(Answer.of(made(1332412.4, np.nan)), unknown=("x",))
    for text in (str(made(1332412.4, np.nan)), answer.text(), text_of(answer._repr_html_())):
        assert "1,332,412" in text
        assert "e+06" not in text


@settings(max_examples=200)
@given(half=sizes)
def test_half_widths_are_never_less_than_they_are(half):
    preview = Preview(("x",), np.array([half]), np.array([half]), 0.95, ONE, "noise")
    compared = Comparison({"best": preview}, {}, "best")
    said = [
        str(preview).splitlines()[2].split()[-1],
        re.findall(r"<td>([^<]*)</td>", preview._repr_html_())[-1],
        compared.rows()[1][-1],
    ]
    for text in map(unmarked, said):
        assert half <= float(text) <= half * 1.01


def test_no_mean_is_taken_over_entries_of_several_units():
    spread = np.array([0.2, 200.0, 0.2])
    preview = Preview(("age", "pay", "size"), spread, 2 * spread, 0.95, ONE, "noise")
    compared = Comparison({"best": preview, "l1": preview}, {}, "best")
    assert [row[2:] for row in compared.rows()[1:3]] == [
        ("age, size", "0.2", "0.4"),
        ("pay", "200", "400"),
    ]
    assert len(str(compared).splitlines()) == 2 + 4 + 1
    many = Preview(tuple(map(str, range(30))), np.arange(30.0), np.arange(30.0), 0.95, ONE, "n")
    assert "18 groups of entries more" in str(Comparison({"best": many}, {}, "best"))


# --- levels --------------------------------------------------------------------------------------


def level_faces(confidence: float) -> list[str]:
    found = made(3.0, 1.0, confidence)
    preview = Preview(("x",), np.array([1.0]), np.array([2.0]), confidence, ONE, "noise")
    compared = Comparison({"best": preview}, {}, "best")
    return [
        str(found),
        found._repr_html_(),
        Answer.of(found).text(),
        Answer.of(found)._repr_html_(),
        str(coefficients(found)),
        of_answer("x", Answer.of(found)).note,
        str(preview),
        preview._repr_html_(),
        " ".join(compared.rows()[0]),
        plot_release(found).get_xlabel(),
    ]


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(0.95, "95"), (0.995, "99.5"), (0.9995, "99.95"), (0.941, "94.1"), (1 - 0.059, "94.1")],
)
def test_levels_are_said_as_they_are(confidence, said):
    for text in level_faces(confidence):
        assert LEVEL.findall(text) == [said], text


def test_one_word_for_what_an_interval_covers():
    words = {"noise": "without noise", "sample": "table", "population": "population"}
    for covers, said in words.items():
        found = replace(made(3.0, 1.0), covers=covers)
        assert Release.from_dict(found.to_dict()).covers == covers
        for text in (str(found), str(Answer.of(found)), Report.of(found).markdown()):
            assert f"95% interval ({said})" in text.replace("\\", "")
    assert "95% interval (population)" in str(coefficients(made(3.0, 1.0)))
    silent = replace(Answer.of(made(3.0, np.nan)), unknown=("x",))
    assert "95% interval\n" in str(silent)
    damaged = made(3.0, 1.0).to_dict() | {"covers": "everything"}
    with pytest.raises(tdp.errors.TightdpError, match="damaged"):
        Release.from_dict(damaged)


def test_quantiles_say_what_was_paid_for():
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=400)
    for covers, said in (("sample", "table"), ("population", "population")):
        median = tdp.KNormMedian(schema, "x", epsilon=5, interval=covers)
        release = median.release({"x": np.linspace(0, 1, 400)}, rng=1)
        assert release.covers == median.answer(release).covers == covers
        assert f"95% interval ({said})" in str(release)
        assert said in str(median.answer(release)).splitlines()[0]
    bare = tdp.KNormMedian(schema, "x", epsilon=5)
    release = bare.release({"x": np.linspace(0, 1, 400)}, rng=1)
    for text in (release, Answer.of(release), bare.answer(release)):
        assert str(text).splitlines()[0].endswith("95% interval")
        assert "without noise" not in str(text)


@settings(max_examples=300)
@given(level=st.floats(1e-6, 1 - 1e-9))
def test_levels_are_never_rounded_up(level):
    assert 0.999 * level < float(printed.percent(level)[:-1]) / 100 <= level + 1e-15
    assert printed.percent(level) != "100%"


def test_a_level_rounded_to_whole_percents_is_caught(monkeypatch):
    for face in (printed.interval_head, Preview.__str__):
        monkeypatch.setitem(face.__globals__, "percent", lambda level: f"{level:.0%}")
    assert [LEVEL.findall(text) for text in level_faces(0.9995)].count(["100"]) >= 4
