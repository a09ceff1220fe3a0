"""The figures and tables of the papers, computed anew with their errata applied."""

from tightdp.experiments.results import Quote, Result, quote_table
from tightdp.experiments.runner import experiment_names, reproduce

__all__ = ["Quote", "Result", "experiment_names", "quote_table", "reproduce"]
