"""A model known by sums over buckets of clusters: its own errors by cluster, and its pairing with another model."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.inputs.scores import Score
from calibrant.measures.binned.clustered import ClusterBins, uniform_bins
from calibrant.measures.binned.intervals import larger
from calibrant.measures.clustered_rows import ClusteredRows
from calibrant.measures.differences.clustered import Answers, ClusterModel, ClusterPair, paired_rows, variance
from calibrant.measures.differences.unpaired import Summed
from calibrant.measures.means.clustered import details_of, flag_of
from calibrant.statistics.cluster_sums import Clustered
from calibrant.statistics.resampling import Resampling
from calibrant.statistics.variance import Variance


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterSummed(Summed):
    """A model known by the sums of its rows over buckets of clusters; ``answers`` as in `ClusterModel`."""

    rows: ClusteredRows
    answers: Answers | None = None

    def paired(self, rows: Clustered) -> ClusterModel:
        """Return the model with these of its rows in buckets."""
        bins = ClusterBins.of(rows, uniform_bins(rows, self.n_bins))
        return ClusterModel(name=self.name, rows=rows, bins=bins, means=self.means, answers=self.answers)

    @property
    def flag(self) -> str:
        flag = flag_of(self.rows.clusters)
        return f"{self.name}: {flag}" if flag else ""

    def square_variance(self) -> Variance:
        model = self.paired(self.rows.clusters)
        plain, steady = (variance(model.influence(gaps), model.rows.sizes) for gaps in (model.gaps, model.steady))
        return larger(plain, steady, model.bins.pair_noise)

    def half_width(self, score: Score, level: float) -> float:
        mean = self.means.brier if score == "brier" else self.means.nll
        return self.rows.score_interval(score, self.means, Resampling.of(level, 0, 0)).high - mean


def pair_of(first: ClusterSummed, second: ClusterSummed) -> ClusterPair:
    """Return two models of the same clusters, with the same buckets.

    Raises
    ------
    calibrant.errors.InputError
        As `paired_rows`.
    """
    one, other = paired_rows(*((model.rows.clusters.fine, model.rows.clusters.buckets) for model in (first, second)))
    facts, deciding = details_of(first.rows.clusters.buckets), min(first.deciding, second.deciding)
    return ClusterPair(first.paired(one), second.paired(other), facts, deciding)
