"""A report or a comparison as GitHub's Markdown, for pull requests and the summaries of workflows.

Names come from files. `text` writes them so that they are shown and nothing in them acts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from calibrant.render import (
    comparison,
    drawing,
    html,
    leaderboard,
    monitor,
    recalibration,
    tables,
    threshold,
    verdict,
    words,
)
from calibrant.render.checklist import REST, TRIPOD, checklist
from calibrant.render.methods import METHODS, shows_methods
from calibrant.render.style import Facts, Summary, shown

_MARK: Final = "◆ "
_JOINER: Final = "&#8203;"  # a space without width: it parts what GitHub would link

#: The characters that Markdown, its tables and HTML give a meaning to.
_ACTIVE: Final = re.compile(r"[\\`*\[\]<>|~$&#@]|(?<![0-9A-Za-z])_")

#: How a line may begin that Markdown takes for a list or for the underline of a heading.
_START: Final = re.compile(r"^(\d{1,9}[.)]|[-+=])")

#: What GitHub links or replaces in plain text: people, issues, commits, addresses, emoji.
_LINKED: Final = re.compile(
    r"&#(?:64|35);(?=\w)|(?i:www)(?=\.)|[a-zA-Z](?=://)|:(?=[\w+-]+:)"
    r"|(?i:\bmailto|\bxmpp)(?=:)|(?i:\bGH)(?=-\d)|(?<![\w.,;#])[0-9a-f](?=[0-9a-f]{6,39}\b)"
)


def render(
    summary: Summary,
    *,
    title: str = "",
    used: str = "",
    sources: Facts | None = None,
    complete: bool = False,
) -> str:
    """Return the Markdown of a report or of a comparison.

    Parameters
    ----------
    summary
        What `to_dict` returns.
    title, used
        The title above it, and the columns that were read.
    sources
        The ``files`` and the condition ``where``, if any.
    complete
        Whether to list every measure of a profile. By default these are the key ones, as in the terminal; measures
        chosen by name are always listed.
    """
    kind = html.kind_of(summary)
    blocks = [f"## {text(title) or html.TITLES[kind]}"]
    bodies: dict[str, Callable[[], list[str]]] = {
        "report": lambda: _report(summary, complete),
        "comparison": lambda: _comparison(summary),
        "recalibration": lambda: _recalibration(summary),
        "threshold": lambda: _threshold(summary),
        "monitor": lambda: _monitor(summary),
    }
    blocks += bodies[kind]()
    if kind == "report" and shows_methods(summary):
        blocks += [f"### {METHODS}", text(summary["methods_brief"])]
        blocks.append(_folded("The full paragraph", text(summary["methods"])))
        blocks.append(_folded(TRIPOD, f"{_table(checklist(summary))}\n\n{text(REST)}"))
    facts = [f"- {text(name)}: {text(value)}" for name, value in html.facts(summary, sources or {}, used)]
    notes = {
        "report": lambda: words.remarks(_shortened(summary, complete)),
        "comparison": lambda: comparison.remarks(summary),
        "recalibration": lambda: recalibration.remarks(summary),
        "threshold": lambda: threshold.remarks(summary),
        "monitor": lambda: monitor.remarks(summary),
    }[kind]()
    lines = "\n".join([*facts, *(f"- {text(note)}" for note in notes)])
    blocks.append(_folded("How it was computed", lines))
    return "\n\n".join(blocks) + "\n"


def _folded(heading: str, content: str) -> str:
    return f"<details><summary>{heading}</summary>\n\n{content}\n\n</details>"


def text(sentence: str) -> str:
    """Return words as Markdown that shows them within a line: no markup, link, mention, table cell or end of line.

    Control characters become ``?``, several spaces one.
    """
    line = _ACTIVE.sub(lambda match: _entity(match[0]), " ".join(shown(sentence, "?").split()))
    return _LINKED.sub(rf"\g<0>{_JOINER}", line)


def _entity(character: str) -> str:
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(character, f"&#{ord(character)};")


def _report(summary: Summary, complete: bool) -> list[str]:
    blocks = [*_verdict(verdict.verdict(summary)), text(words.headline(summary))]
    measures = tables.measures(_shortened(summary, complete))
    blocks.append(_table(measures))
    for picture in drawing.pictures(summary):
        if picture.brief is not None:
            blocks += [f"### {picture.heading}", _table(picture.brief), text(picture.caption)]
    blocks += _groups(summary) if summary["groups"] else []
    for picture in drawing.forests(summary):
        blocks += [f"### {text(picture.heading)}", _table(picture.table), text(picture.caption)]
    return blocks


def _shortened(summary: Summary, complete: bool) -> Summary:
    """Return the dictionary with the measures to list alone."""
    return {**summary, "estimates": words.shown_estimates(summary, complete=complete)}


def _comparison(summary: Summary) -> list[str]:
    blocks = [*_verdict(comparison.verdict(summary)), text(comparison.headline(summary))]
    blocks += [_table(leaderboard.table(summary)), text(leaderboard.note(summary))]
    blocks += ["### Models", _table(comparison.models(summary))]
    (pair, *others) = summary["pairs"]
    heading = "Differences" if others else f"{text(pair['first'])} minus {text(pair['second'])}"
    return [*blocks, f"### {heading}", _table(comparison.differences(summary)), *_group_differences(summary)]


def _recalibration(summary: Summary) -> list[str]:
    blocks = [*_verdict(recalibration.verdict(summary)), text(recalibration.headline(summary))]
    blocks.append(_table(recalibration.measures(summary)))
    groups = recalibration.by_group(summary)
    return blocks if groups is None else [*blocks, f"### {recalibration.GROUPS}", *_groups(groups)[1:]]


def _threshold(summary: Summary) -> list[str]:
    blocks = [*_verdict(threshold.verdict(summary)), text(threshold.headline(summary))]
    for side in threshold.sides(summary):
        heading = f"### {text(threshold.side_heading(side, summary))}"
        blocks += [heading, _table(threshold.points(side)), _table(threshold.areas(side))]
    groups = threshold.by_group(summary)
    return blocks if groups is None else [*blocks, f"### {threshold.groups_heading(summary)}", _table(groups)]


def _monitor(summary: Summary) -> list[str]:
    blocks = [*_verdict(monitor.verdict(summary)), text(monitor.headline(summary))]
    if summary["slices"]:
        blocks += [f"### {monitor.slices_heading(summary)}", _table(monitor.slices(summary))]
    groups = monitor.groups(summary)
    return blocks if groups is None else [*blocks, f"### {monitor.groups_heading(summary)}", _table(groups)]


def _group_differences(summary: Summary) -> list[str]:
    """Return a table of the groups for each pair of models."""
    blocks = []
    for place in comparison.grouped_pairs(summary):
        title, table, note = comparison.groups(place, summary)
        rows, order = _marked(table).rows, comparison.worst_groups(table)
        many = f" (the {len(order)} of {len(rows):,} groups with the most evidence)" if len(order) < len(rows) else ""
        blocks += [
            f"### {text(title)}{many}",
            _table(replace(table, rows=[rows[i] for i in order])),
            _MARK + text(note),
        ]
    return blocks


def _verdict(sentences: Sequence[str]) -> list[str]:
    """Return the first sentence in bold, and a list of the others."""
    lines = [_START.sub(lambda match: match[0][:-1] + _entity(match[0][-1]), text(sentence)) for sentence in sentences]
    first, *others = lines
    return [f"**{first}**", *(["\n".join(f"- {sentence}" for sentence in others)] if others else [])]


def _groups(summary: Summary) -> list[str]:
    """Return the table of the groups, of many those that stand out most."""
    groups, table = summary["groups"], tables.groups(summary)
    order, rows = words.worst_groups(summary), _marked(table).rows
    many = len(order) < len(groups)
    heading = f"The {len(order)} of {len(groups):,} groups with the most evidence" if many else "Groups"
    blocks = [f"### {heading}", _table(replace(table, rows=[rows[i] for i in order]))]
    if summary["level"] is not None:
        adjusted, marked = ([group[key] for group in groups] for key in ("adjusted_p_value", "called_out"))
        blocks.append(text(words.correction(adjusted, marked, "group", "groups", _MARK)))
    return blocks + [text(sentence[0].upper() + sentence[1:]) for sentence in words.multicalibration(summary)]


def _marked(table: tables.Table) -> tables.Table:
    """Return a table with a mark before the name of each row that is flagged."""
    rows = [(_MARK * mark + name, *cells) for (name, *cells), mark in zip(table.rows, table.marked, strict=True)]
    return replace(table, rows=rows)


def _table(table: tables.Table) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    rules = ["---" if i in table.texts else "---:" for i in range(len(table.headings))]
    lines = [table.headings, rules, *([text(cell) for cell in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
