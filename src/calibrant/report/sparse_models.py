"""Models that answered different questions with probabilities, compared by a loss adjusted for difficulty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.conversion import as_values
from calibrant.measures.measure import descriptions_of
from calibrant.measures.verdict import closed_form_test
from calibrant.report.compared_models import ComparisonSettings, GivenModel, ReadModel, check_columns, of_rows
from calibrant.report.result_comparison import Means, ResultComparison, compare_means
from calibrant.results import TestResult
from calibrant.runtime.arrays import ArrayLike
from calibrant.table.cluster_labels import ClusterLabels, as_clusters

_LOSSES: Final = ("brier", "nll", "accuracy")  # in the order of `RowScores`
_FINITE: Final = "rank the models by brier, or leave the model out"


def compare_sparse(
    named: Sequence[GivenModel],
    others: Mapping[str, Any],
    clusters: ArrayLike | None,
    settings: ComparisonSettings,
) -> ResultComparison:
    """Return the comparison of models whose predictions of unanswered questions are NaN."""
    measure = settings.sort_by
    if measure.name not in _LOSSES:
        expected, remedy = f"one of {', '.join(_LOSSES)} with sparse", "rank the models by brier"
        raise InputError("sort_by", expected, repr(measure.name), remedy)
    columns: list[NDArray[np.float64]] = []
    tests: dict[str, TestResult] = {}
    shapes: list[tuple[int, ...]] = []
    labels = None
    for given in named:
        name, argument, *_ = given
        model, answered = _read(given, others, own=settings.own_outcomes)
        shapes.append(model.shape)
        check_columns(named, shapes)
        if labels is None and clusters is not None and clusters is not False:
            labels = as_clusters(clusters, model.predictions.n)
        loss = np.where(answered, np.asarray(model.scores[_LOSSES.index(measure.name)], np.float64), np.nan)
        if np.isinf(loss).any():
            got = f"probability 0 of the outcome at row {int(np.argmax(np.isinf(loss))):,}"
            raise InputError(argument, "a finite log loss", got, _FINITE)
        columns.append(loss)
        if answered.any():
            tests[name] = _test(model, np.flatnonzero(answered), labels, settings)
    of_event = model.notion == "positive" and model.predictions.layout == "binary" and not settings.own_outcomes
    means = Means(
        tuple(name for name, *_ in named),
        np.column_stack(columns),
        measure.name,
        descriptions_of([measure], of_event=of_event)[measure.name],
        tests=tests,
    )
    return compare_means(means, labels, sparse=True, level=settings.level)


def _read(given: GivenModel, others: Mapping[str, Any], *, own: bool) -> tuple[ReadModel, NDArray[np.bool_]]:
    """Return what is read of a model, and which questions it answered.

    Questions without an answer are read with a valid prediction, so that errors name the rows of the caller.
    """
    name, argument, probs, is_logits, targets = given
    array = as_values(argument, probs)
    missing = np.zeros(len(array), np.bool_)
    if array.dtype.kind == "f":
        missing = np.isnan(array).reshape(len(array), -1).all(axis=1)
        array = array.copy()
        array[missing] = 0.0 if is_logits else 1 / array.shape[1] if array.ndim > 1 else 0.5
    if own:
        targets = as_values(f"{argument}[1]", targets)
        if targets.dtype.kind == "f" and targets.shape == missing.shape:
            targets = np.where(missing, 0.0, targets)
    return ReadModel.read((name, argument, array, is_logits, targets), others, own=own), ~missing


def _test(
    model: ReadModel, places: NDArray[np.intp], labels: ClusterLabels | None, settings: ComparisonSettings
) -> TestResult:
    """Return the test of the calibration of a model on the questions that it answered."""
    of_places = None if labels is None else labels.take(places)
    (compared,) = of_rows([model.take(places)], of_places, settings).models
    return compared.event.of(closed_form_test)
