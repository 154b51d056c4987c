"""Sums over buckets of clusters: from an engine's queries, or from a frame in memory, block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from calibrant.clusters import CLASS_CELLS, EVENT_CELLS, BucketSums, ClusterLabels, ClusterSums, CoarseCells, LabelKind
from calibrant.frames import bucket_queries, cells, hashes, rows
from calibrant.frames.cells import Frame, Sums
from calibrant.frames.columns import Columns, Wanted


def gather(frame: nw.DataFrame[Any] | nw.LazyFrame[Any], columns: Columns, wanted: Wanted) -> dict[Any, ClusterSums]:
    """Return the sums over buckets of each group, by its value; a frame without groups has the one group None.

    The rows have been checked, and some have weight.

    Raises
    ------
    InputError
        As `hashes.with_hashes`, and for more distinct scores next to cell edges than can be fetched.
    """
    if isinstance(frame, nw.LazyFrame):
        return bucket_queries.gather(frame, columns, wanted)
    return _in_memory(frame, columns, wanted)


def _in_memory(frame: nw.DataFrame[Any], columns: Columns, wanted: Wanted) -> dict[Any, ClusterSums]:
    frame, columns, groups = _with_codes(frame, columns)
    hashed, name, kind = hashes.with_hashes(frame, columns)
    columns = replace(columns, hashes=name)
    event = _Curve(columns, kind, EVENT_CELLS, len(groups))
    n_classes = columns.n_classes if wanted.classwise else 0
    classes = [_Curve(columns, kind, CLASS_CELLS, len(groups)) for _ in range(n_classes)]
    for part in cells.parts(hashed):
        event.add(rows.judge_scored(part, columns, wanted))
        for k, curve in enumerate(classes):
            curve.add(rows.judge_class(part, columns, k))
    for curve in (event, *classes):
        curve.flush()
    return {
        groups[code]: ClusterSums(sums, tuple(curve.sums[code] for curve in classes))
        for code, sums in event.sums.items()
    }


def _with_codes(frame: nw.DataFrame[Any], columns: Columns) -> tuple[nw.DataFrame[Any], Columns, list[Any]]:
    """Return the used columns with numbers in place of groups, and the group of each number."""
    if columns.group is None:
        return frame, columns, [None]
    labels = [label.column for label in columns.labels]
    used = dict.fromkeys([*columns.scores, columns.target, columns.group, *labels, *filter(None, [columns.weight])])
    name = "code"
    while name in used:
        name += "_"
    groups = frame.select(group=nw.col(columns.group)).unique().with_row_index(name)
    values = {int(place): value for value, (place,) in cells.groups_of(groups, np.ones(len(groups), np.bool_))}
    frame = frame.select(*used).join(groups, left_on=columns.group, right_on="group", how="left")
    return frame, replace(columns, group=name), [values[place] for place in range(len(groups))]


class _Curve:
    """The sums over buckets of one curve, by the number of the group.

    Rows are held until there is a block for each group: to add them up costs as much as the buckets have cells.
    """

    def __init__(self, columns: Columns, kind: LabelKind, coarse: CoarseCells, n_groups: int) -> None:
        self._single, self._kind, self._coarse = columns.single, kind, coarse
        self._most = n_groups * cells.BLOCK
        self._held: list[Sums] = []
        self.sums: dict[int, BucketSums] = {}

    def add(self, judged: Frame) -> None:
        """Add the judged rows of a block."""
        used = ("group", "hash", "p", "y", "w", *rows.SCORES)
        names = [name for name in used if name in judged.collect_schema()]
        table = cells.fetch(judged.select(*names))
        self._held.append({name: table.get_column(name).to_numpy() for name in names})
        if sum(len(held["p"]) for held in self._held) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Add up the rows that are held."""
        if not self._held:
            return
        held = {name: np.concatenate([block[name] for block in self._held]) for name in self._held[0]}
        self._held = []
        codes = held.pop("group", np.zeros(len(held["p"]), np.int64))
        order = np.argsort(codes, kind="stable")
        numbers, firsts = np.unique(codes[order], return_index=True)
        for number, places in zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True):
            made = self._made({name: values[places] for name, values in held.items()})
            self.sums[number] = self.sums[number] + made if number in self.sums else made

    def _made(self, held: Sums) -> BucketSums:
        row_scores = None
        if "brier" in held:
            nll = np.where(held["infinite"] > 0, np.inf, -held["likelihood"])
            row_scores = held["brier"], nll, held["right"] > 0
        return BucketSums.of(
            ClusterLabels(held["hash"].astype(np.uint64), self._kind),
            held["p"].astype(np.float32 if self._single else np.float64),
            held["y"].astype(np.uint8),
            held.get("w"),
            row_scores=row_scores,
            cells=self._coarse,
            count=False,
        )
