"""The command's answers to wrong usage, the layout of its help, and its options from a file."""

from __future__ import annotations

import difflib
import enum
import glob
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource, iter_params_for_processing

from calibrant.cli import console
from calibrant.errors import FileError, nearest, quoted
from calibrant.render.words import short
from calibrant.runtime.dataclass import dataclass

#: The key of the typed words in a context's ``meta``.
TYPED: Final = "calibrant.typed"

#: The key of the errors of single options in a context's ``meta``: the checks of the command raise them with theirs.
FAULTS: Final = "calibrant.faults"

#: The key of the files of options that were read in a context's ``meta``; errors call these files so too.
CONFIGURED_BY: Final = "the file of options"

#: The sections of a command's help, each with the names of its options.
SECTIONS: Final = {
    title: names.split()
    for title, names in {
        "Common options": "scores score outcome probs target by clusters where on own_outcomes sort_by logits "
        "html_path json_path tolerance gate profile method map_path anyway max_risk yes_risk no_risk confidence",
        "Columns": "targets_file weight weights_are by_values baseline paired percent decimal_comma labels class_names",
        "Evaluation": "notion classwise n_bins measures ignore_index timezone level n_resamples rng bands tolerance_of "
        "conditions certified_by largest_cluster max_weight per_class cost_of_error cost_of_referral",
        "Output": "all_measures quiet title date open_page markdown_path png_path svg_path sketch_path sql_path "
        "onnx_path",
        "Many rows and files": "exact keep_going engine master",
        "Options from a file": "config no_config",
    }.items()
}

_MANY: Final = 10  # a command with so many options needs sections

#: The names of options in other programs.
_ELSEWHERE: Final = {
    "--seed": "--rng",
    "--group": "--by",
    "--clusters": "--cluster",
    "--id": "--cluster",
    "--groups": "--by",
    "--filter": "--where",
    "--confidence": "--level",
    "--output": "--json",
    "--out": "--json",
    "--bootstrap": "--n-resamples",
}


class Command(click.Command):
    """A command that proposes an option for a misspelt one, and has sections in its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and propose an option for an unknown one; errors of several options are raised together."""
        typed = list(args)
        try:
            if any(param.name == "config" for param in self.params) and not ctx.resilient_parsing:
                return self._parse_with_file(ctx, args)
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ctx.ignore_unknown_options = True
            faults = [self._unknown(ctx, error.option_name, typed)]
        except click.BadParameter as error:
            faults = [error]
        ctx.meta[FAULTS] = self._faults(ctx, typed, faults)
        return []

    def _faults(self, ctx: click.Context, typed: list[str], faults: list[click.UsageError]) -> list[click.UsageError]:
        """Return the errors of all options of a command line after the first; the options have their defaults then."""
        try:
            values, _, order = self.make_parser(ctx).parse_args(list(typed))
        except click.UsageError as error:
            return [*faults, error]
        params = self.get_params(ctx)
        for param in iter_params_for_processing(order, params):
            name = param.name or ""
            if name == "config":  # its value is what came from the file, once that is read
                ctx.params.setdefault("config", None)
                continue
            words = values.get(name)
            if ctx.ignore_unknown_options and isinstance(param, click.Argument) and isinstance(words, tuple):
                unknown = [word for word in words if word.startswith("-") and word in typed and word != "-"]
                faults += [self._unknown(ctx, word, typed) for word in unknown]
                values[name] = tuple(word for word in words if word not in unknown)
            faults += self._faults_of(ctx, param, values)
        # click marks what is missing by a value of its own until it has parsed all.
        for param in params:
            if param.expose_value and param.name and isinstance(ctx.params.get(param.name), enum.Enum):
                ctx.params[param.name] = None
        return faults

    def _faults_of(
        self, ctx: click.Context, param: click.Parameter, values: Mapping[str, Any]
    ) -> list[click.UsageError]:
        """Return the errors of an option, of each of its values if it is repeated; it has its default then."""
        try:
            param.handle_parse_result(ctx, values, [])
        except click.BadParameter as error:
            name = param.name or ""
            words = values.get(name) or () if param.multiple else ()
            singles = [{name: (word,)} for word in words] if len(words) > 1 else []
            faults = [fault for single in singles for fault in self._faults_of(ctx, param, single)]
            if param.expose_value and name:
                ctx.params[name] = param.get_default(ctx) if param.nargs == 1 and not param.multiple else ()
            return faults or [error]
        return []

    def _unknown(self, ctx: click.Context, name: str, typed: list[str]) -> click.UsageError:
        """Return the error of an unknown option, with a proposal."""
        options = [option for param in self.params for option in param.opts if option.startswith("--")]
        # click takes -score for -s, -c and so on.
        if not name.startswith("--"):
            name = next((word for word in typed if word.startswith(name)), name)
        matches = _meant(name, options)
        if matches == ["--json"] and _value_of(name, typed).lower().endswith((".html", ".htm")):
            matches = ["--html"]
        meant = " or ".join(map(repr, matches))
        hint = f"did you mean {meant}?" if meant else f"'{ctx.command_path} --help' lists them"
        return click.UsageError(f"No such option {quoted(name.partition('=')[0])}; {hint}", ctx)

    def _parse_with_file(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the options of a file as the defaults."""
        words, _, _ = self.make_parser(ctx).parse_args(list(args))
        helping = self.get_help_option(ctx)
        path = None if helping is not None and words.get(helping.name) else configure(ctx, words)
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadParameter):
            raise  # `invoke` names the file
        except click.UsageError as error:
            raise _blamed(error, configured(ctx, path)) from None
        finally:
            ctx.params["config"] = configured(ctx, path)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of usage names the file that an option came from."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _blamed(error, ctx.params.get("config")) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; all explanations are in one column."""
        of_section: dict[str, list[tuple[str, str]]] = {}
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if len(options) < _MANY:
            super().format_options(ctx, formatter)
            return
        for param in options:
            record = param.get_help_record(ctx)
            section = next((title for title, names in SECTIONS.items() if param.name in names), "Others")
            if record is not None:
                head = re.sub(r"(--\S+), --\S+", r"\1", record[0])  # the first of two names keeps the column narrow
                if param.secondary_opts:
                    no = param.secondary_opts[0]
                    head = f"--[no-]{param.opts[0][2:]}" if no.startswith("--no-") else f"{param.opts[0]}/{no}"
                of_section.setdefault(section, []).append((head, record[1]))
        width = min(max(len(head) for records in of_section.values() for head, _ in records), 30)
        for title in (*SECTIONS, "Others"):
            if title in of_section:
                with formatter.section(title):
                    formatter.write_dl([(head.ljust(width), words) for head, words in of_section[title]])


class Commands(click.Group):
    """The commands; it recognises a file in place of a command, and a misspelt command."""

    command_class = Command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the typed command and exit with its status; without ``args``, this process is the command."""
        if args is None:
            console.prepare()

        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        sys.exit(console.status_of(run))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the commands in the order of their use."""
        return [*self.commands]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Remember the typed words, for errors that say what to type."""
        typed = list(args)
        with console.losing():  # the help and the version are written here
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[TYPED] = typed
        return ctx

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and name the command of an option that stands before it."""
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            owners = [
                command.name or ""
                for command in self.commands.values()
                if any(name in param.opts for param in command.params)
            ]
            if owners:
                owner = "report" if "report" in owners else owners[0]
                remedy = f"did you mean: calibrant {owner} {shlex.join(typed)}?"
                msg = f"Option {quoted(name)} belongs to a command; {remedy}"
                raise click.UsageError(msg, ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it with exit status 130 and no traceback."""
        try:
            with console.losing():  # files have errors of their own, see `calibrant.cli.errors`
                return super().invoke(ctx)
        except KeyboardInterrupt:
            console.say("interrupted")
            sys.exit(console.INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or propose one."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            hint = f"did you mean: calibrant report {shlex.join(args)}?"
            if not _looks_like_file(args[0]):
                hint = nearest(args[0], self.list_commands(ctx))
            msg = f"No such command {quoted(args[0])}; {hint}"
            raise click.UsageError(msg, ctx)
        return super().resolve_command(ctx, args)


class Count(click.IntRange):
    """A number of things. Errors call it "integer", not "integer range" as click does."""

    name = "integer"

    def get_missing_message(self, param: click.Parameter, *_: Any, **__: Any) -> str:
        """Return what to pass."""
        return f"Pass a number, such as {param.opts[0]} 500."


class Wanted(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """Any text; if it is missing, the error says what to pass."""

    name = "text"

    def __init__(self, words: str) -> None:
        self.words = words

    def get_missing_message(self, *_: Any, **__: Any) -> str:
        """Return what to pass."""
        return self.words


def _blamed(error: click.UsageError, source: Configured | None) -> click.UsageError:
    """Return the error, which says which of the options it names came from a file."""
    text = error.format_message()
    options = [] if source is None else [f"--{name}" for name in source.options]
    named = [option for option in options if re.search(rf"{re.escape(option)}(?![\w-])", text)]
    if source is not None and named:
        verb, them = ("comes", "it") if len(named) == 1 else ("come", "them")
        origin = f" ({', '.join(named)} {verb} from {source.path}; --no-config leaves {them} out)"
        vars(error).update(message=error.message + origin)
    return error


def command_line(ctx: click.Context, options: Sequence[str], without: Sequence[str] = ()) -> str:
    """Return the typed command with some options added or changed, and without others; a value follows each option."""
    params = {name: param for param in ctx.command.params for name in param.opts}
    changed = {params[name] for name in (*options, *without) if name in params}
    words, skip = ["calibrant"], False
    for word in ctx.meta.get(TYPED, ()):
        option = params.get(word.partition("=")[0]) if word.startswith("--") else None
        if skip or (option is not None and option in changed):
            skip = not skip and "=" not in word
            continue
        words.append(word)
    return " ".join(map(shell_word, [*words, *options]))


def shell_word(text: str) -> str:
    """Return a word of a command as a shell takes it; one with single quotes stands in double quotes."""
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def _meant(name: str, options: Sequence[str]) -> list[str]:
    """Return up to three options that a wrong one may stand for."""
    word = f"--{name.lstrip('-').partition('=')[0].replace('_', '-').lower()}"
    exact = [option for option in options if option in (word, _ELSEWHERE.get(word))]
    begins = [option for option in options if option.startswith(word) or word.startswith(option)]
    return (exact or begins or difflib.get_close_matches(word, options, n=1, cutoff=0.7))[:3]


def _value_of(name: str, typed: Sequence[str]) -> str:
    """Return the value typed after a wrong option; empty if the option is not found."""
    for word, following in zip(typed, (*typed[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option == name.partition("=")[0]:
            return value if equals else following
    return ""


def _looks_like_file(name: str) -> bool:
    from calibrant.files.paths import ending_of

    return os.path.exists(name) or glob.has_magic(name) or bool(ending_of(name))


# ---------------------------------------------------------------- options from a file

# ``calibrant.toml``, or ``[tool.calibrant]`` in ``pyproject.toml``. The file may come with a repository that somebody
# else made. So it cannot name files to write, to read or hosts to connect to, and the command says which options came
# from it.

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
            raise click.UsageError(
                "--config names a file of options, but --no-config excludes it; pass only one of the two options",
                ctx,
            )
        return None
    for file in (_File(ctx, name) for name in (_candidates() if path is None else [path])):
        table = file.table()
        if table is not None:
            break
        if path is not None:
            raise file.error("has no table [tool.calibrant]; add the table, or name another file")
    else:
        return None
    ctx.meta[CONFIGURED_BY] = [file.path]
    values = file.values(table)
    expressions = {name: name for name in _COLUMN_OR_SQL if re.search(r"\W", str(values.get(name, "")))}
    for name, option in (_SQL | expressions).items():
        if name in values and name not in typed and typed.get("engine") == "spark":
            raise file.error(
                option, "calibrant does not restrict Spark SQL, so type this option yourself, or pass --no-config"
            )
    ctx.default_map = values
    return file.path


def configured(ctx: click.Context, path: str | None) -> Configured | None:
    """Return which options of a parsed command came from the file; None if none did."""
    names = {param.name or "": _names(param)[0] for param in ctx.command.params if isinstance(param, click.Option)}
    used = [name for key, name in names.items() if ctx.get_parameter_source(key) is ParameterSource.DEFAULT_MAP]
    return Configured(path, tuple(used)) if path is not None and used else None


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
            from calibrant.results.envelope import read_bytes

            data = read_bytes(self.path, "", _LARGEST)
            if is_project and b"calibrant" not in data:
                return None
            import tomllib

            table: _Table = tomllib.loads(data.decode())
        except FileError as error:
            msg = f"{error.problem}; check the path, or pass --no-config"
            raise self.error(msg) from None
        except (ValueError, RecursionError) as error:
            problem = (
                f"expected TOML, got invalid TOML ({short(str(error), 200)}); correct the file, or pass --no-config"
            )
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
                problem = f"expected the name of a command, got another name; {nearest(key, options)}"
                raise self.error("[" + short(key) + "]", problem)
            owners = [options[str(ctx.command.name)], *options.values()]
            name, checked = self._checked(key, value, owners)
            if name in {option.name for option in owners[0].values()}:
                self._set(shared, name, checked)
        return {**shared, **of_command}

    def _set(self, values: dict[str, Any], name: str, value: Any) -> None:
        if name in values:
            problem = "expected one value, got two, perhaps in two spellings of the option; remove one of them"
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
            raise self.error(key, f"expected {words}, got {short(repr(value))}; correct the file, or pass --no-config")
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
            problem = "this option is allowed only on the command line; remove it from the file"
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
