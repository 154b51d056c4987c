"""Everything about one set of predictions: `evaluate` and its `Report`."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.estimators import binned, isotonic, smooth
from calibrant.inputs import Notion, as_predictions
from calibrant.notions import NOTIONS, class_events, read, resolve
from calibrant.render import terminal
from calibrant.results import ClasswiseCalibration, Estimate, ReliabilityDiagram
from calibrant.table import ReliabilityTable

#: Of the dictionary and the JSON that a report writes.
SCHEMA_VERSION: Final = 1

#: The measures of a report, in the order in which they are read.
MEASURES: Final = (
    "accuracy", "mean_confidence", "brier", "nll", "ece", "rmsce", "mce", "ace", "classwise_ece", "smece",
    "miscalibration", "discrimination", "uncertainty",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Report(Mapping[str, Estimate]):
    """What `evaluate` found: a mapping from the name of a measure to its `Estimate`, and the curves behind them.

    ``print(report)`` draws it in the terminal, ``to_dict`` and ``to_json`` give every number.

    Attributes
    ----------
    estimates : mapping
        The measures: accuracy, mean_confidence, brier, nll, ece, rmsce, mce, ace, classwise_ece, smece, miscalibration,
        discrimination, uncertainty.
    notion : str
        The judged event.
    n : int
        The judged rows.
    n_classes : int or None
        The number of classes or labels; None for one event.
    n_bins : int
        The bins of the binned measures.
    outcome_rate : float
        The share of judged events that happened: of right answers, for the top label.
    diagram : ReliabilityDiagram or None
        The uniform bins of the judged event; None where every class is judged by itself.
    classwise : ClasswiseCalibration or None
        The calibration error of each class.
    class_names : tuple of str or None
        The names of the classes.
    """

    estimates: Mapping[str, Estimate]
    notion: Notion
    n: int
    n_classes: int | None
    n_bins: int
    outcome_rate: float
    diagram: ReliabilityDiagram | None
    classwise: ClasswiseCalibration | None = None
    class_names: tuple[str, ...] | None = None

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None, and stands with the reason in ``not_finite`` under its path.
        """
        missing: dict[str, str] = {}
        estimates = {
            name: {
                "value": _plain(estimate.value, f"estimates.{name}.value", missing, estimate.details.get("reason")),
                "n": estimate.n,
                "details": _plain(dict(estimate.details), f"estimates.{name}.details", missing),
            }
            for name, estimate in self.estimates.items()
        }
        diagram = classes = None
        if self.diagram is not None:
            names = ("edges", "counts", "confidences", "accuracies", "proportions")
            diagram = {
                name: _plain(getattr(self.diagram, name), f"diagram.{name}", missing, "the bin is empty")
                for name in names
            }
        if self.classwise is not None:
            classes = {
                "names": list(self.class_names) if self.class_names else [str(k) for k in range(self.n_classes or 0)],
                "errors": _plain(self.classwise.errors, "classwise.errors", missing, "the threshold kept no score"),
                "kept": _plain(self.classwise.kept, "classwise.kept", missing),
                "supports": _plain(self.classwise.supports, "classwise.supports", missing),
            }
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "n_bins": self.n_bins,
            "outcome_rate": self.outcome_rate,
            "estimates": estimates,
            "diagram": diagram,
            "classwise": classes,
            "not_finite": missing,
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as strict JSON: no NaN, no Infinity."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        return terminal.render(self.to_dict())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _plain(value: Any, path: str, missing: dict[str, str], reason: str | None = None) -> Any:
    """Turn a value into plain Python, a number that is not finite into None with its reason noted."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, f"{path}.{key}", missing) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [_plain(entry, f"{path}[{i}]", missing, reason) for i, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        missing[path] = reason or ("infinite" if math.isinf(value) else "not a number")
        return None
    return value


def evaluate(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    classwise: bool = True,
) -> Report:
    """Evaluate how far predicted probabilities can be trusted: every measure from one read of the data.

    The report has the `Estimate` of each of these measures:

    - ``accuracy``, ``brier``, ``nll``: of the predictions as they are (for a table, of its event); means over the
      labels for multilabel,
    - ``mean_confidence``: the mean score of the judged event,
    - ``ece``, ``rmsce``, ``mce`` (uniform bins), ``ace`` (quantile bins), ``smece`` (exact): of the judged event,
    - ``classwise_ece``: the mean of the classes' errors,
    - ``miscalibration``, ``discrimination``, ``uncertainty``: the CORP decomposition of the event's Brier score.

    With a classwise or multilabel notion the measures of an event are means over classes (root of the mean square
    for rmsce, maximum for mce), each class's own in ``details["per_class"]``. What cannot be had is NaN, with the
    reason in its details.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` may also be a `ReliabilityTable` (then without targets): of the
        event "positive", or with ``notion="top-label"`` of right answers.
    n_bins : int, default 15
        The bins of ECE, RMSCE, MCE, ACE and of the classwise error.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    classwise : bool, default True
        Whether each class is judged as well, in the same read.

    Returns
    -------
    Report
        A mapping from the name of each measure to its `Estimate`.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`.

    Notes
    -----
    Cost: one read of the N x C numbers, one sort of N integers; memory below 96 bytes a row beside the input.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2)
    >>> round(report["ece"].value, 4), report["mce"].details["count"]
    (0.29, 3)
    >>> report["classwise_ece"].details["reason"]
    'one event is judged, no classes'
    """
    binned.check_bins(n_bins)
    if isinstance(probs, ReliabilityTable):
        given = {"targets": targets, "weights": weights, "ignore_index": ignore_index, "class_names": class_names}
        for name, value in {**given, "logits": logits or None}.items():
            if value is not None:
                raise InputError(name, "nothing beside a ReliabilityTable", "a value", "the table holds all there is")
        return _evaluate_table(probs, notion, n_bins)
    if targets is None:
        raise InputError("targets", "an array", "None", "pass the labels; only a ReliabilityTable needs none")
    predictions = as_predictions(
        probs,
        targets,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
        class_names=class_names,
        notion=notion,
    )
    judged, layout = resolve(predictions, notion), predictions.layout
    n_classes = None if layout == "binary" else predictions.n_classes
    uppers = None
    if layout == "multiclass" and classwise and judged != "classwise":  # which pools every class by itself below
        uppers = binned.largest_members(binned.uniform_edges(n_bins), "right", predictions.rows.dtype)
    reading = read(predictions, judged, uppers=uppers)
    n = reading.n if layout != "multilabel" else int((predictions.targets >= 0).any(axis=1).sum())
    names = predictions.class_names
    whole = whole_estimates(reading.correct, reading.brier, reading.nll, reading.infinite, n)
    if judged in ("classwise", "multilabel"):
        tables = [ReliabilityTable.pool(events) for events, _ in class_events(predictions)]
        return _of_classes(tables, whole, judged, n, n_bins, names)
    per_class = binned.classwise_errors(reading.histograms, reading.total, "l1") if uppers is not None else None
    return event_report(ReliabilityTable.pool(reading.events), whole, judged, n_classes, n_bins, per_class, names)


def _evaluate_table(table: ReliabilityTable, notion: Notion | None, n_bins: int) -> Report:
    if notion is not None:
        check_choice("notion", notion, NOTIONS)
    if notion not in (None, "positive", "top-label"):
        raise InputError("notion", "'positive' or 'top-label' for a table", repr(notion), "a table is of one event")
    if len(table) == 0:
        raise InputError("probs", "a table with at least one row", "an empty table", "check where the rows were lost")
    right = table.positives
    if notion != "top-label":
        right = np.where(table.scores >= 0.5, table.positives, table.counts - table.positives)
    wrong = (table.scores == 0) * table.positives + (table.scores == 1) * (table.counts - table.positives)
    whole = whole_estimates(
        float(right.sum() / table.total),
        isotonic.table_score(table, "brier"),
        isotonic.table_score(table, "log"),
        float(wrong.sum()),
        table.n,
    )
    return event_report(table, whole, notion or "positive", None, n_bins)


def whole_estimates(accuracy: float, brier: float, nll: float, infinite: float, n: int) -> dict[str, Estimate]:
    """Return the estimates that are means over whole predictions, not over a judged event."""
    return {
        "accuracy": Estimate(accuracy, n),
        "brier": Estimate(brier, n),
        "nll": Estimate(nll, n, _infinite(infinite)),
    }


def _infinite(weight: float) -> dict[str, Any]:
    if weight == 0:
        return {}
    return {"infinite_rows": _count(weight), "reason": "infinite: an outcome that happened had probability 0"}


def _count(weight: float) -> int | float:
    """Return a count as an integer where it is one."""
    return int(weight) if weight == int(weight) else weight


def _event_estimates(table: ReliabilityTable, n_bins: int) -> tuple[dict[str, Estimate], binned.Bins]:
    """Return the measures that are functions of the judged event's table, and its uniform bins."""
    n, total = table.n, table.total
    bins, masses = binned.bin_table(table, n_bins), binned.quantile_bins(table, n_bins)
    square = binned.debiased_square_error(bins)
    worst = int(np.nanargmax(np.abs(bins.gaps)))
    place = {"bin": worst, "count": _count(float(bins.counts[worst])), "gap": float(bins.gaps[worst])}
    ends = {"low": float(bins.edges[worst]), "high": float(bins.edges[worst + 1])}
    parts = isotonic.corp(table, "brier")
    root = smooth.smooth_error(table.scores, table.residuals, total)
    gaps = bins.score_sums - bins.positives
    sides = {
        "over_stated": float(gaps[gaps > 0].sum() / total),
        "under_stated": float(-gaps[gaps < 0].sum() / total),
    }
    debiased = {"debiased": math.sqrt(max(square, 0.0)), "debiased_square": square}
    return {
        "mean_confidence": Estimate(table.sums.scores / total, n),
        "ece": Estimate(binned.calibration_error(bins, "l1"), n, sides),
        "rmsce": Estimate(binned.calibration_error(bins, "l2"), n, debiased),
        "mce": Estimate(binned.calibration_error(bins, "max"), n, place | ends),
        "ace": Estimate(binned.calibration_error(masses, "l1"), n),
        "smece": Estimate(root.value, n, {"error_bound": root.error_bound}),
        "miscalibration": Estimate(parts.miscalibration, n, {"brier_of_event": parts.score}),
        "discrimination": Estimate(parts.discrimination, n),
        "uncertainty": Estimate(parts.uncertainty, n),
    }, bins


def event_report(
    table: ReliabilityTable, whole: Mapping[str, Estimate], notion: Notion, n_classes: int | None, n_bins: int,
    per_class: ClasswiseCalibration | None = None, names: tuple[str, ...] | None = None,
) -> Report:  # fmt: skip
    """Report on one judged event; ``n_classes`` is None where there are no classes."""
    own, bins = _event_estimates(table, n_bins)
    reason = "one event is judged, no classes" if n_classes is None else "not asked for (classwise=False)"
    classwise = Estimate(math.nan, table.n, {"reason": reason})
    if per_class is not None:
        classwise = _classwise_estimate(per_class, table.n, names)
    estimates = {**own, **whole, "classwise_ece": classwise}
    if table.grid is not None:
        pooled = {"table": f"{table.grid} grid"}
        estimates = {name: Estimate(e.value, e.n, {**e.details, **pooled}) for name, e in estimates.items()}
    return Report(
        {name: estimates[name] for name in MEASURES}, notion, table.n, n_classes, n_bins,
        table.sums.positives / table.total,
        binned.diagram(bins, weighted=table.counts.dtype.kind == "f"), per_class, names,
    )  # fmt: skip


def _of_classes(
    tables: Sequence[ReliabilityTable], whole: Mapping[str, Estimate], notion: Notion, n: int, n_bins: int,
    names: tuple[str, ...] | None,
) -> Report:  # fmt: skip
    """Report on every class by itself: means, the root of the mean square for rmsce, the maximum for mce."""
    each = [_event_estimates(table, n_bins)[0] if len(table) else None for table in tables]  # None: no row is judged
    names_of = next(own for own in each if own is not None)
    norms: dict[str, binned.Norm] = {"rmsce": "l2", "mce": "max"}
    estimates, errors = dict(whole), np.empty(0)
    for name in names_of:
        values = np.array([math.nan if own is None else own[name].value for own in each])
        errors = values if name == "ece" else errors
        estimates[name] = Estimate(binned.combine(values, norms.get(name, "l1")), n, {"per_class": values.tolist()})
    supports = np.array([table.sums.positives if len(table) else 0.0 for table in tables])
    kept = np.array([float(len(table) > 0) for table in tables])
    per_class = ClasswiseCalibration(errors, kept, supports, binned.combine(errors, "l1"))
    estimates["classwise_ece"] = _classwise_estimate(per_class, n, names)
    rate = float(supports.sum() / sum(table.total for table in tables if len(table)))
    return Report(
        {name: estimates[name] for name in MEASURES}, notion, n, len(tables), n_bins, rate, None, per_class, names
    )


def _classwise_estimate(result: ClasswiseCalibration, n: int, names: tuple[str, ...] | None) -> Estimate:
    worst = int(np.nanargmax(result.errors))
    details = {
        "classes": len(result.errors),
        "without_targets": int(np.count_nonzero(result.supports == 0)),
        "worst_class": names[worst] if names else str(worst),
        "worst": float(result.errors[worst]),
    }
    return Estimate(result.value, n, details)
