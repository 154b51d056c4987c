"""Cases of tables and sketches: their content, what is stored of them, and the sketches that engines count."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from same_numbers.inputs import CLASSES, CLUSTERS, DESIGNS, EVENT, FRACTIONS, GROUPS, KINDS, MAIN_DESIGNS, WHOLE, Data
from same_numbers.public import Public, call
from same_numbers.reports import Cases, filled
from same_numbers.values import attempt, plain

calibrant = Public("calibrant")
frames = Public("calibrant.frames")

_NAMES = ("bird", "cat", "dog")


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    yield from _sketches()
    yield from _tables()
    yield from _frames()


# ---------------------------------------------------------------- sketches


def _sketches() -> Cases:
    for kind, data in KINDS.items():
        for design, given in DESIGNS.items():
            yield f"sketch: {kind}, {design}", lambda d=data, g=given: filled(d, g)
        for design, given in MAIN_DESIGNS.items():
            makes: dict[str, dict[str, Any]] = {"fine grid": {"grid": "fine"}, "groups": {"groups": GROUPS}}
            if kind == "top label":
                makes["classes too"] = {"classwise": True, "class_names": _NAMES}
                makes["classes too, groups"] = {"classwise": True, "groups": GROUPS}
            for said, make in makes.items():
                yield (
                    f"sketch: {kind}, {design}, {said}",
                    lambda d=data, g=given, m=make: _everything(filled(d, g, **m)),
                )
    yield "sketch: logits", lambda: _updated(EVENT.probs * 4 - 2, EVENT.targets, logits=True)
    yield "sketch: left out", lambda: _updated(CLASSES.probs, CLASSES.targets, ignore_index=1)
    yield "sketch: single precision", lambda: _updated(CLASSES.probs.astype(np.float32), CLASSES.targets)
    yield "sketch: sketches of groups", _of_groups


def _updated(probs: Any, targets: Any, **options: Any) -> Any:
    sketch = calibrant.CalibrationSketch()
    call(sketch, "update", probs, targets, **options)
    return sketch


def _of_groups() -> Any:
    parts = {name: _taken(EVENT, name) for name in ("a", "b")}
    return _everything(calibrant.CalibrationSketch.of_groups({name: filled(data, {}) for name, data in parts.items()}))


def _taken(data: Data, group: str) -> Data:
    rows = group == GROUPS
    return Data(data.probs[rows], data.other[rows], data.targets[rows])


def _everything(sketch: Any) -> dict[str, Any]:
    """Return what a sketch holds, and what is stored of it and read again."""
    cls = calibrant.CalibrationSketch
    read: dict[str, Callable[[], Any]] = {
        "bytes": lambda: cls.from_bytes(call(sketch, "to_bytes")),
        "JSON": lambda: cls.from_json(call(sketch, "to_json")),
        "Arrow": lambda: cls.from_arrow(call(sketch, "to_arrow")),
        "file": lambda: _stored(sketch),
    }
    twice = filled(EVENT, {})
    merged = attempt(lambda: call(twice, "merge", sketch))
    return {
        "sketch": sketch,
        "facts": {name: call(sketch, name) for name in ("n", "notion", "n_classes", "nbytes")},
        "groups": dict(call(sketch, "groups")),
        "table": attempt(lambda: call(sketch, "table")),
        "tables of classes": attempt(lambda: call(sketch, "class_tables")),
        "Arrow": attempt(lambda: call(sketch, "to_arrow")),
        "read again": {name: attempt(lambda make=make: make() == sketch) for name, make in read.items()},
        "merged with another": [merged, twice],
        "added": attempt(lambda: call(sketch, "__add__", sketch)),
    }


def _stored(sketch: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sketch.cal"
        call(sketch, "save", path)
        return calibrant.CalibrationSketch.load(path)


# ---------------------------------------------------------------- tables


def _tables() -> Cases:
    cls = calibrant.ReliabilityTable
    for said, weights in (("rows", None), ("weights", FRACTIONS), ("whole weights", WHOLE)):
        for grid in (None, "standard", "fine"):
            yield (
                f"table: {said}, grid {grid}",
                lambda w=weights, g=grid: _content(cls.from_scores(EVENT.probs, EVENT.targets, weights=w, grid=g)),
            )
        yield (
            f"table: {said}, of predictions",
            lambda w=weights: _content(cls.from_predictions(CLASSES.probs, CLASSES.targets, weights=w)),
        )


def _content(table: Any) -> dict[str, Any]:
    """Return what a table holds, and what is stored of it and read again."""
    names = ("total", "sums", "residuals", "square_residuals")
    return {
        "table": table,
        **{name: call(table, name) for name in names},
        "Arrow": call(table, "to_arrow"),
        "read again": plain(calibrant.ReliabilityTable.from_arrow(table.to_arrow())) == plain(table),
        "on a grid": attempt(lambda: call(table, "on_grid", "fine")),
        "added": call(table, "__add__", table),
    }


# ---------------------------------------------------------------- frames


def _frames() -> Cases:
    columns = {
        "score": EVENT.probs,
        "outcome": EVENT.targets,
        "word": np.where(EVENT.targets == 1, "yes", "no"),
        **{f"p{k}": CLASSES.probs[:, k] for k in range(3)},
        "target": CLASSES.targets,
        "weight": FRACTIONS,
        "whole": WHOLE,
        "cluster": CLUSTERS,
        "text": np.array([f"patient {c}" for c in CLUSTERS]),
        "group": GROUPS,
    }
    event, classes = {"score": "score"}, {"probs": ["p0", "p1", "p2"], "target": "target"}
    whole = {"weight": "whole"}
    asked: dict[str, dict[str, Any]] = {
        "an event": {**event, "outcome": "outcome"},
        "names": {**event, "outcome": "word", "class_names": ["no", "yes"], "notion": "positive"},
        "weights": {**event, "outcome": "outcome", "weight": "weight"},
        "weights of a survey": {**event, "outcome": "outcome", **whole, "weights_are": "sampling"},
        "clusters": {**event, "outcome": "outcome", "cluster": "cluster"},
        "clusters of text, weights": {**event, "outcome": "outcome", "cluster": "text", "weight": "weight"},
        "two labels": {**event, "outcome": "outcome", "cluster": ["group", "cluster"]},
        "groups": {**event, "outcome": "outcome", "by": "group", "cluster": "cluster", **whole},
        "fine grid": {**event, "outcome": "outcome", "grid": "fine"},
        "classes": classes,
        "classes too": {**classes, "classwise": True},
        "classwise": {**classes, "notion": "classwise", **whole},
        "classes, clusters": {**classes, "classwise": True, "cluster": "text", "by": "group"},
        "a column that is missing": {**event, "outcome": "nothing"},
    }
    for engine in ("pandas", "duckdb"):
        for said, options in asked.items():
            yield f"frame: {engine}, {said}", lambda e=engine, o=options: frames.sketch(_frame(e, columns), **o)


def _frame(engine: str, columns: dict[str, np.ndarray]) -> Any:
    """Return a table in an engine that adds up in the same order each time, which Polars does not."""
    if engine == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    import duckdb
    import pyarrow

    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.register("predictions", pyarrow.table(columns))
    return connection.table("predictions")
