"""`Threshold`: the lowest score of automatic decisions, as a value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from calibrant.inputs.conversion import as_array, as_numbers, is_tensor, like, on_device, real_tensor
from calibrant.inputs.predictions import Notion
from calibrant.render.shown import NO_SOURCE, Shown
from calibrant.results import Estimate
from calibrant.results.values import RiskCoverageCurve, plain, plain_estimate
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.render.blocks import Document, Source

#: The version of the dictionary of a threshold.
SCHEMA_VERSION: Final = 1

#: How thresholds are certified.
Method = Literal["closed", "fixed-sequence", "betting"]

#: What is decided at a threshold: the predicted class or the predicted event, or the event's absence.
Side = Literal["yes", "no"]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The mean cost of a row, with errors and referrals of the given costs.

    Attributes
    ----------
    error, referral : float
        The cost of an error of an automatic decision, and of a row that is referred.
    cost : Estimate
        The mean cost of a row with this threshold.
    net_benefit : Estimate
        The cost of referring every row minus ``cost``, in units of ``referral``: (TP - FP o) / N with
        o = error / referral - 1.
    all_automatic : float
        The mean cost of a row if every row is decided automatically.
    planned : float
        1 - referral / error, the threshold with the least cost for calibrated scores.
    """

    error: float
    referral: float
    cost: Estimate
    net_benefit: Estimate
    all_automatic: float
    planned: float


@dataclass(frozen=True, kw_only=True)
class Share:
    """The coverage and the risk of a threshold in a group.

    Attributes
    ----------
    coverage : float
        The share of the rows that are decided automatically.
    risk, risk_low, risk_high : float
        The error rate of the rows that are decided automatically, with its confidence interval; NaN without such rows.
    """

    coverage: float
    risk: float
    risk_low: float
    risk_high: float


class ThresholdResult(Shown, ABC):
    """What `certify_threshold` and `certify_two_sided` return."""

    n: int
    notion: Notion
    n_classes: int | None
    confidence: float
    coverage: float
    risk: float
    costs: Costs | None

    @property
    @abstractmethod
    def sides(self) -> tuple[Threshold, ...]:
        """The thresholds: one, or those of the decisions "yes" and "no"."""

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether there is a threshold."""

    @abstractmethod
    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None."""

    @abstractmethod
    def plot(self, **options: Any) -> Axes:
        """Draw the risk-coverage curve with matplotlib, and return the axes."""

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.thresholds.threshold_document import document_of

        return document_of(self, source, full=full)

    def verdict(self) -> list[str]:
        """Return sentences: what can be automated, with which risk, and what would allow more.

        This computes no risk-coverage curve.
        """
        from calibrant.thresholds.threshold_document import verdict_of

        return [sentence.text for sentence in verdict_of(self, NO_SOURCE)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict()[0]} Print this object to see everything.>"


@dataclass(frozen=True, eq=False, kw_only=True)
class Threshold(ThresholdResult):
    """The result of `certify_threshold`: the lowest certified score, and what happens at and above it.

    Attributes
    ----------
    value : float or None
        Decide automatically at this score and above; None if no threshold is certified.
    rounded : float or None
        The shortest decimal number, of two digits or more, that splits these rows as ``value`` does; ``value`` itself
        if every row is decided, or if scores are in cells of a grid.
    side : {"yes", "no"}
        "no" for decisions at ``value`` and below.
    max_risk, confidence : float
        The promise: the risk is above ``max_risk`` with a probability of at most 1 - ``confidence``.
    method : str
        The method that certified it.
    n, n_automatic, n_errors : int, float, float
        The number of rows, and the weight of the automatic ones and of the errors among them.
    n_clusters, n_clusters_wrong : int or None
        The number of clusters with automatic rows, and of those with errors among them; None if it is not known.
    coverage, coverage_low, coverage_high : float
        The share of rows that are decided automatically, with its two-sided interval at ``confidence``; 0 for none.
    risk, risk_high : float
        The error rate of automatic decisions in these rows, and its one-sided upper end at ``confidence``; NaN for
        none.
    reason : str
        Why no threshold was found; empty with one.
    audit_rows : int
        How many randomly chosen automatic decisions to label in each later period, to find a risk of twice ``max_risk``
        within ten periods with 80 % power.
    audit_fraction : float or None
        ``audit_rows`` as a share of the automatic decisions in a period with as many rows as the certification had; 1
        if there are fewer decisions than ``audit_rows``. None without a threshold.
    approximate : bool
        Whether the promise is approximate: with design effects of clusters or weights that are not whole numbers, and
        with "betting" if a bound was not declared.
    largest_cluster, max_weight : float or None
        With "betting", the largest number of rows of a cluster and the largest weight of a row that the promise
        assumes; None for independent rows, and for rows without sampling weights.
    observed_bounds : tuple of str
        Which of ``largest_cluster`` and ``max_weight`` were not declared, so that the largest value in these rows is
        assumed.
    flag : str
        A caution.
    clusters : mapping or None
        The number of clusters and the share of the largest; None without clusters.
    costs : Costs or None
        The costs, if they are given.
    by_group : mapping of str to Threshold
        The threshold of each group, or of each predicted class, all certified together.
    common : mapping of str to Share
        The coverage and the risk of the threshold ``value`` in each group.
    """

    value: float | None
    rounded: float | None = None
    side: Side = "yes"
    max_risk: float
    confidence: float
    method: Method
    notion: Notion
    n_classes: int | None = None
    n: int
    n_automatic: float = 0.0
    n_errors: float = 0.0
    n_clusters: int | None = None
    n_clusters_wrong: int | None = None
    coverage: float = 0.0
    coverage_low: float = 0.0
    coverage_high: float = 0.0
    risk: float = math.nan
    risk_high: float = math.nan
    reason: str = ""
    audit_rows: int = 0
    audit_fraction: float | None = None
    approximate: bool = False
    largest_cluster: float | None = None
    max_weight: float | None = None
    observed_bounds: tuple[str, ...] = ()
    flag: str = ""
    clusters: Mapping[str, Any] | None = None
    costs: Costs | None = None
    by_group: Mapping[str, Threshold] = field(default_factory=dict)
    common: Mapping[str, Share] = field(default_factory=dict)
    per_class: bool = False
    plan_maker: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False)
    curve_maker: Callable[[], tuple[RiskCoverageCurve, Mapping[str, Estimate]]] | None = field(default=None, repr=False)

    __repr__ = ThresholdResult.__repr__

    @property
    def sides(self) -> tuple[Threshold]:
        """The threshold itself."""
        return (self,)

    @property
    def certified(self) -> bool:
        """Whether there is a threshold: for all rows, or for a group."""
        return self.value is not None or any(part.certified for part in self.by_group.values())

    def accepts(self, scores: ArrayLike) -> Any:
        """Return which rows are decided automatically, from their scores (confidences): an array (N,) of any library.

        They are compared in double precision. The result is an array of booleans, or for scores that are a tensor of
        torch, or an array of CuPy or JAX on a GPU, one of the same kind on the same device.

        Raises
        ------
        calibrant.errors.InputError
            For values that are not numbers.
        """
        tensor = scores if is_tensor(scores) else on_device(scores)
        if tensor is None:
            values = np.asarray(as_numbers("scores", as_array("scores", scores)), np.float64)
            return np.asarray(self._compared(values))
        checked = real_tensor("scores", tensor)
        double = checked.float() if checked.device.type == "mps" else checked.double()
        return like(self._compared(double), scores)

    def _compared(self, scores: Any) -> Any:
        if self.value is None:
            return (scores == scores) & False
        return scores <= self.value if self.side == "no" else scores >= self.value

    @cached_property
    def _plan(self) -> Mapping[str, Any]:
        return {} if self.plan_maker is None else self.plan_maker()

    @property
    def rows_needed(self) -> int | None:
        """The rows, in all and with such scores, that would certify a threshold with 80 % probability.

        With a threshold, one with the larger coverage ``coverage_needed``. None where no error rate is clearly below
        the bound. If fewer than 10 errors were observed at this coverage, the probability is only known to be about
        50 % to 90 %.
        """
        return self._plan.get("rows_needed")

    @property
    def coverage_needed(self) -> float | None:
        """The coverage that ``rows_needed`` is about."""
        return self._plan.get("coverage_needed")

    @property
    def risk_needed(self) -> float | None:
        """The error rate that was observed at ``coverage_needed``."""
        return self._plan.get("risk_needed")

    @cached_property
    def _curves(self) -> tuple[RiskCoverageCurve, Mapping[str, Estimate]] | None:
        return None if self.curve_maker is None else self.curve_maker()

    @property
    def curve(self) -> RiskCoverageCurve | None:
        """The risk-coverage curve of the rows with its pointwise band; None for a group."""
        return None if self._curves is None else self._curves[0]

    @property
    def areas(self) -> Mapping[str, Estimate]:
        """AURC, AUGRC and excess AURC by their names, with intervals; empty for a group."""
        return {} if self._curves is None else self._curves[1]

    def plot(self, **options: Any) -> Axes:
        """Draw the risk-coverage curve with the threshold with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.risk_coverage`.
        """
        return _drawn(self, **options)

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        missing: dict[str, str] = {}
        left_out = {"costs", "by_group", "common", "plan_maker", "curve_maker"}
        names = [name for name in self.__dataclass_fields__ if name not in left_out]
        planned = ("rows_needed", "coverage_needed", "risk_needed")
        numbers = {name: plain(getattr(self, name), name, missing) for name in (*names, *planned)}
        level = self.confidence
        numbers["level"] = level
        numbers["costs"] = None if self.costs is None else _plain_costs(self.costs, missing)
        numbers["by_group"] = [
            {
                "name": name,
                **part.to_dict(curves=False),
                "common": {end: plain(x, end, missing) for end, x in vars(self.common[name]).items()}
                if name in self.common
                else None,
            }
            for name, part in self.by_group.items()
        ]
        shown = curves and self.curve is not None
        numbers["curve"] = {name: x.tolist() for name, x in vars(self.curve).items()} if shown else None
        numbers["areas"] = (
            {name: plain_estimate(area, f"areas.{name}", missing, tested=False) for name, area in self.areas.items()}
            if shown
            else {}
        )
        return {"schema_version": SCHEMA_VERSION, **numbers, "not_finite": missing}


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoSidedThreshold(ThresholdResult):
    """The result of `certify_two_sided`: automatic decisions "yes" and "no", and the rows between, which are referred.

    Attributes
    ----------
    yes, no : Threshold
        The thresholds of the decisions "yes", at a score and above, and "no", at a score and below. Both promises hold
        together with ``confidence``; each alone holds with (1 + ``confidence``) / 2.
    confidence : float
        The probability that both promises hold.
    costs : Costs or None
        The costs of both decisions, if they are given.
    """

    yes: Threshold
    no: Threshold
    confidence: float
    costs: Costs | None = None

    __repr__ = ThresholdResult.__repr__

    @property
    def sides(self) -> tuple[Threshold, Threshold]:
        """The thresholds of the decisions "yes" and "no"."""
        return self.yes, self.no

    @property
    def n(self) -> int:  # type: ignore[override]
        """The number of rows."""
        return self.yes.n

    @property
    def notion(self) -> Notion:  # type: ignore[override]
        """The evaluated event."""
        return self.yes.notion

    @property
    def n_classes(self) -> int | None:  # type: ignore[override]
        """The number of classes; None for one event."""
        return self.yes.n_classes

    @property
    def certified(self) -> bool:
        """Whether there is a threshold on at least one side."""
        return self.yes.certified or self.no.certified

    @property
    def coverage(self) -> float:  # type: ignore[override]
        """The share of rows that are decided automatically."""
        return self.yes.coverage + self.no.coverage

    @property
    def risk(self) -> float:  # type: ignore[override]
        """The error rate of the automatic decisions in these rows; NaN for none."""
        acted = self.yes.n_automatic + self.no.n_automatic
        return (self.yes.n_errors + self.no.n_errors) / acted if acted else math.nan

    def plot(self, **options: Any) -> Axes:
        """Draw the risk-coverage curves of both decisions with matplotlib, and return the axes of the first.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.risk_coverage`, but ``ax``.
        """
        from calibrant.plot.canvas import panels_for

        panels, _ = panels_for(None, 2, 2, (5.4, 4.2), shared=False)
        for panel, side in zip(panels, (self.yes, self.no), strict=True):
            _drawn(side, ax=panel, **options)
            panel.set_title(f'Decisions "{side.side}"')
        first: Axes = panels[0]
        return first

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        missing: dict[str, str] = {}
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "clusters": None if self.yes.clusters is None else dict(self.yes.clusters),
            "confidence": self.confidence,
            "level": self.confidence,
            "coverage": self.coverage,
            "costs": None if self.costs is None else _plain_costs(self.costs, missing),
            "yes": self.yes.to_dict(curves=curves),
            "no": self.no.to_dict(curves=curves),
            "not_finite": missing,
        }


def _plain_costs(costs: Costs, missing: dict[str, str]) -> dict[str, Any]:
    return {
        name: plain_estimate(part, f"costs.{name}", missing, tested=False)
        if isinstance(part, Estimate)
        else plain(part, f"costs.{name}", missing)
        for name, part in vars(costs).items()
    }


def _drawn(side: Threshold, **options: Any) -> Axes:
    from calibrant.plot import risk_coverage

    marks = {"max_risk": side.max_risk, "coverage": None if side.value is None else side.coverage}
    return risk_coverage(cast("RiskCoverageCurve", side.curve), **{**marks, **options})
