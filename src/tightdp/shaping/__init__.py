"""Noise made for a statistic: its shape, its reach, and the gate that it passes."""
