"""Sphinx's configuration of the documentation's site: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "backend"), str(HERE.parent)]

project = "ftm"
author = "the ftm developers"
copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "site_directives",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "furo"
html_title = "ftm"
html_static_path = ["figures"]
html_css_files = ["site.css"]
html_theme_options = {"source_directory": "docs/"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# The documents draw with Mermaid's syntax, which GitHub shows; here a directive draws the same.
myst_fence_as_directive = ["mermaid"]
# Assembly, tiles and traces have no lexer.
highlight_language = "text"
# A page may be written before docs/index.md lists it.
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_use_rtype = False

linkcheck_ignore = [r"https://torch-ftm\.readthedocs\.io/.*"]  # this site itself
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
