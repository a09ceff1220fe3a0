"""Exact sampling: random bits to integers, with no rounding on the way."""
