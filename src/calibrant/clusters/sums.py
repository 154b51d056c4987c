"""Sums over buckets of clusters: all that inference with clusters needs, in constant memory, additive.

Each bucket is a union of whole clusters. While there are at most 256 clusters, each has its own bucket; with more, the
bucket of a cluster is the hash of its label mod 256. Buckets are independent because clusters are, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters.cells import EVENT_CELLS, CoarseCells
from calibrant.clusters.labels import HASH, ClusterLabels, LabelKind
from calibrant.errors import InputError
from calibrant.inputs.scores import RowScores
from calibrant.kernels import dispatch
from calibrant.runtime.arrays import Float64s
from calibrant.table import grid as grids

UInt64s = NDArray[np.uint64]

#: The columns of ``BucketSums.scalars``.
SCALARS: Final = ("rows", "right", "brier", "nll", "infinite", "tilt")

_KINDS: Final = {"number": "whole numbers", "text": "text"}

_RANGE: Final = 2**18  # rows whose products are in memory together


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Sums over the rows of each bucket: in the coarse cells of the scores, and over all cells. Add two with ``+``.

    A row with score p, outcome y and weight w adds w times its value to every sum except the number of rows. B is the
    number of buckets, K the number of coarse cells.

    Attributes
    ----------
    kind : {"number", "text"}
        The kind of the labels.
    hashes : (B,) uint64 or None
        The hash of each bucket's cluster, increasing, while each cluster has its own bucket. None for pooled buckets.
    cell_sums : (B, K, 3) float64
        In each coarse cell the weight, the sum of y and the sum of p - y.
    scalars : (B, 6) float64
        The sums named in `SCALARS`: the number of rows, unweighted; the right answers; the Brier score; the finite log
        losses, in nats; the weight of infinite log losses; (p - y) (1 - 2 p).
    scored : bool
        Whether the sums of right answers, Brier scores and log losses are known; else they are 0.
    cells : CoarseCells
        The coarse cells, and the number of pooled buckets.
    hash_name : str
        The name and version of the hash of the labels.
    counted, heaviest : int and float, or None
        Of pooled buckets made from one array: the number of clusters, and the weight of the heaviest. None after an
        addition.
    """

    kind: LabelKind
    hashes: UInt64s | None = field(repr=False)
    cell_sums: Float64s = field(repr=False)
    scalars: Float64s = field(repr=False)
    _: KW_ONLY
    scored: bool
    cells: CoarseCells = EVENT_CELLS
    hash_name: str = HASH
    counted: int | None = None
    heaviest: float | None = None

    @classmethod
    def of(
        cls,
        labels: ClusterLabels,
        scores: NDArray[np.floating[Any]],
        outcomes: NDArray[np.uint8],
        weights: Float64s | None = None,
        *,
        row_scores: RowScores | None = None,
        cells: CoarseCells = EVENT_CELLS,
        count: bool = True,
    ) -> BucketSums:
        """Return the sums of judged rows.

        Parameters
        ----------
        labels : ClusterLabels
            The clusters of the n rows, from `as_clusters`.
        scores, outcomes, weights : (n,) arrays
            As in `Events`: scores in [0, 1], outcomes 0 and 1, weights above 0 or None.
        row_scores : tuple of (n,) arrays, optional
            The Brier score and the log loss of each row, and whether it is right.
        cells : CoarseCells
            The coarse cells, and the most buckets.
        count : bool
            Whether to count more clusters than buckets exactly, and to weigh them. It costs some 30 ns a row.

        Notes
        -----
        Cost: O(n) time; 10 bytes a row, and B x K x 24 bytes for each of at most 16 ranges of rows.
        """
        if len(scores) == 0:
            return cls.empty(labels.kind, scored=row_scores is not None, cells=cells)
        scores = np.ascontiguousarray(scores, np.float32 if scores.dtype == np.float16 else None)
        buckets, hashes, counted, heaviest = _assigned(labels, weights, cells.n_buckets, count)
        n_buckets = cells.n_buckets if hashes is None else len(hashes)
        shape = (n_buckets, cells.n_cells)
        lookup, coarse = grids.lookup("standard", scores.dtype), cells.of_grid("standard")
        return cls(
            labels.kind,
            hashes,
            dispatch.bucket_rows(buckets, scores, outcomes, weights, coarse, shape, lookup),
            _scalars(buckets, n_buckets, scores, outcomes, weights, row_scores),
            scored=row_scores is not None,
            cells=cells,
            counted=counted,
            heaviest=heaviest,
        )

    @classmethod
    def empty(cls, kind: LabelKind, *, scored: bool, cells: CoarseCells = EVENT_CELLS) -> BucketSums:
        """Return the sums of no rows."""
        sums = np.zeros((0, cells.n_cells, 3)), np.zeros((0, len(SCALARS)))
        return cls(kind, np.empty(0, np.uint64), *sums, scored=scored, cells=cells)

    def __add__(self, other: BucketSums) -> BucketSums:
        """Return the sums of the rows of both, which may share clusters.

        Weights and outcomes add up exactly if weights are integers, other sums up to rounding.

        Raises
        ------
        InputError
            For labels of another kind, another hash, other cells, or if only one of the two has scores of rows.
        """
        if not isinstance(other, BucketSums):
            return NotImplemented
        one, two = aligned([self, other])
        sums, scalars = one.cell_sums + two.cell_sums, one.scalars + two.scalars
        return replace(one, cell_sums=sums, scalars=scalars, counted=None, heaviest=None)

    @property
    def n_buckets(self) -> int:
        """The number of buckets, B."""
        return len(self.scalars)

    @property
    def pooled(self) -> bool:
        """Whether clusters share buckets."""
        return self.hashes is None

    @property
    def n_clusters(self) -> int | None:
        """The number of clusters; None if they were pooled before they were counted."""
        return self.counted if self.hashes is None else int(np.count_nonzero(self.rows))

    @property
    def number(self) -> int | str:
        """The number of clusters; if they were not counted, "more than" the number of buckets."""
        return f"more than {self.cells.n_buckets}" if self.n_clusters is None else self.n_clusters

    @property
    def largest_share(self) -> float:
        """The share of the weight that the heaviest cluster has; the heaviest bucket, if clusters were not counted."""
        weight = self.weight
        heaviest = weight.max(initial=0.0) if self.heaviest is None else self.heaviest
        return float(heaviest / weight.sum()) if heaviest else 0.0

    @property
    def n(self) -> Float64s:
        """The weight in each bucket and coarse cell, (B, K)."""
        return self.cell_sums[:, :, 0]

    @property
    def y(self) -> Float64s:
        """The sum of outcomes in each bucket and coarse cell, (B, K)."""
        return self.cell_sums[:, :, 1]

    @property
    def gaps(self) -> Float64s:
        """The sum of p - y in each bucket and coarse cell, (B, K)."""
        return self.cell_sums[:, :, 2]

    @property
    def weight(self) -> Float64s:
        """The weight of each bucket, (B,)."""
        return np.asarray(self.n.sum(axis=1))

    @property
    def gap(self) -> Float64s:
        """The sum of p - y of each bucket, (B,)."""
        return np.asarray(self.gaps.sum(axis=1))

    @property
    def score_sum(self) -> Float64s:
        """The sum of p of each bucket, (B,)."""
        return np.asarray(self.gap + self.y.sum(axis=1))

    @property
    def rows(self) -> Float64s:
        """The number of rows of each bucket, unweighted, (B,)."""
        return self.scalar("rows")

    def scalar(self, name: str) -> Float64s:
        """Return a sum of each bucket, (B,), by its name in `SCALARS`."""
        return self.scalars[:, SCALARS.index(name)]

    def folded(self) -> BucketSums:
        """Return the sums in pooled buckets: the hash mod ``cells.n_buckets``."""
        if self.hashes is None:
            return self
        buckets = (self.hashes % np.uint64(self.cells.n_buckets)).astype(np.intp)
        return self._moved(None, buckets, self.cells.n_buckets)

    def _moved(self, hashes: UInt64s | None, buckets: NDArray[np.intp], n_buckets: int) -> BucketSums:
        """Return the sums in other buckets: ``buckets`` (B,) says where each bucket goes."""
        cell_sums, scalars = (np.zeros((n_buckets, *sums.shape[1:])) for sums in (self.cell_sums, self.scalars))
        for bucket, cluster_cells, cluster_scalars in zip(buckets.tolist(), self.cell_sums, self.scalars, strict=True):
            cell_sums[bucket] += cluster_cells
            scalars[bucket] += cluster_scalars
        return replace(self, hashes=hashes, cell_sums=cell_sums, scalars=scalars)


def aligned(parts: Sequence[BucketSums]) -> list[BucketSums]:
    """Return sums of the same clusters, or of parts of them, with the same buckets.

    Each cluster keeps its own bucket if all parts together have few enough.

    Raises
    ------
    InputError
        As `BucketSums.__add__`.
    """
    for part in parts[1:]:
        _check_alike(parts[0], part)
    lists = [part.hashes for part in parts if part.hashes is not None]
    if len(lists) == len(parts):
        union = np.unique(np.concatenate(lists))
        if len(union) <= parts[0].cells.n_buckets:
            places = [np.searchsorted(union, hashes) for hashes in lists]
            return [part._moved(union, place, len(union)) for part, place in zip(parts, places, strict=True)]
    return [part.folded() for part in parts]


def same(one: BucketSums, other: BucketSums) -> bool:
    """Return whether two states are equal, bit for bit; what survives no addition is not compared."""
    if _settings(one) != _settings(other):
        return False
    arrays = ((x.cell_sums, x.scalars, np.empty(0) if x.hashes is None else x.hashes) for x in (one, other))
    return all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


def _settings(sums: BucketSums) -> tuple[object, ...]:
    return sums.kind, sums.hash_name, sums.cells, sums.scored


def _check_alike(one: BucketSums, other: BucketSums) -> None:
    """Reject sums that do not add up."""
    if one.hash_name != other.hash_name:
        remedy = "make both from the same labels in the same way: the same cluster has another hash in each"
        raise InputError("clusters", f"labels hashed with {one.hash_name}", other.hash_name, remedy)
    if one.kind != other.kind:
        remedy = "convert the labels to one type before both are made"
        raise InputError("clusters", f"labels that are {_KINDS[one.kind]}", _KINDS[other.kind], remedy)
    if one.cells != other.cells:
        expected, got = (f"sums of {x.cells.n_buckets} buckets in {x.cells.n_cells} cells" for x in (one, other))
        raise InputError("clusters", expected, got, "make both from predictions with the same notion")
    if one.scored != other.scored:
        remedy = "pass row_scores for both or for neither"
        raise InputError("clusters", "scores of rows in both parts or in neither", "one part with them", remedy)


def _assigned(
    labels: ClusterLabels, weights: Float64s | None, n_buckets: int, count: bool
) -> tuple[NDArray[np.uint16], UInt64s | None, int | None, float | None]:
    """Return the bucket of each row, the hashes of own buckets, the number of clusters and the heaviest's weight."""
    numbers, distinct = labels.numbered(None if count else n_buckets)
    if len(distinct) <= n_buckets:
        order = np.argsort(distinct)
        ranks = np.empty(len(order), np.uint16)
        ranks[order] = np.arange(len(order))
        return ranks[numbers], distinct[order], None, None
    buckets = (labels.hashes % np.uint64(n_buckets)).astype(np.uint16)
    if not count:
        return buckets, None, None, None
    return buckets, None, len(distinct), float(np.bincount(numbers, weights).max())


def _scalars(
    buckets: NDArray[np.uint16],
    n_buckets: int,
    scores: NDArray[np.floating[Any]],
    outcomes: NDArray[np.uint8],
    weights: Float64s | None,
    row_scores: RowScores | None,
) -> Float64s:
    """Return the sums over all cells, (B, 6), in the order of `SCALARS`; some rows at a time, to save memory."""
    sums = np.zeros((n_buckets, len(SCALARS)))
    for start in range(0, len(scores), _RANGE):
        part = slice(start, start + _RANGE)
        p, places = scores[part].astype(np.float64), buckets[part].astype(np.intp)
        columns: dict[str, NDArray[Any]] = {"tilt": (p - outcomes[part]) * (1 - 2 * p)}
        if row_scores is not None:
            brier, nll, right = (x[part] for x in row_scores)
            infinite = np.isinf(nll)
            columns |= {"brier": brier, "nll": np.where(infinite, 0.0, nll), "infinite": infinite, "right": right}
        sums[:, SCALARS.index("rows")] += np.bincount(places, minlength=n_buckets)
        for name, column in columns.items():
            products = column if weights is None else column * weights[part]
            sums[:, SCALARS.index(name)] += np.bincount(places, products, n_buckets)
    return sums
