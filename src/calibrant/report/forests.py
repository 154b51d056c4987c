"""Forests: a measure of every group, how much the groups differ, and the pooled value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.measures.measure import Measure
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.results import Estimate
from calibrant.results.values import Forest
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import MINORITY, Clustered, rare, rarer_rows
from calibrant.statistics.group_tests import GroupRows, heterogeneity, random_effects
from calibrant.statistics.intervals import Link, has_link
from calibrant.table.cluster_sums import aligned

_FEW_OUTCOMES: Final = f"fewer than {MINORITY} events or non-events"
_FEW_CLUSTERS: Final = f"one outcome occurs in fewer than {MINORITY} clusters"


def joined(by_column: Mapping[str, Mapping[str, Forest]]) -> dict[str, Forest]:
    """Return the forests of marginal subgroups by measure, from those of the groups of each column."""
    return {
        measure: Forest(
            groups=tuple(name for forests in by_column.values() for name in forests[measure].groups),
            values=np.concatenate([forests[measure].values for forests in by_column.values()]),
            lows=np.concatenate([forests[measure].lows for forests in by_column.values()]),
            highs=np.concatenate([forests[measure].highs for forests in by_column.values()]),
            left_out={name: why for forests in by_column.values() for name, why in forests[measure].left_out.items()},
            columns={column: forests[measure] for column, forests in by_column.items()},
        )
        for measure in next(iter(by_column.values()))
    }


def comparable(groups: Mapping[str, EvaluatedData]) -> tuple[dict[str, GroupRows], dict[str, str]]:
    """Return the rows of the groups with enough outcomes of either kind, and why the others are not compared."""
    cells = {name: Cells.from_table(data.tables[0]) for name, data in groups.items()}
    few = {name: _FEW_OUTCOMES for name, cells_of_group in cells.items() if rare(rarer_rows(cells_of_group))}
    rows = {name: GroupRows(cells=cells_of_group) for name, cells_of_group in cells.items() if name not in few}
    sums = {name: clusters.event for name in rows if (clusters := groups[name].clusters) is not None}
    for name, buckets in zip(sums, aligned(list(sums.values())) if sums else (), strict=True):
        clustered = Clustered.of(cells[name], buckets, np.arange(buckets.n_buckets))
        if clustered.sample.rarer < MINORITY:
            few[name] = _FEW_CLUSTERS
            del rows[name]
        else:
            rows[name] = GroupRows(cells=clustered.cells, buckets=np.stack([clustered.n - clustered.y, clustered.y]))
    return rows, few


def forest_of(
    estimates: Mapping[str, Estimate],
    rows: Mapping[str, GroupRows],
    few: Mapping[str, str],
    measure: Measure,
    *,
    apart: bool,
) -> Forest:
    """Return one measure of every group; ``rows`` are those of the groups that are compared."""
    ends = np.array([[e.value, e.low, e.high] for e in estimates.values()])
    ends[[name in few for name in estimates], 1:] = math.nan
    values, lows, highs = ends.T
    plain = Forest(groups=tuple(estimates), values=values, lows=lows, highs=highs, left_out=few)
    if len(rows) < 2 or measure.compare_groups is None:
        return plain
    test = heterogeneity(list(rows.values()), measure.compare_groups)
    others = {name: test.reason for name, compared in zip(rows, test.compared, strict=True) if not compared}
    compared = {name for name, kept in zip(rows, test.compared, strict=True) if kept}
    level = next(iter(estimates.values())).level
    return replace(
        _pooled(plain, compared, measure.link, level) if apart else plain,
        heterogeneity=test.share,
        p_value=test.p_value,
        compared=int(np.count_nonzero(test.compared)),
        left_out={name: reason for name in estimates if (reason := {**few, **others}.get(name)) is not None},
    )


def _pooled(forest: Forest, compared: Set[str], link: Link, level: float) -> Forest:
    """Return the forest with the pooled value of the groups that are compared."""
    ends = zip(forest.groups, forest.values, forest.lows, forest.highs, strict=True)
    used = [
        i
        for i, (name, *part) in enumerate(ends)
        if name in compared and all(has_link(end, link) for end in part) and part[1] < part[2]
    ]
    if len(used) < 2:
        return forest
    pooled = random_effects(forest.values[used], forest.lows[used], forest.highs[used], level, link)
    weights = np.full(len(forest.groups), math.nan)
    weights[used] = pooled.weights
    least, most = pooled.prediction if len(used) > 2 else (math.nan, math.nan)
    return replace(
        forest,
        pooled=pooled.value,
        pooled_low=pooled.low,
        pooled_high=pooled.high,
        prediction_low=least,
        prediction_high=most,
        weights=weights,
    )
