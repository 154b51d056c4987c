"""A map of the scores of one event: its choice, its proof, the reports before and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import Events
from calibrant.measures.listed import selected
from calibrant.recalibration.choice import Choice, FitOptions, Procedure
from calibrant.recalibration.families import CANDIDATES, CLIPPED, CONSTANT, HISTOGRAM, IDENTITY, Family, Fit
from calibrant.recalibration.maps import CalibrationMap, Fitted
from calibrant.recalibration.pieces import CLIP, UNCHANGED, Pieces, probabilities
from calibrant.recalibration.proof import Gain, MeanGain, Moments, few_errors, gain_of
from calibrant.recalibration.recalibrations import MapCurve, Recalibration, with_evidence
from calibrant.recalibration.scored_rows import FitRows, ScoredRows
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.report.evaluation import ReportSettings, report_on, report_with_groups
from calibrant.report.report import Report
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign, rarer_rows
from calibrant.statistics.folds import Parts
from calibrant.statistics.resampling import Stream, alpha_of, generator
from calibrant.table import ReliabilityTable

#: The measures that are shown before and after.
MEASURES: Final = (
    "nll", "brier_event", "ece", "smece", "miscalibration", "calibration_slope", "calibration_intercept", "auroc",
)  # fmt: skip

#: Errors that a flexible map hides in part: their upper ends are at least the means of their noise floors.
CANCELLING: Final = ("ece", "smece", "miscalibration")

#: The measures of the order and the spread of scores, which a constant does not have.
OF_ORDER: Final = ("calibration_slope", "auroc")

#: The rows of the less frequent outcome that a map needs.
LEAST_ROWS: Final = 5

_FLAT: Final = "the slope is 0 and the map is nearly a constant, because a few rows with extreme log-odds were wrong"

_QUANTILES: Final = np.linspace(0, 1, 21)
_POINTS: Final = 101  # of the curve of a map
_RESAMPLES: Final = 200  # of the rows, for the band of a map
_BANDS: Final = 1000  # the first of their random numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class EventProcedure(Procedure[Parts]):
    """The procedure for the log-odds (K,) of cells, whose rows have this ``weight`` in all.

    Losses are those of ``of_outcomes``, (1, K) or (2, K): the log-odds of rows without and with the event. Scores of
    all maps are moved into [smallest, largest], so that rows out of fold have the range of the others.
    """

    log_odds: Float64s
    of_outcomes: Float64s
    weight: float
    smallest: float
    largest: float

    def source(self, rows: Parts) -> FitRows:
        negatives, positives = rows.masses.sum(axis=1) * (self.rows / self.weight)
        held = negatives + positives > 0
        counts = (negatives + positives)[held]
        return FitRows(self.log_odds[held], counts, positives[held], self.prior_rows, self.smallest, self.largest)

    def fit(self, family: Family, source: FitRows) -> Fit:
        fit: Fit = family.fit(source)
        return fit

    def losses(self, rows: Parts, maps: Mapping[int, Fit]) -> Float64s:
        return log_losses(self.mapped(rows, maps, self.of_outcomes))

    def mean_gain(
        self, rows: Parts, gains: Float64s, before: Mapping[int, Fit], after: Mapping[int, Fit], score: str = "log"
    ) -> MeanGain:
        del before, after, score  # the gains at a score say it all
        return MeanGain.of(rows, gains, Moments.of_event(probabilities(self.log_odds), gains))

    def mapped(self, folds: Parts, maps: Mapping[int, Fit], log_odds: Float64s) -> Float64s:
        """Return the log-odds (1 or 2, F, K) that those of either outcome have in each part, by the map of its fold."""
        mapped = np.empty((len(log_odds), *folds.masses.shape[1:]))
        for fold, fit in maps.items():
            mapped[:, folds.folds == fold] = fit.pieces.of_logits(log_odds)[:, np.newaxis]
        return mapped

    def gains(self, log_odds: Float64s, score: str, start: Pieces) -> Float64s:
        """Return the loss by a first map less that of mapped scores (1 or 2, F, K), without and with the event."""
        losses = brier_losses if score == "brier" else log_losses
        before = losses(start.of_logits(self.of_outcomes))[:, np.newaxis]
        with np.errstate(invalid="ignore"):
            return np.asarray(before - losses(log_odds))

    def unchanged(self, rows: Parts, *, certain: bool) -> Pieces:
        """Return no change; clipped scores, if 0 or 1 was wrong, because their log loss is finite."""
        return self.fit(CLIPPED, self.source(rows)).pieces if certain else UNCHANGED

    def band(self, choice: Choice, parts: Parts, scores: Float64s, level: float) -> tuple[Float64s, Float64s]:
        """Return the pointwise band of the chosen map at these scores, (M,), by the bootstrap."""
        maps = (
            self.fitted(choice, self.source(parts.resampled(generator(self.seed, Stream.DEALS, _BANDS + i))))
            for i in range(_RESAMPLES)
        )
        drawn = np.stack([probabilities(fit.pieces.log_odds(scores)) for fit in maps])
        tail = alpha_of(level) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        return low, high


def log_losses(log_odds: Float64s) -> Float64s:
    """Return the log loss without and with the event, (2, ...), from the log-odds of either outcome or of both."""
    return np.stack([np.logaddexp(0, log_odds[0]), np.logaddexp(0, -log_odds[-1])])


def brier_losses(log_odds: Float64s) -> Float64s:
    """Return the Brier score without and with the event, (2, ...), from the log-odds of either outcome or of both."""
    return np.stack([probabilities(log_odds[0]) ** 2, probabilities(-log_odds[-1]) ** 2])


def _candidates(family: Family | None, *, certain: bool) -> list[Family]:
    """Return the families to choose from; a probability 0 or 1 that was wrong is clipped."""
    return [family] if family is not None else [CLIPPED if certain else IDENTITY, *CANDIDATES[1:]]


def _rising(procedure: EventProcedure, parts: Parts) -> EventProcedure:
    """Return the procedure without the families whose maps fall."""
    source = procedure.source(parts)
    return replace(procedure, candidates=[each for each in procedure.candidates if each.fit(source).rising])


def of_event(data: EvaluatedData, asked: FitOptions) -> Recalibration:
    """Return the recalibration of one evaluated event.

    Raises
    ------
    InputError
        For few rows of an outcome, and if no map rises: "auto" leaves out those that do not.
    """
    (table,) = data.tables
    rows = ScoredRows.of(data)
    design = rows.design
    rarer = rarer_rows(rows.fine)
    if rarer < LEAST_ROWS:
        expected = f"at least {LEAST_ROWS} rows of each outcome"
        raise InputError("targets", expected, f"{rarer:g} rows of the less frequent outcome", "pass more rows")
    parts = Parts.of(design)
    certain = rows.impossible or not math.isfinite(parts.mean(log_losses(rows.of_outcomes)[:, np.newaxis]))
    family, resampling = asked.family, asked.resampling
    of_errors = rows.fine.counts * np.minimum(rows.fine.scores, 1 - rows.fine.scores)
    expected_errors = float(np.sum(of_errors)) * rows.fine.effective_n / rows.fine.total
    procedure = EventProcedure(
        candidates=_candidates(family, certain=certain),
        prior_rows=asked.prior_rows,
        rows=rows.fine.effective_n,
        seed=resampling.seed,
        log_odds=rows.log_odds,
        of_outcomes=rows.of_outcomes,
        weight=parts.total,
        smallest=rows.exact.smallest,
        largest=rows.exact.largest,
    )
    if family is None:
        procedure = _rising(procedure, parts)
    choice = procedure.choose(parts)
    fit = _fitted(procedure, choice, rows.exact)
    # No change gains nothing, whatever the choice without a fold would be.
    remains = choice.family is IDENTITY
    folds, maps = (parts, dict.fromkeys(parts.folds.tolist(), fit)) if remains else procedure.evaluated(parts)
    out_of_fold = procedure.mapped(folds, maps, rows.of_outcomes)
    score, start = "brier", UNCHANGED
    if math.isfinite(folds.mean(log_losses(out_of_fold))) and not (certain and choice.family.nearly_unchanged):
        score, start = "log", procedure.unchanged(parts, certain=certain)
    inside = procedure.gains(fit.pieces.of_logits(rows.of_outcomes)[:, np.newaxis], score, start)
    outside = procedure.gains(out_of_fold, score, start)
    gain = gain_of(
        procedure.mean_gain(folds, outside, {}, maps),
        procedure.mean_gain(parts, inside, {}, {0: fit}),
        score,
        resampling.level,
    )
    settings = ReportSettings(n_bins=15, **selected(list(MEASURES), None)._asdict(), resampling=resampling)
    before = report_on(_alone(data, rows), settings).report
    after, distinct, known = before, None, dict[str, Estimate]()
    if not remains:
        scored = _recalibrated(data, folds, procedure.mapped(folds, maps, rows.log_odds[np.newaxis])[0])
        after = report_on(scored, settings).report
        bound = math.nan if choice.family is HISTOGRAM else certified_loss(rows, folds, maps, score)
        clipped = None if start.unchanged else parts.mean(log_losses(start.of_logits(rows.of_outcomes))[:, np.newaxis])
        if choice.family is CONSTANT:  # rates of folds would have an order
            settings_of_order = replace(settings, **selected(list(OF_ORDER), None)._asdict())
            known = dict(report_on(_mapped(data, fit), settings_of_order).report.estimates)
        elif choice.family.keeps_order:
            distinct, known["auroc"] = _auroc(data, rows, fit, before, settings)
        after = _as_after(before, after, gain, clipped, bound, known)
    flat = "" if fit.rising else _FLAT
    cautions = (design.sample.flag, rows.flag, few_errors(expected_errors), _falling(before), flat)
    return with_evidence(
        Recalibration(
            map=CalibrationMap(
                kind=fit.kind,
                parameters=fit.parameters,
                event=map_event(data.notion, data.names),
                fitted=fitted_to(table, clustered=data.clusters is not None),
            ),
            method=asked.method,
            chosen=choice.family.name,
            runner_up=choice.runner_up,
            losses={name: (loss, choice.errors[name]) for name, loss in choice.losses.items()},
            gain=gain,
            before=before,
            after=after,
            expected_errors=expected_errors,
            flag="; ".join(filter(None, cautions)),
            distinct_scores=distinct,
            by_group=by_group(partial(_mapped, fit=fit), data, settings),
            shrinkage=choice.shrinkage,
            curve_maker=partial(_curve, procedure, choice, parts, fit, table, resampling.level),
        )
    )


def _falling(before: Report) -> str:
    """Return a caution if the event is less frequent at higher scores, or nothing."""
    slope = before["calibration_slope"]
    if not slope.value <= 0:
        return ""
    return (
        f"events are not more frequent at higher scores (calibration slope {slope.value:.2f}, "
        f"{before.level:.0%} CI {slope.low:.2f} to {slope.high:.2f}); check that the scores are of this event, and not "
        "of its opposite"
    ).replace("%", " %")


def _fitted(procedure: EventProcedure, choice: Choice, rows: FitRows) -> Fit:
    """Return the map that is fitted to all rows.

    Raises
    ------
    InputError
        If the fit is at its bound.
    """
    fit = procedure.fit(choice.family, replace(rows, prior_rows=procedure.prior_rows))
    if not fit.rising and not rows.ranked:
        expected = "scores that are higher for events"
        got = "scores that are not higher for events (slope 0), so that no increasing map helps"
        raise InputError("probs", expected, got, "check that the scores are of this event, and not of its opposite")
    return fit.shrunk(choice.shrinkage)


def _mapped(data: EvaluatedData, fit: Fit) -> EvaluatedData:
    """Return the same rows with mapped scores."""
    rows = ScoredRows.of(data)
    if fit.kind == "identity":
        return _alone(data, rows)
    parts = Parts.of(rows.design)
    log_odds = np.broadcast_to(fit.pieces.of_logits(rows.log_odds), parts.masses.shape[1:])
    return _recalibrated(data, parts, log_odds)


def by_group(
    mapped: Callable[[EvaluatedData], EvaluatedData], data: EvaluatedData, settings: ReportSettings
) -> Report | None:
    """Return the report on the rows with mapped scores, with its groups; None without groups."""
    if not data.groups:
        return None
    groups = {name: mapped(group) for name, group in data.groups.items()}
    return report_with_groups(replace(mapped(data), groups=groups, ordered=data.ordered), settings)


def _alone(data: EvaluatedData, rows: ScoredRows | None = None) -> EvaluatedData:
    """Return the evaluated event alone, so that its losses are those of the event: of logits, if ``rows`` have them."""
    table = evaluated_data.of_table(data.tables[0], data.notion)
    if rows is not None and rows.distinct is not data.tables[0] and data.tables[0].grid is None:
        nll, variance = rows.log_loss
        table = replace(table, means=replace(table.means, nll=nll, nll_variance=variance))
    return replace(table.doubted_as(data), clusters=data.clusters, counted=data.counted, choices=data.choices)


def _recalibrated(data: EvaluatedData, folds: Parts, log_odds: Float64s) -> EvaluatedData:
    """Return the recalibrated rows of all folds."""
    scores = np.broadcast_to(probabilities(log_odds), folds.masses.shape)
    outcomes = np.broadcast_to(np.array([0, 1], np.uint8)[:, np.newaxis, np.newaxis], folds.masses.shape)
    held = folds.masses > 0
    n = data.tables[0].n
    masses = folds.masses[held]
    if data.tables[0].whole:
        masses = np.rint(masses)
    if folds.sizes is None:
        units = np.broadcast_to(folds.units[:, np.newaxis], folds.masses.shape)[held]
        table = ReliabilityTable.pool(Events(scores[held], outcomes[held], masses))
        if not data.tables[0].whole:
            rows = ReliabilityTable.pool(Events(scores[held], outcomes[held], masses * units))
            squares = np.stack([rows.counts - rows.positives, rows.positives])
            table = replace(table, square_weights=squares)
        elif data.tables[0].counts.dtype.kind == "i":
            table = replace(table, counts=table.counts.astype(np.int64), positives=table.positives.astype(np.int64))
        return replace(evaluated_data.of_table(replace(table, n=n), data.notion), choices=data.choices)
    buckets = np.broadcast_to(np.arange(len(folds.sizes))[:, np.newaxis], folds.masses.shape)[held]
    clustered = evaluated_data.of_arguments(scores[held], outcomes[held], weights=masses, clusters=buckets)
    clustered = replace(clustered, tables=[replace(clustered.tables[0], n=n)])
    return replace(_alone(clustered).doubted_as(data), choices=data.choices, counted=None)


def certified_loss(rows: ScoredRows, folds: Parts, maps: Mapping[int, Fit], score: str) -> float:
    """Return how far the mean loss by increasing maps may be from that of the single scores in the cells.

    In a cell (low, high] the losses of a row without and with the event are between those of both ends. It is 0 if each
    cell has one score.
    """
    low, high = rows.low, rows.high
    several = low < high
    losses = brier_losses if score == "brier" else log_losses
    total = 0.0
    for place, fold in enumerate(folds.folds.tolist()):
        of_low, of_high = (losses(maps[fold].pieces.of_logits(end[several])[np.newaxis]) for end in (low, high))
        masses = folds.masses[:, place, several]
        held = masses > 0
        total += float(masses[held] @ np.abs(of_high - of_low)[held])
    return total / folds.total


def _auroc(
    data: EvaluatedData, rows: ScoredRows, fit: Fit, before: Report, settings: ReportSettings
) -> tuple[tuple[int, int], Estimate]:
    """Return how many different scores the rows have before and after an increasing map, and the AUROC after it.

    It is that before if as many remain, because their order does. Its value is that of the rows, in clusters too.
    """
    z = rows.exact.log_odds
    mapped = fit.pieces.of_logits(z)
    numbers = min(len(data.tables[0]), len(z)), len(np.unique(probabilities(mapped)))
    if numbers[0] == numbers[1] or data.tables[0].grid is not None:
        return numbers, before["auroc"]
    alone = _auroc_of(data, SamplingDesign(Cells(rows.distinct)), mapped, settings)
    if data.clusters is None:
        return numbers, alone
    found = _auroc_of(data, rows.design, fit.pieces.of_logits(rows.log_odds), settings)
    found = _moved(found, alone.value - found.value)
    return numbers, replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))


def _auroc_of(data: EvaluatedData, design: SamplingDesign, log_odds: Float64s, settings: ReportSettings) -> Estimate:
    """Return the AUROC of rows with these mapped log-odds, (K,)."""
    parts = Parts.of(design)
    found = _recalibrated(data, parts, np.broadcast_to(log_odds, parts.masses.shape[1:]))
    return report_on(found, settings).report["auroc"]


def _as_after(
    before: Report, after: Report, gain: Gain, clipped: float | None, bound: float, known: Mapping[str, Estimate]
) -> Report:
    """Return the report on recalibrated rows, with what is known better.

    The loss that proves is the loss before, or of clipped scores, less the gain, with the certified error ``bound``;
    where it is above 0 the others have no known bound. Measures of the order are ``known``.
    """
    estimates = dict(not_below_floor(after).estimates)
    if bound != 0:
        estimates = {name: replace(part, error_bound=math.nan) for name, part in estimates.items()}
    estimates.update(known)
    name = "nll" if gain.score == "log" else "brier_event"
    shift = (before[name].value if clipped is None else clipped) - gain.value - estimates[name].value
    estimates[name] = replace(_moved(estimates[name], shift), error_bound=bound)
    return replace(after, estimates=estimates)


def not_below_floor(after: Report) -> Report:
    """Return a report of recalibrated rows whose errors end at the means of their noise floors, at least.

    Out-of-fold differences of a flexible map cancel in part.
    """
    estimates = dict(after.estimates)
    for name in CANCELLING:
        estimate = estimates[name]
        if estimate.floor is not None and estimate.high < estimate.floor.mean:
            estimates[name] = replace(estimate, high=estimate.floor.mean)
    return replace(after, estimates=estimates)


def _moved(estimate: Estimate, shift: float) -> Estimate:
    return replace(estimate, value=estimate.value + shift, low=estimate.low + shift, high=estimate.high + shift)


def map_event(notion: str, names: Sequence[str] | None) -> dict[str, Any]:
    """Return what a map says about the event of its scores."""
    return {"notion": notion, "class_names": None if names is None else list(names)}


def fitted_to(table: ReliabilityTable, *, clustered: bool) -> Fitted:
    """Return what a map was fitted to, from the table of the event."""
    cumulated = np.cumsum(table.counts) / table.total
    places = np.minimum(np.searchsorted(cumulated, _QUANTILES - 1e-12), len(table) - 1)
    scores = table.scores.astype(np.float64)
    return Fitted(
        n=table.n,
        positives=table.sums.positives,
        low=float(scores[0]),
        high=float(scores[-1]),
        quantiles=tuple(scores[places].tolist()),
        cluster=clustered,
    )


def _curve(
    procedure: EventProcedure, choice: Choice, parts: Parts, fit: Fit, table: ReliabilityTable, level: float
) -> MapCurve:
    """Return the map from the smallest to the largest score."""
    low, high = np.clip([table.scores[0], table.scores[-1]], CLIP, 1 - CLIP).astype(np.float64).tolist()
    scores = np.linspace(low, high, _POINTS if low < high else 1)
    lows, highs = procedure.band(choice, parts, scores, level)
    return MapCurve(
        scores=scores,
        mapped=probabilities(fit.pieces.log_odds(scores)),
        lows=lows,
        highs=highs,
    )
