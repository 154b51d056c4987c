"""Options from a file: ``calibrant.toml``, or ``[tool.calibrant]`` in ``pyproject.toml``.

The file may come with a repository that somebody else made. So it cannot name files to write, to read or hosts to
connect to, and the command says which options came from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from calibrant.errors import nearest, quoted
from calibrant.render.style import short

NAME: Final = "calibrant.toml"
_PROJECT: Final = "pyproject.toml"
_LARGEST: Final = 1_000_000  # bytes

#: Values that are files or hosts: only the command line names them, starts an engine, and opens a page.
_PLACES: Final = ("PATH", "FILE", "URL")
_TYPED_ONLY: Final = ("open_page", "engine", "no_config")

#: Options that take SQL. DuckDB runs it behind locks; Spark has none, and could run programs.
_SQL: Final = {"where": "where", "by": "by", "clusters": "cluster"}
_COLUMN_OR_SQL: Final = ("score", "outcome")

#: Options whose value is a list with commas: the file may have an array instead.
_LISTS: Final = ("scores", "measures", "labels", "class_names")

#: The types of values by the names of click's types, and their words.
_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "float": ((float, int), "a number"),
}
_TEXT: Final = ((str,), "a text in quotes")

_Table = Mapping[str, Any]


@dataclass(frozen=True)
class Configured:
    """A file of options, and the options of this run that came from it, by their long names."""

    path: str
    options: tuple[str, ...]

    def __str__(self) -> str:
        return f"options from {self.path}: {', '.join(self.options)}"


def configure(ctx: click.Context, typed: Mapping[str, Any]) -> str | None:
    """Make the file's options the defaults of a command, and return the file's path; None without a file.

    Parameters
    ----------
    ctx
        The context of the command.
    typed
        What the command line says: ``config`` and ``no_config`` choose the file.

    Raises
    ------
    click.UsageError
        For a file that cannot be read, for an unknown option, and for a value of another type.
    """
    path = typed.get("config")
    if typed.get("no_config"):
        if path:
            raise click.UsageError("--config names a file of options, --no-config wants none; pass one of the two", ctx)
        return None
    for file in (_File(ctx, name) for name in (_candidates() if path is None else [path])):
        table = file.table()
        if table is not None:
            break
        if path is not None:
            raise file.error("has no table [tool.calibrant]; add it, or name another file")
    else:
        return None
    values = file.values(table)
    expressions = {name: name for name in _COLUMN_OR_SQL if re.search(r"\W", str(values.get(name, "")))}
    for name, option in (_SQL | expressions).items():
        if name in values and name not in typed and typed.get("engine") == "spark":
            raise file.error(option, "Spark runs SQL without locks; type this option, or pass --no-config")
    ctx.default_map = values
    return file.path


def configured(ctx: click.Context, path: str | None) -> Configured | None:
    """Return which options of a parsed command came from the file; None if none did."""
    names = {param.name or "": _names(param)[0] for param in ctx.command.params if isinstance(param, click.Option)}
    used = [name for key, name in names.items() if ctx.get_parameter_source(key) is ParameterSource.DEFAULT_MAP]
    return Configured(path, tuple(used)) if path is not None and used else None


# ---------------------------------------------------------------- the file


def _candidates() -> list[str]:
    """Return the files that may hold options, the nearest first.

    They lie in the working directory or above it, up to the root of its repository, or up to the user's folder.
    Outside of both only the working directory counts: anybody may write to a folder above it such as ``/tmp``.
    """
    try:
        folder = Path.cwd()
    except OSError:  # it was removed
        return []
    places = [str(place) for place in (folder, *folder.parents)]
    roots = [place for place in places if os.path.lexists(os.path.join(place, ".git"))]
    roots += [place for place in places if place == os.path.expanduser("~")]
    within = places[: places.index(roots[0]) + 1] if roots else places[:1]
    paths = [os.path.join(place, name) for place in ("", *within[1:]) for name in (NAME, _PROJECT)]
    return [path for path in paths if os.path.isfile(path)]


@dataclass(frozen=True)
class _File:
    """A file that may hold options, read for the command of a context."""

    ctx: click.Context
    path: str

    def error(self, *parts: str) -> click.UsageError:
        """Return an error: the key of an option, if it is about one, what is wrong, and the remedy."""
        return click.UsageError(": ".join((self.path, *parts)), self.ctx)

    def table(self) -> _Table | None:
        """Return the table of options; None if it is a project's file without one."""
        is_project = os.path.basename(self.path) == _PROJECT
        try:
            with open(self.path, "rb") as stream:
                data = stream.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                problem = f"expected at most {_LARGEST:,} bytes of options, got more; name another file"
                raise self.error(problem)
            if is_project and b"calibrant" not in data:
                return None
            import tomllib

            table: _Table = tomllib.loads(data.decode())
        except OSError as error:
            problem = f"cannot be read ({error.strerror or error}); check the path, or pass --no-config"
            raise self.error(problem) from None
        except (ValueError, RecursionError) as error:
            problem = f"expected TOML, got what is not ({short(str(error), 200)}); correct it, or pass --no-config"
            raise self.error(problem) from None
        if not is_project:
            return table
        tool = table.get("tool")
        part = tool.get("calibrant") if isinstance(tool, dict) else None
        if not isinstance(part, dict | None):
            raise self.error("tool.calibrant", f"expected a table, got {short(repr(part))}; correct it")
        return part

    def values(self, table: _Table) -> dict[str, Any]:
        """Return the values of a command's options by click's names; the whole file is checked."""
        ctx = self.ctx
        group = ctx.parent.command if ctx.parent is not None else None
        commands = group.commands if isinstance(group, click.Group) else {str(ctx.command.name): ctx.command}
        options = {name: _options(command) for name, command in commands.items() if "config" in _options(command)}
        shared: dict[str, Any] = {}
        of_command: dict[str, Any] = {}
        for key, value in table.items():
            if key in options and isinstance(value, dict):
                for inner, part in value.items():
                    name, checked = self._checked(f"{key}.{inner}", part, [options[key]])
                    if key == ctx.command.name:
                        self._set(of_command, name, checked)
                continue
            if isinstance(value, dict) and key.replace("_", "-") not in _options(ctx.command):
                problem = f"expected the name of a command, got another; {nearest(key, options)}"
                raise self.error("[" + short(key) + "]", problem)
            owners = [options[str(ctx.command.name)], *options.values()]
            name, checked = self._checked(key, value, owners)
            if name in {option.name for option in owners[0].values()}:
                self._set(shared, name, checked)
        return {**shared, **of_command}

    def _set(self, values: dict[str, Any], name: str, value: Any) -> None:
        if name in values:
            problem = "expected one value, got two; remove one, also if it has another spelling"
            raise self.error(name.replace("_", "-"), problem)
        values[name] = value

    def _checked(self, key: str, value: Any, owners: list[dict[str, click.Option]]) -> tuple[str, Any]:
        """Return click's name of an option of a file, and its value, checked."""
        option = self._option_of(key, owners)
        types, words = _TYPES.get(option.type.name, _TEXT)
        parts = value if isinstance(value, list) and (option.multiple or option.name in _LISTS) else [value]
        if option.multiple:
            words = f"{words}, or an array of them"
        elif option.name in _LISTS:
            words = f"{words}, or an array of them without commas"
        commas = parts is value and not option.multiple and any("," in str(part) for part in parts)
        if commas or any(type(part) not in types for part in parts):
            raise self.error(key, f"expected {words}, got {short(repr(value))}; correct it, or pass --no-config")
        if option.name in _LISTS:
            return str(option.name), ",".join(parts)
        return str(option.name), parts if option.multiple else value

    def _option_of(self, key: str, owners: list[dict[str, click.Option]]) -> click.Option:
        """Return the option that a key of a file names, if a file may name it."""
        written = key.rpartition(".")[2].replace("_", "-")
        option = next((options[written] for options in owners if written in options), None)
        if option is None:
            names = dict.fromkeys(name for options in owners for name, option in options.items() if _may_stand(option))
            problem = f"expected the name of an option, got {quoted(short(written))}; {nearest(written, names)}"
            raise self.error(key, problem)
        if not _may_stand(option):
            problem = "only the command line names files, hosts and engines, and opens pages; remove it here"
            raise self.error(key, problem)
        return option


def _may_stand(option: click.Option) -> bool:
    return option.metavar not in _PLACES and option.name not in _TYPED_ONLY


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {name: option for option in options for name in _names(option)}


def _names(option: click.Option) -> list[str]:
    return [name[2:] for name in option.opts if name.startswith("--")]
