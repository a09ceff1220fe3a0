"""The command ``tightdp``: what the package does, for people who do not write Python."""

from tightdp.cli.main import main

__all__ = ["main"]
