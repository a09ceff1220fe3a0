"""What a fitted regression says about the population: intervals, and whether to trust them."""

from tightdp.inference.bootstrap import bootstrap_coverage
from tightdp.inference.clipping import Unclipped, without_clipping

__all__ = ["Unclipped", "bootstrap_coverage", "without_clipping"]
