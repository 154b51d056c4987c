"""A model known by sums over buckets of clusters: its own errors by cluster, and its pairing with another model."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.inputs.scores import Score
from calibrant.measures.binned.clustered import ClusterBins, coarse_bins
from calibrant.measures.binned.intervals import larger
from calibrant.measures.differences.clustered import Answers, ClusterModel, ClusterPair, paired_rows, variance
from calibrant.measures.differences.unpaired import Summed
from calibrant.measures.means.intervals import score_influence
from calibrant.statistics.design import Clustered
from calibrant.statistics.variance import Variance


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterSummed(Summed):
    """A model known by the sums of its rows over buckets of clusters; ``answers`` as in `ClusterModel`."""

    design: Clustered
    answers: Answers | None = None

    def paired(self, rows: Clustered) -> ClusterModel:
        """Return the model with these of its rows in buckets."""
        bins = ClusterBins.of(rows, coarse_bins(rows, self.event.n_bins))
        return ClusterModel(
            name=self.name, rows=rows, bins=bins, means=self.means, event=self.event, answers=self.answers
        )

    @property
    def flag(self) -> str:
        flag = self.design.sample.flag
        return f"{self.name}: {flag}" if flag else ""

    def square_variance(self) -> Variance:
        model = self.paired(self.design)
        plain, steady = (variance(model.influence(gaps), model.rows.sizes) for gaps in (model.gaps, model.steady))
        return larger(plain, steady, model.bins.pair_noise)

    def half_width(self, score: Score, level: float) -> float:
        return self.design.variance(score_influence(self.design, score, self.means)).half_width(level)


def pair_of(first: ClusterSummed, second: ClusterSummed) -> ClusterPair:
    """Return two models of the same clusters, with the same buckets.

    Raises
    ------
    calibrant.errors.InputError
        As `paired_rows`.
    """
    one, other = paired_rows(*((model.design.fine, model.design.buckets) for model in (first, second)))
    facts, deciding = first.design.sample.facts, min(first.deciding, second.deciding)
    return ClusterPair(first.paired(one), second.paired(other), facts, deciding)
