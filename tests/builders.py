"""What tests of several files make of rows."""

from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.measures.differences.paired import ClusterModel
from calibrant.measures.event import Event
from calibrant.measures.means.means import PredictionMeans, mean_score_influence, score_influence
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered


def clustered_of(table, buckets):
    """The rows of a table in clusters, by their sums over buckets."""
    return Clustered.of(Cells.from_table(table), buckets)


def uniform_sums(rows, n_bins=15):
    """The equal-width bins of rows in clusters."""
    return ClusterBins.of(rows, uniform_bin_of(rows.fine.table, n_bins))


def mean_interval(value, variance, total, level):
    """The interval of a mean over rows of this total weight, from the variance of the sum."""
    half = variance.half_width(level) / total
    return value - half, value + half


def score_ends(rows, score, means, level):
    """The interval of a mean Brier score or log loss."""
    value = means.brier if score == "brier" else means.nll
    return mean_interval(value, rows.variance(score_influence(rows, score, means)), 1.0, level)


def mean_score_ends(rows, level):
    """The interval of the mean score."""
    value = float(rows.cells.score_sums.sum()) / rows.total
    return mean_interval(value, rows.variance(mean_score_influence(rows.fine, value)), 1.0, level)


def cluster_model(name, rows):
    """One of two models on rows in clusters, by the sums of one event."""
    means = PredictionMeans.of_table(rows.fine.table, right=False)
    event = Event(table=rows.fine.table, means=means, clusters=rows)
    return ClusterModel(name=name, rows=rows, bins=uniform_sums(rows), means=means, event=event)
