"""Turn predictions into scores and outcomes of the evaluated event, in one read of the N x C numbers.

positive
    The event "the label is 1", with score P(y = 1).
top-label
    The event "the predicted class is right", with score max p; a binary score folds to max(p, 1 - p).
classwise, multilabel
    For each class (label) separately, the event "this is the class (label)", with score p_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice, mistakes
from calibrant.errors.faults import Facts, Fault, Mistake, Place, Suspicion
from calibrant.errors.wording import expected_sum, number, refuse
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.scores import OrderedScores, RowScores, class_row_scores, event_row_scores, ordered_row_scores
from calibrant.kernels import dispatch
from calibrant.kernels.compensated import joined, merge, sums_of, total_of
from calibrant.kernels.row_blocks import Rows, in_order
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from calibrant.kernels.device_rows import DeviceRows

NOTIONS: Final = ("positive", "top-label", "classwise", "multilabel")

_ENTRIES: Final = 1 << 16  # of a block of predictions, so that its temporaries stay in the cache

Columns = TypeVar("Columns", RowScores, OrderedScores)

#: The notions that evaluate every class separately.
PER_CLASS: Final[tuple[Notion, ...]] = ("classwise", "multilabel")

#: The default notion for each shape of the input.
DEFAULTS: Final[dict[Layout, Notion]] = {"binary": "positive", "multiclass": "top-label", "multilabel": "multilabel"}


@dataclass(frozen=True, eq=False)
class Events:
    """Evaluated events: scores in [0, 1], outcomes 0 and 1, and if any weights above 0, each (n,)."""

    scores: NDArray[np.floating[Any]]
    outcomes: NDArray[np.uint8]
    weights: NDArray[np.float64] | None

    @property
    def total(self) -> float:
        return float(len(self.scores)) if self.weights is None else total_of(self.weights)


@dataclass(frozen=True, kw_only=True)
class ScoreMeans:
    """The means over rows of right answers, Brier scores and log losses, and of the squares of the last two.

    ``nll`` is infinite if one row's loss is; ``nll_square`` is over the finite losses, and ``infinite`` the weight of
    the other rows.
    """

    accuracy: float
    brier: float
    brier_square: float
    nll: float
    nll_square: float
    infinite: float

    @classmethod
    def of_rows(cls, scores: RowScores, weights: NDArray[np.float64]) -> ScoreMeans:
        """Return the means of the scores of rows with these weights, (n,)."""
        brier, nll, right = scores
        total, lost = total_of(weights), np.isinf(nll)

        def mean(values: NDArray[Any]) -> float:
            return total_of(weights * values) / total

        finite = np.where(lost, 0.0, nll)
        return cls(
            accuracy=min(mean(right), 1.0),
            brier=mean(brier),
            brier_square=mean(brier**2),
            nll=float("inf") if lost.any() else mean(finite),
            nll_square=mean(finite**2),
            infinite=total_of(weights * lost),
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """The result of one read of the predictions: the evaluated events, the mean scores, the histograms of the classes.

    ``totals`` are the sums of the scores, at the indices named in `dispatch` (``BRIER``, ...).

    ``histograms`` has shape (3, bins, classes): counts, sums of scores, counts of true outcomes; empty by default.
    For classwise, ``events`` evaluate the top label; for multilabel, all labels together.
    """

    events: Events
    n: int
    total: float
    means: ScoreMeans
    histograms: NDArray[np.float64]
    totals: NDArray[np.float64]


def resolve(predictions: Predictions, notion: str | None) -> Notion:
    """Return the notion; by default the shape decides."""
    if notion is None:
        return DEFAULTS[predictions.layout]
    check_choice("notion", notion, NOTIONS)
    layout, n_classes = predictions.layout, predictions.n_classes
    if notion == "positive" and layout == "multiclass" and n_classes != 2:
        raise InputError(
            "notion",
            f"'top-label' or 'classwise' for {n_classes} classes",
            "'positive'",
            "pass one class's column as probs, or another notion",
        )
    if notion in PER_CLASS and layout == "binary":
        raise InputError("notion", "'positive' or 'top-label' for probs of shape (N,)", repr(notion), "pass (N, C)")
    return notion  # type: ignore[return-value]


def read(
    predictions: Predictions,
    notion: Notion,
    *,
    eps: float = 0.0,
    scoring: bool = True,
    uppers: NDArray[np.floating[Any]] | None = None,
    threshold: float = 0.0,
) -> Reading:
    """Read all predictions once and evaluate the notion's event.

    Parameters
    ----------
    predictions, notion
        From `as_predictions` and `resolve`.
    eps : float
        The true class's probability is raised to this before its logarithm is taken.
    scoring : bool
        Whether to compute the Brier score, the logarithmic loss and the accuracy.
    uppers : (M,), optional
        The largest score of each bin, for the histograms of the classes; without it they are empty.
    threshold : float
        Class probabilities below it do not enter the histograms.

    Raises
    ------
    InputError
        At the first row with a NaN, a value outside [0, 1] or a sum that is not 1.
    """
    try:
        if predictions.layout == "multiclass":
            return _read_classes(predictions, notion, eps=eps, scoring=scoring, uppers=uppers, threshold=threshold)
        return _read_single(predictions, notion, eps=eps, scoring=scoring)
    except dispatch.BadRow as bad:
        if not predictions.round():
            raise explain(predictions, bad.row) from None
    return read(predictions, notion, eps=eps, scoring=scoring, uppers=uppers, threshold=threshold)


def read_squared(predictions: Predictions, notion: Notion, **options: Any) -> Reading | None:
    """Read once more with squared weights, for variances; None without weights. Options as in `read`."""
    if predictions.weights is None:
        return None
    return read(replace(predictions, weights=predictions.weights**2), notion, **options)


def _read_classes(
    predictions: Predictions,
    notion: Notion,
    *,
    eps: float,
    scoring: bool,
    uppers: NDArray[np.floating[Any]] | None,
    threshold: float,
) -> Reading:
    rows, targets, on_device = predictions.rows, predictions.targets, predictions.device_rows
    options: dict[str, Any] = {
        "eps": eps,
        "scoring": scoring,
        "uppers": uppers,
        "threshold": float(rows.dtype.type(threshold)),  # rounded to the type of the scores, like the edges
    }
    if on_device is not None:
        reading = on_device.read_classes(targets, predictions.weights, **options)
    else:
        reading = dispatch.read_classes(
            rows,
            targets,
            predictions.weights,
            logits=predictions.logits,
            tolerance=predictions.tolerance,
            keep=predictions.logits and notion == "positive",
            **options,
        )
    scores, outcomes = reading.top, reading.correct
    if notion == "positive":  # two classes
        scores = _column(predictions, reading.probs if predictions.logits else None, 1)
        outcomes = np.where(outcomes == dispatch.IGNORED, outcomes, targets == 1).astype(np.uint8)
    return _reading(scores, outcomes, predictions.weights, reading.totals, reading.histograms)


def _read_single(predictions: Predictions, notion: Notion, *, eps: float, scoring: bool) -> Reading:
    rows, targets, weights = predictions.rows, predictions.targets, predictions.weights
    if predictions.layout == "multilabel":
        rows, targets = _entries(rows), targets.reshape(-1)
        weights = None if weights is None else np.repeat(weights, predictions.n_classes)
    scores, outcomes, totals = dispatch.read_events(
        rows, targets, weights, eps=eps, logits=predictions.logits, scoring=scoring
    )
    if notion == "top-label":
        scores, outcomes = fold(scores, outcomes)
    return _reading(scores, outcomes, weights, totals, np.zeros((3, 0, 0)))


def fold(
    scores: NDArray[np.floating[Any]], outcomes: NDArray[np.uint8], *, half: int = 1
) -> tuple[NDArray[np.floating[Any]], NDArray[np.uint8]]:
    """Return the event "the predicted class is right" for "the label is 1"; a score of 0.5 predicts class ``half``."""
    predicts = scores >= 0.5 if half else scores > 0.5
    right = (predicts == (outcomes == 1)).astype(np.uint8)
    return np.maximum(scores, 1 - scores), np.where(outcomes == dispatch.IGNORED, outcomes, right)


def own_probabilities(predictions: Predictions) -> NDArray[np.float64]:
    """Return the probability of each row's true class, from valid multiclass probabilities."""
    if predictions.device_rows is not None:
        return predictions.device_rows.column("p_target").astype(np.float64)
    p_target = np.empty(predictions.n)
    for first, block in predictions.rows.blocks(0, predictions.n):
        p_target[first : first + len(block)] = block[
            np.arange(len(block)), predictions.targets[first : first + len(block)]
        ]
    return p_target


def impossible_classes(predictions: Predictions) -> NDArray[np.bool_]:
    """Return which classes have an outcome that their probability excludes, (C,), from valid probabilities.

    The probability of the true class is 0, or that of another class is 1.
    """
    if predictions.device_rows is not None:
        return predictions.device_rows.impossible_classes(predictions.evaluated)
    found = np.zeros(predictions.n_classes, np.bool_)
    for first, block in predictions.rows.blocks(0, predictions.n):
        rows = slice(first, first + len(block))
        kept = np.flatnonzero(predictions.evaluated[rows])
        p, classes = block[kept], predictions.targets[rows][kept].astype(np.intp)
        found[classes[p[np.arange(len(kept)), classes] == 0]] = True
        certain = p == 1
        certain[np.arange(len(kept)), classes] = False
        found |= certain.any(axis=0)
    return found


def _entries(rows: Rows) -> Rows:
    """Return every entry of (n, C) rows as a separate row, as a view if the layout allows it."""
    return Rows(rows.values.reshape(-1, 1, 1), rows.bfloat16)


def _reading(
    scores: Floats, outcomes: NDArray[np.uint8], weights: NDArray[np.float64] | None, totals: Any, histograms: Any
) -> Reading:
    keep = outcomes != dispatch.IGNORED
    if not keep.all():
        scores, outcomes = scores[keep], outcomes[keep]
        weights = None if weights is None else weights[keep]
    events = Events(scores, outcomes, weights)
    total = events.total
    return Reading(
        events,
        len(scores),
        total,
        ScoreMeans(
            accuracy=min(float(totals[dispatch.CORRECT]) / total, 1.0),
            brier=float(totals[dispatch.BRIER]) / total,
            brier_square=float(totals[dispatch.BRIER_SQUARES]) / total,
            nll=float(totals[dispatch.NLL]) / total if totals[dispatch.INFINITE] == 0 else float("inf"),
            nll_square=float(totals[dispatch.NLL_SQUARES]) / total,
            infinite=float(totals[dispatch.INFINITE]),
        ),
        histograms=histograms,
        totals=totals,
    )


def softmax(predictions: Predictions) -> NDArray[np.floating[Any]] | None:
    """Return the class probabilities of logits, (n, C); None for probabilities or on a device: read in place."""
    if not predictions.logits or predictions.rows.on_device:
        return None
    rows, targets = predictions.rows, predictions.targets
    if predictions.layout == "multilabel":
        wide, _, _ = dispatch.read_events(
            _entries(rows), targets.reshape(-1), None, eps=0.0, logits=True, scoring=False
        )
        return wide.reshape(rows.n, rows.width)
    reading = dispatch.read_classes(
        rows,
        targets,
        predictions.weights,
        logits=True,
        tolerance=predictions.tolerance,
        eps=0.0,
        scoring=False,
        uppers=None,
        threshold=0.0,
        keep=True,
    )
    return reading.probs


def _column(predictions: Predictions, soft: NDArray[np.floating[Any]] | None, k: int) -> NDArray[np.floating[Any]]:
    if predictions.device_rows is not None:
        return predictions.device_rows.class_scores(k)
    if soft is not None:
        return np.ascontiguousarray(soft[:, k])
    values = predictions.rows.values[:, k, :].reshape(-1, 1, 1)
    column = Rows(values, predictions.rows.bfloat16)
    return np.concatenate([block[:, 0] for _, block in column.blocks(0, column.n)])


def class_events(predictions: Predictions, threshold: float = 0.0) -> Iterator[tuple[Events, float]]:
    """Yield, for each class, the events "this is the class" and the weight of its evaluated rows.

    `read` must have accepted the predictions. Events with a score below the threshold are left out of the events.
    """
    soft = softmax(predictions)
    weights, several = predictions.weights, predictions.layout == "multilabel"
    for k in range(predictions.n_classes):
        scores = _column(predictions, soft, k)
        labels = predictions.targets[:, k] if several else predictions.targets
        outcomes = (labels == (1 if several else k)).astype(np.uint8)
        evaluated = labels >= 0 if weights is None else (labels >= 0) & (weights > 0)
        total = float(np.count_nonzero(evaluated)) if weights is None else total_of(weights[evaluated])
        keep = evaluated & (scores >= scores.dtype.type(threshold))
        if keep.all():
            yield Events(scores, outcomes, weights), total
        else:
            yield Events(scores[keep], outcomes[keep], None if weights is None else weights[keep]), total


def scores_of_rows(predictions: Predictions) -> RowScores:
    """Return the scores of each evaluated row, block by block."""
    if predictions.device_rows is not None:
        scores, keep = predictions.device_rows.row_scores(), predictions.evaluated
        return scores if keep.all() else (scores[0][keep], scores[1][keep], scores[2][keep])
    columns = np.empty(predictions.n), np.empty(predictions.n), np.empty(predictions.n, np.bool_)
    return _filled(columns, predictions, event_row_scores if predictions.layout == "binary" else class_row_scores)


def ordered_scores_of_rows(predictions: Predictions) -> OrderedScores:
    """Return the scores of each evaluated row of ordered levels, which are in host memory, block by block."""
    n = predictions.n
    return _filled((np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.bool_)), predictions, ordered_row_scores)


def _filled(columns: Columns, predictions: Predictions, score: Callable[..., Columns]) -> Columns:
    """Return the columns, (n,) each, with the scores of each row, for the evaluated rows."""
    rows, n, keep = predictions.rows, predictions.n, predictions.evaluated
    step = max(1, _ENTRIES // rows.width)
    for start in range(0, n, step):
        for a, block in rows.blocks(start, min(start + step, n)):
            at = slice(a, a + len(block))
            with np.errstate(all="ignore"):  # rows that are not evaluated may hold anything
                scores = score(block, np.maximum(predictions.targets[at], 0), predictions.logits)
            for column, values in zip(columns, scores, strict=True):
                column[at] = values
    return columns if keep.all() else cast("Columns", tuple(column[keep] for column in columns))


def mean_of_classes(
    predictions: Predictions,
    score: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]],
) -> float:
    """Return the mean over rows of a score of class probabilities (n, C) and true classes (n,), in one read."""
    n, step = predictions.n, max(1, _ENTRIES // predictions.n_classes)
    if predictions.rows.on_device:
        (scores,), weights = values_of_rows(predictions, score.__name__)
        return weighted_mean(scores, weights)

    def work(block: int) -> Float64s:
        probs, classes, weights = class_rows(predictions, block * step, min((block + 1) * step, n))
        scores = score(probs, classes)
        return sums_of(np.stack([scores, np.ones(len(scores))] if weights is None else [weights * scores, weights]))

    pairs = np.zeros((2, 2))
    for part in in_order(work, -(-n // step)):
        merge(pairs, part)
    total, weight = joined(pairs).tolist()
    return float(total / weight)


def weighted_mean(values: NDArray[np.floating[Any]], weights: NDArray[np.float64] | None) -> float:
    """Return the mean of values, (n,); the order of the rows does not matter."""
    return total_of(values) / len(values) if weights is None else total_of(weights * values) / total_of(weights)


def values_of_rows(
    predictions: Predictions, function: str, *options: Any
) -> tuple[list[NDArray[Any]], NDArray[np.float64] | None]:
    """Return what a function of `device_rows` returns for each evaluated row on a device, and the weights.

    Raises
    ------
    InputError
        As `class_rows`.
    """
    from calibrant.kernels.device_rows import row_function

    rows, evaluated = checked_on_device(predictions), predictions.evaluated
    columns = rows.each(row_function(function, *options))
    weights = None if predictions.weights is None else predictions.weights[evaluated]
    return [column[evaluated] for column in columns], weights


def checked_on_device(predictions: Predictions) -> DeviceRows:
    """Return the rows on a device when all evaluated ones are valid.

    Raises
    ------
    InputError
        As `class_rows`.
    """
    rows = cast("DeviceRows", predictions.rows)
    try:
        rows.check(predictions.evaluated)
    except dispatch.BadRow as bad:
        raise explain(predictions, bad.row) from None
    return rows


def class_rows(
    predictions: Predictions, start: int, stop: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64] | None]:
    """Return class probabilities (n, C), true classes and weights of the evaluated rows from ``start`` to ``stop``.

    One event has two classes. The probabilities are a copy.

    Raises
    ------
    InputError
        At the first evaluated row with a NaN, a value outside [0, 1] or a sum that is not 1.
    """
    evaluated = predictions.evaluated[start:stop]
    values = np.concatenate([part.astype(np.float64) for _, part in predictions.rows.blocks(start, stop)])[evaluated]
    classes = predictions.labels[start:stop][evaluated].astype(np.int64, copy=False)
    weights = None if predictions.weights is None else predictions.weights[start:stop][evaluated]
    single = predictions.layout == "binary"
    if not predictions.logits:
        good = ((values >= 0) & (values <= 1)).all(axis=1)  # NaN compares as false
        if not single:
            good &= np.abs(values.sum(axis=1) - 1) <= predictions.tolerance
    elif single:
        good = np.isfinite(values[:, 0])
    else:
        good = (values < np.inf).all(axis=1) & (values > -np.inf).any(axis=1)
    if not good.all():
        if predictions.round():
            return class_rows(predictions, start, stop)
        raise explain(predictions, start + int(np.flatnonzero(evaluated)[np.argmin(good)]))
    if single and predictions.logits:
        values = np.concatenate([np.zeros_like(values), values], axis=1)
    elif single:
        values = np.concatenate([1 - values, values], axis=1)
    if predictions.logits:
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        values /= values.sum(axis=1, keepdims=True)
    return values, classes, weights


# ---------------------------------------------------------------- why a reading pass stopped


def explain(predictions: Predictions, row: int) -> InputError:
    """Return the error of the row where a reading pass stopped; for multilabel ``row`` counts entries, row by row."""
    entry = None
    if predictions.layout == "multilabel":
        row, entry = divmod(row, predictions.n_classes)
    values = predictions.rows.pick(row)
    evaluated = slice(None) if entry is None else slice(entry, entry + 1)
    finite = np.isfinite(values[evaluated])
    if predictions.logits and predictions.layout == "multiclass":  # -inf is a class of probability 0
        masked = values == -np.inf
        if masked.all():
            got, facts = f"only {number(values[0])}", Facts(value=values[0], place=Place(row))
            return refuse("probs", Fault.NO_LOGIT, "a finite logit in each row", got, facts=facts)
        finite |= masked
    outside = (values[evaluated] < 0) | (values[evaluated] > 1)
    if not finite.all() or outside.any():
        column = int(np.argmin(finite) if not finite.all() else np.argmax(outside)) + (entry or 0)
        value, place = values[column], Place(row, column, len(values))
        if not finite.all():
            facts = Facts(value=value, place=place)
            return refuse("probs", Fault.NOT_FINITE, "finite numbers", number(value), facts=facts)
        facts = Facts(value=value, place=place, suspicion=_suspect(predictions, value))
        return refuse("probs", Fault.OUTSIDE_RANGE, "values in [0, 1]", number(value), facts=facts)
    total, suspicion = float(values.astype(np.float64).sum()), _foreign_column(predictions) or Suspicion(Mistake.LOGITS)
    facts = Facts(value=total, place=Place(row), suspicion=suspicion)
    return refuse("probs", Fault.ROW_SUM, expected_sum(predictions.tolerance), f"{total:.10g}", facts=facts)


def _suspect(predictions: Predictions, value: float) -> Suspicion:
    """Return the suspected mistake behind a value outside [0, 1]."""
    if (large := _suspect_large(predictions)) is not None:
        is_either = large.mistake is Mistake.PERCENT and predictions.rows.integers
        return Suspicion(Mistake.PERCENT_OR_CLASSES) if is_either else large
    suspicion = mistakes.of_score(value)
    if suspicion.mistake is Mistake.ROUNDING:
        return suspicion
    return _foreign_column(predictions) or suspicion


def _suspect_large(predictions: Predictions) -> Suspicion | None:
    evaluated = np.flatnonzero(predictions.targets.reshape(predictions.n, -1).max(axis=1) >= 0)[:200]
    head = np.stack([predictions.rows.pick(row) for row in evaluated]).astype(np.float64)
    return mistakes.of_large(head, classes=predictions.layout == "multiclass")


def _foreign_column(predictions: Predictions) -> Suspicion | None:
    """Recognise a column that is not a class probability, such as another column of a DataFrame."""
    rows = predictions.rows
    if predictions.layout != "multiclass" or rows.depth > 1 or rows.bfloat16:
        return None
    which = predictions.targets, predictions.evaluated
    if predictions.device_rows is not None:
        kinds = predictions.device_rows.kinds_of_columns(*which)
    else:
        kinds = mistakes.kinds_of_columns(rows.values[:, :, 0], *which)
    return mistakes.of_column(*kinds, int(np.count_nonzero(predictions.evaluated)))
