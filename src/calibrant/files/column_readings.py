"""The readings of columns that rules for names and values allow.

Tables say what a name means (`USUAL`, `WORDS`) and what values are (`Candidates`). Each pair of
columns that they allow is a `ColumnReading`. These exclude one:

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

import math
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Final

import numpy as np

from calibrant.errors import quoted
from calibrant.files.class_names import event_of, has_event, order_of, words_of
from calibrant.files.column_kinds import Candidates, is_like_scores
from calibrant.files.column_options import ColumnReading, Options
from calibrant.files.column_words import (
    HORIZON,
    LIKE_OUTCOMES,
    LIKE_SCORES,
    OF_A_PREDICTION,
    QUANTILES,
    WORDS,
    has_word,
    role_of,
)
from calibrant.files.same_labels import classes_in_rows, equality, label_of
from calibrant.files.sql import joined_conditions, literal, sql_name, sql_option

_NAMED: Final = 6  # columns of a kind that an error names
LISTED: Final = 4  #: readings that an error lists
_LONG: Final = 20  # names of columns, for which a pattern stands
_PAIRS: Final = 10_000  # of a score and an outcome that are compared


class Readings:
    """The readings of columns by their names and values, next to what options name."""

    def __init__(self, seen: Candidates, options: Options) -> None:
        self.seen = seen
        self.options = options
        named = (options.score, options.outcome, options.target, options.weight)
        self.taken = {*named, *options.by, *options.models, *options.clusters, *options.on}
        #: The columns that may hold the truth.
        self.truths = [
            name
            for name in (*seen.classes, *seen.outcomes)
            if name not in self.taken and role_of(name) not in OF_A_PREDICTION
        ]

    def readings(self) -> list[ColumnReading]:
        """Return the readings that names and values allow, each as the options that are not yet there."""
        readings: dict[tuple[str, ...], ColumnReading] = {}
        for reading in (self._left(each) for found in self._all() for each in self._with_event(found)):
            score = reading.values.get("--score", self.options.score)
            is_computed = score is not None and score not in self.seen.cells
            if reading.words and not (reading.flags and is_computed):  # an expression computes with plain fractions
                readings.setdefault(reading.words, reading)
        return list(readings.values())

    def _left(self, reading: ColumnReading) -> ColumnReading:
        """Return a reading with the options that are not yet there, and how its numbers are written."""
        options, truth = self.options, self.options.outcome or self.options.target
        stated = {("--score", options.score), ("--probs", options.probs), ("--outcome", truth), ("--target", truth)}
        stated |= {("--score", name) for name in options.models}
        stated |= {("--odds", options.odds), ("--labels", ",".join(options.labels or ()))}
        given = {"--percent": options.percent, "--decimal-comma": options.decimal_comma}
        values = dict(reading.values)
        named = [name for option in ("--score", "--probs") if option in values for name in values[option].split(",")]
        flags = dict.fromkeys(flag for name in named for flag in self.seen.flags.get(name, ()) if not given[flag])
        flags |= dict.fromkeys(reading.flags)
        if "--score" in values:
            values["--score"] = self._sql(values["--score"])
        if "--probs" in values:
            if set(named) <= set(self.seen.logs):
                flags["--logits"] = None  # the softmax of logarithms of probabilities
            values["--probs"] = self._short(values["--probs"])
        left = {option: value for option, value in values.items() if (option, value) not in stated}
        return replace(reading, values=left, flags=tuple(flags))

    def _short(self, names: str) -> str:
        """Return the pattern of many numbered columns; else their names."""
        columns = names.split(",")
        start = _common_beginning(columns)
        numbers = {name[len(start) :] for name in columns}
        are_numbered = len(columns) > _LONG and numbers == {*map(str, range(len(columns)))}
        return self._pattern(columns) if are_numbered else names

    def _sql(self, score: str) -> str:
        """Return the name of a score; of logarithms of probabilities, the SQL of the probabilities."""
        return f"exp({sql_name(score)})" if score in self.seen.logs else score

    def _fraction(self, score: str) -> str:
        """Return the SQL of a score's probability."""
        return self._sql(score) if score in self.seen.logs else sql_name(score)

    def says_how(self, reading: ColumnReading) -> bool:
        """Whether a reading says how numbers are written, so that they are probabilities."""
        if "--odds" in reading.values:
            return True
        scores = (self.options.score, *self.options.models, *(self.options.probs or "").split(","))
        return bool(reading.flags) and {*filter(None, scores)} <= set(self.seen.scores)

    def is_named(self, reading: ColumnReading) -> bool:
        """Whether the name of a reading's score, or of its classes, says that they are probabilities."""
        scores = reading.values.get("--score", reading.values.get("--probs"))
        return scores is None or any(map(is_like_scores, scores.split(",")))

    def of_percent(self) -> Readings:
        """Return the readings in which numbers up to 100 may be per cents."""
        return Readings(Candidates(self.seen.cells, percent=True), self.options)

    def _all(self) -> list[ColumnReading]:
        """Return the readings of the columns that options name, else of free ones."""
        seen, options, truth = self.seen, self.options, self.options.outcome or self.options.target
        truths = self.truths if truth is None else [truth] * (truth in seen.cells)
        if options.score is not None:  # of an expression, the values are not known here
            return self.of_scores([options.score], truths) if options.score in seen.cells else []
        if options.models:  # a pattern stands for several columns
            return self.of_scores(list(options.models), truths) if seen.cells.keys() >= {*options.models} else []
        if options.probs is not None:
            return self._of_classes([name.strip() for name in options.probs.split(",")], truths)
        return (self._multilabel() if truth is None else []) or self._of_free(truths)

    def _of_free(self, truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of free columns: classes, else an event and its complement, else scores."""
        free = [name for name in self.seen.scores if name not in self.taken]
        tables = [table for table in self.seen.tables if set(table) <= set(free)]
        wide = [table for table in tables if len(table) > 2]
        lists = [name for name in self.seen.lists if name not in self.seen.one_hot] or self.seen.lists
        candidates = list(zip(lists, strict=True)) or wide
        of_classes = [self._of_classes(columns, truths) + self._of_one_hot(columns) for columns in candidates]
        readings = [each for found in of_classes for each in _of_one_split(found)]
        if wide and not readings:
            readings = [each for table in wide if len(table) == 3 for each in self._of_sides(table)]
        return readings if readings or wide else self._of_single(free, tables, truths)

    def _of_one_hot(self, columns: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a column of lists next to lists with a 1 for the true class."""
        return [
            ColumnReading({"--probs": columns[0], "--target": name}, f"if {quoted(name)} holds the true class")
            for name in self.seen.one_hot
            if columns[0] in self.seen.lists and name != columns[0] and name not in self.taken
        ]

    def _of_single(
        self, free: Sequence[str], pairs: Sequence[Sequence[str]], truths: Sequence[str]
    ) -> list[ColumnReading]:
        """Return the readings of an event and its complement, else of scores, else of odds, else of counts."""
        named = [name for name in free if is_like_scores(name) or _alike(name, truths)]
        readings = [each for name in (named or free)[:LISTED] for each in self.of_rows(name)]
        readings = readings or [each for pair in pairs for each in self._of_complements(pair, truths)]
        readings = readings or self.of_scores(named or free, truths)
        readings = readings or [each for odds in self.seen.odds for each in self._of_classes(odds, truths)]
        readings = readings or self._of_counts((named or free)[:LISTED]) or self._of_odds(truths)
        readings = readings or self._of_logits(truths)
        return readings or [each for pair in pairs for each in self._of_sides(pair)]

    def _of_logits(self, truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of numbered columns with negative and positive numbers, such as ``out_0``, as logits."""
        groups: dict[str, list[str]] = {}
        for name in self.seen.cells:
            if match := re.fullmatch(r"(.*?)([0-9]+)", name):
                groups.setdefault(match[1], []).append(name)
        readings = self._of_log_odds(truths)
        for columns in groups.values():
            table = np.array([self.seen.numbers(name) for name in columns])
            if len(columns) < 2 or self.taken.intersection(columns) or not table.min() < 0 < table.max():
                continue
            if np.all(table == np.floor(table)):
                continue
            case = f"if {_some(columns)} are the logits of the classes"
            found = [each for truth in truths for each in self._of_classes(columns, [truth])]
            readings += [replace(each, case=case, always=True, flags=("--logits",)) for each in found]
        return readings

    def _of_log_odds(self, truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a column whose name and numbers say that it may be the log-odds of one event."""
        return [
            ColumnReading(
                {"--score": name, "--outcome": truth},
                f"if {quoted(name)} is the log-odds of the event in {quoted(truth)}",
                always=True,
                flags=("--logits",),
            )
            for name in self.seen.cells
            if has_word(name, "log-odds") and self.seen.numbers(name).min() < 0 < self.seen.numbers(name).max()
            for truth in _best(self.seen, [each for each in truths if {*self.seen.labels(each)} == {"0", "1"}], [name])
        ]

    def _of_sides(self, columns: Sequence[str]) -> list[ColumnReading]:
        """Return the reading of the probabilities of two sides, and of a draw, next to the points of the sides."""
        for one, other in permutations(columns, 2):
            names = self._points(one, other)
            if names is None:
                continue
            first, second = map(sql_name, names)
            points = [self.seen.numbers(name) for name in names]
            case = f"if {quoted(one)} is the probability that {quoted(names[0])} exceeds {quoted(names[1])}"
            if len(columns) == 3:
                (draw,) = {*columns} - {one, other}
                texts = map(literal, (one, other, draw))
                results = "CASE WHEN {3} > {4} THEN {0} WHEN {3} < {4} THEN {1} ELSE {2} END"
                outcome, labels = results.format(*texts, first, second), ",".join(columns)
                values = {"--probs": labels, "--outcome": outcome, "--labels": labels}
                return [ColumnReading(values, case, always=True, sql=True)]
            has_ties = bool(np.any(points[0] == points[1]))
            case += ", and you want to leave ties out" * has_ties
            values = {"--score": one, "--outcome": f"{first} > {second}"}
            values |= self._and_where(f"{first} <> {second}") if has_ties else {}
            return [ColumnReading(values, case, always=True, sql=True)]
        return []

    def _points(self, one: str, other: str) -> tuple[str, str] | None:
        """Return the columns of points of two sides whose names differ like those of their probabilities."""
        side, rival = _differences(one, other)
        for name in self.seen.cells if side and rival else ():
            of_rival = name.removesuffix(side) + rival if name.endswith(side) else name.replace(side, rival, 1)
            if of_rival in {*self.seen.cells} - {name} and has_word(name.replace(side, " "), "points"):
                points = [self.seen.numbers(each) for each in (name, of_rival)]
                if not any(np.isnan(each).any() for each in points) and max(map(np.max, points)) > 1:
                    return name, of_rival
        return None

    def _and_where(self, condition: str) -> dict[str, str]:
        """Return the option of a condition, next to the one that is there."""
        return {"--where": joined_conditions(self.options.where, condition)}

    def of_rows(self, score: str) -> list[ColumnReading]:
        """Return the readings of a table with a row for each class: the event is that the class is the true one."""
        readings = []
        for name, truth, cases in classes_in_rows(self.seen, score):
            case = f"if each row has the probability of the class in {quoted(name)}"
            values = {"--score": score, "--outcome": equality(self.seen, name, truth)}
            values |= {"--cluster": cases[0]} if cases and not self.options.clusters else {}
            readings.append(ColumnReading(values, case, sql=True))
        return readings

    def _of_odds(self, truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a column with the decimal odds of one event."""
        readings = []
        for name in self.seen.cells:
            odds = self.seen.numbers(name)
            if name in self.taken or not has_word(name, "odds") or not np.nanmin(odds, initial=math.inf) > 1:
                continue
            case = f"if {quoted(name)} are decimal odds (1 / odds includes the margin of the bookmaker)"
            for truth in _best(self.seen, self._fitting([name], truths, ()), [name]):
                for spelled in _events(self.seen.labels(truth)).values():
                    values = {"--score": f"1 / {sql_name(name)}", "--outcome": truth, **spelled}
                    readings.append(ColumnReading(values, case, always=True, sql=True))
        return readings

    def _of_counts(self, scores: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of scores of levels, next to the numbers of events and trials of each level."""
        return [
            ColumnReading({"--score": score, "--events": events, "--trials": trials}, is_named=False)
            for score in scores
            for events, trials in self.seen.counts_beside(score)
        ]

    def of_scores(self, scores: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of scores of one event, or of the label that was predicted, or whether it was right."""
        seen = self.seen
        predicted = [name for name in (*seen.classes, *seen.outcomes) if role_of(name) == "predicted"]
        if len(scores) == 1:
            guesses = self._guesses(scores, truths)
            truths, predicted = [name for name in truths if name not in guesses], [*predicted, *guesses]
            predicted += [name for name in self._answers(truths, scores[0]) if name not in predicted]
            truths = [name for name in truths if name not in predicted]
        pairs = _best_pairs(seen, scores, self._fitting(scores, truths, predicted))[: 2 * LISTED]
        readings = [each for score, truth in pairs for each in self._of_pair(score, truth, truths, predicted)]
        if self.options.models or self.options.percent:  # models are columns, and the expressions are of fractions
            readings = [each for each in readings if each.values["--score"] in scores]
        return self._with_right(scores[0], [truth for _, truth in pairs], readings) if len(scores) == 1 else readings

    def _answers(self, truths: Sequence[str], score: str) -> list[str]:
        """Return the columns whose labels a column has too whose name says that it is true.

        Of two labels, the name says that it is an answer, and the score may be that of the label.
        """
        of, true = self.seen.labels, [name for name in truths if role_of(name) == "true"]
        return [
            name
            for name in (*self.seen.classes, *self.seen.outcomes)
            if role_of(name) == ""
            and any(len(label_of(self.seen, name, truth)) == len(of(name)) > 1 for truth in true)
            and (len(of(name)) > 2 or (has_word(name, "answer") and self.seen.may_be_of(score, name)))
        ]

    def _with_right(self, score: str, truths: Sequence[str], readings: list[ColumnReading]) -> list[ColumnReading]:
        """Return the readings of a score, with those of columns that say whether a prediction was right."""
        seen = self.seen
        right = [name for name in seen.outcomes if role_of(name) == "right" and name not in self.taken]
        of_right = [each for name in right for each in self.of_right(score, name)]
        labels = [name for name in truths if role_of(name) == "label"]
        if of_right and any(seen.follows([score], name) for name in labels):
            return of_right
        sure = (_is_named_so(score, name) and not (name in labels and seen.may_be_of(score, name)) for name in truths)
        return readings if any(sure) else [*of_right, *readings]

    def _fitting(self, scores: Sequence[str], truths: Sequence[str], predicted: Sequence[str]) -> list[str]:
        """Return the truths that scores may be about: outcomes, two labels, or more with an event or the predicted one.

        Whether two other numbers than 0 and 1 are labels, the name of their column decides.
        """
        of, outcomes = self.seen.labels, self.seen.outcomes
        several = {label for name in predicted if len(of(name)) > 2 for label in of(name)}
        return [
            name
            for name in truths
            if name in outcomes
            or (len(of(name)) <= 2 and any(_is_named_so(score, name) for score in scores))
            or (len(scores) == 1 and several.intersection(of(name)))
            or has_event(of(name))
        ]

    def _of_pair(self, score: str, truth: str, truths: Sequence[str], predicted: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a score next to a true label: its probability, or that of the predicted label.

        Of columns that do not say that they are predicted, those named as labels may be, and where the truth does not
        say that it is one, those that are as likely the truth.
        """
        seen, is_named, labels = self.seen, _is_named_so(score, truth), self.seen.labels(truth)
        case = f"if {quoted(score)} is the probability of the event in {quoted(truth)}"
        event = ColumnReading({"--score": score, "--outcome": truth}, case, is_named=is_named)
        if follow_up := self._follow_up(score):
            case = f"if {quoted(truth)} is known at the time in {quoted(score)} for every row"
            censored = f"for censored times in {quoted(follow_up)}, see docs/censoring.md"
            event = replace(event, case=f"{case} ({censored})", always=True)
        may_be_event = truth in seen.outcomes or len(labels) <= 2 or has_event(labels)
        others = [name for name in truths if name != truth and seen.may_be_of(score, name)]
        named = [name for name in others if role_of(name) == "label"]
        rivals = [] if role_of(truth) == "true" or named else _best(seen, others, [score])
        readings = [] if rivals else self._of_judge(score, truth, predicted)
        for guess in dict.fromkeys((*predicted, *named, *rivals)):
            if not self._share_labels(truth, guess, predicted) or (may_be_event and not seen.may_be_of(score, guess)):
                continue
            may_be_event = may_be_event and (guess in rivals or seen.follows([score], guess))
            readings += self._of_guess(score, truth, guess, is_rival=guess in rivals)
        return [event, *readings] if may_be_event else readings

    def _follow_up(self, score: str) -> str:
        """Return a column of times beside a risk up to a time, such as ``risk_5y``: its rows may be censored."""
        found = (name for name in self.seen.cells if HORIZON.search(score) and has_word(name, "follow-up"))
        return next((name for name in found if self.seen.numbers(name).max() > 1), "")

    def _with_event(self, reading: ColumnReading) -> list[ColumnReading]:
        """Return a reading of a score and its outcome without ties, and with the label of the event.

        Without a usual word, the event is the label of the larger scores, if these differ beyond chance.
        """
        if reading.sql or reading.values.keys() != {"--score", "--outcome"} or self.options.labels:
            return [reading]
        score, truth = reading.values.values()
        labels = self.seen.labels(truth)
        if truth in self.seen.ties:
            values = {**reading.values, **self._and_where(f"{sql_name(truth)} <> 0.5")}
            case = f"if 0.5 in {quoted(truth)} is a tie, and you want to leave ties out"
            return [replace(reading, values=values, case=case, always=True)]
        if score not in self.seen.scores or len(labels) != 2 or any("," in label for label in labels):
            return [reading]
        usual = event_of(labels, score)
        likely, is_sure = self.seen.by_scores(score, truth)
        readings: list[ColumnReading] = []
        for other, label in (likely, likely[::-1]):
            if usual == label or (usual is None and not (is_sure and readings)):
                case = f"if {quoted(label)} in column {quoted(truth)} is the event" if usual is None else reading.case
                readings.append(replace(reading, values={**reading.values, **_spelled(other, label)}, case=case))
        return readings

    def _of_judge(self, score: str, truth: str, predicted: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a confidence in the label of a column with a like name, such as that of a judge."""
        if role_of(truth) != "true" or not has_word(score, "confidence"):
            return []
        own = {word for word in words_of(score) if word not in WORDS["confidence"]}
        labels = self.seen.labels(truth)
        judges = [
            name
            for name in (*self.seen.classes, *self.seen.outcomes)
            if name not in (truth, *predicted) and own.intersection(words_of(name)) and self.seen.labels(name) == labels
        ]
        return [self._right(score, truth, name) for name in judges]

    def _right(self, score: str, truth: str, guess: str, doubt: str = "") -> ColumnReading:
        """Return the reading of a score as the probability that a predicted label is the true one."""
        case = f"if {quoted(score)} is the probability of the predicted label {quoted(guess)}{doubt}"
        values = {"--score": score, "--outcome": equality(self.seen, guess, truth)}
        return ColumnReading(values, case, is_named=_is_named_so(score, truth), sql=True)

    def _share_labels(self, truth: str, guess: str, predicted: Sequence[str]) -> bool:
        """Whether columns share labels; if the names leave open that one is predicted, both of two labels."""
        labels, same = self.seen.labels(truth), label_of(self.seen, guess, truth)
        are_all = len(same) == len(labels) == len(self.seen.labels(guess))
        return bool(same) and (guess in predicted or len(labels) > 2 or are_all)

    def _of_guess(self, score: str, truth: str, guess: str, *, is_rival: bool) -> list[ColumnReading]:
        """Return the readings of a score as that of a predicted label; of rivals, either may be the truth."""
        is_label, labels, is_named = role_of(truth) == "label", self.seen.labels(truth), _is_named_so(score, truth)
        one, other = (truth, guess) if is_label and is_rival else (guess, truth)
        doubt = f" or {quoted(other)}" if is_rival and not is_label else ""
        readings = [replace(self._right(score, other, one, doubt), is_named=is_named)]
        case = f"{readings[0].case}, and you want to evaluate the probability of the event"
        if not doubt and len(labels) == len(self.seen.labels(guess)) == len(label_of(self.seen, guess, truth)) == 2:
            same, name = label_of(self.seen, one, other), self._fraction(score)
            for event, spelled in _events(self.seen.labels(other)).items():
                probability = f"CASE WHEN {_equals(one, same[event])} THEN {name} ELSE 1 - {name} END"
                values = {"--score": probability, "--outcome": other, **spelled}
                readings.append(ColumnReading(values, case, is_named=is_named, sql=True))
        return readings

    def of_right(self, score: str, right: str) -> list[ColumnReading]:
        """Return the readings of a score next to a column with whether a prediction was correct."""
        case = f"if {quoted(score)} is the probability that {quoted(right)} is true"
        answer = ColumnReading({"--score": score, "--outcome": right}, case)
        yes, numbers = event_of(self.seen.labels(right)), self.seen.numbers(score)
        may_be_below = score in self.seen.scores and not has_word(score, "confidence")
        if yes is None or not (may_be_below and (numbers < 0.5).any()):
            return [answer]
        if self.options.percent:  # the expressions compare fractions
            return [replace(answer, always=True)]
        event = {"--score": score, "--outcome": f"({self._fraction(score)} >= 0.5) = ({_equals(right, yes)})"}
        predicted = "which is predicted if this probability is 0.5 or more"
        case = f"if {quoted(score)} is the probability of an event, {predicted}"
        larger = f"{case}, and you want to evaluate the larger of this probability and its complement"
        top = ColumnReading({**event, "--notion": "top-label"}, larger, sql=True)
        return [ColumnReading(event, case, sql=True), top, answer]

    def _of_complements(self, columns: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of two columns that add up to 1, as the score of the event."""
        guesses = self._guesses(columns, truths)
        fitting = [name for name in truths if name not in guesses and len(self.seen.labels(name)) == 2]
        readings = []
        for truth in _best(self.seen, fitting, columns):
            labels = self.seen.labels(truth)
            order, event = order_of(columns, labels) or (), event_of(labels)
            for label in [each for each in order if event in (None, each)]:
                score, (other,) = columns[order.index(label)], [each for each in order if each != label]
                values = {"--score": score, "--outcome": truth, **_spelled(other, label)}
                is_named = any(_is_named_so(name, truth) for name in columns)
                case = f"if {quoted(label)} in column {quoted(truth)} is the event"
                readings.append(ColumnReading(values, case, is_named=is_named))
        return readings

    def _of_classes(self, columns: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of columns of classes, or of one column of lists."""
        options, guesses = self.options, self._guesses(columns, truths)
        fitting = [name for name in truths if name not in guesses]
        if len(columns) > 1 and options.probs is None and options.target is None:
            fitting = [name for name in fitting if self._fits(columns, name)]
        readings = []
        for truth in _best(self.seen, fitting, columns):
            values, case = {"--probs": ",".join(columns), "--target": truth}, f"if {quoted(truth)} holds the true class"
            if odds := self.seen.odds.get(tuple(columns)):
                values["--odds"] = odds
                case = f"if {_some(columns)} are the odds of the classes in {quoted(truth)}"
            reading = ColumnReading(values, case, is_named=self._fits(columns, truth))
            known = options.labels is not None or options.class_names is not None
            ordered = reading if known else self._in_order(reading, columns, self.seen.labels(truth))
            readings += [] if ordered is None else [ordered]
        return readings

    def _in_order(self, reading: ColumnReading, columns: Sequence[str], labels: Sequence[str]) -> ColumnReading | None:
        """Return a reading of classes with the order of their labels; None if nothing says it."""
        width = len(columns) if len(columns) > 1 else self.seen.width(columns[0])
        numbers, order = tuple(map(str, range(width))), order_of(columns, labels) if len(columns) > 1 else None
        if order is not None:
            left = {} if order == numbers else {"--labels": ",".join(order)}
            return replace(reading, values={**reading.values, **left})
        truth = reading.values["--target"]
        if len(columns) == 1 and len(labels) == width and not self.seen.are_in_order(columns[0], truth):
            return None  # the lists have another order than the labels
        if {*labels} <= {*numbers}:
            case = f"if value 0 in {quoted(truth)} is the class of column {quoted(columns[0])}, and so on"
            return reading if len(columns) == 1 else replace(reading, case=case, always=True)
        guess = _numbered_or_listed(columns, labels, width)
        if guess is None:
            return reading if len(columns) == 1 else None
        case, order_of_labels = guess
        return replace(reading, values={**reading.values, "--labels": order_of_labels}, case=case, always=True)

    def _multilabel(self) -> list[ColumnReading]:
        """Return the reading of several scores, each with its outcome: ``prob_toxic`` and ``toxic``, and so on."""
        of_words: dict[str, list[tuple[str, str]]] = {}
        outcomes = self.seen.outcomes
        start = re.sub(r"[^_.\- ]*$", "", os.path.commonprefix(outcomes)) if len(outcomes) > 1 else ""  # noqa: RUF071
        for score in self.seen.scores:
            for outcome in outcomes:
                event = outcome[len(start) :]
                if outcome != score and event and event in score:
                    of_words.setdefault(score.replace(event, "*", 1), []).append((score, outcome))
        pairs = max(of_words.values(), key=len, default=[])
        if len(pairs) < 2:
            return []
        scores, targets = zip(*pairs, strict=True)
        values = {"--probs": ",".join(scores), "--target": ",".join(targets)}
        is_one_hot = scores in self.seen.tables and len(scores) > 2
        return [ColumnReading(values if is_one_hot else {**values, "--notion": "multilabel"})]

    def _guesses(self, columns: Sequence[str], truths: Sequence[str]) -> list[str]:
        """Return the columns that follow the scores in every row, so are predicted, where another may be the truth."""
        of = self.seen.labels
        follow = [name for name in truths if role_of(name) != "true" and self.seen.follows(columns, name)]
        labels = {label for name in truths if name not in follow for label in of(name)}
        return [name for name in follow if labels.intersection(of(name))]

    def _fits(self, columns: Sequence[str], target: str) -> bool:
        """Whether a column may be the true class of columns of probabilities: by its name, or because it names them."""
        return _may_be_true(target) or order_of(columns, self.seen.labels(target)) is not None

    def in_words(self, readings: Sequence[ColumnReading]) -> str:
        """Return which columns may hold what."""
        values = readings[0].values
        kinds: list[tuple[str, Sequence[str]]] = []
        if "--probs" in values:
            kinds.append(("probabilities of classes", self.seen.lists or values["--probs"].split(",")))
        elif "--score" in values:
            kinds.append(("probabilities", self.seen.scores or [values["--score"]]))
        if "--outcome" in values and not readings[0].sql:
            outcomes = [name for name in self.truths if name in self.seen.outcomes]
            kinds.append(("outcomes", outcomes or [values["--outcome"]]))
        elif "--target" in values:
            target = values["--target"]
            kinds.append(("labels", target.split(",") if "," in target else self.truths or [target]))
        words = [f"{what} in {_some(names)}" for what, names in kinds]
        if kinds and kinds[-1][0] in ("outcomes", "labels") and not all(each.is_named for each in readings):
            words[-1] += " (a guess from the values)"
        return "; ".join(words).replace(" in ", " may be in ", 1) or "the columns can be read in several ways"

    def unmatched(self) -> str:
        """Return what to do about scores without outcomes, or columns of classes that do not name the labels."""
        columns = next((table for table in self.seen.tables if len(table) > 2), ())
        if self.taken - {None} or self.options.probs is not None:
            return ""
        if not self.seen.scores and not self.seen.lists:
            return self._without_scores()
        if not columns:
            return self._without_outcome()
        probs = f"probabilities of classes may be in {_some(columns)} (--probs {shlex.quote(self._pattern(columns))})"
        target = next((name for name in self.truths if self._fits(columns, name)), None)
        if target is None:
            remedy = "add a column of true classes, and name it with --target"
            return f"{probs}, but no column looks like the true class; {remedy}"
        labels = f"write {_some(self.seen.labels(target))} in the order of the columns"
        order = f"the names of the columns do not show which label belongs to which column; with --labels, {labels}"
        return f"{probs}, labels in {target} (--target {target}); {order}"

    def _pattern(self, columns: Sequence[str]) -> str:
        """Return the pattern that columns alone match; else their names."""
        start = _common_beginning(columns)
        is_short = sum(name.startswith(start) for name in self.seen.cells) == len(columns)
        return f"{start}*" if start and is_short else ",".join(columns)

    def _without_scores(self) -> str:
        """Return which columns hold numbers on another scale, where no column looks like probabilities."""
        found = [name for name in self.seen.cells if not np.isnan(self.seen.numbers(name)).all()]
        others = [name for name in found if name not in self.truths and not has_word(name, "thing")]
        named = ([name for name in found if is_like_scores(name)] or others)[:LISTED]
        ranges = [
            f"{quoted(name)} has numbers from {np.nanmin(each):g} to {np.nanmax(each):g}"
            for name, each in ((name, self.seen.numbers(name)) for name in named)
        ]
        outcomes = [name for name in self.truths if name in self.seen.outcomes]
        if not named and not outcomes:
            return ""
        start = f"outcomes may be in {_some(outcomes)}, but " if outcomes else ""
        words = f"{start}no column looks like probabilities (numbers from 0 to 1, or percentages)"
        remedy = "convert a score on another scale to a probability, and name it with --score or --probs"
        if not named:
            remedy = "name the column of the probabilities with --score (one event) or --probs (many classes)"
        elif sum(QUANTILES.fullmatch(name) is not None for name in found) > 1:
            remedy = "for quantile forecasts, see docs/quantiles.md"
        elif any(np.nanmin(self.seen.numbers(name)) < -1 for name in named):
            typed = "--odds" if self.options.odds else "--percent" if self.options.percent else ""
            remedy += f"; if it is a log-odds, use --logits {f'instead of {typed}' if typed else 'too'}"
        return f"{words}{': ' * bool(ranges)}{', '.join(ranges)}; {remedy}"

    def _without_outcome(self) -> str:
        """Return what to do about a column of scores next to no column that looks like the outcome."""
        scores = self.seen.scores
        if not scores or self._fitting(scores, self.truths, ()):
            return ""
        of_pairs = (event_of(pair) for pair in self.seen.tables if len(pair) == 2)
        score = next(filter(None, of_pairs), scores[0])
        typed = " ".join(("--score", shlex.quote(self._sql(score)), *self.seen.flags[score]))
        remedy = "name the column of outcomes (0 and 1, or two words) with --outcome"
        amount = next((f"{sql_name(name)} > 0" for name in self.seen.amounts if name != scores[0]), None)
        mark = next((f"{sql_name(name)} IS NOT NULL" for name in self.seen.marks), amount)
        if mark is not None:
            remedy += f", or write the event as a condition, such as {typed} {sql_option('--outcome', mark)}"
        found = f"probabilities may be in {_some(scores)} ({'such as ' * (len(scores) > 1)}{typed})"
        return f"{found}, but no column looks like the outcome; {remedy}"


# ---------------------------------------------------------------- evidence


def _numbered_or_listed(columns: Sequence[str], labels: Sequence[str], width: int) -> tuple[str, str] | None:
    """Return the case and the order of labels that are as many as the columns, but do not name them."""
    if len(labels) != width or any("," in label for label in labels):
        return None
    first = f"the class of column {quoted(columns[0])}" if len(columns) > 1 else "the first of each list"
    if labels == tuple(str(number + 1) for number in range(width)):
        return f"if label 1 is {first}, and so on", f"1-{width}" if width > 2 else "1,2"
    if len(columns) > 1:
        return None
    return f"if {quoted(labels[0])} is {first}, and so on in this order", ",".join(labels)


def _of_one_split(readings: Sequence[ColumnReading]) -> list[ColumnReading]:
    """Return the readings whose columns have a word in common, such as ``val_probs`` and ``val_labels``; else all."""
    columns = [(each.values["--probs"], each.values["--target"]) for each in readings]
    alike = [
        each
        for each, (probs, target) in zip(readings, columns, strict=True)
        if set(words_of(probs)) & set(words_of(target))
    ]
    return list(alike or readings)


def _common_beginning(names: Sequence[str]) -> str:
    """Return what names begin with, up to the last sign that separates words or begins a number."""
    start = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 - these are not paths
    numbered = all(name[len(start) :].isdecimal() for name in names)
    return re.sub(r"[0-9]*$", "", start) if numbered else re.sub(r"[^_.\- ]*$", "", start)


def _differences(one: str, other: str) -> tuple[str, str]:
    """Return in what two names differ, such as 1 and 2, or home and away."""
    start = len(os.path.commonprefix((one, other)))  # noqa: RUF071
    rests = one[start:], other[start:]
    end = len(os.path.commonprefix([rest[::-1] for rest in rests]))  # noqa: RUF071
    return rests[0][: len(rests[0]) - end], rests[1][: len(rests[1]) - end]


def best_pair(seen: Candidates, scores: Sequence[str], outcomes: Sequence[str]) -> tuple[str, str] | None:
    """Return the score and the outcome that belong together most likely; None where no pair does, or several do."""
    pairs = _best_pairs(seen, scores, [name for name in outcomes if role_of(name) != "predicted"])
    return pairs[0] if len(pairs) == 1 else None


def predicted_beside(seen: Candidates, truth: str) -> str | None:
    """Return the column with the predicted labels next to the true ones: its name says so, and its labels recur."""
    true = set(seen.labels(truth)) if truth in seen.cells else set()
    others = {name: seen.labels(name) for name in seen.cells if role_of(name) == "predicted" and name != truth}
    return next((name for name, labels in others.items() if 2 * len(true.intersection(labels)) > len(labels)), None)


def _best_pairs(seen: Candidates, scores: Sequence[str], outcomes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a score and an outcome that belong together most likely, each event once.

    They are not a pair if only one of them is named like a third column: ``prob_insult`` and ``toxic``
    where there is ``insult``.
    """
    if len(scores) * len(outcomes) > _PAIRS:  # no name is likely to decide
        return []
    events = [name for name in seen.outcomes if role_of(name) not in OF_A_PREDICTION]
    outcomes_of = {score: _alike(score, events) for score in scores}
    scores_of = {name: _alike(name, seen.scores) for name in outcomes}
    pairs = [
        (score, name)
        for score in scores
        for name in outcomes
        if score != name
        and (
            _are_alike(score, name)
            or role_of(name) == "true"
            or not (outcomes_of[score] - {name} or scores_of[name] - {score})
        )
    ]
    ranks = {pair: (*_rank(seen, *pair), not LIKE_SCORES.search(pair[0])) for pair in pairs}
    first = min(ranks.values(), default=None)
    best = [pair for pair in pairs if ranks[pair] == first][: 4 * LISTED]  # more than an error lists
    return [pair for k, pair in enumerate(best) if not any(all(map(seen.are_complements, pair, b)) for b in best[:k])]


def _best(seen: Candidates, truths: Sequence[str], scores: Sequence[str]) -> list[str]:
    """Return those of the columns that are the truth most likely, by their names."""
    ranks = {}
    for name in truths:
        is_not_true, *others = min(_rank(seen, score, name) for score in scores)
        is_no_class = len(scores) > 1 and order_of(scores, seen.labels(name)) is None  # which names the columns
        ranks[name] = (is_not_true, is_no_class, *others)
    first = min(ranks.values(), default=None)
    return [name for name in truths if ranks[name] == first]


def _rank(seen: Candidates, score: str, truth: str) -> tuple[bool, ...]:
    """Order columns by how likely they are the truth of a score."""
    is_true, is_like_outcomes = role_of(truth) == "true", bool(LIKE_OUTCOMES.search(truth))
    return not is_true, not _are_alike(score, truth), not is_like_outcomes, len(seen.labels(truth)) < 2


def _alike(name: str, others: Sequence[str]) -> set[str]:
    """Return the other columns that are named like one."""
    return {other for other in others if other != name and _are_alike(name, other)}


def _are_alike(score: str, outcome: str) -> bool:
    """Whether one of two names holds the other: ``prob_toxic`` and ``toxic``."""
    short, long = sorted((score.lower(), outcome.lower()), key=len)
    return short in long and len(short) >= 3 and not LIKE_SCORES.fullmatch(short)


def _is_named_so(score: str, truth: str) -> bool:
    """Whether the name of a truth says that it is one, and not its values alone."""
    return _may_be_true(truth) or _are_alike(score, truth)


def _may_be_true(name: str) -> bool:
    return role_of(name) == "true" or bool(LIKE_OUTCOMES.search(name))


def _equals(name: str, label: str) -> str:
    """Return the SQL that a column holds a label."""
    column = sql_name(name)
    return {"1": f"{column} = 1", "true": column}.get(label, f"{column} = {literal(label)}")


def _events(labels: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return which of two labels may be the event, each with the option that names it: both, if none says that it is.

    Other numbers of labels have no event.
    """
    pairs = (labels, labels[::-1]) if len(labels) == 2 else ()
    return {event: _spelled(other, event) for other, event in pairs if event_of(labels) in (None, event)}


def _spelled(other: str, event: str) -> dict[str, str]:
    """Return the option that names two labels, the event second; empty if its name says it already."""
    return {} if event in ("1", "true") else {"--labels": f"{other},{event}"}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
