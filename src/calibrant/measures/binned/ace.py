"""The adaptive calibration error (ACE): over bins of equal frequency."""

from __future__ import annotations

from typing import Any

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import binned_error
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Norm
from calibrant.measures.binned.certified import ace_bound
from calibrant.measures.binned.clustered import quantile_sums
from calibrant.measures.binned.intervals import absolute_interval, absolute_law
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import certified
from calibrant.measures.gap import largest_gap
from calibrant.measures.measure import Measure, Null, OverClasses
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.null import Interval


def adaptive_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    norm: Norm = "l1",
    weights: Any = None,
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


def _interval(inference: Inference) -> Interval:
    value, rejected = inference.event.value(ACE), inference.rejects(ACE)
    ends = absolute_interval(inference.event.of(quantile_sums), value, inference.level, rejected=rejected)
    return Interval(*ends, "Gaussian thinning, for bins with these edges")


def _replicate(replicates: Replicates) -> Float64s:
    bins = replicates.inference.event.of(quantile_sums)
    return binned.absolute_error(bins.over_bins(replicates.gap_sums), bins.moments.total)


ACE = Measure(
    name="ace",
    label="adaptive ECE",
    meaning="The mean absolute difference between predicted and observed frequency over equal-frequency bins, whose "
    "edges depend on the data.",
    misleads="The adaptive ECE is positive by chance. Equal-frequency bins are wide where scores are sparse.",
    computed="The adaptive ECE is the mean absolute difference between mean predicted probability and observed "
    "frequency over {bins}",
    sources=("Nguyen and O'Connor 2015",),
    value=lambda event: binned.calibration_error(binned.quantile_bins(event.table, event.n_bins), "l1"),
    binning="quantile",
    bound=certified(lambda cells, event: ace_bound(cells, event.n_bins)),
    interval=_interval,
    implied=largest_gap,
    null=Null(
        replicate=_replicate,
        closed_form=lambda inference: absolute_law(inference.event.of(quantile_sums), inference.level),
    ),
    over_classes=OverClasses(binning="quantile"),
    functions=(adaptive_calibration_error,),
)
