"""The conditions of ``--fail-if``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.errors import CalibrantError, nearest, quoted

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison
    from calibrant.report.report import GroupReport, Report

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
    r"\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<bound>[-+.\w]+)\s*(?(groups)\)\s*)"
)

#: The numbers of an estimate that a condition may be about; the first needs no name.
FIELDS: Final = ("value", "low", "high", "p_value")

#: What else a condition may be about: the test of calibration and the number of rows.
TEST: Final = "test"
ROWS: Final = "n"

_EXAMPLES: Final = "'ece > 0.05', 'ece.low > 0.03', 'test.p_value < 0.01' or 'groups.any(ece.low > 0.05)'"
_OF_CHANGES: Final = "'ece > 0.01', 'brier.low > 0' or 'groups.any(ece.low > 0)'"
_LISTED: Final = 3  # groups that a message names


@dataclass(frozen=True, slots=True)
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
        """Whether it is about the bare value of a measure being large, which noise alone may make it."""
        return self.field == FIELDS[0] and self.operator in (">", ">=") and self.measure not in (TEST, ROWS)


class ConditionType(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """The parser of a condition on a report, or with ``changes`` on what differs between two models."""

    name = "CONDITION"

    def __init__(self, *, changes: bool = False) -> None:
        self._changes = changes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        from calibrant.measures.listed import BY_NAME, compared

        if isinstance(value, Condition):
            return value
        match = _PATTERN.fullmatch(value)
        if match is None:
            hint = f"write it like {_OF_CHANGES if self._changes else _EXAMPLES}"
            if not any(sign in value for sign in _OPERATORS):
                hint = "quote it, such as --fail-if 'ece > 0.05', or the shell takes the > as its own"
            self.fail(f"{quoted(value)} is not a condition; {hint}", param, ctx)
        name, field, bound = match["name"], match["field"], match["bound"]
        names = (*(measure.name for measure in compared()), ROWS) if self._changes else (*BY_NAME, TEST, ROWS)
        if name not in names:
            self.fail(f"no measure {quoted(name)}; {nearest(name, names)}", param, ctx)
        fields = {TEST: ("p_value",), ROWS: ()}.get(name, FIELDS)
        if self._changes and fields and name != compared()[0].name:  # which alone has a p-value
            fields = FIELDS[:-1]
        if field is not None and field not in fields:
            known = f"{name} has {', '.join(fields)}" if fields else f"{name} is a number"
            self.fail(f"no {quoted(field)} of {quoted(name)}; {known}", param, ctx)
        if field is None and name == TEST:
            self.fail("'test' is not a number; write it like 'test.p_value < 0.01'", param, ctx)
        try:
            number = float(bound)
        except ValueError:
            number = math.nan
        if math.isnan(number):  # no comparison with NaN holds
            self.fail(f"{quoted(bound)} is not a number; write it like '{name} {match['sign']} 0.05'", param, ctx)
        return Condition(value.strip(), name, field or FIELDS[0], match["sign"], number, match["groups"] is not None)


def broken(condition: Condition, result: Report) -> str | None:
    """Return the message of a condition that holds, or None.

    Raises
    ------
    calibrant.errors.CalibrantError
        If the report does not have the number, or no groups.
    """
    if condition.of_groups:
        return _broken_of_groups(condition, result)
    value = _number(condition, result)
    if math.isnan(value):
        msg = f"--fail-if {quoted(condition.text)}: {condition.name} has no value ({_reason(condition, result)})"
        raise CalibrantError(msg)
    return f"{condition.name} is {_shown(condition, result)}" if condition.holds(value) else None


def _broken_of_groups(condition: Condition, result: Report) -> str | None:
    if not result.groups:
        msg = f"--fail-if {quoted(condition.text)}: there are no groups; name their column with --by"
        raise CalibrantError(msg)
    numbers = {group.name: _number_of_group(condition, group) for group in result.groups}
    if all(map(math.isnan, numbers.values())):
        first = result.groups[0]
        reason = first.flag if condition.measure == TEST else _reason(condition, first)
        msg = f"--fail-if {quoted(condition.text)}: {condition.name} has no value in any group ({reason})"
        raise CalibrantError(msg)
    held = [f"{name} ({value:.6g})" for name, value in numbers.items() if condition.holds(value)]
    return f"{condition.name} of {_listed(held, len(numbers))}" if held else None


def doubt(condition: Condition, result: Report) -> str | None:
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
        return f"a calibrated model of {result.n:,} rows has {upper}, by noise alone; '{proof}' asks for proof"
    place = _listed(list(reached), len(reports))
    return f"a calibrated model has {upper}, by noise alone, for {place}; '{OF_GROUPS}{proof})' asks for proof"


def _listed(names: Sequence[str], of: int) -> str:
    """Return the number of groups, and the first few names."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{len(names)} of {of} groups: {', '.join(names[:_LISTED])}{more}"


# ---------------------------------------------------------------- what differs between two models


def changed(condition: Condition, comparison: Comparison) -> list[str]:
    """Return a message for each later model whose difference from the first one fulfils a condition.

    A number is the later model's minus the first one's: ``ece > 0.01`` says that the ECE has risen.

    Raises
    ------
    calibrant.errors.CalibrantError
        If the comparison does not have the number, or no groups.
    """
    if condition.of_groups and not comparison.groups:
        msg = f"--fail-if {quoted(condition.text)}: there are no groups; name their column with --by"
        raise CalibrantError(msg)
    parts = {group.name: group.comparison for group in comparison.groups} if condition.of_groups else {"": comparison}
    messages, found = [], False
    for place, pair in enumerate(comparison.pairs):
        if pair.first != comparison.names[0]:
            continue
        numbers = {name: _change(condition, part, place) for name, part in parts.items()}
        found = found or not all(map(math.isnan, numbers.values()))
        held = {name: value for name, value in numbers.items() if condition.holds(value)}
        if not held:
            continue
        sign = "" if condition.measure == ROWS or condition.field == FIELDS[-1] else "+"
        named = [f"{name} ({value:{sign}.6g})" for name, value in held.items()]
        value = f"in {_listed(named, len(numbers))}" if condition.of_groups else f"is {held['']:{sign}.6g}"
        what = ROWS if condition.measure == ROWS else f"{condition.name} of {pair.second} minus {pair.first}"
        messages.append(f"{what} {value}")
    if not found:
        msg = f"--fail-if {quoted(condition.text)}: {condition.name} has no value"
        raise CalibrantError(msg)
    return list(dict.fromkeys(messages))


def _change(condition: Condition, comparison: Comparison, place: int) -> float:
    """Return the number of the later model of a pair minus that of the first; NaN if it is missing."""
    if condition.measure == ROWS:
        return comparison.n
    estimate = comparison.pairs[place][condition.measure]
    if condition.field == FIELDS[-1]:
        return estimate.p_value
    return -float(getattr(estimate, {"low": "high", "high": "low"}.get(condition.field, condition.field)))


def _number(condition: Condition, report: Report | GroupReport) -> float:
    """Return the number that a condition is about; NaN if it is missing."""
    if condition.measure == ROWS:
        return report.n
    if condition.measure == TEST:
        return math.nan if report.test is None else report.test.p_value
    return float(getattr(report[condition.measure], condition.field))


def _number_of_group(condition: Condition, group: GroupReport) -> float:
    return group.adjusted_p_value if condition.measure == TEST else _number(condition, group)


def _reason(condition: Condition, report: Report | GroupReport) -> str:
    if condition.measure == TEST:
        return "there is no test"
    estimate = report[condition.measure]
    return str(estimate.details.get("reason", estimate.method))


def _shown(condition: Condition, report: Report) -> str:
    """Return the number with its interval and its noise floor."""
    text = f"{_number(condition, report):.6g}"
    if condition.measure in (TEST, ROWS):
        return text
    estimate = report[condition.measure]
    facts = [] if condition.field == FIELDS[0] else [f"value {estimate.value:.6g}"]
    if not math.isnan(estimate.low):
        facts.append(f"{100 * estimate.level:g} % interval {estimate.low:.6g} to {estimate.high:.6g}")
    if estimate.floor is not None:
        facts.append(f"noise up to {estimate.floor.upper:.6g}")
    return f"{text} ({', '.join(facts)})" if facts else text
