"""Sphinx settings: built offline, and readable offline."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1])]

project = "tightdp"
author = "the tightdp authors"
copyright = author
version = release = installed_version("tightdp")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
    "public_names",
    "gallery",
]
exclude_patterns = ["_build", "_ext"]

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name
    for name in ("ArrayLike", "FloatArray", "Integers", "NDArray", "Shape", "WideIntegers")
}
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Privacy", "Statement", "Needs", "Proof", "Erratum"]

html_theme = "pydata_sphinx_theme"
html_title = f"tightdp {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "navbar_center": [],  # the sidebar has all pages, by task
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"**": ["globaltoc.html"]}


def _skip(
    app: object, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn writes into every estimator: its words refer to its own site."""
    routing = name == "get_metadata_routing" or (name.startswith("set_") and "_request" in name)
    return True if routing else None


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip)  # type: ignore[attr-defined]
