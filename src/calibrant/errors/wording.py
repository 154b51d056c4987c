"""Write the message of a fault and its facts: what was expected, what was passed, what to do.

Each message is written here once. `Terms` holds what differs between Python, the command and the torch metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError, nearest
from calibrant.errors.faults import (
    ArrayFacts,
    ClusterFacts,
    Facts,
    Fault,
    LabelFacts,
    LabelNameFacts,
    LengthFacts,
    MissingFacts,
    Mistake,
    ModelFacts,
    NameFacts,
    OneHotFacts,
    ScoreFacts,
    SumFacts,
    TextFacts,
    WeightFacts,
)
from calibrant.runtime.dataclass import dataclass

_ENTRIES: Final = {
    "label": "a label in every row",
    "name": "a name in every row",
    "number": "numbers",
    "cluster": "a label in every row",
}


class Words(NamedTuple):
    """The parts of a message; ``got`` does not contain the place."""

    expected: str
    got: str
    remedy: str


@dataclass(frozen=True)
class Terms:
    """How a surface words a remedy; by default with the arguments of a Python function."""

    probs: str = "probs"
    targets: str = "targets"
    equal: str = "np.asarray(targets) == {!r}"
    logits: str = "pass logits=True"
    no_logits: str = "leave logits=True out, or pass"
    rounding: str = "clip the values to [0, 1] if that is rounding"
    percent: str = "the values look like percent: divide them by 100"
    multilabel: str = "notion='multilabel'"
    unsummed: str = ""
    ignore_index: str = "pass ignore_index={} to leave such rows out"
    class_names: str = "class_names"
    rows: str = ""  # the argument that a row is left out of, if not probs

    @property
    def filter(self) -> str:
        """How to leave a row out."""
        return f"filter the row out of {self.rows or self.probs} and {self.targets}"


PYTHON: Final = Terms()
#: For functions with another library's signature, which lack these options.
NO_OPTIONS: Final = Terms(
    logits="turn them into probabilities first",
    multilabel="pass them to calibrant.evaluate with notion='multilabel'",
    ignore_index="leave such rows out",
)


def refuse(argument: str, fault: Fault, facts: Facts | None = None, terms: Terms = PYTHON) -> InputError:
    """Return the error for a fault, in the terms of a surface."""
    facts = facts or Facts()
    words = _words(argument, fault, facts, terms)
    if words is None:
        msg = f"{fault} with {facts} has no words"
        raise TypeError(msg)
    got = words.got if facts.place is None else f"{words.got} at {facts.place}"
    return InputError(argument, words.expected, got, words.remedy, fault=fault, facts=facts)


def reword(error: InputError, terms: Terms = PYTHON) -> Words:
    """Return the words of an error in the terms of a surface; an error without facts keeps its words."""
    return _words(error.argument, error.fault, error.facts, terms) or Words(error.expected, error.got, error.remedy)


def translate(error: InputError, names: Mapping[str, str], terms: Terms) -> InputError:
    """Return the error with the argument names and the terms of a surface."""
    argument = names.get(error.argument, error.argument)
    if _words(argument, error.fault, error.facts, terms) is None:
        return error.renamed(names)
    return refuse(argument, error.fault, error.facts, terms)


@contextmanager
def in_terms(names: Mapping[str, str], terms: Terms) -> Iterator[None]:
    """Word the errors from inside with the argument names and the terms of a surface."""
    try:
        yield
    except InputError as error:
        raise translate(error, names, terms) from None


def number(value: Any) -> str:
    """Format a number with six digits, or with all if six digits would look like a probability, or like a round number.

    An error about 1.0000000001 or 2.5000001 must not say 1 or 2.5, which may be right.
    """
    short, exact = f"{float(value):.6g}", str(value).removesuffix(".0")
    is_round = float(short) == float(f"{float(value):.5g}")
    return exact if len(exact) <= len(short) or 0 <= float(short) <= 1 or is_round else short


def expected_labels(n_classes: int | None) -> str:
    """Return the expected targets in words; None means one event."""
    return "outcomes 0 or 1" if n_classes is None else f"class indices 0 to {n_classes - 1}"


def expected_sum(tolerance: float) -> str:
    """Return the expected sum of a row in words."""
    return f"rows that sum to 1 within {tolerance:.2g}"


def _words(argument: str, fault: Fault, facts: Facts, terms: Terms) -> Words | None:
    match facts:
        case ArrayFacts():
            return _no_array(argument, facts)
        case TextFacts():
            return _text(argument, facts)
        case MissingFacts(entry=entry):
            remedies = {
                "name": "name the row's group, such as 'unknown'",
                "cluster": "name the row's cluster, or give the row a label of its own",
            }
            return Words(_ENTRIES[entry], "a missing value", remedies.get(entry, f"{terms.filter} first"))
        case ClusterFacts(value=value, expected=expected, remedy=remedy):
            return Words(expected, f"{value!s:.40}", remedy)
        case ScoreFacts():
            return _score(fault, facts, terms)
        case SumFacts(total=total, tolerance=tolerance):
            remedy = _of_column(facts, terms) or (
                f"normalise the rows (divide each by its sum), {terms.logits} if they are logits, or "
                f"{terms.multilabel} for one event per column{terms.unsummed}"
            )
            return Words(expected_sum(tolerance), f"{total:.10g}", remedy)
        case LengthFacts():
            return _length(facts, terms)
        case ModelFacts(shape=shape, other=other, other_shape=other_shape):
            remedy = "pass the same columns for every model"
            return Words(f"shape {other_shape}, like {other}", f"shape {shape}", remedy)
        case LabelFacts():
            return _label(fault, facts, terms)
        case LabelNameFacts():
            return _label_name(facts, terms)
        case NameFacts(name=name, names=names):
            return Words("names among class_names", repr(name), nearest(name, names))
        case OneHotFacts():
            return _one_hot(facts, terms)
        case WeightFacts(value=value):
            return Words("finite numbers of 0 or more", f"{value}", "correct or drop the row")
    if fault is Fault.SWAPPED:
        remedy = f"the arguments look swapped: call f({terms.probs}, {terms.targets})"
        return Words("probabilities first and targets second", "labels first and fractions second", remedy)
    if fault is Fault.PROBABILITIES_AS_LOGITS:
        remedy = f"{terms.no_logits} the softmax of {terms.probs} if they are logits"
        return Words("logits", "probabilities: every row is in [0, 1] and adds up to 1", remedy)
    return None


def _no_array(argument: str, facts: ArrayFacts) -> Words:
    name, remedy = facts.type_name, "pass an array, a column or a list of numbers"
    got = "None" if name == "None" else f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"
    if facts.mistake is Mistake.NOT_COLLECTED:
        remedy = "collect it first"
    if facts.mistake is Mistake.FILE_NAME:
        remedy = "read the file first" + (f", or run: calibrant report {facts.path}" if argument == "probs" else "")
    return Words("an array", got, remedy)


def _text(argument: str, facts: TextFacts) -> Words:
    remedy = "pass numbers, not names"
    if facts.mistake is Mistake.PERCENT_TEXT:
        remedy = "convert them to fractions first, for example '85%' to 0.85"
    if facts.mistake is Mistake.NUMBER_TEXT:
        remedy = f"convert them to numbers first, with np.asarray({argument}, dtype=float)"
    return Words("real numbers", "strings" if facts.text is None else f"strings such as {facts.text!r}", remedy)


# ---------------------------------------------------------------- probabilities


def _score(fault: Fault, facts: ScoreFacts, terms: Terms) -> Words:
    value = number(facts.value)
    if fault is Fault.PREDICTED_CLASSES:
        remedy = "they look like predicted classes: pass the probabilities of the classes, of shape (N, C)"
        return Words("probabilities", f"whole numbers up to {value}", remedy)
    if fault is Fault.NOT_FINITE:
        return Words("finite numbers", value, f"find the source of this value, or {terms.filter}")
    if fault is Fault.NO_LOGIT:
        remedy = f"give every row a possible class, or {terms.filter}"
        return Words("a finite logit in each row", f"only {value}", remedy)
    logits = f"{terms.logits} if they are logits"
    remedies = {
        Mistake.PERCENT: terms.percent,
        Mistake.PERCENT_OR_CLASSES: f"{terms.percent} (if they are predicted classes, pass the probabilities instead)",
        Mistake.ROUNDING: f"{terms.rounding}, or {logits}",
    }
    remedy = _of_column(facts, terms) or (remedies.get(facts.mistake, logits) if facts.mistake else logits)
    return Words("values in [0, 1]", value, remedy)


def _of_column(facts: Facts, terms: Terms) -> str | None:
    """Return what to do about a column that is not a probability; None without such a column."""
    if facts.suspicion is None or facts.suspicion.column is None:
        return None
    column = f"column {facts.suspicion.column} of {terms.probs}"
    if facts.mistake is Mistake.TARGET_COLUMN:
        return f"{column} holds the targets, so leave the column out"
    return f"{column} holds whole numbers: leave the column out if it is not a probability"


# ---------------------------------------------------------------- targets


def _length(facts: LengthFacts, terms: Terms) -> Words:
    probs, targets = terms.probs, terms.targets
    expected = f"{facts.rows} label{'s' * (facts.rows != 1)}, one for each row of {probs}"
    if facts.n_classes is not None:
        expected += f" (or one-hot rows of {facts.n_classes})"
    remedies = {
        Mistake.SINGLE_LABEL: "pass a label for each row, such as [1]",
        Mistake.SINGLE_ROW: f"{probs} look like one row of many classes: for one event pass {probs}.reshape(-1)",
        Mistake.TRANSPOSED_PROBS: f"{probs} look transposed: pass shape (N, C), with a row for each prediction and a "
        "column for each class",
        Mistake.TRANSPOSED_TARGETS: f"the one-hot targets look transposed: pass {targets}.T",
        Mistake.ONE_HOT_EVENT: f"the targets look one-hot: pass {targets}[:, 1] if that column marks the event",
        Mistake.SEVERAL_LABELS: f"pass one label per row, or for several labels per row {terms.multilabel} and {probs} "
        "of the same shape",
    }
    remedy = remedies[facts.mistake] if facts.mistake else f"{probs} and {targets} must have the same rows"
    return Words(expected, f"shape {facts.shape}", remedy)


def _label(fault: Fault, facts: LabelFacts, terms: Terms) -> Words:
    expected, value = expected_labels(facts.n_classes), facts.value
    if fault is Fault.LABEL_TYPE:
        return Words(expected, f"dtype {value}", "pass integers, booleans or class names")
    ignored = terms.ignore_index.format(value)
    remedy = f"map the targets to 0 and 1, or for more than two classes pass {terms.probs} of shape (N, C)"
    match facts.mistake:
        case Mistake.ONE_BASED:
            remedy = "the labels look 1-based: subtract 1"
        case Mistake.TWO_LABELS if facts.suspicion is not None:
            low, high = facts.suspicion.labels
            meant = "the event" if facts.n_classes is None else "the second class"
            remedy = f"the labels are {low} and {high}: pass {terms.equal.format(high)} if {high} is {meant}"
        case Mistake.IGNORED_LABEL:
            remedy = f"map -1 to 0, or {ignored}" if facts.n_classes is None else ignored
        case Mistake.COLUMN_LACKING:
            remedy = f"check that {terms.probs} has a column for every class, or {ignored}"
        case Mistake.PROBABILITY_TARGETS:
            remedy = "the targets look like probabilities; pass the observed outcomes, as 0 and 1 or class indices"
        case Mistake.FRACTION:
            remedy = f"{terms.filter}, or round the target if it should be an integer"
        case _ if not np.isfinite(value):
            remedy = terms.filter
    return Words(expected, f"{value}", remedy)


def _label_name(facts: LabelNameFacts, terms: Terms) -> Words:
    order = "" if facts.one_event else ", in the order of the columns"
    remedy = f"pass {terms.class_names} to evaluate{order}, or map them to integers"
    if facts.mistake is Mistake.NUMBER_TEXT:
        remedy = f"convert them to integers first, with np.asarray({terms.targets}, dtype=int)"
    if facts.mistake is Mistake.TWO_LABELS and facts.suspicion is not None:
        labels, event = list(facts.suspicion.labels), facts.suspicion.labels[1]
        equal = f"{terms.equal.format(event)} if {event!r} is the event"
        remedy = f"pass {equal}, or {terms.class_names}={labels} to evaluate"
    return Words("integers", f"strings such as {facts.name!r}", remedy)


def _one_hot(facts: OneHotFacts, terms: Terms) -> Words:
    probs, targets = terms.probs, terms.targets
    ones = f"{facts.ones or 'no'} one{'s' * (facts.ones != 1)}"
    remedies = {
        Mistake.SINGLE_ROW: f"{probs} look like one row of many classes: for one event pass {probs}.reshape(-1), "
        f"{targets}.reshape(-1)",
        Mistake.TRANSPOSED_BOTH: f"{probs} and {targets} look transposed: pass {probs}.T and {targets}.T",
        Mistake.PROBABILITY_TARGETS: "the targets look like probabilities: pass class indices (for smoothed "
        f"labels, {targets}.argmax(axis=1))",
    }
    remedy = f"pass class indices, or {terms.multilabel} for several labels per row"
    got = ones if facts.value is None else number(facts.value)
    return Words("one-hot rows (a single 1 among 0s)", got, remedies[facts.mistake] if facts.mistake else remedy)
