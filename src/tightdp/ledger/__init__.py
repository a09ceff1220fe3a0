"""Budgets: what may be spent, what was spent, and what was released for it."""

from tightdp.ledger.amounts import Budget
from tightdp.ledger.book import Ledger
from tightdp.ledger.charges import Charge, Receipt
from tightdp.ledger.entries import Head

__all__ = ["Budget", "Charge", "Head", "Ledger", "Receipt"]
