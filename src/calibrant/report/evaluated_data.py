"""What is evaluated: tables, bins and means of predictions, of a table or of a sketch, from one read."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.inputs.conversion import widened
from calibrant.inputs.group_rows import as_groups, as_subgroups, check_subgroups, has_order, subgroup_name
from calibrant.inputs.notions import (
    NOTIONS,
    PER_CLASS,
    Events,
    Reading,
    class_events,
    class_rows,
    read,
    read_squared,
    resolve,
)
from calibrant.inputs.predictions import SURE, Layout, Notion, Predictions, as_predictions, in_unit_interval
from calibrant.inputs.weights import (
    WEIGHTS_ARE,
    WeightsAre,
    deciding_rows,
    effective_rows,
    integer_weights,
    may_be_sampling,
)
from calibrant.kernels.compensated import total_of
from calibrant.kernels.compiling import of_input
from calibrant.kernels.row_blocks import Rows
from calibrant.measures.binned import binned
from calibrant.measures.binned.certified import ece_bound
from calibrant.measures.means.means import BaseRates, OrderedMeans, PredictionMeans, counted_rows, heavy
from calibrant.measures.read_arguments import ClassHistograms, table_histograms
from calibrant.results import Choices
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch, PredictedGroups, check_alone
from calibrant.statistics.class_rows import ClassRows
from calibrant.table import GridCells, ReliabilityTable, cell_sums
from calibrant.table.cluster_labels import ClusterLabels
from calibrant.table.cluster_sums import BucketSums, ClusterSums, labels_of
from calibrant.table.reliability_table import table_in_units

#: The most classes of rows that are evaluated by default: each costs about 0.1 ms.
MOST_CLASSES: Final = 10_000

ONE_IMAGE: Final = "rows of one image are assumed to be independent, so intervals may be too short"
UNIT_LOGITS: Final = "logits: expected logits of one event, got values that all lie in [0, 1]"
_HOLDS: Final = {ReliabilityTable: "the table", CalibrationSketch: "the sketch"}


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatedData:
    """The data that a report is computed from.

    Attributes
    ----------
    notion : str
        The evaluated event.
    means : PredictionMeans
        The means over whole predictions.
    event : ReliabilityTable or None
        The table of the evaluated event; if every class is evaluated alone, of what is behind the means, where it is
        known: of the top label, or of all labels together.
    tables : sequence of ReliabilityTable
        The table of the evaluated event; or one table for each class, if every class is evaluated alone.
    n_classes : int or None
        The number of classes or labels; None for one event.
    names : tuple of str or None
        The names of the classes.
    histograms : ClassHistograms or None
        The bins of every class, if classes are evaluated in addition to the event.
    class_bound : float
        The certified error of the mean of the classes' errors.
    class_rows : ClassRows or None
        The rows of the classes, of predictions.
    predictions : Predictions or None
        The predictions; None for a table and a sketch.
    labels : ClusterLabels or None
        The clusters of all rows, of predictions; None for none.
    clusters : ClusterSums or None
        The sums of the rows over buckets of clusters; None if rows are independent.
    class_tables : sequence of ReliabilityTable
        The tables of the classes on a grid, if there are ``clusters`` and classes.
    no_classes : str
        Why the columns of the predictions are not classes; empty if they are.
    alone : bool
        Whether clusters were given, of one row each: the rows are independent.
    deciding : float
        How many rows decide a variance by their weights; infinite if weights are whole numbers.
    one_image : bool
        Whether the rows are those of one image, which are assumed to be independent.
    counted : tuple of float or None
        The rows, and what their whole weights add up to, if the weights may be sampling weights and nothing was said.
    choices : Choices
        What was passed, for the paragraph of methods.
    numbers : int
        How many numbers were read, of predictions: they decide which kernels compute the rest.
    groups : mapping
        The data of each group by its name; empty without groups.
    ordered : bool
        Whether the groups have an order of their own.
    columns : mapping
        Of marginal subgroups, the column of each group by its name; empty if a row is in one group alone.
    ordered_columns : frozenset of str
        The columns whose groups have an order of their own.
    """

    notion: Notion
    means: PredictionMeans
    tables: Sequence[ReliabilityTable]
    event: ReliabilityTable | None = None
    n_classes: int | None = None
    names: tuple[str, ...] | None = None
    histograms: ClassHistograms | None = None
    class_bound: float = 0.0
    class_rows: ClassRows | None = None
    predictions: Predictions | None = None
    labels: ClusterLabels | None = None
    clusters: ClusterSums | None = None
    class_tables: Sequence[ReliabilityTable] = ()
    no_classes: str = ""
    alone: bool = False
    deciding: float = math.inf
    one_image: bool = False
    counted: tuple[int, float] | None = None
    choices: Choices = field(default_factory=Choices)
    numbers: int = 0
    groups: Mapping[str, EvaluatedData] = field(default_factory=dict)
    ordered: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    ordered_columns: frozenset[str] = frozenset()

    @property
    def flag(self) -> str:
        """A warning about the rows; empty without one."""
        return "; ".join(filter(None, (heavy(self.deciding), ONE_IMAGE * self.one_image)))

    def doubted_as(self, data: EvaluatedData) -> EvaluatedData:
        """Return these data with the warning about the rows that others have."""
        return replace(self, deciding=data.deciding, one_image=data.one_image)

    @property
    def one_cluster(self) -> bool:
        """Whether all rows are of one cluster."""
        return self.clusters is not None and int(np.count_nonzero(self.clusters.event.rows)) < 2


def of_arguments(
    probs: PredictedGroups,
    targets: ArrayLike | None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    n_bins: int = 15,
    classwise: bool | None = False,
    ordered: bool = False,
    subgroups: Mapping[str, Any] | None = None,
) -> EvaluatedData:
    """Return the data of the arguments of `evaluate`, `recalibrate` and others, which call this, with their groups.

    ``subgroups`` are the names of the groups of several columns; with a sketch, the sketches of these groups.
    """
    others: dict[str, Any] = {"weights": weights, "ignore_index": ignore_index, "class_names": class_names}
    if isinstance(probs, Mapping) and any(isinstance(value, CalibrationSketch) for value in probs.values()):
        probs = CalibrationSketch.of_groups(probs)
    _check_ordered(ordered, probs)
    if isinstance(probs, (ReliabilityTable, CalibrationSketch)):
        passed = {"targets": targets, **others, "logits": logits or None, "groups": groups, "clusters": clusters}
        data = _of_sums(probs, passed, notion, n_bins, classwise=classwise)
        if subgroups is not None:
            data = _with_subgroups(data, probs, subgroups, n_bins, classwise=classwise)
        if weights_are is not None:
            _check_weights_are(weights_are, data)
    else:
        if targets is None and isinstance(probs, (str, os.PathLike)):
            remedy = "read the file first, such as with pandas, or pass the file to the command calibrant"
            raise InputError("probs", "an array", f"a {type(probs).__name__}", remedy)
        if targets is None:
            remedy = "pass the labels; without labels, probs must be a ReliabilityTable or a CalibrationSketch"
            raise InputError("targets", "an array", "None", remedy)
        predictions = as_predictions(probs, targets, **others, logits=logits, notion=notion, weights_are=weights_are)
        if predictions.logits and predictions.layout == "binary" and predictions.n >= SURE:
            rows = predictions.rows
            if in_unit_interval((widened(rows.values) if rows.bfloat16 else rows.values).reshape(-1)):
                # At the line that called the function of the package.
                warnings.warn(f"{UNIT_LOGITS}; if they are probabilities, leave logits out", stacklevel=3)
        labels, one_image = cluster_labels(clusters, predictions)
        event = resolve(predictions, notion)
        if ordered:
            predictions = _of_levels(predictions)
        options = {"classwise": classwise, "ordered": ordered}
        named = groups if subgroups is None else subgroups
        data = _of_predictions(predictions, event, named, labels, n_bins, **options)
        data = replace(data, one_image=one_image)
    if weights_are is None:
        return data
    return replace(data, counted=None, groups={name: replace(one, counted=None) for name, one in data.groups.items()})


def _check_ordered(ordered: object, probs: object) -> None:
    """Reject what is not a truth value, and ordered levels of sums."""
    if not isinstance(ordered, (bool, np.bool_)):
        raise InputError("ordered", "True or False", repr(ordered), "pass True if the columns are ordered levels")
    if ordered and isinstance(probs, (ReliabilityTable, CalibrationSketch)):
        expected = f"False for a {type(probs).__name__}, which does not keep the probabilities of a row together"
        raise InputError("ordered", expected, "True", "leave it out, or pass the rows of predictions")


def _of_levels(predictions: Predictions) -> Predictions:
    """Return predictions of ordered levels in host memory; reject others."""
    if predictions.layout == "multiclass":
        return predictions.on_host()
    if predictions.layout == "binary":
        expected = "False for one event, because an order needs the probabilities of several levels"
    else:
        expected = "False for multilabel predictions, because their labels do not exclude each other"
    raise InputError("ordered", expected, "True", "leave it out")


def cluster_labels(clusters: ArrayLike | None, predictions: Predictions) -> tuple[ClusterLabels | None, bool]:
    """Return the cluster of each row, None for none, and whether the rows are of one image, taken as independent.

    The clusters are as given, or of predictions (N, C, ...) the first axis.
    """
    n, each = predictions.n, predictions.rows.depth
    if clusters is None and n == each > 1:
        return None, True
    if clusters is False or (clusters is None and each == 1):
        return None, False
    return labels_of(np.arange(n // each) if clusters is None else clusters, predictions), False


# ---------------------------------------------------------------- tables and sketches


def _of_sums(
    sums: ReliabilityTable | CalibrationSketch,
    others: Mapping[str, Any],
    notion: Notion | None,
    n_bins: int,
    *,
    classwise: bool | None,
) -> EvaluatedData:
    """Return the data of a table or a sketch; no ``others`` may be passed next to them."""
    for name, value in others.items():
        if value is not None:
            expected = f"no value with a {type(sums).__name__}"
            remedy = f"leave it out, because {_HOLDS[type(sums)]} contains all data"
            raise InputError(name, expected, "a value", remedy)
    if isinstance(sums, ReliabilityTable):
        return of_table(sums, notion)
    check_alone(sums, notion)
    groups = {name: _of_sketch(group, n_bins, classwise=classwise) for name, group in sums.groups.items()}
    return replace(_of_sketch(sums, n_bins, classwise=classwise), groups=groups)


def _with_subgroups(
    data: EvaluatedData,
    whole: ReliabilityTable | CalibrationSketch,
    subgroups: Mapping[str, Any],
    n_bins: int,
    *,
    classwise: bool | None,
) -> EvaluatedData:
    """Return the data of a sketch with those of the groups of each column, which are sketches of the same rows."""
    groups: dict[str, EvaluatedData] = {}
    names: list[str] = []
    columns: dict[str, str] = {}
    for column, sketches in subgroups.items():
        if not isinstance(whole, CalibrationSketch) or not isinstance(sketches, Mapping):
            expected = "a sketch as probs, and a mapping from each column to the sketches of its groups"
            remedy = "pass groups={'column': {'name': sketch, ...}}, or pass rows as probs"
            raise InputError("groups", expected, f"a {type(sketches).__name__} for {column!r}", remedy)
        total = CalibrationSketch.of_groups(sketches)
        makes = [(each.notion or "positive", each.grid, each.n_classes, each.n) for each in (whole, total)]
        if makes[0] != makes[1]:
            expected = f"for each column of groups, sketches of the same {whole.n:,} rows"
            got = f"other sketches for {column!r} ({total.n:,} rows)"
            raise InputError("groups", expected, got, "pass the sketches of all groups of this column")
        for name, sketch in total.groups.items():
            names.append(subgroup_name(column, name))
            columns[names[-1]] = str(column)
            groups[names[-1]] = _of_sketch(sketch, n_bins, classwise=classwise)
    check_subgroups(names)
    return replace(data, groups=groups, columns=columns)


def _check_weights_are(weights_are: WeightsAre, data: EvaluatedData) -> None:
    """Reject what is said of the weights behind a table or a sketch, if its sums are of others."""
    check_choice("weights_are", weights_are, WEIGHTS_ARE)
    if weights_are == "sampling" and (data.counted is not None or data.choices.weights == "integer"):
        expected = "'frequency' for a table or sketch with weights that are whole numbers"
        remedy = "pass the rows, or make the sketch with weights_are='sampling' (--weights-are sampling)"
        raise InputError("weights_are", expected, "'sampling'", remedy)


def of_table(table: ReliabilityTable, notion: Notion | None) -> EvaluatedData:
    """Return what is evaluated of a table.

    Raises
    ------
    InputError
        As `check_table`.
    """
    table, notion = check_table(table, notion)
    means = PredictionMeans.of_table(table, right=notion == "top-label")
    choices = Choices(data="table", weights=_weights_of(table))
    return EvaluatedData(notion=notion, means=means, tables=[table], choices=choices)


def check_table(table: ReliabilityTable, notion: Notion | None) -> tuple[ReliabilityTable, Notion]:
    """Return a table in units, and its event.

    Raises
    ------
    InputError
        For the notions "classwise" and "multilabel", and for an empty table.
    """
    if notion is not None:
        check_choice("notion", notion, NOTIONS)
    if notion in PER_CLASS:
        remedy = "a table contains only one event"
        raise InputError("notion", "'positive' or 'top-label' for a table", repr(notion), remedy)
    if len(table) == 0:
        raise InputError("probs", "a table with at least one row", "an empty table", "check where the rows were lost")
    return table_in_units(table), notion or "positive"


def _weights_of(table: ReliabilityTable) -> Literal["integer", "fractional"] | None:
    """Return the kind of a table's weights; None if they add up to the number of its rows."""
    if not table.whole:
        return "fractional"
    return None if table.total == table.n else "integer"


def _of_sketch(sketch: CalibrationSketch, n_bins: int, *, classwise: bool | None) -> EvaluatedData:
    """Return what is evaluated of a sketch; with ``classwise`` also its classes, if it holds them."""
    sketch = sketch.in_units()
    means, notion = PredictionMeans.of_sketch(sketch), sketch.notion or "positive"
    data = EvaluatedData(
        notion=notion,
        means=means,
        tables=(),
        n_classes=sketch.n_classes,
        names=sketch.class_names,
        deciding=sketch.totals.deciding_rows,
        counted=_counted_of_sketch(sketch),
        choices=Choices(data="sketch", rounded=int(sketch.totals.rounded)),
    )
    if notion in PER_CLASS:
        return replace(data, tables=sketch.class_tables)
    data = replace(data, choices=replace(data.choices, weights=_weights_of(sketch.table)))
    data = _by_cluster(replace(data, tables=[sketch.table], clusters=sketch.clusters), sketch.layout)
    if classwise is False or not sketch.has_classes:
        return data
    tables = sketch.class_tables
    bounds = [ece_bound(cells, n_bins) for cells in map(GridCells.of, tables) if cells is not None]
    histograms = replace(table_histograms(tables, n_bins), totals=sketch.table.total)
    return replace(data, histograms=histograms, class_bound=float(np.mean(bounds)), class_tables=tables)


# ---------------------------------------------------------------- predictions


def _of_predictions(
    predictions: Predictions,
    notion: Notion,
    groups: ArrayLike | Mapping[str, ArrayLike] | None,
    labels: ClusterLabels | None,
    n_bins: int,
    **options: bool | None,
) -> EvaluatedData:
    """Return the data of predictions, with those of each group, or of the groups of each column of a mapping.

    Options as in `_of_rows`.
    """
    subgroups = as_subgroups(groups, predictions) if isinstance(groups, Mapping) else []
    parts = [(subgroup.name, subgroup.rows) for subgroup in subgroups]
    if groups is not None and not subgroups:
        parts = as_groups(cast("ArrayLike", groups), predictions, complete=True)

    def data_of(rows: Predictions, of_rows: ClusterLabels | None) -> EvaluatedData:
        data = _of_rows(rows, of_rows, notion, n_bins, **options)
        return replace(data, predictions=rows, labels=of_rows)

    data = data_of(predictions, labels)  # first: its errors name the caller's rows
    by_group = {
        name: data_of(predictions.take(places), None if labels is None else labels.take(places))
        for name, places in parts
    }
    if not isinstance(groups, Mapping):
        return replace(data, groups=by_group, ordered=has_order(groups))
    ordered = frozenset(str(column) for column, values in groups.items() if has_order(values))
    return replace(
        data,
        groups=by_group,
        columns={subgroup.name: subgroup.column for subgroup in subgroups},
        ordered_columns=ordered,
    )


def are_evaluated(classwise: bool | None, n_classes: int) -> bool:
    """Whether every class of rows is evaluated: as asked, by default up to `MOST_CLASSES`."""
    return n_classes <= MOST_CLASSES if classwise is None else classwise


def data_of_levels(data: EvaluatedData, n_bins: int) -> dict[str, EvaluatedData]:
    """Return the data of the events that the level is at least one of the levels but the lowest, by this level.

    The probability is the sum of the probabilities from this level on, divided by the sum of the row.
    """
    if data.predictions is None:
        return {}
    rows, labels = np.flatnonzero(data.predictions.evaluated), data.labels
    predictions, labels = data.predictions.take(rows), None if labels is None else labels.take(rows)
    probs, levels, weights = class_rows(predictions, 0, len(rows))
    from_on = np.cumsum(probs[:, ::-1], axis=1)[:, ::-1]
    scores, events = from_on[:, 1:] / from_on[:, :1], {}
    for k, name in enumerate(data.names or map(str, range(predictions.n_classes))):
        if k == 0:
            continue
        event = replace(
            predictions,
            rows=Rows(np.ascontiguousarray(scores[:, k - 1]).reshape(-1, 1, 1)),
            labels=(levels >= k).astype(np.uint8),
            weights=weights,
            layout="binary",
            logits=False,
            class_names=None,
        )
        events[name] = replace(_of_rows(event, labels, "positive", n_bins), choices=data.choices)
    return events


def _of_rows(
    predictions: Predictions,
    labels: ClusterLabels | None,
    notion: Notion,
    n_bins: int,
    *,
    classwise: bool | None = False,
    ordered: bool | None = False,
) -> EvaluatedData:
    """Return what is evaluated of rows, from one read of them."""
    layout, per_class = predictions.layout, notion in PER_CLASS
    every_class = layout == "multiclass" and are_evaluated(classwise, predictions.n_classes) and notion != "classwise"
    several = every_class or per_class
    uppers = None
    if several and layout == "multiclass":
        uppers = binned.largest_members(binned.uniform_edges(n_bins), "right", predictions.rows.dtype)
    histogram_uppers = uppers if every_class else None
    reading = read(predictions, notion, uppers=histogram_uppers)
    n, weights = _independent_rows(predictions, reading)
    squared = None if integer_weights(weights) else read_squared(predictions, notion, uppers=histogram_uppers)
    numbers = predictions.n * predictions.rows.width
    with of_input(numbers):
        event = ReliabilityTable.pool(reading.events)
        tables = [ReliabilityTable.pool(events) for events, _ in class_events(predictions)] if per_class else [event]
        total = event.total
    histograms = None
    if every_class:
        squares = None if squared is None else squared.histograms
        histograms = ClassHistograms(sums=reading.histograms, totals=total, squares=squares)
    data = EvaluatedData(
        notion=notion,
        means=PredictionMeans.of_scores(
            reading.means,
            (squared or reading).means,
            effective_n=effective_rows(weights, n),
            n=n,
            layout=layout,
            base_rates=BaseRates.of_predictions(predictions, notion, tables),
            ordered=OrderedMeans.of(predictions, labels) if ordered else None,
        ),
        tables=tables,
        event=event,
        n_classes=None if layout == "binary" else predictions.n_classes,
        names=predictions.class_names,
        histograms=histograms,
        class_rows=None if uppers is None else ClassRows(predictions, uppers),
        deciding=math.inf if integer_weights(weights) else deciding_rows(_power(weights, 2), _power(weights, 4)),
        counted=_counted(n, weights),
        choices=_choices(predictions, n),
        numbers=numbers,
    )
    return _in_clusters(data, predictions, reading, labels, several=several)


def _independent_rows(predictions: Predictions, reading: Reading) -> tuple[int, NDArray[np.float64] | None]:
    """Return the number of rows and their weights; several labels of a row are dependent."""
    if predictions.layout != "multilabel":
        return reading.n, reading.events.weights
    rows = predictions.evaluated
    return int(np.count_nonzero(rows)), None if predictions.weights is None else predictions.weights[rows]


def _in_clusters(
    data: EvaluatedData, predictions: Predictions, reading: Reading, labels: ClusterLabels | None, *, several: bool
) -> EvaluatedData:
    """Return the same with sums of the rows over clusters, if any; ``several`` says that classes are evaluated."""
    if labels is None:
        return data
    _, weights = _independent_rows(predictions, reading)
    if labels.take(np.flatnonzero(predictions.evaluated)).alone(weights):
        return replace(data, alone=True)
    sums = ClusterSums.of(predictions, reading.events, labels, classes=several, count=True)
    class_tables = [_class_table(events) for events, _ in class_events(predictions)] if several else ()
    return _by_cluster(replace(data, clusters=sums, class_tables=class_tables), predictions.layout)


def _choices(predictions: Predictions, n: int) -> Choices:
    """Return what was passed, and how many rows were left out if n of them are evaluated."""
    weights, lost = predictions.weights, predictions.n - n
    ignored = lost
    if lost and weights is not None:
        ignored = int(np.count_nonzero((predictions.labels < 0).reshape(predictions.n, -1).all(axis=1)))
    return Choices(
        logits=bool(predictions.logits),
        weights=None if weights is None else "integer" if integer_weights(weights) else "fractional",
        ignored=ignored,
        weightless=lost - ignored,
        rounded=predictions.rounded,
    )


def _by_cluster(data: EvaluatedData, layout: Layout | None) -> EvaluatedData:
    """Return what is evaluated with the weight of each kind of outcome in each bucket, where it is known."""
    rates, clusters = data.means.base_rates, data.clusters
    if rates is None or clusters is None:
        return data
    parts: Sequence[BucketSums] = clusters.classes
    if layout == "binary":
        parts = [clusters.event] if data.notion == "positive" else []
    places = [place for part in parts if (place := _places(clusters.event, part)) is not None]
    happened = [part.y.sum(axis=1) for part in parts]
    columns = happened
    if layout != "multiclass":
        columns = [x for part, y in zip(parts, happened, strict=True) for x in (part.weight - y, y)]
    alike = len(places) == len(parts) and all(np.array_equal(place, places[0]) for place in places)
    if len(columns) != len(rates.losses) or not alike:
        return data
    rates = replace(rates, buckets=np.stack(columns, axis=1), places=places[0])
    return replace(data, means=replace(data.means, base_rates=rates))


def _places(event: BucketSums, part: BucketSums) -> NDArray[np.intp] | None:
    """Return the bucket of a part of the same clusters for each bucket of the event; None if they differ."""
    number = part.cells.n_buckets
    if part.hashes is not None:
        alike = event.hashes is not None and np.array_equal(part.hashes, event.hashes)
        return np.arange(event.n_buckets) if alike else None
    hashes = np.arange(event.n_buckets, dtype=np.uint64) if event.hashes is None else event.hashes
    return (hashes % np.uint64(number)).astype(np.intp)


def _counted(n: int, weights: NDArray[np.float64] | None) -> tuple[int, float] | None:
    """Return n rows and what their weights add up to, if these are whole and may be sampling weights."""
    if weights is None or not integer_weights(weights):
        return None
    weight = total_of(weights)
    return (n, weight) if may_be_sampling(n, weight, _power(weights, 2)) else None


def _counted_of_sketch(sketch: CalibrationSketch) -> tuple[int, float] | None:
    totals = sketch.totals
    doubtful = totals.whole and may_be_sampling(totals.n, totals.weight, totals.square_weight)
    return (totals.n, totals.weight) if doubtful else None


def counted_flag(data: Predictions | CalibrationSketch, weights_are: WeightsAre | None) -> str:
    """Return a warning if whole weights may be sampling weights and nothing was said of them."""
    if weights_are is not None:
        return ""
    if isinstance(data, CalibrationSketch):
        counted = _counted_of_sketch(data)
    else:
        rows = data.evaluated
        counted = _counted(int(np.count_nonzero(rows)), None if data.weights is None else data.weights[rows])
    return "" if counted is None else counted_rows(*counted)


def _power(weights: Any, power: int) -> float:
    return total_of(weights**power)


def _class_table(events: Events) -> ReliabilityTable:
    """Return the evaluated rows of one class on the standard grid."""
    sums, whole_weights = cell_sums(events, "standard"), integer_weights(events.weights)
    counts = sums[:, :2].astype(np.int64) if events.weights is None else sums[:, :2]
    squares = None if whole_weights else sums[:, 5:]
    return ReliabilityTable.of_cells(counts, sums[:, 2:5], squares, n=len(events.scores), grid="standard")
