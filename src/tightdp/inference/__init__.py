"""What a fitted regression says about the population."""

from tightdp.inference.clipping import Unclipped, without_clipping

__all__ = ["Unclipped", "without_clipping"]
