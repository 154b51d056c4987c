"""Check the head of a stored sketch, before memory is taken for its cells.

A checksum tells damage, not intent: whoever writes a file can compute one. So every setting has its exact type, every
total its range, and the sizes a limit.

The tolerances. A sum of n terms of one sign has a relative error below n 2^-53, in any order of addition. Two sums that
should agree are at most twice as far apart: `slack` allows 2^-51 n, four times the error of one. To that it adds 1e-9
for the few roundings of each term, or 1e-6 where a device computes terms in float32, or the edges of a grid are rounded
to float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import CLASS_CELLS, EVENT_CELLS
from calibrant.errors import InputError
from calibrant.inputs.memory import max_memory
from calibrant.inputs.notions import NOTIONS, PER_CLASS
from calibrant.inputs.predictions import Layout, Notion
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_ROWS, MOST_WEIGHT
from calibrant.sketch.content import VERSIONS, Foreign
from calibrant.sketch.sums import SQUARED, SketchConfig, Totals
from calibrant.table import grid as grids

EXACT: Final = 1e-9
SINGLE: Final = 1e-6

_ALLOWED: Final[dict[Layout, tuple[Notion, ...]]] = {
    "binary": ("positive", "top-label"),
    "multiclass": ("positive", "top-label", "classwise"),
    "multilabel": ("multilabel",),
}

#: The largest Brier score of a row: sums of probabilities may differ from 1 by half a per cent, for half types more.
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


def slack(n: Any, rounding: float = EXACT) -> Any:
    """Return how far apart, relative to them, two sums over n rows may be by rounding."""
    return rounding + n * 2.0**-51


def check_version(version: Any, argument: str, known: tuple[int, ...] = VERSIONS) -> None:
    """Reject another version than the known ones."""
    if type(version) is not int or version not in known:
        remedy, expected = "read it with the calibrant that wrote it, or a newer one", " or ".join(map(str, known))
        got = f"version {version!r:.40}"
        raise InputError(argument, f"a sketch of version {expected}", got, remedy)


def checked_head(stored: Any, argument: str) -> Head:
    """Return the head, with every type, size and total checked.

    Raises
    ------
    InputError
        For another version or edges, and for a sketch that takes too much memory.
    Foreign
        For what no sketch holds.
    """
    if not isinstance(stored, dict):
        raise Foreign("a head that is not an object")
    check_version(_entry(stored, "calibrant.sketch"), argument)
    if stored["calibrant.sketch"] != VERSIONS["clusters" in stored]:
        raise Foreign("clusters that do not go with the version")
    make = _make(stored, argument)
    groups, totals = _list(stored, "groups", str), _list(stored, "totals", dict)
    kinds, rows = _list(stored, "kinds", bool), _list(stored, "rows", list)
    n_parts = len(totals)
    if not len(rows) == len(kinds) == n_parts == (0 if make.layout is None else 1 + len(groups)):
        msg = f"{n_parts:,} parts with {len(groups):,} groups"
        raise Foreign(msg)
    if len(set(groups)) < len(groups) or (groups and not n_parts):
        raise Foreign("groups that are not distinct")
    if _entry(stored, "weighted") is not any(kinds):
        raise Foreign("weights that do not go with the parts")
    if any(len(curves) != make.n_curves for curves in rows):
        msg = f"rows of another number of curves than {make.n_curves:,}"
        raise Foreign(msg)
    _check_size(make, kinds, argument, clusters="clusters" in stored)
    if not all(type(number) is int and 0 <= number <= MOST_ROWS for curves in rows for number in curves):
        raise Foreign("numbers of rows that are not integers of 63 bits")
    head = Head(
        make=make,
        groups=groups,
        totals=[_totals(part, make, weighted=kind) for part, kind in zip(totals, kinds, strict=True)],
        rows=np.array(rows, np.int64).reshape(n_parts, make.n_curves if n_parts else 0),
        kinds=kinds,
        clusters=_clusters(stored, make, n_parts),
    )
    for number, curves in zip((part.n for part in head.totals), rows, strict=True):
        most_rows, all_rows = max(curves), sum(curves)
        if not (most_rows <= number <= all_rows if make.layout == "multilabel" else most_rows == min(curves) == number):
            msg = f"n = {number:,} and curves of {most_rows:,} rows"
            raise Foreign(msg)
    return head


def _entry(stored: dict[str, Any], name: str) -> Any:
    if name not in stored:
        msg = f"no {name!r}"
        raise Foreign(msg)
    return stored[name]


def _list(stored: dict[str, Any], name: str, kind: type) -> list[Any]:
    entries = _entry(stored, name)
    if type(entries) is not list or not all(type(entry) is kind for entry in entries):
        msg = f"{name!r} that is not a list of {kind.__name__}"
        raise Foreign(msg)
    return entries


# ---------------------------------------------------------------- settings


def _make(stored: dict[str, Any], argument: str) -> SketchConfig:
    """Return the settings."""
    grid, edges = _entry(stored, "grid"), _entry(stored, "edges")
    if type(grid) is not str or grids.GRIDS.get(grid) != edges:
        got = f"edges of checksum {str(edges)[:12]!r} for {str(grid)[:12]!r}"
        raise InputError(argument, "the edge table of a grid", got, "use the calibrant that wrote it")
    notion, layout, classwise = (_entry(stored, name) for name in ("notion", "layout", "classwise"))
    names, n_classes = _entry(stored, "class_names"), _entry(stored, "n_classes")
    if type(classwise) is not bool or not all(x is None or type(x) is str for x in (notion, layout)):
        raise Foreign("settings of other types")
    if names is not None:
        names = tuple(_list(stored, "class_names", str))
    if layout is None:
        if n_classes is not None or notion not in (None, *NOTIONS):
            raise Foreign("settings that contradict each other")
        return SketchConfig(notion=notion, classwise=classwise, class_names=names, grid=grid)  # type: ignore[arg-type]
    if notion not in _ALLOWED.get(layout, ()):
        msg = f"the notion {str(notion)[:20]!r} of predictions that are {str(layout)[:20]!r}"
        raise Foreign(msg)
    if not (n_classes is None if layout == "binary" else type(n_classes) is int and 2 <= n_classes <= MOST_ROWS):
        msg = f"{str(n_classes)[:20]} classes"
        raise Foreign(msg)
    if layout == "multiclass" and notion == "positive" and n_classes != 2:
        raise Foreign("one event of several classes")
    if names is not None and not len(names) == len(set(names)) == (n_classes or 2):
        raise Foreign("other names of classes than there are classes")
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
        remedy = "if you trust it, set the environment variable CALIBRANT_MAX_MEMORY to more"
        raise InputError(argument, expected, f"one of {size / 1e6:,.0f} MB", remedy)


def _clusters(stored: dict[str, Any], make: SketchConfig, n_parts: int) -> list[list[dict[str, Any]]] | None:
    """Return the settings of the sums over buckets."""
    if "clusters" not in stored:
        return None
    parts = _list(stored, "clusters", list)
    if make.notion in PER_CLASS or not n_parts or len(parts) != n_parts:
        raise Foreign("clusters of other parts")
    for curves in parts:
        if len(curves) != make.n_curves or not all(type(settings) is dict for settings in curves):
            raise Foreign("clusters of other curves")
        for curve, settings in enumerate(curves):
            grid = _entry(settings, "grid")
            if not all(type(_entry(settings, name)) is str for name in ("hash", "kind")):
                raise Foreign("labels of clusters of another kind")
            if type(_entry(settings, "pooled")) is not bool or _entry(settings, "scored") is not (curve == 0):
                raise Foreign("buckets of another kind")
            if type(grid) is not list or not all(type(number) is int and abs(number) < 2**31 for number in grid):
                raise Foreign("coarse cells of another kind")
    if len({settings["kind"] for curves in parts for settings in curves}) > 1:
        raise Foreign("labels of clusters of several kinds")
    return parts


# ---------------------------------------------------------------- totals


def _totals(stored: dict[str, Any], make: SketchConfig, *, weighted: bool) -> Totals:
    """Return the totals of a part, which some rows must have."""
    kinds = {entry.name: entry.type for entry in fields(Totals)}
    if not set(kinds) - _LATE <= stored.keys() <= set(kinds):
        raise Foreign("other totals")
    n, whole = stored["n"], stored["whole"]
    if type(n) is not int or type(whole) is not bool or not 0 < n <= MOST_ROWS:
        msg = f"n = {str(n)[:20]}"
        raise Foreign(msg)
    numbers = {}
    rounded = stored.get("rounded", 0)
    if type(rounded) is not int or not 0 <= rounded <= MOST_ROWS:
        msg = f"rounded = {str(rounded)[:20]}"
        raise Foreign(msg)
    for name in stored.keys() - {"n", "whole", "rounded"}:
        if type(stored[name]) not in (int, float) or not abs(stored[name]) < 1e300:
            msg = f"{name} = {str(stored[name])[:20]}"
            raise Foreign(msg)
        numbers[name] = float(stored[name])
    totals = Totals.of_stored({"n": n, "whole": whole, "rounded": rounded, **numbers})
    reason = next(_faults(totals, make, weighted=weighted), None)
    if reason is not None:
        raise Foreign(reason)
    return totals


def _faults(part: Totals, make: SketchConfig, *, weighted: bool) -> Iterator[str]:
    """Yield what cannot be true of the totals of any rows."""
    w, w2, w4, n, entries = part.weight, part.square_weight, part.quartic_weight, float(part.n), part.entries
    exact = 1 + slack(n)
    if not (w > 0 and w2 > 0 and entries > 0):
        yield "rows without weight"
        return
    if not weighted and not (part.whole and all(_near(x, n, slack(n)) for x in (w, w2, w4 or n))):
        yield f"weights of {w:g} for {part.n:,} rows without weights"
    for mean in (w / n, w2 / w):  # both are means of the weights
        if not mean * exact >= LEAST_WEIGHT or not mean <= MOST_WEIGHT * exact:
            yield f"weights of {mean:g} on average"
            return
    if not (w / n * w <= w2 * exact and w2 / w <= w * exact):
        yield f"squared weights of {w2:g} for weights of {w:g}"
    if w4 and not (w4 > 0 and w2 / n * w2 <= w4 * exact and w4 / w2 <= w2 * exact):
        yield f"weights to the power of 4 of {w4:g}"
    if part.whole and not (w.is_integer() and n <= w * exact and w <= w2 * exact):
        yield f"whole weights of {w!r}"
    layout = make.layout or "binary"
    width = make.n_classes or 1 if layout == "multilabel" else 1
    if not w <= entries * exact or not entries <= width * w * exact:
        yield f"{entries:g} judged entries for a weight of {w:g}"
    yield from _score_faults("", part, entries, _MOST_BRIER[layout], slack(n * width, SINGLE))
    yield from _score_faults("squared_", part, width * w2, _MOST_BRIER[layout], slack(n * width, SINGLE))


def _near(a: float, b: float, relative: float) -> bool:
    return math.isclose(a, b, rel_tol=relative)


def _score_faults(prefix: str, part: Totals, entries: float, most: float, rounding: float) -> Iterator[str]:
    """Yield what cannot be true of the sums of scores with a weight of ``entries`` in all."""
    means = {name: getattr(part, prefix + name) / entries for name in SQUARED}
    infinite = 0.0 if prefix else part.infinite / entries
    if not (0 <= means["correct"] <= 1 + rounding and 0 <= infinite <= 1 + rounding):
        yield f"{prefix}correct of {means['correct']:g} or infinite losses of {infinite:g} of the weight"
    brier, brier_square, nll, nll_square = (means[name] for name in ("brier", "brier_square", "nll", "nll_square"))
    # A row's Brier score may be below 0 by rounding, and so may its loss.
    if not (-SINGLE <= brier <= most * (1 + rounding) and 0 <= brier_square <= most * max(brier, 0.0) + 4 * rounding):
        yield f"a mean {prefix}brier of {brier:g}, of squares {brier_square:g}"
    if not (brier * brier <= brier_square * (1 + rounding) + rounding):  # Cauchy-Schwarz
        yield f"a mean {prefix}brier of {brier:g}, of squares {brier_square:g}"
    finite = max(1 - infinite, 0.0) + rounding
    if not (nll >= -SINGLE and nll_square >= 0 and nll * nll <= finite * nll_square * (1 + rounding) + rounding):
        yield f"a mean {prefix}nll of {nll:g}, of squares {nll_square:g}"
