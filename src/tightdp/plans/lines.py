"""Where in a TOML text each key stands, so that an error can name its line.

The standard library reads TOML without keeping lines. The scanner here finds keys and headings of
texts that are valid TOML, and nothing else: values are read by ``tomllib``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tightdp.errors import fail
from tightdp.paths import read_file

Place = tuple[str | int, ...]

_KEY = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_OPENERS = {'"""': '"""', "'''": "'''"}


class Text(NamedTuple):
    """A TOML file: its values, and the line of every key and heading."""

    name: str
    record: dict[str, Any]
    lines: dict[Place, int]

    def where(self, *place: str | int) -> str:
        """``file:line`` of the nearest key or heading around a place."""
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                return f"{self.name}:{self.lines[place[:end]]}"
        return f"{self.name}:1"


def read_text(path: str | Path, name: str = "plan") -> Text:
    """The values of a TOML file and where they stand; one clear error if it cannot be read."""
    text, place = read_file(name, path), Path(path)
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        fail(f"{place}:{line}: not valid TOML: {str(error).split(' (at ')[0]}.")
    except ValueError:
        fail(f"{place}:1: not valid TOML: a number has too many digits.")
    except RecursionError:
        fail(f"{place}:1: not valid TOML: it is nested too deeply.")
    return Text(str(place), record, key_lines(text))


def key_lines(text: str) -> dict[Place, int]:
    """The line of every key and heading of a valid TOML text.

    >>> key_lines('a = 1\\n[[b]]\\nc.d = [\\n  2,\\n]\\n[[b]]\\n"e f" = 3')[("b", 1, "e f")]
    7
    """
    found: dict[Place, int] = {}
    prefix: Place = ()
    counts: dict[Place, int] = {}
    rest = _Rest()
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if rest.open:
            rest.take(line)
        elif bare.startswith("[["):
            name = _resolve(_path(bare[2:]), counts)
            counts[name] = counts.get(name, -1) + 1
            prefix = (*name, counts[name])
            found.setdefault(name, number)
            found[prefix] = number
        elif bare.startswith("["):
            prefix = _resolve(_path(bare[1:]), counts)
            found[prefix] = number
        elif bare and not bare.startswith("#"):
            keys = _path(line)
            for end in range(1, len(keys) + 1):
                found.setdefault((*prefix, *keys[:end]), number)
            rest.take(line)
    return found


def _resolve(name: Place, counts: dict[Place, int]) -> Place:
    """A heading below an array of tables belongs to its last table."""
    place: Place = ()
    for part in name[:-1]:
        place = (*place, part)
        if place in counts:
            place = (*place, counts[place])
    return (*place, *name[-1:])


def _path(text: str) -> Place:
    """The parts of a dotted key at the start of a text."""
    parts: list[str | int] = []
    at = 0
    while found := _KEY.match(text, at):
        parts.append(next(part for part in found.groups() if part is not None))
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(parts)


class _Rest:
    """What a line leaves open: a long string, or the brackets of an array."""

    def __init__(self) -> None:
        self._depth, self._quote = 0, ""

    @property
    def open(self) -> bool:
        """Whether the next line still belongs to the value."""
        return bool(self._depth or self._quote)

    def take(self, line: str) -> None:
        at = 0
        while at < len(line):
            at = self._inside(line, at) if self._quote else self._outside(line, at)
        if self._quote in ('"', "'"):
            self._quote = ""  # such strings end with their line

    def _inside(self, line: str, at: int) -> int:
        if self._quote.startswith('"') and line[at] == "\\":
            return at + 2
        if line.startswith(self._quote, at):
            at += len(self._quote)
            self._quote = ""
            return at
        return at + 1

    def _outside(self, line: str, at: int) -> int:
        letter = line[at]
        if letter == "#":
            return len(line)
        if letter in "\"'":
            self._quote = _OPENERS.get(line[at : at + 3], letter)
            return at + len(self._quote)
        self._depth += (letter in "[{") - (letter in "]}")
        return at + 1
