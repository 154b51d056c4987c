"""The maximum calibration error (MCE): the largest gap of a bin."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import check_integer
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.binned import binned
from calibrant.measures.binned.bin_inference import maximum_interval, maximum_law
from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS, Binning, Closed
from calibrant.measures.binned.certified import mce_bound
from calibrant.measures.binned.cluster_bins import uniform_bins, uniform_sums
from calibrant.measures.binned.rmsce import RMSCE
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, certified
from calibrant.measures.measure import Details, Measure, Null, OverClasses
from calibrant.measures.read_arguments import binned_error
from calibrant.runtime.arrays import ArrayLike
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval

_NO_BIN: Final = f"no bin has {LEAST_ROWS} rows"


def maximum_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    least_rows: int = 1,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the maximum calibration error (MCE): the largest gap between score and observed frequency in any bin.

    .. math:: \mathrm{MCE} = \max_b |P_b - Y_b|

    It is in [0, 1]; lower is better. The maximum is over the bins with at least ``least_rows`` rows. With 1, the
    default, a single row can decide it; reports take 30. NaN if no bin holds enough rows. With weights that are not
    whole numbers, the rows of a bin are its effective sample size. For classwise and multilabel notions it is the
    maximum over all classes. The other parameters, errors and cost are those of `expected_calibration_error`.

    Parameters
    ----------
    least_rows : int, default 1
        The rows that a bin must hold to take part.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.maximum_calibration_error([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2), 4)
    0.3167
    """
    check_integer("least_rows", least_rows, "pass 1 to include all bins, or 30 as reports do")
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return binned_error(arguments, n_bins, binning=binning, norm="max", closed=closed, least_rows=least_rows)


def _held(event: Event) -> NDArray[np.intp]:
    """Return the bins that take part: those with enough rows and, if rows come in clusters, with enough of these."""
    if event.clusters is not None:
        sums = event.of(uniform_sums)
        return sums.moments.index[sums.held]
    return np.flatnonzero(binned.enough_rows(event.of(uniform_bins).rows, LEAST_ROWS))


def _value(event: Event) -> float:
    held = _held(event)
    return float(np.abs(event.of(uniform_bins).gaps[held]).max()) if len(held) else math.nan


def _details(event: Event) -> Details:
    """Return the bin that decides, and the largest gap over bins of any size."""
    bins, held = event.of(uniform_bins), _held(event)
    details = {"least_rows": LEAST_ROWS, "of_all_bins": float(np.nanmax(np.abs(bins.gaps)))}
    if not len(held):
        return {**details, "reason": _NO_BIN if event.clusters is None else f"{_NO_BIN} and {LEAST_CLUSTERS} clusters"}
    b = int(held[np.argmax(np.abs(bins.gaps[held]))])
    place = {"bin": b, "left": float(bins.edges[b]), "right": float(bins.edges[b + 1])}
    return {**details, **place, "count": tidy_weight(float(bins.counts[b])), "gap": float(bins.gaps[b])}


def _interval(inference: Inference) -> Interval:
    value, rejected = inference.event.value(MCE), inference.rejects(MCE)
    sums = inference.event.of(uniform_sums)
    if not sums.held.any():
        return Interval(math.nan, math.nan, f"no interval: {_NO_BIN} after similar scores are pooled")
    ends = maximum_interval(sums, value, inference.level, rejected=rejected)
    clusters = "" if inference.event.clusters is None else f" and {LEAST_CLUSTERS} clusters"
    return Interval(*ends, f"over bins with at least {LEAST_ROWS} rows{clusters}; Clopper-Pearson")


def _implied(inference: Inference) -> float:
    """Return the largest end m that the interval of the RMSCE implies: its square is at most s m^2 + 1 - s.

    s is the share of the rows in the bins that take part; the gaps of the others are at most 1.
    """
    share = float(inference.event.of(uniform_bins).counts[_held(inference.event)].sum()) / inference.event.table.total
    square = inference.interval(RMSCE).high ** 2 - (1 - share)
    return math.sqrt(square / share) if square > 0 else 0.0


MCE = Measure(
    name="mce",
    label=f"MCE (bins of {LEAST_ROWS} rows)",
    meaning=f"Maximum calibration error: the largest absolute difference in a bin with at least {LEAST_ROWS} rows.",
    misleads="One bin determines the MCE, often the bin with the fewest rows.",
    computed="The MCE is the largest absolute difference between mean predicted probability and observed frequency "
    f"over {{bins}}, restricted to bins with at least {LEAST_ROWS} rows",
    sources=("Naeini et al. 2015",),
    value=_value,
    binning="uniform",
    details=_details,
    bound=certified(lambda cells, event: mce_bound(cells, event.n_bins, _value(event))),
    interval=_interval,
    implied=_implied,
    null=Null(
        replicate=lambda draws: draws.inference.event.of(uniform_sums).maximum(draws.uniform_gaps),
        statistic=lambda draws: draws.inference.event.of(uniform_sums).standard_maximum(draws.uniform_gaps),
        closed_form=lambda inference: maximum_law(inference.event.of(uniform_sums), inference.level),
    ),
    over_classes=OverClasses(norm="max"),
    functions=(maximum_calibration_error,),
)
