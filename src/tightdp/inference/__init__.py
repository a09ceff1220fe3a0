"""From noisy numbers to estimates and intervals, by public facts and the law of the noise alone."""

from tightdp.inference.clipping import Unclipped, without_clipping

__all__ = ["Unclipped", "without_clipping"]
