"""Check the occupied cells of a stored sketch, and put its parts together.

The checks look at occupied cells only. Memory for the cells of all curves is taken when they have passed. `head`
explains the tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import CLASS_CELLS, COLUMNS, EVENT_CELLS, BucketSums, ClusterSums, from_arrays
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_WEIGHT
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.sketch.content import Columns, Content, Foreign, cell_names, cluster_name
from calibrant.sketch.head import EXACT, SINGLE, Head, slack
from calibrant.sketch.sums import SCORES, Curves, SketchSums
from calibrant.table import grid as grids

Int64s = NDArray[np.int64]

_TINY: Final = 1e-30  # of a mean of squared scores: squares of scores below 1e-154 are not exact, or are 0
_BRIER: Final = 1e-5  # of a mean score: float32 scores of logits, in rows of several classes


def put_together(head: Head, columns: Columns, argument: str) -> Content:
    """Return the content of a sketch, from its checked head and its columns.

    Raises
    ------
    Foreign
        For numbers that are not sums of predictions.
    InputError
        For sums over buckets of clusters of another kind.
    """
    if not head.totals:
        if any(len(column) for column in columns.values()):
            raise Foreign("cells of an empty sketch")
        return Content(head.make, [], [])
    lengths = {len(columns[name]) for name in cell_names(weighted=head.weighted)}
    if len(lengths) > 1 or max(lengths) > head.most_cells:
        raise Foreign("columns of different lengths, or of more cells than there are")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        cells = _Cells.of(head, columns)
        _check_cells(cells)
        _check_curves(cells, head)
        _check_scores(cells, head)
        _check_groups(cells, head)
    clusters = _clusters(head, columns, argument)
    if head.clusters is not None:
        for part, sums in enumerate(clusters):
            _check_clusters(cells, head, part, sums)
    curves = [_dense(cells, head, part) for part in range(len(head.totals))]
    if head.clusters is None:
        return Content(head.make, head.groups, list(map(SketchSums, head.totals, curves)))
    return Content(head.make, head.groups, list(map(SketchSums, head.totals, curves, clusters)))


@dataclass(frozen=True, eq=False)
class _Cells:
    """The occupied cells: C of them, in S slots, which are the curves of all parts.

    Attributes
    ----------
    slot, cell : (C,) int64
        The slot of each cell, and its place in the grid; both together increase.
    counts : (C, 2) int64, or float64 if a part had weights
        The predictions (their weight) by outcome.
    sums : (C, 3) float64
        The sums of scores by outcome, and of all squared scores.
    squares : (C, 2) float64
        The sums of squared weights by outcome; without weights the counts.
    rows : (S,) int64
        The number of predictions of each slot.
    weighted : (S,) bool
        Whether the part of each slot had weights.
    """

    slot: Int64s
    cell: Int64s
    counts: NDArray[Any]
    sums: Float64s
    squares: Float64s
    rows: Int64s
    weighted: NDArray[np.bool_]
    grid: grids.Grid

    @classmethod
    def of(cls, head: Head, columns: Columns) -> _Cells:
        """Return the cells of stored columns; their places are checked."""
        group, curve, cell = (columns[name] for name in ("group", "curve", "cell"))
        n_parts, n_curves = head.rows.shape
        for name, places, first, size in (
            ("group", group, -1, n_parts),
            ("curve", curve, 0, n_curves),
            ("cell", cell, 0, head.n_cells),
        ):
            if len(places) and not (places.min() >= first and places.max() < first + size):
                msg = f"a {name} outside its range"
                raise Foreign(msg)
        slot = (group + 1) * n_curves + curve
        keys = slot * head.n_cells + cell
        if not (keys[1:] > keys[:-1]).all():
            raise Foreign("cells that are not in order")
        counts = np.stack([columns["count_0"], columns["count_1"]], axis=1)
        squares = counts.astype(np.float64)
        if head.weighted:
            squares = np.stack([columns["square_weight_0"], columns["square_weight_1"]], axis=1)
        sums = np.stack([columns[name] for name in ("score_sum_0", "score_sum_1", "square_sum")], axis=1)
        if not (np.isfinite(counts).all() and np.isfinite(sums).all() and np.isfinite(squares).all()):
            raise Foreign("cells with numbers that are not finite")
        if (counts < 0).any() or (sums < 0).any() or (squares < 0).any() or (counts == 0).all(axis=1).any():
            raise Foreign("cells with sums below 0, or without rows")
        weighted = np.repeat(np.array(head.kinds), n_curves)
        return cls(slot, cell, counts, sums, squares, head.rows.reshape(-1), weighted, head.make.grid)

    def by_slot(self, values: NDArray[Any]) -> Float64s:
        """Return the sum of values (C,) of each slot, (S,)."""
        return np.bincount(self.slot, values, len(self.rows)).astype(np.float64)

    @cached_property
    def rounding(self) -> Float64s:
        """The tolerance of each cell, (C,), for sums in float64."""
        return np.asarray(slack(self.rows[self.slot].astype(np.float64)))


def _check_cells(cells: _Cells) -> None:
    """Reject cells whose sums no scores and weights have."""
    low, high = grids.ends_of(cells.cell, cells.grid)
    exact, single = 1 + cells.rounding, 1 + cells.rounding + SINGLE  # edges may be rounded to float32
    counts, (squared,) = cells.counts.astype(np.float64), cells.sums[:, 2:].T
    for y in (0, 1):
        n, total = counts[:, y], cells.sums[:, y]
        if not ((total >= low * n / single) & (total <= high * n * single)).all():
            raise Foreign("sums of scores outside their cells")
    n = counts.sum(axis=1)
    mean, square = cells.sums[:, :2].sum(axis=1) / n, squared / n
    if not ((mean * mean <= square * single + _TINY) & (square <= high * mean * single + _TINY)).all():
        raise Foreign("sums of squared scores that do not go with the scores")
    weighted, (own, squares) = cells.weighted[cells.slot], (cells.counts, cells.squares)
    if not (squares[~weighted] == own[~weighted]).all() or not (own[~weighted] == np.rint(own[~weighted])).all():
        raise Foreign("weights in a part without weights")
    if not ((own > 0) == (squares > 0)).all():
        raise Foreign("weights without squared weights")
    held, bound = own > 0, np.broadcast_to(exact[:, np.newaxis], own.shape)
    ratio = np.divide(squares, counts, out=np.ones_like(squares), where=held)  # a mean of the weights
    if not ((ratio * bound >= LEAST_WEIGHT) & (ratio <= counts * bound))[held].all():
        raise Foreign("squared weights that do not go with the weights")
    if not (ratio <= MOST_WEIGHT * bound).all():
        raise Foreign("weights that are too large")


def _check_curves(cells: _Cells, head: Head) -> None:
    """Reject cells that do not add up to the totals."""
    counts, squares = cells.counts.astype(np.float64), cells.squares
    weight, square_weight = cells.by_slot(counts.sum(axis=1)), cells.by_slot(squares.sum(axis=1))
    exact = 1 + slack(cells.rows.astype(np.float64))
    occupied = cells.by_slot(np.count_nonzero(counts, axis=1))
    ratio = np.divide(counts, squares, out=np.zeros_like(counts), where=squares > 0)
    least = cells.by_slot((counts * ratio).sum(axis=1))  # no fewer rows have these weights (Kish)
    if not ((occupied <= cells.rows) & (least <= cells.rows * exact)).all():
        raise Foreign("more cells than rows, or weights of more rows")
    if not np.isclose(weight, cells.rows, rtol=EXACT, atol=0)[~cells.weighted].all():
        raise Foreign("counts that do not add up to the rows")
    if cells.counts.dtype.kind == "i":  # exact; sums that are near in float64 have not wrapped around
        whole = np.zeros(len(cells.rows), np.int64)
        np.add.at(whole, cells.slot, cells.counts.sum(axis=1))
        if not np.array_equal(whole, cells.rows):
            raise Foreign("counts that do not add up to the rows")
    several = head.make.layout == "multilabel"
    shape = head.rows.shape
    for part, (totals, own, own_squares) in enumerate(
        zip(head.totals, weight.reshape(shape), square_weight.reshape(shape), strict=True)
    ):
        relative = slack(float(totals.n) * (shape[1] if several else 1))
        pairs: list[tuple[str, Any, float]] = [
            ("weight", own, totals.weight),
            ("square_weight", own_squares, totals.square_weight),
        ]
        for name, found, total in pairs:
            fits = np.isclose(found, total, rtol=relative, atol=0)
            if several:  # a row may have some labels only
                fits = (found <= total * (1 + relative)) & (found.sum() * (1 + relative) >= total)
            if not fits.all():
                msg = f"cells that do not add up to the {name} of part {part}"
                raise Foreign(msg)
        judged = own.sum() if several else own[0]
        if not np.isclose(judged, totals.entries, rtol=relative, atol=0):
            msg = f"cells that do not add up to the entries of part {part}"
            raise Foreign(msg)
    whole_parts = np.array([totals.whole for totals in head.totals])[cells.slot // shape[1]]
    if not (counts == np.rint(counts))[whole_parts].all():
        raise Foreign("whole weights with fractions")


def _check_scores(cells: _Cells, head: Head) -> None:
    """Reject Brier scores that the cells exclude: w (p - y)^2 adds up to sums over cells.

    With one event, or with curves of all labels or classes, that is the whole score. Else it is a part of the score.
    """
    n_curves, make = head.rows.shape[1], head.make
    errors = cells.by_slot(cells.sums[:, 2] - 2 * cells.sums[:, 1] + cells.counts[:, 1]).reshape(-1, n_curves)
    all_classes = make.layout == "multilabel" or make.has_classes
    first = n_curves - (make.n_classes or 0) if all_classes else 0
    for totals, own in zip(head.totals, errors, strict=True):
        room = (_BRIER + slack(float(totals.n) * n_curves)) * totals.entries
        brier = float(own[first:].sum() if all_classes else own[0])
        equal = all_classes or make.layout == "binary"
        if not (brier <= totals.brier + room and (not equal or totals.brier <= brier + room)):
            msg = f"a Brier score of {totals.brier:g} where the cells have {brier:g}"
            raise Foreign(msg)


def _check_groups(cells: _Cells, head: Head) -> None:
    """Reject groups that do not add up to all rows."""
    if not head.groups:
        return
    if not np.array_equal(_sum_of_rows(head.rows[1:]), head.rows[0]):
        raise Foreign("groups that do not add up to all rows")
    n_curves, first = head.rows.shape[1], int(np.searchsorted(cells.slot, head.rows.shape[1]))
    keys = cells.slot * head.n_cells + cells.cell
    own, of_groups = keys[:first], keys[first:] % (n_curves * head.n_cells)
    if not np.array_equal(np.unique(of_groups), own):
        raise Foreign("groups with other cells than all rows")
    places = np.searchsorted(own, of_groups)
    exact, single = (slack(head.rows[0].max() * 1.0, rounding) for rounding in (EXACT, SINGLE))
    for columns, relative in ((cells.counts, exact), (cells.squares, exact), (cells.sums, single)):
        for column in columns.T:
            added = np.bincount(places, column[first:], len(own))
            if not np.isclose(added, column[:first], rtol=relative, atol=1e-290).all():
                raise Foreign("groups whose cells do not add up to those of all rows")
    whole, *groups = head.totals
    if whole.n != sum(part.n for part in groups):
        raise Foreign("groups whose n does not add up to that of all rows")
    # Early files lack the other totals, which need not add up then.
    for name in ("weight", "square_weight", "entries", *SCORES):
        total, added = getattr(whole, name), sum(getattr(part, name) for part in groups)
        if not np.isclose(added, total, rtol=single, atol=single * whole.entries if name in SCORES else 0.0):
            msg = f"groups whose {name} does not add up to that of all rows"
            raise Foreign(msg)


def _sum_of_rows(rows: Int64s) -> list[int]:
    return [sum(column) for column in rows.T.tolist()]  # Python's integers do not wrap around


# ---------------------------------------------------------------- clusters


def _clusters(head: Head, columns: Columns, argument: str) -> list[ClusterSums]:
    """Return the sums over buckets of each part; none without clusters."""
    parts = []
    for part, curves in enumerate(head.clusters or ()):
        event, *classes = (
            from_arrays(
                {**settings, **{name: columns[cluster_name(part, curve, name)] for name in COLUMNS}},
                cells=CLASS_CELLS if curve else EVENT_CELLS,
                argument=argument,
            )
            for curve, settings in enumerate(curves)
        )
        parts.append(ClusterSums(event, tuple(classes)))
    return parts


def _check_clusters(cells: _Cells, head: Head, part: int, clusters: ClusterSums) -> None:
    """Reject buckets that do not hold the rows of the cells."""
    n_curves = head.rows.shape[1]
    for curve, buckets in enumerate(clusters.parts):
        start, stop = np.searchsorted(cells.slot, part * n_curves + curve + np.arange(2)).tolist()
        rows = int(head.rows[part, curve])
        if float(buckets.rows.sum()) != float(rows):
            msg = f"clusters of {buckets.rows.sum():,.0f} rows, not {rows:,}"
            raise Foreign(msg)
        if not _fit(buckets, cells, slice(start, stop), slack(float(rows))):
            raise Foreign("clusters whose cells are not those of the rows")
    totals, event = head.totals[part], clusters.event
    room = _BRIER + slack(float(totals.n))
    for name in ("brier", "nll", "infinite"):
        total, added = getattr(totals, name), float(event.scalar(name).sum())
        if not np.isclose(added, total, rtol=room, atol=room * totals.entries):
            msg = f"clusters whose {name} does not add up to that of the rows"
            raise Foreign(msg)


def _fit(buckets: BucketSums, cells: _Cells, own: slice, relative: float) -> bool:
    """Return whether the buckets of a curve together have the sums of its cells."""
    coarse = buckets.cells.of_grid(cells.grid)[cells.cell[own]]
    counts, sums = cells.counts[own].astype(np.float64), cells.sums[own]
    weight = counts.sum(axis=1)
    columns = (weight, counts[:, 1], sums[:, 0] + sums[:, 1] - counts[:, 1])
    fine = np.stack([np.bincount(coarse, column, buckets.cells.n_cells) for column in columns], axis=1)
    room = np.bincount(coarse, weight, buckets.cells.n_cells)[:, np.newaxis] * [relative, relative, relative + SINGLE]
    return bool((np.abs(buckets.cell_sums.sum(axis=0) - fine) <= room).all())


# ---------------------------------------------------------------- curves


def _dense(cells: _Cells, head: Head, part: int) -> Curves:
    """Return the curves of a part, with all their cells."""
    n_curves = head.rows.shape[1]
    start, stop = np.searchsorted(cells.slot, np.array([part, part + 1]) * n_curves).tolist()
    at = cells.slot[start:stop] - part * n_curves, cells.cell[start:stop]
    curves = Curves.empty(n_curves, head.make.grid)
    if head.kinds[part]:
        curves.counts, curves.squares = (np.zeros(curves.counts.shape) for _ in range(2))
        curves.squares[at] = cells.squares[start:stop]
    curves.counts[at] = cells.counts[start:stop]
    curves.sums[at] = cells.sums[start:stop]
    curves.rows[:] = head.rows[part]
    return curves
