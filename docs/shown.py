"""Put generated texts into the pages: each between two comments, which Markdown hides.

    <!-- shown: digits.txt, from "95 % interval", to "Reliability diagram" -->
    <!-- end -->

`from` begins at the first line with these words, `to` ends before the next line with those. The text between the
comments is in a fence; a `.md` has no fence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted(Path(__file__).parent.glob("*.md")),
)

_PART = re.compile(
    r'^<!-- shown: (?P<name>\S+?)(?:, from "(?P<start>.+?)")?(?:, to "(?P<stop>.+?)")? -->$.*?^<!-- end -->$',
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES = {".csv": "text", ".json": "json", ".py": "python", ".sh": "sh", ".txt": "text", ".yml": "yaml"}


def lined(heads: list[str], lines: list[list[str]]) -> str:
    """Return a table in Markdown."""
    head, *rows = (f"| {' | '.join(row)} |" for row in (heads, *lines))
    return "\n".join([head, "|---" * len(heads) + "|", *rows]) + "\n"


def names(page: str) -> list[str]:
    """Return the names of the texts that a page shows."""
    return [part["name"] for part in _PART.finditer(page)]


def texts(page: str, name: str) -> list[str]:
    """Return the texts that a page shows under a name, without the fences."""
    parts = [part[0].split("\n")[1:-1] for part in _PART.finditer(page) if part["name"] == name]
    return ["\n".join(lines[1:-1] if lines[0].startswith("```") else lines) + "\n" for lines in parts]


def filled(page: str, texts: Mapping[str, str]) -> str:
    """Return the page with these texts between their comments; texts with other names stay."""

    def fill(part: re.Match[str]) -> str:
        if part["name"] not in texts:
            return part[0]
        lines = texts[part["name"]].rstrip("\n").split("\n")
        start = next((k for k, line in enumerate(lines) if part["start"] and part["start"] in line), 0)
        stop = next((k for k, line in enumerate(lines) if part["stop"] and k > start and part["stop"] in line), None)
        if (part["start"] and part["start"] not in lines[start]) or (part["stop"] and stop is None):
            message = f"{part['name']} has no such part: {part[0].splitlines()[0]}"
            raise ValueError(message)
        body = "\n".join(lines[start:stop]).strip("\n")
        suffix = Path(part["name"]).suffix
        shown = body if suffix == ".md" else f"```{_LANGUAGES[suffix]}\n{body}\n```"
        return f"{part[0].splitlines()[0]}\n{shown}\n<!-- end -->"

    return _PART.sub(fill, page)


def write(texts: Mapping[str, str]) -> None:
    """Put the texts into all pages that show them."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if (new := filled(page, texts)) != page:
            path.write_text(new, encoding="utf-8")


def stale(texts: Mapping[str, str]) -> list[str]:
    """Return the pages that show another text, and the texts that no page shows."""
    pages = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
    unseen = texts.keys() - {name for page in pages.values() for name in names(page)}
    return sorted(name for name, page in pages.items() if filled(page, texts) != page) + sorted(unseen)
