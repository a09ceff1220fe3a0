"""Functions of the user as part of a request: their names for people, their code for the ledger."""

from __future__ import annotations

from types import CodeType
from typing import Any


def function_name(function: Any) -> str:
    """The name of a function, or the type of another callable.

    >>> function_name(abs), function_name(lambda x: x)
    ('abs', '<lambda>')
    """
    return str(getattr(function, "__qualname__", type(function).__name__))


def function_code(function: Any) -> str:
    """The compiled code of a function as text: other code is another request.

    Values that a function has captured are not looked at: they may be private.

    >>> function_code(lambda x: x + 1) == function_code(lambda x: x + 2)
    False
    """
    code = getattr(function, "__code__", None)
    return _written(code) if isinstance(code, CodeType) else function_name(function)


def _written(constant: Any) -> str:
    if isinstance(constant, CodeType):
        inside = map(_written, constant.co_consts)
        names = (*constant.co_names, *constant.co_varnames)
        return " ".join([constant.co_code.hex(), *names, *inside])
    if isinstance(constant, frozenset):  # its order changes from process to process
        return " ".join(sorted(map(repr, constant)))
    return repr(constant)
