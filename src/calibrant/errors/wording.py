"""The remedies of faults, which differ between Python, the command and the torch metrics.

The code that rejects an argument words what was expected and what came. `Terms` holds how a surface says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.errors.faults import Facts, Fault, Mistake
from calibrant.runtime.dataclass import dataclass

_NO_FACTS: Final = Facts()

#: What to do about probabilities in the place of labels, for a surface without weights and clusters.
SOFT_LABELS: Final = "for soft labels, see docs/soft-labels.md"

#: What came in the place of a value.
MISSING: Final = "a missing value"


@dataclass(frozen=True)
class Terms:
    """How a surface words a remedy; by default with the arguments of a Python function."""

    probs: str = "probs"
    targets: str = "targets"
    equal: str = "np.asarray(targets) == {!r}"
    logits: str = "pass logits=True"
    no_logits: str = "leave logits=True out, or pass"
    rounding: str = "clip the values to [0, 1] if rounding caused this"
    percent: str = "the values look like percent: divide them by 100"
    multilabel: str = "notion='multilabel'"
    unsummed: str = ""
    ignore_index: str = "pass ignore_index={} to leave such rows out"
    class_names: str = "class_names"
    soft_labels: str = (
        "for soft labels, pass each row once per class, with the soft label of the class as weight and the row number "
        "as cluster (see docs/soft-labels.md)"
    )
    rows: str = ""  # the argument that a row is left out of, if not probs

    @property
    def filter(self) -> str:
        """How to leave a row out."""
        return f"remove the row from {self.rows or self.probs} and {self.targets}"


PYTHON: Final = Terms()
#: For functions with another library's signature, which lack these options.
NO_OPTIONS: Final = Terms(
    logits="turn them into probabilities first",
    multilabel="pass them to calibrant.evaluate with notion='multilabel'",
    ignore_index="leave such rows out",
    soft_labels=SOFT_LABELS,
)


def refuse(
    argument: str, fault: Fault, expected: str, got: str, remedy: str = "", facts: Facts = _NO_FACTS
) -> InputError:
    """Return the error for a fault, with its place; without a remedy, that of `remedy_of`."""
    facts = replace(facts, found=got, of_surface=not remedy)
    remedy = remedy or remedy_of(argument, fault, facts, PYTHON)
    got = got if facts.place is None else f"{got} at {facts.place}"
    return InputError(argument, expected, got, remedy, fault=fault, facts=facts)


def reword(error: InputError, terms: Terms = PYTHON, argument: str | None = None) -> tuple[str, str, str]:
    """Return what was expected, what came without its place, and the remedy in the terms of a surface.

    The surface may have another name for the argument.
    """
    facts, remedy = error.facts, error.remedy
    if facts.of_surface:
        remedy = remedy_of(argument or error.argument, error.fault, facts, terms)
    return error.expected, facts.found or error.got, remedy


def translate(error: InputError, names: Mapping[str, str], terms: Terms) -> InputError:
    """Return the error with the argument names and the terms of a surface."""
    argument = names.get(error.argument, error.argument)
    return error.reworded(argument, reword(error, terms, argument)[-1])


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


# ---------------------------------------------------------------- remedies that depend on the surface


def remedy_of(argument: str, fault: Fault, facts: Facts, terms: Terms) -> str:
    """Return what to do about a fault, in the terms of a surface; empty if the terms do not matter."""
    match fault:
        case Fault.TEXT:
            remedies = {
                Mistake.PERCENT_TEXT: "convert them to fractions first, for example '85%' to 0.85",
                Mistake.NUMBER_TEXT: f"convert them to numbers first, with np.asarray({argument}, dtype=float)",
            }
            return remedies[facts.mistake] if facts.mistake else "pass numbers, not names"
        case Fault.SWAPPED:
            return f"the arguments look swapped: call f({terms.probs}, {terms.targets})"
        case Fault.PROBABILITIES_AS_LOGITS:
            return f"{terms.no_logits} the softmax of {terms.probs} if they are logits"
        case Fault.MISSING:
            return f"{terms.filter} first"
        case Fault.NOT_FINITE:
            return f"find the source of this value, or {terms.filter}"
        case Fault.NO_LOGIT:
            return f"give at least one class of every row a finite logit, or {terms.filter}"
        case Fault.OUTSIDE_RANGE | Fault.ROW_SUM:
            return _of_scores(fault, facts, terms)
        case Fault.LENGTHS:
            return _of_lengths(facts, terms)
        case Fault.OUTCOMES | Fault.CLASS_INDICES:
            return _of_label(facts, terms)
        case Fault.LABEL_NAMES:
            return _of_label_name(facts, terms)
        case Fault.ONE_HOT:
            return _of_one_hot(facts, terms)
    return ""


def _of_scores(fault: Fault, facts: Facts, terms: Terms) -> str:
    if facts.suspicion is not None and facts.suspicion.column is not None:
        column = f"column {facts.suspicion.column} of {terms.probs}"
        if facts.mistake is Mistake.TARGET_COLUMN:
            return f"{column} holds the targets, so leave the column out"
        return f"{column} holds whole numbers: leave the column out if it is not a probability"
    logits = f"{terms.logits} if they are logits" if terms.logits else ""
    if fault is Fault.ROW_SUM:
        one_event = f"{terms.multilabel} for one event per column{terms.unsummed}" if terms.multilabel else ""
        *first, last = filter(None, ("normalise the rows (divide each by its sum)", logits, one_event))
        return f"{', '.join(first)}, or {last}" if len(first) > 1 else " or ".join([*first, last])
    logits = logits or "correct the values"
    percent = terms.percent or logits
    remedies = {
        Mistake.PERCENT: percent,
        Mistake.PERCENT_OR_CLASSES: f"{percent} (if they are predicted classes, pass the probabilities instead)",
        Mistake.RANKS: "whole numbers up to 10 may be ranks or deciles: pass the probabilities instead",
        Mistake.ROUNDING: f"{terms.rounding}, or {logits}",
    }
    return remedies.get(facts.mistake, logits) if facts.mistake else logits


def _of_lengths(facts: Facts, terms: Terms) -> str:
    probs, targets = terms.probs, terms.targets
    remedies = {
        Mistake.SINGLE_LABEL: "pass a label for each row, such as [1]",
        Mistake.SINGLE_ROW: f"{probs} look like one prediction for many classes: if they are many predictions of one "
        f"event, pass {probs}.reshape(-1)",
        Mistake.TRANSPOSED_PROBS: f"{probs} look transposed: pass shape (N, C), with a row for each prediction and a "
        "column for each class",
        Mistake.TRANSPOSED_TARGETS: f"the one-hot targets look transposed: pass {targets}.T",
        Mistake.ONE_HOT_EVENT: f"the targets look one-hot: pass {targets}[:, 1] if that column marks the event",
        Mistake.SEVERAL_LABELS: "pass one label per row"
        + f", or for several labels per row {terms.multilabel} and {probs} of the same shape" * bool(terms.multilabel),
    }
    return remedies[facts.mistake] if facts.mistake else f"pass exactly one entry of {targets} for each row of {probs}"


def _of_label(facts: Facts, terms: Terms) -> str:
    ignored = terms.ignore_index.format(facts.value)
    match facts.mistake:
        case Mistake.ONE_BASED:
            return "the labels look 1-based: subtract 1"
        case Mistake.TWO_LABELS if facts.suspicion is not None:
            low, high = facts.suspicion.labels
            meant = "the event" if facts.n_classes is None else "the second class"
            return f"the labels are {low} and {high}: pass {terms.equal.format(high)} if {high} is {meant}"
        case Mistake.IGNORED_LABEL:
            return f"map -1 to 0, or {ignored}" if facts.n_classes is None else ignored
        case Mistake.COLUMN_LACKING:
            return f"check that {terms.probs} has a column for every class, or {ignored}"
        case Mistake.PROBABILITY_TARGETS:
            observed = "pass the observed outcomes, as 0 and 1 or class indices"
            return f"the targets look like probabilities: {observed}; {terms.soft_labels}"
        case Mistake.FRACTION:
            return f"{terms.filter}, or round the target if it should be an integer"
        case _ if not np.isfinite(facts.value):
            return terms.filter
    return f"map the targets to 0 and 1, or for more than two classes pass {terms.probs} of shape (N, C)"


def _of_label_name(facts: Facts, terms: Terms) -> str:
    if facts.mistake is Mistake.NUMBER_TEXT:
        return f"convert them to integers first, with np.asarray({terms.targets}, dtype=int)"
    if facts.mistake is Mistake.TWO_LABELS and facts.suspicion is not None:
        labels, event = list(facts.suspicion.labels), facts.suspicion.labels[1]
        equal = f"{terms.equal.format(event)} if {event!r} is the event"
        return f"pass {equal}, or {terms.class_names}={labels} to calibrant.evaluate"
    order = "" if facts.n_classes is None else ", in the order of the columns (classes_ of scikit-learn)"
    return f"pass {terms.class_names} to calibrant.evaluate{order}, or map the targets to integers"


def _of_one_hot(facts: Facts, terms: Terms) -> str:
    probs, targets = terms.probs, terms.targets
    remedies = {
        Mistake.SINGLE_ROW: f"{probs} look like one prediction for many classes: if they are many predictions of one "
        f"event, pass {probs}.reshape(-1), {targets}.reshape(-1)",
        Mistake.TRANSPOSED_BOTH: f"{probs} and {targets} look transposed: pass {probs}.T and {targets}.T",
        Mistake.PROBABILITY_TARGETS: "the targets look like probabilities: pass class indices; if label "
        f"smoothing made them, pass {targets}.argmax(axis=1); {terms.soft_labels}",
    }
    several = f", or {terms.multilabel} for several labels per row" if terms.multilabel else ""
    remedy = f"pass class indices{several}"
    return remedies[facts.mistake] if facts.mistake else remedy
