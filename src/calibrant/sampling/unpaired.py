"""Two models of which only sums are known: differences, first minus second, with intervals.

What the rows have in common cannot cancel, since nothing tells which rows these are. The standard deviation of a
difference is at most the sum of the two, whatever the models have in common (Cauchy and Schwarz), so that the intervals
and the test are safe, for the same rows and for others, and wide. Where no normal law holds, each model's own interval
is taken at half the error, and the ends are subtracted (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from calibrant.estimators import binned
from calibrant.results import Estimate, ReliabilityDiagram, whole_number
from calibrant.sampling import null_closed_form
from calibrant.sampling.binned import BinMoments, absolute_interval, bin_diagram, square_variance
from calibrant.sampling.cells import Cells
from calibrant.sampling.means import PredictionMeans, normal_interval, rare, wilson_interval
from calibrant.sampling.paired import infinite_reason, two_sided
from calibrant.table import ReliabilityTable

_SAFE: Final = "unpaired, standard errors added: safe, and wide"


@dataclass(frozen=True, eq=False)
class Summed:
    """A model of which sums are known: the table of its judged event on a grid, and the means over all rows.

    ``bounds`` are the certified errors of ``debiased_square`` and ``ece``.
    """

    name: str
    table: ReliabilityTable
    whole: PredictionMeans
    n_bins: int
    values: dict[str, float]
    bounds: dict[str, float]

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.table)

    @cached_property
    def bins(self) -> BinMoments:
        """The uniform bins."""
        return BinMoments.of(self.cells, binned.uniform_bin_of(self.cells.table, self.n_bins))

    @property
    def rarer(self) -> float:
        """The rows of the rarer outcome."""
        share = float(self.cells.positives.sum()) / self.cells.total * self.cells.effective_n
        return min(share, self.cells.effective_n - share)

    def diagram(self, level: float) -> ReliabilityDiagram:
        """Return the bins with Clopper-Pearson intervals of their rates and the band of calibration."""
        bins = self.bins
        whole = self.table.square_weights is None
        return bin_diagram(
            self.n_bins, bins.index, bins.counts, bins.rows, bins.score_sums, bins.gaps, level, whole=whole
        )

    def deviation(self, name: str) -> float:
        """Return the standard error of the Brier score or the log loss."""
        mean, square = float(getattr(self.whole, name)), float(getattr(self.whole, f"{name}_square"))
        return normal_interval(mean, square, self.whole.effective_n, 1.0)[1] - mean


def differences(first: Summed, second: Summed, level: float) -> dict[str, Estimate]:
    """Return the differences, first minus second, of all `paired.MEASURES`."""
    from scipy.special import ndtri

    z, strict = float(ndtri((1 + level) / 2)), float(ndtri((3 + level) / 4))
    found = {
        "debiased_square": _square(first, second, z),
        "ece": _absolute(first, second, strict, level),
        "brier": _mean(first, second, "brier", z),
        "nll": _loss(first, second, z),
        "accuracy": _accuracy(first, second, z),
    }
    details: dict[str, object] = {"rows": [first.whole.n, second.whole.n]}
    rarer, name = min((model.rarer, model.name) for model in (first, second))
    if rare(rarer):
        details["flag"] = rare(rarer, f" for {name}")
    n = min(first.whole.n, second.whole.n)
    return {
        key: replace(
            e,
            level=math.nan if math.isnan(e.low) else level,
            n=n,
            details={**e.details, **details},
            error_bound=first.bounds.get(key, 0.0) + second.bounds.get(key, 0.0),
        )
        for key, e in found.items()
    }


def _square(first: Summed, second: Summed, z: float) -> Estimate:
    value = first.values["debiased_square"] - second.values["debiased_square"]
    error = sum(math.sqrt(square_variance(model.bins)) for model in (first, second))
    details = {"standard_error": error}
    ends = value - z * error, value + z * error
    return Estimate(value, *ends, p_value=two_sided(value, error), method=_SAFE, details=details)


def _absolute(first: Summed, second: Summed, z: float, level: float) -> Estimate:
    def own(model: Summed) -> tuple[float, float]:
        value = model.values["ece"]
        _, chance = null_closed_form.absolute_law(model.bins, value, level)
        return absolute_interval(model.bins, value, z, rejected=chance <= (1 - level) / 4)

    (low, high), (least, most) = own(first), own(second)
    how = "Gaussian thinning of each, ends subtracted: safe, and wide"
    return Estimate(first.values["ece"] - second.values["ece"], low - most, high - least, method=how)


def _mean(first: Summed, second: Summed, name: str, z: float) -> Estimate:
    value = getattr(first.whole, name) - getattr(second.whole, name)
    error = first.deviation(name) + second.deviation(name)
    return Estimate(value, value - z * error, value + z * error, method=_SAFE)


def _loss(first: Summed, second: Summed, z: float) -> Estimate:
    lost = {model.name: whole_number(model.whole.infinite) for model in (first, second)}
    if not any(lost.values()):
        return _mean(first, second, "nll", z)
    value = math.nan if all(lost.values()) else math.inf if lost[first.name] else -math.inf
    reason = infinite_reason(lost)
    return Estimate(value, method=f"not available: {reason}", details={"infinite_rows": lost, "reason": reason})


def _accuracy(first: Summed, second: Summed, z: float) -> Estimate:
    """Return the difference of the accuracies: the distances of Wilson's ends are added."""
    value = first.whole.accuracy - second.whole.accuracy
    (low, high), (least, most) = (wilson_interval(m.whole.accuracy, m.whole.effective_n, z) for m in (first, second))
    return Estimate(value, low - most, high - least, method="Wilson of each, ends subtracted: safe, and wide")
