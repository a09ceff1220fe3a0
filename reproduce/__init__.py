"""The figures and tables of the papers, computed anew with their errata applied.

No part of the installed package: it is imported with the root of the repository on the path, as
``tightdp reproduce`` does.
"""

from reproduce.registry import EXPERIMENTS
from reproduce.results import Quote, Result, quote_table
from reproduce.runner import experiment_names, reproduce

__all__ = ["EXPERIMENTS", "Quote", "Result", "experiment_names", "quote_table", "reproduce"]
