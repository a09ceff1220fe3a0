"""Audits of mechanisms, this package's and yours: by proof on a lattice, by counting on samples."""

from tightdp.audit.audit_report import AuditReport, Finding
from tightdp.audit.black_box import audit
from tightdp.audit.levels import audit_exact
from tightdp.audit.probabilities import audit_pmf, hockey_stick

__all__ = ["AuditReport", "Finding", "audit", "audit_exact", "audit_pmf", "hockey_stick"]
