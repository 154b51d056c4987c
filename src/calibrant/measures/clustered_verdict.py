"""The verdict on rows in clusters: the Cauchy combination of the tests of the mean, of the spread and of the ECE.

The parts are those of `measures.verdict`. The mean and the spread are sums psi r with psi = 1 and psi = phi, the
standardised log-odds cut at 3, whose variance is that of independent rows times their design effect; the ECE has the
gamma law of correlated bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrant.measures.clustered_closed_form import null_effect
from calibrant.measures.clustered_null import ClusterNull, GapSums
from calibrant.measures.means.clustered import BY_CLUSTER, flag_of
from calibrant.measures.verdict import Verdict, combined, result_of
from calibrant.results import TestResult
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.gamma import GammaMoments

_NOTHING: Final = 1e-12  # relative: smaller sums of residuals are rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterVerdict:
    """What the verdict needs beyond the sums of a replicate.

    ``slopes`` are those of the mean and of the spread, by name, (K,) each, with ``deviations``, the standard deviation
    of their sums; 0 if the sums of clusters do not vary. ``ece`` is the law of the sum of the bins' absolute gaps, or
    None if they do not vary. ``certain`` says that all scores are 0 or 1.
    """

    law: ClusterNull
    slopes: dict[str, Float64s]
    deviations: dict[str, float]
    ece: GammaMoments | None
    certain: bool

    @classmethod
    def of(cls, law: ClusterNull) -> ClusterVerdict:
        """Prepare the verdict on rows in clusters."""
        cells = law.rows.cells
        plain = Verdict.of(cells, law.uniform.moments)
        slopes = {"mean": np.ones(len(cells))}
        if plain.slopes is not None:
            slopes["spread"] = plain.slopes
        deviations = {}
        for name, slope in slopes.items():
            variance, square = (float(np.sum(slope**2 * x)) for x in (cells.null_variances, cells.squared_residuals))
            deviations[name] = math.sqrt(variance * null_effect(law.rows.gaps @ slope, square))
        return cls(
            law=law, slopes=slopes, deviations=deviations, ece=law.uniform.null_absolute, certain=plain.ece is None
        )

    def p_values(self, sums: GapSums) -> dict[str, Float64s]:
        """Return the p-value of each part, (B,): 1 for a part that does not vary."""
        from scipy.special import ndtr

        if self.certain:
            rounding = _NOTHING * self.law.rows.total
            return {"ece": (np.abs(sums.raw).sum(axis=-1) <= rounding).astype(np.float64)}
        parts = {}
        for name, slopes in self.slopes.items():
            sd, total = self.deviations[name], sums.scalar(slopes)
            parts[name] = 2 * ndtr(-np.abs(total) / sd) if sd > 0 else np.ones(len(total))
        absolute = np.abs(sums.uniform_gaps).sum(axis=-1)
        return {**parts, "ece": np.ones(len(absolute)) if self.ece is None else self.ece.tail(absolute)}

    def statistic(self, sums: GapSums) -> Float64s:
        """Return the combined statistic, (B,): large where a part has a small p-value."""
        return combined(np.stack(list(self.p_values(sums).values())))

    def result(self, replicates: Float64s | None) -> TestResult:
        """Return the test of the data, with the law of ``replicates``, (B,), of the statistic if there are any."""
        rows = self.law.rows
        return result_of(self.p_values(self.law.observed), replicates, rows.cells.table.n, flag_of(rows), BY_CLUSTER)
