"""Costs of releases in every unit, (epsilon, delta), rho and mu, and conversions between them."""

from tightdp.accounting.costs import Cost

__all__ = ["Cost"]
