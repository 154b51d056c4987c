"""Rows that come in clusters: their labels as hashes, and the sums over buckets of clusters."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.clusters.labels import SEPARATOR, ClusterLabels, LabelKind, as_clusters, escaped, label_texts
    from calibrant.clusters.sums import (
        CLASS_CELLS,
        COLUMNS,
        EVENT_CELLS,
        BucketSums,
        ClusterSums,
        CoarseCells,
        aligned,
        check_notion,
        columns_of,
        from_arrays,
        labels_of,
        same,
        settings_of,
    )

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
        "calibrant.clusters.labels": (
            "SEPARATOR",
            "ClusterLabels",
            "LabelKind",
            "as_clusters",
            "escaped",
            "label_texts",
        ),
        "calibrant.clusters.sums": (
            "CLASS_CELLS",
            "COLUMNS",
            "EVENT_CELLS",
            "BucketSums",
            "ClusterSums",
            "CoarseCells",
            "aligned",
            "check_notion",
            "columns_of",
            "from_arrays",
            "labels_of",
            "same",
            "settings_of",
        ),
    },
)
