"""The proposals of the TAB key: files, columns of the named files, notions and conditions."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from calibrant.cli.conditions import FIELDS, OF_GROUPS, ROWS, TEST

_VARIABLE: Final = "_CALIBRANT_COMPLETE"

# click's own script for bash inserts values without quotes. Names of columns and conditions need quotes, and a name may
# hold any character: each inserted value must be one word of the shell.
_BASH: Final = r"""
_calibrant_complete() {
    local kind value word current words=()
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        # bash splits --score=win, and click wants its two ends.
        if [[ $word == = && $current == --* ]]; then
            current=
            continue
        fi
        words+=("$word")
        current=$word
    done
    if [[ $word == = ]]; then words+=(""); fi
    while IFS=, read -r kind value; do
        if [[ $kind == file ]]; then
            compopt -o default 2>/dev/null
        elif [[ $kind != plain ]]; then
            continue
        elif [[ $current == \"* ]]; then
            [[ $value == *[\"\$\`\\\!]* ]] || COMPREPLY+=("$value")
        elif [[ $current == \'* ]]; then
            COMPREPLY+=("${value//\'/\'\\\'\'}")
        elif [[ $value =~ ^[A-Za-z0-9_./=@%+:,-]+$ ]]; then
            COMPREPLY+=("$value")
        else
            COMPREPLY+=("'${value//\'/\'\\\'\'}'")
        fi
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) \
        _CALIBRANT_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _calibrant_complete calibrant 2>/dev/null ||
    complete -o default -F _calibrant_complete calibrant
"""


def script(shell: str, command: click.Command) -> str:
    """Return the shell code that completes the command."""
    if shell == "bash":
        return _BASH.lstrip("\n")
    maker = get_completion_class(shell)
    if maker is None:
        msg = f"click knows no support for the shell {shell!r}"
        raise ValueError(msg)
    return maker(command, {}, "calibrant", _VARIABLE).source()


def proposals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return what the TAB key proposes for the value of an option or an argument."""
    before, comma, last = incomplete.rpartition(",")
    match param.name:
        case "files" | "targets_file" | "baseline" | "sketch_path":
            return [CompletionItem(incomplete, type="file")]  # the shell knows their names
        case "notion":
            from calibrant.inputs.notions import NOTIONS

            return _starting(NOTIONS if ctx.command.name == "report" else ("positive", "top-label"), incomplete)
        case "conditions":
            return _starting(_conditions(incomplete.lstrip()), incomplete.lstrip())
        case "tolerance_of":
            from calibrant.inference.decision import TOLERATED

            return _starting(TOLERATED, incomplete)
        case "profile":
            from calibrant.measures.profiles import PROFILES

            return _starting(list(PROFILES), incomplete)
        case "timezone":
            import zoneinfo

            return _starting(sorted(zoneinfo.available_timezones() - {"localtime"}), incomplete)
        case "measures":
            from calibrant.measures.listed import BY_NAME

            names = list(BY_NAME)
        case "scores":
            names = _with_patterns(_columns(ctx))
        case "probs":
            return _starting(_with_patterns(_columns(ctx)), incomplete)
        case _ if param.metavar == "COLUMN":
            return _starting(_columns(ctx), incomplete)
        case _:
            return param.type.shell_complete(ctx, param, incomplete)
    free = [name for name in names if name not in before.split(",")]
    return [CompletionItem(before + comma + item.value) for item in _starting(free, last)]


def _conditions(typed: str) -> list[str]:
    """Return the beginnings of conditions: each measure with > and <; after its dot the numbers of a measure."""
    from calibrant.measures.listed import BY_NAME

    start = OF_GROUPS if typed.startswith(OF_GROUPS) else ""
    name, dot, _ = typed.removeprefix(start).partition(".")
    if dot and name in BY_NAME:
        numbers = [f"{name}.{field} {sign}" for field in FIELDS[1:] for sign in "><"]
    else:
        numbers = [f"{name} {sign}" for name in (*BY_NAME, ROWS) for sign in "><"] + [f"{TEST}.{FIELDS[-1]} <"]
    return [*(start + number for number in numbers), *([] if start else [OF_GROUPS])]


def _columns(ctx: click.Context) -> tuple[str, ...]:
    """Return the columns of the first readable file; empty without one, and no error."""
    from calibrant.files import column_names

    # While an option waits for its value, click has not sorted the arguments yet.
    for name in ctx.params.get("files") or ctx.args:
        path = os.path.expanduser(name)
        for file in [path] if os.path.isfile(path) else sorted(glob.glob(path))[:1]:
            try:
                return column_names(file)
            except Exception:  # no error may appear in a line that is being typed
                continue
    return ()


def _with_patterns(names: Sequence[str]) -> list[str]:
    """Return patterns, then names; a pattern replaces names that differ only by a final number."""
    stems = Counter(match[1] for name in names if (match := re.fullmatch(r"(.*\D)\d+", name)))
    many = [stem for stem, count in stems.items() if count > 2]
    return [f"{stem}*" for stem in many] + [name for name in names if name.rstrip("0123456789") not in many]


def _starting(values: Sequence[str], incomplete: str) -> list[CompletionItem]:
    # A line break would end the value.
    return [CompletionItem(value) for value in values if value.startswith(incomplete) and value.isprintable()]
