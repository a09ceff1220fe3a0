"""The documentation site: built without warnings, complete offline, every public name on it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tightdp

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = {name for name in getattr(tightdp, "__all__", []) if not name.startswith("__")}


def extension(name: str) -> ModuleType:
    """A module of ``docs/_ext``, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


outside_loads = extension("offline").outside_loads


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built in a process of its own with warnings as errors."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run([*command, DOCS, target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_nothing_is_loaded_from_elsewhere(site):
    assert (site / "index.html").exists()
    assert outside_loads(site) == []


def test_every_block_of_the_gallery_draws_for_the_site(site):
    """The site is not built unless all blocks run, as one program and without a warning."""
    page = (DOCS / "gallery.md").read_text()
    program = extension("gallery").script(DOCS / "gallery.md")
    assert program.count("savefig(") == page.count("savefig(") > 20
    for picture in re.findall(r"savefig\(\"(.+?)\"", page):
        assert (site / "_images" / picture).exists()


def test_a_block_of_the_gallery_that_warns_or_fails_is_caught(tmp_path):
    for fault in ("import warnings; warnings.warn('planted')", "assert not 'planted'"):
        (tmp_path / "planted.md").write_text(f"```python\n{fault}\n```\n")
        with pytest.raises(Exception, match="planted"):
            extension("gallery").draw(tmp_path / "planted.md", tmp_path / "pictures")


def test_formulas_are_mathml(site):
    page = (site / "theory.html").read_text()
    assert "<math" in page
    assert "mathjax.js" not in page.lower()


def test_every_public_name_is_on_an_api_page(site):
    pages = {page.stem: page.read_text() for page in (site / "api").glob("*.html")}
    text = "".join(pages.values())
    assert {name for name in PUBLIC if f'id="tightdp.{name}"' not in text} == set()
    assert max(map(len, pages.values())) < 800_000  # one page for all was twice as long


def test_every_task_has_its_page():
    tasks = set(extension("public_names").exported())
    said = [page.read_text() for page in (DOCS / "api").glob("*.md")]
    assert tasks == {text.partition("{public-names} ")[2].splitlines()[0] for text in said}


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="//cdn.example.org/a.css">',
        '<img src="http://example.org/a.png">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_a_planted_outside_load_is_caught(tmp_path, text):
    (tmp_path / "page.html").write_text(text)
    assert outside_loads(tmp_path)


def test_links_are_not_loads(tmp_path):
    (tmp_path / "page.html").write_text('<a href="https://example.org">there</a>')
    assert outside_loads(tmp_path) == []
