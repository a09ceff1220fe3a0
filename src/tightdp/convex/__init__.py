"""Losses, penalties and a minimiser whose error is certified."""
