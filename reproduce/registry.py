"""All experiments by name, in the order of the papers."""

from __future__ import annotations

from reproduce.density import DensityComparison
from reproduce.experiment import Experiment
from reproduce.gradient import LinearFigure, MedianFigure
from reproduce.house_sales import HousingFigure
from reproduce.logistic import LogisticFigure
from reproduce.noise_shapes import (
    AsymmetryFigure,
    FamilyFigure,
    GridFigure,
    PrivacyLossFigure,
)
from reproduce.noise_tables import LowerTable, UpperTable
from reproduce.norm_shapes import CautionFigure, CautionTable, ExampleFigure
from reproduce.order_diagram import OrderDiagram
from reproduce.plane import PlaneFigure
from reproduce.query_ranges import QueryFigure
from reproduce.regression import CoverageFigure

_ALL: tuple[Experiment, ...] = (
    ExampleFigure(),
    OrderDiagram(),
    LogisticFigure(),
    CoverageFigure(),
    HousingFigure(),
    CautionFigure(),
    CautionTable(),
    LinearFigure(),
    MedianFigure(),
    DensityComparison(),
    UpperTable(),
    LowerTable(),
    PrivacyLossFigure(),
    AsymmetryFigure(),
    FamilyFigure(),
    QueryFigure(),
    GridFigure(),
    PlaneFigure(),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
