"""The command's answers to wrong usage, the layout of its help, and its options from a file."""

from __future__ import annotations

import difflib
import glob
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from calibrant.cli import console
from calibrant.cli.parameters import Checked, FileName, Listed
from calibrant.errors import FileError, nearest, quoted
from calibrant.render.words import short
from calibrant.runtime.dataclass import dataclass

#: The key of the typed words in a context's ``meta``.
TYPED: Final = "calibrant.typed"

#: The key of the errors of single options in a context's ``meta``: the checks of the command raise them with theirs.
FAULTS: Final = "calibrant.faults"

#: The key of the path of the file of options in a context's ``meta``; errors call the file so too.
CONFIGURED_BY: Final = "the file of options"

#: The sections of a command's help, each with the names of its options. The first has those declared as common.
SECTIONS: Final = {
    title: names.split()
    for title, names in {
        "Common options": "",
        "Columns": "targets_file weight weights_are by_values baseline paired own_outcomes percent decimal_comma odds "
        "events trials encoding sheet header_line labels class_names",
        "Evaluation": "notion classwise ordered marginal n_bins measures ignore_index timezone level n_resamples rng "
        "bands tolerance_of conditions certified_by largest_cluster max_weight per_class cost_of_error "
        "cost_of_referral thresholds cost_of_false_positive cost_of_false_negative",
        "Decision models": "question truth_path truth_on yes stated each gates_path",
        "Output": "all_measures quiet title date open_page markdown_path png_path svg_path pdf_path dpi "
        "sketch_path sql_path onnx_path",
        "Many rows and files": "exact keep_going engine master",
        "Options from a file": "config no_config",
    }.items()
}

_MANY: Final = 10  # a command with so many options needs sections

#: The key in a context's ``meta`` that says that the help lists all options.
_ALL: Final = "calibrant.help_all"

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
    "--max-error": "--max-risk",
    "--metrics": "--measures",
    "--subgroup": "--by",
    "--plot": "--png",
    "--figure": "--png",
}


class Collecting(click.Parameter):
    """A parameter whose errors wait for those of the others, which `together` joins; it has its default then."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert and check a value; of an option that is repeated, each value has an error of its own."""
        if self.multiple and isinstance(value, (list, tuple)) and len(value) > 1:
            return tuple(each for part in value for each in self.process_value(ctx, (part,)))
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if not ctx.resilient_parsing:
                ctx.meta.setdefault(FAULTS, []).append(error)
            return () if self.multiple or self.nargs == -1 else self.get_default(ctx)


class Option(Collecting, click.Option):
    """An option whose errors are collected.

    ``common`` explains the option in one line; ``--help`` lists the options that have it, and ``--help-all`` every one.
    """

    def __init__(self, *names: Any, common: str = "", **declared: Any) -> None:
        super().__init__(*names, **declared)
        self.common = common


class Argument(Collecting, click.Argument):
    """An argument whose errors are collected."""


def together(ctx: click.Context, errors: Iterable[click.UsageError]) -> click.UsageError | None:
    """Return one error for the errors of parameters and others; None without errors."""
    distinct = list({error.format_message(): error for error in (*ctx.meta.get(FAULTS, ()), *errors)}.values())
    if len(distinct) > 1:
        return click.UsageError("; and ".join(error.format_message().removesuffix(".") for error in distinct), ctx)
    return distinct[0] if distinct else None


def section_of(option: click.Option) -> str:
    """Return the section of an option in the help."""
    if isinstance(option, Option) and option.common:
        return next(iter(SECTIONS))
    return next((title for title, names in SECTIONS.items() if option.name in names), "Others")


def _show_all(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the help with all options, and end."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command that proposes an option for a misspelt one, and whose help is one screen or has sections."""

    def __init__(self, *args: Any, **declared: Any) -> None:
        super().__init__(*args, **declared)
        number = sum(isinstance(param, click.Option) for param in self.params)
        self._is_long = number >= _MANY
        self._help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            hidden=not self._is_long,  # the help of a short command is complete
            callback=_show_all,
            help=f"Show all {number} options and exit.",
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with the options that show help."""
        params = super().get_params(ctx)
        return [*params[:-1], self._help_all, *params[-1:]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the options of a file as the defaults; errors of single options wait in ``ctx.meta``."""
        try:
            if not ctx.resilient_parsing:
                typed, helping = self._typed(ctx, args), [self.get_help_option(ctx), self._help_all]
                asks_for_help = any(typed.get(str(option.name)) for option in helping if option is not None)
                if not asks_for_help and any(param.name == "config" for param in self.params):
                    configure(ctx, typed)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise together(ctx, [error]) or error from None

    def _typed(self, ctx: click.Context, args: list[str]) -> Mapping[str, Any]:
        """Return what the command line says, by the names of parameters; unknown options leave ``args``."""
        typed = list(args)
        while True:
            try:
                return self.make_parser(ctx).parse_args(list(args))[0]
            except click.NoSuchOption as error:
                # click takes -score for -s, -c and so on.
                name = error.option_name
                same = (word for word in args if word.partition("=")[0] == name or not name.startswith("--"))
                word = next((word for word in same if word.startswith(name)), "")
                if not word:
                    raise
                args.remove(word)
                ctx.allow_extra_args = True  # the value of the unknown option
                ctx.meta.setdefault(FAULTS, []).append(self._unknown(ctx, word.partition("=")[0], typed))

    def _unknown(self, ctx: click.Context, name: str, typed: list[str]) -> click.UsageError:
        """Return the error of an unknown option, with a proposal."""
        matches = _meant(name, [option for param in self.params for option in param.opts if option.startswith("--")])
        if matches == ["--json"] and _value_of(name, typed).lower().endswith((".html", ".htm")):
            matches = ["--html"]
        meant = " or ".join(map(repr, matches))
        every = "--help-all" if self._is_long else "--help"
        hint = f"did you mean {meant}?" if meant else f"'{ctx.command_path} {every}' lists them"
        return click.UsageError(f"No such option {quoted(name)}; {hint}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of usage names the file that an option came from."""
        source = configured(ctx)
        if "config" in ctx.params:
            ctx.params["config"] = source
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            text = error.format_message()
            options = [] if source is None else [f"--{name}" for name in source.options]
            named = [option for option in options if re.search(rf"{re.escape(option)}(?![\w-])", text)]
            if source is not None and named:
                verb, them = ("comes", "it") if len(named) == 1 else ("come", "them")
                origin = f" ({', '.join(named)} {verb} from {source.path}; --no-config leaves {them} out)"
                vars(error).update(message=error.message + origin)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options, or all by section; the explanations are in one column."""
        if not self._is_long:
            super().format_options(ctx, formatter)
            return
        is_brief, helping = _ALL not in ctx.meta, (self._help_all, self.get_help_option(ctx))
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Others")}
        for option in (param for param in self.get_params(ctx) if isinstance(param, click.Option)):
            common = getattr(option, "common", "")
            if is_brief and not common and option not in helping:
                continue
            title = next(iter(SECTIONS)) if is_brief else section_of(option)
            head, words = _head_and_words(ctx, option)
            sections[title].append((head, common if is_brief and common else words))
        width = min(max(len(head) for records in sections.values() for head, _ in records), 30)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl([(head.ljust(width), words) for head, words in records])


def _head_and_words(ctx: click.Context, option: click.Option) -> tuple[str, str]:
    """Return an option with its value, and its explanation; the first of two names keeps the column narrow."""
    head, words = option.get_help_record(ctx) or ("", "")
    if not option.secondary_opts:
        return re.sub(r"(--\S+), --\S+", r"\1", head), words
    no = option.secondary_opts[0]
    return f"--[no-]{option.opts[0][2:]}" if no.startswith("--no-") else f"{option.opts[0]}/{no}", words


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
            for name, command in self.commands.items():
                if any(error.option_name in param.opts for param in command.params):
                    remedy = f"did you mean: calibrant {name} {shlex.join(typed)}?"
                    msg = f"Option {quoted(error.option_name)} belongs to a command; {remedy}"
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
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            from calibrant.files.paths import ending_of

            hint = nearest(name, self.list_commands(ctx))
            if os.path.exists(name) or glob.has_magic(name) or ending_of(name):
                hint = f"did you mean: calibrant report {shlex.join(args)}?"
            msg = f"No such command {quoted(name)}; {hint}"
            raise click.UsageError(msg, ctx)
        return super().resolve_command(ctx, args)


def command_line(ctx: click.Context, options: Sequence[str], without: Sequence[str] = ()) -> str:
    """Return the typed command with some options added or changed, and without others."""
    return " ".join(map(shell_word, words_with(ctx, options, without)))


def words_with(ctx: click.Context, options: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """Return the words of `command_line`; a value follows each option that takes one."""
    params = {name: param for param in ctx.command.params for name in param.opts}
    changed = {params[name] for name in (*options, *without) if name in params}
    words, skip = ["calibrant"], False
    for word in ctx.meta.get(TYPED, ()):
        option = params.get(word.partition("=")[0]) if word.startswith("--") else None
        if skip or (option is not None and option in changed):
            is_flag = isinstance(option, click.Option) and option.is_flag
            skip = not skip and "=" not in word and not is_flag
            continue
        words.append(word)
    return [*words, *options]


def shell_word(text: str) -> str:
    """Return a word as a command line takes it; one with single quotes stands in double quotes."""
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


# ---------------------------------------------------------------- options from a file

# ``calibrant.toml``, or ``[tool.calibrant]`` in ``pyproject.toml``. The file may come with a repository that somebody
# else made. So it cannot name files to write, to read or hosts to connect to, and the command says which options came
# from it.

NAME: Final = "calibrant.toml"
_PROJECT: Final = "pyproject.toml"
_LARGEST: Final = 1_000_000  # bytes

#: What only the command line does, apart from naming files: it chooses an engine and its host, and opens a page.
_TYPED_ONLY: Final = ("open_page", "engine", "master", "config", "no_config")

#: Options that take SQL. DuckDB runs it behind locks; Spark has none, and could run programs.
_SQL: Final = {"where": "where", "by": "by", "clusters": "cluster"}
_COLUMN_OR_SQL: Final = ("score", "outcome")

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


def configure(ctx: click.Context, typed: Mapping[str, Any]) -> None:
    """Make the options of a file the defaults of a command; ``typed`` is what the command line says.

    Raises
    ------
    click.UsageError
        For a file that cannot be read, for an unknown option, and for a value of another type.
    """
    named = typed.get("config")
    if typed.get("no_config"):
        if named:
            msg = "--config names a file of options, but --no-config excludes it; pass only one of the two options"
            raise click.UsageError(msg, ctx)
        return
    for path in _candidates() if named is None else [named]:
        try:
            table = _table_of(path)
            if table is None and named is None:
                continue
            ctx.default_map = _values(ctx, table)
            _check_sql(ctx.default_map, typed)
        except ValueError as error:
            msg = f"{path}: {error}"
            raise click.UsageError(msg, ctx) from None
        ctx.meta[CONFIGURED_BY] = path
        return


def configured(ctx: click.Context) -> Configured | None:
    """Return which options of a parsed command came from the file; None if none did."""
    options = [param for param in ctx.command.params if isinstance(param, click.Option)]
    source = ParameterSource.DEFAULT_MAP
    used = [_names(param)[0] for param in options if ctx.get_parameter_source(str(param.name)) is source]
    return Configured(ctx.meta[CONFIGURED_BY], tuple(used)) if used else None


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


def _table_of(path: str) -> _Table | None:
    """Return the table of options in a file; None if it is a project's file without one."""
    from calibrant.results.envelope import read_bytes

    is_project = os.path.basename(path) == _PROJECT
    try:
        data = read_bytes(path, "", _LARGEST)
    except FileError as error:
        msg = f"{error.problem}; check the path, or pass --no-config"
        raise ValueError(msg) from None
    if is_project and b"calibrant" not in data:
        return None
    import tomllib

    try:
        table: _Table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        msg = f"expected TOML, got invalid TOML ({short(str(error), 200)}); correct the file, or pass --no-config"
        raise ValueError(msg) from None
    if not is_project:
        return table
    tool = table.get("tool")
    part = tool.get("calibrant") if isinstance(tool, dict) else None
    if not isinstance(part, dict | None):
        msg = f"tool.calibrant: expected a table, got {short(repr(part))}; correct it"
        raise ValueError(msg)
    return part


def _values(ctx: click.Context, table: _Table | None) -> dict[str, Any]:
    """Return the values of a command's options by click's names; the whole file is checked."""
    if table is None:
        msg = "has no table [tool.calibrant]; add the table, or name another file"
        raise ValueError(msg)
    group = ctx.parent.command if ctx.parent is not None else None
    commands = group.commands if isinstance(group, click.Group) else {str(ctx.command.name): ctx.command}
    options = {name: _options(command) for name, command in commands.items() if "config" in _options(command)}
    own = options[str(ctx.command.name)]
    of_all: dict[str, Any] = {}
    of_command: dict[str, Any] = {}
    for key, value in table.items():
        if key in options and isinstance(value, dict):
            values = of_command if key == ctx.command.name else {}
            for inner, part in value.items():
                _set(values, f"{key}.{inner}", part, [options[key]])
        elif isinstance(value, dict) and key.replace("_", "-") not in own:
            msg = f"[{short(key)}]: expected the name of a command, got another name; {nearest(key, options)}"
            raise ValueError(msg)
        else:
            _set(of_all, key, value, [own, *options.values()])
    names = {option.name for option in own.values()}
    return {**{name: value for name, value in of_all.items() if name in names}, **of_command}


def _set(values: dict[str, Any], key: str, value: Any, owners: list[dict[str, click.Option]]) -> None:
    """Add the value of a key of the file, which is an option of one of the commands, under click's name."""
    written = key.rpartition(".")[2].replace("_", "-")
    option = next((options[written] for options in owners if written in options), None)
    if option is None:
        names = dict.fromkeys(name for options in owners for name, option in options.items() if _may_stand(option))
        problem = f"expected the name of an option, got {quoted(short(written))}; {nearest(written, names)}"
    elif not _may_stand(option):
        problem = "this option is allowed only on the command line; remove it from the file"
    elif option.name in values:
        key = str(option.name).replace("_", "-")
        problem = "expected one value, got two, perhaps in two spellings of the option; remove one of them"
    else:
        accepted, problem = _accepted(option, value)
        if not problem:
            values[str(option.name)] = accepted
            return
    msg = f"{key}: {problem}"
    raise ValueError(msg)


def _accepted(option: click.Option, value: Any) -> tuple[Any, str]:
    """Return the value of an option in the file as the command line has it, and what is wrong with its type."""
    base = option.type.base if isinstance(option.type, Checked) else option.type
    types, words = _TYPES.get(base.name, _TEXT)
    is_list = isinstance(option.type, Listed)  # a text with commas, or an array
    parts = value if isinstance(value, list) and (option.multiple or is_list) else [value]
    commas = parts is value and is_list and any("," in str(part) for part in parts)
    if not commas and all(type(part) in types for part in parts):
        return ",".join(parts) if is_list else parts if option.multiple else value, ""
    if is_list:
        words += ", or an array of them in which none contains a comma"
    elif option.multiple:
        words += ", or an array of them"
    return None, f"expected {words}, got {short(repr(value))}; correct the file, or pass --no-config"


def _check_sql(values: Mapping[str, Any], typed: Mapping[str, Any]) -> None:
    """Reject SQL in a file if Spark would run it."""
    expressions = {name: name for name in _COLUMN_OR_SQL if re.search(r"\W", str(values.get(name, "")))}
    for name, option in (_SQL | expressions).items():
        if name in values and name not in typed and typed.get("engine") == "spark":
            reason = "SQL for Spark is allowed only on the command line, because calibrant cannot restrict what it does"
            msg = f"{option}: {reason}; type this option on the command line, or pass --no-config"
            raise ValueError(msg)


def _may_stand(option: click.Option) -> bool:
    return not isinstance(option.type, FileName) and option.name not in _TYPED_ONLY


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {name: option for option in options for name in _names(option)}


def _names(option: click.Option) -> list[str]:
    return [name[2:] for name in option.opts if name.startswith("--")]
