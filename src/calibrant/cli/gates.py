"""The exit status of a command: what conditions and the gate make of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrant.cli import console
from calibrant.cli.conditions import broken, changed, doubt
from calibrant.cli.options import CommandOptions
from calibrant.errors import quoted

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison
    from calibrant.report.report import Report

#: The exit status if a condition holds or the gate rejects; 1 is for bad data (`errors`), 2 for usage (click).
FAILED: Final = 3

#: The exit status if these rows do not decide the tolerance of the gate.
OPEN: Final = 4

_STATUS: Final = {"proven": 0, "disproven": FAILED, "open": OPEN}


def report_status(report: Report, options: CommandOptions) -> int:
    """Return the exit status of ``report``, and say on standard error why it is not 0."""
    statuses = [0]
    for condition in options.conditions:
        message, caution = broken(condition, report), doubt(condition, report)
        if message is not None:
            console.say(f"--fail-if {quoted(condition.text)} holds: {message}")
            statuses.append(FAILED)
        if caution is not None:
            console.say(f"--fail-if {quoted(condition.text)}: {caution}")
    if options.gate:
        status = FAILED if report.miscalibrated else 0
        if report.decision is not None:
            status = _STATUS[report.decision.state]
        if status:
            console.say(f"--gate: {report.verdict()[0]}")
        statuses.append(status)
    return _worst(statuses)


def comparison_status(comparison: Comparison, options: CommandOptions) -> int:
    """Return the exit status of ``compare``: the gate asks whether a model is worse than the first."""
    from calibrant.render.comparison import deciding

    statuses = [0]
    for condition in options.conditions:
        for message in changed(condition, comparison):
            console.say(f"--fail-if {quoted(condition.text)} holds: {message}")
            statuses.append(FAILED)
    if not options.gate:
        return _worst(statuses)
    summary = comparison.to_dict()
    for pair, plain in zip(comparison.pairs, summary["pairs"], strict=True):
        if pair.first == comparison.names[0]:
            status = FAILED if comparison.worse(pair) else 0
            if pair.decision is not None:
                status = _STATUS[pair.decision.state]
            if status:
                console.say(f"--gate: {deciding(plain, summary)}")
            statuses.append(status)
    return _worst(statuses)


def _worst(statuses: list[int]) -> int:
    return FAILED if FAILED in statuses else max(statuses)
