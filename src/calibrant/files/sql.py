"""SQL as text: names, texts, numbers and conditions as DuckDB reads them and as a shell takes them."""

from __future__ import annotations

import os
import re

from calibrant.files.paths import utf8_path

#: The words that DuckDB reserves: a column of such a name is quoted.
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
        all and any array as asc both case cast check collate column constraint create default desc distinct do else
        end except false for foreign from group having in initially into lateral leading limit not null offset on only
        or order pivot placing primary qualify references returning select show some summarize symmetric table then to
        trailing true union unique unpivot using variadic when where window with
        """,
    )
)


def identifier(name: str) -> str:
    """Quote a column's name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def number_of(text: str, kind: str = "DOUBLE") -> str:
    """Return the SQL of the number, or list of numbers, that a text holds; DuckDB reads ``0.1_5`` as .15."""
    return f"CASE WHEN contains({text}, '_') THEN NULL ELSE TRY_CAST(trim({text}) AS {kind}) END"


def sql_name(name: str) -> str:
    """Return a column's name as a person would write it in a condition: quoted only where it must be."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _RESERVED
    return name if plain else identifier(name)


def engine_path(path: str) -> str:
    """Return a path as the engine's literal: it would expand brackets, ``~`` and ``s3:`` itself."""
    return literal(re.sub(r"[\[*?]", r"[\g<0>]", utf8_path(os.path.abspath(path))))


def where_option(condition: str, where: str | None = None) -> str:
    """Return a ``--where`` to type into a shell, joined to the condition that is in force."""
    if where is not None:
        condition = f"({where}) AND {condition}"
    if re.search(r'["$`\\!]', condition):
        return "--where '" + condition.replace("'", "'\\''") + "'"
    return f'--where "{condition}"'
