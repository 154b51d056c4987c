"""Which columns may be meant: looked for in the first rows, to word an error or a question.

Nothing is read as what it looks like: the error proposes options, and the user types them or others. The names of
columns and their first rows allow some readings, and each of them is a `ColumnReading`. These exclude one:

- a column whose name says that it is predicted, or whether a prediction was right, is not the outcome;
- a column that is the predicted class of the scores in every row is not, if another one may be;
- a name that says it is true comes before one that is alike, that before one of an outcome, that before values alone;
- two columns that add up to 1 are one event, and the score is that of the event's label;
- a score below 1 / C in some row is not the probability of a predicted class of C;
- where scores below and above a threshold are of different predicted labels, the score may be that of the event; if
  no threshold does, and the scores may be those of the predicted labels, it is not.

One reading that is left is proposed, and several are listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.errors import quoted
from calibrant.files.columns import ColumnReading, ColumnSelection, Options, Unnamed
from calibrant.files.likely import (
    ROUNDING,
    Likely,
    event_of,
    fraction,
    is_about_a_prediction,
    look,
    order_of,
    says_confidence,
    says_label,
    says_predicted,
    says_right,
    says_true,
)
from calibrant.files.sql import literal, sql_name

_NAMED: Final = 6  # columns of a kind that an error names
_LISTED: Final = 4  # readings that an error lists
_PAIRS: Final = 10_000  # of a score and an outcome that are compared
_SURE: Final = 10  # rows that show that a column follows the scores
_SCORE: Final = re.compile(r"prob|score|pred|risk|chance|conf|forecast|^p(_|$)|_p$", re.IGNORECASE)
_OUTCOME: Final = re.compile(
    r"outcome|label|target|true|truth|actual|obs|result|won|win|event|hit|class|^y(_|$)", re.IGNORECASE
)


# ---------------------------------------------------------------- proposals and questions


def proposed(error: Unnamed, likely: Likely, options: Options, noun: str = "column") -> Unnamed:
    """Return the error with the readings that the file allows, if there are any; else the same error."""
    if error.options:
        return error
    readings = _readings(likely, options)
    if readings:
        return _asking(error.path, error.problem, _kinds_in_words(likely, readings, options), readings, noun)
    remedy = _unmatched(likely, options)
    return Unnamed(error.path, error.problem, remedy) if remedy else error


def is_doubtful(selection: ColumnSelection, columns: Sequence[str], options: Options) -> bool:
    """Whether the names alone allow another reading of columns that no option names."""
    target, single = selection.targets[0], len(selection.probs) == 1
    if options.models or len(selection.targets) > 1:
        return False
    if single and options.score is None and options.probs is None and says_predicted(selection.probs[0]):
        return True
    if options.outcome is not None or options.target is not None:
        return False
    others = (name for name in columns if name not in selection.used)
    return says_right(target) or says_label(target) or (single and any(map(says_predicted, others)))


def ask(path: str, selection: ColumnSelection, likely: Likely, options: Options) -> None:
    """Raise the question that a file needs though its columns have usual names, unless one reading is left."""
    target, score, one_event = selection.targets[0], selection.probs[0], len(selection.probs) == 1
    if options.percent:
        fractions = {name: list(map(fraction, likely.cells[name])) for name in selection.probs}
        likely = look({**likely.cells, **fractions})
    if one_event and says_predicted(score) and score in likely.outcomes and len(likely.words(score)) > 1:
        problem = f"{quoted(score)} has only two values, like a predicted label"
        reading = ColumnReading(("--score", score), f"if {quoted(score)} holds probabilities", always=True)
        raise _asking(path, problem, "name the column of probabilities", [reading], selection.noun)
    if options.outcome is not None or options.target is not None:
        return
    usual = ColumnReading(("--outcome", target), f"if {quoted(target)} holds the true outcome")
    problem, remedy, readings = "", "choose the meaning of the columns", [usual]
    if not one_event or score in likely.rows:
        usual = ColumnReading(("--target", target), f"if {quoted(target)} holds the true class")
        problem, readings = _question_of_classes(likely, selection, options, usual)
    elif says_right(target):
        problem = (
            f"{quoted(score)} is below 0.5 in some rows, but {quoted(target)} shows whether a prediction was correct"
        )
        readings = _of_right(likely, score, target, percent=options.percent)
    elif score in likely.scores:
        problem, remedy, readings = _question_of_score(likely, selection, options, usual)
    if [(reading.options[-2:], reading.always) for reading in readings] != [(usual.options, False)]:
        raise _asking(path, problem, remedy, readings, selection.noun)


def _question_of_score(
    likely: Likely, selection: ColumnSelection, options: Options, usual: ColumnReading
) -> tuple[str, str, list[ColumnReading]]:
    """Return what may be wrong with the target of a score, the remedy, and the readings; the usual one if nothing."""
    target, score = selection.targets[0], selection.probs[0]
    truths = _truths(likely, options) if says_label(target) else [target]
    readings = _of_scores(likely, [score], truths, options) or [usual]
    if not _is_predicted_alone(likely, score, target, readings):
        problem = f"{quoted(score)} may be the probability of a predicted label"
        return problem, "choose the meaning of the columns", readings
    predicted = f"{quoted(score)} may be the probability of the predicted label {quoted(target)}"
    problem = f"{predicted}, but no {selection.noun} looks like the true values"
    return (
        problem,
        f"add a {selection.noun} with the true values, and name this {selection.noun}",
        [replace(usual, always=True)],
    )


def _is_predicted_alone(likely: Likely, score: str, target: str, readings: Sequence[ColumnReading]) -> bool:
    """Whether the only truth that is left is named as a label, and may be the predicted label of the score."""
    only = len(readings) == 1 and readings[0].options[-2:] == ("--outcome", target)
    return only and says_label(target) and _may_be_of(likely, score, target)


def _question_of_classes(
    likely: Likely, selection: ColumnSelection, options: Options, usual: ColumnReading
) -> tuple[str, list[ColumnReading]]:
    """Return what may be wrong with the target of columns of classes, and the readings; the usual one if nothing."""
    target, asked = selection.targets[0], replace(options, probs=",".join(selection.probs))
    if says_right(target):
        problem = f"{quoted(target)} shows whether a prediction was correct, not the true class"
        return problem, _readings(likely, asked) or [replace(usual, always=True)]
    if _follows(likely, selection.probs, target):
        problem = f"{quoted(target)} has the largest probability in every row, so it may be the predicted class"
        return problem, _readings(likely, asked) or [usual]
    return "", [usual]


def best_pair(scores: Sequence[str], outcomes: Sequence[str], likely: Likely) -> tuple[str, str] | None:
    """Return the score and the outcome that belong together most likely; None where no pair does, or several do."""
    pairs = _best_pairs(scores, [name for name in outcomes if not says_predicted(name)], likely)
    return pairs[0] if len(pairs) == 1 else None


def _asking(path: str, problem: str, remedy: str, readings: Sequence[ColumnReading], noun: str) -> Unnamed:
    """Return an error that proposes the only reading, or lists several.

    Arrays have one option for the probabilities of events and classes, another for their truths, and no SQL.
    """
    if noun != "column":
        names = {"--score": "--probs", "--outcome": "--target"}
        plain = [each for each in readings if not each.sql]
        readings = [replace(each, options=tuple(names.get(word, word) for word in each.options)) for each in plain]
    if not readings:
        return Unnamed(path, problem, "save an array of outcomes, 1 for a correct prediction and 0 otherwise")
    if len(readings) == 1 and not readings[0].always:
        return Unnamed(path, problem, f"{remedy}; name the right columns, such as", readings[0].options)
    if len(readings) > _LISTED:
        options = [word for word in readings[0].options[::2] if word in ("--score", "--probs", "--outcome", "--target")]
        return Unnamed(path, problem, f"{remedy}; name the right columns with {' and '.join(options)}")
    return Unnamed(path, problem, remedy, readings=tuple(readings))


def _kinds_in_words(likely: Likely, readings: Sequence[ColumnReading], options: Options) -> str:
    """Return which columns may hold what."""
    values = dict(zip(readings[0].options[::2], readings[0].options[1::2], strict=True))
    truths = _truths(likely, options)
    kinds: list[tuple[str, Sequence[str]]] = []
    if "--probs" in values:
        kinds.append(("probabilities of classes", likely.rows or values["--probs"].split(",")))
    elif "--score" in values:
        kinds.append(("probabilities", likely.scores))
    if "--outcome" in values and not readings[0].sql:
        kinds.append(("outcomes", [name for name in truths if name in likely.outcomes]))
    elif "--target" in values:
        kinds.append(("labels", values["--target"].split(",") if "," in values["--target"] else truths))
    words = [f"{what} in {_some(names)}" for what, names in kinds]
    if kinds and kinds[-1][0] in ("outcomes", "labels") and not all(each.is_named for each in readings):
        words[-1] += " (a guess from the values)"
    return "; ".join(words).replace(" in ", " may be in ", 1) or "the columns can be read in several ways"


def _unmatched(likely: Likely, options: Options) -> str:
    """Return what to do about columns of classes without a true class, or with one whose labels they do not name."""
    columns = next((table for table in likely.tables if len(table) > 2), ())
    if not columns or _taken(options) - {None} or options.probs is not None:
        return ""
    probs = f"probabilities of classes may be in {_some(columns)} (--probs {','.join(columns)})"
    target = next((name for name in _truths(likely, options) if _fits(likely, columns, name)), None)
    if target is None:
        return (
            f"{probs}, but no column looks like the true class; add a column of true classes, and name it with --target"
        )
    labels = f"write {_some(likely.words(target))} in the order of the columns"
    order = f"the names do not show the order of the labels; with --labels, {labels}"
    return f"{probs}, labels in {target} (--target {target}); {order}"


# ---------------------------------------------------------------- readings


def _readings(likely: Likely, options: Options) -> list[ColumnReading]:
    """Return the readings that names and values allow, each as the options that are not yet there."""
    truth = options.outcome or options.target
    stated = {("--score", options.score), ("--probs", options.probs), ("--outcome", truth), ("--target", truth)}
    stated |= {("--score", name) for name in options.models}
    readings: dict[tuple[str, ...], ColumnReading] = {}
    for reading in _all_readings(likely, options):
        pairs = zip(reading.options[::2], reading.options[1::2], strict=True)
        left = tuple(word for pair in pairs if pair not in stated for word in pair)
        readings.setdefault(left, replace(reading, options=left))
    return [reading for left, reading in readings.items() if left]


def _all_readings(likely: Likely, options: Options) -> list[ColumnReading]:
    truth = options.outcome or options.target
    truths = _truths(likely, options) if truth is None else [truth] * (truth in likely.cells)
    if options.score is not None:  # of an expression, the values are not known here
        return _of_scores(likely, [options.score], truths, options) if options.score in likely.cells else []
    if options.models:
        return _of_scores(likely, list(options.models), truths, options)
    if options.probs is not None:
        return _of_classes(likely, [name.strip() for name in options.probs.split(",")], truths, options)
    labels = _multilabel(likely) if truth is None else []
    return labels or _of_free_columns(likely, truths, options)


def _of_free_columns(likely: Likely, truths: Sequence[str], options: Options) -> list[ColumnReading]:
    """Return the readings of free columns: as classes, else as an event and its complement, else as scores."""
    free = [name for name in likely.scores if name not in _taken(options)]
    tables = [table for table in likely.tables if set(table) <= set(free)]
    wide = [table for table in tables if len(table) > 2]
    candidates = list(zip(likely.rows, strict=True)) or wide
    readings = [each for columns in candidates for each in _of_classes(likely, columns, truths, options)]
    if readings or wide:
        return readings
    readings = [each for pair in tables for each in _of_complements(likely, pair, truths)]
    if readings:
        return readings
    named = [name for name in free if _SCORE.search(name) or _alike(name, truths)]
    return _of_scores(likely, named or free, truths, options)


def _taken(options: Options) -> set[str | None]:
    """Return the columns that the options name."""
    names = (options.score, options.outcome, options.target, options.weight)
    return {*names, *options.by, *options.models, *options.clusters, *options.on}


def _truths(likely: Likely, options: Options) -> list[str]:
    """Return the columns that may hold the truth."""
    taken = _taken(options)
    return [
        name for name in (*likely.labels, *likely.outcomes) if name not in taken and not is_about_a_prediction(name)
    ]


def _of_scores(likely: Likely, scores: Sequence[str], truths: Sequence[str], options: Options) -> list[ColumnReading]:
    """Return the readings of scores of one event, or of the label that was predicted."""
    predicted = [name for name in (*likely.labels, *likely.outcomes) if says_predicted(name)]
    if len(scores) == 1:
        guesses = _guesses(likely, scores, truths)
        truths, predicted = [name for name in truths if name not in guesses], [*predicted, *guesses]
    pairs = _best_pairs(scores, _fitting(likely, scores, truths, predicted), likely)[: 2 * _LISTED]
    readings = [each for score, truth in pairs for each in _of_pair(likely, score, truth, truths, predicted)]
    if options.models or options.percent:  # models are columns, and the expressions are of fractions
        readings = [each for each in readings if each.options[1] in scores]
    if len(scores) != 1:
        return readings
    return _with_right(likely, scores[0], [truth for _, truth in pairs], readings, _taken(options))


def _with_right(
    likely: Likely, score: str, truths: Sequence[str], readings: list[ColumnReading], taken: Collection[str | None]
) -> list[ColumnReading]:
    """Return the readings of a score, also next to columns with whether a prediction was correct."""
    right = [name for name in likely.outcomes if says_right(name) and name not in taken]
    of_right = [each for name in right for each in _of_right(likely, score, name)]
    if right and any(says_label(name) and _follows(likely, [score], name) for name in truths):
        return of_right
    sure = any(
        _is_named_so(score, name) and not (says_label(name) and _may_be_of(likely, score, name)) for name in truths
    )
    return readings if sure else [*of_right, *readings]


def _fitting(likely: Likely, scores: Sequence[str], truths: Sequence[str], predicted: Sequence[str]) -> list[str]:
    """Return the truths that scores may be about: outcomes, two labels, or more labels and the predicted one.

    Whether two other numbers than 0 and 1 are labels, the name of their column decides.
    """
    several = {label for name in predicted if len(likely.words(name)) > 2 for label in likely.words(name)}
    return [
        name
        for name in truths
        if name in likely.outcomes
        or (len(likely.words(name)) <= 2 and any(_is_named_so(score, name) for score in scores))
        or (len(scores) == 1 and several.intersection(likely.words(name)))
    ]


def _of_pair(
    likely: Likely, score: str, truth: str, truths: Sequence[str], predicted: Sequence[str]
) -> list[ColumnReading]:
    """Return the readings of a score next to a true label: its probability, or that of the predicted label.

    Of columns that do not say that they are predicted, those named as labels may be, and where the truth does not say
    that it is one, those that are as likely the truth.
    """
    named = _is_named_so(score, truth)
    case = f"if {quoted(score)} is the probability of {quoted(truth)}"
    event = ColumnReading(("--score", score, "--outcome", truth), case, is_named=named)
    readings = [event] if truth in likely.outcomes or len(likely.words(truth)) <= 2 else []
    guesses, rivals = _predicted_labels(likely, score, truth, truths, predicted)
    for guess in guesses:
        words, guess_words = set(likely.words(truth)), set(likely.words(guess))
        if event in readings and not _may_be_of(likely, score, guess):
            continue
        if event in readings and guess not in rivals and not _follows(likely, [score], guess):
            readings.remove(event)
        one, other = (truth, guess) if says_label(truth) and guess in rivals else (guess, truth)
        doubt = "" if guess not in rivals or says_label(truth) else f" or {quoted(other)}"
        case = f"if {quoted(score)} is the probability of the predicted label {quoted(one)}{doubt}"
        right = f"{sql_name(one)} = {sql_name(other)}"
        readings.append(ColumnReading(("--score", score, "--outcome", right), case, is_named=named, sql=True))
        if not doubt and len(words) == len(guess_words) == 2 == len(words & guess_words):
            readings += [
                ColumnReading(options, f"{case}, as the probability of the event", is_named=named, sql=True)
                for options in _as_event(likely, score, other, one)
            ]
    return readings


def _predicted_labels(
    likely: Likely, score: str, truth: str, truths: Sequence[str], predicted: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the columns that may hold the predicted labels next to a truth, and which of them may be the truth."""
    others = [name for name in truths if name != truth and _may_be_of(likely, score, name)]
    labels = [name for name in others if says_label(name)]
    rivals = [] if says_true(truth) or labels else _best(others, [score], likely)
    words = set(likely.words(truth))
    guesses = [
        name
        for name in dict.fromkeys((*predicted, *labels, *rivals))
        if not words.isdisjoint(likely.words(name))
        and (name in predicted or len(words) > 2 or words == set(likely.words(name)))
    ]
    return guesses, rivals


def _as_event(likely: Likely, score: str, truth: str, predicted: str) -> list[tuple[str, ...]]:
    """Return the options that read a score of the predicted label as that of the event; of each label if unknown."""
    words, name = likely.words(truth), sql_name(score)
    return [
        (
            *("--score", f"CASE WHEN {_equals(predicted, event)} THEN {name} ELSE 1 - {name} END", "--outcome", truth),
            *(() if event in ("1", "true") else ("--labels", f"{other},{event}")),
        )
        for other, event in (words, words[::-1])
        if event_of(words) in (None, event)
    ]


def _equals(name: str, label: str) -> str:
    """Return the SQL that a column holds a label."""
    column = sql_name(name)
    return {"1": f"{column} = 1", "true": column}.get(label, f"{column} = {literal(label)}")


def _of_right(likely: Likely, score: str, right: str, *, percent: bool = False) -> list[ColumnReading]:
    """Return the readings of a score next to a column with whether a prediction was correct."""
    answer = ColumnReading(
        ("--score", score, "--outcome", right), f"if {quoted(score)} is the probability that {quoted(right)} is true"
    )
    words = likely.words(right)
    yes = event_of(words)
    if score not in likely.scores or yes is None or says_confidence(score) or np.nanmin(likely.numbers(score)) >= 0.5:
        return [answer]
    if percent:  # the expressions compare fractions
        return [replace(answer, always=True)]
    event = ("--score", score, "--outcome", f"({sql_name(score)} >= 0.5) = ({_equals(right, yes)})")
    case = f"if {quoted(score)} is the probability of an event that was predicted at 0.5 or more"
    return [
        ColumnReading(event, case, sql=True),
        ColumnReading(
            (*event, "--notion", "top-label"),
            f"{case}, to evaluate the larger of this probability and its complement",
            sql=True,
        ),
        answer,
    ]


def _of_complements(likely: Likely, columns: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
    """Return the readings of two columns that add up to 1, as the score of the event."""
    guesses = _guesses(likely, columns, truths)
    fitting = [name for name in truths if name not in guesses and len(likely.words(name)) == 2]
    readings = []
    for truth in _best(fitting, columns, likely):
        order = order_of(columns, likely.words(truth)) or ()
        event = event_of(likely.words(truth))
        for label in [each for each in order if event in (None, each)]:
            score, (other,) = columns[order.index(label)], [each for each in order if each != label]
            labels = () if label in ("1", "true") else ("--labels", f"{other},{label}")
            named = any(_is_named_so(name, truth) for name in columns)
            case = f"if {quoted(label)} of {quoted(truth)} is the event"
            readings.append(ColumnReading(("--score", score, "--outcome", truth, *labels), case, is_named=named))
    return readings


def _of_classes(likely: Likely, columns: Sequence[str], truths: Sequence[str], options: Options) -> list[ColumnReading]:
    """Return the readings of columns of classes, or of one column of lists."""
    guesses = _guesses(likely, columns, truths)
    fitting = [name for name in truths if name not in guesses]
    if len(columns) > 1 and options.probs is None and options.target is None:
        fitting = [name for name in fitting if _fits(likely, columns, name)]
    readings = []
    for truth in _best(fitting, columns, likely):
        words = likely.words(truth)
        reading = ColumnReading(
            ("--probs", ",".join(columns), "--target", truth),
            f"if {quoted(truth)} holds the true class",
            is_named=_fits(likely, columns, truth),
        )
        if len(columns) > 1 and options.labels is None and options.class_names is None:
            order = order_of(columns, words)
            if order is None and not {*words} <= {str(k) for k in range(len(columns))}:
                continue
            if order is None:
                reading = replace(
                    reading,
                    case=f"if value 0 in {quoted(truth)} is the class of column {quoted(columns[0])}, and so on",
                    always=True,
                )
            elif order != tuple(str(k) for k in range(len(columns))):
                reading = replace(reading, options=(*reading.options, "--labels", ",".join(order)))
        readings.append(reading)
    return readings


def _multilabel(likely: Likely) -> list[ColumnReading]:
    """Return the reading of several labels' scores, each with its outcome: ``prob_toxic`` and ``toxic``, and so on."""
    of_words: dict[str, list[tuple[str, str]]] = {}
    for score in likely.scores:
        for outcome in likely.outcomes:
            if outcome != score and outcome in score:
                of_words.setdefault(score.replace(outcome, "*", 1), []).append((score, outcome))
    pairs = max(of_words.values(), key=len, default=[])
    if len(pairs) < 2:
        return []
    scores, targets = zip(*pairs, strict=True)
    notion = () if scores in likely.tables and len(scores) > 2 else ("--notion", "multilabel")  # else one-hot
    return [ColumnReading(("--probs", ",".join(scores), "--target", ",".join(targets), *notion))]


# ---------------------------------------------------------------- evidence


def _best(truths: Sequence[str], scores: Sequence[str], likely: Likely) -> list[str]:
    """Return those of the columns that are the truth most likely, by their names."""
    ranks = {name: min(_rank(likely, score, name) for score in scores) for name in truths}
    if len(scores) > 1:  # columns of classes, which the true class names
        ranks = {
            name: (rank[0], order_of(scores, likely.words(name)) is None, *rank[1:]) for name, rank in ranks.items()
        }
    first = min(ranks.values(), default=None)
    return [name for name in truths if ranks[name] == first]


def _rank(likely: Likely, score: str, truth: str) -> tuple[bool, ...]:
    """Order columns by how likely they are the truth of a score."""
    return (
        not says_true(truth),
        not _are_alike(score, truth),
        not _OUTCOME.search(truth),
        len(likely.words(truth)) < 2,
    )


def _best_pairs(scores: Sequence[str], outcomes: Sequence[str], likely: Likely) -> list[tuple[str, str]]:
    """Return the pairs of a score and an outcome that belong together most likely, each event once.

    They are not a pair if only one of them is named like a third column: ``prob_insult`` and ``toxic``
    where there is ``insult``.
    """
    if len(scores) * len(outcomes) > _PAIRS:  # no name is likely to decide
        return []
    events = [name for name in likely.outcomes if not is_about_a_prediction(name)]
    outcomes_of = {score: _alike(score, events) for score in scores}
    scores_of = {name: _alike(name, likely.scores) for name in outcomes}
    pairs = [
        (score, name)
        for score in scores
        for name in outcomes
        if score != name and (_are_alike(score, name) or not (outcomes_of[score] - {name} or scores_of[name] - {score}))
    ]
    ranks = {pair: (*_rank(likely, *pair), not _SCORE.search(pair[0])) for pair in pairs}
    first = min(ranks.values(), default=None)
    best = [pair for pair in pairs if ranks[pair] == first][: 4 * _LISTED]  # more than an error lists
    return [pair for place, pair in enumerate(best) if not any(_are_complements(likely, pair, b) for b in best[:place])]


def _alike(name: str, others: Sequence[str]) -> set[str]:
    """Return the other columns that are named like one."""
    return {other for other in others if other != name and _are_alike(name, other)}


def _are_complements(likely: Likely, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two pairs are one event and that it does not occur."""
    for name, rest in zip(one, other, strict=True):
        sums = likely.numbers(name) + likely.numbers(rest)
        if np.isnan(sums).all() or np.nanmax(np.abs(sums - 1)) > ROUNDING:
            return False
    return True


def _guesses(likely: Likely, columns: Sequence[str], truths: Sequence[str]) -> list[str]:
    """Return the columns that follow the scores in every row, and so are predicted, where another may be the truth."""
    follow = [name for name in truths if not says_true(name) and _follows(likely, columns, name)]
    labels = {word for name in truths if name not in follow for word in likely.words(name)}
    return [name for name in follow if labels.intersection(likely.words(name))]


def _follows(likely: Likely, columns: Sequence[str], name: str) -> bool:
    """Whether a column is the class of the largest probability, or of a score beyond a threshold, in every row."""
    words, texts = likely.words(name), np.array(likely.texts(name), dtype=object)
    if len(words) < 2 or len(texts) < _SURE or not set(columns) <= set(likely.scores):
        return False
    table = np.array([likely.numbers(column) for column in columns])
    if len(columns) == 1:
        parts = [table[0][texts == word] for word in words]
        return len(words) == 2 and (parts[0].max() < parts[1].min() or parts[1].max() < parts[0].min())
    order = order_of(columns, words)
    if order is None:
        return False
    chosen = [table[order.index(text), row] if text else np.nan for row, text in enumerate(texts)]
    return bool(np.all(np.isnan(chosen) | (chosen >= table.max(axis=0) - ROUNDING)))


def _may_be_of(likely: Likely, score: str, label: str) -> bool:
    """Whether a score may be that of a predicted label: the probability of the likeliest of C is 1 / C or more."""
    count = len(likely.words(label))
    return count > 1 and bool(np.nanmin(likely.numbers(score)) >= 1 / count - ROUNDING)


def _fits(likely: Likely, columns: Sequence[str], target: str) -> bool:
    """Whether a column may be the true class of columns of probabilities: by its name, or because it names them."""
    return bool(_OUTCOME.search(target)) or says_true(target) or order_of(columns, likely.words(target)) is not None


def _are_alike(score: str, outcome: str) -> bool:
    """Whether one of two names holds the other: ``prob_toxic`` and ``toxic``."""
    short, long = sorted((score.lower(), outcome.lower()), key=len)
    return short in long and len(short) >= 3 and not _SCORE.fullmatch(short)


def _is_named_so(score: str, truth: str) -> bool:
    """Whether the name of a truth says that it is one, and not its values alone."""
    return says_true(truth) or bool(_OUTCOME.search(truth)) or _are_alike(score, truth)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
