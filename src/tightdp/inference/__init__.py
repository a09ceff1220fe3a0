"""From noisy numbers to estimates and intervals, by public facts and the law of the noise alone."""

from tightdp.inference.clipping import Unclipped, without_clipping
from tightdp.inference.repro_samples import ReproAnswer, repro
from tightdp.inference.simulated_models import Bernoulli, Line, Model, Normal, Poisson

__all__ = [
    "Bernoulli",
    "Line",
    "Model",
    "Normal",
    "Poisson",
    "ReproAnswer",
    "Unclipped",
    "repro",
    "without_clipping",
]
