"""List the options of every command for the page about the command line. docs/make_examples.py shows the tables."""

from __future__ import annotations

import re

import click
from shown import lined

from calibrant.cli import main
from calibrant.cli.usage import SECTIONS, section_of

#: The texts that the page shows, by command: the options that no other command has with the same words.
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

#: The commands whose common options have a table of their own.
COMMON = ("report", "compare", "recalibrate", "threshold", "monitor")

#: The texts with the options of all commands of `COMMON` and of no other, and with those of several commands.
COMMON_TEXT, SEVERAL_TEXT = "options-common.md", "options-several.md"

#: The section, the names and the help of an option.
Option = tuple[int, str, str]


def tables() -> dict[str, str]:
    """Return the tables of options in Markdown: two of options of several commands, and one for each command."""
    owners = commands()
    common = [option for option in owners if owners[option] == COMMON]
    several = [option for option in owners if len(owners[option]) > 1 and option not in common]
    own = {text: [option for option in options(name) if owners[option] == (name,)] for name, text in TEXTS.items()}
    found = {text: lined(["option", "meaning"], [cells(each) for each in own[text]]) for text in own}
    found[COMMON_TEXT] = lined(["option", "meaning"], [cells(each) for each in common])
    rows = []
    for option in several:
        head, words = cells(option)
        rows.append([head, ", ".join(f"`{name}`" for name in owners[option]), words])
    return found | {SEVERAL_TEXT: lined(["option", "commands", "meaning"], rows)}


def commands() -> dict[Option, tuple[str, ...]]:
    """Return the commands that have each option with the same words, in the order of the help."""
    owners: dict[Option, tuple[str, ...]] = {}
    for name in TEXTS:
        for option in options(name):
            owners[option] = (*owners.get(option, ()), name)
    return owners


def options(name: str) -> list[Option]:
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


def cells(option: Option) -> list[str]:
    """Return the names and the meaning of an option: examples in quotes and options become code."""
    _, head, words = option
    words = re.sub(r"(?<!\w)'([^']+)'", r"`\1`", words).replace("|", "\\|")
    words = re.sub(r"\s*\[(?:default: )([^;\]]+)(?:;[^\]]*)?\]$", r" Default: \1.", words)
    words = re.sub(r"\s*\[[^\]]*[<>][^\]]*\]$", "", words)
    parts = " ".join(words.split()).split("`")  # every second one is code; Sphinx would print -- as a dash
    parts[::2] = (re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", part) for part in parts[::2])
    return [f"`{head.strip()}`", "`".join(parts)]
