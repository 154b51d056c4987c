"""Errors about bad data: one line about the file and its columns, that ends with what to type."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np

from calibrant.cli.options import PROBLEMS, CommandOptions
from calibrant.cli.parameters import split
from calibrant.cli.usage import FAULTS, command_line, words_with
from calibrant.errors import CalibrantError, FileError, FileFault, InputError, meant, quoted
from calibrant.errors.faults import MAY_BE_LOGITS, Facts, Fault, Mistake
from calibrant.errors.wording import SOFT_LABELS, Terms, reword
from calibrant.files.class_names import EVENTS, event_of, order_of
from calibrant.files.column_kinds import contradict
from calibrant.files.column_options import Unnamed, listed, numbered
from calibrant.files.column_readings import Readings, best_pair, predicted_beside
from calibrant.files.column_values import BadTarget, shown
from calibrant.files.header_lines import separator
from calibrant.files.hints import MOST, candidates_in, unusable_values, values_of, written_in
from calibrant.files.loaded import BadRows
from calibrant.files.local import is_remote
from calibrant.files.paths import expand, kind_of
from calibrant.files.sources import table_of
from calibrant.files.sql import joined_conditions, sql_name, where_option

if TYPE_CHECKING:
    from calibrant.files.hints import Held, Unusable
    from calibrant.files.loaded import FileRows

#: If less than this share of the outcomes is 0 or 1, the column is wrong, not its rows.
_FEW: Final = 0.5
#: What reads a kind of file in Python.
_READERS: Final = {"csv": "pandas.read_csv({})", "parquet": "pandas.read_parquet({})"}
#: At most this share of the scores is left out, of those that are so far from [0, 1].
_FEW_SCORES: Final = 0.1
_FAR: Final = 1e-3
_SHARE: Final = re.compile(r"\(?\s*(\w+)\s*/\s*(\w+)\s*\)?")  # of two columns
_LISTED: Final = 20  # labels or values that a message lists
_ARRAYS: Final = (".npz", ".npy")

#: The words of remedies: the command has these options.
_TERMS: Final = Terms(
    logits="pass --logits",
    no_logits="leave --logits out, or save",
    rounding="clip the values to [0, 1] if rounding caused this",
    percent="pass --percent if the numbers are percentages",
    multilabel="--notion multilabel",
    ignore_index="pass --ignore-index {} to leave such rows out",
    class_names="--class-names",
    soft_labels=SOFT_LABELS,
)
#: Options that are in the terms above, and that a command may not take with others.
_OPTIONAL: Final = {
    "logits": ("--logits",),
    "percent": ("--percent",),
    "multilabel": ("--notion", "multilabel"),
}
#: Options that exclude each other: a proposed one replaces the typed ones.
_EXCLUSIVE: Final = (("--logits", "--percent", "--odds"), ("--labels", "--class-names"))
#: What to do if the columns of a file do not suit the other options.
_NAME_OTHERS: Final = "no columns look suitable for the other options; name them with --score and --outcome, or --probs"
#: Faults of single targets: `_OfRows.for_labels` proposes options against them.
_OF_TARGETS: Final = (Fault.OUTCOMES, Fault.CLASS_INDICES, Fault.LABEL_TYPE, Fault.LABEL_NAMES)
_SAME_NAMES: Final = (
    *("class_names", "ignore_index", "notion", "logits", "n_bins", "bands", "weights_are", "method"),
    *("max_risk", "yes_risk", "no_risk", "sort_by", "ordered", "prior", "trained_prior"),
    *("thresholds", "cost_of_false_positive", "cost_of_false_negative"),
)
_ARGUMENTS: Final = {
    **{"groups": "--by", "clusters": "--cluster", "weights": "--weight"},
    **{name: f"--{name.replace('_', '-')}" for name in _SAME_NAMES},
}


def message(error: Exception, ctx: click.Context, options: CommandOptions) -> str:
    """Return the line about an error; one about rows, in the files that were read, names their place there."""
    match error:
        case BadRows():
            text = _OfRows(ctx, options, error.rows).message(error.error)
        case FileError():
            text = _OfFiles(ctx, options).message(error)
        case InputError():
            text = str(error.renamed(_ARGUMENTS))
        case CalibrantError():
            text = str(error)
        case MemoryError():
            arrays = options.files and options.files[0].lower().endswith(_ARRAYS)
            remedy = "split the file into smaller files" if arrays else "read fewer rows with --where"
            text = f"the predictions do not fit into memory; {'leave --exact out' if options.exact else remedy}"
        case OSError():
            text = f"{error.filename or 'output'}: {error.strerror or error}; check the path and the disk"
        case _:
            raise error
    return text if options.config is None else f"{text} ({options.config})"


class _OfFiles:
    """The words of errors about files, and what to type."""

    def __init__(self, ctx: click.Context, options: CommandOptions) -> None:
        self.ctx, self.options = ctx, options

    def message(self, error: FileError) -> str:
        """Return the error with the command to type, and with all values of its columns that cannot be used."""
        text, is_whole = str(error), False
        may_propose = bool(self.options.files)  # `apply` lacks the options that are proposed
        written = self.for_written(error.path) if error.fault is FileFault.VALUE and may_propose else ""
        if written:
            text = f"{error.path}: {error.problem}; {written}"
        elif isinstance(error, BadTarget):
            held = values_of([error.path], error.column, self.options)
            is_missing = set(held.unusable) <= set(held.missing)
            is_whole = not is_missing or len(held.missing) > 1
            if is_whole:
                without = where_option(held.is_known(), self.options.where)
                remedy = f"fill the outcomes, or leave such rows out with {without}"
                if not is_missing:
                    remedy = self.for_outcomes(held, [error.path], error.column, error.score)
                got = f"column {quoted(error.column)}: expected outcomes 0 or 1, got {_listing(held)}"
                text = f"{error.path}: {got}; {remedy}"
        elif isinstance(error, Unnamed) and (others := self._of_several(error.path)):
            text = others if error.readings or others.startswith(error.path) else f"{text}; {others}"
        elif isinstance(error, Unnamed) and error.readings:
            proposed = [(each.case, self.proposal(*each.words)) for each in error.readings]
            cases = [f"{case}, type: {command}" for case, command in proposed if command]
            words = [error.words, *numbered(cases)] if cases else [_NAME_OTHERS]
            text = "; ".join([f"{error.path}: {error.problem}", *words])
        elif error.options:
            command = self.proposal(*error.options)
            remedy = f"{error.remedy}: {command}" if command else _NAME_OTHERS
            text = f"{error.path}: {error.problem}; {remedy}"
        else:
            text += self._for_filled_in(error)
        if error.fault not in (FileFault.VALUE, FileFault.NO_SUCH_COLUMN) or not may_propose:
            return text
        least = 1 if error.fault is FileFault.NO_SUCH_COLUMN else 2
        columns = () if error.column is None else (error.column,)
        return self.with_others(text, error.path, columns, self._beside(error.path), least, is_whole=is_whole)

    def with_others(
        self, text: str, path: str, columns: Sequence[str], paths: Sequence[str], least: int = 2, *, is_whole: bool
    ) -> str:
        """Return an error about columns of a file after the numbers of all values that cannot be used, by kind.

        They are counted after a failure alone. A single value, a column whose values the error lists as a ``is_whole``,
        and a column that is the wrong one as a whole, the error says alone.
        """
        options = self.options
        if options.engine == "spark" or any(name.lower().endswith(".cal") for name in paths):
            return text
        try:
            unusable = unusable_values(paths, options, options.logits, options.ignore_index, options.targets_file)
        except (CalibrantError, OSError):  # the first error stands
            return text
        unusable = [each for each in unusable if not (each.is_whole and each.column in columns)]
        is_said = is_whole and [each.column for each in unusable] == list(columns)
        if is_said or sum(each.counts.total() for each in unusable) < least:
            return text
        listed = "; ".join(map(str, unusable[:_LISTED]))
        files = f" in {len(paths)} files" if len(paths) > 1 else ""
        if least > 1 and all({*each.counts} <= {"empty", "NaN"} for each in unusable):
            return f"{path}: values are missing{files}: {listed}; {self._without_missing(paths, unusable)}"
        if least == 1:  # a column that is missing comes first
            return f"{text}; values that cannot be used{files}: {listed}"
        return f"{path}: values that cannot be used{files}: {listed}; first: {text.removeprefix(f'{path}: ')}"

    def _of_several(self, path: str) -> str:
        """Return what is wrong with the columns of several files; empty for one file, or for the first of alike ones.

        Only the first file asks what its columns mean. Another one has other columns.
        """
        paths = self._paths()
        if path not in paths or len(paths) < 2 or kind_of(path) not in _READERS or is_remote(path):
            return ""
        other = next((name for name in paths if name != path), path)
        try:
            own, others = (table_of(name).columns for name in (path, other))
        except CalibrantError:
            return ""
        if set(own) == set(others):
            return ""
        if path != paths[0]:
            names = f"has the columns {listed(own)}, but {other} has {listed(others)}"
            return f"{path}: {names}; give the columns the same names in all files"
        keys = [name for name in own if name in others]
        if not keys:
            return ""
        reads = (_READERS[kind_of(name)].format(_read_as(name)) for name in (path, other))
        joined = '{}.merge({}, on={}).to_parquet("joined.parquet")'.format(*reads, json.dumps(keys))
        return f"if the outcomes are in {other}, join the files, such as in Python with {joined}"

    def _paths(self) -> list[str]:
        """Return the files of the command; none if they cannot be found."""
        try:
            return expand(self.options.files)
        except CalibrantError:
            return []

    def _without_missing(self, paths: Sequence[str], missing: Sequence[Unusable]) -> str:
        """Return what to type to leave out the rows without a value in a column."""
        held = [values_of(paths, each.column, self.options) for each in missing]
        if any(len(each.counts) > MOST and not each.is_number for each in held):  # not all words were counted
            return "fill the cells, or leave such rows out with --where"
        where = _where(" AND ".join(dict.fromkeys(each.is_known() for each in held)), self.options)
        return f"fill the cells, or to leave such rows out, type: {self.typed(*where)}"

    def _beside(self, path: str) -> list[str]:
        """Return the files whose rows are read with those of a file; a comparison may have a file a model."""
        if self.ctx.command.name == "compare" and self.options.scores is None:
            return [path]
        paths = self._paths()
        return paths if path in paths else [path]

    def _for_filled_in(self, error: FileError) -> str:
        """Return how to quote a pattern of columns that the shell expanded to files."""
        options = self.options
        option, value = ("--probs", options.probs) if options.probs else ("--scores", options.scores)
        if not value or not os.path.isfile(value) or error.fault in (FileFault.UNREADABLE, FileFault.VALUE):
            return ""
        other_files = [name for name in options.files[1:] if name[:1] == value[0]]  # the other files
        common = os.path.commonprefix([value, *other_files])  # noqa: RUF071 - characters, as in a pattern
        prefix = common if other_files else re.sub(r"[^_]*$", "", value)
        return f"; {quoted(value)} is a file: if the shell expanded a pattern, quote it: {option} '{prefix}*'"

    def typed(self, *words: str) -> str:
        """Return the command with other options; a new outcome replaces the options about the old one."""
        target = ["--target"] if self.options.target is not None else []
        without = ["--labels", "--class-names", *target] if "--outcome" in words else []
        return self.proposal(*words, without=without) or command_line(self.ctx, words, without)

    def proposal(self, *words: str, without: Sequence[str] = ()) -> str:
        """Return the command with other options, which replace typed ones that exclude them; empty if it is refused."""
        excluded = [option for options in _EXCLUSIVE if set(options) & set(words) for option in options]
        replaced = [*without, *(option for option in excluded if option not in words)]
        return next(
            (command_line(self.ctx, words, left) for left in (without, replaced) if self._takes(words, left)), ""
        )

    def _takes(self, words: Sequence[str], without: Sequence[str]) -> bool:
        """Whether the command takes the typed options with others: they do not contradict each other."""
        ctx, problems = self.ctx, PROBLEMS.get(str(self.ctx.info_name))
        if problems is None:
            return True
        faults = ctx.meta.pop(FAULTS, None)  # a context shares this with those that it makes
        try:
            with ctx.command.make_context(ctx.info_name, words_with(ctx, words, without)[2:], ctx.parent) as made:
                models = split(made.params.get("scores") or "")
                options = CommandOptions.of(**{**made.params, **({"models": models} if models else {})})
                return not any(problems(made, options)) and not made.meta.get(FAULTS)
        except click.UsageError:
            return False
        finally:
            ctx.meta.pop(FAULTS, None)
            if faults is not None:
                ctx.meta[FAULTS] = faults

    @property
    def terms(self) -> Terms:
        """The words of remedies, without options that the command does not take with the typed ones."""
        may = {name: self._takes(words, ()) for name, words in _OPTIONAL.items()}
        return replace(_TERMS, **{name: "" for name, is_taken in may.items() if not is_taken})

    def for_written(self, path: str) -> str:
        """Return what to type if the numbers of the scores are written as something else than plain fractions."""
        options = self.options
        if path.lower().endswith(_ARRAYS) or options.engine == "spark" or options.logits or options.odds:
            return ""
        words = written_in(path, self.options)
        kinds = {"--percent": "percentages", "--odds": "odds", "--decimal-comma": "numbers with a decimal comma"}
        kind = next((kind for option, kind in kinds.items() if option in words), "")
        if not kind:
            return ""
        comma = " with a decimal comma" if "--decimal-comma" in words and "comma" not in kind else ""
        return f"if the scores are {kind}{comma}, type: {self.typed(*words)}"

    def for_outcomes(self, held: Held, paths: Sequence[str], column: str, score: str) -> str:
        """Return what to type where the column of outcomes holds something else than 0 and 1."""
        if counts := _SHARE.fullmatch(column):
            return self._for_counts(*counts.groups())
        choice = None if held.are_fractions else _proposal(held, self.options)
        if choice is None:
            seen = candidates_in(paths[0])
            trials = next((trials for events, trials in seen.counts_beside(score) if events == column), None)
            if trials is not None:
                return self._for_counts(column, trials)
            pair = best_pair(seen, [score], seen.outcomes)
            if pair is not None and pair[1] != column:
                return f"name the column that holds 0 and 1, such as: {self.typed('--outcome', pair[1])}"
            if held.are_fractions:
                return f"with --outcome, name the column that holds 0 and 1; {SOFT_LABELS}"
            predicted = predicted_beside(seen, column)
            if predicted is not None:
                words = f"if {shown(predicted)} is the predicted label, and the event is a correct prediction"
                choice = words, ("--outcome", f"{sql_name(predicted)} = {held.spoken}")
            elif 0 < len(held.present) <= _LISTED:
                choice = _of_event([max(held.present)], held, self.options)
            else:
                return "with --outcome, name the column that holds 0 and 1"
        others = [each for each in self.of_predicted(paths[0]) if each[1] != choice[1]]
        return "; ".join(f"{case}, type: {self.typed(*words)}" for case, words in (choice, *others))

    def of_predicted(self, path: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return when and what to type if the score may be the probability of a predicted label."""
        if not (self.options.score and self.options.outcome) or self.options.engine == "spark":
            return []
        found = Readings(candidates_in(path), self.options).readings()
        return [(each.case, each.words) for each in found if each.sql and each.words[::2] == ("--outcome",)]

    def _for_counts(self, events: str, trials: str) -> str:
        """Return what to type where a row counts several outcomes."""
        typed = command_line(self.ctx, ("--events", events, "--trials", trials), ["--outcome"])
        return f"if a row counts {quoted(events)} of {quoted(trials)} trials, type: {typed}"


class _OfRows(_OfFiles):
    """The words of errors about rows that were read, with their place in the files, and what to type."""

    def __init__(self, ctx: click.Context, options: CommandOptions, rows: FileRows) -> None:
        super().__init__(ctx, options)
        self.rows, self.columns = rows, rows.columns
        probs = [name for name in rows.columns if name.startswith("probs")]
        self.scores = [rows.columns[name][0] for name in probs]  # the first column of each model
        self.widths = [rows.arrays[name].shape[1] for name in probs if rows.arrays[name].ndim > 1]

    def message(self, error: InputError) -> str:  # type: ignore[override]
        """Return an error of the library with its place in the files, and the option to type."""
        path, columns, listing = self.rows.paths[0], self.columns.get(error.argument, ()), None
        if error.fault is Fault.SWAPPED:
            text, columns = self._swapped(error), (*columns, *self.columns["targets"])
        elif error.argument in self.columns:
            listing = self._of_outcomes(error)
            path, problem = self.rows.place(error)
            text = listing or f"{path}: {problem}; {self._remedy(error)}"
        else:
            argument = _ARGUMENTS.get(error.argument, error.argument)
            argument = "--labels" if argument == "--class-names" and self.options.labels else argument
            expected, got, _ = reword(error, self.terms)
            return f"{path}: {argument}: expected {expected}, got {got}; {self._remedy(error)}"
        if error.argument not in self.columns:
            return text
        path = self.rows.paths[0] if error.row is None else self.rows.locate(error.row)[0]
        return self.with_others(text, path, columns, self.rows.paths, is_whole=listing is not None)

    def _swapped(self, error: InputError) -> str:
        score = self.columns[error.argument if error.argument in self.columns else "probs"][0]
        outcome = self.columns["targets"][0]
        remedy = "name the scores with --scores and the outcomes with --outcome"
        if self.options.scores is None:
            names = ("--score", "--outcome") if self.options.score is not None else ("--probs", "--target")
            remedy = f"type: {command_line(self.ctx, (names[0], outcome, names[1], score))}"
        problem = f"the scores {quoted(score)} are labels and the outcomes {quoted(outcome)} are fractions"
        return f"{self.rows.paths[0]}: {problem}, so the two columns look swapped; {remedy}"

    def _remedy(self, error: InputError) -> str:
        if error.fault is Fault.PROBABILITIES_AS_LOGITS and not self.options.logits:
            return "the name of the array suggests logits; if it holds probabilities, rename it to probs"
        remedy = None
        if error.argument.startswith(("probs", "targets")) and (written := self.for_written(self.rows.paths[0])):
            return written
        if error.argument == "targets" and self.rows.targets.ndim == 1:
            remedy = self._for_labels(error)
        elif error.argument == "probs" and not self.widths:
            remedy = self._for_few_scores()
            if remedy is None and error.facts.mistake in MAY_BE_LOGITS:
                remedy = self._for_scores()
        if remedy is None:
            remedy = reword(error, self.terms)[-1]
            if error.argument == "probs" and error.fault is Fault.ROW_SUM:
                remedy += self._for_models()
        return remedy

    def _for_few_scores(self) -> str | None:
        """Return what to type if a few scores, such as -1, are far from [0, 1]; None if many are, or none."""
        scores, (name,) = self.rows.arrays["probs"], self.columns["probs"]
        is_far = ~((scores >= -_FAR) & (scores <= 1 + _FAR))
        few = int(np.count_nonzero(is_far))
        if (
            self.options.logits
            or self.rows.paths[0].lower().endswith(_ARRAYS)
            or not 0 < few <= _FEW_SCORES * len(scores)
        ):
            return None
        path = self.rows.paths[0]
        is_column = name in table_of(path).columns
        typed = self.typed(*_where(f"{sql_name(name) if is_column else f'({name})'} BETWEEN 0 AND 1", self.options))
        return f"if rows without a score between 0 and 1 ({few:,}) have no prediction, leave them out, type: {typed}"

    def _for_scores(self) -> str | None:
        """Return what to type if the scores are integers such as a year; None if they may be logits."""
        scores, path = self.rows.arrays["probs"], self.rows.paths[0]
        if self.options.score is None or path.lower().endswith(_ARRAYS):
            return None
        if not np.array_equal(scores, np.floor(scores)) or np.isin(scores, (0, 1)).mean() >= _FEW:
            return None
        seen = candidates_in(path)
        pair = best_pair(seen, seen.scores, [self.columns["targets"][0]])
        if pair is None or pair[0] in self.columns["probs"]:
            return None
        return f"name the column that holds the probabilities, such as: {self.typed('--score', pair[0])}"

    def _for_models(self) -> str:
        """Return what to type if the columns of classes may be models."""
        options, targets = self.options, self.rows.targets
        if options.of_prior or "," not in (options.probs or "") or targets.ndim > 1 or targets.dtype.kind not in "fiub":
            return ""
        if not np.isin(targets, (0, 1)).all():
            return ""
        words = ["calibrant", "compare", *options.files, "--scores", ",".join(self.columns["probs"])]
        target = options.outcome if options.target is None else options.target
        for option, value in (("--outcome", target), ("--weight", options.weight), ("--where", options.where)):
            words += [option, value] if value is not None else []
        return f"; if the columns are models of one event, type: {shlex.join(words)}"

    def _for_labels(self, error: InputError) -> str | None:
        """Return what to type against wrong targets; None for the library's own remedy."""
        columns = self.columns.get("probs", ()) if self.widths else ()
        labels = _distinct(self.rows.targets)
        if error.fault is Fault.UNKNOWN_NAME:
            named = None if self.options.labels else self._for_named_columns(columns, labels)
            return named or self._for_name(error.facts, labels)
        if error.fault not in _OF_TARGETS:
            return None
        are_names = error.fault is Fault.LABEL_NAMES or all(re.fullmatch(r"-?\d+", label) for label in labels)
        if self.widths:
            named = self._for_named_columns(columns, labels) if are_names else None
            return named or self._for_classes(error, columns, labels, are_names=are_names)
        if error.facts.mistake is Mistake.ONE_BASED:
            return f"the labels look 1-based; {self._for_events(['1', '2'])}"
        if error.facts.mistake is Mistake.PROBABILITY_TARGETS:
            return None
        return self._for_events(labels) if len(labels) == 2 and are_names else "save the outcomes as 0 and 1"

    def _for_name(self, facts: Facts, labels: Sequence[str]) -> str | None:
        """Return what to type if a label is not among the names; None if the library's remedy is more precise."""
        names = self.rows.class_names or ()
        are_words = not any(re.fullmatch(r"-?\d+", name) for name in names)
        if are_words and all(re.fullmatch(r"\d+", label) for label in labels):
            numbers, width = sorted(map(int, labels)), len(names)
            first = min(numbers[0], 1)
            if numbers[-1] == width if first else numbers[-1] < width:
                # If the labels are indices already, the names of the columns stay.
                is_short = width <= _LISTED and all("," not in name for name in names)
                words = ("--labels", f"{first}-{width - 1 + first}")
                if first == 0 and not self.options.labels and is_short:
                    words = ("--class-names", ",".join(names))
                return f"if label {first} is class {quoted(names[0])}, and so on, type: {self.typed(*words)}"
        if len(facts.names) <= _LISTED and not meant(facts.value, facts.names):
            # The problem lists the names.
            return "pass --labels if the file spells the labels differently, or correct the row"
        return None

    def _for_classes(
        self, error: InputError, columns: Sequence[str], labels: Sequence[str], *, are_names: bool
    ) -> str | None:
        """Return what to type for labels of classes, which are text or whole numbers if ``are_names``."""
        mistake, few, width = error.facts.mistake, len(labels) <= _LISTED, self.widths[0]
        are_numbered = _are_numbered(columns)
        if mistake is Mistake.ONE_BASED:
            order = "" if are_numbered else f"if label 1 is column {quoted(columns[0])}, and so on, "
            listed = f"1-{width}" if width > 2 else "1,2"
            return f"the labels look 1-based; {order}type: {self.typed('--labels', listed)}"
        strings = error.fault is Fault.LABEL_NAMES
        are_all = len(labels) == width and are_names and (strings or mistake is Mistake.TWO_LABELS)
        if (
            are_all
            and are_numbered
            and few
            and all("," not in label for label in labels)
            and self._are_in_order(labels)
        ):
            return f"if the columns have the order of these labels, type: {self.typed('--labels', ','.join(labels))}"
        if not strings:
            return None
        if len(columns) > 1 and few:
            these = f"the labels of the columns {', '.join(columns)}"
            return f"pass --labels with {these}, in this order; the file has {', '.join(labels)}"
        return f"pass --labels with the {width} labels, separated by commas, in the order of the columns"

    def _by_scores(self, labels: Sequence[str]) -> Sequence[str]:
        """Return two labels, that of the larger scores second."""
        targets = self.rows.targets
        texts = (targets.astype(np.int64) if targets.dtype.kind == "f" else targets).astype(str)
        means = [self.rows.arrays["probs"][texts == label].mean() for label in labels if np.any(texts == label)]
        return labels[::-1] if len(means) == 2 and means[0] > means[1] else labels

    def _are_in_order(self, labels: Sequence[str]) -> bool:
        """Whether nothing contradicts that the columns have the order of the labels."""
        places = {label: place for place, label in enumerate(labels)}
        codes = np.array([places.get(text, -1) for text in self.rows.targets.astype(str).tolist()])
        return not contradict(self.rows.arrays["probs"], codes)

    def _for_events(self, labels: Sequence[str]) -> str:
        """Return what to type for each of two labels that may be the event of the scores."""
        event = event_of(labels, self.scores[0] if len(self.scores) == 1 else "")
        labels = self._by_scores(labels) if event is None else labels
        orders = [order for order in (tuple(labels), tuple(labels[::-1])) if event in (None, order[1])]
        events = [(f"if {quoted(order[1])} is the event", ("--labels", ",".join(order))) for order in orders]
        cases = (*events, *self.of_predicted(self.rows.paths[0]))
        return "; ".join(numbered([f"{case}, type: {self.typed(*words)}" for case, words in cases]))

    def _for_named_columns(self, columns: Sequence[str], labels: Sequence[str]) -> str | None:
        """Return what to type for columns that name the labels, whole or in part; None where they do not."""
        order = order_of(columns, labels) if columns else None
        if order is None:
            return None
        return f"the columns have the names of the labels; type: {self.typed('--labels', ','.join(order))}"

    def _of_outcomes(self, error: InputError) -> str | None:
        """Return the message about a column of outcomes that holds something else; None for arrays and classes."""
        if self.rows.paths[0].lower().endswith(_ARRAYS) or error.argument != "targets" or self.widths:
            return None
        if error.fault not in (*_OF_TARGETS, Fault.UNKNOWN_NAME) or error.facts.mistake is Mistake.ONE_BASED:
            return None
        (column,) = self.columns["targets"]
        held = values_of(self.rows.paths, column, self.options)
        names = error.facts.names
        if names and _proposal(held, self.options) is None:
            return None
        place = f"{self.rows.paths[0]}: "
        if error.row is not None:
            path, row = self.rows.locate(error.row)
            place = f"{path}: row {row:,}, "
        if len(held.counts) == len(held.present) == 2 and all(map(_is_label, held.present)):
            remedy = self._remedy(error)
        else:
            remedy = self.for_outcomes(held, self.rows.paths, column, self.scores[0])
        expected = f"one of {', '.join(names)}" if names else "outcomes 0 or 1"
        return f"{place}column {quoted(column)}: expected {expected}, got {_listing(held, names)}; {remedy}"


def _are_numbered(columns: Sequence[str]) -> bool:
    """Whether columns are only numbered, and do not name the classes; a column of lists has no names."""
    numbers = [re.sub(r"^.*?([0-9]*)$", r"\1", name) for name in columns]
    return len(columns) == 1 or numbers in ([str(first + k) for k in range(len(columns))] for first in (0, 1))


def _read_as(path: str) -> str:
    """Return a file as the argument of pandas.read_csv or read_parquet, with its separator unless that is a comma."""
    between = separator(path) if kind_of(path) == "csv" else ","
    return json.dumps(path, ensure_ascii=False) + f", sep={json.dumps(between)}" * (between != ",")


def _distinct(targets: np.ndarray[Any, Any]) -> list[str]:
    """Return the distinct labels as the file spells them, sorted."""
    values = sorted(set(targets.tolist())) if targets.dtype.kind == "O" else np.unique(targets).tolist()
    return [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values]


# ---------------------------------------------------------------- a column of outcomes that holds something else

#: At most this share of the rows holds neither outcome where these rows are left out.
_FEW_OTHERS: Final = 0.02

#: Words for rows whose outcome is not known.
_UNKNOWN: Final = (
    *("mkt", "cancel", "canceled", "cancelled", "void", "voided", "ambiguous", "annulled", "unresolved", "pending"),
    *("open", "unknown", "undecided", "unclear", "invalid", "abandoned", "postponed", "withdrawn", "disputed"),
)

#: Words for a game that nobody wins: neither the event nor its absence.
_TIES: Final = (
    *("0.5", "t", "d", "tie", "tied", "draw", "drawn", "push", "half", "remis", "unentschieden", "nul", "empate"),
)


def _listing(held: Held, labels: Sequence[str] = ()) -> str:
    """Return the values that are not outcomes, or none of the labels, with the numbers of their rows."""
    wrong = {text: count for text, count in held.counts.items() if text not in labels} if labels else held.unusable
    counts = sorted((wrong or held.counts).items(), key=lambda each: (-each[1], each[0] is None, str(each[0])))
    words = [f"{_value(text, held)} in {count:,}" for text, count in counts[:_LISTED]]
    if words:
        words[0] += " row" + "s" * (counts[0][1] != 1)
    more = f" and {len(counts) - _LISTED:,} other values" if len(counts) > _LISTED else ""
    return ", ".join(words) + more


def _value(text: str | None, held: Held) -> str:
    return "nothing (null)" if text is None else text.removesuffix(".0") if held.is_number else shown(text)


def _is_label(text: str) -> bool:
    """Whether ``--labels`` can name a value; a number with a fraction, such as that of a draw, is not a label."""
    return (
        text == text.strip() and text != "" and "," not in text and (not _is_number(text) or float(text).is_integer())
    )


def _proposal(held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]] | None:
    """Return when and what to type for the values that a column holds; None where they say too little.

    Two labels are named with ``--labels``, and rows with an unknown outcome left out in the same command. If there are
    more outcomes, one is the event and all other rows are kept.
    """
    by_word: dict[str, list[str]] = {}
    for text in held.present:
        by_word.setdefault(f"{float(text):g}" if _is_number(text) else text.strip().casefold(), []).append(text)
    pair = _pair_among(list(by_word))
    if pair is not None:
        rest = [word for word in by_word if word not in pair]
        n_rest = sum(held.counts[text] for word in rest for text in by_word[word])
        are_few = n_rest <= max(1, _FEW_OTHERS * sum(held.counts.values()))  # such as a line of totals
        is_known = (word in (*_UNKNOWN, *_TIES) or (_is_number(word) and not _is_number(pair[1])) for word in rest)
        if are_few or all(is_known):
            return _of_pair([by_word[word] for word in pair], bool(rest), held, options)
    event = _event_among(list(by_word))
    return None if event is None else _of_event(by_word[event], held, options)


def _pair_among(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the two words for an outcome that a column holds, the event second; of two labels these."""
    pair = next((pair for pair in EVENTS if set(words) >= set(pair)), None)
    if pair is None and len(words) == 2 and all(float(word).is_integer() for word in words if _is_number(word)):
        return tuple(sorted(words, key=lambda word: (float(word), "") if _is_number(word) else (math.inf, word)))
    return pair


def _event_among(words: Sequence[str]) -> str | None:
    """Return the word for the event among several outcomes; 1 among numbers from -1 to 1."""
    if "1" in words and all(_is_number(word) and -1 <= float(word) <= 1 for word in words):
        return "1"
    pairs = (pair for pair in EVENTS if set(words) >= set(pair) or (len(pair[1]) > 1 and pair[1] in words))
    return next((event for _, event in pairs), None)


def _of_event(texts: Sequence[str], held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]]:
    """Return how to name some values as the event, and all others as not the event."""
    condition = held.is_among(texts) if len(texts) > 1 else held.equals(texts[0])
    where = _where(held.is_known(), options) if held.missing else ()
    others = "all other values are" if len(held.present) - len(texts) > 1 else "other values are"
    left_out = f", and the rows without an outcome ({held.n_missing:,}) are left out" if where else ""
    return f"if {shown(texts[0].removesuffix('.0'))} is the event and {others} not the event{left_out}", (
        "--outcome",
        condition,
        *where,
    )


def _of_pair(
    pair: Sequence[Sequence[str]], has_others: bool, held: Held, options: CommandOptions
) -> tuple[str, tuple[str, ...]]:
    """Return how to name two labels, the event second, without the rows of unknown outcomes."""
    texts = [text for side in pair for text in side]
    where = _where(held.is_among(texts), options) if has_others or held.missing else ()
    start, left_out = _other_outcomes(held, texts)
    words = f"{start}if {shown(pair[1][0])} is the event" + (left_out if where else "")
    if len(texts) == 2 and all(map(_is_label, texts)):
        return words, ("--labels", ",".join(text.removesuffix(".0") for text in texts), *where)
    event = held.equals(pair[1][0]) if len(pair[1]) == 1 else held.is_among(pair[1])
    return words, ("--outcome", event, *where)


def _other_outcomes(held: Held, texts: Sequence[str]) -> tuple[str, str]:
    """Return what else can be done about ties, and which rows are left out if two labels are kept."""
    others = sum(held.counts.values()) - sum(held.counts[text] for text in texts)
    rest = [text for text in held.present if text not in texts]
    ties = sum(held.counts[text] for text in rest if text.strip().casefold() in _TIES)
    if not ties:
        are_unknown = all(text.strip().casefold() in _UNKNOWN for text in rest)
        what = "rows of unknown outcome" if are_unknown else "rows with other values, such as totals,"
        return "", f" and the {what} ({others:,}) are left out"
    what = "ties" if ties == others else "ties and rows of unknown outcome"
    start = "for ties as a class of their own, pass the probabilities of all results with --probs; "
    return start, f" and the {what} ({others:,}) are left out"


def _where(condition: str, options: CommandOptions) -> tuple[str, str]:
    return "--where", joined_conditions(options.where, condition)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
