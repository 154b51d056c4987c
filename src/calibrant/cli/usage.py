"""The command's answers to wrong usage, and the layout of its help."""

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
from typing import Any, Final

import click
from click.core import iter_params_for_processing

from calibrant.cli import configuration, console
from calibrant.errors import nearest, quoted

#: The key of the typed words in a context's ``meta``.
TYPED: Final = "calibrant.typed"

#: The key of the errors of single options in a context's ``meta``: the checks of the command raise them with theirs.
FAULTS: Final = "calibrant.faults"

#: The sections of a command's help, each with the names of its options.
SECTIONS: Final = {
    title: names.split()
    for title, names in {
        "Columns": "scores score outcome probs target targets_file weight by by_values clusters on baseline paired",
        "What the columns hold": "logits percent decimal_comma labels class_names weights_are",
        "What is judged": "where timezone ignore_index notion classwise n_bins",
        "Intervals": "level n_resamples rng bands",
        "Decisions": "tolerance tolerance_of gate conditions",
        "Many rows and files": "exact keep_going engine master",
        "Output": "profile measures all_measures quiet json_path html_path title date open_page markdown_path png_path "
        "svg_path sketch_path",
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
        path = None if helping is not None and words.get(helping.name) else configuration.configure(ctx, words)
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadParameter):
            raise  # `invoke` names the file
        except click.UsageError as error:
            raise _blamed(error, configuration.configured(ctx, path)) from None
        finally:
            ctx.params["config"] = configuration.configured(ctx, path)

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
                head = f"--[no-]{param.opts[0][2:]}" if param.secondary_opts else head
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
        """Run the command; Ctrl-C ends it with the shells' exit status and no traceback."""
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


def _blamed(error: click.UsageError, source: configuration.Configured | None) -> click.UsageError:
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
