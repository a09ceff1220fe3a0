"""Documentation of estimators: what a class says, and what its bases say of its parameters.

A reader of ``help`` wants all parameters and attributes explained in one place. A class explains
those that it adds, and those of its bases come along. Nothing here looks at values.
"""

from __future__ import annotations

import inspect
import re


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
