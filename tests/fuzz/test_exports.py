"""Roles of columns: for every export of `exports`, the right numbers or a question, and no wrong command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exports import PROPOSES, READS, REFUSES, ROWS, Export, exports
from numpy.typing import NDArray

from tests.in_process import run
from tests.reading_of import read_predictions

duckdb = pytest.importorskip("duckdb", reason="the report extra is not installed")
from calibrant.errors import FileError, FileFault  # noqa: E402
from calibrant.files.column_options import Unnamed  # noqa: E402

NAMES = sorted(exports(0))


@pytest.fixture(scope="module")
def takes_sql(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether ``--outcome`` takes an expression: then the proposed ones are read as they stand."""
    path = tmp_path_factory.mktemp("sql") / "a.csv"
    path.write_text("score,a,b\n0.5,1,1\n0.5,1,0\n")
    try:
        return read_predictions([str(path)], score="score", outcome="a = b").targets.tolist() == [1, 0]
    except FileError as error:
        if error.fault is FileFault.NO_SUCH_COLUMN:
            return False
        raise


def brier(probs: NDArray[Any], outcomes: NDArray[Any]) -> float:
    """The Brier score, row by row."""
    rows = np.asarray(probs, float)
    truth = outcomes if rows.ndim == 1 else np.eye(rows.shape[1])[outcomes]
    return float(((rows - truth) ** 2).reshape(len(rows), -1).sum(axis=1).mean())


def read(export: Export, path: str, options: tuple[str, ...], takes_sql: bool) -> float:
    """Read the file with options, and return the Brier score of what was read."""
    known: dict[str, Any] = {
        name.removeprefix("--"): value for name, value in zip(options[::2], options[1::2], strict=True)
    }
    known.pop("notion", None)
    if "labels" in known:
        known["labels"] = known["labels"].split(",")
    if is_sql(options) and not takes_sql:  # the engine says what the expression means
        table = duckdb.sql(f"SELECT \"{known['score']}\"::DOUBLE, ({known['outcome']})::INT FROM '{path}'")
        probs, outcomes = np.array(table.fetchall()).T
        return brier(probs, outcomes)
    rows = read_predictions([path], **known)
    targets = rows.targets
    labels = known.get("labels") or rows.class_names or export.labels
    if targets.dtype.kind in "OU":  # the command asks which label is the event, and proposes it
        names = [label.lower() for label in labels]
        targets = np.array([names.index(str(target).lower()) for target in targets])
    return brier(rows.probs, targets.astype(int))


def is_sql(options: tuple[str, ...]) -> bool:
    return "--outcome" in options and "=" in options[options.index("--outcome") + 1]


@pytest.mark.parametrize("name", NAMES)
def test_an_export_is_read_rightly_or_asked_about(name: str, tmp_path: Path, takes_sql: bool) -> None:
    export = exports(0)[name]
    path = export.write(tmp_path)
    right = [pytest.approx(brier(*each), abs=1e-9) for each in export.right]
    if export.answer == READS:
        assert read(export, path, (), takes_sql) == right[0]
        return
    with pytest.raises(Unnamed) as caught:
        read(export, path, (), takes_sql)
    error = caught.value
    if export.answer == REFUSES:  # and names no column, unless under a condition
        assert error.options == ()
        assert all(reading.always for reading in error.readings)
        return
    assert (export.answer == PROPOSES) == bool(error.options)
    commands = [error.options] if error.options else [reading.options for reading in error.readings]
    values = [read(export, path, options, takes_sql) for options in commands]
    assert all(value in right for value in values)
    assert right[0] in values


def among_features(export: Export) -> Export:
    """The same with columns that have nothing to do with the predictions, before and after."""
    rng = np.random.default_rng(5)
    before = {"Unnamed: 0": np.arange(ROWS), "ratio": rng.random(ROWS).round(3), "smoker": rng.integers(0, 2, ROWS)}
    after = {"region": rng.choice(["north", "south", "west"], ROWS), "weight_kg": rng.normal(70, 9, ROWS).round(1)}
    return replace(export, columns={**before, **export.columns, **after})


VARIANTS: dict[str, Callable[[Export], Export]] = {
    "reversed": lambda export: replace(export, columns=dict(reversed(export.columns.items()))),
    "among features": among_features,
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_columns_and_other_columns_give_no_wrong_number(
    name: str, variant: str, tmp_path: Path, takes_sql: bool
) -> None:
    """Other columns may lead to a question: then one command is right, and the others name them, or there is none."""
    export = VARIANTS[variant](exports(1)[name])
    path = export.write(tmp_path, ("csv", "parquet", "jsonl")[NAMES.index(name) % 3])
    right = [pytest.approx(brier(*each), abs=1e-9) for each in export.right]
    right += [pytest.approx(brier(each[:, ::-1], each.shape[1] - 1 - k)) for each, k in export.right if each.ndim > 1]
    try:
        value = read(export, path, (), takes_sql)
    except Unnamed as error:
        assert export.answer != READS
        readings = [error.options] if error.options else [each.options for each in error.readings if not each.always]
        plain = [
            options for options in readings if options and not {"smoker", "ratio"} & set(" ".join(options).split())
        ]
        values = [read(export, path, options, takes_sql) for options in plain]
        if export.answer != REFUSES:
            assert all(value in right for value in values), readings
            assert len(readings) > 1 or readings == plain or not any(readings)
            assert right[0] in values or not any(readings)
    else:
        assert export.answer == READS
        assert value == right[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_an_export_is_told_to_type_gives_the_right_numbers(name: str, tmp_path: Path, takes_sql: bool) -> None:
    """Type every command of every message, to the end."""
    export = exports(NAMES.index(name) % 3)[name]
    right = [pytest.approx(brier(*each), abs=1e-9) for each in export.right]
    waiting, values = [shlex.join(["calibrant", "report", export.write(tmp_path), "--n-resamples", "0"])], []
    typed = list(waiting)
    while waiting:
        line = waiting.pop()
        status, out, err = run(*shlex.split(line)[1:], "--json", "-")
        if status == 0:
            values.append(json.loads(out)["estimates"]["brier"]["value"])
            continue
        message = " ".join(err.split()).replace(" --json -", "")
        if "(--outcome)" in message:
            assert not takes_sql
            continue
        proposals = re.findall(r"(?:type|such as): (calibrant .+?)(?=; \(\d+\) |; if |$)", message)
        assert proposals or export.answer == REFUSES, message
        if export.answer != REFUSES:
            waiting += [each for each in proposals if each not in typed]
            typed += proposals
    assert all(value in right for value in values)
    assert bool(values) == (export.answer != REFUSES) or not takes_sql
