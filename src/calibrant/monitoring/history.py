"""What a monitor has seen and found so far: the numbers of its dictionary, of its document and of its metrics."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from calibrant.monitoring.slices import Drift, Impossible
from calibrant.results.values import plain

#: The version of the dictionary of a monitor.
SCHEMA_VERSION: Final = 1


class SliceSeen(NamedTuple):
    """A slice of rows.

    Attributes
    ----------
    label, n, difference : str, float, float
        Its name, the weight of its rows, and their mean score less the observed frequency.
    log_evidence, log_evidence_of_rows : float
        The logarithm of the evidence after it without impossible outcomes: with that of groups, and of all rows alone.
    impossible : float
        The weight of the outcomes that their scores exclude.
    low, high, informative : float, float, bool
        The confidence sequence of the mean difference over all rows up to it.
    equal_to : str or None
        The label of the first slice that has the same rows.
    """

    label: str
    n: float
    difference: float
    log_evidence: float
    log_evidence_of_rows: float
    impossible: float
    low: float
    high: float
    informative: bool
    equal_to: str | None


class GroupSeen(NamedTuple):
    """A group: its rows and their mean difference, NaN without rows, and its largest evidence after closed testing.

    ``log_evidence`` is the logarithm without impossible outcomes, NaN before the first slice. ``kind`` is that of a
    question, empty for other groups; ``since`` is the label of the slice in which a later question appeared, else
    empty.
    """

    name: str
    n: float
    difference: float
    log_evidence: float
    impossible: float
    called_out: bool
    kind: str
    since: str

    @property
    def log_e(self) -> float:
        """The logarithm of the evidence: infinite after an impossible outcome."""
        return math.inf if self.impossible else self.log_evidence


class PromiseSeen(NamedTuple):
    """The promise of a threshold: the decisions that were automatic, the errors among them, and their share.

    ``risk`` is NaN without such decisions. ``log_evidence`` is adjusted for the number of promises that are watched
    together.
    """

    value: float
    side: str
    max_risk: float
    n_automatic: float
    n_errors: float
    risk: float
    log_evidence: float
    broken: bool
    question: str
    composite_of: tuple[str, ...]
    group: str


class History(NamedTuple):
    """All slices, groups and promises of a monitor, and what follows from them.

    Attributes
    ----------
    n, mean_difference : float
        The weight of all rows, and their mean score less the observed frequency; NaN without rows.
    notion, n_classes : str, int or None
        The evaluated event.
    questions : {"", "declared", "open"}
        Whether the questions of decision logs were declared, or new ones may appear; empty for other rows.
    alpha, tolerance, tolerance_odds : float, or None without a tolerance
        The arguments of the monitor.
    alarm, evidence, log_evidence, p_value, impossible, drift
        As those of the monitor; ``log_evidence`` is the logarithm of the largest evidence.
    log_evidence_of_drifts : float
        The same logarithm without impossible outcomes.
    promises_alpha : float
        A bound on the probability of an alarm about a promise if all promises are kept: ``alpha`` for each call that
        added thresholds.
    """

    n: float
    notion: str
    n_classes: int | None
    questions: str
    alpha: float
    tolerance: float | None
    tolerance_odds: float | None
    alarm: bool
    evidence: float
    log_evidence: float
    log_evidence_of_drifts: float
    impossible: Impossible
    p_value: float
    mean_difference: float
    slices: tuple[SliceSeen, ...]
    drift: Drift | None
    groups: tuple[GroupSeen, ...]
    promises: tuple[PromiseSeen, ...]
    promises_alpha: float

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return 1 - self.alpha

    @property
    def called_out(self) -> list[GroupSeen]:
        """The groups that are no longer calibrated."""
        return [group for group in self.groups if group.called_out]

    @property
    def promise_broken(self) -> bool:
        """Whether a promise is no longer kept."""
        return any(promise.broken for promise in self.promises)

    @property
    def drift_of_rows(self) -> Drift | None:
        """The drift, if all rows together would raise the alarm: with groups, theirs is half of the evidence."""
        most = max((part.log_evidence_of_rows for part in self.slices), default=0.0)
        return self.drift if not self.groups or most >= -math.log(self.alpha) else None

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None."""
        missing: dict[str, str] = {}
        return {
            "schema_version": SCHEMA_VERSION,
            "monitor": True,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "questions": self.questions,
            "clusters": None,
            "level": self.level,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "tolerance_odds": self.tolerance_odds,
            "alarm": self.alarm,
            "evidence": plain(self.evidence, "evidence", missing),
            "log_evidence": plain(self.log_evidence, "log_evidence", missing),
            "log_evidence_of_drifts": self.log_evidence_of_drifts,
            "impossible": self.impossible._asdict(),
            "p_value": self.p_value,
            "mean_difference": plain(self.mean_difference, "mean_difference", missing),
            "slices": [part._asdict() for part in self.slices],
            "drift": None if self.drift is None else plain(vars(self.drift), "drift", missing),
            "groups": [
                {
                    **group._asdict(),
                    "difference": plain(group.difference, f"groups.{group.name}", missing),
                    "log_evidence": plain(group.log_evidence, f"groups.{group.name}.log_evidence", missing, "infinite"),
                }
                for group in self.groups
            ],
            "promises": [
                promise._asdict() | {"risk": plain(promise.risk, "promises.risk", missing)} for promise in self.promises
            ],
            "not_finite": missing,
        }
