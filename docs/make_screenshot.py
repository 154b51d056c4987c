"""Make the picture of the page that the README shows: python docs/make_screenshot.py.

It needs Chromium, as the tests of the page do. The file is docs/_static/report.png.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import sync_playwright

from calibrant.cli import main as command

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits.parquet"
TARGET = Path(__file__).with_name("_static") / "report.png"
SIZE = {"width": 1200, "height": 934}

if __name__ == "__main__":
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "report.html"
        CliRunner().invoke(command, ["report", str(DIGITS), "--html", str(page)], catch_exceptions=False)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        window = browser.new_page(viewport=SIZE, color_scheme="light")
        window.goto(page.as_uri())
        drawn = io.BytesIO(window.screenshot())
        browser.close()
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(TARGET, optimize=True)
