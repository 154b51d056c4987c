"""`sketch`: the sketch of predictions in a frame, computed by the frame's own engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from calibrant.errors import CalibrantError, InputError, NothingJudgedError
from calibrant.errors.faults import Fault
from calibrant.frames import clusters, grid_sums, rows, wrong_rows
from calibrant.frames.columns import (
    Columns,
    Frame,
    alike_in_engines,
    as_frame,
    resolve_columns,
    resolve_config,
    sampled,
    with_expression,
)
from calibrant.inputs.group_rows import group_name
from calibrant.inputs.predictions import Notion, check_weights_are
from calibrant.inputs.weights import WeightsAre
from calibrant.sketch import CalibrationSketch
from calibrant.sketch.totals import SketchConfig, SketchSums
from calibrant.table import grid as grids

if TYPE_CHECKING:
    import narwhals as nw


@overload
def sketch(
    frame: Any,
    *,
    score: str | nw.Expr | None = ...,
    outcome: str | nw.Expr | None = ...,
    probs: Sequence[str] | None = ...,
    target: str | None = ...,
    weight: str | None = ...,
    weights_are: WeightsAre | None = ...,
    cluster: str | Sequence[str] | None = ...,
    by: None = ...,
    notion: Notion | None = ...,
    classwise: bool = ...,
    class_names: Sequence[str] | None = ...,
    grid: grids.Grid = ...,
) -> CalibrationSketch: ...


@overload
def sketch(
    frame: Any,
    *,
    by: str,
    score: str | nw.Expr | None = ...,
    outcome: str | nw.Expr | None = ...,
    probs: Sequence[str] | None = ...,
    target: str | None = ...,
    weight: str | None = ...,
    weights_are: WeightsAre | None = ...,
    cluster: str | Sequence[str] | None = ...,
    notion: Notion | None = ...,
    classwise: bool = ...,
    class_names: Sequence[str] | None = ...,
    grid: grids.Grid = ...,
) -> dict[str, CalibrationSketch]: ...


def sketch(
    frame: Any,
    *,
    score: str | nw.Expr | None = None,
    outcome: str | nw.Expr | None = None,
    probs: Sequence[str] | None = None,
    target: str | None = None,
    weight: str | None = None,
    weights_are: WeightsAre | None = None,
    cluster: str | Sequence[str] | None = None,
    by: str | None = None,
    notion: Notion | None = None,
    classwise: bool = False,
    class_names: Sequence[str] | None = None,
    grid: grids.Grid = "standard",
) -> CalibrationSketch | dict[str, CalibrationSketch]:
    r"""Return the sketch of the predictions in a DataFrame, a table or a query.

    The engine of the frame does the counting, in one query. It returns one row for each occupied cell, however many
    rows the frame has. The sketch equals that of `CalibrationSketch.update` on the same numbers: the same cells and
    counts, and sums that agree to a relative 1e-12.

    Parameters
    ----------
    frame : DataFrame, table, query
        From pandas, Polars (eager or lazy), PyArrow, DuckDB (a relation), Ibis, Dask or PySpark; it is not changed.
    score, outcome : str or narwhals.Expr
        For one event: the column of its probability, and the column of its outcomes (0 and 1, booleans, or the names
        in `class_names`, the event last). Each may be an expression, such as ``1 - nw.col("p_loss")``, or
        ``nw.col("predicted") == nw.col("label")`` for whether a predicted label is right; or SQL in DuckDB and PySpark:
        ``"predicted = label"``. Where a value is missing, so is the result, and that is an error.
    probs, target : list of str, str
        For classes: the columns of their probabilities, and the column of the true class: an index from 0 in the order
        of ``probs``, or a name in `class_names`.
    weight : str, optional
        The column of the rows' weights: 2 counts a row twice. Rows of weight 0 are left out.
    weights_are : {"frequency", "sampling"}, optional
        What the weights are, as in `calibrant.evaluate`.
    cluster : str or list of str, optional
        The column of the rows' clusters: whole numbers, text, dates or times, as in `CalibrationSketch.update`. Several
        columns name a cluster together: the values' texts, joined. Not with the notion "classwise".
    by : str, optional
        The column of the rows' groups; times with a zone are named in UTC.
    notion : {"positive", "top-label", "classwise"}, optional
        The evaluated event, as in `expected_calibration_error`; by default "positive" for one event and "top-label" for
        classes.
    classwise, class_names, grid
        As in `CalibrationSketch`.

    Returns
    -------
    CalibrationSketch or dict of str to CalibrationSketch
        With ``by``, the sketch of each group by its name; groups of weight 0 are left out.

    Raises
    ------
    calibrant.errors.InputError
        For a missing column or one of the wrong type; and, with the number of rows, for missing values (null or NaN),
        scores outside [0, 1], rows of classes that do not sum to 1, unknown labels, negative weights and clusters that
        are not whole numbers. No row is dropped silently.
    calibrant.errors.MissingDependencyError
        Without PyArrow, for engines that return rows through it (DuckDB, Ibis, PySpark).

    Notes
    -----
    Scores of float32 (and smaller types) are compared with edges rounded to float32, all others as float64. The engine
    finds the cell of a score by arithmetic, which is accurate to about 1e-7 of the width of a cell. Scores closer to an
    edge than that, about one in a million, are returned unchanged, and Python finds their cells.

    Cost: one pass of the engine over the columns; with curves of single classes, N x C rows more. Clusters cost two
    more passes: one counts them, the other returns up to 110,000 rows a group, or 2,000 for each class.

    Examples
    --------
    >>> import pandas as pd
    >>> import calibrant.frames
    >>> games = pd.DataFrame({"p": [0.2, 0.8, 0.8, 0.2], "won": [0, 1, 1, 0], "site": ["a", "a", "b", "b"]})
    >>> sketch = calibrant.frames.sketch(games, score="p", outcome="won")
    >>> sketch
    <CalibrationSketch: 4 rows, positive, standard grid, 176 kB>
    >>> round(calibrant.expected_calibration_error(sketch), 12)
    0.2
    >>> calibrant.frames.sketch(games, score="p", outcome="won", by="site")["b"].n
    2
    """
    source, outcome = with_expression(as_frame(frame), "outcome", outcome)
    source, score = with_expression(source, "score", score)
    columns = resolve_columns(
        source,
        score=score,
        outcome=outcome,
        probs=probs,
        target=target,
        weight=weight,
        by=by,
        class_names=class_names,
        cluster=cluster,
    )
    config = resolve_config(columns, notion, classwise, grid)
    check_weights_are(weights_are, given=weight is not None)
    source = alike_in_engines(source, columns)
    if weights_are == "sampling":
        source, columns = sampled(source, columns)
    with _engine_errors():
        sums_by_group, source = _gathered(source, columns, config)
        if not sums_by_group:
            remedy = "leave weight out, to count every row once"
            raise NothingJudgedError("weight", "at least one weight above 0", "only weights of 0", remedy)
        if weights_are == "frequency" and not all(part.totals.whole for part in sums_by_group.values()):
            remedy = "pass whole numbers, or leave weights_are out, because fractional weights are sampling weights"
            raise InputError("weight", "whole numbers, because weights_are='frequency'", "fractions", remedy)
        if columns.labels:
            of_clusters = clusters.gather(source, columns, config)
            sums_by_group = {group: part._replace(clusters=of_clusters[group]) for group, part in sums_by_group.items()}
    if by is None:
        return CalibrationSketch.of_parts(config, sums_by_group[None])
    named = {group_name(name): part for name, part in sums_by_group.items()}
    if len(named) < len(sums_by_group):
        remedy = "convert the column to one type first"
        raise InputError("by", "distinct names", f"several values of {by!r} with the same text", remedy)
    return {name: CalibrationSketch.of_parts(config, named[name]) for name in sorted(named)}


def _gathered(source: Frame, columns: Columns, config: SketchConfig) -> tuple[dict[Any, SketchSums], Frame]:
    """Return the sums of each group, and the frame; scores that are outside [0, 1] by rounding alone are 0 or 1."""
    try:
        return grid_sums.gather(source, columns, config, lambda: wrong_rows.explain(source, columns)), source
    except InputError as error:
        counts = rows.n_rounded(source, columns) if error.fault is Fault.OUTSIDE_RANGE else {}
        if not any(counts.values()):
            raise
    clipped = rows.without_rounding(source, columns)
    sums_by_group = grid_sums.gather(clipped, columns, config, lambda: wrong_rows.explain(clipped, columns))
    for group, part in sums_by_group.items():
        part.totals.rounded = counts.get(group, 0)
    return sums_by_group, clipped


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn what an engine raises about values that it cannot add up into an error of the library."""
    try:
        yield
    except (CalibrantError, MemoryError):
        raise
    except Exception as error:  # each of eight engines has errors of its own
        first = (str(error).strip().splitlines() or [""])[0]
        got, remedy = f"{type(error).__name__}: {first}", "cast the column in the frame to float64, int64 or text"
        raise InputError("frame", "columns that the engine of the frame can add up", got, remedy) from error
