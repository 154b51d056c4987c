"""SQL as text: names, texts, numbers and conditions as DuckDB reads them and as a shell takes them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from typing import Any

from calibrant.files.local import located
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

#: The types of the numbers and the labels in lists of objects, and their usual names.
_FRACTIONS = frozenset(("double", "float", "decimal"))
NUMBERS = _FRACTIONS | frozenset(("tinyint", "smallint", "integer", "bigint"))
_LABELS = frozenset(("varchar", "enum", "boolean", "tinyint", "smallint", "integer", "bigint"))
_NUMBER = re.compile(r"score|prob|conf|logit|value|^p$", re.IGNORECASE)
_LABEL = re.compile(r"label|class|categor|name|token", re.IGNORECASE)

#: How the periods of dates are written; of months and weeks alone SQL has the numbers, of all years together.
_PERIODS = {"month": "%Y-%m", "week": "%G-W%V"}
_PERIOD = re.compile(r"\s*(?P<unit>month|week)\s*\((?P<of>.+)\)\s*", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")


def identifier(name: str) -> str:
    """Quote a column's name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def number_of(text: str, kind: str = "DOUBLE", *, comma: bool = False) -> str:
    """Return the SQL of the number, or list of numbers, that a text holds; DuckDB reads ``0.1_5`` as .15.

    With ``comma`` decimals have a comma, and a text with a point is no number: it may stand between thousands.
    """
    if comma and not kind.endswith("[]"):
        wrong = f"contains({text}, '_') OR contains({text}, '.')"
        return f"CASE WHEN {wrong} THEN NULL ELSE TRY_CAST(replace(trim({text}), ',', '.') AS {kind}) END"
    return f"CASE WHEN contains({text}, '_') THEN NULL ELSE TRY_CAST(trim({text}) AS {kind}) END"


def period(sql: str, *, spark: bool = False) -> str:
    """Return the SQL of an expression: ``month(date)`` is the month of its year, 2026-11, and week(date) 2026-W47."""
    match = _PERIOD.fullmatch(sql)
    if match is None or not _is_closed(match["of"]):
        return sql
    unit, of = match["unit"].lower(), match["of"]
    if not spark:
        # A cast of a text to a time without a zone would drop the zone that is in it.
        return f"strftime(CAST(CAST({of} AS TIMESTAMPTZ) AS TIMESTAMP), {literal(_PERIODS[unit])})"
    if unit == "month":
        return f"date_format({of}, 'yyyy-MM')"
    return f"concat(extract(YEAROFWEEK FROM {of}), '-W', lpad(weekofyear({of}), 2, '0'))"


def _is_closed(sql: str) -> bool:
    """Whether no bracket closes that was opened before: ``a) + month(b`` is a part of two calls."""
    depths = itertools.accumulate({"(": 1, ")": -1}.get(character, 0) for character in without_quoted(sql))
    return min(depths, default=0) >= 0


def without_quoted(sql: str) -> str:
    """Return SQL without its texts and names in quotes."""
    return _QUOTED.sub("", sql)


def struct_paths(types: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the fields of the engine's structs by their dotted paths, each with its SQL and its type."""
    paths: dict[str, tuple[str, Any]] = {}
    waiting = [(name, identifier(name), kind) for name, kind in types.items()]
    while waiting:
        name, sql, kind = waiting.pop(0)
        if kind.id == "struct":
            inner = [(f"{name}.{key}", f"{sql}.{identifier(key)}", each) for key, each in kind.children]
            paths |= {path: (inner_sql, each) for path, inner_sql, each in inner if path not in paths}
            waiting += inner
    return paths


def label_fields(kind: Any) -> tuple[str, str] | None:
    """Return the fields of a list of objects, or of a map, that hold a label and its number; None for other types."""
    if kind.id == "map":
        return "key", "value"
    if kind.id != "list" or kind.child.id != "struct":
        return None
    fields = {name: each.id for name, each in kind.child.children}
    numbers = [name for name, each in fields.items() if each in _FRACTIONS] or list(filter(_NUMBER.search, fields))
    labels = [name for name, each in fields.items() if name not in numbers and each in _LABELS]
    labels = labels if len(labels) == 1 else list(filter(_LABEL.search, labels))
    numbers = numbers if len(numbers) == 1 else list(filter(_NUMBER.search, numbers))
    return (labels[0], numbers[0]) if len(labels) == len(numbers) == 1 else None


def entries(name: str, kind: Any) -> str:
    """Return the SQL of a list of objects: of a map, the one of its entries."""
    return f"map_entries({identifier(name)})" if kind.id == "map" else identifier(name)


def number_of_label(objects: str, fields: tuple[str, str], label: str) -> str:
    """Return the SQL of the number of a label in a list of objects; null where it has none, or several."""
    key, value = map(identifier, fields)
    numbers = f"[each.{value} FOR each IN {objects} IF CAST(each.{key} AS VARCHAR) = {literal(label)}]"
    return f"CASE WHEN len({numbers}) = 1 THEN {numbers}[1] END"


def with_paths(table: str, paths: Mapping[str, str]) -> str:
    """Return the SQL of a table with columns for paths in its structs."""
    columns = "".join(f", {sql} AS {identifier(name)}" for name, sql in paths.items())
    return f"(SELECT *{columns} FROM {table})" if paths else table


def sql_name(name: str) -> str:
    """Return a column's name as a person would write it in a condition: quoted only where it must be."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _RESERVED
    return name if plain else identifier(name)


def engine_path(path: str) -> str:
    """Return a path as the engine's literal: it would expand brackets, ``~`` and ``s3:`` itself."""
    return literal(re.sub(r"[\[*?]", r"[\g<0>]", utf8_path(os.path.abspath(located(path)))))


def where_option(condition: str, where: str | None = None) -> str:
    """Return a ``--where`` to type into a shell, joined to the condition that is in force."""
    if where is not None:
        condition = f"({where}) AND {condition}"
    if re.search(r'["$`\\!]', condition):
        return "--where '" + condition.replace("'", "'\\''") + "'"
    return f'--where "{condition}"'
