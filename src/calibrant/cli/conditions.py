"""The conditions of ``--fail-if`` and the gate, and the exit status that they make of a result."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.cli import console
from calibrant.cli.parameters import share_in, starting
from calibrant.errors import CalibrantError, nearest, quoted
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from calibrant.report.comparison import Comparison
    from calibrant.report.question_comparisons import QuestionComparisons
    from calibrant.report.question_reports import QuestionReports
    from calibrant.report.report import Report
    from calibrant.report.result_comparison import ResultComparison
    from calibrant.results import Decision

#: The exit status if a condition holds or the gate rejects; 1 is for bad data, 2 for usage (click).
FAILED: Final = 3

#: The exit status if these rows do not decide the tolerance of the gate.
OPEN: Final = 4

_STATUS: Final = {"proven": 0, "disproven": FAILED, "open": OPEN}

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

#: How a condition on groups begins.
OF_GROUPS: Final = "groups.any("

_PATTERN: Final = re.compile(
    r"\s*(?P<groups>groups\.any\(\s*)?(?P<name>\w+)(\.(?P<field>\w+))?"
    r"\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<bound>[-+.\w]+(?:\s*%)?)\s*(?(groups)\)\s*)"
)

#: The numbers of an estimate that a condition may be about; the first needs no name.
FIELDS: Final = ("value", "low", "high", "p_value")

#: What else a condition may be about: the test of calibration and the number of rows.
TEST: Final = "test"
ROWS: Final = "n"

_EXAMPLES: Final = "'ece > 0.05', 'ece.low > 0.03', 'test.p_value < 0.01' or 'groups.any(ece.low > 0.05)'"
_OF_CHANGES: Final = "'ece > 0.01', 'brier.low > 0' or 'groups.any(ece.low > 0)'"
_LISTED: Final = 3  # groups that a message names


@dataclass(frozen=True)
class Condition:
    """A condition on a number of a report, such as ``ece > 0.05`` or ``groups.any(ece.low > 0.05)``.

    Attributes
    ----------
    text : str
        The condition as typed.
    measure : str
        A measure, "test" or "n".
    field : str
        One of `FIELDS`.
    operator : str
        The comparison.
    bound : float
        What the number is compared with.
    of_groups : bool
        Whether it holds if it holds for any group. The p-value of a group's test is that after Holm's correction.
    """

    text: str
    measure: str
    field: str
    operator: str
    bound: float
    of_groups: bool = False

    def holds(self, value: float) -> bool:
        """Return whether a number fulfils the condition; a missing one does not."""
        return not math.isnan(value) and _OPERATORS[self.operator](value, self.bound)

    @property
    def name(self) -> str:
        """The name of the number."""
        return self.measure if self.field == FIELDS[0] else f"{self.measure}.{self.field}"

    @property
    def plain(self) -> bool:
        """Whether it is about the bare value of a measure being large, which chance may make it."""
        return self.field == FIELDS[0] and self.operator in (">", ">=") and self.measure not in (TEST, ROWS)


class ConditionType(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """The parser of a condition on a report, or with ``changes`` on what differs between two models."""

    name = "CONDITION"

    def __init__(self, *, changes: bool = False) -> None:
        self._changes = changes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        if isinstance(value, Condition):
            return value
        match = _PATTERN.fullmatch(value)
        if match is None:
            hint = f"write a condition such as {_OF_CHANGES if self._changes else _EXAMPLES}"
            if not any(sign in value for sign in _OPERATORS):
                hint = "put the condition in quotes, such as --fail-if 'ece > 0.05', because the shell interprets >"
            self.fail(f"{quoted(value)} is not a condition; {hint}", param, ctx)
        problem = self._problem(match)
        if problem:
            self.fail(problem, param, ctx)
        name, field, sign = match["name"], match["field"] or FIELDS[0], match["sign"]
        return Condition(value.strip(), name, field, sign, share_in(match["bound"]), match["groups"] is not None)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Propose the beginnings of conditions: each measure with > and <; after its dot its numbers."""
        from calibrant.measures.listed import BY_NAME

        typed = incomplete.lstrip()
        start = OF_GROUPS if typed.startswith(OF_GROUPS) else ""
        name, dot, _ = typed.removeprefix(start).partition(".")
        if dot and name in BY_NAME:
            numbers = [f"{name}.{field} {sign}" for field in FIELDS[1:] for sign in "><"]
        else:
            numbers = [f"{name} {sign}" for name in (*BY_NAME, ROWS) for sign in "><"] + [f"{TEST}.{FIELDS[-1]} <"]
        return starting([*(start + number for number in numbers), *([] if start else [OF_GROUPS])], typed)

    def _problem(self, match: re.Match[str]) -> str:
        """Return what is wrong with the measure, its number, or the bound of a condition; empty if nothing is."""
        from calibrant.measures.listed import BY_NAME, compared

        name, field, bound = match["name"], match["field"], match["bound"]
        names = (*(measure.name for measure in compared()), ROWS) if self._changes else (*BY_NAME, TEST, ROWS)
        if name not in names:
            return f"there is no measure {quoted(name)}; {nearest(name, names)}"
        fields = {TEST: ("p_value",), ROWS: ()}.get(name, FIELDS)
        if self._changes and fields and name != compared()[0].name:  # which alone has a p-value
            fields = FIELDS[:-1]
        if field is not None and field not in fields:
            listed = f"the values of {name} are {', '.join(fields)}" if fields else f"{name} is a single number"
            return f"{quoted(name)} has no value {quoted(field)}; {listed}"
        if field is None and name == TEST:
            return "'test' is not a number; write 'test.p_value < 0.01'"
        try:
            is_number = not math.isnan(share_in(bound))  # no comparison with NaN holds
        except ValueError:
            is_number = False
        return "" if is_number else f"{quoted(bound)} is not a number; write '{name} {match['sign']} 0.05'"


# ---------------------------------------------------------------- the exit status


def report_status(report: Report | QuestionReports, conditions: Sequence[Condition], *, gate: bool) -> int:
    """Return the exit status of ``report``, and say on standard error why it is not 0.

    The gate of several questions fails if one of them is miscalibrated, and is open if none has enough rows for a test.

    Raises
    ------
    calibrant.errors.CalibrantError
        If the report does not have the number of a condition, or no groups.
    """
    from calibrant.report.question_reports import QuestionReports

    if isinstance(report, QuestionReports):
        status = FAILED if report.miscalibrated else 0 if report.tested else OPEN
        if gate and status:
            console.say(f"--gate: {report.verdict()[0]}")
        return status if gate else 0
    statuses = [0]
    for condition in conditions:
        message, caution = _broken(condition, report), _doubt(condition, report)
        if message is not None:
            console.say(f"--fail-if {quoted(condition.text)} holds: {message}")
            statuses.append(FAILED)
        if caution is not None:
            console.say(f"--fail-if {quoted(condition.text)}: {caution}")
    if gate:
        statuses.append(_gate(report.decision, report.miscalibrated))
        if statuses[-1]:
            from calibrant.report.findings_text import deciding

            console.say(f"--gate: {deciding(report)}")
    return _worst(statuses)


def comparison_status(
    comparison: Comparison | QuestionComparisons | ResultComparison, conditions: Sequence[Condition], *, gate: bool
) -> int:
    """Return the exit status of ``compare``: the gate asks whether a model is worse than the first.

    By several questions, conditions are about the intervals and p-values for all of them together, and the gate fails
    if it fails for one of them.

    Raises
    ------
    calibrant.errors.CalibrantError
        If the comparison does not have the number of a condition, or no groups.
    """
    from calibrant.report.question_comparisons import QuestionComparisons

    if isinstance(comparison, QuestionComparisons):
        parts: dict[str, Any] = {
            f"question {quoted(name)}: ": each.together for name, each in comparison.questions.items()
        }
    else:
        parts = {"": comparison}
    statuses = [0]
    for condition in conditions:
        found = {start: _changed(condition, part) for start, part in parts.items()}
        if all(messages is None for messages in found.values()):
            msg = f"--fail-if {quoted(condition.text)}: {condition.name} has no value"
            raise CalibrantError(msg)
        for start, messages in found.items():
            for message in messages or ():
                console.say(f"--fail-if {quoted(condition.text)} holds: {start}{message}")
                statuses.append(FAILED)
    if gate:
        statuses += [_gate_of_models(start, part) for start, part in parts.items()]
    return _worst(statuses)


def _gate_of_models(start: str, comparison: Any) -> int:
    """Return the status of the gate of a comparison, and say which models are worse than the first one."""
    from calibrant.report.comparison_document import deciding
    from calibrant.report.result_comparison import ResultComparison
    from calibrant.report.result_document import difference_text

    said = difference_text if isinstance(comparison, ResultComparison) else deciding
    statuses = [0]
    for pair in comparison.pairs:
        if pair.first == comparison.names[0]:
            statuses.append(_gate(pair.decision, comparison.worse(pair)))
            if statuses[-1]:
                console.say(f"--gate: {start}{said(pair, comparison)}")
    return _worst(statuses)


def _gate(decision: Decision | None, is_bad: bool | None) -> int:
    """Return the status of the gate: what is decided about the tolerance, or without one whether a test rejects."""
    if decision is not None:
        return _STATUS[decision.state]
    return FAILED if is_bad else 0


def _worst(statuses: list[int]) -> int:
    return FAILED if FAILED in statuses else max(statuses)


# ---------------------------------------------------------------- the numbers of a report


def _broken(condition: Condition, report: Report) -> str | None:
    """Return the message of a condition that holds, or None."""
    _check_groups(condition, report)
    if condition.measure not in (TEST, ROWS, *report):
        msg = f"--fail-if {quoted(condition.text)}: only reports on ordered levels have {condition.measure}"
        raise CalibrantError(msg)
    parts = {group.name: group for group in report.groups} if condition.of_groups else {"": report}
    numbers = {name: _number(condition, part) for name, part in parts.items()}
    if all(map(math.isnan, numbers.values())):
        first = next(iter(parts.values()))
        problem = f"{condition.name} has no value{' in any group' * condition.of_groups} ({_reason(condition, first)})"
        msg = f"--fail-if {quoted(condition.text)}: {problem}"
        raise CalibrantError(msg)
    held = [f"{name} ({value:.6g})" for name, value in numbers.items() if condition.holds(value)]
    if not held:
        return None
    if condition.of_groups:
        return f"{condition.name} of {_listed(held, len(numbers))}"
    return f"{condition.name} is {_shown(condition, report)}"


def _check_groups(condition: Condition, result: Report | Comparison) -> None:
    if condition.of_groups and not result.groups:
        msg = f"--fail-if {quoted(condition.text)}: the data have no groups; name the column of the groups with --by"
        raise CalibrantError(msg)


def _doubt(condition: Condition, result: Report) -> str | None:
    """Return a warning about a condition that a perfectly calibrated model of so many rows may fulfil, or None."""
    if not condition.plain:
        return None
    reports = {group.name: group for group in result.groups} if condition.of_groups else {"": result}
    floors = {name: report[condition.measure].floor for name, report in reports.items()}
    reached = {
        name: floor.upper for name, floor in floors.items() if floor is not None and condition.holds(floor.upper)
    }
    if not reached:
        return None
    upper = f"{condition.measure} up to {max(reached.values()):.4f} in {100 * (result.level or 0):g} % of samples"
    proof = f"{condition.measure}.low {condition.operator} {condition.bound:g}"
    if not condition.of_groups:
        by_chance = f"a perfectly calibrated model has {upper} of {result.n:,} rows"
    else:
        by_chance = f"a perfectly calibrated model has {upper} in {_listed(list(reached), len(reports))}"
        proof = f"{OF_GROUPS}{proof})"
    return f"the condition may be true by chance, because {by_chance}; write '{proof}' to require evidence"


def _listed(names: Sequence[str], of: int) -> str:
    """Return the number of groups, and the first few names."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{len(names)} of {of} groups: {', '.join(names[:_LISTED])}{more}"


# ---------------------------------------------------------------- what differs between two models


def _changed(condition: Condition, comparison: Comparison) -> list[str] | None:
    """Return a message for each later model whose difference from the first one fulfils a condition; None without any.

    A number is the later model's minus the first one's: ``ece > 0.01`` says that the ECE has risen.
    """
    _check_groups(condition, comparison)
    parts = {group.name: group.comparison for group in comparison.groups} if condition.of_groups else {"": comparison}
    messages, has_value = [], False
    for place, pair in enumerate(comparison.pairs):
        if pair.first != comparison.names[0]:
            continue
        numbers = {name: _change(condition, part, place) for name, part in parts.items()}
        has_value = has_value or not all(map(math.isnan, numbers.values()))
        held = {name: value for name, value in numbers.items() if condition.holds(value)}
        if not held:
            continue
        sign = "" if condition.measure == ROWS or condition.field == FIELDS[-1] else "+"
        named = [f"{name} ({value:{sign}.6g})" for name, value in held.items()]
        value = f"in {_listed(named, len(numbers))}" if condition.of_groups else f"is {held['']:{sign}.6g}"
        what = ROWS if condition.measure == ROWS else f"{condition.name} of {pair.second} minus {pair.first}"
        messages.append(f"{what} {value}")
    return list(dict.fromkeys(messages)) if has_value else None


def _change(condition: Condition, comparison: Comparison, place: int) -> float:
    """Return the number of the later model of a pair minus that of the first; NaN if it is missing."""
    if condition.measure == ROWS:
        return comparison.n
    estimate = comparison.pairs[place].estimates.get(condition.measure)
    if estimate is None:
        return math.nan
    if condition.field == FIELDS[-1]:
        return estimate.p_value
    return -float(getattr(estimate, {"low": "high", "high": "low"}.get(condition.field, condition.field)))


def _number(condition: Condition, part: Any) -> float:
    """Return the number that a condition on a report or a group is about; NaN if it is missing."""
    if condition.measure == ROWS:
        return float(part.n)
    if condition.measure != TEST:
        return float(getattr(part[condition.measure], condition.field))
    if condition.of_groups:
        return float(part.adjusted_p_value)
    return math.nan if part.test is None else float(part.test.p_value)


def _reason(condition: Condition, part: Any) -> str:
    """Return why a report or a group does not have the number of a condition."""
    if condition.measure == TEST:
        return str(part.flag) if condition.of_groups else "a test is missing"
    estimate = part[condition.measure]
    return str(estimate.details.get("reason", estimate.method))


def _shown(condition: Condition, report: Report) -> str:
    """Return the number with its interval and its noise floor."""
    text = f"{_number(condition, report):.6g}"
    if condition.measure in (TEST, ROWS):
        return text
    estimate = report[condition.measure]
    facts = [] if condition.field == FIELDS[0] else [f"value {estimate.value:.6g}"]
    if not math.isnan(estimate.low):
        facts.append(f"{100 * estimate.level:g} % CI {estimate.low:.6g} to {estimate.high:.6g}")
    if estimate.floor is not None:
        facts.append(f"calibrated: below {estimate.floor.upper:.6g}")
    return f"{text} ({', '.join(facts)})" if facts else text
