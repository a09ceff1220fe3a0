"""One line for each kind of release that is a plain statistic: made from the registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tightdp.options import Option
from tightdp.registry import KINDS, Kind
from tightdp.release import Release

_ROLES = ("columns", "column", "terms", "features", "target")
_RELEASE = {"ledger": None, "key": None, "confidence": 0.95, "rng": None, "progress": False}
_PLACE, _NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def function_of(kind: Kind) -> Callable[..., Release]:
    """The function that releases a kind: ``function(frame, columns, schema=, epsilon=, ...)``.

    Columns and what a kind cannot do without come by place, everything else by name.

    >>> function_of(KINDS["median"]).__name__
    'median'
    """
    form = _signature(kind)

    def function(*places: object, **named: object) -> Release:
        try:
            bound = form.bind(*places, **named)
        except TypeError as error:
            raise TypeError(f"{kind.name}(): {error}") from None
        given = bound.arguments
        frame, schema, epsilon = (given.pop(name) for name in ("frame", "schema", "epsilon"))
        how = {name: given.pop(name) for name in _RELEASE if name in given}
        required = {name for name, option in kind.options.items() if option.required}
        stated = {k: value for k, value in given.items() if k in required or value is not None}
        return kind.build(schema, stated, epsilon).release(frame, **how)

    function.__name__ = function.__qualname__ = kind.name
    function.__signature__ = form  # type: ignore[attr-defined]
    function.__doc__ = _documentation(kind)
    return function


def _signature(kind: Kind) -> inspect.Signature:
    """Columns and what is required by place, everything else by name."""
    by_place = {k: o for k, o in kind.options.items() if o.required or k in _ROLES}
    by_name = {k: o for k, o in kind.options.items() if k not in by_place}
    return inspect.Signature(
        [
            inspect.Parameter("frame", _PLACE),
            *(inspect.Parameter(k, _PLACE, default=_default(o)) for k, o in by_place.items()),
            inspect.Parameter("schema", _NAMED),
            inspect.Parameter("epsilon", _NAMED),
            *(inspect.Parameter(k, _NAMED, default=_default(o)) for k, o in by_name.items()),
            *(inspect.Parameter(k, _NAMED, default=value) for k, value in _RELEASE.items()),
        ],
        return_annotation=Release,
    )


def _default(option: Option) -> Any:
    return inspect.Parameter.empty if option.required else option.default


def _documentation(kind: Kind) -> str:
    options = "\n".join(f"{name} :\n    {option.about}" for name, option in kind.options.items())
    about = kind.about[:1].upper() + kind.about[1:]
    return f"""{about}, with the least exact noise.

{kind.notes}
Parameters
----------
frame : table
    Anything that holds rows: a frame, a mapping of columns, a query, a file.
{options}
schema : Schema
    The public facts.
epsilon : float, Fraction or Decimal
ledger, key, confidence, rng, progress :
    As for :meth:`AdditiveMechanism.release`.
"""


sum = function_of(KINDS["sum"])
mean = function_of(KINDS["mean"])
variance = function_of(KINDS["variance"])
count = function_of(KINDS["count"])
histogram = function_of(KINDS["histogram"])
quantile = function_of(KINDS["quantile"])
median = function_of(KINDS["median"])
quantiles = function_of(KINDS["quantiles"])
share = function_of(KINDS["share"])
