"""Rows that come in clusters: their labels as hashes, and the sums over buckets of clusters."""

from calibrant.clusters.cells import CLASS_CELLS, EVENT_CELLS, CoarseCells
from calibrant.clusters.labels import ClusterLabels, LabelKind, as_clusters
from calibrant.clusters.storage import from_arrays, to_arrays
from calibrant.clusters.sums import BucketSums, aligned, same

__all__ = [
    "CLASS_CELLS",
    "EVENT_CELLS",
    "BucketSums",
    "ClusterLabels",
    "CoarseCells",
    "LabelKind",
    "aligned",
    "as_clusters",
    "from_arrays",
    "same",
    "to_arrays",
]
