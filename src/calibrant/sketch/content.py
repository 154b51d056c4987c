"""The content of a sketch as a *head*, a plain dictionary of settings and totals, and *columns* of its occupied cells.

`storage` writes both in each of its formats. `checks` turns them back, and checks every number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.sketch.sums import SketchConfig, SketchSums, Totals
from calibrant.table import grid as grids
from calibrant.table.cluster_sums import COLUMNS, columns_of, settings_of

#: The versions of the head, with the cells as JSON and Arrow tables hold them: without and with clusters, which earlier
#: readers would leave out.
VERSIONS: Final = (1, 2)

SUMS: Final = ("score_sum_0", "score_sum_1", "square_sum")
COUNTS: Final = ("count_0", "count_1")
SQUARES: Final = ("square_weight_0", "square_weight_1")
PLACES: Final = ("group", "curve", "cell")

Columns = dict[str, NDArray[Any]]


class Foreign(Exception):
    """Stored content that no sketch has; the text completes "got ..."."""


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
        "calibrant.sketch": VERSIONS[content.clustered],
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


def cluster_names(curves_by_part: Collection[int]) -> tuple[str, ...]:
    """Return the names of the columns of buckets, for parts with so many curves in clusters."""
    return tuple(
        cluster_name(part, curve, name)
        for part, n_curves in enumerate(curves_by_part)
        for curve in range(n_curves)
        for name in COLUMNS
    )


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
