"""Comparisons of models that were read: by their rows side by side or by sums, of all rows and of each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import BucketSums, ClusterLabels
from calibrant.inference.decision import check_tolerance, decide_difference, one_sided
from calibrant.inputs.groups import in_order
from calibrant.inputs.notions import Events, read, scores_of_rows
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.inputs.scores import RowScores
from calibrant.measures.binned.binned import check_bins
from calibrant.measures.binned.clustered import uniform_sums
from calibrant.measures.binned.diagram import bin_diagram
from calibrant.measures.binned.ece import ECE
from calibrant.measures.context import Inference, closed_form_test
from calibrant.measures.differences.pair import ComparedModel, ModelPair, absolute_difference
from calibrant.measures.differences.paired import Answers, Model, RowPair, Weighting
from calibrant.measures.differences.unpaired import ClusterSummed, Summed, SummedPair, pair_of
from calibrant.measures.event import Event
from calibrant.measures.listed import compared_by
from calibrant.measures.means.means import PredictionMeans
from calibrant.measures.measure import Difference, Measure, descriptions_of
from calibrant.report.comparison import Comparison, GroupComparison, Pair
from calibrant.results import Decision, ReliabilityDiagram, TestResult
from calibrant.runtime.progress import counted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import LONE, Clustered
from calibrant.statistics.groups import LEAST_GROUP, holm
from calibrant.statistics.resampling import Resampling, check_level
from calibrant.table import ReliabilityTable


class Settings(NamedTuple):
    """What is asked of a comparison."""

    n_bins: int
    level: float
    tolerance: float | None
    measures: tuple[Measure, ...]

    @classmethod
    def of(cls, n_bins: int, level: float, tolerance: float | None, measures: Any) -> Settings:
        """Return the checked settings."""
        check_bins(n_bins)
        check_level(level)
        check_tolerance(tolerance)
        return cls(n_bins, float(level), tolerance, compared_by(measures))

    @property
    def differences(self) -> dict[Measure, Difference]:
        """How models are compared by each measure."""
        comparisons = {measure: measure.comparison for measure in self.measures}
        return {measure: each for measure, each in comparisons.items() if isinstance(each, Difference)}


class Read(NamedTuple):
    """What is read of one model: its judged events, the scores of these rows, and their means."""

    name: str
    predictions: Predictions
    notion: Notion
    n: int
    events: Events
    scores: RowScores
    weighting: Weighting
    means: PredictionMeans

    @classmethod
    def of(cls, name: str, predictions: Predictions, notion: Notion) -> Read:
        """Read the predictions of a model."""
        reading = read(predictions, notion)
        weighting = Weighting.of(reading.events.weights, reading.n)
        # Differences have variances of their own, from rows or clusters: those of each mean are not needed.
        means = PredictionMeans.of_scores(
            reading.means,
            reading.means,
            effective_n=weighting.effective_n,
            n=reading.n,
            layout=predictions.layout,
        )
        scores = scores_of_rows(predictions)
        return cls(name, predictions, notion, reading.n, reading.events, scores, weighting, means)

    def take(self, places: NDArray[np.intp]) -> Read:
        """Return what is read of some of the rows."""
        return Read.of(self.name, self.predictions.take(places), self.notion)

    def in_rows(self, n_bins: int) -> Model:
        """Return the model with its rows."""
        return Model.of(self.name, self.events, self.weighting, self.means, self.scores, n_bins)

    def in_clusters(self, labels: ClusterLabels, settings: Settings) -> Summed:
        """Return the model with sums over buckets of clusters."""
        events = self.events
        buckets = BucketSums.of(labels, events.scores, events.outcomes, events.weights, row_scores=self.scores)
        table, answers = ReliabilityTable.pool(events), Answers(self.scores[2], self.weighting)
        return summed(self.name, table, self.means, settings, buckets, answers, self.weighting.deciding_rows)


def by_rows(models: Sequence[Read], labels: ClusterLabels | None, settings: Settings, flag: str = "") -> Comparison:
    """Compare models on the same rows; ``labels`` are the clusters of all rows."""
    first = models[0]
    facts: dict[str, Any] = {
        "n": first.n,
        "notion": first.notion,
        "n_classes": None if first.predictions.layout == "binary" else first.predictions.n_classes,
    }
    if labels is not None:
        labels = labels.take(np.flatnonzero(first.predictions.judged))
    lone = labels is not None and labels.alone(first.events.weights)
    if labels is not None and not lone:
        sums = [model.in_clusters(labels, settings) for model in models]
        return by_sums(sums, settings, facts, paired=True, flag=flag)
    return _by_independent_rows(models, settings, facts, flag, lone=lone)


def _by_independent_rows(
    models: Sequence[Read], settings: Settings, facts: Mapping[str, Any], flag: str, *, lone: bool
) -> Comparison:
    """Compare models on the same independent rows; ``lone`` says that clusters of one row each were given."""
    suffix, n = LONE if lone else "", models[0].n
    rows = [model.in_rows(settings.n_bins) for model in models]
    tests = {model.name: model.event.of(closed_form_test) for model in rows}
    return Comparison(
        **facts,
        names=tuple(model.name for model in rows),
        n_bins=settings.n_bins,
        level=settings.level,
        descriptions=descriptions_of(settings.measures),
        models={
            model.name: {measure.name: each.value(model) for measure, each in settings.differences.items()}
            for model in rows
        },
        tests=tests,
        pairs=_pairs([_pair(RowPair(a, b), settings, flag, {}, suffix) for a, b in itertools.combinations(rows, 2)]),
        diagrams={
            model.name: bin_diagram(
                settings.n_bins, model.bins.moments, settings.level, integer_weights=model.weighting.integer_weights
            )
            for model in rows
        },
        clusters={"clusters": n, "largest_cluster": 1 / n} if lone else None,
    )


def of_groups(
    comparisons: Mapping[str, Callable[[], Comparison]], *, ordered: bool = False
) -> tuple[GroupComparison, ...]:
    """Return the comparison of each group, its p-values adjusted for the number of groups and pairs (Holm)."""
    found = {name: compute() for name, compute in counted("comparing groups", list(comparisons.items()))}
    raw = {
        (name, place): float(pair.raw_p_value)
        for name, comparison in found.items()
        for place, pair in enumerate(comparison.pairs)
        if comparison.n >= LEAST_GROUP and not math.isnan(pair.raw_p_value)
    }
    adjusted = dict(zip(raw, holm(list(raw.values())), strict=True))
    groups = tuple(
        GroupComparison(
            name=name,
            comparison=comparison,
            adjusted_p_values=tuple(adjusted.get((name, place), math.nan) for place in range(len(comparison.pairs))),
            flag=f"fewer than {LEAST_GROUP} rows: too few to say anything" if comparison.n < LEAST_GROUP else "",
        )
        for name, comparison in found.items()
    )
    return (
        groups
        if ordered
        else in_order(groups, lambda group: (min(map(_last, group.adjusted_p_values)), -group.comparison.n))
    )


def _last(p_value: float) -> float:
    return 2.0 if math.isnan(p_value) else p_value


def summed(
    name: str,
    table: ReliabilityTable,
    means: PredictionMeans,
    settings: Settings,
    buckets: BucketSums | None,
    answers: Answers | None = None,
    deciding: float = math.inf,
) -> Summed:
    """Return a model known by its sums; by those over buckets of clusters if there are any."""
    clusters = None if buckets is None else Clustered.of(Cells.from_table(table), buckets)
    event = Event(table=table, n_bins=settings.n_bins, means=means, clusters=clusters)
    known: dict[str, Any] = {
        "name": name,
        "event": event,
        "values": {measure.name: event.value(measure) for measure in settings.measures},
        "bounds": {measure.name: event.bound(measure) for measure in settings.measures},
        "deciding": deciding,
    }
    if clusters is None:
        return Summed(**known, design=event.design)
    return ClusterSummed(**known, design=clusters, answers=answers)


def by_sums(
    models: Sequence[Summed], settings: Settings, facts: Mapping[str, Any], *, paired: bool | None, flag: str = ""
) -> Comparison:
    """Compare models by their sums; ``paired`` ones by sums over buckets of the same clusters.

    With ``paired`` False their rows are independent; with None nothing is known of what they have in common.
    """
    alone = {model.name: _alone(model, settings.level) for model in models}
    fewest = min(models, key=lambda model: model.means.n)
    return Comparison(
        **facts,
        names=tuple(model.name for model in models),
        n_bins=settings.n_bins,
        level=settings.level,
        descriptions=descriptions_of(settings.measures),
        models={model.name: model.values for model in models},
        tests={name: test for name, (test, _) in alone.items()},
        pairs=_pairs([_summed_pair(a, b, settings, flag, paired) for a, b in itertools.combinations(models, 2)]),
        diagrams={name: diagram for name, (_, diagram) in alone.items()},
        paired=bool(paired),
        independent=paired is False,
        clusters=dict(fewest.design.sample.facts) or None,
    )


def _alone(model: Summed, level: float) -> tuple[TestResult, ReliabilityDiagram]:
    """Return the test of a model's own calibration, in closed form, and its diagram."""
    event = model.event
    if isinstance(model, ClusterSummed):
        diagram = Inference(event=event, resampling=Resampling.of(level, 0, 0)).diagram()
    else:
        moments = event.of(uniform_sums).moments
        diagram = bin_diagram(event.n_bins, moments, level, integer_weights=event.table.whole)
    return event.of(closed_form_test), diagram


def _pair(
    pair: ModelPair[ComparedModel], settings: Settings, flag: str, bounds: Mapping[str, float], suffix: str = ""
) -> Pair:
    """Return the differences of two models, their ends in the range of differences; the suffix ends each method.

    ``bounds`` are the certified errors that are not 0.
    """
    first, second, level = pair.first, pair.second, settings.level
    warnings = "; ".join(filter(None, (flag, pair.flag)))
    details = {**pair.facts, **({"flag": warnings} if warnings else {})}
    estimates = {}
    for measure, difference in settings.differences.items():
        one = measure.difference_in_range(difference.estimate(pair, level), first.means.layout)
        estimates[measure.name] = replace(
            one,
            level=math.nan if math.isnan(one.low) else level,
            n=pair.n,
            method=one.method + suffix,
            details={**one.details, **details},
            error_bound=bounds.get(measure.name, 0.0),
        )
    return Pair(first.name, second.name, estimates, _decision(pair, settings))


def _summed_pair(first: Summed, second: Summed, settings: Settings, flag: str, paired: bool | None) -> Pair:
    """Return the differences of two models known by their sums."""
    rows = {"rows": [first.means.n, second.means.n]}
    together: ModelPair[ComparedModel] = SummedPair(first, second, rows, independent=paired is False)
    if paired and isinstance(first, ClusterSummed) and isinstance(second, ClusterSummed):
        together = pair_of(first, second)
    return _pair(together, settings, flag, {name: bound + second.bounds[name] for name, bound in first.bounds.items()})


def _decision(pair: ModelPair[ComparedModel], settings: Settings) -> Decision | None:
    """Return the decision about the tolerance, from the difference of the l1 errors at a level."""
    if settings.tolerance is None:
        return None
    bounds = replace(absolute_difference(pair, one_sided(settings.level)), n=pair.n)
    return decide_difference(settings.tolerance, ECE.difference_in_range(bounds, "binary"), settings.level)


def _pairs(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs, their p-values adjusted for their number."""
    if len(pairs) == 1:
        return tuple(pairs)
    raw = [pair["debiased_square"].p_value for pair in pairs]
    adjusted = []
    for pair, raw_p, p in zip(pairs, raw, holm(raw), strict=True):
        square = pair["debiased_square"]
        details = {**square.details, "raw_p_value": raw_p, "pairs": len(pairs)}
        estimates = {**pair.estimates, "debiased_square": replace(square, p_value=p, details=details)}
        adjusted.append(replace(pair, estimates=estimates))
    return tuple(adjusted)
