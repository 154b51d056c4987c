"""The further curves of a profile as blocks: the decision curve, the Murphy curve and the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS
from calibrant.render import drawing
from calibrant.render.blocks import Block, Column, Figure, Heading, Sentence, Table
from calibrant.render.words import amount, capital, ends_column, ends_text, is_clustered, number, percent, steps
from calibrant.results.values import MurphyCurve, NetBenefit, RocCurve

if TYPE_CHECKING:
    from calibrant.report.report import Report

_LISTED: Final = 11  # rows of a table on a page
_BRIEF: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # thresholds of a short table


class _Panel(NamedTuple):
    """A curve with its numbers; ``listed`` and ``brief`` are the rows of its table on a page and in the terminal."""

    figure: Figure
    table: Table
    listed: Sequence[int]
    brief: Sequence[int] = ()


def panel_blocks(report: Report, *, full: bool) -> list[Block]:
    """Return the curves in the order of the profile: each as a picture and its numbers, or as a short table."""
    blocks: list[Block] = []
    for panel in report.panels.values():
        if isinstance(panel, NetBenefit):
            drawn = _decision_curve(panel, clustered=is_clustered(report.clusters, report.n))
        elif isinstance(panel, MurphyCurve):
            drawn = _murphy_curve(panel, report.outcome_rate)
        else:
            drawn = _roc_curve(panel)
        heading = Heading(drawn.figure.title, drawn.table.name)
        if full:
            blocks += [heading, drawn.figure, drawn.table.of_rows(drawn.listed)]
        elif drawn.brief:
            columns = [column._replace(spare=i) for i, column in enumerate(drawn.table.columns)]
            table = replace(drawn.table, columns=columns, listed=drawn.brief)
            blocks += [heading, table, Sentence(drawn.figure.caption)]
    return blocks


def _decision_curve(panel: NetBenefit, *, clustered: bool) -> _Panel:
    """Return the net benefit, up to the first threshold at which nobody is treated."""
    thresholds, benefits, everyone = panel.thresholds.tolist(), panel.net_benefit.tolist(), panel.treat_all.tolist()
    lows, highs, all_treated = panel.lows.tolist(), panel.highs.tolist(), panel.treated.tolist()
    level = None if math.isnan(panel.level) else panel.level
    most = max(*benefits, *everyone, 1e-6)
    last = max([i for i, treated in enumerate(all_treated) if treated > 0], default=len(thresholds) - 1)
    shown = slice(0, max(min(last + 2, len(thresholds)), 2))
    top = max(1.08 * most, *(high for high in highs[shown] if not math.isnan(high)), 0.0)

    def described(i: int) -> str:
        text = f"threshold {thresholds[i]:.2f}: net benefit {benefits[i]:.4f}"
        if level is not None and not math.isnan(lows[i]):
            text += f", {percent(level)} CI {ends_text(lows[i], highs[i])}"
        return f"{text}; treat all {everyone[i]:.4f}"

    ends = {"low": lows, "high": highs}
    columns = [
        _thresholds_column(thresholds),
        Column("net benefit", list(map(number, benefits)), {"net_benefit": benefits} | (ends if level is None else {})),
        Column("treat all", list(map(number, everyone)), {"treat_all": everyone}),
        Column("treated", list(map(amount, all_treated)), {"treated": all_treated}),
    ]
    note = capital(panel.method)
    if level is not None:
        columns.insert(2, ends_column(f"{percent(level)} CI", ends))
        of_clusters = f" of {LEAST_CLUSTERS} clusters" * clustered
        note = f"Each CI is for one threshold. A CI needs at least {LEAST_ROWS} treated rows{of_clusters}"
    chart = drawing.lines(
        thresholds[shown],
        {"other": everyone[shown], "curve": benefits[shown]},
        band=None if level is None else (lows[shown], highs[shown]),
        ends=((0.0, thresholds[shown][-1]), (-0.15 * most, top)),
        axes=("threshold probability", "net benefit"),
        described=described,
    )
    caption = (
        "At threshold t, net benefit = TP/n - FP/n × t/(1 - t), with TP true positives and FP false positives among n "
        "rows. The model is useful at thresholds where its net benefit is above 0 (treating nobody) and above the net "
        f"benefit of treating all. {note}."
    )
    keys = [("curve", "model"), ("other", "treat all"), ("zero", "treat none")]
    figure = Figure("lines", chart, "Net benefit", caption, keys=keys)
    reached = [i for i, treated in enumerate(all_treated) if treated >= LEAST_ROWS]
    listed = [i for i in steps((reached or range(len(thresholds)))[-1] + 1, _LISTED) if i < len(thresholds)]
    return _Panel(
        figure, Table("decision-curve", columns, "Net benefit"), listed, _round(thresholds, (reached or [0])[-1])
    )


def _murphy_curve(panel: MurphyCurve, rate: float) -> _Panel:
    thresholds, scores = panel.thresholds.tolist(), panel.scores.tolist()
    base = [min(t * (1 - rate), (1 - t) * rate) for t in thresholds]
    columns = [
        _thresholds_column(thresholds),
        Column("score", list(map(number, scores)), {"score": scores}),
        Column("base rate", list(map(number, base)), {"base_rate": base}),
    ]
    chart = drawing.lines(
        thresholds,
        {"other": base, "curve": scores},
        ends=((0.0, 1.0), (0.0, 1.08 * max(*scores, *base, 1e-6))),
        axes=("threshold probability", "mean elementary score"),
        described=lambda i: f"threshold {thresholds[i]:.2f}: {scores[i]:.4f}; base rate {base[i]:.4f}",
    )
    caption = (
        "The curve shows the mean loss of treating rows above threshold t. A false positive costs t, and a false "
        "negative costs 1 - t. Lower values are better. Twice the area under the curve is the Brier score. If one "
        "model has a lower curve at every threshold, every proper score prefers that model."
    )
    keys = [("curve", "model"), ("other", "base rate for every row")]
    figure = Figure("lines", chart, "Murphy curve", caption, keys=keys)
    table, last = Table("murphy-curve", columns, "Murphy curve"), len(thresholds) - 1
    return _Panel(figure, table, steps(len(thresholds), _LISTED), _round(thresholds, last))


def _roc_curve(panel: RocCurve) -> _Panel:
    thresholds = np.where(np.isinf(panel.thresholds), math.nan, panel.thresholds).tolist()
    hits, alarms = panel.hits.tolist(), panel.false_alarms.tolist()
    texts = ["none" if math.isnan(threshold) else f"{threshold:.3f}" for threshold in thresholds]
    columns = [
        Column("threshold", texts, {"threshold": thresholds}),
        Column("true positive rate", [f"{share:.3f}" for share in hits], {"hits": hits}),
        Column("false positive rate", [f"{share:.3f}" for share in alarms], {"false_alarms": alarms}),
    ]
    chart = drawing.lines(
        alarms,
        {"curve": hits},
        ends=((0.0, 1.0), (0.0, 1.0)),
        axes=("false positive rate (1 - specificity)", "true positive rate (sensitivity)"),
        described=lambda i: f"threshold {texts[i]}: sensitivity {hits[i]:.3f}, specificity {1 - alarms[i]:.3f}",
        diagonal=True,
    )
    caption = (
        "The ROC curve plots the true positive rate against the false positive rate for every threshold. The curve "
        "shows discrimination, not calibration. Increasing transformations of the scores do not change the curve."
    )
    keys = [("curve", "model"), ("ideal", "no discrimination")]
    figure = Figure("lines", chart, "ROC curve", caption, keys=keys)
    return _Panel(figure, Table("roc-curve", columns, "ROC curve"), steps(len(hits), _LISTED))


def _thresholds_column(thresholds: Sequence[float]) -> Column:
    return Column.of("threshold", "threshold", thresholds, "{:.2f}".format)


def _round(thresholds: Sequence[float], last: int) -> list[int]:
    """Return the indices of round thresholds, up to the last one allowed."""
    nearest = [min(range(len(thresholds)), key=lambda i: abs(thresholds[i] - t)) for t in _BRIEF]
    return sorted({i for i in nearest if i <= last}) or [0]
