"""The sums that an engine returns for each occupied cell, and the sketches that they add up to.

The cell of a score is found by arithmetic that every engine has: engines share no way to search edges, and no arcsine.
So each row gets a *key*, and `cells_of` turns it into a cell. With m the distance to the nearer end of [0, 1], the
number of edges between that end and the score is

    floor(2K / pi * asin(sqrt m)) + floor(M m),

where the first term counts the edges sin(pi j / 2K)^2 and the second the edges i / M (see `table.grid`). The
arcsine is a polynomial with a relative error below 9e-12, so the two arguments are off by less than 8e-8
(`tests/frames/test_frames.py` measures it). If neither argument is within `NEAR` of an integer, the formula finds the
right cell, however an engine rounds the last bit. Otherwise (one score in a million) the key is the score itself, and
`cells_of` compares it with the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, MissingDependencyError
from calibrant.errors.faults import Fault
from calibrant.frames import rows
from calibrant.frames.columns import Columns, Frame, LazyFrame
from calibrant.inputs.notions import PER_CLASS
from calibrant.sketch.totals import Curves, SketchConfig, SketchSums, Totals
from calibrant.table import grid as grids
from calibrant.table.cluster_sums import CoarseCells

#: Rows of a frame in memory that are read together, so that intermediate columns stay small.
BLOCK: Final = 2**18

#: The largest number of rows of sums that are fetched.
MOST: Final = 4_000_000

#: Queries of single classes that a lazy engine gets as one.
_TOGETHER: Final = 50

Sums = dict[str, NDArray[Any]]


#: An argument this near to an integer is undecided.
NEAR: Final = 2.0**-22

#: The keys of invalid rows, and of rows with weight 0. Keys of undecided scores are between -1 and 1.
WRONG, WEIGHTLESS = -3.0, -2.0

#: Added to the keys of decided scores: Arrow hashes all small float64 integers to one place when it groups.
DECIDED: Final = 2.0**40

#: K and M of each grid.
_FAMILIES: Final = {"standard": (4096, 300), "fine": (16384, 3600)}
_DEGREE: Final = 11


class FrameCells(NamedTuple):
    """The outcome of each key, whether its score is 0.5 or more, and its cell."""

    outcomes: NDArray[np.int64]
    upper: NDArray[np.bool_]
    cells: NDArray[np.int64]


@cache
def arcsine() -> tuple[float, ...]:
    """Return the coefficients of asin(sqrt m) / sqrt m as a polynomial in m for 0 <= m <= 1/2, the constant first."""

    def ratio(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.arcsin(np.sqrt(m)) / np.sqrt(m))

    chebyshev = np.polynomial.Chebyshev.interpolate(ratio, _DEGREE, domain=[0, 0.5])
    powers = chebyshev.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1])
    return tuple(float(c) for c in powers.coef)


def key_of(
    kind: grids.Grid | CoarseCells, *, single: bool, good: nw.Expr, fault: nw.Expr, outcomes: bool = True
) -> tuple[rows.Steps, nw.Expr]:
    """Return the steps that compute the columns of a row's key, and the key.

    The key is for ``p``, a score in [0, 1], and ``y``, an outcome 0 or 1, both Float64; ``single`` means that the
    scores are float32, ``kind`` which cells they fall into. Without ``outcomes`` the key is that of the outcome 0. Rows
    that are not ``good`` must have the score 0.5; they get the key ``fault``.

    A choice between two values is a sum of products with 0 and 1: exact, and faster in a column engine than a choice
    for each row.
    """
    p, upper, far, inside = (nw.col(name) for name in ("p", "upper", "far", "inside"))
    y = nw.col("y") if outcomes else nw.lit(0.0)
    first, second, low, high = (nw.col(name) for name in ("first", "second", "low", "high"))
    half = (p >= 0.5).cast(nw.Float64)
    steps: rows.Steps = [{"upper": half, "far": (half - p).abs()}]  # far is p or 1 - p, the smaller: both are exact
    within = (far > 0.0).cast(nw.Float64)
    if single:
        below = (p * (1 - 2.0**-24)).cast(nw.Float32).cast(nw.Float64)  # the next smaller float32
        depth = upper * (far + within * 2.0**-25) + (1.0 - upper) * (p + below) * 0.5  # for p minus half a step
        steps.append({"depth": depth})
    depth = nw.col("depth") if single else far
    k, m = _FAMILIES[kind] if isinstance(kind, str) else (kind.n_arcs, kind.n_parts)
    coefficients = arcsine()
    series = depth * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        series = series * depth + coefficient
    steps.append({"inside": within, "first": depth.sqrt() * (2 * k / np.pi) * series, "second": depth * float(m)})
    steps.append(
        {
            "high": (first + NEAR).floor() + (second + NEAR).floor(),
            "low": (first - NEAR).abs().floor() + (second - NEAR).abs().floor(),  # below NEAR no edge has been passed
        }
    )
    # In float64 the score 0.5 is undecided, so decided rows need no check of `good`.
    decided = good & (high == low) if single else high == low
    cell_key = ((low + inside) * 2.0 + upper) * 2.0 + y + DECIDED
    score_key = nw.when(good).then((1.0 - y * 2.0) * p).otherwise(fault)
    return steps, nw.when(decided).then(cell_key).otherwise(score_key)


def cells_of(keys: NDArray[np.float64], kind: grids.Grid | CoarseCells, *, single: bool) -> FrameCells:
    """Return outcomes and cells of keys."""
    edges = grids.edges(kind) if isinstance(kind, str) else kind.edges
    last = len(edges)
    is_score = keys < DECIDED
    parts = np.where(is_score, 0, keys - DECIDED).astype(np.int64)
    outcomes, upper, passed = parts & 1, (parts & 2).astype(bool), parts >> 2
    # Both families have an edge at 0.5: a score of 0.5 has passed it from above.
    cells = np.where(upper, np.maximum(last - passed, last // 2), passed)
    if is_score.any():
        scores = np.abs(keys[is_score])
        outcomes[is_score], upper[is_score] = keys[is_score] < 0, scores >= 0.5
        scores = scores.astype(np.float32 if single else np.float64)
        cells[is_score] = grids.cell_of(scores, kind) if isinstance(kind, str) else kind.of_scores(scores)
    if isinstance(kind, CoarseCells):
        cells = np.minimum(cells, kind.n_cells - 1)  # p = 1 may share the last cell
    return FrameCells(outcomes, upper, cells)


# ---------------------------------------------------------------- queries


def parts(frame: Frame) -> Iterator[LazyFrame]:
    """Yield a lazy frame itself, or a frame in memory in blocks of rows."""
    if isinstance(frame, nw.LazyFrame):
        yield frame
    else:
        for start in range(0, max(len(frame), 1), BLOCK):
            yield frame[start : start + BLOCK].lazy()


def fetch(frame: LazyFrame) -> nw.DataFrame[Any]:
    """Return the rows of a frame, computed by its engine."""
    try:
        return frame.collect()
    except Exception as error:
        # DuckDB before 2.0 raises its own error, whose text names ModuleNotFoundError.
        lacks = isinstance(error, ImportError) or "ModuleNotFoundError" in str(error)
        if not lacks or "pyarrow" not in str(error).lower():
            raise
        raise MissingDependencyError("pyarrow", "to fetch the results of this engine", "report") from error


def queries(frame: LazyFrame, columns: Columns, config: SketchConfig, *, lazy: bool) -> Iterator[LazyFrame]:
    """Yield the queries to fetch: a row of sums for each group, curve and key."""
    events = _summed(rows.evaluate(frame, columns, config), columns, config, scored=True)
    if not config.has_classes:
        yield events
        return
    tables = [events.with_columns(curve=nw.lit("event"))]
    tables += class_tables(frame, columns, partial(_summed, columns=columns, config=config, scored=False), lazy=lazy)
    names = sorted(tables[0].collect_schema())
    lacking = [nw.lit(0.0).alias(name) for name in names if name not in tables[1].collect_schema()]
    tables[1:] = [table.with_columns(*lacking) for table in tables[1:]]
    yield from together([table.select(names) for table in tables], lazy=lazy)


def class_tables(
    frame: LazyFrame, columns: Columns, summed: Callable[[LazyFrame], LazyFrame], *, lazy: bool = True
) -> list[LazyFrame]:
    """Return the sums of the rows of each class, with the column ``curve``: a table for each, or one for all."""
    if lazy and not (frame.implementation.is_duckdb() or frame.implementation.is_polars()):
        # In other engines each table of a union costs a plan or a stage: stack the classes.
        return [summed(rows.evaluate_every_class(frame, columns))]
    return [
        summed(rows.evaluate_class(frame, columns, k)).with_columns(curve=nw.lit(f"p{k}"))
        for k in range(columns.n_classes)
    ]


def together(tables: Sequence[LazyFrame], *, lazy: bool = True) -> Iterator[LazyFrame]:
    """Yield the tables in unions as large as a lazy engine can plan."""
    n_together = _TOGETHER if lazy else 1
    for first in range(0, len(tables), n_together):
        yield nw.concat(list(tables[first : first + n_together]))


#: The sums that are kept with squared weights too.
_SQUARED: Final = ("brier", "brier_square", "likelihood", "likelihood_square", "right")


def _summed(frame: LazyFrame, columns: Columns, config: SketchConfig, *, scored: bool) -> LazyFrame:
    """Group the rows of an event by key and group, and add up their scores, weights and losses.

    If ``scored``, the rows have been checked, and have the scores of whole predictions.
    """
    good, fault = nw.lit(True), nw.lit(WRONG)
    names, chains = {"score": nw.col("p"), "square": nw.col("p") * nw.col("p")}, []
    if scored:
        good = nw.col("good")
        if columns.weight is not None:
            idle = nw.col("complete") & (nw.col("w") == 0.0)
            fault = nw.when(idle).then(WEIGHTLESS).otherwise(fault)
        for name in ("brier", "likelihood"):
            names |= {name: nw.col(name), f"{name}_square": nw.col(name) * nw.col(name)}
        if columns.classes or config.notion != "positive":
            names["infinite"] = nw.col("infinite")
        if columns.classes and config.notion == "positive":
            names["right"] = nw.col("right")
        chains.append(rows.losses())
    if columns.weight is not None:
        w = nw.col("w")
        squared = {f"squared_{name}": value * w * w for name, value in names.items() if name in _SQUARED}
        names = {name: value * w for name, value in names.items()} | squared
        names |= {"weight": w, "square_weight": w * w, "quartic_weight": w * w * w * w}
        if not columns.integer_weights:
            # Above 2^53 every float64 is an integer. Invalid weights must not stop an engine that floors to integers.
            chains.append([{"small": nw.when((w > 0.0) & (w < 2.0**53)).then(w).otherwise(0.0)}])
            names["broken"] = (nw.col("small") != nw.col("small").floor()).cast(nw.Float64)
    chain, key = key_of(config.grid, single=columns.single, good=good, fault=fault)
    return added_by((), rows.with_steps(frame, chain, *chains), key, names)


def added_by(places: Sequence[str], frame: LazyFrame, key: nw.Expr, sums: Mapping[str, nw.Expr]) -> LazyFrame:
    """Group rows by group, curve, places and key, and add up ``sums``; ``n`` is the number of rows."""
    names = [*(name for name in ("group", "curve") if name in frame.collect_schema()), *places]
    frame = frame.select(*names, key=key, **sums)
    return frame.group_by(*names, "key").agg(nw.len().alias("n"), *[nw.col(name).sum() for name in sums])


# ---------------------------------------------------------------- from sums to sketches


def gather(
    frame: Frame, columns: Columns, config: SketchConfig, explain: Callable[[], InputError]
) -> dict[Any, SketchSums]:
    """Return the sums of each group, by its value; a frame without groups has the one group None.

    ``explain`` builds the error for invalid rows.
    """
    sums_by_group, rows_seen = dict[Any, SketchSums](), 0
    for part in parts(frame):
        for query in queries(part, columns, config, lazy=isinstance(frame, nw.LazyFrame)):
            table, sums = fetch_sums(query, columns)
            rows_seen += len(table)
            if np.any(sums["key"] == WRONG):
                raise explain()
            for group, where in groups_of(table, sums["key"] != WEIGHTLESS):
                if group not in sums_by_group:
                    sums_by_group[group] = SketchSums(Totals(), Curves.empty(config.n_curves, config.grid))
                _add(sums_by_group[group], config, {name: values[where] for name, values in sums.items()}, columns)
    if not rows_seen:
        raise InputError("frame", "at least one row", "no rows", "check the frame, or the filter before it")
    return sums_by_group


def fetch_sums(query: LazyFrame, columns: Columns) -> tuple[nw.DataFrame[Any], Sums]:
    """Return the rows of sums of a query, and their columns as arrays, without the groups."""
    table = fetch(query.head(MOST + 1))
    if len(table) > MOST:
        raise _too_many(columns)
    return table, {name: table.get_column(name).to_numpy() for name in table.columns if name != "group"}


def _too_many(columns: Columns) -> InputError:
    if columns.group is not None:
        remedy = "group by a column with fewer values"
        expected = f"at most {MOST:,} combinations of a group and a grid cell (interval of scores)"
        return InputError("by", expected, f"more, because of the groups in {columns.group!r}", remedy)
    expected, got = f"at most {MOST:,} distinct scores very close to edges of grid cells", "more"
    remedy = "round the scores to float32 in the frame first"
    return InputError(columns.score_argument, expected, got, remedy, fault=Fault.TOO_FINE)


def groups_of(
    table: nw.DataFrame[Any], counted: NDArray[np.bool_] | None = None
) -> Iterator[tuple[Any, NDArray[np.intp]]]:
    """Yield the value of each group, and the indices of its rows of sums: of all, or of those that count."""
    places_counted = np.arange(len(table)) if counted is None else np.flatnonzero(counted)
    if not len(places_counted):
        return
    if "group" not in table.columns:
        yield None, places_counted
        return
    column = table.get_column("group")
    # NumPy's float32 numbers print their own digits, Python floats would print more.
    values = list(column.to_numpy()) if column.dtype == nw.Float32 else column.to_list()
    if len(set(values)) < column.n_unique():  # some libraries cut times to microseconds in lists
        remedy = "in the frame, round the times or cast them to text"
        raise InputError("by", "times in microseconds", "finer times", remedy, fault=Fault.TOO_FINE)
    codes: dict[Any, int] = {}
    of_row = np.array([codes.setdefault(values[i], len(codes)) for i in places_counted], dtype=np.intp)
    order = np.argsort(of_row, kind="stable")
    cuts = np.cumsum(np.bincount(of_row, minlength=len(codes)))[:-1]
    yield from zip(codes, np.split(places_counted[order], cuts), strict=True)


def _add(part: SketchSums, config: SketchConfig, sums: Sums, columns: Columns) -> None:
    """Add rows of sums to those of a group."""
    totals, curves = part.totals, part.curves
    outcomes, upper, cells = cells_of(sums["key"], config.grid, single=columns.single)
    n, of_event = sums["n"].astype(np.int64), np.ones(len(cells), np.bool_)
    curve = np.zeros(len(cells), np.int64)
    if "curve" in sums:
        labels = sums["curve"].astype(str)
        of_event = labels == "event"
        first = config.n_curves - columns.n_classes
        curve[~of_event] = first + np.char.lstrip(labels[~of_event], "p").astype(np.int64)
    weight = n if columns.weight is None else sums["weight"]
    in_curve = ~of_event if config.notion in PER_CLASS else np.ones(len(cells), np.bool_)
    all_sums = {**sums, "n": n, "weight": weight}
    _add_cells(curves, curve, cells, outcomes, all_sums, where=in_curve)
    event_sums = {name: values[of_event] for name, values in all_sums.items()}
    if not len(event_sums["n"]):
        return
    event_cells = FrameCells(outcomes[of_event], upper[of_event], cells[of_event])

    def total(name: str) -> float:
        return float(event_sums[name].sum())

    def scores(prefix: str, *, weight: str) -> dict[str, float]:
        return {
            f"{prefix}correct": _right(event_sums, event_cells, config, columns, prefix, weight),
            f"{prefix}brier": total(f"{prefix}brier"),
            f"{prefix}brier_square": total(f"{prefix}brier_square"),
            f"{prefix}nll": -total(f"{prefix}likelihood"),
            f"{prefix}nll_square": total(f"{prefix}likelihood_square"),
        }

    plain = scores("", weight="weight")
    squared = {f"squared_{name}": value for name, value in plain.items()}
    if "square_weight" in event_sums:
        squared = scores("squared_", weight="square_weight")
    totals.add(
        Totals(
            n=int(event_sums["n"].sum()),
            weight=total("weight"),
            square_weight=total("square_weight" if "square_weight" in event_sums else "n"),
            quartic_weight=total("quartic_weight" if "quartic_weight" in event_sums else "n"),
            whole="broken" not in event_sums or not event_sums["broken"].any(),
            entries=total("weight"),
            infinite=_infinite(event_sums, event_cells, curves.counts.shape[1] - 1),
            **plain,
            **squared,
        )
    )


def _add_cells(
    curves: Curves,
    curve: NDArray[np.int64],
    cells: NDArray[np.int64],
    outcomes: NDArray[np.int64],
    sums: Sums,
    *,
    where: NDArray[np.bool_],
) -> None:
    index, cell, y = curve[where], cells[where], outcomes[where]
    if "square_weight" in sums and curves.squares is None:
        curves.counts, curves.squares = curves.counts.astype(np.float64), np.zeros(curves.counts.shape)
    np.add.at(curves.counts, (index, cell, y), sums["weight"][where])
    np.add.at(curves.sums, (index, cell, y), sums["score"][where])
    np.add.at(curves.sums[:, :, 2], (index, cell), sums["square"][where])
    if curves.squares is not None:
        np.add.at(curves.squares, (index, cell, y), sums["square_weight"][where])
    np.add.at(curves.rows, index, sums["n"][where])


def _right(
    sums: Sums, event_cells: FrameCells, config: SketchConfig, columns: Columns, prefix: str, weight: str
) -> float:
    """Return the weight of the right predictions, or with the prefix "squared_" their squared weight."""
    if "right" in sums:
        return float(sums[f"{prefix}right"].sum())
    if columns.classes or config.notion == "top-label":  # the evaluated event itself
        return float(sums[weight][event_cells.outcomes == 1].sum())
    return float(sums[weight][event_cells.outcomes == event_cells.upper].sum())


def _infinite(sums: Sums, event_cells: FrameCells, last: int) -> float:
    """Return the weight of the predictions with probability 0 for the observed outcome."""
    if "infinite" in sums:
        return float(sums["infinite"].sum())
    never, always = event_cells.cells == 0, event_cells.cells == last
    return float(sums["weight"][(never & (event_cells.outcomes == 1)) | (always & (event_cells.outcomes == 0))].sum())
