# ruff: noqa: INP001  (Sphinx runs it)
"""Sphinx's settings for the site; build.py says where its pages are."""

import re
from pathlib import Path

_VERSION = Path(__file__).parents[2] / "py_driver" / "__init__.py"

project = "rules_torch_kernels"
release = re.findall(r'^__version__ = "(.*)"$', _VERSION.read_text(encoding="utf-8"), re.MULTILINE)[0]
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 6
nitpicky = True
# Pages quote mistakes, and machine code that no highlighter knows yet.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_sidebars = {"**": ["pages"]}
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "navbar_center": [],  # the sidebar has all pages
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "article_header_start": [],
    "show_toc_level": 2,
}
