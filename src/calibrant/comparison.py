"""Two or more models judged on the same rows: `compare` and its `Comparison`."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest, renaming
from calibrant.estimators.binned import check_bins
from calibrant.inputs import Notion, Predictions, as_predictions
from calibrant.notions import Reading, read, resolve
from calibrant.render import comparison as text
from calibrant.results import Estimate, ReliabilityDiagram, plain, plain_diagram
from calibrant.sampling.event import Event
from calibrant.sampling.groups import holm
from calibrant.sampling.means import PredictionMeans
from calibrant.sampling.paired import BinnedRows, Model, Weighting, differences
from calibrant.sampling.resampling import check_level
from calibrant.sampling.unpaired import Summed
from calibrant.sampling.unpaired import differences as unpaired
from calibrant.sketch import CalibrationSketch, check_alone

Float64s = NDArray[np.float64]

#: Of the dictionary and the JSON that a comparison writes.
SCHEMA_VERSION: Final = 2

#: A model's name, what its predictions are called in an error, and the predictions.
_Named = tuple[str, str, Any]

_NAMES: Final = ("A", "B")
_CALLS: Final = "call compare(probs_a, probs_b, targets) or compare({'name': probs, ...}, targets)"
_ENTRIES: Final = 1 << 16  # of a block of predictions, so that its temporaries stay in the cache


@dataclass(frozen=True, slots=True)
class Pair:
    """How two models differ: of each measure the `Estimate` of first minus second.

    Attributes
    ----------
    first, second : str
        The models.
    estimates : mapping
        ``debiased_square``, ``ece``, ``brier``, ``nll``, ``accuracy``. Below 0 the first model has less of it: less
        error (better), or fewer right answers (worse). Only ``debiased_square``, which decides, has a p-value: the
        probability of a difference as large if there was none.
    """

    first: str
    second: str
    estimates: Mapping[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found: each model's measures, and of each pair of models the differences with their intervals.

    ``print(comparison)`` draws it in the terminal, ``verdict`` says it in sentences, ``to_html`` writes it as a page,
    ``to_dict`` and ``to_json`` give every number. Notebooks show it as it is.

    Attributes
    ----------
    names : tuple of str
        The models, in the order given.
    n : int
        The judged rows.
    notion : str
        The judged event.
    n_classes : int or None
        The number of classes; None for one event.
    n_bins : int
        The bins of the calibration errors.
    level : float
        The confidence of each interval.
    models : mapping
        Of each model the values of ``debiased_square``, ``ece``, ``brier``, ``nll`` and ``accuracy``.
    pairs : tuple of Pair
        Each two models: ``pair.first`` and ``pair.second``, and ``pair["debiased_square"]``, ``pair["ece"]``,
        ``pair["brier"]``, ``pair["nll"]``, ``pair["accuracy"]``, the `Estimate` of first minus second.
    diagrams : mapping
        Of each model the `ReliabilityDiagram` of the judged event, with intervals and consistency band.
    paired : bool
        Whether the rows of both models were seen side by side; not so of sketches.
    """

    names: tuple[str, ...]
    n: int
    notion: Notion
    n_classes: int | None
    n_bins: int
    level: float
    models: Mapping[str, Mapping[str, float]]
    pairs: tuple[Pair, ...]
    diagrams: Mapping[str, ReliabilityDiagram]
    paired: bool = True

    def verdict(self) -> list[str]:
        """Say in sentences which of each two models is better calibrated, or that these rows do not tell."""
        return text.verdict(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None, and stands with the reason in ``not_finite`` under its path.
        """
        missing: dict[str, str] = {}
        lost = "an outcome that happened had probability 0"
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "n_bins": self.n_bins,
            "level": self.level,
            "paired": self.paired,
            "models": {
                name: {key: plain(value, f"models.{name}.{key}", missing, lost) for key, value in values.items()}
                for name, values in self.models.items()
            },
            "pairs": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "estimates": {
                        key: _plain_estimate(key, estimate, f"pairs[{i}].estimates.{key}", missing)
                        for key, estimate in pair.estimates.items()
                    },
                }
                for i, pair in enumerate(self.pairs)
            ],
            "diagrams": {
                name: plain_diagram(diagram, f"diagrams.{name}", missing) for name, diagram in self.diagrams.items()
            },
            "not_finite": missing,
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as strict JSON: no NaN, no Infinity."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the comparison as one page of HTML, which needs no other file and no network, and return its path.

        The verdict, each model's reliability diagram, and every difference with its interval.

        Parameters
        ----------
        path : str or path
            The file to write. What stood there is replaced.
        title : str
            What stands above the page.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without jinja2, which the extra ``report`` installs.
        """
        from calibrant.render import html

        return html.write_page(html.page(self.to_dict(), title=title), path)

    def __str__(self) -> str:
        return text.render(self.to_dict())

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(map(repr, self.names))}: {self.verdict()[0]} Print it for everything.>"

    def _repr_html_(self) -> str:
        from calibrant.render import html

        return html.cell(self.to_dict(), self.__str__)


def _plain_estimate(key: str, estimate: Estimate, path: str, missing: dict[str, str]) -> dict[str, Any]:
    reason = str(estimate.details.get("reason", "one row tells nothing of the spread"))
    numbers = ("value", "low", "high", "p_value") if key == "debiased_square" else ("value", "low", "high")
    found = {name: plain(getattr(estimate, name), f"{path}.{name}", missing, reason) for name in numbers}
    found["error_bound"] = plain(estimate.error_bound, f"{path}.error_bound", missing, reason)
    details = {k: plain(entry, f"{path}.details.{k}", missing, reason) for k, entry in estimate.details.items()}
    return {**found, "method": estimate.method, "n": estimate.n, "details": details}


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
    level: float = 0.95,
) -> Comparison:
    r"""Compare models on the same rows: which is better calibrated, and by how much each measure differs.

    What decides is the difference of the squared calibration errors, each estimated without bias from bins of equal
    width,

    .. math:: \frac1N \sum_b \frac{S_b^2 - \sum_{i \in b} (p_i - y_i)^2}{n_b - 1},
              \qquad S_b = \sum_{i \in b} (p_i - y_i),

    with a standard error from the differences of what each row adds to the two, :math:`2 D_b (p_i - y_i) - D_b^2` with
    :math:`D_b = S_b / n_b`, and from the noise of the estimates themselves, which is what remains near calibration.
    Beside it stand the differences of ECE, Brier score, log loss and accuracy. For ECE no normal approximation holds:
    its interval lies between bounds that are safe near calibration too, and wide. Those of Brier score and log loss
    are of the mean of the rows' differences, that of the accuracy is Bonett and Price's.

    Parameters
    ----------
    probs_a, probs_b, targets
        The predictions of two models, each as ``probs`` in `expected_calibration_error`, and the targets of both. For
        more models, or with names: ``compare({"name": probs, ...}, targets)``. Sketches, `CalibrationSketch`, are
        compared without targets, by the sums they hold: as nothing then tells what the rows have in common, the models'
        own errors are added, which is safe, also for models of different rows, and wide.
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
    level : float, default 0.95
        The confidence of each interval, from 0.5 to below 1.

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
    named, given = _models(probs_a, probs_b, targets, names)
    if notion in ("classwise", "multilabel"):
        remedy = "pass one class's column of each model at a time"
        raise InputError("notion", "'positive' or 'top-label' to compare models", repr(notion), remedy)
    if any(isinstance(probs, CalibrationSketch) for _, _, probs in named):
        others = {"targets": given, "weights": weights, "ignore_index": ignore_index, "class_names": class_names}
        return _compare_sketches(named, {**others, "logits": logits}, notion, n_bins, float(level))
    if given is None:
        raise InputError("targets", "an array", "None", _CALLS)
    _check_rows(named)
    declared = _declared(logits, [name for name, _, _ in named])
    models: list[Model] = []
    values: dict[str, dict[str, float]] = {}
    shapes: list[tuple[int, ...]] = []
    for (name, argument, probs), is_logits in zip(named, declared, strict=True):
        try:
            predictions = as_predictions(
                probs,
                given,
                weights=weights,
                ignore_index=ignore_index,
                logits=is_logits,
                class_names=class_names,
                notion=notion,
            )
            judged = resolve(predictions, notion)
            reading = read(predictions, judged)
        except InputError as error:
            if error.argument == "targets":  # which may be those of the other model
                _check_columns(named, [_shape(each) for _, _, each in named])
            raise error.renamed({"probs": argument}) from None
        shapes.append((predictions.n,) if predictions.layout == "binary" else (predictions.n, predictions.n_classes))
        _check_columns(named, shapes)
        model = _model(name, predictions, reading, n_bins)
        models.append(model)
        values[name] = {
            "debiased_square": model.judged.square,
            "ece": model.judged.absolute,
            "brier": reading.brier,
            "nll": reading.nll,
            "accuracy": reading.correct,
        }
    n_classes = None if predictions.layout == "binary" else predictions.n_classes
    pairs = _pairs([Pair(a.name, b.name, differences(a, b, level)) for a, b in itertools.combinations(models, 2)])
    diagrams = {model.name: model.judged.diagram(level) for model in models}
    return Comparison(tuple(values), reading.n, judged, n_classes, n_bins, float(level), values, pairs, diagrams)


def _compare_sketches(
    named: Sequence[_Named], others: Mapping[str, Any], notion: Notion | None, n_bins: int, level: float
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
        make, own = (first.notion, first.n_classes), (sketch.notion, sketch.n_classes)
        if make != own:
            expected = f"a sketch of {make[0]!r} and {make[1]} classes, as {named[0][1]}"
            raise InputError(argument, expected, f"{own[0]!r} and {own[1]}", "compare sketches of one make")
        if sketch.notion in ("classwise", "multilabel"):
            remedy = "make sketches of one class's column each"
            raise InputError(argument, "a sketch of one judged event", f"one of {sketch.notion!r}", remedy)
        event = Event(sketch.table, n_bins)
        whole = PredictionMeans.of(sketch)
        values = {
            "debiased_square": event.values["debiased_square"],
            "ece": event.values["ece"],
            "brier": whole.brier,
            "nll": whole.nll,
            "accuracy": whole.accuracy,
        }
        models.append(Summed(name, sketch.table, whole, n_bins, values, event.bounds))
    pairs = _pairs([Pair(a.name, b.name, unpaired(a, b, level)) for a, b in itertools.combinations(models, 2)])
    return Comparison(
        tuple(model.name for model in models),
        min(model.whole.n for model in models),
        first.notion,
        first.n_classes,
        n_bins,
        level,
        {model.name: model.values for model in models},
        pairs,
        {model.name: model.diagram(level) for model in models},
        paired=False,
    )


def _pairs(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs, their p-values adjusted for their number."""
    if len(pairs) == 1:
        return tuple(pairs)
    raw = [pair["debiased_square"].p_value for pair in pairs]
    adjusted = []
    for pair, own, p in zip(pairs, raw, holm(raw), strict=True):
        square = pair["debiased_square"]
        details = {**square.details, "raw_p_value": own, "pairs": len(pairs)}
        estimates = {**pair.estimates, "debiased_square": replace(square, p_value=p, details=details)}
        adjusted.append(Pair(pair.first, pair.second, estimates))
    return tuple(adjusted)


# ---------------------------------------------------------------- the arguments


def _models(probs_a: Any, probs_b: Any, targets: Any, names: Any) -> tuple[list[_Named], Any]:
    """Return the models and the targets, whichever way they were given."""
    if isinstance(probs_a, Mapping):
        if probs_b is not None and targets is not None:
            raise InputError("targets", "nothing beside a mapping and the targets", "a third array", _CALLS)
        if names is not _NAMES:
            raise InputError("names", "nothing beside a mapping of models", repr(names), "name them in the mapping")
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
        own = _shape(probs)[:1]
        if rows and own and own != rows:
            expected = f"{rows[0]:,} row{'s' * (rows[0] != 1)}, as many as {first}"
            raise InputError(argument, expected, f"{own[0]:,}", "give predictions of the same rows, in the same order")


def _check_columns(named: Sequence[_Named], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise for models of different columns."""
    for (_, argument, _), shape in zip(named, shapes, strict=False):  # up to the model that could not be read
        if shape and shapes[0] and shape != shapes[0]:
            expected = f"shape {shapes[0]}, as {named[0][1]}"
            raise InputError(argument, expected, f"shape {shape}", "give the same columns of every model")


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

_Scores = tuple[Float64s, Float64s, NDArray[np.bool_]]


def _model(name: str, predictions: Predictions, reading: Reading, n_bins: int) -> Model:
    events = reading.events
    weighting = Weighting.of(events.weights, reading.n)
    brier, nll, right = _row_scores(predictions)
    keep = predictions.judged
    if not keep.all():
        brier, nll, right = brier[keep], nll[keep], right[keep]
    return Model(name, BinnedRows.of(events.scores, events.outcomes, weighting, n_bins), brier, nll, right)


def _row_scores(predictions: Predictions) -> _Scores:
    """Return the Brier score of each row, its log loss, and whether its predicted class is right, block by block.

    The predictions are those that `read` has found good; of rows that are not judged something is returned.
    """
    rows, n = predictions.rows, predictions.n
    brier, nll, right = np.empty(n), np.empty(n), np.empty(n, np.bool_)
    score = _score_event if predictions.layout == "binary" else _score_classes
    step = max(1, _ENTRIES // rows.width)
    for start in range(0, n, step):
        for a, block in rows.blocks(start, min(start + step, n)):
            at = slice(a, a + len(block))
            with np.errstate(all="ignore"):  # of rows that are not judged
                brier[at], nll[at], right[at] = score(block, np.maximum(predictions.targets[at], 0), predictions.logits)
    return brier, nll, right


def _score_event(block: NDArray[Any], y: NDArray[np.int64], logits: bool) -> _Scores:
    x = block[:, 0].astype(np.float64)
    p = np.exp(np.minimum(x, 0.0)) / (1 + np.exp(-np.abs(x))) if logits else x
    nll = np.logaddexp(0.0, np.where(y == 1, -x, x)) if logits else -np.log(np.where(y == 1, p, 1 - p))
    return (p - y) ** 2, nll, (p.astype(block.dtype) >= 0.5) == (y == 1)


def _score_classes(block: NDArray[Any], y: NDArray[np.int64], logits: bool) -> _Scores:
    p, each = block.astype(np.float64), np.arange(len(block))
    right = block.argmax(axis=1) == y
    if logits:  # by log-sum-exp, which does not overflow
        p -= p.max(axis=1, keepdims=True)
        own_logit = p[each, y]
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        nll = np.log(total[:, 0]) - own_logit
    else:
        nll = -np.log(p[each, y])
    return np.einsum("ij,ij->i", p, p) - 2 * p[each, y] + 1, nll, right
