"""The data sets of the experiments of [5]: where they lie, and their public facts.

Bounds, levels and classes are written from the descriptions of the data sets, not read off them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tightdp as tdp


def levels(*names: Any) -> tdp.Category:
    """Public levels; the first one stands for all others."""
    return tdp.Category(list(names), other=names[0])


def between(low: float, high: float) -> tdp.Interval:
    """Public bounds."""
    return tdp.Interval(low, high)


YES = levels("no", "yes")


@dataclass(frozen=True)
class DataSet:
    """Where a data set lies, its public facts by column, and its public classes."""

    files: tuple[str, ...]
    columns: dict[Any, Any]
    label: Any
    classes: tuple[Any, ...]
    positive: Callable[[pd.Series], Any]  # for two classes
    classify: Callable[[pd.Series], Any] | None = None  # for naive Bayes, where it differs
    header: int | None = None
    skip: int = 0
    separator: str = ","

    def read(self, folder: Path) -> pd.DataFrame | None:
        """The rows, in a public random order; None if a file is not there."""
        paths = [folder / name for name in self.files]
        if not all(path.is_file() for path in paths):
            return None
        parts = [
            pd.read_csv(
                path,
                header=self.header,
                sep=self.separator,
                skiprows=self.skip,
                skipinitialspace=True,
                na_values="?",
                engine="python",
            )
            for path in paths
        ]
        whole = pd.concat(parts, ignore_index=True)
        kept = whole[list(self.columns)].copy()
        kept.columns = [str(name) for name in self.columns]
        label = whole[self.label].astype(str).str.strip().str.rstrip(".")
        kept["two"] = np.where(self.positive(label), "yes", "no")
        kept["label"] = kept["two"] if self.classify is None else self.classify(label)
        return kept.sample(frac=1, random_state=0).reset_index(drop=True)

    def schema(self, rows: int, target: str) -> tdp.Schema:
        """The public facts with one of the two targets."""
        named = {str(name): fact for name, fact in self.columns.items()}
        classes = YES if target == "two" else levels(*self.classes)
        return tdp.Schema({**named, target: classes}, rows=rows)


def above(threshold: float) -> Callable[[pd.Series], Any]:
    """Labels above a public threshold."""
    return lambda label: label.astype(float) > threshold


def is_one_of(*names: str) -> Callable[[pd.Series], Any]:
    """Labels among some."""
    return lambda label: label.isin(names)


DATA_SETS = {
    "post-operative": DataSet(
        ("post-operative.data",),
        {
            **{j: levels("mid", "high", "low") for j in (0, 1, 3)},
            2: levels("good", "excellent"),
            4: levels("stable", "unstable"),
            **{j: levels("stable", "mod-stable", "unstable") for j in (5, 6)},
            7: between(0, 20),
        },
        8,
        ("no", "yes"),
        is_one_of("A"),
    ),
    "breast cancer": DataSet(
        ("breast-cancer-wisconsin.data",),
        {j: between(1, 10) for j in range(1, 10)},
        10,
        ("no", "yes"),
        is_one_of("4"),
    ),
    "contraceptive": DataSet(
        ("cmc.data",),
        {
            "wife_age": between(16, 49),
            "children_born": between(0, 16),
            **{
                name: levels(1, 2, 3, 4)
                for name in (
                    "wife_education",
                    "husband_education",
                    "husband_occupation",
                    "SOL_index",
                )
            },
            **{name: levels(0, 1) for name in ("wife_religion", "wife_working", "media_exposure")},
        },
        "contraceptive_method_use",
        ("1", "2", "3"),
        is_one_of("1"),
        classify=lambda label: label,
        header=0,
    ),
    "dermatology": DataSet(
        ("dermatology.data",),
        {**{j: between(0, 3) for j in range(33)}, 33: between(0, 100)},
        34,
        ("1", "2", "3", "4", "5", "6"),
        is_one_of("1"),
        classify=lambda label: label,
        skip=1,
    ),
    "cylinder bands": DataSet(
        ("bands.data",),
        {
            9: levels("UNCOATED", "COATED", "super"),
            12: levels("LINE", "XYLOL", "NAPTHA"),
            14: levels("Motter94", "WoodHoe70", "Albert70", "Motter70"),
            20: between(0, 100),
            21: between(0, 100),
            22: between(0, 1),
            23: between(5, 30),
            24: between(0, 120),
            25: between(0, 2),
            26: between(10, 75),
            27: between(0, 100),
            28: between(0, 4000),
            29: between(0, 100),
            30: between(0, 100),
            33: between(0, 4),
            34: between(0, 3),
            35: between(15, 120),
            36: between(30, 45),
            37: between(70, 130),
            38: between(80, 100),
        },
        39,
        ("no", "yes"),
        is_one_of("band"),
    ),
    "annealing": DataSet(
        ("anneal.data",),
        {
            2: levels("A", "R", "K", "S", "W", "M", "V", "U"),
            3: between(0, 70),
            4: between(0, 85),
            6: levels("S", "A", "X"),
            8: between(0, 700),
            11: levels("E", "D", "F", "G"),
            31: levels("COIL", "SHEET"),
            32: between(0, 4),
            33: between(0, 1525),
            34: between(0, 4880),
        },
        38,
        ("no", "yes"),
        is_one_of("3"),
    ),
    "spect": DataSet(
        ("SPECT.train", "SPECT.test"),
        {j: levels(0, 1) for j in range(1, 23)},
        0,
        ("no", "yes"),
        is_one_of("1"),
        skip=1,
    ),
    "abalone": DataSet(
        ("abalone.csv",),
        {
            0: levels("M", "F", "I"),
            1: between(0, 1),
            2: between(0, 1),
            3: between(0, 0.5),
            4: between(0, 3),
            5: between(0, 1.5),
            6: between(0, 1),
            7: between(0, 1.2),
        },
        8,
        ("no", "yes"),
        above(9),
    ),
    "spambase": DataSet(
        ("spambase.data",),
        {
            **{j: between(0, 5) for j in range(54)},
            54: between(0, 50),
            55: between(0, 500),
            56: between(0, 5000),
        },
        57,
        ("no", "yes"),
        is_one_of("1"),
        skip=1,
    ),
    "ecoli": DataSet(
        ("ecoli.data",),
        {j: between(0, 1) for j in range(1, 8)},
        8,
        ("no", "yes"),
        is_one_of("cp"),
        separator=r"\s+",
    ),
    "absenteeism": DataSet(
        ("Absenteeism_at_work.csv",),
        {
            "Reason_for_absence": between(0, 28),
            "Month_of_absence": between(0, 12),
            "Day_of_the_week": between(2, 6),
            "Seasons": levels(1, 2, 3, 4),
            "Transportation_expense": between(0, 500),
            "Distance_from_Residence_to_Work": between(0, 100),
            "Service_time": between(0, 40),
            "Age": between(18, 70),
            "Hit_target": between(70, 100),
            "Disciplinary_failure": levels(0, 1),
            "Education": levels(1, 2, 3, 4),
            "Son": between(0, 10),
            "Social_drinker": levels(0, 1),
            "Social_smoker": levels(0, 1),
            "Pet": between(0, 10),
            "Body_mass_index": between(15, 50),
        },
        "Absenteeism_time_in_hours",
        ("no", "yes"),
        above(3),
        header=0,
    ),
    "adult": DataSet(
        ("adult-train.csv", "adult-test.csv"),
        {
            0: between(17, 90),
            4: between(1, 16),
            5: levels(
                "Never-married",
                "Married-civ-spouse",
                "Divorced",
                "Married-spouse-absent",
                "Separated",
                "Married-AF-spouse",
                "Widowed",
            ),
            7: levels(
                "Not-in-family", "Husband", "Wife", "Own-child", "Unmarried", "Other-relative"
            ),
            8: levels("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
            9: levels("Male", "Female"),
            10: between(0, 100_000),
            11: between(0, 5000),
            12: between(1, 99),
        },
        14,
        ("no", "yes"),
        is_one_of(">50K"),
    ),
    "bank": DataSet(
        ("bank-full.csv",),
        {
            "age": between(18, 95),
            "marital": levels("married", "single", "divorced"),
            "education": levels("unknown", "primary", "secondary", "tertiary"),
            **{name: levels("no", "yes") for name in ("default", "housing", "loan")},
            "balance": between(-10_000, 50_000),
            "contact": levels("unknown", "cellular", "telephone"),
            "day": between(1, 31),
            "duration": between(0, 5000),
            "campaign": between(1, 60),
            "pdays": between(-1, 999),
            "previous": between(0, 50),
            "poutcome": levels("unknown", "failure", "other", "success"),
        },
        "y",
        ("no", "yes"),
        is_one_of("yes"),
        header=0,
    ),
}
