"""Constructors and documentation of estimators, from the parameters that their classes declare.

Scikit-learn wants a constructor that names every parameter and keeps what it is given, and a reader
of ``help`` wants all of them explained in one place. So a class declares the parameters that it
adds, as annotated attributes with defaults, and explains them; those of its bases come along.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from tightdp.named_arguments import refuse_arguments

T = TypeVar("T")

_FIRST, _LAST = ("delta",), ("progress", "ledger", "random_state")  # after the leading; of all


def parameter(*, default: T, kw_only: bool) -> T:
    """The default of a parameter; type checkers are told whether it needs its name."""
    return default


def declared_parameters(kind: type, root: type) -> dict[str, Any]:
    """The annotations of all parameters that a class and its bases declare, up to a root."""
    return {
        name: text
        for base in reversed(kind.__mro__)
        if issubclass(base, root)
        for name, text in vars(base).get("__annotations__", {}).items()
        if name in vars(base) and not name.startswith("_")
    }


def constructor(kind: type, root: type, leading: tuple[str, ...]) -> Callable[..., None]:
    """An ``__init__`` that takes all declared parameters; all but the ``leading`` by name."""
    declared = declared_parameters(kind, root)
    first = [*leading, *(name for name in _FIRST if name in declared)]
    order = [*first, *(name for name in declared if name not in (*first, *_LAST)), *_LAST]
    by_place, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    form = inspect.Signature(
        [inspect.Parameter("self", by_place)]
        + [
            inspect.Parameter(
                name,
                by_place if name in leading else by_name,
                default=getattr(kind, name),
                annotation=declared[name],
            )
            for name in order
        ]
    )

    own = form.replace(parameters=list(form.parameters.values())[1:])

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
        try:
            bound = own.bind(*given, **named)
        except TypeError:
            refuse_arguments(type(self).__name__, own, given, named)
        bound.apply_defaults()
        for name in order:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = form  # type: ignore[attr-defined]
    return __init__


def documentation(kind: type) -> str | None:
    """The docstring of a class, with what its bases say of its parameters and attributes.

    >>> class Base:
    ...     '''Base.
    ...
    ...     Parameters
    ...     ----------
    ...     epsilon : float
    ...         The budget.
    ...     '''
    ...     def __init__(self, epsilon): ...
    >>> class Count(Base):
    ...     '''Counts rows.'''
    >>> print(documentation(Count))
    Counts rows.
    <BLANKLINE>
    Parameters
    ----------
    epsilon : float
        The budget.
    """
    if not (text := vars(kind).get("__doc__")):
        return None
    bases = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in kind.__mro__]
    parameters = list(inspect.signature(kind).parameters)
    text = inspect.cleandoc(text)
    for title, wanted in (("Parameters", parameters), ("Attributes", None)):
        known: dict[str, str] = {}
        for said in bases:
            for name, entry in _entries(said, title).items():
                known.setdefault(name, entry)  # the nearest class has the word
        chosen = known if wanted is None else filter(known.get, wanted)
        entries = list(dict.fromkeys(known[name] for name in chosen))
        if entries:
            text = _with_section(text, title, "\n".join(entries))
    return text


def _section(title: str) -> re.Pattern[str]:
    return re.compile(rf"^{title}\n-+\n(.*?)\n*(?=^\w[^\n]*\n---|\Z)", re.M | re.S)


def _entries(text: str, title: str) -> dict[str, str]:
    """What a section says, by the names of which it speaks; one entry may be of several."""
    found = _section(title).search(text)
    entries = re.findall(r"^\S.*(?:\n+ .*)*", found[1], re.M) if found else []
    return {name: entry for entry in entries for name in entry.split(" :")[0].split(", ")}


def _with_section(text: str, title: str, body: str) -> str:
    """The text with this section: in the place of its own, or before the sections that follow."""
    section = f"{title}\n{'-' * len(title)}\n{body}\n\n"
    if _section(title).search(text):
        return _section(title).sub(lambda _: section, text).rstrip()
    later = re.search(r"^(Attributes|Notes|Examples)\n---", text, re.M)
    at = later.start() if later else len(text)
    return f"{text[:at].rstrip()}\n\n{section}{text[at:]}".rstrip()
