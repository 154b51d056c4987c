"""The root mean square calibration error (RMSCE), its square without the bias of noise, and Murphy's parts over bins.

The reliability of Murphy is the square of the RMSCE; it and the resolution are parts of the Brier score.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned import binned, rmsce
from calibrant.measures.binned.bin_inference import square_interval, square_laws
from calibrant.measures.binned.binned import Binning, Closed
from calibrant.measures.binned.certified import debiased_square_bound, resolution_bound, rmsce_bound
from calibrant.measures.binned.cluster_bins import uniform_bins, uniform_sums
from calibrant.measures.binned.ece import ECE
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.differences import pair
from calibrant.measures.event import Event, certified
from calibrant.measures.measure import NOT_AN_ERROR, Details, Difference, Measure, Null, OverClasses, Unavailable
from calibrant.measures.read_arguments import binned_error, bins_with_rows
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval


def root_mean_square_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    debiased: bool = False,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the root mean square calibration error (RMSCE), the l2 norm of the bins' gaps.

    .. math:: \mathrm{RMSCE} = \Bigl(\sum_b o_b (P_b - Y_b)^2\Bigr)^{1/2}

    It is in [0, 1]; lower is better. It is never below the ECE of the same bins. ``debiased`` takes out the noise of
    the bins' rates: the result is the square root of max(0, T),

    .. math:: T = \sum_b o_b \frac{n_b (P_b - Y_b)^2 - \mathrm{mean}_b (p - y)^2}{n_b - 1},

    where T is an unbiased estimate of the squared error of the binned scores. Bins of fewer than two rows add nothing.
    T itself may be negative; it is in ``evaluate(...)["rmsce"].details``. The other parameters, errors and cost are
    those of `expected_calibration_error`. Classes are combined by the root mean square of their errors.

    Raises
    ------
    calibrant.errors.InputError
        Also for ``debiased`` with a classwise or multilabel notion.

    References
    ----------
    Kumar, Liang, Ma (2019), arXiv 1909.10155. Bröcker (2012), doi 10.1007/s00382-011-1191-1.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1]
    >>> round(calibrant.root_mean_square_calibration_error(p, y, n_bins=2), 4)
    0.2918
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    if not debiased:
        return binned_error(arguments, n_bins, binning=binning, norm="l2", closed=closed)
    binned.check_bins(n_bins, binning, "l2", closed)
    bins = bins_with_rows(arguments, n_bins, binning, closed)
    return math.sqrt(max(0.0, binned.debiased_square_error(bins)))


_METHOD = "normal below, score-inverted above"


def _details(event: Event) -> Details:
    square = event.value(DEBIASED_SQUARE)
    return {"debiased": math.sqrt(max(square, 0.0)), "debiased_square": square}


def _square_ends(inference: Inference) -> tuple[float, float]:
    square, rejected = inference.event.value(DEBIASED_SQUARE), inference.rejects(DEBIASED_SQUARE)
    return square_interval(inference.event.of(uniform_sums), square, inference.level, rejected=rejected)


def _interval(inference: Inference) -> Interval:
    low, high = _square_ends(inference)
    high = max(math.sqrt(max(high, 0.0)), inference.event.value(RMSCE))
    method = f"square roots of the CI of the debiased squared calibration error: {_METHOD}"
    return Interval(math.sqrt(max(low, 0.0)), high, method)


def _debiased_square(event: Event) -> float:
    """Return the unbiased squared l2 error, by pairs of independent rows."""
    if event.clusters is None:
        return binned.debiased_square_error(event.of(uniform_bins))
    return event.of(uniform_sums).square


def replicate(replicates: Replicates) -> Float64s:
    """Return the RMSCE of each simulated data set."""
    moments = replicates.inference.event.of(uniform_sums).moments
    return binned.root_square_error(replicates.uniform_gaps, moments.counts, moments.total)


def _error(event: Event) -> float:
    return binned.calibration_error(event.of(uniform_bins), "l2")


RMSCE = Measure(
    name="rmsce",
    label="RMSCE",
    meaning="Root mean square calibration error: like the ECE, with more weight on large differences.",
    misleads="Its upward bias is larger than that of the ECE.",
    computed="The RMSCE is the root mean square difference between mean predicted probability and observed frequency "
    "over {bins}",
    sources=("Kumar et al. 2019",),
    value=_error,
    binning="uniform",
    details=_details,
    bound=certified(lambda cells, event: rmsce_bound(cells, event.n_bins, _error(event))),
    interval=_interval,
    implied=lambda inference: inference.interval(ECE).high,  # a root mean square is not below the mean of sizes
    null=Null(
        replicate=replicate,
        closed_form=lambda inference: square_laws(inference.event.of(uniform_sums), inference.level)[0],
    ),
    over_classes=OverClasses(norm="l2"),
    functions=(root_mean_square_calibration_error,),
)

DEBIASED_SQUARE = Measure(
    name="debiased_square",
    label="debiased squared CE",
    meaning="Debiased squared calibration error: an unbiased estimate of the squared RMSCE. The mean is 0 under "
    "calibration.",
    misleads="The estimate can be negative. A squared error of 0.01 corresponds to a difference of 0.1.",
    computed="The debiased squared CE is an unbiased estimate of the squared RMSCE over {bins}",
    sources=("Bröcker 2012", "Kumar et al. 2019"),
    value=_debiased_square,
    scale="square",
    binning="uniform",
    bound=certified(lambda cells, event: debiased_square_bound(cells, event.n_bins, _debiased_square(event))),
    interval=lambda inference: Interval(*_square_ends(inference), _METHOD),
    implied=lambda inference: inference.interval(RMSCE).high ** 2,
    null=Null(
        replicate=lambda draws: draws.inference.event.of(uniform_sums).debiased_square(
            draws.uniform_gaps, draws.sums.own_squares
        ),
        statistic=replicate,
        closed_form=lambda inference: square_laws(inference.event.of(uniform_sums), inference.level)[1],
    ),
    difference=Difference(
        value=lambda model: model.square,
        estimate=pair.square_difference,
        decides=True,
    ),
)

_FORECAST: Final = frozenset({"forecast"})


def _reliability_bound(event: Event) -> float:
    """Return the certified error of a square: abs(a^2 - b^2) <= d (2 a + d) for abs(a - b) <= d."""
    bound = event.bound(RMSCE)
    return bound * (2 * event.value(RMSCE) + bound)


def _resolution(event: Event) -> float:
    """Return how far the rates of the bins are from the base rate: the sum of o_b (Y_b - base rate)^2."""
    bins = event.of(uniform_bins)
    filled = bins.counts > 0
    rates = bins.positives[filled] / bins.counts[filled]
    return float(bins.counts[filled] @ (rates - event.outcome_rate) ** 2) / event.table.total


MURPHY_RELIABILITY = Measure(
    name="murphy_reliability",
    label="Murphy reliability",
    meaning="Reliability component of the Brier score over bins: the square of the RMSCE. The ideal value is 0.",
    misleads="It depends on the bins.",
    computed="The Murphy reliability is the mean squared difference between mean predicted probability and observed "
    "frequency over {bins}",
    sources=("Murphy 1973",),
    value=lambda event: event.value(RMSCE) ** 2,
    scale="score",
    binning="uniform",
    profiles=_FORECAST,
    bound=_reliability_bound,
    interval=Unavailable("no interval: square the interval limits of the RMSCE"),
    null=Null(replicate=lambda replicates: np.square(rmsce.replicate(replicates))),
)

MURPHY_RESOLUTION = Measure(
    name="murphy_resolution",
    label="Murphy resolution",
    meaning="Resolution component of the Brier score: the variance of the observed frequencies of the bins. Higher is "
    "better.",
    misleads="It depends on the bins.",
    computed="The Murphy resolution is the variance of the observed frequencies of {bins} around the base rate",
    sources=("Murphy 1973",),
    value=_resolution,
    scale="score",
    better="higher",
    range=(0.0, 0.25),
    profiles=_FORECAST,
    bound=certified(lambda cells, event: resolution_bound(cells, event.n_bins)),
    interval=Unavailable("no interval: chance variation in the bins biases the measure upwards"),
    null=NOT_AN_ERROR,
)
