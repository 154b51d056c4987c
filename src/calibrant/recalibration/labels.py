"""Maps of several labels: one for each whose gain is proven after Holm's adjustment."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

from calibrant.errors import InputError
from calibrant.recalibration.choice import FitOptions
from calibrant.recalibration.events import fitted_to, map_event, of_event
from calibrant.recalibration.maps import CalibrationMap
from calibrant.recalibration.recalibrations import LabelRecalibrations, Recalibration
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.statistics.group_tests import holm
from calibrant.statistics.resampling import alpha_of
from calibrant.table.cluster_sums import ClusterSums

_UNCHANGED = {"kind": "identity", "parameters": {}}


def of_labels(data: EvaluatedData, asked: FitOptions) -> LabelRecalibrations:
    """Return the recalibration of each label, and the map of all of them.

    A label that no map can be fitted to, such as one with few rows, keeps its scores and is named.
    """
    names = list(data.names or map(str, range(len(data.tables))))
    fixes: dict[str, Recalibration] = {}
    refused: dict[str, InputError] = {}
    for k, (name, table) in enumerate(zip(names, data.tables, strict=True)):
        sums = None if data.clusters is None else ClusterSums(data.clusters.classes[k])
        one = replace(evaluated_data.of_table(table, "positive"), clusters=sums, choices=data.choices).doubted_as(data)
        if data.predictions is not None:
            one = replace(one, predictions=data.predictions.label(k))
        try:
            fixes[name] = of_event(one, asked)
        except InputError as error:
            refused[name] = error
    if not fixes:
        raise next(iter(refused.values()))
    adjusted = holm([fix.gain.p_value for fix in fixes.values()])
    proven = {name for name, p in zip(fixes, adjusted, strict=True) if p <= alpha_of(asked.resampling.level)}
    maps = [
        {"kind": fixes[name].map.kind, "parameters": dict(fixes[name].map.parameters)} if name in proven else _UNCHANGED
        for name in names
    ]
    pooled = reduce(add, data.tables) if data.event is None else data.event
    fitted = CalibrationMap(
        kind="labels",
        parameters={"maps": maps},
        event=map_event("multilabel", data.names),
        fitted=replace(fitted_to(pooled, clustered=data.clusters is not None), n=data.tables[0].n),
        evidence={
            name: {"gain": dict(fix.map.evidence["gain"]), "adjusted_p_value": p}
            for (name, fix), p in zip(fixes.items(), adjusted, strict=True)
        },
        proven=bool(proven),
    )
    return LabelRecalibrations(
        map=fitted,
        method=asked.method,
        labels=fixes,
        adjusted_p_values=dict(zip(fixes, adjusted, strict=True)),
        refused={name: f"expected {error.expected}, got {error.got}" for name, error in refused.items()},
        level=asked.resampling.level,
    )
