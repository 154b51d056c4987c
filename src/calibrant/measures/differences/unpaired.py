"""Two models known by sums alone: differences, first minus second, with intervals.

What the rows have in common cannot cancel, since nothing tells which rows these are. The standard deviation of a
difference is at most the sum of the two, whatever the models have in common (Cauchy and Schwarz), so that the intervals
and the test are safe, for the same rows and for others, and wide. Where no normal law holds, each model's own interval
is taken at half the error, and the ends are subtracted (Bonferroni).

Of independent rows the variances add up: errors and half widths are combined by the root of the sum of their squares,
and so are the distances to the ends of intervals that are not symmetric (Newcombe 1998; Zou and Donner 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calibrant.inputs.scores import Score
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.binned import binned
from calibrant.measures.binned.intervals import absolute_interval, bin_diagram, square_variance
from calibrant.measures.binned.null import absolute_law
from calibrant.measures.binned.sums import RowBins
from calibrant.measures.differences.paired import infinite_difference, quantile
from calibrant.measures.means.means import PredictionMeans, heavy, normal_interval, rare, rarer_rows, wilson_interval
from calibrant.results import Estimate, ReliabilityDiagram
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.resampling import t_quantile, two_sided
from calibrant.table import ReliabilityTable

_LEAST: Final = 1e-300
_SQUARES: Final = "independent rows: squares of errors added"
_SAFE: Final = "unpaired, standard errors added: safe, and wide"


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed:
    """A model known by sums: the table of its judged event on a grid, and the means over its predictions.

    ``values`` are its measures by name, ``bounds`` their certified errors. ``independent`` says that its rows are
    independent of those of the models that it is compared with, ``deciding`` how many rows' weights decide variances.
    """

    name: str
    table: ReliabilityTable
    means: PredictionMeans
    n_bins: int
    values: Mapping[str, float]
    bounds: Mapping[str, float]
    independent: bool = False
    deciding: float = math.inf

    @cached_property
    def cells(self) -> Cells:
        return Cells.from_table(self.table)

    @cached_property
    def bins(self) -> RowBins:
        """The uniform bins."""
        return RowBins.of(self.cells, binned.uniform_bin_of(self.cells.table, self.n_bins))

    @property
    def flag(self) -> str:
        """A warning if an outcome is rare, or nothing."""
        return rare(rarer_rows(self.cells), f" for {self.name}")

    def diagram(self, level: float) -> ReliabilityDiagram:
        """Return the bins with Clopper-Pearson intervals of their rates and the band of calibration."""
        bins = self.bins.moments
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

    def square_error(self) -> tuple[float, float]:
        """Return the standard error of the squared l2 error, and its degrees of freedom."""
        return math.sqrt(square_variance(self.bins)), math.inf

    def absolute_ends(self, level: float) -> tuple[float, float]:
        """Return the interval of the l1 error."""
        value = self.values["ece"]
        law = absolute_law(self.bins, level, value)
        return absolute_interval(self.bins, value, level, rejected=law.p_value <= (1 - level) / 2)

    def half_width(self, score: Score, level: float) -> float:
        """Return half the width of the interval of the mean Brier score or log loss."""
        means = self.means
        mean, variance = (means.brier, means.brier_variance) if score == "brier" else (means.nll, means.nll_variance)
        return normal_interval(mean, variance, means.effective_n, quantile(level))[1] - mean

    def accuracy_ends(self, level: float) -> tuple[float, float]:
        """Return the interval of the accuracy."""
        return wilson_interval(self.means.accuracy, self.means.accuracy_rows, quantile(level))


def details_of(first: Summed, second: Summed) -> dict[str, Any]:
    """Return what belongs to every difference: the rows of both models, and warnings."""
    details: dict[str, Any] = {"rows": [first.means.n, second.means.n]}
    flags = [*filter(None, (first.flag, second.flag, heavy(min(first.deciding, second.deciding))))]
    return {**details, "flag": "; ".join(flags)} if flags else details


def square_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the squared l2 errors, which decides."""
    value = first.values["debiased_square"] - second.values["debiased_square"]
    errors, freedoms = zip(*(model.square_error() for model in (first, second)), strict=True)
    error, df = _together(first, second, errors), min(freedoms)
    if first.independent and error > 0:  # Welch and Satterthwaite
        df = error**4 / max(sum(one**4 / free for one, free in zip(errors, freedoms, strict=True)), _LEAST)
    half = t_quantile(level, df) * error
    return Estimate(
        value,
        value - half,
        value + half,
        p_value=two_sided(value, error, df),
        method=_method(first, second),
        details={"standard_error": error},
    )


def absolute_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the l1 errors: the ends of each model's own interval are subtracted."""
    (low, high), (least, most) = (model.absolute_ends((1 + level) / 2) for model in (first, second))
    how = "Gaussian thinning of each, ends subtracted: safe, and wide"
    return Estimate(first.values["ece"] - second.values["ece"], low - most, high - least, method=how)


def brier_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the Brier scores."""
    return _mean(first, second, "brier", first.means.brier - second.means.brier, level)


def loss_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the log losses; infinite, or not a number where both are infinite, with the reason."""
    lost = {model.name: tidy_weight(model.means.infinite) for model in (first, second)}
    if any(lost.values()):
        return infinite_difference(lost)
    return _mean(first, second, "log", first.means.nll - second.means.nll, level)


def accuracy_difference(first: Summed, second: Summed, level: float) -> Estimate:
    """Return the difference of the accuracies: the ends of Wilson's intervals are subtracted."""
    value = first.means.accuracy - second.means.accuracy
    (low, high), (least, most) = (model.accuracy_ends(level) for model in (first, second))
    if first.independent:
        one, other = first.means.accuracy, second.means.accuracy
        ends = value - math.hypot(one - low, most - other), value + math.hypot(high - one, other - least)
        return Estimate(value, *ends, method=f"Wilson of each, {_SQUARES}")
    return Estimate(value, low - most, high - least, method="Wilson of each, ends subtracted: safe, and wide")


def _mean(first: Summed, second: Summed, score: Score, value: float, level: float) -> Estimate:
    """Return the difference of two means."""
    half = _together(first, second, [model.half_width(score, level) for model in (first, second)])
    return Estimate(value, value - half, value + half, method=_method(first, second))


def _together(first: Summed, second: Summed, errors: Sequence[float]) -> float:
    """Return the error of a difference from those of both models."""
    return math.hypot(*errors) if first.independent and second.independent else sum(errors)


def _method(first: Summed, second: Summed) -> str:
    return f"unpaired, {_SQUARES}" if first.independent and second.independent else _SAFE
