"""A map of the probabilities of all classes: its choice, its proof, the reports before and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.predictions import Predictions
from calibrant.inputs.weights import effective_rows, integer_weights
from calibrant.kernels.row_blocks import in_order
from calibrant.measures.listed import selected
from calibrant.recalibration.choice import Choice, FitOptions, Procedure
from calibrant.recalibration.events import LEAST_ROWS, by_group, fitted_to, map_event, not_below_floor
from calibrant.recalibration.families import Family
from calibrant.recalibration.maps import CalibrationMap
from calibrant.recalibration.pieces import CLIP
from calibrant.recalibration.proof import MeanGain, Moments, few_errors, gain_of
from calibrant.recalibration.recalibrations import Recalibration, with_evidence
from calibrant.recalibration.scored_rows import half_a_row
from calibrant.recalibration.softmax import (
    CLASS_CANDIDATES,
    CLASS_CLIPPED,
    CLASS_IDENTITY,
    CLASS_TEMPERATURE,
    MATRIX,
    MOST_CLASSES,
    ROWS_OF_CLASS,
    VECTOR,
    LogRows,
    Softmax,
    SoftmaxRows,
    check_temperature,
    is_flat,
    log_softmax,
    prepared,
)
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.report.evaluation import ReportSettings, report_on
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.design import MINORITY
from calibrant.statistics.folds import DealtRows
from calibrant.table.cluster_labels import ClusterLabels, mix64

#: The measures that are shown before and after.
MEASURES: Final = ("nll", "brier", "accuracy", "ece", "classwise_ece", "smece", "miscalibration", "mean_gap")

Result = TypeVar("Result")

_FLAT: Final = (
    "classes are not more frequent where their probabilities are higher (slope 0 of temperature scaling); check that "
    "the columns are in the order of the classes"
)
_SMALLEST: Final = (1e-10, CLIP)  # limits of small probabilities
_KEYED: Final = 8  # columns that decide the order of rows
_GOLDEN: Final = 0.6180339887498949  # its multiples are far from fractions, so that keys differ
_ENTRIES: Final = 1 << 20  # of a block of rows
_MOST_OF_MATRIX: Final = 1_500  # classes; the JSON of larger matrices has more than 64 MB


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The evaluated rows in an order that their numbers alone decide.

    Attributes
    ----------
    values : (N, C)
        The probabilities, or the logits.
    logits : bool
        Which of the two.
    log : LogRows
        Their logarithms.
    classes : (N,)
        The class of each row.
    """

    values: Floats
    logits: bool
    log: LogRows
    classes: NDArray[np.intp]

    def losses(self, score: str, fitted: Softmax | None = None, places: NDArray[np.intp] | None = None) -> Float64s:
        """Return the loss of all or some rows, mapped or unchanged.

        The log loss of an unchanged row is infinite if its class has probability 0.
        """

        def of(part: slice | NDArray[np.intp]) -> Float64s:
            return _losses(self._log_p(fitted, part), self.classes[part], score)

        return np.concatenate([np.empty(0), *self._by_block(of, places)])

    def moments(self, score: str, before: Softmax | None, after: Softmax, places: NDArray[np.intp]) -> Float64s:
        """Return the moments of the gain of some rows that their probabilities imply, (3, n)."""

        def of(part: slice | NDArray[np.intp]) -> Float64s:
            log_p, log_q = self._log_p(before, part), self._log_p(after, part)
            p = np.exp(log_p)
            with np.errstate(invalid="ignore"):
                gains = log_q - log_p if score == "log" else 2 * (np.exp(log_q) - p)
            return Moments.of_classes(p, np.where(p > 0, gains, 0.0))

        return np.concatenate([np.empty((3, 0)), *self._by_block(of, places)], axis=1)

    def mapped(self, fitted: Softmax, places: NDArray[np.intp] | None = None) -> Floats:
        """Return the mapped probabilities of all or some rows, in the type of the numbers."""

        def of(part: slice | NDArray[np.intp]) -> Floats:
            return np.exp(self._log_p(fitted, part)).astype(self.values.dtype)

        return np.concatenate([self.values[:0], *self._by_block(of, places)])

    def _log_p(self, fitted: Softmax | None, part: slice | NDArray[np.intp]) -> Float64s:
        """Return log-probabilities, mapped or unchanged: then no zero is moved."""
        if fitted is not None and not fitted.unchanged:
            return fitted.log_probabilities(self.log.part(part))
        values = self.values[part].astype(np.float64)
        if self.logits:
            return log_softmax(values)
        with np.errstate(divide="ignore"):
            return np.log(values)

    def _by_block(
        self, work: Callable[[slice | NDArray[np.intp]], Result], places: NDArray[np.intp] | None
    ) -> Iterator[Result]:
        """Yield what ``work`` returns for blocks of all or some rows."""
        n, n_classes = self.values.shape
        step = max(1, _ENTRIES // n_classes)

        def of_block(i: int) -> Result:
            part = slice(i * step, (i + 1) * step)
            return work(part if places is None else places[part])

        return in_order(of_block, -(-(n if places is None else len(places)) // step))


def _losses(log_p: Float64s, classes: NDArray[np.intp], score: str) -> Float64s:
    """Return the log loss, or the Brier score, of rows."""
    places = np.arange(len(classes))
    if score == "log":
        return np.asarray(-log_p[places, classes])
    p = np.exp(log_p)
    own = p[places, classes]
    return np.asarray(np.einsum("ij,ij->i", p, p) - 2 * own + 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassProcedure(Procedure[DealtRows]):
    """The procedure for rows of classes.

    Attributes
    ----------
    data : LabelledRows
        The rows.
    share : float
        The effective number of rows over their weight.
    starts : dict
        The maps of all rows by their families, where the fits of fewer rows start.
    """

    data: LabelledRows
    share: float
    starts: dict[str, Softmax]

    def source(self, rows: DealtRows) -> SoftmaxRows:
        return SoftmaxRows(self.data.log, self.data.classes, rows.weights * self.share, self.prior_rows)

    def fit(self, family: Family, source: SoftmaxRows) -> Softmax:
        fitted: Softmax = family.fit(source._replace(start=self.starts.get(family.name)))
        return fitted

    def losses(self, rows: DealtRows, maps: Mapping[int, Softmax], score: str = "log") -> Float64s:
        """Return the loss of each row in each fold, (F, N), by the map of the fold; 0 where the fold has none of it."""
        losses = np.zeros(rows.masses.shape)
        for place, fold in enumerate(rows.folds.tolist()):
            held = np.flatnonzero(rows.masses[place])
            losses[place, held] = self.data.losses(score, maps[fold], held)
        return losses

    def mean_gain(
        self,
        rows: DealtRows,
        gains: Float64s,
        before: Mapping[int, Softmax | None],
        after: Mapping[int, Softmax],
        score: str = "log",
    ) -> MeanGain:
        moments = np.zeros((3, *rows.masses.shape))
        for place, fold in enumerate(rows.folds.tolist()):
            held = np.flatnonzero(rows.masses[place])
            moments[:, place, held] = self.data.moments(score, before[fold], after[fold], held)
        return MeanGain.of(rows, gains, Moments(*moments))


def of_classes(data: EvaluatedData, asked: FitOptions) -> Recalibration:
    """Return the recalibration of the probabilities of all classes."""
    predictions = cast("Predictions", data.predictions).on_host()
    data = replace(data, predictions=predictions)
    if asked.family is MATRIX and predictions.n_classes > _MOST_OF_MATRIX:
        limit, got = f"up to {_MOST_OF_MATRIX:,} classes for matrix scaling", f"{predictions.n_classes:,}"
        raise InputError("method", limit, got, "use vector scaling, which has one factor for each class")
    rows, classes = _rows_of(predictions, None if data.alone else data.labels)
    effective = effective_rows(rows.weights, len(rows.units))
    share = effective / rows.total
    rarer = _rarer(np.bincount(classes.classes, rows.weights).astype(np.float64) * share)
    log_loss = classes.losses("log")
    certain = math.isinf(rows.mean(log_loss))
    candidates = _candidates(effective, predictions.n_classes, certain=certain)
    procedure = ClassProcedure(
        candidates=candidates if asked.family is None else (asked.family,),
        prior_rows=asked.prior_rows,
        rows=effective,
        seed=asked.resampling.seed,
        data=classes,
        share=share,
        starts={},
    )
    procedure, flat = _started(_with_smallest(procedure, rows), rows, asked.family)
    classes = procedure.data
    choice = procedure.choose(rows)
    fitted = procedure.starts[choice.family.name]
    if choice.family is CLASS_TEMPERATURE:
        check_temperature(fitted)
    fitted = fitted.shrunk(choice.shrinkage)
    # No change gains nothing, whatever the choice without a fold would be.
    remains = choice.family is CLASS_IDENTITY
    folds, maps = (rows, {0: fitted}) if remains else procedure.evaluated(rows)
    score, before_loss, start = _unchanged(procedure, rows, choice, log_loss, certain=certain)
    inside, outside = before_loss - classes.losses(score, fitted), before_loss - procedure.losses(folds, maps, score)
    gain = gain_of(
        procedure.mean_gain(folds, outside, dict.fromkeys(maps, start), maps, score),
        procedure.mean_gain(rows, inside, {0: start}, {0: fitted}, score),
        score,
        asked.resampling.level,
    )
    measures = [name for name in MEASURES if name != "classwise_ece" or data.class_rows is not None]
    settings = ReportSettings(n_bins=15, **selected(measures, None)._asdict(), resampling=asked.resampling)
    before = report_on(data, settings).report
    after = before
    if not remains:
        after = not_below_floor(report_on(_recalibrated(data, classes, folds, maps), settings).report)
    expected = effective - float(np.sum(rows.weights * np.exp(classes.log.largest - classes.log.shifts))) * share
    few = "" if rarer >= MINORITY else f"{rarer:.4g} rows outside the most frequent class"
    fitted_map = CalibrationMap(
        kind="softmax",
        parameters={
            "factors": fitted.factors.tolist(),
            "constants": fitted.constants.tolist(),
            "smallest": fitted.smallest,
        },
        event=map_event("classes", data.names),
        fitted=fitted_to(data.tables[0], clustered=data.clusters is not None),
    )
    return with_evidence(
        Recalibration(
            map=fitted_map,
            method=asked.method,
            chosen=choice.family.name,
            runner_up=choice.runner_up,
            losses={name: (loss, choice.errors[name]) for name, loss in choice.losses.items()},
            shrinkage=choice.shrinkage,
            gain=gain,
            before=before,
            after=after,
            by_group=by_group(partial(_mapped, fitted=fitted), data, settings),
            expected_errors=expected,
            flag="; ".join(filter(None, (few, few_errors(expected), _FLAT if flat else ""))),
        )
    )


def _started(procedure: ClassProcedure, rows: DealtRows, family: Family | None) -> tuple[ClassProcedure, bool]:
    """Return the procedure with its families fitted to all rows, without a temperature that is flat; and if it is."""
    for each in procedure.candidates:
        procedure.starts[each.name] = procedure.fit(each, procedure.source(rows))
    if family is not None or not is_flat(procedure.starts[CLASS_TEMPERATURE.name]):
        return procedure, False
    rest = [each for each in procedure.candidates if each is not CLASS_TEMPERATURE]
    return replace(procedure, candidates=rest), True


def _unchanged(
    procedure: ClassProcedure, rows: DealtRows, choice: Choice, log_loss: Float64s, *, certain: bool
) -> tuple[str, Any, Any]:
    """Return the score of the gain, and the losses and the map that the chosen map is compared with.

    If a class of probability 0 occurred, the log loss is infinite; that of clipped probabilities is finite.
    """
    if not certain:
        return "log", log_loss, None
    if choice.family.nearly_unchanged:
        return "brier", procedure.data.losses("brier"), None
    start = procedure.fit(CLASS_CLIPPED, procedure.source(rows))
    return "log", procedure.data.losses("log", start), start


def _candidates(rows: float, n_classes: int, *, certain: bool) -> tuple[Family, ...]:
    """Return the candidates of "auto"; probabilities of 0 that were wrong cannot remain."""
    _, *others = CLASS_CANDIDATES
    if n_classes > MOST_CLASSES or rows < ROWS_OF_CLASS * n_classes:
        others.remove(MATRIX)
    if n_classes > evaluated_data.MOST_CLASSES:  # two parameters for each class, and rarely a row for each
        others.remove(VECTOR)
    return (CLASS_CLIPPED if certain else CLASS_IDENTITY, *others)


def _rarer(weights: Float64s) -> float:
    """Return the rows outside the most frequent class, from those of each class."""
    rarer = float(weights.sum() - weights.max())
    if rarer < LEAST_ROWS:
        expected = f"at least {LEAST_ROWS} rows outside the most frequent class"
        raise InputError("targets", expected, f"{rarer:g}", "pass more rows")
    return rarer


def _rows_of(predictions: Predictions, labels: ClusterLabels | None) -> tuple[DealtRows, LabelledRows]:
    """Return the evaluated rows, as weights and as numbers; without clusters equal rows are one row of more weight."""
    places = np.flatnonzero(predictions.evaluated)
    rows = predictions.take(places)
    values = np.concatenate([block for _, block in rows.rows.blocks(0, rows.n)])
    keys, hashes = _keys(values, rows.targets)
    weights = np.ones(len(keys)) if rows.weights is None else rows.weights
    order = np.argsort(keys, kind="stable")
    if not _differ(keys[order]).all():
        whole_rows = _hashes_of_ties(values, hashes, keys[order], order)
        ties = [whole_rows, hashes, keys]
        order = np.lexsort(([] if labels is None else [labels.take(places).hashes]) + [weights, *ties])
    values, classes, hashes = values[order], rows.targets[order], hashes[order]
    weights = weights[order]
    whole = integer_weights(weights)
    clusters = None if labels is None else labels.take(places[order]).numbered()[0]
    if whole and clusters is None:
        first = np.flatnonzero(_new(values, hashes))
        values, classes, weights = values[first], classes[first], np.add.reduceat(weights, first)
    units = np.ones(len(weights)) if whole else weights
    labelled = LabelledRows(values, predictions.logits, prepared(values, logits=predictions.logits), classes)
    return DealtRows.of(weights, units, clusters), labelled


def _with_smallest(procedure: ClassProcedure, rows: DealtRows) -> ClassProcedure:
    """Return the procedure with the limit of small probabilities: of logits, and in most data, only zeros are moved.

    Tiny probabilities of a network say much. Those of a regression let a few errors decide a fit: a limit of 1.5e-7 or
    1e-10 is taken where the mean log loss of a temperature is smaller with it by more than two standard errors.
    """
    data = procedure.data
    smallest = half_a_row(procedure.rows, data.log.smallest) if data.log.zeros else 0.0
    candidates = [smallest]
    if not data.logits:
        candidates += [least for least in _SMALLEST if data.log.smallest < least]
    moved = [replace(procedure, data=replace(data, log=data.log._replace(smallest=least))) for least in candidates]
    if len(moved) == 1:
        return moved[0]
    losses = [each.data.losses("log", each.fit(CLASS_TEMPERATURE, each.source(rows))) for each in moved]
    clear = [rows.mean(losses[0] - each) > 2 * rows.variance(losses[0] - each).error for each in losses]
    means = [rows.mean(each) if better else math.inf for each, better in zip(losses, clear, strict=True)]
    return moved[int(np.argmin(means)) if any(clear) else 0]


def _keys(values: Floats, classes: NDArray[np.int64]) -> tuple[Float64s, NDArray[np.uint64]]:
    """Return a number of each row from some of its columns and its class, and a hash of these.

    The number decides the order of rows, so that rounding of the probabilities leaves nearly all rows in their folds.
    """
    keys, hashes = classes.astype(np.float64), mix64(classes)
    for i, k in enumerate(range(0, values.shape[1], max(values.shape[1] // _KEYED, 1)), start=1):
        column = values[:, k].astype(np.float64)
        keys += (1 + i * _GOLDEN % 1) * column
        hashes = mix64(hashes ^ column.view(np.uint64))
    return keys, hashes


def _hashes_of_ties(
    values: Floats, hashes: NDArray[np.uint64], keys: Float64s, order: NDArray[np.intp]
) -> NDArray[np.uint64]:
    """Return hashes of all columns of the rows whose key, in this order, is that of another row; of others 0."""
    new = _differ(keys)
    tied = order[~new | ~np.append(new[1:], True)]
    mixed = hashes[tied]
    for k in range(values.shape[1]):
        mixed = mix64(mixed ^ values[tied, k].astype(np.float64).view(np.uint64))
    found = np.zeros(len(hashes), np.uint64)
    found[tied] = mixed
    return found


def _differ(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers differ from the one before; the first does."""
    return np.concatenate([[True], numbers[1:] != numbers[:-1]])


def _new(values: Floats, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which sorted rows differ from the row before."""
    new = _differ(hashes)
    same = np.flatnonzero(~new)
    new[same] = (values[same] != values[same - 1]).any(axis=1)
    return new


def _mapped(data: EvaluatedData, fitted: Softmax) -> EvaluatedData:
    """Return the same rows with mapped probabilities."""
    predictions = cast("Predictions", data.predictions)
    rows = predictions.take(np.flatnonzero(predictions.evaluated))
    values = np.concatenate([block for _, block in rows.rows.blocks(0, rows.n)])
    log = prepared(values, logits=predictions.logits)._replace(smallest=fitted.smallest)
    probs = LabelledRows(values, predictions.logits, log, rows.targets).mapped(fitted)
    labels = None if data.labels is None or data.alone else data.labels.take(np.flatnonzero(predictions.evaluated))
    found = evaluated_data.of_arguments(
        probs,
        rows.targets,
        notion="top-label",
        weights=rows.weights,
        class_names=data.names,
        clusters=False if labels is None else labels.hashes,
        classwise=None,
    )
    return replace(found.doubted_as(data), choices=data.choices, counted=None)


def _recalibrated(
    data: EvaluatedData, classes: LabelledRows, folds: DealtRows, maps: Mapping[int, Softmax]
) -> EvaluatedData:
    """Return the recalibrated rows of all folds."""
    parts = [np.flatnonzero(masses) for masses in folds.masses]
    probs = [classes.mapped(maps[fold], held) for fold, held in zip(folds.folds.tolist(), parts, strict=True)]
    places = np.concatenate(parts)
    masses = np.concatenate([weights[held] for weights, held in zip(folds.masses, parts, strict=True)])
    found = evaluated_data.of_arguments(
        np.concatenate(probs),
        classes.classes[places],
        notion="top-label",
        weights=None if (masses == 1).all() else masses,
        class_names=data.names,
        clusters=False if folds.clusters is None else folds.clusters[places],
        classwise=None,
    )
    return replace(found.doubted_as(data), choices=data.choices, counted=None)
