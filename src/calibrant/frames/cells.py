"""The sums that an engine returns, a few numbers for each occupied cell, and the sketches that they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, MissingDependencyError
from calibrant.faults import Fault
from calibrant.frames import cell_keys, rows
from calibrant.frames.columns import Columns, Wanted
from calibrant.inputs import Layout
from calibrant.notions import PER_CLASS
from calibrant.sketch.sums import Curves, SketchConfig, SketchSums, Totals

#: Rows of a frame in memory that are looked at together, so that what is worked out on the way stays small.
BLOCK: Final = 2**18

#: Rows of sums that are fetched at most.
MOST: Final = 4_000_000

#: Queries of single classes that are put to a lazy engine as one.
_TOGETHER: Final = 50

_SCORES: Final = ("brier", "brier_square", "likelihood", "likelihood_square")

Sums = dict[str, NDArray[Any]]


def parts(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> Iterator[nw.LazyFrame[Any]]:
    """Yield a lazy frame whole, and a frame in memory in blocks of rows."""
    if isinstance(frame, nw.LazyFrame):
        yield frame
    else:
        for start in range(0, max(len(frame), 1), BLOCK):
            yield frame[start : start + BLOCK].lazy()


def fetch(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Have the engine work a frame out.

    Raises
    ------
    MissingDependencyError
        For an engine that hands its rows over through PyArrow, without it.
    """
    try:
        return frame.collect()
    except Exception as error:
        # DuckDB before 2.0 raises an error of its own, with the name of this one in its text.
        lacks = isinstance(error, ImportError) or "ModuleNotFoundError" in str(error)
        if not lacks or "pyarrow" not in str(error).lower():
            raise
        raise MissingDependencyError("pyarrow", "to fetch the cells of this engine", "report") from error


def queries(frame: nw.LazyFrame[Any], columns: Columns, wanted: Wanted, *, lazy: bool) -> Iterator[nw.LazyFrame[Any]]:
    """Yield what is to be fetched: for each group, curve and key a row of sums."""
    judge = rows.judge_classes if columns.classes else rows.judge_event
    judged = judge(rows.read(frame, columns), columns, wanted)
    events = _summed(judged, columns, wanted, scored=True)
    if not (wanted.classwise or wanted.notion in PER_CLASS):
        yield events
        return
    tables = [events.with_columns(curve=nw.lit("event"))]
    if lazy and not (frame.implementation.is_duckdb() or frame.implementation.is_polars()):
        # Elsewhere each table of a union costs a plan, or a stage, of its own: stack the classes.
        tables.append(_summed(rows.judge_every_class(frame, columns), columns, wanted, scored=False))
    else:
        for k in range(columns.n_classes):
            one = _summed(rows.judge_class(frame, columns, k), columns, wanted, scored=False)
            tables.append(one.with_columns(curve=nw.lit(f"p{k}")))
    names = sorted(tables[0].collect_schema())
    lacking = [nw.lit(0.0).alias(name) for name in names if name not in tables[1].collect_schema()]
    tables[1:] = [table.with_columns(*lacking) for table in tables[1:]]
    together = _TOGETHER if lazy else 1
    for first in range(0, len(tables), together):
        yield nw.concat([table.select(names) for table in tables[first : first + together]])


def _summed(frame: nw.LazyFrame[Any], columns: Columns, wanted: Wanted, *, scored: bool) -> nw.LazyFrame[Any]:
    """Group rows of an event by their key and their group, and add up their scores, weights and losses.

    ``scored`` says that they have been checked, and have the scores of whole predictions.
    """
    good, fault = nw.lit(True), nw.lit(cell_keys.WRONG)
    names, chains = {"score": nw.col("p"), "square": nw.col("p") * nw.col("p")}, []
    if scored:
        good = nw.col("good")
        if columns.weight is not None:
            idle = nw.col("known") & (nw.col("w") == 0.0)
            fault = nw.when(idle).then(cell_keys.WEIGHTLESS).otherwise(fault)
        for name in ("brier", "likelihood"):
            names |= {name: nw.col(name), f"{name}_square": nw.col(name) * nw.col(name)}
        if columns.classes or wanted.notion != "positive":
            names["infinite"] = nw.col("infinite")
        if columns.classes and wanted.notion == "positive":
            names["right"] = nw.col("right")
        chains.append(rows.losses())
    if columns.weight is not None:
        w = nw.col("w")
        names = {name: value * w for name, value in names.items()}
        names |= {"weight": w, "square_weight": w * w}
        if not columns.whole:
            # Above 2^53 every float64 is whole; wrong weights must not stop an engine that floors to integers.
            chains.append([{"small": nw.when((w > 0.0) & (w < 2.0**53)).then(w).otherwise(0.0)}])
            names["broken"] = (nw.col("small") != nw.col("small").floor()).cast(nw.Float64)
    chain, key = cell_keys.key(wanted.grid, single=columns.single, good=good, fault=fault)
    frame = rows.with_steps(frame, chain, *chains)
    kept = [name for name in ("group", "curve") if name in frame.collect_schema()]
    frame = frame.select(*kept, key=key, **names)
    return frame.group_by(*kept, "key").agg(nw.len().alias("n"), *[nw.col(name).sum() for name in names])


# ---------------------------------------------------------------- what has come back


def gather(
    frame: nw.DataFrame[Any] | nw.LazyFrame[Any], columns: Columns, wanted: Wanted, refuse: Callable[[], InputError]
) -> dict[Any, SketchSums]:
    """Return the sums of each group by the value of its column; of a frame without groups those of None.

    ``refuse`` makes the error that is raised where rows are wrong.

    Raises
    ------
    InputError
        For an empty frame, for wrong rows, and for more groups than can be fetched.
    """
    make, found, rows_seen = make_of(columns, wanted), dict[Any, SketchSums](), 0
    for part in parts(frame):
        for query in queries(part, columns, wanted, lazy=isinstance(frame, nw.LazyFrame)):
            table = fetch(query.head(MOST + 1))
            rows_seen += len(table)
            if len(table) > MOST:
                raise _too_many(columns)
            sums = {name: table.get_column(name).to_numpy() for name in table.columns if name != "group"}
            if np.any(sums["key"] == cell_keys.WRONG):
                raise refuse()
            for group, where in _groups(table, sums["key"] != cell_keys.WEIGHTLESS):
                if group not in found:
                    found[group] = SketchSums(Totals(), Curves.empty(make.n_curves, make.grid))
                _add(found[group], make, {name: values[where] for name, values in sums.items()}, columns)
    if not rows_seen:
        raise InputError("frame", "one row or more", "none", "check where the rows were lost")
    return found


def make_of(columns: Columns, wanted: Wanted) -> SketchConfig:
    """Return what a sketch of these columns can hold."""
    layout: Layout = "multiclass" if columns.classes else "binary"
    n_classes = columns.n_classes if columns.classes else None
    return SketchConfig(wanted.notion, wanted.classwise, columns.names, wanted.grid, layout, n_classes)


def _too_many(columns: Columns) -> InputError:
    if columns.group is not None:
        remedy = "group by a column with fewer values"
        return InputError("by", f"groups of at most {MOST:,} cells", f"more in {columns.group!r}", remedy)
    expected, got = "scores that are not all next to edges", f"more than {MOST:,} that are"
    remedy = "round them to float32 in the frame first"
    return InputError(columns.score_argument, expected, got, remedy, fault=Fault.TOO_FINE)


def _groups(table: nw.DataFrame[Any], counted: NDArray[np.bool_]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
    """Yield the value of each group and the places of its rows of sums."""
    places_counted = np.flatnonzero(counted)
    if not len(places_counted):
        return
    if "group" not in table.columns:
        yield None, places_counted
        return
    column = table.get_column("group")
    # As NumPy's own, numbers of single precision are written with their own digits.
    values = list(column.to_numpy()) if column.dtype == nw.Float32 else column.to_list()
    if len(set(values)) < column.n_unique():  # as a list, some libraries cut times to microseconds
        remedy = "round them, or cast them to text, in the frame"
        raise InputError("by", "times in microseconds", "finer ones", remedy, fault=Fault.TOO_FINE)
    codes: dict[Any, int] = {}
    of_row = np.array([codes.setdefault(values[i], len(codes)) for i in places_counted], dtype=np.intp)
    order = np.argsort(of_row, kind="stable")
    cuts = np.cumsum(np.bincount(of_row, minlength=len(codes)))[:-1]
    yield from zip(codes, np.split(places_counted[order], cuts), strict=True)


def _add(part: SketchSums, make: SketchConfig, sums: Sums, columns: Columns) -> None:
    """Add rows of sums to those of a group."""
    totals, curves = part
    outcomes, upper, cells = cell_keys.cells_of(sums["key"], make.grid, single=columns.single)
    n, of_event = sums["n"].astype(np.int64), np.ones(len(cells), np.bool_)
    curve = np.zeros(len(cells), np.int64)
    if "curve" in sums:
        labels = sums["curve"].astype(str)
        of_event = labels == "event"
        first = make.n_curves - columns.n_classes
        curve[~of_event] = first + np.char.lstrip(labels[~of_event], "p").astype(np.int64)
    weight = n if columns.weight is None else sums["weight"]
    held = ~of_event if make.notion in PER_CLASS else np.ones(len(cells), np.bool_)
    _add_cells(curves, curve, cells, outcomes, {**sums, "n": n, "weight": weight}, held)
    own = {name: values[of_event] for name, values in {**sums, "n": n, "weight": weight}.items()}
    if not len(own["n"]):
        return
    said = cell_keys.Cells(outcomes[of_event], upper[of_event], cells[of_event])
    right, infinite = _right(own, said, make, columns), _infinite(own, said, curves.counts.shape[1] - 1)
    mass, squares = float(own["weight"].sum()), float(own.get("square_weight", own["n"]).sum())
    brier, brier_square, nll, nll_square = (float(own[name].sum()) for name in _SCORES)
    n_rows, whole = int(own["n"].sum()), "broken" not in own or not own["broken"].any()
    totals.add(Totals(n_rows, mass, squares, whole, mass, right, brier, brier_square, -nll, nll_square, infinite))


def _add_cells(
    curves: Curves,
    curve: NDArray[np.int64],
    cells: NDArray[np.int64],
    outcomes: NDArray[np.int64],
    sums: Sums,
    held: NDArray[np.bool_],
) -> None:
    k, cell, y = curve[held], cells[held], outcomes[held]
    if "square_weight" in sums and curves.squares is None:
        curves.counts, curves.squares = curves.counts.astype(np.float64), np.zeros(curves.counts.shape)
    np.add.at(curves.counts, (k, cell, y), sums["weight"][held])
    np.add.at(curves.sums, (k, cell, y), sums["score"][held])
    np.add.at(curves.sums[:, :, 2], (k, cell), sums["square"][held])
    if curves.squares is not None:
        np.add.at(curves.squares, (k, cell, y), sums["square_weight"][held])
    np.add.at(curves.rows, k, sums["n"][held])


def _right(sums: Sums, said: cell_keys.Cells, make: SketchConfig, columns: Columns) -> float:
    """Return the weight of the right predictions."""
    if "right" in sums:
        return float(sums["right"].sum())
    if columns.classes or make.notion == "top-label":  # the judged event itself
        return float(sums["weight"][said.outcomes == 1].sum())
    return float(sums["weight"][said.outcomes == said.upper].sum())


def _infinite(sums: Sums, said: cell_keys.Cells, last: int) -> float:
    """Return the weight of the predictions that were sure of what did not happen."""
    if "infinite" in sums:
        return float(sums["infinite"].sum())
    never, always = said.cells == 0, said.cells == last
    return float(sums["weight"][(never & (said.outcomes == 1)) | (always & (said.outcomes == 0))].sum())
