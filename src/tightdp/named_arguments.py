"""Arguments by their names: which a function takes, and what is said where others are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from tightdp.errors import fail, shown, suggestion

_INSTEAD = {
    "missing": (
        " With neighbors='add-remove' rows may be left out before: a rule that looks at one row at "
        "a time keeps the promise. Otherwise state in the schema what a missing cell counts as."
    ),
    "per": (
        " With rows_per_person=1 in the schema one row of every person is used, and all count "
        "alike."
    ),
}
"""What to do where a kind has no such option, and people ask for it."""
_MOST_NAMED = 8  # kinds that have what is missing here
_FEW = 10  # arguments that are named beside the nearest, which may not be what is meant

Elsewhere = Callable[[str], Sequence[str]]
"""What else has a key of that name."""


def unknown_key(
    key: str,
    allowed: Sequence[str],
    where: str,
    what: str = "key",
    elsewhere: Elsewhere | None = None,
) -> str:
    """What is said of a key that is none of those allowed: which are.

    One that belongs elsewhere is not taken for a misspelt one: what it belongs to is named.

    >>> unknown_key("epsilom", ["epsilon"], "mean()", "argument")
    '`epsilom` is no argument of mean(). Did you mean `epsilon`? It takes: epsilon.'
    """
    others = elsewhere(key) if elsewhere is not None else ()
    hint = "" if others else suggestion(key, allowed).replace("'", "`")
    if not hint or (what == "argument" and len(allowed) <= _FEW):
        takes = "may have" if what == "key" else "takes"
        hint += f" It {takes}: {', '.join(allowed) or 'nothing'}.{_INSTEAD.get(key, '')}"
    if others:
        left = len(others) - _MOST_NAMED
        more = f" and {left} more" if left > 0 else ""
        hint += f" `{key}` belongs to {', '.join(others[:_MOST_NAMED])}{more}."
    return f"`{shown(key)}` is no {what} of {where}.{hint}"


def refuse_arguments(
    name: str,
    form: inspect.Signature,
    places: Sequence[object],
    named: Mapping[str, object],
    elsewhere: Elsewhere | None = None,
) -> NoReturn:
    """Say which arguments there are, of a call that did not fit.

    Parameters
    ----------
    name : str
        Of what is called.
    form : Signature
        Without the object that a method belongs to.
    places, named
        The arguments by place, and by name.
    elsewhere : function, optional
        What else has an argument of some name.

    >>> form = inspect.signature(lambda frame, *, epsilon: None)
    >>> refuse_arguments("mean", form, [1], {})
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: mean() needs `epsilon`. Write mean(frame, epsilon=...).
    """
    name = f"{name}()"
    known = {key: p for key, p in form.parameters.items() if p.kind not in (_ANY_PLACE, _ANY_NAME)}
    for key in named:
        if key not in known:
            fail(unknown_key(key, list(known), name, "argument", elsewhere))
    by_place = [key for key, parameter in known.items() if parameter.kind is not _NAMED]
    if len(places) > len(by_place):
        fail(
            f"{name} takes {', '.join(by_place) or 'nothing'} by place, everything else by its "
            f"name. Got {len(places)} by place."
        )
    taken = by_place[: len(places)]
    twice = [key for key in taken if key in named]
    if twice:
        fail(f"`{twice[0]}` of {name} must be given once. Got it by place and by name.")
    needed = [parameter for parameter in known.values() if parameter.default is _EMPTY]
    lacking = [f"`{p.name}`" for p in needed if p.name not in taken and p.name not in named]
    words = [f"{p.name}=..." if p.kind is _NAMED else p.name for p in needed]
    fail(f"{name} needs {' and '.join(lacking)}. Write {name[:-1]}{', '.join(words)}).")


_NAMED, _EMPTY = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
_ANY_PLACE, _ANY_NAME = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
