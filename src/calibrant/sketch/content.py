"""The content of a sketch as a *head*, a plain dictionary of settings and totals, and *columns* of its occupied cells.

`storage` writes both in each of its formats, and reads them: the head is checked, with the sizes that it promises,
before memory is taken for its cells. Then types, ranges and the order of the cells are checked. Totals that do not add
up to the cells are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.memory import max_memory
from calibrant.inputs.notions import NOTIONS, PER_CLASS
from calibrant.inputs.predictions import Layout, Notion
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_ROWS, MOST_WEIGHT
from calibrant.results.envelope import Envelope, integer, listed, number, require
from calibrant.runtime.arrays import Int64s
from calibrant.sketch.totals import SCORES, SQUARED, Curves, SketchConfig, SketchSums, Totals
from calibrant.table import grid as grids
from calibrant.table.cluster_sums import (
    CLASS_CELLS,
    COLUMNS,
    EVENT_CELLS,
    ClusterSums,
    columns_of,
    from_arrays,
    settings_of,
)

#: Sketches as JSON and Arrow tables. The versions are those of the head: without and with clusters, which earlier
#: readers would leave out.
SKETCH: Final = Envelope(
    name="sketch",
    kind="a calibrant sketch",
    origin="pass a sketch that CalibrationSketch wrote",
    versions=(1, 2),
    version="calibrant.sketch",
    checksum="sha256",
)

SUMS: Final = ("score_sum_0", "score_sum_1", "square_sum")
COUNTS: Final = ("count_0", "count_1")
SQUARES: Final = ("square_weight_0", "square_weight_1")
PLACES: Final = ("group", "curve", "cell")

Columns = dict[str, NDArray[Any]]

_ALLOWED: Final[dict[Layout | None, tuple[Notion | None, ...]]] = {
    None: (None, *NOTIONS),
    "binary": ("positive", "top-label"),
    "multiclass": ("positive", "top-label", "classwise"),
    "multilabel": ("multilabel",),
}

#: The totals that version 1 began without.
_LATE: Final = frozenset({"quartic_weight", "rounded", *(f"squared_{name}" for name in SQUARED)})
_ROUNDED: Final = 1e-6  # scores of float32, sums and edges are rounded by less


class Content(NamedTuple):
    """All that a sketch holds: the part of all rows first, then those of its groups; no part where it is empty."""

    make: SketchConfig
    groups: list[str]
    parts: list[SketchSums]

    @property
    def weighted(self) -> bool:
        """Whether any part has had weights."""
        return any(part.curves.squares is not None for part in self.parts)

    @property
    def clustered(self) -> bool:
        """Whether clusters are known."""
        return any(part.clusters is not None for part in self.parts)


def head_of(content: Content) -> dict[str, Any]:
    """Return everything but the cells, as plain Python."""
    make, parts = content.make, content.parts
    names = None if make.class_names is None else list(make.class_names)
    clusters = [[settings_of(sums) for sums in part.clusters.parts] for part in parts if part.clusters is not None]
    return {
        "calibrant.sketch": SKETCH.versions[content.clustered],
        **{**asdict(make), "class_names": names},
        "edges": grids.GRIDS[make.grid],
        "weighted": content.weighted,
        "groups": content.groups,
        "totals": [_stored(part.totals) for part in parts],
        "rows": [part.curves.rows.tolist() for part in parts],
        "kinds": [part.curves.squares is not None for part in parts],
        **({"clusters": clusters} if clusters else {}),
    }


def _stored(totals: Totals) -> dict[str, Any]:
    """Return the totals to store; without rounded probabilities earlier versions read them too."""
    return {name: value for name, value in asdict(totals).items() if name != "rounded" or value}


def columns_of_cells(content: Content) -> Columns:
    """Return the occupied cells of all parts, that of all rows as group -1, and the sums over buckets of clusters."""
    names = cell_names(weighted=content.weighted)
    types = types_of(names)
    pieces: dict[str, list[NDArray[Any]]] = {name: [np.zeros(0)] for name in names}
    for group, (_, curves, _) in enumerate(content.parts, start=-1):
        curve, cell = np.nonzero(curves.counts.any(axis=2))
        counts = curves.counts[curve, cell]
        squares = counts if curves.squares is None else curves.squares[curve, cell]
        columns = (np.full(len(cell), group), curve, cell, *counts.T, *curves.sums[curve, cell].T, *squares.T)
        for name, column in zip(names, columns, strict=False):  # without weights the squares are the counts
            pieces[name].append(column)
    cells = {name: np.concatenate([column.astype(types[name]) for column in pieces[name]]) for name in names}
    return cells | _cluster_columns(content)


def _cluster_columns(content: Content) -> Columns:
    """Return the sums over buckets of clusters, each of its own length."""
    columns: Columns = {}
    for place, part in enumerate(content.parts):
        for curve, sums in enumerate(() if part.clusters is None else part.clusters.parts):
            columns |= {cluster_name(place, curve, name): column for name, column in columns_of(sums).items()}
    types = types_of(columns)
    return {name: column.astype(types[name]) for name, column in columns.items()}


def cluster_name(part: int, curve: int, name: str) -> str:
    """Return the name of a column of a curve's sums over buckets."""
    return f"clusters.{part}.{curve}.{name}"


def cell_names(*, weighted: bool) -> tuple[str, ...]:
    """Return the names of the columns of cells."""
    return (*PLACES, *COUNTS, *SUMS, *(SQUARES if weighted else ()))


def types_of(names: Collection[str]) -> dict[str, str]:
    """Return the type of each column."""
    integers = {*PLACES, "bucket", *(() if SQUARES[0] in names else COUNTS)}
    kinds = {name: name.rpartition(".")[2] for name in names}
    return {name: "<u8" if kind == "hashes" else "<i8" if kind in integers else "<f8" for name, kind in kinds.items()}


def same(one: Content, other: Content) -> bool:
    """Whether two sketches hold the same, bit for bit."""
    if head_of(one) != head_of(other):
        return False
    a, b = columns_of_cells(one), columns_of_cells(other)
    return all(np.array_equal(a[name], b[name]) for name in a)


# ---------------------------------------------------------------- reading


def content_of(stored: Any, read: Callable[[dict[str, str]], Columns], argument: str) -> Content:
    """Return the content of a sketch from its stored head, which is checked before any column is read.

    ``read`` returns the columns with these names and types: first of cells, then of buckets of clusters. Errors name
    the ``argument``. Another version, other edges or clusters, and a sketch that takes too much memory raise
    `InputError`; other content raises any exception.
    """
    require(isinstance(stored, dict), "a header that is not a JSON object")
    SKETCH.check_version(stored["calibrant.sketch"], argument)
    clustered = "clusters" in stored
    require_version(stored["calibrant.sketch"], SKETCH.versions, clustered=clustered)
    make = _config(stored, argument)
    groups, kinds, parts = listed(stored["groups"], str), listed(stored["kinds"], bool), listed(stored["totals"], dict)
    rows = [[integer(n, 0, MOST_ROWS) for n in curves] for curves in listed(stored["rows"], list)]
    clusters = [listed(curves, dict) for curves in listed(stored.get("clusters", []), list)]
    _check_size(make, kinds, argument, clustered=clustered)
    fits = len(rows) == len(kinds) == len(parts) == (0 if make.layout is None else 1 + len(groups))
    require(fits and {*map(len, rows)} <= {make.n_curves}, "a wrong number of sums for the groups and classes")
    require(len({*groups}) == len(groups) and (parts or not groups), "group names that are not distinct")
    require(stored["weighted"] is any(kinds), "weights that do not match the sums")
    if clustered:
        require(bool(parts) and _match(make, rows, clusters), "clusters that do not match the sums")
    totals = [_totals(part, curves, make) for part, curves in zip(parts, rows, strict=True)]
    names = cell_names(weighted=any(kinds))
    columns = read(types_of((*names, *_cluster_names(clusters))))
    cells = {name: columns[name] for name in names}
    ends = _checked_cells(make, rows, kinds, cells)
    found = []
    for part, own in enumerate(totals):
        held = {name: column[ends[part] : ends[part + 1]] for name, column in cells.items()}
        curves = _curves(make, rows[part], held, weighted=kinds[part])
        found.append(SketchSums(own, curves, _buckets(part, clusters[part], columns, argument) if clustered else None))
    return Content(make, groups, found)


def require_version(version: int, versions: tuple[int, ...], *, clustered: bool) -> None:
    """Reject clusters in the first of these versions, which has none, and no clusters in the other."""
    fault = "clusters in a format version without clusters" if clustered else "no clusters in a version that has them"
    require(version == versions[clustered], fault)


def _match(make: SketchConfig, rows: list[list[int]], clusters: list[list[Any]]) -> bool:
    """Return whether the clusters of each part have its curves, all of one kind."""
    same_kind = len({settings["kind"] for part in clusters for settings in part}) == 1
    return make.notion not in PER_CLASS and [*map(len, clusters)] == [*map(len, rows)] and same_kind


def _cluster_names(clusters: list[list[Any]]) -> Iterator[str]:
    """Yield the names of the columns of the buckets of clusters."""
    for part, curves in enumerate(clusters):
        for curve in range(len(curves)):
            yield from (cluster_name(part, curve, name) for name in COLUMNS)


def _config(stored: dict[str, Any], argument: str) -> SketchConfig:
    """Return the settings."""
    grid, edges = stored["grid"], stored["edges"]
    if type(grid) is not str or grids.GRIDS.get(grid) != edges:
        got = f"edges with checksum {str(edges)[:12]!r} for the grid {str(grid)[:12]!r}"
        remedy = "use the version of calibrant that wrote the sketch"
        raise InputError(argument, "the score grid of this version of calibrant", got, remedy)
    names = None if stored["class_names"] is None else tuple(listed(stored["class_names"], str))
    make = SketchConfig(
        notion=stored["notion"],
        classwise=stored["classwise"],
        class_names=names,
        grid=stored["grid"],
        layout=stored["layout"],
        n_classes=stored["n_classes"],
    )
    require(type(make.classwise) is bool and make.layout in _ALLOWED, "settings of wrong types")
    require(make.notion in _ALLOWED[make.layout], "a notion that predictions of this type do not have")
    if make.layout in (None, "binary"):
        require(make.n_classes is None, "a number of classes, but no predictions of several classes")
    else:
        integer(make.n_classes, 2, 2 if (make.layout, make.notion) == ("multiclass", "positive") else MOST_ROWS)
    named = names is None or make.layout is None or len(names) == len({*names}) == (make.n_classes or 2)
    require(named, "a number of class names that differs from the number of classes")
    return make


def _check_size(make: SketchConfig, kinds: list[bool], argument: str, *, clustered: bool) -> None:
    """Reject a sketch that would take too much memory."""
    size = make.n_curves * _n_cells(make.grid) * (len(kinds) * 5 + sum(kinds) * 2) * 8
    if clustered:
        first, other = (cells.n_buckets * (cells.n_cells * 3 + 6) * 8 for cells in (EVENT_CELLS, CLASS_CELLS))
        size += len(kinds) * (first + (make.n_curves - 1) * other)
    most = max_memory()
    if size > most:
        expected = f"a sketch of at most {most / 1e6:,.0f} MB in memory"
        remedy = "if you trust the sketch, raise the environment variable CALIBRANT_MAX_MEMORY"
        raise InputError(argument, expected, f"a sketch of {size / 1e6:,.0f} MB", remedy)


def _n_cells(grid: grids.Grid) -> int:
    return len(grids.edges(grid)) + 1


def _totals(stored: dict[str, Any], rows: list[int], make: SketchConfig) -> Totals:
    """Return the totals of a part."""
    kinds = {entry.name for entry in fields(Totals)}
    require(kinds - _LATE <= stored.keys() <= kinds, "totals with wrong names")
    numbers = {name: number(stored[name], -1e300, 1e300) for name in stored.keys() - {"whole"}}
    counts: dict[str, Any] = {name: integer(stored[name], 0, MOST_ROWS) for name in ("n", "rounded") if name in stored}
    require(type(stored["whole"]) is bool, "a total of another type")
    totals = Totals.of_stored({**numbers, **counts, "whole": stored["whole"]})
    n, entries = totals.n, totals.entries
    several = make.layout == "multilabel"  # a row may have some labels only
    fits = max(rows) <= n <= sum(rows) if several else {*rows} == {n}
    require(n and fits, f"n = {n:,}, but curves of {max(rows):,} rows")
    require(_are_weights(totals.weight, totals.square_weight, n), f"a total weight of {totals.weight:g}")
    rounded = 1 + _rounding(n * len(rows))
    fits = totals.weight <= entries * rounded and entries <= len(rows) * totals.weight * rounded
    require(fits, f"means over a total weight of {entries:g}, but rows with a total weight of {totals.weight:g}")
    scores = {name: getattr(totals, name) / entries for name in SCORES}
    require(min(scores.values()) >= -_ROUNDED, "sums of scores below 0")
    return totals


def _are_weights(sums: Any, squares: Any, n: Any) -> Any:
    """Return whether up to n weights in their range can have these sums, and these sums of squares."""
    means, rounded = squares / sums, 1 + _rounding(n)  # means of the weights, by the weights
    in_range = (means * rounded >= LEAST_WEIGHT) & (means <= MOST_WEIGHT * rounded)
    return in_range & (means <= sums * rounded) & (sums <= n * means * rounded)


def _rounding(n: Any) -> Any:
    """Return by how much sums of n terms of one sign are rounded, relative to them; four times the largest error."""
    return _ROUNDED + n * 2.0**-51


def _checked_cells(make: SketchConfig, rows: list[list[int]], kinds: list[bool], columns: Columns) -> Int64s:
    """Return where the cells of each part begin, and where the last ones end; they are in order."""
    group, curve, cell, *sums = columns.values()
    n_cells, n_curves = _n_cells(make.grid), make.n_curves
    of_curves = np.array(rows, np.float64).reshape(len(rows), n_curves)
    for places, first, size in ((group, -1, len(rows)), (curve, 0, n_curves), (cell, 0, n_cells)):
        require(((places >= first) & (places < first + size)).all(), "grid cells outside their range")
    slots = (group + 1) * n_curves + curve
    keys = slots * n_cells + cell
    require((keys[1:] > keys[:-1]).all(), "grid cells that are not in order")
    require(all((np.isfinite(x) & (x >= 0)).all() for x in sums), "grid cells with numbers below 0 or not finite")
    require(((sums[0] > 0) | (sums[1] > 0)).all(), "grid cells without rows")
    n, (low, high) = of_curves.reshape(-1)[slots], grids.ends_of(cell, make.grid)
    rounded = 1 + _rounding(n)
    for scores, weight in ((sums[2], sums[0]), (sums[3], sums[1]), (sums[4], sums[2] + sums[3])):  # squares last
        inside = (scores * rounded >= low * weight) & (scores <= high * weight * rounded)
        require(inside.all(), "sums of scores outside their grid cells")
    for weight, squares in zip(sums[:2], sums[5:], strict=False):  # none without weights
        good = ((weight == 0) & (squares == 0)) | _are_weights(weight, squares, n)
        require(good.all(), "sums of weights that do not match their squares")
    weight = np.bincount(slots, sums[0].astype(np.float64) + sums[1], of_curves.size).reshape(of_curves.shape)
    plain = np.isclose(weight, of_curves, rtol=_ROUNDED) | np.array(kinds, bool)[:, np.newaxis]
    require((plain & ((weight > 0) == (of_curves > 0))).all(), "counts that do not add up to the rows")
    return np.searchsorted(group, np.arange(len(rows) + 1) - 1)


def _curves(make: SketchConfig, rows: list[int], columns: Columns, *, weighted: bool) -> Curves:
    """Return the curves of a part, with all their cells."""
    curves, at = Curves.empty(make.n_curves, make.grid), (columns["curve"], columns["cell"])
    if weighted:
        curves.counts, curves.squares = (np.zeros(curves.counts.shape) for _ in range(2))
        curves.squares[at] = np.stack([columns[name] for name in SQUARES], axis=1)
    curves.counts[at] = np.stack([columns[name] for name in COUNTS], axis=1)
    curves.sums[at] = np.stack([columns[name] for name in SUMS], axis=1)
    curves.rows[:] = rows
    return curves


def _buckets(part: int, settings: list[dict[str, Any]], columns: Columns, argument: str) -> ClusterSums:
    """Return the sums over buckets of clusters of a part."""
    event, *classes = (
        from_arrays(
            {**own, **{name: columns[cluster_name(part, curve, name)] for name in COLUMNS}},
            cells=CLASS_CELLS if curve else EVENT_CELLS,
            argument=argument,
        )
        for curve, own in enumerate(settings)
    )
    return ClusterSums(event, tuple(classes))
