"""The findings of a report, as facts without words: whether the scores err, which way, and by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrant.inputs import Notion
from calibrant.measures.corp import DISCRIMINATION, MISCALIBRATION, UNCERTAINTY
from calibrant.measures.ece import ECE
from calibrant.measures.gap import MEAN_CONFIDENCE, MEAN_GAP
from calibrant.results import Code, Estimate, Finding, ReliabilityDiagram
from calibrant.sampling.means import MINORITY

#: The measures that findings are made from, whichever measures a report shows.
DECIDING: Final = (MEAN_CONFIDENCE, MEAN_GAP, ECE, MISCALIBRATION, DISCRIMINATION, UNCERTAINTY)

_NOTHING: Final = 0.0005  # gaps below a twentieth of a point count as 0
_FALLING: Final = 4.0  # standard errors of the slope


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """The numbers that findings are made from.

    Attributes
    ----------
    estimates : mapping
        The estimates of the `DECIDING` measures by name.
    notion : str
        The judged event.
    n : int
        The number of judged rows.
    outcome_rate : float
        The share of rows in which the judged event happened.
    diagram : ReliabilityDiagram or None
        The bins of the judged event; None if every class is judged.
    level : float or None
        The confidence of the intervals; None without intervals.
    rarer : float
        The effective sample size of the rarer outcome.
    """

    estimates: Mapping[str, Estimate]
    notion: Notion
    n: int
    outcome_rate: float
    diagram: ReliabilityDiagram | None
    level: float | None
    rarer: float

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, the test of calibration first."""
        findings = [] if self.level is None else [self._evidence(self.level)]
        if self.diagram is not None:
            findings.append(self._mean())
            if self.notion == "positive":
                findings.append(self._confidence(self.diagram))
        findings.append(self._gain())
        if self.diagram is not None and self.level is not None:
            if self._falls(self.diagram):
                findings.append(Finding(Code.FALLING_CURVE))
            if self.rarer < MINORITY:
                findings.append(Finding(Code.RARE_OUTCOME, {"rows": self.rarer, "enough": MINORITY}))
        return tuple(findings)

    def _evidence(self, level: float) -> Finding:
        ece = self.estimates["ece"]
        upper = math.nan if ece.floor is None else ece.floor.upper
        facts = {"measure": "ece", "value": ece.value, "upper": upper, "p_value": ece.p_value}
        return Finding(Code.NO_EVIDENCE if ece.p_value > 1 - level else Code.MISCALIBRATED, facts)

    def _mean(self) -> Finding:
        gap = self.estimates["mean_gap"]
        codes = (Code.TOO_HIGH, Code.TOO_LOW, Code.RIGHT_ON_AVERAGE)
        facts = {"mean_score": self.estimates["mean_confidence"].value, "event_rate": self.outcome_rate}
        return self._directed(gap.value, codes, facts)

    def _confidence(self, diagram: ReliabilityDiagram) -> Finding:
        """Return the finding about confidence: scores farther from 1/2 than the outcomes are over-confident.

        The standard error is that of the mean gap: the residuals are the same, with other signs.
        """
        filled = ~np.isnan(diagram.confidences) & (diagram.confidences != 0.5)
        shares = diagram.proportions[filled].tolist()
        gaps = zip(shares, diagram.confidences[filled].tolist(), diagram.accuracies[filled].tolist(), strict=True)
        excess = sum(math.copysign(share, score - 0.5) * (score - rate) for share, score, rate in gaps)
        return self._directed(excess, (Code.OVER_CONFIDENT, Code.UNDER_CONFIDENT, Code.RIGHTLY_CONFIDENT), {})

    def _directed(self, value: float, codes: tuple[Code, Code, Code], facts: dict[str, float]) -> Finding:
        """Return a finding about a gap: above 0, below 0 or neither. Its interval is as wide as the mean gap's."""
        gap = self.estimates["mean_gap"]
        if math.isnan(gap.low):
            low = high = value if abs(value) >= _NOTHING else 0.0
        else:
            half = (gap.high - gap.low) / 2
            low, high = max(value - half, -1.0), min(value + half, 1.0)
        code = codes[0] if low > 0 else codes[1] if high < 0 else codes[2]
        return Finding(code, {"value": value, "low": low, "high": high, **facts})

    def _gain(self) -> Finding:
        gain, discrimination, uncertainty = (
            self.estimates[measure.name].value for measure in (MISCALIBRATION, DISCRIMINATION, UNCERTAINTY)
        )
        return Finding(Code.RECALIBRATION_GAIN, {"gain": gain, "score": gain - discrimination + uncertainty})

    def _falls(self, diagram: ReliabilityDiagram) -> bool:
        """Return whether the outcome rate clearly falls as the score rises."""
        filled = ~np.isnan(diagram.confidences)
        columns = (diagram.proportions, diagram.confidences, diagram.accuracies)
        shares, scores, rates = (column[filled] for column in columns)
        centred = scores - np.sum(shares * scores)
        together = float(np.sum(shares * centred * (rates - self.outcome_rate)))
        variance = float(np.sum(shares * centred**2)) * self.outcome_rate * (1 - self.outcome_rate) / self.n
        return together < -_FALLING * math.sqrt(max(variance, 0.0))
