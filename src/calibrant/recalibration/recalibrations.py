"""`Recalibration`: a map of scores with the proof that it helps, as a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.recalibration.maps import CalibrationMap, plain_fitted
from calibrant.recalibration.proof import Gain
from calibrant.render.shown import NO_SOURCE, Shown
from calibrant.report.report import Report
from calibrant.results.values import plain, plain_diagram, plain_estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.render.blocks import Document, Source

#: The version of the dictionary of a recalibration.
SCHEMA_VERSION: Final = 1

_LABELS_DRAWN: Final = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class MapCurve:
    """A map at M scores, with its pointwise confidence band; each field (M,).

    Attributes
    ----------
    scores, mapped : array
        The scores, and what they become.
    lows, highs : array
        The ends of the band; NaN without one.
    """

    scores: Float64s
    mapped: Float64s
    lows: Float64s
    highs: Float64s

    @property
    def has_band(self) -> bool:
        """Whether there is a band: not for a map of a known rate."""
        return not np.isnan(self.lows).all()


class RecalibrationResult(Shown, ABC):
    """What `recalibrate` returns: a map, and what is shown and written of it."""

    map: CalibrationMap

    @property
    @abstractmethod
    def proven(self) -> bool:
        """Whether the map helps."""

    @property
    def objection(self) -> str:
        """Why the map is not written without ``--anyway``; empty if it is."""
        return "" if self.proven else "there is no evidence that it helps"

    @property
    @abstractmethod
    def notion(self) -> Notion:
        """The evaluated event, or events."""

    @property
    @abstractmethod
    def n_classes(self) -> int | None:
        """The number of classes or labels; None for one event."""

    @abstractmethod
    def fitted(self) -> CalibrationMap:
        """Return the map as it was fitted, proven or not."""

    @abstractmethod
    def plot(self, **options: Any) -> Axes:
        """Draw reliability diagrams before and after with matplotlib, and return the axes."""

    @abstractmethod
    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None.

        ``curves=False`` leaves out the curve of a map with its band, which saves its computation.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict()[0]} Print the recalibration to see everything.>"


@dataclass(frozen=True, eq=False, kw_only=True)
class Recalibration(RecalibrationResult):
    """The result of `recalibrate`: a map of the scores, and the proof that it helps.

    Attributes
    ----------
    map : CalibrationMap
        The map, fitted to all rows.
    method : str
        The method that was asked for.
    chosen : str
        The family of the map.
    runner_up : str or None
        With "auto", the family with the least loss among the others.
    losses : mapping
        With "auto", for each candidate the mean log loss out of fold, and the standard error of its difference from the
        best.
    shrinkage : float
        With "auto", the share of the way from the log-odds of the fitted map to the log-odds of the scores.
    gain : Gain
        By how much the map lowers the mean loss of new rows.
    before, after : Report
        The measures of the scores, and of recalibrated scores, each by a map that was fitted without its row. The AUROC
        after recalibration is that of ``map``, if ``map`` keeps the order of the scores.
    expected_errors : float
        How many rows are expected to have the less probable outcome if the scores are right; for classes, another class
        than the most probable one. If there are fewer than 5, `flag` names the number.
    flag : str
        A caution, such as few events.
    by_group : Report or None
        With groups, the report on the rows as ``map`` maps them, with its groups. The map was fitted to these rows.
    distinct_scores : tuple of int or None
        How many different scores the rows have before and after an increasing map of one event. If they differ, so can
        the AUROC.
    """

    map: CalibrationMap
    method: str
    chosen: str
    runner_up: str | None
    losses: Mapping[str, tuple[float, float]]
    shrinkage: float
    gain: Gain
    before: Report
    after: Report
    expected_errors: float
    flag: str = ""
    by_group: Report | None = None
    distinct_scores: tuple[int, int] | None = None
    curve_maker: Callable[[], MapCurve] | None = field(default=None, repr=False)

    __repr__ = RecalibrationResult.__repr__

    @cached_property
    def curve(self) -> MapCurve | None:
        """The map with its pointwise confidence band, by 200 bootstrap samples of the rows or clusters.

        None for a map of classes.
        """
        return None if self.curve_maker is None else self.curve_maker()

    def fitted(self) -> CalibrationMap:
        return self.map

    @property
    def notion(self) -> Notion:
        """The evaluated event."""
        return self.before.notion

    @property
    def n_classes(self) -> int | None:
        """The number of classes; None for one event."""
        return self.before.n_classes

    @property
    def proven(self) -> bool:
        """Whether the gain is above 0: its p-value is at most 1 - level."""
        return self.gain.p_value <= alpha_of(self.gain.level)

    def plot(self, **options: Any) -> Axes:
        """Draw the reliability diagrams before and after on the same axes with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.reliability_diagram`, but ``label``.
        """
        from calibrant.plot import reliability_diagram

        axes = reliability_diagram(self.before, **{"kind": "points", **options, "label": "before"})
        return reliability_diagram(self.after, **{"kind": "points", **options, "ax": axes, "label": "after"})

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.recalibration.map_document import document_of

        return document_of(self, source, full=full)

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        missing: dict[str, str] = {}
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.before.n,
            "notion": self.before.notion,
            "n_classes": self.before.n_classes,
            "clusters": None if self.before.clusters is None else dict(self.before.clusters),
            "level": self.gain.level,
            "method": self.method,
            "chosen": self.chosen,
            "runner_up": self.runner_up,
            "losses": {name: {"mean": mean, "error": error} for name, (mean, error) in self.losses.items()},
            "shrinkage": self.shrinkage,
            "proven": self.proven,
            "gain": {name: plain(value, f"gain.{name}", missing) for name, value in vars(self.gain).items()},
            "map": {"kind": self.map.kind, "parameters": dict(self.map.parameters)},
            "distinct_scores": None
            if self.distinct_scores is None
            else dict(zip(("before", "after"), self.distinct_scores, strict=True)),
            "class_names": self.map.event.get("class_names"),
            "fitted": plain_fitted(self.map.fitted),
            "measures": {name: asdict(description) for name, description in self.before.descriptions.items()},
            **{
                when: {name: plain_estimate(report[name], f"{when}.{name}", missing) for name in report}
                for when, report in (("before", self.before), ("after", self.after))
            },
            "diagrams": {
                when: plain_diagram(report.diagram, "diagram", missing)
                for when, report in (("before", self.before), ("after", self.after))
            },
            "curve": plain_curve(self.curve) if curves else None,
            "by_group": None if self.by_group is None else self.by_group.to_dict(curves=False),
            "expected_errors": self.expected_errors,
            "flag": self.flag,
            "not_finite": missing,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelRecalibrations(RecalibrationResult):
    """The result of `recalibrate` for several labels: a map for each label, and the proof of each.

    Attributes
    ----------
    map : CalibrationMap
        The map of all labels. Only a label whose adjusted p-value is at most 1 - ``level`` changes.
    method : str
        The method that was asked for.
    labels : mapping of str to Recalibration
        The recalibration of each label, by name; its own ``map`` is the fitted one, proven or not.
    adjusted_p_values : mapping of str to float
        The p-values of their gains, by Holm's adjustment.
    refused : mapping of str to str
        The labels that no map was fitted to, and why.
    level : float
        The confidence of the intervals.
    """

    map: CalibrationMap
    method: str
    labels: Mapping[str, Recalibration]
    adjusted_p_values: Mapping[str, float]
    refused: Mapping[str, str]
    level: float

    __repr__ = RecalibrationResult.__repr__

    def fitted(self) -> CalibrationMap:
        maps = [
            {"kind": self.labels[name].map.kind, "parameters": dict(self.labels[name].map.parameters)}
            if name in self.labels
            else unchanged
            for name, unchanged in zip(self.names, self.map.parameters["maps"], strict=True)
        ]
        return replace(self.map, parameters={"maps": maps})

    @property
    def names(self) -> list[str]:
        """The names of all labels, in their order."""
        return list(self.map.event["class_names"] or map(str, range(len(self.map.parameters["maps"]))))

    @property
    def notion(self) -> Notion:
        """The evaluated events."""
        return "multilabel"

    @property
    def n_classes(self) -> int:
        """The number of labels."""
        return len(self.labels) + len(self.refused)

    @property
    def proven(self) -> bool:
        """Whether recalibration lowers the mean loss of at least one label."""
        return any(p <= alpha_of(self.level) for p in self.adjusted_p_values.values())

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.recalibration.map_document import document_of_labels

        return document_of_labels(self, source, full=full)

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        labels = [
            {"name": name, "adjusted_p_value": self.adjusted_p_values[name], **fix.to_dict(curves=curves)}
            for name, fix in self.labels.items()
        ]
        return {
            "schema_version": SCHEMA_VERSION,
            "n": next(iter(self.labels.values())).before.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "clusters": labels[0]["clusters"],
            "level": self.level,
            "method": self.method,
            "proven": self.proven,
            "class_names": self.map.event["class_names"],
            "labels": labels,
            "refused": dict(self.refused),
        }

    def plot(self, **options: Any) -> Axes:
        """Draw the reliability diagrams of the first 8 labels before and after with matplotlib, and return one of them.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.reliability_diagram`, but ``label`` and ``ax``.
        """
        from calibrant.plot.canvas import literal, panels_for

        drawn = dict(list(self.labels.items())[:_LABELS_DRAWN])
        panels, _ = panels_for(None, len(drawn), min(len(drawn), 2), (5.4, 5.4), shared=False)
        for panel, (name, fix) in zip(panels, drawn.items(), strict=False):
            fix.plot(ax=panel, **options)
            panel.set_title(literal(name))
        return cast("Axes", panels[0])


def plain_curve(curve: MapCurve | None) -> dict[str, list[float]] | None:
    """Return the curve of a map as lists, if there is one."""
    return None if curve is None else {name: values.tolist() for name, values in vars(curve).items()}


def with_evidence(fix: Recalibration) -> Recalibration:
    """Return the same, whose map has the numbers that show how much it helps."""
    numbers = fix.to_dict(curves=False)
    evidence = {"gain": numbers["gain"]} | {
        when: {name: {end: part[end] for end in ("value", "low", "high")} for name, part in numbers[when].items()}
        for when in ("before", "after")
    }
    return replace(fix, map=replace(fix.map, evidence=evidence, proven=fix.proven))
