"""Thresholds by net benefit as a document: where to act, and what this is worth next to treating everyone or nobody."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from calibrant.render.blocks import Block, Document, Heading, Method, Sentence, Source
from calibrant.render.words import (
    amount,
    evaluated_event,
    facts_of,
    in_clusters,
    is_clustered,
    named,
    number,
    percent,
    rows_text,
)
from calibrant.report.panel_document import benefit_panel

if TYPE_CHECKING:
    from calibrant.thresholds.benefit import BenefitOfThresholds

_NAMED: Final = 10  # thresholds in a sentence


def document_of(result: BenefitOfThresholds, source: Source, *, full: bool) -> Document:
    """Return the document; a full one has the picture of the decision curve."""
    clustered = is_clustered(result.clusters, result.n)
    panel = benefit_panel(result.chosen, clustered=clustered)
    table = replace(panel.table, name="net-benefit")
    blocks: list[Block] = [Heading("Net benefit", "net-benefit"), table, Sentence(panel.figure.caption)]
    if full:
        curve = benefit_panel(result.curve, clustered=clustered)
        figure = curve.figure._replace(caption="The net benefit at each threshold, with pointwise intervals.")
        blocks += [Heading("Decision curve", "decision-curve"), figure, curve.table.of_rows(curve.listed)]
    event = evaluated_event(result.notion, result.n_classes, source)
    costs = result.costs
    return Document(
        title="Thresholds by net benefit",
        headline=f"{rows_text(result.n)}{in_clusters(result.clusters)} ({event})",
        conclusion=_conclusion(result),
        verdict=[*_cautions(result), *map(Sentence, _findings(result))],
        blocks=blocks,
        facts=facts_of(
            source,
            ("cost of a false positive", "" if costs is None else f"{costs.false_positive:g}"),
            ("cost of a false negative", "" if costs is None else f"{costs.false_negative:g}"),
            n=result.n,
            notion=result.notion,
            n_classes=result.n_classes,
            level=result.chosen.level,
        ),
        measured="number",
        methods=[Method("net benefit", "(TP - FP t / (1 - t)) / n at threshold t.", result.chosen.method)],
    )


def _threshold(value: float) -> str:
    return f"{value:.4g}"


def _useful(result: BenefitOfThresholds) -> list[bool]:
    """Return at which thresholds the estimate is above those of treating nobody and of treating everyone."""
    chosen = result.chosen
    return [
        benefit > max(0.0, everyone)
        for benefit, everyone in zip(chosen.net_benefit.tolist(), chosen.treat_all.tolist(), strict=True)
    ]


def _conclusion(result: BenefitOfThresholds) -> Sentence:
    thresholds, useful = result.chosen.thresholds.tolist(), _useful(result)
    if len(thresholds) == 1:
        worth = "higher" if useful[0] else "not higher"
        return Sentence(f"At threshold {_threshold(thresholds[0])}, the net benefit is {worth} than without the model")
    many = f"{sum(useful)} of {len(useful)} thresholds"
    return Sentence(f"The net benefit is higher than without the model at {many}")


def _cautions(result: BenefitOfThresholds) -> list[Sentence]:
    return [Sentence(f"Caution: {result.flag}.", "caution")] if result.flag else []


def _saves(saved: float) -> str:
    return f"saves {number(saved)}" if saved >= 0 else f"costs {number(-saved)} more"


def _findings(result: BenefitOfThresholds) -> list[str]:
    chosen, costs = result.chosen, result.costs
    sentences = []
    if costs is not None:
        lowest = "For calibrated scores, this threshold has the lowest mean cost"
        errors = f"a false positive costs {costs.false_positive:g} and a false negative {costs.false_negative:g}"
        treat = f"Treat the rows with score at least {_threshold(costs.threshold)}."
        sentences.append(f"{treat} {lowest} if {errors}.")
        saved, everyone, *ends = (
            costs.false_negative * float(benefit[0])
            for benefit in (chosen.net_benefit, chosen.treat_all, chosen.lows, chosen.highs)
        )
        low, high = sorted(ends) if saved >= 0 else sorted(-end for end in ends)
        interval = f" ({percent(chosen.level)} CI {number(low)} to {number(high)})" if math.isfinite(low) else ""
        sentences.append(
            f"Compared with treating nobody, this {_saves(saved)} per row{interval}; treating everyone "
            f"{_saves(everyone)}. {amount(float(chosen.treated[0]))} of {rows_text(result.n)} are treated."
        )
    useful = _useful(result)
    of_use = [_threshold(t) for t, is_useful in zip(chosen.thresholds.tolist(), useful, strict=True) if is_useful]
    if len(useful) == 1:
        of_model, of_everyone = (number(float(benefit[0])) for benefit in (chosen.net_benefit, chosen.treat_all))
        others = f"that of treating nobody 0, and that of treating everyone {of_everyone}"
        useful_there = f"the scores are {'not ' * (not of_use)}useful at this threshold"
        sentences.append(f"The net benefit is {of_model}, {others}, so {useful_there}.")
    else:
        at = f"at the thresholds {named(of_use, _NAMED)}" if of_use else "at none of these thresholds"
        above = "their net benefit is above those of treating nobody and of treating everyone"
        sentences.append(f"The scores are useful ({above}) {at}.")
    sentences.append(
        "Check the calibration of the scores with calibrant report, because miscalibrated scores lose net benefit."
    )
    return sentences
