"""Sums over buckets of clusters that the engine of a lazy frame adds up.

It groups rows by bucket and coarse cell. The bucket is the hash of the cluster in a group of few clusters, else the
hash mod the number of buckets: a query that counts the clusters of each group comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import CLASS_CELLS, EVENT_CELLS, BucketSums, ClusterSums, CoarseCells, LabelKind
from calibrant.clusters.sums import SCALARS
from calibrant.frames import cell_keys, cells, hashes, rows
from calibrant.frames.cells import Frame, Sums
from calibrant.frames.columns import Columns, Wanted


def gather(frame: Frame, columns: Columns, wanted: Wanted) -> dict[Any, ClusterSums]:
    """Return the sums over buckets of each group, by its value; as `calibrant.frames.buckets.gather`."""
    counted = _counted(frame, columns)
    counts = _counts(counted, columns)
    hashed, name, kind = hashes.with_hashes(frame, columns)
    frame, columns = hashed.lazy(), replace(columns, hashes=name)
    query = partial(_Query, columns=columns, counts=counts, counted=counted)
    event = query(coarse=EVENT_CELLS, n_curves=1)
    sums = _fetched(event, kind, lambda summed: [summed(rows.judge_scored(frame, columns, wanted))])
    if not wanted.classwise:
        return {group: ClusterSums(sums[group, ""]) for group in counts}
    each = query(coarse=CLASS_CELLS, n_curves=columns.n_classes)
    sums |= _fetched(each, kind, lambda summed: cells.together(cells.class_tables(frame, columns, summed)))
    curves = [f"p{k}" for k in range(columns.n_classes)]
    return {group: ClusterSums(sums[group, ""], tuple(sums[group, curve] for curve in curves)) for group in counts}


@dataclass(frozen=True, kw_only=True)
class _Query:
    """What the rows of an engine are grouped by, and what is added up.

    Attributes
    ----------
    coarse : CoarseCells
        The coarse cells of the scores, and the most buckets.
    n_curves : int
        How many curves each group has.
    counts, counted : dict and Frame
        The number of clusters of each group: fetched, and in the engine.
    """

    columns: Columns
    coarse: CoarseCells
    n_curves: int
    counts: dict[Any, int]
    counted: Frame

    @property
    def scored(self) -> bool:
        """Whether the rows have the scores of whole predictions."""
        return self.coarse is EVENT_CELLS

    @property
    def n_slices(self) -> int:
        """How many queries share the buckets, so that each returns half the rows that can be fetched, or less."""
        n_buckets = min(self.coarse.n_buckets, max(self.counts.values()))
        n_rows = len(self.counts) * self.n_curves * n_buckets * self.coarse.n_cells
        return min(math.ceil(2 * n_rows / cells.MOST), self.coarse.n_buckets)

    def pools(self, group: Any) -> bool:
        """Return whether the clusters of a group share buckets."""
        return self.counts[group] > self.coarse.n_buckets

    def summed(self, frame: Frame, part: int) -> Frame:
        """Group judged rows by group, bucket and coarse cell, and add them up: those of one slice of the buckets."""
        frame = self._with_buckets(frame, part)
        options: Any = {"good": nw.lit(True), "fault": nw.lit(cell_keys.WRONG), "outcomes": False}
        chain, key = cell_keys.key(self.coarse, single=self.columns.single, **options)
        frame, sums = rows.with_steps(frame, chain), self._sums()
        names = [name for name in ("group", "curve") if name in frame.collect_schema()]
        frame = frame.select(*names, "bucket", key=key, **sums)
        return frame.group_by(*names, "bucket", "key").agg(nw.len().alias("n"), *[nw.col(name).sum() for name in sums])

    def _with_buckets(self, frame: Frame, part: int) -> Frame:
        n_buckets, value = self.coarse.n_buckets, nw.col("hash")
        shared = value % n_buckets  # Narwhals' rest is never negative, though a hash may be
        if self.n_slices > 1:
            frame = frame.filter(shared % self.n_slices == part)
        pooled = {self.pools(group) for group in self.counts}
        if len(pooled) == 1:
            return frame.with_columns(bucket=shared if pooled == {True} else value)
        frame = frame.join(self.counted, on="group", how="left")
        return frame.with_columns(bucket=nw.when(nw.col("clusters") > n_buckets).then(shared).otherwise(value))

    def _sums(self) -> dict[str, nw.Expr]:
        p, y = nw.col("p"), nw.col("y")
        sums = {"positives": y, "gap": p - y, "tilt": (p - y) * (1.0 - p * 2.0)}
        if self.scored:
            sums |= {name: nw.col(name) for name in rows.SCORES}
        if self.columns.weight is None:
            return sums
        w = nw.col("w")
        return {"weight": w, **{name: value * w for name, value in sums.items()}}

    def buckets_of(self, sums: Sums, kind: LabelKind, *, pooled: bool) -> BucketSums:
        """Return the sums over the buckets of a group from fetched rows."""
        cell = cell_keys.cells_of(sums["key"], self.coarse, single=self.columns.single).cells
        buckets, n_buckets, n_cells = sums["bucket"].astype(np.uint64), self.coarse.n_buckets, self.coarse.n_cells
        places, distinct = buckets.astype(np.intp), None
        if not pooled:
            distinct, places = np.unique(buckets, return_inverse=True)
            n_buckets = len(distinct)
        sums = {"rows": sums["n"], "weight": sums["n"], **sums}
        if self.scored:
            sums["nll"] = -sums["likelihood"]
        names, index = ("weight", "positives", "gap"), places * n_cells + cell
        cell_sums = _added(sums, names, index, n_buckets * n_cells).reshape(n_buckets, n_cells, 3)
        scalars = _added(sums, SCALARS, places, n_buckets)
        made = BucketSums(kind, distinct, cell_sums, scalars, scored=self.scored, cells=self.coarse)
        return made.folded() if n_buckets > self.coarse.n_buckets else made


def _added(sums: Sums, names: Sequence[str], places: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return the named columns added up by place, (size, columns); 0 for a column that is not there."""
    added = np.zeros((size, len(names)))
    for k, name in enumerate(names):
        if name in sums:
            added[:, k] = np.bincount(places, sums[name], size)
    return added


def _counted(frame: Frame, columns: Columns) -> Frame:
    """Return the number of clusters of each group, ``clusters``; without groups the distinct labels."""
    parts = {f"label{k}": nw.col(label.column) for k, label in enumerate(columns.labels)}
    if columns.group is not None:
        parts["group"] = nw.col(columns.group)
    if columns.weight is not None:
        parts["w"] = nw.col(columns.weight).cast(nw.Float64)
    names = [name for name in parts if name != "w"]
    distinct = rows.positive_alone(frame.select(**parts), columns).group_by(*names).agg(rows=nw.len())
    return distinct if columns.group is None else distinct.group_by("group").agg(clusters=nw.len())


def _counts(counted: Frame, columns: Columns) -> dict[Any, int]:
    """Return the number of clusters of each group, by its value; one more than the buckets means that or more."""
    if columns.group is None:
        return {None: len(cells.fetch(counted.head(EVENT_CELLS.n_buckets + 1)))}
    table, sums = cells.fetch_sums(counted, columns)
    groups = cells.groups_of(table, np.ones(len(table), np.bool_))
    return {group: int(sums["clusters"][place]) for group, (place,) in groups}


def _fetched(
    query: _Query, kind: LabelKind, tables: Callable[[Callable[[Frame], Frame]], Iterable[Frame]]
) -> dict[tuple[Any, str], BucketSums]:
    """Return the sums over buckets of each group and curve; ``tables`` makes tables of sums of judged rows."""
    made: dict[tuple[Any, str], BucketSums] = {}
    for part in range(query.n_slices):
        for summed in tables(partial(query.summed, part=part)):
            table, sums = cells.fetch_sums(summed, query.columns)
            curve = sums.pop("curve", np.zeros(len(table), "U1")).astype(str)
            for group, of_group in cells.groups_of(table, np.ones(len(table), np.bool_)):
                for name in np.unique(curve[of_group]).tolist():
                    places = of_group[curve[of_group] == name]
                    of_curve = {column: values[places] for column, values in sums.items()}
                    buckets = query.buckets_of(of_curve, kind, pooled=query.pools(group))
                    made[group, name] = made[group, name] + buckets if (group, name) in made else buckets
    return made
