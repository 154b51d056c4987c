"""The measures of a report as blocks: which ones are shown, their table, their chart, and remarks on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from calibrant.measures.means.in_the_large import OE_RATIO
from calibrant.measures.profiles import PROFILES
from calibrant.render.blocks import Column, Table
from calibrant.render.figure import Figure, Name, PointLook
from calibrant.render.row_figures import Row, rows_figure, tip_of
from calibrant.render.words import (
    BINS,
    amount,
    chance_text,
    counted_in,
    counted_in_classes,
    ends_column,
    explained,
    gathered,
    number,
    number_text,
    percent,
    rows_text,
    short,
    signed,
)
from calibrant.results import Code, Estimate, Floor
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.report.report import Report

_NO_FLOOR: Final = Floor(math.nan, math.nan)


# ---------------------------------------------------------------- what is shown


def is_missing(part: Estimate) -> bool:
    """Return whether an estimate has no value; a loss that is infinite because of known rows is one."""
    return not math.isfinite(part.value) and "infinite_rows" not in part.details


def has_interval(part: Estimate) -> bool:
    """Return whether an estimate has a confidence interval with finite ends."""
    return math.isfinite(part.low) and math.isfinite(part.high)


def shown_estimates(report: Report, *, complete: bool = True) -> dict[str, Estimate]:
    """Return the estimates to show: all of a list; of a profile those with a value, or the key measures among them.

    The Brier score of the event is left out where it is that of all predictions.
    """
    if report.listed:
        return dict(report.estimates)
    held = {key: part for key, part in report.estimates.items() if not is_missing(part)}
    scores = [held[key].value for key in ("brier", "brier_event") if key in held]
    if len(scores) == 2 and math.isclose(*scores, rel_tol=1e-9):
        del held["brier_event"]
    if complete:
        return held
    tolerated = () if report.decision is None else (report.decision.measure,)
    keys = [key for key in dict.fromkeys((*PROFILES[report.profile].key_measures, *tolerated)) if key in held]
    return {key: held[key] for key in keys} or held


def weighed_in(report: Report) -> str:
    """Return what the counts of a report are numbers of: rows, or their weight."""
    if report.diagram is not None:
        return counted_in(report.diagram.counts)
    return "rows" if report.classwise is None else counted_in_classes(report.classwise.counts)


def total_weight(report: Report) -> float:
    """Return the weight of all rows; NaN if rows lack some of their labels."""
    if report.diagram is not None:
        return float(report.diagram.counts.sum())
    totals = [] if report.classwise is None else [total for total in report.classwise.counts.sum(axis=1) if total > 0]
    least, most = min(totals), max(totals)
    return float(most) if most - least <= 1e-9 * most else math.nan


# ---------------------------------------------------------------- the table and the chart


def measures_table(report: Report, shown: Mapping[str, Estimate], *, full: bool) -> Table:
    """Return the measures with their intervals, noise floors and p-values."""
    parts, level, known = list(shown.values()), report.level, [report.descriptions[key] for key in shown]
    writes = [signed if description.signed else number for description in known]
    values = ["–" if is_missing(part) else write(part.value) for part, write in zip(parts, writes, strict=True)]
    columns = [
        Column("measure", [description.label for description in known], {"measure": list(shown)}),
        Column("estimate", values, {"value": [part.value for part in parts]}),
    ]
    if level is None:
        return Table("measures", columns, "All measures")
    p_values, spare = [part.p_value for part in parts], 0 if full else 1
    tests = {"p_value": p_values, "error_bound": [part.error_bound for part in parts]}
    columns += [
        interval_column(parts, level, writes, spare=spare),
        *floor_columns(parts, level),
        Column("p", [chance_text(p, report.n_resamples) for p in p_values], tests, spare=2 * spare),
    ]
    without = [i for i, part in enumerate(parts) if not has_interval(part) and part.floor is None]
    lacking = {i: (2, parts[i].method.partition("; ")[0]) for i in without}
    return Table("measures", columns, "All measures", spanned=lacking)


def interval_column(
    parts: Sequence[Estimate], level: float, writes: Iterable[Callable[[float], str]] = repeat(number), *, spare: int
) -> Column:
    """Return the column of the intervals of estimates."""
    ends = [(part.low, part.high) if has_interval(part) else (math.nan, math.nan) for part in parts]
    lows, highs = zip(*ends, strict=True)
    return ends_column(f"{percent(level)} CI", {"low": lows, "high": highs}, writes)._replace(spare=spare)


def floor_columns(parts: Sequence[Estimate], level: float) -> list[Column]:
    """Return the columns of the noise floors of estimates: the means, and the upper ends."""
    floors = [part.floor or _NO_FLOOR for part in parts]
    return [
        Column.of("calibrated: mean", "noise_mean", (floor.mean for floor in floors), number_text, spare=3),
        Column.of(
            f"calibrated: {percent(level)} below",
            "noise_upper",
            (floor.upper for floor in floors),
            number_text,
            spare=3,
        ),
    ]


def noise_figure(report: Report, shown: Mapping[str, Estimate]) -> list[Figure]:
    """Return the chart of the errors that share a scale, with their noise floors; none without intervals."""
    level, rows = report.level, []
    for key, part in shown.items():
        description = report.descriptions[key]
        if not math.isfinite(part.value) or (description.scale, description.better) != ("probability", "lower"):
            continue
        tested = not math.isnan(part.p_value)
        beyond = tested and level is not None and part.p_value <= alpha_of(level)
        note = f"p {chance_text(part.p_value, report.n_resamples)}" if tested else ""
        tip = tip_of(description.label, part, level, [note])
        rows.append(Row(Name((description.label,)), part, "out" if beyond else "dot", tip))
    if level is None or not rows:
        return []
    words: dict[PointLook, str] = {"dot": "Estimate", "out": "Significant"}
    figure = rows_figure("Calibration errors and their noise floors", rows, words, "", level=level)
    return [figure._replace(name="noise")]


# ---------------------------------------------------------------- remarks


def more_measures(report: Report, shown: Mapping[str, Estimate]) -> list[str]:
    """Return how to see the measures that are not shown: one sentence, or none."""
    more = len(shown_estimates(report)) - len(shown)
    plural = "s" * (more != 1)
    return [f"to see {more} more measure{plural}, add --all, or use report.to_dict() in Python"] if more else []


def remarks(report: Report, shown: Mapping[str, Estimate], *, complete: bool = True) -> list[str]:
    """Return the remarks on the shown numbers; ``complete`` tells whether they are all measures of a profile."""
    notes = [*_bins(report, shown), *_single(report, shown), *_without_intervals(report, shown)]
    notes += _missing(report, shown, complete=complete)
    notes += disagreements(report, shown)
    if {"miscalibration", "discrimination", "uncertainty"} <= shown.keys():
        notes.append("Brier score = miscalibration - discrimination + uncertainty (CORP decomposition)")
    grid = next((part.details["table"] for part in shown.values() if "table" in part.details), None)
    if grid is not None:
        notes.append(_exactness(report, shown, str(grid)))
    if report.level is not None and any(part.floor is not None for part in shown.values()):
        drawn, tail = report.n_resamples, f"{100 * report.level:g}th percentile"
        source = f"{drawn:,} simulated data sets" if drawn else "closed form"
        model = "for a perfectly calibrated model with these predictions"
        notes.append(f"calibrated: mean and {tail} {model} ({source})")
    return notes


def _bins(report: Report, shown: Mapping[str, Estimate]) -> list[str]:
    """Return the bins of the measures, in words."""
    known = [report.descriptions[key] for key in shown]
    labels = gathered((description.binning, description.label) for description in known)
    bins = [f"{', '.join(labels[kind])}: {report.n_bins} bins {BINS[kind]}" for kind in labels if kind is not None]
    return ["; ".join(bins)] if bins else []


def _single(report: Report, shown: Mapping[str, Estimate]) -> list[str]:
    """Return remarks on single measures, from their details."""
    notes = []
    for key, part in shown.items():
        label, details = report.descriptions[key].label, part.details
        if "infinite_rows" in details:
            many = details["infinite_rows"]
            had = f"{amount(many)} observed outcome{'s' * (many != 1)} had predicted probability 0"
            notes.append(f"{label} is infinite: {had}")
        if "moved_from_the_ends" in details:
            moved = rows_text(details["moved_from_the_ends"])
            notes.append(
                f"{label}: in {moved}, the score is within 1e-6 of 0 or 1 and was replaced by 1e-6 or 1 - 1e-6"
            )
        if "bin" in details:
            ends = f"{details['left']:.3f} to {details['right']:.3f}"
            many = f"weight {amount(count)}" if isinstance(count := details["count"], float) else f"{count:,} rows"
            notes.append(f"{label}: the largest difference is in the bin {ends} with {many}")
        if "worst_class" in details:
            notes.append(
                f"{label}: class {short(details['worst_class'])} has the largest value, {details['worst']:.4f}"
            )
        if report.descriptions[key].scale == "square" and part.value < 0:
            notes.append(f"{label}: the estimate is negative by chance; the true value is at least 0")
        if is_missing(part):
            notes.append(f"{label}: {part.method}")
        if key == OE_RATIO.name and part.floor is not None:
            notes.append(
                f'{label}: the columns under "calibrated" are for |O:E - 1|, the distance from the ideal value 1'
            )
    return notes


def measure_cautions(report: Report, shown: Mapping[str, Estimate]) -> list[str]:
    """Return the cautions about single measures, each once; nothing if the verdict calls all intervals rough."""
    if any(finding.code == Code.RARE_OUTCOME for finding in report.findings):
        return []
    return explained(
        (part.details["measure_flag"], report.descriptions[key].label)
        for key, part in shown.items()
        if "measure_flag" in part.details
    )


def _missing(report: Report, shown: Mapping[str, Estimate], *, complete: bool) -> list[str]:
    """Return remarks on measures of a profile without a value, from their details."""
    notes = []
    for key, part in report.estimates.items():
        if key in shown:
            continue
        label, details = report.descriptions[key].label, part.details
        if "unkept_classes" in details:
            notes.append(f"{label}: {details['reason']}")
        if complete and "of_all_bins" in details:
            worst = f"{details['of_all_bins']:.4f} over all bins"
            notes.append(f"{label}: no bin has at least {details['least_rows']} rows ({worst})")
    return notes


def _without_intervals(report: Report, shown: Mapping[str, Estimate]) -> list[str]:
    """Return why estimates have no interval, each reason once."""
    return explained(
        (part.method.partition("; floor: ")[0], report.descriptions[key].label)
        for key, part in shown.items()
        if report.level is not None and not math.isfinite(part.low) and math.isfinite(part.value)
    )


def disagreements(report: Report, keys: Iterable[str]) -> list[str]:
    """Return why the p-value and the interval of a measure disagree about its ideal value: a sentence for each reason.

    They agree if the interval excludes the ideal value exactly where the p-value is small.
    """
    if report.level is None:
        return []
    alpha = alpha_of(report.level)
    excluded = any(finding.code == Code.IMPOSSIBLE_OUTCOMES for finding in report.findings)
    zero = f"the lower end is conservative: it is above 0 only if p ≤ {alpha / 2:.3g}"
    spread = (
        "the p-value uses the variance of outcomes under calibration, and the CI uses the variance of the "
        "observed outcomes"
    )
    reasons: list[tuple[str, str]] = []
    for key in keys:
        part, description = report.estimates[key], report.descriptions[key]
        if math.isnan(part.p_value) or not has_interval(part):
            continue
        ideal, small = float(description.scale == "ratio"), part.p_value <= alpha
        if small != (part.low <= ideal <= part.high):
            continue
        if not small:
            reason = f"the CI does not contain {ideal:g} although p is above {alpha:.3g}, because {spread}"
        elif excluded:
            never = "outcomes with a predicted probability of 0 or nearly 0 make p small but do not change the CI"
            reason = f"the CI contains {ideal:g} although p is small, because {never}"
        elif part.low == ideal == 0:
            reason = f"the lower end of the CI is 0 although p is small, because {zero}"
        else:
            reason = f"the CI contains {ideal:g} although p is small, because {spread}"
        reasons.append((reason, description.label))
    return explained(reasons)


def _exactness(report: Report, shown: Mapping[str, Estimate], grid: str) -> str:
    """Return the certified errors of a sketch's numbers, if four digits show them."""
    bounds = {report.descriptions[key].label: part.error_bound for key, part in shown.items()}
    errors = [f"{label} {bound:.4f}" for label, bound in bounds.items() if math.isfinite(bound) and bound >= 5e-5]
    certified = f"largest errors: {', '.join(errors)}; all other numbers are" if errors else "all numbers shown are"
    uncertified = [label for label, bound in bounds.items() if not math.isfinite(bound)]
    doubt = f"; the error is unknown for {', '.join(uncertified)}" if uncertified else ""
    return f"computed from a sketch ({grid}); {certified} exact to the digits shown{doubt}"
