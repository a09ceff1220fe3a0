"""Law: a call of anything public that does not fit is one error of ours, which says what fits.

Everything in ``tightdp.__all__`` is enrolled by being there, but for errors, words (``Neighbors``),
what releases return (``Guarantee``) and what nobody can make (``NormBall``, ``Statistic``).
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from enrolled import RESULTS

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.parameters import tells_arguments

CALLED = {
    name: what
    for name, what in ((name, getattr(tdp, name)) for name in tdp.__all__)
    if not (isinstance(what, type) and issubclass(what, (Exception, Warning, enum.Enum)))
    and name not in RESULTS | {"Guarantee"}
    and not inspect.isabstract(what)
}


def words_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ParameterError) as raised:
        call()
    assert raised.value.__suppress_context__  # Python's own words are not printed beside ours
    return str(raised.value)


@pytest.mark.parametrize("name", CALLED)
def test_what_does_not_fit_is_told_what_fits(name: str) -> None:
    called = CALLED[name]
    name = called.__name__
    form = inspect.signature(called).parameters
    any_name = [key for key, p in form.items() if p.kind is p.VAR_KEYWORD]
    words = words_of(lambda: called(wibble=1))
    if not any_name:
        assert words.startswith(f"`wibble` is no argument of {name}(). It takes: ")
        assert all(word in words for word in form)
        for known in form:
            hint = words_of(lambda known=known: called(**{f"{known}z": 1}))
            assert hint.startswith(f"`{known}z` is no argument of {name}(). Did you mean `")
    assert "by place" in words_of(lambda: called(*range(99)))
    needed = [
        key for key, p in form.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    if needed:
        words = words_of(called)
        assert words.startswith(f"{name}() needs ")
        assert all(f"`{key}`" in words for key in needed)


def test_errors_from_inside_stay_what_they_are() -> None:
    @tells_arguments
    def count(frame: Any) -> int:
        return len(frame)

    with pytest.raises(TypeError, match="len"):
        count(1)
    assert count([1, 2]) == 2


def test_a_class_that_says_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the words of Python."""

    class Silent:
        def __init__(self, low: float) -> None: ...

    monkeypatch.setitem(CALLED, "Silent", Silent)
    with pytest.raises(TypeError, match="unexpected keyword"):
        test_what_does_not_fit_is_told_what_fits("Silent")
