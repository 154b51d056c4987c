"""The paragraph for the results section of a paper, of a report: every number as in the table of measures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from calibrant.inputs.notions import PER_CLASS
from calibrant.render.blocks import Source
from calibrant.render.words import amount, capital, chance, event_of, number, percent, signed, terms_of
from calibrant.report.findings_text import about_groups, deciding
from calibrant.report.measure_document import has_interval, is_missing, shown_estimates, total_weight
from calibrant.results import Estimate

if TYPE_CHECKING:
    from calibrant.report.report import Report

#: The heading above the paragraph.
RESULTS: Final = "Results"

#: The measures of each sentence: in the large and as a line, the errors, and what scores and ranks say.
_SENTENCES: Final = (
    ("mean_gap", "oe_ratio", "calibration_intercept", "calibration_slope"),
    ("ece", "ici", "classwise_ece", "rps"),
    ("brier", "brier_event", "brier_skill", "accuracy", "auroc"),
)
#: Ideal values that readers of a paper expect with an estimate.
_IDEAL: Final = {"oe_ratio": 1, "calibration_intercept": 0, "calibration_slope": 1}


def paragraph(report: Report, source: Source) -> str:
    """Return the paragraph: the rows and events, the estimates with their intervals, the test, and groups."""
    return " ".join(_sentences(report, source))


def _sentences(report: Report, source: Source) -> Iterator[str]:
    yield f"{_data(report, source)}."
    shown = shown_estimates(report)
    for keys in _SENTENCES:
        parts = [_estimate(report, key, shown[key]) for key in keys if key in shown and not is_missing(shown[key])]
        if parts:
            yield f"{capital('; '.join(parts))}."
    if report.test is not None:
        p_value = f"p {chance(report.test.p_value, report.n_resamples)}"
        evidence = "evidence" if report.miscalibrated else "no evidence"
        yield f"The test of calibration found {evidence} of miscalibration ({p_value})."
    if report.decision is not None:
        yield deciding(report)
    yield from (sentence.text for sentence in about_groups(report))


def _data(report: Report, source: Source) -> str:
    """Return the rows, the events with their share, and the mean predicted probability."""
    event, rows = event_of(report.notion, source), f"We evaluated {report.n:,} predictions"
    if report.notion in PER_CLASS:
        return f"{rows} ({event}). The mean observed frequency was {_share(report.outcome_rate)}"
    total = report.n if report.choices.weights is None else total_weight(report)
    of_weight = "" if report.choices.weights is None else " units of weight"
    share = _share(report.outcome_rate)
    if not math.isnan(total):
        events = amount(round(report.outcome_rate * total, 1))
        share = f"{events} of {amount(round(total, 1))}{of_weight} ({share})"
    mean = next((finding.facts["mean_score"] for finding in report.findings if "mean_score" in finding.facts), math.nan)
    also = "" if math.isnan(mean) else f", and the {terms_of(report.notion).predicted} was {_share(mean)}"
    return f"{rows}. The event ({event}) was observed in {share}{also}"


def _share(share: float) -> str:
    return f"{100 * share:.4g} %"


def _estimate(report: Report, key: str, part: Estimate) -> str:
    """Return a measure with its interval, its ideal value, and what a calibrated model would stay below."""
    description = report.descriptions[key]
    write = signed if description.signed else number
    notes = []
    if report.level is not None and has_interval(part):
        notes.append(f"{percent(report.level)} CI {write(part.low)} to {write(part.high)}")
    if key in _IDEAL:
        notes.append(f"ideal {_IDEAL[key]}")
    if report.level is not None and part.floor is not None and description.better == "lower":
        notes.append(f"if calibrated, below {number(part.floor.upper)} in {percent(report.level)} of samples")
    more = f" ({'; '.join(notes)})" if notes else ""
    return f"the {description.label} was {write(part.value)}{more}"
