"""List the options of every command for the page about the command line. docs/make_examples.py shows the tables."""

from __future__ import annotations

import re
from itertools import groupby

import click

from calibrant.cli import main
from calibrant.cli.usage import SECTIONS, section_of

#: The texts that the page shows, by command.
TEXTS = {
    "report": "options-report.md",
    "compare": "options-compare.md",
    "recalibrate": "options-recalibrate.md",
    "apply": "options-apply.md",
    "threshold": "options-threshold.md",
    "monitor": "options-monitor.md",
    "merge": "options-merge.md",
    "floor": "options-floor.md",
}

#: The commands whose tables name the options that they have in common with `report`, without their help.
SHORT = ("compare", "recalibrate", "threshold", "monitor")


def tables() -> dict[str, str]:
    """Return the options of each command, as tables in Markdown."""
    return {text: table(name) for name, text in TEXTS.items()}


def table(name: str) -> str:
    """Return the table of the options of a command, in the order of its help; those of `report` are last in `SHORT`."""
    shared = set(options("report")) if name in SHORT else set()
    rows = [row(head, words) for place, head, words in options(name) if (place, head, words) not in shared]
    for _, entries in groupby((entry for entry in options(name) if entry in shared), key=lambda entry: entry[0]):
        names = ", ".join(re.sub(r" [A-Z]+$", "", head.strip()) for _, head, _ in entries)
        rows.append(row(names, "As in 'calibrant report'."))
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"


def options(name: str) -> list[tuple[int, str, str]]:
    """Return the section, the names and the help of each option of a command, in the order of its help."""
    command = main.commands[name]
    sections = [*SECTIONS, "Others"]
    context = click.Context(command, show_default=True)
    found = []
    for param in command.params:
        record = param.get_help_record(context)
        if record is None or not isinstance(param, click.Option):
            continue
        found.append((sections.index(section_of(param)), *record))
    return sorted(found, key=lambda entry: entry[0])


def row(head: str, words: str) -> str:
    """Return a row of the table: examples in quotes become code, and defaults a sentence."""
    words = re.sub(r"(?<!\w)'([^']+)'", r"`\1`", words).replace("|", "\\|")
    words = re.sub(r"\s*\[(?:default: )([^;\]]+)(?:;[^\]]*)?\]$", r" Default: \1.", words)
    words = re.sub(r"\s*\[[^\]]*[<>][^\]]*\]$", "", words)
    return f"| `{head.strip()}` | {' '.join(words.split())} |"
