"""The conditions of ``--fail-if``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from calibrant.report import Report

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one measure, such as ``ece > 0.05``."""

    text: str
    measure: str
    operator: str
    bound: float

    def holds(self, value: float) -> bool:
        return _OPERATORS[self.operator](value, self.bound)


class ConditionType(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """The parser of a condition on a measure."""

    name = "CONDITION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        from calibrant.errors import nearest
        from calibrant.measures.listed import BY_NAME

        if isinstance(value, Condition):
            return value
        match = re.fullmatch(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*([-+.\w]+)\s*", value)
        if match is None:
            hint = "quote it, such as --fail-if 'ece > 0.05', or the shell takes the > as its own"
            self.fail(f"{value!r} is not a condition; {hint}", param, ctx)
        measure, sign, bound = match.groups()
        if measure not in (*BY_NAME, "n"):
            self.fail(f"no measure {measure!r}; {nearest(measure, (*BY_NAME, 'n'))}", param, ctx)
        try:
            number = float(bound)
        except ValueError:
            number = math.nan
        if math.isnan(number):  # no comparison with NaN holds
            self.fail(f"{bound!r} is not a number; write it like '{measure} {sign} 0.05'", param, ctx)
        return Condition(value.strip(), measure, sign, number)


def is_held(condition: Condition, result: Report) -> bool:
    """Return whether a condition holds for a report; raise if the measure has no value."""
    from calibrant.errors import CalibrantError

    if condition.measure == "n":
        return condition.holds(result.n)
    estimate = result[condition.measure]
    if math.isnan(estimate.value):
        msg = f"--fail-if {condition.text!r}: {condition.measure} has no value ({estimate.details.get('reason')})"
        raise CalibrantError(msg)
    return condition.holds(estimate.value)
