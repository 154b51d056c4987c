"""Maps as SQL of Spark, in a Spark of this machine: the same numbers as those of Python.

Run with: pytest -m spark
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calibrant
from tests.frames.test_spark import pytestmark as pytestmark
from tests.frames.test_spark import spark as spark
from tests.frames.test_spark import table as table
from tests.recalibration.test_maps import NAMES, POINTS, fitted

#: SQL takes logarithms in double precision, Python takes those of float32 probabilities in float32, to 1e-7.
TOLERANCES = {np.float64: 1e-12, np.float32: 1e-6}
INVALID = [None, math.nan, 1.5, -0.1, math.inf, -math.inf]


def mapped(frame: Any, sql: str) -> list[float | None]:
    """The values of an expression, in the order of the rows."""
    rows = frame.selectExpr("i", f"{sql} AS q").collect()
    return [row.q for row in sorted(rows, key=lambda row: row.i)]


@pytest.mark.parametrize("method", NAMES)
def test_sql_of_spark_equals_python(table: Any, method: str) -> None:
    fix = fitted(method)
    scores = pa.array([*POINTS.tolist(), *INVALID], pa.float64())
    values = mapped(table({"p": scores, "i": np.arange(len(scores))}), fix.to_sql("p"))
    assert values[len(POINTS) :] == [None] * len(INVALID)
    np.testing.assert_allclose(np.array(values[: len(POINTS)], np.float64), fix(POINTS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["the score", "a`b", "größe", "p-1", "a.b"])
@pytest.mark.parametrize("method", ["identity", "isotonic"])
def test_a_name_is_quoted_for_spark(table: Any, method: str, name: str) -> None:
    fix = fitted(method)
    x = np.array([0.0, 0.25, 1.0])
    values = mapped(table({name: x, "i": np.arange(3)}), fix.to_sql(name, quote="`"))
    np.testing.assert_allclose(np.array(values, np.float64), fix(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["cox", "histogram"])
def test_float32_scores_are_mapped_as_numbers_in_spark(table: Any, method: str) -> None:
    fix = fitted(method)
    x = np.linspace(0, 1, 401, dtype=np.float32)
    values = mapped(table({"p": x, "i": np.arange(len(x))}), fix.to_sql("p"))
    np.testing.assert_allclose(np.array(values, np.float64), fix(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["identity", "temperature", "vector"])
def test_sql_of_classes_of_spark_equals_python(table: Any, method: str, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet([0.3, 0.5, 0.8], 2_000)
    p[::50, 0] = 0
    p /= p.sum(axis=1, keepdims=True)
    y = (rng.random(2_000)[:, None] > np.cumsum(p**0.7 / (p**0.7).sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    fix = calibrant.recalibrate(p, y.clip(max=2), method=method, n_resamples=0).map
    valid = np.concatenate([p, np.eye(3)]).astype(dtype)
    invalid = [[None, 0.5, 0.5], [math.nan, 0.5, 0.5], [1.5, -0.25, -0.25], [0.5, 0.2, 0.2]]
    columns = {
        f"class {k}": pa.array([*valid[:, k].tolist(), *(row[k] for row in invalid)], pa.from_numpy_dtype(dtype))
        for k in range(3)
    }
    i = np.arange(len(valid) + len(invalid))
    frame = table({**columns, "i": i})
    for k, sql in enumerate(fix.to_sql(list(columns), quote="`")):
        values = mapped(frame, sql)
        assert values[len(valid) :] == [None] * len(invalid)
        np.testing.assert_allclose(np.array(values[: len(valid)]), fix(valid)[:, k], rtol=0, atol=TOLERANCES[dtype])
