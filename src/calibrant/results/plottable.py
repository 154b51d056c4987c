"""What a picture needs of a report and of a comparison, which both import the pictures that they draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from calibrant.results.values import (
    Bands,
    CalibrationCurve,
    ClasswiseCalibration,
    Description,
    Estimate,
    Forest,
    ReliabilityDiagram,
)


class PlottableGroup(Protocol):
    """A group of rows with its estimates, as `calibrant.report.GroupReport`."""

    @property
    def name(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def p_value(self) -> float: ...
    @property
    def called_out(self) -> bool: ...
    @property
    def flag(self) -> str: ...
    def __getitem__(self, name: str, /) -> Estimate: ...


@runtime_checkable
class PlottableReport(Protocol):
    """What `calibrant.evaluate` returns: `calibrant.Report`."""

    @property
    def estimates(self) -> Mapping[str, Estimate]: ...
    @property
    def descriptions(self) -> Mapping[str, Description]: ...
    @property
    def notion(self) -> str: ...
    @property
    def n_classes(self) -> int | None: ...
    @property
    def class_names(self) -> tuple[str, ...] | None: ...
    @property
    def level(self) -> float | None: ...
    @property
    def bands(self) -> Bands: ...
    @property
    def diagram(self) -> ReliabilityDiagram | None: ...
    @property
    def classwise(self) -> ClasswiseCalibration | None: ...
    @property
    def curves(self) -> Mapping[str, CalibrationCurve]: ...
    @property
    def groups(self) -> Sequence[PlottableGroup]: ...
    @property
    def forests(self) -> Mapping[str, Forest]: ...


class PlottablePair(Protocol):
    """Two models with their differences, as `calibrant.report.Pair`."""

    @property
    def first(self) -> str: ...
    @property
    def second(self) -> str: ...
    def __getitem__(self, name: str, /) -> Estimate: ...


@runtime_checkable
class PlottableComparison(Protocol):
    """What `calibrant.compare` returns: `calibrant.Comparison`."""

    @property
    def descriptions(self) -> Mapping[str, Description]: ...
    @property
    def notion(self) -> str: ...
    @property
    def level(self) -> float: ...
    @property
    def models(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def pairs(self) -> Sequence[PlottablePair]: ...
    @property
    def diagrams(self) -> Mapping[str, ReliabilityDiagram]: ...
