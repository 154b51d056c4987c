"""The values behind the further pictures of a report: curves over thresholds, and the measures of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from calibrant.runtime.arrays import Float64s


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class NetBenefit:
    """The net benefit of acting on scores, at each threshold: a decision curve.

    The net benefit of treating nobody is 0 at every threshold.

    Attributes
    ----------
    thresholds : (T,)
        Those whose score is at least the threshold are treated.
    net_benefit : (T,)
        The net benefit, in outcomes found for each row.
    lows, highs : (T,)
        The ends of its interval at each threshold by itself; NaN where fewer than 30 rows are treated, or rows of
        fewer than 10 clusters, and without intervals.
    treat_all : (T,)
        The net benefit of treating everyone.
    treated : (T,)
        The number of rows (their weight) that are treated.
    level : float
        The confidence of the intervals; NaN without.
    method : str
        How the intervals were computed, or why there are none; with a warning if one outcome is rare.
    error_bounds : (T,)
        The certified errors of ``net_benefit``: 0 unless it is computed from a sketch or a table on a grid.
    n : int
        The number of predictions.
    """

    thresholds: Float64s
    net_benefit: Float64s
    lows: Float64s = field(repr=False)
    highs: Float64s = field(repr=False)
    treat_all: Float64s = field(repr=False)
    treated: Float64s = field(repr=False)
    level: float
    method: str
    error_bounds: Float64s = field(repr=False)
    n: int


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class MurphyCurve:
    """The mean elementary score at each threshold.

    Attributes
    ----------
    thresholds : (T,)
        Those whose score is above the threshold are treated.
    scores : (T,)
        The mean elementary score, in [0, 1]; lower is better.
    area : float
        The integral over all thresholds from 0 to 1: half the Brier score, exactly.
    error_bounds : (T,)
        The certified errors of ``scores``: 0 unless they are computed from a sketch or a table on a grid.
    n : int
        The number of predictions.
    """

    thresholds: Float64s
    scores: Float64s
    area: float
    error_bounds: Float64s = field(repr=False)
    n: int


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class RocCurve:
    """The share of hits against the share of false alarms, for each threshold of the score.

    Attributes
    ----------
    thresholds : (K,) float64
        Scores, falling. A row is called positive if its score is at least the threshold. The first is infinite.
    hits : (K,) float64
        The share of rows with the event that are called positive (sensitivity), in [0, 1].
    false_alarms : (K,) float64
        The share of rows without the event that are called positive (1 - specificity), in [0, 1].
    """

    thresholds: Float64s
    hits: Float64s
    false_alarms: Float64s


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Forest:
    """One measure of every group, and how much it differs between groups.

    Attributes
    ----------
    groups : tuple of str
        The names of the groups.
    values, lows, highs : (G,) float64
        The measure of each group with its interval; NaN where a group has none. Groups with too few events or
        non-events have none.
    heterogeneity : float
        I^2, the share of the variation between groups that is beyond sampling error, in [0, 1]. NaN if fewer than two
        groups are compared.
    p_value : float
        The p-value of Cochran's Q: small if the groups differ by more than sampling error.
    compared : int
        The number of groups behind both.
    left_out : mapping
        Why groups are not compared, by their names.
    """

    groups: tuple[str, ...]
    values: Float64s
    lows: Float64s
    highs: Float64s
    heterogeneity: float = math.nan
    p_value: float = math.nan
    compared: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


#: What a profile shows next to the reliability diagram.
Panel: TypeAlias = NetBenefit | MurphyCurve | RocCurve
