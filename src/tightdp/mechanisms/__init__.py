"""Mechanisms: statistics paid for and released."""
