"""What a comparison reads: its settings, and the models as rows or as sketches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, renaming
from calibrant.errors.faults import Facts, Fault
from calibrant.errors.wording import refuse
from calibrant.inference.decision import check_tolerance
from calibrant.inputs.group_rows import as_groups, has_order
from calibrant.inputs.notions import PER_CLASS, Events, read, resolve, scores_of_rows
from calibrant.inputs.predictions import Notion, Predictions, as_predictions
from calibrant.inputs.scores import RowScores
from calibrant.inputs.weights import WeightsAre
from calibrant.measures.binned.binned import check_bins
from calibrant.measures.differences.pair import ComparedModel, ModelPair
from calibrant.measures.differences.paired import ClusterModel, Model, ModelRows, RowPair
from calibrant.measures.differences.several import in_units, spread_of
from calibrant.measures.differences.unpaired import ClusterSummed, Summed, SummedPair, pair_of, with_shared_buckets
from calibrant.measures.event import Event
from calibrant.measures.listed import compared_by
from calibrant.measures.means.in_the_large import MEAN_GAP
from calibrant.measures.means.means import PredictionMeans
from calibrant.measures.measure import Difference, Measure
from calibrant.measures.ranking.auroc import AUROC
from calibrant.report.evaluated_data import ONE_IMAGE, cluster_labels, counted_flag
from calibrant.report.leaderboard import sorting_measure
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch, check_alone
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import check_level
from calibrant.statistics.simultaneous import Spread
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import ClusterLabels, content_order
from calibrant.table.cluster_sums import BucketSums

#: A model's name, what its predictions are called in an error, and the predictions.
Named = tuple[str, str, Any]
#: The same with whether they are logits, and with the targets.
GivenModel = tuple[str, str, Any, Any, Any]


def _with(measures: Sequence[Measure], *further: Measure) -> tuple[Measure, ...]:
    """Return the measures, and further ones that are not among them."""
    return tuple(dict.fromkeys((*measures, *further)))


class ComparisonSettings(NamedTuple):
    """What is asked of a comparison."""

    n_bins: int
    level: float
    tolerance: float | None
    measures: tuple[Measure, ...]
    sort_by: Measure
    own_outcomes: bool = False

    @classmethod
    def of(cls, n_bins: int, level: float, tolerance: float | None, measures: Any, sort_by: Any) -> ComparisonSettings:
        """Return the checked settings."""
        check_bins(n_bins)
        check_level(level)
        check_tolerance(tolerance)
        compared = compared_by(measures)
        decisive = sorting_measure(sort_by, compared)
        return cls(n_bins, float(level), tolerance, _with(compared, decisive), decisive)

    def for_answers(self) -> ComparisonSettings:
        """Return the settings for models with outcomes of their own, which are compared by two measures more."""
        return self._replace(measures=_with(self.measures, AUROC, MEAN_GAP), own_outcomes=True)

    @property
    def differences(self) -> dict[Measure, Difference]:
        """How models are compared by each measure."""
        comparisons = {measure: measure.comparison for measure in self.measures}
        return {measure: each for measure, each in comparisons.items() if isinstance(each, Difference)}


class ReadModel(NamedTuple):
    """What is read of one model: its evaluated events, and the scores of these rows.

    ``own`` says that the outcomes are whether its answers are right.
    """

    name: str
    predictions: Predictions
    notion: Notion
    own: bool
    events: Events
    scores: RowScores

    @classmethod
    def of(cls, name: str, predictions: Predictions, notion: Notion, *, own: bool = False) -> ReadModel:
        """Read the predictions of a model."""
        events = read(predictions, notion, scoring=False).events
        scores = scores_of_rows(predictions)
        own = own and predictions.layout == "binary"
        if own:
            scores = (*scores[:2], events.outcomes == 1)
        return cls(name, predictions, notion, own, events, scores)

    @classmethod
    def read(cls, given: GivenModel, others: Mapping[str, Any], *, own: bool) -> ReadModel:
        """Read what was given of a model; errors have the name of its argument."""
        name, argument, probs, is_logits, targets = given
        try:
            predictions = as_predictions(probs, targets, logits=is_logits, **others)
            return cls.of(name, predictions, resolve(predictions, others["notion"]), own=own)
        except InputError as error:
            places = {"probs": f"{argument}[0]", "targets": f"{argument}[1]"} if own else {"probs": argument}
            raise error.renamed(places) from None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its predictions: the number of rows, and of classes unless there is one event."""
        n, n_classes = self.predictions.n, self.predictions.n_classes
        return (n,) if self.predictions.layout == "binary" else (n, n_classes)

    def take(self, places: NDArray[np.intp]) -> ReadModel:
        """Return what is read of some of the rows."""
        return ReadModel.of(self.name, self.predictions.take(places), self.notion, own=self.own)

    def columns(self) -> list[NDArray[Any]]:
        """Return the numbers of each row that enter sums, for `content_order`."""
        events = self.events
        return [events.scores, events.outcomes, *self.scores[:2], *([] if events.weights is None else [events.weights])]

    def ordered(self, order: NDArray[np.intp] | None = None) -> ModelRows:
        """Return the rows, in this order if there is one."""
        events, (brier, nll, right) = self.events, self.scores
        if order is not None:
            weights = None if events.weights is None else events.weights[order]
            events = Events(events.scores[order], events.outcomes[order], weights)
            brier, nll, right = brier[order], nll[order], right[order]
        classes = 0 if self.predictions.layout == "binary" else self.predictions.n_classes
        return ModelRows.of(events, (brier, nll, right), self.predictions.layout, classes, own=self.own)


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedData:
    """The models that are compared, as tables over the same design.

    Attributes
    ----------
    models : sequence of ComparedModel
        The models: all of independent rows, all of rows in clusters, or all known by sums.
    notion : str
        The evaluated event.
    n_classes : int or None
        The number of classes; None for one event.
    paired : bool or None
        Whether the models have the same rows, or rows of the same clusters. If it is False their rows are independent,
        if it is None it is unknown what they have in common.
    alone : bool
        Whether clusters were given, of one row each.
    flag : str
        A warning about the rows; empty without one.
    groups : mapping
        What returns the models in each group, by its name.
    ordered : bool
        Whether the groups have an order of their own.
    lone_groups : tuple of str
        The groups that at least one sketch lacks.
    order : array, (N,), or None
        The place of each of the models' rows in the data; None for sketches.
    """

    models: Sequence[ComparedModel]
    notion: Notion
    n_classes: int | None
    paired: bool | None
    alone: bool = False
    flag: str = ""
    groups: Mapping[str, Callable[[], ComparedData]] = field(default_factory=dict)
    ordered: bool = False
    lone_groups: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = None

    @cached_property
    def in_buckets(self) -> Mapping[str, ClusterModel]:
        """The models with their common buckets, if all have rows of the same clusters."""
        return with_shared_buckets(self.models) if self.paired else {}

    def pair(self, first: ComparedModel, second: ComparedModel) -> ModelPair:
        """Return two of the models, which know how their differences vary."""
        if isinstance(first, Model) and isinstance(second, Model):
            return RowPair(first, second)
        if self.paired and isinstance(first, ClusterSummed) and isinstance(second, ClusterSummed):
            return pair_of(first, second, self.in_buckets)
        one, other = (model for model in (first, second) if isinstance(model, Summed))
        return SummedPair(one, other, {"rows": [one.means.n, other.means.n]}, independent=self.paired is False)

    def spread(self, measure: Measure, level: float, places: NDArray[np.intp]) -> Spread | None:
        """Return how the values of these models vary together; None where a model has only one outcome.

        The errors that were not seen would then decide, and an accuracy alone has an interval that allows for them.
        """
        models = [self.models[place] for place in places]
        is_accuracy = isinstance(measure.difference, Difference) and measure.difference.mean == "accuracy"
        if not is_accuracy and any(model.event.outcome_rate in (0.0, 1.0) for model in models):
            return None
        return spread_of(measure, in_units(models) if self.paired else models, level, independent=self.paired is False)


def read_rows(
    named: Sequence[GivenModel],
    others: Mapping[str, Any],
    clusters: ArrayLike | None,
    groups: ArrayLike | None,
    settings: ComparisonSettings,
) -> ComparedData:
    """Read models on the same rows."""
    models: list[ReadModel] = []
    own = settings.own_outcomes
    for given in named:
        try:
            models.append(ReadModel.read(given, others, own=own))
        except InputError as error:
            if error.argument == "targets" and not own:  # which may be those of the other model
                check_columns(named, [shape_of(each) for _, _, each, *_ in named])
            raise
        check_columns(named, [model.shape for model in models])
        _check_evaluated(models, given[1])
    first = models[0].predictions
    labels, one_image = cluster_labels(clusters, first)
    flag = "; ".join(filter(None, (ONE_IMAGE * one_image, counted_flag(first, others["weights_are"]))))

    def of_group(places: NDArray[np.intp]) -> ComparedData:
        of_places = None if labels is None else labels.take(places)
        return of_rows([model.take(places) for model in models], of_places, settings)

    parts = [] if groups is None else as_groups(groups, first)
    return replace(
        of_rows(models, labels, settings),
        flag=flag,
        groups={name: partial(of_group, places) for name, places in parts},
        ordered=has_order(groups),
    )


def of_rows(models: Sequence[ReadModel], labels: ClusterLabels | None, settings: ComparisonSettings) -> ComparedData:
    """Return models on the same rows; ``labels`` are the clusters of all rows.

    The rows are put into an order that their content decides, so that every sum has the same bits in any order.
    """
    first = models[0]
    labels = None if labels is None else labels.take(np.flatnonzero(first.predictions.evaluated))
    alone = labels is not None and labels.alone(first.events.weights)
    columns = [column for model in models for column in model.columns()]
    order = content_order(columns if labels is None or alone else [*columns, labels.hashes])
    compared: list[ComparedModel] = []
    for model in models:
        rows = model.ordered(order)
        if labels is None or alone:
            compared.append(Model.of(model.name, rows, settings.n_bins))
        else:
            compared.append(_in_clusters(model.name, rows, labels.take(order), settings.n_bins))
    return ComparedData(
        models=compared,
        notion=first.notion,
        n_classes=None if first.predictions.layout == "binary" else first.predictions.n_classes,
        paired=True,
        alone=alone,
        order=order,
    )


def _in_clusters(name: str, rows: ModelRows, labels: ClusterLabels, n_bins: int) -> Summed:
    """Return a model with sums of its rows over buckets of clusters."""
    events, deciding = rows.events, rows.weighting.deciding_rows
    buckets = BucketSums.of(labels, events.scores, events.outcomes, events.weights, row_scores=rows.scores)
    return summed(name, ReliabilityTable.pool(events), rows.means, buckets, n_bins, deciding, rows)


def summed(
    name: str,
    table: ReliabilityTable,
    means: PredictionMeans,
    buckets: BucketSums | None,
    n_bins: int,
    deciding: float,
    answers: ModelRows | None = None,
) -> Summed:
    """Return a model known by its sums; by those over buckets of clusters if there are any."""
    clusters = None if buckets is None else Clustered.of(Cells.from_table(table), buckets)
    event = Event(table=table, n_bins=n_bins, means=means, clusters=clusters)
    if clusters is None:
        return Summed(name=name, event=event, design=event.design, deciding=deciding)
    return ClusterSummed(name=name, event=event, design=clusters, deciding=deciding, answers=answers)


def _check_evaluated(models: Sequence[ReadModel], argument: str) -> None:
    """Raise for models with targets of their own that are not known for the same rows."""
    first, last = (model.predictions.evaluated for model in (models[0], models[-1]))
    if first is not last and not np.array_equal(first, last):
        row = int(np.argmax(first != last))
        got = f"row {row:,}, which is evaluated for only one of them"
        remedy = "leave such rows out for all models (in the command, with --where)"
        raise InputError(argument, f"the same evaluated rows as {models[0].name!r}", got, remedy)


def check_columns(named: Sequence[tuple[Any, ...]], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise for models of different columns."""
    for (_, argument, *_), shape in zip(named, shapes, strict=False):  # up to the model that could not be read
        if shape and shapes[0] and shape != shapes[0]:
            expected, facts = f"shape {shapes[0]}, like {named[0][1]}", Facts(value=shapes[0], names=(named[0][1],))
            remedy = "pass the same columns for every model"
            raise refuse(argument, Fault.MODEL_SHAPES, expected, f"shape {shape}", remedy, facts)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of an array of any library; nothing where it is not to be seen."""
    shape = getattr(x, "shape", None)
    if shape is None and isinstance(x, (list, tuple)) and x:
        shape = (len(x), *((len(x[0]),) if isinstance(x[0], (list, tuple)) else ()))
    shape = tuple(shape or ())
    return shape[:1] if shape[1:] == (1,) else shape


def read_sketches(
    named: Sequence[Named],
    others: Mapping[str, Any],
    notion: Notion | None,
    settings: ComparisonSettings,
    *,
    paired: bool | None,
    weights_are: WeightsAre | None,
) -> ComparedData:
    """Read models from their sketches, which are of one make and of one evaluated event."""
    (_, _, first), *_ = named
    _check_sketches(named, others, notion, paired=paired)
    sketches: dict[str, CalibrationSketch] = {name: sketch for name, _, sketch in named}
    flags = (counted_flag(sketch, weights_are) for sketch in sketches.values())

    def of_sketches(parts: Mapping[str, CalibrationSketch]) -> ComparedData:
        return ComparedData(
            models=[_of_sketch(name, sketch, settings) for name, sketch in parts.items()],
            notion=first.notion,
            n_classes=first.n_classes,
            paired=paired,
        )

    common = [name for name in first.groups if all(name in sketch.groups for sketch in sketches.values())]
    parts = {name: {model: sketch.groups[name] for model, sketch in sketches.items()} for name in common}
    others_of = {name for sketch in sketches.values() for name in sketch.groups if name not in parts}
    return replace(
        of_sketches(sketches),
        flag=next(filter(None, flags), ""),
        groups={name: partial(of_sketches, part) for name, part in parts.items()},
        lone_groups=tuple(sorted(others_of)),
    )


def _check_sketches(
    named: Sequence[Named], others: Mapping[str, Any], notion: Notion | None, *, paired: bool | None
) -> None:
    """Reject models that are not all sketches of one make, of one evaluated event."""
    (_, _, first), *_ = named
    for _, argument, sketch in named:
        if not isinstance(sketch, CalibrationSketch):
            remedy = "give sketches of all models, or predictions of all"
            expected = "a CalibrationSketch, like the other models"
            raise InputError(argument, expected, f"a {type(sketch).__name__}", remedy)
        with renaming(sketch=argument):
            check_alone(sketch, notion, **others)
        wanted, got = (first.notion, first.n_classes), (sketch.notion, sketch.n_classes)
        if wanted != got:
            kinds = [f"notion {kind!r}" + (f" and {n} classes" if n else "") for kind, n in (wanted, got)]
            expected = f"a sketch with {kinds[0]}, like {named[0][1]}"
            raise InputError(argument, expected, kinds[1], "compare sketches of the same kind")
        if sketch.notion in PER_CLASS:
            remedy = "make one sketch for the column of each class"
            expected = "a sketch with the notion 'positive' or 'top-label'"
            raise InputError(argument, expected, f"a sketch with {sketch.notion!r}", remedy)
        if paired and sketch.buckets is None:
            remedy = "make the sketches with clusters=, or leave paired out"
            raise InputError(
                argument, "a sketch with clusters, because paired=True", "a sketch without clusters", remedy
            )


def _of_sketch(name: str, sketch: CalibrationSketch, settings: ComparisonSettings) -> Summed:
    """Return a model known by its sketch."""
    data = sketch.in_units()
    means, buckets = PredictionMeans.of_sketch(data), data.buckets
    if settings.own_outcomes and data.layout == "binary":
        table = data.table
        masses = np.array([float((table.counts - table.positives).sum()), float(table.positives.sum())])
        means = means.of_answers(masses, table.own_weights.sum(axis=1))
        buckets = None if buckets is None else buckets.of_answers()
    return summed(name, data.table, means, buckets, settings.n_bins, data.totals.deciding_rows)
