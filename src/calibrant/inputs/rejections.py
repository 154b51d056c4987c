"""Why a reading pass stopped at a row."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InputError, mistakes
from calibrant.errors.faults import Fault, Mistake, Place, ScoreFacts, SumFacts, Suspicion
from calibrant.errors.wording import refuse
from calibrant.inputs.predictions import Predictions


def explain(predictions: Predictions, row: int) -> InputError:
    """Return the error of the row where a reading pass stopped; for multilabel ``row`` counts entries, row by row."""
    entry = None
    if predictions.layout == "multilabel":
        row, entry = divmod(row, predictions.n_classes)
    values = predictions.rows.pick(row)
    judged = slice(None) if entry is None else slice(entry, entry + 1)
    finite = np.isfinite(values[judged])
    if predictions.logits and predictions.layout == "multiclass":  # -inf is a class of probability 0
        masked = values == -np.inf
        if masked.all():
            return refuse("probs", Fault.NO_LOGIT, ScoreFacts(value=values[0], place=Place(row)))
        finite |= masked
    outside = (values[judged] < 0) | (values[judged] > 1)
    if not finite.all() or outside.any():
        column = int(np.argmin(finite) if not finite.all() else np.argmax(outside)) + (entry or 0)
        place = Place(row, column, len(values))
        if not finite.all():
            return refuse("probs", Fault.NOT_FINITE, ScoreFacts(value=values[column], place=place))
        facts = ScoreFacts(value=values[column], place=place, suspicion=_suspect(predictions, values[column]))
        return refuse("probs", Fault.OUTSIDE_RANGE, facts)
    total = SumFacts(
        total=float(values.astype(np.float64).sum()),
        tolerance=predictions.tolerance,
        place=Place(row),
        suspicion=_foreign_column(predictions) or Suspicion(Mistake.LOGITS),
    )
    return refuse("probs", Fault.ROW_SUM, total)


def _suspect(predictions: Predictions, value: float) -> Suspicion:
    """Return the suspected mistake behind a value outside [0, 1]."""
    if _looks_percent(predictions):
        integers = predictions.rows.values.dtype.kind in "iu" and not predictions.rows.bfloat16
        return Suspicion(Mistake.PERCENT_OR_CLASSES if integers else Mistake.PERCENT)
    suspicion = mistakes.of_score(value)
    if suspicion.mistake is Mistake.ROUNDING:
        return suspicion
    return _foreign_column(predictions) or suspicion


def _looks_percent(predictions: Predictions) -> bool:
    judged = np.flatnonzero(predictions.targets.reshape(predictions.n, -1).max(axis=1) >= 0)[:200]
    head = np.stack([predictions.rows.pick(row) for row in judged]).astype(np.float64)
    return mistakes.look_percent(head, classes=predictions.layout == "multiclass")


def _foreign_column(predictions: Predictions) -> Suspicion | None:
    """Recognise a column that is not a class probability, such as another column of a DataFrame."""
    values = predictions.rows.values
    if predictions.layout != "multiclass" or values.shape[2] > 1 or predictions.rows.bfloat16:
        return None
    return mistakes.of_column(values[:, :, 0], predictions.targets, predictions.judged)
