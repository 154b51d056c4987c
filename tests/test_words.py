"""The words that a person reads: no home-made term, no metaphor, no number without its zero."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

#: What must not be written, and what to write instead.
BANNED = {
    r"\bclaim(s|ed)?\b": "predicted",
    r"\bhappen(s|ed)?\b": "observed, occurred",
    r"\brarer outcome\b": "events or non-events, whichever are fewer",
    r"\bcalled out\b": "flagged",
    r"\brightly\b": "the ideal value",
    r"\bjudge[ds]?\b": "evaluated",
    r"\bfalse alarms?\b": "false positives",
    r"\bhits\b": "true positives",
    r"\bequal mass\b": "equal frequency",
    r"\bmean gap\b": "mean difference",
    r"\bas far as\b": "the estimate with its interval",
    r"\bno surprise\b": "unadjusted p",
    r"\bby itself\b|\bnoise alone\b": "unadjusted; under calibration",
    r"\bper cent\b": "percent",
    r"(?<![\w.*/])\.\d+\b(?! ?(py|md|csv))": "a zero before the point",
    r"\b(room|door|twin|house)s?\b": "module, interface, compiled version, package",
}

ANY_BANNED = re.compile("|".join(BANNED), re.IGNORECASE)

#: Words of other people, and names that stay.
ALLOWED = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+|--[a-z-]+")


def prose(page: Path) -> Iterator[str]:
    """Yield the lines of a page outside code."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    yield from text.splitlines()


def strings(path: Path) -> Iterator[str]:
    """Yield the string constants of a module that are words for a person: with a space, and no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        if is_text and " " in node.value.strip():
            yield node.value


def banned(lines: Iterator[str]) -> list[str]:
    """Return the lines with a banned word, each with what to write instead."""
    return [
        f"{line.strip()[:120]!r}: {instead}"
        for line in lines
        if ANY_BANNED.search(own := ALLOWED.sub("", line))
        for pattern, instead in BANNED.items()
        if re.search(pattern, own, re.IGNORECASE)
    ]


def test_the_words_of_the_pages() -> None:
    assert {page.name: lines for page in PAGES if (lines := banned(prose(page)))} == {}


def test_the_words_of_messages() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := banned(strings(path)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line", ["it claims 90 %", "the event happened", "Noise alone shows", "a gap of .05", "85 per cent", "judged rows"]
)
def test_a_banned_word_is_found(line: str) -> None:
    assert banned(iter([line]))
    assert not banned(iter([f"`{line}`", "predicted 0.90, observed 0.85", "version 0.1.0, see ./a.py"]))
