"""From noisy numbers to estimates and intervals, by public facts and the law of the noise alone."""

from tightdp.inference.clipping import Unclipped, without_clipping
from tightdp.inference.repro_samples import ReproAnswer, repro
from tightdp.inference.simulated_models import Bernoulli, Model, Normal, Poisson, StraightLine

__all__ = [
    "Bernoulli",
    "Model",
    "Normal",
    "Poisson",
    "ReproAnswer",
    "StraightLine",
    "Unclipped",
    "repro",
    "without_clipping",
]
