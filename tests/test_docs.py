"""The pages: their examples run, what they show is what the code says today, and they leave nothing out."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import make_examples
import pytest
import shown

import calibrant
from calibrant import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def fenced(text: str) -> str:
    """Blank everything outside ``python`` blocks, so that line numbers stay those of the page."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        if fence:
            inside = not inside and line.strip() == "```python"
        lines.append(line if inside and not fence else "")
    return "\n".join(lines) + "\n"


def failures(text: str, name: str) -> list[str]:
    """Run the examples of a page, all in one namespace, and list what came out otherwise."""
    test = doctest.DocTestParser().get_doctest(fenced(text), {}, name, name, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the pages name examples/digits.parquet
    assert not failures(page.read_text(encoding="utf-8"), page.name)


def test_the_runner_of_examples_can_fail() -> None:
    page = (
        "# Title\n\n```text\n>>> 1 + 1\n4\n```\n\n```python\n>>> x = 2\n>>> x + 1\n3\n```\n\n```python\n>>> x\n3\n```\n"
    )
    (said,) = failures(page, "page.md")
    assert "line 15" in said
    assert "Expected:\n    3\nGot:\n    2" in said


@pytest.mark.slow
@pytest.mark.parametrize("make", make_examples.MAKERS, ids=lambda make: make.__name__)
def test_the_reports_shown_are_what_the_code_says(make: Callable[[], dict[str, str]]) -> None:
    assert shown.stale(make()) == [], "out of date; run: python docs/make_examples.py"


def test_only_what_is_made_is_shown() -> None:
    makers = [*DOCS.glob("make_*.py"), *(ROOT / "tools").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in makers)
    seen = {name for page in shown.PAGES for name in shown.names(page.read_text(encoding="utf-8"))}
    assert {name for name in seen if "/" not in name and f'"{name}"' not in source} == set()


PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
ONLY_SPHINX = re.compile(r"^<!-- sphinx$.*?^-->$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """List the headings of a page as GitHub makes anchors of them, and the names that the API page documents."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^ *\.\. auto\w+:: ([\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_a_page_is_plain_markdown(page: Path) -> None:
    text = ONLY_SPHINX.sub("", page.read_text(encoding="utf-8"))
    for pattern in (r"\{(?:doc|ref|py:\w+|func|class)\}`", r"^:::", r"^: ", r"^```\{(?!eval-rst\}$)"):
        assert re.findall(pattern, text, re.MULTILINE) == []
    assert "```{eval-rst}" not in text or page.name == "api.md"


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_every_link_and_picture_of_a_page_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", ONLY_SPHINX.sub("", page.read_text(encoding="utf-8")), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        path, _, anchor = (target[0] or target[1]).partition("#")
        if not path.startswith("https:"):
            there = page.parent / path if path else page
            assert there.exists(), path
            assert not anchor or anchor in anchors(there), f"{path}#{anchor}"


def test_a_part_of_a_text_is_shown_between_its_words() -> None:
    page = '<!-- shown: a.txt, from "two", to "four" -->\n<!-- end -->\n\n<!-- shown: b.md -->\nold\n<!-- end -->\n'
    filled = shown.filled(page, {"a.txt": "one\ntwo\nthree\nfour\n"})
    assert "-->\n```text\ntwo\nthree\n```\n<!-- end -->" in filled
    assert "-->\nold\n<!--" in filled
    assert shown.filled(filled, {"b.md": "new"}) == filled.replace("old", "new")
    with pytest.raises(ValueError, match=r"a\.txt has no such part"):
        shown.filled(page, {"a.txt": "one\ntwo\n"})


def test_the_api_page_documents_just_what_is_public() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto(?:function|class|exception):: calibrant\.(\w+)(?:\(\))?$", page, re.MULTILINE)
    assert sorted(documented) == sorted(calibrant.__all__)


@pytest.mark.parametrize("name", ["torch", "compat.bensemble", "compat.pyhealth", "compat.triples"])
def test_the_api_page_documents_the_drop_ins(name: str) -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    pattern = rf"^\.\. auto(?:function|class):: calibrant\.{re.escape(name)}\.(\w+)$"
    documented = re.findall(pattern, page, re.MULTILINE)
    assert sorted(documented) == sorted(importlib.import_module(f"calibrant.{name}").__all__)


def test_the_api_page_documents_the_whole_family_of_errors() -> None:
    family = {error.__name__ for error in calibrant.CalibrantError.__subclasses__()}
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.\. autoexception:: calibrant\.errors\.(\w+)", page, re.MULTILINE)) == family


def test_every_option_of_the_command_is_explained() -> None:
    page = (DOCS / "files.md").read_text(encoding="utf-8")
    terms = " ".join(re.findall(r"^- (`--.*?`):", page, re.MULTILINE))  # the heads of the list
    options = {
        flag for parameter in cli.main.commands["report"].params for flag in parameter.opts if flag.startswith("--")
    }
    assert options == set(re.findall(r"--[\w-]+", terms))


def test_every_key_of_the_json_is_explained() -> None:
    page = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("files.md", "measures.md"))
    classes = [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]]
    table = calibrant.ReliabilityTable.from_scores([0.2, 0.9], [0, 1], grid="standard")
    reports = [
        calibrant.evaluate([0.2, 0.0], [0, 1]),
        calibrant.evaluate(classes, [0, 0, 2]),
        calibrant.evaluate(classes, [0, 0, 2], notion="classwise"),
        calibrant.evaluate(table),
    ]
    keys: set[str] = {"source", "files", "columns", "where"}

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for key, entry in value.items():
                if "." not in key:  # the paths under not_finite are no keys
                    keys.add(key)
                collect(entry)

    for report in reports:
        collect(json.loads(report.to_json()))
    assert {"per_class", "infinite_rows", "table", "worst_class"} <= keys
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_the_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
