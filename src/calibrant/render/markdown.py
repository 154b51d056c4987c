"""Documents as GitHub's Markdown, for pull requests and the summaries of workflows.

Names come from files. `text` writes them so that they are shown and nothing in them acts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from calibrant.render.blocks import Block, Details, Document, Heading, Notes, Passage, Sentence, Table
from calibrant.render.words import shown

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


def to_markdown(document: Document, *, title: str = "") -> str:
    """Return a document as Markdown. Remarks are folded at the end with the settings; pictures are left out."""
    first, *others = map(_sentence, document.sentences)
    parts = [f"## {text(title or document.title)}", f"**{first}**"]
    parts += [_sentence(document.plain)] if document.plain else []
    parts += ["\n".join(f"- {sentence}" for sentence in others)] if others else []
    parts.append(text(document.headline))
    parts += _parts(document.blocks)
    notes = [note for block in document.blocks if isinstance(block, Notes) for note in block.sentences]
    facts = [f"{text(name)}: {text(value)}" for name, value in document.facts if value]
    parts.append(_folded("How it was computed", "\n".join(f"- {line}" for line in [*facts, *map(_sentence, notes)])))
    return "\n\n".join(parts) + "\n"


def _parts(blocks: Sequence[Block]) -> list[str]:
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"### {text(block.text)}")
        elif isinstance(block, (Sentence, Passage)):
            parts.append(_sentence(block.text))
        elif isinstance(block, Table):
            parts.append(_table(block))
        elif isinstance(block, Details):
            parts.append(_folded(text(block.summary), "\n\n".join(_parts(block.blocks))))
    return parts


def _folded(heading: str, content: str) -> str:
    return f"<details><summary>{heading}</summary>\n\n{content}\n\n</details>"


def _sentence(words: str) -> str:
    """Return a sentence that Markdown does not take for a list; a star at its beginning explains the mark of rows."""
    if words.startswith("* "):
        return _MARK + text(words[2:])
    return _START.sub(lambda match: match[0][:-1] + _entity(match[0][-1]), text(words))


def text(sentence: str) -> str:
    """Return words as Markdown that shows them within a line: no markup, link, mention, table cell or end of line.

    Control characters become ``?``, several spaces one.
    """
    line = _ACTIVE.sub(lambda match: _entity(match[0]), " ".join(shown(sentence, "?").split()))
    return _LINKED.sub(rf"\g<0>{_JOINER}", line)


def _entity(character: str) -> str:
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(character, f"&#{ord(character)};")


def _table(table: Table) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    rules = ["---" if column.words or not i else "---:" for i, column in enumerate(table.columns)]
    lines = [[text(heading) for heading in table.headings], rules]
    for place in table.places:
        name, *cells = map(text, table.cells(place))
        name = f"**{name}**" if place in table.titled else _MARK * table.is_marked(place) + name
        lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
