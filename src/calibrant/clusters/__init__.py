"""Rows that come in clusters: their labels as hashes, and the sums over buckets of clusters."""

from typing import TYPE_CHECKING

from calibrant.runtime.lazy import names_of

if TYPE_CHECKING:
    from calibrant.clusters.cells import CLASS_CELLS, EVENT_CELLS, CoarseCells
    from calibrant.clusters.events import ClusterSums, check_notion, labels_of
    from calibrant.clusters.labels import SEPARATOR, ClusterLabels, LabelKind, as_clusters, escaped, label_texts
    from calibrant.clusters.storage import COLUMNS, columns_of, from_arrays, settings_of
    from calibrant.clusters.sums import BucketSums, aligned, same

__all__ = [
    "CLASS_CELLS",
    "COLUMNS",
    "EVENT_CELLS",
    "SEPARATOR",
    "BucketSums",
    "ClusterLabels",
    "ClusterSums",
    "CoarseCells",
    "LabelKind",
    "aligned",
    "as_clusters",
    "check_notion",
    "columns_of",
    "escaped",
    "from_arrays",
    "label_texts",
    "labels_of",
    "same",
    "settings_of",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.clusters.cells": (
            "CLASS_CELLS",
            "EVENT_CELLS",
            "CoarseCells",
        ),
        "calibrant.clusters.events": (
            "ClusterSums",
            "check_notion",
            "labels_of",
        ),
        "calibrant.clusters.labels": (
            "SEPARATOR",
            "ClusterLabels",
            "LabelKind",
            "as_clusters",
            "escaped",
            "label_texts",
        ),
        "calibrant.clusters.storage": (
            "COLUMNS",
            "columns_of",
            "from_arrays",
            "settings_of",
        ),
        "calibrant.clusters.sums": (
            "BucketSums",
            "aligned",
            "same",
        ),
    },
)
