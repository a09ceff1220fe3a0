"""Reports of releases: one file that says what was published, how sure it is and what it costs."""

from tightdp.report.report import Report, check_format

__all__ = ["Report", "check_format"]
