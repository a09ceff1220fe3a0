"""All experiments by name, in the order of the papers."""

from __future__ import annotations

from tightdp.experiments.experiment import Experiment
from tightdp.experiments.noise_tables import LowerTable, UpperTable

_ALL: tuple[Experiment, ...] = (
    UpperTable(),
    LowerTable(),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
