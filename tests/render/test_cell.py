"""The cell of a notebook: its style stays within it, the style of the host stays out, and the first screen is short."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant

SCOPE = ".calibrant.calibrant.calibrant"

#: The width of a window with one notebook, and the largest height of a folded cell there, in pixels.
WIDTH = 1280
HIGHEST = 960

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@cache
def results() -> dict[str, Any]:
    """A result of every kind that a notebook shows."""
    rng = np.random.default_rng(2)
    p = rng.random(2_000)
    y = (rng.random(2_000) < p**1.4).astype(int)
    probs = rng.dirichlet(np.full(9, 0.4), 1_200)
    targets = (rng.random((1_200, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(max=8)
    sharp = probs**1.5 / (probs**1.5).sum(axis=1, keepdims=True)
    groups = np.array(["north", "south", "<b>east</b>"])[np.arange(1_200) % 3]
    watch = calibrant.Monitor()
    for week in range(6):
        watch.update(p[week::6], y[week::6])
    rows = [
        {"answers": {"urgent": {"noul": float(score**2)}}, "labels": {"urgent": bool(outcome)}}
        for score, outcome in zip(p[:600], y[:600], strict=True)
    ]
    log = calibrant.read_decisions(rows)
    return {
        "report": calibrant.evaluate(sharp, targets, groups=groups, n_resamples=99),
        "clinical report": calibrant.evaluate(p, y, profile="clinical", n_resamples=99),
        "comparison": calibrant.compare({"a": p, "b": p**1.5, "c": p**0.7}, y),
        "recalibration": calibrant.recalibrate(p, y),
        "recalibration of labels": calibrant.recalibrate(
            np.stack([p, p**2], 1), np.stack([y, y], 1), notion="multilabel"
        ),
        "threshold": calibrant.certify_threshold(p, y, max_risk=0.3),
        "two thresholds": calibrant.certify_two_sided(p, y, yes_risk=0.3, no_risk=0.3),
        "monitor": watch,
        "reports of questions": calibrant.evaluate(log, n_resamples=0),
        "recalibrations of questions": calibrant.recalibrate(log),
        "gates": calibrant.certify_questions(log, max_risk=0.3),
    }


def cell_of(name: str) -> str:
    return str(results()[name]._repr_html_())


def rules_of(css: str) -> Iterator[str]:
    """Each selector of a style sheet, also within at-rules; the at-rules begin with @."""
    depth, start = 0, 0
    for match in re.finditer(r"[{};]", css):
        text = css[start : match.start()].strip()
        start = match.end()
        if match[0] == "{":
            depth += 1
            selectors = [text] if text.startswith("@") else split_selectors(text)
            yield from selectors
        elif match[0] == "}":
            depth -= 1
    assert depth == 0


def split_selectors(text: str) -> list[str]:
    """The selectors of a list, at commas outside of brackets."""
    parts, level = [""], 0
    for sign in text:
        level += (sign in "([") - (sign in ")]")
        if sign == "," and not level:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


# ---------------------------------------------------------------- the style stays within the cell


@pytest.mark.every_value
@pytest.mark.parametrize("name", ["report", "comparison", "recalibration", "threshold", "monitor", "gates"])
def test_every_selector_of_a_cell_begins_with_its_scope(name: str) -> None:
    styles = re.findall(r"<style>(.*?)</style>", cell_of(name), re.DOTALL)
    assert len(styles) == 1
    selectors = [rule for rule in rules_of(styles[0]) if not rule.startswith("@")]
    assert len(selectors) > 100
    host = r"(:is\([^()]*\) )?"  # which says the colours
    assert [rule for rule in selectors if not re.match(host + re.escape(SCOPE) + r"(?![\w-])", rule)] == []
    queries = {re.split(r"[ (]", rule)[0] for rule in rules_of(styles[0]) if rule.startswith("@")}
    assert queries <= {"@media", "@container", "@supports"}
    assert re.findall(r"[\d.]rem\b|@import|url\(", styles[0]) == []  # the size of letters is that of no host


def test_every_selector_of_a_page_begins_with_its_class(tmp_path: Path) -> None:
    page = results()["report"].to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]
    selectors = [rule for rule in rules_of(style) if not rule.startswith("@")]
    assert [rule for rule in selectors if not re.match(r"(body\.calibrant-page|\.calibrant)(?![\w-])", rule)] == []


def test_the_rest_is_folded_and_complete() -> None:
    for name, result in results().items():
        cell = cell_of(name)
        shown, _, folded = cell.partition('<details class="folded"><summary>More: ')
        assert "How it was computed</summary>" in folded
        assert "<dl>" in folded
        assert "<dl>" not in shown
        assert cell.count("<details") == cell.count("</details>")
        for sentence in result.verdict():
            assert " ".join(sentence.split()) in " ".join(unescape(shown).split()), sentence
        assert shown.count("<svg") + shown.count("<table") >= 1


# ---------------------------------------------------------------- the style of the host stays out

#: A host that styles every element, as Jupyter, Sphinx and Bootstrap do, and more.
HOSTILE = """
html { font-size: 10px; } body { font: 22px/2.4 serif; margin: 0; }
.host dl { margin: 3em; } .host dt { float: left; clear: left; width: 3%; } .host dd { margin: 2em 9em; }
.host dl dt, .host dl dd { display: block; }
.host table { table-layout: fixed; width: 300px; margin: 4em auto; border: 9px solid red; font-size: 9px; }
.host { letter-spacing: 3px; word-spacing: 9px; text-transform: uppercase; white-space: pre; text-align: right; }
.host th, .host td { max-width: 40px; padding: 2em; white-space: normal; text-align: center; border: 3px solid red; }
.host tbody tr:nth-child(odd) { background: #eee; } .host tr, .host thead { height: 90px; border-bottom: 9px solid; }
.host p, .host * + p { margin: 2em; text-indent: 4em; } .host ul { list-style: square; padding: 4em; }
.host li { margin: 2em; } .host li + li { margin-top: 3em; }
.host h1, .host h2, .host h3 { font-size: 60px; margin: 2em; text-transform: uppercase; letter-spacing: 4px; }
.host svg { max-width: 60px; margin: 3em; display: block; height: 40px; } .host svg text { font-size: 30px; }
.host figure { margin: 4em; } .host details { border: 9px solid; padding: 3em; } .host summary { padding: 2em; }
.host section { padding: 3em; } .host header { height: 400px; } .host div > small { font-size: 40px; }
.host label { display: block; margin: 3em; } .host input { width: 200px; height: 90px; } .host a { font-size: 40px; }
.host figcaption, .host b { display: block; font-size: 40px; }
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def boxes(browser: Any, html: str, path: Path) -> dict[str, list[float]]:
    """The place of every visible element of the cell in it, in pixels, by its number and its name."""
    path.write_text(html, encoding="utf-8")
    window = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    window.route(re.compile("^https?:"), lambda route: route.abort())
    window.goto(path.as_uri(), wait_until="domcontentloaded")
    window.evaluate("document.querySelectorAll('.calibrant details').forEach(own => own.open = true)")
    found = window.evaluate(
        "[...document.querySelectorAll('.calibrant')].flatMap(cell => { const at = cell.getBoundingClientRect();"
        "return [cell, ...cell.querySelectorAll('*')].map((own, k) => { const box = own.getBoundingClientRect();"
        "return [`${k} ${own.outerHTML.slice(0, 60)}`, [box.x - at.x, box.y - at.y, box.width, box.height]] }) })"
    )
    window.close()
    return {name: box for name, box in found if box[2] and box[3]}


@pytest.mark.every_value
@pytest.mark.parametrize("name", ["report", "comparison", "recalibration", "two thresholds", "monitor", "gates"])
def test_a_cell_looks_the_same_in_any_host(name: str, browser: Any, tmp_path: Path) -> None:
    cell = f'<div style="width: 1000px">{cell_of(name)}</div>'
    plain = boxes(browser, f"<!doctype html><body>{cell}</body>", tmp_path / "plain.html")
    styled = f'<!doctype html><style>{HOSTILE}</style><body><div class="host">{cell}</div></body>'
    hosted = boxes(browser, styled, tmp_path / "hosted.html")
    assert len(plain) > 100
    assert plain.keys() == hosted.keys()
    for name, box in plain.items():
        assert box == pytest.approx(hosted[name], abs=1), name  # fractions of a pixel depend on where a cell begins


@pytest.mark.slow
@pytest.mark.parametrize("template", ["lab", "classic"])
def test_a_cell_in_the_html_of_a_notebook(template: str, browser: Any, tmp_path: Path) -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    new = nbformat.v4
    cells = [
        new.new_code_cell(name, outputs=[new.new_output("execute_result", {"text/html": cell_of(name)})])
        for name in results()
    ]
    html, _ = nbconvert.HTMLExporter(template_name=template).from_notebook_node(new.new_notebook(cells=cells))
    path = tmp_path / "notebook.html"
    path.write_text(html, encoding="utf-8")
    window = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    window.route(re.compile("^https?:"), lambda route: route.abort())
    window.goto(path.as_uri(), wait_until="domcontentloaded")
    of_cells = "[...document.querySelectorAll('.calibrant')].map(own => own.getBoundingClientRect().{})"
    widths, heights = (window.evaluate(of_cells.format(side)) for side in ("width", "height"))
    assert len(heights) == len(results())
    assert max(heights) <= HIGHEST, dict(zip(results(), heights, strict=True))
    assert min(widths) > 900
    window.evaluate("document.querySelectorAll('.calibrant .folded').forEach(own => own.open = true)")
    opened = window.evaluate(of_cells.format("height"))
    assert all(after > before + 100 for before, after in zip(heights, opened, strict=True))
    tables = "[...document.querySelectorAll('.calibrant .scroll')].every(own => own.scrollWidth <= own.clientWidth)"
    assert window.evaluate(tables)  # no table is cut
    lines = window.evaluate(
        "[...document.querySelectorAll('.calibrant .folded > section > dl dt')].map(own => {"
        "const text = document.createRange(); text.selectNodeContents(own); return text.getClientRects().length })"
    )
    assert set(lines) == {1}
    assert window.evaluate(
        "[...document.querySelectorAll('.calibrant')].every(own => own.scrollWidth <= own.clientWidth)"
    )
    window.close()
