"""Independent rows of one event: their sums over bins, their intervals and their laws in closed form.

Rows in clusters have the same methods, with other variances. `measures` call them without knowing which they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.scores import Score
from calibrant.inputs.weights import share_rows
from calibrant.measures import curves
from calibrant.measures.binned.binned import quantile_bin_of, uniform_bin_of
from calibrant.measures.binned.sums import BinSums, RowBins
from calibrant.measures.cumulative import intervals as cumulative
from calibrant.measures.cumulative.brownian import range_law
from calibrant.measures.cumulative.cumulative import cumulated_range
from calibrant.measures.isotonic.intervals import RowForecasts
from calibrant.measures.line.intervals import (
    Large,
    Line,
    WithoutEnds,
    calibration_in_the_large,
    falls,
    log_odds_line,
    without_ends,
)
from calibrant.measures.loess import intervals as loess
from calibrant.measures.means import means
from calibrant.measures.means.base_rates import BaseRates
from calibrant.measures.means.intervals import unbiased
from calibrant.measures.means.means import PredictionMeans, wilson_interval
from calibrant.measures.means.ratio import ratio_square
from calibrant.measures.ranking.area import area_square
from calibrant.measures.row_null import RowNull
from calibrant.measures.verdict import count_p_value
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Independent
from calibrant.statistics.intervals import clopper_pearson, consistency_band
from calibrant.statistics.null import Interval, Law
from calibrant.statistics.resampling import Resampling
from calibrant.statistics.variance import Variance
from calibrant.table import ReliabilityTable

Ends = tuple[float, float]
Bins = Literal["uniform", "quantile"]


@dataclass(frozen=True, eq=False)
class IndependentRows:
    """Judged rows of one event that are independent of each other, in cells few enough for resampling."""

    cells: Cells
    n_bins: int

    @classmethod
    def of(cls, table: ReliabilityTable, n_bins: int) -> IndependentRows:
        """Return the rows of a table."""
        return cls(Cells.from_table(table), n_bins)

    def forecasts(self, resampling: Resampling) -> RowForecasts:
        """Return the isotonic fits to the rows, in sample and out of fold."""
        return RowForecasts(self.cells, resampling.seed)

    @property
    def design(self) -> Independent:
        """How sums over the rows vary."""
        return Independent(self.cells)

    @cached_property
    def uniform(self) -> BinSums:
        """The equal-width bins."""
        return RowBins.of(self.cells, uniform_bin_of(self.cells.table, self.n_bins))

    @cached_property
    def quantile(self) -> BinSums:
        """The equal-mass bins."""
        return RowBins.of(self.cells, quantile_bin_of(self.cells.table, self.n_bins))

    @cached_property
    def shown(self) -> NDArray[np.intp]:
        """The cells at which the curves are evaluated."""
        return curves.shown_cells(self.cells)

    # ------------------------------------------------------------ variances

    def mean_score_variance(self, value: float) -> Variance:
        """Return the variance of the sum of the scores, whose mean is ``value``."""
        cells = self.cells
        square = float(np.sum(cells.square_weights * (cells.scores - value) ** 2))
        return Variance(unbiased(square, cells.effective_n))

    def ratio_variance(self, ratio: float) -> Variance:
        """Return the variance of O - t E, t the ratio of observed to expected outcomes."""
        return Variance(ratio_square(self.cells, ratio))

    def area_variance(self) -> Variance:
        """Return the variance of the area under the ROC curve."""
        return Variance(area_square(self.cells))

    def rate_rows(self, level: float) -> float:
        """Return the effective sample size of the base rate."""
        del level
        rate = float(self.cells.positives.sum()) / self.cells.total
        return float(share_rows(rate, self.cells.total, self.cells.table.own_weights.sum(axis=1)))

    # ------------------------------------------------------------ what a result says about the rows

    @property
    def suffix(self) -> str:
        """What ends the method of a result: nothing."""
        return ""

    @property
    def details(self) -> dict[str, Any]:
        """What a result says about its clusters: nothing."""
        return {}

    @property
    def flag(self) -> str:
        """A warning where intervals are not to be trusted, or nothing."""
        return means.flag_of(self.cells)

    @property
    def rarer(self) -> float:
        """The effective sample size of the rarer outcome."""
        return means.rarer_rows(self.cells)

    @property
    def unit(self) -> str:
        """What `rarer` counts."""
        return means.ROWS

    @property
    def law(self) -> RowNull:
        """The distribution of sums under calibration."""
        return RowNull(self.cells, self.uniform)

    def exact_p_value(self) -> float:
        """Return the p-value of the number of outcomes by its exact distribution; NaN without one."""
        return count_p_value(self.cells)

    # ------------------------------------------------------------ intervals

    def cumulative_interval(self, value: float, resampling: Resampling) -> Ends:
        """Return the interval of the largest cumulative residual."""
        return cumulative.interval(self.cells, value, resampling.level)

    def score_interval(self, score: Score, predictions: PredictionMeans, resampling: Resampling) -> Interval:
        """Return the interval of the mean Brier score or log loss."""
        return means.score_interval(self.cells, score, predictions, resampling.z)

    def event_brier_interval(self, resampling: Resampling) -> Interval:
        """Return the interval of the judged event's own mean Brier score."""
        means_of_event = PredictionMeans.of_event(self.cells.table, right=False)
        return means.score_interval(self.cells, "brier", means_of_event, resampling.z)

    def skill_interval(self, predictions: PredictionMeans, rates: BaseRates, resampling: Resampling) -> Interval:
        """Return the interval of the Brier skill against the base rates."""
        return means.skill_interval(predictions, rates, resampling.z)

    def accuracy_interval(self, predictions: PredictionMeans, resampling: Resampling) -> Ends:
        """Return the interval of the accuracy."""
        return wilson_interval(predictions.accuracy, predictions.accuracy_rows, resampling.z)

    # ------------------------------------------------------------ laws in closed form

    def cumulative_law(self, level: float) -> Law | None:
        """Return the law of the largest cumulative residual."""
        value = float(np.abs(np.cumsum(self.cells.gap_sums)).max()) / self.cells.total
        return cumulative.cumulative_law(self.cells, value, level)

    def range_law(self, level: float) -> Law | None:
        """Return the law of the range of the cumulative residuals."""
        value = float(cumulated_range(np.cumsum(self.cells.gap_sums))) / self.cells.total
        return range_law(self.cells, value, level)

    # ------------------------------------------------------------ curves

    def line(self, level: float) -> Line:
        """Return the slope of the log-odds line with the ends of its interval."""
        return Line.of(*log_odds_line(self.cells), level)

    def without_ends(self, line: Line, level: float) -> WithoutEnds | None:
        """Return the line without the rows whose scores are moved in from 0 and 1; None without such rows."""
        return without_ends(self.cells, line, level)

    def falls(self) -> bool:
        """Return whether the outcome rate clearly falls as scores rise."""
        return falls(self.uniform)

    def in_the_large(self, level: float) -> Large:
        """Return the intercept of the log-odds at slope 1 with the ends of its interval."""
        return calibration_in_the_large(self.cells, lambda _, square: Variance(square), level)

    def rate_intervals(self, rates: Float64s, rows: Float64s, resampling: Resampling) -> tuple[Float64s, Float64s]:
        """Return the intervals of the outcome rates of the filled equal-width bins, (M,) each."""
        return clopper_pearson(rates * rows, rows, resampling.tail)

    def rate_band(self, resampling: Resampling) -> tuple[Float64s, Float64s]:
        """Return where the rates of these bins lie if the scores are right, without resampling."""
        bins = self.uniform.moments
        return consistency_band(bins.score_sums / bins.counts, bins.rows, resampling.tail)

    def isotonic_curve(self, consistency: tuple[Float64s, Float64s] | None, resampling: Resampling) -> CalibrationCurve:
        """Return the isotonic curve with its bands; ``consistency`` is the one of them that is drawn elsewhere."""
        refits = partial(curves.refits, self.cells, self.shown, resampling)
        return curves.isotonic_curve(self.cells, self.shown, consistency, refits, resampling)

    def smooth_curve(self, bandwidth: float, resampling: Resampling) -> CalibrationCurve:
        """Return the smooth curve with its bands."""
        return curves.smooth_curve(self.design, self.cells, self.shown, bandwidth, resampling.level)

    def loess_curve(self, resampling: Resampling) -> CalibrationCurve:
        """Return the loess curve with its bands."""
        return loess.loess_curve(self.design, self.cells, self.shown, math.inf, resampling.level)
