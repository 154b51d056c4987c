"""Make the pictures that some pages show, from their own examples: python docs/make_gallery.py.

Each image on a page is the last figure that the examples before it draw. The files go to
docs/_static/gallery; tests/plot/test_plot.py asserts that the pages, this script and the folder have the same pictures.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(ROOT / "docs" / f"{name}.md" for name in ("figures", "quantiles"))
TARGET = ROOT / "docs" / "_static" / "gallery"

_BLOCK = re.compile(r'^```python\n(?P<code>.*?)^```$|^<img src="_static/gallery/(?P<name>[^"]+)"', re.M | re.S)


def pictures() -> list[str]:
    """Return the names of the pictures, in the order of the pages."""
    return [
        match["name"] for page in PAGES for match in _BLOCK.finditer(page.read_text(encoding="utf-8")) if match["name"]
    ]


def figures() -> Iterator[tuple[str, Figure]]:
    """Run the pages and yield each picture's name with its figure, which is closed afterwards."""
    from matplotlib import pyplot as plt

    parser = doctest.DocTestParser()
    for page in PAGES:
        names: dict[str, object] = {}
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match["name"]:
                yield match["name"], plt.gcf()
                plt.close("all")
                continue
            with contextlib.redirect_stdout(io.StringIO()):  # another test checks their output
                for example in parser.get_examples(match["code"]):
                    exec(compile(example.source, str(page), "single"), names)
        plt.close("all")


def main() -> None:
    """Write the files, and remove those that the pages no longer show."""
    import matplotlib
    from PIL import Image

    matplotlib.use("Agg")
    TARGET.mkdir(parents=True, exist_ok=True)
    for old in {path.name for path in TARGET.iterdir()} - set(pictures()):
        (TARGET / old).unlink()
    with contextlib.chdir(ROOT), matplotlib.rc_context(matplotlib.rcParamsDefault):  # the page names examples/
        for name, figure in figures():
            drawn = io.BytesIO()
            figure.savefig(drawn, dpi=144)
            Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(TARGET / name, optimize=True)


if __name__ == "__main__":
    main()
