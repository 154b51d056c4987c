"""Rows of one event in clusters: the methods of `IndependentRows`, by sums over buckets of clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import BucketSums
from calibrant.inputs.scores import Score
from calibrant.measures import curves
from calibrant.measures.binned.clustered import ClusterBins
from calibrant.measures.binned.intervals import rate_intervals
from calibrant.measures.clustered_curves import bin_band, coarse_of, refits
from calibrant.measures.clustered_null import ClusterNull
from calibrant.measures.cumulative import clustered as cumulative
from calibrant.measures.independent_rows import Ends
from calibrant.measures.isotonic.clustered import ClusterForecasts
from calibrant.measures.line.clustered import intercept_variance, log_odds_line
from calibrant.measures.line.intervals import (
    Large,
    Line,
    WithoutEnds,
    calibration_in_the_large,
    falls,
    without_ends,
)
from calibrant.measures.loess import intervals as loess
from calibrant.measures.means import clustered as means
from calibrant.measures.means.base_rates import BaseRates
from calibrant.measures.means.intervals import gap_variance
from calibrant.measures.means.means import CLUSTERS, PredictionMeans
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import Clustered
from calibrant.statistics.null import Interval, Law
from calibrant.statistics.resampling import Resampling
from calibrant.statistics.variance import Variance
from calibrant.table import ReliabilityTable


@dataclass(frozen=True, eq=False)
class ClusteredRows:
    """Judged rows of one event in clusters, in cells few enough for resampling."""

    clusters: Clustered
    n_bins: int

    @classmethod
    def of(cls, table: ReliabilityTable, n_bins: int, buckets: BucketSums) -> ClusteredRows:
        """Return the rows of a table, with the sums of the same rows over buckets of clusters."""
        return cls(Clustered.of(Cells.from_table(table), buckets), n_bins)

    @property
    def cells(self) -> Cells:
        """The coarse cells that hold rows."""
        return self.clusters.cells

    def forecasts(self, resampling: Resampling) -> ClusterForecasts:
        """Return the isotonic fits to the rows, in sample and out of fold."""
        return ClusterForecasts(self.clusters, resampling)

    @property
    def design(self) -> Clustered:
        """How sums over the rows vary."""
        return self.clusters

    @cached_property
    def law(self) -> ClusterNull:
        """The law under calibration."""
        return ClusterNull.of(self.clusters, self.n_bins)

    @property
    def uniform(self) -> ClusterBins:
        """The equal-width bins."""
        return self.law.uniform

    @property
    def quantile(self) -> ClusterBins:
        """The equal-mass bins."""
        return self.law.quantile

    @cached_property
    def _shown(self) -> NDArray[np.intp]:
        return curves.shown_cells(self.clusters.fine)

    @property
    def shown(self) -> NDArray[np.intp]:
        """The coarse cells at which the curves are evaluated."""
        return coarse_of(self.clusters, self._shown)

    @property
    def held(self) -> NDArray[np.intp]:
        """The places of the equal-width bins that take part in the maximum."""
        return self.uniform.moments.index[self.uniform.held]

    # ------------------------------------------------------------ variances

    def mean_score_variance(self, value: float) -> Variance:
        """Return the variance of the sum of the scores, whose mean is ``value``."""
        return means.mean_score_variance(self.clusters, value)

    def ratio_variance(self, ratio: float) -> Variance:
        """Return the variance of O - t E, t the ratio of observed to expected outcomes."""
        return means.ratio_variance(self.clusters, ratio)

    def area_variance(self) -> Variance:
        """Return the variance of the area under the ROC curve."""
        return means.area_variance(self.clusters)

    def rate_rows(self, level: float) -> float:
        """Return in how many independent rows the base rate would be as uncertain."""
        return means.rate_rows(self.clusters, level)

    # ------------------------------------------------------------ what a result says about the rows

    @property
    def suffix(self) -> str:
        """What ends the method of a result."""
        return means.BY_CLUSTER

    @property
    def details(self) -> dict[str, Any]:
        """What a result says about its clusters."""
        return means.details_of(self.clusters.buckets)

    @property
    def flag(self) -> str:
        """A warning where intervals are not to be trusted, or nothing."""
        return means.flag_of(self.clusters)

    @property
    def rarer(self) -> float:
        """How many clusters hold the rarer outcome."""
        return means.rarer_clusters(self.clusters)

    @property
    def unit(self) -> str:
        """What `rarer` counts."""
        return CLUSTERS

    def exact_p_value(self) -> float:
        """Return NaN: clusters have no exact distribution."""
        return math.nan

    # ------------------------------------------------------------ intervals

    def cumulative_interval(self, value: float, resampling: Resampling) -> Ends:
        """Return the interval of the largest cumulative residual."""
        return cumulative.interval(self.clusters, value, resampling)

    def score_interval(self, score: Score, predictions: PredictionMeans, resampling: Resampling) -> Interval:
        """Return the interval of the mean Brier score or log loss."""
        return means.score_interval(self.clusters, score, predictions, resampling.level)

    def event_brier_interval(self, resampling: Resampling) -> Interval:
        """Return the interval of the judged event's own mean Brier score."""
        return means.event_brier_interval(self.clusters, resampling.level)

    def skill_interval(self, predictions: PredictionMeans, rates: BaseRates, resampling: Resampling) -> Interval:
        """Return the interval of the Brier skill against the base rates."""
        return means.skill_interval(self.clusters, predictions, rates, resampling.level)

    def accuracy_interval(self, predictions: PredictionMeans, resampling: Resampling) -> Ends:
        """Return the interval of the accuracy."""
        return means.accuracy_interval(self.clusters, predictions, resampling.level)

    # ------------------------------------------------------------ spreads of means, for their effective rows

    def loss_spread(self, score: Score, predictions: PredictionMeans) -> Variance:
        """Return the spread of the sum of the Brier scores or log losses."""
        return means.loss_spread(self.clusters, score, predictions)

    def accuracy_spread(self, predictions: PredictionMeans) -> Variance:
        """Return the spread of the number of right answers."""
        return means.accuracy_spread(self.clusters, predictions)

    # ------------------------------------------------------------ laws in closed form

    def cumulative_law(self, level: float) -> Law | None:
        """Return nothing: without resampling there is no law of the largest cumulative residual."""
        del level
        return None

    def range_law(self, level: float) -> Law | None:
        """Return nothing: without resampling there is no law of the range of the cumulative residuals."""
        del level
        return None

    # ------------------------------------------------------------ curves

    def line(self, level: float) -> Line:
        """Return the slope of the log-odds line with the ends of its interval."""
        return Line.of(*log_odds_line(self.clusters), level)

    def without_ends(self, line: Line, level: float) -> WithoutEnds | None:
        """Return the line without the rows whose scores are moved in from 0 and 1; None without such rows."""
        return without_ends(self.clusters.fine, line, level)

    def falls(self) -> bool:
        """Return whether the outcome rate clearly falls as scores rise."""
        return falls(self.uniform)

    def in_the_large(self, level: float) -> Large:
        """Return the intercept of the log-odds at slope 1 with the ends of its interval."""
        return calibration_in_the_large(self.clusters.fine, partial(intercept_variance, self.clusters), level)

    def rate_intervals(self, rates: Float64s, rows: Float64s, resampling: Resampling) -> tuple[Float64s, Float64s]:
        """Return the intervals of the outcome rates of the filled equal-width bins, (M,) each."""
        del rates, rows
        return rate_intervals(self.uniform, resampling.level)

    def rate_band(self, resampling: Resampling) -> tuple[Float64s, Float64s]:
        """Return where the rates of these bins lie if the scores are right, without resampling."""
        return bin_band(self.law, resampling)

    def isotonic_curve(self, consistency: tuple[Float64s, Float64s] | None, resampling: Resampling) -> CalibrationCurve:
        """Return the isotonic curve with its bands."""
        refitted = partial(refits, self.clusters, self._shown, resampling)
        return curves.isotonic_curve(self.clusters.fine, self._shown, consistency, refitted, resampling)

    def smooth_curve(self, bandwidth: float, resampling: Resampling) -> CalibrationCurve:
        """Return the smooth curve with its bands."""
        return curves.smooth_curve(self.clusters, self.clusters.fine, self._shown, bandwidth, resampling.level)

    def loess_curve(self, resampling: Resampling) -> CalibrationCurve:
        """Return the loess curve with its bands."""
        return loess.loess_curve(
            self.clusters, self.clusters.fine, self._shown, gap_variance(self.design).df, resampling.level
        )
