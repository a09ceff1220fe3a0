"""Makes the pictures of the gallery by running the Python blocks of ``gallery.md``.

The page is the only script. Its blocks save pictures into the current folder; they are run in a
scratch folder, and the pictures are then moved to ``docs/gallery`` one by one, whole.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
# a picture drawn with a warning is not one to show; what libraries say when loaded is theirs
STRICT = "import matplotlib.pyplot, warnings\nwarnings.simplefilter('error')\n"


def script(page: Path) -> str:
    """All blocks of a page as one program, in which warnings are errors."""
    return STRICT + "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


def draw(page: Path, target: Path) -> list[Path]:
    """Run the blocks of a page in a process of its own and collect the pictures."""
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        done = subprocess.run(
            [sys.executable, "-c", script(page)],
            cwd=scratch,
            env={**os.environ, "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ExtensionError(f"{page.name} could not be drawn:\n{done.stderr}")
        return [path.replace(target / path.name) for path in sorted(Path(scratch).glob("*.png"))]


def before_reading(app: Sphinx) -> None:
    draw(Path(app.srcdir) / "gallery.md", Path(app.srcdir) / "gallery")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", before_reading)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
