"""Comparisons of models that were read: by their rows side by side or by sums, of all rows and of each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import BucketSums, ClusterLabels
from calibrant.inference.decision import check_tolerance, decide_difference, one_sided
from calibrant.inputs.groups import in_order
from calibrant.inputs.notions import Events, read, scores_of_rows
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.scores import RowScores
from calibrant.measures.binned.binned import check_bins
from calibrant.measures.binned.ece import ECE
from calibrant.measures.clustered_rows import ClusteredRows
from calibrant.measures.context import Inference
from calibrant.measures.differences import clustered as pairs
from calibrant.measures.differences import paired, unpaired
from calibrant.measures.differences.clustered import Answers
from calibrant.measures.differences.clustered_unpaired import ClusterSummed, paired_models
from calibrant.measures.differences.paired import BinnedRows, Model, Weighting, flags
from calibrant.measures.differences.unpaired import Summed, details_of
from calibrant.measures.event import Event
from calibrant.measures.listed import BY_NAME, compared
from calibrant.measures.means.clustered import LONE
from calibrant.measures.means.clustered import details_of as cluster_details
from calibrant.measures.means.means import PredictionMeans, heavy
from calibrant.measures.measure import Difference
from calibrant.measures.verdict import table_test
from calibrant.report.comparison import Comparison, GroupComparison, Pair
from calibrant.results import Decision, Description, Estimate, ReliabilityDiagram, TestResult
from calibrant.runtime.progress import counted
from calibrant.statistics.groups import LEAST_GROUP, holm
from calibrant.statistics.resampling import Resampling, check_level
from calibrant.table import ReliabilityTable


class Settings(NamedTuple):
    """What is asked of a comparison."""

    n_bins: int
    level: float
    tolerance: float | None

    @classmethod
    def of(cls, n_bins: int, level: float, tolerance: float | None) -> Settings:
        """Return the checked settings."""
        check_bins(n_bins)
        check_level(level)
        check_tolerance(tolerance)
        return cls(n_bins, float(level), tolerance)


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
        brier, nll, right = self.scores
        judged = BinnedRows.of(self.events.scores, self.events.outcomes, self.weighting, n_bins)
        return Model(name=self.name, judged=judged, means=self.means, brier=brier, nll=nll, right=right)

    def in_clusters(self, labels: ClusterLabels, n_bins: int) -> Summed:
        """Return the model with sums over buckets of clusters."""
        events = self.events
        buckets = BucketSums.of(labels, events.scores, events.outcomes, events.weights, row_scores=self.scores)
        table, answers = ReliabilityTable.pool(events), Answers(self.scores[2], self.weighting)
        return summed(self.name, table, self.means, n_bins, buckets, answers, self.weighting.deciding_rows)


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
        sums = [model.in_clusters(labels, settings.n_bins) for model in models]
        return by_sums(sums, settings, facts, paired=True, flag=flag)
    suffix = LONE if lone else ""
    tests = {model.name: table_test(ReliabilityTable.pool(model.events), settings.n_bins) for model in models}
    rows = [model.in_rows(settings.n_bins) for model in models]
    return Comparison(
        **facts,
        names=tuple(model.name for model in rows),
        n_bins=settings.n_bins,
        level=settings.level,
        descriptions=_descriptions(),
        models={model.name: {name: each.value(model) for name, each in _differences()} for model in rows},
        tests=tests,
        pairs=_pairs([_paired(a, b, settings, flag, suffix) for a, b in itertools.combinations(rows, 2)]),
        diagrams={model.name: model.judged.diagram(settings.level) for model in rows},
        clusters={"clusters": first.n, "largest_cluster": 1 / first.n} if lone else None,
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
    n_bins: int,
    buckets: BucketSums | None,
    answers: Answers | None = None,
    deciding: float = math.inf,
) -> Summed:
    """Return a model known by its sums; by those over buckets of clusters if there are any."""
    rows = None if buckets is None else ClusteredRows.of(table, n_bins, buckets)
    event = Event(table=table, n_bins=n_bins, means=means, clusters=rows)
    known: dict[str, Any] = {
        "name": name,
        "table": table,
        "means": means,
        "n_bins": n_bins,
        "values": {measure.name: event.value(measure) for measure in compared()},
        "bounds": {measure.name: event.bound(measure) for measure in compared()},
        "deciding": deciding,
    }
    return Summed(**known) if rows is None else ClusterSummed(**known, rows=rows, answers=answers)


def by_sums(
    models: Sequence[Summed], settings: Settings, facts: Mapping[str, Any], *, paired: bool | None, flag: str = ""
) -> Comparison:
    """Compare models by their sums; ``paired`` ones by sums over buckets of the same clusters.

    With ``paired`` False their rows are independent; with None nothing is known of what they have in common.
    """
    models = [replace(model, independent=paired is False) for model in models]
    alone = {model.name: _alone(model, settings.level) for model in models}
    fewest = min(models, key=lambda model: model.means.n)
    return Comparison(
        **facts,
        names=tuple(model.name for model in models),
        n_bins=settings.n_bins,
        level=settings.level,
        descriptions=_descriptions(),
        models={model.name: model.values for model in models},
        tests={name: test for name, (test, _) in alone.items()},
        pairs=_pairs([_pair(a, b, settings, flag, paired=bool(paired)) for a, b in itertools.combinations(models, 2)]),
        diagrams={name: diagram for name, (_, diagram) in alone.items()},
        paired=bool(paired),
        independent=paired is False,
        clusters=cluster_details(fewest.rows.clusters.buckets) if isinstance(fewest, ClusterSummed) else None,
    )


def _alone(model: Summed, level: float) -> tuple[TestResult, ReliabilityDiagram]:
    """Return the test of a model's own calibration, in closed form, and its diagram."""
    if not isinstance(model, ClusterSummed):
        return table_test(model.table, model.n_bins), model.diagram(level)
    event = Event(table=model.table, n_bins=model.n_bins, means=model.means, clusters=model.rows)
    inference = Inference.from_event(event, Resampling.of(level, 0, 0), ())
    return inference.test, inference.diagram()


def _descriptions() -> dict[str, Description]:
    return {measure.name: measure.description for measure in compared()}


def _differences() -> list[tuple[str, Difference]]:
    """Return how models are compared, by the names of the measures."""
    return [(measure.name, measure.difference) for measure in compared() if isinstance(measure.difference, Difference)]


def _estimated(of: Callable[[Difference], Estimate], layout: Layout) -> dict[str, Estimate]:
    """Return the differences by the names of the measures, their ends in the range of differences."""
    return {name: BY_NAME[name].difference_in_range(of(each), layout) for name, each in _differences()}


def _paired(first: Model, second: Model, settings: Settings, flag: str, suffix: str) -> Pair:
    """Return the differences of two models on the same rows; the suffix ends each method."""
    details, n = _flagged(flags(first, second), flag), len(first.judged.index)
    layout = first.means.layout
    estimates = {
        name: _complete(replace(one, method=one.method + suffix), settings.level, n, details)
        for name, one in _estimated(lambda each: each.paired(first, second, settings.level), layout).items()
    }

    def bounds(level: float) -> Estimate:
        return paired.absolute_difference(first, second, level)

    return Pair(first.name, second.name, estimates, _decision(bounds, n, settings))


def _pair(first: Summed, second: Summed, settings: Settings, flag: str, *, paired: bool) -> Pair:
    """Return the differences of two models known by their sums."""
    n, level = min(first.means.n, second.means.n), settings.level
    if paired and isinstance(first, ClusterSummed) and isinstance(second, ClusterSummed):
        one, other = paired_models(first, second)
        details = _flagged(cluster_details(first.rows.clusters.buckets), heavy(min(first.deciding, second.deciding)))
        details = _flagged(details, pairs.flags(one, other).get("flag", ""))
        estimates = _estimated(lambda each: each.clustered(one, other, level), first.means.layout)
        bounds = partial(pairs.absolute_difference, one, other)
    else:
        details = details_of(first, second)
        estimates = _estimated(lambda each: each.unpaired(first, second, level), first.means.layout)
        bounds = partial(unpaired.absolute_difference, first, second)
    details = _flagged(details, flag)
    errors = {name: first.bounds[name] + second.bounds[name] for name in estimates}
    complete = {
        name: replace(_complete(one, level, n, details), error_bound=errors[name]) for name, one in estimates.items()
    }
    return Pair(first.name, second.name, complete, _decision(bounds, n, settings))


def _flagged(details: Mapping[str, Any], flag: str) -> dict[str, Any]:
    """Return details with one more warning."""
    return {**details, **({"flag": "; ".join(filter(None, (flag, details.get("flag"))))} if flag else {})}


def _decision(bounds: Callable[[float], Estimate], n: int, settings: Settings) -> Decision | None:
    """Return the decision about the tolerance, from the difference of two l1 errors at a level."""
    if settings.tolerance is None:
        return None
    ends = ECE.difference_in_range(replace(bounds(one_sided(settings.level)), n=n), "binary")
    return decide_difference(settings.tolerance, ends, settings.level)


def _complete(estimate: Estimate, level: float, n: int, details: Mapping[str, Any]) -> Estimate:
    """Return the estimate with its level, its rows and more details."""
    level = math.nan if math.isnan(estimate.low) else level
    return replace(estimate, level=level, n=n, details={**estimate.details, **details})


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
