"""The progress bar of audits is everybody's."""

from tightdp.progress import progress_bar

__all__ = ["progress_bar"]
