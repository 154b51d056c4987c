"""`compare`: two or more models judged on the same rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant import judging
from calibrant.clustered import pairs
from calibrant.clustered.means import LONE
from calibrant.clustered.means import details_of as cluster_details
from calibrant.clustered.pairs import Answers
from calibrant.clustered.rows import ClusteredRows
from calibrant.clustered.unpaired import ClusterSummed, paired_models
from calibrant.clusters import BucketSums, ClusterLabels
from calibrant.comparison import Comparison, Pair
from calibrant.errors import InputError, nearest, renaming
from calibrant.estimators.binned import check_bins
from calibrant.faults import Fault, ModelFacts
from calibrant.inference.decision import check_tolerance, decide_difference, one_sided
from calibrant.inputs import Notion, Predictions, as_predictions
from calibrant.measures.by_cluster import ClusterInference
from calibrant.measures.event import Event
from calibrant.measures.listed import compared
from calibrant.measures.measure import Difference
from calibrant.notions import PER_CLASS, Events, Reading, read, resolve, scores_of_rows
from calibrant.results import Decision, Description, Estimate, ReliabilityDiagram, TestResult
from calibrant.sampling import paired, unpaired
from calibrant.sampling.groups import holm
from calibrant.sampling.means import PredictionMeans
from calibrant.sampling.paired import BinnedRows, Model, Weighting, flags
from calibrant.sampling.resampling import Resampling, check_level
from calibrant.sampling.unpaired import Summed, details_of
from calibrant.sampling.verdict import table_test
from calibrant.scores import RowScores
from calibrant.sketch import CalibrationSketch, check_alone
from calibrant.table import ReliabilityTable
from calibrant.wording import refuse

#: A model's name, what its predictions are called in an error, and the predictions.
_Named = tuple[str, str, Any]

_NAMES: Final = ("A", "B")
_CALLS: Final = "call compare(probs_a, probs_b, targets) or compare({'name': probs, ...}, targets)"


def compare(
    probs_a: Any,
    probs_b: Any = None,
    targets: Any = None,
    *,
    names: Sequence[str] = _NAMES,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool | Mapping[str, bool] = False,
    class_names: Sequence[str] | None = None,
    clusters: Any = None,
    paired: bool = False,
    level: float = 0.95,
    tolerance: float | None = None,
) -> Comparison:
    r"""Compare models on the same rows: which is better calibrated, and by how much each measure differs.

    What decides is the difference of the squared calibration errors, each estimated without bias from bins of equal
    width,

    .. math:: \frac1N \sum_b \frac{S_b^2 - \sum_{i \in b} (p_i - y_i)^2}{n_b - 1},
              \qquad S_b = \sum_{i \in b} (p_i - y_i),

    with a standard error from the differences of what each row adds to the two, :math:`2 D_b (p_i - y_i) - D_b^2` with
    :math:`D_b = S_b / n_b`, and from the noise of the estimates themselves, which is what remains near calibration.
    The differences of ECE, accuracy, Brier score and log loss are given too. For ECE no normal approximation holds:
    its interval lies between bounds that are safe near calibration too, and wide. Those of Brier score and log loss
    are of the mean of the rows' differences, that of the accuracy is Bonett and Price's.

    Parameters
    ----------
    probs_a, probs_b, targets
        The predictions of two models, each as ``probs`` in `expected_calibration_error`, and the targets of both. For
        more models, or with names: ``compare({"name": probs, ...}, targets)``. Sketches, `CalibrationSketch`, are
        compared without targets, by the sums they hold. The models' own errors are added, which is safe, also for
        models of different rows, and wide; with clusters ``paired`` tells what the rows have in common.
    names : (str, str), default ("A", "B")
        What to call the two models; a mapping has its own names.
    notion, weights, ignore_index
        As in `expected_calibration_error`; the notion is "positive" or "top-label". Intervals take weights that are
        whole numbers for rows that are repeated, others for rows that are more or less important.
    n_bins : int, default 15
        The bins of the calibration errors.
    logits : bool or mapping, default False
        Whether the numbers are logits, of all models or by a model's name (False for a name that is not in it).
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    clusters : array, (N,), or False, optional
        The label of each row's cluster, as in `evaluate`: every interval and p-value is then for independent clusters.
        Of predictions (N, C, ...) the first axis is the cluster unless it is False.
    paired : bool, default False
        For sketches that were made with clusters: whether equal labels name the same units in all of them, such as the
        same patients. What the models have in common then cancels, whether all of their rows are the same, some or
        none. Predictions are always paired.
    level : float, default 0.95
        The confidence of each interval, from 0.5 to below 1.
    tolerance : float, optional
        How much larger the second model's ECE may be, such as 0.01. Each pair then has a `Decision`.

    Returns
    -------
    Comparison
        Every difference is that of the first model minus the second, with an interval for this pair alone. With more
        than two models the p-values are adjusted for the number of pairs (Holm); those of each pair alone are in
        ``details["raw_p_value"]``. Where a log loss is infinite, so is the difference, and its method says why.

    Raises
    ------
    calibrant.errors.InputError
        As `evaluate`; for models of different rows, shapes or classes, and for notions of many events.

    Notes
    -----
    How often the intervals hold the truth is in the documentation's page of coverage. Fewer than 15 rows of the rarer
    outcome are flagged in the details.

    Cost: one read of each model's N x C numbers for the judged event and one for the scores of the rows, with memory
    below 80 bytes a row and model; of each pair some passes over N rows.

    References
    ----------
    Bröcker (2012), doi 10.1007/s00382-011-1191-1. Sun et al. (2024), arXiv 2408.08998. Bonett and Price (2012), doi
    10.3102/1076998611411915. Holm (1979), Scandinavian Journal of Statistics 6.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.random(5_000)
    >>> outcomes = rng.random(5_000) < honest
    >>> bold = honest**2 / (honest**2 + (1 - honest) ** 2)
    >>> comparison = calibrant.compare(honest, bold, outcomes, names=("honest", "bold"))
    >>> comparison.pairs[0]["debiased_square"].high < 0
    True
    >>> print(comparison.verdict()[0])
    honest is better calibrated than bold (p < 0.001): its squared calibration error is smaller by 0.0101 (0.0077 to
    0.0125).
    """
    check_bins(n_bins)
    check_level(level)
    check_tolerance(tolerance)
    named, outcomes = _models(probs_a, probs_b, targets, names)
    if notion in PER_CLASS:
        remedy = "pass one class's column of each model at a time"
        raise InputError("notion", "'positive' or 'top-label' to compare models", repr(notion), remedy)
    settings = _Settings(n_bins, float(level), tolerance)
    others = {"weights": weights, "ignore_index": ignore_index, "class_names": class_names}
    if any(isinstance(probs, CalibrationSketch) for _, _, probs in named):
        rest = {"targets": outcomes, "logits": logits, "clusters": clusters}
        return _compare_sketches(named, others | rest, notion, settings, paired=paired)
    if paired:
        remedy = "leave it out: predictions are compared row by row"
        raise InputError("paired", "True only for sketches that were made with clusters", "True", remedy)
    if outcomes is None:
        raise InputError("targets", "an array", "None", _CALLS)
    _check_rows(named)
    declared = _declared(logits, [name for name, _, _ in named])
    each = [(*model, is_logits) for model, is_logits in zip(named, declared, strict=True)]
    return _compare_rows(each, {**others, "targets": outcomes, "notion": notion}, clusters, settings)


class _Settings(NamedTuple):
    n_bins: int
    level: float
    tolerance: float | None


def _compare_rows(
    named: Sequence[tuple[str, str, Any, Any]], others: Mapping[str, Any], clusters: Any, settings: _Settings
) -> Comparison:
    """Compare models on the same rows; ``named`` also says whether their numbers are logits."""
    models: list[_Read] = []
    shapes: list[tuple[int, ...]] = []
    labels: ClusterLabels | None = None
    for name, argument, probs, is_logits in named:
        try:
            predictions = as_predictions(probs, logits=is_logits, **others)
            notion = resolve(predictions, others["notion"])
            reading = read(predictions, notion)
        except InputError as error:
            if error.argument == "targets":  # which may be those of the other model
                _check_columns(named, [_shape(each) for _, _, each, _ in named])
            raise error.renamed({"probs": argument}) from None
        shapes.append((predictions.n,) if predictions.layout == "binary" else (predictions.n, predictions.n_classes))
        _check_columns(named, shapes)
        if not models:
            labels = judging.cluster_labels(clusters, predictions)
            labels = None if labels is None else labels.take(np.flatnonzero(predictions.judged))
        models.append(_Read.of(name, predictions, reading))
    facts: dict[str, Any] = {
        "n": reading.n,
        "notion": notion,
        "n_classes": None if predictions.layout == "binary" else predictions.n_classes,
    }
    lone = labels is not None and labels.alone(reading.events.weights)
    if labels is not None and not lone:
        return _by_sums([model.in_clusters(labels, settings.n_bins) for model in models], settings, facts, paired=True)
    suffix, flag = LONE if lone else "", judging.single_image(clusters, predictions)
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
        clusters={"clusters": reading.n, "largest_cluster": 1 / reading.n} if lone else None,
    )


def _compare_sketches(
    named: Sequence[_Named], others: Mapping[str, Any], notion: Notion | None, settings: _Settings, *, paired: bool
) -> Comparison:
    """Compare models by their sketches."""
    models: list[Summed] = []
    (_, _, first), *_ = named
    for name, argument, sketch in named:
        if not isinstance(sketch, CalibrationSketch):
            remedy = "give sketches of all models, or predictions of all"
            raise InputError(argument, "a CalibrationSketch, as the other models", f"a {type(sketch).__name__}", remedy)
        with renaming(sketch=argument):
            check_alone(sketch, notion, **others)
        wanted, got = (first.notion, first.n_classes), (sketch.notion, sketch.n_classes)
        if wanted != got:
            expected = f"a sketch of {wanted[0]!r} and {wanted[1]} classes, as {named[0][1]}"
            raise InputError(argument, expected, f"{got[0]!r} and {got[1]}", "compare sketches of one make")
        if sketch.notion in PER_CLASS:
            remedy = "make sketches of one class's column each"
            raise InputError(argument, "a sketch of one judged event", f"one of {sketch.notion!r}", remedy)
        if paired and sketch.buckets is None:
            remedy = "make the sketches with clusters=, or leave paired out"
            raise InputError(argument, "a sketch of rows in clusters, with paired=True", "one without clusters", remedy)
        judged = sketch.in_units()
        means = PredictionMeans.of_sketch(judged)
        models.append(_summed(name, judged.table, means, settings.n_bins, judged.buckets))
    facts = {"n": min(model.means.n for model in models), "notion": first.notion, "n_classes": first.n_classes}
    return _by_sums(models, settings, facts, paired=paired)


def _summed(
    name: str,
    table: ReliabilityTable,
    means: PredictionMeans,
    n_bins: int,
    buckets: BucketSums | None,
    answers: Answers | None = None,
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
    }
    return Summed(**known) if rows is None else ClusterSummed(**known, rows=rows, answers=answers)


def _by_sums(models: Sequence[Summed], settings: _Settings, facts: Mapping[str, Any], *, paired: bool) -> Comparison:
    """Compare models by their sums; ``paired`` ones by sums over buckets of the same clusters."""
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
        pairs=_pairs([_pair(a, b, settings, paired=paired) for a, b in itertools.combinations(models, 2)]),
        diagrams={name: diagram for name, (_, diagram) in alone.items()},
        paired=paired,
        clusters=cluster_details(fewest.rows.clusters.buckets) if isinstance(fewest, ClusterSummed) else None,
    )


def _alone(model: Summed, level: float) -> tuple[TestResult, ReliabilityDiagram]:
    """Return the test of a model's own calibration, in closed form, and its diagram."""
    if not isinstance(model, ClusterSummed):
        return table_test(model.table, model.n_bins), model.diagram(level)
    event = Event(table=model.table, n_bins=model.n_bins, means=model.means, clusters=model.rows)
    inference = ClusterInference.of(event, Resampling.of(level, 0, 0), ())
    return inference.test, inference.diagram()


def _descriptions() -> dict[str, Description]:
    return {measure.name: measure.description for measure in compared()}


def _differences() -> list[tuple[str, Difference]]:
    """Return how models are compared, by the names of the measures."""
    return [(measure.name, measure.difference) for measure in compared() if isinstance(measure.difference, Difference)]


def _paired(first: Model, second: Model, settings: _Settings, flag: str, suffix: str) -> Pair:
    """Return the differences of two models on the same rows; the suffix ends each method."""
    details, n = flags(first, second), len(first.judged.index)
    if flag:
        details = {"flag": "; ".join(filter(None, (flag, details.get("flag"))))}
    estimates = {name: each.paired(first, second, settings.level) for name, each in _differences()}
    estimates = {
        name: _complete(replace(one, method=one.method + suffix), settings.level, n, details)
        for name, one in estimates.items()
    }

    def bounds(level: float) -> Estimate:
        return paired.absolute_difference(first, second, level)

    return Pair(first.name, second.name, estimates, _decision(bounds, n, settings))


def _pair(first: Summed, second: Summed, settings: _Settings, *, paired: bool) -> Pair:
    """Return the differences of two models known by their sums."""
    n, level = min(first.means.n, second.means.n), settings.level
    if paired and isinstance(first, ClusterSummed) and isinstance(second, ClusterSummed):
        one, other = paired_models(first, second)
        details = {**cluster_details(first.rows.clusters.buckets), **pairs.flags(one, other)}
        estimates = {name: each.clustered(one, other, level) for name, each in _differences()}
        bounds = partial(pairs.absolute_difference, one, other)
    else:
        details = details_of(first, second)
        estimates = {name: each.unpaired(first, second, level) for name, each in _differences()}
        bounds = partial(unpaired.absolute_difference, first, second)
    errors = {name: first.bounds[name] + second.bounds[name] for name in estimates}
    complete = {
        name: replace(_complete(one, level, n, details), error_bound=errors[name]) for name, one in estimates.items()
    }
    return Pair(first.name, second.name, complete, _decision(bounds, n, settings))


def _decision(bounds: Callable[[float], Estimate], n: int, settings: _Settings) -> Decision | None:
    """Return the decision about the tolerance, from the difference of two l1 errors at a level."""
    if settings.tolerance is None:
        return None
    ends = replace(bounds(one_sided(settings.level)), n=n)
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


# ---------------------------------------------------------------- the arguments


def _models(probs_a: Any, probs_b: Any, targets: Any, names: Any) -> tuple[list[_Named], Any]:
    """Return the models and the targets, whichever way they were given."""
    if isinstance(probs_a, Mapping):
        if probs_b is not None and targets is not None:
            raise InputError("targets", "nothing next to a mapping and the targets", "a third array", _CALLS)
        if names is not _NAMES:
            raise InputError("names", "nothing next to a mapping of models", repr(names), "name them in the mapping")
        if len(probs_a) < 2:
            remedy = "pass {'name': probs, 'other name': probs}"
            raise InputError("probs_a", "two models or more", f"a mapping of {len(probs_a)}", remedy)
        named = [(str(name), f"probs[{name!r}]", probs) for name, probs in probs_a.items()]
        targets = probs_b if probs_b is not None else targets
    else:
        two = not isinstance(names, str) and isinstance(names, Sequence) and len(names) == 2
        if not two:
            raise InputError("names", "two names", repr(names), "pass names=('old', 'new')")
        named = [(str(names[0]), "probs_a", probs_a), (str(names[1]), "probs_b", probs_b)]
    if len({name for name, _, _ in named}) < len(named):
        raise InputError("names", "distinct names", ", ".join(repr(name) for name, _, _ in named), "rename one of them")
    return named, targets


def _check_rows(named: Sequence[_Named]) -> None:
    """Raise for models of different numbers of rows, before the targets are blamed for it."""
    (_, first, probs), *others = named
    rows = _shape(probs)[:1]
    for _, argument, probs in others:
        got = _shape(probs)[:1]
        if rows and got and got != rows:
            expected = f"{rows[0]:,} row{'s' * (rows[0] != 1)}, as many as {first}"
            raise InputError(argument, expected, f"{got[0]:,}", "give predictions of the same rows, in the same order")


def _check_columns(named: Sequence[tuple[Any, ...]], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise for models of different columns."""
    for (_, argument, *_), shape in zip(named, shapes, strict=False):  # up to the model that could not be read
        if shape and shapes[0] and shape != shapes[0]:
            facts = ModelFacts(shape=shape, other=named[0][1], other_shape=shapes[0])
            raise refuse(argument, Fault.MODEL_SHAPES, facts)


def _shape(x: Any) -> tuple[int, ...]:
    """Return the shape of an array of any library; nothing where it is not to be seen."""
    shape = getattr(x, "shape", None)
    if shape is None and isinstance(x, (list, tuple)) and x:
        shape = (len(x), *((len(x[0]),) if isinstance(x[0], (list, tuple)) else ()))
    shape = tuple(shape or ())
    return shape[:1] if shape[1:] == (1,) else shape


def _declared(logits: Any, names: Sequence[str]) -> list[Any]:
    """Return for each model what was said of logits."""
    if not isinstance(logits, Mapping):
        return [logits] * len(names)
    for name in logits:
        if name not in names:
            raise InputError("logits", "the names of models", repr(name), nearest(str(name), names))
    return [logits.get(name, False) for name in names]


# ---------------------------------------------------------------- the rows


class _Read(NamedTuple):
    """What is read of one model: its judged events, the scores of these rows, and their means."""

    name: str
    events: Events
    scores: RowScores
    weighting: Weighting
    means: PredictionMeans

    @classmethod
    def of(cls, name: str, predictions: Predictions, reading: Reading) -> _Read:
        weighting = Weighting.of(reading.events.weights, reading.n)
        # Differences have variances of their own, from rows or clusters: those of each mean are not needed.
        means = PredictionMeans.of_scores(
            reading.means,
            reading.means,
            effective_n=weighting.effective_n,
            n=reading.n,
            event=predictions.layout == "binary",
        )
        return cls(name, reading.events, scores_of_rows(predictions), weighting, means)

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
        return _summed(self.name, table, self.means, n_bins, buckets, answers)
