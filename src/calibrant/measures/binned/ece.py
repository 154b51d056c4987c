"""The expected calibration error (ECE), over bins of equal width or of equal frequency, and the ECE less its bias."""

from __future__ import annotations

from collections.abc import Callable

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned import binned
from calibrant.measures.binned.bin_inference import absolute_interval, absolute_law
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import Binning, Closed, Norm
from calibrant.measures.binned.certified import ace_bound, ece_bound
from calibrant.measures.binned.cluster_bins import quantile_sums, uniform_bins, uniform_sums
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.differences import pair
from calibrant.measures.event import Event, certified
from calibrant.measures.means.in_the_large import largest_gap
from calibrant.measures.measure import Details, Difference, Measure, Null, OverClasses
from calibrant.measures.read_arguments import binned_error, bins_with_rows
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval


def expected_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    norm: Norm = "l1",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the expected calibration error (ECE): the mean difference of predicted and observed over bins.

    .. math:: \mathrm{ECE} = \sum_b o_b\,|P_b - Y_b|

    with :math:`o_b` the share of the rows in bin b, :math:`P_b` their mean score and :math:`Y_b` their mean outcome.
    It is in [0, 1], in units of probability; lower is better. On a finite sample it is above 0 even for a calibrated
    model.

    Parameters
    ----------
    probs : array, (N,), (N, 1), (N, C) or (N, C, ...)
        Probabilities of the event 1, or of each of C classes. The classes of a row sum to 1 (within 1e-3 plus twice
        the type's resolution), unless ``notion="multilabel"``. Arrays of NumPy, PyTorch, JAX, CuPy, pandas, Polars and
        PyArrow, and lists; float16, bfloat16, float32 and float64, in any memory layout. Rows of classes on a GPU are
        read there. Or a `ReliabilityTable` of one event, or a `CalibrationSketch`; either holds all data, so
        ``targets``, ``notion``, ``weights``, ``ignore_index`` and ``logits`` are left out.
    targets : array, (N,) or (N, ...), or one-hot like probs
        0 or 1, or class indices 0 to C - 1; booleans and integral floats are fine.
    n_bins : int, default 15
        The number of bins.
    notion : {"positive", "top-label", "classwise", "multilabel"}, optional
        The evaluated event. "positive": the label is 1; its score is P(y = 1). This is the default for (N,) and (N, 1).
        "top-label": the predicted class is right; its score is max p, for a single score max(p, 1 - p). This is the
        default for (N, C). "classwise": each class alone, combined as in `classwise_calibration_error`.
        "multilabel": the same for independent labels, with targets (N, C) of 0 and 1.
    binning : {"uniform", "quantile"}, default "uniform"
        Bins of equal width 1 / M, or of equal frequency. Tied scores are never split.
    norm : {"l1", "l2", "max"}, default "l1"
        How the bins' gaps are combined: mean, root mean square, maximum.
    closed : {"right", "left"}, default "right"
        The closed side of uniform bins: ((j-1)/M, j/M] with 0 in the first bin, or [(j-1)/M, j/M) with 1 in the last.
        Edges are rounded to the scores' type, so 0.6 is on the edge 0.6 in every precision.
    weights : array, (N,) or (N, ...), optional
        Frequency weights: weight 2 counts the row twice, weight 0 leaves it out.
    ignore_index : int, optional
        Rows with this target are left out, whatever their probabilities.
    logits : bool, default False
        Whether ``probs`` are logits: log-odds of one event, or inputs of a softmax over classes. This is never guessed.
        Of classes, -inf has probability 0, as in a model that masks classes; every row needs a finite logit.

    Returns
    -------
    float
        Empty bins add nothing, and there may be fewer rows than bins. Ties are pooled, so the order of the rows plays
        no part.

    Raises
    ------
    calibrant.errors.InputError
        A `ValueError` that names the argument, what was expected, what came and what to do. For empty input, NaN or
        infinity, values outside [0, 1] beyond rounding, rows that do not sum to 1, targets out of range,
        unusable weights and unknown options.

    Notes
    -----
    Cost: one read of the N x C numbers and O(N); a sort of N integers for quantile bins.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI. Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599.

    Examples
    --------
    >>> import calibrant
    >>> ece = calibrant.expected_calibration_error([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2)
    >>> round(ece, 12)
    0.29
    >>> probs = [[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]]
    >>> round(calibrant.expected_calibration_error(probs, [2, 1, 2], n_bins=2), 12)
    0.363333333333
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return binned_error(arguments, n_bins, binning=binning, norm=norm, closed=closed)


def _details(event: Event) -> Details:
    """Return two parts of the error: from bins that overestimate, and from bins that underestimate."""
    gaps, total = event.of(uniform_bins).gap_sums, event.table.total
    return {
        "over_stated": float(gaps[gaps > 0].sum() / total),
        "under_stated": float(-gaps[gaps < 0].sum() / total),
    }


def _interval(inference: Inference, measure: Measure, sums: Callable[[Event], BinSums], method: str) -> Interval:
    value, rejected = inference.event.value(measure), inference.rejects(measure)
    return Interval(*absolute_interval(inference.event.of(sums), value, inference.level, rejected=rejected), method)


ECE: Measure = Measure(
    name="ece",
    label="ECE",
    meaning="Expected calibration error: the mean absolute difference between predicted and observed frequency over "
    "bins of equal width.",
    misleads="Positive and negative differences within a bin cancel.",
    computed="The ECE is the mean absolute difference between mean predicted probability and observed frequency over "
    "{bins}, weighted by their rows",
    sources=("Naeini et al. 2015",),
    value=lambda event: binned.calibration_error(event.of(uniform_bins), "l1"),
    binning="uniform",
    details=_details,
    bound=certified(lambda cells, event: ece_bound(cells, event.n_bins)),
    interval=lambda inference: _interval(inference, ECE, uniform_sums, "Gaussian thinning"),
    implied=largest_gap,
    null=Null(
        replicate=lambda replicates: binned.absolute_error(replicates.uniform_gaps, replicates.inference.cells.total),
        closed_form=lambda inference: absolute_law(inference.event.of(uniform_sums), inference.level),
    ),
    over_classes=OverClasses(binning="uniform"),
    difference=Difference(
        value=lambda model: model.absolute,
        estimate=pair.absolute_difference,
    ),
    functions=(expected_calibration_error,),
)


def gaussian_debiased_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the ECE less an estimate of its bias, from Gaussian noise of the bins' observed frequencies.

    .. math:: \sum_b o_b \bigl(2\,|D_b| - \mathbb E\,|X_b|\bigr), \qquad
              X_b \sim \mathcal N\bigl(D_b,\; Y_b (1 - Y_b) / n_b\bigr),\quad D_b = P_b - Y_b

    with the symbols of `expected_calibration_error`. E abs(X) has a closed form. A bin whose rate is 0 or 1 shows no
    noise and adds abs(D). It is in [-1, 1], in units of probability, and lower is better; it may be below 0, although
    the true error cannot be.

    It misleads near calibration: there most of the bias remains. Compare it with what calibrated scores show
    (`calibrant.inference.noise_floor`), or take ``debiased=True`` of `root_mean_square_calibration_error`, whose square
    is unbiased.

    Empty bins add nothing. Ties are pooled, so the order of the rows plays no part. With weights that are not whole, n
    is the number of equal rows whose rate would be as uncertain. The authors' program takes quantile bins. Parameters,
    errors and cost are those of `expected_calibration_error`, for one evaluated event; weights need a sort.

    References
    ----------
    Kumar, Liang, Ma (2019), arXiv 1909.10155.

    Examples
    --------
    >>> import calibrant
    >>> scores, outcomes = [0.25, 0.25, 0.25, 0.25, 0.75, 0.75], [0, 1, 1, 0, 1, 1]
    >>> round(calibrant.gaussian_debiased_calibration_error(scores, outcomes, n_bins=2), 6)
    0.222228
    """
    binned.check_bins(n_bins, binning, closed=closed)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    bins = bins_with_rows(arguments, n_bins, binning, closed)
    return binned.gaussian_debiased_error(bins)


def adaptive_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    norm: Norm = "l1",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the adaptive calibration error (ACE): the calibration error over bins of equal frequency.

    Let w be the weight of a distinct score, A the weight of all scores up to and including it, and W the total weight.
    The score belongs to bin :math:`\min(M - 1, \lfloor M (A - w/2) / W \rfloor)`. So ties are never split, and the
    order of the rows plays no part. The ACE equals ``expected_calibration_error(..., binning="quantile")``, with the
    same parameters, errors and range. By default the evaluated event is the positive class or the top label;
    ``notion="classwise"`` gives Nixon's ACE.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685. Nguyen, O'Connor (2015), arXiv 1508.05154.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.adaptive_calibration_error([0.5] * 4, [1, 1, 0, 0]), 12)
    0.0
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return binned_error(arguments, n_bins, binning="quantile", norm=norm, closed="right")


def _adaptive_replicate(replicates: Replicates) -> Float64s:
    bins = replicates.inference.event.of(quantile_sums)
    return binned.absolute_error(bins.over_bins(replicates.gap_sums), bins.moments.total)


ACE: Measure = Measure(
    name="ace",
    label="adaptive ECE",
    meaning="The mean absolute difference between predicted and observed frequency over equal-frequency bins, whose "
    "edges depend on the data.",
    misleads="The bins are wide where scores are sparse.",
    computed="The adaptive ECE is the mean absolute difference between mean predicted probability and observed "
    "frequency over {bins}",
    sources=("Nguyen and O'Connor 2015",),
    value=lambda event: binned.calibration_error(binned.quantile_bins(event.table, event.n_bins), "l1"),
    binning="quantile",
    bound=certified(lambda cells, event: ace_bound(cells, event.n_bins)),
    interval=lambda inference: _interval(
        inference, ACE, quantile_sums, "Gaussian thinning, with the bin edges held fixed"
    ),
    implied=largest_gap,
    null=Null(
        replicate=_adaptive_replicate,
        closed_form=lambda inference: absolute_law(inference.event.of(quantile_sums), inference.level),
    ),
    over_classes=OverClasses(binning="quantile"),
    functions=(adaptive_calibration_error,),
)
