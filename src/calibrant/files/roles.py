"""What the columns of a file hold: by options, by usual names, or by a question.

A column with a usual name is read. Nothing else is read as what it looks like: the error proposes options, and the user
types them or others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from calibrant.errors import quoted
from calibrant.files.class_names import ends_of, ordered
from calibrant.files.column_kinds import FEW, Candidates, FirstCells, first_look
from calibrant.files.column_options import (
    ColumnReading,
    ColumnSelection,
    NamedColumns,
    Options,
    Unnamed,
    are_logits,
    check_selection,
    in_words,
)
from calibrant.files.column_readings import LISTED, Readings
from calibrant.files.column_words import USUAL, Usual, role_of

# ---------------------------------------------------------------- columns by options and usual names


def select(
    path: str, columns: Sequence[str], options: Options, noun: str = "column", in_path: Collection[str] = ()
) -> ColumnSelection:
    """Decide which columns (or arrays) of a file to read, by their names; those ``in_path`` by options alone.

    It raises `FileError` where a named column is missing, or none or several have a usual name.
    """
    finder = NamedColumns(path, tuple(columns), noun, in_path)
    finder.check(options)
    weights = None if options.weight is None else finder.one("--weight", options.weight)
    weights = weights if options.trials is None else finder.one("--trials", options.trials)
    targets = finder.targets(options)
    groups = tuple(finder.column_or_sql("--by", value) for value in options.by)
    clusters = tuple(finder.column_or_sql("--cluster", value) for value in options.clusters)
    keys = tuple(finder.one("--on", value) for value in options.on)
    others = {weights, *groups, *clusters, *keys}
    models, suffixes = finder.models(options.models)
    probs = tuple(dict.fromkeys(column for _, names in models for column in names))
    if not models:
        probs, suffixes = select_probs(finder, options, {*(targets or ()), *others})
    if targets is None:
        targets = _usual_targets(finder, {*probs, *others}, len(probs) == max(len(models), 1), groups)
    class_names, labels = _class_names(finder, options, suffixes)
    selection = ColumnSelection(
        probs=probs,
        targets=targets,
        weights=weights,
        groups=groups,
        clusters=clusters,
        keys=keys,
        logits=are_logits(probs) and set(probs) <= set(columns),  # the text of an expression is not a name
        percent=options.percent,
        odds=options.odds,
        counts=options.events is not None,
        timezone=options.timezone,
        class_names=class_names,
        labels=labels,
        noun=noun,
        models=models,
    )
    check_selection(path, columns, selection)
    return selection


def _class_names(
    finder: NamedColumns, options: Options, suffixes: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names of the classes, and whether targets are matched by them."""
    class_names = options.labels or options.class_names
    if class_names is not None or suffixes is None or options.without_outcomes:
        return class_names or suffixes, options.labels is not None
    # Numbers that are listed with words are not indices: targets are matched by name then.
    are_listed = options.probs is not None and not finder.is_pattern(options.probs)
    return suffixes, not are_listed or any(name.isdecimal() for name in suffixes)


def select_probs(
    finder: NamedColumns, options: Options, taken: set[str | None]
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the columns of probabilities, and the names of the classes where the columns say them."""
    if options.score is not None:
        return (finder.column_or_sql("--score", options.score),), None
    if options.probs is None:
        return ordered(*_usual_probs(finder, taken))
    names = finder.named("--probs", options.probs)
    is_pattern = finder.is_pattern(options.probs)
    return ordered(names, options.probs) if is_pattern else (names, ends_of(names, USUAL["probs"].names))


def _usual_probs(finder: NamedColumns, taken: set[str | None]) -> tuple[tuple[str, ...], str]:
    """Return the columns of probabilities, and their name or their pattern."""
    free, usual = finder.free(taken), USUAL["probs"]
    option = "--score" if finder.noun == "column" else "--probs"
    found: list[tuple[tuple[str, ...], str, str]] = [
        ((name,), option, name) for name in free if name.lower() in usual.names
    ]
    for prefix in usual.prefixes if finder.noun == "column" else ():
        # Matched without regard to case; the pattern keeps the spelling of the file.
        group = tuple(name for name in free if name.lower().startswith(prefix) and len(name) > len(prefix))
        if len(group) > 1 and len({name[: len(prefix)] for name in group}) == 1:
            found.append((group, "--probs", group[0][: len(prefix)] + "*"))
    _check_single(finder, {in_words(names, finder.noun): (option, value) for names, option, value in found}, usual)
    names, _, value = found[0]
    return names, value


def _usual_targets(
    finder: NamedColumns, taken: set[str | None], one_event: bool, groups: Sequence[str]
) -> tuple[str, ...]:
    usual, noun = USUAL["targets"], finder.noun
    found = [name for name in finder.free(taken) if name.lower() in usual.names]
    option = "--outcome" if one_event and noun == "column" else "--target"
    named = next((name for name in groups if name.lower() in usual.names), None)
    if not found and named is not None:
        problem = f"--by uses {quoted(named)}, and no other {noun} has a usual name for the targets"
        raise Unnamed(finder.path, problem, f"if {quoted(named)} also holds the targets, type", (option, named))
    _check_single(finder, {name: (option, name) for name in found}, usual)
    return (found[0],)


def _check_single(finder: NamedColumns, rivals: Mapping[str, tuple[str, str]], usual: Usual) -> None:
    """Reject none and several columns, which come with the options that name them."""
    noun = finder.noun
    remedy = f"name the right {noun} with {usual.wanted[noun]}"
    if not rivals:
        problem = f"no {noun} has a usual name for {usual.what} ({usual.examples[noun]}, ...)"
        raise Unnamed(finder.path, problem, f"{remedy}; {finder.listing}")
    if len(rivals) > 1:
        readings = tuple(ColumnReading(dict([pair]), f"if {quoted(name)}") for name, pair in rivals.items())
        problem = f"several {noun}s could be {usual.what}: {', '.join(rivals)}"
        raise Unnamed(finder.path, problem, remedy, readings=readings)


# ---------------------------------------------------------------- columns, or the question which ones


def find(
    path: str,
    columns: Sequence[str],
    options: Options,
    first_cells: FirstCells,
    noun: str = "column",
    in_path: Collection[str] = (),
) -> ColumnSelection:
    """Decide which columns (or arrays) of a file to read; ``first_cells`` returns the first rows at most, by column.

    It raises `FileError` as `select`, with the options that the first rows propose, and where names and values allow
    several readings.
    """
    try:
        selection = select(path, columns, options, noun, in_path)
    except Unnamed as error:
        if error.options or options.without_outcomes:
            raise
        plain = Readings(first_look(columns, first_cells, percent=options.percent), options)
        found, readings = plain, plain.readings()
        if not any(plain.is_named(each) for each in readings):
            in_percent = plain.of_percent()
            others = in_percent.readings()
            if not readings or any(in_percent.is_named(each) for each in others):
                found, readings = in_percent, others
        if readings:
            raise _asking(path, error.problem, found.in_words(readings), readings, noun) from None
        has_words = noun == "column" or found.seen.scores or found.seen.lists  # others are about columns
        remedy = found.unmatched() if has_words else ""
        listing = NamedColumns(path, tuple(columns), noun).listing
        raise Unnamed(path, error.problem, f"{remedy}; {listing}") if remedy else error from None
    if _is_doubtful(selection, columns, options):
        _check_meaning(path, selection, first_look(columns, first_cells, FEW, percent=options.percent), options)
    return selection


def _is_doubtful(selection: ColumnSelection, columns: Sequence[str], options: Options) -> bool:
    """Whether the names alone allow another reading of columns that no option names."""
    target, single = selection.targets[0], len(selection.probs) == 1
    if options.models or len(selection.targets) > 1:
        return False
    if single and not options.name_scores and role_of(selection.probs[0]) == "predicted":
        return True
    if options.outcome is not None or options.target is not None:
        return False
    others = (role_of(name) for name in columns if name not in selection.used)
    return role_of(target) in ("right", "label") or (single and "predicted" in others)


class _Question(NamedTuple):
    """A question about columns with usual names: what is in doubt, the readings that are allowed, and what to do."""

    problem: str
    readings: list[ColumnReading]
    remedy: str = "choose what the columns mean"


def _check_meaning(path: str, selection: ColumnSelection, seen: Candidates, options: Options) -> None:
    """Raise the question that a file needs though its columns have usual names, unless one reading is left."""
    target, score, one_event = selection.targets[0], selection.probs[0], len(selection.probs) == 1
    if one_event and role_of(score) == "predicted" and score in seen.outcomes and len(seen.labels(score)) > 1:
        problem = f"{quoted(score)} has only two values, like a predicted label"
        reading = ColumnReading({"--score": score}, f"if {quoted(score)} holds probabilities", always=True)
        raise _asking(path, problem, "name the column of probabilities", [reading], selection.noun)
    if options.outcome is not None or options.target is not None:
        return
    if one_event and score not in seen.lists:
        usual = ColumnReading({"--outcome": target}, f"if {quoted(target)} holds the true outcome")
        question = _question_of_event(score, usual, Readings(seen, options), selection.noun)
    else:
        usual = ColumnReading({"--target": target}, f"if {quoted(target)} holds the true class")
        question = _question_of_classes(selection.probs, usual, seen, options)
    if [(each.options[-2:], each.always) for each in question.readings] != [(usual.options, False)]:
        raise _asking(path, question.problem, question.remedy, question.readings, selection.noun)


def _question_of_classes(probs: Sequence[str], usual: ColumnReading, seen: Candidates, options: Options) -> _Question:
    """Return the question about the target of columns of classes; ``usual`` reads it as the true class."""
    target, problem, readings = usual.values["--target"], "", [usual]
    allowed = Readings(seen, replace(options, probs=",".join(probs))).readings()
    if role_of(target) == "right":
        problem = f"{quoted(target)} shows whether a prediction was correct, not the true class"
        readings = allowed or [replace(usual, always=True)]
    elif seen.follows(probs, target):
        problem = f"{quoted(target)} has the largest probability in every row, so it may be the predicted class"
        readings = allowed or [usual]
    return _Question(problem, readings)


def _question_of_event(score: str, usual: ColumnReading, found: Readings, noun: str) -> _Question:
    """Return the question about the target of a score; ``usual`` reads it as the true outcome."""
    target, seen = usual.values["--outcome"], found.seen
    role = role_of(target)
    if role == "right":
        below = f"{quoted(score)} is below 0.5 in some rows"
        problem = f"{below}, but {quoted(target)} shows whether a prediction was correct"
        return _Question(problem, found.of_right(score, target))
    if score not in seen.scores:
        return _Question("", [usual])
    if in_rows := found.of_rows(score):
        return _Question(f"each case has a row for each class in {quoted(target)}", in_rows)
    readings = found.of_scores([score], found.truths if role == "label" else [target]) or [usual]
    is_only = [each.options[-2:] for each in readings] == [usual.options]
    if is_only and role == "label" and seen.may_be_of(score, target):
        problem = f"{quoted(score)} may be the probability of the predicted label {quoted(target)}"
        problem = f"{problem}, but no {noun} looks like the true values"
        remedy = f"add a {noun} with the true values, and pass its name"
        return _Question(problem, [replace(usual, always=True)], remedy)
    return _Question(f"{quoted(score)} may be the probability of a predicted label", readings)


def _asking(path: str, problem: str, remedy: str, readings: Sequence[ColumnReading], noun: str) -> Unnamed:
    """Return an error that proposes the only reading, or lists several.

    Arrays have one option for the probabilities of events and classes, another for their truths, and no SQL.
    """
    if noun != "column":
        names = {"--score": "--probs", "--outcome": "--target"}
        plain = [each for each in readings if not each.sql]
        readings = [
            replace(each, values={names.get(option, option): value for option, value in each.values.items()})
            for each in plain
        ]
    if not readings:
        return Unnamed(path, problem, "save an array of outcomes, 1 for a correct prediction and 0 otherwise")
    if len(readings) == 1 and not readings[0].always:
        return Unnamed(path, problem, f"{remedy}; name the right columns, such as", readings[0].words)
    if len(readings) > LISTED:
        options = [each for each in readings[0].values if each in ("--score", "--probs", "--outcome", "--target")]
        return Unnamed(path, problem, f"{remedy}; name the right columns with {' and '.join(options)}")
    return Unnamed(path, problem, remedy, readings=tuple(readings))
