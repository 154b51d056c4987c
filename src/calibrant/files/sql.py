"""SQL as text: quoted for DuckDB and for the command line, and what SQL of a user's own may contain."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from calibrant.errors import nearest
from calibrant.files.column_words import all_of
from calibrant.files.local import located
from calibrant.files.paths import utf8_path

#: The words that DuckDB reserves: a column of such a name is quoted.
_RESERVED = frozenset(
    all_of("""
    all and any array as asc both case cast check collate column constraint create default desc distinct do else
    end except false for foreign from group having in initially into lateral leading limit not null offset on only
    or order pivot placing primary qualify references returning select show some summarize symmetric table then to
    trailing true union unique unpivot using variadic when where window with
    """)
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
#: Texts and names in quotes.
QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")


def identifier(name: str) -> str:
    """Quote a column's name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def bracketed(sql: str) -> str:
    """Return SQL in brackets; the line breaks keep a comment in it from swallowing the bracket."""
    return f"(\n{sql}\n)"


def number_of(text: str, kind: str = "DOUBLE", *, comma: bool = False) -> str:
    """Return the SQL of the number, or list of numbers, that a text holds; DuckDB reads ``0.1_5`` as 0.15.

    With ``comma`` decimals have a comma, and a text with a point is not a number: it may stand between thousands.
    """
    if comma and not kind.endswith("[]"):
        wrong = f"contains({text}, '_') OR contains({text}, '.')"
        return f"CASE WHEN {wrong} THEN NULL ELSE TRY_CAST(replace(trim({text}), ',', '.') AS {kind}) END"
    return f"CASE WHEN contains({text}, '_') THEN NULL ELSE TRY_CAST(trim({text}) AS {kind}) END"


def period(sql: str, *, spark: bool = False) -> str:
    """Return the SQL of an expression: ``month(date)`` is the month of its year, 2026-11, and week(date) 2026-W47."""
    match = _PERIOD.fullmatch(sql)
    if match is None:
        return sql
    depths = itertools.accumulate({"(": 1, ")": -1}.get(sign, 0) for sign in QUOTED.sub("", match["of"]))
    if min(depths, default=0) < 0:  # a bracket closes that was opened before: ``a) + month(b`` is a part of two calls
        return sql
    unit, of = match["unit"].lower(), match["of"]
    if not spark:
        # A cast of a text to a time without a zone would drop the zone that is in it.
        return f"strftime(CAST(CAST({of} AS TIMESTAMPTZ) AS TIMESTAMP), {literal(_PERIODS[unit])})"
    if unit == "month":
        return f"date_format({of}, 'yyyy-MM')"
    return f"concat(extract(YEAROFWEEK FROM {of}), '-W', lpad(weekofyear({of}), 2, '0'))"


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


def joined_conditions(where: str | None, condition: str) -> str:
    """Return a condition joined to the one that is in force, if there is one."""
    return condition if where is None else f"({where}) AND {condition}"


def where_option(condition: str, where: str | None = None) -> str:
    """Return a ``--where`` to type on a command line, joined to the condition that is in force."""
    return sql_option("--where", joined_conditions(where, condition))


def sql_option(option: str, sql: str) -> str:
    """Return an option with SQL to type on a command line."""
    if re.search(r'["$`\\!]', sql):
        return f"{option} '" + sql.replace("'", "'\\''") + "'"
    return f'{option} "{sql}"'


#: How texts write dates that are not ISO dates; a time may follow.
_FORMS_OF_DATES: Final = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d-%b-%Y"),
    *("%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %Y", "%B %Y", "%b-%y", "%m/%Y", "%Y-%m"),
)
_FORMS_OF_TIMES: Final = ("", " %H:%M", " %H:%M:%S")
#: What numbers are that count days or seconds, as SQL, with the least and the largest of the years 1980 to 2100.
_COUNTED_TIMES: Final = {
    "DATE '1899-12-30' + CAST({} AS INTEGER)": (29_221, 73_050),  # the days of Excel
    "to_timestamp({})": (315_532_800, 4_102_444_800),
    "to_timestamp({} / 1000)": (315_532_800_000, 4_102_444_800_000),
}


def dates_in(name: str, cells: Sequence[Any]) -> list[str]:
    """Return the SQL that reads the cells of a column as dates, in each form that all of them have."""
    texts, column = [str(cell) for cell in cells], sql_name(name)
    if not texts:
        return []
    as_text = f"CAST({column} AS VARCHAR)" if all(map(str.isdecimal, texts)) else column  # SQL reads no numbers as text
    forms = map("".join, itertools.product(_FORMS_OF_DATES, _FORMS_OF_TIMES))
    found = [f"CAST({column} AS DATE)"] if _are_dates([text[:10] for text in texts], "%Y-%m-%d") else []
    found += [f"strptime({as_text}, {literal(form)})" for form in forms if _are_dates(texts, form)]
    with suppress(ValueError):
        numbers = list(map(float, texts))
        for sql, (least, largest) in _COUNTED_TIMES.items():
            if all(least <= number <= largest for number in numbers):
                found.append(sql.format(column))
    return found


def _are_dates(texts: Sequence[str], form: str) -> bool:
    try:
        return all(datetime.strptime(text, form) for text in texts)
    except ValueError:
        return False


# ---------------------------------------------------------------- SQL of a user's own

# One expression over a row, of the nodes, functions and types that are listed here. The engine's own parser reads the
# SQL, and its tree is walked before anything runs. What is listed takes time and memory in proportion to the row, gives
# the same value whenever and wherever it runs, and reads nothing but the row.

Node = dict[str, Any]

_NODES: Final = frozenset(
    ("BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE")
)
_OPERATORS: Final = frozenset(
    all_of("""
    OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF OPERATOR_TRY COMPARE_IN
    COMPARE_NOT_IN ARRAY_EXTRACT ARRAY_SLICE STRUCT_EXTRACT
    """)
)

#: The functions that may be used, by what they are about; a service may show them.
FUNCTIONS: Final = {
    "comparisons": "= == != <> < <= > >= ~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape "
    "greatest least coalesce ifnull nullif if isnan isinf isfinite",
    "arithmetic": "+ - * / // % ^ ** & | << >> ~ xor @ abs sign round floor ceil ceiling trunc mod fmod sqrt cbrt exp "
    "ln log log2 log10 pow power pi sin cos tan asin acos atan atan2 degrees radians",
    "texts": "|| concat concat_ws lower lcase upper ucase trim ltrim rtrim left right substr substring reverse replace "
    "translate split_part strip_accents length len char_length character_length strlen octet_length ascii ord unicode "
    "chr md5 sha256 starts_with ^@ prefix ends_with suffix contains position strpos instr regexp_matches "
    "regexp_full_match regexp_extract regexp_replace",
    "dates and times": "year isoyear quarter month monthname week weekofyear yearweek day dayofmonth dayname dayofweek "
    "weekday isodow dayofyear hour minute second millisecond microsecond decade century era julian last_day date_part "
    "datepart date_trunc datetrunc date_diff datediff date_sub datesub date_add age strftime strptime try_strptime "
    "make_date make_time make_timestamp make_timestamptz epoch epoch_ms epoch_us epoch_ns to_timestamp time_bucket "
    "timezone to_years to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds "
    "to_microseconds",
    "lists, structs and JSON": "array_extract list_extract list_element array_length list_contains list_has "
    "list_position list_max list_min list_sum list_avg struct_extract ->> json_extract json_extract_string "
    "json_array_length json_type",
}
_FUNCTIONS: Final = frozenset(" ".join(FUNCTIONS.values()).split())

#: What a value may be cast to: of these none is longer than about twice its text.
_TYPES: Final = frozenset(
    re.findall(
        r"[^,\s](?:[^,\n]*[^,\s])?",
        """
        BOOL, BOOLEAN, TINYINT, SMALLINT, INT, INTEGER, BIGINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, UBIGINT
        UHUGEINT, INT1, INT2, INT4, INT8, SHORT, LONG, SIGNED, FLOAT, FLOAT4, FLOAT8, REAL, DOUBLE
        DOUBLE PRECISION, DECIMAL, NUMERIC, VARCHAR, CHARACTER VARYING, CHAR, TEXT, STRING, UUID, DATE, TIME
        TIMESTAMP, DATETIME, TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP_US, TIMESTAMP_NS, TIMESTAMPTZ
        TIMESTAMP WITH TIME ZONE, INTERVAL
        """,
    )
)

_MADE_BEFORE: Final = "compute this value as a column before you write the file"
_OF_NODES: Final = {
    "SUBQUERY": ("a subquery is not allowed", "write an expression that uses only values of the same row"),
    "WINDOW": ("a window function is not allowed, because it reads other rows", _MADE_BEFORE),
    "LAMBDA": ("a lambda is not allowed", _MADE_BEFORE),
    "PARAMETER": ("a parameter ($1, ?) is not allowed", "write the value instead of the parameter"),
    "POSITIONAL_REFERENCE": ("a column position (# and a number) is not allowed", "write the name of the column"),
    "STAR": ("* and COLUMNS(...) are not allowed", "write the names of the columns"),
    "COLLATE": ("COLLATE is not allowed", "compare texts after lower(...) or strip_accents(...)"),
}

#: Functions, also without brackets, whose value depends on more than the row.
_VOLATILE: Final = frozenset(
    all_of("""
    random setseed uuid uuidv4 uuidv7 gen_random_uuid now today current_date current_time current_timestamp
    localtime localtimestamp current_localtime current_localtimestamp get_current_time get_current_timestamp
    transaction_timestamp nextval currval setval getenv getvariable current_setting
    current_user user session_user current_catalog current_database current_schema current_schemas
    current_query version txid_current
    """)
)

#: How often one expression may join texts, each as long as the row or as a text in quotes; and bytes of the latter.
_JOINS: Final = ("||", "concat", "concat_ws")
_MOST_JOINED: Final = 20
_LONGEST_CONSTANT: Final = 1_000
_LONGEST_FORMAT: Final = 100

#: Parts of dates that come back each year, and what tells the years apart; letters of strftime alike.
_OF_A_YEAR: Final = frozenset(
    ("quarter", "month", "monthname", "week", "weekofyear", "day", "dayofmonth", "dayofyear", "doy")
)
_YEARS: Final = frozenset(("year", "isoyear", "yearweek", "decade", "date_trunc", "datetrunc", "epoch"))
_PARTS: Final = ("date_part", "datepart")
_LETTERS_OF_A_YEAR, _LETTERS_OF_YEARS = re.compile("%-?[mbBUVWjd]"), re.compile("%-?[yYGcxs]")

_CONTAINERS: Final = ("list_value", "struct_pack", "row", "map")


def parse_expression(connection: Any, sql: str) -> Node | None:
    """Return the tree of SQL that is exactly one expression; None if it is nested too deeply to be walked.

    It raises `ValueError` for what the engine cannot parse.
    """
    (text,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {bracketed(sql)}"]).fetchone()
    try:
        answer = json.loads(text)
    except RecursionError:
        return None
    if answer["error"]:
        raise ValueError(answer["error_message"])
    (expression,) = answer["statements"][0]["node"]["select_list"]
    tree: Node = expression
    return tree


def nodes(tree: Node) -> Iterator[Node]:
    """Yield every node of a tree."""
    waiting: list[Any] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "class" in item:
                yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def columns_of(tree: Node) -> list[str]:
    """Return the columns that an expression names, those of structs with their paths."""
    return [".".join(node["column_names"]) for node in nodes(tree) if node["class"] == "COLUMN_REF"]


def year_of(tree: Node, sql: str) -> str | None:
    """Return the SQL of the year of a date if an expression takes a part without it, such as the quarter."""
    date = None
    for node in nodes(tree):
        if node["class"] != "FUNCTION":
            continue
        name, arguments = node["function_name"].lower(), _arguments(node)
        texts = [_constant(argument) or "" for argument in arguments]
        part = texts[0].lower() if name in _PARTS else name
        words = "".join(texts) if name == "strftime" else ""
        if part in _YEARS or _LETTERS_OF_YEARS.search(words):
            return None
        if part in _OF_A_YEAR or _LETTERS_OF_A_YEAR.search(words):
            date = date or next((each for each in arguments if each["class"] != "CONSTANT"), None)
    if date is None:
        return None
    start, length = date["query_location"] - len("SELECT (\n"), date["query_location_length"]
    return f"year({sql.encode()[start : start + length].decode()})"


def makes_several(tree: Node) -> bool:
    """Whether an expression is a list or a struct, not one value."""
    is_function = tree["class"] == "FUNCTION"
    return tree["function_name"].lower() in _CONTAINERS if is_function else tree.get("type") == "ARRAY_CONSTRUCTOR"


def refusal(tree: Node, columns: Sequence[str], connection: Any) -> tuple[str, str] | None:
    """Return what is not allowed in an expression and what to do instead; None for one that may run."""
    joined, names = 0, {name.lower() for name in columns}
    for node in nodes(tree):
        if (refused := _refused_node(node, names, connection)) is not None:
            return refused
        if node["class"] == "FUNCTION" and node["function_name"].lower() in _JOINS:
            joined += len(_arguments(node)) - 1
    if joined > _MOST_JOINED:
        return f"an expression that concatenates texts more than {_MOST_JOINED} times is not allowed", _MADE_BEFORE
    return None


def _refused_node(node: Node, names: Collection[str], connection: Any) -> tuple[str, str] | None:
    """Return why one node is not allowed, and what to do instead; ``names`` are those of columns in lower case."""
    match node["class"]:
        case kind if kind not in _NODES:
            return _OF_NODES.get(kind, (f"{kind.lower()} is not allowed", _MADE_BEFORE))
        case "OPERATOR" if node["type"] not in _OPERATORS:
            return f"{node['type'].lower().replace('_', ' ')} is not allowed", _MADE_BEFORE
        case "CAST" if (unlisted := _unlisted_type(node)) is not None:
            return f"a cast to {unlisted} is not allowed", "cast to a number, a text, a date or a time"
        case "COLUMN_REF":
            name = ".".join(node["column_names"]).lower()
            return _of_function(name, connection) if name in _VOLATILE and name not in names else None
        case "CONSTANT" if len((_constant(node) or "").encode()) > _LONGEST_CONSTANT:
            return f"a text of more than {_LONGEST_CONSTANT:,} bytes is not allowed", _MADE_BEFORE
        case "FUNCTION":
            name = node["function_name"].lower()
            if node.get("schema") or node.get("catalog"):
                return f"{node['schema']}.{name}(...) is not allowed", f"write {name}(...) with all its arguments"
            listed = name in _FUNCTIONS
            return _wrong_arguments(name, _arguments(node)) if listed else _of_function(name, connection)
    return None


def _of_function(name: str, connection: Any) -> tuple[str, str]:
    """Say why a function is not allowed."""
    if name in _VOLATILE:
        return f"{name} is not allowed, because its result may differ from run to run", "write a fixed value"
    kinds = "SELECT DISTINCT function_type FROM duckdb_functions() WHERE lower(function_name) = ?"
    kinds_of_function = {kind for (kind,) in connection.execute(kinds, [name]).fetchall()}
    if not kinds_of_function:
        return f"there is no function {name}", nearest(name, sorted(_FUNCTIONS))
    if "aggregate" in kinds_of_function:
        return f"{name.removesuffix('_star')} is not allowed, because aggregates combine many rows", _MADE_BEFORE
    return f"the function {name} is not allowed; docs/service.md lists the allowed functions", _MADE_BEFORE


def _wrong_arguments(name: str, arguments: list[Node]) -> tuple[str, str] | None:
    """Return what makes the arguments of a function unbounded, or its value one of today."""
    texts = [_constant(argument) for argument in arguments]
    match name, texts:
        case "replace", [_, str(old), str(new)] if len(new.encode()) <= len(old.encode()):
            return None
        case "replace", [_, _, _]:
            problem = "replace(text, old, new) takes two texts in quotes, and new may not be longer than old"
            return problem, _MADE_BEFORE
        case "regexp_replace", [_, _, str(new), *_] if re.fullmatch(r"\\[0-9]|", new):
            return None
        case "regexp_replace", _:
            return r"regexp_replace takes '' or a group such as '\1' as its third argument", _MADE_BEFORE
        case "strftime", _ if not any(text is not None and len(text) <= _LONGEST_FORMAT for text in texts):
            problem = f"strftime takes its format as a text in quotes of up to {_LONGEST_FORMAT} characters"
            return problem, "write an expression such as strftime(date, '%Y-%m')"
        case "->>" | "json_extract" | "json_extract_string", [_, str(path), *_] if "*" not in path:
            return None
        case "->>" | "json_extract" | "json_extract_string", _:
            return f"{name} takes one path as a text in quotes, without *", "name one key"
        case "age", _ if len(arguments) != 2:
            return "age needs two dates, because age(date) depends on the current date", "write age(later, earlier)"
    return None


def _arguments(node: Node) -> list[Node]:
    """Return the arguments of a function: DuckDB 1 calls them children."""
    return [each.get("expression", each) for each in node.get("arguments") or node.get("children") or []]


def _constant(node: Node) -> str | None:
    """Return the text of a constant, None for anything else: DuckDB 1 has a value, 2 a literal."""
    if node["class"] != "CONSTANT":
        return None
    value = node["literal"].get("text") if "literal" in node else node["value"].get("value")
    return value if isinstance(value, str) else None


def _unlisted_type(cast: Node) -> str | None:
    """Return the name of the type of a cast that is not listed."""
    kind = cast.get("type_expr") or cast.get("cast_type") or {}
    name = str(kind.get("type_name") or kind.get("id")).upper()
    is_plain = name in _TYPES and not any(
        node["class"] == "TYPE" for each in kind.get("children") or [] for node in nodes(each)
    )
    return None if is_plain else name
