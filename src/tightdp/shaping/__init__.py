"""Noise made for a statistic: its shape, its reach, and the proof that it covers every move."""
