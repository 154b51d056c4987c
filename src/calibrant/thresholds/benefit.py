"""Thresholds by net benefit: those that costs imply, or listed ones, with what acting on the scores there is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.predictions import Notion
from calibrant.measures.decisions.decision_curve import as_thresholds, decision_curve_of
from calibrant.measures.event import Event
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, Shown
from calibrant.report.evaluated_data import of_arguments
from calibrant.results.values import NetBenefit, plain, plain_panel
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import PredictedGroups
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, details_of
from calibrant.thresholds.asked import as_confidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA_VERSION: Final = 1


class WrongDecisions(NamedTuple):
    """The costs of both kinds of wrong decisions, in one unit."""

    false_positive: float
    false_negative: float

    @property
    def threshold(self) -> float:
        """The threshold with the lowest mean cost for calibrated scores: t / (1 - t) is the ratio of the costs."""
        return 1 / (1 + self.false_negative / self.false_positive)


@dataclass(frozen=True, eq=False, kw_only=True)
class BenefitOfThresholds(Shown):
    """The net benefit of one event's scores at chosen thresholds.

    Attributes
    ----------
    chosen : NetBenefit
        The net benefit at the chosen thresholds: the listed ones, or the one that the costs imply.
    curve : NetBenefit
        The net benefit at 0.01, 0.02, ..., 0.99.
    costs : WrongDecisions or None
        The costs of a false positive and of a false negative; None if thresholds are listed.
    n : int
        The number of evaluated rows.
    outcome_rate : float
        The share of rows in which the event occurred.
    notion : str
        The evaluated event.
    n_classes : None
        One event has no classes.
    clusters : mapping or None
        The number of clusters, and the share of the rows in the largest one.
    flag : str
        A caution about the intervals.
    """

    chosen: NetBenefit
    curve: NetBenefit
    costs: WrongDecisions | None
    n: int
    outcome_rate: float
    notion: Notion
    n_classes: int | None
    clusters: Mapping[str, Any] | None
    flag: str

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.thresholds.benefit_document import document_of

        return document_of(self, source, full=full)

    def plot(self, **options: Any) -> Axes:
        """Draw the decision curve with matplotlib, and return the axes."""
        from calibrant.plot import decision_curve

        return decision_curve(self.curve, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON."""
        missing: dict[str, str] = {}
        costs = None if self.costs is None else self.costs._asdict()
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "clusters": None if self.clusters is None else plain(dict(self.clusters), "clusters", missing),
            "level": self.chosen.level,
            "outcome_rate": self.outcome_rate,
            "costs": costs,
            "chosen": plain_panel(self.chosen, "chosen", missing),
            "decision_curve": plain_panel(self.curve, "decision_curve", missing),
            "flag": self.flag,
            "not_finite": missing,
        }


def benefit_of_thresholds(
    probs: PredictedGroups,
    targets: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    cost_of_false_positive: float | None = None,
    cost_of_false_negative: float | None = None,
    confidence: float = 0.95,
    **how: Any,
) -> BenefitOfThresholds:
    """Return the net benefit at ``thresholds``, or at the one that both costs imply.

    The threshold of costs c of a false positive and d of a false negative is c / (c + d). For calibrated scores it has
    the lowest mean cost. Intervals are those of `calibrant.net_benefit`, for rows in clusters by cluster.

    Parameters
    ----------
    probs, targets
        As in `calibrant.net_benefit`.
    thresholds : (T,) array, optional
        Increasing numbers above 0 and below 1.
    cost_of_false_positive, cost_of_false_negative : float, optional
        Costs above 0, instead of ``thresholds``.
    confidence : float, default 0.95
        The level of the intervals.
    **how
        Weights, clusters and others, as in `calibrant.evaluate`.

    Raises
    ------
    calibrant.errors.InputError
        As `calibrant.net_benefit`; for costs that are not above 0; for several classes.
    """
    level = as_confidence(confidence)
    costs = None if thresholds is not None else _costs(cost_of_false_positive, cost_of_false_negative)
    places = np.array([costs.threshold]) if costs is not None else thresholds
    data = of_arguments(probs, targets, **how)
    if data.notion != "positive":
        remedy = "pass one column, such as probs[:, 1] (--score; of a decision log, --question with a yes-no question)"
        raise InputError("probs", "the probability of one event, which has a net benefit", "several classes", remedy)
    (table,) = data.tables
    clusters = None if data.clusters is None else Clustered.of(Cells.from_table(table), data.clusters.event)
    event = Event(table=table, clusters=clusters)
    flags = (data.flag, "" if clusters is None else clusters.sample.flag)
    facts = {"clusters": table.n, "largest_cluster": 1 / table.n} if data.alone else None
    return BenefitOfThresholds(
        chosen=decision_curve_of(event, level, as_thresholds(places)),
        curve=decision_curve_of(event, level),
        costs=costs,
        n=table.n,
        outcome_rate=event.outcome_rate,
        notion=data.notion,
        n_classes=data.n_classes,
        clusters=facts if data.clusters is None else details_of(data.clusters.event),
        flag="; ".join(filter(None, flags)),
    )


def _costs(false_positive: object, false_negative: object) -> WrongDecisions:
    """Return the costs; numbers above 0."""
    named = {"cost_of_false_positive": false_positive, "cost_of_false_negative": false_negative}
    for name, cost in named.items():
        if not isinstance(cost, (int, float, np.number)) or isinstance(cost, bool) or not 0 < cost < math.inf:
            raise InputError(name, "a number above 0", repr(cost), "pass both costs in the same unit, or thresholds")
    costs = WrongDecisions(*map(float, named.values()))  # type: ignore[arg-type]
    if not 0 < costs.threshold < 1:
        expected = "costs whose ratio is that of a threshold between 0 and 1"
        got = f"{false_positive} and {false_negative}"
        raise InputError("cost_of_false_positive", expected, got, "pass the threshold itself")
    return costs
