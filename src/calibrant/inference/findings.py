"""The findings of a report, as facts without words: whether the scores err, which way, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.ece import ECE
from calibrant.measures.isotonic.corp import DISCRIMINATION, MISCALIBRATION, UNCERTAINTY
from calibrant.measures.line.line import Line, WithoutEnds
from calibrant.measures.means.in_the_large import MEAN_CONFIDENCE, MEAN_GAP
from calibrant.measures.means.means import DECIDING_ROWS, heavy
from calibrant.results import Code, Decision, Estimate, Finding, ReliabilityDiagram, TestResult
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.design import LARGE, MINORITY, ROWS, large, rare
from calibrant.statistics.impossible import ImpossibleOutcomes
from calibrant.statistics.resampling import alpha_of

#: The measures that findings are made from, whichever measures a report shows.
DECIDING: Final = (MEAN_CONFIDENCE, MEAN_GAP, ECE, MISCALIBRATION, DISCRIMINATION, UNCERTAINTY)

#: The findings that say why intervals may be too short, or wide.
DOUBTS: Final = (Code.RARE_OUTCOME, Code.LARGE_CLUSTER, Code.HEAVY_WEIGHTS)

_NOTHING: Final = 0.0005  # gaps below a twentieth of a point count as 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """The numbers that findings are made from."""

    estimates: Mapping[str, Estimate]  # of the `DECIDING` measures, by name
    notion: Notion  # the evaluated event
    n: int  # the number of evaluated rows
    outcome_rate: float  # the share of rows in which the evaluated event occurred
    diagram: ReliabilityDiagram | None = None  # the bins of the evaluated event; None if every class is evaluated
    level: float | None = None  # the confidence of the intervals; None without intervals
    test: TestResult | None = None  # the test of calibration that decides; None without intervals
    impossible: ImpossibleOutcomes | None = None  # the outcomes that the scores exclude; None without any
    decision: Decision | None = None  # whether an error is below a tolerance; None without one
    line: Line | None = None  # of the evaluated event; None if every class is evaluated, and without intervals
    falls: bool = False  # whether the observed frequency clearly falls as the score of the evaluated event rises
    #: The line without the rows whose scores are moved in from 0 and 1; None without such rows.
    ends: WithoutEnds | None = None
    gap_p_value: float = math.nan  # of a mean difference of 0, with the standard error of its interval
    balanced: bool = False  # whether the mean difference is 0 by construction, as outcomes of clusters add up to scores
    #: rarer, unit, of_event: as in `Sample`.
    rarer: float = math.inf
    unit: str = ROWS
    of_event: bool = True
    largest_cluster: float = 0.0  # the share of the rows in the largest cluster; 0 without clusters
    deciding: float = math.inf  # how many rows decide a variance by their weights; infinite if weights are whole
    one_image: bool = False  # whether the rows are those of one image, which are assumed to be independent
    #: The rows, and what their whole weights add up to, if the weights may be sampling weights.
    counted: tuple[int, float] | None = None

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, the test of calibration first."""
        findings = [] if self.decision is None else [_decided(self.decision)]
        if self.test is not None:
            if self.impossible is not None:
                facts = {**self.impossible._asdict(), "p_value_of_sums": self._p_value_of_sums(self.test)}
                findings.append(Finding(Code.IMPOSSIBLE_OUTCOMES, facts))
            findings.append(self._evidence(self.test))
        if self.diagram is not None:
            findings.append(self._mean())
        if self.line is not None and self._has_slope(self.line):
            findings.append(self._spread(self.line))
        findings.append(self._gain())
        if self.diagram is not None and self.level is not None and self.falls:
            findings.append(Finding(Code.FALLING_CURVE))
        return (*findings, *self.doubts())

    def doubts(self) -> Iterator[Finding]:
        """Yield what about the rows makes intervals too short, or wide; nothing without intervals."""
        if self.level is None:
            return
        if self.diagram is not None and rare(self.rarer):
            unit = {} if self.unit == ROWS else {"unit": self.unit}
            facts = {"rows": self.rarer, "enough": MINORITY, "of_event": self.of_event, **unit}
            yield Finding(Code.RARE_OUTCOME, facts)
        if large(self.largest_cluster):
            yield Finding(Code.LARGE_CLUSTER, {"share": self.largest_cluster, "most": LARGE})
        if heavy(self.deciding):
            yield Finding(Code.HEAVY_WEIGHTS, {"rows": self.deciding, "enough": DECIDING_ROWS})
        if self.one_image:
            yield Finding(Code.ONE_IMAGE)
        if self.counted is not None:
            yield Finding(Code.WHOLE_WEIGHTS, {"rows": self.counted[0], "weight": self.counted[1]})

    @property
    def _rejected(self) -> bool:
        return self.test is not None and self.level is not None and self.test.p_value <= alpha_of(self.level)

    def _p_value_of_sums(self, test: TestResult) -> float:
        """Return the p-value of the components, whatever outcomes the scores exclude."""
        return float(test.details.get("p_value_of_sums", test.p_value))

    def _evidence(self, test: TestResult) -> Finding:
        ece = self.estimates["ece"]
        upper = math.nan if ece.floor is None else ece.floor.upper
        ends = {"low": ece.low, "high": ece.high}
        facts = {"p_value": test.p_value, "leading": self._leading(test), "ece": ece.value, "upper": upper, **ends}
        return Finding(Code.MISCALIBRATED if self._rejected else Code.NO_EVIDENCE, facts)

    def _mean(self) -> Finding:
        gap = self.estimates["mean_gap"]
        codes = (Code.TOO_HIGH, Code.TOO_LOW, Code.RIGHT_ON_AVERAGE)
        facts: dict[str, Any] = {"mean_score": self.estimates["mean_confidence"].value, "event_rate": self.outcome_rate}
        if self.balanced:
            facts |= {"value": gap.value, "low": gap.low, "high": gap.high, "by_construction": True}
            return Finding(Code.RIGHT_ON_AVERAGE, facts)
        low, high = gap.low, gap.high
        if math.isnan(low):
            low = high = gap.value if abs(gap.value) >= _NOTHING else 0.0
        return self._directed("mean", (gap.value, low, high), codes, self.gap_p_value, facts)

    def _has_slope(self, line: Line) -> bool:
        """Return whether the scores differ enough for a slope, here and in the test."""
        tested = self.test is None or "spread" in self.test.details["parts"]
        return tested and not math.isnan(line.slope)

    def _spread(self, line: Line) -> Finding:
        """Return the finding about the spread: the slope of the log-odds line is below 1, above 1, or neither.

        None of these where that is decided by how scores of 0 and 1 count: without their rows it is another.
        """
        finding = self._of_slope(line)
        if self.ends is None:
            return finding
        inner = self.ends.inner
        clear = not math.isnan(inner.slope) and self._of_slope(inner).code == finding.code
        ends = dict(zip(("inner_value", "inner_low", "inner_high"), inner, strict=False))
        return Finding(
            finding.code if clear else Code.UNCLEAR_SPREAD,
            {**finding.facts, **ends, "moved_from_the_ends": self.ends.rows},
        )

    def _of_slope(self, line: Line) -> Finding:
        codes = (Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH, Code.RIGHTLY_SPREAD)
        low, high = (-math.inf, math.inf) if math.isnan(line.low) else (line.low, line.high)
        return self._directed("spread", (1 - line.slope, 1 - high, 1 - low), codes, line.p_value, {})

    def _directed(
        self,
        part: str,
        ends: tuple[float, float, float],
        codes: tuple[Code, Code, Code],
        p_value: float,
        facts: dict[str, float],
    ) -> Finding:
        """Return a finding about a deviation, from its value and the ends of its interval: above 0, below 0 or neither.

        A direction is a fact only if the verdict rejects calibration. Otherwise it is one of several tests, whose
        unadjusted p-value has the standard error of the interval.
        Where this part has decided the verdict, its direction is that of the value.
        """
        value, low, high = ends
        off = low > 0 or high < 0 or (self._rejected and self._leads(part) and value != 0)
        code = codes[2] if not off else codes[0] if value > 0 else codes[1]
        if part == "spread":
            value, low, high = 1 - value, 1 - high, 1 - low
        facts = {"value": value, "low": low, "high": high, **facts}
        if off and self.test is not None and not self._rejected:
            facts |= {"by_itself": p_value, "looks": len(self.test.details["parts"])}
        return Finding(code, facts)

    def _leads(self, part: str) -> bool:
        if self.test is None or self.level is None or self._p_value_of_sums(self.test) > alpha_of(self.level):
            return False  # what the scores exclude has no direction
        return self._leading(self.test) == part

    def _leading(self, test: TestResult) -> str:
        """Return the part with the smallest p-value. In a single bin the ECE is the size of the mean difference."""
        single = self.diagram is not None and np.count_nonzero(self.diagram.counts) == 1
        leading = str(test.details["leading"])
        return "mean" if single and leading == ECE.name else leading

    def _gain(self) -> Finding:
        gain, discrimination, uncertainty = (
            self.estimates[measure.name] for measure in (MISCALIBRATION, DISCRIMINATION, UNCERTAINTY)
        )
        score = gain.value - discrimination.value + uncertainty.value
        high = min(gain.high, score) if math.isfinite(gain.high) else gain.high
        return Finding(Code.RECALIBRATION_GAIN, {"gain": gain.value, "high": high, "score": score})


def _decided(decision: Decision) -> Finding:
    codes = {"proven": Code.PROVEN, "disproven": Code.DISPROVEN, "open": Code.UNDECIDED}
    facts = asdict(decision)
    return Finding(codes[facts.pop("state")], facts)
