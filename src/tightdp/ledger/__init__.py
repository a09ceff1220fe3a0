"""Budgets: what may be spent, what was spent, and what was released for it."""

from tightdp.ledger.amounts import Budget
from tightdp.ledger.book import Ledger
from tightdp.ledger.charges import Charge, Head, Receipt

__all__ = ["Budget", "Charge", "Head", "Ledger", "Receipt"]
