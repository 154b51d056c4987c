"""Two models known by sums alone: differences, first minus second, with intervals.

What the rows have in common cannot cancel, since nothing tells which rows these are. The standard deviation of a
difference is at most the sum of the two, whatever the models have in common (Cauchy and Schwarz), so that the intervals
and the test are safe, for the same rows and for others, and wide. Where no normal law holds, each model's own interval
is taken at half the error, and the ends are subtracted (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from calibrant.estimators import binned
from calibrant.results import Estimate, ReliabilityDiagram
from calibrant.sampling import null_closed_form
from calibrant.sampling.binned import BinMoments, absolute_interval, bin_diagram, square_variance
from calibrant.sampling.cells import Cells
from calibrant.sampling.means import PredictionMeans, normal_interval, rare, rarer_rows, wilson_interval
from calibrant.sampling.paired import infinite_difference, quantile, two_sided
from calibrant.table import ReliabilityTable
from calibrant.weights import tidy_weight

_SAFE: Final = "unpaired, standard errors added: safe, and wide"


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed:
    """A model known by sums: the table of its judged event on a grid, and the means over its predictions.

    ``values`` are its measures by name, ``bounds`` their certified errors.
    """

    name: str
    table: ReliabilityTable
    means: PredictionMeans
    n_bins: int
    values: Mapping[str, float]
    bounds: Mapping[str, float]

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.table)

    @cached_property
    def bins(self) -> BinMoments:
        """The uniform bins."""
        return BinMoments.of(self.cells, binned.uniform_bin_of(self.cells.table, self.n_bins))

    @property
    def rarer(self) -> float:
        """The effective sample size of the rarer outcome."""
        return rarer_rows(self.cells)

    def diagram(self, level: float) -> ReliabilityDiagram:
        """Return the bins with Clopper-Pearson intervals of their rates and the band of calibration."""
        bins = self.bins
        return bin_diagram(
            self.n_bins,
            places=bins.index,
            counts=bins.counts,
            rows=bins.rows,
            rate_rows=bins.rate_rows,
            score_sums=bins.score_sums,
            gap_sums=bins.gap_sums,
            level=level,
            integer_weights=self.table.square_weights is None,
        )


def details_of(first: Summed, second: Summed) -> dict[str, Any]:
    """Return what belongs to every difference: the rows of both models, and a warning if an outcome is rare."""
    details: dict[str, Any] = {"rows": [first.means.n, second.means.n]}
    rarer, name = min((model.rarer, model.name) for model in (first, second))
    return {**details, "flag": rare(rarer, f" for {name}")} if rare(rarer) else details


def square_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the squared l2 errors, which decides."""
    value = first.values["debiased_square"] - second.values["debiased_square"]
    error = sum(math.sqrt(square_variance(model.bins)) for model in (first, second))
    ends = value - quantile(level) * error, value + quantile(level) * error
    return Estimate(value, *ends, p_value=two_sided(value, error), method=_SAFE, details={"standard_error": error})


def absolute_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the l1 errors: the ends of each model's own interval are subtracted."""

    def ends_of(model: Summed) -> tuple[float, float]:
        value = model.values["ece"]
        law = null_closed_form.absolute_law(model.bins, value, level)
        return absolute_interval(model.bins, value, _half(level), rejected=law.p_value <= (1 - level) / 4)

    (low, high), (least, most) = ends_of(first), ends_of(second)
    how = "Gaussian thinning of each, ends subtracted: safe, and wide"
    return Estimate(first.values["ece"] - second.values["ece"], low - most, high - least, method=how)


def brier_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the Brier scores."""
    moments = [(model.means.brier, model.means.brier_variance, model.means.effective_n) for model in (first, second)]
    return _mean(moments, level)


def loss_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the log losses; infinite, or not a number where both are infinite, with the reason."""
    lost = {model.name: tidy_weight(model.means.infinite) for model in (first, second)}
    if any(lost.values()):
        return infinite_difference(lost)
    moments = [(model.means.nll, model.means.nll_variance, model.means.effective_n) for model in (first, second)]
    return _mean(moments, level)


def accuracy_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the accuracies: the ends of Wilson's intervals are subtracted."""
    value = first.means.accuracy - second.means.accuracy
    (low, high), (least, most) = (
        wilson_interval(model.means.accuracy, model.means.accuracy_rows, quantile(level)) for model in (first, second)
    )
    return Estimate(value, low - most, high - least, method="Wilson of each, ends subtracted: safe, and wide")


def _mean(moments: list[tuple[float, float, float]], level: float) -> Estimate:
    """Return the difference of two means, each given with its variance and effective sample size."""
    value = moments[0][0] - moments[1][0]
    error = sum(normal_interval(*model, 1.0)[1] - model[0] for model in moments)
    z = quantile(level)
    return Estimate(value, value - z * error, value + z * error, method=_SAFE)


def _half(level: float) -> float:
    """Return the normal quantile of an interval at half the error."""
    from scipy.special import ndtri

    return float(ndtri((3 + level) / 4))
