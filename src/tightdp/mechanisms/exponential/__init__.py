"""The exponential mechanism on finite sets, intervals and boxes, drawn exactly."""

from tightdp.mechanisms.exponential.finite import ExponentialMechanism

__all__ = ["ExponentialMechanism"]
