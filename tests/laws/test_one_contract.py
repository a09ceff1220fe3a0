"""Law: what one estimator offers all offer, or they say why not and what to use instead."""

from __future__ import annotations

import re

import numpy as np
import pytest
from enrolled import ESTIMATORS, Fit, mapping, plain_rows

import tightdp as tdp
from tightdp.errors import LackingError, TightdpError
from tightdp.estimators.private_estimator import Lacking, PrivateEstimator
from tightdp.preview import Preview

OFFERED = ("conf_int", "summary")  # by some; `preview` by all
NAMED = re.compile(r"\b[A-Z][a-z]+[A-Z]\w+")  # classes
OWN = ("release_", "`interval`", "conf_int(")


def lacking(model: object, name: str) -> str | None:
    """None where the method is there, else the reason; anything but our error is a fault."""
    try:
        method = getattr(model, name)
    except LackingError as error:
        return str(error)
    assert callable(method)
    return None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_lacking_is_said(name: str) -> None:
    kind = getattr(tdp, name)
    model = ESTIMATORS[name].build("replace-one")
    offered = (*OFFERED, "test") if hasattr(kind, "predict") and "NB" not in name else OFFERED
    for method in offered:
        for owner in (model, kind):  # before a fit, and of the class
            reason = lacking(owner, method)
            assert hasattr(owner, method) == (reason is None)
        if reason is not None:
            assert reason.startswith(f"`{name}` has no `{method}`: ")
            remedy = reason.split(": ", 1)[1]
            assert set(NAMED.findall(remedy)) <= set(tdp.__all__)
            assert NAMED.search(remedy) or any(word in remedy for word in OWN)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_preview_that_costs_nothing(name: str) -> None:
    fit: Fit = ESTIMATORS[name]
    ledger = tdp.Ledger(epsilon=1)
    rows = mapping(plain_rows(np.random.default_rng(1)))
    names = [*fit.features, *([fit.target] if fit.target else [])]
    table = {column: rows[column] for column in names}
    model = fit.build(fit.relations[-1], ledger=ledger)
    shown = model.preview(table, fit.target) if fit.target else model.preview(table)
    assert isinstance(shown, Preview)
    assert len(shown.names) > 0
    assert float(ledger.spent.epsilon) == 0
    assert not hasattr(model, "n_features_in_"), "a preview fits nothing"


def test_a_bare_attribute_error_is_noticed() -> None:
    class Silent(PrivateEstimator):  # type: ignore[type-arg]
        pass

    with pytest.raises(AttributeError) as caught:
        lacking(Silent(), "conf_int")
    assert not isinstance(caught.value, TightdpError)


def test_what_lacks_is_an_attribute_that_is_not_there() -> None:
    class Guess:
        conf_int = Lacking("it knows no error. Use LinearRegression.")

    assert getattr(Guess(), "conf_int", None) is None
    with pytest.raises(LackingError, match="`Guess` has no `conf_int`: it knows no error"):
        Guess().conf_int()
