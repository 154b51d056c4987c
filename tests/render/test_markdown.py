"""Reports and comparisons as Markdown: what a renderer shows, and that no name acts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import calibrant
from calibrant.render import markdown
from calibrant.render.blocks import Source
from calibrant.render.words import shown, worst
from calibrant.report.measure_document import shown_estimates
from tests.samples import draw

#: GitHub's Markdown as far as this library knows it.
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = (
    "a|b",
    "`code`",
    "<script>alert(1)</script>",
    "two\nlines\r\n# three",
    "[link](https://example.org)",
    "![picture](x.png)",
    "*bold* **bold** _a_ __b__ ~~gone~~",
    r"back\slash \| \\|",
    "&lt;b&gt; &#35; &copy;",
    "- item",
    "1. item",
    "10) item",
    "+ item",
    "=====",
    "# heading",
    "> quote",
    "    indented",
    "</details>",
    "<!-- comment",
    "$x^2$ [^1] :::",
    "p_0_x é_é",
    "",
)


def words(tokens: list[Token]) -> str:
    """Return the text that is shown, without the spaces of no width."""
    return "".join(token.content for token in tokens).replace("\N{ZERO WIDTH SPACE}", "")


def cells(source: str) -> list[list[str]]:
    """Return the cells of all tables as a reader sees them; every cell must be plain text."""
    rows: list[list[str]] = []
    for token in PARSER.parse(source):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level > 3:
            assert {child.type for child in token.children or []} <= {"text", "text_special"}, token.children
            rows[-1].append(words(token.children or []))
    return rows


def as_read(name: str) -> str:
    """Return a name as a line of text."""
    return " ".join(shown(name, "?").split())


def report(n: int = 900, **options: Any) -> calibrant.report.Report:
    rng = np.random.default_rng(3)
    probs = rng.random(n)
    return calibrant.evaluate(probs, rng.random(n) < probs**1.4, n_resamples=99, **options)


def test_a_report_has_its_verdict_its_measures_and_how_it_was_computed() -> None:
    result = report()
    source = result.to_markdown(title="Rain in Bath")
    tree = PARSER.parse(source)
    assert [tree[i + 1].content for i, token in enumerate(tree) if token.type == "heading_open"] == [
        "Rain in Bath",
        "Reliability diagram",
    ]
    first, *others = result.verdict()
    assert f"**{first.replace('<', '&lt;')}**" in source
    assert all(f"\n- {sentence}\n" in source for sentence in others)
    head, *rows = cells(source[: source.index("### Reliability diagram")])
    assert head == ["measure", "estimate", "95 % CI", "calibrated: mean", "calibrated: 95 % below", "p"]
    by_label = {row[0]: row[1:] for row in rows}
    assert set(by_label) == {"ECE", "smooth ECE", "Brier score", "Brier skill", "log loss", "accuracy at 0.5"}
    ece = result["ece"]
    assert by_label["ECE"][:2] == [f"{ece.value:.4f}", f"{ece.low:.4f} – {ece.high:.4f}"]
    assert source.count("<details>") == source.count("</details>") == 1
    assert "\n- predictions: 900\n" in source
    assert "\n- bins: 15, " in source
    assert "MCE" not in source
    assert result.to_markdown().startswith("## Calibration report\n")


def test_measures_chosen_by_name_and_all_measures_are_listed() -> None:
    assert [row[0] for row in cells(report(measures=["ks", "ece"]).to_markdown())[1:3]] == ["KS error", "ECE"]
    result = report()
    complete = markdown.to_markdown(result._document(complete=True))
    shown_keys = shown_estimates(result)
    assert len(shown_keys) > 12
    labels = [result.descriptions[key].label for key in shown_keys]
    assert [row[0] for row in cells(complete)[1 : len(labels) + 1]] == labels
    assert "MCE (bins of 30 rows): the largest difference is in the bin " in complete


def test_a_report_without_intervals() -> None:
    assert cells(report(level=None).to_markdown())[0] == ["measure", "estimate"]


def test_of_many_groups_the_worst_twenty_are_listed() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(120), 50)
    probs = rng.random(6000)
    power = np.where(labels % 40 == 7, 9.0, 1.0)
    result = calibrant.evaluate(probs, rng.random(6000) < probs**power, groups=labels, n_resamples=99)
    source = result.to_markdown()
    rows = cells(source)
    start = next(i for i, row in enumerate(rows) if row[0] == "group")
    assert "### The 20 of 120 groups with the most evidence of miscalibration" in source
    marked = [group.name for group in result.groups if group.called_out]
    assert set(marked) >= {"7", "47", "87"}
    listed = [row[0] for row in rows[start + 1 :]]
    assert len(listed) == 20
    assert {name.removeprefix("◆ ") for name in listed if name.startswith("◆")} == set(marked)
    expected = sorted(result.groups, key=lambda group: (group.p_value, -group.ece.value))[:20]
    assert [name.removeprefix("◆ ") for name in listed] == [group.name for group in expected]
    assert f"◆ evidence of miscalibration after Holm correction: {len(marked)} of 120 groups" in source
    few = calibrant.evaluate(probs[:4000], [0, 1] * 2000, groups=labels[:4000], n_resamples=0).to_markdown()
    assert "\n### Groups\n" in few
    assert [row[0].removeprefix("◆ ") for row in cells(few)[-80:]] == [str(k) for k in range(80)]


def test_groups_without_a_p_value_come_last_and_of_equal_ones_the_largest_error_first() -> None:
    p_values = [0.5, 0.01, np.nan, 0.01, np.nan, *[1.0] * 95]
    errors = [0.1, 0.2, 0.9, 0.3, np.nan, *[0.0] * 95]
    assert worst(p_values, errors)[:5] == [3, 1, 0, 5, 6]
    assert worst(p_values[:99], errors[:99]) == list(range(99))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_acts(name: str) -> None:
    probs, outcomes = draw(1, 300)
    groups = np.where(np.arange(300) % 2 == 0, name, "other").astype(object)
    found = replace(calibrant.evaluate(probs, outcomes, groups=groups, n_resamples=0), omitted={name: name})
    document = found._document(Source(files=name, where=name, columns=name))
    source = markdown.to_markdown(document, title=name)
    assert as_read(name) in [row[0].removeprefix("◆ ") for row in cells(source)]
    compared = calibrant.compare({name: probs, "b": probs**0.5}, outcomes).to_markdown(title=name)
    assert as_read(name) in [row[0] for row in cells(compared)]
    for text in (source, compared):
        kinds = {token.type for token in PARSER.parse(text)}
        assert not kinds & {"ordered_list_open", "fence", "code_block", "blockquote_open", "hr"}
        assert sum(token.type == "heading_open" for token in PARSER.parse(text)) == (3 if text is source else 4)
        inline = {child.type for token in PARSER.parse(text) for child in token.children or []}
        assert inline <= {"text", "text_special", "strong_open", "strong_close", "softbreak"}
        blocks = [token.content for token in PARSER.parse(text) if token.type == "html_block"]
        assert blocks == ["<details><summary>How it was computed</summary>\n", "</details>\n"]


@given(st.text(max_size=30))
@example("a_b_")
@example("::a:b:")
def test_every_text_is_shown_as_it_is(name: str) -> None:
    (row,) = cells(f"| x |\n| --- |\n| {markdown.text(name)} |")[1:] or [[""]]
    assert row == [as_read(name).replace("\N{ZERO WIDTH SPACE}", "")]


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("@team", r"(?<!\w)@\w"),
        ("x@example.org", r"\w@\w"),
        ("#12", r"(?<!\w)#\d"),
        ("see https://example.org", r"https?://\w"),
        ("WWW.example.org", r"(?i)www\."),
        (":tada:", r":\w+:"),
    ],
)
def test_nothing_is_linked_or_replaced(name: str, link: str) -> None:
    (token,) = [token for token in PARSER.parse(markdown.text(name)) if token.type == "inline"]
    drawn = "".join(child.content for child in token.children or [])
    assert re.search(link, name)
    assert re.search(link, drawn) is None
    assert drawn.replace("\N{ZERO WIDTH SPACE}", "") == name


@pytest.mark.parametrize(
    "words", ["GH-1", "gh-26", "see GH-7.", "a5c3785ed8d6a35868bc169f07e40e889087fd2e", "at a5c3785 and", "mailto:a"]
)
def test_what_github_links_is_parted(words):
    shown = markdown.text(words)
    assert "&#8203;" in shown
    assert shown.replace("&#8203;", "") == words


@pytest.mark.parametrize("words", ["0.1234567", "GHI-1", "1,234,567 rows", "p = 0.0123456", "decade", "x_1"])
def test_other_words_stay(words):
    assert markdown.text(words) == words
