"""The verdict: one test of calibration that combines three, of the mean, of the spread and of the ECE.

Each part has a p-value in closed form. Their Cauchy combination (Liu and Xie 2020) is the statistic; its distribution
comes from the simulated data sets that the noise floors use, or without them from the combination itself, which is then
the p-value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.cluster_bins import uniform_sums
from calibrant.measures.context import Inference, Replicates, Statistic
from calibrant.measures.event import Event
from calibrant.measures.line.line import log_odds
from calibrant.measures.simulated import RowNull, Sums, null_of
from calibrant.results import Estimate, TestResult
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import UNKNOWN, Clustered, Sample, SamplingDesign
from calibrant.statistics.group_tests import GroupTest
from calibrant.statistics.impossible import ImpossibleOutcomes
from calibrant.statistics.null import GammaMoments, least_of, p_value, sequential_p_value
from calibrant.statistics.resampling import normal_quantile

_CERTAIN: Final = 1e-12  # scores are moved in from 0 and 1 by this, for log-odds
_FAR: Final = 3.0  # standard deviations beyond which log-odds weigh no more
_EQUAL: Final = 1e-9  # log-odds that spread by less are those of one score
_MOST: Final = 0.95  # p-values above it count as this: one near 1 must not undo a small one
_SMALL: Final = 1e-8  # below it, tan(pi (1/2 - p)) is 1 / (pi p)
_LEAST: Final = 1e-300
_NOTHING: Final = 1e-12  # relative: smaller sums of residuals are rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdict:
    """What the verdict needs of the scores and of the sampling design: everything but the outcomes."""

    cells: Cells  # the cells
    #: The slopes f of the cells, (K,), whose sum f r is tested, r = p - y: 1 for the mean, and for the spread the
    #: standardised log-odds of the scores. The spread is left out if all scores are equal, or 0 and 1.
    slopes: Mapping[str, Float64s]
    #: The standard deviation of each sum under calibration; 0 if the sums of clusters do not vary.
    deviations: Mapping[str, float]
    ece: GammaMoments | None  # the distribution of the sum of the bins' absolute gaps; None if they do not vary

    @classmethod
    def of(cls, design: SamplingDesign, bins: BinSums) -> Verdict:
        """Prepare the verdict on the scores of a design, whose equal-width bins are given."""
        cells, slopes = design.cells, {}
        if cells.null_variances.any():
            slopes["mean"] = np.ones(len(cells))
            spread = _slopes(cells.scores, cells.null_variances)
            if spread is not None:
                slopes["spread"] = spread
        deviations = {name: math.sqrt(design.null_variance(f)) for name, f in slopes.items()}
        return cls(cells=cells, slopes=slopes, deviations=deviations, ece=bins.null_absolute)

    def p_values(self, sums: Sums) -> dict[str, Float64s]:
        """Return the p-value of each part, (B,): 1 for a part that does not vary."""
        return self._tails(self._deviations(sums))

    def _deviations(self, sums: Sums) -> dict[str, Float64s]:
        """Return how far each part deviates, (B,): sums in standard deviations, and the sum of absolute gaps."""
        if not self.slopes:
            return {"ece": np.abs(sums.cell_gaps).sum(axis=-1)}
        parts = {}
        for name, slopes in self.slopes.items():
            sd, total = self.deviations[name], np.abs(sums.scalar(slopes))
            parts[name] = total / sd if sd > 0 else np.zeros(len(total))
        return {**parts, "ece": np.abs(sums.uniform_gaps).sum(axis=-1)}

    def _tails(self, deviations: Mapping[str, Float64s]) -> dict[str, Float64s]:
        """Return the probability under calibration that each part deviates as far, (B,)."""
        from scipy.special import ndtr

        parts, absolute = {name: 2 * ndtr(-deviations[name]) for name in self.slopes}, deviations["ece"]
        if self.ece is not None:
            return {**parts, "ece": self.ece.tail(absolute)}
        rounding = math.inf if self.slopes else _NOTHING * self.cells.total
        return {**parts, "ece": (absolute <= rounding).astype(np.float64)}

    def statistic(self, sums: Sums, least: float = -math.inf) -> Float64s:
        """Return the combined statistic, (B,): large where a part has a small p-value.

        Where it is below ``least`` it may be -inf, which costs less: a mean reaches it only if one of its parts does.
        """
        deviations = self._deviations(sums)
        if least <= 0 or self.ece is None:
            return combined(np.stack(list(self._tails(deviations).values())))
        p = max(1.001 * tail(least), 1e-12)  # a little too many, in spite of rounding
        far = {**dict.fromkeys(self.slopes, normal_quantile(1 - p)), "ece": self.ece.quantile(1 - p)}
        may = np.any([deviations[name] >= far[name] for name in far], axis=0)
        statistic = np.full(len(may), -math.inf)
        if may.any():
            parts = self._tails({name: sizes[may] for name, sizes in deviations.items()})
            statistic[may] = combined(np.stack(list(parts.values())))
        return statistic

    def result(self, data: Sums, replicates: Float64s | None, sample: Sample = UNKNOWN) -> TestResult:
        """Return the test of the data, with the p-value by the statistic of simulated data sets, (B,), if any.

        The ``sample`` has a warning about the data, and what ends the method.
        """
        parts = {name: float(p[0]) for name, p in self.p_values(data).items()}
        statistic = float(combined(np.array(list(parts.values()))))
        details: dict[str, Any] = {"parts": parts, "leading": min(parts, key=parts.__getitem__)}
        p, source = tail(statistic) if len(parts) > 1 else parts["ece"], "closed form"  # one part: it is the test
        if replicates is not None:
            details |= {"closed_form_p_value": p, "least_p_value": 1 / (len(replicates) + 1)}
            p, source = p_value(replicates, statistic), f"{len(replicates):,} resamples"
        if sample.flag:
            details["flag"] = sample.flag
        names = {"mean": "mean", "spread": "spread", "ece": "ECE"}
        method = f"Cauchy combination of {', '.join(names[name] for name in parts)}; {source}{sample.suffix}"
        return TestResult(statistic, p, method, self.cells.table.n, details)


def refuted(test: TestResult, impossible: ImpossibleOutcomes | None) -> TestResult:
    """Return the test with the p-value of the outcomes that the scores exclude, if there are any.

    ``details["p_value_of_sums"]`` is the p-value of the parts, which applies if scores of 0 and 1 are rounded ones.
    """
    if impossible is None or test.p_value < impossible.p_value:
        return test
    rows = impossible.events + impossible.non_events
    details = {**test.details, "impossible_outcomes": rows, "p_value_of_sums": test.p_value}
    method = f"{test.method}; p-value of outcomes with a predicted probability of 0 or nearly 0"
    return replace(test, p_value=impossible.p_value, method=method, details=details)


def closed_form(cells: Cells, bins: BinSums) -> TestResult:
    """Return the verdict on independent rows of these cells and bins, in closed form."""
    design = SamplingDesign(cells)
    return Verdict.of(design, bins).result(RowNull(cells, bins).observed, None, design.sample)


def verdict_of(event: Event) -> Verdict:
    """Return the verdict on an event: ``event.of(verdict_of)``."""
    return Verdict.of(event.design, event.of(uniform_sums))


def closed_form_test(event: Event) -> TestResult:
    """Return the test of calibration by the verdict, without resampling: ``event.of(closed_form_test)``."""
    test = event.of(verdict_of).result(event.of(null_of).observed, None, event.design.sample)
    return refuted(test, event.impossible)


def verdict_statistic(replicates: Replicates) -> Float64s:
    """Return the combined statistic of simulated data sets, (B,)."""
    return replicates.inference.event.of(verdict_of).statistic(replicates.sums)


def calibration_test(inference: Inference) -> GroupTest:
    """Return the test that decides, of the mean, the spread and the ECE together, with a way to a finer p-value."""
    event, verdict = inference.event, inference.event.of(verdict_of)
    if inference.resampling.n_resamples:
        drawn, observed = inference.replicates_of(verdict_statistic), event.of(null_of).observed
        test = refuted(verdict.result(observed, drawn, inference.design.sample), event.impossible)
    else:
        test = event.of(closed_form_test)

    def redrawn(n_resamples: int) -> float:
        value = float(verdict_statistic(inference.observed)[0])
        work: dict[str, Statistic] = {"": lambda replicates: verdict.statistic(replicates.sums, least_of(value))}
        return sequential_p_value((block[""] for block in inference.blocks(work, n_resamples)), value)

    variance = float(inference.cells.null_variances.sum())
    return GroupTest(test=test, variance=variance, redrawn=redrawn, exact=partial(count_p_value, inference.design))


def combined(p_values: Float64s) -> Float64s:
    """Return the mean of tan(pi (1/2 - p)) over the first axis."""
    p = np.clip(p_values, _LEAST, _MOST)
    usual = np.tan(math.pi * (0.5 - np.maximum(p, _SMALL)))
    return np.asarray(np.where(p < _SMALL, 1 / (math.pi * p), usual).mean(axis=0))


def tail(statistic: float) -> float:
    """Return the probability of more than this under the standard Cauchy law."""
    return 1 / (math.pi * statistic) if statistic > 1 / _SMALL else 0.5 - math.atan(statistic) / math.pi


def count_p_value(design: SamplingDesign) -> float:
    """Return the two-sided p-value of the number of outcomes, by its exact law if the scores are right.

    Each cell adds a binomial count; their distribution is the convolution. Outcomes of scores above 1/2 are counted as
    failures, so that both counts are small where their variance is. NaN with weights that are not whole, and for
    clusters.
    """
    cells = design.cells
    if isinstance(design, Clustered) or not cells.table.whole:
        return math.nan
    low, p, n = cells.scores <= 0.5, cells.scores, cells.counts
    events, failures = _count_law(n[low], p[low]), _count_law(n[~low], 1 - p[~low])
    chances = np.convolve(events, failures[::-1])
    excess = np.arange(len(chances)) - (len(failures) - 1)  # events of low scores less failures of high ones
    seen = float(cells.positives[low].sum() - (n - cells.positives)[~low].sum())
    expected = float(np.sum((n * p)[low]) - np.sum((n * (1 - p))[~low]))
    far = np.abs(excess - expected) >= abs(seen - expected) - _EQUAL
    return float(min(chances[far].sum(), 1.0))


def _count_law(counts: Float64s, rates: Float64s) -> Float64s:
    """Return the probabilities of 0, 1, 2, ... events of cells with these numbers of rows and rates."""
    from scipy.special import gammaln, xlog1py, xlogy

    mean = float(np.sum(counts * rates))
    most = int(mean + 40 * math.sqrt(mean + 1) + 40)
    law, numbers = np.ones(1), np.arange(most + 1)
    for n, p in zip(counts, rates, strict=True):
        k = numbers[: int(min(n, most)) + 1]
        logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)
        law = np.convolve(law, np.exp(logs))[: most + 1]
    return law


def _slopes(scores: Float64s, variances: Float64s) -> Float64s | None:
    """Return the spread's slopes: standardised log-odds, cut at 3, less their mean weighted by the variances."""
    z, total = log_odds(np.clip(scores, _CERTAIN, 1 - _CERTAIN)), float(variances.sum())
    centre = float(np.sum(variances * z)) / total
    sd = math.sqrt(float(np.sum(variances * (z - centre) ** 2)) / total)
    if sd <= _EQUAL:
        return None
    slopes = np.clip((z - centre) / sd, -_FAR, _FAR)
    slopes = slopes - float(np.sum(variances * slopes)) / total
    return np.asarray(slopes / math.sqrt(float(np.sum(variances * slopes**2))))


def of_estimate(estimate: Estimate) -> TestResult:
    """Return the test by the error over all classes, from its estimate."""
    names = ("closed_form_p_value", "least_p_value")
    kept = {name: estimate.details[name] for name in names if name in estimate.details}
    p_value = estimate.details.get("p_value_of_floor", estimate.p_value)
    details = {"parts": {"ece": p_value}, "leading": "ece", **kept}
    return TestResult(estimate.value, p_value, "ECE over all classes", estimate.n, details)
