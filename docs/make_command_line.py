"""List the options of every command for the page about the command line. docs/make_examples.py shows the tables."""

from __future__ import annotations

import re

import click

from calibrant.cli import main
from calibrant.cli.usage import SECTIONS

#: The texts that the page shows, by command.
TEXTS = {
    "report": "options-report.md",
    "compare": "options-compare.md",
    "merge": "options-merge.md",
    "floor": "options-floor.md",
}


def tables() -> dict[str, str]:
    """Return the options of each command, as tables in Markdown."""
    return {text: table(main.commands[name]) for name, text in TEXTS.items()}


def table(command: click.Command) -> str:
    """Return one table of the options of a command, in the order of its help."""
    sections = list(SECTIONS.values())
    context = click.Context(command, show_default=True)
    found = []
    for param in command.params:
        record = param.get_help_record(context)
        if record is None or not isinstance(param, click.Option):
            continue
        place = next((k for k, names in enumerate(sections) if param.name in names), len(sections))
        found.append((place, *record))
    rows = sorted(found, key=lambda entry: entry[0])
    return "\n".join(["| option | meaning |", "|---|---|", *(row(head, words) for _, head, words in rows)]) + "\n"


def row(head: str, words: str) -> str:
    """Return a row of the table: examples in quotes become code, and defaults a sentence."""
    words = re.sub(r"(?<!\w)'([^']+)'", r"`\1`", words).replace("|", "\\|")
    words = re.sub(r"\s*\[(?:default: )([^;\]]+)(?:;[^\]]*)?\]$", r" Default: \1.", words)
    words = re.sub(r"\s*\[[^\]]*[<>][^\]]*\]$", "", words)
    return f"| `{head.strip()}` | {' '.join(words.split())} |"
