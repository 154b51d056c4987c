"""Sums over buckets of clusters: all that inference with clusters needs, in constant memory, additive.

Each bucket is a union of whole clusters. While there are at most 256 clusters, each has its own bucket; with more, the
bucket of a cluster is the hash of its label mod 256. Buckets are independent because clusters are, whatever they hold.
The scores are in coarse cells: few enough that each bucket keeps its own sums in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, astuple, field, replace
from functools import cache
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.conversion import is_tensor
from calibrant.inputs.notions import PER_CLASS, Events, class_events, scores_of_rows
from calibrant.inputs.predictions import Notion, Predictions, check_index
from calibrant.inputs.scores import RowScores, event_row_scores
from calibrant.kernels import dispatch
from calibrant.kernels.compensated import add_binned, binned, joined
from calibrant.runtime.arrays import Float64s, UInt16s, UInt64s
from calibrant.runtime.dataclass import dataclass
from calibrant.table import grid as grids
from calibrant.table.cluster_labels import HASH, ClusterLabels, LabelKind, as_clusters

#: The columns of ``BucketSums.scalars``.
SCALARS: Final = ("rows", "right", "brier", "nll", "infinite", "tilt")

_KINDS: Final = {"number": "whole numbers", "text": "text"}

_RANGE: Final = 2**18  # rows whose products are in memory together


@dataclass(frozen=True)
class CoarseCells:
    """Coarse cells of the scores, and how many buckets have sums in them.

    The E edges are sin(pi j / 2A)^2, j = 0..A, together with i / M, i = 0..M. Cell 0 holds p = 0, cell j in 1..E-1 the
    scores in (edge j-1, edge j].
    """

    n_arcs: int  # A, a divisor of 4,096; 0 for edges i / M only
    n_parts: int  # M, a divisor of 300
    n_buckets: int  # the most clusters with buckets of their own; more of them share this number of buckets
    one_apart: bool  # whether p = 1 has cell E to itself

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges, (E,), read-only; each is an edge of the standard grid."""
        return _edges(self)

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.edges) + self.one_apart

    def of_grid(self, grid: grids.Grid) -> UInt16s:
        """Return the coarse cell of each cell of a grid, (cells of the grid,), read-only."""
        return _of_grid(self, grid)

    def of_scores(self, scores: NDArray[np.floating]) -> UInt16s:
        """Return the coarse cell of each score; scores of float32 are compared with the edges rounded to float32."""
        return self.of_grid("standard")[grids.cell_of(scores, "standard")]


#: The cells of an evaluated event: 256 buckets x 428 cells.
EVENT_CELLS: Final = CoarseCells(n_arcs=128, n_parts=300, n_buckets=256, one_apart=True)

#: The cells of one class among many: 32 buckets x 61 cells.
CLASS_CELLS: Final = CoarseCells(n_arcs=0, n_parts=60, n_buckets=32, one_apart=False)


@cache
def _edges(cells: CoarseCells) -> NDArray[np.float64]:
    """Return the edges of the standard grid that are nearest to the formula's, which is rounded differently."""
    arcs = np.sin(np.pi * np.arange(cells.n_arcs + 1) / (2 * max(cells.n_arcs, 1))) ** 2
    wanted = np.concatenate([arcs, np.arange(cells.n_parts + 1) / cells.n_parts])
    fine = grids.edges("standard")
    edges = np.unique(fine[np.abs(fine - wanted[:, np.newaxis]).argmin(axis=1)])
    edges.setflags(write=False)
    return edges


@cache
def _of_grid(cells: CoarseCells, grid: grids.Grid) -> UInt16s:
    fine = grids.edges(grid)
    coarse = np.append(np.searchsorted(cells.edges, fine), cells.n_cells - 1).astype(np.uint16)
    coarse.setflags(write=False)
    return coarse


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Sums over the rows of each bucket: in the coarse cells of the scores, and over all cells. Add two with ``+``.

    A row with score p, outcome y and weight w adds w times its value to every sum except the number of rows. B is the
    number of buckets, K the number of coarse cells.
    """

    kind: LabelKind  # that of the labels
    #: (B,): the hash of each bucket's cluster, increasing, while each cluster has its own bucket; None for pooled ones.
    hashes: UInt64s | None = field(repr=False)
    #: (B, K, 3): in each coarse cell the weight, the sum of y and the sum of p - y.
    cell_sums: Float64s = field(repr=False)
    #: (B, 6): the sums named in `SCALARS`: the number of rows, unweighted; the right answers; the Brier score; the
    #: finite log losses, in nats; the weight of infinite log losses; (p - y) (1 - 2 p).
    scalars: Float64s = field(repr=False)
    _: KW_ONLY
    scored: bool  # whether the sums of right answers, Brier scores and log losses are known; else they are 0
    cells: CoarseCells = EVENT_CELLS
    hash_name: str = HASH  # the name and version of the hash of the labels
    #: counted, heaviest: of pooled buckets made from one array, the number of clusters, and the weight of the heaviest.
    #: None after an addition.
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
        """Return the sums of evaluated rows.

        Scores, outcomes and weights are as in `Events`, all (n,), and labels are from `as_clusters`. ``row_scores`` are
        the Brier score and the log loss of each row, and whether it is right. With ``count``, more clusters than
        buckets are counted exactly, and weighed; this costs some 30 ns a row.

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
        """
        if not isinstance(other, BucketSums):
            return NotImplemented
        one, two = aligned([self, other])
        sums, scalars = one.cell_sums + two.cell_sums, one.scalars + two.scalars
        return replace(one, cell_sums=sums, scalars=scalars, counted=None, heaviest=None)

    def of_answers(self) -> BucketSums:
        """Return the sums if the outcome of an event is whether an answer is right."""
        scalars = self.scalars.copy()
        scalars[:, SCALARS.index("right")] = self.y.sum(axis=1)
        return replace(self, scalars=scalars)

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


def _check_alike(one: BucketSums, other: BucketSums) -> None:
    """Reject sums that do not add up."""
    if one.hash_name != other.hash_name:
        remedy = "make both sketches with one version of calibrant, because versions may hash a label differently"
        raise InputError("clusters", f"labels hashed with {one.hash_name}", other.hash_name, remedy)
    if one.kind != other.kind:
        remedy = "convert all cluster labels to one type before you add rows to a sketch"
        raise InputError("clusters", f"labels that are {_KINDS[one.kind]}", _KINDS[other.kind], remedy)
    if one.cells != other.cells:
        raise InputError("clusters", _named(one.cells), _named(other.cells), "make both sketches with the same notion")
    if one.scored != other.scored:
        remedy = "pass row_scores for both sums or for neither"
        expected = "row scores (Brier score, log loss) in both cluster sums or in neither"
        raise InputError("clusters", expected, "row scores in only one of the two cluster sums", remedy)


def _named(cells: CoarseCells) -> str:
    return f"sums for {cells.n_cells} score ranges in each of at most {cells.n_buckets} sets of clusters"


def _assigned(
    labels: ClusterLabels, weights: Float64s | None, n_buckets: int, count: bool
) -> tuple[UInt16s, UInt64s | None, int | None, float | None]:
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
    return buckets, None, len(distinct), float(binned(numbers, weights, len(distinct)).max())


def _scalars(
    buckets: UInt16s,
    n_buckets: int,
    scores: NDArray[np.floating[Any]],
    outcomes: NDArray[np.uint8],
    weights: Float64s | None,
    row_scores: RowScores | None,
) -> Float64s:
    """Return the sums over all cells, (B, 6), in the order of `SCALARS`; some rows at a time, to save memory."""
    sums = np.zeros((2, n_buckets, len(SCALARS)))
    for start in range(0, len(scores), _RANGE):
        part = slice(start, start + _RANGE)
        p, places = scores[part].astype(np.float64), buckets[part].astype(np.intp)
        columns: dict[str, Any] = {"rows": np.ones(len(p), np.uint8), "tilt": (p - outcomes[part]) * (1 - 2 * p)}
        if row_scores is not None:
            brier, nll, right = (x[part] for x in row_scores)
            infinite = np.isinf(nll)
            columns |= {"brier": brier, "nll": np.where(infinite, 0.0, nll), "infinite": infinite, "right": right}
        for name, column in columns.items():
            products = column if weights is None or name == "rows" else column * weights[part]
            add_binned(sums[..., SCALARS.index(name)], places, products)
    return joined(sums)


# ---------------------------------------------------------------- settings and arrays

_PLACES: Final = ("bucket", "cell")
_SUMS: Final = ("weight", "positives", "gaps")
_ROUNDING: Final = 1e-9  # of a sum, relative to the weight
_FLOAT32: Final = 1e-6  # the same, and scores of float32 are counted by edges rounded to float32
_VALID: Final = "a sketch with valid cluster sums"
_DAMAGED: Final = "read the sketch again, or make a new sketch"
_OTHER: Final = "read the sketch with the version of calibrant that wrote it, or a newer version"


#: The columns of stored sums.
COLUMNS: Final = ("hashes", *_PLACES, *_SUMS, *SCALARS)


def settings_of(sums: BucketSums) -> dict[str, Any]:
    """Return what is stored next to the columns, as plain Python."""
    return {
        "hash": sums.hash_name,
        "kind": sums.kind,
        "pooled": sums.pooled,
        "scored": sums.scored,
        "grid": [int(setting) for setting in astuple(sums.cells)],
    }


def columns_of(sums: BucketSums) -> dict[str, NDArray[Any]]:
    """Return all sums that survive an addition, by the names in `COLUMNS`.

    The occupied cells are in ``bucket``, ``cell``, ``weight``, ``positives`` and ``gaps``, one entry each; the sums
    named in `SCALARS` have an entry for each bucket. ``hashes`` is empty for pooled buckets.
    """
    bucket, cell = np.nonzero(sums.n)
    return {
        "hashes": np.empty(0, np.uint64) if sums.hashes is None else sums.hashes,
        "bucket": bucket.astype(np.uint16),
        "cell": cell.astype(np.uint16),
        **dict(zip(_SUMS, sums.cell_sums[bucket, cell].T.copy(), strict=True)),
        **dict(zip(SCALARS, sums.scalars.T.copy(), strict=True)),
    }


def from_arrays(arrays: Mapping[str, Any], *, cells: CoarseCells = EVENT_CELLS, argument: str = "arrays") -> BucketSums:
    """Return the sums of `settings_of` and `columns_of`, together in one mapping, for these coarse cells.

    Sums of another hash or of other cells, and arrays that are not sums of rows, are rejected.
    """
    try:
        sums = _read(arrays, cells, argument)
        sound = _sound(sums)
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InputError(argument, _VALID, f"invalid sums ({error!r})", _DAMAGED) from None
    if not sound:
        raise InputError(argument, _VALID, "inconsistent sums", _DAMAGED)
    return sums


def _read(arrays: Mapping[str, Any], cells: CoarseCells, argument: str) -> BucketSums:
    """Return the sums with the shapes and types that they should have; their numbers are not checked yet."""
    hash_name, kind = str(arrays["hash"]), str(arrays["kind"])
    if hash_name != HASH:
        raise InputError(argument, f"labels hashed with {HASH}", repr(hash_name)[:80], _OTHER)
    if not np.array_equal(arrays["grid"], astuple(cells)):
        raise InputError(argument, _named(cells), "sums for other score ranges or sets", _OTHER)
    pooled, scored = (bool(_array(arrays, name, "b", ndim=0)) for name in ("pooled", "scored"))
    hashes = _array(arrays, "hashes", "u").astype(np.uint64)
    n_buckets = cells.n_buckets if pooled else len(hashes)
    if kind not in get_args(LabelKind) or len(hashes) > (0 if pooled else n_buckets) or n_buckets > cells.n_buckets:
        raise ValueError("clusters")
    bucket, cell = (_array(arrays, name, "iu").astype(np.int64) for name in _PLACES)
    if not (_below(bucket, n_buckets) and _below(cell, cells.n_cells) and _increase(bucket * cells.n_cells + cell)):
        raise IndexError("invalid places of grid cells")
    cell_sums = np.zeros((n_buckets, cells.n_cells, 3))
    cell_sums[bucket, cell] = np.stack([_array(arrays, name, "f") for name in _SUMS], axis=1)
    scalars = np.stack([_array(arrays, name, "f") for name in SCALARS], axis=1, dtype=np.float64)
    if len(scalars) != n_buckets:
        raise ValueError("buckets")
    return BucketSums(kind, None if pooled else hashes, cell_sums, scalars, scored=scored, cells=cells)  # type: ignore[arg-type]


def _array(arrays: Mapping[str, Any], name: str, kinds: str, ndim: int = 1) -> NDArray[Any]:
    array = np.asarray(arrays[name])
    if array.ndim != ndim or array.dtype.kind not in kinds:
        msg = f"{name} of shape {array.shape} and type {array.dtype}"
        raise TypeError(msg)
    return array


def _below(places: NDArray[np.int64], size: int) -> bool:
    return bool(((places >= 0) & (places < size)).all())


def _increase(numbers: NDArray[Any]) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _sound(sums: BucketSums) -> bool:
    """Return whether the numbers can be sums of rows, up to rounding."""
    if not (np.isfinite(sums.cell_sums).all() and np.isfinite(sums.scalars).all()):
        return False
    if sums.hashes is not None and not _increase(sums.hashes):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return _sound_cells(sums) and _sound_scalars(sums)


def _sound_cells(sums: BucketSums) -> bool:
    """Return whether cells hold outcomes of 0 and 1, and scores between their ends."""
    bucket, cell = np.nonzero(sums.cell_sums.any(axis=2))
    n, y, gaps = sums.cell_sums[bucket, cell].T
    edges = sums.cells.edges
    low, high = np.append(0.0, edges)[cell], np.append(edges, 1.0)[cell]
    score_sums, slack = gaps + y, _FLOAT32 * n
    outcomes = (y >= 0) & (y <= n * (1 + _ROUNDING))
    return bool((outcomes & (score_sums >= low * n - slack) & (score_sums <= high * n + slack)).all())


def _sound_scalars(sums: BucketSums) -> bool:
    """Return whether the sums over all cells fit the weights of the buckets."""
    weight, slack = sums.weight, _ROUNDING * sums.weight
    rows, *scores, tilt = (sums.scalar(name) for name in SCALARS)
    right, _, _, infinite = scores
    counted = np.array_equal(rows, np.rint(rows)) and np.array_equal(rows > 0, weight > 0) and (rows >= 0).all()
    scored = all((x >= -slack).all() for x in scores) and all((x <= weight + slack).all() for x in (right, infinite))
    stated = sums.scored or not any(x.any() for x in scores)
    return bool(counted and scored and stated and (np.abs(tilt) <= weight + slack).all() and np.isfinite(weight).all())


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums over buckets of clusters. Add two with ``+``."""

    event: BucketSums  # the sums of the evaluated event, with the scores of whole predictions
    classes: tuple[BucketSums, ...] = ()  # those of each class; empty unless classes are evaluated in addition

    @classmethod
    def of(
        cls, predictions: Predictions, events: Events, labels: ClusterLabels, *, classes: bool, count: bool
    ) -> ClusterSums:
        """Return the sums of the evaluated rows; ``labels`` are the clusters of all rows.

        ``events`` are one for each row, or of several labels one for each row and label. ``classes`` says whether
        classes are evaluated too, and ``count`` is as in `BucketSums.of`.
        """
        each, scores = _evaluated(predictions), events.scores
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
        """Return the sums of the rows of both, which may share clusters."""
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


def _evaluated(predictions: Predictions) -> NDArray[np.bool_]:
    """Return which rows are evaluated, (n,); of several labels, the same for each label, (n, C)."""
    if predictions.layout != "multilabel":
        return predictions.evaluated
    evaluated = predictions.targets >= 0
    return evaluated if predictions.weights is None else evaluated & (predictions.weights > 0)[:, np.newaxis]


def over_buckets(labels: ClusterLabels, columns: Sequence[Float64s]) -> Float64s:
    """Return the sums of columns, (n,) each, over the buckets of an evaluated event with these rows, (B, columns)."""
    buckets, hashes, _, _ = _assigned(labels, None, EVENT_CELLS.n_buckets, count=False)
    n_buckets = EVENT_CELLS.n_buckets if hashes is None else len(hashes)
    return np.stack([binned(buckets.astype(np.intp), column, n_buckets) for column in columns], axis=1)


def labels_of(clusters: Any, predictions: Predictions) -> ClusterLabels:
    """Return the cluster of each row. Predictions (N, C, ...) may have one label for each of the N."""
    check_index("clusters", clusters, predictions.index)
    n, each = predictions.n, predictions.rows.depth
    if isinstance(clusters, ClusterLabels):
        size = len(clusters)
    else:
        size = clusters.numel() if is_tensor(clusters) else np.size(clusters)
    if each > 1 and size == n // each:
        return as_clusters(clusters, n // each).take(np.repeat(np.arange(n // each), each))
    return as_clusters(clusters, n)


def check_notion(notion: Notion) -> None:
    """Reject a notion of many events where sums of one event are kept."""
    if notion in PER_CLASS:
        remedy = (
            "pass the column of one class, or notion='top-label' (to keep all classes in a sketch, add classwise=True)"
        )
        raise InputError("clusters", "a notion with one event ('positive' or 'top-label')", repr(notion), remedy)
