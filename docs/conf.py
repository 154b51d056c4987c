"""Sphinx: Markdown pages, the API from the docstrings, nothing fetched while building."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import ziamath
from docutils import nodes
from fontTools.ttLib import TTFont
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import calibrant


def write_pages(folder: Path) -> None:
    """Write the pages that the documentation shows, from the example in the tree."""
    folder.mkdir(exist_ok=True)
    digits = pq.read_table(Path(__file__).parents[1] / "examples" / "digits.parquet")
    models = {
        name: np.stack([digits[f"{prefix}_{k}"].to_numpy() for k in range(10)], axis=1)
        for name, prefix in (("logistic regression", "p"), ("naive Bayes", "overconfident"))
    }
    targets = digits["target"].to_numpy()
    report = calibrant.evaluate(models["logistic regression"], targets)
    report.to_html(folder / "digits-report.html", title="Handwritten digits")
    calibrant.compare(models, targets).to_html(folder / "digits-comparison.html", title="Two models of digits")


def write_font(folder: Path) -> None:
    """Write the font of the formulas, which is a part of ziamath, in the compressed format of the web."""
    font = TTFont(Path(ziamath.__file__).with_name("fonts") / "STIXTwoMath-Regular.ttf")
    font.flavor = "woff"
    font.save(folder / "STIXTwoMath.woff")


#: The pages that other pages replaced, without their endings: an HTML page at the old name forwards its reader.
MOVED = {
    "api-compat": "api-integrations",
    "api-errors": "api-inference",
    "api-frames": "api-integrations",
    "api-measures": "api-inference",
    "api-monitoring": "api-decisions",
    "api-plot": "api-integrations",
    "api-recalibration": "api-decisions",
    "api-sketches": "api-inference",
    "api-sklearn": "api-integrations",
    "api-thresholds": "api-decisions",
    "api-torch": "api-integrations",
    "clusters": "groups",
    "coming-from": "migrating",
    "detection": "images",
    "frames": "large-data",
    "from-bensemble": "migrating",
    "from-pyhealth": "migrating",
    "from-torch-uncertainty": "migrating",
    "from-triples": "migrating",
    "in-language-models": "language-models",
    "in-lightgbm": "frameworks",
    "in-lightning": "training-loops",
    "in-medicine": "clinical",
    "in-mlflow": "frameworks",
    "in-notebooks": "frameworks",
    "in-pipelines": "pipelines",
    "in-pytorch": "training-loops",
    "in-transformers": "training-loops",
    "in-weather-and-sports": "files",
    "in-xgboost": "frameworks",
    "large-files": "large-data",
    "look-up": "index",
    "measures": "which-metric",
    "page": "figures",
    "plots": "figures",
    "scale": "large-data",
    "scikit-learn": "frameworks",
    "segmentation": "images",
    "sketches": "large-data",
    "tests": "intervals",
    "understanding": "index",
    "with-a-file": "files",
    "with-a-model": "frameworks",
    "with-a-training-loop": "training-loops",
    "with-a-warehouse": "large-data",
}


def write_redirects(folder: Path) -> None:
    """Write a page at each old name, which forwards to the new one."""
    folder.mkdir(exist_ok=True)
    for old, new in MOVED.items():
        link = f"{new}.html"
        (folder / f"{old}.html").write_text(
            f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{new}</title>\n'
            f'<meta http-equiv="refresh" content="0; url={link}">\n<link rel="canonical" href="{link}">\n'
            f'<p>This page is now <a href="{link}">{new}</a>.</p>\n</html>\n',
            encoding="utf-8",
        )


PAGES = Path(__file__).with_name("_pages")
write_pages(PAGES)
write_redirects(PAGES)
write_font(PAGES)

project = "calibrant"
author = "The calibrant developers"
copyright = "The calibrant developers"
version = release = calibrant.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_pages"]
language = "en_GB"
smartquotes_action = "D"  # dashes, no quotes: readers copy "top-label"
default_role = "py:obj"  # `evaluate` in a docstring is a link

html_theme = "furo"
html_math_renderer = "mathml"
html_title = "calibrant"
html_static_path = ["_static"]
html_extra_path = ["_pages"]
html_css_files = ["calibrant.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
# The names that api-*.md document are not headings: tests/test_docs.py checks these links.
# CHANGELOG and CONTRIBUTING are outside this folder, and are included.
nitpick_ignore_regex = [("myst", r"calibrant\..*|.*/CHANGELOG|.*/CONTRIBUTING")]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what an argument may be, in words
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # "probs, targets, weights: as in ..." stays one line
napoleon_use_rtype = False
napoleon_preprocess_types = False


def uncomment(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Uncomment the parts that only Sphinx understands: <!-- sphinx ... -->."""
    source[0] = re.sub(r"^<!-- sphinx\n(.*?)^-->$", r"\1", source[0], flags=re.MULTILINE | re.DOTALL)


def mathml(tex: str, display: str) -> str:
    """Return a formula as MathML, which browsers draw without a script, with its TeX for readers that copy it."""
    math = convert(tex, display=display)
    if "\\" in html.unescape(math):  # latex2mathml copies a command that it does not know
        message = f"latex2mathml cannot convert {tex!r}: use other commands"
        raise ValueError(message)
    bar = '<mo stretchy="false">&#x0007C;'
    math = math.replace(bar, bar.replace(">", ' lspace="0" rspace="0">'))
    return math.replace("<math ", f'<math title="{html.escape(tex.strip())}" ', 1)


def inline_formula(page: HTML5Translator, node: nodes.math) -> None:
    page.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block_formula(page: HTML5Translator, node: nodes.math_block) -> None:
    page.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the hook and the formulas."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    app.connect("source-read", uncomment)
