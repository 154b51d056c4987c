"""The sums over buckets of clusters that predictions add up to: of the judged event, and of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters.labels import ClusterLabels, as_clusters
from calibrant.clusters.sums import CLASS_CELLS, BucketSums
from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS, Events, class_events, scores_of_rows
from calibrant.inputs.predictions import Notion, Predictions, check_index
from calibrant.inputs.scores import event_row_scores


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums over buckets of clusters. Add two with ``+``.

    Attributes
    ----------
    event : BucketSums
        The sums of the judged event, with the scores of whole predictions.
    classes : tuple of BucketSums
        Those of each class; empty unless classes are judged in addition to the event.
    """

    event: BucketSums
    classes: tuple[BucketSums, ...] = ()

    @classmethod
    def of(
        cls, predictions: Predictions, events: Events, labels: ClusterLabels, *, classes: bool, count: bool
    ) -> ClusterSums:
        """Return the sums of the judged rows.

        Parameters
        ----------
        predictions, events
            The predictions, and their judged events: one for each row, or of several labels one for each row and label.
        labels
            The clusters of all rows.
        classes
            Whether classes are judged too.
        count
            As in `BucketSums.of`.
        """
        each, scores = _judged(predictions), events.scores
        if predictions.layout == "multilabel":
            rows = np.nonzero(each)[0]
            row_scores = event_row_scores(scores[:, np.newaxis], events.outcomes.astype(np.int64), logits=False)
        else:
            rows, row_scores = np.flatnonzero(each), scores_of_rows(predictions)
        event = BucketSums.of(
            labels.take(rows), scores, events.outcomes, events.weights, row_scores=row_scores, count=count
        )
        if not classes:
            return cls(event)
        return cls(
            event,
            tuple(
                BucketSums.of(
                    labels.take(np.flatnonzero(each if each.ndim == 1 else each[:, k])),
                    own.scores,
                    own.outcomes,
                    own.weights,
                    cells=CLASS_CELLS,
                    count=count,
                )
                for k, (own, _) in enumerate(class_events(predictions))
            ),
        )

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Return the sums of the rows of both, which may share clusters.

        Raises
        ------
        InputError
            As `BucketSums.__add__`.
        """
        classes = zip(self.classes, other.classes, strict=True)
        return ClusterSums(self.event + other.event, tuple(one + two for one, two in classes))

    @property
    def parts(self) -> tuple[BucketSums, ...]:
        """The sums of the event, then those of each class."""
        return (self.event, *self.classes)

    @property
    def nbytes(self) -> int:
        """The memory of the sums, in bytes."""
        return sum(part.cell_sums.nbytes + part.scalars.nbytes for part in self.parts)


def _judged(predictions: Predictions) -> NDArray[np.bool_]:
    """Return which rows are judged, (n,); of several labels, the same for each label, (n, C)."""
    if predictions.layout != "multilabel":
        return predictions.judged
    judged = predictions.targets >= 0
    return judged if predictions.weights is None else judged & (predictions.weights > 0)[:, np.newaxis]


def labels_of(clusters: Any, predictions: Predictions) -> ClusterLabels:
    """Return the cluster of each row. Of predictions (N, C, ...) there may be one label for each of the N.

    Raises
    ------
    InputError
        As `as_clusters`.
    """
    check_index("clusters", clusters, predictions.index)
    n, each = predictions.n, predictions.rows.values.shape[2]
    size = len(clusters) if isinstance(clusters, ClusterLabels) else np.size(clusters)
    if each > 1 and size == n // each:
        return as_clusters(clusters, n // each).take(np.repeat(np.arange(n // each), each))
    return as_clusters(clusters, n)


def check_notion(notion: Notion) -> None:
    """Reject a notion of many events where sums of one event are kept."""
    if notion in PER_CLASS:
        remedy = "evaluate one class's column at a time, or the top label with its classes"
        raise InputError("clusters", "a notion of one event", repr(notion), remedy)
