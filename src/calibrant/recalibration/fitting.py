"""`recalibrate`: from predictions, a table or a sketch to a map of the scores, with proof that it helps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError, nearest
from calibrant.inputs.notions import PER_CLASS, Events
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.measures.listed import selected
from calibrant.recalibration.choice import Choice, Procedure, log_losses
from calibrant.recalibration.families import (
    BETA,
    COX,
    FAMILIES,
    IDENTITY,
    ISOTONIC,
    PRIOR_ROWS,
    ROWS_OF_BETA,
    Family,
    Fit,
    Rows,
    family_of,
)
from calibrant.recalibration.maps import CalibrationMap, Fitted
from calibrant.recalibration.pieces import CLIP, probabilities
from calibrant.recalibration.proof import Gain, gain_of
from calibrant.recalibration.result import MapCurve, Recalibration
from calibrant.report import evaluated
from calibrant.report.building import Settings, report_on
from calibrant.report.evaluated import Evaluated
from calibrant.report.report import Report
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Independent, rarer_rows
from calibrant.statistics.folds import Parts
from calibrant.statistics.resampling import Resampling, Rng
from calibrant.table import ReliabilityTable

#: The measures that are shown before and after.
MEASURES: Final = (
    "nll", "brier_event", "ece", "smece", "miscalibration", "calibration_slope", "calibration_intercept", "auroc",
)  # fmt: skip

#: Errors that a flexible map hides in part: their upper ends are at least the means of their noise floors.
_CANCELLING: Final = ("ece", "smece", "miscalibration")

#: The rows of the less frequent outcome that a map needs.
LEAST_ROWS: Final = 5

_QUANTILES: Final = np.linspace(0, 1, 21)
_POINTS: Final = 101  # of the curve of a map


def recalibrate(
    probs: Any,
    targets: Any = None,
    *,
    method: str = "auto",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    clusters: Any = None,
    weights_are: WeightsAre | None = None,
    prior_rows: float = PRIOR_ROWS,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Recalibration:
    r"""Fit the simplest map of the scores that helps, and show how much it helps on rows that the map never saw.

    Pass rows that the model was not trained on. Each map is fitted by maximum likelihood to the rows and to
    ``prior_rows`` more, which have the scores of the rows and outcomes as the scores say. With scores p and their
    log-odds z = log(p / (1 - p)), s the logistic function:

    - ``identity``: p
    - ``cox`` (``platt``, ``sigmoid``, ``logistic``): s(a + b z), b > 0
    - ``beta``: s(c + a log p - b log(1 - p)), a and b at least 0
    - ``isotonic``: lines in log-odds between the blocks of the isotonic fit, each pulled towards the ``cox`` line
    - ``shift``: s(a + z); ``temperature`` (``ts``): s(b z)
    - ``histogram``: the observed frequency of 15 bins with equally many rows; it does not keep the order of the scores

    ``auto`` compares the first four, ``beta`` from 1,000 rows on, and takes the simplest one whose mean log loss out of
    fold is within one standard error of the smallest. The gain of a row is its loss before less its loss after, by a
    map without its fold. To judge the whole procedure, the choice is repeated inside each set of four folds. With the
    mean gain O and its standard error, and the mean gain IS of the final map on its own rows, the interval of the true
    gain of the final map is

    .. math:: [O - t\,\mathrm{se},\ \max(O, IS) + t \max(\mathrm{se}, \mathrm{se}_{IS})] .

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits, class_names, weights_are
        As in `calibrant.evaluate`: arrays, a `ReliabilityTable` or a `CalibrationSketch` of one evaluated event,
        "positive" or "top-label". By default several classes are evaluated by the predicted one.
    method : str, default "auto"
        The family of the map, or "auto".
    clusters : array, (N,), or False, optional
        As in `calibrant.evaluate`. Whole clusters are dealt into folds, in the coarse cells of their sums, and the
        variance of the gain is between clusters. Pass it if rows share an outcome: otherwise folds see the outcomes of
        the rows that they evaluate, and a gain appears that is not there.
    prior_rows : float, default 20
        The weight of the scores themselves in each fit, in rows. With 0 a fit is the plain maximum likelihood.
    level : float, default 0.95
        The confidence of the intervals. A gain is proven if its p-value is at most 1 - level.
    n_resamples : int, default 1000
        The number of simulated data sets behind the noise floors before and after.
    rng : int or numpy.random.Generator, default 0
        The seed of folds and simulated data sets.

    Returns
    -------
    Recalibration
        The map, its gain, and the measures before and after. An error after recalibration has an upper end of at least
        the mean of its noise floor, because differences out of fold cancel in part.

    Raises
    ------
    calibrant.errors.InputError
        As `calibrant.evaluate`; for fewer than 5 rows of either outcome; for scores that do not rise with the outcomes,
        so that the slope is 0; for outcomes that a threshold separates, with ``prior_rows=0``.

    Notes
    -----
    Scores are moved into [1.5e-7, 1 - 1.5e-7], so that 0 and 1 have finite log-odds. If a probability of 0 or 1 was
    wrong, the log loss is infinite; then the Brier score proves the gain. More than 4,396 distinct scores are dealt and
    evaluated in the cells of the standard grid. Rows of equal score are interchangeable, so the order of the rows plays
    no part. Cost: 0.1 to 0.3 s for the map and its proof at any number of rows, on top of two reports.

    References
    ----------
    Cox (1958). Kull, Silva Filho, Flach (2017), doi 10.1214/17-EJS1338SI. Bates, Hastie, Tibshirani (2023), doi
    10.1080/01621459.2023.2197686.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2_000)
    >>> fix = calibrant.recalibrate(scores, rng.random(2_000) < scores**2)
    >>> fix.chosen, fix.proven, round(fix.gain.value, 3), round(fix.gain.low, 3), round(fix.gain.high, 3)
    ('cox', True, 0.093, 0.076, 0.112)
    >>> fix.map([0.2, 0.5]).round(2).tolist()
    [0.05, 0.23]
    """
    family = _family(method)
    if not isinstance(prior_rows, (int, float)) or isinstance(prior_rows, bool) or not 0 <= prior_rows < math.inf:
        raise InputError("prior_rows", "a number from 0", repr(prior_rows), "leave it out: 20 suits any data")
    resampling = Resampling.of(level, n_resamples, rng)
    data, _ = evaluated.of_arguments(
        probs,
        targets,
        notion=notion,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
        class_names=class_names,
        clusters=clusters,
        weights_are=weights_are,
    )
    if data.notion in PER_CLASS:
        raise InputError("notion", "'positive' or 'top-label'", repr(data.notion), "pass one class at a time")
    return _of_event(data, method, family, prior_rows, resampling)


def _family(method: object) -> Family | None:
    """Return the family of a method; None for "auto"."""
    if method == "auto":
        return None
    names = ["auto", *(name for family in FAMILIES for name in (family.name, *family.aliases))]
    if not isinstance(method, str) or method not in names:
        raise InputError("method", f"one of {', '.join(names)}", repr(method), nearest(str(method), names))
    return family_of(method)


def _of_event(
    data: Evaluated, method: str, family: Family | None, prior_rows: float, resampling: Resampling
) -> Recalibration:
    (table,) = data.tables
    cells = Cells.from_table(table)
    rarer = rarer_rows(cells)
    if rarer < LEAST_ROWS:
        expected = f"at least {LEAST_ROWS} rows of either outcome"
        raise InputError("targets", expected, f"{rarer:g} of the less frequent one", "pass more rows")
    design: Independent | Clustered
    design = Independent(cells) if data.clusters is None else Clustered.of(cells, data.clusters.event)
    parts = Parts.of(design)
    candidates = (family,) if family is not None else _candidates(cells.effective_n, certain=bool(table.impossible))
    scores = design.cells.scores
    procedure = Procedure(
        candidates=candidates,
        prior_rows=prior_rows,
        scores=scores,
        rows=cells.effective_n,
        weight=parts.total,
        seed=resampling.seed,
    )
    choice = procedure.choose(parts)
    fit = _fitted(choice.family, table, cells.effective_n, prior_rows)
    folds, out_of_fold = procedure.evaluated(parts)
    score = "brier" if table.impossible or math.isinf(folds.mean(log_losses(out_of_fold))) else "log"
    gain = gain_of(scores, parts, fit.pieces.log_odds(scores), folds, out_of_fold, score, resampling.level)
    settings = Settings(n_bins=15, **selected(list(MEASURES), None)._asdict(), resampling=resampling)
    before = report_on(_alone(data), settings).report
    after = before
    if choice.family is not IDENTITY:
        after = report_on(_recalibrated(data, folds, out_of_fold), settings).report
        after = _as_after(before, after, gain, increasing=fit.kind != "bins")
    fix = Recalibration(
        map=CalibrationMap(
            kind=fit.kind,
            parameters=fit.parameters,
            event={"notion": data.notion, "class_names": None if data.names is None else list(data.names)},
            fitted=_fitted_to(table, clustered=data.clusters is not None),
        ),
        method=method,
        chosen=choice.family.name,
        runner_up=_runner_up(choice),
        losses={name: (loss, choice.errors[name]) for name, loss in choice.losses.items()},
        gain=gain,
        before=before,
        after=after,
        flag=design.sample.flag,
        curve_maker=partial(_curve, procedure, choice.family, parts, fit, table, resampling.level),
    )
    numbers = fix.to_dict(curves=False)
    evidence = {"gain": numbers["gain"]} | {
        when: {name: {end: part[end] for end in ("value", "low", "high")} for name, part in numbers[when].items()}
        for when in ("before", "after")
    }
    return replace(fix, map=replace(fix.map, evidence=evidence, proven=fix.proven))


def _candidates(rows: float, *, certain: bool) -> tuple[Family, ...]:
    """Return the candidates of "auto"; a score of 0 or 1 that was wrong cannot remain."""
    return (
        *(() if certain else (IDENTITY,)),
        COX,
        *((BETA,) if rows >= ROWS_OF_BETA else ()),
        ISOTONIC,
    )


def _fitted(family: Family, table: ReliabilityTable, rows: float, prior_rows: float) -> Fit:
    """Return the map that is fitted to all rows.

    Raises
    ------
    InputError
        If the fit is at its bound.
    """
    share = rows / table.total
    counts, positives = (np.asarray(column, np.float64) * share for column in (table.counts, table.positives))
    fit = family.fit(Rows(table.scores.astype(np.float64), counts, positives), prior_rows)
    if not fit.rising:
        expected = "scores that rise with the event"
        got = "higher scores that do not go with more outcomes (slope 0), so that no increasing map helps"
        raise InputError("probs", expected, got, "check that the scores are of this event, and not of its opposite")
    return fit


def _alone(data: Evaluated) -> Evaluated:
    """Return the evaluated event alone, so that its losses are those of the event."""
    table = evaluated.of_table(data.tables[0], data.notion)
    return replace(table, clusters=data.clusters, flag=data.flag, counted=data.counted, choices=data.choices)


def _recalibrated(data: Evaluated, folds: Parts, log_odds: Float64s) -> Evaluated:
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
        return replace(evaluated.of_table(replace(table, n=n), data.notion), choices=data.choices)
    buckets = np.broadcast_to(np.arange(len(folds.sizes))[:, np.newaxis], folds.masses.shape)[held]
    clustered, _ = evaluated.of_arguments(scores[held], outcomes[held], weights=masses, clusters=buckets)
    return replace(_alone(clustered), choices=data.choices, counted=None, flag=data.flag)


def _as_after(before: Report, after: Report, gain: Gain, *, increasing: bool) -> Report:
    """Return the report on recalibrated rows, with what is known better.

    Out-of-fold differences of a flexible map cancel in part, so an error ends at the mean of its noise floor at least.
    The loss that proves is the loss before less the gain. An increasing map keeps the AUROC, which rounding would move.
    """
    estimates = dict(after.estimates)
    for name in _CANCELLING:
        estimate = estimates[name]
        if estimate.floor is not None and estimate.high < estimate.floor.mean:
            estimates[name] = replace(estimate, high=estimate.floor.mean)
    if increasing:
        estimates["auroc"] = before["auroc"]
    loss = "nll" if gain.score == "log" else "brier_event"
    shift = before[loss].value - gain.value - estimates[loss].value
    estimates[loss] = _moved(estimates[loss], shift)
    return replace(after, estimates=estimates)


def _moved(estimate: Estimate, shift: float) -> Estimate:
    return replace(estimate, value=estimate.value + shift, low=estimate.low + shift, high=estimate.high + shift)


def _fitted_to(table: ReliabilityTable, *, clustered: bool) -> Fitted:
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
    procedure: Procedure, family: Family, parts: Parts, fit: Fit, table: ReliabilityTable, level: float
) -> MapCurve:
    """Return the map from the smallest to the largest score."""
    low, high = np.clip([table.scores[0], table.scores[-1]], CLIP, 1 - CLIP).astype(np.float64).tolist()
    scores = np.linspace(low, high, _POINTS if low < high else 1)
    lows, highs = procedure.band(family, parts, scores, level)
    return MapCurve(
        scores=scores,
        mapped=probabilities(fit.pieces.log_odds(scores)),
        lows=lows,
        highs=highs,
    )


def _runner_up(choice: Choice) -> str | None:
    others = {name: loss for name, loss in choice.losses.items() if name != choice.family.name}
    return min(others, key=others.__getitem__) if others else None
