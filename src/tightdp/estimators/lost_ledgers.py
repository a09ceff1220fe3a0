"""Ledgers that fitted models leave behind when they are saved or copied."""

from __future__ import annotations

from typing import Any

from tightdp.errors import LedgerError, fail


class LostLedger:
    """What stands for the ledger of a model that was saved or copied: fits are refused.

    A copy of a ledger would spend the same budget again, and a fit without one is not paid for.
    """

    def __repr__(self) -> str:
        return "<not saved: set_params(ledger=...)>"


def left_behind(ledger: object, *, fitted: bool) -> Any:
    """What is saved in place of a ledger; a model that could still pay is refused.

    >>> left_behind("a ledger", fitted=True)
    <not saved: set_params(ledger=...)>
    """
    if ledger is None or isinstance(ledger, LostLedger):
        return ledger
    if not fitted:
        fail(
            "An estimator that has a ledger and is not fitted cannot be pickled or copied: its "
            "copy would spend the same budget again. Use `sklearn.base.clone`, which shares the "
            "ledger; for searches and cross-validation, n_jobs=1 or "
            "`joblib.parallel_config(backend='threading')`; in another process, a ledger that was "
            "opened there: set_params(ledger=Ledger.open(path)).",
            LedgerError,
        )
    return LostLedger()


def check_not_lost(ledger: object) -> None:
    """Refuse to fit a model that was saved with a ledger and has been given none since."""
    if isinstance(ledger, LostLedger):
        fail(
            "This model was saved or copied, and its ledger was not: it can predict. To fit it "
            "again, say set_params(ledger=Ledger.open(path)); set_params(ledger=None) fits "
            "without payment.",
            LedgerError,
        )
