"""`sketch`: the sketch of predictions that lie in a frame, worked out by the frame's own engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from calibrant import grid as grids
from calibrant.errors import InputError, NothingJudgedError
from calibrant.frames import cells, faults
from calibrant.frames.columns import as_frame, resolve_columns, resolve_judgement
from calibrant.inputs import Notion, group_name
from calibrant.sketch import CalibrationSketch


@overload
def sketch(
    frame: Any,
    *,
    score: str | None = ...,
    outcome: str | None = ...,
    probs: Sequence[str] | None = ...,
    target: str | None = ...,
    weight: str | None = ...,
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
    score: str | None = ...,
    outcome: str | None = ...,
    probs: Sequence[str] | None = ...,
    target: str | None = ...,
    weight: str | None = ...,
    notion: Notion | None = ...,
    classwise: bool = ...,
    class_names: Sequence[str] | None = ...,
    grid: grids.Grid = ...,
) -> dict[str, CalibrationSketch]: ...


def sketch(
    frame: Any,
    *,
    score: str | None = None,
    outcome: str | None = None,
    probs: Sequence[str] | None = None,
    target: str | None = None,
    weight: str | None = None,
    by: str | None = None,
    notion: Notion | None = None,
    classwise: bool = False,
    class_names: Sequence[str] | None = None,
    grid: grids.Grid = "standard",
) -> CalibrationSketch | dict[str, CalibrationSketch]:
    r"""Sketch the predictions in a DataFrame, a table or a query, where they are.

    The engine of the frame does the counting, in one query; what comes back is a row for each occupied cell, however
    many rows there are. The sketch is the one that `CalibrationSketch.update` makes of the same numbers: the same
    cells and counts, sums that agree to 1e-12 of themselves.

    Parameters
    ----------
    frame : DataFrame, table, query
        Of pandas, Polars (eager or lazy), PyArrow, DuckDB (a relation), Ibis, Dask or PySpark; it is not changed.
    score, outcome : str
        Of one event: the columns of the probability that it happens, and of what happened (0 and 1, booleans, or the
        names of `class_names`, the event last).
    probs, target : list of str, str
        Of classes: the columns of their probabilities, and that of the true class, an index from 0 in the order of
        ``probs``, or a name of `class_names`.
    weight : str, optional
        The column of the rows' frequency weights: 2 counts a row twice. Rows of weight 0 are left out.
    by : str, optional
        The column of the rows' groups.
    notion : {"positive", "top-label", "classwise"}, optional
        The judged event, as in `expected_calibration_error`; by default "positive" of one event and "top-label" of
        classes.
    classwise, class_names, grid
        As in `CalibrationSketch`.

    Returns
    -------
    CalibrationSketch or dict of str to CalibrationSketch
        With ``by`` the sketch of each group, by its name; groups without weight are left out.

    Raises
    ------
    calibrant.errors.InputError
        For a column that is not there or not of a fitting type, and with the number of rows for missing values (null or
        NaN), scores outside [0, 1], rows of classes that do not sum to 1, unknown labels, negative weights. No
        row is dropped in silence.
    calibrant.errors.MissingDependencyError
        Without PyArrow, for engines that hand over their rows through it (DuckDB, Ibis, PySpark).

    Notes
    -----
    Scores of float32 (and of smaller types) are compared with edges rounded to float32, everything else as float64.
    Arithmetic alone finds the cell, up to some 1e-7 of a cell; scores nearer to an edge, about one in a million, come
    back unchanged and are placed here. So no table is sent to the engine, and nothing is written.

    Cost: one pass of the engine over the columns, and with the curves of single classes, a row for each row and class.

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
    own = as_frame(frame)
    columns = resolve_columns(
        own, score=score, outcome=outcome, probs=probs, target=target, weight=weight, by=by, class_names=class_names
    )
    wanted = resolve_judgement(columns, notion, classwise, grid)
    found = cells.gather(own, columns, wanted, lambda: faults.explain(own, columns))
    make = cells.make_of(columns, wanted)
    if not found:
        remedy = "leave weight out to count every row once"
        raise NothingJudgedError("weight", "at least one above 0", "only zeros", remedy)
    if by is None:
        return CalibrationSketch.of_parts(make, found[None])
    named = {group_name(name): part for name, part in found.items()}
    if len(named) < len(found):
        remedy = "convert the column to one type first"
        raise InputError("by", "distinct names", f"several in {by!r} that are written alike", remedy)
    return {name: CalibrationSketch.of_parts(make, named[name]) for name in sorted(named)}
