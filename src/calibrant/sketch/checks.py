"""Check a stored sketch: first its head, before memory is taken for its cells, then its occupied cells.

A checksum tells damage, not intent: whoever writes a file can compute one. So every setting has its exact type, every
total its range, the sizes a limit, and every cell sums that some predictions have. Memory for the cells of all curves
is taken when these checks have passed.

The tolerances. A sum of n terms of one sign has a relative error below n 2^-53, in any order of addition. Two sums that
should agree are at most twice as far apart: `_slack` allows 2^-51 n, four times the error of one. To that it adds 1e-9
for the few roundings of each term, or 1e-6 where a device computes terms in float32, or the edges of a grid are rounded
to float32.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.memory import max_memory
from calibrant.inputs.notions import NOTIONS, PER_CLASS
from calibrant.inputs.predictions import Layout, Notion
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_ROWS, MOST_WEIGHT
from calibrant.runtime.arrays import Float64s, Int64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch.content import VERSIONS, Columns, Content, Foreign, cell_names, cluster_name
from calibrant.sketch.sums import SCORES, SQUARED, Curves, SketchConfig, SketchSums, Totals
from calibrant.table import grid as grids
from calibrant.table.cluster_sums import CLASS_CELLS, COLUMNS, EVENT_CELLS, BucketSums, ClusterSums, from_arrays

_EXACT: Final = 1e-9
_SINGLE: Final = 1e-6
_TINY: Final = 1e-30  # of a mean of squared scores: squares of scores below 1e-154 are not exact, or are 0
_BRIER: Final = 1e-5  # of a mean score: float32 scores of logits, in rows of several classes

_ALLOWED: Final[dict[Layout, tuple[Notion, ...]]] = {
    "binary": ("positive", "top-label"),
    "multiclass": ("positive", "top-label", "classwise"),
    "multilabel": ("multilabel",),
}

#: The largest Brier score of a row: sums of probabilities may differ from 1 by half a percentage, for half types more.
_MOST_BRIER: Final[dict[Layout, float]] = {"binary": 1.0, "multiclass": 2.001, "multilabel": 1.0}

#: The totals that version 1 began without.
_LATE: Final = frozenset({"quartic_weight", "rounded", *(f"squared_{name}" for name in SQUARED)})


class Head(NamedTuple):
    """The checked head of a stored sketch.

    Attributes
    ----------
    make : SketchConfig
        The settings.
    groups : list of str
        The names of the groups.
    totals : list of Totals
        The totals of each part: of all rows, then of each group.
    rows : (parts, curves) int64
        The number of predictions of each curve.
    kinds : list of bool
        Whether each part has had weights.
    clusters : list of list of dict, or None
        The settings of the sums over buckets, for each part and curve.
    """

    make: SketchConfig
    groups: list[str]
    totals: list[Totals]
    rows: NDArray[np.int64]
    kinds: list[bool]
    clusters: list[list[dict[str, Any]]] | None

    @property
    def weighted(self) -> bool:
        """Whether any part has had weights."""
        return any(self.kinds)

    @property
    def n_cells(self) -> int:
        """The number of cells of each curve."""
        return len(grids.edges(self.make.grid)) + 1

    @property
    def most_cells(self) -> int:
        """The most occupied cells."""
        return self.rows.size * self.n_cells

    @property
    def curves_in_clusters(self) -> list[int]:
        """How many curves of each part have sums over buckets."""
        return [] if self.clusters is None else [len(settings) for settings in self.clusters]


def _slack(n: Any, rounding: float = _EXACT) -> Any:
    """Return how far apart, relative to them, two sums over n rows may be by rounding."""
    return rounding + n * 2.0**-51


def check_version(version: Any, argument: str, known: tuple[int, ...] = VERSIONS) -> None:
    """Reject another version than the known ones."""
    if type(version) is not int or version not in known:
        remedy, expected = (
            "read the sketch with the version of calibrant that wrote it, or a newer version",
            " or ".join(map(str, known)),
        )
        got = f"version {version!r:.40}"
        raise InputError(argument, f"a sketch of version {expected}", got, remedy)


def _require(good: Any, reason: str) -> None:
    """Reject what no sketch holds; the reason completes "got ..."."""
    if not good:
        raise Foreign(reason)


def checked_head(stored: Any, argument: str) -> Head:
    """Return the head, with every type, size and total checked.

    Raises
    ------
    InputError
        For another version or edges, and for a sketch that takes too much memory.
    Foreign
        For what no sketch holds.
    """
    _require(isinstance(stored, dict), "a header that is not a JSON object")
    check_version(_entry(stored, "calibrant.sketch"), argument)
    _require(stored["calibrant.sketch"] == VERSIONS["clusters" in stored], "clusters that do not match the version")
    make = _config(stored, argument)
    groups, totals = _list(stored, "groups", str), _list(stored, "totals", dict)
    kinds, rows = _list(stored, "kinds", bool), _list(stored, "rows", list)
    n_parts = len(totals)
    fits = len(rows) == len(kinds) == n_parts == (0 if make.layout is None else 1 + len(groups))
    _require(fits, f"{n_parts:,} sums of parts, but {len(groups):,} groups")
    _require(len(set(groups)) == len(groups) and (n_parts or not groups), "group names that are not distinct")
    _require(_entry(stored, "weighted") is any(kinds), "weights that do not match the sums")
    n_curves = make.n_curves
    _require({*map(len, rows)} <= {n_curves}, f"row counts for a number of curves other than {n_curves:,}")
    _check_size(make, kinds, argument, clusters="clusters" in stored)
    good = all(type(number) is int and 0 <= number <= MOST_ROWS for curves in rows for number in curves)
    _require(good, "row counts that are not integers of 63 bits")
    head = Head(
        make=make,
        groups=groups,
        totals=[_totals(part, make, weighted=kind) for part, kind in zip(totals, kinds, strict=True)],
        rows=np.array(rows, np.int64).reshape(n_parts, n_curves if n_parts else 0),
        kinds=kinds,
        clusters=_cluster_settings(stored, make, n_parts),
    )
    for number, curves in zip((part.n for part in head.totals), rows, strict=True):
        several = make.layout == "multilabel"
        fits = max(curves) <= number <= sum(curves) if several else max(curves) == min(curves) == number
        _require(fits, f"n = {number:,}, but curves of {max(curves):,} rows")
    return head


def _entry(stored: dict[str, Any], name: str) -> Any:
    _require(name in stored, f"no entry {name!r}")
    return stored[name]


def _list(stored: dict[str, Any], name: str, kind: type) -> list[Any]:
    entries = _entry(stored, name)
    good = type(entries) is list and all(type(entry) is kind for entry in entries)
    _require(good, f"an entry {name!r} that is not a list of {kind.__name__}")
    return entries  # type: ignore[no-any-return]


# ---------------------------------------------------------------- settings


def _config(stored: dict[str, Any], argument: str) -> SketchConfig:
    """Return the settings."""
    grid, edges = _entry(stored, "grid"), _entry(stored, "edges")
    if type(grid) is not str or grids.GRIDS.get(grid) != edges:
        got = f"edges with checksum {str(edges)[:12]!r} for the grid {str(grid)[:12]!r}"
        raise InputError(
            argument, "the edges of a known grid", got, "use the version of calibrant that wrote the sketch"
        )
    notion, layout, classwise = (_entry(stored, name) for name in ("notion", "layout", "classwise"))
    names, n_classes = _entry(stored, "class_names"), _entry(stored, "n_classes")
    words = {type(notion), type(layout)} <= {str, type(None)}
    _require(type(classwise) is bool and words, "settings of wrong types")
    if names is not None:
        names = tuple(_list(stored, "class_names", str))
    if layout is None:
        _require(n_classes is None and notion in (None, *NOTIONS), "settings that contradict each other")
        return SketchConfig(notion=notion, classwise=classwise, class_names=names, grid=grid)  # type: ignore[arg-type]
    allowed = notion in _ALLOWED.get(layout, ())
    _require(allowed, f"the notion {str(notion)[:20]!r} for predictions of type {str(layout)[:20]!r}")
    several = type(n_classes) is int and 2 <= n_classes <= MOST_ROWS
    if not (n_classes is None if layout == "binary" else several):
        msg = f"{str(n_classes)[:20]} classes"
        raise Foreign(msg)
    one_event = layout == "multiclass" and notion == "positive"
    _require(not one_event or n_classes == 2, "one event for more than two classes")
    named = names is None or len(names) == len(set(names)) == (n_classes or 2)
    _require(named, "a number of class names that differs from the number of classes")
    return SketchConfig(
        notion=notion,
        classwise=classwise,
        class_names=names,
        grid=grid,  # type: ignore[arg-type]
        layout=layout,
        n_classes=n_classes,
    )


def _check_size(make: SketchConfig, kinds: list[bool], argument: str, *, clusters: bool) -> None:
    """Reject a sketch that would take too much memory."""
    if not kinds:
        return
    sums = len(kinds) * 5 + sum(kinds) * 2
    size = make.n_curves * (len(grids.edges(make.grid)) + 1) * sums * 8
    if clusters:
        first, other = (cells.n_buckets * (cells.n_cells * 3 + 6) * 8 for cells in (EVENT_CELLS, CLASS_CELLS))
        size += len(kinds) * (first + (make.n_curves - 1) * other)
    most = max_memory()
    if size > most:
        expected = f"a sketch of at most {most / 1e6:,.0f} MB in memory"
        remedy = "if you trust the sketch, raise the environment variable CALIBRANT_MAX_MEMORY"
        raise InputError(argument, expected, f"a sketch of {size / 1e6:,.0f} MB", remedy)


def _cluster_settings(stored: dict[str, Any], make: SketchConfig, n_parts: int) -> list[list[dict[str, Any]]] | None:
    """Return the settings of the sums over buckets."""
    if "clusters" not in stored:
        return None
    parts = _list(stored, "clusters", list)
    _require(make.notion not in PER_CLASS and n_parts and len(parts) == n_parts, "clusters that do not match the sums")
    for curves in parts:
        good = len(curves) == make.n_curves and {*map(type, curves)} <= {dict}
        _require(good, "clusters that do not match the curves")
        for curve, settings in enumerate(curves):
            _check_settings(settings, scored=curve == 0)
    kinds = {settings["kind"] for curves in parts for settings in curves}
    _require(len(kinds) <= 1, "cluster labels of several types")
    return parts


def _check_settings(settings: dict[str, Any], *, scored: bool) -> None:
    """Check the settings of the sums over buckets of one curve; the first one alone has the scores of rows."""
    grid = _entry(settings, "grid")
    words = all(type(_entry(settings, name)) is str for name in ("hash", "kind"))
    _require(words, "cluster labels of an unknown type")
    good = type(_entry(settings, "pooled")) is bool and _entry(settings, "scored") is scored
    _require(good, "cluster buckets of an unknown type")
    good = type(grid) is list and all(type(number) is int and abs(number) < 2**31 for number in grid)
    _require(good, "coarse grid cells of an unknown type")


# ---------------------------------------------------------------- totals


def _totals(stored: dict[str, Any], make: SketchConfig, *, weighted: bool) -> Totals:
    """Return the totals of a part, which some rows must have."""
    kinds = {entry.name for entry in fields(Totals)}
    _require(kinds - _LATE <= stored.keys() <= kinds, "totals with wrong names")
    n, whole, rounded = stored["n"], stored["whole"], stored.get("rounded", 0)
    if type(n) is not int or type(whole) is not bool or not 0 < n <= MOST_ROWS:
        msg = f"n = {str(n)[:20]}"
        raise Foreign(msg)
    if type(rounded) is not int or not 0 <= rounded <= MOST_ROWS:
        msg = f"rounded = {str(rounded)[:20]}"
        raise Foreign(msg)
    numbers = {name: stored[name] for name in stored.keys() - {"n", "whole", "rounded"}}
    for name, number in numbers.items():
        if type(number) not in (int, float) or not abs(number) < 1e300:
            msg = f"{name} = {str(number)[:20]}"
            raise Foreign(msg)
    totals = Totals.of_stored({"n": n, "whole": whole, "rounded": rounded, **{k: float(x) for k, x in numbers.items()}})
    layout = make.layout or "binary"
    width = make.n_classes or 1 if layout == "multilabel" else 1
    _check_weights(totals, width, weighted=weighted)
    rounding = _slack(float(n) * width, _SINGLE)
    _check_means("", totals, totals.entries, _MOST_BRIER[layout], rounding)
    _check_means("squared_", totals, width * totals.square_weight, _MOST_BRIER[layout], rounding)
    return totals


def _check_weights(part: Totals, width: int, *, weighted: bool) -> None:
    """Reject sums of weights that no rows with so many entries each have."""
    w, w2, w4, n, entries = part.weight, part.square_weight, part.quartic_weight, float(part.n), part.entries
    exact = 1 + _slack(n)
    _require(w > 0 and w2 > 0 and entries > 0, "rows whose total weight is 0")
    ones = part.whole and all(math.isclose(x, n, rel_tol=_slack(n)) for x in (w, w2, w4 or n))
    _require(weighted or ones, f"a total weight of {w:g} for {part.n:,} rows without weights")
    for mean in (w / n, w2 / w):  # both are means of the weights
        good = mean * exact >= LEAST_WEIGHT and mean <= MOST_WEIGHT * exact
        _require(good, f"an average weight of {mean:g}")
    good = w / n * w <= w2 * exact and w2 / w <= w * exact
    _require(good, f"a sum of squared weights of {w2:g} for a total weight of {w:g}")
    good = not w4 or (w4 > 0 and w2 / n * w2 <= w4 * exact and w4 / w2 <= w2 * exact)
    _require(good, f"a sum of fourth powers of weights of {w4:g}")
    good = not part.whole or (w.is_integer() and n <= w * exact and w <= w2 * exact)
    _require(good, f"a total of whole-number weights of {w!r}")
    good = w <= entries * exact and entries <= width * w * exact
    _require(good, f"{entries:g} evaluated entries for a total weight of {w:g}")


def _check_means(prefix: str, part: Totals, entries: float, most: float, rounding: float) -> None:
    """Reject sums of scores that no rows with a weight of ``entries`` in all have."""
    means = {name: getattr(part, prefix + name) / entries for name in SQUARED}
    infinite = 0.0 if prefix else part.infinite / entries
    good = 0 <= means["correct"] <= 1 + rounding and 0 <= infinite <= 1 + rounding
    _require(good, f"a mean {prefix}correct of {means['correct']:g}, or a share {infinite:g} of infinite losses")
    brier, brier_square, nll, nll_square = (means[name] for name in ("brier", "brier_square", "nll", "nll_square"))
    # A row's Brier score may be below 0 by rounding, and so may its loss.
    good = -_SINGLE <= brier <= most * (1 + rounding)
    good = good and 0 <= brier_square <= most * max(brier, 0.0) + 4 * rounding
    good = good and brier * brier <= brier_square * (1 + rounding) + rounding  # Cauchy-Schwarz
    _require(good, f"a mean {prefix}brier of {brier:g} with a mean square of {brier_square:g}")
    finite = max(1 - infinite, 0.0) + rounding
    good = nll >= -_SINGLE and nll_square >= 0 and nll * nll <= finite * nll_square * (1 + rounding) + rounding
    _require(good, f"a mean {prefix}nll of {nll:g} with a mean square of {nll_square:g}")


# ---------------------------------------------------------------- cells


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
        _require(not any(map(len, columns.values())), "grid cells in an empty sketch")
        return Content(head.make, [], [])
    lengths = {len(columns[name]) for name in cell_names(weighted=head.weighted)}
    good = len(lengths) == 1 and max(lengths) <= head.most_cells
    _require(good, "columns of different lengths, or more cells than the grid has")
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
            inside = not len(places) or (places.min() >= first and places.max() < first + size)
            _require(inside, f"a {name} outside its range")
        slot = (group + 1) * n_curves + curve
        keys = slot * head.n_cells + cell
        _require((keys[1:] > keys[:-1]).all(), "grid cells that are not in order")
        counts = np.stack([columns["count_0"], columns["count_1"]], axis=1)
        squares = counts.astype(np.float64)
        if head.weighted:
            squares = np.stack([columns["square_weight_0"], columns["square_weight_1"]], axis=1)
        sums = np.stack([columns[name] for name in ("score_sum_0", "score_sum_1", "square_sum")], axis=1)
        finite = all(np.isfinite(x).all() for x in (counts, sums, squares))
        _require(finite, "grid cells with numbers that are not finite")
        positive = all((x >= 0).all() for x in (counts, sums, squares)) and counts.any(axis=1).all()
        _require(positive, "grid cells with negative sums or without rows")
        weighted = np.repeat(np.array(head.kinds), n_curves)
        return cls(slot, cell, counts, sums, squares, head.rows.reshape(-1), weighted, head.make.grid)

    def by_slot(self, values: NDArray[Any]) -> Float64s:
        """Return the sum of values (C,) of each slot, (S,)."""
        return np.asarray(np.bincount(self.slot, values, len(self.rows)), np.float64)

    @cached_property
    def rounding(self) -> Float64s:
        """The tolerance of each cell, (C,), for sums in float64."""
        return np.asarray(_slack(self.rows[self.slot].astype(np.float64)))


def _check_cells(cells: _Cells) -> None:
    """Reject cells whose sums no scores and weights have."""
    low, high = grids.ends_of(cells.cell, cells.grid)
    exact, single = 1 + cells.rounding, 1 + cells.rounding + _SINGLE  # edges may be rounded to float32
    counts, (squared,) = cells.counts.astype(np.float64), cells.sums[:, 2:].T
    for y in (0, 1):
        n, total = counts[:, y], cells.sums[:, y]
        inside = (total >= low * n / single) & (total <= high * n * single)
        _require(inside.all(), "sums of scores outside their grid cells")
    n = counts.sum(axis=1)
    mean, square = cells.sums[:, :2].sum(axis=1) / n, squared / n
    fits = (mean * mean <= square * single + _TINY) & (square <= high * mean * single + _TINY)
    _require(fits.all(), "sums of squared scores that do not match the scores")
    weighted, (own, squares) = cells.weighted[cells.slot], (cells.counts, cells.squares)
    plain = own[~weighted]
    ones = np.array_equal(squares[~weighted], plain) and np.array_equal(plain, np.rint(plain))
    _require(ones, "weights in sums without weights")
    _require(((own > 0) == (squares > 0)).all(), "weights without squared weights")
    held, bound = own > 0, np.broadcast_to(exact[:, np.newaxis], own.shape)
    ratio = np.divide(squares, counts, out=np.ones_like(squares), where=held)  # a mean of the weights
    fits = ((ratio * bound >= LEAST_WEIGHT) & (ratio <= counts * bound))[held]
    _require(fits.all(), "squared weights that do not match the weights")
    _require((ratio <= MOST_WEIGHT * bound).all(), "weights that are too large")


def _check_curves(cells: _Cells, head: Head) -> None:
    """Reject cells that do not add up to the totals."""
    counts, squares = cells.counts.astype(np.float64), cells.squares
    weight, square_weight = cells.by_slot(counts.sum(axis=1)), cells.by_slot(squares.sum(axis=1))
    exact = 1 + _slack(cells.rows.astype(np.float64))
    occupied = cells.by_slot(np.count_nonzero(counts, axis=1))
    ratio = np.divide(counts, squares, out=np.zeros_like(counts), where=squares > 0)
    least = cells.by_slot((counts * ratio).sum(axis=1))  # no fewer rows have these weights (Kish)
    fits = (occupied <= cells.rows) & (least <= cells.rows * exact)
    _require(fits.all(), "more grid cells than rows, or weights for more rows")
    adds_up = np.isclose(weight, cells.rows, rtol=_EXACT, atol=0)[~cells.weighted].all()
    _require(adds_up, "counts that do not add up to the rows")
    if cells.counts.dtype.kind == "i":  # exact; sums that are near in float64 have not wrapped around
        rows_of_slots = np.zeros(len(cells.rows), np.int64)
        np.add.at(rows_of_slots, cells.slot, cells.counts.sum(axis=1))
        _require(np.array_equal(rows_of_slots, cells.rows), "counts that do not add up to the rows")
    several = head.make.layout == "multilabel"
    shape = head.rows.shape
    for part, (totals, weights, square_weights) in enumerate(
        zip(head.totals, weight.reshape(shape), square_weight.reshape(shape), strict=True)
    ):
        relative = _slack(float(totals.n) * (shape[1] if several else 1))
        pairs: list[tuple[str, Any, float]] = [
            ("weight", weights, totals.weight),
            ("square_weight", square_weights, totals.square_weight),
        ]
        for name, sums, total in pairs:
            fits = np.isclose(sums, total, rtol=relative, atol=0)
            if several:  # a row may have some labels only
                fits = (sums <= total * (1 + relative)) & (sums.sum() * (1 + relative) >= total)
            _require(fits.all(), f"grid cells that do not add up to the {name} of part {part}")
        evaluated = weights.sum() if several else weights[0]
        adds_up = np.isclose(evaluated, totals.entries, rtol=relative, atol=0)
        _require(adds_up, f"grid cells that do not add up to the entries of part {part}")
    whole_parts = np.array([totals.whole for totals in head.totals])[cells.slot // shape[1]]
    _require((counts == np.rint(counts))[whole_parts].all(), "fractions among whole-number weights")


def _check_scores(cells: _Cells, head: Head) -> None:
    """Reject Brier scores that the cells exclude: w (p - y)^2 adds up to sums over cells.

    With one event, or with curves of all labels or classes, that is the whole score. Else it is a part of the score.
    """
    n_curves, make = head.rows.shape[1], head.make
    errors = cells.by_slot(cells.sums[:, 2] - 2 * cells.sums[:, 1] + cells.counts[:, 1]).reshape(-1, n_curves)
    all_classes = make.layout == "multilabel" or make.has_classes
    first = n_curves - (make.n_classes or 0) if all_classes else 0
    for totals, errors_of_part in zip(head.totals, errors, strict=True):
        tolerance = (_BRIER + _slack(float(totals.n) * n_curves)) * totals.entries
        brier = float(errors_of_part[first:].sum() if all_classes else errors_of_part[0])
        equal = all_classes or make.layout == "binary"
        fits = brier <= totals.brier + tolerance and (not equal or totals.brier <= brier + tolerance)
        _require(fits, f"a total Brier score of {totals.brier:g} where the cells have {brier:g}")


def _check_groups(cells: _Cells, head: Head) -> None:
    """Reject groups that do not add up to all rows."""
    if not head.groups:
        return
    rows_of_groups = [sum(column) for column in head.rows[1:].T.tolist()]  # Python's integers do not wrap around
    _require(np.array_equal(rows_of_groups, head.rows[0]), "groups that do not add up to all rows")
    n_curves, first = head.rows.shape[1], int(np.searchsorted(cells.slot, head.rows.shape[1]))
    keys = cells.slot * head.n_cells + cells.cell
    of_all, of_groups = keys[:first], keys[first:] % (n_curves * head.n_cells)
    _require(np.array_equal(np.unique(of_groups), of_all), "groups with grid cells that the sketch of all rows lacks")
    places = np.searchsorted(of_all, of_groups)
    exact, single = (_slack(head.rows[0].max() * 1.0, rounding) for rounding in (_EXACT, _SINGLE))
    for columns, relative in ((cells.counts, exact), (cells.squares, exact), (cells.sums, single)):
        for column in columns.T:
            added = np.bincount(places, column[first:], len(of_all))
            adds_up = np.isclose(added, column[:first], rtol=relative, atol=1e-290).all()
            _require(adds_up, "groups whose grid cells do not add up to the cells of all rows")
    whole, *groups = head.totals
    _require(whole.n == sum(part.n for part in groups), "groups whose n does not add up to the n of all rows")
    # Early files lack the other totals, which need not add up then.
    for name in ("weight", "square_weight", "entries", *SCORES):
        total, added = getattr(whole, name), sum(getattr(part, name) for part in groups)
        adds_up = np.isclose(added, total, rtol=single, atol=single * whole.entries if name in SCORES else 0.0)
        _require(adds_up, f"groups whose {name} does not add up to the {name} of all rows")


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
        n_rows = float(buckets.rows.sum())
        _require(n_rows == float(rows), f"clusters of {n_rows:,.0f} rows, not {rows:,}")
        fits = _fit(buckets, cells, slice(start, stop), _slack(float(rows)))
        _require(fits, "clusters whose grid cells do not match the rows")
    totals, event = head.totals[part], clusters.event
    tolerance = _BRIER + _slack(float(totals.n))
    for name in ("brier", "nll", "infinite"):
        total, added = getattr(totals, name), float(event.scalar(name).sum())
        adds_up = np.isclose(added, total, rtol=tolerance, atol=tolerance * totals.entries)
        _require(adds_up, f"clusters whose {name} does not add up to the {name} of the rows")


def _fit(buckets: BucketSums, cells: _Cells, own: slice, relative: float) -> bool:
    """Return whether the buckets of a curve together have the sums of its cells."""
    coarse = buckets.cells.of_grid(cells.grid)[cells.cell[own]]
    counts, sums = cells.counts[own].astype(np.float64), cells.sums[own]
    weight = counts.sum(axis=1)
    columns = (weight, counts[:, 1], sums[:, 0] + sums[:, 1] - counts[:, 1])
    fine = np.stack([np.bincount(coarse, column, buckets.cells.n_cells) for column in columns], axis=1)
    tolerance = np.bincount(coarse, weight, buckets.cells.n_cells)[:, np.newaxis] * [
        relative,
        relative,
        relative + _SINGLE,
    ]
    return bool((np.abs(buckets.cell_sums.sum(axis=0) - fine) <= tolerance).all())


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
