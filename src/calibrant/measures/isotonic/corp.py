"""The CORP decomposition of a proper score: miscalibration, discrimination and uncertainty."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from calibrant.errors import check_choice
from calibrant.inputs.predictions import Notion
from calibrant.inputs.scores import SCORES, Score
from calibrant.kernels import dispatch
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Closed
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event, certified
from calibrant.measures.isotonic import isotonic
from calibrant.measures.means.in_the_large import largest_gap
from calibrant.measures.means.means import rate_rows, uncertainty_interval
from calibrant.measures.measure import NOT_AN_ERROR, Measure, Null, exact
from calibrant.measures.read_arguments import event_table, table_bins
from calibrant.measures.simulated import ClusterNull, GapSums, RowNull, null_of
from calibrant.measures.unseen import unseen_share
from calibrant.results import ScoreDecomposition
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import Resampling, Stream

_ROUNDING: Final = 1e-12  # of the uncertainty: a smaller Brier score of the isotonic fit is rounding


def score_decomposition(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    score: Score = "brier",
    method: Literal["corp", "murphy"] = "corp",
    n_bins: int = 15,
    binning: Binning = "uniform",
    closed: Closed = "right",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ScoreDecomposition:
    r"""Decompose a mean proper score of the evaluated event into miscalibration, discrimination and uncertainty.

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}

    CORP: let x be the isotonic fit of the outcomes on the scores, and r the base rate. Then MCB = S(p) - S(x),
    DSC = S(r) - S(x) and UNC = S(r). MCB is what a monotone recalibration gains on these rows. No bins have to be
    chosen, and all terms are at least 0. Murphy: reliability, resolution and uncertainty of a histogram. What the bins
    hide is added as ``within_bins``.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event.
    score : {"brier", "log"}, default "brier"
        The proper score: (p - y)^2, or minus the log of the probability of the observed outcome.
    method : {"corp", "murphy"}, default "corp"
        The isotonic fit, or bins.
    n_bins, binning, closed
        Only for ``method="murphy"``, as in `expected_calibration_error`.

    Returns
    -------
    ScoreDecomposition
        An infinite log score makes the miscalibration infinite, or ``within_bins`` if the bins hide it; the other terms
        stay finite.

    Notes
    -----
    Cost: one read, one sort of N integers, O(N).

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), doi 10.1073/pnas.2016191118. Murphy (1973), doi
    10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2. Stephenson, Coelho, Jolliffe (2008), doi 10.1175/2007WAF2006116.1.

    Examples
    --------
    >>> import calibrant
    >>> p = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1]
    >>> parts = calibrant.score_decomposition(p, [0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    >>> [round(x, 5) for x in (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)]
    [0.29375, 0.11875, 0.075, 0.25]
    """
    check_choice("score", score, SCORES)
    check_choice("method", method, ("corp", "murphy"))
    binned.check_bins(n_bins, binning, "l1", closed)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    table = event_table(arguments, "a score decomposition")
    if method == "corp":
        return isotonic.corp(table, score)
    return isotonic.murphy(table, table_bins(table, n_bins, binning, closed), score)


def decomposition(event: Event) -> ScoreDecomposition:
    """Return CORP's decomposition of the Brier score: ``event.of(decomposition)``."""
    return isotonic.corp(event.table, "brier")


_bound = certified(lambda cells, _: isotonic.recalibrated_bound(cells))


def coarse_miscalibrations(sums: GapSums) -> Float64s:
    """Return the miscalibration on the coarse cells; `refinement` is yet to be multiplied."""
    fits = np.clip(dispatch.isotonic_fits(sums.law.cells.counts, sums.positives), 0.0, 1.0)
    return isotonic.miscalibrations(sums.law.cells, sums.positives, fits)


def refinement(null: RowNull | ClusterNull, resampling: Resampling) -> float:
    """Return f, how much larger the miscalibration is on all cells, which the fit follows, than on coarse ones.

    f is the ratio of the means of simulated data sets of calibrated independent rows; 1 where these have all cells.
    """
    if isinstance(null, RowNull):
        return 1.0
    fine = null.rows.fine

    def block(rng: np.random.Generator, size: int) -> Float64s:
        outcomes = fine.calibrated.draw(rng, size)
        return isotonic.miscalibrations(fine, outcomes, dispatch.isotonic_fits(fine.counts, outcomes))

    mean = float(resampling.draws(Stream.CALIBRATED, block).mean())
    coarse = float(null.replicates(coarse_miscalibrations, resampling, independent=True).mean())
    return mean / coarse if coarse > 0 else 1.0


def _refinement(inference: Inference) -> float:
    """Return the factor of simulated data sets: ``inference.of(_refinement)``."""
    return refinement(inference.event.of(null_of), inference.resampling)


def _replicate(replicates: Replicates) -> Float64s:
    inference = replicates.inference
    coarse = isotonic.miscalibrations(inference.cells, replicates.positives, replicates.fits)
    if replicates is not inference.observed:
        return coarse * inference.of(_refinement)
    if isinstance(inference.design, Clustered) and coarse[0] > 0:
        coarse = coarse * (inference.event.of(decomposition).miscalibration / float(coarse[0]))
    return coarse


def _miscalibration_interval(inference: Inference) -> Interval:
    if not inference.resampling.n_resamples:
        return Interval(math.nan, math.nan, "no interval: an interval needs resampling (n_resamples)")
    value, rejected = inference.event.value(MISCALIBRATION), inference.rejects(MISCALIBRATION)
    null_sd = float(inference.replicates_of(MISCALIBRATION).std())
    ends = isotonic.miscalibration_interval(inference.design, value, null_sd, inference.resampling, rejected=rejected)
    return Interval(*ends, isotonic.METHOD)


def _discrimination_interval(inference: Inference) -> Interval:
    """Return the interval; where the scores separate the outcomes, with a share of errors that were not seen."""
    value, parts = inference.event.value(DISCRIMINATION), inference.event.of(decomposition)
    low, high = isotonic.discrimination_interval(inference.design, value, inference.resampling)
    if parts.uncertainty - parts.discrimination > _ROUNDING * parts.uncertainty:
        return Interval(low, high, isotonic.METHOD)
    share = min(unseen_share(inference.design.units, inference.level), 0.5)
    return Interval(
        min(low, max(value - share * (1 - share), 0.0)),
        high,
        f"{isotonic.METHOD}; interval widened, because events and non-events are separated here, but may overlap in "
        "new data",
    )


def _uncertainty_interval(inference: Inference) -> Interval:
    rate, rows = inference.event.outcome_rate, rate_rows(inference.design, inference.level)
    low, high = uncertainty_interval(rate, rows, inference.level)
    value = inference.event.of(decomposition).uncertainty  # within the ends, but for the rounding of its sum
    return Interval(min(low, value), max(high, value), "Clopper-Pearson of the base rate")


MISCALIBRATION = Measure(
    name="miscalibration",
    label="miscalibration",
    meaning="Miscalibration component (MCB) of the Brier score: the part that isotonic recalibration on these "
    "data would remove.",
    misleads="The isotonic fit overfits, so a calibrated model is also above 0.",
    computed="The miscalibration is the decrease of the Brier score by the isotonic (CORP) fit of outcomes on scores",
    sources=("Dimitriadis et al. 2021",),
    profiles=frozenset({"standard", "forecast"}),
    value=lambda event: event.of(decomposition).miscalibration,
    scale="score",
    details=lambda event: {"brier_of_event": event.of(decomposition).score},
    bound=lambda event: event.of(_bound),
    interval=_miscalibration_interval,
    implied=lambda inference: largest_gap(inference) ** 2,  # which moving all scores by the mean difference takes away
    null=Null(replicate=_replicate),
)

DISCRIMINATION = Measure(
    name="discrimination",
    label="discrimination",
    meaning="Discrimination component (DSC) of the Brier score: the improvement over always predicting the base rate, "
    "after recalibration. Higher is better.",
    misleads="It is above 0 even for predictions without skill.",
    computed="The discrimination is the Brier score of the base rate minus the Brier score of the isotonic fit of "
    "outcomes on scores (CORP)",
    sources=("Dimitriadis et al. 2021",),
    profiles=frozenset({"standard", "forecast"}),
    value=lambda event: event.of(decomposition).discrimination,
    scale="score",
    better="higher",
    range=(0.0, 0.25),
    bound=lambda event: event.of(_bound),
    interval=_discrimination_interval,
    null=NOT_AN_ERROR,
)

UNCERTAINTY = Measure(
    name="uncertainty",
    label="uncertainty",
    meaning="Uncertainty component of the Brier score: the Brier score of always predicting the base rate.",
    misleads="It does not depend on the model.",
    computed="The uncertainty is the Brier score of always predicting the base rate",
    sources=("Murphy 1973",),
    profiles=frozenset({"standard", "forecast"}),
    value=lambda event: event.of(decomposition).uncertainty,
    scale="score",
    better="neither",
    range=(0.0, 0.25),
    bound=exact,
    interval=_uncertainty_interval,
    null=NOT_AN_ERROR,
)
