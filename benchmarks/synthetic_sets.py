"""The data sets of the comparison of synthetic rows: where they lie, and their public facts.

Bounds, levels and bins are written from the descriptions of the data sets, not read off them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from uci import between, levels

import tightdp as tdp
from tightdp.data.histograms import Bins
from tightdp.data.one_pass import quantized_matrix

Codes = np.ndarray[Any, np.dtype[np.int64]]


def words(text: str) -> list[str]:
    """Names that are written one after the other."""
    return text.split()


@dataclass(frozen=True)
class RowSet:
    """Columns with their public facts, bins of the numbers, and the class to be predicted."""

    read: Callable[[Path], pd.DataFrame]
    columns: dict[str, Any]
    bins: dict[str, Any]
    target: str
    held_out: int
    """The last rows, which nothing is fitted on and classifiers are scored on."""

    def schema(self, rows: int, neighbors: str = "add-remove") -> tdp.Schema:
        """The public facts of the rows that are fitted."""
        return tdp.Schema(self.columns, rows, neighbors=neighbors)

    def split(self, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The rows to fit and the held-out ones."""
        whole = self.read(folder)[list(self.columns)]
        cut = len(whole) - self.held_out
        return whole.iloc[:cut].reset_index(drop=True), whole.iloc[cut:].reset_index(drop=True)

    def codes(self, frame: Any, rows: int) -> Codes:
        """Levels and bins of all cells as integers, shape (rows, columns)."""
        facts = self.schema(rows, "replace-one")
        binned = {name: Bins(facts[name], edges) for name, edges in self.bins.items()}
        rules = {name: binned.get(name, facts[name]) for name in facts}
        return quantized_matrix(frame, facts.ruled(rules), list(rules))

    def sizes(self) -> list[int]:
        """Levels or bins of every column."""
        return [
            len(self.bins[name]) - 1 if name in self.bins else len(rule.levels)
            for name, rule in self.columns.items()
        ]


def adult(folder: Path) -> pd.DataFrame:
    """The training rows, then the test rows."""
    names = words(
        "age workclass weight education years marital occupation relationship race sex gain loss "
        "hours country income"
    )
    parts = [
        pd.read_csv(folder / name, names=names, skipinitialspace=True, keep_default_na=False)
        for name in ("adult-train.csv", "adult-test.csv")
    ]
    whole = pd.concat(parts, ignore_index=True)
    whole["age"] = pd.to_numeric(whole["age"], errors="coerce")
    whole["income"] = whole["income"].astype(str).str.rstrip(".")
    return whole.dropna(subset=["age"])


def shuffled(name: str, columns: list[str] | None = None) -> Callable[[Path], pd.DataFrame]:
    """All rows in a public random order, with names for a file that has none."""

    def read(folder: Path) -> pd.DataFrame:
        whole = pd.read_csv(folder / name, names=columns)
        return whole.sample(frac=1, random_state=0).reset_index(drop=True)

    return read


def absences(folder: Path) -> pd.DataFrame:
    """The rows in a public random order, and whether somebody was away for more than a day."""
    whole = shuffled("Absenteeism_at_work.csv")(folder)
    whole["long"] = (whole["Absenteeism_time_in_hours"] > 8).astype(int)
    return whole


COUNTRIES = words(
    "United-States Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador "
    "England France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India "
    "Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru "
    "Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago "
    "Vietnam Yugoslavia ?"
)

SHELLS = words(
    "Sex Length Diameter Height Whole_weight Shucked_weight Viscera_weight Shell_weight Rings"
)

SPOKEN = words("our remove free business email you credit your money hp george")
PERCENT = [0, 0.01, 0.5, 1, 2, 100]

ROW_SETS = {
    "adult": RowSet(
        adult,
        {
            "age": between(17, 90),
            "workclass": levels(
                *words("Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov"),
                *words("Without-pay Never-worked ?"),
            ),
            "years": levels(*range(1, 17)),
            "marital": levels(
                *words("Married-civ-spouse Divorced Never-married Separated Widowed"),
                *words("Married-spouse-absent Married-AF-spouse"),
            ),
            "occupation": levels(
                *words("Tech-support Craft-repair Other-service Sales Exec-managerial"),
                *words("Prof-specialty Handlers-cleaners Machine-op-inspct Adm-clerical"),
                *words("Farming-fishing Transport-moving Priv-house-serv Protective-serv"),
                *words("Armed-Forces ?"),
            ),
            "relationship": levels(
                *words("Wife Own-child Husband Not-in-family Other-relative Unmarried")
            ),
            "race": levels(*words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
            "sex": levels("Female", "Male"),
            "gain": between(0, 100_000),
            "loss": between(0, 5000),
            "hours": between(1, 99),
            "country": levels(*COUNTRIES),
            "income": levels("<=50K", ">50K"),
        },
        {
            "age": [17, *range(20, 90, 5), 90],
            "gain": [0, 1, 1000, 3000, 5000, 7500, 10_000, 20_000, 100_000],
            "loss": [0, 1, 1500, 1750, 2000, 2500, 5000],
            "hours": [1, 20, 30, 35, 40, 41, 45, 50, 60, 99],
        },
        "income",
        16_281,
    ),
    "bank": RowSet(
        shuffled("bank-full.csv"),
        {
            "age": between(18, 95),
            "job": levels(
                *words("unknown admin. unemployed management housemaid entrepreneur student"),
                *words("blue-collar self-employed retired technician services"),
            ),
            "marital": levels("married", "single", "divorced"),
            "education": levels("unknown", "primary", "secondary", "tertiary"),
            "default": levels("no", "yes"),
            "balance": between(-10_000, 110_000),
            "housing": levels("no", "yes"),
            "loan": levels("no", "yes"),
            "contact": levels("unknown", "cellular", "telephone"),
            "day": between(1, 31),
            "month": levels(*words("jan feb mar apr may jun jul aug sep oct nov dec")),
            "duration": between(0, 5000),
            "campaign": between(1, 64),
            "pdays": between(-1, 900),
            "previous": between(0, 280),
            "poutcome": levels("unknown", "other", "failure", "success"),
            "y": levels("no", "yes"),
        },
        {
            "age": [18, *range(25, 75, 5), 95],
            "balance": [-10_000, 0, 1, 100, 250, 500, 1000, 2000, 3000, 5000, 10_000, 110_000],
            "day": [1, 6, 11, 16, 21, 26, 31],
            "duration": [0, 60, 120, 180, 240, 300, 450, 600, 900, 1500, 5000],
            "campaign": [1, 2, 3, 4, 6, 11, 64],
            "pdays": [-1, 0, 91, 181, 271, 365, 900],
            "previous": [0, 1, 2, 3, 6, 280],
        },
        "y",
        11_211,
    ),
    "contraceptive": RowSet(
        shuffled("cmc.data"),
        {
            "wife_age": between(16, 49),
            "wife_education": levels(1, 2, 3, 4),
            "husband_education": levels(1, 2, 3, 4),
            "children_born": between(0, 16),
            "wife_religion": levels(0, 1),
            "wife_working": levels(0, 1),
            "husband_occupation": levels(1, 2, 3, 4),
            "SOL_index": levels(1, 2, 3, 4),
            "media_exposure": levels(0, 1),
            "contraceptive_method_use": levels(1, 2, 3),
        },
        {
            "wife_age": [16, 20, 25, 30, 35, 40, 45, 49],
            "children_born": [0, 1, 2, 3, 4, 5, 6, 8, 16],
        },
        "contraceptive_method_use",
        373,
    ),
    "abalone": RowSet(  # looked at when constants were chosen
        shuffled("abalone.csv", SHELLS),
        {
            "Sex": levels("M", "F", "I"),
            "Length": between(0, 1),
            "Diameter": between(0, 1),
            "Height": between(0, 0.5),
            "Whole_weight": between(0, 3),
            "Shucked_weight": between(0, 1.5),
            "Viscera_weight": between(0, 1),
            "Shell_weight": between(0, 1),
            "Rings": between(1, 29),
        },
        {
            "Length": [k / 10 for k in range(11)],
            "Diameter": [k / 10 for k in range(11)],
            "Height": [k / 20 for k in range(11)],
            "Whole_weight": [3 * k / 10 for k in range(11)],
            "Shucked_weight": [3 * k / 20 for k in range(11)],
            "Viscera_weight": [k / 10 for k in range(11)],
            "Shell_weight": [k / 10 for k in range(11)],
            "Rings": [1, *range(4, 17, 2), 29],
        },
        "Sex",
        1000,
    ),
    "spambase": RowSet(  # fresh: not looked at when a rule or constant was chosen
        shuffled("spambase.data"),
        {
            **{f"word_freq_{word}": between(0, 100) for word in SPOKEN},
            "char_freq_!": between(0, 100),
            "char_freq_$": between(0, 100),
            "capital_run_length_average": between(1, 1200),
            "capital_run_length_longest": between(1, 10_000),
            "capital_run_length_total": between(1, 16_000),
            "result": levels(0, 1),
        },
        {
            **{f"word_freq_{word}": PERCENT for word in SPOKEN},
            "char_freq_!": PERCENT,
            "char_freq_$": PERCENT,
            "capital_run_length_average": [1, 1.5, 2, 3, 5, 10, 1200],
            "capital_run_length_longest": [1, 5, 10, 20, 50, 100, 10_000],
            "capital_run_length_total": [1, 20, 50, 100, 200, 500, 16_000],
        },
        "result",
        1101,
    ),
    "absenteeism": RowSet(  # fresh, as above
        absences,
        {
            "Reason_for_absence": levels(*range(29)),
            "Month_of_absence": levels(*range(13)),
            "Day_of_the_week": levels(2, 3, 4, 5, 6),
            "Seasons": levels(1, 2, 3, 4),
            "Service_time": between(0, 40),
            "Age": between(18, 65),
            "Disciplinary_failure": levels(0, 1),
            "Education": levels(1, 2, 3, 4),
            "Son": between(0, 5),
            "Social_drinker": levels(0, 1),
            "Social_smoker": levels(0, 1),
            "Body_mass_index": between(15, 45),
            "long": levels(0, 1),
        },
        {
            "Service_time": [0, 5, 10, 15, 20, 40],
            "Age": [18, 25, 30, 35, 40, 45, 50, 65],
            "Son": [0, 1, 2, 3, 5],
            "Body_mass_index": [15, 20, 25, 30, 35, 45],
        },
        "long",
        140,
    ),
}
