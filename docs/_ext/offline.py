"""Lists what the pages of a built site would load from elsewhere; there must be nothing.

python docs/_ext/offline.py docs/_build/html
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADING = {"src", "srcset", "data", "poster"}
OUTSIDE = re.compile(r"^\s*(https?:)?//", re.I)
STYLE_LOAD = re.compile(r"(?:@import\s+|url\()\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.I)


class Loads(HTMLParser):
    """Collects the outside addresses that a browser fetches to show a page (not its links)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            loads = key in LOADING or (tag == "link" and key == "href")
            if value and loads and OUTSIDE.match(value):
                self.found.append(value)
            elif value and key == "style":
                self.found += STYLE_LOAD.findall(value)

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.found += STYLE_LOAD.findall(data)


def outside_loads(site: Path) -> list[str]:
    """``page: address`` for everything the site loads from elsewhere."""
    found = []
    for path in sorted(site.rglob("*.html")):
        parser = Loads()
        parser.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {address}" for address in parser.found]
    for path in sorted(site.rglob("*.css")):
        sheet = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: {address}" for address in STYLE_LOAD.findall(sheet)]
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found = outside_loads(site)
    print("\n".join(found) or f"{site}/index.html is complete: it loads nothing from elsewhere.")
    sys.exit(bool(found))
