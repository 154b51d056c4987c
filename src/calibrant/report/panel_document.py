"""The further curves of a profile as blocks: the decision curve, the Murphy curve and the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS
from calibrant.render.blocks import Block, Column, Heading, Sentence, Table
from calibrant.render.figure import Figure, round_step
from calibrant.render.line_figures import base_scores, decision_figure, murphy_figure, roc_figure, threshold_text
from calibrant.render.words import amount, capital, ends_column, is_clustered, number, percent, steps
from calibrant.results.values import MurphyCurve, NetBenefit, RocCurve

if TYPE_CHECKING:
    from calibrant.report.report import Report

_LISTED: Final = 11  # rows of a table on a page
_BRIEF: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # thresholds of a short table


class _Panel(NamedTuple):
    """A curve with its numbers; ``listed`` and ``brief`` are the rows of its table on a page and in the terminal.

    A page begins with those rows of the terminal that are above its own.
    """

    figure: Figure
    table: Table
    listed: Sequence[int]
    brief: Sequence[int] = ()


def panel_blocks(report: Report, *, full: bool) -> list[Block]:
    """Return the curves in the order of the profile: each as a picture and its numbers, or as a short table."""
    blocks: list[Block] = []
    for panel in report.panels.values():
        if isinstance(panel, NetBenefit):
            drawn = benefit_panel(panel, clustered=is_clustered(report.clusters, report.n))
        elif isinstance(panel, MurphyCurve):
            drawn = _murphy_curve(panel, report.outcome_rate)
        else:
            drawn = _roc_curve(panel)
        heading = Heading(drawn.figure.title, drawn.table.name)
        if full:
            below = [i for i in drawn.brief if i < drawn.listed[0]]  # the step of a long table
            blocks += [heading, drawn.figure, drawn.table.of_rows([*below, *drawn.listed])]
        elif drawn.brief:
            columns = [column._replace(spare=i) for i, column in enumerate(drawn.table.columns)]
            table = replace(drawn.table, columns=columns, listed=drawn.brief)
            blocks += [heading, table, Sentence(drawn.figure.caption)]
    return blocks


def benefit_panel(curve: NetBenefit, *, clustered: bool) -> _Panel:
    """Return the decision curve with its numbers."""
    thresholds, benefits, everyone = curve.thresholds.tolist(), curve.net_benefit.tolist(), curve.treat_all.tolist()
    ends, all_treated = {"low": curve.lows, "high": curve.highs}, curve.treated.tolist()
    has_level = not math.isnan(curve.level)
    columns = [
        Column.of("threshold", "threshold", thresholds, _threshold),
        Column("net benefit", list(map(number, benefits)), {"net_benefit": benefits} | ({} if has_level else ends)),
        Column("treat all", list(map(number, everyone)), {"treat_all": everyone}),
        Column("treated", list(map(amount, all_treated)), {"treated": all_treated}),
    ]
    note = capital(curve.method)
    if has_level:
        columns.insert(2, ends_column(f"{percent(curve.level)} CI", ends))
        of_clusters = f" of {LEAST_CLUSTERS} clusters" * clustered
        note = f"Each CI is for one threshold. A CI needs at least {LEAST_ROWS} treated rows{of_clusters}"
    caption = (
        "At threshold t, net benefit = TP/n - FP/n × t/(1 - t), with TP true positives and FP false positives among n "
        "rows. The model is useful at thresholds where its net benefit is above 0 (treating nobody) and above the net "
        f"benefit of treating all. {note}."
    )
    reached = [i for i, treated in enumerate(all_treated) if treated >= LEAST_ROWS]
    listed = _even(thresholds, (reached or range(len(thresholds)))[-1])
    figure, table = decision_figure(curve)._replace(caption=caption), Table("decision-curve", columns, "Net benefit")
    return _Panel(figure, table, listed, _round(thresholds, (reached or [0])[-1]))


def _murphy_curve(curve: MurphyCurve, rate: float) -> _Panel:
    thresholds, scores = curve.thresholds.tolist(), curve.scores.tolist()
    base = base_scores(thresholds, rate)
    columns = [
        Column.of("threshold", "threshold", thresholds, _threshold),
        Column("score", list(map(number, scores)), {"score": scores}),
        Column("base rate", list(map(number, base)), {"base_rate": base}),
    ]
    caption = (
        "The curve shows the mean loss if rows with a score above threshold t are classified as events. A false "
        "positive costs t, and a false negative costs 1 - t. Lower values are better. Twice the area under the curve "
        "is the Brier score. If one model has a lower curve at every threshold, every proper score prefers that model."
    )
    table, last = Table("murphy-curve", columns, "Murphy curve"), len(thresholds) - 1
    figure = murphy_figure(curve, rate=rate)._replace(caption=caption)
    return _Panel(figure, table, _even(thresholds, last), _round(thresholds, last))


def _roc_curve(curve: RocCurve) -> _Panel:
    thresholds = np.where(np.isinf(curve.thresholds), math.nan, curve.thresholds).tolist()
    hits, alarms = curve.hits.tolist(), curve.false_alarms.tolist()
    columns = [
        Column("threshold", list(map(threshold_text, thresholds)), {"threshold": thresholds}),
        Column("true positive rate", [f"{share:.3f}" for share in hits], {"hits": hits}),
        Column("false positive rate", [f"{share:.3f}" for share in alarms], {"false_alarms": alarms}),
    ]
    caption = (
        "The ROC curve plots the true positive rate (sensitivity) against the false positive rate (1 - specificity) "
        "for every threshold. The curve shows discrimination, not calibration. Increasing transformations of the "
        "scores do not change the curve."
    )
    figure = roc_figure(curve)._replace(caption=caption)
    return _Panel(figure, Table("roc-curve", columns, "ROC curve"), steps(len(hits), _LISTED))


def _threshold(value: float) -> str:
    """Return a threshold with two decimals, and more if it has more."""
    return f"{value:.2f}" if abs(value - round(value, 2)) < 1e-9 else f"{value:.4g}"


def _even(thresholds: Sequence[float], last: int) -> list[int]:
    """Return the indices of the multiples of a round step, such as 0.05, up to the last one allowed."""
    step = max(round_step(thresholds[last] / _LISTED), thresholds[0])
    multiples = [threshold / step for threshold in thresholds[: last + 1]]
    return [i for i, multiple in enumerate(multiples) if math.isclose(multiple, round(multiple), rel_tol=1e-6)]


def _round(thresholds: Sequence[float], last: int) -> list[int]:
    """Return the indices of round thresholds, up to the last one allowed."""
    nearest = [min(range(len(thresholds)), key=lambda i: abs(thresholds[i] - t)) for t in _BRIEF]
    return sorted({i for i in nearest if i <= last}) or [0]
