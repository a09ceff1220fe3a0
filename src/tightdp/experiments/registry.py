"""All experiments by name, in the order of the papers."""

from __future__ import annotations

from tightdp.experiments.density import DensityComparison
from tightdp.experiments.experiment import Experiment
from tightdp.experiments.gradient import LinearFigure, MedianFigure
from tightdp.experiments.house_sales import HousingFigure
from tightdp.experiments.logistic import LogisticFigure
from tightdp.experiments.noise_shapes import (
    AsymmetryFigure,
    FamilyFigure,
    GridFigure,
    PrivacyLossFigure,
)
from tightdp.experiments.noise_tables import LowerTable, UpperTable
from tightdp.experiments.norm_shapes import CautionFigure, CautionTable, ExampleFigure
from tightdp.experiments.plane import PlaneFigure
from tightdp.experiments.query_ranges import QueryFigure
from tightdp.experiments.regression import CoverageFigure

_ALL: tuple[Experiment, ...] = (
    ExampleFigure(),
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
