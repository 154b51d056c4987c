"""`compare`: two or more models evaluated on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast, overload

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest
from calibrant.inference.decision import decide_difference, one_sided
from calibrant.inputs.common_questions import CommonQuestion, NamedLog, common_questions
from calibrant.inputs.decision_log import DecisionLog, check_no_other
from calibrant.inputs.group_rows import in_order
from calibrant.inputs.notions import PER_CLASS
from calibrant.inputs.predictions import Notion, check_weights_are
from calibrant.inputs.weights import WeightsAre
from calibrant.measures.binned.cluster_bins import uniform_sums
from calibrant.measures.binned.diagram import bin_diagram, inferred_diagram
from calibrant.measures.binned.ece import ECE
from calibrant.measures.context import Inference
from calibrant.measures.differences.pair import ComparedModel, absolute_difference, told
from calibrant.measures.differences.paired import Model, RowPair
from calibrant.measures.differences.several import Answered, levels_together
from calibrant.measures.measure import Measure, descriptions_of
from calibrant.measures.verdict import closed_form_test
from calibrant.report.compared_models import (
    ComparedData,
    ComparisonSettings,
    Named,
    read_rows,
    read_sketches,
    shape_of,
)
from calibrant.report.comparison import Comparison, GroupComparison, Pair
from calibrant.report.leaderboard import (
    DEFAULT,
    FEW,
    MOST_PAIRED,
    best_first,
    compared_places,
    leaderboard,
)
from calibrant.report.question_comparisons import QuestionComparison, QuestionComparisons
from calibrant.results import Estimate, ReliabilityDiagram
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.progress import counted
from calibrant.sketch import CalibrationSketch
from calibrant.statistics.design import LONE
from calibrant.statistics.group_tests import LEAST_GROUP, SMALL_GROUP, holm
from calibrant.statistics.resampling import Resampling, alpha_of
from calibrant.statistics.simultaneous import Spread

if TYPE_CHECKING:
    from calibrant.report.result_comparison import ResultComparison

_NAMES: Final = ("A", "B")
_CALLS: Final = "call compare(probs_a, probs_b, targets) or compare({'name': probs, ...}, targets)"
_ANSWERS: Final = "pass targets for all models, or a pair of each model: compare({'name': (probs, targets), ...})"


@overload
def compare(
    probs_a: DecisionLog,
    probs_b: DecisionLog,
    *,
    names: Sequence[str] = _NAMES,
    n_bins: int = 15,
    measures: Sequence[str | Measure] | None = None,
    level: float = 0.95,
    tolerance: float | None = None,
    sort_by: str | Measure = DEFAULT,
) -> QuestionComparisons: ...


@overload
def compare(
    probs_a: Mapping[str, DecisionLog],
    *,
    n_bins: int = 15,
    measures: Sequence[str | Measure] | None = None,
    level: float = 0.95,
    tolerance: float | None = None,
    sort_by: str | Measure = DEFAULT,
) -> QuestionComparisons: ...


@overload
def compare(
    probs_a: Any,
    probs_b: Any = None,
    targets: ArrayLike | None = None,
    *,
    names: Sequence[str] = _NAMES,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool | Mapping[str, bool] = False,
    class_names: Sequence[str] | None = None,
    measures: Sequence[str | Measure] | None = None,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    paired: bool | None = None,
    weights_are: WeightsAre | None = None,
    level: float = 0.95,
    tolerance: float | None = None,
    sort_by: str | Measure = DEFAULT,
    own_outcomes: bool = False,
    sparse: Literal[False] = False,
) -> Comparison: ...


@overload
def compare(
    probs_a: Mapping[str, Any],
    probs_b: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    n_bins: int = 15,
    logits: bool | Mapping[str, bool] = False,
    class_names: Sequence[str] | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    sort_by: str | Measure = DEFAULT,
    sparse: bool,
) -> ResultComparison: ...


def compare(
    probs_a: Any,
    probs_b: Any = None,
    targets: ArrayLike | None = None,
    *,
    names: Sequence[str] = _NAMES,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool | Mapping[str, bool] = False,
    class_names: Sequence[str] | None = None,
    measures: Sequence[str | Measure] | None = None,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    paired: bool | None = None,
    weights_are: WeightsAre | None = None,
    level: float = 0.95,
    tolerance: float | None = None,
    sort_by: str | Measure = DEFAULT,
    own_outcomes: bool = False,
    sparse: bool = False,
) -> Comparison | QuestionComparisons | ResultComparison:
    r"""Compare models on the same rows: which is better, and by how much each measure differs.

    What decides is the difference of the squared calibration errors, each estimated without bias from bins of equal
    width,

    .. math:: \frac1N \sum_b \frac{S_b^2 - \sum_{i \in b} (p_i - y_i)^2}{n_b - 1},
              \qquad S_b = \sum_{i \in b} (p_i - y_i),

    with a standard error from the differences of what each row adds to the two, :math:`2 D_b (p_i - y_i) - D_b^2` with
    :math:`D_b = S_b / n_b`, and from the noise of the estimates themselves, which is what remains near calibration.
    The differences of ECE, accuracy, Brier score and log loss are given too. For ECE no normal approximation holds: its
    interval lies between bounds that are safe near calibration too, and wide. Those of Brier score and log loss are of
    the mean of the rows' differences, that of the accuracy of rows is Bonett and Price's.

    Parameters
    ----------
    probs_a, probs_b, targets
        The predictions of two models, each as ``probs`` in `expected_calibration_error`, and the targets of both. For
        more models, or with names: ``compare({"name": probs, ...}, targets)``. Sketches, `CalibrationSketch`, are
        compared without targets, by the sums they hold. By default the standard errors of two sketches are added, so
        the intervals are valid even for models on different rows, but wide. For sketches with clusters, ``paired``
        tells what the rows have in common.

        Logs of decision models, `DecisionLog`, are compared without targets, question by question, in the rows that all
        of them answered and that have the same id. If no log has ids, rows are matched by their positions. If options
        differ between rows, or for logs from `DecisionLog.stated`, only the likeliest option of each model is compared.

        Models with outcomes of their own, such as language models whose answers are right or wrong, are pairs without
        targets: ``compare({"name": (probs, targets), ...})``. A row is then the same question for all of them. The
        accuracy is the share of outcomes 1, and AUROC and mean difference are compared too.
    names : (str, str), default ("A", "B")
        What to call the two models; a mapping has its own names.
    notion, weights, ignore_index
        As in `expected_calibration_error`; the notion is "positive" or "top-label". For intervals, weights that are
        whole numbers mean repeated rows, and other weights mean rows that are more or less important.
    n_bins : int, default 15
        The bins of the calibration errors.
    logits : bool or mapping, default False
        Whether the numbers are logits, of all models or by a model's name (False for a name that is not in it).
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    measures : list, optional
        Further measures: keys such as "auroc", and `calibrant.measures.Measure` objects that have an ``influence``. The
        verdict does not depend on them.
    clusters : array, (N,), or False, optional
        The label of each row's cluster, as in `evaluate`: every interval and p-value is then for independent clusters.
        Of predictions (N, C, ...) the first axis is the cluster unless it is False.
    groups : array, (N,), optional
        The name of each row's group, as in `evaluate`. The models are compared in every group too, with the p-values
        adjusted for the number of groups and pairs (Holm). Sketches bring their groups: those that all of them have are
        compared.
    paired : bool, optional
        What the rows of sketches have in common. True, for sketches that were made with clusters: equal labels name the
        same units in all of them, such as the same patients. What the models have in common then cancels, whether all
        of their rows are the same, some or none. False: nothing, they are independent samples, such as of two
        hospitals. The variances of the two models then add up. By default it is unknown what the rows have in common,
        and the standard errors add up: intervals are valid but wide. Predictions are always paired.
    weights_are : {"frequency", "sampling"}, optional
        What the weights are, as in `evaluate`.
    level : float, default 0.95
        The confidence of each interval, from 0.5 to below 1.
    tolerance : float, optional
        How much larger the second model's ECE may be, such as 0.01. Each pair then has a `Decision`.
    sort_by : str or Measure, default "brier"
        What the leaderboard ranks models by: a measure with a best direction and an influence, such as "nll",
        "accuracy" or "auroc", or "debiased_square" for calibration alone (for at most 20 models).
    own_outcomes : bool, default False
        For sketches of one event, whether an outcome of 1 means that the model's answer is right. Pairs of predictions
        and targets are always read so.
    sparse : bool, default False
        Whether models answered different questions. NaN is the prediction of a question that a model did not answer.
        Models are compared by the mean ``sort_by`` ("brier", "nll" or "accuracy"), adjusted for the difficulty of their
        questions as in `compare_results`, which names the assumptions. Not with ``weights``, ``ignore_index``,
        ``groups``, ``tolerance`` or ``measures``.

    Returns
    -------
    Comparison, QuestionComparisons for DecisionLogs, or ResultComparison with ``sparse``
        Every difference is that of the first model minus the second, with an interval for this pair alone. With more
        than two models the p-values are adjusted for the number of pairs (Holm); those of each pair alone are in
        ``details["raw_p_value"]``. If one log loss is infinite, so is the difference; it is NaN if both are.

        The leaderboard has a `Standing` for each model, the best first: by how much it is worse than the best, whether
        another one is shown to be better, and the range of its rank. These statements hold simultaneously for all
        models, at the level: they follow from intervals of all differences that are simultaneous (Tukey), with the
        critical value simulated from the covariance of the models. With more than 20 models only the pairs with the
        first or with the best one are compared one by one.

        For logs, the mapping from questions to comparisons also has, for each measure, intervals that are simultaneous
        for all questions and pairs of models (see `QuestionComparison`). They use how the answers about one input vary
        together where that is known well enough, and Bonferroni's correction otherwise.

    Raises
    ------
    calibrant.errors.InputError
        As `evaluate`; for models of different rows, shapes or classes, and for the notions "classwise" and
        "multilabel". For logs without a common question, or with two labels of the same row, or if more than half of
        the rows of a log have no id in common with all others.

    Notes
    -----
    Fewer than 15 rows of the less frequent outcome are flagged in the details.

    Cost: one read of each model's N x C numbers for the evaluated event and one for the scores of the rows, with memory
    below 170 bytes a row and model; of each pair some passes over N rows.

    References
    ----------
    Hsu (1981), Annals of Statistics 9 (which may be the best). Al Mohamad, van Zwet, Solari, Goeman (2021), and
    Mogstad, Romano, Shaikh, Wilhelm (2024), doi 10.1093/restud/rdad006 (ranges of ranks). Bröcker (2012), doi
    10.1007/s00382-011-1191-1. Sun et al. (2024), arXiv 2408.08998. Bonett and Price (2012), doi
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
    honest shows no evidence of miscalibration (p = 0.709).
    """
    settings = ComparisonSettings.of(n_bins, level, tolerance, measures, sort_by)
    _check_choices(paired, notion)
    named, outcomes = _models(probs_a, probs_b, targets, names)
    others = {"weights": weights, "ignore_index": ignore_index, "class_names": class_names}
    if any(isinstance(log, DecisionLog) for _, _, log in named):
        rest = {"targets": outcomes, "notion": notion, "logits": logits or None, "own_outcomes": own_outcomes or None}
        rest |= {"clusters": clusters, "groups": groups, "paired": paired, "weights_are": weights_are}
        check_no_other(**others, **rest)
        return _compare_logs(named, settings)
    if any(isinstance(probs, CalibrationSketch) for _, _, probs in named):
        rest = {"targets": outcomes, "logits": logits, "clusters": clusters, "groups": groups}
        check_weights_are(weights_are, given=True)
        paired = None if paired is None else bool(paired)
        settings = settings.for_answers() if own_outcomes else settings
        data = read_sketches(named, others | rest, notion, settings, paired=paired, weights_are=weights_are)
        return _with_groups(data, settings)
    _check_of_rows(paired, own_outcomes and outcomes is not None)
    own = None
    if outcomes is None:
        named, own = _own_outcomes(named)
        settings = settings.for_answers()
    _check_rows(named)
    declared = _declared(logits, [name for name, _, _ in named])
    targets_of = own or [outcomes] * len(named)
    each = [(*model, *more) for model, *more in zip(named, declared, targets_of, strict=True)]
    others |= {"notion": notion, "weights_are": weights_are}
    if sparse:
        from calibrant.report.sparse_models import compare_sparse

        _check_sparse(weights=weights, ignore_index=ignore_index, groups=groups, tolerance=tolerance, measures=measures)
        return compare_sparse(each, others, clusters, settings)
    return _with_groups(read_rows(each, others, clusters, groups, settings), settings)


def _check_choices(paired: object, notion: object) -> None:
    """Reject what no comparison takes."""
    if paired not in (None, True, False):
        remedy = "leave paired out if you do not know whether the rows are paired"
        raise InputError("paired", "True, False or None", repr(paired), remedy)
    if notion in PER_CLASS:
        remedy = "pass one class's column of each model at a time"
        raise InputError("notion", "'positive' or 'top-label' to compare models", repr(notion), remedy)


def _check_of_rows(paired: object, both_outcomes: bool) -> None:
    """Reject what a comparison of rows does not take: ``paired``, and outcomes for all models next to their own."""
    if paired is not None:
        remedy = "leave paired out, because predictions are compared row by row"
        expected = "None for predictions (True is only for sketches with clusters, and False only for sketches)"
        raise InputError("paired", expected, repr(paired), remedy)
    if both_outcomes:
        remedy = "leave own_outcomes out, or pass a pair of each model: compare({'name': (probs, targets), ...})"
        raise InputError("own_outcomes", "False, because targets are given for all models", "True", remedy)


def _check_sparse(**others: Any) -> None:
    """Reject what models that answered different questions do not take."""
    for name, value in others.items():
        if value is not None:
            remedy = f"leave {name} out; or leave sparse out, and pass only questions that every model answered"
            raise InputError(name, f"no {name} together with sparse=True", "a value", remedy)


def _with_groups(data: ComparedData, settings: ComparisonSettings) -> Comparison:
    """Return the comparison of all rows, and those in groups that all models have."""
    comparison = _comparison(data, settings)
    if not data.groups:
        return comparison
    return replace(comparison, groups=_of_groups(data, settings), lone_groups=data.lone_groups)


# ---------------------------------------------------------------- the models


# ---------------------------------------------------------------- the arguments


def _models(probs_a: Any, probs_b: Any, targets: ArrayLike | None, names: Any) -> tuple[list[Named], Any]:
    """Return the models and the targets, whichever way they were given."""
    if isinstance(probs_a, Mapping) and not isinstance(probs_a, DecisionLog):
        if probs_b is not None and targets is not None:
            raise InputError("targets", "two arguments, the mapping of models and the targets", "a third array", _CALLS)
        if names is not _NAMES:
            remedy = "leave names out, or rename the keys"
            raise InputError("names", "no names, because the keys of the mapping name the models", repr(names), remedy)
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


def _own_outcomes(named: Sequence[Named]) -> tuple[list[Named], list[Any]]:
    """Return the models and the targets of each, from pairs."""
    models, targets = [], []
    for name, argument, pair in named:
        if argument in ("probs_a", "probs_b") or not isinstance(pair, tuple):
            raise InputError("targets", "an array", "None", _CALLS if argument == "probs_a" else _ANSWERS)
        if len(pair) != 2 or any(isinstance(each, (int, float)) for each in pair):
            raise InputError(argument, "a pair (probs, targets)", f"a tuple of {len(pair)}", _ANSWERS)
        models.append((name, argument, pair[0]))
        targets.append(pair[1])
    return models, targets


def _check_rows(named: Sequence[Named]) -> None:
    """Raise for models of different numbers of rows, before the targets are blamed for it."""
    (_, first, probs), *others = named
    rows = shape_of(probs)[:1]
    for _, argument, probs in others:
        got = shape_of(probs)[:1]
        if rows and got and got != rows:
            expected = f"{rows[0]:,} row{'s' * (rows[0] != 1)}, as many as {first}"
            raise InputError(argument, expected, f"{got[0]:,}", "give predictions of the same rows, in the same order")


def _declared(logits: Any, names: Sequence[str]) -> list[Any]:
    """Return for each model what was said of logits."""
    if not isinstance(logits, Mapping):
        return [logits] * len(names)
    for name in logits:
        if name not in names:
            raise InputError("logits", "the names of models", repr(name), nearest(str(name), names))
    return [logits.get(name, False) for name in names]


# ---------------------------------------------------------------- the comparison


def _comparison(data: ComparedData, settings: ComparisonSettings) -> Comparison:
    """Return the comparison of all rows: the pairs of models, of many only those with the first or the best one."""
    models, measure, level = data.models, settings.sort_by, settings.level
    fewest = min(models, key=lambda model: model.means.n)
    places = _compared_places(models, settings)
    pairs = [_differences(data, models[i], models[j], settings) for i, j in places]
    spread: Callable[[NDArray[np.intp]], Spread | None] = partial(data.spread, measure, level)
    if measure is settings.measures[0]:
        errors, details = np.zeros((len(models), len(models))), [pair[measure.name].details for pair in pairs]
        for (i, j), each in zip(places, details, strict=True):
            errors[i, j] = errors[j, i] = each["standard_error"]
        spread = Spread(errors, df=min(each.get("degrees_of_freedom", math.inf) for each in details)).take
    n, clusters = fewest.means.n, dict(fewest.event.design.sample.facts) or None
    of_event = data.notion == "positive" and not data.n_classes and not settings.own_outcomes
    return Comparison(
        names=tuple(model.name for model in models),
        _cautions=_cautions(data, places),
        n=n,
        notion=data.notion,
        n_classes=data.n_classes,
        n_bins=settings.n_bins,
        level=level,
        descriptions=descriptions_of(settings.measures, of_event=of_event),
        models={
            model.name: {each.name: how.value(model) for each, how in settings.differences.items()} for model in models
        },
        tests={model.name: model.event.of(closed_form_test) for model in models},
        pairs=_adjusted(pairs),
        diagrams={model.name: _diagram(model, level) for model in models},
        paired=bool(data.paired),
        independent=data.paired is False,
        clusters={"clusters": n, "largest_cluster": 1 / n} if data.alone else clusters,
        leaderboard=leaderboard(models, measure, settings.measures, level, spread),
        sorted_by=measure.name,
        own_outcomes=settings.own_outcomes,
    )


def _cautions(data: ComparedData, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Return why intervals are not to be trusted: each warning once, those of a pair alone as one text.

    They are about the pairs of which the verdict speaks: all pairs of few models, or those with the first one.
    """
    spoken = [(i, j) for i, j in places if len(data.models) <= FEW or i == 0]
    of_pairs = [each for i, j in spoken for each in data.pair(data.models[i], data.models[j]).cautions]
    texts = list(filter(None, (data.flag, *told(of_pairs))))
    return tuple(texts) if len(places) > 1 or not texts else ("; ".join(texts),)


def _compared_places(models: Sequence[ComparedModel], settings: ComparisonSettings) -> list[tuple[int, int]]:
    """Return the places of each pair of models; of many models, those with the first or the best one."""
    if len(models) > MOST_PAIRED and settings.sort_by is settings.measures[0]:
        expected = f"a measure other than {settings.sort_by.name!r} for more than {MOST_PAIRED} models"
        got = f"{settings.sort_by.name!r} for {len(models)} models"
        raise InputError("sort_by", expected, got, "rank the models by brier")
    return compared_places(range(len(models)), best_first(models, settings.sort_by)[:1])


def _diagram(model: ComparedModel, level: float) -> ReliabilityDiagram:
    """Return the reliability diagram of a model, with intervals and the band of calibration in closed form."""
    event = model.event
    if event.clusters is not None:
        return inferred_diagram(Inference(event=event, resampling=Resampling.of(level, 0, 0)))
    moments = model.bins.moments if isinstance(model, Model) else event.of(uniform_sums).moments
    return bin_diagram(event.n_bins, moments, level, integer_weights=event.table.whole)


def _differences(
    data: ComparedData,
    one: ComparedModel,
    other: ComparedModel,
    settings: ComparisonSettings,
    levels: Mapping[Measure, float] = MappingProxyType({}),
) -> Pair:
    """Return the differences of two models, their ends in the range of differences.

    An interval whose level is among ``levels`` is one of several that hold together with the level of the settings.
    """
    pair, level = data.pair(one, other), settings.level
    warnings = "; ".join(filter(None, (data.flag, pair.flag)))
    details = {**pair.facts, **({"flag": warnings} if warnings else {})}
    estimates = {}
    for measure, difference in settings.differences.items():
        own = levels.get(measure, level)
        found = measure.difference_in_range(difference.estimate(pair, own), one.means.layout)
        estimates[measure.name] = replace(
            found,
            level=math.nan if math.isnan(found.low) else level,
            n=pair.n,
            method=found.method + LONE if data.alone else found.method,
            details={**found.details, **details, **({"interval_level": own} if levels else {})},
            error_bound=0.0 if isinstance(pair, RowPair) else one.event.bound(measure) + other.event.bound(measure),
        )
    decision = None
    if settings.tolerance is not None:
        bounds = replace(absolute_difference(pair, one_sided(level)), n=pair.n)
        decision = decide_difference(settings.tolerance, ECE.difference_in_range(bounds, "binary"), level)
    return Pair(one.name, other.name, estimates, decision)


def _adjusted(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
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


def _of_groups(data: ComparedData, settings: ComparisonSettings) -> tuple[GroupComparison, ...]:
    """Return the comparison of each group, its p-values adjusted for the number of groups and pairs (Holm)."""
    groups = counted("comparing groups", list(data.groups.items()))
    compared = {name: _comparison(models_of_group(), settings) for name, models_of_group in groups}
    raw = {
        (name, place): float(pair.raw_p_value)
        for name, comparison in compared.items()
        for place, pair in enumerate(comparison.pairs)
        if comparison.n >= LEAST_GROUP and not math.isnan(pair.raw_p_value)
    }
    adjusted = dict(zip(raw, holm(list(raw.values())), strict=True))
    found = tuple(
        GroupComparison(
            name=name,
            comparison=comparison,
            adjusted_p_values=tuple(adjusted.get((name, place), math.nan) for place in range(len(comparison.pairs))),
            flag=f"fewer than {LEAST_GROUP} rows, too few for a test" if comparison.n < LEAST_GROUP else "",
        )
        for name, comparison in compared.items()
    )
    return found if data.ordered else in_order(found, _evidence)


def _evidence(group: GroupComparison) -> tuple[float, int]:
    """Return what groups are sorted by: the smallest p-value first, and none last."""
    return min(2.0 if math.isnan(p) else p for p in group.adjusted_p_values), -group.comparison.n


# ---------------------------------------------------------------- the questions of decision logs


def _compare_logs(named: Sequence[Named], settings: ComparisonSettings) -> QuestionComparisons:
    """Return the comparisons of models on each question that all of their logs answer."""
    for _, argument, log in named:
        if not isinstance(log, DecisionLog):
            expected, remedy = "a DecisionLog, like the other models", "compare logs with logs, or arrays with arrays"
            raise InputError(argument, expected, f"a {type(log).__name__}", remedy)
    common = common_questions([NamedLog(*model) for model in named])
    asked = {
        name: _of_question(question, settings)
        for name, question in counted("reading questions", list(common.questions.items()))
    }
    compared = {
        name: _comparison(data, own) for name, (data, own) in counted("comparing questions", list(asked.items()))
    }
    tested = {name: asked[name] for name, comparison in compared.items() if comparison.n >= LEAST_GROUP}
    levels = _levels_of_questions(tested, common.questions, settings)
    pairs = {name: _pairs_together(*asked[name], levels.get(name)) for name in compared}
    raw = [pair["debiased_square"].p_value for name in tested for pair in pairs[name]]
    adjusted = iter(holm(raw))
    return QuestionComparisons(
        questions={
            name: QuestionComparison(
                name=name,
                question=common.questions[name],
                comparison=comparison,
                pairs=tuple(
                    _with_p_value(pair, next(adjusted) if name in tested else math.nan) for pair in pairs[name]
                ),
                flag="" if name in tested else SMALL_GROUP,
            )
            for name, comparison in compared.items()
        },
        names=tuple(name for name, _, _ in named),
        common=common,
        level=settings.level,
        sorted_by=settings.sort_by.name,
    )


def _of_question(question: CommonQuestion, settings: ComparisonSettings) -> tuple[ComparedData, ComparisonSettings]:
    """Return the models on one question, and how they are compared."""
    others = {"weights": None, "ignore_index": None, "class_names": question.class_names, "notion": None}
    others["weights_are"] = None
    named = [(name, f"probs[{name!r}]", probs, False, question.targets[name]) for name, probs in question.probs.items()]
    own = settings.for_answers() if question.likeliest else settings
    return read_rows(named, others, None, None, own), own


def _levels_of_questions(
    tested: Mapping[str, tuple[ComparedData, ComparisonSettings]],
    questions: Mapping[str, CommonQuestion],
    settings: ComparisonSettings,
) -> dict[str, dict[Measure, float]]:
    """Return for each question and measure the level of each interval, so that those of all questions hold together.

    The questions and models are taken in the order of their names, so the result does not depend on the order given.
    """
    names, levels = sorted(tested), dict[str, dict[Measure, float]]({name: {} for name in tested})
    for measure in dict.fromkeys(measure for _, own in tested.values() for measure in own.differences):
        having = [name for name in names if measure in tested[name][1].differences]
        alone = 1 - alpha_of(settings.level) / len(having)
        answered = []
        for name in having:
            data = tested[name][0]
            models = sorted((cast("Model", model) for model in data.models), key=lambda model: model.name)
            finite = all(math.isfinite(model.event.value(measure)) for model in models)
            places = np.arange(len(models))
            spread = None
            if measure.influence is not None and finite:
                spread = replace(data, models=models).spread(measure, alone, places)
            answered.append(Answered(models, questions[name].inputs[data.order], spread))
        number = len(_compared_places(tested[having[0]][0].models, settings))
        for name, level in zip(having, levels_together(measure, answered, number, settings.level), strict=True):
            levels[name][measure] = level
    return levels


def _pairs_together(
    data: ComparedData, settings: ComparisonSettings, levels: Mapping[Measure, float] | None
) -> list[Pair]:
    """Return the pairs of a question with intervals for all questions together, and without levels with none."""
    models, places = data.models, _compared_places(data.models, settings)
    pairs = [_differences(data, models[i], models[j], settings, levels or {}) for i, j in places]
    if levels is not None:
        return pairs
    return [
        replace(pair, estimates={name: _without_interval(each) for name, each in pair.estimates.items()})
        for pair in pairs
    ]


def _without_interval(estimate: Estimate) -> Estimate:
    return replace(estimate, low=math.nan, high=math.nan, level=math.nan, method=f"no interval: {SMALL_GROUP}")


def _with_p_value(pair: Pair, p_value: float) -> Pair:
    """Return a pair with an adjusted p-value of what decides."""
    square = pair["debiased_square"]
    details = {**square.details, "raw_p_value": square.p_value}
    estimates = {**pair.estimates, "debiased_square": replace(square, p_value=p_value, details=details)}
    return replace(pair, estimates=estimates)
