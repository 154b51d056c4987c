"""Sphinx: Markdown pages, the API from the docstrings, nothing fetched while building."""

from __future__ import annotations

import calibrant

project = "calibrant"
author = "The calibrant developers"
copyright = "The calibrant developers"
version = release = calibrant.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_generated"]
language = "en_GB"
smartquotes_action = "D"  # dashes, no quotes: "top-label" is typed as it stands
default_role = "py:obj"  # `evaluate` in a docstring is a link

html_theme = "furo"
html_title = "calibrant"
html_static_path = ["_static"]
html_css_files = ["calibrant.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what an argument may be, in words
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # "probs, targets, weights: as in ..." stays one line
napoleon_use_rtype = False
napoleon_preprocess_types = False
